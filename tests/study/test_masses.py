"""What the model gave to the allowed tokens, and groups of calls that were lost."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from prereg_judge.study import path_fidelity, self_agreement
from prereg_judge.study.outcomes import StudyInput, TrialKey
from study.made import D, get, make, ratio, why

MIN, MEDIAN = "sentinel.allowed_mass.min", "sentinel.allowed_mass.median"


def with_masses(data: StudyInput, masses: Sequence[Sequence[float | None]]) -> StudyInput:
    """The same run with the mass of each row and pass; None where nothing was drawn."""
    found = {
        TrialKey("sentinel", f"i{i}", "ab", p): mass
        for i, row in enumerate(masses)
        for p, mass in enumerate(row, start=1)
        if mass is not None
    }
    return replace(data, masses=found)


def test_each_row_counts_once_with_its_smallest() -> None:
    """Seven rows of two passes: n is 7, the least of 0.1, and the median of the rows' smallest."""
    masses = [[0.1, 0.1], [0.3, 0.2], [0.6, 0.6], [0.7, 0.8], [0.9, 0.9], [0.9, 0.9], [1.0, 0.5]]
    data = with_masses(make([[D, D]] * 7), masses)
    least, middle = get(data, MIN), get(data, MEDIAN)
    assert (least.value, least.n, least.interval) == (0.1, 7, None)
    assert (middle.value, middle.n) == (0.6, 7)
    assert middle.interval is not None
    assert (middle.interval.low, middle.interval.high) == (0.1, 0.9)  # ranks 1 and 7 of 7
    assert ratio(data, "sentinel.forced") == (2, 7)  # 0.5 itself is not below one half
    assert why(data, f"{MIN}.ci_low") == "not_computed"
    assert get(data, MIN, stratum="half-1").value == 0.2


def test_what_has_no_mass_is_left_out_and_said() -> None:
    """A hang has none; a server gives none at all; nothing scored is said as that."""
    data = with_masses(make([[D, D], [D, None], [None, None]]), [[0.9, 0.9], [0.4, None], []])
    found = get(data, MIN)
    assert (found.value, found.n) == (0.4, 2)
    assert found.note == "1 of 3 rows have no mass; left out"
    assert ratio(data, "sentinel.forced") == (1, 2)
    assert why(data, f"{MEDIAN}.ci_low") == "not_computed"  # two rows carry no interval
    for name in (MIN, MEDIAN, "sentinel.forced.count", "sentinel.forced.rate"):
        assert why(make([[D, D]]), name) == "no_probabilities"
        assert why(make([[None, None]]), name) == "nothing_scored"


def test_a_judge_that_was_forced_is_told_of() -> None:
    """How many rows, of how many, and the least mass are in the sentence; without any, none is."""
    data = with_masses(make([[D, D], [D, D]]), [[0.02, 0.02], [0.99, 0.99]])
    for study in (self_agreement, path_fidelity):
        (said,) = [text for text in study.plain_words(data) if "forced" in text]
        assert "On 1 of 2 sentinel rows" in said
        assert "(the least: 0.02)" in said
    willing = with_masses(make([[D, D]]), [[0.99, 0.99]])
    assert self_agreement.plain_words(willing) == []


def test_lost_groups_are_counted_and_told_of() -> None:
    """The number stands with the number of calls, without an interval; none is not told of."""
    data = replace(make([[D, D]] * 3), batches_lost=2)
    found = get(data, "calls.batches_lost")
    assert (found.value, found.k, found.n, found.interval) == (2, None, 6, None)
    assert found.unit == "groups"
    assert any("2 groups of calls hung or crashed" in t for t in self_agreement.plain_words(data))
    assert get(make([[D, D]]), "calls.batches_lost").value == 0
    assert why(make([[]]), "calls.batches_lost") == "empty_denominator"
    assert self_agreement.plain_words(make([[D, D]])) == []


@given(st.lists(st.lists(st.floats(0, 1), min_size=2, max_size=2), min_size=1, max_size=20))
def test_against_counting_in_plain_lists(masses: list[list[float]]) -> None:
    """Least, median and forced are those of a sorted list of the rows' smallest masses."""
    data = with_masses(make([[D, D]] * len(masses)), masses)
    each = sorted(min(row) for row in masses)
    assert get(data, MIN).value == each[0]
    assert get(data, MEDIAN).value == statistics.median(each)
    assert ratio(data, "sentinel.forced") == (len([m for m in each if m < 0.5]), len(each))
    assert get(data, MIN, stratum="half-0").n == len(masses[::2])
