"""The form that the rows of a store have in common: storage, dtype, features, kind of labels.

The first piece of the input decides what the user has left open; the others are brought into that form or refused.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from maxmargin.data._columns import INT32_MAX
from maxmargin.data.rows import CSR, Array, Dense, Rows
from maxmargin.data.rows import n_features as width
from maxmargin.data.rows import n_rows as height
from maxmargin.data.store.blocks import Piece
from maxmargin.data.store.inputs import Given, Options, checked_rows


class Form:
    """The common form of the pieces of an input.

    Parameters
    ----------
    options : Options
        `storage`, `dtype` and `n_features`, as far as the user gave them.
    grows : bool
        Whether later pieces may have more features, as those of a text do.
    """

    def __init__(self, options: Options, grows: bool):
        storage, dtype, n_features = options.storage, options.dtype, options.n_features
        if storage not in ("auto", "dense", "csr"):
            raise ValueError(f'storage must be "auto", "dense" or "csr", got {storage!r}')
        if dtype is not None and np.dtype(dtype) not in (np.float32, np.float64):
            raise ValueError(f"dtype must be float32 or float64, got {np.dtype(dtype)}")
        if storage == "dense" and grows and n_features is None:
            raise ValueError('storage="dense" for svmlight text needs n_features: a text does not tell it at once')
        self.storage = storage
        self.dtype = None if dtype is None else np.dtype(dtype).name
        self.n_features, self.grows = n_features, grows
        self.label = ""  # "float64", "int64" or "names"
        self.names: list[str] = []
        self.has_weights = False
        self.n_rows = 0

    def as_json(self) -> dict[str, Any] | None:
        """What pieces have decided so far; None if there was none."""
        return dict(vars(self)) if self.label else None

    def restore(self, decided: dict[str, Any] | None) -> None:
        """Go on where `as_json` was."""
        vars(self).update(decided or {})

    def piece(self, given: Given) -> Piece:
        """Rows in the common form, checked."""
        rows, norms2 = checked_rows(given.X, self.dtype, self.n_rows)
        y, n = np.asarray(given.y), height(rows)
        if y.shape != (n,):
            raise ValueError(f"behind row {self.n_rows} of the input: X has {n} rows but y has shape {y.shape}")
        if not self.label:
            self._decide(rows, y, given.weight is not None)
        if (given.weight is not None) != self.has_weights:
            raise ValueError(f"behind row {self.n_rows} of the input: either all pieces have weights or none has")
        piece = Piece(self._rows(rows), self._labels(y), self._weights(given.weight, n), norms2)
        self.n_rows += n
        return piece

    def _decide(self, rows: Rows, y: Array, has_weights: bool) -> None:
        if self.storage == "auto":
            self.storage = "dense" if isinstance(rows, Dense) else "csr"
        if self.dtype is None:
            self.dtype = (rows.values if isinstance(rows, Dense) else rows.data).dtype.name
        if self.n_features is None and not self.grows:
            self.n_features = width(rows)
        self.label = {"f": "float64", "i": "int64", "u": "int64", "b": "int64"}.get(y.dtype.kind, "names")
        self.has_weights = has_weights

    def _rows(self, rows: Rows) -> Rows:
        if self.n_features is not None and width(rows) != self.n_features:
            raise ValueError(f"behind row {self.n_rows} of the input: {width(rows)} features, not {self.n_features}")
        if self.storage == "dense":
            return Dense(_as_dense(rows, self.dtype), 0.0)
        if isinstance(rows, Dense):
            from scipy.sparse import csr_matrix

            X = csr_matrix(rows.values)
            rows = CSR(X.data, X.indices, X.indptr, X.shape[1], 0.0)
        index_dtype = np.int32 if width(rows) <= INT32_MAX else np.int64
        first = int(rows.indptr[0])
        stored = slice(first, int(rows.indptr[-1]))
        return CSR(
            rows.data[stored].astype(self.dtype, copy=False),
            rows.indices[stored].astype(index_dtype, copy=False),
            (rows.indptr - first).astype(np.int64, copy=False),
            rows.n_features,
            0.0,
        )

    def _labels(self, y: Array) -> Array:
        if self.label == "names":
            return self._codes(y)
        kinds = "iub" if self.label == "int64" else "fiub"
        if y.dtype.kind not in kinds:
            raise ValueError(f"behind row {self.n_rows} of the input: labels are {y.dtype}, those before {self.label}")
        if not np.isfinite(y).all():
            i = int(np.argmin(np.isfinite(y)))
            raise ValueError(f"row {self.n_rows + i} of the input has the label {y[i]}; labels must be finite")
        return np.ascontiguousarray(y, dtype=self.label)

    def _codes(self, y: Array) -> Array:
        """Names as their numbers, in the order of their first appearance."""
        if not all(isinstance(name, str) for name in y.tolist()):
            i = next(i for i, name in enumerate(y.tolist()) if not isinstance(name, str))
            raise ValueError(f"row {self.n_rows + i} of the input has the label {y[i]!r}; expected numbers or strings")
        distinct, first, codes = np.unique(y.astype(str), return_index=True, return_inverse=True)
        known = {name: k for k, name in enumerate(self.names)}
        for k in np.argsort(first):
            known.setdefault(str(distinct[k]), len(known))
        self.names = list(known)
        return np.array([known[str(name)] for name in distinct], np.int64)[codes.reshape(-1)]

    def _weights(self, weight: Any, n: int) -> Array | None:
        if weight is None:
            return None
        weight = np.ascontiguousarray(weight, dtype=np.float64)
        if weight.shape != (n,):
            raise ValueError(f"behind row {self.n_rows} of the input: {n} rows but weights of shape {weight.shape}")
        wrong = np.flatnonzero(~(np.isfinite(weight) & (weight >= 0.0)))
        if len(wrong):
            i = int(wrong[0])
            raise ValueError(f"row {self.n_rows + i} of the input has the weight {weight[i]}; it must be finite, >= 0")
        return weight


def _as_dense(rows: Rows, dtype: Any) -> Array:
    if isinstance(rows, Dense):
        return np.ascontiguousarray(rows.values, dtype=dtype)
    if rows.indices.min(initial=0) < 0:
        raise ValueError('the text has an index 0: storage="dense" then needs zero_based=True')
    values = np.zeros((height(rows), rows.n_features), dtype)
    sizes = rows.indptr[1:] - rows.indptr[:-1]
    stored = slice(int(rows.indptr[0]), int(rows.indptr[-1]))
    values[np.repeat(np.arange(len(sizes)), sizes), rows.indices[stored]] = rows.data[stored]
    return values
