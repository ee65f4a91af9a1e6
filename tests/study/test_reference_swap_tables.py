"""Study `reference-swap`: the map of fine types to coarse ones, copies, and the tables of both."""

from __future__ import annotations

import pytest

from prereg_judge.labelled import DUPLICATES
from prereg_judge.study.reference_swap import plain_words, view
from study.swap_made import labelled, one, row, spans, study


def test_the_map_and_what_it_hides() -> None:
    """F1 rises by what the map makes the same; confusions it hides are counted by pair of types."""
    rows = [
        row("i", spans(1, kind="x") | spans(5, kind="z"), spans(1, kind="x"), spans(1, kind="y"),
            spans(1, kind="x")),
        row("j", spans(1, kind="x"), spans(1, kind="z"), spans(1, kind="z"), spans(1, kind="y")),
    ]  # fmt: skip
    data = study(labelled(rows, merge={"x": "xy", "y": "xy"}), match="strict")
    assert one(data, "merge.gain", output="A", reference="gold").value == 2 / 5
    hidden = one(data, "merge.hidden.count", output="A", reference="gold")
    assert (hidden.k, hidden.n) == (1, 2)
    assert one(data, "merge.hidden.rate", output="A", reference="gold").value == 1 / 2
    none = one(data, "merge.hidden.rate", output="B", reference="C")
    assert (none.k, none.n) == (0, 1)
    found = [c for c in view(data).hidden if (c.output, c.reference) == ("A", "gold")]
    assert [(c.output_type, c.reference_type, c.count) for c in found] == [("x", "y", 1)]
    back = study(labelled(rows, merge={"x": "xy", "y": "xy"}, names=("C", "gold", "B", "A")))
    again = [c for c in view(back).hidden if (c.output, c.reference) == ("A", "gold")]
    assert again == found


def test_copies_under_four_policies_and_when_a_conclusion_depends_on_them() -> None:
    """All four are given; a sign that turns with the policy is said, and so is that none does."""
    swayed = [row("a", spans(1), spans(1), spans(1), spans(5))] * 6
    others = [row(f"i{at}", spans(1), spans(1), spans(5), spans(1)) for at in range(4)]
    data = study(labelled([*swayed, *others]))
    values = {
        policy: one(data, "delta", output="A", duplicates=policy).value for policy in DUPLICATES
    }
    assert values == pytest.approx(
        {"keep_all": 0.2, "first": -0.6, "drop": -1.0, "merge_equal": -0.6}
    )
    said = [line for line in plain_words(data) if "What becomes of copies decides on" in line]
    assert any("the delta of A to C" in line and "drop -1.0000" in line for line in said)
    assert [under.policy for under in view(data).policies] == list(values)
    steady = [
        row(f"i{at}", spans(1), spans(5), spans(1), spans(5 if at % 4 else 1)) for at in range(40)
    ]
    assert any(
        "are the same under all four policies" in line
        for line in plain_words(study(labelled([*steady, *steady[:2]])))
    )
    assert any("No rows are copies" in line for line in plain_words(study(labelled(others))))
