"""P-values of a bootstrap as the inverse of its interval, and Holm's correction step by step."""

from __future__ import annotations

import gc
import math
from collections.abc import Iterator
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prereg_judge.stats.resample import percentile_interval
from prereg_judge.stats.significance import bootstrap_p, holm


def drawn(resamples: int, shift: int, seed: int) -> list[int]:
    """Draws about a number, whole so that none lies so near 0 that it counts as rounding."""
    return [int(x) for x in np.random.default_rng(seed).integers(-20, 21, size=resamples) + shift]


DRAWS = st.builds(drawn, st.integers(1, 400), st.integers(-30, 30), st.integers(0, 2**32))


@pytest.fixture(autouse=True, scope="module")
def quick() -> Iterator[None]:
    """statsmodels collects garbage in every call: what is there already need not be looked at."""
    gc.freeze()
    yield
    gc.unfreeze()


P_VALUES = st.lists(st.floats(0, 1), max_size=8)


@pytest.mark.parametrize(
    ("draws", "expected"),
    [
        # Nothing in the rarer tail: 2 (1 + 0) / (R + 1).
        ([1, 2, 3, 4, 5, 6, 7, 8, 9], 2 / 10),
        ([-1, -2, -3], 2 / 4),
        # One of nine in it.
        ([-1, 2, 3, 4, 5, 6, 7, 8, 9], 4 / 10),
        # A 0 counts in both tails.
        ([0, 2, 3, 4, 5, 6, 7, 8, 9], 4 / 10),
        ([0, 0, 2, 3, 4, 5, 6, 7, 8], 6 / 10),
        # Half on either side, or only 0 beside one other: capped at 1.
        ([-1, 1], 1.0),
        ([0, 0, 0, 1], 1.0),
    ],
)
def test_tails_by_hand(draws: list[float], expected: float) -> None:
    """Draws counted by hand, and the same for the draws with the other sign."""
    assert bootstrap_p(draws) == pytest.approx(expected, rel=1e-12)
    assert bootstrap_p([-draw for draw in draws]) == bootstrap_p(draws)


@given(DRAWS)
def test_it_is_the_inverse_of_the_interval(draws: list[int]) -> None:
    """At most 0.05 only where the 95% interval leaves out 0, and there at most 4 / (R + 1) more."""
    found, interval = bootstrap_p(draws), percentile_interval(draws, level=0.95)
    assert (found is None) == (interval is None) == (len(set(draws)) == 1)
    if found is None or interval is None:
        return
    assert 2 / (len(draws) + 1) <= found <= 1
    if interval.low > 0 or interval.high < 0:
        assert found <= 0.05 + 4 / (len(draws) + 1) + 1e-12
    else:
        assert found > 0.05


@given(DRAWS, st.integers(-1000, 1000))
def test_the_unit_does_not_matter(draws: list[int], power: int) -> None:
    """Draws in a unit some powers of two larger or smaller give the same p-value."""
    assert bootstrap_p(np.ldexp(np.asarray(draws, dtype=np.float64), power)) == bootstrap_p(draws)


@given(DRAWS)
def test_it_falls_as_the_draws_leave_0(draws: list[int]) -> None:
    """Draws that are all moved further from 0, to the side they are on mostly, never raise it."""
    away = 1 if sum(draw >= 0 for draw in draws) >= sum(draw <= 0 for draw in draws) else -1
    before, after = bootstrap_p(draws), bootstrap_p([draw + away for draw in draws])
    assert (before is None) == (after is None)
    if before is not None and after is not None:
        assert after <= before


@pytest.mark.parametrize(("undefined", "given_up"), [(0, False), (5, False), (6, True)])
def test_undefined_draws(undefined: int, given_up: bool) -> None:
    """Up to 5% of undefined draws are left out; above that there is no p-value."""
    draws = [math.nan] * undefined + [-1.0] + [1.0] * (99 - undefined)
    found = bootstrap_p(draws)
    if given_up:
        assert found is None
    else:
        assert found == pytest.approx(2 * 2 / (100 - undefined + 1), rel=1e-12)


@pytest.mark.parametrize(
    "draws", [[0.3], [0.0] * 9, [0.1 + 0.2, 0.3, 0.3], [math.nan], [math.nan] * 40]
)
def test_draws_that_say_nothing(draws: list[float]) -> None:
    """One draw, draws all equal but for rounding, and none that is defined give no p-value."""
    assert bootstrap_p(draws) is None


def test_rounding_about_0_is_0() -> None:
    """A draw that is 0 but for the last digits of a sum counts in both tails."""
    noise = 0.1 + 0.2 - 0.3
    assert noise > 0
    for last in (noise, -noise):
        draws = [last, 2, 3, 4, 5, 6, 7, 8, 9]
        assert bootstrap_p(draws) == bootstrap_p([-draw for draw in draws]) == 0.4


@pytest.mark.parametrize("draws", [[], 1.0, [[1.0, 2.0]], [1.0, math.inf], [-math.inf, 1.0]])
def test_what_are_no_draws(draws: object) -> None:
    """No draw, another shape and infinite draws raise ValueError."""
    with pytest.raises(ValueError, match="draws must"):
        bootstrap_p(draws)  # type: ignore[arg-type]


def stepped(p: list[float]) -> list[float]:
    """Holm's method as he describes it, in fractions: from the smallest up, never falling."""
    found, least = [0.0] * len(p), Fraction(0)
    for step, at in enumerate(sorted(range(len(p)), key=lambda i: p[i])):
        least = max(least, (len(p) - step) * Fraction(p[at]))
        found[at] = float(min(least, Fraction(1)))
    return found


@given(P_VALUES)
def test_holm_step_by_step(p: list[float]) -> None:
    """A second implementation in exact numbers gives the same."""
    np.testing.assert_allclose(holm(p), stepped(p), rtol=1e-12)


@given(P_VALUES, st.integers(0, 3))
def test_holm_keeps_the_order(p: list[float], missing: int) -> None:
    """None is below its p or above 1, and who is smaller stays so, also beside undefined tests."""
    corrected = holm([*p, *[math.nan] * missing])
    assert np.isnan(corrected[len(p) :]).all()
    found = corrected[: len(p)]
    assert (found >= np.asarray(p)).all()
    assert (found <= 1).all()
    assert (np.diff(found[np.argsort(p)]) >= 0).all()


@given(P_VALUES, st.floats(0, 1))
def test_holm_pays_for_every_test(p: list[float], other: float) -> None:
    """Another test in the family never lowers the rest, and an undefined one costs the most."""
    alone = holm(p)
    beside, undefined = holm([*p, other])[: len(p)], holm([*p, math.nan])[: len(p)]
    assert (beside >= alone - 1e-12).all()
    assert (undefined >= beside - 1e-12).all()


def test_holm_by_hand() -> None:
    """Wikipedia, Holm-Bonferroni method: four p-values; then one, none and undefined ones."""
    np.testing.assert_allclose(holm([0.01, 0.04, 0.03, 0.005]), [0.03, 0.06, 0.06, 0.02])
    np.testing.assert_allclose(holm([0.01, math.nan, 0.04]), [0.03, math.nan, 0.08])
    np.testing.assert_array_equal(holm([0.2]), [0.2])
    np.testing.assert_array_equal(holm([math.nan, math.nan]), [math.nan, math.nan])
    np.testing.assert_array_equal(holm([0.0, 1.0]), [0.0, 1.0])
    assert holm([]).shape == (0,)


@pytest.mark.parametrize("p", [[-0.01], [0.5, 1.01], [math.inf], [[0.5]], 0.5])
def test_what_are_no_p_values(p: object) -> None:
    """Numbers outside [0, 1] and other shapes raise ValueError."""
    with pytest.raises(ValueError, match="must"):
        holm(p)  # type: ignore[arg-type]
