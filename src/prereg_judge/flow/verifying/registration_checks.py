"""A registration: every version's lock, text and inputs, and what they become."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta

from prereg_judge.canon import sha256_bytes
from prereg_judge.errors import PreregError, Problem
from prereg_judge.flow.exposure import row_hashes
from prereg_judge.flow.locked import (
    Locked,
    changed_inputs,
    derive,
    differing_names,
    open_locked,
    partly_derived,
    read_lock,
    unknown_versions,
)
from prereg_judge.flow.prompts import read_model
from prereg_judge.flow.verifying.exposure_checks import check_exposure
from prereg_judge.flow.verifying.findings import Findings
from prereg_judge.hashing import FileHashes
from prereg_judge.ledger.events import Event, versions, withdrawal
from prereg_judge.registration.lock import Lock, changed, tool_here, tool_source_sha256
from prereg_judge.workspace import Workspace, model_files

Progress = Callable[[int], None]
_RESTORE = "restore it from git or a copy"


def check_registration(
    workspace: Workspace,
    ident: str,
    events: list[Event],
    findings: Findings,
    *,
    render: bool = False,
    progress: Progress | None = None,
) -> dict[int, Locked]:
    """The versions that stand, by number; what was found goes to `findings`.

    With `render`, every prompt is rendered and tokenized again, which needs the model's file.
    """
    made = versions(events)
    findings.violated(ident, *unknown_versions(workspace, ident, len(made)))
    _check_tombstone(workspace, ident, events, findings)
    if not made:
        try:
            read_lock(workspace, ident, events)
        except PreregError as exc:
            if exc.exit_code == 5:
                findings.raised(ident, exc)
            elif os.path.lexists(workspace.registration(ident)):
                findings.not_proved(ident, "it is a draft: nothing of it is locked")
        return {}
    standing = {}
    written = {e["lock"]: str(e["at"]) for e in events if e["event"] in ("registered", "amended")}
    for version in made:
        about = _about(ident, version.number, len(made))
        try:
            lock, raw = read_lock(workspace, ident, events, version=version.number)
        except PreregError as exc:
            findings.raised(about, exc)
            continue
        _check_time(lock, written[version.lock], about, findings)
        path = workspace.registration(ident, version.number)
        problems = changed([lock.registration], lambda _, p=path: p)  # type: ignore[misc]
        problems += changed_inputs(workspace, lock, with_model=False)
        findings.violated(about, *problems)
        if problems:
            continue
        by = f"hashes in the lock {sha256_bytes(raw)[:12]}, whose hash is in the ledger"
        here = (e for e in lock.inputs if e.name not in workspace.withheld)
        inputs = [e.name for e in here if e.role != "model"]
        findings.proved(about, f"unchanged since the lock: {path.name}, {', '.join(inputs)}", by)
        _check_model(workspace, lock, about, findings, progress)
        try:
            locked = open_locked(workspace, ident, with_model=False, version=version.number)
        except PreregError as exc:
            findings.raised(about, exc)
            continue
        standing[version.number] = locked
        _check_withheld(locked, about, findings)
        _check_derived(locked, about, findings)
        _check_prompts(locked, about, findings, render=render)
        check_exposure(workspace, locked, about, findings)
    return standing


def _about(ident: str, number: int, of: int) -> str:
    return ident if of == 1 else f"{ident} version {number}"


def _check_time(lock: Lock, written: str, about: str, findings: Findings) -> None:
    """That a lock's time is about that of its line in the ledger, `written` just after it."""
    if not _at_once(lock.locked_at, written):
        what = f"the lock says {lock.locked_at}, and its line in the ledger {written}: the one is "
        what += "written right after the other, so the clock jumped between, or a time was typed"
        findings.not_proved(about, what, "the order of the lines is the chain's all the same")


def _at_once(one: str, other: str) -> bool:
    """Whether two times are at most a minute apart; what is no time is not."""
    try:
        apart = datetime.fromisoformat(one) - datetime.fromisoformat(other)
    except (ValueError, TypeError):  # TypeError: one of them lacks its offset
        return False
    return abs(apart) <= timedelta(minutes=1)


def _check_model(
    workspace: Workspace, lock: Lock, about: str, findings: Findings, progress: Progress | None
) -> None:
    entries = [e for e in lock.inputs if e.role == "model"]
    if not any(e.role == "judge" for e in lock.inputs):
        return  # nothing is called
    if not entries:
        said = "what it said of itself is in the lock" if lock.served else "nothing is known of it"
        what = f"which weights answered: the model is served; {said}, and that is weaker than bytes"
        findings.not_proved(about, what, "register the GGUF file itself")
        return
    try:
        paths = {p.name: p for p in model_files(workspace, entries[0].name)}
    except PreregError as exc:
        what = f"the model's bytes: {exc.problems[0].what}"
        findings.not_proved(about, what, f"its SHA-256 is to be {entries[0].sha256}")
        return
    for entry in entries:
        path = paths.get(entry.name.rpartition("/")[2])
        if path is None or FileHashes().sha256(path, progress, fresh=True) != entry.sha256:
            what = "the model's bytes differ from those that were locked"
            remedy = "bring back the locked file"
            findings.violated(about, Problem(what, entry.name, remedy=remedy))
        else:
            findings.proved(
                about, f"the model is the locked one: {entry.name}", "hash of its bytes"
            )


def _check_withheld(locked: Locked, about: str, findings: Findings) -> None:
    """That what stands for a withheld file names the file that was locked."""
    entries = {(e.name, e.sha256, e.n_bytes) for e in locked.lock.inputs}
    for one in locked.inputs.sets:
        withheld = one.file in locked.inputs.workspace.withheld
        if withheld and (one.file, one.sha256, one.n_bytes) not in entries:
            findings.violated(about, Problem("the withheld file is not the locked one", one.file))


def _check_derived(locked: Locked, about: str, findings: Findings) -> None:
    """What the files become without the model: meaning, prompts' template, schema, plan, rows."""
    then = locked.lock.derived
    differing = differing_names(then, partly_derived(locked.inputs, then))
    same_tool = locked.lock.tool["source_sha256"] == tool_source_sha256()
    if not same_tool:
        then_source, here = locked.lock.tool["source_sha256"][:12], tool_source_sha256()[:12]
        what = f"what the version that locked it made of it: source {then_source}, here {here}"
        findings.not_proved(about, what, "verify with that version too")
    known = locked.lock.rows and not locked.inputs.workspace.withheld
    if known and locked.lock.rows != row_hashes(locked.inputs):
        what = "the rows' hashes in the lock are not those of its items"
        if same_tool:
            findings.violated(about, what)
        else:
            findings.not_proved(about, what, "another version may hash rows otherwise")
    # Nothing but this hash vouches for rows without their text, whatever version reads them.
    rows = bool(locked.inputs.workspace.withheld) and "labels" in differing
    if differing and (same_tool or rows):
        what = f"{', '.join(differing)}: made from the same files, and not what the lock says"
        findings.violated(about, what)
    elif differing:
        what = f"{', '.join(differing)}: this version of the tool makes something else of them"
        findings.not_proved(about, what, f"use source {locked.lock.tool['source_sha256'][:12]}")
    else:
        what = f"the plan of {then.n_trials} trials, the meaning and the labels follow from them"
        by = "made again"
        if locked.inputs.workspace.withheld:
            what = f"the plan of {then.n_trials} trials and the meaning follow from them"
            by += "; the labels in the bundle have the lock's hash"
        findings.proved(about, what, by)
    if not then.labels:
        findings.not_proved(about, "its lock is of an older form, without hashes of its rows")


def _check_prompts(locked: Locked, about: str, findings: Findings, *, render: bool) -> None:
    """What the files become with the model's vocabulary and template: prompts, tokens, grammar."""
    then = locked.lock.derived
    if locked.inputs.workspace.withheld or not locked.inputs.model.calls:
        return  # said of the bundle; there are no prompts
    if not render:
        what = "that its prompts, tokens and grammar follow from its files"
        findings.not_proved(about, what, "leave --no-prompts out")
        return
    try:
        differing = differing_names(then, derive(locked.inputs, read_model(locked.inputs)))
    except PreregError as exc:
        what = f"that its prompts and their tokens follow from its files: {exc.problems[0].what}"
        findings.not_proved(about, what, "bring back the model's file")
        return
    if differing and locked.lock.tool == tool_here():
        what = f"{', '.join(differing)}: made again from the same files, not what the lock says"
        findings.violated(about, what)
    elif differing:
        # Libraries render and tokenize, and are not in the lock: another version may differ.
        what = f"{', '.join(differing)}: made again from the same files, not what the lock says"
        findings.not_proved(about, what, "install the libraries that its runs name, and try again")
    else:
        served = "" if then.longest_prompt else ", as they are sent to the server"
        what = f"every prompt{served} and the grammar follow from its files"
        findings.proved(about, what, "rendered again" + ("" if served else ", and tokenized"))


def _check_tombstone(
    workspace: Workspace, ident: str, events: Sequence[Event], findings: Findings
) -> None:
    path, event = workspace.tombstone(ident), withdrawal(events)
    shown = workspace.shown(path)
    pending = path.with_name(path.name + ".pending")
    if event is None:
        if path.exists():
            what = "a tombstone lies here and the ledger knows of no withdrawal"
            findings.violated(ident, Problem(what, shown, remedy=_RESTORE))
        return
    if not path.is_file() and pending.is_file():
        pending.replace(path)  # killed between the event and the rename
    if not path.is_file() or not _is_stone(path.read_bytes(), event, versions(events)[-1].lock):
        what = "the tombstone is missing or changed"
        findings.violated(ident, Problem(what, shown, remedy=_RESTORE))
    else:
        what = f"it was withdrawn at {event['at']}: {event['reason']}"
        findings.proved(ident, what, "its tombstone, whose hash is in the ledger")


def _is_stone(raw: bytes, event: Event, lock: str) -> bool:
    """Whether a tombstone is the one that its event names, and says the same."""
    if sha256_bytes(raw) != event["tombstone"]:
        return False
    mine = {"id": event["id"], "lock": lock, "reason": event["reason"]}
    try:
        told = {**json.loads(raw)}
    except (ValueError, TypeError, RecursionError):
        return False
    return all(told.get(key) == value for key, value in mine.items())
