"""`losses.py`: losses against their definitions, conjugates against suprema, slacks against exact fractions."""

from fractions import Fraction

import naive
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from maxmargin import losses
from maxmargin._jit import compiled
from maxmargin.losses import (
    QUADRATIC_DUAL,
    EpsilonInsensitive,
    Hinge,
    Huber,
    Logistic,
    SquaredEpsilonInsensitive,
    SquaredError,
    SquaredHinge,
)

LOSSES = [
    Hinge(),
    SquaredHinge(),
    Huber(0.5),
    Huber(2.0),
    Logistic(),
    SquaredError(),
    EpsilonInsensitive(0.1),
    EpsilonInsensitive(0.0),
    SquaredEpsilonInsensitive(0.3),
]
KINKED = (Hinge, EpsilonInsensitive)

every_loss = pytest.mark.parametrize("loss", LOSSES, ids=repr)
numbers = st.floats(-20, 20)
shares = st.floats(0, 1)
costs = st.floats(1e-3, 1e3)


def inside_domain(loss, share):
    """A u at which the conjugate is finite."""
    lowest, highest = np.clip(naive.conjugate_domain(loss), -10.0, 10.0)
    return float(lowest + share * (highest - lowest))


# ---------------------------------------------------------------- value, derivative, conjugate


@every_loss
@given(t=numbers)
def test_value_is_the_textbook_formula(loss, t):
    assert losses.value(loss, t) == pytest.approx(naive.phi(loss, t), rel=1e-14, abs=1e-14)


@every_loss
@given(t=numbers, s=numbers, share=shares)
def test_value_is_convex_and_not_negative(loss, t, s, share):
    between = losses.value(loss, share * t + (1 - share) * s)
    chord = share * losses.value(loss, t) + (1 - share) * losses.value(loss, s)
    assert 0.0 <= between <= chord + 1e-12 * (1 + chord)


@every_loss
@given(t=numbers)
def test_derivative_is_the_limit_of_differences(loss, t):
    h = 1e-6
    if all(abs(t - kink) > 2 * h for kink in naive.kinks(loss)):
        difference = (losses.value(loss, t + h) - losses.value(loss, t - h)) / (2 * h)
        assert losses.derivative(loss, t) == pytest.approx(difference, rel=1e-7, abs=1e-7)


@every_loss
@given(t=numbers, s=numbers)
def test_derivative_is_a_subgradient_even_at_kinks(loss, t, s):
    for point in [t, *naive.kinks(loss)]:
        below = losses.value(loss, point) + losses.derivative(loss, point) * (s - point)
        assert losses.value(loss, s) >= below - 1e-12 * (1 + abs(below))


@every_loss
@given(share=shares)
def test_conjugate_is_the_supremum(loss, share):
    u = inside_domain(loss, share)
    # Every loss is steep enough outside of this grid; its kinks are on it, where the supremum of a kinked loss is.
    t = np.concatenate([np.linspace(-60, 60, 24_001), naive.kinks(loss)])
    supremum = np.max(u * t - naive.phi(loss, t))
    assert losses.conjugate(loss, u) == pytest.approx(supremum, abs=1e-4)
    assert losses.conjugate(loss, u) == pytest.approx(naive.conjugate(loss, u), rel=1e-14, abs=1e-14)


@every_loss
def test_conjugate_is_infinite_outside_its_domain(loss):
    for end, outward in zip(naive.conjugate_domain(loss), (-np.inf, np.inf)):
        if np.isfinite(end):
            assert np.isfinite(losses.conjugate(loss, end))
            assert losses.conjugate(loss, np.nextafter(end, outward)) == np.inf


@every_loss
@given(t=numbers, share=shares)
def test_fenchel_young_inequality(loss, t, share):
    u = inside_domain(loss, share)
    assert losses.value(loss, t) + losses.conjugate(loss, u) >= u * t - 1e-12 * (1 + abs(u * t))


@every_loss
@given(t=numbers)
def test_fenchel_young_equality_at_the_derivative(loss, t):
    for point in [t, *naive.kinks(loss)]:
        u = losses.derivative(loss, point)
        both = losses.value(loss, point) + losses.conjugate(loss, u)
        assert both == pytest.approx(u * point, rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("loss", [loss for loss in LOSSES if isinstance(loss, QUADRATIC_DUAL)], ids=repr)
@given(share=shares)
def test_dual_form_is_the_conjugate(loss, share):
    form, a = losses.dual_form(loss), -inside_domain(loss, share)
    assert (-form.upper, -form.lower) == naive.conjugate_domain(loss)
    expected = 0.5 * form.curvature * a**2 - form.linear * a + form.epsilon * abs(a)
    assert naive.conjugate(loss, -a) == pytest.approx(expected, rel=1e-14, abs=1e-14)


def test_extreme_arguments_stay_finite():
    for loss in LOSSES:
        for t in (-1e3, 1e3):
            assert np.isfinite(losses.value(loss, t))
            assert np.isfinite(losses.derivative(loss, t))
    assert losses.derivative(Logistic(), -1e3) == -1.0
    assert losses.derivative(Logistic(), 700.0) == pytest.approx(-np.exp(-700.0), rel=1e-12)
    assert losses.value(Logistic(), 700.0) == pytest.approx(np.exp(-700.0), rel=1e-12)


# ---------------------------------------------------------------- the argument


@every_loss
@given(z=numbers, y=st.sampled_from([-1.0, 1.0]) | numbers)
def test_argument_is_sign_times_output_minus_target(loss, z, y):
    if losses.is_margin_loss(loss):
        y = 1.0 if y > 0 else -1.0
    t = losses.argument(loss, z, y)
    assert t == naive.argument(loss, z, y)
    assert t == losses.sign(loss, y) * z - losses.target(loss, y)


# ---------------------------------------------------------------- slack


@every_loss
@given(t=numbers, share=shares, cost=costs)
def test_slack_is_its_definition_and_not_negative(loss, t, share, cost):
    alpha = -cost * inside_domain(loss, share)
    terms = [cost * naive.phi(loss, t), cost * naive.conjugate(loss, -alpha / cost), alpha * t]
    slack = losses.slack(loss, t, alpha, cost)
    assert slack >= 0.0
    assert slack == pytest.approx(sum(terms), rel=1e-9, abs=1e-13 * np.abs(terms).sum())


@every_loss
@given(t=numbers, cost=costs)
def test_slack_is_zero_at_the_derivative(loss, t, cost):
    alpha = -cost * losses.derivative(loss, t)
    # Rounding of alpha enters squared, or not at all where the conjugate is linear.
    assert losses.slack(loss, t, alpha, cost) <= 1e-15 * cost * (1e-12 * (1 + t * t) if loss != Logistic() else 1.0)


def exact_slack(loss, t, alpha, cost):
    """The definition in fractions: no rounding at all."""
    t, a, cost = Fraction(t), Fraction(alpha) / Fraction(cost), Fraction(cost)
    parameter = Fraction(loss[0]) if loss else None
    violation, excess = max(0, 1 - t), max(0, abs(t) - (parameter or 0))
    match loss:
        case Hinge():
            both = violation - a
        case SquaredHinge():
            both = violation**2 + a**2 / 4 - a
        case Huber():
            value = violation**2 / (2 * parameter) if violation < parameter else violation - parameter / 2
            both = value + parameter * a**2 / 2 - a
        case SquaredError():
            both = t**2 + a**2 / 4
        case EpsilonInsensitive():
            both = excess + parameter * abs(a)
        case SquaredEpsilonInsensitive():
            both = excess**2 + a**2 / 4 + parameter * abs(a)
    return cost * (both + a * t)


@pytest.mark.parametrize("loss", [loss for loss in LOSSES if isinstance(loss, QUADRATIC_DUAL)], ids=repr)
def test_slack_keeps_its_digits_where_a_difference_loses_them(loss):
    """Next to the optimum: alpha, or for kinked losses t, is off by a part in 1e9."""
    rng = np.random.default_rng(0)
    kinks = naive.kinks(loss)
    worst_slack, worst_difference = 0.0, 0.0
    for _ in range(300):
        cost = float(rng.choice([1.0, 1000.0]) * (1 + rng.random()))
        if isinstance(loss, KINKED):
            t = float(rng.choice(kinks)) + 1e-9 * rng.normal()
            alpha = cost * rng.random() * (np.sign(-t) if isinstance(loss, EpsilonInsensitive) else 1.0)
        else:
            t = float(rng.uniform(-2.0, 1.0))
            alpha = -cost * losses.derivative(loss, t) * (1 - 1e-9 * (1 + rng.random()))
        exact = exact_slack(loss, t, alpha, cost)
        if exact == 0:
            assert losses.slack(loss, t, alpha, cost) == 0.0
            continue
        difference = cost * (naive.phi(loss, t) + naive.conjugate(loss, -alpha / cost)) + alpha * t
        worst_slack = max(worst_slack, abs(float(Fraction(losses.slack(loss, t, alpha, cost)) / exact - 1)))
        worst_difference = max(worst_difference, abs(float(Fraction(float(difference)) / exact - 1)))
    assert worst_slack < 1e-5
    if loss != EpsilonInsensitive(0.0):  # where the kink is at zero, there is nothing to lose
        assert worst_difference > 100 * worst_slack


# ---------------------------------------------------------------- compiled = interpreted


@compiled
def _compiled(loss, t, u, y, cost, out):
    out[0] = losses.value(loss, t)
    out[1] = losses.derivative(loss, t)
    out[2] = losses.conjugate(loss, u)
    out[3] = losses.slack(loss, t, -cost * u, cost)
    out[4] = losses.argument(loss, t, y)
    out[5] = losses.sign(loss, y)
    out[6] = losses.target(loss, y)


@pytest.mark.parametrize("name", losses.names())
def test_compiled_is_interpreted(name):
    loss = losses.get(name)
    rng = np.random.default_rng(0)
    interpreted = getattr(_compiled, "py_func", _compiled)
    for _ in range(200):
        arguments = float(4 * rng.normal()), inside_domain(loss, rng.random()), float(rng.choice([-1.0, 1.0])), 2.5
        numbers = np.empty((2, 7))
        _compiled(loss, *arguments, numbers[0])
        interpreted(loss, *arguments, numbers[1])
        np.testing.assert_allclose(numbers[0], numbers[1], rtol=1e-12, atol=1e-13)


# ---------------------------------------------------------------- names and checks


def test_names_lead_to_losses_and_back():
    assert [losses.get(name).__class__ for name in losses.names()] == list(losses.ALL)
    for name in losses.names():
        loss = losses.get(name)
        assert losses.name_of(loss) == name
        assert losses.get(loss) == loss
        assert losses.is_margin_loss(loss) == isinstance(loss, naive.CLASSIFICATION)


@pytest.mark.parametrize("wrong", ["hinges", "", None, 3, Hinge, (0.5,)])
def test_unknown_losses_are_refused_with_the_choices(wrong):
    with pytest.raises(ValueError, match="squared_hinge"):
        losses.get(wrong)


@pytest.mark.parametrize("wrong", [Huber(0.0), Huber(-1.0), Huber(np.inf), EpsilonInsensitive(-0.1), Huber(np.nan)])
def test_impossible_parameters_are_refused(wrong):
    with pytest.raises(ValueError, match="must be finite"):
        losses.get(wrong)


def test_parameters_become_floats():
    assert losses.get(EpsilonInsensitive(1)) == EpsilonInsensitive(1.0)
    assert isinstance(losses.get(EpsilonInsensitive(1)).epsilon, float)


def test_functions_refuse_what_is_no_loss():
    for function, arguments in ((losses.value, (0.0,)), (losses.slack, (0.0, 0.0, 1.0)), (losses.sign, (1.0,))):
        with pytest.raises(TypeError, match="not a loss"):
            function("hinge", *arguments)
