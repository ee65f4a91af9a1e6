"""P-values from a bootstrap, and their correction for how many there are.

Knows numbers only.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray
from statsmodels.stats.multitest import multipletests

from prereg_judge.stats.resample import MOST_UNDEFINED, ROUNDING


def bootstrap_p(draws: ArrayLike) -> float | None:
    """Two-sided p-value of a statistic against 0, from its values in the resamples.

    Parameters
    ----------
    draws
        The statistic itself in every resample, shape (R,), R >= 1, any unit; NaN where it has no
        value. Not centred: 0 is what it would be if there were nothing to see.

    Returns
    -------
    float or None
        With R defined draws: (1 + draws in the rarer tail) / (R + 1), doubled, at most 1. The
        tails are the draws at or below 0 and those at or above it: a draw of 0 counts in both. None
        when more than 5% of the draws are undefined, and when all defined ones are equal but for
        rounding: they say nothing of how far the statistic may be off.

    Raises
    ------
    ValueError
        When the shape is another, there is no draw, or one is infinite.

    Notes
    -----
    It is at most 5% about where the 95% percentile interval leaves out 0, of which it is the
    inverse. It is never 0: the smallest is 2 / (R + 1). Draws that differ from 0 by rounding only
    count as 0, which can but raise it.
    Source: Efron and Tibshirani (1993), An Introduction to the Bootstrap, section 15.4 (inverting a
    percentile interval: the level of the one that just reaches 0). The added one is as in Davison
    and Hinkley (1997), Bootstrap Methods and their Application, chapter 4.
    """
    found = np.asarray(draws, dtype=np.float64)
    if found.ndim != 1 or len(found) == 0:
        raise ValueError(f"draws must have the shape (R,) with R >= 1, not {found.shape}")
    if np.isinf(found).any():
        raise ValueError("draws must be finite, or NaN where undefined")
    defined = found[~np.isnan(found)]
    if len(found) - len(defined) > MOST_UNDEFINED * len(found):
        return None
    rounding = ROUNDING * float(np.abs(defined).max())
    if defined.max() - defined.min() <= rounding:
        return None
    below, above = int((defined <= rounding).sum()), int((defined >= -rounding).sum())
    return min(1.0, 2.0 * (1 + min(below, above)) / (len(defined) + 1))


def holm(p: Sequence[float]) -> NDArray[np.float64]:
    """P-values corrected for a family of tests by Holm's step-down method.

    Parameters
    ----------
    p
        P-values of the whole family, shape (m,), each in [0, 1]; NaN for a test without one.

    Returns
    -------
    ndarray
        Corrected p-values, shape (m,), in the same order: rejecting where they are at most a
        level keeps the chance of any false rejection in the family at that level, whatever the
        tests have to do with each other. None is below its p, and their order is that of p. A NaN
        stays NaN and counts as 1 for the others: a test that gave nothing was registered too.

    Raises
    ------
    ValueError
        When a p-value is outside [0, 1], or p is no list of numbers.

    Notes
    -----
    Degenerate cases: a family of one is left as it is, an empty one gives an empty array.
    Source: Holm (1979), Scandinavian Journal of Statistics 6, 65-70; computed by statsmodels.
    """
    found = np.asarray(p, dtype=np.float64)
    if found.ndim != 1:
        raise ValueError(f"p must have the shape (m,), not {found.shape}")
    missing = np.isnan(found)
    given = np.where(missing, 1.0, found)
    if ((given < 0) | (given > 1)).any():
        raise ValueError("p-values must lie in [0, 1], or be NaN where undefined")
    if not len(given):
        return found
    corrected = np.asarray(multipletests(given, method="holm")[1], dtype=np.float64)
    return np.asarray(np.where(missing, np.nan, corrected))
