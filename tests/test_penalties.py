"""`penalties.py`: values and dual norms by their definitions, proximal operators by what they minimise."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from naive.folos import norm
from naive.folos import prox as naive_prox

from maxmargin import penalties

every_penalty = pytest.mark.parametrize("name", penalties.names())
every_norm = pytest.mark.parametrize("name", ["l1", "l2_norm", "linf"])
vectors = st.lists(st.floats(-10, 10) | st.sampled_from([0.0, 1.0, -1.0]), min_size=1, max_size=6).map(np.array)
steps = st.floats(0, 20)


@every_penalty
@given(w=vectors)
def test_values_are_those_of_the_definition(name, w):
    assert penalties.value(penalties.get(name), w) == pytest.approx(norm(name, w), rel=1e-12, abs=1e-300)


@every_norm
@given(w=vectors, v=vectors)
def test_a_dual_norm_bounds_inner_products_and_is_attained(name, w, v):
    n = min(len(w), len(v))
    w, v = w[:n], v[:n]
    bound = penalties.value(penalties.get(name), w) * penalties.dual_norm(penalties.get(name), v)
    assert w @ v <= bound * (1 + 1e-12) + 1e-12
    best = {"l1": np.sign(v) * (np.arange(n) == np.argmax(np.abs(v))), "l2_norm": v, "linf": np.sign(v)}[name]
    attained = penalties.value(penalties.get(name), best) * penalties.dual_norm(penalties.get(name), v)
    assert best @ v == pytest.approx(attained, rel=1e-12, abs=1e-12)


@every_penalty
@settings(max_examples=60)
@given(v=vectors, step=steps, seed=st.integers(0, 2**32 - 1))
def test_prox_minimises(name, v, step, seed):
    """No point has a lower 1/2 |w - v|^2 + step R(w), near or far; that function is strongly convex."""

    def objective(w):
        return 0.5 * np.sum((w - v) ** 2) + step * norm(name, w)

    w, rng = penalties.prox(penalties.get(name), v, step), np.random.default_rng(seed)
    np.testing.assert_allclose(w, naive_prox(name, v, step), rtol=1e-9, atol=1e-9)
    for size in (1e-4, 1e-2, 1.0):
        other = w + size * rng.normal(size=len(v))
        assert objective(other) >= objective(w) + 0.5 * np.sum((other - w) ** 2) - 1e-9 * (1 + objective(w))


@every_norm
@given(v=vectors, step=steps)
def test_prox_takes_away_the_projection_onto_the_dual_ball(name, v, step):
    """Moreau: what prox takes away has a dual norm of `step`, or v is taken away whole."""
    w = penalties.prox(penalties.get(name), v, step)
    taken = penalties.dual_norm(penalties.get(name), v - w)
    assert taken <= step * (1 + 1e-9) + 1e-12
    if np.any(w):
        assert taken == pytest.approx(step, rel=1e-9, abs=1e-9)


@every_penalty
@given(w=vectors, v=vectors)
def test_the_share_of_the_gap_is_that_of_fenchel_and_young(name, w, v):
    n = min(len(w), len(v))
    w, v = w[:n], v[:n]
    v = v / penalties.infeasibility(penalties.get(name), v)
    share = penalties.conjugate_gap(penalties.get(name), w, v)
    conjugate = 0.5 * v @ v if name == "l2" else 0.0
    assert share == pytest.approx(penalties.value(penalties.get(name), w) + conjugate - w @ v, rel=1e-9, abs=1e-9)
    assert share >= -1e-12


def test_the_share_of_the_gap_has_digits_near_zero():
    """v is almost the unit vector of w: |w| - w'v is 5e-19, which the plain difference would not show."""
    w = np.array([3.0, 4.0])
    v = np.array([0.6, 0.8]) + 1e-10 * np.array([0.8, -0.6])
    v /= np.linalg.norm(v)
    assert penalties.conjugate_gap(penalties.get("l2_norm"), w, v) == pytest.approx(5 * 0.5e-20, rel=0.1, abs=2e-15)
    assert penalties.conjugate_gap(penalties.get("linf"), np.array([2.0, -2.0]), np.array([0.3, -0.7])) == 0.0
    assert penalties.conjugate_gap(penalties.get("l2_norm"), np.zeros(2), np.array([0.3, 0.4])) == 0.0


def test_zero_stays_zero():
    for penalty in map(penalties.get, penalties.names()):
        assert penalties.value(penalty, np.zeros(0)) == penalties.value(penalty, np.zeros(3)) == 0.0
        np.testing.assert_array_equal(penalties.prox(penalty, np.zeros(3), 1.0), np.zeros(3))
        np.testing.assert_array_equal(penalties.prox(penalty, np.array([1.0, -2.0]), 0.0), [1.0, -2.0])
    assert penalties.infeasibility(penalties.get("l2"), np.full(3, 9.0)) == 1.0


def test_unknown_names_are_refused():
    with pytest.raises(ValueError, match="unknown penalty 'l3'; choose one of l2, l1, l2_norm, linf"):
        penalties.value(penalties.get("l3"), np.zeros(2))
    with pytest.raises(ValueError, match="'l2' is not a norm"):
        penalties.dual_norm(penalties.get("l2"), np.zeros(2))
