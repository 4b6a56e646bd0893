"""What every kernel solver owes to the one loop: limits, Ctrl-C, callbacks, and checkpoints to go on from."""

import threading

import numpy as np
import pytest
from machines import machine, rows

from maxmargin.solvers import kernel

TOLS = {"kernel_pegasos": 0.0, "norma": 0.0, "bvm": 0.05}  # stochastic methods run for their passes
every_solver = pytest.mark.parametrize("solver", [name for name in kernel.names() if name != "auto"])


def _problem(solver, n=400):
    X, y = rows(n)
    if solver in ("cvm", "bvm"):
        return machine("squared_hinge", X, y, 1.0, penalize_intercept=True)
    if solver in ("kernel_pegasos", "norma"):
        return machine("svc", X, y, 1.0, penalize_intercept=True)
    return machine("svc", X, y, 1e3)


def _solve(solver, **options):
    limits = {"max_iter": 20.0} if TOLS.get(solver) == 0.0 else {}
    return kernel.solve(_problem(solver), solver, **{"tol": TOLS.get(solver, 1e-6), **limits, **options})


class Stop:
    """A callback that presses Ctrl-C, or says stop, at its second call, and keeps count."""

    def __init__(self, press=None):
        self.passes, self.press = [], press

    def __call__(self, progress):
        self.passes.append(progress.passes)
        if len(self.passes) == 2 and self.press is not None:
            self.press.set()
        return self.press is None and len(self.passes) >= 2


@every_solver
def test_a_run_that_is_interrupted_goes_on_to_the_same_end(solver, tmp_path):
    whole = _solve(solver)
    press = threading.Event()
    stop = Stop(press)
    first = _solve(solver, callbacks=[stop], interrupt=press, checkpoint=tmp_path / "run")
    assert first.stop_reason == "interrupted"
    assert first.passes < whole.passes
    assert np.all(np.isfinite(first.w))
    rest = _solve(solver, checkpoint=tmp_path / "run")
    assert rest.stop_reason == whole.stop_reason
    if TOLS.get(solver) == 0.0:
        np.testing.assert_array_equal(rest.w, whole.w)
    else:
        assert rest.certificate.relative_gap <= TOLS.get(solver, 1e-6)
        assert rest.certificate.primal == pytest.approx(whole.certificate.primal, rel=2.0 * TOLS.get(solver, 1e-6))


@every_solver
def test_callbacks_end_a_run_with_an_answer_and_its_certificate(solver):
    stop = Stop()
    result = _solve(solver, callbacks=[stop])
    assert result.stop_reason == "callback"
    assert len(stop.passes) == 2
    assert stop.passes == sorted(stop.passes)
    if hasattr(result.state, "beta") and solver != "nystroem":
        problem = _problem(solver)  # a penalised intercept is part of the kernel
        truth = problem.certificate(result.state.beta, None if problem.penalize_intercept else result.state.intercept)
        assert truth.gap <= result.certificate.gap * (1.0 + 1e-6) + 1e-9 * abs(truth.primal)


@every_solver
def test_no_time_is_enough_for_an_answer(solver):
    result = _solve(solver, tol=0.0, max_time=1e-9, max_iter=None)
    assert result.stop_reason == "max_time"
    assert np.all(np.isfinite(result.w))
    assert result.certificate.gap >= 0.0
