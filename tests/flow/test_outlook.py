"""Planning numbers of a registration: the verdict's own words, enumerated, give the same chances.

Registrations are read from files as `prereg check` reads them; the model is not needed.
"""

from __future__ import annotations

import io
import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console
from scipy.stats import binom, binomtest

from prereg_judge.flow.outlook import outlook
from prereg_judge.flow.prepare import Inputs, read_inputs
from prereg_judge.registration.claims import tests_in as comparisons_in
from prereg_judge.report.outlook import ASSUMPTION, expectation_table
from prereg_judge.stats.heterogeneous import poisson_binomial
from prereg_judge.stats.proportions import wilson_interval
from prereg_judge.study.counted import counted, limit_of
from prereg_judge.study.metric import MetricRef
from prereg_judge.verdict import evaluate
from prereg_judge.workspace import Workspace

REPOSITORY = Path(__file__).parents[2]
DEMO = (REPOSITORY / "registrations/demo-self-agreement.yaml").read_text(encoding="utf-8")
AGREE = "metric: sentinel.agreement.count"
RATE = "metric: sentinel.agreement.rate"


def inputs_of(
    root: Path, claims: str, *, rows: int = 72, keep: int = 0, missing: str = "disagree"
) -> Inputs:
    """The demo registration with other claims, over `rows` rows of which `keep` are KEEP."""
    for folder in ("registrations", "judge", "sentinels"):
        (root / folder).mkdir(parents=True)
    judge = (REPOSITORY / "judge/keep-drop.yaml").read_bytes()
    (root / "judge/keep-drop.yaml").write_bytes(judge)
    items = [
        {"id": f"r{i}", "label": "KEEP" if i < keep else "DROP", "kind": "ab"[i % 2],
         "question": "q", "original": "o", "rewrite": f"rewritten {i}"}
        for i in range(rows)
    ]  # fmt: skip
    text = "".join(json.dumps(item) + "\n" for item in items)
    (root / "sentinels/customer-service-72.jsonl").write_text(text, encoding="utf-8")
    head = DEMO[: DEMO.index("# Intervals in which metrics")]
    head = head.replace("missing: disagree", f"missing: {missing}")
    ids = re.findall(r"id: ([a-z-]+)", claims)
    primary = "" if "primary:" in claims else f"primary: {ids[0]}\n"
    body = f"{head}\n{claims}\n{primary}exposure: {{seen: nothing}}\n"
    (root / "registrations/demo-self-agreement.yaml").write_text(body, encoding="utf-8")
    return read_inputs(Workspace(root), "demo-self-agreement")


def rows_of(root: Path, claims: str, **more: Any) -> dict[str, dict[str, Any]]:
    """The outlook's rows by claim."""
    return {row["id"]: row for row in outlook(inputs_of(root, claims, **more))}


def printed(rows: list[dict[str, Any]], *, width: int = 118) -> str:
    """The table as a terminal of this width shows it."""
    out = io.StringIO()
    Console(file=out, width=width, highlight=False, emoji=False).print(expectation_table(rows))
    return out.getvalue()


def flat(text: str) -> str:
    """Without line ends, as a sentence is read."""
    return " ".join(text.split())


MANY = f"""
bands:
  - {{id: agree, {AGREE}, between: [58, 68], expected: 63}}
  - {{id: share, {RATE}, between: [0.85, 0.95]}}
  - {{id: lower, {RATE}.ci_low, between: [0.7, 0.85]}}
predictions:
  - {{id: least, {AGREE}, at_least: 60}}
  - {{id: upper, {AGREE}.ci_high, at_most: 70}}
refuters:
  - {{id: unstable, when: {{{AGREE}, lt: 50}}, means: too unstable}}
  - id: odd
    when:
      any:
        - {{{AGREE}, eq: 72}}
        - {{all: [{{{RATE}, lt: 0.8}}, {{{RATE}.ci_high, gt: 0.85}}]}}
    means: odd
decisions:
  - id: use
    when: {{all: [{{{RATE}.ci_low, gt: 0.75}}, {{{AGREE}, between: [60, 71]}}]}}
    then: use it
"""


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


SIZE = "sample_size: {why: all there are, width: %s, power: %s}"


@pytest.mark.parametrize(
    ("claim", "width", "power", "rows"),
    [
        (f"bands: [{{id: x, {AGREE}, between: [58, 68], expected: 63}}]", 7.2, 0.9, (173, 62)),
        (
            f"bands: [{{id: x, {RATE}, between: [0.81, 0.95], expected: 0.875}}]",
            0.1,
            0.9,
            (173, 69),
        ),
        (f"predictions: [{{id: x, {RATE}.ci_low, at_least: 0.75, expected: 0.8}}]", 0.1, 0.8, ()),
    ],
)
def test_rows_needed_are_told_where_they_are_asked_for(
    tmp_path: Path, claim: str, width: float, power: float, rows: tuple[int, ...]
) -> None:
    """Width and power of the primary claim, against the rows there are, by brute force."""
    row = rows_of(tmp_path / "w", f"{claim}\n{SIZE % (width, power)}")["x"]
    found = row["sample_size"]
    share = width / 72 if width > 1 else width

    def width_at(n: int) -> float:
        low, high = wilson_interval(round(row["share"] * n), n, level=0.95)
        return high - low

    n = found["width"]["n_needed"]
    assert width_at(n - 1) > share
    assert all(width_at(m) <= share for m in range(n, 2 * n))
    assert found["power"]["here"] == row["chance"]
    if rows:
        assert (n, found["power"]["n_needed"]) == rows
    shown = flat(printed([row]))
    assert f"takes {n} rows; there are 72" in shown
    assert f"takes {found['power']['n_needed']} rows; there are 72" in shown


@pytest.mark.parametrize(
    ("claim", "said"),
    [
        (f"{{id: x, {RATE}, at_least: 0.9, expected: 0.8}}", "does not clear the limits"),
        (f"{{id: x, {RATE}, at_least: 0.9, expected: 0.9}}", "a limit is what is expected"),
        (f"{{id: x, {RATE}, at_least: 0.9}}", "no expectation stated"),
        (f"{{id: x, {RATE}, at_least: 0.5, expected: 0.5001}}", "more rows than are looked at"),
        ("{id: x, metric: calls.seconds.mean, at_most: 9, expected: 5}", "no count of rows"),
    ],
)
def test_what_no_number_of_rows_can_do_is_said(tmp_path: Path, claim: str, said: str) -> None:
    """A typed reason stands in the place of a number."""
    row = rows_of(tmp_path / "w", f"predictions: [{claim}]\n{SIZE % (0.1, 0.8)}")["x"]
    assert row["sample_size"]["power"]["n_needed"] is None
    assert said in row["sample_size"]["power"]["why_not"]
    assert said in flat(printed([row]))


def test_what_is_nearly_certain_is_never_rounded_to_certain(tmp_path: Path) -> None:
    """68 of 72 at most with 40 expected: the rest keeps its digits and the chance reads >0.999."""
    text = f"predictions: [{{id: x, {AGREE}, at_most: 68, expected: 40}}]\n{SIZE % (20, 0.9)}"
    row = rows_of(tmp_path / "w", text)["x"]
    rest = float(binom.sf(68, 72, 40 / 72))
    assert 0 < rest < 1e-12
    assert row["chances"]["failed"] == pytest.approx(rest, rel=1e-9)
    assert f"has a chance of {rest:.2g}," in row["warnings"][0]
    assert "where the chance is >0.999" in row["sample_size"]["texts"][1]


def test_nothing_is_told_of_rows_that_was_not_asked(tmp_path: Path) -> None:
    """Only the primary claim's row has rows needed, and none without a width or a power."""
    named = MANY + "sample_size: {why: all there are, width: 5}\nprimary: least\n"
    with_size = [i for i, row in rows_of(tmp_path / "b", named).items() if "sample_size" in row]
    assert with_size == ["least"]
    why = MANY + "primary: least\nsample_size: {why: all there are}\n"
    assert not any("sample_size" in row for row in rows_of(tmp_path / "c", why).values())


@pytest.mark.parametrize(
    ("claims", "ident", "said"),
    [
        (f"bands: [{{id: x, {AGREE}, between: [62, 64], expected: 63}}]", "x",
         ["narrower than sampling noise alone: no true value lands inside with a chance of 0.8; "
          "the best chance is 0.406, at a true value of 63 of 72"]),
        (f"bands: [{{id: x, {AGREE}, between: [40, 70], expected: 58}}]", "x",
         ["nearly certain if the expected value (58) is true: any other outcome than inside has a "
          "chance of 3.5e-06, so that it says little beyond the expectation"]),
        (f"predictions: [{{id: x, {AGREE}, at_least: 71, expected: 58}}]", "x",
         ["nearly impossible if the expected value (58) is true: held has a chance of 3.2e-06"]),
        (f"predictions: [{{id: x, {AGREE}, at_least: 60, expected: 60}}]", "x",
         ["its limit 60 is what is expected, so that chance alone decides on which side of it a "
          "result falls (chance to hold 0.576)"]),
        (f"predictions: [{{id: x, {AGREE}, at_least: 3}}]", "x",
         ["holds at 70 of the 73 counts that can occur of 72 rows, whatever is expected"]),
        (f"bands: [{{id: a, {AGREE}, between: [52, 68], expected: 60}}]\n"
         f"refuters: [{{id: x, when: {{{AGREE}, lt: 56}}, means: bad}}]", "x",
         ["fires with a chance of 0.0816 though the expected value (60, says a) is true; it "
          "should stay below 0.05"]),
        (f"bands: [{{id: x, {AGREE}, between: [53, 65], expected: 59}}]", "x", []),
        (f"bands: [{{id: a, {AGREE}, between: [53, 65], expected: 59}}]\n"
         f"decisions: [{{id: x, when: {{{AGREE}, lt: 40}}, then: stop}}]", "x", []),
        (f"predictions: [{{id: x, {AGREE}, at_most: 0, expected: 0}}]", "x",
         ["nearly certain if the expected value (0) is true: any other outcome than held has a "
          "chance of 0, so that it says little beyond the expectation"]),
    ],
)  # fmt: skip
def test_warnings_are_plain_and_carry_their_numbers(
    tmp_path: Path, claims: str, ident: str, said: list[str]
) -> None:
    """One warning a cause, below the table; a sober claim gets none."""
    row = rows_of(tmp_path / "w", claims)[ident]
    assert row["warnings"] == said
    shown = flat(printed([row]))
    assert shown.count("Warning: ") == len(said)
    assert all(f"Warning: {ident}: {text}." in shown for text in said)


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
