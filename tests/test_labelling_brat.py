"""Spans in brat's standoff files: folders, fragments, the text beside, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labelling_files import load, marks_of, refusal, span
from prereg_judge.canon import sha256_bytes
from prereg_judge.labellings.form import FileForm
from prereg_judge.labellings.marks import Mark, ReadFile

FILE = FileForm("ann", "brat", {"D": "alice", "E": "bob"})
ONE = FileForm("ann", "brat", {"D": "."})


def write(folder: Path, files: dict[str, str]) -> None:
    """Write files below `ann`."""
    for name, text in files.items():
        path = folder / "ann" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode())


def test_folders_of_two_labellings(tmp_path: Path) -> None:
    """An item is a stem; a folder without its file does not give it; an empty file has no marks."""
    files = {
        "alice/d2.ann": "T1\tInsult 0 5\tHello\n",
        "alice/d1.ann": "",
        "bob/d2.ann": "T1\tThreat 0 5;10 15\tHello there\r\nT2\tInsult 0 5\tHello\r\n",
        "bob/d3.ann": "\n",
        "bob/notes.md": "x",
    }
    write(tmp_path, files)
    table = load(tmp_path, FILE)
    assert [row.item for row in table.rows] == ["d1", "d2", "d3"]
    assert marks_of(table, "D") == {"d1": set(), "d2": {span(0, 5, "Insult")}, "d3": None}
    two = {Mark(((0, 5), (10, 15)), "Threat"), span(0, 5, "Insult")}
    assert marks_of(table, "E") == {"d1": None, "d2": two, "d3": set()}


def test_every_file_is_named_with_its_hash(tmp_path: Path) -> None:
    """Annotations and the texts beside them are listed in a fixed order, with their bytes."""
    files = {"b.ann": "T1\tX 0 1\ta\n", "b.txt": "a", "a.ann": "", "other.txt": "unread"}
    write(tmp_path, files)
    assert load(tmp_path, ONE).files == tuple(
        ReadFile(f"ann/{name}", sha256_bytes(files[name].encode()), len(files[name]))
        for name in ("a.ann", "b.ann", "b.txt")
    )


def test_other_kinds_of_lines_are_counted(tmp_path: Path) -> None:
    """Relations, events, attributes, notes and equivalences are left out, and counted."""
    text = "T1\tX 0 1\ta\nR1\tIs Arg1:T1 Arg2:T1\nE1\tX:T1\nA1\tNeg T1\nM1\tNeg T1\n"
    text += "N1\tReference T1 W:1\tb\n#1\tAnnotatorNotes T1\tnote\n*\tEquiv T1 T1\n"
    write(tmp_path, {"d.ann": text})
    table = load(tmp_path, ONE)
    assert marks_of(table, "D") == {"d": {span(0, 1, "X")}}
    assert table.left_out == {"line of brat that is no span": 7}


def test_the_text_beside(tmp_path: Path) -> None:
    """Spans quote their text: line ends are spaces there, characters are no bytes, BOM is one."""
    write(
        tmp_path,
        {
            "d.txt": "\u00e9\U0001f600 two\nlines here",
            "d.ann": "T1\tX 3 12\ttwo lines\nT2\tX 1 2;13 17\t\U0001f600 here\n",
            "e.txt": "\ufeffab",
            "e.ann": "T1\tX 1 3\tab\n",
            "f.txt": "one\r\ntwo",
            "f.ann": "T1\tX 0 8\tone\r two\n",
        },
    )
    found = marks_of(load(tmp_path, ONE), "D")
    assert found["d"] == {span(3, 12, "X"), Mark(((1, 2), (13, 17)), "X")}
    assert found["e"] == {span(1, 3, "X")}
    assert found["f"] == {span(0, 8, "X")}


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("T1\tX 0 9\tsome text", "ends beyond its text, which has 8 characters"),
        ("T1\tX 0 4\tsame", "T1: the text has 'some' there (found 'same')"),
        ("T1\tX 0 4;5 9\tsome text", "ends beyond its text"),
        ("T1\tX 4 4\t", "a span must end after it begins"),
        ("T1\tX 5 4\tx", "a span must end after it begins"),
        ("T1\tX 5 6;0 1\tt s", "fragments must not overlap, nor go back"),
        ("T1\tX 0 3;2 4\tsom me", "fragments must not overlap, nor go back"),
        ("T1\tX 0\ts", "is no text-bound annotation"),
        ("T1\tX -1 2\ts", "is no text-bound annotation"),
        ("T1\tX 0 4", "is no text-bound annotation"),
        ("T1\tX 0 1.0\ts", "is no text-bound annotation"),
        ("T1\t 0 1\ts", "is no text-bound annotation"),
        ("T1 X 0 4 some", "is no text-bound annotation"),
        ("T1\tX\u200b 0 4\tsome", "T1: holds the invisible character U+200B"),
        ("X 0 4", "is no annotation of brat"),
        ("T0\tX 5 9\ttext", "T0 stands on line 1 already"),
    ],
)
def test_lines_that_are_refused(tmp_path: Path, line: str, expected: str) -> None:
    """Each line that is none, or lies about its text, is told by file and line."""
    write(tmp_path, {"d.txt": "some tex", "d.ann": f"T0\tX 0 1\ts\n{line}\n"})
    problems = refusal(tmp_path, ONE)
    assert problems[0].startswith("ann/d.ann:2: ")
    assert expected in problems[0]


def test_folders_that_are_refused(tmp_path: Path) -> None:
    """Folders that are not there, are none, or hold no annotations are told by their names."""
    assert refusal(tmp_path, FILE) == ["ann/alice: the folder does not exist. Check the path"]
    write(tmp_path, {"alice/d.ann": "", "bob": ""})
    assert refusal(tmp_path, FILE) == ["ann/bob: is no folder. Check the path"]
    (tmp_path / "ann/bob").unlink()
    write(tmp_path, {"bob/deep/d.ann": ""})
    assert "ann/bob: the folder holds no .ann file" in refusal(tmp_path, FILE)[0]


def test_files_that_are_refused(tmp_path: Path) -> None:
    """Another encoding, two stems that are one name, and a stem that is none are refused."""
    write(tmp_path, {"d.ann": "T1\tX 0 1\ta\n"})
    (tmp_path / "ann/d.ann").write_bytes(b"\nT1\tX 0 1\t\xe9\n")
    assert refusal(tmp_path, ONE) == ["ann/d.ann:2: is not UTF-8. Save the file as UTF-8"]
    (tmp_path / "ann/d.ann").unlink()
    write(tmp_path, {"e\u0301.ann": "", "\u00e9.ann": "", "x .ann": ""})
    said = refusal(tmp_path, ONE)
    assert "x .ann: has white space around it" in said[0]
    assert "is the same name as e\u0301.ann" in said[1]


DOCUMENTS = st.lists(
    st.lists(
        st.tuples(
            st.lists(st.tuples(st.integers(0, 3), st.integers(1, 4)), min_size=1, max_size=3),
            st.sampled_from(["Insult", "a-b", "\u00e9"]),
        ),
        max_size=5,
    ),
    min_size=1,
    max_size=4,
)


@given(documents=DOCUMENTS, text=st.text(st.sampled_from("ab \n\u00e9\U0001f600"), min_size=30))
def test_marks_come_back(
    tmp_path_factory: pytest.TempPathFactory, documents: list[Any], text: str
) -> None:
    """Marks of one or several fragments, with the text beside, are the same when read."""
    folder = tmp_path_factory.mktemp("brat")
    expected = {}
    for number, parts in enumerate(documents):
        marks = set()
        for steps, kind in parts:
            place, at = [], 0
            for gap, length in steps:
                place.append((at + gap, at + gap + length))
                at += gap + length
            marks.add(Mark(tuple(place), kind))
        lines = [
            f"T{at}\t{mark.type} {';'.join(f'{a} {b}' for a, b in mark.place)}\t"
            + " ".join(text[a:b] for a, b in mark.place).replace("\n", " ")
            for at, mark in enumerate(marks, start=1)
        ]
        name = f"d{number}"
        write(folder, {f"{name}.ann": "".join(f"{one}\n" for one in lines), f"{name}.txt": text})
        expected[name] = marks
    assert marks_of(load(folder, ONE), "D") == expected
