"""The study `annotators`: labels by policy, the selection that exclusion causes, soft labels."""

from __future__ import annotations

import math

import numpy as np
import pytest

from prereg_judge.study import annotators
from prereg_judge.study.outcomes import Resampling
from prereg_judge.votes import SplitRule
from study.annotators_made import asked, get, rated, value

#        unanimous  majority  split  single  split  unanimous
ROWS = ["aaa", "aab", "ab.", "b..", "bc.", "ccc"]
ADJUDICATED = ".bc..a"


@pytest.mark.parametrize(
    ("policy", "split", "kept", "a"),
    [
        ("majority", "exclude", 4, 2),
        ("majority", "tie", 6, 2),
        ("unanimous", "exclude", 3, 1),
        # aaa by itself, b and c and a by the adjudicator, the single b by itself, b/c by nobody.
        ("adjudicated", "exclude", 5, 2),
    ],
)
def test_each_policy_by_hand(policy: str, split: SplitRule, kept: int, a: int) -> None:
    """How many of six items get a label, and how many of those the label a."""
    data = asked(rated(ROWS, adjudicated=ADJUDICATED), split=split)
    count, rate = (get(data, f"resolved.{x}", policy=policy) for x in ("count", "rate"))
    assert (count.k, count.n, rate.k, rate.n) == (kept, 6, kept, 6)
    share = get(data, "resolved.share", policy=policy, label="a")
    assert (share.k, share.n) == (a, kept)
    assert share.value == pytest.approx(a / kept)
    assert rate.interval is not None
    assert share.interval is not None
    assert rate.interval.method == share.interval.method == "wilson"


def test_equal_splits_get_the_label_tie_where_there_is_one() -> None:
    """Under the rule `tie` an equal split is a tie like the annotators' own."""
    labels = ["a", "b", "c", "tie"]
    table = rated(ROWS, labels=labels)
    found = get(asked(table, split="tie"), "resolved.share", policy="majority", label="tie")
    assert (found.k, found.n) == (2, 6)
    assert found.note == "2 items are equally split and get the label `tie`"
    own = get(asked(rated(ROWS), split="tie"), "resolved.count", policy="majority")
    assert own.note == "2 items are equally split and get the label `tie` of its own"
    excluded = get(asked(rated(ROWS)), "resolved.count", policy="majority")
    assert excluded.note == "2 items are equally split and get no label"


def test_what_an_adjudicator_overturns() -> None:
    """Of adjudicated items with a majority, those labelled otherwise; equal splits are left out."""
    found = get(asked(rated(ROWS, adjudicated=ADJUDICATED)), "adjudication.overturned.rate")
    assert (found.k, found.n) == (2, 2)  # aab became b, ccc became a
    assert found.note == "1 adjudicated items without a majority are left out"
    none = get(asked(rated(["ab"], adjudicated="a")), "adjudication.overturned.count")
    assert (none.undefined, none.n) == ("empty_denominator", 0)


def test_exclusion_selects_and_the_shift_says_how() -> None:
    """Where only b is disputed, leaving out disputed items takes b's share away: by hand."""
    data = asked(rated(["aa"] * 42 + ["bb"] * 14 + ["bc"] * 28))
    # Left, in sevenths: 6 a, 2 b. All: a 6, b 2 + 2, c 2 of 12.
    shifts = {x: value(data, "selection.shift", label=x) for x in "abc"}
    assert shifts == pytest.approx({"a": 6 / 8 - 6 / 12, "b": 2 / 8 - 4 / 12, "c": -2 / 12})
    found = get(data, "selection.distance")
    assert found.value == pytest.approx(0.25)
    assert "biased upward" in (found.note or "")
    assert "56 of 84 items are left" in (found.note or "")
    said = " ".join(annotators.plain_words(data))
    assert "leaves 56 of 84 (66.7%), and selects: the share of `a` is +25.00 points" in said


def test_without_disputes_nothing_is_selected() -> None:
    """No item is left out: no shift, no interval, and no sentence that warns of a selection."""
    data = asked(rated(["aa", "bb", "cc"] * 5))
    found = get(data, "selection.shift", label="a")
    assert (found.value, found.interval) == (0.0, None)
    assert "no item is left out in all 200 resamples" in (found.note or "")
    distance = get(data, "selection.distance")
    assert (distance.value, distance.interval) == (0.0, None)
    assert "no item is left out in all 200 resamples" in (distance.note or "")
    assert not any("Leaving out" in text for text in annotators.plain_words(data))


def test_the_distance_can_be_nothing() -> None:
    """Where disputes fall on all labels alike, 35 of 40 intervals or more reach down to 0.

    Fewer would come of a true coverage of 95% once in 70 tries.
    """
    generator = np.random.default_rng(6)
    reached = 0
    for seed in range(40):
        rows = []
        for _ in range(150):
            one, two = (str(x) for x in generator.choice(list("abc"), size=2))
            rows.append(one + (two if generator.random() < 0.4 else one))
        interval = get(
            asked(rated(rows), resampling=Resampling(200, seed)), "selection.distance"
        ).interval
        assert interval is not None
        reached += interval.low == 0
    assert reached >= 35


def test_entropy_and_distances_by_hand() -> None:
    """Even splits have one bit; the same labels are at distance 0, others at 1."""
    pools = {"one": range(2), "two": range(2, 4)}
    data = asked(rated(["abab", "aaaa", "aabb", "a..."], pools=pools))
    # Both pools split; nobody differs; each pool of one mind and of another.
    assert value(data, "soft.entropy", pool="one") == pytest.approx(1 / 3)
    assert value(data, "soft.entropy") == pytest.approx(2 / 3)
    apart = get(data, "soft.distance", pool="one", other="two")
    assert apart.n == 3
    assert apart.value == pytest.approx(1 / 3)
    lone = get(asked(rated(["ab", "aa", "b."])), "soft.loss", annotator="n0")
    assert lone.n == 2
    assert lone.value == pytest.approx(0.5)
    assert lone.note is not None
    assert lone.note.startswith("1 items that nobody else rated are left out")


def test_an_annotator_against_a_split_of_the_others() -> None:
    """One label against an even split of it and another, from the definition by logarithms."""
    data = asked(rated(["aab"]))
    m = (0.75, 0.25)
    divergence = 0.5 * math.log2(1 / m[0]) + 0.5 * (
        0.5 * math.log2(0.5 / m[0]) + 0.5 * math.log2(0.5 / m[1])
    )
    assert value(data, "soft.loss", annotator="n0") == pytest.approx(math.sqrt(divergence))


def test_a_shift_is_covered_by_its_interval() -> None:
    """In 60 samples of a population with a known shift, its 95% interval holds it in 51 or more.

    Fewer than 51 of 60 would come of a true coverage of 95% once in over 1,000 tries.
    """
    generator = np.random.default_rng(4)
    # Items are a (60%, disputed 10%) or b (40%, disputed 40%): shares left are 54:24 of 78.
    disputed_a, disputed_b = 0.1, 0.4
    left = 0.6 * (1 - disputed_a) / (0.6 * (1 - disputed_a) + 0.4 * (1 - disputed_b))
    # A disputed item has one rating of each label.
    every = 0.6 * (1 - disputed_a / 2) + 0.4 * disputed_b / 2
    held = 0
    for seed in range(60):
        rows = []
        for _ in range(200):
            label, chance = ("a", disputed_a) if generator.random() < 0.6 else ("b", disputed_b)
            rows.append("ab" if generator.random() < chance else label * 2)
        data = asked(rated(rows), resampling=Resampling(200, seed))
        interval = get(data, "selection.shift", label="a").interval
        assert interval is not None
        held += interval.low <= left - every <= interval.high
    assert held >= 51
