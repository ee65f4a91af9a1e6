"""Tables of verdicts: columns and words as named, orders mapped back to the answers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prereg_judge.errors import InputError
from prereg_judge.verdict_tables import VerdictForm, VerdictTable, load_verdicts
from support import write_items

WORDS = {"A": "a", "B": "b", "=": "tie"}
ROWS: list[dict[str, Any]] = [
    {"q": 1, "turn": "x", "m1": "p", "m2": "q", "ab": "A", "ba": "A", "of": "art"},
    {"q": 2, "turn": "x", "m1": "q", "m2": "p", "ab": "=", "ba": "B", "of": None},
    {"q": 2, "turn": "y", "m1": "p", "m2": "q", "ab": None, "ba": "B", "of": "art"},
]


def form(**changed: Any) -> VerdictForm:
    """How the rows are read."""
    usual: dict[str, Any] = {
        "item": ["q", "turn"],
        "models": ("m1", "m2"),
        "ab": "ab",
        "ba": "ba",
        "stratum": "of",
        "slots": True,
        "words": WORDS,
    }
    return VerdictForm(**{**usual, **changed})


def load(folder: Path, rows: Sequence[Any] = ROWS, **changed: Any) -> VerdictTable:
    """Write the rows as JSON Lines and read them."""
    path = folder / "verdicts.jsonl"
    write_items(path, rows)
    return load_verdicts(path, form=form(**changed), shown="v.jsonl")


def problems(folder: Path, rows: Sequence[Any], **changed: Any) -> list[str]:
    """What is said of rows that are refused."""
    with pytest.raises(InputError) as caught:
        load(folder, rows, **changed)
    return [str(problem) for problem in caught.value.problems]


def test_slots_are_mapped_back_to_the_answers(tmp_path: Path) -> None:
    """In the order ba the first slot holds answer b; an empty cell is no verdict."""
    rows = load(tmp_path).rows
    assert [(r.ab, r.ba) for r in rows] == [("a", "b"), ("tie", "a"), (None, "a")]
    said = load(tmp_path, slots=False).rows
    assert [(r.ab, r.ba) for r in said] == [("a", "a"), ("tie", "b"), (None, "b")]


def test_names_strata_and_lines(tmp_path: Path) -> None:
    """Columns of the item are joined; a pair is named with its models as they are stored."""
    rows = load(tmp_path).rows
    assert [r.name for r in rows] == ["1/x|p|q", "2/x|q|p", "2/y|p|q"]
    assert [(r.stratum, r.line) for r in rows] == [("art", 1), (None, 2), ("art", 3)]
    assert [r.name for r in load(tmp_path, models=None).rows] == ["1/x", "2/x", "2/y"]


def test_the_three_kinds_of_files_are_one(tmp_path: Path) -> None:
    """JSONL, CSV and Parquet of the same rows give the same verdicts."""
    frame = pl.DataFrame(ROWS)
    frame.write_csv(tmp_path / "v.csv")
    frame.write_parquet(tmp_path / "v.parquet")
    read = load(tmp_path).rows
    for name, first in (("v.csv", 2), ("v.parquet", 1)):
        table = load_verdicts(tmp_path / name, form=form(), shown=name)
        assert [(r.name, r.ab, r.ba, r.stratum) for r in table.rows] == [
            (r.name, r.ab, r.ba, r.stratum) for r in read
        ]
        assert [r.line for r in table.rows] == [first, first + 1, first + 2]


def test_one_order(tmp_path: Path) -> None:
    """Without a column of the other order there is no verdict in it."""
    assert [(r.ab, r.ba) for r in load(tmp_path, ba=None).rows] == [
        ("a", None),
        ("tie", None),
        (None, None),
    ]


def test_names_that_are_written_in_two_ways(tmp_path: Path) -> None:
    """Composed and decomposed letters are the same in words, columns and names."""
    rows = [{"q": "cafe\u0301", "e\u0301": "oui\u0301"}]
    read = load(
        tmp_path, rows, item=["q"], models=None, ab="\u00e9", ba=None, stratum=None,
        words={"ou\u00ed": "a"},
    ).rows  # fmt: skip
    assert [(r.item, r.ab) for r in read] == [("caf\u00e9", "a")]


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"ab": "C"}, "v.jsonl:1: ab: is no word that means a side (found 'C')"),
        ({"ab": "a"}, "v.jsonl:1: ab: is no word"),
        ({"ba": 1}, "v.jsonl:1: ba: is no word that means a side (found 1)"),
        ({"ba": ["A"]}, "v.jsonl:1: ba: is no word"),
        ({"q": None}, "v.jsonl:1: q: is missing"),
        ({"q": 1.5}, "v.jsonl:1: q: is missing, or neither text nor a whole number (found 1.5)"),
        ({"q": True}, "v.jsonl:1: q: is missing, or neither text nor a whole number (found true)"),
        ({"m1": " "}, "v.jsonl:1: m1: is missing"),
        ({"m1": "q"}, "v.jsonl:1: m2: one model stands on both sides (found 'q')"),
        ({"of": "a,b"}, "v.jsonl:1: of: cannot be named in a metric (found 'a,b')"),
        ({"q": "a\u200b"}, "v.jsonl:1: q: holds the invisible character U+200B"),
        ({"q": "a\u0007"}, "v.jsonl:1: q: holds the control character U+0007"),
        ({"turn": " x"}, "v.jsonl:1: turn: has white space around it (found ' x')"),
        ({"m1": "p\u00ad"}, "v.jsonl:1: m1: holds the invisible character U+00AD (SOFT HYPHEN)"),
        ({"m2": "q "}, "v.jsonl:1: m2: has white space around it"),
        ({"of": "art "}, "v.jsonl:1: of: has white space around it"),
        ({"of": 3}, "v.jsonl:1: of: cannot be named in a metric (found 3)"),
    ],
)
def test_cells_that_are_wrong(changed: dict[str, Any], says: str, tmp_path: Path) -> None:
    """Each wrong cell is told with its line, its column and what stands there."""
    (told,) = problems(tmp_path, [{**ROWS[0], **changed}, *ROWS[1:]])
    assert says.lower() in told.lower()


def test_every_problem_at_once(tmp_path: Path) -> None:
    """All wrong rows are named together, up to a number that is said."""
    rows = [{**ROWS[0], "q": n, "ab": "?"} for n in range(30)]
    told = problems(tmp_path, rows)
    assert len(told) == 21
    assert told[0].startswith("v.jsonl:1:")
    assert "10 more" in told[-1]


def test_a_pair_that_stands_twice(tmp_path: Path) -> None:
    """The same two answers are one pair, either way round; other models or turns are others."""
    again = {**ROWS[0], "m1": "q", "m2": "p"}
    (told,) = problems(tmp_path, [*ROWS, again])
    assert "v.jsonl:4: q: the pair stands before, on line 1" in told
    assert len(load(tmp_path, [*ROWS, {**ROWS[0], "m2": "r"}]).rows) == 4
    (told,) = problems(tmp_path, [*ROWS, {**ROWS[0], "m2": "r"}], models=None)
    assert "the pair stands before, on line 1" in told


def test_parts_of_a_name_do_not_run_together(tmp_path: Path) -> None:
    """`a` and `b/c` are written as `a/b` and `c` are: two such rows are refused, not made one."""
    rows = [{**ROWS[0], "q": "a", "turn": "b/c"}, {**ROWS[0], "q": "a/b", "turn": "c"}]
    (told,) = problems(tmp_path, rows)
    assert "v.jsonl:2: q: the pair stands before, on line 1 (found 'a/b/c')" in told


def test_columns_that_are_not_there(tmp_path: Path) -> None:
    """Every column that no row has is named once, with those most like it."""
    told = problems(tmp_path, ROWS, ab="abb", ba="slot", stratum="off", item=["q", "q"])
    assert [t.split(":")[1].split(".")[0].strip() for t in told] == [
        "there is no column 'abb'",
        "there is no column 'slot'",
        "there is no column 'off'",
    ]
    assert "id you mean ab" in told[0]
    assert "id you mean of" in told[2]


def test_files_without_rows_and_rows_that_are_none(tmp_path: Path) -> None:
    """An empty file, a file of another kind, a missing one, and a row that is no object."""
    assert "has no rows" in problems(tmp_path, [])[0]
    assert "v.jsonl:2: the row is not an object" in problems(tmp_path, [ROWS[0], [1]])[0]
    for name, says in (("none.jsonl", "does not exist"), ("v.txt", "unknown kind of file")):
        if name == "v.txt":
            (tmp_path / name).write_text("x", encoding="utf-8")
        with pytest.raises(InputError, match=says):
            load_verdicts(tmp_path / name, form=form(), shown=name)


def test_what_is_no_row_at_all(tmp_path: Path) -> None:
    """A line that is no JSON is told beside what is wrong with other rows."""
    path = tmp_path / "v.jsonl"
    lines = [json.dumps({**ROWS[0], "ab": "?"}), "{", json.dumps(ROWS[1])]
    path.write_text("\n".join(lines), encoding="utf-8")
    with pytest.raises(InputError) as caught:
        load_verdicts(path, form=form(), shown="v.jsonl")
    assert [problem.line for problem in caught.value.problems] == [1, 2]


CELL = st.sampled_from(["A", "B", "=", None, ""])


@given(st.lists(st.tuples(CELL, CELL), min_size=1, max_size=8), st.booleans())
def test_against_a_plain_reading(
    tmp_path_factory: pytest.TempPathFactory,
    drawn: list[tuple[str | None, str | None]],
    slots: bool,
) -> None:
    """Whatever stands in the two columns, the sides are those of a second implementation."""
    rows = [{"q": n, "ab": ab, "ba": ba} for n, (ab, ba) in enumerate(drawn)]
    folder = tmp_path_factory.mktemp("drawn")
    read = load(folder, rows, item=["q"], models=None, stratum=None, slots=slots).rows
    first = {"A": "a", "B": "b", "=": "tie", None: None, "": None}
    second = {"A": "b", "B": "a", "=": "tie", None: None, "": None} if slots else first
    assert [(r.ab, r.ba) for r in read] == [(first[ab], second[ba]) for ab, ba in drawn]
