"""Rows of several files joined by item, and what contradicts itself between them.

Does not know how the files are laid out, nor what is counted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from prereg_judge.errors import InputError, Problem, raise_all
from prereg_judge.labellings.form import FileForm
from prereg_judge.labellings.marks import KIND, Mark, Reading, ReadRow
from prereg_judge.wording import capped, quoted


@dataclass(frozen=True)
class LabellingRow:
    """One row of labellings.

    Attributes
    ----------
    item
        Its name.
    unit
        What it shares with the other rows of the same item, and with no other row.
    stratum
        None where no file gives one.
    line
        Where the first file that has the item has it, counted from 1; None for one of a folder.
    marks
        Labelling -> its marks, each once; None where it is not given.
    words
        What the item is known by in whatever file it stands, where its name is a mere number;
        else None.
    """

    item: str
    unit: str
    stratum: str | None
    line: int | None
    marks: Mapping[str, frozenset[Mark] | None]
    words: str | None = None


def refuse_unfit(file: FileForm, reading: Reading, names: Sequence[str]) -> None:
    """Refuse what a file holds where it cannot be used.

    Raises
    ------
    InputError
        For a file without items, a labelling that no row gives, and one that has marks with and
        without types.
    """
    if not reading.rows:
        remedy = "it needs a row, sentence or document for each item"
        raise InputError(Problem(f"the {KIND} holds no items", file.file, remedy=remedy))
    problems: list[Problem] = []
    for name in names:
        first: dict[bool, ReadRow] = {}
        given = False
        for row in reading.rows:
            marks = row.marks.get(name)
            given = given or marks is not None
            for mark in marks or ():
                first.setdefault(mark.type is None, row)
        where = f"labellings.{name}"
        if not given:
            remedy = "leave the labelling out, or name the place where it stands"
            problems.append(Problem("no row gives it", file.file, None, where, remedy=remedy))
        if len(first) == 2:
            bare, typed = first[True], first[False]
            what = f"a mark has no type, and one of item {typed.item!r} has one"
            remedy = "give every mark of a labelling a type, or none"
            found = f"item {quoted(bare.item)}"
            problems.append(Problem(what, file.file, bare.line, where, found, remedy))
    raise_all(problems)


def refuse_contradictions(files: Sequence[FileForm], readings: Sequence[Reading]) -> None:
    """Refuse rows that cannot be joined, or that say different things of the same item.

    Raises
    ------
    InputError
        For strata that differ between rows of one item; where there are several files, for names
        that stand twice in one of them and for a file that has no item in common with another;
        where there is one, for rows of one name that differ in what copies share.
    """
    problems = list(_other_strata(files, readings))
    for file, reading in zip(files, readings, strict=True):
        if len(files) > 1:
            problems += _names_twice(file, reading)
        elif file.same is not None:
            problems += _split_items(file, reading)
    raise_all(capped(problems))
    names = [{row.item for row in reading.rows} for reading in readings]
    for at, file in enumerate(files):
        others = set[str]().union(*(names[o] for o in range(len(files)) if o != at))
        if len(files) > 1 and not names[at] & others:
            mine, theirs = readings[at].rows[0].item, min(others)
            what = "has no item in common with another file"
            found = f"{quoted(mine)} here, {quoted(theirs)} elsewhere"
            remedy = "items of different files are joined by name: write the same names"
            raise InputError(Problem(what, file.file, found=found, remedy=remedy))


def _other_strata(files: Sequence[FileForm], readings: Sequence[Reading]) -> Iterator[Problem]:
    told: dict[str, tuple[str, ReadRow]] = {}
    for file, reading in zip(files, readings, strict=True):
        if file.stratum is None:
            continue
        for row in reading.rows:
            home, one = told.setdefault(row.item, (file.file, row))
            if one.stratum != row.stratum:
                what = f"the item {row.item!r} has {quoted(one.stratum)} on line {one.line}"
                what += "" if home == file.file else f" of {home}"
                remedy = "give all rows of an item the same stratum"
                found = quoted(row.stratum)
                yield Problem(what, file.file, row.line, file.stratum, found, remedy)


def _names_twice(file: FileForm, reading: Reading) -> Iterator[Problem]:
    first: dict[str, ReadRow] = {}
    for row in reading.rows:
        one = first.setdefault(row.item, row)
        if one is not row:
            what = f"the item stands on line {one.line} already, and several files are joined"
            remedy = "give each row its own name"
            where = file.item or "the sentence's name"
            yield Problem(what, file.file, row.line, where, quoted(row.item), remedy)


def _split_items(file: FileForm, reading: Reading) -> Iterator[Problem]:
    first: dict[str, ReadRow] = {}
    for row in reading.rows:
        one = first.setdefault(row.item, row)
        if one.same != row.same:
            what = f"the item {row.item!r} has {quoted(one.same)} on line {one.line}"
            remedy = "give rows that are copies the same, and others another name"
            yield Problem(what, file.file, row.line, file.same, quoted(row.same), remedy)


def joined(names: Sequence[str], readings: Sequence[Reading]) -> tuple[list[LabellingRow], int]:
    """The rows of all files, and how many marks were left out since their row gives them twice.

    Rows of one file stay as they are, copies among them; rows of several are joined by name.
    """
    of: dict[object, list[ReadRow]] = {}
    for at, reading in enumerate(readings):
        for number, row in enumerate(reading.rows):
            key: object = row.item if len(readings) > 1 else (at, number)
            of.setdefault(key, []).append(row)
    once: dict[tuple[Mark, ...], frozenset[Mark]] = {}
    repeats = 0
    rows: list[LabellingRow] = []
    for parts in of.values():
        marks: dict[str, frozenset[Mark] | None] = dict.fromkeys(names)
        for part in parts:
            for name, found in part.marks.items():
                # Rows with the same marks share them: labels are few, and rows can be many.
                distinct = once.get(found)
                if distinct is None:
                    distinct = once[found] = frozenset(found)
                repeats += len(found) - len(distinct)
                marks[name] = distinct
        first = parts[0]
        same = next((part.same for part in parts if part.same is not None), None)
        unit = f"item {first.item}" if same is None else f"same {same}"
        stratum = next((part.stratum for part in parts if part.stratum is not None), None)
        words = next((part.words for part in parts if part.words is not None), None)
        rows.append(LabellingRow(first.item, unit, stratum, first.line, marks, words))
    return rows, repeats
