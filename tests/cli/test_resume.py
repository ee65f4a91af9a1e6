"""Killed, stopped, interrupted, out of disk: nothing recorded is lost, and the run goes on."""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from prereg_judge.engine.protocol import Failure
from prereg_judge.flow import backends, running
from prereg_judge.ledger.book import Ledger
from prereg_judge.record.attempt import AttemptLine
from prereg_judge.record.run import Record, read_plan, read_record
from prereg_judge.workspace import Workspace
from support import (
    Done,
    ScriptedBackend,
    locked,
    make_workspace,
    prereg,
    run_scripted,
    verdict_reply,
    without_last_event,
    write_items,
)

RUN = "runs/x/1"
COMMAND = [sys.executable, "-m", "prereg_judge.cli.main"]
PATIENCE_S = 300.0  # for what must happen; only a failing test waits so long


def started(root: Path, *args: str) -> subprocess.Popen[str]:
    """`prereg run x` in a process of its own."""
    return subprocess.Popen(
        [*COMMAND, "--root", str(root), "run", "x", *args],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def ended(process: subprocess.Popen[str]) -> Done:
    """Wait for its end."""
    out, err = process.communicate(timeout=PATIENCE_S)
    return Done(process.returncode, out, err)


def run_to_end(root: Path, *args: str) -> Done:
    """`prereg run x` from start to end, which must be a good one."""
    done = ended(started(root, *args))
    assert done.code == 0, done
    return done


def until(holds: Callable[[], bool]) -> None:
    """Wait until something is so."""
    give_up = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < give_up, "it did not happen"
        time.sleep(0.01)


def attempts_in(root: Path, run: str = RUN) -> int:
    """Complete lines of attempts on disk."""
    path = root / run / "attempts.jsonl"
    return path.read_bytes().count(b'"event":"attempt"') if path.exists() else 0


def worker_of(process: subprocess.Popen[str]) -> psutil.Process:
    """The worker that holds the model."""
    children = psutil.Process(process.pid).children(recursive=True)
    (worker,) = [c for c in children if "prereg_judge.engine.worker" in c.cmdline()]
    return worker


@contextmanager
def running_until(root: Path, attempts: int) -> Iterator[subprocess.Popen[str]]:
    """A run in a process of its own that has recorded so many attempts and is not done."""
    process = started(root)
    try:
        until(lambda: attempts_in(root) >= attempts or process.poll() is not None)
        assert process.poll() is None, process.communicate()
        yield process
    finally:
        if process.poll() is None:
            process.kill()
            process.communicate()


def record_of(root: Path, run: str = RUN) -> Record:
    """The run's record, its chain and its manifest checked."""
    return read_record(root / run, shown=run)


def events_of(root: Path) -> list[str]:
    """Names of the ledger's events."""
    return [e["event"] for e in Ledger(root / "registrations/ledger.jsonl", "ledger").events()]


def scored_trials(record: Record) -> list[AttemptLine]:
    """The attempts that brought a verdict."""
    return [a for a in record.attempts if a.verdict is not None]


def whole(root: Path, run: str = RUN) -> Record:
    """The finished record: every planned trial has a verdict exactly once, in order."""
    record = record_of(root, run)
    assert record.manifest is not None
    assert record.manifest["status"] == "complete"
    planned = [line.trial for line in read_plan(root / run, shown=run)]
    assert [a.trial for a in scored_trials(record)] == planned
    done = prereg("score", "x", "--json", root=root)
    assert done.code in (0, 1), done
    assert done.json["provenance"]["attempts_head"] == record.head
    return record


def long_rows(root: Path, hang: str) -> None:
    """Write and lock a registration `x` of 12 calls that each take a real model a while."""
    rows = [{"id": f"r{i}", "label": "NO", "text": f"{i} " + "word " * 80} for i in range(6)]
    write_items(root / "sentinels/small.jsonl", rows)
    locked(root, "x", prefix="whole", hang=hang)


@pytest.fixture(scope="module")
def slow_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A locked registration `x` that no machine is done with before a test has acted."""
    root = make_workspace(tmp_path_factory.mktemp("slow") / "w")
    long_rows(root, "120s,retries=1")
    return root


@pytest.fixture
def slow(slow_once: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    return Path(shutil.copytree(slow_once, tmp_path / "w"))


@pytest.fixture(scope="module")
def quick_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A locked registration `x` of 8 short calls."""
    root = make_workspace(tmp_path_factory.mktemp("quick") / "w")
    locked(root, "x")
    return root


@pytest.fixture
def quick(quick_once: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    return Path(shutil.copytree(quick_once, tmp_path / "w"))


@pytest.mark.model
def test_kill_9_of_the_command(slow: Path) -> None:
    """The worker dies with its parent; the next run makes the trials that are not recorded."""
    with running_until(slow, 3) as process:
        worker = worker_of(process)
        process.kill()
        process.communicate()
    psutil.wait_procs([worker], timeout=PATIENCE_S)
    assert not worker.is_running()
    assert events_of(slow) == ["registered", "run_started"]
    before = (slow / RUN / "attempts.jsonl").read_bytes()
    kept = before[: before.rfind(b"\n") + 1]
    assert prereg("score", "x", root=slow).code == 5
    done = run_to_end(slow)
    assert "run 1: resumed at" in done.err
    assert events_of(slow) == ["registered", "run_started", "run_resumed", "run_finished"]
    assert (slow / RUN / "attempts.jsonl").read_bytes().startswith(kept)
    record = whole(slow)
    assert Counter(a.attempt for a in record.attempts) == {1: 12}
    assert [n["event"] for n in record.notes if n["event"] != "torn"] == ["run", "session"]
    assert len({a.seed for a in record.attempts}) == 12


@pytest.mark.model
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda n: n.name)
def test_interrupted(number: signal.Signals, slow: Path) -> None:
    """Ctrl-C and a polite kill end with 130 and say how to go on; a second start does."""
    with running_until(slow, 2) as process:
        process.send_signal(number)
        done = ended(process)
    assert done.code == 130
    assert "Interrupted; every finished attempt is recorded. Resume with: prereg run x" in done.err
    assert "Traceback" not in done.err
    record = record_of(slow)
    assert record.manifest is None
    assert 2 <= len(record.attempts) < 12
    assert all(a.verdict is not None for a in record.attempts)
    run_to_end(slow)
    assert Counter(a.attempt for a in whole(slow).attempts) == {1: 12}


@pytest.mark.model
def test_a_stopped_worker_is_a_hang(tmp_path: Path) -> None:
    """A worker under SIGSTOP hangs for the registered time; the trial is tried again."""
    slow = make_workspace(tmp_path / "w")
    long_rows(slow, "15s,retries=1")
    with running_until(slow, 2) as process:
        worker = worker_of(process)
        worker.suspend()
        done = ended(process)
    assert done.code == 0, done
    assert not worker.is_running()
    record = whole(slow)
    (hang,) = [a for a in record.attempts if a.verdict is None]
    assert (hang.unscored, hang.attempt, hang.text) == ("hang", 1, None)
    assert hang.detail == "no answer within 15 s"
    (again,) = [a for a in record.attempts if a.attempt == 2]
    assert again.trial == hang.trial
    assert again.seed != hang.seed
    score = prereg("score", "x", "--json", root=slow).json
    calls = {m["metric"]: m["value"] for m in score["metrics"] if not m["params"]}
    assert (calls["calls.count"], calls["calls.hangs"], calls["calls.retries"]) == (13, 1, 1)


@pytest.mark.model
def test_a_killed_worker_is_a_crash(slow: Path) -> None:
    """A worker under kill -9 is a crash of the call in flight; the trial is tried again."""
    with running_until(slow, 2) as process:
        worker_of(process).kill()
        done = ended(process)
    assert done.code == 0, done
    record = whole(slow)
    (crash,) = [a for a in record.attempts if a.verdict is None]
    assert (crash.unscored, crash.attempt) == ("crash", 1)
    assert crash.detail is not None
    assert "killed by SIGKILL" in crash.detail
    assert [a.trial for a in record.attempts if a.attempt == 2] == [crash.trial]


@pytest.mark.model
def test_two_processes_at_once(slow: Path) -> None:
    """While one process runs it, a second may neither run nor give up the same registration."""
    with running_until(slow, 1) as process:
        process.send_signal(signal.SIGSTOP)  # so that it is not done before the others have tried
        for args in ([], ["--again"], ["--abandon", "impatience"]):
            done = ended(started(slow, *args))
            assert done.code == 2, done
            assert "another process is running 'x'" in done.err
        process.send_signal(signal.SIGCONT)
        assert ended(process).code == 0
    assert events_of(slow) == ["registered", "run_started", "run_finished"]
    whole(slow)


@pytest.mark.model
def test_a_torn_last_line(quick: Path) -> None:
    """Half a line at the end of an unfinished record is kept as a note, and the run goes on."""
    _killed_after(quick, 3)
    torn = b'{"at":"2026-01-01T00:00:00.000Z","event":"attempt","trial":"sentinel/r'
    with (quick / RUN / "attempts.jsonl").open("ab") as stream:
        stream.write(torn)
    (shown,) = prereg("show", "x", "--json", root=quick).json["runs"]
    assert (shown["state"], shown["done"], shown["trials"]) == ("open", 3, 8)
    run_to_end(quick)
    record = whole(quick)
    (note,) = [n for n in record.notes if n["event"] == "torn"]
    assert note["text"] == torn.decode()
    assert len(record.attempts) == 8


class _Killed(BaseException):
    """The process is gone."""


def _no(_key: str, _before: int) -> str:
    return verdict_reply("NO")


def _killed_after(root: Path, calls: int) -> None:
    """Start or resume the run of `x` with a scripted engine and lose it in the next call."""
    made: list[str] = []

    def script(key: str, before: int) -> str:
        if len(made) == calls:
            raise _Killed
        made.append(key)
        return _no(key, before)

    with pytest.raises(_Killed):
        run_scripted(root, "x", script)


@pytest.mark.model
def test_sampled_runs_share_no_seed(quick: Path) -> None:
    """Every attempt of two runs in two processes draws with a seed of its own."""
    run_to_end(quick)
    run_to_end(quick, "--again")
    seeds = [a.seed for run in (RUN, "runs/x/2") for a in record_of(quick, run).attempts]
    assert len(seeds) == 16
    assert None not in seeds
    assert len(set(seeds)) == 16


@pytest.mark.model
@pytest.mark.parametrize(
    ("decoding", "seed"),
    [("seeded,seed=7,temperature=1,top_k=0,top_p=1,min_p=0", 7), ("greedy", None)],
    ids=["seeded", "greedy"],
)
def test_seeded_and_greedy_runs_are_alike(decoding: str, seed: int | None, tmp_path: Path) -> None:
    """Two runs in two processes give the same replies, and a reader is told what that shows."""
    root = make_workspace(tmp_path / "w", n=3)
    locked(root, "x", decoding=decoding, band="sentinel.agreement.count=1..2")
    run_to_end(root)
    run_to_end(root, "--again")
    one, two = (record_of(root, run).attempts for run in (RUN, "runs/x/2"))
    assert {a.seed for a in (*one, *two)} == {seed}
    for get in ("trial", "verdict", "text", "tokens"):
        assert [getattr(a, get) for a in one] == [getattr(a, get) for a in two]
    done = prereg("score", "x", root=root)
    assert done.code == 1
    assert "cannot find errors" in " ".join(done.out.split())


@pytest.mark.model
def test_a_stop_rule_trips_while_the_run_goes_on(tmp_path: Path) -> None:
    """With a time-out that the model cannot keep, the first hang ends the run: STOPPED."""
    root = make_workspace(tmp_path / "w")
    rows = [{"id": f"r{i}", "label": "NO", "text": "word " * 1500 + str(i)} for i in range(4)]
    write_items(root / "sentinels/small.jsonl", rows)
    locked(root, "x", n_ctx="2048", hang="0.001s,retries=1", stop="calls.hangs >= 2 in 2 over 8")
    done = run_to_end(root, "--json")
    told = done.json
    assert (told["status"], told["stopped_by"], told["attempts"]) == ("stopped", "calls-hangs", 2)
    score = prereg("score", "x", root=root)
    assert score.code == 4
    assert "Verdict: STOPPED" in score.out
    assert "at call 2: 2 of the last 2 calls" in " ".join(score.out.split())
    assert prereg("run", "x", root=root).code == 2


def test_killed_while_stopping(tmp_path: Path) -> None:
    """A run that was killed after its stop rule tripped makes no further call when resumed."""
    root = make_workspace(tmp_path / "w")
    locked(root, "x", stop="calls.off_menu >= 1 in 2 over 8")
    done = run_scripted(root, "x", lambda *_: verdict_reply("MAYBE"))
    assert (done.status, done.attempts) == ("stopped", 1)
    (root / RUN / "manifest.json").unlink()
    without_last_event(root)
    again = run_scripted(root, "x", lambda *_: pytest.fail("a call was made"))
    assert (again.status, again.stopped_by, again.attempts) == ("stopped", "calls-off-menu", 1)
    assert prereg("score", "x", root=root).code == 4


def test_killed_between_the_manifest_and_the_ledger(quick: Path) -> None:
    """A run whose end did not reach the ledger is ended by the next start, without a call."""
    run_scripted(quick, "x", _no)
    manifest = (quick / RUN / "manifest.json").read_bytes()
    without_last_event(quick)
    done = run_scripted(quick, "x", lambda *_: pytest.fail("a call was made"))
    assert (done.number, done.status, done.attempts) == (1, "complete", 8)
    assert (quick / RUN / "manifest.json").read_bytes() == manifest
    assert events_of(quick)[-2:] == ["run_resumed", "run_finished"]
    whole(quick)


def test_killed_before_the_first_attempt(quick: Path) -> None:
    """A run of which only the start is in the ledger is run 1 still."""
    _killed_after(quick, 0)
    (quick / RUN / "attempts.jsonl").unlink()
    assert run_scripted(quick, "x", _no).number == 1
    whole(quick)


def test_killed_before_the_start_reached_the_ledger(quick: Path) -> None:
    """Files laid out for a run that the ledger never heard of are laid out anew."""
    _killed_after(quick, 0)
    (quick / RUN / "attempts.jsonl").unlink()
    without_last_event(quick)
    assert run_scripted(quick, "x", _no).number == 1
    assert events_of(quick) == ["registered", "run_started", "run_finished"]
    whole(quick)


def test_killed_between_the_ledger_and_its_tip(quick: Path) -> None:
    """A tip that is a line behind, as a kill leaves it, is no cut: the run goes on under it."""
    tip = quick / "registrations/ledger.tip"
    behind = tip.read_bytes()
    _killed_after(quick, 3)
    assert tip.read_bytes() != behind
    tip.write_bytes(behind)
    assert prereg("score", "x", root=quick).code == 5  # for it is unfinished
    assert "unfinished" in prereg("status", root=quick).out
    assert run_scripted(quick, "x", _no).number == 1
    assert events_of(quick) == ["registered", "run_started", "run_resumed", "run_finished"]
    whole(quick)


def test_the_first_event_without_its_tip(quick: Path) -> None:
    """Killed after the very first event there is no tip yet, and the next event brings one."""
    tip = quick / "registrations/ledger.tip"
    tip.unlink()
    run_scripted(quick, "x", _no)
    assert tip.is_file()
    whole(quick)


def test_killed_before_the_lock_was_in_place(quick: Path) -> None:
    """The lock that the ledger names is found beside its place and put there."""
    lock = quick / "registrations/x.lock.json"
    lock.rename(lock.with_name("x.lock.json.pending"))
    run_scripted(quick, "x", _no)
    assert lock.is_file()
    whole(quick)


def test_a_torn_ledger(quick: Path) -> None:
    """Half an event at the end of the ledger is kept in an event of its own."""
    torn = b'{"at":"2026-01-01T00:00:00.000Z","event":"run_st'
    with (quick / "registrations/ledger.jsonl").open("ab") as stream:
        stream.write(torn)
    run_scripted(quick, "x", _no)
    assert events_of(quick) == ["registered", "torn", "run_started", "run_finished"]
    whole(quick)


def test_retries_that_were_made_count_after_a_resume(quick: Path) -> None:
    """A trial that crashed once before the kill is tried once more, not twice."""
    crash = Failure("crash", "gone", 0.1)

    def first(key: str, before: int) -> Any:
        if key == "sentinel/r01/ab/1":
            if before:
                raise _Killed
            return crash
        return _no(key, before)

    with pytest.raises(_Killed):
        run_scripted(quick, "x", first)
    done = run_scripted(quick, "x", lambda key, n: crash if "r01/ab/1" in key else _no(key, n))
    assert (done.status, done.attempts) == ("complete", 9)
    made = record_of(quick).by_trial["sentinel/r01/ab/1"]
    assert [(a.attempt, a.unscored) for a in made] == [(1, "crash"), (2, "crash")]


def test_abandoned_and_again(quick: Path) -> None:
    """A run given up is counted and told, as is every further run."""
    _killed_after(quick, 3)
    assert prereg("run", "x", "--abandon", " ", root=quick).code == 2
    done = prereg("run", "x", "--abandon", "the room got too hot", root=quick)
    assert done.code == 0
    assert "run 1 of 'x' is given up" in done.err
    assert prereg("run", "x", "--abandon", "twice", root=quick).code == 2
    assert (quick / RUN / "attempts.jsonl").is_file()
    assert run_scripted(quick, "x", _no).number == 2
    assert "run 2 of 2; run 1 aborted" in prereg("score", "x", root=quick).out
    shown = prereg("show", "x", root=quick).out
    assert "the room got too hot" in " ".join(shown.split())
    backend = ScriptedBackend(_no)
    third = running.run_registration(
        Workspace(quick), "x", again=True, make_backend=lambda *_: backend
    )
    assert third.number == 3
    told = " ".join(prereg("score", "x", root=quick).out.split())
    assert "run 3 of 3; run 1 aborted; run 2 FAIL" in told
    assert prereg("score", "x", "--run", "1", root=quick).code == 2


def _fails_once(monkeypatch: pytest.MonkeyPatch, call: str, file: str, at: int) -> None:
    """Let `os.write` or `os.fsync` fail as on a full disk, the `at`th time for this file."""
    real: Callable[..., Any] = getattr(os, call)
    seen = []

    def full(fd: int, *data: bytes) -> Any:
        if Path(f"/proc/self/fd/{fd}").readlink().name == file:
            seen.append(fd)
            if len(seen) == at:
                if data:
                    real(fd, data[0][:20])  # some of it still went to the disk
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(fd, *data)

    monkeypatch.setattr(os, call, full)


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="looks up open files in /proc")
@pytest.mark.parametrize("call", ["write", "fsync"])
@pytest.mark.parametrize(
    ("file", "at", "kept"),
    [
        ("attempts.jsonl", 1, 0),
        ("attempts.jsonl", 5, 3),
        ("attempts.jsonl", 9, 7),
        ("ledger.jsonl", 1, 0),
        ("ledger.jsonl", 2, 8),
    ],
)
def test_disk_full(
    call: str, file: str, at: int, kept: int, quick: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A write that fails is undone, the command says so with 2, and the run goes on later."""
    backend = ScriptedBackend(_no)
    monkeypatch.setattr(backends, "LlamaBackend", lambda *_args, **_settings: backend)
    with monkeypatch.context() as context:
        _fails_once(context, call, file, at)
        done = prereg("run", "x", root=quick)
    assert done.code == 2, done
    assert "No space left on device" in done.err
    assert "Traceback" not in done.err
    for chain in (quick / "registrations/ledger.jsonl", quick / RUN / "attempts.jsonl"):
        raw = chain.read_bytes() if chain.exists() else b""
        assert not raw or raw.endswith(b"\n")
    assert attempts_in(quick) == kept
    assert prereg("run", "x", root=quick).code == 0
    assert whole(quick).manifest is not None
    assert Counter(a.attempt for a in record_of(quick).attempts) == {1: 8}
    assert json.loads((quick / RUN / "score.json").read_bytes())["run"] == 1


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="looks up open files in /proc")
@pytest.mark.parametrize("at", [1, 2])
def test_disk_full_at_the_tip(at: int, quick: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An event whose tip could not be written stands: the run began, or is finished."""
    backend = ScriptedBackend(_no)
    monkeypatch.setattr(backends, "LlamaBackend", lambda *_args, **_settings: backend)
    with monkeypatch.context() as context:
        _fails_once(context, "fsync", f".ledger.tip.{os.getpid()}.tmp", at)
        done = prereg("run", "x", root=quick)
    assert done.code == 0, done.err  # the event stands; a tip that lags is no contradiction
    assert not list((quick / "registrations").glob("*.tmp"))
    assert attempts_in(quick) == 8
    assert events_of(quick).count("run_started") == 1
    whole(quick)
