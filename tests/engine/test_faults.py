"""Groups, deaths and damage at the level of one backend or one throwaway process."""

from __future__ import annotations

import os
import signal
import struct
import threading
from pathlib import Path
from typing import Any

import pytest

from engine.small_model import PATH, YES_NO, damaged, spec
from engine.supervised import (
    answered,
    ask,
    ask_all,
    backend,
    call,
    children,
    failed,
    gone,
    worker,
)
from prereg_judge.engine import inspect
from prereg_judge.engine.client import WorkerClient, WorkerFaultError
from prereg_judge.engine.inspect import compiled, inspecting
from prereg_judge.engine.protocol import Answer, Call, GroupLost, Reply
from prereg_judge.engine.supervisor import Limits
from prereg_judge.errors import EngineError
from support import make_workspace, new, prereg

TEXTS = ("cat", "table", "river", "dog")


def group(number: int = 0) -> list[Call]:
    """Four calls that are made together."""
    return [call(text, seed, group=number) for seed, text in enumerate(TEXTS)]


def kinds(events: list[Answer | GroupLost]) -> list[str]:
    """What came, in order: `lost`, or the key of a call that was answered."""
    return ["lost" if isinstance(e, GroupLost) else e.call.key for e in events]


# --- Groups -------------------------------------------------------------------------------------


@pytest.mark.model
@pytest.mark.parametrize(
    ("number", "reason", "detail"),
    [(signal.SIGSTOP, "hang", "no answer within 12 s"), (signal.SIGKILL, "crash", "SIGKILL")],
)
def test_a_lost_group_is_made_again_one_by_one(
    number: signal.Signals, reason: str, detail: str, tmp_path: Path
) -> None:
    """Its time limit is that of all its calls; each call is then answered alone, charged or not."""
    with backend(tmp_path, Limits(3, None, 60), parallel=4) as one:
        before = [answered(e.result) for e in ask_all(one, group()) if isinstance(e, Answer)]
        stopped = worker(one)
        os.kill(stopped, signal.SIGSTOP)
        if number == signal.SIGKILL:
            timer = threading.Timer(0.5, os.kill, (stopped, number))
            timer.start()
        lost, *answers = ask_all(one, group())
        assert isinstance(lost, GroupLost)
        assert (lost.keys, lost.reason) == (TEXTS, reason)
        assert detail in lost.detail
        assert gone(stopped)
        assert kinds(answers) == list(TEXTS)
        again = [e for e in answers if isinstance(e, Answer)]
        assert [e.together for e in again] == [(text,) for text in TEXTS]
        assert [answered(e.result)[:2] for e in again] == [b[:2] for b in before]


@pytest.mark.model
def test_calls_are_taken_as_groups_fill(tmp_path: Path) -> None:
    """No more calls are taken ahead than a group holds, and each is given back once."""
    calls = [*group(0), *group(1)[:2], *group(2)[:3], call("alone"), *group(3)[:1]]
    taken: list[str] = []

    def feed() -> Any:
        for one in calls:
            taken.append(one.key)
            yield one

    given: list[tuple[str, ...]] = []
    with backend(tmp_path, parallel=4) as one:
        for n, event in enumerate(one.stream(feed())):
            assert isinstance(event, Answer)
            assert len(taken) - n <= 4
            given.append(event.together)
    alone = ("alone",)
    expected = [TEXTS] * 4 + [TEXTS[:2]] * 2 + [alone] + [TEXTS[:3]] * 3 + [TEXTS[:1]]
    assert given == expected


@pytest.mark.model
@pytest.mark.parametrize("read", [1, 3])
def test_a_stream_that_is_left_leaves_no_stale_answer(read: int, tmp_path: Path) -> None:
    """After a reader stops in the middle of a group, the next call gets its own answer."""
    with backend(tmp_path, parallel=4) as one:
        before = answered(ask(one, call("poem", 9)))
        stream = one.stream(iter(group()))
        for _ in range(read):
            next(stream)
        stream.close()  # type: ignore[attr-defined]
        assert answered(ask(one, call("poem", 9))) == before


@pytest.mark.model
def test_an_interrupt_during_a_group_leaves_no_stale_answer(tmp_path: Path) -> None:
    """The worker that was at work is ended, and the next call gets its own answer."""
    with backend(tmp_path, parallel=4) as one:
        before, first = answered(ask(one, call("poem", 9))), worker(one)
        timer = threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT))
        os.kill(first, signal.SIGSTOP)
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            ask_all(one, group())
        assert gone(first)
        assert answered(ask(one, call("poem", 9))) == before


@pytest.mark.model
def test_a_lost_heartbeat_in_a_group(tmp_path: Path) -> None:
    """A group without a sign of life is lost long before its time limit."""
    with backend(tmp_path, Limits(15, 0.5, 60), parallel=4) as one:
        ask_all(one, group())
        os.kill(worker(one), signal.SIGSTOP)
        lost, *answers = ask_all(one, group())
        assert isinstance(lost, GroupLost)
        assert (lost.reason, lost.detail) == ("hang", "no heartbeat for 0.5 s")
        assert all(isinstance(e, Answer) and isinstance(e.result, Reply) for e in answers)


# --- Damage and memory --------------------------------------------------------------------------


@pytest.mark.model
def test_logits_that_are_no_numbers_cost_the_worker(tmp_path: Path) -> None:
    """A group and then each of its calls crash, every time with a new worker."""
    file = damaged(tmp_path / "bad.gguf", "output_norm.weight", struct.pack("<f", 3e38) * 576)
    said: list[str] = []
    with backend(tmp_path, parallel=2, model=spec(file), announce=said.append) as one:
        lost, *answers = ask_all(one, group()[:2])
        assert isinstance(lost, GroupLost)
        assert (lost.reason, "not finite" in lost.detail) == ("crash", True)
        results = [failed(e.result) for e in answers if isinstance(e, Answer)]
        assert [(r, "not finite" in d) for r, d in results] == [("crash", True)] * 2
    assert sum("has loaded" in text for text in said) == 3


class _Starved(WorkerClient):
    """See `engine.starved_worker`."""

    module = "engine.starved_worker"


@pytest.mark.model
@pytest.mark.parametrize(
    ("text", "detail"), [("starve", "SIGABRT"), ("starve-python", "the worker has no memory left")]
)
def test_a_worker_without_memory_is_a_crash(text: str, detail: str, tmp_path: Path) -> None:
    """Where llama.cpp is short of it the process aborts, where Python is it says so."""
    path = {"PYTHONPATH": str(Path(__file__).parents[1])}
    with backend(tmp_path, connect=lambda: _Starved(environment=path)) as one:
        before, first = answered(ask(one, call())), worker(one)
        reason, told = failed(ask(one, call(text)))
        assert (reason, detail in told) == ("crash", True), told
        assert gone(first)
        assert answered(ask(one, call())) == before


class _Faulty(WorkerClient):
    """A worker that says while it loads that it cannot compute."""

    tries = 0

    def ask(self, message: dict[str, Any], **limits: Any) -> Any:
        """See `WorkerClient`."""
        if message["op"] == "session":
            _Faulty.tries += 1
            raise WorkerFaultError("the tokenizer refused")
        return super().ask(message, **limits)


def test_a_fault_while_loading_is_tried_again_and_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not a traceback: after three tries it is an error that names the file and the log."""
    monkeypatch.setattr(_Faulty, "tries", 0)
    with (
        backend(tmp_path, connect=_Faulty) as one,
        pytest.raises(EngineError, match="3 tries: the tokenizer refused"),
    ):
        ask(one, call())
    assert _Faulty.tries == 3
    assert not children()


# --- Throwaway processes ------------------------------------------------------------------------


def _dying_at(op: str, sent: signal.Signals) -> type[WorkerClient]:
    """Workers that are killed when they are asked for one thing."""

    class Dying(WorkerClient):
        def ask(self, message: dict[str, Any], **limits: Any) -> Any:
            if message["op"] == op:
                os.kill(self.pid, sent)
            return super().ask(message, **limits)

    return Dying


@pytest.mark.parametrize("sent", [signal.SIGSEGV, signal.SIGABRT])
def test_a_grammar_that_kills_its_compiler(
    sent: signal.Signals, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process that compiles dies, this one lives and says what happened; both ways."""
    monkeypatch.setattr(inspect, "WorkerClient", _dying_at("compile", sent))
    with pytest.raises(EngineError, match=f"could not take this file or schema.*{sent.name}"):
        compiled(YES_NO)
    with inspecting(str(PATH)) as inspector:
        assert inspector.facts().n_vocab
        with pytest.raises(EngineError, match=sent.name):
            inspector.compile(YES_NO)
    assert not children()


def test_locking_survives_a_grammar_that_kills_its_compiler(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command ends with 2, points to the judge file, and nothing is locked."""
    root = make_workspace(tmp_path / "w")
    assert new(root, "x").code == 0
    with monkeypatch.context() as context:
        context.setattr(inspect, "WorkerClient", _dying_at("compile", signal.SIGSEGV))
        done = prereg("lock", "x", root=root)
    assert done.code == 2, done
    assert "killed by SIGSEGV" in done.err
    assert "judge/yes-no.yaml" in done.err
    assert "Traceback" not in done.err
    assert not (root / "registrations/x.lock.json").exists()
    assert not (root / "registrations/ledger.jsonl").exists()
    assert prereg("lock", "x", root=root).code == 0


@pytest.mark.parametrize("op", ["load", "facts", "tokenize", "respell"])
def test_a_file_that_kills_its_reader(
    op: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever is asked of the model before a lock, its death is an error and not this one's."""
    root = make_workspace(tmp_path / "w")
    assert new(root, "x").code == 0
    monkeypatch.setattr(inspect, "WorkerClient", _dying_at(op, signal.SIGSEGV))
    done = prereg("lock", "x", root=root)
    assert done.code == 2, done
    assert "killed by SIGSEGV" in done.err
    assert not (root / "registrations/x.lock.json").exists()
