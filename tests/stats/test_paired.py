"""The sign test: exact, two-sided, and 1 where nothing differs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest
from statsmodels.stats.contingency_tables import mcnemar

from prereg_judge.stats.paired import exact_sign_test

COUNTS = st.integers(0, 300)


@given(COUNTS, COUNTS)
def test_it_is_the_binomial_test_and_mcnemars(plus: int, minus: int) -> None:
    """scipy's binomial test and statsmodels' exact McNemar test give the same p-value."""
    found = exact_sign_test(plus, minus)
    assert 0.0 < found <= 1.0
    assert exact_sign_test(minus, plus) == found
    if plus + minus:
        assert found == pytest.approx(binomtest(plus, plus + minus).pvalue, rel=1e-9)
        assert found == pytest.approx(mcnemar([[7, plus], [minus, 3]]).pvalue, rel=1e-9)


@pytest.mark.parametrize(
    ("plus", "minus", "expected"),
    [(0, 0, 1.0), (1, 0, 1.0), (5, 5, 1.0), (6, 0, 2 / 64), (1, 7, 18 / 256), (0, 16, 2 / 65536)],
)
def test_small_cases_by_hand(plus: int, minus: int, expected: float) -> None:
    """Tails counted by hand; without a differing pair nothing speaks against chance."""
    assert exact_sign_test(plus, minus) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(("plus", "minus"), [(-1, 2), (2, -1), (1.5, 2), (True, 2), (2, "3")])
def test_what_is_no_count_is_refused(plus: object, minus: object) -> None:
    """Negative numbers and what is not whole raise ValueError."""
    with pytest.raises(ValueError, match="must"):
        exact_sign_test(plus, minus)  # type: ignore[arg-type]


def test_numpy_counts_are_taken() -> None:
    """Counts out of arrays do."""
    assert exact_sign_test(np.int64(6), np.int64(0)) == 0.03125
