"""The kinds of study, by name: one place that knows them all."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from prereg_judge.study import path_fidelity, self_agreement
from prereg_judge.study.expected import AgreementCurve
from prereg_judge.study.metric import Catalogue, Metric, MetricRef
from prereg_judge.study.outcomes import StudyInput
from prereg_judge.words import SetRole


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
    """

    name: str
    catalogue: Callable[[Sequence[SetRole]], Catalogue]
    compute: Callable[[StudyInput, Iterable[MetricRef]], dict[MetricRef, Metric]]
    summary: Callable[[StudyInput], tuple[Metric, ...]]
    protocol_words: Callable[..., list[str]]
    plain_words: Callable[[StudyInput], list[str]]
    curves: Callable[[StudyInput], tuple[AgreementCurve, ...]]


STUDIES: dict[str, Study] = {
    module.STUDY: Study(
        module.STUDY,
        module.catalogue,
        module.compute,
        module.summary,
        module.protocol_words,
        module.plain_words,
        module.curves,
    )
    for module in (self_agreement, path_fidelity)
}


def study_of(name: str) -> Study:
    """The kind of study that a registration names; `KeyError` for another name."""
    return STUDIES[name]
