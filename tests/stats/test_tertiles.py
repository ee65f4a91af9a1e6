"""Thirds by value: what is equal stays together."""

from __future__ import annotations

import numpy as np
import pytest

from prereg_judge.stats.tertiles import tertiles


@pytest.mark.parametrize(
    ("values", "thirds"),
    [
        ([0.9, 0.1, 0.5], [3, 1, 2]),
        ([6, 5, 4, 3, 2, 1], [3, 3, 2, 2, 1, 1]),
        ([1, 1, 1], [2, 2, 2]),
        ([1, 1, 1, 1, 9], [2, 2, 2, 2, 3]),
        ([1, 1, 2, 3], [1, 1, 2, 3]),
        ([5], [2]),
        ([], []),
    ],
)
def test_thirds(values: list[float], thirds: list[int]) -> None:
    """Each item is in the third in which the middle of its value's ranks lies."""
    assert tertiles(np.array(values, dtype=np.float64)).tolist() == thirds
