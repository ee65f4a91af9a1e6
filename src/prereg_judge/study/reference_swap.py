"""Study `reference-swap`: what becomes of a score when the reference is exchanged?

The output is held, the reference exchanged; by how much do score, margin and ranking move, and is
the reference neutral between the outputs? How rows are summed is in `swap_sums`, what is made of
the sums in `swap_scores`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from prereg_judge.study.metric import Catalogue, Metric, MetricRef
from prereg_judge.study.outcomes import StudyInput
from prereg_judge.study.swap_computer import computer_of, parameters
from prereg_judge.study.swap_specs import SPECS
from prereg_judge.study.swap_summary import summary_refs
from prereg_judge.study.swap_view import SwapView, view
from prereg_judge.study.swap_words import plain_words_of
from prereg_judge.study.table_metrics import no_curves, no_words, table_catalogue
from prereg_judge.words import SetRole

__all__ = ["SPECS", "STUDY", "SwapView", "catalogue", "compute", "curves", "parameters",
           "plain_words", "protocol_words", "summary", "view"]  # fmt: skip

STUDY = "reference-swap"

protocol_words = no_words
curves = no_curves


def catalogue(roles: Sequence[SetRole] = ()) -> Catalogue:
    """Every metric that may be registered; there are no item sets, so the roles do not matter."""
    del roles
    return table_catalogue(STUDY, SPECS)


def compute(data: StudyInput, refs: Iterable[MetricRef]) -> dict[MetricRef, Metric]:
    """The metrics that were registered.

    Parameters
    ----------
    data
        Its outputs and references and its bootstrap; nothing else is looked at.
    refs
        References with their parameters; `.ci_low` and `.ci_high` give a limit of the interval.

    Returns
    -------
    dict
        One entry for every reference, in the order given; undefined with a typed reason where
        there is no value, never absent.
    """
    computer = computer_of(data)
    return {ref: computer(ref) for ref in refs}


def summary(data: StudyInput) -> tuple[Metric, ...]:
    """The full list that a report shows.

    Without lines of another match than the registered one that types rule out.
    """
    computer = computer_of(data)
    refs = dict.fromkeys(summary_refs(computer.swap))
    found = [computer(ref) for ref in refs]
    return tuple(m for m in found if m.undefined != "no_types" or "match" not in dict(m.ref.params))


def plain_words(data: StudyInput) -> list[str]:
    """What a reader must know before quoting a number of this study, as sentences.

    Parameters
    ----------
    data
        Outputs and references and the bootstrap.

    Returns
    -------
    list of str
        Whether a reference is neutral between the outputs; what is left without the rows that the
        delivered one shares with an output; which outputs change places, and how surely; how wide
        the band is; what depends on copies; how far scores go over all labellings.
    """
    return plain_words_of(computer_of(data))
