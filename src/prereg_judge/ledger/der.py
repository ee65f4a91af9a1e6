"""Just enough of DER to take a time-stamp token apart and put it together again.

Knows tags, lengths and nesting (X.690); not what any of it means.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

SEQUENCE, SET, INTEGER, OCTETS, OID = 0x30, 0x31, 0x02, 0x04, 0x06


class NotDerError(ValueError):
    """The bytes are not DER, or not of the expected kind."""


@dataclass(frozen=True)
class Element:
    """One element: its tag, its whole encoding, and the content alone."""

    tag: int
    whole: bytes
    content: bytes

    @property
    def parts(self) -> tuple[Element, ...]:
        """The elements inside a constructed one; NotDerError where there is something else."""
        return tuple(_elements(self.content))


def read(raw: bytes) -> Element:
    """The one element that `raw` is.

    Raises
    ------
    NotDerError
        If `raw` is no element, or more than one.
    """
    elements = tuple(_elements(raw))
    if len(elements) != 1:
        raise NotDerError(f"{len(elements)} elements instead of one")
    return elements[0]


def write(tag: int, *parts: bytes) -> bytes:
    """The encoding of an element with these parts as its content."""
    content = b"".join(parts)
    if len(content) < 0x80:
        return bytes([tag, len(content)]) + content
    length = len(content).to_bytes((len(content).bit_length() + 7) // 8, "big")
    return bytes([tag, 0x80 | len(length)]) + length + content


def expect(element: Element, tag: int) -> Element:
    """`element` if it has this tag, otherwise NotDerError."""
    if element.tag != tag:
        raise NotDerError(f"tag {element.tag:#04x} instead of {tag:#04x}")
    return element


def _elements(raw: bytes) -> Iterator[Element]:
    at = 0
    while at < len(raw):
        end, start = _extent(raw, at)
        yield Element(raw[at], raw[at:end], raw[start:end])
        at = end


def _extent(raw: bytes, at: int) -> tuple[int, int]:
    """Where the element that begins at `at` ends, and where its content begins."""
    if raw[at] & 0x1F == 0x1F or at + 2 > len(raw):
        raise NotDerError("no tag and length")
    length, start = raw[at + 1], at + 2
    if length >= 0x80:
        digits = raw[start : start + (length & 0x7F)]
        start += length & 0x7F
        length = int.from_bytes(digits, "big")
        # The shortest form is the only one; 0x80 (no length) is not DER.
        if not digits or digits[0] == 0 or length < 0x80:
            raise NotDerError("a length in another form than the shortest")
    if start + length > len(raw):
        raise NotDerError("cut short")
    return start + length, start
