"""Scoring a run against its registration, from the record alone.

Everything is re-derived: replies are read again by the locked judge, stop rules are replayed,
metrics are computed anew. What is written (`score.json`, `disagreements.*`) is never read back.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace

from prereg_judge.canon import sha256_bytes
from prereg_judge.errors import Problem, UsageError
from prereg_judge.flow.earlier import metric_refs
from prereg_judge.flow.evidence import Fault, fault_of, refuse_unknown_runs, verify_run
from prereg_judge.flow.locking import Locked, ledger_of, open_locked
from prereg_judge.flow.views import call_view, study_input
from prereg_judge.ledger.book import RunEntry, run_entries
from prereg_judge.record.run import Record
from prereg_judge.registration.lock import tool_source_sha256
from prereg_judge.study.metric import Metric, MetricRef
from prereg_judge.study.outcomes import StudyInput, agreeing
from prereg_judge.study.rows import scored_trials
from prereg_judge.verdict import Verdict, evaluate, stop_state, with_doubts
from prereg_judge.workspace import Workspace


@dataclass(frozen=True)
class Scored:
    """A run's result and all that a reader needs beside it.

    Attributes
    ----------
    number, runs
        Which run this is, and every run of the registration, as the ledger tells them.
    faults
        What is wrong with the other runs that can no longer be trusted, by number.
    notes
        Sentences for the reader: what this protocol cannot show, differing versions.
    """

    locked: Locked
    number: int
    runs: tuple[RunEntry, ...]
    faults: Mapping[int, Fault]
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
    refuse_unknown_runs(workspace, ident, entries)
    entry = _pick(ident, entries, run)
    record = verify_run(workspace, locked, entry)
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
    faults = {
        other.number: fault
        for other in entries
        if other != entry and (fault := fault_of(workspace, locked, other)) is not None
    }
    return Scored(
        locked=locked,
        number=entry.number,
        runs=tuple(entries),
        faults=faults,
        record=record,
        data=data,
        claimed=claimed,
        summary=locked.inputs.study.summary(data),
        verdict=verdict,
        notes=(
            *locked.inputs.study.plain_words(data),
            *_stopped_notes(not_called, locked.lock.derived.n_trials),
            *_notes(locked, faults),
            *_run_notes(locked, record),
        ),
    )


def _judged(
    locked: Locked, data: StudyInput, record: Record
) -> tuple[Verdict, dict[MetricRef, Metric]]:
    claims = locked.inputs.claims
    claimed = locked.inputs.study.compute(data, metric_refs(claims))
    calls = [call_view(line) for line in record.attempts]
    verdict = evaluate(
        claims,
        claimed,
        stops_tripped={rule.id: stop_state(rule, calls) for rule in claims.stops},
        scored=scored_trials(data),
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


def _stopped_notes(not_called: int, total: int) -> list[str]:
    if not not_called:
        return []
    return [
        f"{not_called} of {total} trials were never called, because the run was stopped; claims "
        "that need them are undefined."
    ]


def _notes(locked: Locked, faults: Mapping[int, Fault]) -> list[str]:
    notes = []
    then, now = locked.lock.tool["source_sha256"], tool_source_sha256()
    if then != now:
        notes.append(
            f"Scored by another version of this tool (source {now[:12]}) than locked it "
            f"({locked.lock.tool['version']}, source {then[:12]})."
        )
    for fault, words in (
        ("gone", "The folder of run {} is gone; the ledger still counts it."),
        (
            "changed",
            "Run {} was changed since it ended; its verdict above stands in the ledger only.",
        ),
    ):
        if numbers := [str(n) for n, found in faults.items() if found == fault]:
            notes.append(words.format(", ".join(numbers)))
    return notes


def _run_notes(locked: Locked, record: Record) -> list[str]:
    """A run made by another version than locked it."""
    notes = []
    environment = json.loads((record.folder / "environment.json").read_bytes())
    tool = environment.get("tool") if isinstance(environment, dict) else None
    made = str(tool.get("source_sha256")) if isinstance(tool, dict) else "unknown"
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
