"""Study `reference-swap`: scores, neutrality, reversals, the band, duplicates, the map; edges."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from prereg_judge.stats.proportions import wilson_interval
from prereg_judge.study.metric import MetricRef
from prereg_judge.study.outcomes import Resampling, StudyInput
from prereg_judge.study.reference_swap import (
    SPECS,
    catalogue,
    compute,
    plain_words,
    summary,
    view,
)
from prereg_judge.study.swap_computer import Computer
from study.swap_made import (
    NAMES,
    RESAMPLING,
    Marks,
    Row,
    labelled,
    one,
    planted,
    random_rows,
    row,
    spans,
    study,
)

NONE: Marks = frozenset()


def labels(*told: str, strata: tuple[str, ...] = ()) -> list[Row]:
    """Rows of single labels, each a word of four letters: of A, B, gold and C."""
    return [
        Row(
            f"i{at}",
            {n: frozenset({(0, 0, letter)}) for n, letter in zip(NAMES, word, strict=True)},
            strata[at] if strata else None,
        )
        for at, word in enumerate(told)
    ]


THREE = [
    row("i", spans(1, 5), spans(1), spans(1, 5), spans(1), "s"),
    row("j", spans(3), spans(3, 7), spans(3), spans(3, 9), "t"),
    row("k", NONE, spans(8), NONE, spans(8), "t"),
]


def test_scores_differences_and_interaction_by_hand() -> None:
    """Micro-F1 over all marks of all rows; delta, margin and interaction as its differences."""
    data = study(labelled(THREE))
    assert one(data, "f1", output="A", reference="gold").value == 1.0
    assert one(data, "f1", output="A", reference="C").value == 4 / 7
    assert one(data, "f1", output="B", reference="gold").value == 4 / 7
    assert one(data, "f1", output="B", reference="C").value == 6 / 8
    assert one(data, "delta", output="A").value == 1 - 4 / 7
    assert one(data, "margin", reference="gold").value == 1 - 4 / 7
    assert one(data, "interaction").value == (1 - 4 / 7) - (4 / 7 - 6 / 8)
    in_t = one(data, "f1", output="B", reference="gold", stratum="t")
    assert (in_t.value, in_t.n) == (2 * 1 / (3 + 1), 2)
    assert one(data, "exact.count", output="A", reference="gold").k == 3
    assert one(data, "exact.rate", output="B", reference="gold").value == 0
    assert one(data, "spread", output="A").value == 1 - 4 / 7


def test_a_row_counts_only_with_every_output_and_reference() -> None:
    """A row on which one is not given counts nowhere, and a note says how many there are."""
    rows = [*THREE, row("l", spans(1), spans(1), None, spans(1))]
    data = study(labelled(rows))
    items = one(data, "items.count")
    assert (items.k, items.n) == (3, 4)
    assert "1 of 4 rows left out" in (items.note or "")
    f1 = one(data, "f1", output="A", reference="C")
    assert (f1.value, f1.n) == (4 / 7, 3)
    assert "1 of 4 rows left out" in (f1.note or "")


def test_a_reversal_without_significance_is_the_weaker_reading() -> None:
    """Margins of opposite signs are counted; with three rows no leg is significant, and it says."""
    data = study(labelled(THREE))
    found = one(data, "reversals.count")
    assert (found.k, found.n) == (1, 1)
    assert "weaker reading, not significant under" in (found.note or "")
    assert one(data, "reversals.clear.count").k == 0
    said = [line for line in plain_words(data) if "turns" in line]
    assert len(said) == 1
    assert "weaker reading" in said[0]


def test_a_reversal_of_two_significant_margins_is_the_strong_reading() -> None:
    """Each reference is nearly a copy of another output: both margins are clear, and opposite."""
    rows = [r for at in range(40) for r in _turning(at)]
    data = study(labelled(rows))
    assert one(data, "reversals.clear.count", reference="C").k == 1
    assert any("strong reading, both significant" in line for line in plain_words(data))
    family = [MetricRef.of("margin", reference="gold"), MetricRef.of("margin", reference="C")]
    adjusted = study(labelled(rows), family=family)
    assert "Holm over the family" in (one(adjusted, "reversals.count").note or "")


def _turning(at: int) -> list[Row]:
    a, b = spans(1 + at % 3, 20), spans(9 + at % 3, 20)
    return [row(f"i{at}", a, b, a if at % 8 else b, b if at % 7 else a)]


def test_a_copy_of_an_output_is_found_and_its_delta_does_not_outlive_decontamination() -> None:
    """Gold is A on 90% of rows: skewed; delta of A above 0, and without those rows it is not."""
    data = study(labelled(planted(500, seed=3, copied=0.9, strata=2)), match="strict")
    skew = one(data, "skew", reference="gold")
    assert skew.value is not None
    assert skew.value > 0.5
    assert skew.interval is not None
    assert skew.interval.low > 0.5
    p = one(data, "skew.p", reference="gold").value
    assert p is not None
    assert p < 1e-20
    delta = one(data, "delta", output="A").interval
    assert delta is not None
    assert delta.low > 0
    clean = one(data, "delta", output="A", subset="decontaminated")
    assert clean.interval is not None
    assert clean.interval.low <= 0
    assert clean.n is not None
    assert clean.n < 60
    said = plain_words(data)
    assert any(
        line.startswith("The reference gold equals A on 9") and "not neutral" in line
        for line in said
    )
    assert not any(line.startswith("The reference C equals") for line in said)
    assert any(f"{clean.n} of 500 rows are left" in line for line in said)


def test_few_rows_left_are_said_to_be_too_few() -> None:
    """Below 30 rows without shared ones, nothing is to be concluded, and it says so."""
    said = plain_words(study(labelled(planted(60, seed=1, copied=0.9))))
    assert any("too few to conclude from: fewer than 30 rows" in line for line in said)


def test_a_test_is_in_the_family_however_it_is_written() -> None:
    """Defaults are filled in before tests are compared; Holm counts each test once."""
    family = [
        MetricRef.of("delta", output="A"),
        MetricRef.of("delta", output="A", match="relaxed", reference="C", subset="all"),
        MetricRef.of("skew", reference="gold"),
    ]
    data = study(labelled(planted(80, seed=4)), family=family)
    raw = one(data, "delta.p", output="A").value
    skew = one(data, "skew.p", reference="gold").value
    assert raw is not None
    assert skew is not None
    long = one(data, "delta.p_holm", output="A", duplicates="keep_all", match="relaxed")
    assert long.value == pytest.approx(min(1, max(2 * min(raw, skew), raw if raw > skew else 0)))
    assert "Holm over 2 registered tests" in (long.note or "")
    other = one(data, "delta.p_holm", output="B")
    assert other.undefined == "not_in_family"


def test_a_family_member_without_a_p_counts_as_one() -> None:
    """A test that is undefined makes the family no smaller, and stays undefined itself."""
    rows = [dataclasses.replace(r, stratum="s") for r in planted(60, seed=6, copied=0.9)]
    rows.append(row("bare", NONE, NONE, NONE, NONE, "t"))
    family = [
        MetricRef.of("delta", output="A"),
        MetricRef.of("delta", output="A", stratum="t"),
    ]
    data = study(labelled(rows), family=family)
    raw = one(data, "delta.p", output="A").value
    assert raw is not None
    assert one(data, "delta.p_holm", output="A").value == pytest.approx(min(1, 2 * raw))
    bare = one(data, "delta.p_holm", output="A", stratum="t")
    assert bare.undefined == "empty_denominator"


def test_the_band_is_the_upper_limit_of_the_largest_delta() -> None:
    """Turned positive where it is negative; margins no larger than it are listed."""
    rows = planted(120, seed=5, copied=0.5)
    turned = [dataclasses.replace(r, marks={**r.marks, "gold": r.marks["C"], "C": r.marks["gold"]})
              for r in rows]  # fmt: skip
    data, other = study(labelled(rows)), study(labelled(turned))
    deltas = {o: one(data, "delta", output=o) for o in ("A", "B")}
    largest = max(deltas.values(), key=lambda m: abs(m.value or 0))
    assert largest.interval is not None
    band = one(data, "band.width")
    assert band.value == largest.interval.high
    assert "descriptive and selected" in (band.note or "")
    assert one(other, "band.width").value == band.value
    small = deltas["B"]
    assert small.interval is not None
    assert small.value is not None
    side = small.interval.high if small.value >= 0 else -small.interval.low
    assert one(data, "band.width", output="B").value == side
    margins = [one(data, "margin", reference=r).value for r in ("gold", "C")]
    inside = one(data, "band.margins.count")
    assert inside.k == sum(abs(m or 0) <= (band.value or 0) for m in margins)
    assert inside.n == 2
    assert len(view(data).inside) == inside.k


def test_single_labels_are_scored_as_accuracy_with_limits_at_the_ends() -> None:
    """F1 of single labels is a share of items; where all are right the interval is Wilson's."""
    data = study(labelled(labels(*["xyxy"] * 20), form="labels"), match="strict")
    right = one(data, "f1", output="A", reference="gold")
    assert right.value == 1
    assert right.interval is not None
    wilson = wilson_interval(20, 20, level=0.95)
    assert (right.interval.low, right.interval.high) == pytest.approx(wilson)
    delta = one(data, "delta", output="A")
    assert delta.value == 1
    assert delta.interval is not None
    assert delta.interval.low < 1
    mixed = study(labelled(labels("xxxx", "xyxx", "yxxy", "zzxz"), form="labels"), match="strict")
    assert one(mixed, "f1", output="A", reference="gold").value == 2 / 4
    assert one(mixed, "exact.rate", output="A", reference="gold").value == 2 / 4


def test_spans_that_are_all_alike_have_no_interval() -> None:
    """Where every resample gives the same F1 there is no interval, never one without width."""
    rows = [row(f"i{at}", spans(1), spans(1), spans(1), spans(1)) for at in range(10)]
    data = study(labelled(rows))
    for name, params in (("f1", {"output": "A", "reference": "gold"}), ("delta", {"output": "A"})):
        found = one(data, name, **params)
        assert found.value is not None
        assert found.interval is None
        assert "the same in all 200 resamples" in (found.note or "")
    assert one(data, "delta.p", output="A").undefined == "not_computed"
    assert one(data, "band.width").undefined == "not_computed"
    every = [m.interval for m in summary(data) if m.interval is not None]
    assert all(i.low < i.high for i in every)


def test_undefined_results_have_a_typed_reason() -> None:
    """No types, no rows, no marks, no bootstrap: each is said, and never 0."""
    bare = [dataclasses.replace(r, marks={**r.marks, "gold": spans(1, kind=None)}) for r in THREE]
    data = study(labelled(bare))
    assert one(data, "f1", output="A", reference="gold", match="strict").undefined == "no_types"
    assert one(data, "f1", output="A", reference="C", match="strict").value is not None
    clean = one(data, "f1", output="A", reference="C", match="strict", subset="decontaminated")
    assert clean.undefined == "no_types"
    same = study(labelled([row("i", spans(1), spans(1), spans(1), spans(1))]))
    assert one(same, "f1", output="A", reference="C", subset="decontaminated").undefined == (
        "no_items"
    )
    empty = study(labelled([row("i", NONE, NONE, NONE, NONE)] * 3))
    assert one(empty, "f1", output="A", reference="C").undefined == "empty_denominator"
    assert one(empty, "spread", output="A").undefined == "empty_denominator"
    assert one(empty, "exact.rate", output="A", reference="gold").value == 1
    dry = study(labelled(THREE), resampling=None)
    assert one(dry, "delta", output="A").interval is None
    assert one(dry, "delta.p", output="A").undefined == "not_computed"
    nobody = study(labelled([row("i", None, NONE, NONE, NONE)]))
    assert one(nobody, "delta", output="A").undefined == "no_items"
    for every in (data, same, empty, dry, nobody):
        assert summary(every)
        assert plain_words(every)
        assert view(every).scores


def test_references_to_nothing_are_not_computed() -> None:
    """An unknown name or value, an output against itself, the delivered as its alternative."""
    data = study(labelled(THREE))
    for name, params in (
        ("f2", {}),
        ("f1", {"output": "A"}),
        ("f1", {"output": "gold", "reference": "C"}),
        ("f1", {"output": "A", "reference": "C", "match": "coarse"}),
        ("delta", {"output": "A", "reference": "gold"}),
        ("margin", {"output": "B", "reference": "gold"}),
        ("merge.gain", {"output": "A", "reference": "gold"}),
    ):
        assert one(data, name, **params).undefined == "not_computed", name


def test_the_summary_lists_every_metric_once() -> None:
    """Every name of the catalogue is there, no reference twice, family members at their place."""
    family = [MetricRef.of("delta", output="A"), MetricRef.of("margin", reference="C", stratum="s")]
    rows = random_rows(50, seed=3, strata=("s", "t"), copies=0.2)
    data = study(labelled(rows, merge={"x": "y"}), family=family)
    found = summary(data)
    refs = [m.ref for m in found]
    assert len(refs) == len(set(refs))
    names = {spec.name for spec in SPECS} - {"interaction.p_holm", "skew.p_holm"}
    assert {ref.name for ref in refs} == names
    assert compute(data, refs) == {m.ref: m for m in found}
    assert set(catalogue().specs) == {spec.name for spec in SPECS}


def test_the_same_resamples_serve_every_policy() -> None:
    """Rows that do not count add zero: without copies the policies give the same intervals."""
    rows = planted(50, seed=8)
    data = study(labelled(rows))
    every = [one(data, "delta", output="A", duplicates=p).interval for p in ("first", "drop")]
    assert every[0] == every[1] == one(data, "delta", output="A").interval


def test_strata_keep_their_size_and_rows_without_one_are_one_more() -> None:
    """With `by_stratum` items are drawn within the stratum of their first row."""
    rows = random_rows(30, seed=4, strata=("s", None), copies=0.3)
    by = Resampling(50, 3, by_stratum=True)
    computer = Computer(study(labelled(rows), resampling=by))
    resampler = computer.scores.sums.resampler
    assert resampler is not None
    assert resampler.strata is not None
    assert len(resampler.strata) == 2
    first: dict[str, str | None] = {}
    for told in rows:
        first.setdefault(told.item, told.stratum)
    in_s = np.array([[s == "s", s is None] for s in first.values()], dtype=float)
    totals = resampler.totals(in_s)
    assert (totals == in_s.sum(axis=0)).all()


def test_without_a_registered_bootstrap_nothing_is_resampled() -> None:
    """Point values are the same with and without; only intervals and p-values are missing."""
    rows = random_rows(30, seed=9)
    data, dry = study(labelled(rows), resampling=RESAMPLING), _dry(rows)
    refs = [MetricRef.of("interaction"), MetricRef.of("spread", output="A")]
    with_draws, without = compute(data, refs), compute(dry, refs)
    for ref in refs:
        assert with_draws[ref].value == without[ref].value
        assert without[ref].interval is None


def _dry(rows: list[Row]) -> StudyInput:
    return study(labelled(rows), resampling=None)
