"""Statistics over the items of a set, with the percentile bootstrap's interval.

The item is drawn anew with all that belongs to it, its orders and passes, so that what is paired
stays paired. Knows nothing of what the numbers mean.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from prereg_judge.stats.resample import Resampler, percentile_interval, ratio
from prereg_judge.stats.sparse import ROUNDING, sparse_limits
from prereg_judge.study.counted import LEVEL, undefined_metric
from prereg_judge.study.metric import Interval, Metric, MetricRef, MetricSpec
from prereg_judge.study.outcomes import ItemView, Resampling
from prereg_judge.study.table_metrics import ALIKE, method_words, widened

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Statistic:
    """A number made of sums over items.

    Attributes
    ----------
    items
        The items, shape (n,).
    columns
        What is summed, shape (n, m).
    of_totals
        From the sums, shape (..., m), to the number, shape (...); NaN where it is undefined.
    alike
        The value that every item gives, where it is one; None where they differ.
    least
        Limits that no interval is inside of (`sparse_limits`); None where the items vary enough.
    """

    items: Sequence[ItemView]
    columns: Floats
    of_totals: Callable[[Floats], Floats]
    alike: float | None = None
    least: tuple[float, float] | None = None


def quotient(
    items: Sequence[ItemView],
    num: NDArray[np.number],
    den: NDArray[np.number],
    *,
    within: tuple[float, float],
    less: float = 0.0,
) -> Statistic:
    """Sum of `num` over sum of `den`, minus `less`.

    Parameters
    ----------
    items
        The items, shape (n,).
    num, den
        Shape (n,); `den` is not negative, and `num` is 0 where it is 0.
    within
        Smallest and largest value that a single item can give.
    less
        What is taken off the quotient.

    Returns
    -------
    Statistic
        NaN where the sum of `den` is 0.
    """
    columns = np.column_stack([num, den]).astype(np.float64)
    counts = columns[:, 1] > 0
    values = columns[counts, 0] / columns[counts, 1] - less
    alike = least = None
    if len(values):
        least = sparse_limits(values, within=within, level=LEVEL)
        alike = float(values[0]) if np.ptp(values) <= ROUNDING else None

    def of_totals(totals: Floats) -> Floats:
        return ratio(totals[..., 0], totals[..., 1]) - less

    return Statistic(items, columns, of_totals, alike, least)


def means(items: Sequence[ItemView], values: Floats, *, within: tuple[float, float]) -> Statistic:
    """The mean of a value over items, shape (n,); `within` is the range of a single value."""
    return quotient(items, values, np.ones(len(values)), within=within)


def estimate(
    ref: MetricRef,
    spec: MetricSpec,
    statistic: Statistic,
    *,
    resampling: Resampling | None,
    notes: Sequence[str] = (),
    k: int | None = None,
    n: int | None = None,
    lacking: str = "nothing to divide by",
) -> Metric:
    """A statistic as a metric with its interval.

    Parameters
    ----------
    ref, spec
        The metric and its line in the catalogue.
    statistic
        What is computed.
    resampling
        The registered bootstrap; None = there is no interval but where every item is alike.
    notes
        What a reader should know beside the number.
    k, n
        Numerator and denominator to be shown; without n the number of items.
    lacking
        Why there is nothing to count, for the reader.

    Returns
    -------
    Metric
        The interval is the percentile bootstrap's over items. Where every item gives the same
        value, resampling would not move: then it is that of `sparse_limits`, and where most items
        do it is never inside of that. There is none where the resamples do not move for another
        reason, or are undefined too often; the note says so. Undefined: `empty_denominator` where
        the statistic is undefined.
    """
    size = len(statistic.items) if n is None else n
    said = list(notes)
    total = float("nan")
    if len(statistic.items):
        total = float(statistic.of_totals(statistic.columns.sum(axis=0)))
    if np.isnan(total):
        note = "; ".join([lacking, *said])
        return undefined_metric(ref, spec, reason="empty_denominator", note=note, n=size)
    interval = None
    if statistic.alike is not None and statistic.least is not None:
        interval = Interval(*statistic.least, LEVEL, ALIKE)
        total = statistic.alike
    elif resampling is None:
        said.append("no bootstrap is registered, so there is no interval")
    else:
        interval, more = _bootstrap(statistic, resampling)
        if interval is not None:
            interval = widened(interval, statistic.least, value=total)
        said += more
    words = "; ".join(said) or None
    return Metric(ref, total, spec.unit, spec.summary, k=k, n=size, interval=interval, note=words)


def _bootstrap(statistic: Statistic, resampling: Resampling) -> tuple[Interval | None, list[str]]:
    """The percentile interval over items, if there is one, and what is to be said of it."""
    strata = strata_of(statistic.items) if resampling.by_stratum else None
    resampler = _resampler(
        len(statistic.items), resampling.resamples, seed=resampling.seed, strata=strata
    )
    values = statistic.of_totals(resampler.totals(statistic.columns))
    found = percentile_interval(values, level=LEVEL)
    lost = int(np.isnan(values).sum())
    said = [f"{lost} of {resampling.resamples} resamples are undefined"] if lost else []
    if found is None:
        same = np.ptp(values[~np.isnan(values)]) == 0 if lost < len(values) else False
        why = "every resample gives the same" if same else "too few resamples are defined"
        return None, [*said, f"no interval: {why}"]
    return Interval(found.low, found.high, LEVEL, method_words(resampling)), said


# A resampler keeps its draws, and most metrics of a report are about the same items.
@lru_cache(maxsize=4)
def _resampler(
    n: int, resamples: int, *, seed: int, strata: tuple[tuple[int, ...], ...] | None
) -> Resampler:
    places = None if strata is None else tuple(np.array(s, dtype=np.intp) for s in strata)
    return Resampler(n, resamples, seed, strata=places)


def strata_of(items: Sequence[ItemView]) -> tuple[tuple[int, ...], ...]:
    """The places of the items of each stratum; those without one are a stratum of their own."""
    places: dict[str | None, list[int]] = {}
    for at, item in enumerate(items):
        places.setdefault(item.stratum, []).append(at)
    return tuple(map(tuple, places.values()))
