"""Intervals and chances for a count out of n.

Knows numbers only. Undefined inputs (n = 0) raise `ValueError`: what an absent denominator means
is for the caller to say.
"""

from __future__ import annotations

import operator
from typing import SupportsIndex

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
