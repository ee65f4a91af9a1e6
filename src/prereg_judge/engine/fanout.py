"""Several backends at once: each takes a stretch of the plan when it is free; one reader.

Every lane is driven by a thread of its own, which only waits; answers come back through one queue
to the thread that reads the stream, so there is one writer whatever the fan-out. Which lane
answers a call depends on timing. What it answers does not, where lanes are alike and caches
separate; `prereg probe` measures it.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from queue import Empty, SimpleQueue

from prereg_judge.engine.protocol import Answer, Backend, Call, GroupLost
from prereg_judge.errors import EngineError

_CLOSE_WAIT_S = 10.0
_TICK_S = 0.2


@dataclass(frozen=True)
class _Ended:
    """A lane has answered all that it was given, or stopped before that."""

    lane: _Lane
    left: tuple[Call, ...]
    error: BaseException | None


@dataclass
class _Reading:
    """One reading of a stream.

    `taking`: lanes may begin a further group. `wanted`: somebody reads what they answer.
    """

    events: SimpleQueue[Answer | GroupLost | _Ended] = field(default_factory=SimpleQueue)
    taking: bool = True
    wanted: bool = True

    def next(self) -> Answer | GroupLost | _Ended:
        """Wait for the next event.

        Not in one long wait: a Ctrl-C that comes just before it begins would only be seen after.
        """
        while True:
            try:
                return self.events.get(timeout=_TICK_S)
            except Empty:
                continue

    def abandon(self) -> None:
        """Tell the lanes that nobody reads any more."""
        self.taking = self.wanted = False


class FanOut:
    """A `Backend` over several.

    A lane that raises an `EngineError` is lost and closed; what it took and did not answer goes
    to the others. Keys of calls that are in flight at the same time must differ.

    Parameters
    ----------
    lanes
        The backends, at least one; each is used by one thread at a time, apart from `close`,
        which is called from another and may be called twice.
    stretch
        Calls handed to a lane at once, rounded up to whole groups: neighbours in the plan share
        beginnings, so they stay together. At least 1.
    announce
        Told in words, in the reader's thread, when a lane is lost.
    """

    def __init__(
        self,
        lanes: Sequence[Backend],
        *,
        stretch: int,
        announce: Callable[[str], None] = lambda _: None,
    ) -> None:
        if not lanes or stretch < 1:
            raise ValueError("a fan-out needs a lane and a stretch of at least 1")
        self._lanes = [_Lane(number, backend) for number, backend in enumerate(lanes, start=1)]
        self._stretch, self._announce = stretch, announce
        self._reading = _Reading()
        self._closed = False
        self._last_error: EngineError | None = None

    def start_pass(self) -> None:
        """Begin a pass from a cleared memory, in every lane.

        Raises
        ------
        EngineError
            If no lane is left.
        """
        self._settle()
        for lane in list(self._lanes):
            try:
                lane.backend.start_pass()
            except EngineError as exc:
                self._lose(lane, exc)

    def stream(self, calls: Iterator[Call]) -> Iterator[Answer | GroupLost]:
        """Hand stretches of calls to free lanes and give back answers as they come.

        Calls of one group are answered by one lane, together, whatever calls without a group
        come between them; only what a lost lane left of a group can differ.

        Raises
        ------
        EngineError
            The last lane's, when no lane is left.
        Exception
            Anything else that a lane raises, after the groups that the others had begun have been
            given back. Calls that no lane had begun are then not given back.
        """
        self._settle()
        reading = self._reading = _Reading()
        try:
            yield from self._read(_Groups(calls), reading)
        finally:
            reading.abandon()

    def _read(self, groups: _Groups, reading: _Reading) -> Iterator[Answer | GroupLost]:
        busy: set[_Lane] = set()
        bug: BaseException | None = None
        while True:
            self._hand_out(groups, reading, busy)
            if not busy:
                if not reading.wanted:
                    raise RuntimeError("the fan-out was closed while it was being read") from bug
                if bug is not None:
                    raise bug
                return
            event = reading.next()
            if not isinstance(event, _Ended):
                if isinstance(event, GroupLost):
                    groups.alone.update(event.keys)
                yield event
                continue
            busy.discard(event.lane)
            if isinstance(event.error, EngineError) and bug is None:
                groups.give_back(event.left)
                self._lose(event.lane, event.error)
            elif event.error is not None:
                bug = bug or event.error
                reading.taking = False

    def _hand_out(self, groups: _Groups, reading: _Reading, busy: set[_Lane]) -> None:
        """Give every free lane a stretch, while there are calls."""
        for lane in self._lanes:
            if not reading.taking:
                return
            if lane not in busy:
                calls = groups.take(self._stretch)
                if not calls:
                    return
                busy.add(lane)
                lane.begin(calls, reading)

    def _lose(self, lane: _Lane, error: EngineError) -> None:
        """Go on without a lane; raise its error if it was the last."""
        self._lanes.remove(lane)
        lane.close()
        if not self._lanes:
            self._last_error = error
            raise error
        self._announce(f"lane {lane.number} is lost, {len(self._lanes)} left: {error}")

    def _settle(self) -> None:
        """Wait until every lane has ended what an earlier reading may have left unfinished."""
        if self._closed:
            raise RuntimeError("this backend is closed")
        if self._last_error is not None:
            raise self._last_error
        self._reading.abandon()
        for lane in self._lanes:
            while not lane.idle.wait(_TICK_S):
                pass  # as in `_Reading.next`

    def close(self) -> None:
        """End every lane, whatever it is doing; final."""
        self._closed = True
        self._reading.abandon()
        for lane in self._lanes:
            lane.close()
        for lane in self._lanes:
            lane.join(_CLOSE_WAIT_S)


class _Groups:
    """Reads calls in whole groups, so that none is ever begun before it is complete.

    The iterator is asked again although it had ended. Calls without a group that come in the
    middle of one wait until after it; to see a group's end, the call after it is read as well.

    Attributes
    ----------
    alone
        Keys of calls that are to be made alone, for their group was lost.
    """

    def __init__(self, calls: Iterator[Call]) -> None:
        self._calls = calls
        self._ahead: Call | None = None
        self._waiting: deque[list[Call]] = deque()
        self.alone: set[str] = set()

    def take(self, least: int) -> list[Call]:
        """Groups in succession, `least` calls or more; fewer where no more are to be had now."""
        taken: list[Call] = []
        while len(taken) < least and (group := self._next()):
            taken += group
        return taken

    def _next(self) -> list[Call]:
        if self._waiting:
            return self._waiting.popleft()
        first = self._ahead or next(self._calls, None)
        self._ahead = None
        if first is None:
            return []
        group = [first]
        while first.group is not None and (following := next(self._calls, None)) is not None:
            if following.group == first.group:
                group.append(following)
            elif following.group is None:
                self._waiting.append([following])
            else:
                self._ahead = following
                break
        return group

    def give_back(self, calls: Sequence[Call]) -> None:
        """Put calls that were taken and not answered before all others."""
        groups: list[list[Call]] = []
        for call in calls:
            if call.key in self.alone:
                call = replace(call, group=None)
            if call.group is not None and groups and groups[-1][0].group == call.group:
                groups[-1].append(call)
            else:
                groups.append([call])
        self._waiting.extendleft(reversed(groups))


class _Lane:
    """A backend and the thread that drives it.

    The thread lasts as long as the lane: Linux ends a worker together with the thread that
    started it, not only with the process (`PR_SET_PDEATHSIG`).
    """

    def __init__(self, number: int, backend: Backend) -> None:
        self.number, self.backend = number, backend
        self.idle = threading.Event()
        self.idle.set()
        self._work: SimpleQueue[tuple[list[Call], _Reading] | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._drive, daemon=True, name=f"lane {number}")

    def begin(self, calls: list[Call], reading: _Reading) -> None:
        """Answer calls; the last event is `_Ended`."""
        if self._thread.ident is None:
            self._thread.start()
        self.idle.clear()
        self._work.put((calls, reading))

    def close(self) -> None:
        """End the backend and the thread, without waiting for it."""
        self.backend.close()
        self._work.put(None)

    def join(self, timeout_s: float) -> None:
        """Wait until the thread has ended, if it ever ran."""
        if self._thread.ident is not None:
            self._thread.join(timeout_s)

    def _drive(self) -> None:
        while (work := self._work.get()) is not None:
            calls, reading = work
            given = {call.key: call for call in calls}
            error = self._answer(given, calls, reading=reading)
            self.idle.set()
            reading.events.put(_Ended(self, tuple(given.values()), error))
        self.backend.close()  # what it started while it was being closed

    def _answer(
        self, given: dict[str, Call], calls: list[Call], *, reading: _Reading
    ) -> BaseException | None:
        """Answer calls and take them out of `given`; return what went wrong."""
        try:
            for event in self.backend.stream(_feed(calls, reading)):
                if not reading.wanted:
                    return None
                if isinstance(event, Answer) and given.pop(event.call.key, None) is None:
                    raise RuntimeError(f"lane {self.number} answered {event.call.key!r} unasked")
                reading.events.put(event)
            if given and reading.taking:
                raise RuntimeError(f"lane {self.number} left {len(given)} calls unanswered")
        except BaseException as exc:  # raised anew where the stream is read
            return exc
        return None


def _feed(calls: Sequence[Call], reading: _Reading) -> Iterator[Call]:
    """Calls as long as they are to be taken; a group that was begun is completed."""
    before: Call | None = None
    for call in calls:
        inside = before is not None and call.group is not None and call.group == before.group
        if not (inside or reading.taking):
            return
        before = call
        yield call
