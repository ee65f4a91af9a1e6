"""The study `judge-pools`: one verdict of two orders, lean, sides on items that split the pools."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import comb

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prereg_judge.stats.proportions import wilson_interval
from prereg_judge.stats.resample import Resampler
from prereg_judge.study import judge_pools
from prereg_judge.study.judge_pools_matches import resolved_side
from prereg_judge.study.metric import MetricRef
from prereg_judge.study.outcomes import Resampling, Resolve, StudyInput
from prereg_judge.votes import MISSING, SlotVerdicts, SplitRule, VoteCounts
from study.pools_made import (
    Votes,
    check_interval,
    get,
    limits,
    made,
    ratio,
    sides_of,
    votes,
    winner,
)

# Both pools a; pools split three times; one pool only; an equal split of the crowd against a tie.
ITEMS: list[Votes] = [("aa", "a"), ("a", "b"), ("bb", "a"), ("t", "b"), ("a", ""), ("ab", "t")]
AB, BA = "aaa.at", "aatabt"
JUDGE = {"judge": "j"}


def one(rule: Resolve | None = "agree_or_tie", *, split: SplitRule = "tie") -> StudyInput:
    """The items with one judge."""
    return made(votes(ITEMS), judges={"j": (AB, BA)}, resolve=rule, split=split)


@pytest.mark.parametrize(
    ("rule", "found"),
    [("first", "abtaat."), ("agree_or_tie", "abttt.."), ("average", "abtta..")],
)
def test_resolving_two_orders(rule: Resolve, found: str) -> None:
    """Each rule makes its own verdict of two, and none where an order it looks at has none."""
    verdicts = SlotVerdicts("j", tuple("1234567"), sides_of("abtaat."), sides_of("abtbt.a"))
    assert resolved_side(verdicts, rule=rule).tolist() == sides_of(found).tolist()


def test_everything_is_over_the_same_items() -> None:
    """Agreement and lean are over items with labels of both pools and a resolved verdict."""
    data = one()
    # Resolved: a, a, t, none, (one pool), t. The crowd's equal split is a tie, as the expert says.
    assert ratio(judge_pools, data, "agreement.count", pool="crowd", **JUDGE) == (3, 4)
    assert ratio(judge_pools, data, "agreement.rate", pool="expert", **JUDGE) == (2, 4)
    lean = get(judge_pools, data, "lean.difference", **JUDGE)
    assert (lean.value, lean.n) == (0.25, 4)
    assert lean.note == "1 of 5 items have no verdict of the judge"
    assert lean.interval is not None
    words = "percentile bootstrap over items, 200 resamples, seed 7"
    assert lean.interval.method == f"{words}, widened to what items all alike would allow"
    sign = get(judge_pools, data, "lean.sign_test.p", **JUDGE)
    assert (sign.value, sign.k, sign.n) == (1.0, 1, 1)
    assert (sign.note or "").startswith("1 with crowd only, 0 with expert only")


def test_sides_on_items_that_split_the_pools() -> None:
    """Where the majorities differ the judge is with pool 1, with pool 2 or with neither."""
    data = one()
    found = {
        side: ratio(judge_pools, data, "split.count", side=side, **JUDGE)
        for side in ("crowd", "expert", "neither")
    }
    assert found == {"crowd": (1, 2), "expert": (0, 2), "neither": (1, 2)}
    assert ratio(judge_pools, data, "split.matched.rate", **JUDGE) == (1, 1)
    assert ratio(judge_pools, data, "split.matched.rate", pool="expert", **JUDGE) == (0, 1)


def test_order_metrics_are_over_every_item_judged_twice() -> None:
    """Reversal and consistency look at the judge alone, whatever the pools said."""
    data = one()
    assert ratio(judge_pools, data, "order.reversal.count", **JUDGE) == (1, 5)
    found = get(judge_pools, data, "order.consistent.rate", **JUDGE)
    assert (found.k, found.n) == (3, 5)
    assert found.note == "1 of 6 items lack the verdict of an order"


def test_exclude_leaves_split_pools_out_for_both() -> None:
    """An item on which a pool is equally split counts for neither pool's agreement."""
    data = one(split="exclude")
    assert ratio(judge_pools, data, "agreement.count", pool="crowd", **JUDGE) == (2, 3)
    assert ratio(judge_pools, data, "agreement.count", pool="expert", **JUDGE) == (1, 3)


def test_one_order_only() -> None:
    """A judge asked in one order has a verdict under `first` alone, and no order metrics."""
    cases: list[tuple[Resolve, str | None]] = [
        ("first", None),
        ("average", "one_order"),
        ("agree_or_tie", "one_order"),
    ]
    for rule, reason in cases:
        data = made(votes(ITEMS), judges={"j": ("aaaaaa", "......")}, resolve=rule)
        assert get(judge_pools, data, "lean.difference", **JUDGE).undefined == reason
        assert get(judge_pools, data, "order.reversal.rate", **JUDGE).undefined == "one_order"


def test_what_cannot_be_said() -> None:
    """No verdict, no rule, no sides, no split item, an unknown judge: each has a typed reason."""
    silent = made(votes(ITEMS), judges={"j": ("......", "......")}, resolve="first")
    assert get(judge_pools, silent, "lean.difference", **JUDGE).undefined == "no_items"
    unresolved = get(judge_pools, one(None), "lean.difference", **JUDGE)
    assert unresolved.undefined == "not_computed"
    assert unresolved.note == "no rule makes one verdict of the two orders"
    alike = made(votes([("a", "a")]), judges={"j": ("a", "a")})
    assert get(judge_pools, alike, "split.count", side="crowd", **JUDGE).undefined == (
        "empty_denominator"
    )
    lean = get(judge_pools, alike, "lean.difference", **JUDGE)
    assert lean.value == 0.0
    assert lean.interval is not None
    most = wilson_interval(0, 1, level=0.95)[1]
    assert (lean.interval.low, lean.interval.high) == pytest.approx((-most, most))
    assert lean.interval.method == "wilson on items, all alike"
    assert get(judge_pools, alike, "lean.sign_test.p", **JUDGE).value == 1.0
    other = get(judge_pools, alike, "lean.difference", judge="x")
    assert other.note == "there is no judge=x (there is: j)"
    keyed = made(votes(ITEMS), other=votes(ITEMS[:1]), judges={"j": (AB, BA)})
    unknown = get(judge_pools, keyed, "order.reversal.rate", key="unordered", **JUDGE)
    assert unknown.note == "the judge has no verdicts under the key unordered"
    words = VoteCounts(("i",), ("crowd", "expert"), ("K", "D"), np.array([[[1, 0], [1, 0]]]))
    unsided = made(words, judges={"j": ("a", "a")})
    assert get(judge_pools, unsided, "lean.difference", **JUDGE).undefined == "no_sides"
    assert all(m.undefined == "no_sides" for m in judge_pools.summary(unsided))


def test_a_judge_that_always_takes_the_first_place() -> None:
    """Reversal at 100% has a Wilson interval that does not collapse."""
    data = made(votes([("a", "a")] * 9), judges={"j": ("a" * 9, "b" * 9)})
    found = get(judge_pools, data, "order.reversal.rate", **JUDGE)
    assert found.value == 1.0
    assert found.interval is not None
    assert found.interval.low < 0.75


def test_verdicts_are_found_by_the_name_of_the_item() -> None:
    """Verdicts in another order, or of other items too, are matched by name."""
    data = one()
    assert data.table is not None
    slots = data.table.judges["j"]["stored"]
    turned = SlotVerdicts(
        "j",
        (*reversed(slots.items), "other"),
        np.append(slots.ab[::-1], 1),
        np.append(slots.ba[::-1], MISSING),
    )
    again = replace(data, table=replace(data.table, judges={"j": {"stored": turned}}))
    for name in ("lean.difference", "split.matched.rate"):
        assert get(judge_pools, again, name, **JUDGE) == get(judge_pools, data, name, **JUDGE)


def test_several_judges_side_by_side() -> None:
    """Each judge has its order reversal beside its lean; words say what the numbers cannot."""
    items = [("a", "b")] * 30 + [("a", "a")] * 10
    sure, torn = "a" * 28 + "b" * 2 + "a" * 10, "ab" * 20
    data = made(votes(items), judges={"sure": (sure, sure), "torn": (torn, "b" * 40)})
    rows = judge_pools.side_by_side(data)
    assert [(r.judge, r.reversal.k, r.reversal.n) for r in rows] == [
        ("sure", 0, 40),
        ("torn", 20, 40),
    ]
    assert [r.lean.value for r in rows] == [26 / 40, -15 / 40]
    assert all(r.lean.interval is not None for r in rows)
    words = judge_pools.plain_words(data)
    assert words == [
        "torn prefers one answer in one order and the other in the other on 20 of 40 items (50.0%; "
        "its lean is 37.5% of 40). How much of that is the order and how much its own noise is not "
        "known here: a study `pairwise` with two passes tells."
    ]
    even = made(votes(items), judges={"j": ("ab" * 20, "ab" * 20)})
    assert "40 items do not tell whether j sides with crowd or with expert" in " ".join(
        judge_pools.plain_words(even)
    )


def test_parameters_and_catalogue() -> None:
    """Every parameter of the catalogue has listed values, and one metric can be asked alone."""
    data = one()
    table = data.table
    assert table is not None
    listed = judge_pools.parameters(table)
    assert listed["side"] == ("crowd", "expert", "neither")
    named = {p for s in judge_pools.LEAN_SPECS for p in (*s.required, *s.optional)}
    assert set(listed) == named
    assert set(judge_pools.catalogue().specs) == {s.name for s in judge_pools.LEAN_SPECS}
    ref = MetricRef.of("lean.difference", **JUDGE)
    assert judge_pools.lean_metric(data, ref) == get(judge_pools, data, "lean.difference", **JUDGE)
    assert {m.ref for m in judge_pools.summary(data)} == set(judge_pools.lean_refs(table))


# A second implementation, in plain loops.


def said(ab: str, ba: str, rule: Resolve) -> str | None:
    """One verdict of two letters."""
    if rule == "first":
        return None if ab == "." else ab
    if "." in (ab, ba):
        return None
    if ab == ba:
        return ab
    if rule == "average" and "t" in (ab, ba):
        return ab if ba == "t" else ba
    return "t"


def lean_of(rows: Sequence[tuple[str, str, str]], weights: Sequence[float]) -> float:
    """Weighted agreement of verdicts with pool 1 minus that with pool 2."""
    total = sum(w * ((v == c) - (v == e)) for (v, c, e), w in zip(rows, weights, strict=True))
    return total / len(rows)


POOL_VOTES = st.text("abt", max_size=3)
VERDICT = st.sampled_from("abt.")


@given(
    st.lists(
        st.tuples(POOL_VOTES, POOL_VOTES, VERDICT, VERDICT).filter(lambda x: bool(x[0] + x[1])),
        min_size=1,
        max_size=12,
    ),
    st.sampled_from(["first", "average", "agree_or_tie"]),
)
def test_against_plain_loops(drawn: list[tuple[str, str, str, str]], rule: Resolve) -> None:
    """Counts, lean, sign test and the bootstrapped limits are those of a second implementation."""
    judge = ("".join(x[2] for x in drawn), "".join(x[3] for x in drawn))
    data = made(
        votes([(c, e) for c, e, *_ in drawn]),
        judges={"j": judge},
        resolve=rule,
        resampling=Resampling(40, 3),
    )
    lean = get(judge_pools, data, "lean.difference", **JUDGE)
    if rule != "first" and set(judge[1]) == {"."}:
        assert lean.undefined == "one_order"
        return
    rows = [
        (verdict, winner(c), winner(e))
        for c, e, ab, ba in drawn
        if c and e and (verdict := said(ab, ba, rule)) is not None
    ]
    if not rows:
        assert lean.undefined == "no_items"
        return
    agreed = sum(v == c for v, c, _ in rows)
    assert ratio(judge_pools, data, "agreement.count", pool="crowd", **JUDGE) == (agreed, len(rows))
    assert lean.value == pytest.approx(lean_of(rows, [1.0] * len(rows)))
    weights = Resampler(len(rows), 40, 3).totals(np.eye(len(rows)))
    check_interval(lean, limits([lean_of(rows, w) for w in weights]))
    plus = sum(v == c != e for v, c, e in rows)
    minus = sum(v == e != c for v, c, e in rows)
    m = plus + minus
    tail = sum(comb(m, i) for i in range(min(plus, minus) + 1)) / 2**m
    p = get(judge_pools, data, "lean.sign_test.p", **JUDGE)
    assert p.value == pytest.approx(min(1.0, 2 * tail))
    differing = [(v, c, e) for v, c, e in rows if c != e]
    for side, k in (("crowd", plus), ("expert", minus), ("neither", len(differing) - m)):
        found = get(judge_pools, data, "split.rate", side=side, **JUDGE)
        if differing:
            assert (found.k, found.n) == (k, len(differing))
        else:
            assert found.undefined == "empty_denominator"
    twice = [(x, y) for x, y in zip(*judge, strict=True) if "." not in (x, y)]
    reversal = get(judge_pools, data, "order.reversal.count", **JUDGE)
    if twice:
        assert reversal.k == sum({x, y} == {"a", "b"} for x, y in twice)
        assert reversal.n == len(twice)
    else:
        assert reversal.undefined == "one_order"


@pytest.mark.parametrize(
    ("rule", "sides"),
    [("first", [1, -1, 1, MISSING]), ("agree_or_tie", [0, -1, 1, MISSING]),
     ("average", [1, -1, 1, MISSING])],
)  # fmt: skip
def test_a_scale_of_five_points(rule: Resolve, sides: list[int]) -> None:
    """Clearly outweighs slightly in the mean alone; what comes of every rule is a side."""
    ab, ba = np.array([2, -1, 2, 1]), np.array([-1, -2, 1, MISSING])
    verdicts = SlotVerdicts("j", ("i", "j", "k", "l"), ab, ba)
    expected = [*sides[:3], 1] if rule == "first" else sides
    assert resolved_side(verdicts, rule=rule).tolist() == expected
