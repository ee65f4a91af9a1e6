"""Compared tokens to verdict probabilities (pure): how `choice` draws, and what studies ask of it.

A reply whose text is closed but for its verdict is a tree: at each position where the schema
leaves a choice, the allowed tokens with the model's logits; below each token another position,
or the verdict that it settles. The probability of a verdict is the sum over every way in which
it can be spelled, each step shaped exactly as a token of free writing is (`shaping`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from prereg_judge.shaping import Decoding, draw, shape

# Where a token leads: the verdict that it settles, the index of the node below it, or nowhere
# (it settles nothing and was not followed, being dropped by truncation or negligible).
Lead = str | int | None


@dataclass(frozen=True)
class Node:
    """A position at which tokens were compared.

    Attributes
    ----------
    text
        The reply up to here.
    mass
        Probability (temperature 1) that the model gave to the allowed tokens together, in [0, 1].
    tokens
        Every allowed token id to which the model gives any probability, ascending.
    logits
        The model's 32-bit logits, unrounded, aligned with `tokens`.
    leads
        Where each token leads, aligned with `tokens`.
    """

    text: str
    mass: float
    tokens: tuple[int, ...]
    logits: tuple[float, ...]
    leads: tuple[Lead, ...]


def node_of(values: Mapping[str, Any]) -> Node:
    """A node out of its JSON form.

    Raises
    ------
    KeyError, TypeError
        If it is none.
    """
    text, mass = values["text"], values["mass"]
    tokens, logits, leads = (tuple(values[name]) for name in ("tokens", "logits", "leads"))
    return Node(text, mass, tokens, logits, leads)


@dataclass(frozen=True)
class Path:
    """One way to a verdict: its probability, and the (node, option) pairs taken."""

    probability: float
    verdict: str
    steps: tuple[tuple[int, int], ...]


def paths(nodes: Sequence[Node], decoding: Decoding) -> list[Path]:
    """Every way to a verdict that has a probability above 0, in the order of the tree.

    Parameters
    ----------
    nodes
        The compared positions; the first is the root.
    decoding
        Temperature and truncation; `greedy` leaves a single path.

    Returns
    -------
    Paths whose probabilities sum to 1: what leads nowhere is left out and the rest is divided by
    its sum. Empty if nothing leads to a verdict.
    """
    found = list(_below(nodes, decoding, 0, 1.0, ()))
    total = sum(p.probability for p in found)
    return [Path(p.probability / total, p.verdict, p.steps) for p in found] if total > 0 else []


def _below(
    nodes: Sequence[Node],
    decoding: Decoding,
    index: int,
    chance: float,
    steps: tuple[tuple[int, int], ...],
) -> Iterator[Path]:
    node = nodes[index]
    chances = shape(np.array(node.logits, dtype=np.float64), decoding)
    for option, (lead, p) in enumerate(zip(node.leads, chances, strict=True)):
        if lead is None or p == 0.0:
            continue
        taken = (*steps, (index, option))
        if isinstance(lead, str):
            yield Path(chance * float(p), lead, taken)
        else:
            yield from _below(nodes, decoding, lead, chance * float(p), taken)


def verdict_probabilities(
    nodes: Sequence[Node], decoding: Decoding, verdicts: Sequence[str]
) -> dict[str, float]:
    """The probability of each verdict, in the order of `verdicts`; they sum to 1."""
    chances = dict.fromkeys(verdicts, 0.0)
    for path in paths(nodes, decoding):
        chances[path.verdict] += path.probability
    return chances


def drawn(ways: Sequence[Path], seed: int | None) -> Path:
    """The way that a seed draws; with greedy decoding there is one way and no seed."""
    chances = np.array([way.probability for way in ways])
    return ways[draw(chances, np.random.default_rng(seed))]


def redrawn(nodes: Sequence[Node], decoding: Decoding, seed: int | None) -> Path:
    """The way to a verdict that a seed draws from compared tokens: what `choice` did, done again.

    Raises
    ------
    ValueError
        If nothing leads to a verdict.
    """
    ways = paths(nodes, decoding)
    if not ways:
        raise ValueError("no token leads to a verdict")
    return drawn(ways, seed)


def redraw(nodes: Sequence[Node], decoding: Decoding, seed: int | None) -> str:
    """The verdict of `redrawn`."""
    return redrawn(nodes, decoding, seed).verdict
