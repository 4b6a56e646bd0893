"""What every solver promises, for every loss it takes. A new solver is covered by being registered.

It needs, besides, a slow and obvious version of itself in `naive.STEP_BY_STEP`, or in `naive.ITERATIONS` if it makes
passes and an update of it is a whole iteration. Run as a script, this file solves one
small problem of each kind and saves the weights: that is how compiled and interpreted code are compared.
"""

import functools
import itertools
import os
import subprocess
import sys

import naive
import numpy as np
import pytest
import samples

from maxmargin import Problem, losses, solve, solvers
from maxmargin._jit import JIT_DISABLED
from maxmargin.solvers.base import Goal

CASES = [
    (name, loss)
    for name in solvers.names()
    for loss in losses.names()
    if isinstance(losses.get(loss), solvers.get(name).losses)
]
STORAGES = {"dense": np.asarray, "csr": samples.csr}

every_case = pytest.mark.parametrize(("solver", "loss"), CASES)
every_solver = pytest.mark.parametrize(
    ("solver", "loss"), [next(case for case in CASES if case[0] == name) for name in solvers.names()]
)
every_storage = pytest.mark.parametrize("storage", STORAGES)


def makes_passes(solver):
    """Whether an update is a whole iteration."""
    return solvers.get(solver).access == "passes"


def makes_iterations(solver):
    """Whether an update does all of something, and looks at no limit meanwhile."""
    return not solvers.get(solver).is_in_place or solvers.get(solver).access == "blocks"


def make_small_updates(solver, monkeypatch):
    """Let an update be a small part of a pass, where it is not a whole iteration."""
    for module in {sys.modules[kind.__module__] for kind in type(solvers.get(solver)).__mro__}:
        if hasattr(module, "_BLOCK"):
            monkeypatch.setattr(module, "_BLOCK", 150)


def within_reach(solver, tol):
    """A tolerance, or the best gap that a stochastic method can be relied on to reach."""
    return max(tol, solvers.get(solver).accuracy)


def assert_same_optimum(one, other):
    """Two answers, each within its gap of the optimum: P is strongly convex, so |w - w*|^2 <= 2 (P(w) - P(w*))."""
    assert one.stop_reason == other.stop_reason == "converged"
    apart = np.linalg.norm(one.w - other.w)
    assert apart <= np.sqrt(2 * one.certificate.gap) + np.sqrt(2 * other.certificate.gap) + 1e-12
    assert one.certificate.primal == pytest.approx(other.certificate.primal, rel=within_reach(one.solver, 1e-7))


def assert_same_bits(one, other):
    assert one.w.tobytes() == other.w.tobytes()
    assert one.passes == other.passes
    if one.alpha is not None:
        assert one.alpha.tobytes() == other.alpha.tobytes()


def but_for_the_clock(history):
    """Names of what must not differ from run to run."""
    return [name for name in history if not name.startswith("seconds")]


def rounding_of(problem, result):
    """What of the certificate's gap is there for rounding."""
    return problem.with_rounding(result.w, result.certificate, result.alpha)[1]


def assert_honest(result, X, y, problem):
    """What the certificate says is so, by plain numpy."""
    certificate = result.certificate
    assert np.all(np.isfinite(result.w))
    primal, rounding = naive.primal(X, y, problem.cost, problem.loss, result.w), rounding_of(problem, result)
    assert certificate.primal == pytest.approx(primal, rel=1e-10, abs=rounding)
    assert 0.0 <= certificate.gap <= certificate.primal
    if result.alpha is not None:
        dual = naive.dual(X, y, problem.cost, problem.loss, result.alpha)
        assert certificate.dual <= max(dual, 0.0) + 1e-9 * certificate.primal


# ---------------------------------------------------------------- the answer


@every_case
@every_storage
@pytest.mark.parametrize("tol", [1e-2, 1e-6])
def test_the_gap_is_below_the_tolerance(solver, loss, storage, tol):
    X, y = samples.sample(loss, n_rows=80)
    problem, tol = Problem(STORAGES[storage](X), y, 0.5, loss), within_reach(solver, tol)
    result = solve(problem, solver, tol=tol)
    assert result.stop_reason == "converged"
    assert result.certificate.relative_gap <= tol
    assert_honest(result, X, y, problem)


LIBLINEAR = {"hinge": 3, "squared_hinge": 1, "epsilon_insensitive": 13, "squared_epsilon_insensitive": 12}


@functools.cache
def liblinear_optimum(loss, C):
    """LIBLINEAR's weights for a sample, at its tightest."""
    X, y = samples.sample(loss)
    options = f"-s {LIBLINEAR[loss]} -c {C} -p 0.1 -e 1e-12"
    return samples.liblinear_weights(X, y, options, Problem(X, y, C, loss).primal)


@functools.cache
def general_optimum(loss, C):
    """Weights by a general method for convex programs, with a proof of their own."""
    X, y = samples.sample(loss)
    cost = np.full(len(y), C)
    return naive.optimum(X, y, cost, losses.get(loss)).w


def assert_same_as(reference, solver, loss, C):
    X, y = samples.sample(loss)
    problem = Problem(X, y, C, loss)
    result = solve(problem, solver, tol=within_reach(solver, 1e-9))
    assert result.stop_reason == "converged"
    assert problem.primal(result.w) == pytest.approx(problem.primal(reference), rel=within_reach(solver, 1e-6))
    np.testing.assert_allclose(result.w, reference, atol=max(2e-4, np.sqrt(2 * result.certificate.gap)))


@pytest.mark.parametrize(("solver", "loss"), [case for case in CASES if case[1] in LIBLINEAR])
@pytest.mark.parametrize("C", [0.05, 1.0])
def test_the_optimum_is_that_of_liblinear(solver, loss, C):
    assert_same_as(liblinear_optimum(loss, C), solver, loss, C)


@pytest.mark.oracle
@every_case
@pytest.mark.parametrize("C", [0.05, 1.0])
def test_the_optimum_is_that_of_a_general_method(solver, loss, C):
    assert_same_as(general_optimum(loss, C), solver, loss, C)


@every_case
def test_every_pass_is_that_of_a_naive_version(solver, loss):
    X, y = samples.sample(loss, n_rows=20, n_features=3)
    problem = Problem(X, y, 0.7, loss)
    if makes_passes(solver):
        return assert_iterations(solver, problem, naive.ITERATIONS[solver](X, y, problem.cost, problem.loss, seed=5))
    assert solver in naive.STEP_BY_STEP, f"add a slow, obvious version of {solver} to tests/naive/"
    oracle = naive.STEP_BY_STEP[solver](X, y, problem.cost, problem.loss, seed=5)
    for passes, (w, *_) in enumerate(itertools.islice(oracle, 6), start=1):
        result = solve(problem, solver, tol=0.0, max_iter=passes, seed=5)
        np.testing.assert_allclose(result.w, w, rtol=1e-9, atol=1e-10)


def assert_iterations(solver, problem, oracle):
    """The point after each iteration and the passes that it took, until all that moves is rounding."""
    _, before = next(oracle)
    for n, (passes, w) in enumerate(itertools.islice(oracle, 7)):
        if passes == np.inf or (n > 2 and np.linalg.norm(w - before) <= 1e-7 * np.linalg.norm(w)):
            break
        # Subgradients more or fewer in a search for a direction are a matter of rounding: iterations are counted then.
        is_rounded = solver in ("sub_lbfgs", "sub_olbfgs")
        limit = {"callbacks": [ends_after(n + 2)]} if is_rounded else {"max_iter": passes}
        result = solve(problem, solver, tol=0.0, **limit)
        np.testing.assert_allclose(result.w, w, rtol=1e-9, atol=1e-10)
        assert is_rounded or result.passes == pytest.approx(passes) or result.stop_reason in ("stalled", "converged")
        before = w


def ends_after(n):
    """A callback that ends a run after n updates."""
    count = itertools.count(1)
    return lambda progress: next(count) >= n


@every_case
@pytest.mark.parametrize("C", [1e-4, 1e-2, 1e2, 1e4])
def test_small_and_large_C(solver, loss, C):
    """Where a method is slow it may run out of passes, but what it says of its answer is true."""
    X, y = samples.sample(loss, n_rows=40, n_features=4)
    problem, tol = Problem(X, y, C, loss), within_reach(solver, 1e-4)
    result = solve(problem, solver, tol=tol)
    assert_honest(result, X, y, problem)
    ends = ["converged"] if result.certificate.relative_gap <= tol else ["max_iter", "stalled", "rounding"]
    assert result.stop_reason in ends
    if C < 1.0:
        assert result.stop_reason == "converged"
    start = problem.primal(np.zeros(4)) + rounding_of(problem, result)
    assert result.certificate.primal <= start or result.stop_reason != "converged"


@every_case
@pytest.mark.parametrize("scale", [1e-6, 1e6])
def test_small_and_large_values(solver, loss, scale):
    X, y = samples.sample(loss, n_rows=40, n_features=4)
    problem = Problem(scale * X, y, 1.0, loss)
    result = solve(problem, solver, tol=within_reach(solver, 1e-4), max_iter=200)
    assert_honest(result, scale * X, y, problem)
    if scale < 1.0:
        assert result.stop_reason == "converged"
    # The same problem in other units: C and w take up what X lost.
    same = Problem(X, y, scale**2, loss)
    in_those_units = same.certificate(result.w * scale, None if result.alpha is None else result.alpha * scale**2)
    rounding = rounding_of(problem, result) * scale**2
    assert in_those_units.primal == pytest.approx(result.certificate.primal * scale**2, rel=1e-9, abs=rounding)


# ---------------------------------------------------------------- the data's form


@every_case
def test_dense_is_csr_is_memmap(solver, loss, tmp_path):
    X, y = samples.sample(loss)

    def answer(matrix):
        return solve(Problem(matrix, y, 0.5, loss), solver, tol=0.0, max_iter=6.5)

    dense, csr = answer(X), answer(samples.csr(X))
    np.testing.assert_allclose(dense.w, csr.w, rtol=1e-9, atol=1e-11)
    assert_same_bits(dense, answer(samples.memmap(X, tmp_path / "dense")))
    assert_same_bits(csr, answer(samples.csr_memmap(X, tmp_path / "csr")))


@every_solver
def test_int32_is_int64(solver, loss):
    X, y = samples.sample(loss)
    problems = [Problem(samples.csr(X, index), y, 0.5, loss) for index in (np.int32, np.int64)]
    assert_same_bits(*(solve(problem, solver, tol=0.0, max_iter=6.5) for problem in problems))


@every_solver
@every_storage
def test_float32_is_close_to_float64(solver, loss, storage):
    X, y = samples.sample(loss)
    single = X.astype(np.float32)
    make = {"dense": lambda X: X, "csr": lambda X: samples.csr(X, dtype=X.dtype)}[storage]
    problems = [Problem(make(matrix), y, 0.5, loss) for matrix in (X, single, single.astype(np.float64))]
    answers = [solve(problem, solver, tol=within_reach(solver, 1e-8)) for problem in problems]
    apart = sum(np.sqrt(2 * answer.certificate.gap) for answer in answers[:2])
    np.testing.assert_allclose(answers[1].w, answers[0].w, rtol=0.0, atol=max(1e-4, apart))
    rel = within_reach(solver, 1e-5)
    assert answers[1].certificate.primal == pytest.approx(answers[0].certificate.primal, rel=rel)
    # The same numbers in a wider type are the same problem: nothing is summed in float32.
    assert answers[1].certificate.primal == pytest.approx(answers[2].certificate.primal, rel=1e-7)


@every_case
def test_an_intercept_is_a_column_of_ones(solver, loss):
    X, y = samples.sample(loss)
    explicit = np.column_stack([X, np.ones(len(y))])
    for make in STORAGES.values():
        one = solve(Problem(make(X), y, 0.5, loss, bias=1.0), solver, tol=within_reach(solver, 1e-8))
        other = solve(Problem(make(explicit), y, 0.5, loss), solver, tol=within_reach(solver, 1e-8))
        assert_same_optimum(one, other)


# ---------------------------------------------------------------- reproducibility


def interpreted_and_compiled():
    """Weights after a few passes of every solver, loss and storage."""
    answers = {}
    for (solver, loss), storage in itertools.product(CASES, STORAGES):
        X, y = samples.sample(loss, n_rows=20, n_features=3)
        problem = Problem(STORAGES[storage](X), y, 0.7, loss, bias=1.0)
        result = solve(problem, solver, tol=0.0, max_iter=5)
        answers[f"{solver} {loss} {storage}"] = np.append(result.w, result.certificate)
    return answers


@pytest.mark.skipif(JIT_DISABLED, reason="there is nothing to compare with")
def test_compiled_is_interpreted(tmp_path):
    path = tmp_path / "interpreted.npz"
    here = os.path.dirname(os.path.abspath(__file__))
    environment = os.environ | {"NUMBA_DISABLE_JIT": "1", "PYTHONPATH": os.pathsep.join([here, *sys.path])}
    command = [sys.executable, "-W", "error::RuntimeWarning", os.path.abspath(__file__), str(path)]
    subprocess.run(command, env=environment, check=True, timeout=300)
    interpreted = np.load(path)
    for name, compiled in interpreted_and_compiled().items():
        np.testing.assert_allclose(compiled, interpreted[name], rtol=1e-8, atol=1e-10, err_msg=name)


@every_case
def test_the_same_seed_gives_the_same_bits(solver, loss):
    X, y = samples.sample(loss)
    problem = Problem(X, y, 0.5, loss)
    assert_same_bits(*(solve(problem, solver, tol=1e-5, seed=7) for _ in range(2)))


@every_solver
def test_any_number_of_threads_gives_the_same_bits(solver, loss):
    """Large enough for passes over the data to be divided."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40_000, 40))
    z = X @ rng.normal(size=40)
    y = np.where(z > 0, 1.0, -1.0) if losses.is_margin_loss(losses.get(loss)) else z
    problem = Problem(X, y, 1e-4, loss)
    one, two, three = (solve(problem.with_jobs(n_jobs), solver, tol=1e-3, max_iter=3) for n_jobs in (1, 2, 3))
    assert_same_bits(one, two)
    assert_same_bits(one, three)
    assert one.certificate == two.certificate == three.certificate


# ---------------------------------------------------------------- starts and stops


@every_case
def test_a_warm_start_at_the_optimum_stops_at_once(solver, loss):
    X, y = samples.sample(loss, n_rows=60)
    problem = Problem(X, y, 0.5, loss)
    first = solve(problem, solver, tol=within_reach(solver, 1e-8))
    w = first.w.copy()
    for start in (first, first.state):
        again = solve(problem, solver, tol=within_reach(solver, 1e-7), start=start)
        assert again.stop_reason == "converged"
        assert again.passes <= 1.0
        assert len(again.history["passes"]) == 1
    np.testing.assert_array_equal(first.w, w)  # the start is not written to
    if first.passes > 3 and not solvers.get(solver).accuracy:
        near = solve(Problem(X, y, 0.55, loss), solver, tol=1e-3, start=first)
        assert near.passes <= solve(Problem(X, y, 0.55, loss), solver, tol=1e-3).passes + 1


@every_case
def test_a_run_that_is_stopped_and_resumed_is_one_run(solver, loss, tmp_path, monkeypatch):
    """Stopped at random places; the last attempt is left alone. Bit for bit, but for the clock."""
    make_small_updates(solver, monkeypatch)
    X, y = samples.sample(loss, n_rows=60)
    problem, path = Problem(X, y, 0.5, loss), tmp_path / "state"
    n_updates, tol = itertools.count(), within_reach(solver, 1e-7)
    whole = solve(problem, solver, tol=tol, callbacks=[lambda _: next(n_updates) < 0])
    n_updates = next(n_updates)
    most = max(1, min(n_updates // 6, 25))
    for limit in np.random.default_rng(0).integers(1, most + 1, size=min(4, n_updates - 1)):
        calls = itertools.count(1)
        stop = [lambda _, c=calls, n=limit: next(c) >= n]
        stopped = solve(problem, solver, tol=tol, checkpoint=path, callbacks=stop)
        if solvers.get(solver).access == "blocks" and stopped.stop_reason == "converged":
            return  # the certificate of the stop has ended it sooner: two or three blocks are all it takes
        assert stopped.stop_reason == "callback"
        assert stopped.certificate.primal == pytest.approx(problem.primal(stopped.w), rel=1e-11)
    resumed = solve(problem, solver, tol=tol, checkpoint=path)
    assert_same_bits(resumed, whole)
    assert resumed.stop_reason == whole.stop_reason == "converged"
    assert resumed.certificate == whole.certificate
    for name in but_for_the_clock(whole.history):
        np.testing.assert_array_equal(resumed.history[name], whole.history[name], err_msg=name)


@every_case
def test_watching_a_run_does_not_change_it(solver, loss):
    X, y = samples.sample(loss, n_rows=37)
    problem = Problem(X, y, 2.0, loss)
    calls = []
    alone, watched = (solve(problem, solver, tol=1e-8, callbacks=watchers) for watchers in ([], [calls.append]))
    assert_same_bits(alone, watched)
    assert calls
    for name in but_for_the_clock(alone.history):
        np.testing.assert_array_equal(alone.history[name], watched.history[name], err_msg=name)


@every_case
def test_every_update_moves_on(solver, loss, monkeypatch):
    """Passes grow in every update: else limits would not end a run, nor would its history tell states apart."""
    make_small_updates(solver, monkeypatch)
    problem = Problem(*samples.sample(loss), 0.5, loss)
    passes = [0.0]
    result = solve(problem, solver, tol=0.0, max_iter=50, callbacks=[lambda progress: passes.append(progress.passes)])
    assert np.all(np.diff(passes) > 0)
    if makes_iterations(solver):  # between iterations is where it looks at the limit
        assert passes[-2] < 50.0
        assert passes[-1] >= 50.0 or result.stop_reason in ("stalled", "converged")
    else:
        assert passes[-1] == 50.0


@every_solver
def test_updates_reach_the_passes_they_are_asked_for(solver, loss):
    """Also where rounding is against it: 44 of 3 rows are just below the 14.666666666666668 passes asked for."""
    if makes_iterations(solver):
        return  # its updates are iterations: see `test_every_update_moves_on`
    X, y = samples.sample(loss, n_rows=3)
    problem, method = Problem(X, y, 0.5, loss), solvers.get(solver)
    for passes in (14 / 3 + 10.0, 10.0, 1 / 3, 0.1):
        goal = Goal(0.0, passes)
        state = method.init_state(problem)
        for _ in range(50):
            state = method.update(problem, state, goal)
            if method.report(problem, state, goal).passes >= passes:
                break
        assert passes <= method.report(problem, state, goal).passes < passes + 0.5


# ---------------------------------------------------------------- weights


@every_case
def test_weight_k_is_a_row_k_times(solver, loss):
    X, y = samples.sample(loss)
    copies = np.random.default_rng(0).integers(0, 4, size=len(y))
    tol = within_reach(solver, 1e-9)
    weighted = solve(Problem(X, y, 0.3, loss, sample_weight=copies), solver, tol=tol)
    repeated = solve(Problem(np.repeat(X, copies, axis=0), np.repeat(y, copies), 0.3, loss), solver, tol=tol)
    assert_same_optimum(weighted, repeated)


@every_case
@every_storage
def test_weight_zero_is_a_row_removed(solver, loss, storage):
    X, y = samples.sample(loss)
    kept = np.random.default_rng(0).random(len(y)) < 0.6
    make = STORAGES[storage]
    weighted = solve(Problem(make(X), y, 0.3, loss, sample_weight=kept.astype(float)), solver, tol=1e-5)
    removed = solve(Problem(make(X[kept]), y[kept], 0.3, loss), solver, tol=1e-5)
    # The same course. Sums over blocks of rows may be added up in another order.
    np.testing.assert_allclose(weighted.w, removed.w, rtol=1e-8, atol=1e-10)
    assert weighted.passes == removed.passes
    if weighted.alpha is not None:
        np.testing.assert_allclose(weighted.alpha[kept], removed.alpha, rtol=1e-7, atol=1e-10)
        assert not weighted.alpha[~kept].any()


@every_case
def test_weights_are_factors_of_C(solver, loss):
    X, y = samples.sample(loss)
    one = solve(Problem(X, y, 0.25, loss, sample_weight=np.full(len(y), 2.0)), solver, tol=1e-5)
    assert_same_bits(one, solve(Problem(X, y, 0.5, loss), solver, tol=1e-5))


# ---------------------------------------------------------------- odd data


@every_case
@every_storage
def test_odd_data(solver, loss, storage):
    """Empty rows alone and in company, one row, one feature, the same row over and over."""
    X, y = samples.sample(loss, n_rows=12, n_features=4)
    repeated = np.tile(X[:1], (12, 1))
    odd = {
        "all empty": (np.zeros((12, 4)), y),
        "half empty": (np.where(np.arange(12)[:, None] % 2 == 0, X, 0.0), y),
        "one row": (X[:1], y[:1]),
        "one empty row": (np.zeros((1, 4)), y[:1]),
        "one feature": (X[:, :1], y),
        "one row repeated": (repeated, y[:1].repeat(12)),
        "one row repeated with other labels": (repeated, y),
        "one class": (X, np.abs(y)),
        "constant column": (np.column_stack([X, np.ones(12)]), y),
        "zero targets": (X, y if losses.is_margin_loss(losses.get(loss)) else 0.0 * y),
    }
    tol = within_reach(solver, 1e-6)
    for name, (rows, labels) in odd.items():
        problem = Problem(STORAGES[storage](rows), labels, 0.5, loss)
        result = solve(problem, solver, tol=tol)
        assert result.stop_reason == "converged", name
        assert result.certificate.relative_gap <= tol, name
        assert_honest(result, rows, labels, problem)
        if rows.size and not rows.any():
            assert not result.w.any(), name


@every_case
def test_a_row_of_zeros_costs_its_loss_and_no_more(solver, loss):
    """Stored zeros or no values at all: such a row has no influence on w."""
    X, y = samples.sample(loss, n_rows=12, n_features=4)
    with_zeros, labels = np.vstack([X, np.zeros((2, 4))]), np.append(y, [1.0, -1.0])
    stored = samples.csr(with_zeros + np.where(np.arange(14)[:, None] == 13, 1.0, 0.0))
    stored.data[-4:] = 0.0  # the last row's values are there, and zero
    tol = within_reach(solver, 1e-9)
    plain = solve(Problem(X, y, 0.5, loss), solver, tol=tol)
    for matrix in (with_zeros, samples.csr(with_zeros), stored):
        problem = Problem(matrix, labels, 0.5, loss)
        result = solve(problem, solver, tol=tol)
        apart = np.linalg.norm(result.w - plain.w)
        assert apart <= np.sqrt(2 * result.certificate.gap) + np.sqrt(2 * plain.certificate.gap) + 1e-12
        at_zero = naive.phi(losses.get(loss), naive.argument(losses.get(loss), 0.0, np.array([1.0, -1.0])))
        expected = plain.certificate.primal + 0.5 * at_zero.sum()
        assert result.certificate.primal == pytest.approx(expected, rel=within_reach(solver, 1e-7))


if __name__ == "__main__":
    np.savez(sys.argv[1], **interpreted_and_compiled())
