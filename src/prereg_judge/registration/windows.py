"""Whether a stop rule can trip, and whether a run can go to its end without it (pure).

Answers for the counting that `stopping.StopWatch` does: after each of the first `over_first` calls,
over the last `in_every` calls; a window that is not full yet only for counts that can but grow.
Other stop rules are left out of account: they could end any run earlier.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from prereg_judge.registration.claims import StopRule

_MOST_STEPS = 5_000  # calls looked at one by one; a rule that has not settled by then is left alone


@dataclass(frozen=True)
class Calls:
    """How many calls a run can make, and how many of them a rule can count.

    Attributes
    ----------
    least, most
        Calls of a run that goes to its end.
    counted
        Largest number that the rule's metric can count; None = it counts every call.
    """

    least: int
    most: int
    counted: int | None


def can_trip(rule: StopRule, calls: Calls) -> bool:
    """Whether some run trips the rule."""
    return any(
        any(_holds(rule, k, n) for k in _telling(rule, n, calls)) for n in _sizes(rule, calls.most)
    )


def can_stay_silent(rule: StopRule, calls: Calls) -> bool:
    """Whether some run goes to its end without tripping the rule.

    Takes counted calls as free to come at any place, so that the answer may be yes where retries
    leave no such place; it is never no where there is one.
    """
    if calls.counted is None:
        return not any(_holds(rule, n, n) for n in _sizes(rule, calls.least))
    if rule.in_every is not None:
        sizes = list(_sizes(rule, calls.least))
        if not sizes or _growing(rule):
            return not sizes or not _holds(rule, 0, 1)
        telling = _telling(rule, rule.in_every, calls)
        return any(not _holds(rule, k, rule.in_every) for k in telling)
    alive = np.zeros(_MOST_STEPS + 2, dtype=bool)  # counts reached without tripping
    alive[0] = True
    for n in _sizes(rule, min(calls.least, _MOST_STEPS)):
        alive[1:] |= alive[:-1].copy()
        alive[calls.counted + 1 :] = False
        for k in np.flatnonzero(alive):
            alive[k] = not _holds(rule, int(k), n)
        if not alive.any():
            return False
        if n > 64 and alive[: n // 2].sum() > 32:
            return True  # most counts are free: what follows cannot exclude them all
    return True


def _is_rate(rule: StopRule) -> bool:
    return rule.when.ref.name.endswith(".rate")


def _growing(rule: StopRule) -> bool:
    return not _is_rate(rule) and not math.isfinite(rule.when.high)


def _holds(rule: StopRule, k: int, n: int) -> bool:
    return rule.when.holds(k / n if _is_rate(rule) else float(k))


def _sizes(rule: StopRule, calls: int) -> Iterator[int]:
    """Sizes of the windows that are looked at in a run of so many calls."""
    last = calls if rule.over_first is None else min(calls, rule.over_first)
    if rule.in_every is None:
        yield from range(1, last + 1)
    elif _growing(rule):
        yield from range(1, min(rule.in_every, last) + 1)
    elif rule.in_every <= last:
        yield rule.in_every


def _telling(rule: StopRule, n: int, calls: Calls) -> set[int]:
    """Counts in a window of `n` calls that stand for all: those at its ends and at the limits."""
    if calls.counted is None:
        return {n}
    top = min(n, calls.counted)
    edges = (math.floor(x * n if _is_rate(rule) else x) for x in rule.when.limits)
    near = {edge + step for edge in edges for step in (-1, 0, 1, 2)}
    return {0, top} | {k for k in near if 0 <= k <= top}
