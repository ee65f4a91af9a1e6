"""The ledger: what happened to registrations and runs, in one hash-chained file.

Written under a lock between processes; every event is synced before it counts. Reading checks
the chain, and that it still holds the line that `ledger.tip` names. Who else could vouch for it
(git, time-stamp authorities) is not known here; what the events mean is in `events`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from filelock import FileLock

from prereg_judge import clock
from prereg_judge.canon import canonical_json
from prereg_judge.chain import Chain, ChainWriter, read_chain, write_synced
from prereg_judge.errors import IntegrityError, Problem
from prereg_judge.ledger.events import Event, EventName, impossible
from prereg_judge.ledger.forms import well_formed

_RESTORE = "restore the ledger from git or a copy"


@dataclass(frozen=True)
class Tip:
    """The last line that was written for certain: how many lines there are, and its hash."""

    lines: int
    head: str


@dataclass(frozen=True)
class Ledger:
    """The ledger file at `path`; `shown` is its name in messages."""

    path: Path
    shown: str

    @property
    def tip_path(self) -> Path:
        """The file that names the last line, beside the ledger."""
        return self.path.with_name("ledger.tip")

    def tip(self) -> Tip | None:
        """What `ledger.tip` says; None where there is none.

        Raises
        ------
        IntegrityError
            If it is no tip as this tool writes it.
        """
        file = str(Path(self.shown).with_name("ledger.tip"))
        if self.tip_path.exists() and not self.tip_path.is_file():
            raise IntegrityError(Problem("is not a file", file))
        try:
            raw = self.tip_path.read_bytes()
        except FileNotFoundError:
            return None
        try:
            value = json.loads(raw)
            tip = Tip(**value)
            fits = type(tip.lines) is int and tip.lines >= 1 and isinstance(tip.head, str)
        except (ValueError, TypeError, RecursionError) as exc:
            raise IntegrityError(Problem("is not a tip: it was changed", file)) from exc
        if not fits or raw != _tip_bytes(tip):
            raise IntegrityError(Problem("is not a tip: it was changed", file))
        return tip

    def chain(self) -> Chain:
        """All lines, checked, and compared with the tip.

        Raises
        ------
        IntegrityError
            If a line was edited, dropped or moved, also at the end.
        """
        # The tip first: a writer adds the line before it moves the tip.
        tip = self.tip()
        chain = read_chain(self.path, shown=self.shown)
        for number, line in enumerate(chain.lines, start=1):
            if not well_formed(line):
                what = "is no event that this tool writes"
                raise IntegrityError(Problem(what, self.shown, number, remedy=_RESTORE))
        if tip is None:
            return chain
        if len(chain.lines) < tip.lines:
            what = f"lines are gone from its end: it holds {len(chain.lines)}, it held {tip.lines}"
            raise IntegrityError(Problem(what, self.shown, remedy=_RESTORE))
        if chain.heads[tip.lines] != tip.head:
            what = "is not the line that was written here: the ledger's end was changed"
            raise IntegrityError(Problem(what, self.shown, tip.lines, remedy=_RESTORE))
        return chain

    def events(self, ident: str | None = None) -> list[Event]:
        """Every event, or those of one registration, oldest first; the chain is checked.

        Raises
        ------
        IntegrityError
            If a line was edited, dropped or moved.
        """
        return self._of(self.chain(), ident)

    def _of(self, chain: Chain, ident: str | None) -> list[Event]:
        events = [e for e in chain.lines if ident is None or e.get("id") == ident]
        wrong = impossible(events) if ident is not None else None
        if wrong is not None:
            what = f"the ledger's events of {ident!r} contradict each other: {wrong}"
            raise IntegrityError(Problem(what, self.shown, remedy=_RESTORE))
        return events

    @property
    def heads(self) -> frozenset[str]:
        """The hashes of all lines."""
        return frozenset(self.chain().heads[1:])  # the first is that of no line

    @property
    def head(self) -> str:
        """Hash of the last line."""
        return self.chain().head

    @contextmanager
    def held(self) -> Iterator[None]:
        """Keep other processes from adding to the ledger meanwhile."""
        with FileLock(self.path.with_name(".ledger.lock")):
            yield

    def append(self, name: EventName, *, ident: str, **values: Any) -> str:
        """Add one event, synced, and return the hash of its line."""
        return self.append_after(lambda _: values, name, ident=ident)

    def append_after(
        self,
        check: Callable[[list[Event]], Mapping[str, Any] | None],
        name: EventName,
        *,
        ident: str,
    ) -> str:
        """Add one event if `check`, given every event there is, does not raise.

        `check` returns the event's values. Check and append happen under one lock, so two processes
        cannot both pass the check.
        """
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.held():
            chain = self.chain()
            self._of(chain, ident)  # which finds events that contradict each other
            values = check(list(chain.lines)) or {}
            writer = ChainWriter(self.path, stamp={"at": clock.now(), "id": ""})
            try:
                head = writer.append({"event": name, "at": clock.now(), "id": ident, **values})
            finally:
                writer.close()
            lines = len(chain.lines) + 1 + bool(chain.torn)  # a torn tail has a line of its own
            # The event stands whatever becomes of the tip: one that lags is no contradiction, and
            # the next event moves it.
            with suppress(OSError):
                write_synced(self.tip_path, _tip_bytes(Tip(lines, head)))
            return head


def _tip_bytes(tip: Tip) -> bytes:
    return canonical_json({"head": tip.head, "lines": tip.lines}) + b"\n"
