"""Each rule of lint: a registration that trips it and one close by that does not."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import replace
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prereg_judge.registration.as_claims import to_claims
from prereg_judge.registration.claims import Band, Claims, Combined, Condition, Test
from prereg_judge.registration.domains import Domain, answer, possible_answers
from prereg_judge.registration.expressions import (
    parse_band,
    parse_decision,
    parse_prediction,
    parse_refuter,
    parse_stop,
)
from prereg_judge.registration.lint import lint
from prereg_judge.registration.refs import Cell, Facts, Given
from prereg_judge.registration.schema import Registration
from prereg_judge.strict_yaml import YamlPath
from prereg_judge.study.metric import MetricRef
from prereg_judge.study.self_agreement import catalogue
from prereg_judge.words import SetRole

TABLE: dict[SetRole, dict[Cell, int]] = {
    "sentinel": {
        ("punctuation", "north", "DROP"): 48,
        ("numeral", "north", "DROP"): 6,
        ("numeral", "north", None): 10,
        ("numeral", "south", None): 2,
        ("synonym", "north", "DROP"): 6,
    }
}
FACTS = Facts(
    TABLE,
    verdicts=("KEEP", "DROP"),
    passes=2,
    trials=144,
    retries=0,
    from_runs={"one": 1, "two": 2},
)

BASE: dict[str, Any] = {
    "prereg": 1, "id": "x", "title": "t", "study": "self-agreement", "judge": "j",
    "items": {"sentinel": "s"}, "missing": "disagree", "exposure": {"seen": "nothing"},
    "model": {"gguf": "m", "n_ctx": 512, "n_gpu_layers": 0},
    "protocol": {"passes": 2, "orders": ["ab"], "path": "generate", "prefix": "whole",
                 "decoding": {"mode": "greedy"}, "max_tokens": 9, "parallel": 1,
                 "hang": {"call_timeout_s": 9, "retries": 0}},
}  # fmt: skip
PARSERS = {"bands": parse_band, "predictions": parse_prediction, "refuters": parse_refuter,
           "stop": parse_stop, "decisions": parse_decision}  # fmt: skip


def claims_of(**sections: str | list[str]) -> Claims:
    """Claims from their short forms."""
    taken: list[str] = []
    data = dict(BASE)
    for section, texts in sections.items():
        data[section] = []
        for text in [texts] if isinstance(texts, str) else texts:
            claim = PARSERS[section](text, taken=taken)
            taken.append(claim["id"])
            data[section].append(claim)
    return to_claims(Registration.model_validate(data))


def line_of(path: YamlPath) -> int:
    """A line that shows how deep the path went."""
    return 10 + len(path)


def around(facts: Facts) -> dict[str, Any]:
    """What claims are looked at with: the catalogue for their item sets, the facts, the file."""
    metrics = catalogue(list(facts.table))
    return {"catalogue": metrics, "facts": facts, "file": "r.yaml", "line_of": line_of}


def found(claims: Claims, facts: Facts = FACTS) -> list[tuple[str | None, str]]:
    """Place and text of each problem."""
    problems = lint(claims, **around(facts))
    assert all(p.file == "r.yaml" and p.line is not None for p in problems)
    return [(p.where, str(p)) for p in problems]


COUNT = "sentinel.agreement.count"
RATE = "sentinel.agreement.rate"
BAND = f"{COUNT}=58..68"

# Section, what trips, where, part of the message, what does not trip.
RULES: list[tuple[str, str, str, str, str]] = [
    ("bands", "sentinel.agreemnt.count=58..68", "bands[0].metric",
     f"Did you mean {COUNT}", BAND),
    ("bands", "real.agreement.count=58..68", "bands[0].metric",
     "no item set `real`", BAND),
    ("bands", "sentinel.verdict.count[verdict=KEEP]=10..20", "bands[0].metric",
     "needs `pass`", "sentinel.verdict.count[verdict=KEEP,pass=1]=10..20"),
    ("bands", f"{COUNT}[verdict=KEEP]=58..68", "bands[0].verdict",
     "takes no `verdict`", f"{COUNT}[kind=punctuation]=30..40"),
    ("bands", "sentinel.flips.count[verdict=KEPT]=1..9", "bands[0].verdict",
     "Did you mean KEEP", "sentinel.flips.count[verdict=KEEP]=1..9"),
    ("bands", "sentinel.flips.count[verdict=KEEP,to=MAYBE]=1..9", "bands[0].to",
     "Known: KEEP, DROP", "sentinel.flips.count[verdict=KEEP,to=DROP]=1..9"),
    ("bands", f"{COUNT}[kind=numerals]=1..9", "bands[0].kind",
     "Did you mean numeral", f"{COUNT}[kind=numeral]=1..9"),
    ("bands", f"{COUNT}[stratum=east]=1..9", "bands[0].stratum",
     "`east` is not a stratum of `sentinel`", f"{COUNT}[stratum=north]=1..9"),
    ("bands", f"{COUNT}[kind=synonym,stratum=south]=0..1", "bands[0].stratum",
     "kind `synonym` and stratum `south`", f"{COUNT}[kind=numeral,stratum=south]=0..1"),
    ("bands", "sentinel.wrong.count[pass=3]=1..9", "bands[0].pass",
     "the protocol has 2 passes", "sentinel.wrong.count[pass=2]=1..9"),
    ("bands", "sentinel.flips_from.count[from_run=tow,verdict=KEEP]=1..9", "bands[0].from_run",
     "Did you mean two", "sentinel.flips_from.count[from_run=one,verdict=KEEP]=1..9"),
    ("bands", "sentinel.flips_from.count[from_run=two,verdict=KEEP]=1..9", "bands[0].from_run",
     "say which with `from_pass`",
     "sentinel.flips_from.count[from_run=two,from_pass=2,verdict=KEEP]=1..9"),
    ("bands", "sentinel.flips_from.count[from_run=one,from_pass=2,verdict=KEEP]=1..9",
     "bands[0].from_pass", "`one` has 1 pass",
     "sentinel.flips_from.count[from_run=one,from_pass=1,verdict=KEEP]=1..9"),
    ("predictions", "calls.unscored[reason=hung] <= 3", "predictions[0].reason",
     "Did you mean hang", "calls.unscored[reason=hang] <= 3"),
    # cannot fail
    ("bands", f"{COUNT}=0..72", "bands[0]", "cannot fail", f"{COUNT}=0..71"),
    ("bands", f"{COUNT}=-5..100", "bands[0]", "always 0 to 72", f"{COUNT}=1..100"),
    ("bands", f"{COUNT}=0..72.9", "bands[0]", "cannot fail", f"{COUNT}=0.2..72.9"),
    ("bands", f"{RATE}=0..1", "bands[0]", "cannot fail", f"{RATE}=0..0.999"),
    ("bands", f"{RATE}=0..1e9", "bands[0]", "cannot fail", f"{RATE}=1e-9..1"),
    ("bands", f"{COUNT}[kind=synonym]=0..6", "bands[0]", "cannot fail",
     f"{COUNT}[kind=numeral]=0..6"),
    ("bands", f"{COUNT}[kind=numeral,stratum=north]=0..16", "bands[0]", "cannot fail",
     f"{COUNT}[kind=numeral]=0..16"),
    ("bands", "sentinel.wrong.count[pass=1]=0..60", "bands[0]", "cannot fail",
     "sentinel.wrong.count[pass=1]=0..59"),
    ("bands", "sentinel.distinct.count=2..72", "bands[0].metric", "settled by the item file", BAND),
    ("bands", "sentinel.duplicates.max=1..1", "bands[0].metric", "settled by the item file", BAND),
    ("bands", "sentinel.flips.count[to=DROP]=1..9", "bands[0].to", "needs another first verdict",
     "sentinel.flips.count[verdict=KEEP,to=DROP]=1..9"),
    ("bands", "sentinel.flips.count[verdict=DROP,to=DROP]=1..9", "bands[0].to",
     "needs another first verdict", "sentinel.flips.count[verdict=KEEP,to=DROP]=1..9"),
    ("predictions", f"{COUNT} >= 0", "predictions[0]", "prediction cannot fail", f"{COUNT} >= 1"),
    ("predictions", f"{COUNT} <= 72", "predictions[0]", "cannot fail", f"{COUNT} <= 71"),
    ("predictions", "calls.hangs >= 0", "predictions[0]", "0 to 144", "calls.hangs >= 1"),
    ("predictions", f"{RATE}.ci_low >= 0", "predictions[0]", "cannot fail",
     f"{RATE}.ci_low >= 0.6"),
    # can never hold
    ("bands", f"{COUNT}=80..90", "bands[0]", "can never hold", f"{COUNT}=70..90"),
    ("bands", f"{COUNT}=58.1..58.9", "bands[0]", "can never hold", f"{COUNT}=58.1..59"),
    ("bands", f"{COUNT}.ci_low=72.1..90", "bands[0]", "can never hold",
     f"{COUNT}.ci_low=58.1..58.9"),
    ("bands", f"{COUNT}[kind=synonym]=7..9", "bands[0]", "can never hold",
     f"{COUNT}[kind=synonym]=6..9"),
    ("predictions", f"{RATE} >= 80", "predictions[0]", "can never hold", f"{RATE} >= 0.8"),
    ("predictions", "calls.hangs <= -1", "predictions[0]", "can never hold", "calls.hangs <= 0"),
    # refuters and decisions that are settled before the run
    ("refuters", f"{COUNT} > 72: m", "refuters[0].when", "never fires", f"{COUNT} > 71: m"),
    ("refuters", "calls.hangs >= 0: m", "refuters[0].when", "always fires", "calls.hangs > 0: m"),
    ("refuters", "calls.seconds.max < 0: m", "refuters[0].when", "never fires",
     "calls.seconds.max > 5: m"),
    ("refuters", f"{COUNT} < 5 and {COUNT} > 70: m", "refuters[0].when", "never fires",
     f"{COUNT} < 5 or {COUNT} > 70: m"),
    ("refuters", f"{RATE} < 0.6 or {RATE} > 0.5: m", "refuters[0].when", "always fires",
     f"{RATE} < 0.5 or {RATE} > 0.99: m"),
    ("refuters", f"{COUNT} < 50 and calls.hangs < 0: m", "refuters[0].when", "never fires",
     f"{COUNT} < 50 and calls.hangs <= 0: m"),
    ("refuters", f"{COUNT} < 50 and sentinel.flips.rte > 0.5: m", "refuters[0].when.all[1].metric",
     "has no metric", f"{COUNT} < 50 and sentinel.flips.rate > 0.5: m"),
    ("decisions", f"{COUNT} >= 0 => go", "decisions[0].when", "always is taken",
     f"{COUNT} >= 1 => go"),
    ("decisions", f"{RATE} > 1 => go", "decisions[0].when", "never is taken", f"{RATE} = 1 => go"),
    # a refuter inside its own band (58..68)
    ("refuters", f"{COUNT} >= 50: m", "refuters[0].when", "fires wherever `agreement-count` holds",
     f"{COUNT} >= 59: m"),
    ("refuters", f"{COUNT} in 60..62: m", "refuters[0].when", "fires only inside the band",
     f"{COUNT} in 60..72: m"),
    ("refuters", f"{COUNT} < 5 or {COUNT} = 60: m", "refuters[0].when",
     "fires only inside the band", f"{COUNT} < 5 or {COUNT} = 70: m"),
    ("refuters", f"{COUNT} > 57.5: m", "refuters[0].when", "fires wherever", f"{COUNT} < 57.5: m"),
    # stop rules
    ("stop", f"{COUNT} < 5 in 20 over 40", "stop[0].when.metric", "not known while the run goes on",
     "calls.hangs >= 5 in 20 over 40"),
    ("stop", "calls.hangs.ci_low >= 5", "stop[0].when.metric", "not known while",
     "calls.hangs >= 5"),
    ("stop", "calls.hangs >= 21 in 20 over 40", "stop[0].when", "never trips",
     "calls.hangs >= 20 in 20 over 40"),
    ("stop", "calls.hangs >= 0", "stop[0].when", "always trips", "calls.hangs >= 21"),
    # contradiction with the band
    ("predictions", f"{COUNT} >= 69", "predictions[0]", "contradicts `agreement-count`",
     f"{COUNT} >= 68"),
    ("predictions", f"{COUNT} <= 57.9", "predictions[0]", "no value of", f"{COUNT} <= 58"),
]  # fmt: skip


@pytest.mark.parametrize(("section", "bad", "where", "words", "good"), RULES)
def test_each_rule_trips_on_its_case_and_not_on_the_one_beside(
    section: str, bad: str, where: str, words: str, good: str
) -> None:
    """A claim that is wrong is refused at its place; the nearest right one passes."""
    with_band = {} if section == "bands" else {"bands": BAND}
    wrong = found(claims_of(**with_band, **{section: bad}))
    assert len(wrong) == 1, wrong
    assert wrong[0][0] == where
    assert words.lower() in wrong[0][1].lower(), wrong
    assert found(claims_of(**with_band, **{section: good})) == []


def test_cheat_huge_tolerance() -> None:
    """A band so wide that every result lies in it is refused with the reason."""
    assert "narrow it" in found(claims_of(bands=f"{RATE}=-1000..1000"))[0][1].lower()


def test_a_registration_without_band_or_prediction_is_refused() -> None:
    """Refuters alone commit to nothing that could hold."""
    refuter = f"{COUNT} < 50: m"
    assert "commits to nothing" in found(claims_of(refuters=refuter))[0][1]
    assert found(claims_of(refuters=refuter, predictions=f"{COUNT} >= 55")) == []


@pytest.mark.parametrize(
    "metric",
    ["sentinel.agreement.count", "sentinel.flips.count", "sentinel.wrong_found.count",
     "sentinel.wrong_repeated.count", "sentinel.ships.some.count"],
)  # fmt: skip
def test_comparing_passes_needs_two(metric: str) -> None:
    """A metric that compares passes is refused with one pass and stands with two."""
    claims = claims_of(bands=f"{metric}=5..9")
    [(where, text)] = found(claims, dataclasses.replace(FACTS, passes=1))
    assert where == "bands[0].metric"
    assert "compares passes" in text
    assert found(claims) == []


def test_one_pass_may_still_be_compared_with_an_earlier_run() -> None:
    """`flips_from` does not need a second pass of this run."""
    claims = claims_of(bands="sentinel.flips_from.count[from_run=one,verdict=KEEP]=5..9")
    assert found(claims, dataclasses.replace(FACTS, passes=1)) == []


def test_known_answers_need_labels() -> None:
    """A metric of wrong verdicts is refused where no item has a known label."""
    claims = claims_of(bands="sentinel.wrong_ships.count[pass=1]=5..9")
    [(_, text)] = found(
        claims, dataclasses.replace(FACTS, table={"sentinel": {("a", None, None): 72}})
    )
    assert "known label" in text
    assert found(claims) == []


def test_a_prediction_may_be_refuted_from_its_good_side_but_not_everywhere() -> None:
    """`at least 58` may have the refuter `= 72`; not one that fires wherever it holds."""
    prediction = f"{COUNT} >= 58"
    assert found(claims_of(predictions=prediction, refuters=f"{COUNT} = 72: m")) == []
    [(_, text)] = found(claims_of(predictions=prediction, refuters=f"{COUNT} > 50: m"))
    assert "fires wherever" in text


def test_a_refuter_on_another_metric_or_kind_is_not_inside_the_band() -> None:
    """Only the same metric with the same parameters is its own band."""
    refuter = f"{COUNT}[kind=punctuation] in 40..45: m"
    assert found(claims_of(bands=BAND, refuters=refuter)) == []


def test_two_bands_of_one_metric_must_share_a_value() -> None:
    """Bands that cannot both be met are refused; overlapping ones stand."""
    assert "contradicts" in found(claims_of(bands=[BAND, f"{COUNT}=69..70"]))[0][1]
    assert found(claims_of(bands=[BAND, f"{COUNT}=68..70"])) == []


def test_an_expected_value_must_be_possible() -> None:
    """One's own guess of 73 out of 72 rows is refused, 72 is not."""
    test = Test(MetricRef.of(COUNT), 58, 68)
    [(where, text)] = found(Claims(bands=(Band("b", test, 73.0),)))
    assert (where, "cannot occur" in text) == ("bands[0].expected", True)
    assert found(Claims(bands=(Band("b", test, 72.0),))) == []


@pytest.mark.parametrize(
    ("low", "high"),
    [(math.nan, 5), (5, math.nan), (math.inf, math.inf), (-math.inf, -math.inf),
     (-math.inf, math.inf), (9, 5)],
)  # fmt: skip
def test_cheat_infinity_and_nan_as_limits(low: float, high: float) -> None:
    """Limits that are not finite, absent or reversed are refused."""
    assert len(found(Claims(bands=(Band("b", Test(MetricRef.of(COUNT), low, high)),)))) == 1


def test_all_problems_come_at_once() -> None:
    """One call names the faults of every section."""
    claims = claims_of(
        bands=f"{COUNT}=0..72", predictions=f"{RATE} >= 80", refuters="nothing.at.all < 3: m",
        stop="calls.hangs >= 0", decisions=f"{COUNT} > 72 => go",
    )  # fmt: skip
    places = {where for where, _ in found(claims)}
    assert places == {
        "bands[0]", "predictions[0]", "refuters[0].when.metric", "stop[0].when",
        "decisions[0].when",
    }  # fmt: skip


_REFS = [MetricRef.of(n) for n in "ab"]
_LIMITS = st.sampled_from([-1.0, 0.0, 0.5, 1.0, 2.0, 2.5, 4.0, 5.0])


@st.composite
def _test(draw: st.DrawFn) -> Test:
    low, high = sorted([draw(_LIMITS), draw(_LIMITS)])
    if draw(st.booleans()):
        low = -math.inf
    elif draw(st.booleans()):
        high = math.inf
    return Test(draw(st.sampled_from(_REFS)), low, high, draw(st.booleans()), draw(st.booleans()))


def _combined(inner: st.SearchStrategy[Condition]) -> st.SearchStrategy[Condition]:
    def join(how: Literal["all", "any"], parts: list[Condition]) -> Condition:
        return Combined(how, tuple(parts))

    hows: list[Literal["all", "any"]] = ["all", "any"]
    return st.builds(join, st.sampled_from(hows), st.lists(inner, min_size=1, max_size=3))


_CONDITIONS: st.SearchStrategy[Condition] = st.recursive(_test(), _combined, max_leaves=5)


@given(_CONDITIONS, st.booleans())
def test_possible_answers_are_those_of_trying_every_value(
    condition: Condition, whole: bool
) -> None:
    """On a small domain the answer equals brute force over a fine grid."""
    domain = Domain(0, 4, whole)
    grid = [i / (1 if whole else 8) for i in range(5 if whole else 33)]
    tried = {
        answer(condition, {_REFS[0]: a, _REFS[1]: b}) for a in grid for b in grid
    }  # fmt: skip
    assert possible_answers(condition, dict.fromkeys(_REFS, domain)) == tried


def test_conditions_on_very_many_metrics_are_judged_part_by_part() -> None:
    """Padding a refuter with metrics does not hide that it can never fire."""
    refs = [MetricRef.of(f"m{i}") for i in range(12)]
    domains = {r: Domain(0, 1, False) for r in refs}
    parts = tuple(Test(r, 0.2, 0.8) for r in refs)
    assert possible_answers(Combined("all", parts), domains) == {True, False}
    never: tuple[Condition, ...] = (*parts, Combined("any", (Test(refs[0], 2, 3),)))
    assert possible_answers(Combined("all", never), domains) == {False}
    assert possible_answers(Combined("any", (*parts, Test(refs[0], -1, 3))), domains) == {True}


# 72 items in two passes, each trial tried at most twice; 10 of the 60 labels say KEEP.
LABELS: dict[SetRole, dict[Cell, int]] = {
    "sentinel": {("a", "x", "DROP"): 50, ("a", "y", "KEEP"): 10, ("b", "y", None): 12}
}
RUN = replace(FACTS, retries=1, ships="KEEP", table=LABELS)

# What is settled by the size of the run, and a neighbour that is not.
SETTLED: list[tuple[str, str, str]] = [
    ("bands", "calls.count=144..288", "calls.count=144..287"),
    ("bands", "calls.hangs=0..288", "calls.hangs=0..287"),
    ("bands", "calls.retries=0..144", "calls.retries=0..143"),
    ("bands", "calls.attempts_per_trial=1..2", "calls.attempts_per_trial=1..1"),
    ("bands", "calls.unscored_trials=0..144", "calls.unscored_trials=0..143"),
    ("bands", "calls.hangs.rate=0..1", "calls.hangs.rate=0..0.5"),
    ("bands", f"{RATE}.ci_low=0..0.95", f"{RATE}.ci_low=0..0.94"),
    ("bands", f"{COUNT}.ci_high=3..72", f"{COUNT}.ci_high=4..72"),
    ("bands", f"{RATE}=0.51..0.513", f"{RATE}=0.51..0.52"),
    ("bands", "sentinel.wrong.count[pass=1,verdict=DROP]=0..10",
     "sentinel.wrong.count[pass=1,verdict=DROP]=0..9"),
    ("bands", "sentinel.wrong_ships.count[pass=1]=0..50",
     "sentinel.wrong_ships.count[pass=1]=0..49"),
    ("refuters", "calls.count > 288: x", "calls.count > 287: x"),
    ("refuters", f"{RATE} in 0.51..0.513: x", f"{RATE} in 0.51..0.52: x"),
    ("stop", "calls.hangs >= 289", "calls.hangs >= 288"),
    ("stop", "calls.count >= 144", "calls.count >= 145"),
    ("stop", "calls.count <= 1 in 2 over 4", "calls.count >= 200 in 200 over 288"),
    ("stop", "calls.hangs < 5", "calls.hangs < 5 in 10 over 40"),
    ("stop", "calls.runaways >= 145", "calls.runaways >= 144"),
    ("stop", "calls.hangs.rate >= 0.5 in 300 over 400", "calls.hangs.rate >= 0.5 in 200 over 400"),
    ("stop", "calls.hangs <= 10 in 10 over 40", "calls.hangs <= 200 in 200 over 400"),
    ("bands", "calls.count=100..288", "calls.count=145..288"),
    ("bands", "calls.runaways=0..144", "calls.runaways=0..143"),
    ("bands", "calls.unscored[reason=off_menu]=0..144", "calls.unscored[reason=hang]=0..144"),
    ("bands", "calls.unscored[reason=http]=0..5", "calls.unscored[reason=crash]=0..5"),
    ("bands", "calls.count.ci_low=100..200", "calls.hangs.ci_low=1..200"),
    ("bands", "sentinel.missing.count=0..144", "sentinel.missing.count=0..143"),
    ("bands", "sentinel.missing.rate=0.501..0.506", "sentinel.missing.rate=0.5..0.506"),
    ("bands", "sentinel.wrong.count[pass=1,kind=b]=0..5",
     "sentinel.wrong.count[pass=1,kind=a]=0..5"),
    ("bands", "sentinel.wrong.count[pass=1,stratum=y,verdict=KEEP]=0..0",
     "sentinel.wrong.count[pass=1,stratum=y,verdict=DROP]=0..9"),
    ("bands", "sentinel.flips.rate[verdict=KEEP]=0.0001..0.0002",
     "sentinel.flips.rate[verdict=KEEP]=0.0001..0.02"),
    ("decisions", f"{RATE}.ci_high[kind=b] < 0.2 => x", f"{RATE}.ci_high[kind=b] < 0.25 => x"),
]  # fmt: skip


@pytest.mark.parametrize(("section", "trips", "passes"), SETTLED)
def test_what_the_size_of_the_run_settles_is_refused(section: str, trips: str, passes: str) -> None:
    """A claim that no result of so many calls and rows can decide is refused, its neighbour not."""
    base = {} if section == "bands" else {"bands": f"{COUNT}=58..68"}
    assert found(claims_of(**base, **{section: trips}), RUN), trips
    assert not found(claims_of(**base, **{section: passes}), RUN), passes


# Claims whose metric has no limit at the place where one might look for it.
OPEN = [
    ("predictions", "calls.seconds.mean.ci_low >= 0"),  # a t interval goes below 0
    ("predictions", "calls.retries.ci_high >= 145"),  # Wilson's limit of all calls
    ("predictions", "calls.hangs.ci_low <= 5"),
    ("predictions", "calls.seconds.median.ci_high <= 5"),
    ("stop", "calls.hangs <= 200 in 145 over 288"),  # fills in a run with retries only
]


@pytest.mark.parametrize(("section", "text"), OPEN)
def test_what_a_run_can_still_decide_is_not_refused(section: str, text: str) -> None:
    """Limits of intervals go beyond the counts; a window may stay open to the end."""
    base = {"bands": f"{COUNT}=58..68"}
    assert found(claims_of(**base, **{section: text}), RUN) == []


# Sets of claims of which some result can satisfy each, and none all; and one that some can.
HOPELESS: list[tuple[dict[str, str | list[str]], dict[str, str | list[str]]]] = [
    ({"bands": f"{COUNT}=1..3", "refuters": [f"{COUNT} <= 2: x", f"{COUNT} > 2: x"]},
     {"bands": f"{COUNT}=1..3", "refuters": [f"{COUNT} <= 1: x", f"{COUNT} > 2: x"]}),
    ({"bands": f"{COUNT}=2..3", "refuters": f"{COUNT} in 1..2 or {COUNT} in 3..4: x"},
     {"bands": f"{COUNT}=2..4", "refuters": f"{COUNT} in 1..2 or {COUNT} in 4..5: x"}),
    ({"predictions": [f"{COUNT} <= 9", f"{COUNT} >= 9"], "refuters": f"{COUNT} = 9: x"},
     {"predictions": [f"{COUNT} <= 9", f"{COUNT} >= 8"], "refuters": f"{COUNT} = 9: x"}),
    ({"bands": f"{COUNT}=18..54", "refuters": f"{RATE} in 0.25..1: x"},
     {"bands": f"{COUNT}=17..54", "refuters": f"{RATE} in 0.25..1: x"}),
    ({"bands": [f"{COUNT}=18..36", f"{RATE}=0.75..0.8"]},
     {"bands": [f"{COUNT}=18..54", f"{RATE}=0.75..0.8"]}),
    ({"bands": f"{COUNT}=1..3", "refuters": f"{COUNT} in 1..4 and sentinel.flips.count <= 72: x"},
     {"bands": f"{COUNT}=1..3", "refuters": f"{COUNT} in 1..4 and sentinel.flips.count <= 71: x"}),
    ({"bands": f"{RATE}.ci_low=0.5..0.6", "predictions": f"{COUNT} >= 60"},
     {"bands": f"{RATE}.ci_low=0.5..0.8", "predictions": f"{COUNT} >= 60"}),
]  # fmt: skip


@pytest.mark.parametrize(("against", "possible"), HOPELESS)
def test_claims_that_no_result_can_pass_together_are_refused(
    against: dict[str, str | list[str]], possible: dict[str, str | list[str]]
) -> None:
    """Bands, predictions and refuters must leave a result that passes, over all metrics."""
    problems = found(claims_of(**against), RUN)
    assert len(problems) == 1
    assert "no result can pass" in problems[0][1]
    assert found(claims_of(**possible), RUN) == []


def test_a_padded_condition_is_seen_through_however_many_rows_there_are() -> None:
    """A contradiction does not hide behind a third metric with many values."""
    many = replace(RUN, table={"sentinel": {("a", None, None): 3000}}, trials=6000)
    refuter = f"{COUNT} <= 5 and {COUNT} >= 140 and sentinel.flips.count >= 3: x"
    [(where, text)] = found(claims_of(bands=f"{COUNT}=6..10", refuters=refuter), many)
    assert (where, "never fires" in text) == ("refuters[0].when", True)


def test_how_often_an_earlier_run_gave_a_verdict_is_known() -> None:
    """Of one row that it called KEEP no two can change; a verdict that it never gave is refused."""
    counts: dict[Given, int] = {("one", 1, "sentinel", "KEEP"): 1}
    facts = replace(RUN, given=counts)
    name = "sentinel.flips_from.count[from_run=one,verdict={}]"
    assert found(claims_of(bands=f"{name.format('KEEP')}=0..1"), facts)
    assert found(claims_of(bands=f"{name.format('KEEP')}=1..9"), facts) == []
    [(where, text)] = found(claims_of(bands=f"{name.format('DROP')}=1..9"), facts)
    assert where == "bands[0].verdict"
    assert "gave no item" in text


def test_the_nearest_values_are_named() -> None:
    """A share that no count gives is answered with those that are possible."""
    [(_, text)] = found(claims_of(bands=f"{RATE}[kind=b]=0.51..0.55"), RUN)
    assert "0.5 and 0.583333" in text


def test_under_exclude_no_share_is_listed() -> None:
    """Rows may be left out, so that any share can come about."""
    exclude = replace(RUN, missing="exclude")
    assert not found(claims_of(bands=f"{RATE}=0.51..0.513"), exclude)
    assert found(claims_of(bands=f"{COUNT}=0..72"), exclude)
    # Whatever is left out, no interval is narrower than that of all rows.
    assert found(claims_of(bands=BAND, decisions=f"{RATE}.ci_high < 0.05 => x"), exclude)
    assert not found(claims_of(bands=BAND, decisions=f"{RATE}.ci_high < 0.06 => x"), exclude)
