"""A fitted model as the numbers that predictions need, whatever estimator has found them."""

from __future__ import annotations

import itertools
from typing import Any, NamedTuple

import numpy as np

from maxmargin.data.rows import Array


class Machine(NamedTuple):
    """Outputs ``f_c(x) = sum_j coefficients[c, j] k(x, vectors[j]) + intercepts[c]``.

    Without vectors the model is linear, ``f_c(x) = sum_j coefficients[c, j] x_j + intercepts[c]``.

    Attributes
    ----------
    kind : str
        Name of the estimator.
    n_features : int
    kernel : kernel object or None
    vectors : ndarray of shape (n_support, n_features) or None
    coefficients : ndarray of shape (n_outputs, n_support) or (n_outputs, n_features)
    intercepts : ndarray of shape (n_outputs,)
    classes : ndarray of shape (n_classes,) or None
        None: a regressor. One output for two classes, the second's; else one for each, or one for each pair.
    has_probabilities : bool
        Whether a logistic curve of the outputs is a probability.
    is_one_vs_one : bool
        Whether outputs are of pairs of classes, (0, 1), (0, 2), ..., positive for the first, and the most votes win.
    breaks_ties : bool
        Whether the margins of pairs decide between classes with equally many votes; else the first wins.
    decides_pairs : bool
        Whether `decision_function` is of pairs.

    Examples
    --------
    >>> from maxmargin import LinearSVR
    >>> machine_of(LinearSVR().fit([[0.0], [1.0]], [0.0, 2.0])).kind
    'LinearSVR'
    """

    kind: str
    n_features: int
    kernel: Any
    vectors: Array | None
    coefficients: Array
    intercepts: Array
    classes: Array | None
    has_probabilities: bool
    is_one_vs_one: bool = False
    breaks_ties: bool = False
    decides_pairs: bool = False

    @property
    def pairs(self) -> Array:
        """The two classes of each output, one against one."""
        assert self.classes is not None
        return np.array(list(itertools.combinations(range(len(self.classes)), 2)))


def machine_of(estimator: Any) -> Machine:
    """The numbers of a fitted estimator.

    Parameters
    ----------
    estimator : estimator
        Fitted, of this package.

    Returns
    -------
    Machine

    Raises
    ------
    ValueError
        If the model has nothing to decide yet, or predicts in another way.

    Examples
    --------
    >>> from maxmargin import LinearSVC
    >>> machine = machine_of(LinearSVC().fit([[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1]))
    >>> machine.coefficients.shape, machine.classes.tolist()
    ((1, 1), [0, 1])
    """
    from sklearn.utils.validation import check_is_fitted

    kind = type(estimator).__name__
    if not type(estimator).__module__.startswith("maxmargin."):
        raise TypeError(f"only estimators of maxmargin can be exported, not a {kind}")
    check_is_fitted(estimator, "intercept_")
    classes = getattr(estimator, "classes_", None)
    if hasattr(estimator, "offset_"):  # a one-class machine: inside or not
        classes = np.array([-1, 1])
    if classes is not None and len(classes) < 2:
        raise ValueError(f"a model of a single class, {classes[0]}: nothing to decide")
    kernel, vectors, coefficients = _expansion(estimator)
    intercepts = np.asarray(estimator.intercept_, dtype=np.float64)
    is_one_vs_one = bool(getattr(estimator, "is_one_vs_one", False))
    n_outputs = 1 if classes is None or len(classes) == 2 else len(classes)
    if is_one_vs_one and classes is not None:
        n_outputs = n_outputs * (n_outputs - 1) // 2
    if len(coefficients) != n_outputs or intercepts.shape != (n_outputs,):
        raise ValueError(f"a {kind} with {len(coefficients)} outputs for {n_outputs} decisions cannot be exported")
    return Machine(
        kind,
        int(estimator.n_features_in_),
        kernel,
        vectors,
        np.asarray(coefficients, dtype=np.float64),
        intercepts,
        classes,
        hasattr(estimator, "loss") and hasattr(estimator, "predict_proba"),
        is_one_vs_one,
        bool(getattr(estimator, "break_ties", False)),
        getattr(estimator, "decision_function_shape", "ovr") == "ovo",
    )


def _expansion(estimator: Any) -> tuple[Any, Array | None, Array]:
    """Kernel, vectors and coefficients; of a linear model no vectors."""
    if not hasattr(estimator, "support_vectors_"):
        return None, None, np.atleast_2d(estimator.coef_)
    from maxmargin import kernels

    kernel = estimator.kernel_
    if not isinstance(kernel, kernels.TAGS):
        raise ValueError(f"a model with the kernel {kernel!r} cannot be exported: its values come from elsewhere")
    if getattr(estimator, "_fourier", None) is not None:
        raise ValueError('a model of solver "fourier" has no support vectors, and cannot be exported yet')
    if isinstance(kernel, kernels.Linear) and hasattr(estimator, "coef_"):
        return None, None, np.atleast_2d(_dense(estimator.coef_))
    vectors, coefficients = np.ascontiguousarray(_dense(estimator.support_vectors_)), _dense(estimator.dual_coef_)
    if getattr(estimator, "is_one_vs_one", False):
        coefficients = _of_pairs(coefficients, np.repeat(np.arange(len(estimator.n_support_)), estimator.n_support_))
    return kernel, vectors, coefficients


def _of_pairs(coefficients: Array, codes: Array) -> Array:
    """A row for each pair of classes, from LIBSVM's layout; `codes` has the class of each support vector."""
    pairs = itertools.combinations(range(len(coefficients) + 1), 2)
    rows = [np.where(codes == i, coefficients[j - 1], np.where(codes == j, coefficients[i], 0.0)) for i, j in pairs]
    return np.stack(rows)


def _dense(matrix: Any) -> Array:
    return matrix.toarray() if hasattr(matrix, "toarray") else np.asarray(matrix)
