"""Boards of models under two label sources, in the data and in every resample of its items.

Knows no metrics: a statistic is a function of `Boards` that gives one number a sample, so that the
estimate and its resamples come from the same code.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from prereg_judge.stats.ranking import bradley_terry, displaced, kendall_tau_b
from prereg_judge.stats.resample import ratio
from prereg_judge.study.outcomes import Resampling
from prereg_judge.study.pools_view import View, resampler_of

Floats = NDArray[np.float64]

# What ranks the models: the mean credit of a model, or its strength of Bradley and Terry.
Score = Literal["credit", "bradley-terry"]
SCORES: tuple[Score, ...] = get_args(Score)

# Log strengths are searched for up to 1e-8: what differs by less than this is a tie.
_DECIMALS = 6
# Spreads of shifts below it come from rounding.
_NO_SPREAD = 1e-12


@dataclass(frozen=True)
class Boards:
    """Boards of M models under two pools, in T samples of items.

    Attributes
    ----------
    wins
        Shape (T, 2, M, M): how often the model of the row won against the model of the column by
        the majority of pool 1 and of pool 2; a tie is half a win for each. Both pools speak of the
        same items.
    """

    wins: Floats

    @cached_property
    def met(self) -> Floats:
        """On how many items each model stands, shape (T, M); the same for both pools."""
        wins = self.wins[:, 0]
        found: Floats = (wins + np.swapaxes(wins, 1, 2)).sum(axis=2)
        return found

    @cached_property
    def credit(self) -> Floats:
        """Mean credit, shape (T, 2, M): 1 a win, half a tie; NaN for a model without an item."""
        return ratio(self.wins.sum(axis=3), self.met[:, None, :])

    @cached_property
    def strength(self) -> Floats:
        """Log strengths of Bradley and Terry, shape (T, 2, M); NaN for a whole board without any.

        Rounded to 1e-6, since the search for them ends at 1e-8 and would part models that tie.
        """
        return np.round(bradley_terry(self.wins), _DECIMALS) + 0.0

    def scores(self, score: Score) -> Floats:
        """What ranks the models, shape (T, 2, M)."""
        return self.credit if score == "credit" else self.strength

    @property
    def shift(self) -> Floats:
        """Mean credit under pool 2 minus under pool 1, shape (T, M)."""
        return self.credit[:, 1] - self.credit[:, 0]

    @cached_property
    def shift_sd(self) -> Floats:
        """Standard deviation of the shifts over models, about their mean, ddof 1, shape (T,)."""
        sd = self.shift.std(axis=1, ddof=1)
        return np.where(sd < _NO_SPREAD, 0.0, sd)


# A statistic of each sample, shape (T,), NaN where it is undefined.
Statistic = Callable[[Boards], Floats]


@dataclass(frozen=True)
class Field:
    """The models of a view with their boards.

    Attributes
    ----------
    models
        Their names, in order, shape (M,), at least two.
    items
        Number of items.
    data
        The boards in the data, T = 1.
    drawn
        The boards in the resamples, T = R; None where no bootstrap is registered.
    """

    models: tuple[str, ...]
    items: int
    data: Boards
    drawn: Boards | None

    def order(self, pool: int) -> list[int]:
        """Models from the best mean credit to the worst under pool 0 or 1; equal ones by name."""
        credit = self.data.credit[0, pool]
        return sorted(range(len(self.models)), key=lambda m: (-credit[m], self.models[m]))


def field_of(view: View, *, resampling: Resampling | None) -> Field | None:
    """The boards of a view of sided votes on pairs of models; None where it has no item.

    Every pair of models that meets gives three sums (items, credit of the first under each pool),
    so that one product of matrices gives every board of every resample.
    """
    assert view.counts.models is not None
    if not len(view.used):
        return None
    met = [view.counts.models[row] for row in view.used]
    models = tuple(sorted({name for pair in met for name in pair}))
    number = {name: at for at, name in enumerate(models)}
    ends = np.array([[number[a], number[b]] for a, b in met])
    swapped = ends[:, 0] > ends[:, 1]
    credit = np.where(swapped[:, None], -view.sides, view.sides) / 2 + 0.5
    pairs, column = np.unique(np.sort(ends, axis=1), axis=0, return_inverse=True)
    sums = np.zeros((len(met), 3, len(pairs)))
    at = np.arange(len(met)), column.reshape(-1)
    sums[at[0], 0, at[1]] = 1.0
    sums[at[0], 1, at[1]], sums[at[0], 2, at[1]] = credit[:, 0], credit[:, 1]
    flat = sums.reshape(len(met), -1)
    data = _boards(flat.sum(axis=0)[None], pairs, len(models))
    drawn = None
    if resampling is not None:
        resampler = resampler_of(view.counts, view.used, resampling=resampling)
        assert resampler is not None
        drawn = _boards(resampler.totals(flat), pairs, len(models))
    return Field(models, len(met), data, drawn)


def _boards(totals: Floats, pairs: NDArray[np.intp], models: int) -> Boards:
    """Boards from the sums of each pair of models, shape (T, 3 x pairs)."""
    met, one, two = np.moveaxis(totals.reshape(len(totals), 3, len(pairs)), 1, 0)
    wins = np.zeros((len(totals), 2, models, models))
    for pool, won in enumerate((one, two)):
        wins[:, pool, pairs[:, 0], pairs[:, 1]] = won
        wins[:, pool, pairs[:, 1], pairs[:, 0]] = met - won
    return Boards(wins)


def tau_of(score: Score) -> Statistic:
    """Kendall's tau-b between the boards of the two pools."""
    return lambda b: kendall_tau_b(b.scores(score)[:, 0], b.scores(score)[:, 1])


def displaced_of(score: Score) -> Statistic:
    """Models whose place differs between the boards of the two pools; ties share a place."""
    return lambda b: displaced(b.scores(score)[:, 0], b.scores(score)[:, 1])


def gap_of(above: int, below: int, *, pool: int) -> Statistic:
    """Mean credit of one model minus that of another under one pool."""
    return lambda b: b.credit[:, pool, above] - b.credit[:, pool, below]


def swap_of(above: int, below: int) -> Statistic:
    """Probability that two models change places when each shifts as the models were seen to.

    By `stats.displacement.swap_probability`, for every sample at once; where the two stand the
    other way round in a resample it is above one half.
    """
    return lambda b: _swap(gap_of(above, below, pool=0)(b), math.sqrt(2) * b.shift_sd)


def any_pair(b: Boards) -> Floats:
    """Probability that some adjacent pair of pool 1's board changes places, as if independent."""
    best_first = -np.sort(-b.credit[:, 0], axis=1)
    gaps = -np.diff(best_first, axis=1)
    return _any(_swap(gaps, math.sqrt(2) * b.shift_sd[:, None]))


def any_even_pair(models: int) -> Statistic:
    """The same for so many models, spread evenly over the span of pool 1's board."""

    def statistic(b: Boards) -> Floats:
        gap = span(b) / (models - 1)
        swap = _swap(gap, math.sqrt(2) * b.shift_sd)
        return _any(np.repeat(swap[:, None], models - 1, axis=1))

    return statistic


def span(b: Boards) -> Floats:
    """Best minus worst mean credit on pool 1's board, shape (T,)."""
    found: Floats = np.ptp(b.credit[:, 0], axis=1)
    return found


def _swap(gap: Floats, sd: Floats) -> Floats:
    """Phi(-gap / sd); 0 where nothing shifts, as in `stats.displacement`."""
    return np.where(sd == 0, 0.0, ndtr(-ratio(gap, sd)))


def _any(swaps: Floats) -> Floats:
    """1 - prod(1 - p) over the last axis, without losing what is left beside 1."""
    found: Floats = -np.expm1(np.log1p(-swaps).sum(axis=-1))
    return found


def reversed_of(order: list[int]) -> Statistic:
    """Neighbours in an order of models that stand the other way round under pool 2."""

    def statistic(b: Boards) -> Floats:
        gaps = b.credit[:, :, order[:-1]] - b.credit[:, :, order[1:]]
        product = gaps[:, 0] * gaps[:, 1]
        return np.where(np.isnan(product).any(axis=1), np.nan, (product < 0).sum(axis=1))

    return statistic
