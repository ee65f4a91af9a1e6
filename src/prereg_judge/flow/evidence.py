"""What lock and ledger say of a run's files, compared with the files that are there.

Used before an unfinished run goes on, before a finished one is scored, and to say of the others
whether they still stand. The lock and the ledger are the reference, never the run's own copies.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any, Literal

from prereg_judge.canon import sha256_file
from prereg_judge.chain import Chain
from prereg_judge.errors import IntegrityError, PreregError, Problem, UsageError
from prereg_judge.flow.locked import Locked, ledger_of, open_locked
from prereg_judge.flow.redraw import attempt_fault, reply_fault
from prereg_judge.flow.served import server_changes
from prereg_judge.flow.settings import decoding_of, engine_settings, in_flight, registered_seed
from prereg_judge.flow.views import call_view, trial_of
from prereg_judge.judge import read_reply
from prereg_judge.ledger.events import RunEntry
from prereg_judge.record.attempt import AttemptLine
from prereg_judge.record.run import Record, check_against_plan, read_plan, read_record
from prereg_judge.registration.schema_model import LocalModel
from prereg_judge.stopping import stop_state
from prereg_judge.workspace import Workspace

# What stands in a record beside attempts.
_NOTES = frozenset({"run", "session", "torn", "clock_back", "batch_lost", "stopped", "served"})

# Why a run that the ledger tells of can no longer be trusted.
Fault = Literal["gone", "changed"]


def fault_of(workspace: Workspace, ident: str, entry: RunEntry) -> Fault | None:
    """What is wrong with a run that ended; None where it stands, or has not ended."""
    if not workspace.run(ident, entry.number).is_dir():
        return "gone"
    if entry.state not in ("complete", "stopped"):
        return None
    try:
        locked = open_locked(workspace, ident, with_model=False, version=entry.version)
        verify_run(workspace, locked, entry)
    except (PreregError, OSError):
        return "changed"
    return None


def refuse_unknown_runs(workspace: Workspace, ident: str, entries: Sequence[RunEntry]) -> None:
    """Refuse a folder that could be a run and that the ledger does not know.

    Raises
    ------
    IntegrityError
        For each such folder: the ledger was cut, or the folder came from elsewhere.
    """
    known = {str(e.number) for e in entries}
    folder = workspace.runs(ident)
    found = sorted(p.name for p in folder.iterdir() if p.is_dir()) if folder.is_dir() else []
    what = "a run lies here that the ledger does not know: the ledger was cut, or the run copied"
    remedy = "restore the ledger from git or a copy, or move the folder away"
    problems = [
        Problem(what, workspace.shown(folder / name), remedy=remedy)
        for name in found
        if name not in known and ((folder / name) / "attempts.jsonl").exists()
    ]
    raise_integrity(problems)


def verify_run(workspace: Workspace, locked: Locked, entry: RunEntry) -> Record:
    """The record of a finished run that fits lock, plan, ledger and judge in everything.

    Raises
    ------
    UsageError
        If the run was given up.
    IntegrityError
        If it is incomplete, its folder is gone, or anything in it was changed.
    """
    ident = locked.lock.id
    folder = workspace.run(ident, entry.number)
    shown = workspace.shown(folder)
    if not folder.is_dir():
        raise IntegrityError(Problem("the run's folder is gone", shown, remedy="restore it"))
    if entry.state == "aborted":
        what = f"run {entry.number} was given up and is not scored: {entry.reason}"
        raise UsageError(Problem(what, remedy=f"start another with `prereg run {ident}`"))
    raise_integrity(copy_problems(locked, entry, folder, shown))
    absent = ("prompts.jsonl",) if workspace.withheld else ()
    record = read_record(folder, shown=shown, absent=absent)
    retries = locked.inputs.model.protocol.hang.retries
    waiting = check_against_plan(record, retries=retries, shown=shown)
    if record.manifest is None or entry.state == "open":
        total = locked.lock.derived.n_trials
        what = f"run {entry.number} is incomplete: {len(waiting)} of {total} trials are not done"
        if not waiting:
            what = f"run {entry.number} is incomplete: its last lines are not written yet"
        raise IntegrityError(Problem(what, shown, remedy=f"resume it with `prereg run {ident}`"))
    if waiting and record.manifest["status"] == "complete":
        what = f"the run says it is complete, and {len(waiting)} trials are not done"
        raise IntegrityError(Problem(what, shown, found=", ".join(waiting[:3])))
    raise_integrity(
        [
            *_record_problems(locked, entry, record, shown),
            *_manifest_problems(workspace, locked, entry, record, shown),
            *_plan_problems(locked, record, shown),
        ]
    )
    return record


def copy_problems(locked: Locked, entry: RunEntry, folder: Path, shown: str) -> list[Problem]:
    """Files whose bytes the lock or the ledger vouch for, and which are others."""
    started = next(e for e in locked.events if e["event"] == "run_started" and _is(entry, e))
    expected = {
        "registration.yaml": locked.lock.registration.sha256,
        "lock.json": started["lock"],
        "plan.jsonl": started["plan"],
        "prompts.jsonl": started.get("prompts"),  # older ledgers did not say
        "environment.json": started.get("environment"),
    }
    if locked.inputs.workspace.withheld and not (folder / "prompts.jsonl").exists():
        expected["prompts.jsonl"] = None
    if entry.manifest is not None:
        expected["manifest.json"] = entry.manifest
    problems = [
        Problem("is not what the lock and the ledger say", f"{shown}/{name}", remedy="restore it")
        for name, wanted in expected.items()
        if wanted is not None and not _has(folder / name, wanted)
    ]
    if started["lock"] != locked.lock_sha256:
        problems.append(Problem("the run was started under another lock", shown))
    return problems


def noted_heads(locked: Locked, entry: RunEntry) -> list[str]:
    """Hashes of record lines that the ledger noted when the run was resumed.

    They must be in the record still: attempts made before cannot have been taken out.
    """
    return [e["head"] for e in locked.events if e["event"] == "run_resumed" and _is(entry, e)]


def start_line(chain: Chain, ident: str, number: int) -> str:
    """Hash of the ledger's line that began a run, which the run's record names in its header."""
    return next(
        head
        for line, head in zip(chain.lines, chain.heads[1:], strict=True)
        if (line.get("id"), line.get("event"), line.get("run")) == (ident, "run_started", number)
    )


class RecordCheck:
    """Told the lines of a run's record in order; keeps what this run cannot have written."""

    def __init__(self, locked: Locked, entry: RunEntry, shown: str) -> None:
        self._here, self._entry = (locked.lock.id, entry.number), entry
        chain = ledger_of(locked.inputs.workspace).chain()
        self._started = start_line(chain, locked.lock.id, entry.number)
        self._file = f"{shown}/attempts.jsonl"
        self._registered, self._judge = locked.inputs.model, locked.inputs.judge
        self._decoding = decoding_of(self._registered)
        self._seed = registered_seed(self._registered)
        self._served = not isinstance(self._registered.model, LocalModel)
        self._n_trials = len(locked.inputs.plan)
        self._lock_said = locked.lock.served
        self._first_form = locked.lock.exposure is None
        self._said: dict[str, Any] | None = None  # what servers said when the run began
        self._settled: dict[tuple[str, int], str] = {}  # (text so far, token) -> verdict
        self._headed = False
        self._problems: list[Problem] = []

    @property
    def problems(self) -> list[Problem]:
        """What is wrong, 20 at most."""
        return self._problems[:20]

    def note(self, line: dict[str, Any]) -> None:
        """Take a line that is no attempt."""
        event = line.get("event")
        if not isinstance(event, str) or event not in _NOTES:
            what = "is a line that this tool does not write"
            self._problems.append(Problem(what, self._file, found=repr(event)))
        elif event == "served":
            self._same_servers(line)
        elif event in ("run", "session"):
            self._headed = True
            if (line.get("id"), line.get("run")) != self._here or self._hangs_elsewhere(line):
                self._foreign()
            if "simulated" in line:
                what = "is the record of a rehearsal: its header says that it was simulated"
                self._problems.append(Problem(what, self._file))

    def attempt(self, line: AttemptLine) -> None:
        """Take an attempt."""
        if len(self._problems) >= 20:
            return
        if not self._headed:
            self._headed = True  # said once
            self._foreign()
        settings = engine_settings(self._registered, trial_of(line.trial).pass_no)
        wrong = attempt_fault(
            line,
            path=settings.path,
            decoding=self._decoding,
            seed=self._seed,
            verdicts=self._judge.spec.verdicts,
        )
        wrong = wrong or reply_fault(
            line,
            served=self._served,
            thinks=self._registered.protocol.thinking is not None,
            parallel=settings.parallel,
            n_trials=self._n_trials,
        )
        if line.at < self._entry.started_at:
            wrong = "was made before its run began"
        elif self._served and self._said is None:
            wrong = "was made before any server said what it is"
        elif wrong is None and not self._settles_alike(line):
            wrong = "a token settles another verdict here than elsewhere in the run"
        elif wrong is None and line.text is not None:
            read = read_reply(self._judge, text=line.text, finish=line.finish or "complete")
            if (read.verdict, read.unscored) != (line.verdict, line.unscored):
                wrong = "the recorded verdict is not what the judge makes of the recorded reply"
        if wrong is not None:
            self._problems.append(Problem(wrong, self._file, found=line.trial))

    def _settles_alike(self, line: AttemptLine) -> bool:
        """Whether each token leads to the verdict to which it led before, after the same text."""
        return all(
            self._settled.setdefault((node.text, token), lead) == lead
            for node in line.nodes or ()
            for token, lead in zip(node.tokens, node.leads, strict=True)
            if isinstance(lead, str)
        )

    def _same_servers(self, line: dict[str, Any]) -> None:
        servers = line.get("servers")
        if not isinstance(servers, list) or not all(isinstance(s, dict) for s in servers):
            what = "does not say what the servers are: the line was edited"
            self._problems.append(Problem(what, self._file))
            return
        self._problems += server_changes(
            self._lock_said, line, since="registration was locked", file=self._file
        )
        self._problems += server_changes(self._said, line, file=self._file)
        self._said = self._said or line

    def _hangs_elsewhere(self, line: dict[str, Any]) -> bool:
        """Whether a header names another ledger line than the run's; in the first form, none."""
        named = None if self._first_form and "ledger" not in line else self._started
        return bool(line.get("ledger") != named)

    def _foreign(self) -> None:
        what = "belongs to another run: its header says so"
        self._problems.append(Problem(what, self._file))


def _record_problems(locked: Locked, entry: RunEntry, record: Record, shown: str) -> list[Problem]:
    """What in the record cannot have been written by this run."""
    check = RecordCheck(locked, entry, shown)
    problems = []
    if not record.heads.issuperset(noted_heads(locked, entry)):
        what = "attempts that the ledger knows of are gone: the record was cut or replaced"
        file = f"{shown}/attempts.jsonl"
        problems.append(Problem(what, file, remedy="restore it"))
    for line in record.notes:
        check.note(line)
    for attempt in record.attempts:
        check.attempt(attempt)
    return [*problems, *check.problems]


def raise_integrity(problems: Sequence[Problem]) -> None:
    """Raise `IntegrityError` with all problems, if there are any."""
    if problems:
        raise IntegrityError(*problems)


def _is(entry: RunEntry, event: dict[str, object]) -> bool:
    return event["run"] == entry.number


def _has(path: Path, sha256: str) -> bool:
    return path.is_file() and sha256_file(path) == sha256


def _manifest_problems(
    workspace: Workspace, locked: Locked, entry: RunEntry, record: Record, shown: str
) -> list[Problem]:
    """Whether the manifest says what the record shows, and hangs on this ledger."""
    manifest, file = record.manifest or {}, f"{shown}/manifest.json"
    calls = [call_view(line) for line in record.attempts]
    tripped = {r.id: stop_state(r, calls).at_call for r in locked.inputs.claims.stops}
    problems = []
    if manifest.get("status") == "stopped":
        at = tripped.get(str(manifest.get("stopped_by")))
        # What was in flight when the rule tripped is recorded too, and no call was begun after.
        if at is None or len(calls) - at > in_flight(locked.inputs.model) - 1:
            problems.append(Problem("no registered stop rule ended the run where it ends", file))
    elif any(at is not None for at in tripped.values()):
        problems.append(Problem("a registered stop rule tripped, and the run went on", file))
    told = (manifest.get("id"), manifest.get("run"), manifest.get("attempts_head"))
    if told != (locked.lock.id, entry.number, record.head):
        problems.append(Problem("does not describe this run's record", file))
    if manifest.get("ledger_head") not in ledger_of(workspace).heads:
        what = "the ledger no longer holds the line that was its last when the run ended"
        problems.append(Problem(what, file, remedy="restore the ledger from git or a copy"))
    return problems


def _plan_problems(locked: Locked, record: Record, shown: str) -> list[Problem]:
    planned = ((trial.index, trial.key) for trial in locked.inputs.plan)
    stored = ((line.index, line.trial) for line in read_plan(record.folder, shown=shown))
    if all(a == b for a, b in zip_longest(planned, stored)):
        return []
    return [Problem("is not the plan of the locked registration", f"{shown}/plan.jsonl")]
