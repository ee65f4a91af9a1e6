"""Chances that a board changes its order: published figures, and simulation against arithmetic.

Published figures are from "Whose Gold? Annotator-Pool Disagreement", its section on displacement.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import multivariate_normal, norm

from prereg_judge.stats.displacement import (
    any_swap_if_independent,
    any_swap_jointly,
    evenly_spread,
    swap_probability,
)

SPAN, DIFFERENCE_SD, SHIFT_SD = 20.1, 2.64, 1.87
OWN_GAPS = (11.1, 2.9, 2.8, 0.8, 2.5)
GAPS = st.lists(st.floats(0, 20), min_size=1, max_size=12)


def test_published_chance_of_one_swap() -> None:
    """Whose Gold: 0.8 pp apart swap with probability 0.38; 5% at 4.3 pp, 1.645 SD of 2.6 pp."""
    assert swap_probability(0.8, sd=2.6) == pytest.approx(0.38, abs=0.005)
    assert swap_probability(4.3, sd=2.6) == pytest.approx(0.05, abs=0.001)
    assert norm.isf(0.05) * 2.6 == pytest.approx(4.3, abs=0.05)


@pytest.mark.parametrize(
    ("models", "expected", "digits"), [(6, 0.28, 2), (10, 0.86, 2), (20, 0.9997, 4), (50, 1.0, 9)]
)
def test_published_chances_by_independent_pairs(models: int, expected: float, digits: int) -> None:
    """Whose Gold: K models over 20.1 pp, pairs as if independent: 0.28, 0.86, 0.9997, about 1."""
    gaps = -np.diff(evenly_spread(SPAN, models=models))
    assert round(any_swap_if_independent(list(gaps), sd=DIFFERENCE_SD), digits) == expected


@pytest.mark.parametrize(("models", "expected"), [(6, 0.29), (10, 0.92), (20, 1.00)])
def test_published_chances_by_joint_simulation(models: int, expected: float) -> None:
    """Whose Gold, simulated jointly: more than by pairs, about 0.29, 0.92 and 1.00."""
    board = evenly_spread(SPAN, models=models)
    found = any_swap_jointly(board, shift_sd=SHIFT_SD, simulations=100_000, seed=1)
    assert found.probability == pytest.approx(expected, abs=0.005)
    assert found.low <= found.probability <= found.high
    assert found.low > any_swap_if_independent(list(-np.diff(board)), sd=DIFFERENCE_SD)


def test_unequal_gaps_are_not_hidden() -> None:
    """Whose Gold's own gaps give about 0.7 jointly, not the 0.28 of gaps that are all alike."""
    board = np.cumsum((0.0, *OWN_GAPS))
    found = any_swap_jointly(board, shift_sd=SHIFT_SD, simulations=100_000, seed=1)
    assert found.probability == pytest.approx(0.7, abs=0.01)
    by_pairs = any_swap_if_independent(OWN_GAPS, sd=DIFFERENCE_SD)
    assert by_pairs == pytest.approx(0.62, abs=0.005)


def test_the_simulation_is_the_integral() -> None:
    """Three models: one minus the normal probability that both gaps stay, within its own limits."""
    gaps, sd = np.array([1.0, 2.0]), 1.5
    covariance = sd**2 * np.array([[2.0, -1.0], [-1.0, 2.0]])
    exact = 1.0 - multivariate_normal(np.zeros(2), covariance).cdf(gaps)
    found = any_swap_jointly([3.0, 0.0, 2.0], shift_sd=sd, simulations=400_000, seed=3)
    width = found.high - found.low
    assert width < 0.004
    assert found.probability == pytest.approx(exact, abs=1.5 * width)


@given(st.floats(0, 50), st.floats(0.01, 50))
def test_one_pair_is_the_same_by_every_route(gap: float, sd: float) -> None:
    """With two models the chance by pairs is that of the swap itself, Phi(-gap / sd)."""
    swap = swap_probability(gap, sd=sd)
    assert swap == pytest.approx(norm.cdf(-gap / sd), abs=1e-15)
    assert any_swap_if_independent([gap], sd=sd) == pytest.approx(swap, abs=1e-15)


@given(GAPS, st.floats(0.1, 10))
def test_more_pairs_are_more_chances(gaps: list[float], sd: float) -> None:
    """1 - prod(1 - p): at least the largest p, at most their sum, whatever the order of gaps."""
    each = [swap_probability(gap, sd=sd) for gap in gaps]
    found = any_swap_if_independent(gaps, sd=sd)
    assert max(each) - 1e-12 <= found <= min(1.0, sum(each)) + 1e-12
    assert found == pytest.approx(1 - np.prod([1 - p for p in each]), abs=1e-12)
    assert any_swap_if_independent(gaps[::-1], sd=sd) == pytest.approx(found, abs=1e-12)


def test_small_chances_are_not_lost() -> None:
    """Two chances of about 1e-23 give their sum, where 1 - prod(1 - p) would give 0."""
    p = swap_probability(10.0, sd=1.0)
    assert any_swap_if_independent([10.0, 10.0], sd=1.0) == pytest.approx(2 * p, rel=1e-12)


def test_nothing_moves_without_shifts() -> None:
    """A standard deviation of 0 gives probability 0 by every route, also between equal models."""
    assert swap_probability(0.0, sd=0.0) == 0.0
    assert any_swap_if_independent([0.0, 1.0], sd=0.0) == 0.0
    still = any_swap_jointly([1.0, 1.0, 0.0], shift_sd=0.0, simulations=100, seed=0)
    assert (still.probability, still.low) == (0.0, 0.0)
    assert still.high > 0.0


def test_equal_models_swap_half_of_the_time() -> None:
    """A gap of 0 is 0.5 by arithmetic and, within its limits, by simulation."""
    assert swap_probability(0.0, sd=1.0) == 0.5
    found = any_swap_jointly([1.0, 1.0], shift_sd=1.0, simulations=50_000, seed=5)
    assert found.probability == pytest.approx(0.5, abs=0.01)


def test_the_seed_decides() -> None:
    """The same seed gives the same share, another one another."""
    one, same, other = (
        any_swap_jointly([1.0, 0.0], shift_sd=1.0, simulations=9_999, seed=seed)
        for seed in (1, 1, 2)
    )
    assert one == same
    assert one.probability != other.probability


@given(st.floats(0, 1e6), st.integers(2, 60))
def test_even_boards_have_even_gaps(span: float, models: int) -> None:
    """From span down to 0 in equal steps."""
    board = evenly_spread(span, models=models)
    assert (board[0], board[-1], len(board)) == (span, 0.0, models)
    np.testing.assert_allclose(-np.diff(board), span / (models - 1), atol=1e-9 * max(span, 1))


def test_what_has_no_chance_is_refused() -> None:
    """Negative or infinite distances, no pair, one model and no simulation raise ValueError."""
    with pytest.raises(ValueError, match="gap must"):
        swap_probability(-0.1, sd=1.0)
    with pytest.raises(ValueError, match="sd must"):
        swap_probability(1.0, sd=float("nan"))
    with pytest.raises(ValueError, match="gaps must"):
        any_swap_if_independent([], sd=1.0)
    for scores in ([1.0], [], [[1.0, 2.0]], [1.0, np.inf]):
        with pytest.raises(ValueError, match="scores must"):
            any_swap_jointly(scores, shift_sd=1.0, simulations=10, seed=0)
    with pytest.raises(ValueError, match="shift_sd must"):
        any_swap_jointly([1.0, 2.0], shift_sd=-1.0, simulations=10, seed=0)
    with pytest.raises(ValueError, match="simulations must"):
        any_swap_jointly([1.0, 2.0], shift_sd=1.0, simulations=0, seed=0)
    with pytest.raises(ValueError, match="models must"):
        evenly_spread(1.0, models=1)
    with pytest.raises(ValueError, match="span must"):
        evenly_spread(-1.0, models=3)
