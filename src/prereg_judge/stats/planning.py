"""How many rows it takes: for an interval of a wanted width, or to clear a bar.

Knows numbers only. Chances are exact; bounds only say where a search may stop. A count of n rows
is taken as binomial: rows independent, one common chance.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import rel_entr
from scipy.stats import binom, norm

from prereg_judge.stats.chances import (
    Floats,
    check_chance,
    check_level,
    nearest_count,
    normal_quantile,
    wilson_limits,
)

# Most rows that `n_for_power` and `n_for_width` look at.
MOST_ROWS = 2_000_000
MOST_FOR_WIDTH = 10**12
_BLOCK = 2048
_ONE_BY_ONE = 16
# A proved constant of the theorem of Berry and Esseen: Shevtsova (2011). Smaller ones are proved,
# too; any of them is safe here.
_BERRY_ESSEEN = 0.4748

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class RowsNeeded:
    """The rows that it takes; or None and why there is no such number.

    Attributes
    ----------
    n
        Number of rows.
    why_not
        `wrong side`: the true share does not clear the bar, so that the chance tends to 0 as rows
        are added; `on the bar`: the true share is the limit itself, and the chance tends to
        `tends_to`, which is not above the wanted one; `beyond the search`: not proved for any
        number up to the limit of the search.
    tends_to
        What the chance tends to where the share is on the bar; None elsewhere.
    """

    n: int | None
    why_not: Literal["wrong side", "on the bar", "beyond the search"] | None = None
    tends_to: float | None = None


def n_for_width(p: float, *, width: float, level: float) -> RowsNeeded:
    """Fewest rows from which on the Wilson interval is at most so wide.

    Parameters
    ----------
    p
        Share that is expected, 0 <= p <= 1. With n rows the interval is taken at the count
        nearest to p n (of two that are equally near, the even one).
    width
        Wanted total width, upper minus lower limit, as a share, above 0.
    level
        Confidence level, strictly between 0 and 1.

    Returns
    -------
    RowsNeeded
        The smallest n such that the interval is at most `width` wide at n and at every larger n.
        The width is not monotone in n, because the count is whole; a smaller n may fit by luck.
        `beyond the search` above `MOST_FOR_WIDTH`, where differences of limits lose their digits.

    Raises
    ------
    ValueError
        When a value is outside its range.

    Notes
    -----
    The width at share q is 2 z sqrt(n q (1 - q) + z^2 / 4) / (n + z^2). It grows with q (1 - q)
    and falls with n. The count is at most 1/2 off, so with the largest q (1 - q) within 1 / (2 n)
    of p there is a bound that falls with n; from where it holds the search goes down to the last
    n that is too wide. It goes by runs of n with the same count of the rarer outcome m, since for
    one m the width 2 z sqrt(m (n - m) / n + z^2 / 4) / (n + z^2) falls while m / n < 2 / 3, and
    m / n is at most 1/2 + 1 / (2 n). Degenerate cases: at p = 0 and p = 1 the width is
    z^2 / (n + z^2), not 0, and all n are one run; a width of 1 or more needs one row.
    Source: Wilson (1927), doi:10.1080/01621459.1927.10502953.
    """
    check_chance("p", p)
    check_level("level", level)
    if not width > 0.0:
        raise ValueError(f"width must be above 0, not {width!r}")
    z = normal_quantile(level)

    def surely(n: int) -> bool:
        q = min(0.5, p + 0.5 / n) if p < 0.5 else max(0.5, p - 0.5 / n)
        widest = 2 * z * math.sqrt(n * q * (1 - q) + z * z / 4) / (n + z * z)
        return widest <= width * (1 - 1e-12)

    def fits(n: int) -> bool:
        m = _rarer(p, n)
        return 2 * z * math.sqrt(m * (n - m) / n + z * z / 4) / (n + z * z) <= width

    n = _first_true(surely, most=MOST_FOR_WIDTH)
    if n > MOST_FOR_WIDTH:
        return RowsNeeded(None, "beyond the search")
    while n > 1:
        m = _rarer(p, n - 1)
        # The first few one by one: there m / n can be larger.
        first = n - 1 if n <= _ONE_BY_ONE else _first_true(partial(_as_many, p, m), most=n)
        if not fits(first):
            return RowsNeeded(_first_true(fits, above=first, most=n))
        n = first
    return RowsNeeded(1)


def _rarer(p: float, n: int) -> int:
    """The count nearest to p n, of successes or else of failures, whichever p makes rarer."""
    k = int(nearest_count(p, n))
    return k if p <= 0.5 else n - k


def _as_many(p: float, m: int, n: int) -> bool:
    return _rarer(p, n) >= m


@dataclass(frozen=True)
class Bar:
    """A bar that a replication must clear, on the scale of shares.

    Attributes
    ----------
    of
        What is compared: the observed share, or a limit of its Wilson interval.
    low, high
        Limits; infinite where there is none.
    low_open, high_open
        Whether the limit itself fails.
    """

    of: Literal["estimate", "ci_low", "ci_high"]
    low: float = -math.inf
    high: float = math.inf
    low_open: bool = False
    high_open: bool = False


def n_for_power(p: float, *, bar: Bar, power: float, level: float) -> RowsNeeded:
    """Fewest rows from which on a bar is cleared with at least this chance.

    Parameters
    ----------
    p
        True chance of success in each row, 0 <= p <= 1.
    bar
        What is compared with which limits.
    power
        Wanted chance, strictly between 0 and 1.
    level
        Level of the interval whose limit is compared, strictly between 0 and 1.

    Returns
    -------
    RowsNeeded
        The smallest n such that the chance is at least `power` at n and at every larger n.

    Raises
    ------
    ValueError
        When a value is outside its range or the limits are reversed.

    Notes
    -----
    The chance rises with n as a saw: each time that the bar needs one success more, it drops. So
    reaching `power` once is not enough. Chernoff's bound on the chance to fail,
    exp(-n KL(a_n || p)) with a_n the largest share that fails, falls with n without a saw; from
    where it is at most 1 - power, every larger n is safe. Below that, chances are exact, and the
    search goes down to the last n that falls short.

    Where p is the limit L itself the chance tends to a number between 0 and 1. A limit of the
    interval clears L where the share is away from L by z sqrt(L (1 - L) / n), or not farther off
    than that: so it tends to (1 - level) / 2 for a lower limit of at least L, to (1 + level) / 2
    for one of at most L, to 1/2 for the share itself. Below that number there is an answer. The
    bound of Berry and Esseen on the distance to that number falls with n, and holds on the far
    side of L too, where the chance is larger. A wanted chance that equals the number is taken as
    not reached.

    Degenerate cases: at p = 0 and p = 1 the count is certain, so the chance is 0 or 1; see
    `RowsNeeded` for shares that never clear.
    Source: Hoeffding (1963), theorem 1, doi:10.1080/01621459.1963.10500830; the saw: Chernick and
    Liu (2002), doi:10.1198/000313002317572835; the constant: Shevtsova (2011), arXiv:1111.6554.
    """
    check_chance("p", p)
    check_level("power", power)
    check_level("level", level)
    if not bar.low <= bar.high:
        raise ValueError(f"the limits must be numbers, low first: {bar}")
    low, high = not _idle_low(bar, p), not _idle_high(bar, p)
    if (low and p < bar.low) or (high and p > bar.high):
        return RowsNeeded(None, "wrong side")
    z = _offset(bar, level)
    if (low and p == bar.low) or (high and p == bar.high):
        tail = float(norm.cdf(z)) if low and p == bar.low else 0.0
        tail += float(norm.cdf(-z)) if high and p == bar.high else 0.0
        tends_to = max(0.0, round(1.0 - tail, 12)) if 0.0 < p < 1.0 else 0.0
        if power >= tends_to:
            return RowsNeeded(None, "on the bar", tends_to)

    def surely(n: int) -> bool:
        bound = 0.0
        if low:
            far = _chernoff(p, bar.low + _reach(bar.low, max(z, 0.0), n), n, up=False)
            bound += min(far, _beyond(bar.low, z, n))
        if high:
            far = _chernoff(p, bar.high - _reach(bar.high, max(-z, 0.0), n), n, up=True)
            bound += min(far, _beyond(bar.high, -z, n))
        return bound <= (1.0 - power) * (1 - 1e-9)

    top = _first_true(surely, most=MOST_ROWS)
    if top > MOST_ROWS:
        return RowsNeeded(None, "beyond the search")
    while top > 1:
        sizes = np.arange(max(1, top - _BLOCK), top)
        short = np.flatnonzero(_chance_to_clear(sizes, p, bar, level=level) < power)
        if len(short):
            return RowsNeeded(int(sizes[short[-1]]) + 1)
        top = int(sizes[0])
    return RowsNeeded(top)


def _chance_to_clear(sizes: Ints, p: float, bar: Bar, *, level: float) -> Floats:
    """Exact chance to clear the bar with each number of rows, shape as `sizes`."""
    first = np.zeros_like(sizes)
    last = sizes.copy()
    z = _offset(bar, level)
    if not _idle_low(bar, p):
        near = np.ceil(sizes * bar.low + z * np.sqrt(sizes * max(0.0, bar.low * (1 - bar.low))))
        first = np.clip(near.astype(np.int64) - 2, 0, sizes + 1)
        for _ in range(5):  # as far as rounding can have led astray
            value = _compared(first, sizes, bar, level=level)
            fails = (value <= bar.low if bar.low_open else value < bar.low) & (first <= sizes)
            first = first + fails
    if not _idle_high(bar, p):
        near = np.floor(sizes * bar.high + z * np.sqrt(sizes * max(0.0, bar.high * (1 - bar.high))))
        last = np.clip(near.astype(np.int64) + 2, -1, sizes)
        for _ in range(5):
            value = _compared(last, sizes, bar, level=level)
            fails = (value >= bar.high if bar.high_open else value > bar.high) & (last >= 0)
            last = last - fails
    if (first == 0).all():
        return np.asarray(binom.cdf(last, sizes, p), dtype=np.float64)
    chance = binom.sf(first - 1, sizes, p) - binom.sf(last, sizes, p)
    return np.asarray(np.maximum(chance, 0.0), dtype=np.float64)


def _compared(counts: Ints, sizes: Ints, bar: Bar, *, level: float) -> Floats:
    k = np.clip(counts, 0, sizes)
    if bar.of == "estimate":
        return k / sizes
    return wilson_limits(k, sizes, level=level)[0 if bar.of == "ci_low" else 1]


def _idle_low(bar: Bar, p: float) -> bool:
    """Whether no result can fall below the bar."""
    if bar.low < 0.0 or (bar.low == 0.0 and (not bar.low_open or bar.of == "ci_high")):
        return True
    return p == bar.low == 1.0 and not bar.low_open and bar.of != "ci_low"


def _idle_high(bar: Bar, p: float) -> bool:
    """Whether no result can fall above the bar."""
    if bar.high > 1.0 or (bar.high == 1.0 and (not bar.high_open or bar.of == "ci_low")):
        return True
    return p == bar.high == 0.0 and not bar.high_open and bar.of != "ci_high"


def _offset(bar: Bar, level: float) -> float:
    """How many standard deviations of the bar beyond it the estimate must be."""
    return {"estimate": 0.0, "ci_low": 1.0, "ci_high": -1.0}[bar.of] * normal_quantile(level)


def _reach(limit: float, z: float, n: int) -> float:
    return z * math.sqrt(limit * (1.0 - limit) / n)


def _chernoff(p: float, share: float, n: int, *, up: bool) -> float:
    """Bound on P(X / n >= share) where `up`, else on P(X / n <= share); 1 where it says nothing."""
    if share <= p if up else share >= p:
        return 1.0
    a = min(1.0, max(0.0, share))
    return math.exp(-n * float(rel_entr(a, p) + rel_entr(1.0 - a, 1.0 - p)))


def _beyond(limit: float, z: float, n: int) -> float:
    """Bound on the chance to fail a limit, whatever share on its right side is true.

    The chance is largest where the limit itself is true; there it is that of a standard normal
    below z, within the bound of Berry and Esseen. 1 where it says nothing.
    """
    spread = limit * (1.0 - limit)
    if not spread > 0.0:
        return 1.0
    off = _BERRY_ESSEEN * (1.0 - 2.0 * spread) / math.sqrt(n * spread)
    return min(1.0, float(norm.cdf(z)) + off)


def _first_true(holds: Callable[[int], bool], *, above: int = 0, most: int) -> int:
    """Smallest n > `above` at which a condition holds that, once true, stays so.

    `most` + 1 where it is larger than `most`.
    """
    step = 1
    while not holds(above + step):
        if above + step > most:
            return most + 1
        step *= 2
    low, high = above + step // 2, above + step  # `low` fails, or is `above`
    while high - low > 1:
        mid = (low + high) // 2
        low, high = (low, mid) if holds(mid) else (mid, high)
    return high
