"""Reading what is locked: a version in force, and whether all that it stands on is still the same.

The ledger is the reference for the lock, and the lock for everything else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from prereg_judge.canon import sha256_bytes, sha256_file, sha256_list, sha256_value
from prereg_judge.errors import IntegrityError, Problem, UsageError
from prereg_judge.flow.labelling_files import labelling_files
from prereg_judge.flow.prepare import Inputs, read_inputs
from prereg_judge.flow.prompts import ModelInputs
from prereg_judge.hashing import FileHashes
from prereg_judge.ledger.book import Ledger
from prereg_judge.ledger.events import Event, Version, versions
from prereg_judge.registration.load import load_registration
from prereg_judge.registration.lock import (
    Derived,
    Lock,
    LockedInput,
    LockedRegistration,
    changed,
    is_rows,
    parse_lock,
)
from prereg_judge.registration.schema import meaning
from prereg_judge.wording import not_a_file
from prereg_judge.workspace import Workspace, model_files

Progress = Callable[[int], None]

LOCK_MISSING = "the lock is missing"


@dataclass(frozen=True)
class Locked:
    """A version of a registration: its lock, the lock's hash, its inputs, and the events of all."""

    lock: Lock
    lock_sha256: str
    lock_bytes: bytes
    inputs: Inputs
    events: list[Event]

    @property
    def later(self) -> tuple[Version, ...]:
        """The versions after this one."""
        return versions(self.events)[self.lock.version :]


def ledger_of(workspace: Workspace) -> Ledger:
    """The workspace's ledger."""
    return Ledger(workspace.ledger, workspace.shown(workspace.ledger))


def known_ids(workspace: Workspace, events: Iterable[Event]) -> list[str]:
    """Ids with a file, a lock, a tombstone or a run here, and those that the ledger's events name.

    A lock or a run alone is what is left where the ledger was cut and the text deleted.
    """
    told = (str(e["id"]) for e in events if e["event"] == "registered")
    return sorted({*workspace.ids(), *workspace.left_ids(), *told})


def newest_version(workspace: Workspace, ident: str, *, drafts: bool) -> int:
    """The version in force, from 1; with `drafts`, an amendment that is not locked yet."""
    number = max(1, len(versions(ledger_of(workspace).events(ident))))
    begun = drafts and workspace.registration(ident, number + 1).exists()
    return number + 1 if begun else number


def refuse_lost(workspace: Workspace, ident: str) -> None:
    """Refuse an id whose registration was locked and whose file is gone.

    Raises
    ------
    IntegrityError
        If it is so.
    """
    path = workspace.registration(ident)
    events = ledger_of(workspace).events(ident)
    absent = not_a_file(path)
    if absent is not None and any(e["event"] == "registered" for e in events):
        why = "is gone" if absent == "does not exist" else absent
        what = f"the registration {why}, and the ledger knows that it was locked"
        remedy = "restore it from git or a copy"
        raise IntegrityError(Problem(what, workspace.shown(path), remedy=remedy))


def known_registration(workspace: Workspace, ident: str) -> Path:
    """A registration's file.

    Raises
    ------
    IntegrityError
        If the file is gone although the ledger knows the registration.
    UsageError
        If there is no such registration.
    """
    refuse_lost(workspace, ident)
    return workspace.known(ident)


def derive(inputs: Inputs, model: ModelInputs) -> Derived:
    """Hashes of what the inputs become; compared again at every run."""
    return Derived(
        **_without_model(inputs),
        grammar=sha256_bytes(model.grammar.encode()),
        chat_template=sha256_bytes(((model.facts and model.facts.chat_template) or "").encode()),
        prompts=model.prompts_sha256,
        longest_prompt=model.longest,
    )


def partly_derived(inputs: Inputs, then: Derived) -> Derived:
    """The same as far as it needs no model; the rest as it was `then`."""
    return replace(then, **_without_model(inputs))


def _without_model(inputs: Inputs) -> dict[str, Any]:
    return {
        "meaning": sha256_value("registration-meaning", meaning(inputs.model)),
        "prompt_template": inputs.judge.prompt_sha256,
        "output_schema": inputs.judge.output_sha256,
        "plan": sha256_list("plan", ([t.key, t.index] for t in inputs.plan)),
        "n_trials": len(inputs.plan),
        "labels": labels_sha256(inputs),
    }


def labels_sha256(inputs: Inputs) -> str:
    """Hash of what scoring needs of the items, in file order.

    Of each: set, id, kind, stratum, label, and the hash of what the judge sees; of a pair also
    what its answers look like.
    """
    content = inputs.judge.content
    shapes = inputs.judge.shapes
    rows = (
        [s.role, i.id, i.kind, i.stratum, i.label, content(i), *shapes(i)]
        for s in inputs.sets
        for i in s.items
    )
    return sha256_list("labels", rows)


def open_locked(
    workspace: Workspace,
    ident: str,
    *,
    with_model: bool,
    version: int | None = None,
    progress: Progress | None = None,
) -> Locked:
    """Read a locked registration after checking every byte that it stands on.

    Parameters
    ----------
    with_model
        Whether the model's files are hashed too (needed to run, not to score).
    version
        Which version; None for the one in force, which is the last.

    Raises
    ------
    UsageError
        If there is no such registration, or it is not locked.
    IntegrityError
        If the registration, the lock or an input differs from what was locked, or the lock or the
        text of another version does; every file that does is named.
    """
    known_registration(workspace, ident)
    events = ledger_of(workspace).events(ident)
    every = [read_lock(workspace, ident, events, version=v.number) for v in versions(events)] or [
        read_lock(workspace, ident, events)
    ]
    problems = unknown_versions(workspace, ident, len(every))
    for lock, _ in every:
        path = workspace.registration(ident, lock.version)
        problems += changed([lock.registration], lambda _, p=path: p)  # type: ignore[misc]
    lock, raw = every[-1 if version is None else version - 1]
    problems += changed_inputs(workspace, lock, with_model=with_model, progress=progress)
    if problems:
        raise IntegrityError(*problems)
    inputs = read_inputs(workspace, ident, version=lock.version)
    return Locked(lock, sha256_bytes(raw), raw, inputs, events)


def unknown_versions(workspace: Workspace, ident: str, known: int) -> list[Problem]:
    """Locks of amendments that the ledger does not know; `known` versions it does."""
    what = "this lock stands in no ledger: it was not made here, or the ledger was changed"
    return [
        Problem(what, workspace.shown(path), remedy="restore the ledger from git or a copy")
        for number in workspace.versions(ident)
        if number > known and (path := workspace.lock(ident, number)).exists()
    ]


def changed_inputs(
    workspace: Workspace, lock: Lock, *, with_model: bool, progress: Progress | None = None
) -> list[Problem]:
    """Inputs of a lock that are missing, differ or were added; the model's where asked for."""
    files = [e for e in lock.inputs if e.role != "model" and not _is_withheld(workspace, e)]
    problems = changed(files, lambda entry: _file_of(workspace, entry))
    problems += _added_files(workspace, lock)
    return problems + (_changed_model(workspace, lock, progress) if with_model else [])


def _added_files(workspace: Workspace, lock: Lock) -> list[Problem]:
    """Files in a locked folder of labellings that the lock does not know: they would be read."""
    held = {e.name for e in lock.inputs if e.role == "labellings"}
    path = workspace.registration(lock.id, lock.version)
    if not held or not path.is_file() or sha256_file(path) != lock.registration.sha256:
        return []  # a changed registration is said elsewhere
    loaded = load_registration(path, shown=lock.registration.name)
    remedy = "move it away; a change after the lock is an amendment, `prereg amend`"
    return [
        Problem("was added to a locked folder", name, remedy=remedy)
        for name in labelling_files(workspace, loaded.model)
        if name not in held
    ]


def _is_withheld(workspace: Workspace, entry: LockedInput) -> bool:
    return entry.role.startswith("items.") and entry.name in workspace.withheld


def read_lock(
    workspace: Workspace, ident: str, events: list[Event], *, version: int | None = None
) -> tuple[Lock, bytes]:
    """The lock that the ledger vouches for: of a version, or of the one in force.

    Raises
    ------
    UsageError
        If the registration was never locked.
    IntegrityError
        If the lock is missing, or is not the one that the ledger names.
    """
    made = versions(events)
    wanted = made[-1 if version is None else version - 1] if made else None
    path = workspace.lock(ident, wanted.number if wanted else 1)
    shown = workspace.shown(path)
    if wanted is None:
        if path.exists():
            raise IntegrityError(orphan(workspace, ident))
        remedy = f"lock it first: `prereg lock {ident}`"
        raise UsageError(Problem(f"{ident!r} is not locked", remedy=remedy))
    if not path.is_file():
        pending = path.with_name(path.name + ".pending")
        if pending.is_file() and sha256_file(pending) == wanted.lock:
            pending.replace(path)  # killed between the event and the rename
        else:
            raise IntegrityError(Problem(LOCK_MISSING, shown, remedy="restore it"))
    raw = path.read_bytes()
    if sha256_bytes(raw) != wanted.lock:
        what = "differs from the lock that the ledger names: it was changed"
        raise IntegrityError(Problem(what, shown, remedy="restore it from git or a copy"))
    lock = parse_lock(raw, shown=shown)
    event = next(e for e in events if e.get("lock") == wanted.lock)
    if not _agree(lock, event):
        what = f"the ledger's event {event['event']!r} does not say what its lock says"
        remedy = "restore both from git or a copy"
        raise IntegrityError(Problem(what, shown, remedy=remedy))
    return lock, raw


def _agree(lock: Lock, event: Event) -> bool:
    """Whether a lock and the event that names it say the same of all that both hold."""
    amends, exposure, told = lock.amends, lock.exposure, event.get("inputs")
    same: list[tuple[Any, Any]] = [
        (event.get("previous"), amends and amends.lock),
        (event.get("reason"), amends and amends.reason),
        (event.get("version", 1), lock.version),
        (event["id"], lock.id),
        (event["locked_at"], lock.locked_at),
        (event["registration"], lock.registration.sha256),
        (event.get("exposure"), exposure and exposure.level),
        (event.get("tool"), lock.tool),
    ]
    if exposure is not None:
        same += [(event.get("seen"), exposure.stated), (_content(told), _lock_content(lock))]
    return all(one == other for one, other in same)


def _content(told: Any) -> Any:
    """What an event says of the inputs, as far as the lock says it too."""
    if not isinstance(told, dict):
        return None
    model = told.get("model")
    files = [h for h in model if not str(h).startswith("served:")] if model is not None else None
    return told.get("judge"), told.get("prompt"), files, told.get("files"), told.get("items")


def _lock_content(lock: Lock) -> Any:
    by_role: dict[str, list[str]] = {}
    for entry in lock.inputs:
        by_role.setdefault(entry.role, []).append(entry.sha256)
    files = {role: hashes[0] for role, hashes in by_role.items() if is_rows(role)}
    rows = {role: sha256_value("item-rows", list(r)) for role, r in lock.rows.items()}
    judge = by_role.get("judge", [""])[0]
    return judge, lock.derived.prompt_template, by_role.get("model", []), files, rows


def orphan(workspace: Workspace, ident: str) -> Problem:
    """What is said of a lock that the ledger does not know."""
    what = "this lock stands in no ledger: it was not made here, or the ledger was changed"
    remedy = "restore the ledger from git or a copy"
    return Problem(what, workspace.shown(workspace.lock(ident)), remedy=remedy)


def _file_of(workspace: Workspace, entry: LockedInput | LockedRegistration) -> Path:
    if isinstance(entry, LockedInput) and entry.role == "from_run":
        ident, _, number = entry.name.partition("/")
        return workspace.run(ident, int(number)) / "manifest.json"
    return workspace.input(entry.name)


def _changed_model(workspace: Workspace, lock: Lock, progress: Progress | None) -> list[Problem]:
    written = next((entry.name for entry in lock.inputs if entry.role == "model"), None)
    if written is None:  # a served model: nothing of it is here
        return []
    paths = {p.name: p for p in model_files(workspace, written)}
    problems = []
    for entry in lock.inputs:
        if entry.role != "model":
            continue
        path = paths.get(Path(entry.name).name)
        if path is None or FileHashes().sha256(path, progress) != entry.sha256:
            what = "the model's bytes differ from those that were locked"
            remedy = "bring back the locked file; another model needs a registration of its own"
            problems.append(Problem(what, entry.name, remedy=remedy))
    return problems


def check_derived(locked: Locked, model: ModelInputs) -> None:
    """Compare what the inputs become now with what they became at the lock.

    Raises
    ------
    IntegrityError
        If prompts, grammar or plan differ although the files do not: another version of this
        tool or of a library renders them differently.
    """
    differing = differing_names(locked.lock.derived, derive(locked.inputs, model))
    if differing:
        what = f"{', '.join(differing)}: made from the same files, but different from the lock"
        remedy = (
            f"install the version that locked it ({locked.lock.tool['version']}), or register anew"
        )
        raise IntegrityError(Problem(what, locked.lock.registration.name, remedy=remedy))


def differing_names(then: Derived, now: Derived) -> list[str]:
    """Names of what differs; what an older lock did not hold differs from nothing."""
    names = [field.name for field in fields(then)]
    return [n for n in names if getattr(then, n) != "" and getattr(then, n) != getattr(now, n)]
