"""Spans in CoNLL columns: sentences, names, the schemes of tags, and sequences that cannot be."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labelling_files import load, marks_of, refusal, span, tagged
from prereg_judge.labellings.form import FileForm
from prereg_judge.labellings.marks import Mark


def form(tags: Any = "iob2", **places: int) -> FileForm:
    """A file of tags with these columns; without any, `C` in the second."""
    return FileForm("a.conll", "conll", places or {"C": 2}, tags=tags)


def sentence(*tags: str) -> str:
    """A sentence of one token for each tag."""
    return "".join(f"w{at}\t{tag}\n" for at, tag in enumerate(tags)) + "\n"


def read(folder: Path, text: str, tags: Any = "iob2") -> dict[str, Any]:
    """The marks of the second column by item."""
    (folder / "a.conll").write_bytes(text.encode())
    return marks_of(load(folder, form(tags)), "C")


def refused(folder: Path, text: str, tags: Any = "iob2") -> list[str]:
    """What is said of a text that is refused."""
    (folder / "a.conll").write_bytes(text.encode())
    return refusal(folder, form(tags))


def test_sentences_and_columns(tmp_path: Path) -> None:
    """Sentences are numbered, document marks are none of them, and columns count from 1."""
    text = (
        "\ufeff-DOCSTART- -X- O O\r\n\r\nEU NNP B-ORG O\r\nrejects VBZ O B-VERB\r\n\r\n\r\n"
        "-DOCSTART- -X- O O\n\nPeter  NNP B-PER O\nBlackburn NNP I-PER O\n"
    )
    (tmp_path / "a.conll").write_bytes(text.encode())
    table = load(tmp_path, form(C=3, D=4))
    assert marks_of(table, "C") == {"1": {span(0, 1, "ORG")}, "2": {span(0, 2, "PER")}}
    assert marks_of(table, "D") == {"1": {span(1, 2, "VERB")}, "2": set()}
    assert [row.line for row in table.rows] == [3, 9]


def test_sentences_with_names(tmp_path: Path) -> None:
    """Either comment names the sentence after it; other comments say nothing."""
    text = (
        "# newdoc\n# sent_id = s-1\n# text = B O\na\tB-X\n\n"
        "# a remark\n\n# id =s 2\n# id = s 2\nb\tO\nc\tB-Y\n"
    )
    assert read(tmp_path, text) == {"s-1": {span(0, 1, "X")}, "s 2": {span(1, 2, "Y")}}


def test_a_token_that_is_a_hash(tmp_path: Path) -> None:
    """A `#` whose columns hold tags is a token, first in its sentence or not."""
    text = "#\tB-X\n#b\tI-X\n\n# B-X\n#\u00e9 I-X\n# O\n\n#tag O\n#x B-X\n\n#tag\tB-X\n"
    assert read(tmp_path, text) == {
        "1": {span(0, 2, "X")},
        "2": {span(0, 2, "X")},
        "3": {span(1, 2, "X")},
        "4": {span(0, 1, "X")},
    }
    assert "is no tag of iob2 (found 'X')" in refused(tmp_path, "#\tX\n")[0]


def test_cells_that_hold_spaces(tmp_path: Path) -> None:
    """Where a line has tabs, spaces belong to its cells; a fixed space never splits."""
    text = "New York\tB-Other Toxicity\n\u00a0x\tI-Other Toxicity\n"
    assert read(tmp_path, text) == {"1": {span(0, 2, "Other Toxicity")}}
    assert read(tmp_path, "a\u00a0b B-X\n") == {"1": {span(0, 1, "X")}}


def test_tags_without_and_with_empty_types(tmp_path: Path) -> None:
    """A bare letter is a mark without a type; an empty type and one with a dash are types."""
    assert read(tmp_path, sentence("B", "I", "B")) == {"1": {span(0, 2), span(2, 3)}}
    both = read(tmp_path, sentence("B-", "I-", "B-a-b"))
    assert both == {"1": {span(0, 2, ""), span(2, 3, "a-b")}}


@pytest.mark.parametrize(
    ("scheme", "tags", "expected"),
    [
        ("iob1", "I-X I-X O I-Y", [span(0, 2, "X"), span(3, 4, "Y")]),
        ("iob1", "I-X B-X I-X I-Y", [span(0, 1, "X"), span(1, 3, "X"), span(3, 4, "Y")]),
        ("iob2", "B-X I-X B-X O", [span(0, 2, "X"), span(2, 3, "X")]),
        ("iob2", "B-X B-Y I-Y", [span(0, 1, "X"), span(1, 3, "Y")]),
        ("bioes", "B-X I-X E-X S-X", [span(0, 3, "X"), span(3, 4, "X")]),
        ("bioes", "B-X L-X U-Y O", [span(0, 2, "X"), span(2, 3, "Y")]),
    ],
)
def test_schemes(tmp_path: Path, scheme: str, tags: str, expected: list[Mark]) -> None:
    """The same letters are spans by the registered scheme; L and U are E and S."""
    assert read(tmp_path, sentence(*tags.split()), scheme) == {"1": set(expected)}


@pytest.mark.parametrize(
    ("scheme", "tags", "line", "expected"),
    [
        ("iob2", "O I-X", 4, "I- continues no span of its type (found 'I-X after O')"),
        ("iob2", "I-X", 3, "(found 'I-X first in its sentence')"),
        ("iob2", "B-Y I-X", 4, "I- continues no span of its type"),
        ("iob2", "B-X E-X", 4, "is no tag of iob2 (found 'E-X')"),
        ("iob1", "O B-X", 4, "under iob1, B- stands only right after a span of its type"),
        ("iob1", "I-Y B-X", 4, "Register iob2 where every span begins with B-"),
        ("bioes", "B-X O", 4, "the span before has no end"),
        ("bioes", "B-X S-X", 4, "the span before has no end"),
        ("bioes", "B-X I-X B-X", 5, "the span before has no end"),
        ("bioes", "S-X I-X", 4, "I- continues no span of its type"),
        ("bioes", "S-X E-X", 4, "E- continues no span of its type"),
        ("bioes", "B-X E-Y", 4, "E- continues no span of its type"),
        ("bioes", "O B-X", 4, "the sentence ends inside a span"),
        ("iob2", "O b-X", 4, "is no tag of iob2 (found 'b-X'). Use O, B-type, I-type"),
        ("iob2", "O ", 4, "is no tag of iob2 (found '')"),
        ("iob2", "O B-\u200bX", 4, "holds the invisible character U+200B"),
    ],
)
def test_sequences_that_cannot_be(
    tmp_path: Path, scheme: str, tags: str, line: int, expected: str
) -> None:
    """A tag that its scheme does not allow there is refused with its line and column."""
    problems = refused(tmp_path, sentence("O") + sentence(*tags.split(" ")), scheme)
    assert len(problems) == 1
    assert problems[0].startswith(f"a.conll:{line}: column 2: ")
    assert expected in problems[0]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a O\nb\n", "a.conll:2: has 1 columns, and C stands in column 2 (found 'b')"),
        ("a O\n# id = x\n", "a.conll:2: column 2: is no tag of iob2 (found 'id')"),
        ("# id = x\na O\n\nb O\n", "a.conll:4: only some sentences have names"),
        ("a O\n\n# id = x\nb O\n", "a.conll:4: only some sentences have names"),
        ("# id = x\n\n# id = y\na O\n", "a.conll:1: the name has no sentence of its own"),
        ("# id = x\na O\n\n# id = y\n", "a.conll:4: the name has no sentence of its own"),
        ("# id =\na O\n", "a.conll:1: the sentence's name: is missing"),
        ("# id = x\u200b\na O\n", "a.conll:1: the sentence's name: holds the invisible"),
        ("-DOCSTART- O\n\n", "a.conll: the file of labellings holds no items"),
        ("", "a.conll: the file of labellings holds no items"),
    ],
)
def test_files_that_are_refused(tmp_path: Path, text: str, expected: str) -> None:
    """Lines with too few columns and names without sentences are told by line."""
    assert expected in refused(tmp_path, text)[0]


def test_no_utf_8(tmp_path: Path) -> None:
    """Another encoding is refused with the line of its first odd byte."""
    (tmp_path / "a.conll").write_bytes(b"a O\n\xe9 O\n")
    assert refusal(tmp_path, form()) == ["a.conll:2: is not UTF-8. Save the file as UTF-8"]


def test_types_for_some_marks_only(tmp_path: Path) -> None:
    """A labelling in which some marks lack a type is refused with the line of one."""
    said = refused(tmp_path, sentence("B-X") + sentence("B"))
    assert said == [
        "a.conll:3: labellings.C: a mark has no type, and one of item '1' has one (found item "
        "'2'). Give every mark of a labelling a type, or none"
    ]


SENTENCES = st.lists(
    st.lists(
        st.tuples(st.integers(0, 2), st.integers(1, 4), st.sampled_from(["X", "Y", "", "a-b"])),
        max_size=5,
    ),
    min_size=1,
    max_size=6,
)


@pytest.mark.parametrize("scheme", ["iob1", "iob2", "bioes"])
@given(sentences=SENTENCES)
def test_marks_come_back(
    tmp_path_factory: pytest.TempPathFactory, scheme: str, sentences: list[Any]
) -> None:
    """Marks written as tags of each scheme, neighbours among them, are the same when read."""
    folder = tmp_path_factory.mktemp("conll")
    expected, text = {}, ""
    for number, parts in enumerate(sentences, start=1):
        marks, at = [], 0
        for gap, length, kind in parts:
            marks.append(span(at + gap, at + gap + length, kind))
            at += gap + length
        expected[str(number)] = set(marks)
        text += sentence(*tagged(at + 1, marks, scheme))
    assert read(folder, text, scheme) == expected
