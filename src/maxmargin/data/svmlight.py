"""Data sets as svmlight text (also called LIBSVM format): read over threads, written so that no bit is lost.

One row a line, ``label [qid:query] index:value index:value ... [# comment]``, with ascending indices. Reading gives
what scikit-learn's ``load_svmlight_file`` gives, bit for bit, some twenty times as fast on one core. The parts, from
the bytes up: `_streams` (batches of lines), `_loader` (threads, errors), `_parse` (the compiled parser), `_line` (the
same in Python, for what is not ordinary), `_floats` and `_shortest` (numbers), `_writer`.
"""

from __future__ import annotations

import operator
import os
import warnings
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from typing import IO, TYPE_CHECKING, Any, Literal, overload

import numpy as np

from maxmargin.data._columns import INT32_MAX, Columns
from maxmargin.data._labels import Labels
from maxmargin.data._line import SvmlightError
from maxmargin.data._loader import Loader, read_ahead
from maxmargin.data._streams import Source, as_sources, read_batches
from maxmargin.data.indices import IndexBase, features_like, mark
from maxmargin.data.sparse import check_sparse
from maxmargin.parallel import effective_n_jobs

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

__all__ = ["SvmlightError", "load_svmlight", "save_svmlight"]

Readable = str | os.PathLike[str] | IO[bytes]


@overload
def load_svmlight(
    path_or_paths: Readable | Sequence[Readable],
    *,
    n_features: int | None = None,
    dtype: Any = np.float64,
    zero_based: bool | Literal["auto"] = "auto",
    query_id: Literal[False] = False,
    n_jobs: int | None = None,
    like: Any = None,
    labels: Literal["number", "text", "auto"] = "number",
) -> tuple[csr_matrix, np.ndarray]: ...


@overload
def load_svmlight(
    path_or_paths: Readable | Sequence[Readable],
    *,
    n_features: int | None = None,
    dtype: Any = np.float64,
    zero_based: bool | Literal["auto"] = "auto",
    query_id: Literal[True],
    n_jobs: int | None = None,
    like: Any = None,
    labels: Literal["number", "text", "auto"] = "number",
) -> tuple[csr_matrix, np.ndarray, np.ndarray]: ...


def load_svmlight(
    path_or_paths: Readable | Sequence[Readable],
    *,
    n_features: int | None = None,
    dtype: Any = np.float64,
    zero_based: bool | Literal["auto"] = "auto",
    query_id: bool = False,
    n_jobs: int | None = None,
    like: Any = None,
    labels: Literal["number", "text", "auto"] = "number",
) -> tuple[csr_matrix, np.ndarray] | tuple[csr_matrix, np.ndarray, np.ndarray]:
    r"""Read a data set from svmlight text.

    Parameters
    ----------
    path_or_paths : str, path-like, binary file object, or list of these
        What to read; ``"-"`` is standard input. Compressed data (gzip, bzip2, xz, Zstandard) is known by its first
        bytes or the suffix ``.gz``, ``.bz2``, ``.xz``, ``.zst``. A list is one data set cut into pieces: its rows
        follow one another, and what indices count from is decided once for all.
    n_features : int, optional
        The number of columns of `X`. Default: as many as the largest index asks for. Test data may lack the last
        features of the training data, or an index 0 that those have: read them with `like`.
    dtype : data-type
        Of the values: float64 or float32.
    zero_based : bool or "auto"
        Whether indices count from 0. "auto": from 1 unless there is an index 0 anywhere in the data set, or `like`
        says otherwise.
    query_id : bool
        Also return the query ids; every row must then have one.
    n_jobs : int, optional
        Number of threads: None is 1, -1 all cores. With more than one, reading and unpacking go on beside parsing.
        The result is the same for any number.
    like : matrix that was read by this function, or fitted estimator, optional
        Read data that belong to these: with as many features, and with indices that count from the same number.
    labels : {"number", "text", "auto"}
        What labels are: numbers; words, which may be anything without blanks, colons and number signs; or whichever of
        these the first one is.

    Returns
    -------
    X : scipy.sparse.csr_matrix of shape (n_rows, n_features)
        Indices are int32, or int64 where a number of features or of stored values needs it. Zeros that stand in the
        text are stored.
    y : ndarray of shape (n_rows,)
        The labels, float64 or str.
    query_ids : ndarray of shape (n_rows,)
        int64; only with ``query_id=True``.

    Raises
    ------
    SvmlightError
        A `ValueError` for text that is not svmlight data: the message begins with file, line and column, as in
        ``a9a.txt:17:23: feature value "1.2.3" is not a number``.

    Warns
    -----
    UserWarning
        If the number of features is given and the text fits it in both ways, with indices that count from 0 or from 1.

    Notes
    -----
    Differences from scikit-learn's reader. Refused here, accepted there: labels and values that are not finite (also
    once rounded to `dtype`), input without any row, a query id that is not an integer (there, unread unless asked for,
    and anything that begins with ``qid`` will do), rows without query id where query ids are asked for, and an
    underscore behind the sign of an exponent, as in ``1e-_5``, which ``float`` refuses, too. Accepted here, refused
    there: indices above 2147483647. In a list, a piece without any feature makes scikit-learn take all indices as
    counted from 0; here it makes no difference.

    Examples
    --------
    >>> import io
    >>> text = b"+1 1:0.5 3:2  # a comment\n-1 2:25e-2\n"
    >>> X, y = load_svmlight(io.BytesIO(text))
    >>> X.toarray()
    array([[0.5 , 0.  , 2.  ],
           [0.  , 0.25, 0.  ]])
    >>> y
    array([ 1., -1.])
    >>> Z, z = load_svmlight(io.BytesIO(b"spam 1:1"), like=X, labels="auto")
    >>> Z.shape, z.tolist()
    ((1, 3), ['spam'])
    """
    sources = as_sources(path_or_paths)
    dtype, n_features, counts_from = checked_options(dtype, n_features, zero_based, like)
    n_threads = effective_n_jobs(n_jobs)
    with ExitStack() as stack:
        batches = stack.enter_context(closing(read_batches(sources)))
        pool = stack.enter_context(ThreadPoolExecutor(n_threads)) if n_threads > 1 else None
        loader = Loader(dtype, n_features, counts_from, bool(query_id), pool)
        words = Labels(labels)
        for batch in read_ahead(batches, pool):
            words.take_from(batch.text)
            loader.add(batch)
    columns = loader.finish()
    if not columns.n_rows:
        raise no_rows(sources)
    X = mark(as_csr(columns, n_features or loader.n_features), loader.base)
    if n_features is not None and not loader.base.is_certain and loader.largest_index >= 0:
        warnings.warn(_ambiguous(loader.base, n_features), UserWarning, stacklevel=2)
    y = words.of(columns.labels)
    return (X, y, columns.queries) if query_id else (X, y)


def _ambiguous(base: IndexBase, n_features: int) -> str:
    return (
        f"{base.name}: no index is 0 and none is {n_features}, so that indices may count from 0 or from 1; they were "
        f"taken as counted from {base.first_index}: pass like= (the training data or the model) or zero_based="
    )


def checked_options(
    dtype: Any, n_features: int | None, zero_based: Any, like: Any = None
) -> tuple[Any, int | None, bool | str]:
    """The options of a reader, in their plain types."""
    if like is not None:
        their_features, first_index = features_like(like)
        n_features = their_features if n_features is None else n_features
        if zero_based == "auto" and first_index is not None:
            zero_based = first_index == 0
    dtype = np.dtype(dtype)
    if dtype not in (np.float32, np.float64):
        raise ValueError(f"dtype must be float32 or float64, got {dtype}")
    if n_features is not None and not 1 <= (n_features := operator.index(n_features)) < 2**63 - 1:
        raise ValueError(f"n_features must be at least 1 and an integer of 64 bits, got {n_features}")
    if zero_based not in (True, False, "auto"):
        raise ValueError(f'zero_based must be True, False or "auto", got {zero_based!r}')
    return dtype, n_features, zero_based if zero_based == "auto" else bool(zero_based)


def no_rows(sources: list[Source]) -> SvmlightError:
    """The error for sources without any row."""
    more = f" (and {len(sources) - 1} more)" if len(sources) > 1 else ""
    return SvmlightError(f"{sources[0].name}{more}: there is no row, only blank lines and comments if anything")


def as_csr(columns: Columns, n_features: int) -> csr_matrix:
    """The matrix around the columns' own arrays."""
    from scipy.sparse import csr_matrix

    index_dtype = np.int64 if max(n_features, columns.n_values) > INT32_MAX else np.int32
    indptr = np.zeros(columns.n_rows + 1, dtype=index_dtype)
    np.cumsum(columns.row_sizes, out=indptr[1:], dtype=index_dtype)
    indices = columns.indices.astype(index_dtype, copy=False)
    X = csr_matrix((columns.values, indices, indptr), shape=(columns.n_rows, n_features), copy=False)
    X.has_canonical_format = True  # the parser has seen to it
    return X


def save_svmlight(
    path: str | os.PathLike[str],
    X: Any,
    y: Any,
    *,
    zero_based: bool = False,
    query_id: Any = None,
    comment: str | None = None,
) -> None:
    """Write a data set as svmlight text that reads back as the same numbers.

    Every number has the fewest digits that tell it from its neighbours in its own type, float32 or float64. The file
    appears under its name only when it is complete and on the disk; until then a former one stays.

    Parameters
    ----------
    path : str or path-like
        Where to; ``"-"`` is standard output. Compressed by suffix: ``.gz``, ``.bz2``, ``.xz``, ``.zst``.
    X : sparse matrix or array-like of shape (n_rows, n_features)
        The features. Zeros are written if a sparse matrix stores them. The number of features is not written: give
        it to `load_svmlight` where the last columns may be empty.
    y : array-like of shape (n_rows,)
        The labels: numbers.
    zero_based : bool
        Whether indices count from 0. Then read with ``zero_based=True``, too: "auto" cannot tell if the first column
        is empty.
    query_id : array-like of shape (n_rows,), optional
        Integers, written as ``qid:``.
    comment : str, optional
        Lines to put on top, each behind a ``#``.

    Examples
    --------
    >>> import os, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "tiny.txt")
    ...     save_svmlight(path, [[0.0, 0.5], [1.0, 2.0]], [1, -1])
    ...     print(open(path).read(), end="")
    1 2:0.5
    -1 1:1 2:2
    """
    from maxmargin.data._writer import format_rows, open_for_writing  # brings Numba with it

    X = _checked_matrix(X)
    y = _checked_column(y, "y", np.float64, X.shape[0])
    queries = None if query_id is None else _checked_column(query_id, "query_id", np.int64, X.shape[0])
    with open_for_writing(path) as file:
        for line in (comment or "").splitlines():
            file.write(f"# {line}\n".encode())
        for text in format_rows(X, y, queries, 0 if zero_based else 1):
            file.write(text)


def _checked_matrix(X: Any) -> csr_matrix:
    """X as CSR with sorted rows, float32 or float64, finite; not copied if it is that already."""
    from scipy.sparse import csr_matrix, issparse

    check_sparse(X)
    if not issparse(X):
        X = np.asarray(X)
        if X.ndim != 2:
            raise ValueError(f"X must have two dimensions, got {X.ndim}")
    if X.dtype.kind not in "fiub":
        raise ValueError(f"X must hold real numbers, got dtype {X.dtype}")
    if not X.shape[0]:
        raise ValueError("X has no rows")
    X = csr_matrix(X, dtype=X.dtype if X.dtype in (np.float32, np.float64) else np.float64)
    if not X.has_canonical_format:
        X = X.copy()
        X.sum_duplicates()
    finite = np.isfinite(X.data)
    if not finite.all():
        k = int(np.argmin(finite))
        row = int(np.searchsorted(X.indptr, k, side="right")) - 1
        raise ValueError(f"X has the value {X.data[k]} at row {row}, column {X.indices[k]}")
    return X


def _checked_column(column: Any, name: str, dtype: Any, n_rows: int) -> np.ndarray:
    """One number for every row, without loss in `dtype`."""
    given = np.asarray(column)
    if given.shape != (n_rows,):
        raise ValueError(f"{name} must have one entry for each of the {n_rows} rows of X, got shape {given.shape}")
    if given.dtype.kind not in ("fiub" if dtype == np.float64 else "iu"):
        raise ValueError(f"{name} must hold {'numbers' if dtype == np.float64 else 'integers'}, got {given.dtype}")
    if not np.isfinite(given).all():
        row = int(np.argmin(np.isfinite(given)))
        raise ValueError(f"{name} has the value {given[row]} at row {row}")
    return np.ascontiguousarray(given, dtype=dtype)
