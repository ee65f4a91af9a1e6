"""Scoring a run against its registration, from the record alone.

Everything is re-derived: replies are read again by the locked judge, stop rules are replayed,
metrics are computed anew. What is written (`score.json`, `disagreements.*`) is never read back.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace

from prereg_judge.canon import sha256_bytes
from prereg_judge.errors import IntegrityError, Problem, UsageError
from prereg_judge.flow.earlier import metric_refs
from prereg_judge.flow.evidence import run_problems
from prereg_judge.flow.locking import Locked, ledger_of, open_locked
from prereg_judge.flow.views import call_view, study_input
from prereg_judge.judge import read_reply
from prereg_judge.ledger.book import RunEntry, run_entries
from prereg_judge.record.run import PlanLine, Record, check_against_plan, read_plan, read_record
from prereg_judge.registration.lock import tool_source_sha256
from prereg_judge.study import self_agreement
from prereg_judge.study.metric import Metric, MetricRef
from prereg_judge.study.outcomes import StudyInput, agreeing
from prereg_judge.verdict import Verdict, evaluate, stop_state, with_doubts
from prereg_judge.workspace import Workspace


@dataclass(frozen=True)
class Scored:
    """A run's result and all that a reader needs beside it.

    Attributes
    ----------
    number, runs
        Which run this is, and every run of the registration, as the ledger tells them.
    missing_runs
        Numbers of runs whose folder is gone.
    notes
        Sentences for the reader: what this protocol cannot show, differing versions.
    """

    locked: Locked
    number: int
    runs: tuple[RunEntry, ...]
    missing_runs: tuple[int, ...]
    record: Record
    data: StudyInput
    claimed: dict[MetricRef, Metric]
    summary: tuple[Metric, ...]
    verdict: Verdict
    notes: tuple[str, ...]


def score_registration(workspace: Workspace, ident: str, *, run: int | None = None) -> Scored:
    """Score the latest run, or the one named, against what was locked.

    Raises
    ------
    UsageError
        If the registration is not locked, or has no such run.
    IntegrityError
        If anything differs from the lock, the record was changed, or the run is incomplete.
    """
    locked = open_locked(workspace, ident, with_model=False)
    entries = run_entries(locked.events)
    entry = _pick(ident, entries, run)
    folder = workspace.run(ident, entry.number)
    shown = workspace.shown(folder)
    if not folder.is_dir():
        raise IntegrityError(Problem("the run's folder is gone", shown, remedy="restore it"))
    record = read_record(folder, shown=shown)
    _check_run(workspace, locked, entry, record, shown)
    data = study_input(locked.inputs, record)
    not_called = locked.lock.derived.n_trials - len(record.by_trial)
    if not_called:  # a stopped run: what was never called is not a disagreement
        data = replace(data, missing="undefined")
    verdict, claimed = _judged(locked, data, record)
    if any(o.verdict is None for o in data.outcomes.values()) and not not_called:
        others = {"were left out": replace(data, missing="exclude"), "had agreed": agreeing(data)}
        verdict = with_doubts(
            verdict, {how: _judged(locked, other, record)[0] for how, other in others.items()}
        )
    missing = [e.number for e in entries if not workspace.run(ident, e.number).is_dir()]
    return Scored(
        locked=locked,
        number=entry.number,
        runs=tuple(entries),
        missing_runs=tuple(missing),
        record=record,
        data=data,
        claimed=claimed,
        summary=self_agreement.summary(data),
        verdict=verdict,
        notes=(
            *self_agreement.plain_words(data),
            *_stopped_notes(not_called, locked.lock.derived.n_trials),
            *_notes(locked, missing),
            *_run_notes(workspace, locked, entries, record),
        ),
    )


def _judged(
    locked: Locked, data: StudyInput, record: Record
) -> tuple[Verdict, dict[MetricRef, Metric]]:
    claims = locked.inputs.claims
    claimed = self_agreement.compute(data, metric_refs(claims))
    calls = [call_view(line) for line in record.attempts]
    verdict = evaluate(
        claims,
        claimed,
        stops_tripped={rule.id: stop_state(rule, calls) for rule in claims.stops},
        scored=self_agreement.scored_trials(data),
    )
    return verdict, claimed


def _pick(ident: str, entries: list[RunEntry], number: int | None) -> RunEntry:
    if not entries:
        remedy = f"start one with `prereg run {ident}`"
        raise UsageError(Problem(f"{ident!r} has not been run", remedy=remedy))
    if number is None:
        ended = [e for e in entries if e.state in ("complete", "stopped")]
        return entries[-1] if entries[-1].state == "open" or not ended else ended[-1]
    for entry in entries:
        if entry.number == number:
            return entry
    listed = ", ".join(str(e.number) for e in entries)
    raise UsageError(Problem(f"{ident!r} has no run {number}", remedy=f"there are: {listed}"))


def _check_run(
    workspace: Workspace, locked: Locked, entry: RunEntry, record: Record, shown: str
) -> None:
    """Refuse a run that is incomplete or does not fit lock, plan, ledger and judge."""
    ident = locked.lock.id
    if entry.state == "aborted":
        what = f"run {entry.number} was given up and is not scored: {entry.reason}"
        raise UsageError(Problem(what, remedy=f"start another with `prereg run {ident}`"))
    if record.manifest is None and entry.manifest is not None:
        what = "the manifest of a finished run is missing"
        raise IntegrityError(Problem(what, f"{shown}/manifest.json", remedy="restore it"))
    retries = locked.inputs.model.protocol.hang.retries
    waiting = check_against_plan(record, retries=retries, shown=shown)
    if record.manifest is None or entry.state == "open":
        total = locked.lock.derived.n_trials
        what = f"run {entry.number} is incomplete: {len(waiting)} of {total} trials are not done"
        raise IntegrityError(Problem(what, shown, remedy=f"resume it with `prereg run {ident}`"))
    if waiting and record.manifest["status"] == "complete":
        what = f"the run says it is complete, and {len(waiting)} trials are not done"
        raise IntegrityError(Problem(what, shown, found=", ".join(waiting[:3])))
    problems = run_problems(locked, entry, record, shown=shown)
    problems += _manifest_problems(workspace, locked, entry, record, shown)
    problems += _plan_problems(locked, record, shown)
    problems += _reply_problems(locked, record, shown)
    if problems:
        raise IntegrityError(*problems)


def _manifest_problems(
    workspace: Workspace, locked: Locked, entry: RunEntry, record: Record, shown: str
) -> list[Problem]:
    """Whether the manifest says what the record shows, and hangs on this ledger."""
    manifest, file = record.manifest or {}, f"{shown}/manifest.json"
    calls = [call_view(line) for line in record.attempts]
    tripped = {r.id: stop_state(r, calls).at_call for r in locked.inputs.claims.stops}
    problems = []
    if manifest.get("status") == "stopped" and tripped.get(str(manifest.get("stopped_by"))) != len(
        calls
    ):
        problems.append(Problem("no registered stop rule ended the run where it ends", file))
    told = (manifest.get("id"), manifest.get("run"), manifest.get("attempts_head"))
    if told != (locked.lock.id, entry.number, record.head):
        problems.append(Problem("does not describe this run's record", file))
    if manifest.get("ledger_head") not in ledger_of(workspace).heads:
        what = "the ledger no longer holds the line that was its last when the run ended"
        problems.append(Problem(what, file, remedy="restore the ledger from git or a copy"))
    return problems


def _plan_problems(locked: Locked, record: Record, shown: str) -> list[Problem]:
    def key(index: int, trial: str) -> tuple[int, str]:
        return index, trial

    planned = [key(t.index, t.key) for t in locked.inputs.plan()]
    stored: list[PlanLine] = list(read_plan(record.folder, shown=shown))
    if planned == [key(line.index, line.trial) for line in stored]:
        return []
    return [Problem("is not the plan of the locked registration", f"{shown}/plan.jsonl")]


def _reply_problems(locked: Locked, record: Record, shown: str) -> list[Problem]:
    """Read every reply again: the recorded verdict must be what the judge file makes of it."""
    problems = []
    for line in record.attempts:
        if line.text is None:
            continue
        read = read_reply(locked.inputs.judge, text=line.text, finish=line.finish or "complete")
        if (read.verdict, read.unscored) != (line.verdict, line.unscored):
            what = "the recorded verdict is not what the judge makes of the recorded reply"
            problems.append(Problem(what, f"{shown}/attempts.jsonl", found=line.trial))
    return problems[:20]


def _stopped_notes(not_called: int, total: int) -> list[str]:
    if not not_called:
        return []
    return [
        f"{not_called} of {total} trials were never called, because the run was stopped; claims "
        "that need them are undefined."
    ]


def _notes(locked: Locked, missing: list[int]) -> list[str]:
    notes = []
    then, now = locked.lock.tool["source_sha256"], tool_source_sha256()
    if then != now:
        notes.append(
            f"Scored by another version of this tool (source {now[:12]}) than locked it "
            f"({locked.lock.tool['version']}, source {then[:12]})."
        )
    if missing:
        listed = ", ".join(map(str, missing))
        notes.append(f"The folder of run {listed} is gone; the ledger still counts it.")
    return notes


def _run_notes(
    workspace: Workspace, locked: Locked, entries: list[RunEntry], record: Record
) -> list[str]:
    """Folders that no ledger knows, and a run made by another version than locked it."""
    notes = []
    known = {str(e.number) for e in entries}
    found = {p.name for p in workspace.runs(locked.lock.id).iterdir() if p.is_dir()}
    if strange := sorted(found - known):
        notes.append(f"Run folders that the ledger does not know: {', '.join(strange)}.")
    environment = json.loads((record.folder / "environment.json").read_bytes())
    made = environment.get("tool", {}).get("source_sha256", "unknown")
    then = locked.lock.tool["source_sha256"]
    if made != then:
        notes.append(
            f"The run was made by another version of this tool (source {made[:12]}) than locked "
            f"it (source {then[:12]})."
        )
    return notes


def remember(workspace: Workspace, scored: Scored, score: bytes) -> None:
    """Put the scoring into the ledger, unless its last scoring of this run was the same."""
    ident = scored.locked.lock.id
    digest = sha256_bytes(score)
    ledger = ledger_of(workspace)
    made = [e for e in ledger.events(ident) if e["event"] == "scored" and e["run"] == scored.number]
    if not made or made[-1]["score"] != digest:
        word = scored.verdict.word
        ledger.append("scored", ident=ident, run=scored.number, verdict=word, score=digest)
