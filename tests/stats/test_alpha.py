"""Krippendorff's alpha: against its package and fractions; invariants; where there is none."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from itertools import permutations
from random import Random
from typing import Literal

import krippendorff
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import ArrayLike

from prereg_judge.stats.alpha import (
    interval_alpha_of,
    interval_alpha_sums,
    nominal_alpha_of,
    nominal_alpha_sums,
    ordinal_alpha_of,
    ordinal_alpha_sums,
)
from stats.rated_tables import Floats, counts_of, counts_tables, random_ratings, ratings_of

Level = Literal["nominal", "ordinal", "interval"]
Columns = Callable[[Floats], Floats]
Of = Callable[[ArrayLike], Floats]


def numbered(counts: Floats) -> Floats:
    """Sums of interval alpha with unequal steps between the labels: 0, 1, 4, 9 ..."""
    return interval_alpha_sums(counts, values=np.arange(np.shape(counts)[-1]) ** 2)


LEVELS: dict[Level, tuple[Columns, Of]] = {
    "nominal": (nominal_alpha_sums, nominal_alpha_of),
    "ordinal": (ordinal_alpha_sums, ordinal_alpha_of),
    "interval": (numbered, interval_alpha_of),
}
every_level = pytest.mark.parametrize("level", LEVELS)


def alpha(level: Level, counts: Floats) -> float:
    """Alpha of a table of counts."""
    columns, of = LEVELS[level]
    return float(of(columns(counts).sum(axis=0)))


def interval(counts: Floats, values: ArrayLike) -> float:
    """Interval alpha of a table of counts."""
    return float(interval_alpha_of(interval_alpha_sums(counts, values=values).sum(axis=0)))


def exact(level: Level, counts: Floats) -> float:
    """Alpha over pairs of ratings in exact numbers, NaN where no disagreement is expected."""
    items = [item for row in counts if len(item := ratings_of(row)) >= 2]
    everything = [label for item in items for label in item]
    given_ = [everything.count(label) for label in range(counts.shape[1])]

    def apart(a: int, b: int) -> Fraction:
        if level == "nominal":
            return Fraction(int(a != b))
        if level == "interval":
            return Fraction((a * a - b * b) ** 2)
        low, high = min(a, b), max(a, b)
        return (sum(given_[low : high + 1]) - Fraction(given_[low] + given_[high], 2)) ** 2

    observed = sum(
        (apart(a, b) / (len(item) - 1) for item in items for a, b in permutations(item, 2)),
        Fraction(0),
    )
    expected = sum((apart(a, b) for a, b in permutations(everything, 2)), Fraction(0))
    if not expected:
        return float("nan")
    return float(1 - (len(everything) - 1) * observed / expected)


@every_level
@given(counts=counts_tables())
def test_against_fractions(level: Level, counts: Floats) -> None:
    """A second implementation over pairs of ratings gives the same, and NaN in the same places."""
    np.testing.assert_allclose(alpha(level, counts), exact(level, counts), rtol=1e-9, atol=1e-11)


@every_level
@pytest.mark.parametrize("seed", range(30))
def test_against_krippendorff(level: Level, seed: int) -> None:
    """Random tables of two to six raters, up to 60% missing, are as in the package krippendorff."""
    rng = np.random.default_rng(seed)
    raters, labels = int(rng.integers(2, 7)), int(rng.integers(2, 7))
    missing = float(rng.uniform(0, 0.6))
    ratings = random_ratings(rng, raters=raters, items=80, labels=labels, missing=missing)
    counts = counts_of(ratings, labels)
    values = np.arange(labels) ** 2
    expected = krippendorff.alpha(
        value_counts=counts,
        value_domain=values if level == "interval" else np.arange(labels),
        level_of_measurement=level,
    )
    assert alpha(level, counts) == pytest.approx(expected, rel=1e-9, abs=1e-12)
    if level != "interval":
        # The same from the raters' own rows, where the package finds the missing ones itself.
        rows = krippendorff.alpha(ratings, level_of_measurement=level)
        assert alpha(level, counts) == pytest.approx(rows, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("seed", range(20))
def test_any_numbers_against_krippendorff(seed: int) -> None:
    """Labels with any numbers, in any order and some equal, are as in the package."""
    rng = np.random.default_rng(100 + seed)
    values = rng.choice([*rng.normal(1000, 3, size=4), 7.0], size=5)
    counts = counts_of(random_ratings(rng, raters=4, items=60, labels=5, missing=0.3), 5)
    expected = krippendorff.alpha(
        value_counts=counts, value_domain=values, level_of_measurement="interval"
    )
    assert interval(counts, values) == pytest.approx(expected, rel=1e-9, abs=1e-12)


@given(counts_tables(), st.randoms(use_true_random=False))
def test_nominal_labels_have_no_order(counts: Floats, random: Random) -> None:
    """Labels in another order leave nominal alpha as it is."""
    order = list(range(counts.shape[1]))
    random.shuffle(order)
    found = alpha("nominal", counts[:, order])
    np.testing.assert_allclose(found, alpha("nominal", counts), rtol=1e-12, atol=1e-12)


@given(counts_tables(), st.integers(0, 5))
def test_ordinal_alpha_reversed_and_padded(counts: Floats, place: int) -> None:
    """The reverse order, and labels nobody gives, anywhere in it, leave ordinal alpha."""
    plain = alpha("ordinal", counts)
    padded = np.insert(counts, min(place, counts.shape[1]), 0.0, axis=1)
    for other in (counts[:, ::-1], padded):
        np.testing.assert_allclose(alpha("ordinal", other), plain, rtol=1e-9, atol=1e-11)


@given(
    counts_tables(labels=(4, 4)),
    st.integers(-(10**9), 10**9),
    st.integers(-1000, 1000).filter(bool),
    st.integers(-500, 500),
)
def test_interval_alpha_shifted_and_scaled(
    counts: Floats, shift: int, scale: int, power: int
) -> None:
    """Another origin and another unit, also a very large or small one, leave interval alpha."""
    values = np.asarray([0.0, 1.0, 5.0, 7.0])
    plain = interval(counts, values)
    moved = np.ldexp(shift + scale * values, power)
    np.testing.assert_allclose(interval(counts, moved), plain, rtol=1e-9, atol=1e-11)


@given(counts_tables(labels=(2, 2)))
def test_two_labels_have_one_distance(counts: Floats) -> None:
    """With two labels all three levels are the same coefficient."""
    nominal = alpha("nominal", counts)
    for level in ("ordinal", "interval"):
        np.testing.assert_allclose(alpha(level, counts), nominal, rtol=1e-9, atol=1e-11)


@given(counts_tables(labels=(3, 3)))
def test_labels_with_one_number_are_one_label(counts: Floats) -> None:
    """Labels that share a number are merged for interval alpha."""
    merged = np.column_stack([counts[:, 0] + counts[:, 2], counts[:, 1]])
    found = interval(counts, [2, 5, 2])
    np.testing.assert_allclose(found, interval(merged, [2, 5]), rtol=1e-12, atol=1e-12)


@every_level
@given(counts=counts_tables())
def test_limits(level: Level, counts: Floats) -> None:
    """In [-1, 1]; 1 exactly where every item is unanimous and two labels are in use."""
    assert not alpha(level, counts) > 1
    assert not alpha(level, counts) < -1 - 1e-9
    unanimous = counts * (counts.max(axis=1, initial=0)[:, None] == counts.sum(axis=1)[:, None])
    used = unanimous[unanimous.sum(axis=1) >= 2].any(axis=0).sum()
    np.testing.assert_array_equal(alpha(level, unanimous), 1.0 if used > 1 else np.nan)


@every_level
@given(counts=counts_tables())
def test_single_ratings_do_not_count(level: Level, counts: Floats) -> None:
    """Items with fewer than two ratings add nothing to any sum, and leave alpha."""
    columns, _ = LEVELS[level]
    lone = counts.sum(axis=1) < 2
    assert not columns(counts)[lone].any()
    np.testing.assert_allclose(
        alpha(level, counts[~lone]), alpha(level, counts), rtol=1e-12, atol=1e-12
    )


@every_level
@given(counts=counts_tables(), seed=st.integers(0, 99))
def test_a_resample_is_the_table_of_its_items(level: Level, counts: Floats, seed: int) -> None:
    """Sums over drawn items, some twice, give alpha of the table in which they stand so often."""
    columns, of = LEVELS[level]
    drawn = np.random.default_rng(seed).integers(0, 3, size=len(counts))
    found = of(drawn.astype(np.float64) @ columns(counts))
    expected = alpha(level, np.repeat(counts, drawn, axis=0))
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("level", ["nominal", "ordinal"])
@given(one=counts_tables(labels=(3, 3)), two=counts_tables(labels=(3, 3)))
def test_sums_add_up_to_tables(level: Level, one: Floats, two: Floats) -> None:
    """Sums of two tables added give alpha of the tables one below the other.

    Not at the interval level, where each table has an origin of its own.
    """
    columns, of = LEVELS[level]
    added = columns(one).sum(axis=0) + columns(two).sum(axis=0)
    expected = alpha(level, np.vstack([one, two]))
    np.testing.assert_allclose(of(added), expected, rtol=1e-9, atol=1e-11)


@every_level
def test_resamples_come_out_in_their_shape(level: Level) -> None:
    """Sums of shape (R, m) give R values, each that of its row alone; an empty one gives NaN."""
    columns, of = LEVELS[level]
    rng = np.random.default_rng(3)
    drawn = rng.integers(0, 3, size=(4, 12)).astype(np.float64)
    drawn[3] = 0.0
    sums = drawn @ columns(rng.integers(0, 4, size=(12, 3)).astype(np.float64))
    found = of(sums)
    assert found.shape == (4,)
    np.testing.assert_array_equal(found, [of(row) for row in sums])
    assert np.isnan(found).tolist() == [False, False, False, True]


@every_level
@pytest.mark.parametrize(
    "counts",
    [
        np.zeros((0, 3)),
        np.zeros((4, 3)),
        np.zeros((0, 1)),
        np.full((3, 1), 2.0),
        np.eye(3),
        np.asarray([[2.0, 0.0, 0.0], [3.0, 0.0, 0.0], [0.0, 1.0, 0.0]]),
    ],
    ids=["no items", "no ratings", "no items, L = 1", "L = 1", "one annotator", "one label"],
)
def test_nothing_to_disagree_on_has_no_value(level: Level, counts: Floats) -> None:
    """Without a pair, or with one label only among those with a partner: NaN, without a warning."""
    assert np.isnan(alpha(level, counts))


@every_level
@pytest.mark.parametrize("counts", [[1, 2], [[1, -1]], [[0.5, 1]], [[np.nan, 1]], np.zeros((3, 0))])
def test_what_are_no_counts(level: Level, counts: ArrayLike) -> None:
    """Other shapes, negative, broken and undefined counts raise ValueError."""
    columns, _ = LEVELS[level]
    with pytest.raises(ValueError, match="counts must"):
        columns(np.asarray(counts))


@pytest.mark.parametrize("values", [[1], [1, 2, 3], [1, np.nan], [1, np.inf], [[1, 2]], 1])
def test_what_are_no_values(values: ArrayLike) -> None:
    """Numbers that are not one a label, or not finite, raise ValueError."""
    with pytest.raises(ValueError, match="values must"):
        interval_alpha_sums([[1, 1]], values=values)


def test_values_at_the_ends_of_what_a_number_can_be() -> None:
    """The largest and the smallest numbers neither overflow nor vanish."""
    counts = np.asarray([[2, 0, 0], [0, 2, 0], [0, 0, 2], [1, 1, 0], [0, 1, 1]], dtype=np.float64)
    plain = interval(counts, [-1, 0, 1])
    for size in (1.7e308, 5e-324):
        assert interval(counts, [-size, 0, size]) == pytest.approx(plain, rel=1e-12)


@pytest.mark.parametrize(
    ("level", "sums"),
    [
        ("nominal", [1.0]),
        ("nominal", 1.0),
        ("ordinal", [1.0, 2.0]),
        ("ordinal", []),
        ("interval", [1.0, 2.0]),
        ("interval", [1.0, 2.0, 3.0, 4.0]),
    ],
)
def test_what_are_no_sums(level: Level, sums: ArrayLike) -> None:
    """Numbers of sums that fit no number of labels raise ValueError."""
    with pytest.raises(ValueError, match="sums must"):
        LEVELS[level][1](sums)
