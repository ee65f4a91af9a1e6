"""Workers that are really stopped and really killed, and what becomes of the calls."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from engine.small_model import PATH, prompt
from engine.supervised import (
    answered,
    ask,
    backend,
    call,
    children,
    client,
    failed,
    gone,
    wait_for,
    worker,
)
from prereg_judge.engine import supervisor
from prereg_judge.engine.client import WorkerClient
from prereg_judge.engine.protocol import Call, Constraint, Reply
from prereg_judge.engine.supervisor import Limits
from prereg_judge.errors import EngineError

# --- Hangs and deaths ---------------------------------------------------------------------------


@pytest.mark.model
def test_a_stopped_worker_is_a_hang_and_is_replaced(tmp_path: Path) -> None:
    """No answer by the deadline is a hang; the next attempt has a new worker, same numbers."""
    said: list[str] = []
    with backend(tmp_path, Limits(2, None, 60), announce=said.append) as one:
        before, stopped = answered(ask(one, call())), worker(one)
        os.kill(stopped, signal.SIGSTOP)
        assert failed(ask(one, call())) == ("hang", "no answer within 2 s")
        assert gone(stopped)
        assert answered(ask(one, call())) == before
        assert worker(one) != stopped
    assert [text.split()[0] for text in said] == ["worker", "hang:", "worker"]


@pytest.mark.model
def test_a_lost_heartbeat_is_found_before_the_deadline(tmp_path: Path) -> None:
    """A worker that shows no sign of life is a hang although the deadline is far."""
    with backend(tmp_path, Limits(10_000, 0.5, 60)) as one:
        before = answered(ask(one, call()))
        os.kill(worker(one), signal.SIGSTOP)
        assert failed(ask(one, call())) == ("hang", "no heartbeat for 0.5 s")
        assert answered(ask(one, call())) == before


def test_a_working_worker_has_a_heartbeat(tmp_path: Path) -> None:
    """The counter in the shared page moves many times during one call."""
    with backend(tmp_path) as one:
        ask(one, call())
        before = client(one)._beats()
        ask(one, call("table"))
        assert client(one)._beats() > before + 100


@pytest.mark.model
def test_a_worker_killed_during_a_call_is_a_crash(tmp_path: Path) -> None:
    """The failure names the signal, and the next attempt works."""
    with backend(tmp_path) as one:
        before, victim = answered(ask(one, call())), worker(one)
        os.kill(victim, signal.SIGSTOP)
        timer = threading.Timer(0.5, os.kill, (victim, signal.SIGKILL))
        timer.start()
        reason, detail = failed(ask(one, call()))
        timer.join()
        assert (reason, "SIGKILL" in detail) == ("crash", True)
        assert answered(ask(one, call())) == before


@pytest.mark.model
def test_a_worker_killed_before_its_first_call_is_a_crash(tmp_path: Path) -> None:
    """A worker that dies right after loading costs one attempt, and another takes over."""
    victims: list[int] = []

    def kill_the_first(text: str) -> None:
        if not victims:
            victims.append(int(text.split()[1]))
            os.kill(victims[0], signal.SIGKILL)
            wait_for(lambda: gone(victims[0]))

    with backend(tmp_path, announce=kill_the_first) as one:
        reason, detail = failed(ask(one, call()))
        assert (reason, "SIGKILL" in detail) == ("crash", True)
        answered(ask(one, call()))
        assert worker(one) != victims[0]


@pytest.mark.model
@pytest.mark.parametrize("sent", [signal.SIGKILL, signal.SIGSEGV, signal.SIGTERM])
def test_a_worker_that_died_between_calls_costs_no_attempt(
    tmp_path: Path, sent: signal.Signals
) -> None:
    """No call was in flight, so the next one gets a new worker and the same reply."""
    told: list[str] = []
    with backend(tmp_path, announce=told.append) as one:
        before, victim = answered(ask(one, call())), worker(one)
        os.kill(victim, sent)
        client(one).process.wait()  # a killed process takes a moment to end
        assert answered(ask(one, call())) == before
        assert worker(one) != victim
        assert any("died while idle" in text for text in told)


@pytest.mark.model
def test_a_new_pass_survives_a_dead_worker(tmp_path: Path) -> None:
    """Beginning a pass with a dead worker just means a new worker."""
    with backend(tmp_path) as one:
        one.start_pass()  # nothing to clear yet
        before = answered(ask(one, call()))
        os.kill(worker(one), signal.SIGKILL)
        one.start_pass()
        assert answered(ask(one, call())) == before
        one.start_pass()
        result = ask(one, call())
        assert answered(result) == before
        assert isinstance(result, Reply)
        assert result.n_reused == 0


@pytest.mark.model
def test_a_new_pass_does_not_wait_long_for_a_stopped_worker(tmp_path: Path) -> None:
    """A worker that hangs between two passes is given up as in a call, and charged to none."""
    with backend(tmp_path, Limits(3, None, 10_000)) as one:
        before, stopped = answered(ask(one, call())), worker(one)
        os.kill(stopped, signal.SIGSTOP)
        one.start_pass()
        assert gone(stopped)
        assert answered(ask(one, call())) == before


class _Doomed(WorkerClient):
    """Clients of which the first so many lose their worker while it loads."""

    left = 0
    delay_s = 0.15

    def ask(self, message: dict[str, Any], **limits: Any) -> Any:
        if message["op"] == "load" and _Doomed.left > 0:
            _Doomed.left -= 1
            timer = threading.Timer(_Doomed.delay_s, os.kill, (self.pid, signal.SIGKILL))
            timer.start()
            try:
                return super().ask(message, **limits)
            finally:
                timer.join()
        return super().ask(message, **limits)


@pytest.mark.model
def test_a_worker_killed_while_it_loads_is_started_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A death during loading costs no attempt: loading is tried again."""
    monkeypatch.setattr(supervisor, "WorkerClient", _Doomed)
    monkeypatch.setattr(_Doomed, "left", 1)
    with backend(tmp_path) as one:
        answered(ask(one, call()))


def test_a_model_that_never_loads_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After three tries the command gives up, names the file and the log, and leaves no child."""
    monkeypatch.setattr(supervisor, "WorkerClient", _Doomed)
    monkeypatch.setattr(_Doomed, "left", 99)
    with (
        backend(tmp_path) as one,
        pytest.raises(EngineError, match=r"3 tries.*SIGKILL") as caught,
    ):
        ask(one, call())
    (problem,) = caught.value.problems
    assert problem.file == str(PATH)
    assert str(tmp_path / "worker.log") in str(problem.remedy)
    assert _Doomed.left == 96
    assert not children()


@pytest.mark.model
def test_a_schema_that_is_refused_is_an_error_at_once(tmp_path: Path) -> None:
    """What the user can mend is not tried again, and the worker is gone."""
    with (
        backend(tmp_path, constraint=Constraint({"not": {}}, ",", ":")) as one,
        pytest.raises(EngineError, match="grammar"),
    ):
        ask(one, call())
    assert not children()


@pytest.mark.model
def test_a_prompt_beyond_the_context_is_a_crash_without_a_signal(tmp_path: Path) -> None:
    """Too many tokens make decoding fail in an orderly way; nothing aborts, nothing is cut."""
    with backend(tmp_path) as one:
        before = answered(ask(one, call()))
        long = Call("long", prompt("word " * 600), (), 1)
        reason, detail = failed(ask(one, long))
        assert (reason, "llama_decode" in detail) == ("crash", True)
        assert answered(ask(one, call())) == before


# --- Signals and parents ------------------------------------------------------------------------


@pytest.mark.model
def test_ctrl_c_at_the_worker_alone_does_nothing(tmp_path: Path) -> None:
    """The worker leaves the interrupt to its parent."""
    with backend(tmp_path) as one:
        before, pid = answered(ask(one, call())), worker(one)
        os.kill(pid, signal.SIGINT)
        assert answered(ask(one, call())) == before
        assert worker(one) == pid


@pytest.mark.model
def test_ctrl_c_during_a_call_ends_the_worker(tmp_path: Path) -> None:
    """An interrupt while waiting comes through, and no later call gets the stale answer."""
    with backend(tmp_path) as one:
        before, pid = answered(ask(one, call("table"))), worker(one)
        os.kill(pid, signal.SIGSTOP)
        timer = threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT))
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            ask(one, call("cat"))
        assert gone(pid)
        assert answered(ask(one, call("table"))) == before


PARENT = """
import sys
from pathlib import Path
from engine.supervised import Limits, ask, backend, call, worker
with backend(Path(sys.argv[1]), Limits(3, 2, 60)) as one:
    ask(one, call())
    print(worker(one), flush=True)
    sys.stdin.readline()
    print("asking", flush=True)
    print(ask(one, call("table")), flush=True)
"""


@contextlib.contextmanager
def parent(folder: Path) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """Another process with a worker of its own: that process, and its worker's id."""
    path = os.pathsep.join([str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    process = subprocess.Popen(
        [sys.executable, "-c", PARENT, str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
    )
    assert process.stdout
    pid = int(process.stdout.readline())
    try:
        yield process, pid
    finally:
        process.kill()
        process.communicate()


@pytest.mark.model
@pytest.mark.parametrize("stopped", [False, True])
def test_a_worker_ends_with_its_parent(tmp_path: Path, stopped: bool) -> None:
    """When the parent is killed outright the worker goes too, even one that is stopped."""
    with parent(tmp_path) as (process, pid):
        assert not gone(pid)
        if stopped:
            os.kill(pid, signal.SIGSTOP)
        process.kill()
        process.wait()
        wait_for(lambda: gone(pid))


@pytest.mark.model
@pytest.mark.parametrize("first", ["worker", "parent"])
def test_a_parent_that_was_stopped_reports_no_hang(tmp_path: Path, first: str) -> None:
    """Time in which the parent itself was stopped, as by Ctrl-Z, is not held against a worker."""
    with parent(tmp_path) as (process, pid):
        assert process.stdin
        assert process.stdout
        os.kill(pid, signal.SIGSTOP)
        process.stdin.write("\n")
        process.stdin.flush()
        assert process.stdout.readline() == "asking\n"
        time.sleep(0.3)
        os.kill(process.pid, signal.SIGSTOP)
        if first == "worker":  # it answers while its parent sleeps
            os.kill(pid, signal.SIGCONT)
        time.sleep(4)
        os.kill(process.pid, signal.SIGCONT)
        if first == "parent":
            time.sleep(0.2)
            os.kill(pid, signal.SIGCONT)
        assert process.stdout.readline().startswith("Reply(")


# --- Leftovers ----------------------------------------------------------------------------------


@pytest.mark.model
def test_closing_twice_is_harmless(tmp_path: Path) -> None:
    """Closing ends the worker, again it does nothing, and no call is made after it."""
    with backend(tmp_path) as one:
        answered(ask(one, call()))
        kept = client(one)
        one.close()
        assert gone(kept.pid)
        one.close()
        kept.kill()
        with pytest.raises(RuntimeError, match="closed"):
            ask(one, call())
    assert not children()


@pytest.mark.model
def test_ten_lost_workers_leave_nothing_behind(tmp_path: Path) -> None:
    """No process, no zombie and no open file remains after ten deaths and restarts."""
    me = psutil.Process()
    with backend(tmp_path) as one:
        answered(ask(one, call()))
        os.kill(worker(one), signal.SIGKILL)
        one.start_pass()
        n_files, before = me.num_fds(), children()
        for n in range(10):
            answered(ask(one, call()))
            assert len(children()) == len(before) + 1
            os.kill(worker(one), signal.SIGKILL)
            if n % 2:
                client(one).process.wait()
                answered(ask(one, call("table")))
                os.kill(worker(one), signal.SIGKILL)
            one.start_pass()
            assert children() == before
            assert me.num_fds() == n_files


def test_a_process_that_the_kernel_keeps_is_not_waited_for() -> None:
    """A killed worker that does not end, as one stuck in a driver, holds nobody up."""
    one = WorkerClient()
    real = one.process.wait

    def stuck(timeout: float | None = None) -> int:
        assert timeout is not None, "this would wait for ever"
        raise subprocess.TimeoutExpired("worker", timeout)

    one.process.wait = stuck  # type: ignore[method-assign]
    one.kill()
    one.process.wait = real  # type: ignore[method-assign]
    assert one.process.wait(timeout=30) == -signal.SIGKILL
