"""Ratings of items by annotators, one entry each: who gave which label to what.

The value type that the study of annotators sees. Knows no files and no coefficients.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Ratings:
    """Ratings of n items by A annotators in P pools over L labels; any may be missing.

    Attributes
    ----------
    items
        Names of the items, shape (n,), unique.
    strata
        Stratum of each item, shape (n,); None for an item without one.
    annotators
        Names of the annotators, shape (A,), unique.
    pools
        Names of the pools, shape (P,), in the registered order.
    labels
        Names of the labels, shape (L,): in the registered order where there is one, else sorted.
    item, annotator, pool, label
        Of each rating, its positions in the four, each shape (v,). No annotator rates an item
        twice, and each annotator belongs to one pool.
    ordered
        Whether the order of the labels means something.
    values
        The registered number of each label, shape (L,), finite; None without.
    coarse
        The registered coarse label of each label, shape (L,); None without a map.
    adjudicated
        Position of the label that an adjudicator gave, shape (n,), -1 = none; None without a file.
    """

    items: tuple[str, ...]
    strata: tuple[str | None, ...]
    annotators: tuple[str, ...]
    pools: tuple[str, ...]
    labels: tuple[str, ...]
    item: NDArray[np.intp]
    annotator: NDArray[np.intp]
    pool: NDArray[np.intp]
    label: NDArray[np.intp]
    ordered: bool = False
    values: NDArray[np.float64] | None = None
    coarse: tuple[str, ...] | None = None
    adjudicated: NDArray[np.intp] | None = None
