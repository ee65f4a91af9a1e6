"""The user's index beside a commit that was made past it: what of it is brought up to date.

Also what both halves of a commit share: entries, refusals, how git's answers are taken.
"""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from prereg_judge.ledger.git import Answer, Git, Repository

NotCommittedReason = Literal[
    "no_git",
    "too_old",
    "not_a_repository",
    "not_trusted",
    "bare",
    "outside",
    "not_a_file",
    "ignored",
    "unchanged",
    "in_progress",
    "locked",
    "no_identity",
    "not_signed",
    "moved",
    "timeout",
    "failed",
]


# Names are names, not patterns; and a throw-away index must leave no caches behind.
PLAIN_INDEX = (
    "--literal-pathspecs",
    *("-c", "core.splitIndex=false"),
    *("-c", "core.untrackedCache=false"),
    *("-c", "index.sparse=false"),
)


@dataclass(frozen=True)
class NotCommitted:
    """Why there is no new commit; nothing was changed. `unchanged`: HEAD holds these bytes."""

    reason: NotCommittedReason
    detail: str


@dataclass(frozen=True)
class Entry:
    """One file as a tree or an index holds it."""

    path: str
    mode: str
    blob: str

    @property
    def line(self) -> bytes:
        """As `update-index -z --index-info` reads it."""
        return f"{self.mode} {self.blob}\t".encode() + os.fsencode(self.path) + b"\0"


class RefusedError(Exception):
    """Ends the work part way; carries the answer."""

    def __init__(self, reason: NotCommittedReason, detail: str) -> None:
        super().__init__(detail)
        self.answer = NotCommitted(reason, detail)


def prepare_index(
    repository: Repository, old: str | None, entries: Sequence[Entry], *, lock: Path
) -> None:
    """Write into the held lock the index as it shall be after the commit.

    Only entries of which nothing is staged change. The lock stays empty where none does.
    """
    git = repository.git
    with tempfile.TemporaryDirectory(prefix="prereg-git-") as folder:
        index = Path(folder) / "index"
        there = repository.folder / "index"
        if there.exists():
            shutil.copy(there, index)  # with its mode
        base = old or done(git.run("hash-object", "-t", "tree", "--stdin"))
        names = [entry.path for entry in entries]
        command = (
            "diff-index",
            "--cached",
            "--ita-invisible-in-index",
            "--name-only",
            "-z",
            base,
            "--",
        )
        staged = git.run(*PLAIN_INDEX, *command, *names, index=index)
        if not staged.ok:
            raise failed(staged)
        taken = {os.fsdecode(name) for name in staged.out.split(b"\0")}
        free = [entry for entry in entries if entry.path not in taken]
        lock.write_bytes(b"")
        if not free:
            return
        flags = _flags(git, free, index=index)
        _refresh(git, free, index=index)
        for option, paths in flags.items():
            mark = ("update-index", "-z", option, "--stdin")
            done(git.run(*PLAIN_INDEX, *mark, stdin=joined(paths), index=index, writes=True))
        lock.write_bytes(index.read_bytes())
        if there.exists():
            lock.chmod(stat.S_IMODE(there.stat().st_mode))


def put_entries(git: Git, entries: Sequence[Entry], *, index: Path) -> None:
    """Put entries into an index, whatever it held under their names."""
    lines = b"".join(entry.line for entry in entries)
    command = (*PLAIN_INDEX, "update-index", "-z", "--index-info")
    done(git.run(*command, stdin=lines, index=index, writes=True))


def _refresh(git: Git, entries: Sequence[Entry], *, index: Path) -> None:
    """Put the entries into `index`, with what the disk says of the files where that is right.

    `update-index` reads the file itself and so knows its size and time: `git status` need not
    read it again. But it applies filters, and the file may have changed: what comes out
    otherwise is replaced.
    """
    paths = joined([entry.path for entry in entries])
    git.run(
        *(*PLAIN_INDEX, "update-index", "-z", "--add", "--stdin"),
        stdin=paths,
        index=index,
        writes=True,
    )
    names = [entry.path for entry in entries]
    answer = git.run(*PLAIN_INDEX, "ls-files", "-s", "-z", "--", *names, index=index)
    there = set(answer.out.split(b"\0"))
    wrong = [e for e in entries if e.line[:-1].replace(b"\t", b" 0\t", 1) not in there]
    if wrong:
        put_entries(git, wrong, index=index)


def _flags(git: Git, entries: Sequence[Entry], *, index: Path) -> dict[str, list[str]]:
    """The options that give the entries back the marks which the user had set on them."""
    names = [entry.path for entry in entries]
    answer = git.run(*PLAIN_INDEX, "ls-files", "-v", "-z", "--", *names, index=index)
    flags: dict[str, list[str]] = {}
    for line in answer.out.split(b"\0"):
        tag, path = line[:1].decode(), os.fsdecode(line[2:])
        if tag.upper() == "S":
            flags.setdefault("--skip-worktree", []).append(path)
        if tag.islower():
            flags.setdefault("--assume-unchanged", []).append(path)
    return flags


def joined(paths: Sequence[str]) -> bytes:
    """Paths as git reads them with `-z`."""
    return b"".join(os.fsencode(path) + b"\0" for path in paths)


def done(answer: Answer) -> str:
    """What git printed.

    Raises
    ------
    RefusedError
        If it failed.
    """
    if answer.ok:
        return answer.text
    raise failed(answer)


def failed(answer: Answer) -> RefusedError:
    """Why git failed, as the answer that it comes to."""
    if answer.timed_out:
        return RefusedError("timeout", answer.err)
    if answer.code == 127:
        return RefusedError("no_git", answer.err)
    return RefusedError("failed", answer.err or f"git ended with code {answer.code}")
