"""The bootstrap: the same as scipy's, the same in every call, whole in every stratum."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.stats import bootstrap, norm

from prereg_judge.stats import resample
from prereg_judge.stats.resample import Percentile, Resampler, percentile_interval, ratio

Floats = NDArray[np.float64]
SIZES = st.integers(1, 40)
SEEDS = st.integers(0, 2**32)


@st.composite
def partitions(draw: st.DrawFn) -> tuple[NDArray[np.intp], ...]:
    """Rows 0 .. n - 1 in random order, cut into strata."""
    n = draw(SIZES)
    order = np.array(draw(st.permutations(range(n))), dtype=np.intp)
    cuts = sorted(draw(st.sets(st.integers(1, n), max_size=4)) - {n})
    return tuple(np.split(order, cuts))


def quantile_error(values: Floats, p: float) -> float:
    """Standard error of the quantile p of a bootstrap, from the density of its own values."""
    step = 0.02
    slope = np.diff(np.quantile(values, [p - step, p + step]))[0] / (2 * step)
    return float(slope * np.sqrt(p * (1 - p) / len(values)))


@pytest.mark.parametrize("n", [40, 500])
def test_limits_are_those_of_scipy(n: int) -> None:
    """Percentile limits of a ratio of sums equal scipy's within four Monte Carlo errors of both."""
    generator = np.random.default_rng(n)
    top = generator.poisson(2.0, n) + generator.random(n)
    bottom = generator.poisson(3.0, n) + 1.0
    drawn = Resampler(n, 20_000, 11).totals(np.column_stack([top, bottom]))
    values = ratio(drawn[:, 0], drawn[:, 1])
    found = percentile_interval(values, level=0.9)
    assert found is not None

    def statistic(x: Floats, y: Floats, axis: int = -1) -> Floats:
        return np.asarray(x.sum(axis=axis) / y.sum(axis=axis))

    expected = bootstrap(
        (top, bottom),
        statistic,
        paired=True,
        vectorized=True,
        n_resamples=20_000,
        batch=2_000,
        confidence_level=0.9,
        method="percentile",
        rng=np.random.default_rng(12),
    ).confidence_interval
    error = 4 * np.sqrt(2) * quantile_error(values, 0.05)
    assert error < (found.high - found.low) / 10
    assert found.low == pytest.approx(expected.low, abs=error)
    assert found.high == pytest.approx(expected.high, abs=error)


def test_the_spread_is_that_of_the_theory() -> None:
    """The standard deviation of resampled means is the sample's over the root of n, within 3%."""
    n, resamples = 300, 20_000
    values = np.random.default_rng(1).exponential(size=n)
    means = Resampler(n, resamples, 5).totals(values[:, None])[:, 0] / n
    # The SD of 20,000 values is off by 0.5% of itself: six of these.
    assert means.std() == pytest.approx(values.std() / np.sqrt(n), rel=0.03)
    assert means.mean() == pytest.approx(
        values.mean(), abs=5 * values.std() / (n * resamples) ** 0.5
    )


def test_rows_are_drawn_as_documented() -> None:
    """Two resamples are those of PCG64 with the seed, 32-bit draws, one after the other."""
    n = 7
    generator = np.random.Generator(np.random.PCG64(2024))
    drawn = [generator.integers(n, size=n, dtype=np.int32) for _ in range(2)]
    expected = [np.bincount(rows, minlength=n) for rows in drawn]
    np.testing.assert_array_equal(Resampler(n, 2, 2024).totals(np.eye(n)), expected)


@given(partitions(), st.integers(1, 30), SEEDS)
def test_every_stratum_keeps_its_size(
    strata: tuple[NDArray[np.intp], ...], resamples: int, seed: int
) -> None:
    """In each resample the weights are whole, not negative, and sum to the size in each stratum."""
    n = sum(len(rows) for rows in strata)
    weights = Resampler(n, resamples, seed, strata).totals(np.eye(n))
    assert weights.shape == (resamples, n)
    assert (weights >= 0).all()
    np.testing.assert_array_equal(weights, np.round(weights))
    for rows in strata:
        np.testing.assert_array_equal(weights[:, rows].sum(axis=1), float(len(rows)))


@given(SIZES, st.integers(1, 30), SEEDS)
def test_one_stratum_of_all_rows_is_none(n: int, resamples: int, seed: int) -> None:
    """Naming all rows as one stratum changes nothing."""
    named = Resampler(n, resamples, seed, (np.arange(n),))
    plain = Resampler(n, resamples, seed)
    np.testing.assert_array_equal(named.totals(np.eye(n)), plain.totals(np.eye(n)))


def test_strata_are_drawn_apart() -> None:
    """Two strata of the same size do not share their draws."""
    strata = (np.arange(50), np.arange(50, 100))
    weights = Resampler(100, 200, 3, strata).totals(np.eye(100))
    left, right = weights[:, :50].ravel(), weights[:, 50:].ravel()
    assert abs(np.corrcoef(left, right)[0, 1]) < 4 / np.sqrt(len(left))


@given(SIZES, SEEDS, st.integers(1, 5))
def test_calls_share_the_resamples(n: int, seed: int, columns: int) -> None:
    """Columns together and one by one give the same sums, also from a second resampler."""
    halves = np.random.default_rng(seed).integers(-9, 9, (n, columns)) / 2
    one = Resampler(n, 50, seed)
    together = one.totals(halves)
    apart = [one.totals(halves[:, [m]])[:, 0] for m in range(columns)]
    np.testing.assert_array_equal(together, np.column_stack(apart))
    np.testing.assert_array_equal(together, Resampler(n, 50, seed).totals(halves))


@pytest.mark.parametrize("strata", [None, (np.arange(0, 301, 2), np.arange(1, 301, 2))])
@pytest.mark.parametrize("block", [1, 8 * 301 * 7, 10**9])
def test_the_size_of_blocks_changes_nothing(
    monkeypatch: pytest.MonkeyPatch, block: int, strata: tuple[NDArray[np.intp], ...] | None
) -> None:
    """Weights made one resample, seven or all at a time, kept or made anew, are the same."""
    columns = np.random.default_rng(0).integers(0, 3, (301, 4))
    usual = Resampler(301, 40, 9, strata).totals(columns)
    monkeypatch.setattr(resample, "BLOCK_BYTES", block)
    other = Resampler(301, 40, 9, strata)
    np.testing.assert_array_equal(other.totals(columns), usual)
    np.testing.assert_array_equal(other.totals(columns), usual)


def test_seeds_differ() -> None:
    """Another seed gives other resamples."""
    one, two = (Resampler(30, 5, seed).totals(np.eye(30)) for seed in (1, 2))
    assert (one != two).any()


def test_one_row_is_always_itself() -> None:
    """With one row every resample is the data, and its interval is refused as collapsed."""
    sums = Resampler(1, 10, 0).totals([[3.5, -1.0]])
    np.testing.assert_array_equal(sums, [[3.5, -1.0]] * 10)
    assert percentile_interval(sums[:, 0], level=0.95) is None


@pytest.mark.parametrize(
    ("n", "resamples", "seed", "strata"),
    [
        (0, 10, 0, None),
        (2**31, 10, 0, None),
        (5, 0, 0, None),
        (5, 10, -1, None),
        (3, 10, 0, ()),
        (3, 10, 0, (np.array([0, 1]),)),
        (3, 10, 0, (np.array([0, 1]), np.array([1, 2]))),
        (3, 10, 0, (np.array([0, 1, 2]), np.array([], dtype=np.intp))),
        (3, 10, 0, (np.array([[0, 1, 2]]),)),
        (3, 10, 0, (np.array([1, 2, 3]),)),
    ],
)
def test_what_cannot_be_drawn_is_refused(
    n: int, resamples: int, seed: int, strata: tuple[NDArray[np.intp], ...] | None
) -> None:
    """No rows, no resamples, and strata that are no partition raise ValueError."""
    with pytest.raises(ValueError, match="must"):
        Resampler(n, resamples, seed, strata)


@pytest.mark.parametrize("statistics", [[1.0, 2.0], [[1.0]], [[1.0], [np.nan]], [[np.inf], [0.0]]])
def test_statistics_of_another_shape_are_refused(statistics: list[object]) -> None:
    """Sums are made of finite numbers, one line for each row."""
    with pytest.raises(ValueError, match="must"):
        Resampler(2, 3, 0).totals(statistics)  # type: ignore[arg-type]


def test_ratio_marks_what_is_undefined() -> None:
    """A denominator of 0 gives NaN, whatever the numerator, and shapes broadcast."""
    found = ratio([[1.0], [0.0]], [4.0, 0.0])
    np.testing.assert_array_equal(found, [[0.25, np.nan], [0.0, np.nan]])


@given(st.integers(-50, 50), st.integers(1, 50), st.integers(1, 50))
def test_equal_fractions_are_equal_numbers(top: int, bottom: int, factor: int) -> None:
    """A fraction that is extended gives the same float, so that ties of rates are exact ties."""
    assert ratio(top, bottom) == ratio(top * factor, bottom * factor)


@given(
    st.lists(st.one_of(st.floats(-1e6, 1e6), st.just(float("nan"))), min_size=1, max_size=200),
    st.floats(0.5, 0.999),
)
def test_limits_lie_among_the_defined_values(values: list[float], level: float) -> None:
    """Limits are ordered and within the values; there are none where too much is undefined."""
    defined = [v for v in values if v == v]
    undefined = len(values) - len(defined)
    found = percentile_interval(values, level=level)
    if undefined > 0.05 * len(values) or min(defined) == max(defined):
        assert found is None
    else:
        assert found is not None
        assert min(defined) <= found.low <= found.high <= max(defined)
        assert found.undefined == undefined
        mirrored = percentile_interval([-v for v in values], level=level)
        assert mirrored is not None
        assert (-mirrored.high, -mirrored.low) == pytest.approx((found.low, found.high), abs=1e-6)


@pytest.mark.parametrize(("undefined", "given_one"), [(0, True), (5, True), (6, False)])
def test_up_to_one_in_twenty_may_be_undefined(undefined: int, given_one: bool) -> None:
    """Of 100 resamples five without a value are left out and counted; six are too many."""
    values = np.arange(100.0)
    values[:undefined] = np.nan
    found = percentile_interval(values, level=0.5)
    assert (found is not None) == given_one
    if found is not None:
        rest = 100 - undefined
        low = undefined + 0.25 * (rest - 1)
        assert found == Percentile(low, low + 0.5 * (rest - 1), undefined)


@pytest.mark.parametrize(
    ("values", "level"),
    [
        ([], 0.95),
        ([[1.0, 2.0]], 0.95),
        ([1.0, np.inf], 0.95),
        ([1.0, 2.0], 1.0),
        ([1.0, 2.0], 95.0),
    ],
)
def test_values_that_no_resample_gives_are_refused(values: list[float], level: float) -> None:
    """No value, another shape, infinity and odd levels raise ValueError."""
    with pytest.raises(ValueError, match="must"):
        percentile_interval(values, level=level)


def test_the_normal_case_has_normal_limits() -> None:
    """For a mean of many rows the limits are mean +- 1.96 standard errors, within 3% of them."""
    n = 2_000
    values = np.random.default_rng(8).normal(size=n)
    means = Resampler(n, 20_000, 4).totals(values[:, None])[:, 0] / n
    found = percentile_interval(means, level=0.95)
    assert found is not None
    half = norm.ppf(0.975) * values.std() / np.sqrt(n)
    assert (found.low, found.high) == pytest.approx(
        (values.mean() - half, values.mean() + half), abs=0.05 * half
    )
