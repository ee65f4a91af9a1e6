"""Commit on lock: one commit with HEAD's tree and a few files, whatever the user has staged.

Puts the commit together from plumbing, beside the user's index. Knows neither ledgers nor
locks: the caller names the files, and keeps others from writing them meanwhile.
"""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from prereg_judge.ledger.git import Answer, Git, Repository, Unusable, open_repository
from prereg_judge.ledger.git_index import (
    PLAIN_INDEX,
    Entry,
    NotCommitted,
    RefusedError,
    done,
    failed,
    joined,
    prepare_index,
    put_entries,
)
from prereg_judge.wording import listed

# What lies in a repository's folder while an operation waits for its end.
_UNDER_WAY = {
    "MERGE_HEAD": "a merge",
    "CHERRY_PICK_HEAD": "a cherry-pick",
    "REVERT_HEAD": "a revert",
    "sequencer": "a cherry-pick or revert of several commits",
    "rebase-merge": "a rebase",
    "rebase-apply": "a rebase or `git am`",
    "BISECT_LOG": "a bisection",
}
# What git says where it knows no name or address to commit as.
_NOBODY = ("identity unknown", "ident name", "auto-detect")


@dataclass(frozen=True)
class Committed:
    """The commit that was made: its id, the branch it is on (None: detached HEAD), its files.

    `files` are paths from the top of the work tree; some may be as the commit before had them.
    """

    commit: str
    branch: str | None
    files: tuple[str, ...]


class _MovedError(Exception):
    """HEAD was no longer the commit that the new one stands on."""


def commit_files(root: Path, files: Sequence[Path], *, message: str) -> Committed | NotCommitted:
    """Commit exactly these files, as they are on disk, on top of HEAD.

    The commit holds HEAD's tree plus `files`, byte for byte: no filter, no change of line ends
    (an attribute that asks for one can make `git status` show such a file as changed). What the
    user has staged or changed elsewhere stays as it is; these files are clean afterwards, but
    where another version of one is staged, that stays staged. An ignored file is never forced
    in. The commit's time is this machine's clock, also where the environment names another.

    Hooks do not run: a hook can change what is committed, refuse it for reasons that have
    nothing to do with a registration, or take the staged files along. `commit.gpgSign` is
    obeyed. HEAD is moved by compare-and-swap; where it moved meanwhile, the work is done once
    more on the new HEAD and then given up.

    Parameters
    ----------
    root
        A folder in the work tree, such as the workspace; it need not be the top.
    files
        At least one regular file in the same work tree. The caller sees to it that nobody
        writes them during the call.
    message
        The commit's message, UTF-8; the first line is also the reflog's.

    Returns
    -------
    What was committed, or why nothing was; a problem with git is never an exception.
    """
    repository = open_repository(root)
    if isinstance(repository, Unusable):
        return NotCommitted(repository.reason, repository.detail)
    if repository.top is None:
        return NotCommitted("bare", f"{repository.folder} is a bare repository: no work tree")
    try:
        _refuse_under_way(repository)
        paths = [_path_inside(repository.top, file) for file in files]
        _refuse_ignored(repository.git, paths)
        with _index_lock(repository.folder) as lock:
            try:
                return _commit(repository, paths, message=message, lock=lock)
            except _MovedError:
                return _commit(repository, paths, message=message, lock=lock)
    except RefusedError as exc:
        return exc.answer
    except _MovedError as exc:
        return NotCommitted("moved", f"HEAD moved twice while the commit was made: {exc}")
    except OSError as exc:
        return NotCommitted("failed", str(exc))


def _refuse_under_way(repository: Repository) -> None:
    for name, what in _UNDER_WAY.items():
        if (repository.folder / name).exists():
            detail = f"{what} is under way; finish or abort it, then commit"
            raise RefusedError("in_progress", detail)


def _path_inside(top: Path, file: Path) -> str:
    """The file's path from the top of the work tree; refuses what the tree cannot hold."""
    try:
        regular = stat.S_ISREG(file.lstat().st_mode)
    except OSError as exc:
        raise RefusedError("not_a_file", f"{file}: {exc.strerror}") from exc
    if not regular:
        raise RefusedError("not_a_file", f"{file} is not a regular file")
    real = file.parent.resolve() / file.name
    if not real.is_relative_to(top):
        raise RefusedError("outside", f"{file} is not inside the work tree {top}")
    path = real.relative_to(top)
    if path.parts[0] == ".git":
        raise RefusedError("outside", f"{file} is inside the repository's own folder")
    folders = [folder for folder in real.parents if folder != top and folder.is_relative_to(top)]
    for folder in folders:
        if (folder / ".git").exists():
            raise RefusedError("outside", f"{file} belongs to another repository, {folder}")
    return str(path)


def _refuse_ignored(git: Git, paths: Sequence[str]) -> None:
    # `check-ignore` knows no --literal-pathspecs; no pattern begins with a dot and a slash.
    asked = joined([f"./{path}" for path in paths])
    answer = git.run("check-ignore", "-z", "--stdin", stdin=asked)
    if answer.code == 0:
        names = ", ".join(os.fsdecode(name[2:]) for name in answer.out.split(b"\0") if name)
        detail = f"ignored by a .gitignore or exclude file: {names}; take the rule out"
        raise RefusedError("ignored", detail)
    if answer.code != 1:
        raise failed(answer)


@contextmanager
def _index_lock(folder: Path) -> Iterator[Path]:
    """Hold the index as git does, so that no other git changes it between commit and index."""
    lock = folder / "index.lock"
    try:
        fd = os.open(lock, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    except FileExistsError:
        detail = f"another git process holds the index, or one was killed: {lock} exists"
        raise RefusedError("locked", detail) from None
    ours = os.fstat(fd).st_ino
    os.close(fd)
    try:
        yield lock
    finally:
        # Once it has become the index, a lock that is there is somebody else's.
        with suppress(FileNotFoundError):
            if lock.stat().st_ino == ours:
                lock.unlink()


def _commit(repository: Repository, paths: Sequence[str], *, message: str, lock: Path) -> Committed:
    """Make the commit on HEAD as it is now, move HEAD, then put the prepared index in place."""
    git = repository.git
    old = _id_or_none(git.run("rev-parse", "-q", "--verify", "HEAD^{commit}"))
    entries = [_stored(repository, path) for path in paths]
    tree = _tree(git, old, entries)
    if old is not None:
        _refuse_other_changes(git, old, tree, paths)
    prepare_index(repository, old, entries, lock=lock)
    new = _commit_object(git, tree, old, message=message)
    subject = message.partition("\n")[0]
    why = f"commit: {subject}" if old else f"commit (initial): {subject}"
    moved = git.run("update-ref", "-m", why, "HEAD", new, old or "0" * len(new), writes=True)
    if not moved.ok:
        if "expected" in moved.err or "already exists" in moved.err:
            raise _MovedError(moved.err)
        if "Unable to create" in moved.err:
            raise RefusedError("locked", moved.err)
        raise failed(moved)
    if lock.stat().st_size:
        lock.replace(repository.folder / "index")
    branch = _id_or_none(git.run("symbolic-ref", "-q", "HEAD"))
    name = branch.removeprefix("refs/heads/") if branch else None
    return Committed(new, name, tuple(paths))


def _refuse_other_changes(git: Git, old: str, tree: str, paths: Sequence[str]) -> None:
    """Refuse a tree that is HEAD's, or in which a file of ours takes the place of another."""
    answer = git.run("diff-tree", "-r", "-z", "--name-only", "--no-renames", old, tree)
    if not answer.ok:
        raise failed(answer)
    changed = {os.fsdecode(name) for name in answer.out.split(b"\0") if name}
    if not changed:
        raise RefusedError("unchanged", f"commit {old[:12]} holds these files as they are")
    others = sorted(changed - set(paths))
    if others:
        detail = f"the commit would take away {listed(others, most=3)}, where a file of it lies"
        raise RefusedError("failed", detail)


def _stored(repository: Repository, path: str) -> Entry:
    """Write the file's bytes as a blob, and say under which mode a tree shall hold it."""
    assert repository.top is not None
    git, file = repository.git, repository.top / path
    with file.open("rb") as stream:
        executable = bool(os.fstat(stream.fileno()).st_mode & stat.S_IXUSR)
        data = stream.read()
    answer = git.run("hash-object", "-w", "--no-filters", "--stdin", stdin=data, writes=True)
    if git.run("config", "--type=bool", "core.fileMode").text == "false":
        there = git.run(*PLAIN_INDEX, "ls-files", "-s", "-z", "--", path)
        executable = there.out.startswith(b"100755")
    return Entry(path, "100755" if executable else "100644", done(answer))


def _tree(git: Git, old: str | None, entries: Sequence[Entry]) -> str:
    """The tree of commit `old` (None: an empty one) with the entries put in."""
    with tempfile.TemporaryDirectory(prefix="prereg-git-") as folder:
        index = Path(folder) / "index"
        start = ("read-tree", old) if old is not None else ("read-tree", "--empty")
        done(git.run(*PLAIN_INDEX, *start, index=index, writes=True))
        put_entries(git, entries, index=index)
        return done(git.run(*PLAIN_INDEX, "write-tree", index=index, writes=True))


def _commit_object(git: Git, tree: str, old: str | None, *, message: str) -> str:
    """Write the commit, signed where the user's settings say so; HEAD does not move yet."""
    wish = git.run("config", "--type=bool", "commit.gpgSign")
    signed = wish.text == "true"
    parents = ("-p", old) if old is not None else ()
    answer = git.run(
        *("-c", "i18n.commitEncoding=UTF-8", "commit-tree", tree, *parents),
        *(("-S",) if signed else ()),
        *("-F", "-"),
        stdin=message.encode("utf-8", "surrogateescape").rstrip(b"\n") + b"\n",
        writes=True,
        interactive=signed,
    )
    if answer.ok:
        return answer.text
    if any(words in answer.err for words in _NOBODY):
        raise RefusedError("no_identity", answer.err)
    if signed:
        raise RefusedError("not_signed", answer.err)
    raise failed(answer)


def _id_or_none(answer: Answer) -> str | None:
    if answer.ok:
        return answer.text
    if answer.code == 1:
        return None
    raise failed(answer)
