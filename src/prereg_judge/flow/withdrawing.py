"""Withdrawing a registration: nothing is deleted, a tombstone says when and why."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from prereg_judge import clock
from prereg_judge.canon import canonical_json, sha256_bytes
from prereg_judge.chain import write_synced
from prereg_judge.errors import Problem, UsageError
from prereg_judge.flow.locked import known_registration, ledger_of
from prereg_judge.flow.locking import refuse_withdrawn
from prereg_judge.ledger.events import Event, run_entries, versions
from prereg_judge.workspace import Workspace


def withdraw_registration(workspace: Workspace, ident: str, *, reason: str) -> Path:
    """Withdraw a locked registration for good; its files, runs and scores stay.

    Returns
    -------
    The tombstone's path.

    Raises
    ------
    UsageError
        If it is not locked, is withdrawn already, or has a run that is still open.
    """
    known_registration(workspace, ident)
    path = workspace.tombstone(ident)

    def prepare(events: list[Event]) -> dict[str, Any]:
        mine = [e for e in events if e.get("id") == ident]
        made = versions(mine)
        if not made:
            what = f"{ident!r} is not locked"
            raise UsageError(Problem(what, remedy="a draft can be deleted like any other file"))
        refuse_withdrawn(ident, mine)
        entries = run_entries(mine)
        if entries and entries[-1].state == "open":
            remedy = f"finish it, or give it up with `prereg run {ident} --abandon REASON`"
            what = f"run {entries[-1].number} of {ident!r} is unfinished"
            raise UsageError(Problem(what, remedy=remedy))
        stone = {"id": ident, "lock": made[-1].lock, "reason": reason, "withdrawn_at": clock.now()}
        data = canonical_json(stone) + b"\n"
        write_synced(path.with_name(path.name + ".pending"), data)
        return {"reason": reason, "tombstone": sha256_bytes(data)}

    ledger_of(workspace).append_after(prepare, "withdrawn", ident=ident)
    path.with_name(path.name + ".pending").replace(path)
    return path
