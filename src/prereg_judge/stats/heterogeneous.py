"""Counts of successes in trials whose chances differ: the Poisson-binomial distribution.

Knows numbers only.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


def poisson_binomial(chances: Sequence[float]) -> NDArray[np.float64]:
    """Distribution of the number of successes in independent trials with these chances.

    Parameters
    ----------
    chances
        Chance of success in each trial, shape (n,), each in [0, 1].

    Returns
    -------
    NDArray
        Shape (n + 1,): the probability of 0, 1, ..., n successes. It sums to 1 but for rounding.

    Raises
    ------
    ValueError
        When a chance is no number from 0 to 1.

    Notes
    -----
    Degenerate cases: without a trial all of it lies on 0; chances of 0 and 1 shift it. Made by
    adding one trial after the other, all terms positive, so nothing cancels; the time goes with
    the square of n. Source: Hong (2013), On computing the distribution function for the Poisson
    binomial distribution, doi:10.1016/j.csda.2012.10.006, section 2.
    """
    p = np.array([float(c) for c in chances], dtype=np.float64)
    if not bool(((p >= 0.0) & (p <= 1.0)).all()):
        raise ValueError("chances must lie between 0 and 1")
    pmf = np.zeros(len(p) + 1)
    pmf[0] = 1.0
    for n, chance in enumerate(p, start=1):
        pmf[1 : n + 1] = pmf[1 : n + 1] * (1.0 - chance) + pmf[:n] * chance
        pmf[0] *= 1.0 - chance
    return pmf


def central_range(chances: Sequence[float], *, level: float) -> tuple[int, int]:
    """Where the number of successes falls in all but the rarest cases, both limits included.

    Parameters
    ----------
    chances
        Chance of success in each trial, shape (n,), n >= 1, each in [0, 1].
    level
        Probability that the range holds at least, strictly between 0 and 1.

    Returns
    -------
    tuple of int
        The largest `low` and smallest `high` with P(X < low) <= (1 - level) / 2 and
        P(X > high) <= (1 - level) / 2 for which low <= E(X) <= high.

    Raises
    ------
    ValueError
        When there is no trial, or a value is outside its range.

    Notes
    -----
    Where nearly all of the probability lies on one count, the expected value can lie beside it;
    the range then reaches to the next whole number. Degenerate case: chances of 0 and 1 alone
    give a range without width, as the count is then certain.
    """
    if not 0.0 < level < 1.0:
        raise ValueError(f"level must lie strictly between 0 and 1, not {level!r}")
    if not len(chances):
        raise ValueError("there must be at least one trial")
    pmf = poisson_binomial(chances)
    tail = (1.0 - level) / 2
    low = int(np.searchsorted(np.cumsum(pmf), tail, side="right"))
    high = len(pmf) - 1 - int(np.searchsorted(np.cumsum(pmf[::-1]), tail, side="right"))
    mean = math.fsum(chances)
    return min(low, math.floor(mean)), max(high, math.ceil(mean))
