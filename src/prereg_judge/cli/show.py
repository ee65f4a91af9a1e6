"""`prereg show`: a registration and where it stands, without scoring anything."""

from __future__ import annotations

from typing import Any

from rich.markup import escape
from rich.syntax import Syntax
from rich.table import Table

from prereg_judge.cli.common import Id, Json, print_json, workspace
from prereg_judge.flow.overview import RunStanding, Standing, standing
from prereg_judge.report.terminal import console


def as_json(found: Standing) -> dict[str, Any]:
    """A registration's standing as JSON values."""
    return {
        "id": found.id,
        "title": found.title,
        "state": found.state,
        "locked_at": found.locked_at,
        "problems": list(found.problems),
        "runs": [
            {
                "run": r.entry.number,
                "state": r.entry.state,
                "started_at": r.entry.started_at,
                "resumed": r.entry.resumed,
                "done": r.done,
                "trials": r.trials,
                "verdict": "INVALID" if r.done is None and r.entry.verdict else r.entry.verdict,
                "folder": r.folder,
                "missing": r.missing,
            }
            for r in found.runs
        ],
    }


def ended_of(run: RunStanding) -> str:
    """How a run stands in a word or two; what can no longer be read is not a verdict."""
    if run.done is None and run.entry.state in ("complete", "stopped"):
        return f"INVALID (was {run.entry.ended})"
    return run.entry.ended


def runs_table(found: Standing) -> Table:
    """Every run with how far it came and how it ended."""
    table = Table(title="Runs", title_justify="left", title_style="bold")
    for name in ("run", "started", "trials done", "ended", "folder"):
        table.add_column(name)
    for r in found.runs:
        done = "?" if r.done is None else f"{r.done} of {r.trials}"
        ended = ended_of(r) + (f": {r.entry.reason}" if r.entry.reason else "")
        folder = r.folder + (" (gone)" if r.missing else "")
        table.add_row(str(r.entry.number), r.entry.started_at, done, escape(ended), folder)
    return table


def show(ident: Id, json_out: Json = False) -> None:
    """Show a registration as written, whether it is locked and unchanged, and its runs."""
    ws = workspace()
    found = standing(ws, ident)
    text = ws.registration(ident).read_text(encoding="utf-8", errors="replace")
    if json_out:
        print_json({**as_json(found), "registration": text})
        return
    out = console()
    out.print(Syntax(text, "yaml", background_color="default", word_wrap=True))
    out.print(f"State: {found.state}" + (f", at {found.locked_at}" if found.locked_at else ""))
    for problem in found.problems:
        out.print(f"  {escape(problem)}")
    if found.runs:
        out.print(runs_table(found))
