"""What a registration says of files of labellings: their formats, and what stands where.

Checks the form itself; reads no file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath, PureWindowsPath
from typing import Literal, get_args

from prereg_judge.annotation_form import name_fault, near
from prereg_judge.canon import nfc
from prereg_judge.errors import Problem
from prereg_judge.labelled import MarkForm
from prereg_judge.wording import quoted

# Rows of JSONL, CSV or Parquet; a column of tags; a folder of standoff files.
LabellingFormat = Literal["rows", "conll", "brat"]
# How tags say where spans begin and end.
TagScheme = Literal["iob1", "iob2", "bioes"]


@dataclass(frozen=True)
class FileForm:
    """What a registration says of one file, or folder, of labellings.

    Attributes
    ----------
    file
        Its name as the registration gives it.
    format
        `rows` (.jsonl, .csv, .parquet), `conll` or `brat` (a folder).
    labellings
        Name of each labelling -> where it stands: of `rows` a column or dotted path, of `conll`
        the number of a column from 1, of `brat` a sub-folder, `.` for the folder itself.
    item, stratum, same
        Of `rows`: where an item's name, its stratum, and what copies of an item share stand.
        Without `same`, copies are rows with the same name.
    tags
        Of `conll`: the scheme of its tags.
    """

    file: str
    format: LabellingFormat
    labellings: Mapping[str, str | int]
    item: str | None = None
    stratum: str | None = None
    same: str | None = None
    tags: TagScheme | None = None


@dataclass(frozen=True)
class LabellingForm:
    """What a registration says of all its labellings.

    Attributes
    ----------
    form
        Whether they are spans or one label an item.
    files
        The files in the registered order; items of different files are joined by name.
    """

    form: MarkForm
    files: tuple[FileForm, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the labellings, in the registered order."""
        return tuple(nfc(name) for file in self.files for name in file.labellings)


def labelling_form_problems(form: LabellingForm) -> list[Problem]:
    """What is wrong with a form, whatever the files hold; each problem names the form's field."""
    if not form.files:
        remedy = "name a file, and where each labelling stands in it"
        return [Problem("no file of labellings is named", where="files", remedy=remedy)]
    problems: list[Problem] = []
    homes: dict[str, str] = {}
    joins: dict[str, str] = {}
    for at, file in enumerate(form.files):
        where = f"files[{at}]"
        problems += _file_problems(file, where, form.form)
        for name in file.labellings:
            here, home = f"{where}.labellings.{name}", homes.get(nfc(name))
            if home is not None:
                what, remedy = f"is named in {home} already", "give each labelling its own name"
                problems.append(Problem(what, where=here, found=quoted(name), remedy=remedy))
            homes.setdefault(nfc(name), here)
        if file.same is not None:
            home = joins.setdefault("same", where)
            if home != where:
                remedy = "say in one file which items are copies"
                problems.append(Problem(f"is said in {home}", where=f"{where}.same", remedy=remedy))
    return problems


def _file_problems(file: FileForm, where: str, form: MarkForm) -> Iterator[Problem]:
    formats = get_args(LabellingFormat)
    if file.format not in formats:
        remedy = near(file.format, formats)
        what = "no such format"
        yield Problem(what, where=f"{where}.format", found=quoted(file.format), remedy=remedy)
        return
    if form == "labels" and file.format != "rows":
        what = f"{file.format} files hold spans, not one label an item"
        remedy = "use format rows for labels, or form spans"
        yield Problem(what, where=f"{where}.format", found=quoted(file.format), remedy=remedy)
    if not file.labellings:
        remedy = "name each labelling, and where it stands"
        yield Problem("names no labelling", where=f"{where}.labellings", remedy=remedy)
    yield from _field_problems(file, where)
    places: dict[str, str] = {}
    for name, place in file.labellings.items():
        here = f"{where}.labellings.{name}"
        fault = name_fault(name) if name else ("is empty", "give the labelling a name")
        if fault is not None:
            yield Problem(fault[0], where=here, found=quoted(name), remedy=fault[1])
        fault = _place_fault(place, file.format)
        if fault is not None:
            yield Problem(fault[0], where=here, found=quoted(place), remedy=fault[1])
        other = places.setdefault(_placed(place, file.format), name)
        if other != name:
            what = f"is the place of {other!r} too"
            remedy = "each labelling has a place of its own"
            yield Problem(what, where=here, found=quoted(place), remedy=remedy)


def _field_problems(file: FileForm, where: str) -> Iterator[Problem]:
    """Fields that a format needs, and those that it has no use for."""
    if file.format == "rows" and not file.item:
        remedy = "name the column that holds the items' names"
        yield Problem("rows need `item`", where=f"{where}.item", remedy=remedy)
    if file.format != "rows":
        for field in ("item", "stratum", "same"):
            if getattr(file, field) is not None:
                what = f"is for format rows, not for {file.format}"
                yield Problem(what, where=f"{where}.{field}", remedy="leave it out")
    schemes = get_args(TagScheme)
    if file.format == "conll" and file.tags not in schemes:
        what, remedy = "say which scheme the tags follow", f"use {', '.join(schemes)}"
        yield Problem(what, where=f"{where}.tags", found=quoted(file.tags), remedy=remedy)
    if file.format != "conll" and file.tags is not None:
        what = f"is for format conll, not for {file.format}"
        yield Problem(what, where=f"{where}.tags", found=quoted(file.tags), remedy="leave it out")


def _place_fault(place: object, kind: LabellingFormat) -> tuple[str, str] | None:
    if kind == "conll":
        if not isinstance(place, int) or isinstance(place, bool) or place < 1:
            remedy = "give a whole number: the first column is 1"
            return "must be the number of a column", remedy
        return None
    if not isinstance(place, str) or not place.strip():
        if kind == "rows":
            return "must name a column", "write its name, or a dotted path such as labellings.A"
        return "must name a sub-folder", "write its name, or `.` for the folder itself"
    if kind == "brat":
        path = PurePosixPath(place)
        if path.is_absolute() or PureWindowsPath(place).drive or ".." in path.parts:
            return "leads out of the folder", "name a sub-folder of it"
    return None


def _placed(place: object, kind: LabellingFormat) -> str:
    """A place as text that is the same for the same place."""
    return str(PurePosixPath(str(place))) if kind == "brat" else nfc(str(place))
