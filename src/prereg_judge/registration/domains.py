"""Which values a metric can take at all, and whether a condition can be true or false on them.

Pure logic on claims; knows no files and no metric names. Metrics are taken as free of each other,
so "can never be true" is always right, while a truth that needs two metrics to move together may
go unseen.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from prereg_judge.registration.claims import Condition, Test, tests_in
from prereg_judge.study.metric import MetricRef

_MOST_COMBINATIONS = 20_000


@dataclass(frozen=True)
class Domain:
    """The values a metric can take.

    Attributes
    ----------
    low, high
        Smallest and largest; infinity where no limit is known before the run.
    whole
        Whether only whole numbers occur.
    values
        Every value, ascending, where they are few enough to list (shares of a known n, limits of
        their intervals); None where only the range is known.
    """

    low: float
    high: float
    whole: bool
    values: tuple[float, ...] | None = None

    @classmethod
    def listed(cls, values: Iterable[float]) -> Domain:
        """A domain of exactly these values, of which there is at least one."""
        ordered = tuple(sorted(set(values)))
        whole = all(float(v).is_integer() for v in ordered)
        return cls(ordered[0], ordered[-1], whole, ordered)

    def __str__(self) -> str:
        if self.low == self.high:
            return f"{self.low:g}"
        low, high = (f"{x:g}" if math.isfinite(x) else "any number" for x in (self.low, self.high))
        return low if low == high else f"{low} to {high}"

    def near(self, test: Test) -> str:
        """The values next to a test that none of them meets, in words; empty where it is known."""
        if self.values is None or any(test.holds(v) for v in self.values):
            return ""
        below = max((v for v in self.values if v <= test.low), default=None)
        above = min((v for v in self.values if v >= test.high), default=None)
        return " and ".join(f"{v:g}" for v in (below, above) if v is not None)

    def samples(self, tests: tuple[Test, ...]) -> list[float]:
        """Values that stand for all others: between two neighbours no test changes its answer."""
        if self.values is not None:
            return list(self.values)
        edges = {x for t in tests for x in t.limits if self.low <= x <= self.high}
        edges |= {x for x in (self.low, self.high) if math.isfinite(x)}
        ordered = sorted(edges) or [0.0]
        points: set[float] = set()
        for edge in ordered:
            points |= {math.floor(edge), math.ceil(edge)} if self.whole else {edge}
            if self.whole:
                points |= {math.floor(edge) - 1, math.ceil(edge) + 1}
        if not self.whole:
            points |= {a + (b - a) / 2 for a, b in itertools.pairwise(ordered)}
            points |= {ordered[0] - 1.0, ordered[-1] + 1.0}
        return sorted(float(p) for p in points if self.low <= p <= self.high)


def answer(condition: Condition, values: Mapping[MetricRef, float]) -> bool:
    """Whether a condition is true where its metrics have these values."""
    if isinstance(condition, Test):
        return condition.holds(values[condition.ref])
    parts = (answer(p, values) for p in condition.parts)
    return all(parts) if condition.how == "all" else any(parts)


def possible_answers(condition: Condition, domains: Mapping[MetricRef, Domain]) -> set[bool]:
    """The answers that a condition can have: {True}, {False} or both.

    Conditions on so many metrics that trying every combination would take too long are judged
    part by part, which may call both answers possible where one is not.
    """
    tests = tests_in(condition)
    refs = list(dict.fromkeys(t.ref for t in tests))
    samples = [telling_values(domains[r], tuple(t for t in tests if t.ref == r)) for r in refs]
    if not all(samples):
        return {False}
    if math.prod(len(s) for s in samples) <= _MOST_COMBINATIONS:
        combinations = itertools.product(*samples)
        return {answer(condition, dict(zip(refs, c, strict=True))) for c in combinations}
    if isinstance(condition, Test):
        return {True, False}
    parts = [possible_answers(p, domains) for p in condition.parts]
    settles = condition.how == "any"  # the answer of one part that settles the whole
    if {settles} in parts:
        return {settles}
    return {not settles} if all(p == {not settles} for p in parts) else {True, False}


def telling_values(domain: Domain, tests: tuple[Test, ...]) -> list[float]:
    """One value for each set of answers that these tests on one metric can give together."""
    found: dict[tuple[bool, ...], float] = {}
    for x in domain.samples(tests):
        found.setdefault(tuple(t.holds(x) for t in tests), x)
    return list(found.values())


def values_where(
    test: Condition, other: Condition, domain: Domain
) -> tuple[set[float], set[float]]:
    """Sample values at which each of two conditions on one metric is true.

    The samples tell the two conditions apart wherever they differ, so the sets can be compared
    as if they were the whole sets of values.
    """
    samples = domain.samples((*tests_in(test), *tests_in(other)))
    ref = tests_in(test)[0].ref
    return (
        {x for x in samples if answer(test, {ref: x})},
        {x for x in samples if answer(other, {ref: x})},
    )
