"""`partial_fit` of SVC: the steps of NORMA and of Pegasos on parts of a stream, against the papers' formulas."""

import pickle

import numpy as np
import pytest
from machines import machine, rows
from sklearn.base import clone
from sklearn.metrics.pairwise import rbf_kernel

from maxmargin import SVC, SVCCV, load
from maxmargin.solvers.kernel.kernel_pegasos import KernelPegasos
from maxmargin.solvers.kernel.norma import NORMA

GAMMA, C = 0.5, 3.0
SOLVERS = {"norma": NORMA(batch_size=1), "kernel_pegasos": KernelPegasos(batch_size=1)}


def norma(K, y, weight, n, tau=0):
    """Coefficients and offset after one row at a time; n rows of the first part, all weights as they are."""
    mean = C * weight[:n].mean()
    beta, age, b = np.zeros(len(y)), np.zeros(len(y)), 0.0
    for t, (k, label) in enumerate(zip(K, y), start=1):
        step = mean * np.sqrt(n / t)
        violates = label * (k @ beta + b) < 1.0
        beta *= 1.0 - step / (mean * n)
        if violates:
            change = step * label * C * weight[t - 1] / mean
            beta[t - 1], age[t - 1] = change, t
            b += change / n
        terms = np.flatnonzero(beta)
        if tau and len(terms) > tau:
            beta[terms[age[terms].argmin()]] = 0.0
    return beta, b


def pegasos(K, y, weight, n, tau=0):
    """Coefficients and intercept after steps 1 / (lambda t) of one row each, decayed in every step."""
    w = np.zeros(len(y))
    for t, (k, label) in enumerate(zip(K + 1.0, y), start=1):
        violates = label * (k @ w) < 1.0
        w *= 1.0 - 1.0 / t
        w[t - 1] = violates * n / t * label * C * weight[t - 1]
    return w, w.sum()


REFERENCES = {"norma": norma, "kernel_pegasos": pegasos}


def in_parts(model, X, y, ends, **options):
    for begin, end in zip([0, *ends], [*ends, len(y)]):
        part = {name: value[begin:end] if name == "sample_weight" else value for name, value in options.items()}
        model.partial_fit(X[begin:end], y[begin:end], **part)
    return model


def coefficients(model, n):
    out = np.zeros((len(model.intercept_), n))
    dual = model.dual_coef_
    out[:, model.support_] = dual.toarray() if hasattr(dual, "toarray") else dual
    return out


@pytest.mark.parametrize("name", SOLVERS)
@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "csr"])
def test_parts_are_the_steps_of_the_paper(name, sparse):
    X, y = rows(150, sparse=sparse)
    K = rbf_kernel(X, gamma=GAMMA)
    weight = np.random.default_rng(0).choice([0.5, 1.0, 3.0], 150)
    model = SVC(solver=SOLVERS[name], C=C, gamma=GAMMA)
    in_parts(model, X, y, [40, 41, 90], sample_weight=weight)
    beta, b = REFERENCES[name](K, y, weight, 40)
    assert 0 < np.count_nonzero(beta) < 150
    np.testing.assert_allclose(coefficients(model, 150)[0], beta, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(model.intercept_, b, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(model.decision_function(X), K @ beta + b, rtol=1e-9, atol=1e-9)
    assert not hasattr(model, "certificate_")
    assert model.shape_fit_ == X.shape


@pytest.mark.parametrize("name", SOLVERS)
def test_a_part_is_a_pass_of_the_solver_in_the_order_of_the_rows(name):
    X, y = rows(192)
    model = SVC(solver=name, C=C, gamma=GAMMA).partial_fit(X, y)
    solver = model.solver_
    problem = machine("svc", X, y, C, gamma=GAMMA, penalize_intercept=name == "kernel_pegasos")
    state = solver.init_state(problem)._replace(position=0)  # the order is that of the rows until the first is drawn
    state = solver.update(problem, state, None)
    own = state.decay * state.terms if name == "norma" else state.beta
    b = state.offset if name == "norma" else state.intercept
    np.testing.assert_allclose(coefficients(model, 192)[0], own, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(model.intercept_, b, rtol=1e-12)


@pytest.mark.parametrize("name", SOLVERS)
def test_whole_batches_may_be_divided_in_any_way(name):
    X, y = rows(320)
    one = in_parts(SVC(solver=name, C=C, gamma=GAMMA), X, y, [64])
    many = in_parts(SVC(solver=name, C=C, gamma=GAMMA), X, y, [64, 96, 224])
    np.testing.assert_array_equal(one.support_, many.support_)
    np.testing.assert_allclose(one.dual_coef_, many.dual_coef_, rtol=1e-12)


def test_a_truncated_expansion_keeps_its_newest_terms():
    X, y = rows(150)
    model = in_parts(SVC(solver=NORMA(tau=20, batch_size=1), C=C, gamma=GAMMA), X, y, [40, 90])
    beta, _ = norma(rbf_kernel(X, gamma=GAMMA), y, np.ones(150), 40, tau=20)
    assert len(model.support_) == 20
    np.testing.assert_allclose(coefficients(model, 150)[0], beta, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", SOLVERS)
def test_several_classes_have_a_machine_each_against_the_rest(name):
    X, _ = rows(180)
    labels = np.array(["a", "b", "c"])[np.digitize(X[:, 0], [-0.5, 0.5])]
    first = np.flatnonzero(labels != "c")[:30]
    order = np.concatenate([first, np.setdiff1d(np.arange(180), first)])  # "c" comes later than the first part
    X, labels = X[order], labels[order]
    factor = {"b": 2.0}
    model = SVC(solver=SOLVERS[name], C=C, gamma=GAMMA, class_weight=factor)
    in_parts(model, X, labels, [30, 100], classes=["a", "b", "c"])
    K, found = rbf_kernel(X, gamma=GAMMA), coefficients(model, 180)
    for k, label in enumerate("abc"):
        weight = np.where((labels == label) & (label == "b"), 2.0, 1.0)
        beta, b = REFERENCES[name](K, np.where(labels == label, 1.0, -1.0), weight, 30)
        np.testing.assert_allclose(found[k], beta, rtol=1e-9, atol=1e-12)
        assert model.intercept_[k] == pytest.approx(b)
    assert model.n_support_.sum() == len(model.support_)
    assert np.all(np.diff(np.searchsorted(model.classes_, labels[model.support_])) >= 0)
    assert model.score(X, labels) > 0.7


def test_rows_without_weight_are_as_good_as_absent(tmp_path):
    X, y = rows(100)
    weight = np.where(np.arange(100) % 3 == 0, 0.0, 1.0)
    model = SVC(solver="norma", gamma=GAMMA).partial_fit(X, y, sample_weight=weight)
    other = SVC(solver="norma", gamma=GAMMA).partial_fit(X[weight > 0.0], y[weight > 0.0])
    np.testing.assert_array_equal(model.dual_coef_, other.dual_coef_)
    model.partial_fit(X, y, sample_weight=np.zeros(100))
    np.testing.assert_array_equal(model.dual_coef_, other.dual_coef_)
    copy = pickle.loads(pickle.dumps(model)).partial_fit(X, y)  # goes on, unlike a model from a file
    np.testing.assert_array_equal(copy.dual_coef_, model.partial_fit(X, y).dual_coef_)
    model.save(tmp_path / "model")
    loaded = load(tmp_path / "model")
    np.testing.assert_allclose(loaded.decision_function(X), model.decision_function(X), rtol=1e-12)
    with pytest.raises(ValueError, match="loaded from a file"):
        loaded.partial_fit(X, y)


@pytest.mark.parametrize("solver", ["auto", "smo", "cvm", "nystroem", "no such solver"])
def test_other_solvers_have_no_partial_fit(solver):
    assert not hasattr(SVC(solver=solver), "partial_fit")


def test_a_stream_cannot_choose_c():
    assert not hasattr(SVCCV(solver="norma"), "partial_fit")


def test_wrong_use_is_refused():
    X, y = rows(40)
    model = SVC(solver="norma", gamma=GAMMA)
    with pytest.raises(ValueError, match=r"only one class: 1.0; name all in partial_fit\(X, y, classes="):
        clone(model).partial_fit(X, np.ones(40))
    with pytest.raises(ValueError, match="not among the classes"):
        clone(model).partial_fit(X, y, classes=[0, 1])
    with pytest.raises(ValueError, match="start anew with a clone"):
        clone(model).set_params(tol=1.0).fit(X, y).partial_fit(X, y)
    for change, message in {
        "kernel": "kernel by name",
        "class_weight": "all of the data",
        "probability": "for fit",
    }.items():
        value = {"kernel": "precomputed", "class_weight": "balanced", "probability": True}[change]
        with pytest.raises(ValueError, match=message):
            clone(model).set_params(**{change: value}).partial_fit(X, y)
    model.partial_fit(X, y)
    before = model.dual_coef_.copy()
    with pytest.raises(ValueError, match="not among the classes"):
        model.partial_fit(X, y + 5.0)
    with pytest.raises(ValueError, match="is not the same as in the first call"):
        model.partial_fit(X, y, classes=[-1, 1, 2])
    with pytest.raises(ValueError, match="features"):
        model.partial_fit(X[:, :2], y)
    with pytest.raises(ValueError, match="C has changed since the stream began"):
        model.set_params(C=7.0).partial_fit(X, y)
    np.testing.assert_array_equal(model.dual_coef_, before)
    model.set_params(tol=1.0).fit(X, y)  # anew, as ever
    assert model.certificate_.gap >= 0.0


def test_sparse_parts_may_follow_dense_ones():
    X, y = rows(120, sparse=True)
    model = SVC(solver="norma", C=C, gamma=GAMMA).partial_fit(X[:64].toarray(), y[:64]).partial_fit(X[64:], y[64:])
    other = SVC(solver="norma", C=C, gamma=GAMMA).partial_fit(X[:64], y[:64]).partial_fit(X[64:], y[64:])
    np.testing.assert_allclose(coefficients(model, 120), coefficients(other, 120), rtol=1e-9)
    assert hasattr(model.support_vectors_, "tocsr")
