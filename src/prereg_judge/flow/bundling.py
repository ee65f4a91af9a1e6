"""A bundle: one archive with what a reviewer needs to verify a registration elsewhere.

A zip file of stored members in one fixed form, so that it can be made again from its members and
compared byte by byte. The model is never in it; items and prompts may be withheld.
"""

from __future__ import annotations

import io
import json
import re
import struct
import tempfile
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any

from prereg_judge import __version__, clock
from prereg_judge.canon import canonical_json, sha256_bytes, sha256_file, sha256_value
from prereg_judge.chain import write_synced
from prereg_judge.errors import IntegrityError, Problem, UsageError
from prereg_judge.flow.earlier import earlier_names, judge_runs, locate
from prereg_judge.flow.locked import ledger_of, open_locked
from prereg_judge.flow.verifying.findings import Asked, Findings
from prereg_judge.flow.verifying.verify import verify_workspace
from prereg_judge.items import ItemSet
from prereg_judge.judge import Judge
from prereg_judge.ledger.events import run_entries, versions
from prereg_judge.record.run import HASHED
from prereg_judge.registration.lock import TABLE_ROLES, parse_lock, tool_source_sha256
from prereg_judge.withheld import FILE as WITHHELD
from prereg_judge.withheld import withheld_bytes
from prereg_judge.workspace import Workspace

FORM = 1
LISTING = "bundle.json"
ABOUT = "bundle"
# What is taken of a run beside what its manifest hashes; the log of the worker is not evidence.
_DERIVED = ("score.json", "verdicts.csv", "disagreements.jsonl", "disagreements.csv")
_OF_RUN = (*HASHED, "manifest.json", *_DERIVED)
_WITH_TEXT = ("prompts.jsonl", "disagreements.jsonl", "disagreements.csv")
_ITEMS = {"items.sentinel", "items.real"}
_DATE = (1980, 1, 1, 0, 0, 0)
_NAME = re.compile(r"[^\x00-\x1f\\:]+")


@dataclass(frozen=True)
class Bundled:
    """A bundle that was made: where, the registrations and runs in it, what was withheld."""

    path: Path
    sha256: str
    ids: tuple[str, ...]
    n_files: int
    withheld: tuple[str, ...]


def make_bundle(workspace: Workspace, ident: str, path: Path, *, withhold: bool = False) -> Bundled:
    """Put a locked registration, all its versions and runs, and the ledger into one archive.

    Parameters
    ----------
    path
        Where to; nothing may be there yet.
    withhold
        Leave out the items' text and whatever holds it: the item files, the prompts, the
        disagreements. Ids, labels and hashes stay. Replies stay too: a reply may quote an item.

    Raises
    ------
    UsageError
        If the registration is not locked, or something lies at `path`.
    IntegrityError
        If what was locked is not what is there.
    """
    if path.exists():
        what = "something lies there already"
        raise UsageError(Problem(what, str(path), remedy="choose another name with --out"))
    ids, files, withheld = _collect(workspace, ident, withhold=withhold)
    data = _archive({LISTING: _listing(ident, ids, files, withheld), **files})
    return Bundled(path, write_synced(path, data), tuple(ids), len(files), tuple(withheld))


def _collect(
    workspace: Workspace, ident: str, *, withhold: bool
) -> tuple[list[str], dict[str, bytes], list[str]]:
    """The registrations of a bundle, its files by name, and the names of what is withheld."""
    files: dict[str, bytes] = {}
    withheld: dict[str, ItemSet] = {}
    judges: dict[str, Judge] = {}
    ids = _closure(workspace, ident)
    for each in ids:
        _add_registration(workspace, each, files, withheld if withhold else None, judges)
    ledger = ledger_of(workspace)
    every = [ledger.path, ledger.tip_path]
    every += sorted(workspace.stamps.glob("*")) if workspace.stamps.is_dir() else []
    for file in every:
        if file.is_file():
            files[workspace.shown(file)] = file.read_bytes()
    if withheld:
        judge_of = {id(i): judges[s.file] for s in withheld.values() for i in s.items}
        files[WITHHELD] = withheld_bytes(
            list(withheld.values()),
            content=lambda item: judge_of[id(item)].content(item),
            shapes=lambda item: judge_of[id(item)].shapes(item),
        )
        for name in [n for n in files if n.rpartition("/")[2] in _WITH_TEXT]:
            del files[name]
    return ids, files, sorted(withheld)


def _closure(workspace: Workspace, ident: str) -> list[str]:
    """The registration, and those whose runs it compares itself with, and theirs."""
    found: list[str] = []
    waiting = [ident]
    while waiting:
        each = waiting.pop(0)
        if each in found:
            continue
        found.append(each)
        for version in versions(ledger_of(workspace).events(each)):
            locked = open_locked(workspace, each, with_model=False, version=version.number)
            names = [*earlier_names(locked.inputs.claims), *judge_runs(locked.inputs.model)]
            waiting += [locate(workspace, name, pinned=True)[0] for name in names]
    return found


def _add_registration(
    workspace: Workspace,
    ident: str,
    files: dict[str, bytes],
    withheld: dict[str, ItemSet] | None,
    judges: dict[str, Judge],
) -> None:
    events = ledger_of(workspace).events(ident)
    for version in versions(events) or [None]:
        number = version.number if version else None
        locked = open_locked(workspace, ident, with_model=False, version=number)
        number = locked.lock.version
        paths = [workspace.registration(ident, number), workspace.lock(ident, number)]
        others = [e for e in locked.lock.inputs if e.role in ("judge", *TABLE_ROLES)]
        paths += [workspace.input(entry.name) for entry in others]
        for item_set in locked.inputs.called_sets:
            if withheld is None:
                paths.append(workspace.input(item_set.file))
            else:
                _refuse_other_fields(item_set, judges, locked.inputs.judge)
                withheld[item_set.file] = item_set
                judges[item_set.file] = locked.inputs.judge
        for path in paths:
            files[_member(workspace, path)] = path.read_bytes()
    stone = workspace.tombstone(ident)
    if stone.is_file():
        files[_member(workspace, stone)] = stone.read_bytes()
    for entry in run_entries(events):
        folder = workspace.run(ident, entry.number)
        for name in _OF_RUN:
            if (folder / name).is_file():
                files[_member(workspace, folder / name)] = (folder / name).read_bytes()


def _refuse_other_fields(item_set: ItemSet, judges: Mapping[str, Judge], judge: Judge) -> None:
    """Refuse a second judge that sees other fields of the same rows: each row has one hash.

    Raises
    ------
    UsageError
        If there is one.
    """
    before = judges.get(item_set.file, judge)
    if any(judge.content(i) != before.content(i) for i in item_set.items):
        what = "two judges in this bundle see different fields of these rows, so that one hash a "
        what += "row cannot stand for them"
        raise UsageError(Problem(what, item_set.file, remedy="bundle it with the items' text"))


def _member(workspace: Workspace, path: Path) -> str:
    """A file's name in the archive: its place in the workspace.

    Raises
    ------
    UsageError
        If the file lies outside the workspace.
    """
    name = workspace.shown(path)
    if not _is_member(name):
        what = "lies outside the workspace, so that a bundle has no place for it"
        raise UsageError(Problem(what, name, remedy="move it inside, and register that path"))
    return name


def _is_member(name: str) -> bool:
    parts = PurePosixPath(name).parts
    usual = _NAME.fullmatch(name) is not None and str(PurePosixPath(name)) == name
    foreign = any(part == ".." or part.lower() == ".git" for part in parts)
    return usual and not name.startswith("/") and not foreign


def _listing(
    ident: str, ids: Sequence[str], files: Mapping[str, bytes], withheld: Sequence[str]
) -> bytes:
    value: dict[str, Any] = {
        "prereg_bundle": FORM,
        "id": ident,
        "ids": list(ids),
        "made_at": clock.now(),
        "tool": {"version": __version__, "source_sha256": tool_source_sha256()},
        "withheld": list(withheld),
        "files": {name: sha256_bytes(data) for name, data in files.items()},
    }
    return canonical_json({**value, "digest": sha256_value("bundle", value)}) + b"\n"


def _archive(members: Mapping[str, bytes]) -> bytes:
    """The one form of an archive with these members: stored, in order of names, undated."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_STORED) as archive:
        for name in sorted(members):
            info = zipfile.ZipInfo(name, _DATE)
            info.create_system, info.external_attr = 3, 0o644 << 16
            archive.writestr(info, members[name])
    return stream.getvalue()


def is_bundle(text: str) -> bool:
    """Whether an argument names a file rather than a registration: ids hold no dot or slash."""
    return "." in text or "/" in text


def verify_bundle(
    path: Path, asked: Asked, *, progress: Callable[[int], None] | None = None
) -> Findings:
    """Verify a bundle by itself: the archive's own form, and then everything as in a workspace.

    Raises
    ------
    UsageError
        If there is no such file.
    """
    if not path.is_file():
        raise UsageError(Problem("there is no such bundle", str(path), remedy="check the path"))
    try:
        members, listing = _read(path)
    except IntegrityError as exc:
        findings = Findings()
        findings.raised(ABOUT, exc)
        return findings
    with tempfile.TemporaryDirectory(prefix="prereg-bundle-") as folder:
        workspace = Workspace(Path(folder), frozenset(listing["withheld"]))
        findings = Findings()
        try:
            _unpack(members, workspace, path.name)
            findings = verify_workspace(workspace, listing["ids"], asked, progress=progress)
            if not findings.has_violation():
                _refuse_others(workspace, members, listing, path.name)
        except (IntegrityError, UsageError) as exc:
            findings.raised(ABOUT, exc)
            return findings
    what = f"{len(members) - 1} files of {listing['id']!r}, as they were listed when it was made"
    findings.proved(ABOUT, what, f"hashes; the whole file is {sha256_file(path)}")
    if listing["withheld"]:
        what = f"the text of {', '.join(listing['withheld'])}: it was withheld, its hashes are here"
        findings.not_proved(ABOUT, what, "ask for the files, and compare their SHA-256")
    return findings


def _refuse_others(
    workspace: Workspace, members: Mapping[str, bytes], listing: Mapping[str, Any], shown: str
) -> None:
    """Refuse an archive that is not what would be made of its own content.

    Raises
    ------
    IntegrityError
        If a registration is left out of what is to be verified, or a file is there for nothing.
    """
    withhold = bool(listing["withheld"])
    ids, files, withheld = _collect(workspace, listing["id"], withhold=withhold)
    if (ids, withheld) != (listing["ids"], listing["withheld"]):
        raise _wrong(shown, "does not list the registrations that it is of, or what it withholds")
    if files != {name: data for name, data in members.items() if name != LISTING}:
        raise _wrong(shown, "holds other files than a bundle of its registrations does")


def _wrong(name: str, what: str) -> IntegrityError:
    return IntegrityError(Problem(what, name, remedy="take the bundle as it was made"))


def _unpack(members: Mapping[str, bytes], workspace: Workspace, shown: str) -> None:
    """Write the members into an empty folder; only item files may be withheld.

    Raises
    ------
    IntegrityError
        If a name cannot be a file beside the others, or something else is withheld.
    """
    roles: dict[str, set[str]] = {}
    for name, data in members.items():
        target = workspace.root / name
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(data)
        except (OSError, ValueError) as exc:
            raise _wrong(shown, "holds names that no bundle holds") from exc
        if name.endswith(".lock.json"):
            for entry in parse_lock(data, shown=name).inputs:
                roles.setdefault(entry.name, set()).add(entry.role)
    workspace.registrations.mkdir(exist_ok=True)
    if any(not roles.get(n, set()) or roles[n] - _ITEMS for n in workspace.withheld):
        raise _wrong(shown, "withholds what is no item file")


def _read(path: Path) -> tuple[dict[str, bytes], dict[str, Any]]:
    """The members of an archive and its listing.

    Raises
    ------
    IntegrityError
        If any byte of it is not as `make_bundle` writes it.
    """
    raw, wrong = path.read_bytes(), partial(_wrong, path.name)
    try:
        with zipfile.ZipFile(io.BytesIO(raw)) as archive:
            infos = archive.infolist()
            stored = all(
                i.compress_type == zipfile.ZIP_STORED and i.compress_size == i.file_size
                for i in infos
            )
            # Members that lie over each other would be more than the file.
            if not stored or sum(i.file_size for i in infos) > len(raw):
                raise wrong("is not in the form in which bundles are written")
            members = {i.filename: archive.read(i) for i in infos}
        if len(members) != len(infos) or not all(map(_is_member, members)):
            raise wrong("holds names that no bundle holds")
        value: dict[str, Any] = json.loads(members[LISTING])
        digest = value.pop("digest")
        listed = {name: sha256_bytes(data) for name, data in members.items() if name != LISTING}
        again = canonical_json({**value, "digest": digest}) + b"\n"
        fits = value["files"] == listed and digest == sha256_value("bundle", value)
        fits = fits and again == members[LISTING] and value["prereg_bundle"] == FORM
        named = [value["id"], *value["ids"], *value["withheld"]]
        fits = fits and all(isinstance(value[k], list) for k in ("ids", "withheld"))
        fits = fits and all(isinstance(n, str) for n in named)
    except IntegrityError:
        raise
    except (zipfile.BadZipFile, ValueError, KeyError, TypeError, EOFError, OSError, RuntimeError,
            NotImplementedError, AttributeError, RecursionError, struct.error) as exc:  # fmt: skip
        raise wrong("is not a bundle, or was damaged") from exc
    if not fits:
        raise wrong("its files are not those that were listed when it was made")
    if _archive(members) != raw:
        raise wrong("is not in the form in which bundles are written")
    return members, value
