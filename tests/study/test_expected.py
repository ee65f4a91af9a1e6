"""The agreement to be expected: worked by hand, against draws, against a second implementation."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prereg_judge.choices import Node
from prereg_judge.shaping import Decoding
from prereg_judge.study import path_fidelity, self_agreement
from prereg_judge.study.expected import (
    GRID,
    AgreementCurve,
    chance_of_agreement,
    curves,
    expectation,
    temperature_of,
)
from prereg_judge.study.outcomes import StudyInput
from prereg_judge.study.rows import rows_of
from study.made import D, K, choosing, get, make, tree, why

COUNT, RATE = "sentinel.expected_agreement.count", "sentinel.expected_agreement.rate"
FAIR, SURE, LIKELY = tree(0.5, 0.5), tree(1 - 1e-15, 1e-15), tree(0.9, 0.1)
# Agreement 0.9^2 + 0.1^2 = 0.82 and 0.5.
TWO = choosing(make([[D, D], [D, K]]), [[LIKELY, LIKELY], [FAIR, FAIR]])


def test_worked_by_hand() -> None:
    """Rows of 0.9/0.1 and of 0.5/0.5 agree with chances 0.82 and 0.5; none, one or both can."""
    found, share = get(TWO, COUNT), get(TWO, RATE)
    assert found.value == pytest.approx(1.32)
    assert share.value == pytest.approx(0.66)
    assert (found.n, found.k, share.n, share.unit) == (2, None, 2, "share")
    for metric, limits in ((found, (0, 2)), (share, (0, 1))):
        assert metric.interval is not None
        assert (metric.interval.low, metric.interval.high) == limits
        assert metric.interval.method == "Poisson-binomial range of the observed"
    assert get(TWO, f"{RATE}.ci_high").value == 1
    assert get(TWO, RATE, stratum="half-0").value == pytest.approx(0.82)


def test_passes_that_read_differently_are_multiplied() -> None:
    """The chance is the sum of the products of each pass's own probabilities."""
    data = choosing(make([[D, D]]), [[LIKELY, FAIR]])
    assert get(data, RATE).value == pytest.approx(0.9 * 0.5 + 0.1 * 0.5)
    opposite = choosing(make([[D, K]]), [[SURE, tree(1e-15, 1 - 1e-15)]])
    assert get(opposite, RATE).value == pytest.approx(0, abs=1e-12)


def test_three_passes_must_all_agree() -> None:
    """Of three fair draws all agree one time in four."""
    data = choosing(make([[D, D, D]], passes=3), [[FAIR] * 3])
    assert get(data, RATE).value == pytest.approx(0.25)


def test_one_pass_tells_of_two_draws() -> None:
    """A single pass has no observed agreement, but two draws from it are known; it is said."""
    data = choosing(make([[D]], passes=1), [[LIKELY]])
    found = get(data, RATE)
    assert found.value == pytest.approx(0.82)
    assert found.note == "one pass: of two draws from its probabilities"
    assert why(data, "sentinel.agreement.rate") == "single_pass"
    words = " ".join(self_agreement.plain_words(data))
    assert (
        "In two independent draws from the recorded probabilities 0.8 of 1 sentinel rows" in words
    )


def test_another_temperature_is_worked_from_the_logits() -> None:
    """At half the temperature 0.9/0.1 becomes 0.81/0.01 divided by 0.82; at 1 nothing changes."""
    cold = (0.81**2 + 0.01**2) / 0.82**2
    assert get(TWO, RATE, stratum="half-0", temperature=0.5).value == pytest.approx(cold)
    assert get(TWO, RATE, temperature=1).value == get(TWO, RATE).value
    assert get(TWO, RATE, temperature="1.0").value == get(TWO, RATE).value


def test_the_recorded_probabilities_are_what_was_drawn_from() -> None:
    """At the registered temperature, named or not, the record counts; elsewhere its logits."""
    data = choosing(make([[D, D]]), [[FAIR, FAIR]])
    recorded = {D: 0.6, K: 0.4}
    choices = {key: replace(c, probabilities=recorded) for key, c in data.choices.items()}
    data = replace(data, choices=choices)
    assert get(data, RATE).value == pytest.approx(0.52)
    assert get(data, RATE, temperature=1).value == pytest.approx(0.52)
    assert get(data, RATE, temperature=2).value == pytest.approx(0.5)


def test_truncation_stays_at_another_temperature() -> None:
    """What min-p dropped at the registered decoding does not come back with heat."""
    cut = Decoding("sampled", 1.0, min_p=0.2)
    data = choosing(make([[D, D]]), [[LIKELY, LIKELY]], shaping=cut)
    assert get(data, RATE).value == 1
    assert get(data, RATE, temperature=2).value == 1
    assert get(TWO, RATE, stratum="half-0", temperature=2).value == pytest.approx(
        (0.9 + 0.1) / (0.9**0.5 + 0.1**0.5) ** 2
    )


def test_greedy_is_one_by_definition_and_any_temperature_is_the_whole_distribution() -> None:
    """The likeliest token agrees with itself; a named temperature takes it as if it were drawn."""
    greedy = choosing(
        make([[D, D]], decoding="greedy"), [[LIKELY, LIKELY]], shaping=Decoding("greedy")
    )
    assert get(greedy, RATE).value == 1
    interval = get(greedy, COUNT).interval
    assert interval is not None
    assert (interval.low, interval.high) == (1, 1)
    assert get(greedy, RATE, temperature=1).value == pytest.approx(0.82)
    assert not any("expected to agree" in text for text in self_agreement.plain_words(greedy))


def test_rows_without_a_probability_are_left_out_and_said() -> None:
    """A hang in one pass leaves its row out, whatever `missing` says of counts; but not silently
    where it says `undefined`.
    """
    data = choosing(make([[D, D], [D, None]]), [[LIKELY, LIKELY], [FAIR, None]])
    found = get(data, COUNT)
    assert found.value == pytest.approx(0.82)
    assert found.n == 1
    assert found.note == (
        "1 of 2 rows lack a probability in some pass; left out; "
        "limits on a count were registered for all rows"
    )
    assert get(replace(data, missing="exclude"), COUNT).value == found.value
    assert why(replace(data, missing="undefined"), RATE) == "missing_verdict"


def test_each_reason_for_having_no_value() -> None:
    """No probabilities recorded, nothing scored, no complete row and a bad temperature differ."""
    assert why(make([[D, D]]), RATE) == "no_probabilities"
    assert why(make([[None, None]]), RATE) == "nothing_scored"
    half = choosing(make([[D, None], [D, None]]), [[FAIR, None], [FAIR, None]])
    assert why(half, RATE) == "nothing_scored"
    crossed = choosing(make([[D, None], [None, D]]), [[FAIR, None], [None, FAIR]])
    assert why(crossed, RATE) == "empty_denominator"
    for text in ("0", "-1", "nan", "inf", "warm"):
        assert temperature_of(text) is None
        assert why(TWO, RATE, temperature=text) == "not_computed"
    assert why(TWO, RATE, kind="none") == "no_items"
    assert path_fidelity.compute(TWO, [get(TWO, RATE).ref])[get(TWO, RATE).ref].undefined == (
        "not_computed"
    )


def longer() -> tuple[Node, ...]:
    """A token that leaves KEEP and C open, of which the reader followed only one way."""
    first = Node("", 1.0, (1, 2, 3), (math.log(0.6), math.log(0.3), math.log(0.1)), (D, 1, None))
    return first, Node("K", 1.0, (4, 5), (math.log(0.75), math.log(0.25)), (K, "C"))


def test_a_verdict_of_several_tokens_and_what_was_not_followed() -> None:
    """0.6, 0.3 x 0.75 and 0.3 x 0.25 are divided by 0.9; with heat the lost share is said."""
    data = choosing(make([[D, D]], verdicts=(D, K, "C")), [[longer(), longer()]])
    p = [0.6 / 0.9, 0.225 / 0.9, 0.075 / 0.9]
    assert get(data, RATE).value == pytest.approx(sum(x * x for x in p))
    assert get(data, RATE).note is None
    lost = 0.1**0.5 / (0.6**0.5 + 0.3**0.5 + 0.1**0.5)
    (curve,) = curves(data)
    hot = next(point for point in curve.points if point.temperature == 2.0)
    assert hot.unfollowed == pytest.approx(lost)
    note = get(data, RATE, temperature=2).note
    assert note == f"up to {lost:.2g} of a row's probability there is on tokens not followed"


def test_the_observed_count_is_said_to_lie_where_it_lies() -> None:
    """50 fair rows: 25 agreeing passes fit what is expected, 50 do not; with one seed they need
    not.
    """
    trees = [[FAIR, FAIR]] * 50
    fitting = choosing(make([[D, D], [D, K]] * 25), trees)
    (said,) = self_agreement.plain_words(fitting)
    assert said == (
        "In 2 independent draws from the recorded probabilities 25.0 of 50 sentinel rows are "
        "expected to agree (95% of the time 18 to 32); observed are 25 [18.3, 31.7] 95% Wilson. "
        "The expected count lies inside the interval of the observed one."
    )
    same = choosing(make([[D, D]] * 50), trees)
    assert "lies outside the interval" in self_agreement.plain_words(same)[0]
    seeded = replace(same, decoding="seeded", shaping=Decoding("seeded", 1.0))
    words = " ".join(self_agreement.plain_words(seeded))
    assert "50 do here, but these passes draw alike" in words
    assert "outside" not in words
    assert get(seeded, RATE).note == ("of independent draws; the passes of this run draw alike")


# --- a second implementation, on plain lists -------------------------------------------------


def by_hand(
    logits: Sequence[float], *, temperature: float, top_k: int, top_p: float, min_p: float
) -> list[float]:
    """Truncation at temperature 1, then temperature, one token after the other."""
    weights = [math.exp(x - max(logits)) for x in logits]
    p = [w / sum(weights) for w in weights]
    ranked = sorted(range(len(p)), key=lambda i: (-logits[i], i))
    kept: list[int] = []
    within = ranked[:top_k] if top_k else ranked
    total = sum(p[i] for i in within)
    reached = 0.0
    for i in within:
        if kept and (reached >= top_p or p[i] < min_p * p[ranked[0]]):
            break
        kept.append(i)
        reached += p[i] / total
    heat = [math.exp((logits[i] - max(logits)) / temperature) if i in kept else 0.0
            for i in range(len(p))]  # fmt: skip
    return [h / sum(heat) for h in heat]


LOGITS = st.lists(st.floats(-6, 6), min_size=4, max_size=4)


@given(
    st.lists(LOGITS, min_size=1, max_size=5),
    st.floats(0.05, 3),
    st.sampled_from([0, 1, 2, 3]),
    st.sampled_from([1.0, 0.45, 0.85]),
    st.sampled_from([0.0, 0.13]),
)
def test_against_an_implementation_of_its_own(
    rows: list[list[float]], temperature: float, top_k: int, top_p: float, min_p: float
) -> None:
    """At any temperature and truncation the value is the mean of squares worked in plain lists;
    two tokens spell KEEP.
    """
    decoding = Decoding("sampled", 0.7, top_k, top_p, min_p)
    nodes = [(Node("", 1.0, (0, 1, 2, 3), tuple(row), (D, K, "C", K)),) for row in rows]
    data = make([[D, D]] * len(rows), verdicts=(D, K, "C"))
    data = choosing(data, [[n, n] for n in nodes], shaping=decoding)
    for heat, params in ((0.7, {}), (temperature, {"temperature": temperature})):
        total = 0.0
        for row in rows:
            p = by_hand(row, temperature=heat, top_k=top_k, top_p=top_p, min_p=min_p)
            total += p[0] ** 2 + (p[1] + p[3]) ** 2 + p[2] ** 2
        assert get(data, COUNT, **params).value == pytest.approx(total, abs=1e-9)


@st.composite
def _distributions(draw: st.DrawFn) -> list[list[float]]:
    """Rows of probabilities over three verdicts."""
    weights = st.lists(st.floats(0.01, 1), min_size=3, max_size=3)
    rows = draw(st.lists(weights, min_size=1, max_size=12))
    return [[w / sum(row) for w in row] for row in rows]


def _run(rows: list[list[float]], names: tuple[str, ...] = (D, K, "C")) -> StudyInput:
    trees = [[tree(*row, leads=names)] * 2 for row in rows]
    return choosing(make([[D, D]] * len(rows), verdicts=(D, K, "C")), trees)


@given(_distributions(), st.permutations([D, K, "C"]))
def test_bounds_and_names(rows: list[list[float]], names: list[str]) -> None:
    """The share lies between 1/V and 1 and in its interval; names of verdicts do not matter."""
    found = get(_run(rows), RATE)
    assert found.value is not None
    assert 1 / 3 - 1e-12 <= found.value <= 1
    assert found.interval is not None
    assert found.interval.low <= found.value <= found.interval.high
    assert get(_run(rows, tuple(names)), RATE).value == pytest.approx(found.value, abs=1e-12)


def test_draws_agree_as_often_as_expected() -> None:
    """20,000 pairs of passes drawn from the probabilities agree on as many rows as the closed form
    says, and in 95% of them or more on a number in its range.
    """
    rng = np.random.default_rng(20260101)
    rows = [list(p / p.sum()) for p in rng.uniform(0.02, 1, size=(40, 3))]
    found = get(_run(rows), COUNT)
    n = 20_000
    agreeing = np.zeros(n)
    for row in rows:
        agreeing += rng.choice(3, size=n, p=row) == rng.choice(3, size=n, p=row)
    assert found.value is not None
    spread = agreeing.std(ddof=1) / math.sqrt(n)
    assert abs(agreeing.mean() - found.value) < 4 * spread
    assert found.interval is not None
    inside = (agreeing >= found.interval.low) & (agreeing <= found.interval.high)
    assert inside.mean() > 0.95 - 4 * math.sqrt(0.95 * 0.05 / n)
    outside = (agreeing < found.interval.low + 1) | (agreeing > found.interval.high - 1)
    assert outside.mean() > 0.025  # one row less on each side would hold too little


def _shares(curve: AgreementCurve) -> list[float]:
    return [p.rate for p in curve.points]


@given(_distributions())
def test_the_curve_falls_where_each_verdict_is_one_token(rows: list[list[float]]) -> None:
    """More heat makes one-token verdicts less alike, never more; passes that read alike."""
    (curve,) = curves(_run(rows))
    shares = _shares(curve)
    assert all(a >= b - 1e-12 for a, b in itertools.pairwise(shares))


def test_the_curve_can_rise() -> None:
    """Where one token spells DROP and twenty spell KEEP, heat first divides them, then unites."""
    nodes = tree(*[0.5, *[0.025] * 20], leads=[D, *[K] * 20])
    data = choosing(make([[D, D]]), [[nodes, nodes]])
    shares = _shares(curves(data)[0])
    assert min(shares) < shares[0]
    assert min(shares) < shares[-1]
    assert min(shares) == pytest.approx(0.5)


def test_the_curve_has_the_grid_and_the_registered_temperature() -> None:
    """0.1 to 2.0 and 0.75, which is marked; every point has n and its range; greedy marks none."""
    decoding = Decoding("sampled", 0.75)
    data = choosing(make([[D, D], [D, None]]), [[LIKELY, LIKELY], [FAIR, None]], shaping=decoding)
    (curve,) = curves(data)
    assert [p.temperature for p in curve.points] == sorted([*GRID, 0.75])
    assert (GRID[0], GRID[-1], len(GRID)) == (0.1, 2.0, 20)
    assert [p.temperature for p in curve.points if p.registered] == [0.75]
    assert {(p.n, curve.n_rows, curve.draws) for p in curve.points} == {(1, 2, 2)}
    assert all(p.low <= p.rate <= p.high for p in curve.points)
    at = next(p for p in curve.points if p.registered)
    assert at.rate == get(data, RATE).value
    assert curves(make([[D, D]])) == ()
    greedy = replace(data, shaping=Decoding("greedy"), decoding="greedy")
    assert not any(p.registered for p in curves(greedy)[0].points)
    assert path_fidelity.curves(data) == ()


def test_degenerate_chances() -> None:
    """Certain verdicts agree for sure; a rounding above 1 is none."""
    assert chance_of_agreement([{D: 1.0}, {D: 1.0}]) == 1
    assert chance_of_agreement([{D: 1.0, K: 0.0}, {K: 1.0, D: 0.0}]) == 0
    third = {D: 0.1 + 0.2, K: 0.7000000000000002}
    assert chance_of_agreement([third]) == 1
    empty = expectation(make([[D, D]]), rows_of(make([[D, D]]), "sentinel"))
    assert (empty.rows, empty.chances, empty.count) == ((), (), 0.0)


def test_the_summary_shows_expected_beside_observed() -> None:
    """The line after the observed agreement is the expected one, of the set and of each kind."""
    data = replace(TWO, items=tuple(replace(i, kind="a") for i in TWO.items))
    names = [str(m.ref) for m in self_agreement.summary(data)]
    assert names[:4] == ["sentinel.agreement.count", "sentinel.agreement.rate", COUNT, RATE]
    at = names.index("sentinel.agreement.rate[kind=a]")
    assert names[at + 1 : at + 3] == [f"{COUNT}[kind=a]", f"{RATE}[kind=a]"]
    assert not any("expected" in str(m.ref) for m in self_agreement.summary(make([[D, D]])))
