"""The ledger: what happened to registrations and runs, in one hash-chained file.

Written under a lock between processes; every event is synced before it counts. Reading checks
the chain. Who else could vouch for it (git, time-stamp authorities) is not known here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from filelock import FileLock

from prereg_judge import clock
from prereg_judge.chain import ChainWriter, read_chain
from prereg_judge.errors import IntegrityError, Problem

EventName = Literal[
    "registered",
    "run_started",
    "run_resumed",
    "run_finished",
    "run_aborted",
    "scored",
    "probe_started",
    "probed",
]
Event = dict[str, Any]


@dataclass(frozen=True)
class Ledger:
    """The ledger file at `path`; `shown` is its name in messages."""

    path: Path
    shown: str

    def events(self, ident: str | None = None) -> list[Event]:
        """Every event, or those of one registration, oldest first; the chain is checked.

        Raises
        ------
        IntegrityError
            If a line was edited, dropped or moved.
        """
        lines = read_chain(self.path, shown=self.shown).lines
        events = [e for e in lines if ident is None or e.get("id") == ident]
        wrong = impossible(events) if ident is not None else None
        if wrong is not None:
            remedy = "restore the ledger from git or a copy"
            what = f"the ledger's events of {ident!r} contradict each other: {wrong}"
            raise IntegrityError(Problem(what, self.shown, remedy=remedy))
        return events

    @property
    def heads(self) -> frozenset[str]:
        """The hashes of all lines."""
        chain = read_chain(self.path, shown=self.shown)
        return frozenset([*(line["prev"] for line in chain.lines), chain.head])

    @property
    def head(self) -> str:
        """Hash of the last line."""
        return read_chain(self.path, shown=self.shown).head

    def append(self, name: EventName, *, ident: str, **values: Any) -> str:
        """Add one event, synced, and return the hash of its line."""
        return self.append_after(lambda _: None, name, ident=ident, **values)

    def append_after(
        self, check: Callable[[list[Event]], None], name: EventName, *, ident: str, **values: Any
    ) -> str:
        """Add one event if `check`, given all events of the registration, does not raise.

        Check and append happen under one lock, so two processes cannot both pass the check.
        """
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(self.path.with_name(".ledger.lock")):
            check(self.events(ident))
            writer = ChainWriter(self.path, stamp={"at": clock.now(), "id": ""})
            try:
                return writer.append({"event": name, "at": clock.now(), "id": ident, **values})
            finally:
                writer.close()


RunState = Literal["open", "complete", "stopped", "aborted"]


@dataclass(frozen=True)
class RunEntry:
    """One run as the ledger tells it.

    `verdict` is the word of the last scoring; `manifest` the hash of the run's manifest.
    """

    number: int
    state: RunState
    started_at: str
    resumed: int = 0
    manifest: str | None = None
    verdict: str | None = None
    reason: str | None = None

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


def run_entries(events: list[Event]) -> list[RunEntry]:
    """The runs of one registration, from its events, by number."""
    runs: dict[int, dict[str, Any]] = {}
    for event in events:
        number, name = int(event.get("run", 0)), event["event"]
        if name == "run_started":
            runs[number] = {"number": number, "state": "open", "started_at": event["at"]}
        elif number in runs:
            run = runs[number]
            if name == "run_resumed":
                run["resumed"] = run.get("resumed", 0) + 1
            elif name == "run_finished":
                run.update(state=event["status"], manifest=event["manifest"])
            elif name == "run_aborted":
                run.update(state="aborted", reason=event["reason"])
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


def impossible(events: list[Event]) -> str | None:
    """The first thing in one registration's events that this tool cannot have written.

    A registration is locked once; runs are numbered 1, 2, ... and one begins only when the one
    before has ended; a run is resumed, finished or given up only while it is open, and scored
    only when finished. None where all is in order.
    """
    state: dict[int, str] = {}
    locked = False
    for event in events:
        name, number = event.get("event"), event.get("run")
        if name in ("probe_started", "probed"):  # at any time, also before the lock
            continue
        if name == "registered":
            if locked or not all(isinstance(event.get(k), str) for k in ("lock", "locked_at")):
                return "it is registered a second time, or without its lock"
            locked = True
            continue
        if name not in _AFTER or not isinstance(number, int) or not locked:
            return f"an event {name!r} of run {number!r} has no place there"
        last = len(state)
        was = state.get(number, "none")
        if name == "run_started":
            before = state.get(last, "ended")
            fits = number == last + 1 and before in ("ended", "finished", "aborted")
        else:
            fits = was in _AFTER[name]
        if name == "run_finished":
            fits = fits and event.get("status") in ("complete", "stopped")
        if name == "scored":
            fits = fits and event.get("verdict") in _VERDICTS
        if not fits:
            return f"{name} of run {number} does not fit what stands before it"
        state[number] = _THEN.get(name, was)
    return None
