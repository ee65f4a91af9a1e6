"""Published figures of *Whose Gold?* on how likely a board of models changes its order."""

from __future__ import annotations

from functools import cache
from itertools import combinations
from statistics import stdev

import numpy as np
import pytest

from golden.mtbench import mtbench
from prereg_judge.study import leaderboard
from prereg_judge.study.outcomes import Assumed, Resampling, StudyInput
from study.pools_made import Votes, get, made, votes

# The paper's own board: gaps of 11.1, 2.9, 2.8, 0.8 and 2.5 pp, a span of 20.1 pp; in per mille.
BOARD = (201, 90, 61, 33, 25, 0)
# Shifts of a mean of 0 and a standard deviation of 1.87 pp; the paper says 1.9.
SHIFTS = (28, -21, 11, -13, 8, -13)
ASSUMED = Assumed(span=0.201, shift_sd=0.0187)


def outcomes(ahead: int) -> str:
    """Outcomes of 600 items by which one model leads another by so many per mille of the board.

    The mean of a model's leads over the five others is then its distance from the mean of all six,
    times 5/6 in credit: with 600 items a lead of 1 is half a win.
    """
    wins, tie = divmod(600 + ahead, 2)
    return "a" * wins + "t" * tie + "b" * (600 - wins - tie)


@cache
def board() -> StudyInput:
    """Every model against every other, by two pools whose boards differ by the shifts."""
    moved = tuple(score + shift for score, shift in zip(BOARD, SHIFTS, strict=True))
    items: list[Votes] = []
    models = []
    for i, j in combinations(range(6), 2):
        items += zip(outcomes(BOARD[i] - BOARD[j]), outcomes(moved[i] - moved[j]), strict=True)
        models += [(f"m{i}", f"m{j}")] * 600
    return made(votes(items, models=models), resampling=Resampling(1000, 9))


def test_the_fixture_has_the_published_board() -> None:
    """Gaps, span, shift SD 1.9 pp and difference SD 2.6 pp are the paper's."""
    data = board()
    gaps = [get(leaderboard, data, "gap.adjacent", place=p).value or 0 for p in range(1, 6)]
    assert [round(100 * gap, 1) for gap in gaps] == [11.1, 2.9, 2.8, 0.8, 2.5]
    sd = get(leaderboard, data, "shift.sd").value or 0
    assert sd == pytest.approx(stdev(SHIFTS) / 1000)
    assert round(100 * sd, 1) == 1.9
    assert round(100 * (get(leaderboard, data, "shift.difference_sd").value or 0), 1) == 2.6


def test_neighbours_at_the_smallest_gap() -> None:
    """*Whose Gold?*: neighbours 0.8 pp apart swap with probability 0.38."""
    found = get(leaderboard, board(), "swap.probability", place=4)
    assert round(found.value or 0, 2) == 0.38


def test_unequal_gaps_give_more_than_even_ones() -> None:
    """On the paper's own gaps the parametric routes give 0.62 (pairs as if independent) and about
    0.7 (jointly), and evenly spread over the same span 0.28; the words beside the numbers name all.
    """
    data = board()
    own = get(leaderboard, data, "displacement.pairs").value or 0
    even = get(leaderboard, data, "displacement.even_pairs", models=6).value or 0
    joint = get(leaderboard, data, "displacement.joint")
    assert own == pytest.approx(0.62, abs=0.005)
    assert even == pytest.approx(0.28, abs=0.01)
    assert joint.interval is not None
    assert joint.interval.low < 0.698 < joint.interval.high  # of 200,000 simulations
    words = " ".join(leaderboard.plain_words(data))
    assert f"{own:.2f} by independent pairs on its own gaps" in words
    assert f"{joint.value:.2f} by the joint simulation on its own gaps" in words
    assert f"{even:.2f} by independent pairs, spread evenly" in words


@pytest.mark.parametrize(
    ("models", "pairs", "joint"), [(6, 0.28, 0.29), (10, 0.86, 0.92), (20, 0.9997, 1.0), (50, 1, 1)]
)
def test_evenly_spread_boards(models: int, pairs: float, joint: float) -> None:
    """*Whose Gold?*: over a span of 20.1 pp independent pairs give 0.28, 0.86, 0.9997 and 1 at 6,
    10, 20 and 50 models; the joint simulation about 0.29, 0.92 and 1.00.
    """
    data = mtbench(resamples=20_000, assumed=ASSUMED)
    found = get(leaderboard, data, "displacement.even_pairs", models=models)
    assert found.value == pytest.approx(pairs, abs=5e-3 if pairs < 0.99 else 5e-5)
    simulated = get(leaderboard, data, "displacement.even_joint", models=models)
    assert simulated.value == pytest.approx(joint, abs=0.01)
    assert simulated.interval is not None
    assert simulated.interval.low <= (simulated.value or 0) <= simulated.interval.high


def test_more_models_change_more() -> None:
    """The probability of a changed board grows with the number of models, on both routes."""
    data = mtbench(assumed=ASSUMED)
    for name in ("displacement.even_pairs", "displacement.even_joint"):
        values = [get(leaderboard, data, name, models=k).value or 0 for k in (2, 4, 6, 10, 20)]
        assert np.all(np.diff(values) > 0)
