"""The items of a table that two pools rated, each with the label that each pool gave it.

Shared by the studies that look at two pools; knows no metrics.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from prereg_judge.stats.resample import Resampler
from prereg_judge.study.outcomes import Resampling, TableInput
from prereg_judge.study.strata import resampler_of as strata_resampler
from prereg_judge.votes import PAIR_KEYS, SIDE_VALUES, SIDES, PairKey, SplitRule, VoteCounts

# All items that both pools rated, or those on which each pool is of one mind.
Subset = Literal["both", "free"]
SUBSETS: tuple[Subset, ...] = get_args(Subset)

# A pool has no label for an item: its most frequent labels have equally many votes, and the
# registered rule leaves such items out.
NO_LABEL = -1

# Side of each label in `votes.SIDES`: answer a, answer b, neither.
_SIDE_OF = np.array([SIDE_VALUES[side] for side in SIDES], dtype=np.int64)


def majorities(
    counts: NDArray[np.int64], labels: Sequence[str], *, split: SplitRule
) -> NDArray[np.int64]:
    """The most frequent label of each row of counts.

    Parameters
    ----------
    counts
        Votes, shape (..., L), whole numbers >= 0, at least one in every row.
    labels
        Names of the labels, shape (L,).
    split
        What becomes of a row whose most frequent labels have equally many votes: `tie` gives it
        the label `tie`, or where the labels have none a label L of its own; `exclude` gives it
        `NO_LABEL`.

    Returns
    -------
    array of int
        Position in `labels`, shape (...,).
    """
    top = counts.max(axis=-1, keepdims=True)
    equal = (counts == top).sum(axis=-1) > 1
    instead = NO_LABEL if split == "exclude" else _tie_code(labels)
    found: NDArray[np.int64] = np.where(equal, instead, counts.argmax(axis=-1))
    return found


def _tie_code(labels: Sequence[str]) -> int:
    return labels.index("tie") if "tie" in labels else len(labels)


@dataclass(frozen=True)
class View:
    """Items that both pools rated, under one key and in one subset.

    Attributes
    ----------
    key, subset
        Which items. `free` is the convention-free subset: each pool is unanimous on the item,
        where a single vote counts as unanimous and `tie` is a label like the others.
    counts
        The whole table under this key.
    rows
        Positions of the subset's items in `counts.items`, ascending, shape (m,).
    labels
        Label of each pool on each of them, pool 1 first, shape (m, 2), `NO_LABEL` for none.
    """

    key: PairKey
    subset: Subset
    counts: VoteCounts
    rows: NDArray[np.intp]
    labels: NDArray[np.int64]

    @cached_property
    def kept(self) -> NDArray[np.bool_]:
        """Which of the items have a label of both pools, shape (m,)."""
        found: NDArray[np.bool_] = (self.labels != NO_LABEL).all(axis=1)
        return found

    @cached_property
    def used(self) -> NDArray[np.intp]:
        """Positions in `counts.items` of the items with a label of both pools, shape (n,)."""
        return self.rows[self.kept]

    @cached_property
    def pair(self) -> NDArray[np.int64]:
        """Labels of the two pools on the items used, shape (n, 2)."""
        return self.labels[self.kept]

    @cached_property
    def sides(self) -> NDArray[np.int64]:
        """The same as sides: 1 = answer a, -1 = answer b, 0 = tie; of sided labels only."""
        return _SIDE_OF[self.pair]

    @property
    def left_out(self) -> str | None:
        """A clause on the items that the rule for equal splits leaves out; None without any."""
        lost = len(self.rows) - len(self.used)
        return (
            f"{lost} of {len(self.rows)} items left out: a pool is equally split" if lost else None
        )


def view_of(table: TableInput, *, key: PairKey, subset: Subset) -> View:
    """The items that both pools of a table rated.

    Parameters
    ----------
    table
        The votes; its `pools` and `split` are used.
    key, subset
        Which items.

    Returns
    -------
    View
        Without items where no item was rated by both.
    """
    counts = table.counts[key]
    votes = counts.counts[:, [counts.pools.index(pool) for pool in table.pools], :]
    rated = votes.sum(axis=2) > 0
    among = rated.all(axis=1)
    if subset == "free":
        among &= ((votes > 0).sum(axis=2) == 1).all(axis=1)
    rows = np.flatnonzero(among)
    labels = majorities(votes[rows], counts.labels, split=table.split)
    return View(key, subset, counts, rows, labels)


def resampler_of(
    counts: VoteCounts, rows: NDArray[np.intp], *, resampling: Resampling
) -> Resampler | None:
    """The registered bootstrap over some items of a table; None where there is no item.

    With `by_stratum` each stratum keeps its number of items; items without a stratum are one
    more stratum.
    """
    strata = counts.strata or (None,) * len(counts.items)
    return strata_resampler([strata[row] for row in rows], resampling)


class Views:
    """The views of a table, each made once.

    Parameters
    ----------
    table
        The votes.
    """

    def __init__(self, table: TableInput) -> None:
        self.table = table
        self._views: dict[tuple[PairKey, Subset], View] = {}

    def __call__(self, params: Mapping[str, str]) -> View:
        """The view that parameters `key` and `subset` name; the registered key, and `both`."""
        key = next((k for k in PAIR_KEYS if k == params.get("key")), self.table.key)
        subset = next((s for s in SUBSETS if s == params.get("subset")), SUBSETS[0])
        if (key, subset) not in self._views:
            self._views[key, subset] = view_of(self.table, key=key, subset=subset)
        return self._views[key, subset]


def keys_of(table: TableInput) -> tuple[PairKey, ...]:
    """The ways to tell items apart that can differ, the registered one first."""
    if table.counts[table.key].models is None:
        return (table.key,)
    return (table.key, *(k for k in PAIR_KEYS if k != table.key and k in table.counts))
