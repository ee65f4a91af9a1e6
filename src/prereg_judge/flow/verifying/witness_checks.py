"""Who else saw the ledger: git history, time-stamp authorities, OpenTimestamps.

What a witness proves is that a line of the ledger, and with it all lines before, existed by a
time. A run's record begins with the hash of the ledger line that began it, so a witness between
the lock and that line proves that the bands came before every line of the record.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from prereg_judge.chain import Chain
from prereg_judge.errors import InputError, IntegrityError, PreregError, Problem
from prereg_judge.flow.verifying.findings import Asked, Findings, WitnessName
from prereg_judge.flow.verifying.ledger_checks import LEDGER
from prereg_judge.flow.witnessing import StampFile, StampKind, stamp_files
from prereg_judge.ledger.git_examine import examine, first_commit_with, held_before, pushed
from prereg_judge.ledger.git_history import history_of
from prereg_judge.ledger.git_versions import LedgerHistory, NoHistory
from prereg_judge.ledger.ots import Attestation, Block, check_block_header, read_ots
from prereg_judge.ledger.rfc3161 import read_token, verify_token
from prereg_judge.workspace import Workspace


@dataclass(frozen=True)
class _Locking:
    """Where in the ledger a version was locked and first run: line numbers, from 1."""

    ident: str
    version: int
    of: int
    line: int
    first_run: tuple[int, int] | None  # run number, line
    hangs: bool  # whether its runs' records begin with the hash of a ledger line

    @property
    def about(self) -> str:
        return self.ident if self.of == 1 else f"{self.ident} version {self.version}"


@dataclass(frozen=True)
class _Time:
    """A time by which a line existed, and who says so.

    `noted` is the line of the event that names the stamp: what follows it was written later than
    the stamp was made, as it hangs on the stamp's hash.
    """

    line: int
    noted: int
    time: str
    by: str
    witness: WitnessName


def check_witnesses(
    workspace: Workspace,
    chain: Chain,
    ids: Sequence[str],
    findings: Findings,
    *,
    asked: Asked,
) -> None:
    """Ask every witness that there is about the locks of these registrations."""
    lockings = [one for ident in ids for one in _lockings(chain, ident)]
    times = _tokens(workspace, chain, findings, asked.roots)
    history = history_of(workspace.root, workspace.ledger, clones=asked.clones)
    current = workspace.ledger.read_bytes() if workspace.ledger.is_file() else b""
    if isinstance(history, NoHistory) and asked.clones:
        raise _unreadable(history, ", ".join(map(str, asked.clones)))
    _check_readable(workspace, history, findings)
    if isinstance(history, LedgerHistory):
        _history(history, current[: len(current) - len(chain.torn)], findings)
    _check_tail(chain, history, times, findings)
    pending, blocks = _blocks(workspace, chain, findings, asked.headers)
    for one in lockings:
        stamped = [
            _by_time(one, [t for t in (*times, *blocks) if t.witness == witness], findings)
            for witness in ("rfc3161", "opentimestamps")
        ]
        committed = _by_git(one, chain, history, findings)
        if committed and not any(stamped):
            what = "at what time it was locked: the commits' times are their makers' own clocks"
            how = "push them to where others see them, or `prereg stamp --tsa URL`"
            findings.not_proved(one.about, what, how)
        if not any(stamped) and not committed:
            what = f"when it was locked (line {one.line}): the time is this machine's clock only"
            how = "`prereg lock --stamp URL` next time; `prereg stamp --tsa URL` now proves "
            late = "that it exists now, not that it came before its runs"
            findings.not_proved(
                one.about, what, how + (late if one.first_run else "it from now on")
            )
        if any(line >= one.line for line in pending):
            what = "an OpenTimestamps stamp covers its lock and is not proof by itself yet"
            findings.not_proved(one.about, what, "`prereg stamp --upgrade`, then a Bitcoin node")


def _check_tail(
    chain: Chain, history: LedgerHistory | NoHistory, times: Sequence[_Time], findings: Findings
) -> None:
    """Say which lines at the ledger's end no witness has seen."""
    seen, last = max((t.line for t in times), default=0), len(chain.lines)
    if isinstance(history, LedgerHistory) and history.versions:
        low, high = 0, last  # what a commit holds is a beginning: the first line that none holds
        while low < high:
            middle = (low + high + 1) // 2
            held = first_commit_with(history, chain.heads[middle]) is not None
            low, high = (middle, high) if held else (low, middle - 1)
        seen = max(seen, low)
    if 0 < seen < last:
        what = (
            f"that lines {seen + 1} to {last} stay: no commit and no trusted stamp holds them, so "
        )
        what += "they could be cut, and their runs with them, without a trace"
        findings.not_proved(LEDGER, what, "`prereg stamp --git`, or `prereg stamp --tsa URL`")


def _check_readable(
    workspace: Workspace, history: LedgerHistory | NoHistory, findings: Findings
) -> None:
    """Say of a git history that is there and cannot be read, or that is led around."""
    if isinstance(history, NoHistory) and history.reason == "failed":
        problem = Problem(f"the git repository here cannot be read: {history.detail}")
        findings.violated(LEDGER, Problem(problem.what, remedy="mend it, or take a clone of it"))
    elif isinstance(history, NoHistory) and history.reason != "not_a_repository":
        findings.not_proved(LEDGER, f"git was not asked: {history.detail}")
    if workspace.registrations.is_symlink():
        what = "registrations/ is a link to another place: git does not know the files there"
        findings.not_proved(LEDGER, what, "put the folder itself there")


def _lockings(chain: Chain, ident: str) -> list[_Locking]:
    made: list[tuple[int, str, bool]] = []
    runs: dict[str, tuple[int, int]] = {}
    for line, event in enumerate(chain.lines, start=1):
        if event.get("id") != ident:
            continue
        if event["event"] in ("registered", "amended"):
            made.append((line, event["lock"], "inputs" in event))  # of the second form
        elif event["event"] == "run_started":
            runs.setdefault(event["lock"], (event["run"], line))
    return [
        _Locking(ident, number, len(made), line, runs.get(lock), hangs)
        for number, (line, lock, hangs) in enumerate(made, start=1)
    ]


def _tokens(
    workspace: Workspace, chain: Chain, findings: Findings, roots: Sequence[bytes]
) -> list[_Time]:
    """The times that trusted tokens prove; what is wrong with the others is noted."""
    times = []
    for file, shown, head in _stamps(workspace, chain, findings, kind="rfc3161"):
        try:
            if not roots:
                token = read_token(file.raw, shown=shown)
                if token.digest != head:
                    what = f"is not for line {file.line} of this ledger: the ledger was rewritten"
                    findings.violated(LEDGER, Problem(what, shown, remedy="restore the ledger"))
                    continue
                what = f"{shown}: its token for line {file.line} names {token.time}, by "
                what += f"{token.signer}; whom that belongs to is not checked"
                findings.not_proved(LEDGER, what, "name the authority's root with --ca FILE")
                continue
            token = verify_token(file.raw, head, roots=roots, shown=shown)
        except PreregError as exc:
            findings.raised(LEDGER, exc)
            continue
        by = f"time-stamp by {token.signer}, under the root given"
        findings.proved(LEDGER, f"lines 1 to {file.line} existed at {token.time}", by)
        times.append(_Time(file.line, _noted(chain, file), token.time, by, "rfc3161"))
    return times


def _blocks(
    workspace: Workspace, chain: Chain, findings: Findings, headers: Sequence[str]
) -> tuple[list[int], list[_Time]]:
    """Lines whose OpenTimestamps stamps are not proof yet, and times that given headers show."""
    lines, times = [], []
    for file, shown, head in _stamps(workspace, chain, findings, kind="opentimestamps"):
        try:
            state = read_ots(file.raw, head, shown=shown)
        except IntegrityError as exc:
            findings.raised(LEDGER, exc)
            continue
        except PreregError as exc:
            findings.not_proved(LEDGER, f"{shown}: {exc.problems[0].what}", exc.problems[0].remedy)
            continue
        for attestation in state.attestations:
            block = _block_of(attestation, headers)
            if block is None:
                lines.append(file.line)
                findings.not_proved(LEDGER, f"{shown}, for line {file.line}: {attestation}")
                continue
            by = f"OpenTimestamps: the header given, of block {block.hash}; that this block is in "
            by += "Bitcoin's chain is for you to look up"
            what = f"lines 1 to {file.line} existed at {block.time}, two hours more or less"
            findings.proved(LEDGER, what, by)
            noted = _noted(chain, file)
            times.append(_Time(file.line, noted, block.time, by, "opentimestamps"))
    return lines, times


def _block_of(attestation: Attestation, headers: Sequence[str]) -> Block | None:
    """The block, among the headers given, that holds an attestation's Merkle root."""
    if attestation.kind != "bitcoin":
        return None
    for header in headers:
        try:
            return check_block_header(attestation, header)
        except IntegrityError:
            continue
    return None


def _stamps(
    workspace: Workspace, chain: Chain, findings: Findings, *, kind: StampKind
) -> Iterator[tuple[StampFile, str, str]]:
    """The stamps of one kind, each with its name and the hash of the line that it is for."""
    for file in stamp_files(workspace):
        shown = workspace.shown(file.path)
        if file.kind == kind and 0 < file.line < len(chain.heads):
            yield file, shown, chain.heads[file.line]
        elif file.kind == kind:
            what = "is for a line that the ledger does not have: the ledger was cut"
            findings.violated(LEDGER, Problem(what, shown, remedy="restore the ledger"))


def _noted(chain: Chain, file: StampFile) -> int:
    """The line of the event that names a stamp; after all lines where none does."""
    named = (
        line
        for line, event in enumerate(chain.lines, start=1)
        if event["event"] == "stamped" and event["file"] == file.path.name
    )
    return next(named, len(chain.lines) + 1)


def _by_time(one: _Locking, times: Sequence[_Time], findings: Findings) -> bool:
    """Whether one of these times covers the lock; what it proves is noted."""
    covering = sorted((t for t in times if t.line >= one.line), key=lambda t: t.time)
    if not covering:
        return False
    first = covering[0]
    if one.first_run is None or (one.hangs and first.noted < one.first_run[1]):
        what = f"locked by {first.time}"
        if one.first_run is not None:
            what += f", before any line of run {one.first_run[0]}'s record was written"
        findings.proved(one.about, what, first.by)
        findings.witnessed[first.witness].add((one.ident, one.version))
    elif not one.hangs:
        findings.proved(one.about, f"locked by {first.time}", first.by)
        what = f"that its lock came before run {one.first_run[0]}: a record of the older form does "
        findings.not_proved(one.about, what + "not hang on the ledger")
    else:
        number = one.first_run[0]
        what = f"that its lock came before run {number}: stamped at {first.time}, noted in the "
        what += "ledger after it began"
        findings.not_proved(one.about, what, "stamp before the run: `prereg lock --stamp URL`")
    return True


def _history(history: LedgerHistory, current: bytes, findings: Findings) -> None:
    for fault in examine(history, current):
        if fault.severity == "fault":
            remedy = "restore the ledger that those commits hold"
            findings.violated(LEDGER, Problem(f"git: {fault.sentence}", remedy=remedy))
        else:
            findings.not_proved(LEDGER, f"git: {fault.sentence}")
    for source in history.sources:
        if source.clone is None:
            continue
        if source.problem is not None:
            raise _unreadable(source.problem, source.clone)
        if history.versions and not findings.has_violation([LEDGER]):
            by = "git: its history; whose clone it is, and since when, is for you to know"
            findings.proved(LEDGER, f"all that the clone {source.clone} holds of it is here", by)
    if history.shallow:
        what = "the git history is shallow: older versions of the ledger are unknown here"
        findings.not_proved(LEDGER, what, "`git fetch --unshallow`")
    if history.versions and all(s.clone is None or s.problem for s in history.sources):
        what = "that this git history is the first: whoever has the repository can write it anew"
        findings.not_proved(LEDGER, what, "name a clone that others hold with `--clone PATH`")
    if history.versions and not findings.has_violation([LEDGER]):
        n = len(history.commits)
        of = "1 commit of it, a beginning" if n == 1 else f"{n} commits of it, each a beginning"
        by = f"git: {of} of what came after, and of the file now"
        findings.proved(LEDGER, "nothing that was ever committed of it is gone or changed", by)


def _unreadable(problem: NoHistory, clone: str) -> InputError:
    remedy = "name a clone, or a bundle, score.json or manifest.json that somebody kept"
    what = f"cannot be read: {problem.detail.splitlines()[0]}"
    return InputError(Problem(what, where="--clone", found=clone, remedy=remedy))


def _by_git(
    one: _Locking, chain: Chain, history: LedgerHistory | NoHistory, findings: Findings
) -> bool:
    """Whether git holds the lock; what that proves is noted."""
    if isinstance(history, NoHistory):
        return False
    lock = chain.heads[one.line]
    first = first_commit_with(history, lock)
    if first is None:
        findings.not_proved(one.about, "its lock is in no commit", "commit registrations/")
        return False
    refs = pushed(history, first.id)
    where = (
        f"; {', '.join(refs)} hold it too, by this repository's word"
        if refs
        else "; no remote-tracking ref holds it"
    )
    clock = "the commit's time is the committer's own clock" + where
    if one.first_run is None:
        what = f"its lock is in commit {first.id[:12]}"
        findings.proved(one.about, what, f"git; {clock}")
        findings.witnessed["git"].add((one.ident, one.version))
        return True
    number, line = one.first_run
    before = held_before(history, lock, chain.heads[line])
    if before is None:
        what = f"that its lock came before run {number}: no commit holds the one without the other"
        findings.not_proved(one.about, what, "commit after each lock, as `prereg lock` does")
        return True
    what = f"its lock is in commit {before.id[:12]}, which does not hold run {number} yet"
    findings.proved(one.about, what, f"git; {clock}")
    if one.hangs:
        findings.witnessed["git"].add((one.ident, one.version))
    else:
        what = f"that this came before the record of run {number} was written: of the older form, "
        findings.not_proved(one.about, what + "it does not hang on the ledger")
    return True
