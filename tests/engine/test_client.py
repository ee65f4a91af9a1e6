"""The wire between a parent and its worker: deadlines, half messages, last words."""

from __future__ import annotations

import os
import signal
import socket
import struct
import subprocess
import sys
from dataclasses import asdict
from multiprocessing.connection import Connection
from pathlib import Path
from types import SimpleNamespace

import pytest

from engine.small_model import FREE, YES_NO, spec
from prereg_judge.engine import client as client_module
from prereg_judge.engine.client import WorkerClient, WorkerDiedError, WorkerSilentError
from prereg_judge.engine.protocol import SessionSettings


@pytest.mark.model
@pytest.mark.parametrize(("deadline_s", "heartbeat_s", "given_up_s"), [(3, None, 3), (60, 2, 2)])
def test_a_silent_worker_is_given_up_when_its_time_is_over(
    monkeypatch: pytest.MonkeyPatch,
    deadline_s: float,
    heartbeat_s: float | None,
    given_up_s: float,
) -> None:
    """Not before the registered time and within half a second of it, by a clock of its own."""
    clock = 0.0

    class Silent:
        """A connection on which nothing ever comes, and on which waiting takes its time."""

        def poll(self, tick: float) -> bool:
            nonlocal clock
            clock += max(tick, 0.01)
            return False

        def close(self) -> None:
            """See `Connection`."""

    monkeypatch.setattr(client_module, "time", SimpleNamespace(monotonic=lambda: clock))
    client = WorkerClient()
    try:
        monkeypatch.setattr(client, "_connection", Silent())
        monkeypatch.setattr(client, "_beats", lambda: 7)
        with pytest.raises(WorkerSilentError):
            client._await(deadline_s, heartbeat_s)
        assert given_up_s <= clock <= given_up_s + 0.5
    finally:
        client.kill()


@pytest.mark.model
def test_a_context_shorter_than_a_batch_aborts_nothing() -> None:
    """Batches are never longer than the context, where llama.cpp would abort the process."""
    one = WorkerClient()
    try:
        small = asdict(spec(n_ctx=256, n_batch=512))
        one.ask({"op": "load", "spec": small}, timeout_s=60)
        settings = asdict(SessionSettings(YES_NO, FREE, 9))
        one.ask({"op": "session", "settings": settings}, timeout_s=60)
        long = {"key": "k", "tokens": [50] * 300, "cuts": [], "seed": 1}
        message = {"op": "run", "calls": [long]}
        with pytest.raises(client_module.WorkerFaultError, match="llama_decode"):
            one.ask(message, timeout_s=60)
    finally:
        one.kill()


def test_an_answer_that_has_arrived_is_taken_whatever_the_clock_says(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A stop between looking for the answer and looking at the clock is no hang either."""
    clock = SimpleNamespace(now=0.0)
    one = WorkerClient()
    try:
        looks = iter([False, True])

        def poll(_: float) -> bool:
            clock.now += 1000
            return next(looks)

        monkeypatch.setattr(
            client_module, "time", SimpleNamespace(monotonic=lambda: float(clock.now))
        )
        monkeypatch.setattr(one._connection, "poll", poll)
        monkeypatch.setattr(one._connection, "recv_bytes", lambda: b"here")
        assert one._await(0.5, 0.1) == b"here"
    finally:
        one.kill()


def test_a_worker_that_reads_nothing_is_found_by_the_deadline() -> None:
    """A message larger than the socket's buffer does not block for ever on a stopped worker."""
    one = WorkerClient()
    try:
        os.kill(one.pid, signal.SIGSTOP)
        with pytest.raises(WorkerSilentError, match=r"within 0\.5 s"):
            one.ask({"op": "tokenize", "texts": ["x" * 4_000_000]}, timeout_s=0.5)
    finally:
        one.kill()


def test_half_an_answer_is_found_by_the_deadline() -> None:
    """A worker that is stopped in the middle of its answer does not block for ever."""
    one = WorkerClient()
    try:
        ours, theirs = socket.socketpair()
        one._connection.close()
        one._socket.close()
        one._socket, one._connection = ours, Connection(os.dup(ours.fileno()))
        theirs.sendall(struct.pack("!i", 100) + b'{"ok"')
        with pytest.raises(WorkerSilentError, match=r"within 0\.5 s"):
            one.ask({"op": "system"}, timeout_s=0.5)
        theirs.close()
    finally:
        one.kill()


def test_files_in_the_working_directory_take_no_librarys_place(tmp_path: Path) -> None:
    """A user's file named like a library is not run by the worker."""
    for name in ("signal", "json", "llama_cpp", "numpy", "prereg_judge"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('a file of the user was run')\n")
    code = "from prereg_judge.engine.inspect import system_info; print(sorted(system_info()))"
    done = subprocess.run(
        [sys.executable, "-P", "-c", code],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "['build', 'gpu_offload', 'llama_cpp_python']\n", done.stderr


def test_a_bug_in_the_worker_comes_back_with_its_traceback() -> None:
    """What the worker did not expect is raised as a bug, not turned into data."""
    one = WorkerClient()
    try:
        with pytest.raises(RuntimeError, match="KeyError: 'no-such-operation'"):
            one.ask({"op": "no-such-operation"}, timeout_s=60)
        with pytest.raises(RuntimeError, match="NoneType"):
            one.ask({"op": "facts"}, timeout_s=60)
    finally:
        one.kill()


def test_a_death_is_told_with_the_workers_last_words(tmp_path: Path) -> None:
    """The last line that the worker wrote is in the message, and earlier logs are not."""
    log = tmp_path / "worker.log"
    log.write_text("from an earlier worker\n")
    one = WorkerClient(log=log)
    try:
        one.ask({"op": "system"}, timeout_s=60)
        with log.open("a") as stream:
            stream.write("out of memory, alas\n")
        os.kill(one.pid, signal.SIGKILL)
        with pytest.raises(WorkerDiedError, match=r"SIGKILL.*out of memory, alas"):
            one.ask({"op": "system"}, timeout_s=60)
    finally:
        one.kill()
    quiet = WorkerClient(log=log)
    try:
        os.kill(quiet.pid, signal.SIGKILL)
        with pytest.raises(WorkerDiedError) as caught:
            quiet.ask({"op": "system"}, timeout_s=60)
        assert "alas" not in str(caught.value)
    finally:
        quiet.kill()


def test_a_worker_ends_when_its_parent_hangs_up() -> None:
    """A closed connection ends the worker without an error."""
    one = WorkerClient()
    try:
        one.ask({"op": "system"}, timeout_s=60)
        one._connection.close()
        one._socket.close()
        assert one.process.wait(timeout=30) == 0
    finally:
        one.kill()
