"""Real git repositories for tests, the same on every machine: no settings but their own."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from prereg_judge.ledger.git_commit import Committed, commit_files
from prereg_judge.ledger.git_examine import HistoryFault, examine
from prereg_judge.ledger.git_history import history_of
from prereg_judge.ledger.git_index import NotCommitted, NotCommittedReason
from prereg_judge.ledger.git_versions import LedgerHistory

LEDGER = "registrations/ledger.jsonl"
LOCK = "registrations/a.lock.json"


def isolate(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Keep this machine's git settings and variables away, and give a fixed identity."""
    for name in [name for name in os.environ if name.startswith("GIT_")]:
        monkeypatch.delenv(name)
    for name in ("GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM"):
        monkeypatch.setenv(name, os.devnull)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path))
    for role in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{role}_NAME", "A. Person")
        monkeypatch.setenv(f"GIT_{role}_EMAIL", "person@example.org")


def lines(*words: str) -> bytes:
    """A file with one line a word."""
    return b"".join(word.encode() + b"\n" for word in words)


@dataclass(frozen=True)
class Repo:
    """A repository with a work tree at `top`."""

    top: Path

    @classmethod
    def new(cls, top: Path, *options: str) -> Repo:
        """A repository without commits, on branch main."""
        top.mkdir(parents=True, exist_ok=True)
        repo = cls(top)
        repo.git("init", "--quiet", *options)
        repo.git("symbolic-ref", "HEAD", "refs/heads/main")
        return repo

    @classmethod
    def to_lock(cls, top: Path) -> Repo:
        """A repository with one commit of other files, and a ledger and a lock not yet in it."""
        repo = cls.new(top)
        repo.commit("start", {"code.py": b"1\n", "notes.txt": b"1\n"})
        repo.write(LEDGER, lines("one"))
        repo.write(LOCK, b"{}\n")
        return repo

    @classmethod
    def of_three(cls, top: Path) -> Repo:
        """A repository in which three commits append a line each, with other commits between."""
        repo = cls.new(top)
        repo.commit("start", {"code.py": b"1\n"})
        repo.ledger("one")
        repo.ledger("one", "two")
        repo.commit("code", {"code.py": b"2\n"})
        repo.ledger("one", "two", "three")
        return repo

    @classmethod
    def imported(cls, top: Path, versions: list[bytes]) -> Repo:
        """A repository with one commit a ledger, made with one call; its work tree is empty."""
        repo = cls.new(top)
        form = (
            "commit refs/heads/main\ncommitter A <a@b> {} +0000\ndata 0\nM 644 inline {}\ndata {}\n"
        )
        stream = b"".join(
            form.format(number, LEDGER, len(data)).encode() + data + b"\n"
            for number, data in enumerate(versions)
        )
        repo.git("fast-import", "--quiet", stdin=stream)
        return repo

    def git(self, *args: str, stdin: bytes = b"", fails: bool = False) -> str:
        """What a git command prints, without white space around it."""
        done = subprocess.run(
            ["git", "-C", str(self.top), *args], input=stdin, capture_output=True, check=False
        )
        assert fails == (done.returncode != 0), (args, done.stderr)
        return os.fsdecode(done.stdout).strip()

    def write(self, name: str, data: bytes) -> Path:
        """Write a file."""
        path = self.top / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        return path

    def commit(self, message: str, files: dict[str, bytes], *, options: Sequence[str] = ()) -> str:
        """Write and stage files, commit what is staged, and give the commit's id."""
        for name, data in files.items():
            self.write(name, data)
            self.git("add", "--", name)
        self.git("commit", "--quiet", "--allow-empty", "-m", message, *options)
        return self.head

    def ledger(self, *words: str, options: Sequence[str] = ()) -> str:
        """Commit a ledger with these lines."""
        return self.commit(f"to {words[-1]}", {LEDGER: lines(*words)}, options=options)

    @property
    def head(self) -> str:
        """Id of the commit that HEAD is at."""
        return self.git("rev-parse", "HEAD")

    def status(self) -> list[str]:
        """What `git status` says of each file, in the short form, sorted."""
        told = self.git("status", "--porcelain", "-z", "--untracked-files=all", "--no-renames")
        return sorted(line for line in told.split("\0") if line)

    def content(self, name: str, *, commit: str = "HEAD") -> bytes:
        """A file's bytes in a commit."""
        command = ["git", "-C", str(self.top), "cat-file", "blob", f"{commit}:{name}"]
        return subprocess.run(command, capture_output=True, check=True).stdout

    def clone(self, top: Path, *options: str) -> Repo:
        """A clone of it."""
        source = self.top.as_uri()
        subprocess.run(["git", "clone", "--quiet", *options, source, str(top)], check=True)
        return Repo(top)


def history(repo: Repo, *clones: str | Path) -> LedgerHistory:
    """The history of a repository's ledger."""
    found = history_of(repo.top, repo.top / LEDGER, clones=clones)
    assert isinstance(found, LedgerHistory), found
    return found


def faults(repo: Repo, *clones: str | Path) -> tuple[HistoryFault, ...]:
    """What the history says against the ledger as it is on the disk."""
    return examine(history(repo, *clones), (repo.top / LEDGER).read_bytes())


def kinds(found: tuple[HistoryFault, ...]) -> list[str]:
    """The kinds of faults, in the order in which they are told."""
    return [fault.kind for fault in found]


def commit(repo: Repo, *names: str, message: str = "Lock a") -> Committed | NotCommitted:
    """Commit files of a repository, named from its top."""
    files = [repo.top / name for name in names or (LEDGER, LOCK)]
    return commit_files(repo.top, files, message=message)


def refused(repo: Repo, reason: NotCommittedReason, *names: str) -> str:
    """Commit, be refused for this reason with everything as before; the detail."""
    before = repo.git("for-each-ref"), repo.status()
    answer = commit(repo, *names)
    assert isinstance(answer, NotCommitted)
    assert answer.reason == reason, answer
    assert (repo.git("for-each-ref"), repo.status()) == before
    return answer.detail
