"""Study `leaderboard`: would the other pool of annotators rank the models alike?

Each item is a pair of models' answers; the label sources are the two pools' majorities on the items
that both rated. A win gives credit 1, a tie one half. How boards are made is in
`leaderboard_boards`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from prereg_judge.stats.ranking import ranks
from prereg_judge.study.leaderboard_boards import (
    SCORES,
)
from prereg_judge.study.leaderboard_computer import BoardComputer, Lacking, parameters
from prereg_judge.study.leaderboard_specs import SPECS
from prereg_judge.study.metric import (
    Catalogue,
    Metric,
    MetricRef,
)
from prereg_judge.study.outcomes import StudyInput
from prereg_judge.study.pools_view import SUBSETS, keys_of
from prereg_judge.study.table_metrics import (
    no_curves,
    no_words,
    table_catalogue,
)
from prereg_judge.words import SetRole

__all__ = [
    "EVEN",
    "SPECS",
    "STUDY",
    "BoardRow",
    "board",
    "catalogue",
    "compute",
    "curves",
    "parameters",
    "plain_words",
    "protocol_words",
    "summary",
]

STUDY = "leaderboard"

# Neighbours that swap with a higher probability than this are said to be close.
_LIKELY = 0.05

# Imagined boards that a summary shows beside one of as many models as were measured.
EVEN = (10, 20, 50)
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
        Its table and its bootstrap; nothing else is looked at.
    refs
        References with their parameters; `.ci_low` and `.ci_high` give a limit of the interval.

    Returns
    -------
    dict
        One entry for every reference, in the order given; undefined with a typed reason where
        there is no value, never absent.
    """
    computer = BoardComputer(data)
    return {ref: computer(ref) for ref in refs}


def summary(data: StudyInput) -> tuple[Metric, ...]:
    """The full list that a report shows: both subsets of the registered key, and where the keys can
    differ the ranking under the other.
    """
    computer = BoardComputer(data)
    refs = [ref for subset in SUBSETS for ref in _subset_refs(computer, subset)]
    for key in keys_of(computer.table)[1:]:
        refs += [
            MetricRef.of(name, key=key, subset=subset)
            for subset in SUBSETS
            for name in ("tau", "displaced.count")
        ]
    size = computer.size()
    for models in dict.fromkeys((*((size,) if size > 1 else ()), *EVEN)):
        for name in ("displacement.even_pairs", "displacement.even_joint"):
            refs.append(MetricRef.of(name, models=models))
    return tuple(computer(ref) for ref in refs)


def _subset_refs(computer: BoardComputer, subset: str) -> Iterator[MetricRef]:
    values = parameters(computer.table)
    for model in values["model"]:
        for pool in values["pool"]:
            yield MetricRef.of("credit.mean", model=model, pool=pool, subset=subset)
        yield MetricRef.of("shift.mean", model=model, subset=subset)
    for name in ("tau", "displaced.count", "displacement.bootstrap"):
        for score in SCORES:
            yield MetricRef.of(name, score=score, subset=subset)
    yield MetricRef.of("reversed.count", subset=subset)
    yield MetricRef.of("shift.sd", subset=subset)
    yield MetricRef.of("shift.difference_sd", subset=subset)
    for place in values["place"]:
        yield MetricRef.of("gap.adjacent", place=place, subset=subset)
        yield MetricRef.of("swap.probability", place=place, subset=subset)
    yield MetricRef.of("displacement.pairs", subset=subset)
    yield MetricRef.of("displacement.joint", subset=subset)


@dataclass(frozen=True)
class BoardRow:
    """A model on the board of pool 1, beside what pool 2 makes of it.

    Attributes
    ----------
    place, other_place
        Its place under pool 1 and under pool 2, from 1; equal credits share the best of their
        places.
    model
        Its name.
    credit
        `credit.mean` under pool 1 and under pool 2.
    shift
        `shift.mean`.
    """

    place: int
    model: str
    credit: tuple[Metric, Metric]
    other_place: int
    shift: Metric


def board(data: StudyInput) -> tuple[BoardRow, ...]:
    """Every model of the registered key over all items, in pool 1's order; equal ones by name.

    Parameters
    ----------
    data
        With a table.

    Returns
    -------
    tuple of BoardRow
        Empty where there is no board.
    """
    computer = BoardComputer(data)
    field = computer.field({})
    if isinstance(field, Lacking):
        return ()
    one, two = computer.table.pools
    places = ranks(field.data.credit[0])
    return tuple(
        BoardRow(
            int(places[0, at]),
            model := field.models[at],
            (
                computer(MetricRef.of("credit.mean", model=model, pool=one)),
                computer(MetricRef.of("credit.mean", model=model, pool=two)),
            ),
            int(places[1, at]),
            computer(MetricRef.of("shift.mean", model=model)),
        )
        for at in field.order(0)
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
        Which neighbours are closer than the pools differ, and how the probabilities of a changed
        board differ by route: they answer different questions.
    """
    computer = BoardComputer(data)
    field = computer.field({})
    if isinstance(field, Lacking):
        return []
    said = []
    size = len(field.models)
    swaps = [computer(MetricRef.of("swap.probability", place=p)) for p in range(1, size)]
    close = [m for m in swaps if m.value is not None and m.value > _LIKELY]
    if close:
        said.append(
            f"{len(close)} of {size - 1} pairs of neighbours on the board of "
            f"{computer.table.pools[0]} would change places with a probability above "
            f"{_LIKELY:.0%} under annotators who differ as these two boards do, which is by the "
            "pools and by the chance of these items together."
        )
    routes = {
        "independent pairs on its own gaps": MetricRef.of("displacement.pairs"),
        "the joint simulation on its own gaps": MetricRef.of("displacement.joint"),
        "independent pairs, spread evenly": MetricRef.of("displacement.even_pairs", models=size),
        "the bootstrap of the items": MetricRef.of("displacement.bootstrap"),
    }
    found = {words: computer(ref) for words, ref in routes.items()}
    shares = [f"{m.value:.2f} by {words}" for words, m in found.items() if m.value is not None]
    said.append(
        f"The probability that the board of {size} models changes depends on how it is asked: "
        f"{', '.join(shares)}."
    )
    return said
