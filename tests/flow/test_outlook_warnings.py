"""What a registrant is warned of, and how many rows are said to be needed.

Registrations are read from files as `prereg check` reads them; the model is not needed.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

from flow.outlooks import AGREE, MANY, RATE, SIZE, flat, inputs_of, printed, rows_of
from prereg_judge.flow.outlook_warnings import warnings_of
from prereg_judge.stats.proportions import wilson_interval


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
    every = "every larger number being enough, too; there are 72"
    assert f"takes {n} rows, {every}" in shown
    assert f"takes {found['power']['n_needed']} rows, {every}" in shown


@pytest.mark.parametrize(
    ("claim", "said"),
    [
        (
            f"{{id: x, {RATE}, at_least: 0.9, expected: 0.8}}",
            "does not clear the limits, so that with more of them the chance tends to 0",
        ),
        (
            f"{{id: x, {RATE}, at_least: 0.9, expected: 0.9}}",
            "a limit is what is expected, so that with more of them the chance tends to 0.5",
        ),
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
    if row["chance"] is not None:
        here = f"; with the 72 rows here the chance is {row['chance']:.3f}."
        assert row["sample_size"]["texts"][1].endswith(here)
    assert said in flat(printed([row]))


def test_what_is_nearly_certain_is_never_rounded_to_certain(tmp_path: Path) -> None:
    """68 of 72 at most with 40 expected: the rest keeps its digits and the chance reads >0.999."""
    text = f"predictions: [{{id: x, {AGREE}, at_most: 68, expected: 40}}]\n{SIZE % (20, 0.9)}"
    row = rows_of(tmp_path / "w", text)["x"]
    rest = float(binom.sf(68, 72, 40 / 72))
    assert 0 < rest < 1e-12
    assert row["chances"]["failed"] == pytest.approx(rest, rel=1e-9)
    assert "any other outcome than held has a chance of <0.001, " in row["warnings"][0]
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
          "chance of <0.001, so that it says little beyond the expectation"]),
        (f"predictions: [{{id: x, {AGREE}, at_least: 71, expected: 58}}]", "x",
         ["nearly impossible if the expected value (58) is true: held has a chance of <0.001"]),
        (f"predictions: [{{id: x, {AGREE}, at_least: 60, expected: 60}}]", "x",
         ["its limit 60 is what is expected, so that chance alone decides on which side of it a "
          "result falls (chance to hold 0.576)"]),
        (f"predictions: [{{id: x, {AGREE}, at_least: 3}}]", "x",
         ["holds at 70 of the 73 counts that can occur of 72 rows, whatever is expected"]),
        (f"bands: [{{id: a, {AGREE}, between: [52, 68], expected: 60}}]\n"
         f"refuters: [{{id: x, when: {{{AGREE}, lt: 56}}, means: bad}}]", "x",
         ["fires with a chance of 0.082 though the expected value (60, says a) is true; it "
          "should stay below 0.05"]),
        (f"bands: [{{id: x, {AGREE}, between: [53, 65], expected: 59}}]", "x", []),
        (f"bands: [{{id: a, {AGREE}, between: [53, 65], expected: 59}}]\n"
         f"decisions: [{{id: x, when: {{{AGREE}, lt: 40}}, then: stop}}]", "x", []),
        (f"predictions: [{{id: x, {AGREE}, at_most: 0, expected: 0}}]", "x",
         ["certain if the expected value (0) is true: no other outcome than held can occur, so "
          "that it says nothing beyond the expectation"]),
        (f"predictions: [{{id: x, {AGREE}, at_least: 3, expected: 0}}]", "x",
         ["impossible if the expected value (0) is true: held cannot occur",
          "holds at 70 of the 73 counts that can occur of 72 rows, whatever is expected"]),
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


WARNED = {
    "kind": "band", "n": 72, "unit": "row", "chance": None, "chances": None, "best_inside": None,
    "expected_text": "1",
}  # fmt: skip


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({"chance": 0.99, "chances": {"inside": 0.99, "missed low": 0.01}}, ["nearly certain"]),
        ({"chance": 0.989, "chances": {"inside": 0.989, "missed low": 0.011}}, []),
        ({"chance": 0.01, "chances": {"inside": 0.01, "missed low": 0.99}}, ["nearly impossible"]),
        ({"chance": 0.011, "chances": {"inside": 0.011, "missed low": 0.989}}, []),
        ({"kind": "refuter", "chance": 0.05, "chances": {"fired": 0.05, "silent": 0.9}}, ["fires"]),
        ({"kind": "refuter", "chance": 0.049, "chances": {"fired": 0.049, "silent": 0.9}}, []),
        ({"best_inside": {"chance": 0.8, "at": 3.0, "of": 9}}, []),
        ({"best_inside": {"chance": 0.799, "at": 3.0, "of": 9}}, ["narrower than"]),
    ],
)  # fmt: skip
def test_a_warning_comes_at_its_threshold_and_not_before(
    tmp_path: Path, row: dict[str, Any], said: list[str]
) -> None:
    """At least 0.99, at most 0.01, at least 0.05, below 0.8: as the documentation says."""
    claims = inputs_of(tmp_path / "w", f"bands: [{{id: x, {AGREE}, between: [5, 9]}}]").claims
    values = np.arange(73.0)
    found = warnings_of(
        {**WARNED, **row}, claims.bands[0].test, values=lambda _: values, at=None,
        chance_at=lambda _, value: value / 72,
    )  # fmt: skip
    assert [text.startswith(words) for text, words in zip(found, said, strict=True)] == [
        True for _ in said
    ]


@pytest.mark.parametrize(("least", "warned"), [(1, True), (2, False)])
def test_nineteen_of_twenty_counts_are_nearly_all(tmp_path: Path, least: int, warned: bool) -> None:
    """Of the twenty counts of 19 rows, nineteen are 95% and eighteen are not."""
    text = f"predictions: [{{id: x, {AGREE}, at_least: {least}}}]"
    found = rows_of(tmp_path / "w", text, rows=19)["x"]["warnings"]
    assert any(text.startswith(f"holds at {20 - least} of the 20") for text in found) == warned


@pytest.mark.parametrize(
    ("fired", "silent", "words"),
    [
        (1.0, 0.0, "is certain to fire though the expected value (1) is true"),
        (1.0, 1e-20, "fires with a chance of >0.999 though"),
        (0.9999, 0.0001, "fires with a chance of >0.999 though"),
        (0.0502, 0.9498, "fires with a chance of 0.0502 though"),
    ],
)
def test_a_refuter_that_fires_is_told_with_its_chance(
    tmp_path: Path, fired: float, silent: float, words: str
) -> None:
    """Only where nothing is left for `silent` is the word certain; what is above 0.05 reads so."""
    claims = inputs_of(tmp_path / "w", f"bands: [{{id: x, {AGREE}, between: [5, 9]}}]").claims
    chances = {"fired": fired, "silent": silent}
    row = {**WARNED, "kind": "refuter", "chance": fired, "chances": chances}
    (text,) = warnings_of(
        row, claims.bands[0].test, values=lambda _: np.arange(73.0), at=0.5,
        chance_at=lambda _, value: value / 72,
    )  # fmt: skip
    assert text.startswith(words)


@pytest.mark.parametrize(
    ("claims", "n", "said"),
    [
        (
            f"bands: [{{id: x, {RATE}, between: [0.6, 1], expected: 0.7}}]\n{SIZE % (0.2, 0.9)}",
            77,
            "takes 78 rows, every larger number being enough, too; there are 77, where it is "
            "0.2005 wide.",
        ),
        (
            f"bands: [{{id: x, {AGREE}, between: [12, 18], expected: 15}}]\n{SIZE % (9, 0.8)}",
            30,
            "where the chance is 0.7995.",
        ),
        (
            f"bands: [{{id: x, {AGREE}, between: [12, 18]}}]",
            30,
            "no true value lands inside with a chance of 0.8; the best chance is 0.7995, at",
        ),
    ],
)
def test_a_number_lies_on_its_side_of_what_it_is_compared_with(
    tmp_path: Path, claims: str, n: int, said: str
) -> None:
    """What falls short of 0.8 by half a thousandth does not read 0.800."""
    assert said in flat(printed(list(rows_of(tmp_path / "w", claims, rows=n).values())))


def test_what_is_registered_is_repeated_with_all_of_its_digits(tmp_path: Path) -> None:
    """A limit and an expected value of seven digits are those that the registration states."""
    text = f"predictions: [{{id: x, {RATE}, at_least: 0.7617505, expected: 0.7617505}}]"
    row = rows_of(tmp_path / "w", text)["x"]
    assert row["expected_text"] == "0.7617505"
    assert row["warnings"][0].startswith("its limit 0.7617505 is what is expected")
    assert "1235 wide" in printed([row | {"width": 1234.6}])


def test_a_wish_that_is_met_by_luck_says_so(tmp_path: Path) -> None:
    """Forty trials are enough and some number above them is not: the sentence tells both."""
    text = "bands: [{id: gaps, metric: sentinel.missing.count, between: [0, 2], expected: 1}]\n"
    row = rows_of(tmp_path / "w", text + SIZE % (9, 0.9), rows=20)["gaps"]
    width, power = row["sample_size"]["texts"]
    assert row["sample_size"]["power"]["n_needed"] == 100
    assert binom.cdf(int(99 * 0.05), 99, 1 / 40) < 0.9 < row["chance"]
    assert power.endswith(
        "takes 100 trials, every larger number being enough, too; there are 40, where the chance "
        "is 0.922, but not with every number above 40."
    )
    assert "but not with" not in width


@pytest.mark.parametrize(
    ("metric", "width", "scale", "warned"),
    [
        (AGREE, 0.1, "0.1 rows of 20 wide", "less than one row; if a share was meant, write 2"),
        (AGREE, 1, "1 row of 20 wide", None),
        (AGREE, 9.8, "9.8 rows of 20 wide", None),
        (AGREE, 20, "20 rows of 20 wide", "no interval is that wide"),
        (RATE, 0.3, "0.3 (share) wide", None),
        (RATE, 1, "1 (share) wide", "no share's interval is that wide"),
        (RATE, 9.8, "9.8 (share) wide", "no share's interval is that wide"),
    ],
)
def test_the_scale_of_a_wanted_width_is_said(
    tmp_path: Path, metric: str, width: float, scale: str, warned: str | None
) -> None:
    """Rows or a share, in the sentence; a width that can hardly be meant so is warned of."""
    limits = "[12, 16], expected: 13.25" if metric == AGREE else "[0.6, 0.8], expected: 0.6625"
    claim = f"bands: [{{id: x, {metric}, between: {limits}}}]"
    size = f"\nsample_size: {{why: all there are, width: {width}}}"
    row = rows_of(tmp_path / "w", claim + size, rows=20)["x"]
    (text,) = row["sample_size"]["texts"]
    assert f"a 95% interval at most {scale} takes" in text
    found = [w for w in row["warnings"] if w.startswith("the wanted width")]
    assert len(found) == (warned is not None)
    assert all(str(warned) in w for w in found)


@pytest.mark.parametrize(
    ("claim", "reason", "tends_to"),
    [
        (f"{{id: x, {RATE}, at_least: 0.9, expected: 0.8}}", "wrong side", None),
        (f"{{id: x, {RATE}, at_least: 0.9, expected: 0.9}}", "on the bar", 0.5),
        (f"{{id: x, {RATE}, at_least: 0.5, expected: 0.5001}}", "beyond the search", None),
        (f"{{id: x, {RATE}, at_least: 0.9}}", "no expectation", None),
        (f"{{id: x, {RATE}, at_least: 0.5, expected: 0.8}}", None, None),
    ],
)
def test_why_no_number_is_enough_is_typed(
    tmp_path: Path, claim: str, reason: str | None, tends_to: float | None
) -> None:
    """The reason and what the chance tends to are there for a reader of the JSON."""
    row = rows_of(tmp_path / "w", f"predictions: [{claim}]\n{SIZE % (0.1, 0.8)}")["x"]
    entry = row["sample_size"]["power"]
    assert (entry["reason"], entry["tends_to"]) == (reason, tends_to)
    assert (entry["n_needed"] is None) == (reason is not None)
