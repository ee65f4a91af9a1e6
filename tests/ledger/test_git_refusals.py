"""When nothing is committed: each reason is an answer, and everything is as it was."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ledger.git_repos import LEDGER, LOCK, Repo, commit, isolate, refused
from prereg_judge.ledger.git_commit import Committed, commit_files
from prereg_judge.ledger.git_index import NotCommitted


@pytest.fixture(autouse=True)
def _isolated(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    isolate(monkeypatch, tmp_path)


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    """A repository with one commit of other files, and a ledger and a lock not yet in it."""
    return Repo.to_lock(tmp_path / "repo")


def test_the_same_bytes_again_make_no_commit(repo: Repo) -> None:
    """What HEAD holds already is answered as unchanged, also when it is staged otherwise."""
    commit(repo)
    assert repo.head[:12] in refused(repo, "unchanged")
    repo.git("rm", "--quiet", "--cached", LEDGER)
    refused(repo, "unchanged", LEDGER)


def test_a_held_index_refuses(repo: Repo) -> None:
    """While another process holds `index.lock` nothing is done, and the lock stays."""
    held = repo.write(".git/index.lock", b"theirs")
    answer = commit(repo)
    assert isinstance(answer, NotCommitted)
    assert answer.reason == "locked"
    assert str(held) in answer.detail
    assert held.read_bytes() == b"theirs"
    held.unlink()
    assert isinstance(commit(repo), Committed)
    assert not held.exists()


def test_a_held_branch_refuses(repo: Repo) -> None:
    """While another process holds the branch's lock, HEAD cannot move: refused as locked."""
    held = repo.write(".git/refs/heads/main.lock", b"")
    refused(repo, "locked")
    held.unlink()
    assert isinstance(commit(repo), Committed)


def test_ignored_files_are_not_forced_in(repo: Repo) -> None:
    """A file that `.gitignore` names is refused by name, until it is tracked anyway."""
    repo.commit("ignore", {".gitignore": b"*.lock.json\n"})
    detail = refused(repo, "ignored")
    assert LOCK in detail
    assert LEDGER not in detail
    repo.git("add", "--force", LOCK)
    assert isinstance(commit(repo), Committed)


def test_nobody_to_commit_as(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a name and address git's own words say what to set."""
    for role in ("AUTHOR", "COMMITTER"):
        monkeypatch.delenv(f"GIT_{role}_NAME")
        monkeypatch.delenv(f"GIT_{role}_EMAIL")
    repo.git("config", "user.useConfigOnly", "true")
    assert "git config --global user.email" in refused(repo, "no_identity")


@pytest.mark.parametrize("operation", ["merge", "cherry-pick", "revert", "rebase"])
def test_an_operation_under_way_refuses(repo: Repo, operation: str) -> None:
    """A merge, cherry-pick, revert or rebase that waits for its end is not disturbed."""
    start = repo.head
    repo.commit("mine", {"code.py": b"2\n"})
    repo.git("checkout", "--quiet", "-b", "side", start)
    repo.commit("theirs", {"code.py": b"3\n"})
    repo.commit("further", {"code.py": b"4\n"})
    repo.git(operation, {"revert": "side~"}.get(operation, "main"), fails=True)
    assert operation in refused(repo, "in_progress")
    repo.git(operation, "--abort")
    assert isinstance(commit(repo), Committed)


def test_a_bisection_under_way_refuses(repo: Repo) -> None:
    """A commit in the middle of a bisection would be lost with it."""
    repo.git("bisect", "start")
    assert "bisection" in refused(repo, "in_progress")


def test_a_bare_repository_refuses(tmp_path: Path) -> None:
    """A bare repository has no work tree to commit from."""
    bare = Repo.new(tmp_path / "bare.git", "--bare")
    answer = commit_files(bare.top, [bare.write(LEDGER, b"x\n")], message="x")
    assert isinstance(answer, NotCommitted)
    assert answer.reason == "bare"


def test_the_repository_of_another_user_refuses(
    repo: Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Git's refusal of a folder that somebody else owns is passed on, with its remedy."""
    monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")
    answer = commit(repo)
    assert isinstance(answer, NotCommitted)
    assert answer.reason == "not_trusted"
    assert "safe.directory" in answer.detail


def test_no_repository_no_git_and_an_old_git(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of them is an answer, not an exception."""

    def reason() -> str:
        answer = commit_files(tmp_path, [file], message="x")
        assert isinstance(answer, NotCommitted)
        return answer.reason

    file = tmp_path / "x"
    file.write_bytes(b"x")
    assert reason() == "not_a_repository"
    tools = tmp_path / "tools"
    tools.mkdir()
    monkeypatch.setenv("PATH", str(tools))
    assert reason() == "no_git"
    (tools / "git").write_text("#!/bin/sh\necho git version 1.8.3.1\n")
    (tools / "git").chmod(0o755)
    assert reason() == "too_old"


def test_what_cannot_be_committed(repo: Repo, tmp_path: Path) -> None:
    """Links, folders, missing files and files elsewhere are refused by name."""
    (repo.top / "link").symlink_to(LEDGER)
    assert "link" in refused(repo, "not_a_file", "link")
    refused(repo, "not_a_file", "registrations")
    refused(repo, "not_a_file", "registrations/none")
    (tmp_path / "elsewhere").write_bytes(b"x")
    refused(repo, "outside", "../elsewhere")
    refused(repo, "outside", ".git/config")
    (repo.top / "code.py").unlink()
    repo.write("code.py/x", b"a folder where HEAD has a file")
    assert "take away code.py" in refused(repo, "failed", "code.py/x")


def test_a_file_that_nobody_may_read_is_an_answer(repo: Repo) -> None:
    """An unreadable file gives the system's words."""
    (repo.top / LEDGER).chmod(0)
    if os.access(repo.top / LEDGER, os.R_OK):
        pytest.skip("this user may read everything")
    assert "denied" in refused(repo, "failed")
