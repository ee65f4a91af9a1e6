"""The command itself, in a process of its own: killed at random moments, and out of disk space."""

from __future__ import annotations

import resource
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import numpy as np
import psutil
import pytest

from flow.runs import RUN, accounted, notes, reasons, registered
from support import Done

pytestmark = pytest.mark.model

PATIENCE_S = 300.0


def started(root: Path) -> subprocess.Popen[str]:
    """`prereg run x` in a process of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", "prereg_judge.cli.main", "--root", str(root), "run", "x"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def ended(process: subprocess.Popen[str]) -> Done:
    """Wait for its end."""
    out, err = process.communicate(timeout=PATIENCE_S)
    return Done(process.returncode, out, err)


def recorded(root: Path) -> bytes:
    """The complete lines of the attempts."""
    path = root / RUN / "attempts.jsonl"
    data = path.read_bytes() if path.exists() else b""
    return data[: data.rfind(b"\n") + 1]


def n_attempts(root: Path) -> int:
    """Attempts on disk."""
    return recorded(root).count(b'"event":"attempt"')


def until(holds: Callable[[], bool]) -> None:
    """Wait until something is so."""
    give_up = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < give_up, "it did not happen"
        time.sleep(0.005)


def test_kill_9_at_random_moments(tmp_path: Path) -> None:
    """Killed again and again, it ends complete: every trial once, nothing recorded is lost."""
    root = registered(tmp_path / "w", n=16)
    rng = np.random.default_rng(9)
    before = b""
    for _ in range(5):
        process = started(root)
        # Loading takes its time and is killed too; each session adds something at least.
        goal = n_attempts(root) + int(rng.integers(1, 6))
        until(lambda: n_attempts(root) >= goal or process.poll() is not None)  # noqa: B023
        time.sleep(float(rng.uniform(0, 0.5)))
        children = psutil.Process(process.pid).children()
        process.kill()
        ended(process)
        gone, alive = psutil.wait_procs(children, timeout=30)
        assert gone
        assert not alive
        assert recorded(root).startswith(before)
        before = recorded(root)
    assert ended(started(root)).code == 0
    assert recorded(root).startswith(before)
    record = accounted(root)
    assert Counter(a.attempt for a in record.attempts) == {1: 32}
    assert reasons(record) == {}
    assert len(notes(record, "session")) == 5


@pytest.fixture
def full_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of two megabytes."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounting = ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(folder)]
    if shutil.which("mount") is None or subprocess.run(mounting, check=False).returncode:
        pytest.skip("needs the right to mount a file system")
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def _fill(folder: Path) -> Path:
    """Write until nothing more fits."""
    ballast = folder / "ballast"
    with ballast.open("wb", buffering=0) as stream, suppress(OSError):
        while stream.write(bytes(4096)):
            pass
    return ballast


def _ends_in_the_middle(root: Path, exhaust: Callable[[int], None], words: str) -> None:
    """Take the disk away after three attempts, look at what is left, and resume."""
    process = started(root)
    try:
        until(lambda: n_attempts(root) >= 3 or process.poll() is not None)
        process.send_signal(signal.SIGSTOP)
        exhaust(process.pid)
        process.send_signal(signal.SIGCONT)
        done = ended(process)
    finally:
        process.kill()
    assert done.code == 2, done
    assert words in done.err
    assert f"{RUN}/attempts.jsonl" in done.err
    assert "Traceback" not in done.err
    raw = (root / RUN / "attempts.jsonl").read_bytes()
    assert raw == recorded(root)
    assert 3 <= n_attempts(root) < 40


def _goes_on(root: Path) -> None:
    before = recorded(root)
    done = ended(started(root))
    assert done.code == 0, done
    assert recorded(root).startswith(before)
    record = accounted(root)
    assert Counter(a.attempt for a in record.attempts) == {1: 40}
    assert not notes(record, "torn")


def test_a_full_disk(full_disk: Path) -> None:
    """A disk that fills up in a run ends it with 2 and the file's name; the record is whole."""
    root = registered(full_disk / "w", n=20)
    left: list[Path] = []
    _ends_in_the_middle(root, lambda _: left.append(_fill(full_disk)), "No space left on device")
    left[0].unlink()
    _goes_on(root)


def test_a_record_that_may_not_grow(tmp_path: Path) -> None:
    """A line of which only a part could be written is undone."""
    root = registered(tmp_path / "w", n=20)

    def exhaust(pid: int) -> None:
        size = (root / RUN / "attempts.jsonl").stat().st_size + 100
        _, hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (size, hard))

    _ends_in_the_middle(root, exhaust, "File too large")
    _goes_on(root)
