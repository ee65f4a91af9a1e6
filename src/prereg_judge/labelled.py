"""Labellings of items as counts: how many marks two labellings share on each row.

The value type that files of labellings are turned into, and all that scoring one labelling against
another needs: where a mark stands does not matter to it. A mark is a span with a type; of a single
label, the whole item with that label. Knows no files.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

# When two marks are the same: same place and type; same place; same place and coarse type.
Match = Literal["strict", "relaxed", "coarse"]
MATCHES: tuple[Match, ...] = get_args(Match)

# What becomes of rows of the same item: all count, the first counts, none counts, or those that
# carry the same marks in every labelling count once (rows that differ all count).
Duplicates = Literal["keep_all", "first", "drop", "merge_equal"]
DUPLICATES: tuple[Duplicates, ...] = get_args(Duplicates)

# Whether the marks are spans of a text or one label an item.
MarkForm = Literal["spans", "labels"]


@dataclass(frozen=True, eq=False)
class Confusions:
    """Marks of two labellings at the same place with different types, one entry each.

    Attributes
    ----------
    row
        Row of the labelled items, shape (m,).
    first, second
        Numbers of the two labellings in `Labelled.names`, shape (m,), `first < second`.
    first_type, second_type
        Their types as positions in `types`, shape (m,). Where a labelling has several types at one
        place, types that both have are no confusion; of the others each is paired with each.
    types
        Names of the types, shape (T,), sorted.
    hidden
        Whether the registered map gives both the same coarse type, shape (m,); all False without a
        map.
    """

    row: NDArray[np.intp]
    first: NDArray[np.intp]
    second: NDArray[np.intp]
    first_type: NDArray[np.intp]
    second_type: NDArray[np.intp]
    types: tuple[str, ...]
    hidden: NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Labelled:
    """Rows that carry L labellings.

    Attributes
    ----------
    form
        Spans, or one label an item.
    names
        Names of the labellings, shape (L,), in the registered order.
    items
        Name of each row, shape (n,).
    unit
        Number of the item that each row is a row of, shape (n,), 0 .. u - 1 in order of first
        appearance. Rows of the same item are copies of each other: they are resampled together.
    strata
        Stratum of each row, shape (n,); None for a row without one.
    given
        Whether a row carries a labelling at all, shape (n, L). No marks are a labelling too.
    shared
        For each way to match: marks that two labellings share on a row, shape (n, L, L), whole
        numbers; `shared[m][i, x, x]` is how many different marks x has there, since a mark given
        twice counts once. 0 where a labelling is not given. `coarse` is there only with a map.
    typed
        Whether a labelling's marks have types, shape (L,). `strict` and `coarse` say nothing of
        one whose marks have none.
    kept
        For each policy on duplicates: the rows that count, shape (n,).
    confusions
        Where types differ at the same place.
    """

    form: MarkForm
    names: tuple[str, ...]
    items: tuple[str, ...]
    unit: NDArray[np.intp]
    strata: tuple[str | None, ...]
    given: NDArray[np.bool_]
    shared: Mapping[Match, NDArray[np.int64]]
    typed: tuple[bool, ...]
    kept: Mapping[Duplicates, NDArray[np.bool_]]
    confusions: Confusions

    def __post_init__(self) -> None:
        shape = (len(self.items), len(self.names), len(self.names))
        if any(counts.shape != shape for counts in self.shared.values()):
            raise ValueError(f"shared counts must have the shape {shape}")

    @property
    def copies(self) -> int:
        """How many rows are rows of an item that has another row."""
        sizes = np.bincount(self.unit)
        return int((sizes[self.unit] > 1).sum())

    @property
    def matches(self) -> tuple[Match, ...]:
        """The ways to match that there are."""
        return tuple(m for m in MATCHES if m in self.shared)
