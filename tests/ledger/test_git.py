"""Starting git: what hangs is killed with all that it started, and is an answer."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from ledger.git_repos import isolate
from prereg_judge.ledger.git import Git, Unusable, open_repository


@pytest.fixture
def hanging(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A folder, and a `git` in front of the real one that waits beside a child of its own."""
    isolate(monkeypatch, tmp_path)
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "git").write_text("#!/bin/sh\necho begun\nsleep 600 &\necho $! > pid\nsleep 600\n")
    (tools / "git").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}:{os.environ['PATH']}")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def _ends(pid: int) -> bool:
    """Whether a killed process ends; one that nobody waited for is still listed, as a zombie."""
    for _ in range(100):
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            return True
        if state == "Z":
            return True
        time.sleep(0.1)
    return False


def test_a_git_that_hangs_is_killed_with_its_children(hanging: Path) -> None:
    """After the deadline there is an answer that says so, and no child is left."""
    answer = Git(hanging).run("version", timeout_s=2)
    assert (answer.ok, answer.timed_out) == (False, True)
    assert "git version had no answer after 2 s" in answer.err
    assert _ends(int((hanging / "pid").read_text()))


def test_a_stream_that_hangs_ends(hanging: Path) -> None:
    """A stream that gives no more is cut at the deadline."""
    with Git(hanging).reading("cat-file", stdin=b"", timeout_s=2) as stream:
        assert stream.read() == b"begun\n"
    assert _ends(int((hanging / "pid").read_text()))


def test_a_folder_that_is_not_there_has_no_repository(tmp_path: Path) -> None:
    """A missing folder is answered like one outside any repository."""
    found = open_repository(tmp_path / "none")
    assert isinstance(found, Unusable)
    assert found.reason == "not_a_repository"
