"""The `{set}.order.*` metrics: what becomes of a verdict when the two answers change places.

Everything is counted over items, as the two orders of one item are not independent. What a
missing verdict does is in `pairs`, how an interval is made in `pair_bootstrap`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from prereg_judge.stats.paired import exact_sign_test
from prereg_judge.study.counted import counted, undefined_metric
from prereg_judge.study.metric import Metric, MetricRef, MetricSpec
from prereg_judge.study.outcomes import StudyInput
from prereg_judge.study.pair_bootstrap import estimate, means, quotient
from prereg_judge.study.pairs import BOTH, Pairs, pairs_of, pass_of, usable
from prereg_judge.study.row_questions import Refusal
from prereg_judge.study.rows import GROUPING, Row
from prereg_judge.words import Order

Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class SwapQuestion:
    """A count over items that compares the two orders within a pass.

    Attributes
    ----------
    summary
        One sentence for the catalogue.
    hit, eligible
        From the items, with O = 2 orders and one pass, to whether each is in the numerator and in
        the denominator, shape (n,). An item that lacks a verdict is never in the numerator.
    reads_missing
        What `missing: disagree` makes of a trial without a verdict, for the reader.
    """

    summary: str
    hit: Callable[[Pairs], Flags]
    reads_missing: str
    eligible: Callable[[Pairs], Flags] = lambda pairs: np.ones(len(pairs.items), dtype=np.bool_)


def _opposite(pairs: Pairs) -> Flags:
    """One answer preferred in ab and the other in ba."""
    sides = pairs.sides[:, :, 0]
    return np.asarray(sides[:, 0] * sides[:, 1] == -1, dtype=np.bool_)


def _decided(pairs: Pairs) -> Flags:
    """A preference in both orders."""
    return np.asarray((pairs.sides[:, :, 0] != 0).all(axis=1), dtype=np.bool_)


def _one_tie(pairs: Pairs) -> Flags:
    ties = pairs.sides[:, :, 0] == 0
    return np.asarray(ties[:, 0] != ties[:, 1], dtype=np.bool_)


SWAP_QUESTIONS: dict[str, SwapQuestion] = {
    "reversal": SwapQuestion(
        "Items of which one answer is preferred in order ab and the other in order ba of `pass` "
        "(full direction reversal: the same slot wins both times), of all items.",
        _opposite,
        "not counted as a reversal",
    ),
    "reversal_decided": SwapQuestion(
        "Items of which one answer is preferred in order ab and the other in order ba of `pass`, "
        "of the items with a preference, no tie, in both orders.",
        _opposite,
        "in no denominator",
        _decided,
    ),
    "consistent": SwapQuestion(
        "Items of which the same answer is preferred in both orders of `pass`, or neither in both, "
        "of all items.",
        lambda pairs: pairs.sides[:, 0, 0] == pairs.sides[:, 1, 0],
        "counted as not consistent",
    ),
    "exact": SwapQuestion(
        "Items with the same verdict on the full scale, said of the answers, in both orders of "
        "`pass`, of all items.",
        lambda pairs: pairs.scale[:, 0, 0] == pairs.scale[:, 1, 0],
        "counted as not the same",
    ),
    "tie_unstable": SwapQuestion(
        "Items with a tie in exactly one of the two orders of `pass`, of all items.",
        _one_tie,
        "not counted as a tie that comes or goes",
    ),
}  # fmt: skip

_BOOT = "Interval: percentile bootstrap over items."


def _specs() -> Iterator[MetricSpec]:
    for name, asked in SWAP_QUESTIONS.items():
        stem, summary = f"{{set}}.order.{name}", asked.summary
        yield MetricSpec(f"{stem}.count", summary, "items", ("pass",), GROUPING, (0.0, "items"))
        yield MetricSpec(f"{stem}.rate", summary, "share", ("pass",), GROUPING, (0.0, 1.0))
    yield MetricSpec(
        "{set}.order.slot.rate",
        "Verdicts that prefer the answer shown first, of the verdicts of `pass` that prefer one; "
        f"in both orders, or in `order` alone. {_BOOT}",
        "share", ("pass",), ("order", *GROUPING), (0.0, 1.0),
    )  # fmt: skip
    yield MetricSpec(
        "{set}.order.bias.difference",
        "Mean credit of the first slot (1 when its answer is preferred, 1/2 for a tie, else 0) "
        "over both orders of `pass`, minus 1/2: how far a verdict moves to the first slot. Only "
        f"items with a verdict in both orders. {_BOOT}",
        "share", ("pass",), GROUPING, (-0.5, 0.5),
    )  # fmt: skip
    yield MetricSpec(
        "{set}.order.bias.p",
        "Exact two-sided sign test of the items whose credit moved between the orders of `pass`: "
        "to the first slot as often as away from it? k = to the first slot, n = moved.",
        "probability", ("pass",), GROUPING, (0.0, 1.0),
    )  # fmt: skip


# With `{set}` still open.
ORDER_SPECS: tuple[MetricSpec, ...] = tuple(_specs())


def refused(ref: MetricRef, spec: MetricSpec, refusal: Refusal, rows: Sequence[Row]) -> Metric:
    """A metric without a value, for the reason of a refusal; n = items of the rows."""
    items = len({row.item.id for row in rows})
    return undefined_metric(ref, spec, reason=refusal.reason, note=refusal.note, n=items)


def of_pass(
    data: StudyInput,
    rows: Sequence[Row],
    text: str,
    *,
    orders: Sequence[Order],
    reads_missing: str,
    partial: bool = False,
) -> Pairs | Refusal:
    """The usable items of rows in one pass, named by a parameter; see `pairs.usable`."""
    number = pass_of(text, data.passes)
    if isinstance(number, Refusal):
        return number
    pairs = pairs_of(data, rows, orders=orders, passes=(number,))
    return usable(data, pairs, reads_missing=reads_missing, partial=partial)


def swap_metric(data: StudyInput, ref: MetricRef, spec: MetricSpec, rows: Sequence[Row]) -> Metric:
    """A count or share of `SWAP_QUESTIONS` over the items of rows.

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
        With the Wilson interval, as items are independent. An item that lacks a verdict is under
        `missing: disagree` neither consistent nor reversed nor an unstable tie; the note says how
        many. Undefined, in this order: `not_computed` (no such pass), `no_sides`, `one_order`,
        `nothing_scored` (an order without any verdict, or no item with both), `missing_verdict`,
        `empty_denominator` (no item with a preference in both orders).
    """
    asked = SWAP_QUESTIONS[ref.name.split(".")[2]]
    pairs = of_pass(
        data, rows, dict(ref.params)["pass"], orders=BOTH, reads_missing=asked.reads_missing
    )
    if isinstance(pairs, Refusal):
        return refused(ref, spec, pairs, rows)
    eligible = asked.eligible(pairs)
    n, notes = int(eligible.sum()), list(pairs.notes)
    if not n:
        notes.insert(0, "no item has a preference in both orders")
    k = int((asked.hit(pairs) & pairs.complete & eligible).sum())
    return counted(ref, spec, k=k, n=n, note="; ".join(notes) or None)


def slot_metric(data: StudyInput, ref: MetricRef, spec: MetricSpec, rows: Sequence[Row]) -> Metric:
    """`order.slot.rate`: how often a preference is for the answer shown first.

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
        k of the n verdicts that prefer an answer. The interval draws items, so that the two
        orders of an item stay together; where most items give the same it is
        that of `pair_bootstrap.estimate`. A missing verdict prefers nothing. Undefined as
        `swap_metric` says; `empty_denominator` when no verdict prefers an answer.

    Notes
    -----
    In one `order` alone the share mixes preference for a slot with which answers are better.
    """
    params = dict(ref.params)
    orders = tuple(o for o in BOTH if params.get("order", o) == o)
    if not orders:
        refusal = Refusal("not_computed", f"order {params['order']} is not one of ab, ba")
        return refused(ref, spec, refusal, rows)
    pairs = of_pass(
        data, rows, params["pass"], orders=orders, reads_missing="it prefers no slot", partial=True
    )
    if isinstance(pairs, Refusal):
        return refused(ref, spec, pairs, rows)
    slots = pairs.slots[:, :, 0]
    first, decided = (slots == 1).sum(axis=1), (slots != 0).sum(axis=1)
    return estimate(
        ref,
        spec,
        quotient(pairs.items, first, decided, within=(0.0, 1.0)),
        resampling=data.resampling,
        notes=[*pairs.notes, f"verdicts on {len(pairs.items)} items"],
        k=int(first.sum()),
        n=int(decided.sum()),
        lacking="no verdict prefers an answer",
    )


def bias_metric(data: StudyInput, ref: MetricRef, spec: MetricSpec, rows: Sequence[Row]) -> Metric:
    """`order.bias.difference` or `order.bias.p`: does a verdict move to the slot shown first?

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
        Paired by item: half the difference between the credit of answer a shown first and shown
        second, in [-1/2, 1/2]; and the exact sign test of the items whose credit moved, which is
        1 when none did. Items that lack a verdict cannot be paired and are left out, whatever
        `missing` says, unless it says `undefined`. Undefined as `swap_metric` says.
    """
    pairs = of_pass(
        data, rows, dict(ref.params)["pass"], orders=BOTH, reads_missing="its item is left out"
    )
    if isinstance(pairs, Refusal):
        return refused(ref, spec, pairs, rows)
    paired = pairs.only(pairs.complete)
    moved = paired.sides[:, 0, 0] - paired.sides[:, 1, 0]
    if ref.name.endswith(".p"):
        plus, minus = int((moved > 0).sum()), int((moved < 0).sum())
        stayed = len(moved) - plus - minus
        said = f"{plus} items moved to the first slot, {minus} away from it, {stayed} stayed"
        value = exact_sign_test(plus, minus)
        note = "; ".join([said, *pairs.notes])
        return Metric(ref, value, spec.unit, spec.summary, k=plus, n=plus + minus, note=note)
    return estimate(
        ref,
        spec,
        means(paired.items, moved / 4, within=(-0.5, 0.5)),
        resampling=data.resampling,
        notes=pairs.notes,
    )
