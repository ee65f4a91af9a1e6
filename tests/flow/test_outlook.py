"""Planning numbers of a registration: the verdict's own words, enumerated, give the same chances.

Registrations are read from files as `prereg check` reads them; the model is not needed.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import binom, binomtest

from flow.outlooks import AGREE, MANY, RATE, flat, inputs_of, printed, rows_of
from prereg_judge.flow.outlook import outlook
from prereg_judge.registration.claims import tests_in as comparisons_in
from prereg_judge.report.outlook import ASSUMPTION, VERDICTS
from prereg_judge.stats.heterogeneous import poisson_binomial
from prereg_judge.stats.proportions import wilson_interval
from prereg_judge.study.counted import counted, limit_of
from prereg_judge.study.metric import MetricRef
from prereg_judge.verdict import evaluate


def test_the_verdict_on_every_count_gives_the_same_chances(tmp_path: Path) -> None:
    """Each of the 73 results is judged as a run would be; outcomes weighed by scipy's binomial."""
    inputs = inputs_of(tmp_path / "w", MANY)
    claims = inputs.claims
    refs = [c.test.ref for c in claims.bands] + [c.test.ref for c in claims.predictions]
    refs += [t.ref for r in claims.refuters for t in comparisons_in(r.when)]
    refs += [t.ref for d in claims.decisions for t in comparisons_in(d.when)]
    want: dict[str, Counter[str]] = {}
    for k in range(73):
        metrics = {}
        for ref in refs:
            base = counted(ref.base, inputs.catalogue.specs[ref.base.name], k=k, n=72)
            metrics[ref] = base if ref == ref.base else limit_of(ref, base)
        found = evaluate(claims, metrics, stops_tripped={}, scored=144)
        for outcome in found.outcomes:
            weight = float(binom.pmf(k, 72, 63 / 72))
            want.setdefault(outcome.id, Counter())[outcome.outcome] += weight  # type: ignore[assignment]
    rows = outlook(inputs)
    assert [row["id"] for row in rows] == list(want)
    for row in rows:
        assert sum(row["chances"].values()) == pytest.approx(1.0)
        for word, chance in row["chances"].items():
            assert chance == pytest.approx(want[row["id"]][word], abs=1e-10), (row["id"], word)
        assert row["chance"] == next(iter(row["chances"].values()))


def test_the_row_of_a_well_known_band(tmp_path: Path) -> None:
    """n = 72, 58 to 68, 63 expected: chances, interval and width as computed by hand."""
    row = rows_of(tmp_path / "w", MANY)["agree"]
    assert (row["n"], row["can_count"], row["expected"], row["expected_from"]) == (
        72, 72, 63.0, "agree",
    )  # fmt: skip
    assert row["chance_text"] == "inside 0.953, missed low 0.031, missed high 0.016"
    assert row["interval_text"] == "[56.1, 67.2] at 63/72"
    assert row["width"] == pytest.approx(row["interval"][1] - row["interval"][0])
    assert row["best_inside"]["chance"] == pytest.approx(0.956754, abs=1e-6)
    assert row["warnings"] == []
    assert "sample_size" not in row


def test_a_simulation_does_not_contradict_a_combined_condition(tmp_path: Path) -> None:
    """20 000 simulated runs take the decision as often as the chance says."""
    row = rows_of(tmp_path / "w", MANY)["use"]
    counts = (np.random.default_rng(5).random((20_000, 72)) < 63 / 72).sum(axis=1)
    share, z2 = counts / 72, 1.959963984540054**2
    centre = share + z2 / 144
    spread = np.sqrt(z2 * (share * (1 - share) / 72 + z2 / (4 * 72**2)))
    low = (centre - spread) / (1 + z2 / 72)
    hits = int(((low > 0.75) & (counts >= 60) & (counts <= 71)).sum())
    assert 0.05 < row["chance"] < 0.95
    assert binomtest(hits, 20_000, row["chance"]).pvalue > 1e-4


def test_another_claims_expectation_is_used_and_named(tmp_path: Path) -> None:
    """A share and a limit of the same count take it over, on their own scale."""
    rows = rows_of(tmp_path / "w", MANY)
    assert (rows["share"]["expected"], rows["share"]["expected_from"]) == (0.875, "agree")
    assert rows["unstable"]["expected_text"] == "63, says agree"
    assert rows["lower"]["expected_from"] == "agree"


def test_an_expected_limit_means_the_share_that_has_it(tmp_path: Path) -> None:
    """A limit expected where 63 of 72 have it gives the chances that 63 expected gives."""
    rows = rows_of(tmp_path / "w", MANY)
    low = rows["share"]["interval"][0]
    text = f"bands: [{{id: lower, {RATE}.ci_low, between: [0.7, 0.85], expected: {low!r}}}]"
    own = rows_of(tmp_path / "v", text)["lower"]
    assert own["chance"] == pytest.approx(rows["lower"]["chance"], abs=1e-6)


def test_claims_that_expect_different_values_lend_none(tmp_path: Path) -> None:
    """With two expectations of one count a third claim has no chance, and both are named."""
    rows = rows_of(
        tmp_path / "w",
        f"""
bands:
  - {{id: one, {AGREE}, between: [58, 68], expected: 63}}
  - {{id: two, {AGREE}, between: [57, 68], expected: 62}}
  - {{id: three, {AGREE}, between: [56, 68]}}
""",
    )
    assert (rows["one"]["expected"], rows["two"]["expected"]) == (63, 62)
    assert rows["three"]["chance"] is None
    assert rows["three"]["why_not"] == "not computed: one, two expect different values"


def test_without_an_expectation_no_chance_is_invented(tmp_path: Path) -> None:
    """The middle of a band gives the width only; the best chance needs no expectation."""
    text = f"""
bands: [{{id: agree, {AGREE}, between: [58, 68]}}]
predictions: [{{id: least, {AGREE}, at_least: 58}}]
refuters: [{{id: all, when: {{{AGREE}, eq: 72}}, means: certain}}]
"""
    rows = rows_of(tmp_path / "w", text)
    assert {row["chance"] for row in rows.values()} == {None}
    assert {row["expected"] for row in rows.values()} == {None}
    assert rows["agree"]["interval_text"] == "[56.1, 67.2] at 63/72"
    assert rows["agree"]["chance_text"] == (
        "no expectation stated (`expected`); at best 0.957 (at 63.5/72)"
    )
    assert rows["least"]["interval"] is None
    assert rows["least"]["best_inside"] is None


def test_different_counts_in_one_condition_are_not_computed(tmp_path: Path) -> None:
    """How two counts go together is not known, so there is a reason in place of a chance."""
    text = f"""
bands: [{{id: agree, {AGREE}, between: [58, 68], expected: 63}}]
refuters:
  - id: both
    when: {{all: [{{{AGREE}, lt: 50}}, {{metric: sentinel.wrong.count, pass: 1, gt: 9}}]}}
    means: bad
  - {{id: calls, when: {{metric: calls.hangs, gt: 3}}, means: slow}}
"""
    rows = rows_of(tmp_path / "w", text)
    assert rows["both"]["chance"] is None
    assert rows["both"]["n"] is None
    assert rows["both"]["why_not"] == (
        "not computed: sentinel.agreement.count and sentinel.wrong.count[pass=1] are different "
        "counts, and how they go together is not known"
    )
    assert rows["calls"]["why_not"].startswith("not computed: calls.hangs is no count of rows")


def test_claims_that_contradict_lend_none_even_on_the_same_scale(tmp_path: Path) -> None:
    """A rate and a count that expect different values: the rate's own scale settles nothing."""
    text = f"""
bands:
  - {{id: one, {AGREE}, between: [58, 68], expected: 63}}
  - {{id: two, {RATE}, between: [0.7, 0.9], expected: 0.8}}
  - {{id: three, {RATE}, between: [0.75, 0.9]}}
"""
    rows = rows_of(tmp_path / "w", text)
    assert rows["three"]["chance"] is None
    assert rows["three"]["why_not"] == "not computed: one, two expect different values"
    agreed = rows_of(tmp_path / "v", text.replace("expected: 0.8", "expected: 0.875"))
    assert agreed["three"]["expected_from"] == "two"
    assert agreed["three"]["chance"] is not None


def test_a_claim_on_missing_counts_trials(tmp_path: Path) -> None:
    """72 rows in two passes are 144 trials, and nothing says that each of them has a verdict."""
    missing = "metric: sentinel.missing.rate"
    text = f"predictions: [{{id: gaps, {missing}, at_most: 0.05, expected: 0.02}}]\n"
    size = "sample_size: {why: all there are, width: 0.03, power: 0.9}"
    row = rows_of(tmp_path / "w", text + size)["gaps"]
    assert (row["n"], row["unit"]) == (144, "trial")
    width, power = row["sample_size"]["texts"]
    assert re.search(r"wide takes \d+ trials, .*; there are 144, where", width)
    assert re.search(r"to hold takes \d+ trials, .*; there are 144, where", power)
    shown = flat(printed([row]))
    assert row["interval_text"].endswith("at 3/144")
    assert " trials " in shown.partition("Chances are exact")[0]
    assert "trials independent" in shown
    assert "rows independent" not in shown
    assert VERDICTS not in shown
    bands = f"bands: [{{id: agree, {AGREE}, between: [53, 65], expected: 59}}]\n"
    both = outlook(inputs_of(tmp_path / "v", text + bands))
    assert "have a verdict, but for claims on trials without one" in flat(printed(both))
    assert "rows (or trials) independent" in flat(printed(both))
    assert VERDICTS in flat(printed([r for r in both if r["id"] == "agree"]))


def test_the_table_marks_the_primary_claim(tmp_path: Path) -> None:
    """The one claim that the study is about is marked; the title fits after a run, too."""
    rows = outlook(inputs_of(tmp_path / "w", MANY + "primary: least\n"))
    assert [row["id"] for row in rows if row["primary"]] == ["least"]
    shown = printed(rows)
    assert shown.startswith("What the claims are worth")
    assert shown.count("(primary)") == 1


@pytest.mark.parametrize(("expected", "at"), [(7.5, 8), (6.5, 6), (5.5, 6), (4.5, 4)])
def test_of_two_counts_that_are_equally_near_the_even_one(
    tmp_path: Path, expected: float, at: int
) -> None:
    """7.5 of 11 is no float as a share, and the interval is still the one at 8."""
    text = f"bands: [{{id: x, {AGREE}, between: [4, 9], expected: {expected}}}]"
    row = rows_of(tmp_path / "w", text, rows=11)["x"]
    assert row["interval_text"].endswith(f"at {at}/11")
    assert row["interval"][0] == pytest.approx(11 * wilson_interval(at, 11, level=0.95)[0])


def test_a_best_chance_that_is_not_certain_does_not_read_one(tmp_path: Path) -> None:
    """A wide band is missed once in many thousand runs at best, and 1.000 would deny it."""
    text = f"bands: [{{id: x, {AGREE}, between: [20, 52]}}]"
    row = rows_of(tmp_path / "w", text)["x"]
    assert 0.9995 < row["best_inside"]["chance"] < 1
    assert "at best >0.999 (at 36/72)" in row["chance_text"]


def test_where_n_is_open_nothing_is_computed(tmp_path: Path) -> None:
    """With `missing: exclude` the rows are known after the run only; the claim's own words stay."""
    text = f"bands: [{{id: agree, {AGREE}, between: [58, 68], expected: 63}}]"
    row = rows_of(tmp_path / "w", text, missing="exclude")["agree"]
    assert (row["n"], row["chance"], row["interval"], row["expected"]) == (None, None, None, 63)
    assert "known beforehand" in row["chance_text"]


def test_rows_that_cannot_be_counted_take_no_chance(tmp_path: Path) -> None:
    """20 of 72 rows are KEEP: they never are wrongly KEEP, so 13 expected means 13 of 52."""
    text = """
bands:
  - id: wrong
    metric: sentinel.wrong.count
    verdict: KEEP
    pass: 1
    between: [8, 18]
    expected: 13
sample_size: {why: all there are, width: 10, power: 0.9}
"""
    row = rows_of(tmp_path / "w", text, keep=20)["wrong"]
    assert (row["n"], row["can_count"]) == (72, 52)
    assert row["chance"] == pytest.approx(float(binom.cdf(18, 52, 0.25) - binom.cdf(7, 52, 0.25)))
    assert row["interval_text"].endswith("at 13/72")
    assert "(52 can" in printed([row])
    assert row["sample_size"]["power"]["n_needed"] is None
    assert "20 of the 72 rows can never be counted" in row["sample_size"]["texts"][1]


@pytest.mark.parametrize(("expected", "chance"), [(0, 0.0), (72, 0.0), (63, 0.9529553498913039)])
def test_certain_rows_have_certain_outcomes(tmp_path: Path, expected: int, chance: float) -> None:
    """0 and 72 expected of 72 rows leave nothing to chance."""
    text = f"bands: [{{id: agree, {AGREE}, between: [58, 68], expected: {expected}}}]"
    row = rows_of(tmp_path / "w", text)["agree"]
    assert row["chance"] == pytest.approx(chance)
    assert (">0.999" in row["chance_text"], "<0.001" in row["chance_text"]) == (False, False)


def test_rows_that_differ_spread_the_count_less(tmp_path: Path) -> None:
    """Half the rows sure and half in doubt, the mean the same: the band is met more often."""
    row = rows_of(tmp_path / "w", MANY)["agree"]
    mixed = poisson_binomial([1.0] * 36 + [0.75] * 36)
    counts = np.arange(73)
    assert float(mixed @ counts) == pytest.approx(63.0)
    assert float(mixed[58:69].sum()) > row["chance"]
    assert "spreads less" in " ".join(ASSUMPTION.split())


def test_the_table_fits_and_keeps_metric_names_whole(tmp_path: Path) -> None:
    """At 118 columns no line is longer and each registered count can be read in one piece."""
    shown = printed(outlook(inputs_of(tmp_path / "w", MANY)))
    assert max(len(line) for line in shown.splitlines()) <= 118
    assert shown.count("sentinel.agreement.count in 58..68") == 1
    assert shown.count("sentinel.agreement.count >= 60") == 1
    assert shown.count("rows independent of each other") == 1
    for words in ("inside 0.953", "missed low 0.031", "missed high 0.016", "at 63/72", "11.1 wide"):
        assert words in shown
    assert max(len(line) for line in printed([], width=118).splitlines()) <= 118


def test_no_text_of_a_registration_steers_the_terminal(tmp_path: Path) -> None:
    """What looks like markup, or is a control character, is printed and not obeyed."""
    row = rows_of(tmp_path / "w", MANY)["agree"]
    row |= {"registered": "[bold]x[/bold]", "warnings": ["[red]\x1b[31m"]}
    shown = printed([row])
    assert "[bold]x[/bold]" in shown
    assert "[red]\\x1b[31m" in shown
    assert "\x1b" not in shown


def test_the_rows_are_json(tmp_path: Path) -> None:
    """Every row survives JSON unchanged, and has the keys that readers rely on."""
    rows = outlook(inputs_of(tmp_path / "w", MANY))
    assert json.loads(json.dumps(rows, allow_nan=False)) == rows
    keys = {"id", "registered", "n", "expected", "chance", "chance_text", "interval"}
    assert all(keys | {"interval_text", "warnings"} <= row.keys() for row in rows)


def test_a_metric_of_another_kind_of_row_is_another_count(tmp_path: Path) -> None:
    """An expectation of all rows says nothing of the rows of one kind."""
    text = f"""
bands:
  - {{id: all, {AGREE}, between: [58, 68], expected: 63}}
  - {{id: part, {AGREE}, kind: a, between: [25, 33]}}
"""
    rows = rows_of(tmp_path / "w", text)
    assert (rows["part"]["n"], rows["part"]["chance"]) == (36, None)
    assert MetricRef.of("sentinel.agreement.count", kind="a") != MetricRef.of(
        "sentinel.agreement.count"
    )


STOP = "stop: [{id: hangs, when: {metric: calls.hangs, ge: 1}, in_every: 40, over_first: 40}]\n"


def test_beside_a_stop_rule_missing_trials_get_no_chance(tmp_path: Path) -> None:
    """Trials that a stop leaves uncalled count as missing, so that no binomial says how many."""
    text = "bands: [{id: gaps, metric: sentinel.missing.count, between: [0, 2], expected: 1}]\n"
    size = "sample_size: {why: all there are, width: 3, power: 0.9}\n"
    agree = f"predictions: [{{id: agree, {AGREE}, at_least: 15, expected: 16}}]\n"
    rows = rows_of(tmp_path / "w", text + agree + STOP + size + "primary: gaps\n", rows=20)
    gaps = rows["gaps"]
    assert (gaps["n"], gaps["unit"], gaps["reason"]) == (40, "trial", "never called")
    assert (gaps["chance"], gaps["chances"], gaps["best_inside"], gaps["interval"]) == (None,) * 4
    assert "never called count as missing" in gaps["chance_text"]
    for asked in ("width", "power"):
        entry = gaps["sample_size"][asked]
        assert (entry["n_needed"], entry["reason"]) == (None, "never called")
    assert rows["agree"]["chance"] is not None
    free = rows_of(tmp_path / "v", text, rows=20)["gaps"]
    assert free["chance"] == pytest.approx(float(binom.cdf(2, 40, 1 / 40)))


def test_large_counts_are_printed_with_every_whole_digit(tmp_path: Path) -> None:
    """No power stands in the table or in a warning, and the limits are as far apart as is said."""
    text = f"""
bands: [{{id: x, {AGREE}, between: [1518, 1528], expected: 1523.5}}]
refuters: [{{id: bad, when: {{{RATE}, lt: 0.5}}, means: bad}}]
predictions: [{{id: least, {AGREE}.ci_low, at_least: 1400}}]
"""
    rows = rows_of(tmp_path / "w", text, rows=2000)
    low, high = (2000 * x for x in wilson_interval(1524, 2000, level=0.95))
    assert (round(low), round(high)) == (1486, 1560)
    assert rows["x"]["interval_text"] == "[1486, 1560] at 1524/2000"
    assert rows["least"]["expected_text"] == "1524, says x"
    assert "at a true value of 1523 of 2000" in rows["x"]["warnings"][0]
    assert "e+" not in printed(list(rows.values()))
    unstated = rows_of(tmp_path / "v", text.replace(", expected: 1523.5", ""), rows=2000)["x"]
    assert "(at 1523/2000)" in unstated["chance_text"]


def test_every_number_of_the_json_has_its_method(tmp_path: Path) -> None:
    """Level and method stand beside an interval, a method beside chances, a reason beside none."""
    rows = rows_of(tmp_path / "w", MANY)
    for ident, method in (("agree", "wilson, times n"), ("share", "wilson")):
        row = rows[ident]
        assert (row["level"], row["interval_method"], row["reason"]) == (0.95, method, None)
        assert row["chance_method"] == "exact binomial, every count enumerated"
    none = rows_of(tmp_path / "v", f"predictions: [{{id: x, {AGREE}, at_least: 60}}]")["x"]
    assert (none["level"], none["interval_method"], none["chance_method"]) == (None, None, None)
    assert none["reason"] == "no expectation"


@pytest.mark.parametrize(
    ("claims", "reason"),
    [
        ("predictions: [{id: x, metric: calls.seconds.mean, at_most: 9}]", "no count"),
        (
            f"bands: [{{id: a, {AGREE}, between: [58, 68], expected: 63}}, "
            f"{{id: b, {AGREE}, between: [57, 68], expected: 62}}, "
            f"{{id: x, {AGREE}, between: [56, 68]}}]",
            "different expectations",
        ),
        (
            f"refuters: [{{id: x, when: {{all: [{{{AGREE}, lt: 50}}, "
            "{metric: sentinel.wrong.count, pass: 1, gt: 9}]}, means: bad}]\n"
            f"predictions: [{{id: p, {AGREE}, at_least: 40}}]",
            "different counts",
        ),
    ],
)
def test_why_there_is_no_chance_is_typed(tmp_path: Path, claims: str, reason: str) -> None:
    """A reader of the JSON need not read the sentence."""
    primary = "" if "id: p" not in claims else "\nprimary: p\n"
    row = rows_of(tmp_path / "w", claims + primary)["x"]
    assert (row["chance"], row["reason"]) == (None, reason)
