"""Controls of a pairwise judge: does its verdict follow the length, or the format, of answers?

Looks at what the answers look like, never at what they say. A judge that follows length need not
be wrong to: longer answers may be better, which is why the share is also set beside known labels.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from prereg_judge.shape import Shape
from prereg_judge.stats.resample import ratio
from prereg_judge.study.metric import Metric, MetricRef, MetricSpec
from prereg_judge.study.order_metrics import refused
from prereg_judge.study.outcomes import ItemView, StudyInput
from prereg_judge.study.pair_bootstrap import Floats, Statistic, estimate, quotient
from prereg_judge.study.pairs import Pairs, pairs_of, pass_of, usable
from prereg_judge.study.row_questions import Refusal
from prereg_judge.study.rows import GROUPING, Row

Trait = Literal["length", "markdown"]
TRAITS: dict[Trait, Callable[[Shape], int]] = {
    "length": lambda shape: shape.length,
    "markdown": lambda shape: shape.markdown,
}
_MORE: dict[Trait, str] = {
    "length": "the longer answer",
    "markdown": "the answer with more signs of format",
}
_LOG: dict[Trait, str] = {
    "length": "log2 of the lengths' ratio, that is for answer a twice as long; items with an empty "
    "answer are left out",
    "markdown": "log2 of the ratio of one plus the numbers of signs of format",
}
# Below this share of its own sum of squares a spread is rounding.
_ROUNDING = 1e-12


def _specs() -> Iterator[MetricSpec]:
    boot = "Interval: percentile bootstrap over items."
    for trait, more in _MORE.items():
        yield MetricSpec(
            f"{{set}}.{trait}.follow.rate",
            f"Verdicts that prefer {more}, of the verdicts of `pass` in every order that prefer "
            f"an answer, on items whose answers differ in this. {boot}",
            "share", ("pass",), GROUPING, (0.0, 1.0),
        )  # fmt: skip
        yield MetricSpec(
            f"{{set}}.{trait}.follow.difference",
            f"Share of verdicts of `pass` that prefer {more}, minus the share of known labels that "
            "do: each verdict that prefers an answer beside the known label of its item, where "
            f"that prefers one too. 0 for a judge that is always right. {boot}",
            "share", ("pass",), GROUPING, (-1.0, 1.0),
        )  # fmt: skip
        yield MetricSpec(
            f"{{set}}.{trait}.slope",
            "Slope of the least-squares line of a verdict's credit of answer a (1 when it is "
            f"preferred, 1/2 for a tie, else 0) in `pass` on the {_LOG[trait]}. {boot}",
            "share", ("pass",), GROUPING, (-math.inf, math.inf),
        )  # fmt: skip


# With `{set}` still open.
CONTROL_SPECS: tuple[MetricSpec, ...] = tuple(_specs())


def _label_side(data: StudyInput, item: ItemView) -> int | None:
    """Which answer the known label prefers; None without a label of the scale."""
    if data.pair is None or item.label is None or item.label not in data.pair.sides:
        return None
    return data.pair.side(item.label)


def _longer(item: ItemView, trait: Trait) -> int:
    """1 = answer a has more of the trait, -1 = answer b, 0 = neither, or not known."""
    if item.shapes is None:
        return 0
    a, b = map(TRAITS[trait], item.shapes)
    return (a > b) - (a < b)


def control_metric(
    data: StudyInput, ref: MetricRef, spec: MetricSpec, rows: Sequence[Row]
) -> Metric:
    """A metric of `CONTROL_SPECS` over the items of rows.

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
        n = verdicts. The interval draws items with all their verdicts. A missing verdict prefers
        no answer; `exclude` leaves its item out. Undefined, in this order: `not_computed`
        (no such pass), `no_sides`, `not_computed` (nothing known of how the answers look),
        `no_labels`, `empty_denominator` (no two answers differ, or no label prefers one),
        `nothing_scored`, `missing_verdict`, `empty_denominator` (no verdict prefers an answer, or
        for a slope all answers differ alike).
    """
    parts = ref.name.split(".")
    trait: Trait = "length" if parts[1] == "length" else "markdown"
    slope, against = parts[2] == "slope", ref.name.endswith(".difference")
    number = pass_of(dict(ref.params)["pass"], data.passes)
    if isinstance(number, Refusal):
        return refused(ref, spec, number, rows)
    kept = _about(data, rows, trait, slope=slope, against=against)
    if isinstance(kept, Refusal):
        return refused(ref, spec, kept, rows)
    pairs = pairs_of(data, kept, orders=data.orders, passes=(number,))
    pairs = usable(data, pairs, reads_missing="it prefers no answer", partial=True)
    if isinstance(pairs, Refusal):
        return refused(ref, spec, pairs, rows)
    if slope:
        return _slope_metric(data, ref, spec, pairs, trait=trait)
    return _follow_metric(data, ref, spec, pairs, trait=trait, against=against)


def _follow_metric(
    data: StudyInput,
    ref: MetricRef,
    spec: MetricSpec,
    pairs: Pairs,
    *,
    trait: Trait,
    against: bool,
) -> Metric:
    """How often a preference is for more of a trait; with `against`, beyond the known labels."""
    sides = pairs.sides[:, :, 0]
    more = np.array([_longer(item, trait) for item in pairs.items], dtype=np.int64)
    follows = (sides == more[:, None]).sum(axis=1)
    decided = (sides != 0).sum(axis=1)
    k, n = int(follows.sum()), int(decided.sum())
    statistic = quotient(pairs.items, follows, decided, within=(0.0, 1.0))
    notes = [*pairs.notes, f"verdicts on {len(pairs.items)} items"]
    if against:
        right = np.array([_label_side(data, item) for item in pairs.items], dtype=np.int64)
        of_labels = (right == more) * decided
        statistic = quotient(pairs.items, follows - of_labels, decided, within=(-1.0, 1.0))
        notes.append(f"{k} of {n} by verdict, {int(of_labels.sum())} by label")
    return estimate(
        ref,
        spec,
        statistic,
        resampling=data.resampling,
        notes=notes,
        k=None if against else k,
        n=n,
        lacking="no verdict prefers an answer",
    )


def _slope_metric(
    data: StudyInput, ref: MetricRef, spec: MetricSpec, pairs: Pairs, *, trait: Trait
) -> Metric:
    """The slope of credit on a trait."""
    ratios = np.array([_log_ratio(item, trait) for item in pairs.items])
    given = pairs.given[:, :, 0]
    return estimate(
        ref,
        spec,
        _line(pairs.items, ratios, credit=(pairs.sides[:, :, 0] + 1) / 2, given=given),
        resampling=data.resampling,
        notes=[*pairs.notes, f"verdicts on {len(pairs.items)} items"],
        n=int(given.sum()),
        lacking="the answers of all items differ alike",
    )


def _about(
    data: StudyInput, rows: Sequence[Row], trait: Trait, *, slope: bool, against: bool
) -> list[Row] | Refusal:
    """The rows whose items a metric is about, at least one."""
    if data.pair is None:
        return Refusal("no_sides", "the verdicts of this judge do not say which answer is better")
    if all(r.item.shapes is None for r in rows):
        return Refusal("not_computed", f"the {trait} of the answers is not known")
    if slope:
        kept = [r for r in rows if _measured(r.item, trait)]
        return kept or Refusal("empty_denominator", "no item has answers that can be compared")
    if against and all(_label_side(data, r.item) is None for r in rows):
        return Refusal("no_labels", "no item has a known label")
    kept = [r for r in rows if _longer(r.item, trait)]
    if not kept:
        return Refusal("empty_denominator", f"no two answers differ in {trait}")
    if against:
        kept = [r for r in kept if _label_side(data, r.item)]
    return kept or Refusal("empty_denominator", "no such item has a label that prefers an answer")


def _measured(item: ItemView, trait: Trait) -> bool:
    """Whether the item has a ratio of the trait."""
    if item.shapes is None:
        return False
    return trait == "markdown" or all(shape.length > 0 for shape in item.shapes)


def _log_ratio(item: ItemView, trait: Trait) -> float:
    """What the slope is on; of an item that is `_measured`."""
    if item.shapes is None:
        raise ValueError(f"{item.id}: nothing is known of its answers")
    a, b = (TRAITS[trait](shape) + (trait == "markdown") for shape in item.shapes)
    return math.log2(a / b)


def _line(
    items: Sequence[ItemView], x: Floats, *, credit: Floats, given: NDArray[np.bool_]
) -> Statistic:
    """The slope of credit, shape (n, O), on x, shape (n,), from sums over items.

    NaN where x does not vary. A slope is rounded to 12 decimals, so that one that does not move
    between resamples is seen not to.
    """
    counts = given.sum(axis=1)
    total = int(counts.sum())
    centred = x - (x @ counts / total if total else 0.0)
    credited = (credit * given).sum(axis=1)
    columns = np.column_stack(
        [counts, counts * centred, credited, counts * centred**2, credited * centred]
    )

    def of_totals(totals: Floats) -> Floats:
        n, sx, sy, sxx, sxy = np.moveaxis(np.asarray(totals), -1, 0)
        spread = n * sxx - sx * sx
        spread = np.where(spread > _ROUNDING * n * sxx, spread, 0.0)
        slopes: Floats = np.round(ratio(n * sxy - sx * sy, spread), 12)
        return slopes

    return Statistic(items, columns, of_totals)


def control_traits(items: Sequence[ItemView]) -> Mapping[Trait, bool]:
    """For each trait, whether the answers of some item differ in it."""
    return {trait: any(_longer(item, trait) for item in items) for trait in TRAITS}
