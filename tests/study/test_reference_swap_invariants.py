"""What must hold of study `reference-swap` whatever the labellings say."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from prereg_judge.study.metric import Metric, MetricRef
from prereg_judge.study.outcomes import Resampling
from prereg_judge.study.reference_swap import compute, summary
from prereg_judge.study.swap_computer import Computer
from prereg_judge.study.swap_sums import Look
from study.swap_made import NAMES, Row, labelled, study

MARKS = st.frozensets(
    st.tuples(st.integers(0, 3), st.just(9), st.sampled_from(["x", "y"])), max_size=3
)
ROWS = st.lists(
    st.tuples(
        st.integers(0, 6),
        st.fixed_dictionaries(dict.fromkeys(NAMES, MARKS)),
        st.sampled_from(["s", "t", None]),
    ),
    min_size=1,
    max_size=9,
).map(lambda told: [Row(f"i{item}", marks, stratum) for item, marks, stratum in told])
FEW = Resampling(25, 3)
LOOKS = (
    Look("relaxed", "keep_all"),
    Look("strict", "merge_equal", "all", "s"),
    Look("strict", "first", "decontaminated"),
)


def _equal(one: Sequence[float], other: Sequence[float]) -> None:
    np.testing.assert_array_equal(one, other)


@settings(max_examples=40)
@given(ROWS)
def test_exchanging_the_references_turns_delta_and_interaction(rows: list[Row]) -> None:
    """Each changes its sign and nothing else, in every resample; of all rows, to the last digit."""
    there = Computer(study(labelled(rows), resampling=FEW)).scores
    back = Computer(study(labelled(rows), references=("C", "gold"), resampling=FEW)).scores
    for look in LOOKS[:2]:
        one, other = there.delta(look, "A", "C"), back.delta(look, "A", "gold")
        _equal([one.value], [-other.value])
        assert one.draws is not None
        assert other.draws is not None
        _equal(one.draws.tolist(), (-other.draws).tolist())
        first = there.interaction(look, "A", "B", "C")
        second = back.interaction(look, "A", "B", "gold")
        _equal([first.value], [-second.value])


@settings(max_examples=40)
@given(ROWS)
def test_exchanging_the_outputs_turns_margin_and_skew(rows: list[Row]) -> None:
    """Each changes its sign and nothing else, also without the rows that gold shares with one."""
    scores = Computer(study(labelled(rows), resampling=FEW)).scores
    for look in LOOKS:
        one, other = (scores.margin(look, *pair, "gold") for pair in (("A", "B"), ("B", "A")))
        assert one.draws is not None
        assert other.draws is not None
        _equal([one.value, *one.draws], [-other.value, *(-other.draws)])
        skews = [scores.skew(look, *pair, "C") for pair in (("A", "B"), ("B", "A"))]
        _equal([skews[0].value], [-skews[1].value])


@settings(max_examples=40)
@given(ROWS)
def test_values_and_limits_lie_where_the_catalogue_says(rows: list[Row]) -> None:
    """F1 and shares in [0, 1], differences in [-1, 1]; no interval without any width."""
    for metric in summary(study(labelled(rows), resampling=FEW)):
        if metric.value is None:
            continue
        if metric.unit in ("F1", "share", "probability"):
            low = -2 if metric.ref.name == "interaction" else -1
            assert low <= metric.value <= -low
        if metric.ref.name in ("f1", "exact.rate", "spread"):
            assert 0 <= metric.value <= 1
        if metric.interval is not None:
            assert metric.interval.low < metric.interval.high


@settings(max_examples=40)
@given(ROWS)
def test_names_of_types_do_not_matter(rows: list[Row]) -> None:
    """Other names for the types, in another order, change no metric."""
    names = {"x": "second", "y": "first"}
    renamed = [
        dataclasses.replace(
            row,
            marks={
                name: frozenset((s, e, names[kind or ""]) for s, e, kind in of or ())
                for name, of in row.marks.items()
            },
        )
        for row in rows
    ]
    one = summary(study(labelled(rows), match="strict", resampling=FEW))
    other = summary(study(labelled(renamed), match="strict", resampling=FEW))
    assert one == other


@settings(max_examples=40)
@given(ROWS)
def test_copies_of_all_rows_change_nothing_where_only_the_first_counts(rows: list[Row]) -> None:
    """Under `first` a second copy of every row leaves every value and interval as it was."""
    refs = [
        MetricRef.of("f1", output="A", reference="gold"),
        MetricRef.of("delta", output="A", stratum="s"),
        MetricRef.of("interaction", subset="decontaminated"),
        MetricRef.of("skew", reference="gold"),
        MetricRef.of("reversals.count"),
        MetricRef.of("spread", output="B"),
        MetricRef.of("band.width"),
    ]
    one, other = (
        compute(study(labelled(of), duplicates="first", resampling=FEW), refs)
        for of in (rows, [*rows, *rows])
    )
    assert [_said(m) for m in one.values()] == [_said(m) for m in other.values()]


def _said(metric: Metric) -> tuple[object, ...]:
    return metric.value, metric.interval, metric.undefined, metric.n


@settings(max_examples=40)
@given(ROWS)
def test_strata_and_their_rest_add_up_to_the_whole(rows: list[Row]) -> None:
    """Rows by stratum, with those of none, are all rows; equal rows count in each."""
    data = study(labelled(rows), resampling=None)
    by: dict[str | None, int] = {}
    for metric in summary(data):
        params = dict(metric.ref.params)
        if metric.ref.name == "items.count" and not {"subset", "duplicates"} & params.keys():
            by[params.get("stratum")] = metric.k or 0
    without = sum(row.stratum is None for row in rows)
    assert by.pop(None) == sum(by.values()) + without == len(rows)
