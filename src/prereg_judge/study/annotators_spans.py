"""Study `annotators` for spans: F1 of annotators against each other.

F1 of two labellings is the same whichever of them is called the reference. Of several annotators
the shared marks and the sizes are summed over all pairs, so that a pair with more marks weighs
more. Knows labellings as counts of shared marks, not where a mark stands.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from prereg_judge.labelled import Labelled, Match
from prereg_judge.stats.f1 import f1
from prereg_judge.study.annotators_coefficients import wrong_pair
from prereg_judge.study.annotators_groups import Ints
from prereg_judge.study.annotators_sums import Block, Floats, Later, Plan, Sums, estimated
from prereg_judge.study.counted import not_computed, undefined_metric
from prereg_judge.study.metric import Metric, MetricRef, MetricSpec
from prereg_judge.study.outcomes import AnnotatorsInput, Resampling

# What the metrics of single labels have instead of a value, and what `plain_words` says.
NO_CHANCE = (
    "no coefficient that corrects for chance is given for spans that can stand anywhere: the "
    "number of places that nobody marked, the true negatives, is not defined, and as it grows "
    "kappa tends to F1 (Hripcsak and Rothschild 2005, doi:10.1197/jamia.M1733); read f1"
)
ONE_LABEL_AN_ITEM = "spans have no label of the item that could be counted or resolved; read f1"
NO_SPANS = "the annotators give one label an item and no spans; read agreement.rate"
KNOWN = "known from the table, so there is no interval"

_OF_SPANS = ("items.count", "ratings.count", "f1", "f1.pair")
_CHANCE = ("agreement.", "kappa.", "ac1", "alpha")


class SpanGroups:
    """Labellings of spans as the study looks at them; what is counted is kept.

    Parameters
    ----------
    data
        The labellings, who is in which pool, and what becomes of copies.
    """

    def __init__(self, data: AnnotatorsInput) -> None:
        assert data.labelled is not None
        self.labelled: Labelled = data.labelled
        self.pools = dict(data.pools)
        self.kept = self.labelled.kept[data.duplicates]

    @cached_property
    def annotators(self) -> tuple[str, ...]:
        """Names of the labellings that are in a pool, in the registered order."""
        among = {name for names in self.pools.values() for name in names}
        return tuple(name for name in self.labelled.names if name in among)

    @cached_property
    def strata(self) -> tuple[str, ...]:
        """Names of the strata, sorted."""
        return tuple(sorted({s for s in self.labelled.strata if s is not None}))

    @cached_property
    def units(self) -> int:
        """How many items there are, copies counted once."""
        unit = self.labelled.unit
        return int(unit.max()) + 1 if len(unit) else 0

    @cached_property
    def unit_strata(self) -> tuple[str | None, ...]:
        """Stratum of each item: that of its first row, shape (u,)."""
        _, first = np.unique(self.labelled.unit, return_index=True)
        return tuple(self.labelled.strata[row] for row in first)

    def rows(self, stratum: str | None) -> NDArray[np.bool_]:
        """Rows that count, of a stratum or all, shape (n,)."""
        if stratum is None:
            return self.kept
        return self.kept & np.array([s == stratum for s in self.labelled.strata], dtype=np.bool_)

    def members(self, pool: str | None) -> tuple[str, ...]:
        """Labellings of a pool; all for None."""
        return self.annotators if pool is None else self.pools[pool]

    def given(self, pool: str | None, stratum: str | None) -> Ints:
        """How many labellings of a pool each row has, shape (n,), 0 for rows that do not count."""
        at = [self.labelled.names.index(name) for name in self.members(pool)]
        found: Ints = self.labelled.given[:, at].sum(axis=1, dtype=np.int64) * self.rows(stratum)
        return found

    def pair_sums(
        self, pairs: tuple[tuple[str, str], ...], *, match: Match, stratum: str | None
    ) -> Ints:
        """Shared marks and the sizes of both, of pairs on rows that both marked, shape (u, 3)."""
        shared, rows = self.labelled.shared[match], self.rows(stratum)
        summed = np.zeros((len(rows), 3), dtype=np.int64)
        for one, two in pairs:
            a, b = self.labelled.names.index(one), self.labelled.names.index(two)
            both = rows & self.labelled.given[:, a] & self.labelled.given[:, b]
            for column, counts in enumerate((shared[:, a, b], shared[:, a, a], shared[:, b, b])):
                summed[:, column] += counts * both
        found = np.zeros((self.units, 3), dtype=np.int64)
        np.add.at(found, self.labelled.unit, summed)
        return found

    def both(self, one: str, two: str, stratum: str | None) -> int:
        """How many rows carry both labellings."""
        a, b = self.labelled.names.index(one), self.labelled.names.index(two)
        given = self.labelled.given
        return int((self.rows(stratum) & given[:, a] & given[:, b]).sum())


def f1_of(sums: Floats) -> Floats:
    """F1 of sums of shared marks and of the two sizes, shape (..., 3) to (...)."""
    return np.asarray(f1(sums[..., 0], sums[..., 1], sums[..., 2]), dtype=np.float64)


class Spans:
    """Plans the metrics of spans.

    Parameters
    ----------
    groups
        The labellings.
    resampling
        The registered bootstrap.
    """

    def __init__(self, groups: SpanGroups, resampling: Resampling | None) -> None:
        self.groups = groups
        self.resampling = resampling

    def plan(self, ref: MetricRef, spec: MetricSpec, params: Mapping[str, str]) -> Plan:
        """One metric; of those that only single labels have, why spans have none."""
        if spec.name not in _OF_SPANS:
            chance = spec.name.startswith(_CHANCE)
            return not_computed(ref, note=NO_CHANCE if chance else ONE_LABEL_AN_ITEM)
        pool, stratum = params.get("pool"), params.get("stratum")
        if spec.name == "f1.pair":
            one, two = params["annotator"], params["other"]
            if wrong := wrong_pair(one, two, self.groups.annotators):
                return not_computed(ref, note=wrong)
            return self._f1(ref, spec, ((one, two),), params)
        if spec.name == "f1":
            return self._f1(ref, spec, tuple(combinations(self.groups.members(pool), 2)), params)
        given = self.groups.given(pool, stratum)
        rated, several = int((given > 0).sum()), int((given > 1).sum())
        if spec.name == "ratings.count":
            value, k, n = int(given.sum()), None, rated
        else:
            value, k, n = several, several, rated
        return Metric(ref, float(value), spec.unit, spec.summary, k=k, n=n, note=KNOWN)

    def _f1(
        self,
        ref: MetricRef,
        spec: MetricSpec,
        pairs: tuple[tuple[str, str], ...],
        params: Mapping[str, str],
    ) -> Plan:
        match = next(m for m in self.groups.labelled.matches if m == params["match"])
        stratum = params.get("stratum")
        names = sorted({name for pair in pairs for name in pair})
        untyped = [
            name
            for name in names
            if not self.groups.labelled.typed[self.groups.labelled.names.index(name)]
        ]
        if match != "relaxed" and untyped:
            why = f"the marks of {', '.join(f'`{name}`' for name in untyped)} have no types"
            return undefined_metric(ref, spec, reason="no_types", note=why)
        if not self.groups.rows(stratum).any():
            return undefined_metric(ref, spec, reason="no_items", note="no row counts", n=0)
        met = [pair for pair in pairs if self.groups.both(*pair, stratum)]
        if not met:
            why = "no row is marked by two of these annotators"
            return undefined_metric(ref, spec, reason="single_annotator", note=why, n=0)
        return self._later(ref, spec, tuple(met), match=match, stratum=stratum)

    def _later(
        self,
        ref: MetricRef,
        spec: MetricSpec,
        pairs: tuple[tuple[str, str], ...],
        *,
        match: Match,
        stratum: str | None,
    ) -> Later:
        n = sum(self.groups.both(*pair, stratum) for pair in pairs)
        columns = self.groups.pair_sums(pairs, match=match, stratum=stratum)
        shared, first, second = (int(x) for x in columns.sum(axis=0))
        of_pairs = f" of {len(pairs)} pairs of annotators" if len(pairs) > 1 else ""

        def finish(sums: Sums) -> Metric:
            return estimated(
                ref,
                spec,
                sums,
                of=f1_of,
                resampling=self.resampling,
                n=n,
                reason="empty_denominator",
                why="there are no marks",
                notes=[f"{shared} marks shared of {first} and {second}, on {n} rows{of_pairs}"],
                same="every mark is shared" if 2 * shared == first + second else None,
            )

        key = ("f1", match, stratum, *(name for pair in pairs for name in pair))
        return Later(Block(key, lambda: columns), finish)
