"""Complaints about a registration, in words that say what would mend it.

The wording is `complaints`, which knows no registration; here is the form it is told.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from pydantic_core import ErrorDetails

from prereg_judge.complaints import Shape, form_problems
from prereg_judge.errors import Problem
from prereg_judge.registration.schema import registration_json_schema
from prereg_judge.strict_yaml import Document


@lru_cache(maxsize=1)
def _shape() -> Shape:
    return Shape(registration_json_schema())


def schema_problems(errors: Iterable[ErrorDetails], document: Document, file: str) -> list[Problem]:
    """One problem for each place that pydantic complains about, in the order of the file.

    `errors` are `ValidationError.errors()` of a `Registration`; `document` and `file` are what
    was validated and its name as errors show it.
    """
    return form_problems(errors, document, file, shape=_shape())
