"""Scores every verdict from the logits after the forced text, and draws one.

A token that settles the verdict needs no decode: what follows is forced. Only where a token
leaves several verdicts open (labels that share a beginning) the walk goes on below it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from prereg_judge.choices import Lead, Node, drawn, paths
from prereg_judge.engine.context import Feed, Logits, Sequences
from prereg_judge.engine.llama import DecodeFaultError
from prereg_judge.engine.writing import Writer, Writing, scores
from prereg_judge.shaping import allowed_mass, shape

# A token that settles nothing is not followed below this probability: a decode would be spent on
# what one draw in a million could need. The rest is divided by its sum.
NEGLIGIBLE = 1e-6


@dataclass
class _Tree:
    """Nodes found so far; the tokens taken below each option that was followed."""

    nodes: list[Node | None] = field(default_factory=list)
    taken: dict[tuple[int, int], list[int]] = field(default_factory=dict)


class Chooser:
    """Chooses among closed replies; made once for a session.

    Parameters
    ----------
    texts
        Each verdict's whole reply.
    """

    def __init__(self, writer: Writer, sequences: Sequences, *, texts: Mapping[str, str]) -> None:
        self._writer, self._sequences = writer, sequences
        self._whole = {verdict: text.encode() for verdict, text in texts.items()}
        self._decoding = writer.settings.decoding

    def choose(self, w: Writing, logits: Logits) -> None:
        """Finish a reply whose forced beginning has been decoded."""
        base = len(self._sequences.held[w.sequence])
        tree = _Tree()
        self._walk(w, w.matcher, logits, tree, start=self._writer.bytes_of(w.reply), chance=1.0)
        self._sequences.keep(w.sequence, base)
        nodes = tuple(node for node in tree.nodes if node is not None)
        ways = paths(nodes, self._decoding)
        if not ways:
            raise DecodeFaultError("no verdict can be reached from what the grammar allows")
        way = drawn(ways, w.call.seed)
        for node, option in way.steps:
            token = nodes[node].tokens[option]
            w.reply += [] if token in self._writer.end else [token]
            w.reply += tree.taken.get((node, option), [])
        rest = self._whole[way.verdict][len(self._writer.bytes_of(w.reply)) :]
        w.reply += self._writer.tokens_of(rest)
        w.nodes, w.mass, w.finish = nodes, nodes[0].mass, "complete"
        w.n_sampled = len(way.steps)
        w.n_forced = len(w.reply) - w.n_sampled
        w.probabilities = dict.fromkeys(self._whole, 0.0)
        for p in ways:
            w.probabilities[p.verdict] += p.probability

    def _walk(
        self, w: Writing, matcher: Any, logits: Logits, tree: _Tree, *, start: bytes, chance: float
    ) -> int:
        """Compare the tokens allowed here, go on below those that settle nothing; this node's
        index.
        """
        index = len(tree.nodes)
        tree.nodes.append(None)
        allowed = self._writer.allowed(matcher)
        found = scores(logits, allowed)
        allowed, found = allowed[found > -np.inf], found[found > -np.inf]  # no JSON for the others
        depth = len(self._sequences.held[w.sequence])
        leads: list[Lead] = []
        for option, (token, p) in enumerate(
            zip(allowed.tolist(), shape(found, self._decoding).tolist(), strict=True)
        ):
            text = start + self._writer.bytes_of([token])
            open_to = self._open_to(start, token, text)
            if len(open_to) < 2:
                leads.append(open_to[0] if open_to else None)
            elif chance * p < NEGLIGIBLE:
                leads.append(None)
            else:
                below = matcher.deep_copy()
                self._writer.consume(below, [token])
                forced = self._writer.forced(below)
                tree.taken[index, option] = forced
                feed = Feed(w.sequence, [token, *forced], want=True)
                after = self._sequences.decode([feed])[w.sequence]
                text += self._writer.bytes_of(forced)
                leads.append(self._walk(w, below, after, tree, start=text, chance=chance * p))
                self._go_back(w, depth)
        tree.nodes[index] = Node(
            text=start.decode("utf-8", "replace"),
            mass=allowed_mass(logits, allowed),
            tokens=tuple(allowed.tolist()),
            logits=tuple(found.tolist()),
            leads=tuple(leads),
        )
        return index

    def _open_to(self, start: bytes, token: int, text: bytes) -> list[str]:
        """The verdicts that can still come after a token that makes `start` into `text`."""
        if token in self._writer.end:
            return [v for v, whole in self._whole.items() if whole == start]
        return [v for v, whole in self._whole.items() if whole.startswith(text)]

    def _go_back(self, w: Writing, depth: int) -> None:
        """Back to the first `depth` tokens of a sequence, reading them again if need be."""
        tokens = list(self._sequences.held[w.sequence][:depth])
        if self._sequences.keep(w.sequence, depth) < depth:
            self._sequences.decode([Feed(w.sequence, tokens)])
