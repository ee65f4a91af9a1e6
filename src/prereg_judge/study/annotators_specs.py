"""Study `annotators`: its catalogue.

What each metric means and which parameters it takes; how it is computed is for the other modules.
"""

from __future__ import annotations

import math

from prereg_judge.study.metric import MetricSpec, Unit

STUDY = "annotators"

# Whose ratings, of which items, under which labels.
POOLED = ("pool", "stratum")
GROUP = (*POOLED, "labels")

LABELLINGS = ("fine", "coarse")
LEVELS = ("nominal", "ordinal", "interval")
WEIGHTS = ("linear", "quadratic")
POLICIES = ("majority", "adjudicated", "unanimous")

SHARE = (0.0, 1.0)
# From as much against each other as can be, to of one mind.
COEFFICIENT = (-1.0, 1.0)


def _spec(
    name: str,
    summary: str,
    unit: Unit,
    *,
    required: tuple[str, ...] = (),
    optional: tuple[str, ...] = GROUP,
    domain: tuple[float, float | None] = SHARE,
) -> MetricSpec:
    return MetricSpec(name, summary, unit, required, optional, domain)


def _with_chance(
    stem: str,
    what: str,
    *,
    required: tuple[str, ...] = (),
    optional: tuple[str, ...] = GROUP,
    domain: tuple[float, float | None] = COEFFICIENT,
) -> tuple[MetricSpec, ...]:
    """A kappa, and beside it the two shares that it is made of."""
    return (
        _spec(stem, what, "coefficient", required=required, optional=optional, domain=domain),
        _spec(
            f"{stem}.observed",
            f"share of agreement that was observed (P_o), as in {stem}",
            "share",
            required=required,
            optional=optional,
        ),
        _spec(
            f"{stem}.expected",
            f"share of agreement that chance would give (P_e), as in {stem}",
            "share",
            required=required,
            optional=optional,
        ),
    )


_PAIR = ("annotator", "other")

_COUNTS = (
    MetricSpec(
        "items.count",
        "items with two ratings or more",
        "items",
        optional=POOLED,
        domain=(0, "items"),
    ),
    _spec("ratings.count", "ratings", "votes", optional=POOLED, domain=(0, None)),
)

_COEFFICIENTS = (
    _spec("agreement.rate", "pairs of ratings of the same item that agree", "share"),
    *_with_chance(
        "kappa.cohen",
        "Cohen's kappa of two annotators on the items that both rated",
        required=_PAIR,
        optional=("stratum", "labels"),
    ),
    _spec(
        "kappa.weighted",
        "Cohen's kappa of two annotators where near misses count less, by the rank of the labels",
        "coefficient",
        required=(*_PAIR, "weights"),
        optional=("stratum",),
        domain=COEFFICIENT,
    ),
    # Items with one rating count for chance and not for agreement, so there is no lower limit.
    *_with_chance(
        "kappa.fleiss",
        "Fleiss' kappa, for any number of ratings an item",
        domain=(-math.inf, 1.0),
    ),
    _spec(
        "ac1",
        "Gwet's AC1, for any number of ratings an item",
        "coefficient",
        domain=COEFFICIENT,
    ),
    _spec(
        "ac1.expected",
        "share of agreement that chance would give by Gwet's account, as in ac1",
        "share",
    ),
    _spec(
        "alpha",
        "Krippendorff's alpha; at the level `ordinal` or `interval` near misses count less",
        "coefficient",
        required=("level",),
        domain=COEFFICIENT,
    ),
)

_SPANS = (
    _spec(
        "f1",
        "F1 of one annotator's spans against another's, over all pairs of annotators",
        "F1",
        required=("match",),
        optional=POOLED,
    ),
    _spec(
        "f1.pair",
        "F1 of the spans of two annotators on the rows that both marked",
        "F1",
        required=(*_PAIR, "match"),
        optional=("stratum",),
    ),
)

_DISAGREEMENT = (
    _spec(
        "disagreement.share",
        "pairs of ratings that differ in which one of the two is this label",
        "share",
        required=("label",),
    ),
    _spec(
        "disagreement.excess",
        "that share minus the share to be expected if disagreements fell by the labels' "
        "frequencies",
        "share",
        required=("label",),
        domain=(-1.0, 1.0),
    ),
)

_RESOLVED = (
    MetricSpec(
        "resolved.count",
        "items that get a label by this policy",
        "items",
        ("policy",),
        POOLED,
        (0, "items"),
    ),
    MetricSpec(
        "resolved.rate",
        "items that get a label by this policy",
        "share",
        ("policy",),
        POOLED,
        (0, 1),
    ),
    _spec(
        "resolved.share",
        "items with this label among those that get one by this policy",
        "share",
        required=("policy", "label"),
        optional=POOLED,
    ),
    _spec(
        "selection.shift",
        "share of the label among the items on which nobody differs, minus its share of the "
        "ratings over all items, each item alike",
        "share",
        required=("label",),
        optional=POOLED,
        domain=(-1.0, 1.0),
    ),
    _spec(
        "selection.distance",
        "total variation between the labels of the items on which nobody differs and those of "
        "all items",
        "distance",
        optional=POOLED,
    ),
    MetricSpec(
        "adjudication.overturned.count",
        "adjudicated items whose label is not the majority's",
        "items",
        optional=("pool",),
        domain=(0, "items"),
    ),
    MetricSpec(
        "adjudication.overturned.rate",
        "adjudicated items whose label is not the majority's",
        "share",
        optional=("pool",),
        domain=(0, 1),
    ),
)

_SOFT = (
    _spec(
        "soft.entropy",
        "mean entropy of the labels of an item with two ratings or more",
        "bits",
        optional=POOLED,
        domain=(0.0, None),
    ),
    _spec(
        "soft.distance",
        "mean Jensen-Shannon distance of two pools' labels of an item",
        "distance",
        required=("pool", "other"),
        optional=(),
    ),
    _spec(
        "soft.loss",
        "mean Jensen-Shannon distance of an annotator's label to the labels that the others gave "
        "the item",
        "distance",
        required=("annotator",),
        optional=("stratum",),
    ),
)

_MERGE = (
    _spec(
        "merge.gain",
        "agreement of coarse labels minus agreement of fine ones",
        "share",
        optional=POOLED,
    ),
    _spec(
        "merge.hidden.count",
        "pairs of ratings that differ and that the map makes alike",
        "pairs",
        optional=POOLED,
        domain=(0, None),
    ),
    _spec(
        "merge.hidden.rate",
        "pairs of ratings that differ and that the map makes alike, of all that differ",
        "share",
        optional=POOLED,
    ),
)

SPECS = (*_COUNTS, *_COEFFICIENTS, *_SPANS, *_DISAGREEMENT, *_RESOLVED, *_SOFT, *_MERGE)
BY_NAME = {spec.name: spec for spec in SPECS}
