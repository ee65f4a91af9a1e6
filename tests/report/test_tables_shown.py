"""What a scored study of tables shows and writes, through the commands."""

from __future__ import annotations

from pathlib import Path

import jsonschema

from report.test_pairs import SCHEMA
from support import Done, prereg
from tabling import (
    ANNOTATIONS,
    band,
    lock_tables,
    scored,
    write_table,
    write_verdicts,
    write_votes,
)

# i0 and i1 are rated by both pools, i2 by the crowd alone.
ITEMS = [("aa", "a"), ("ab", "b"), ("b", "")]
CHANGED = band("c", "changed.count", [0, 1])


def words(done: Done) -> str:
    """What was printed, with its spaces and lines run together."""
    assert "Traceback" not in done.err, done.err
    return " ".join(done.out.split())


def test_a_study_of_votes_writes_its_score_and_no_empty_file(tmp_path: Path) -> None:
    """Nothing was called: no verdicts, no disagreements; `show` counts no trials; the record stands
    up to `verify`, here and from a bundle.
    """
    write_votes(tmp_path, ITEMS)
    lock_tables(tmp_path, "x", "pools", bands=[CHANGED])
    found = scored(tmp_path, "x")
    jsonschema.validate(found, SCHEMA)
    assert (found["pools"], found["judges"], found["swap_tables"]) == (["crowd", "expert"], [], [])
    derived = {"score.json", "verdicts.csv", "disagreements.csv", "disagreements.jsonl"}
    there = {path.name for path in (tmp_path / "runs/x/1").iterdir()}
    assert there & derived == {"score.json"}
    assert "Files: runs/x/1/score.json\n" in prereg("score", "x", root=tmp_path).err
    assert "│ - │ PASS │" in words(prereg("show", "x", root=tmp_path))
    assert "PASS" in words(prereg("status", root=tmp_path))
    bundle = tmp_path / "x.zip"
    assert prereg("bundle", "x", "--out", str(bundle), root=tmp_path).code == 0
    for what in ("x", str(bundle)):
        assert "VIOLATED (0)" in prereg("verify", what, root=tmp_path).out


def test_votes_that_are_not_used_and_items_of_both_pools_are_told(tmp_path: Path) -> None:
    """How many items each key gives, votes of no pool, and a second vote the other way round."""
    rows = [
        ("i0", "c1", "crowd", "a", "m1", "m2"),
        ("i0", "c1", "crowd", "b", "m2", "m1"),
        ("i0", "e1", "expert", "a", "m1", "m2"),
        ("i1", "c1", "crowd", "a", "m1", "m2"),
        ("i1", "e1", "expert", "b", "m2", "m1"),
        ("i1", "o1", "other", "b", "m2", "m1"),
    ]
    header = ("item", "who", "pool", "label", "first", "second")
    write_table(tmp_path / "data/votes.csv", header, rows)
    for key, twice in (("stored", None), ("unordered", "1 vote by an annotator who had judged")):
        told = {**ANNOTATIONS, "key": key}
        lock_tables(tmp_path, key, "pools", bands=[CHANGED], annotations=told)
        facts = scored(tmp_path, key)["facts"]
        assert facts["votes"] == (
            "data/votes.csv (5 votes of crowd and expert; left out: 1 (annotator of no pool))"
        )
        assert facts["rated by both"] == (
            "1 item with the key `stored`, 2 items with the key `unordered`"
        )
        assert facts.get("voted twice", "").startswith(twice or "")
        assert ("voted twice" in facts) == (twice is not None)


def test_each_judge_has_a_row_with_its_order_effect_and_its_lean(tmp_path: Path) -> None:
    """The title says which way a lean goes, and score.json has the same numbers in its form."""
    write_votes(tmp_path, [("aa", "b"), ("aa", "b"), ("bb", "b")])
    write_verdicts(tmp_path, "aab", "aba")
    lean = band("c", "lean.difference", [-1, 0.9], judge="j")
    lock_tables(tmp_path, "x", "judge-pools", bands=[lean])
    found = scored(tmp_path, "x")
    jsonschema.validate(found, SCHEMA)
    (judge,) = found["judges"]
    reversal, leaning = judge["order_reversal"], judge["lean"]
    assert (judge["judge"], reversal["k"], reversal["n"], leaning["n"]) == ("j", 2, 3, 3)
    shown = words(prereg("score", "x", root=tmp_path))
    assert "lean (agreement with crowd minus agreement with expert)" in shown
    assert "│ j │ 2/3 = 0.6667 [0.2077, 0.9385] 95% Wilson │ +0.3333 (n = 3)" in shown


def test_verdicts_of_a_file_are_pairs_without_passes(tmp_path: Path) -> None:
    """A table of the two orders and a line a row; a single pass can disagree with nothing."""
    write_verdicts(tmp_path, "aab", "aba")
    rev = band("c", "real.order.reversal.count", [0, 2], pass_=1)
    lock_tables(tmp_path, "x", "pairwise", bands=[rev])
    found = scored(tmp_path, "x")
    jsonschema.validate(found, SCHEMA)
    (table,) = found["swap_tables"]
    # In ba the answers a, b, a were shown second, first, second.
    assert table["verdicts"] == ["first", "tie", "second", None]
    assert table["sides"] == [1, 0, -1, None]
    assert table["counts"] == [[1, 0, 1, 0], [0, 0, 0, 0], [0, 0, 1, 0], [0, 0, 0, 0]]
    files = {path.name for path in (tmp_path / "runs/x/1").iterdir()}
    assert "verdicts.csv" in files
    assert not [name for name in files if name.startswith("disagreements")]
    shown = words(prereg("score", "x", root=tmp_path))
    assert "order ab (down) against order ba" in shown
    assert "│ n = 3 │ first │ tie │ second │ (no verdict) │" in shown.replace("┃", "│")
    assert "│ first │ r 1 │ 0 │ = 1 │ 0 │" in shown


def test_a_study_of_models_shows_its_board(tmp_path: Path) -> None:
    """In pool 1's order with the place under pool 2; equal credits share a place."""
    models = [("x", "y"), ("x", "z"), ("w", "y"), ("w", "z")]
    write_votes(tmp_path, [("a", "a"), ("a", "b"), ("a", "a"), ("a", "a")], models=models)
    lock_tables(tmp_path, "x", "leaderboard", bands=[band("c", "tau", [-1, 0.99])])
    found = scored(tmp_path, "x")
    jsonschema.validate(found, SCHEMA)
    rows = [(r["place"], r["model"], r["other_place"]) for r in found["board"]]
    assert rows == [(1, "w", 1), (1, "x", 2), (3, "y", 4), (3, "z", 2)]
    given = [tuple(m["value"] for m in r["credit"]) for r in found["board"]]
    assert given == [(1.0, 1.0), (1.0, 0.5), (0.0, 0.0), (0.0, 0.5)]
    assert [r["shift"]["value"] for r in found["board"]] == [0.0, -0.5, 0.0, 0.5]
    shown = words(prereg("score", "x", root=tmp_path))
    assert "The board of crowd, with its shift under expert" in shown
    credit = "1 (n = 2) [0.3424, 1] 95%"
    assert f"│ 1 │ w │ {credit} │ {credit} │ 1 │ 0 (n = 2) │" in shown
    assert "│ gap.adjacent[place=1,subset=both] │ 0 (n = 4); w above x; undefined in 14" in shown


def test_a_reading_of_tables_is_verified_as_that(tmp_path: Path) -> None:
    """No attempts and no replies are counted where nothing was called."""
    write_votes(tmp_path, ITEMS)
    lock_tables(tmp_path, "x", "pools", bands=[CHANGED])
    scored(tmp_path, "x")
    told = words(prereg("verify", "x", root=tmp_path))
    assert "it was one reading of the locked tables; nothing was called" in told
    for vacuous in ("attempts, for", "recorded reply"):
        assert vacuous not in told
