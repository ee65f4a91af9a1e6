"""Numbers as text: each with its n, its interval and its method, or the reason for having none."""

from __future__ import annotations

from prereg_judge.report.numbers import chance, figures, number, observed, of_things, plain
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
