"""What a position and a lean come to for the measures of order: closed form and brute force."""

from __future__ import annotations

import numpy as np
import pytest

from flow.pairs_drafts import SCALES, by_brute_force
from prereg_judge.flow.assumptions import RowAssumptions, SlotPull, slot_verdicts
from prereg_judge.flow.rehearsal_notes import order_effects
from prereg_judge.study.outcomes import PairScale
from study.pairs_made import THREE


def assumed_row(scale: PairScale, *, agreement: float, position: float) -> RowAssumptions:
    """Rows with a position and no lean."""
    given = slot_verdicts(list(scale.sides), scale.sides, first=position > 0)
    return RowAssumptions(agreement, None, None, 0.0, SlotPull(position, given))


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("position", [-1.0, -0.4, 0.0, 0.2, 1.0])
def test_a_position_makes_half_of_it_and_its_square(scale: str, position: float) -> None:
    """On every scale, at every agreement and on every row the bias is q / 2 and the excess q^2."""
    pair = SCALES[scale]
    for agreement in (1 / len(pair.sides), 0.7, 1.0):
        row = assumed_row(pair, agreement=agreement, position=position)
        bias, excess = order_effects(row, list(pair.sides), pair)
        assert bias == pytest.approx((position / 2,) * 2, abs=1e-12)
        assert excess == pytest.approx((position**2,) * 2, abs=1e-12)


@pytest.mark.parametrize("scale", SCALES)
def test_brute_force_says_the_same(scale: str) -> None:
    """A judge that is played call by call, without the tool, has the bias and excess expected."""
    position = -0.35
    bias, excess = by_brute_force(
        SCALES[scale], agreement=0.7, position=position, n=20_000, seed=11
    )
    assert abs(bias[0] - position / 2) < 4.5 * bias[1]
    assert abs(excess[0] - position**2) < 4.5 * excess[1]
    assert bias[1] < 0.005  # narrow enough to tell q / 2 from q
    assert excess[1] < 0.01


def test_a_lean_is_a_position_too_unless_it_is_to_a_tie() -> None:
    """Leaning to A moves verdicts to the first place by half of its chance, to a tie by nothing."""
    names = list(THREE.sides)
    to_a = RowAssumptions(0.7, None, ("A", 0.3), 0.0)
    assert order_effects(to_a, names, THREE)[0] == pytest.approx((0.15, 0.15))
    assert order_effects(to_a, names, THREE)[1] == pytest.approx((0.09, 0.09))
    to_tie = RowAssumptions(0.7, None, ("tie", 0.3), 0.0)
    assert np.allclose(order_effects(to_tie, names, THREE), 0.0, atol=1e-12)
    given = slot_verdicts(names, THREE.sides, first=True)
    both = RowAssumptions(0.7, None, ("A", 0.3), 0.0, SlotPull(0.5, given))
    # The position goes first, and the lean has its chance in what is left: half of 0.3.
    assert order_effects(both, names, THREE)[0] == pytest.approx((0.325, 0.325))
