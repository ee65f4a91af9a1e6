"""A finished run is shown where its result cannot be written down."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from prereg_judge.flow import results
from support import Done, locked, make_workspace, prereg, run_scripted, verdict_reply


@pytest.fixture
def finished(tmp_path: Path) -> Path:
    """A workspace with a run that is refuted: all rows agree."""
    root = make_workspace(tmp_path / "w")
    locked(root, "x", refute="all:: sentinel.agreement.count = 4: the wire is deterministic")
    run_scripted(root, "x", lambda *_: verdict_reply("NO"))
    return root


def _scored(finished: Path, *more: str) -> Done:
    done = prereg("score", "x", *more, root=finished)
    assert done.code == 3
    assert "error:" not in done.err
    return done


def _fails(monkeypatch: pytest.MonkeyPatch, number: int, name: str) -> None:
    """Let the system refuse to sync every file with this name; it names no file itself."""
    sync = os.fsync

    def refuse(fd: int) -> None:
        if name in Path(f"/proc/self/fd/{fd}").readlink().name:
            raise OSError(number, os.strerror(number))
        sync(fd)

    monkeypatch.setattr(os, "fsync", refuse)


@pytest.mark.parametrize("number", [errno.EROFS, errno.ENOSPC])
def test_a_score_that_cannot_be_written(
    finished: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """The verdict is printed and sets the exit code; a warning names the file that is not there."""
    _fails(monkeypatch, number, "score.json")
    done = _scored(finished)
    assert "Verdict: REFUTED" in done.out
    assert f"Warning: runs/x/1/score.json: could not be written: {os.strerror(number)}" in done.err
    assert "Files:" not in done.err
    as_json = _scored(finished, "--json")
    assert as_json.json["verdict"] == "REFUTED"
    assert "Warning: runs/x/1/score.json" in as_json.err
    assert not (finished / "runs/x/1/score.json").exists()
    assert not list((finished / "runs/x/1").glob("*.tmp"))


def test_a_ledger_that_cannot_be_written(finished: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a full disk the ledger is named, and ends with a whole line as before."""
    _fails(monkeypatch, errno.ENOSPC, "ledger.jsonl")
    before = (finished / "registrations/ledger.jsonl").read_bytes()
    done = _scored(finished)
    assert "Warning: registrations/ledger.jsonl: could not be written" in done.err
    assert "make room" in done.err.lower()
    assert (finished / "registrations/ledger.jsonl").read_bytes() == before


def test_a_fired_refuter_says_what_it_means(
    finished: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reason beside the verdict holds the refuter's condition and its meaning."""
    monkeypatch.setattr(results, "write_synced", lambda *_: None)
    (reason,) = [line for line in _scored(finished).out.splitlines() if "because" in line]
    assert "refuter all: fired" in reason
    assert "sentinel.agreement.count = 4: the wire is deterministic" in reason
