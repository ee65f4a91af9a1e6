"""What goes wrong in a run of the real model, and what the record and the verdict say then."""

from __future__ import annotations

import os
import signal
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from engine.small_model import damaged
from flow.runs import (
    RUN,
    Keys,
    Meddled,
    accounted,
    key,
    lock_in_groups,
    notes,
    reasons,
    record_of,
    registered,
    run,
    scored,
    send,
)
from prereg_judge.engine.client import WorkerClient
from prereg_judge.engine.supervisor import Client
from prereg_judge.errors import EngineError
from support import make_workspace, small_items, write_items

pytestmark = pytest.mark.model

STOP, KILL = send(signal.SIGSTOP), send(signal.SIGKILL)
Act = Callable[[int], object]
GROUP = [key(row) for row in range(4)]


def when(holds: Callable[[Keys], bool], act: Act, *, times: int = 99) -> Callable[[Path], Client]:
    """Workers to which something is done while they answer such groups, so many times in all."""
    left = [times]

    def meddle(keys: Keys) -> Act | None:
        if not left[0] or not holds(keys):
            return None
        left[0] -= 1
        return act

    return lambda log: Meddled(log, meddle)


# --- In a group ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("act", "reason"), [(STOP, "hang"), (KILL, "crash")])
def test_one_trial_of_a_group_is_at_fault(act: Act, reason: str, tmp_path: Path) -> None:
    """It is found by making the calls one by one; only it is charged, all others are scored.

    A group has as many times the time limit of a call as it has calls.
    """
    root = registered(tmp_path / "w", hang="3s,retries=1")
    run(root, when(lambda keys: key(2) in keys, act))
    record = accounted(root)
    assert reasons(record) == {key(2): [reason, reason]}
    assert {a.batch for a in record.attempts if a.index < 4} == {(0,), (1,), (2,), (3,)}
    assert {a.batch for a in record.attempts if a.index > 3} == {(4, 5, 6, 7)}
    (note,) = notes(record, "batch_lost")
    assert (note["batch"], note["reason"]) == ([0, 1, 2, 3], reason)
    words = {"hang": "no answer within 12 s", "crash": "killed by SIGKILL"}[reason]
    assert words in note["detail"]
    (first, second) = record.by_trial[key(2)]
    assert {"hang": "within 3 s", "crash": "SIGKILL"}[reason] in str(first.detail)
    assert first.seed != second.seed


@pytest.mark.parametrize("act", [STOP, KILL])
def test_no_trial_of_a_lost_group_fails_alone(act: Act, tmp_path: Path) -> None:
    """Then nobody is charged: every trial has its verdict at the first attempt."""
    root = registered(tmp_path / "w", hang="20s,retries=1,heartbeat=2s")
    run(root, when(lambda keys: len(keys) == 4, act, times=1))
    record = accounted(root)
    assert reasons(record) == {}
    assert [a.attempt for a in record.attempts] == [1] * 8
    assert [note["batch"] for note in notes(record, "batch_lost")] == [[0, 1, 2, 3]]


def test_ctrl_c_during_a_group(tmp_path: Path) -> None:
    """An interrupt in the middle of a group leaves a record with which the run goes on."""
    root = registered(tmp_path / "w")
    interrupt = when(lambda keys: key(0, 2) in keys, lambda _: os.kill(os.getpid(), signal.SIGINT))
    with pytest.raises(KeyboardInterrupt):
        run(root, interrupt)
    record = record_of(root)
    assert [a.trial for a in record.attempts] == GROUP
    assert record.manifest is None
    run(root, lambda log: WorkerClient(log=log))
    record = accounted(root)
    assert reasons(record) == {}
    assert [a.attempt for a in record.attempts] == [1] * 8


# --- Deaths -------------------------------------------------------------------------------------


@pytest.mark.parametrize("row", [0, 2], ids=["at the first call", "at call k"])
def test_a_worker_dies_once(row: int, tmp_path: Path) -> None:
    """The crash is recorded, the worker replaced, the trial tried again, the run complete."""
    root = registered(tmp_path / "w", parallel=1)
    run(root, when(lambda keys: keys == (key(row),), KILL, times=1))
    assert reasons(accounted(root)) == {key(row): ["crash", None]}


def test_a_worker_dies_at_every_call_of_one_trial(tmp_path: Path) -> None:
    """After one death more than the registered retries the trial is left, and the run goes on."""
    root = registered(tmp_path / "w", parallel=1, hang="60s,retries=2")
    run(root, when(lambda keys: keys == (key(1),), KILL))
    record = accounted(root, retries=2)
    assert reasons(record) == {key(1): ["crash"] * 3}
    assert len(record.attempts) == 10


class _NoLoading(WorkerClient):
    """A worker that is killed when it is to load the model."""

    def ask(self, message: dict[str, Any], **limits: Any) -> Any:
        """See `WorkerClient`."""
        if message["op"] == "load":
            os.kill(self.pid, signal.SIGKILL)
        return super().ask(message, **limits)


@pytest.mark.parametrize("loads", [0, 1], ids=["from the start", "after a crash"])
def test_a_worker_that_dies_at_loading(loads: int, tmp_path: Path) -> None:
    """After three tries the run ends with an error that names the log, and can be resumed."""
    root = registered(tmp_path / "w")
    dying = when(lambda keys: key(0, 2) in keys, KILL)
    started: list[WorkerClient] = []

    def connect(log: Path) -> Client:
        client = dying(log) if len(started) < loads else _NoLoading(log=log)
        assert isinstance(client, WorkerClient)
        started.append(client)
        return client

    with pytest.raises(EngineError, match=r"3 tries.*SIGKILL") as caught:
        run(root, connect)
    assert str(root / RUN / "worker.log") in str(caught.value.problems[0].remedy)
    assert len(started) == loads + 3
    record = record_of(root)
    assert [a.trial for a in record.attempts] == GROUP * loads
    assert len(notes(record, "batch_lost")) == loads
    run(root, lambda log: WorkerClient(log=log))
    record = accounted(root)
    assert reasons(record) == {}
    assert [a.attempt for a in record.attempts] == [1] * 8


# --- Memory and numbers -------------------------------------------------------------------------


class _Starved(WorkerClient):
    """See `engine.starved_worker`."""

    module = "engine.starved_worker"


@pytest.mark.parametrize("parallel", [1, 4])
def test_out_of_memory_in_llama_cpp(parallel: int, tmp_path: Path) -> None:
    """An abort for want of memory is a crash; its trial is left after the registered deaths."""
    root = make_workspace(tmp_path / "w")
    rows = small_items(4)
    rows[1]["id"] = "starve"
    write_items(root / "sentinels/small.jsonl", rows)
    lock_in_groups(root, parallel=parallel, hang="60s,retries=2")
    path = {"PYTHONPATH": str(Path(__file__).parents[1])}
    run(root, lambda log: _Starved(log=log, environment=path))
    record = accounted(root, retries=2)
    starved = ["sentinel/starve/ab/1", "sentinel/starve/ab/2"]
    assert reasons(record) == {trial: ["crash"] * 3 for trial in starved}
    details = {str(a.detail) for a in record.by_trial[starved[0]]}
    assert all("SIGABRT" in d and "bad_alloc" in d for d in details)


@pytest.mark.parametrize("parallel", [1, 4])
def test_a_model_whose_logits_are_no_numbers(parallel: int, tmp_path: Path) -> None:
    """Every trial ends as a crash, and a band that no verdict at all would hit is no PASS."""
    file = damaged(tmp_path / "bad.gguf", "output_norm.weight", struct.pack("<f", 3e38) * 576)
    root = registered(
        tmp_path / "w",
        n=3,
        parallel=parallel,
        gguf=str(file),
        hang="60s,retries=1",
        band="sentinel.agreement.count=0..1",
    )
    told: list[WorkerClient] = []

    def connect(log: Path) -> Client:
        told.append(WorkerClient(log=log))
        return told[-1]

    run(root, connect)
    record = accounted(root)
    assert reasons(record) == {key(r, p): ["crash"] * 2 for r in range(3) for p in (1, 2)}
    assert all("not finite" in str(a.detail) for a in record.attempts)
    losses = 12 if parallel == 1 else 14
    assert len(told) == losses  # each has a new worker
    done = scored(root)
    assert done.code != 0
    assert done.json["verdict"] != "PASS"
