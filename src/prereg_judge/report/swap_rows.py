"""Which numbers of a study that exchanges references stand beside each other.

Knows how metrics are called, not how they are made: a difference, its p-value and that within the
family are three metrics, and a reader wants them in one row.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from prereg_judge.study.metric import Metric, MetricRef

DIFFERENCES = ("delta", "margin", "interaction")
# Parameters of another look than the registered one at all rows.
LOOKS = ("match", "stratum", "duplicates", "subset")
DECONTAMINATED = "decontaminated"


@dataclass(frozen=True)
class DifferenceRow:
    """A difference with its p-values; None where the list has none."""

    difference: Metric
    p: Metric | None
    p_holm: Metric | None


@dataclass(frozen=True)
class NeutralityRow:
    """How often a reference equals each of two outputs exactly, and whether it favours one."""

    reference: str
    outputs: tuple[str, str]
    equal: tuple[Metric, Metric]
    skew: DifferenceRow


def differences(summary: Iterable[Metric], *, subset: str | None = None) -> list[DifferenceRow]:
    """Deltas, margins and interactions of all rows, or of a subset, in the order of the list."""
    found = _by_ref(summary)
    return [
        _row(found, metric)
        for ref, metric in found.items()
        if ref.name in DIFFERENCES and _looks(ref) == ({} if subset is None else {"subset": subset})
    ]


def neutrality(summary: Iterable[Metric]) -> Iterator[NeutralityRow]:
    """A row for each reference and pair of outputs, over all rows."""
    found = _by_ref(summary)
    for ref, metric in found.items():
        if ref.name != "skew" or _looks(ref):
            continue
        told = dict(ref.params)
        one, other = (
            found.get(MetricRef.of("exact.rate", output=told[k], reference=told["reference"]))
            for k in ("output", "other")
        )
        if one is not None and other is not None:
            outputs = (told["output"], told["other"])
            yield NeutralityRow(told["reference"], outputs, (one, other), _row(found, metric))


def _by_ref(summary: Iterable[Metric]) -> dict[MetricRef, Metric]:
    return {metric.ref: metric for metric in summary}


def _row(found: Mapping[MetricRef, Metric], metric: Metric) -> DifferenceRow:
    ref = metric.ref
    p, holm = (found.get(MetricRef(f"{ref.name}.{end}", ref.params)) for end in ("p", "p_holm"))
    return DifferenceRow(metric, p, holm)


def _looks(ref: MetricRef) -> dict[str, str]:
    return {key: value for key, value in ref.params if key in LOOKS}
