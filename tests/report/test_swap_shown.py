"""What a scored study that exchanges references shows and writes, through the commands."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from labelling_work import locked, swap_keys, write_spans, write_swap
from prereg_judge.report.swap_rows import differences, neutrality
from prereg_judge.study.metric import Metric, MetricRef
from report.test_pairs import SCHEMA
from support import prereg
from tabling import band, scored, write_table

MAP = {"PER": "NAME", "LOC": "NAME", "ORG": "NAME"}
FAMILY = [{"metric": "delta", "output": "A"}, {"metric": "interaction"}]


def study(root: Path, **keys: Any) -> Any:
    """The score of a study of made spans, which has the form of the schema."""
    write_spans(root, "rows")
    write_swap(root, **keys)
    found = scored(locked(root), "x")
    jsonschema.validate(found, SCHEMA)
    return found


def shown(root: Path, monkeypatch: pytest.MonkeyPatch, *args: str, columns: int = 80) -> str:
    """The summary at so many columns."""
    monkeypatch.setenv("COLUMNS", str(columns))
    done = prereg("score", "x", *args, root=root)
    assert done.code == 0, done
    assert "Traceback" not in done.err
    return done.out


def words(text: str) -> str:
    """Text with its spaces, lines and frames run together."""
    return " ".join(re.sub("[┃│]", " ", text).split())


def test_the_score_holds_each_output_under_each_reference(tmp_path: Path) -> None:
    """F1 by output and reference with n and interval, the same numbers as in the list; differences
    with p, and Holm's for those of the family alone; the skew of each reference; the band.
    """
    found = study(tmp_path, merge=MAP, family=FAMILY)
    swap = found["reference_swap"]
    assert (swap["outputs"], swap["references"]) == (["A", "B"], ["gold", "C"])
    assert (swap["match"], swap["duplicates"], found["annotators"]) == ("relaxed", "keep_all", None)
    listed = {(m["metric"], tuple(sorted(m["params"].items()))): m for m in found["metrics"]}
    for output, row in zip(swap["outputs"], swap["scores"], strict=True):
        for reference, cell in zip(swap["references"], row, strict=True):
            assert cell == listed["f1", (("output", output), ("reference", reference))]
            assert cell["n"] == 12
            assert cell["interval"]["low"] <= cell["value"] <= cell["interval"]["high"]
    rows = swap["differences"]
    names = [row["difference"]["metric"] for row in rows]
    assert names == ["delta", "delta", "margin", "margin", "interaction"]
    assert all(row["p"]["metric"] == f"{row['difference']['metric']}.p" for row in rows)
    assert [row["p_holm"] is not None for row in rows] == [True, False, False, False, True]
    assert [row["reference"] for row in swap["neutrality"]] == ["gold", "C"]
    (a, b), skew = swap["neutrality"][0]["equal"], swap["neutrality"][0]["difference"]
    assert a["value"] - b["value"] == pytest.approx(skew["value"])
    width = swap["band"]["width"]
    assert width == listed["band.width", ()]["value"]
    assert all(abs(margin["value"]) <= width for margin in swap["band"]["inside"])
    assert len(swap["band"]["inside"]) == listed["band.margins.count", ()]["value"]
    assert swap["confusions"]
    assert all(c["hidden"] for c in swap["confusions"])
    of_a = [
        c["count"] for c in swap["confusions"] if (c["output"], c["reference"]) == ("A", "gold")
    ]
    pair = (("output", "A"), ("reference", "gold"))
    assert sum(of_a) == listed["merge.hidden.count", pair]["n"]
    assert swap["policies"] == []


def test_the_heading_says_what_was_read(tmp_path: Path) -> None:
    """Files, rows and rows that count, outputs and references, how marks match, the family."""
    facts = study(tmp_path, merge=MAP, family=FAMILY)["facts"]
    assert facts["labellings"] == "data/spans.jsonl (rows); 12 rows of spans by A, B, gold, C"
    assert facts["scored"] == "12 of 12 rows"
    assert (facts["outputs"], facts["references"]) == ("A, B", "gold (delivered), C")
    assert (facts["match"], facts["duplicates"]) == ("relaxed", "keep_all; no copies")
    assert facts["family"] == "2 tests (Holm): delta[output=A], interaction"
    assert facts["map"] == "PER → NAME, LOC → NAME, ORG → NAME"


def test_the_summary_fits_80_columns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No line is longer; each table says what n, level and method its numbers have."""
    found = study(tmp_path, merge=MAP, family=FAMILY)
    text = shown(tmp_path, monkeypatch)
    assert max(map(len, text.splitlines())) <= 80
    said = words(text)
    assert "F1 of each output under each reference, match relaxed (n = 12; 95% percentile" in said
    assert "output gold (delivered) C" in said.replace("━", "")
    value = found["reference_swap"]["scores"][0][0]["value"]
    assert f"A {value:.4f}".rstrip("0") in said
    assert "delta of A, to C +" in said
    assert "margin A - B, under gold +" in said
    assert "interaction A - B, to C +" in said
    assert "Holm: adjusted over the registered family; - : not in it." in said
    assert "Neutrality: rows on which a reference equals an output exactly" in said
    band_words = (
        f"Reference-sensitivity band: {found['reference_swap']['band']['width']:.4f}".rstrip("0")
    )
    assert band_words in said
    assert "(n = 12); descriptive and selected" in said
    assert "hidden by the map" in said
    assert said.count("descriptive and selected") < 5


def test_what_stands_in_a_table_is_not_listed_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The list of numbers leaves out scores and differences; with --all every metric is there."""
    found = study(tmp_path)
    for args in ((), ("--all",)):
        text = shown(tmp_path, monkeypatch, *args, columns=200)
        numbers = words(text[text.index("Numbers") : text.index("F1 of each output")])
        listed = [m for m in found["metrics"] if m["metric"] in ("f1", "delta", "skew.p")]
        named = "".join(numbers.split())
        for metric in listed:
            params = ",".join(f"{k}={v}" for k, v in metric["params"].items())
            assert (f"{metric['metric']}[{params}]" in named) is bool(args)


def test_many_references_stand_below_each_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More than three references are shown in further tables, so that 80 columns are enough."""
    header = ("id", "A", "B", "one", "two", "three", "four", "five")
    rows = [(f"i{n}", *("xyz"[(n * k) % 3] for k in range(1, 8))) for n in range(12)]
    write_table(tmp_path / "data/l.csv", header, rows)
    files = [{"file": "data/l.csv", "format": "rows", "item": "id",
              "labellings": {name: name for name in header[1:]}}]  # fmt: skip
    keys = {"form": "labels", "files": files, "match": "strict", "duplicates": "keep_all",
            "outputs": ["A", "B"], "references": list(header[3:])}  # fmt: skip
    write_swap(tmp_path, labellings=keys, bands=[band("d", "delta", [-0.9, 0.9], output="A")])
    found = scored(locked(tmp_path), "x")
    jsonschema.validate(found, SCHEMA)
    text = shown(tmp_path, monkeypatch)
    assert max(map(len, text.splitlines())) <= 80
    said = words(text).replace("━", "")
    assert "output one (delivered) two three" in said
    assert "Further references" in said
    assert "output four five" in said


def test_copies_are_shown_under_every_policy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The four policies stand beside each other with their rows, the registered one marked."""
    header = ("id", "text", "A", "B", "gold", "C")
    rows = [(f"i{n}", f"t{n // 2 if n < 6 else n}", "xy"[n % 2], "x", "xy"[n % 2], "yx"[n % 3 == 0])
            for n in range(14)]  # fmt: skip
    write_table(tmp_path / "data/l.csv", header, rows)
    files = [{"file": "data/l.csv", "format": "rows", "item": "id", "same": "text",
              "labellings": {name: name for name in header[2:]}}]  # fmt: skip
    keys = swap_keys(form="labels", files=files, match="strict", duplicates="first")
    write_swap(tmp_path, labellings=keys, bands=[band("d", "delta", [-0.9, 0.9], output="A")])
    found = scored(locked(tmp_path), "x")
    jsonschema.validate(found, SCHEMA)
    rows_of = {under["policy"]: under["rows"] for under in found["reference_swap"]["policies"]}
    assert rows_of == {"keep_all": 14, "first": 11, "drop": 8, "merge_equal": 14}
    assert (
        found["facts"]["duplicates"]
        == "first; 6 rows are copies; 11 items are resampled, each with all of its rows"
    )
    text = shown(tmp_path, monkeypatch)
    assert max(map(len, text.splitlines())) <= 80
    said = words(text)
    assert "keep_all first * drop merge_equal" in said
    assert "14 rows 11 rows 8 rows 14 rows" in said


def test_a_difference_finds_its_own_p_values() -> None:
    """A difference of a stratum, or of another match, is no row; a p of other parameters is not
    taken; a list without p-values, or without shares, gives rows without them.
    """

    def metric(name: str, **params: str) -> Metric:
        return Metric(MetricRef.of(name, **params), 0.1, "F1", "made", n=3)

    made = [
        metric("delta", output="A", reference="C"),
        metric("delta.p", output="A", reference="C"),
        metric("delta.p", output="B", reference="C"),
        metric("delta", output="A", reference="C", stratum="s"),
        metric("delta", output="A", reference="C", match="strict"),
        metric("delta", output="A", reference="C", subset="decontaminated"),
        metric("margin", output="A", other="B", reference="C"),
        metric("skew", output="A", other="B", reference="C"),
    ]
    rows = differences(made)
    assert [row.difference for row in rows] == [made[0], made[6]]
    assert [row.p for row in rows] == [made[1], None]
    assert [row.p_holm for row in rows] == [None, None]
    assert [row.difference for row in differences(made, subset="decontaminated")] == [made[5]]
    assert list(neutrality(made)) == []
    shares = [metric("exact.rate", output=name, reference="C") for name in "AB"]
    (row,) = neutrality([*made, *shares])
    assert (row.outputs, row.equal, row.skew.p) == (("A", "B"), tuple(shares), None)
