"""Answers groups of calls: brings prompts into memory once, then writes or chooses replies.

A group is at most as many calls as there are sequences, and is given by the plan. Within it each
distinct shared beginning is decoded once and copied. What a sequence still holds from the group
before is kept as far as the whole group shares it: a beginning that only some share is decoded in
a call with others', and which those are must not depend on the groups before. A group runs until
its last reply is complete, so which prompts share a decode call depends on the plan and not on
who finished first.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from prereg_judge.engine.choosing import Chooser
from prereg_judge.engine.context import Feed, Logits, Sequences
from prereg_judge.engine.llama import Model
from prereg_judge.engine.protocol import Call, Reply, SessionSettings
from prereg_judge.engine.writing import Writer, Writing
from prereg_judge.errors import EngineError, Problem


class Session:
    """A model with sequences and a constraint.

    Prompts are always decoded in the same steps (`Call.cuts`), whether or not a step can be
    skipped, so a trial's logits do not depend on the groups before it.
    """

    def __init__(self, model: Model, settings: SessionSettings) -> None:
        if settings.path == "choice" and settings.thinking is not None:
            raise EngineError(
                Problem(
                    "path `choice` scores closed replies and leaves no room for thinking",
                    remedy="register `path: generate`, or switch thinking off",
                )
            )
        self.settings = settings
        self.sequences = Sequences(model, settings.parallel)
        self._writer = Writer(model, settings)
        self._chooser = Chooser(self._writer, self.sequences, texts=settings.texts)

    def clear(self) -> None:
        """Forget everything: a new pass begins."""
        self.sequences.clear()

    def close(self) -> None:
        """Free the context."""
        self.sequences.close()

    def run(self, calls: Sequence[Call]) -> list[Reply]:
        """Answer a group of at most `parallel` calls, in their order.

        Raises
        ------
        DecodeFaultError
            If llama.cpp cannot decode, gives logits that are not numbers, or the grammar breaks.
            The memory is cleared first.
        ValueError
            If there are more calls than sequences.
        """
        if len(calls) > self.sequences.n:
            raise ValueError(f"{len(calls)} calls for {self.sequences.n} sequences")
        started = time.perf_counter()
        try:
            writings = [self._writer.begin(call, i) for i, call in enumerate(calls)]
            logits = self._read(writings)
            if self.settings.path == "choice":
                for w in writings:
                    self._chooser.choose(w, logits[w.sequence])
                    w.ended = time.perf_counter()
            else:
                self._write(writings, logits)
        except BaseException:
            self.clear()
            raise
        return [self._writer.reply(w, started=started) for w in writings]

    def _read(self, writings: Sequence[Writing]) -> dict[int, Logits]:
        """Bring every prompt into memory and return the logits after it, by sequence."""
        common = _common_cuts([w.call for w in writings])
        for w in writings:
            w.n_reused = self._reuse(w, common)
        while leaders := self._leaders(writings, common[-1] if common else 0):
            feeds = [Feed(w.sequence, w.call.tokens[self._held(w) : cut]) for w, cut, _ in leaders]
            self.sequences.decode(feeds)
            for leader, cut, followers in leaders:
                for follower in followers:
                    if self.sequences.copy(leader.sequence, follower.sequence):
                        follower.n_reused = cut
        return self._decode(
            writings, [[*w.call.tokens[self._held(w) :], *w.pending] for w in writings]
        )

    def _held(self, w: Writing) -> int:
        return len(self.sequences.held[w.sequence])

    def _reuse(self, w: Writing, cuts: Sequence[int]) -> int:
        """Keep or copy the longest beginning, up to one of `cuts`, that any sequence holds."""
        usable = [self.sequences.reusable(s, w.call.tokens, cuts) for s in range(self.sequences.n)]
        best = max(usable)
        if best > usable[w.sequence]:
            # Only a whole sequence can be copied, so one that holds more is of no use.
            for source, length in enumerate(usable):
                whole = length == best == len(self.sequences.held[source])
                if whole and self.sequences.copy(source, w.sequence):
                    return best
        own = self.sequences.reusable(w.sequence, w.call.tokens, cuts)  # none after a failed copy
        return self.sequences.keep(w.sequence, own)

    def _leaders(
        self, writings: Sequence[Writing], common: int
    ) -> list[tuple[Writing, int, list[Writing]]]:
        """For each distinct next shared beginning: who decodes it, its end, and who gets a copy.

        The `common` beginning comes first, cut by cut, whoever held how much of it before.
        """
        lowest = min(map(self._held, writings))
        if lowest < common:
            writings = [w for w in writings if self._held(w) == lowest]
        found: dict[tuple[int, ...], tuple[Writing, int, list[Writing]]] = {}
        for w in writings:
            cut = next((c for c in w.call.cuts if c > self._held(w)), None)
            if cut is None:
                continue
            key = tuple(w.call.tokens[:cut])
            if key in found:
                found[key][2].append(w)
            else:
                found[key] = (w, cut, [])
        return list(found.values())

    def _write(self, writings: Sequence[Writing], logits: dict[int, Logits]) -> None:
        """Write every reply token by token, all that are not done in each decode call."""
        for w in writings:
            self._writer.settle(w)
        while True:
            for w in writings:
                if w.finish is None:
                    self._writer.step(w, logits[w.sequence])
                if w.finish is not None and not w.ended:
                    w.ended = time.perf_counter()
            active = [w for w in writings if w.finish is None]
            if not active:
                return
            logits = self._decode(active, [w.pending for w in active])

    def _decode(
        self, writings: Sequence[Writing], tokens: Sequence[Sequence[int]]
    ) -> dict[int, Logits]:
        feeds = [Feed(w.sequence, t, want=True) for w, t in zip(writings, tokens, strict=True)]
        for w in writings:
            w.pending = []
        return self.sequences.decode(feeds)


def _common_cuts(calls: Sequence[Call]) -> tuple[int, ...]:
    """Cuts up to which all calls are the same; all cuts of a call that is alone."""
    first, common = calls[0], []
    for at, cut in enumerate(first.cuts):
        if any(
            c.cuts[at : at + 1] != (cut,) or c.tokens[:cut] != first.tokens[:cut] for c in calls
        ):
            break
        common.append(cut)
    return tuple(common)
