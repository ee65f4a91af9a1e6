"""Several lanes at once: what is taken is given back once, whatever fails and whoever answers."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import psutil
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.small_model import BARE, FREE, GREEDY, PATH, prompt, shared, spec
from prereg_judge.engine.client import WorkerClient, WorkerDiedError, WorkerFaultError
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
from prereg_judge.engine.supervisor import Limits, LlamaBackend
from prereg_judge.errors import EngineError, Problem
from prereg_judge.shaping import Decoding
from support import reply

PATIENT = Limits(call_timeout_s=60, heartbeat_s=None, load_timeout_s=60)
PARALLEL = 4

# What a scripted process does when it is asked to answer these keys.
Script = Callable[[tuple[str, ...]], None]


@dataclass
class ScriptedProcess:
    """In a worker's place: loads, and answers what the script lets it answer."""

    script: Script
    name: str = "scripted"
    alive: bool = True

    def ask(self, message: dict[str, Any], **_: float | None) -> Any:
        if message["op"] != "run":
            return None
        keys = tuple(call["key"] for call in message["calls"])
        self.script(keys)
        return [asdict(reply(f"to {key}")) for key in keys]

    def kill(self) -> None:
        self.alive = False


@dataclass
class Lane:
    """A supervisor over scripted processes, of which only so many can be started."""

    script: Script
    starts: int = 1000
    asked: list[tuple[str, ...]] = field(default_factory=list)

    def backend(self) -> LlamaBackend:
        """The real supervisor."""
        return LlamaBackend(
            spec(),
            SessionSettings(BARE, GREEDY, max_tokens=8, parallel=PARALLEL),
            limits=PATIENT,
            log=Path("unused.log"),
            connect=self._connect,
        )

    def _connect(self) -> ScriptedProcess:
        if self.starts == 0:
            raise EngineError(Problem("no more"))
        self.starts -= 1
        return ScriptedProcess(self._run)

    def _run(self, keys: tuple[str, ...]) -> None:
        self.asked.append(keys)
        self.script(keys)


@dataclass
class Source:
    """Calls of a plan, and retries of what failed as soon as they are due, also inside a group."""

    plan: list[Call]
    retries: int = 0
    first: bool = True  # retries come before what is left of the plan

    def __post_init__(self) -> None:
        self.left, self.due = deque(self.plan), deque[Call]()
        self.taken: Counter[str] = Counter()

    def __iter__(self) -> Iterator[Call]:
        return self

    def __next__(self) -> Call:
        queues = (self.due, self.left) if self.first else (self.left, self.due)
        for queue in queues:
            if queue:
                call = queue.popleft()
                self.taken[call.key] += 1
                return call
        raise StopIteration

    def failed(self, call: Call) -> None:
        """A retry is due, if one is left."""
        if self.taken[call.key] <= self.retries:
            self.due.append(replace(call, group=None))


def calls(sizes: Sequence[int]) -> list[Call]:
    """Groups of these sizes; a size of 0 is one call without a group."""
    made: list[Call] = []
    for number, size in enumerate(sizes):
        for at in range(max(size, 1)):
            made.append(Call(f"{number}.{at}", (1, 2), (), 1, number if size else None))
    return made


def read(fan: FanOut, source: Source) -> list[Answer | GroupLost]:
    """Everything that a stream gives back, with retries of what failed."""
    events = []
    for event in fan.stream(source):
        events.append(event)
        if isinstance(event, Answer) and isinstance(event.result, Failure):
            source.failed(event.call)
    return events


def drain(stream: Iterator[Answer | GroupLost], got: list[Answer]) -> None:
    """Collect answers, also those before an error."""
    for event in stream:
        got += answers([event])


def answers(events: Sequence[Answer | GroupLost]) -> list[Answer]:
    """Those events that answer a call."""
    return [event for event in events if isinstance(event, Answer)]


def lane_threads() -> list[threading.Thread]:
    """Threads of lanes that have not ended."""
    return [t for t in threading.enumerate() if t.name.startswith("lane ")]


def fine(keys: tuple[str, ...]) -> None:
    """Answer whatever is asked."""


# --- Nothing lost, nothing twice ----------------------------------------------------------------


@settings(deadline=None, max_examples=150)
@given(data=st.data())
def test_every_call_is_given_back_once_and_groups_stay_whole(data: st.DataObject) -> None:
    """Whatever stretch, faults, deaths, lost lanes and retries: one answer for each call taken,
    and a group's first attempt is made by one lane, whole.
    """
    sizes = data.draw(st.lists(st.integers(0, PARALLEL), max_size=12), "sizes")
    plan = calls(sizes)
    keys = [call.key for call in plan]
    poison = data.draw(st.sets(st.sampled_from(keys), max_size=3) if keys else st.just(set()))
    fuses = data.draw(st.lists(st.integers(1, 6), max_size=3), "runs before each death")

    def script(fuse: Iterator[int]) -> Script:
        left = next(fuse, 1000)

        def run(asked: tuple[str, ...]) -> None:
            nonlocal left
            left -= 1
            if left == 0:
                left = next(fuse, 1000)
                raise WorkerDiedError("died")
            if poison & set(asked):
                raise WorkerFaultError("poison")

        return run

    # The last lane can always start another process; the others are lost sooner or later.
    starts = data.draw(st.lists(st.integers(0, 3), max_size=2), "starts")
    lanes = [Lane(script(iter(fuses)), n) for n in [*starts, 1000]]
    stretch, retries = data.draw(st.integers(1, 9), "stretch"), data.draw(st.integers(0, 2))
    source = Source(plan, retries=retries, first=data.draw(st.booleans(), "retries first"))
    fan = FanOut([lane.backend() for lane in lanes], stretch=stretch)
    try:
        events = read(fan, source)
    finally:
        fan.close()

    assert Counter(a.call.key for a in answers(events)) == source.taken
    assert set(source.taken) == set(keys)
    for number, size in enumerate(sizes):
        group = tuple(f"{number}.{at}" for at in range(max(size, 1)))
        asked = [run for lane in lanes for run in lane.asked if set(run) & set(group)]
        assert set(asked) <= {group, *((key,) for key in group)}
        if size > 1:
            assert group in asked
    for answer in answers(events):
        if isinstance(answer.result, Reply):
            assert answer.result.text == f"to {answer.call.key}"


def test_calls_are_asked_for_again_after_each_answer() -> None:
    """An iterator that had ended, and brings a retry of what failed, is read again."""
    failures = iter([True, True])

    def twice(keys: tuple[str, ...]) -> None:
        if next(failures, False):
            raise WorkerDiedError("died")

    source = Source(calls([0]), retries=5)
    fan = FanOut([Lane(twice).backend(), Lane(twice).backend()], stretch=3)
    events = answers(read(fan, source))
    fan.close()
    assert [isinstance(a.result, Reply) for a in events] == [False, False, True]


def test_a_group_is_not_split_by_retries_inside_it() -> None:
    """Calls without a group that come in the middle of one are made after it."""
    a, b, c, d = calls([4])
    retry = Call("retry", (1,), (), 1)
    lane = Lane(fine)
    fan = FanOut([lane.backend()], stretch=1)
    made = answers(list(fan.stream(iter([a, b, retry, c, d]))))
    fan.close()
    assert lane.asked == [("0.0", "0.1", "0.2", "0.3"), ("retry",)]
    assert made[0].together == ("0.0", "0.1", "0.2", "0.3")


# --- Lanes that fail ----------------------------------------------------------------------------


def test_a_lost_lane_hands_its_calls_on() -> None:
    """What a lane took and did not answer is answered by the others, and its loss is said."""
    said: list[str] = []
    first, second = Lane(fine, starts=0), Lane(fine)
    fan = FanOut([first.backend(), second.backend()], stretch=2, announce=said.append)
    events = answers(read(fan, Source(calls([2, 2, 0, 0]))))
    fan.close()
    assert sorted(a.call.key for a in events) == ["0.0", "0.1", "1.0", "1.1", "2.0", "3.0"]
    assert first.asked == []
    assert said == ["lane 1 is lost, 1 left: no more"]


def test_a_lost_group_that_changes_lanes_is_made_one_by_one() -> None:
    """After a group was lost as a whole, whoever goes on makes its calls alone."""

    def die(keys: tuple[str, ...]) -> None:
        raise WorkerDiedError("died")

    first, second = Lane(die, starts=1), Lane(fine)
    fan = FanOut([first.backend(), second.backend()], stretch=4)
    events = read(fan, Source(calls([3])))
    fan.close()
    assert [type(event) for event in events] == [GroupLost, Answer, Answer, Answer]
    assert first.asked == [("0.0", "0.1", "0.2")]
    assert second.asked == [("0.0",), ("0.1",), ("0.2",)]


def test_the_last_lane_raises_its_error_after_what_was_answered() -> None:
    """With no lane left the error is raised, again at the next use; answers come before it."""

    def die_at_the_fifth(keys: tuple[str, ...]) -> None:
        if keys == ("4.0",):
            raise WorkerDiedError("died")

    lanes = [Lane(fine, starts=0), Lane(die_at_the_fifth, starts=1)]
    fan = FanOut([lane.backend() for lane in lanes], stretch=3)
    got: list[Answer] = []
    with pytest.raises(EngineError, match="no more"):
        drain(fan.stream(Source(calls([0] * 6))), got)
    assert [a.call.key for a in got] == ["3.0", "4.0"]
    with pytest.raises(EngineError, match="no more"):
        next(iter(fan.stream(Source(calls([0])))))
    with pytest.raises(EngineError, match="no more"):
        fan.start_pass()
    fan.close()


def test_a_bug_is_raised_after_the_groups_in_flight() -> None:
    """Another lane's group that was begun is given back, no further one is begun, and then the
    bug is raised.
    """
    begun, broken = threading.Event(), threading.Event()

    def slow(keys: tuple[str, ...]) -> None:
        begun.set()
        assert broken.wait(30)

    def bug(keys: tuple[str, ...]) -> None:
        assert begun.wait(30)
        raise ZeroDivisionError

    lanes = [Lane(slow), Lane(bug)]
    fan = FanOut([lane.backend() for lane in lanes], stretch=8)
    # The slow lane is let go when the reader has been told of the bug and stops the taking.
    threading.Thread(target=_when_stopped, args=(fan, broken), daemon=True).start()
    got: list[Answer] = []
    with pytest.raises(ZeroDivisionError):
        drain(fan.stream(iter(calls([4, 4, 4, 4]))), got)
    fan.close()
    assert [a.call.key for a in got] == ["0.0", "0.1", "0.2", "0.3"]
    assert lanes[0].asked == [("0.0", "0.1", "0.2", "0.3")]


def _when_stopped(fan: FanOut, then: threading.Event) -> None:
    """Set an event when the present reading takes nothing more."""
    while fan._reading.taking:
        time.sleep(0.01)
    then.set()


class Hesitant:
    """A backend that takes the second call of a group only when no more are to be taken."""

    fan: FanOut

    def __init__(self, begun: threading.Event) -> None:
        self._begun = begun

    def start_pass(self) -> None:
        """Nothing to clear."""

    def stream(self, calls: Iterator[Call]) -> Iterator[Answer]:
        group = [next(calls)]
        self._begun.set()
        _when_stopped(self.fan, threading.Event())
        group += calls
        yield from (Answer(call, reply("x"), tuple(c.key for c in group)) for call in group)

    def close(self) -> None:
        """Nothing to end."""


def test_a_group_in_flight_is_completed() -> None:
    """When a bug elsewhere stops the taking of calls, a group of which a part was taken is still
    answered as the plan says, and no group after it.
    """
    begun = threading.Event()

    def bug(keys: tuple[str, ...]) -> None:
        assert begun.wait(30)
        raise ZeroDivisionError

    hesitant = Hesitant(begun)
    fan = FanOut([hesitant, Lane(bug).backend()], stretch=8)
    hesitant.fan = fan
    got: list[Answer] = []
    with pytest.raises(ZeroDivisionError):
        drain(fan.stream(iter(calls([4, 4, 4, 4]))), got)
    fan.close()
    assert [a.call.key for a in got] == ["0.0", "0.1", "0.2", "0.3"]
    assert {a.together for a in got} == {("0.0", "0.1", "0.2", "0.3")}


class Careless:
    """A backend that loses a call, or answers one that it was not asked."""

    def __init__(self, answer: str | None) -> None:
        self._answer = answer

    def start_pass(self) -> None:
        """Nothing to clear."""

    def stream(self, calls: Iterator[Call]) -> Iterator[Answer]:
        for call in calls:
            if self._answer is not None:
                yield Answer(replace(call, key=self._answer), reply("x"), ())

    def close(self) -> None:
        """Nothing to end."""


@pytest.mark.parametrize(("answer", "said"), [(None, "left 1 calls"), ("other", "'other' unasked")])
def test_a_backend_that_breaks_its_word_is_a_bug(answer: str | None, said: str) -> None:
    """A call that is never answered, or an answer to none, is not passed over."""
    fan = FanOut([Careless(answer)], stretch=1)
    with pytest.raises(RuntimeError, match=said):
        list(fan.stream(iter(calls([0]))))
    fan.close()


# --- Ends ---------------------------------------------------------------------------------------


def test_an_early_end_takes_no_further_calls() -> None:
    """When the reader leaves, lanes finish what they had begun, and their threads end."""
    gate = threading.Semaphore(1)

    def gated(keys: tuple[str, ...]) -> None:
        assert gate.acquire(timeout=30)

    lanes = [Lane(gated), Lane(gated)]
    source = Source(calls([0] * 50))
    fan = FanOut([lane.backend() for lane in lanes], stretch=10)
    stream = fan.stream(source)
    next(iter(stream))
    stream.close()  # type: ignore[attr-defined]
    taken = sum(source.taken.values())
    gate.release(100)
    fan.close()
    assert not lane_threads()
    # One call was answered; each lane may have begun one more before the end was known.
    assert sum(len(lane.asked) for lane in lanes) <= 3
    assert sum(source.taken.values()) == taken <= 20


def test_a_lost_group_that_nobody_waits_for_is_not_made_again() -> None:
    """When the reader leaves at the loss of a group, its calls are not all made one by one."""
    gate = threading.Event()

    def die(keys: tuple[str, ...]) -> None:
        if len(keys) > 1:
            raise WorkerDiedError("died")
        assert gate.wait(30)

    lane = Lane(die)
    fan = FanOut([lane.backend()], stretch=4)
    stream = fan.stream(iter(calls([4])))
    assert isinstance(next(iter(stream)), GroupLost)
    stream.close()  # type: ignore[attr-defined]
    gate.set()
    fan.start_pass()  # waits for the lane
    fan.close()
    assert len(lane.asked) <= 2, lane.asked


def test_ctrl_c_in_the_reader_ends_the_lanes() -> None:
    """An interrupt while the reader waits is raised there; after `close` no thread goes on."""
    main = threading.main_thread().ident
    assert main is not None
    gate = threading.Event()

    def interrupting(keys: tuple[str, ...]) -> None:
        signal.pthread_kill(main, signal.SIGINT)
        assert gate.wait(30)

    lane = Lane(interrupting)
    fan = FanOut([lane.backend()], stretch=10)
    with pytest.raises(KeyboardInterrupt):
        list(fan.stream(iter(calls([0] * 10))))
    gate.set()
    fan.close()
    assert not lane_threads()
    assert lane.asked == [("0.0",)]


def test_a_stream_after_one_that_was_left_waits_for_its_lanes() -> None:
    """A lane that still answers a call of a stream that nobody reads is not used by two threads:
    its late answer appears in no other stream.
    """
    gate = threading.Event()

    def gated(keys: tuple[str, ...]) -> None:
        if keys == ("1.0",):
            assert gate.wait(30)

    lane = Lane(gated)
    fan = FanOut([lane.backend()], stretch=2)
    stream = fan.stream(iter(calls([0, 0])))
    assert answers([next(iter(stream))])[0].call.key == "0.0"
    stream.close()  # type: ignore[attr-defined]
    threading.Timer(0.2, gate.set).start()
    fan.start_pass()
    assert gate.is_set()
    assert [a.call.key for a in answers(list(fan.stream(iter(calls([0])))))] == ["0.0"]
    fan.close()
    with pytest.raises(RuntimeError, match="closed"):
        fan.start_pass()


def test_a_pass_begins_in_every_lane() -> None:
    """Each lane's memory is cleared, and a lane that cannot is lost like any other."""

    class Passes(Careless):
        started = 0

        def start_pass(self) -> None:
            self.started += 1
            if self._answer == "lost":
                raise EngineError(Problem("gone"))

    said: list[str] = []
    lanes = [Passes(None), Passes("lost"), Passes(None)]
    fan = FanOut(lanes, stretch=1, announce=said.append)
    fan.start_pass()
    fan.start_pass()
    fan.close()
    assert [lane.started for lane in lanes] == [2, 1, 2]
    assert said == ["lane 2 is lost, 2 left: gone"]


@pytest.mark.parametrize(("lanes", "stretch"), [(0, 1), (1, 0)])
def test_no_lane_and_no_stretch_are_refused(lanes: int, stretch: int) -> None:
    """What could never answer anything is refused when it is made."""
    with pytest.raises(ValueError, match="at least 1"):
        FanOut([Careless(None)] * lanes, stretch=stretch)


# --- With the real model ------------------------------------------------------------------------

NOTE = Constraint({"type": "string", "maxLength": 20}, ",", ":")
WORDS = ["cat", "table", "dog", "river", "horse", "poem", "whale", "engine", "ant", "cloud"]


def real_calls(decoding: Decoding) -> list[Call]:
    """Ten calls in groups of two."""
    seeded = decoding.mode != "greedy"
    return [
        Call(word, prompt(word), (shared(),), 7 + at if seeded else None, at // 2)
        for at, word in enumerate(WORDS)
    ]


def real_lane(log: Path, decoding: Decoding, announce: Callable[[str], None]) -> LlamaBackend:
    """A lane with a real worker."""
    how = SessionSettings(NOTE, decoding, max_tokens=12, parallel=2)
    return LlamaBackend(spec(), how, limits=PATIENT, log=log, announce=announce)


def outcome(events: Sequence[Answer | GroupLost]) -> dict[str, tuple[Any, ...]]:
    """What must not depend on who answered: by key, the texts and numbers of the reply."""
    found = {}
    for answer in answers(events):
        assert isinstance(answer.result, Reply), answer
        assert answer.call.key not in found
        found[answer.call.key] = (
            *(answer.result.text, answer.result.tokens, answer.result.allowed_mass),
            answer.together,
        )
    return found


@pytest.mark.model
@pytest.mark.parametrize("decoding", [GREEDY, FREE], ids=["greedy", "seeded"])
def test_two_workers_answer_as_one(tmp_path: Path, decoding: Decoding) -> None:
    """The same calls with the same seeds get the same replies from one worker and from two."""
    alone = real_lane(tmp_path / "0.log", decoding, lambda _: None)
    expected = outcome(list(alone.stream(iter(real_calls(decoding)))))
    alone.close()
    said: list[str] = []
    lanes = [real_lane(tmp_path / f"{n}.log", decoding, said.append) for n in (1, 2)]
    fan = FanOut(lanes, stretch=2)
    fan.start_pass()
    found = outcome(list(fan.stream(iter(real_calls(decoding)))))
    fan.close()
    assert found == expected
    assert len(found) == len(WORDS)
    assert len({text for text, *_ in expected.values()}) > 1
    assert len(said) == 2, said  # both had a worker


@pytest.mark.model
def test_a_killed_worker_of_one_lane_loses_nothing(tmp_path: Path) -> None:
    """With a worker killed in the middle, every call has one reply in the end: that of an
    undisturbed worker.
    """
    alone = real_lane(tmp_path / "0.log", FREE, lambda _: None)
    expected = {k: v[:3] for k, v in outcome(list(alone.stream(iter(real_calls(FREE))))).items()}
    alone.close()
    said: list[str] = []
    lanes = [real_lane(tmp_path / f"{n}.log", FREE, said.append) for n in (1, 2)]
    fan = FanOut(lanes, stretch=6)
    source, events = Source(real_calls(FREE), retries=1), list[Answer | GroupLost]()
    victim = None
    for event in fan.stream(source):
        events.append(event)
        if isinstance(event, Answer) and isinstance(event.result, Failure):
            source.failed(event.call)
        if victim is None and lanes[0]._client is not None and isinstance(event, Answer):
            victim = lanes[0]._client
            assert isinstance(victim, WorkerClient)
            os.kill(victim.pid, signal.SIGKILL)
    fan.close()
    assert Counter(a.call.key for a in answers(events)) == source.taken
    replied = [a for a in answers(events) if isinstance(a.result, Reply)]
    assert {k: v[:3] for k, v in outcome(replied).items()} == expected
    assert sum("replaced" in text for text in said) == 1, said


@pytest.mark.model
def test_closing_ends_a_worker_in_the_middle_of_a_call(tmp_path: Path) -> None:
    """A lane that waits for a worker is ended with it, and no crash is announced."""
    said: list[str] = []
    lane = real_lane(tmp_path / "1.log", GREEDY, said.append)
    fan = FanOut([lane], stretch=10)
    stream = fan.stream(iter(real_calls(GREEDY)))
    next(iter(stream))
    worker = lane._client
    assert isinstance(worker, WorkerClient)
    os.kill(worker.pid, signal.SIGSTOP)  # whatever it is asked now, it does not answer
    fan.close()
    assert not lane_threads()
    assert worker.process.poll() == -signal.SIGKILL
    assert len(said) == 1, said
    with pytest.raises(RuntimeError, match="closed while it was being read"):
        list(stream)


@pytest.mark.model
def test_a_worker_outlives_the_stretch_that_started_it(tmp_path: Path) -> None:
    """Stretch after stretch and pass after pass are answered by the same process."""
    said: list[str] = []
    fan = FanOut([real_lane(tmp_path / "1.log", GREEDY, said.append)], stretch=2)
    for _ in range(2):
        fan.start_pass()
        assert len(outcome(list(fan.stream(iter(real_calls(GREEDY)[:4]))))) == 4
    fan.close()
    assert len(said) == 1, said


def test_a_worker_can_be_killed_from_two_threads(tmp_path: Path) -> None:
    """The thread that closes a backend and the one that finds its worker dead do not get into
    each other's way.
    """
    errors: list[BaseException] = []

    def kill(client: WorkerClient, together: threading.Barrier) -> None:
        together.wait(30)
        try:
            client.kill()
        except BaseException as exc:
            errors.append(exc)

    for number in range(20):
        client, together = WorkerClient(log=tmp_path / f"{number}.log"), threading.Barrier(4)
        threads = [threading.Thread(target=kill, args=(client, together)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not client.alive
    assert errors == []


def test_a_lane_can_have_a_device_of_its_own(tmp_path: Path) -> None:
    """A worker has the variables that its lane was given, in place of this process's, and
    otherwise this process's.
    """
    device = {"CUDA_VISIBLE_DEVICES": "1"}
    client = WorkerClient(log=tmp_path / "log", environment=device)
    try:
        # The process answers, so it has replaced the environment that it was forked with.
        found = client.ask({"op": "system"}, timeout_s=60)
        environment = psutil.Process(client.pid).environ()
    finally:
        client.kill()
    assert "build" in found
    assert environment["CUDA_VISIBLE_DEVICES"] == "1"
    assert environment["PATH"] == os.environ["PATH"]
    assert PATH.is_file()
