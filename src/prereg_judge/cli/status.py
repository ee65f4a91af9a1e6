"""`prereg status`: every registration of the workspace in a line."""

from __future__ import annotations

from collections.abc import Sequence

from rich.markup import escape
from rich.table import Table

from prereg_judge.cli.common import Json, print_json, say, workspace
from prereg_judge.cli.show import as_json, due_words, ended_of
from prereg_judge.flow.locked import known_ids, ledger_of
from prereg_judge.flow.overview import Standing, standing
from prereg_judge.report.terminal import console, one_line

_LEAST_TITLE = 24  # columns, below which a title is no longer worth its place


def status(json_out: Json = False) -> None:
    """List every registration: how it stands, its runs, and what is due or overdue."""
    ws = workspace()
    found = [standing(ws, ident) for ident in known_ids(ws, ledger_of(ws).events())]
    if json_out:
        print_json([as_json(one) for one in found])
        return
    if not found:
        say("No registrations yet: prereg new ID writes one.")
        return
    out = console()
    rows = [_row(one) for one in found]
    told = _table(rows)
    # Where there is little room, the titles go first: they can be read with `prereg show`.
    room = out.width - out.measure(told).maximum
    if room >= _LEAST_TITLE:
        told = _table(rows, titles=[one.title for one in found])
    out.print(told)


def _row(one: Standing) -> tuple[str, ...]:
    """A registration's cells, but for its title."""
    last = one.runs[-1] if one.runs else None
    how = "-"
    if last is not None:
        how = ended_of(last)
        if last.entry.state == "open" and last.done is not None:
            how += f" ({last.done} of {last.trials})"
    state: str = one.state if not one.problems or one.state != "locked" else "locked, INVALID"
    if len(one.versions) > 1:
        state += f", version {len(one.versions)}"
    if one.draft is not None:
        state += f" (version {len(one.versions) + 1} begun)"
    return one.id, state, str(len(one.runs)), how, due_words(one)


def _table(rows: Sequence[tuple[str, ...]], *, titles: Sequence[str] | None = None) -> Table:
    """The table, folded where it is too narrow; with titles the other columns stay whole."""
    table = Table()
    for name in ("id", "state", "runs", "last run", "due"):
        table.add_column(name, overflow="fold", no_wrap=titles is not None)
    if titles is not None:
        table.add_column("title", overflow="fold")
    for n, row in enumerate(rows):
        title = () if titles is None else (escape(one_line(titles[n])),)
        table.add_row(*map(escape, row), *title)
    return table
