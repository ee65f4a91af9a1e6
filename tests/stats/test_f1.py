"""F1 from counts: equal to precision and recall of sets; kappa's limit; edges."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prereg_judge.stats.agreement import cohen_of
from prereg_judge.stats.f1 import f1

MARKS = st.lists(st.sets(st.integers(0, 8)), min_size=1, max_size=10)


@given(MARKS, st.data())
def test_it_is_the_harmonic_mean_of_precision_and_recall(
    first: list[set[int]], data: st.DataObject
) -> None:
    """Micro-F1 of items with sets of marks is the harmonic mean of both shares, or undefined."""
    same = st.lists(st.sets(st.integers(0, 8)), min_size=len(first), max_size=len(first))
    second = data.draw(same)
    shared = sum(len(a & b) for a, b in zip(first, second, strict=True))
    sizes = sum(map(len, first)), sum(map(len, second))
    found = f1(shared, *sizes)
    if not any(sizes):
        assert np.isnan(found)
    elif not shared:
        assert found == 0
    else:
        precision, recall = (Fraction(shared, size) for size in sizes)
        assert found == float(2 * precision * recall / (precision + recall))
    np.testing.assert_array_equal(found, f1(shared, *sizes[::-1]))
    assert np.isnan(found) or 0 <= found <= 1


@given(MARKS)
def test_a_labelling_scores_one_against_itself(marks: list[set[int]]) -> None:
    """Equal labellings with a mark have F1 = 1; without any there is nothing to score."""
    size = sum(map(len, marks))
    assert f1(size, size, size) == 1 if size else np.isnan(f1(size, size, size))


@pytest.mark.parametrize(("shared", "a", "b"), [(8, 10, 12), (1, 30, 5), (40, 41, 43)])
def test_kappa_tends_to_it(shared: int, a: int, b: int) -> None:
    """With ever more places that neither marks, Cohen's kappa on places tends to F1 from below.

    Hripcsak and Rothschild (2005), doi:10.1197/jamia.M1733.
    """
    unmarked = np.array([1e2, 1e3, 1e4, 1e5])
    ones = np.ones(4)
    tables = np.stack([unmarked, (b - shared) * ones, (a - shared) * ones, shared * ones], axis=1)
    below = float(f1(shared, a, b)) - cohen_of(tables).value
    assert (below > 0).all()
    assert (np.diff(below) < 0).all()
    assert below[-1] < 1e-3


def test_equal_fractions_are_equal_numbers() -> None:
    """1 of 3 and 3, and 7 of 21 and 21, tie to the last bit, so that their difference is 0."""
    assert f1(1, 3, 3) - f1(7, 21, 21) == 0


def test_arrays() -> None:
    """Sums of any shape broadcast, and NaN stands only where both are empty."""
    found = f1([[0, 1, 0], [0, 2, 2]], [0, 1, 0], [[0, 1, 2], [0, 3, 4]])
    np.testing.assert_array_equal(found, [[np.nan, 1, 0], [np.nan, 1, 1]])
    assert f1(np.zeros((0, 2)), 1, 1).shape == (0, 2)
    with pytest.raises(ValueError, match="broadcast"):
        f1([1, 2], [1, 2, 3], 1)
