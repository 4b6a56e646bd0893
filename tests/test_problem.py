"""`problem.py`: objectives against plain numpy, certificates against the truth."""

import functools
import itertools

import naive
import numpy as np
import pytest
import samples
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_matrix

from maxmargin import Certificate, Problem, losses, penalties
from maxmargin.losses import Huber
from maxmargin.problem import checks

every_loss = pytest.mark.parametrize("name", losses.names())
seeds = st.integers(0, 2**32 - 1)


def feasible_alpha(loss, cost, rng):
    """Some of the variables at their bounds, the others anywhere between them."""
    lowest, highest = np.clip(naive.conjugate_domain(loss), -3.0, 3.0)
    return -cost * rng.choice([lowest, highest, 0.0, *rng.uniform(lowest, highest, size=5)], size=len(cost))


# ---------------------------------------------------------------- objectives


@every_loss
@pytest.mark.parametrize("make", [np.asarray, samples.csr], ids=["dense", "csr"])
@pytest.mark.parametrize("bias", [0.0, 0.5])
def test_objectives_are_those_of_plain_numpy(name, make, bias):
    loss, rng = losses.get(name), np.random.default_rng(0)
    X, y = samples.sample(loss)
    weight = rng.integers(0, 4, size=len(y)).astype(float)
    problem = Problem(make(X), y, 0.7, loss, sample_weight=weight, bias=bias)
    full, cost = (np.column_stack([X, np.full(len(y), bias)]) if bias else X), 0.7 * weight
    w, alpha = rng.normal(size=full.shape[1]), feasible_alpha(loss, cost, rng)

    np.testing.assert_allclose(problem.decision(w), full @ w, rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(problem.weights(alpha), naive.weights(full, y, loss, alpha), rtol=1e-12, atol=1e-13)
    assert problem.primal(w) == pytest.approx(naive.primal(full, y, cost, loss, w), rel=1e-13)
    assert problem.dual(alpha) == pytest.approx(naive.dual(full, y, cost, loss, alpha), rel=1e-12)
    assert problem.n_weights == full.shape[1]
    assert problem.n_features == X.shape[1]
    assert problem.n_rows == len(y)


@every_loss
def test_an_intercept_is_a_column_of_ones(name):
    loss, rng = losses.get(name), np.random.default_rng(1)
    X, y = samples.sample(loss)
    virtual, explicit = Problem(X, y, 2.0, loss, bias=1.0), Problem(np.column_stack([X, np.ones(len(y))]), y, 2.0, loss)
    w, alpha = rng.normal(size=X.shape[1] + 1), feasible_alpha(loss, virtual.cost, rng)
    assert virtual.primal(w) == pytest.approx(explicit.primal(w), rel=1e-13)
    assert virtual.dual(alpha) == pytest.approx(explicit.dual(alpha), rel=1e-12)
    np.testing.assert_allclose(virtual.norms2, explicit.norms2, rtol=1e-13)


@every_loss
def test_a_weight_counts_as_copies_of_its_row(name):
    loss, rng = losses.get(name), np.random.default_rng(2)
    X, y = samples.sample(loss)
    copies = rng.integers(0, 4, size=len(y))
    weighted = Problem(X, y, 0.3, loss, sample_weight=copies)
    repeated = Problem(np.repeat(X, copies, axis=0), np.repeat(y, copies), 0.3, loss)
    w = rng.normal(size=X.shape[1])
    assert weighted.primal(w) == pytest.approx(repeated.primal(w), rel=1e-13)
    alpha = feasible_alpha(loss, repeated.cost, rng)
    owner = np.repeat(np.arange(len(y)), copies)
    together = np.bincount(owner, alpha, minlength=len(y))
    assert weighted.dual(together) >= repeated.dual(alpha) - 1e-12  # by convexity; equal if copies share alike
    alike = (together / np.maximum(copies, 1))[owner]
    assert weighted.dual(together) == pytest.approx(repeated.dual(alike), rel=1e-12)


# ---------------------------------------------------------------- certificates


@functools.cache
def optimum(name):
    """A problem, its optimal weights and value."""
    loss = losses.get(name)
    X, y = samples.sample(loss, n_rows=15, n_features=3)
    problem = Problem(X, y, 0.8, loss)
    best = naive.optimum(X, y, problem.cost, loss)
    return problem, best.w, best.primal


@pytest.mark.oracle
@every_loss
@settings(max_examples=25)
@given(seed=seeds, size=st.sampled_from([0.0, 1e-6, 1e-2, 1.0, 30.0]))
def test_a_certificate_is_never_too_good(name, seed, size):
    """For any w and any feasible alpha, near the optimum or far from it: dual <= optimum <= primal."""
    problem, best_w, best = optimum(name)
    rng = np.random.default_rng(seed)
    w = best_w + size * rng.normal(size=best_w.shape)
    for alpha in (None, feasible_alpha(problem.loss, problem.cost, rng)):
        certificate = problem.certificate(w, alpha)
        assert certificate.primal == pytest.approx(problem.primal(w), rel=1e-13)
        assert certificate.gap >= problem.primal(w) - best - 2e-10 * best
        assert certificate.dual <= best * (1 + 2e-10)
        assert 0.0 <= certificate.gap <= certificate.primal
        assert certificate.relative_gap == certificate.gap / certificate.primal


@every_loss
@settings(max_examples=25)
@given(seed=seeds)
def test_a_gap_is_the_difference_of_the_objectives(name, seed):
    loss, rng = losses.get(name), np.random.default_rng(seed)
    X, y = samples.sample(loss, n_rows=15, n_features=3)
    problem = Problem(X, y, 0.8, loss)
    w, alpha = rng.normal(size=3), feasible_alpha(loss, problem.cost, rng)
    difference = naive.primal(X, y, problem.cost, loss, w) - naive.dual(X, y, problem.cost, loss, alpha)
    primal = problem.primal(w)
    assert problem.gap(w, alpha) == pytest.approx(min(difference, primal), rel=1e-11)
    w = problem.weights(alpha)
    assert problem.gap(w, alpha, belongs=True) == pytest.approx(problem.gap(w, alpha), rel=1e-11, abs=1e-12)


@pytest.mark.oracle
@pytest.mark.parametrize("name", ["squared_hinge", "huber", "squared_error", "squared_epsilon_insensitive"])
def test_a_certificate_has_digits_where_the_difference_has_none(name):
    """Around the optimum the objectives agree to all digits; the gap still grows with the square of the distance."""
    problem, w, best = optimum(name)
    for _ in range(60):  # gradient descent, from eight digits to all
        w = w - 0.05 * (w - problem.weights(problem.dual_point(w)))
    near, far = (problem.certificate(w + step).gap for step in (1e-10, 1e-9))
    assert 0.0 < near < far < 1e-12 * best
    assert far / near == pytest.approx(100.0, rel=0.3)


@every_loss
def test_the_dual_point_is_feasible_for_any_w(name):
    loss, rng = losses.get(name), np.random.default_rng(0)
    X, y = samples.sample(loss)
    problem = Problem(X, y, 0.7, loss, sample_weight=rng.integers(0, 3, size=len(y)))
    for size in (0.0, 1.0, 1e3, 1e8):
        w = size * rng.normal(size=X.shape[1])
        alpha = problem.dual_point(w)
        slope = losses.derivative
        expected = [-C * slope(loss, t) for C, t in zip(problem.cost, naive.argument(loss, X @ w, y))]
        np.testing.assert_allclose(alpha, expected, rtol=1e-9, atol=1e-12)
        assert np.isfinite(problem.dual(alpha))
        assert np.isfinite(problem.certificate(w).gap)


@every_loss
def test_the_dual_point_of_the_optimum_is_optimal_for_smooth_losses(name):
    problem, w, best = optimum(name)
    gap = problem.certificate(w).gap
    if name in ("hinge", "epsilon_insensitive"):
        assert gap <= best  # valid, no more
    else:
        assert gap <= 1e-6 * best


@pytest.mark.parametrize("name", ["hinge", "squared_hinge", "huber", "logistic", "epsilon_insensitive"])
def test_an_infeasible_alpha_proves_nothing(name):
    """Its dual value is -inf; the certificate falls back to zero, which bounds every optimum from below."""
    loss = losses.get(name)
    X, y = samples.sample(loss)
    problem = Problem(X, y, 0.7, loss)
    w = np.ones(X.shape[1])
    for outside in (-0.7001, 0.7001, 1e3):
        if naive.conjugate(loss, -outside / 0.7) < np.inf:
            continue
        alpha = np.zeros(len(y))
        alpha[7] = outside
        assert problem.dual(alpha) == -np.inf
        assert problem.certificate(w, alpha) == Certificate(problem.primal(w), 0.0, problem.primal(w))
        assert problem.certificate(w, alpha).relative_gap == 1.0


@pytest.mark.parametrize("name", ["hinge", "huber", "epsilon_insensitive"])
def test_an_alpha_beyond_its_bound_proves_nothing_even_at_the_optimum(name):
    """Where t is on the side of the bound, more alpha would make the slack negative: the gap would be too small."""
    loss = losses.get(name)
    X, y = samples.sample(loss, n_rows=15, n_features=3)
    problem = Problem(X, y, 0.8, loss)
    w, alpha, _ = next(itertools.islice(naive.dual_cd(X, y, problem.cost, loss), 300, None))
    assert problem.certificate(w, alpha).relative_gap < 1e-6
    alpha[np.flatnonzero(alpha == 0.8)[0]] += 1e-6
    assert problem.certificate(w, alpha).dual == 0.0
    assert problem.certificate(w, alpha, belongs=True).dual == 0.0


def test_an_alpha_without_cost_must_be_zero():
    X, y = samples.sample("squared_error")
    problem = Problem(X, y, 1.0, "squared_error", sample_weight=np.arange(len(y)))
    alpha = np.zeros(len(y))
    assert np.isfinite(problem.dual(alpha))
    alpha[0] = 0.1
    assert problem.dual(alpha) == -np.inf
    assert problem.certificate(np.ones(X.shape[1]), alpha).dual == 0.0


def test_relative_gap_where_the_objective_is_zero():
    assert Certificate(0.0, 0.0, 0.0).relative_gap == 0.0
    assert Certificate(0.0, -1.0, 1.0).relative_gap == np.inf
    assert Certificate(4.0, 3.0, 1.0).relative_gap == 0.25


# ---------------------------------------------------------------- threads


def test_every_pass_has_the_same_bits_on_any_number_of_threads():
    """Large enough to be divided into blocks."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60_000, 40))
    y = np.where(X[:, 0] + rng.normal(size=len(X)) > 0, 1.0, -1.0)
    w, alpha = rng.normal(size=40), rng.random(len(X))
    answers = []
    for n_jobs in (1, 2, 3, None, -1):
        problem = Problem(X, y, 1.0, "hinge", n_jobs=n_jobs)
        passes = [problem.decision(w), problem.weights(alpha), problem.dual_point(w), problem.norms2]
        numbers = [problem.primal(w), problem.dual(alpha), *problem.certificate(w, alpha), *problem.certificate(w)]
        answers.append([array.tobytes() for array in passes] + numbers)
        assert problem.with_jobs(2).primal(w) == numbers[0]
    assert all(answer == answers[0] for answer in answers)
    assert answers[0][4] == pytest.approx(naive.primal(X, y, np.ones(len(y)), losses.Hinge(), w), rel=1e-12)


# ---------------------------------------------------------------- changes and checks


def test_a_problem_cannot_be_changed():
    problem = Problem(*samples.sample("hinge"))
    with pytest.raises(AttributeError):
        problem.loss = losses.Hinge()
    with pytest.raises(ValueError, match="read-only"):
        problem.rows.values[0, 0] = 1.0


def test_other_labels_for_the_same_rows():
    X, y = samples.sample("hinge")
    problem = Problem(X, y, 2.0, "hinge")
    other = problem.with_labels(-y, cost=3.0 * np.ones(len(y)))
    assert np.shares_memory(other.rows.values, problem.rows.values)
    w = np.ones(X.shape[1])
    assert other.primal(w) == pytest.approx(Problem(X, -y, 3.0, "hinge").primal(w), rel=1e-14)
    assert problem.with_labels(-y).primal(-w) == pytest.approx(problem.primal(w), rel=1e-14)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"C": 0.0}, "C must be a positive finite number"),
        ({"C": -1.0}, "C must be a positive finite number"),
        ({"C": np.nan}, "C must be a positive finite number"),
        ({"C": np.inf}, "C must be a positive finite number"),
        ({"y": [1, 0, -1]}, r"labels must be -1 and \+1, but y\[1\] is 0"),
        ({"y": [1, np.nan, -1]}, r"labels must be -1 and \+1, but y\[1\] is nan"),
        ({"y": [1, -1]}, r"X has 3 rows but y has shape \(2,\)"),
        ({"y": [[1], [1], [1]]}, r"X has 3 rows but y has shape \(3, 1\)"),
        ({"sample_weight": [1, 2]}, r"X has 3 rows but sample_weight has shape \(2,\)"),
        ({"sample_weight": [1, -1, 0]}, r"sample_weight\[1\] is -1.0"),
        ({"sample_weight": [1, 1, np.nan]}, r"sample_weight\[2\] is nan"),
        ({"sample_weight": [0, 0, 0]}, "all sample weights are zero"),
        ({"loss": "hing"}, "unknown loss 'hing' .did you mean .hinge...; choose one of hinge, "),
        ({"loss": Huber(-1.0)}, "must be finite and positive"),
        ({"loss": "squared_error", "y": [0.5, np.inf, 1.0]}, r"y\[1\] is inf; targets must be finite"),
        ({"X": np.zeros((0, 2)), "y": []}, "X has no rows"),
        ({"X": np.zeros((3, 0))}, "X has no features"),
        ({"X": np.full((3, 2), np.nan)}, "Input X contains NaN: row 0, column 0"),
        ({"bias": np.nan}, "bias must be a finite number"),
        ({"n_jobs": 0}, "n_jobs must not be 0"),
    ],
)
def test_bad_input_is_named(changes, message):
    arguments = {"X": [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], "y": [1, -1, 1]} | changes
    with pytest.raises(ValueError, match=message):
        Problem(**arguments)


def test_vectors_of_a_wrong_length_are_refused():
    """Kernels do not look where they step: a short w would be read beyond its end."""
    X, y = samples.sample("hinge")
    problem = Problem(X, y, bias=1.0)
    short = np.zeros(X.shape[1])  # one entry is missing: the intercept's
    for method in (problem.primal, problem.decision, problem.dual_point, problem.certificate):
        with pytest.raises(ValueError, match=rf"has {X.shape[1] + 1} weights, but w has shape \({X.shape[1]},\)"):
            method(short)
    for method in (problem.dual, problem.weights, lambda alpha: problem.gap(np.zeros(X.shape[1] + 1), alpha)):
        with pytest.raises(ValueError, match=rf"has {len(y)} rows, but alpha has shape \({len(y) - 1},\)"):
            method(np.zeros(len(y) - 1))


def test_vectors_may_be_lists_integers_or_strided():
    X, y = samples.sample("hinge", n_features=2)
    problem = Problem(X, y)
    expected = problem.primal(np.array([1.0, 2.0]))
    for w in ([1, 2], np.array([1, 2]), np.array([1.0, 9.0, 2.0, 9.0])[::2], np.array([1.0, 2.0], dtype=np.float32)):
        assert problem.primal(w) == expected


# ---------------------------------------------------------------- the L1 penalty


def l1_primal(X, y, cost, loss, w):
    return np.sum(np.abs(w)) + np.sum(cost * naive.phi(loss, naive.argument(loss, X @ w, y)))


def l1_dual(X, y, cost, loss, alpha):
    """-inf where an entry of X'alpha is beyond 1."""
    v = naive.weights(X, y, loss, alpha)
    if np.abs(v).max() > 1:
        return -np.inf
    return naive.dual(X, y, cost, loss, alpha) + 0.5 * v @ v


def l1_feasible_alpha(X, y, cost, loss, rng):
    alpha = feasible_alpha(loss, cost, rng)
    return rng.choice([0.5, 0.999]) * alpha / max(1.0, np.abs(naive.weights(X, y, loss, alpha)).max())


@every_loss
@pytest.mark.parametrize("make", [np.asarray, samples.csr], ids=["dense", "csr"])
@pytest.mark.parametrize("bias", [0.0, 0.5])
def test_l1_objectives_are_those_of_plain_numpy(name, make, bias):
    loss, rng = losses.get(name), np.random.default_rng(0)
    X, y = samples.sample(loss)
    weight = rng.integers(0, 4, size=len(y)).astype(float)
    problem = Problem(make(X), y, 0.7, loss, sample_weight=weight, bias=bias, penalty="l1")
    full, cost = (np.column_stack([X, np.full(len(y), bias)]) if bias else X), 0.7 * weight
    w, alpha = rng.normal(size=full.shape[1]), l1_feasible_alpha(full, y, cost, loss, rng)
    assert problem.primal(w) == pytest.approx(l1_primal(full, y, cost, loss, w), rel=1e-13)
    assert problem.dual(alpha) == pytest.approx(l1_dual(full, y, cost, loss, alpha), rel=1e-12)
    difference = l1_primal(full, y, cost, loss, w) - l1_dual(full, y, cost, loss, alpha)
    for belongs in (False, True):  # which would save nothing: w is no function of alpha
        assert problem.gap(w, alpha, belongs=belongs) == pytest.approx(min(difference, problem.primal(w)), rel=1e-11)
    np.testing.assert_allclose(problem.weights(alpha), naive.weights(full, y, loss, alpha), rtol=1e-12, atol=1e-13)
    assert problem.with_labels(y).penalty == problem.with_jobs(2).penalty == penalties.L1()


@functools.cache
def norm_optimum(name, penalty):
    """A problem with a norm as penalty, its optimal weights and value."""
    loss = losses.get(name)
    X, y = samples.sample(loss, n_rows=25, n_features=4)
    problem = Problem(X, y, 0.4, loss, penalty=penalty)
    best = naive.optimum(X, y, problem.cost, loss, penalty)
    return problem, best.w, best.primal


SMOOTH = ["squared_hinge", "huber", "logistic", "squared_error", "squared_epsilon_insensitive"]


@pytest.mark.parametrize("name", SMOOTH)
@settings(max_examples=25)
@given(seed=seeds, size=st.sampled_from([0.0, 1e-6, 1e-2, 1.0, 30.0]))
def test_an_l1_certificate_is_never_too_good(name, seed, size):
    problem, best_w, best = norm_optimum(name, "l1")
    rng = np.random.default_rng(seed)
    w = best_w + size * rng.normal(size=4)
    for alpha in (None, feasible_alpha(problem.loss, problem.cost, rng), np.zeros(25)):
        certificate = problem.certificate(w, alpha)  # also of an alpha that is not feasible: it is drawn back
        assert certificate.primal == pytest.approx(problem.primal(w), rel=1e-13)
        assert certificate.gap >= problem.primal(w) - best - 1e-8 * best
        assert certificate.dual <= best * (1 + 1e-8)
        assert 0.0 <= certificate.gap <= certificate.primal


@pytest.mark.parametrize("name", SMOOTH)
def test_an_l1_certificate_goes_to_zero_at_the_optimum(name):
    problem, w, best = norm_optimum(name, "l1")
    gaps = [problem.certificate(w + step).gap for step in (1e-2, 1e-4, 0.0)]
    assert gaps[0] > gaps[1] > gaps[2]
    assert gaps[2] <= 1e-5 * best


@every_loss
def test_the_l1_dual_point_is_feasible_for_any_w(name):
    loss, rng = losses.get(name), np.random.default_rng(0)
    X, y = samples.sample(loss)
    problem = Problem(X, y, 0.7, loss, sample_weight=rng.integers(0, 3, size=len(y)), penalty="l1")
    l2 = Problem(X, y, 0.7, loss, sample_weight=problem.cost / 0.7)
    for size in (0.0, 1.0, 1e3, 1e8):
        w = size * rng.normal(size=X.shape[1])
        alpha, free = problem.dual_point(w), l2.dual_point(w)
        assert np.abs(problem.weights(alpha)).max() <= 1 + 1e-12
        assert np.isfinite(problem.dual(alpha))
        scale = max(1.0, np.abs(X.T @ (free * (y if losses.is_margin_loss(loss) else 1.0))).max())
        np.testing.assert_allclose(alpha * scale, free, rtol=1e-9, atol=1e-12)
        certificate = problem.certificate(w)
        assert certificate == pytest.approx(problem.certificate(w, alpha), rel=1e-9)


def test_an_alpha_beyond_the_l1_bound_is_not_feasible():
    problem = Problem([[1.0, 2.0], [0.5, -1.0]], [1, 1], 10.0, "squared_hinge", penalty="l1")
    assert problem.dual(np.array([0.5, 0.0])) == pytest.approx(0.5 - 0.25 * 0.25 / 10.0)  # v = (0.5, 1)
    assert problem.dual(np.array([0.5001, 0.0])) == -np.inf
    assert problem.dual(np.array([0.5, 0.25])) > problem.dual(np.array([0.5, 0.0]))  # v = (0.625, 0.75)


def test_the_l1_penalty_has_the_same_bits_on_any_number_of_threads():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60_000, 40))
    y, w = np.sign(X[:, 0]), rng.normal(size=40)
    problems = [Problem(X, y, 1e-4, "logistic", n_jobs=n_jobs, penalty="l1") for n_jobs in (1, 2, 3)]
    certificates = {tuple(problem.certificate(w)) for problem in problems}
    assert len(certificates) == 1
    assert len({problem.dual_point(w).tobytes() for problem in problems}) == 1


def test_an_unknown_penalty_is_named():
    with pytest.raises(ValueError, match="unknown penalty 'l3'; choose one of l2, l1"):
        Problem([[1.0]], [1], penalty="l3")


def test_a_penalty_that_a_solver_does_not_take_is_named(monkeypatch):
    from maxmargin import solve
    from maxmargin.solvers import registry

    problem = Problem([[1.0], [2.0]], [1, -1], 1.0, "squared_hinge", penalty="l1")
    only = {"dual_cd": registry._LINEAR["dual_cd"]}
    monkeypatch.setattr(registry, "_LINEAR", only)
    with pytest.raises(ValueError, match="no solver takes loss 'squared_hinge' with penalty 'l1' yet"):
        solve(problem)
    with pytest.raises(ValueError, match="solver 'dual_cd' does not take penalty 'l1'; with this loss no solver does"):
        solve(problem, "dual_cd")
    monkeypatch.setattr(
        registry, "_LINEAR", only | {"primal_cd": ("maxmargin.solvers.coordinate.primal_cd", "PrimalCD")}
    )
    with pytest.raises(ValueError, match="does not take penalty 'l1'; for loss 'squared_hinge' these do: primal_cd"):
        solve(problem, "dual_cd")
    assert solve(problem).solver.name == "primal_cd"


# ---------------------------------------------------------------- other norms as penalties

NORMS = {  # name: (norm, dual norm)
    "l2_norm": (lambda w: np.sqrt(np.sum(w**2)), lambda v: np.sqrt(np.sum(v**2))),
    "linf": (lambda w: np.max(np.abs(w)), lambda v: np.sum(np.abs(v))),
}
every_norm = pytest.mark.parametrize("penalty", NORMS)


@every_loss
@every_norm
@pytest.mark.parametrize("bias", [0.0, 0.5])
def test_objectives_with_a_norm_are_those_of_plain_numpy(name, penalty, bias):
    loss, rng = losses.get(name), np.random.default_rng(0)
    X, y = samples.sample(loss)
    problem = Problem(samples.csr(X), y, 0.7, loss, bias=bias, penalty=penalty)
    full, cost = (np.column_stack([X, np.full(len(y), bias)]) if bias else X), problem.cost
    norm, dual_norm = NORMS[penalty]
    w, alpha = rng.normal(size=full.shape[1]), feasible_alpha(loss, cost, rng)
    v = naive.weights(full, y, loss, alpha)
    alpha *= 0.9 / max(1.0, dual_norm(v))
    v = naive.weights(full, y, loss, alpha)
    primal = norm(w) + naive.primal(full, y, cost, loss, w) - 0.5 * w @ w
    dual = naive.dual(full, y, cost, loss, alpha) + 0.5 * v @ v
    assert problem.primal(w) == pytest.approx(primal, rel=1e-13)
    assert problem.dual(alpha) == pytest.approx(dual, rel=1e-11, abs=1e-12)
    assert problem.gap(w, alpha) == pytest.approx(min(primal - dual, primal), rel=1e-10)
    beyond = alpha * (1.01 / dual_norm(v))
    if np.isfinite(naive.dual(full, y, cost, loss, beyond)):
        assert problem.dual(beyond) == -np.inf
        assert problem.certificate(w, beyond) == pytest.approx(problem.certificate(w, beyond / 1.01), rel=1e-9)


@pytest.mark.parametrize("name", SMOOTH)
@every_norm
def test_a_certificate_with_a_norm_is_never_too_good_and_tight_at_the_optimum(name, penalty):
    problem, best_w, best = norm_optimum(name, penalty)
    assert np.any(best_w)
    rng = np.random.default_rng(0)
    for size in (0.0, 1e-6, 1e-3, 1e-2, 1.0, 30.0):
        w = best_w + size * rng.normal(size=4)
        for alpha in (None, feasible_alpha(problem.loss, problem.cost, rng)):
            certificate = problem.certificate(w, alpha)
            assert certificate.dual <= best * (1 + 1e-7)
            assert certificate.primal == pytest.approx(problem.primal(w), rel=1e-13)
            assert 0.0 <= certificate.gap <= certificate.primal
    assert problem.certificate(best_w).relative_gap <= 1e-3
    assert np.isfinite(problem.dual(problem.dual_point(np.ones(4))))


@every_norm
def test_a_free_intercept_is_not_in_the_norm(penalty):
    X, y = samples.sample("squared_hinge")
    problem = Problem(X, y, 0.7, "squared_hinge", bias=1.0, penalty=penalty, penalize_intercept=False)
    w = np.append(np.arange(1.0, 6.0), 100.0)
    risk = np.sum(0.7 * naive.phi(problem.loss, y * (X @ w[:5] + 100.0)))
    assert problem.primal(w) == pytest.approx(NORMS[penalty][0](w[:5]) + risk, rel=1e-13)
    assert 0.0 <= problem.certificate(w).dual <= problem.primal(np.zeros(6))


def test_more_features_than_memory_has_room_for_are_refused_by_name(monkeypatch):
    """One wrong index in a text file of a kilobyte makes two billion features."""
    X = csr_matrix(([1.0, 2.0], [0, 2**31 - 2], [0, 1, 2]), shape=(2, 2**31 - 1))
    monkeypatch.setattr(checks, "available_memory", lambda: 16.0 * 2**30)
    with pytest.raises(MemoryError, match=r"2,147,483,647 features: .* take 64.0 GB.*index a mistake"):
        Problem(X, [1, -1])
    Problem(X[:, : 1 << 25], [1, -1])  # a gigabyte
