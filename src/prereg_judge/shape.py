"""What a text looks like, whatever it says: how long it is, and how much of it is format.

For asking whether a judge of pairs follows length or markdown. Knows no files and no judges.
"""

from __future__ import annotations

import re
from typing import NamedTuple

# Headings, list entries, quotes, fences and table rows, each at the beginning of a line.
_BLOCK = re.compile(
    r"^[ \t]{0,3}(?:#{1,6}[ \t]|[-*+][ \t]|\d{1,3}[.)][ \t]|>|```|~~~|\|)", re.MULTILINE
)
# Bold and code inside a line.
_INLINE = re.compile(r"\*\*(?=\S)[^*\n]+\*\*|__(?=\S)[^_\n]+__|`[^`\n]+`")


class Shape(NamedTuple):
    """What a text looks like.

    Attributes
    ----------
    length
        Characters, without white space at both ends.
    markdown
        Signs of markdown: headings, list entries, quotes, fences, table rows, bold, code.
    """

    length: int
    markdown: int


def shape_of(text: str) -> Shape:
    """The shape of a text; an empty one has neither length nor signs."""
    plain = text.strip()
    return Shape(len(plain), len(_BLOCK.findall(plain)) + len(_INLINE.findall(plain)))
