"""`prereg stamp`: have the ledger witnessed by somebody other than this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from prereg_judge.cli.common import Json, print_json, say, workspace
from prereg_judge.cli.lock import tell_commit, tell_left_out
from prereg_judge.errors import Problem, UsageError
from prereg_judge.flow.witnessing import (
    Stamped,
    locked_files,
    refuse_empty,
    stamp_ots,
    stamp_rfc3161,
    upgrade_ots,
)
from prereg_judge.ledger.rfc3161 import read_roots


def stamp(
    tsa: Annotated[
        str | None, typer.Option("--tsa", metavar="URL", help="A time-stamp authority (RFC 3161).")
    ] = None,
    ca: Annotated[
        Path | None,
        typer.Option("--ca", metavar="FILE", help="Its root certificate (PEM), to check at once."),
    ] = None,
    calendar: Annotated[
        list[str] | None,
        typer.Option(metavar="URL", help="An OpenTimestamps calendar; repeatable. Extra `ots`."),
    ] = None,
    upgrade: Annotated[
        bool, typer.Option("--upgrade", help="Ask the calendars of pending stamps for the rest.")
    ] = False,
    git: Annotated[
        bool,
        typer.Option("--git", help="Commit the ledger and all that is locked, whatever is staged."),
    ] = False,
    commit: Annotated[
        bool, typer.Option("--commit/--no-commit", help="Commit the stamps, in a git repository.")
    ] = True,
    json_out: Json = False,
) -> None:
    """Stamp the ledger's last line, which stands for all before it, and commit the stamp.

    Nothing leaves this machine but that hash. What a stamp proves is said by `prereg verify`.
    """
    ws = workspace()
    if tsa is None and not (calendar or upgrade or git):
        remedy = "give --tsa URL, --calendar URL, --upgrade or --git"
        raise UsageError(Problem("nobody is named who is to stamp", remedy=remedy))
    if git:
        refuse_empty(ws, "commit")
    made: list[Stamped] = []
    if tsa is not None:
        made.append(stamp_rfc3161(ws, tsa, roots=read_roots(ca) if ca else ()))
    if upgrade:
        made += upgrade_ots(ws, calendar or (), tell=_tell)
    elif calendar:
        made.append(stamp_ots(ws, calendar, tell=_tell))
    for one in made:
        checked = "under the root given" if ca else "as its token says; not checked, see --ca"
        when = f"at {one.time}, {checked}" if one.time else "pending: that is no proof yet"
        by = f" by {one.by}" if one.by else ""
        say(f"Line {one.line} of the ledger, stamped{by} {when}: {ws.shown(one.path)}")
    if upgrade and not made:
        say("Nothing came: no stamp is pending, or no calendar has more yet, normal for hours.")
    told: dict[str, Any] = {"stamps": [_json(ws.shown(one.path), one) for one in made]}
    if git:
        told["commit"] = tell_commit(ws, locked_files(ws), message="prereg: the ledger as it is")
        told["not_in_git"] = tell_left_out(ws)
    elif commit and made:
        told["commit"] = tell_commit(ws, [], message="prereg: stamp of the ledger")
    if json_out:
        print_json(told)


def _tell(problem: Problem) -> None:
    say(f"Note: {problem}")


def _json(file: str, one: Stamped) -> dict[str, Any]:
    return {
        "kind": one.kind,
        "file": file,
        "of": one.of,
        "line": one.line,
        "by": one.by,
        "time": one.time,
    }
