"""Kernel functions, and their values of one row against many support vectors at once.

A kernel function k(x, z) is a NamedTuple tag: `RBF(gamma)`, `Linear()`, `Polynomial(degree, gamma, coef0)`,
`Sigmoid(gamma, coef0)` (`functions`). `support` has the values of rows with support vectors, `exponential` what makes
those of `RBF` fast.

What float32 cannot do: |x - z|^2 is computed as |x|^2 + |z|^2 - 2 x'z, whose error is about 1e-7 |x|^2 however close x
and z are. `precision_for` says when that is too much.
"""

from maxmargin.kernels.exponential import Double, Single, exp
from maxmargin.kernels.functions import (
    RBF,
    TAGS,
    Kernel,
    Linear,
    Polynomial,
    Sigmoid,
    from_products,
    get,
    is_positive,
    name_of,
    names,
    precision_for,
    with_itself,
)
from maxmargin.kernels.support import (
    GROUP,
    Support,
    as_support,
    choose_group,
    combine,
    decision_values,
    group_width,
    kernel_matrix,
    kernel_row,
    move_vector,
    new_support,
    padded,
    place_vector,
    product_with,
    products,
    products_of_group,
    set_vector,
)

__all__ = [
    "GROUP",
    "RBF",
    "TAGS",
    "Double",
    "Kernel",
    "Linear",
    "Polynomial",
    "Sigmoid",
    "Single",
    "Support",
    "as_support",
    "choose_group",
    "combine",
    "decision_values",
    "exp",
    "from_products",
    "get",
    "group_width",
    "is_positive",
    "kernel_matrix",
    "kernel_row",
    "move_vector",
    "name_of",
    "names",
    "new_support",
    "padded",
    "place_vector",
    "precision_for",
    "product_with",
    "products",
    "products_of_group",
    "set_vector",
    "with_itself",
]
