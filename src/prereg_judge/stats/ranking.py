"""Boards of models: how alike two rankings are, who moved, and strengths from wins alone.

Every function takes any number of leading axes, so that the boards of all resamples go in at once.
NaN stands for a board that has no answer: `stats.resample.percentile_interval` counts those. Knows
arrays only.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit

from prereg_judge.stats.resample import BLOCK_BYTES, Floats

# Bradley-Terry: the largest step in log strength at which the search ends, and its most steps.
CONVERGED = 1e-8
MOST_STEPS = 500
# Newton's step is cut where a difference of two compared log strengths would change by more.
_LONGEST = 1.0
# Keeps equations solvable that rounding made singular. Changes the steps by so little that it
# does not matter, and what they lead to not at all.
_RIDGE = 1e-12

Bools = NDArray[np.bool_]


def _two_boards(a: ArrayLike, b: ArrayLike) -> tuple[Floats, Floats]:
    first, second = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    if first.ndim < 1 or second.ndim < 1 or first.shape[-1] != second.shape[-1]:
        raise ValueError(
            f"boards must hold the same models on the last axis, not {first.shape} "
            f"and {second.shape}"
        )
    first, second = np.broadcast_arrays(first, second)
    return first, second


def kendall_tau_b(a: ArrayLike, b: ArrayLike) -> Floats:
    """Kendall's tau-b of two sets of scores of the same models.

    Parameters
    ----------
    a, b
        Scores, shapes (..., K) that broadcast, any unit; only their order matters.

    Returns
    -------
    ndarray
        tau-b in [-1, 1], shape (...). NaN where one side gives all models the same score, where
        a score is NaN and where K < 2.

    Raises
    ------
    ValueError
        When the shapes do not fit.

    Notes
    -----
    Ties are exact ties: scores that should be equal must be computed alike.
    Source: Kendall (1945), doi:10.1093/biomet/33.3.239.
    """
    first, second = _two_boards(a, b)
    concordance, untied_a, untied_b = (np.zeros(first.shape[:-1]) for _ in range(3))
    # One model against all after it: memory grows with K, not with its square.
    for i in range(first.shape[-1] - 1):
        of_a = np.sign(first[..., i, None] - first[..., i + 1 :])
        of_b = np.sign(second[..., i, None] - second[..., i + 1 :])
        concordance += (of_a * of_b).sum(axis=-1)
        untied_a += np.abs(of_a).sum(axis=-1)
        untied_b += np.abs(of_b).sum(axis=-1)
    scale = np.sqrt(untied_a * untied_b)
    tau = np.full(scale.shape, np.nan)
    np.divide(concordance, scale, out=tau, where=scale != 0)
    return tau


def ranks(scores: ArrayLike) -> Floats:
    """Competition ranks: 1 for the best, models with equal scores share the best of their ranks.

    Parameters
    ----------
    scores
        Scores, shape (..., K), any unit, more is better.

    Returns
    -------
    ndarray
        Whole numbers from 1 to K, shape (..., K). A board with a score that is NaN is all NaN:
        nobody's place is known then.

    Raises
    ------
    ValueError
        When there is no axis of models.
    """
    board = np.asarray(scores, dtype=np.float64)
    if board.ndim < 1:
        raise ValueError("scores must have the models on the last axis")
    better = np.zeros(board.shape)
    for i in range(board.shape[-1]):
        better += board[..., i, None] > board
    better[np.isnan(board).any(axis=-1)] = np.nan
    return better + 1.0


def displaced(a: ArrayLike, b: ArrayLike) -> Floats:
    """How many models do not have the same rank on two boards.

    Parameters
    ----------
    a, b
        Scores, shapes (..., K) that broadcast, any unit, more is better.

    Returns
    -------
    ndarray
        Whole numbers from 0 to K, shape (...), by `ranks`. NaN where a score is NaN.

    Raises
    ------
    ValueError
        When the shapes do not fit.

    Notes
    -----
    Degenerate case: a tie on one board only displaces a model, although none overtook another.
    """
    first, second = _two_boards(a, b)
    of_a, of_b = ranks(first), ranks(second)
    moved: Floats = (of_a != of_b).sum(axis=-1).astype(np.float64)
    unknown = np.isnan(of_a).any(axis=-1) | np.isnan(of_b).any(axis=-1)
    return np.where(unknown, np.nan, moved)


def _wins(wins: ArrayLike) -> Floats:
    table = np.asarray(wins, dtype=np.float64)
    if table.ndim < 2 or table.shape[-1] != table.shape[-2] or table.shape[-1] == 0:
        raise ValueError(f"wins must have the shape (..., K, K) with K >= 1, not {table.shape}")
    if not np.isfinite(table).all() or (table < 0).any():
        raise ValueError("wins must be finite and not negative")
    if np.diagonal(table, axis1=-2, axis2=-1).any():
        raise ValueError("a model cannot win against itself: the diagonal must be 0")
    return table


def connected(wins: ArrayLike) -> Bools:
    """Whether strengths can be told from wins: every model is, over others, better than every one.

    Parameters
    ----------
    wins
        How often the model of the row won against the model of the column, shape (..., K, K),
        finite, >= 0, the diagonal 0. A tie is half a win for each.

    Returns
    -------
    ndarray of bool
        Shape (...): whether from every model a chain of wins leads to every other. Where none does,
        the models fall into two groups of which one never won against the other, and no finite
        strengths fit best.

    Raises
    ------
    ValueError
        When the shape is another, a number is negative or not finite, or the diagonal is not 0.

    Notes
    -----
    Degenerate case: one model alone is connected.
    Source: Ford (1957), doi:10.2307/2308513.
    """
    beats = _wins(wins) > 0
    return _all_reached(beats) & _all_reached(np.swapaxes(beats, -1, -2))


def _all_reached(beats: Bools) -> Bools:
    """Whether a chain of wins leads from the first model to every other, shape (...)."""
    reached = np.zeros(beats.shape[:-1], dtype=bool)
    reached[..., 0] = True
    while True:
        wider = reached | (reached[..., None] & beats).any(axis=-2)
        if np.array_equal(wider, reached):
            return np.asarray(reached.all(axis=-1))
        reached = wider


def bradley_terry(wins: ArrayLike) -> Floats:
    """Strengths of Bradley and Terry that make the wins most likely.

    Parameters
    ----------
    wins
        How often the model of the row won against the model of the column, shape (..., K, K),
        finite, >= 0, the diagonal 0. A tie is half a win for each.

    Returns
    -------
    ndarray
        Natural logarithms of the strengths, shape (..., K), mean 0: the model i wins against j with
        the odds exp(x_i - x_j). A board is all NaN where `connected` says no, and where the search
        has not come to rest after `MOST_STEPS` steps. The second was seen only on boards whose
        strengths span a factor of about 1e16 and more, which rounding hides.

    Raises
    ------
    ValueError
        As `connected`.

    Notes
    -----
    Newton's method. A step is cut so that the log strengths of no two models that met move apart by
    more than 1: within that distance the curvature changes by less than a factor e, so that every
    step makes the wins more likely and the search cannot run away. Ends when no log strength moves
    by 1e-8; since uncut steps shrink quadratically, what is left then is far less.
    Degenerate cases: one model alone has 0; a model that always wins has no finite strength, so its
    board is NaN.
    Source: Bradley and Terry (1952), doi:10.1093/biomet/39.3-4.324; Hunter (2004), section 3, for
    the maximum and Newton's method, doi:10.1214/aos/1079120141; Bach (2010), section 2, for the
    cut, doi:10.1214/09-EJS521.
    """
    table = _wins(wins)
    models = table.shape[-1]
    boards = table.reshape(-1, models, models)
    found = np.full((len(boards), models), np.nan)
    able = np.flatnonzero(connected(boards))
    some = max(1, BLOCK_BYTES // (8 * 4 * models * models))
    for start in range(0, len(able), some):
        block = able[start : start + some]
        found[block] = _most_likely(boards[block])
    return found.reshape(table.shape[:-1])


def _most_likely(boards: Floats) -> Floats:
    """Log strengths of connected boards, shape (B, K, K) to (B, K)."""
    found = np.full(boards.shape[:2], np.nan)
    if boards.shape[1] == 1:
        return np.zeros(boards.shape[:2])
    searching = np.arange(len(boards))
    won, met = boards.sum(axis=2), boards + np.swapaxes(boards, 1, 2)
    x = np.zeros(boards.shape[:2])
    for _ in range(MOST_STEPS):
        step = _step(x, won=won, met=met)
        x = x + step
        x -= x.mean(axis=1, keepdims=True)
        resting = np.abs(step).max(axis=1) < CONVERGED
        found[searching[resting]] = x[resting]
        if resting.all():
            break
        if resting.any():
            going = ~resting
            searching, won, met, x = searching[going], won[going], met[going], x[going]
    return found


def _step(x: Floats, *, won: Floats, met: Floats) -> Floats:
    """Newton's step, cut where it is too long to be trusted; shape (B, K)."""
    chance = expit(x[:, :, None] - x[:, None, :])
    missing = won - (met * chance).sum(axis=2)
    weight = met * chance * np.swapaxes(chance, 1, 2)
    # The curvature knows differences only; a constant everywhere fixes the mean of the step at 0.
    diagonal = weight.sum(axis=2)
    models = x.shape[1]
    level = diagonal.mean(axis=1)
    index = np.arange(models)
    curvature = (level / models)[:, None, None] - weight
    curvature[:, index, index] += diagonal + _RIDGE * level[:, None]
    step: Floats = np.linalg.solve(curvature, missing[:, :, None])[:, :, 0]
    apart = np.abs(step[:, :, None] - step[:, None, :])
    longest = np.where(met > 0, apart, 0.0).max(axis=(1, 2))
    return np.asarray(step / np.maximum(1.0, longest / _LONGEST)[:, None])
