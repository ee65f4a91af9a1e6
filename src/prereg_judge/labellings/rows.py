"""Labellings that stand in rows of JSONL, CSV or Parquet: spans, or one label an item.

Knows how a span is written in a cell; does not know how rows of different files are joined.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prereg_judge.annotation_form import near
from prereg_judge.canon import nfc
from prereg_judge.errors import Problem, raise_all
from prereg_judge.labelled import MarkForm
from prereg_judge.labellings.form import FileForm
from prereg_judge.labellings.marks import (
    KIND,
    Faults,
    Mark,
    ReadFile,
    Reading,
    ReadRow,
    blank,
    span_fault,
)
from prereg_judge.row_files import read_file, read_rows

_SHAPE = "write [start, end], [start, end, type], or an object with start, end and type"
# Rows whose nested fields are remembered, to be named where a place is not found.
_LOOKED_INTO = 50


def read_row_labellings(path: Path, *, file: FileForm, form: MarkForm) -> Reading:
    """The labellings of a file of rows.

    Parameters
    ----------
    path
        The file; its ending says whether it is JSONL, CSV or Parquet.
    file
        What stands where; a form without problems.
    form
        Whether a place holds a list of spans or one label.

    Returns
    -------
    Reading
        A place that is absent, null or, of a label, empty does not give the labelling; an empty
        list of spans gives it without marks.

    Raises
    ------
    InputError
        With every problem found (up to 20 listed): places that no row has, names that are
        missing, spans and labels that are none.
    """
    raw = read_file(path, kind=KIND, shown=file.file)
    faults = Faults(file.file)
    reader = _RowReader(file, form, faults, path.suffix.lower() == ".csv", {}, {}, set(), set())
    rows: list[ReadRow] = []
    for read in read_rows(raw, suffix=path.suffix, kind=KIND, shown=file.file):
        if isinstance(read, Problem):
            faults.problems.append(read)
            continue
        line, cells = read
        if not isinstance(cells, dict):
            remedy = "write {...} with named fields"
            faults.add("the row is not an object", line, None, found=cells, remedy=remedy)
            continue
        row = reader.row({nfc(name): cell for name, cell in cells.items()}, line)
        if row is not None:
            rows.append(row)
    reader.refuse_unseen()
    faults.raise_all()
    return Reading(tuple(rows), (ReadFile.of(file.file, raw),), {})


@dataclass(frozen=True)
class _RowReader:
    """Reads rows one after the other and remembers which places any of them had."""

    file: FileForm
    form: MarkForm
    faults: Faults
    csv: bool
    columns: dict[str, None]
    labels: dict[object, tuple[Mark, ...]]
    seen: set[str]
    told: set[str]

    def row(self, cells: Mapping[str, Any], line: int) -> ReadRow | None:
        self._remember(cells)
        item = self._item(cells, line)
        stratum = same = None
        if self.file.stratum is not None:
            cell = self.cell(cells, self.file.stratum, line)
            stratum = self.faults.stratum(cell, line, self.file.stratum)
        if self.file.same is not None:
            same = self._same(cells, self.file.same, line)
        read = self._spans if self.form == "spans" else self._label
        marks: dict[str, tuple[Mark, ...]] = {}
        for name, place in self.file.labellings.items():
            cell = self.cell(cells, str(place), line)
            given = None if cell is None else read(cell, line, str(place))
            if given is not None:
                marks[nfc(name)] = given
        return None if item is None else ReadRow(item, line, stratum, same, marks)

    def cell(self, cells: Mapping[str, Any], place: str, line: int) -> Any:
        """What stands at a place of a row; None where nothing does."""
        place = nfc(place)
        if place in cells:
            self.seen.add(place)
            return cells[place]
        if "." not in place:
            return None
        found: Any = cells
        gone: list[str] = []
        for part in place.split("."):
            if found is None:
                return None
            if not isinstance(found, dict):
                if place not in self.told:  # once: many rows may have the same layout
                    what, where = "is no object with fields", ".".join(gone)
                    remedy = f"write {{...}} that holds {part!r}, or name another column"
                    self.faults.add(what, line, where, found=found, remedy=remedy)
                    self.told.add(place)
                    self.seen.add(place)
                return None
            gone.append(part)
            if part not in found:
                found = {nfc(name): cell for name, cell in found.items()}
            if part not in found:
                return None
            found = found[part]
        self.seen.add(place)
        return found

    def _remember(self, cells: Mapping[str, Any]) -> None:
        if len(self.columns) > 1000:
            return
        self.columns.update(dict.fromkeys(cells))
        for name, cell in cells.items():
            if isinstance(cell, dict) and len(self.columns) < _LOOKED_INTO:
                self.columns.update((f"{name}.{part}", None) for part in cell)

    def _item(self, cells: Mapping[str, Any], line: int) -> str | None:
        place = str(self.file.item)
        cell = self.cell(cells, place, line)
        if blank(cell):
            remedy = "give the item a name, or leave the row out of the file"
            self.faults.add("is missing", line, place, found=cell, remedy=remedy)
            return None
        return self.faults.name(cell, line, place)

    def _same(self, cells: Mapping[str, Any], place: str, line: int) -> str | None:
        cell = self.cell(cells, place, line)
        if isinstance(cell, str) and cell.strip():
            # Often the item's whole text, so that it need be no name.
            return unicodedata.normalize("NFC", cell)
        if isinstance(cell, int) and not isinstance(cell, bool):
            return str(cell)
        what = "is missing" if blank(cell) else "must be text or a whole number"
        remedy = "give every row what copies of an item share"
        self.faults.add(what, line, place, found=cell, remedy=remedy)
        return None

    def _label(self, cell: object, line: int, place: str) -> tuple[Mark, ...] | None:
        if blank(cell):
            return None
        key = (type(cell), cell) if isinstance(cell, str | int) else None
        known = None if key is None else self.labels.get(key)
        if known is not None:
            return known
        label = self.faults.name(cell, line, place)
        if label is None:
            return None
        marks = (Mark((), label),)
        self.labels[key] = marks
        return marks

    def _spans(self, cell: object, line: int, place: str) -> tuple[Mark, ...] | None:
        if self.csv:
            if blank(cell):
                return None
            remedy = "use a .jsonl or .parquet file for spans"
            self.faults.add(
                "CSV cannot hold lists of spans", line, place, found=cell, remedy=remedy
            )
            return None
        if not isinstance(cell, list):
            remedy = "write [] for no spans, and null where the labelling is not given"
            self.faults.add("must be a list of spans", line, place, found=cell, remedy=remedy)
            return None
        marks = [self._span(span, line, place, at) for at, span in enumerate(cell)]
        return tuple(mark for mark in marks if mark is not None)

    def _span(self, span: object, line: int, place: str, at: int) -> Mark | None:
        if isinstance(span, list) and len(span) in (2, 3):
            start, end, *rest = span
            kind = rest[0] if rest else None
        elif isinstance(span, dict) and "start" in span and "end" in span:
            start, end = span["start"], span["end"]
            kind, label = span.get("type"), span.get("label")
            if kind is not None and label is not None and kind != label:
                what, remedy = "has a type and another label", "keep one of the two"
                self.faults.add(what, line, f"{place}[{at}]", found=span, remedy=remedy)
                return None
            kind = label if kind is None else kind
        else:
            self.faults.add("is no span", line, f"{place}[{at}]", found=span, remedy=_SHAPE)
            return None
        fault = span_fault(start, end)
        if fault is not None:
            self.faults.add(fault[0], line, f"{place}[{at}]", found=span, remedy=fault[1])
            return None
        return self._typed(start, end, kind, line, f"{place}[{at}]")

    def _typed(self, start: int, end: int, kind: object, line: int, where: str) -> Mark | None:
        if kind is None:
            return Mark(((start, end),), None)
        if not isinstance(kind, str):
            remedy = "write it in quotes, or leave it out where spans have no types"
            self.faults.add("a span's type must be text", line, where, found=kind, remedy=remedy)
            return None
        known = self.labels.get(kind)
        if known is None:
            name = self.faults.name(kind, line, where)
            if name is None:
                return None
            known = self.labels[kind] = (Mark((), name),)
        return Mark(((start, end),), known[0].type)

    def refuse_unseen(self) -> None:
        """Refuse places that no row has; they are told before all else, which they cause."""
        if not self.columns:
            return
        wanted = [self.file.item, self.file.stratum, self.file.same, *self.file.labellings.values()]
        unseen = dict.fromkeys(
            nfc(str(place))
            for place in wanted
            if place is not None and nfc(str(place)) not in self.seen
        )
        raise_all(
            [
                Problem(
                    f"no row has {place!r}", file=self.file.file, remedy=near(place, self.columns)
                )
                for place in unseen
            ]
        )
