"""What each kind of event holds, and in which kinds of values, as far as anything relies on it."""

from __future__ import annotations

import re
from datetime import datetime
from typing import get_args

from prereg_judge.ledger.events import Event, EventName
from prereg_judge.workspace import is_id

# As `clock` writes it, in ASCII digits.
_TIME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{3}Z")
_KNOWN = frozenset([*get_args(EventName), "torn"])
# Beside `at` and `id`.
_LOCKS: dict[str, type] = {"lock": str, "registration": str, "locked_at": str}
_HOLDS: dict[str, dict[str, type]] = {
    "registered": _LOCKS,
    "amended": {**_LOCKS, "version": int, "previous": str, "reason": str},
    "withdrawn": {"reason": str, "tombstone": str},
    "run_started": {"run": int, "lock": str, "plan": str},
    "run_resumed": {"run": int, "head": str},
    "run_finished": {"run": int, "status": str, "manifest": str},
    "run_aborted": {"run": int, "reason": str},
    "scored": {"run": int, "verdict": str, "score": str},
    "stamped": {"file": str, "sha256": str, "line": int, "of": str},
}
_MAY_HOLD: dict[str, type] = {
    **dict.fromkeys(("result", "tool_source", "seen", "exposure", "prompts", "environment"), str),
    "tool": dict,
}
_IDENTITY = {"judge", "prompt", "model", "items", "files"}


def well_formed(line: Event) -> bool:
    """Whether a line of the ledger holds what an event of its name does, in its kinds.

    Its id can name a registration, and its time is one.
    """
    name = line.get("event")
    if not isinstance(name, str) or name not in _KNOWN:
        return False
    may = {key: kind for key, kind in _MAY_HOLD.items() if key in line}
    kinds = {"at": str, "id": str, **may, **_HOLDS.get(name, {})}
    if not all(type(line.get(key)) is kind for key, kind in kinds.items()):
        return False
    of_all = name in ("stamped", "torn")  # and of no registration
    named = line["id"] == "" if of_all else is_id(line["id"])  # which names files
    together = ("result" in line) == ("tool_source" in line)
    return named and _is_time(line["at"]) and together and _inputs_fit(line)


def _is_time(text: str) -> bool:
    """Whether a text is a time as this tool writes it."""
    if _TIME.fullmatch(text) is None:
        return False
    try:
        datetime.fromisoformat(text)
    except ValueError:  # there is no such day or hour
        return False
    return True


def _inputs_fit(line: Event) -> bool:
    """Whether the identity of inputs, which older lines lack, is one."""
    told, rows = line.get("inputs"), line.get("rows", [])
    if told is None:
        return True
    if not isinstance(told, dict) or told.keys() != _IDENTITY:
        return False
    lists = [rows, told["model"], *(_values(told[name]) for name in ("items", "files"))]
    fits = all(isinstance(one, list) and all(isinstance(t, str) for t in one) for one in lists)
    probe = line["event"] == "probe_started"
    return (
        fits
        and all(isinstance(told[n], str) for n in ("judge", "prompt"))
        and (not probe or "rows" in line)
    )


def _values(told: object) -> object:
    return list(told.values()) if isinstance(told, dict) else None
