"""Words for kappas: the limits of Landis and Koch, to the last digit."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prereg_judge.stats.landis_koch import LIMITS, landis_koch

ORDER = ["poor", *(word for _, word in LIMITS)]


@pytest.mark.parametrize(
    ("kappa", "word"),
    [
        (-9.5, "poor"),
        (-0.01, "poor"),
        (0.0, "slight"),
        (0.20, "slight"),
        (0.21, "fair"),
        (0.40, "fair"),
        (0.41, "moderate"),
        (0.60, "moderate"),
        (0.61, "substantial"),
        (0.80, "substantial"),
        (0.81, "almost perfect"),
        (1.0, "almost perfect"),
    ],
)
def test_published_limits(kappa: float, word: str) -> None:
    """Landis and Koch (1977), doi:10.2307/2529310, p. 165: both ends of each of the six ranges."""
    assert landis_koch(kappa) == word


def test_rounding_does_not_change_a_word() -> None:
    """0.1 + 0.5 as a float, 0.6 or a last digit more, is moderate; and 1 may be off by one too."""
    assert landis_koch(0.6000000000000001) == "moderate"
    assert landis_koch(1.0000000000000002) == "almost perfect"
    assert landis_koch(-1e-17) == "slight"


def test_between_two_printed_limits_the_higher_word_holds() -> None:
    """0.205 lies in no printed range; it is above 0.20, so fair."""
    assert landis_koch(0.205) == "fair"


@given(st.floats(-2.0, 1.0), st.floats(-2.0, 1.0))
def test_words_follow_the_numbers(one: float, two: float) -> None:
    """A larger kappa never gets a lower word."""
    low, high = sorted((one, two))
    assert ORDER.index(landis_koch(low)) <= ORDER.index(landis_koch(high))


def test_no_kappa_has_no_word() -> None:
    """NaN and what lies above 1 are errors, not poor and not perfect."""
    with pytest.raises(ValueError, match="undefined"):
        landis_koch(math.nan)
    with pytest.raises(ValueError, match="at most 1"):
        landis_koch(1.01)
