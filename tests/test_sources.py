"""Where the rows are must not matter: the same rows in several partitions, in blocks, paused half-way, on any threads.

Every solver whose access is "passes" is covered by being registered.
"""

import itertools
import pickle
import threading

import numpy as np
import pytest
import samples

from maxmargin import Problem, losses, solve, solvers
from maxmargin.data import cuts
from maxmargin.data.memory import InMemory
from maxmargin.data.rows import as_rows
from maxmargin.data.source import Block, Labels, Paused, Request, check_pause, pausing

STORAGES = {"dense": np.asarray, "csr": samples.csr}
PASSES = [name for name in solvers.names() if solvers.get(name).access == "passes"]
CASES = [
    (name, next(loss for loss in losses.names() if isinstance(losses.get(loss), solvers.get(name).losses)))
    for name in PASSES
]
SMOOTH = [case for case in CASES if case[1] != "hinge"]

# A line search ends at a kink: which rows are at theirs, and what comes next, is decided by the last digits of outputs.
AMPLIFIES_ROUNDING = ("sub_lbfgs", "sub_olbfgs")

every_case = pytest.mark.parametrize(("solver", "loss"), CASES)
every_storage = pytest.mark.parametrize("storage", STORAGES)


def sorted_sample(loss, n_rows=90):
    """Rows in the order of their labels, so that a partition can be of one class."""
    X, y = samples.sample(loss, n_rows=n_rows)
    order = np.argsort(y, kind="stable")
    return X[order], y[order]


def in_partitions(X, storage, borders=(0, 13, 13, 40, 71, 90), bias=0.0):
    """Five uneven partitions: the first has one class, the second is empty."""
    parts = [as_rows(STORAGES[storage](X[lo:hi]), bias)[0] for lo, hi in itertools.pairwise(borders)]
    return InMemory(tuple(parts))


@pytest.fixture
def small_blocks(monkeypatch):
    """Little data is divided, too."""
    monkeypatch.setattr(cuts, "LEAST_VALUES", 50)


class Later:
    """An interrupt that comes after so many looks at it."""

    def __init__(self, looks):
        self.looks = looks

    def is_set(self):
        self.looks -= 1
        return self.looks < 0


# ---------------------------------------------------------------- solvers


@every_case
@every_storage
def test_partitions_do_not_matter(solver, loss, storage):
    X, y = sorted_sample(loss)
    weight = np.random.default_rng(0).integers(0, 3, size=len(y)).astype(float)
    options = {"C": 0.5, "loss": loss, "sample_weight": weight}
    source = in_partitions(X, storage, bias=1.0)
    assert len(set(y[:13])) == 1 or not losses.is_margin_loss(losses.get(loss))
    whole, parts = Problem(STORAGES[storage](X), y, bias=1.0, **options), Problem(source, y, **options)
    iterates = {}
    for problem in (whole, parts):
        seen = iterates[problem] = []
        note = [lambda progress, seen=seen: seen.append(np.array(progress.state.w))]
        result = solve(problem, solver, tol=max(1e-6, solvers.get(solver).accuracy), callbacks=note)
        assert result.stop_reason == "converged"
        seen.append(result)
    (*one, end), (*other, other_end) = iterates.values()
    if solver in AMPLIFIES_ROUNDING:
        np.testing.assert_allclose(one[:4], other[:4], rtol=1e-9, atol=1e-9)
        assert max(end.certificate.dual, other_end.certificate.dual) <= min(
            end.certificate.primal, other_end.certificate.primal
        ) * (1.0 + 1e-12)
    else:
        assert len(one) == len(other)
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9)
        gap = 1e-9 * end.certificate.primal
        np.testing.assert_allclose(end.certificate, other_end.certificate, rtol=1e-9, atol=gap)
    honest = whole.certificate(other_end.w, other_end.alpha)
    assert other_end.certificate.primal == pytest.approx(honest.primal, rel=1e-12)


@every_case
def test_a_paused_iteration_is_dropped_and_repeated(solver, loss, small_blocks, tmp_path):
    """Wherever a run is interrupted, it leaves a finished iteration and goes on to the same bits."""
    X, y = sorted_sample(loss)
    problem, path = Problem(X, y, 2.0, loss, bias=1.0), tmp_path / "state"
    finished = [problem.primal(solvers.get(solver).init_state(problem).w)]
    note = [lambda progress: finished.append(problem.primal(progress.state.w))]
    whole = solve(problem, solver, tol=1e-6, callbacks=note)
    for looks in np.random.default_rng(0).integers(2, 25, size=8):
        stopped = solve(problem, solver, tol=1e-6, checkpoint=path, interrupt=Later(looks))
        assert stopped.stop_reason in ("interrupted", "converged")
        assert stopped.certificate.primal == pytest.approx(
            min(finished, key=lambda P: abs(P - stopped.certificate.primal))
        )
    resumed = solve(problem, solver, tol=1e-6, checkpoint=path)
    assert resumed.w.tobytes() == whole.w.tobytes()
    assert resumed.passes == whole.passes


@every_case
def test_time_runs_out_within_a_pass(solver, loss, small_blocks, monkeypatch):
    """The clock is looked at between blocks; the first iteration is dropped, and the start is certified."""
    X, y = sorted_sample(loss)
    problem = Problem(X, y, 2.0, loss)
    clock = itertools.count()
    monkeypatch.setattr("maxmargin.solvers.base.working_time", lambda: float(next(clock)))
    result = solve(problem, solver, tol=1e-6, max_time=6.0)
    assert result.stop_reason == "max_time"
    assert result.certificate.primal <= problem.primal(np.zeros(X.shape[1])) * (1.0 + 1e-12)  # with its rounding
    assert np.isfinite(result.w).all()


@every_case
@every_storage
def test_any_number_of_threads_gives_the_same_bits(solver, loss, storage, small_blocks):
    X, y = sorted_sample(loss, n_rows=300)
    problem = Problem(STORAGES[storage](X), y, 0.1, loss)
    one, two, three = (solve(problem.with_jobs(n_jobs), solver, tol=1e-6) for n_jobs in (1, 2, 3))
    assert one.w.tobytes() == two.w.tobytes() == three.w.tobytes()
    assert one.certificate == two.certificate == three.certificate


def test_a_solver_that_visits_rows_is_refused():
    X, y = sorted_sample("squared_hinge")
    problem = Problem(in_partitions(X, "dense"), y, loss="squared_hinge")
    with pytest.raises(ValueError, match=r"'dual_cd' does not take these rows: its access to them is 'rows'.*: .*tron"):
        solve(problem, "dual_cd")
    with pytest.raises(ValueError, match="the rows lie in 5 partitions"):
        problem.rows  # noqa: B018 - it is the property that refuses
    assert solve(problem, "auto").solver.access == "passes"


# ---------------------------------------------------------------- questions


@every_storage
def test_questions_have_the_same_answers(storage, small_blocks):
    X, y = sorted_sample("squared_hinge")
    weight = np.random.default_rng(0).integers(0, 3, size=len(y)).astype(float)
    options = {"C": 0.7, "loss": "squared_hinge", "sample_weight": weight}
    whole = Problem(STORAGES[storage](X), y, bias=0.5, **options)
    parts = Problem(in_partitions(X, storage, bias=0.5), y, **options)
    full = np.column_stack([X, np.full(len(y), 0.5)])
    rng = np.random.default_rng(1)
    w, v, p = rng.normal(size=6), rng.normal(size=6), rng.normal(size=len(y))
    for problem in (whole, parts):
        assert (problem.n_rows, problem.n_features, problem.n_weights) == (90, 5, 6)
        np.testing.assert_allclose(problem.norms2, (full**2).sum(axis=1))
        np.testing.assert_allclose(problem.outputs(w), full @ w, rtol=1e-12)
        np.testing.assert_allclose(problem.combine(p), full.T @ p, rtol=1e-12)
        np.testing.assert_allclose(problem.column_squares(), (full**2).T @ problem.cost, rtol=1e-12)
        np.testing.assert_allclose(problem.hessian_product(p, v), full.T @ (p * (full @ v)), rtol=1e-9)
        gram = np.triu(problem.gram(p)[:6, :6])
        np.testing.assert_allclose(gram, np.triu(full.T @ (p[:, None] * full)), rtol=1e-9, atol=1e-9)
        back = problem.gram(-p, onto=problem.gram(p))
        np.testing.assert_allclose(np.triu(back), 0.0, atol=1e-9)
        here = problem.evaluate(w)
        assert here.value == pytest.approx(problem.primal(w), rel=1e-12)
        outputs, risk = problem.risk_between(problem.outputs(w), problem.outputs(v), 0.3)
        np.testing.assert_allclose(outputs, full @ (0.7 * w + 0.3 * v), rtol=1e-9)
        assert risk == pytest.approx(problem.primal(0.7 * w + 0.3 * v) - 0.5 * np.sum((0.7 * w + 0.3 * v) ** 2))
        coefficients, b, risk = problem.linearize(problem.outputs(w), problem.outputs(w), 0.0)
        assert risk == pytest.approx(problem.primal(w) - 0.5 * w @ w, rel=1e-12)
        a = problem.combine(coefficients)
        np.testing.assert_allclose(a, here.gradient - w, rtol=1e-9, atol=1e-12)
        assert a @ w + b == pytest.approx(here.value - 0.5 * w @ w, rel=1e-12)
    np.testing.assert_allclose(whole.certificate(w), parts.certificate(w), rtol=1e-12)


# ---------------------------------------------------------------- passes


def _write_and_add(block, factor, x, out, total):
    assert isinstance(block, Block)
    out[:] = factor * x
    total += x.sum()
    return len(x)


def _see_labels(labels):
    assert isinstance(labels, Labels)
    return labels.cost.sum(), 1


def test_a_pass_is_what_its_text_says(small_blocks):
    X, y = sorted_sample("hinge")
    source, cost, x = in_partitions(X, "dense"), np.arange(90.0), np.arange(90.0)
    labels = Labels(y, cost, None)
    for n_jobs in (1, 3):
        threaded = source.with_jobs(n_jobs)
        done = threaded.make_pass(_write_and_add, labels, shared=[2.0], reads=[x], writes=[np.float32], sums=[1])
        assert sum(done.results) == done.total == 90
        assert len(done.results) > 5
        np.testing.assert_array_equal(done.vectors[0], 2.0 * x)
        assert done.vectors[0].dtype == np.float32
        assert done.sums[0][0] == x.sum()
        onto = np.array([1.0])
        threaded.make_pass(_write_and_add, labels, shared=[2.0], reads=[x], writes=[float], sums=[onto])
        assert onto[0] == 1.0 + x.sum()
        total, n_blocks = threaded.make_pass(_see_labels, labels, looks_at_rows=False).total
        assert total == cost.sum()
        assert n_blocks == 4  # the empty partition has none


def test_more_effort_is_divided_into_more_blocks_and_less_into_fewer_groups():
    source = InMemory((as_rows(np.zeros((1 << 16, 16)))[0],))

    def groups(size, effort):
        request = Request(None, None, sums=[size], effort=effort)
        return source.groups(0, request, cuts.most_groups(size, source.n_stored, effort))

    assert [sum(map(len, groups(0, effort))) for effort in (0.1, 1.0, 4.0)] == [2, 2, 8]
    assert [len(groups(16, effort)) for effort in (0.1, 1.0, 4.0)] == [1, 2, 8]
    assert len(groups(1 << 16, 4.0)) == 2  # sums that are not small beside the data


def test_passes_pause_only_where_they_are_asked_to(small_blocks):
    source = in_partitions(*sorted_sample("hinge")[:1], "dense")
    y = np.zeros(90)
    labels, arguments = Labels(y, y, None), {"shared": [1.0], "reads": [y], "writes": [float], "sums": [1]}
    with pausing(lambda: True):
        with pytest.raises(Paused):
            source.make_pass(_write_and_add, labels, **arguments)
        with pytest.raises(Paused):
            source.with_jobs(2).make_pass(_write_and_add, labels, **arguments)
        with pytest.raises(Paused):
            check_pause()
        source.make_pass(_see_labels, labels, looks_at_rows=False)  # too short to be worth it
        elsewhere = []
        thread = threading.Thread(
            target=lambda: elsewhere.append(source.make_pass(_write_and_add, labels, **arguments))
        )
        thread.start()
        thread.join()
        assert elsewhere[0].total == 90  # another thread's run goes on
    check_pause()


def test_a_source_travels():
    source = in_partitions(*sorted_sample("hinge")[:1], "csr", bias=2.0)
    again = pickle.loads(pickle.dumps(source))
    assert again.checksum() == source.checksum()
    assert again.checksum() != in_partitions(*sorted_sample("hinge")[:1], "csr").checksum()
    assert (again.n_rows, again.n_features, again.n_weights, again.bias) == (90, 5, 6, 2.0)
