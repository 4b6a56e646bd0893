"""The merge problem: against brute force in feature space, lemma 1's claims, tables against golden section search."""

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from maxmargin._jit import JIT_DISABLED
from maxmargin.solvers.budget import merging
from maxmargin.solvers.budget.merging import (
    GoldenSection,
    LookupH,
    LookupWD,
    MergeTables,
    lookup,
    merge_position,
    merge_ratio,
)

GRID = 60 if JIT_DISABLED else merging.GRID
E2 = np.exp(-2.0)

shares = st.floats(1e-3, 0.5)
kernel_values = st.floats(0.0, 1.0, exclude_max=True)


@pytest.fixture(scope="module")
def made():
    return merging.tables(GRID)


def s(m, kappa, h):
    return m * kappa ** ((1 - h) ** 2) + (1 - m) * kappa ** (h**2)


def true_h(m, kappa):
    """The root of s' in [0, 1/2], by bisection: s' has the sign of m (1-h) kappa^((1-h)^2) - (1-m) h kappa^(h^2)."""
    m, kappa = np.broadcast_arrays(np.asarray(m, np.longdouble), np.asarray(kappa, np.longdouble))
    low, high = np.zeros_like(m), np.full_like(m, 0.5)
    for _ in range(70):
        middle = (low + high) / 2
        rises = m * (1 - middle) * kappa ** ((1 - middle) ** 2) > (1 - m) * middle * kappa ** (middle**2)
        low, high = np.where(rises, middle, low), np.where(rises, high, middle)
    return (low + high) / 2


def true_degradation(m, kappa, h):
    """Straight from the definition; long doubles bear the cancellation."""
    m, kappa, h = (np.asarray(x, np.longdouble) for x in (m, kappa, h))
    return m**2 + (1 - m) ** 2 + 2 * m * (1 - m) * kappa - s(m, kappa, h) ** 2


# ---------------------------------------------------------------- the problem itself


def test_merged_vector_is_the_nearest_of_the_feature_space():
    """Brute force over z in the plane and a_z: nothing is nearer to a_i phi(x_i) + a_j phi(x_j) than what h gives."""
    rng = np.random.default_rng(0)

    def rbf(x, z):
        return np.exp(-0.7 * np.sum((x - z) ** 2, axis=-1))

    def distance2(pair, z, a_z):
        (x_i, x_j), (a_i, a_j) = pair
        squared = a_i**2 + a_j**2 + 2 * a_i * a_j * rbf(x_i, x_j)
        return squared + a_z**2 - 2 * a_z * (a_i * rbf(x_i, z) + a_j * rbf(x_j, z))

    for _ in range(20):
        pair = rng.normal(size=(2, 2)) * 0.8, np.sort(rng.random(2) + 0.05)
        (x_i, x_j), (a_i, a_j) = pair
        kappa, m = rbf(x_i, x_j), a_i / (a_i + a_j)
        h = merging.golden_section(m, kappa, merging.PRECISE)
        z = h * x_i + (1 - h) * x_j
        k_i, k_j = merging.kernel_values_at(kappa, h)
        assert (k_i, k_j) == pytest.approx((rbf(x_i, z), rbf(x_j, z)), rel=1e-12)
        loss = (a_i + a_j) ** 2 * merging.degradation(m, kappa, h)
        a_z = a_i * k_i + a_j * k_j
        assert loss == pytest.approx(distance2(pair, z, a_z), rel=1e-9, abs=1e-13)
        anywhere = z + rng.normal(size=(3000, 2)) * np.repeat([1.0, 0.1, 0.01], 1000)[:, None]
        best_a = a_i * rbf(x_i, anywhere) + a_j * rbf(x_j, anywhere)
        assert np.min(distance2(pair, anywhere, best_a)) >= loss - 1e-13
        assert distance2(pair, z, 1.01 * a_z) > loss
        assert distance2(pair, z, 0.99 * a_z) > loss


@given(shares, st.floats(1e-6, 1.0, exclude_max=True), st.sampled_from([1e-2, 1e-4, 1e-6]))
def test_golden_section_search_finds_the_maximum_to_its_precision(m, kappa, precision):
    flat = 3e-8 / np.sqrt(m * -np.log(kappa) + 1e-30)  # where s does not change by its rounding error
    assert abs(merging.golden_section(m, kappa, precision) - true_h(m, kappa)) <= precision + flat


@given(st.floats(0.01, 0.5), st.floats(1e-6, 1.0 - 1e-9), st.floats(0.0, 0.5))
def test_degradation_has_no_cancellation(m, kappa, h):
    exact = float(true_degradation(m, kappa, h))
    assert merging.degradation(m, kappa, h) == pytest.approx(exact, rel=1e-6, abs=1e-17)


@pytest.mark.parametrize("kappa", [0.0, 1e-320, 1.0])
def test_ends_of_kappa(kappa, made):
    """Nothing in common: the smaller one is removed. The same vector twice: nothing is lost."""
    m = 0.25
    h = merging.golden_section(m, kappa, merging.PRECISE)
    loss = merging.degradation(m, kappa, h)
    assert loss == pytest.approx(0.0 if kappa == 1.0 else m**2, abs=1e-9)
    assert merging.kernel_values_at(kappa, 0.0)[1] == 1.0
    for search in (LookupWD(made), LookupH(made), GoldenSection(1e-5)):
        assert merge_ratio(search, m, kappa) == pytest.approx(loss / m**2, abs=1e-3)
        assert 0.0 <= merge_position(search, m, kappa) <= 0.5


# ---------------------------------------------------------------- lemma 1


def test_h_jumps_at_one_half_for_small_kappa_and_only_there():
    step = 1e-7
    for kappa in np.linspace(0.005, 0.995, 60):
        below, above = merging.merge_functions([0.5 - step, 0.5 + step], [kappa, kappa], GRID)[0]
        if kappa < 0.9 * E2:
            assert above - below > 0.1  # discontinuous on Z
        elif kappa > 1.1 * E2:
            assert above - below < 0.02  # continuous outside of it
    at_zero = merging.merge_functions([0.5 - step, 0.5 + step], [0.0, 0.0], GRID)[0]
    np.testing.assert_allclose(at_zero, [0.0, 1.0], atol=1e-3)


def test_two_modes_at_one_half_below_e_to_the_minus_two():
    """The second derivative of s at (1/2, 1/2) is positive if and only if kappa < e^-2."""
    for kappa in (0.5 * E2, 0.99 * E2, 1.01 * E2, 2.0 * E2):
        curvature = s(0.5, kappa, 0.5 + 1e-4) + s(0.5, kappa, 0.5 - 1e-4) - 2 * s(0.5, kappa, 0.5)
        assert (curvature > 0.0) == (kappa < E2)
        h = merging.golden_section(0.5, kappa, merging.PRECISE)
        assert (h < 0.5 - 1e-3) == (kappa < E2)
    assert pytest.approx(E2) == merging.TWO_MODES


def test_degradation_is_continuous_everywhere():
    rng = np.random.default_rng(0)
    m, kappa = rng.random(400), rng.random(400)
    m[:200] = 0.5  # on Z and its continuation
    for d_m, d_kappa in ((1e-6, 0.0), (-1e-6, 0.0), (0.0, 1e-6)):
        here = merging.merge_functions(m, kappa, GRID)[1]
        there = merging.merge_functions(np.clip(m + d_m, 0, 1), np.clip(kappa + d_kappa, 0, 1), GRID)[1]
        assert np.max(np.abs(here - there)) < 1e-5


def test_both_are_smooth_for_large_kappa():
    """Finite differences of true values: their derivatives exist, and change little over a small step."""
    m, kappa = np.meshgrid(np.linspace(0.02, 0.48, 24), np.linspace(E2 + 0.05, 0.98, 24))
    for d_m, d_kappa in ((1e-4, 0.0), (0.0, 1e-4)):
        points = [(m + k * d_m, kappa + k * d_kappa) for k in (-1, 0, 1)]
        hs = [true_h(*p) for p in points]
        losses = [true_degradation(*p, h) for p, h in zip(points, hs)]
        for values in (hs, losses):
            second = np.abs(values[0] - 2 * values[1] + values[2])
            assert np.max(second) < 5e-6  # a kink would leave a difference of the order of the step


@given(shares, kernel_values)
def test_both_are_symmetric(m, kappa):
    h, loss = merging.merge_functions([m, 1.0 - m], [kappa, kappa], GRID)
    assert loss[0] == pytest.approx(loss[1], rel=1e-9, abs=1e-15)
    if m < 0.499:
        assert h[0] == pytest.approx(1.0 - h[1], abs=1e-6)
        assert s(m, max(kappa, 1e-9), h[0]) >= s(m, max(kappa, 1e-9), 1.0 - h[0]) - 1e-9  # the dominant mode


# ---------------------------------------------------------------- the tables


@pytest.mark.parametrize("lowest", [0.0, 0.9, 0.999, 0.9999999])
def test_looked_up_degradation_is_right_to_a_small_factor_everywhere(made, lowest):
    rng = np.random.default_rng(1)
    m, kappa = 0.5 * (1.0 - rng.random(300)), lowest + (1.0 - lowest) * rng.random(300)
    h = true_h(m, kappa)
    exact = np.array([merging.degradation(*p) for p in zip(m, kappa, h.astype(float))]) / m**2
    np.testing.assert_allclose([merge_ratio(LookupWD(made), *p) for p in zip(m, kappa)], exact, rtol=0.03 * (60 / GRID))
    by_h = [merge_ratio(LookupH(made), *p) for p in zip(m, kappa)]
    assert np.all(np.array(by_h) >= exact * (1 - 1e-6))
    np.testing.assert_allclose(by_h, exact, rtol=0.03 * (60 / GRID) ** 2)


def test_a_finer_grid_is_more_accurate():
    m, kappa = np.random.default_rng(2).random((2, 200)) * [[0.5], [1.0]]
    exact = np.array(true_degradation(m, kappa, true_h(m, kappa)), float) / m**2
    errors = []
    for grid in (10, 40, 160):
        found = np.array([merge_ratio(LookupWD(merging.tables(grid)), *p) for p in zip(m, kappa)])
        errors.append(np.max(np.abs(found - exact)))
    assert errors[0] > 4 * errors[1] > 16 * errors[2]
    assert merging.tables(2).h.shape == (2, 2)
    with pytest.raises(ValueError, match="at least 2 points a side, got 1"):
        merging.tables(1)


def test_points_of_the_grid_are_what_golden_section_search_finds(made):
    for i, j in [(0, 5), (GRID // 3, GRID // 2), (GRID - 1, GRID // 20), (GRID - 1, GRID - 2)]:
        m, kappa = 0.5 * i / (GRID - 1), j / (GRID - 1)
        assert lookup(made.h, m, kappa) == pytest.approx(float(true_h(m, kappa)), abs=2e-7)
        assert made.h[i, j] == pytest.approx(merging.golden_section(m, kappa, 1e-10), abs=1e-9)
    assert not made.h.flags.writeable
    assert merging.tables(GRID) is merging.tables(GRID)


def test_lookup_is_bilinear():
    table = np.add.outer([0.0, 1.0, 2.0], [0.0, 10.0, 20.0])
    for m, kappa in [(0.0, 0.0), (0.5, 1.0), (0.25, 0.5), (0.1, 0.7), (0.5, 0.0)]:
        assert lookup(table, m, kappa) == pytest.approx(4.0 * m + 20.0 * kappa)


@given(shares, st.floats(0.0, 0.9999))
def test_bound_rules_out_only_what_is_worse(m, kappa):
    """No pair with a smaller kappa, whatever its m, loses less: what lets the search skip most partners."""
    ratio = float(true_degradation(m, kappa, true_h(m, kappa))) / m**2
    threshold = merging.closest_needed(ratio)
    assert threshold <= kappa + 1e-9
    if threshold > 0.0:
        others = np.linspace(1e-3, 0.5, 40)
        less = threshold * (1 - 1e-6)
        assert np.min(true_degradation(others, less, true_h(others, less)) / others**2) >= ratio * (1 - 1e-5)


def test_ratio_falls_with_m_and_with_kappa(made):
    """What the bound above rests on."""
    ratio = made.ratio * (1.0 - np.linspace(0.0, 1.0, GRID)) ** 2
    assert np.max(np.diff(ratio, axis=0)) < 1e-9
    assert np.max(np.diff(ratio, axis=1)) < 0.0


def test_at_one_half_the_lesser_of_two_values():
    h, _ = merging.merge_functions([0.5, 0.5, 0.3, 0.7], [0.05, 0.9, 0.2, 0.2], GRID)
    assert h[0] < 0.2
    assert h[1] == pytest.approx(0.5, abs=1e-3)
    assert h[2] + h[3] == pytest.approx(1.0, abs=1e-12)


def test_bad_arguments_are_refused():
    with pytest.raises(ValueError, match="at least 2 points"):
        merging.tables(1)
    with pytest.raises(ValueError, match=r"must lie in \[0, 1\]"):
        merging.merge_functions([0.5], [1.5], GRID)
    with pytest.raises(TypeError, match="not a way to merge"):
        merge_ratio(MergeTables(np.eye(2), np.eye(2)), 0.1, 0.1)


def test_plot_has_both_surfaces(tmp_path):
    pytest.importorskip("matplotlib")
    figure = merging.plot_tables(GRID, points=21)
    assert [axes.get_title() for axes in figure.axes] == ["h(m, κ)", "log₁₀ WD(m, κ)"]
    figure.savefig(tmp_path / "figure.png")
    assert (tmp_path / "figure.png").stat().st_size > 10_000


def test_matplotlib_is_not_needed_for_anything_else():
    program = "import sys, maxmargin.solvers.budget.merging; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], timeout=60).returncode == 0


@pytest.mark.parametrize("m", [0.01, 0.3, 0.5])
def test_a_partner_at_infinity_is_left_as_it_is(m):
    """A kernel value of 0 stands for any small number: the coarse h of "gss" must not cost the partner its weight."""
    h = merging.golden_section(m, 0.0, 0.01)
    at_p, at_j = merging.kernel_values_at(0.0, h)
    assert at_p < 1e-30
    assert at_j > 0.995
