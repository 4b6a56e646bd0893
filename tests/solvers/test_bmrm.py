"""`solvers/bmrm.py` step by step; what it shares with `cutting_plane` is tested there."""

import itertools

import numpy as np
import pytest
import samples
from naive.cutting_plane import bmrm

from maxmargin import Problem, losses, solve
from maxmargin.solvers.base import Goal
from maxmargin.solvers.planes.bmrm import BMRM
from maxmargin.solvers.planes.cutting_plane import CuttingPlane

LOSSES = [losses.get(name) for name in losses.names()]
every_loss = pytest.mark.parametrize("loss", LOSSES, ids=losses.name_of)


@every_loss
@pytest.mark.parametrize("C", [0.01, 0.7, 50.0])
def test_every_iteration_is_that_of_the_paper(loss, C):
    X, y = samples.sample(loss, n_rows=20, n_features=3)
    problem = Problem(X, y, C, loss)
    oracle = bmrm(X, y, problem.cost, loss)
    for passes, w in itertools.islice(oracle, 1, 8):
        result = solve(problem, BMRM(), tol=0.0, max_iter=passes)
        np.testing.assert_allclose(result.w, w, rtol=1e-7, atol=1e-9)


def test_the_first_step_is_a_whole_gradient():
    """With one plane its alpha is one. The plane zero, which others have, holds that step back."""
    X, y = samples.sample("hinge", n_rows=50)
    problem = Problem(X, y, 1.0, "hinge")
    points = []
    for solver in (BMRM(), CuttingPlane()):
        state = solver.init_state(problem)
        state = solver.update(problem, state, Goal(0.0, 1.0))
        points.append(state.w_t)
    np.testing.assert_allclose(points[0], X.T @ y, rtol=1e-12)
    assert np.linalg.norm(points[1]) < np.linalg.norm(points[0])


@every_loss
def test_weights_of_planes_sum_up_to_one(loss):
    problem = Problem(*samples.sample(loss, n_rows=50), 1.0, loss)
    planes = solve(problem, BMRM(), tol=1e-6).state.planes
    assert planes.alpha.sum() == pytest.approx(1.0, rel=1e-14)
    assert np.all(planes.alpha >= 0.0)
    assert planes.n_working <= 6


def test_a_smooth_loss_takes_iterations_in_proportion_to_the_digits():
    """O(log(1 / gap)), where a hinge may take O(1 / gap): six digits more for less than three times the iterations."""
    problem = Problem(*samples.sample("logistic", n_rows=200), 1.0, "logistic")
    few, many = (solve(problem, BMRM(), tol=tol).history["iterations"][-1] for tol in (1e-3, 1e-9))
    assert many < 6 * few
