"""Finds who computes a metric: one dispatch for every kind of study.

Knows the catalogue that a study gives, and nothing of what its metrics mean.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from prereg_judge.study.calls import CALL_SPECS, call_metric
from prereg_judge.study.counted import limit_of, not_computed, undefined_metric, wrong_names
from prereg_judge.study.metric import Catalogue, Metric, MetricRef, MetricSpec
from prereg_judge.study.outcomes import StudyInput
from prereg_judge.study.row_metrics import row_metric
from prereg_judge.study.rows import Row, of_group, rows_of
from prereg_judge.words import SET_ROLES, SetRole

# Computes a metric of an item set over the rows that it is about, of which there is at least one.
RowMetric = Callable[[StudyInput, MetricRef, MetricSpec, Sequence[Row]], Metric]


def catalogue_of(study: str, specs: Iterable[MetricSpec], *, roles: Sequence[SetRole]) -> Catalogue:
    """A study's catalogue: `{set}` filled in for each role, and the `calls.*` metrics.

    Parameters
    ----------
    study
        The study's name.
    specs
        The metrics of its item sets, with `{set}` still open.
    roles
        The roles of the item sets in the run; repetitions do no harm.

    Returns
    -------
    Catalogue
        With no role the `calls.*` metrics alone.
    """
    open_specs = tuple(specs)
    named = (
        replace(spec, name=spec.name.replace("{set}", role))
        for role in roles
        for spec in open_specs
    )
    return Catalogue(study, {**{spec.name: spec for spec in named}, **CALL_SPECS})


class Computer:
    """Computes metrics of one run, reading its rows once.

    Parameters
    ----------
    data
        The run.
    specs
        The metrics of item sets that the study gives, with `{set}` still open.
    makers
        Who computes a metric, by the part of its name between the set and the last word; what
        is not in it is a question of rows (`row_metrics`).
    """

    def __init__(
        self, data: StudyInput, *, specs: Iterable[MetricSpec], makers: dict[str, RowMetric]
    ) -> None:
        self.data = data
        self.rows: dict[SetRole, tuple[Row, ...]] = {r: rows_of(data, r) for r in SET_ROLES}
        self._specs = {spec.name.removeprefix("{set}."): spec for spec in specs}
        self._makers = makers

    def __call__(self, ref: MetricRef) -> Metric:
        """One metric, with a value or a typed reason for having none.

        A limit (`.ci_low`, `.ci_high`) is as undefined as its metric. `not_computed`: the study
        has no such metric, or not with these parameters. `no_items`: no row of that set, kind or
        stratum.
        """
        if ref.base != ref:
            return limit_of(ref, self(ref.base))
        head, _, tail = ref.name.partition(".")
        if head == "calls":
            return call_metric(self.data, ref)
        role = next((r for r in SET_ROLES if r == head), None)
        spec = self._specs.get(tail)
        if role is None or spec is None:
            return not_computed(ref, note="not in the catalogue")
        params = dict(ref.params)
        wrong = wrong_names(ref, spec)
        if wrong is not None:
            return not_computed(ref, note=wrong)
        rows = of_group(self.rows[role], params)
        if not rows:
            return undefined_metric(ref, spec, reason="no_items", note="no such row", n=0)
        maker = self._makers.get(tail.rpartition(".")[0], row_metric)
        return maker(self.data, ref, spec, rows)
