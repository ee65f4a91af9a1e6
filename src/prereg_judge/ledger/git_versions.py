"""A file's history as values: commits, versions, who knows them.

How it is read from git is in `git_history`, what it proves in `git_examine`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

NoHistoryReason = Literal[
    "no_git",
    "too_old",
    "not_a_repository",
    "not_trusted",
    "bare",
    "outside",
    "timeout",
    "failed",
]
REMOTE = "refs/remotes/"


@dataclass(frozen=True)
class NoHistory:
    """Why a history could not be read, with git's own words or the remedy in `detail`."""

    reason: NoHistoryReason
    detail: str


@dataclass(frozen=True)
class Knower:
    """Who knows a commit: a ref, or with `ref` None a reflog alone; of `clone` (None: here).

    `HEAD` is named only where it is detached; what nothing but another work tree's HEAD reaches
    counts as known to the reflog.
    """

    ref: str | None
    clone: str | None = None

    @property
    def told(self) -> str:
        """In words: `branch main`, `tag v1`, `the reflog`, each with the clone it is in."""
        kinds = {"refs/heads/": "branch ", "refs/tags/": "tag ", REMOTE: "remote-tracking ref "}
        words = self.ref or "the reflog"
        for start, kind in kinds.items():
            if words.startswith(start):
                words = kind + words.removeprefix(start)
        return words if self.clone is None else f"{words} of clone {self.clone}"


@dataclass(frozen=True)
class LedgerCommit:
    """One commit, whether it holds the file or not.

    Attributes
    ----------
    id
        Its full id.
    parents
        Ids of its parents; those beyond a shallow history's end are left out.
    time
        What it says was its committer's time, seconds since 1970 UTC; whoever commits sets it.
    blob
        Id of the file's content, or None where the commit does not have the file.
    """

    id: str
    parents: tuple[str, ...]
    time: int
    blob: str | None


@dataclass(frozen=True)
class Version:
    """One content of the file.

    It is the first `length` bytes of `base`, which versions that extend each other share: a
    ledger's thousand versions take the memory of the longest.
    """

    blob: str
    base: bytes = field(repr=False)
    length: int

    @property
    def data(self) -> bytes:
        """The content, as a copy."""
        return self.base[: self.length]

    def extended_by(self, other: Version) -> bool:
        """Whether the content is a prefix of the other's (or the same)."""
        if self.length > other.length:
            return False
        return self.base is other.base or other.base.startswith(self.data)


@dataclass(frozen=True)
class Source:
    """One repository that was read: `clone` None is the one here.

    `shallow`: older commits are missing there and so are their versions. `problem`: why it
    could not be read at all.
    """

    clone: str | None
    shallow: bool = False
    problem: NoHistory | None = None


@dataclass(frozen=True)
class LedgerHistory:
    """Every version of the file in every commit that was found.

    Attributes
    ----------
    path
        The file's path in the repository.
    head
        Id of the commit that HEAD is at here; None where there is none yet.
    commits
        All commits by id, parents before children.
    versions
        The contents by blob id. One that a commit names but that cannot be read, or whose
        bytes do not have that id, is in `unreadable`.
    tips
        Which commit each ref is at.
    reflog_only
        Commits that no ref of a source reaches, with who knows them.
    sources
        What was read, and what could not be.
    """

    path: str
    head: str | None
    commits: Mapping[str, LedgerCommit] = field(repr=False)
    versions: Mapping[str, Version] = field(repr=False)
    tips: tuple[tuple[Knower, str], ...] = ()
    reflog_only: Mapping[str, tuple[Knower, ...]] = field(default_factory=dict, repr=False)
    unreadable: tuple[str, ...] = ()
    sources: tuple[Source, ...] = (Source(None),)

    @property
    def shallow(self) -> bool:
        """Whether the history here is shallow: older versions are unknown."""
        return any(source.shallow for source in self.sources if source.clone is None)

    @cached_property
    def of_head(self) -> frozenset[str]:
        """Ids of HEAD and all its ancestors."""
        return self.ancestry([] if self.head is None else [self.head])

    @cached_property
    def _reached(self) -> dict[str, int]:
        """For each commit a number whose bit n says whether tip n reaches it."""
        reached = dict.fromkeys(self.commits, 0)
        for bit, (_, commit) in enumerate(self.tips):
            reached[commit] |= 1 << bit
        for child in reversed(tuple(self.commits.values())):
            for parent in child.parents:
                reached[parent] |= reached[child.id]
        return reached

    def ancestry(self, starts: Sequence[str]) -> frozenset[str]:
        """Ids of the given commits and of all their ancestors."""
        found, waiting = set[str](), list(starts)
        while waiting:
            commit = waiting.pop()
            if commit not in found:
                found.add(commit)
                waiting.extend(self.commits[commit].parents)
        return frozenset(found)

    def knowers(self, *commits: str) -> tuple[Knower, ...]:
        """Who knows any of the commits: refs first, then reflogs."""
        mask = 0
        for commit in commits:
            mask |= self._reached[commit]
        refs = [knower for bit, (knower, _) in enumerate(self.tips) if mask >> bit & 1]
        logs = [knower for commit in commits for knower in self.reflog_only.get(commit, ())]
        return tuple(dict.fromkeys([*refs, *logs]))

    def holders(self, blob: str, *, first: bool = False) -> tuple[LedgerCommit, ...]:
        """The commits that hold a version; with `first`, those of which no parent does."""
        return tuple(
            c
            for c in self.commits.values()
            if c.blob == blob
            and not (first and any(self.commits[p].blob == blob for p in c.parents))
        )
