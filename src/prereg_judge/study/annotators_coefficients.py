"""Study `annotators`: agreement of ratings, with and without correction for chance.

Turns counts of ratings into the metrics of agreement, kappa, AC1, alpha and of the map that merges
labels. The formulas are in `stats`; which value is undefined, and why, is here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Literal

import numpy as np

from prereg_judge.stats.agreement import (
    Coefficient,
    ac1_of,
    agreement_of,
    cohen_of,
    cohen_sums,
    fleiss_of,
    linear_weights,
    pair_sums,
    quadratic_weights,
    share_sums,
    weighted_of,
)
from prereg_judge.stats.alpha import (
    interval_alpha_of,
    interval_alpha_sums,
    nominal_alpha_of,
    nominal_alpha_sums,
    ordinal_alpha_of,
    ordinal_alpha_sums,
)
from prereg_judge.stats.landis_koch import landis_koch
from prereg_judge.stats.resample import ratio
from prereg_judge.stats.sparse import sparse_limits
from prereg_judge.study.annotators_groups import Group, Ints, RatingGroups
from prereg_judge.study.annotators_sums import Block, Floats, Later, Plan, Sums, estimated
from prereg_judge.study.counted import LEVEL, not_computed, undefined_metric
from prereg_judge.study.metric import Metric, MetricRef, MetricSpec
from prereg_judge.study.outcomes import Resampling
from prereg_judge.study.pools import vote_pairs

NO_PAIR = "no item has two ratings"
ONE_LABEL = "every rating that has a partner is the same label: nothing to agree on beyond chance"
ONE_LABEL_OF_BOTH = (
    "every item that both rated has one and the same label from both: nothing to agree on beyond "
    "chance"
)
ONE_NUMBER = (
    "every rating that has a partner has the same number: nothing to agree on beyond chance"
)
NO_SCALE = "no order of the labels is registered (`scale`)"
NO_MAP = "no map of fine labels to coarse ones is registered"
_ALIKE = "no two ratings of an item differ: it is 1"

_Columns = Callable[[], Floats]
_Statistic = Callable[[Floats], Floats]
_Part = Literal["value", "observed", "expected"]


def part_of(name: str) -> _Part:
    """Which part of a coefficient a metric of this name is."""
    if name.endswith(".observed"):
        return "observed"
    return "expected" if name.endswith(".expected") else "value"


def convention(kappa: float) -> str:
    """What Landis and Koch call a kappa, marked as a convention."""
    return f"by the convention of Landis and Koch (1977): {landis_koch(kappa)}"


def pair_counts(counts: Ints) -> tuple[int, int, int]:
    """Of counts (n, L): pairs of ratings that differ, all pairs, items with a pair."""
    differing, pairs = vote_pairs(counts)
    return int(differing.sum()), int(pairs.sum()), int((pairs > 0).sum())


def lacking(ref: MetricRef, spec: MetricSpec, counts: Ints) -> Metric | None:
    """The metric as undefined where no item has two ratings; None where one has."""
    total = counts.sum(axis=1)
    if not total.any():
        why = "no item has a rating"
        return undefined_metric(ref, spec, reason="no_items", note=why, n=0)
    if not (total > 1).any():
        return undefined_metric(ref, spec, reason="single_annotator", note=NO_PAIR, n=0)
    return None


# With fewer items than this that hold a disagreement, intervals are too narrow: measured, a label
# was said to stand out in up to a third of tables in which none did.
FEW_DIFFERING = 25


def differing_items(counts: Ints) -> int:
    """Items of which two ratings differ, of counts (n, L)."""
    return int((vote_pairs(counts)[0] > 0).sum())


def few_words(items: int, sums: Sums) -> str | None:
    """A clause on an interval that rests on so few items that differ; None where they suffice."""
    if sums.draws is None or not 0 < items < FEW_DIFFERING:
        return None
    return f"{few_differ(items)}, so the interval is too narrow"


def few_differ(items: int) -> str:
    """That so few items differ, as a clause."""
    return "1 item differs" if items == 1 else f"only {items} items differ"


class Coefficients:
    """Plans the metrics of agreement of a table of ratings.

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
        """One metric of agreement."""
        if spec.name.startswith(("kappa.cohen", "kappa.weighted")):
            return self._two(ref, spec, params)
        if spec.name.startswith("merge."):
            return self._merged(ref, spec, Group.of(params))
        group = Group.of(params)
        counts = self.groups.counts(group)
        if (without := lacking(ref, spec, counts)) is not None:
            return without
        if spec.name == "agreement.rate":
            return self._agreement(ref, spec, group, counts)
        if spec.name == "alpha":
            return self._alpha(ref, spec, group, params["level"])
        return self._shares(ref, spec, group, counts)

    def _agreement(self, ref: MetricRef, spec: MetricSpec, group: Group, counts: Ints) -> Plan:
        def finish(sums: Sums) -> Metric:
            differing, pairs = vote_pairs(counts)
            rows = np.flatnonzero(pairs)
            n = int(pairs.sum())
            alike = (1.0 - differing[rows] / pairs[rows]).astype(np.float64)
            return estimated(
                ref,
                spec,
                sums,
                of=agreement_of,
                resampling=self.resampling,
                k=n - int(differing.sum()),
                n=n,
                reason="single_annotator",
                why=NO_PAIR,
                notes=[f"{n} pairs of ratings on {len(rows)} items"],
                least=sparse_limits(alike, within=(0.0, 1.0), level=LEVEL),
            )

        return Later(Block(("pairs", *group.key), lambda: pair_sums(counts)), finish)

    def _shares(self, ref: MetricRef, spec: MetricSpec, group: Group, counts: Ints) -> Plan:
        """Fleiss' kappa and AC1: agreement and the labels' shares are all they need."""
        of = fleiss_of if spec.name.startswith("kappa.fleiss") else ac1_of
        _, _, items = pair_counts(counts)
        single = int((counts.sum(axis=1) == 1).sum())
        counts_for_chance = single and not spec.name.endswith(".observed")
        lone = f"{single} items with one rating count for chance alone"
        notes = [lone if counts_for_chance else None]
        if spec.name.startswith("ac1"):
            notes.append(f"chance is shared among the {counts.shape[1]} labels of the table")
            if int((counts.sum(axis=0) > 0).sum()) == 1:
                notes.append(ONE_LABEL)
        block = Block(("shares", *group.key), lambda: share_sums(counts))

        def finish(sums: Sums) -> Metric:
            few = few_words(differing_items(counts), sums)
            return self._chance(ref, spec, sums, of=of, n=items, few=few, notes=notes)

        return Later(block, finish)

    def _chance(
        self,
        ref: MetricRef,
        spec: MetricSpec,
        sums: Sums,
        *,
        of: Callable[[Floats], Coefficient],
        n: int,
        few: str | None,
        notes: list[str | None],
        why: str = ONE_LABEL,
    ) -> Metric:
        """A coefficient, or the observed or expected agreement in it."""
        part = part_of(spec.name)

        def one(s: Floats) -> Floats:
            found: Floats = np.asarray(getattr(of(s), part), dtype=np.float64)
            return found

        whole = of(sums.all)
        observed, expected = float(whole.observed), float(whole.expected)
        by_weight = " by weight" if spec.name == "kappa.weighted" else ""
        shown = [f"P_o {observed:.3f}, P_e {expected:.3f}{by_weight}"] if part == "value" else []
        if part == "value" and spec.name.startswith("kappa.") and not np.isnan(whole.value):
            shown.append(convention(float(whole.value)))
        return estimated(
            ref,
            spec,
            sums,
            of=one,
            resampling=self.resampling,
            n=n,
            reason="one_label",
            why=why,
            # Agreement by chance does not hang on the items that differ.
            notes=[*shown, *notes, few if part != "expected" else None],
            same=_ALIKE if part == "value" and observed == 1 else None,
        )

    def _at_level(self, level: str, group: Group) -> tuple[_Columns, _Statistic] | str:
        """Alpha's sums and what it is of them; or why a level has no meaning here, as words."""
        counts = self.groups.counts(group)
        if level == "nominal":
            return lambda: nominal_alpha_sums(counts), nominal_alpha_of
        if group.coarse:
            return "no order of the coarse labels is registered"
        if level == "ordinal":
            ranks = self.groups.ranks
            if ranks is None:
                return NO_SCALE
            return lambda: ordinal_alpha_sums(counts[:, ranks]), ordinal_alpha_of
        values = self.groups.ratings.values
        if values is None:
            return "no numbers for the labels are registered (`scale.values`)"
        return lambda: interval_alpha_sums(counts, values=values), interval_alpha_of

    def _alpha(self, ref: MetricRef, spec: MetricSpec, group: Group, level: str) -> Plan:
        counts, found = self.groups.counts(group), self._at_level(level, group)
        if isinstance(found, str):
            return undefined_metric(ref, spec, reason="no_order", note=found)
        columns, of = found
        differing, _, items = pair_counts(counts)

        def finish(sums: Sums) -> Metric:
            return estimated(
                ref,
                spec,
                sums,
                of=of,
                resampling=self.resampling,
                n=items,
                reason="one_label",
                why=ONE_NUMBER if level == "interval" else ONE_LABEL,
                notes=[few_words(differing_items(counts), sums)],
                same=_ALIKE if not differing else None,
            )

        return Later(Block(("alpha", level, *group.key), columns), finish)

    def _two(self, ref: MetricRef, spec: MetricSpec, params: Mapping[str, str]) -> Plan:
        """Kappa of two annotators, plain or weighted."""
        one, two = params["annotator"], params["other"]
        if wrong := wrong_pair(one, two, self.groups.ratings.annotators):
            return not_computed(ref, note=wrong)
        weighted = spec.name == "kappa.weighted"
        ranks = self.groups.ranks
        if weighted and ranks is None:
            return undefined_metric(ref, spec, reason="no_order", note=NO_SCALE)
        stratum, coarse = params.get("stratum"), params.get("labels") == "coarse"
        first, second = (
            self.groups.codes(name, stratum=stratum, coarse=coarse) for name in (one, two)
        )
        both = (first >= 0) & (second >= 0)
        shared, differing = int(both.sum()), int((both & (first != second)).sum())
        if not shared:
            why = f"no item is rated by both `{one}` and `{two}`"
            return undefined_metric(ref, spec, reason="single_annotator", note=why, n=0)
        labels = len(self.groups.labels(coarse=coarse))
        of: Callable[[Floats], Coefficient] = cohen_of
        if weighted and ranks is not None:
            place = np.argsort(ranks)  # of each label in the order
            by = linear_weights if params["weights"] == "linear" else quadratic_weights
            of = partial(weighted_of, weights=by(labels)[np.ix_(place, place)])
        block = Block(
            ("cohen", one, two, stratum, coarse),
            lambda: cohen_sums(first, second, labels=labels),
        )

        def finish(sums: Sums) -> Metric:
            few = few_words(differing, sums)
            return self._chance(
                ref, spec, sums, of=of, n=shared, few=few, notes=[], why=ONE_LABEL_OF_BOTH
            )

        return Later(block, finish)

    def _merged(self, ref: MetricRef, spec: MetricSpec, group: Group) -> Plan:
        """What the map does to agreement, and which disagreement it hides."""
        if self.groups.ratings.coarse is None:
            return not_computed(ref, note=NO_MAP)
        fine = self.groups.counts(group)
        merged = self.groups.counts(Group(group.pool, group.stratum, coarse=True))
        if (without := lacking(ref, spec, fine)) is not None:
            return without
        if spec.name == "merge.gain":
            return self._gain(ref, spec, group, fine, merged)
        differing, hidden = vote_pairs(fine)[0], vote_pairs(fine)[0] - vote_pairs(merged)[0]
        k, n = int(hidden.sum()), int(differing.sum())
        rate = spec.name.endswith(".rate")
        rows = np.flatnonzero(differing)
        least = None
        if rate and len(rows):
            each = hidden[rows] / differing[rows]
            least = sparse_limits(each, within=(0.0, 1.0), level=LEVEL)

        def of(sums: Floats) -> Floats:
            found: Floats = ratio(sums[..., 0], sums[..., 1]) if rate else sums[..., 0]
            return found

        def finish(sums: Sums) -> Metric:
            return estimated(
                ref,
                spec,
                sums,
                of=of,
                resampling=self.resampling,
                k=k,
                n=n,
                reason="empty_denominator",
                why="no two ratings of an item differ",
                same="no disagreement is hidden" if not k else None,
                least=least,
            )

        block = Block(("hidden", *group.key), lambda: np.column_stack([hidden, differing]))
        return Later(block, finish)

    def _gain(
        self, ref: MetricRef, spec: MetricSpec, group: Group, fine: Ints, merged: Ints
    ) -> Plan:
        differing, pairs, _ = pair_counts(fine)
        after = pair_counts(merged)[0]

        def of(sums: Floats) -> Floats:
            found: Floats = agreement_of(sums[..., 2:]) - agreement_of(sums[..., :2])
            return found

        def finish(sums: Sums) -> Metric:
            return estimated(
                ref,
                spec,
                sums,
                of=of,
                resampling=self.resampling,
                k=differing - after,
                n=pairs,
                reason="single_annotator",
                why=NO_PAIR,
                notes=[
                    f"{pairs - differing} of {pairs} pairs of ratings agree on fine labels and "
                    f"{pairs - after} on coarse ones"
                ],
                same="no disagreement is hidden" if differing == after else None,
            )

        def columns() -> Floats:
            found: Floats = np.concatenate([pair_sums(fine), pair_sums(merged)], axis=1)
            return found

        return Later(Block(("gain", *group.key), columns), finish)


def wrong_pair(one: str, two: str, names: tuple[str, ...]) -> str | None:
    """What is wrong with two names of annotators, as words; None where nothing is."""
    if two not in names:
        return f"there is no annotator `{two}`"
    return f"compares `{one}` with itself" if one == two else None
