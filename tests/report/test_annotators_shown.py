"""What a scored study of annotators shows and writes, through the commands."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jsonschema
import pytest

from labelling_work import (
    F1,
    SCALE,
    SETTLED,
    label_keys,
    locked,
    span_keys,
    write_annotators,
    write_labels,
    write_spans,
)
from prereg_judge.report.numbers import explained, observed
from prereg_judge.study.metric import Interval, Metric, MetricRef
from report.test_pairs import SCHEMA
from report.test_swap_shown import shown, words
from tabling import scored

MAP = {"low": "below", "mid": "below"}
POOLS = [{"name": "near", "match": ["A", "gold"]}, {"name": "far", "match": ["B", "C"]}]


def study(root: Path, **keys: Any) -> Any:
    """The score of a study of made labels, which has the form of the schema."""
    write_labels(root)
    write_spans(root, "rows")
    write_annotators(root, **keys)
    found = scored(locked(root), "x")
    jsonschema.validate(found, SCHEMA)
    return found


def test_the_score_holds_pools_pairs_and_confusions(tmp_path: Path) -> None:
    """The numbers are those of the list; confusions sum to the pairs that differ, and those that
    the map hides are marked.
    """
    found = study(tmp_path, labellings=label_keys(pools=POOLS), merge=MAP)
    view = found["annotators"]
    assert found["reference_swap"] is None
    assert [group["pool"] for group in view["pools"]] == ["near", "far"]
    assert [group["pool"] for group in view["merged"]] == [None, "near", "far"]
    assert len(view["pairs"]) == 6
    listed = [(m["metric"], m["params"], m["value"]) for m in found["metrics"]]
    for metric in view["pairs"]:
        assert (metric["metric"], metric["params"], metric["value"]) in listed
    hidden = {tuple(c["labels"]): c["hidden"] for c in view["confusions"]}
    assert {frozenset(pair) for pair, is_hidden in hidden.items() if is_hidden} == {
        frozenset({"low", "mid"})
    }
    (rate,) = (m for m in found["metrics"] if m["metric"] == "agreement.rate" and not m["params"])
    assert sum(c["pairs"] for c in view["confusions"]) == rate["n"] - rate["k"]


def test_the_heading_says_what_was_read(tmp_path: Path) -> None:
    """Votes with one pool, ratings, what the labels mean, and the adjudicator's file."""
    facts = study(tmp_path, scale=SCALE, adjudication=SETTLED)["facts"]
    assert facts["votes"] == "data/votes.csv (32 votes)"
    assert facts["key"] == "stored; equal votes: exclude"
    assert facts["ratings"] == "32 ratings of 8 items by 4 annotators, in 1 pool"
    assert facts["scale"] == "low = 1, mid = 2, high = 4"
    assert facts["adjudication"] == "data/settled.csv (2 labels)"


def test_an_order_reads_from_the_lowest(tmp_path: Path) -> None:
    """Labels by rank stand in one line of the heading."""
    facts = study(tmp_path, scale={"order": ["low", "mid", "high"]})["facts"]
    assert facts["scale"] == "low < mid < high"


def test_the_summary_fits_80_columns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kappa stands with P_o, P_e and the convention's word; pools and pairs have tables."""
    found = study(tmp_path, labellings=label_keys(pools=POOLS), merge=MAP)
    text = shown(tmp_path, monkeypatch)
    assert max(map(len, text.splitlines())) <= 80
    said = words(text)
    for title in ("Agreement within each pool", "Every two annotators",
                  "Agreement by fine labels, and by those of the map", "Confusions: "):  # fmt: skip
        assert title in said
    assert "A and B kappa.cohen" in said
    assert "hidden by the map" in said
    (kappa,) = (m for m in found["metrics"] if m["metric"] == "kappa.fleiss" and not m["params"])
    clauses = kappa["note"].split("; ")
    assert clauses[0].startswith("P_o ")
    assert clauses[0] in said
    assert "by the convention of Landis and Koch (1977): " in said


def test_spans_have_their_pairs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """F1 of each pool and of every two, types that were confused, and no coefficient."""
    found = study(tmp_path, labellings=span_keys(), bands=[F1])
    assert found["facts"]["pools"] == "near: A, gold; far: B, C"
    assert {m["metric"] for m in found["annotators"]["pairs"]} == {"f1.pair"}
    text = shown(tmp_path, monkeypatch)
    assert max(map(len, text.splitlines())) <= 80
    said = words(text)
    assert "A and B f1.pair[match=strict]" in said
    assert "kappa.cohen" not in said
    assert "LOC ORG" in said or "LOC PER" in said or "ORG PER" in said


def _metric(name: str, value: float, **more: Any) -> Metric:
    return Metric(MetricRef(name), value, more.pop("unit", "share"), "made", **more)


def test_numbers_of_labellings_say_their_sign_and_n() -> None:
    """Differences have a sign; k of n stands only where it is the value; p-values have their n; a
    band is never shown without its caveat.
    """
    limits = Interval(0.05, 0.15, 0.95, "percentile bootstrap over items, 200 resamples, seed 1")
    delta = _metric("delta", 0.1, unit="F1", n=20, interval=limits)
    assert observed(delta) == "+0.1 (n = 20) [+0.05, +0.15] 95% bootstrap"
    excess = _metric("disagreement.excess", -0.05, k=154, n=235)
    assert observed(excess) == "-0.05 (n = 235)"
    assert observed(_metric("merge.gain", 0.25, k=1, n=4)) == "1/4 = +0.25"
    assert observed(_metric("f1", 0.5, unit="F1", n=7)) == "0.5 (n = 7)"
    p = _metric("delta.p_holm", 0.02, unit="probability", n=20)
    assert observed(p) == "p = 0.02 (n = 20)"
    one = _metric("reversals.count", 0.0, unit="pairs", k=0, n=1)
    assert observed(one) == "0 of 1 pair"
    note = "from delta[output=A] = +0.1; descriptive and selected: picked; another clause"
    band = _metric("band.width", 0.1, unit="F1", n=20, note=note)
    assert explained(band) == "0.1 (n = 20); descriptive and selected: picked"
    lost = "3 of 20 rows left out: a reference is not given"
    assert explained(_metric("f1", 0.5, unit="F1", n=17, note=lost)) == f"0.5 (n = 17); {lost}"
