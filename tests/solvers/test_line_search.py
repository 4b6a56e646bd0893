"""The exact line search against one that looks at every breakpoint, and against the definition of a minimum."""

import naive
import numpy as np
import pytest
import samples
from hypothesis import given
from hypothesis import strategies as st
from naive.cutting_plane import subgradient
from naive.ocas import best_step

from maxmargin import Problem, losses
from maxmargin.losses import PIECEWISE_LINEAR_SLOPE, Huber, Logistic, pieces
from maxmargin.problem import line_search as module
from maxmargin.problem.line_search import line_search

LOSSES = [losses.get(name) for name in losses.names()]
every_loss = pytest.mark.parametrize("loss", LOSSES, ids=losses.name_of)
piecewise = pytest.mark.parametrize(
    "loss", [loss for loss in LOSSES if isinstance(loss, PIECEWISE_LINEAR_SLOPE)], ids=losses.name_of
)


def searched(problem, X, w, w_t):
    step = w_t - w
    return line_search(problem, X @ w, X @ w_t, step @ step, w @ step)


def slope(problem, z, z_t, A0, B0, k):
    """G'(k), for a k that is no breakpoint."""
    sign = problem.y if losses.is_margin_loss(problem.loss) else 1.0
    t = naive.argument(problem.loss, z + k * (z_t - z), problem.y)
    return A0 * k + B0 + np.sum(problem.cost * sign * (z_t - z) * subgradient(problem.loss, t))


def assert_least(problem, z, z_t, A0, B0, k):
    """The slope is not positive on the left of k and not negative on its right."""
    room = 1e-9 * max(k, 1e-3)
    noise = 1e-12 * np.sum(problem.cost * np.abs(z_t - z))
    assert slope(problem, z, z_t, A0, B0, k + room) >= -noise
    if k > 0.0:
        assert slope(problem, z, z_t, A0, B0, k - room) <= noise


def large_line(loss, n=100_000, seed=0, scale=0.5):
    """Outputs along a line, for rows that fill several blocks."""
    rng = np.random.default_rng(seed)
    y = np.where(rng.random(n) < 0.5, 1.0, -1.0) if losses.is_margin_loss(loss) else rng.normal(size=n)
    z = rng.normal(size=n) + 0.5 * y
    z_t = z + scale * rng.normal(size=n) + 0.3 * (y - z)
    cost = rng.integers(0, 3, size=n) * 0.01
    return Problem(np.zeros((n, 1)), y, 1.0, loss, sample_weight=cost), z, z_t


# ---------------------------------------------------------------- the derivative in pieces


@piecewise
def test_the_pieces_are_the_derivative(loss):
    form = pieces(loss)
    for t in np.linspace(-3.0, 3.0, 121) + 0.003:
        value = form.level + form.curvature * t
        for place, jump, bend in (form.first, form.second)[: form.n_kinks]:
            value += jump + bend * (t - place) if t > place else 0.0
        assert value == pytest.approx(losses.derivative(loss, t), abs=1e-12)
    assert sorted(naive.kinks(loss)) == sorted(kink[0] for kink in (form.first, form.second)[: form.n_kinks])


def test_a_smooth_loss_has_no_pieces():
    with pytest.raises(TypeError, match="not piecewise linear"):
        pieces(Logistic())


# ---------------------------------------------------------------- the least value


@given(st.integers(0, 10_000), st.sampled_from(LOSSES), st.sampled_from([0.01, 1.0, 100.0]))
def test_the_step_is_that_of_looking_at_every_breakpoint(seed, loss, C):
    rng = np.random.default_rng(seed)
    X, y = samples.sample(loss, n_rows=25, n_features=3, seed=seed)
    problem = Problem(X, y, C, loss, sample_weight=rng.integers(1, 4, size=25))
    w, w_t = rng.normal(size=3), rng.normal(size=3)
    expected = best_step(X, y, problem.cost, loss, w, w_t)
    assert searched(problem, X, w, w_t) == pytest.approx(expected, rel=1e-8, abs=1e-10)


@every_loss
@pytest.mark.parametrize("B0", [-1.0, -1e3, -1e7, 0.0, 1e7])
def test_many_rows_and_steps_from_zero_to_thousands(loss, B0):
    """From zero (the slope is positive there) to beyond the last bucket, where breakpoints are rare."""
    problem, z, z_t = large_line(loss)
    k = line_search(problem, z, z_t, 100.0, B0)
    assert_least(problem, z, z_t, 100.0, B0, k)
    if B0 == 1e7:
        assert k == 0.0
    if B0 == -1e7:
        assert k > 10.0


@piecewise
def test_rounds_of_buckets_end_where_a_sort_would(loss, monkeypatch):
    problem, z, z_t = large_line(loss)
    sorted_at_once = line_search(problem, z, z_t, 10.0, -20.0)
    monkeypatch.setattr(module, "_FEW", 3)
    assert line_search(problem, z, z_t, 10.0, -20.0) == pytest.approx(sorted_at_once, rel=1e-13)


def test_the_last_breakpoint_is_in_the_last_bucket():
    grid = module._Grid(2.0, 5.0)
    points = np.array([[2.0, 3.5, 5.0], [1.0, 10.0, 100.0], [0.0, 0.0, 7.0]])
    assert grid.buckets(points).tolist() == [0, module._BUCKETS // 2, module._BUCKETS - 1]
    changes = grid.changes(points)
    assert changes.shape == (module._BUCKETS, 2)
    assert changes[-1].tolist() == [100.0, 7.0]


@piecewise
def test_all_breakpoints_in_one_bucket(loss, monkeypatch):
    """They differ by so little that one round of buckets does not tell them apart."""
    monkeypatch.setattr(module, "_FEW", 10)
    rng = np.random.default_rng(0)
    y = np.where(rng.random(1000) < 0.5, 1.0, -1.0)
    problem = Problem(np.zeros((1000, 1)), y, 0.01, loss)
    z = np.zeros(1000)
    z_t = (3.0 + 1e-7 * rng.random(1000)) * y
    for B0 in (-1.0, -1e2, -1e4):
        assert_least(problem, z, z_t, 1.0, B0, line_search(problem, z, z_t, 1.0, B0))


def test_a_single_breakpoint_of_many_rows(monkeypatch):
    """It is where the slope jumps over zero."""
    monkeypatch.setattr(module, "_FEW", 10)
    n = 50_000
    problem = Problem(np.zeros((n, 1)), np.ones(n), 1.0, "hinge")
    z, z_t = np.zeros(n), np.full(n, 4.0)
    assert line_search(problem, z, z_t, 1.0, 10.0) == 0.25


def test_a_breakpoint_at_the_start():
    """All margins are one. Forward the hinge costs nothing; backward it costs more than is to be gained."""
    problem = Problem(np.zeros((4, 1)), np.ones(4), 1.0, "hinge")
    assert line_search(problem, np.ones(4), np.full(4, 2.0), 2.0, -1.0) == 0.5
    assert line_search(problem, np.ones(4), np.zeros(4), 2.0, -1.0) == 0.0
    assert line_search(problem, np.ones(4), np.full(4, 0.9), 2.0, -1.0) == pytest.approx(0.3)


def test_the_same_point_twice():
    problem = Problem(np.zeros((4, 1)), np.ones(4), 1.0, "hinge")
    assert line_search(problem, np.zeros(4), np.zeros(4), 0.0, 0.0) == 0.0


def test_huber_with_a_narrow_bend():
    problem, z, z_t = large_line(Huber(1e-6), n=2000)
    assert_least(problem, z, z_t, 10.0, -20.0, line_search(problem, z, z_t, 10.0, -20.0))


# ---------------------------------------------------------------- what blocks are for


@every_loss
def test_any_number_of_threads_gives_the_same_bits(loss):
    problem, z, z_t = large_line(loss)
    one, two, three = (line_search(problem.with_jobs(n), z, z_t, 10.0, -20.0) for n in (1, 2, 3))
    assert one == two == three
    assert one > 0.0


@every_loss
def test_a_row_without_cost_is_as_good_as_absent(loss):
    problem, z, z_t = large_line(loss, n=500)
    kept = problem.cost > 0.0
    absent = Problem(np.zeros((kept.sum(), 1)), problem.y[kept], 1.0, loss, sample_weight=problem.cost[kept])
    assert line_search(problem, z, z_t, 1.0, -2.0) == line_search(absent, z[kept], z_t[kept], 1.0, -2.0)


def test_few_breakpoints_are_left_after_one_round(monkeypatch):
    """This is what makes it linear: sorting takes a hundredth of the rows or so."""
    seen = []
    walk = module._walk
    monkeypatch.setattr(module, "_walk", lambda found, points: seen.append(points.shape[1]) or walk(found, points))
    problem, z, z_t = large_line(losses.Hinge())
    for B0 in (-1.0, -10.0, -100.0):
        line_search(problem, z, z_t, 10.0, B0)
    assert max(seen) < 2000
