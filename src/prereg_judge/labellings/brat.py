"""Spans that stand in brat's standoff files, a folder of `.ann` files for each labelling.

Knows lines of text-bound annotations; other kinds of lines are counted and not read. Offsets
count characters.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path, PurePosixPath

from prereg_judge.canon import nfc
from prereg_judge.errors import InputError, Problem
from prereg_judge.labellings.form import FileForm
from prereg_judge.labellings.marks import (
    KIND,
    Faults,
    Mark,
    Place,
    ReadFile,
    Reading,
    ReadRow,
    decoded,
    span_fault,
)
from prereg_judge.row_files import read_file
from prereg_judge.wording import quoted

# Relations, events, attributes, modifications, normalisations, notes, equivalences.
_OTHER_KINDS = "REAMN#*"
_OFFSETS = re.compile(r"[0-9]{1,15} [0-9]{1,15}(?:;[0-9]{1,15} [0-9]{1,15})*")
_LEFT_OUT = "line of brat that is no span"


def read_brat(folder: Path, *, file: FileForm) -> Reading:
    """The labellings of a folder of standoff files.

    An item is the stem of an `.ann` file; a sub-folder without it does not give its labelling. A
    span of several fragments is one mark. Where the text lies beside (`.txt`), each span must lie
    inside it and quote it.

    Parameters
    ----------
    folder
        The folder.
    file
        Which sub-folder holds which labelling; a form without problems.

    Returns
    -------
    Reading
        Items sorted by name; files in the order of the labellings, then by name.

    Raises
    ------
    InputError
        For folders that do not exist or hold no `.ann` file, and with every problem found in the
        files (up to 20 listed).
    """
    faults = Faults(file.file)
    found: dict[str, dict[str, tuple[Mark, ...]]] = {}
    files: list[ReadFile] = []
    others = 0
    for name, place in file.labellings.items():
        sub = str(PurePosixPath(str(place)))
        shown = file.file.rstrip("/") + ("" if sub == "." else f"/{sub}")
        for item, path in _annotated(folder / sub, shown, faults).items():
            document = _Document.read(path, f"{shown}/{path.name}", files)
            found.setdefault(item, {})[nfc(name)] = tuple(document.marks())
            others += document.others()
            faults.problems.extend(document.faults.problems)
    faults.raise_all()
    rows = tuple(ReadRow(item, None, None, None, found[item]) for item in sorted(found))
    return Reading(rows, tuple(files), {_LEFT_OUT: others} if others else {})


def _annotated(folder: Path, shown: str, faults: Faults) -> Mapping[str, Path]:
    """Name of each item of a folder -> its `.ann` file, sorted by name."""
    if not folder.is_dir():
        what = "is no folder" if folder.exists() else "the folder does not exist"
        raise InputError(Problem(what, file=shown, remedy="check the path"))
    paths = [path for path in sorted(folder.iterdir()) if path.suffix == ".ann"]
    if not paths:
        remedy = "name the folder that holds them; folders inside it are not searched"
        raise InputError(Problem("the folder holds no .ann file", file=shown, remedy=remedy))
    items: dict[str, Path] = {}
    inside = Faults(shown)
    for path in paths:
        item = inside.name(path.stem, None, path.name)
        if item is not None and item in items:
            what = f"is the same name as {items[item].name}, written with other characters"
            remedy = "keep one of the two files"
            inside.add(what, None, path.name, found=path.stem, remedy=remedy)
        elif item is not None:
            items[item] = path
    faults.problems.extend(inside.problems)
    return items


@dataclass(frozen=True)
class _Document:
    """One `.ann` file, and the text beside it if there is one."""

    lines: tuple[str, ...]
    text: str | None
    faults: Faults

    @classmethod
    def read(cls, path: Path, shown: str, files: list[ReadFile]) -> _Document:
        """Read both files, and note their identities."""
        faults = Faults(shown)
        raw = read_file(path, kind=KIND, shown=shown)
        files.append(ReadFile.of(shown, raw))
        beside, text = path.with_suffix(".txt"), None
        if beside.exists():
            named = str(PurePosixPath(shown).with_suffix(".txt"))
            written = read_file(beside, kind="text", shown=named)
            files.append(ReadFile.of(named, written))
            # A byte-order mark stays: offsets count it as a character.
            text = decoded(written, Faults(named), codec="utf-8")
        lines = (line.removesuffix("\r") for line in decoded(raw, faults).split("\n"))
        return cls(tuple(lines), text, faults)

    def others(self) -> int:
        """How many lines are annotations of another kind."""
        return sum(line[:1] in _OTHER_KINDS for line in self.lines if line)

    def marks(self) -> Iterator[Mark]:
        """The text-bound annotations, in their order."""
        seen: dict[str, int] = {}
        for number, line in enumerate(self.lines, start=1):
            if not line.strip() or line[0] in _OTHER_KINDS:
                continue
            if not line.startswith("T"):
                remedy = "a line begins with T1, R1, E1, A1, M1, N1, #1 or *, then a tab"
                self._wrong("is no annotation of brat", number, line, remedy)
                continue
            ident = line.partition("\t")[0]
            if ident in seen:
                what = f"{ident} stands on line {seen[ident]} already"
                self._wrong(what, number, line, "give each annotation its own number")
            seen.setdefault(ident, number)
            mark = self._mark(line, number)
            if mark is not None:
                yield mark

    def _mark(self, line: str, number: int) -> Mark | None:
        cells = line.split("\t", 2)
        kind, _, offsets = cells[1].partition(" ") if len(cells) == 3 else ("", "", "")
        if not _OFFSETS.fullmatch(offsets) or not kind:
            remedy = "write T1, a tab, `Type 0 5` (fragments as `0 5;10 15`), a tab, the text"
            self._wrong("is no text-bound annotation", number, line, remedy)
            return None
        place = tuple(
            (int(start), int(end))
            for start, end in (fragment.split(" ") for fragment in offsets.split(";"))
        )
        named = self.faults.name(kind, number, cells[0])
        fault = self._place_fault(place)
        if fault is not None:
            self._wrong(fault[0], number, line, fault[1])
            return None
        if self.text is not None and not self._quotes(place, cells[2]):
            what = f"the text has {quoted(self._at(place))} there"
            remedy = "the .ann file belongs to another text, or its offsets do not count characters"
            self.faults.add(what, number, cells[0], found=cells[2], remedy=remedy)
        return None if named is None else Mark(place, named)

    def _place_fault(self, place: Place) -> tuple[str, str] | None:
        for start, end in place:
            fault = span_fault(start, end)
            if fault is not None:
                return fault
        if any(end > start for (_, end), (start, _) in pairwise(place)):
            return "fragments must not overlap, nor go back", "write them in the text's order"
        if self.text is not None and place[-1][1] > len(self.text):
            remedy = "the .ann file belongs to another text, or the text was cut"
            return f"ends beyond its text, which has {len(self.text)} characters", remedy
        return None

    def _at(self, place: Place) -> str:
        return " ".join((self.text or "")[start:end] for start, end in place)

    def _quotes(self, place: Place, said: str) -> bool:
        return _one_line(self._at(place)) == _one_line(said)

    def _wrong(self, what: str, number: int, line: str, remedy: str) -> None:
        self.faults.add(what, number, line.partition("\t")[0][:20], found=line, remedy=remedy)


def _one_line(text: str) -> str:
    """A text as the column holds it: line ends are spaces there, and letters may be composed."""
    return unicodedata.normalize("NFC", text.replace("\r", " ").replace("\n", " "))
