"""Item files: three formats, one meaning; and every row that cannot be judged refused by line."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import os
import tempfile
import unicodedata
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prereg_judge.errors import InputError
from prereg_judge.items import Item, load_items

TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=12)
IDS = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=12)
GROUP = st.none() | st.from_regex(r"[A-Za-z0-9][A-Za-z0-9 ._-]{0,5}", fullmatch=True)
ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "id": IDS.filter(str.strip),
            "label": st.none() | TEXT.filter(bool),
            "kind": GROUP,
            "stratum": GROUP,
            "text": TEXT,
            "other text": TEXT,
        }
    ),
    min_size=1,
    max_size=4,
    unique_by=lambda row: unicodedata.normalize("NFC", str(row["id"])),
)


def jsonl(rows: list[dict[str, Any]]) -> bytes:
    """The rows as JSON Lines."""
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode()


def as_csv(rows: list[dict[str, Any]]) -> bytes:
    """The rows as CSV; no label or group is an empty cell."""
    stream = io.StringIO(newline="")
    writer = csv.DictWriter(stream, list(rows[0]))
    writer.writeheader()
    writer.writerows({k: "" if v is None else v for k, v in row.items()} for row in rows)
    return stream.getvalue().encode()


def parquet(rows: list[dict[str, Any]]) -> bytes:
    """The rows as Parquet."""
    stream = io.BytesIO()
    pl.DataFrame(rows, schema=dict.fromkeys(rows[0], pl.String)).write_parquet(stream)
    return stream.getvalue()


def load(raw: bytes, suffix: str = ".jsonl") -> tuple[Item, ...]:
    """The items of a file with this content."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"items{suffix}"
        path.write_bytes(raw)
        found = load_items(path, role="real", shown=f"items{suffix}")
    assert (found.role, found.file, found.n_bytes) == ("real", f"items{suffix}", len(raw))
    assert found.sha256 == hashlib.sha256(raw).hexdigest()
    return found.items


def without_line(items: tuple[Item, ...]) -> list[tuple[Any, ...]]:
    """Everything of the items but where they stood."""
    return [(i.id, i.fields, i.label, i.kind, i.stratum) for i in items]


@settings(max_examples=80, deadline=None)
@given(ROWS)
def test_three_formats_one_meaning(rows: list[dict[str, Any]]) -> None:
    """The same rows as JSON Lines, CSV and Parquet are equal items, with every string in NFC."""
    found = load(jsonl(rows))
    assert without_line(found) == [
        (
            *(unicodedata.normalize("NFC", x) for x in (row["id"],)),
            {k: unicodedata.normalize("NFC", row[k]) for k in ("text", "other text")},
            None if row["label"] is None else unicodedata.normalize("NFC", row["label"]),
            row["kind"],
            row["stratum"],
        )
        for row in rows
    ]
    assert [i.line for i in found] == list(range(1, len(rows) + 1))
    assert without_line(load(as_csv(rows), ".csv")) == without_line(found)
    assert without_line(load(parquet(rows), ".parquet")) == without_line(found)


ONE = {"id": "a", "text": "b"}


@pytest.mark.parametrize(
    "raw",
    [
        b'{"id":"a","text":"b"}',
        b'\xef\xbb\xbf{"id":"a","text":"b"}\n',
        b'{"id":"a","text":"b"}\r\n',
        b'\n  \n{"id":"a","text":"b"}\n\n',
        b'{"text":"b","id":"a","label":null,"kind":null}\n',
    ],
    ids=["no end", "mark", "CRLF", "blank lines", "nulls"],
)
def test_the_same_row_written_otherwise(raw: bytes) -> None:
    """A missing last line end, a byte-order mark, Windows line ends and nulls change nothing."""
    assert without_line(load(raw)) == [("a", {"text": "b"}, None, None, None)]


@pytest.mark.parametrize("odd", ["\u2028", "\u2029", "\x85", "\x0b", "\x0c", "\x1c", "\x1e"])
def test_what_other_readers_take_for_a_line_end(odd: str) -> None:
    """Only a newline ends a line: what str.splitlines splits at may stand inside a string."""
    row = {"id": "a", "text": f"c{odd}d"}
    if odd in "\u2028\u2029\x85":  # JSON allows the others as escapes only
        (item,) = load(jsonl([row]))
        assert (item.id, item.fields["text"]) == (row["id"], row["text"])
    (item,) = load(as_csv([row]), ".csv")
    assert (item.id, item.fields["text"]) == (row["id"], row["text"])
    (item,) = load(json.dumps(row).encode())
    assert (item.id, item.fields["text"]) == (row["id"], row["text"])


def test_lines_are_those_of_the_file() -> None:
    """A row's line counts blank lines and lines inside quoted cells."""
    assert [i.line for i in load(b'\n{"id":"a"}\n\n{"id":"b"}\n')] == [2, 4]
    assert [i.line for i in load(b'id,text\na,"x\ny"\nb,z\n', ".csv")] == [2, 4]


def test_values_keep_their_type() -> None:
    """Numbers, lists and nulls in other fields stay what they are."""
    (item,) = load(b'{"id":"a","n":3,"x":1.5,"list":[1,"e\\u0301"],"none":null}')
    assert item.fields == {"n": 3, "x": 1.5, "list": [1, "\u00e9"], "none": None}


@pytest.mark.parametrize(
    ("raw", "line", "what"),
    [
        (b'{"id":"a"}\n{"id":', 2, "invalid JSON"),
        (b'{"id":"a"}\n{"id":"b"} {"id":"c"}', 2, "invalid JSON"),
        (b'{"id":"a","x":NaN}', 1, "NaN"),
        (b'{"id":"a","x":-Infinity}', 1, "-Infinity"),
        (b'{"id":"a","x":1,"x":2}', 1, "'x' stands twice"),
        (b'{"id":"a","x":{"y":1,"y":2}}', 1, "'y' stands twice"),
        (b'{"id":"a","\\u00e9":1,"e\\u0301":2}', 1, "stands twice"),
        (b'{"id":"a","x":"\\ud83d"}', 1, "surrogate"),
        (b'{"id":"\\udc00"}', 1, "surrogate"),
        (b"[" * 100_000, 1, "nested too deeply"),
        (b'{"id":"a","x":' + b"9" * 5000 + b"}", 1, "too many digits"),
        (b'{"id":"a\\u001bb"}', 1, "control character U+001B"),
        (b'{"id":"a\xc2\x85b"}', 1, "control character U+0085"),
        (b'{"id":"a"}\n"b"', 2, "not an object"),
        (b'{"id":"a"}\n["id"]', 2, "not an object"),
        (b'{"id":"a"}\n{"text":"b"}', 2, "needs a text id"),
        (b'{"id":1}', 1, "needs a text id"),
        (b'{"id":" "}', 1, "needs a text id"),
        (b'{"id":"a"}\n{"id":"a"}', 2, "used before, on line 1"),
        (b'{"id":"\\u00e9"}\n{"id":"e\\u0301"}', 2, "used before, on line 1"),
        (b'{"id":"a","label":3}', 1, "label: must be text"),
        (b'{"id":"a","label":""}', 1, "label: must be text"),
        (b'{"id":"a","kind":"x,y"}', 1, "kind: cannot be named"),
        (b'{"id":"a","stratum":"-x"}', 1, "stratum: cannot be named"),
        (b'{"id":"a"}\n{"id":"\xff"}', 2, "not UTF-8"),
    ],
)
def test_rows_that_are_refused(raw: bytes, line: int, what: str) -> None:
    """Each with the file, the line and what is wrong with it."""
    with pytest.raises(InputError) as caught:
        load(raw)
    (problem,) = caught.value.problems
    assert (problem.file, problem.line) == ("items.jsonl", line)
    assert what in str(problem)


@pytest.mark.parametrize(
    ("raw", "line", "what"),
    [
        (b"id,id\na,b\n", 1, "'id' stands twice"),
        (b"id,\xc3\xa9,e\xcc\x81\na,b,c\n", 1, "stands twice"),
        (b"id,text\na\n", 2, "1 cells under 2 column names. Give each column one cell"),
        (b'id,text\n\n"a","x\ny",z\n', 3, "3 cells under 2"),
        (b'id,text\na,b\nc,"x\n\ny\n', 3, "invalid CSV"),
        (b"id;text\na;b\n", 1, "the separator looks like `;`"),
        (b"id\ttext\na\tb\n", 1, "the separator looks like a tab"),
        (b"id,text\na,b,c\n", 2, "3 cells under 2"),
        (b'id,text\na,"b\n', 2, "invalid CSV"),
        (b'id,text\na,"b"c\n', 2, "invalid CSV"),
        (b"text\nb\n", 2, "needs a text id"),
        (b"id,text\na,b\na,c\n", 3, "used before, on line 2"),
    ],
)
def test_csv_that_is_refused(raw: bytes, line: int, what: str) -> None:
    """Ragged rows, repeated columns and stray quotes are not guessed at."""
    with pytest.raises(InputError) as caught:
        load(raw, ".csv")
    (problem,) = caught.value.problems
    assert (problem.file, problem.line) == ("items.csv", line)
    assert what in str(problem)


@pytest.mark.parametrize("cut", [0, 3, 4, 50, -1, -5])
def test_parquet_that_is_cut(cut: int) -> None:
    """A damaged Parquet file is an error of its own, wherever it was cut."""
    with pytest.raises(InputError, match=r"items\.parquet"):
        load(parquet([ONE])[:cut], ".parquet")


def test_parquet_whose_ids_are_numbers() -> None:
    """An id that is not text is not made into one."""
    stream = io.BytesIO()
    pl.DataFrame({"id": [1, 2]}).write_parquet(stream)
    with pytest.raises(InputError, match="needs a text id"):
        load(stream.getvalue(), ".parquet")


@pytest.mark.parametrize(
    ("raw", "suffix"), [(b"", ".jsonl"), (b"\n\n", ".jsonl"), (b"", ".csv"), (b"id,text\n", ".csv")]
)
def test_no_rows(raw: bytes, suffix: str) -> None:
    """A file without a row is no item set."""
    with pytest.raises(InputError, match="has no rows"):
        load(raw, suffix)


def test_no_rows_in_parquet() -> None:
    """Nor is a table without one."""
    stream = io.BytesIO()
    pl.DataFrame({"id": []}, schema={"id": pl.String}).write_parquet(stream)
    with pytest.raises(InputError, match="has no rows"):
        load(stream.getvalue(), ".parquet")


@pytest.mark.parametrize(
    ("raw", "remedy"),
    [
        (b'{"id":"a","id":"b"}', "keep one of the two"),
        (b'{"id":"a","x":"\\ud800"}', "both halves"),
        (b'{"id":"a","x":NaN}', "null where there is none"),
        (b'{"id":', "one JSON object"),
    ],
)
def test_the_remedy_is_that_of_the_fault(raw: bytes, remedy: str) -> None:
    """What is JSON and still no row is not answered with how to write JSON."""
    with pytest.raises(InputError) as caught:
        load(raw)
    (problem,) = caught.value.problems
    assert remedy in str(problem.remedy)
    assert problem.what.startswith("invalid JSON") == (remedy == "one JSON object")


def test_one_line_number_for_bad_json() -> None:
    """The column is that of the file's line; the reader's own `line 1` is not repeated."""
    with pytest.raises(InputError, match=r"items\.jsonl:3: invalid JSON: .* at column 7") as caught:
        load(b'{"id":"a"}\n\n{"id":')
    assert "line 1" not in str(caught.value)


@pytest.mark.parametrize(
    ("row", "suffix"), [(b"not JSON\n", ".jsonl"), (b"a,b,c\n", ".csv")], ids=["JSON", "CSV"]
)
def test_unreadable_rows_are_told_together(row: bytes, suffix: str) -> None:
    """Rows that cannot be read at all are listed like others, up to twenty."""
    with pytest.raises(InputError) as caught:
        load(b"id,text\n" * (suffix == ".csv") + row * 30, suffix)
    first = 1 + (suffix == ".csv")
    assert [p.line for p in caught.value.problems[:20]] == list(range(first, first + 20))
    assert "10 more" in caught.value.problems[-1].what
    assert len(caught.value.problems) == 21


def test_a_long_cell_is_read_as_in_the_other_formats() -> None:
    """The csv module's limit of 131072 characters a cell holds for nobody else, nor afterwards."""
    before = csv.field_size_limit()
    rows = [{"id": "a", "text": "x" * 200_000}]
    assert without_line(load(as_csv(rows), ".csv")) == without_line(load(jsonl(rows)))
    assert csv.field_size_limit() == before


@pytest.mark.parametrize("kind", ["folder", "pipe"])
def test_what_is_there_and_is_no_file(tmp_path: Path, kind: str) -> None:
    """A folder or a pipe is not said to be missing, and a pipe is not waited for."""
    path = tmp_path / "items.jsonl"
    path.mkdir() if kind == "folder" else os.mkfifo(path)
    with pytest.raises(InputError, match=r"not a (regular )?file"):
        load_items(path, role="real", shown="items.jsonl")


def test_every_bad_row_is_told_up_to_twenty() -> None:
    """Thirty bad rows are twenty problems and a count of the rest."""
    with pytest.raises(InputError) as caught:
        load(b'{"id":1}\n' * 30)
    told = caught.value.problems
    assert [p.line for p in told[:20]] == list(range(1, 21))
    assert len(told) == 21
    assert "10 more" in told[20].what
