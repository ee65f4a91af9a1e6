"""`prereg withdraw`: give a registration up, in sight of everybody."""

from __future__ import annotations

from prereg_judge.cli.common import Id, Json, Reason, print_json, reason_given, say, workspace
from prereg_judge.cli.lock import Commit, tell_commit
from prereg_judge.flow.withdrawing import withdraw_registration


def withdraw(ident: Id, reason: Reason, commit: Commit = True, json_out: Json = False) -> None:
    """Withdraw a locked registration: no run can begin any more, and nothing is deleted.

    A tombstone stays in registrations/ and in the ledger; verdicts of its runs name it.
    """
    ws = workspace()
    path = withdraw_registration(ws, ident, reason=reason_given(reason))
    say(f"{ident!r} is withdrawn; {ws.shown(path)} says when and why. Its files and runs stay.")
    told = {"id": ident, "withdrawn": True, "tombstone": ws.shown(path)}
    if commit:
        tell_commit(ws, [path], message=f"prereg: withdrawal of {ident}")
    if json_out:
        print_json(told)
