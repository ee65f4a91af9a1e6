"""The catalogue of study `reference-swap`: every metric that may be registered."""

from __future__ import annotations

from collections.abc import Iterator

from prereg_judge.study.metric import MetricSpec

_ROWS = ("stratum", "subset", "duplicates")
_VIEW = ("match", *_ROWS)
_PAIR = ("output", "other")


def _tested(spec: MetricSpec, *, adjusted: str = "bootstrap") -> Iterator[MetricSpec]:
    """A difference, its p-value and its p-value within the registered family."""
    what = f"two-sided {adjusted} p-value of {spec.name}"
    yield spec
    for name, words in (
        ("p", what),
        ("p_holm", f"{what}, adjusted by Holm over the registered family"),
    ):
        yield MetricSpec(
            f"{spec.name}.{name}", words, "probability", spec.required, spec.optional, (0, 1)
        )


SPECS = (
    MetricSpec(
        "items.count",
        "rows that are scored: every output and every reference is given",
        "items",
        optional=_ROWS,
        domain=(0, "items"),
    ),
    MetricSpec(
        "f1",
        "micro-F1 of an output under a reference: twice the shared marks through all marks of both",
        "F1",
        required=("output", "reference"),
        optional=_VIEW,
        domain=(0, 1),
    ),
    *_tested(
        MetricSpec(
            "delta",
            "F1 of an output under the delivered reference minus its F1 under an alternative",
            "F1",
            required=("output",),
            optional=("reference", *_VIEW),
            domain=(-1, 1),
        )
    ),
    *_tested(
        MetricSpec(
            "margin",
            "F1 of an output minus F1 of another under the same reference",
            "F1",
            required=("reference",),
            optional=(*_PAIR, *_VIEW),
            domain=(-1, 1),
        )
    ),
    *_tested(
        MetricSpec(
            "interaction",
            "margin under the delivered reference minus the margin under an alternative",
            "F1",
            optional=(*_PAIR, "reference", *_VIEW),
            domain=(-2, 2),
        )
    ),
    MetricSpec(
        "reversals.count",
        "pairs of outputs whose margins have opposite signs under delivered and alternative",
        "pairs",
        optional=("reference", *_VIEW),
    ),
    MetricSpec(
        "reversals.clear.count",
        "reversals of which both margins are significant at 0.05",
        "pairs",
        optional=("reference", *_VIEW),
    ),
    MetricSpec(
        "exact.count",
        "rows on which output and reference have exactly the same marks, or none both",
        "items",
        required=("output", "reference"),
        optional=_VIEW,
        domain=(0, "items"),
    ),
    MetricSpec(
        "exact.rate",
        "rows on which output and reference have exactly the same marks, or none both",
        "share",
        required=("output", "reference"),
        optional=_VIEW,
        domain=(0, 1),
    ),
    *_tested(
        MetricSpec(
            "skew",
            "share of rows on which the reference equals an output minus that of another output",
            "share",
            required=("reference",),
            optional=(*_PAIR, *_VIEW),
            domain=(-1, 1),
        ),
        adjusted="exact paired",
    ),
    MetricSpec(
        "band.width",
        "reference-sensitivity band: upper limit of the 95% interval of the largest delta, "
        "whatever its sign",
        "F1",
        optional=("output", *_VIEW),
        domain=(0, 1),
    ),
    MetricSpec(
        "band.margins.count",
        "margins of two outputs under a reference that are no larger than the band is wide",
        "margins",
        optional=_VIEW,
    ),
    MetricSpec(
        "spread",
        "largest minus smallest F1 of an output over all other labellings as reference",
        "F1",
        required=("output",),
        optional=_VIEW,
        domain=(0, 1),
    ),
    MetricSpec(
        "merge.gain",
        "F1 by coarse types minus F1 by fine types",
        "F1",
        required=("output", "reference"),
        domain=(-1, 1),
    ),
    MetricSpec(
        "merge.hidden.count",
        "marks at the same place with different types that the map makes the same",
        "pairs",
        required=("output", "reference"),
    ),
    MetricSpec(
        "merge.hidden.rate",
        "share of the marks at the same place with different types that the map makes the same",
        "share",
        required=("output", "reference"),
        domain=(0, 1),
    ),
)
BY_NAME = {spec.name: spec for spec in SPECS}
