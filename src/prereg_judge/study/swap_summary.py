"""Which metrics of study `reference-swap` a report lists, in which order."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

from prereg_judge.labelled import DUPLICATES, Match
from prereg_judge.study.metric import MetricRef
from prereg_judge.study.outcomes import SwapInput
from prereg_judge.study.row_metrics import both
from prereg_judge.study.swap_computer import parameters
from prereg_judge.study.swap_tests import TEST_NAMES, difference_of

# Parameters that are the same for a block of lines; None = the registered choice, or all.
View = dict[str, str | None]


def summary_refs(swap: SwapInput) -> Iterator[MetricRef]:
    """What a report lists, each once, and the registered tests that are not among it."""
    listed = list(dict.fromkeys(_listed(swap)))
    yield from listed
    tests = {difference_of(swap, ref) for ref in listed if ref.name in TEST_NAMES}
    for member in swap.family:
        if difference_of(swap, member) not in tests:
            yield from _with_p(swap, member)


def _listed(swap: SwapInput) -> Iterator[MetricRef]:
    """Everything pooled, the registered match first; then by stratum; then what else was chosen.

    A match that no output has with any reference, for want of types, is left out.
    """
    strata = parameters(swap)["stratum"]
    yield MetricRef.of("items.count")
    if _some(swap, "decontaminated", match=swap.match):
        yield MetricRef.of("items.count", subset="decontaminated")
    for stratum in strata:
        yield MetricRef.of("items.count", stratum=stratum)
    others = [m for m in _matches(swap) if m != swap.match]
    yield from _block(swap, {})
    for match in others:
        yield from _block(swap, {"match": match})
    for match in (swap.match, *others):
        if _some(swap, "decontaminated", match=match):
            view: View = {"match": None if match == swap.match else match}
            yield from _scores(swap, {**view, "subset": "decontaminated"})
    for stratum in strata:
        yield from _block(swap, {"stratum": stratum})
    if swap.labelled.copies:
        for policy in DUPLICATES:
            if policy != swap.duplicates:
                yield MetricRef.of("items.count", duplicates=policy)
                yield from _scores(swap, {"duplicates": policy})
    if "coarse" in swap.labelled.shared:
        yield from _merging(swap)


def _matches(swap: SwapInput) -> list[Match]:
    """Ways to match under which some output has a score; of single labels, places say nothing."""
    found = [m for m in swap.labelled.matches if _some(swap, "all", match=m)]
    return found if swap.labelled.form == "spans" else [m for m in found if m != "relaxed"]


def _some(swap: SwapInput, subset: str, *, match: str) -> bool:
    """Whether types allow a score of some output under some reference, or the subset at all."""
    if match == "relaxed":
        return True
    typed = dict(zip(swap.labelled.names, swap.labelled.typed, strict=True))
    if subset == "decontaminated":
        return typed[swap.references[0]] and all(typed[name] for name in swap.outputs)
    some_output = any(typed[name] for name in swap.outputs)
    return some_output and any(typed[name] for name in swap.references)


def _block(swap: SwapInput, view: View) -> Iterator[MetricRef]:
    yield from _scores(swap, view)
    for output in swap.outputs:
        for reference in swap.references:
            yield from both("exact", output=output, reference=reference, **view)
    for reference in swap.references:
        for one, two in combinations(swap.outputs, 2):
            skew = MetricRef.of("skew", output=one, other=two, reference=reference, **view)
            yield from _with_p(swap, skew)
    yield MetricRef.of("band.width", **view)
    for output in swap.outputs:
        yield MetricRef.of("band.width", output=output, **view)
    yield MetricRef.of("band.margins.count", **view)
    for output in swap.outputs:
        yield MetricRef.of("spread", output=output, **view)


def _scores(swap: SwapInput, view: View) -> Iterator[MetricRef]:
    """F1; deltas, margins, interactions with their p-values; reversals."""
    for output in swap.outputs:
        for reference in swap.references:
            yield MetricRef.of("f1", output=output, reference=reference, **view)
    alternatives = swap.references[1:]
    for output in swap.outputs:
        for name in alternatives:
            yield from _with_p(swap, MetricRef.of("delta", output=output, reference=name, **view))
    for one, two in combinations(swap.outputs, 2):
        for name in swap.references:
            margin = MetricRef.of("margin", output=one, other=two, reference=name, **view)
            yield from _with_p(swap, margin)
        for name in alternatives:
            crossed = MetricRef.of("interaction", output=one, other=two, reference=name, **view)
            yield from _with_p(swap, crossed)
    yield MetricRef.of("reversals.count", **view)
    yield MetricRef.of("reversals.clear.count", **view)


def _with_p(swap: SwapInput, ref: MetricRef) -> Iterator[MetricRef]:
    """A difference and its p-value; Holm's where it is in the registered family."""
    yield ref
    yield MetricRef(f"{ref.name}.p", ref.params)
    if difference_of(swap, ref) in {difference_of(swap, member) for member in swap.family}:
        yield MetricRef(f"{ref.name}.p_holm", ref.params)


def _merging(swap: SwapInput) -> Iterator[MetricRef]:
    for output in swap.outputs:
        for reference in swap.references:
            yield MetricRef.of("merge.gain", output=output, reference=reference)
            yield from both("merge.hidden", output=output, reference=reference)
