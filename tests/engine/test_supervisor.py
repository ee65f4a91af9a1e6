"""Workers that are really stopped and really killed, and what becomes of the calls."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from multiprocessing.connection import Connection
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from engine.small_model import FREE, PATH, YES_NO, prompt, shared, spec
from prereg_judge.engine import client as client_module
from prereg_judge.engine import supervisor
from prereg_judge.engine.client import WorkerClient, WorkerDiedError, WorkerSilentError
from prereg_judge.engine.protocol import Call, Constraint, Failure, Reply
from prereg_judge.engine.supervisor import Limits, LlamaBackend, attempts
from prereg_judge.errors import EngineError
from support import ScriptedBackend, verdict_reply

PATIENT = Limits(call_timeout_s=60, heartbeat_s=None, load_timeout_s=60)


@contextlib.contextmanager
def backend(
    folder: Path,
    limits: Limits = PATIENT,
    *,
    constraint: Constraint = YES_NO,
    announce: Callable[[str], None] = lambda _: None,
) -> Iterator[LlamaBackend]:
    """A backend over the small model, closed at the end."""
    made = LlamaBackend(
        spec(),
        constraint,
        decoding=FREE,
        max_tokens=16,
        limits=limits,
        log=folder / "worker.log",
        announce=announce,
    )
    try:
        yield made
    finally:
        made.close()


def call(text: str = "cat", seed: int = 1) -> Call:
    """A call about `text`."""
    return Call(text, prompt(text), (shared(),), seed)


def worker(of: LlamaBackend) -> int:
    """Process id of the worker that a backend has now."""
    assert of._client is not None
    return of._client.pid


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


# --- Hangs and deaths ---------------------------------------------------------------------------


@pytest.mark.model
def test_a_stopped_worker_is_a_hang_and_is_replaced(tmp_path: Path) -> None:
    """No answer by the deadline is a hang; the next attempt has a new worker, same numbers."""
    said: list[str] = []
    with backend(tmp_path, Limits(2, None, 60), announce=said.append) as one:
        before, stopped = answered(one.attempt(call())), worker(one)
        os.kill(stopped, signal.SIGSTOP)
        assert failed(one.attempt(call())) == ("hang", "no answer within 2 s")
        assert gone(stopped)
        assert answered(one.attempt(call())) == before
        assert worker(one) != stopped
    assert [text.split()[0] for text in said] == ["worker", "hang:", "worker"]


@pytest.mark.model
def test_a_lost_heartbeat_is_found_before_the_deadline(tmp_path: Path) -> None:
    """A worker that shows no sign of life is a hang although the deadline is far."""
    with backend(tmp_path, Limits(10_000, 0.5, 60)) as one:
        before = answered(one.attempt(call()))
        os.kill(worker(one), signal.SIGSTOP)
        assert failed(one.attempt(call())) == ("hang", "no heartbeat for 0.5 s")
        assert answered(one.attempt(call())) == before


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


def test_a_working_worker_has_a_heartbeat(tmp_path: Path) -> None:
    """The counter in the shared page moves many times during one call."""
    with backend(tmp_path) as one:
        one.attempt(call())
        assert one._client is not None
        before = one._client._beats()
        one.attempt(call("table"))
        assert one._client._beats() > before + 100


@pytest.mark.model
def test_a_worker_killed_during_a_call_is_a_crash(tmp_path: Path) -> None:
    """The failure names the signal, and the next attempt works."""
    with backend(tmp_path) as one:
        before, victim = answered(one.attempt(call())), worker(one)
        os.kill(victim, signal.SIGSTOP)
        timer = threading.Timer(0.5, os.kill, (victim, signal.SIGKILL))
        timer.start()
        reason, detail = failed(one.attempt(call()))
        timer.join()
        assert (reason, "SIGKILL" in detail) == ("crash", True)
        assert answered(one.attempt(call())) == before


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
        reason, detail = failed(one.attempt(call()))
        assert (reason, "SIGKILL" in detail) == ("crash", True)
        answered(one.attempt(call()))
        assert worker(one) != victims[0]


@pytest.mark.model
@pytest.mark.parametrize("sent", [signal.SIGKILL, signal.SIGSEGV, signal.SIGTERM])
def test_a_worker_that_died_between_calls_costs_no_attempt(
    tmp_path: Path, sent: signal.Signals
) -> None:
    """No call was in flight, so the next one gets a new worker and the same reply."""
    told: list[str] = []
    with backend(tmp_path, announce=told.append) as one:
        before, victim = answered(one.attempt(call())), worker(one)
        assert one._client is not None
        os.kill(victim, sent)
        one._client.process.wait()  # a killed process takes a moment to end
        assert answered(one.attempt(call())) == before
        assert worker(one) != victim
        assert any("died while idle" in text for text in told)


@pytest.mark.model
def test_a_new_pass_survives_a_dead_worker(tmp_path: Path) -> None:
    """Beginning a pass with a dead worker just means a new worker."""
    with backend(tmp_path) as one:
        one.start_pass()  # nothing to clear yet
        before = answered(one.attempt(call()))
        os.kill(worker(one), signal.SIGKILL)
        one.start_pass()
        assert answered(one.attempt(call())) == before
        one.start_pass()
        result = one.attempt(call())
        assert answered(result) == before
        assert isinstance(result, Reply)
        assert result.n_reused == 0


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
        answered(one.attempt(call()))


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
        one.attempt(call())
    (problem,) = caught.value.problems
    assert problem.file == str(PATH)
    assert str(tmp_path / "worker.log") in str(problem.remedy)
    assert _Doomed.left == 96
    assert not psutil.Process().children()


@pytest.mark.model
def test_a_schema_that_is_refused_is_an_error_at_once(tmp_path: Path) -> None:
    """What the user can mend is not tried again, and the worker is gone."""
    with (
        backend(tmp_path, constraint=Constraint({"not": {}}, ",", ":")) as one,
        pytest.raises(EngineError, match="grammar"),
    ):
        one.attempt(call())
    assert not psutil.Process().children()


@pytest.mark.model
def test_a_prompt_beyond_the_context_is_a_crash_without_a_signal(tmp_path: Path) -> None:
    """Too many tokens make decoding fail in an orderly way; nothing aborts, nothing is cut."""
    with backend(tmp_path) as one:
        before = answered(one.attempt(call()))
        long = Call("long", prompt("word " * 600), (), 1)
        reason, detail = failed(one.attempt(long))
        assert (reason, "llama_decode" in detail) == ("crash", True)
        assert answered(one.attempt(call())) == before


@pytest.mark.model
def test_a_context_shorter_than_a_batch_aborts_nothing() -> None:
    """Batches are never longer than the context, where llama.cpp would abort the process."""
    one = WorkerClient()
    try:
        small = asdict(spec(n_ctx=256, n_batch=512))
        one.ask({"op": "load", "spec": small}, timeout_s=60)
        opening = {"constraint": asdict(YES_NO), "decoding": asdict(FREE), "max_tokens": 9}
        one.ask({"op": "session", **opening}, timeout_s=60)
        message = {"op": "call", "key": "k", "tokens": [50] * 300, "cuts": [], "seed": 1}
        with pytest.raises(client_module.WorkerFaultError, match="llama_decode"):
            one.ask(message, timeout_s=60)
    finally:
        one.kill()


# --- Signals and parents ------------------------------------------------------------------------


@pytest.mark.model
def test_ctrl_c_at_the_worker_alone_does_nothing(tmp_path: Path) -> None:
    """The worker leaves the interrupt to its parent."""
    with backend(tmp_path) as one:
        before, pid = answered(one.attempt(call())), worker(one)
        os.kill(pid, signal.SIGINT)
        assert answered(one.attempt(call())) == before
        assert worker(one) == pid


@pytest.mark.model
def test_ctrl_c_during_a_call_ends_the_worker(tmp_path: Path) -> None:
    """An interrupt while waiting comes through, and no later call gets the stale answer."""
    with backend(tmp_path) as one:
        before, pid = answered(one.attempt(call("table"))), worker(one)
        os.kill(pid, signal.SIGSTOP)
        timer = threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT))
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            one.attempt(call("cat"))
        assert gone(pid)
        assert answered(one.attempt(call("table"))) == before


PARENT = """
import sys
from pathlib import Path
from engine.test_supervisor import Limits, backend, call, worker
with backend(Path(sys.argv[1]), Limits(3, 2, 60)) as one:
    one.attempt(call())
    print(worker(one), flush=True)
    sys.stdin.readline()
    print("asking", flush=True)
    print(one.attempt(call("table")), flush=True)
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


# --- The wire between parent and worker ---------------------------------------------------------


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


# --- Leftovers ----------------------------------------------------------------------------------


@pytest.mark.model
def test_closing_twice_is_harmless(tmp_path: Path) -> None:
    """Closing again does nothing, and a closed backend can begin anew."""
    with backend(tmp_path) as one:
        one.close()
        before = answered(one.attempt(call()))
        kept = one._client
        one.close()
        one.close()
        assert kept is not None
        kept.kill()
        assert answered(one.attempt(call())) == before


@pytest.mark.model
def test_ten_lost_workers_leave_nothing_behind(tmp_path: Path) -> None:
    """No process, no zombie and no open file remains after ten deaths and restarts."""
    with backend(tmp_path) as one:
        answered(one.attempt(call()))
        one.close()
        me = psutil.Process()
        n_files, children = me.num_fds(), me.children()
        for n in range(10):
            answered(one.attempt(call()))
            assert len(me.children()) == len(children) + 1
            os.kill(worker(one), signal.SIGKILL)
            if n % 2:
                failed(one.attempt(call()))
            else:
                one.start_pass()
            assert me.children() == children
            assert me.num_fds() == n_files


# --- Retries ------------------------------------------------------------------------------------

HANG = Failure("hang", "made up", 1.0)
CRASH = Failure("crash", "made up", 1.0)


def _tries(script: list[Failure | str], retries: int) -> tuple[list[str], ScriptedBackend]:
    """What happened, in order, when a call was tried with these answers."""
    log: list[str] = []
    scripted = ScriptedBackend(lambda _key, before: script[before])
    seeds = iter(range(100))

    def make_call() -> Call:
        log.append("made")
        return Call("k", (1, 2), (), next(seeds))

    for made, result in attempts(scripted, make_call, retries=retries):
        assert made is scripted.asked[-1]
        log.append(result.reason if isinstance(result, Failure) else "reply")
    return log, scripted


@pytest.mark.parametrize(
    ("script", "retries", "expected"),
    [
        (["YES"], 2, ["reply"]),
        ([HANG, "YES"], 2, ["hang", "reply"]),
        ([HANG, CRASH, "YES"], 2, ["hang", "crash", "reply"]),
        ([HANG, CRASH, HANG, "YES"], 2, ["hang", "crash", "hang"]),
        ([CRASH, "YES"], 0, ["crash"]),
        (["YES"], 0, ["reply"]),
        (["not JSON at all", "YES"], 2, ["reply"]),
    ],
)
def test_a_call_is_tried_until_a_reply_comes(
    script: list[Failure | str], retries: int, expected: list[str]
) -> None:
    """At most one try and the registered retries; any reply, readable or not, ends it."""
    log, scripted = _tries(
        [verdict_reply(a) if a == "YES" else a for a in script if isinstance(a, Failure | str)],
        retries,
    )
    assert log == [word for result in expected for word in ("made", result)]
    assert [c.seed for c in scripted.asked] == list(range(len(expected)))


def test_an_attempt_is_seen_before_the_next_begins() -> None:
    """A caller that stops looking after a failure causes no further call."""
    scripted = ScriptedBackend(lambda _key, _before: HANG)
    tries = attempts(scripted, lambda: Call("k", (1,), (), 1), retries=5)
    assert not scripted.asked
    assert next(tries)[1] == HANG
    assert len(scripted.asked) == 1
    assert next(tries)[1] == HANG
    assert len(scripted.asked) == 2


def test_an_error_of_the_engine_is_not_tried_again() -> None:
    """When no worker can be had, retrying is not `attempts`' business."""

    def refuse(_key: str, _before: int) -> str:
        raise EngineError("no worker")

    scripted = ScriptedBackend(refuse)
    with pytest.raises(EngineError):
        list(attempts(scripted, lambda: Call("k", (1,), (), 1), retries=5))
    assert len(scripted.asked) == 1
