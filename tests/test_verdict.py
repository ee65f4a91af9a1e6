"""Claims against metrics: every outcome word, the order of verdicts, stop rules call by call."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prereg_judge.registration.claims import (
    Band,
    Claims,
    Combined,
    Condition,
    Decision,
    Prediction,
    Refuter,
    StopRule,
    Test,
)
from prereg_judge.study.expected import METHOD
from prereg_judge.study.metric import Interval, Metric, MetricRef
from prereg_judge.study.outcomes import CallView, TrialKey
from prereg_judge.verdict import (
    CLOSE,
    EXIT_CODES,
    ClaimOutcome,
    StopState,
    StopWatch,
    Verdict,
    evaluate,
    stop_state,
    truth,
)
from prereg_judge.words import Unscored

X, Y = MetricRef.of("sentinel.agreement.count"), MetricRef.of("sentinel.flips.count")


def value(
    ref: MetricRef, number: float, low: float | None = None, high: float | None = None
) -> Metric:
    """A metric with a value and perhaps an interval."""
    seen = None
    if low is not None and high is not None:
        seen = Interval(low, high, 0.95, "wilson")
    return Metric(ref, number, "rows", "test", interval=seen)


def nothing(ref: MetricRef) -> Metric:
    """A metric without a value."""
    return Metric(ref, None, "rows", "test", undefined="nothing_scored")


def judge(
    claims: Claims,
    *metrics: Metric,
    stops: dict[str, StopState] | None = None,
    scored: int = 10,
    invalid: Sequence[str] = (),
) -> Verdict:
    """Evaluate with little to write."""
    return evaluate(
        claims,
        {m.ref: m for m in metrics},
        stops_tripped=stops or {},
        scored=scored,
        invalid=invalid,
    )


def only(claims: Claims, *metrics: Metric) -> ClaimOutcome:
    """The single outcome of a single claim."""
    (outcome,) = judge(claims, *metrics).outcomes
    return outcome


@pytest.mark.parametrize(
    ("number", "word"),
    [(57.9, "missed low"), (58, "inside"), (68, "inside"), (68.1, "missed high")],
)
def test_bands(number: float, word: str) -> None:
    """A band includes its limits, and says on which side it was missed."""
    outcome = only(Claims(bands=(Band("b", Test(X, 58, 68)),)), value(X, number))
    assert (outcome.id, outcome.kind, outcome.outcome) == ("b", "band", word)
    assert outcome.registered == "sentinel.agreement.count in 58..68"
    assert outcome.metrics == (value(X, number),)


@pytest.mark.parametrize(("number", "word"), [(58, "missed low"), (68, "missed high")])
def test_open_bands(number: float, word: str) -> None:
    """An open limit is outside the band, on its own side."""
    test = Test(X, 58, 68, low_open=True, high_open=True)
    assert only(Claims(bands=(Band("b", test),)), value(X, number)).outcome == word


def test_words_of_the_other_claims() -> None:
    """Predictions hold or fail, refuters fire or stay silent, decisions are taken or not."""
    test = Test(X, low=8)
    for kind, claims, words in (
        ("prediction", Claims(predictions=(Prediction("c", test),)), ("held", "failed")),
        ("refuter", Claims(refuters=(Refuter("c", test, "why"),)), ("fired", "silent")),
        ("decision", Claims(decisions=(Decision("c", test, "stop"),)), ("taken", "not taken")),
    ):
        for number, word in zip((8, 7), words, strict=True):
            outcome = only(claims, value(X, number))
            assert (outcome.kind, outcome.outcome) == (kind, word)
        for metrics in ([nothing(X)], []):
            assert only(claims, *metrics).outcome == "undefined"
    assert only(claims, nothing(X)).reason == "nothing_scored"
    assert only(claims).reason == "not_computed"
    assert only(claims).registered == f"if {test} then stop"


@pytest.mark.parametrize(
    ("low", "high", "close"),
    [(50, 60, True), (59, 60, False), (50, 57, False), (60, 67, False), (57.9, 58.1, True)],
)
def test_a_limit_inside_the_observed_interval_is_said(low: float, high: float, close: bool) -> None:
    """Where values of both outcomes are in the interval the claim says so and keeps its own."""
    outcome = only(
        Claims(bands=(Band("b", Test(X, 58, 68)),)), value(X, (low + high) / 2, low, high)
    )
    assert outcome.close is close
    assert (outcome.note is not None and outcome.note.startswith(CLOSE)) is close
    refuter = Refuter("r", Combined("any", (Test(Y, 1, 1), Test(X, high=58))), "x")
    both = only(Claims(refuters=(refuter,)), value(X, high, low, high), value(Y, 0))
    assert both.close is close


BAND, HELD = Band("band", Test(X, 1, 2)), Prediction("held", Test(Y, low=1))
REFUTER = Refuter("refuter", Test(Y, low=5), "refuted")
STOP = StopRule("stop", Test(MetricRef.of("calls.hangs"), low=1))
KEY = TrialKey("sentinel", "i", "ab", 1)
ALL = Claims((BAND,), (HELD,), (REFUTER,), (STOP,), (Decision("d", Test(X, low=0), "go"),))


def state(*reasons: Unscored | None) -> dict[str, StopState]:
    """The stop rule's state after these calls."""
    calls = [CallView(KEY, i, why, 1.0) for i, why in enumerate(reasons)]
    return {"stop": stop_state(STOP, calls)}


CASES = [
    ("PASS", 1.0, 1.0, state(None), 10),
    ("FAIL", 3.0, 1.0, state(None), 10),
    ("FAIL", 1.0, 0.0, state(None), 10),
    ("FAIL", 3.0, None, state(None), 10),
    ("REFUTED", 3.0, 5.0, state(None), 10),
    ("REFUTED", None, 5.0, state(None), 10),
    ("STOPPED", 3.0, 5.0, state("hang"), 10),
    ("STOPPED", None, None, state("hang"), 0),
    ("INCONCLUSIVE", None, 1.0, state(None), 10),
    ("INCONCLUSIVE", 1.0, None, state(None), 10),
    ("INCONCLUSIVE", 1.0, 1.0, state(), 10),
    ("INCONCLUSIVE", 1.0, 1.0, {}, 10),
    ("INCONCLUSIVE", 1.0, 1.0, state(None), 0),
]


@pytest.mark.parametrize(("word", "x", "y", "stops", "scored"), CASES)
def test_order_of_verdicts(
    word: str, x: float | None, y: float | None, stops: dict[str, StopState], scored: int
) -> None:
    """STOPPED before REFUTED before FAIL before INCONCLUSIVE before PASS; INVALID beside all."""
    metrics = [
        nothing(ref) if number is None else value(ref, number) for ref, number in ((X, x), (Y, y))
    ]
    verdict = judge(ALL, *metrics, stops=stops, scored=scored)
    assert verdict.word == verdict.statistical == word
    assert verdict.exit_code == EXIT_CODES[verdict.word]
    assert bool(verdict.reasons) is (word != "PASS")
    assert [o.kind for o in verdict.outcomes] == [
        "band",
        "prediction",
        "refuter",
        "stop",
        "decision",
    ]
    invalid = judge(ALL, *metrics, stops=stops, scored=scored, invalid=["plan changed"])
    assert (invalid.word, invalid.exit_code, invalid.statistical) == ("INVALID", 5, word)
    assert invalid.outcomes == verdict.outcomes
    assert invalid.reasons[0] == "plan changed"


def test_exit_codes() -> None:
    """The exit codes are the documented ones; 2 is left to bad input."""
    assert EXIT_CODES == {
        "PASS": 0,
        "FAIL": 1,
        "REFUTED": 3,
        "STOPPED": 4,
        "INVALID": 5,
        "INCONCLUSIVE": 6,
    }


@pytest.mark.parametrize(
    "claims",
    [
        Claims(),
        Claims(refuters=(Refuter("r", Test(X, low=99), "x"),)),
        Claims(decisions=(Decision("d", Test(X, low=0), "go"),)),
    ],
)
def test_nothing_to_pass_is_inconclusive(claims: Claims) -> None:
    """Without a band or prediction, silent refuters and decisions make no PASS."""
    assert judge(claims, value(X, 1)).word == "INCONCLUSIVE"


def test_claims_about_calls_do_not_pass_a_run_without_verdicts() -> None:
    """ "At most 3 hangs" holds when every call crashed; that is not a PASS."""
    hangs = MetricRef.of("calls.hangs")
    claims = Claims(predictions=(Prediction("few", Test(hangs, high=3)),))
    verdict = judge(claims, value(hangs, 0), scored=0)
    assert verdict.outcomes[0].outcome == "held"
    assert (verdict.word, verdict.reasons) == ("INCONCLUSIVE", ("no trial has a verdict",))
    assert judge(claims, value(hangs, 0), scored=1).word == "PASS"
    with pytest.raises(ValueError, match="scored"):
        judge(claims, scored=-1)


@pytest.mark.parametrize("number", [None, 0.0, 1.0])
def test_decisions_never_change_the_verdict(number: float | None) -> None:
    """A decision taken, not taken or undefined leaves PASS as it is."""
    claims = Claims(bands=(BAND,), decisions=(Decision("d", Test(Y, low=1), "go"),))
    metric = nothing(Y) if number is None else value(Y, number)
    assert judge(claims, value(X, 1), metric).word == "PASS"


TRUE, FALSE, UNKNOWN = Test(X, low=0), Test(X, low=9), Test(Y, low=0)


@pytest.mark.parametrize(
    ("how", "parts", "expected"),
    [
        ("all", (TRUE, TRUE), True),
        ("all", (TRUE, FALSE), False),
        ("all", (TRUE, UNKNOWN), None),
        ("all", (UNKNOWN, FALSE), False),
        ("all", (UNKNOWN, UNKNOWN), None),
        ("any", (FALSE, FALSE), False),
        ("any", (TRUE, FALSE), True),
        ("any", (UNKNOWN, TRUE), True),
        ("any", (FALSE, UNKNOWN), None),
        ("any", (UNKNOWN, UNKNOWN), None),
    ],
)
def test_three_valued_logic(how: str, parts: tuple[Test, ...], expected: bool | None) -> None:
    """Kleene's tables: an undefined part matters only where the others do not decide."""
    condition = Combined("all" if how == "all" else "any", parts)
    metrics = {X: value(X, 1), Y: nothing(Y)}
    assert truth(condition, metrics) is expected
    outcome = only(Claims(refuters=(Refuter("r", condition, "x"),)), *metrics.values())
    assert outcome.outcome == {True: "fired", False: "silent", None: "undefined"}[expected]
    assert (outcome.reason is None) is (expected is not None)
    if UNKNOWN in parts:
        assert outcome.note is not None
        assert "sentinel.flips.count is undefined" in outcome.note


def _conditions() -> st.SearchStrategy[Condition]:
    tests: st.SearchStrategy[Condition] = st.sampled_from([TRUE, FALSE, UNKNOWN])
    return st.recursive(
        tests,
        lambda inner: st.builds(
            Combined,
            st.sampled_from(["all", "any"]),
            st.lists(inner, min_size=1, max_size=3).map(tuple),
        ),
        max_leaves=12,
    )


def _two_valued(condition: Condition, unknown: bool) -> bool:
    if isinstance(condition, Test):
        return unknown if condition is UNKNOWN else condition is TRUE
    parts = [_two_valued(part, unknown) for part in condition.parts]
    return all(parts) if condition.how == "all" else any(parts)


@given(_conditions())
def test_three_valued_logic_is_cautious(condition: Condition) -> None:
    """A nested condition is decided exactly when the undefined metric could not change it."""
    metrics = {X: value(X, 1), Y: nothing(Y)}
    # No negation exists, so the two extremes bound every filling-in of the one unknown.
    low, high = _two_valued(condition, False), _two_valued(condition, True)
    assert truth(condition, metrics) is (low if low == high else None)


METRICS = [
    MetricRef.of("calls.hangs"),
    MetricRef.of("calls.hangs.rate"),
    MetricRef.of("calls.unscored"),
    MetricRef.of("calls.unscored", reason="crash"),
    MetricRef.of("calls.unscored.rate", reason="crash"),
    MetricRef.of("calls.count"),
]


def _matches(ref: MetricRef, reason: str | None) -> bool:
    if ref.name == "calls.count":
        return True
    if ref.name.startswith("calls.hangs"):
        return reason == "hang"
    wanted = dict(ref.params).get("reason")
    return reason is not None and wanted in (None, reason)


def _brute_force(rule: StopRule, reasons: Sequence[str | None]) -> int | None:
    """Every window among the first calls, counted from scratch; the earliest end that holds."""
    first = reasons[: rule.over_first]
    width = rule.in_every or len(first)
    ends = []
    for end in range(1, len(first) + 1):
        window = first[max(0, end - width) : end]
        k = sum(_matches(rule.when.ref, reason) for reason in window)
        share = rule.when.ref.name.endswith(".rate")
        number = k / len(window) if share else k
        short = rule.in_every is not None and len(window) < rule.in_every
        if rule.when.holds(number) and not (share and short):
            ends.append(end)
    return min(ends, default=None)


@given(
    st.lists(st.sampled_from(["hang", "crash", None, None]), max_size=40),
    st.sampled_from(METRICS),
    st.sampled_from([0.25, 0.5, 1, 2, 3, 7]),
    st.booleans(),
    st.none() | st.integers(1, 12),
    st.none() | st.integers(1, 30),
)
def test_stop_watch_is_every_window_counted(
    reasons: list[Unscored | None],
    ref: MetricRef,
    limit: float,
    strict: bool,
    in_every: int | None,
    over_first: int | None,
) -> None:
    """Fed call by call, the watch trips where a count of all windows from scratch does."""
    rule = StopRule("s", Test(ref, low=limit, low_open=strict), in_every, over_first)
    calls = [CallView(KEY, i, why, 1.0) for i, why in enumerate(reasons)]
    watch = StopWatch(rule)
    for number, call in enumerate(calls, start=1):
        after = watch.feed(call)
        assert after.at_call == _brute_force(rule, reasons[:number])
        assert after.seen == number
        assert after == stop_state(rule, calls[:number])
    if calls:
        assert watch.state.tripped is (_brute_force(rule, reasons) is not None)
    else:
        assert watch.state.tripped is None


def test_stop_watch_states() -> None:
    """The outcome of a stop rule says at which call and on what count it tripped."""
    rule = StopRule("stop", Test(MetricRef.of("calls.hangs"), low=2), in_every=3, over_first=10)
    calls = [CallView(KEY, i, "hang" if i in (2, 5, 7) else None, 1.0) for i in range(1, 9)]
    found = stop_state(rule, calls)
    assert (found.at_call, found.k, found.n, found.seen) == (7, 2, 3, 8)
    verdict = judge(Claims(bands=(BAND,), stops=(rule,)), value(X, 1), stops={"stop": found})
    outcome = verdict.outcomes[1]
    assert outcome.outcome == "tripped"
    assert outcome.note == "at call 7: 2 of the last 3 calls"
    assert outcome.registered == (
        "calls.hangs >= 2 in any 3 calls in succession over the first 10 calls"
    )


@pytest.mark.parametrize(
    "ref",
    [
        MetricRef.of("sentinel.agreement.count"),
        MetricRef.of("calls.seconds.max"),
        MetricRef.of("calls.retries"),
        MetricRef.of("calls.hangs.ci_low"),
        MetricRef.of("calls.unscored", reason="tired"),
        MetricRef.of("calls.hangs", kind="a"),
    ],
)
def test_stop_rules_on_what_cannot_be_counted_live(ref: MetricRef) -> None:
    """A rule on anything but counts of calls is refused at once."""
    with pytest.raises(ValueError, match="cannot be counted live"):
        StopWatch(StopRule("s", Test(ref, low=1)))


@pytest.mark.parametrize("window", [{"in_every": 0}, {"over_first": 0}, {"in_every": -1}])
def test_stop_rules_without_a_window(window: dict[str, int]) -> None:
    """A window of no call can never trip, so it is refused."""
    with pytest.raises(ValueError, match="at least 1"):
        StopWatch(StopRule("s", Test(MetricRef.of("calls.hangs"), low=1), **window))


def test_claims_that_name_infinite_limits_have_none_to_be_close() -> None:
    """A one-sided claim has one limit."""
    claims = Claims(predictions=(Prediction("p", Test(X, -math.inf, 5)),))
    assert only(claims, value(X, 4, 3, 6)).close
    assert not only(claims, value(X, 2, 1, 4)).close


def test_a_range_of_what_would_be_observed_makes_no_value_doubtful() -> None:
    """An expected agreement is exact given its rows: a limit in the range of the observed is not
    close to it.
    """
    claims = Claims(bands=(Band("b", Test(X, 3, 9)),))
    metric = value(X, 4, 2, 6)
    assert only(claims, metric).close
    about = replace(metric, interval=Interval(2, 6, 0.95, METHOD))
    assert not only(claims, about).close
