"""Invariants of the self-agreement study, over tables of verdicts made at random."""

from __future__ import annotations

import itertools
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from prereg_judge.study import self_agreement
from prereg_judge.study.metric import MetricRef
from prereg_judge.study.outcomes import StudyInput
from prereg_judge.words import Missing
from study.made import MODES, OLD, D, K, get, make, ratio, why

PAIRS = st.lists(
    st.lists(st.sampled_from([K, D, None]), min_size=2, max_size=2), min_size=1, max_size=30
)


@given(PAIRS, st.sampled_from(MODES))
def test_interval_contains_every_estimate(rows: list[list[str | None]], mode: Missing) -> None:
    """Whatever the verdicts, each value lies in its interval and each rate in 0..1."""
    data = make(rows, labels=[D] * len(rows), missing=mode, earlier=OLD)
    for metric in self_agreement.summary(data):
        if metric.value is None or metric.interval is None:
            continue
        slack = 1e-9 * max(1, metric.n or 0)
        assert metric.interval.low - slack <= metric.value <= metric.interval.high + slack
        if metric.ref.name.endswith(".rate"):
            assert 0 <= metric.value <= 1


@given(PAIRS)
def test_agreement_and_flips_make_up_all_rows(rows: list[list[str | None]]) -> None:
    """Under `disagree` agreement + flips = n, ships any + none = n, all + some = any."""
    data = make(rows)
    agreement = get(data, "sentinel.agreement.count")
    flips = get(data, "sentinel.flips.count")
    assert agreement.undefined == flips.undefined
    if agreement.k is None or flips.k is None:
        return
    assert agreement.n == flips.n == len(rows)
    assert agreement.k + flips.k == len(rows)
    shipped = {
        how: get(data, f"sentinel.ships.{how}.count").k or 0
        for how in ("any", "all", "some", "none")
    }
    assert shipped["any"] + shipped["none"] == len(rows)
    assert shipped["all"] + shipped["some"] == shipped["any"]


def _summary_values(data: StudyInput, rename: dict[str, str]) -> dict[MetricRef, object]:
    def renamed(ref: MetricRef) -> MetricRef:
        return MetricRef(ref.name, tuple((k, rename.get(v, v)) for k, v in ref.params))

    return {
        renamed(m.ref): (m.value, m.k, m.n, m.undefined, m.interval)
        for m in self_agreement.summary(data)
    }


@given(PAIRS, st.sampled_from(MODES))
def test_names_and_order_do_not_matter(rows: list[list[str | None]], mode: Missing) -> None:
    """Renaming the verdicts, or shuffling the rows, changes no number."""
    swap = {K: D, D: K}
    data = make(rows, labels=[D] * len(rows), missing=mode)
    other = make([[swap.get(v or "") for v in row] for row in rows], labels=[K] * len(rows))
    other = replace(other, missing=mode, ships=D)
    assert _summary_values(data, {}) == _summary_values(other, swap)
    shuffled = replace(data, items=tuple(reversed(data.items)))
    assert _summary_values(data, {}) == _summary_values(shuffled, {})


def test_every_small_table_against_counting_by_hand() -> None:
    """For all pairs of two rows, agreement and flips are what a direct count says."""
    cells = list(itertools.product([K, D, None], repeat=2))
    for first, second in itertools.product(cells, repeat=2):
        rows = [list(first), list(second)]
        data = make(rows)
        passes = list(zip(*rows, strict=True))
        if any(set(p) == {None} for p in passes):
            assert why(data, "sentinel.agreement.count") == "nothing_scored"
            continue
        same = sum(a == b and a is not None for a, b in rows)
        assert ratio(data, "sentinel.agreement") == (same, 2)
