"""The study `leaderboard` against a second implementation, in plain loops over every game."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import combinations, pairwise
from statistics import NormalDist, stdev

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prereg_judge.stats.displacement import any_swap_jointly
from prereg_judge.stats.resample import Resampler
from prereg_judge.study import leaderboard
from prereg_judge.study.metric import MetricRef
from prereg_judge.study.outcomes import Resampling
from study.pools_made import GAMES, Game, board_votes, check_interval, get, limits, made, winner

# A statistic of two boards, each a score a model.
Of = Callable[[dict[str, float], dict[str, float]], float]


def credits_of(games: Sequence[Game], weights: Sequence[float], pool: int) -> dict[str, float]:
    """Mean credit of every model by the majority of one pool; NaN for a model without an item."""
    won: dict[str, float] = {}
    met: dict[str, float] = {}
    for game, weight in zip(games, weights, strict=True):
        a, b, side = game[0], game[1], winner(game[2 + pool])
        credit = {"a": 1.0, "b": 0.0, "t": 0.5}[side]
        for model, share in ((a, credit), (b, 1 - credit)):
            won[model] = won.get(model, 0.0) + weight * share
            met[model] = met.get(model, 0.0) + weight
    return {m: won[m] / met[m] if met[m] else math.nan for m in sorted(met)}


def strengths_of(games: Sequence[Game], weights: Sequence[float], pool: int) -> dict[str, float]:
    """Log strengths by many steps of the MM algorithm; NaN where there are none."""
    models = sorted({m for game in games for m in game[:2]})
    wins = {(m, n): 0.0 for m in models for n in models}
    for game, weight in zip(games, weights, strict=True):
        side = winner(game[2 + pool])
        wins[game[0], game[1]] += weight * {"a": 1.0, "b": 0.0, "t": 0.5}[side]
        wins[game[1], game[0]] += weight * {"a": 0.0, "b": 1.0, "t": 0.5}[side]
    for start in models:
        seen = {start}
        for _ in models:
            seen |= {n for m in seen for n in models if wins[m, n] > 0}
        if len(seen) < len(models):
            return dict.fromkeys(models, math.nan)
    p = dict.fromkeys(models, 1.0)
    for _ in range(3000):
        p = {
            m: sum(wins[m, n] for n in models)
            / sum((wins[m, n] + wins[n, m]) / (p[m] + p[n]) for n in models if n != m)
            for m in models
        }
        mean = math.exp(sum(math.log(x) for x in p.values()) / len(p))
        p = {m: x / mean for m, x in p.items()}
    return {m: round(math.log(x), 6) for m, x in p.items()}


def tau_of(one: dict[str, float], two: dict[str, float]) -> float:
    """Kendall's tau-b by pairs of models."""
    agree = ones = twos = 0
    for m, n in combinations(one, 2):
        s, t = np.sign(one[m] - one[n]), np.sign(two[m] - two[n])
        agree, ones, twos = agree + s * t, ones + abs(s), twos + abs(t)
    return agree / math.sqrt(ones * twos) if ones * twos > 0 else math.nan


def moved(one: dict[str, float], two: dict[str, float]) -> float:
    """Models whose place differs; NaN where a score is."""
    if any(x != x for x in (*one.values(), *two.values())):
        return math.nan
    place = [{m: sum(x > b[m] for x in b.values()) for m in b} for b in (one, two)]
    return float(sum(place[0][m] != place[1][m] for m in one))


def spread(one: dict[str, float], two: dict[str, float]) -> float:
    """Standard deviation of the shifts."""
    shifts = [two[m] - one[m] for m in one]
    return math.nan if any(x != x for x in shifts) else stdev(shifts)


def any_swap(one: dict[str, float], two: dict[str, float]) -> float:
    """Chance that neighbours swap, as if pairs were independent."""
    sd = spread(one, two) * math.sqrt(2)
    if sd != sd or sd < 1e-11:
        return 0.0 if sd == sd else sd
    board, stays = sorted(one.values()), 1.0
    for a, b in pairwise(board):
        stays *= 1 - NormalDist().cdf(-(b - a) / sd)
    return 1 - stays


def flips(order: list[str]) -> Of:
    """How many neighbours in an order stand the other way round on the other board."""

    def count(one: dict[str, float], two: dict[str, float]) -> float:
        steps = [(one[m] - one[n]) * (two[m] - two[n]) for m, n in pairwise(order)]
        return math.nan if any(x != x for x in steps) else float(sum(x < 0 for x in steps))

    return count


def shift_of(model: str) -> Of:
    """A model's credit on the second board minus that on the first."""
    return lambda one, two: two[model] - one[model]


def itself(model: str) -> Of:
    """A model's credit on the first board."""
    return lambda one, _: one[model]


POOL_VOTES = st.text("abt", min_size=1, max_size=3)
PAIR = st.sampled_from([("x", "y"), ("y", "x"), ("x", "z"), ("z", "y"), ("w", "x")])


@settings(max_examples=40)
@given(st.lists(st.tuples(PAIR, POOL_VOTES, POOL_VOTES), min_size=1, max_size=14))
def test_against_plain_loops(drawn: list[tuple[tuple[str, str], str, str]]) -> None:
    """Boards, their statistics and every bootstrapped limit are those of a second implementation,
    which plays the same resamples game by game.
    """
    games: list[Game] = [(*pair, one, two) for pair, one, two in drawn]
    data = made(board_votes(games), resampling=Resampling(30, 3))
    n = len(games)
    weights = [[1.0] * n, *Resampler(n, 30, 3).totals(np.eye(n)).tolist()]
    boards = [tuple(credits_of(games, w, pool) for pool in (0, 1)) for w in weights]
    first = boards[0][0]
    order = sorted(first, key=lambda m: (-first[m], m))
    statistics: dict[MetricRef, Of] = {
        MetricRef.of("tau"): tau_of,
        MetricRef.of("displaced.count"): moved,
        MetricRef.of("reversed.count"): flips(order),
        MetricRef.of("shift.sd"): spread,
        MetricRef.of("shift.difference_sd"): lambda a, b: spread(a, b) * math.sqrt(2),
        MetricRef.of("displacement.pairs"): any_swap,
        MetricRef.of("gap.adjacent", place=1): lambda a, _: a[order[0]] - a[order[1]],
    }
    for model in first:
        statistics[MetricRef.of("shift.mean", model=model)] = shift_of(model)
        statistics[MetricRef.of("credit.mean", model=model, pool="crowd")] = itself(model)
    found = leaderboard.compute(data, statistics)
    for ref, statistic in statistics.items():
        values = [statistic(*pair) for pair in boards]
        if values[0] != values[0]:
            assert found[ref].undefined == "all_tied"
            continue
        assert found[ref].value == pytest.approx(values[0], abs=1e-12), ref
        check_interval(found[ref], limits(values[1:]))
    changed = [moved(*pair) for pair in boards[1:]]
    defined = [x for x in changed if x == x]
    share = get(leaderboard, data, "displacement.bootstrap")
    if len(defined) < 0.95 * len(changed):
        assert share.undefined == "too_few_resamples"
    else:
        assert (share.k, share.n) == (sum(x > 0 for x in defined), len(defined))


@settings(max_examples=25)
@given(st.lists(st.tuples(PAIR, POOL_VOTES, POOL_VOTES), min_size=4, max_size=14))
def test_strengths_against_plain_loops(drawn: list[tuple[tuple[str, str], str, str]]) -> None:
    """Tau and displacement by strength are those of slow steps on every game."""
    games: list[Game] = [(*pair, one, two) for pair, one, two in drawn]
    data = made(board_votes(games), resampling=None)
    one, two = (strengths_of(games, [1.0] * len(games), pool) for pool in (0, 1))
    found = get(leaderboard, data, "displaced.count", score="bradley-terry")
    if math.isnan(moved(one, two)):
        assert found.undefined == "not_connected"
        return
    assert found.value == moved(one, two)
    tau = get(leaderboard, data, "tau", score="bradley-terry")
    if math.isnan(tau_of(one, two)):
        assert tau.undefined == "all_tied"
    else:
        assert tau.value == pytest.approx(tau_of(one, two))


def test_swap_probability_and_joint_simulation() -> None:
    """The chance of a swap is Phi(-gap / SD); the simulation is that of the board's own gaps."""
    data = made(board_votes(GAMES))
    one, two = (credits_of(GAMES, [1.0] * len(GAMES), pool) for pool in (0, 1))
    sd = spread(one, two)
    best, second, _ = sorted(one.values(), reverse=True)
    found = get(leaderboard, data, "swap.probability", place=1)
    assert found.value == pytest.approx(NormalDist().cdf(-(best - second) / (sd * math.sqrt(2))))
    assert found.interval is None
    assert (found.note or "").startswith("no interval: it holds the noise of both boards")
    joint = get(leaderboard, data, "displacement.joint")
    direct = any_swap_jointly(list(one.values()), shift_sd=sd, simulations=200, seed=7)
    assert joint.value == direct.probability
