"""Calling every trial that is not done, pass by pass, and recording each attempt as it comes.

One writer, whatever answers: attempts are written in the order in which they come, each synced
before the next is written and, where one worker answers, before the next group is handed out.
What was asked is in the plan, what came in the record.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Protocol, cast

from prereg_judge.engine.protocol import Answer, Backend, Call, GroupLost
from prereg_judge.flow.calls import attempt_line, seed_for
from prereg_judge.flow.prepare import Inputs
from prereg_judge.flow.prompts import ModelInputs
from prereg_judge.flow.settings import EngineSettings, engine_settings
from prereg_judge.flow.views import call_view
from prereg_judge.flow.watching import Watcher
from prereg_judge.plan import Trial
from prereg_judge.record.attempt import AttemptLine
from prereg_judge.record.run import AttemptWriter
from prereg_judge.record.state import RunState
from prereg_judge.stopping import StopWatch

StartBackend = Callable[[EngineSettings], Backend]


class _Stream(Protocol):
    """An iterator over answers that can be abandoned."""

    def __iter__(self) -> Iterator[Answer | GroupLost]:
        """Go on."""

    def close(self) -> None:
        """Abandon what is in flight."""


class PassFeed:
    """The calls of one pass: first what is to be tried again, then the next trial not done.

    A call's group is a function of the trial's place in the pass alone. After a resume a group
    may lack members that are done already; the record says who was answered together. It can be
    asked again after it has ended: `retry` may have brought another call.
    """

    def __init__(
        self,
        state: RunState,
        pass_no: int,
        *,
        parallel: int,
        make_call: Callable[[Trial, int | None], Call],
    ) -> None:
        self._state, self._make, self._parallel = state, make_call, parallel
        self._first = (pass_no - 1) * state.plan.n_in_pass
        self._next, self._end = self._first, self._first + state.plan.n_in_pass
        self._again: deque[int] = deque()
        self._stopped = False
        # Trials begun before this session that may be tried again: alone, as any retry.
        self._begun = state.made[self._first : self._end].copy() > 0

    def __iter__(self) -> Iterator[Call]:
        return self

    def __next__(self) -> Call:
        if self._stopped:
            raise StopIteration
        if self._again:
            return self._make(self._state.plan[self._again.popleft()], None)
        while self._next < self._end:
            index, self._next = self._next, self._next + 1
            if not self._state.done[index]:
                place = index - self._first
                group = None if self._begun[place] else place // self._parallel
                return self._make(self._state.plan[index], group)
        raise StopIteration

    def retry(self, index: int) -> None:
        """Try a trial again, alone, before anything else is called."""
        self._again.append(index)

    def stop(self) -> None:
        """Hand out no further call."""
        self._stopped = True


class Collector:
    """Makes the calls of a run.

    Parameters
    ----------
    state
        Where the record ends; kept up with what is recorded.
    watches
        Stop rules, fed with every attempt so far.
    """

    def __init__(
        self,
        inputs: Inputs,
        model: ModelInputs,
        state: RunState,
        *,
        writer: AttemptWriter,
        watcher: Watcher,
        watches: list[StopWatch],
    ) -> None:
        self._inputs, self._model, self._state = inputs, model, state
        self._writer, self._watcher, self._watches = writer, watcher, watches

    def collect(self, start: StartBackend) -> str | None:
        """Call every trial that is not done, in plan order; the id of a tripped stop rule."""
        registered, plan = self._inputs.model, self._state.plan
        backend, current = None, None
        try:
            for pass_no in range(1, plan.passes + 1):
                first = (pass_no - 1) * plan.n_in_pass
                if self._state.done[first : first + plan.n_in_pass].all():
                    continue
                settings = engine_settings(registered, pass_no)
                if backend is None or settings != current:
                    if backend is not None:
                        backend.close()
                    backend, current = start(settings), settings
                backend.start_pass()
                stopped = self._one_pass(pass_no, settings, backend)
                if stopped is not None:
                    return stopped
        finally:
            if backend is not None:
                backend.close()
        return None

    def _one_pass(self, pass_no: int, settings: EngineSettings, backend: Backend) -> str | None:
        shared = settings.prefix == "shared"

        def make_call(trial: Trial, group: int | None) -> Call:
            self._watcher.calling(trial.key)
            prompt = self._model.prompt(trial)
            cuts = prompt.cuts if shared else ()
            seed = seed_for(self._inputs.model)
            return Call(trial.key, prompt.tokens, cuts, seed, group, prompt.messages)

        feed = PassFeed(self._state, pass_no, parallel=settings.parallel, make_call=make_call)
        stopped = None
        with closing(cast(_Stream, backend.stream(feed))) as stream:
            for event in stream:
                if isinstance(event, GroupLost):
                    self._lost(event)
                    continue
                line = self._record(event)
                if not self._state.done[line.index]:
                    feed.retry(line.index)
                tripped = self._watch(line)
                if stopped is None and tripped is not None:
                    stopped = tripped
                    feed.stop()  # what is in flight is still answered, and recorded
        return stopped

    def _record(self, answer: Answer) -> AttemptLine:
        state, plan = self._state, self._state.plan
        trial = plan.find(answer.call.key)
        prompt = self._model.prompt(trial).sha256
        line = attempt_line(
            trial,
            int(state.made[trial.index]) + 1,
            answer.call,
            answer.result,
            prompt=prompt,
            judge=self._inputs.judge,
            batch=tuple(plan.find(key).index for key in answer.together),
        )
        line = self._writer.attempt(line)
        wrong = state.take(line, prompt=prompt)
        if wrong is not None:
            raise RuntimeError(f"{trial.key}: {wrong}")
        self._watcher.attempted(line, bool(state.done[trial.index]))
        return line

    def _lost(self, event: GroupLost) -> None:
        places = [self._state.plan.find(key).index for key in event.keys]
        self._writer.note(
            "batch_lost",
            batch=places,
            reason=event.reason,
            detail=event.detail,
            seconds=round(event.seconds, 6),
        )
        self._watcher.announce(
            f"{event.reason} in a batch of {len(places)} calls; they are made again one by one"
        )

    def _watch(self, line: AttemptLine) -> str | None:
        """Feed an attempt to the stop rules; the id of one that has tripped."""
        view = call_view(line)
        states = [watch.feed(view) for watch in self._watches]
        return next((s.rule.id for s in states if s.at_call is not None), None)
