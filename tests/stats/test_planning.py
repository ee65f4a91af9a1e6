"""Rows needed: brute force over every n agrees, the saw is seen, what has no answer says why."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom, binomtest, norm
from statsmodels.stats.proportion import proportion_confint, samplesize_confint_proportion

from prereg_judge.stats.chances import nearest_count, normal_quantile
from prereg_judge.stats.planning import Bar, RowsNeeded, n_for_power, n_for_width
from prereg_judge.stats.proportions import wilson_interval

Z = float(norm.ppf(0.975))


def width_at(p: float, n: int) -> float:
    """Width of the interval at the count nearest to p n."""
    low, high = wilson_interval(int(nearest_count(p, n)), n, level=0.95)
    return high - low


def brute_width(p: float, width: float) -> int:
    """Last n that is too wide, plus one; no interval of z^2 / width^2 rows or more is."""
    most = math.ceil((Z / width) ** 2) + 1
    wide = [n for n in range(1, most + 1) if width_at(p, n) > width]
    return wide[-1] + 1 if wide else 1


def needed(p: float, width: float) -> int:
    """The answer as a number."""
    found = n_for_width(p, width=width, level=0.95)
    assert found.why_not is None
    assert found.n is not None
    return found.n


@given(p=st.floats(0.0, 1.0), width=st.floats(0.08, 1.2))
@settings(max_examples=40)
def test_a_width_takes_the_rows_that_brute_force_finds(p: float, width: float) -> None:
    """Every n is tried up to where any interval is narrow enough."""
    assert needed(p, width) == brute_width(p, width)


@pytest.mark.parametrize(("p", "width"), [(0.875, 0.15), (0.5, 0.1), (0.9, 0.08), (0.3, 0.05)])
def test_the_usual_approximation_is_near(p: float, width: float) -> None:
    """The normal formula of statsmodels is within a tenth, the intervals being narrow."""
    usual = samplesize_confint_proportion(p, width / 2, alpha=0.05)
    assert needed(p, width) == pytest.approx(float(usual), rel=0.1)


def test_a_smaller_number_can_fit_by_luck() -> None:
    """The width goes up and down with n; the answer is the one that no larger n spoils."""
    n = needed(0.97, 0.12)
    by_luck = [m for m in range(1, n) if width_at(0.97, m) <= 0.12]
    assert (n, by_luck[0]) == (52, 42)
    assert width_at(0.97, n - 1) > 0.12
    assert all(width_at(0.97, m) <= 0.12 for m in range(n, 20 * n))


@pytest.mark.parametrize(
    "p",
    [0.0, 1e-4, 0.003, 0.02, 0.25, 1 / 3, 0.5, math.nextafter(0.5, 1), 0.625, 0.99, 0.9999, 1.0],
)
@pytest.mark.parametrize("width", [0.01, 0.03, 0.11, 0.45, 0.7, 0.8])
def test_narrow_widths_take_the_rows_that_brute_force_finds(p: float, width: float) -> None:
    """Up to 40 000 rows each number is tried; the runs of one count leave none out."""
    sizes = np.arange(1, math.ceil((Z / width) ** 2) + 2)
    low, high = proportion_confint(nearest_count(p, sizes), sizes, method="wilson")
    wide = sizes[high - low > width]
    assert needed(p, width) == (int(wide[-1]) + 1 if len(wide) else 1)


@pytest.mark.parametrize("p", [0.0, 1.0])
def test_a_width_that_is_met_exactly_is_enough(p: float) -> None:
    """The limit belongs to the wish: the very width at 5 rows takes 5 rows, and not 6."""
    assert needed(p, Z * Z / (5 + Z * Z) * (1 + 1e-15)) == 5
    z = normal_quantile(0.95)
    assert needed(p, 2 * z * math.sqrt(z * z / 4) / (5 + z * z)) == 5


@pytest.mark.parametrize("p", [0.0, 1.0])
@pytest.mark.parametrize("width", [0.5, 0.1, 0.01, 1e-5, 1e-9])
def test_at_the_edges_the_rows_follow_a_formula(p: float, width: float) -> None:
    """With no success, or no failure, the width is z^2 / (n + z^2)."""
    assert needed(p, width) == math.ceil(Z * Z * (1 / width - 1))


@given(p=st.floats(0.0, 1.0), a=st.floats(0.005, 1.0), b=st.floats(0.005, 1.0))
def test_a_narrower_interval_never_takes_fewer_rows(p: float, a: float, b: float) -> None:
    """Monotone in the width."""
    assert needed(p, min(a, b)) >= needed(p, max(a, b))


def test_a_width_beyond_all_numbers_is_said_to_be() -> None:
    """A millionth of a millionth would take more rows than differences of limits can show."""
    assert n_for_width(0.5, width=1e-12, level=0.95) == RowsNeeded(None, "beyond the search")
    assert n_for_width(0.5, width=1e-300, level=0.95) == RowsNeeded(None, "beyond the search")
    assert needed(0.5, 1.0) == 1


def chance(p: float, n: int, bar: Bar) -> float:
    """Chance to clear a bar: Wilson's formula as it is printed, count by count."""
    k = np.arange(n + 1)
    share, z2 = k / n, Z * Z
    spread = Z * np.sqrt(share * (1 - share) / n + z2 / (4 * n * n))
    value = {
        "estimate": share,
        "ci_low": np.where(k == 0, 0.0, (share + z2 / (2 * n) - spread) / (1 + z2 / n)),
        "ci_high": np.where(k == n, 1.0, (share + z2 / (2 * n) + spread) / (1 + z2 / n)),
    }[bar.of]
    above = value > bar.low if bar.low_open else value >= bar.low
    below = value < bar.high if bar.high_open else value <= bar.high
    return float(binom.pmf(k, n, p)[above & below].sum())


BARS = [
    (0.9, Bar("ci_low", low=0.75), 0.8),
    (0.9, Bar("estimate", low=0.8), 0.95),
    (0.9, Bar("estimate", low=0.8, low_open=True), 0.95),
    (0.05, Bar("ci_high", high=0.15), 0.8),
    (0.05, Bar("estimate", high=0.1), 0.9),
    (0.12, Bar("ci_high", low=0.1, low_open=True), 0.99),
    (0.88, Bar("ci_low", high=0.9, high_open=True), 0.99),
    (0.875, Bar("estimate", low=0.8, high=0.95), 0.9),
    (0.5, Bar("ci_low", low=0.25, high=0.55), 0.7),
    (1.0, Bar("ci_low", low=0.9), 0.8),
    (0.0, Bar("ci_high", high=0.1), 0.8),
    (0.02, Bar("ci_low", low=0.0, low_open=True), 0.9),
    # The limit itself is true: the chance tends to 0.975, 0.5 or 0.025.
    (0.7, Bar("ci_low", high=0.7), 0.97),
    (0.3, Bar("ci_high", low=0.3), 0.97),
    (0.7, Bar("ci_low", high=0.7, high_open=True), 0.972),
    (0.7, Bar("estimate", low=0.7), 0.49),
    (0.7, Bar("estimate", low=0.7, low_open=True), 0.48),
    (0.7, Bar("estimate", high=0.7), 0.45),
    (0.7, Bar("estimate", low=0.7, high=0.8), 0.45),
    (0.7, Bar("ci_low", low=0.7), 0.02),
    # As it nearly is: Chernoff's bound alone would ask for millions of rows.
    (0.7, Bar("ci_low", high=0.7001), 0.97),
    (0.3, Bar("estimate", low=0.29999), 0.48),
    # A limit that failing counts do and do not belong to.
    (0.5, Bar("estimate", high=0.6), 0.9),
    (0.5, Bar("estimate", high=0.6, high_open=True), 0.9),
    # More rows than one block of the search.
    (0.5, Bar("estimate", low=0.48), 0.97),
    (0.5, Bar("ci_low", low=0.46), 0.9),
]


@pytest.mark.parametrize(("p", "bar", "power"), BARS)
def test_power_takes_the_rows_that_brute_force_finds(p: float, bar: Bar, power: float) -> None:
    """One row fewer falls short, and of twice as many numbers none does."""
    found = n_for_power(p, bar=bar, power=power, level=0.95)
    assert found.n is not None
    assert found.n > 1
    assert chance(p, found.n - 1, bar) < power, found.n
    assert all(chance(p, n, bar) >= power for n in range(found.n, 2 * found.n + 20))


def test_an_open_limit_takes_more_rows() -> None:
    """6 of 10 pass a closed limit of 0.6 and fail an open one, on either side of the bar."""
    for closed, opened in [
        (Bar("estimate", high=0.6), Bar("estimate", high=0.6, high_open=True)),
        (Bar("estimate", low=0.4), Bar("estimate", low=0.4, low_open=True)),
    ]:
        one, other = (n_for_power(0.5, bar=b, power=0.9, level=0.95).n for b in (closed, opened))
        assert one is not None
        assert other is not None
        assert one < other


def test_the_last_number_that_fails_is_found_in_any_block() -> None:
    """The wish fails one number below, some blocks from where the search begins."""
    bar = Bar("ci_low", low=0.46)
    found = n_for_power(0.5, bar=bar, power=0.9, level=0.95)
    assert found.n is not None
    assert chance(0.5, found.n - 1, bar) < 0.9 <= chance(0.5, found.n, bar)


def test_the_chance_is_a_saw() -> None:
    """Fewer rows reach the wanted chance once, and more of them lose it again."""
    bar = Bar("ci_low", low=0.75)
    found = n_for_power(0.9, bar=bar, power=0.8, level=0.95)
    assert found.n is not None
    early = [n for n in range(1, found.n) if chance(0.9, n, bar) >= 0.8]
    assert early
    assert min(early) < found.n - 1


def test_a_simulation_does_not_contradict_the_power() -> None:
    """With the rows that are named, the bar is cleared as often as was wanted."""
    found = n_for_power(0.9, bar=Bar("ci_low", low=0.8), power=0.8, level=0.95)
    assert found == RowsNeeded(112)
    runs = 20_000
    counts = (np.random.default_rng(11).random((runs, 112)) < 0.9).sum(axis=1)
    cleared = [wilson_interval(k, 112, level=0.95)[0] >= 0.8 for k in range(113)]
    hits = sum(cleared[int(k)] for k in counts)
    assert binomtest(hits, runs, 0.8, alternative="less").pvalue > 1e-4


@given(
    p=st.integers(1, 63), bar=st.integers(1, 63), a=st.floats(0.05, 0.95), b=st.floats(0.05, 0.95),
    of=st.sampled_from(["estimate", "ci_low", "ci_high"]),
)  # fmt: skip
@settings(max_examples=40)
def test_more_power_never_takes_fewer_rows(p: int, bar: int, a: float, b: float, of: str) -> None:
    """Monotone in the wanted chance; and failures under an upper limit are successes over one."""
    kind = {"estimate": "estimate", "ci_low": "ci_low", "ci_high": "ci_high"}[of]
    over = Bar(kind, low=bar / 64)  # type: ignore[arg-type]
    less, more = (
        n_for_power(p / 64, bar=over, power=x, level=0.95) for x in (min(a, b), max(a, b))
    )
    tends_to = {"estimate": 0.5, "ci_low": 0.025, "ci_high": 0.975}[of]
    for found, power in ((less, min(a, b)), (more, max(a, b))):
        none = p < bar or (p == bar and power >= tends_to)
        assert (found.n is None) == none or found.why_not == "beyond the search"
    if less.n is not None and more.n is not None:
        assert less.n <= more.n
    other = {"estimate": "estimate", "ci_low": "ci_high", "ci_high": "ci_low"}[of]
    under = Bar(other, high=1 - bar / 64)  # type: ignore[arg-type]
    assert n_for_power(1 - p / 64, bar=under, power=a, level=0.95) == n_for_power(
        p / 64, bar=over, power=a, level=0.95
    )


@pytest.mark.parametrize(
    ("p", "bar", "want"),
    [
        (0.7, Bar("ci_low", low=0.8), RowsNeeded(None, "wrong side")),
        (0.7, Bar("estimate", high=0.6), RowsNeeded(None, "wrong side")),
        (0.8, Bar("ci_low", low=0.8), RowsNeeded(None, "on the bar", 0.025)),
        (0.8, Bar("estimate", high=0.8), RowsNeeded(None, "on the bar", 0.5)),
        (0.8, Bar("estimate", low=0.8, high=0.8), RowsNeeded(None, "on the bar", 0.0)),
        (0.8, Bar("ci_high", high=0.8), RowsNeeded(None, "on the bar", 0.025)),
        (0.8, Bar("ci_low", high=0.8), RowsNeeded(1)),
        (0.8, Bar("ci_high", low=0.8), RowsNeeded(1)),
        (0.5, Bar("estimate", low=1.2), RowsNeeded(None, "wrong side")),
        (0.5, Bar("ci_low", low=0.4999), RowsNeeded(None, "beyond the search")),
        (0.5, Bar("estimate", low=0.0, high=1.0), RowsNeeded(1)),
        (1.0, Bar("estimate", low=1.0), RowsNeeded(1)),
        (1.0, Bar("ci_low", low=1.0), RowsNeeded(None, "on the bar", 0.0)),
        (1.0, Bar("estimate", low=1.0, low_open=True), RowsNeeded(None, "on the bar", 0.0)),
        (0.0, Bar("estimate", high=0.0), RowsNeeded(1)),
        (0.0, Bar("ci_low", high=0.0), RowsNeeded(1)),
        (0.0, Bar("ci_high", low=0.0, low_open=True), RowsNeeded(1)),
        (0.0, Bar("ci_low", low=0.0, low_open=True), RowsNeeded(None, "on the bar", 0.0)),
        (1.0, Bar("ci_low", low=0.9), RowsNeeded(35)),
        (0.0, Bar("ci_high", high=0.1), RowsNeeded(35)),
    ],
)
def test_edges_and_what_has_no_answer(p: float, bar: Bar, want: RowsNeeded) -> None:
    """Certain rows, limits at 0 and 1, and the typed reasons."""
    assert n_for_power(p, bar=bar, power=0.8, level=0.95) == want


def test_what_is_out_of_range_is_refused() -> None:
    """Each argument outside its range raises, and says which."""
    for p in (-0.1, 1.1, math.nan):
        with pytest.raises(ValueError, match="p must lie between"):
            n_for_width(p, width=0.1, level=0.95)
        with pytest.raises(ValueError, match="p must lie between"):
            n_for_power(p, bar=Bar("estimate", low=0.1), power=0.8, level=0.95)
    for width in (0.0, -1.0, math.nan):
        with pytest.raises(ValueError, match="width must be above 0"):
            n_for_width(0.5, width=width, level=0.95)
    for power in (0.0, 1.0, math.nan):
        with pytest.raises(ValueError, match="power must lie"):
            n_for_power(0.5, bar=Bar("estimate", low=0.1), power=power, level=0.95)
    with pytest.raises(ValueError, match="level must lie"):
        n_for_power(0.5, bar=Bar("estimate", low=0.1), power=0.8, level=1.0)
    with pytest.raises(ValueError, match="low first"):
        n_for_power(0.5, bar=Bar("estimate", low=0.9, high=0.1), power=0.8, level=0.95)


@pytest.mark.parametrize(
    ("bar", "power"),
    [
        (Bar("estimate", low=0.7), 0.5),
        (Bar("ci_low", high=0.7), 0.975),
        (Bar("ci_low", low=0.7), 0.025),
    ],
)
def test_a_wish_for_what_the_chance_tends_to_has_no_answer(bar: Bar, power: float) -> None:
    """It is neared from both sides, so that no number is named; a little less has an answer."""
    assert n_for_power(0.7, bar=bar, power=power, level=0.95) == RowsNeeded(
        None, "on the bar", power
    )
    assert n_for_power(0.7, bar=bar, power=power - 0.005, level=0.95).n is not None
