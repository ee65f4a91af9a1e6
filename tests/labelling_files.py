"""What tests of labellings share: writing files of each format, and reading them back."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from prereg_judge.errors import InputError
from prereg_judge.labelled import MarkForm
from prereg_judge.labellings.form import FileForm, LabellingForm
from prereg_judge.labellings.marks import Mark
from prereg_judge.labellings.table import LabellingTable, load_labellings


def span(start: int, end: int, kind: str | None = None) -> Mark:
    """A mark of one fragment."""
    return Mark(((start, end),), kind)


def write_rows(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Write rows as JSON Lines."""
    text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    path.write_text(text, encoding="utf-8")


def load(folder: Path, *files: FileForm, form: MarkForm = "spans") -> LabellingTable:
    """The table of files in a folder."""
    return load_labellings(LabellingForm(form, files), path_of=lambda name: folder / name)


def refusal(folder: Path, *files: FileForm, form: MarkForm = "spans") -> list[str]:
    """What is said of files that are refused; every problem names a file."""
    with pytest.raises(InputError) as caught:
        load(folder, *files, form=form)
    assert all(problem.file for problem in caught.value.problems)
    return str(caught.value).splitlines()


def marks_of(table: LabellingTable, name: str) -> dict[str, set[Mark] | None]:
    """The marks of one labelling by item."""
    found = {row.item: row.marks[name] for row in table.rows}
    return {item: None if marks is None else set(marks) for item, marks in found.items()}


def tagged(length: int, marks: Sequence[Mark], scheme: str) -> list[str]:
    """Tags of a sentence, written from marks that do not overlap, in their order.

    Written apart from the reader: what IOB1, IOB2 and BIOES say of each token in turn.
    """
    tags = ["O"] * length
    for at, mark in enumerate(marks):
        ((start, end),) = mark.place
        kind = "" if mark.type is None else f"-{mark.type}"
        for token in range(start, end):
            letter = "B" if token == start else "I"
            if scheme == "bioes" and token == end - 1:
                letter = "S" if end - start == 1 else "E"
            if scheme == "iob1" and letter == "B":
                before = marks[at - 1] if at else None
                touches = before is not None and before.place[0][1] == start
                letter = "B" if touches and before and before.type == mark.type else "I"
            tags[token] = letter + kind
    return tags
