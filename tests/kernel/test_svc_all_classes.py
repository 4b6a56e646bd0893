"""SVC(multi_class="crammer_singer"): all classes at once, by LaRank."""

import numpy as np
import pytest
from sklearn.base import clone

import maxmargin
from maxmargin import SVC, SVCCV, LinearSVC
from maxmargin.problem.kernel_classes import KernelClasses
from maxmargin.solvers.base import run
from maxmargin.solvers.kernel.kernel_larank import KernelLaRank
from maxmargin.solvers.kernel.smo import SMO


def blobs(n=120, K=4, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, K, n)
    return rng.normal(size=(n, 3)) + 1.5 * rng.normal(size=(K, 3))[y], np.array(list("dabc"))[y]


def together(**options):
    return SVC(multi_class="crammer_singer", gamma=0.5, C=2.0, tol=1e-5, **options)


def test_it_is_the_problem_of_all_classes():
    X, y = blobs()
    model = together().fit(X, y)
    problem = KernelClasses(X, np.searchsorted(model.classes_, y), 2.0, kernel="rbf", gamma=0.5)
    exact = run(KernelLaRank(), problem, tol=1e-5)
    assert isinstance(model.solver_, KernelLaRank)
    assert model.certificate_.relative_gap <= 1e-5
    assert model.certificate_.primal == pytest.approx(exact.certificate.primal, rel=1e-4)
    assert model.dual_coef_.shape == (4, len(model.support_))
    assert model.intercept_.tolist() == [0.0] * 4
    np.testing.assert_allclose(model.decision_function(X), problem.decision(exact.alpha), atol=1e-9)
    assert np.array_equal(model.predict(X), model.classes_[model.decision_function(X).argmax(axis=1)])


def test_with_a_linear_kernel_it_is_linear_svc():
    X, y = blobs()
    kernel = SVC(kernel="linear", multi_class="crammer_singer", C=0.3, tol=1e-6).fit(X, y)
    linear = LinearSVC("l2", "hinge", multi_class="crammer_singer", C=0.3, tol=1e-6, fit_intercept=False).fit(X, y)
    assert kernel.certificate_.primal == pytest.approx(linear.certificate_.primal, rel=1e-5)
    np.testing.assert_allclose(kernel.coef_, linear.coef_, atol=0.02)


def test_two_classes_have_one_decision_function():
    """|w_0|^2 + |w_1|^2 of two classes is half of |w_1 - w_0|^2: the binary machine with twice the C."""
    X, y = blobs(K=2)
    model = together().fit(X, y)
    assert model.dual_coef_.shape[0] == 1
    assert model.decision_function(X).shape == (len(y),)
    signs = np.where(y == model.classes_[1], 1.0, -1.0)
    K = np.exp(-0.5 * ((X[:, None] - X) ** 2).sum(axis=2))
    beta = np.zeros(len(y))
    beta[model.support_] = model.dual_coef_[0]
    f = K @ beta
    primal = 0.5 * beta @ f + 4.0 * np.maximum(0.0, 1.0 - signs * f).sum()
    assert model.certificate_.primal == pytest.approx(0.5 * primal, rel=1e-6)


def test_weights_are_costs():
    X, y = blobs()
    weight = np.random.default_rng(1).integers(0, 3, len(y))
    some = together().fit(X, y, sample_weight=weight)
    copies = together().fit(np.repeat(X, weight, axis=0), np.repeat(y, weight))
    assert some.certificate_.primal == pytest.approx(copies.certificate_.primal, rel=1e-4)
    by_class = together(class_weight={"a": 3.0}).fit(X, y)
    by_row = together().fit(X, y, sample_weight=np.where(y == "a", 3.0, 1.0))
    assert by_class.certificate_.primal == by_row.certificate_.primal


def test_it_is_saved_and_chosen(tmp_path):
    X, y = blobs()
    model = together().fit(X, y)
    model.save(tmp_path / "m")
    again = maxmargin.load(tmp_path / "m")
    assert np.array_equal(again.decision_function(X), model.decision_function(X))
    assert again.solver_ == model.solver_
    assert again.certificate_.relative_gap == model.certificate_.relative_gap
    best = SVCCV(Cs=[0.5, 2.0], gammas=[0.5], multi_class="crammer_singer").fit(X, y)
    assert best.dual_coef_.shape[0] == 4
    linear = LinearSVC(multi_class="crammer_singer", solver="larank").fit(X, y)
    linear.save(tmp_path / "l")
    assert maxmargin.load(tmp_path / "l").solver_ == linear.solver_


@pytest.mark.parametrize(
    ("several", "solver"),
    [("crammer_singer", "smo"), ("ovo", "kernel_larank"), ("ovr", KernelLaRank()), ("crammer_singer", SMO())],
)
def test_what_does_not_belong_together_is_named(several, solver):
    X, y = blobs(40)
    with pytest.raises(ValueError, match="belong together"):
        SVC(multi_class=several, solver=solver).fit(X, y)


def test_a_stream_has_no_problem_of_all_classes():
    X, y = blobs(40)
    with pytest.raises(ValueError, match="belong together"):
        clone(together(solver="norma")).partial_fit(X, y)
