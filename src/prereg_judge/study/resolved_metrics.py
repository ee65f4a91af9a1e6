"""The `{set}.resolved.*` metrics: the two orders of an item made one verdict, by a registered rule.

A resolved verdict says which answer is better, or neither; how clearly is no longer said.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from prereg_judge.study.counted import counted
from prereg_judge.study.metric import Metric, MetricRef, MetricSpec
from prereg_judge.study.order_metrics import of_pass, refused
from prereg_judge.study.outcomes import StudyInput
from prereg_judge.study.pairs import Pairs
from prereg_judge.study.resolving import orders_of, resolved
from prereg_judge.study.row_questions import Refusal
from prereg_judge.study.rows import GROUPING, Row
from prereg_judge.votes import SIDE_VALUES, SIDES

_RULE = "by the registered `resolve`"
_SUMMARIES: dict[str, tuple[str, tuple[str, ...]]] = {
    "verdict": (
        f"Items whose verdicts in the orders of `pass`, made one {_RULE}, come to `verdict` (a, b "
        "or tie), of all items.",
        ("verdict", "pass"),
    ),
    "wrong": (
        f"Items whose verdicts in the orders of `pass`, made one {_RULE}, do not prefer the answer "
        "that the known label prefers, of all labelled items.",
        ("pass",),
    ),
}


def _specs() -> Iterator[MetricSpec]:
    for name, (summary, required) in _SUMMARIES.items():
        stem = f"{{set}}.resolved.{name}"
        yield MetricSpec(f"{stem}.count", summary, "items", required, GROUPING, (0.0, "items"))
        yield MetricSpec(f"{stem}.rate", summary, "share", required, GROUPING, (0.0, 1.0))


# With `{set}` still open.
RESOLVED_SPECS: tuple[MetricSpec, ...] = tuple(_specs())


def resolved_metric(
    data: StudyInput, ref: MetricRef, spec: MetricSpec, rows: Sequence[Row]
) -> Metric:
    """A count or share of `RESOLVED_SPECS` over the items of rows.

    Parameters
    ----------
    data
        The run.
    ref, spec
        The metric and its line in the catalogue.
    rows
        The rows that it is about, at least one.

    Returns
    -------
    Metric
        With the Wilson interval. An item that lacks a verdict that the rule looks at has no
        resolved one: under `missing: disagree` it comes to no `verdict` and is wrong. Undefined,
        in this order: `not_computed` (nothing registered, or no such verdict or pass),
        `no_labels`, and as `order_metrics.swap_metric` says.
    """
    params = dict(ref.params)
    rule, wrong = data.resolve, ref.name.split(".")[2] == "wrong"
    if rule is None:
        nothing = Refusal("not_computed", "the registration names no `resolve`")
        return refused(ref, spec, nothing, rows)
    if not wrong and params["verdict"] not in SIDES:
        words = f"{params['verdict']} is not one of {', '.join(SIDES)}"
        return refused(ref, spec, Refusal("not_computed", words), rows)
    kept, notes = list(rows), []
    if wrong and data.pair is not None:
        kept = [r for r in rows if r.item.label in data.pair.sides]
        every, labelled = (len({r.item.id for r in some}) for some in (rows, kept))
        if not kept:
            return refused(ref, spec, Refusal("no_labels", "no item has a known label"), rows)
        if labelled < every:
            notes.append(f"{every - labelled} of {every} items have no known label")
    reads = "its item is counted as wrong" if wrong else "its item comes to no verdict"
    pairs = of_pass(data, kept, params["pass"], orders=orders_of(rule), reads_missing=reads)
    if isinstance(pairs, Refusal):
        return refused(ref, spec, pairs, rows)
    found = resolved(pairs.scale[:, :, 0], rule)
    if wrong:
        hits = (found != _label_sides(data, pairs)) | ~pairs.complete
    else:
        hits = (found == SIDE_VALUES[params["verdict"]]) & pairs.complete
    said = "; ".join([f"resolved by {rule}", *notes, *pairs.notes])
    return counted(ref, spec, k=int(hits.sum()), n=len(pairs.items), note=said)


def _label_sides(data: StudyInput, pairs: Pairs) -> NDArray[np.int64]:
    """Which answer each item's known label prefers, shape (n,)."""
    if data.pair is None:
        raise ValueError("no scale")
    labels = (item.label for item in pairs.items)
    return np.array([data.pair.side(label) if label else 0 for label in labels], dtype=np.int64)
