"""`rows.py`: the user's matrix seen without a copy, converted where it must be, refused where it is broken."""

import subprocess
import sys
import textwrap

import numpy as np
import pytest
import samples
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from maxmargin._jit import compiled
from maxmargin.data import rows as rows_module
from maxmargin.data.gather import gather
from maxmargin.data.rows import (
    CSR,
    Dense,
    add_row,
    as_rows,
    matvec,
    prefetch_row,
    row_blocks,
    row_dot,
    row_norm2,
    row_size,
)

X = samples.sample("hinge", n_rows=12, n_features=4)[0]


def stored_arrays(matrix):
    return (matrix.data, matrix.indices, matrix.indptr) if sp.issparse(matrix) else (matrix,)


def to_dense(rows):
    if isinstance(rows, Dense):
        return rows.values
    return sp.csr_array((rows.data, rows.indices, rows.indptr), shape=(len(rows.indptr) - 1, rows.n_features)).toarray()


# ---------------------------------------------------------------- no copy


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_dense_rows_are_the_users_memory(dtype):
    mine = X.astype(dtype)
    rows, _ = as_rows(mine)
    assert np.shares_memory(rows.values, mine)
    assert rows.values.dtype == dtype


@pytest.mark.parametrize("index", [np.int32, np.int64])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("container", [sp.csr_array, sp.csr_matrix])
def test_csr_rows_are_the_users_memory(dtype, index, container):
    mine = container(samples.csr(X, index, dtype))
    mine.indices, mine.indptr = mine.indices.astype(index), mine.indptr.astype(index)
    rows, _ = as_rows(mine)
    for ours, theirs in zip((rows.data, rows.indices, rows.indptr), stored_arrays(mine)):
        assert np.shares_memory(ours, theirs)
        assert ours.dtype == theirs.dtype
    np.testing.assert_array_equal(to_dense(rows), X.astype(dtype))


def test_memory_mapped_rows_stay_in_their_files(tmp_path):
    dense = samples.memmap(X, tmp_path / "X")
    assert np.shares_memory(as_rows(dense)[0].values, dense)
    sparse = samples.csr_memmap(X, tmp_path / "S")
    rows, _ = as_rows(sparse)
    for ours, theirs in zip((rows.data, rows.indices, rows.indptr), stored_arrays(sparse)):
        assert isinstance(theirs, np.memmap)
        assert np.shares_memory(ours, theirs)


def test_all_of_one_kind_are_one_type_to_kernels(tmp_path):
    """A memory map must not cost a compilation of its own, nor may kernels write to anybody's X."""
    for mine in (X, samples.memmap(X, tmp_path / "X"), X.view(np.matrix), X.tolist()):
        values = as_rows(mine)[0].values
        assert type(values) is np.ndarray
        assert values.flags.c_contiguous
        assert not values.flags.writeable
    assert X.flags.writeable


def test_mixed_index_types_are_made_one():
    mine = samples.csr(X)
    mine.indptr = mine.indptr.astype(np.int64)
    rows, norms2 = as_rows(mine)
    assert np.shares_memory(rows.indices, mine.indices)
    assert np.shares_memory(rows.indptr, mine.indptr)
    np.testing.assert_allclose(norms2, (X**2).sum(1))


# ---------------------------------------------------------------- conversions


@pytest.mark.parametrize(
    "convert",
    [
        np.asfortranarray,
        lambda X: np.repeat(X, 2, axis=1)[:, ::2],
        lambda X: X.astype(np.float16),
        lambda X: X.astype(">f8"),
        lambda X: X.astype(np.longdouble),
        lambda X: np.round(X).astype(np.int8),
        lambda X: np.asfortranarray(np.round(X).astype(np.int64)),
        lambda X: X > 0,
        lambda X: X.astype(object),
        lambda X: X.tolist(),
        sp.csc_matrix,
        sp.csc_array,
        sp.coo_array,
        sp.lil_array,
        sp.dok_array,
        sp.bsr_array,
        lambda X: sp.csr_array(np.round(X).astype(np.int32)),
        lambda X: sp.csr_array(X > 0),
        lambda X: sp.csc_array(X.astype(np.float32)),
    ],
)
def test_what_kernels_cannot_walk_is_converted(convert):
    mine = convert(X.copy())
    expected = np.asarray(mine.toarray() if sp.issparse(mine) else mine, dtype=np.float64)
    rows, norms2 = as_rows(mine)
    np.testing.assert_array_equal(to_dense(rows), expected)
    np.testing.assert_allclose(norms2, (expected**2).sum(1), rtol=1e-13)


def unsorted():
    """Row 0 in descending order, row 2 with column 1 twice, row 1 empty."""
    data, indices, indptr = np.array([1.0, 2.0, 3.0, 4.0, 5.0]), np.array([3, 0, 1, 1, 2]), np.array([0, 2, 2, 5])
    return sp.csr_array((data, indices, indptr), shape=(3, 4))


def test_unsorted_and_repeated_indices_are_put_in_order():
    rows, norms2 = as_rows(unsorted())
    np.testing.assert_array_equal(to_dense(rows), [[2, 0, 0, 1], [0, 0, 0, 0], [0, 7, 5, 0]])
    np.testing.assert_array_equal(norms2, [5, 0, 74])
    assert all(np.all(np.diff(rows.indices[b:e]) > 0) for b, e in zip(rows.indptr[:-1], rows.indptr[1:]))


def test_repeated_indices_alone_are_added_up():
    """In order but for the repetition: their squared length is that of the sum, not the sum of squares."""
    rows, norms2 = as_rows(sp.csr_array((np.array([3.0, 4.0]), np.array([1, 1]), np.array([0, 2])), shape=(1, 2)))
    np.testing.assert_array_equal(to_dense(rows), [[0, 7]])
    np.testing.assert_array_equal(norms2, [49])


@pytest.mark.parametrize("make", [unsorted, lambda: sp.csc_array(X), lambda: sp.coo_array(X), lambda: samples.csr(X)])
def test_the_users_sparse_matrix_is_never_changed(make):
    mine = make()
    before = {name: np.copy(getattr(mine, name)) for name in ("data", "indices", "indptr") if hasattr(mine, name)}
    rows, _ = as_rows(mine)
    matvec(rows, np.ones(4))
    for name, content in before.items():
        np.testing.assert_array_equal(getattr(mine, name), content)
        assert getattr(mine, name).flags.writeable


def test_the_users_array_is_never_changed():
    mine = np.asfortranarray(X)
    rows, _ = as_rows(mine)
    assert not np.shares_memory(rows.values, mine)
    assert mine.flags.writeable
    np.testing.assert_array_equal(mine, X)


# ---------------------------------------------------------------- refusals


@pytest.mark.parametrize("shape", [(3,), (2, 2, 2), ()])
def test_other_than_two_dimensions_are_refused(shape):
    with pytest.raises(ValueError, match="two dimensions"):
        as_rows(np.zeros(shape))


@pytest.mark.parametrize("make", [lambda X: X, sp.csr_array, sp.csc_array])
def test_complex_values_are_refused(make):
    with pytest.raises(ValueError, match=r"complex128.*real numbers"):
        as_rows(make(X + 1j))


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("storage", ["dense", "float32", "csr", "csc", "unsorted"])
def test_values_that_are_not_finite_are_named(value, storage):
    bad = np.ones((6, 5))
    bad[4, 2] = value
    mine = {
        "dense": lambda: bad,
        "float32": lambda: bad.astype(np.float32),
        "csr": lambda: sp.csr_array(bad),
        "csc": lambda: sp.csc_array(bad),
        "unsorted": lambda: sp.csr_array((bad[:, ::-1].ravel(), np.tile(np.arange(4, -1, -1), 6), np.arange(0, 31, 5))),
    }[storage]()
    with pytest.raises(ValueError, match=rf"{'NaN' if np.isnan(value) else 'infinity'}: row 4, column 2 "):
        as_rows(mine)


def test_the_column_of_a_sparse_value_is_its_column_not_its_place():
    bad = sp.csr_array(np.array([[0.0, 0.0, 1.0], [0.0, 0.0, np.nan]]))
    with pytest.raises(ValueError, match="row 1, column 2 "):
        as_rows(bad)


def test_an_overflowing_length_is_explained():
    with np.errstate(over="ignore"), pytest.raises(ValueError, match=r"row 1 .* scale the features"):
        as_rows(np.array([[1.0, 2.0], [1e200, 1.0]]))


def test_large_float32_values_do_not_overflow():
    rows, norms2 = as_rows(np.full((2, 3), 1e30, dtype=np.float32))
    np.testing.assert_allclose(norms2, 3e60, rtol=1e-6)
    np.testing.assert_allclose(matvec(rows, np.full(3, 1e30)), 3e60, rtol=1e-6)


# Broken matrices are tried in a process of their own: what is not refused may bring it down.
BROKEN = {
    "index_too_large": "m = csr(); m.indices[2] = 10**8",
    "index_negative": "m = csr(); m.indices[2] = -1",
    "index_just_too_large": "m = csr(); m.indices[2] = 4",
    "indptr_beyond_end": "m = csr(); m.indptr[-1] = 10**8",
    "indptr_not_ascending": "m = csr(); m.indptr[1] = 3",
    "indptr_negative": "m = csr(); m.indptr[0] = -5",
    "indptr_too_short": "m = csr(); m.indptr = m.indptr[:-2]",
    "data_too_short": "m = csr(); m.data = m.data[:-1]",
    "indices_too_short": "m = csr(); m.indices = m.indices[:-1]",
    "out_of_range_and_unsorted": "m = csr(); m.indices[:] = [3, 2, 1, 10**8]; m.indptr[:] = [0, 3, 4, 4, 4]",
    "csc_index_too_large": "m = sp.csc_array(np.eye(4)); m.indices[2] = 10**8",
    "csc_indptr_beyond_end": "m = sp.csc_array(np.eye(4)); m.indptr[-1] = 10**8",
}


@pytest.fixture(scope="module")
def fates_of_broken_matrices():
    script = """
        import sys
        import numpy as np
        import scipy.sparse as sp
        from maxmargin.data.rows import as_rows
        csr = lambda: sp.csr_array(np.eye(4))
        for line in sys.stdin:
            name, statement = line.rstrip("\\n").split("|")
            exec(statement)
            try:
                as_rows(m)
                fate = "accepted"
            except ValueError as error:
                fate = str(error)
            print(name, fate, sep="|", flush=True)
    """
    lines = "".join(f"{name}|{statement}\n" for name, statement in BROKEN.items())
    child = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)], input=lines, capture_output=True, text=True, check=False
    )
    return dict(line.split("|") for line in child.stdout.splitlines())


@pytest.mark.parametrize("name", BROKEN)
def test_malformed_sparse_matrices_are_refused_before_they_do_harm(name, fates_of_broken_matrices):
    assert fates_of_broken_matrices.get(name, "it crashed").startswith("malformed sparse matrix:")


# ---------------------------------------------------------------- what kernels call


@compiled
def _walk(rows, w, v, dots, norms, sizes):
    for i in range(len(dots)):
        prefetch_row(rows, i)
        dots[i] = row_dot(rows, i, w)
        norms[i] = row_norm2(rows, i)
        sizes[i] = row_size(rows, i)
        add_row(rows, i, np.float64(0.5 * i), v)


@pytest.mark.parametrize("bias", [0.0, 1.0, -2.5])
@pytest.mark.parametrize("make", [lambda X: X, samples.csr, lambda X: samples.csr(X, np.int64, np.float32)])
def test_kernels_see_the_rows_with_their_virtual_column(make, bias):
    mine = make(X)
    full = np.asarray(mine.toarray() if sp.issparse(mine) else mine, dtype=np.float64)
    if bias:
        full = np.column_stack([full, np.full(len(full), bias)])
    rows, norms2 = as_rows(mine, bias)
    w = np.random.default_rng(1).normal(size=full.shape[1])
    v, (dots, norms), sizes = np.zeros_like(w), np.empty((2, len(X))), np.empty(len(X), np.int64)
    _walk(rows, w, v, dots, norms, sizes)
    np.testing.assert_allclose(dots, full @ w, rtol=1e-13, atol=1e-13)
    np.testing.assert_allclose(norms, (full**2).sum(1), rtol=1e-13)
    np.testing.assert_array_equal(norms, norms2)
    np.testing.assert_allclose(v, full.T @ (0.5 * np.arange(len(X))), rtol=1e-13)
    np.testing.assert_array_equal(sizes, np.diff(mine.indptr) if sp.issparse(mine) else X.shape[1])
    np.testing.assert_allclose(matvec(rows, w), full @ w, rtol=1e-13, atol=1e-13)
    assert rows_module.n_rows(rows) == len(X)
    assert rows_module.n_features(rows) == X.shape[1]
    assert rows_module.n_weights(rows) == len(w)
    assert rows_module.n_stored(rows) == (mine.nnz if sp.issparse(mine) else X.size)


def test_sums_are_float64_whatever_the_data():
    """One large and many small values: float32 sums would lose all of the small ones."""
    values = np.concatenate([[2**25], np.ones(1000)]).astype(np.float32)[None, :]
    for mine in (values, sp.csr_array(values)):
        rows, norms2 = as_rows(mine)
        assert matvec(rows, np.ones(1001))[0] == 2**25 + 1000
        assert norms2[0] == 2**50 + 1000


def test_functions_refuse_what_is_no_row_storage():
    for function, arguments in ((row_dot, (0, X[0])), (row_norm2, (0,)), (add_row, (0, 1.0, X[0])), (row_size, (0,))):
        with pytest.raises(TypeError, match="not a row storage"):
            function(X, *arguments)


# ---------------------------------------------------------------- blocks


@given(
    sizes=st.lists(st.integers(0, 9), min_size=1, max_size=40),
    n_blocks=st.integers(1, 12),
    dense=st.booleans(),
    skipped=st.integers(0, 3),
)
def test_blocks_cover_every_row_once(sizes, n_blocks, dense, skipped):
    if dense:
        rows = Dense(np.zeros((len(sizes), 3)), 0.0)
    else:  # an index pointer may begin anywhere
        rows = CSR(np.zeros(0), np.zeros(0, np.int32), np.cumsum([skipped, *sizes]), 3, 0.0)
    borders = row_blocks(rows, n_blocks)
    assert len(borders) == n_blocks + 1
    assert borders[0] == 0
    assert borders[-1] == len(sizes)
    assert np.all(np.diff(borders) >= 0)
    if not dense:  # about equal work: no block has more than its share and one row
        work = np.add.reduceat(np.append(sizes, 0), borders[:-1]) * (np.diff(borders) > 0)
        assert work.max() <= sum(sizes) / n_blocks + max(sizes)


def test_a_part_of_a_larger_csr_matrix_is_taken_as_it_is():
    """A matrix whose index pointer does not begin at zero, as a view of some rows has."""
    whole = samples.csr(X)
    part = samples.csr(X[4:])
    part.data, part.indices, part.indptr = whole.data, whole.indices, whole.indptr[4:]
    rows, norms2 = as_rows(part)
    np.testing.assert_allclose(norms2, (X[4:] ** 2).sum(1), rtol=1e-13)
    np.testing.assert_allclose(matvec(rows, np.ones(4)), X[4:].sum(1), rtol=1e-12)
    assert rows_module.n_stored(rows) == np.count_nonzero(X[4:])


@pytest.mark.parametrize("first", [0, 5])  # an index pointer may begin anywhere
@pytest.mark.parametrize("chosen", [[], [3], [0, 2, 3, 6], [6, 1, 1]])
@pytest.mark.parametrize("make", [lambda X: X, samples.csr])
def test_some_rows_are_copied_in_their_order(make, chosen, first):
    sparse = np.where(np.abs(X) < 0.5, 0.0, X)
    rows = rows_module.between(as_rows(make(sparse), 1.0)[0], first, 12)
    for copy in (gather, rows_module.take):
        some = copy(rows, np.array(chosen, np.int64))
        np.testing.assert_array_equal(rows_module.as_dense(some), sparse[first:][chosen])
        assert some.bias == 1.0
        assert not some[0].flags.writeable


@pytest.mark.parametrize("make", [lambda X: X, sp.csr_array])
@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (0, 0)])
def test_empty_matrices(make, shape):
    rows, norms2 = as_rows(make(np.zeros(shape)))
    assert norms2.shape == shape[:1]
    np.testing.assert_array_equal(matvec(rows, np.ones(shape[1])), np.zeros(shape[0]))
