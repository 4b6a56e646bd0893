"""`measures.py`: values against definitions, most violated labellings against all labellings."""

import itertools

import numpy as np
import pytest
from naive.svmperf import f1_loss, most_violated, precision_loss, recall_loss, roc_risk
from sklearn.metrics import f1_score, roc_auc_score

from maxmargin import losses, measures
from maxmargin.measures import F1, ErrorRate, PrecisionAtK, RecallAtK, ROCArea

COUNTING = [F1(), PrecisionAtK(), PrecisionAtK(2), PrecisionAtK(5), RecallAtK(), RecallAtK(1), RecallAtK(6)]
ALL = [ErrorRate(), *COUNTING, ROCArea()]
every_measure = pytest.mark.parametrize("measure", ALL, ids=repr)


def sample(seed, n=8, n_positive=3, ties=False):
    """Outputs and labels of a few rows; on a coarse grid there are ties."""
    rng = np.random.default_rng(seed)
    z = rng.normal(size=n) * 10.0 ** rng.uniform(-1, 1)
    y = rng.permutation(np.where(np.arange(n) < n_positive, 1.0, -1.0))
    return np.round(2 * z) / 2 if ties else z, y


def risk(measure, z, y, cost):
    p = np.full(len(z), np.nan)
    b = measure.most_violated(z, y, cost, p)
    return b + p @ z


def definition(measure, y):
    """The loss of a labelling as a textbook has it, and which labellings there are."""
    match measure:
        case ErrorRate():
            return (lambda labels, y: np.mean(labels != y)), lambda labels: True
        case F1():
            return f1_loss, lambda labels: True
        case PrecisionAtK(k):
            of_labels, k = precision_loss, k or np.sum(y > 0)
        case RecallAtK(k):
            of_labels, k = recall_loss, k or np.sum(y > 0)
    return of_labels, lambda labels: np.sum(labels > 0) == k


# ---------------------------------------------------------------- the most violated labelling


@pytest.mark.parametrize("measure", [ErrorRate(), *COUNTING], ids=repr)
@pytest.mark.parametrize("n_positive", [1, 3, 6, 8])
@pytest.mark.parametrize("ties", [False, True])
def test_the_most_violated_of_all_labellings_is_found(measure, n_positive, ties):
    for seed in range(6):
        z, y = sample(seed, n_positive=n_positive, ties=ties)
        cost = np.full(8, 0.7)
        labels, slack = most_violated(z, y, cost, *definition(measure, y))
        assert risk(measure, z, y, cost) == pytest.approx(max(slack, 0.0), rel=1e-12, abs=1e-12)
        p = np.empty(8)
        b = measure.most_violated(z, y, cost, p)
        if not ties:  # then it is the only one
            np.testing.assert_allclose(p, -0.5 * cost * (y - labels), atol=1e-15)
            assert b == pytest.approx(cost.sum() * definition(measure, y)[0](labels, y), rel=1e-12, abs=1e-15)


@pytest.mark.parametrize("ties", [False, True])
def test_all_ways_to_swap_pairs(ties):
    rng = np.random.default_rng(0)
    for seed, n_positive in itertools.product(range(4), (1, 3, 6)):
        z, y = sample(seed, n=7, n_positive=n_positive, ties=ties)
        cost = rng.uniform(0.5, 2.0, size=7)
        assert risk(ROCArea(), z, y, cost) == pytest.approx(roc_risk(z, y, cost), rel=1e-12, abs=1e-12)


def test_the_f1_search_on_many_rows():
    """Against all tables of a and b, which are too many labellings to try."""
    for seed, n_positive in itertools.product(range(5), (1, 10, 60, 119)):
        z, y = sample(seed, n=120, n_positive=n_positive)
        missed = np.append(0.0, np.cumsum(-np.sort(z[y > 0])))
        taken = np.append(0.0, np.cumsum(np.sort(z[y < 0])[::-1]))
        a, b = np.meshgrid(np.arange(len(missed)), np.arange(len(taken)), indexing="ij")
        tables = 120 * (1 - 2 * a / (n_positive + a + b)) + missed[n_positive - a] + taken[b]
        assert risk(F1(), z, y, np.ones(120)) == pytest.approx(tables.max(), rel=1e-12)


def test_the_error_rate_is_the_hinge_loss():
    """With costs of all kinds: value and plane."""
    z, y = sample(0, n=50, n_positive=20)
    cost = np.random.default_rng(0).integers(0, 4, size=50).astype(float)
    assert risk(ErrorRate(), z, y, cost) == pytest.approx(np.sum(cost * np.maximum(0, 1 - y * z)), rel=1e-12)
    p = np.empty(50)
    ErrorRate().most_violated(z, y, cost, p)
    np.testing.assert_array_equal(p, [c * losses.derivative(losses.Hinge(), t) * s for c, t, s in zip(cost, y * z, y)])


def test_the_roc_area_is_a_hinge_loss_of_pairs():
    z, y = sample(1, n=60, n_positive=25)
    cost = np.random.default_rng(1).uniform(size=60)
    pos, neg = y > 0, y < 0
    pairs = cost[pos][:, None] * cost[neg][None, :]
    hinge = np.maximum(0, 1 - (z[pos][:, None] - z[neg][None, :]))
    assert risk(ROCArea(), z, y, cost) == pytest.approx(cost.sum() * np.sum(pairs * hinge) / pairs.sum(), rel=1e-12)


@every_measure
def test_no_plane_exceeds_the_risk(measure):
    """Wherever it was made: a plane is below the risk everywhere."""
    rng = np.random.default_rng(0)
    _, y = sample(0, n=40, n_positive=15)
    cost, points = np.full(40, 0.3), [scale * rng.normal(size=40) for scale in (0.0, 0.1, 1.0, 10.0)]
    risks = [risk(measure, z, y, cost) for z in points]
    for z in points:
        p = np.empty(40)
        b = measure.most_violated(z, y, cost, p)
        for other, at_other in zip(points, risks):
            assert b + p @ other <= at_other + 1e-10


def test_planes_of_the_roc_area_belong_to_pairs_where_rounding_decides():
    """Outputs almost exactly one apart: whatever is swapped, it is for both rows, and coefficients sum up to zero."""
    z = np.array([1e16, 1.0, 0.1, 0.3, 1e-17, -0.9, -0.7, 1e16 - 2])
    y = np.array([1.0, 1.0, 1.0, 1.0, -1.0, -1.0, -1.0, -1.0])
    p = np.empty(8)
    b = ROCArea().most_violated(z, y, np.ones(8), p)
    assert p.sum() == 0.0
    assert b == -p[y > 0].sum()


@pytest.mark.parametrize("measure", [ErrorRate(), F1(), PrecisionAtK(), RecallAtK(), ROCArea()], ids=repr)
def test_the_risk_bounds_the_loss(measure):
    """R(w) / S is at least the loss of the outputs."""
    for seed in range(20):
        z, y = sample(seed, n=30, n_positive=10)
        assert measure.loss(z, y) <= risk(measure, z, y, np.ones(30)) / 30 + 1e-12


@every_measure
def test_rows_of_cost_zero_are_not_there(measure):
    z, y = sample(3, n=30, n_positive=12)
    cost = np.where(np.random.default_rng(0).random(30) < 0.6, 0.4, 0.0)
    kept = cost > 0
    p, few = np.empty(30), np.empty(kept.sum())
    b = measure.most_violated(z, y, cost, p)
    assert b == pytest.approx(measure.most_violated(z[kept], y[kept], cost[kept], few), rel=1e-14)
    np.testing.assert_allclose(p[kept], few, rtol=1e-13)
    assert not p[~kept].any()
    assert measure.value(z, y, cost) == pytest.approx(measure.value(z[kept], y[kept]), rel=1e-14)


def test_weights_are_repeated_rows():
    z, y = sample(4, n=30, n_positive=12)
    copies = np.random.default_rng(0).integers(0, 4, size=30)
    for measure in (ErrorRate(), ROCArea()):
        many = np.repeat(z, copies), np.repeat(y, copies)
        assert measure.value(z, y, copies) == pytest.approx(measure.value(*many), rel=1e-12)
        weighted = risk(measure, z, y, copies.astype(float))
        assert weighted == pytest.approx(risk(measure, *many, np.ones(copies.sum())), rel=1e-12)


# ---------------------------------------------------------------- values


@pytest.mark.parametrize("ties", [False, True])
def test_values_are_those_of_scikit_learn(ties):
    for seed in range(10):
        z, y = sample(seed, n=40, n_positive=15, ties=ties)
        assert F1().value(z, y) == pytest.approx(f1_score(y, np.where(z > 0, 1, -1), zero_division=0.0))
        assert ROCArea().value(z, y) == pytest.approx(roc_auc_score(y, z))
        assert ErrorRate().value(z, y) == pytest.approx(np.mean(np.where(z > 0, 1, -1) != y))
        weight = np.random.default_rng(seed).uniform(size=40)
        assert ROCArea().value(z, y, weight) == pytest.approx(roc_auc_score(y, z, sample_weight=weight))


def test_precision_and_recall_of_the_first_rows():
    y = np.array([1.0, -1.0, 1.0, -1.0, 1.0])
    z = np.array([0.9, 0.8, 0.7, 0.6, 0.5])
    assert PrecisionAtK(2).value(z, y) == 0.5
    assert RecallAtK(2).value(z, y) == pytest.approx(1 / 3)
    assert PrecisionAtK().value(z, y) == RecallAtK().value(z, y) == pytest.approx(2 / 3)
    assert PrecisionAtK(3).value(np.zeros(5), y) == pytest.approx(0.6)  # any order: the mean over all
    assert PrecisionAtK(2).value(np.array([1.0, 0.0, 0.0, 0.0, -1.0]), y) == pytest.approx((1 + 1 / 3) / 2)


@every_measure
def test_perfect_outputs_lose_nothing(measure):
    _, y = sample(0)
    k, n_positive = getattr(measure, "k", 0), int((y > 0).sum())
    if k in (0, n_positive):
        assert measure.loss(y, y) == 0.0
    else:  # no labelling of k rows has all positive ones and no other
        first = np.where(np.argsort(np.argsort(-y, kind="stable")) < k, 1.0, -1.0)  # a best one
        least = 1 - min(k, n_positive) / (k if isinstance(measure, PrecisionAtK) else n_positive)
        assert measure.loss(first, y) == pytest.approx(least)
    assert risk(measure, 10 * y, y, np.ones(8)) == 0.0  # the margins of the true labelling are larger than any loss


# ---------------------------------------------------------------- names and errors


def test_names():
    assert [type(measures.get(name)) for name in measures.names()] == [ErrorRate, F1, PrecisionAtK, RecallAtK, ROCArea]
    assert [measures.name_of(measures.get(name)) for name in measures.names()] == measures.names()
    assert measures.get(PrecisionAtK(3)) == measures.get("precision_at_k", 3) == PrecisionAtK(3)
    assert len({measures.get(name) for name in measures.names()}) == 5  # no two are equal
    assert not set(measures.names()) & set(losses.names())


@pytest.mark.parametrize(
    ("measure", "what"),
    [("auc", "unknown measure 'auc'; choose one of error_rate, f1"), (losses.Hinge(), "must be a name")]
    + [(PrecisionAtK(k), "whole number of rows") for k in (-1, 2.5)],
)
def test_what_is_no_measure_is_refused(measure, what):
    with pytest.raises(ValueError, match=what):
        measures.get(measure)


@pytest.mark.parametrize("measure", ["f1", ROCArea(), PrecisionAtK(2)])
def test_a_k_that_does_not_fit_is_refused(measure):
    with pytest.raises(ValueError, match="does not take k=3"):
        measures.get(measure, 3)


def test_rows_without_a_value_are_refused():
    both, positive = np.array([1.0, -1.0, 1.0]), np.ones(3)
    ones, weights = np.ones(3), np.array([1.0, 2.0, 1.0])
    with pytest.raises(ValueError, match="no negative row"):
        ROCArea().check(positive, ones)
    with pytest.raises(ValueError, match="no positive row"):
        ROCArea().check(both, np.array([0.0, 1.0, 0.0]))
    with pytest.raises(ValueError, match="without a positive row"):
        F1().check(-positive, ones)
    with pytest.raises(ValueError, match="weights must be 0 or all the same"):
        F1().check(both, weights)
    with pytest.raises(ValueError, match="needs 4 rows or more, but there are 3"):
        RecallAtK(4).check(both, ones)
    ROCArea().check(both, weights)
    ErrorRate().check(-positive, weights)
