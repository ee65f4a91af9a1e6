"""A backend without a model: it answers calls as stated assumptions say, for rehearsals.

Knows trials by their names only, and neither registrations nor statistics. What it answers is a
function of the entropy that it is given for a call, so it depends on no other call, but for a
repetition of what was said before (`Situation.repeat`). It waits for nothing: a simulated hang
is a `Failure` at once.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from prereg_judge.choices import Node, Path, drawn, paths, verdict_probabilities
from prereg_judge.engine.protocol import Answer, Call, Failure, GroupLost, Reply
from prereg_judge.shaping import Decoding

_SEED_BITS = 53  # the largest integers that JSON numbers hold exactly
_ROUNDING = 1e-9
NOT_JSON = "(a reply that is not JSON)"

Entropy = Callable[[str, int], np.random.Generator]


@dataclass(frozen=True)
class Situation:
    """What the simulated model makes of a call.

    Attributes
    ----------
    row
        What is judged, whatever the pass: calls of the same row may repeat each other.
    first
        Whether the call is of the first pass, which later ones may repeat.
    chances
        The chance of each verdict, aligned with the verdicts; they sum to 1. Where `repeat` is
        above 0 they are the same in every pass.
    repeat
        The chance that a call of a later pass says what the first pass said of the row, in
        [0, 1]. Nothing is repeated where the first pass said nothing.
    leading
        The place of the verdict that greedy decoding takes among those that are equally likely;
        None = the first of them.
    """

    row: str
    first: bool
    chances: tuple[float, ...]
    repeat: float = 0.0
    leading: int | None = None


@dataclass(frozen=True)
class Faults:
    """Chances per call, each in [0, 1] and together at most 1, and how long a hang is said to
    take.
    """

    hang: float = 0.0
    crash: float = 0.0
    unreadable: float = 0.0
    hang_s: float = 0.0


def leading_chance(agreement: float, n_verdicts: int) -> float:
    """The chance of a row's leading verdict where the others share the rest equally.

    Parameters
    ----------
    agreement
        The chance that two independent draws are alike, in [1 / n_verdicts, 1].
    n_verdicts
        How many verdicts there are, at least 2.

    Returns
    -------
    float
        The p in [1 / n_verdicts, 1] with p**2 + (1 - p)**2 / (n_verdicts - 1) = agreement.

    Raises
    ------
    ValueError
        If a value is outside its range.

    Notes
    -----
    Degenerate cases: 1 / n_verdicts gives verdicts that are all alike, 1 a certain one.
    """
    if n_verdicts < 2 or not 1 / n_verdicts <= agreement <= 1:
        raise ValueError(f"no row of {n_verdicts} verdicts agrees with chance {agreement!r}")
    spread = (n_verdicts - 1) * max(0.0, n_verdicts * agreement - 1)
    return min(1.0, (1 + math.sqrt(spread)) / n_verdicts)


def invented_node(
    chances: Sequence[float],
    verdicts: Sequence[str],
    decoding: Decoding,
    *,
    leading: int | None = None,
) -> Node:
    """A position at which each verdict is one token (0, 1, ...), drawn with these chances.

    The logits are such that the temperature gives the chances back; truncation may not
    (`drawn_as_stated`). Verdicts without a chance have no token. The verdict at the place
    `leading` has the first token where it is given, which greedy decoding takes among equals.
    """
    temperature = 1.0 if decoding.mode == "greedy" else decoding.temperature
    held = [i for i, p in enumerate(chances) if p > 0]
    tokens = tuple(held)
    held.sort(key=lambda i: i != leading)
    return Node(
        text="",
        mass=1.0,
        tokens=tokens,
        logits=tuple(temperature * math.log(chances[i]) for i in held),
        leads=tuple(verdicts[i] for i in held),
    )


def drawn_as_stated(chances: Sequence[float], decoding: Decoding) -> bool:
    """Whether the path `choice` draws with these chances; False where truncation cuts some off.

    Greedy decoding draws nothing, so nothing is cut.
    """
    if decoding.mode == "greedy":
        return True
    names = [str(i) for i in range(len(chances))]
    found = verdict_probabilities([invented_node(chances, names, decoding)], decoding, names)
    return all(abs(found[n] - p) <= _ROUNDING for n, p in zip(names, chances, strict=True))


@dataclass(frozen=True)
class _Draw:
    """What a verdict is drawn from; `node` and `probabilities` on the path `choice` only."""

    ways: tuple[Path, ...]
    node: Node | None = None
    probabilities: Mapping[str, float] | None = None

    @cached_property
    def verdicts(self) -> frozenset[str]:
        return frozenset(way.verdict for way in self.ways)


class SimulatedBackend:
    """Answers calls one after the other, from stated chances.

    Parameters
    ----------
    situation
        What the model makes of a call, by the call's key.
    replies
        The whole reply of each verdict, in the order of the chances.
    choosing
        Whether replies carry what the verdict was drawn from, as on the path `choice`.
    decoding
        `sampled`: each attempt has a seed of its own, out of `entropy`, whatever the call says;
        `seeded`: the call's seed, so that the same chances give the same verdict in every pass;
        `greedy`: the likeliest verdict, among equals the leading one.
    faults
        Hangs and crashes happen to attempts. An unreadable reply is the model's own: where
        decoding repeats itself, so does it.
    entropy
        Chance for a key and a number; the same for the same two.
    """

    def __init__(
        self,
        situation: Callable[[str], Situation],
        *,
        replies: Mapping[str, str],
        choosing: bool,
        decoding: Decoding,
        faults: Faults,
        entropy: Entropy,
    ) -> None:
        self._situation, self._replies, self._choosing = situation, dict(replies), choosing
        self._decoding, self._faults, self._entropy = decoding, faults, entropy
        self._made: Counter[str] = Counter()
        self._said: dict[str, str] = {}  # by row: the first pass's verdict
        self._draws: dict[tuple[tuple[float, ...], int | None], _Draw] = {}

    def start_pass(self) -> None:
        """Nothing to do: what a pass may repeat is stated, not cached."""

    def stream(self, calls: Iterator[Call]) -> Iterator[Answer | GroupLost]:
        """See `Backend`; every call is answered alone."""
        while (call := next(calls, None)) is not None:
            yield self._answer(call)

    def close(self) -> None:
        """Nothing to end."""

    def _answer(self, call: Call) -> Answer:
        self._made[call.key] += 1
        rng = self._entropy(call.key, self._made[call.key])
        at = self._situation(call.key)
        sampled = self._decoding.mode == "sampled"
        own = rng if sampled else self._entropy(at.row, 0)
        broken, spoilt = rng.random(), own.random()  # always both, so that no fault moves a draw
        if sampled:
            call = replace(call, seed=int(rng.integers(2**_SEED_BITS)))
        faults = self._faults
        if broken < faults.hang:
            return self._failed(call, Failure("hang", "simulated: no answer", faults.hang_s))
        if broken < faults.hang + faults.crash:
            return self._failed(call, Failure("crash", "simulated: the worker died", 0.0))
        left = 1 - faults.hang - faults.crash
        if spoilt * left < faults.unreadable:
            return Answer(call, self._reply(NOT_JSON, None, self._draw(at)), (call.key,))
        call, way = self._verdict(call, at, rng)
        if at.first:
            self._said[at.row] = way.verdict
        text = self._replies[way.verdict]
        return Answer(call, self._reply(text, way, self._draw(at)), (call.key,))

    @staticmethod
    def _failed(call: Call, failure: Failure) -> Answer:
        return Answer(call, failure, (call.key,))

    def _verdict(self, call: Call, at: Situation, rng: np.random.Generator) -> tuple[Call, Path]:
        """The way to a verdict, and the call with the seed that draws it."""
        draw = self._draw(at)
        way = drawn(draw.ways, call.seed)
        wanted = self._said.get(at.row)
        if self._decoding.mode != "sampled" or at.first or wanted is None:
            return call, way
        if rng.random() >= at.repeat:
            return call, way
        if wanted not in draw.verdicts:
            raise ValueError(f"{at.row} cannot repeat {wanted!r}: its chances changed")
        # A record must follow from its seeds: look for one that draws what is to be repeated.
        while way.verdict != wanted:
            call = replace(call, seed=int(rng.integers(2**_SEED_BITS)))
            way = drawn(draw.ways, call.seed)
        return call, way

    def _draw(self, at: Situation) -> _Draw:
        """What is drawn from, made once for each set of chances."""
        # Elsewhere the order of tokens stays, so that one seed draws alike on every row.
        leading = at.leading if self._decoding.mode == "greedy" else None
        chances, key = at.chances, (at.chances, leading)
        if key not in self._draws:
            verdicts = list(self._replies)
            if self._choosing:
                node = invented_node(chances, verdicts, self._decoding, leading=leading)
                probabilities = verdict_probabilities([node], self._decoding, verdicts)
                ways = tuple(paths([node], self._decoding))
                self._draws[key] = _Draw(ways, node, probabilities)
            else:
                self._draws[key] = _Draw(self._written(chances, verdicts, leading))
        return self._draws[key]

    def _written(
        self, chances: Sequence[float], verdicts: Sequence[str], leading: int | None
    ) -> tuple[Path, ...]:
        if self._decoding.mode == "greedy":
            best = max(range(len(chances)), key=lambda i: (chances[i], i == leading))
            return (Path(1.0, verdicts[best], ((0, best),)),)
        return tuple(Path(p, verdicts[i], ((0, i),)) for i, p in enumerate(chances) if p > 0)

    def _reply(self, text: str, way: Path | None, draw: _Draw) -> Reply:
        token = 0
        if way is not None:
            option = way.steps[-1][1]
            token = draw.node.tokens[option] if draw.node is not None else option
        return Reply(
            text=text,
            tokens=(token,),
            finish="complete",
            n_prompt=0,
            n_reused=0,
            n_forced=0,
            n_sampled=1,
            allowed_mass=1.0,
            seconds=0.0,
            probabilities=draw.probabilities,
            nodes=() if draw.node is None else (draw.node,),
        )
