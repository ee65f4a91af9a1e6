"""What others kept of the ledger: which files name its lines, and archives that cannot be read."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest

from prereg_judge.chain import GENESIS
from prereg_judge.errors import InputError
from prereg_judge.flow.verifying.copies import copies_among

MEMBER = "registrations/ledger.jsonl"


def archive(path: Path, data: bytes, *, compression: int = zipfile.ZIP_STORED) -> Path:
    """A zip archive with this as its ledger."""
    with zipfile.ZipFile(path, "w", compression) as stream:
        stream.writestr(MEMBER, data)
    return path


def test_what_names_lines(tmp_path: Path) -> None:
    """A bundle names every line that it holds, a score the last of its time."""
    bundle = archive(tmp_path / "b.zip", b"one\ntwo\n")
    score = tmp_path / "score.json"
    score.write_text(json.dumps({"provenance": {"ledger_head": "a" * 64}}))
    found = copies_among([bundle, score])
    assert {name: len(lines) for name, lines in found.items()} == {str(bundle): 2, str(score): 1}


@pytest.mark.parametrize("head", [GENESIS, "hello", "a" * 63, 7, None])
def test_a_file_that_names_no_line(head: object, tmp_path: Path) -> None:
    """The hash of no line, and what is no hash, prove nothing: such a file is no copy."""
    path = tmp_path / "score.json"
    path.write_text(json.dumps({"ledger_head": head}))
    assert copies_among([path]) == {}


def _damaged(path: Path) -> None:
    """A deflated ledger with bytes in its middle changed."""
    archive(path, bytes(range(256)) * 20, compression=zipfile.ZIP_DEFLATED)
    raw = bytearray(path.read_bytes())
    raw[70:110] = b"\xff" * 40
    path.write_bytes(raw)


def _bomb(path: Path) -> None:
    """A ledger that unpacks to a thousand times its size."""
    archive(path, b"\n" * 2**24, compression=zipfile.ZIP_DEFLATED)


def _cut(path: Path) -> None:
    """A stored ledger that says that it is longer than the archive."""
    archive(path, b"one\n")
    raw = path.read_bytes()
    path.write_bytes(raw.replace((4).to_bytes(4, "little") * 2, (2**30).to_bytes(4, "little") * 2))


def _changed(path: Path) -> None:
    """A stored ledger that does not have its checksum."""
    archive(path, b"one\n")
    path.write_bytes(path.read_bytes().replace(b"one\n", b"two\n"))


def _without_ledger(path: Path) -> None:
    """An archive of something else."""
    with zipfile.ZipFile(path, "w") as stream:
        stream.writestr("a.txt", b"a")


@pytest.mark.parametrize("make", [_damaged, _bomb, _cut, _changed, _without_ledger])
def test_archives_that_are_no_bundles(
    make: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are refused by name; nothing is unpacked, since bundles are stored as they are."""
    path = tmp_path / "b.zip"
    assert callable(make)
    make(path)
    monkeypatch.setattr(zipfile, "zlib", None)  # nothing could be unpacked
    with pytest.raises(InputError, match=r"--clone: is not .*b\.zip"):
        copies_among([path])
