"""Value types shared by every study: metric references, metrics, catalogues.

Knows nothing of files, engines or registrations. A study turns outcomes into `Metric` values;
a claim is evaluated against them by `verdict`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Unit = Literal[
    "items",
    "share",
    "calls",
    "trials",
    "attempts",
    "seconds",
    "rows",
    "groups",
    "probability",
    "votes",
    "models",
    "pairs",
    "correlation",
    "F1",
    "coefficient",
    "bits",
    "distance",
    "margins",
]

# Why a metric has no value. Shown to the reader together with `Metric.note`.
Undefined = Literal[
    "no_items",  # the set is not part of the run, or no row has that kind or stratum
    "nothing_scored",  # no trial of the set has a verdict
    "empty_denominator",  # nothing to divide by, e.g. no row had that verdict
    "missing_verdict",  # a trial has no verdict and the registration says `missing: undefined`
    "no_labels",  # a row carries no known label
    "single_pass",  # the comparison needs a second pass
    "no_probabilities",  # the calls did not give the probabilities that the metric is made of
    "one_order",  # the comparison needs both orders of a pair
    "no_sides",  # the labels do not say which of two answers is better
    "no_gap",  # no quality gap is known for the items
    "too_few_items",  # fewer items than the statistic needs
    "too_few_models",  # a ranking needs two models
    "all_tied",  # every model has the same score, so there is no order
    "no_types",  # marks without types cannot be told apart by type
    "no_order",  # no order of the labels, or no numbers for them, is registered
    "no_adjudication",  # no file of an adjudicator's labels is registered
    "one_label",  # every rating with a partner is one label: chance alone would agree as well
    "single_annotator",  # no item has ratings of two annotators
    "not_in_family",  # the test is not in the registered family
    "not_connected",  # some models never lose to, or never meet, the others
    "too_few_resamples",  # the statistic is undefined in most resamples
    "not_computed",  # the study does not give this metric for these records
]


@dataclass(frozen=True)
class MetricRef:
    """The name of a metric and its parameters, e.g. `sentinel.flips.rate[verdict=KEEP]`.

    Attributes
    ----------
    name
        Dotted name as the catalogue lists it, optionally followed by `.ci_low` or `.ci_high`.
    params
        Sorted (parameter, value) pairs; values are kept as text.
    """

    name: str
    params: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, name: str, **params: object) -> MetricRef:
        """Build a reference from keyword parameters (`pass_` stands for `pass`)."""
        pairs = ((k.rstrip("_"), str(v)) for k, v in params.items() if v is not None)
        return cls(name, tuple(sorted(pairs)))

    @property
    def base(self) -> MetricRef:
        """The reference without a trailing `.ci_low` or `.ci_high`."""
        return MetricRef(re.sub(r"\.ci_(low|high)$", "", self.name), self.params)

    def __str__(self) -> str:
        if not self.params:
            return self.name
        return f"{self.name}[{','.join(f'{k}={v}' for k, v in self.params)}]"


# How the method of an interval ends that is about what would be observed, given a known value.
OF_OBSERVATIONS = "range of the observed"


@dataclass(frozen=True)
class Interval:
    """An observed interval (never a registered band): limits, level and the method's name."""

    low: float
    high: float
    level: float
    method: str

    @property
    def of_value(self) -> bool:
        """Whether it says where the value may lie, not where observations of it would fall."""
        return not self.method.endswith(OF_OBSERVATIONS)


@dataclass(frozen=True)
class Metric:
    """One named, typed result.

    Attributes
    ----------
    ref
        What it is.
    value
        The number, or None where it is undefined.
    unit
        What the number counts.
    k, n
        Numerator and denominator where the metric is a count out of n or a share.
    interval
        Interval of `value` on the scale of `value`, where one is defined.
    method
        How the value was made, in words.
    undefined
        The typed reason why there is no value; None where there is one.
    note
        What a reader should know beside the number (how many trials had no verdict, ...).
    """

    ref: MetricRef
    value: float | None
    unit: Unit
    method: str
    k: int | None = None
    n: int | None = None
    interval: Interval | None = None
    undefined: Undefined | None = None
    note: str | None = None

    def __post_init__(self) -> None:
        if (self.value is None) == (self.undefined is None):
            raise ValueError(f"{self.ref}: exactly one of value and undefined")


@dataclass(frozen=True)
class MetricSpec:
    """One line of a study's catalogue: what may be registered.

    Attributes
    ----------
    name
        Dotted name with `{set}` where the item set's role goes.
    summary
        One sentence, shown by `prereg metrics`.
    unit
        Unit of the value.
    required, optional
        Names of parameters that must or may be given.
    domain
        Smallest and largest value that the metric can take; None = no upper limit known before
        the run; the word `items` = the number of items in the set (after `kind`/`stratum`).
    live
        Whether a stop rule may use it while the run goes on.
    """

    name: str
    summary: str
    unit: Unit
    required: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()
    domain: tuple[float, float | Literal["items"] | None] = (0.0, None)
    live: bool = False


@dataclass(frozen=True)
class Catalogue:
    """Every metric of a study, by name (with `{set}` already filled in)."""

    study: str
    specs: Mapping[str, MetricSpec] = field(default_factory=dict)

    def nearest(self, name: str, *, most: int = 3) -> list[str]:
        """The catalogue's names most like `name`, best first."""
        import difflib

        return difflib.get_close_matches(name, list(self.specs), n=most, cutoff=0.4)
