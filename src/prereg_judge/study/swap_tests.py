"""Tests of differences between references: which is meant, its p-value, what Holm makes of it.

A test is a difference with everything filled in that a reference to it may leave out, so that two
ways to write the same test are one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Literal, get_args

import numpy as np

from prereg_judge.labelled import DUPLICATES
from prereg_judge.stats.paired import exact_sign_test
from prereg_judge.stats.resample import MOST_UNDEFINED
from prereg_judge.stats.significance import bootstrap_p, holm
from prereg_judge.study.metric import MetricRef, Undefined
from prereg_judge.study.outcomes import SwapInput
from prereg_judge.study.swap_scores import Scores, Term
from prereg_judge.study.swap_sums import SUBSETS, Estimate, Look
from prereg_judge.study.table_metrics import NO_BOOTSTRAP

TestName = Literal["delta", "margin", "interaction", "skew"]
TEST_NAMES: tuple[TestName, ...] = get_args(TestName)

# At and below it a difference is called significant.
SIGNIFICANT = 0.05


@dataclass(frozen=True)
class Difference:
    """One difference, and so one test: which, on what rows, of what.

    `reference` is the alternative for delta and interaction; `other` is empty for delta.
    """

    name: TestName
    look: Look
    output: str
    other: str
    reference: str

    @property
    def outputs(self) -> tuple[str, ...]:
        """The outputs that it is about."""
        return (self.output, self.other) if self.other else (self.output,)

    def turned(self) -> Difference:
        """The same difference with the outputs exchanged, whose p-value is the same."""
        if not self.other:
            return self
        return Difference(self.name, self.look, self.other, self.output, self.reference)

    def ref(self, swap: SwapInput) -> MetricRef:
        """A reference to it that leaves out what is registered."""
        look = self.look
        return MetricRef.of(
            self.name,
            output=self.output,
            other=self.other or None,
            reference=self.reference,
            match=look.match if look.match != swap.match else None,
            duplicates=look.duplicates if look.duplicates != swap.duplicates else None,
            subset=look.subset if look.subset != "all" else None,
            stratum=look.stratum,
        )

    def terms(self, delivered: str) -> tuple[Term, ...]:
        """The F1 that a difference is made of, with their signs."""
        a, b, r = self.output, self.other, self.reference
        if self.name == "delta":
            return (1, a, delivered), (-1, a, r)
        if self.name == "margin":
            return (1, a, r), (-1, b, r)
        return (1, a, delivered), (-1, b, delivered), (-1, a, r), (1, b, r)


@dataclass(frozen=True)
class P:
    """A p-value, or why there is none."""

    value: float | None
    undefined: Undefined | None = None
    note: str | None = None


def look_of(swap: SwapInput, params: Mapping[str, str]) -> Look:
    """What a reference looks at; the registered choice where it does not say."""
    match = next((m for m in swap.labelled.shared if m == params.get("match")), swap.match)
    policy = next((d for d in DUPLICATES if d == params.get("duplicates")), swap.duplicates)
    subset = next((s for s in SUBSETS if s == params.get("subset")), SUBSETS[0])
    return Look(match, policy, subset, params.get("stratum"))


def difference_of(swap: SwapInput, ref: MetricRef) -> Difference:
    """The difference that a reference to one of `TEST_NAMES` means.

    The first two outputs where no pair is named, the first alternative where no reference is.
    """
    name = next(n for n in TEST_NAMES if n == ref.name)
    params = dict(ref.params)
    other = "" if name == "delta" else params.get("other", swap.outputs[1])
    reference = params.get("reference", swap.references[1])
    look = look_of(swap, params)
    return Difference(name, look, params.get("output", swap.outputs[0]), other, reference)


class PValues:
    """The p-values of a study.

    Parameters
    ----------
    scores
        What the differences are.
    """

    def __init__(self, scores: Scores) -> None:
        self.scores = scores
        self.swap = scores.swap
        self._found: dict[Difference, P] = {}
        self._adjusted: dict[Difference, float] | None = None

    def estimate(self, test: Difference) -> Estimate:
        """The difference, over all rows and in each resample."""
        look, scores = test.look, self.scores
        if test.name == "delta":
            return scores.delta(look, test.output, test.reference)
        of = {"margin": scores.margin, "interaction": scores.interaction, "skew": scores.skew}
        return of[test.name](look, test.output, test.other, test.reference)

    def trouble(self, test: Difference) -> tuple[Undefined, str] | None:
        """Why the difference is undefined; None where it is not."""
        names = [*test.outputs, test.reference]
        if test.name in ("delta", "interaction"):
            names.append(self.scores.delivered)
        found = self.scores.trouble(test.look, self.scores.about(*test.outputs), names)
        if found is None and np.isnan(self.estimate(test).value):
            return "empty_denominator", "neither side has any mark"
        return found

    def p(self, test: Difference) -> P:
        """The p-value: from the resamples; of a skew by the exact paired test."""
        if test not in self._found:
            self._found[test] = self._p(test)
        return self._found[test]

    def _p(self, test: Difference) -> P:
        trouble = self.trouble(test)
        if trouble is not None:
            return P(None, *trouble)
        if test.name == "skew":
            signs = self.signs(test)
            note = f"exact: {signs[0]} items one way, {signs[1]} the other"
            return P(exact_sign_test(*signs), note=note)
        draws = self.estimate(test).draws
        if draws is None:
            return P(None, "not_computed", NO_BOOTSTRAP.replace("interval", "p-value"))
        found = bootstrap_p(draws)
        undefined = int(np.isnan(draws).sum())
        note = f"{len(draws)} resamples: no p below {2 / (len(draws) + 1):.2g} can be found"
        if found is not None:
            return P(found, note=f"{note}; undefined in {undefined}" if undefined else note)
        if undefined > MOST_UNDEFINED * len(draws):
            what = f"undefined in {undefined} of {len(draws)} resamples"
            return P(None, "too_few_resamples", what)
        defined = f"all {len(draws) - undefined} resamples with a value give the same value"
        every = f"all {len(draws)} resamples give the same value"
        return P(None, "not_computed", defined if undefined else every)

    def signs(self, skew: Difference) -> tuple[int, int]:
        """Items that speak for the first output of a skew, and for the second."""
        return self.scores.signs(skew.look, skew.output, skew.other, skew.reference)

    def family(self) -> tuple[Difference, ...]:
        """The registered tests, each once."""
        return tuple(dict.fromkeys(difference_of(self.swap, ref) for ref in self.swap.family))

    def adjusted(self, test: Difference) -> P:
        """Holm's p-value within the registered family; a member without a p counts as 1."""
        family = self.family()
        if test not in family:
            return P(None, "not_in_family", "the test is not in the registered family")
        own = self.p(test)
        if own.value is None:
            return own
        if self._adjusted is None:
            raw = [self.p(member).value for member in family]
            adjusted = holm([1.0 if p is None else p for p in raw])
            self._adjusted = dict(zip(family, map(float, adjusted), strict=True))
        note = f"Holm over {len(family)} registered test{'s' if len(family) > 1 else ''}"
        return P(self._adjusted[test], note=f"{note}; {own.note}" if own.note else note)

    def leg(self, test: Difference, other: Difference) -> tuple[P, P, bool]:
        """The p-values of two differences, by Holm where both are in the family, else raw."""
        family = self.family()
        mine = [t if t in family else t.turned() for t in (test, other)]
        if all(t in family for t in mine):
            return self.adjusted(mine[0]), self.adjusted(mine[1]), True
        return self.p(test), self.p(other), False

    def reversals(self, look: Look, alternatives: tuple[str, ...]) -> Iterator[Reversal]:
        """Each pair of outputs under each alternative, whether its margins have opposite signs."""
        for alternative in alternatives:
            for one, two in combinations(self.swap.outputs, 2):
                first = Difference("margin", look, one, two, self.scores.delivered)
                second = Difference("margin", look, one, two, alternative)
                yield Reversal(self, first, second)


class Reversal:
    """Margins of a pair of outputs under the delivered reference and under an alternative."""

    def __init__(self, tests: PValues, first: Difference, second: Difference) -> None:
        self._tests = tests
        self.first, self.second = first, second
        self.trouble = tests.trouble(first) or tests.trouble(second)

    @property
    def estimates(self) -> tuple[Estimate, Estimate]:
        """Both margins."""
        return self._tests.estimate(self.first), self._tests.estimate(self.second)

    @property
    def reversed(self) -> bool:
        """Whether the margins have opposite signs; a margin of 0 has none."""
        one, two = self.estimates
        return self.trouble is None and one.value * two.value < 0

    @property
    def ps(self) -> tuple[P, P, bool]:
        """The p-values of both, and whether they are adjusted."""
        return self._tests.leg(self.first, self.second)

    @property
    def clear(self) -> bool:
        """Whether it is a reversal of which both legs are significant."""
        one, two, _ = self.ps
        return self.reversed and significant(one) and significant(two)

    @property
    def weak_legs(self) -> tuple[str, ...]:
        """The references under which the margin is not significant."""
        legs = zip((self.first, self.second), self.ps[:2], strict=True)
        return tuple(test.reference for test, p in legs if not significant(p))


def significant(p: P) -> bool:
    """Whether there is a p-value and it is not above `SIGNIFICANT`."""
    return p.value is not None and p.value <= SIGNIFICANT
