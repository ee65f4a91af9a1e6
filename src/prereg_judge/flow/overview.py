"""Where a registration stands: draft, locked, changed, withdrawn or late, and how its runs are."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from prereg_judge import clock
from prereg_judge.errors import IntegrityError, PreregError
from prereg_judge.flow.evidence import refuse_unknown_runs, verify_run
from prereg_judge.flow.locked import LOCK_MISSING, Locked, ledger_of, open_locked
from prereg_judge.ledger.events import RunEntry, Version, run_entries, versions, withdrawal
from prereg_judge.record.run import read_plan, read_record
from prereg_judge.registration.load import load_registration
from prereg_judge.registration.lock import FILE_MISSING
from prereg_judge.workspace import Workspace

State = Literal[
    "draft",
    "locked",
    "files missing",
    "changed since the lock",
    "registration missing",
    "withdrawn",
]
# Where nothing else is wrong, nothing was changed, and a copy may have the files.
_NOT_THERE = frozenset({LOCK_MISSING, FILE_MISSING})


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
    """One registration; `problems` says what is wrong with it, in words.

    `due` is the day by whose end a result is due, and `overdue` says that the day is over and no
    finished run has been scored; `was_due` is a day that an amendment moved after it had passed;
    `withdrawn` is the reason, `withdrawn_at` the time; `draft` is the file of an amendment that is
    begun and not locked.
    """

    id: str
    title: str
    state: State
    locked_at: str | None
    problems: tuple[str, ...]
    runs: tuple[RunStanding, ...]
    versions: tuple[Version, ...] = ()
    due: str | None = None
    overdue: bool = False
    was_due: str | None = None
    withdrawn: str | None = None
    withdrawn_at: str | None = None
    draft: str | None = None


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
    there = os.path.lexists(path)
    if not events and not there and ident not in workspace.left_ids():
        workspace.known(ident)  # which says what there is
    title, problems, due, retries = _read(workspace, ident, max(1, len(versions(events))))
    made, gone = versions(events), withdrawal(events)
    dues = _dues(workspace, ident, made)
    locked: dict[int, Locked] = {}
    state: State = "draft" if there else "registration missing"
    if made or workspace.lock(ident).exists():
        state = "locked"
        try:
            locked = {
                v.number: open_locked(workspace, ident, with_model=False, version=v.number)
                for v in made
            }
            if not made:
                open_locked(workspace, ident, with_model=False)
        except PreregError as exc:
            state = _broken(exc) if path.exists() else "registration missing"
            problems = [str(p) for p in exc.problems]
    if gone is not None and state == "locked":
        state = "withdrawn"
    entries = run_entries(events)
    try:
        refuse_unknown_runs(workspace, ident, entries)
    except IntegrityError as exc:
        problems += [str(p) for p in exc.problems]
    waiting = bool(made) and gone is None and all(e.verdict is None for e in entries)
    return Standing(
        ident,
        title,
        state,
        made[-1].locked_at if made else None,
        tuple(problems),
        tuple(_run(workspace, ident, e, retries, locked.get(e.version)) for e in entries),
        versions=made,
        due=due,
        overdue=waiting and any(late for _, late in dues),
        was_due=next((day for day, late in dues if late and day != due), None),
        withdrawn=None if gone is None else str(gone["reason"]),
        withdrawn_at=None if gone is None else str(gone["at"]),
        draft=_begun(workspace, ident, made) if gone is None else None,
    )


def _broken(exc: PreregError) -> State:
    """Whether files are missing, and nothing else is wrong, or something was changed."""
    missing = all(problem.what in _NOT_THERE for problem in exc.problems)
    return "files missing" if missing else "changed since the lock"


def _begun(workspace: Workspace, ident: str, made: Sequence[Version]) -> str | None:
    """The file of the next version, where an amendment was begun."""
    path = workspace.registration(ident, len(made) + 1)
    return workspace.shown(path) if made and path.is_file() else None


def _dues(workspace: Workspace, ident: str, made: Sequence[Version]) -> list[tuple[str, bool]]:
    """The day of each version that has one, and whether it passed while that version was in force.

    An amendment moves a day that is still to come; one that had passed stays late.
    """
    ends = [*(v.locked_at for v in made[1:]), clock.now()][: len(made)]
    found = []
    for version, end in zip(made, ends, strict=True):
        day = _read(workspace, ident, version.number)[2]
        if day is not None:
            found.append((day, end[:10] > day))
    return found


def _read(workspace: Workspace, ident: str, version: int) -> tuple[str, list[str], str | None, int]:
    """Title, problems, due date and retries of the version in force, or of the draft."""
    path = workspace.registration(ident, version)
    try:
        model = load_registration(path, shown=workspace.shown(path)).model
    except PreregError as exc:
        return "", [str(p) for p in exc.problems], None, 0
    except OSError as exc:
        return "", [f"{workspace.shown(path)}: {exc.strerror}"], None, 0
    return model.title, [], model.due, model.protocol.hang.retries


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
