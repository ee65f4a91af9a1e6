"""A process for what a bench compares the engine with: `python -m prereg_judge.flow.bench_child`.

It holds llama-cpp-python's high-level class, which most judge loops are built on, and beside it
a bare context of the same weights in which reading speed is measured. Reads one JSON message a
line and answers each with one; what native code prints goes to standard error.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from prereg_judge.engine.client import library_environment
from prereg_judge.engine.protocol import Constraint, ModelSpec
from prereg_judge.errors import EngineError, Problem

_LEAST_READING_S = 0.5  # one batch takes a few milliseconds on a GPU: it is read again and again


class Child:
    """The parent's side.

    Parameters
    ----------
    spec
        The model, loaded before this returns.

    Raises
    ------
    EngineError
        If the process ends, here or in a later question, or llama.cpp or its library refuses.
    """

    def __init__(self, spec: ModelSpec) -> None:
        self._path = spec.path
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", __name__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, **library_environment()},
        )
        self.ask({"op": "load", "spec": asdict(spec)})

    def ask(self, message: dict[str, Any]) -> Any:
        """Send a message and wait for the answer, without a time limit."""
        pipes = self._process.stdin, self._process.stdout
        assert pipes[0] is not None
        assert pipes[1] is not None
        try:
            pipes[0].write(json.dumps(message).encode() + b"\n")
            pipes[0].flush()
            answer = pipes[1].readline()
        except BrokenPipeError:
            answer = b""
        if not answer:
            what = f"the process that was to do `{message['op']}` ended: memory may be short"
            raise EngineError(Problem(what, file=self._path))
        told = json.loads(answer)
        if "failed" in told:
            what = f"llama-cpp-python could not do `{message['op']}`: {told['failed']}"
            raise EngineError(Problem(what, file=self._path))
        return told["done"]

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.communicate()


class _Server:
    """Answers messages in the child."""

    def __init__(self) -> None:
        self._high: Any = None
        self._reader: _Reader

    def answer(self, message: dict[str, Any]) -> dict[str, Any]:
        """Do what one message says; what goes wrong is an answer too."""
        try:
            return {"done": getattr(self, f"_{message.pop('op')}")(**message)}
        except Exception as exc:  # of a library that may raise anything
            return {"failed": f"{type(exc).__name__}: {exc}"}

    def _load(self, spec: dict[str, Any]) -> None:
        import llama_cpp

        self._spec = ModelSpec(**spec)
        self._high = llama_cpp.Llama(
            self._spec.path,
            n_ctx=self._spec.n_ctx,
            n_batch=self._spec.n_batch,
            n_gpu_layers=self._spec.n_gpu_layers,
            n_threads=self._spec.n_threads,
            n_threads_batch=self._spec.n_threads,
            verbose=False,
        )
        self._reader = _Reader(self._high._model.model, self._spec)

    def _reset(self) -> None:
        """Forget the prompts so far, so that no round profits from the one before."""
        self._high.reset()

    def _say(self, **request: Any) -> dict[str, Any]:
        done = self._high.create_chat_completion(**request)
        usage = done["usage"]
        text = done["choices"][0]["message"]["content"] or ""
        return {
            "text": text,
            "n_prompt": usage["prompt_tokens"],
            "n_written": usage["completion_tokens"],
        }

    def _read(self, tokens: list[int]) -> float:
        return self._reader.speed(tokens)

    def _needed(self, constraint: dict[str, Any], replies: list[list[int]]) -> list[int]:
        return needed(self._spec.path, Constraint(**constraint), replies)


class _Reader:
    """A context of its own, as the engine makes them, that reads full batches."""

    def __init__(self, model: Any, spec: ModelSpec) -> None:
        import llama_cpp as lib

        self._lib, self._n = lib, spec.n_batch
        params = lib.llama_context_default_params()
        params.n_ctx = params.n_batch = spec.n_batch
        params.n_ubatch = min(spec.n_batch, 512)
        if spec.n_threads:
            params.n_threads = params.n_threads_batch = spec.n_threads
        self._ctx = lib.llama_init_from_model(model, params)
        if not bool(self._ctx):
            raise MemoryError("no context can be made")
        self._batch = lib.llama_batch_init(self._n, 0, 1)

    def speed(self, tokens: Sequence[int]) -> float:
        """Tokens a second of a full batch that begins an empty context; `tokens` fill it."""
        lib, n, batch = self._lib, self._n, self._batch
        batch.n_tokens = n
        for i in range(n):
            batch.token[i] = tokens[i % len(tokens)]
            batch.pos[i] = i
            batch.n_seq_id[i] = 1
            batch.seq_id[i][0] = 0
            batch.logits[i] = i == n - 1
        times, seconds = 0, 0.0
        while seconds < _LEAST_READING_S:
            lib.llama_memory_clear(lib.llama_get_memory(self._ctx), True)
            started = time.perf_counter()
            if lib.llama_decode(self._ctx, batch) != 0:
                raise RuntimeError("llama.cpp cannot decode")
            lib.llama_get_logits_ith(self._ctx, n - 1)  # waits for a GPU
            times, seconds = times + 1, seconds + time.perf_counter() - started
        return times * n / seconds


def needed(path: str, constraint: Constraint, replies: Sequence[Sequence[int]]) -> list[int]:
    """For each reply, how many of its tokens come before the last one that was open.

    Those have to be decoded by any engine that writes the reply: the last open token and what
    is forced after it need not be. Walks the grammar, so it trusts no engine's own counters.
    """
    import llguidance

    from prereg_judge.engine.llama import Model, compile_constraint

    spec = ModelSpec(path, n_ctx=0, n_gpu_layers=0, weights=False)
    tokenizer = Model(spec, beat=lambda: None).ll_tokenizer()
    grammar = compile_constraint(constraint)
    found = []
    for reply in replies:
        matcher, at, last = llguidance.LLMatcher(tokenizer, grammar), 0, 0
        while at < len(reply):
            forced = list(matcher.compute_ff_tokens())
            step = forced or [reply[at]]
            last = last if forced else at
            matcher.consume_tokens(step)
            at += len(step)
        found.append(last)
    return found


def main() -> None:
    """Serve until the parent closes the pipe."""
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # llama.cpp may print anywhere
    server = _Server()
    for line in sys.stdin.buffer:
        out.write(json.dumps(server.answer(json.loads(line))).encode() + b"\n")
        out.flush()


if __name__ == "__main__":
    main()
