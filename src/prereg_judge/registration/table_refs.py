"""Checks of one metric reference that is about tables: what their form rules out or settles.

Knows what a table has (sides, gaps, orders) and how much of it, not what it says.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from prereg_judge.study.metric import MetricRef

# Counts and shares of items, with the Wilson interval.
_SHARES = (
    "opposite", "changed", "divergence.rate", "agreement", "split", "order.reversal",
    "order.consistent",
)  # fmt: skip


@dataclass(frozen=True)
class TableFacts:
    """What is known of tables before a run.

    Attributes
    ----------
    items, models
        Most items that can be counted under any key, and the models on the board.
    sided, gaps
        Whether votes say which answer is better, and whether items have quality gaps.
    both_orders
        Names of the judges whose verdicts are there already, in both orders; None where the judge
        is called.
    assumed
        Whether an evenly spread board has registered values in place of measured ones.
    """

    items: int
    models: int
    sided: bool
    gaps: bool
    both_orders: frozenset[str] | None
    assumed: bool


def table_troubles(ref: MetricRef, facts: TableFacts) -> Iterator[tuple[str, str]]:
    """What is wrong with a reference to a table's metric, as (what, remedy)."""
    name, params = ref.base.name, dict(ref.params)
    if name.startswith("opposite.") and not facts.sided:
        what = f"`{name}` needs votes that say which answer is better"
        yield what, "map `annotations.labels` to a, b and tie"
    if name.startswith("divergence.") and not facts.gaps:
        yield f"`{name}` needs a quality gap", "register `annotations.gap`: column or credit"
    judge = params.get("judge")
    one_order = facts.both_orders is not None and judge not in facts.both_orders
    if name.startswith("order.") and judge is not None and one_order:
        what = f"`{name}` compares two orders, and the judge `{judge}` has verdicts in one"
        yield what, "name the column of the other under `ba`, or leave the claim out"


def settled_by(ref: MetricRef, facts: TableFacts) -> str | None:
    """What settles a table's metric, whatever the votes say; None where they can change it."""
    name = ref.base.name
    if name == "items.count":
        return "which items both pools rated settles it, whatever they said"
    if name.startswith("displacement.even_") and facts.assumed:
        return "it follows from the values under `assumed`, whatever the votes say"
    if name == "tau" and ref.name.endswith(".ci_high"):
        return "on few items tau's interval lies too low, so its upper limit proves little"
    return None


def is_share_of_items(ref: MetricRef) -> bool:
    """Whether a table's metric is a count or share of items with the Wilson interval."""
    return ref.base.name.startswith(_SHARES)


def most_of(unit: str, facts: TableFacts | None) -> float | None:
    """The largest value that a count in this unit can have; None where it is not known."""
    if facts is None:
        return None
    sizes = {"items": facts.items, "models": facts.models, "pairs": max(facts.models - 1, 0)}
    return sizes.get(unit)
