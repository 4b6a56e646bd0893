"""Estimators on a store: the same optimum, with the same proof, as on the same rows in memory."""

import numpy as np
import pytest
import samples

import maxmargin
from maxmargin import BudgetSVC, LinearSVC, LinearSVCCV, LinearSVR, OnlineSVC
from maxmargin.data import cuts
from maxmargin.estimators._budget_store import StoredRows


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    """Little data is divided, too."""
    monkeypatch.setattr(cuts, "LEAST_VALUES", 100)


def sample(n_classes=2, n=300, storage="dense"):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 5)) * (rng.random((n, 5)) < 0.7)
    scores = X @ rng.normal(size=(5, n_classes)) + 0.5 * rng.normal(size=(n, n_classes))
    return (samples.csr(X) if storage == "csr" else X), scores.argmax(axis=1)


def stored(path, X, y, memory=6000, **options):
    maxmargin.pack(X, path, y=y, block_size=3000, **options)
    store = maxmargin.open_store(path, memory=memory)
    assert store.n_blocks >= 4
    return store


def assert_same_model(one, other):
    np.testing.assert_allclose(one.coef_, other.coef_, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(one.intercept_, other.intercept_, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("storage", ["dense", "csr"])
@pytest.mark.parametrize("n_classes", [2, 4])
def test_a_classifier(tmp_path, n_classes, storage):
    X, y = sample(n_classes, storage=storage)
    names = np.array(["a", "c", "b", "d"])[y]
    store = stored(tmp_path / "s", X, names)
    for options in ({}, {"class_weight": "balanced"}, {"class_weight": {"a": 3.0}}):
        in_memory = LinearSVC(tol=1e-9, solver="tron", **options).fit(X, names)
        on_disk = LinearSVC(tol=1e-9, n_jobs=2, **options).fit(store)
        assert on_disk.solver_.access == "passes"
        assert on_disk.classes_.tolist() == in_memory.classes_.tolist() == sorted(set(names))
        assert on_disk.n_features_in_ == 5
        assert_same_model(on_disk, in_memory)
    np.testing.assert_array_equal(on_disk.predict(store), in_memory.predict(X))
    np.testing.assert_allclose(on_disk.decision_function(store), on_disk.decision_function(X), rtol=1e-9, atol=1e-9)
    assert on_disk.score(store, store.labels()) == in_memory.score(X, names)


def test_weights_come_with_the_store_or_are_given(tmp_path):
    X, y = sample()
    weight = np.random.default_rng(1).integers(0, 3, len(y)).astype(float)
    in_memory = LinearSVC(tol=1e-9, solver="tron", class_weight="balanced").fit(X, y, weight)
    weighted, plain = stored(tmp_path / "s", X, y, sample_weight=weight), stored(tmp_path / "t", X, y)
    model = LinearSVC(tol=1e-9, class_weight="balanced")
    assert_same_model(model.fit(weighted), in_memory)
    assert_same_model(model.fit(plain, sample_weight=weight), in_memory)
    with pytest.raises(ValueError, match="weights of its own"):
        model.fit(weighted, sample_weight=weight)
    with pytest.raises(ValueError, match="labels of its own"):
        model.fit(plain, y)


def test_a_regressor(tmp_path):
    X, _ = sample()
    y = X @ np.arange(5.0) + np.sin(np.arange(300.0))
    options = {"loss": "squared_epsilon_insensitive", "epsilon": 0.1, "tol": 1e-9}
    store = stored(tmp_path / "s", X, y)
    on_disk = LinearSVR(**options).fit(store)
    assert_same_model(on_disk, LinearSVR(solver="tron", **options).fit(X, y))
    np.testing.assert_allclose(on_disk.predict(store), on_disk.predict(X), rtol=1e-9)
    with pytest.raises(ValueError, match="must be numbers"):
        LinearSVR().fit(stored(tmp_path / "t", X, np.array(["a", "b", "c"])[np.arange(300) % 3]))


def test_a_path_and_cross_validation(tmp_path):
    X, y = sample()
    store = stored(tmp_path / "s", X, y)
    options = {"Cs": [0.01, 0.1, 1.0], "loss": "squared_hinge", "solver": "tron", "tol": 1e-8}
    on_disk, in_memory = maxmargin.path(store, **options), maxmargin.path(X, y, **options)
    np.testing.assert_allclose(on_disk.objective, in_memory.objective, rtol=1e-7)
    assert (on_disk.relative_gap <= 1e-8).all()
    np.testing.assert_array_equal(on_disk.model(1).predict(store), in_memory.model(1).predict(X))
    chosen, expected = LinearSVCCV(cv=3, **options).fit(store), LinearSVCCV(cv=3, **options).fit(X, y)
    assert chosen.C_ == expected.C_
    np.testing.assert_allclose(chosen.scores_, expected.scores_, rtol=1e-6)
    assert_same_model(chosen, expected)


def test_an_online_learner_takes_a_store_as_a_stream(tmp_path):
    X, y = sample(storage="csr")
    store = stored(tmp_path / "s", X, y)
    on_disk = OnlineSVC(max_iter=2, random_state=0).fit(store)
    chunks = list(store)
    np.testing.assert_array_equal(on_disk.coef_, OnlineSVC(max_iter=2, random_state=0).fit(chunks).coef_)
    assert (on_disk.predict(X) == y).mean() > 0.8
    np.testing.assert_array_equal(on_disk.predict(store), on_disk.predict(X))


@pytest.mark.parametrize("refit", [True, False])
@pytest.mark.parametrize("n_classes", [2, 4])
@pytest.mark.parametrize("storage", ["dense", "csr"])
def test_a_budgeted_learner(tmp_path, storage, n_classes, refit):
    X, y = sample(n_classes, 900, storage)
    names = np.array(["a", "c", "b", "d"])[y]
    weight = np.random.default_rng(1).integers(0, 3, len(y)).astype(float)
    store = stored(tmp_path / "s", X, names, memory=10**6, sample_weight=weight)
    options = {"budget": 30, "max_iter": 3, "refit": refit, "random_state": 0, "class_weight": "balanced"}
    model, in_memory = BudgetSVC(**options).fit(store), BudgetSVC(**options).fit(X, names, weight)
    assert model.classes_.tolist() == in_memory.classes_.tolist()
    assert model.kernel_.gamma == pytest.approx(in_memory.kernel_.gamma, rel=1e-12)  # the sample is all rows here
    assert model.history_["passes"].tolist() == [1.0, 2.0, 3.0]
    assert model.history_["steps"][-1] == in_memory.history_["steps"][-1]
    assert len(model.support_vectors_) <= 30
    counts = weight > 0.0
    right = [((m.predict(X) == names) * weight).sum() / weight.sum() for m in (model, in_memory)]
    assert right[0] > right[1] - 0.06
    assert (model.certificate_ is None) == (not refit)
    np.testing.assert_array_equal(model.predict(store), model.predict(X))
    assert model.predict(store)[counts].shape == (counts.sum(),)


def test_a_budgeted_learner_refits_on_a_sample(tmp_path):
    X, y = sample(2, 900)
    store = stored(tmp_path / "s", X, y, memory=20_000)
    model = BudgetSVC(budget=20, max_iter=0.5, C=3.0).fit(store)
    assert model.stop_reason_ == "converged"
    assert model.history_["passes"][-1] == pytest.approx(0.5, abs=2e-3)
    sampled = StoredRows(store, None, None, model)
    assert 40 <= len(sampled.y) < 900
    assert sampled.weight.sum() == pytest.approx(900.0)
    assert set(map(tuple, sampled.X)) <= set(map(tuple, X))
    assert (model.predict(X) == y).mean() > 0.8


def test_a_store_whose_rows_are_few_is_fitted_exactly(tmp_path):
    X, y = sample(2, 300)
    store = stored(tmp_path / "s", X[np.arange(300) % 10], y[np.arange(300) % 10], memory=10**6)
    exact = BudgetSVC(budget=40, tol=1e-9).fit(store)
    assert len(exact.support_vectors_) == 10


def test_what_a_store_cannot_do_is_told(tmp_path):
    X, y = sample()
    store = stored(tmp_path / "s", X, y)
    with pytest.raises(ValueError, match="'dual_cd' does not take these rows"):
        LinearSVC(solver="dual_cd").fit(store)
    with pytest.raises(ValueError, match='budget="auto" needs rows in memory'):
        BudgetSVC(budget="auto").fit(store)
    with pytest.raises(ValueError, match="labels of its own"):
        BudgetSVC().fit(store, y)
    with pytest.raises(ValueError, match="rows in memory"):
        LinearSVC(multi_class="crammer_singer").fit(store)
    with pytest.raises(ValueError, match="only one class"):
        LinearSVC().fit(stored(tmp_path / "t", X, np.ones(len(y))))
    model = LinearSVC().fit(store)
    with pytest.raises(ValueError, match="features"):
        model.predict(stored(tmp_path / "u", X[:, :4], y))


def test_a_limit_of_time_leaves_a_model(tmp_path):
    X, y = sample()
    with pytest.warns(UserWarning, match="max_time"):
        model = LinearSVC(max_time=1e-9).fit(stored(tmp_path / "s", X, y))
    assert model.stop_reason_ == "max_time"
    assert model.predict(X).shape == (300,)


def test_a_model_of_a_store_is_saved_and_loaded(tmp_path):
    X, y = sample()
    store = stored(tmp_path / "s", X, y)
    model = LinearSVC().fit(store)
    model.save(tmp_path / "m")
    np.testing.assert_array_equal(maxmargin.load(tmp_path / "m").predict(store), model.predict(X))
