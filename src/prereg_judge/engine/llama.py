"""A model held in this process, over llama-cpp-python's low-level interface.

The high-level class is not used: it replaces a seed of 0, derives unseeded draws from the last
one, falls back to any JSON when a schema cannot be converted, and gives models without a chat
template another one. One thread owns the context; the worker process has only that thread.
"""

from __future__ import annotations

import ctypes
import os
import time
from collections.abc import Callable, Sequence
from typing import Any

import llama_cpp as lib
import llguidance
import llguidance.llamacpp
import llguidance.numpy
import numpy as np
import psutil
from numpy.typing import NDArray

from prereg_judge.engine.protocol import (
    Call,
    Constraint,
    Decoding,
    ModelFacts,
    ModelSpec,
    Reply,
)
from prereg_judge.engine.sampling import Ids, allowed_mass, draw, shape
from prereg_judge.errors import EngineError, Problem

_META_BUFFER = 1 << 16


class DecodeFaultError(Exception):
    """The model could not compute: a failed decode, or logits that are not numbers."""


def usable_threads() -> int:
    """Physical cores that this process may run on (at least 1)."""
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return max(1, min(psutil.cpu_count(logical=False) or 1, allowed or 1))


class Model:
    """A GGUF file loaded by llama.cpp: its facts and its tokenizer; with a context, its logits.

    Parameters
    ----------
    spec
        What to load.
    beat
        Called many times during every decode (once a graph node on the CPU), so that a watcher
        can tell work from a hang.

    Raises
    ------
    EngineError
        If the file is not a GGUF that llama.cpp can load whole, or layers are to be offloaded
        and this build cannot.
    """

    def __init__(self, spec: ModelSpec, *, beat: Callable[[], None]) -> None:
        self.spec = spec
        self._beat = beat
        lib.llama_backend_init()
        if spec.n_gpu_layers != 0 and spec.weights and not lib.llama_supports_gpu_offload():
            raise EngineError(
                Problem(
                    "layers are to be offloaded, but this llama.cpp build has no GPU support",
                    found=f"n_gpu_layers: {spec.n_gpu_layers}",
                    remedy="register n_gpu_layers: 0, or rebuild llama-cpp-python for the GPU "
                    "(README, GPU build)",
                )
            )
        params = lib.llama_model_default_params()
        params.n_gpu_layers = spec.n_gpu_layers
        params.check_tensors = spec.weights
        if not spec.weights:
            params.no_alloc = True
            params.load_mode = lib.LLAMA_LOAD_MODE_NONE
        self._model = lib.llama_model_load_from_file(os.fsencode(spec.path), params)
        if not bool(self._model):
            raise EngineError(
                Problem(
                    "llama.cpp cannot load the file: it is not a GGUF model, or is truncated or "
                    "damaged",
                    file=spec.path,
                    remedy="fetch the file again and compare its SHA-256 with the publisher's",
                )
            )
        self._vocab = lib.llama_model_get_vocab(self._model)
        self.n_vocab: int = lib.llama_vocab_n_tokens(self._vocab)

    def facts(self) -> ModelFacts:
        """What the file says of itself."""
        model, vocab = self._model, self._vocab
        template = lib.llama_model_chat_template(model, None)
        metadata = self._metadata()
        buffer = ctypes.create_string_buffer(256)
        lib.llama_model_desc(model, buffer, len(buffer))
        control = (t for t in range(self.n_vocab) if lib.llama_vocab_is_control(vocab, t))
        return ModelFacts(
            path=self.spec.path,
            architecture=metadata.get("general.architecture", "unknown"),
            description=buffer.value.decode("utf-8", "replace"),
            n_params=lib.llama_model_n_params(model),
            n_bytes=lib.llama_model_size(model),
            n_ctx_train=lib.llama_model_n_ctx_train(model),
            n_vocab=self.n_vocab,
            chat_template=template.decode("utf-8") if template else None,
            bos=self._text(lib.llama_vocab_bos(vocab)),
            eos=self._text(lib.llama_vocab_eos(vocab)),
            add_bos=bool(lib.llama_vocab_get_add_bos(vocab)),
            bos_id=lib.llama_vocab_bos(vocab),
            sliding_window=lib.llama_model_n_swa(model),
            recurrent=bool(lib.llama_model_is_recurrent(model) or lib.llama_model_is_hybrid(model)),
            control_texts=tuple(sorted({self._text(t) for t in control} - {""})),
            metadata=metadata,
        )

    def _metadata(self) -> dict[str, str]:
        found = {}
        key, value = (ctypes.create_string_buffer(_META_BUFFER) for _ in range(2))
        for index in range(lib.llama_model_meta_count(self._model)):
            lib.llama_model_meta_key_by_index(self._model, index, key, _META_BUFFER)
            lib.llama_model_meta_val_str_by_index(self._model, index, value, _META_BUFFER)
            found[key.value.decode("utf-8", "replace")] = value.value.decode("utf-8", "replace")
        return found

    def _text(self, token: int) -> str:
        if token < 0:
            return ""
        text = lib.llama_vocab_get_text(self._vocab, token)
        return text.decode("utf-8", "replace") if text else ""

    def tokenize(self, text: str) -> list[int]:
        """Token ids of a rendered prompt: control tokens are read, no BOS is added.

        The template writes the BOS itself where the model wants one.
        """
        data = text.encode("utf-8")
        n_max = len(data) + 8
        buffer = (lib.llama_token * n_max)()
        n = lib.llama_tokenize(self._vocab, data, len(data), buffer, n_max, False, True)
        if n < 0:
            raise DecodeFaultError(f"the tokenizer refused a text of {len(data)} bytes ({n})")
        return list(buffer[:n])

    def spell(self, tokens: Sequence[int]) -> str:
        """The text that token ids stand for; bytes that are no UTF-8 become U+FFFD."""
        size, pieces = 256, []
        buffer = ctypes.create_string_buffer(size)
        for token in tokens:
            n = lib.llama_token_to_piece(self._vocab, token, buffer, size, 0, True)
            pieces.append(buffer.raw[: max(n, 0)])
        return b"".join(pieces).decode("utf-8", "replace")

    def end_tokens(self) -> list[int]:
        """Every token that ends a reply."""
        return [t for t in range(self.n_vocab) if lib.llama_vocab_is_eog(self._vocab, t)]

    def ll_tokenizer(self) -> Any:
        """llguidance's view of this vocabulary (about half a second to make)."""
        return llguidance.llamacpp.lltokenizer_from_vocab(
            self._vocab, eos_token=self.end_tokens() or None
        )


def compile_constraint(constraint: Constraint) -> str:
    """Compile a constraint to llguidance's grammar.

    No whitespace is free: endless whitespace is a known way for a judge to run away.

    Raises
    ------
    EngineError
        If the schema has a keyword that the grammar cannot express.
    """
    try:
        grammar = llguidance.LLMatcher.grammar_from_json_schema(
            dict(constraint.schema),
            overrides={
                "whitespace_flexible": False,
                "item_separator": constraint.item_separator,
                "key_separator": constraint.key_separator,
            },
        )
        error = llguidance.LLMatcher.validate_grammar(grammar)
    except ValueError as exc:
        error = str(exc)
    if error:
        remedy = "simplify the judge file's output schema"
        what = f"the output schema cannot be made into a grammar: {error.splitlines()[0]}"
        raise EngineError(Problem(what, remedy=remedy))
    return grammar


class Session:
    """A model with a context and a constraint: answers calls one at a time.

    Keeps the tokens that are in memory, so that a prefix shared with the call before is not
    decoded again. Prompts are always decoded in the same steps (`Call.cuts`), whether or not a
    step can be skipped, so a trial's logits do not depend on what was called before it.
    """

    def __init__(
        self, model: Model, constraint: Constraint, *, decoding: Decoding, max_tokens: int
    ) -> None:
        self.model, self.decoding, self.max_tokens = model, decoding, max_tokens
        spec = model.spec
        params = lib.llama_context_default_params()
        params.n_ctx = spec.n_ctx
        params.n_batch = spec.n_batch
        params.n_ubatch = min(spec.n_batch, 512)
        params.n_seq_max = 1
        params.n_threads = params.n_threads_batch = spec.n_threads or usable_threads()
        params.kv_unified = False
        params.swa_full = True  # a shortened window would silently forget a reused prefix
        params.no_perf = True
        self._ctx = lib.llama_init_from_model(model._model, params)
        if not bool(self._ctx):
            raise EngineError(
                Problem(
                    "llama.cpp cannot make a context: most likely memory is short",
                    file=spec.path,
                    found=f"n_ctx: {spec.n_ctx}",
                    remedy="register a smaller n_ctx, or fewer layers on the GPU",
                )
            )
        self._memory = lib.llama_get_memory(self._ctx)
        # Kept as attributes: llama.cpp holds only pointers to them.
        self._abort = lib.ggml_abort_callback(self._on_node)
        lib.llama_set_abort_callback(self._ctx, self._abort, None)
        self._n_batch: int = lib.llama_n_batch(self._ctx)  # a short context has a smaller one
        self._batch = lib.llama_batch_init(self._n_batch, 0, 1)
        self._held: list[int] = []
        self._edges: list[int] = []  # positions at which a step of `_held` ended
        self._tokenizer = model.ll_tokenizer()
        self._end = frozenset(model.end_tokens())
        self._matcher = llguidance.LLMatcher(self._tokenizer, compile_constraint(constraint))
        self._mask = llguidance.numpy.allocate_token_bitmask(1, self._tokenizer.vocab_size)

    def _on_node(self, _data: Any) -> bool:
        self.model._beat()
        return False

    def clear(self) -> None:
        """Forget everything: a new pass begins."""
        lib.llama_memory_clear(self._memory, True)
        self._held, self._edges = [], []

    def call(self, call: Call) -> Reply:
        """Answer one call by constrained generation.

        Raises
        ------
        DecodeFaultError
            If llama.cpp cannot decode or gives logits that are not numbers; the memory is
            cleared first.
        """
        started = time.perf_counter()
        try:
            return self._generate(call, started)
        except DecodeFaultError:
            self.clear()
            raise

    def _generate(self, call: Call, started: float) -> Reply:
        rng = np.random.default_rng(call.seed)
        matcher = self._matcher
        matcher.reset()
        reply = self._forced()
        n_forced, n_sampled, mass = len(reply), 0, None
        n_reused = self._read_prompt(call, reply)
        finish = None
        while finish is None:
            if matcher.is_stopped():
                finish = "complete"
            elif len(reply) >= self.max_tokens:
                finish = "cap"
            else:
                logits, allowed = self._logits(), self._allowed()
                if mass is None:
                    mass = allowed_mass(logits, allowed)
                scores = logits[allowed].astype(np.float64)
                if scores.max() == -np.inf:
                    raise DecodeFaultError("the model gives no allowed token any probability")
                chances = shape(scores, self.decoding)
                token = int(allowed[draw(chances, rng)])
                n_sampled += 1
                if token in self._end:
                    finish = "complete"
                    continue
                self._consume([token])
                forced = self._forced()
                n_forced += len(forced)
                reply += [token, *forced]
                if not matcher.is_stopped() and len(reply) < self.max_tokens:
                    self._decode([token, *forced])
        if len(reply) > self.max_tokens:
            finish, reply = "cap", reply[: self.max_tokens]
        return Reply(
            text=self._tokenizer.decode_bytes(reply).decode("utf-8", "replace"),
            tokens=tuple(reply),
            finish="cap" if finish == "cap" else "complete",
            n_prompt=len(call.tokens),
            n_reused=n_reused,
            n_forced=n_forced,
            n_sampled=n_sampled,
            allowed_mass=mass,
            seconds=time.perf_counter() - started,
        )

    def _consume(self, tokens: Sequence[int]) -> None:
        if not self._matcher.consume_tokens(list(tokens)):
            raise DecodeFaultError(f"the grammar failed: {self._matcher.get_error()}")

    def _forced(self) -> list[int]:
        """Tokens that the grammar leaves no choice about; they are taken without a draw."""
        forced = list(self._matcher.compute_ff_tokens())
        if forced:
            self._consume(forced)
        return forced

    def _allowed(self) -> Ids:
        llguidance.numpy.fill_next_token_bitmask(self._matcher, self._mask)
        bits = np.unpackbits(self._mask[0].view(np.uint8), bitorder="little")
        allowed = np.flatnonzero(bits[: self.model.n_vocab])
        if not len(allowed):
            raise DecodeFaultError(f"the grammar allows no token: {self._matcher.get_error()}")
        return allowed

    def _logits(self) -> NDArray[np.float32]:
        pointer = lib.llama_get_logits_ith(self._ctx, -1)
        logits: NDArray[np.float32] = np.ctypeslib.as_array(pointer, (self.model.n_vocab,))
        if np.isnan(logits).any() or not np.isfinite(logits.max()):
            raise DecodeFaultError("the model gave logits that are not finite")
        return logits

    def _read_prompt(self, call: Call, forced: Sequence[int]) -> int:
        """Bring prompt and forced tokens into memory; return how many were there already."""
        tokens = [*call.tokens, *forced]
        reused = self._reuse(tokens, call.cuts)
        edges = [c for c in call.cuts if c > reused] + [len(tokens)]
        start = reused
        for edge in edges:
            self._decode(tokens[start:edge])
            start = edge
        return reused

    def _reuse(self, tokens: Sequence[int], cuts: Sequence[int]) -> int:
        """Keep the longest shared prefix that ends at a cut; drop the rest from memory.

        A prefix that was decoded in other steps than `cuts` says is not the same to the last
        digit, and is not kept.

        Recurrent and hybrid models refuse to drop a part, and a sliding window may have
        forgotten the start: both are noticed and the prompt is read from its beginning.
        """

        def same(cut: int) -> bool:
            steps, wanted = ([e for e in given if e <= cut] for given in (self._edges, cuts))
            return steps == wanted and self._held[:cut] == list(tokens[:cut])

        keep = max(filter(same, cuts), default=0)
        if keep and not (
            lib.llama_memory_seq_rm(self._memory, 0, keep, -1)
            and lib.llama_memory_seq_pos_min(self._memory, 0) == 0
            and lib.llama_memory_seq_pos_max(self._memory, 0) == keep - 1
        ):
            keep = 0
        if not keep:
            self.clear()
        self._held = self._held[:keep]
        self._edges = [e for e in self._edges if e <= keep]
        return keep

    def _decode(self, tokens: Sequence[int]) -> None:
        """Decode tokens after those held, in pieces of at most `n_batch`."""
        batch, size = self._batch, self._n_batch
        for at in range(0, len(tokens), size):
            piece = tokens[at : at + size]
            batch.n_tokens = len(piece)
            for i, token in enumerate(piece):
                batch.token[i] = token
                batch.pos[i] = len(self._held) + i
                batch.n_seq_id[i] = 1
                batch.seq_id[i][0] = 0
                batch.logits[i] = at + i == len(tokens) - 1
            code = lib.llama_decode(self._ctx, batch)
            if code != 0:
                raise DecodeFaultError(f"llama_decode returned {code}")
            self.model._beat()
            self._held += piece
        self._edges.append(len(self._held))
