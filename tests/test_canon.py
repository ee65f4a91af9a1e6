"""Canonical JSON and hashes: one form for one value."""

from __future__ import annotations

import hashlib
import json
import math
import random
import unicodedata
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prereg_judge.canon import canonical_json, nfc, sha256_bytes, sha256_file, sha256_value
from prereg_judge.errors import InputError

TEXT = st.text(st.characters(exclude_categories=["Cs"]))
NUMBERS = st.integers(-(2**53) + 1, 2**53 - 1) | st.floats(-1e15, 1e15)
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=12,
)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (-0.0, "0"),
        (0.0, "0"),
        (58.0, "58"),
        (1e-7, "1e-7"),
        (1e21, "1e+21"),
        (333333333.33333329, "333333333.3333333"),
        (2**53 - 1, "9007199254740991"),
        ({"b": 1, "a": 2}, '{"a":2,"b":1}'),
        ({"\u20ac": 1, "\r": 2, "\ufb33": 3, "1": 4, "\U0001f600": 5, "\x80": 6, "\xf6": 7},
         '{"\\r":2,"1":4,"\x80":6,"\xf6":7,"\u05d3\u05bc":3,"\u20ac":1,"\U0001f600":5}'),
        ("e\u0301", '"\u00e9"'),
        ({"e\u0301": ["e\u0301"]}, '{"\u00e9":["\u00e9"]}'),
        ("\u2028\x7f\"\\/\n\x01", '"\u2028\x7f\\"\\\\/\\n\\u0001"'),
        ((1, 2), "[1,2]"),
    ],
)  # fmt: skip
def test_the_one_form(value: Any, expected: str) -> None:
    """Examples of RFC 8785, with strings in NFC (so U+FB33 is two characters and sorts so)."""
    assert canonical_json(value) == expected.encode()


@pytest.mark.parametrize(
    "value",
    [
        math.nan,
        math.inf,
        -math.inf,
        2**53,
        -(2**53),
        {1: 2},
        b"bytes",
        {1, 2},
        object(),
        "\ud800",
        {"\ud800": 1},
        [[["\udfff"]]],
    ],
)
def test_what_json_cannot_hold_is_refused(value: Any) -> None:
    """Nothing is turned into something near: NaN, infinity, large integers, half characters."""
    with pytest.raises(InputError, match="canonical JSON"):
        canonical_json({"value": value})


def test_a_value_nested_too_deeply_is_refused() -> None:
    """Depth beyond what can be walked is an error like the others."""
    value: Any = 0
    for _ in range(100_000):
        value = [value]
    with pytest.raises((InputError, RecursionError)):
        canonical_json(value)


@given(VALUES, st.randoms(use_true_random=False))
def test_the_form_is_read_back_and_written_alike(value: Any, rng: random.Random) -> None:
    """The form gives the value back in NFC, whose form is the same with its keys in any order."""
    form = canonical_json(value)
    again = json.loads(form)
    assert again == nfc(value)
    assert canonical_json(again) == form
    if isinstance(again, dict):
        keys = list(again)
        rng.shuffle(keys)
        assert canonical_json({k: again[k] for k in keys}) == form


@given(VALUES)
def test_nfc_reaches_every_string(value: Any) -> None:
    """No string inside, key or value, is left in another form; doing it twice changes nothing."""
    text = json.dumps(nfc(value), ensure_ascii=False)
    assert unicodedata.is_normalized("NFC", text)
    assert nfc(nfc(value)) == nfc(value)


def test_hashes_are_sha256(tmp_path: Path) -> None:
    """Bytes, files and tagged values are hashed as documented."""
    data = bytes(range(256)) * 9000
    (tmp_path / "f").write_bytes(data)
    told: list[int] = []
    assert sha256_file(tmp_path / "f", told.append) == hashlib.sha256(data).hexdigest()
    assert sum(told) == len(data)
    assert sha256_bytes(b"abc").startswith("ba7816bf8f01cfea")
    assert sha256_value("tag", {"a": 1}) == hashlib.sha256(b'tag\0{"a":1}').hexdigest()


@given(VALUES, TEXT, TEXT)
def test_tags_keep_kinds_apart(value: Any, one: str, two: str) -> None:
    """The same value has one hash under a tag, and another under another tag."""
    same = sha256_value(one, value) == sha256_value(two, value)
    assert same == (one == two)
