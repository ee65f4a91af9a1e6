"""What a report shows of study `reference-swap` beside its list of numbers."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from prereg_judge.labelled import DUPLICATES, Duplicates, Match
from prereg_judge.study.metric import Metric, MetricRef
from prereg_judge.study.outcomes import StudyInput
from prereg_judge.study.swap_band import Band, Inside, band_of, margins_inside
from prereg_judge.study.swap_computer import Computer, computer_of
from prereg_judge.study.swap_sums import Look


@dataclass(frozen=True)
class TypeConfusion:
    """Marks at one place with two types: what an output says, what a reference says.

    Attributes
    ----------
    output, reference
        The two labellings.
    output_type, reference_type
        Their types.
    count
        How many such pairs of marks there are.
    hidden
        Whether the map of fine types to coarse ones makes them the same.
    """

    output: str
    reference: str
    output_type: str
    reference_type: str
    count: int
    hidden: bool


@dataclass(frozen=True)
class UnderPolicy:
    """What one policy on copies gives: rows that count, and the deltas and margins of all rows."""

    policy: Duplicates
    rows: int
    deltas: tuple[Metric, ...]
    margins: tuple[Metric, ...]


@dataclass(frozen=True)
class SwapView:
    """Tables for a report.

    Attributes
    ----------
    match, duplicates
        The registered choices, which all tables but the last keep.
    outputs, references
        Names of rows and columns of `scores`; the delivered reference is the first.
    scores
        F1 of each output (outer) under each reference (inner), with intervals.
    confusions
        Types that differ at the same place, the most frequent first; empty where types are not
        known on both sides.
    band
        The band from all outputs.
    inside
        Margins no larger than it.
    margins
        How many margins there are.
    policies
        One entry for each policy on copies; empty where no rows are copies.
    """

    match: Match
    duplicates: Duplicates
    outputs: tuple[str, ...]
    references: tuple[str, ...]
    scores: tuple[tuple[Metric, ...], ...]
    confusions: tuple[TypeConfusion, ...]
    band: Band
    inside: tuple[Inside, ...]
    margins: int
    policies: tuple[UnderPolicy, ...]

    @property
    def hidden(self) -> tuple[TypeConfusion, ...]:
        """The confusions that the map hides."""
        return tuple(c for c in self.confusions if c.hidden)


def view(data: StudyInput) -> SwapView:
    """The tables of a study.

    Parameters
    ----------
    data
        Outputs and references and the bootstrap.
    """
    return view_of(computer_of(data))


def view_of(computer: Computer) -> SwapView:
    """The same, from what is computed already."""
    swap = computer.swap
    look = Look(swap.match, swap.duplicates)
    scores = tuple(
        tuple(computer(MetricRef.of("f1", output=o, reference=r)) for r in swap.references)
        for o in swap.outputs
    )
    band = band_of(computer.values, look, swap.outputs)
    inside, margins = margins_inside(computer.values, look, band.width or 0.0)
    return SwapView(
        swap.match,
        swap.duplicates,
        swap.outputs,
        swap.references,
        scores,
        confusions_of(computer),
        band,
        tuple(inside) if band.width is not None else (),
        margins,
        policies_of(computer) if swap.labelled.copies else (),
    )


def confusions_of(computer: Computer) -> tuple[TypeConfusion, ...]:
    """Types that differ at the same place, for every output and reference."""
    swap = computer.swap
    look = Look("strict", swap.duplicates)
    every = swap.labelled.confusions
    found: list[TypeConfusion] = []
    for output in swap.outputs:
        for reference in swap.references:
            at = computer.hidden.entries(look, output, reference)
            first, second = every.first_type[at], every.second_type[at]
            if computer.scores.sums.at(output) > computer.scores.sums.at(reference):
                first, second = second, first
            triples = zip(first.tolist(), second.tolist(), every.hidden[at].tolist(), strict=True)
            for (one, two, hidden), count in Counter(triples).items():
                types = every.types[one], every.types[two]
                found.append(TypeConfusion(output, reference, *types, count, hidden))
    pairs = {
        pair: n for n, pair in enumerate((o, r) for o in swap.outputs for r in swap.references)
    }
    found.sort(key=lambda c: (pairs[c.output, c.reference], -c.count, c.output_type,
                              c.reference_type))  # fmt: skip
    return tuple(found)


def policies_of(computer: Computer) -> tuple[UnderPolicy, ...]:
    """Deltas and margins of all rows under each policy on copies."""
    swap = computer.swap
    found = []
    for policy in DUPLICATES:
        rows = int(np.count_nonzero(computer.scores.sums.rows(Look(swap.match, policy), ())))
        deltas = tuple(
            computer(MetricRef.of("delta", output=o, reference=r, duplicates=policy))
            for o in swap.outputs
            for r in swap.references[1:]
        )
        margins = tuple(
            computer(MetricRef.of("margin", output=a, other=b, reference=r, duplicates=policy))
            for a, b in combinations(swap.outputs, 2)
            for r in swap.references
        )
        found.append(UnderPolicy(policy, rows, deltas, margins))
    return tuple(found)
