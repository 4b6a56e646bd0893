"""`solvers/dual_cd.py` step by step against the paper's algorithm, and what only this solver promises.

What every solver promises is in `test_contract.py`.
"""

import itertools
from types import SimpleNamespace

import naive
import numpy as np
import pytest
import samples

from maxmargin import Problem, losses, solve
from maxmargin._random import new_rng, random_below, shuffle
from maxmargin.losses import EpsilonInsensitive, Hinge, Huber, SquaredEpsilonInsensitive, SquaredError, SquaredHinge
from maxmargin.solvers.base import Goal
from maxmargin.solvers.coordinate import dual_cd as module
from maxmargin.solvers.coordinate.dual_cd import DualCD
from maxmargin.solvers.visits import rows_with_cost

ORDERS = ["permutation", "cyclic", "online"]
LOSSES = [Hinge(), SquaredHinge(), Huber(0.5), SquaredError(), EpsilonInsensitive(0.3), SquaredEpsilonInsensitive(0.3)]

every_loss = pytest.mark.parametrize("loss", LOSSES, ids=losses.name_of)


# ---------------------------------------------------------------- step by step


@every_loss
@pytest.mark.parametrize("shrinking", [True, False])
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("threshold", [1.0, None])  # the paper's, and ours
def test_every_pass_is_the_papers(loss, order, shrinking, threshold):
    X, y = samples.sample(loss, n_rows=20, n_features=3)
    problem, solver = Problem(X, y, 0.7, loss), DualCD(shrinking=shrinking, order=order, threshold=threshold)
    rule = {"threshold": 0.5 if threshold is None else threshold}
    oracle = naive.dual_cd(X, y, problem.cost, loss, seed=3, shrinking=shrinking, order=order, **rule)
    shrunk = False
    for passes, (w, alpha, n_active) in enumerate(itertools.islice(oracle, 8), start=1):
        result = solve(problem, solver, tol=0.0, max_iter=passes, seed=3)
        assert result.passes == passes or result.certificate.gap == 0.0  # then there is nothing left to do
        np.testing.assert_allclose(result.w, w, rtol=1e-9, atol=1e-10)
        np.testing.assert_allclose(result.alpha, alpha, rtol=1e-9, atol=1e-10)
        shrunk |= n_active < 20
    has_bounds = not isinstance(loss, SquaredError)
    assert shrunk == (shrinking and order != "online" and has_bounds)


@pytest.mark.parametrize("loss", [Hinge(), SquaredHinge()], ids=losses.name_of)
@pytest.mark.parametrize("threshold", [1.0, 0.3])
def test_the_papers_stop_and_shrinking(loss, threshold):
    """(16) and (17): smaller problems are solved to epsilon, all rows come back, a sweep over all of them ends it."""
    X, y = samples.sample(loss, n_rows=40, n_features=3)
    problem, solver, seen = Problem(X, y, 5.0, loss), DualCD(threshold=threshold, epsilon=1e-3), []
    *_, (w, alpha, _) = naive.dual_cd(X, y, problem.cost, loss, 3, threshold=threshold, violation=1e-3, seen=seen)
    result = solve(problem, solver, tol=0.0, callbacks=[solver.is_satisfied], seed=3)
    assert result.stop_reason == "callback"
    np.testing.assert_allclose(result.w, w, rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(result.alpha, alpha, rtol=1e-8, atol=1e-9)
    assert result.history["violation"][-1] == pytest.approx(seen[-1][1], rel=1e-6)
    assert seen[-1][1] < 1e-3
    came_back = [k for k in range(1, len(seen)) if seen[k][0] > seen[k - 1][0]]
    assert came_back
    assert all(seen[k][0] == 40 and seen[k - 1][1] < 1e-3 for k in came_back)
    assert sum(n for n, _ in seen) == round(40 * result.passes)


def test_without_the_papers_stop_a_certificate_brings_all_rows_back():
    X, y = samples.sample("hinge", n_rows=40, n_features=3)
    result = solve(Problem(X, y, 5.0, "hinge"), DualCD(threshold=0.05), tol=1e-8)
    assert result.stop_reason == "converged"
    active = result.history["active"]
    assert active.min() < 40


@pytest.mark.parametrize("options", [{"threshold": 0.0}, {"threshold": np.inf}, {"epsilon": -1.0}, {"epsilon": np.nan}])
def test_bad_options_of_the_papers_are_named(options):
    with pytest.raises(ValueError, match=next(iter(options))):
        DualCD(**options)


def test_updates_are_the_steps_that_change_alpha():
    """In the first pass of a hinge every row is visited once, and changes alpha unless its gradient is zero."""
    X, y = samples.sample("hinge", n_rows=20, n_features=3)
    problem, changed = Problem(X, y, 0.7, "hinge"), 0
    alpha = next(naive.dual_cd(X, y, problem.cost, Hinge(), seed=3))[1]
    changed = np.count_nonzero(alpha)
    result = solve(problem, DualCD(), tol=0.0, max_iter=1, seed=3)
    assert 0 < changed == result.history["updates"][-1] < 20


@pytest.mark.parametrize(("n_features", "tol", "eagerness"), [(3, 1e-4, 0.05), (3, 1e-5, 0.5), (20, 1e-4, 0.5)])
def test_rows_are_shrunk_sooner_if_they_are_many_and_the_gap_may_be_large(n_features, tol, eagerness):
    X, y = samples.sample("hinge", n_rows=20, n_features=n_features)
    problem, solver = Problem(X, y, 30.0, "hinge"), DualCD()
    runs = [naive.dual_cd(X, y, problem.cost, Hinge(), seed=3, threshold=e) for e in (eagerness, 0.55 - eagerness)]
    state, told_apart = solver.init_state(problem, seed=3), False
    for passes, ((w, alpha, n_active), (_, _, other)) in enumerate(itertools.islice(zip(*runs), 6), start=1):
        state = solver.update(problem, state, Goal(tol, float(passes)))
        np.testing.assert_allclose(state.w, w, rtol=1e-9, atol=1e-10)
        np.testing.assert_allclose(state.alpha, alpha, rtol=1e-9, atol=1e-10)
        told_apart |= n_active != other
    assert told_apart


@pytest.mark.parametrize("order", ORDERS)
def test_steps_with_costs_of_their_own_and_an_intercept(order):
    X, y = samples.sample("hinge", n_rows=20, n_features=3)
    weight = np.random.default_rng(0).integers(0, 4, size=20).astype(float)
    problem = Problem(samples.csr(X), y, 0.5, "hinge", sample_weight=weight, bias=1.0)
    full = np.column_stack([X, np.ones(20)])
    oracle = naive.dual_cd(full, y, 0.5 * weight, Hinge(), seed=1, order=order, threshold=0.5)
    for passes, (w, alpha, _) in enumerate(itertools.islice(oracle, 6), start=1):
        result = solve(problem, DualCD(order=order), tol=0.0, max_iter=passes, seed=1)
        np.testing.assert_allclose(result.w, w, rtol=1e-9, atol=1e-10)
        np.testing.assert_allclose(result.alpha, alpha, rtol=1e-9, atol=1e-10)


def test_max_iter_ends_in_mid_sweep():
    """Half passes: a run of many short ones visits the rows that one long run visits."""
    X, y = samples.sample("hinge", n_rows=20, n_features=3)
    problem = Problem(X, y)
    steps = [solve(problem, tol=0.0, max_iter=k / 20) for k in range(1, 61)]
    assert [round(20 * result.passes) for result in steps] == list(range(1, 61))
    changes = [np.count_nonzero(b.alpha != a.alpha) for a, b in itertools.pairwise(steps)]
    assert max(changes) == 1  # a step changes one variable at most
    assert sum(changes) > 20


# ---------------------------------------------------------------- what the state means


@every_loss
@pytest.mark.parametrize("order", ORDERS)
def test_w_belongs_to_alpha_and_the_dual_is_kept_in_step(loss, order):
    X, y = samples.sample(loss, n_rows=25)
    problem = Problem(X, y, 2.0, loss)
    result = solve(problem, DualCD(order=order), tol=0.0, max_iter=30.5)
    np.testing.assert_allclose(result.w, problem.weights(result.alpha), rtol=1e-10, atol=1e-11)
    assert result.state.dual == pytest.approx(naive.dual(X, y, problem.cost, loss, result.alpha), rel=1e-10)
    rounding = problem.with_rounding(result.w, result.certificate, result.alpha)[1]
    assert result.certificate.gap == pytest.approx(problem.gap(result.w, result.alpha), rel=1e-9, abs=1.01 * rounding)


@every_loss
def test_alpha_stays_within_its_bounds_exactly(loss):
    X, y = samples.sample(loss, n_rows=25)
    problem = Problem(X, y, 0.3, loss)
    alpha = solve(problem, "dual_cd", tol=0.0, max_iter=20).alpha
    lowest, highest = naive.conjugate_domain(loss)
    assert np.all(-alpha / problem.cost >= lowest)
    assert np.all(-alpha / problem.cost <= highest)
    if np.isfinite(lowest):
        assert np.any(alpha == problem.cost)  # some row sits on its bound


def test_an_empty_row_goes_to_its_bound_in_one_step():
    """Section 3.2: 1 / Q_ii is infinite for an empty row of the L1-loss SVM, so alpha becomes U."""
    X = np.array([[0.0, 0.0], [1.0, 2.0]])
    assert solve(Problem(X, [1, -1], 3.0, "hinge"), tol=1e-9).alpha[0] == 3.0
    problem = Problem(X, [5.0, 1.0], 3.0, EpsilonInsensitive(0.1))
    assert solve(problem, tol=1e-9).alpha[0] == 3.0
    problem = Problem(X, [-5.0, 1.0], 3.0, EpsilonInsensitive(0.1))
    assert solve(problem, tol=1e-9).alpha[0] == -3.0
    problem = Problem(X, [0.05, 1.0], 3.0, EpsilonInsensitive(0.1))
    assert solve(problem, tol=1e-9).alpha[0] == 0.0


# ---------------------------------------------------------------- shrinking


@every_loss
def test_shrinking_saves_work_and_not_accuracy(loss):
    X, y = samples.sample(loss, n_rows=200, n_features=5)
    problem = Problem(X, y, 0.1, loss)
    with_shrinking = solve(problem, DualCD(), tol=1e-8)
    without = solve(problem, DualCD(shrinking=False), tol=1e-8)
    assert with_shrinking.stop_reason == without.stop_reason == "converged"
    assert with_shrinking.certificate.primal == pytest.approx(without.certificate.primal, rel=1e-8)
    assert np.all(without.history["active"] == 200)
    if isinstance(loss, Hinge | EpsilonInsensitive):
        assert with_shrinking.passes < without.passes


def test_rows_shrunk_in_error_come_back():
    """All rows but one are shrunk by force; the certificate sees it, and the solver takes them back."""
    X, y = samples.sample("hinge", n_rows=60)
    problem, solver, goal = Problem(X, y), DualCD(), module.Goal(1e-6, 1000.0)
    state = solver.init_state(problem, seed=0)
    state = state._replace(sweep=state.sweep._replace(n_kept=1))
    state = solver.update(problem, state, goal)
    assert solver.report(problem, state, goal).believes
    certificate = solver.certificate(problem, state)
    assert certificate.relative_gap > 0.1
    state = solver.reconsider(problem, state, goal, certificate)
    report = solver.report(problem, state, goal)
    assert report.counters["active"] > 10
    assert not report.believes
    state = solver.update(problem, state, goal)
    assert solver.certificate(problem, state).relative_gap < 1e-3


# ---------------------------------------------------------------- blocks of work


@pytest.mark.parametrize("order", ORDERS)
def test_the_size_of_a_block_does_not_change_the_path(order, monkeypatch):
    X, y = samples.sample("hinge", n_rows=30)
    problem, solver = Problem(X, y), DualCD(order=order)
    whole = solve(problem, solver, tol=0.0, max_iter=8)
    monkeypatch.setattr(module, "_BLOCK", 13)
    calls = []
    pieces = solve(problem, solver, tol=0.0, max_iter=8, callbacks=[calls.append])
    assert len(calls) > 50
    assert whole.w.tobytes() == pieces.w.tobytes()
    assert whole.alpha.tobytes() == pieces.alpha.tobytes()


def test_a_block_ends_on_empty_rows_too(monkeypatch):
    """Rows without values are work as well: else an update over them would not return before the last pass."""
    monkeypatch.setattr(module, "_BLOCK", 50)
    problem = Problem(samples.csr(np.zeros((100, 2))), np.linspace(0.1, 0.7, 100), 1 / 3, "squared_error")
    solver, goal = DualCD(), module.Goal(0.0, 1000.0)
    state = solver.update(problem, solver.init_state(problem), goal)
    assert state.sweep.visits == 50


# ---------------------------------------------------------------- arguments


def test_orders_are_checked():
    with pytest.raises(ValueError, match='order must be "permutation", "cyclic" or "online"'):
        DualCD(order="random")


def test_seeds_change_the_path_and_not_the_answer():
    X, y = samples.sample("hinge", n_rows=40)
    problem = Problem(X, y)
    first, second = (solve(problem, DualCD(), tol=1e-9, seed=seed) for seed in (0, 1))
    assert first.w.tobytes() != second.w.tobytes()
    assert first.certificate.primal == pytest.approx(second.certificate.primal, rel=1e-8)
    cyclic = [solve(problem, DualCD(order="cyclic"), tol=1e-6, seed=seed).w for seed in (0, 1)]
    assert cyclic[0].tobytes() == cyclic[1].tobytes()


def test_a_start_of_another_length_is_refused():
    X, y = samples.sample("hinge", n_rows=30)
    start = solve(Problem(X[:1], y[:1]))
    with pytest.raises(ValueError, match="1 dual variables: the problem has 30 rows"):
        solve(Problem(X, y), start=start)


def test_a_start_from_a_larger_C_is_cut_to_the_bounds():
    X, y = samples.sample("hinge", n_rows=30)
    start = solve(Problem(X, y, 10.0), tol=1e-6)
    kept = start.alpha.copy()
    result = solve(Problem(X, y, 0.1), start=start, tol=1e-9)
    assert result.stop_reason == "converged"
    assert result.alpha.max() <= 0.1
    np.testing.assert_array_equal(start.alpha, kept)


def test_more_rows_than_32_bits_count_are_refused():
    with pytest.raises(ValueError, match=r"fewer than 2\^32 rows"):
        rows_with_cost(SimpleNamespace(n_rows=2**32, cost=None))


# ---------------------------------------------------------------- random numbers


@pytest.mark.parametrize("seed", [0, 1, 2**40])
def test_the_rng_is_xorshift64(seed):
    rng, oracle = new_rng(seed), naive.Xorshift(seed)
    for n in (1, 2, 7, 1000, 2**31, 2**32 - 1):
        numbers = [random_below(rng, n) for _ in range(50)]
        assert numbers == [oracle.below(n) for _ in range(50)]
        assert all(0 <= number < n for number in numbers)


def test_shuffle_is_fair():
    """Every one of the 24 orders of 4 items comes up in about its share."""
    rng = new_rng(0)
    counts = {}
    for _ in range(4800):
        items = np.arange(6, dtype=np.uint32)
        shuffle(items, 4, rng)
        assert items[4:].tolist() == [4, 5]  # beyond the first n nothing moves
        counts[tuple(items[:4])] = counts.get(tuple(items[:4]), 0) + 1
    assert len(counts) == 24
    assert sum((count - 200) ** 2 / 200 for count in counts.values()) < 50  # chi-square with 23 degrees: p = 0.001


def test_no_seed_is_another_rng_every_time():
    assert new_rng(None)[0] != new_rng(None)[0]
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    new_rng(0)
    np.testing.assert_array_equal(np.random.get_state()[1], before)  # noqa: NPY002
