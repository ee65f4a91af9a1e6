"""Study `judge-pools`: which pool of annotators does a judge side with?

Everything about a judge is counted over the same items: those on which both pools have a label and
the judge has a verdict after its two orders were resolved. Only its order metrics look at all items
that it judged in both orders.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from prereg_judge.stats.paired import exact_sign_test
from prereg_judge.stats.sparse import sparse_limits
from prereg_judge.study.counted import LEVEL, counted, not_computed, undefined_metric
from prereg_judge.study.judge_pools_matches import Matches, matches_of
from prereg_judge.study.metric import Catalogue, Metric, MetricRef, MetricSpec
from prereg_judge.study.outcomes import StudyInput, TableInput
from prereg_judge.study.pools_view import View, Views, resampler_of
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
from prereg_judge.votes import MISSING, SlotVerdicts
from prereg_judge.words import SetRole

STUDY = "judge-pools"

# On an item on which the pools differ, a judge can be on neither side.
NEITHER = "neither"

LEAN_SPECS = (
    *count_and_rate(
        "agreement",
        "items on which the judge gives the label of a pool's majority",
        required=("judge", "pool"),
        optional=VIEW,
    ),
    MetricSpec(
        "lean.difference",
        "agreement of the judge with pool 1 minus agreement with pool 2, on the same items",
        "share",
        ("judge",),
        VIEW,
        (-1, 1),
    ),
    MetricSpec(
        "lean.sign_test.p",
        "exact two-sided sign test: items on which only pool 1 agrees with the judge against items "
        "on which only pool 2 does",
        "probability",
        ("judge",),
        VIEW,
        (0, 1),
    ),
    *count_and_rate(
        "split",
        "of the items on which the pools' majorities differ, those on which the judge sides with a "
        "pool, or with neither",
        required=("judge", "side"),
        optional=VIEW,
    ),
    MetricSpec(
        "split.matched.rate",
        "of the items on which the pools' majorities differ and the judge sides with one of them, "
        "those on which it sides with a pool (pool 1 unless another is named)",
        "share",
        ("judge",),
        ("pool", *VIEW),
        (0, 1),
    ),
    *count_and_rate(
        "order.reversal",
        "items on which the judge prefers one answer in one order and the other answer in the "
        "other, so that the same place wins twice",
        required=("judge",),
        optional=("key",),
    ),
    MetricSpec(
        "order.consistent.rate",
        "items on which the judge says the same of the two answers in both orders",
        "share",
        ("judge",),
        ("key",),
        (0, 1),
    ),
)
_BY_NAME = {spec.name: spec for spec in LEAN_SPECS}

protocol_words = no_words
curves = no_curves


def catalogue(roles: Sequence[SetRole] = ()) -> Catalogue:
    """Every metric that may be registered; a table has no item sets, so the roles do not matter."""
    del roles
    return table_catalogue(STUDY, LEAN_SPECS)


def parameters(table: TableInput) -> dict[str, tuple[str, ...]]:
    """The values that each parameter can have for a table."""
    return {
        **view_parameters(table),
        "judge": tuple(table.judges),
        "pool": table.pools,
        "side": (*table.pools, NEITHER),
    }


class LeanComputer:
    """Computes the metrics of `LEAN_SPECS`, looking at the items of each judge once.

    Parameters
    ----------
    data
        Its table, its rule for resolving orders and its bootstrap; nothing else is looked at.
    """

    def __init__(self, data: StudyInput) -> None:
        assert data.table is not None
        self.table = data.table
        self.resolve = data.resolve
        self.resampling = data.resampling
        self.views = Views(data.table)
        self._values = parameters(data.table)
        self._found: dict[tuple[str, str, str], Matches] = {}

    def __call__(self, ref: MetricRef) -> Metric:
        """One metric, with a value or a typed reason for having none."""
        return table_metric(ref, specs=_BY_NAME, values=self._values, make=self._make)

    def _make(self, ref: MetricRef, spec: MetricSpec, params: Mapping[str, str]) -> Metric:
        view = self.views(params)
        if not view.counts.sided:
            return undefined_metric(ref, spec, reason="no_sides")
        verdicts = self.table.judges[params["judge"]].get(view.key)
        if verdicts is None:
            return not_computed(ref, note=f"the judge has no verdicts under the key {view.key}")
        if spec.name.startswith("order."):
            return _order_metric(ref, spec, verdicts)
        if self.resolve is None:
            return not_computed(ref, note="no rule makes one verdict of the two orders")
        if self.resolve != "first" and (verdicts.ba == MISSING).all():
            note = f"`{self.resolve}` needs both orders"
            return undefined_metric(ref, spec, reason="one_order", note=note)
        name = (params["judge"], view.key, view.subset)
        if name not in self._found:
            self._found[name] = matches_of(view, verdicts, rule=self.resolve)
        found = self._found[name]
        if not len(found.rows):
            why = joined("no item has a label of both pools and a verdict", found.note)
            return undefined_metric(ref, spec, reason="no_items", note=why, n=0)
        return self._about(ref, spec, params, view=view, found=found)

    def _about(
        self,
        ref: MetricRef,
        spec: MetricSpec,
        params: Mapping[str, str],
        *,
        view: View,
        found: Matches,
    ) -> Metric:
        one, two = found.with_pool[:, 0], found.with_pool[:, 1]
        if spec.name == "lean.difference":
            return self._lean(ref, spec, view=view, found=found)
        if spec.name == "lean.sign_test.p":
            plus, minus = int((one & ~two).sum()), int((two & ~one).sum())
            sides = (
                f"{plus} with {self.table.pools[0]} only, {minus} with {self.table.pools[1]} only"
            )
            p = exact_sign_test(plus, minus)
            said = joined(sides, found.note)
            return Metric(ref, p, spec.unit, spec.summary, k=plus, n=plus + minus, note=said)
        if spec.name.startswith("agreement."):
            with_it = found.with_pool[:, self.table.pools.index(params["pool"])]
            return counted(ref, spec, k=int(with_it.sum()), n=len(with_it), note=found.note)
        # On items on which the pools differ the judge is with one of them, the other or neither.
        among, pool = found.differ, params.get("pool", params.get("side", self.table.pools[0]))
        if spec.name == "split.matched.rate":
            among = among & (one | two)
        with_it = (
            ~(one | two) if pool == NEITHER else found.with_pool[:, self.table.pools.index(pool)]
        )
        k, n = int((with_it & among).sum()), int(among.sum())
        return counted(ref, spec, k=k, n=n, note=found.note)

    def _lean(self, ref: MetricRef, spec: MetricSpec, *, view: View, found: Matches) -> Metric:
        step = found.with_pool[:, 0].astype(np.int64) - found.with_pool[:, 1]
        n = len(step)
        draws = None
        if self.resampling is not None:
            resampler = resampler_of(view.counts, found.rows, resampling=self.resampling)
            assert resampler is not None
            draws = resampler.totals(step[:, None])[:, 0] / n
        return bootstrapped(
            ref,
            spec,
            value=int(step.sum()) / n,
            n=n,
            draws=draws,
            resampling=self.resampling,
            notes=[found.note],
            least=sparse_limits(step, within=(-1.0, 1.0), level=LEVEL),
        )


def _order_metric(ref: MetricRef, spec: MetricSpec, verdicts: SlotVerdicts) -> Metric:
    given = (verdicts.ab != MISSING) & (verdicts.ba != MISSING)
    lost = len(given) - int(given.sum())
    if not given.any():
        why = "no item has a verdict in both orders"
        return undefined_metric(ref, spec, reason="one_order", note=why, n=0)
    ab, ba = np.sign(verdicts.ab[given]), np.sign(verdicts.ba[given])
    hit = ab == ba if spec.name.startswith("order.consistent") else ab * ba == -1
    note = f"{lost} of {len(given)} items lack the verdict of an order" if lost else None
    return counted(ref, spec, k=int(hit.sum()), n=len(hit), note=note)


def lean_metric(data: StudyInput, ref: MetricRef) -> Metric:
    """One metric of `LEAN_SPECS`; for many of them a `LeanComputer` is faster.

    Parameters
    ----------
    data
        With a table.
    ref
        What to compute, with its `judge`.

    Returns
    -------
    Metric
        With a value or a typed reason for having none.
    """
    return LeanComputer(data)(ref)


def compute(data: StudyInput, refs: Iterable[MetricRef]) -> dict[MetricRef, Metric]:
    """The metrics that were registered.

    Parameters
    ----------
    data
        With a table.
    refs
        References with their parameters; `.ci_low` and `.ci_high` give a limit of the interval.

    Returns
    -------
    dict
        One entry for every reference, in the order given; undefined with a typed reason where
        there is no value, never absent.
    """
    computer = LeanComputer(data)
    return {ref: computer(ref) for ref in refs}


def summary(data: StudyInput) -> tuple[Metric, ...]:
    """The full list that a report shows, judge by judge."""
    computer = LeanComputer(data)
    return tuple(computer(ref) for ref in lean_refs(computer.table))


def lean_refs(table: TableInput) -> Iterator[MetricRef]:
    """Every metric of every judge of a table, under the registered key and over all items."""
    for judge in table.judges:
        for pool in table.pools:
            yield from both("agreement", judge=judge, pool=pool)
        yield MetricRef.of("lean.difference", judge=judge)
        yield MetricRef.of("lean.sign_test.p", judge=judge)
        for side in (*table.pools, NEITHER):
            yield from both("split", judge=judge, side=side)
        yield MetricRef.of("split.matched.rate", judge=judge)
        yield from both("order.reversal", judge=judge)
        yield MetricRef.of("order.consistent.rate", judge=judge)


@dataclass(frozen=True)
class JudgeRow:
    """A judge's order effect beside its lean.

    Attributes
    ----------
    judge
        Its name.
    reversal
        `order.reversal.rate`.
    lean
        `lean.difference`.
    """

    judge: str
    reversal: Metric
    lean: Metric


def side_by_side(data: StudyInput) -> tuple[JudgeRow, ...]:
    """Order reversal against lean, one row a judge; each metric with its n and its interval."""
    computer = LeanComputer(data)
    return tuple(
        JudgeRow(
            judge,
            computer(MetricRef.of("order.reversal.rate", judge=judge)),
            computer(MetricRef.of("lean.difference", judge=judge)),
        )
        for judge in computer.table.judges
    )


def plain_words(data: StudyInput) -> list[str]:
    """What a reader must know before quoting a number of this study, as sentences.

    Parameters
    ----------
    data
        With a table.

    Returns
    -------
    list of str
        For each judge, where it applies: that this many items cannot tell with which pool it
        sides; that more of its verdicts turn round with the order than its lean is.
    """
    said = []
    one, two = data.table.pools if data.table is not None else ("", "")
    for row in side_by_side(data):
        lean, reversal, seen = row.lean, row.reversal, row.lean.interval
        if lean.value is None:
            continue
        if seen is not None and seen.low <= 0 <= seen.high:
            said.append(
                f"{lean.n} items do not tell whether {row.judge} sides with {one} or with {two}: "
                f"its lean {lean.value:+.3f} [{seen.low:+.3f}, {seen.high:+.3f}] may be nothing."
            )
        if reversal.value is not None and reversal.value > abs(lean.value):
            said.append(
                f"{row.judge} prefers one answer in one order and the other in the other on "
                f"{reversal.k} of {reversal.n} items ({reversal.value:.1%}; its lean is "
                f"{abs(lean.value):.1%} of {lean.n}). How much of that is the order and how much "
                "its own noise is not known here: a study `pairwise` with two passes tells."
            )
    return said
