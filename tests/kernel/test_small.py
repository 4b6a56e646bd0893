"""Small kernel machines, many of which are solved in one compiled call: as by the loop, and as proven as by it."""

import threading

import numpy as np
import pytest
from machines import MACHINES, bounds, machine, matrix, rows, targets

from maxmargin import SVC, SVR, OneClassSVM, kernels, losses
from maxmargin.problem.kernel_problem import KernelProblem
from maxmargin.solvers import kernel as kernel_solvers
from maxmargin.solvers.kernel.small import alone, is_small, solve_together
from maxmargin.solvers.kernel.start import starting_point

SMALL = [kind for kind in MACHINES if kind != "squared_hinge"]


def solved(problem, **options):
    return solve_together(
        alone(problem), problem.kernel, start=starting_point(problem), scale=problem.scale, **options
    )[0]


def many_classes(n_classes=12, each=9, seed=0):
    rng = np.random.default_rng(seed)
    y = np.repeat(np.arange(n_classes), each)
    return rng.normal(size=(n_classes, 5))[y] + 0.5 * rng.normal(size=(len(y), 5)), y


@pytest.mark.parametrize("kernel", ["rbf", "linear", "poly", "sigmoid", "precomputed"])
@pytest.mark.parametrize("kind", SMALL)
@pytest.mark.parametrize("C", [0.1, 1.0, 30.0])
def test_the_answer_is_that_of_the_loop_and_proven_by_other_code(kernel, kind, C):
    X, y = rows(70)
    data = X if kernel != "precomputed" else np.exp(-0.5 * ((X[:, None] - X) ** 2).sum(axis=2))
    options = {"kernel": kernel, "gamma": 0.1, "coef0": 1.0 if kernel == "poly" else 0.0}
    if kind == "svr":
        problem = KernelProblem(data, targets(X), C, losses.EpsilonInsensitive(0.1), **options)
    else:
        problem = machine(kind, data, y, C, **options)
    found = solved(problem)
    checked = problem.certificate(found.w, found.state.intercept)
    assert problem.is_feasible(found.w)
    if kernel == "sigmoid":
        assert found.certificate.gap == pytest.approx(checked.gap, rel=1e-3, abs=1e-8 * abs(checked.primal))
        return
    loop = kernel_solvers.solve(problem, "smo", tol=1e-9)
    if found.stop_reason == "converged":
        scale = 1.0 + np.abs(problem.decision(loop.w)).max()
        np.testing.assert_allclose(problem.decision(found.w), problem.decision(loop.w), rtol=0.0, atol=1e-4 * scale)
    primal, dual = bounds(problem, matrix(problem, data), found.w, found.state.intercept)
    slack = 1e-9 * max(1.0, abs(primal))
    assert found.certificate.dual <= loop.certificate.primal + slack
    assert found.certificate.primal >= loop.certificate.dual - slack
    assert found.certificate.gap >= primal - dual - slack
    assert found.certificate.gap - found.certificate.rounding <= checked.gap + slack


def test_most_small_problems_end_here_with_all_digits():
    for kind in SMALL:
        for C in (0.1, 1.0, 30.0):
            X, y = rows(90)
            problem = machine(kind, X, y, C)
            found = solved(problem)
            assert found.stop_reason == "converged"
            gap = found.certificate.gap - found.certificate.rounding
            assert gap <= 1e-10 * max(abs(found.certificate.primal), problem.scale)
            assert found.state.intercept == pytest.approx(problem.intercept(problem.decision(found.w)), abs=1e-8)


@pytest.mark.parametrize("multi_class", ["ovo", "ovr"])
@pytest.mark.parametrize("options", [{}, {"C": 10.0, "class_weight": "balanced"}, {"kernel": "poly", "coef0": 1.0}])
def test_all_pairs_at_once_are_the_pairs_one_by_one(multi_class, options):
    X, y = many_classes()
    weight = np.random.default_rng(1).integers(1, 4, len(y)).astype(float)
    at_once = SVC(multi_class=multi_class, **options).fit(X, y, weight)
    one_by_one = SVC(multi_class=multi_class, verbose=1, **options).fit(X, y, weight)  # a fit that is watched
    assert at_once.stop_reason_ == one_by_one.stop_reason_ == "converged"
    np.testing.assert_allclose(at_once._outputs(X), one_by_one._outputs(X), rtol=1e-5, atol=1e-6)
    for ours, other in zip(at_once.certificates_, one_by_one.certificates_, strict=True):
        assert ours.relative_gap <= 1e-9
        assert max(ours.dual, other.dual) <= min(ours.primal, other.primal) * (1.0 + 1e-12)
    assert len(at_once.histories_) == len(at_once.certificates_)
    assert at_once.histories_[0]["relative_gap"][-1] == at_once.certificates_[0].relative_gap


def test_threads_do_not_change_a_bit():
    X, y = many_classes(30, 30)
    one, two = (SVC(C=5.0, n_jobs=n_jobs).fit(X, y) for n_jobs in (1, 3))
    np.testing.assert_array_equal(one.dual_coef_, two.dual_coef_)
    np.testing.assert_array_equal(one.intercept_, two.intercept_)
    assert one.certificate_ == two.certificate_


def test_classes_of_one_row_and_equal_rows():
    X = np.repeat(np.random.default_rng(0).normal(size=(6, 3)), 2, axis=0)
    y = np.array([0, 0, 1, 1, 2, 2, 3, 3, 3, 3, 4, 5])  # equal rows of classes 4 and 5, too
    model = SVC(C=2.0).fit(X, y)
    assert model.stop_reason_ == "converged"
    assert model.certificates_[-1].primal == pytest.approx(4.0)  # no f tells them apart: C for each
    assert np.isfinite(model.decision_function(X)).all()


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(("kernel", "C", "scale"), [("rbf", 1e4, 1.0), ("rbf", 1e8, 1.0), ("linear", 1e3, 100.0)])
def test_what_is_hard_goes_on_in_the_loop(kernel, C, scale):
    rng = np.random.default_rng(0)
    X, y = scale * rng.normal(size=(120, 3)), rng.integers(0, 3, 120)
    model = SVC(kernel=kernel, C=C, gamma=1e-2).fit(X, y)
    assert model.stop_reason_ in ("converged", "rounding", "stalled")
    assert model.stop_reason_ == "converged" or kernel == "linear" or C == 1e8
    whole = KernelProblem(X, np.ones(len(y)), C, kernel=model.kernel_)
    i, j = np.flatnonzero(y == 0), np.flatnonzero(y == 1)
    pair = np.concatenate([i, j])
    labels = np.repeat([1.0, -1.0], [len(i), len(j)])
    beta = np.zeros(len(y))
    beta[model.support_] = model.dual_coef_[0] * (y[model.support_] <= 1)
    judged = whole.with_labels(labels, np.full(len(pair), C), pair).certificate(beta[pair], model.intercept_[0])
    assert model.certificates_[0].gap == pytest.approx(judged.gap, rel=0.1, abs=1e-9 * judged.primal)


def test_an_indefinite_kernel_ends():
    X, y = rows(80)
    model = SVC(kernel="sigmoid", gamma=2.0, coef0=-1.0, max_time=5.0).fit(X, y)
    assert np.isfinite(model.decision_function(X)).all()


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_limit_of_time_and_an_interrupt_come_before_the_first_call():
    X, y = many_classes()
    model = SVC(max_time=1e-9).fit(X, y)
    assert model.stop_reason_ == "max_time"
    event = threading.Event()
    event.set()
    model = SVC()
    model._run_options = {"interrupt": event}
    model._train(X, y, None)
    assert model.stop_reason_ == "interrupted"
    assert len(model.certificates_) == 66


def test_a_limit_of_passes_is_kept():
    X, y = rows(60)
    with pytest.warns(Warning, match="max_iter"):
        model = SVC(C=100.0, max_iter=1, tol=1e-9).fit(X, y)
    assert model.n_iter_.max() <= 2


def test_a_warm_start_is_where_it_begins():
    X, y = rows(60)
    for kind in SMALL:
        problem = machine(kind, X, y, 3.0)
        first = solved(problem)
        again = solve_together(alone(problem), problem.kernel, start=first.w, scale=problem.scale)[0]
        assert again.passes <= 0.1 * first.passes + 0.1
        np.testing.assert_allclose(again.w, first.w, atol=1e-7)


def test_regression_and_one_class_on_few_rows():
    X, _ = rows(80)
    y = targets(X)
    for model, args in ((SVR(C=10.0), (X, y)), (OneClassSVM(nu=0.2), (X,)), (OneClassSVM(nu=1.0), (X,))):
        assert model.fit(*args).certificate_.relative_gap < 1e-9


def test_what_is_not_small():
    X, y = rows(60)
    assert is_small(machine("svc", X, y))
    assert not is_small(machine("squared_hinge", X, y))
    assert not is_small(KernelProblem(X, y, penalize_intercept=True, kernel=kernels.RBF(1.0)))
    assert is_small(KernelProblem(np.zeros((640, 1)), np.ones(640)))
    assert not is_small(KernelProblem(np.zeros((640, 1)), np.ones(640), cache_size=8.0))
    assert not is_small(KernelProblem(np.zeros((641, 1)), np.ones(641)))
