"""What a count out of n can come to before it is taken: chances by enumeration.

Knows numbers only. Chances are exact sums over the binomial distribution, never a normal
approximation. Rows are independent and have one common chance.
"""

from __future__ import annotations

import math
import operator
from dataclasses import dataclass
from typing import Literal, SupportsIndex

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit, gammaln
from scipy.stats import binom, norm
from statsmodels.stats.proportion import proportion_confint

Floats = NDArray[np.float64]


def binomial_pmf(n: SupportsIndex, p: float) -> Floats:
    """Chance of each count in n independent trials of one chance.

    Parameters
    ----------
    n
        Trials, n >= 0.
    p
        Chance of success in each, 0 <= p <= 1.

    Returns
    -------
    NDArray
        Shape (n + 1,): the chances of 0, 1, ..., n. They sum to 1.

    Raises
    ------
    ValueError
        When n or p is outside its range.

    Notes
    -----
    Degenerate cases: n = 0 puts all on the count 0; p = 0 and p = 1 on 0 and on n.
    Source: Johnson, Kemp and Kotz (2005), eq. 3.1, doi:10.1002/0471715816, computed by scipy.
    """
    size = operator.index(n)
    if size < 0:
        raise ValueError(f"n must not be negative, not {size}")
    check_chance("p", p)
    # By logarithms: scipy's pmf overflows where p is close to the smallest float.
    pmf = np.exp(binom.logpmf(np.arange(size + 1), size, p))
    return np.asarray(pmf / pmf.sum(), dtype=np.float64)


def wilson_limits(counts: ArrayLike, n: ArrayLike, *, level: float) -> tuple[Floats, Floats]:
    """`wilson_interval` of many counts at once, to the last digit.

    Parameters
    ----------
    counts
        Whole numbers from 0 to n, shape (m,).
    n
        Trials, n >= 1: one number, or one for each count.
    level
        Confidence level, strictly between 0 and 1.

    Returns
    -------
    tuple of NDArray
        Lower and upper limits as shares, each of shape (m,).

    Raises
    ------
    ValueError
        When a count or n is outside its range.

    Notes
    -----
    Degenerate cases: a count of 0 has a lower limit of exactly 0, one of n an upper limit of
    exactly 1. Source: Wilson (1927), doi:10.1080/01621459.1927.10502953, by statsmodels.
    """
    k, size = np.broadcast_arrays(np.asarray(counts, np.int64), np.asarray(n, np.int64))
    check_level("level", level)
    if (size < 1).any() or (k < 0).any() or (k > size).any():
        raise ValueError("counts must lie between 0 and n, and n be at least 1")
    low, high = proportion_confint(k, size, alpha=1.0 - level, method="wilson")
    return (
        np.where(k == 0, 0.0, np.maximum(low, 0.0)),
        np.where(k == size, 1.0, np.minimum(high, 1.0)),
    )


def share_with_limit(limit: float, n: int, *, side: Literal["low", "high"], level: float) -> float:
    """Observed share whose Wilson interval has this limit.

    Parameters
    ----------
    limit
        Lower (`side` "low") or upper ("high") limit, 0 to 1.
    n
        Trials, n >= 1.
    side, level
        Which limit, and the level of the interval, strictly between 0 and 1.

    Returns
    -------
    float
        The share, in [0, 1]; times n it need not be whole.

    Raises
    ------
    ValueError
        When a value is outside its range.

    Notes
    -----
    The limits of Wilson's interval solve (share - limit)^2 = z^2 limit (1 - limit) / n.
    Degenerate case: a limit that no share has (an upper one near 0) gives the nearest, 0 or 1.
    Source: Wilson (1927), doi:10.1080/01621459.1927.10502953.
    """
    check_chance("limit", limit)
    check_level("level", level)
    if n < 1:
        raise ValueError(f"n must be at least 1, not {n}")
    away = normal_quantile(level) * math.sqrt(limit * (1.0 - limit) / n)
    return min(1.0, max(0.0, limit + (away if side == "low" else -away)))


def nearest_count(p: float, n: ArrayLike) -> NDArray[np.int64]:
    """The count nearest to p n; of two that are equally near, the even one.

    Parameters
    ----------
    p
        Share, 0 <= p <= 1.
    n
        Trials, n >= 0: one number, or many.

    Returns
    -------
    NDArray
        Whole numbers from 0 to n, shape as `n`.

    Raises
    ------
    ValueError
        When p is outside its range.

    Notes
    -----
    A share such as 7.5 / 11 is no float, so that p n misses the middle by a few last digits: what
    is within eight of them counts as the middle. Degenerate case: n = 0 gives 0.
    """
    check_chance("p", p)
    exact = p * np.asarray(n, np.float64)
    middle = np.floor(exact) + 0.5
    near = np.abs(exact - middle) <= 8 * np.finfo(np.float64).eps * exact
    return np.asarray(np.rint(np.where(near, middle, exact)), dtype=np.int64)


@dataclass(frozen=True)
class Chances:
    """Chances that a value falls below its limits, within them, above them; they sum to 1."""

    below: float
    inside: float
    above: float


def outcome_chances(
    values: ArrayLike,
    p: float,
    *,
    low: float = -math.inf,
    high: float = math.inf,
    low_open: bool = False,
    high_open: bool = False,
) -> Chances:
    """Chances that what is compared falls below, within and above two limits.

    Parameters
    ----------
    values
        What is compared when 0, 1, ..., n rows succeed, shape (n + 1,): the counts themselves,
        shares, or limits of an interval (`wilson_limits`).
    p
        Chance of success in each of the n rows, 0 <= p <= 1.
    low, high
        Limits, low <= high; infinite where there is none.
    low_open, high_open
        Whether the limit itself is outside.

    Returns
    -------
    Chances
        By enumerating every count; nothing is approximated.

    Raises
    ------
    ValueError
        When there is no value, p is outside its range, or the limits are reversed or no numbers.

    Notes
    -----
    Degenerate cases: p = 0 and p = 1 make one outcome certain; with n = 0 the one value decides.
    """
    compared = np.asarray(values, dtype=np.float64)
    if not compared.size:
        raise ValueError("there must be at least one value")
    if not low <= high:
        raise ValueError(f"the limits must be numbers, low first, not {low!r} and {high!r}")
    pmf = binomial_pmf(compared.size - 1, p)
    below = compared <= low if low_open else compared < low
    above = compared >= high if high_open else compared > high
    above &= ~below  # an open interval without width: what is on it counts once
    inside = ~(below | above)
    return Chances(*(min(1.0, float(pmf[where].sum())) for where in (below, inside, above)))


@dataclass(frozen=True)
class BestInside:
    """Largest chance of a count inside a band, and the true chance of a row that gives it."""

    chance: float
    p: float | None


def best_inside(n: int, *, low: float, high: float) -> BestInside:
    """Largest chance, over every true value, that a count falls inside a band.

    Parameters
    ----------
    n
        Trials, n >= 1.
    low, high
        Limits on the count, both included; fractions are rounded inward.

    Returns
    -------
    BestInside
        The chance, and the p in [0, 1] at which it is reached.

    Raises
    ------
    ValueError
        When n < 1 or a limit is not a number.

    Notes
    -----
    With a and b the first and last count inside, d/dp P(a <= X <= b) is zero where
    (p / (1 - p))^(b - a + 1) = C(n - 1, a - 1) / C(n - 1, b), and nowhere else in (0, 1), as the
    derivative of P(X >= a) is n C(n - 1, a - 1) p^(a - 1) (1 - p)^(n - a).
    Degenerate cases: no count inside gives chance 0 and no p; a band from 0 is certain at p = 0,
    one up to n at p = 1.
    """
    if n < 1:
        raise ValueError(f"n must be at least 1, not {n}")
    if math.isnan(low) or math.isnan(high):
        raise ValueError("low and high must be numbers")
    first = math.ceil(max(low, 0.0)) if low <= n else n + 1
    last = math.floor(min(high, float(n))) if high >= 0 else -1
    if first > last:
        return BestInside(0.0, None)
    if first == 0 or last == n:
        return BestInside(1.0, 0.0 if first == 0 else 1.0)
    ways = _log_choose(n - 1, first - 1) - _log_choose(n - 1, last)
    p = float(expit(ways / (last - first + 1)))
    return BestInside(min(1.0, float(binomial_pmf(n, p)[first : last + 1].sum())), p)


def normal_quantile(level: float) -> float:
    """Standard normal quantile that leaves (1 - level) / 2 above it; `level` in (0, 1)."""
    return float(norm.isf((1.0 - level) / 2))


def check_level(name: str, value: float) -> None:
    """Raise `ValueError` unless a level lies strictly between 0 and 1."""
    if not 0.0 < value < 1.0:
        raise ValueError(f"{name} must lie strictly between 0 and 1, not {value!r}")


def check_chance(name: str, value: float) -> None:
    """Raise `ValueError` unless a chance or share lies between 0 and 1."""
    if not 0.0 <= value <= 1.0:
        raise ValueError(f"{name} must lie between 0 and 1, not {value!r}")


def _log_choose(n: int, k: int) -> float:
    return float(gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1))
