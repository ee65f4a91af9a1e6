"""Small runs written as lists of verdicts, and short ways to ask for a metric."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from prereg_judge.choices import Node, verdict_probabilities
from prereg_judge.shaping import Decoding
from prereg_judge.study import self_agreement
from prereg_judge.study.metric import Metric, MetricRef
from prereg_judge.study.outcomes import (
    CallView,
    Choice,
    EarlierRun,
    ItemView,
    Outcome,
    StudyInput,
    TrialKey,
)
from prereg_judge.words import DecodingMode, Missing

K, D = "KEEP", "DROP"
MODES: tuple[Missing, ...] = ("disagree", "exclude", "undefined")
Verdicts = Sequence[str | None]


def make(
    rows: Sequence[Verdicts],
    *,
    labels: Sequence[str | None] | None = None,
    kinds: Sequence[str | None] | None = None,
    missing: Missing = "disagree",
    earlier: Mapping[str, EarlierRun] | None = None,
    verdicts: tuple[str, ...] = (D, K),
    passes: int = 2,
    decoding: DecodingMode = "sampled",
) -> StudyInput:
    """Sentinel rows i0, i1, ... given by their verdicts; None is a trial that hung."""
    items = tuple(
        ItemView(
            "sentinel",
            f"i{i}",
            f"content-{i}",
            labels[i] if labels else None,
            kinds[i] if kinds else None,
            f"half-{i % 2}",
        )
        for i in range(len(rows))
    )
    outcomes = {
        TrialKey("sentinel", f"i{i}", "ab", p): Outcome(v, None if v else "hang", 1)
        for i, row in enumerate(rows)
        for p, v in enumerate(row, start=1)
    }
    calls = tuple(CallView(key, 1, o.unscored, 1.0) for key, o in outcomes.items())
    return StudyInput(
        items, outcomes, calls, verdicts, K, passes, ("ab",), missing, decoding, earlier or {}
    )


def get(data: StudyInput, name: str, **params: object) -> Metric:
    """One metric."""
    ref = MetricRef.of(name, **params)
    found = self_agreement.compute(data, [ref])[ref]
    assert found.ref == ref
    return found


def ratio(data: StudyInput, name: str, **params: object) -> tuple[int | None, int | None]:
    """k and n of a count; its rate must say the same."""
    count = get(data, f"{name}.count", **params)
    rate = get(data, f"{name}.rate", **params)
    assert count.undefined is None, count
    assert count.k is not None
    assert count.n
    assert (count.k, count.n) == (rate.k, rate.n)
    assert (count.value, rate.value) == (count.k, count.k / count.n)
    return count.k, count.n


def why(data: StudyInput, name: str, **params: object) -> str | None:
    """The reason of a metric that must have no value."""
    found = get(data, name, **params)
    assert found.value is None
    return found.undefined


# An earlier single pass that kept the first five rows.
OLD = {"old": EarlierRun("old", 1, {("sentinel", f"i{i}", 1): K for i in range(5)})}


def tree(*chances: float, leads: Sequence[str | int | None] | None = None) -> tuple[Node, ...]:
    """One position whose tokens have these probabilities; they lead to DROP, KEEP, ..."""
    to = tuple(leads) if leads is not None else (D, K, "C", "E")[: len(chances)]
    logits = tuple(math.log(p) for p in chances)
    return (Node("", 1.0, tuple(range(len(chances))), logits, to),)


def choosing(
    data: StudyInput,
    trees: Sequence[Sequence[tuple[Node, ...] | None]],
    *,
    shaping: Decoding | None = None,
) -> StudyInput:
    """The same run with what each row and pass chose from; None where a trial chose from none."""
    decoding = shaping or Decoding("sampled", 1.0)
    choices = {
        TrialKey("sentinel", f"i{i}", "ab", p): Choice(
            nodes, verdict_probabilities(nodes, decoding, data.verdicts)
        )
        for i, row in enumerate(trees)
        for p, nodes in enumerate(row, start=1)
        if nodes is not None
    }
    return replace(data, choices=choices, shaping=decoding)
