"""When a stop rule trips: one count, used call by call in a run and over a whole record.

Pure: knows neither files nor records, and of metrics only the counts of calls.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

from prereg_judge.registration.claims import StopRule
from prereg_judge.study.calls import call_count
from prereg_judge.study.outcomes import CallView


@dataclass(frozen=True)
class StopState:
    """Where a stop rule stands.

    Attributes
    ----------
    rule
        The rule.
    seen
        Calls fed so far, also those after the rule's first `over_first`.
    at_call
        Number (from 1) of the call at which the rule first tripped; None while it has not.
    k, n
        Calls counted and calls looked at, when it tripped or else in the last window.
    """

    rule: StopRule
    seen: int
    at_call: int | None
    k: int
    n: int

    @property
    def tripped(self) -> bool | None:
        """Whether the rule has tripped; None before any call."""
        return self.at_call is not None if self.seen else None


class StopWatch:
    """A stop rule fed with calls one at a time, each in constant time.

    The metric is counted after each of the first `over_first` calls, over the last `in_every`
    calls (all calls so far while they are fewer, or where `in_every` is None). The first time
    that the condition holds the rule has tripped, and it stays so. Until a window is full, only
    a count with a lower limit is looked at: it can but grow, while a share, or a count that must
    stay above something, would be judged on too few calls.

    Raises
    ------
    ValueError
        When the rule's metric is not a count or share of calls (`MetricSpec.live`), or a window
        is shorter than one call. The linter refuses both at lock.
    """

    def __init__(self, rule: StopRule) -> None:
        count = call_count(rule.when.ref)
        if count is None:
            raise ValueError(f"stop rule {rule.id}: {rule.when.ref} cannot be counted live")
        for name in ("in_every", "over_first"):
            limit = getattr(rule, name)
            if limit is not None and limit < 1:
                raise ValueError(f"stop rule {rule.id}: {name} must be at least 1, not {limit}")
        self._count = count
        self._window: deque[bool] = deque(maxlen=rule.in_every)
        self._state = StopState(rule, 0, None, 0, 0)
        # A count with a lower limit only can but grow while a window fills.
        when = rule.when
        self._growing = not when.ref.name.endswith(".rate") and not math.isfinite(when.high)

    @property
    def _full(self) -> bool:
        size = self._state.rule.in_every
        return size is None or len(self._window) == size

    @property
    def state(self) -> StopState:
        """Where the rule stands after the calls so far."""
        return self._state

    def feed(self, call: CallView) -> StopState:
        """Take the next call, in the order of the record, and say where the rule stands."""
        rule, seen, k = self._state.rule, self._state.seen + 1, self._state.k
        at_call, n = self._state.at_call, self._state.n
        over = rule.over_first is not None and seen > rule.over_first
        if at_call is None and not over:
            if len(self._window) == self._window.maxlen:
                k -= self._window[0]
            counted = self._count.matches(call)
            self._window.append(counted)
            k, n = k + counted, len(self._window)
            if (self._growing or self._full) and rule.when.holds(self._count.value(k, n)):
                at_call = seen
        self._state = StopState(rule, seen, at_call, k, n)
        return self._state


def stop_state(rule: StopRule, calls: Iterable[CallView]) -> StopState:
    """Where a stop rule stands after a whole sequence of calls.

    Parameters
    ----------
    rule
        The rule.
    calls
        The calls in the order of the record.

    Returns
    -------
    StopState
        Without any call it has neither tripped nor not tripped.

    Raises
    ------
    ValueError
        As `StopWatch` does.
    """
    watch = StopWatch(rule)
    for call in calls:
        watch.feed(call)
    return watch.state
