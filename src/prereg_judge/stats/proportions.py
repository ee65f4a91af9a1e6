"""Intervals and chances for a count out of n.

Knows numbers only. Undefined inputs (n = 0) raise `ValueError`: what an absent denominator means
is for the caller to say.
"""

from __future__ import annotations

import math
import operator
from typing import SupportsIndex

import numpy as np
from scipy.stats import binom
from statsmodels.stats.proportion import proportion_confint


def _whole(name: str, value: SupportsIndex) -> int:
    if isinstance(value, bool):
        raise ValueError(f"{name} must be a whole number, not {value!r}")
    try:
        return operator.index(value)
    except TypeError:
        raise ValueError(f"{name} must be a whole number, not {value!r}") from None


def _trials(n: SupportsIndex) -> int:
    n = _whole("n", n)
    if n < 1:
        raise ValueError(f"n must be at least 1, not {n}")
    return n


def _check_level(level: float) -> None:
    if not 0.0 < level < 1.0:
        raise ValueError(f"level must lie strictly between 0 and 1, not {level!r}")


def _check_share(p: float) -> None:
    if not 0.0 <= p <= 1.0:
        raise ValueError(f"p must lie between 0 and 1, not {p!r}")


def wilson_interval(k: SupportsIndex, n: SupportsIndex, *, level: float) -> tuple[float, float]:
    """Wilson score interval of a binomial proportion.

    Parameters
    ----------
    k
        Successes, 0 <= k <= n.
    n
        Trials, n >= 1.
    level
        Confidence level, strictly between 0 and 1.

    Returns
    -------
    tuple of float
        Lower and upper limit, 0 <= low <= k / n <= high <= 1.

    Raises
    ------
    ValueError
        When k, n or level is outside its range or not whole. n = 0 has no interval.

    Notes
    -----
    Degenerate cases: k = 0 gives a lower limit of exactly 0, k = n an upper limit of exactly 1;
    the other limit stays away from the estimate, so the interval never collapses.
    Source: Wilson (1927), doi:10.1080/01621459.1927.10502953, computed by statsmodels.
    """
    n = _trials(n)
    k = _whole("k", k)
    if not 0 <= k <= n:
        raise ValueError(f"k must lie between 0 and n = {n}, not {k}")
    _check_level(level)
    low, high = proportion_confint(k, n, alpha=1.0 - level, method="wilson")
    low = 0.0 if k == 0 else max(0.0, float(low))
    high = 1.0 if k == n else min(1.0, float(high))
    return low, high


def wilson_width(n: SupportsIndex, *, p: float, level: float) -> float:
    """Width that the Wilson interval has when the observed share is `p`.

    Parameters
    ----------
    n
        Trials, n >= 1.
    p
        Observed share, 0 <= p <= 1; n p need not be whole.
    level
        Confidence level, strictly between 0 and 1.

    Returns
    -------
    float
        Upper minus lower limit, in (0, 1).

    Raises
    ------
    ValueError
        When n, p or level is outside its range.

    Notes
    -----
    Degenerate cases: at p = 0 and p = 1 the width is that of the one-sided remainder, not 0.
    Source: Wilson (1927), doi:10.1080/01621459.1927.10502953, computed by statsmodels.
    """
    n = _trials(n)
    _check_share(p)
    _check_level(level)
    low, high = proportion_confint(n * p, n, alpha=1.0 - level, method="wilson")
    return min(1.0, float(high)) - max(0.0, float(low))


def binomial_chance_within(n: SupportsIndex, p: float, *, low: float, high: float) -> float:
    """Chance that a binomial count falls between two limits, both included.

    Parameters
    ----------
    n
        Trials, n >= 1.
    p
        Chance of success in each, 0 <= p <= 1.
    low, high
        Limits on the count; minus and plus infinity where there is none. Fractions are rounded
        inward, as no count lies between whole numbers.

    Returns
    -------
    float
        P(low <= X <= high) for X ~ Binomial(n, p), in [0, 1]; 0 when no count lies between.

    Raises
    ------
    ValueError
        When n or p is outside its range, or a limit is not a number.

    Notes
    -----
    Degenerate cases: p = 0 and p = 1 put the whole mass on 0 and n. Each trial is taken as
    independent, which duplicated rows are not. Source: Johnson, Kemp and Kotz (2005), eq. 3.1,
    doi:10.1002/0471715816, computed by scipy.
    """
    n = _trials(n)
    _check_share(p)
    if math.isnan(low) or math.isnan(high):
        raise ValueError("low and high must be numbers")
    first = math.ceil(max(low, 0.0)) if low <= n else n + 1
    last = math.floor(min(high, float(n))) if high >= 0 else -1
    if first > last:
        return 0.0
    # By logarithms: scipy's pmf overflows where p is close to the smallest float.
    return min(1.0, float(np.sum(np.exp(binom.logpmf(np.arange(first, last + 1), n, p)))))
