"""Sparse matrices that point outside their arrays are refused by every entry that walks them, never walked."""

import contextlib
import io

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import maxmargin
from maxmargin import BudgetSVC, LinearSVC, LinearSVR, OnlineSVC, Problem, StructuralSVC, save_svmlight
from maxmargin.data.rows import as_rows
from maxmargin.data.sparse import check_sparse
from maxmargin.data.stream import stream_rows

FORMATS = ("csr", "csc", "coo", "bsr", "lil", "dok", "dia")
N, D = 12, 4
Y = np.arange(N) % 2
DENSE = np.where(np.random.default_rng(0).random((N, D)) < 0.6, np.random.default_rng(1).normal(size=(N, D)), 0.0)
LINEAR = LinearSVC(max_iter=5).fit(DENSE, Y)
BUDGET = BudgetSVC(budget=5, random_state=0).fit(DENSE, Y)
ONLINE = OnlineSVC().fit(DENSE, Y)

ENTRIES = {
    "as_rows": lambda X: as_rows(X),
    "Problem": lambda X: Problem(X, 2.0 * Y - 1.0, 1.0, "hinge"),
    "save_svmlight": lambda X: save_svmlight("/dev/null", X, Y),
    "LinearSVC.fit": lambda X: LinearSVC(max_iter=5).fit(X, Y),
    "LinearSVR.fit": lambda X: LinearSVR(max_iter=5).fit(X, Y.astype(float)),
    "StructuralSVC.fit": lambda X: StructuralSVC("f1", max_iter=5).fit(X, Y),
    "BudgetSVC.fit": lambda X: BudgetSVC(budget=5, random_state=0).fit(X, Y),
    "BudgetSVC.partial_fit": lambda X: BudgetSVC(budget=5, random_state=0).partial_fit(X, Y),
    "OnlineSVC.fit": lambda X: OnlineSVC(max_iter=1).fit(X, Y),
    "OnlineSVC.fit, a stream": lambda X: OnlineSVC(max_iter=1).fit(iter([(X, Y)])),
    "OnlineSVC.partial_fit": lambda X: OnlineSVC().partial_fit(X, Y),
    "LinearSVC.predict": lambda X: LINEAR.predict(X),
    "BudgetSVC.predict": lambda X: BUDGET.predict(X),
    "OnlineSVC.predict": lambda X: ONLINE.predict(X),
    "stream_rows": lambda X: [as_rows(part) for part, _ in stream_rows(X, Y, chunk_rows=5)],
    "path": lambda X: maxmargin.path(X, Y, Cs=[1.0], max_iter=5),
    "LinearSVCCV.fit": lambda X: maxmargin.LinearSVCCV(Cs=[1.0], cv=2, max_iter=5).fit(X, Y),
    "suggest_rbf": lambda X: maxmargin.suggest_rbf(X, Y),
}


def well_formed(form):
    if form == "bsr":
        return sp.bsr_matrix(DENSE, blocksize=(2, 2))
    return sp.csr_matrix(DENSE).asformat(form)


def indptr_too_far(X):
    X.indptr[3] = 10**6


def indptr_falls(X):
    X.indptr[1], X.indptr[2] = X.indptr[2], X.indptr[1] - 1


def column_too_large(X):
    X.indices[2] = 10**6


def column_negative(X):
    X.indices[2] = -(10**6)


def data_too_short(X):
    X.data = X.data[:-2].copy()


def indptr_of_floats(X):
    X.indptr = X.indptr.astype(float)


def row_too_large(X):
    (X.row if X.format == "coo" else X.rows)[3] = 10**6 if X.format == "coo" else [10**6] * len(X.rows[3])


def columns_and_values_differ(X):
    X.data[3] = X.data[3] + [1.0] * 1000


DAMAGE = [
    *(
        (form, change)
        for form in ("csr", "csc", "bsr")
        for change in (indptr_too_far, column_too_large, column_negative)
    ),
    *((form, indptr_falls) for form in ("csr", "csc")),
    ("csr", data_too_short),
    ("csr", indptr_of_floats),
    ("coo", row_too_large),
    ("coo", data_too_short),
    ("lil", row_too_large),
    ("lil", columns_and_values_differ),
]


@pytest.mark.parametrize("entry", ENTRIES)
@pytest.mark.parametrize(("form", "change"), DAMAGE, ids=[f"{form} {change.__name__}" for form, change in DAMAGE])
def test_every_entry_refuses_a_malformed_matrix_by_name(entry, form, change):
    X = well_formed(form)
    change(X)
    with pytest.raises(ValueError, match="malformed sparse matrix: "):
        ENTRIES[entry](X)


@pytest.mark.parametrize("form", FORMATS)
def test_well_formed_matrices_pass(form):
    X = well_formed(form)
    check_sparse(X)
    np.testing.assert_array_equal(LINEAR.predict(X), LINEAR.predict(DENSE))
    for entry in ("as_rows", "save_svmlight", "OnlineSVC.fit"):
        ENTRIES[entry](X)
    array = sp.csr_array(DENSE)  # with room behind the values that are used
    array.data, array.indices = np.append(array.data, np.nan), np.append(array.indices, -7)
    check_sparse(array)


def with_index(form, name, value):
    """A matrix with an index of this value, whatever else."""
    X = well_formed(form)
    if form == "lil":
        X.rows[3], X.data[3] = [value], [1.0]
    elif form == "dok":
        X._dict[(value, 0) if name == "row" else (0, value)] = 1.0
    elif form == "dia":
        X.offsets = np.append(X.offsets[X.offsets != value][: len(X.offsets) - 1], value)
    else:
        getattr(X, name)[2] = value
    return X


@pytest.mark.parametrize(
    ("form", "name", "lowest", "highest"),
    [
        ("csr", "indices", 0, D - 1),
        ("csc", "indices", 0, N - 1),
        ("bsr", "indices", 0, D // 2 - 1),
        ("coo", "row", 0, N - 1),
        ("coo", "col", 0, D - 1),
        ("lil", "rows", 0, D - 1),
        ("dok", "row", 0, N - 1),
        ("dok", "col", 0, D - 1),
        ("dia", "offsets", 1 - N, D - 1),
    ],
)
def test_indices_may_go_to_the_border_and_no_further(form, name, lowest, highest):
    for inside in (lowest, highest):
        check_sparse(with_index(form, name, inside))
    for outside in (lowest - 1, highest + 1):
        with pytest.raises(ValueError, match=f"{name} has {outside}, which is outside {lowest}..{highest}"):
            check_sparse(with_index(form, name, outside))


@pytest.mark.parametrize("form", ["csr", "csc", "bsr"])
def test_indptr_may_go_to_the_last_value_and_no_further(form):
    X = well_formed(form)
    first, last = X.indptr.copy(), len(X.data)
    for place, value, message in (
        (-1, last + 1, f"ends at {last + 1}, but {last} values are stored"),
        (0, -1, "begins at -1"),
        (1, X.indptr[2] + 1, "falls from"),
    ):
        X.indptr = first.copy()
        X.indptr[place] = value
        with pytest.raises(ValueError, match=message):
            check_sparse(X)
    X.indptr = first[:-1]
    with pytest.raises(ValueError, match="not one more than these"):
        check_sparse(X)


@settings(max_examples=300)
@given(st.data())
def test_random_parts_are_taken_or_refused(data):
    """Whatever is in the arrays of a matrix, an entry ends in a result or in a ValueError, and in nothing else."""
    form = data.draw(st.sampled_from(FORMATS))
    X = well_formed(form)
    numbers = st.integers(-3, 60) | st.sampled_from([-(2**31), 2**31 - 1, 10**6])
    names = {"coo": ("row", "col"), "lil": (), "dok": (), "dia": ("offsets",)}.get(form, ("indptr", "indices"))
    for name in names:
        array = getattr(X, name)
        for _ in range(data.draw(st.integers(0, 3))):
            array[data.draw(st.integers(0, len(array) - 1))] = data.draw(numbers)
    if form in ("csr", "csc", "coo") and data.draw(st.booleans()):
        X.data = X.data[: data.draw(st.integers(0, len(X.data)))].copy()
    if form == "lil" and data.draw(st.booleans()):
        X.rows[data.draw(st.integers(0, N - 1))] = data.draw(st.lists(numbers, max_size=4))
    if form == "dok" and data.draw(st.booleans()):
        key = data.draw(numbers), data.draw(numbers)
        X._dict[key] = 1.0
    entry = data.draw(st.sampled_from(["as_rows", "save_svmlight", "LinearSVC.predict", "OnlineSVC.partial_fit"]))
    with contextlib.suppress(ValueError):
        ENTRIES[entry](X)


def test_a_sound_matrix_is_written_as_it_is(tmp_path):
    X = sp.csr_matrix(DENSE)
    X.sort_indices()
    X.indices[:2] = X.indices[:2][::-1].copy()  # after somebody has looked whether they are sorted
    save_svmlight(tmp_path / "a", X, Y)
    again, _ = maxmargin.load_svmlight(io.BytesIO((tmp_path / "a").read_bytes()), n_features=D, zero_based=False)
    np.testing.assert_array_equal(again.toarray(), X.toarray())
