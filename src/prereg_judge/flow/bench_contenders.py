"""What a bench lets play: one task, the usual loop, and the engine through its worker process.

Every contender is given the same rows with the same messages, seeds, cap and decoding settings,
begins each round from a cleared memory, and is timed as its caller sees it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

from prereg_judge.engine.client import WorkerClient
from prereg_judge.engine.protocol import Answer, Call, ModelSpec, Reply, SessionSettings
from prereg_judge.engine.supervisor import Limits, LlamaBackend
from prereg_judge.errors import EngineError, Problem
from prereg_judge.flow.bench_child import Child
from prereg_judge.flow.settings import constraint_of
from prereg_judge.judge import Judge
from prereg_judge.shaping import Decoding

DECODING = Decoding("seeded", temperature=0.8, top_k=40, top_p=0.95, min_p=0.05)
_LIMITS = Limits(call_timeout_s=3600, heartbeat_s=None, load_timeout_s=3600)
_WARMING = 16  # tokens of a prompt that brings up a session before anything is timed


@dataclass(frozen=True)
class Row:
    """One trial: its messages, its prompt's tokens with the shared beginnings, its seed."""

    key: str
    messages: tuple[Mapping[str, str], ...]
    tokens: tuple[int, ...]
    cuts: tuple[int, ...]
    seed: int


@dataclass(frozen=True)
class Task:
    """Trials of one kind.

    `distinct` are the tokens of all prompts, each beginning that several share counted once.
    """

    name: str
    judge: Judge
    rows: tuple[Row, ...]
    max_tokens: int
    distinct: int

    @property
    def closed(self) -> bool:
        """Whether a reply holds the verdict and nothing else, so that it can be chosen."""
        return self.judge.closed_replies() is not None


@dataclass(frozen=True)
class Said:
    """A reply and its token counts as the contender counts them; `tokens` where it tells them."""

    text: str
    n_prompt: int
    n_written: int
    tokens: tuple[int, ...] = ()


class Contender(Protocol):
    """Something that answers the trials of a task."""

    @property
    def name(self) -> str:
        """What the table calls it."""

    def takes(self, task: Task) -> bool:
        """Whether it can do this task at all."""

    def prepare(self, task: Task) -> None:
        """Everything that is not timed; the memory is empty afterwards."""

    def play(self, task: Task) -> list[Said]:
        """Answer every row, in order."""

    def close(self) -> None:
        """End what it started."""


class Loop:
    """One chat completion after another, in llama-cpp-python's high-level class with a schema."""

    name = "loop"

    def __init__(self, child: Child) -> None:
        self._child = child
        self._warm = False

    def takes(self, task: Task) -> bool:
        """See `Contender`."""
        return bool(task.rows)

    def prepare(self, task: Task) -> None:
        """See `Contender`."""
        if not self._warm:
            self._say(task, task.rows[0])
            self._warm = True
        self._child.ask({"op": "reset"})

    def play(self, task: Task) -> list[Said]:
        """See `Contender`."""
        return [self._say(task, row) for row in task.rows]

    def _say(self, task: Task, row: Row) -> Said:
        request = {
            "messages": list(row.messages),
            "response_format": {"type": "json_object", "schema": dict(task.judge.spec.output)},
            "max_tokens": task.max_tokens,
            "seed": row.seed,
            "repeat_penalty": 1.0,
            **sampling(),
        }
        return Said(**self._child.ask({"op": "say", **request}))

    def close(self) -> None:
        """The process is its owner's to end."""


def sampling() -> dict[str, float]:
    """The decoding settings by the names that llama.cpp's own clients use."""
    return {
        "temperature": DECODING.temperature,
        "top_k": DECODING.top_k,
        "top_p": DECODING.top_p,
        "min_p": DECODING.min_p,
    }


@dataclass
class Worker:
    """One worker process with the model loaded, lent to one session after another."""

    spec: ModelSpec
    log: Path
    client: WorkerClient | None = None
    lent_to: _Lent | None = None

    def lend(self) -> _Lent:
        """The process as one more backend sees it."""
        if self.client is None:
            self.client = WorkerClient(log=self.log)
        return _Lent(self, self.client)

    def close(self) -> None:
        """End the process."""
        if self.client is not None:
            self.client.kill()


class _Lent:
    """A worker's client that opens its own session again after another had the worker.

    The weights are so held once, however many settings take turns.
    """

    def __init__(self, worker: Worker, client: WorkerClient) -> None:
        self._worker, self._client = worker, client
        self._session: dict[str, Any] = {}

    @property
    def name(self) -> str:
        return self._client.name

    @property
    def alive(self) -> bool:
        return self._client.alive

    def ask(
        self, message: dict[str, Any], *, timeout_s: float, heartbeat_s: float | None = None
    ) -> Any:
        if message["op"] == "load" and self._worker.lent_to is not None:
            return None  # it is loaded already
        if message["op"] == "session":
            self._session = message
        elif message["op"] != "load" and self._worker.lent_to is not self:
            self._client.ask(self._session, timeout_s=timeout_s)
        self._worker.lent_to = self
        return self._client.ask(message, timeout_s=timeout_s, heartbeat_s=heartbeat_s)

    def kill(self) -> None:
        """It is the owner's to end."""


@dataclass
class Ours:
    """The engine: supervisor, worker process, one path and so many sequences."""

    worker: Worker
    path: Literal["generate", "choice"]
    parallel: int
    _backends: dict[str, LlamaBackend] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """See `Contender`."""
        return f"{self.path} {self.parallel}"

    def takes(self, task: Task) -> bool:
        """See `Contender`."""
        return self.path == "generate" or task.closed

    def prepare(self, task: Task) -> None:
        """See `Contender`."""
        if task.name not in self._backends:
            self._backends[task.name] = self._backend(task)
            self._answers(task, [Call("warm-up", task.rows[0].tokens[:_WARMING], (), 1)])
        self._backends[task.name].start_pass()

    def _backend(self, task: Task) -> LlamaBackend:
        replies = task.judge.closed_replies()
        settings = SessionSettings(
            constraint_of(task.judge),
            DECODING,
            task.max_tokens,
            path=self.path,
            parallel=self.parallel,
            texts=replies or {},
        )
        worker = self.worker
        return LlamaBackend(
            worker.spec, settings, limits=_LIMITS, log=worker.log, connect=worker.lend
        )

    def play(self, task: Task) -> list[Said]:
        """See `Contender`."""
        calls = [
            Call(row.key, row.tokens, row.cuts, row.seed, at // self.parallel)
            for at, row in enumerate(task.rows)
        ]
        replies = self._answers(task, calls)
        return [Said(r.text, r.n_prompt, len(r.tokens), r.tokens) for r in replies]

    def _answers(self, task: Task, calls: list[Call]) -> list[Reply]:
        replies = []
        for event in self._backends[task.name].stream(iter(calls)):
            if not isinstance(event, Answer) or not isinstance(event.result, Reply):
                what = f"a call failed, so nothing is measured: {event}"
                raise EngineError(Problem(what, file=self.worker.spec.path))
            replies.append(event.result)
        return replies

    def close(self) -> None:
        """See `Contender`."""
        for backend in self._backends.values():
            backend.close()
