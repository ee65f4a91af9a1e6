"""Rows: an item in one order, with its verdict in every pass.

The unit that a two-pass study counts. Knows nothing of metrics; gives the rows, the table of
transitions and the list of disagreements.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from prereg_judge.study.outcomes import ItemView, StudyInput, TrialKey
from prereg_judge.words import Order, SetRole

# Parameters that choose among the rows of a set.
GROUPING = ("kind", "stratum")


@dataclass(frozen=True)
class Row:
    """An item in one order.

    Attributes
    ----------
    item
        The item.
    order
        The order in which it was presented.
    verdicts
        One entry a pass, first pass first; None where the trial has no verdict (it is unscored,
        or was never run).
    """

    item: ItemView
    order: Order
    verdicts: tuple[str | None, ...]

    @property
    def same(self) -> bool:
        """Whether every pass has a verdict and all of them are the same."""
        return None not in self.verdicts and len(set(self.verdicts)) == 1

    def at(self, pass_no: int) -> str | None:
        """The verdict in a pass, counted from 1."""
        return self.verdicts[pass_no - 1]


def trial_of(row: Row, pass_no: int) -> TrialKey:
    """The key of a row's trial in a pass, counted from 1."""
    return TrialKey(row.item.set, row.item.id, row.order, pass_no)


def of_group(rows: Sequence[Row], params: Mapping[str, str]) -> tuple[Row, ...]:
    """The rows that are of the `kind` and `stratum` given, each where it is given."""
    return tuple(
        r
        for r in rows
        if params.get("kind", r.item.kind) == r.item.kind
        and params.get("stratum", r.item.stratum) == r.item.stratum
    )


def rows_of(data: StudyInput, role: SetRole) -> tuple[Row, ...]:
    """Every row of an item set, in the order of the items.

    Passes are counted from 1 to `data.passes`. A planned trial that has no outcome at all is a
    trial without a verdict: what was not run is never left out of the count.
    """

    def verdict(item: ItemView, order: Order, pass_no: int) -> str | None:
        outcome = data.outcomes.get(TrialKey(item.set, item.id, order, pass_no))
        return None if outcome is None else outcome.verdict

    return tuple(
        Row(item, order, tuple(verdict(item, order, p) for p in range(1, data.passes + 1)))
        for item in data.items
        if item.set == role
        for order in data.orders
    )


def scored_trials(data: StudyInput) -> int:
    """How many planned trials, over all item sets, have a verdict."""
    roles = {item.set for item in data.items}
    return sum(v is not None for r in roles for row in rows_of(data, r) for v in row.verdicts)


def planned_trials(data: StudyInput) -> int:
    """How many trials were planned, over all item sets."""
    return len(data.items) * len(data.orders) * data.passes


def copies(rows: Sequence[Row]) -> list[int]:
    """How many rows there are of each distinct content (in one order), most first."""
    return sorted(Counter((r.item.content, r.order) for r in rows).values(), reverse=True)


@dataclass(frozen=True)
class TransitionTable:
    """First-pass verdicts against those of a later pass, all rows counted.

    Attributes
    ----------
    set
        The item set.
    first, later
        The two passes.
    verdicts
        The names of both the rows and the columns: the judge's list, then None for "no verdict".
    counts
        `counts[i][j]` = rows with `verdicts[i]` in the first and `verdicts[j]` in the later pass.
    order
        The order of its rows, where each order has a table of its own; else None.
    """

    set: SetRole
    first: int
    later: int
    verdicts: tuple[str | None, ...]
    counts: tuple[tuple[int, ...], ...]
    order: Order | None = None

    @property
    def n(self) -> int:
        """How many rows the table holds: every row of the set, or of the set in its order."""
        return sum(map(sum, self.counts))

    def count(self, first: str | None, later: str | None) -> int:
        """Rows with these two verdicts (None = no verdict)."""
        return self.counts[self.verdicts.index(first)][self.verdicts.index(later)]


def transitions(data: StudyInput, role: SetRole) -> tuple[TransitionTable, ...]:
    """The first pass against each later pass.

    With more than two passes there is one table for each later pass, always against the first:
    that is how `flips` compares. Of pairs, each order has tables of its own: what the order does
    to a verdict is not what a second pass does. Missing verdicts have their own row and column
    whatever the registration says about them, so the table always sums to the number of rows.

    Parameters
    ----------
    data
        The run.
    role
        The item set.

    Returns
    -------
    tuple of TransitionTable
        Empty with a single pass, or when the set has no row.

    Raises
    ------
    ValueError
        When a verdict is not on the judge's list.
    """
    rows = rows_of(data, role)
    orders: tuple[Order | None, ...] = (None,) if data.pair is None else data.orders
    return tuple(
        _transition(data, role, order, later, [r for r in rows if order in (None, r.order)])
        for order in orders
        for later in range(2, data.passes + 1)
        if rows
    )


def _transition(
    data: StudyInput, role: SetRole, order: Order | None, later: int, rows: Sequence[Row]
) -> TransitionTable:
    names: tuple[str | None, ...] = (*data.verdicts, None)
    pairs = Counter((row.at(1), row.at(later)) for row in rows)
    counts = tuple(tuple(pairs[a, b] for b in names) for a in names)
    table = TransitionTable(role, 1, later, names, counts, order)
    if table.n != len(rows):
        strange = sorted({str(v) for pair in pairs for v in pair} - {str(v) for v in names})
        raise ValueError(f"verdicts not on the judge's list: {strange}")
    return table


@dataclass(frozen=True)
class Disagreement:
    """A row whose passes do not all say the same.

    Attributes
    ----------
    set, item_id, order
        Which row.
    kind, stratum, label
        The item's grouping and known label, None where it has none.
    verdicts
        One entry a pass, None where there is no verdict.
    """

    set: SetRole
    item_id: str
    order: Order
    kind: str | None
    stratum: str | None
    label: str | None
    verdicts: tuple[str | None, ...]


def disagreements(data: StudyInput) -> tuple[Disagreement, ...]:
    """Rows whose verdicts differ between passes, or of which only some passes have a verdict.

    A row without any verdict is missing, not disagreed about, and is not listed; a run of a
    single pass has none. The rows come set by set, in the order of the items.
    """
    roles = dict.fromkeys(item.set for item in data.items)
    return tuple(
        Disagreement(
            role, r.item.id, r.order, r.item.kind, r.item.stratum, r.item.label, r.verdicts
        )
        for role in roles
        for r in rows_of(data, role)
        if len(set(r.verdicts)) > 1
    )
