"""A second implementation of the metrics of annotators, in plain loops over drawn items.

Each item is a list of (annotator, pool, label); a resample is a list of items. Every formula is
written out from its source, over pairs of ratings rather than over sums.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, permutations

import numpy as np

from prereg_judge.ratings import Ratings
from prereg_judge.study.outcomes import Resampling

Rating = tuple[str, str, int]  # annotator, pool, label
NAN = math.nan


@dataclass(frozen=True)
class Item:
    """One item with its ratings."""

    ratings: tuple[Rating, ...]
    stratum: str | None


def items_of(ratings: Ratings) -> list[Item]:
    """The items of a table, one after the other."""
    found: list[list[Rating]] = [[] for _ in ratings.items]
    for i, a, p, x in zip(
        ratings.item, ratings.annotator, ratings.pool, ratings.label, strict=True
    ):
        found[i].append((ratings.annotators[a], ratings.pools[p], int(x)))
    return [Item(tuple(r), s) for r, s in zip(found, ratings.strata, strict=True)]


def drawn(strata: Sequence[str | None], resampling: Resampling) -> list[list[int]]:
    """Positions of the items of each resample, as `Resampler` documents its draws."""
    key = np.random.SeedSequence(resampling.seed)
    groups: dict[str | None, list[int]] = {}
    for at, stratum in enumerate(strata):
        groups.setdefault(stratum if resampling.by_stratum else None, []).append(at)
    keys = [key] if len(groups) == 1 else key.spawn(len(groups))
    generators = [np.random.Generator(np.random.PCG64(k)) for k in keys]
    found = []
    for _ in range(resampling.resamples):
        one: list[int] = []
        for rows, generator in zip(groups.values(), generators, strict=True):
            picked = generator.integers(len(rows), size=len(rows), dtype=np.int32)
            one += [rows[x] for x in picked]
        found.append(one)
    return found


def _divided(top: float, bottom: float) -> float:
    return top / bottom if bottom else NAN


def _chance_corrected(observed: float, expected: float) -> float:
    return _divided(observed - expected, 1 - expected) if abs(1 - expected) > 1e-12 else NAN


class Brute:
    """Metrics of a list of drawn items.

    Parameters
    ----------
    ratings
        The table that the items are of, for the names of its labels.
    """

    def __init__(self, ratings: Ratings) -> None:
        self.table = ratings
        coarse = ratings.coarse or ratings.labels
        self.names = list(dict.fromkeys(coarse))
        self.to_coarse = [self.names.index(name) for name in coarse]

    def value(self, name: str, params: Mapping[str, str], items: Sequence[Item]) -> float:
        """One metric, NaN where it is undefined."""
        rows = [
            [
                (a, self.to_coarse[x] if params.get("labels") == "coarse" else x)
                for a, p, x in item.ratings
                if params.get("pool") in (None, p) or name == "soft.distance"
            ]
            for item in items
            if params.get("stratum") in (None, item.stratum)
        ]
        stem, _, part = name.partition(".")
        if name == "soft.distance":
            return self._soft_distance(params, items)
        if name in ("kappa.weighted",) or name.startswith("kappa.cohen"):
            return self._cohen(name, params, rows)
        labels = [[x for _, x in row] for row in rows]
        if name == "soft.loss":
            return self._loss(params["annotator"], rows)
        if stem in ("merge", "selection", "soft"):
            return self._other(name, labels, params)
        if stem == "disagreement":
            names = self.names if params.get("labels") == "coarse" else list(self.table.labels)
            return self._part(labels, names.index(params["label"]), excess=part == "excess")
        if name == "agreement.rate":
            return self._rate(labels)
        if stem == "alpha":
            return self._alpha(labels, params["level"])
        size = len(self.names if params.get("labels") == "coarse" else self.table.labels)
        return self._many(name, labels, size)

    def _other(
        self, name: str, labels: Sequence[Sequence[int]], params: Mapping[str, str]
    ) -> float:
        """The metrics that have a function of their own below."""
        functions = {
            "merge.gain": lambda: self._merge_gain(labels),
            "merge.hidden.count": lambda: float(sum(self._hidden(labels))),
            "merge.hidden.rate": lambda: self._hidden_rate(labels),
            "selection.shift": lambda: self._shift(
                labels, self.table.labels.index(params["label"])
            ),
            "selection.distance": lambda: self._selection_distance(labels),
            "soft.entropy": lambda: self._soft_entropy(labels),
        }
        return functions[name]()

    def _rate(self, labels: Sequence[Sequence[int]]) -> float:
        pairs = [x == y for row in labels for x, y in combinations(row, 2)]
        return _divided(sum(pairs), len(pairs))

    def _cohen(
        self, name: str, params: Mapping[str, str], rows: Sequence[Sequence[tuple[str, int]]]
    ) -> float:
        """Cohen (1960, 1968): over pairs, against all pairs of one's ratings with the other's."""
        met = [
            (dict(row)[params["annotator"]], dict(row)[params["other"]])
            for row in rows
            if {params["annotator"], params["other"]} <= set(dict(row))
        ]
        if not met:
            return NAN
        if name == "kappa.weighted":
            power = 1 if params["weights"] == "linear" else 2
            off = sum(abs(x - y) ** power for x, y in met) / len(met)
            by_chance = sum(abs(x - y) ** power for x, _ in met for _, y in met) / len(met) ** 2
            return 1 - off / by_chance if by_chance else NAN
        observed = sum(x == y for x, y in met) / len(met)
        expected = sum(x == y for x, _ in met for _, y in met) / len(met) ** 2
        part = name.rpartition(".")[2]
        if part in ("observed", "expected"):
            return observed if part == "observed" else expected
        return _chance_corrected(observed, expected)

    def _many(self, name: str, labels: Sequence[Sequence[int]], size: int) -> float:
        """Fleiss (1971) and Gwet (2008), as generalised to missing ratings."""
        several = [row for row in labels if len(row) > 1]
        if not several:
            return NAN
        observed = sum(
            sum(x == y for x, y in permutations(row, 2)) / (len(row) * (len(row) - 1))
            for row in several
        ) / len(several)
        among = [row for row in labels if row]
        shares = [sum(row.count(x) / len(row) for row in among) / len(among) for x in range(size)]
        if name.startswith("ac1"):
            if size < 2:
                return NAN
            expected = sum(p * (1 - p) for p in shares) / (size - 1)
        else:
            expected = sum(p * p for p in shares)
        part = name.rpartition(".")[2]
        if part in ("observed", "expected"):
            return observed if part == "observed" else expected
        return _chance_corrected(observed, expected)

    def _alpha(self, labels: Sequence[Sequence[int]], level: str) -> float:
        """Krippendorff (2011): over all ordered pairs of values that can be paired."""
        units = [row for row in labels if len(row) > 1]
        values = [x for row in units for x in row]
        n, held = len(values), Counter(values)

        def delta(x: int, y: int) -> float:
            if level == "nominal":
                return float(x != y)
            if level == "interval":
                assert self.table.values is not None
                return float(self.table.values[x] - self.table.values[y]) ** 2
            low, high = min(x, y), max(x, y)
            return (sum(held[g] for g in range(low, high + 1)) - (held[x] + held[y]) / 2) ** 2

        if n < 2:
            return NAN
        observed = (
            sum(delta(x, y) / (len(row) - 1) for row in units for x, y in permutations(row, 2)) / n
        )
        expected = sum(delta(x, y) for x, y in permutations(values, 2)) / (n * (n - 1))
        return 1 - observed / expected if expected else NAN

    def _part(self, labels: Sequence[Sequence[int]], at: int, *, excess: bool) -> float:
        pairs = [pair for row in labels for pair in combinations(row, 2)]
        differing = [pair for pair in pairs if pair[0] != pair[1]]
        if not differing:
            return NAN
        share = sum(at in pair for pair in differing) / len(differing)
        if not excess:
            return share
        members = [x for pair in pairs for x in pair]
        p = {x: members.count(x) / len(members) for x in set(members)}
        joint = {(x, y): p[x] * p[y] for x in p for y in p if x != y}
        return share - sum(v for pair, v in joint.items() if at in pair) / sum(joint.values())

    def _merge_gain(self, labels: Sequence[Sequence[int]]) -> float:
        return self._rate([[self.to_coarse[x] for x in row] for row in labels]) - self._rate(labels)

    def _hidden(self, labels: Sequence[Sequence[int]]) -> list[bool]:
        pairs = [pair for row in labels for pair in combinations(row, 2) if pair[0] != pair[1]]
        return [self.to_coarse[x] == self.to_coarse[y] for x, y in pairs]

    def _hidden_rate(self, labels: Sequence[Sequence[int]]) -> float:
        hidden = self._hidden(labels)
        return _divided(sum(hidden), len(hidden))

    def _shift(self, labels: Sequence[Sequence[int]], at: int) -> float:
        among = [row for row in labels if row]
        left = [row[0] for row in among if len(set(row)) == 1]
        if not left:
            return NAN
        every = sum(row.count(at) / len(row) for row in among) / len(among)
        return left.count(at) / len(left) - every

    def _selection_distance(self, labels: Sequence[Sequence[int]]) -> float:
        return sum(abs(self._shift(labels, at)) for at in range(len(self.table.labels))) / 2

    def _soft_entropy(self, labels: Sequence[Sequence[int]]) -> float:
        found = [
            -sum(c / len(row) * math.log2(c / len(row)) for c in Counter(row).values())
            for row in labels
            if len(row) > 1
        ]
        return _divided(sum(found), len(found))

    def _soft_distance(self, params: Mapping[str, str], items: Sequence[Item]) -> float:
        found = []
        for item in items:
            one = [x for _, p, x in item.ratings if p == params["pool"]]
            two = [x for _, p, x in item.ratings if p == params["other"]]
            if one and two:
                found.append(self._apart(one, two))
        return _divided(sum(found), len(found))

    def _loss(self, annotator: str, rows: Sequence[Sequence[tuple[str, int]]]) -> float:
        found = []
        for row in rows:
            mine = [x for a, x in row if a == annotator]
            others = [x for a, x in row if a != annotator]
            if mine and others:
                found.append(self._apart(mine, others))
        return _divided(sum(found), len(found))

    def _apart(self, one: Sequence[int], two: Sequence[int]) -> float:
        """Jensen-Shannon distance (base 2) of two lists of labels."""
        total = 0.0
        for x in set(one) | set(two):
            p, q = list(one).count(x) / len(one), list(two).count(x) / len(two)
            m = (p + q) / 2
            total += sum(y * math.log2(y / m) / 2 for y in (p, q) if y)
        return math.sqrt(max(total, 0.0))
