"""A second implementation of study `reference-swap`: sets of marks and lists of drawn rows.

Slow and plain. Every resample is a list of items, every item a list of rows, every row a few sets
of marks; nothing is shared with the study but the draws themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from math import comb

import numpy as np

from prereg_judge.labelled import Duplicates, Match
from prereg_judge.stats.resample import Resampler
from study.swap_made import Row, said

# A value, None where it is undefined.
Number = float | None
# Gives a statistic of a list of rows.
Statistic = Callable[[Sequence[Row]], Number]


@dataclass(frozen=True)
class Asked:
    """Which rows, and how marks match."""

    match: Match = "relaxed"
    duplicates: Duplicates = "keep_all"
    subset: str = "all"
    stratum: str | None = None


def drawn_items(resampler: Resampler) -> list[list[int]]:
    """The items of each resample, as many times as they were drawn."""
    weights = resampler.totals(np.eye(resampler.n)).astype(int).tolist()
    return [[item for item, times in enumerate(line) for _ in range(times)] for line in weights]


def f1_of(shared: int, mine: int, theirs: int) -> Number:
    """Twice what is shared through what both have."""
    return 2 * shared / (mine + theirs) if mine + theirs else None


def minus(one: Number, two: Number) -> Number:
    """A difference, undefined where either side is; none where only rounding tells them apart."""
    if one is None or two is None:
        return None
    return 0.0 if -1e-12 < one - two < 1e-12 else one - two


@dataclass
class Brute:
    """The study over raw rows."""

    rows: Sequence[Row]
    names: Sequence[str]
    outputs: Sequence[str]
    references: Sequence[str]
    merge: Mapping[str, str] | None = None
    _sets: dict[tuple[int, str, Match], set[object]] = field(default_factory=dict)

    def marks(self, row: Row, name: str, match: Match) -> set[object]:
        """The different marks of a labelling on a row."""
        key = (id(row), name, match)
        if key not in self._sets:
            self._sets[key] = said(row, name, match, self.merge)
        return self._sets[key]

    def counting(self, asked: Asked, about: Sequence[str]) -> list[Row]:
        """The rows that count, in their order."""
        found: list[Row] = []
        before: list[Row] = []
        for row in self.rows:
            fine = self._kept(row, asked.duplicates, before)
            before.append(row)
            fine = fine and all(row.marks.get(x) is not None for x in self._registered)
            fine = fine and asked.stratum in (None, row.stratum)
            if fine and asked.subset == "decontaminated":
                gold = self.marks(row, self.references[0], asked.match)
                fine = all(self.marks(row, x, asked.match) != gold for x in about)
            if fine:
                found.append(row)
        return found

    @property
    def _registered(self) -> list[str]:
        return [*self.outputs, *self.references]

    def _kept(self, row: Row, policy: Duplicates, before: Sequence[Row]) -> bool:
        same = [other for other in before if other.item == row.item]
        if policy == "first":
            return not same
        if policy == "drop":
            return sum(other.item == row.item for other in self.rows) == 1
        if policy == "merge_equal":
            return all(
                any(other.marks.get(x) != row.marks.get(x) for x in self.names) for other in same
            )
        return True

    def everywhere(
        self, asked: Asked, about: Sequence[str], statistic: Statistic, draws: list[list[int]]
    ) -> tuple[Number, list[Number]]:
        """A statistic of the rows that count, and of those of each resample."""
        counting = self.counting(asked, about)
        of_item: dict[str, list[Row]] = {row.item: [] for row in self.rows}
        for row in counting:
            of_item[row.item].append(row)
        lists = list(of_item.values())
        resampled = [statistic([row for at in items for row in lists[at]]) for items in draws]
        return statistic(counting), resampled

    def f1(self, rows: Sequence[Row], match: Match, output: str, reference: str) -> Number:
        """Micro-F1 of a list of rows, of those on which both are given."""
        shared = mine = theirs = 0
        for row in rows:
            if row.marks.get(reference) is None:
                continue
            one, two = self.marks(row, output, match), self.marks(row, reference, match)
            shared += len(one & two)
            mine += len(one)
            theirs += len(two)
        return f1_of(shared, mine, theirs)

    def delta(self, rows: Sequence[Row], match: Match, output: str, alternative: str) -> Number:
        """F1 under the delivered reference minus F1 under another."""
        one = self.f1(rows, match, output, self.references[0])
        return minus(one, self.f1(rows, match, output, alternative))

    def margin(self, rows: Sequence[Row], match: Match, a: str, b: str, reference: str) -> Number:
        """F1 of an output minus F1 of another."""
        return minus(self.f1(rows, match, a, reference), self.f1(rows, match, b, reference))

    def interaction(self, rows: Sequence[Row], match: Match, a: str, b: str, other: str) -> Number:
        """The margin under the delivered reference minus the margin under another."""
        one = self.margin(rows, match, a, b, self.references[0])
        return minus(one, self.margin(rows, match, a, b, other))

    def exact(self, rows: Sequence[Row], match: Match, output: str, reference: str) -> Number:
        """Share of rows on which both have the same marks."""
        hits = [self.marks(r, output, match) == self.marks(r, reference, match) for r in rows]
        return sum(hits) / len(hits) if hits else None

    def skew(self, rows: Sequence[Row], match: Match, a: str, b: str, reference: str) -> Number:
        """That share for an output minus that for another."""
        one = self.exact(rows, match, a, reference)
        return minus(one, self.exact(rows, match, b, reference))

    def signs(self, rows: Sequence[Row], match: Match, a: str, b: str, reference: str) -> list[int]:
        """For each item whose rows equal one output more often than another: which, as 1 or -1."""
        leads: dict[str, int] = {}
        for row in rows:
            gold = self.marks(row, reference, match)
            lead = (self.marks(row, a, match) == gold) - (self.marks(row, b, match) == gold)
            leads[row.item] = leads.get(row.item, 0) + lead
        return [1 if lead > 0 else -1 for lead in leads.values() if lead]

    def spread(self, rows: Sequence[Row], match: Match, output: str) -> Number:
        """Largest minus smallest F1 over all other labellings."""
        found = [self.f1(rows, match, output, name) for name in self.names if name != output]
        if any(value is None for value in found):
            return None
        values = [value for value in found if value is not None]
        return max(values) - min(values)

    def reversals(self, rows: Sequence[Row], match: Match) -> Number:
        """Pairs of outputs whose margins have opposite signs, over all alternatives."""
        count = 0
        for alternative in self.references[1:]:
            for a, b in combinations(self.outputs, 2):
                one = self.margin(rows, match, a, b, self.references[0])
                two = self.margin(rows, match, a, b, alternative)
                if one is None or two is None:
                    return None
                count += one * two < 0
        return float(count)

    def gain(self, rows: Sequence[Row], output: str, reference: str) -> Number:
        """F1 by coarse types minus F1 by fine ones."""
        coarse = self.f1(rows, "coarse", output, reference)
        return minus(coarse, self.f1(rows, "strict", output, reference))


def p_of(draws: Sequence[Number]) -> float:
    """Two-sided p-value: twice the share of resamples on the smaller side of 0, one added."""
    values = [value for value in draws if value is not None]
    below, above = sum(v <= 0 for v in values), sum(v >= 0 for v in values)
    return min(1.0, 2 * (1 + min(below, above)) / (len(values) + 1))


def sign_test_of(signs: Sequence[int]) -> float:
    """Exact two-sided sign test: every way in which the signs could have fallen, counted."""
    n, rarer = len(signs), min(signs.count(1), signs.count(-1))
    as_uneven = sum(comb(n, k) for k in range(n + 1) if min(k, n - k) <= rarer)
    return float(as_uneven / 2**n)


def holm_of(ps: Sequence[float]) -> list[float]:
    """Holm's adjustment, written out."""
    order = sorted(range(len(ps)), key=lambda at: ps[at])
    adjusted, largest = [0.0] * len(ps), 0.0
    for rank, at in enumerate(order):
        largest = max(largest, min(1.0, (len(ps) - rank) * ps[at]))
        adjusted[at] = largest
    return adjusted
