"""Limits of a mean over items most of which give the same value.

A bootstrap over such items sees little of what could be: not at all where they are all alike.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from prereg_judge.stats.proportions import wilson_interval

# Differences between values below this are rounding.
ROUNDING = 1e-12


def sparse_limits(
    values: ArrayLike, *, within: tuple[float, float], level: float
) -> tuple[float, float] | None:
    """Limits of a mean that no interval of it should be inside of.

    Parameters
    ----------
    values
        What each item gives, shape (n,), n >= 1, inside `within`.
    within
        Smallest and largest value that an item can give.
    level
        Confidence level, strictly between 0 and 1.

    Returns
    -------
    tuple of float or None
        With m the most frequent value and u the upper Wilson limit at 0 of n: from
        m - u (m - low) to m + u (high - m). That is what n items which all give m allow: at most
        the share u of all items gives something else, and that may lie anywhere in `within`. At
        either end of the range it is the Wilson interval of 0 or of n. None unless more than
        half of the items give m: else they show themselves how much they vary.

    Notes
    -----
    A percentile interval united with these limits, as long as the mean lies within them, does not
    grow shorter when the first item that differs is seen.
    Source: Wilson (1927), doi:10.1080/01621459.1927.10502953, for u; the rule is ours.
    """
    found = np.sort(np.asarray(values, dtype=np.float64))
    n = len(found)
    if n == 0:
        raise ValueError("there is no value")
    group = np.concatenate([[0], np.cumsum(np.diff(found) > ROUNDING)])
    sizes = np.bincount(group.astype(np.int64))
    if 2 * sizes.max() <= n:
        return None
    mode = float(found[int(sizes[: int(sizes.argmax())].sum())])
    most = wilson_interval(0, n, level=level)[1]
    return mode - most * (mode - within[0]), mode + most * (within[1] - mode)
