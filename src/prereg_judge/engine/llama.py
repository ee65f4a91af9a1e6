"""A model held in this process, over llama-cpp-python's low-level interface.

The high-level class is not used: it replaces a seed of 0, derives unseeded draws from the last
one, falls back to any JSON when a schema cannot be converted, and gives models without a chat
template another one. One thread owns the context; the worker process has only that thread.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Sequence
from typing import Any

import llama_cpp as lib
import llguidance
import llguidance.llamacpp
import psutil

from prereg_judge.engine.protocol import Constraint, ModelFacts, ModelSpec
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

    def tokenize(self, text: str, *, special: bool = True) -> list[int]:
        """Token ids of a rendered prompt: control tokens are read, no BOS is added.

        The template writes the BOS itself where the model wants one. With `special` off, text
        that looks like a control token is plain text.
        """
        data = text.encode("utf-8")
        n_max = len(data) + 8
        buffer = (lib.llama_token * n_max)()
        n = lib.llama_tokenize(self._vocab, data, len(data), buffer, n_max, False, special)
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
