"""Files of the labels that an adjudicator gave: one label an item.

Knows rows and columns; does not know which items there are, nor who rated them.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from prereg_judge.annotation_form import near
from prereg_judge.canon import nfc
from prereg_judge.errors import InputError, Problem, raise_all
from prereg_judge.labellings.marks import Faults, blank
from prereg_judge.row_files import read_file, read_rows

_ADJUDICATION = "adjudication file"


def load_adjudicated(
    path: Path, *, item: str, label: str, shown: str, words: Mapping[str, str] | None = None
) -> dict[str, str]:
    """The labels that an adjudicator gave, from JSONL, CSV or Parquet.

    Parameters
    ----------
    path
        The file; a row for each item.
    item, label
        Names of the columns.
    shown
        The file's name as messages should give it.
    words
        The file's word -> what it means, as in `TableForm.words`; None where labels are taken as
        they stand.

    Returns
    -------
    dict
        Item -> label, in the file's order.

    Raises
    ------
    InputError
        With every problem found (up to 20 listed): columns that no row has, cells that are
        missing or no names, unknown words, an item that stands twice; and for a file without rows.
    """
    raw = read_file(path, kind=_ADJUDICATION, shown=shown)
    faults = Faults(shown)
    known = None if words is None else {nfc(word): side for word, side in words.items()}
    columns: dict[str, None] = {}
    lines: dict[str, int] = {}
    told: dict[str, str] = {}
    for read in read_rows(raw, suffix=path.suffix, kind=_ADJUDICATION, shown=shown):
        if isinstance(read, Problem):
            faults.problems.append(read)
            continue
        line, cells = read
        if not isinstance(cells, dict):
            remedy = "write {...} with named fields"
            faults.add("the row is not an object", line, None, found=cells, remedy=remedy)
            continue
        row = {nfc(name): cell for name, cell in cells.items()}
        columns.update(dict.fromkeys(row))
        name = _adjudicated_cell(row, item, line, faults)
        given = _meant(_adjudicated_cell(row, label, line, faults), known, line, label, faults)
        if name is None or given is None:
            continue
        if name in lines:
            what, remedy = f"stands on line {lines[name]} already", "keep one label an item"
            faults.add(what, line, item, found=name, remedy=remedy)
        lines.setdefault(name, line)
        told.setdefault(name, given)
    missing = [column for column in (nfc(item), nfc(label)) if column not in columns]
    if columns:
        raise_all(
            [Problem(f"there is no column {c!r}", shown, remedy=near(c, columns)) for c in missing]
        )
    faults.raise_all()
    if not told:
        remedy = "it needs a row for each adjudicated item"
        raise InputError(Problem(f"the {_ADJUDICATION} holds no labels", shown, remedy=remedy))
    return told


def _meant(
    word: str | None, known: Mapping[str, str] | None, line: int, column: str, faults: Faults
) -> str | None:
    if word is None or known is None:
        return word
    if word not in known:
        remedy = "known are " + ", ".join(f"{one} = {side}" for one, side in known.items())
        faults.add("has no known meaning", line, column, found=word, remedy=remedy)
    return known.get(word)


def _adjudicated_cell(
    row: Mapping[str, object], column: str, line: int, faults: Faults
) -> str | None:
    cell = row.get(nfc(column))
    if blank(cell):
        remedy = "give it, or leave the row out of the file"
        faults.add("is missing", line, column, found=cell, remedy=remedy)
        return None
    return faults.name(cell, line, column)
