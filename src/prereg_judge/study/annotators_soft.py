"""Study `annotators`: labels kept as distributions, and distances between them.

Where annotators differ for good reason, the shares of their labels say more than any one label.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from prereg_judge.stats.resample import ratio
from prereg_judge.stats.soft import jensen_shannon_distance, shannon_entropy
from prereg_judge.stats.sparse import sparse_limits
from prereg_judge.study.annotators_coefficients import lacking
from prereg_judge.study.annotators_groups import Group, RatingGroups, soft
from prereg_judge.study.annotators_sums import Block, Floats, Later, Plan, Sums, estimated
from prereg_judge.study.counted import LEVEL, not_computed, undefined_metric
from prereg_judge.study.metric import Metric, MetricRef, MetricSpec
from prereg_judge.study.outcomes import Resampling


class Soft:
    """Plans the metrics of distributions of labels.

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
        """One metric of distributions."""
        if spec.name == "soft.entropy":
            return self._entropy(ref, spec, params)
        if spec.name == "soft.distance":
            return self._distance(ref, spec, params)
        return self._loss(ref, spec, params)

    def _entropy(self, ref: MetricRef, spec: MetricSpec, params: Mapping[str, str]) -> Plan:
        group = Group.of(params)
        counts = self.groups.counts(group)
        if (without := lacking(ref, spec, counts)) is not None:
            return without
        rows = np.flatnonzero(counts.sum(axis=1) > 1)
        note = "few ratings show less entropy than there is: biased downward"
        return self._mean(
            ref,
            spec,
            key=("entropy", *group.key),
            rows=rows,
            values=lambda: shannon_entropy(soft(counts[rows])),
            most=math.log2(max(2, counts.shape[1])),
            note=note,
        )

    def _distance(self, ref: MetricRef, spec: MetricSpec, params: Mapping[str, str]) -> Plan:
        one, two = params["pool"], params["other"]
        if two not in self.groups.ratings.pools:
            known = ", ".join(self.groups.ratings.pools)
            return not_computed(ref, note=f"there is no pool `{two}` (there is: {known})")
        if one == two:
            return not_computed(ref, note=f"compares `{one}` with itself")
        first, second = (self.groups.counts(Group(pool)) for pool in (one, two))
        rows = np.flatnonzero((first.sum(axis=1) > 0) & (second.sum(axis=1) > 0))
        if not len(rows):
            why = f"no item is rated by both `{one}` and `{two}`"
            return undefined_metric(ref, spec, reason="no_items", note=why, n=0)
        note = (
            "few ratings are further apart by chance than what they are drawn from: biased upward"
        )
        return self._mean(
            ref,
            spec,
            key=("distance", one, two),
            rows=rows,
            values=lambda: jensen_shannon_distance(soft(first[rows]), soft(second[rows])),
            most=1.0,
            note=note,
        )

    def _loss(self, ref: MetricRef, spec: MetricSpec, params: Mapping[str, str]) -> Plan:
        name, stratum = params["annotator"], params.get("stratum")
        code = self.groups.codes(name, stratum=stratum)
        counts = self.groups.counts(Group(None, stratum))
        rated = code >= 0
        if not rated.any():
            why = f"`{name}` rated no item here"
            return undefined_metric(ref, spec, reason="no_items", note=why, n=0)
        rows = np.flatnonzero(rated & (counts.sum(axis=1) > 1))
        if not len(rows):
            why = f"nobody else rated an item that `{name}` rated"
            return undefined_metric(ref, spec, reason="single_annotator", note=why, n=0)

        def values() -> Floats:
            own = (code[rows, None] == np.arange(counts.shape[1])).astype(np.int64)
            found: Floats = jensen_shannon_distance(
                own.astype(np.float64), soft(counts[rows] - own)
            )
            return found

        lone = int(rated.sum()) - len(rows)
        note = f"{lone} items that nobody else rated are left out" if lone else None
        return self._mean(
            ref, spec, key=("loss", name, stratum), rows=rows, values=values, most=1.0, note=note
        )

    def _mean(
        self,
        ref: MetricRef,
        spec: MetricSpec,
        *,
        key: tuple[str | bool | None, ...],
        rows: NDArray[np.intp],
        values: Callable[[], Floats],
        most: float,
        note: str | None,
    ) -> Plan:
        """The mean of a value over some items, as a ratio of sums over all."""
        found = np.asarray(values(), dtype=np.float64)

        def columns() -> Floats:
            made = np.zeros((self.groups.n, 2))
            made[rows, 0] = found
            made[rows, 1] = 1.0
            return made

        def of(sums: Floats) -> Floats:
            return ratio(sums[..., 0], sums[..., 1])

        def finish(sums: Sums) -> Metric:
            return estimated(
                ref,
                spec,
                sums,
                of=of,
                resampling=self.resampling,
                n=len(rows),
                reason="no_items",
                why="no item counts",
                notes=[note],
                least=sparse_limits(found, within=(0.0, most), level=LEVEL),
            )

        return Later(Block(key, columns), finish)
