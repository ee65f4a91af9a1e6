"""Tables of pairs, judges and models, for the terminal.

Every mark reads without colour.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.console import Group, RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from prereg_judge.report.numbers import explained, observed
from prereg_judge.study.judge_pools import JudgeRow
from prereg_judge.study.leaderboard import BoardRow
from prereg_judge.study.pairs import SwapTable

REVERSAL, CONSISTENT = "r", "="


def swap_mark(first: int | None, second: int | None) -> str:
    """What a cell of a swap table is: a reversal, consistent, or neither.

    Parameters
    ----------
    first, second
        Sides of the verdicts in ab and ba, said of the answers as shown (`PairScale.sides`); None
        for no verdict.

    Returns
    -------
    str
        `REVERSAL` where one slot wins twice; `CONSISTENT` where the answer is the same, or it is a
        tie twice; else empty.
    """
    if first is None or second is None:
        return ""
    one, other = _sign(first), _sign(second)
    if one == other != 0:
        return REVERSAL
    return CONSISTENT if one == -other else ""


def _sign(side: int) -> int:
    return (side > 0) - (side < 0)


def swap_table(shown: SwapTable, *, sides: Mapping[str, int]) -> RenderableType:
    """The verdicts in order ab (rows) against those in order ba (columns), with what cells mean."""
    names = ["(no verdict)" if v is None else v for v in shown.verdicts]
    at = [None if v is None else sides.get(v) for v in shown.verdicts]
    table = Table()
    table.add_column(f"n = {shown.n}", overflow="fold")
    for name in names:
        table.add_column(escape(name), justify="right", overflow="fold")
    for name, first, row in zip(names, at, shown.counts, strict=True):
        marks = [swap_mark(first, second) for second in at]
        cells = [f"{mark} {count}".strip() for mark, count in zip(marks, row, strict=True)]
        table.add_row(escape(name), *cells)
    title = (
        f"{shown.set}, pass {shown.pass_no}: order ab (down) against order ba (across), "
        "as said of the answers as shown"
    )
    legend = (
        f"{REVERSAL}: a reversal, the same slot twice, so the preferred answer changed; "
        f"{CONSISTENT}: consistent, the same answer in both orders or a tie in both."
    )
    return Group(Text(title, style="bold"), table, Text(legend, style="dim"))


def swap_parts(tables: Sequence[SwapTable], *, sides: Mapping[str, int]) -> list[RenderableType]:
    """A table for each set and pass over all of its items; where the strata are, if there are."""
    parts = [swap_table(t, sides=sides) for t in tables if t.stratum is None]
    strata = dict.fromkeys(t.stratum for t in tables if t.stratum is not None)
    if strata:
        words = f"The same by stratum ({len(strata)}): `swap_tables` in score.json."
        parts.append(Text(words, style="dim"))
    return parts


def judges_table(rows: Sequence[JudgeRow], *, pools: Sequence[str]) -> RenderableType:
    """Each judge's order reversal beside its lean; which way a lean goes in the title."""
    table = Table()
    for name in ("judge", "order reversal", "lean"):
        table.add_column(name, overflow="fold")
    for row in rows:
        table.add_row(
            escape(row.judge), escape(explained(row.reversal)), escape(explained(row.lean))
        )
    one, two = pools
    title = f"Order reversal beside lean (agreement with {one} minus agreement with {two})"
    return Group(Text(title, style="bold"), table)


def board_table(rows: Sequence[BoardRow], *, pools: Sequence[str]) -> RenderableType:
    """The board of pool 1 beside that of pool 2; which way a shift goes in the title.

    Why an interval is not there stands beside the same numbers in the list of all.
    """
    one, two = pools
    table = Table()
    for name in ("place", "model", f"credit, {one}", f"credit, {two}", f"place, {two}", "shift"):
        table.add_column(escape(name), overflow="fold")
    for row in rows:
        first, second = (escape(observed(metric)) for metric in row.credit)
        shift = escape(observed(row.shift))
        table.add_row(str(row.place), escape(row.model), first, second, str(row.other_place), shift)
    title = f"The board of {one}, with its shift under {two} (credit there minus credit here)"
    return Group(Text(title, style="bold"), table)
