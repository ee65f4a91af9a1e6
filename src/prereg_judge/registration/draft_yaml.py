"""Writes values as YAML, each key under its comment, and quotes what could be misread."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from prereg_judge.strict_yaml import plain_is_text

_PLAIN = re.compile(r"[A-Za-z](?:[A-Za-z0-9 ._/-]*[A-Za-z0-9._/-])?")
# What a JSON string may hold as it is and YAML may not, or not for every reader.
_ESCAPED = re.compile("[\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff\ufffe\uffff]")


def scalar(value: object) -> str:
    """A text, number, truth value or null as YAML that is read back as the very same."""
    if isinstance(value, str):
        if _PLAIN.fullmatch(value) and plain_is_text(value):
            return value
        quoted = json.dumps(value, ensure_ascii=False)
        return _ESCAPED.sub(lambda m: f"\\u{ord(m.group()):04x}", quoted)
    return json.dumps(value)


def flow(value: Any) -> str:
    """A value in one line: `{id: agree, between: [58, 68]}`."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{scalar(k)}: {flow(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(flow, value)) + "]"
    return scalar(value)


def entry(key: str, value: Any, note: str, *, indent: int = 0, hint: str | None = None) -> str:
    """A key under its comment; where the value is None, a placeholder that says what to write."""
    text = flow(f"TODO: {hint or note}" if value is None else value)
    pad = " " * indent
    return f"{pad}# {note}\n{pad}{key}: {text}\n"


def option(key: str, value: Any, note: str, *, indent: int = 0, example: str) -> str:
    """A key that may be left out: as a comment where it has no value."""
    pad = " " * indent
    if value is None:
        return f"{pad}# Optional. {note}\n{pad}# {key}: {example}\n"
    return f"{pad}# {note}\n{pad}{key}: {flow(value)}\n"
