"""What tests of the supervisor share: a backend over the small model, calls, and waiting."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import psutil

from engine.small_model import FREE, YES_NO, prompt, shared, spec
from prereg_judge.engine.protocol import (
    Answer,
    Call,
    Constraint,
    Failure,
    GroupLost,
    ModelSpec,
    Reply,
    SessionSettings,
)
from prereg_judge.engine.supervisor import Client, Limits, LlamaBackend

PATIENT = Limits(call_timeout_s=60, heartbeat_s=None, load_timeout_s=60)


@contextlib.contextmanager
def backend(
    folder: Path,
    limits: Limits = PATIENT,
    *,
    constraint: Constraint = YES_NO,
    parallel: int = 1,
    model: ModelSpec | None = None,
    announce: Callable[[str], None] = lambda _: None,
    connect: Callable[[], Client] | None = None,
) -> Iterator[LlamaBackend]:
    """A backend over the small model, closed at the end."""
    made = LlamaBackend(
        model or spec(),
        SessionSettings(constraint, FREE, 16, parallel=parallel),
        limits=limits,
        log=folder / "worker.log",
        announce=announce,
        connect=connect,
    )
    try:
        yield made
    finally:
        made.close()


def call(text: str = "cat", seed: int = 1, *, group: int | None = None) -> Call:
    """A call about `text`."""
    return Call(text, prompt(text), (shared(),), seed, group)


def ask(of: LlamaBackend, one: Call) -> Reply | Failure:
    """What comes of a single call."""
    (event,) = of.stream(iter([one]))
    assert isinstance(event, Answer)
    assert event.call is one
    return event.result


def ask_all(of: LlamaBackend, calls: Sequence[Call]) -> list[Answer | GroupLost]:
    """Everything that comes of some calls."""
    return list(of.stream(iter(calls)))


def worker(of: LlamaBackend) -> int:
    """Process id of the worker that a backend has now."""
    return int(client(of).pid)


def client(of: LlamaBackend) -> Any:
    """The client of that worker."""
    assert of._client is not None
    return of._client


def answered(result: Reply | Failure) -> tuple[Any, ...]:
    """What must be the same whichever worker gave the reply."""
    assert isinstance(result, Reply), result
    return result.text, result.tokens, result.allowed_mass


def failed(result: Reply | Failure) -> tuple[str, str]:
    """Reason and detail of a failure."""
    assert isinstance(result, Failure), result
    return result.reason, result.detail


def gone(pid: int) -> bool:
    """Whether a process has ended (a container's first process may not collect it)."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def wait_for(condition: Callable[[], bool]) -> None:
    """Wait until a condition holds; half a minute at most."""
    for _ in range(300):
        if condition():
            return
        time.sleep(0.1)
    raise AssertionError("waited in vain")


def children() -> list[psutil.Process]:
    """The processes that this one has started and not yet ended or waited for.

    Python's own tracker of what processes share stays once another test has needed it.
    """
    return [c for c in psutil.Process().children() if not _is_tracker(c)]


def _is_tracker(process: psutil.Process) -> bool:
    try:
        return any("multiprocessing.resource_tracker" in part for part in process.cmdline())
    except psutil.ZombieProcess:
        return False
