"""`prereg amend`: a dated, reasoned new version beside the locked one, which stays."""

from __future__ import annotations

import shlex
from pathlib import Path

from prereg_judge.cli.common import (
    Id,
    Json,
    Reason,
    hashing,
    print_json,
    reason_given,
    say,
    workspace,
)
from prereg_judge.cli.lock import Commit, Stamp, end_unless_stamped, tell_made, witness
from prereg_judge.flow.locking import amend_registration


def amend(
    ident: Id,
    reason: Reason,
    stamp: Stamp = None,
    commit: Commit = True,
    json_out: Json = False,
) -> None:
    """Make a new version of a locked registration; the old one stays, in force for its runs.

    The first call copies the version in force to registrations/ID.v2.yaml, to be edited; the same
    command, run again, checks and locks it, with the reason given then. What had been seen by then
    is computed from the ledger. A run is scored against the version in force when it began; later
    ones are shown beside, marked post hoc.
    """
    ws = workspace()
    told = reason_given(reason)
    with hashing("hashing the model") as progress:
        made = amend_registration(ws, ident, reason=told, progress=progress)
    if isinstance(made, Path):
        if json_out:
            print_json({"id": ident, "file": ws.shown(made), "locked": False})
            return
        say(f"Wrote {ws.shown(made)}, a copy of the version in force. Edit it, then lock it:")
        say(f"  prereg amend {ident} --reason {shlex.quote(told)}")
        say("Nothing is on record yet: the reason that counts is the one given then.")
        return
    witnesses = witness(ws, made, stamp=stamp, commit=commit)
    tell_made(ws, made, witnesses, json_out=json_out)
    end_unless_stamped(witnesses)
