"""Spans that stand as tags in the columns of a CoNLL file, one token a line.

Knows sentences, columns and the three schemes of tags. Offsets of its spans count tokens.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from prereg_judge.canon import nfc
from prereg_judge.labellings.form import FileForm, TagScheme
from prereg_judge.labellings.marks import KIND, Faults, Mark, ReadFile, Reading, ReadRow, decoded
from prereg_judge.row_files import read_file

# Letters of each scheme and what they are here; BILOU's L and U are BIOES's E and S.
_LETTERS: dict[TagScheme, dict[str, str]] = {
    "iob1": {"B": "B", "I": "I"},
    "iob2": {"B": "B", "I": "I"},
    "bioes": {"B": "B", "I": "I", "E": "E", "S": "S", "L": "E", "U": "S"},
}
_NAME = re.compile(r"#\s*(?:id|sent_id)\s*=(.*)", re.DOTALL)
_COMMENT = re.compile(r"#\s*[\w:.-]+\s*=")
_BREAK = "-DOCSTART-"


@dataclass
class _Sentence:
    """A sentence while it is read: its name and where that stands, its lines' tokens and tags."""

    name: str | None = None
    named_at: int = 0
    lines: list[int] = field(default_factory=list)
    words: list[str] = field(default_factory=list)
    tags: list[list[str]] = field(default_factory=list)


def read_conll(path: Path, *, file: FileForm) -> Reading:
    """The labellings of a file of tags.

    Lines are split at tabs where they hold one, else at spaces. An empty line ends a sentence; so
    does a `-DOCSTART-` line, which is no token. A sentence has the name that a comment before it
    gives (`# id = x` or `# sent_id = x`), else its number from 1. Other comments before a sentence
    are passed over; a token `#` is told from them by its tags. A tag without a type, such as a
    bare `B`, is a mark without one.

    Parameters
    ----------
    path
        The file, in UTF-8.
    file
        The numbers of the columns and the scheme of tags; a form without problems.

    Raises
    ------
    InputError
        With every problem found (up to 20 listed): lines with too few columns, tags that are none
        of the scheme or cannot follow the tag before, names without a sentence.
    """
    scheme = file.tags
    if scheme is None:
        raise ValueError("a file of tags needs the scheme that they follow")
    raw = read_file(path, kind=KIND, shown=file.file)
    faults = Faults(file.file)
    text = decoded(raw, faults)
    columns = {nfc(name): int(at) for name, at in file.labellings.items()}
    rows: list[ReadRow] = []
    named = numbered = 0
    for sentence in _sentences(text, columns, scheme, faults):
        named += sentence.name is not None
        numbered += sentence.name is None
        if named and numbered:
            what = "only some sentences have names"
            remedy = "put `# id = ...` before every sentence, or before none"
            faults.add(what, sentence.lines[0], None, found=sentence.name, remedy=remedy)
            break
        item = sentence.name or str(len(rows) + 1)
        marks = {
            name: tuple(_spans(tags, sentence.lines, scheme, faults, f"column {columns[name]}"))
            for name, tags in zip(columns, sentence.tags, strict=True)
        }
        words = None if sentence.name else " ".join(sentence.words)
        rows.append(ReadRow(item, sentence.lines[0], None, None, marks, words))
    faults.raise_all()
    return Reading(tuple(rows), (ReadFile.of(file.file, raw),), {})


def _sentences(
    text: str, columns: dict[str, int], scheme: TagScheme, faults: Faults
) -> Iterator[_Sentence]:
    """Sentences with at least one token; `tags` holds one list for each of `columns`."""
    now = _Sentence(tags=[[] for _ in columns])
    # Columns are few: the first that holds no labelling holds the tokens.
    word = next(at for at in range(1, len(columns) + 2) if at not in columns.values())
    # Not str.splitlines: it also splits at characters that may stand in a token.
    for number, line in enumerate([*text.split("\n"), ""], start=1):
        line = line.removesuffix("\r")
        cells = _cells(line)
        if not line.strip() or cells[0] == _BREAK:
            if now.lines:
                yield now
                now = _Sentence(tags=[[] for _ in columns])
        elif not now.lines and line.startswith("#") and _is_comment(line, cells, columns, scheme):
            named = _NAME.match(line)
            if named is not None:
                _take_name(now, named[1].strip(), number, faults)
        else:
            now.lines.append(number)
            now.words.append(cells[word - 1] if word <= len(cells) else "")
            for tags, (name, at) in zip(now.tags, columns.items(), strict=True):
                if at > len(cells):
                    what = f"has {len(cells)} columns, and {name} stands in column {at}"
                    remedy = "give every token all columns; leave a line empty between sentences"
                    faults.add(what, number, None, found=line, remedy=remedy)
                tags.append(cells[at - 1] if at <= len(cells) else "O")
    if now.name is not None:
        _refuse_unused(now, faults)


def _cells(line: str) -> list[str]:
    if "\t" in line:
        return line.split("\t")
    return [cell for cell in line.split(" ") if cell] or [""]


def _is_comment(line: str, cells: list[str], columns: dict[str, int], scheme: TagScheme) -> bool:
    """Whether a line with `#` before a sentence is a comment, and not the token `#`."""
    if "\t" in line:
        return cells[0] != "#" and max(columns.values()) > len(cells)
    tagged = all(
        at <= len(cells) and _split(cells[at - 1], scheme) is not None for at in columns.values()
    )
    return _COMMENT.match(line) is not None or not tagged


def _take_name(now: _Sentence, name: str, number: int, faults: Faults) -> None:
    where = "the sentence's name"
    if now.name is not None and now.name != name:
        _refuse_unused(now, faults)
    if not name:
        remedy = "write a name after the sign"
        faults.add("is missing", number, where, found=name, remedy=remedy)
        return
    now.name, now.named_at = faults.name(name, number, where) or name, number


def _refuse_unused(now: _Sentence, faults: Faults) -> None:
    remedy = "put one name before each sentence"
    what = "the name has no sentence of its own"
    faults.add(what, now.named_at, None, found=now.name, remedy=remedy)


def _split(tag: str, scheme: TagScheme) -> tuple[str, str | None] | None:
    """Letter and type of a tag; None where it is no tag of the scheme."""
    if tag == "O":
        return "O", None
    letter, dash, kind = tag.partition("-")
    known = _LETTERS[scheme].get(letter)
    return None if known is None else (known, kind if dash else None)


def _spans(
    tags: list[str], lines: list[int], scheme: TagScheme, faults: Faults, where: str
) -> Iterator[Mark]:
    """The spans of one sentence's tags; a sequence that cannot be gives problems."""
    start: int | None = None
    kind: str | None = None
    before = "O"
    for at, (tag, line) in enumerate(zip(tags, lines, strict=True)):
        parts = _split(tag, scheme)
        if parts is None:
            letters = ", ".join(f"{letter}-type" for letter in _LETTERS[scheme])
            remedy = f"use O, {letters}, or register another column or scheme"
            faults.add(f"is no tag of {scheme}", line, where, found=tag, remedy=remedy)
            return
        letter, named = parts
        if named:
            named = faults.name(named, line, where)
        follows = start is not None and named == kind
        wrong = _cannot_follow(letter, before, scheme, follows=follows)
        if wrong is not None:
            found = f"{tag} after {tags[at - 1]}" if at else f"{tag} first in its sentence"
            faults.add(wrong[0], line, where, found=found, remedy=wrong[1])
            return
        if start is not None and not (letter in "IE" and follows):
            yield Mark(((start, at),), kind)
            start = None
        if letter != "O" and start is None:
            start, kind = at, named
        if start is not None and letter in "ES" and scheme == "bioes":
            yield Mark(((start, at + 1),), kind)
            start = None
        before = letter
    if start is not None and scheme == "bioes":
        remedy = "end each span with E- (or L-), and write S- (or U-) for one token"
        what = "the sentence ends inside a span"
        faults.add(what, lines[-1], where, found=tags[-1], remedy=remedy)
    elif start is not None:
        yield Mark(((start, len(tags)),), kind)


def _cannot_follow(
    letter: str, before: str, scheme: TagScheme, *, follows: bool
) -> tuple[str, str] | None:
    """Why a letter cannot stand after another, and what would do; None where it can.

    `follows` says that a span of the same type is open before it.
    """
    if scheme == "iob1":
        if letter == "B" and not follows:
            remedy = "register iob2 where every span begins with B-"
            return "under iob1, B- stands only right after a span of its type", remedy
        return None
    if letter in "IE" and not follows:
        remedy = "begin each span with B-"
        if scheme == "iob2":
            remedy += "; register iob1 where B- stands only between neighbours of one type"
        return f"{letter}- continues no span of its type", remedy
    if scheme == "bioes" and letter in "OBS" and before in "BI":
        remedy = "end each span with E- (or L-), and write S- (or U-) for one token"
        return "the span before has no end", remedy
    return None
