"""Reads a registration from a file: bytes to YAML to model, with every problem at once.

Knows nothing of inputs or metrics: that a path exists and that a metric is real is checked later.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from prereg_judge.canon import sha256_bytes
from prereg_judge.complaints import foreign_character
from prereg_judge.complaints import shown as _shown
from prereg_judge.errors import InputError, Problem, raise_all
from prereg_judge.registration.as_claims import to_claims
from prereg_judge.registration.claims import Claims
from prereg_judge.registration.friendly import choices_named, schema_problems
from prereg_judge.registration.schema import CLAIM_SECTIONS, Registration
from prereg_judge.registration.schema_forms import form_of
from prereg_judge.strict_yaml import Document, YamlPath, parse, path_text
from prereg_judge.wording import (
    control_character,
    hidden_character,
    mark_in,
    not_a_file,
    opening_placeholder,
)
from prereg_judge.wording import placeholder_in as placeholder_in  # it is looked for here

# Texts in which blank is as good as unfilled.
_NOTHING = re.compile(r"[\s.\u2026\-\u2013\u2014?_*]*")
_SENTENCES = {"title", "means", "then", "seen"}
# Names that the items and the judge give: "tbd" may be a verdict.
_GIVEN_NAMES = {"kind", "stratum", "verdict", "to"}
# Names that this tool gives, or that are made of its ids.
_OWN_NAMES = {"metric", "from_run"}


@dataclass(frozen=True)
class Loaded:
    """A registration together with the file that it came from.

    Attributes
    ----------
    model
        The validated content.
    data
        The content as plain data.
    raw
        The bytes of the file.
    sha256
        Their SHA-256.
    document
        Content and lines, for messages about places in the file.
    shown
        Name of the file as messages show it.
    """

    model: Registration
    data: dict[str, Any]
    raw: bytes
    sha256: str
    document: Document
    shown: str

    @property
    def claims(self) -> Claims:
        """What the registration commits to."""
        return to_claims(self.model)

    def problem(
        self, what: str, at: YamlPath, *, found: str | None = None, remedy: str | None = None
    ) -> Problem:
        """A problem with this file's entry at a path, with its line."""
        line = self.document.line_of(at)
        return Problem(what, self.shown, line, path_text(at) or None, found, remedy)

    def placed(self, exc: InputError, at: YamlPath) -> InputError:
        """The same error as one of this file's entry at a path."""
        line, where = self.document.line_of(at), path_text(at)
        return InputError(
            *(replace(p, file=self.shown, line=line, where=where) for p in exc.problems)
        )


def load_registration(path: Path, *, shown: str) -> Loaded:
    """Read and check a registration.

    Parameters
    ----------
    path
        The file.
    shown
        Its name as errors show it.

    Raises
    ------
    InputError
        With every problem: unreadable YAML, ambiguous values, unknown, missing or wrong keys,
        claim ids given twice, placeholders, characters that nobody sees.
    """
    absent = not_a_file(path)  # a pipe would be waited for, a device read for ever
    if absent not in (None, "does not exist"):
        what = f"{absent}: there is no text in it to read"
        raise InputError(Problem(what, shown, remedy="put the registration's text there"))
    try:
        raw = path.read_bytes()
    except OSError as exc:
        what = f"cannot be read: {exc.strerror or exc}"
        raise InputError(Problem(what, shown, remedy="check the path")) from exc
    return read_registration(raw, shown=shown)


def read_registration(raw: bytes, *, shown: str) -> Loaded:
    """Check a registration whose bytes are at hand; otherwise like `load_registration`."""
    document, unreadable = parse(raw, file=shown)
    if not isinstance(document.data, dict):
        what, remedy = "is not a mapping of keys to values", "write `key: value` on each line"
        problem = Problem(what, shown, document.line_of(()), remedy=remedy)
        raise InputError(*unreadable, problem)
    problems = [
        *choices_named(unreadable),
        *_bad_texts(document, shown),
        *_repeated_ids(document, shown),
    ]
    known = {p.where for p in problems}
    model = None
    try:
        model = form_of(document.data).model_validate(document.data)
    except ValidationError as exc:
        errors = exc.errors(include_url=False)
        found = schema_problems(errors, document, shown)
        # A repeated id was said with its line, an unfilled or ambiguous value for what it is.
        problems += [p for p in found if p.where not in known and (p.where or not problems)]
    raise_all(sorted(problems, key=lambda p: p.line or 0))
    assert model is not None  # else there was a problem
    return Loaded(model, document.data, raw, sha256_bytes(raw), document, shown)


def _texts(value: Any, path: YamlPath = ()) -> Iterator[tuple[YamlPath, str]]:
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from _texts(inner, (*path, key))
    elif isinstance(value, list):
        for at, inner in enumerate(value):
            yield from _texts(inner, (*path, at))


def _bad_texts(document: Document, file: str) -> list[Problem]:
    """Texts that are not filled in, or that hold what a reader does not see or takes amiss.

    Names that the items and the judge give are compared with these by the lint, and may hold
    anything; of sentences but the title, the terminal and the pages write out what is odd.
    """
    problems = []
    for path, text in _texts(document.data):
        bad = _bad_text(path, text)
        if bad is not None:
            what, remedy = bad
            line, where = document.line_of(path), path_text(path)
            problems.append(Problem(what, file, line, where, _shown(text), remedy))
    return problems


# Mappings whose keys are names that the registrant gives.
_MAPS_OF_NAMES = ("labellings", "merge", "labels", "words", "values")


def _bad_text(path: YamlPath, text: str) -> tuple[str, str] | None:
    """What is wrong with a text whatever the form says, and what would do."""
    key = path[-1] if path else ""
    if path == ("title",):
        control, hidden = control_character(text), hidden_character(text)
        if control is not None:
            return f"holds the control character {control}", "write visible characters"
        if hidden is not None:
            return f"holds the invisible character {hidden}", "write visible characters"
    given = len(path) > 1 and path[-2] in _MAPS_OF_NAMES  # the registrant's name, not a key of ours
    foreign = foreign_character(text) if key in _OWN_NAMES and not given else None
    if foreign is not None:
        return f"holds {foreign}, which no such name does", "type the name anew, in plain letters"
    if path[:2] == ("protocol", "thinking"):
        mark = opening_placeholder(text)  # <think> is meant
    else:
        mark = mark_in(text) if key in _GIVEN_NAMES else placeholder_in(text)
    if mark is not None:
        what = f"still holds the placeholder {mark}"
        return what, "write what you mean before looking at any result"
    if key in _SENTENCES and _NOTHING.fullmatch(text):
        what = "says nothing" if text.strip() else "is empty"
        return what, "write what you mean before looking at any result"
    return None


def _repeated_ids(document: Document, file: str) -> list[Problem]:
    first: dict[str, str] = {}
    problems = []
    for section in CLAIM_SECTIONS:
        claims = document.data.get(section)
        for at, claim in enumerate(claims if isinstance(claims, list) else []):
            name = claim.get("id") if isinstance(claim, dict) else None
            if not isinstance(name, str):
                continue
            path = (section, at, "id")
            if name in first:
                what = f"this id is taken by {first[name]}"
                line, remedy = document.line_of(path), "give each claim its own id"
                problems.append(Problem(what, file, line, path_text(path), _shown(name), remedy))
            first.setdefault(name, path_text(path[:2]))
    return problems
