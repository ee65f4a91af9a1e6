"""Study `reference-swap`: no number and no sentence says more than the rows do."""

from __future__ import annotations

import numpy as np

from prereg_judge.study.reference_swap import plain_words
from prereg_judge.study.swap_computer import Computer
from prereg_judge.study.swap_sums import Look
from study.swap_made import Marks, labelled, one, planted, row, spans, study

NONE: Marks = frozenset()
LOOK = Look("relaxed", "keep_all")


def test_a_difference_that_is_but_rounding_is_none() -> None:
    """(0.9 - 0.7) - (0.3 - 0.1) is 0, in every resample too, although floats say 1e-16."""
    rows = [
        row(
            f"i{at}",
            spans(1),
            spans(1 if at < 7 else 2),
            spans(1 if at < 9 else 3),
            spans(1 if at in (0, 7, 9) else 4),
        )
        for at in range(10)
    ]
    data = study(labelled(rows))
    scores = Computer(data).scores
    found = scores.interaction(LOOK, "A", "B", "C")
    a, b, c, d = (scores.f1(LOOK, ("A", "B"), o, r) for r in ("gold", "C") for o in ("A", "B"))
    plain = (a.value - b.value) - (c.value - d.value)
    assert 0 < abs(plain) < 1e-15
    assert found.value == 0
    assert found.draws is not None
    assert (np.abs(found.draws * 10 - np.round(found.draws * 10)) < 1e-9).all()
    zeros = np.round(found.draws * 10) == 0
    assert zeros.any()
    assert (found.draws[zeros] == 0).all()
    p = one(data, "interaction.p").value
    below, above = (int((side * found.draws >= 0).sum()) for side in (-1, 1))
    assert p == min(1, 2 * (1 + min(below, above)) / (len(found.draws) + 1))


def test_the_reason_for_no_p_is_the_one_that_holds() -> None:
    """Few undefined resamples and all others alike: not computed; many undefined: too few."""
    rows = [row(f"i{at}", spans(1), spans(1), spans(1), spans(1)) for at in range(3)]
    few = study(labelled([*rows, row("n", NONE, NONE, NONE, NONE)]))
    found = one(few, "delta.p", output="A")
    draws = Computer(few).scores.delta(LOOK, "A", "C").draws
    assert draws is not None
    assert 0 < np.isnan(draws).sum() <= 10
    assert (found.undefined, "with a value give the same" in (found.note or "")) == (
        "not_computed",
        True,
    )
    none = [row(f"n{at}", NONE, NONE, NONE, NONE) for at in range(4)]
    assert one(study(labelled([rows[0], *none])), "delta.p", output="A").undefined == (
        "too_few_resamples"
    )


def test_a_spread_has_no_interval_and_says_why() -> None:
    """A range is biased upward: the value is there, the interval is not, and the reason is said."""
    data = study(labelled(planted(60, seed=1)))
    found = one(data, "spread", output="A")
    assert found.value is not None
    assert found.interval is None
    assert "biased upward" in (found.note or "")
    assert any("A spread has no interval: a range is biased upward" in s for s in plain_words(data))


def test_the_band_claims_no_more_than_was_seen() -> None:
    """The largest delta with its output and alternative, how far its interval reaches; no move."""
    data = study(labelled(planted(120, seed=5, copied=0.5)))
    said = " ".join(plain_words(data))
    delta, width = one(data, "delta", output="A").value, one(data, "band.width").value
    assert f"The largest delta observed is {delta:+.4f} (A scored under gold and under C" in said
    assert f"its 95% interval reaches to {width:.4f}: the band" in said
    assert "moves a score" not in said
    alike = study(
        labelled([row(f"i{at}", spans(1), spans(1), spans(1), spans(1)) for at in range(9)])
    )
    assert any(
        line.startswith("No delta is other than 0 (2 observed, the first is A")
        and "it has no interval, so there is no band" in line
        for line in plain_words(alike)
    )


def test_copies_of_a_labelling_are_named() -> None:
    """A reference that is an output under another name is said to be that, and others are not."""
    rows = [row(f"i{at}", spans(at), spans(at + 1), spans(at), spans(2 * at)) for at in range(4)]
    said = plain_words(study(labelled(rows)))
    assert said[0].startswith("A and gold are the same on all 4 rows that have both")
    assert not any("B and" in text and "are the same on all" in text for text in said)
