"""Saved estimators come back whole, and what is no estimator comes back as a `ModelFileError`."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from liblinear import liblinearutil
from sklearn.exceptions import NotFittedError

import maxmargin
from maxmargin import LinearSVC, LinearSVR
from maxmargin.losses import Huber
from maxmargin.models import ModelFileError, read_model, write_liblinear, write_model
from maxmargin.problem import Certificate
from maxmargin.solvers.coordinate.dual_cd import DualCD

X = np.random.default_rng(0).integers(-16, 17, (90, 6)) / 16.0
Y2, Y3 = (np.argmax(X @ np.random.default_rng(k).normal(size=(6, k)), axis=1) for k in (2, 3))


@pytest.fixture
def path(tmp_path):
    return tmp_path / "a.model"


def saved_and_loaded(classifier, path):
    classifier.save(path)
    return maxmargin.load(path)


def assert_same_model(loaded, original):
    for name in ("coef_", "intercept_", "classes_"):
        np.testing.assert_array_equal(getattr(loaded, name), getattr(original, name))
        assert getattr(loaded, name).dtype == getattr(original, name).dtype
    assert loaded.n_features_in_ == original.n_features_in_
    for make in (np.asarray, np.float32, sp.csr_array):
        np.testing.assert_array_equal(loaded.decision_function(make(X)), original.decision_function(make(X)))
    predicted = loaded.predict(X)
    np.testing.assert_array_equal(predicted, original.predict(X))
    assert predicted.dtype == original.predict(X).dtype


def assert_same_record(loaded, original):
    assert loaded.certificate_ == original.certificate_
    assert isinstance(loaded.certificate_, list) == isinstance(original.certificate_, list)
    for ours, theirs in zip(np.atleast_1d(loaded.history_), np.atleast_1d(original.history_)):
        assert ours.keys() == theirs.keys()
        assert all(np.array_equal(ours[name], theirs[name]) for name in ours)
    for name in ("stop_reason_", "n_iter_", "solver_"):
        assert getattr(loaded, name) == getattr(original, name)
        assert type(getattr(loaded, name)) is type(getattr(original, name))


# ---------------------------------------------------------------- there and back


@pytest.mark.parametrize(
    "names",
    [
        np.array([-1, 1]),
        np.array([1, 2], dtype=np.uint8),
        np.array([2**62, 2**62 + 1]),
        np.array([False, True]),
        np.array([-1.0, 1.0], dtype=np.float32),
        np.array([-3.0, 0.0, 2.0**53]),
        np.array(["ham", "spam"]),
        np.array(["", "späm\0\n", "\ud800 猫"]),
        np.array(["ham", "spam", "zebra"], dtype=object),
    ],
)
def test_labels_of_every_kind_come_back(names, path):
    original = LinearSVC().fit(X, names[Y2 if len(names) == 2 else Y3])
    loaded = saved_and_loaded(original, path)
    assert_same_model(loaded, original)
    assert_same_record(loaded, original)
    assert loaded.get_params() == original.get_params()


@pytest.mark.parametrize(
    "params",
    [
        {"loss": Huber(0.3), "solver": DualCD(shrinking=False, order="cyclic")},
        {"loss": Huber(np.float32(0.3)), "C": np.float32(0.1), "n_jobs": np.int64(2)},
        {"class_weight": {0: 2.0, 1: 0.5}, "intercept_scaling": 3.0},
        {"class_weight": "balanced", "fit_intercept": False, "verbose": 0, "warm_start": True},
        {"solver": "dual_cd", "loss": "hinge", "random_state": 7},
        {"max_iter": np.inf, "max_time": float("inf"), "tol": 1e-300 + 0.1},
    ],
)
def test_parameters_of_every_kind_come_back(params, path):
    original = LinearSVC(**params).fit(X, Y2)
    loaded = saved_and_loaded(original, path)
    assert_same_model(loaded, original)
    assert_same_record(loaded, original)
    assert loaded.get_params() == original.get_params()
    np.testing.assert_array_equal(loaded.fit(X, Y2).coef_, LinearSVC(**params).fit(X, Y2).coef_)


def test_generator_is_not_saved(path):
    original = LinearSVC(random_state=np.random.default_rng(1)).fit(X, Y2)
    loaded = saved_and_loaded(original, path)
    assert_same_model(loaded, original)
    assert loaded.random_state is None


def test_names_of_features_come_back(path):
    names = ["weight", "größe", "", "a\0b", "x" * 1000, "5"]
    frame = pd.DataFrame(X, columns=names)
    loaded = saved_and_loaded(LinearSVC().fit(frame, Y2), path)
    assert loaded.feature_names_in_.tolist() == names
    assert loaded.feature_names_in_.dtype == object
    assert loaded.predict(frame).shape == (len(X),)
    with pytest.raises(ValueError, match="feature names"):
        loaded.predict(frame.rename(columns={"5": "6"}))
    assert not hasattr(saved_and_loaded(LinearSVC().fit(X, Y2), path), "feature_names_in_")


def test_many_classes_and_many_names_fit_into_a_file(path):
    """The header of a file is limited; what grows with the data lies in arrays."""
    n_classes, n_features = 13_000, 300_000
    classifier = LinearSVC().fit(X, Y3)
    classifier.classes_ = np.array([f"class {k} of very many" for k in range(n_classes)])
    classifier.coef_, classifier.intercept_ = np.zeros((n_classes, 2)), np.zeros(n_classes)
    classifier.certificate_ = [Certificate(1.0, 0.5, 0.5)] * n_classes
    classifier.history_ = [{name: np.full(k % 3, 1.0) for name in ("passes", "primal")} for k in range(n_classes)]
    loaded = saved_and_loaded(classifier, path)
    assert loaded.classes_.tolist() == classifier.classes_.tolist()
    assert loaded.certificate_ == classifier.certificate_
    assert [len(history["primal"]) for history in loaded.history_] == [k % 3 for k in range(n_classes)]

    classifier = LinearSVC().fit(X, Y2)
    classifier.coef_ = np.zeros((1, n_features))
    classifier.feature_names_in_ = np.array([f"feature with the number {k}" for k in range(n_features)], dtype=object)
    assert saved_and_loaded(classifier, path).feature_names_in_.tolist() == classifier.feature_names_in_.tolist()


@pytest.mark.parametrize("y", [Y2, Y3], ids=["two classes", "three"])
def test_loaded_estimator_is_saved_and_fitted_again(y, path, tmp_path):
    original = LinearSVC(warm_start=True, max_iter=30).fit(X, y)
    loaded = saved_and_loaded(original, path)
    again = saved_and_loaded(loaded, tmp_path / "b.model")
    assert_same_model(again, original)
    assert_same_record(again, original)
    assert path.read_bytes() == (tmp_path / "b.model").read_bytes()
    loaded.save(path)  # over the very file that its coefficients are mapped from
    assert_same_model(maxmargin.load(path), original)
    assert_same_model(loaded, original)
    np.testing.assert_array_equal(loaded.fit(X, y).coef_, LinearSVC(max_iter=30).fit(X, y).coef_)


def test_save_takes_no_more_than_what_is_asked(path, tmp_path):
    with pytest.raises(NotFittedError):
        LinearSVC().save(path)

    class Special(LinearSVC):
        """A user's own estimator, whose code the file could not name."""

    with pytest.raises(TypeError, match="cannot save a Special; this version saves LinearSVC"):
        Special().fit(X, Y2).save(path)
    classifier = LinearSVC().fit(X, Y2)
    with pytest.raises(TypeError, match="parameter verbose=<object"):
        classifier.set_params(verbose=object()).save(path)

    class Mine(DualCD):
        """A user's own solver under the name of another."""

    with pytest.raises(TypeError, match=r"parameter solver=.*Mine"):
        LinearSVC(solver=Mine()).fit(X, Y2).save(path)
    classifier = LinearSVC().fit(X, Y2)
    classifier.classes_ = np.array([1 + 2j, 3j])
    with pytest.raises(TypeError, match="only numbers and strings can be saved as class labels"):
        classifier.save(path)
    assert not path.exists()
    with pytest.raises(OSError, match="nowhere"):
        LinearSVC().fit(X, Y2).save(tmp_path / "nowhere" / "a.model")


# ---------------------------------------------------------------- LIBLINEAR's files


def objectives(model, y, bias):
    """LIBLINEAR's objective, at C = 1, of a model's weights for each class."""
    classes = model.classes_[1:] if len(model.classes_) == 2 else model.classes_
    signs = np.where(y[:, np.newaxis] == classes, 1.0, -1.0)
    errors = np.maximum(0.0, 1.0 - signs * (X @ model.coef_.T + model.intercept_))
    loss = errors if model.loss == "hinge" else errors**2
    extra = (model.intercept_ / bias) ** 2 if bias > 0 else 0.0
    return 0.5 * (np.sum(model.coef_**2, axis=1) + extra) + loss.sum(axis=0)


@pytest.mark.parametrize("solver_type", [1, 2, 3, 0, 4])
@pytest.mark.parametrize("bias", [-1, 1, 10])
@pytest.mark.parametrize("y", [2 * Y2 - 1, 3 - Y3], ids=["two classes", "three"])
def test_liblinears_models_predict_as_liblinear_does(y, bias, solver_type, path, tmp_path):
    parameters = f"-s {solver_type} -B {bias} -e 1e-7 -q"
    trained = liblinearutil.train(y, sp.csr_matrix(X), parameters)
    liblinearutil.save_model(str(path), trained)
    expected, _, decisions = liblinearutil.predict([], sp.csr_matrix(X), trained, "-q")
    loaded = maxmargin.load(path)
    np.testing.assert_array_equal(loaded.predict(X), expected)
    assert loaded.classes_.tolist() == sorted(set(y.tolist()))
    theirs = np.array(decisions)[:, np.argsort(trained.get_labels())] if len(set(y.tolist())) > 2 else None
    if theirs is not None:
        np.testing.assert_allclose(loaded.decision_function(X), theirs, atol=1e-10)
    assert loaded.loss == {0: "logistic", 1: "squared_hinge", 2: "squared_hinge", 3: "hinge", 4: "hinge"}[solver_type]
    assert (loaded.fit_intercept, loaded.intercept_scaling) == (bias > 0, max(bias, 1))

    again = saved_and_loaded(loaded, tmp_path / "b.model")  # without a certificate: there is none
    assert_same_model(again, loaded)
    assert not hasattr(again, "certificate_")
    if solver_type in (1, 2, 3):
        refitted = again.set_params(tol=1e-9).fit(X, y)
        assert refitted.stop_reason_ == "converged"
        certificates = np.ravel(refitted.certificate_).reshape(-1, 3)
        ratios = objectives(loaded, y, bias) / certificates[:, 0]
        assert (ratios > 1.0 - 1e-8).all(), "nothing is below a minimum"
        # LIBLINEAR gives up after a thousand passes, which for the hinge may be far from enough.
        assert (ratios < 1.0 + (0.1 if solver_type == 3 else 1e-4)).all()


def test_a_regressor_of_liblinear_is_read(path):
    write_liblinear(path, [[1.0, 2.0, -1.0]], 0.5, None, solver_type="L2R_L1LOSS_SVR_DUAL", bias=2.0)
    regressor = maxmargin.load(path)
    assert type(regressor) is LinearSVR
    assert (regressor.loss, regressor.intercept_scaling) == ("epsilon_insensitive", 2.0)
    np.testing.assert_allclose(regressor.predict([[1.0, 1.0, 1.0], [0.0, 0.0, 0.0]]), [2.5, 0.5])


def test_liblinears_other_models_are_refused_by_name(path):
    path.write_text("solver_type L2R_L2LOSS_SVC\nnr_class 1\nlabel 5\nnr_feature 1\nbias -1\nw\n0.5\n")
    with pytest.raises(ModelFileError, match="single class, 5"):
        maxmargin.load(path)
    path.write_text("solver_type L2R_L2LOSS_SVC\nnr_class 2\nlabel 1 -1\nnr_feature 3\nbias -1\nw\n0.5\n")
    with pytest.raises(ModelFileError, match=r"a\.model:"):
        maxmargin.load(path)


# ---------------------------------------------------------------- what is no model


@pytest.fixture(scope="module")
def content(tmp_path_factory):
    """The parts of a sound file: kind, info and arrays."""
    path = tmp_path_factory.mktemp("models") / "sound.model"
    LinearSVC(class_weight={0: 1.0}, loss=Huber(0.3), solver=DualCD()).fit(X, Y3).save(path)
    model = read_model(path)
    assert maxmargin.load(path).predict(X).shape == (len(X),)  # what is refused below is refused for the change's sake
    return model.info, model.arrays, model.clock


def write(path, content, info=None, arrays=None):
    """The sound file with some entries changed; of the parameters one by one."""
    changed = dict(info or {})
    if isinstance(changed.get("params"), dict):
        changed["params"] = content[0]["params"] | changed["params"]
    write_model(path, "LinearSVC", content[0] | changed, content[1] | (arrays or {}), content[2])


def test_the_parts_of_a_sound_file_make_one_again(path, content):
    write(path, content)
    assert maxmargin.load(path).solver_ == DualCD()


def assert_refused(path, match=None):
    with pytest.raises(ModelFileError, match=match) as caught:
        maxmargin.load(path)
    assert str(caught.value).startswith(f"{path}: ")


def test_truncated_and_damaged_files_are_refused(path):
    LinearSVC().fit(X, Y2).save(path)
    whole = path.read_bytes()
    for length in [0, 1, 7, 8, 9, 100, len(whole) // 2, len(whole) - 1]:
        path.write_bytes(whole[:length])
        assert_refused(path)
    for position in np.random.default_rng(0).integers(0, len(whole), 200):
        damaged = bytearray(whole)
        damaged[position] ^= 1 << position % 8
        path.write_bytes(damaged)
        assert_refused(path)
    path.write_bytes(whole + b"\0")
    assert_refused(path)
    with pytest.raises(FileNotFoundError):
        maxmargin.load(path.with_name("absent"))


def test_model_of_another_kind_is_refused(path, content):
    write_model(path, "checkpoint", *content)
    assert_refused(path, match="holds a 'checkpoint', not an estimator; this version reads LinearSVC")


HOSTILE_INFO = {
    "no params": {"params": None},
    "strange params": {"params": {"C": 1.0, "__class__": "os.system"}},
    "params that are code": {"params": {"solver": {"$solver": "os.system", "fields": {"command": "true"}}}},
    "an unknown form": {"params": {"solver": {"$code": "os.system", "fields": {}}}},
    "unknown fields": {"params": {"solver": {"$solver": "dual_cd", "fields": {"shrnking": 1}}}},
    "solver without fields": {"params": {"solver": {"$solver": "dual_cd"}}},
    "solver that is a list": {"params": {"solver": {"$solver": [], "fields": {}}}},
    "impossible loss": {"params": {"loss": {"$loss": "huber", "fields": {"delta": -1.0}}}},
    "loss that is a dict": {"params": {"loss": {"$loss": {}, "fields": {}}}},
    "unhashable key": {"params": {"class_weight": {"$pairs": [[{"$pairs": []}, 1.0]]}}},
    "pairs that are none": {"params": {"class_weight": {"$pairs": [[1, 2, 3]]}}},
    "a float that is none": {"params": {"C": {"$float": "one"}}},
    "an array that is not there": {"coef": {"$array": "coeff"}},
    "strings that are not there": {"classes": {"$strings": "classes", "kind": "U"}},
    "an array without a name": {"coef": {"$array": ["coef"]}},
    "a clock that has no such readings": {"params": {"C": {"$clock": [10**9]}}},
    "a clock that is read backwards": {"params": {"C": {"$clock": [2, 1]}}},
    "training of another kind": {"training": 5},
    "indices that count from 2": {"first_index": 2},
    "indices that count from truth": {"first_index": True},
}


@pytest.mark.parametrize("change", HOSTILE_INFO.values(), ids=HOSTILE_INFO.keys())
def test_hostile_info_is_refused(change, path, content):
    write(path, content, info=change)
    assert_refused(path, match="not a usable LinearSVC model")


def test_an_endless_count_is_refused(path, content):
    write(path, content, info={"training": content[0]["training"] | {"n_iter": "many"}})
    assert_refused(path, match="not a usable LinearSVC model")


@pytest.mark.parametrize("depth", [10, 100])
def test_tower_of_values_is_read(depth, path, content):
    """A strange parameter that a user could have given, but no more than that."""
    tower = 1.0
    for _ in range(depth):
        tower = {"$pairs": [[0, tower]]}
    write(path, content, info={"params": {"class_weight": tower}})
    value = maxmargin.load(path).class_weight
    for _ in range(depth):
        value = value[0]
    assert value == 1.0


HOSTILE_ARRAYS = {
    "one weight too few": {"coef": np.zeros((2, 6))},
    "flat weights": {"coef": np.zeros(6)},
    "weights that are integers": {"coef": np.zeros((3, 6), dtype=int)},
    "intercepts of another shape": {"intercept": np.zeros((3, 1))},
    "intercepts that are bools": {"intercept": np.zeros(3, dtype=bool)},
    "a single class": {"classes": np.array([1])},
    "classes in a square": {"classes": np.zeros((3, 3))},
    "certificates of another shape": {"training.certificates": np.zeros((3, 2))},
    "flat certificates": {"training.certificates": np.zeros(3)},
    "too few certificates": {"training.certificates": np.zeros((1, 3))},
    "too few histories": {"training.history.lengths": np.array([1])},
    "negative lengths": {"training.history.lengths": np.array([-1, 2, 3])},
    "endless lengths": {"training.history.lengths": np.array([2**62, 2**62, 2**62])},
    "lengths that are floats": {"training.history.lengths": np.array([1.0, 1.0, 1.0])},
    "classes twice": {"classes": np.array([0, 1, 1])},
    "weights that are not finite": {"coef": np.full((3, 6), np.inf)},
    "no features": {"coef": np.zeros((3, 0))},
}
NAMES = {
    "of other features": {"text": np.zeros(5, dtype=np.uint8), "lengths": np.array([5])},
    "without lengths": {"text": np.zeros(5, dtype=np.uint8)},
    "that are no text": {"text": np.full(6, 255, dtype=np.uint8), "lengths": np.ones(6, dtype=int)},
    "that are numbers": {"text": np.zeros(6), "lengths": np.ones(6, dtype=int)},
}


@pytest.mark.parametrize("names", NAMES.values(), ids=NAMES.keys())
def test_names_that_are_none_are_refused(names, path, content):
    arrays = {f"feature_names.{part}": array for part, array in names.items()}
    write(path, content, info={"feature_names": {"$strings": "feature_names", "kind": "object"}}, arrays=arrays)
    assert_refused(path, match="not a usable LinearSVC model")


@pytest.mark.parametrize("change", HOSTILE_ARRAYS.values(), ids=HOSTILE_ARRAYS.keys())
def test_hostile_arrays_are_refused(change, path, content):
    write(path, content, arrays=change)
    assert_refused(path, match="not a usable LinearSVC model")


@pytest.mark.parametrize("name", ["coef", "intercept", "classes", "training.certificates", "training.history.lengths"])
def test_missing_arrays_are_refused(name, path, content):
    info, arrays, clock = content
    write_model(path, "LinearSVC", info, {key: array for key, array in arrays.items() if key != name}, clock)
    assert_refused(path, match=name)


def test_label_that_would_fill_the_memory_is_refused(path, content):
    """As numpy's strings, a hundred thousand labels of which one is long would take as many times its length."""
    n, long = 100_000, 1_000_000
    lengths = np.zeros(n, dtype=np.int64)
    lengths[0] = long
    labels = {"classes.text": np.full(long, 65, dtype=np.uint8), "classes.lengths": lengths}
    write(path, content, info={"classes": {"$strings": "classes", "kind": "U"}}, arrays=labels)
    assert_refused(path, match="too long")
