"""Claims as plain values: bands, predictions, refuters, stop rules, decisions.

What a registration commits to, freed of YAML. `verdict` evaluates them; this module only says
what they are and how they read as text.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from prereg_judge.study.metric import MetricRef


@dataclass(frozen=True)
class Test:
    """A metric compared with limits: true when the value lies in the interval.

    Attributes
    ----------
    ref
        The metric.
    low, high
        Limits; minus and plus infinity where there is none.
    low_open, high_open
        Whether the limit itself is outside.
    """

    __test__ = False  # not a pytest class

    ref: MetricRef
    low: float = -math.inf
    high: float = math.inf
    low_open: bool = False
    high_open: bool = False

    def holds(self, value: float) -> bool:
        """Whether `value` lies within the limits (exact comparison, no tolerance)."""
        above = value > self.low if self.low_open else value >= self.low
        below = value < self.high if self.high_open else value <= self.high
        return above and below

    @property
    def limits(self) -> tuple[float, ...]:
        """The finite limits, without repetition."""
        return tuple(dict.fromkeys(x for x in (self.low, self.high) if math.isfinite(x)))

    def __str__(self) -> str:
        if self.low == self.high:
            return f"{self.ref} = {self.low:.15g}"
        if math.isfinite(self.low) and math.isfinite(self.high):
            if not (self.low_open or self.high_open):
                return f"{self.ref} in {self.low:.15g}..{self.high:.15g}"
            left, right = "<" if self.low_open else "<=", "<" if self.high_open else "<="
            return f"{self.low:.15g} {left} {self.ref} {right} {self.high:.15g}"
        if math.isfinite(self.low):
            return f"{self.ref} {'>' if self.low_open else '>='} {self.low:.15g}"
        return f"{self.ref} {'<' if self.high_open else '<='} {self.high:.15g}"


@dataclass(frozen=True)
class Combined:
    """Several conditions of which all, or at least one, must be true."""

    how: Literal["all", "any"]
    parts: tuple[Condition, ...]

    def __str__(self) -> str:
        joint = " and " if self.how == "all" else " or "
        return joint.join(f"({p})" if isinstance(p, Combined) else str(p) for p in self.parts)


Condition = Test | Combined


@dataclass(frozen=True)
class Band:
    """A registered interval for a metric; `expected` is the registrant's own guess, if given."""

    id: str
    test: Test
    expected: float | None = None


@dataclass(frozen=True)
class Prediction:
    """A registered one-sided or two-sided expectation about a metric."""

    id: str
    test: Test
    expected: float | None = None


@dataclass(frozen=True)
class Refuter:
    """A condition that, if true, refutes the account; `means` says what it would show."""

    id: str
    when: Condition
    means: str


@dataclass(frozen=True)
class StopRule:
    """A condition on counts of calls that ends collection.

    With `in_every` = w and `over_first` = m the metric is counted in every window of w calls in
    succession among the first m calls; without them, over all calls so far. A count with a lower
    limit trips as soon as it is reached, though the first window is not yet full.
    """

    id: str
    when: Test
    in_every: int | None = None
    over_first: int | None = None


@dataclass(frozen=True)
class Decision:
    """A registered "if X then do Y"."""

    id: str
    when: Condition
    then: str


@dataclass(frozen=True)
class Claims:
    """Everything that a registration commits to."""

    bands: tuple[Band, ...] = ()
    predictions: tuple[Prediction, ...] = ()
    refuters: tuple[Refuter, ...] = ()
    stops: tuple[StopRule, ...] = ()
    decisions: tuple[Decision, ...] = ()


def tests_in(condition: Condition) -> tuple[Test, ...]:
    """Every comparison inside a condition, left to right."""
    if isinstance(condition, Test):
        return (condition,)
    return tuple(t for part in condition.parts for t in tests_in(part))
