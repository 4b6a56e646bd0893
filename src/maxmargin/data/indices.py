"""What the indices of svmlight text count from: remembered with the matrix, and compared where that is used.

A text without an index 0 does not tell whether its indices count from 0 or from 1. Read by itself it is taken as
counted from 1; a model that was trained on a text with an index 0 would then find every feature in its neighbour's
place. So a matrix that was read says how it was read, estimators and model files remember it, and `load_svmlight` can
be told to read ``like`` them.
"""

from __future__ import annotations

from typing import Any, NamedTuple


class IndexBase(NamedTuple):
    """How the indices of a text were read."""

    first_index: int  # 0 or 1
    is_certain: bool  # by the text itself or by the user, not by habit
    name: str  # of the text


def mark(X: Any, base: IndexBase) -> Any:
    """Let a matrix say how the indices of its text were read; its slices and copies do not."""
    X.svmlight_indices = base
    return X


def index_base(X: Any) -> IndexBase | None:
    """What a matrix says; None if it did not come from text."""
    base = getattr(X, "svmlight_indices", None)
    return base if isinstance(base, IndexBase) else None


def check_same_base(X: Any, first_index: int | None) -> None:
    """Refuse rows that were read by habit in another way than those that a model was trained on."""
    base = index_base(X)
    if base is None or base.is_certain or first_index in (None, base.first_index):
        return
    raise ValueError(
        f"{base.name} has no index 0, so its indices were taken as counted from {base.first_index}; those that the "
        f"model was trained on counted from {first_index}: read it with load_svmlight(..., like=model), or, if its "
        f"indices really count from {base.first_index}, with zero_based={base.first_index == 0}"
    )


def features_like(like: Any) -> tuple[int, int | None]:
    """The number of features, and what indices count from (None: not known), of a matrix or a model."""
    n_features = getattr(like, "n_features_in_", None)
    if n_features is not None:
        first_index = getattr(like, "first_index_", getattr(like, "first_index", None))
        return int(n_features), None if first_index is None else int(first_index)
    shape: Any = getattr(like, "shape", ())
    if len(shape) != 2:
        raise TypeError(f"like must be a matrix that load_svmlight has read, or a fitted model, not {like!r:.80}")
    base = index_base(like)
    return int(shape[1]), None if base is None else base.first_index
