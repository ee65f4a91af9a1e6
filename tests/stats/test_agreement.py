"""Agreement and kappas: against statsmodels and fractions; invariants; where there is none."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from itertools import permutations
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import ArrayLike, NDArray
from statsmodels.stats.inter_rater import cohens_kappa, fleiss_kappa

from prereg_judge.stats.agreement import (
    Coefficient,
    ac1_of,
    agreement_of,
    cohen_of,
    cohen_sums,
    fleiss_of,
    linear_weights,
    pair_sums,
    quadratic_weights,
    share_sums,
    weighted_of,
)
from stats.rated_tables import Codes, Floats, code_pairs, counts_of, counts_tables, ratings_of
from stats.rated_tables import random_ratings as rated

Pair = tuple[Codes, Codes, int]
OF_SHARES: list[Callable[[ArrayLike], Coefficient]] = [fleiss_of, ac1_of]


def as_number(found: Fraction | None) -> float:
    """A fraction as a float, NaN for none."""
    return float("nan") if found is None else float(found)


def mean(parts: list[Fraction]) -> Fraction | None:
    """The mean, None of nothing."""
    return sum(parts, Fraction(0)) / len(parts) if parts else None


def exact_shares(counts: Floats) -> tuple[Fraction | None, list[Fraction] | None]:
    """P_o from every ordered pair of ratings of an item, and the mean share of each label."""
    items = [ratings_of(row) for row in counts]
    pairs = [list(permutations(item, 2)) for item in items if len(item) >= 2]
    observed = mean([Fraction(sum(a == b for a, b in one), len(one)) for one in pairs])
    rated_items = [item for item in items if item]
    if not rated_items:
        return observed, None
    return observed, [
        sum((Fraction(item.count(k), len(item)) for item in rated_items), Fraction(0))
        / len(rated_items)
        for k in range(counts.shape[1])
    ]


def corrected(observed: Fraction | None, expected: Fraction | None) -> float:
    """(P_o - P_e) / (1 - P_e), NaN where there is none."""
    if observed is None or expected is None or expected == 1:
        return float("nan")
    return float((observed - expected) / (1 - expected))


def agrees(found: Coefficient, observed: Fraction | None, expected: Fraction | None) -> None:
    """All three numbers of a coefficient are these."""
    np.testing.assert_allclose(
        [found.observed, found.expected, found.value],
        [as_number(observed), as_number(expected), corrected(observed, expected)],
        rtol=1e-9,
        atol=1e-12,
    )


@given(counts_tables())
def test_fleiss_and_ac1_in_fractions(counts: Floats) -> None:
    """A second implementation over pairs of ratings, in exact numbers, with missing ratings."""
    sums = share_sums(counts).sum(axis=0)
    observed, shares = exact_shares(counts)
    fleiss = None if shares is None else sum((p * p for p in shares), Fraction(0))
    agrees(fleiss_of(sums), observed, fleiss)
    labels = counts.shape[1]
    chance = None
    if shares is not None and labels > 1:
        chance = sum((p * (1 - p) for p in shares), Fraction(0)) / (labels - 1)
    agrees(ac1_of(sums), observed, chance)


@given(counts_tables())
def test_raw_agreement_in_fractions(counts: Floats) -> None:
    """Every pair of ratings of the same item counts once, whatever the item has beside it."""
    pairs = [pair for row in counts for pair in permutations(ratings_of(row), 2)]
    found = float(agreement_of(pair_sums(counts).sum(axis=0)))
    expected = Fraction(sum(a == b for a, b in pairs), len(pairs)) if pairs else None
    np.testing.assert_array_equal(found, as_number(expected))


@given(code_pairs())
def test_cohen_in_fractions(pair: Pair) -> None:
    """Exactly the correctly rounded fraction, from the items that both labelled."""
    first, second, labels = pair
    both = [(a, b) for a, b in zip(first, second, strict=True) if a >= 0 and b >= 0]
    found = cohen_of(cohen_sums(first, second, labels=labels).sum(axis=0))
    observed = mean([Fraction(int(a == b)) for a, b in both])
    expected = mean([Fraction(int(a == b)) for a, _ in both for _, b in both])
    np.testing.assert_array_equal(found.observed, as_number(observed))
    np.testing.assert_array_equal(found.expected, as_number(expected))
    np.testing.assert_array_equal(found.value, corrected(observed, expected))


@pytest.mark.parametrize("seed", range(40))
def test_cohen_against_statsmodels(seed: int) -> None:
    """Plain, linear and quadratic kappa of random tables with missing labels are statsmodels'."""
    rng = np.random.default_rng(seed)
    labels = int(rng.integers(2, 7))
    ratings = rated(rng, raters=2, items=int(rng.integers(30, 200)), labels=labels, missing=0.2)
    first, second = np.where(np.isnan(ratings), -1, ratings).astype(np.intp)
    both = (first >= 0) & (second >= 0)
    table = np.zeros((labels, labels))
    np.add.at(table, (first[both], second[both]), 1)
    sums = cohen_sums(first, second, labels=labels).sum(axis=0)
    found = [
        cohen_of(sums).value,
        weighted_of(sums, weights=linear_weights(labels)).value,
        weighted_of(sums, weights=quadratic_weights(labels)).value,
    ]
    expected = [
        cohens_kappa(table, wt=wt, return_results=False) for wt in (None, "linear", "quadratic")
    ]
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("seed", range(20))
def test_fleiss_against_statsmodels(seed: int) -> None:
    """Complete random tables, which is all that statsmodels takes."""
    rng = np.random.default_rng(seed)
    raters, labels = int(rng.integers(2, 8)), int(rng.integers(2, 6))
    counts = counts_of(rated(rng, raters=raters, items=50, labels=labels, missing=0.0), labels)
    found = float(fleiss_of(share_sums(counts).sum(axis=0)).value)
    assert found == pytest.approx(fleiss_kappa(counts), rel=1e-9, abs=1e-12)


@given(counts_tables(), st.randoms(use_true_random=False))
def test_names_of_labels_do_not_matter(counts: Floats, random: Random) -> None:
    """Labels in another order leave raw agreement, Fleiss' kappa and AC1 as they are."""
    order = list(range(counts.shape[1]))
    random.shuffle(order)
    other = counts[:, order]
    for of in OF_SHARES:
        one, two = of(share_sums(counts).sum(axis=0)), of(share_sums(other).sum(axis=0))
        np.testing.assert_allclose(one.value, two.value, rtol=1e-9, atol=1e-12)
    np.testing.assert_array_equal(pair_sums(counts), pair_sums(other))


@given(code_pairs(), st.randoms(use_true_random=False))
def test_names_and_order_of_annotators_do_not_matter(pair: Pair, random: Random) -> None:
    """Renamed labels leave Cohen's kappa, and annotators may change places in it."""
    first, second, labels = pair
    names = list(range(labels))
    random.shuffle(names)
    renamed = np.asarray([*names, -1])  # the place -1 is the last one
    plain = cohen_of(cohen_sums(first, second, labels=labels).sum(axis=0))
    for one, two in [(second, first), (renamed[first], renamed[second])]:
        found = cohen_of(cohen_sums(one, two, labels=labels).sum(axis=0))
        np.testing.assert_array_equal(found.value, plain.value)
        np.testing.assert_array_equal(found.expected, plain.expected)


@given(code_pairs(), st.sampled_from([linear_weights, quadratic_weights]))
def test_weighted_kappa_reversed_and_swapped(
    pair: Pair, of: Callable[[int], NDArray[np.float64]]
) -> None:
    """The reverse order of labels, the annotators swapped and larger weights change nothing."""
    first, second, labels = pair
    weights = of(labels)
    plain = weighted_of(cohen_sums(first, second, labels=labels).sum(axis=0), weights=weights)
    last = [np.where(codes < 0, -1, labels - 1 - codes) for codes in pair[:2]]
    for one, two in [(second, first), (last[0], last[1])]:
        sums = cohen_sums(one, two, labels=labels).sum(axis=0)
        for more in (weights, 8 * weights):
            found = weighted_of(sums, weights=more)
            np.testing.assert_array_equal(found.value, plain.value)
            np.testing.assert_array_equal(found.observed, plain.observed)
    if not np.isnan(plain.value):
        assert -1 - 1e-12 <= float(plain.value) <= 1


@given(code_pairs())
def test_equal_weights_are_the_plain_kappa(pair: Pair) -> None:
    """Where all labels disagree alike, weighted kappa is Cohen's, with its P_o and P_e."""
    first, second, labels = pair
    sums = cohen_sums(first, second, labels=labels).sum(axis=0)
    found = weighted_of(sums, weights=1 - np.eye(labels))
    plain = cohen_of(sums)
    for name in ("value", "observed", "expected"):
        one, two = getattr(found, name), getattr(plain, name)
        np.testing.assert_allclose(one, two, rtol=1e-12, atol=1e-12)


@given(counts_tables())
def test_limits_of_fleiss_and_ac1(counts: Floats) -> None:
    """At most 1, and exactly 1 for unanimous items; -1 at least where no item has one rating."""
    unanimous = counts * (counts.max(axis=1, initial=0)[:, None] == counts.sum(axis=1)[:, None])
    paired = counts[counts.sum(axis=1) != 1]
    for of in OF_SHARES:
        assert not of(share_sums(counts).sum(axis=0)).value > 1
        assert not of(share_sums(paired).sum(axis=0)).value < -1 - 1e-12
        alike = of(share_sums(unanimous).sum(axis=0))
        if not np.isnan(alike.value):
            assert float(alike.value) == 1.0
    assert not ac1_of(share_sums(counts).sum(axis=0)).value < -1 - 1e-12


@given(code_pairs())
def test_limits_of_cohen(pair: Pair) -> None:
    """In [-1, 1]; 1 exactly where all items agree, unless both used one label."""
    first, second, labels = pair
    value = cohen_of(cohen_sums(first, second, labels=labels).sum(axis=0)).value
    assert np.isnan(value) or -1 <= float(value) <= 1
    same = cohen_of(cohen_sums(first, first, labels=labels).sum(axis=0)).value
    used = {int(code) for code in first if code >= 0}
    np.testing.assert_array_equal(same, 1.0 if len(used) > 1 else np.nan)


@given(counts_tables(labels=(3, 3)), counts_tables(labels=(3, 3)))
def test_sums_add_up_to_tables(one: Floats, two: Floats) -> None:
    """Sums of two tables added are those of the tables one below the other."""
    below = np.vstack([one, two])
    np.testing.assert_array_equal(
        pair_sums(one).sum(axis=0) + pair_sums(two).sum(axis=0), pair_sums(below).sum(axis=0)
    )
    added = share_sums(one).sum(axis=0) + share_sums(two).sum(axis=0)
    for of in OF_SHARES:
        found, expected = of(added).value, of(share_sums(below).sum(axis=0)).value
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)


def test_resamples_come_out_in_their_shape() -> None:
    """Sums of shape (R, m) give R values, each that of its row alone."""
    rng = np.random.default_rng(5)
    counts = rng.integers(0, 4, size=(12, 3)).astype(np.float64)
    drawn = rng.integers(0, 3, size=(4, 12)).astype(np.float64)
    drawn[3] = 0.0
    first, second = rng.integers(-1, 3, size=(2, 12))
    cases: list[tuple[Floats, Callable[[ArrayLike], Floats]]] = [
        (share_sums(counts), lambda sums: fleiss_of(sums).value),
        (share_sums(counts), lambda sums: ac1_of(sums).value),
        (pair_sums(counts), agreement_of),
        (cohen_sums(first, second, labels=3), lambda sums: cohen_of(sums).value),
        (
            cohen_sums(first, second, labels=3),
            lambda sums: weighted_of(sums, weights=linear_weights(3)).value,
        ),
    ]
    for columns, of in cases:
        sums = drawn @ columns
        found = of(sums)
        assert found.shape == (4,)
        np.testing.assert_array_equal(found, [of(row) for row in sums])
        assert np.isnan(found).tolist() == [False, False, False, True]


@pytest.mark.parametrize("items", [0, 1, 5])
@pytest.mark.parametrize("labels", [1, 3])
def test_nothing_rated_has_no_value(items: int, labels: int) -> None:
    """No items, or items without any rating: every number is NaN, without a warning."""
    counts = np.zeros((items, labels))
    assert np.isnan(agreement_of(pair_sums(counts).sum(axis=0)))
    missing = np.full(items, -1)
    table = cohen_sums(missing, missing, labels=labels).sum(axis=0)
    for found in (
        fleiss_of(share_sums(counts).sum(axis=0)),
        ac1_of(share_sums(counts).sum(axis=0)),
        cohen_of(table),
        weighted_of(table, weights=linear_weights(labels)),
    ):
        assert np.isnan([found.value, found.observed, found.expected]).all()


def test_one_annotator_has_no_agreement() -> None:
    """Items with one rating each have shares of labels, hence P_e, but neither P_o nor a value."""
    counts = np.eye(2)[[0, 1, 0, 0]]
    assert np.isnan(agreement_of(pair_sums(counts).sum(axis=0)))
    for of, chance in zip(OF_SHARES, (0.625, 0.375), strict=True):
        found = of(share_sums(counts).sum(axis=0))
        assert np.isnan([found.value, found.observed]).all()
        assert float(found.expected) == chance
    alone = cohen_of(cohen_sums([0, 1, 0], [-1, -1, -1], labels=2).sum(axis=0))
    assert np.isnan([alone.value, alone.observed, alone.expected]).all()


def test_one_label_only() -> None:
    """Always the same label: kappas have no value; AC1 is 1 of two labels, and none of one."""
    for labels in (1, 2):
        counts = np.eye(labels)[[0, 0, 0]] * 2
        assert float(agreement_of(pair_sums(counts).sum(axis=0))) == 1.0
        fleiss = fleiss_of(share_sums(counts).sum(axis=0))
        table = cohen_sums([0, 0, 0], [0, 0, 0], labels=labels).sum(axis=0)
        for found in (fleiss, cohen_of(table), weighted_of(table, weights=linear_weights(labels))):
            assert np.isnan(found.value)
            assert float(found.observed) == float(found.expected) == 1.0
    assert float(ac1_of([3.0, 3.0, 3.0, 3.0, 0.0]).value) == 1.0
    lone = ac1_of([3.0, 3.0, 3.0, 3.0])
    assert float(lone.observed) == 1.0
    assert np.isnan([lone.expected, lone.value]).all()


def test_a_single_rating_moves_chance_only() -> None:
    """Single ratings count towards the shares of labels and not towards P_o, as in irrCAC; with
    enough of one label Fleiss' kappa falls far below -1.
    """
    counts = np.asarray([[1, 1]] + [[1, 0]] * 98, dtype=np.float64)
    found = fleiss_of(share_sums(counts).sum(axis=0))
    assert float(found.observed) == 0.0
    assert float(found.expected) == pytest.approx((98.5 / 99) ** 2 + (0.5 / 99) ** 2)
    assert float(found.value) < -90


def test_weights_by_hand() -> None:
    """Steps between four labels, and their squares; one label has no distance."""
    np.testing.assert_array_equal(linear_weights(4)[0], [0, 1, 2, 3])
    np.testing.assert_array_equal(quadratic_weights(4)[2], [4, 1, 0, 1])
    for of in (linear_weights, quadratic_weights):
        np.testing.assert_array_equal(of(1), [[0.0]])
        with pytest.raises(ValueError, match="at least 1"):
            of(0)


@pytest.mark.parametrize(
    "counts", [[1, 2], [[1, -1]], [[0.5, 1]], [[np.nan, 1]], [[np.inf, 1]], np.zeros((3, 0))]
)
def test_what_are_no_counts(counts: ArrayLike) -> None:
    """Other shapes, negative, broken and infinite counts raise ValueError."""
    for sums in (pair_sums, share_sums):
        with pytest.raises(ValueError, match="counts must"):
            sums(counts)


@pytest.mark.parametrize(
    ("first", "second", "labels"),
    [
        ([0, 1], [0], 2),
        ([[0]], [[0]], 2),
        ([2], [0], 2),
        ([0], [-2], 2),
        ([0.0], [1.0], 2),
        ([0], [0], 0),
    ],
)
def test_what_are_no_codes(first: ArrayLike, second: ArrayLike, labels: int) -> None:
    """Unequal lengths, other shapes, places out of range or not whole, and L = 0 raise."""
    with pytest.raises(ValueError, match="must be"):
        cohen_sums(first, second, labels=labels)


@pytest.mark.parametrize(
    "weights",
    [np.zeros((3, 3)), [[0, 1], [-1, 0]], [[1, 1], [1, 0]], [[0, np.inf], [1, 0]], [0, 1, 1, 0]],
)
def test_what_are_no_weights(weights: ArrayLike) -> None:
    """Another shape, negative or infinite weights and a diagonal that is not 0 raise ValueError."""
    with pytest.raises(ValueError, match="weights must"):
        weighted_of([1.0, 2.0, 3.0, 4.0], weights=weights)


def test_what_are_no_sums() -> None:
    """Fewer sums than the coefficient needs, or a table that is not square, raise ValueError."""
    calls: list[Callable[[], object]] = [
        lambda: agreement_of([1.0]),
        lambda: fleiss_of([1.0, 1.0, 1.0]),
        lambda: ac1_of(1.0),
        lambda: cohen_of([1.0, 2.0, 3.0]),
        lambda: weighted_of([1.0, 2.0], weights=[[0.0]]),
    ]
    for call in calls:
        with pytest.raises(ValueError, match="sums must"):
            call()
