"""Numbers as text: each with its n, its interval and its method, or the reason for having none."""

from __future__ import annotations

from typing import get_args

import pytest

from prereg_judge.report.numbers import (
    chance,
    explained,
    figures,
    number,
    observed,
    of_things,
    plain,
    signed,
)
from prereg_judge.study.metric import Interval, Metric, MetricRef, Undefined

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


def test_what_is_next_to_nothing_keeps_its_sign() -> None:
    """Values too small, or too close to 1, for four decimals say on which side they lie."""
    values = (1e-5, -1e-5, 0.99999, -0.99999, -0.5, -0.0)
    assert [number(x) for x in values] == [
        "<0.0001", ">-0.0001", ">0.9999", "<-0.9999", "-0.5", "0",
    ]  # fmt: skip


def test_only_a_certain_chance_reads_one() -> None:
    """Neither rounding nor the end of a float's digits makes a chance certain or impossible."""
    assert [chance(x) for x in (0.0, 1e-9, 0.0005001, 0.9529, 0.99951, 1.0)] == [
        "0.000", "<0.001", "0.001", "0.953", ">0.999", ">0.999",
    ]  # fmt: skip
    assert chance(1.0, certain=True) == "1.000"


def test_one_thing_is_no_plural() -> None:
    """1 row, 0 rows, 2 rows."""
    assert [of_things(n, "row") for n in (0, 1, 2)] == ["0 rows", "1 row", "2 rows"]


def test_numbers_are_never_written_as_powers() -> None:
    """Small and large values read as decimals."""
    assert [number(x) for x in (72.0, 0.00012, 1.5, 63.39, 0.0)] == [
        "72", "0.0001", "1.50", "63.39", "0",
    ]  # fmt: skip


def test_figures_keep_whole_digits() -> None:
    """Three significant digits, more where the number has more before its point."""
    values = (0.0, 4.975, 56.08, 74.7, 1483.6, 15013.2, 0.00001234, -1483.6, 9.996)
    assert [figures(x) for x in values] == [
        "0", "4.97", "56.1", "74.7", "1484", "15013", "0.0000123", "-1484", "10",
    ]  # fmt: skip
    assert figures(15013.26, 6) == "15013.3"


def test_what_is_compared_gets_the_digits_that_it_takes() -> None:
    """Short of a bar by little reads below it, above by little above; on it, as it."""
    assert [chance(x, beside=0.8) for x in (0.79951, 0.799996, 0.80004, 0.8, 0.7)] == [
        "0.7995", "0.799996", "0.80004", "0.800", "0.700",
    ]  # fmt: skip
    assert chance(0.1 + 0.2, beside=0.3) == "0.300"
    assert [figures(x, beside=0.2) for x in (0.20046, 0.19996, 0.25)] == [
        "0.2005", "0.19996", "0.25",
    ]  # fmt: skip


def test_registered_numbers_keep_their_digits() -> None:
    """As they were written, and never as a power."""
    assert [plain(x) for x in (63, 0.875, 1234567.5, 0.00001, 9.8)] == [
        "63", "0.875", "1234567.5", "0.00001", "9.8",
    ]  # fmt: skip


def test_a_difference_shows_its_sign_and_its_intervals_ends_too() -> None:
    """Which way a judge leans is not left to the eye; what is 0 has no sign."""
    boot = Interval(
        -0.2188, 0.0312, 0.95, "percentile bootstrap over items, 2000 resamples, seed 7"
    )
    lean = Metric(MetricRef("lean.difference"), 0.0938, "share", "m", n=64, interval=boot)
    assert observed(lean) == "+0.0938 (n = 64) [-0.2188, +0.0312] 95% bootstrap"
    low = Metric(MetricRef("lean.difference.ci_high"), 0.0312, "share", "m", n=64)
    assert observed(low) == "+0.0312, the upper limit"
    tau = Metric(MetricRef("tau"), 1.0, "correlation", "m", n=200)
    assert observed(tau) == "+1 (n = 200)"
    assert [signed(x) for x in (0.0, -0.5, 1e-5, -1e-5)] == ["0", "-0.5", "<0.0001", ">-0.0001"]


def test_a_bootstrap_is_named_and_the_heading_says_how_it_was_drawn() -> None:
    """Strata stay beside the number; other methods are told whole."""
    ends = {
        "percentile bootstrap over items within strata, 200 resamples": "bootstrap within strata",
        "percentile bootstrap over items, 200 resamples, seed 7": "bootstrap",
        "wilson on 12 items": "Wilson on 12 items",
        "wilson, error of 200 simulations alone": "Wilson, error of 200 simulations alone",
    }
    for method, end in ends.items():
        shown = Interval(0.1, 0.2, 0.95, method)
        metric = Metric(MetricRef("x.rate"), 0.15, "share", "m", n=20, interval=shown)
        assert observed(metric) == f"0.15 (n = 20) [0.1, 0.2] 95% {end}"


def test_a_p_value_shows_how_many_went_each_way() -> None:
    """14 of 16 that moved is 14 against 2; a tiny one is not 0."""
    metric = Metric(MetricRef("real.order.bias.p"), 0.0042, "probability", "m", k=14, n=16)
    assert observed(metric) == "p = 0.0042 (14 against 2)"
    tiny = Metric(MetricRef("lean.sign_test.p"), 1e-9, "probability", "m", k=90, n=90)
    assert observed(tiny) == "p <0.0001 (90 against 0)"


def test_models_items_and_chances_show_what_they_are_out_of() -> None:
    """Each unit reads as what it counts."""
    made = [
        Metric(MetricRef("displaced.count"), 2.0, "models", "m", k=2, n=6),
        Metric(MetricRef("items.count"), 246.0, "items", "m", k=246, n=2396),
        Metric(MetricRef("displacement.bootstrap"), 0.49, "probability", "m", k=980, n=2000),
        Metric(MetricRef("swap.probability"), 0.38, "probability", "m", n=246),
    ]
    assert [observed(m) for m in made] == [
        "2 of 6 models", "246 of 2396 items", "980/2000 = 0.49", "0.38 (n = 246)",
    ]  # fmt: skip


def test_a_number_is_not_shown_without_what_limits_it() -> None:
    """Why there is no interval and what was left out stand beside a number, other notes do not."""
    why = "undefined in 332 of 1000 resamples, so there is no interval"
    out = "2 of 9 items left out: a pool is equally split"
    metric = Metric(MetricRef("tau"), 0.5, "correlation", "m", n=7, note=f"6 models; {why}; {out}")
    assert explained(metric) == f"+0.5 (n = 7); {why}; {out}"
    shown = Interval(0.1, 0.9, 0.95, "wilson")
    told = "undefined in 3 of 1000 resamples"
    sure = Metric(MetricRef("x"), 0.5, "share", "m", n=7, interval=shown, note=told)
    assert explained(sure) == observed(sure)
    none = Metric(MetricRef("x"), None, "share", "m", undefined="no_items", note=out)
    assert explained(none) == f"undefined: {out}"


def test_a_place_names_its_two_models() -> None:
    """The number of a place alone does not say who stands there."""
    ref = MetricRef.of("gap.adjacent", place=1)
    gap = Metric(ref, 0.25, "share", "m", n=7, note="no interval: why; y above x; more")
    assert explained(gap) == "0.25 (n = 7); y above x; no interval: why"


@pytest.mark.parametrize("reason", get_args(Undefined))
def test_every_reason_for_having_no_value_has_words(reason: Undefined) -> None:
    """No reader is shown a name from the code."""
    shown = observed(Metric(MetricRef("x"), None, "items", "m", undefined=reason))
    assert shown.startswith("undefined: ")
    assert "_" not in shown
    assert len(shown.split()) > 2
