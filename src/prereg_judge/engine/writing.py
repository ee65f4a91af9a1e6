"""One reply in the making, token by token, under a grammar; thinking before it, if any.

Knows logits and tokens; which sequence they belong to and when they are decoded is the session's
business.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import llguidance
import llguidance.numpy
import numpy as np

from prereg_judge.choices import Node
from prereg_judge.engine.context import Logits
from prereg_judge.engine.llama import DecodeFaultError, Model, compile_constraint
from prereg_judge.engine.protocol import Call, Finish, Reply, SessionSettings
from prereg_judge.shaping import Floats, Ids, allowed_mass, pick

_REPEATS = 4  # so many copies of a stretch at a reply's end make it a runaway
_LONGEST_STRETCH = 32
_LONGEST_MARK = 32  # tokens in which the end of thinking is looked for


@dataclass
class Writing:
    """What is known of one reply so far.

    `pending` are tokens taken and not yet decoded; `finish` is None while it is not done.
    """

    call: Call
    sequence: int
    matcher: Any
    rng: np.random.Generator
    reply: list[int] = field(default_factory=list)
    thought: list[int] = field(default_factory=list)
    thinking: bool = False
    pending: list[int] = field(default_factory=list)
    n_reused: int = 0
    n_forced: int = 0
    n_sampled: int = 0
    mass: float | None = None
    nodes: tuple[Node, ...] = ()
    probabilities: dict[str, float] | None = None
    finish: Finish | None = None
    ended: float = 0.0


class Writer:
    """Draws tokens under a grammar; made once for a session."""

    def __init__(self, model: Model, settings: SessionSettings) -> None:
        self.settings, self._model = settings, model
        self._n_vocab = model.n_vocab
        self._tokenizer = model.ll_tokenizer()
        self.end = frozenset(model.end_tokens())
        grammar = compile_constraint(settings.constraint)
        self._matcher = llguidance.LLMatcher(self._tokenizer, grammar)
        self._mask = llguidance.numpy.allocate_token_bitmask(1, self._tokenizer.vocab_size)
        thinking = settings.thinking
        self._start = model.tokenize(thinking.start) if thinking else []

    def begin(self, call: Call, sequence: int) -> Writing:
        """A reply with nothing drawn yet; what the grammar forces at its start is pending."""
        matcher = self._matcher.deep_copy()
        writing = Writing(call, sequence, matcher, np.random.default_rng(call.seed))
        if self.settings.thinking is None:
            self.take_forced(writing)
            return writing
        writing.thinking = True
        already = list(call.tokens[-len(self._start) :]) == self._start if self._start else True
        writing.pending = [] if already else list(self._start)
        return writing

    def step(self, w: Writing, logits: Logits) -> None:
        """Draw one token from the logits after what has been decoded."""
        if w.thinking:
            self._think(w, logits)
        else:
            self._sample(w, logits)
        self.settle(w)

    def settle(self, w: Writing) -> None:
        """Say how a reply finished, if it needs no further token."""
        cap = self.settings.max_tokens
        if w.finish is not None or w.thinking:
            return
        if len(w.reply) > cap:
            w.reply = w.reply[:cap]
            w.finish = _at_the_cap(w.reply)
        elif w.matcher.is_stopped():
            w.finish = "complete"
        elif len(w.reply) == cap:
            w.finish = _at_the_cap(w.reply)

    def _sample(self, w: Writing, logits: Logits) -> None:
        allowed = self.allowed(w.matcher)
        if w.mass is None:
            w.mass = allowed_mass(logits, allowed)
        token = int(allowed[pick(scores(logits, allowed), self.settings.decoding, w.rng)])
        w.n_sampled += 1
        if token in self.end:
            w.finish = "complete"
            return
        self.consume(w.matcher, [token])
        w.reply.append(token)
        w.pending = [token]
        self.take_forced(w)

    def _think(self, w: Writing, logits: Logits) -> None:
        """Draw one unconstrained token of thinking; end it at its mark or at its cap."""
        thinking = self.settings.thinking
        assert thinking is not None
        token = pick(logits.astype(np.float64), self.settings.decoding, w.rng)
        if token in self.end:
            w.finish = "no_answer"
            return
        w.thought.append(token)
        w.pending = [token]
        if thinking.end in self._model.spell(w.thought[-_LONGEST_MARK:]):
            w.thinking = False
            self.take_forced(w)
        elif len(w.thought) >= thinking.max_tokens:
            w.finish = "thinking_cap"

    def take_forced(self, w: Writing) -> None:
        """Take the tokens that the grammar leaves no choice about, without a draw."""
        forced = self.forced(w.matcher)
        w.n_forced += len(forced)
        w.reply += forced
        w.pending += forced

    def forced(self, matcher: Any) -> list[int]:
        """Let the grammar go on while it leaves no choice; the tokens so taken."""
        tokens = list(matcher.compute_ff_tokens())
        if tokens:
            self.consume(matcher, tokens)
        return tokens

    def consume(self, matcher: Any, tokens: Sequence[int]) -> None:
        """Tell the grammar what was written."""
        if not matcher.consume_tokens(list(tokens)):
            raise DecodeFaultError(f"the grammar failed: {matcher.get_error()}")

    def allowed(self, matcher: Any) -> Ids:
        """Ids of the tokens that the grammar allows next, ascending; never empty."""
        llguidance.numpy.fill_next_token_bitmask(matcher, self._mask)
        bits = np.unpackbits(self._mask[0].view(np.uint8), bitorder="little")
        allowed = np.flatnonzero(bits[: self._n_vocab])
        if not len(allowed):
            raise DecodeFaultError(f"the grammar allows no token: {matcher.get_error()}")
        return allowed

    def bytes_of(self, tokens: Sequence[int]) -> bytes:
        """The bytes that tokens stand for."""
        return bytes(self._tokenizer.decode_bytes(list(tokens)))

    def tokens_of(self, text: bytes) -> list[int]:
        """Tokens that spell plain text, which may begin in the middle of a character."""
        return list(self._tokenizer.tokenize_bytes(text))

    def text(self, tokens: Sequence[int]) -> str:
        """The text that tokens stand for; bytes that are no UTF-8 become U+FFFD."""
        return self.bytes_of(tokens).decode("utf-8", "replace")

    def reply(self, w: Writing, *, started: float) -> Reply:
        """What came of it; `started` as `time.perf_counter` told."""
        return Reply(
            text=self.text(w.reply),
            tokens=tuple(w.reply),
            finish=w.finish or "complete",
            n_prompt=len(w.call.tokens),
            n_reused=w.n_reused,
            n_forced=w.n_forced,
            n_sampled=w.n_sampled,
            n_thought=len(w.thought),
            allowed_mass=w.mass,
            seconds=w.ended - started,
            thought=self._model.spell(w.thought) if self.settings.thinking else None,
            probabilities=w.probabilities,
            nodes=w.nodes,
        )


def scores(logits: Logits, allowed: Ids) -> Floats:
    """Logits of the allowed tokens.

    Raises
    ------
    DecodeFaultError
        If all of them are minus infinity: there is nothing to draw from.
    """
    found = logits[allowed].astype(np.float64)
    if found.max() == -np.inf:
        raise DecodeFaultError("the model gives no allowed token any probability")
    return np.asarray(found, dtype=np.float64)


def _at_the_cap(reply: Sequence[int]) -> Finish:
    """`runaway` where the reply ends in copies of one stretch, `cap` where it was still saying
    something.
    """
    tail = list(reply)
    for size in range(1, _LONGEST_STRETCH + 1):
        stretch = tail[-size:]
        if len(tail) >= size * _REPEATS and tail[-size * _REPEATS :] == stretch * _REPEATS:
            return "runaway"
    return "cap"
