"""Actors of a real Ray cluster on this machine: they answer as workers do, and die as they do."""

from __future__ import annotations

import importlib.util
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import psutil
import pytest

from engine.small_model import FREE, PATH, prompt, shared, spec
from prereg_judge.canon import sha256_file
from prereg_judge.engine import ray_client
from prereg_judge.engine.client import WorkerDiedError
from prereg_judge.engine.fanout import FanOut
from prereg_judge.engine.protocol import (
    Answer,
    Call,
    Constraint,
    Failure,
    GroupLost,
    Reply,
    SessionSettings,
)
from prereg_judge.engine.ray_client import RayClient, connect
from prereg_judge.engine.supervisor import Limits, LlamaBackend
from prereg_judge.errors import EngineError, IntegrityError

pytestmark = [
    pytest.mark.model,
    pytest.mark.skipif(
        importlib.util.find_spec("ray") is None,
        reason="Ray is not installed: it has no wheel for this Python",
    ),
]

PATIENT = Limits(call_timeout_s=60, heartbeat_s=None, load_timeout_s=60)
NOTE = Constraint({"type": "string", "maxLength": 20}, ",", ":")
WORDS = ["cat", "table", "dog", "river", "horse", "poem", "whale", "engine"]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """A cluster of this test run's own."""
    ray = connect("local")
    yield ray
    ray.shutdown()


def actor(sha256: Mapping[str, str] | None = None, *, n_gpus: float = 0) -> RayClient:
    """An actor that leaves room for another on one CPU."""
    return RayClient(n_gpus=n_gpus, n_cpus=0.5, sha256=sha256)


def lane(
    connect: Callable[[], RayClient] | None,
    log: Path,
    *,
    limits: Limits = PATIENT,
    announce: Callable[[str], None] = lambda _: None,
) -> LlamaBackend:
    """A supervisor over actors, or over worker processes."""
    how = SessionSettings(NOTE, FREE, max_tokens=12, parallel=2)
    return LlamaBackend(spec(), how, limits=limits, log=log, announce=announce, connect=connect)


def calls(words: Sequence[str] = WORDS) -> list[Call]:
    """Calls in groups of two."""
    return [Call(word, prompt(word), (shared(),), 7 + at, at // 2) for at, word in enumerate(words)]


def replies(events: Sequence[Answer | GroupLost]) -> dict[str, tuple[Any, ...]]:
    """By key, what must not depend on who answered."""
    found = {}
    for event in events:
        assert isinstance(event, Answer), event
        assert isinstance(event.result, Reply), event
        assert event.call.key not in found
        found[event.call.key] = event.result.text, event.result.tokens, event.result.allowed_mass
    return found


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Any, ...]]:
    """The replies of one worker process."""
    alone = lane(None, tmp_path_factory.mktemp("local") / "log")
    try:
        return replies(list(alone.stream(iter(calls()))))
    finally:
        alone.close()


def gone(pid: int) -> bool:
    """Whether a process has ended, within half a minute."""
    for _ in range(300):
        try:
            if psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
                return True
        except psutil.NoSuchProcess:
            return True
        time.sleep(0.1)
    return False


def test_two_actors_answer_as_one_worker(
    cluster: Any, expected: dict[str, tuple[Any, ...]], tmp_path: Path
) -> None:
    """The same calls with the same seeds get the same replies from actors as from a process."""
    said: list[str] = []
    sha256 = {str(PATH): sha256_file(PATH)}
    lanes = [lane(lambda: actor(sha256), tmp_path / "log", announce=said.append) for _ in range(2)]
    fan = FanOut(lanes, stretch=2)
    fan.start_pass()
    found = replies(list(fan.stream(iter(calls()))))
    fan.start_pass()
    again = replies(list(fan.stream(iter(calls()))))
    pids = [client.pid for one in lanes if isinstance(client := one._client, RayClient)]
    fan.close()
    assert found == again == expected
    assert len({text for text, *_ in expected.values()}) > 1
    assert len(set(pids)) == len(said) == 2, said
    assert all(gone(pid) for pid in pids)


@pytest.mark.parametrize("how", ["SIGKILL", "ray.kill"])
def test_a_dead_actor_is_a_crash_and_is_replaced(
    cluster: Any, expected: dict[str, tuple[Any, ...]], tmp_path: Path, how: str
) -> None:
    """An actor that dies is one recorded crash of the call in flight; all the rest is answered
    with the same replies.
    """
    said: list[str] = []
    one = lane(actor, tmp_path / "log", announce=said.append)
    other = lane(actor, tmp_path / "log")
    fan = FanOut([one, other], stretch=6)
    alone = [Call(c.key, c.tokens, c.cuts, c.seed) for c in calls()]
    results: dict[str, list[Reply | Failure]] = {}
    victim: RayClient | None = None
    retry: list[Call] = []

    class Asked:
        plan = iter(alone)

        def __iter__(self) -> Iterator[Call]:
            return self

        def __next__(self) -> Call:
            return retry.pop() if retry else next(self.plan)

    for event in fan.stream(Asked()):
        assert isinstance(event, Answer)
        results.setdefault(event.call.key, []).append(event.result)
        if isinstance(event.result, Failure):
            retry.append(event.call)
        if victim is None and event.call.key == WORDS[0]:
            victim = one._client if isinstance(one._client, RayClient) else None
            assert victim is not None
            if how == "SIGKILL":
                os.kill(victim.pid, signal.SIGKILL)
            else:
                cluster.kill(victim._actor)
    fan.close()
    failures = [r for tries in results.values() for r in tries if isinstance(r, Failure)]
    assert [f.reason for f in failures] == ["crash"]
    assert failures[0].detail.startswith("the actor ended: The actor is dead because")
    last = {key: tries[-1] for key, tries in results.items()}
    texts = {key: r.text for key, r in last.items() if isinstance(r, Reply)}
    assert texts == {key: text for key, (text, *_) in expected.items()}
    assert Counter(map(len, results.values())) == {1: len(WORDS) - 1, 2: 1}
    assert sum("replaced" in text for text in said) == 1, said


def test_an_actor_that_does_not_answer_is_a_hang(
    cluster: Any, expected: dict[str, tuple[Any, ...]], tmp_path: Path
) -> None:
    """A call over its deadline is a hang; the actor is ended and another one answers."""
    said: list[str] = []
    one = lane(actor, tmp_path / "log", limits=Limits(2, None, 60), announce=said.append)
    first, second, third = ([call] for call in calls()[:3])
    before = list(one.answer(first))
    stopped = one._client
    assert isinstance(stopped, RayClient)
    os.kill(stopped.pid, signal.SIGSTOP)
    (hung,) = one.answer(second)
    after = list(one.answer(third))
    one.close()
    assert isinstance(hung, Answer)
    assert isinstance(hung.result, Failure)
    assert (hung.result.reason, hung.result.detail) == ("hang", "no answer within 2 s")
    assert gone(stopped.pid)
    assert replies(before + after) == {c.key: expected[c.key] for c in (first[0], third[0])}
    assert sum("has loaded" in text for text in said) == 2, said


# --- What is refused ----------------------------------------------------------------------------


def asked_to_load(client: RayClient) -> None:
    """Ask for the model and end the actor."""
    try:
        client.ask({"op": "load", "spec": {}}, timeout_s=60)
    finally:
        client.kill()


def test_another_file_at_the_same_path_is_refused(cluster: Any, tmp_path: Path) -> None:
    """A node's file must be the one that was hashed, and must be there."""
    path = tmp_path / "model.gguf"
    path.write_bytes(b"one")
    sha256 = {str(path): sha256_file(path)}
    path.write_bytes(b"another")
    with pytest.raises(IntegrityError, match="is another file on node"):
        asked_to_load(actor(sha256))
    path.unlink()
    with pytest.raises(EngineError, match="there is no such file on node"):
        asked_to_load(actor(sha256))


def test_a_file_is_hashed_once_a_node(
    cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second actor on the same node does not read the file again, unless it was changed."""
    methods: list[str] = []
    call = RayClient.call

    def noted(self: RayClient, method: str, *args: str, timeout_s: float) -> str:
        methods.append(method)
        return call(self, method, *args, timeout_s=timeout_s)

    monkeypatch.setattr(RayClient, "call", noted)
    path = tmp_path / "model.gguf"
    path.write_bytes(b"one")
    sha256 = {str(path): sha256_file(path)}
    for _ in range(2):
        with pytest.raises(RuntimeError, match="the actor failed"):  # no such spec: it got there
            asked_to_load(actor(sha256))
    assert methods == ["node", "seen", "sha256", "answer", "node", "seen", "answer"]
    path.write_bytes(b"two")
    with pytest.raises(IntegrityError):
        asked_to_load(actor(sha256))


def test_a_node_with_other_versions_is_refused(
    cluster: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What decides a reply must be installed alike everywhere."""
    versions = ray_client._versions()
    monkeypatch.setattr(ray_client, "_versions", lambda: {**versions, "llguidance": "0.1"})
    with pytest.raises(EngineError, match="has another version of llguidance") as caught:
        asked_to_load(actor())
    assert len(caught.value.problems) == 1


def test_a_cluster_without_room_is_said(cluster: Any) -> None:
    """An actor that the cluster cannot place is not waited for again and again."""
    client = actor(n_gpus=1000)
    with pytest.raises(EngineError, match=r"no actor with 0\.5 CPUs and 1000 GPUs within 2 s"):
        client.ask({"op": "system"}, timeout_s=2)
    client.kill()


def test_a_failure_inside_an_actor_is_told_by_its_kind(cluster: Any, tmp_path: Path) -> None:
    """What the user can mend and what is a bug arrive as they do from a worker process."""
    client = actor()
    with pytest.raises(RuntimeError, match="KeyError"):
        client.ask({"op": "no such thing"}, timeout_s=60)
    missing = {"path": str(tmp_path / "none.gguf"), "n_ctx": 256, "n_gpu_layers": 0}
    with pytest.raises(EngineError):
        client.ask({"op": "load", "spec": missing}, timeout_s=60)
    assert client.alive
    client.kill()
    assert not client.alive
    with pytest.raises(WorkerDiedError):
        client.ask({"op": "system"}, timeout_s=60)


def test_without_ray_the_remedy_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """The extra that is missing is named."""
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(EngineError, match=r"prereg-judge\[ray\]"):
        connect()


SCRIPT = """
import os, signal, sys, time
from prereg_judge.engine.client import WorkerDiedError
from prereg_judge.engine.ray_client import RayClient, connect
from prereg_judge.errors import EngineError
before = signal.getsignal(signal.SIGTERM)
try:
    connect("127.0.0.1:9")
except EngineError as exc:
    assert "no Ray cluster can be reached" in str(exc), exc
else:
    raise AssertionError("reached a cluster where none is")
ray = connect("local")
client = RayClient(n_gpus=0, n_cpus=0.5)
client.ask({"op": "system"}, timeout_s=60)
os.kill(client.pid, signal.SIGKILL)
try:
    client.ask({"op": "system"}, timeout_s=60)
except WorkerDiedError:
    pass
else:
    raise AssertionError("a dead actor answered")
time.sleep(3)  # what Ray says of a death comes later
assert signal.getsignal(signal.SIGTERM) is before
"""


def test_ray_prints_nothing() -> None:
    """Neither start nor death nor end of a cluster writes to the terminal, for standard output
    is for results; an address where nothing listens is refused; SIGTERM keeps its handler.
    """
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=300, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
