"""The study `pools`: majorities, subsets, disagreement inside a pool, divergence over gaps."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from statistics import correlation

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prereg_judge.stats.resample import Resampler
from prereg_judge.stats.tertiles import tertiles
from prereg_judge.study import pools
from prereg_judge.study.metric import MetricRef
from prereg_judge.study.outcomes import Resampling
from prereg_judge.study.pools_view import majorities
from prereg_judge.votes import SplitRule, VoteCounts
from study.pools_made import Votes, check_interval, get, limits, made, ratio, votes, winner

# Unanimous alike, opposite, tie against a; a crowd of two minds, an equal split; one pool only.
ITEMS: list[Votes] = [
    ("aa", "a"), ("bb", "a"), ("t", "aa"), ("aab", "bb"), ("ab", "a"), ("aaa", ""), ("", "b"),
]  # fmt: skip


def test_subsets_and_winners_by_majority() -> None:
    """Items of both pools count; free ones are unanimous in each; a tie is a label of its own."""
    data = made(votes(ITEMS))
    assert ratio(pools, data, "items.count") == (5, 7)
    assert ratio(pools, data, "items.count", subset="free") == (3, 7)
    # The equal split is a tie, which is not the other pool's label and not the other winner.
    assert ratio(pools, data, "opposite.count") == (2, 5)
    assert ratio(pools, data, "changed.rate") == (4, 5)
    assert ratio(pools, data, "opposite.rate", subset="free") == (1, 3)
    assert ratio(pools, data, "changed.count", subset="free") == (2, 3)
    interval = get(pools, data, "changed.rate").interval
    assert interval is not None
    assert interval.method == "wilson"


def test_equal_splits_can_be_left_out() -> None:
    """Under `exclude` an item on which a pool is equally split leaves n, and the note says so."""
    data = made(votes(ITEMS), split="exclude")
    found = get(pools, data, "changed.count")
    assert (found.k, found.n) == (3, 4)
    assert found.note == "1 of 5 items left out: a pool is equally split"
    assert ratio(pools, data, "items.count") == (5, 7)
    alone = get(pools, made(votes([("ab", "a")]), split="exclude"), "changed.rate")
    assert (alone.undefined, alone.n) == ("no_items", 0)


@pytest.mark.parametrize(("split", "found"), [("tie", 2), ("exclude", -1)])
def test_a_split_without_a_tie_label(split: SplitRule, found: int) -> None:
    """Labels that have no tie get one of their own for an equal split, or none."""
    got = majorities(np.array([[2, 2], [1, 2]]), ("KEEP", "DROP"), split=split)
    assert got.tolist() == [found, 1]


def test_labels_without_sides() -> None:
    """Labels that name no winner have majorities, and no opposite winners."""
    counts = VoteCounts(
        ("i", "j"), ("crowd", "expert"), ("KEEP", "DROP"), np.array([[[1, 0], [0, 2]]] * 2)
    )
    data = made(counts)
    assert ratio(pools, data, "changed.rate") == (2, 2)
    assert get(pools, data, "opposite.rate").undefined == "no_sides"
    assert not any(m.ref.name.startswith("opposite") for m in pools.summary(data))
    assert pools.plain_words(data) == []


def test_disagreement_is_over_all_items_of_the_table() -> None:
    """Pairs of votes of one pool count on items that the other pool did not rate, too."""
    data = made(votes(ITEMS))
    # Crowd: aa 0/1, bb 0/1, aab 2/3, ab 1/1, aaa 0/3; expert: aa and bb 0/1 each.
    assert ratio(pools, data, "disagreement.rate", pool="crowd") == (3, 9)
    expert = get(pools, data, "disagreement.rate", pool="expert")
    assert (expert.k, expert.n) == (0, 2)
    assert expert.interval is not None
    assert expert.interval.method == "wilson on items, all alike"
    assert (expert.interval.low, round(expert.interval.high, 3)) == (0.0, 0.658)
    lone = get(pools, made(votes([("a", "b")])), "disagreement.rate", pool="crowd")
    assert (lone.undefined, lone.n) == ("empty_denominator", 0)


def test_tertiles_keep_equal_gaps_together() -> None:
    """Items of one gap go to one third, whatever their order; thirds of different gaps are even."""
    assert tertiles(np.array([5.0, 1, 3, 2, 6, 4])).tolist() == [3, 1, 2, 1, 3, 2]
    assert tertiles(np.array([1.0, 1, 1, 1, 2])).tolist() == [2, 2, 2, 2, 3]
    assert tertiles(np.ones(4)).tolist() == [2, 2, 2, 2]


def test_divergence_over_gaps() -> None:
    """The share that changes within each third by gap, and its correlation with the gap."""
    items = [("a", "b"), ("a", "b"), ("a", "a"), ("b", "a"), ("a", "a"), ("b", "b")]
    gaps = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6]
    data = made(votes(items, gaps=gaps))
    assert [ratio(pools, data, "divergence.rate", tertile=t) for t in (1, 2, 3)] == [
        (2, 2),
        (1, 2),
        (0, 2),
    ]
    found = get(pools, data, "divergence.r")
    assert found.value == pytest.approx(correlation(gaps, [1, 1, 0, 1, 0, 0]))
    assert found.interval is not None
    assert found.interval.method == "percentile bootstrap over items, 200 resamples, seed 7"
    assert "undefined in" in (found.note or "")


def test_divergence_without_gaps_or_without_spread() -> None:
    """No gap, equal gaps, an empty third, and a label that never changes are typed reasons."""
    assert get(pools, made(votes(ITEMS)), "divergence.r").undefined == "no_gap"
    assert get(pools, made(votes(ITEMS)), "divergence.rate", tertile=1).undefined == "no_gap"
    flat = made(votes([("a", "b"), ("a", "a")], gaps=[0.1, 0.1]))
    found = get(pools, flat, "divergence.r")
    assert (found.undefined, found.note) == ("empty_denominator", "every gap is the same")
    third = get(pools, flat, "divergence.rate", tertile=1)
    assert (third.undefined, third.note) == ("empty_denominator", "no item in this third")
    for other, words in (("a", "no item"), ("b", "every item")):
        still = made(votes([("a", other)] * 2, gaps=[0.1, 0.2]))
        assert get(pools, still, "divergence.r").note == f"the label differs on {words}"


def test_wrong_references_are_said_in_words() -> None:
    """Unknown names, parameters and values give `not_computed` with what is known."""
    data = made(votes(ITEMS))
    cases: tuple[tuple[str, dict[str, object], str], ...] = (
        ("opposite", {}, "not in the catalogue"),
        ("calls.count", {}, "not in the catalogue"),
        ("items.count", {"pool": "crowd"}, "items.count takes no pool"),
        ("disagreement.rate", {}, "disagreement.rate needs pool"),
        ("disagreement.rate", {"pool": "x"}, "there is no pool=x (there is: crowd, expert)"),
        ("changed.rate", {"key": "both"}, "there is no key=both (there is: stored, unordered)"),
        ("changed.rate", {"subset": "x"}, "there is no subset=x (there is: both, free)"),
        ("divergence.rate", {"tertile": 4}, "there is no tertile=4 (there is: 1, 2, 3)"),
    )
    for name, params, words in cases:
        found = get(pools, data, name, **params)
        assert (found.undefined, found.note) == ("not_computed", words)
    limit = get(pools, data, "items.count.ci_low")
    assert (limit.undefined, limit.note) == ("not_computed", "items.count has no interval here")


def test_limits_are_metrics() -> None:
    """`.ci_low` and `.ci_high` are the limits of the metric's own interval."""
    data = made(votes(ITEMS))
    found = get(pools, data, "disagreement.rate", pool="crowd").interval
    assert found is not None
    assert get(pools, data, "disagreement.rate.ci_low", pool="crowd").value == found.low
    assert get(pools, data, "disagreement.rate.ci_high", pool="crowd").value == found.high


def test_without_a_bootstrap_there_is_no_interval() -> None:
    """A registration without a bootstrap gets the number, and the reason for the missing limits."""
    found = get(pools, made(votes(ITEMS), resampling=None), "disagreement.rate", pool="crowd")
    assert found.interval is None
    assert "no bootstrap is registered" in (found.note or "")


def test_the_first_split_item_does_not_narrow_the_interval() -> None:
    """Within-pool disagreement on 0, 1 and 2 of 64 items: the upper limit only grows."""
    tops = []
    for split in range(3):
        counts = votes([("ab", "a")] * split + [("aa", "a")] * (64 - split))
        found = get(pools, made(counts), "disagreement.rate", pool="crowd")
        assert (found.k, found.n) == (split, 64)
        assert found.interval is not None
        tops.append(found.interval.high)
    assert tops == sorted(tops)


def test_strata_keep_their_sizes() -> None:
    """With `by_stratum` a statistic that only strata decide is the same in every resample."""
    items = [("ab", "a")] * 3 + [("aa", "a")] * 5
    counts = votes(items, strata=["x"] * 3 + [None] * 5)
    free = get(pools, made(counts), "disagreement.rate", pool="crowd")
    assert free.interval is not None
    bound = made(counts, resampling=Resampling(50, 7, by_stratum=True))
    found = get(pools, bound, "disagreement.rate", pool="crowd")
    assert found.interval is None
    assert "the value was the same in all 50 resamples, so there is no interval" in (
        found.note or ""
    )


def test_both_keys_are_said_side_by_side() -> None:
    """The words name what each key makes of the same votes, and which of them is registered."""
    data = made(votes([("a", "b"), ("a", "a")]), other=votes([("a", "b")]))
    assert pools.plain_words(data) == [
        "How the items of a pair of models are told apart moves the answer. With the key `stored` "
        "each pool is of one mind on 2 items: opposite winners on 1 (50.0%), another majority "
        "label on 1 (50.0%). With the key `unordered` each pool is of one mind on 1 items: "
        "opposite winners on 1 (100.0%), another majority label on 1 (100.0%). The registered key "
        "is `stored`."
    ]
    refs = [m.ref for m in pools.summary(data)]
    for key in ("stored", "unordered"):
        assert MetricRef.of("opposite.rate", key=key, subset="free") in refs


def test_keys_that_give_the_same_are_not_said_to_matter() -> None:
    """Equal figures under both keys are no choice; where only items with split votes differ, their
    figures are the ones that are told.
    """
    same = votes([("a", "b"), ("a", "a")])
    assert pools.plain_words(made(same, other=same)) == [
        "How the items of a pair of models are told apart makes no difference here: the keys "
        "`stored` and `unordered` give the same figures."
    ]
    (told,) = pools.plain_words(made(same, other=votes([("a", "b"), ("a", "a"), ("aab", "b")])))
    assert "moves the answer. With the key `stored` both pools rated 2 items:" in told
    assert "With the key `unordered` both pools rated 3 items:" in told


def test_no_item_of_both_pools() -> None:
    """Pools that rated other items give typed reasons and a sentence, never a traceback."""
    data = made(votes([("a", ""), ("", "b")]))
    assert ratio(pools, data, "items.count") == (0, 2)
    assert get(pools, data, "changed.rate").undefined == "no_items"
    assert pools.plain_words(data)[0] == (
        "No item is rated by both crowd and expert, so nothing can be compared."
    )
    assert all(m.value is not None or m.undefined for m in pools.summary(data))


def test_catalogue_and_parameters() -> None:
    """The catalogue holds metrics of tables alone, and every parameter's values can be listed."""
    found = pools.catalogue(["real"])
    assert "items.count" in found.specs
    assert not any(name.startswith("calls.") for name in found.specs)
    data = made(votes(ITEMS))
    assert data.table is not None
    listed = pools.parameters(data.table)
    assert listed["pool"] == ("crowd", "expert")
    named = {p for spec in found.specs.values() for p in (*spec.required, *spec.optional)}
    assert set(listed) == named
    assert pools.protocol_words(decoding=data.drawing, passes=1) == []
    assert pools.curves(data) == ()


# A second implementation, in plain loops.


def share_differing(items: Sequence[Votes], weights: Sequence[float]) -> float:
    """Weighted share of pairs of crowd votes on one item that differ."""
    k = n = 0.0
    for (crowd, _), weight in zip(items, weights, strict=True):
        for x, y in combinations(crowd, 2):
            n += weight
            k += weight * (x != y)
    return k / n if n else float("nan")


def pearson(x: Sequence[float], y: Sequence[float], weights: Sequence[float]) -> float:
    """Pearson's r of repeated values; NaN without spread."""
    repeated = [(a, b) for a, b, w in zip(x, y, weights, strict=True) for _ in range(round(w))]
    if len({a for a, _ in repeated}) < 2 or len({b for _, b in repeated}) < 2:
        return float("nan")
    return correlation([a for a, _ in repeated], [b for _, b in repeated])


POOL_VOTES = st.text("abt", max_size=4)


@given(
    st.lists(
        st.tuples(POOL_VOTES, POOL_VOTES, st.integers(0, 3)).filter(lambda x: bool(x[0] + x[1])),
        min_size=1,
        max_size=12,
    )
)
def test_against_plain_loops(drawn: list[tuple[str, str, int]]) -> None:
    """Counts, shares, r and the bootstrapped limits are those of a second implementation."""
    items = [(crowd, expert) for crowd, expert, _ in drawn]
    gaps = [float(gap) for *_, gap in drawn]
    data = made(votes(items, gaps=gaps), resampling=Resampling(40, 3))
    rated = [at for at, item in enumerate(items) if all(item)]
    free = [at for at in rated if all(len(set(pool)) == 1 for pool in items[at])]
    for subset, among in (("both", rated), ("free", free)):
        sides = [{winner(pool) for pool in items[at]} for at in among]
        assert ratio(pools, data, "items.count", subset=subset) == (len(among), len(items))
        if not among:
            assert get(pools, data, "opposite.rate", subset=subset).undefined == "no_items"
            continue
        opposite = sum(s == {"a", "b"} for s in sides)
        assert ratio(pools, data, "opposite.count", subset=subset) == (opposite, len(among))
        changed = [float(len(s) > 1) for s in sides]
        assert ratio(pools, data, "changed.rate", subset=subset) == (sum(changed), len(among))
        r = get(pools, data, "divergence.r", subset=subset)
        x = [gaps[at] for at in among]
        value = pearson(x, changed, [1.0] * len(among))
        if value != value:
            assert r.undefined == "empty_denominator"
            continue
        assert r.value == pytest.approx(value)
        weights = Resampler(len(among), 40, 3).totals(np.eye(len(among)))
        check_interval(r, limits([pearson(x, changed, w) for w in weights]))
    paired = [item for item in items if len(item[0]) > 1]
    found = get(pools, data, "disagreement.rate", pool="crowd")
    if not paired:
        assert found.undefined == "empty_denominator"
        return
    assert found.value == share_differing(items, [1.0] * len(items))
    weights = Resampler(len(paired), 40, 3).totals(np.eye(len(paired)))
    check_interval(found, limits([share_differing(paired, w) for w in weights]))


@given(st.permutations(range(len(ITEMS))))
def test_the_order_of_items_does_not_matter(order: list[int]) -> None:
    """Counts and thirds are the same for any order of the items."""
    gaps = [0.1, 0.2, 0.2, 0.3, 0.4, 0.4, 0.5]
    data = made(votes(ITEMS, gaps=gaps))
    turned = made(votes([ITEMS[at] for at in order], gaps=[gaps[at] for at in order]))
    for name in ("opposite.count", "changed.count"):
        assert ratio(pools, data, name) == ratio(pools, turned, name)
    for tertile in pools.TERTILES:
        assert ratio(pools, data, "divergence.rate", tertile=tertile) == ratio(
            pools, turned, "divergence.rate", tertile=tertile
        )


def test_a_third_pool_has_its_own_disagreement() -> None:
    """Pools that are not compared can still be asked whether they are of one mind."""
    counts = np.array([[[1, 0, 0], [1, 0, 0], [1, 1, 0]]])
    table = VoteCounts(("i",), ("crowd", "expert", "lay"), ("a", "b", "tie"), counts)
    data = made(table)
    assert ratio(pools, data, "disagreement.rate", pool="lay") == (1, 1)
