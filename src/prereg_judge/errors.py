"""The one exception tree. Every error carries problems that name file, place, value and remedy.

Knows nothing of any other module; everything else may import it. Exit codes are attached here
and acted on in one place, `cli.main`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong, said so that it can be mended.

    Attributes
    ----------
    what
        What is wrong, as one clause ("label 'MAYBE' is not one of the judge's verdicts").
    file
        The file in which it is wrong, or None where no file is concerned.
    line
        Line in that file, counted from 1, where known.
    where
        The place inside the file: a YAML path (`bands[0].between`), a field, a row's id.
    found
        The offending value as it stands, already rendered as text.
    remedy
        What would make it right.
    """

    what: str
    file: str | None = None
    line: int | None = None
    where: str | None = None
    found: str | None = None
    remedy: str | None = None

    def __str__(self) -> str:
        place = self.file or ""
        if self.line is not None:
            place += f":{self.line}" if place else f"line {self.line}"
        parts = [p for p in (place, self.where) if p]
        text = ": ".join([*parts, self.what])
        if self.found is not None:
            text += f" (found {self.found})"
        if self.remedy:
            text += f". {self.remedy[0].upper()}{self.remedy[1:]}"
        return text


class PreregError(Exception):
    """Base of all errors that a user can cause; its message is the list of its problems."""

    exit_code: ClassVar[int] = 2

    def __init__(self, *problems: Problem | str) -> None:
        self.problems: tuple[Problem, ...] = tuple(
            p if isinstance(p, Problem) else Problem(p) for p in problems
        )
        super().__init__("\n".join(str(p) for p in self.problems))


class InputError(PreregError):
    """A file or value handed in is unusable; nothing was changed."""


class UsageError(PreregError):
    """A command was called in a state or with arguments that do not fit."""


class EngineError(PreregError):
    """The model or the machine cannot do what the registration asks for."""


class IntegrityError(PreregError):
    """Something differs from what was locked or recorded (exit code 5, INVALID)."""

    exit_code: ClassVar[int] = 5


def raise_all(problems: Sequence[Problem]) -> None:
    """Raise one `InputError` with every problem, or return when there is none."""
    if problems:
        raise InputError(*problems)
