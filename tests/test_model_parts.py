"""The checks of what a model file holds: of each, a tree that is sound but for that one thing."""

import numpy as np
import pytest

from maxmargin.kernels import RBF
from maxmargin.models.contents import (
    classes_of,
    feature_names_of,
    first_index_of,
    kernel_parts,
    linear_parts,
    unpack_histories,
)


def machine(n_classes=3, n=6, sparse=False, precomputed=False):
    """What is saved of a machine whose classes meet in pairs."""
    counts = np.full(n_classes, n // n_classes)
    vectors = np.arange(2.0 * n).reshape(n, 2)
    tree = {
        "classes": np.arange(n_classes),
        "kernel": "precomputed" if precomputed else RBF(0.5),
        "support_vectors": np.zeros((n, 0)) if precomputed else vectors,
        "dual_coef": np.ones((n_classes - 1, n)),
        "intercept": np.zeros(n_classes * (n_classes - 1) // 2),
        "n_support": counts,
        "support": np.arange(n),
        "shape_fit": np.array([9, 9]),
    }
    if sparse:
        parts = {"data": np.ones(n), "indices": np.arange(n) % 2, "indptr": np.arange(n + 1)}
        tree["support_vectors"] = parts | {"shape": np.array([n, 2])}
    return tree


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("form", ["dense", "sparse", "precomputed"])
def test_a_sound_machine_is_read(form, n_classes):
    tree = machine(n_classes, sparse=form == "sparse", precomputed=form == "precomputed")
    found = kernel_parts("SVC", tree)
    assert found.vectors.shape == (6, 0 if form == "precomputed" else 2)
    np.testing.assert_array_equal(found.coefficients, tree["dual_coef"])
    assert (found.n_support is None) == (n_classes == 2), "two classes have a single output"
    regressor = tree | {"n_support": None, "dual_coef": np.ones((1, 6)), "intercept": np.zeros(1)}
    assert kernel_parts("SVR", regressor).classes is None


WRONG = {
    "counts of other classes": ({"n_support": np.array([3, 3])}, "does not divide 6"),
    "a negative count": ({"n_support": np.array([4, 4, -2])}, "does not divide 6"),
    "counts of fewer": ({"n_support": np.array([2, 2, 1])}, "does not divide 6"),
    "counts that are none": ({"n_support": np.array([2.0, 2.0, 2.0])}, "does not divide 6"),
    "counts in a table": ({"n_support": np.array([[2, 2, 2]])}, "does not divide 6"),
    "too few rows": ({"dual_coef": np.ones((1, 6))}, "do not fit"),
    "too few coefficients": ({"dual_coef": np.ones((2, 5))}, "do not fit"),
    "too few intercepts": ({"intercept": np.zeros(2)}, "do not fit"),
    "no kernel": ({"kernel": "rbf"}, "there is no kernel"),
    "vectors in a row": ({"support_vectors": np.ones(6)}, "support vectors of shape"),
    "vectors of nothing": ({"support_vectors": np.ones((6, 0))}, "support vectors of shape"),
    "a vector that is no number": ({"support_vectors": np.full((6, 2), np.nan)}, "support vectors are not finite"),
    "vectors of integers": ({"support_vectors": np.ones((6, 2), int)}, "support vectors are not floating"),
    "an infinite coefficient": ({"dual_coef": np.full((2, 6), np.inf)}, "coefficients are not finite"),
    "an intercept that is no number": ({"intercept": np.full(3, np.nan)}, "coefficients are not finite"),
    "intercepts that are integers": ({"intercept": np.zeros(3, int)}, "coefficients are not floating"),
}


@pytest.mark.parametrize(("change", "message"), WRONG.values(), ids=WRONG)
def test_a_machine_that_makes_no_sense_is_refused(change, message):
    with pytest.raises(ValueError, match=message):
        kernel_parts("SVC", machine() | change)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"data": np.ones((6, 1))}, "not the parts"),
        ({"indices": np.zeros((6, 1), int)}, "not the parts"),
        ({"indptr": np.arange(7)[:, None]}, "not the parts"),
        ({"shape": np.array([6, 2, 1])}, "not the parts"),
        ({"indices": np.zeros(6)}, "not integers"),
        ({"indptr": np.arange(7.0)}, "not integers"),
        ({"shape": np.array([6.0, 2.0])}, "not integers"),
        ({"indices": np.full(6, 2)}, "indices"),
        ({"indices": np.full(6, -1)}, "indices"),
        ({"indptr": np.array([0, 2, 1, 3, 4, 5, 6])}, "indptr"),
        ({"data": np.full(6, np.nan)}, "support vectors are not finite"),
    ],
)
def test_sparse_support_vectors_are_looked_at_from_end_to_end(change, message):
    tree = machine(sparse=True)
    with pytest.raises(ValueError, match=message):
        kernel_parts("SVC", tree | {"support_vectors": tree["support_vectors"] | change})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"support": np.arange(5)}, "of a kernel matrix"),
        ({"support": np.arange(6.0)}, "of a kernel matrix"),
        ({"shape_fit": np.array([9])}, "of a kernel matrix"),
        ({"shape_fit": np.array([9, 8])}, "of a kernel matrix"),
        ({"support": np.arange(6) - 1}, "outside of a kernel matrix of 9"),
        ({"support": np.arange(6) + 4}, "outside of a kernel matrix of 9"),
    ],
)
def test_places_in_a_kernel_matrix_are_within_it(change, message):
    assert kernel_parts("SVC", machine(precomputed=True) | {"support": np.arange(6) + 3}).n_support is not None
    with pytest.raises(ValueError, match=message):
        kernel_parts("SVC", machine(precomputed=True) | change)


@pytest.mark.parametrize(
    ("classes", "message"),
    [
        (["a", "b"], "not a row"),
        (np.eye(2), "not a row"),
        (np.array([1]), "1 classes"),
        (np.array([]), "0 classes"),
        (np.array([1.0, np.inf]), "not finite"),
        (np.array([1, 2, 1]), "twice"),
    ],
)
def test_classes_that_are_none_are_refused(classes, message):
    with pytest.raises(ValueError, match=message):
        classes_of("LinearSVC", {"classes": classes})


def test_a_stream_may_know_a_single_class():
    assert classes_of("OnlineSVC", {"classes": np.array([7])}).tolist() == [7]
    with pytest.raises(ValueError, match="0 classes"):
        classes_of("OnlineSVC", {"classes": np.array([], int)})
    assert classes_of("SVR", {}) is None


def test_linear_weights_fit_their_classes():
    two = {"classes": np.array([0, 1]), "coef": np.ones((1, 4)), "intercept": np.zeros(1)}
    three = {"classes": np.arange(3), "coef": np.ones((3, 4)), "intercept": np.zeros(3)}
    for tree in (two, three):
        assert linear_parts("LinearSVC", tree).coef is tree["coef"]
        rows = len(tree["coef"])
        for change in (
            {"coef": np.ones(4)},
            {"coef": np.ones((rows + 1, 4))},
            {"coef": np.ones((rows, 0))},
            {"intercept": np.zeros(rows + 1)},
            {"intercept": np.zeros((rows, 1))},
        ):
            with pytest.raises(ValueError, match="do not fit"):
                linear_parts("LinearSVC", tree | change)
        for name in ("coef", "intercept"):
            with pytest.raises(ValueError, match="not finite"):
                linear_parts("LinearSVC", tree | {name: np.full_like(tree[name], np.inf)})
    assert linear_parts("LinearSVR", two).classes is None


def test_names_and_first_indices_are_checked():
    names = np.array(["a", "b"], dtype=object)
    assert feature_names_of({"feature_names": names}, 2) is names
    assert feature_names_of({}, 2) is None
    for wrong, n in ((names, 3), (names[:, None], 2), (["a", "b"], 2)):
        with pytest.raises(ValueError, match=f"2 names of {n} features"):
            feature_names_of({"feature_names": wrong}, n)
    assert [first_index_of({"first_index": k}) for k in (None, 0, 1)] == [None, 0, 1]
    for wrong in (-1, 2, True, 1.0, "1"):
        with pytest.raises(ValueError, match="count from"):
            first_index_of({"first_index": wrong})


def test_histories_are_parted_by_their_lengths():
    columns = {"passes": np.array([1.0, 2.0, 5.0]), "gap": np.array([3.0, 2.0, 9.0])}
    parts = unpack_histories({"columns": columns, "lengths": np.array([2, 0, 1])})
    assert [part["gap"].tolist() for part in parts] == [[3.0, 2.0], [], [9.0]]
    overflowing = [2**62, 2**62, 2**62, 2**62, 3]  # whose sum is 3 to a machine
    for lengths in ([2], [2, 2], [-1, 4], overflowing):
        with pytest.raises(ValueError, match="do not divide 3 items"):
            unpack_histories({"columns": columns, "lengths": np.array(lengths)})
    for lengths in (np.array([3.0]), np.array([[3]]), np.array([3], dtype=np.int32)):
        with pytest.raises(ValueError, match="must be a row of integers"):
            unpack_histories({"columns": columns, "lengths": lengths})
    with pytest.raises(ValueError, match="without passes"):
        unpack_histories({"columns": {"gap": columns["gap"]}, "lengths": np.array([3])})
