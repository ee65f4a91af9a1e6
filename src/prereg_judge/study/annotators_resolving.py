"""Study `annotators`: one label an item, by policy, and what a policy does to the labels.

A policy that leaves out the items on which annotators differ selects: what is left is not like
what there was. How unlike is measured here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from prereg_judge.stats.proportions import wilson_interval
from prereg_judge.stats.resample import MOST_UNDEFINED, percentile_interval, ratio
from prereg_judge.stats.soft import total_variation
from prereg_judge.stats.sparse import ROUNDING
from prereg_judge.study.annotators_groups import Group, Ints, RatingGroups, soft, unanimous
from prereg_judge.study.annotators_sums import Block, Drawing, Floats, Later, Plan, Sums, estimated
from prereg_judge.study.counted import LEVEL, counted, not_computed, undefined_metric
from prereg_judge.study.metric import Interval, Metric, MetricRef, MetricSpec
from prereg_judge.study.outcomes import Resampling
from prereg_judge.study.pools_view import NO_LABEL, majorities
from prereg_judge.study.table_metrics import NO_BOOTSTRAP, joined, method_words
from prereg_judge.votes import SplitRule

NO_FILE = "no file of an adjudicator's labels is registered (`adjudication`)"
NOT_EXCLUDED = "no item is left out"
_BIASED = (
    "never below 0, so chance alone makes it larger: biased upward, the more so the fewer items "
    "are left"
)


def selection_block(group: Group, counts: Ints) -> Block:
    """Sums from which the labels of unanimous items and of all items follow.

    2 L columns: 1 for an item's label where nobody differs on it, then the shares of the labels in
    its ratings.
    """
    return Block(("selection", *group.key), lambda: _selection(counts))


def _selection(counts: Ints) -> Floats:
    kept = unanimous(counts)
    one = (kept[:, None] == np.arange(counts.shape[1])).astype(np.float64)
    found: Floats = np.concatenate([one, soft(counts)], axis=1)
    return found


def labels_left(sums: Floats) -> tuple[Floats, Floats]:
    """Shares of the labels among unanimous items and among all, each (..., L); NaN without any."""
    size = sums.shape[-1] // 2
    left, every = sums[..., :size], sums[..., size:]
    return (
        ratio(left, left.sum(axis=-1, keepdims=True)),
        ratio(every, every.sum(axis=-1, keepdims=True)),
    )


def shift_of(sums: Floats) -> Floats:
    """Share of each label among unanimous items minus among all, shape (..., 2 L) to (..., L)."""
    left, every = labels_left(sums)
    shift: Floats = left - every
    return shift


@dataclass(frozen=True)
class Shift:
    """How far leaving out disputed items moves a label's share, all annotators together.

    Attributes
    ----------
    label
        Its name.
    value
        Share among unanimous items minus share among all.
    low, high
        Limits at the level that all labels together keep (Bonferroni), as far from the value on
        either side as the farther percentile is: far out, where the allowance reaches, percentiles
        alone leave 0 out too often (in 9% of simulated tables without a shift; so in 6% at most).
    """

    label: str
    value: float
    low: float
    high: float


def shifts_of(groups: RatingGroups, drawing: Drawing) -> tuple[Shift, ...]:
    """The shift of every label that has limits at 1 - 0.05 / L; none where nothing is resampled."""
    group = Group()
    sums = drawing.sums(selection_block(group, groups.counts(group)))
    if sums.draws is None:
        return ()
    labels, draws, values = groups.labels(), shift_of(sums.draws), shift_of(sums.all)
    found = []
    for at, label in enumerate(labels):
        limits = percentile_interval(draws[:, at], level=1.0 - (1.0 - LEVEL) / len(labels))
        if limits is not None:
            value = float(values[at])
            far = max(value - limits.low, limits.high - value)
            found.append(Shift(label, value, value - far, value + far))
    return tuple(found)


def distance_of(sums: Floats) -> Floats:
    """Total variation between the two, shape (..., 2 L) to (...)."""
    left, every = labels_left(sums)
    defined = ~(np.isnan(left).any(axis=-1) | np.isnan(every).any(axis=-1))
    found = np.full(defined.shape, np.nan)
    found[defined] = total_variation(left[defined], every[defined])
    return found


class Resolving:
    """Plans the metrics of resolved labels.

    Parameters
    ----------
    groups
        The ratings.
    split
        What becomes of an item whose most frequent labels have equally many ratings.
    resampling
        The registered bootstrap.
    """

    def __init__(
        self, groups: RatingGroups, *, split: SplitRule, resampling: Resampling | None
    ) -> None:
        self.groups = groups
        self.split = split
        self.resampling = resampling

    def majority(self, counts: Ints) -> NDArray[np.int64]:
        """Label of each item by majority, shape (n,), `NO_LABEL` for none.

        L of L labels = an equal split that the registered rule gives a label of its own.
        """
        found = np.full(len(counts), NO_LABEL, dtype=np.int64)
        rated = counts.sum(axis=1) > 0
        if rated.any():
            labels = self.groups.labels()
            found[rated] = majorities(counts[rated], labels, split=self.split)
        return found

    def labels_by(self, policy: str, counts: Ints) -> NDArray[np.int64] | None:
        """Label of each item by a policy, shape (n,); None where the policy has no file.

        `adjudicated` takes the adjudicator's label where there is one, else the one on which
        nobody differs, else none.
        """
        if policy == "majority":
            return self.majority(counts)
        alike = unanimous(counts).astype(np.int64)
        if policy == "unanimous":
            return alike
        given = self.groups.ratings.adjudicated
        if given is None:
            return None
        found: NDArray[np.int64] = np.where(given >= 0, given, alike).astype(np.int64)
        found[counts.sum(axis=1) == 0] = NO_LABEL
        return found

    def plan(self, ref: MetricRef, spec: MetricSpec, params: Mapping[str, str]) -> Plan:
        """One metric of resolved labels."""
        if spec.name.startswith("selection."):
            return self._selected(ref, spec, params)
        if spec.name.startswith("adjudication."):
            return self._overturned(ref, spec, self.groups.counts(Group.of(params)))
        counts = self.groups.counts(Group.of(params))
        policy = params["policy"]
        found = self.labels_by(policy, counts)
        if found is None:
            return undefined_metric(ref, spec, reason="no_adjudication", note=NO_FILE)
        rated = counts.sum(axis=1) > 0
        n, got = int(rated.sum()), int((found >= 0).sum())
        if not n:
            why = "no item has a rating"
            return undefined_metric(ref, spec, reason="no_items", note=why, n=0)
        note = self._note(policy, counts, found)
        if spec.name != "resolved.share":
            return counted(ref, spec, k=got, n=n, note=note)
        label = params["label"]
        if label not in self.groups.labels():
            return not_computed(ref, note=f"no rating is labelled `{label}`")
        k = int((found == self.groups.labels().index(label)).sum())
        return _share(ref, spec, k=k, n=got, note=note)

    def _note(self, policy: str, counts: Ints, found: NDArray[np.int64]) -> str | None:
        """What a reader should know of the items that a policy gives a label to, or none."""
        single = int((counts.sum(axis=1) == 1).sum())
        one = f"{single} of the items have one rating, which nobody could contradict"
        if policy == "unanimous":
            return one if single else None
        if policy == "adjudicated":
            given = self.groups.ratings.adjudicated
            assert given is not None
            used = int(((given >= 0) & (counts.sum(axis=1) > 0)).sum())
            return joined(f"{used} by the adjudicator", one if single else None)
        top = counts.max(axis=1, keepdims=True)
        even = int((((counts == top) & (top > 0)).sum(axis=1) > 1).sum())
        if not even:
            return None
        if self.split == "exclude":
            return f"{even} items are equally split and get no label"
        own = "" if (found < len(self.groups.labels())).all() else " of its own"
        return f"{even} items are equally split and get the label `tie`{own}"

    def _overturned(self, ref: MetricRef, spec: MetricSpec, counts: Ints) -> Metric:
        given = self.groups.ratings.adjudicated
        if given is None:
            return undefined_metric(ref, spec, reason="no_adjudication", note=NO_FILE)
        majority = self.majority(counts)
        among = given >= 0
        known = among & (majority >= 0) & (majority < len(self.groups.labels()))
        lost = int((among & (counts.sum(axis=1) > 0)).sum() - known.sum())
        note = f"{lost} adjudicated items without a majority are left out" if lost else None
        k = int((majority[known] != given[known]).sum())
        return counted(ref, spec, k=k, n=int(known.sum()), note=note)

    def _selected(self, ref: MetricRef, spec: MetricSpec, params: Mapping[str, str]) -> Plan:
        group = Group.of(params)
        counts = self.groups.counts(group)
        rated = int((counts.sum(axis=1) > 0).sum())
        left = int((unanimous(counts) >= 0).sum())
        if not rated:
            why = "no item has a rating"
            return undefined_metric(ref, spec, reason="no_items", note=why, n=0)
        if not left:
            why = "annotators differ on every item, so none is left"
            return undefined_metric(ref, spec, reason="empty_denominator", note=why, n=rated)
        note = f"{left} of {rated} items are left"
        block = selection_block(group, counts)
        if spec.name == "selection.distance":
            return Later(block, lambda sums: self._apart(ref, spec, sums, n=rated, note=note))
        label = params["label"]
        if label not in self.groups.labels():
            return not_computed(ref, note=f"no rating is labelled `{label}`")
        at = self.groups.labels().index(label)

        def of(sums: Floats) -> Floats:
            found: Floats = shift_of(sums)[..., at]
            return found

        def finish(sums: Sums) -> Metric:
            return estimated(
                ref,
                spec,
                sums,
                of=of,
                resampling=self.resampling,
                n=rated,
                reason="empty_denominator",
                why="no item is left",
                notes=[note],
                same=NOT_EXCLUDED if left == rated else None,
            )

        return Later(block, finish)

    def _apart(self, ref: MetricRef, spec: MetricSpec, sums: Sums, *, n: int, note: str) -> Metric:
        """The distance, with an interval that can reach 0.

        A distance that is 0 is not 0 in any resample, so percentiles of it would leave 0 out
        every time. The distance is off by no more than the shifts are together, since half the
        sum of absolute values is a norm; how far these may be off is resampled.
        """
        value = float(distance_of(sums.all))
        notes = [note, _BIASED]
        interval = None
        if sums.draws is None or self.resampling is None:
            notes.append(NO_BOOTSTRAP)
        else:
            off = np.abs(shift_of(sums.draws) - shift_of(sums.all)).sum(axis=-1) / 2
            undefined = int(np.isnan(off).sum())
            if undefined:
                notes.append(f"undefined in {undefined} of {len(off)} resamples")
            if undefined <= MOST_UNDEFINED * len(off) and np.nanmax(off) > ROUNDING:
                far = float(np.quantile(off[~np.isnan(off)], LEVEL))
                method = f"how far resampled shifts lie from these, {method_words(self.resampling)}"
                interval = Interval(max(0.0, value - far), min(1.0, value + far), LEVEL, method)
            elif not undefined:
                notes.append(f"{NOT_EXCLUDED} in all {len(off)} resamples, so there is no interval")
        return Metric(
            ref, value, spec.unit, spec.summary, n=n, interval=interval, note=joined(*notes)
        )


def _share(ref: MetricRef, spec: MetricSpec, *, k: int, n: int, note: str | None) -> Metric:
    """The share k / n of items with its Wilson interval."""
    if not n:
        why = joined("no item gets a label", note)
        return undefined_metric(ref, spec, reason="empty_denominator", note=why, n=0)
    interval = Interval(*wilson_interval(k, n, level=LEVEL), LEVEL, "wilson")
    return Metric(ref, k / n, spec.unit, spec.summary, k=k, n=n, interval=interval, note=note)
