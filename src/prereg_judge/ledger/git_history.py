"""Reading history: every version of one file that any commit knows, here and in clones.

Commits come from all refs but the stash, and from the reflogs. Everything is read with a fixed
number of git processes, however long the history is. Every commit, folder and version is held
against its id, which git itself does not do when it reads. Renames are not followed: a
workspace folder that was moved inside its repository begins anew at its new path. Knows nothing
of what the file holds; what a history proves is in `git_examine`.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from graphlib import TopologicalSorter
from pathlib import Path

from prereg_judge.ledger.git import Answer, Git, Unusable, open_repository
from prereg_judge.ledger.git_versions import (
    Knower,
    LedgerCommit,
    LedgerHistory,
    NoHistory,
    Source,
    Version,
)

FETCH_TIMEOUT_S = 600.0
_HEAD = "HEAD"
_LEFT_OUT = ("refs/stash", "refs/replace/")
_TEXT = ("utf-8", "surrogateescape")
_Graph = dict[str, tuple[int, tuple[str, ...]]]  # of each commit: committer time, parents


def history_of(
    root: Path, file: Path, *, clones: Sequence[str | Path] = ()
) -> LedgerHistory | NoHistory:
    """Find every version of a file in the repository here and in clones of it.

    Nothing is written into the repository here (a partial clone may fetch what it had left
    out, as for any reading). A clone in a folder is read where it is, with its reflogs; any
    other is fetched into a temporary repository. Where there is no repository here but clones
    are given, they are looked at under the file's path in the workspace.

    Parameters
    ----------
    root
        The workspace.
    file
        The file inside it; it need not exist any more.
    clones
        Folders, or whatever `git fetch` takes: URLs, bundle files.

    Returns
    -------
    The history, without any commits where there are none. A clone that cannot be read is
    among its `sources`, with the reason. `NoHistory` if nothing at all could be read.
    """
    here, path = _place(root, file)
    if isinstance(here, NoHistory) and not clones:
        return here
    reader = _Reader(path)
    reader.read(here, clone=None)
    for clone in clones:
        with _clone(clone) as git:
            reader.read(git, clone=str(clone))
    problems = [source.problem for source in reader.sources if source.problem is not None]
    return problems[0] if len(problems) == len(reader.sources) else reader.history()


def _place(root: Path, file: Path) -> tuple[Git | NoHistory, str]:
    """The repository that holds the file, and the file's path in it.

    The path is that in the workspace where there is no repository.
    """
    inside = str(file.relative_to(root)) if file.is_relative_to(root) else file.name
    # As the workspace's repository knows it, also where a link, or a repository of its own, was put
    # in the place of the ledger's folder.
    repository = open_repository(root)
    if isinstance(repository, Unusable):
        return NoHistory(repository.reason, repository.detail), inside
    if repository.top is None:
        what = f"{repository.folder} is a bare repository: no work tree"
        return NoHistory("bare", what), inside
    real = root.resolve() / inside
    if not real.is_relative_to(repository.top):
        what = f"{file} is not inside the work tree {repository.top}"
        return NoHistory("outside", what), inside
    return repository.git, str(real.relative_to(repository.top))


@contextmanager
def _clone(clone: str | Path) -> Iterator[Git | NoHistory]:
    """A repository that holds what the clone knows; a fetched one is gone afterwards."""
    if Path(clone).is_dir():
        repository = open_repository(Path(clone))
        if isinstance(repository, Unusable):
            yield NoHistory(repository.reason, repository.detail)
        else:
            yield repository.git
        return
    with tempfile.TemporaryDirectory(prefix="prereg-git-") as folder:
        git = Git(Path(folder))
        made = git.run("init", "--quiet", "--bare", "--template=", writes=True)
        fetch = ("fetch", "--quiet", "--no-tags", "--update-shallow", "--no-auto-gc")
        source = Path(clone).resolve() if Path(clone).exists() else clone  # git is elsewhere
        what = ("--", str(source), "+refs/*:refs/*")
        done = (
            git.run(*fetch, *what, writes=True, fetches=True, timeout_s=FETCH_TIMEOUT_S)
            if made.ok
            else made
        )
        yield git if done.ok else _no_history(done)


def _no_history(answer: Answer) -> NoHistory:
    if answer.timed_out:
        return NoHistory("timeout", answer.err)
    return NoHistory("failed", answer.err or f"git ended with code {answer.code}")


class _FailedError(Exception):
    """Git gave no usable answer; carries the reason."""

    def __init__(self, answer: Answer) -> None:
        super().__init__(answer.err)
        self.reason = _no_history(answer)


class _Reader:
    """Gathers commits, versions and refs, one repository after the other."""

    def __init__(self, path: str) -> None:
        self.sources: list[Source] = []
        self._path = path
        self._head: str | None = None
        self._commits: dict[str, LedgerCommit] = {}
        self._tips: list[tuple[Knower, str]] = []
        self._reflog_only: dict[str, tuple[Knower, ...]] = {}
        self._bases: list[bytes] = []
        self._spans: dict[str, tuple[int, int]] = {}  # of each version: its base and length
        self._unreadable: set[str] = set()

    def read(self, git: Git | NoHistory, *, clone: str | None) -> None:
        """Read one repository; if that fails, nothing of it is kept but the reason."""
        if isinstance(git, NoHistory):
            self.sources.append(Source(clone, problem=git))
            return
        try:
            shallow = _done(git.run("rev-parse", "--is-shallow-repository")) == b"true\n"
            tips = _tips(git)
            head = tips.pop(_HEAD, None)
            if head is not None and not git.run("symbolic-ref", "-q", _HEAD).ok:
                tips[_HEAD] = head  # detached: no branch stands for it
            graph = _graph(git)
            for stashed in _stashed(git, graph) - _reachable(graph, tips.values()):
                del graph[stashed]
            # A ref that moved after it was read is as it was a moment ago, or is left out.
            tips = {ref: commit for ref, commit in tips.items() if commit in graph}
            unknown = [commit for commit in graph if commit not in self._commits]
            blobs = dict(zip(unknown, _blobs(git, unknown, self._path), strict=True))
            for ident, data in _objects(git, self._new(blobs.values())):
                self._keep(ident, data)
        except _FailedError as exc:
            self.sources.append(Source(clone, problem=exc.reason))
            return
        self.sources.append(Source(clone, shallow))
        for commit, (time, listed) in graph.items():
            known = self._commits.get(commit)
            blob = known.blob if known is not None else blobs[commit]
            parents = tuple(parent for parent in listed if parent in graph)
            # A shallow history does not know all parents of its oldest commits.
            parents = max(parents, known.parents if known is not None else (), key=len)
            self._commits[commit] = LedgerCommit(commit, parents, time, blob)
        if clone is None:
            self._head = head if head in graph else None
        self._tips += [(Knower(ref, clone), commit) for ref, commit in tips.items()]
        for commit in graph.keys() - _reachable(graph, tips.values()):
            self._reflog_only[commit] = (
                *self._reflog_only.get(commit, ()),
                Knower(None, clone),
            )

    def history(self) -> LedgerHistory:
        """What was gathered."""
        graph = {commit.id: commit.parents for commit in self._commits.values()}
        order = TopologicalSorter(graph).static_order()
        # A repository that could not be read to its end may have left versions of no commit.
        held = {commit.blob for commit in self._commits.values()}
        spans = [item for item in self._spans.items() if item[0] in held]
        return LedgerHistory(
            path=self._path,
            head=self._head,
            commits={commit: self._commits[commit] for commit in order},
            versions={b: Version(b, self._bases[base], length) for b, (base, length) in spans},
            tips=tuple(self._tips),
            reflog_only=self._reflog_only,
            unreadable=tuple(sorted(self._unreadable & held)),
            sources=tuple(self.sources),
        )

    def _new(self, blobs: Iterable[str | None]) -> list[str]:
        found = dict.fromkeys(b for b in blobs if b is not None)
        return [b for b in found if b not in self._spans and b not in self._unreadable]

    def _keep(self, blob: str, data: bytes | None) -> None:
        """Keep a version, as part of one that it extends or that extends it, if there is one."""
        if data is None or not _has_id(data, blob, kind="blob"):
            self._unreadable.add(blob)
            return
        for number, base in enumerate(self._bases):
            if base.startswith(data):
                break
            if data.startswith(base):
                self._bases[number] = data
                break
        else:
            number = len(self._bases)
            self._bases.append(data)
        self._spans[blob] = (number, len(data))


def _tips(git: Git) -> dict[str, str]:
    """The commit that HEAD and every ref is at; refs to anything else are left out."""
    listed = _done(git.run("for-each-ref", "--format=%(symref) %(refname)")).decode(*_TEXT)
    pairs = [line.split(" ") for line in listed.splitlines()]
    names = [name for symbolic, name in pairs if not symbolic and not name.startswith(_LEFT_OUT)]
    names.insert(0, _HEAD)
    asked = "".join(f"{name}^{{commit}}\n" for name in names).encode(*_TEXT)
    answer = _done(git.run("cat-file", "--batch-check=%(objectname)", stdin=asked))
    ids = answer.decode(*_TEXT).splitlines()
    return {name: found for name, found in zip(names, ids, strict=True) if " " not in found}


def _graph(git: Git) -> _Graph:
    """Every commit that a ref, HEAD or a reflog of any work tree reaches, parents first."""
    out = [f"--exclude={name}{'*' if name.endswith('/') else ''}" for name in _LEFT_OUT]
    answer = git.run(
        *("rev-list", "--topo-order", "--reverse", "--parents", "--timestamp"),
        *(*out, "--all", "--reflog"),
    )
    graph: _Graph = {}
    for line in _done(answer).decode().splitlines():
        time, commit, *parents = line.split(" ")
        graph[commit] = (int(time), tuple(parents))
    return graph


def _stashed(git: Git, graph: _Graph) -> set[str]:
    """The commits of which the stash consists: of the work tree, the index, untracked files."""
    if not git.run("rev-parse", "-q", "--verify", "refs/stash").ok:
        return set()
    stashes = _done(git.run("rev-list", "--walk-reflogs", "refs/stash", "--")).decode().split()
    found = {commit for commit in stashes if commit in graph}
    return found | {part for commit in found for part in graph[commit][1][1:] if part in graph}


def _reachable(graph: _Graph, starts: Iterable[str]) -> set[str]:
    found, waiting = set[str](), list(starts)
    while waiting:
        commit = waiting.pop()
        if commit not in found and commit in graph:
            found.add(commit)
            waiting.extend(graph[commit][1])
    return found


def _blobs(git: Git, commits: Sequence[str], path: str) -> list[str | None]:
    """For each commit, the id of the file's content; None where there is no such file.

    Walks down from the commits' own bytes, one level of folders at a time: asked for the path
    at once, git does not tell a file that is not there from one whose content is lost.
    """
    at: list[str | None] = [
        data[5 : data.index(b"\n")].decode() for _, data in _sound(git, commits, kind="commit")
    ]
    names = os.fsencode(path).split(b"/")
    for depth, name in enumerate(names, start=1):
        folder = depth < len(names)
        trees = dict.fromkeys(tree for tree in at if tree is not None)
        sound = _sound(git, list(trees), kind="tree")
        inside = {tree: _entry(tree, data, name, folder=folder) for tree, data in sound}
        at = [None if tree is None else inside[tree] for tree in at]
    return at


def _entry(tree: str, data: bytes, name: bytes, *, folder: bool) -> str | None:
    """The id that a tree's bytes give to a name, if it is a folder or a file as asked."""
    start, size = 0, len(tree) // 2
    while start < len(data):
        end = data.index(b"\0", start)
        mode, _, found = data[start:end].partition(b" ")
        start = end + 1 + size
        if found == name:
            fits = mode == b"40000" if folder else mode not in (b"40000", b"160000")
            return data[end + 1 : start].hex() if fits else None
    return None


def _sound(git: Git, ids: Sequence[str], *, kind: str) -> Iterator[tuple[str, bytes]]:
    """The bytes of each object, of which none may be missing or damaged."""
    for ident, data in _objects(git, ids):
        if data is None or not _has_id(data, ident, kind=kind):
            words = f"the {kind} {ident[:12]} is missing from the repository or damaged"
            raise _FailedError(Answer(1, b"", f"{words}; run `git fsck`"))
        yield ident, data


def _objects(git: Git, ids: Sequence[str]) -> Iterator[tuple[str, bytes | None]]:
    """The bytes of each object, one at a time; None for one that the repository lacks."""
    asked = "".join(f"{ident}\n" for ident in ids).encode()
    with git.reading("cat-file", "--batch", "--buffer", stdin=asked) as stream:
        for ident in ids:
            header = stream.readline().split()
            if len(header) == 2 and header[1] == b"missing":
                yield ident, None
                continue
            size = int(header[2]) if len(header) == 3 else -1
            data = stream.read(size + 1) if size >= 0 else b""
            if len(data) != size + 1:
                words = f"git stopped when it read the object {ident[:12]}; run `git fsck`"
                raise _FailedError(Answer(1, b"", words))
            yield ident, data[:-1]


def _has_id(data: bytes, ident: str, *, kind: str) -> bool:
    """Whether git would give the object this id: git itself does not look when it reads."""
    digest = hashlib.new("sha1" if len(ident) == 40 else "sha256", usedforsecurity=False)
    digest.update(f"{kind} {len(data)}\0".encode())
    digest.update(data)
    return digest.hexdigest() == ident


def _done(answer: Answer) -> bytes:
    if not answer.ok:
        raise _FailedError(answer)
    return answer.out
