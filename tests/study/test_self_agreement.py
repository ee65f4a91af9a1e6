"""The self-agreement study: what is counted, what missing verdicts do, what is undefined."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from prereg_judge.shaping import Decoding
from prereg_judge.study import self_agreement
from prereg_judge.study.outcomes import CallView, EarlierRun, StudyInput, TrialKey
from prereg_judge.words import Missing, Unscored
from study.made import MODES, OLD, D, K, get, make, ratio, why

# i0 same, i1 lost its second verdict, i2 lost its first, i3 lost both, i4 changed.
GAPS: list[list[str | None]] = [[K, K], [K, None], [None, D], [None, None], [K, D]]
FROM = {"from_run": "old", "verdict": K}


def test_disagree_lets_a_missing_verdict_agree_with_nothing() -> None:
    """Under `disagree` a trial without a verdict is in n and never on the good side."""
    data = make(GAPS, labels=[D] * 5, earlier=OLD)
    assert ratio(data, "sentinel.agreement") == (1, 5)
    assert ratio(data, "sentinel.flips") == (4, 5)
    # i2 and i3 have no first verdict; i1 changed, but not to DROP.
    assert ratio(data, "sentinel.flips", verdict=K) == (2, 3)
    assert ratio(data, "sentinel.flips", verdict=K, to=D) == (1, 3)
    assert ratio(data, "sentinel.verdict", verdict=K, pass_=1) == (3, 5)
    assert ratio(data, "sentinel.wrong", pass_=1) == (5, 5)
    assert ratio(data, "sentinel.wrong", pass_=1, verdict=K) == (3, 5)
    assert ratio(data, "sentinel.wrong_ships", pass_=2) == (1, 5)
    # Only given verdicts can be wrong again or differ: a hang is no error that a pass finds.
    assert ratio(data, "sentinel.wrong_repeated") == (1, 5)
    assert ratio(data, "sentinel.wrong_found") == (1, 5)
    assert ratio(data, "sentinel.ships.any") == (3, 5)
    assert ratio(data, "sentinel.ships.all") == (1, 5)
    assert ratio(data, "sentinel.ships.some") == (2, 5)
    assert ratio(data, "sentinel.ships.none") == (2, 5)
    assert ratio(data, "sentinel.flips_from", **FROM) == (4, 5)
    assert ratio(data, "sentinel.flips_from_every", **FROM) == (2, 5)
    assert ratio(data, "sentinel.stays_from", **FROM) == (1, 5)
    assert ratio(data, "sentinel.missing") == (4, 10)
    note = get(data, "sentinel.agreement.rate").note
    assert note == (
        "4 of 10 trials have no verdict; counted as disagreement; "
        "0 of the 1 counted and 3 of the others lack one"
    )


def test_exclude_leaves_rows_out_of_both_counts() -> None:
    """Under `exclude` only rows complete in the passes used are counted."""
    data = make(GAPS, labels=[D] * 5, missing="exclude", earlier=OLD)
    assert ratio(data, "sentinel.agreement") == (1, 2)
    assert ratio(data, "sentinel.flips", verdict=K) == (1, 2)
    assert ratio(data, "sentinel.verdict", verdict=K, pass_=1) == (3, 3)
    assert ratio(data, "sentinel.wrong", pass_=2) == (1, 3)
    assert ratio(data, "sentinel.wrong_repeated") == (1, 2)
    assert ratio(data, "sentinel.ships.none") == (0, 2)
    assert ratio(data, "sentinel.flips_from", **FROM) == (1, 2)
    assert ratio(data, "sentinel.missing") == (4, 10)
    note = get(data, "sentinel.agreement.rate").note
    assert note == "4 of 10 trials have no verdict; 3 of 5 rows left out"


def test_undefined_gives_no_number_where_a_verdict_used_is_missing() -> None:
    """Under `undefined` a gap spoils exactly the metrics that look at it."""
    data = make(
        [[K, K], [K, None]], labels=[D, D], kinds=["a", "b"], missing="undefined", earlier=OLD
    )
    for name, params in (
        ("sentinel.agreement.rate", {}),
        ("sentinel.flips.count", {"verdict": D}),
        ("sentinel.wrong.count", {"pass_": 2}),
        ("sentinel.ships.any.count", {}),
        ("sentinel.flips_from.count", FROM),
    ):
        assert why(data, name, **params) == "missing_verdict"
    assert ratio(data, "sentinel.agreement", kind="a") == (1, 1)
    assert ratio(data, "sentinel.wrong", pass_=1) == (2, 2)
    assert ratio(data, "sentinel.missing") == (1, 4)


def test_undefined_minds_gaps_of_the_earlier_run() -> None:
    """A row that the earlier run left without a verdict might belong in the denominator."""
    run = EarlierRun("old", 1, {("sentinel", "i0", 1): K, ("sentinel", "i1", 1): None})
    data = make([[K, K], [K, K]], missing="undefined", earlier={"old": run})
    assert why(data, "sentinel.flips_from.count", **FROM) == "missing_verdict"
    assert ratio(replace(data, missing="disagree"), "sentinel.stays_from", **FROM) == (1, 1)
    # A gap here, in a row that the earlier run gave another verdict, is not looked at.
    run = EarlierRun("old", 1, {("sentinel", "i0", 1): K, ("sentinel", "i1", 1): D})
    data = make([[K, K], [None, K]], missing="undefined", earlier={"old": run})
    assert ratio(data, "sentinel.stays_from", **FROM) == (1, 1)


VERDICT_REFS: list[tuple[str, dict[str, object]]] = [
    ("agreement", {}),
    ("flips", {}),
    ("flips", {"verdict": K}),
    ("flips", {"verdict": K, "to": D}),
    ("verdict", {"verdict": K, "pass_": 2}),
    ("wrong", {"pass_": 2}),
    ("wrong_ships", {"pass_": 2}),
    ("wrong_repeated", {}),
    ("wrong_found", {}),
    ("ships.any", {}),
    ("ships.all", {}),
    ("ships.some", {}),
    ("ships.none", {}),
    ("flips_from", dict(FROM)),
    ("flips_from_every", dict(FROM)),
    ("stays_from", dict(FROM)),
]


@pytest.mark.parametrize("missing", MODES)
@pytest.mark.parametrize(
    "rows",
    [
        [[None, None], [None, None]],
        [[K, None], [D, None]],  # the second pass never came
        [[], []],  # nothing ran
    ],
)
@pytest.mark.parametrize(("stem", "params"), VERDICT_REFS)
def test_nothing_scored_is_never_a_number(
    stem: str, params: dict[str, object], rows: list[list[str | None]], missing: Missing
) -> None:
    """Where a pass has no verdict at all, no metric on it has a value in any mode."""
    data = make(rows, labels=[D, D], missing=missing, earlier=OLD)
    for tail in ("count", "rate"):
        assert why(data, f"sentinel.{stem}.{tail}", **params) == "nothing_scored"


def test_nothing_scored_in_the_denominator() -> None:
    """Rows to compare of which none has a verdict to compare with give no number."""
    run = {"old": EarlierRun("old", 1, {("sentinel", "i0", 1): K})}
    data = make([[K, None], [D, D]], earlier=run)
    assert why(data, "sentinel.flips.rate", verdict=K) == "nothing_scored"
    data = make([[None, None], [D, D]], earlier=run)
    assert why(data, "sentinel.flips_from.count", **FROM) == "nothing_scored"


@pytest.mark.parametrize(("stem", "params"), VERDICT_REFS)
def test_no_items(stem: str, params: dict[str, object]) -> None:
    """A set that is not in the run, and a kind that no row has, give `no_items`."""
    data = make([[K, D]], labels=[D], earlier=OLD)
    assert why(data, f"real.{stem}.count", **params) == "no_items"
    assert why(data, f"sentinel.{stem}.rate", **params, kind="no such") == "no_items"


def test_empty_denominators() -> None:
    """No row with that verdict, or none left after exclusion, is not 0 of 0."""
    data = make([[D, D], [D, K]], earlier=OLD)
    assert why(data, "sentinel.flips.rate", verdict=K) == "empty_denominator"
    assert why(data, "sentinel.flips_from.rate", from_run="old", verdict=D) == "empty_denominator"
    data = make([[D, None], [None, K]], missing="exclude")
    assert why(data, "sentinel.agreement.rate") == "empty_denominator"


def test_single_pass() -> None:
    """One pass has no agreement; what one pass can say is said."""
    data = make([[K], [D]], labels=[D, D], passes=1, earlier=OLD)
    for stem in ("agreement", "flips", "wrong_repeated", "wrong_found", "ships.some"):
        assert why(data, f"sentinel.{stem}.rate") == "single_pass"
    assert ratio(data, "sentinel.ships.any") == (1, 2)
    assert ratio(data, "sentinel.wrong_ships", pass_=1) == (1, 2)
    assert ratio(data, "sentinel.flips_from", **FROM) == (1, 2)
    assert self_agreement.transitions(data, "sentinel") == ()
    assert self_agreement.disagreements(data) == ()
    assert self_agreement.plain_words(data)


@pytest.mark.parametrize(
    ("decoding", "words"),
    [
        (Decoding("sampled", 1.5, top_k=1), "`top_k: 1` leaves no other"),
        (Decoding("sampled", 1e-9), "At temperature 1e-09"),
        (Decoding("seeded", 1.0), "with the registered seed, so a second pass cannot find errors"),
        (Decoding("greedy"), "(greedy decoding), so a second pass cannot find errors"),
        (Decoding("sampled", 0.8, top_k=2), None),
    ],
)
def test_draws_that_leave_nothing_to_chance_are_said(decoding: Decoding, words: str | None) -> None:
    """Greedy in all but name is said like greedy, before the run and with its result."""
    data = replace(make([[D, D]], decoding=decoding.mode), shaping=decoding)
    told = [t for t in self_agreement.plain_words(data) if "find errors here" in t]
    assert told == [
        t
        for t in self_agreement.protocol_words(decoding=decoding, passes=2)
        if "find errors here" in t
    ]
    assert [words in t for t in told if words] == [True] * bool(words)
    assert bool(told) == bool(words)


def test_labels() -> None:
    """Rows without a known label are outside n; with none labelled there is no number."""
    data = make([[K, K], [K, D], [D, D]], labels=[D, K, None])
    assert ratio(data, "sentinel.wrong", pass_=1) == (1, 2)
    assert ratio(data, "sentinel.wrong", pass_=2) == (2, 2)
    assert ratio(data, "sentinel.wrong", pass_=2, verdict=D) == (1, 2)
    assert ratio(data, "sentinel.wrong_repeated") == (1, 2)
    assert ratio(data, "sentinel.wrong_found") == (1, 2)
    assert get(data, "sentinel.wrong.count", pass_=1).note == "1 of 3 rows have no known label"
    bare = make([[K, K]])
    for stem in ("wrong", "wrong_ships"):
        assert why(bare, f"sentinel.{stem}.count", pass_=1) == "no_labels"
    assert why(bare, "sentinel.wrong_found.count") == "no_labels"


def test_three_passes_and_three_verdicts() -> None:
    """A change in any later pass is a flip, also one that comes back; `to` looks at each pass."""
    rows = [["A", "A", "A"], ["A", "B", "A"], ["A", "B", "tie"], ["B", "B", "tie"]]
    data = make(rows, verdicts=("A", "tie", "B"), passes=3)
    assert ratio(data, "sentinel.agreement") == (1, 4)
    assert ratio(data, "sentinel.flips") == (3, 4)
    assert ratio(data, "sentinel.flips", verdict="A") == (2, 3)
    assert ratio(data, "sentinel.flips", verdict="A", to="B") == (2, 3)
    assert ratio(data, "sentinel.flips", verdict="A", to="tie") == (1, 3)
    second, third = self_agreement.transitions(data, "sentinel")
    assert (second.first, second.later, third.first, third.later) == (1, 2, 1, 3)
    assert second.count("A", "B") == 2
    assert third.count("A", "B") == 0
    assert (third.count("A", "A"), third.count("A", "tie"), third.count("B", "tie")) == (2, 1, 1)
    assert second.n == third.n == 4


def test_transitions_and_disagreements_show_the_missing() -> None:
    """No verdict has its own row and column; a row that never had one is not disagreed about."""
    data = make(GAPS, labels=[D] * 5, kinds=["x"] * 5)
    (table,) = self_agreement.transitions(data, "sentinel")
    assert table.verdicts == (D, K, None)
    assert table.counts == ((0, 0, 0), (1, 1, 1), (1, 0, 1))
    assert self_agreement.transitions(data, "real") == ()
    listed = self_agreement.disagreements(data)
    assert [(r.item_id, r.verdicts) for r in listed] == [
        ("i1", (K, None)),
        ("i2", (None, D)),
        ("i4", (K, D)),
    ]
    assert (listed[0].set, listed[0].kind, listed[0].stratum, listed[0].label) == (
        "sentinel",
        "x",
        "half-1",
        D,
    )


def test_earlier_run_with_several_passes() -> None:
    """With several earlier passes one must be named; a run or pass that is not there is said."""
    run = EarlierRun("old", 2, {("sentinel", "i0", 1): K, ("sentinel", "i0", 2): D})
    data = make([[D, D]], earlier={"old": run})
    assert why(data, "sentinel.flips_from.count", **FROM) == "not_computed"
    assert ratio(data, "sentinel.flips_from", **FROM, from_pass=1) == (1, 1)
    assert ratio(data, "sentinel.stays_from", from_run="old", verdict=D, from_pass=2) == (1, 1)
    assert why(data, "sentinel.flips_from.count", **FROM, from_pass=3) == "not_computed"
    assert why(data, "sentinel.flips_from.count", from_run="no", verdict=K) == "not_computed"


@pytest.mark.parametrize(
    ("name", "params"),
    [
        ("sentinel.agrement.count", {}),
        ("sentinel.agreement", {}),
        ("sentinel", {}),
        ("nowhere.agreement.count", {}),
        ("sentinel.agreement.count", {"verdict": K}),
        ("sentinel.verdict.count", {"verdict": K}),
        ("sentinel.verdict.count", {"verdict": K, "pass_": 3}),
        ("sentinel.verdict.count", {"verdict": K, "pass_": 0}),
        ("sentinel.verdict.count", {"verdict": K, "pass_": "²"}),
        ("sentinel.verdict.count", {"verdict": "MAYBE", "pass_": 1}),
        ("sentinel.flips.count", {"to": K}),
        ("sentinel.flips.count", {"verdict": K, "to": K}),
        ("sentinel.duplicates.max.ci_low", {}),
        ("calls.hangs", {"reason": "hang"}),
        ("calls.unscored", {"reason": "tired"}),
        ("calls.typo", {}),
    ],
)
def test_what_the_catalogue_does_not_offer(name: str, params: dict[str, object]) -> None:
    """A wrong name, parameter or value has no value rather than a wrong one."""
    assert why(make([[K, D]]), name, **params) == "not_computed"


def test_limits_as_metrics() -> None:
    """`.ci_low` and `.ci_high` are the limits of the base metric, or undefined as it is."""
    data = make([[K, K], [K, D], [D, D]])
    base = get(data, "sentinel.agreement.rate", stratum="half-0")
    assert base.interval is not None
    low = get(data, "sentinel.agreement.rate.ci_low", stratum="half-0")
    high = get(data, "sentinel.agreement.rate.ci_high", stratum="half-0")
    assert (low.value, high.value) == (base.interval.low, base.interval.high)
    assert (low.k, low.n, low.interval) == (2, 2, None)
    assert why(data, "sentinel.agreement.rate.ci_low", kind="none such") == "no_items"


def test_distinct_rows_of_a_kind() -> None:
    """Distinct rows are found by content, within the kind asked for."""
    data = make([[K, K]] * 4, kinds=["a", "a", "a", "b"])
    items = [
        replace(item, content="same" if i < 2 else f"c{i}") for i, item in enumerate(data.items)
    ]
    data = replace(data, items=tuple(items))
    found = get(data, "sentinel.distinct.count")
    assert (found.value, found.n, found.interval) == (3, 4, None)
    assert found.note == "4 rows are 3 distinct, one 2 times"
    assert get(data, "sentinel.duplicates.max", kind="a").value == 2
    assert get(data, "sentinel.duplicates.max", kind="b").value == 1
    assert get(data, "sentinel.distinct.count", kind="b").note == "1 rows are 1 distinct"
    assert any("3 distinct" in said for said in self_agreement.plain_words(data))


def calls(reasons: Sequence[Unscored | None]) -> StudyInput:
    """A run whose single trial took these attempts, of 1, 2, 3, ... seconds."""
    data = make([[K], [K]], passes=1)
    key = TrialKey("sentinel", "i0", "ab", 1)
    views = [CallView(key, i, why, float(i)) for i, why in enumerate(reasons, start=1)]
    last = CallView(TrialKey("sentinel", "i1", "ab", 1), 1, None, float(len(reasons) + 1))
    return replace(data, calls=(*views, last))


def test_calls() -> None:
    """Every attempt counts as a call, by its reason."""
    data = calls(["hang", "hang", "crash", "http", "runaway", "unreadable", "off_menu", None])
    values = {
        name: get(data, f"calls.{name}").value
        for name in (
            "count",
            "hangs",
            "crashes",
            "runaways",
            "unreadable",
            "off_menu",
            "unscored",
            "unscored_trials",
            "retries",
            "attempts_per_trial",
        )
    }
    assert values == {
        "count": 9,
        "hangs": 2,
        "crashes": 1,
        "runaways": 1,
        "unreadable": 1,
        "off_menu": 1,
        "unscored": 7,
        "unscored_trials": 0,
        "retries": 7,
        "attempts_per_trial": 8,
    }
    hangs = get(data, "calls.hangs")
    rate = get(data, "calls.hangs.rate")
    assert (hangs.k, hangs.n, rate.value) == (2, 9, 2 / 9)
    assert hangs.interval is not None
    assert rate.interval is not None
    assert hangs.interval.high == rate.interval.high * 9
    assert get(data, "calls.unscored", reason="http").value == 1
    assert get(data, "calls.unscored.rate", reason="refused").value == 0
    assert get(data, "calls.seconds.median").value == 5
    assert get(data, "calls.seconds.mean").value == 5
    longest = get(data, "calls.seconds.max")
    assert (longest.value, longest.interval) == (9, None)
    middle = get(data, "calls.seconds.median").interval
    assert middle is not None
    assert (middle.low, middle.high) == (2, 8)
    mean = get(data, "calls.seconds.mean")
    assert mean.interval is None  # two durations are cut off at the time-out
    assert mean.note == "2 of 9 ended at the time-out"


def test_no_calls_and_trials_never_run() -> None:
    """Without calls nothing about calls is known, but every planned trial is unscored."""
    data = make([[], []])
    for name in ("count", "hangs", "hangs.rate", "unscored", "retries", "seconds.max"):
        assert why(data, f"calls.{name}") == "empty_denominator"
    assert get(data, "calls.unscored_trials").value == 4
    assert get(data, "sentinel.missing.rate").value == 1
    assert self_agreement.scored_trials(data) == 0


def test_catalogue_and_summary() -> None:
    """Every metric of the summary is in the catalogue of its sets, and the names are filled in."""
    listed = self_agreement.catalogue(["sentinel"])
    assert not any("{" in name or name.startswith("real.") for name in listed.specs)
    assert all(name == spec.name for name, spec in listed.specs.items())
    assert all(spec.summary.endswith(".") for spec in listed.specs.values())
    live = {name for name, spec in listed.specs.items() if spec.live}
    assert {"calls.hangs", "calls.hangs.rate", "calls.unscored", "calls.count"} <= live
    assert all(name.startswith("calls.") for name in live)
    assert len(self_agreement.catalogue(["sentinel", "real"]).specs) > len(listed.specs)
    data = make(GAPS, labels=[D] * 5, kinds=["a"] * 5, earlier=OLD)
    found = self_agreement.summary(data)
    assert len({m.ref for m in found}) == len(found)
    for metric in found:
        spec = listed.specs[metric.ref.name]
        given = {name for name, _ in metric.ref.params}
        assert set(spec.required) <= given <= {*spec.required, *spec.optional}
        assert metric.undefined != "not_computed"
        assert metric.unit == spec.unit
