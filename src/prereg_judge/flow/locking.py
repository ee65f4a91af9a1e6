"""Making a lock: of a registration, once, and of each amendment after it.

The lock's own hash goes into the ledger, so a lock rewritten over an edited registration is found.
Nothing is replaced: an amendment is a file of its own, linked to the lock before it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from prereg_judge import clock
from prereg_judge.canon import sha256_bytes, sha256_file
from prereg_judge.chain import write_synced
from prereg_judge.errors import InputError, IntegrityError, Problem, UsageError
from prereg_judge.flow.earlier import earlier_names, judge_runs, locate
from prereg_judge.flow.exposure import (
    Identity,
    highest,
    identity_of,
    known_uses,
    level_of,
    row_hashes,
)
from prereg_judge.flow.locked import (
    Progress,
    derive,
    known_registration,
    ledger_of,
    open_locked,
    orphan,
    read_lock,
)
from prereg_judge.flow.prepare import Inputs, read_inputs
from prereg_judge.flow.prompts import ModelInputs, read_model
from prereg_judge.flow.served import ask_servers
from prereg_judge.hashing import FileHashes
from prereg_judge.ledger.events import Event, run_entries, versions, withdrawal
from prereg_judge.registration.lock import (
    Amends,
    InputRole,
    Lock,
    LockedExposure,
    LockedInput,
    LockedRegistration,
    Seen,
    tool_here,
)
from prereg_judge.registration.schema_model import LocalModel
from prereg_judge.words import EXPOSURE_LEVELS
from prereg_judge.workspace import Workspace


@dataclass(frozen=True)
class Made:
    """A lock that was made, its files, what it was made of, and whether it has finished runs."""

    lock: Lock
    files: tuple[Path, ...]
    inputs: Inputs
    model: ModelInputs
    has_runs: bool


def lock_registration(
    workspace: Workspace, ident: str, *, progress: Progress | None = None
) -> Made:
    """Check a registration, hash all that it stands on, write its lock and its ledger event.

    Raises
    ------
    UsageError
        If it is locked already. What was changed since is an amendment.
    InputError, EngineError
        If anything in it or under it is not in order; nothing is written then.
    """
    ledger = ledger_of(workspace)
    known_registration(workspace, ident)
    _refuse_second_lock(workspace, ident, ledger.events(ident))
    return _lock_version(workspace, ident, amends=None, progress=progress)


def amend_registration(
    workspace: Workspace, ident: str, *, reason: str, progress: Progress | None = None
) -> Made | Path:
    """Lock a new version of a registration, or begin one.

    Where the next version has no file yet, it is made as a copy of the one in force, to be edited;
    its path is returned. Otherwise that file is checked and locked like a registration, linked to
    the lock before it. The versions before it stay as they are, in force for their runs.

    Raises
    ------
    UsageError
        If the registration is not locked, was withdrawn, or the new version says the same.
    IntegrityError
        If the version in force, or an input of it, was changed in place.
    InputError, EngineError
        If the new version is not in order; nothing is written then.
    """
    events = ledger_of(workspace).events(ident)
    known_registration(workspace, ident)
    refuse_withdrawn(ident, events)
    if not versions(events) and not workspace.lock(ident).exists():
        file = workspace.shown(workspace.registration(ident))
        remedy = f"it is a draft: edit {file} itself, then `prereg lock {ident}`"
        raise UsageError(Problem(f"{ident!r} is not locked", remedy=remedy))
    lock, raw = read_lock(workspace, ident, events)
    before = workspace.registration(ident, lock.version)
    path = workspace.registration(ident, lock.version + 1)
    if sha256_file(before) != lock.registration.sha256:
        what = "was edited in place after it was locked"
        remedy = f"move the edited text to {workspace.shown(path)}, restore this file, and amend"
        raise IntegrityError(Problem(what, workspace.shown(before), remedy=remedy))
    if not path.exists():
        write_synced(path, before.read_bytes())
        return path
    return _lock_version(
        workspace,
        ident,
        amends=Amends(lock.version, sha256_bytes(raw), reason),
        progress=progress,
    )


def refuse_withdrawn(ident: str, events: list[Event]) -> None:
    """Refuse a registration that was withdrawn.

    Raises
    ------
    UsageError
        With when and why.
    """
    gone = withdrawal(events)
    if gone is not None:
        what = f"{ident!r} was withdrawn at {gone['at']}: {gone['reason']}"
        raise UsageError(Problem(what, remedy="register anew under another id"))


def _lock_version(
    workspace: Workspace, ident: str, *, amends: Amends | None, progress: Progress | None
) -> Made:
    version = amends.version + 1 if amends else 1
    inputs = read_inputs(workspace, ident, version=version)
    refuse_without_primary(inputs)
    before = None
    if amends is not None:
        before = open_locked(workspace, ident, with_model=False, version=amends.version)
        _refuse_same(inputs, before.inputs)
    model = read_model(inputs)
    entries = _entries(inputs, model, progress)
    rows = row_hashes(inputs)
    identity = identity_of(inputs, rows, model=[e.sha256 for e in entries if e.role == "model"])
    served = ask_servers(inputs)
    path = workspace.lock(ident, version)
    pending = path.with_name(path.name + ".pending")
    made: list[Lock] = []

    def prepare(events: list[Event]) -> dict[str, object]:
        # The ledger first: a lock without its event does not count, and can be written again;
        # the event names the hash, so the file put in place after it is the one that was meant.
        # Written under the ledger's own lock: of two at once, the second must not replace it,
        # and what had been seen is what the ledger holds at this moment.
        mine = [e for e in events if e.get("id") == ident]
        if amends is None:
            _refuse_second_lock(workspace, ident, mine)
        else:
            refuse_withdrawn(ident, mine)
            _refuse_overtaken(ident, mine, amends)
        least = before.lock.exposure if before else None
        known = known_uses(workspace, events, identity, rows)
        exposure = _exposure(inputs, known, least)
        lock = Lock(
            id=ident,
            locked_at=clock.now(),
            registration=LockedRegistration(
                inputs.loaded.shown, inputs.loaded.sha256, len(inputs.loaded.raw)
            ),
            inputs=entries,
            derived=derive(inputs, model),
            tool=tool_here(),
            version=version,
            amends=amends,
            exposure=exposure,
            rows=rows,
            served=served,
        )
        data = lock.to_bytes()
        write_synced(pending, data)
        made.append(lock)
        return _event(lock, data, identity)

    ledger_of(workspace).append_after(
        prepare, "registered" if amends is None else "amended", ident=ident
    )
    pending.replace(path)
    files: tuple[Path, ...] = (workspace.registration(ident, version), path, workspace.ledger)
    ended = [e.state != "open" for e in run_entries(ledger_of(workspace).events(ident))]
    files = (*files, ledger_of(workspace).tip_path)
    return Made(made[0], files, inputs, model, bool(ended) and ended[-1])


def _event(lock: Lock, data: bytes, identity: Identity) -> dict[str, object]:
    """What the ledger says of a lock."""
    assert lock.exposure is not None
    linked: dict[str, object] = {}
    if lock.amends is not None:
        linked = {
            "version": lock.version,
            "previous": lock.amends.lock,
            "reason": lock.amends.reason,
        }
    return {
        **linked,
        "registration": lock.registration.sha256,
        "lock": sha256_bytes(data),
        "locked_at": lock.locked_at,
        "seen": lock.exposure.stated,
        "exposure": lock.exposure.level,
        "inputs": identity.values(),
        "tool": lock.tool,
    }


def _exposure(
    inputs: Inputs, known: tuple[Seen, ...], before: LockedExposure | None
) -> LockedExposure:
    """What had been seen: never less than the ledger knows, nor than the version before said.

    Raises
    ------
    InputError
        If less is stated.
    """
    stated = inputs.model.exposure
    least = highest(
        [level_of(known, calls=inputs.model.calls), *([before.level] if before else [])]
    )
    if stated.level is not None and EXPOSURE_LEVELS.index(stated.level) < EXPOSURE_LEVELS.index(
        least
    ):
        what = f"says less than what is known: the ledger, or the version before, says {least!r}"
        remedy = f"write `level: {least}`, or leave it out; it can be raised, never lowered"
        at, found = ("exposure", "level"), repr(stated.level)
        raise InputError(inputs.loaded.problem(what, at, found=found, remedy=remedy))
    return LockedExposure(stated.seen, highest([least, stated.level or "none"]), known)


def refuse_without_primary(inputs: Inputs) -> None:
    """Refuse several expectations of which none is marked as the one that counts.

    Raises
    ------
    InputError
        If it is so.
    """
    registered = inputs.model
    if registered.primary_claim is None and registered.expectations:
        what = "does not say which claim the question is about"
        remedy = f"write `primary: ID`, one of {', '.join(registered.expectations)}"
        raise InputError(Problem(what, inputs.loaded.shown, where="primary", remedy=remedy))


def _refuse_same(inputs: Inputs, before: Inputs) -> None:
    if inputs.loaded.sha256 == before.loaded.sha256:
        what = f"is the same text as {before.loaded.shown}"
        remedy = "edit it, and run the same command again"
        raise UsageError(Problem(what, inputs.loaded.shown, remedy=remedy))


def _refuse_overtaken(ident: str, events: list[Event], amends: Amends) -> None:
    if versions(events)[-1].lock != amends.lock:
        what = f"{ident!r} was amended by another process meanwhile"
        raise UsageError(Problem(what, remedy="look at that version first: `prereg show`"))


def _refuse_second_lock(workspace: Workspace, ident: str, events: list[Event]) -> None:
    made = versions(events)
    if not made and workspace.lock(ident).exists():
        raise IntegrityError(orphan(workspace, ident))
    refuse_withdrawn(ident, events)
    if made:
        path = workspace.registration(ident)
        same = path.is_file() and sha256_file(path) == made[0].registration
        what = f"{ident!r} was locked at {made[0].locked_at}"
        if same:
            read_lock(workspace, ident, events)  # which says so if it is gone or changed
            if len(made) > 1:
                what += f"; version {made[-1].number} is in force, locked at {made[-1].locked_at}"
            remedy = f"go on with {_next_step(ident, events)}; a change is an amendment, "
            raise UsageError(Problem(what, remedy=remedy + "`prereg amend`"))
        amended = workspace.shown(workspace.registration(ident, len(made) + 1))
        remedy = f"restore the locked text; to change it, put the new text into {amended} and "
        remedy += f"run `prereg amend {ident}`"
        raise IntegrityError(
            Problem(f"{what} and edited since", workspace.shown(path), remedy=remedy)
        )


def _next_step(ident: str, events: list[Event]) -> str:
    """What comes next for a locked registration: a command that is not refused."""
    entries = run_entries(events)
    if not entries or entries[-1].state in ("open", "aborted"):
        return f"`prereg run {ident}`"
    if entries[-1].verdict is None:
        return f"`prereg score {ident}`"
    return f"`prereg show {ident}`, or with another, counted run, `prereg run {ident} --again`"


def _entries(
    inputs: Inputs, model: ModelInputs, progress: Progress | None
) -> tuple[LockedInput, ...]:
    workspace = inputs.workspace
    judge: list[tuple[InputRole, str]] = (
        [("judge", inputs.model.judge)] if inputs.model.calls else []
    )
    entries = [
        _entry(role, name, workspace.input(name)) for role, name in (*judge, *inputs.tables.files)
    ]
    for item_set in inputs.called_sets:
        role: InputRole = "items.sentinel" if item_set.role == "sentinel" else "items.real"
        entries.append(_entry(role, item_set.file, workspace.input(item_set.file)))
    seen: set[tuple[str, int]] = set()
    for name in (*earlier_names(inputs.claims), *judge_runs(inputs.model)):
        ident, number = locate(workspace, name, pinned=False)
        if (ident, number) in seen:
            continue
        seen.add((ident, number))
        manifest = workspace.run(ident, number) / "manifest.json"
        entries.append(_entry("from_run", f"{ident}/{number}", manifest))
    for path in model.files:
        entries.append(_entry("model", _model_name(inputs, path), path, progress))
    return tuple(entries)


def _entry(
    role: InputRole, name: str, path: Path, progress: Callable[[int], None] | None = None
) -> LockedInput:
    return LockedInput(role, name, FileHashes().sha256(path, progress), path.stat().st_size)


def _model_name(inputs: Inputs, path: Path) -> str:
    model = inputs.model.model
    assert isinstance(model, LocalModel)  # a served one has no files
    written = model.gguf
    return written.rpartition("/")[0] + "/" + path.name if "/" in written else path.name
