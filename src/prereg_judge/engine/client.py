"""The parent's side of a worker: start it, ask it, time it, kill it.

Knows processes and messages; what a hang or a death means for a trial is the supervisor's
business.
"""

from __future__ import annotations

import json
import mmap
import os
import re
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from prereg_judge.errors import EngineError, Problem

_TICK_S = 0.2
_LONGEST_TICK_S = 1.0
_END_S = 30.0
_LOG_TAIL = 400
_FOLDERS = re.compile(r"(?<![\w/])/(?:[^\s/:]+/)+")  # all of a path but its last part


def library_environment() -> dict[str, str]:
    """What llama.cpp needs to behave beside others, as far as this process does not say it."""
    # ggml's abort handler would otherwise start a debugger to print a backtrace.
    env = {"GGML_NO_BACKTRACE": "1"}
    if "OMP_WAIT_POLICY" not in os.environ:
        # Threads that wait for others spin, by default for so long that one busy core makes every
        # call many times slower. This few spins cost nothing on a quiet machine.
        env["GOMP_SPINCOUNT"] = "1000"
    return {name: value for name, value in env.items() if name not in os.environ}


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
    environment
        Variables that the process has besides, or instead of, this process's own.
    """

    module = f"{__package__}.worker"  # what the process runs

    def __init__(
        self, *, log: Path | None = None, environment: Mapping[str, str] | None = None
    ) -> None:
        self._ending = threading.Lock()
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
            # -P: a file in the working directory must not take a library's place.
            [sys.executable, "-P", "-m", self.module, *map(str, fds), str(os.getpid())],
            pass_fds=fds,
            stdin=subprocess.DEVNULL,
            stdout=self._log_stream,
            stderr=self._log_stream,
            env={
                **{"PYTHONUNBUFFERED": "1", **os.environ},
                **library_environment(),
                **(environment or {}),
            },
        )
        theirs.close()
        self._socket = ours
        self._connection = Connection(os.dup(ours.fileno()))

    @property
    def pid(self) -> int:
        """Process id of the worker."""
        return self.process.pid

    @property
    def name(self) -> str:
        """What to call it in messages."""
        return f"worker {self.pid}"

    @property
    def alive(self) -> bool:
        """Whether the process has not ended (it may be stopped)."""
        return self.process.poll() is None

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
        # A worker that is stopped reads nothing, or only half of its answer is written.
        limit = struct.pack("@ll", int(timeout_s), max(1, int(timeout_s % 1 * 1e6)))
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, limit)
        try:
            self._connection.send_bytes(json.dumps(message).encode())
            answer = json.loads(self._await(timeout_s, heartbeat_s))
        except BlockingIOError as exc:
            raise WorkerSilentError(f"no answer within {timeout_s:g} s") from exc
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
        waited = silent = 0.0
        beats, before = self._beats(), time.monotonic()
        while True:
            late = waited > timeout_s
            quiet = heartbeat_s is not None and silent > heartbeat_s
            # Looked at once more before giving up: after this process itself was stopped, an
            # answer that has long arrived must not be taken for a hang.
            tick = 0 if late or quiet else min(_TICK_S, timeout_s - waited)
            if self._connection.poll(tick):
                return self._connection.recv_bytes()
            if late:
                raise WorkerSilentError(f"no answer within {timeout_s:g} s")
            if quiet:
                raise WorkerSilentError(f"no heartbeat for {heartbeat_s:g} s")
            now = time.monotonic()
            # A tick that took far longer means that this process was stopped (Ctrl-Z), and
            # perhaps the worker with it: that time is not the worker's.
            passed, before = min(now - before, _LONGEST_TICK_S), now
            waited += passed
            seen = self._beats()
            silent = silent + passed if seen == beats else 0.0
            beats = seen

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
        # Where things lie on this machine is not for a record.
        return _FOLDERS.sub("", lines[-1]) if lines else ""

    def kill(self) -> None:
        """End the worker at once (also one that is stopped) and free what it held.

        May be called again, and from two threads at once: by the one that closes a backend, and
        by the one that waits for the worker and finds it dead.
        """
        with self._ending:
            if self.process.poll() is None:
                self.process.kill()
                # One that waits for a device inside the kernel ends only when that lets it go; a
                # stuck driver must not hold up the command too.
                with suppress(subprocess.TimeoutExpired):
                    self.process.wait(timeout=_END_S)
            self._connection.close()
            self._socket.close()
            self._page.close()
            self._beat_file.close()
            self._log_stream.close()
