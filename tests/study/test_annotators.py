"""The study `annotators` of ratings: values by hand, typed reasons, notes, what a report lists."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from prereg_judge.study import annotators
from prereg_judge.study.annotators_summary import MOST
from prereg_judge.study.metric import MetricRef
from prereg_judge.study.outcomes import Resampling, StudyInput
from prereg_judge.votes import SplitRule
from study.annotators_made import asked, get, rated, value

# The table of the guide, 200 items: the first says yes on 60%, the second on 55%, alike on 80%.
GUIDE = ["yy"] * 95 + ["yn"] * 25 + ["ny"] * 15 + ["nn"] * 65
PAIR = {"annotator": "n0", "other": "n1"}

# Two pools, missing ratings, an item of one rating and one of none, four labels, two strata.
MIXED = ["aab.c", "bb.bb", "abc.d", "..c..", ".....", "dd.dd", "acb.a", "b.b.d", "aa.ab", "c...c"]
STRATA = ["x", "y"] * 5
POOLS = {"crowd": range(3), "expert": range(3, 5)}
MERGE = {"c": "low", "d": "low"}


def mixed(*, split: SplitRule = "exclude", by_stratum: bool = False) -> StudyInput:
    """The mixed table as the study's input, with a scale, a map and an adjudicator."""
    ratings = rated(
        MIXED,
        pools=POOLS,
        strata=STRATA,
        ordered=True,
        values=[1, 2, 3, 5],
        coarse=MERGE,
        adjudicated="a.b...a..c",
    )
    return asked(ratings, split=split, resampling=Resampling(100, 7, by_stratum=by_stratum))


def test_the_kappa_of_the_guide_shows_what_it_is_made_of() -> None:
    """P_o 0.80 and P_e 0.51 give 0.59, and the note has both with the convention's word."""
    data = asked(rated(GUIDE))
    found = get(data, "kappa.cohen", **PAIR)
    assert found.value == pytest.approx(0.29 / 0.49)
    assert (found.n, found.unit) == (200, "coefficient")
    assert found.note == (
        "P_o 0.800, P_e 0.510; by the convention of Landis and Koch (1977): moderate"
    )
    assert found.interval is not None
    assert found.interval.low < 0.29 / 0.49 < found.interval.high
    assert value(data, "kappa.cohen.observed", **PAIR) == pytest.approx(0.8)
    assert value(data, "kappa.cohen.expected", **PAIR) == pytest.approx(0.51)


def test_agreement_counts_pairs_of_ratings() -> None:
    """An item with three ratings has three pairs; k and n are pairs, and items are in the note."""
    found = get(asked(rated(["aab", "a.a", "b..", "abc"])), "agreement.rate")
    assert (found.k, found.n) == (2, 7)
    assert found.value == pytest.approx(2 / 7)
    assert found.note is not None
    assert found.note.startswith("7 pairs of ratings on 3 items")


def test_counts_of_items_and_ratings() -> None:
    """Items with two ratings or more out of those rated, per pool and stratum, and all ratings."""
    data = mixed()
    assert [get(data, "items.count", **p).k for p in ({}, {"pool": "crowd"})] == [8, 7]
    assert get(data, "items.count").n == 9
    assert value(data, "ratings.count", pool="expert") == 11
    by = [value(data, "ratings.count", stratum=s) for s in ("x", "y")]
    assert sum(by) == value(data, "ratings.count") == 30


# Every metric of the catalogue, with parameters that the mixed table has.
CASES = [
    MetricRef.of(name, **params)
    for name, params in (
        ("items.count", {}),
        ("ratings.count", {"pool": "crowd"}),
        ("agreement.rate", {"labels": "coarse"}),
        ("kappa.cohen", PAIR),
        ("kappa.cohen.observed", PAIR),
        ("kappa.cohen.expected", PAIR),
        ("kappa.weighted", {**PAIR, "weights": "quadratic"}),
        ("kappa.fleiss", {}),
        ("kappa.fleiss.observed", {}),
        ("kappa.fleiss.expected", {}),
        ("ac1", {}),
        ("ac1.expected", {}),
        ("alpha", {"level": "ordinal"}),
        ("disagreement.share", {"label": "b"}),
        ("disagreement.excess", {"label": "low", "labels": "coarse"}),
        ("resolved.count", {"policy": "majority"}),
        ("resolved.rate", {"policy": "adjudicated"}),
        ("resolved.share", {"policy": "unanimous", "label": "b"}),
        ("selection.shift", {"label": "b"}),
        ("selection.distance", {}),
        ("adjudication.overturned.count", {}),
        ("adjudication.overturned.rate", {}),
        ("soft.entropy", {}),
        ("soft.distance", {"pool": "crowd", "other": "expert"}),
        ("soft.loss", {"annotator": "n0"}),
        ("merge.gain", {}),
        ("merge.hidden.count", {}),
        ("merge.hidden.rate", {}),
    )
]


@pytest.mark.parametrize("ref", CASES, ids=str)
def test_every_metric_has_a_value_an_n_and_an_interval(ref: MetricRef) -> None:
    """On a table that has all there is to have, nothing is undefined or without its n."""
    low, high = (MetricRef(f"{ref.name}.{end}", ref.params) for end in ("ci_low", "ci_high"))
    data = mixed()
    found = annotators.compute(data, [high, ref, low])
    assert list(found) == [high, ref, low]
    value = found[ref].value
    assert value is not None, found[ref].note
    assert found[ref].n is not None
    spec = annotators.catalogue().specs[ref.name]
    assert value >= spec.domain[0]
    if ref.name in ("items.count", "ratings.count"):
        assert found[ref].interval is None
        assert found[low].undefined == "not_computed"
    elif "too few for an interval" in (found[ref].note or ""):
        assert ref.name == "disagreement.excess"
        assert found[ref].interval is None
        assert found[low].undefined == "not_computed"
    else:
        interval = found[ref].interval
        assert interval is not None, found[ref].note
        assert (found[low].value, found[high].value) == (interval.low, interval.high)


def test_the_cases_are_the_catalogue() -> None:
    """Only the metrics of spans are left out of the cases above."""
    named = {ref.name for ref in CASES}
    assert named == {s.name for s in annotators.SPECS if not s.name.startswith("f1")}


@pytest.mark.parametrize(
    ("rows", "name", "params", "reason"),
    [
        (["ab", "aa"], "kappa.weighted", {**PAIR, "weights": "linear"}, "no_order"),
        (["ab", "aa"], "alpha", {"level": "ordinal"}, "no_order"),
        (["ab", "aa"], "alpha", {"level": "interval"}, "no_order"),
        (["aa", "aa"], "kappa.cohen", PAIR, "one_label"),
        (["aa", "aa"], "kappa.fleiss", {}, "one_label"),
        (["aa", "aa"], "ac1", {}, "one_label"),
        (["aa", "aa"], "alpha", {"level": "nominal"}, "one_label"),
        (["a.", ".b"], "kappa.cohen", PAIR, "single_annotator"),
        (["a.", ".b"], "kappa.fleiss", {}, "single_annotator"),
        (["a.", ".b"], "agreement.rate", {}, "single_annotator"),
        (["a.", ".b"], "alpha", {"level": "nominal"}, "single_annotator"),
        (["a", "b"], "ac1", {}, "single_annotator"),
        (["a", "b"], "soft.entropy", {}, "single_annotator"),
        (["a", "b"], "soft.loss", {"annotator": "n0"}, "single_annotator"),
        (["a", "b"], "disagreement.share", {"label": "a"}, "single_annotator"),
        (["aa", "bb"], "disagreement.excess", {"label": "a"}, "empty_denominator"),
        (["ab", "ba"], "selection.shift", {"label": "a"}, "empty_denominator"),
        (["ab", "ba"], "selection.distance", {}, "empty_denominator"),
        (["ab"], "resolved.share", {"policy": "unanimous", "label": "a"}, "empty_denominator"),
        (["ab"], "resolved.count", {"policy": "adjudicated"}, "no_adjudication"),
        (["ab"], "adjudication.overturned.rate", {}, "no_adjudication"),
        (["..", ".."], "kappa.fleiss", {}, "no_items"),
        (["..", ".."], "resolved.rate", {"policy": "majority"}, "no_items"),
        ([], "agreement.rate", {}, "no_items"),
        ([], "items.count", {}, None),
        (["ab"], "merge.gain", {}, "not_computed"),
        (["ab"], "agreement.rate", {"labels": "coarse"}, "not_computed"),
        (["ab"], "agreement.rate", {"pool": "nobody"}, "not_computed"),
        (["ab"], "agreement.rate", {"stratum": "none"}, "not_computed"),
        (["ab"], "kappa.cohen", {"annotator": "n0"}, "not_computed"),
        (["ab"], "kappa.cohen", {"annotator": "n0", "other": "n0"}, "not_computed"),
        (["ab"], "kappa.cohen", {"annotator": "n0", "other": "all"}, "not_computed"),
        (["ab"], "soft.distance", {"pool": "all", "other": "n1"}, "not_computed"),
        (["ab"], "soft.distance", {"pool": "all", "other": "all"}, "not_computed"),
        (["ab"], "alpha", {"level": "ratio"}, "not_computed"),
        (["ab"], "kappa", {}, "not_computed"),
        (["ab"], "f1", {"match": "strict"}, "not_computed"),
    ],
)  # fmt: skip
def test_what_has_no_value_has_a_typed_reason(
    rows: list[str], name: str, params: dict[str, str], reason: str | None
) -> None:
    """No order, one label, one annotator, nothing rated, unknown names: the note says which."""
    found = get(asked(rated(rows)), name, **params)
    assert found.undefined == reason
    assert found.note


def test_coarse_labels_have_no_order() -> None:
    """A scale orders fine labels; under the coarse ones only nominal alpha has a meaning."""
    data = mixed()
    assert get(data, "alpha", level="ordinal", labels="coarse").undefined == "no_order"
    assert get(data, "alpha", level="interval", labels="coarse").undefined == "no_order"
    assert get(data, "alpha", level="nominal", labels="coarse").value is not None


def test_numbers_order_labels() -> None:
    """Where only numbers are registered, ordinal alpha and weights go by their order."""
    rows = ["ab", "ac", "bc", "ac", "aa", "cc", "bb"]
    by_rank = asked(rated(rows, labels="bac", ordered=True))
    by_value = asked(rated(rows, labels="abc", values=[2.0, 1.0, 9.0]))
    weighted = {**PAIR, "weights": "linear"}
    assert value(by_value, "kappa.weighted", **weighted) == pytest.approx(
        value(by_rank, "kappa.weighted", **weighted), abs=1e-12
    )
    assert value(by_value, "alpha", level="ordinal") == pytest.approx(
        value(by_rank, "alpha", level="ordinal"), abs=1e-12
    )
    assert value(asked(rated(rows, labels="abc", ordered=True)), "kappa.weighted", **weighted) != (
        pytest.approx(value(by_value, "kappa.weighted", **weighted))
    )


def test_where_nobody_differs_the_bootstrap_says_nothing() -> None:
    """Kappa of 1 has no interval and says why; agreement keeps what Wilson allows."""
    data = asked(rated(["aaa", "bbb"] * 10))
    rate = get(data, "agreement.rate")
    assert rate.interval is not None
    assert (rate.interval.method, rate.interval.high) == ("wilson on items, all alike", 1.0)
    for name, params in (("kappa.fleiss", {}), ("alpha", {"level": "nominal"}), ("ac1", {})):
        found = get(data, name, **params)
        assert (found.value, found.interval) == (1.0, None)
        assert "no two ratings of an item differ: it is 1 in all 200 resamples" in (
            found.note or ""
        )


def test_without_a_bootstrap_there_are_values_and_no_intervals() -> None:
    """A registration without resampling gets the values, and is told why nothing is beside them."""
    data = asked(rated(GUIDE), resampling=None)
    found = get(data, "kappa.fleiss")
    assert found.interval is None
    assert found.value is not None
    assert "no bootstrap is registered" in (found.note or "")
    assert any("not tested" in text for text in annotators.plain_words(asked(
        rated(["abc", "aab", "bca"]), resampling=None)))  # fmt: skip


def test_pools_share_the_resamples_of_the_table() -> None:
    """A pool's metric is the same whether it is asked for alone or among all, to the last digit."""
    data = mixed()
    for metric in annotators.summary(data):
        alone = annotators.compute(data, [metric.ref])[metric.ref]
        assert alone.value == metric.value
        if metric.interval is not None:
            assert alone.interval is not None
            assert alone.interval.low == pytest.approx(metric.interval.low, abs=1e-12)
            assert alone.interval.high == pytest.approx(metric.interval.high, abs=1e-12)


@pytest.mark.parametrize("people", [3, 9])
def test_a_report_is_no_longer_than_a_reader_can_take_in(people: int) -> None:
    """Many strata, labels and annotators are cut at 150 metrics, and a sentence says what is."""
    generator = np.random.default_rng(5)
    letters = "abcdefghijkl"
    rows = ["".join(letters[x] for x in generator.integers(12, size=people)) for _ in range(40)]
    strata = [f"s{n % 20}" for n in range(40)]
    half = people // 2
    pools = {"one": range(half), "two": range(half, people)}
    data = asked(
        rated(rows, strata=strata, pools=pools, coarse={"a": "z", "b": "z"}),
        resampling=Resampling(20, 1),
    )
    found = annotators.summary(data)
    assert len(found) <= MOST
    assert len({m.ref for m in found}) == len(found)
    assert any(m.ref.name == "agreement.rate" and "stratum" in dict(m.ref.params) for m in found)
    pairs = [m for m in found if m.ref.name == "kappa.cohen"]
    assert len(pairs) == (3 if people == 3 else 0)
    said = annotators.plain_words(data)[-1]
    assert "groups in strata" in said
    assert "4 of 12 labels" in said
    assert ("pairs of the 9 annotators" in said) == (people == 9)


def test_the_view_lays_out_confusions_and_pairs() -> None:
    """Confusions by count with what the map hides, all pairs of annotators, fine beside coarse."""
    found = annotators.view(mixed())
    by = {c.labels: (c.pairs, c.hidden) for c in found.confusions}
    rows = [[x for x in row if x != "."] for row in MIXED]
    for labels in combinations("abcd", 2):
        pairs = sum({x, y} == set(labels) for row in rows for x, y in combinations(row, 2))
        assert by.get(labels, (0, None))[0] == pairs
    assert [labels for labels, (_, hidden) in by.items() if hidden] == [("c", "d")]
    assert len(found.pairs) == 10
    assert set(found.pools) == {"crowd", "expert"}
    assert set(found.merged) == {None, "crowd", "expert"}
    assert [dict(m.ref.params)["labels"] for m in found.merged[None]] == ["fine", "coarse"] * 2


def test_one_label_of_several_is_told_of_ac1() -> None:
    """AC1 is 1 where every rating is one of two labels; kappa has no value, and a note warns."""
    data = asked(rated(["aa", "aa", "aa"], labels="ab"))
    found = get(data, "ac1")
    assert (found.value, found.interval) == (1.0, None)
    assert "every rating that has a partner is the same label" in (found.note or "")
    assert get(data, "kappa.fleiss").undefined == "one_label"


def test_weighted_kappa_shows_its_weighted_shares() -> None:
    """The note has P_o and P_e by weight: a near miss counts half where labels are three."""
    data = asked(rated(["ab", "bb", "cc", "aa"], labels="abc", ordered=True))
    found = get(data, "kappa.weighted", weights="linear", **PAIR)
    assert (found.note or "").startswith("P_o 0.875, P_e 0.562 by weight; by the convention of")
