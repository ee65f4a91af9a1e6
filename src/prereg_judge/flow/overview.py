"""Where a registration stands: draft, locked or changed, and how far each run came."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Literal

from prereg_judge.errors import IntegrityError, PreregError
from prereg_judge.flow.evidence import refuse_unknown_runs, verify_run
from prereg_judge.flow.locking import Locked, ledger_of, open_locked
from prereg_judge.ledger.book import RunEntry, run_entries
from prereg_judge.record.run import read_plan, read_record
from prereg_judge.registration.load import load_registration
from prereg_judge.workspace import Workspace

State = Literal["draft", "locked", "changed since the lock", "registration missing"]


@dataclass(frozen=True)
class RunStanding:
    """One run: what the ledger says, how many trials are done (None: it no longer stands)."""

    entry: RunEntry
    folder: str
    done: int | None
    trials: int
    missing: bool


@dataclass(frozen=True)
class Standing:
    """One registration; `problems` says what is wrong with it, in words."""

    id: str
    title: str
    state: State
    locked_at: str | None
    problems: tuple[str, ...]
    runs: tuple[RunStanding, ...]


def standing(workspace: Workspace, ident: str) -> Standing:
    """Read where a registration stands; what is wrong with it is told, not raised.

    Raises
    ------
    UsageError
        If there is no such registration.
    IntegrityError
        If the ledger itself was changed.
    """
    path = workspace.registration(ident)
    events = ledger_of(workspace).events(ident)
    if not events and not os.path.lexists(path):
        workspace.known(ident)  # which says what there is
    title, problems, state, locked = "", [], "draft", None
    retries = 0
    try:
        model = load_registration(path, shown=workspace.shown(path)).model
        title, retries = model.title, model.protocol.hang.retries
    except PreregError as exc:
        problems += [str(p) for p in exc.problems]
    except OSError as exc:
        problems.append(f"{workspace.shown(path)}: {exc.strerror}")
    locked_at = next((e["locked_at"] for e in reversed(events) if e["event"] == "registered"), None)
    if locked_at is not None or workspace.lock(ident).exists():
        state = "locked"
        try:
            locked = open_locked(workspace, ident, with_model=False)
        except PreregError as exc:
            state = "changed since the lock" if path.exists() else "registration missing"
            problems = [str(p) for p in exc.problems]
    entries = run_entries(events)
    try:
        refuse_unknown_runs(workspace, ident, entries)
    except IntegrityError as exc:
        problems += [str(p) for p in exc.problems]
    runs = tuple(_run(workspace, ident, entry, retries, locked) for entry in entries)
    return Standing(ident, title, state, locked_at, tuple(problems), runs)  # type: ignore[arg-type]


def every_id(workspace: Workspace) -> list[str]:
    """Ids of every registration that has a file or that the ledger knows."""
    told = {e["id"] for e in ledger_of(workspace).events() if e["event"] == "registered"}
    return sorted({*workspace.ids(), *told})


def _run(
    workspace: Workspace, ident: str, entry: RunEntry, retries: int, locked: Locked | None
) -> RunStanding:
    folder = workspace.run(ident, entry.number)
    shown = workspace.shown(folder)
    try:
        ended = entry.state in ("complete", "stopped")
        if ended and locked is not None:
            record = verify_run(workspace, locked, entry)
        else:
            record = read_record(folder, shown=shown)
        plan = [line.trial for line in read_plan(folder, shown=shown)]
        done = sum(record.is_done(trial, retries=retries) for trial in plan)
        return RunStanding(entry, shown, done, len(plan), False)
    except (PreregError, OSError):
        return RunStanding(entry, shown, None, 0, not folder.is_dir())
