"""Votes put into pools: which annotator belongs to which, and what contradicts itself.

Does not know how the rows were laid out, nor what is counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from prereg_judge.annotation_layouts import RawVote
from prereg_judge.canon import nfc
from prereg_judge.errors import Problem, raise_all
from prereg_judge.wording import capped, listed, quoted


@dataclass(frozen=True)
class Vote:
    """One annotator's vote on one item.

    Attributes
    ----------
    item
        What was rated, with every part of its key but the models (question and turn).
    left, right
        Models of answer a and answer b as stored; None where the items are no pairs of models'.
    annotator, pool
        Who voted, and for which pool.
    label
        `a`, `b` or `tie` on pairs; else the label as it stands in the file.
    stratum, gap
        Of the item; None where the table gives none. A gap is finite and >= 0.
    line
        Line or row number in the file, counted from 1.
    """

    item: str
    left: str | None
    right: str | None
    annotator: str
    pool: str
    label: str
    stratum: str | None
    gap: float | None
    line: int


def pooled(
    votes: Sequence[RawVote], *, pools: Mapping[str, Sequence[str]], shown: str
) -> tuple[Vote, ...]:
    """The votes of annotators who belong to a pool, in their order.

    Parameters
    ----------
    votes
        As the file has them.
    pools
        Name of each pool -> patterns, as in `TableForm.pools`.
    shown
        The file's name as messages should give it.

    Raises
    ------
    InputError
        For patterns that match nobody or overlap, an annotator in two pools or with two votes on
        a stored item, and a stratum or gap that differs between votes on the same two answers.
    """
    pool_of = _pool_of(votes, pools, shown)
    found = tuple(
        Vote(v.item, v.left, v.right, v.annotator, pool, v.label, v.stratum, v.gap, v.line)
        for v in votes
        if (pool := pool_of[v.group]) is not None
    )
    _refuse_contradictions(found, shown)
    return found


def _pool_of(
    votes: Iterable[RawVote], pools: Mapping[str, Sequence[str]], shown: str
) -> dict[str, str | None]:
    """The pool of each group of the file; None for those of none."""
    first: dict[str, int] = {}
    for vote in votes:
        first.setdefault(vote.group, vote.line)
    problems: list[Problem] = []
    found: dict[str, list[str]] = {group: [] for group in first}
    for pool, patterns in pools.items():
        for pattern in patterns:
            matched = [group for group in first if fnmatchcase(group, nfc(pattern))]
            if not matched:
                names = listed(sorted(first), most=8)
                remedy = f"there are {names}; upper and lower case differ"
                where = f"pools.{pool}"
                what = "the pattern matches no annotator"
                problems.append(Problem(what, shown, None, where, quoted(pattern), remedy))
            for group in matched:
                found[group] += [pool] * (pool not in found[group])
    for group, several in found.items():
        if len(several) > 1:
            what = f"belongs to the pools {' and '.join(several)}"
            remedy = "write patterns of which each annotator matches those of one pool"
            problems.append(Problem(what, shown, first[group], found=quoted(group), remedy=remedy))
    raise_all(capped(problems))
    return {group: pools[0] if pools else None for group, pools in found.items()}


def _refuse_contradictions(votes: Iterable[Vote], shown: str) -> None:
    problems: list[Problem] = []
    lines: dict[tuple[str, ...], int] = {}
    homes: dict[str, Vote] = {}
    told: dict[tuple[str, ...], Vote] = {}
    for vote in votes:
        stored = (vote.item, vote.left or "", vote.right or "")
        line = lines.get((*stored, vote.annotator))
        if line is not None:
            what = f"has voted on the item {vote.item!r} before, on line {line}"
            remedy = "keep one of the two votes"
            found = quoted(vote.annotator)
            problems.append(Problem(what, shown, vote.line, "annotator", found, remedy))
        lines[(*stored, vote.annotator)] = vote.line
        home = homes.setdefault(vote.annotator, vote)
        if home.pool != vote.pool:
            what = f"is of the pool {home.pool} on line {home.line} and of {vote.pool} here"
            remedy = "an annotator has one pool; tell two persons apart by their names"
            found = quoted(vote.annotator)
            problems.append(Problem(what, shown, vote.line, "annotator", found, remedy))
        one = told.setdefault((vote.item, *sorted(stored[1:])), vote)
        for name in ("stratum", "gap"):
            before, here = getattr(one, name), getattr(vote, name)
            if before != here:
                what = f"the item {vote.item!r} has {quoted(before)} on line {one.line}"
                remedy = f"give all rows of an item the same {name}"
                problems.append(Problem(what, shown, vote.line, name, quoted(here), remedy))
    raise_all(capped(problems))
