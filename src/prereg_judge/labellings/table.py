"""Labellings of all files of a registration, joined by item, and what they are as counts.

How files are laid out is known to the readers, what contradicts itself to `joining`, how marks
are counted to `counting`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from prereg_judge.annotation_form import near
from prereg_judge.canon import nfc
from prereg_judge.errors import Problem, raise_all
from prereg_judge.labelled import Duplicates, Labelled, MarkForm
from prereg_judge.labellings.brat import read_brat
from prereg_judge.labellings.conll import read_conll
from prereg_judge.labellings.counting import count_marks
from prereg_judge.labellings.form import FileForm, LabellingForm, labelling_form_problems
from prereg_judge.labellings.joining import (
    LabellingRow,
    joined,
    refuse_contradictions,
    refuse_unfit,
)
from prereg_judge.labellings.marks import ReadFile, Reading
from prereg_judge.labellings.merging import checked_merge
from prereg_judge.labellings.rows import read_row_labellings
from prereg_judge.wording import quoted

REPEATED = "mark that its row gives twice"


@dataclass(frozen=True)
class LabellingTable:
    """The rows of all files.

    Attributes
    ----------
    form
        Spans, or one label an item.
    names
        Names of the labellings, in the registered order.
    rows
        In the order of the first file, then what the next ones add. A name stands twice only
        where there is one file.
    files
        Every file that was read, in a fixed order.
    left_out
        Reason -> how many entries are not used.
    """

    form: MarkForm
    names: tuple[str, ...]
    rows: tuple[LabellingRow, ...]
    files: tuple[ReadFile, ...]
    left_out: Mapping[str, int]

    @cached_property
    def types(self) -> tuple[str, ...]:
        """The types, or labels, that any labelling has, sorted."""
        found = {
            mark.type
            for row in self.rows
            for marks in row.marks.values()
            for mark in marks or ()
            if mark.type is not None
        }
        return tuple(sorted(found))

    @property
    def shown(self) -> str:
        """The name of the first file, for messages that concern them all."""
        return self.files[0].shown


def load_labellings(form: LabellingForm, *, path_of: Callable[[str], Path]) -> LabellingTable:
    """Read every file of a registration's labellings.

    Parameters
    ----------
    form
        The files and what stands where.
    path_of
        Where the file, or folder, of a name lies.

    Raises
    ------
    InputError
        For a form or files with problems: see `labelling_form_problems`, the readers,
        `refuse_unfit` and `refuse_contradictions`.
    """
    raise_all(labelling_form_problems(form))
    readings = [_read(file, form.form, path_of(file.file)) for file in form.files]
    for file, reading in zip(form.files, readings, strict=True):
        refuse_unfit(file, reading, LabellingForm(form.form, (file,)).names)
    refuse_contradictions(form.files, readings)
    rows, repeats = joined(form.names, readings)
    left_out = sum((Counter(reading.left_out) for reading in readings), Counter[str]())
    if repeats:
        left_out[REPEATED] = repeats
    files = tuple(file for reading in readings for file in reading.files)
    return LabellingTable(form.form, form.names, tuple(rows), files, dict(left_out))


def _read(file: FileForm, form: MarkForm, path: Path) -> Reading:
    if file.format == "rows":
        return read_row_labellings(path, file=file, form=form)
    return (read_conll if file.format == "conll" else read_brat)(path, file=file)


def labelled_of(
    table: LabellingTable, *, names: Sequence[str], merge: Mapping[str, str] | None
) -> Labelled:
    """The counts of some labellings of a table.

    Parameters
    ----------
    table
        The rows.
    names
        The labellings, each once, in the order of the counts.
    merge
        Fine type -> coarse type; None without a map.

    Returns
    -------
    Labelled
        `strict` and `relaxed`, and `coarse` with a map. A labelling without any mark counts as
        one whose marks have types: none of its marks lacks one.

    Raises
    ------
    InputError
        For names that are no labelling or stand twice, and for a map that does not fit (see
        `checked_merge`).
    """
    chosen = tuple(nfc(name) for name in names)
    raise_all(_name_problems(table, chosen))
    mapped = None
    if merge is not None:
        of = "type" if table.form == "spans" else "label"
        mapped = checked_merge(merge, table.types, of=of, file=table.shown)
    marks = [tuple(row.marks[name] for name in chosen) for row in table.rows]
    counts = count_marks(marks, merge=mapped)
    numbers: dict[str, int] = {}
    unit = np.array([numbers.setdefault(row.unit, len(numbers)) for row in table.rows], np.intp)
    return Labelled(
        form=table.form,
        names=chosen,
        items=tuple(row.item for row in table.rows),
        unit=unit,
        strata=tuple(row.stratum for row in table.rows),
        given=counts.given,
        shared=counts.shared,
        typed=counts.typed,
        kept=_kept(unit, marks),
        confusions=counts.confusions,
    )


def _name_problems(table: LabellingTable, names: Sequence[str]) -> list[Problem]:
    if not names:
        remedy = f"there are {', '.join(table.names)}"
        return [Problem("no labelling is named", table.shown, remedy=remedy)]
    problems = []
    for at, name in enumerate(names):
        if name not in table.names:
            what, remedy = "is no labelling of these files", near(name, table.names)
            problems.append(Problem(what, table.shown, found=quoted(name), remedy=remedy))
        elif name in names[:at]:
            what, remedy = "the labelling is named twice", "name each once"
            problems.append(Problem(what, table.shown, found=quoted(name), remedy=remedy))
    return problems


def _kept(
    unit: NDArray[np.intp], marks: Sequence[object]
) -> Mapping[Duplicates, NDArray[np.bool_]]:
    n = len(unit)
    sizes = np.bincount(unit, minlength=1)
    alone = sizes[unit] == 1
    first = np.zeros(n, dtype=np.bool_)
    first[np.unique(unit, return_index=True)[1]] = True
    unlike = alone.copy()
    seen: set[object] = set()
    for row in np.flatnonzero(~alone).tolist():
        key = (int(unit[row]), marks[row])
        unlike[row] = key not in seen
        seen.add(key)
    everything = np.ones(n, dtype=np.bool_)
    return {"keep_all": everything, "first": first, "drop": alone, "merge_equal": unlike}
