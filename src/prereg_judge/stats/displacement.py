"""How likely a board of models changes its order when every score shifts a little.

Two routes that do not agree, and are named apart: adjacent pairs as if they were independent, and
all shifts drawn jointly. Both take shifts as normal and independent between models. Knows numbers
and arrays only.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtr

from prereg_judge.stats.proportions import wilson_interval

Floats = NDArray[np.float64]

# Confidence of the limits on a simulated probability: they speak of the simulation, not of data.
SIMULATION_LEVEL = 0.95
_BLOCK = 1_000_000


def _check_spread(name: str, value: float) -> None:
    if not (math.isfinite(value) and value >= 0):
        raise ValueError(f"{name} must be finite and not negative, not {value!r}")


def swap_probability(gap: float, *, sd: float) -> float:
    """Probability that two models change places: Phi(-gap / sd).

    Parameters
    ----------
    gap
        Distance of their scores, finite, >= 0.
    sd
        Standard deviation of the difference of their shifts, in the unit of the gap, finite, >= 0:
        sqrt(2) times that of one model's shift where shifts are independent.

    Returns
    -------
    float
        In [0, 0.5].

    Raises
    ------
    ValueError
        When an argument is outside its range.

    Notes
    -----
    Degenerate cases: with sd = 0 nothing moves and the probability is 0, also at a gap of 0; with
    sd > 0 and a gap of 0 it is 0.5.
    """
    _check_spread("gap", gap)
    _check_spread("sd", sd)
    return float(ndtr(-gap / sd)) if sd > 0 else 0.0


def any_swap_if_independent(gaps: Sequence[float], *, sd: float) -> float:
    """Probability that some adjacent pair changes places, taking pairs as independent.

    Parameters
    ----------
    gaps
        Distances between neighbours on the board, at least one, each finite and >= 0.
    sd
        Standard deviation of the difference of two shifts, in the unit of the gaps, finite, >= 0.

    Returns
    -------
    float
        1 - prod(1 - p) with p by `swap_probability`, in [0, 1).

    Raises
    ------
    ValueError
        When there is no gap or an argument is outside its range.

    Notes
    -----
    An approximation: two neighbouring pairs share a model, and when one changes places the other is
    less likely to. `any_swap_jointly` does without it, and gives more.
    """
    if len(gaps) == 0:
        raise ValueError("gaps must hold at least one")
    # As logarithms: 1 - prod would lose what is left beside 1.
    stays = math.fsum(math.log1p(-swap_probability(float(gap), sd=sd)) for gap in gaps)
    return -math.expm1(stays)


@dataclass(frozen=True)
class Simulated:
    """A probability that was simulated.

    Attributes
    ----------
    probability
        Share of the simulations in which it happened, in [0, 1].
    low, high
        Wilson interval at 95% of what more simulations would give: the error of the simulation
        alone, nothing about the data.
    simulations
        Their number.
    """

    probability: float
    low: float
    high: float
    simulations: int


def any_swap_jointly(
    scores: ArrayLike, *, shift_sd: float, simulations: int, seed: int
) -> Simulated:
    """Probability that the order of the board changes when each score shifts by itself.

    Parameters
    ----------
    scores
        Scores of K >= 2 models, shape (K,), in any order, finite.
    shift_sd
        Standard deviation of one model's shift, in the unit of the scores, finite, >= 0.
    simulations
        How many boards are drawn, >= 1.
    seed
        Whole number >= 0 that the draws depend on.

    Returns
    -------
    Simulated
        Share of the drawn boards on which some model overtook another.

    Raises
    ------
    ValueError
        When an argument is outside its range or has another shape.

    Notes
    -----
    Degenerate cases: with shift_sd = 0 the probability is 0. Models of equal score count as ordered
    one way, so that they change places in half of the boards, as in `swap_probability`.
    """
    board = np.asarray(scores, dtype=np.float64)
    if board.ndim != 1 or len(board) < 2:
        raise ValueError(f"scores must have the shape (K,) with K >= 2, not {board.shape}")
    if not np.isfinite(board).all():
        raise ValueError("scores must be finite")
    _check_spread("shift_sd", shift_sd)
    if simulations < 1:
        raise ValueError(f"simulations must be at least 1, not {simulations}")
    best_first = np.sort(board)[::-1]
    generator = np.random.Generator(np.random.PCG64(seed))
    some = max(1, _BLOCK // len(board))
    changed = 0
    for start in range(0, simulations, some):
        shape = (min(some, simulations - start), len(board))
        shifted = best_first + shift_sd * generator.standard_normal(shape)
        # The order holds exactly where no neighbour does.
        changed += int((np.diff(shifted, axis=1) > 0).any(axis=1).sum())
    low, high = wilson_interval(changed, simulations, level=SIMULATION_LEVEL)
    return Simulated(changed / simulations, low, high, simulations)


def evenly_spread(span: float, *, models: int) -> Floats:
    """Scores of a board on which all neighbours are equally far apart.

    Parameters
    ----------
    span
        Distance between the best and the worst score, finite, >= 0.
    models
        Number of models, >= 2.

    Returns
    -------
    ndarray
        Scores from `span` down to 0, shape (models,), in the unit of the span.

    Raises
    ------
    ValueError
        When an argument is outside its range.
    """
    _check_spread("span", span)
    if models < 2:
        raise ValueError(f"models must be at least 2, not {models}")
    return np.linspace(span, 0.0, models)
