"""`prereg status`: every registration of the workspace in a line."""

from __future__ import annotations

from rich.markup import escape
from rich.table import Table

from prereg_judge.cli.common import Json, print_json, say, workspace
from prereg_judge.cli.show import as_json, due_words, ended_of
from prereg_judge.flow.overview import every_id, standing
from prereg_judge.report.terminal import console


def status(json_out: Json = False) -> None:
    """List every registration: how it stands, its runs, and what is due or overdue."""
    ws = workspace()
    found = [standing(ws, ident) for ident in every_id(ws)]
    if json_out:
        print_json([as_json(one) for one in found])
        return
    if not found:
        say("No registrations yet: prereg new ID writes one.")
        return
    table = Table()
    for name in ("id", "state", "runs", "last run", "due", "title"):
        table.add_column(name)
    for one in found:
        last = one.runs[-1] if one.runs else None
        how = "-"
        if last is not None:
            how = ended_of(last)
            if last.entry.state == "open" and last.done is not None:
                how += f" ({last.done} of {last.trials})"
        state: str = one.state if not one.problems or one.state != "locked" else "locked, INVALID"
        if len(one.versions) > 1:
            state += f", version {len(one.versions)}"
        row = (one.id, state, str(len(one.runs)), how, due_words(one), escape(one.title))
        table.add_row(*row)
    console().print(table)
