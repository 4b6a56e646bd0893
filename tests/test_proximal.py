"""`proximal.py`: after every step, lazy weights are those that a naive version has changed one by one."""

import numpy as np
import pytest
import samples
from hypothesis import given, settings
from hypothesis import strategies as st
from naive.folos import prox as naive_prox

from maxmargin import penalties
from maxmargin._jit import compiled_lean
from maxmargin.data.rows import as_rows
from maxmargin.solvers.stochastic.proximal import (
    add_pending,
    applied,
    apply_pending,
    lazy_weights,
    proximal_add,
    proximal_dot,
)

every_penalty = pytest.mark.parametrize("name", penalties.names())


@compiled_lean
def step(penalty, rows, i, c, x, norm2, eta, is_paid):
    """One step as a solver makes it; w'x_i before it."""
    z = proximal_dot(penalty, rows, i, x)
    if c != 0.0:
        proximal_add(penalty, rows, i, c, x, z, norm2)
    add_pending(x, eta)
    if is_paid:
        apply_pending(penalty, x)
    return z


@every_penalty
@pytest.mark.parametrize("make", [np.asarray, samples.csr], ids=["dense", "csr"])
@pytest.mark.parametrize("bias", [0.0, 0.5])
@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), every=st.sampled_from([1, 1, 3, 7]), size=st.sampled_from([0.01, 0.3, 3.0]))
def test_every_step_is_that_of_a_naive_version(name, make, bias, seed, every, size):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(8, 6)) * (rng.random((8, 6)) < 0.4)
    rows, norms2 = as_rows(make(X), bias)
    full = np.column_stack([X, np.full(8, bias)]) if bias else X
    w = rng.normal(size=full.shape[1])
    x, pending = lazy_weights(penalties.get(name), w), 0.0
    for k in range(40):
        i, c, eta = int(rng.integers(8)), rng.normal() * (rng.random() < 0.8), size * rng.random()
        z = step(penalties.get(name), rows, i, c, x, norms2[i], eta, (k + 1) % every == 0)
        assert z == pytest.approx(full[i] @ w, rel=1e-7, abs=1e-9)
        w, pending = w + c * full[i], pending + eta
        np.testing.assert_allclose(applied(penalties.get(name), x), naive_prox(name, w, pending), rtol=1e-7, atol=1e-9)
        if (k + 1) % every == 0:
            w, pending = naive_prox(name, w, pending), 0.0


def test_an_untouched_weight_is_drawn_to_zero_exactly():
    """Its thresholds add up over many steps that never look at it; then it is zero, not almost."""
    rows, norms2 = as_rows(np.array([[1.0, 0.0]]))
    x = lazy_weights(penalties.L1(), np.array([0.0, 1.0]))
    for _ in range(11):
        step(penalties.L1(), rows, 0, 0.5, x, norms2[0], 0.1, True)
    assert applied(penalties.L1(), x)[1] == 0.0
    assert applied(penalties.L1(), x)[0] == pytest.approx(11 * 0.4)


def test_a_vector_that_a_norm_has_made_zero_can_grow_again():
    rows, norms2 = as_rows(np.array([[3.0, 4.0]]))
    x = lazy_weights(penalties.get("l2_norm"), np.array([0.1, -0.1]))
    step(penalties.get("l2_norm"), rows, 0, 0.0, x, norms2[0], 1.0, True)
    np.testing.assert_array_equal(applied(penalties.get("l2_norm"), x), [0.0, 0.0])
    step(penalties.get("l2_norm"), rows, 0, 1.0, x, norms2[0], 1.0, True)
    np.testing.assert_allclose(applied(penalties.get("l2_norm"), x), [2.4, 3.2], rtol=1e-14)


def test_thousands_of_decays_do_not_underflow():
    rows, norms2 = as_rows(np.array([[1.0, 1.0]]))
    x, w = lazy_weights(penalties.get("l2"), np.ones(2)), np.ones(2)
    for _ in range(3000):
        step(penalties.get("l2"), rows, 0, 1.0, x, norms2[0], 1.0, True)
        w = (w + 1.0) / 2.0
    np.testing.assert_allclose(applied(penalties.get("l2"), x), w, rtol=1e-12)
