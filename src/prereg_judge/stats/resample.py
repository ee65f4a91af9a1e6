"""One bootstrap for everything: rows are drawn anew, and every statistic sees the same draws.

A resample is a vector of weights, how often each row was drawn. What can be written as sums over
rows (shares, means, differences, ratios, tables of wins) then costs one product of matrices, and
statistics of the same resampler can be subtracted resample by resample. Knows arrays only.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from prereg_judge.stats.chances import check_level

Floats = NDArray[np.float64]

# Largest block of weights that is held at a time, in bytes.
BLOCK_BYTES = 32_000_000
# Largest share of resamples without a value that an interval may leave out.
MOST_UNDEFINED = 0.05
_INT32 = 2**31
# Differences between values below this share of them are rounding.
ROUNDING = 1e-12


@dataclass(frozen=True, eq=False)
class Resampler:
    """Draws n rows out of n with replacement, `resamples` times, always the same for a seed.

    Attributes
    ----------
    n
        Number of rows, 1 <= n < 2**31. A row is what was sampled independently: an item, not a vote
        on it.
    resamples
        Number of resamples, >= 1.
    seed
        Whole number >= 0; all that the draws depend on, beside n and the strata.
    strata
        Positions of the rows of each stratum, together each of 0 .. n - 1 once; every stratum is
        resampled for itself and keeps its size. None for one stratum of all rows.

    Raises
    ------
    ValueError
        When a number is outside its range, or the strata are not a partition of the rows. n = 0 has
        no resample.

    Notes
    -----
    The rows of a resample are `Generator(PCG64(seed)).integers(n, size=n, dtype=int32)`, one
    resample after the other. With several strata each has a generator of its own, spawned from
    `SeedSequence(seed)` in the order of the strata.
    Degenerate cases: with n = 1, or strata of one row only, every resample is the data.
    Source: Efron (1979), doi:10.1214/aos/1176344552.
    """

    n: int
    resamples: int
    seed: int
    strata: tuple[NDArray[np.intp], ...] | None = None

    def __post_init__(self) -> None:
        if not 1 <= self.n < _INT32:
            raise ValueError(f"n must be at least 1 and below 2**31, not {self.n}")
        if self.resamples < 1:
            raise ValueError(f"resamples must be at least 1, not {self.resamples}")
        if self.seed < 0:
            raise ValueError(f"seed must be at least 0, not {self.seed}")
        if self.strata is not None:
            if any(rows.ndim != 1 or len(rows) == 0 for rows in self.strata):
                raise ValueError("strata must be lists of row numbers, none of them empty")
            every = np.sort(np.concatenate(self.strata)) if self.strata else np.empty(0)
            if not np.array_equal(every, np.arange(self.n)):
                raise ValueError(f"strata must hold each of the rows 0 to {self.n - 1} once")

    def totals(self, statistics: ArrayLike) -> Floats:
        """Sums over the rows of every resample.

        Parameters
        ----------
        statistics
            What each row adds to each of m sums, shape (n, m), any unit, finite.

        Returns
        -------
        ndarray
            Sums, shape (resamples, m). Two calls see the same resamples.

        Raises
        ------
        ValueError
            When the shape is another or a value is not finite.

        Notes
        -----
        Sums of whole numbers and halves are exact, so that ties of them are ties. Other sums are
        rounded as the linear algebra library adds them up.
        One call with many columns is faster than many calls.
        """
        columns = np.asarray(statistics, dtype=np.float64)
        if columns.ndim != 2 or len(columns) != self.n:
            raise ValueError(f"statistics must have the shape ({self.n}, m), not {columns.shape}")
        if not np.isfinite(columns).all():
            raise ValueError("statistics must be finite")
        sums = np.empty((self.resamples, columns.shape[1]))
        done = 0
        for weights in self._blocks():
            sums[done : done + len(weights)] = weights.astype(np.float64) @ columns
            done += len(weights)
        return sums

    def _blocks(self) -> Iterator[NDArray[np.unsignedinteger]]:
        """The weights, some resamples at a time, shape (some, n)."""
        if self._kept is None:
            yield from self._drawn()
            return
        some = self._some
        for start in range(0, self.resamples, some):
            yield self._kept[start : start + some]

    @cached_property
    def _kept(self) -> NDArray[np.unsignedinteger] | None:
        """All weights as small whole numbers, where they fit: drawing costs as much as using."""
        if self.resamples * self.n * self._small.itemsize > BLOCK_BYTES:
            return None
        return np.concatenate(list(self._drawn()))

    @property
    def _small(self) -> np.dtype[np.unsignedinteger]:
        """The smallest type that holds any weight: no row can be drawn more than n times."""
        return np.dtype(np.min_scalar_type(self.n))

    @property
    def _some(self) -> int:
        """How many resamples make a block of weights as float64."""
        return max(1, BLOCK_BYTES // (8 * self.n))

    def _drawn(self) -> Iterator[NDArray[np.unsignedinteger]]:
        """Draw the weights anew. Counting drawn rows is several times faster than `multinomial`."""
        strata = self.strata or (np.arange(self.n),)
        key = np.random.SeedSequence(self.seed)
        keys = [key] if len(strata) == 1 else key.spawn(len(strata))
        generators = [np.random.Generator(np.random.PCG64(k)) for k in keys]
        for start in range(0, self.resamples, self._some):
            some = min(self._some, self.resamples - start)
            weights = np.empty((some, self.n), dtype=self._small)
            for rows, generator in zip(strata, generators, strict=True):
                size = len(rows)
                # 32-bit draws keep their unused half between calls: blocks of any size draw alike.
                drawn = generator.integers(size, size=(some, size), dtype=np.int32)
                for line, of_line in zip(weights, drawn, strict=True):
                    line[rows] = np.bincount(of_line, minlength=size)
            yield weights


def ratio(numerator: ArrayLike, denominator: ArrayLike) -> Floats:
    """Element-wise ratio, NaN where the denominator is 0.

    Parameters
    ----------
    numerator, denominator
        Arrays whose shapes broadcast, any unit.

    Returns
    -------
    ndarray
        The ratios, in the common shape. NaN marks what is undefined, for `percentile_interval` to
        count; equal fractions give equal numbers.

    Raises
    ------
    ValueError
        When the shapes do not broadcast.
    """
    top, bottom = np.broadcast_arrays(
        np.asarray(numerator, dtype=np.float64), np.asarray(denominator, dtype=np.float64)
    )
    found = np.full(top.shape, np.nan)
    np.divide(top, bottom, out=found, where=bottom != 0)
    return found


@dataclass(frozen=True)
class Percentile:
    """A percentile interval of a bootstrap.

    Attributes
    ----------
    low, high
        Limits, low <= high, in the unit of the statistic.
    undefined
        Resamples without a value, left out of the limits.
    """

    low: float
    high: float
    undefined: int


def percentile_interval(values: ArrayLike, *, level: float) -> Percentile | None:
    """Percentile interval of a statistic from its values in the resamples.

    Parameters
    ----------
    values
        The statistic in every resample, shape (R,), any unit; NaN where it has no value.
    level
        Confidence level, strictly between 0 and 1.

    Returns
    -------
    Percentile or None
        The quantiles (1 - level) / 2 and (1 + level) / 2 of the defined values, interpolated
        linearly. None when more than 5% of the values are undefined, and when all defined ones
        are equal but for rounding: an interval without any width says nothing of how far the
        estimate may be off.

    Raises
    ------
    ValueError
        When the shape is another, there is no value, one is infinite or level is outside its range.

    Notes
    -----
    Degenerate case: of a statistic with few values both limits can be the same although not all
    resamples are. The interval need not contain the estimate.
    Source: Efron (1981), doi:10.2307/3314608.
    """
    check_level("level", level)
    found = np.asarray(values, dtype=np.float64)
    if found.ndim != 1 or len(found) == 0:
        raise ValueError(f"values must have the shape (R,) with R >= 1, not {found.shape}")
    if np.isinf(found).any():
        raise ValueError("values must be finite, or NaN where undefined")
    defined = found[~np.isnan(found)]
    undefined = len(found) - len(defined)
    if undefined > MOST_UNDEFINED * len(found):
        return None
    if defined.max() - defined.min() <= ROUNDING * np.abs(defined).max():
        return None
    low, high = np.quantile(defined, [(1.0 - level) / 2, (1.0 + level) / 2])
    return Percentile(float(low), float(high), undefined)
