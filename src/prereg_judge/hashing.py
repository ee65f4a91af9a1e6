"""Hashes of big files, remembered between runs so that 30 GB are not read twice.

Knows files, their marks on the disk and the user's cache folder; not what a hash is for.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, BinaryIO

from filelock import FileLock, Timeout

from prereg_judge import clock
from prereg_judge.errors import InputError, Problem

SMALLEST_BYTES = 1 << 20
MOST_ENTRIES = 1_000
SETTLED_NS = 2_000_000_000
CACHE_NAME = "hashes.json"

_FORM = 1
_CHUNK = 1 << 20
_WAIT_S = 10.0  # for the cache's lock; whoever holds it longer is stuck
_SHA256 = re.compile(r"[0-9a-f]{64}")
_TIME = re.compile(r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\.\d{3}Z")

Progress = Callable[[int], None]


@dataclass(frozen=True)
class Hashed:
    """The SHA-256 of a file, and where it comes from.

    Attributes
    ----------
    sha256
        64 lower-case hex digits.
    cached_at
        When the file was really read, as `clock.now` writes it, where the hash was remembered;
        None where it was read for this very answer.
    """

    sha256: str
    cached_at: str | None = None


@dataclass(frozen=True)
class _Marks:
    """What must all be the same for a remembered hash to be given again."""

    size: int
    mtime_ns: int
    ctime_ns: int
    inode: int
    device: int

    @classmethod
    def of(cls, status: os.stat_result) -> _Marks:
        return cls(
            size=status.st_size,
            mtime_ns=status.st_mtime_ns,
            ctime_ns=status.st_ctime_ns,
            inode=status.st_ino,
            device=status.st_dev,
        )


@dataclass(frozen=True)
class _Entry:
    """One remembered file: its marks, its hash, when it was read and when last asked for."""

    marks: _Marks
    sha256: str
    hashed_at: str
    used_at: str

    def to_json(self) -> dict[str, Any]:
        rest = {"sha256": self.sha256, "hashed_at": self.hashed_at, "used_at": self.used_at}
        return {**asdict(self.marks), **rest}


class FileHashes:
    """Hashes files; big ones are read once and remembered in the user's cache folder.

    A remembered hash is given again while the file at the same resolved path has the same size,
    time of modification, inode, device and time of change (ctime).

    What that proves: nobody wrote to the file with ordinary tools since it was read. `touch -r`
    sets the time of modification back, but not the ctime, which the system keeps itself.

    What it does not prove: that the bytes are the same. Whoever can set the machine's clock or
    write to the disk below the file system can keep the ctime; a program that has the file
    mapped into memory can move bytes some seconds before the times move; a file system of
    another machine keeps times as that machine likes; and the cache is a plain file, which its
    owner can edit. So a remembered hash saves time between a lock and a run; whoever checks
    somebody's word asks with `fresh=True`, as `prereg verify` always does.

    A cache that cannot be read or written, is damaged, or could have been written by another
    user is no error: files are hashed as if there were none.
    """

    def __init__(self, folder: Path | None = None) -> None:
        """Use the cache in `folder`; by default that of `cache_folder`."""
        self._folder = folder if folder is not None else cache_folder()

    def sha256(self, path: Path, progress: Progress | None = None, *, fresh: bool = False) -> str:
        """SHA-256 of a file's bytes, 64 lower-case hex digits; see `hashed`."""
        return self.hashed(path, progress, fresh=fresh).sha256

    def hashed(
        self, path: Path, progress: Progress | None = None, *, fresh: bool = False
    ) -> Hashed:
        """SHA-256 of a file's bytes, and whether it was remembered.

        Parameters
        ----------
        path
            The file; of a symbolic link, what it leads to.
        progress
            Told the bytes of each piece read; of a remembered hash, the whole size at once.
        fresh
            Read the file whatever is remembered, and remember what was found.

        Raises
        ------
        OSError
            If the file cannot be read.
        InputError
            If it changed while it was read.
        """
        started_ns = time.time_ns()
        real = path.resolve(strict=True)
        with real.open("rb") as stream:
            status = os.fstat(stream.fileno())
            marks, regular = _Marks.of(status), stat.S_ISREG(status.st_mode)
            keep = regular and marks.size >= SMALLEST_BYTES
            known = self._entries().get(str(real)) if keep and not fresh else None
            if known is not None and known.marks == marks:
                self._remember(real, replace(known, used_at=clock.now()))
                if progress is not None:
                    progress(marks.size)
                return Hashed(known.sha256, known.hashed_at)
            # A file that grows as fast as it is read would never end.
            digest = _digest(stream, progress, most=marks.size if regular else None)
            if regular and _Marks.of(os.fstat(stream.fileno())) != marks:
                remedy = "wait until nothing writes to it, then try again"
                raise InputError(Problem("changed while it was read", str(path), remedy=remedy))
        if keep and _settled(marks, started_ns):
            now = clock.now()
            self._remember(real, _Entry(marks, digest, hashed_at=now, used_at=now))
        return Hashed(digest)

    def _entries(self) -> dict[str, _Entry]:
        """What is remembered, by resolved path; nothing where the cache is not to be believed."""
        if self._folder is None:
            return {}
        try:
            with (self._folder / CACHE_NAME).open("rb") as stream:
                status = os.fstat(stream.fileno())
                if status.st_uid != os.getuid() or status.st_mode & 0o022:
                    return {}
                data = json.loads(stream.read())
        except (OSError, ValueError, RecursionError):
            return {}
        files = data.get("files") if isinstance(data, dict) and data.get("form") == _FORM else None
        if not isinstance(files, dict):
            return {}
        read = {path: _entry(value) for path, value in files.items()}
        return {path: entry for path, entry in read.items() if entry is not None}

    def _remember(self, path: Path, entry: _Entry) -> None:
        """Put one entry into the cache; what others put there meanwhile stays."""
        if self._folder is None:
            return
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            with FileLock(self._folder / f".{CACHE_NAME}.lock", timeout=_WAIT_S, mode=0o600):
                entries = {**self._entries(), str(path): entry}
                latest = sorted(entries, key=lambda p: entries[p].used_at)[-MOST_ENTRIES:]
                files = {p: entries[p].to_json() for p in latest}
                _replace(self._folder / CACHE_NAME, {"form": _FORM, "files": files})
        except (OSError, Timeout):
            return  # remembering saves time and no more: the hash itself is at hand


def cache_folder(environ: Mapping[str, str] = os.environ) -> Path | None:
    """The user's cache folder of this tool.

    `$PREREG_CACHE`; else `prereg` in `$XDG_CACHE_HOME` where that is an absolute path; else
    `~/.cache/prereg`. None where there is no home folder either.
    """
    if environ.get("PREREG_CACHE"):
        return Path(environ["PREREG_CACHE"])
    base = Path(environ.get("XDG_CACHE_HOME", ""))
    if base.is_absolute():
        return base / "prereg"
    try:
        return Path.home() / ".cache" / "prereg"
    except RuntimeError:
        return None


def _digest(stream: BinaryIO, progress: Progress | None, *, most: int | None) -> str:
    """Hash what is left of a stream; it may stop once more than `most` bytes were read."""
    digest, n_bytes = hashlib.sha256(), 0
    while (most is None or n_bytes <= most) and (chunk := stream.read(_CHUNK)):
        digest.update(chunk)
        n_bytes += len(chunk)
        if progress is not None:
            progress(len(chunk))
    return digest.hexdigest()


def _settled(marks: _Marks, started_ns: int) -> bool:
    """Whether a later change is sure to move the times.

    They move in steps, of a clock tick here and of a second or two on some file systems: a file
    changed within the step in which it was read would keep its marks.
    """
    return started_ns - max(marks.mtime_ns, marks.ctime_ns) >= SETTLED_NS


def _entry(value: Any) -> _Entry | None:
    """A remembered entry, or None where it is not one."""
    try:
        numbers = {field.name: value[field.name] for field in fields(_Marks)}
        texts = [value[name] for name in ("sha256", "hashed_at", "used_at")]
    except (KeyError, TypeError):
        return None
    patterns = (_SHA256, _TIME, _TIME)
    whole = all(type(n) is int for n in numbers.values())
    if not whole or not all(
        isinstance(t, str) and p.fullmatch(t) for p, t in zip(patterns, texts, strict=True)
    ):
        return None
    return _Entry(_Marks(**numbers), *texts)


def _replace(path: Path, value: dict[str, Any]) -> None:
    """Write a JSON file that its owner alone can read, whole or not at all."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")  # made with 0600
    try:
        with os.fdopen(handle, "w", encoding="ascii") as stream:
            json.dump(value, stream, indent=1)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
