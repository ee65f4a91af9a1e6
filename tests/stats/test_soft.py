"""Distributions of labels: equal to scipy; a metric; exact at the ends; NaN for none."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import ArrayLike, NDArray
from scipy.spatial.distance import jensenshannon
from scipy.stats import entropy

from prereg_judge.stats.soft import jensen_shannon_distance, shannon_entropy, total_variation

Floats = NDArray[np.float64]
Distance = Callable[[ArrayLike, ArrayLike], Floats]
DISTANCES = [jensen_shannon_distance, total_variation]
# The root magnifies rounding of a divergence near 0.
NEAR_ZERO = 3e-8
every_distance = pytest.mark.parametrize("distance", DISTANCES)


@st.composite
def distributions(draw: st.DrawFn, together: int = 1) -> Floats:
    """Some distributions over the same one to five labels, from counts, shape (together, L)."""
    labels = draw(st.integers(1, 5))
    row = st.lists(st.integers(0, 6), min_size=labels, max_size=labels).filter(any)
    counts = np.array(draw(st.lists(row, min_size=together, max_size=together)), dtype=float)
    return np.asarray(counts / counts.sum(axis=1, keepdims=True))


@given(distributions())
def test_entropy_is_that_of_scipy(p: Floats) -> None:
    """Entropy in bits is scipy's, and lies between 0 and the logarithm of the labels."""
    found = shannon_entropy(p)
    np.testing.assert_allclose(found, entropy(p, base=2, axis=-1), rtol=1e-12, atol=1e-12)
    assert 0 <= found[0] <= np.log2(p.shape[1]) + 1e-12


@given(distributions(together=2))
def test_jensen_shannon_is_that_of_scipy(pair: Floats) -> None:
    """The Jensen-Shannon distance to base 2 is scipy's."""
    one, two = pair
    np.testing.assert_allclose(
        jensen_shannon_distance(one, two), jensenshannon(one, two, base=2), rtol=1e-9, atol=1e-7
    )


@given(distributions(together=2))
def test_total_variation_is_the_largest_difference_of_any_event(pair: Floats) -> None:
    """It is the most by which the two differ on any set of labels, tried one by one."""
    one, two = pair
    sets = np.array(np.meshgrid(*[[0, 1]] * len(one))).reshape(len(one), -1).T
    assert float(total_variation(one, two)) == pytest.approx(np.abs(sets @ (one - two)).max())


@every_distance
@given(three=distributions(together=3))
def test_they_are_metrics(distance: Distance, three: Floats) -> None:
    """Distances are 0 to itself, the same both ways, at most 1, and no detour is shorter."""
    p, q, r = three
    for one in three:
        assert distance(one, one) == 0
    assert distance(p, q) == distance(q, p)
    assert 0 <= distance(p, q) <= 1
    assert distance(p, r) <= distance(p, q) + distance(q, r) + NEAR_ZERO


@every_distance
@given(pair=distributions(together=2), data=st.data())
def test_names_of_labels_do_not_matter(
    distance: Distance, pair: Floats, data: st.DataObject
) -> None:
    """Permuting the labels leaves entropy and distances as they are."""
    order = data.draw(st.permutations(range(pair.shape[1])))
    moved = pair[:, order]
    np.testing.assert_allclose(shannon_entropy(moved), shannon_entropy(pair), atol=1e-12)
    np.testing.assert_allclose(distance(*moved), distance(*pair), atol=NEAR_ZERO)


@given(distributions(together=2))
def test_the_two_distances_bound_each_other(pair: Floats) -> None:
    """The squared Jensen-Shannon distance is at most the total variation (Lin, 1991)."""
    assert jensen_shannon_distance(*pair) ** 2 <= total_variation(*pair) + 1e-12


def test_the_ends_are_exact() -> None:
    """One label has no entropy, four equal ones two bits; without a common one they are 1 apart."""
    assert shannon_entropy([[0.0, 1.0, 0.0, 0.0], [0.25] * 4, [0.5, 0.5, 0, 0]]).tolist() == [
        0.0,
        2.0,
        1.0,
    ]
    assert str(shannon_entropy([1.0])) == "0.0"
    for distance in DISTANCES:
        assert distance([0.5, 0.5, 0, 0], [0, 0, 0.25, 0.75]) == 1
        assert distance([1.0], [1.0]) == 0


def test_worked_by_hand() -> None:
    """(1, 0) and (1/2, 1/2): H(3/4, 1/4) - 1/2 = 0.3113 bits and its root; half has to move."""
    divergence = (0.75 * np.log2(4 / 3) + 0.25 * 2) - 0.5
    found = jensen_shannon_distance([1.0, 0.0], [0.5, 0.5])
    assert float(found) == pytest.approx(divergence**0.5, rel=1e-12)
    assert round(float(found) ** 2, 4) == 0.3113
    assert total_variation([1.0, 0.0], [0.5, 0.5]) == 0.5


def test_a_share_too_small_to_halve() -> None:
    """The smallest positive number as a share leads to no division by 0."""
    tiny = float(np.nextafter(0.0, 1.0))
    for distance in DISTANCES:
        assert 0 <= distance([1.0, tiny], [1.0, 0.0]) < 1e-100


def test_no_distribution_gives_nan() -> None:
    """Rows of zeros and of NaN are items without a rating; their neighbours keep their values."""
    rows = np.array([[0.0, 0.0], [0.5, 0.5], [np.nan, np.nan]])
    np.testing.assert_array_equal(shannon_entropy(rows), [np.nan, 1, np.nan])
    for distance in DISTANCES:
        np.testing.assert_array_equal(distance(rows, [0.5, 0.5]), [np.nan, 0, np.nan])
        np.testing.assert_array_equal(distance([0.5, 0.5], rows), [np.nan, 0, np.nan])


def test_shapes() -> None:
    """Results have the leading shape, distributions broadcast, and nothing gives nothing."""
    rows = np.tile([0.25, 0.75], (2, 3, 1))
    assert shannon_entropy(rows).shape == (2, 3)
    assert shannon_entropy(np.zeros((0, 2))).shape == (0,)
    for distance in DISTANCES:
        assert distance(rows, [0.5, 0.5]).shape == (2, 3)
        assert distance([0.5, 0.5], [0.5, 0.5]).shape == ()
        with pytest.raises(ValueError, match="differ in labels"):
            distance([1.0], [0.5, 0.5])


@pytest.mark.parametrize(
    "p", [[0.5, 0.6], [1.5, -0.5], [2.0, 3.0], 1.0, np.zeros((2, 0)), [np.inf]]
)
def test_what_is_no_distribution_is_refused(p: ArrayLike) -> None:
    """Shares that are negative or do not add up to 1, such as counts, are errors."""
    with pytest.raises(ValueError, match="p must"):
        shannon_entropy(p)
    for distance in DISTANCES:
        with pytest.raises(ValueError, match="q must"):
            distance([0.5, 0.5], p)
