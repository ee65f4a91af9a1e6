"""Chances of outcomes: exact fractions, enumeration and simulation agree; edges are exact."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar
from scipy.stats import binom, binomtest

from prereg_judge.stats.chances import (
    BestInside,
    Chances,
    best_inside,
    binomial_pmf,
    nearest_count,
    outcome_chances,
    share_with_limit,
    wilson_limits,
)
from prereg_judge.stats.proportions import wilson_interval

# scipy's own pmf, which is compared with, overflows close to the smallest float.
CHANCES = st.floats(0.0, 1.0).filter(lambda p: p == 0.0 or p > 1e-290)
SIZES = st.integers(1, 120)


def exact(n: int, p: Fraction, low: int, high: int) -> Fraction:
    """P(low <= X <= high) in whole numbers."""
    return sum(
        (math.comb(n, k) * p**k * (1 - p) ** (n - k) for k in range(low, high + 1)), Fraction(0)
    )


@pytest.mark.parametrize(
    ("n", "p", "low", "high"),
    [
        (72, Fraction(63, 72), 58, 68),
        (72, Fraction(59, 72), 53, 65),
        (188, Fraction(9, 10), 160, 175),
        (4, Fraction(1, 2), 1, 3),
        (1, Fraction(1, 3), 1, 1),
    ],
)
def test_a_band_of_counts_has_the_chances_of_exact_fractions(
    n: int, p: Fraction, low: int, high: int
) -> None:
    """Below, inside and above agree with sums in whole numbers to twelve digits."""
    found = outcome_chances(range(n + 1), float(p), low=low, high=high)
    want = (exact(n, p, 0, low - 1), exact(n, p, low, high), exact(n, p, high + 1, n))
    got = (found.below, found.inside, found.above)
    assert got == pytest.approx([float(x) for x in want], rel=1e-11)


def test_the_well_known_band_of_seventy_two_rows() -> None:
    """58 to 68 of 72 with 63 expected: 95.3% inside, by exact fractions."""
    found = outcome_chances(range(73), 63 / 72, low=58, high=68)
    assert (f"{found.below:.6f}", f"{found.inside:.6f}", f"{found.above:.6f}") == (
        "0.031198", "0.952955", "0.015846",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("n", "p", "want"),
    [
        (0, 0.3, [1.0]),
        (3, 0.0, [1.0, 0.0, 0.0, 0.0]),
        (3, 1.0, [0.0, 0.0, 0.0, 1.0]),
        (2, 5e-324, [1.0, 1e-323, 0.0]),
    ],
)
def test_certain_rows_and_no_rows_at_all(n: int, p: float, want: list[float]) -> None:
    """All of it lies on one count, without a warning of scipy's."""
    assert binomial_pmf(n, p) == pytest.approx(want, abs=1e-300)


def test_without_a_row_the_one_value_decides() -> None:
    """n = 0: a count of 0 is inside a band from 0 and below one from 1."""
    assert outcome_chances([0.0], 0.5, low=0.0) == Chances(0.0, 1.0, 0.0)
    assert outcome_chances([0.0], 0.5, low=1.0) == Chances(1.0, 0.0, 0.0)


@given(n=st.integers(0, 120), p=CHANCES, a=st.integers(-2, 122), b=st.integers(-2, 122))
def test_chances_sum_to_one(n: int, p: float, a: int, b: int) -> None:
    """Whatever the limits are, something happens."""
    found = outcome_chances(range(n + 1), p, low=min(a, b), high=max(a, b))
    assert math.fsum((found.below, found.inside, found.above)) == pytest.approx(1.0, abs=1e-12)


@given(n=SIZES, p=CHANCES, a=st.integers(0, 120), b=st.integers(0, 120))
def test_successes_and_failures_can_be_exchanged(n: int, p: float, a: int, b: int) -> None:
    """Limits mirrored at n, with 1 - p, exchange below and above."""
    low, high = sorted((min(a, n), min(b, n)))
    one = outcome_chances(range(n + 1), p, low=low, high=high)
    other = outcome_chances(range(n + 1), 1.0 - p, low=n - high, high=n - low)
    assert (one.below, one.inside, one.above) == pytest.approx(
        (other.above, other.inside, other.below), abs=1e-9
    )


@given(n=SIZES, p=CHANCES, k=st.integers(0, 120), low_open=st.booleans(), high_open=st.booleans())
def test_an_open_limit_leaves_its_own_count_out(
    n: int, p: float, k: int, low_open: bool, high_open: bool
) -> None:
    """What lies on an open limit is below or above, as a plain loop says."""
    low, high = k / 2, float(k)
    found = outcome_chances(
        range(n + 1), p, low=low, high=high, low_open=low_open, high_open=high_open
    )
    pmf = binom.pmf(np.arange(n + 1), n, p)
    below = sum(pmf[j] for j in range(n + 1) if j < low or (low_open and j == low))
    above = sum(
        pmf[j]
        for j in range(n + 1)
        if (j > high or (high_open and j == high)) and not (j < low or (low_open and j == low))
    )
    assert (found.below, found.above) == pytest.approx((below, above), abs=1e-9)


def test_an_open_interval_without_width_is_below_once() -> None:
    """What lies on a limit that is open on both sides counts once, as below."""
    found = outcome_chances(range(3), 0.5, low=1, high=1, low_open=True, high_open=True)
    assert found == Chances(0.75, 0.0, 0.25)


@pytest.mark.parametrize("n", [1, 2, 7, 11, 72, 143, 1000])
def test_of_two_counts_that_are_equally_near_the_even_one_is_taken(n: int) -> None:
    """Shares of k + 1/2 rows are no floats, and still are ties; what is beside them is none."""
    for k in range(n):
        even = k + k % 2
        assert nearest_count((k + 0.5) / n, n) == even
        assert nearest_count((k + 0.5) * (1 / n), n) == even
        assert nearest_count((k + 0.4999) / n, n) == k
        assert nearest_count((k + 0.5001) / n, n) == k + 1


def test_the_nearest_count_of_many_numbers() -> None:
    """One share, many n; none of no rows; a share outside its range is refused."""
    assert nearest_count(0.5, [0, 1, 2, 3, 5]).tolist() == [0, 0, 1, 2, 2]
    with pytest.raises(ValueError, match="p must lie between"):
        nearest_count(1.1, 3)


@given(n=SIZES, p=CHANCES, bar=CHANCES, side=st.sampled_from([0, 1]))
def test_limits_of_intervals_are_enumerated(n: int, p: float, bar: float, side: int) -> None:
    """The chance that a limit reaches a bar is the sum over counts whose interval does."""
    found = outcome_chances(wilson_limits(range(n + 1), n, level=0.95)[side], p, low=bar)
    want = sum(
        binom.pmf(k, n, p) for k in range(n + 1) if wilson_interval(k, n, level=0.95)[side] >= bar
    )
    assert found.inside == pytest.approx(float(want), abs=1e-9)


def test_a_simulation_does_not_contradict_the_chance() -> None:
    """Of 20 000 simulated runs as many have a lower limit above 0.7 as the chance says."""
    n, p, runs = 72, 0.82, 20_000
    limits = wilson_limits(range(n + 1), n, level=0.95)[0]
    chance = outcome_chances(limits, p, low=0.7).inside
    counts = (np.random.default_rng(4).random((runs, n)) < p).sum(axis=1)
    hits = int((limits[counts] >= 0.7).sum())
    assert 0.05 < chance < 0.95
    assert binomtest(hits, runs, chance).pvalue > 1e-4


@pytest.mark.parametrize("n", [1, 2, 7, 72, 188, 1000])
def test_many_limits_at_once_are_those_of_the_scorer(n: int) -> None:
    """Each limit equals `wilson_interval` to the last digit, so that no outcome can differ."""
    low, high = wilson_limits(range(n + 1), n, level=0.95)
    assert [(a, b) for a, b in zip(low, high, strict=True)] == [
        wilson_interval(k, n, level=0.95) for k in range(n + 1)
    ]


@given(n=SIZES, data=st.data(), side=st.sampled_from(["low", "high"]))
def test_a_limit_leads_back_to_its_share(n: int, data: st.DataObject, side: str) -> None:
    """The share whose interval has a limit is the share that the limit was made of."""
    k = data.draw(st.integers(0, n))
    limit = wilson_interval(k, n, level=0.95)[side == "high"]
    back = share_with_limit(limit, n, side="low" if side == "low" else "high", level=0.95)
    assert back == pytest.approx(k / n, abs=1e-7)


@given(n=SIZES, a=st.integers(0, 120), b=st.integers(0, 120))
def test_no_true_value_does_better_than_the_best(n: int, a: int, b: int) -> None:
    """On a fine grid of true values none has a larger chance, and the stated one reaches it."""
    low, high = sorted((min(a, n), min(b, n)))
    best = best_inside(n, low=low, high=high)
    grid = np.linspace(0.0, 1.0, 501)
    chances = np.asarray(binom.cdf(high, n, grid) - binom.cdf(low - 1, n, grid))
    assert best.p is not None
    assert best.chance >= chances.max() - 1e-9
    at = outcome_chances(range(n + 1), best.p, low=low, high=high)
    assert at.inside == pytest.approx(best.chance, abs=1e-12)


def test_the_best_value_is_what_a_search_finds() -> None:
    """58 to 68 of 72: the closed form and a numeric search give one value."""
    best = best_inside(72, low=58, high=68)
    found = minimize_scalar(
        lambda p: float(binom.cdf(57, 72, p) - binom.cdf(68, 72, p)),
        bounds=(0.5, 1.0), method="bounded", options={"xatol": 1e-10},
    )  # fmt: skip
    assert best.p == pytest.approx(float(found.x), abs=1e-6)
    assert best.chance == pytest.approx(-float(found.fun), abs=1e-12)


def test_bands_at_the_edges_and_bands_without_a_count() -> None:
    """A band from 0 or to n can be certain; one between two whole numbers holds nothing."""
    assert best_inside(10, low=-3, high=4) == BestInside(1.0, 0.0)
    assert best_inside(10, low=7, high=math.inf) == BestInside(1.0, 1.0)
    assert best_inside(10, low=4.2, high=4.8) == BestInside(0.0, None)
    assert best_inside(10, low=11, high=12) == BestInside(0.0, None)
    assert best_inside(10, low=-2, high=-1) == BestInside(0.0, None)


def test_what_is_out_of_range_is_refused() -> None:
    """Each argument outside its range raises, and says which."""
    with pytest.raises(ValueError, match="n must not be negative"):
        binomial_pmf(-1, 0.5)
    for p in (-0.1, 1.1, math.nan):
        with pytest.raises(ValueError, match="p must lie between"):
            binomial_pmf(3, p)
    with pytest.raises(ValueError, match="low first"):
        outcome_chances([0, 1], 0.5, low=2, high=1)
    with pytest.raises(ValueError, match="low first"):
        outcome_chances([0, 1], 0.5, low=math.nan)
    with pytest.raises(ValueError, match="at least one value"):
        outcome_chances([], 0.5)
    with pytest.raises(ValueError, match="counts must lie"):
        wilson_limits([0, 3], 2, level=0.95)
    with pytest.raises(ValueError, match="level"):
        wilson_limits([0], 2, level=1.0)
    with pytest.raises(ValueError, match="limit must lie"):
        share_with_limit(1.2, 5, side="low", level=0.95)
    with pytest.raises(ValueError, match="n must be at least 1"):
        best_inside(0, low=0, high=0)
    with pytest.raises(ValueError, match="must be numbers"):
        best_inside(3, low=math.nan, high=0)
