"""Metrics of the calls themselves: hangs, crashes, retries, seconds.

Says which calls a `calls.*` metric counts, once, for the score after a run and for the stop
rules during one. Knows nothing of verdicts beyond whether a call gave one.
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from prereg_judge.stats.location import mean_interval, median_interval
from prereg_judge.study.counted import LEVEL, counted, is_rate, not_computed, undefined_metric
from prereg_judge.study.metric import Interval, Metric, MetricRef, MetricSpec
from prereg_judge.study.outcomes import CallView, StudyInput
from prereg_judge.study.rows import planned_trials, scored_trials
from prereg_judge.words import UNSCORED, Unscored

# The part of the name -> the reason it counts, and what that reason means.
_REASONS: dict[str, tuple[Unscored, str]] = {
    "hangs": ("hang", "gave no answer within the registered time"),
    "crashes": ("crash", "ended with the worker dead or with numbers that are not finite"),
    "caps": ("cap", "reached the token cap before the reply was complete"),
    "runaways": ("runaway", "repeated themselves until the token cap was reached"),
    "thinking_caps": ("thinking_cap", "reached the cap of the thinking before the reply"),
    "unreadable": ("unreadable", "gave a reply that is not the JSON that was asked for"),
    "off_menu": ("off_menu", "named a verdict that is not on the list"),
}
_ATTEMPT = "Every attempt is a call: a retry counts again."


def _specs() -> tuple[MetricSpec, ...]:
    specs = [
        MetricSpec("calls.count", f"Calls made. {_ATTEMPT}", "calls", live=True),
        MetricSpec(
            "calls.unscored",
            f"Calls without a verdict, for `reason` or for any. {_ATTEMPT}",
            "calls",
            optional=("reason",),
            live=True,
        ),
        MetricSpec(
            "calls.unscored.rate",
            f"Share of the calls without a verdict, for `reason` or for any. {_ATTEMPT}",
            "share",
            optional=("reason",),
            domain=(0.0, 1.0),
            live=True,
        ),
        MetricSpec(
            "calls.unscored_trials",
            "Trials without a verdict after their last attempt, or never run, of all planned.",
            "trials",
        ),
        MetricSpec(
            "calls.batches_lost",
            "Groups of calls that hung or crashed as a whole; their calls were made again one by "
            "one and only those are counted as calls. n is the number of calls.",
            "groups",
        ),
        MetricSpec(
            "calls.retries", "Calls beyond the first of their trial, of all calls.", "calls"
        ),
        MetricSpec(
            "calls.attempts_per_trial",
            "Largest number of attempts that any one trial took.",
            "attempts",
            domain=(1.0, None),
        ),
        MetricSpec("calls.seconds.median", "Median duration of a call.", "seconds"),
        MetricSpec("calls.seconds.mean", "Mean duration of a call.", "seconds"),
        MetricSpec("calls.seconds.max", "Duration of the longest call.", "seconds"),
    ]
    for part, (_, words) in _REASONS.items():
        specs += [
            MetricSpec(f"calls.{part}", f"Calls that {words}. {_ATTEMPT}", "calls", live=True),
            MetricSpec(
                f"calls.{part}.rate",
                f"Share of the calls that {words}. {_ATTEMPT}",
                "share",
                domain=(0.0, 1.0),
                live=True,
            ),
        ]
    return tuple(specs)


CALL_SPECS: dict[str, MetricSpec] = {spec.name: spec for spec in _specs()}


@dataclass(frozen=True)
class CallCount:
    """What a live metric counts.

    Attributes
    ----------
    matches
        Whether a call is counted.
    rate
        Whether the count is divided by the number of calls looked at.
    """

    matches: Callable[[CallView], bool]
    rate: bool

    def value(self, k: int, n: int) -> float:
        """The metric's value for `k` counted among `n` >= 1 calls."""
        return k / n if self.rate else float(k)


def _with_reason(reason: str) -> Callable[[CallView], bool]:
    return lambda call: call.unscored == reason


def call_count(ref: MetricRef) -> CallCount | None:
    """What a `calls.*` metric counts, or None where it is not a count that a stop rule may use.

    Parameters
    ----------
    ref
        A reference without `.ci_low` or `.ci_high`.

    Returns
    -------
    CallCount or None
        None for a name that is not live, for parameters that the metric does not take, and for
        a `reason` that is not on the closed list.
    """
    spec = CALL_SPECS.get(ref.name)
    params = dict(ref.params)
    if spec is None or not spec.live or not set(params) <= set(spec.optional):
        return None
    rate = is_rate(ref.name)
    part = ref.name.removesuffix(".rate").removeprefix("calls.")
    if part == "count":
        return CallCount(lambda _call: True, rate)
    if part == "unscored":
        reason = params.get("reason")
        if reason is None:
            return CallCount(lambda call: call.unscored is not None, rate)
        return CallCount(_with_reason(reason), rate) if reason in UNSCORED else None
    return CallCount(_with_reason(_REASONS[part][0]), rate)


def count_reason(ref: MetricRef) -> str | None:
    """The reason for having no verdict that a `calls.*` count is about, None for any or none."""
    part = ref.name.removesuffix(".rate").removeprefix("calls.")
    return _REASONS[part][0] if part in _REASONS else dict(ref.params).get("reason")


def call_metric(data: StudyInput, ref: MetricRef) -> Metric:
    """One `calls.*` metric over all attempts of a run.

    Parameters
    ----------
    data
        The run.
    ref
        A reference without `.ci_low` or `.ci_high`.

    Returns
    -------
    Metric
        A count k of the n attempts with n times the Wilson interval; a share with the Wilson
        interval; for seconds the interval of `stats.location`, and none for a maximum or for the
        plain number of calls, nor for groups lost (how many groups there were is not known).
        Undefined: `empty_denominator` when no call was made,
        `not_computed` for a name or parameter that is not in the catalogue. When every call
        failed the counts still have their values: that is what happened. It is `verdict` that
        never passes a run without a verdict in it.
    """
    spec = CALL_SPECS.get(ref.name)
    if spec is None or not set(dict(ref.params)) <= set(spec.optional):
        return not_computed(ref, note="not in the catalogue")
    if ref.name == "calls.unscored_trials":
        n = planned_trials(data)
        note = None if n else "no trial was planned"
        return counted(ref, spec, k=n - scored_trials(data), n=n, note=note)
    if not data.calls:
        return undefined_metric(ref, spec, reason="empty_denominator", note="no call was made", n=0)
    n = len(data.calls)
    per_trial = Counter(call.trial for call in data.calls)
    match ref.name:
        case "calls.count":
            return Metric(ref, float(n), spec.unit, spec.summary, k=n, n=n)
        case "calls.batches_lost":
            return Metric(ref, float(data.batches_lost), spec.unit, spec.summary, n=n)
        case "calls.retries":
            return counted(ref, spec, k=n - len(per_trial), n=n)
        case "calls.attempts_per_trial":
            most = max(per_trial.values())
            return Metric(ref, float(most), spec.unit, spec.summary, n=len(per_trial))
        case "calls.seconds.median" | "calls.seconds.mean" | "calls.seconds.max":
            cut = sum(call.unscored == "hang" for call in data.calls)
            return _seconds(ref, spec, [call.seconds for call in data.calls], cut=cut)
    count = call_count(ref)
    if count is None:
        return not_computed(ref, note=f"reason is none of {', '.join(UNSCORED)}")
    return counted(ref, spec, k=sum(map(count.matches, data.calls)), n=n)


def call_refs(data: StudyInput) -> Iterator[MetricRef]:
    """Every metric of calls that a report shows: also of each reason that some call had."""
    for name, spec in CALL_SPECS.items():
        if not spec.optional:
            yield MetricRef.of(name)
    yield MetricRef.of("calls.unscored")
    yield MetricRef.of("calls.unscored.rate")
    for reason in sorted({call.unscored for call in data.calls if call.unscored is not None}):
        yield MetricRef.of("calls.unscored", reason=reason)


def _seconds(ref: MetricRef, spec: MetricSpec, seconds: list[float], *, cut: int) -> Metric:
    """A summary of durations; `cut` of them ended at the time-out and were longer in truth."""
    limits: tuple[float, float] | None = None
    method = ""
    match ref.name.rpartition(".")[2]:
        case "median":
            value, method = statistics.median(seconds), "order statistics"
            limits = median_interval(seconds, level=LEVEL)
        case "mean":
            value, method = statistics.fmean(seconds), "t"
            limits = mean_interval(seconds, level=LEVEL) if not cut else None
        case _:
            value = max(seconds)
    interval = Interval(*limits, LEVEL, method) if limits else None
    note = f"{cut} of {len(seconds)} ended at the time-out" if cut else None
    return Metric(ref, value, spec.unit, spec.summary, n=len(seconds), interval=interval, note=note)
