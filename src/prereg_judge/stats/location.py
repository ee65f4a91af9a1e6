"""Intervals for the middle of a sample of measurements.

Knows numbers only. Where the sample carries no interval the functions return None; callers show
the estimate without one.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.stats import binom, t


def _sample(values: Sequence[float], level: float) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    if not 0.0 < level < 1.0:
        raise ValueError(f"level must lie strictly between 0 and 1, not {level!r}")
    flat = [float(v) for v in values]
    sample = np.array(flat, dtype=np.float64)
    if not np.isfinite(sample).all():
        raise ValueError("values must be finite")
    return sample


def median_interval(values: Sequence[float], *, level: float) -> tuple[float, float] | None:
    """Distribution-free interval of the median, between two order statistics.

    Parameters
    ----------
    values
        The sample, shape (n,), any unit, finite.
    level
        Confidence level, strictly between 0 and 1; the coverage is at least this.

    Returns
    -------
    tuple of float or None
        The j-th smallest and j-th largest value, j the largest rank with
        P(Binomial(n, 1/2) < j) <= (1 - level) / 2. None when there is no such rank, that is
        when the sample is too small (n < 6 at 95%).

    Raises
    ------
    ValueError
        When level is outside its range or a value is not finite.

    Notes
    -----
    Degenerate case: with ties the limits may coincide; the coverage still holds.
    Source: David and Nagaraja (2003), Order Statistics, section 7.1, doi:10.1002/0471722162.
    """
    sample = np.sort(_sample(values, level))
    n = len(sample)
    ranks = np.arange(1, n // 2 + 1)
    fits = ranks[binom.cdf(ranks - 1, n, 0.5) <= (1.0 - level) / 2]
    if len(fits) == 0:
        return None
    j = int(fits[-1])
    return float(sample[j - 1]), float(sample[n - j])


def mean_interval(values: Sequence[float], *, level: float) -> tuple[float, float] | None:
    """Student's t interval of the mean.

    Parameters
    ----------
    values
        The sample, shape (n,), any unit, finite.
    level
        Confidence level, strictly between 0 and 1.

    Returns
    -------
    tuple of float or None
        Lower and upper limit, symmetric about the mean. None when n < 2 or when all values are
        equal: such a sample does not say how far the mean may be off, and limits without any
        width would claim that it does.

    Raises
    ------
    ValueError
        When level is outside its range or a value is not finite.

    Notes
    -----
    Source: Student (1908), doi:10.1093/biomet/6.1.1.
    """
    sample = _sample(values, level)
    n = len(sample)
    if n < 2 or sample.min() == sample.max():
        return None
    half = float(t.ppf((1.0 + level) / 2, n - 1)) * float(sample.std(ddof=1)) / float(np.sqrt(n))
    mean = float(sample.mean())
    return mean - half, mean + half
