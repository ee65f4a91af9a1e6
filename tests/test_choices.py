"""Compared tokens to probabilities: by hand, and as draws."""

from __future__ import annotations

import json
import math
from collections import Counter
from dataclasses import asdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from prereg_judge.choices import Node, node_of, paths, redraw, verdict_probabilities
from prereg_judge.shaping import Decoding

FREE = Decoding("sampled")
GREEDY = Decoding("greedy")


def logs(*chances: float) -> tuple[float, ...]:
    """Logits of these chances."""
    return tuple(math.log(c) for c in chances)


# "A" goes on to "A1" or "A2"; "B" is settled at once, by two spellings; "C" was not followed.
TREE = (
    Node('"', 0.9, (1, 2, 3, 4), logs(0.5, 0.2, 0.2, 0.1), (1, "B", "B", None)),
    Node('"A', 0.8, (5, 6), logs(0.75, 0.25), ("A1", "A2")),
)
VERDICTS = ("A1", "A2", "B")


def test_probabilities_by_hand() -> None:
    """Ways to a verdict add up, and what leads nowhere is left out of the whole."""
    found = verdict_probabilities(TREE, FREE, VERDICTS)
    assert list(found) == ["A1", "A2", "B"]
    assert found == pytest.approx({"A1": 0.375 / 0.9, "A2": 0.125 / 0.9, "B": 0.4 / 0.9})
    assert [w.steps for w in paths(TREE, FREE)] == [
        ((0, 0), (1, 0)),
        ((0, 0), (1, 1)),
        ((0, 1),),
        ((0, 2),),
    ]


def test_truncation_is_applied_at_every_position() -> None:
    """Top-k keeps the k best tokens of each position, as writing does."""
    found = verdict_probabilities(TREE, Decoding("sampled", top_k=1), VERDICTS)
    assert found == {"A1": 1.0, "A2": 0.0, "B": 0.0}
    assert verdict_probabilities(TREE, GREEDY, VERDICTS) == found
    assert redraw(TREE, GREEDY, None) == "A1"


@given(st.floats(0.1, 10), st.integers(0, 4), st.floats(0.1, 1), st.floats(0, 1))
def test_probabilities_sum_to_one(
    temperature: float, top_k: int, top_p: float, min_p: float
) -> None:
    """Whatever the settings, the verdicts' probabilities sum to 1."""
    decoding = Decoding("sampled", temperature, top_k, top_p, min_p)
    assert sum(verdict_probabilities(TREE, decoding, VERDICTS).values()) == pytest.approx(1)


def test_draws_follow_the_probabilities() -> None:
    """5,000 seeds draw verdicts as often as their probabilities say (chi-squared, p > 0.001)."""
    seen = Counter(redraw(TREE, FREE, seed) for seed in range(5_000))
    expected = verdict_probabilities(TREE, FREE, VERDICTS)
    counts = [seen[v] for v in VERDICTS]
    assert sum(counts) == 5_000
    chances = np.array([expected[v] for v in VERDICTS])
    assert stats.chisquare(counts, 5_000 * chances).pvalue > 1e-3


def test_nodes_survive_json() -> None:
    """A node written as JSON and read back is the same node, to the last bit of its logits."""
    assert [node_of(json.loads(json.dumps(asdict(node)))) for node in TREE] == list(TREE)


def test_where_nothing_leads_to_a_verdict_nothing_is_drawn() -> None:
    """Such nodes have no ways and no probabilities, and a draw from them is an error."""
    nowhere = (Node('"', 0.9, (1,), (0.0,), (None,)),)
    assert paths(nowhere, FREE) == []
    assert verdict_probabilities(nowhere, FREE, ("A",)) == {"A": 0.0}
    with pytest.raises(ValueError, match="no token leads"):
        redraw(nowhere, FREE, 1)
