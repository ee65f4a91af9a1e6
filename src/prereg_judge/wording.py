"""What readers of files share: limits on lists of problems, placeholders, odd characters, paths.

Pure functions on texts and problems; `not_a_file` alone looks at the disk. Knows no file format.
"""

from __future__ import annotations

import re
import unicodedata
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
# Not seen at all, or changing the order in which their neighbours are seen.
_HIDDEN = re.compile(
    "[\u00ad\u034f\u115f\u1160\u17b4\u17b5\u180e\u200b\u202a-\u202e\u2060-\u206f\u3164\ufeff\uffa0"
    "\ufff9-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e00ff]"
)
# Not seen either, but needed to write Persian, Hindi, Hebrew, Mongolian, or an emoji.
_JOINING = re.compile("[\u061c\u180b-\u180d\u180f\u200c-\u200f\ufe00-\ufe0f\U000e0100-\U000e01ef]")


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


def hidden_character(text: str) -> str | None:
    """The first character in `text` that a reader does not see, as `named_character` gives it.

    Those that some scripts need between their letters do not count.
    """
    match = _HIDDEN.search(text)
    return None if match is None else named_character(match.group())


def named_character(character: str) -> str:
    """A character by its number and its name: `U+0430 (CYRILLIC SMALL LETTER A)`."""
    name = unicodedata.name(character, "")
    return f"U+{ord(character):04X}" + (f" ({name})" if name else "")


def visible(text: str) -> str:
    """The text with every character that is not seen written as an escape."""
    for pattern in (_CONTROLS, _HIDDEN, _JOINING):
        text = pattern.sub(lambda match: _escape(match.group()), text)
    return text


def without_hidden(text: str) -> str:
    """The text without the characters that show nothing, among them the blank of Braille."""
    for pattern in (_HIDDEN, _JOINING):
        text = pattern.sub("", text)
    return "".join(c for c in text if unicodedata.category(c) != "Cf" and c != "\u2800")


def _escape(character: str) -> str:
    number = ord(character)
    return f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"


def not_a_file(path: Path) -> str | None:
    """Why there is no file to read at `path`, as a clause; None where there is one."""
    if path.is_file():
        return None
    if path.is_dir():
        return "is a folder, not a file"
    return "is not a regular file" if path.exists() else "does not exist"
