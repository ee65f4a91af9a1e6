"""What the studies of annotator tables share: checking references, and bootstrapped metrics.

Knows neither pools nor models; what a metric means is for the study to say.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from prereg_judge.shaping import Decoding
from prereg_judge.stats.resample import MOST_UNDEFINED, percentile_interval
from prereg_judge.study.counted import LEVEL, limit_of, not_computed, wrong_names
from prereg_judge.study.expected import AgreementCurve
from prereg_judge.study.metric import Catalogue, Interval, Metric, MetricRef, MetricSpec
from prereg_judge.study.outcomes import Resampling, StudyInput, TableInput
from prereg_judge.study.pools_view import SUBSETS, keys_of

# Parameters that say which items are looked at.
VIEW = ("key", "subset")

# Makes a metric whose name and parameters stand up; parameters by name.
Maker = Callable[[MetricRef, MetricSpec, Mapping[str, str]], Metric]

# The most models of an imagined board; beyond it a simulation takes minutes and says 1.
MOST_MODELS = 1_000

NO_BOOTSTRAP = "no bootstrap is registered, so there is no interval"


def count_and_rate(
    stem: str, what: str, *, required: tuple[str, ...] = (), optional: tuple[str, ...] = ()
) -> tuple[MetricSpec, MetricSpec]:
    """The catalogue's lines of a count of items and of their share."""
    return (
        MetricSpec(f"{stem}.count", what, "items", required, optional, (0, "items")),
        MetricSpec(f"{stem}.rate", what, "share", required, optional, (0, 1)),
    )


def table_catalogue(study: str, specs: Iterable[MetricSpec]) -> Catalogue:
    """A catalogue of exactly these metrics: a table has no item sets and no calls."""
    return Catalogue(study, {spec.name: spec for spec in specs})


def wrong_values(params: Mapping[str, str], values: Mapping[str, Sequence[str]]) -> str | None:
    """What is wrong with the values of parameters, as words; None where nothing is.

    Parameters
    ----------
    params
        The parameters that were given, by name.
    values
        The values that a parameter can have; one that is not named here can have any, except
        `models`, which is a whole number from 2 to `MOST_MODELS`.
    """
    for name, value in params.items():
        if name == "models" and not _is_board_size(value):
            return f"models={value} is not a whole number from 2 to {MOST_MODELS}"
        if name in values and value not in values[name]:
            known = ", ".join(values[name]) or "none"
            return f"there is no {name}={value} (there is: {known})"
    return None


def _is_board_size(value: str) -> bool:
    whole = value.isascii() and value.isdigit() and value == value.lstrip("0")
    return whole and len(value) <= len(str(MOST_MODELS)) and 2 <= int(value) <= MOST_MODELS


def table_metric(
    ref: MetricRef,
    *,
    specs: Mapping[str, MetricSpec],
    values: Mapping[str, Sequence[str]],
    make: Maker,
) -> Metric:
    """One metric of a study of tables, with a value or a typed reason for having none.

    `not_computed`: the study has no such metric, or not with these parameters. A limit
    (`.ci_low`, `.ci_high`) is as undefined as its metric.
    """
    if ref.base != ref:
        return limit_of(ref, table_metric(ref.base, specs=specs, values=values, make=make))
    spec = specs.get(ref.name)
    if spec is None:
        return not_computed(ref, note="not in the catalogue")
    params = dict(ref.params)
    wrong = wrong_names(ref, spec) or wrong_values(params, values)
    return make(ref, spec, params) if wrong is None else not_computed(ref, note=wrong)


def view_parameters(table: TableInput) -> dict[str, tuple[str, ...]]:
    """The values of `key` and `subset`, which every study of tables takes."""
    return {"key": keys_of(table), "subset": SUBSETS}


def bootstrapped(
    ref: MetricRef,
    spec: MetricSpec,
    *,
    value: float,
    draws: NDArray[np.float64] | None,
    resampling: Resampling | None,
    n: int,
    k: int | None = None,
    notes: Sequence[str | None] = (),
    same: str | None = None,
    least: tuple[float, float] | None = None,
) -> Metric:
    """A metric that is no share of independent items, with its percentile interval.

    Parameters
    ----------
    ref, spec
        What the metric is, and its line in the catalogue.
    value
        The estimate.
    draws
        The same statistic in each resample, shape (R,), NaN where it is undefined; None where
        nothing was resampled.
    resampling
        The registered bootstrap.
    n, k
        What the value counts over, and how many of them where it is a share or a count.
    notes
        What a reader should know beside the number; None entries are left out.
    same
        What it means that every resample gives the same value, as a clause.
    least
        Limits that the interval is not inside of (`stats.sparse`), and its limits where the
        bootstrap collapses.

    Returns
    -------
    Metric
        Without an interval, and with a note saying why, where no bootstrap is registered, more
        than 5% of the resamples are undefined, or all give the same value and `least` is not
        given or does not hold it.
    """
    said = [note for note in notes if note]
    interval = None
    if draws is None or resampling is None:
        said.append(NO_BOOTSTRAP)
    else:
        found = percentile_interval(draws, level=LEVEL)
        undefined = int(np.isnan(draws).sum())
        of = f"{resampling.resamples} resamples"
        if found is not None:
            interval = Interval(found.low, found.high, LEVEL, method_words(resampling))
            interval = widened(interval, least, value=value)
        elif least is not None and least[0] <= value <= least[1]:
            interval = Interval(*least, LEVEL, ALIKE)
        elif undefined <= MOST_UNDEFINED * len(draws):
            all_of = f"{len(draws) - undefined} defined resamples" if undefined else of
            said.append(
                f"{same or 'the value was the same'} in all {all_of}, so there is no interval"
            )
        if undefined:
            tail = ", so there is no interval" if undefined > MOST_UNDEFINED * len(draws) else ""
            said.append(f"undefined in {undefined} of {of}{'' if interval else tail}")
        if interval is not None and not interval.low <= value <= interval.high:
            said.append("resampling shifts this statistic: the value lies outside its interval")
    note = "; ".join(said) or None
    return Metric(ref, value, spec.unit, spec.summary, k=k, n=n, interval=interval, note=note)


# Method of an interval where every item gives the same value.
ALIKE = "wilson on items, all alike"


def widened(interval: Interval, least: tuple[float, float] | None, *, value: float) -> Interval:
    """The interval united with limits that it is not to be inside of; its method says so.

    Only while the value itself lies within them: beyond that, enough items differ to show how much
    they vary.
    """
    if least is None or not least[0] <= value <= least[1]:
        return interval
    if interval.low <= least[0] and interval.high >= least[1]:
        return interval
    low, high = min(interval.low, least[0]), max(interval.high, least[1])
    method = f"{interval.method}, widened to what items all alike would allow"
    return Interval(low, high, interval.level, method)


def method_words(resampling: Resampling) -> str:
    """The method of a percentile interval over resampled items."""
    within = " within strata" if resampling.by_stratum else ""
    return (
        f"percentile bootstrap over items{within}, {resampling.resamples} resamples, "
        f"seed {resampling.seed}"
    )


def joined(*notes: str | None) -> str | None:
    """Clauses as one note; None where there is none."""
    return "; ".join(note for note in notes if note) or None


@dataclass(frozen=True)
class Asked:
    """An input, equal to another where the same sums can be made of both.

    What a score shows is asked for in several steps, and drawing resamples is most of the work: by
    this a study keeps what it has summed from one step to the next.

    Attributes
    ----------
    of
        The part of the input that is looked at.
    resampling
        The registered bootstrap.
    data
        The input itself.
    """

    of: Hashable
    resampling: Resampling | None
    data: StudyInput = field(compare=False, repr=False)


def no_words(*, decoding: Decoding, passes: int) -> list[str]:
    """What a protocol cannot show: nothing, since a table of votes is not drawn in passes."""
    del decoding, passes
    return []


def no_curves(data: StudyInput) -> tuple[AgreementCurve, ...]:
    """Curves over temperatures: none, since nothing is drawn."""
    del data
    return ()
