"""Sequences in llama.cpp's memory: decode, keep a beginning, copy, clear.

Each sequence has a cache of its own (`kv_unified` off): with a shared cache a trial's verdict
depends on its neighbours. Knows tokens and logits, not prompts or replies. One thread owns it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import llama_cpp as lib
import numpy as np
from numpy.typing import NDArray

from prereg_judge.engine.llama import DecodeFaultError, Model, usable_threads
from prereg_judge.errors import EngineError, Problem

Logits = NDArray[np.float32]

# On a CPU, a stretch of more tokens than this is decoded by itself: reading is bound by
# arithmetic there, and llama.cpp cuts stretches of unequal length that share a call into many
# small ones. Besides, a prompt is then read as it would be alone, to the last digit.
_SHORT = 8


@dataclass(frozen=True)
class Feed:
    """Tokens to be decoded after what a sequence holds; `want` asks for the last one's logits."""

    sequence: int
    tokens: Sequence[int]
    want: bool = False


class Sequences:
    """`n` sequences of one model, with the tokens that each holds and the steps that made them.

    Parameters
    ----------
    model
        A loaded model; its `n_ctx` is the length of each sequence.
    n
        How many sequences.

    Raises
    ------
    EngineError
        If llama.cpp cannot make the context.
    """

    def __init__(self, model: Model, n: int) -> None:
        self.model, self.n = model, n
        spec = model.spec
        params = lib.llama_context_default_params()
        params.n_ctx = spec.n_ctx * n  # llama.cpp divides it among the sequences
        params.n_batch = spec.n_batch
        params.n_ubatch = min(spec.n_batch, 512)
        params.n_seq_max = n
        params.n_threads = params.n_threads_batch = spec.n_threads or usable_threads()
        params.kv_unified = False
        params.swa_full = True  # a shortened window would silently forget a reused beginning
        params.no_perf = True
        self._ctx = lib.llama_init_from_model(model._model, params)
        if not bool(self._ctx):
            raise EngineError(
                Problem(
                    "llama.cpp cannot make a context: most likely memory is short",
                    file=spec.path,
                    found=f"n_ctx: {spec.n_ctx}, sequences: {n}",
                    remedy="register a smaller n_ctx or parallel, or fewer layers on the GPU",
                )
            )
        self._memory = lib.llama_get_memory(self._ctx)
        raw = model._model
        self._whole_only = bool(lib.llama_model_is_recurrent(raw) or lib.llama_model_is_hybrid(raw))
        # Kept as attributes: llama.cpp holds only pointers to them.
        self._abort = lib.ggml_abort_callback(self._on_node)
        lib.llama_set_abort_callback(self._ctx, self._abort, None)
        self._n_batch: int = lib.llama_n_batch(self._ctx)  # a short context has a smaller one
        self._batch = lib.llama_batch_init(self._n_batch, 0, 1)
        self.held: list[list[int]] = [[] for _ in range(n)]
        self._edges: list[list[int]] = [[] for _ in range(n)]  # where a step of `held` ended

    def _on_node(self, _data: Any) -> bool:
        self.model._beat()
        return False

    def close(self) -> None:
        """Free the context and its memory."""
        if self._ctx is not None:
            lib.llama_batch_free(self._batch)
            lib.llama_free(self._ctx)
            self._ctx = None

    def clear(self) -> None:
        """Forget every sequence."""
        lib.llama_memory_clear(self._memory, True)
        self.held = [[] for _ in range(self.n)]
        self._edges = [[] for _ in range(self.n)]

    def reuses(self, sequence: int) -> bool:
        """Whether a beginning of what a sequence holds may serve another prompt.

        Not with recurrent and hybrid models, which cannot go back, nor where a sliding window has
        forgotten the start. Every prompt is then read from its beginning.
        """
        if self._whole_only:
            return False
        return int(lib.llama_memory_seq_pos_min(self._memory, sequence)) == 0

    def reusable(self, sequence: int, tokens: Sequence[int], cuts: Sequence[int]) -> int:
        """Length of the longest beginning of a prompt that a sequence holds, ending at a cut.

        One that was decoded in other steps than `cuts` says is not the same to the last digit,
        and does not count. 0 where nothing may be reused (`reuses`).
        """
        if not (cuts and self.held[sequence] and self.reuses(sequence)):
            return 0
        held, edges = self.held[sequence], self._edges[sequence]
        best = 0
        for at, cut in enumerate(cuts):
            if edges[at : at + 1] != [cut] or held[best:cut] != list(tokens[best:cut]):
                break
            best = cut
        return best

    def keep(self, sequence: int, length: int) -> int:
        """Drop all but the first `length` tokens of a sequence; return how many are left.

        That is `length`, or 0: where a part cannot be dropped the sequence is emptied.
        """
        if length == len(self.held[sequence]):
            return length
        whole = (
            length > 0
            and self.reuses(sequence)
            and lib.llama_memory_seq_rm(self._memory, sequence, length, -1)
            and self._complete(sequence, length)
        )
        if not whole:
            lib.llama_memory_seq_rm(self._memory, sequence, -1, -1)
            length = 0
        self.held[sequence] = self.held[sequence][:length]
        self._edges[sequence] = [e for e in self._edges[sequence] if e <= length]
        return length

    def copy(self, source: int, target: int) -> bool:
        """Make `target` hold what `source` holds; whether it does, for else it is empty."""
        lib.llama_memory_seq_rm(self._memory, target, -1, -1)
        self.held[target], self._edges[target] = [], []
        if not self.reuses(source):
            return False
        lib.llama_memory_seq_cp(self._memory, source, target, -1, -1)
        if not self._complete(target, len(self.held[source])):
            lib.llama_memory_seq_rm(self._memory, target, -1, -1)
            return False
        self.held[target] = list(self.held[source])
        self._edges[target] = list(self._edges[source])
        return True

    def _complete(self, sequence: int, length: int) -> bool:
        """Whether llama.cpp holds positions 0 to `length` - 1 of a sequence, and no others."""
        first = lib.llama_memory_seq_pos_min(self._memory, sequence)
        last = lib.llama_memory_seq_pos_max(self._memory, sequence)
        return (first, last) == (0, length - 1)

    def decode(self, feeds: Sequence[Feed]) -> dict[int, Logits]:
        """Decode feeds together, in pieces of at most `n_batch` tokens.

        Returns
        -------
        Logits of the last token of each feed that wants them, by sequence; float32, one a
        vocabulary entry, a copy.

        Raises
        ------
        DecodeFaultError
            If llama.cpp fails, or logits are not finite. The memory is cleared first, because a
            failed call leaves a part of the batch behind.
        """
        wanted: dict[int, Logits] = {}
        try:
            for piece in self._pieces(feeds):
                self._decode_piece(piece, wanted)
        except DecodeFaultError:
            self.clear()
            raise
        for feed in feeds:
            self._edges[feed.sequence].append(len(self.held[feed.sequence]))
        return wanted

    def _pieces(self, feeds: Sequence[Feed]) -> list[list[tuple[int, int, bool]]]:
        """Rows (sequence, token, wanted) of each call; a feed is cut as it would be alone."""
        size = self._n_batch
        most = size if self.model.spec.n_gpu_layers else min(_SHORT, size)
        together: list[list[tuple[int, int, bool]]] = [[]]
        pieces = []
        for feed in feeds:
            last = len(feed.tokens) - 1
            rows = [(feed.sequence, t, feed.want and i == last) for i, t in enumerate(feed.tokens)]
            if len(rows) > most:
                pieces += [rows[start : start + size] for start in range(0, len(rows), size)]
            elif len(together[-1]) + len(rows) > size:
                together.append(rows)
            else:
                together[-1] += rows
        return pieces + [piece for piece in together if piece]

    def _decode_piece(
        self, rows: Sequence[tuple[int, int, bool]], wanted: dict[int, Logits]
    ) -> None:
        batch = self._batch
        batch.n_tokens = len(rows)
        for i, (sequence, token, want) in enumerate(rows):
            held = self.held[sequence]
            batch.token[i] = token
            batch.pos[i] = len(held)
            batch.n_seq_id[i] = 1
            batch.seq_id[i][0] = sequence
            batch.logits[i] = want
            held.append(token)
        code = lib.llama_decode(self._ctx, batch)
        if code != 0:
            raise DecodeFaultError(f"llama_decode returned {code}")
        self.model._beat()
        for i, (sequence, _, want) in enumerate(rows):
            if want:
                wanted[sequence] = self._logits(i)

    def _logits(self, index: int) -> Logits:
        pointer = lib.llama_get_logits_ith(self._ctx, index)
        logits: Logits = np.ctypeslib.as_array(pointer, (self.model.n_vocab,)).copy()
        if not np.isfinite(logits.max()):  # the maximum of numbers and a NaN is a NaN
            raise DecodeFaultError("the model gave logits that are not finite")
        return logits
