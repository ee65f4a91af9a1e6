"""What a history proves about an append-only file: pure functions on a `LedgerHistory`.

The rule: from parent to child the file only grows at its end, and so it does from any version
that anyone knows to the file as it is now. Git orders commits; it does not date them, for whoever
commits sets the time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from prereg_judge.canon import sha256_bytes
from prereg_judge.ledger.git_versions import (
    REMOTE,
    Knower,
    LedgerCommit,
    LedgerHistory,
    Version,
)
from prereg_judge.wording import listed

FaultKind = Literal[
    "not_a_prefix", "deleted", "current_cut", "current_differs", "rewritten", "unreadable"
]
Severity = Literal["fault", "note"]

_BOTH_APPENDED = (
    "a chain cannot hold the lines of both. Keep one branch's ledger and undo the merge, or, once "
    "others have it, merge again so that the file equals one side's; lock and run there again "
    "what counts of the other side, and keep its branch or a tag on it so that its events can "
    "still be read"
)


@dataclass(frozen=True)
class HistoryFault:
    """One thing in a history that speaks against the ledger, or a note on it.

    Attributes
    ----------
    kind
        `not_a_prefix`: a commit does not extend its parent's ledger. `deleted`: a commit does
        not have the file that its parent has. `current_cut`: the file as it is now ends before
        a known version does. `current_differs`: it has other bytes than a known version.
        `rewritten`: a commit that brought ledger lines is not in HEAD's history, although
        HEAD's ledger has these lines. `unreadable`: a version's bytes are missing or damaged.
    severity
        `note` for `rewritten`, which can be innocent; `fault` for all others.
    sentence
        What is wrong: the commit (12 hex digits), who knows it, and from which line on.
    commit
        Full id of the commit at which it shows.
    line
        First line, from 1, in which the bytes differ; None where that has no meaning.
    known_by
        The refs, reflogs and clones that know the commit.
    """

    kind: FaultKind
    severity: Severity
    sentence: str
    commit: str
    line: int | None = None
    known_by: tuple[Knower, ...] = ()


def examine(history: LedgerHistory, current: bytes) -> tuple[HistoryFault, ...]:
    """Everything in a history that contradicts an append-only file which now reads `current`.

    No commits, or none that holds the file: no faults, which proves nothing. A missing file is
    `b""`. Versions that contradict the current file from the same line on are told once, with
    the longest. A branch that only carries the ledger along is not noted as `rewritten`: only
    commits that changed it are, and none that follow HEAD.
    """
    return (
        *_unreadable(history),
        *_edge_faults(history),
        *_current_faults(history, current),
        *_rewritten(history),
    )


def _unreadable(history: LedgerHistory) -> Iterator[HistoryFault]:
    for blob in history.unreadable:
        commit = history.holders(blob)[0].id
        what = f"the ledger of commit {commit[:12]} is missing from the repository or damaged"
        sentence = f"{what} (content {blob[:12]}); run `git fsck`"
        known_by = history.knowers(commit)
        yield HistoryFault("unreadable", "fault", sentence, commit, None, known_by)


def _edge_faults(history: LedgerHistory) -> Iterator[HistoryFault]:
    for child in history.commits.values():
        parents = [history.commits[parent] for parent in child.parents]
        holding = [parent for parent in parents if parent.blob is not None]
        merged = len(holding) > 1 and _diverged(history, holding)
        for parent in holding:
            fault = _edge_fault(history, parent, child, merged=merged)
            if fault is not None:
                yield fault


def _diverged(history: LedgerHistory, parents: list[LedgerCommit]) -> bool:
    versions = [v for p in parents if (v := history.versions.get(p.blob or "")) is not None]
    longest = max(versions, key=lambda v: v.length, default=None)
    return longest is not None and not all(v.extended_by(longest) for v in versions)


def _edge_fault(
    history: LedgerHistory, parent: LedgerCommit, child: LedgerCommit, *, merged: bool
) -> HistoryFault | None:
    known_by = history.knowers(child.id)
    who = f"commit {child.id[:12]} ({_named(known_by)})"
    if child.blob is None:
        sentence = f"{who} deletes the ledger that its parent {parent.id[:12]} has"
        return HistoryFault("deleted", "fault", sentence, child.id, None, known_by)
    before, after = history.versions.get(parent.blob or ""), history.versions.get(child.blob)
    if before is None or after is None or before.extended_by(after):
        return None
    line = _line_at(before.base, _common(before.data, after.data))
    if merged:
        sentence = (
            f"{who} merges branches that both appended to the ledger, and does not extend that "
            f"of its parent {parent.id[:12]} from line {line} on: {_BOTH_APPENDED}"
        )
    elif after.extended_by(before):
        sentence = f"{who} drops what its parent {parent.id[:12]} has from line {line} on"
    else:
        sentence = (
            f"{who} changes the ledger of its parent {parent.id[:12]}: the bytes differ from "
            f"line {line} on"
        )
    return HistoryFault("not_a_prefix", "fault", sentence, child.id, line, known_by)


def _current_faults(history: LedgerHistory, current: bytes) -> Iterator[HistoryFault]:
    shared: dict[bytes, int] = {}
    groups: dict[tuple[bytes, FaultKind, int], list[Version]] = {}
    for version in history.versions.values():
        if version.base not in shared:
            shared[version.base] = _common(version.base, current)
        # A version that ends before the bytes part is a prefix, whatever its base goes on with.
        same = min(shared[version.base], version.length)
        if same == version.length:
            continue
        kind: FaultKind = "current_cut" if same == len(current) else "current_differs"
        key = (version.base, kind, _line_at(current, same))
        groups.setdefault(key, []).append(version)
    for (_, kind, line), versions in groups.items():
        longest = max(versions, key=lambda v: v.length)
        commit = history.holders(longest.blob, first=True)[0].id
        blobs = {version.blob for version in versions}
        known_by = history.knowers(*(c.id for c in history.commits.values() if c.blob in blobs))
        what = "ends before" if kind == "current_cut" else "differs from"
        sentence = (
            f"the ledger as it is now {what} line {line} of the version in commit {commit[:12]}, "
            f"known to {_named(known_by)}"
        )
        yield HistoryFault(kind, "fault", sentence, commit, line, known_by)


def _rewritten(history: LedgerHistory) -> Iterator[HistoryFault]:
    blob = None if history.head is None else history.commits[history.head].blob
    now = None if blob is None else history.versions.get(blob)
    if now is None or history.head is None:
        return
    later = {history.head}
    groups: dict[tuple[Knower, ...], list[LedgerCommit]] = {}
    for commit in history.commits.values():
        if not later.isdisjoint(commit.parents):
            later.add(commit.id)
        elif commit.id not in history.of_head and _brought(history, commit, now):
            groups.setdefault(history.knowers(commit.id), []).append(commit)
    for known_by, commits in groups.items():
        newest, more = commits[-1].id, len(commits) - 1
        beside = f" and {more} before it" if more else ""
        sentence = (
            f"commit {newest[:12]}{beside}, known to {_named(known_by)}, brought ledger lines "
            "that HEAD has too, but is not in HEAD's history: it was squashed, rebased or "
            "amended there, or lives on another branch"
        )
        yield HistoryFault("rewritten", "note", sentence, newest, None, known_by)


def _brought(history: LedgerHistory, commit: LedgerCommit, now: Version) -> bool:
    """Whether a commit changed the ledger, to something that `now` extends."""
    version = history.versions.get(commit.blob or "")
    inherited = any(history.commits[parent].blob == commit.blob for parent in commit.parents)
    return version is not None and not inherited and version.extended_by(now)


def first_commit_with(history: LedgerHistory, line_hash: str) -> LedgerCommit | None:
    """The earliest commit, anywhere, whose ledger has a line; None if there is none.

    Parameters
    ----------
    history
        What was read.
    line_hash
        SHA-256 of the line's bytes without its newline, hex; a line without one is not there.

    Returns
    -------
    Of the commits that have the line and of which no ancestor has it, the one with the earliest
    committer time (the smallest id where several have the same).
    """
    have = _holding(history, line_hash)
    after = set[str]()
    first: list[LedgerCommit] = []
    for commit in history.commits.values():
        if any(parent in have or parent in after for parent in commit.parents):
            after.add(commit.id)
        elif commit.id in have:
            first.append(commit)
    return min(first, key=lambda c: (c.time, c.id), default=None)


def held_before(
    history: LedgerHistory, line_hash: str, later_line_hash: str
) -> LedgerCommit | None:
    """The first commit, in HEAD's history or in a clone, that has one line and not yet a later one.

    Such a commit orders the two: what the first line tells was committed when the later line
    was in neither that commit nor any before it. None: git does not order them (they came in
    the same commit, or the first is not committed). Hashes as in `first_commit_with`. That the
    commits were made in that order, and not both afterwards, is witnessed by whoever had the
    first one before the second was made: see `pushed`.
    """
    have, too_late = _holding(history, line_hash), _holding(history, later_line_hash)
    for commit in history.commits.values():
        if not too_late.isdisjoint(commit.parents):
            too_late.add(commit.id)
        if commit.id not in have or commit.id in too_late:
            continue
        if commit.id in history.of_head or any(k.clone for k in history.knowers(commit.id)):
            return commit
    return None


def pushed(history: LedgerHistory, commit: str) -> tuple[str, ...]:
    """The remote-tracking refs here that contain a commit, such as `refs/remotes/origin/main`.

    What the refs here say, which anyone with the repository can write; the remote itself is
    asked by giving it to `history_of` as a clone. Empty for a commit that is not in the history.
    """
    if commit not in history.commits:
        return ()
    refs = [knower.ref for knower in history.knowers(commit) if knower.clone is None]
    return tuple(ref for ref in refs if ref is not None and ref.startswith(REMOTE))


def _holding(history: LedgerHistory, line_hash: str) -> set[str]:
    """Ids of the commits whose ledger has the line."""
    ends: dict[bytes, int | None] = {}
    for version in history.versions.values():
        if version.base not in ends:
            ends[version.base] = _end_of(version.base, line_hash)
    have = set()
    for blob, version in history.versions.items():
        end = ends[version.base]
        if end is not None and end <= version.length:
            have.add(blob)
    return {commit.id for commit in history.commits.values() if commit.blob in have}


def _end_of(data: bytes, line_hash: str) -> int | None:
    """Offset behind the newline of the first line that has the hash."""
    end = 0
    for line in data.split(b"\n")[:-1]:
        end += len(line) + 1
        if sha256_bytes(line) == line_hash:
            return end
    return None


def _common(one: bytes, other: bytes) -> int:
    """How many bytes two contents have in common at their beginning."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _line_at(data: bytes, offset: int) -> int:
    """The line, from 1, that the byte at `offset` is in."""
    return data.count(b"\n", 0, offset) + 1


def _named(known_by: tuple[Knower, ...]) -> str:
    return listed([knower.told for knower in known_by], most=4)
