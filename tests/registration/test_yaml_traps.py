"""Every trap in the bytes of a registration, each with the right answer.

A row changes one text in a registration that loads. The answer is either that it is refused, with
file, line, what was found and a remedy, or that it loads and means exactly what stands there.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import unicodedata
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prereg_judge.canon import canonical_json, sha256_value
from prereg_judge.errors import InputError, Problem
from prereg_judge.judge_file import read_judge_file
from prereg_judge.registration.load import read_registration
from prereg_judge.registration.schema import meaning
from support import JUDGE

EXAMPLE = """\
prereg: 1
id: twice
title: Does it answer twice alike?
study: self-agreement
judge: judge/yes-no.yaml
items:
  sentinel: sentinels/small.jsonl
model:
  gguf: models/judge.gguf
  n_ctx: 4096
  n_gpu_layers: -1
  n_threads: 2
  n_batch: 64
  load_timeout_s: 60
  template_args: {deep: true}
protocol:
  passes: 2
  orders: [ab]
  path: generate
  prefix: shared
  decoding: {mode: seeded, seed: 7, temperature: 0.8, top_k: 40, top_p: 0.95, min_p: 0.05}
  max_tokens: 64
  parallel: 1
  hang: {call_timeout_s: 120, retries: 1, heartbeat_s: 30}
  thinking: {start: a, end: b, max_tokens: 9}
executor: {kind: local, workers: 1}
missing: disagree
bands:
  - {id: agree, metric: sentinel.agreement.count, between: [58, 68], expected: 63}
predictions:
  - {id: flips, metric: sentinel.flips_from.count, from_run: one, verdict: KEEP, at_least: 8}
  - {id: wrong, metric: sentinel.wrong.rate, pass: 2, at_most: 0.5}
refuters:
  - {id: fixed, when: {metric: sentinel.agreement.count, eq: 72}, means: no draw is made}
  - {id: loose, when: {any: [{metric: a, lt: 50}, {metric: a, le: 49}]}, means: too unstable}
stop:
  - {id: hangs, when: {metric: calls.hangs, ge: 1}, in_every: 20, over_first: 40}
decisions:
  - {id: kill, when: {all: [{metric: b, gt: 0.9}]}, then: report the null}
exposure: {seen: nothing}
"""


def changed(old: str, new: str) -> str:
    """The example with one piece of text replaced."""
    assert EXAMPLE.count(old) == 1, old
    return EXAMPLE.replace(old, new)


def line_of(old: str) -> int:
    """The line of the example on which a piece of text begins."""
    return EXAMPLE[: EXAMPLE.index(old)].count("\n") + 1


def problems_of(raw: str | bytes) -> list[Problem]:
    """Every problem of a registration, of which there is at least one."""
    with pytest.raises(InputError) as caught:
        read_registration(raw.encode() if isinstance(raw, str) else raw, shown="r.yaml")
    return list(caught.value.problems)


def meant(raw: str | bytes) -> dict[str, Any]:
    """What a registration that loads means."""
    raw = raw.encode() if isinstance(raw, str) else raw
    return meaning(read_registration(raw, shown="r.yaml").model)


def identity(raw: str | bytes) -> str:
    """Hash of what a registration means, as a lock holds it."""
    return sha256_value("registration-meaning", meant(raw))


NUMBER = "at_least: 8}"
TEXT = "means: too unstable"
NAME = "verdict: KEEP"

# Typed where a number belongs: the number that it is.
NUMBERS = [
    ("1e-2", 0.01), ("1e3", 1000), ("1E+2", 100), (".5", 0.5), ("5.", 5), ("+58", 58),
    ("58.0", 58), ("0.10", 0.1), ("-0.0", 0), ("-0", 0), ("0e9", 0), ("12345678", 12345678),
    ("1e10", 10_000_000_000), ("9007199254740991", 2**53 - 1), ("-9007199254740991", 1 - 2**53),
    ("58.00000000000000", 58), ("58.00000000000001", 58.00000000000001),
    ("0.30000000000000004", 0.30000000000000004), ("5.684341886080802e-14", 2.0**-44),
]  # fmt: skip


@pytest.mark.parametrize(("typed", "value"), NUMBERS)
def test_a_number_is_the_number_that_stands_there(typed: str, value: float) -> None:
    """Every plain decimal spelling is that number, with one spelling of it in the meaning."""
    found = meant(changed(NUMBER, f"at_least: {typed}}}"))["predictions"][0]["at_least"]
    assert (found, canonical_json(found)) == (value, canonical_json(value))
    assert type(found) is type(value)


# Typed where a number belongs: the beginning of what is said.
NO_NUMBERS = [
    ("1:30", "is ambiguous: some readers take digits with colons for a number in base 60"),
    ("042", "is ambiguous: some readers take a leading zero"),
    ("0123", "is ambiguous: some readers take a leading zero"),
    ("0o42", "is ambiguous: some readers take this for a number in another base"),
    ("0x1F", "is ambiguous: some readers take this for a number in another base"),
    ("0b11", "is ambiguous: some readers take this for a number in another base"),
    ("1_000", "is ambiguous: some readers drop the underscores"),
    ("9007199254740992", "is ambiguous: a whole number of 2**53 or more loses digits"),
    ("9007199254740993", "is ambiguous: a whole number of 2**53 or more loses digits"),
    ("9007199254740993.0", "is ambiguous: as a number it is 2**53 or more"),
    ("4503599627370497.75", "is ambiguous: as a number it would become 4503599627370498.0"),
    ("58.00000000000000001", "is ambiguous: as a number it would become 58.0"),
    ("58.000000000000001", "is ambiguous: as a number it would become 58.0"),
    ("1e400", "is ambiguous: as a number it is 2**53 or more"),
    ("1e99999999999999999999", "is ambiguous: as a number it is 2**53 or more"),
    ("1e-400", "is ambiguous: as a number it is too small to be told from 0"),
    ("NO", "is ambiguous: some readers take this word for true or false"),
    ("2026-01-31", "is ambiguous: some readers take this for a date"),
    ('"58"', "must be a number"),
    ("true", "must be a number"),
    ("58 68", "must be a number"),
    ("\u0665\u0668", "must be a number"),
    ("\u22125", "must be a number"),
    ("!!int 58", "tags are not allowed"),
]


@pytest.mark.parametrize(("typed", "words"), NO_NUMBERS)
def test_what_is_no_plain_number_is_refused(typed: str, words: str) -> None:
    """Nothing is turned into a number near it: place, what was typed, and what to do are said."""
    [problem] = problems_of(changed(NUMBER, f"at_least: {typed}}}"))
    assert (problem.line, problem.where) == (line_of(NUMBER), "predictions[0].at_least")
    assert problem.what.startswith(words)
    assert typed.removeprefix("!!").split(" ")[0] in str(problem.found)
    assert problem.remedy or typed in ("true",)


# Typed without quotes where text belongs: the beginning of what is said.
NO_TEXTS = [
    ("12345678", "must be text"),
    ("1e10", "must be text"),
    ("0e12345678901234", "must be text"),
    (".5", "must be text"),
    ("5.", "must be text"),
    ("true", "must be text"),
    ("0123", "is ambiguous: some readers take a leading zero"),
    ("1" * 40, "is ambiguous: a whole number of 2**53 or more"),
    ("0o42", "is ambiguous: some readers take this for a number in another base"),
    ("0x1F", "is ambiguous: some readers take this for a number in another base"),
    ("1_000", "is ambiguous: some readers drop the underscores"),
    ("12:30", "is ambiguous: some readers take digits with colons"),
    ("12:30:45", "is ambiguous: some readers take digits with colons"),
    ("2026-01-31", "is ambiguous: some readers take this for a date"),
    ("2026-01-31 10:00:00", "is ambiguous: some readers take this for a date"),
    ("2026-01-31T10:00:00Z", "is ambiguous: some readers take this for a date"),
    ("2026-01-31T10:00:00+01:00", "is ambiguous: some readers take this for a date"),
    ("NO", "is ambiguous: some readers take this word for true or false"),
    ("yes", "is ambiguous: some readers take this word for true or false"),
    ("on", "is ambiguous: some readers take this word for true or false"),
    ("Off", "is ambiguous: some readers take this word for true or false"),
    ("TRUE", "is ambiguous: some readers take this word for true or false"),
    ("Null", "is ambiguous: some readers take this word for null"),
    (".nan", "is ambiguous: not a finite number"),
    ("=", "is ambiguous: some readers give this sign a meaning"),
    ("<<", "is ambiguous: some readers give this sign a meaning"),
]


@pytest.mark.parametrize(("typed", "words"), NO_TEXTS)
@pytest.mark.parametrize(
    ("old", "where"), [(TEXT, "refuters[1].means"), (NAME, "predictions[0].verdict")]
)
def test_what_looks_like_another_kind_of_value_is_refused_as_text(
    typed: str, words: str, old: str, where: str
) -> None:
    """A hash, a time or a word of the language wants quotes; in quotes it is that very text."""
    key = old.partition(":")[0]
    [problem] = problems_of(changed(old, f"{key}: {typed}"))
    assert (problem.line, problem.where, problem.found) == (line_of(old), where, typed)
    assert problem.what.startswith(words)
    assert "quote" in str(problem.remedy)
    quoted = meant(changed(old, f'{key}: "{typed}"'))
    there: Any = quoted["refuters"][1] if old == TEXT else quoted["predictions"][0]
    assert there[key] == typed


@pytest.mark.parametrize("typed", ["deadbeef", "9f86d081884c7d65", "1.2.3", "a_1", "NOT", "-"])
def test_a_text_that_every_reader_takes_for_text_needs_no_quotes(typed: str) -> None:
    """A hash with letters, a version, a word that merely begins like a switch."""
    assert meant(changed(NAME, f"verdict: {typed}"))["predictions"][0]["verdict"] == typed


@pytest.mark.parametrize("typed", ["~", "null", ""])
def test_nothing_is_nothing(typed: str) -> None:
    """A null is a key left out: it means the same where that is allowed, else it is refused."""
    left_out = changed(f"{NAME}, ", "")
    assert identity(changed(NAME, f"verdict: {typed}")) == identity(left_out)
    [problem] = problems_of(changed(TEXT, f"means: {typed}"))
    assert (problem.line, problem.where, problem.found) == (
        line_of(TEXT), "refuters[1].means", "null",
    )  # fmt: skip
    assert problem.remedy == "give a value, or remove the key"
    [problem] = problems_of(changed(NUMBER, f"at_least: {typed}}}"))
    assert "has no limit" in str(problem)


@pytest.mark.parametrize(
    "typed", ['"1"', "1.0", "1.", "1e0", "true", "01", "0x1", "!!int 1", "!!str 1", "[1]", "2", ""]
)
def test_the_version_is_the_number_one(typed: str) -> None:
    """`prereg: 1` and no other spelling: "1", 1.0 and true would be equal in some readers."""
    [problem] = problems_of(changed("prereg: 1", f"prereg: {typed}"))
    assert (problem.line, problem.where) == (1, "prereg")
    assert problem.found
    assert problem.remedy


def _numeric_places() -> list[tuple[str | int, ...]]:
    """Path of every number in the example."""

    def walk(value: Any, path: tuple[str | int, ...]) -> list[tuple[str | int, ...]]:
        if isinstance(value, dict):
            return [p for k, v in value.items() for p in walk(v, (*path, k))]
        if isinstance(value, list):
            return [p for at, v in enumerate(value) for p in walk(v, (*path, at))]
        return [path] if type(value) in (int, float) else []

    return walk(read_registration(EXAMPLE.encode(), shown="r.yaml").data, ())


@pytest.mark.parametrize("place", _numeric_places(), ids=str)
def test_no_number_is_nan_or_infinite(place: tuple[str | int, ...]) -> None:
    """Wherever a number stands, NaN and infinity are refused in every spelling.

    JSON has neither: a signature over a registration would be over null.
    """
    for typed in (".nan", ".NaN", "NaN", ".inf", "-.inf", "+.Inf", "Infinity", "-Infinity"):
        data = json.loads(json.dumps(read_registration(EXAMPLE.encode(), shown="").data))
        inner = data
        for part in place[:-1]:
            inner = inner[part]
        inner[place[-1]] = "HERE"
        [problem, *_] = problems_of(json.dumps(data).replace('"HERE"', typed))
        assert problem.what == "is ambiguous: not a finite number"
        assert problem.found == typed


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_nothing_that_is_not_a_number_is_ever_hashed(value: float) -> None:
    """Behind the reader, the hash itself refuses what JSON would write as null."""
    with pytest.raises(InputError, match="cannot be written as canonical JSON"):
        sha256_value("registration-meaning", {"at_least": value})


# Structures: name, what stands, what is written, line below that of what stands, what is said.
STRUCTURES: list[tuple[str, str, str, int, str]] = [
    ("duplicate key", "missing: disagree", "missing: disagree\nmissing: exclude", 1,
     "this key is given twice, first on line 27"),
    ("duplicate key, the same value", "missing: disagree", "missing: disagree\nmissing: disagree",
     1, "given twice"),
    ("duplicate key, quoted", "missing: disagree", 'missing: disagree\n"missing": exclude', 1,
     "given twice"),
    ("duplicate key, nested", "  passes: 2", "  passes: 2\n  passes: 3", 1, "given twice"),
    ("duplicate key, flow mapping", "expected: 63", "expected: 63, expected: 60", 0, "given twice"),
    ("duplicate key, escaped", "  passes: 2", '  passes: 2\n  "p\\u0061sses": 3', 1, "given twice"),
    ("duplicate key, other normal form", "{deep: true}", "{caf\u00e9: true, cafe\u0301: false}", 0,
     "given twice"),
    ("merge key", "missing: disagree", "<<: {missing: exclude}\nmissing: disagree", 0,
     "merge keys are not allowed"),
    ("merge key, flow mapping", "{deep: true}", "{<<: {deep: false}}", 0,
     "merge keys are not allowed"),
    ("merge key, alias", "missing: disagree", "missing: disagree\n<<: *base", 1,
     "merge keys are not allowed"),
    ("anchor", "  passes: 2", "  passes: &n 2", 0, "anchors are not allowed"),
    ("alias", "  passes: 2", "  passes: *n", 0, "aliases are not allowed"),
    ("tag that runs code", "title: Does", "title: !!python/object/apply:os.system [Does", 0,
     "not readable as YAML"),
    ("tag that runs code, well formed", "seen: nothing", "seen: !!python/name:os.system x", 0,
     "tags are not allowed"),
    ("tag that makes bytes", "seen: nothing", "seen: !!binary bm90aGluZw==", 0,
     "tags are not allowed"),
    ("tag of one's own", "seen: nothing", "seen: !secret nothing", 0, "tags are not allowed"),
    ("directive", "prereg: 1", "%YAML 1.1\n---\nprereg: 1", 0, "directives are not allowed"),
    ("key that is a number", "{deep: true}", "{1: true}", 0, "a key is not text"),
    ("key that is a switch", "{deep: true}", "{on: true}", 0, "is ambiguous"),
    ("key that is a list", "{deep: true}", "{[a]: true}", 0, "a key is not text"),
    ("key that is nothing", "{deep: true}", "{~: true}", 0, "a key is not text"),
    ("second document", "exposure: {seen: nothing}\n", "exposure: {seen: nothing}\n---\na: 1\n", 1,
     "more than one document"),
    ("empty second document", "exposure: {seen: nothing}\n", "exposure: {seen: nothing}\n---\n", 1,
     "more than one document"),
    ("empty first document", "prereg: 1", "---\n---\nprereg: 1", 1, "more than one document"),
    ("garbage after the end", "exposure: {seen: nothing}\n",
     "exposure: {seen: nothing}\n...\nexposure: {seen: all}\n", 2, "not readable as YAML"),
    ("brackets after the end", "exposure: {seen: nothing}\n",
     "exposure: {seen: nothing}\n...\n]] {\n", 2, "not readable as YAML"),
    ("tab as indentation", "  passes: 2", "\tpasses: 2", 0, "not readable as YAML"),
    ("tab before a value", "missing: disagree", "missing:\tdisagree", 0, "not readable as YAML"),
    ("next line", "too unstable", "too\x85unstable", 0, "take for a line break"),
    ("line separator", "too unstable", "too\u2028unstable", 0, "take for a line break"),
    ("paragraph separator in a comment", "missing: disagree",
     "missing: disagree # \u2029missing: exclude", 0, "take for a line break"),
    ("zero byte", "too unstable", "too\0unstable", 0, "a character that YAML forbids"),
    ("form feed", "too unstable", "too\funstable", 0, "a character that YAML forbids"),
    ("half a character", "seen: nothing", 'seen: "\\ud83d"', 0, "half of a surrogate pair"),
    ("deep lists", "{deep: true}", "{deep: " + "[" * 500 + "]" * 500 + "}", 0, "nested deeper"),
    ("deep mappings", "{deep: true}", "{a: " * 500 + "1" + "}" * 500, 0, "nested deeper"),
    ("deep keys", "{deep: true}", "{" * 5000, 0, "nested deeper"),
    ("second byte-order mark", "prereg: 1", "\ufeff\ufeffprereg: 1", 0, "byte-order mark"),
    ("byte-order mark inside", "missing:", "\ufeffmissing:", 0, "byte-order mark"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "old", "new", "below", "words"), STRUCTURES)
def test_structures_that_two_readers_read_differently_are_refused(
    name: str, old: str, new: str, below: int, words: str
) -> None:
    """Whatever would let a person and a program see two registrations in one file is refused."""
    found = problems_of(changed(old, new))
    first = next(p for p in found if words in p.what)
    assert (first.file, first.line) == ("r.yaml", line_of(old) + below)
    if name not in ("tag that runs code",):  # a bracket left open has many remedies
        assert first.remedy


def test_a_billion_laughs_are_not_laughed() -> None:
    """Aliases that grow tenfold a level are refused before anything grows."""
    bomb = 'a0: &a0 ["ha"]\n' + "".join(
        f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 12)
    )
    found = problems_of(EXAMPLE + bomb)
    assert any("aliases are not allowed" in p.what and p.remedy for p in found)
    assert len(found) < 200


END = EXAMPLE.count("\n") + 1
# Bytes that are no text in UTF-8: the line, and what is said.
BYTES = [
    ("UTF-16", EXAMPLE.encode("utf-16"), 1, "is not valid UTF-8"),
    ("UTF-16 without a mark", EXAMPLE.encode("utf-16-le"), 1, "a character that YAML forbids"),
    ("UTF-32", EXAMPLE.encode("utf-32"), 1, "is not valid UTF-8"),
    ("Latin-1", changed("too unstable", "tr\xe8s").encode("latin-1"), line_of(TEXT), "UTF-8"),
    ("half a character", EXAMPLE.encode() + b"# \xed\xa0\x80\n", END, "is not valid UTF-8"),
    ("overlong", EXAMPLE.encode() + b"# \xc0\xaf\n", END, "is not valid UTF-8"),
    ("cut off", EXAMPLE.encode() + b"# \xe2\x82", END, "is not valid UTF-8"),
    ("a zero byte at the end", EXAMPLE.encode() + b"\0", END, "a character that YAML forbids"),
]


@pytest.mark.parametrize(("name", "raw", "line", "words"), BYTES)
def test_bytes_that_are_not_utf_8_are_refused(name: str, raw: bytes, line: int, words: str) -> None:
    """No encoding is guessed: the first byte that does not fit is named with its line."""
    [problem] = problems_of(raw)
    assert problem.line == line, name
    assert words in problem.what
    assert problem.found
    assert "UTF-8" in str(problem.remedy)


# The same registration in other bytes.
SAME_MEANING = [
    ("Windows line ends", EXAMPLE.replace("\n", "\r\n")),
    ("old Macintosh line ends", EXAMPLE.replace("\n", "\r")),
    ("byte-order mark", "\ufeff" + EXAMPLE),
    ("document marks", f"---\n{EXAMPLE}...\n# the end\n"),
    ("no last line end", EXAMPLE.rstrip("\n")),
    ("JSON", json.dumps(read_registration(EXAMPLE.encode(), shown="").data)),
    ("quotes", changed("id: agree", "'id': \"agree\"")),
    ("escapes", changed("id: agree", 'id: "\\u0061gree"')),
    ("whole numbers with a point", changed("[58, 68]", "[58.0, 6.8e+1]")),
    ("plus signs", changed("prereg: 1", "prereg: +1")),
    ("a key as null", changed("missing:", "notes: ~\nmissing:")),
    ("order of keys", changed("id: agree, metric", "metric").replace("63}", "63, id: agree}")),
]


@pytest.mark.parametrize(("name", "other"), SAME_MEANING)
def test_other_bytes_with_the_same_meaning(name: str, other: str) -> None:
    """The meaning's hash is equal; the hash of the bytes tells the two files apart."""
    first = read_registration(EXAMPLE.encode(), shown="r.yaml")
    second = read_registration(other.encode(), shown="r.yaml")
    assert identity(other) == identity(EXAMPLE), name
    assert first.sha256 != second.sha256


@pytest.mark.parametrize("where", [TEXT, NAME, "title: Does it answer twice alike?"])
def test_text_in_another_normal_form_means_the_same(where: str) -> None:
    """NFC and NFD look alike and mean alike: equal as meaning, different as bytes."""
    key = where.partition(":")[0]
    composed, apart = (
        changed(where, f"{key}: " + unicodedata.normalize(form, "na\u00efvet\u00e9"))
        for form in ("NFC", "NFD")
    )
    assert identity(composed) == identity(apart) != identity(EXAMPLE)
    first, second = (read_registration(t.encode(), shown="") for t in (composed, apart))
    assert first.sha256 != second.sha256


@pytest.mark.parametrize("old", ["at_most: 0.5", "gt: 0.9", "lt: 50", "between: [58, 68]"])
def test_zero_has_one_meaning(old: str) -> None:
    """-0.0, 0.0, -0 and 0 are one limit."""
    key = old.partition(":")[0]
    zeros = ["-0.0", "0.0", "-0", "0", "0e5"]
    texts = [f"[{z}, 68]" if key == "between" else z for z in zeros]
    assert len({identity(changed(old, f"{key}: {t}")) for t in texts}) == 1


def test_numbers_that_a_person_tells_apart_differ_in_meaning() -> None:
    """The last digit that is accepted is a digit of the meaning."""
    typed = ["0.3", "0.30000000000000004", "0.29999999999999993"]
    assert len({identity(changed("at_most: 0.5", f"at_most: {t}")) for t in typed}) == 3


# Characters that nobody sees, or that look like another: place, character, what is said.
INVISIBLE = ["\u200b", "\u200d", "\u00ad", "\u2060", "\U000e0041", "\u3164"]
LOOKALIKES = ["\u0430", "\u0435", "\uff41", "\u2010"]


@pytest.mark.parametrize("character", INVISIBLE + LOOKALIKES, ids=ascii)
@pytest.mark.parametrize(
    ("old", "where"),
    [
        ("id: twice", "id"),
        ("id: agree", "bands[0].id"),
        ("metric: calls.hangs", "stop[0].when.metric"),
        ("from_run: one", "predictions[0].from_run"),
    ],
)
def test_a_name_with_a_character_that_fools_the_eye_is_refused(
    character: str, old: str, where: str
) -> None:
    """In ids and in names of metrics and runs, the character is named by number and name."""
    [problem] = problems_of(changed(old, old + character))
    assert (problem.line, problem.where) == (line_of(old), where)
    assert f"U+{ord(character):04X} ({unicodedata.name(character)})" in problem.what
    assert problem.remedy
    assert character not in str(problem) or character in LOOKALIKES  # what is not seen is escaped


@pytest.mark.parametrize("character", INVISIBLE + LOOKALIKES, ids=ascii)
def test_a_key_with_a_character_that_fools_the_eye_is_refused(character: str) -> None:
    """A key that looks like a known one is unknown, and the message says why."""
    found = problems_of(changed("expected: 63", f"expected{character}: 63"))
    assert [p.line for p in found] == [line_of("expected: 63")]
    assert f"which holds U+{ord(character):04X}" in found[0].what
    assert found[0].remedy == "did you mean expected?"


@pytest.mark.parametrize("character", "\u202a\u202b\u202d\u202e\u202c\u2066\u2067\u2068\u2069")
@pytest.mark.parametrize("old", [TEXT, "id: agree", "missing: disagree", "path: generate"])
def test_what_turns_the_displayed_text_around_is_refused(character: str, old: str) -> None:
    """A control of writing direction makes one line look like another, in a comment as well."""
    for new in (old + character, old + " # " + character):
        if new.endswith(f"# {character}") and old in (TEXT, "id: agree"):
            continue  # a comment would swallow the rest of these lines
        [problem] = problems_of(changed(old, new))
        assert problem.line == line_of(old)
        assert "changes how the text around it is displayed" in problem.what
        assert f"U+{ord(character):04X}" in str(problem.found)
        assert problem.remedy


@pytest.mark.parametrize("character", INVISIBLE[:1] + INVISIBLE[2:] + ["\u202e", "\x1b"], ids=ascii)
def test_a_title_shows_all_that_it_holds(character: str) -> None:
    """A title stands above every report: not even an escape brings in what is not seen."""
    title = f'"Does it \\U{ord(character):08x}answer?"'
    [problem] = problems_of(changed("Does it answer twice alike?", title))
    assert (problem.line, problem.where) == (3, "title")
    assert f"U+{ord(character):04X}" in problem.what


def test_names_that_differ_unseen_differ_in_meaning() -> None:
    """A verdict is the judge's word: with a hidden character it is another one, and not KEEP."""
    assert identity(changed(NAME, "verdict: KE\u200bEP")) != identity(EXAMPLE)


@pytest.mark.parametrize("zone", ["Pacific/Kiritimati", "America/St_Johns", "XYZ-13:30", "UTC"])
def test_times_are_utc_whatever_the_clock_on_the_wall_says(zone: str) -> None:
    """The tool writes UTC with a Z: in a process elsewhere, the same moment has the same text."""
    code = "from prereg_judge import clock; print(clock.now())"
    before = datetime.now(UTC)
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "TZ": zone}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    written = done.stdout.strip()
    assert written.endswith("Z")
    moment = datetime.fromisoformat(written)
    assert moment.utcoffset() == UTC.utcoffset(None)
    assert before.replace(microsecond=before.microsecond // 1000 * 1000) <= moment
    assert moment <= datetime.now(UTC)


@pytest.mark.parametrize(
    ("old", "new", "line", "words"),
    [
        ('verdicts: ["YES", "NO"]', "verdicts: [YES, NO]", 4, "true or false"),
        ("id: yes-no", "id: yes-no\nid: no-yes", 3, "given twice, first on line 2"),
        ("title: Is it so?", "title: Is it \u202eso?", 3, "changes how the text around it"),
        ("title: Is it so?", "title: &t Is it so?", 3, "anchors are not allowed"),
    ],
)
def test_a_judge_file_is_read_by_the_same_reader(old: str, new: str, line: int, words: str) -> None:
    """What is refused in a registration is refused in a judge file, with its line."""
    assert JUDGE.count(old) == 1
    with pytest.raises(InputError) as caught:
        read_judge_file(JUDGE.replace(old, new).encode(), file="j.yaml")
    first = caught.value.problems[0]
    assert (first.file, first.line) == ("j.yaml", line)
    assert words in first.what
    assert first.remedy


_COMMENT = st.text(
    st.characters(codec="utf-8", exclude_categories=["C", "Z"]) | st.just(" "), max_size=8
)
_FILLING = st.lists(
    st.builds(lambda n, text: " " * n + "# " + text, st.integers(0, 4), _COMMENT)
    | st.integers(0, 4).map(lambda n: " " * n),
    max_size=3,
)


@given(st.data())
def test_space_and_comments_between_keys_change_no_meaning(data: st.DataObject) -> None:
    """Before the lock, empty lines, comments and spaces at line ends are bytes and no more."""
    lines: list[str] = []
    for line in EXAMPLE.splitlines():
        lines += data.draw(_FILLING)
        comment = data.draw(st.just("") | _COMMENT.map(lambda text: " # " + text))
        lines.append(line + " " * data.draw(st.integers(0, 2)) + comment)
    other = "\n".join(lines) + "\n"
    assert identity(other) == identity(EXAMPLE)
    first, second = (read_registration(t.encode(), shown="") for t in (EXAMPLE, other))
    assert (first.sha256 == second.sha256) == (other == EXAMPLE)
