"""Study `annotators`: which labels take part in disagreements, and whether one of them stands out.

Every pair of ratings that differ involves two labels. If annotators slipped at random, a label
would take part as often as its frequency makes it; a label that is not told apart from others takes
part more often.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from prereg_judge.stats.proportions import wilson_interval
from prereg_judge.stats.resample import Percentile, percentile_interval, ratio
from prereg_judge.stats.sparse import ROUNDING
from prereg_judge.study.annotators_coefficients import (
    FEW_DIFFERING,
    differing_items,
    few_differ,
    few_words,
    lacking,
)
from prereg_judge.study.annotators_groups import Group, Ints, RatingGroups
from prereg_judge.study.annotators_sums import Block, Drawing, Floats, Later, Plan, Sums, estimated
from prereg_judge.study.counted import LEVEL, not_computed
from prereg_judge.study.metric import Metric, MetricRef, MetricSpec
from prereg_judge.study.outcomes import Resampling
from prereg_judge.study.pools import vote_pairs

_NONE = "no two ratings of an item differ"
_BOTH = "with two labels both take part in every disagreement"


def label_block(group: Group, counts: Ints) -> Block:
    """Sums from which every label's part in disagreements follows.

    2 L columns: first how many pairs of ratings that differ involve each label, then how often
    each label is a member of a pair.
    """
    return Block(("labels", *group.key), lambda: _label_sums(counts))


def _label_sums(counts: Ints) -> Ints:
    total = counts.sum(axis=1, keepdims=True)
    involved = counts * (total - counts)
    members = counts * np.maximum(total - 1, 0)
    return np.concatenate([involved, members], axis=1)


def shares_of(sums: Floats) -> Floats:
    """Share of the disagreements that involve each label, shape (..., 2 L) to (..., L).

    NaN where nothing differs.
    """
    involved = sums[..., : sums.shape[-1] // 2]
    # Each pair that differs involves two labels.
    return ratio(involved, involved.sum(axis=-1, keepdims=True) / 2)


def excess_of(sums: Floats) -> Floats:
    """That share minus what the labels' frequencies p alone make of it, shape (..., L).

    Two labels drawn by frequency, given that they differ, involve label l in the share
    2 p_l (1 - p_l) / (1 - sum of p squared).
    """
    members = sums[..., sums.shape[-1] // 2 :]
    p = ratio(members, members.sum(axis=-1, keepdims=True))
    differ = 1.0 - (p * p).sum(axis=-1, keepdims=True)
    excess = shares_of(sums) - ratio(2 * p * (1 - p), differ)
    # What rounding leaves of none, e.g. with two labels, is none.
    found: Floats = np.where(np.abs(excess) < ROUNDING, 0.0, excess)
    return found


class Disagreements:
    """Plans the metrics of labels in disagreements.

    Parameters
    ----------
    groups
        The ratings.
    resampling
        The registered bootstrap.
    """

    def __init__(self, groups: RatingGroups, resampling: Resampling | None) -> None:
        self.groups = groups
        self.resampling = resampling

    def plan(self, ref: MetricRef, spec: MetricSpec, params: Mapping[str, str]) -> Plan:
        """The share of a label, or its excess."""
        group, label = Group.of(params), params["label"]
        labels = self.groups.labels(coarse=group.coarse)
        if label not in labels:
            return not_computed(ref, note=f"there is no such label here: {', '.join(labels)}")
        at = labels.index(label)
        counts = self.groups.counts(group)
        if (without := lacking(ref, spec, counts)) is not None:
            return without
        differing = int(vote_pairs(counts)[0].sum())
        total = counts.sum(axis=1)
        involved = int((counts[:, at] * (total - counts[:, at])).sum())
        share = spec.name == "disagreement.share"
        two = int((counts[total > 1].sum(axis=0) > 0).sum()) == 2

        def of(sums: Floats) -> Floats:
            found: Floats = (shares_of if share else excess_of)(sums)[..., at]
            return found

        items = differing_items(counts)

        def finish(sums: Sums) -> Metric:
            found = estimated(
                ref,
                spec,
                sums,
                of=of,
                resampling=self.resampling,
                k=involved,
                n=differing,
                reason="empty_denominator",
                why=_NONE,
                notes=[_BOTH if two else None, few_words(items, sums) if share else None],
            )
            if share or two or not few_words(items, sums):
                return found
            # Measured, intervals at 95% hold the value in 69% of samples: worse than none.
            why = f"{few_differ(items)}, too few for an interval ({FEW_DIFFERING} are needed)"
            return replace(found, interval=None, note=why)

        return Later(label_block(group, counts), finish)


@dataclass(frozen=True)
class Standing:
    """A label's part in the disagreements of a group.

    Attributes
    ----------
    label
        Its name.
    involved
        Pairs of ratings that differ and in which it is one of the two.
    share, excess
        As `disagreement.share` and `disagreement.excess`.
    low, high
        Limits of the excess at the level that all comparisons together keep; None where it does
        not vary or nothing is resampled.
    stands_out
        Whether disagreement sits in it.
    """

    label: str
    involved: int
    share: float
    excess: float
    low: float | None
    high: float | None
    stands_out: bool


@dataclass(frozen=True)
class Diagnosis:
    """Where the disagreements of a group are.

    Attributes
    ----------
    differing, items
        Pairs of ratings that differ, and the items that hold one.
    used
        Labels that somebody gave to an item with two ratings.
    standings
        Of these labels, the largest excess first.
    """

    differing: int
    items: int
    used: int
    standings: tuple[Standing, ...]

    @property
    def sits_in(self) -> tuple[Standing, ...]:
        """The labels that disagreement sits in; empty where it is spread."""
        return tuple(s for s in self.standings if s.stands_out)


def diagnosis_of(group: Group, *, groups: RatingGroups, drawing: Drawing) -> Diagnosis | None:
    """Whether the disagreements of a group sit in a label, or are spread.

    Parameters
    ----------
    group, groups
        Whose ratings.
    drawing
        The shared resamples.

    Returns
    -------
    Diagnosis or None
        None where no two ratings differ. Disagreement sits in a label that takes part in more
        than half of the pairs that differ, and of which resampling shows, at the level
        1 - 0.05 / L for L labels in use (Bonferroni), that its excess is above 0 and its share
        above 2 / L, what it would be if all labels took part alike. With two labels none can
        stand out, since both take part in every disagreement; nor can any where fewer than
        `FEW_DIFFERING` items hold a disagreement. A share that is 1 in every resample has Wilson's
        lower limit on the items that hold a disagreement.
        Slips that fall by the labels' frequencies give no excess to any label; slips to a label
        at random give some to rare labels, but not more than an even part. Hence both limits.
    """
    counts = groups.counts(group)
    differing = int(vote_pairs(counts)[0].sum())
    if not differing:
        return None
    sums = drawing.sums(label_block(group, counts))
    size = counts.shape[1]
    involved = sums.all[:size]
    used = np.flatnonzero(sums.all[size:] > 0)
    share, excess = shares_of(sums.all), excess_of(sums.all)
    items = differing_items(counts)
    found = []
    for at in map(int, used):
        limits = _limits(excess_of, sums, at, labels=len(used))
        low, high = (None, None) if limits is None else (limits.low, limits.high)
        parts = _limits(shares_of, sums, at, labels=len(used))
        above = low is not None and low > 0 and float(share[at]) > 0.5
        above = above and items >= FEW_DIFFERING
        # A share above a half that never varies is 1.
        least = parts.low if parts is not None else _wilson_low(items, labels=len(used))
        out = above and least > 2 / len(used)
        name = groups.labels(coarse=group.coarse)[at]
        found.append(
            Standing(name, int(involved[at]), float(share[at]), float(excess[at]), low, high, out)
        )
    found.sort(key=lambda s: -s.excess)
    return Diagnosis(differing, items, len(used), tuple(found))


def _limits(
    of: Callable[[Floats], Floats], sums: Sums, at: int, *, labels: int
) -> Percentile | None:
    """Limits of a label's share or excess with allowance for so many labels."""
    if sums.draws is None:
        return None
    return percentile_interval(of(sums.draws)[:, at], level=1.0 - (1.0 - LEVEL) / labels)


def _wilson_low(items: int, *, labels: int) -> float:
    """Lower limit of a share that is 1 in all of so many items, with the same allowance."""
    return wilson_interval(items, items, level=1.0 - (1.0 - LEVEL) / labels)[0]
