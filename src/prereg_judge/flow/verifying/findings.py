"""What a verification finds, one sentence each, in three parts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from prereg_judge.errors import PreregError, Problem

Part = Literal["proved", "not proved", "violated"]
WitnessName = Literal["git", "rfc3161", "opentimestamps"]
WITNESSES: tuple[WitnessName, ...] = ("git", "rfc3161", "opentimestamps")


@dataclass(frozen=True)
class Asked:
    """What a verification is to look at beside the files, and what it is to insist on.

    Attributes
    ----------
    require
        Kinds of witness that must have seen each locked version before its first run; where one
        has not, that is a violation.
    roots
        Root certificates (PEM) of the time-stamp authorities that are trusted.
    clones
        Other clones of the repository whose histories are compared; or bundles, scores and
        manifests that somebody kept, whose ledger lines must be here.
    headers
        Headers of Bitcoin blocks, 80 bytes in hex, that OpenTimestamps stamps lead to.
    render
        Whether every prompt is rendered and tokenized again, with the model's own vocabulary.
    """

    require: Sequence[WitnessName] = ()
    roots: Sequence[bytes] = ()
    clones: Sequence[str | Path] = ()
    headers: Sequence[str] = ()
    render: bool = False


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at.

    Attributes
    ----------
    part
        Whether it is proved, not proved, or violated.
    about
        What it is about: `ledger`, a registration's id, `ID run N`.
    what
        What holds, what does not, or what cannot be said.
    how
        Of what is proved, by what; of what is not, how one could; of a violation, what to do.
    """

    part: Part
    about: str
    what: str
    how: str | None = None

    def __str__(self) -> str:
        tail = f" ({self.how})" if self.how and self.part == "proved" else ""
        remedy = f". {self.how[0].upper()}{self.how[1:]}" if self.how and not tail else ""
        return f"{self.about}: {self.what}{tail}{remedy}"


@dataclass
class Findings:
    """Collects findings; `witnessed` are the versions that a witness saw before their first run.

    `witnessed` maps each kind of witness to (id, version) pairs.
    """

    found: list[Finding] = field(default_factory=list)
    witnessed: dict[WitnessName, set[tuple[str, int]]] = field(
        default_factory=lambda: {name: set() for name in WITNESSES}
    )

    def proved(self, about: str, what: str, by: str) -> None:
        """Note what holds, and by what."""
        self.found.append(Finding("proved", about, what, by))

    def not_proved(self, about: str, what: str, how: str | None = None) -> None:
        """Note what cannot be said, and how one could say it."""
        self.found.append(Finding("not proved", about, what, how))

    def violated(self, about: str, *problems: Problem | str) -> None:
        """Note what is wrong."""
        for problem in problems:
            one = Problem(problem) if isinstance(problem, str) else problem
            text = str(Problem(one.what, one.file, one.line, one.where, one.found))
            finding = Finding("violated", about, text, one.remedy)
            if finding not in self.found:
                self.found.append(finding)

    def raised(self, about: str, exc: PreregError) -> None:
        """Note an error as violations."""
        self.violated(about, *exc.problems)

    def part(self, part: Part) -> list[Finding]:
        """The findings of one part, in the order in which they were made."""
        return [f for f in self.found if f.part == part]

    def has_violation(self, about: Iterable[str] | None = None) -> bool:
        """Whether anything is violated, of these subjects or at all."""
        subjects = None if about is None else set(about)
        return any(subjects is None or f.about in subjects for f in self.part("violated"))
