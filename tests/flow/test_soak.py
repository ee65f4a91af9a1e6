"""Long runs with workers that are stopped, killed and slow at random: no trial is lost or double.

The supervisor, the record and the signals are real. In the long soak the worker is a light one
(`engine.stub_worker`), so that thousands of calls take seconds.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path

import numpy as np
import pytest

from flow.runs import (
    KilledError,
    LostAfter,
    accounted,
    lock_in_groups,
    making,
    notes,
    reasons,
    registered,
)
from prereg_judge.engine.client import WorkerClient
from prereg_judge.engine.supervisor import Client, Limits
from prereg_judge.errors import EngineError
from prereg_judge.flow.backends import MakeBackend
from prereg_judge.flow.running import run_registration
from prereg_judge.words import INFRASTRUCTURE
from prereg_judge.workspace import Workspace
from support import make_workspace, small_items, write_items

pytestmark = pytest.mark.model

PATH = {"PYTHONPATH": str(Path(__file__).parents[1])}
SIGNALS = (signal.SIGSTOP, signal.SIGKILL)


class _Stub(WorkerClient):
    """See `engine.stub_worker`."""

    module = "engine.stub_worker"


class _Chaos:
    """Sends signals to whichever worker there is, at random moments, until it is told to end."""

    def __init__(self, rng: np.random.Generator, *, every_s: tuple[float, float]) -> None:
        self._rng, self._every_s = rng, every_s
        self._pid: int | None = None
        self._over = threading.Event()
        self.sent = 0

    def follow(self, client: WorkerClient) -> Client:
        """Send what comes to this worker."""
        self._pid = client.pid
        return client

    @contextmanager
    def going(self) -> Iterator[None]:
        """As long as the context lasts."""
        thread = threading.Thread(target=self._send)
        thread.start()
        try:
            yield
        finally:
            self._over.set()
            thread.join()

    def _send(self) -> None:
        while not self._over.wait(self._rng.uniform(*self._every_s)):
            if self._pid is not None:
                with suppress(ProcessLookupError):
                    os.kill(self._pid, SIGNALS[int(self._rng.integers(2))])
                    self.sent += 1


def _run_to_end(root: Path, make: MakeBackend, losses: Sequence[int]) -> int:
    """Run `x`, losing the process after so many attempts each time; how often it was resumed.

    Where a worker is hit three times while it loads the run ends with an error, and is resumed.
    """
    for resumed in count():
        attempts = losses[resumed] if resumed < len(losses) else 10**6
        with suppress(KilledError, EngineError):
            watcher = LostAfter(attempts)
            run_registration(Workspace(root), "x", watcher=watcher, make_backend=make)
            return resumed
    raise AssertionError


def test_ten_thousand_trials(tmp_path: Path) -> None:
    """Each ends scored, or unscored with its reason; none is lost, none twice; scoring agrees.

    Five rows stop or kill their worker whenever they are put to it, and the run's own process is
    lost five times on the way.
    """
    root = make_workspace(tmp_path / "w")
    rows = small_items(2000)
    for at, word in ((7, "hangs"), (800, "dies"), (801, "hangs"), (1000, "dies"), (1998, "dies")):
        rows[at]["id"] += f"-always-{word}"
    write_items(root / "sentinels/small.jsonl", rows)
    band = "sentinel.agreement.count=1..1999"
    lock_in_groups(root, parallel=4, passes="5", hang="60s,retries=1", band=band)
    rng = np.random.default_rng(20261130)
    chaos = _Chaos(rng, every_s=(0.3, 1.2))
    make = making(
        lambda log: chaos.follow(_Stub(log=log, environment=PATH)),
        limits=Limits(call_timeout_s=0.1, heartbeat_s=None, load_timeout_s=5),
    )
    with chaos.going():
        resumed = _run_to_end(root, make, [int(n) for n in rng.integers(500, 2000, size=5)])
    record = accounted(root)
    assert len(record.by_trial) == 10_000
    failed = reasons(record)
    bad = {t for t in record.by_trial if "always" in t}
    assert len(bad) == 25
    for trial in bad:
        assert len(failed[trial]) == 2
        assert set(failed[trial]) <= INFRASTRUCTURE
    assert len({t for t, made in failed.items() if made[-1] is not None} - bad) < 100
    assert len(notes(record, "batch_lost")) >= 20
    assert chaos.sent > 10
    assert len(notes(record, "session")) == resumed >= 5


def test_sixty_trials_of_the_real_model(tmp_path: Path) -> None:
    """The same with the real worker and model, under signals that hit it loading and at work."""
    root = registered(tmp_path / "w", n=30, hang="10s,retries=3,heartbeat=2s")
    chaos = _Chaos(np.random.default_rng(7), every_s=(1.5, 4.0))
    make = making(lambda log: chaos.follow(WorkerClient(log=log)))
    with chaos.going():
        _run_to_end(root, make, [20])
    record = accounted(root, retries=3)
    assert len(record.by_trial) == 60
    assert chaos.sent > 3
