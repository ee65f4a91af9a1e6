"""The registered map of fine types to coarse ones, checked against the types that occur.

Knows types as names only: of spans, or labels.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from prereg_judge.annotation_form import near
from prereg_judge.canon import nfc
from prereg_judge.errors import Problem, raise_all
from prereg_judge.wording import capped, quoted


def checked_merge(
    merge: Mapping[str, str], known: Collection[str], *, of: str, file: str
) -> dict[str, str]:
    """A map as it is used: keys and values in one form of Unicode, each key known.

    Parameters
    ----------
    merge
        Fine -> coarse. A type that is no key stays as it is.
    known
        The types that there are.
    of
        What they are called in messages: `type`, `label`.
    file
        Where they stand, as messages should give it.

    Raises
    ------
    InputError
        For keys that are no type, which would merge nothing and be a slip; and for values that
        are merged further, since a type has one coarse type.
    """
    found = {nfc(fine): nfc(coarse) for fine, coarse in merge.items()}
    problems: list[Problem] = []
    for fine, coarse in found.items():
        where = f"merge.{fine}"
        if fine not in known:
            remedy = near(fine, sorted(known)) if known else f"there is no {of} to merge"
            what = f"is no {of} in these files"
            problems.append(Problem(what, file, where=where, found=quoted(fine), remedy=remedy))
        further = found.get(coarse, coarse)
        if further != coarse:
            remedy = f"write {fine}: {further}"
            what = f"leads to {coarse!r}, which leads to {further!r}"
            problems.append(Problem(what, file, where=where, found=quoted(coarse), remedy=remedy))
    raise_all(capped(problems))
    return found
