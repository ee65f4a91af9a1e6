"""Tables of a judge's verdicts on pairs that were made elsewhere, one row a pair.

Knows columns and words as a registration names them; does not know what is counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prereg_judge.annotation_form import name_fault, near
from prereg_judge.annotations import pair_name
from prereg_judge.canon import nfc, sha256_bytes
from prereg_judge.errors import InputError, Problem, raise_all
from prereg_judge.row_files import GROUP_NAME, Row, read_file, read_rows
from prereg_judge.votes import OTHER_SIDE, Side
from prereg_judge.wording import capped, listed, quoted

_KIND = "file of verdicts"


@dataclass(frozen=True)
class VerdictForm:
    """How a table of verdicts is read.

    Attributes
    ----------
    item, models
        Columns that together name the item, and those of the two models, if any.
    ab, ba
        Columns of the verdicts in the two orders; `ba` None where there is one order.
    stratum
        Column of the item's stratum, if any.
    slots
        Whether a verdict is said of the first and second answer shown, not of answers a and b.
    words
        The file's word -> `a` (or first), `b` (or second) or `tie`. An empty cell is no verdict.
    """

    item: Sequence[str]
    models: tuple[str, str] | None
    ab: str
    ba: str | None
    stratum: str | None
    slots: bool
    words: Mapping[str, Side]


@dataclass(frozen=True)
class VerdictRow:
    """The verdicts on one pair, said of answer a and answer b; None where there is none."""

    item: str
    left: str | None
    right: str | None
    ab: Side | None
    ba: Side | None
    stratum: str | None
    line: int

    @property
    def name(self) -> str:
        """The pair's name: the item's own where no models are named."""
        if self.left is None or self.right is None:
            return self.item
        return pair_name(self.item, (self.left, self.right))


@dataclass(frozen=True)
class VerdictTable:
    """The rows of a file of verdicts, in file order, with the hash of its bytes."""

    file: str
    sha256: str
    n_bytes: int
    rows: tuple[VerdictRow, ...]


def load_verdicts(path: Path, *, form: VerdictForm, shown: str) -> VerdictTable:
    """Read a table of verdicts from JSONL, CSV or Parquet.

    Raises
    ------
    InputError
        With every problem found (up to 20 listed): a missing or empty file, columns that are not
        there, words that mean nothing, one model on both sides, a pair that stands twice.
    """
    raw = read_file(path, kind=_KIND, shown=shown)
    reader = _Reader(form, shown)
    rows = tuple(reader.read(read_rows(raw, suffix=path.suffix, kind=_KIND, shown=shown)))
    raise_all(capped(reader.problems))
    if not rows:
        remedy = "name a file with a row for each pair"
        raise InputError(Problem("the file of verdicts has no rows", shown, remedy=remedy))
    return VerdictTable(shown, sha256_bytes(raw), len(raw), rows)


class _Reader:
    """Reads rows, and keeps what is wrong with them."""

    def __init__(self, form: VerdictForm, shown: str) -> None:
        self.form, self.shown = form, shown
        self.problems: list[Problem] = []
        self._words = {nfc(word): side for word, side in form.words.items()}
        self._first: dict[tuple[str, frozenset[str | None]], int] = {}

    def read(self, rows: Iterable[Row | Problem]) -> Iterable[VerdictRow]:
        """The rows that are in order."""
        checked = False
        for read in rows:
            if isinstance(read, Problem):
                self.problems.append(read)
                continue
            line, cells = read
            if not isinstance(cells, dict):
                remedy = "write {...} with named fields"
                self._wrong("the row is not an object", line, None, cells, remedy)
                continue
            if not checked:
                self._refuse_columns(cells)
                checked = True
            row = self._row({nfc(name): cell for name, cell in cells.items()}, line)
            if row is not None:
                yield row

    def _refuse_columns(self, cells: Mapping[str, Any]) -> None:
        form = self.form
        named = (*form.item, *(form.models or ()), form.ab, form.ba, form.stratum)
        known = [nfc(name) for name in cells]
        raise_all(
            [
                Problem(f"there is no column {name!r}", self.shown, remedy=near(name, known))
                for name in dict.fromkeys(named)
                if name is not None and nfc(name) not in known
            ]
        )

    def _row(self, cells: Mapping[str, Any], line: int) -> VerdictRow | None:
        form, before = self.form, len(self.problems)
        item = "/".join(self._text(cells, name, line) for name in form.item)
        left = right = None
        if form.models is not None:
            left, right = (self._text(cells, name, line) for name in form.models)
            if left == right:
                remedy = "a pair needs the answers of two models"
                self._wrong("one model stands on both sides", line, form.models[1], right, remedy)
        ab = self._side(cells, form.ab, line)
        ba = self._side(cells, form.ba, line) if form.ba is not None else None
        if form.slots and ba is not None:
            ba = OTHER_SIDE[ba]
        stratum = self._stratum(cells, line) if form.stratum is not None else None
        # The same two answers the other way round are the same pair: each order has its column.
        key = (item, frozenset((left, right)))
        if key in self._first:
            what = f"the pair stands before, on line {self._first[key]}"
            self._wrong(what, line, form.item[0], item, "keep one row for each pair")
        if len(self.problems) > before:
            return None
        self._first[key] = line
        return VerdictRow(item, left, right, ab, ba, stratum, line)

    def _text(self, cells: Mapping[str, Any], name: str, line: int) -> str:
        cell = cells.get(nfc(name))
        if isinstance(cell, int) and not isinstance(cell, bool):
            return str(cell)
        if not isinstance(cell, str) or not cell.strip():
            remedy = "give it as text or a whole number"
            self._wrong("is missing, or neither text nor a whole number", line, name, cell, remedy)
            return ""
        self._refuse_fault(cell, name, line)
        return str(nfc(cell))

    def _refuse_fault(self, cell: str, name: str, line: int) -> None:
        fault = name_fault(cell)
        if fault is not None:
            what, remedy = fault
            self._wrong(what, line, name, cell, remedy)

    def _side(self, cells: Mapping[str, Any], name: str, line: int) -> Side | None:
        cell = cells.get(nfc(name))
        if cell is None or cell == "":
            return None
        side = self._words.get(nfc(cell)) if isinstance(cell, str) else None
        if side is None:
            remedy = f"known words: {listed(list(self._words))}; add it to `words`, or mend the row"
            self._wrong("is no word that means a side", line, name, cell, remedy)
        return side

    def _stratum(self, cells: Mapping[str, Any], line: int) -> str | None:
        assert self.form.stratum is not None
        cell = cells.get(nfc(self.form.stratum))
        if cell is None or cell == "":
            return None
        if not isinstance(cell, str) or not GROUP_NAME.fullmatch(cell):
            remedy = "use letters, digits, space, dot, dash or underscore"
            self._wrong("cannot be named in a metric", line, self.form.stratum, cell, remedy)
            return None
        self._refuse_fault(cell, self.form.stratum, line)
        return cell

    def _wrong(self, what: str, line: int, where: str | None, found: object, remedy: str) -> None:
        self.problems.append(Problem(what, self.shown, line, where, quoted(found), remedy))
