"""Checks of what a problem is made of: the errors that users read."""

from __future__ import annotations

from typing import Any

import numpy as np

from maxmargin import losses
from maxmargin.data.rows import Array
from maxmargin.data.sizes import available_memory, in_words
from maxmargin.losses import Loss

_AT_ONCE = 1 << 20  # rows that are looked at together: nothing else is made that is as long as all rows
_BYTES_A_FEATURE = 32  # the weights, a gradient, a step, and what a method needs beside them
_MANY_FEATURES = 1 << 24  # below that, memory is not looked at
_LARGEST = 1e150  # that C |x|^2 of all rows may be: squares of such sums are computed


def check_vector(name: str, vector: Any, n: int, what: str) -> Array:
    """A float64 vector of n entries; kernels do not look where they step."""
    vector = np.ascontiguousarray(vector, dtype=np.float64)
    if vector.shape != (n,):
        raise ValueError(f"the problem has {n} {what}, but {name} has shape {vector.shape}")
    return vector


def check_features(n_weights: int) -> None:
    """Refuse more features than the memory that is free has room for weights of: a wrong index in a file, mostly."""
    if n_weights >= _MANY_FEATURES and n_weights * _BYTES_A_FEATURE > available_memory():
        raise MemoryError(
            f"there are {n_weights:,} features: vectors of weights alone take {in_words(n_weights * _BYTES_A_FEATURE)},"
            " more than the memory that is free. Is the largest feature index a mistake?"
        )


def check_labels(y: Any, n: int, loss: Loss) -> Array:
    """Labels or targets of n rows as an array; refused if the loss cannot take them."""
    y = np.ascontiguousarray(y, dtype=np.float64)
    if y.shape != (n,):
        raise ValueError(f"X has {n} rows but y has shape {y.shape}")
    is_margin = losses.is_margin_loss(loss)
    for begin in range(0, n, _AT_ONCE):
        part = y[begin : begin + _AT_ONCE]
        wrong = np.flatnonzero(np.abs(part) != 1.0 if is_margin else ~np.isfinite(part))
        if len(wrong):
            i = begin + int(wrong[0])
            what = f"labels must be -1 and +1, but y[{i}] is {y[i]:g}"
            raise ValueError(what if is_margin else f"y[{i}] is {y[i]}; targets must be finite")
    return y


def costs(source: Any, C: float, sample_weight: Any) -> Array:
    """C times the weights of all rows of a source, in a vector of its own."""
    weights = None if sample_weight is None else check_weights(sample_weight, source.n_rows)
    vector = source.new_vector(np.float64)
    for begin in range(0, source.n_rows, _AT_ONCE):
        part = slice(begin, begin + _AT_ONCE)
        vector[part] = C if weights is None else C * weights[part]
        source.release([vector], begin, begin + _AT_ONCE)
    return vector


def check_scale(C: float, norms2: Array) -> None:
    """Refuse numbers whose products, squared, would leave the range of float64."""
    with np.errstate(over="ignore"):
        total = float(C) * max(1.0, float(norms2.max(initial=0.0))) * len(norms2)
    if not total < _LARGEST:
        longest = float(np.sqrt(norms2.max(initial=0.0)))
        raise ValueError(
            f"C = {C:g} and rows of a length up to {longest:.3g} are too large for float64, which holds numbers up to "
            "1e308: scale the features, or lower C"
        )


def check_weights(sample_weight: Any, n: int, *, may_be_zero: bool = False) -> Array:
    """Weights of n rows as an array: those given, or one number for all of them, or ones.

    Negative weights, those that are not finite, and nothing but zeros (unless that may be) are refused.
    """
    if sample_weight is None:
        return np.ones(n)
    weights = np.asarray(sample_weight, dtype=np.float64)
    weights = np.ascontiguousarray(weights) if weights.ndim else np.full(n, float(weights))
    if weights.shape != (n,):
        raise ValueError(f"X has {n} rows but sample_weight has shape {weights.shape}")
    wrong = np.flatnonzero(~(np.isfinite(weights) & (weights >= 0.0)))
    if len(wrong):
        raise ValueError(f"sample_weight[{wrong[0]}] is {weights[wrong[0]]}; weights must be finite and >= 0")
    if not may_be_zero and not weights.any():
        raise ValueError("all sample weights are zero: there is nothing to learn from")
    return weights
