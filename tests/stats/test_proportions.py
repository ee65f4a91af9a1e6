"""Proportions and locations: two implementations agree, edges are exact, bad input is refused."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest, norm, ttest_1samp
from statsmodels.stats.proportion import proportion_confint

from prereg_judge.stats.location import mean_interval, median_interval
from prereg_judge.stats.proportions import wilson_interval


def wilson_by_hand(k: float, n: int, level: float) -> tuple[float, float]:
    """Wilson (1927) as the roots of (p - k/n)^2 = z^2 p (1 - p) / n, without statsmodels."""
    z2 = norm.isf((1 - level) / 2) ** 2
    a, b, c = n + z2, -(2 * k + z2), k * k / n
    root = math.sqrt(max(0.0, b * b - 4 * a * c))
    return (-b - root) / (2 * a), (-b + root) / (2 * a)


COUNTS = st.integers(1, 2000).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n)))
LEVELS = st.floats(0.5, 0.999)


@given(COUNTS, LEVELS)
def test_wilson_agrees_with_two_other_implementations(kn: tuple[int, int], level: float) -> None:
    """The limits are those of statsmodels and of the quadratic equation solved here."""
    k, n = kn
    found = wilson_interval(k, n, level=level)
    assert found == pytest.approx(wilson_by_hand(k, n, level), abs=1e-7)
    assert found == pytest.approx(proportion_confint(k, n, 1 - level, "wilson"), abs=1e-12)
    exact = binomtest(k, n).proportion_ci(level, method="wilson")
    assert found == pytest.approx((exact.low, exact.high), abs=1e-9)


@given(COUNTS, LEVELS)
def test_wilson_contains_the_estimate_and_is_symmetric(kn: tuple[int, int], level: float) -> None:
    """0 <= low <= k/n <= high <= 1, and swapping success for failure mirrors the limits."""
    k, n = kn
    low, high = wilson_interval(k, n, level=level)
    assert 0.0 <= low <= k / n <= high <= 1.0
    assert low < high
    mirrored = wilson_interval(n - k, n, level=level)
    assert (1 - mirrored[1], 1 - mirrored[0]) == pytest.approx((low, high), abs=1e-9)


@given(st.integers(1, 5000), LEVELS)
def test_wilson_is_exact_at_the_edges(n: int, level: float) -> None:
    """No row gives a lower limit of exactly 0, every row an upper limit of exactly 1."""
    assert wilson_interval(0, n, level=level)[0] == 0.0
    assert wilson_interval(n, n, level=level)[1] == 1.0


@pytest.mark.parametrize(
    ("k", "n", "level"),
    [
        (0, 0, 0.95),
        (-1, 5, 0.95),
        (6, 5, 0.95),
        (1.0, 5, 0.95),
        (1, 5.5, 0.95),
        (True, 5, 0.95),
        (1, 5, 0.0),
        (1, 5, 1.0),
        (1, 5, 95),
        (1, 5, math.nan),
    ],
)
def test_wilson_refuses_what_has_no_interval(k: int, n: int, level: float) -> None:
    """n = 0, counts outside 0..n, counts that are not whole and odd levels raise ValueError."""
    with pytest.raises(ValueError, match="must"):
        wilson_interval(k, n, level=level)


def test_wilson_takes_numpy_integers() -> None:
    """Counts out of an array need no conversion."""
    assert wilson_interval(np.int64(3), np.int32(9), level=0.95) == wilson_interval(
        3, 9, level=0.95
    )


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=80))
def test_median_interval_contains_the_median_and_covers(values: list[float]) -> None:
    """Both limits are observed values around the median; the next rank inward covers too little."""
    found = median_interval(values, level=0.95)
    n, ordered = len(values), sorted(values)
    if n < 6:
        assert found is None
        return
    assert found is not None
    assert found[0] <= float(np.median(values)) <= found[1]

    def outside(rank: int) -> float:
        return float(sum(math.comb(n, x) for x in range(rank)) / 2.0**n)

    rank = max(j for j in range(1, n + 1) if outside(j) <= 0.025)
    assert found == (ordered[rank - 1], ordered[n - rank])


def test_mean_interval() -> None:
    """The mean's interval is scipy's t interval, and is absent without spread or a second value."""
    values = [1.0, 2.5, 3.0, 7.25]
    exact = ttest_1samp(values, 0.0).confidence_interval(0.95)
    assert mean_interval(values, level=0.95) == pytest.approx((exact.low, exact.high))
    assert mean_interval([1.0], level=0.95) is None
    assert mean_interval([], level=0.95) is None
    assert mean_interval([2.0, 2.0, 2.0], level=0.95) is None


@pytest.mark.parametrize("values", [[1.0, math.nan], [math.inf, 1.0]])
def test_locations_refuse_what_is_not_finite(values: list[float]) -> None:
    """A value that is not finite raises rather than spreading."""
    with pytest.raises(ValueError, match="finite"):
        median_interval(values, level=0.95)
    with pytest.raises(ValueError, match="finite"):
        mean_interval(values, level=0.95)
    with pytest.raises(ValueError, match="level"):
        mean_interval([1.0, 2.0], level=1.0)
