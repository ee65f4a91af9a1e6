"""Reads the short forms of settings on the command line: decoding, time limits, arms."""

from __future__ import annotations

import re
from typing import Any

from prereg_judge.registration.scanner import NAME, Scanner, whole
from prereg_judge.strict_yaml import MAX_INT

_DRAWN = ("temperature", "top_k", "top_p", "min_p")
_MODE_KEYS = {"sampled": _DRAWN, "seeded": ("seed", *_DRAWN), "greedy": ()}
_SECONDS = {"": 1, "s": 1, "m": 60, "min": 60}

_DECODING_EXAMPLE = "sampled,temperature=0.8,top_k=40,top_p=0.95,min_p=0.05"
_OFF = "top_k=0, top_p=1 and min_p=0 are off"
_HANG_EXAMPLE = "120s,retries=1,heartbeat=30s"
_ARM_EXAMPLE = "path=choice,prefix=shared,parallel=4"
_ARM_WORDS = ("path", "prefix")
_ARM_NUMBERS = ("parallel", "n_gpu_layers", "n_threads", "n_batch")


def parse_decoding(text: str, *, option: str = "--decoding") -> dict[str, Any]:
    """`greedy`, or `sampled,temperature=0.8,...`, as the mapping under `decoding`."""
    scan = Scanner(text, option=option, example=_DECODING_EXAMPLE)
    mode = scan.take(NAME)
    if mode is None or mode.group() not in _MODE_KEYS:
        scan.at = 0
        scan.fail("expected sampled, seeded or greedy")
    known = _MODE_KEYS[mode.group()]
    settings: dict[str, Any] = {"mode": mode.group()}
    while scan.word(","):
        key, start = scan.take(NAME), scan.at
        if key is None or key.group() not in known or key.group() in settings:
            scan.at = start - (len(key.group()) if key else 0)
            takes = f"takes each of {', '.join(known)} once" if known else "takes no settings"
            scan.fail(f"{mode.group()} {takes}, not what stands")
        if not scan.word("="):
            scan.fail("expected `=`")
        settings[key.group()] = scan.number()
    scan.end()
    missing = [k for k in known if k not in settings]
    if missing:
        scan.fail(f"{mode.group()} also needs {', '.join(missing)}", _OFF)
    return settings


def parse_hang(text: str, *, option: str = "--hang") -> dict[str, Any]:
    """`120s,retries=1[,heartbeat=30s]` as the mapping under `hang`; s and m are known units."""
    scan = Scanner(text, option=option, example=_HANG_EXAMPLE)
    settings: dict[str, Any] = {"call_timeout_s": _duration(scan)}
    while scan.word(","):
        start = scan.at
        key = scan.take(NAME)
        name = key.group() if key else ""
        if name not in ("retries", "heartbeat") or {name, f"{name}_s"} & settings.keys():
            scan.at = start
            scan.fail("expected retries or heartbeat, each once")
        if not scan.word("="):
            scan.fail("expected `=`")
        if name == "retries":
            settings["retries"] = whole(scan)
        else:
            settings["heartbeat_s"] = _duration(scan)
    scan.end()
    if "retries" not in settings:
        scan.fail("also needs retries=N")
    return settings


def parse_arm(text: str, *, option: str = "--arm") -> dict[str, Any]:
    """`path=choice,prefix=shared,parallel=4` as one entry under `arms`; each key at most once."""
    scan = Scanner(text, option=option, example=_ARM_EXAMPLE)
    settings: dict[str, Any] = {}
    while True:
        start = scan.at
        key = scan.take(NAME)
        name = key.group() if key else ""
        if name not in (*_ARM_WORDS, *_ARM_NUMBERS) or name in settings:
            scan.at = start
            scan.fail(f"expected one of {', '.join((*_ARM_WORDS, *_ARM_NUMBERS))}, each once")
        if not scan.word("="):
            scan.fail("expected `=`")
        if name in _ARM_NUMBERS:
            settings[name] = _number(scan)
        else:
            word = scan.take(NAME)
            settings[name] = word.group() if word else scan.fail("expected a word")
        if not scan.word(","):
            scan.end()
            return settings


def _number(scan: Scanner) -> int:
    """A whole number that may be below 0, as in `n_gpu_layers=-1`."""
    start = scan.at
    value = scan.number()
    if not isinstance(value, int):
        scan.at = start
        scan.fail("expected a whole number")
    return value


_DURATION = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*(s|min|m)?(?![\w.])")


def _duration(scan: Scanner) -> int | float:
    match = scan.take(_DURATION)
    if match is None:
        scan.fail("expected seconds, such as 120s or 2m")
    text, unit = match.groups()
    value = (float(text) if "." in text else int(text)) * _SECONDS[unit or ""]
    if not 0 < value <= MAX_INT:
        scan.at = match.start()
        scan.fail("expected a time above 0")
    return value
