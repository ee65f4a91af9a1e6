"""Keeps a worker alive, gives every call a deadline, and turns what goes wrong into data.

A hang, a lost heartbeat or a death of the worker is a `Failure` of the attempt in flight; the
next attempt gets a new worker. A group that is lost as a whole is made again one by one, so that
the call at fault is charged with it and its neighbours are not. How often a trial is tried is the
caller's rule.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

import tenacity

from prereg_judge.engine.client import (
    WorkerClient,
    WorkerDiedError,
    WorkerFaultError,
    WorkerSilentError,
)
from prereg_judge.engine.protocol import (
    Answer,
    Call,
    Failure,
    FailureReason,
    GroupLost,
    ModelSpec,
    Reply,
    SessionSettings,
)
from prereg_judge.engine.wire import call_values, reply_from
from prereg_judge.errors import EngineError, IntegrityError, Problem

_START_TRIES = 3
_LOST = (WorkerDiedError, WorkerSilentError, WorkerFaultError)


@dataclass(frozen=True)
class Limits:
    """Time limits, in seconds; `heartbeat_s` None = only the call's deadline counts.

    A group has as many times the limit of a call as it has calls: on a CPU they take about as
    long together as one after another.
    """

    call_timeout_s: float
    heartbeat_s: float | None
    load_timeout_s: float


class Client(Protocol):
    """A process that answers messages, as `WorkerClient` does."""

    @property
    def name(self) -> str:
        """What to call it in messages."""

    @property
    def alive(self) -> bool:
        """Whether the process has not ended (it may be stopped)."""

    def ask(
        self, message: dict[str, Any], *, timeout_s: float, heartbeat_s: float | None = None
    ) -> Any:
        """Send a message and wait for its answer."""

    def kill(self) -> None:
        """End the process at once and free what it held."""


class LlamaBackend:
    """A `Backend` over one worker process, started when first needed and after every loss.

    Parameters
    ----------
    connect
        Starts a process that will hold the model.
    log
        Where the worker's own output goes.
    announce
        Told in words when a worker starts or is lost.
    """

    def __init__(
        self,
        spec: ModelSpec,
        settings: SessionSettings,
        *,
        limits: Limits,
        log: Path,
        announce: Callable[[str], None] = lambda _: None,
        connect: Callable[[], Client] | None = None,
    ) -> None:
        self._spec, self._settings, self._limits, self._log = spec, settings, limits, log
        self._announce = announce
        self._connect = connect or (lambda: WorkerClient(log=log))
        self._client: Client | None = None
        self._closed = False
        self._file = _identity(spec.path)

    def start_pass(self) -> None:
        """Begin a pass from a cleared memory."""
        if self._client is not None:
            try:
                self._client.ask({"op": "clear"}, timeout_s=self._limits.call_timeout_s)
            except _LOST:
                self._drop()  # a new worker starts with a cleared memory anyway

    def stream(self, calls: Iterator[Call]) -> Iterator[Answer | GroupLost]:
        """Answer calls group by group, in the order in which they come.

        At most `parallel` calls are taken and not yet given back.

        Raises
        ------
        EngineError
            If no worker can be brought to load the model.
        """
        group: list[Call] = []
        while True:
            call = next(calls, None)
            if call is None:
                if not group:
                    return
                yield from self.answer(group)
                group = []  # and ask again: what failed may be brought once more
            elif call.group is None:
                # A retry does not break up the group that is being gathered: it goes first.
                yield from self.answer([call])
            else:
                if group and group[0].group != call.group:
                    yield from self.answer(group)
                    group = []
                group.append(call)
                if len(group) == self._settings.parallel:
                    yield from self.answer(group)
                    group = []

    def answer(self, group: Sequence[Call]) -> Iterator[Answer | GroupLost]:
        """Answer calls together; if that fails, one by one with the same seeds."""
        keys = tuple(call.key for call in group)
        results = self._try(group)
        if not isinstance(results, Failure):
            for call, reply in zip(group, results, strict=True):
                yield Answer(call, reply, keys)
        elif len(group) == 1:
            yield Answer(group[0], results, keys)
        else:
            yield GroupLost(keys, results.reason, results.detail, results.seconds)
            for call in group:
                yield from self.answer([call])

    def _try(self, group: Sequence[Call]) -> list[Reply] | Failure:
        client = self._ready()
        started = time.perf_counter()
        try:
            answers = client.ask(
                {"op": "run", "calls": [call_values(call) for call in group]},
                timeout_s=self._limits.call_timeout_s * len(group),
                heartbeat_s=self._limits.heartbeat_s,
            )
        except WorkerSilentError as exc:
            return self._lost("hang", str(exc), started)
        except (WorkerDiedError, WorkerFaultError) as exc:
            return self._lost("crash", str(exc), started)
        except BaseException:  # Ctrl-C while waiting: the connection is mid-message
            self._drop()
            raise
        return [reply_from(values) for values in answers]

    def _lost(self, reason: FailureReason, detail: str, started: float) -> Failure:
        self._drop()
        self._say(f"{reason}: {detail}; the worker is replaced")
        return Failure(reason, detail, time.perf_counter() - started)

    def _ready(self) -> Client:
        if self._closed:
            raise RuntimeError("this backend is closed")
        client = self._client
        if client is not None and not client.alive:
            # It died between calls: no call was in flight, so none is charged with it.
            self._say("the worker died while idle; it is replaced")
            self._drop()
            client = None
        if client is None:
            retrying = tenacity.Retrying(
                retry=tenacity.retry_if_exception_type(_LOST),
                stop=tenacity.stop_after_attempt(_START_TRIES),
                wait=tenacity.wait_exponential(multiplier=0.5, max=10),
                reraise=True,
            )
            try:
                client = retrying(self._start)
            except _LOST as exc:
                raise EngineError(
                    Problem(
                        f"the model could not be loaded in {_START_TRIES} tries: {exc}",
                        file=self._spec.path,
                        remedy=f"see {self._log} for llama.cpp's own words, and `prereg doctor`",
                    )
                ) from exc
        return client

    def _start(self) -> Client:
        if _identity(self._spec.path) != self._file:
            what = "the model file was changed or replaced while the run went on"
            raise IntegrityError(Problem(what, self._spec.path, remedy="bring the file back"))
        client = self._client = self._connect()
        timeout_s = self._limits.load_timeout_s
        try:
            if self._closed:  # by another thread; from here on, `close` finds the client itself
                raise RuntimeError("this backend is closed")
            client.ask({"op": "load", "spec": asdict(self._spec)}, timeout_s=timeout_s)
            session = {"op": "session", "settings": asdict(self._settings)}
            client.ask(session, timeout_s=timeout_s)
        except BaseException:
            self._drop()
            raise
        self._announce(f"{client.name} has loaded the model")
        return client

    def _say(self, what: str) -> None:
        if not self._closed:  # by another thread: that is what ended the worker
            self._announce(what)

    def _drop(self) -> None:
        client, self._client = self._client, None  # `close` may come from another thread
        if client is not None:
            client.kill()

    def close(self) -> None:
        """End the worker, also from another thread than the one that uses it; final."""
        self._closed = True
        self._drop()


def _identity(path: str) -> tuple[int, ...]:
    """What changes when a file is replaced or written to, without reading it."""
    seen = Path(path).stat()
    return (seen.st_dev, seen.st_ino, seen.st_size, seen.st_mtime_ns, seen.st_ctime_ns)
