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
from prereg_judge.words import SetRole

RESERVED = ("id", "label", "kind", "stratum")
_GROUP = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ._-]*")
_MOST_SHOWN = 20


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
    """

    id: str
    fields: dict[str, Any]
    label: str | None
    kind: str | None
    stratum: str | None
    line: int


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
    if not path.is_file():
        raise InputError(
            Problem("the item file does not exist", file=shown, remedy="check the path")
        )
    raw = path.read_bytes()
    readers = {".jsonl": _jsonl_rows, ".ndjson": _jsonl_rows, ".csv": _csv_rows}
    suffix = path.suffix.lower()
    if suffix == ".parquet":
        rows = _parquet_rows(raw, shown)
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


def _reject_constant(text: str) -> float:
    raise ValueError(f"{text} is not a JSON number")


def _no_duplicate_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    twice = [k for k, n in Counter(nfc(k) for k, _ in pairs).items() if n > 1]
    if twice:
        raise ValueError(f"the key {twice[0]!r} stands twice")
    return dict(pairs)


def _jsonl_rows(text: str, shown: str) -> Iterator[tuple[int, Any]]:
    # Not str.splitlines: it also splits at U+2028 and its kin, which may stand inside a string.
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(
                line, parse_constant=_reject_constant, object_pairs_hook=_no_duplicate_keys
            )
            if "\\u" in line:  # an escape can write half a surrogate pair, which is no text
                json.dumps(row, ensure_ascii=False).encode()
        except (ValueError, RecursionError) as exc:
            remedy = "each line must be one JSON object"
            raise InputError(
                Problem(f"invalid JSON: {exc}", file=shown, line=number, remedy=remedy)
            ) from exc
        yield number, row


def _csv_rows(text: str, shown: str) -> Iterator[tuple[int, Any]]:
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        header = next(reader, [])
        twice = [name for name, n in Counter(map(nfc, header)).items() if n > 1]
        if twice:
            raise InputError(Problem(f"the column {twice[0]!r} stands twice", file=shown, line=1))
        for cells in reader:
            if not cells:
                continue
            if len(cells) != len(header):
                what = f"{len(cells)} cells under {len(header)} column names"
                raise InputError(Problem(what, file=shown, line=reader.line_num))
            row: dict[str, Any] = dict(zip(header, cells, strict=True))
            # CSV has no null: an empty grouping or label is none at all.
            yield reader.line_num, {k: v for k, v in row.items() if v or k not in RESERVED[1:]}
    except csv.Error as exc:
        raise InputError(Problem(f"invalid CSV: {exc}", file=shown, line=reader.line_num)) from exc


def _parquet_rows(raw: bytes, shown: str) -> Iterator[tuple[int, Any]]:
    import polars as pl

    try:
        frame = pl.read_parquet(io.BytesIO(raw))
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as exc:
        raise InputError(Problem(f"cannot be read as Parquet: {exc}", file=shown)) from exc
    yield from enumerate(frame.iter_rows(named=True), start=1)


def _items(rows: Iterable[tuple[int, Any]], shown: str) -> tuple[Item, ...]:
    items: list[Item] = []
    problems: list[Problem] = []
    first_line: dict[str, int] = {}
    for line, row in rows:
        found = _row_problems(row, first_line, line=line, shown=shown)
        problems += found
        if not found:
            try:
                row = nfc(row)
            except RecursionError as exc:
                raise InputError(Problem("is nested too deeply", file=shown, line=line)) from exc
            first_line[row["id"]] = line
            fields = {k: v for k, v in row.items() if k not in RESERVED}
            label, kind, stratum = (row.get(name) for name in RESERVED[1:])
            items.append(Item(row["id"], fields, label, kind, stratum, line))
    if len(problems) > _MOST_SHOWN:
        rest = Problem(f"and {len(problems) - _MOST_SHOWN} more problems of this kind", file=shown)
        problems = [*problems[:_MOST_SHOWN], rest]
    raise_all(problems)
    return tuple(items)


def _row_problems(row: Any, seen: dict[str, int], *, line: int, shown: str) -> list[Problem]:
    def problem(what: str, where: str | None, found: object, remedy: str) -> Problem:
        return Problem(what, file=shown, line=line, where=where, found=repr(found), remedy=remedy)

    if not isinstance(row, dict):
        return [problem("the row is not an object", None, row, "write {...} with named fields")]
    ident = row.get("id")
    if not isinstance(ident, str) or not ident.strip():
        return [problem("needs a text id", "id", ident, "give every row its own id, in quotes")]
    ident = nfc(ident)
    if ident in seen:
        what = f"the id was used before, on line {seen[ident]}"
        return [problem(what, "id", ident, "ids are unique in a set")]
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
