"""Append-only JSON Lines files in which every line carries the hash of the line before.

Used by the ledger and by a run's attempts. A line is the canonical JSON of an object whose
`prev` is the SHA-256 of the line before it (without its newline), or 64 zeros for the first.
Every append is written with one call and synced before it returns, so that a killed process
loses at most the line it was writing; such a torn tail is told apart from tampering.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prereg_judge.canon import canonical_json, sha256_bytes
from prereg_judge.errors import InputError, IntegrityError, Problem

GENESIS = "0" * 64


@dataclass(frozen=True)
class Chain:
    """A chain as read: its lines, the hash of the last, and the bytes of a torn last line."""

    lines: tuple[dict[str, Any], ...]
    head: str
    torn: bytes = b""

    @property
    def heads(self) -> tuple[str, ...]:
        """The hash of no line, and of each line: the n-th is that after n lines."""
        return (*(line["prev"] for line in self.lines), self.head)


def read_chain(path: Path, *, shown: str | None = None) -> Chain:
    """Read and check a chain.

    A last line without a newline is a torn write: it is left out and returned in `torn`. A
    missing file is an empty chain.

    Raises
    ------
    IntegrityError
        If any complete line is not canonical, or does not carry the hash of the line before.
    """
    lines, head, torn = [], GENESIS, b""
    for link in iter_chain(path, shown=shown):
        if isinstance(link, bytes):
            torn = link
        else:
            lines.append(link[0])
            head = link[1]
    return Chain(tuple(lines), head, torn)


def iter_chain(
    path: Path, *, shown: str | None = None
) -> Iterator[tuple[dict[str, Any], str] | bytes]:
    """Yield each line of a chain with its hash, checked, and at the end the bytes of a torn one.

    Holds one line at a time. A missing file is an empty chain.

    Raises
    ------
    IntegrityError
        As `read_chain`, when the line is reached.
    """
    if not path.exists():
        return
    if not path.is_file():  # a pipe would be waited for
        raise IntegrityError(Problem("is not a file", file=shown or str(path)))
    head = GENESIS
    with path.open("rb") as stream:
        for number, body in enumerate(stream, start=1):
            if not body.endswith(b"\n"):
                yield body
                return
            line = _check_line(body[:-1], head=head, number=number, shown=shown or str(path))
            head = sha256_bytes(body[:-1])
            yield line, head


def _check_line(body: bytes, *, head: str, number: int, shown: str) -> dict[str, Any]:
    def bad(what: str) -> IntegrityError:
        return IntegrityError(
            Problem(what, file=shown, line=number, remedy="restore the file from a copy or git")
        )

    try:
        line = json.loads(body)
        canonical = canonical_json(line)
    except (ValueError, RecursionError, InputError) as exc:
        raise bad("is not JSON: the file was changed after it was written") from exc
    if not isinstance(line, dict) or canonical != body:
        raise bad("is not in the form in which it was written: the line was edited")
    if line.get("prev") != head:
        raise bad("does not follow from the line before: a line was edited, dropped or moved")
    return line


class ChainWriter:
    """Appends to one chain; one writer at a time (the caller holds the lock).

    Opening checks the whole chain. A torn tail left by a killed process is cut off and kept in
    a line of its own, `{"event": "torn", "text": ...}`, so that nothing is deleted.
    """

    def __init__(self, path: Path, *, stamp: dict[str, Any]) -> None:
        """Open `path` for appending; `stamp` is merged into the line that records a torn tail."""
        self._path, self._head, torn = path, GENESIS, b""
        for link in iter_chain(path):
            if isinstance(link, bytes):
                torn = link
            else:
                self._head = link[1]
        path.parent.mkdir(parents=True, exist_ok=True)
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        size = os.fstat(self._fd).st_size - len(torn)
        if torn:
            os.ftruncate(self._fd, size)
        os.lseek(self._fd, size, os.SEEK_SET)
        _sync_folder(path.parent)
        if torn:
            self.append({**stamp, "event": "torn", "text": torn.decode("utf-8", "replace")})

    @property
    def head(self) -> str:
        """Hash of the last line."""
        return self._head

    def append(self, line: dict[str, Any]) -> str:
        """Write one line, sync it, and return its hash.

        A write that fails part way (disk full) is undone before the error is raised, so that
        the file still ends with a complete line.
        """
        body = canonical_json({**line, "prev": self._head})
        start = os.lseek(self._fd, 0, os.SEEK_CUR)
        try:
            _write_all(self._fd, body + b"\n")
            os.fsync(self._fd)
        except OSError as exc:
            os.ftruncate(self._fd, start)
            os.lseek(self._fd, start, os.SEEK_SET)
            exc.filename = exc.filename or str(self._path)  # a full disk names none
            raise
        self._head = sha256_bytes(body)
        return self._head

    def close(self) -> None:
        """Close the file; the writer cannot be used afterwards."""
        os.close(self._fd)


def _write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def _sync_folder(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def write_synced(path: Path, data: bytes | Iterable[bytes]) -> str:
    """Replace a file's content atomically: write beside it, sync, rename, sync the folder.

    Returns
    -------
    The SHA-256 of what was written, hex.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    digest = hashlib.sha256()
    try:
        with beside.open("wb") as stream:
            for part in [data] if isinstance(data, bytes) else data:
                stream.write(part)
                digest.update(part)
            stream.flush()
            os.fsync(stream.fileno())
        beside.replace(path)
    except BaseException as exc:
        beside.unlink(missing_ok=True)
        if isinstance(exc, OSError):
            exc.filename = str(path)  # not the file beside it; a full disk names none
        raise
    _sync_folder(path.parent)
    return digest.hexdigest()
