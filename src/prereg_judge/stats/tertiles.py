"""Thirds of items by a number that each has."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def tertiles(values: NDArray[np.float64]) -> NDArray[np.int64]:
    """Which third of the items each belongs to.

    Parameters
    ----------
    values
        Shape (n,), finite.

    Returns
    -------
    array of int
        1 (smallest values), 2 or 3, shape (n,). Items of equal value stay together: all go to the
        third in which the middle of their ranks lies, so that no order of the items decides. A
        third can be empty then.
    """
    _, group, size = np.unique(values, return_inverse=True, return_counts=True)
    before = np.cumsum(size) - size
    # Whole numbers throughout: the middle of the ranks is (2 before + size) / 2 of n.
    third = 1 + (3 * (2 * before + size)) // (2 * max(len(values), 1))
    found: NDArray[np.int64] = third[group.reshape(-1)]
    return found
