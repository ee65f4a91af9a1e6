"""The path-fidelity study: two arms as two passes, by hand and against counting in plain lists."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prereg_judge.shaping import Decoding
from prereg_judge.study import path_fidelity, self_agreement
from prereg_judge.study.kinds import STUDIES, study_of
from prereg_judge.study.metric import Metric, MetricRef
from prereg_judge.study.outcomes import StudyInput
from prereg_judge.study.rows import disagreements
from prereg_judge.words import Missing
from study.made import MODES, D, K, choosing, make, tree

ARMS = ("path generate, prefix whole, parallel 1", "path choice, prefix shared, parallel 4")
MAX, MEAN = "sentinel.probability_change.max", "sentinel.probability_change.mean"


def ask(data: StudyInput, name: str, **params: object) -> Metric:
    """One metric of this study."""
    ref = MetricRef.of(name, **params)
    return path_fidelity.compute(data, [ref])[ref]


def share(data: StudyInput, name: str, **params: object) -> tuple[int | None, int | None]:
    """k and n of a count, whose rate must say the same."""
    count, rate = ask(data, f"{name}.count", **params), ask(data, f"{name}.rate", **params)
    assert (count.k, count.n, count.undefined) == (rate.k, rate.n, rate.undefined)
    return count.k, count.n


def run(rows: list[list[str | None]], *, missing: Missing = "disagree") -> StudyInput:
    """Two arms under one seed."""
    return replace(make(rows, missing=missing, decoding="seeded"), arms=ARMS)


# Same, changed to DROP, same, changed to KEEP, lost its second.
ROWS: list[list[str | None]] = [[K, K], [K, D], [D, D], [D, K], [K, None]]


def test_fidelity_by_hand() -> None:
    """Two of five rows keep their verdict; of arm 1's three KEEP one, of its two DROP one."""
    data = run(ROWS)
    assert share(data, "sentinel.fidelity") == (2, 5)
    assert share(data, "sentinel.fidelity", verdict=K) == (1, 3)
    assert share(data, "sentinel.fidelity", verdict=D) == (1, 2)
    assert share(data, "sentinel.fidelity", stratum="half-0") == (2, 3)
    assert share(data, "sentinel.flips", verdict=K, to=D) == (1, 3)
    assert share(data, "sentinel.flips", verdict=D, to=K) == (1, 2)
    assert share(data, "sentinel.verdict", verdict=K, pass_=2) == (2, 5)
    assert share(data, "sentinel.missing") == (1, 10)
    interval = ask(data, "sentinel.fidelity.rate").interval
    assert interval is not None
    assert interval.method == "wilson"
    assert [r.item_id for r in disagreements(data)] == ["i1", "i3", "i4"]


def test_missing_verdicts_count_as_registered() -> None:
    """The lost verdict is a difference, leaves its row out, or leaves no value."""
    assert share(run(ROWS, missing="exclude"), "sentinel.fidelity") == (2, 4)
    assert share(run(ROWS, missing="exclude"), "sentinel.fidelity", verdict=K) == (1, 2)
    spoilt = run(ROWS, missing="undefined")
    assert ask(spoilt, "sentinel.fidelity.count").undefined == "missing_verdict"
    assert ask(run([[K, None]]), "sentinel.fidelity.rate").undefined == "nothing_scored"


@pytest.mark.parametrize(
    ("name", "params"),
    [
        ("sentinel.agreement.count", {}),
        ("sentinel.expected_agreement.rate", {}),
        ("sentinel.wrong.count", {"pass_": 1}),
        ("sentinel.fidelity.count", {"verdict": "MAYBE"}),
        ("sentinel.fidelity.count", {"pass_": 1}),
        ("nowhere.fidelity.count", {}),
    ],
)
def test_what_this_study_does_not_give(name: str, params: dict[str, object]) -> None:
    """Metrics of another study, and wrong parameters, have no value; nor has it theirs."""
    assert ask(run(ROWS), name, **params).undefined == "not_computed"
    other = MetricRef("sentinel.fidelity.count")
    found = self_agreement.compute(run(ROWS), [other])[other]
    assert found.undefined == "not_computed"


def test_changes_of_probability_by_hand() -> None:
    """0.9 to 0.6 and 0.5 to 0.4 change by 0.3 and 0.1: the largest 0.3, the mean 0.2."""
    trees = [[tree(0.9, 0.1), tree(0.6, 0.4)], [tree(0.5, 0.5), tree(0.4, 0.6)]]
    data = choosing(run([[D, D], [D, D]]), trees, shaping=Decoding("seeded", 1.0))
    largest, mean = ask(data, MAX), ask(data, MEAN)
    assert largest.value == pytest.approx(0.3)
    assert mean.value == pytest.approx(0.2)
    assert (largest.n, mean.n, largest.interval) == (2, 2, None)
    assert mean.interval is not None
    assert mean.interval.method == "t"
    assert ask(data, MAX, stratum="half-1").value == pytest.approx(0.1)
    # With more verdicts it is the largest of them, not their sum.
    three = choosing(
        make([[D, D]], verdicts=(D, K, "C"), decoding="seeded"),
        [[tree(0.5, 0.3, 0.2), tree(0.1, 0.6, 0.3)]],
    )
    assert ask(three, MAX).value == pytest.approx(0.4)


def test_greedy_arms_are_compared_by_what_the_model_gave() -> None:
    """Though either draw is certain, 0.9 and 0.6 differ by 0.3."""
    data = choosing(
        make([[D, D]], decoding="greedy"),
        [[tree(0.9, 0.1), tree(0.6, 0.4)]],
        shaping=Decoding("greedy"),
    )
    assert ask(data, MAX).value == pytest.approx(0.3)


def test_why_a_change_has_no_value() -> None:
    """An arm that generates gives no probabilities; a lost trial leaves its row out, or spoils."""
    one = tree(0.9, 0.1)
    assert ask(run(ROWS), MAX).undefined == "no_probabilities"
    assert ask(choosing(run([[D, D]]), [[one, None]]), MAX).undefined == "no_probabilities"
    crossed = choosing(run([[D, None], [None, D]]), [[one, None], [None, one]])
    assert ask(crossed, MAX).undefined == "empty_denominator"
    lost = choosing(run([[D, D], [D, None]]), [[one, one], [one, None]])
    assert (ask(lost, MAX).value, ask(lost, MAX).n) == (0, 1)
    assert ask(lost, MAX).note == "1 of 2 rows lack a probability in some arm; left out"
    assert ask(replace(lost, missing="undefined"), MEAN).undefined == "missing_verdict"
    assert ask(run([[None, None]]), MAX).undefined == "nothing_scored"
    single = choosing(make([[D]], passes=1), [[one]])
    assert ask(single, MAX).undefined == "single_pass"


def test_the_words_name_the_arms_and_what_they_do_not_show() -> None:
    """Both settings, how they draw, and that this is no self-agreement."""
    said = path_fidelity.plain_words(run([[K, K]]))
    assert said[0] == f"Pass 1 is arm 1 ({ARMS[0]}); pass 2 is arm 2 ({ARMS[1]})."
    assert "registered seed" in said[1]
    assert "not self-agreement" in said[2]
    greedy = path_fidelity.plain_words(replace(run([[K, K]]), decoding="greedy"))
    assert "greedy" in greedy[1]
    told = study_of("path-fidelity").protocol_words(decoding=Decoding("seeded"), passes=2)
    assert told == said[1:]  # what is told before the run is said after it
    missing = path_fidelity.plain_words(run(ROWS))
    assert any("1 of 10 sentinel trials have no verdict" in text for text in missing)
    assert not any("second pass cannot find errors" in text for text in missing)


def test_catalogue_and_summary() -> None:
    """Every metric of the summary is in the catalogue, has its unit and is given by the study."""
    trees = [[tree(0.9, 0.1), tree(0.6, 0.4)]] * 5
    data = choosing(run(ROWS), trees, shaping=Decoding("seeded", 1.0))
    data = replace(data, masses=dict.fromkeys(data.choices, 0.4))
    listed = path_fidelity.catalogue(["sentinel"])
    assert listed.study == "path-fidelity"
    found = path_fidelity.summary(data)
    assert len({m.ref for m in found}) == len(found)
    for metric in found:
        spec = listed.specs[metric.ref.name]
        given = {name for name, _ in metric.ref.params}
        assert set(spec.required) <= given <= {*spec.required, *spec.optional}
        assert metric.undefined is None, metric
        assert metric.unit == spec.unit
    names = {m.ref.name for m in found}
    assert {MAX, MEAN, "sentinel.forced.rate", "calls.batches_lost"} <= names
    bare = {m.ref.name for m in path_fidelity.summary(run(ROWS))}
    assert MAX not in bare


def test_the_kinds_of_study() -> None:
    """They are known by the names that registrations write, and no other is."""
    assert list(STUDIES) == [
        "self-agreement", "path-fidelity", "pairwise", "pools", "judge-pools", "leaderboard",
        "reference-swap", "annotators",
    ]  # fmt: skip
    assert study_of("path-fidelity").compute is path_fidelity.compute
    with pytest.raises(KeyError):
        study_of("pair-wise")


PAIRS = st.lists(
    st.lists(st.sampled_from([K, D, None]), min_size=2, max_size=2), min_size=1, max_size=30
)


@given(PAIRS, st.sampled_from(MODES))
def test_against_counting_in_plain_lists(rows: list[list[str | None]], mode: Missing) -> None:
    """For any table, all fidelity numbers are what a count over plain pairs says."""
    data = run(rows, missing=mode)
    if any(all(row[at] is None for row in rows) for at in (0, 1)):
        assert ask(data, "sentinel.fidelity.count").undefined == "nothing_scored"
        return
    whole = [row for row in rows if None not in row]
    if mode == "undefined" and len(whole) < len(rows):
        assert ask(data, "sentinel.fidelity.count").undefined == "missing_verdict"
        return
    counted = rows if mode == "disagree" else whole
    for verdict in (None, K, D):
        base = [row for row in counted if verdict is None or row[0] == verdict]
        found = ask(data, "sentinel.fidelity.count", verdict=verdict)
        if found.undefined is not None:
            assert not any(row[1] for row in base)  # no row, or none with a second verdict
            continue
        same = sum(row[0] is not None and row[0] == row[1] for row in base)
        assert (found.k, found.n) == (same, len(base))
