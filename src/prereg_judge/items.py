"""Item sets: files of things to be judged, read strictly and hashed by content.

Knows the reserved fields (`id`, `label`, `kind`, `stratum`); does not know judges, so which
fields a prompt uses is checked by the caller. Rows are read by `row_files`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prereg_judge.canon import nfc, sha256_bytes
from prereg_judge.errors import InputError, Problem, raise_all
from prereg_judge.row_files import GROUP_NAME, Row, read_file, read_rows
from prereg_judge.shape import Shape
from prereg_judge.wording import capped, control_character, quoted
from prereg_judge.words import SetRole

RESERVED = ("id", "label", "kind", "stratum")
_KIND = "item file"


@dataclass(frozen=True)
class Item:
    """One thing judged.

    Attributes
    ----------
    id
        Unique in its set.
    fields
        Everything in the row but the reserved fields; strings in NFC.
    label
        The known answer, if there is one.
    kind, stratum
        Grouping for the results.
    line
        Line or row number in the file, counted from 1, for messages.
    content, shapes
        Hash of what the judge sees, and what the answers of a pair look like, where the text
        itself is withheld.
    """

    id: str
    fields: dict[str, Any]
    label: str | None
    kind: str | None
    stratum: str | None
    line: int
    content: str | None = None
    shapes: tuple[Shape, Shape] | None = None


@dataclass(frozen=True)
class ItemSet:
    """The rows of one item file, in file order, with the hash of its bytes."""

    role: SetRole
    file: str
    sha256: str
    n_bytes: int
    items: tuple[Item, ...]


def load_items(path: Path, *, role: SetRole, shown: str) -> ItemSet:
    """Read an item set from JSONL, CSV or Parquet, by the file's ending.

    Parameters
    ----------
    path
        The file.
    role
        `sentinel` or `real`.
    shown
        The file's name as messages should give it.

    Raises
    ------
    InputError
        With every problem found (up to 20 listed): a missing or empty file, invalid JSON at
        line k, rows that are not objects, ids missing, empty or used twice, groupings that
        cannot be named in a metric.
    """
    raw = read_file(path, kind=_KIND, shown=shown)
    # CSV has no null: an empty grouping or label is none at all.
    rows = read_rows(raw, suffix=path.suffix, kind=_KIND, shown=shown, blank_is_none=RESERVED[1:])
    items = _items(rows, shown)
    if not items:
        remedy = "an item set needs at least one row; leave the set out if there is none"
        raise InputError(Problem("the item file has no rows", file=shown, remedy=remedy))
    return ItemSet(role, shown, sha256_bytes(raw), len(raw), items)


def _items(rows: Iterable[Row | Problem], shown: str) -> tuple[Item, ...]:
    items: list[Item] = []
    problems: list[Problem] = []
    first_line: dict[str, int] = {}
    for read in rows:
        if isinstance(read, Problem):
            problems.append(read)
            continue
        line, row = read
        found = _row_problems(row, first_line, line=line, shown=shown)
        problems += found
        if not found:
            try:
                row = nfc(row)
            except RecursionError:
                remedy = "write the row's fields side by side"
                problems.append(Problem("is nested too deeply", shown, line, remedy=remedy))
                continue
            first_line[row["id"]] = line
            fields = {k: v for k, v in row.items() if k not in RESERVED}
            label, kind, stratum = (row.get(name) for name in RESERVED[1:])
            items.append(Item(row["id"], fields, label, kind, stratum, line))
    raise_all(capped(problems))
    return tuple(items)


def _row_problems(row: Any, seen: dict[str, int], *, line: int, shown: str) -> list[Problem]:
    def problem(what: str, where: str | None, found: object, remedy: str) -> Problem:
        return Problem(what, shown, line, where, quoted(found), remedy)

    if not isinstance(row, dict):
        return [problem("the row is not an object", None, row, "write {...} with named fields")]
    ident = row.get("id")
    if not isinstance(ident, str) or not ident.strip():
        return [problem("needs a text id", "id", ident, "give every row its own id, in quotes")]
    ident = nfc(ident)
    if ident in seen:
        what = f"the id was used before, on line {seen[ident]}"
        return [problem(what, "id", ident, "ids are unique in a set")]
    control = control_character(ident)
    if control is not None:
        remedy = "write ids in visible characters: messages and records show them"
        return [problem(f"the id holds the control character {control}", "id", ident, remedy)]
    problems = []
    for name in RESERVED[1:]:
        value = row.get(name)
        if value is None:
            continue
        if not isinstance(value, str) or not value:
            problems.append(problem("must be text", name, value, "quote it, or leave it out"))
        elif name != "label" and not GROUP_NAME.fullmatch(value):
            remedy = "use letters, digits, space, dot, dash or underscore"
            problems.append(problem("cannot be named in a metric", name, value, remedy))
    return problems
