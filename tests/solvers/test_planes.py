"""The store of cutting planes, and the active-set method for the reduced problem."""

import naive
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from naive.cutting_plane import reduced

from maxmargin.losses import Hinge
from maxmargin.solvers.planes import store as module
from maxmargin.solvers.planes.store import add_plane, no_planes, reduce, scaled


def random_planes(rng, n_planes, n_features):
    """Planes of some convex function of every kind that occurs: repeated, zero, parallel, depending on others."""
    planes = [(rng.normal(size=n_features), rng.normal()) for _ in range(n_planes)]
    for k in range(1, n_planes):
        kind = rng.integers(6)
        if kind == 0:
            planes[k] = planes[k - 1]
        elif kind == 1:
            planes[k] = np.zeros(n_features), rng.normal()
        elif kind == 2:
            planes[k] = planes[k - 1][0], rng.normal()
        elif kind == 3:
            share = rng.random()
            planes[k] = tuple(share * one + (1 - share) * other for one, other in zip(planes[k - 1], planes[0]))
    return planes


def stored(planes, **options):
    store = no_planes(len(planes[0][0]), **options)
    for a, b in planes:
        store = add_plane(store, a, b)
    return store


def violation(store):
    """How far alpha is from being optimal, in terms of the reduced problem's value."""
    n = store.n
    gradient = store.b[:n] - store.gram[:n, :n] @ store.alpha[:n]
    return gradient.max() - store.alpha[:n] @ gradient


def risk_planes(n_rows, n_features, C, n_planes, seed=0):
    """What the cutting plane algorithm finds for a noisy hinge risk: planes that become more and more alike."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, n_features))
    y = np.sign(X @ rng.normal(size=n_features) + rng.normal(size=n_rows))
    w, best = np.zeros(n_features), np.inf
    store, values = no_planes(n_features), []
    for _ in range(n_planes):
        inside = y * (X @ w) < 1
        best = min(best, 0.5 * w @ w + C * np.sum(np.maximum(0, 1 - y * (X @ w))))
        store = add_plane(store, -C * X.T @ (y * inside), C * inside.sum())
        store, w, value = reduce(store)
        values.append(value)
    return store, values, best


# ---------------------------------------------------------------- the reduced problem


@given(st.integers(0, 10_000), st.integers(1, 6), st.integers(1, 4), st.sampled_from([1e-3, 1.0, 1e4]))
def test_the_solution_is_that_of_trying_all_sets_of_planes(seed, n_planes, n_features, scale):
    planes = random_planes(np.random.default_rng(seed), n_planes, n_features)
    planes = [(scale * a, scale * b) for a, b in planes]
    w, value = reduced(planes)
    store, found, bound = reduce(stored(planes, nonnegative=False))
    np.testing.assert_allclose(found, w, rtol=1e-8, atol=1e-8 * scale)
    assert bound == pytest.approx(value, rel=1e-10, abs=1e-10 * scale**2)
    assert np.all(store.alpha >= 0.0)
    assert store.alpha[: store.n].sum() == pytest.approx(1.0, rel=1e-14)


@given(st.integers(0, 10_000))
def test_solved_plane_by_plane_is_solved_at_once(seed):
    """Also with the plane zero, which bounds a risk that is never negative."""
    planes = random_planes(np.random.default_rng(seed), 6, 3)
    store = no_planes(3)
    before = -np.inf
    for k, (a, b) in enumerate(planes, start=1):
        store, w, bound = reduce(add_plane(store, a, b))
        expected, value = reduced([(np.zeros(3), 0.0), *planes[:k]])
        np.testing.assert_allclose(w, expected, rtol=1e-8, atol=1e-8)
        assert bound == pytest.approx(value, rel=1e-10, abs=1e-10)
        assert bound >= before - 1e-13
        before = bound


@pytest.mark.parametrize(("n_rows", "n_features", "C", "n_planes"), [(100, 10, 1.0, 200), (300, 80, 100.0, 300)])
def test_hundreds_of_planes_are_solved_to_rounding(n_rows, n_features, C, n_planes):
    store, values, best = risk_planes(n_rows, n_features, C, n_planes)
    assert violation(store) <= 1e-12 * best
    assert np.all(np.diff(values) >= -1e-14 * best)  # it never decreases
    assert values[-1] <= best * (1 + 1e-14)
    assert store.n_working <= n_features + 1


def test_the_factor_follows_the_working_set():
    """Planes have entered and left it a thousand times."""
    store, _, _ = risk_planes(200, 15, 1.0, 150)
    W, L = store.order[: store.n_working], np.tril(store.factor[: store.n_working, : store.n_working])
    np.testing.assert_allclose(L @ L.T, store.gram[np.ix_(W, W)] + store.shift, rtol=1e-10, atol=1e-10 * store.shift)
    assert set(W) == set(np.flatnonzero(store.alpha))


def test_a_gap_of_almost_nothing_can_be_certified():
    _, values, best = risk_planes(60, 5, 10.0, 80)
    assert best - values[-1] <= 1e-12 * best


# ---------------------------------------------------------------- the store


def test_the_gram_matrix_is_that_of_the_planes():
    store, _, _ = risk_planes(100, 7, 1.0, 60)
    n = store.n
    np.testing.assert_allclose(store.gram[:n, :n], store.a[:n] @ store.a[:n].T, rtol=1e-12, atol=1e-9)


def test_planes_that_are_not_needed_are_dropped_and_nothing_is_lost(monkeypatch):
    kept, values, best = risk_planes(300, 8, 1.0, 120)
    monkeypatch.setattr(module, "_PATIENCE", 0)
    dropped, values_then, best_then = risk_planes(300, 8, 1.0, 120)
    assert dropped.n <= 8 + 1 + 2 < kept.n  # the working set, one that has left, one that comes
    assert np.all(np.diff(values_then) >= -1e-14 * best)  # what convergence rests on
    assert best_then - values_then[-1] <= 0.01 * best
    assert best - values[-1] <= best_then - values_then[-1] + 1e-12 * best


def test_a_plane_is_kept_while_it_was_needed_not_long_ago(monkeypatch):
    monkeypatch.setattr(module, "_PATIENCE", 3)
    store = stored([([1.0, 0.0], 1.0)])
    store, _, _ = reduce(store)
    sizes = []
    for k in range(10):
        store, _, _ = reduce(add_plane(store, np.array([0.0, 1.0]), -5.0 - k))  # far below: never needed
        sizes.append(store.n)
    # The plane zero goes first: the fourth reduced problem without it was the one before the fourth of these planes.
    assert sizes == [3, 4, 5, *7 * [5]]
    assert store.b[1] == 1.0  # the one that is needed is still there
    assert store.alpha[1] > 0.0


def test_the_store_grows():
    planes = [(np.array([np.cos(k), np.sin(k)]), 1.0) for k in range(100)]
    store = stored(planes)
    assert store.n == 101
    np.testing.assert_array_equal(store.a[1:101], [a for a, _ in planes])
    w, _ = reduced([(np.zeros(2), 0.0), *planes])
    np.testing.assert_allclose(reduce(store)[1], w, atol=1e-12)


@pytest.mark.parametrize("factor", [0.1, 7.0])
def test_planes_of_one_risk_serve_its_multiples(factor):
    rng = np.random.default_rng(0)
    planes = [(rng.normal(size=4), abs(rng.normal())) for _ in range(12)]
    store, _, _ = reduce(stored(planes))
    before = [np.copy(array) for array in store]
    _, w_other, bound_other = reduce(scaled(store, factor))
    _, expected, value = reduce(stored([(factor * a, factor * b) for a, b in planes]))
    np.testing.assert_allclose(w_other, expected, rtol=1e-10)
    assert bound_other == pytest.approx(value, rel=1e-12)
    for array, copy in zip(store, before):  # they were not written to
        np.testing.assert_array_equal(array, copy)


def test_planes_without_slope():
    """Of data that are all zero: the highest one is the bound, w is zero."""
    store = stored([(np.zeros(3), 2.0), (np.zeros(3), 5.0), (np.zeros(3), 1.0)])
    _, w, bound = reduce(store)
    assert not w.any()
    assert bound == 5.0


def test_any_number_of_threads_gives_the_same_bits():
    rng = np.random.default_rng(0)
    planes = [(rng.normal(size=50_000) / 200, abs(rng.normal())) for _ in range(20)]
    answers = []
    for n_jobs in (1, 2, 3):
        store = no_planes(50_000)
        for a, b in planes:
            store, w, bound = reduce(add_plane(store, a, b, n_jobs), n_jobs)
        answers.append((w.tobytes(), bound, store.gram.tobytes()))
    assert answers[0] == answers[1] == answers[2]


def test_the_bound_is_below_the_optimum():
    rng = np.random.default_rng(3)
    X, y = rng.normal(size=(40, 4)), np.sign(rng.normal(size=40))
    least = naive.optimum(X, y, np.full(40, 0.5), Hinge()).primal
    store = no_planes(4)
    for _ in range(50):
        u = rng.random(40)  # any coefficients between zero and one make a plane
        store, _, bound = reduce(add_plane(store, -0.5 * X.T @ (u * y), 0.5 * u.sum()))
        assert bound <= least * (1 + 1e-10)
