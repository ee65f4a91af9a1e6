"""The kinds of study, by name: one place that knows them all."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from prereg_judge.study import (
    annotators,
    judge_pools,
    leaderboard,
    leaderboard_computer,
    pairwise,
    path_fidelity,
    pools,
    reference_swap,
    self_agreement,
)
from prereg_judge.study.expected import AgreementCurve
from prereg_judge.study.metric import Catalogue, Metric, MetricRef, MetricSpec
from prereg_judge.study.outcomes import StudyInput
from prereg_judge.words import SetRole

# From what a study reads of tables to the known values of its metrics' parameters.
Parameters = Callable[[Any], dict[str, tuple[str, ...]]]


@dataclass(frozen=True)
class Study:
    """What a kind of study gives.

    Attributes
    ----------
    name
        As registrations write it.
    catalogue
        Every metric that may be registered, for the item sets of a run.
    compute
        The metrics that were registered, each with a value or a typed reason for having none.
    summary
        The full list that a report shows.
    protocol_words
        What a protocol cannot show, by `decoding` and `passes`, as sentences.
    plain_words
        What a reader must know before quoting a number, as sentences.
    curves
        The agreement to be expected over temperatures, where the study and the run give it.
    parameters
        Known values of the parameters of metrics that are about tables, by name: of what the study
        reads, which is a `TableInput`, a `SwapInput` or an `AnnotatorsInput`.
    vote_specs
        Metrics that a table of votes adds to those of a run.
    """

    name: str
    catalogue: Callable[[Sequence[SetRole]], Catalogue]
    compute: Callable[[StudyInput, Iterable[MetricRef]], dict[MetricRef, Metric]]
    summary: Callable[[StudyInput], tuple[Metric, ...]]
    protocol_words: Callable[..., list[str]]
    plain_words: Callable[[StudyInput], list[str]]
    curves: Callable[[StudyInput], tuple[AgreementCurve, ...]]
    parameters: Parameters
    vote_specs: tuple[MetricSpec, ...] = ()

    def metrics(self, roles: Sequence[SetRole], *, votes: bool, calls: bool = True) -> Catalogue:
        """The catalogue for these item sets.

        With what a table of votes adds where there is one, and without metrics of calls where
        nothing is called.
        """
        catalogue = self.catalogue(roles)
        if not calls:
            kept = {n: s for n, s in catalogue.specs.items() if not n.startswith("calls.")}
            catalogue = replace(catalogue, specs=kept)
        if not votes:
            return catalogue
        added = {spec.name: spec for spec in self.vote_specs}
        return replace(catalogue, specs={**catalogue.specs, **added})


def _no_parameters(_table: object) -> dict[str, tuple[str, ...]]:
    return {}


_OF_TABLES: dict[str, Parameters] = {
    pairwise.STUDY: judge_pools.parameters,
    pools.STUDY: pools.parameters,
    judge_pools.STUDY: judge_pools.parameters,
    leaderboard.STUDY: leaderboard_computer.parameters,
    reference_swap.STUDY: reference_swap.parameters,
    annotators.STUDY: annotators.parameters,
}

STUDIES: dict[str, Study] = {
    module.STUDY: Study(
        module.STUDY,
        module.catalogue,
        module.compute,
        module.summary,
        module.protocol_words,
        module.plain_words,
        module.curves,
        _OF_TABLES.get(module.STUDY, _no_parameters),
        judge_pools.LEAN_SPECS if module is pairwise else (),
    )
    for module in (
        self_agreement,
        path_fidelity,
        pairwise,
        pools,
        judge_pools,
        leaderboard,
        reference_swap,
        annotators,
    )
}


def study_of(name: str) -> Study:
    """The kind of study that a registration names; `KeyError` for another name."""
    return STUDIES[name]
