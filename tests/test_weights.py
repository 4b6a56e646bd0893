"""Lazily decayed and averaged weights against the same done to every weight at every step."""

import numpy as np
import pytest
import samples
from hypothesis import given
from hypothesis import strategies as st

from maxmargin.data.rows import as_rows
from maxmargin.solvers.stochastic.weights import (
    add_vector,
    average_of,
    averaged_add,
    averaged_add_vector,
    averaged_decay,
    decay,
    dense,
    include,
    new_average,
    restart,
    scaled_add,
    scaled_dot,
    scaled_norm2,
    scaled_vector,
    widened,
    widened_average,
    widened_vector,
)

N_FEATURES = 6
X = np.random.default_rng(0).normal(size=(8, N_FEATURES)) * (np.random.default_rng(1).random((8, N_FEATURES)) < 0.5)
X[3] = 0.0


class Naive:
    """w, its windows and their weights, written out."""

    def __init__(self, n, bias):
        self.w = np.zeros(n)
        self.window, self.before = [], []
        self.bias = bias

    def row(self, i):
        return np.append(X[i], self.bias) if self.bias else X[i]

    def average(self):
        total, total_before = (sum(mu for mu, _ in window) for window in (self.window, self.before))
        if total + total_before == 0:
            return self.w
        window = self.window + (self.before if total < total_before else [])
        return sum(mu * w for mu, w in window) / sum(mu for mu, _ in window)


# Factors such that scales underflow within a few steps, and ones as methods have them; rows, steps and weights.
FACTORS = st.one_of(st.sampled_from([0.0, 1e-30, 1e-160, 1e-5, 0.5, 1.0, 3.0, 1e25]), st.floats(0.3, 1.0))
ACTIONS = st.one_of(
    st.tuples(st.just("decay"), FACTORS),
    st.tuples(st.just("add"), st.integers(0, 7), st.floats(-2.0, 2.0)),
    st.tuples(st.just("vector"), st.floats(-2.0, 2.0)),
    st.tuples(st.just("include"), st.floats(0.1, 3.0)),
    st.tuples(st.just("restart")),
)
G = np.random.default_rng(2).normal(size=N_FEATURES + 1)


def act(action, rows, norms2, x, average):
    """One action on the lazy weights, as a kernel would do it."""
    match action:
        case ("decay", factor):
            averaged_decay(x, average, factor)
        case ("add", i, step):
            averaged_add(rows, i, step, x, average, scaled_dot(rows, i, x), norms2[i])
        case ("vector", step):
            averaged_add_vector(x, average, step, G[: len(x.v)])
        case ("include", mu):
            include(x, average, mu)
        case ("restart",):
            restart(x, average)


def act_naively(action, naive):
    match action:
        case ("decay", factor):
            naive.w = factor * naive.w
        case ("add", i, step):
            naive.w = naive.w + step * naive.row(i)
        case ("vector", step):
            naive.w = naive.w + step * G[: len(naive.w)]
        case ("include", mu):
            naive.window.append((mu, naive.w))
        case ("restart",):
            naive.before, naive.window = naive.window, []


@pytest.mark.parametrize("storage", ["dense", "csr"])
@pytest.mark.parametrize("bias", [0.0, 2.0])
@given(actions=st.lists(ACTIONS, min_size=1, max_size=60))
def test_every_step_is_that_of_a_naive_version(storage, bias, actions):
    rows, norms2 = as_rows(X if storage == "dense" else samples.csr(X), bias)
    naive = Naive(N_FEATURES + (bias != 0), bias)
    x, average = scaled_vector(naive.w), new_average(len(naive.w))
    largest = 1e-300  # that |w| has been, decayed as w was: what rounding is relative to
    ever = 0.0  # the same, not decayed: what sums are relative to
    for action in actions:
        if action[0] == "decay" and action[1] > 1.0 and np.abs(naive.w).max() > 1e30:
            continue
        act(action, rows, norms2, x, average)
        act_naively(action, naive)
        if action[0] == "decay":
            largest *= action[1]
        largest = max(largest, np.linalg.norm(naive.w), 1e-300)
        np.testing.assert_allclose(dense(x), naive.w, rtol=1e-9, atol=1e-12 * largest)
        least = max(1e-12 * largest**2, 1e-307)  # numbers below 2e-308 have few digits
        assert scaled_norm2(x) == pytest.approx(naive.w @ naive.w, rel=1e-9, abs=least)
        i = len(actions) % 8
        assert scaled_dot(rows, i, x) == pytest.approx(naive.row(i) @ naive.w, rel=1e-9, abs=1e-11 * largest)
        known = [*naive.window, *naive.before, (0, naive.w)]
        in_the_average, ever = max(np.abs(w).max() for _, w in known), max(ever, largest)
        least = 1e-8 * in_the_average + 1e-14 * ever
        np.testing.assert_allclose(average_of(x, average), naive.average(), atol=least)


@given(actions=st.lists(ACTIONS.filter(lambda action: action[0] in ("decay", "add", "vector")), max_size=60))
def test_without_an_average_it_is_the_same(actions):
    rows, norms2 = as_rows(samples.csr(X))
    one, other, average = (
        scaled_vector(np.ones(N_FEATURES)),
        scaled_vector(np.ones(N_FEATURES)),
        new_average(N_FEATURES),
    )
    for action in actions:
        if action[0] == "decay" and action[1] > 1.0 and np.abs(dense(one)).max() > 1e30:
            continue
        act(action, rows, norms2, other, average)
        match action:
            case ("decay", factor):
                decay(one, factor)
            case ("add", i, step):
                scaled_add(rows, i, step, one, scaled_dot(rows, i, one), norms2[i])
            case ("vector", step):
                add_vector(one, step, G[:N_FEATURES])
        np.testing.assert_array_equal(dense(one), dense(other))
        assert scaled_norm2(one) == scaled_norm2(other)


def test_thousands_of_decays_leave_w_and_its_norm_exact():
    """Through many folds; without them the scale would be 1e-464 at the end, which is zero."""
    rows, norms2 = as_rows(samples.csr(X))
    x, average, w, steps = scaled_vector(np.ones(N_FEATURES)), new_average(N_FEATURES), np.ones(N_FEATURES), 3000
    rng, weighted = np.random.default_rng(3), np.zeros(N_FEATURES)
    for i, step in zip(rng.integers(0, 8, steps), rng.normal(size=steps)):
        averaged_decay(x, average, 0.7)
        averaged_add(rows, i, step, x, average, scaled_dot(rows, i, x), norms2[i])
        include(x, average, 1.0)
        w = 0.7 * w + step * X[i]
        weighted += w
    np.testing.assert_allclose(dense(x), w, rtol=1e-11)
    assert scaled_norm2(x) == pytest.approx(w @ w, rel=1e-10)
    np.testing.assert_allclose(average_of(x, average), weighted / steps, atol=1e-8)  # the w are of size 1


def test_an_average_does_not_drown_in_rounding():
    """With the scale at 1e-15 of what it was when the window began, A v and u would agree in all their digits."""
    rows, norms2 = as_rows(X)
    x, average, w, kept = scaled_vector(np.ones(N_FEATURES)), new_average(N_FEATURES), np.ones(N_FEATURES), []
    for t in range(50):
        averaged_decay(x, average, 0.5)
        averaged_add(rows, t % 8, 1e-3, x, average, scaled_dot(rows, t % 8, x), norms2[t % 8])
        w = 0.5 * w + 1e-3 * X[t % 8]
        include(x, average, 1.0)
        kept.append(w)
    np.testing.assert_allclose(average_of(x, average), np.mean(kept, axis=0), rtol=1e-9)


def test_restarted_at_doublings_it_is_the_average_of_the_last_half():
    x, average, iterates = scaled_vector(np.zeros(1)), new_average(1), []
    for t in range(1, 1025):
        add_vector(x, 0.0, np.ones(1))
        averaged_add_vector(x, average, 1.0, np.ones(1))
        include(x, average, 1.0)
        iterates.append(float(t))
        is_doubling = t & (t - 1) == 0
        if is_doubling:
            before = average_of(x, average).item()
            restart(x, average)
            assert average_of(x, average).item() == before == pytest.approx(np.mean(iterates[t // 2 :]))
        # A mean of 1..t over its last n is t - (n - 1) / 2.
        n = 2 * (t - average_of(x, average).item()) + 1
        assert t / 3 - 1e-9 <= n <= 2 * t / 3 + 1 + 1e-9


def test_before_anything_is_included_the_average_is_w():
    x, average = scaled_vector(np.array([1.0, 2.0])), new_average(2)
    averaged_decay(x, average, 0.5)
    np.testing.assert_array_equal(average_of(x, average), [0.5, 1.0])


def test_decay_by_zero_forgets_w_but_not_its_average():
    x, average = scaled_vector(np.array([1.0, 2.0])), new_average(2)
    include(x, average, 1.0)
    averaged_decay(x, average, 0.0)
    include(x, average, 1.0)
    np.testing.assert_array_equal(dense(x), [0.0, 0.0])
    assert scaled_norm2(x) == 0.0
    np.testing.assert_array_equal(average_of(x, average), [0.5, 1.0])


@pytest.mark.parametrize(("keep_last", "w"), [(False, [2.0, 4.0, 0.0, 0.0]), (True, [2.0, 0.0, 0.0, 4.0])])
def test_more_weights(keep_last, w):
    x, average = scaled_vector(np.array([1.0, 2.0])), new_average(2)
    include(x, average, 1.0)
    restart(x, average)
    averaged_decay(x, average, 2.0)
    include(x, average, 0.5)
    wide, wide_average = widened_vector(x, 4, keep_last=keep_last), widened_average(average, 4, keep_last=keep_last)
    np.testing.assert_array_equal(dense(wide), w)
    assert scaled_norm2(wide) == 20.0
    np.testing.assert_allclose(average_of(wide, wide_average), np.array(w) * 2 / 3)
    assert len(x.v) == len(average.u) == 2


def test_fewer_weights_are_refused():
    with pytest.raises(ValueError, match="cannot make 3 weights fewer: 2 were asked for"):
        widened(np.zeros(3), 2)
    np.testing.assert_array_equal(widened(np.zeros(0), 2, keep_last=True), [0.0, 0.0])


def test_a_row_is_added_to_weights_that_have_decayed():
    rows, norms2 = as_rows(X)
    x, w = scaled_vector(np.arange(6.0)), np.arange(6.0)
    decay(x, 0.25)
    scaled_add(rows, 1, -2.0, x, scaled_dot(rows, 1, x), norms2[1])
    np.testing.assert_allclose(dense(x), 0.25 * w - 2.0 * X[1], rtol=1e-14)
    assert scaled_norm2(x) == pytest.approx(dense(x) @ dense(x))
