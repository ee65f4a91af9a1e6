"""Votes in pools, keyed by item and counted; quality gaps made of votes; samples of items."""

from __future__ import annotations

import hashlib
import json
import os
import random
import tempfile
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prereg_judge.annotation_form import TableForm
from prereg_judge.annotations import (
    AnnotationTable,
    KeyedItem,
    keyed_items,
    load_annotations,
    refuse_unshared,
)
from prereg_judge.errors import InputError
from prereg_judge.tallies import credit_gaps, sample_items, tally, voted_twice
from prereg_judge.votes import PAIR_KEYS, PairKey, VoteCounts

# Corpora are not this project's to ship.
CORPORA = Path(os.environ.get("PREREG_CORPORA", Path(__file__).parents[2] / "shared/data"))
HUMAN = CORPORA / "mtbench/human.jsonl"
MT_BENCH = TableForm("mt-bench", {"author": ("author_*",), "expert": ("expert_*",)})
BOTH = ("author", "expert")
WORDS = {"a": "model_a", "b": "model_b", "tie": "tie"}
MODELS = ("alpaca", "claude", "gpt", "vicuna")

# One vote: question, turn, first model, second model, side, annotator.
Told = tuple[int, int, str, str, str, str]


def load(votes: list[Told], form: TableForm = MT_BENCH) -> AnnotationTable:
    """The table of a file of MT-Bench's layout with these votes."""
    names = ("question_id", "turn", "model_a", "model_b", "winner", "judge")
    rows = [dict(zip(names, (*v[:4], WORDS[v[4]], v[5]), strict=True)) for v in votes]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "votes.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        return load_annotations(path, form=form, shown="votes.jsonl")


def refusal(votes: list[Told], form: TableForm = MT_BENCH) -> list[str]:
    """What is said of a table that is refused."""
    with pytest.raises(InputError) as caught:
        load(votes, form)
    return str(caught.value).splitlines()


def as_dict(counts: VoteCounts) -> dict[str, Any]:
    """What was counted, whatever the order of the items."""
    models = counts.models or (None,) * len(counts.items)
    rows = zip(counts.items, models, counts.counts.tolist(), strict=True)
    return {item: (models, votes) for item, models, votes in rows}


@st.composite
def tables(draw: st.DrawFn) -> list[Told]:
    """Votes on pairs in both stored orders, at least one pair rated by both pools."""
    pairs = st.tuples(
        st.integers(1, 3),
        st.integers(1, 2),
        st.sampled_from([(a, b) for a in MODELS for b in MODELS if a != b]),
        st.sampled_from(["author_1", "author_2", "expert_1", "expert_2", "expert_3"]),
    )
    keys = draw(st.lists(pairs, max_size=12))
    keys += [(9, 1, ("alpaca", "gpt"), "author_1"), (9, 1, ("gpt", "alpaca"), "expert_1")]
    return [
        (question, turn, *models, draw(st.sampled_from(["a", "b", "tie"])), judge)
        for question, turn, models, judge in dict.fromkeys(keys)
    ]


def turned(vote: Told) -> Told:
    """The same vote on the pair stored the other way round."""
    question, turn, left, right, side, judge = vote
    return question, turn, right, left, {"a": "b", "b": "a", "tie": "tie"}[side], judge


@pytest.fixture(scope="module")
def human() -> AnnotationTable:
    """MT-Bench's human judgments."""
    if not HUMAN.is_file():
        pytest.skip("the human votes of MT-Bench are not here: set PREREG_CORPORA")
    return load_annotations(HUMAN, form=MT_BENCH, shown="human.jsonl")


@pytest.mark.parametrize(
    ("key", "golden"), [("stored", (292, 246, 21, 75)), ("unordered", (413, 316, 22, 81))]
)
def test_published_figures_of_two_pools(
    human: AnnotationTable, key: PairKey, golden: tuple[int, ...]
) -> None:
    """Items rated by both pools, and those of one mind each, opposite, changed: "Whose Gold?"."""
    counts = tally(human, key=key, pools=BOTH)
    votes = counts.counts[(counts.by_pool > 0).all(axis=1)]
    free = ((votes > 0).sum(axis=2) == 1).all(axis=1)
    one, other = votes[free].argmax(axis=2).T
    opposite = (one != other) & (one != 2) & (other != 2)
    assert (len(votes), free.sum(), opposite.sum(), (one != other).sum()) == golden


def test_published_figures_within_pools(human: AnnotationTable) -> None:
    """Expert pairs disagree in 503 of 1,428, author pairs in 31 of 99: "Whose Gold?".

    99 holds only if an annotator's votes on both stored orders of a pair both count.
    """
    votes = tally(human, key="unordered", pools=BOTH).counts
    total = votes.sum(axis=2)
    pairs = (total * (total - 1) // 2).sum(axis=0)
    alike = (votes * (votes - 1) // 2).sum(axis=(0, 2))
    assert (pairs - alike).tolist() == [31, 503]
    assert pairs.tolist() == [99, 1428]
    assert [voted_twice(human, key=key, pools=BOTH) for key in PAIR_KEYS] == [0, 1]


def test_the_published_file(human: AnnotationTable) -> None:
    """All 3,355 votes belong to a pool; the table is known by the hash of its bytes."""
    raw = HUMAN.read_bytes()
    assert (human.sha256, human.n_bytes) == (hashlib.sha256(raw).hexdigest(), len(raw))
    assert (len(human.votes), human.left_out, human.pools) == (3355, {}, BOTH)
    counts = tally(human, key="stored", pools=BOTH)
    assert counts.counts.sum() == 3355
    assert counts.items[0] == "81/1|alpaca-13b|gpt-3.5-turbo"
    assert counts.sided


def test_the_two_keys() -> None:
    """Stored the other way round, a pair is another item, or the same one with sides exchanged."""
    table = load(
        [
            (1, 1, "gpt", "alpaca", "a", "author_1"),
            (1, 1, "alpaca", "gpt", "a", "expert_1"),
            (1, 1, "gpt", "alpaca", "a", "expert_2"),
            (1, 2, "alpaca", "gpt", "tie", "expert_1"),
        ]
    )
    stored = tally(table, key="stored", pools=BOTH)
    assert as_dict(stored) == {
        "1/1|gpt|alpaca": (("gpt", "alpaca"), [[1, 0, 0], [1, 0, 0]]),
        "1/1|alpaca|gpt": (("alpaca", "gpt"), [[0, 0, 0], [1, 0, 0]]),
        "1/2|alpaca|gpt": (("alpaca", "gpt"), [[0, 0, 0], [0, 0, 1]]),
    }
    assert stored.gaps is None
    assert stored.strata == (None, None, None)
    unordered = tally(table, key="unordered", pools=("expert", "author"))
    assert as_dict(unordered) == {
        "1/1|alpaca|gpt": (("alpaca", "gpt"), [[1, 1, 0], [0, 1, 0]]),
        "1/2|alpaca|gpt": (("alpaca", "gpt"), [[0, 0, 1], [0, 0, 0]]),
    }


@settings(max_examples=60, deadline=None)
@given(tables(), st.data())
def test_the_unordered_key_does_not_see_the_stored_order(votes: list[Told], data: Any) -> None:
    """Storing any vote the other way round, with its side exchanged, changes no unordered count."""
    flip = data.draw(st.lists(st.booleans(), min_size=len(votes), max_size=len(votes)))
    other = [turned(vote) if by else vote for vote, by in zip(votes, flip, strict=True)]
    if len({(*vote[:4], vote[5]) for vote in other}) < len(other):
        return  # an annotator who judged both orders would now have two votes on one of them
    one, two = (tally(load(rows), key="unordered", pools=BOTH) for rows in (votes, other))
    assert as_dict(one) == as_dict(two)
    assert one.items == two.items


@settings(max_examples=60, deadline=None)
@given(tables(), st.randoms(use_true_random=False), st.sampled_from(PAIR_KEYS))
def test_the_order_of_rows_changes_the_order_only(
    votes: list[Told], chance: random.Random, key: PairKey
) -> None:
    """Rows in another order give the same counts, gaps and samples, in another order."""
    mixed = chance.sample(votes, len(votes))
    one, two = (tally(load(rows), key=key, pools=BOTH) for rows in (votes, mixed))
    assert as_dict(one) == as_dict(two)
    gaps = [dict(zip(c.items, credit_gaps(c), strict=True)) for c in (one, two)]
    assert gaps[0] == pytest.approx(gaps[1], abs=1e-12)
    shared = int((one.by_pool > 0).all(axis=1).sum())
    if shared:
        drawn = [set(sample_items(c, n=(shared + 1) // 2, seed=7).items) for c in (one, two)]
        assert drawn[0] == drawn[1]


@settings(max_examples=60, deadline=None)
@given(tables())
def test_every_vote_counts_once(votes: list[Told]) -> None:
    """The counts add up to the votes under both keys, pool by pool, and no item is empty."""
    table = load(votes)
    for key in PAIR_KEYS:
        counts = tally(table, key=key, pools=BOTH)
        assert counts.by_pool.sum(axis=0).tolist() == [
            sum(vote.pool == pool for vote in table.votes) for pool in BOTH
        ]
        assert (counts.by_pool.sum(axis=1) > 0).all()
        assert len(set(counts.items)) == len(counts.items)


def test_two_of_three_pools() -> None:
    """Only the votes of the two pools that are compared are counted, and only their items."""
    form = replace(MT_BENCH, pools={**MT_BENCH.pools, "crowd": ("w*",)})
    table = load(
        [
            (1, 1, "gpt", "alpaca", "a", "author_1"),
            (1, 1, "gpt", "alpaca", "b", "expert_1"),
            (1, 1, "gpt", "alpaca", "b", "w1"),
            (2, 1, "gpt", "alpaca", "b", "w1"),
        ],
        form,
    )
    assert as_dict(tally(table, key="stored", pools=BOTH)) == {
        "1/1|gpt|alpaca": (("gpt", "alpaca"), [[1, 0, 0], [0, 1, 0]])
    }


ONE = (1, 1, "gpt", "alpaca", "a", "author_1")
TWO = (1, 1, "gpt", "alpaca", "b", "expert_1")


def test_an_annotator_votes_once_on_an_item() -> None:
    """A second vote on the stored pair is refused, with both lines; the other way round not."""
    said = refusal([ONE, TWO, (*TWO[:4], "tie", "expert_1")])
    assert said == [
        "votes.jsonl:3: annotator: has voted on the item '1/1' before, on line 2 "
        "(found 'expert_1'). Keep one of the two votes"
    ]
    table = load([ONE, TWO, turned(TWO)])
    assert voted_twice(table, key="unordered", pools=BOTH) == 1
    assert voted_twice(table, key="stored", pools=BOTH) == 0
    assert tally(table, key="unordered", pools=BOTH).counts.tolist() == [[[0, 1, 0], [2, 0, 0]]]


def test_patterns_that_match_nobody() -> None:
    """Each is told with its pool and with who there is; upper and lower case differ."""
    form = replace(MT_BENCH, pools={"author": ("author_*", "Author*"), "expert": ("phd*",)})
    assert refusal([ONE, TWO], form) == [
        "votes.jsonl: pools.author: the pattern matches no annotator (found 'Author*'). There are "
        "author_1, expert_1; upper and lower case differ",
        "votes.jsonl: pools.expert: the pattern matches no annotator (found 'phd*'). There are "
        "author_1, expert_1; upper and lower case differ",
    ]


def test_an_annotator_of_two_pools() -> None:
    """Who matches two pools is refused, and so is who stands in two pools of a column."""
    form = replace(MT_BENCH, pools={"author": ("author_*",), "all": ("*",)})
    assert refusal([ONE, TWO], form) == [
        "votes.jsonl:1: belongs to the pools author and all (found 'author_1'). Write patterns of "
        "which each annotator matches those of one pool"
    ]
    columns = {"item": "question_id", "annotator": "judge", "label": "winner", "pool": "turn"}
    by_turn = TableForm("long", {"one": ("1",), "two": ("2",)}, columns)
    said = refusal([ONE, (2, 2, "gpt", "alpaca", "a", "author_1")], by_turn)
    assert said[0].startswith("votes.jsonl:2: annotator: is of the pool one on line 1 and of two")


def test_pools_that_share_items_under_one_key_only() -> None:
    """Pairs rated by each pool in its own order are shared unordered; as stored that is refused."""
    table = load([ONE, turned(TWO)])
    refuse_unshared(table, key="unordered", pools=BOTH)
    with pytest.raises(InputError) as caught:
        refuse_unshared(table, key="stored", pools=BOTH)
    assert str(caught.value) == (
        "votes.jsonl: no item is rated by two pools (found author rated 1 items, expert rated 1 "
        "items; none is shared). Under the key `unordered`, 1 is shared"
    )


@pytest.mark.parametrize("key", PAIR_KEYS)
def test_names_of_items(key: PairKey) -> None:
    """No two pairs have the same name, whatever stands in the names of items and models."""
    parts = ("x", "x|y", "y", "\\", "|", "\\|")
    told = [(item, 1, *pair) for item in (1, 2) for pair in combinations(sorted(parts), 2)]
    votes = [(*pair, "a", judge) for pair in told for judge in ("author_1", "expert_1")]
    found = keyed_items(load(votes), key=key)
    assert len({item.name for item in found.values()}) == len(found) == len(told)


def long_form(pairs: list[tuple[str, str, str]]) -> AnnotationTable:
    """A table in long form: both pools vote for answer a of each item and pair of models."""
    rows = [
        f"{item},{one},{other},{judge},a\n"
        for item, one, other in pairs
        for judge in ("author_1", "expert_1")
    ]
    columns = {"item": "id", "annotator": "who", "label": "vote", "model_a": "x", "model_b": "y"}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "votes.csv"
        path.write_text("id,x,y,who,vote\n" + "".join(rows), encoding="utf-8")
        form = TableForm("long", MT_BENCH.pools, columns)
        return load_annotations(path, form=form, shown="votes.csv")


def test_an_item_of_one_pair_keeps_its_name() -> None:
    """Where each item is one stored pair its name stays, also where its answers are exchanged."""
    keyed = keyed_items(
        long_form([("p1", "gpt", "alpaca"), ("p2", "gpt", "vicuna")]), key="unordered"
    )
    assert keyed == {
        "p1": KeyedItem("p1", ("alpaca", "gpt"), exchanged=True),
        "p2": KeyedItem("p2", ("gpt", "vicuna"), exchanged=False),
    }


def test_an_item_of_several_pairs_is_named_with_its_models() -> None:
    """Where one item has several stored pairs, all items are named with their models."""
    table = long_form([("p1", "gpt", "alpaca"), ("p1", "alpaca", "gpt"), ("p2", "gpt", "vicuna")])
    assert keyed_items(table, key="unordered") == {
        "p1|gpt|alpaca": KeyedItem("p1|alpaca|gpt", ("alpaca", "gpt"), exchanged=True),
        "p1|alpaca|gpt": KeyedItem("p1|alpaca|gpt", ("alpaca", "gpt"), exchanged=False),
        "p2|gpt|vicuna": KeyedItem("p2|gpt|vicuna", ("gpt", "vicuna"), exchanged=False),
    }
    assert tally(table, key="unordered", pools=BOTH).counts[0].tolist() == [[1, 1, 0], [1, 1, 0]]


def counts_of(votes: list[list[list[int]]], **more: Any) -> VoteCounts:
    """Counts of items i0, i1, ... for two pools, on pairs."""
    items = tuple(f"i{at}" for at in range(len(votes)))
    return VoteCounts(items, BOTH, ("a", "b", "tie"), np.array(votes), **more)


def test_gaps_from_credit() -> None:
    """x has 4 of 5 votes in credit, y 1.5 of 6, z 0.5 of 1; gaps are differences of these."""
    models = (("x", "y"), ("y", "x"), ("z", "y"))
    votes = [[[1, 0, 0], [1, 1, 0]], [[0, 1, 0], [0, 1, 0]], [[0, 0, 0], [0, 0, 1]]]
    gaps = credit_gaps(counts_of(votes, models=models))
    assert gaps == pytest.approx([4 / 5 - 1.5 / 6, 4 / 5 - 1.5 / 6, 0.5 - 1.5 / 6])


def test_gaps_need_models_and_sides() -> None:
    """Without models, or with labels that are no sides, there is no credit."""
    counts = counts_of([[[1, 0, 0], [1, 0, 0]]])
    with pytest.raises(ValueError, match="pairs of models"):
        credit_gaps(counts)
    words = ("ham", "jam", "spam")
    with pytest.raises(ValueError, match="pairs of models"):
        credit_gaps(replace(counts, models=(("x", "y"),), labels=words))


def test_a_sample_in_proportion() -> None:
    """8 of strata of 12, 6 and 2 are 4.8, 2.4 and 0.8: 5, 2 and 1 by the largest remainder."""
    strata = ("u",) * 12 + ("v",) * 6 + ("w",) * 2
    counts = counts_of([[[1, 0, 0], [0, 1, 0]]] * 20, strata=strata, gaps=np.arange(20.0))
    drawn = sample_items(counts, n=8, seed=3)
    assert [drawn.strata.count(name) for name in "uvw"] == [5, 2, 1]
    rows = [int(item[1:]) for item in drawn.items]
    assert rows == sorted(set(rows))
    assert drawn.gaps is not None
    assert drawn.gaps.tolist() == rows
    assert drawn.strata == tuple(strata[row] for row in rows)
    assert drawn.counts.shape == (8, 2, 3)


def test_equal_remainders_go_by_name() -> None:
    """3 of two strata of 5 are 1.5 each: the first by name has 2, wherever it stands."""
    counts = counts_of([[[1, 0, 0], [0, 1, 0]]] * 10, strata=("v",) * 5 + ("u",) * 5)
    assert sample_items(counts, n=3, seed=0).strata == ("v", "u", "u")


def test_a_sample_over_tertiles_of_the_gaps() -> None:
    """Without strata each third of the gaps gives its share."""
    gaps = np.array([0.9, 0.1, 0.5, 0.2, 0.8, 0.4, 0.3, 0.7, 0.6])
    counts = counts_of([[[1, 0, 0], [0, 1, 0]]] * 9, strata=(None,) * 9, gaps=gaps)
    for seed in range(5):
        drawn = sample_items(counts, n=3, seed=seed).gaps
        assert drawn is not None
        assert np.digitize(np.sort(drawn), [0.35, 0.65]).tolist() == [0, 1, 2]


def test_a_sample_is_drawn_by_its_seed_from_what_both_rated() -> None:
    """The same seed gives the same items, others others; items of one pool are never drawn."""
    votes = [[[1, 0, 0], [0, at % 2, 0]] for at in range(40)]
    counts = counts_of(votes, models=tuple((f"m{at}", "x") for at in range(40)))
    samples = [sample_items(counts, n=10, seed=seed) for seed in (1, 1, 2, 3, 4)]
    assert samples[0].items == samples[1].items
    assert len({sample.items for sample in samples}) == 4
    assert all((sample.by_pool > 0).all() for sample in samples)
    everything = sample_items(counts, n=20, seed=1)
    assert everything.items == tuple(f"i{at}" for at in range(1, 40, 2))
    assert everything.models == tuple((f"m{at}", "x") for at in range(1, 40, 2))
    drawn = {item for seed in range(60) for item in sample_items(counts, n=10, seed=seed).items}
    assert drawn == set(everything.items)


@pytest.mark.parametrize("n", [0, 3])
def test_samples_that_cannot_be_drawn(n: int) -> None:
    """None, and more than both pools rated, are refused with how many there are."""
    counts = counts_of([[[1, 0, 0], [0, 1, 0]]] * 2 + [[[1, 0, 0], [0, 0, 0]]])
    with pytest.raises(InputError, match=f"2 items are rated by every pool, so {n} cannot"):
        sample_items(counts, n=n, seed=1)
