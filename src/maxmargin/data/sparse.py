"""Sparse matrices made by hand can point outside their arrays; compiled code, ours and scipy's, does not look."""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np


def check_sparse(X: Any, *, trust_columns: bool = False) -> None:
    """Refuse a scipy.sparse matrix or array whose parts do not fit each other; anything else passes.

    Parameters
    ----------
    X : object
    trust_columns : bool
        Do not look at the column indices of a CSR matrix, because somebody else will.

    Raises
    ------
    ValueError
        Which names what does not fit.

    Examples
    --------
    >>> from scipy.sparse import csr_matrix
    >>> X = csr_matrix([[0.0, 1.0]])
    >>> X.indptr[1] = 7
    >>> check_sparse(X)
    Traceback (most recent call last):
        ...
    ValueError: malformed sparse matrix: indptr ends at 7, but 1 values are stored
    """
    if not hasattr(X, "tocsr"):
        return
    if len(X.shape) != 2:
        _refuse(f"it has {len(X.shape)} dimensions, not rows and features")
    check = {"csr": _check_compressed, "csc": _check_compressed, "bsr": _check_blocks, "coo": _check_triples}
    check |= {"lil": _check_lists, "dok": _check_keys, "dia": _check_diagonals}
    if trust_columns and X.format == "csr":
        _check_layout(X)
    elif X.format in check:
        check[X.format](X)


def _check_layout(X: Any) -> None:
    """Whether indptr leads to values that are there."""
    lines = X.shape[1] if X.format == "csc" else X.shape[0]
    for name in ("data", "indices", "indptr"):
        array = getattr(X, name)
        if not isinstance(array, np.ndarray) or array.ndim != (3 if name == "data" and X.format == "bsr" else 1):
            _refuse(f"{name} is not a one-dimensional array")
        if name != "data" and array.dtype.kind not in "iu":
            _refuse(f"{name} has the dtype {array.dtype}, not one of integers")
    if X.format == "bsr":
        lines = lines // max(1, X.data.shape[1])
    indptr, size = X.indptr, min(len(X.data), len(X.indices))
    if len(indptr) != lines + 1:
        _refuse(f"indptr has {len(indptr)} entries for {lines} rows, not one more than these")
    if indptr[0] < 0 or indptr[-1] > size:
        where = f"ends at {indptr[-1]}, but {size} values are stored" if indptr[0] >= 0 else f"begins at {indptr[0]}"
        _refuse(f"indptr {where}")
    if np.any(indptr[1:] < indptr[:-1]):
        row = int(np.argmax(indptr[1:] < indptr[:-1]))
        _refuse(f"indptr falls from {indptr[row]} to {indptr[row + 1]} at row {row}")


def _check_compressed(X: Any) -> None:
    _check_layout(X)
    used = X.indices[X.indptr[0] : X.indptr[-1]]
    _check_range("indices", used, X.shape[0 if X.format == "csc" else 1])


def _check_blocks(X: Any) -> None:
    height, width = X.data.shape[1:] if X.data.ndim == 3 else (0, 0)
    if height < 1 or width < 1 or X.shape[0] % height or X.shape[1] % width:
        _refuse(f"blocks of shape {X.data.shape[1:]} do not fill a matrix of shape {X.shape}")
    _check_layout(X)
    _check_range("indices", X.indices[X.indptr[0] : X.indptr[-1]], X.shape[1] // width)


def _check_triples(X: Any) -> None:
    for name, indices, size in (("row", X.row, X.shape[0]), ("col", X.col, X.shape[1])):
        if indices.shape != X.data.shape or X.data.ndim != 1:
            _refuse(f"{name} has shape {indices.shape}, and data {X.data.shape}")
        _check_range(name, indices, size)


def _check_lists(X: Any) -> None:
    if len(X.rows) != X.shape[0] or len(X.data) != X.shape[0]:
        _refuse(f"there are {len(X.rows)} lists of indices and {len(X.data)} of values for {X.shape[0]} rows")
    for i, (indices, values) in enumerate(zip(X.rows, X.data)):
        if len(indices) != len(values):
            _refuse(f"row {i} has {len(indices)} indices and {len(values)} values")
        if len(indices):
            _check_range("rows", np.asarray(indices), X.shape[1])


def _check_keys(X: Any) -> None:
    keys = np.array(list(X.keys()), dtype=np.int64).reshape(-1, 2)
    _check_range("row", keys[:, 0], X.shape[0])
    _check_range("col", keys[:, 1], X.shape[1])


def _check_diagonals(X: Any) -> None:
    if X.data.ndim != 2 or X.offsets.shape != X.data.shape[:1] or X.offsets.dtype.kind not in "iu":
        _refuse(f"data has shape {X.data.shape}, and offsets {X.offsets.shape}")
    _check_range("offsets", X.offsets, X.shape[1], lowest=1 - X.shape[0])
    if len(np.unique(X.offsets)) != len(X.offsets):
        _refuse("an offset occurs twice")


def _check_range(name: str, indices: np.ndarray, size: int, lowest: int = 0) -> None:
    if indices.dtype.kind not in "iu":
        _refuse(f"{name} has the dtype {indices.dtype}, not one of integers")
    if len(indices) and (indices.min() < lowest or indices.max() >= size):
        bad = indices[int(np.argmax((indices < lowest) | (indices >= size)))]
        _refuse(f"{name} has {bad}, which is outside {lowest}..{size - 1}")


def _refuse(reason: str) -> NoReturn:
    raise ValueError(f"malformed sparse matrix: {reason}")
