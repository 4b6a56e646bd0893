"""The oracle that knows where the minimum is: its answers are proven, and one that is not proven is an error."""

import naive
import numpy as np
import pytest
import samples
from naive.optimum import _interior_point

from maxmargin import losses

pytestmark = pytest.mark.oracle
every_loss = pytest.mark.parametrize("loss", losses.names())


@every_loss
@pytest.mark.parametrize("penalty", ["l2", "l1", "l2_norm", "linf"])
@pytest.mark.parametrize("free_intercept", [False, True])
@pytest.mark.parametrize("C", [0.5, 20.0])
def test_no_point_is_better_than_the_optimum(loss, penalty, free_intercept, C):
    tag, rng = losses.get(loss), np.random.default_rng(0)
    X, y = samples.sample(loss)
    if free_intercept:
        X, y = np.column_stack([X + 1.0, np.full(30, 0.5)]), y if losses.is_margin_loss(tag) else y + 5.0
    cost = C * rng.integers(0, 3, size=30)
    best = naive.optimum(X, y, cost, tag, penalty, free_intercept)
    assert best.primal - best.dual <= 1e-10 * best.primal
    inside = slice(0, X.shape[1] - free_intercept)

    def objective(w):
        value = 0.5 * w[inside] @ w[inside] if penalty == "l2" else np.linalg.norm(w[inside], ORDERS[penalty])
        return value + cost @ naive.phi(tag, naive.argument(tag, X @ w, y))

    assert objective(best.w) == pytest.approx(best.primal, rel=1e-13)
    for size in (1e-5, 1e-3, 1e-1, 1.0):
        for _ in range(20):
            assert objective(best.w + size * rng.normal(size=X.shape[1])) >= best.dual * (1.0 - 1e-13)


ORDERS = {"l1": 1, "l2_norm": 2, "linf": np.inf}


@pytest.mark.parametrize("free_intercept", [False, True])
def test_least_squares_have_a_closed_form(free_intercept):
    X, y = samples.sample("squared_error")
    X[:, -1] = 1.0
    penalty = np.eye(5) / (2 * 0.7)
    penalty[-1, -1] *= not free_intercept
    best = naive.optimum(X, y, np.full(30, 0.7), losses.get("squared_error"), free_intercept=free_intercept)
    np.testing.assert_allclose(best.w, np.linalg.solve(X.T @ X + penalty, X.T @ y), rtol=1e-10)


def test_an_answer_without_a_proof_is_an_error(monkeypatch):
    X, y = samples.sample("hinge")
    monkeypatch.setattr(_interior_point, "__defaults__", (5,))
    with pytest.raises(AssertionError, match="the oracle is at fault: its gap is"):
        naive.optimum(X, y, np.ones(30), losses.get("hinge"))
