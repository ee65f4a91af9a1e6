"""What the ledger's events mean: versions and runs of a registration, and what cannot be.

Pure: knows lists of events, no files.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

EventName = Literal[
    "registered",
    "amended",
    "withdrawn",
    "run_started",
    "run_resumed",
    "run_finished",
    "run_aborted",
    "scored",
    "probe_started",
    "probed",
    "stamped",
]
Event = dict[str, Any]

RunState = Literal["open", "complete", "stopped", "aborted"]


@dataclass(frozen=True)
class Version:
    """One version of a registration: the first, or an amendment.

    `lock` and `registration` are the hashes of its two files; `reason` is None for the first.
    """

    number: int
    lock: str
    registration: str
    locked_at: str
    reason: str | None = None


@dataclass(frozen=True)
class RunEntry:
    """One run as the ledger tells it.

    `lock` is the hash of the lock in force when it began, `version` that lock's number; `verdict`
    is the word of the last scoring; `manifest` the hash of the run's manifest; `head` that of the
    last line of the record of a run that was given up.
    """

    number: int
    state: RunState
    started_at: str
    lock: str
    version: int = 1
    resumed: int = 0
    manifest: str | None = None
    verdict: str | None = None
    reason: str | None = None
    head: str | None = None

    @property
    def ended(self) -> str:
        """How it stands, in a word or two: a verdict where there is one."""
        if self.state == "aborted":
            return "aborted"
        if self.state == "open":
            return "unfinished"
        return self.verdict or "not scored"

    def told(self, *, changed: bool) -> str:
        """How it ended, as lists show it: what was changed since is no verdict any more."""
        return f"INVALID (was {self.ended})" if changed else self.ended


@dataclass(frozen=True)
class Scoring:
    """One scoring as the ledger tells it; hashes are None where an older version wrote it.

    `before` is the hash of the ledger's line before it.
    """

    run: int
    at: str
    verdict: str
    score: str
    before: str
    result: str | None = None
    tool: str | None = None


def versions(events: Iterable[Event]) -> tuple[Version, ...]:
    """The versions of one registration, from its events, in order."""
    locking = [e for e in events if e["event"] in ("registered", "amended")]
    return tuple(
        Version(n, e["lock"], e["registration"], e["locked_at"], e.get("reason"))
        for n, e in enumerate(locking, start=1)
    )


def withdrawal(events: Iterable[Event]) -> Event | None:
    """The event that withdrew a registration, from its events; None where it stands."""
    return next((e for e in events if e["event"] == "withdrawn"), None)


def scorings(events: Iterable[Event], run: int) -> tuple[Scoring, ...]:
    """Every scoring of a run, from its registration's events, oldest first."""
    return tuple(
        Scoring(
            run, e["at"], e["verdict"], e["score"], e["prev"], e.get("result"), e.get("tool_source")
        )
        for e in events
        if e["event"] == "scored" and e["run"] == run
    )


def run_entries(events: list[Event]) -> list[RunEntry]:
    """The runs of one registration, from its events, by number."""
    number_of = {v.lock: v.number for v in versions(events)}
    runs: dict[int, dict[str, Any]] = {}
    for event in events:
        number, name = int(event.get("run", 0)), event["event"]
        if name == "run_started":
            lock = event["lock"]
            runs[number] = {"number": number, "state": "open", "started_at": event["at"]}
            runs[number] |= {"lock": lock, "version": number_of.get(lock, 1)}
        elif number in runs:
            run = runs[number]
            if name == "run_resumed":
                run["resumed"] = run.get("resumed", 0) + 1
            elif name == "run_finished":
                run.update(state=event["status"], manifest=event["manifest"])
            elif name == "run_aborted":
                run.update(state="aborted", reason=event["reason"], head=event.get("head"))
            elif name == "scored":
                run["verdict"] = event["verdict"]
    return [RunEntry(**run) for _, run in sorted(runs.items())]


_AFTER: dict[str, frozenset[str]] = {
    "run_started": frozenset({"none", "ended"}),
    "run_resumed": frozenset({"open"}),
    "run_finished": frozenset({"open"}),
    "run_aborted": frozenset({"open"}),
    "scored": frozenset({"finished"}),
}
_THEN = {"run_started": "open", "run_finished": "finished", "run_aborted": "aborted"}
_VERDICTS = frozenset({"PASS", "FAIL", "REFUTED", "STOPPED", "INVALID", "INCONCLUSIVE"})
_ANY_TIME = frozenset({"probe_started", "probed", "stamped"})


def impossible(events: list[Event]) -> str | None:
    """The first thing in one registration's events that this tool cannot have written.

    A registration is locked once, then only amended, each time linked to the lock before; runs are
    numbered 1, 2, ..., begin under the lock that is in force, and only when the one before has
    ended; a run is resumed, finished or given up only while it is open, and scored only when
    finished; what is withdrawn has no open run and begins none. None where all is in order.
    """
    state: dict[int, str] = {}
    locks: list[str] = []
    withdrawn = False
    for event in events:
        name, number = event.get("event"), event.get("run")
        if name in _ANY_TIME:  # also before the lock
            continue
        if name in ("registered", "amended", "withdrawn"):
            wrong = _impossible_version(event, locks, withdrawn)
            if name == "withdrawn" and "open" in state.values():
                wrong = wrong or "it is withdrawn while a run is open"
            if wrong is not None:
                return wrong
            withdrawn = name == "withdrawn"
            locks += [event["lock"]] if name != "withdrawn" else []
            continue
        if name not in _AFTER or not isinstance(number, int) or not locks:
            return f"an event {name!r} of run {number!r} has no place there"
        was = state.get(number, "none")
        if not _fits(event, state) or (name == "run_started" and withdrawn):
            return f"{name} of run {number} does not fit what stands before it"
        if name == "run_started" and event.get("lock") != locks[-1]:
            return f"run {number} was started under a lock that was not in force"
        state[number] = _THEN.get(name, was)
    return None


def _impossible_version(event: Event, locks: list[str], withdrawn: bool) -> str | None:
    """What is wrong with an event that locks, amends or withdraws; `locks` are those before."""
    name = event["event"]
    if name == "registered":
        if locks or not all(isinstance(event.get(k), str) for k in ("lock", "locked_at")):
            return "it is registered a second time, or without its lock"
        return None
    if withdrawn or not locks:
        return f"it is {name} when it is not in force"
    if not isinstance(event.get("reason"), str):
        return f"it is {name} without a reason"
    if name == "withdrawn":
        return None
    texts = all(isinstance(event.get(k), str) for k in ("lock", "locked_at", "registration"))
    if not texts or event.get("previous") != locks[-1] or event.get("version") != len(locks) + 1:
        return "an amendment does not follow from the version before it"
    return None


def _fits(event: Event, state: dict[int, str]) -> bool:
    """Whether an event of a run can follow, where `state` says how each run stands."""
    name, number = event["event"], event["run"]
    if name == "run_started":
        last = len(state)
        return number == last + 1 and state.get(last, "ended") in ("ended", "finished", "aborted")
    fits = state.get(number, "none") in _AFTER[name]
    if name == "run_finished":
        fits = fits and event.get("status") in ("complete", "stopped")
    if name == "scored":
        fits = fits and event.get("verdict") in _VERDICTS
    return fits
