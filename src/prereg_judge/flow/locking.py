"""Making a lock, and checking that what was locked is what is there.

A registration is locked once. The lock's own hash goes into the ledger, so a lock rewritten
over an edited registration is found.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path

from prereg_judge import __version__, clock
from prereg_judge.canon import sha256_bytes, sha256_file, sha256_list, sha256_value
from prereg_judge.chain import write_synced
from prereg_judge.errors import IntegrityError, Problem, UsageError
from prereg_judge.flow.earlier import earlier_names, locate
from prereg_judge.flow.prepare import Inputs, read_inputs
from prereg_judge.flow.prompts import ModelInputs, read_model
from prereg_judge.ledger.book import Event, Ledger
from prereg_judge.registration.lock import (
    Derived,
    InputRole,
    Lock,
    LockedInput,
    LockedRegistration,
    changed,
    parse_lock,
    tool_source_sha256,
)
from prereg_judge.registration.schema import meaning
from prereg_judge.registration.schema_model import LocalModel
from prereg_judge.workspace import Workspace, model_files

Progress = Callable[[int], None]


def ledger_of(workspace: Workspace) -> Ledger:
    """The workspace's ledger."""
    return Ledger(workspace.ledger, workspace.shown(workspace.ledger))


def refuse_lost(workspace: Workspace, ident: str) -> None:
    """Refuse an id whose registration was locked and whose file is gone.

    Raises
    ------
    IntegrityError
        If it is so.
    """
    path = workspace.registration(ident)
    events = ledger_of(workspace).events(ident)
    if not path.exists() and any(e["event"] == "registered" for e in events):
        what = "the registration is gone, and the ledger knows that it was locked"
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


@dataclass(frozen=True)
class Locked:
    """A registration that is in force: its lock, the lock's hash, its inputs and its events."""

    lock: Lock
    lock_sha256: str
    lock_bytes: bytes
    inputs: Inputs
    events: list[Event]


def lock_registration(
    workspace: Workspace, ident: str, *, progress: Progress | None = None
) -> tuple[Lock, Inputs, ModelInputs]:
    """Check a registration, hash all that it stands on, write its lock and its ledger event.

    Raises
    ------
    UsageError
        If it is locked already. What was changed since needs a registration of its own.
    InputError, EngineError
        If anything in it or under it is not in order; nothing is written then.
    """
    ledger = ledger_of(workspace)
    known_registration(workspace, ident)
    _refuse_second_lock(workspace, ident, ledger.events(ident))
    inputs = read_inputs(workspace, ident)
    model = read_model(inputs)
    lock = _make_lock(inputs, model, progress)
    data = lock.to_bytes()
    path = workspace.lock(ident)
    pending = path.with_name(path.name + ".pending")

    def prepare(events: list[Event]) -> None:
        # The ledger first: a lock without its event does not count, and can be written again;
        # the event names the hash, so the file put in place after it is the one that was meant.
        # Written under the ledger's own lock: of two at once, the second must not replace it.
        _refuse_second_lock(workspace, ident, events)
        write_synced(pending, data)

    ledger.append_after(
        prepare,
        "registered",
        ident=ident,
        registration=lock.registration.sha256,
        lock=sha256_bytes(data),
        locked_at=lock.locked_at,
        seen=inputs.model.exposure.seen,
        tool=lock.tool,
    )
    pending.replace(path)
    return lock, inputs, model


def _refuse_second_lock(workspace: Workspace, ident: str, events: list[Event]) -> None:
    made = [e for e in events if e["event"] == "registered"]
    if not made and workspace.lock(ident).exists():
        raise IntegrityError(_orphan(workspace, ident))
    if made:
        path = workspace.registration(ident)
        same = path.is_file() and sha256_file(path) == made[-1]["registration"]
        what = f"{ident!r} was locked at {made[-1]['locked_at']}"
        if same:
            read_lock(workspace, ident, events)  # which says so if it is gone or changed
            raise UsageError(Problem(what, remedy=f"go on with `prereg run {ident}`"))
        remedy = "restore the locked text, or register the change under a new id"
        raise IntegrityError(
            Problem(f"{what} and edited since", workspace.shown(path), remedy=remedy)
        )


def _make_lock(inputs: Inputs, model: ModelInputs, progress: Progress | None) -> Lock:
    workspace, loaded = inputs.workspace, inputs.loaded
    entries = [_entry("judge", inputs.model.judge, workspace.input(inputs.model.judge))]
    for item_set in inputs.sets:
        role: InputRole = "items.sentinel" if item_set.role == "sentinel" else "items.real"
        entries.append(_entry(role, item_set.file, workspace.input(item_set.file)))
    seen: set[tuple[str, int]] = set()
    for name in earlier_names(inputs.claims):
        ident, number = locate(workspace, name, pinned=False)
        if (ident, number) in seen:
            continue
        seen.add((ident, number))
        manifest = workspace.run(ident, number) / "manifest.json"
        entries.append(_entry("from_run", f"{ident}/{number}", manifest))
    for path in model.files:
        entries.append(_entry("model", _model_name(inputs, path), path, progress))
    return Lock(
        id=inputs.model.id,
        locked_at=clock.now(),
        registration=LockedRegistration(loaded.shown, loaded.sha256, len(loaded.raw)),
        inputs=tuple(entries),
        derived=derive(inputs, model),
        tool={"version": __version__, "source_sha256": tool_source_sha256()},
    )


def _entry(role: InputRole, name: str, path: Path, progress: Progress | None = None) -> LockedInput:
    return LockedInput(role, name, sha256_file(path, progress), path.stat().st_size)


def _model_name(inputs: Inputs, path: Path) -> str:
    model = inputs.model.model
    assert isinstance(model, LocalModel)  # a served one has no files
    written = model.gguf
    return written.rpartition("/")[0] + "/" + path.name if "/" in written else path.name


def derive(inputs: Inputs, model: ModelInputs) -> Derived:
    """Hashes of what the inputs become; compared again at every run."""
    return Derived(
        meaning=sha256_value("registration-meaning", meaning(inputs.model)),
        prompt_template=inputs.judge.prompt_sha256,
        output_schema=inputs.judge.output_sha256,
        grammar=sha256_bytes(model.grammar.encode()),
        chat_template=sha256_bytes(((model.facts and model.facts.chat_template) or "").encode()),
        prompts=model.prompts_sha256,
        plan=sha256_list("plan", ([t.key, t.index] for t in inputs.plan)),
        n_trials=len(inputs.plan),
        longest_prompt=model.longest,
    )


def open_locked(
    workspace: Workspace, ident: str, *, with_model: bool, progress: Progress | None = None
) -> Locked:
    """Read a locked registration after checking every byte that it stands on.

    Parameters
    ----------
    with_model
        Whether the model's files are hashed too (needed to run, not to score).

    Raises
    ------
    UsageError
        If there is no such registration, or it is not locked.
    IntegrityError
        If the registration, the lock or an input differs from what was locked; every file that
        does is named.
    """
    path = known_registration(workspace, ident)
    events = ledger_of(workspace).events(ident)
    lock, raw = read_lock(workspace, ident, events)
    problems = changed([lock.registration], lambda _: path)
    files = [e for e in lock.inputs if e.role != "model"]
    problems += changed(files, lambda entry: _file_of(workspace, entry))
    if with_model:
        problems += _changed_model(workspace, lock, progress)
    if problems:
        raise IntegrityError(*problems)
    return Locked(lock, sha256_bytes(raw), raw, read_inputs(workspace, ident), events)


def read_lock(workspace: Workspace, ident: str, events: list[Event]) -> tuple[Lock, bytes]:
    """The lock that the ledger vouches for.

    Raises
    ------
    UsageError
        If the registration was never locked.
    IntegrityError
        If the lock is missing, or is not the one that the ledger names.
    """
    path = workspace.lock(ident)
    shown = workspace.shown(path)
    registered = [e for e in events if e["event"] == "registered"]
    if not registered:
        if path.exists():
            raise IntegrityError(_orphan(workspace, ident))
        remedy = f"lock it first: `prereg lock {ident}`"
        raise UsageError(Problem(f"{ident!r} is not locked", remedy=remedy))
    if not path.is_file():
        pending = path.with_name(path.name + ".pending")
        if pending.is_file() and sha256_file(pending) == registered[-1]["lock"]:
            pending.replace(path)  # killed between the event and the rename
        else:
            raise IntegrityError(Problem("the lock is missing", shown, remedy="restore it"))
    raw = path.read_bytes()
    if sha256_bytes(raw) != registered[-1]["lock"]:
        what = "differs from the lock that the ledger names: it was changed"
        raise IntegrityError(Problem(what, shown, remedy="restore it from git or a copy"))
    return parse_lock(raw, shown=shown), raw


def _orphan(workspace: Workspace, ident: str) -> Problem:
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
        if path is None or sha256_file(path, progress) != entry.sha256:
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
    then, now = locked.lock.derived, derive(locked.inputs, model)
    names = [field.name for field in fields(then)]
    differing = [name for name in names if getattr(then, name) != getattr(now, name)]
    if differing:
        what = f"{', '.join(differing)}: made from the same files, but different from the lock"
        remedy = (
            f"install the version that locked it ({locked.lock.tool['version']}), or register anew"
        )
        raise IntegrityError(Problem(what, locked.lock.registration.name, remedy=remedy))
