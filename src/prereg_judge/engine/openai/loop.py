"""A thread with an event loop in it, and a deadline that is fair to whoever was stopped.

Requests run as tasks, since a task can be cancelled wherever it waits; a thread that waits on a
socket cannot.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Coroutine
from concurrent.futures import Future
from types import TracebackType
from typing import Any, Self, TypeVar

T = TypeVar("T")

_TICK_S = 0.2
_LONGEST_TICK_S = 1.0


class LoopThread:
    """Runs coroutines for as long as it is entered; leaving it cancels them and joins.

    Only what was submitted is cancelled, and each passes it on to what it started itself: a task
    that is cancelled from outside before its first step leaves a coroutine that nobody awaited.
    """

    def __init__(self) -> None:
        self._started = threading.Event()
        self._submitted: set[asyncio.Task[Any]] = set()
        self._thread = threading.Thread(target=self._run, name="prereg-openai", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        self._started.wait()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()

    def submit(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Start a coroutine in the thread."""
        return asyncio.run_coroutine_threadsafe(self._remembered(work), self._loop)

    async def _remembered(self, work: Coroutine[Any, Any, T]) -> T:
        task = asyncio.current_task()
        assert task is not None
        self._submitted.add(task)
        try:
            return await work
        finally:
            self._submitted.discard(task)

    def _run(self) -> None:
        asyncio.run(self._main())

    async def _main(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        self._started.set()
        await self._stop.wait()
        left = list(self._submitted)
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)


def run_apart(work: Coroutine[Any, Any, T]) -> T:
    """Run one coroutine in a thread of its own and wait for it."""
    with LoopThread() as loop:
        return loop.submit(work).result()


async def patiently(work: Coroutine[Any, Any, T], seconds: float) -> T:
    """Await `work` for at most `seconds` from beginning to end.

    Time in which this process itself was stopped (Ctrl-Z) is not counted, and an answer that
    came meanwhile is taken.

    Raises
    ------
    TimeoutError
        After `seconds`; `work` is cancelled, and has ended, by then.
    """
    task = asyncio.ensure_future(work)
    waited, before = 0.0, time.monotonic()
    try:
        while True:
            left = max(seconds - waited, 0.0)
            await asyncio.wait({task}, timeout=min(left, _TICK_S))
            if task.done():
                return task.result()
            if left == 0:
                raise TimeoutError
            now = time.monotonic()
            waited += min(now - before, _LONGEST_TICK_S)
            before = now
    finally:
        if not task.done():
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
