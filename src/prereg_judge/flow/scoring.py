"""Scoring a run against its registration, from the record alone.

Everything is re-derived: replies are read again by the locked judge, stop rules are replayed,
metrics are computed anew. What is written (`score.json`, `*.csv`, ...) is never read back.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace

from prereg_judge.errors import PreregError, Problem, UsageError
from prereg_judge.flow.evidence import Fault, fault_of, refuse_unknown_runs, verify_run
from prereg_judge.flow.exposure import exposure_at_lock
from prereg_judge.flow.judging import data_of, judged, not_called
from prereg_judge.flow.locked import Locked, known_registration, ledger_of, open_locked
from prereg_judge.ledger.events import (
    Event,
    RunEntry,
    Version,
    run_entries,
    scorings,
    versions,
    withdrawal,
)
from prereg_judge.record.run import Record
from prereg_judge.registration.lock import LockedExposure, tool_source_sha256
from prereg_judge.study.metric import Metric, MetricRef
from prereg_judge.study.outcomes import StudyInput, agreeing
from prereg_judge.verdict import Verdict, with_doubts
from prereg_judge.workspace import Workspace

# What a registration asks, and of what: a version that differs in it is another question.
_ASKED = (
    "study", "judge", "items", "model", "protocol", "annotations", "judges", "labellings", "merge",
    "scale", "adjudication",
)  # fmt: skip


@dataclass(frozen=True)
class PostHoc:
    """A version locked after the run began: its claims on this run's record, or why not."""

    version: Version
    verdict: Verdict | None
    why_not: str | None = None


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
    post_hoc
        What versions that were locked after the run began make of it.
    exposure
        What had been seen when the version in force was locked.
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
    post_hoc: tuple[PostHoc, ...]
    exposure: LockedExposure


def score_registration(workspace: Workspace, ident: str, *, run: int | None = None) -> Scored:
    """Score the latest run, or the one named, against what was locked.

    Raises
    ------
    UsageError
        If the registration is not locked, or has no such run.
    IntegrityError
        If anything differs from the lock, the record was changed, or the run is incomplete.
    """
    known_registration(workspace, ident)
    events = ledger_of(workspace).events(ident)
    if not versions(events):
        open_locked(workspace, ident, with_model=False)  # which says that it is not locked
    entries = run_entries(events)
    refuse_unknown_runs(workspace, ident, entries)
    entry = _pick(ident, events, run)
    locked = open_locked(workspace, ident, with_model=False, version=entry.version)
    record = verify_run(workspace, locked, entry)
    faults = {
        other.number: fault
        for other in entries
        if other != entry and (fault := fault_of(workspace, ident, other)) is not None
    }
    return score_record(locked, entry, record, faults=faults)


def score_record(
    locked: Locked, entry: RunEntry, record: Record, *, faults: Mapping[int, Fault]
) -> Scored:
    """Score a record that `verify_run` gave; `faults` are those of the other runs, by number."""
    workspace = locked.inputs.workspace
    data, left = data_of(locked.inputs, record), not_called(locked.inputs, record)
    verdict, claimed = judged(locked.inputs, data, record)
    if any(o.verdict is None for o in data.outcomes.values()) and not left:
        others = {"were left out": replace(data, missing="exclude"), "had agreed": agreeing(data)}
        verdict = with_doubts(
            verdict, {how: judged(locked.inputs, other, record)[0] for how, other in others.items()}
        )
    exposure = exposure_at_lock(workspace, locked.inputs, locked.lock, locked.lock_sha256)
    return Scored(
        locked=locked,
        number=entry.number,
        runs=tuple(run_entries(locked.events)),
        faults=faults,
        record=record,
        data=data,
        claimed=claimed,
        summary=locked.inputs.study.summary(data),
        verdict=verdict,
        notes=(
            *locked.inputs.study.plain_words(data),
            *_stopped_notes(left, locked.lock.derived.n_trials),
            *_version_notes(locked),
            *_notes(locked, faults),
            *_run_notes(locked, record),
        ),
        post_hoc=tuple(_post_hoc(workspace, locked, later, record) for later in locked.later),
        exposure=exposure,
    )


def _post_hoc(workspace: Workspace, locked: Locked, later: Version, record: Record) -> PostHoc:
    """A later version's claims on this record, where it asks the same of the same rows."""
    try:
        other = open_locked(workspace, locked.lock.id, with_model=False, version=later.number)
    except PreregError as exc:
        return PostHoc(later, None, f"it no longer stands: {exc.problems[0]}")
    differing = [
        name
        for name in _ASKED
        if getattr(locked.inputs.model, name, None) != getattr(other.inputs.model, name, None)
    ]
    then, now = locked.lock.derived, other.lock.derived
    differing += [n for n in ("plan", "prompts") if getattr(then, n) != getattr(now, n)]
    if differing:
        why_not = f"it asks for something else: another {', another '.join(differing)}"
        return PostHoc(later, None, why_not)
    verdict, _ = judged(other.inputs, data_of(other.inputs, record), record)
    return PostHoc(later, verdict)


def _pick(ident: str, events: list[Event], number: int | None) -> RunEntry:
    entries = run_entries(events)
    if not entries:
        what, remedy = f"{ident!r} has not been run", f"start one with `prereg run {ident}`"
        gone = withdrawal(events)
        if gone is not None:
            what += f", and was withdrawn at {gone['at']}: {gone['reason']}"
            remedy = "register anew under another id"
        raise UsageError(Problem(what, remedy=remedy))
    if number is None:
        ended = [e for e in entries if e.state in ("complete", "stopped")]
        return entries[-1] if entries[-1].state == "open" or not ended else ended[-1]
    for entry in entries:
        if entry.number == number:
            return entry
    listed = ", ".join(str(e.number) for e in entries)
    raise UsageError(Problem(f"{ident!r} has no run {number}", remedy=f"there are: {listed}"))


def _version_notes(locked: Locked) -> list[str]:
    """Which version was in force, and that the registration was withdrawn."""
    notes = []
    amends = locked.lock.amends
    if amends is not None:
        notes.append(
            f"Version {locked.lock.version} was in force, an amendment of {locked.lock.locked_at}: "
            f"{amends.reason}"
        )
    gone = withdrawal(locked.events)
    if gone is not None:
        notes.append(f"The registration was withdrawn at {gone['at']}: {gone['reason']}")
    return notes


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
    try:
        environment = json.loads((record.folder / "environment.json").read_bytes())
    except (ValueError, RecursionError):
        environment = None
    tool = environment.get("tool") if isinstance(environment, dict) else None
    made = str(tool.get("source_sha256")) if isinstance(tool, dict) else "unknown"
    then = locked.lock.tool["source_sha256"]
    if made != then:
        notes.append(
            f"The run was made by another version of this tool (source {made[:12]}) than locked "
            f"it (source {then[:12]})."
        )
    return notes


def remember(workspace: Workspace, scored: Scored, *, score: str, result: str) -> None:
    """Put a scoring into the ledger, unless its last scoring of this run was the same.

    `score` is the hash of the whole of `score.json`, `result` of the numbers and outcomes in it.
    """
    ident, run = scored.locked.lock.id, scored.number
    ledger = ledger_of(workspace)
    made = scorings(ledger.events(ident), run)
    if made and made[-1].score == score:
        return
    ledger.append(
        "scored",
        ident=ident,
        run=run,
        verdict=scored.verdict.word,
        score=score,
        result=result,
        tool_source=tool_source_sha256(),
    )
