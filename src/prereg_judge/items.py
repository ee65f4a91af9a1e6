"""Item sets: files of things to be judged, read strictly and hashed by content.

Knows file formats and the reserved fields (`id`, `label`, `kind`, `stratum`); does not know
judges, so which fields a prompt uses is checked by the caller.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prereg_judge.canon import nfc, sha256_bytes
from prereg_judge.errors import InputError, Problem, raise_all
from prereg_judge.wording import capped, control_character, not_a_file, quoted
from prereg_judge.words import SetRole

RESERVED = ("id", "label", "kind", "stratum")
_GROUP = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ._-]*")
Row = tuple[int, Any]  # where it stands in the file, and what is there


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
    content
        Hash of what the judge sees, where the text itself is withheld.
    """

    id: str
    fields: dict[str, Any]
    label: str | None
    kind: str | None
    stratum: str | None
    line: int
    content: str | None = None


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
    missing = not_a_file(path)
    if missing is not None:
        what = f"the item file {missing}"
        raise InputError(Problem(what, file=shown, remedy="check the path"))
    raw = path.read_bytes()
    readers = {".jsonl": _jsonl_rows, ".ndjson": _jsonl_rows, ".csv": _csv_rows}
    suffix = path.suffix.lower()
    if suffix == ".parquet":
        rows: Iterator[Row | Problem] = _parquet_rows(raw, shown)
    elif suffix in readers:
        rows = readers[suffix](_decode(raw, shown), shown)
    else:
        remedy = "use a .jsonl, .csv or .parquet file"
        raise InputError(Problem("unknown kind of item file", file=shown, remedy=remedy))
    items = _items(rows, shown)
    if not items:
        remedy = "an item set needs at least one row; leave the set out if there is none"
        raise InputError(Problem("the item file has no rows", file=shown, remedy=remedy))
    return ItemSet(role, shown, sha256_bytes(raw), len(raw), items)


def _decode(raw: bytes, shown: str) -> str:
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as exc:
        line = raw[: exc.start].count(b"\n") + 1
        problem = Problem("is not UTF-8", file=shown, line=line, remedy="save the file as UTF-8")
        raise InputError(problem) from exc


class _NotARowError(ValueError):
    """What is JSON and still no row, with what would do."""

    def __init__(self, what: str, remedy: str) -> None:
        super().__init__(what)
        self.remedy = remedy


def _reject_constant(text: str) -> float:
    remedy = "write a number, or null where there is none"
    raise _NotARowError(f"{text} is not a JSON number", remedy)


def _no_duplicate_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    twice = [k for k, n in Counter(nfc(k) for k, _ in pairs).items() if n > 1]
    if twice:
        raise _NotARowError(f"the key {twice[0]!r} stands twice", "keep one of the two")
    return dict(pairs)


def _jsonl_rows(text: str, shown: str) -> Iterator[Row | Problem]:
    # Not str.splitlines: it also splits at U+2028 and its kin, which may stand inside a string.
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            yield number, _json_row(line)
        except _NotARowError as exc:
            yield Problem(str(exc), file=shown, line=number, remedy=exc.remedy)


def _json_row(line: str) -> Any:
    try:
        row = json.loads(
            line, parse_constant=_reject_constant, object_pairs_hook=_no_duplicate_keys
        )
        if "\\u" in line:  # an escape can write half a surrogate pair, which is no text
            json.dumps(row, ensure_ascii=False).encode()
    except json.JSONDecodeError as exc:
        what = f"invalid JSON: {exc.msg} at column {exc.colno}"
        raise _NotARowError(what, "each line must be one JSON object") from exc
    except UnicodeEncodeError as exc:
        half = f"\\u{ord(exc.object[exc.start]):04x}"
        remedy = "write the character itself, or both halves"
        raise _NotARowError(f"{half} is half of a surrogate pair, no text", remedy) from exc
    except RecursionError as exc:
        remedy = "write the row's fields side by side"
        raise _NotARowError("invalid JSON: nested too deeply", remedy) from exc
    except _NotARowError:
        raise
    except ValueError as exc:  # Python reads no whole number of thousands of digits
        remedy = "write it in quotes, as text"
        raise _NotARowError("a number has too many digits", remedy) from exc
    return row


def _csv_rows(text: str, shown: str) -> Iterator[Row | Problem]:
    # The module's own limit of a cell is global, and no other format has one.
    limit = csv.field_size_limit(max(len(text), 1))
    try:
        return iter(list(_csv_read(text, shown)))
    finally:
        csv.field_size_limit(limit)


def _csv_read(text: str, shown: str) -> Iterator[Row | Problem]:
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    start = 1
    try:
        header = next(reader, [])
        wrong = _header_problem(header, shown)
        if wrong is not None:
            yield wrong
            return
        start = reader.line_num + 1
        for cells in reader:
            line, start = start, reader.line_num + 1  # a quoted cell may hold line ends
            if cells and len(cells) != len(header):
                what = f"{len(cells)} cells under {len(header)} column names"
                remedy = "give each column one cell; put quotes around a cell that holds a comma"
                yield Problem(what, file=shown, line=line, remedy=remedy)
            elif cells:
                row: dict[str, Any] = dict(zip(header, cells, strict=True))
                # CSV has no null: an empty grouping or label is none at all.
                yield line, {k: v for k, v in row.items() if v or k not in RESERVED[1:]}
    except csv.Error as exc:
        remedy = 'put quotes around a cell that holds quotes, and write each of those twice: ""'
        yield Problem(f"invalid CSV: {exc}", file=shown, line=start, remedy=remedy)


def _header_problem(header: list[str], shown: str) -> Problem | None:
    twice = [name for name, n in Counter(map(nfc, header)).items() if n > 1]
    if twice:
        what, remedy = f"the column {twice[0]!r} stands twice", "give each column its own name"
        return Problem(what, file=shown, line=1, remedy=remedy)
    others = [sign for sign in ";\t|" if len(header) == 1 and sign in header[0]]
    if others:
        name = "a tab" if others[0] == "\t" else f"`{others[0]}`"
        what, remedy = f"the separator looks like {name}", "save the file with commas between cells"
        return Problem(what, file=shown, line=1, found=repr(header[0])[:60], remedy=remedy)
    return None


def _parquet_rows(raw: bytes, shown: str) -> Iterator[Row | Problem]:
    import polars as pl

    try:
        frame = pl.read_parquet(io.BytesIO(raw))
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as exc:
        raise InputError(Problem(f"cannot be read as Parquet: {exc}", file=shown)) from exc
    yield from enumerate(frame.iter_rows(named=True), start=1)


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
        elif name != "label" and not _GROUP.fullmatch(value):
            remedy = "use letters, digits, space, dot, dash or underscore"
            problems.append(problem("cannot be named in a metric", name, value, remedy))
    return problems
