"""Boards: tau as scipy's, ranks as scipy's, strengths as a general optimiser finds them."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import minimize
from scipy.sparse.csgraph import connected_components
from scipy.stats import kendalltau, rankdata

from prereg_judge.stats import ranking
from prereg_judge.stats.ranking import bradley_terry, connected, displaced, kendall_tau_b, ranks

Floats = NDArray[np.float64]


def boards(sides: int, smallest: int = 2) -> st.SearchStrategy[Floats]:
    """Scores with many ties: `sides` boards of the same models."""
    return st.integers(smallest, 9).flatmap(
        lambda k: st.lists(
            st.lists(st.integers(0, 4), min_size=k, max_size=k), min_size=sides, max_size=sides
        ).map(lambda rows: np.array(rows, dtype=np.float64))
    )


@st.composite
def win_tables(draw: st.DrawFn, smallest: int = 2, largest: int = 5) -> Floats:
    """Wins and half wins among a few models, often with pairs that never met."""
    models = draw(st.integers(smallest, largest))
    wins = np.zeros((models, models))
    for i, j in itertools.permutations(range(models), 2):
        wins[i, j] = draw(st.one_of(st.just(0.0), st.integers(0, 40).map(lambda half: half / 2)))
    return wins


@given(boards(2))
def test_tau_is_that_of_scipy(pair: Floats) -> None:
    """tau-b is scipy's, and undefined exactly where scipy says so: one side all tied."""
    a, b = pair
    expected = kendalltau(a, b, variant="b").statistic
    assert kendall_tau_b(a, b) == pytest.approx(expected, abs=1e-12, nan_ok=True)


@given(boards(6))
def test_many_boards_at_once_are_one_by_one(rows: Floats) -> None:
    """Leading axes only stack boards: tau, ranks and displaced models are those of each alone."""
    a, b = rows[:3], rows[3:]
    for function in (kendall_tau_b, displaced):
        alone = [float(function(x, y)) for x, y in zip(a, b, strict=True)]
        np.testing.assert_array_equal(function(a, b), alone)
        against_one = [float(function(x, b[0])) for x in a]
        np.testing.assert_array_equal(function(a, b[0]), against_one)
    np.testing.assert_array_equal(ranks(a), [ranks(x) for x in a])


@given(boards(2), st.integers(0, 99))
def test_names_of_models_do_not_matter(pair: Floats, seed: int) -> None:
    """Both boards in another order of models: the same tau and as many displaced; b first, too."""
    order = np.random.default_rng(seed).permutation(pair.shape[1])
    a, b = pair
    for function in (kendall_tau_b, displaced):
        expected = pytest.approx(float(function(a, b)), nan_ok=True)
        assert float(function(a[order], b[order])) == expected
        assert float(function(b, a)) == expected
    assert displaced(a, a) == 0.0


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        ([3, 2, 1], [30, 20, 10], 1.0),
        ([3, 2, 1], [1, 2, 3], -1.0),
        ([1, 1, 1], [1, 2, 3], np.nan),
        ([1, 2, np.nan], [1, 2, 3], np.nan),
        ([2, 1], [1, 2], -1.0),
        ([1], [1], np.nan),
        ([], [], np.nan),
    ],
)
def test_tau_at_its_edges(a: list[float], b: list[float], expected: float) -> None:
    """Same and reversed order are exactly 1 and -1; no order, one model or none have no tau."""
    np.testing.assert_array_equal(kendall_tau_b(a, b), expected)


@given(boards(1, smallest=1))
def test_ranks_are_those_of_scipy(board: Floats) -> None:
    """Ranks are scipy's `min` ranks of the negated scores: ties share the best."""
    np.testing.assert_array_equal(ranks(board[0]), rankdata(-board[0], method="min"))


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        ([0.9, 0.5, 0.1], [0.6, 0.5, 0.4], 0),
        ([0.9, 0.5, 0.1], [0.5, 0.9, 0.1], 2),
        ([0.9, 0.5, 0.1], [0.1, 0.5, 0.9], 2),
        ([3, 2, 1], [1, 3, 2], 3),
        ([0.9, 0.5, 0.1], [0.5, 0.5, 0.1], 1),
        ([1.0], [5.0], 0),
        ([1.0, np.nan], [1.0, 0.0], np.nan),
    ],
)
def test_displaced_models_by_hand(a: list[float], b: list[float], expected: float) -> None:
    """A model is displaced when its rank differs; a tie on one board moves the one below it."""
    np.testing.assert_array_equal(displaced(a, b), expected)


def test_unknown_scores_leave_no_rank() -> None:
    """One NaN leaves the whole board without ranks, and its neighbours in the stack untouched."""
    found = ranks([[1.0, np.nan, 2.0], [1.0, 3.0, 2.0]])
    np.testing.assert_array_equal(found, [[np.nan] * 3, [3.0, 1.0, 2.0]])


def log_likelihood(x: Floats, wins: Floats) -> float:
    """Bradley and Terry's, of wins and half wins."""
    return float(-(wins * np.logaddexp(0.0, x[None, :] - x[:, None])).sum())


@settings(deadline=None)
@given(win_tables())
def test_strengths_are_the_most_likely_ones(wins: Floats) -> None:
    """A general optimiser finds no better log strengths, and the same ones."""
    found = bradley_terry(wins)
    if not connected(wins):
        assert np.isnan(found).all()
        return

    def cost(x: Floats) -> float:
        return -log_likelihood(x, wins)

    best = minimize(cost, np.zeros(len(wins)), method="BFGS").x
    assert log_likelihood(found, wins) >= log_likelihood(best, wins) - 1e-9
    assert found == pytest.approx(best - best.mean(), abs=2e-3)
    assert found.mean() == pytest.approx(0.0, abs=1e-9)


@given(win_tables(largest=8))
def test_expected_wins_are_the_wins(wins: Floats) -> None:
    """At the maximum each model's expected wins are its wins, to nine digits."""
    x = bradley_terry(wins)
    if np.isnan(x).any():
        assert not connected(wins)
        return
    chance = 1.0 / (1.0 + np.exp(x[None, :] - x[:, None]))
    expected = ((wins + wins.T) * chance).sum(axis=1)
    np.testing.assert_allclose(expected, wins.sum(axis=1), rtol=1e-9)


@given(win_tables())
def test_losing_instead_of_winning_negates_strengths(wins: Floats) -> None:
    """Wins made losses: the strengths change sign; ten times the wins: they stay."""
    x = bradley_terry(wins)
    np.testing.assert_allclose(bradley_terry(wins.T), -x, atol=1e-7)
    np.testing.assert_allclose(bradley_terry(10 * wins), x, atol=1e-7)


@given(win_tables(smallest=1, largest=7))
def test_connection_is_that_of_the_graph(wins: Floats) -> None:
    """`connected` is strong connection of the graph of wins, by scipy's own search."""
    parts, _ = connected_components(wins > 0, directed=True, connection="strong")
    assert connected(wins) == (parts == 1)


@pytest.mark.parametrize(("better", "worse"), [(1, 1), (3, 1), (999, 1), (0.5, 1e6)])
def test_two_models_have_their_log_odds(better: float, worse: float) -> None:
    """With two models the difference of strengths is the logarithm of the odds."""
    x = bradley_terry([[0, better], [worse, 0]])
    assert x[0] - x[1] == pytest.approx(np.log(better / worse), abs=1e-8)


def test_a_chain_of_lopsided_wins_is_solved() -> None:
    """Fifty models in a row, each 2,000 times better than the next: strengths span e to the 372."""
    models = 50
    wins = np.diag(np.full(models - 1, 1_000.0), 1) + np.diag(np.full(models - 1, 0.5), -1)
    np.testing.assert_allclose(np.diff(bradley_terry(wins)), -np.log(2_000), atol=1e-8)


def test_boards_without_strengths_do_not_disturb_others() -> None:
    """A model that always wins, one that never met another: NaN there, numbers beside them."""
    good = [[0, 2, 1], [1, 0, 2], [1, 1, 0]]
    always = [[0, 2, 1], [0, 0, 2], [0, 1, 0]]
    apart = [[0, 2, 0], [1, 0, 0], [0, 0, 0]]
    found = bradley_terry([[good, always], [apart, good]])
    assert np.isnan(found[0, 1]).all()
    assert np.isnan(found[1, 0]).all()
    np.testing.assert_array_equal(found[0, 0], bradley_terry(good))
    np.testing.assert_array_equal(found[1, 1], found[0, 0])


def test_one_model_has_strength_0() -> None:
    """A board of one model is connected and its log strength is the mean, 0."""
    np.testing.assert_array_equal(bradley_terry([[0.0]]), [0.0])
    np.testing.assert_array_equal(bradley_terry(np.zeros((4, 1, 1))), np.zeros((4, 1)))
    assert connected([[0.0]])


def test_blocks_of_boards_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Boards solved one at a time have the strengths that they have together."""
    wins = np.random.default_rng(2).binomial(20, 0.4, (30, 4, 4)).astype(float)
    wins[:, range(4), range(4)] = 0.0
    together = bradley_terry(wins)
    monkeypatch.setattr(ranking, "BLOCK_BYTES", 1)
    np.testing.assert_allclose(bradley_terry(wins), together, atol=1e-12)


def test_a_search_without_end_gives_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A board that is not at rest after the last step is NaN, one that is keeps its strengths."""
    level, steep = [[0, 5], [5, 0]], [[0, 50], [1, 0]]
    monkeypatch.setattr(ranking, "MOST_STEPS", 2)
    found = bradley_terry([level, steep])
    np.testing.assert_array_equal(found[0], [0.0, 0.0])
    assert np.isnan(found[1]).all()


@pytest.mark.parametrize(
    "wins",
    [[1.0, 2.0], [[0.0, 1.0]], np.zeros((0, 0)), [[0, -1], [1, 0]], [[0, np.nan], [1, 0]], [[1.0]]],
)
def test_tables_that_are_no_wins_are_refused(wins: ArrayLike) -> None:
    """Not square, empty, negative, not finite, or wins against oneself: ValueError."""
    for function in (bradley_terry, connected):
        with pytest.raises(ValueError, match="must"):
            function(wins)


@pytest.mark.parametrize(("a", "b"), [([1, 2], [1, 2, 3]), (1.0, [1.0]), ([1.0], 1.0)])
def test_boards_of_other_models_are_refused(a: ArrayLike, b: ArrayLike) -> None:
    """Boards without the same number of models raise ValueError."""
    for function in (kendall_tau_b, displaced):
        with pytest.raises(ValueError, match="must hold the same models"):
            function(a, b)
    with pytest.raises(ValueError, match="last axis"):
        ranks(1.0)
