"""The thread with an event loop: what is left when it is left ends whole, wherever it stood."""

from __future__ import annotations

import asyncio
import gc
import warnings

import anyio
import pytest

from prereg_judge.engine.openai.loop import LoopThread, patiently


@pytest.mark.parametrize("patient", [False, True])
def test_nothing_of_an_abandoned_task_is_left_unawaited(patient: bool) -> None:
    """A task that starts others is cancelled at any step of the loop; none dies before its first.

    An exchange opens its connection in a task group; where every task of the loop were cancelled
    at once, the group's new task would be cancelled before it had begun, and warn.
    """
    ended: list[int] = []

    async def child() -> None:
        await asyncio.sleep(60)

    async def exchange(steps: int, loop: LoopThread) -> None:
        try:
            loop._stop.set()
            for _ in range(steps):
                await asyncio.sleep(0)
            async with anyio.create_task_group() as group:
                group.start_soon(child)
        finally:
            ended.append(steps)

    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        for steps in range(12):
            loop = LoopThread().__enter__()
            work = exchange(steps, loop)
            loop.submit(patiently(work, 60) if patient else work)
            loop._thread.join()  # `exchange` stopped it itself, at a known step
        gc.collect()
    assert ended == list(range(12))
    assert not [str(each.message) for each in seen if issubclass(each.category, RuntimeWarning)]
