"""F1 of two sets of marks, from counts.

Knows arrays only.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from prereg_judge.stats.resample import ratio


def f1(shared: ArrayLike, size_a: ArrayLike, size_b: ArrayLike) -> NDArray[np.float64]:
    """F1 of two labellings: twice what they share, through what both hold.

    Parameters
    ----------
    shared
        Marks that both have, >= 0 and at most either size. Sums over items give micro-F1.
    size_a, size_b
        Marks of either, >= 0. All three have shapes that broadcast.

    Returns
    -------
    ndarray
        F1 in the common shape, 0 to 1; NaN where neither has a mark. It does not matter which of
        the two is called the reference.

    Raises
    ------
    ValueError
        When the shapes do not broadcast.

    Notes
    -----
    Equal fractions give equal numbers, so that ties of whole counts are ties. Marks may lie
    anywhere, so nobody knows how many places both left unmarked, and there is no agreement by
    chance to correct for; as their number grows, kappa tends to F1.
    Source: Hripcsak and Rothschild (2005), doi:10.1197/jamia.M1733.
    """
    both = np.asarray(size_a, dtype=np.float64) + np.asarray(size_b, dtype=np.float64)
    return ratio(2.0 * np.asarray(shared, dtype=np.float64), both)
