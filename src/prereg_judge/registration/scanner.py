"""A cursor over the text of a command line's option: what the short forms are read with."""

from __future__ import annotations

import re
from typing import NoReturn

from prereg_judge.errors import Problem, UsageError
from prereg_judge.strict_yaml import MAX_INT, read_float

NAME = re.compile(r"[A-Za-z_][\w-]*(?:\.[\w-]+)*")
_DOTS = re.compile(r"\.\.(?!\.)")  # 0...5 could mean two things
NUMBER = re.compile(r"[-+]?(?:[0-9]+(?:\.[0-9]+)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?(?![\w])")


class Scanner:
    """A cursor over one option's text that says where reading failed."""

    def __init__(self, text: str, *, option: str, example: str) -> None:
        self.text = text
        self.at = 0
        self.option = option
        self.example = example

    def fail(self, what: str, remedy: str | None = None) -> NoReturn:
        """Refuse the text where the cursor stands (`UsageError`)."""
        rest = self.text[self.at :]
        place = f"at position {self.at + 1}, `{rest}`" if rest else "at the end"
        right = f"for example {self.option} '{self.example}'"
        remedy = f"{remedy}; {right}" if remedy else right
        problem = Problem(f"{what} {place}", where=self.option, found=f"'{self.text}'",
                          remedy=remedy)  # fmt: skip
        raise UsageError(problem)

    def space(self) -> None:
        """Go over white space."""
        while self.at < len(self.text) and self.text[self.at].isspace():
            self.at += 1

    def take(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        """Read `pattern` after white space, or stay where it does not stand."""
        self.space()
        match = pattern.match(self.text, self.at)
        if match is not None:
            self.at = match.end()
        return match

    def word(self, word: str) -> bool:
        """Whether this word comes next; it is taken then."""
        tail = r"\b" if word.isalpha() else ""
        return self.take(re.compile(re.escape(word) + tail)) is not None

    def number(self) -> int | float:
        """Take a number."""
        self.space()
        start = self.at
        match = self.take(NUMBER)
        if match is None:
            self.fail("expected a number")
        text = match.group()
        whole = re.fullmatch(r"[-+]?[0-9]+", text) is not None
        value, why_not = (int(text), None) if whole else read_float(text)
        if why_not is None and abs(value) > MAX_INT:
            why_not = "the number is 2**53 or more"
        if why_not is not None:
            self.at = start
            self.fail(why_not)
        number: int | float = value
        return number

    def limits(self) -> list[int | float]:
        """Take two limits, as in `58..68`."""
        start = self.at
        low = self.number()
        if not self.take(_DOTS):
            self.fail("expected `..` and the upper limit")
        high = self.number()
        if low > high:
            self.at = start
            self.fail("the limits are reversed", "write the smaller limit first")
        return [low, high]

    def end(self) -> None:
        """Refuse anything that is left."""
        self.space()
        if self.at < len(self.text):
            self.fail("did not expect more")

    def rest(self, what: str) -> str:
        """Take all that is left, which must be something."""
        text = self.text[self.at :].strip()
        if not text:
            self.fail(f"expected {what}")
        return text


def whole(scan: Scanner) -> int:
    """Take a whole number, 0 or more."""
    start = scan.at
    value = scan.number()
    if not isinstance(value, int) or value < 0:
        scan.at = start
        scan.fail("expected a whole number")
    return value
