"""What the YAML reader makes of every trap, and what it refuses."""

from __future__ import annotations

import json
import unicodedata
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from prereg_judge.errors import InputError
from prereg_judge.strict_yaml import load, parse, path_text, plain_is_text

READ_AS: list[tuple[str, Any]] = [
    ("1e-2", 0.01),
    ("1e5", 100000.0),
    ("-2.5E+1", -25.0),
    (".5", 0.5),
    ("1.", 1.0),
    ("0", 0),
    ("-0", 0),
    ("+5", 5),
    ("9007199254740991", 2**53 - 1),
    ("0.95", 0.95),
    ("true", True),
    ("false", False),
    ("null", None),
    ("~", None),
    ("", None),
    ("'NO'", "NO"),
    ('"042"', "042"),
    ("'1:30'", "1:30"),
    ("'2026-01-31'", "2026-01-31"),
    ('"nan"', "nan"),
    ("1:75", "1:75"),
    ("127.0.0.1:80", "127.0.0.1:80"),
    ("1.2.3", "1.2.3"),
    ("12e", "12e"),
    ("a_1", "a_1"),
    ("9f86d081884c7d65", "9f86d081884c7d65"),
    ("2026-01-31 was a Saturday", "2026-01-31 was a Saturday"),
    ("yes, it does", "yes, it does"),
    ("e\u0301", "\u00e9"),
    ("'x\ty'", "x\ty"),
    ("|\n  one\n  two\n", "one\ntwo\n"),
]

REFUSED = [
    "1:30", "190:20:30", "12:30:45.5", "042", "00", "-01", "01.5", "08e2",
    "NO", "no", "Yes", "on", "OFF", "y", "N", "True", "TRUE", "False", "Null", "NULL",
    "2026-01-31", "2026-1-3", "2026-01-31T10:00:00Z", "2026-01-31 10:00:00 +01:00",
    "2026-01-31T10:00Z", "0o17", "0x1F", "0b101", "1_000", "1_000.5", "1__", ".1_5",
    ".nan", ".NaN", "nan", "NaN", ".inf", "-.Inf", "inf", "Infinity", "+inf",
    "7" * 40, "9007199254740992", "-9007199254740993", "12e4567", "1" * 30 + "e5", "1e300",
    "1e-400", "0.1234567890123456789", "=",
]  # fmt: skip


def problems_of(text: str | bytes) -> list[tuple[int | None, str]]:
    """Line and text of every problem that reading ends in."""
    with pytest.raises(InputError) as caught:
        load(text, file="f.yaml")
    assert all(p.file == "f.yaml" for p in caught.value.problems)
    return [(p.line, str(p)) for p in caught.value.problems]


@pytest.mark.parametrize(("text", "value"), READ_AS)
def test_what_is_clear_is_read_as_what_it_says(text: str, value: Any) -> None:
    """A scalar that every reader reads alike has the value and the type that it shows."""
    data = load(f"a: {text}", file="f.yaml").data
    assert data == {"a": value}
    assert type(data["a"]) is type(value)


@pytest.mark.parametrize("text", REFUSED)
def test_what_two_readers_would_read_differently_is_refused(text: str) -> None:
    """An ambiguous plain scalar is refused with its line and the remedy to quote it."""
    [(line, message)] = problems_of(f"ok: 1\na: {text}")
    assert line == 2
    assert "f.yaml:2: a: is ambiguous" in message
    assert "Quote it" in message


@pytest.mark.parametrize("text", REFUSED)
def test_the_same_text_in_quotes_is_text(text: str) -> None:
    """The remedy works: in quotes, every refused scalar is the very text."""
    assert load(f"a: '{text}'", file="f").data == {"a": text}


@pytest.mark.parametrize("text", REFUSED)
def test_ambiguous_keys_and_elements_are_refused_too(text: str) -> None:
    """A key or a list element is held to the same rule as a value."""
    assert problems_of(f"- [{text}]")[0][0] == 1
    assert problems_of(f"{text}: 1")[0][0] == 1


def test_zero_has_no_sign() -> None:
    """-0.0 is read as 0.0, so that two spellings of zero do not differ in meaning."""
    assert str(load("a: -0.0", file="f").data["a"]) == "0.0"


def test_every_repeated_key_is_reported_with_its_line() -> None:
    """Keys given twice are refused, all of them, compared in NFC."""
    text = "a: 1\nb: {c: 1, c: 2}\na: 3\ne\u0301: 1\n\u00e9: 2\n'a': 4\n"
    found = problems_of(text)
    assert [line for line, _ in found] == [2, 3, 5, 6]
    assert "b.c: this key is given twice, first on line 2" in found[0][1]
    assert "first on line 1" in found[1][1]


STRUCTURES: list[tuple[str | bytes, int, str]] = [
    ("a: &x 1\n", 1, "anchors are not allowed"),
    ("a: 1\nb: [*x]\n", 2, "aliases are not allowed"),
    ("a: 1\n<<: {b: 2}\n", 2, "merge keys are not allowed"),
    ("a: !!str 3\n", 1, "tags are not allowed"),
    ("a: !mine {b: 1}\n", 1, "tags are not allowed"),
    ("a: 1\n---\nb: 2\n", 2, "more than one document"),
    ("%YAML 1.1\n---\na: 1\n", 1, "directives are not allowed"),
    ("a: 1\n? [x]\n: 2\n", 2, "a key is not text"),
    ("a: 1\n3: 2\n", 2, "a key is not text"),
    ("a: 1\n~: 2\n", 2, "a key is not text"),
    ("", 1, "is empty"),
    ("# only this\n", 1, "is empty"),
    ("---\n", 1, "is empty"),
    ("a:\n\tb: 1\n", 2, "spaces, not tabs"),
    ("a: b: c\n", 1, "Quote a text that contains a colon"),
    ("a: 1\nb: [1\n", 3, "not readable as YAML"),
    ("a: 1\nb: \x01\n", 2, "a character that YAML forbids"),
    (b"a: 1\nb: \xff\n", 2, "is not valid UTF-8"),
    ("a: 1\nb: x\u2028y\n", 2, "take for a line break"),
    ('a: 1\nb: "\\ud83d"\n', 2, "half of a surrogate pair"),
    ("[" * 90 + "]" * 90, 1, "nested deeper"),
]


@pytest.mark.parametrize(("text", "line", "words"), STRUCTURES)
def test_structures_that_hide_meaning_are_refused(text: str | bytes, line: int, words: str) -> None:
    """Anchors, tags, several documents, odd keys and unreadable bytes are refused by line."""
    found = problems_of(text)
    assert (found[0][0], words in found[0][1]) == (line, True), found


def test_an_escape_beyond_the_last_character_is_an_input_error() -> None:
    """A broken escape is the file's fault and no crash."""
    assert "not readable as YAML" in problems_of('a: "\\UFFFFFFFF"')[0][1]


def test_all_problems_come_at_once() -> None:
    """One reading names every ambiguous value, and a syntax error does not hide them."""
    assert [line for line, _ in problems_of("a: NO\nb: 1:30\nc: &x 042\n")] == [1, 2, 3, 3]
    assert problems_of("a: NO\nb: {c\nd: ]\n")[0][0] == 1


def test_a_mark_and_windows_line_ends_change_nothing() -> None:
    """A byte-order mark and CRLF give the same data and the same lines."""
    plain = load("a: 1\nb:\n  - x\n  - |\n    y\n", file="f")
    windows = load(b"\xef\xbb\xbfa: 1\r\nb:\r\n  - x\r\n  - |\r\n    y\r\n", file="f")
    assert windows == plain


def test_lines_are_those_of_keys_and_elements() -> None:
    """`line_of` gives the line of an entry, or of the nearest one around it."""
    document = load("# c\na: 1\nb:\n  - x: 1\n    w: 2\n  - {z: 3}\n", file="f")
    lines = {(): 2, ("a",): 2, ("b", 0, "w"): 5, ("b", 1, "z"): 6, ("b", 1, "no"): 6, ("n",): 2}
    assert {path: document.line_of(path) for path in lines} == lines


def test_parse_goes_on_after_a_problem() -> None:
    """`parse` keeps what was typed for a refused scalar, and the first of two equal keys."""
    document, problems = parse("a: NO\nb: 1\nb: 2\n", file="f")
    assert document.data == {"a": "NO", "b": 1}
    assert len(problems) == 2


def test_paths_read_as_people_write_them() -> None:
    """A path joins keys by dots and puts positions in brackets."""
    assert path_text(("bands", 0, "between", 1)) == "bands[0].between[1]"


@given(st.text(st.characters(codec="utf-8", exclude_categories=["Cs", "Cc"]), max_size=12))
def test_plain_is_text_agrees_with_pyyaml_where_it_says_yes(text: str) -> None:
    """Text that is called safe without quotes is text for a YAML 1.1 reader as well."""
    if plain_is_text(text):
        tag = yaml.SafeLoader("").resolve(yaml.ScalarNode, text, (True, False))  # type: ignore[no-untyped-call]
        assert tag == "tag:yaml.org,2002:str"


_BIDI = "\ufeff\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
_PLAIN = st.characters(exclude_categories=["Cc", "Cs", "Cn", "Zl", "Zp"], exclude_characters=_BIDI)
_TEXT = st.text(_PLAIN, max_size=9)
_NUMBER = st.floats(-1e15, 1e15).filter(lambda x: x == 0 or abs(x) > 1e-300)
_DATA = st.recursive(
    st.none() | st.booleans() | st.integers(1 - 2**53, 2**53 - 1) | _TEXT | _NUMBER,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abc"), inner, max_size=3),
    max_leaves=8,
)


def _nfc(value: Any) -> Any:
    if isinstance(value, str):
        return unicodedata.normalize("NFC", value)
    if isinstance(value, list):
        return [_nfc(x) for x in value]
    return {k: _nfc(x) for k, x in value.items()} if isinstance(value, dict) else value


@given(_DATA.filter(lambda x: x is not None))
def test_json_is_read_back_as_it_is(value: Any) -> None:
    """Any JSON value, text in NFC, loads as itself: quoting is enough to keep it."""
    assert load(json.dumps(value, ensure_ascii=False), file="f").data == _nfc(value)
