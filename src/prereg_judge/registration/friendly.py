"""Complaints about a registration, in words that say what would mend it.

The wording is `complaints`, which knows no registration; here is the form it is told.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from functools import cache

from pydantic_core import ErrorDetails

from prereg_judge.complaints import Shape, form_problems
from prereg_judge.errors import Problem
from prereg_judge.registration.schema import Registration
from prereg_judge.registration.schema_forms import form_of, registration_json_schema
from prereg_judge.strict_yaml import Document, YamlPath

_PART = re.compile(r"\[(\d+)\]|([^.\[\]]+)")


@cache
def _shape() -> Shape:
    return Shape(registration_json_schema())


@cache
def _shape_of(form: type[Registration]) -> Shape:
    return Shape(form.model_json_schema(by_alias=True))


def schema_problems(errors: Iterable[ErrorDetails], document: Document, file: str) -> list[Problem]:
    """One problem for each place that pydantic complains about, in the order of the file.

    `errors` are `ValidationError.errors()` of a `Registration`; `document` and `file` are what
    was validated and its name as errors show it.
    """
    return form_problems(errors, document, file, shape=_shape_of(form_of(document.data)))


def choices_named(problems: Iterable[Problem]) -> list[Problem]:
    """What the reader of YAML refused: where one of a few words is due, the remedy names them."""
    told = []
    for problem in problems:
        words = _shape().choices(_path(problem.where or ""))
        ambiguous = problem.what.startswith("is ambiguous")
        if ambiguous and len(words) > 1:
            remedy = f"write {', '.join(words[:-1])} or {words[-1]}"
            told.append(replace(problem, remedy=remedy))
        else:
            told.append(problem)
    return told


def _path(where: str) -> YamlPath:
    """`bands[0].between` as a path; the keys of this form hold neither dot nor bracket."""
    return tuple(int(at) if at else key for at, key in _PART.findall(where))
