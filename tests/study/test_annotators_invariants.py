"""The study `annotators`: what must not change a coefficient."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prereg_judge.ratings import Ratings
from prereg_judge.study import annotators
from prereg_judge.study.metric import MetricRef
from study.annotators_made import asked, rated

LABELS = "abc"
TABLES = st.lists(st.text("abc.", min_size=4, max_size=4), min_size=1, max_size=12)
POOLS = {"one": range(2), "two": range(2, 4)}
PAIR = {"annotator": "n0", "other": "n1"}

NOMINAL = [
    MetricRef.of(name, **params)
    for name, params in (
        ("agreement.rate", {}), ("kappa.fleiss", {}), ("kappa.fleiss.expected", {}), ("ac1", {}),
        ("alpha", {"level": "nominal"}), ("kappa.cohen", PAIR), ("soft.entropy", {}),
        ("selection.distance", {}), ("soft.loss", {"annotator": "n2"}),
        ("soft.distance", {"pool": "one", "other": "two"}),
        ("resolved.rate", {"policy": "majority"}), ("resolved.rate", {"policy": "unanimous"}),
        ("kappa.fleiss", {"pool": "two"}), ("agreement.rate", {"pool": "one"}),
    )
]  # fmt: skip
RANKED = [
    MetricRef.of("alpha", level="ordinal"),
    MetricRef.of("alpha", level="interval"),
    MetricRef.of("kappa.weighted", weights="linear", **PAIR),
    MetricRef.of("kappa.weighted", weights="quadratic", **PAIR),
]


def table_of(rows: list[str]) -> Ratings:
    """Ratings by four annotators in two pools over three ordered labels."""
    return rated(rows, labels=LABELS, pools=POOLS, ordered=True, values=[1.0, 2.0, 4.0])


def points(table: Ratings, refs: list[MetricRef]) -> list[tuple[float | None, str | None]]:
    """Values, rounded beyond what the order of adding up can change, and reasons."""
    found = annotators.compute(asked(table, resampling=None), refs)
    return [
        (None if m.value is None else round(m.value, 9) + 0.0, m.undefined) for m in found.values()
    ]


@given(TABLES, st.permutations(range(3)))
def test_names_of_labels_do_not_matter(rows: list[str], order: list[int]) -> None:
    """Exchanging the labels leaves every nominal coefficient, distance and rate as it is."""
    swapped = [
        row.translate(str.maketrans(LABELS, "".join(LABELS[x] for x in order))) for row in rows
    ]
    assert points(table_of(rows), NOMINAL) == points(table_of(swapped), NOMINAL)


@given(TABLES, st.randoms(use_true_random=False))
def test_the_order_of_items_does_not_matter(rows: list[str], random: object) -> None:
    """Points are the same whatever order the items, and the ratings, are read in."""
    mixed = list(rows)
    random.shuffle(mixed)  # type: ignore[attr-defined]
    assert points(table_of(rows), NOMINAL + RANKED) == points(table_of(mixed), NOMINAL + RANKED)
    table = table_of(rows)
    at = np.arange(len(table.item))[::-1]
    back = replace(
        table,
        item=table.item[at],
        annotator=table.annotator[at],
        pool=table.pool[at],
        label=table.label[at],
    )
    assert points(table, NOMINAL + RANKED) == points(back, NOMINAL + RANKED)


@given(TABLES)
def test_turning_the_scale_round_changes_nothing(rows: list[str]) -> None:
    """Ordinal and interval coefficients are the same from the other end of an even scale."""
    even = replace(table_of(rows), values=np.array([1.0, 2.0, 3.0]))
    back = rated([row.translate(str.maketrans("ac", "ca")) for row in rows], labels=LABELS,
                 pools=POOLS, ordered=True, values=[1.0, 2.0, 3.0])  # fmt: skip
    assert points(even, RANKED) == points(back, RANKED)


@given(TABLES, TABLES)
def test_a_pool_does_not_depend_on_the_other(rows: list[str], others: list[str]) -> None:
    """A pool's metrics, with their intervals, are the same whatever the other pool says."""
    mixed = [row[:2] + others[at % len(others)][2:] for at, row in enumerate(rows)]
    refs = [
        MetricRef.of(name, pool="one", **params)
        for name, params in (
            ("agreement.rate", {}), ("kappa.fleiss", {}), ("ac1", {}), ("soft.entropy", {}),
            ("alpha", {"level": "ordinal"}), ("selection.shift", {"label": "a"}),
            ("disagreement.excess", {"label": "b"}), ("resolved.count", {"policy": "majority"}),
            ("items.count", {}), ("ratings.count", {}),
        )
    ]  # fmt: skip
    assert annotators.compute(asked(table_of(rows)), refs) == annotators.compute(
        asked(table_of(mixed)), refs
    )


@given(TABLES)
def test_parts_fit_together(rows: list[str]) -> None:
    """Shifts sum to 0, shares of disagreements to 2; values keep within the catalogue."""
    data = asked(table_of(rows))
    shifts = [MetricRef.of("selection.shift", label=x) for x in LABELS]
    shares = [MetricRef.of("disagreement.share", label=x) for x in LABELS]
    found = annotators.compute(data, [*shifts, *shares, *NOMINAL, *RANKED])
    for refs, total in ((shifts, 0.0), (shares, 2.0)):
        values = [found[ref].value for ref in refs]
        if None not in values:
            assert sum(x or 0.0 for x in values) == pytest.approx(total, abs=1e-9)
    for ref, metric in found.items():
        low, high = annotators.catalogue().specs[ref.name].domain
        if metric.value is not None:
            assert metric.value >= low - 1e-9
            assert not isinstance(high, float) or metric.value <= high + 1e-9
        if metric.interval is not None:
            assert metric.interval.low <= metric.interval.high
    assert annotators.summary(data)
    assert isinstance(annotators.plain_words(data), list)
