"""What a rehearsal comes to as numbers: shares that differ, means with their intervals, reasons."""

from __future__ import annotations

import io
import math

import pytest
from rich.console import Console

from prereg_judge.report.rehearsal import (
    Play,
    Rehearsal,
    Scenario,
    Spread,
    as_json,
    not_told_apart,
    render,
)
from prereg_judge.study.metric import Metric, MetricRef
from prereg_judge.verdict import ClaimOutcome, OutcomeWord, Verdict


def told(inside: int, low: int, high: int, undefined: int = 0) -> Scenario:
    """Plays of one band, with each outcome as often."""
    often: dict[OutcomeWord, int] = {"inside": inside, "missed low": low, "missed high": high}
    often["undefined"] = undefined
    plays = []
    for word, times in often.items():
        outcome = ClaimOutcome("agree", "band", "x in 1..2", word)
        plays += [Play(Verdict("PASS", "PASS", (outcome,), ()), {}, 1, 0)] * times
    return Scenario({}, (), (), tuple(plays), {})


def test_outcomes_that_are_rarer_in_either_scenario_tell_the_two_apart() -> None:
    """Only `inside` differs, and its share in the second lies above that in the first."""
    first, second = told(10, 10, 10), told(22, 4, 4)
    assert not_told_apart(first, second) == []
    assert not_told_apart(second, first) == []
    assert len(not_told_apart(first, first)) == 1


def test_an_outcome_that_came_once_tells_nothing_apart() -> None:
    """One `undefined` of 30 against none is luck; all of 30 against none is not."""
    first, second = told(10, 10, 10), told(10, 10, 9, undefined=1)
    assert len(not_told_apart(first, second)) == len(not_told_apart(second, first)) == 1
    assert not_told_apart(first, told(0, 0, 0, undefined=30)) == []
    # Here `undefined` alone is rarer in one than in the other.
    many, few = told(60, 60, 60), told(51, 51, 51, undefined=27)
    assert not_told_apart(many, few) == not_told_apart(few, many) == []


def test_quantiles_are_values_that_were_seen() -> None:
    """Of four values the largest is the 0.975 quantile, and the second the middle one."""
    spread = Spread(MetricRef("x"), (4.0, 1.0, 3.0, 2.0), 4, {}, (0.0, math.inf))
    assert spread.quantiles == (1.0, 1.0, 2.0, 3.0, 4.0)


def test_the_interval_of_a_mean_stays_where_a_mean_can_be() -> None:
    """One hang in fifteen plays: Student's interval goes below 0, what is shown does not."""
    values = (0.0,) * 14 + (1.0,)
    free = Spread(MetricRef("x"), values, 15, {}, (-math.inf, math.inf)).interval
    clipped = Spread(MetricRef("x"), values, 15, {}, (0.0, math.inf)).interval
    assert free is not None
    assert free[0] == pytest.approx(-0.0763, abs=1e-4)
    assert clipped == (0.0, free[1])
    high = Spread(MetricRef("x"), tuple(1 - v for v in values), 15, {}, (0.0, 1.0)).interval
    assert high is not None
    assert high[1] == 1.0


def test_an_interval_is_never_upside_down() -> None:
    """Whatever a metric is said to be able to be, the mean that was seen lies in its interval."""
    for values in ((1.1, 1.2, 1.4), (-0.5, -0.4, -0.4)):
        spread = Spread(MetricRef("x"), values, 3, {}, (0.0, 1.0))
        assert spread.interval is not None
        assert spread.mean is not None
        assert spread.interval[0] <= spread.mean <= spread.interval[1]


@pytest.mark.parametrize(
    ("values", "why"),
    [((), "no value"), ((5.0,), "one value"), ((5.0, 5.0), "all alike"), ((5.0, 6.0), None)],
)
def test_a_mean_without_an_interval_says_why(values: tuple[float, ...], why: str | None) -> None:
    """The reason is typed, in the JSON and beside the mean; no method is named for nothing."""
    ref = MetricRef("x")
    claimed = [Metric(ref, v, "items", "m") for v in values]
    claimed = claimed or [Metric(ref, None, "items", "m", undefined="nothing_scored")]
    outcome = ClaimOutcome("agree", "band", "x in 1..2", "inside")
    verdict = Verdict("PASS", "PASS", (outcome,), ())
    plays = tuple(Play(verdict, {ref: m}, 1, 0) for m in claimed)
    found = Rehearsal("x", "t", 1, len(plays), 1, (Scenario({}, (), (), plays, {}),))
    (told,) = as_json(found)["scenarios"][0]["metrics"]
    assert told["no_mean_interval"] == why
    assert (told["mean_interval"] is None) == (told["mean_method"] is None) == (why is not None)
    assert told["quantile_method"] == "inverted_cdf"
    out = io.StringIO()
    Console(file=out, width=160).print(render(found))
    assert (f"5 ({why})" in out.getvalue()) == (why in ("one value", "all alike"))
