"""Where things lie: the root folder, its registrations, ledger, runs, and input files.

A workspace is any folder that holds `registrations/`. Paths inside registrations are relative
to the root. Knows names and places; reads and writes nothing but what `find` looks for.
"""

from __future__ import annotations

import importlib.metadata
import os
import re
from dataclasses import dataclass
from pathlib import Path

from prereg_judge.errors import InputError, Problem, UsageError
from prereg_judge.wording import listed, not_a_file

_ID = re.compile(r"[a-z0-9][a-z0-9-]{0,63}")
_LEFT = re.compile(rf"(?P<id>{_ID.pattern})(?:(?:\.v\d+)?\.lock|\.withdrawn)\.json")
_SHARD = re.compile(r"(?P<stem>.+)-(?P<number>\d{5})-of-(?P<count>\d{5})\.gguf")
PACKAGE_PREFIX = "package:"


@dataclass(frozen=True)
class Workspace:
    """A root folder and the places in it.

    `withheld` are item files, as registrations name them, whose text is withheld: in an unpacked
    bundle only.
    """

    root: Path
    withheld: frozenset[str] = frozenset()

    @classmethod
    def find(cls, start: Path | None = None) -> Workspace:
        """The nearest folder at or above `start` (default: the current one) with registrations.

        Raises
        ------
        UsageError
            If there is none.
        """
        here = (start or Path.cwd()).resolve()
        for folder in (here, *here.parents):
            if (folder / "registrations").is_dir():
                return cls(folder)
        what = f"no workspace here: neither {here} nor a folder above it holds `registrations/`"
        raise UsageError(Problem(what, remedy="run `prereg init` first, or name one with --root"))

    @property
    def registrations(self) -> Path:
        """Folder of the registrations, their locks and the ledger."""
        return self.root / "registrations"

    @property
    def ledger(self) -> Path:
        """The ledger's file."""
        return self.registrations / "ledger.jsonl"

    def registration(self, ident: str, version: int = 1) -> Path:
        """File of a registration, or of an amended version of it, from 2."""
        return self.registrations / f"{checked_id(ident)}{_suffix(version)}.yaml"

    def lock(self, ident: str, version: int = 1) -> Path:
        """File of a registration's lock, or of the lock of an amended version."""
        return self.registrations / f"{checked_id(ident)}{_suffix(version)}.lock.json"

    def tombstone(self, ident: str) -> Path:
        """File that is left where a registration was withdrawn."""
        return self.registrations / f"{checked_id(ident)}.withdrawn.json"

    @property
    def stamps(self) -> Path:
        """Folder of the time-stamps of the ledger."""
        return self.registrations / "stamps"

    def versions(self, ident: str) -> list[int]:
        """Numbers of the amended versions that have a file of any kind."""
        pattern = re.compile(rf"{re.escape(checked_id(ident))}\.v(\d+)\.(yaml|lock\.json)")
        found = (pattern.fullmatch(p.name) for p in self.registrations.glob(f"{ident}.v*"))
        return sorted({int(m[1]) for m in found if m})

    def runs(self, ident: str) -> Path:
        """Folder of a registration's runs."""
        return self.root / "runs" / checked_id(ident)

    def run(self, ident: str, number: int) -> Path:
        """Folder of one run."""
        return self.runs(ident) / str(number)

    def shown(self, path: Path) -> str:
        """A path as messages give it: relative to the root where it lies inside."""
        try:
            return str(path.relative_to(self.root))
        except ValueError:
            return str(path)

    def input(self, written: str) -> Path:
        """The file that a registration names."""
        return self.root / written

    def ids(self) -> list[str]:
        """Ids of every registration in the workspace, drafts included."""
        return sorted(p.stem for p in self.registrations.glob("*.yaml") if _ID.fullmatch(p.stem))

    def left_ids(self) -> list[str]:
        """Ids of which a lock, a tombstone or a run lies here, whatever became of their files."""
        names = (_LEFT.fullmatch(p.name) for p in self.registrations.glob("*.json"))
        runs = {p.parents[1].name for p in self.root.glob("runs/*/*/attempts.jsonl")}
        return sorted({m["id"] for m in names if m} | set(filter(is_id, runs)))

    def known(self, ident: str) -> Path:
        """The registration's file, or `UsageError` with the nearest ids where there is none."""
        path = self.registration(ident)
        if os.path.lexists(path) and not path.is_file():
            what, remedy = not_a_file(path) or "", "put the registration's text there"
            raise UsageError(Problem(what, self.shown(path), remedy=remedy))
        if not path.is_file():
            import difflib

            ids = self.ids()
            near = difflib.get_close_matches(ident, ids, n=3, cutoff=0.4)
            what = f"no registration {ident!r} in {self.shown(self.registrations)}/"
            remedy = f"did you mean {' or '.join(near)}? " if near else ""
            remedy += "All of them: `prereg status`" if ids else ""
            remedy = remedy or f"there are none yet; `prereg new {ident}` writes one"
            raise UsageError(Problem(what, remedy=remedy))
        return path


def _suffix(version: int) -> str:
    return "" if version == 1 else f".v{version}"


def is_id(text: str) -> bool:
    """Whether a text may name a registration, and with it files."""
    return _ID.fullmatch(text) is not None


def checked_id(ident: str) -> str:
    """Return `ident` if it may name files; `UsageError` otherwise."""
    if not is_id(ident):
        remedy = "use lower-case letters, digits and dashes, at most 64, no path"
        raise UsageError(Problem("this cannot be an id", found=repr(ident), remedy=remedy))
    return ident


def model_files(workspace: Workspace, written: str) -> tuple[Path, ...]:
    """Every file of the GGUF model that a registration names, the first shard first.

    `package:DISTRIBUTION/FILE` finds a file that an installed distribution brought, without
    importing it; anything else is a path.

    Raises
    ------
    InputError
        If the file, a shard of it or the distribution is missing.
    """
    path = _package_file(written) if written.startswith(PACKAGE_PREFIX) else None
    path = path or workspace.input(written)
    absent = not_a_file(path)
    if absent is not None:
        what = "the model file does not exist"
        what += "" if absent == "does not exist" else f": what has this name {absent}"
        raise InputError(Problem(what, file=written, remedy="check `model.gguf`"))
    match = _SHARD.fullmatch(path.name)
    if match is None:
        return (path,)
    count = int(match["count"])
    names = [f"{match['stem']}-{n:05d}-of-{count:05d}.gguf" for n in range(1, count + 1)]
    shards = tuple(path.with_name(name) for name in names)
    missing = [s.name for s in shards if not s.is_file()]
    if missing:
        what = f"the model has {count} shards, of which {len(missing)} are missing"
        absent, remedy = listed(missing, most=5), "put every shard beside the first"
        raise InputError(Problem(what, file=written, found=f"not there: {absent}", remedy=remedy))
    return shards


def _package_file(written: str) -> Path:
    distribution, _, name = written.removeprefix(PACKAGE_PREFIX).partition("/")
    remedy = f"install it: `pip install {distribution}`"
    try:
        files = importlib.metadata.distribution(distribution).files or []
    except (importlib.metadata.PackageNotFoundError, ValueError) as exc:
        what = f"the distribution {distribution!r} is not installed"
        raise InputError(Problem(what, where="model.gguf", found=written, remedy=remedy)) from exc
    for file in files:
        if file.name == name:
            return Path(str(file.locate())).resolve()
    what = f"the distribution {distribution!r} brings no such file"
    there = sorted(f.name for f in files if f.name.endswith(".gguf"))
    remedy = f"it has {listed(there)}" if there else "it has no .gguf file at all; name another"
    raise InputError(Problem(what, where="model.gguf", found=written, remedy=remedy))
