"""What model files say: those of 0.1.0, equal ones, and what they may ask for."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import maxmargin
from maxmargin import BudgetSVC, LinearSVC, LinearSVR, OnlineSVC, StructuralSVC
from maxmargin.kernels import RBF, Polynomial
from maxmargin.losses import Huber
from maxmargin.models import ModelFileError, read_model
from maxmargin.models.codec import pack, unpack
from maxmargin.models.contents import read_content, unpack_histories, write_content
from maxmargin.models.predictor import open_model
from maxmargin.solvers.coordinate.dual_cd import DualCD

OLD = Path(__file__).with_name("models_0_1_0")
EXPECTED = json.loads((OLD / "expected.json").read_text())
del EXPECTED["checkpoint"]
X = np.random.default_rng(0).integers(-16, 17, (40, 3)) / 16.0
Y2 = np.where(X[:, 0] + X[:, 1] > 0, 1, -1)
Y3 = np.array(["cat", "dog", "owl"])[np.argmax(X, axis=1)]


# ---------------------------------------------------------------- the codec

leaves = st.none() | st.booleans() | st.integers(-(2**80), 2**80) | st.floats() | st.text(max_size=5)
leaves |= st.sampled_from([RBF(0.5), Polynomial(2, 1.0, 0.5), Huber(0.3), DualCD(shrinking=False)])
trees = st.recursive(
    leaves,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(st.characters(min_codepoint=36, max_codepoint=126), max_size=3), inner, max_size=3)
        | st.dictionaries(st.integers(0, 3), inner, max_size=3)
        | st.tuples(inner, inner)
    ),
    max_leaves=8,
)


def same(one, other):
    if isinstance(one, np.ndarray):
        return one.dtype == other.dtype and one.tobytes() == other.tobytes()
    if isinstance(one, float):
        return type(other) is float and (one == other or (one != one and other != other))
    if isinstance(one, (list, tuple)) and not hasattr(one, "_fields"):
        return type(one) is type(other) and len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict):
        return list(one) == list(other) and all(same(one[key], other[key]) for key in one)
    return type(one) is type(other) and one == other


@given(st.dictionaries(st.sampled_from(["a", "b", "$x", "seconds"]), trees, max_size=3))
def test_every_tree_comes_back(tree):
    if "seconds" in tree:
        tree["seconds"] = 0.5
    packed = pack(tree)
    assert json.loads(json.dumps(packed.info)) == packed.info
    assert same(unpack(*packed), tree)


def test_arrays_strings_and_readings_come_back():
    tree = {
        "x": np.arange(3),
        "inner": {"names": np.array(["a", "", "ü"], dtype=object), "labels": np.array(["no", "yes"])},
        "list": [np.eye(2, dtype=np.float32), {"finding_seconds": np.array([1.0, np.nan])}],
        "seconds": 2.5,
    }
    info, arrays, clock = pack(tree)
    assert set(arrays) == {
        "x", "inner.names.text", "inner.names.lengths", "inner.labels.text", "inner.labels.lengths", "list.0"
    }  # fmt: skip
    np.testing.assert_array_equal(clock, [1.0, np.nan, 2.5])
    back = unpack(info, arrays, clock)
    assert back["inner"]["names"].tolist() == ["a", "", "ü"]
    assert back["inner"]["names"].dtype == object
    assert back["inner"]["labels"].dtype == "<U3"
    np.testing.assert_array_equal(back["list"][1]["finding_seconds"], [1.0, np.nan])
    assert back["seconds"] == 2.5


# ---------------------------------------------------------------- files of 0.1.0


@pytest.mark.parametrize("name", EXPECTED)
@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
def test_models_of_0_1_0_are_read_and_written_anew(name, tmp_path):
    expected, path = EXPECTED[name], OLD / f"{name}.mm"
    estimator = maxmargin.load(path)
    assert read_model(path).version == 1
    assert type(estimator).__name__ == expected["kind"]
    estimator.save(tmp_path / "new.mm")
    assert read_model(tmp_path / "new.mm").version == 2
    again = maxmargin.load(tmp_path / "new.mm")
    for model in (estimator, again, open_model(path), open_model(tmp_path / "new.mm")):
        assert model.predict(X[:5]).tolist() == expected["predicted"]
        outputs = model.decision_function(X[:5]) if hasattr(model, "classes_") else model.predict(X[:5])
        np.testing.assert_allclose(outputs, expected["outputs"], rtol=1e-6)
    assert again.get_params() == estimator.get_params()
    for attribute in ("stop_reason_", "n_iter_", "certificate_"):
        assert getattr(again, attribute, None) == getattr(estimator, attribute, None)
    assert not hasattr(estimator, "first_index_")
    if hasattr(estimator, "partial_fit"):
        y = Y3 if len(estimator.classes_) == 3 else Y2
        np.testing.assert_array_equal(estimator.partial_fit(X, y).intercept_, again.partial_fit(X, y).intercept_)


# ---------------------------------------------------------------- equal models, equal bytes


def fitted(kind):
    return {
        "LinearSVC": lambda: LinearSVC().fit(X, Y3),
        "crammer_singer": lambda: LinearSVC(multi_class="crammer_singer").fit(X, Y3),
        "LinearSVR": lambda: LinearSVR().fit(X, X[:, 0]),
        "BudgetSVC": lambda: BudgetSVC(budget=5, random_state=0, refit=False, max_iter=3).fit(X, Y2),
        "OnlineSVC": lambda: OnlineSVC(early_stopping=True).fit(X, Y3),
        "StructuralSVC": lambda: StructuralSVC("f1").fit(X, Y2),
    }[kind]()


KINDS = ("LinearSVC", "crammer_singer", "LinearSVR", "BudgetSVC", "OnlineSVC", "StructuralSVC")


@pytest.mark.parametrize("kind", KINDS)
def test_equal_data_give_the_same_model_part(kind, tmp_path):
    contents = []
    for name in "ab":
        fitted(kind).save(tmp_path / name)
        contents.append(read_model(tmp_path / name))
    first, second = contents
    assert first.sha256 == second.sha256
    assert len(first.clock)
    n_clock = 8 * len(first.clock) + 32
    assert (tmp_path / "a").read_bytes()[:-n_clock] == (tmp_path / "b").read_bytes()[:-n_clock]
    maxmargin.load(tmp_path / "a").save(tmp_path / "c")
    assert (tmp_path / "c").read_bytes() == (tmp_path / "a").read_bytes()


def test_another_model_has_another_model_part(tmp_path):
    LinearSVC().fit(X, Y2).save(tmp_path / "a")
    LinearSVC(C=2.0).fit(X, Y2).save(tmp_path / "b")
    assert read_model(tmp_path / "a").sha256 != read_model(tmp_path / "b").sha256


# ---------------------------------------------------------------- what a file may ask for


def test_a_budget_takes_no_memory_before_it_is_used(tmp_path):
    BudgetSVC(budget=5, random_state=0).fit(X, Y2).save(tmp_path / "a.mm")
    kind, tree, *_ = read_content(tmp_path / "a.mm")
    tree["state"]["budget"] = 10**9
    write_content(tmp_path / "a.mm", kind, tree)
    tracemalloc.start()
    loaded = maxmargin.load(tmp_path / "a.mm")
    assert loaded.predict(X).shape == (40,)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 16 << 20
    assert loaded.budget_ == 10**9


def test_training_goes_on_after_loading_as_if_it_had_not_been_saved(tmp_path, monkeypatch):
    """Room up to the budget is made when the training goes on, and makes no difference."""
    monkeypatch.setattr("maxmargin.estimators.budget._FEWEST_ROWS", 1)  # no part is kept to be trained on again
    stream = np.random.default_rng(3).normal(size=(300, 3))
    labels = np.where(np.sum(stream**2, axis=1) > 2.0, 1, -1)
    model = BudgetSVC(budget=40, random_state=0, gamma=1.0).partial_fit(stream[:20], labels[:20])
    model.save(tmp_path / "a.mm")
    loaded = maxmargin.load(tmp_path / "a.mm")
    assert len(loaded._state.support.norms2) < 41
    for each in (model, loaded):
        each.partial_fit(stream[20:], labels[20:])
    assert len(model.support_vectors_) == 40
    np.testing.assert_array_equal(loaded.support_vectors_, model.support_vectors_)
    np.testing.assert_array_equal(loaded.dual_coef_, model.dual_coef_)


def test_a_larger_budget_makes_room():
    model = BudgetSVC(budget=3, random_state=0, gamma=1.0).partial_fit(X, Y2)
    model.set_params(budget=30).partial_fit(X, Y2)
    assert 3 < len(model.support_vectors_) <= 30
    assert np.isfinite(model.decision_function(X)).all()


@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
def test_a_file_that_is_overwritten_does_not_kill_who_has_loaded_it(tmp_path):
    LinearSVC().fit(X, Y2).save(tmp_path / "a.mm")
    (tmp_path / "empty").write_bytes(b"")
    program = (
        "import sys, shutil, maxmargin\n"
        "model = maxmargin.load(sys.argv[1])\n"
        "shutil.copyfile(sys.argv[2], sys.argv[1])\n"
        "print(model.coef_.sum())\n"
    )
    command = [sys.executable, "-c", program, str(tmp_path / "a.mm"), str(tmp_path / "empty")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode not in (-signal.SIGBUS, 128 + signal.SIGBUS)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("kind", ["LinearSVC", "BudgetSVC", "OnlineSVC"])
def test_damage_of_every_byte_is_noticed(kind, tmp_path):
    fitted(kind).save(tmp_path / "a.mm")
    whole = (tmp_path / "a.mm").read_bytes()
    for position in np.random.default_rng(0).integers(0, len(whole), 60):
        (tmp_path / "b.mm").write_bytes(whole[:position] + bytes([whole[position] ^ 4]) + whole[position + 1 :])
        for reader in (maxmargin.load, open_model):
            with pytest.raises(ModelFileError):
                reader(tmp_path / "b.mm")


# ---------------------------------------------------------------- checkpoints


def test_a_checkpoint_knows_its_problem(tmp_path):
    """Everything that decides the course of a run is asked for again: another penalty, loss, weight, row or label."""
    y = Y2.astype(float)
    settings = {
        "itself": {},
        "penalty": {"penalty": "l1"},
        "loss": {"loss": "logistic"},
        "delta": {"loss": Huber(0.3)},
        "C": {"C": 2.0},
        "bias": {"bias": 2.0},
        "intercept": {"bias": 1.0, "penalize_intercept": False},
        "rows": {"X": X[::-1].copy()},
        "label": {"y": np.concatenate(([-y[0]], y[1:]))},
    }

    def resumed(name):
        parts = {"X": X, "y": y, "C": 1.0, "loss": "squared_hinge", **settings[name]}
        problem = maxmargin.Problem(**parts)
        return maxmargin.solve(problem, "bmrm", checkpoint=tmp_path / "file", max_iter=2, tol=0.0)

    for _ in range(2):
        resumed("itself")
    for name in settings:
        if name != "itself":
            with pytest.raises(ValueError, match="belongs to other data, another solver or other parameters"):
                resumed(name)


# ---------------------------------------------------------------- models without scikit-learn


@pytest.mark.parametrize("kind", KINDS)
def test_a_bare_model_predicts_what_the_estimator_predicts(kind, tmp_path):
    estimator = fitted(kind)
    estimator.save(tmp_path / "a.mm")
    bare = open_model(tmp_path / "a.mm")
    assert (bare.kind, bare.n_features_in_) == (type(estimator).__name__, 3)
    np.testing.assert_array_equal(bare.predict(X), estimator.predict(X))
    np.testing.assert_array_equal(bare.predict(X.astype(np.float32)), estimator.predict(X.astype(np.float32)))
    if hasattr(estimator, "classes_"):
        np.testing.assert_array_equal(bare.classes_, estimator.classes_)
        np.testing.assert_array_equal(bare.decision_function(X), estimator.decision_function(X))
    with pytest.raises(ValueError, match="NaN"):
        bare.predict(np.full((2, 3), np.nan))


def test_open_model_does_not_import_scikit_learn(tmp_path):
    for kind in ("LinearSVC", "BudgetSVC"):
        fitted(kind).save(tmp_path / kind)
    shutil.copy(OLD / "online.mm", tmp_path / "old")
    program = (
        "import sys, numpy\n"
        "from maxmargin.models.predictor import open_model\n"
        "for path in sys.argv[1:]:\n"
        "    open_model(path).predict(numpy.zeros((2, 3)))\n"
        "sys.exit('sklearn' in sys.modules)\n"
    )
    paths = [str(tmp_path / name) for name in ("LinearSVC", "BudgetSVC", "old")]
    assert subprocess.run([sys.executable, "-c", program, *paths]).returncode == 0


def test_a_history_tells_of_passes():
    lengths = np.array([2])
    with pytest.raises(ValueError, match="a history without passes"):
        unpack_histories({"columns": {"primal": np.zeros(2)}, "lengths": lengths})
    assert len(unpack_histories({"columns": {"passes": np.arange(2.0)}, "lengths": lengths})[0]["passes"]) == 2
