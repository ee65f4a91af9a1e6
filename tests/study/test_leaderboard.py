"""The study `leaderboard`: boards of two pools, their order, gaps, shifts and displacement."""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np
import pytest

from prereg_judge.study import leaderboard
from prereg_judge.study.metric import MetricRef
from prereg_judge.study.outcomes import Assumed, Resampling
from prereg_judge.votes import VoteCounts
from study.pools_made import GAMES, Game, board_votes, get, made, ratio


def test_credits_and_shifts() -> None:
    """A win gives 1 and a tie one half to both; the shift is pool 2 minus pool 1."""
    data = made(board_votes(GAMES))
    # x: a a b(as b) = 3 of 3 against y; against z 1, 1/2 and 0.
    found = get(leaderboard, data, "credit.mean", model="x", pool="crowd")
    assert (found.value, found.n) == (4.5 / 6, 6)
    assert found.interval is not None
    assert found.interval.low < 4.5 / 6 < found.interval.high
    assert get(leaderboard, data, "credit.mean", model="x", pool="expert").value == 5 / 6
    shift = get(leaderboard, data, "shift.mean", model="x")
    assert shift.value == pytest.approx(0.5 / 6)
    assert shift.n == 6


def test_order_of_the_boards() -> None:
    """Tau, displaced models, reversed neighbours and gaps follow from the mean credits."""
    games: list[Game] = [("x", "y", "a", "b"), ("x", "y", "a", "a"), ("x", "y", "a", "b")]
    games += [("x", "z", "a", "a"), ("y", "z", "a", "a"), ("z", "y", "b", "t")]
    data = made(board_votes(games))
    # crowd: x 4/4, y 2/5, z 0/3; expert: x 2/4, y 3.5/5, z 0.5/3.
    assert get(leaderboard, data, "tau").value == pytest.approx(1 / 3)
    assert ratio(leaderboard, data, "displaced.count") == (2, 3)
    assert ratio(leaderboard, data, "reversed.count") == (1, 2)
    gap = get(leaderboard, data, "gap.adjacent", place=1)
    assert gap.value == pytest.approx(0.6)
    assert gap.note is not None
    assert gap.note.startswith("x above y")
    other = get(leaderboard, data, "gap.adjacent", place=1, pool="expert")
    assert other.value == pytest.approx(0.2)
    assert "y above x" in (other.note or "")


def test_tau_at_its_edge_has_no_interval() -> None:
    """Boards of the same order in every resample have tau 1 and no interval, and it is said."""
    data = made(board_votes([("x", "y", "a", "a")] * 5))
    found = get(leaderboard, data, "tau")
    assert (found.value, found.interval) == (1.0, None)
    assert found.note == (
        "2 models; the two boards had the same order in all 200 resamples, so there is no interval"
    )
    assert get(leaderboard, data, "tau.ci_low").undefined == "not_computed"


def test_a_model_that_always_wins() -> None:
    """Its credit of 1 has a Wilson interval; strengths of Bradley and Terry do not exist."""
    games: list[Game] = [("x", "y", "a", "a")] * 4 + [("y", "z", "a", "b"), ("y", "z", "b", "a")]
    data = made(board_votes(games))
    credit = get(leaderboard, data, "credit.mean", model="x", pool="crowd")
    assert credit.value == 1.0
    assert credit.interval is not None
    assert (credit.interval.high, credit.interval.method) == (1.0, "wilson on items, all alike")
    assert credit.interval.low == pytest.approx(0.51, abs=0.01)
    for name in ("tau", "displaced.count", "displacement.bootstrap"):
        found = get(leaderboard, data, name, score="bradley-terry")
        assert found.undefined == "not_connected"
        assert found.note == (
            "under crowd and expert some models never win against, or meet, the others"
        )
    assert get(leaderboard, data, "tau").value is not None


def test_strengths_can_order_otherwise_than_credits() -> None:
    """A model that met only the weak leads in credit, not in strength."""
    games: list[Game] = [("p", "q", "a", "a")] * 12 + [("p", "q", "b", "b")] * 8
    games += [("r", "s", "a", "a")] * 11 + [("r", "s", "a", "b")] * 3 + [("r", "s", "b", "b")] * 6
    games += [("q", "s", "a", "a")] * 19 + [("q", "s", "b", "b")]
    data = made(board_votes(games), resampling=Resampling(50, 1))
    # By credit r stands above q and p under pool 1, and below both under pool 2.
    assert "r above q" in (get(leaderboard, data, "gap.adjacent", place=1).note or "")
    assert get(leaderboard, data, "tau").value == pytest.approx(1 / 3)
    assert get(leaderboard, data, "tau", score="bradley-terry").value == 1.0


def test_boards_without_an_order() -> None:
    """All models tied under a pool: tau is undefined, what needs no order has a value."""
    data = made(board_votes([("x", "y", "a", "a"), ("x", "y", "b", "a")]))
    found = get(leaderboard, data, "tau")
    assert (found.undefined, found.note) == (
        "all_tied",
        "every model has the same score under crowd",
    )
    assert ratio(leaderboard, data, "displaced.count") == (1, 2)
    assert get(leaderboard, data, "gap.adjacent", place=1).value == 0.0
    assert get(leaderboard, data, "shift.sd").value == pytest.approx(math.sqrt(2) / 2)


def test_pools_that_do_not_shift() -> None:
    """Without any shift nothing can move by the parametric routes, and the note says why."""
    data = made(board_votes([("x", "y", "a", "a"), ("x", "y", "a", "a"), ("x", "y", "b", "b")]))
    assert get(leaderboard, data, "shift.sd").value == 0.0
    for name, params in (
        ("swap.probability", {"place": 1}),
        ("displacement.pairs", {}),
        ("displacement.joint", {}),
        ("displacement.even_pairs", {"models": 5}),
        ("displacement.even_joint", {"models": 5}),
    ):
        found = get(leaderboard, data, name, **params)
        assert found.value == 0.0
        assert "no shift between the pools was seen, so nothing can move" in (found.note or "")


def test_tables_without_a_board() -> None:
    """No models, no sides, no shared item, a place beyond the board, a model not on it."""
    nameless = VoteCounts(("i",), ("crowd", "expert"), ("a", "b", "tie"), np.ones((1, 2, 3), int))
    found = get(leaderboard, made(nameless), "tau")
    assert (found.undefined, found.note) == ("too_few_models", "the table names no models")
    words = VoteCounts(("i",), ("crowd", "expert"), ("K", "D"), np.ones((1, 2, 2), int))
    assert get(leaderboard, made(words), "tau").undefined == "no_sides"
    apart = made(board_votes([("x", "y", "a", ""), ("x", "y", "", "a")]))
    assert get(leaderboard, apart, "tau").undefined == "no_items"
    some = made(board_votes([("x", "y", "a", "b"), ("x", "z", "a", "")]))
    assert get(leaderboard, some, "credit.mean", model="z", pool="crowd").undefined == "no_items"
    place = get(leaderboard, some, "gap.adjacent", place=2)
    assert (place.undefined, place.note) == ("too_few_models", "the board has 2 models")
    split = made(board_votes([("x", "y", "ab", "b")]), split="exclude")
    assert get(leaderboard, split, "shift.sd").note == (
        "no item with a label of both pools; 1 of 1 items left out: a pool is equally split"
    )
    for data in (made(nameless), made(words), apart, some, split):
        assert all(m.value is not None or m.undefined for m in leaderboard.summary(data))
        leaderboard.plain_words(data)


def test_wrong_references_are_said_in_words() -> None:
    """Unknown models, places, scores and board sizes are told beside what there is."""
    data = made(board_votes(GAMES))
    cases: tuple[tuple[str, dict[str, object], str], ...] = (
        ("credit.mean", {"model": "w", "pool": "crowd"}, "there is no model=w (there is: x, y, z)"),
        ("gap.adjacent", {"place": 3}, "there is no place=3 (there is: 1, 2)"),
        ("tau", {"score": "elo"}, "there is no score=elo (there is: credit, bradley-terry)"),
        ("shift.sd", {"score": "credit"}, "shift.sd takes no score"),
        ("displacement.even_pairs", {}, "displacement.even_pairs needs models"),
    )
    for name, params, words in cases:
        found = get(leaderboard, data, name, **params)
        assert (found.undefined, found.note) == ("not_computed", words)


@pytest.mark.parametrize("models", ["1", "1001", "02", "2.5", "x", "-3", "²", "9" * 5000])
def test_sizes_of_imagined_boards(models: str) -> None:
    """A board has a whole number of models, from 2 to a most that can be simulated at once."""
    data = made(board_votes(GAMES))
    found = get(leaderboard, data, "displacement.even_joint", models=models)
    assert found.undefined == "not_computed"
    assert found.note == f"models={models} is not a whole number from 2 to 1000"
    assert get(leaderboard, data, "displacement.even_joint", models=1000).value == 1.0


def test_without_a_bootstrap() -> None:
    """Numbers stand without intervals; what is made of resamples or simulations is not computed."""
    data = made(board_votes(GAMES), resampling=None)
    tau = get(leaderboard, data, "tau")
    assert tau.value is not None
    assert (tau.interval, tau.note) == (
        None,
        "3 models; no bootstrap is registered, so there is no interval",
    )
    for name in ("displacement.bootstrap", "displacement.joint"):
        assert get(leaderboard, data, name).undefined == "not_computed"
    assert all(m.value is not None or m.undefined for m in leaderboard.summary(data))


def test_resamples_without_a_model_are_counted() -> None:
    """Resamples that lose a model are undefined: counted in the note, too many give no interval."""
    games: list[Game] = [("x", "y", "a", "b"), ("y", "x", "a", "a")] * 4 + [("x", "z", "a", "a")]
    data = made(board_votes(games), resampling=Resampling(1000, 2))
    found = get(leaderboard, data, "displacement.bootstrap")
    # (1 - 1/9) ** 9 = 0.35 of the resamples do not draw the only item of z.
    assert found.undefined == "too_few_resamples"
    assert found.n == pytest.approx(653, abs=50)
    tau = get(leaderboard, data, "tau")
    assert tau.interval is None
    assert f"undefined in {1000 - (found.n or 0)} of 1000 resamples" in (tau.note or "")
    # A model's own credit is undefined only where it is not drawn itself.
    few = get(leaderboard, data, "credit.mean", model="x", pool="crowd")
    assert few.interval is not None
    assert few.note is None


def test_registered_span_and_shift() -> None:
    """Imagined boards take the registered numbers where there are any, and need no table then."""
    data = made(board_votes(GAMES), assumed=Assumed(0.201, 0.0187))
    found = get(leaderboard, data, "displacement.even_pairs", models=6)
    assert found.note == (
        "registered span 0.201 and shift SD 0.0187, nothing measured, so there is no interval"
    )
    assert found.value == pytest.approx(
        1 - (1 - NormalDist().cdf(-0.201 / 5 / (0.0187 * math.sqrt(2)))) ** 5
    )
    joint = get(leaderboard, data, "displacement.even_joint", models=6)
    assert joint.interval is not None
    assert joint.interval.method == "wilson, error of 200 simulations alone"
    assert (joint.k, joint.n) == (round((joint.value or 0) * 200), 200)


def test_words_name_every_route() -> None:
    """The sentences give the chance of a changed board by each route, side by side."""
    data = made(board_votes(GAMES))
    first, second = leaderboard.plain_words(data)
    assert "pairs of neighbours on the board of crowd would change places" in first
    for name, words in (
        ("displacement.pairs", "by independent pairs on its own gaps"),
        ("displacement.joint", "by the joint simulation on its own gaps"),
        ("displacement.bootstrap", "by the bootstrap of the items"),
    ):
        assert f"{get(leaderboard, data, name).value:.2f} {words}" in second
    even = get(leaderboard, data, "displacement.even_pairs", models=3).value
    assert f"{even:.2f} by independent pairs, spread evenly" in second


def test_summary_and_parameters() -> None:
    """The summary holds both subsets and the other key; parameters have listed values."""
    data = made(board_votes(GAMES), other=board_votes(GAMES[:6]))
    refs = [m.ref for m in leaderboard.summary(data)]
    assert len(refs) == len(set(refs))
    assert MetricRef.of("tau", score="bradley-terry", subset="free") in refs
    assert MetricRef.of("displaced.count", key="unordered", subset="both") in refs
    assert MetricRef.of("displacement.even_joint", models=3) in refs
    assert data.table is not None
    listed = leaderboard.parameters(data.table)
    assert (listed["model"], listed["place"]) == (("x", "y", "z"), ("1", "2"))
    named = {p for s in leaderboard.SPECS for p in (*s.required, *s.optional)}
    assert set(listed) == named - {"models"}
    assert set(leaderboard.catalogue().specs) == {s.name for s in leaderboard.SPECS}
