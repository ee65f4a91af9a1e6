"""The reference-sensitivity band: how far the interval of the largest delta reaches.

A delta is what exchanging the reference did to a score. The band is chosen by the data that it
describes. It says which margins are no larger than it; it is no test.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

from prereg_judge.study.counted import undefined_metric
from prereg_judge.study.metric import Metric, MetricRef, MetricSpec, Undefined
from prereg_judge.study.swap_differences import difference_metric
from prereg_judge.study.swap_sums import Look
from prereg_judge.study.swap_tests import Difference, PValues

CAVEAT = (
    "descriptive and selected: the largest delta was picked after looking, so its interval is too "
    "narrow, and a margin no larger than it is not thereby shown to be none"
)


@dataclass(frozen=True)
class Band:
    """A band, or why there is none.

    Attributes
    ----------
    width
        Upper limit of the interval of the largest delta, turned positive, as F1; None where there
        is none.
    largest
        That delta; None where every delta is undefined.
    among
        How many deltas it was picked from.
    undefined, note
        Why there is no width.
    """

    width: float | None
    largest: Difference | None = None
    among: int = 0
    undefined: Undefined | None = None
    note: str | None = None


@dataclass(frozen=True)
class Inside:
    """A margin no larger than the band: of which outputs, under which reference, how large."""

    output: str
    other: str
    reference: str
    value: float


def band_of(values: PValues, look: Look, outputs: tuple[str, ...]) -> Band:
    """The band from the deltas of some outputs under every alternative."""
    every = [
        Difference("delta", look, output, "", alternative)
        for output in outputs
        for alternative in values.swap.references[1:]
    ]
    deltas = [d for d in every if values.trouble(d) is None]
    if not deltas:
        reason, note = values.trouble(every[0]) or ("no_items", "")
        return Band(None, undefined=reason, note=note)
    largest = max(deltas, key=lambda d: abs(values.estimate(d).value))
    found = difference_metric(values, largest)
    if found.interval is None:
        note = f"{found.ref} has no interval: {found.note}"
        return Band(None, largest, len(deltas), "not_computed", note)
    assert found.value is not None
    width = found.interval.high if found.value >= 0 else -found.interval.low
    return Band(width, largest, len(deltas))


def margins_inside(values: PValues, look: Look, width: float) -> tuple[list[Inside], int]:
    """Margins of two outputs that are no larger than the band is wide, and how many there are."""
    inside: list[Inside] = []
    count = 0
    for reference in values.swap.references:
        for one, two in combinations(values.swap.outputs, 2):
            margin = Difference("margin", look, one, two, reference)
            if values.trouble(margin) is not None:
                continue
            count += 1
            value = values.estimate(margin).value
            if abs(value) <= width:
                inside.append(Inside(one, two, reference, value))
    return inside, count


def band_metric(
    values: PValues, ref: MetricRef, spec: MetricSpec, *, look: Look, output: str | None
) -> Metric:
    """`band.width`, of all outputs or of one, and `band.margins.count`."""
    outputs = values.swap.outputs
    band = band_of(values, look, outputs if output is None else (output,))
    n = values.scores.n(look, outputs)
    if band.width is None:
        assert band.undefined is not None
        return undefined_metric(ref, spec, reason=band.undefined, note=band.note, n=n)
    assert band.largest is not None
    if ref.name == "band.width":
        delta = difference_metric(values, band.largest)
        of = f"largest of {band.among}" if band.among > 1 else "the only one"
        note = (
            f"from {delta.ref} = {delta.value:+.4f} ({of}), its interval reaches so far; {CAVEAT}"
        )
        return Metric(ref, band.width, spec.unit, spec.summary, n=n, note=note)
    inside, count = margins_inside(values, look, band.width)
    which = ", ".join(f"{m.output} - {m.other} under {m.reference} {m.value:+.4f}" for m in inside)
    note = f"band {band.width:.4f} wide{f', no larger are {which}' if which else ''}; {CAVEAT}"
    k = len(inside)
    return Metric(ref, float(k), spec.unit, spec.summary, k=k, n=count, note=note)
