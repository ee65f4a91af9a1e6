"""The pairwise study against counting in plain lists, and on judges with a known order effect."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prereg_judge.shape import Shape
from prereg_judge.stats.resample import Resampler
from prereg_judge.study import pairwise
from prereg_judge.study.outcomes import Resampling, Resolve, StudyInput
from prereg_judge.words import Missing
from study.pairs_made import FIVE, FORCED, THREE, Said, get, make

WORDS = [*FIVE.sides, None]
MODES: tuple[Missing, ...] = ("disagree", "exclude", "undefined")
RULES: tuple[Resolve, ...] = ("agree_or_tie", "average", "first")
SAID = st.lists(
    st.tuples(*[st.lists(st.sampled_from(WORDS), min_size=2, max_size=2)] * 2),
    min_size=1,
    max_size=7,
)
COMPLETE = st.lists(
    st.tuples(*[st.lists(st.sampled_from(list(FIVE.sides)), min_size=2, max_size=2)] * 2),
    min_size=1,
    max_size=7,
)
SEEDS = st.integers(0, 2**16)
SIDE = {word: (s > 0) - (s < 0) for word, s in FIVE.sides.items()}


def _mapped(said: Sequence[Said]) -> list[tuple[list[int | None], list[int | None]]]:
    """What was said as numbers of answer a on the full scale, in each order, None where lost."""
    return [
        ([None if w is None else FIVE.sides[w] for w in ab],
         [None if w is None else -FIVE.sides[w] for w in ba])
        for ab, ba in said
    ]  # fmt: skip


def _sign(x: float) -> int:
    return (x > 0) - (x < 0)


# One item in one pass, mapped: whether it is in n, and whether in k.
Cell = tuple[int | None, int | None]
COUNTS: dict[str, Callable[[int, int], bool]] = {
    "order.reversal": lambda a, b: _sign(a) == -_sign(b) != 0,
    "order.consistent": lambda a, b: _sign(a) == _sign(b),
    "order.exact": lambda a, b: a == b,
    "order.tie_unstable": lambda a, b: [a, b].count(0) == 1,
}


def _plain_counts(cells: Sequence[Cell], missing: Missing) -> dict[str, object]:
    """Every count over the items of a pass, the slow way; a word where there is no value."""
    names = [*COUNTS, "order.reversal_decided"]
    if any(all(c[o] is None for c in cells) for o in (0, 1)) or all(None in c for c in cells):
        return dict.fromkeys(names, "nothing_scored")
    whole = [(a, b) for a, b in cells if a is not None and b is not None]
    if missing == "undefined" and len(whole) < len(cells):
        return dict.fromkeys(names, "missing_verdict")
    n = len(whole) if missing == "exclude" else len(cells)
    found: dict[str, object] = {
        name: (sum(hit(a, b) for a, b in whole), n) for name, hit in COUNTS.items()
    }
    decided = [(a, b) for a, b in whole if a and b]
    reversed_ = sum(a * b < 0 for a, b in decided)
    found["order.reversal_decided"] = (reversed_, len(decided)) if decided else "empty_denominator"
    return found


@given(SAID, st.sampled_from(MODES))
def test_counts_against_plain_lists(said: list[Said], missing: Missing) -> None:
    """Each count of what the swap does is what a loop over the items finds, reasons included."""
    data = make(said, missing=missing)
    for p in (1, 2):
        cells = [(ab[p - 1], ba[p - 1]) for ab, ba in _mapped(said)]
        for name, expected in _plain_counts(cells, missing).items():
            found = get(data, f"{name}.count", pass_=p)
            assert (found.undefined or (found.k, found.n)) == expected, name
            rate = get(data, f"{name}.rate", pass_=p)
            if rate.value is not None:
                assert rate.value == (found.k or 0) / (found.n or 1)


@given(SAID, st.sampled_from(["disagree", "exclude"]))
def test_slots_and_bias_against_plain_lists(said: list[Said], missing: Missing) -> None:
    """Preferences for a slot are counted as said; bias is half the paired change of credit."""
    data = make(said, missing=missing)
    kept = [(ab[0], ba[0]) for ab, ba in said if missing == "disagree" or (ab[0] and ba[0])]
    given_ = [SIDE[w] for cell in kept for w in cell if w is not None and SIDE[w]]
    slot = get(data, "order.slot.rate", pass_=1)
    if slot.value is not None:
        assert (slot.k, slot.n) == (given_.count(1), len(given_))
        assert slot.value == pytest.approx(given_.count(1) / len(given_))
    whole = [(SIDE[ab[0]], SIDE[ba[0]]) for ab, ba in said if ab[0] and ba[0]]
    bias, p = get(data, "order.bias.difference", pass_=1), get(data, "order.bias.p", pass_=1)
    # Without both orders there is nothing to pair; else there are a value and a p.
    lost = any(all(cell[o] is None for cell in kept) for o in (0, 1)) or not whole
    assert (bias.value is None, p.value is None) == (lost, lost)
    if bias.value is not None:
        credit = [((first + 1) / 2 + (second + 1) / 2) / 2 - 0.5 for first, second in whole]
        assert bias.value == pytest.approx(statistics.fmean(credit))
        plus, minus = sum(c > 0 for c in credit), sum(c < 0 for c in credit)
        tail = sum(math.comb(plus + minus, i) for i in range(min(plus, minus) + 1))
        assert p.value == pytest.approx(min(1.0, 2 * tail / 2 ** (plus + minus)))


def _plain_excess(said: Sequence[Said], *, full: bool) -> list[tuple[float, float]]:
    """Of each item the disagreement between the orders and within them, pair by pair of passes."""
    pairs = []
    for ab, ba in _mapped(said):

        def differ(x: int | None, y: int | None) -> bool:
            return x is None or y is None or (x != y if full else _sign(x) != _sign(y))

        swap = [differ(x, y) for x, y in itertools.product(ab, ba)]
        repeat = [
            statistics.fmean(differ(x, y) for x, y in itertools.combinations(one, 2))
            for one in (ab, ba)
        ]
        pairs.append((statistics.fmean(swap), statistics.fmean(repeat)))
    return pairs


@given(SAID, st.booleans())
def test_excess_against_plain_lists(said: list[Said], full: bool) -> None:
    """Swap, repeat and their difference are means over items of loops over pairs of passes."""
    data, scale = make(said), "verdict" if full else None
    swap, repeat = (
        get(data, "order.swap.rate", scale=scale),
        get(data, "order.repeat.rate", scale=scale),
    )
    excess = get(data, "order.excess.difference", scale=scale)
    if excess.value is None:
        assert excess.undefined == swap.undefined == "nothing_scored"
        return
    plain = _plain_excess(said, full=full)
    assert swap.value == pytest.approx(statistics.fmean(s for s, _ in plain))
    assert repeat.value == pytest.approx(statistics.fmean(r for _, r in plain))
    assert excess.value == pytest.approx(statistics.fmean(s - r for s, r in plain))


@given(SAID, st.sampled_from(RULES), st.lists(st.sampled_from(WORDS), min_size=7, max_size=7))
def test_resolution_against_plain_lists(
    said: list[Said], rule: Resolve, labels: list[str | None]
) -> None:
    """Each rule by its words, item by item; the three verdicts and the lost ones make up all."""
    data = make(said, resolve=rule, labels=labels[: len(said)])
    found: list[int | None] = []
    for ab, ba in _mapped(said):
        one, two = ab[0], ba[0]
        if one is None or (two is None and rule != "first"):
            found.append(None)
        elif rule == "first":
            found.append(_sign(one))
        elif rule == "average":
            found.append(_sign(one + (two or 0)))
        else:
            found.append(_sign(one) if _sign(one) == _sign(two or 0) else 0)
    for name, side in (("a", 1), ("b", -1), ("tie", 0)):
        metric = get(data, "resolved.verdict.count", verdict=name, pass_=1)
        assert metric.value is None or (metric.k, metric.n) == (found.count(side), len(said))
    wrong = get(data, "resolved.wrong.count", pass_=1)
    if wrong.value is not None:
        known = [(v, w) for v, w in zip(found, labels, strict=False) if w is not None]
        assert (wrong.k, wrong.n) == (sum(v != SIDE[w] for v, w in known), len(known))


def _shapes(seed: int, n: int) -> list[tuple[Shape, Shape] | None]:
    """Shapes with equal, empty and unknown ones among them."""
    drawn = np.random.default_rng(seed).integers(0, 4, size=(n, 5))
    return [
        None if row[4] == 0 else (Shape(int(row[0]), int(row[1])), Shape(int(row[2]), int(row[3])))
        for row in drawn
    ]


@given(SAID, SEEDS, st.lists(st.sampled_from(WORDS), min_size=7, max_size=7))
def test_controls_against_plain_lists(
    said: list[Said], seed: int, labels: list[str | None]
) -> None:
    """Shares, their excess over labels and slopes are what loops over verdicts find."""
    shapes = _shapes(seed, len(said))
    data = make(said, shapes=shapes, labels=labels[: len(said)])
    for at, trait in enumerate(("length", "markdown")):
        follows, excess, points = [], [], []
        for (ab, ba), shape, label in zip(_mapped(said), shapes, labels, strict=False):
            if shape is None:
                continue
            more = _sign(shape[0][at] - shape[1][at])
            for verdict in (ab[0], ba[0]):
                if verdict is None:
                    continue
                if verdict and more:
                    follows.append(_sign(verdict) == more)
                    if label is not None and SIDE[label]:
                        excess.append((_sign(verdict) == more) - (SIDE[label] == more))
                a, b = (one[at] + at for one in shape)
                if a and b:
                    points.append((math.log2(a / b), (_sign(verdict) + 1) / 2))
        for name, values in (("follow.rate", follows), ("follow.difference", excess)):
            metric = get(data, f"{trait}.{name}", pass_=1)
            if metric.value is not None:
                assert metric.value == pytest.approx(statistics.fmean(values))
                assert metric.n == len(values)
        slope = get(data, f"{trait}.slope", pass_=1)
        if slope.value is not None:
            xs, ys = zip(*points, strict=True)
            fitted = statistics.linear_regression(xs, ys).slope
            assert slope.value == pytest.approx(fitted, abs=1e-9)


@settings(max_examples=30)
@given(COMPLETE, SEEDS)
def test_intervals_against_drawing_the_items_oneself(said: list[Said], seed: int) -> None:
    """The percentile interval is that of the metric computed anew on each drawn list of items."""
    data = make(said, resampling=Resampling(60, seed))
    rows = Resampler(len(said), 60, seed).totals(np.eye(len(said))).astype(int)
    drawn = [[said[i] for i in np.repeat(np.arange(len(said)), weights)] for weights in rows]
    for name in ("order.bias.difference", "order.excess.difference"):
        params = {"pass_": 1} if "bias" in name else {}
        found = get(data, name, **params)
        values = [get(make(again, resampling=None), name, **params).value for again in drawn]
        if found.interval is None or "bootstrap" not in found.interval.method:
            assert np.ptp(np.array(values, dtype=float)) < 1e-9
        else:
            limits = np.quantile(np.array(values, dtype=float), [0.025, 0.975])
            if "widened" in found.interval.method:
                assert found.interval.low <= limits[0] + 1e-9
                assert found.interval.high >= limits[1] - 1e-9
                continue
            assert (found.interval.low, found.interval.high) == pytest.approx(tuple(limits))


@given(SAID, st.sampled_from(MODES), SEEDS)
def test_what_never_changes(said: list[Said], missing: Missing, seed: int) -> None:
    """Reversed, consistent, unstable and lost make up all; which answer is called a, no matter."""
    strata = [f"s{i % 2}" for i in range(len(said))]
    data = make(said, missing=missing, strata=strata, shapes=_shapes(seed, len(said)))
    parts = [
        get(data, f"order.{n}.count", pass_=1) for n in ("reversal", "consistent", "tie_unstable")
    ]
    if parts[0].value is not None and missing == "disagree":
        lost = sum(ab[0] is None or ba[0] is None for ab, ba in said)
        assert sum(m.k or 0 for m in parts) + lost == len(said)
    for metric in pairwise.summary(data):
        if metric.interval is not None:
            assert metric.interval.low <= metric.interval.high
            assert "wilson" not in metric.interval.method or (
                metric.interval.low - 1e-9 <= (metric.value or 0) <= metric.interval.high + 1e-9
            )
    # The other answer is called a: order ab becomes ba.
    turned = make([(ba, ab) for ab, ba in said], missing=missing, strata=strata)
    for name in (
        "order.reversal.rate",
        "order.slot.rate",
        "order.bias.difference",
        "order.exact.rate",
    ):
        one, other = get(data, name, pass_=1), get(turned, name, pass_=1)
        assert (one.value, one.undefined, one.interval) == (
            other.value, other.undefined, other.interval,
        )  # fmt: skip
    assert get(data, "order.excess.difference").value == pytest.approx(
        get(turned, "order.excess.difference").value
    )


def _noisy(
    generator: np.random.Generator, items: int, *, pull: float, spread: float, passes: int = 2
) -> tuple[StudyInput, float]:
    """A forced choice with noise of its own and a pull to the first slot; and the true excess.

    Answer a's chance of winning in order ab is that of the item plus `pull`, in ba minus it; the
    true excess is the mean of |p - q|^2 / 2 over the items, here (2 * pull) ** 2.
    """
    chances = 0.5 + generator.uniform(-spread, spread, size=items)
    said: list[Said] = []
    for chance in chances:
        ab = ["A" if u < chance + pull else "B" for u in generator.random(passes)]
        ba = ["B" if u < chance - pull else "A" for u in generator.random(passes)]
        said.append((ab, ba))
    return make(said, pair=FORCED, resampling=Resampling(500, 1)), (2 * pull) ** 2


def test_noise_alone_is_no_excess() -> None:
    """A judge that only wavers has 4 items in 10 reversed, and an excess whose intervals hold 0."""
    generator = np.random.default_rng(7)
    held, values = 0, []
    for _ in range(60):
        data, truth = _noisy(generator, 150, pull=0.0, spread=0.4)
        assert truth == 0
        excess = get(data, "order.excess.difference")
        assert excess.value is not None
        assert excess.interval is not None
        assert (get(data, "order.reversal.rate", pass_=1).value or 0) > 0.2
        held += excess.interval.low <= 0 <= excess.interval.high
        values.append(excess.value)
    assert held >= 52  # at 95% one seed in 350 gives fewer
    assert abs(statistics.fmean(values)) < 3 * statistics.stdev(values) / math.sqrt(60)


@pytest.mark.parametrize("passes", [2, 4])
def test_a_planted_order_effect_is_recovered(passes: int) -> None:
    """With noise on top of a pull of 0.25 the excess is 0.25, whatever the number of passes."""
    generator = np.random.default_rng(11)
    held, values = 0, []
    for _ in range(60):
        data, truth = _noisy(generator, 150, pull=0.25, spread=0.25, passes=passes)
        excess = get(data, "order.excess.difference")
        assert excess.value is not None
        assert excess.interval is not None
        assert excess.interval.low > 0
        held += excess.interval.low <= truth <= excess.interval.high
        values.append(excess.value)
    assert held >= 52
    error = statistics.stdev(values) / math.sqrt(60)
    assert statistics.fmean(values) == pytest.approx(0.25, abs=3 * error)


def test_the_registered_seed_says_what_is_drawn() -> None:
    """The same seed gives the same interval, another seed another."""
    data, _ = _noisy(np.random.default_rng(3), 80, pull=0.1, spread=0.3)
    name = "order.excess.difference"
    assert get(data, name) == get(replace(data, resampling=Resampling(500, 1)), name)
    other = get(replace(data, resampling=Resampling(500, 2)), name)
    assert other.value == get(data, name).value
    assert other.interval != get(data, name).interval


def test_scales_of_three_and_of_two() -> None:
    """The same words on a shorter scale give the same swaps; without ties nothing is unstable."""
    said: list[Said] = [(["A"], ["A"]), (["B"], ["A"]), (["A"], ["B"])]
    for pair in (FIVE, THREE, FORCED):
        data = make(said, pair=pair)
        assert get(data, "order.reversal.count", pass_=1).k == 1
        assert get(data, "order.exact.count", pass_=1).k == 2
        assert get(data, "order.tie_unstable.count", pass_=1).k == 0
