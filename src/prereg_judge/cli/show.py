"""`prereg show`: a registration and where it stands, without scoring anything."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import typer
from rich.markup import escape
from rich.table import Table

from prereg_judge.canon import sha256_bytes
from prereg_judge.cli.common import Id, Json, print_json, workspace
from prereg_judge.errors import IntegrityError
from prereg_judge.flow.overview import RunStanding, Standing, standing
from prereg_judge.registration.lock import Lock, parse_lock
from prereg_judge.report.terminal import console, one_line, visible
from prereg_judge.workspace import Workspace


def as_json(found: Standing) -> dict[str, Any]:
    """A registration's standing as JSON values."""
    return {
        "id": found.id,
        "title": found.title,
        "state": found.state,
        "locked_at": found.locked_at,
        "problems": list(found.problems),
        "versions": [
            {"version": v.number, "locked_at": v.locked_at, "reason": v.reason}
            for v in found.versions
        ],
        "due": found.due,
        "overdue": found.overdue,
        "was_due": found.was_due,
        "withdrawn": found.withdrawn,
        "withdrawn_at": found.withdrawn_at,
        "amendment_begun": found.draft,
        "runs": [
            {
                "run": r.entry.number,
                "version": r.entry.version,
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
    return run.entry.told(changed=run.done is None and run.entry.state in ("complete", "stopped"))


def due_words(found: Standing) -> str:
    """The day by which a result is due, whether it is late, and what the day was before."""
    moved = f" (was {found.was_due}, moved after it had passed)" if found.was_due else ""
    return (found.due or "-") + (" OVERDUE" if found.overdue else "") + moved


def state_lines(found: Standing) -> list[str]:
    """How it stands and since when, with the reason and time of a withdrawal."""
    locked = f"locked at {found.locked_at}"
    why = f"withdrawn at {found.withdrawn_at}: {found.withdrawn}"
    if found.locked_at is None:
        return [f"State: {found.state}"]
    if found.state == "locked":
        return [f"State: {locked}"]
    if found.state == "withdrawn":
        return [f"State: withdrawn at {found.withdrawn_at} ({locked}): {found.withdrawn}"]
    told = [f"State: {found.state} ({locked})"]
    return told if found.withdrawn is None else [*told, why[0].upper() + why[1:]]


def runs_table(found: Standing) -> Table:
    """Every run with how far it came and how it ended."""
    table = Table(title="Runs", title_justify="left", title_style="bold")
    for name in ("run", "started", "trials done", "ended", "folder"):
        table.add_column(name, overflow="fold")
    for r in found.runs:
        done = "?" if r.done is None else f"{r.done} of {r.trials}" if r.trials else "-"
        ended = ended_of(r) + (f": {r.entry.reason}" if r.entry.reason else "")
        folder = r.folder + (" (gone)" if r.missing else "")
        table.add_row(
            str(r.entry.number), r.entry.started_at, done, escape(one_line(ended)), folder
        )
    return table


def _lock_of(ws: Workspace, ident: str, version: int) -> tuple[Lock, str] | None:
    """The lock and its own hash, if there is one that can be read; `standing` tells why not."""
    path = ws.lock(ident, version)
    if not path.is_file():  # a pipe would be waited for
        return None
    try:
        raw = path.read_bytes()
        return parse_lock(raw, shown=ws.shown(path)), sha256_bytes(raw)
    except (OSError, IntegrityError):
        return None


def _lock_json(file: str, made: Lock, digest: str) -> dict[str, Any]:
    own = made.registration
    files = [{"role": "registration", "file": own.name, "sha256": own.sha256}]
    files += [{"role": e.role, "file": e.name, "sha256": e.sha256} for e in made.inputs]
    return {"file": file, "sha256": digest, "files": files}


def _text_of(path: Path) -> str | None:
    """The file as it is written, or None where it cannot be read; `standing` tells why not."""
    if not path.is_file():  # a pipe would be waited for
        return None
    try:
        # By bytes: reading as text would turn other line ends into this system's.
        return path.read_bytes().decode("utf-8", "replace")
    except OSError:
        return None


def show(ident: Id, json_out: Json = False) -> None:
    """Show a registration as written, the hashes of its lock, whether they hold, and its runs."""
    ws = workspace()
    found = standing(ws, ident)
    version = max(1, len(found.versions))
    locked = _lock_of(ws, ident, version)
    text = _text_of(ws.registration(ident, version))
    if json_out:
        lock_json = _lock_json(ws.shown(ws.lock(ident, version)), *locked) if locked else None
        print_json({**as_json(found), "lock": lock_json, "registration": text})
        return
    if text is not None:
        typer.echo(visible(text) if sys.stdout.isatty() else text, nl=not text.endswith("\n"))
    out = console()
    if locked:
        told = _lock_json(ws.shown(ws.lock(ident, version)), *locked)
        out.print("\nLocked (SHA-256, role, file)", style="bold")
        for line in ({**told, "role": "lock"}, *told["files"]):  # not a table: it would cut them
            row = f"  {line['sha256']}  {line['role']:<14}  {line['file']}"
            out.print(row, markup=False, soft_wrap=True)
    for line in state_lines(found):
        out.print(escape(one_line(line)), soft_wrap=True)
    for later in found.versions[1:]:
        told_why = f"Version {later.number}, an amendment of {later.locked_at}: {later.reason}"
        out.print(escape(one_line(told_why)), soft_wrap=True)
    if found.draft is not None:
        begun = f"An amendment is begun in {found.draft} and not locked: `prereg amend {found.id}`"
        out.print(escape(one_line(begun)), soft_wrap=True)
    if due_words(found) != "-":
        out.print(f"Due by the end of {due_words(found)}")
    for problem in found.problems:
        out.print(f"  {escape(problem)}", soft_wrap=True)
    if found.runs:
        out.print(runs_table(found))
