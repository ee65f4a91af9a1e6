"""Labellings in rows: the forms of a span, absent places, and what is refused, by line."""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from labelling_files import load, marks_of, refusal, span, write_rows
from prereg_judge.labellings.form import FileForm
from prereg_judge.labellings.marks import Mark
from prereg_judge.labellings.rows import read_row_labellings
from prereg_judge.labellings.table import REPEATED

CORPORA = Path(os.environ.get("PREREG_CORPORA", Path(__file__).parents[2] / "shared/data"))
SPANS = CORPORA / "spans/toxic_spans.jsonl"
FILE = FileForm("a.jsonl", "rows", {"A": "labellings.A", "gold": "gold"}, item="id")
LABELS = FileForm("a.jsonl", "rows", {"A": "a", "B": "b"}, item="id")


def row(item: object = "i1", first: object = (), gold: object = ()) -> dict[str, Any]:
    """A row with two labellings, one of them in an object."""
    return {"id": item, "labellings": {"A": first}, "gold": gold}


def test_the_forms_of_a_span(tmp_path: Path) -> None:
    """Two ends, two ends and a type, and objects with a type, a label or neither are spans."""
    rows = [
        row("i1", [[0, 5, "Insult"], [7, 9, ""]], [[0, 5]]),
        row(
            "i2", [{"start": 1, "end": 2, "type": "Threat", "text": "x"}], [{"start": 1, "end": 2}]
        ),
        row(3, [{"start": 1, "end": 2, "label": "Threat"}], [[1, 2, None]]),
    ]
    write_rows(tmp_path / "a.jsonl", rows)
    table = load(tmp_path, FILE)
    assert table.names == ("A", "gold")
    assert [one.line for one in table.rows] == [1, 2, 3]
    assert marks_of(table, "A") == {
        "i1": {span(0, 5, "Insult"), span(7, 9, "")},
        "i2": {span(1, 2, "Threat")},
        "3": {span(1, 2, "Threat")},
    }
    assert marks_of(table, "gold") == {"i1": {span(0, 5)}, "i2": {span(1, 2)}, "3": {span(1, 2)}}


def test_not_given_is_not_no_marks(tmp_path: Path) -> None:
    """Null, an absent field and an absent object do not give a labelling; [] gives no marks."""
    rows = [row("i1", [[0, 1]]), row("i2", None), {"id": "i3", "labellings": None, "gold": []},
            {"id": "i4", "labellings": {}, "gold": []}, {"id": "i5", "gold": None},
            row("i6", [])]  # fmt: skip
    write_rows(tmp_path / "a.jsonl", rows)
    marks = marks_of(load(tmp_path, FILE), "A")
    assert [marks[f"i{at}"] for at in range(2, 7)] == [None, None, None, None, set()]


@pytest.mark.parametrize("form", ["lists", "pairs", "objects"])
def test_spans_in_parquet(tmp_path: Path, form: str) -> None:
    """Lists, arrays and objects of Parquet are read as those of JSONL."""
    objects = [{"start": 0, "end": 5, "type": "x"}]
    spans: list[Any] = [[[0, 5]], [], None] if form != "objects" else [objects, [], None]
    frame = pl.DataFrame({"id": ["1", "2", "3"], "a": spans})
    if form == "pairs":
        frame = frame.cast({"a": pl.List(pl.Array(pl.Int16, 2))})
    frame.write_parquet(tmp_path / "a.parquet")
    file = FileForm("a.parquet", "rows", {"A": "a"}, item="id")
    first = span(0, 5, "x" if form == "objects" else None)
    expected = {"1": {first}, "2": set[Mark](), "3": None}
    assert marks_of(load(tmp_path, file), "A") == expected


@pytest.mark.parametrize("ending", ["jsonl", "csv", "parquet"])
def test_single_labels(tmp_path: Path, ending: str) -> None:
    """A place holds one label; an empty cell does not give it; numbers are names."""
    cells = [("i1", "spam", "7"), ("i2", "", "8"), ("i3", "ham", "7")]
    path = tmp_path / f"a.{ending}"
    if ending == "csv":
        path.write_text("id,a,b\n" + "".join(",".join(c) + "\n" for c in cells), encoding="utf-8")
    elif ending == "jsonl":
        write_rows(path, [{"id": i, "a": a or None, "b": int(b)} for i, a, b in cells])
    else:
        frame = {"id": ["i1", "i2", "i3"], "a": ["spam", None, "ham"], "b": [7, 8, 7]}
        pl.DataFrame(frame).write_parquet(path)
    file = FileForm(path.name, "rows", {"A": "a", "B": "b"}, item="id")
    table = load(tmp_path, file, form="labels")
    label = {name: {Mark((), name)} for name in ("spam", "ham", "7", "8")}
    assert marks_of(table, "A") == {"i1": label["spam"], "i2": None, "i3": label["ham"]}
    assert marks_of(table, "B") == {"i1": label["7"], "i2": label["8"], "i3": label["7"]}


def test_names_in_one_form_of_unicode(tmp_path: Path) -> None:
    """Items, types, columns and labellings written with two characters are the same names."""
    write_rows(tmp_path / "a.jsonl", [{"id": "e\u0301", "la": {"e\u0301": [[0, 1, "e\u0301"]]}}])
    table = load(tmp_path, FileForm("a.jsonl", "rows", {"e\u0301": "la.\u00e9"}, item="id"))
    assert marks_of(table, "\u00e9") == {"\u00e9": {span(0, 1, "\u00e9")}}


def test_a_column_whose_name_has_a_dot(tmp_path: Path) -> None:
    """A column with exactly the place's name comes before the path that it could be."""
    write_rows(tmp_path / "a.jsonl", [{"id": 1, "x.y": [[0, 1]], "x": {"y": [[5, 6]]}}])
    table = load(tmp_path, FileForm("a.jsonl", "rows", {"A": "x.y"}, item="id"))
    assert marks_of(table, "A") == {"1": {span(0, 1)}}


@pytest.mark.parametrize(
    ("spans", "expected"),
    [
        ("[[0, 5.0]]", "labellings.A[0]: an offset must be a whole number (found [0, 5.0])"),
        ('[["0", 5]]', "an offset must be a whole number"),
        ("[[false, 5]]", "an offset must be a whole number"),
        ("[[-1, 5]]", "a span cannot begin before its text"),
        ("[[5, 5]]", "a span must end after it begins"),
        ("[[1, 2], [6, 5]]", "labellings.A[1]: a span must end after it begins"),
        ("[[1]]", "labellings.A[0]: is no span (found [1]). Write [start, end]"),
        ("[5]", "labellings.A[0]: is no span (found 5)"),
        ('[{"start": 1}]', "labellings.A[0]: is no span"),
        ('[{"start": 1, "end": 2, "type": "x", "label": "y"}]', "has a type and another label"),
        ("[[1, 2, 3]]", "a span's type must be text (found 3)"),
        ('[[1, 2, " x"]]', "has white space around it"),
        ('[[1, 2, "x\\u200b"]]', "holds the invisible character U+200B"),
        ('"none"', "labellings.A: must be a list of spans (found 'none')"),
        ("{}", "labellings.A: must be a list of spans"),
    ],
)
def test_spans_that_are_refused(tmp_path: Path, spans: str, expected: str) -> None:
    """Each span that is none is one problem with its line and place in the row."""
    good = json.dumps(row("i1"))
    bad = '{"id": "i2", "labellings": {"A": ' + spans + '}, "gold": []}'
    (tmp_path / "a.jsonl").write_text(f"{good}\n{bad}\n", encoding="utf-8")
    problems = refusal(tmp_path, FILE)
    assert len(problems) == 1
    assert problems[0].startswith("a.jsonl:2: labellings.A")
    assert expected in problems[0]


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"id": None}, "a.jsonl:2: id: is missing"),
        ({"id": 1.5}, "a.jsonl:2: id: must be text or a whole number (found 1.5)"),
        ({"id": "x "}, "a.jsonl:2: id: has white space around it"),
        ({"stratum": "a/b"}, "a.jsonl:2: stratum: cannot be named in a metric (found 'a/b')"),
        ({"text": None}, "a.jsonl:2: text: is missing"),
        ({"text": [1]}, "a.jsonl:2: text: must be text or a whole number (found [1])"),
        ({"labellings": "x"}, "a.jsonl:2: labellings: is no object with fields (found 'x')"),
    ],
)
def test_rows_that_are_refused(tmp_path: Path, changed: dict[str, Any], expected: str) -> None:
    """Names, strata and what copies share are checked, each fault with its line and column."""
    good = {**row("i1"), "stratum": "s", "text": "t"}
    write_rows(tmp_path / "a.jsonl", [good, {**good, "id": "i2", **changed}])
    file = FileForm("a.jsonl", "rows", {"A": "labellings.A"}, "id", "stratum", "text")
    problems = refusal(tmp_path, file)
    assert len(problems) == 1
    assert expected in problems[0]


def test_places_that_no_row_has(tmp_path: Path) -> None:
    """A slip in a place is told once with the nearest place, not as labellings never given."""
    write_rows(tmp_path / "a.jsonl", [row("i1"), row("i2")])
    file = FileForm("a.jsonl", "rows", {"A": "labelings.A", "gold": "golf"}, "id", "strata")
    assert refusal(tmp_path, file) == [
        "a.jsonl: no row has 'strata'. Use one of: id, labellings, gold, labellings.A",
        "a.jsonl: no row has 'labelings.A'. Did you mean labellings.A or labellings?",
        "a.jsonl: no row has 'golf'. Did you mean gold?",
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "a.jsonl: the file of labellings holds no items"),
        ("[1]\n", "a.jsonl:1: the row is not an object"),
        ('{"id": 1\n', "a.jsonl:1: invalid JSON"),
        ('{"id": 1, "gold": null, "labellings": {"A": []}}', "labellings.gold: no row gives it"),
    ],
)
def test_files_that_are_refused(tmp_path: Path, text: str, expected: str) -> None:
    """Empty files, rows that are none, and a labelling that no row gives are refused."""
    (tmp_path / "a.jsonl").write_text(text, encoding="utf-8")
    assert expected in refusal(tmp_path, FILE)[0]


def test_no_file_and_spans_in_csv(tmp_path: Path) -> None:
    """A file that is not there is told by its name; lists written into cells are not guessed at."""
    assert "the file of labellings does not exist" in refusal(tmp_path, FILE)[0]
    (tmp_path / "a.csv").write_text('id,a\ni1,"[[0, 1]]"\ni2,\n', encoding="utf-8")
    file = FileForm("a.csv", "rows", {"A": "a"}, item="id")
    assert refusal(tmp_path, file) == [
        "a.csv:2: a: CSV cannot hold lists of spans (found '[[0, 1]]'). "
        "Use a .jsonl or .parquet file for spans"
    ]


def test_labels_that_are_refused(tmp_path: Path) -> None:
    """A label is one text or whole number: lists, fractions and truth values are none."""
    rows: list[dict[str, Any]] = [
        {"id": 1, "a": ["x"], "b": "y"},
        {"id": 2, "a": 0.5, "b": 1},
        {"id": 3, "a": True},
    ]
    write_rows(tmp_path / "a.jsonl", rows)
    problems = refusal(tmp_path, LABELS, form="labels")
    assert [problem.split(" (found")[0] for problem in problems] == [
        f"a.jsonl:{line}: a: must be text or a whole number" for line in (1, 2, 3)
    ]


def test_many_problems_are_counted(tmp_path: Path) -> None:
    """Twenty problems are listed, and how many more there are."""
    write_rows(tmp_path / "a.jsonl", [row(f"i{at}", [[1, 0]]) for at in range(50)])
    problems = refusal(tmp_path, FILE)
    assert len(problems) == 21
    assert problems[-1] == "a.jsonl: and 30 more problems of this kind"


SPANS_OF = st.sets(
    st.tuples(st.integers(0, 10**12), st.integers(1, 99)).map(lambda t: (t[0], t[0] + t[1]))
)


@given(kind=st.booleans(), rows=st.lists(st.one_of(st.none(), SPANS_OF), min_size=1))
def test_marks_come_back(
    tmp_path_factory: pytest.TempPathFactory, kind: bool, rows: list[Any]
) -> None:
    """Marks written as rows are the same marks when read, given or not."""
    folder = tmp_path_factory.mktemp("rows")
    names = ["", "Insult", "a-b", "\u00e9 \u4e2d"]
    marks = [
        None if of is None else {span(a, b, names[a % 4] if kind else None) for a, b in of}
        for of in [set(), *rows]
    ]
    written = [
        None if of is None else [[*m.place[0], *([m.type] if kind else [])] for m in of]
        for of in marks
    ]
    write_rows(folder / "a.jsonl", [{"id": at, "a": of} for at, of in enumerate(written)])
    table = load(folder, FileForm("a.jsonl", "rows", {"A": "a"}, item="id"))
    assert marks_of(table, "A") == {str(at): of for at, of in enumerate(marks)}


def test_the_real_corpus() -> None:
    """Published counts of types, before marks given twice collapse; 32 rows have one."""
    if not SPANS.is_file():
        pytest.skip("the span corpus is not here: set PREREG_CORPORA")
    places = {name: f"labellings.{name}" for name in "ABC"}
    file = FileForm(SPANS.name, "rows", {**places, "gold": "gold"}, "id", "stratum")
    reading = read_row_labellings(SPANS, file=file, form="spans")
    types = Counter(mark.type for row in reading.rows for name in "ABC" for mark in row.marks[name])
    assert types == {
        "Insult": 22777,
        "Profane/Obscene": 2691,
        "Identity based Attack": 2587,
        "Other Toxicity": 1836,
        "Threat": 1117,
        "": 3,
    }
    twice = [row for row in reading.rows if any(len(set(m)) < len(m) for m in row.marks.values())]
    assert len(twice) == 32
    table = load(SPANS.parent, file)
    assert len(table.rows) == 10530
    assert table.left_out == {REPEATED: 32}
    assert Counter(row.stratum for row in table.rows) == {
        "train": 7855,
        "test": 1995,
        "trial": 680,
    }
