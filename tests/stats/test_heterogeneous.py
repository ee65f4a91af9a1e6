"""The Poisson-binomial distribution against counting every outcome, and its central range."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from prereg_judge.stats.heterogeneous import central_range, poisson_binomial

CHANCES = st.lists(st.floats(0, 1), min_size=1, max_size=9)


def by_enumeration(chances: list[float]) -> list[float]:
    """Every combination of successes and failures, one by one."""
    found = [0.0] * (len(chances) + 1)
    for outcome in itertools.product((0, 1), repeat=len(chances)):
        weights = (p if hit else 1 - p for hit, p in zip(outcome, chances, strict=True))
        found[sum(outcome)] += math.prod(weights)
    return found


@given(CHANCES)
def test_the_distribution_is_that_of_every_outcome_counted(chances: list[float]) -> None:
    """Adding trials one by one gives what summing over all 2^n outcomes gives."""
    found = poisson_binomial(chances)
    assert found == pytest.approx(by_enumeration(chances), abs=1e-12)
    assert found.sum() == pytest.approx(1.0, abs=1e-12)


@given(st.integers(1, 400), st.floats(0, 1))
def test_equal_chances_are_the_binomial(n: int, p: float) -> None:
    """With one chance for all trials it is the binomial distribution of scipy."""
    assert poisson_binomial([p] * n) == pytest.approx(
        np.exp(binom.logpmf(np.arange(n + 1), n, p)), abs=1e-9
    )


@given(CHANCES, st.floats(0.5, 0.999))
def test_the_range_holds_its_level_and_no_less_would(chances: list[float], level: float) -> None:
    """Each side beyond the range is rare; a limit further in is not, or would pass the mean."""
    low, high = central_range(chances, level=level)
    pmf = by_enumeration(chances)
    mean, tail = sum(chances), (1 - level) / 2
    assert 0 <= low <= high <= len(chances)
    assert low - 1e-9 <= mean <= high + 1e-9
    assert sum(pmf[:low]) <= tail + 1e-12
    assert sum(pmf[high + 1 :]) <= tail + 1e-12
    assert sum(pmf[: low + 1]) > tail - 1e-12 or low + 1 > mean - 1e-9
    assert sum(pmf[high:]) > tail - 1e-12 or high - 1 < mean + 1e-9


def test_worked_by_hand() -> None:
    """Two coins, one fair and one always heads, give one or two heads, half each."""
    assert poisson_binomial([0.5, 1.0]).tolist() == [0.0, 0.5, 0.5]
    assert central_range([0.5, 1.0], level=0.95) == (1, 2)
    assert central_range([1.0, 1.0, 0.0], level=0.95) == (2, 2)
    # 0.999^10 = 0.990: ten of ten, but 9.99 are expected, so the range reaches to 9.
    assert central_range([0.999] * 10, level=0.95) == (9, 10)


@pytest.mark.parametrize(
    ("chances", "level"), [([], 0.95), ([1.1], 0.95), ([math.nan], 0.95), ([0.5], 1.0)]
)
def test_bad_input_is_refused(chances: list[float], level: float) -> None:
    """No trial, a chance that is none and a level of 1 raise."""
    with pytest.raises(ValueError, match="must"):
        central_range(chances, level=level)
