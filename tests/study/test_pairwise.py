"""The pairwise study on small tables worked out by hand, and where it has no value."""

from __future__ import annotations

from dataclasses import replace

import pytest

from prereg_judge.shape import Shape
from prereg_judge.shaping import Decoding
from prereg_judge.stats.proportions import wilson_interval
from prereg_judge.study import pairwise
from prereg_judge.study.metric import MetricRef
from prereg_judge.study.outcomes import Resampling, Resolve, StudyInput, agreeing
from prereg_judge.words import Missing
from study.pairs_made import BOOTSTRAP, FORCED, THREE, get, make, once, ratio, why

# As said of the answers shown: reversed to slot 1; answer a both times, clearly and slightly;
# reversed to slot 2; a tie both times; a tie in ba only; lost in ba.
CELLS = once(("A", "AA"), ("AA", "B"), ("B", "B"), ("tie", "tie"), ("A", "tie"), ("A", None))
SWAPS = ("reversal", "reversal_decided", "consistent", "exact", "tie_unstable")


def test_the_swap_by_hand() -> None:
    """Of six items two are reversed, two consistent, one of these to the word, one tie is lost."""
    data = make(CELLS)
    found = {name: ratio(data, f"order.{name}", pass_=1) for name in SWAPS}
    assert found == {
        "reversal": (2, 6),
        "reversal_decided": (2, 3),
        "consistent": (2, 6),
        "exact": (1, 6),
        "tie_unstable": (1, 6),
    }
    rate = get(data, "order.reversal.rate", pass_=1)
    assert rate.interval is not None
    assert (rate.interval.low, rate.interval.high) == wilson_interval(2, 6, level=0.95)
    assert rate.note == "1 of 12 trials have no verdict; not counted as a reversal"


def test_missing_verdicts_count_as_registered() -> None:
    """A lost verdict is neither consistent nor reversed; or leaves its item out; or no value."""
    out = make(CELLS, missing="exclude")
    assert ratio(out, "order.consistent", pass_=1) == (2, 5)
    assert ratio(out, "order.reversal", pass_=1) == (2, 5)
    assert get(out, "order.slot.rate", pass_=1).n == 7
    for name in (*(f"{s}.rate" for s in SWAPS), "slot.rate", "bias.difference", "bias.p"):
        spoilt = make(CELLS, missing="undefined")
        assert why(spoilt, f"order.{name}", pass_=1) == "missing_verdict"


def test_preference_for_a_slot_by_hand() -> None:
    """Five of the eight preferences are for the slot shown first: counted as they were said."""
    data = make(CELLS)
    both = get(data, "order.slot.rate", pass_=1)
    assert (both.k, both.n) == (5, 8)
    assert both.value == 5 / 8
    assert both.interval is not None
    assert both.interval.method == "percentile bootstrap over items, 400 resamples, seed 5"
    assert (get(data, "order.slot.rate", pass_=1, order="ab").k, both.k) == (4, 5)
    assert get(data, "order.slot.rate", pass_=1, order="ba").n == 3


def test_bias_is_paired_by_item() -> None:
    """Credit moves by 1/2, 0, -1/2, 0 and 1/4 over the five pairs; two items to one, p = 1."""
    data = make(CELLS)
    bias = get(data, "order.bias.difference", pass_=1)
    assert bias.value == pytest.approx((0.5 - 0.5 + 0.25) / 5)
    assert bias.n == 5
    p = get(data, "order.bias.p", pass_=1)
    assert (p.k, p.n, p.value) == (2, 3, 1.0)
    # Six of six to the first slot: 2 / 2 ** 6.
    assert get(make(once(*[("A", "A")] * 6)), "order.bias.p", pass_=1).value == 1 / 32


def test_a_judge_that_always_takes_the_first_slot() -> None:
    """All is reversed and 1.0 is not said without an interval: Wilson's, over items."""
    data = make(once(*[("A", "A")] * 10), pair=FORCED)
    assert ratio(data, "order.reversal", pass_=1) == (10, 10)
    slot, bias = get(data, "order.slot.rate", pass_=1), get(data, "order.bias.difference", pass_=1)
    low, high = wilson_interval(10, 10, level=0.95)
    assert slot.interval is not None
    assert (slot.value, slot.n) == (1.0, 20)
    assert (slot.interval.low, slot.interval.high) == pytest.approx((low, high))
    assert slot.interval.method == "wilson on items, all alike"
    assert bias.interval is not None
    assert (bias.interval.low, bias.interval.high) == pytest.approx((low - 0.5, 0.5))


def test_a_judge_that_looks_only_at_the_answers() -> None:
    """No preference for a slot, and an interval that is not a point, though no resample moves."""
    data = make(once(*[("A", "B"), ("B", "A")] * 5), pair=FORCED)
    assert ratio(data, "order.consistent", pass_=1) == (10, 10)
    for name, value in (("slot.rate", 0.5), ("bias.difference", 0.0)):
        found = get(data, f"order.{name}", pass_=1)
        assert found.value == value
        assert found.interval is not None
        assert found.interval.low < value < found.interval.high
    assert get(data, "order.bias.p", pass_=1).value == 1.0


def test_excess_by_hand() -> None:
    """Swaps differ in 4/4, 2/4 and 0/4 of pairs of passes, repeats in 0, 1/2 and 0 of them."""
    said = [(["A", "A"], ["A", "AA"]), (["A", "B"], ["B", "B"]), (["tie", "tie"], ["tie", "tie"])]
    data = make(said)
    assert get(data, "order.swap.rate").value == pytest.approx(0.5)
    assert get(data, "order.repeat.rate").value == pytest.approx(1 / 6)
    excess = get(data, "order.excess.difference")
    assert excess.value == pytest.approx(1 / 3)
    assert excess.n == 3
    # On the full scale A and AA differ too, within the order and between them.
    assert get(data, "order.repeat.rate", scale="verdict").value == pytest.approx(2 / 6)
    assert get(data, "order.swap.rate", scale="side") == replace(
        get(data, "order.swap.rate"), ref=MetricRef.of("real.order.swap.rate", scale="side")
    )
    # A verdict that is lost differs from every other: 3/4 between, 1/2 within.
    lost = make([(["A", None], ["B", "B"]), (["A", "A"], ["B", "B"])])
    assert get(lost, "order.swap.rate").value == pytest.approx(1 / 4)
    assert get(lost, "order.repeat.rate").value == pytest.approx(1 / 4)
    assert get(replace(lost, missing="exclude"), "order.swap.rate").n == 1
    assert why(replace(lost, missing="undefined"), "order.excess.difference") == "missing_verdict"


LONG, SHORT = Shape(200, 4), Shape(100, 1)
# The first is longer in three items, the second in one; one differs in nothing.
SHAPES = [(LONG, SHORT), (LONG, SHORT), (LONG, SHORT), (SHORT, LONG), (LONG, LONG)]
FOLLOWS = once(("A", "B"), ("A", "A"), ("tie", "A"), ("B", "A"), ("A", "A"))


def test_following_length_by_hand() -> None:
    """Of seven preferences on items that differ, five are for the longer; by their labels three."""
    data = make(FOLLOWS, shapes=SHAPES, labels=["A", "B", "AA", "A", None])
    for trait in ("length", "markdown"):
        rate = get(data, f"{trait}.follow.rate", pass_=1)
        assert (rate.k, rate.n) == (5, 7)
        difference = get(data, f"{trait}.follow.difference", pass_=1)
        # Label by label, as often as the judge prefers an answer: 2 + 0 + 1 + 0 of seven.
        assert difference.value == pytest.approx((5 - 3) / 7)
        assert difference.note == "verdicts on 4 items; 5 of 7 by verdict, 3 by label"
    # Credit on log2(200 / 100) = 1 is 1, 1/2 and 1/4; on -1 it is 0; on 0 it is 1/2.
    slope = get(data, "length.slope", pass_=1)
    xs, ys = [1, 1, 1, 1, 1, 1, -1, -1, 0, 0], [1, 1, 1, 0, 0.5, 0, 0, 0, 1, 0]
    mean_x, mean_y = sum(xs) / 10, sum(ys) / 10
    above = sum((x - mean_x) * (y - mean_y) for x, y in zip(xs, ys, strict=True))
    assert slope.value == pytest.approx(above / sum((x - mean_x) ** 2 for x in xs))
    assert slope.n == 10


def test_a_judge_that_is_always_right_follows_no_more_than_the_labels() -> None:
    """Longer answers are better here and it says so: share 1, difference 0."""
    data = make(once(*[("A", "B")] * 4), shapes=[(LONG, SHORT)] * 4, labels=["A"] * 4)
    assert get(data, "length.follow.rate", pass_=1).value == 1.0
    difference = get(data, "length.follow.difference", pass_=1)
    assert difference.value == 0.0
    assert difference.interval is not None
    assert difference.interval.low < 0 < difference.interval.high


@pytest.mark.parametrize(
    ("rule", "sides", "wrong"),
    [
        ("agree_or_tie", {"a": 1, "b": 0, "tie": 4}, 4),
        ("average", {"a": 2, "b": 1, "tie": 2}, 2),
        ("first", {"a": 4, "b": 1, "tie": 1}, 2),
    ],
)
def test_resolution_by_hand(rule: Resolve, sides: dict[str, int], wrong: int) -> None:
    """Each rule makes another verdict of the same two; `first` alone needs no second."""
    data = make(CELLS, resolve=rule, labels=["B", "A", None, "B", "A", "A"])
    found = {s: ratio(data, "resolved.verdict", verdict=s, pass_=1) for s in ("a", "b", "tie")}
    assert found == {s: (k, 6) for s, k in sides.items()}
    assert ratio(data, "resolved.wrong", pass_=1) == (wrong, 5)


def test_no_rule_no_resolution() -> None:
    """A rule that is not registered is not made up, nor a label that is not known."""
    data = make(CELLS)
    assert why(data, "resolved.verdict.rate", verdict="a", pass_=1) == "not_computed"
    assert why(replace(data, resolve="first"), "resolved.wrong.rate", pass_=1) == "no_labels"
    off = get(replace(data, resolve="first"), "resolved.verdict.rate", verdict="A", pass_=1)
    assert off.undefined == "not_computed"


def test_rows_compare_passes_of_what_was_said_of_the_answers() -> None:
    """In order ba `B` is answer a: verdicts and errors are counted as mapped."""
    data = make([(["A", "A"], ["B", "A"])], labels=["A"])
    assert ratio(data, "agreement", order="ab") == (1, 1)
    assert ratio(data, "agreement", order="ba") == (0, 1)
    assert ratio(data, "verdict", verdict="A", pass_=1, order="ba") == (1, 1)
    assert ratio(data, "wrong", pass_=2, order="ba") == (1, 1)
    assert ratio(data, "missing") == (0, 4)
    assert why(data, "agreement.count") == "not_computed"  # over both orders: not independent
    assert why(data, "ships.any.count") == "not_computed"


def test_the_table_of_both_orders() -> None:
    """It holds every item, as said, also of each stratum; lost verdicts have their own column."""
    data = make(CELLS, strata=["x", "y", None, "y", "y", "x"])
    whole, x, y = pairwise.swap_tables(data, "real", 1)
    assert (whole.n, x.n, y.n, whole.stratum, x.stratum, y.stratum) == (6, 2, 3, None, "x", "y")
    assert whole.count("A", "AA") == whole.count("B", "B") == whole.count("A", None) == 1
    assert (x.count("A", None), y.count("A", None), y.count("AA", "B")) == (1, 0, 1)
    assert pairwise.swap_tables(make(CELLS, orders=("ab",)), "real", 1) == ()
    assert pairwise.swap_tables(data, "sentinel", 1) == ()


def test_strata_and_stratified_resamples() -> None:
    """A stratum is counted alone; drawn by stratum, two strata that differ inside nowhere stay."""
    cells = once(*[("A", "A")] * 3, *[("A", "B")] * 3)
    data = make(cells, strata=["x"] * 3 + ["y"] * 3)
    assert ratio(data, "order.reversal", pass_=1, stratum="x") == (3, 3)
    assert ratio(data, "order.reversal", pass_=1, stratum="y") == (0, 3)
    assert get(data, "order.bias.difference", pass_=1).interval is not None
    by = replace(data, resampling=Resampling(400, 5, by_stratum=True))
    bias = get(by, "order.bias.difference", pass_=1)
    assert (bias.value, bias.interval) == (0.25, None)
    assert bias.note == "no interval: every resample gives the same"
    assert get(by, "order.bias.difference.ci_low", pass_=1).undefined == "not_computed"


def test_without_a_bootstrap_there_is_no_interval() -> None:
    """The value stands, and the note says why it stands alone."""
    bias = get(make(CELLS, resampling=None), "order.bias.difference", pass_=1)
    assert (bias.value, bias.interval) == (0.05, None)
    assert "no bootstrap is registered" in (bias.note or "")


def _everything(data: StudyInput) -> dict[str, str | None]:
    """The reason of every metric of the study, asked of pass 1; None where it has a value."""
    refs = []
    for name, spec in pairwise.catalogue(["real"]).specs.items():
        known = {"verdict": "a" if ".resolved." in name else "tie", "pass_": 1}
        params = {k: v for k, v in known.items() if k.rstrip("_") in spec.required}
        refs.append(MetricRef.of(name, **params))
    found = pairwise.compute(data, refs)
    assert list(found) == refs
    pairwise.summary(data)
    pairwise.plain_words(data)
    return {r.name.partition(".")[2]: m.undefined for r, m in found.items() if r.name[:4] == "real"}


ORDER = [n for n in pairwise.catalogue(["real"]).specs if n.startswith("real.order.")]
EXTREME: dict[str, StudyInput] = {
    "all lost": make(once((None, None), (None, None)), resolve="average"),
    "nothing at all": make([], resolve="average"),
    "one order lost": make(once(("A", None), ("B", None)), resolve="agree_or_tie"),
    "never both": make(once(("A", None), (None, "B")), resolve="average"),
    "no pairs": make(once(("A", "B")), pair=None),
    "one order": make(CELLS, orders=("ab",), resolve="average"),
    "all ties": make(once(("tie", "tie"), ("tie", "tie")), shapes=SHAPES[:2], resolve="average"),
    "one item": make(once(("A", "B")), shapes=SHAPES[:1], labels=["A"], resolve="average"),
}


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("all lost", "nothing_scored"),
        ("nothing at all", "no_items"),
        ("one order lost", "nothing_scored"),
        ("never both", "nothing_scored"),
        ("no pairs", "no_sides"),
        ("one order", "one_order"),
    ],
)
@pytest.mark.parametrize("missing", ["disagree", "exclude", "undefined"])
def test_nothing_to_compare_is_a_typed_reason(name: str, reason: str, missing: Missing) -> None:
    """Whatever the rule for missing verdicts, no comparison of orders comes out of nothing."""
    data = replace(EXTREME[name], missing=missing)
    found = _everything(data)
    single = ("order.repeat.rate", "order.excess.difference")
    swaps = {n: r for n, r in found.items() if n.startswith("order.") and n not in single}
    partial = "order.slot.rate" if name == "never both" else None
    assert {r for n, r in swaps.items() if n != partial} == {reason}
    assert {found[n] for n in single} == ({"no_items"} if reason == "no_items" else {"single_pass"})
    if name != "no pairs":
        assert found["resolved.verdict.rate"] == reason


@pytest.mark.parametrize("name", ["all ties", "one item"])
def test_the_least_that_can_be_said(name: str) -> None:
    """All ties decide nothing but are consistent; one item has a value and a wide interval."""
    data = EXTREME[name]
    found = _everything(data)
    undecided = {n for n, r in found.items() if r == "empty_denominator"}
    ties = name == "all ties"
    assert ("order.slot.rate" in undecided) == ("length.follow.rate" in undecided) == ties
    assert ("order.reversal_decided.rate" in undecided) == ties
    assert {"length.slope", "markdown.slope"} <= undecided
    consistent = get(data, "order.consistent.rate", pass_=1)
    assert (consistent.value, consistent.n) == (1.0, len(data.items))
    bias = get(data, "order.bias.difference", pass_=1)
    assert bias.value == 0.0
    assert bias.interval is not None
    assert bias.interval.high - bias.interval.low > 0.5


def test_what_is_not_there_to_look_at() -> None:
    """Lengths that nobody measured, passes that were not run, scales that do not exist."""
    data = make(CELLS)
    assert why(data, "length.slope", pass_=1) == "not_computed"
    assert why(make(FOLLOWS, shapes=SHAPES), "length.follow.difference", pass_=1) == "no_labels"
    same = make(CELLS[:2], shapes=[(LONG, LONG)] * 2)
    assert why(same, "length.follow.rate", pass_=1) == "empty_denominator"
    empty = make(CELLS[:2], shapes=[(LONG, Shape(0, 0))] * 2)
    assert why(empty, "length.slope", pass_=1) == "empty_denominator"
    assert get(empty, "length.follow.rate", pass_=1).n == 4
    for name in ("order.reversal.rate", "order.slot.rate", "length.slope"):
        assert why(data, name, pass_=2) == "not_computed"
    assert why(data, "order.slot.rate", pass_=1, order="aa") == "not_computed"
    assert why(data, "order.swap.rate", scale="half") == "not_computed"
    assert why(data, "order.reversal.rate") == "not_computed"


def test_a_slope_that_does_not_move_has_no_interval() -> None:
    """Ties everywhere lie on a level line in every resample: the note says so."""
    data = make(once(*[("tie", "tie")] * 4), shapes=[SHAPES[0], SHAPES[3], *SHAPES[:2]])
    slope = get(data, "length.slope", pass_=1)
    assert (slope.value, slope.interval) == (0.0, None)
    assert "no interval" in (slope.note or "")


def test_a_filled_run_can_be_asked_too() -> None:
    """The fallback that fills missing verdicts knows only mapped ones; nothing here needs more."""
    data = make([(["A", None], ["B", "B"])])
    assert get(agreeing(data), "order.reversal.rate", pass_=2).value == 0.0
    assert pairwise.swap_tables(agreeing(data), "real", 2)[0].count("A", "B") == 1


def test_what_is_said_beside_the_numbers() -> None:
    """Greedy passes repeat themselves; one pass hides the noise; one order hides the order."""
    greedy = pairwise.protocol_words(decoding=Decoding("greedy"), passes=2)
    assert any("0 by construction" in s for s in greedy)
    sampled = pairwise.protocol_words(decoding=Decoding("sampled", 0.8), passes=2)
    assert not any("by construction" in s for s in sampled)
    assert any("repeat noise is not known" in s for s in pairwise.plain_words(make(CELLS)))
    one = pairwise.plain_words(make(CELLS, orders=("ab",)))
    assert any("asked in one order" in s for s in one)
    assert pairwise.curves(make(CELLS)) == ()


def test_the_summary_has_what_the_run_can_give() -> None:
    """Strata, controls and resolved verdicts are there where the run has them, each once."""
    said = [(["A", "A"], ["B", "A"]), (["B", "B"], ["A", "tie"])]
    data = make(
        said, strata=["x", "y"], shapes=SHAPES[2:4], labels=["A", "B"], resolve="average",
        pair=THREE,
    )  # fmt: skip
    names = [str(m.ref) for m in pairwise.summary(data)]
    assert len(names) == len(set(names))
    for name in (
        "real.order.reversal.rate[pass=2,stratum=x]",
        "real.order.slot.rate[order=ba,pass=1]",
        "real.order.excess.difference[stratum=y]",
        "real.length.slope[pass=2]",
        "real.resolved.wrong.rate[pass=1]",
        "real.agreement.rate[order=ab]",
        "real.wrong.rate[order=ba,pass=2]",
    ):
        assert name in names
    bare = [str(m.ref) for m in pairwise.summary(make(CELLS, resampling=BOOTSTRAP))]
    assert not any("length" in n or "resolved" in n or "excess" in n for n in bare)
