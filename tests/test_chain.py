"""Chains: what was appended is read back; what was changed is found; what was torn is kept."""

from __future__ import annotations

import errno
import json
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prereg_judge import chain
from prereg_judge.canon import canonical_json, sha256_bytes
from prereg_judge.chain import GENESIS, ChainWriter, read_chain, write_synced
from prereg_judge.errors import InputError, IntegrityError

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
LINES = st.lists(
    st.dictionaries(
        TEXT.filter(lambda key: key != "prev"),
        st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | TEXT,
        max_size=3,
    ),
    max_size=6,
)
STAMP = {"at": "now"}


@contextmanager
def some_folder() -> Iterator[Path]:
    """A folder for one example, on which nothing is synced: that is slow, and not looked at."""
    with tempfile.TemporaryDirectory() as folder, mock.patch("os.fsync"):
        yield Path(folder)


def written(path: Path, lines: list[dict[str, Any]]) -> list[str]:
    """Append lines with one writer; the hashes that it gave."""
    writer = ChainWriter(path, stamp=STAMP)
    try:
        return [writer.append(line) for line in lines]
    finally:
        writer.close()


@pytest.fixture
def three(tmp_path: Path) -> Path:
    """A chain of three lines."""
    path = tmp_path / "c.jsonl"
    written(path, [{"n": 1}, {"n": 2}, {"n": 3}])
    return path


@settings(max_examples=40, deadline=None)
@given(LINES, st.integers(0, 6))
def test_what_is_appended_is_read_back(lines: list[dict[str, Any]], cut: int) -> None:
    """By one writer or two in turn, lines come back in order, each with the hash before."""
    with some_folder() as folder:
        path = folder / "deep/c.jsonl"
        hashes = [*written(path, lines[:cut]), *written(path, lines[cut:])]
        found = read_chain(path)
        assert [{k: v for k, v in line.items() if k != "prev"} for line in found.lines] == [
            json.loads(canonical_json(line)) for line in lines
        ]
        assert [line["prev"] for line in found.lines] == [GENESIS, *hashes][: len(lines)]
        assert found.head == [GENESIS, *hashes][-1]
        assert found.torn == b""


@settings(max_examples=100, deadline=None)
@given(LINES.filter(bool), st.data())
def test_a_torn_tail_is_kept_as_an_event(lines: list[dict[str, Any]], data: st.DataObject) -> None:
    """Cut anywhere, a chain keeps its whole lines; the rest goes into a line that says so."""
    with some_folder() as folder:
        path = folder / "c.jsonl"
        written(path, lines)
        raw = path.read_bytes()
        end = data.draw(st.integers(0, len(raw)))
        path.write_bytes(raw[:end])
        complete = raw[:end].count(b"\n")
        torn = raw[raw[:end].rfind(b"\n") + 1 : end]
        before = read_chain(path)
        assert (len(before.lines), before.torn) == (complete, torn)
        written(path, [{"n": "next"}])
        after = read_chain(path)
        notes = (
            [{**STAMP, "event": "torn", "text": torn.decode("utf-8", "replace")}] if torn else []
        )
        added = [{k: v for k, v in x.items() if k != "prev"} for x in after.lines[complete:]]
        assert after.lines[:complete] == before.lines
        assert added == json.loads(canonical_json([*notes, {"n": "next"}]))


@settings(max_examples=200, deadline=None)
@given(LINES.filter(lambda x: len(x) > 1), st.data())
def test_a_changed_byte_before_the_last_line_is_found(
    lines: list[dict[str, Any]], data: st.DataObject
) -> None:
    """Every byte that another line follows is vouched for by the hash in that line."""
    with some_folder() as folder:
        path = folder / "c.jsonl"
        written(path, lines)
        raw = path.read_bytes()
        last = raw.rstrip(b"\n").rfind(b"\n")
        at = data.draw(st.integers(0, last))
        by = data.draw(st.integers(1, 255))
        path.write_bytes(raw[:at] + bytes([raw[at] ^ by]) + raw[at + 1 :])
        with pytest.raises(IntegrityError, match=r"c\.jsonl"):
            read_chain(path)


@pytest.mark.parametrize(
    ("change", "line"),
    [
        (lambda x: [x[0].replace(b"1", b"4", 1), *x[1:]], 2),
        (lambda x: x[1:], 1),
        (lambda x: [x[0], x[2]], 2),
        (lambda x: [x[0], x[0], *x[1:]], 2),
        (lambda x: [*x, x[2]], 4),
        (lambda x: [x[1], x[0], x[2]], 1),
        (lambda x: [x[0].replace(b":", b": ", 1), *x[1:]], 1),
        (lambda x: [x[0], x[1] + b"\r", x[2]], 2),
        (lambda x: [x[0], b"", *x[1:]], 2),
        (lambda x: [x[0], b"[]", *x[1:]], 2),
        (lambda x: [x[0], b"[" * 100_000, *x[1:]], 2),
        (lambda x: [x[0], b'{"n":NaN}', *x[1:]], 2),
        (lambda x: [x[0], b'{"n":1,"n":1}', *x[1:]], 2),
        (lambda x: [x[0], b'{"n":"\\ud800"}', *x[1:]], 2),
        (lambda x: [x[0], b'{"n":9007199254740993}', *x[1:]], 2),
        (lambda x: [x[0], b"\xff", *x[1:]], 2),
    ],
)
def test_tampering_names_the_line(
    change: Callable[[list[bytes]], list[bytes]], line: int, three: Path
) -> None:
    """Edited, dropped, doubled, moved or foreign lines are refused at the line where it shows."""
    three.write_bytes(b"".join(x + b"\n" for x in change(three.read_bytes().splitlines())))
    with pytest.raises(IntegrityError, match=rf"^shown\.jsonl:{line}: "):
        read_chain(three, shown="shown.jsonl")
    with pytest.raises(IntegrityError):
        ChainWriter(three, stamp=STAMP)


def test_a_missing_or_empty_file_is_an_empty_chain(tmp_path: Path) -> None:
    """No line yet: the head is 64 zeros."""
    assert read_chain(tmp_path / "none").head == GENESIS
    (tmp_path / "empty").touch()
    assert read_chain(tmp_path / "empty") == chain.Chain((), GENESIS)


@pytest.mark.parametrize("call", ["write", "fsync"])
def test_a_write_that_fails_is_undone(
    call: str, three: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a full disk the line is not half there, the writer stays usable, and the hash follows."""
    before = three.read_bytes()
    writer = ChainWriter(three, stamp=STAMP)
    real: Callable[..., Any] = getattr(os, call)

    def full(fd: int, *data: bytes) -> Any:
        if data:
            real(fd, data[0][:7])
        raise OSError(errno.ENOSPC, "full")

    with monkeypatch.context() as context:
        context.setattr(os, call, full)
        with pytest.raises(OSError, match="full"):
            writer.append({"n": 4})
    assert three.read_bytes() == before
    assert writer.head == sha256_bytes(before.splitlines()[-1])
    writer.append({"n": 5})
    writer.close()
    assert [line["n"] for line in read_chain(three).lines] == [1, 2, 3, 5]


def test_a_write_in_pieces_is_put_together(three: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that takes a few bytes at a time still gets the whole line."""
    real = os.write
    with monkeypatch.context() as context:
        context.setattr(os, "write", lambda fd, data: real(fd, data[:5]))
        written(three, [{"n": "long enough"}])
    assert read_chain(three).lines[-1]["n"] == "long enough"


def test_a_line_that_json_cannot_hold_leaves_the_file_alone(three: Path) -> None:
    """A refused value is not written in part."""
    before = three.read_bytes()
    with pytest.raises(InputError):
        written(three, [{"n": float("nan")}])
    assert three.read_bytes() == before


def test_a_whole_file_is_replaced_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Either the old content is there or the new, and nothing is left beside it."""
    path = tmp_path / "deep/f"
    write_synced(path, b"one")
    write_synced(path, b"two")
    assert path.read_bytes() == b"two"

    def full(_fd: int) -> None:
        raise OSError(errno.ENOSPC, "full")

    with monkeypatch.context() as context:
        context.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="full"):
            write_synced(path, b"three")
    assert path.read_bytes() == b"two"
    assert [p.name for p in path.parent.iterdir()] == ["f"]


def test_a_file_that_cannot_be_written_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full disk names no file, and the one beside is not the user's: the error names it."""
    written, chain = tmp_path / "a.json", tmp_path / "b.jsonl"
    write_synced(written, b"before")
    writer = ChainWriter(chain, stamp={})
    writer.append({"event": "one"})
    before = chain.read_bytes()

    def full(_fd: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left") as replaced:
        write_synced(written, b"after")
    with pytest.raises(OSError, match="No space left") as appended:
        writer.append({"event": "two"})
    writer.close()
    assert (replaced.value.filename, appended.value.filename) == (str(written), str(chain))
    assert (written.read_bytes(), chain.read_bytes()) == (b"before", before)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.json", "b.jsonl"]
