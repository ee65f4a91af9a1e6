"""Putting the ledger before witnesses: a time-stamp authority, OpenTimestamps, a git commit.

What is stamped is the hash of the ledger's last line, which stands for all lines before it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from prereg_judge.canon import sha256_bytes
from prereg_judge.chain import write_synced
from prereg_judge.errors import IntegrityError, Problem, UsageError
from prereg_judge.flow.locked import ledger_of
from prereg_judge.ledger.events import run_entries, versions
from prereg_judge.ledger.git import Unusable, open_repository
from prereg_judge.ledger.git_commit import Committed, commit_files
from prereg_judge.ledger.git_index import NotCommitted
from prereg_judge.ledger.ots import ots_stamp, ots_upgrade, read_ots
from prereg_judge.ledger.rfc3161 import read_token, request_token, verify_token
from prereg_judge.record.run import HASHED
from prereg_judge.registration.lock import Lock, parse_lock
from prereg_judge.workspace import Workspace

StampKind = Literal["rfc3161", "opentimestamps"]

STAMP_TIMEOUT_S = 30.0
_LINE = re.compile("[0-9]{6,12}")
_SUFFIX: dict[StampKind, str] = {"rfc3161": "tsr", "opentimestamps": "ots"}


@dataclass(frozen=True)
class Stamped:
    """A stamp that was made.

    `of` is the hash of the ledger line that it is for, `line` that line's number; `time` is what
    an authority's token says, None where nothing says a time yet.
    """

    kind: StampKind
    path: Path
    of: str
    line: int
    by: str
    time: str | None


@dataclass(frozen=True)
class StampFile:
    """A stamp that lies in the workspace: its kind, its bytes and the line that its name gives."""

    kind: StampKind
    path: Path
    line: int
    raw: bytes


def stamp_rfc3161(
    workspace: Workspace,
    url: str,
    *,
    roots: Sequence[bytes] = (),
    timeout_s: float = STAMP_TIMEOUT_S,
) -> Stamped:
    """Have a time-stamp authority (RFC 3161) stamp the ledger as it is now.

    Where `roots` are given, the token is verified before it is kept.

    Raises
    ------
    UsageError
        If there is nothing in the ledger yet.
    InputError
        If the authority cannot be reached or answers something else.
    IntegrityError
        If its token does not hold under the roots.
    """
    head, line = _tip(workspace)
    raw = request_token(url, head, timeout_s=timeout_s)
    token = verify_token(raw, head, roots=roots) if roots else read_token(raw)
    return _keep(workspace, "rfc3161", raw, head=head, line=line, by=url, time=token.time)


def stamp_ots(
    workspace: Workspace,
    calendars: Sequence[str],
    *,
    timeout_s: float = STAMP_TIMEOUT_S,
    tell: Callable[[Problem], None] | None = None,
) -> Stamped:
    """Submit the ledger as it is now to OpenTimestamps calendars; the stamp is pending at first.

    Raises
    ------
    UsageError
        If there is nothing in the ledger yet, or the extra `ots` is not installed.
    InputError
        If no calendar answers.
    """
    head, line = _tip(workspace)
    raw = ots_stamp(head, calendars=calendars, timeout_s=timeout_s, tell=tell)
    by = ", ".join(calendars)
    return _keep(workspace, "opentimestamps", raw, head=head, line=line, by=by, time=None)


def upgrade_ots(
    workspace: Workspace,
    calendars: Sequence[str] = (),
    *,
    timeout_s: float = STAMP_TIMEOUT_S,
    tell: Callable[[Problem], None] | None = None,
) -> list[Stamped]:
    """Ask the calendars of every pending stamp for what they promised; new files for what came."""
    heads = ledger_of(workspace).chain().heads
    made = []
    files = [f for f in stamp_files(workspace) if f.kind == "opentimestamps"]
    latest = {f.line: f for f in files}  # in the order of their names: the last upgrade
    for file in latest.values():
        if not file.line < len(heads):
            raise IntegrityError(Problem("is for a line that is gone", workspace.shown(file.path)))
        head = heads[file.line]
        if read_ots(file.raw, head, shown=workspace.shown(file.path)).complete:
            continue
        raw = ots_upgrade(file.raw, head, calendars=calendars, timeout_s=timeout_s, tell=tell)
        if raw != file.raw:
            kept = _keep(
                workspace, "opentimestamps", raw, head=head, line=file.line, by="", time=None
            )
            made.append(kept)
    return made


def stamp_files(workspace: Workspace) -> list[StampFile]:
    """Every stamp in the workspace, by line and then by the order in which they were made."""
    found = []
    for path in sorted(workspace.stamps.glob("*")) if workspace.stamps.is_dir() else []:
        number, _, rest = path.name.partition("-")
        kind = next((k for k, suffix in _SUFFIX.items() if rest.endswith(f".{suffix}")), None)
        if kind is not None and _LINE.fullmatch(number) and path.is_file():
            found.append(StampFile(kind, path, int(number), path.read_bytes()))
    return found


def _tip(workspace: Workspace) -> tuple[str, int]:
    refuse_empty(workspace, "stamp")
    chain = ledger_of(workspace).chain()
    return chain.head, len(chain.lines)


def refuse_empty(workspace: Workspace, verb: str) -> None:
    """Refuse to have a ledger witnessed in which nothing stands; `verb` is what was asked for.

    Raises
    ------
    UsageError
        If it is empty.
    """
    if not ledger_of(workspace).chain().lines:
        what = f"nothing is locked yet, so there is no ledger to {verb}"
        raise UsageError(Problem(what, remedy="first: `prereg lock ID`"))


def _keep(
    workspace: Workspace,
    kind: StampKind,
    raw: bytes,
    *,
    head: str,
    line: int,
    by: str,
    time: str | None,
) -> Stamped:
    """Write the stamp beside the ledger, then the event that names it."""
    order = len(list(workspace.stamps.glob("*"))) + 1 if workspace.stamps.is_dir() else 1
    path = workspace.stamps / f"{line:06d}-{order:03d}-{kind}.{_SUFFIX[kind]}"
    write_synced(path, raw)
    values: dict[str, Any] = {"kind": kind, "of": head, "line": line, "file": path.name}
    values |= {"sha256": sha256_bytes(raw), "by": by, "time": time}
    ledger_of(workspace).append("stamped", ident="", **values)
    return Stamped(kind, path, head, line, by, time)


def locked_files(workspace: Workspace) -> list[Path]:
    """Every registration, lock and tombstone that the ledger names and that is there."""
    found = []
    events = ledger_of(workspace).events()
    for ident in sorted({str(e["id"]) for e in events if e["event"] == "registered"}):
        for version in versions(e for e in events if e["id"] == ident):
            found.append(workspace.registration(ident, version.number))
            found.append(workspace.lock(ident, version.number))
        found.append(workspace.tombstone(ident))
    return [path for path in found if path.is_file()]


def not_in_git(workspace: Workspace, ident: str | None = None) -> list[str]:
    """What is locked or recorded here and is not in the commit that a clone would get.

    Judges, item sets and folders of runs, of all registrations, or of one and those with whose runs
    it is compared; a file counts as there whatever the commit holds of it. The model is left out:
    `verify` hashes it where it is at hand.

    Returns
    -------
    Names as messages show them, folders with a slash; empty outside of a repository.
    """
    repository = open_repository(workspace.root)
    if isinstance(repository, Unusable) or repository.top is None:
        return []
    answer = repository.git.run("ls-tree", "-r", "-z", "--name-only", "--full-tree", "HEAD")
    there = {os.fsdecode(name) for name in answer.out.split(b"\0")}
    top = repository.top

    def held(path: Path) -> bool:
        return os.path.relpath(path, top) in there

    events = ledger_of(workspace).events()
    waiting = sorted({str(e["id"]) for e in events if e["event"] == "registered"})
    if ident is not None:
        waiting = [ident]
    left: dict[str, None] = {}
    for each in waiting:  # which grows
        inputs = [e for lock in _locks(workspace, each) for e in lock.inputs]
        earlier = [e.name.partition("/")[0] for e in inputs if e.role == "from_run"]
        waiting += [name for name in dict.fromkeys(earlier) if name not in waiting]
        for entry in inputs:
            path = workspace.input(entry.name)
            if entry.role not in ("model", "from_run") and path.is_file() and not held(path):
                left[workspace.shown(path)] = None
        runs = run_entries([e for e in events if e["id"] == each])
        folders = [workspace.run(each, run.number) for run in runs]
        files = [folder / name for folder in folders for name in (*HASHED, "manifest.json")]
        if any(file.is_file() and not held(file) for file in files):
            left[f"{workspace.shown(workspace.runs(each))}/"] = None
    return list(left)


def _locks(workspace: Workspace, ident: str) -> list[Lock]:
    """The locks of all versions, as far as they can be read: `verify` says which cannot."""
    found = []
    for version in versions(ledger_of(workspace).events(ident)):
        path = workspace.lock(ident, version.number)
        with suppress(OSError, IntegrityError):
            found.append(parse_lock(path.read_bytes(), shown=workspace.shown(path)))
    return found


def commit_witness(
    workspace: Workspace, files: Sequence[Path], *, message: str
) -> Committed | NotCommitted:
    """Commit these files, and the ledger with its tip and its stamps, and nothing else."""
    ledger = ledger_of(workspace)
    with ledger.held():  # ledger and tip as they belong together
        standing = [ledger.path, ledger.tip_path]
        standing += [f.path for f in stamp_files(workspace)]
        every = dict.fromkeys([*files, *(p for p in standing if p.is_file())])
        return commit_files(workspace.root, list(every), message=message)
