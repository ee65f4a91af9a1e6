"""Questions about a model that need no weights, each answered by a throwaway process.

A damaged file or a grammar that trips a native library then kills the child, not the command.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

from prereg_judge.engine.client import WorkerClient, WorkerDiedError, WorkerSilentError
from prereg_judge.engine.protocol import Constraint, ModelFacts, ModelSpec
from prereg_judge.errors import EngineError, Problem

_TIMEOUT_S = 300.0
_AT_ONCE = 256  # texts in one message


@dataclass
class Inspector:
    """A child process that has read a model's vocabulary and metadata, not its weights."""

    client: WorkerClient
    path: str

    def _ask(self, message: dict[str, Any]) -> Any:
        try:
            return self.client.ask(message, timeout_s=_TIMEOUT_S)
        except (WorkerDiedError, WorkerSilentError) as exc:
            what = f"llama.cpp could not take this file or schema: {exc}"
            raise EngineError(Problem(what, file=self.path)) from exc

    def facts(self) -> ModelFacts:
        """What the file says of itself."""
        told = self._ask({"op": "facts"})
        return ModelFacts(**{**told, "control_texts": tuple(told["control_texts"])})

    def tokenize(self, texts: Sequence[str]) -> list[list[int]]:
        """Token ids of rendered prompts; equal ids are one object, so that many fit in memory."""
        one: dict[int, int] = {}
        ids: list[list[int]] = []
        for start in range(0, len(texts), _AT_ONCE):
            asked = {"op": "tokenize", "texts": list(texts[start : start + _AT_ONCE])}
            ids += [[one.setdefault(t, t) for t in found] for found in self._ask(asked)]
        return ids

    def respell(self, texts: Sequence[str]) -> list[str]:
        """Texts as they come back from their own tokens: what the model can tell apart."""
        back: list[str] = self._ask({"op": "respell", "texts": list(texts)})
        return back

    def compile(self, constraint: Constraint) -> str:
        """The constraint's grammar; `EngineError` if it cannot be expressed."""
        return str(self._ask({"op": "compile", "constraint": asdict(constraint)}))


@contextmanager
def inspecting(path: str) -> Iterator[Inspector]:
    """Load a model's vocabulary in a child process for as long as the context lasts.

    Raises
    ------
    EngineError
        If the file cannot be loaded.
    """
    client = WorkerClient()
    try:
        inspector = Inspector(client, path)
        spec = ModelSpec(path, n_ctx=0, n_gpu_layers=0, weights=False)
        inspector._ask({"op": "load", "spec": asdict(spec)})
        yield inspector
    finally:
        client.kill()


def compiled(constraint: Constraint) -> str:
    """A constraint's grammar, compiled in a child process that has no model.

    Raises
    ------
    EngineError
        If it cannot be expressed.
    """
    client = WorkerClient()
    try:
        return Inspector(client, "output schema").compile(constraint)
    finally:
        client.kill()


def system_info() -> dict[str, Any]:
    """Versions, build flags and devices of llama.cpp, as a worker process sees them."""
    client = WorkerClient()
    try:
        info: dict[str, Any] = client.ask({"op": "system"}, timeout_s=_TIMEOUT_S)
        return info
    finally:
        client.kill()
