"""A YAML reader that never turns what was typed into something else.

Built on PyYAML's scanner and parser with resolvers of its own (YAML 1.2 core, minus every plain
scalar that two readers would read differently: those are refused with the remedy "quote it").
Knows nothing of registrations or judges; it gives plain data and the line of each entry.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import yaml

from prereg_judge.errors import InputError, Problem
from prereg_judge.wording import capped, named_character, visible

YamlPath = tuple[str | int, ...]

MAX_INT = 2**53 - 1  # 2**53 is also what 2**53 + 1 is read as; canonical JSON has neither
_MAX_DEPTH = 64

_INT = re.compile(r"[-+]?(?:0|[1-9][0-9]*)")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")

_NUMERIC_WORDS = re.compile(r"[-+]?\.?(?:nan|inf|infinity)", re.IGNORECASE)
_SWITCHES = re.compile(r"(?:y|n|yes|no|on|off|true|false)", re.IGNORECASE)
_NULLS = re.compile(r"null", re.IGNORECASE)
_SEXAGESIMAL = re.compile(r"[-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+(?:\.[0-9_]*)?")
_DATE = re.compile(
    r"[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}"
    r"(?:(?:[Tt]|[ \t]+)[0-9]{1,2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]*)?)?"
    r"(?:[ \t]*(?:[Zz]|[-+][0-9]{1,2}(?::?[0-9]{2})?))?)?"
)
_RADIX = re.compile(r"[-+]?0[xXoObB][0-9a-fA-F_]+")
_LEADING_ZERO = re.compile(r"[-+]?0[0-9]+(?:\.[0-9]*)?(?:[eE][-+]?[0-9]+)?")
_UNDERSCORED = re.compile(
    r"[-+]?(?:[0-9][0-9_]*(?:\.[0-9_]*)?|\.[0-9][0-9_]*)(?:[eE][-+]?[0-9_]+)?"
)
# Line breaks in YAML 1.1, ordinary characters in YAML 1.2.
_ODD_BREAKS = "\x85\u2028\u2029"
# They make a line look like another, in a comment as well.
_BIDI = "\u202a-\u202e\u2066-\u2069"
_ODD = re.compile(f"[{_ODD_BREAKS}{_BIDI}\ufeff]")

_AMBIGUOUS: tuple[tuple[re.Pattern[str], str], ...] = (
    (_NUMERIC_WORDS, "not a finite number"),
    (_SWITCHES, "some readers take this word for true or false"),
    (_NULLS, "some readers take this word for null"),
    (_SEXAGESIMAL, "some readers take digits with colons for a number in base 60"),
    (_DATE, "some readers take this for a date with a time zone"),
    (_RADIX, "some readers take this for a number in another base"),
    (_LEADING_ZERO, "some readers take a leading zero for a number in base 8"),
)


@dataclass(frozen=True)
class Document:
    """The content of one YAML file and where each entry of it stands.

    Attributes
    ----------
    data
        Plain dict, list, str, int, float, bool or None; every string in NFC.
    lines
        Line, counted from 1, of each entry by its path: of the key in a mapping, of the element
        in a list.
    typed
        What was typed for each number, by its path: `1e10` is no longer seen in 10000000000.0.
    """

    data: Any
    lines: dict[YamlPath, int] = field(default_factory=dict)
    typed: dict[YamlPath, str] = field(default_factory=dict)

    def line_of(self, path: YamlPath) -> int | None:
        """Line of the entry at `path`, or of the nearest enclosing entry that the file has."""
        for end in range(len(path), -1, -1):
            line = self.lines.get(tuple(path[:end]))
            if line is not None:
                return line
        return None


def path_text(path: YamlPath) -> str:
    """`("bands", 0, "between")` as a reader writes it: `bands[0].between`."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return visible(text)


def load(text: str | bytes, *, file: str) -> Document:
    """Read one YAML document.

    Parameters
    ----------
    text
        Content of the file; bytes are read as UTF-8. A leading byte-order mark and Windows line
        ends are tolerated.
    file
        Name of the file as errors show it.

    Raises
    ------
    InputError
        With every problem found (up to 20), each with its line; invalid UTF-8, a syntax error
        and an empty document end the reading where they stand.
    """
    document, problems = parse(text, file=file)
    if problems:
        raise InputError(*capped(problems))
    return document


def parse(text: str | bytes, *, file: str) -> tuple[Document, tuple[Problem, ...]]:
    """Read like `load`, but hand back what is wrong beside the content.

    A refused scalar stands in the content as the text that was typed, and of a key given twice
    the first stays, so that a caller can go on checking and report everything at once.
    """
    builder = _Builder(file, _decoded(text, file))
    data = builder.build()
    return Document(data, builder.lines, builder.typed), tuple(builder.problems)


def plain_is_text(text: str) -> bool:
    """Whether `text`, written without quotes, is read back as this very string.

    Judges the meaning only: a caller makes sure that no character of it is YAML punctuation.
    """
    value, trouble = _resolve(text)
    return trouble is None and isinstance(value, str)


def _decoded(text: str | bytes, file: str) -> str:
    if isinstance(text, bytes):
        raw = text
        try:
            text = raw.decode("utf-8")
        except UnicodeDecodeError as exc:
            line = raw.count(b"\n", 0, exc.start) + 1
            found = f"byte 0x{raw[exc.start]:02x}"
            raise InputError(
                Problem("is not valid UTF-8", file, line, None, found, "save the file as UTF-8")
            ) from exc
    text = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    odd = _ODD.search(text)
    if odd is not None:
        what = "holds a character that changes how the text around it is displayed"
        if odd.group() in _ODD_BREAKS:
            what = "holds a character that some readers take for a line break"
        elif odd.group() == "\ufeff":
            what = "holds a byte-order mark that is not at the beginning"
        line = text.count("\n", 0, odd.start()) + 1
        remedy = "remove it, or write it as an escape inside double quotes"
        raise InputError(Problem(what, file, line, None, named_character(odd.group()), remedy))
    return text


class _Builder:
    """Turns PyYAML's events into data; collects problems and goes on where it can."""

    def __init__(self, file: str, text: str) -> None:
        self.file = file
        self.text = text
        self.lines: dict[YamlPath, int] = {}
        self.typed: dict[YamlPath, str] = {}
        self.problems: list[Problem] = []
        self._events: Iterator[yaml.Event] = iter(())
        self._recording = True  # off inside keys and repeated entries
        self._depth = 0  # of the node at hand; a key inside a key has no path of its own

    def build(self) -> Any:
        try:
            self._events = yaml.parse(self.text, Loader=yaml.SafeLoader)
            return self._stream()
        except yaml.MarkedYAMLError as exc:
            raise InputError(*self.problems, self._syntax(exc)) from exc
        except (ValueError, OverflowError) as exc:  # an escape beyond the last character
            problem = Problem(f"is not readable as YAML: {exc}", self.file)
            raise InputError(*self.problems, problem) from exc
        except yaml.reader.ReaderError as exc:
            line = self.text.count("\n", 0, exc.position) + 1
            character = self.text[exc.position]
            what, found = "holds a character that YAML forbids", named_character(character)
            remedy = "remove it, or write it as an escape inside double quotes"
            if character == "\0":
                remedy = "save the file as UTF-8, without zero bytes"
            raise InputError(Problem(what, self.file, line, None, found, remedy)) from exc

    def _syntax(self, exc: yaml.MarkedYAMLError) -> Problem:
        mark = exc.problem_mark or exc.context_mark
        line = None if mark is None else mark.line + 1
        what = " ".join(str(p) for p in (exc.problem, exc.context) if p)
        remedy = None
        lines = self.text.splitlines()
        if line is not None and line <= len(lines) and "\t" in lines[line - 1]:
            remedy = "write spaces, not tabs, around keys and values"
        elif "mapping values are not allowed" in what:
            remedy = "quote a text that contains a colon followed by a space"
        elif "expected '<document start>'" in what:
            remedy = "remove what follows the end of the document, or the `...` before it"
        return Problem(f"is not readable as YAML: {what}", self.file, line, None, None, remedy)

    def _add(
        self,
        what: str,
        event: yaml.Event,
        path: YamlPath,
        found: str | None = None,
        remedy: str | None = None,
    ) -> None:
        where = path_text(path) or None
        self.problems.append(Problem(what, self.file, _line(event), where, found, remedy))

    def _stream(self) -> Any:
        next(self._events)  # the start of the stream
        event = next(self._events)
        empty = Problem("is empty", self.file, 1, remedy="write its content")
        if isinstance(event, yaml.StreamEndEvent):
            raise InputError(empty)
        if isinstance(event, yaml.DocumentStartEvent) and (event.version or event.tags):
            self._add("YAML directives are not allowed", event, (), remedy="remove the % line")
        data = self._node(next(self._events), ())
        next(self._events)  # the end of the document
        event = next(self._events)
        if data is None and isinstance(event, yaml.StreamEndEvent):
            raise InputError(*self.problems, empty)
        if not isinstance(event, yaml.StreamEndEvent):
            self._add("holds more than one document", event, (), remedy="keep one document a file")
        return data

    def _node(self, event: yaml.Event, path: YamlPath) -> Any:
        if self._recording:
            self.lines.setdefault(path, _line(event))
        if self._depth > _MAX_DEPTH:
            what, remedy = f"is nested deeper than {_MAX_DEPTH} levels", "write it flatter"
            self._add(what, event, path[:3], remedy=remedy)
            raise InputError(*self.problems)
        self._depth += 1
        value = self._content(event, path)
        self._depth -= 1
        return value

    def _content(self, event: yaml.Event, path: YamlPath) -> Any:
        assert isinstance(event, yaml.NodeEvent)
        if isinstance(event, yaml.AliasEvent):
            remedy = "write the value out"
            self._add("aliases are not allowed", event, path, f"*{event.anchor}", remedy)
            return None
        if event.anchor is not None:
            remedy = "write every value out where it belongs"
            self._add("anchors are not allowed", event, path, f"&{event.anchor}", remedy)
        tag = getattr(event, "tag", None)
        if tag is not None:
            remedy = "remove the tag; put quotes around what should be text"
            self._add("tags are not allowed", event, path, str(tag), remedy)
        if isinstance(event, yaml.MappingStartEvent):
            return self._mapping(path)
        if isinstance(event, yaml.SequenceStartEvent):
            return self._sequence(path)
        assert isinstance(event, yaml.ScalarEvent)
        return self._scalar(event, path)

    def _sequence(self, path: YamlPath) -> list[Any]:
        values: list[Any] = []
        while not isinstance(event := next(self._events), yaml.SequenceEndEvent):
            values.append(self._node(event, (*path, len(values))))
        return values

    def _mapping(self, path: YamlPath) -> dict[str, Any]:
        values: dict[str, Any] = {}
        while not isinstance(event := next(self._events), yaml.MappingEndEvent):
            key = self._key(event, path)
            if key is None:
                self._unrecorded(next(self._events), path)
            elif key in values:
                again = (*path, key)
                what = f"this key is given twice, first on line {self.lines.get(again)}"
                self._add(what, event, again, remedy="keep one of the two")
                self._unrecorded(next(self._events), again)
            else:
                if self._recording:
                    self.lines[(*path, key)] = _line(event)
                values[key] = self._node(next(self._events), (*path, key))
        return values

    def _unrecorded(self, event: yaml.Event, path: YamlPath) -> Any:
        """Read a node for its problems only: its lines belong to no entry of the content."""
        before, self._recording = self._recording, False
        value = self._node(event, path)
        self._recording = before
        return value

    def _key(self, event: yaml.Event, path: YamlPath) -> str | None:
        """The key as text; None, after a problem was noted, where it is not text."""
        if not isinstance(event, yaml.ScalarEvent):
            before = len(self.problems)
            self._unrecorded(event, path)
            if len(self.problems) == before:
                self._add("a key is not text", event, path, remedy="write the key as plain text")
            return None
        if event.style is None and event.value == "<<":
            self._add("merge keys are not allowed", event, path, "<<", "write the entries out")
            return None
        value = self._unrecorded(event, (*path, event.value))
        if isinstance(value, str):
            return value
        self._add("a key is not text", event, path, event.value or "nothing", "quote the key")
        return None

    def _scalar(self, event: yaml.ScalarEvent, path: YamlPath) -> Any:
        text = unicodedata.normalize("NFC", event.value)
        if any("\ud800" <= c <= "\udfff" for c in text):
            remedy = "write the character itself, or \\U with eight digits"
            self._add("holds half of a surrogate pair", event, path, remedy=remedy)
            return text.encode("utf-8", "replace").decode()
        if event.style is not None or event.tag is not None:
            return text
        value, trouble = _resolve(text)
        if trouble is None:
            if self._recording and isinstance(value, int | float):
                self.typed[path] = text
            return value
        remedy = "quote it if it is text"
        if _SWITCHES.fullmatch(text):
            remedy += "; write true or false if it is a switch"
        elif re.search("[0-9]", text) and not _DATE.fullmatch(text):
            remedy += "; write a number in plain decimal digits"
        self._add(f"is ambiguous: {trouble}", event, path, _short(text), remedy)
        return text


def _line(event: yaml.Event) -> int:
    mark = event.start_mark
    return 1 if mark is None else mark.line + 1


def _resolve(text: str) -> tuple[Any, str | None]:
    """What a plain scalar means, and why it is refused where it is."""
    if text in ("", "~", "null"):
        return None, None
    if text in ("true", "false"):
        return text == "true", None
    for pattern, trouble in _AMBIGUOUS:
        if pattern.fullmatch(text):
            return text, trouble
    if text in ("=", "<<", "*", "&", "!"):
        return text, "some readers give this sign a meaning of its own"
    if _INT.fullmatch(text):
        if len(text) > 20 or abs(int(text)) > MAX_INT:
            return text, "a whole number of 2**53 or more loses digits"
        return int(text), None
    if _FLOAT.fullmatch(text):
        return read_float(text)
    if _UNDERSCORED.fullmatch(text):
        return text, "some readers drop the underscores and take it for a number"
    return text, None


def read_float(text: str) -> tuple[Any, str | None]:
    """A decimal number as typed, and why it cannot be kept; then the text is returned.

    A number is kept where its digits can be had back from it: not where it would become another.
    """
    value, digits = float(text), re.split("[eE]", text)[0]
    if not math.isfinite(value) or abs(value) > MAX_INT:
        return text, "as a number it is 2**53 or more"
    if value == 0:
        if re.search("[1-9]", digits):
            return text, "as a number it is too small to be told from 0"
        return 0.0, None  # -0.0 is no other number
    # The number kept must give the typed digits back: in its shortest form or rounded to as many.
    exact = Decimal(text)
    n_digits = len(exact.as_tuple().digits)
    if exact not in (Decimal(repr(value)), Decimal(f"{value:.{n_digits - 1}e}")):
        return text, f"as a number it would become {value!r}"
    return value, None


def _short(text: str) -> str:
    text = visible(text)
    return text if len(text) <= 60 else f"{text[:57]}..."
