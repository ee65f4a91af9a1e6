"""Study `reference-swap`: whether a reference is neutral, and what copies do to its test."""

from __future__ import annotations

import dataclasses

import pytest

from prereg_judge.study.reference_swap import plain_words
from prereg_judge.study.swap_computer import Computer
from prereg_judge.study.swap_words import skew_tests
from study.swap_made import labelled, one, planted, row, spans, study


def test_with_neutral_references_the_sentence_stays_away() -> None:
    """Independent references, equally good outputs: in at most 5% of 60 seeded tables it fires."""
    fired = 0
    for seed in range(60):
        rows = planted(60, seed=seed, strata=2)
        computer = Computer(study(labelled(rows), resampling=None))
        fired += any(p <= 0.05 for p in skew_tests(computer).values())
    assert fired <= 3


def test_copies_of_items_make_no_reference_less_neutral() -> None:
    """Each item has one sign however many rows it has, and it says so; without copies nothing."""
    rows = planted(40, seed=2, copied=0.9)
    data = study(labelled([*rows, *rows, *rows]))
    single = one(study(labelled(rows)), "skew.p", reference="gold")
    copied = one(data, "skew.p", reference="gold")
    assert (copied.value, copied.n) == (single.value, 40)
    assert "each item has one sign" in (copied.note or "")
    assert "one sign" not in (single.note or "")
    first = one(data, "skew.p", reference="gold", duplicates="first")
    assert (first.value, first.note) == (single.value, single.note)
    said = [line for line in plain_words(data) if "not neutral" in line]
    assert all("of 120 rows" in line for line in said)
    assert all("each item has one sign" in line for line in said)
    assert said
    rate = one(data, "exact.rate", output="A", reference="gold")
    assert rate.interval is not None
    assert "bootstrap" in rate.interval.method


def test_one_item_of_many_rows_speaks_once() -> None:
    """Thirty rows of one item that equal A alone are one sign: p is 1; of thirty items it is not.

    An item whose rows speak as often for B as for A has no sign.
    """
    for_a, for_b = (row("i", spans(1), spans(2), spans(of), spans(3)) for of in (1, 2))
    assert one(study(labelled([for_a] * 30)), "skew.p", reference="gold").value == 1
    apart = [dataclasses.replace(for_a, item=f"i{at}") for at in range(30)]
    assert one(study(labelled(apart)), "skew.p", reference="gold").value == pytest.approx(2**-29)
    even = [dataclasses.replace(of, item=f"i{at}") for at in range(9) for of in (for_a, for_b)]
    found = one(study(labelled([*even, for_a])), "skew.p", reference="gold")
    assert (found.value, found.n) == (1, 10)
    assert "exact: 1 items one way, 0 the other" in (found.note or "")


def test_a_test_that_could_find_nothing_is_said_to_be_blind() -> None:
    """Five uneven items cannot reach 0.05; six can alone, but not as one of two tests of Holm."""
    alone, neither = row("i", spans(1), spans(2), spans(1), spans(3)), spans(9)

    def said(uneven: int, of_c: int) -> list[str]:
        """Sentences on a table with so many items that gold, and C, share with an output."""
        rows = [
            dataclasses.replace(
                alone,
                item=f"i{at}",
                marks={
                    **alone.marks,
                    "gold": spans(1 + at % 2) if at < uneven else neither,
                    "C": spans(1 + at % 2) if at < of_c else neither,
                },
            )
            for at in range(20)
        ]
        return plain_words(study(labelled(rows)))

    assert any("No reference equals one output significantly" in line for line in said(20, 20))
    assert not any("could not have found it" in line for line in said(20, 20))
    some = [line for line in said(20, 4) if "1 of 2 could not have found it" in line]
    assert len(some) == 1
    assert "C with A and B (4 uneven)" in some[0]
    assert any("2 of 2 could not have found it" in line for line in said(6, 6))
    assert not any("could not have found it" in line for line in said(7, 6))
