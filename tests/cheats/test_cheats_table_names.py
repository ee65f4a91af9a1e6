"""Cheats on tables by the way things are written: votes read before, and names counted twice."""

from __future__ import annotations

from pathlib import Path

import pytest

from cheats.cheating import edit, refused, verify
from cheats.test_cheats_tables import CHANGED, ITEMS, REVERSAL, exposure, files, ran
from tabling import (
    ANNOTATIONS,
    JUDGE,
    VERDICTS,
    VOTES,
    band,
    lock_tables,
    scored,
    write_registration,
    write_table,
    write_votes,
)

# --- Registering after looking --------------------------------------------------------------------


def test_votes_under_names_written_otherwise(tmp_path: Path) -> None:
    """Capitals, wide letters and joiners do not make votes that were read into others."""
    root = ran(tmp_path / "w", "pools")
    text = (root / VOTES).read_text("utf-8")
    header, *lines = text.splitlines(keepends=True)
    for at, line in enumerate(lines):
        item, who, pool, *rest = line.split(",")
        who = (who.upper(), who.replace("-", "\uff0d"), who.replace("c", "\uff43\u200d"))[at % 3]
        lines[at] = ",".join([item.upper(), who, pool, *rest])
    (root / "data/other.csv").write_text(header + "".join(lines), encoding="utf-8")
    told = {**ANNOTATIONS, "file": "data/other.csv"}
    lock_tables(root, "other", "pools", annotations=told, bands=[CHANGED])
    assert exposure(root, "other")["level"] == "full"
    assert exposure(root, "other")["known"][0]["rows"] == len(lines)


def test_one_order_of_the_verdicts(tmp_path: Path) -> None:
    """Leaving the column of the other order out does not make verdicts that were read into others,
    and neither does calling each pair's answers the other way round.
    """
    root = tmp_path / "w"
    header = ("item", "one", "two", "ab", "ba")
    rows = [(f"i{at}", "m1", "m2", *said) for at, said in enumerate(("ab", "at", "bb", "ta"))]
    write_table(root / VERDICTS, header, rows)
    judge = {**JUDGE, "models": ["one", "two"]}
    lock_tables(root, "x", "pairwise", judges=[judge], bands=[REVERSAL])
    scored(root, "x")
    turned = {"a": "b", "b": "a", "t": "t"}
    # Who was shown first is shown first still, and is called b.
    other = [(f"I{at}", "M2", "m1", turned[ba], turned[ab]) for at, (*_, ab, ba) in enumerate(rows)]
    write_table(root / "data/turned.csv", header, other)
    write_table(root / "data/part.csv", header[:4], [row[:4] for row in other])
    turned_judge = {**judge, "file": "data/turned.csv"}
    lock_tables(root, "turned", "pairwise", judges=[turned_judge], bands=[REVERSAL])
    assert exposure(root, "turned")["known"][0]["rows"] == 8
    part = {key: value for key, value in judge.items() if key != "ba"}
    part["file"] = "data/part.csv"
    first = band("a", "real.verdict.count", [0, 3], pass_=1, order="ab", verdict="a")
    lock_tables(root, "part", "pairwise", judges=[part], bands=[first])
    assert exposure(root, "part")["known"][0]["rows"] == 4
    assert exposure(root, "part")["level"] == "full"


def test_many_seeds_locked_before_any_is_run(tmp_path: Path) -> None:
    """Three registrations that differ in the resampling seed alone, all locked before the first
    run: none was exposed, and `verify` of each names the other two under NOT PROVED.
    """
    root = tmp_path / "w"
    files(root)
    idents = ("x", "x2", "x3")
    for at, ident in enumerate(idents):
        resampling = {"resamples": 200, "seed": 5 + at, "by_stratum": False}
        lock_tables(root, ident, "pools", bands=[CHANGED], resampling=resampling)
    for ident in idents:
        assert exposure(root, ident)["level"] == "none"
        scored(root, ident)
    for ident in idents:
        told = verify(root, ident)
        told.clean()
        others = [f"run 1 of {other!r}" for other in idents if other != ident]
        told.open("Locked before its first run was", *others)


# --- Names that look alike ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "twin", "says"),
    [
        ("m1", "m1\u200b", "holds the invisible character U+200B (ZERO WIDTH SPACE)"),
        ("m1", "m1\u200d", "holds the invisible character U+200D (ZERO WIDTH JOINER)"),
        ("crowd-0", "crowd-0 ", "has white space around it"),
        ("i1", "\u00a0i1", "has white space around it"),
    ],
)
def test_one_name_counted_as_two(name: str, twin: str, says: str, tmp_path: Path) -> None:
    """A model, an annotator or an item that is doubled by what nobody sees is refused."""
    root = tmp_path / "w"
    files(root)
    edit(root / VOTES, name, twin)
    write_registration(root, "x", "pools", bands=[CHANGED])
    refused(root, "lock", "x", code=2, says=(VOTES, says))
    files(root)
    rows = [(item, "m1", "m2", "a", "b") for item in ("i0", "i1", "crowd-0")]
    write_table(root / VERDICTS, ("item", "one", "two", "ab", "ba"), rows)
    edit(root / VERDICTS, name, twin)
    judge = {**JUDGE, "models": ["one", "two"]}
    write_registration(root, "x2", "pairwise", judges=[judge], bands=[REVERSAL])
    refused(root, "lock", "x2", code=2, says=(VERDICTS, says))


def test_gaps_beyond_reckoning(tmp_path: Path) -> None:
    """Gaps whose squares overflow are refused, and give neither warnings nor numbers."""
    root = tmp_path / "w"
    write_votes(root, ITEMS, more={"gap": ["1e200", "3e200", "2e200", 0, 1, 2]})
    told = {**ANNOTATIONS, "columns": {**ANNOTATIONS["columns"], "gap": "gap"}, "gap": "column"}
    write_registration(root, "x", "pools", annotations=told, bands=[CHANGED])
    refused(root, "lock", "x", code=2, says=(VOTES, "is too large to reckon with", "1e+100"))
    text = (root / VOTES).read_text("utf-8").replace("e200", "e99")
    (root / VOTES).write_text(text, encoding="utf-8")
    lock_tables(root, "x", "pools", annotations=told, bands=[CHANGED])
    scored(root, "x")
