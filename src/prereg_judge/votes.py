"""Votes of annotators as counts: how often each pool gave each label to each item.

The value type that annotator tables are turned into, and all that the studies of pools see: who
gave which vote does not matter to them. Knows no files.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

# How the items of a pair are told apart: as stored, or whichever way round the pair stands.
PairKey = Literal["stored", "unordered"]
PAIR_KEYS: tuple[PairKey, ...] = ("stored", "unordered")

# What becomes of an item on which a pool's most frequent labels have equally many votes.
SplitRule = Literal["tie", "exclude"]

# The labels of a vote on a pair: which answer is better. In this order in every count.
Side = Literal["a", "b", "tie"]
SIDES: tuple[Side, ...] = ("a", "b", "tie")
# Each as a number, and what it is where the two answers change their names.
SIDE_VALUES: dict[str, int] = {"a": 1, "b": -1, "tie": 0}
OTHER_SIDE: dict[str, Side] = {"a": "b", "b": "a", "tie": "tie"}


@dataclass(frozen=True)
class VoteCounts:
    """Votes on n items by P pools over L labels.

    Attributes
    ----------
    items
        Names of the items, shape (n,), unique.
    pools
        Names of the pools, shape (P,), in the registered order.
    labels
        Names of the labels, shape (L,). Votes on pairs have exactly `SIDES`.
    counts
        Votes, shape (n, P, L), whole numbers >= 0; every item has at least one vote.
    models
        Who gave answer a and answer b of each item, shape (n,); None where the items are not
        pairs of models' answers.
    strata
        Stratum of each item, shape (n,); None for an item without one.
    gaps
        Registered quality gap of each item, shape (n,), finite and >= 0; None where the table
        gives none.
    """

    items: tuple[str, ...]
    pools: tuple[str, ...]
    labels: tuple[str, ...]
    counts: NDArray[np.int64]
    models: tuple[tuple[str, str], ...] | None = None
    strata: tuple[str | None, ...] = ()
    gaps: NDArray[np.float64] | None = None

    def __post_init__(self) -> None:
        if self.counts.shape != (len(self.items), len(self.pools), len(self.labels)):
            raise ValueError(f"counts have the shape {self.counts.shape}")

    @property
    def sided(self) -> bool:
        """Whether the labels say which of two answers is better."""
        return self.labels == SIDES

    @cached_property
    def by_pool(self) -> NDArray[np.int64]:
        """Votes of each pool on each item, shape (n, P)."""
        summed: NDArray[np.int64] = self.counts.sum(axis=2)
        return summed


@dataclass(frozen=True)
class SlotVerdicts:
    """Verdicts of a judge on pairs, in each order, already mapped back to the answers.

    Attributes
    ----------
    name
        The judge's name in the registration.
    items
        Names of the items as in `VoteCounts.items` of the same key.
    ab, ba
        Side of each item's verdict in the two orders, shape (n,), whole numbers: 1 or 2 = answer
        a is better, slightly or clearly; -1 or -2 = answer b; 0 = tie; `MISSING` = no verdict. A
        judge of three points says 1, 0 and -1. `ba` is all `MISSING` where the judge was asked in
        one order only.
    """

    name: str
    items: tuple[str, ...]
    ab: NDArray[np.int64]
    ba: NDArray[np.int64]


# No verdict, in `SlotVerdicts`.
MISSING = 9
