"""A backend over OpenAI-compatible servers: llama-server, vLLM, Ollama, LM Studio.

Calls go to whichever server has room, each server being asked a bounded number at a time. Which
server answers a call therefore depends on timing, and what it answers may depend on what it
answers beside it (batching): the strict wire is one server asked one at a time.

A time-out ends the waiting and closes the connection; not every server then stops its work, so
`max_tokens` bounds that too. Nothing is tried again here: a retry is a call of its own.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any

from prereg_judge.engine.openai.facts import unlike
from prereg_judge.engine.openai.http import Bearer
from prereg_judge.engine.openai.loop import LoopThread, run_apart
from prereg_judge.engine.openai.server import Server
from prereg_judge.engine.openai.spec import ServerSpec
from prereg_judge.engine.openai.wire import RequestSettings
from prereg_judge.engine.protocol import Answer, Call, Failure, Reply, SessionSettings
from prereg_judge.errors import EngineError, Problem


@dataclass
class _Lane:
    """A server as the scheduler sees it."""

    server: Server
    n_busy: int = 0
    checking: bool = False
    lost: EngineError | None = None


@dataclass(frozen=True)
class _Done:
    lane: _Lane
    call: Call
    result: Reply | Failure | Exception


@dataclass(frozen=True)
class _Checked:
    lane: _Lane
    error: Exception | None


_Events = SimpleQueue[_Done | _Checked]


class OpenAIBackend:
    """A `Backend` over one or more servers.

    Parameters
    ----------
    settings
        How replies are written. How many calls are in flight is `spec.concurrency`, for each
        server; the separators of the constraint cannot be asked for.
    announce
        Told in words what a reader of the run should know of a server, each thing once; called
        from the thread that uses the backend.

    Raises
    ------
    EngineError
        If the API key's variable is not set, or `settings` asks for what no server gives: the
        path `choice`, or thinking with marks of its own.
    """

    def __init__(
        self,
        spec: ServerSpec,
        settings: SessionSettings,
        *,
        announce: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._spec, self._announce = spec, announce
        self._notes: SimpleQueue[str] = SimpleQueue()
        _refuse_impossible(settings)
        request = RequestSettings(
            spec.model,
            settings.constraint,
            settings.decoding,
            settings.max_tokens,
            strict=spec.cache_prompt == "strict",
            template_args=spec.template_args,
        )
        bearer = Bearer(spec.api_key_env)
        self._servers = [
            Server(
                url,
                request,
                bearer=bearer,
                spec=spec,
                announce=self._notes.put,
            )
            for url in spec.base_urls
        ]
        self._open: Generator[Answer, None, None] | None = None

    def start_pass(self) -> None:
        """Look at every server anew; their memory is cleared only as far as `strict` says.

        Raises
        ------
        EngineError
            If one of them is not ready, does not obey a schema, is no longer what it was, or
            serves another model than the others; with a problem for each.
        """
        try:
            run_apart(self._check_all())
        finally:
            self._pass_on()

    def describe(self) -> dict[str, Any]:
        """What is asked for and what each server says of itself, as JSON values for the record.

        Servers not yet looked at are looked at now.

        Raises
        ------
        EngineError
            As `start_pass`.
        """
        if any(server.facts is None for server in self._servers):
            self.start_pass()
        return {
            "backend": "openai",
            "model": self._spec.model,
            "concurrency": self._spec.concurrency,
            "cache_prompt": self._spec.cache_prompt,
            "template_args": dict(self._spec.template_args),
            "wire_seed": "seed mod (2^31 - 1)",
            "servers": [dict(server.facts or {}) for server in self._servers],
        }

    def stream(self, calls: Iterator[Call]) -> Iterator[Answer]:
        """Take calls as servers have room and give back each with what came of it.

        A call is taken only when it can be sent, and the next one only after the consumer has
        come back for more. `calls` is asked again after each result even if it had ended, so an
        iterator (not a generator) may bring a retry of what failed.

        After a hang or a lost connection a server gets no call until it has been looked at
        again; one that stays away is given up if there are others.

        Raises
        ------
        EngineError
            From the iterator: when no server is left. All calls taken have been given back.
        RuntimeError
            If an earlier stream is still open.
        """
        if self._open is not None and inspect.getgeneratorstate(self._open) in {
            inspect.GEN_SUSPENDED,
            inspect.GEN_RUNNING,
        }:
            raise RuntimeError("a stream of this backend is still open")
        self._open = self._stream(calls)
        return self._open

    def close(self) -> None:
        """Abandon what is in flight; the servers themselves are not this backend's to end."""
        if self._open is not None:
            self._open.close()

    def _stream(self, calls: Iterator[Call]) -> Generator[Answer, None, None]:
        if any(server.facts is None for server in self._servers):
            self.start_pass()
        lanes, events = [_Lane(server) for server in self._servers], _Events()
        held: Call | None = None  # taken while every server was in doubt
        with LoopThread() as loop:
            for lane in lanes:
                self._look_again(lane, loop, events)
            while True:
                while free := _free(lanes, self._spec.concurrency):
                    call = held or next(calls, None)
                    if call is None:
                        break
                    held, free.n_busy = None, free.n_busy + 1
                    loop.submit(_make(free, call, events))
                if not any(lane.n_busy for lane in lanes):
                    held = held or next(calls, None)
                    if held is None:
                        return
                    lost = [lane.lost for lane in lanes if lane.lost]
                    if len(lost) == len(lanes):
                        raise _merged(lost)  # the call in hand was never sent
                    if _free(lanes, self._spec.concurrency):
                        continue
                event = events.get()
                self._pass_on()
                if isinstance(event, _Checked):
                    self._settle(event)
                    continue
                if isinstance(event.result, Exception):
                    raise event.result  # a bug
                event.lane.n_busy -= 1
                self._look_again(event.lane, loop, events)
                yield _alone(event.call, event.result)

    def _pass_on(self) -> None:
        while not self._notes.empty():
            self._announce(self._notes.get())

    def _look_again(self, lane: _Lane, loop: LoopThread, events: _Events) -> None:
        if lane.server.doubtful and not lane.checking and lane.lost is None:
            lane.checking = True
            loop.submit(_check(lane, events))

    def _settle(self, event: _Checked) -> None:
        event.lane.checking = False
        if isinstance(event.error, EngineError):
            event.lane.lost = event.error
            self._announce(f"{event.error}; it is not asked any more")
        elif event.error is not None:
            raise event.error

    async def _check_all(self) -> None:
        checks = [server.check() for server in self._servers]
        results = await asyncio.gather(*checks, return_exceptions=True)
        for result in results:
            if result is not None and not isinstance(result, EngineError):
                raise result
        errors = [result for result in results if isinstance(result, EngineError)]
        if errors:
            raise _merged(errors)
        first = self._servers[0]
        for other in self._servers[1:]:
            difference = unlike(first.facts or {}, other.facts or {})
            if difference:
                what = f"{first.base_url} and {other.base_url} are not the same judge"
                remedy = "give all servers the same model and the same chat template"
                raise EngineError(Problem(what, found=difference, remedy=remedy))


def _refuse_impossible(settings: SessionSettings) -> None:
    if settings.path == "choice":
        what = "the path `choice` needs the model's logits, which a server does not give"
        remedy = "register `path: generate`, or a GGUF file in place of the server"
        raise EngineError(Problem(what, remedy=remedy))
    if settings.thinking is not None:
        what = "a server writes thinking by its own chat template, not between registered marks"
        remedy = (
            "leave the marks out, and switch thinking on or off at the server or with the "
            "template's arguments (llama-server and vLLM take them as chat_template_kwargs)"
        )
        raise EngineError(Problem(what, remedy=remedy))


def _alone(call: Call, result: Reply | Failure) -> Answer:
    """A server does not say what it answered together with a call."""
    return Answer(call, result, (call.key,))


def _free(lanes: list[_Lane], concurrency: int) -> _Lane | None:
    """The lane with most room, or None where none can take a call now."""
    able = [
        lane
        for lane in lanes
        if lane.n_busy < concurrency and not (lane.checking or lane.lost or lane.server.doubtful)
    ]
    return min(able, key=lambda lane: lane.n_busy, default=None)


def _merged(errors: list[EngineError]) -> EngineError:
    return EngineError(*(problem for error in errors for problem in error.problems))


async def _make(lane: _Lane, call: Call, events: _Events) -> None:
    try:
        events.put(_Done(lane, call, await lane.server.answer(call)))
    except Exception as exc:  # raised anew where the calls are taken
        events.put(_Done(lane, call, exc))


async def _check(lane: _Lane, events: _Events) -> None:
    try:
        await lane.server.check()
    except Exception as exc:  # as above
        events.put(_Checked(lane, exc))
    else:
        events.put(_Checked(lane, None))
