"""The votes that stand in the rows of a table, whichever way it is laid out.

Knows the long form and the public layouts; does not know which annotator belongs to which pool,
nor what is counted.
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from prereg_judge.annotation_form import (
    AGGREGATED,
    MT_BENCH_COLUMNS,
    MULTIPREF_COLUMNS,
    MULTIPREF_LISTS,
    OPTIONAL,
    REQUIRED,
    Layout,
    TableForm,
    name_fault,
    near,
)
from prereg_judge.canon import nfc
from prereg_judge.errors import Problem, raise_all
from prereg_judge.row_files import GROUP_NAME, Row
from prereg_judge.wording import capped, control_character, listed, quoted

# Squares of larger gaps have no room in a number, and nobody measures quality so.
_MOST_GAP = 1e100


@dataclass(frozen=True)
class RawVote:
    """A vote as it stands in the file; `group` is what the patterns of pools are matched with."""

    item: str
    left: str | None
    right: str | None
    annotator: str
    group: str
    label: str
    stratum: str | None
    gap: float | None
    line: int
    where: str  # the field that the label stands in


@dataclass(frozen=True)
class Reading:
    """The votes of a file in its order, and how many were left out for which reason."""

    votes: tuple[RawVote, ...]
    left_out: Mapping[str, int]


def read_votes(rows: Iterable[Row | Problem], *, form: TableForm, shown: str) -> Reading:
    """The votes of a file's rows, with their labels in the words of the tool.

    Parameters
    ----------
    rows
        As `row_files.read_rows` gives them.
    form
        A form without problems.
    shown
        The file's name as messages should give it.

    Raises
    ------
    InputError
        With every problem found (up to 20 listed): columns that no row has, cells that are
        missing or of another kind, labels that the form does not name.
    """
    reader = _READERS[form.layout]
    needed = _needed(form)
    columns: dict[str, None] = {}
    problems: list[Problem] = []
    votes: list[RawVote] = []
    left_out: dict[str, int] = {}
    for read in rows:
        if isinstance(read, Problem):
            problems.append(read)
            continue
        line, cells = read
        if not isinstance(cells, dict):
            remedy = "write {...} with named fields"
            what = "the row is not an object"
            problems.append(Problem(what, shown, line, found=quoted(cells), remedy=remedy))
            continue
        row = _Row({nfc(name): cell for name, cell in cells.items()}, line, shown, problems)
        columns.update(dict.fromkeys(row.cells))
        votes += reader(row, form, left_out)
    if columns:
        raise_all(
            [_no_column(name, columns, form, shown) for name in needed if name not in columns]
        )
    raise_all(capped(problems))
    return Reading(tuple(_translated(votes, form, shown)), left_out)


def _needed(form: TableForm) -> Mapping[str, None]:
    """Columns that the layout reads, each once, in the order of its roles."""
    if form.layout == "long":
        roles = (*REQUIRED, *OPTIONAL)
        return dict.fromkeys(nfc(form.columns[role]) for role in roles if role in form.columns)
    return dict.fromkeys(MT_BENCH_COLUMNS if form.layout == "mt-bench" else MULTIPREF_COLUMNS)


def _no_column(name: str, columns: Iterable[str], form: TableForm, shown: str) -> Problem:
    what, remedy = f"there is no column {name!r}", near(name, columns)
    annotators = "judge" if form.layout == "mt-bench" else form.columns.get("annotator")
    if annotators is not None and name == nfc(annotators):
        what += ", which would say who gave each vote"
        remedy += f"{'' if remedy.endswith('?') else '.'} If no column says it, {AGGREGATED}"
    return Problem(what, file=shown, remedy=remedy)


@dataclass(frozen=True)
class _Row:
    """A row while it is read: its cells, and the list that its problems go to."""

    cells: Mapping[str, Any]
    line: int
    shown: str
    problems: list[Problem]

    def wrong(self, what: str, where: str, found: object, remedy: str) -> None:
        self.problems.append(Problem(what, self.shown, self.line, where, quoted(found), remedy))

    def text(self, column: str) -> str | None:
        """The text, or whole number, in a column; None, and a problem, where there is none."""
        return self.checked(self.cells.get(nfc(column)), column)

    def word(self, column: str) -> str | None:
        """As `text`, of a word whose meaning is registered as it stands, with its white space."""
        return self.checked(self.cells.get(nfc(column)), column, name=False)

    def checked(self, cell: object, where: str, *, name: bool = True) -> str | None:
        if _blank(cell):
            self.wrong("is missing", where, cell, "give it, or leave the row out of the file")
            return None
        if isinstance(cell, int) and not isinstance(cell, bool):
            return str(cell)
        if not isinstance(cell, str):
            self.wrong("must be text or a whole number", where, cell, "write it in quotes, as text")
            return None
        fault = name_fault(cell)
        if fault is not None and (name or control_character(cell) is not None):
            what, remedy = fault
            self.wrong(what, where, cell, remedy)
            return None
        return unicodedata.normalize("NFC", cell)

    def models(self, left: str, right: str) -> tuple[str, str] | None:
        """The two models of a pair; None, and a problem, where there are not two."""
        first, second = self.text(left), self.text(right)
        if first is None or second is None:
            return None
        if first == second:
            what = f"the same model as in {left!r}"
            self.wrong(what, right, second, "a vote on a pair needs the answers of two models")
            return None
        return first, second


def _blank(cell: object) -> bool:
    return cell is None or (isinstance(cell, str) and not cell.strip())


def _long(row: _Row, form: TableForm, _left_out: dict[str, int]) -> Iterator[RawVote]:
    before, columns = len(row.problems), form.columns
    item, annotator = row.text(columns["item"]), row.text(columns["annotator"])
    read = row.text if form.words is None else row.word
    label = read(columns["label"])
    group = row.text(columns["pool"]) if "pool" in columns else annotator
    left = right = None
    if "model_a" in columns:
        left, right = row.models(columns["model_a"], columns["model_b"]) or (None, None)
    stratum = _stratum(row, columns["stratum"]) if "stratum" in columns else None
    gap = _gap(row, columns["gap"]) if "gap" in columns else None
    if len(row.problems) > before:
        return
    if item is not None and annotator is not None and label is not None and group is not None:
        where = columns["label"]
        yield RawVote(item, left, right, annotator, group, label, stratum, gap, row.line, where)


def _stratum(row: _Row, column: str) -> str | None:
    if _blank(row.cells.get(nfc(column))):
        return None
    name = row.text(column)
    if name is not None and not GROUP_NAME.fullmatch(name):
        remedy = "use letters, digits, space, dot, dash or underscore"
        row.wrong("cannot be named in a metric", column, name, remedy)
    return name


def _gap(row: _Row, column: str) -> float | None:
    cell = row.cells.get(nfc(column))
    if _blank(cell):
        row.wrong("is missing", column, cell, "give every item its gap, or name no column of gaps")
        return None
    gap = _number(cell)
    if gap is None or gap < 0:
        remedy = "a gap is how far apart the two answers are in quality: 0 or more"
        row.wrong("must be a number, 0 or above", column, cell, remedy)
        return None
    if gap > _MOST_GAP:
        remedy = f"give gaps in a unit in which they stay below {_MOST_GAP:g}"
        row.wrong("is too large to reckon with", column, cell, remedy)
        return None
    return gap


def _number(cell: object) -> float | None:
    """The finite number that a cell holds, as a number or in text; None where it holds none."""
    if isinstance(cell, bool) or not isinstance(cell, int | float | str) or "_" in str(cell):
        return None
    try:
        number = float(cell)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def _mt_bench(row: _Row, _form: TableForm, _left_out: dict[str, int]) -> Iterator[RawVote]:
    question, turn = row.text("question_id"), row.text("turn")
    models = row.models("model_a", "model_b")
    label, judge = row.text("winner"), row.text("judge")
    if question is None or turn is None or models is None or label is None or judge is None:
        return
    item = f"{question}/{turn}"
    yield RawVote(item, *models, judge, judge, label, None, None, row.line, "winner")


def _multipref(row: _Row, form: TableForm, left_out: dict[str, int]) -> Iterator[RawVote]:
    ident, models = row.text("comparison_id"), row.models("model_a", "model_b")
    preference = str(form.verdict)
    for group, column in MULTIPREF_LISTS.items():
        annotations = row.cells.get(column)
        if not isinstance(annotations, list | None):
            remedy = "use the published Parquet or JSONL file: CSV cannot hold lists"
            row.wrong("must be a list of annotations", column, annotations, remedy)
            continue
        for at, annotation in enumerate(annotations or ()):
            where = f"{column}[{at}]"
            if not isinstance(annotation, dict):
                remedy = "write {...} with named fields"
                row.wrong("the annotation is not an object", where, annotation, remedy)
                continue
            who = row.checked(annotation.get("evaluator"), f"{where}.evaluator")
            if _blank(annotation.get(preference)):
                # An annotator may leave a preference open; the file is others' and is not mended.
                reason = f"no {preference} given"
                left_out[reason] = left_out.get(reason, 0) + 1
                continue
            where += f".{preference}"
            label = row.checked(annotation[preference], where)
            if ident is None or models is None or who is None or label is None:
                continue
            # Nothing says that the same name in both lists is the same person.
            name = f"{group}/{who}"
            yield RawVote(ident, *models, name, group, label, None, None, row.line, where)


_READERS: dict[Layout, Callable[[_Row, TableForm, dict[str, int]], Iterator[RawVote]]] = {
    "long": _long,
    "mt-bench": _mt_bench,
    "multipref": _multipref,
}


def _translated(votes: list[RawVote], form: TableForm, shown: str) -> Iterator[RawVote]:
    words = form.words
    if words is None:
        return iter(votes)
    unknown: dict[str, list[RawVote]] = {}
    for vote in votes:
        if vote.label not in words:
            unknown.setdefault(vote.label, []).append(vote)
    if unknown:
        first = next(iter(unknown.values()))[0]
        counts = listed([f"{quoted(word)} in {len(of)}" for word, of in unknown.items()])
        known = ", ".join(f"{word} = {side}" for word, side in words.items())
        remedy = f"known are {known}"
        if form.layout == "long":
            remedy += "; say in `labels` what each word of the file means (a, b or tie)"
        what = "labels without a known meaning"
        raise_all([Problem(what, shown, first.line, first.where, f"{counts} votes", remedy)])
    return (replace(vote, label=words[vote.label]) for vote in votes)
