"""Marks of labellings as counts: what two of them share on each row, and where types differ.

Works on sets of marks; knows no files and no items.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from prereg_judge.labelled import Confusions, Match
from prereg_judge.labellings.marks import Mark, Place

Marks = Sequence[Sequence[frozenset[Mark] | None]]


@dataclass(frozen=True, eq=False)
class MarkCounts:
    """Counts of n rows with L labellings, as in `Labelled`.

    Attributes
    ----------
    given
        Shape (n, L).
    shared
        For each way to match, shape (n, L, L).
    typed
        Shape (L,).
    confusions
        Where types differ at the same place.
    """

    given: NDArray[np.bool_]
    shared: Mapping[Match, NDArray[np.int64]]
    typed: tuple[bool, ...]
    confusions: Confusions


@dataclass(frozen=True, eq=False)
class _Marked:
    """All marks of all rows, one entry each: labelling, place and type as numbers.

    `row` has one entry for each distinct place of a row; type 0 is none, then `types`.
    """

    n: int
    n_labellings: int
    row: NDArray[np.intp]
    labelling: NDArray[np.intp]
    place: NDArray[np.intp]
    type: NDArray[np.intp]
    types: tuple[str, ...]

    def groups(self, kinds: NDArray[np.intp]) -> _Groups:
        """Distinct pairs of a place and a kind, where each type has a kind."""
        width = int(kinds.max(initial=0)) + 1
        keys, at = np.unique(self.place * width + kinds[self.type], return_inverse=True)
        has = np.zeros((len(keys), self.n_labellings), dtype=np.bool_)
        has[at, self.labelling] = True
        place, kind = np.divmod(keys, width)
        return _Groups(place.astype(np.intp), kind.astype(np.intp), has)


@dataclass(frozen=True, eq=False)
class _Groups:
    """Marks that are the same in one way to match: where, of which kind, in which labellings."""

    place: NDArray[np.intp]
    kind: NDArray[np.intp]
    has: NDArray[np.bool_]


def count_marks(marks: Marks, *, merge: Mapping[str, str] | None) -> MarkCounts:
    """Count what labellings share, row by row.

    Parameters
    ----------
    marks
        For each of n >= 1 rows, the marks of each of L >= 1 labellings, each once; None where it
        is not given.
    merge
        Fine type -> coarse type; None without a map. A type that is no key stays as it is.

    Returns
    -------
    MarkCounts
        `coarse` is there only with a map. A labelling without any mark has types.
    """
    marked = _marked(marks)
    given = np.array([[m is not None for m in row] for row in marks], dtype=np.bool_)
    bare = marked.labelling[marked.type == 0]
    typed = tuple(not missing for missing in np.isin(np.arange(given.shape[1]), bare).tolist())
    same = np.arange(len(marked.types) + 1)
    strict = marked.groups(same)
    shared: dict[Match, NDArray[np.int64]] = {
        "strict": _shared(strict, marked),
        "relaxed": _shared(marked.groups(np.zeros_like(same)), marked),
    }
    coarse = same
    if merge is not None:
        coarse = _coarse(marked.types, merge)
        shared["coarse"] = _shared(marked.groups(coarse), marked)
    confusions = _confusions(strict, marked, typed, coarse)
    return MarkCounts(given, shared, typed, confusions)


def _marked(marks: Marks) -> _Marked:
    names = {mark.type for row in marks for of in row for mark in of or ()}
    types = tuple(sorted(name for name in names if name is not None))
    number: dict[str | None, int] = {None: 0, **{name: at for at, name in enumerate(types, 1)}}
    rows: list[int] = []
    found: list[tuple[int, int, int]] = []
    for at_row, row in enumerate(marks):
        places: dict[Place, int] = {}
        for labelling, of in enumerate(row):
            for place, kind in of or ():
                where = places.get(place)
                if where is None:
                    where = places[place] = len(rows)
                    rows.append(at_row)
                found.append((labelling, where, number[kind]))
    which, where_of, kinds = np.array(found, dtype=np.intp).reshape(-1, 3).T
    n_labellings = len(marks[0])
    row_of = np.array(rows, dtype=np.intp)
    return _Marked(len(marks), n_labellings, row_of, which, where_of, kinds, types)


def _shared(groups: _Groups, marked: _Marked) -> NDArray[np.int64]:
    size = marked.n_labellings
    counts = np.zeros((marked.n, size, size), dtype=np.int64)
    row = marked.row[groups.place]
    for one in range(size):
        for other in range(one, size):
            both = row[groups.has[:, one] & groups.has[:, other]]
            counts[:, one, other] = counts[:, other, one] = np.bincount(both, minlength=marked.n)
    return counts


def _coarse(types: Sequence[str], merge: Mapping[str, str]) -> NDArray[np.intp]:
    """Number of the coarse type of each type, 0 of none, shape (T + 1,)."""
    numbers: dict[str, int] = {}
    names = [merge.get(name, name) for name in types]
    return np.array([0, *(numbers.setdefault(n, len(numbers) + 1) for n in names)], dtype=np.intp)


def _confusions(
    strict: _Groups, marked: _Marked, typed: Sequence[bool], coarse: NDArray[np.intp]
) -> Confusions:
    found = [np.zeros((5, 0), dtype=np.intp)]
    for one, other in combinations(range(marked.n_labellings), 2):
        if not (typed[one] and typed[other]):
            continue
        mine = np.flatnonzero(strict.has[:, one] & ~strict.has[:, other])
        theirs = np.flatnonzero(strict.has[:, other] & ~strict.has[:, one])
        # Places are in order, so that those of `theirs` at each place of `mine` lie in a row.
        place = strict.place[mine]
        start = np.searchsorted(strict.place[theirs], place, side="left")
        size = np.searchsorted(strict.place[theirs], place, side="right") - start
        offset = np.arange(size.sum()) - np.repeat(np.cumsum(size) - size, size)
        against = theirs[np.repeat(start, size) + offset]
        first = np.repeat(mine, size)
        labellings = [np.full(len(first), which) for which in (one, other)]
        kinds = strict.kind[first], strict.kind[against]
        found.append(np.array([marked.row[strict.place[first]], *labellings, *kinds]))
    entries = np.concatenate(found, axis=1)
    row, first, second, first_kind, second_kind = entries[:, np.lexsort(entries[::-1])]
    return Confusions(
        row=row,
        first=first,
        second=second,
        first_type=first_kind - 1,
        second_type=second_kind - 1,
        types=marked.types,
        hidden=coarse[first_kind] == coarse[second_kind],
    )
