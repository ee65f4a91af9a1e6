"""Study `pools`: do two pools of annotators say the same of the same items?

Turns a table of votes into named metrics. Which items are looked at, and which label a pool gave,
is in `pools_view`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from prereg_judge.stats.resample import ratio
from prereg_judge.stats.sparse import sparse_limits
from prereg_judge.stats.tertiles import tertiles
from prereg_judge.study.counted import LEVEL, counted, undefined_metric
from prereg_judge.study.metric import Catalogue, Metric, MetricRef, MetricSpec
from prereg_judge.study.outcomes import StudyInput, TableInput
from prereg_judge.study.pools_view import SUBSETS, Subset, View, Views, keys_of, resampler_of
from prereg_judge.study.row_metrics import both
from prereg_judge.study.table_metrics import (
    VIEW,
    bootstrapped,
    count_and_rate,
    joined,
    no_curves,
    no_words,
    table_catalogue,
    table_metric,
    view_parameters,
)
from prereg_judge.words import SetRole

STUDY = "pools"

TERTILES = ("1", "2", "3")

SPECS = (
    MetricSpec(
        "items.count", "items that both pools rated", "items", optional=VIEW, domain=(0, "items")
    ),
    *count_and_rate(
        "opposite",
        "items on which the pools' majorities name opposite winners",
        optional=VIEW,
    ),
    *count_and_rate("changed", "items on which the pools' majority labels differ", optional=VIEW),
    MetricSpec(
        "disagreement.rate",
        "pairs of votes of one pool on the same item that differ, over all items of the table",
        "share",
        required=("pool",),
        optional=("key",),
        domain=(0, 1),
    ),
    MetricSpec(
        "divergence.rate",
        "items whose majority label differs between the pools, in a third of the items by gap "
        "(1 = the smallest gaps; equal gaps stay together)",
        "share",
        required=("tertile",),
        optional=VIEW,
        domain=(0, 1),
    ),
    MetricSpec(
        "divergence.r",
        "Pearson's r of an item's gap and whether its majority label differs between the pools",
        "correlation",
        optional=VIEW,
        domain=(-1, 1),
    ),
)
_BY_NAME = {spec.name: spec for spec in SPECS}

protocol_words = no_words
curves = no_curves


def catalogue(roles: Sequence[SetRole] = ()) -> Catalogue:
    """Every metric that may be registered; a table has no item sets, so the roles do not matter."""
    del roles
    return table_catalogue(STUDY, SPECS)


def parameters(table: TableInput) -> dict[str, tuple[str, ...]]:
    """The values that each parameter can have for a table."""
    return {
        **view_parameters(table),
        "pool": table.counts[table.key].pools,
        "tertile": TERTILES,
    }


class _Computer:
    """Computes metrics of one table, looking at its items once."""

    def __init__(self, data: StudyInput) -> None:
        assert data.table is not None
        self.table = data.table
        self.resampling = data.resampling
        self.views = Views(data.table)
        self._values = parameters(data.table)

    def __call__(self, ref: MetricRef) -> Metric:
        return table_metric(ref, specs=_BY_NAME, values=self._values, make=self._make)

    def _make(self, ref: MetricRef, spec: MetricSpec, params: Mapping[str, str]) -> Metric:
        if spec.name == "disagreement.rate":
            return self._disagreement(ref, spec, params)
        view = self.views(params)
        if spec.name == "items.count":
            n = len(view.counts.items)
            note = "known from the table, so there is no interval"
            k = len(view.rows)
            return Metric(ref, float(k), spec.unit, spec.summary, k=k, n=n, note=note)
        if spec.name.startswith("opposite.") and not view.counts.sided:
            return undefined_metric(ref, spec, reason="no_sides")
        if spec.name.startswith("divergence.") and view.counts.gaps is None:
            return undefined_metric(ref, spec, reason="no_gap")
        if not len(view.used):
            why = joined("no item with a label of both pools", view.left_out)
            return undefined_metric(ref, spec, reason="no_items", note=why, n=0)
        changed = view.pair[:, 0] != view.pair[:, 1]
        if spec.name == "divergence.r":
            return self._correlation(ref, spec, view, changed)
        if spec.name == "divergence.rate":
            within = tertiles(_gaps(view)) == int(params["tertile"])
            empty = joined(None if within.any() else "no item in this third", view.left_out)
            k, n = int(changed[within].sum()), int(within.sum())
            return counted(ref, spec, k=k, n=n, note=empty)
        if spec.name.startswith("opposite."):
            changed = view.sides.prod(axis=1) == -1
        return counted(ref, spec, k=int(changed.sum()), n=len(changed), note=view.left_out)

    def _disagreement(self, ref: MetricRef, spec: MetricSpec, params: Mapping[str, str]) -> Metric:
        counts = self.views(params).counts
        votes = counts.counts[:, counts.pools.index(params["pool"]), :]
        differing, pairs = vote_pairs(votes)
        k, n = int(differing.sum()), int(pairs.sum())
        if not n:
            note = "no item has two votes of this pool"
            return undefined_metric(ref, spec, reason="empty_denominator", note=note, n=0)
        # How many items have a pair of votes is taken as given: the others are not drawn.
        rows = np.flatnonzero(pairs)
        draws = None
        if self.resampling is not None:
            resampler = resampler_of(counts, rows, resampling=self.resampling)
            assert resampler is not None
            totals = resampler.totals(np.column_stack([differing[rows], pairs[rows]]))
            draws = ratio(totals[:, 0], totals[:, 1])
        return bootstrapped(
            ref,
            spec,
            value=k / n,
            k=k,
            n=n,
            draws=draws,
            resampling=self.resampling,
            notes=[f"{n} pairs of votes on {len(rows)} of {len(pairs)} items"],
            least=sparse_limits(differing[rows] / pairs[rows], within=(0.0, 1.0), level=LEVEL),
        )

    def _correlation(
        self, ref: MetricRef, spec: MetricSpec, view: View, changed: NDArray[np.bool_]
    ) -> Metric:
        gaps, n = _gaps(view), len(changed)
        x = gaps - gaps.mean()  # the same r, without what large gaps would lose in the sums
        y = changed.astype(np.float64)
        sums = np.column_stack([np.ones(n), x, y, x * x, x * y])
        value = float(_pearson(sums.sum(axis=0)))
        if np.isnan(value):
            what = f"the label differs on {'every' if y.all() else 'no'} item"
            if np.ptp(gaps) == 0:
                what = "every gap is the same"
            note = joined(what, view.left_out)
            return undefined_metric(ref, spec, reason="empty_denominator", note=note, n=n)
        draws = None
        if self.resampling is not None:
            resampler = resampler_of(view.counts, view.used, resampling=self.resampling)
            assert resampler is not None
            draws = _pearson(resampler.totals(sums))
        return bootstrapped(
            ref,
            spec,
            value=value,
            n=n,
            draws=draws,
            resampling=self.resampling,
            notes=[view.left_out],
        )


def _gaps(view: View) -> NDArray[np.float64]:
    assert view.counts.gaps is not None
    return view.counts.gaps[view.used]


def vote_pairs(votes: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Pairs of votes on each item that differ, and all of them.

    Parameters
    ----------
    votes
        Votes of one pool for each label, shape (n, L), whole numbers >= 0.

    Returns
    -------
    tuple of array
        Both of shape (n,); both 0 for an item with fewer than two votes.
    """
    total = votes.sum(axis=1)
    same = (votes * (votes - 1)).sum(axis=1) // 2
    pairs = total * (total - 1) // 2
    return pairs - same, pairs


def _pearson(sums: NDArray[np.float64]) -> NDArray[np.float64]:
    """Pearson's r from sums of 1, x, y, xx and xy of a y that is 0 or 1, on the last axis.

    NaN where x or y does not vary. Rounding leaves something of a spread that is none, so what is
    beyond the precision of the sums counts as none.
    """
    n, x, y, xx, xy = np.moveaxis(sums, -1, 0)
    spread_x, spread_y = n * xx - x * x, y * (n - y)
    spread_x = np.where(spread_x <= 1e-12 * n * xx, 0.0, spread_x)
    r = ratio(n * xy - x * y, np.sqrt(spread_x * spread_y))
    return np.clip(r, -1.0, 1.0)


def compute(data: StudyInput, refs: Iterable[MetricRef]) -> dict[MetricRef, Metric]:
    """The metrics that were registered.

    Parameters
    ----------
    data
        Its table and its bootstrap; nothing else is looked at.
    refs
        References with their parameters; `.ci_low` and `.ci_high` give a limit of the interval.

    Returns
    -------
    dict
        One entry for every reference, in the order given; undefined with a typed reason where
        there is no value, never absent.
    """
    computer = _Computer(data)
    return {ref: computer(ref) for ref in refs}


def summary(data: StudyInput) -> tuple[Metric, ...]:
    """The full list that a report shows: both keys and both subsets side by side."""
    computer = _Computer(data)
    return tuple(computer(ref) for ref in _summary_refs(computer.table))


def _summary_refs(table: TableInput) -> Iterator[MetricRef]:
    counts = table.counts[table.key]
    stems = (*(("opposite",) if counts.sided else ()), "changed")
    for subset in SUBSETS:
        for key in keys_of(table):
            yield MetricRef.of("items.count", key=key, subset=subset)
        for stem in stems:
            for key in keys_of(table):
                yield from both(stem, key=key, subset=subset)
    for pool in counts.pools:
        for key in keys_of(table):
            yield MetricRef.of("disagreement.rate", pool=pool, key=key)
    if counts.gaps is not None:
        for subset in SUBSETS:
            for tertile in TERTILES:
                yield MetricRef.of("divergence.rate", tertile=tertile, subset=subset)
            yield MetricRef.of("divergence.r", subset=subset)


def plain_words(data: StudyInput) -> list[str]:
    """What a reader must know before quoting a number of this study, as sentences.

    Parameters
    ----------
    data
        The table.

    Returns
    -------
    list of str
        Where the keys can differ: how much the choice of key moves the answer, with the numbers
        of both, or that it moves none; that nothing is paired where no item is rated by both
        pools.
    """
    computer = _Computer(data)
    table = computer.table
    one, two = table.pools
    said = [
        f"No item is rated by both {one} and {two}, so nothing can be compared."
        for key in (table.key,)
        if not len(computer.views({"key": key}).rows)
    ]
    keys = keys_of(table)
    if len(keys) < 2:
        return said
    # The convention-free items first: they depend on the key alone.
    for subset in SUBSETS[::-1]:
        parts = [_key_words(computer, key, subset=subset) for key in keys]
        if len({_key_figures(computer, key, subset=subset) for key in keys}) > 1:
            moved = "How the items of a pair of models are told apart moves the answer."
            return [*said, f"{moved} {' '.join(parts)} The registered key is `{table.key}`."]
    same = "How the items of a pair of models are told apart makes no difference here: the keys "
    same += f"{' and '.join(f'`{key}`' for key in keys)} give the same figures."
    return said or [same]


def _key_metrics(computer: _Computer, key: str, *, subset: Subset) -> tuple[Metric, ...]:
    """Items, opposite winners and changed labels under one key."""
    names = ("items.count", "opposite.rate", "changed.rate")
    return tuple(computer(MetricRef.of(name, key=key, subset=subset)) for name in names)


def _key_figures(computer: _Computer, key: str, *, subset: Subset) -> tuple[object, ...]:
    """What of these a reader compares between keys; without the size of the whole table."""
    items, *shares = _key_metrics(computer, key, subset=subset)
    return (items.k, *((m.k, m.n, m.undefined) for m in shares))


def _key_words(computer: _Computer, key: str, *, subset: Subset) -> str:
    """What one key makes of the items of a subset."""
    items, opposite, changed = _key_metrics(computer, key, subset=subset)
    shares = [
        f"{what} on {m.k} ({m.value:.1%})" if m.value is not None else f"{what}: undefined"
        for what, m in (("opposite winners", opposite), ("another majority label", changed))
    ]
    which = "each pool is of one mind on" if subset == "free" else "both pools rated"
    return f"With the key `{key}` {which} {items.k} items: {', '.join(shares)}."
