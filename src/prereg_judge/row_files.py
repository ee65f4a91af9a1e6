"""Rows of JSONL, CSV and Parquet files, read strictly; what cannot be read is told by line.

Knows file formats and nothing of what the rows mean: that is checked by the caller.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections import Counter
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

from prereg_judge.canon import nfc
from prereg_judge.errors import InputError, Problem
from prereg_judge.wording import not_a_file

# Names of groups that can stand in a metric's name.
GROUP_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ._-]*")
Row = tuple[int, Any]  # where it stands in the file, and what is there


def read_file(path: Path, *, kind: str, shown: str) -> bytes:
    """The bytes of a file.

    Parameters
    ----------
    path
        The file.
    kind
        What messages call it: `item file`.
    shown
        The file's name as messages should give it.

    Raises
    ------
    InputError
        Where there is no regular file.
    """
    missing = not_a_file(path)
    if missing is not None:
        what = f"the {kind} {missing}"
        raise InputError(Problem(what, file=shown, remedy="check the path"))
    return path.read_bytes()


def read_rows(
    raw: bytes, *, suffix: str, kind: str, shown: str, blank_is_none: Collection[str] = ()
) -> Iterator[Row | Problem]:
    """The rows of a file, or what is wrong where one should be, in the file's order.

    Parameters
    ----------
    raw
        Content of the file.
    suffix
        Ending of the file's name, in any case: `.jsonl`, `.ndjson`, `.csv` or `.parquet`.
    kind
        What messages call the file: `item file`.
    shown
        The file's name as messages should give it.
    blank_is_none
        Columns whose empty cells are left out of a row of CSV, which has no null.

    Returns
    -------
    Iterator of (line, row) and problems
        Lines are counted from 1; in Parquet they are row numbers. A row of JSONL can be anything
        that JSON has. A file without rows gives nothing.

    Raises
    ------
    InputError
        For another ending, text that is not UTF-8, and Parquet that cannot be read.
    """
    ending = suffix.lower()
    if ending == ".parquet":
        return _parquet_rows(raw, shown)
    if ending in (".jsonl", ".ndjson"):
        return _jsonl_rows(_decode(raw, shown), shown)
    if ending == ".csv":
        return _csv_rows(_decode(raw, shown), shown, blank_is_none)
    remedy = "use a .jsonl, .csv or .parquet file"
    raise InputError(Problem(f"unknown kind of {kind}", file=shown, remedy=remedy))


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


def _csv_rows(text: str, shown: str, blank_is_none: Collection[str]) -> Iterator[Row | Problem]:
    # The module's own limit of a cell is global, and no other format has one.
    limit = csv.field_size_limit(max(len(text), 1))
    try:
        return iter(list(_csv_read(text, shown, blank_is_none)))
    finally:
        csv.field_size_limit(limit)


def _csv_read(text: str, shown: str, blank_is_none: Collection[str]) -> Iterator[Row | Problem]:
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
                yield line, {k: v for k, v in row.items() if v or k not in blank_is_none}
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
