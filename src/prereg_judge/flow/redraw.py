"""Whether an attempt is one that the engine can have made: draws are made again from what they
were made of.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

from prereg_judge.choices import redrawn, verdict_probabilities
from prereg_judge.record.attempt import AttemptLine
from prereg_judge.shaping import Decoding

_ROUNDING = 1e-9  # of probabilities that are computed again on another machine


def attempt_fault(
    line: AttemptLine,
    *,
    path: Literal["generate", "choice"],
    decoding: Decoding,
    seed: int | None,
    verdicts: Sequence[str],
) -> str | None:
    """What this tool cannot have written about an attempt, in words; None where nothing is.

    On the path `choice` the verdict follows from the recorded logits, the registered decoding and
    the recorded seed. What a model of free writing would have written can be known from the
    model only. `seed` is the registered one; None where each attempt has its own, or none.
    """
    replied = line.text is not None and line.tokens is not None and line.finish is not None
    if line.verdict is not None and not replied:
        return "a verdict has no reply behind it"
    if (line.seed is not None) != (decoding.mode != "greedy"):
        return "the seed does not fit the decoding"
    if seed is not None and line.seed != seed:
        return "the recorded seed is not the registered one"
    given = (line.nodes is not None, line.probabilities is not None)
    if path == "generate":
        return "was chosen among verdicts, on the path `generate`" if any(given) else None
    if not replied:
        return None
    if not all(given):
        return "lacks what its verdict was drawn from"
    return _not_drawn(line, decoding, verdicts)


# Why an attempt can have no reply; a server's reply may also be none that could be read.
_NO_REPLY = frozenset({"hang", "crash", "http"})


def reply_fault(
    line: AttemptLine, *, served: bool, thinks: bool, parallel: int, n_trials: int
) -> str | None:
    """What of an attempt does not fit how it was made, in words; None where all does.

    `parallel` is the most that can have been answered together, `thinks` whether thinking is
    registered.
    """
    replied = line.text is not None
    if not replied and line.unscored not in (_NO_REPLY | ({"unreadable"} if served else set())):
        return f"has no reply, which the reason {line.unscored} does not explain"
    if replied and line.unscored in _NO_REPLY:
        return f"has a reply, which the reason {line.unscored} denies"
    if line.index not in line.batch or not 1 <= len(line.batch) <= parallel:
        return "says that it was answered with others than it can have been"
    if len(set(line.batch)) < len(line.batch) or max(line.batch) >= n_trials:
        return "says that it was answered with others than it can have been"
    if not served and line.thought is not None and not thinks:
        return "has thoughts, and no thinking is registered"
    return None


def _not_drawn(line: AttemptLine, decoding: Decoding, verdicts: Sequence[str]) -> str | None:
    nodes, told = line.nodes or (), dict(line.probabilities or ())
    try:
        if any(type(lead) is str and lead not in verdicts for n in nodes for lead in n.leads):
            raise ValueError("a lead is no verdict")
        expected = verdict_probabilities(nodes, decoding, verdicts)
        drawn = redrawn(nodes, decoding, line.seed)
        follows = told.keys() == expected.keys() and all(
            math.isclose(told[v], p, rel_tol=0, abs_tol=_ROUNDING) for v, p in expected.items()
        )
    except (ValueError, IndexError, KeyError, TypeError, ArithmeticError, RecursionError):
        return "what its verdict was drawn from cannot be read: it was edited"
    if not follows:
        return "the recorded probabilities do not follow from the recorded logits"
    if drawn.verdict != line.verdict:
        return "the recorded verdict is not what the recorded seed draws"
    if not (line.text or "").startswith(nodes[drawn.steps[-1][0]].text):
        return "the recorded reply does not begin as what was compared does"
    taken = [nodes[node].tokens[option] for node, option in drawn.steps]
    rest = iter(line.tokens or ())
    if not all(token in rest for token in taken):
        return "the recorded tokens are not those that the recorded seed draws"
    if line.allowed_mass != nodes[0].mass:
        return "the recorded mass is not that of the compared tokens"
    return None
