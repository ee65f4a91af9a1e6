"""The parent's side of a worker: start it, ask it, time it, kill it.

Knows processes and messages; what a hang or a death means for a trial is the supervisor's
business.
"""

from __future__ import annotations

import json
import mmap
import os
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from prereg_judge.errors import EngineError, Problem

_TICK_S = 0.2
_LOG_TAIL = 400


class WorkerDiedError(Exception):
    """The worker's process ended while an answer was awaited."""


class WorkerSilentError(Exception):
    """No answer within the time-out, or no heartbeat for longer than allowed."""


class WorkerFaultError(Exception):
    """The worker answered that the model could not compute."""


class WorkerClient:
    """One worker process.

    Parameters
    ----------
    log
        File to which the worker's own output (llama.cpp's messages) is appended; None = a
        temporary file.
    """

    def __init__(self, *, log: Path | None = None) -> None:
        ours, theirs = socket.socketpair()
        self._log = log
        self._log_stream = log.open("ab") if log else tempfile.TemporaryFile()  # noqa: SIM115
        self._beat_file = tempfile.TemporaryFile()  # noqa: SIM115
        self._beat_file.truncate(8)
        self._page = mmap.mmap(self._beat_file.fileno(), 8)
        fds = (theirs.fileno(), self._beat_file.fileno())
        self._log_stream.seek(0, os.SEEK_END)
        self._log_start = self._log_stream.tell()
        self.process = subprocess.Popen(
            [sys.executable, "-m", __package__ + ".worker", *map(str, fds), str(os.getpid())],
            pass_fds=fds,
            stdin=subprocess.DEVNULL,
            stdout=self._log_stream,
            stderr=self._log_stream,
            # ggml's abort handler would otherwise start a debugger to print a backtrace.
            env={**os.environ, "GGML_NO_BACKTRACE": "1", "PYTHONUNBUFFERED": "1"},
        )
        theirs.close()
        self._connection = Connection(ours.detach())

    @property
    def pid(self) -> int:
        """Process id of the worker."""
        return self.process.pid

    def ask(
        self, message: dict[str, Any], *, timeout_s: float, heartbeat_s: float | None = None
    ) -> Any:
        """Send a message and wait for its answer.

        Raises
        ------
        WorkerDiedError, WorkerSilentError, WorkerFaultError
            As their docstrings say. The worker is not killed here.
        EngineError
            If the worker refused the request for a reason that the user can mend.
        RuntimeError
            For a bug in the worker, with its traceback.
        """
        try:
            self._connection.send_bytes(json.dumps(message).encode())
            answer = json.loads(self._await(timeout_s, heartbeat_s))
        except (EOFError, ConnectionError, BrokenPipeError) as exc:
            raise WorkerDiedError(self._obituary()) from exc
        if "ok" in answer:
            return answer["ok"]
        if "refused" in answer:
            raise EngineError(*(Problem(**p) for p in answer["refused"]))
        if "fault" in answer:
            raise WorkerFaultError(answer["fault"])
        raise RuntimeError(f"the worker failed:\n{answer['bug']}")

    def _await(self, timeout_s: float, heartbeat_s: float | None) -> bytes:
        started = last_beat = time.monotonic()
        beats = self._beats()
        while True:
            # Poll before looking at the clock: after the parent itself was stopped, an answer
            # that has long arrived must not be taken for a hang.
            if self._connection.poll(_TICK_S):
                return self._connection.recv_bytes()
            now = time.monotonic()
            if (seen := self._beats()) != beats:
                beats, last_beat = seen, now
            if now - started > timeout_s:
                raise WorkerSilentError(f"no answer within {timeout_s:g} s")
            if heartbeat_s is not None and now - last_beat > heartbeat_s:
                raise WorkerSilentError(f"no heartbeat for {heartbeat_s:g} s")

    def _beats(self) -> int:
        return int(struct.unpack("=Q", self._page[:8])[0])

    def _obituary(self) -> str:
        try:
            code = self.process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            self.kill()
            return "the worker closed its connection without ending"
        cause = f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit status {code}"
        tail = self._log_tail()
        return f"the worker ended ({cause})" + (f"; its last words: {tail}" if tail else "")

    def _log_tail(self) -> str:
        self._log_stream.flush()
        end = os.fstat(self._log_stream.fileno()).st_size
        start = max(self._log_start, end - _LOG_TAIL)
        if self._log is not None:
            with self._log.open("rb") as stream:
                stream.seek(start)
                data = stream.read()
        else:
            data = os.pread(self._log_stream.fileno(), end - start, start)
        lines = data.decode("utf-8", "replace").strip().splitlines()
        return lines[-1] if lines else ""

    def kill(self) -> None:
        """End the worker at once (also one that is stopped) and free what it held."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self._connection.close()
        self._page.close()
        self._beat_file.close()
        self._log_stream.close()
