"""What readers of files share: limits on lists of problems, placeholders, odd characters, paths.

Pure functions on texts and problems; `not_a_file` alone looks at the disk. Knows no file format.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from prereg_judge.errors import Problem

MOST_SHOWN = 20

_MARKS = re.compile(
    r"(?<![A-Za-z])(?:TODO|FIXME|REPLACE)(?![A-Za-z])"
    r"|\?\?\?"
    r"|(?<!\w)<[A-Za-z][^<>\n]*>"
)
# In any case, but only where a text begins with it; "todo-list" and "todo.yaml" are names.
_OPENING = re.compile(r"\s*((?:TODO|FIXME|TBD|XXX)(?=[^\w\s]*(?:\s|$)))", re.IGNORECASE)
# C0 but tab and line ends, DEL, and C1.
_CONTROLS = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")


def capped(problems: Sequence[Problem], *, most: int = MOST_SHOWN) -> list[Problem]:
    """The first `most` problems and, where there are others, one that says how many."""
    left = len(problems) - most
    if left <= 0:
        return list(problems)
    rest = Problem(f"and {left} more problems of this kind", file=problems[most].file)
    return [*problems[:most], rest]


def listed(names: Sequence[str], *, most: int = MOST_SHOWN) -> str:
    """Names with commas between them: the first `most`, then how many there are beside."""
    left = len(names) - most
    return ", ".join(names[:most]) + (f" and {left} more" if left > 0 else "")


def quoted(value: object) -> str:
    """A value of a row as messages show it, cut at 80 characters."""
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def opening_placeholder(text: str) -> str | None:
    """The mark of an unfilled place that `text` begins with (TODO, FIXME, TBD, XXX), any case."""
    match = _OPENING.match(text)
    return None if match is None else match[1]


def mark_in(text: str) -> str | None:
    """The mark of an unfilled place anywhere in `text` (TODO, FIXME, REPLACE, ???, <...>)."""
    match = _MARKS.search(text)
    return None if match is None else match.group()


def placeholder_in(text: str) -> str | None:
    """The mark of an unfilled place in `text`: one of `mark_in`, or one that it begins with."""
    return mark_in(text) or opening_placeholder(text)


def control_character(text: str) -> str | None:
    """The first control character in `text` as U+XXXX; tab and line ends are none."""
    match = _CONTROLS.search(text)
    return None if match is None else f"U+{ord(match.group()):04X}"


def not_a_file(path: Path) -> str | None:
    """Why there is no file to read at `path`, as a clause; None where there is one."""
    if path.is_file():
        return None
    if path.is_dir():
        return "is a folder, not a file"
    return "is not a regular file" if path.exists() else "does not exist"
