"""What is refused of the form of labellings, before any file is read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from prereg_judge.errors import InputError
from prereg_judge.labelled import MarkForm
from prereg_judge.labellings.form import FileForm, LabellingForm, labelling_form_problems
from prereg_judge.labellings.table import load_labellings

ROWS = FileForm("a.jsonl", "rows", {"A": "labellings.A"}, item="id")


def said(*files: FileForm, form: MarkForm = "spans") -> list[str]:
    """What is said of a form with these files."""
    return [str(problem) for problem in labelling_form_problems(LabellingForm(form, files))]


def rows(**changed: Any) -> FileForm:
    """A file of rows, with something changed."""
    return FileForm(**{"file": "b.jsonl", "format": "rows", "labellings": {"B": "b"}, "item": "id"}
                    | changed)  # fmt: skip


def test_a_form_of_three_formats() -> None:
    """A form with a file of each format has no problem, and its names are in order."""
    conll = FileForm("b.conll", "conll", {"C": 3}, tags="iob2")
    brat = FileForm("ann", "brat", {"D": "alice", "E": "."})
    assert said(ROWS, conll, brat) == []
    assert LabellingForm("spans", (ROWS, conll, brat)).names == ("A", "C", "D", "E")


@pytest.mark.parametrize(
    ("file", "expected"),
    [
        (rows(item=None), "files[0].item: rows need `item`"),
        (rows(labellings={}), "files[0].labellings: names no labelling"),
        (rows(labellings={"B": 3}), "files[0].labellings.B: must name a column (found 3)"),
        (rows(labellings={"B": " "}), "files[0].labellings.B: must name a column (found ' ')"),
        (rows(labellings={" B": "b"}), "files[0].labellings. B: has white space around it"),
        (rows(labellings={"": "b"}), "files[0].labellings.: is empty"),
        (rows(labellings={"B": "b", "C": "b"}), "files[0].labellings.C: is the place of 'B' too"),
        (rows(tags="iob1"), "files[0].tags: is for format conll, not for rows"),
        (rows(format="row"), "files[0].format: no such format (found 'row'). Did you mean rows?"),
        (FileForm("c", "conll", {"C": 1}), "files[0].tags: say which scheme the tags follow"),
        (FileForm("c", "conll", {"C": 0}, tags="iob1"), "must be the number of a column (found 0)"),
        (FileForm("c", "conll", {"C": "1"}, tags="iob1"), "must be the number of a column"),
        (FileForm("c", "conll", {"C": True}, tags="iob1"), "must be the number of a column"),
        (
            FileForm("c", "conll", {"C": 1}, item="id", tags="iob1"),
            "files[0].item: is for format rows, not for conll. Leave it out",
        ),
        (FileForm("d", "brat", {"D": "../x"}), "files[0].labellings.D: leads out of the folder"),
        (FileForm("d", "brat", {"D": "/x"}), "files[0].labellings.D: leads out of the folder"),
        (FileForm("d", "brat", {"D": "x", "E": "./x/"}), "labellings.E: is the place of 'D' too"),
        (FileForm("d", "brat", {"D": 2}), "files[0].labellings.D: must name a sub-folder"),
        (FileForm("d", "brat", {"D": "x"}, stratum="s"), "files[0].stratum: is for format rows"),
    ],
)
def test_files_that_are_refused(file: FileForm, expected: str) -> None:
    """Each field that a format lacks, or has no use for, is one problem that names it."""
    problems = said(file)
    assert len(problems) == 1
    assert expected in problems[0]


def test_between_files() -> None:
    """A name stands once over all files, in any form of Unicode, and copies are said once."""
    assert said(ROWS, rows(labellings={"A": "b"})) == [
        "files[1].labellings.A: is named in files[0].labellings.A already (found 'A'). "
        "Give each labelling its own name"
    ]
    twice = said(rows(labellings={"\u00e9": "x"}), rows(labellings={"e\u0301": "x"}))
    assert "is named in files[0].labellings.\u00e9 already" in twice[0]
    both = said(rows(same="text"), rows(labellings={"C": "c"}, same="text"))
    assert both == ["files[1].same: is said in files[0]. Say in one file which items are copies"]
    assert said() == [
        "files: no file of labellings is named. Name a file, and where each labelling stands in it"
    ]


@pytest.mark.parametrize("kind", ["conll", "brat"])
def test_labels_stand_in_rows(kind: Any) -> None:
    """Tags and standoff files hold spans: as single labels they are refused."""
    file = FileForm("x", kind, {"C": 1} if kind == "conll" else {"C": "."}, tags="iob2")
    problems = said(FileForm("x", kind, file.labellings, tags="iob2" if kind == "conll" else None),
                    form="labels")  # fmt: skip
    assert problems == [
        f"files[0].format: {kind} files hold spans, not one label an item (found '{kind}'). "
        "Use format rows for labels, or form spans"
    ]


def test_loading_checks_the_form_first(tmp_path: Path) -> None:
    """A form with problems is refused though its file does not exist."""
    form = LabellingForm("spans", (rows(item=None),))
    with pytest.raises(InputError, match="rows need `item`"):
        load_labellings(form, path_of=lambda name: tmp_path / name)
