"""Limits of a mean over items that are mostly alike: never narrower than ignorance allows."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prereg_judge.stats.proportions import wilson_interval
from prereg_judge.stats.sparse import sparse_limits
from prereg_judge.study.metric import Interval, MetricRef, MetricSpec
from prereg_judge.study.outcomes import ItemView, Resampling
from prereg_judge.study.pair_bootstrap import estimate, means

SPEC = MetricSpec("x", "a mean", "share", (), (), (-1, 1))
LEVELS = st.floats(0.5, 0.999)
# What items give, in quarters as the studies do, inside -1 to 1.
QUARTERS = st.integers(-4, 4).map(lambda x: x / 4)


@st.composite
def mostly(draw: st.DrawFn) -> tuple[float, list[float]]:
    """A value, and a sample of which it is more than half, in any order."""
    mode = draw(QUARTERS)
    others = draw(st.lists(QUARTERS, max_size=15))
    same = draw(st.integers(len(others) + 1, 40))
    return mode, draw(st.permutations([mode] * same + others))


def interval_of(values: list[float], *, within: tuple[float, float] = (-1.0, 1.0)) -> Interval:
    """The interval that a study gives for the mean of these values, one an item."""
    items = [ItemView("real", f"p{i}", f"content-{i}") for i in range(len(values))]
    statistic = means(items, np.array(values), within=within)
    found = estimate(MetricRef.of("x"), SPEC, statistic, resampling=Resampling(300, 1))
    assert found.interval is not None
    return found.interval


def test_hand_figures() -> None:
    """With 20 items u is 1.96^2 / (20 + 1.96^2) = 0.1611, and each side gets its part of it."""
    u = 3.841459 / (20 + 3.841459)
    assert u == pytest.approx(0.16112, abs=1e-5)
    for values in ([0.0] * 20, [0.0] * 17 + [1.0, 1.0, -1.0]):
        assert sparse_limits(values, within=(-1, 1), level=0.95) == pytest.approx((-u, u), abs=1e-6)
    # From 0.5 it is 1.5 down to -1 and 0.5 up to 1.
    found = sparse_limits([0.5] * 20, within=(-1, 1), level=0.95)
    assert found == pytest.approx((0.5 - 1.5 * u, 0.5 + 0.5 * u), abs=1e-6)
    found = sparse_limits([0.0] * 11 + [0.25] * 9, within=(-0.5, 0.5), level=0.95)
    assert found == pytest.approx((-u / 2, u / 2), abs=1e-6)


@given(st.integers(1, 500), LEVELS)
def test_at_the_ends_it_is_wilson(n: int, level: float) -> None:
    """Items that all give the smallest or the largest value have Wilson's interval of 0 or n."""
    low, high = (sparse_limits([x] * n, within=(0, 1), level=level) for x in (0.0, 1.0))
    assert low == pytest.approx(wilson_interval(0, n, level=level), abs=1e-12)
    assert high == pytest.approx(wilson_interval(n, n, level=level), abs=1e-12)


@given(mostly(), LEVELS)
def test_invariants(sample: tuple[float, list[float]], level: float) -> None:
    """Inside the range, around the mode, as wide as Wilson's upper limit of 0 times the range."""
    mode, values = sample
    found = sparse_limits(values, within=(-1, 1), level=level)
    assert found is not None
    low, high = found
    assert -1 <= low <= mode <= high <= 1
    most = wilson_interval(0, len(values), level=level)[1]
    assert high - low == pytest.approx(2 * most, abs=1e-12)
    # Nothing but the number of items and the mode matters, so neither does their order.
    assert sparse_limits([mode] * len(values), within=(-1, 1), level=level) == found
    turned = sparse_limits([-x for x in values], within=(-1, 1), level=level)
    assert turned == pytest.approx((-high, -low), abs=1e-12)
    moved = sparse_limits([10 + 3 * x for x in values], within=(7, 13), level=level)
    assert moved == pytest.approx((10 + 3 * low, 10 + 3 * high), abs=1e-9)
    surer = sparse_limits(values, within=(-1, 1), level=(1 + level) / 2)
    assert surer is not None
    assert surer[0] <= low
    assert surer[1] >= high


@given(QUARTERS, QUARTERS, st.integers(3, 60))
def test_the_first_that_differs_shortens_nothing(mode: float, other: float, n: int) -> None:
    """With one item that differs the interval still holds that of items which are all alike."""
    alike = interval_of([mode] * n)
    assert alike.method == "wilson on items, all alike"
    found = interval_of([mode] * (n - 1) + [other])
    assert found.low <= alike.low + 1e-12
    assert found.high >= alike.high - 1e-12


def test_what_resampling_alone_would_say_is_shorter() -> None:
    """One odd item of 30: the limit on its other side is the mode itself until it is widened."""
    found = interval_of([0.0] * 29 + [-0.5])
    assert found.method.endswith(", widened to what items all alike would allow")
    u = wilson_interval(0, 30, level=0.95)[1]
    assert found.low == pytest.approx(-u, abs=1e-12)
    assert found.high == pytest.approx(u, abs=1e-12)


def test_enough_that_differ_speak_for_themselves() -> None:
    """A mean beyond the limits of its mode is left to the resamples."""
    found = interval_of([0.0] * 60 + [1.0] * 40)
    assert "widened" not in found.method
    assert found.low > wilson_interval(0, 100, level=0.95)[1]


@pytest.mark.parametrize("values", [[0.0, 0.5, 1.0], [0, 0, 1, 1, -1], [0.0, 1e-9, 2e-9]])
def test_no_value_at_least_half_has_no_limits(values: list[float]) -> None:
    """Items that vary show it themselves; values count as different beyond rounding only."""
    assert sparse_limits(values, within=(-1, 1), level=0.95) is None


def test_rounding_is_no_difference() -> None:
    """Values that differ in their last digits are one value."""
    values = [0.1 + 0.2, 0.3, 0.3, 1.0, 0.5]
    found = sparse_limits(values, within=(0, 1), level=0.95)
    assert found == pytest.approx(sparse_limits([0.3] * 5, within=(0, 1), level=0.95), abs=1e-12)


@pytest.mark.parametrize("level", [0.0, 1.0, -0.5])
def test_what_is_no_level_is_refused(level: float) -> None:
    """A level outside its range raises ValueError, as an empty sample does."""
    with pytest.raises(ValueError, match="level"):
        sparse_limits([0.0], within=(0, 1), level=level)
    with pytest.raises(ValueError, match="no value"):
        sparse_limits([], within=(0, 1), level=0.95)
