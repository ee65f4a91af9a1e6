"""What rests on missing verdicts is said beside the claim that rests on it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from prereg_judge.registration.claims import Band, Claims, Prediction, Refuter, StopRule, Test
from prereg_judge.stopping import stop_state
from prereg_judge.study import self_agreement
from prereg_judge.study.metric import MetricRef
from prereg_judge.study.outcomes import CallView, StudyInput, TrialKey, agreeing
from prereg_judge.verdict import Verdict, evaluate, with_doubts
from prereg_judge.words import Unscored
from study.made import D, K, get, make, ratio

AGREE = MetricRef("sentinel.agreement.count")
GOLDEN = Claims(
    bands=(Band("agree", Test(AGREE, 58, 68)),),
    refuters=(
        Refuter("deterministic", Test(AGREE, 72, 72), "the wire is deterministic"),
        Refuter("unstable", Test(AGREE, high=50, high_open=True), "too unstable"),
    ),
)


def times(n: int, *verdicts: str | None) -> list[tuple[str | None, ...]]:
    """`n` rows with these verdicts."""
    return [verdicts] * n


def judged(data: StudyInput, claims: Claims = GOLDEN) -> Verdict:
    """The verdict as registered, with the doubts that `score` adds."""

    def plain(one: StudyInput) -> Verdict:
        named: list[Band | Prediction] = [*claims.bands, *claims.predictions]
        refs = [claim.test.ref for claim in named] + [AGREE]
        metrics = self_agreement.compute(one, refs)
        scored = self_agreement.scored_trials(one)
        return evaluate(claims, metrics, stops_tripped={}, scored=scored)

    others = {"were left out": replace(data, missing="exclude"), "had agreed": agreeing(data)}
    return with_doubts(plain(data), {how: plain(other) for how, other in others.items()})


def test_a_refuter_that_only_hangs_keep_silent_says_so() -> None:
    """62 rows agree and 10 second passes hang: had they agreed, the refuter would have fired."""
    rows = times(62, K, K) + times(10, K, None)
    outcomes = {o.id: o for o in judged(make(rows)).outcomes}
    assert outcomes["deterministic"].outcome == "silent"
    note = outcomes["deterministic"].note
    assert note is not None
    assert "it would be 'fired' if the trials without a verdict had agreed" in note


def test_a_refuter_that_only_hangs_fire_says_so() -> None:
    """24 of 24 scored rows agree; counted as disagreement the hangs fire `unstable`."""
    rows = times(48, K, None) + times(24, K, K)
    outcomes = {o.id: o for o in judged(make(rows)).outcomes}
    assert outcomes["unstable"].outcome == "fired"
    assert "it would be 'silent' if" in str(outcomes["unstable"].note)


def test_a_count_says_how_many_of_it_are_missing() -> None:
    """Beside the claim stands how many of the counted rows lack a verdict."""
    rows = times(3, K, None) + times(2, K, D) + times(5, K, K)
    claims = Claims(predictions=(Prediction("p", Test(MetricRef("sentinel.flips.count"), 4)),))
    (outcome,) = judged(make(rows), claims).outcomes
    assert "3 of the 5 counted and 0 of the others lack one" in str(outcome.note)


def test_without_missing_verdicts_nothing_is_doubted() -> None:
    """Filling nothing in changes nothing."""
    data = make([[K, K], [K, D]] * 36)
    assert agreeing(data) == data


def test_a_hang_is_no_error_that_a_second_pass_finds() -> None:
    """A perfect judge with eight hangs has neither found nor repeated errors."""
    rows = times(8, K, None) + times(2, K, K)
    data = make(rows, labels=[K] * 10)
    assert ratio(data, "sentinel.wrong_found") == (0, 10)
    assert ratio(data, "sentinel.wrong_repeated") == (0, 10)


def test_found_and_repeated_errors_do_not_overlap() -> None:
    """Two different wrong verdicts are found, not repeated."""
    data = make([[K, D], [D, D], [K, K]], labels=[K] * 3)
    assert ratio(data, "sentinel.wrong_found") == (1, 3)
    assert ratio(data, "sentinel.wrong_repeated") == (1, 3)


def test_limits_on_a_count_under_exclude_are_questioned() -> None:
    """When rows are left out, n is no longer what the limits were registered for."""
    data = make([[K, K], [K, None]], missing="exclude")
    note = get(data, "sentinel.agreement.count").note
    assert note is not None
    assert note.endswith("limits on a count were registered for all rows")


def _calls(*hung: bool) -> Sequence[CallView]:
    reasons: list[Unscored | None] = ["hang" if h else None for h in hung]
    key = TrialKey("sentinel", "i", "ab", 1)
    return [CallView(key, 1, reason, 1.0) for reason in reasons]


def test_a_share_is_not_judged_on_a_window_that_is_not_full() -> None:
    """One hang in the first call is 1 in 20 of its window, not 1 of 1."""
    rule = StopRule("s", Test(MetricRef("calls.hangs.rate"), 0.1), in_every=20, over_first=40)
    calls = _calls(True, *[False] * 39)
    assert stop_state(rule, calls).tripped is False
    assert stop_state(rule, _calls(True, True, *[False] * 38)).at_call == 20


def test_a_count_trips_before_its_window_is_full() -> None:
    """At one hang in any twenty calls, the first hang is enough."""
    rule = StopRule("s", Test(MetricRef("calls.hangs"), 1), in_every=20, over_first=40)
    assert stop_state(rule, _calls(False, True)).at_call == 2
