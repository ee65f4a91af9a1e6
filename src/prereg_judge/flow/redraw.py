"""Whether an attempt is one that the engine can have made: draws are made again from what they
were made of.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

from prereg_judge.choices import Node, redraw, verdict_probabilities
from prereg_judge.record.run import AttemptLine
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
    if line.allowed_mass is not None and not _is_share(line.allowed_mass):
        return "the recorded mass is none: it was edited"
    given = (line.nodes is not None, line.probabilities is not None)
    if path == "generate":
        return "was chosen among verdicts, on the path `generate`" if any(given) else None
    if not replied:
        return None
    if not all(given):
        return "lacks what its verdict was drawn from"
    return _not_drawn(line, decoding, verdicts)


def _not_drawn(line: AttemptLine, decoding: Decoding, verdicts: Sequence[str]) -> str | None:
    nodes, told = line.nodes or (), dict(line.probabilities or ())
    try:
        _refuse_no_tree(nodes)
        expected = verdict_probabilities(nodes, decoding, verdicts)
        drawn = redraw(nodes, decoding, line.seed)
        follows = told.keys() == expected.keys() and all(
            math.isclose(told[v], p, rel_tol=0, abs_tol=_ROUNDING) for v, p in expected.items()
        )
    except (ValueError, IndexError, KeyError, TypeError, ArithmeticError, RecursionError):
        return "what its verdict was drawn from cannot be read: it was edited"
    if not follows:
        return "the recorded probabilities do not follow from the recorded logits"
    if drawn != line.verdict:
        return "the recorded verdict is not what the recorded seed draws"
    if line.allowed_mass != nodes[0].mass:
        return "the recorded mass is not that of the compared tokens"
    return None


def _refuse_no_tree(nodes: Sequence[Node]) -> None:
    """Raise `ValueError` unless every node is led to once, from one before it: edited nodes could
    lead in circles, or to the same node in more ways than can be counted.
    """
    below = [(at, lead) for at, n in enumerate(nodes) for lead in n.leads if type(lead) is int]
    if any(lead <= at for at, lead in below) or len({lead for _, lead in below}) < len(below):
        raise ValueError("the nodes are no tree")


def _is_share(value: object) -> bool:
    return isinstance(value, int | float) and 0 <= value <= 1 + _ROUNDING
