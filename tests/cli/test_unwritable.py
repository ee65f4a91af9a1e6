"""A finished run is shown where its result cannot be written down."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import NoReturn

import pytest

from prereg_judge.flow import results
from support import Done, locked, make_workspace, prereg, run_scripted, verdict_reply


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace with a run that is refuted: all rows agree."""
    root = make_workspace(tmp_path_factory.mktemp("finished") / "w")
    locked(root, "x", refute="all:: sentinel.agreement.count = 4: the wire is deterministic")
    run_scripted(root, "x", lambda *_: verdict_reply("NO"))
    return root


def _scored(finished: Path, *more: str) -> Done:
    done = prereg("score", "x", *more, root=finished)
    assert done.code == 3
    assert not (finished / "runs/x/1/score.json").exists()
    assert "error:" not in done.err
    return done


def test_a_read_only_workspace(finished: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The verdict is printed and sets the exit code; a warning names the file that is not there."""

    def refuse(path: Path, _data: bytes) -> NoReturn:
        beside = str(path.with_name(f".{path.name}.17.tmp"))
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), beside)

    monkeypatch.setattr(results, "write_synced", refuse)
    done = _scored(finished)
    assert "Verdict: REFUTED" in done.out
    assert "Warning: runs/x/1/score.json: could not be written: Read-only file" in done.err
    assert "Files:" not in done.err
    as_json = _scored(finished, "--json")
    assert as_json.json["verdict"] == "REFUTED"
    assert "Warning: runs/x/1/score.json" in as_json.err


def test_a_full_disk(finished: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the system names no file, the warning names both that it can have been."""

    def full(*_: object) -> NoReturn:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(results, "remember", full)
    done = _scored(finished)
    assert "registrations/ledger.jsonl or runs/x/1/score.json: could not be written" in done.err
    assert "make room" in done.err.lower()


def test_a_fired_refuter_says_what_it_means(
    finished: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reason beside the verdict holds the refuter's condition and its meaning."""
    monkeypatch.setattr(results, "write_synced", lambda *_: None)
    (reason,) = [line for line in _scored(finished).out.splitlines() if "because" in line]
    assert "refuter all: fired" in reason
    assert "sentinel.agreement.count = 4: the wire is deterministic" in reason
