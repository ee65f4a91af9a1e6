"""Keeps a worker alive, gives every call a deadline, and turns what goes wrong into data.

A hang, a lost heartbeat or a death of the worker is a `Failure` of the attempt in flight; the
next attempt gets a new worker. How often a trial is tried is the caller's rule, applied here by
`attempts`, so that every attempt is seen by the caller before the next one begins.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import tenacity

from prereg_judge.engine.client import (
    WorkerClient,
    WorkerDiedError,
    WorkerFaultError,
    WorkerSilentError,
)
from prereg_judge.engine.protocol import (
    Backend,
    Call,
    Constraint,
    Decoding,
    Failure,
    FailureReason,
    ModelSpec,
    Reply,
)
from prereg_judge.errors import EngineError, IntegrityError, Problem

_START_TRIES = 3


@dataclass(frozen=True)
class Limits:
    """Time limits, in seconds; `heartbeat_s` None = only the call's deadline counts."""

    call_timeout_s: float
    heartbeat_s: float | None
    load_timeout_s: float


class LlamaBackend:
    """A `Backend` over one worker process, started when first needed and after every loss.

    Parameters
    ----------
    log
        Where the worker's own output goes.
    announce
        Told in words when a worker starts or is lost.
    """

    def __init__(
        self,
        spec: ModelSpec,
        constraint: Constraint,
        *,
        decoding: Decoding,
        max_tokens: int,
        limits: Limits,
        log: Path,
        announce: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._spec, self._constraint, self._decoding = spec, constraint, decoding
        self._max_tokens, self._limits, self._log = max_tokens, limits, log
        self._announce = announce
        self._client: WorkerClient | None = None
        self._file = _identity(spec.path)

    def start_pass(self) -> None:
        """Begin a pass from a cleared memory."""
        if self._client is not None:
            try:
                self._client.ask({"op": "clear"}, timeout_s=self._limits.load_timeout_s)
            except (WorkerDiedError, WorkerSilentError):
                self.close()  # a new worker starts with a cleared memory anyway

    def attempt(self, call: Call) -> Reply | Failure:
        """Make one call once.

        Raises
        ------
        EngineError
            If no worker can be brought to load the model.
        """
        client = self._ready()
        started = time.perf_counter()
        try:
            answer = client.ask(
                {"op": "call", **asdict(call)},
                timeout_s=self._limits.call_timeout_s,
                heartbeat_s=self._limits.heartbeat_s,
            )
        except WorkerSilentError as exc:
            return self._lost("hang", str(exc), started)
        except (WorkerDiedError, WorkerFaultError) as exc:
            return self._lost("crash", str(exc), started)
        except BaseException:  # Ctrl-C while waiting: the connection is mid-message
            self.close()
            raise
        return Reply(**{**answer, "tokens": tuple(answer["tokens"])})

    def _lost(self, reason: FailureReason, detail: str, started: float) -> Failure:
        self.close()
        self._announce(f"{reason}: {detail}; the worker is replaced")
        return Failure(reason, detail, time.perf_counter() - started)

    def _ready(self) -> WorkerClient:
        if self._client is not None and not self._client.alive:
            # It died between calls: no call was in flight, so none is charged with it.
            self._announce("the worker died while idle; it is replaced")
            self.close()
        if self._client is None:
            retrying = tenacity.Retrying(
                retry=tenacity.retry_if_exception_type((WorkerDiedError, WorkerSilentError)),
                stop=tenacity.stop_after_attempt(_START_TRIES),
                wait=tenacity.wait_exponential(multiplier=0.5, max=10),
                reraise=True,
            )
            try:
                self._client = retrying(self._start)
            except (WorkerDiedError, WorkerSilentError) as exc:
                raise EngineError(
                    Problem(
                        f"the model could not be loaded in {_START_TRIES} tries: {exc}",
                        file=self._spec.path,
                        remedy=f"see {self._log} for llama.cpp's own words, and `prereg doctor`",
                    )
                ) from exc
        return self._client

    def _start(self) -> WorkerClient:
        if _identity(self._spec.path) != self._file:
            what = "the model file was changed or replaced while the run went on"
            raise IntegrityError(Problem(what, self._spec.path, remedy="bring the file back"))
        client = WorkerClient(log=self._log)
        timeout_s = self._limits.load_timeout_s
        try:
            client.ask({"op": "load", "spec": asdict(self._spec)}, timeout_s=timeout_s)
            client.ask(
                {
                    "op": "session",
                    "constraint": asdict(self._constraint),
                    "decoding": asdict(self._decoding),
                    "max_tokens": self._max_tokens,
                },
                timeout_s=timeout_s,
            )
        except BaseException:
            client.kill()
            raise
        self._announce(f"worker {client.pid} has loaded the model")
        return client

    def close(self) -> None:
        """End the worker."""
        if self._client is not None:
            self._client.kill()
            self._client = None


def _identity(path: str) -> tuple[int, ...]:
    """What changes when a file is replaced or written to, without reading it."""
    seen = Path(path).stat()
    return (seen.st_dev, seen.st_ino, seen.st_size, seen.st_mtime_ns, seen.st_ctime_ns)


def attempts(
    backend: Backend, make_call: Callable[[], Call], *, retries: int
) -> Iterator[tuple[Call, Reply | Failure]]:
    """Attempt a call until it brings a reply, at most `1 + retries` times.

    `make_call` is asked anew for each attempt, so that a sampled retry gets a new seed. Each
    attempt is yielded before the next is begun.
    """
    for _ in range(1 + retries):
        call = make_call()
        result = backend.attempt(call)
        yield call, result
        if isinstance(result, Reply):
            return
