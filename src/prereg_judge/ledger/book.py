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

EventName = Literal[
    "registered", "run_started", "run_resumed", "run_finished", "run_aborted", "scored"
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
        return [e for e in lines if ident is None or e.get("id") == ident]

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
