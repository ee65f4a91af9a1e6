"""Builds `Metric` values that are counts or shares, with their intervals.

Knows nothing of rows or calls; every study uses it, so that a count means the same everywhere.
"""

from __future__ import annotations

from prereg_judge.stats.proportions import wilson_interval
from prereg_judge.study.metric import Interval, Metric, MetricRef, MetricSpec, Undefined

# Level of every interval that a study reports.
LEVEL = 0.95


def is_rate(name: str) -> bool:
    """Whether a metric of this name is a share rather than a count."""
    return name.endswith(".rate")


def undefined_metric(
    ref: MetricRef,
    spec: MetricSpec,
    *,
    reason: Undefined,
    note: str | None = None,
    n: int | None = None,
) -> Metric:
    """A metric without a value, with the typed reason and what a reader should know."""
    return Metric(ref, None, spec.unit, spec.summary, n=n, undefined=reason, note=note)


def counted(ref: MetricRef, spec: MetricSpec, *, k: int, n: int, note: str | None = None) -> Metric:
    """A count `k` out of `n` (or, for a name ending in `.rate`, the share k / n).

    Parameters
    ----------
    ref
        What the metric is.
    spec
        Its line in the catalogue; gives unit and method.
    k, n
        Numerator and denominator, 0 <= k <= n.
    note
        What a reader should know beside the number.

    Returns
    -------
    Metric
        With the Wilson interval at `LEVEL`; for a count both limits are multiplied by n. With
        n = 0 it is undefined, `empty_denominator`.
    """
    if n == 0:
        return undefined_metric(ref, spec, reason="empty_denominator", note=note, n=0)
    low, high = wilson_interval(k, n, level=LEVEL)
    if is_rate(ref.name):
        value, interval = k / n, Interval(low, high, LEVEL, "wilson")
    else:
        value, interval = float(k), Interval(low * n, high * n, LEVEL, "wilson, times n")
    return Metric(ref, value, spec.unit, spec.summary, k=k, n=n, interval=interval, note=note)


def wrong_names(ref: MetricRef, spec: MetricSpec) -> str | None:
    """What is wrong with the names of a reference's parameters, as words; None where nothing is.

    E.g. `tau takes no pool` or `credit.mean needs model`.
    """
    given = dict(ref.params)
    words = [f"takes no {p}" for p in given if p not in (*spec.required, *spec.optional)]
    words += [f"needs {p}" for p in spec.required if p not in given]
    return f"{ref.name} {', '.join(words)}" if words else None


def not_computed(ref: MetricRef, *, note: str) -> Metric:
    """A metric that the study does not give, e.g. for an unknown name or parameter."""
    return Metric(ref, None, "items", "not computed", undefined="not_computed", note=note)


def limit_of(ref: MetricRef, base: Metric) -> Metric:
    """One limit of a metric's interval, as a metric of its own.

    Parameters
    ----------
    ref
        A reference whose name ends in `.ci_low` or `.ci_high`.
    base
        The metric that `ref.base` names.

    Returns
    -------
    Metric
        The limit, without an interval. Undefined for the base's own reason when the base is
        undefined, and `not_computed` when the base has no interval.
    """
    side = "lower" if ref.name.endswith(".ci_low") else "upper"
    method = f"{side} limit of the interval of {base.ref}"
    reason: Undefined | None = base.undefined
    note = base.note
    value = None
    if base.interval is not None:
        value = base.interval.low if side == "lower" else base.interval.high
        method += f" ({base.interval.method}, {base.interval.level:.0%})"
    elif reason is None:
        reason, note = "not_computed", f"{base.ref} has no interval here"
    return Metric(ref, value, base.unit, method, k=base.k, n=base.n, undefined=reason, note=note)
