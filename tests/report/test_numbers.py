"""Numbers as text: each with its n, its interval and its method, or the reason for having none."""

from __future__ import annotations

from prereg_judge.report.numbers import number, observed
from prereg_judge.study.metric import Interval, Metric, MetricRef

WILSON = Interval(0.6095, 0.8124, 0.95, "wilson")


def test_a_share_shows_k_n_value_interval_level_and_method() -> None:
    """The published 52 of 72 reads as one line."""
    metric = Metric(MetricRef("x.rate"), 52 / 72, "share", "m", k=52, n=72, interval=WILSON)
    assert observed(metric) == "52/72 = 0.7222 [0.6095, 0.8124] 95% Wilson"


def test_a_limit_is_not_shown_as_the_share_itself() -> None:
    """`.ci_high` names the limit and the share that it belongs to."""
    metric = Metric(MetricRef("x.rate.ci_high"), 0.8124, "share", "m", k=52, n=72)
    assert observed(metric) == "0.8124, the upper limit of 52/72"


def test_a_time_shows_its_unit_and_n() -> None:
    """A median of seconds is not 'of n'."""
    shown = Interval(0.28, 0.3, 0.95, "order statistics")
    metric = Metric(MetricRef("calls.seconds.median"), 0.29, "seconds", "m", n=144, interval=shown)
    assert observed(metric) == "0.29 seconds (n = 144) [0.28, 0.3] 95% order statistics"


def test_an_undefined_metric_shows_its_reason_and_no_number() -> None:
    """No 0 and no NaN stands where there is nothing."""
    metric = Metric(MetricRef("x"), None, "items", "m", undefined="nothing_scored")
    assert observed(metric) == "undefined: no trial has a verdict"


def test_numbers_are_never_written_as_powers() -> None:
    """Small and large values read as decimals."""
    assert [number(x) for x in (72.0, 0.00012, 1.5, 63.39, 0.0)] == [
        "72", "0.0001", "1.50", "63.39", "0",
    ]  # fmt: skip
