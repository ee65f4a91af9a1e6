"""Marks on items, and what a file of labellings gives: the value types that all readers share.

Knows what a mark and a name may be; does not know how any file is laid out.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from prereg_judge.annotation_form import name_fault
from prereg_judge.canon import sha256_bytes
from prereg_judge.errors import Problem, raise_all
from prereg_judge.row_files import GROUP_NAME
from prereg_judge.wording import capped, quoted

KIND = "file of labellings"

Place = tuple[tuple[int, int], ...]


class Mark(NamedTuple):
    """One span of an item, or its one label.

    Attributes
    ----------
    place
        The span's fragments as (start, end), in their order, each `0 <= start < end`; nearly
        always one. Empty for a label of the whole item.
    type
        The span's type, or the label; None for a span that has no type. Empty text is a type.
    """

    place: Place
    type: str | None


@dataclass(frozen=True)
class ReadRow:
    """A row, sentence or document as one file gives it.

    Attributes
    ----------
    item
        Its name.
    line
        Line or row number in the file, counted from 1; None for an item of a folder.
    stratum, same
        As the file has them; None where it gives none.
    marks
        Name of each labelling that is given here -> its marks in their order, repeats and all.
    words
        What the item is known by where its name is a mere number in this file; else None.
    """

    item: str
    line: int | None
    stratum: str | None
    same: str | None
    marks: Mapping[str, tuple[Mark, ...]]
    words: str | None = None


@dataclass(frozen=True)
class ReadFile:
    """The identity of a file that was read: its name as messages give it, and its bytes."""

    shown: str
    sha256: str
    n_bytes: int

    @classmethod
    def of(cls, shown: str, raw: bytes) -> ReadFile:
        """The identity of a file with these bytes."""
        return cls(shown, sha256_bytes(raw), len(raw))


@dataclass(frozen=True)
class Reading:
    """What a file, or a folder, of labellings holds.

    Attributes
    ----------
    rows
        In the file's order; of a folder, sorted by name.
    files
        Every file that was read, in a fixed order.
    left_out
        Reason -> how many entries of the file are not used.
    """

    rows: tuple[ReadRow, ...]
    files: tuple[ReadFile, ...]
    left_out: Mapping[str, int]


@dataclass(frozen=True)
class Faults:
    """The problems of a file while it is read; `shown` is its name in messages."""

    shown: str
    problems: list[Problem] = field(default_factory=list)

    def add(
        self, what: str, line: int | None, where: str | None, *, found: object, remedy: str
    ) -> None:
        """Note one problem; `found` is the value as it stands."""
        self.problems.append(Problem(what, self.shown, line, where, quoted(found), remedy))

    def name(self, cell: object, line: int | None, where: str) -> str | None:
        """The text, or whole number, of a cell as a name; None, and a problem, for another."""
        if isinstance(cell, int) and not isinstance(cell, bool):
            return str(cell)
        if not isinstance(cell, str):
            remedy = "write it in quotes, as text"
            self.add("must be text or a whole number", line, where, found=cell, remedy=remedy)
            return None
        if cell.isascii() and cell.isprintable() and cell == cell.strip():
            return cell  # nothing to find, and files have many such names
        fault = name_fault(cell)
        if fault is not None:
            self.add(fault[0], line, where, found=cell, remedy=fault[1])
            return None
        return unicodedata.normalize("NFC", cell)

    def stratum(self, cell: object, line: int | None, where: str) -> str | None:
        """A stratum's name; None where the cell is empty, or, with a problem, of another kind."""
        if blank(cell):
            return None
        name = self.name(cell, line, where)
        if name is not None and not GROUP_NAME.fullmatch(name):
            remedy = "use letters, digits, space, dot, dash or underscore"
            self.add("cannot be named in a metric", line, where, found=name, remedy=remedy)
        return name

    def raise_all(self) -> None:
        """Raise one `InputError` with the first problems, or return where there is none."""
        raise_all(capped(self.problems))


def blank(cell: object) -> bool:
    """Whether a cell holds nothing."""
    return cell is None or (isinstance(cell, str) and not cell.strip())


def decoded(raw: bytes, faults: Faults, *, codec: str = "utf-8-sig") -> str:
    """The text of a file in UTF-8; by default without a byte-order mark at its beginning.

    Raises
    ------
    InputError
        With the line of the first byte that is not UTF-8.
    """
    try:
        return raw.decode(codec)
    except UnicodeDecodeError as exc:
        line = raw[: exc.start].count(b"\n") + 1
        problem = Problem("is not UTF-8", faults.shown, line, remedy="save the file as UTF-8")
        raise_all([problem])
        raise


def span_fault(start: object, end: object) -> tuple[str, str] | None:
    """What is wrong with the two ends of a span, and what would do; None where nothing is."""
    if not isinstance(start, int) or not isinstance(end, int) or bool in (type(start), type(end)):
        return "an offset must be a whole number", "count from 0, without a fraction or quotes"
    if start < 0:
        return "a span cannot begin before its text", "count offsets from 0"
    if start >= end:
        remedy = "write the start, then the end: the offset after the last one inside"
        return "a span must end after it begins", remedy
    return None
