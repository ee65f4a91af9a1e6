"""The study `annotators` of spans: F1 of annotators against each other, and what is not given."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np
import pytest

from prereg_judge.study import annotators, table_metrics
from prereg_judge.study.metric import MetricRef
from prereg_judge.study.outcomes import Resampling
from study.annotators_brute import drawn
from study.annotators_made import Marked, Span, get, labelled, marked, value

NAMES = ("A", "B", "C")
ROWS: list[Marked] = [
    {"A": [(0, 3, "x"), (5, 8, "y")], "B": [(0, 3, "x")], "C": [(5, 8, "z")]},
    {"A": [], "B": [(1, 2, "y")], "C": []},
    {"A": [(0, 9, "z")], "B": [(0, 9, "y")]},
    {"A": [], "B": [], "C": []},
    {"C": [(4, 5, "x")]},
]
MERGE = {"y": "yz", "z": "yz"}


def test_f1_by_hand() -> None:
    """Shared marks and sizes are summed over pairs of annotators, on rows that both marked."""
    data = marked(labelled(ROWS, names=NAMES, coarse=MERGE))
    pair = {"annotator": "A", "other": "B"}
    # A and B: 1 shared of 3 and 3 strictly; 2 by place, 2 by coarse type.
    assert value(data, "f1.pair", match="strict", **pair) == pytest.approx(2 * 1 / (3 + 3))
    assert value(data, "f1.pair", match="relaxed", **pair) == pytest.approx(2 * 2 / (3 + 3))
    assert value(data, "f1.pair", match="coarse", **pair) == pytest.approx(2 * 2 / (3 + 3))
    # A and C add 0 of 2 and 1, B and C 0 of 2 and 1.
    found = get(data, "f1", match="strict")
    assert found.value == pytest.approx(2 * 1 / (6 + 3 + 3))
    assert found.n == 4 + 3 + 3
    assert found.note is not None
    assert found.note.startswith("1 marks shared of 7 and 5, on 10 rows of 3 pairs of annotators")
    assert (get(data, "items.count").k, get(data, "items.count").n) == (4, 5)
    assert value(data, "ratings.count") == 12


def test_why_nothing_is_corrected_for_chance() -> None:
    """Kappa, AC1 and alpha of spans are not given; the note and a sentence say why."""
    data = marked(labelled(ROWS, names=NAMES))
    for name, params in (
        ("kappa.cohen", {"annotator": "A", "other": "B"}),
        ("kappa.fleiss", {}),
        ("ac1", {}),
        ("alpha", {"level": "nominal"}),
        ("agreement.rate", {}),
    ):
        found = get(data, name, **params)
        assert found.undefined == "not_computed"
        assert "true negatives, is not defined" in (found.note or "")
    assert "Hripcsak and Rothschild 2005" in annotators.plain_words(data)[0]
    soft = get(data, "soft.entropy")
    assert (soft.undefined, "no label of the item" in (soft.note or "")) == ("not_computed", True)


@pytest.mark.parametrize(
    ("rows", "params", "reason"),
    [
        ([{"A": [], "B": []}], {"match": "strict"}, "empty_denominator"),
        ([{"A": [(0, 1, "x")]}, {"B": []}], {"match": "strict"}, "single_annotator"),
        ([], {"match": "relaxed"}, "no_items"),
        ([{"A": [], "B": []}], {"match": "coarse"}, "not_computed"),
        ([{"A": [], "B": []}], {"match": "strict", "pool": "none"}, "not_computed"),
        ([{"A": [], "B": []}], {}, "not_computed"),
    ],
)
def test_spans_without_a_value_have_a_typed_reason(
    rows: Sequence[Marked], params: Mapping[str, str], reason: str
) -> None:
    """No marks at all, nobody to compare with, no rows, no map, unknown names."""
    found = get(marked(labelled(rows, names=("A", "B"))), "f1", **params)
    assert found.undefined == reason
    assert found.note


def test_marks_without_types_match_by_place_alone() -> None:
    """A labelling whose marks have no types has a relaxed F1, and no strict one."""
    data = marked(labelled(ROWS, names=NAMES, untyped=["C"]))
    assert get(data, "f1", match="strict").undefined == "no_types"
    assert get(data, "f1", match="relaxed").value is not None
    pair = get(data, "f1.pair", annotator="A", other="B", match="strict")
    assert pair.undefined is None
    with_c = get(data, "f1.pair", annotator="A", other="C", match="strict")
    assert (with_c.undefined, with_c.note) == ("no_types", "the marks of `C` have no types")


def test_annotators_of_one_mind_have_no_interval() -> None:
    """F1 of 1 everywhere does not vary in the resamples, and the note says that all is shared."""
    rows: list[Marked] = [{"A": [(n, n + 1, "x")], "B": [(n, n + 1, "x")]} for n in range(10)]
    found = get(marked(labelled(rows, names=("A", "B"))), "f1", match="strict")
    assert (found.value, found.interval) == (1.0, None)
    assert "every mark is shared in all 200 resamples" in (found.note or "")


def test_pools_and_copies() -> None:
    """A pool has the pairs within it; under the policy `first` a copy does not count."""
    rows: list[Marked] = [
        {"A": [(0, 1, "x")], "B": [(0, 1, "x")], "C": [], "D": []},
        {"A": [(0, 1, "x")], "B": [(0, 1, "y")], "C": [(3, 4, "x")], "D": [(3, 4, "x")]},
    ]
    table = labelled(rows, names=("A", "B", "C", "D"), units=[0, 0])
    pools = {"one": ("A", "B"), "two": ("C", "D")}
    both, first = (marked(table, pools=pools, duplicates=x) for x in ("keep_all", "first"))
    assert value(both, "f1", match="strict", pool="one") == pytest.approx(0.5)
    assert value(both, "f1", match="strict", pool="two") == pytest.approx(1.0)
    assert value(first, "f1", match="strict", pool="one") == pytest.approx(1.0)
    assert get(first, "f1", match="strict", pool="two").undefined == "empty_denominator"
    assert any("2 rows are rows of an item" in text for text in annotators.plain_words(both))


def test_the_view_of_spans_has_confused_types() -> None:
    """Types at the same place, over pairs of annotators, with what the map hides."""
    data = marked(labelled(ROWS, names=NAMES, coarse=MERGE))
    found = annotators.view(data)
    assert [(c.labels, c.pairs, c.hidden) for c in found.confusions] == [(("y", "z"), 2, True)]
    assert {m.ref.name for m in found.pairs} == {"f1.pair"}
    assert len(found.pairs) == 9
    said = " ".join(annotators.plain_words(data))
    assert "`y` and `z` (2, 100.0%). The map of types hides 2 of them (100.0%)." in said
    assert annotators.summary(data)


def spans_of(generator: np.random.Generator) -> list[Span] | None:
    """A few spans among six places and two types, or none given."""
    if generator.random() < 0.2:
        return None
    many = generator.integers(4)
    places = {(int(p), int(p) + 1) for p in generator.integers(6, size=many)}
    return [(a, b, "xy"[generator.integers(2)]) for a, b in sorted(places)]


@pytest.mark.parametrize("by_stratum", [False, True])
def test_every_resample_agrees_with_plain_loops(
    *, by_stratum: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F1 in each resample is that of sets of spans of the drawn items, copies drawn together."""
    generator = np.random.default_rng(8)
    rows = [{name: spans_of(generator) for name in NAMES} for _ in range(20)]
    units = [n - n % 4 // 3 - n // 4 for n in range(20)]
    strata = ["p" if u % 3 else "q" for u in units]
    table = labelled(rows, names=NAMES, units=units, strata=strata)
    resampling = Resampling(40, 5, by_stratum=by_stratum)
    seen: dict[MetricRef, Any] = {}
    real = table_metrics.bootstrapped

    def watched(ref: MetricRef, *args: Any, **options: Any) -> Any:
        seen[ref] = options["draws"]
        return real(ref, *args, **options)

    monkeypatch.setattr("prereg_judge.study.annotators_sums.bootstrapped", watched)
    refs = [
        MetricRef.of("f1", match=match, **extra)
        for match in ("strict", "relaxed")
        for extra in ({}, {"stratum": "p"})
    ]
    found = annotators.compute(marked(table, resampling=resampling), refs)
    unit_strata = [strata[units.index(u)] for u in range(max(units) + 1)]
    samples = drawn(unit_strata, resampling)
    for ref in refs:
        params = dict(ref.params)

        def brute(items: Sequence[int], params: Mapping[str, str] = params) -> float:
            shared = sizes = 0
            for item in items:
                for row, unit, stratum in zip(rows, units, strata, strict=True):
                    if unit != item or params.get("stratum") not in (None, stratum):
                        continue
                    shared_row, sizes_row = loops(row, strict=params["match"] == "strict")
                    shared, sizes = shared + shared_row, sizes + sizes_row
            return 2 * shared / sizes if sizes else float("nan")

        assert found[ref].value == pytest.approx(brute(range(max(units) + 1)), abs=1e-12)
        np.testing.assert_allclose(seen[ref], [brute(x) for x in samples], rtol=0, atol=1e-12)


def loops(row: Marked, *, strict: bool) -> tuple[int, int]:
    """Shared spans and the sum of both sizes, over pairs of labellings that the row has."""
    shared = sizes = 0
    for one, two in combinations(NAMES, 2):
        a, b = row.get(one), row.get(two)
        if a is None or b is None:
            continue
        shared += sum(any(x == y or (not strict and x[:2] == y[:2]) for y in b) for x in a)
        sizes += len(a) + len(b)
    return shared, sizes
