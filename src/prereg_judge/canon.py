"""Canonical JSON (RFC 8785) and hashes of bytes, files and values.

One definition of identity for the whole project: what two things must share to be the same.
"""

from __future__ import annotations

import hashlib
import unicodedata
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import rfc8785

from prereg_judge.errors import InputError, Problem

_CHUNK = 1 << 20


def nfc(value: Any) -> Any:
    """Return `value` with every string inside it, keys included, in Unicode form NFC."""
    if isinstance(value, str):
        return unicodedata.normalize("NFC", value)
    if isinstance(value, Mapping):
        return {nfc(k): nfc(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [nfc(v) for v in value]
    return value


def canonical_json(value: Any) -> bytes:
    """Serialise a JSON value to its one canonical form (RFC 8785, strings in NFC).

    Raises
    ------
    InputError
        For NaN, infinity, integers beyond 2**53, halves of surrogate pairs, and values that
        JSON does not have.
    """
    try:
        return rfc8785.dumps(nfc(value))
    except (rfc8785.CanonicalizationError, UnicodeEncodeError, RecursionError) as exc:
        raise InputError(Problem(f"cannot be written as canonical JSON: {exc}")) from exc


def sha256_bytes(data: bytes) -> str:
    """SHA-256 of `data`, 64 lower-case hex digits."""
    return hashlib.sha256(data).hexdigest()


def sha256_value(tag: str, value: Any) -> str:
    """Tagged hash of a JSON value: SHA-256 over the tag, a zero byte and the canonical JSON.

    The tag keeps the hashes of different kinds of things apart even where their JSON is equal.
    """
    return sha256_bytes(tag.encode() + b"\0" + canonical_json(value))


def sha256_list(tag: str, values: Iterable[Any]) -> str:
    """`sha256_value` of a list, whose values are taken one at a time."""
    digest = hashlib.sha256(tag.encode() + b"\0[")
    for at, value in enumerate(values):
        digest.update((b"," if at else b"") + canonical_json(value))
    digest.update(b"]")
    return digest.hexdigest()


def sha256_file(path: Path, progress: Callable[[int], None] | None = None) -> str:
    """SHA-256 of a file's bytes, read in pieces; `progress` is told the bytes of each piece."""
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while chunk := stream.read(_CHUNK):
            digest.update(chunk)
            if progress is not None:
                progress(len(chunk))
    return digest.hexdigest()
