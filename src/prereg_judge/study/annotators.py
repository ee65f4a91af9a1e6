"""Study `annotators`: how far do annotators agree, where do they differ, what label results?

Turns a table of ratings, or of annotators' spans, into named metrics. The catalogue is in
`annotators_specs`, each kind of metric in a module of its own, `annotators_*`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from prereg_judge.study.annotators_computer import computer_of, parameters
from prereg_judge.study.annotators_specs import SPECS, STUDY
from prereg_judge.study.annotators_summary import listed
from prereg_judge.study.annotators_view import AnnotatorsView, view_of
from prereg_judge.study.annotators_words import words_of
from prereg_judge.study.metric import Catalogue, Metric, MetricRef
from prereg_judge.study.outcomes import StudyInput
from prereg_judge.study.table_metrics import no_curves, no_words, table_catalogue
from prereg_judge.words import SetRole

__all__ = [
    "SPECS",
    "STUDY",
    "AnnotatorsView",
    "catalogue",
    "compute",
    "curves",
    "parameters",
    "plain_words",
    "protocol_words",
    "summary",
    "view",
]

protocol_words = no_words
curves = no_curves


def catalogue(roles: Sequence[SetRole] = ()) -> Catalogue:
    """Every metric that may be registered; a table has no item sets, so the roles do not matter."""
    del roles
    return table_catalogue(STUDY, SPECS)


def compute(data: StudyInput, refs: Iterable[MetricRef]) -> dict[MetricRef, Metric]:
    """The metrics that were registered.

    Parameters
    ----------
    data
        Its annotators and its bootstrap; nothing else is looked at.
    refs
        References with their parameters; `.ci_low` and `.ci_high` give a limit of the interval.

    Returns
    -------
    dict
        One entry for every reference, in the order given; undefined with a typed reason where
        there is no value, never absent.
    """
    return computer_of(data).all(refs)


def summary(data: StudyInput) -> tuple[Metric, ...]:
    """The full list that a report shows: all annotators, then pools, strata, pairs and labels."""
    computer = computer_of(data)
    return tuple(computer.all(listed(computer).refs).values())


def plain_words(data: StudyInput) -> list[str]:
    """What a reader must know before quoting a number of this study, as sentences.

    Parameters
    ----------
    data
        Its annotators and its bootstrap.

    Returns
    -------
    list of str
        Of ratings: items that say nothing of agreement; whether disagreement sits in a label;
        where kappa is low for its labels' frequencies; what leaving out disputed items selects;
        what the map of labels hides. Of spans: why nothing is corrected for chance; which types
        are confused. Then what the list of metrics leaves out.
    """
    return words_of(computer_of(data))


def view(data: StudyInput) -> AnnotatorsView:
    """The tables that a report shows beside the list: confusions, pairs, pools, fine and coarse."""
    return view_of(computer_of(data))
