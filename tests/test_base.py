"""`solvers/base.py`: the loop. Limits, certificates, callbacks, Ctrl-C, checkpoints, history."""

import asyncio
import contextlib
import io
import itertools
import json
import math
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
import types
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pytest
import samples

import maxmargin
from maxmargin import Certificate, Problem, losses, solvers
from maxmargin.callbacks import EarlyStopping, ProgressBar
from maxmargin.losses import Hinge
from maxmargin.models.file import write_model
from maxmargin.solvers import base, interrupts
from maxmargin.solvers.auto import plan
from maxmargin.solvers.base import Progress, Report, Solver, run
from maxmargin.solvers.coordinate import dual_cd
from maxmargin.solvers.coordinate.dual_cd import DualCD
from maxmargin.solvers.interrupts import catch_interrupt

X, Y = samples.sample("hinge", n_rows=60, n_features=4)


def solve(problem, solver="dual_cd", **options):
    """What is tested here is the loop; that "auto" may change its mind is not."""
    return maxmargin.solve(problem, solver, **options)


PROBLEM = Problem(X, Y, 1.0, "hinge")
ENDLESS = Problem(X, Y, 1e6, "hinge")  # dual coordinate descent needs millions of passes


class Count(NamedTuple):
    w: np.ndarray
    passes: float


@dataclass(frozen=True)
class Halving(Solver):
    """A solver that does nothing but halve its certified gap in every update, of `step` passes."""

    believes: bool = False
    step: float = 1.0
    log: list[Any] = field(default_factory=list, repr=False)

    name: ClassVar[str] = "halving"
    losses: ClassVar[tuple[type, ...]] = (Hinge,)

    def init_state(self, problem, seed=0, start=None):
        return Count(np.zeros(problem.n_weights), 0.0)

    def update(self, problem, state, goal):
        self.log.append("update")
        return state._replace(passes=state.passes + self.step)

    def report(self, problem, state, goal):
        return Report(state.passes, math.nan, math.nan, self.believes, {"work": 10.0 * state.passes})

    def certificate(self, problem, state):
        self.log.append("certificate")
        gap = 8.0 * 0.5 ** (state.passes / self.step)
        return Certificate(8.0, 8.0 - gap, gap)

    def reconsider(self, problem, state, goal, certificate):
        self.log.append(certificate)
        return state


# ---------------------------------------------------------------- limits and certificates


@pytest.mark.parametrize("max_iter", [0.25, 1, 7, 23.5])
def test_max_iter_is_exact_in_passes(max_iter):
    result = solve(ENDLESS, tol=0.0, max_iter=max_iter)
    assert result.stop_reason == "max_iter"
    assert result.passes == max_iter
    assert result.history["passes"][-1] == max_iter


def test_without_max_iter_the_solvers_own_limit_ends_a_run():
    assert solve(PROBLEM, Halving(step=100.0), tol=0.0).passes == Halving.max_passes


def test_a_notebook_has_a_bar_that_is_drawn_in_place_and_gone_at_the_end(monkeypatch):
    from rich.console import Console

    shown = []

    class Handle:
        def update(self, content):
            shown.append(content)

    def display(content, display_id):
        assert display_id is True
        assert shown == []  # once; then it is updated
        shown.append(content)
        return Handle()

    ipython = types.ModuleType("IPython.display")
    ipython.HTML, ipython.display = str, display
    monkeypatch.setitem(sys.modules, "IPython", types.ModuleType("IPython"))
    monkeypatch.setitem(sys.modules, "IPython.display", ipython)
    with ProgressBar("fit <all>", Console(file=io.StringIO(), force_jupyter=True)) as bar:
        solve(PROBLEM, tol=1e-6, callbacks=[bar])
        assert "fit &lt;all&gt;" in shown[0]
        assert "<progress value=" in shown[0]
        assert "passes" in shown[0]
    assert shown[-1] == ""


def test_a_pause_for_time_that_was_spent_compiling_does_not_end_a_run(monkeypatch):
    """The clock stands at the limit for a moment, wherever that is, and goes back when the compiling is over."""
    reasons = []
    for moment in range(3, 30):
        looks = itertools.count()
        monkeypatch.setattr(base, "working_time", lambda looks=looks, at=moment: 1e9 if next(looks) == at else 0.0)
        reasons.append(solve(PROBLEM, "ocas", tol=1e-6, max_time=1.0).stop_reason)
    assert set(reasons) == {"converged", "max_time"}  # within an iteration, and between two of them


def test_max_time_is_kept():
    """On a problem that cannot be solved to a gap of zero. The best of three, as machines have other things to do."""
    solve(ENDLESS, tol=0.0, max_iter=1)
    overtime = []
    for _ in range(3):
        started = time.perf_counter()
        result = solve(ENDLESS, tol=0.0, max_time=0.2, max_iter=1e12)
        overtime.append(time.perf_counter() - started - 0.2)
        assert result.stop_reason == "max_time"
        assert result.seconds >= 0.2
        assert np.isfinite(result.certificate.gap)
        if overtime[-1] < 0.3:
            break
    assert min(overtime) < 0.3


def test_a_wrong_belief_costs_a_certificate_and_no_more():
    """The solver always believes to be done. It is stopped when that is proven, not before."""
    solver = Halving(believes=True)
    result = run(solver, PROBLEM, tol=0.1)
    assert result.stop_reason == "converged"
    assert result.passes == 4.0  # 1/16 is the first relative gap below 0.1
    updates, certificates = (solver.log.count(word) for word in ("update", "certificate"))
    assert (updates, certificates) == (4, 4)
    told = [entry for entry in solver.log if isinstance(entry, Certificate)]
    assert [certificate.relative_gap for certificate in told] == pytest.approx([1 / 2, 1 / 4, 1 / 8])


def test_a_solver_that_believes_too_soon_is_not_called_for_every_small_sweep(monkeypatch):
    """Ten rows are left of a thousand: each sweep over them would end in the same belief."""
    X, y = samples.sample("hinge", n_rows=1000, n_features=20)
    calls = []
    monkeypatch.setattr(DualCD, "update", lambda *args, update=DualCD.update: calls.append(1) or update(*args))
    result = solve(Problem(X, y, 0.01, "hinge", bias=1.0))
    assert result.stop_reason == "converged"
    assert len(calls) <= 3 * len(result.history["passes"])


def test_a_method_may_give_up_when_its_belief_was_wrong():
    class Hopeless(Halving):
        def reconsider(self, problem, state, goal, certificate):
            raise base.GaveUp("there is nothing left to try")

    result = run(Hopeless(believes=True), PROBLEM, tol=1e-3)
    assert (result.stop_reason, result.passes) == ("stalled", 1.0)
    assert result.detail == "there is nothing left to try"


def test_who_gives_up_in_place_is_certified_where_that_leaves_it():
    """The arrays have moved since the last certificate: neither that nor what the state before knew of them holds."""

    class Leaving(Halving):
        def update(self, problem, state, goal):
            if state.passes < 2.0:
                return super().update(problem, state, goal)
            state.w[:] = 1.0
            raise base.GaveUp("there is nothing left to try", state._replace(passes=3.0))

        def certificate(self, problem, state):
            return problem.certificate(state.w)

    result = run(Leaving(believes=True), PROBLEM, tol=1e-3)
    assert (result.stop_reason, result.passes) == ("stalled", 3.0)
    assert result.certificate.primal == pytest.approx(PROBLEM.primal(np.ones(4)))
    assert list(result.history["passes"]) == [1.0, 2.0, 3.0]
    assert result.history["primal"][-1] == result.certificate.primal


def test_certificates_of_a_solver_that_believes_nothing_are_rare_but_made():
    solver = Halving()
    result = run(solver, PROBLEM, tol=0.0, max_iter=200)
    assert result.stop_reason == "max_iter"
    assert 3 <= solver.log.count("certificate") <= 0.1 * 200 + 2
    assert run(Halving(), PROBLEM, tol=1e-3).stop_reason == "converged"


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge", "epsilon_insensitive"])
@pytest.mark.parametrize("tol", [1e-3, 1e-6])
def test_certificates_are_a_small_part_of_the_work(loss, tol):
    problem = Problem(*samples.sample(loss, n_rows=2000, n_features=10), 0.01, loss)
    result = solve(problem, tol=tol)
    assert result.stop_reason == "converged"
    assert len(result.history["passes"]) <= 4 + 0.15 * result.passes


def test_the_stop_is_a_proof():
    for tol in (0.5, 1e-2, 1e-4, 1e-8):
        result = solve(PROBLEM, tol=tol)
        certificate = PROBLEM.certificate(result.w, result.alpha)
        assert result.stop_reason == "converged"
        assert result.certificate.relative_gap <= tol
        assert certificate.relative_gap <= tol * (1 + 1e-9)
        assert certificate.primal == pytest.approx(result.certificate.primal, rel=1e-12)


@pytest.mark.parametrize("how", ["max_iter", "callback", "converged"])
def test_the_certificate_is_of_the_returned_weights(how):
    options = {"max_iter": {"max_iter": 3.3}, "callback": {"callbacks": [lambda progress: True]}, "converged": {}}[how]
    result = solve(PROBLEM, tol=1e-6, **options)
    assert result.certificate.primal == pytest.approx(PROBLEM.primal(result.w), rel=1e-12)
    assert result.history["primal"][-1] == result.certificate.primal
    assert result.history["dual"][-1] == result.certificate.dual
    assert result.history["relative_gap"][-1] == result.certificate.relative_gap


def test_a_limit_met_at_the_optimum_is_convergence():
    """Whoever is stopped where the gap meets the tolerance has converged."""
    assert run(Halving(), PROBLEM, tol=0.3, max_iter=2).stop_reason == "converged"
    assert run(Halving(), PROBLEM, tol=0.3, max_iter=1).stop_reason == "max_iter"


# ---------------------------------------------------------------- history


def test_history_has_a_row_for_every_certificate(monkeypatch):
    monkeypatch.setattr(dual_cd, "_BLOCK", 100)
    result = solve(ENDLESS, tol=0.0, max_iter=90)
    history = result.history
    assert {"seconds", "passes", "primal", "dual", "relative_gap", "updates", "active", "violation"} == set(history)
    lengths = {len(column) for column in history.values()}
    assert len(lengths) == 1
    assert lengths.pop() >= 3
    assert np.all(np.diff(history["passes"]) > 0)
    for name in ("seconds", "updates"):
        assert np.all(np.diff(history[name]) >= 0)
    assert np.all(np.diff(history["dual"]) >= -1e-12)  # every step of dual coordinate descent is an ascent
    np.testing.assert_allclose(history["relative_gap"], 1 - history["dual"] / history["primal"], atol=1e-12)
    assert history["seconds"][-1] <= result.seconds


# ---------------------------------------------------------------- callbacks


def test_callbacks_see_the_run_and_can_stop_it():
    seen = []

    def stop_at_third(progress):
        seen.append(progress)
        return len(seen) == 3

    also = []
    result = run(Halving(), PROBLEM, tol=0.0, callbacks=[stop_at_third, also.append])
    assert result.stop_reason == "callback"
    assert result.passes == 3.0
    assert len(also) == 3  # the others are called, whoever stops the run
    last = seen[-1]
    assert isinstance(last, Progress)
    assert last.problem is PROBLEM
    assert last.solver.name == "halving"
    assert last.passes == 3.0
    assert last.report.counters == {"work": 30.0}
    assert last.goal.tol == 0.0
    assert last.max_time == math.inf
    assert 0.0 <= seen[0].seconds <= last.seconds


def test_relative_gap_of_progress_is_the_estimate_or_the_last_certificate():
    gaps = []
    run(Halving(believes=True), PROBLEM, tol=0.2, callbacks=[lambda progress: gaps.append(progress.relative_gap)])
    assert gaps == pytest.approx([1 / 2, 1 / 4, 1 / 8])
    gaps.clear()
    run(Halving(), PROBLEM, tol=0.2, max_iter=1, callbacks=[lambda progress: gaps.append(progress.relative_gap)])
    assert np.isnan(gaps).all()  # nothing is known yet


def test_an_error_in_a_callback_reaches_the_caller():
    def fail(progress):
        raise ZeroDivisionError("mine")

    handler = signal.getsignal(signal.SIGINT)
    with pytest.raises(ZeroDivisionError, match="mine"):
        solve(PROBLEM, callbacks=[fail])
    assert signal.getsignal(signal.SIGINT) is handler


def test_early_stopping_waits_for_its_patience():
    scores = iter([0.1, 0.5, 0.4, 0.5, 0.3, 0.2, 0.1])
    weights = []

    def score(w):
        weights.append(w)
        return next(scores)

    stopping = EarlyStopping(score, patience=3.0)
    result = run(Halving(), PROBLEM, tol=0.0, callbacks=[stopping])
    assert result.stop_reason == "callback"
    assert result.passes == 5.0  # the best score is of pass 2; that of pass 4 equals it, which is no improvement
    assert stopping.best_score == 0.5
    assert stopping.best_w is not weights[1]  # a copy: the solver goes on to change its own


def test_early_stopping_evaluates_now_and_then():
    calls = []
    stopping = EarlyStopping(lambda w: calls.append(w) or len(calls), every=2.0)
    run(Halving(), PROBLEM, tol=0.0, max_iter=10, callbacks=[stopping])
    assert len(calls) == 5


def test_the_progress_bar_is_silent_in_a_pipe_and_alive_on_a_terminal():
    from rich.console import Console

    for is_terminal in (False, True):
        output = io.StringIO()
        with ProgressBar("fitting", Console(file=output, force_terminal=is_terminal, width=100)) as bar:
            result = run(Halving(believes=True), PROBLEM, tol=0.1, callbacks=[bar])
        assert result.stop_reason == "converged"  # a bar never stops a run
        assert ("fitting" in output.getvalue()) == is_terminal
        assert ("gap 6.3e-02 (goal 1e-01)" in output.getvalue()) == is_terminal


def test_the_progress_bar_never_runs_backwards(monkeypatch):
    from rich.console import Console

    bar = ProgressBar(console=Console(file=io.StringIO(), force_terminal=True))
    shares = []
    monkeypatch.setattr(bar._bars, "update", lambda task, completed, status: shares.append(completed))
    run(Halving(believes=True), PROBLEM, tol=1e-4, callbacks=[bar])
    assert shares[0] < 0.01
    assert shares[-1] == 1.0
    assert np.all(np.diff(shares) >= 0.0)
    np.testing.assert_allclose(np.diff(shares)[1:-1], shares[1], rtol=1e-9)  # halving is steady in digits


# ---------------------------------------------------------------- Ctrl-C


@pytest.fixture
def default_handler(monkeypatch):
    monkeypatch.setattr(interrupts, "_last_caught", -np.inf)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def press_control_c(*at):
    """A callback that raises the signal in the calls of these numbers."""
    calls = itertools.count(1)

    def callback(progress):
        if next(calls) in at:
            signal.raise_signal(signal.SIGINT)

    return callback


def test_control_c_returns_what_there_is(default_handler):
    result = run(Halving(), PROBLEM, tol=0.0, callbacks=[press_control_c(4)])
    assert result.stop_reason == "interrupted"
    assert result.passes == 4.0
    assert result.certificate.relative_gap == pytest.approx(1 / 16)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_second_control_c_raises(default_handler):
    def twice(progress):
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        run(Halving(), PROBLEM, tol=0.0, callbacks=[twice])
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert run(Halving(), PROBLEM, tol=0.1).stop_reason == "converged"  # the next run starts afresh


def test_a_second_control_c_in_the_next_run_raises(default_handler, monkeypatch):
    """A loop over runs ends with two in a row; later on, the first counts no more."""
    assert run(Halving(), PROBLEM, tol=0.0, callbacks=[press_control_c(1)]).stop_reason == "interrupted"
    with pytest.raises(KeyboardInterrupt):
        run(Halving(), PROBLEM, tol=0.0, callbacks=[press_control_c(1)])
    monkeypatch.setattr(interrupts, "_IN_A_ROW", 0.0)
    assert run(Halving(), PROBLEM, tol=0.0, callbacks=[press_control_c(1)]).stop_reason == "interrupted"


def test_control_c_under_asyncio(default_handler):
    """asyncio's own handler would wait for the next `await`; it is called, too."""
    results = []

    async def work():
        results.append(run(Halving(), PROBLEM, tol=0.0, callbacks=[press_control_c(2)]))
        await asyncio.sleep(0)
        results.append("not reached")

    with pytest.raises(KeyboardInterrupt):
        asyncio.run(work())
    assert [result.stop_reason for result in results] == ["interrupted"]


def test_nested_contexts_share_one_event(default_handler):
    with catch_interrupt() as outer:
        result = run(Halving(), PROBLEM, tol=0.0, callbacks=[press_control_c(2)])
        assert result.stop_reason == "interrupted"
        assert outer.is_set()
        assert signal.getsignal(signal.SIGINT) is not signal.default_int_handler
        assert run(Halving(), PROBLEM, tol=0.0).passes == 0.0  # the user has had enough of the whole
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_another_handler_is_left_in_charge(default_handler):
    caught = []

    def mine(signum, frame):
        caught.append(signum)

    signal.signal(signal.SIGINT, mine)
    result = run(Halving(), PROBLEM, tol=0.1, callbacks=[press_control_c(1)])
    assert result.stop_reason == "converged"
    assert caught == [signal.SIGINT]
    assert signal.getsignal(signal.SIGINT) is mine


def test_an_event_of_the_callers_stops_a_run():
    event = threading.Event()
    stop_later = threading.Timer(0.1, event.set)
    stop_later.start()
    result = solve(ENDLESS, tol=0.0, max_iter=1e12, interrupt=event)
    assert result.stop_reason == "interrupted"
    assert np.isfinite(result.certificate.gap)
    assert run(Halving(), PROBLEM, interrupt=event).passes == 0.0  # set before the start: nothing is done


def test_runs_in_other_threads_leave_signals_alone():
    handler, results = signal.getsignal(signal.SIGINT), []
    thread = threading.Thread(target=lambda: results.append(solve(PROBLEM, tol=1e-6)))
    thread.start()
    thread.join()
    assert results[0].w.tobytes() == solve(PROBLEM, tol=1e-6).w.tobytes()
    assert signal.getsignal(signal.SIGINT) is handler


def test_two_runs_at_once_give_what_they_give_one_after_the_other():
    problems = [Problem(*samples.sample("hinge", n_rows=3000, n_features=20, seed=seed)) for seed in (0, 1)]
    options = {"tol": 0.0, "max_iter": 200}
    alone = [solve(problem, **options) for problem in problems]
    together = [None, None]
    meeting = threading.Barrier(2)

    def work(k):
        meeting.wait()
        together[k] = solve(problems[k], **options)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for one, other in zip(alone, together):
        assert one.w.tobytes() == other.w.tobytes()
        assert one.alpha.tobytes() == other.alpha.tobytes()


# ---------------------------------------------------------------- processes of their own


SCRIPT = """
    import json, sys, time
    sys.path.insert(0, {tests!r})
    import samples
    from functools import partial
    import maxmargin
    from maxmargin import Problem
    from maxmargin.solvers.coordinate import dual_cd
    solve = partial(maxmargin.solve, solver="dual_cd")
    problem = Problem(*samples.sample("hinge", n_rows=60, n_features=4), 1e6, "hinge")
    solve(problem, tol=1e-2, max_iter=3)  # compiled before the clock starts

    def say(progress):
        if progress.passes > 1 and not said:
            said.append(print("running", flush=True))
        time.sleep({pause})
    said = []
"""


@contextlib.contextmanager
def child(body, pause=0.0):
    """A Python process that solves the problem of these tests; killed at the end, whatever happens."""
    start = textwrap.dedent(SCRIPT).format(tests=os.path.dirname(samples.__file__), pause=pause)
    script = start + textwrap.dedent(body)
    process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


@pytest.mark.skipif(sys.platform == "win32", reason="no SIGINT for single processes")
def test_control_c_from_outside_returns_within_a_second():
    body = """
        result = solve(problem, tol=0.0, max_iter=1e12, callbacks=[say])
        print(json.dumps([result.stop_reason, *result.certificate, result.passes]), flush=True)
    """
    with child(body) as process:
        assert process.stdout.readline() == "running\n"
        time.sleep(0.1)
        sent = time.perf_counter()
        process.send_signal(signal.SIGINT)
        stop_reason, primal, dual, gap, passes = json.loads(process.stdout.readline())
        took = time.perf_counter() - sent
        assert process.wait(timeout=10) == 0
    assert stop_reason == "interrupted"
    assert took < 1.0
    assert passes > 10
    assert 0.0 <= dual <= primal < np.inf
    assert gap > 0.0


def test_a_run_that_is_killed_goes_on_from_its_checkpoint(tmp_path, monkeypatch):
    """kill -9 in the middle of a run; what resumes from the file ends in the bits of a run that was left alone."""
    path = tmp_path / "state"
    options = {"tol": 0.0, "max_iter": 150}
    body = f"""
        dual_cd._BLOCK = 300
        solve(problem, **{options}, callbacks=[say], checkpoint={str(path)!r}, checkpoint_every=0.02)
    """
    with child(body, pause=0.005) as process:
        assert process.stdout.readline() == "running\n"
        while not path.exists():
            time.sleep(0.01)
        time.sleep(0.25)
        process.kill()
        assert process.wait() != 0
    monkeypatch.setattr(dual_cd, "_BLOCK", 300)
    whole = solve(ENDLESS, **options)
    passes = []
    resumed = solve(ENDLESS, **options, checkpoint=path, callbacks=[lambda progress: passes.append(progress.passes)])
    assert 1.0 < passes[0] < 150.0
    assert_same_run(resumed, whole)


# ---------------------------------------------------------------- checkpoints


def assert_same_run(one, other):
    """Bit for bit, but for the clock."""
    assert one.w.tobytes() == other.w.tobytes()
    assert one.alpha.tobytes() == other.alpha.tobytes()
    assert one.stop_reason == other.stop_reason
    assert one.certificate == other.certificate
    assert set(one.history) == set(other.history)
    for name in set(one.history) - {"seconds"}:
        assert one.history[name].tobytes() == other.history[name].tobytes()


def test_a_run_stopped_many_times_is_one_run(tmp_path, monkeypatch):
    """Stopped after a few updates again and again, far from the optimum, and then left alone to the end."""
    monkeypatch.setattr(dual_cd, "_BLOCK", 20)
    path = tmp_path / "state"
    whole = solve(PROBLEM, tol=1e-9)
    n_stops = 0
    for limit in np.random.default_rng(0).integers(1, 8, size=12):
        calls = itertools.count(1)
        stopped = solve(PROBLEM, tol=1e-9, checkpoint=path, callbacks=[lambda _, c=calls, n=limit: next(c) >= n])
        n_stops += stopped.stop_reason == "callback"
        assert np.all(np.diff(stopped.history["passes"]) > 0)
    assert n_stops == 12
    assert_same_run(solve(PROBLEM, tol=1e-9, checkpoint=path), whole)


def test_a_finished_run_resumes_to_its_end_at_once(tmp_path):
    path = tmp_path / "state"
    for options in ({"tol": 1e-6}, {"tol": 0.0, "max_iter": 5}, {"tol": 0.2, "max_iter": 2}):
        path.unlink(missing_ok=True)
        first = solve(PROBLEM, **options, checkpoint=path)
        calls = []
        second = solve(PROBLEM, **options, checkpoint=path, callbacks=[calls.append])
        assert_same_run(second, first)
        assert calls == []


def test_a_finished_run_goes_on_to_a_smaller_tolerance(tmp_path):
    path = tmp_path / "state"
    loose = solve(PROBLEM, tol=1e-2, checkpoint=path)
    tight = solve(PROBLEM, tol=1e-8, checkpoint=path)
    assert tight.stop_reason == "converged"
    assert tight.passes > loose.passes
    assert tight.certificate.relative_gap <= 1e-8
    loose_again = solve(PROBLEM, tol=1e-2, checkpoint=path)
    assert loose_again.passes == tight.passes


def test_seconds_and_limits_count_over_resumptions(tmp_path):
    path = tmp_path / "state"
    first = solve(ENDLESS, tol=0.0, max_time=0.1, max_iter=1e12, checkpoint=path)
    second = solve(ENDLESS, tol=0.0, max_time=0.1, max_iter=1e12, checkpoint=path)
    assert (first.stop_reason, second.stop_reason) == ("max_time", "max_time")
    assert second.passes == first.passes
    assert min(first.seconds, second.seconds) >= 0.1
    third = solve(ENDLESS, tol=0.0, max_iter=first.passes + 10, checkpoint=path)
    assert third.passes == first.passes + 10


def test_a_checkpoint_knows_the_penalty_of_its_problem(tmp_path):
    X, y = samples.sample("logistic")
    path = tmp_path / "run"
    solve(Problem(X, y, 1.0, "logistic"), "folos", tol=0.0, max_iter=2, checkpoint=path)
    with pytest.raises(ValueError, match="belongs to other data"):
        solve(Problem(X, y, 1.0, "logistic", penalty="l1"), "folos", tol=0.0, max_iter=3, checkpoint=path)


@pytest.mark.parametrize(("every", "expected"), [(1e9, [False] * 30), (1e-9, [False] + [True] * 29)])
def test_checkpoints_are_written_now_and_then(every, expected, tmp_path, monkeypatch):
    monkeypatch.setattr(dual_cd, "_BLOCK", 100)
    path, is_there = tmp_path / "state", []

    def watch(progress):
        is_there.append(path.exists())
        return len(is_there) == 30

    solve(ENDLESS, tol=0.0, checkpoint=path, checkpoint_every=every, callbacks=[watch])
    assert is_there == expected
    assert os.listdir(tmp_path) == ["state"]  # at the end it is written, and no temporary file is left


@pytest.mark.parametrize(
    ("change", "options"),
    [
        (lambda: Problem(X * 1.0000001, Y), {}),
        (lambda: Problem(np.ascontiguousarray(X[:, ::-1]), Y), {}),  # the same rows but for the order of the features
        (lambda: Problem(X.astype(np.float32), Y), {}),
        (lambda: Problem(samples.csr(X), Y), {}),
        (lambda: Problem(X, -Y), {}),
        (lambda: Problem(X, Y, 2.0), {}),
        (lambda: Problem(X, Y, loss="squared_hinge"), {}),
        (lambda: Problem(X, Y, bias=1.0), {}),
        (lambda: Problem(X[:-1], Y[:-1]), {}),
        (lambda: PROBLEM, {"solver": DualCD(shrinking=False)}),
        (lambda: PROBLEM, {"seed": 1}),
    ],
)
def test_a_checkpoint_of_another_run_is_refused(change, options, tmp_path):
    path = tmp_path / "state"
    solve(PROBLEM, max_iter=2, checkpoint=path)
    before = path.read_bytes()
    with pytest.raises(ValueError, match=r"belongs to other data, another solver or other parameters; delete it"):
        solve(change(), max_iter=3, checkpoint=path, **options)
    assert path.read_bytes() == before


def test_damaged_and_foreign_files_are_refused(tmp_path):
    path = tmp_path / "state"
    solve(PROBLEM, max_iter=2, checkpoint=path)
    content = path.read_bytes()
    damages = {
        "cut": content[:-10],
        "empty": b"",
        "flipped": content[:-5] + bytes([content[-5] ^ 1]) + content[-4:],
        "text": b"+1 1:0.5\n" * 30,
    }
    for damage in damages.values():
        path.write_bytes(damage)
        with pytest.raises(ValueError, match="state"):
            solve(PROBLEM, max_iter=3, checkpoint=path)
        assert path.read_bytes() == damage
    write_model(path, "LinearSVC", {}, {"coef": np.ones(3)})
    with pytest.raises(ValueError, match="is not a checkpoint but a LinearSVC file; name another one"):
        solve(PROBLEM, max_iter=3, checkpoint=path)


def test_a_checkpoint_of_an_older_version_is_refused(tmp_path):
    """Whose state lacked a field that it has now."""
    from maxmargin.models.contents import read_content, write_content

    path = tmp_path / "state"
    solve(PROBLEM, max_iter=2, checkpoint=path)
    kind, tree, *_ = read_content(path)
    del tree["state"]["order"]
    write_content(path, kind, tree)
    with pytest.raises(ValueError, match=r"written by maxmargin .* and lacks 'order', which this version needs"):
        solve(PROBLEM, max_iter=3, checkpoint=path)


@pytest.mark.parametrize(
    "change",
    [
        lambda state: state | {"alpha": state["alpha"][:-1]},
        lambda state: state | {"alpha": state["alpha"].astype(np.float32)},
        lambda state: state | {"order": state["order"] + len(PROBLEM.y)},
        lambda state: state | {"w": "nonsense"},
        lambda state: 5,
    ],
)
def test_a_checkpoint_whose_arrays_lead_nowhere_is_refused(change, tmp_path):
    from maxmargin.models.contents import read_content, write_content

    path = tmp_path / "state"
    solve(PROBLEM, solver="dual_cd", max_iter=2, checkpoint=path)
    kind, tree, *_ = read_content(path)
    write_content(path, kind, tree)
    solve(PROBLEM, solver="dual_cd", max_iter=2, checkpoint=path)
    write_content(path, kind, tree | {"state": change(tree["state"])})
    with pytest.raises(ValueError, match="not a usable checkpoint"):
        solve(PROBLEM, solver="dual_cd", max_iter=3, checkpoint=path)


def test_a_missing_directory_is_told_before_the_work(tmp_path):
    calls = []
    with pytest.raises(FileNotFoundError, match=r"there is no directory .*nowhere"):
        solve(PROBLEM, checkpoint=tmp_path / "nowhere" / "state", callbacks=[calls.append])
    assert calls == []


# ---------------------------------------------------------------- arguments


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tol": -1e-3}, "tol must be >= 0"),
        ({"tol": math.nan}, "tol must be >= 0"),
        ({"max_iter": 0}, "max_iter must be positive or None"),
        ({"max_iter": -3}, "max_iter must be positive or None"),
        ({"max_time": 0.0}, "max_time must be positive or None"),
        ({"solver": "newton"}, "unknown solver 'newton'; choose one of auto, dual_cd"),
    ],
)
def test_bad_arguments_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        solve(PROBLEM, **options)


def test_a_loss_that_a_solver_does_not_take_is_named_with_those_it_takes():
    problem = Problem(X, Y, loss="logistic")
    with pytest.raises(ValueError, match="'dual_cd' does not take loss 'logistic'; it takes hinge, squared_hinge"):
        solve(problem, DualCD())
    if not solvers.supporting(losses.Logistic()):
        with pytest.raises(ValueError, match=r"no solver takes loss 'logistic' yet; there are solvers for .*hinge"):
            solve(problem, "auto")


def test_names_lead_to_solvers():
    for name in solvers.names():
        assert solvers.get(name).name == name
        assert name in solvers.supporting(solvers.get(name).losses[0]())
    mine = DualCD(shrinking=False)
    assert solvers.get(mine) is mine
    assert solve(PROBLEM, "auto", tol=1e-2).solver in plan(PROBLEM)
