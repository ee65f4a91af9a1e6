"""One attempt as recorded, and what each of its fields can hold."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from prereg_judge.choices import Node
from prereg_judge.words import UNSCORED, Unscored

_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")
_FINISHES = frozenset({"complete", "cap", "runaway", "thinking_cap", "no_answer"})
_LONGEST_S = 1e9


@dataclass(frozen=True)
class AttemptLine:
    """One call made for a trial.

    `text` and `tokens` are the reply as it came, None where none came; exactly one of `verdict`
    and `unscored` is set. `seconds` is the time of the call without loading the model; `at` is when
    it ended. `batch` are the plan's places of the calls that were answered together. `thought` is
    what was thought before the reply. For the path `choice`, `probabilities` are (verdict,
    probability of being drawn) and `nodes` the compared tokens that they follow from.
    """

    index: int
    trial: str
    attempt: int
    prompt: str
    seed: int | None
    verdict: str | None
    unscored: Unscored | None
    detail: str | None
    text: str | None
    seconds: float
    at: str
    tokens: tuple[int, ...] | None = None
    finish: str | None = None
    n_prompt: int | None = None
    n_reused: int | None = None
    n_forced: int | None = None
    n_sampled: int | None = None
    allowed_mass: float | None = None
    batch: tuple[int, ...] = ()
    thought: str | None = None
    n_thought: int | None = None
    probabilities: tuple[tuple[str, float], ...] | None = None
    nodes: tuple[Node, ...] | None = None


def _text(value: Any) -> bool:
    return isinstance(value, str)


def _whole(value: Any) -> bool:
    return type(value) is int and 0 <= value <= 2**53


def _wholes(value: Any) -> bool:
    return isinstance(value, tuple) and all(map(_whole, value))


def _share(value: Any) -> bool:
    return type(value) in (int, float) and 0 <= value <= 1 + 1e-9


def _number(value: Any) -> bool:
    return type(value) in (int, float) and math.isfinite(value)


def _seconds(value: Any) -> bool:
    return _number(value) and 0 <= value < _LONGEST_S


def _shares(value: Any) -> bool:
    return isinstance(value, tuple) and all(_text(name) and _share(p) for name, p in value)


def _node(node: Node) -> bool:
    """Whether a node's own fields hold what they can; where it leads is checked with the others."""
    sizes = {len(node.tokens), len(node.logits), len(node.leads)}
    return (
        _text(node.text)
        and _share(node.mass)
        and len(sizes) == 1
        and sizes != {0}
        and _wholes(node.tokens)
        and all(a < b for a, b in zip(node.tokens, node.tokens[1:], strict=False))
        and all(map(_number, node.logits))
        and all(lead is None or _text(lead) or _whole(lead) for lead in node.leads)
    )


def _nodes(value: Any) -> bool:
    """Whether nodes are a tree: each but the first is led to once, from one before it."""
    if not isinstance(value, tuple) or not value or not all(map(_node, value)):
        return False
    below = [(at, lead) for at, n in enumerate(value) for lead in n.leads if type(lead) is int]
    forward = all(at < lead for at, lead in below)
    return forward and sorted(lead for _, lead in below) == list(range(1, len(value)))


_REQUIRED: Mapping[str, Callable[[Any], bool]] = {
    "index": _whole,
    "trial": _text,
    "attempt": lambda v: _whole(v) and v > 0,
    "prompt": _text,
    "seconds": _seconds,
    "at": lambda v: _text(v) and _TIME.fullmatch(v) is not None,
    "batch": _wholes,
}
_OPTIONAL: Mapping[str, Callable[[Any], bool]] = {
    "seed": _whole,
    "verdict": _text,
    "unscored": lambda v: v in UNSCORED,
    "detail": _text,
    "text": _text,
    "tokens": _wholes,
    "finish": lambda v: _text(v) and v in _FINISHES,
    "n_prompt": _whole,
    "n_reused": _whole,
    "n_forced": _whole,
    "n_sampled": _whole,
    "allowed_mass": _share,
    "thought": _text,
    "n_thought": _whole,
    "probabilities": _shares,
    "nodes": _nodes,
}


def wrong_fields(line: AttemptLine) -> list[str]:
    """Names of the fields that hold what this tool never writes there."""
    wrong = [name for name, fits in _REQUIRED.items() if not fits(getattr(line, name))]
    for name, fits in _OPTIONAL.items():
        value = getattr(line, name)
        if value is not None and not fits(value):
            wrong.append(name)
    return wrong
