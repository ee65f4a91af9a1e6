"""Ratings as counts: how often a group of annotators gave each label to each item.

A group is a pool or all annotators, a stratum or all items, fine labels or coarse ones. Counts
have a row for every item of the table, with zeros where an item is not in the group, so that all
groups share the same resamples. Knows no metrics.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from prereg_judge.ratings import Ratings

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Group:
    """Which ratings are looked at.

    Attributes
    ----------
    pool
        Those of this pool; None for those of all annotators together.
    stratum
        Those on items of this stratum; None for all items.
    coarse
        Whether labels are as the map merges them.
    """

    pool: str | None = None
    stratum: str | None = None
    coarse: bool = False

    @classmethod
    def of(cls, params: Mapping[str, str]) -> Group:
        """The group that parameters name."""
        coarse = params.get("labels") == "coarse"
        return cls(params.get("pool"), params.get("stratum"), coarse)

    @property
    def key(self) -> tuple[str | bool | None, ...]:
        """What tells it from other groups."""
        return (self.pool, self.stratum, self.coarse)

    @property
    def words(self) -> str:
        """The group in words, to end a sentence with: ` of the pool crowd, in the stratum x`."""
        pool = f" of the pool `{self.pool}`" if self.pool is not None else ""
        stratum = f" in the stratum `{self.stratum}`" if self.stratum is not None else ""
        return f"{pool}{stratum}{' under the coarse labels' if self.coarse else ''}"


class RatingGroups:
    """The groups of a table of ratings; what is counted is kept.

    Parameters
    ----------
    ratings
        The table.
    """

    def __init__(self, ratings: Ratings) -> None:
        self.ratings = ratings
        self._counts: dict[tuple[str | None, bool], Ints] = {}
        self._within: dict[str | None, NDArray[np.bool_]] = {}

    @property
    def n(self) -> int:
        """How many items the table has."""
        return len(self.ratings.items)

    @cached_property
    def strata(self) -> tuple[str, ...]:
        """Names of the strata, sorted."""
        return tuple(sorted({s for s in self.ratings.strata if s is not None}))

    @cached_property
    def _coarse_labels(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(self.ratings.coarse or ()))

    @cached_property
    def _to_coarse(self) -> NDArray[np.intp]:
        """Position of each label's coarse label, shape (L,)."""
        found = [self._coarse_labels.index(name) for name in self.ratings.coarse or ()]
        return np.array(found, dtype=np.intp)

    def labels(self, *, coarse: bool = False) -> tuple[str, ...]:
        """Names of the labels; coarse ones in the order of the first fine label of each."""
        return self._coarse_labels if coarse else self.ratings.labels

    def within(self, stratum: str | None) -> NDArray[np.bool_]:
        """Which items are of a stratum, shape (n,); all for None."""
        if stratum not in self._within:
            found = [stratum is None or s == stratum for s in self.ratings.strata]
            self._within[stratum] = np.array(found, dtype=np.bool_)
        return self._within[stratum]

    def counts(self, group: Group) -> Ints:
        """Ratings of the group for each label, shape (n, L), 0 for items that are not in it."""
        found = self._pool_counts(group.pool, group.coarse)
        if group.stratum is None:
            return found
        return found * self.within(group.stratum)[:, None]

    def _pool_counts(self, pool: str | None, coarse: bool) -> Ints:
        key = (pool, coarse)
        if key not in self._counts:
            table = self.ratings
            label = self._to_coarse[table.label] if coarse else table.label
            size = len(self.labels(coarse=coarse))
            flat = table.item * size + label
            if pool is not None:
                flat = flat[table.pool == table.pools.index(pool)]
            counted = np.bincount(flat, minlength=self.n * size)
            self._counts[key] = counted.reshape(self.n, size).astype(np.int64)
        return self._counts[key]

    def codes(
        self, annotator: str, *, stratum: str | None = None, coarse: bool = False
    ) -> NDArray[np.intp]:
        """Position of the label that an annotator gave each item, shape (n,), -1 = none."""
        table = self.ratings
        mine = table.annotator == table.annotators.index(annotator)
        label = table.label[mine]
        found = np.full(self.n, -1, dtype=np.intp)
        found[table.item[mine]] = self._to_coarse[label] if coarse else label
        if stratum is not None:
            found[~self.within(stratum)] = -1
        return found

    @cached_property
    def ranks(self) -> NDArray[np.intp] | None:
        """Positions of the labels from the lowest to the highest, shape (L,); None without order.

        Registered numbers give an order where none is registered beside them.
        """
        table = self.ratings
        if table.ordered:
            return np.arange(len(table.labels))
        if table.values is not None:
            return np.argsort(table.values, kind="stable")
        return None


def soft(counts: Ints) -> NDArray[np.float64]:
    """Share of each label among the ratings of each item, shape (n, L); 0 without ratings."""
    total = counts.sum(axis=1, keepdims=True)
    shares: NDArray[np.float64] = counts / np.maximum(total, 1)
    return shares


def unanimous(counts: Ints) -> NDArray[np.intp]:
    """Position of the one label that an item was given, shape (n,), -1 = none or several."""
    if not counts.shape[1]:  # nobody gave any label
        return np.full(len(counts), -1, dtype=np.intp)
    one = (counts > 0).sum(axis=1) == 1
    found: NDArray[np.intp] = np.where(one, counts.argmax(axis=1), -1)
    return found
