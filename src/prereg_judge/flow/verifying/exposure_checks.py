"""Exposure: computed again from the ledger, and what it cannot know."""

from __future__ import annotations

from collections.abc import Iterable

from prereg_judge.errors import IntegrityError
from prereg_judge.flow.exposure import (
    UNTOLD,
    exposure_at_lock,
    exposure_words,
    identity_in_lock,
    known_uses,
    ledger_events,
    level_of,
    untold_since,
)
from prereg_judge.flow.locked import Locked, ledger_of, read_lock
from prereg_judge.flow.verifying.findings import Findings
from prereg_judge.ledger.events import Event, versions
from prereg_judge.registration.lock import LockedExposure, Seen, is_rows
from prereg_judge.words import EXPOSURE_LEVELS
from prereg_judge.workspace import Workspace

_MOST = 5  # other runs named in a sentence


def check_exposure(workspace: Workspace, locked: Locked, about: str, findings: Findings) -> None:
    """Compute exposure again, and say what it cannot know; what was found goes to `findings`."""
    lock = locked.lock
    again = exposure_at_lock(workspace, locked.inputs, lock, locked.lock_sha256)
    if lock.exposure is None:
        if again.level != "none":
            uses = ", ".join(f"{s.what} of {s.id}" for s in again.known)
            what = f"what had been seen is in its own words only; the ledger knows {uses}"
            findings.not_proved(about, what)
        return
    since = untold_since(workspace, locked.inputs, lock, locked.lock_sha256)
    less = EXPOSURE_LEVELS.index(lock.exposure.level) < EXPOSURE_LEVELS.index(again.level)
    if less or len(again.known) > len(lock.exposure.known):
        findings.violated(about, "more had been seen by the lock than the lock says")
    elif again.known != lock.exposure.known:
        findings.violated(about, "what had been seen by the lock is not what the lock says")
    else:
        which = " that can be told here" if since else ""
        what = f"exposure {lock.exposure.level!r}: all uses in this ledger by then{which} are in "
        what += "the lock"
        findings.proved(about, what, "computed again from the ledger")
    _check_lost_locks(workspace, (*lock.exposure.known, *since), about, findings)
    _check_alone(workspace, locked, about, findings)


def _check_lost_locks(
    workspace: Workspace, known: Iterable[Seen], about: str, findings: Findings
) -> None:
    """Say of which earlier runs the rows can no longer be told."""
    earlier = tuple(known)
    untold = {s.id for s in earlier if UNTOLD in s.same and not _is_probe(s)}
    for ident in sorted(untold):
        events = ledger_of(workspace).events(ident)
        try:
            for version in versions(events):
                read_lock(workspace, ident, events, version=version.number)
        except IntegrityError:
            runs = ", ".join(s.what for s in earlier if s.id == ident)
            what = f"whether {runs} of {ident!r} had used some of these rows: "
            what += "its lock is not here, which knew them one by one"
            findings.not_proved(about, what, "ask for it, or verify where it is")


def _check_alone(workspace: Workspace, locked: Locked, about: str, findings: Findings) -> None:
    """Say which other registrations were locked before its first run, and run on the same rows.

    Exposure knows what had been run by the lock. Several registrations that are all locked before
    any is run know nothing of each other, and one of them may be shown alone.
    """
    events, lock = ledger_events(workspace), locked.lock
    begun = next(
        (n for n, e in enumerate(events) if _is_run_under(e, locked.lock_sha256)), len(events)
    )
    beside = {e["id"] for e in events[:begun] if e["event"] == "registered"} - {lock.id}
    every = known_uses(workspace, events, *identity_in_lock(locked.inputs, lock))
    said = {(s.id, s.what) for s in lock.exposure.known} if lock.exposure else set()
    others = tuple(
        s
        for s in every
        if s.id in beside
        and (s.id, s.what) not in said
        and not _is_probe(s)
        and any(map(is_rows, s.same))
    )
    if others:
        told = "; ".join(exposure_words(LockedExposure("", level_of(others), others))[:_MOST])
        more = f"; and {len(others) - _MOST} more" if len(others) > _MOST else ""
        what = f"that it is the only one of its kind. Locked before its first run was: {told}{more}"
        findings.not_proved(about, what)


def _is_probe(seen: Seen) -> bool:
    return seen.what.startswith("probe")


def _is_run_under(event: Event, lock_sha256: str) -> bool:
    return bool(event["event"] == "run_started" and event["lock"] == lock_sha256)
