"""Made-up ratings and spans for the study of annotators."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations

import numpy as np

from prereg_judge.labelled import Confusions, Labelled, Match
from prereg_judge.ratings import Ratings
from prereg_judge.study import annotators
from prereg_judge.study.metric import Metric, MetricRef
from prereg_judge.study.outcomes import AnnotatorsInput, Resampling, StudyInput
from prereg_judge.votes import SplitRule

RESAMPLING = Resampling(200, 7)


def rated(
    rows: Sequence[str],
    *,
    pools: Mapping[str, Sequence[int]] | None = None,
    labels: Sequence[str] | None = None,
    strata: Sequence[str | None] | None = None,
    ordered: bool = False,
    values: Sequence[float] | None = None,
    coarse: Mapping[str, str] | None = None,
    adjudicated: str | None = None,
) -> Ratings:
    """Ratings from one text an item, a letter an annotator, `.` for none; labels are letters.

    `pools` says which columns are whose; one pool `all` of every column where it is not given.
    """
    width = max((len(row) for row in rows), default=0)
    of_pools = pools or {"all": range(width)}
    pool_of = {column: at for at, columns in enumerate(of_pools.values()) for column in columns}
    names = tuple(labels or sorted({x for row in rows for x in row if x != "."}))
    entries = [
        (item, column, pool_of[column], names.index(label))
        for item, row in enumerate(rows)
        for column, label in enumerate(row)
        if label != "."
    ]
    at = np.array(entries, dtype=np.intp).reshape(-1, 4)
    given = None
    if adjudicated is not None:
        given = np.array([-1 if x == "." else names.index(x) for x in adjudicated], dtype=np.intp)
    return Ratings(
        items=tuple(f"i{n}" for n in range(len(rows))),
        strata=tuple(strata) if strata is not None else (None,) * len(rows),
        annotators=tuple(f"n{n}" for n in range(width)),
        pools=tuple(of_pools),
        labels=names,
        item=at[:, 0],
        annotator=at[:, 1],
        pool=at[:, 2],
        label=at[:, 3],
        ordered=ordered,
        values=None if values is None else np.array(values, dtype=np.float64),
        coarse=None if coarse is None else tuple(coarse.get(name, name) for name in names),
        adjudicated=given,
    )


def asked(
    ratings: Ratings,
    *,
    resampling: Resampling | None = RESAMPLING,
    split: SplitRule = "exclude",
) -> StudyInput:
    """The study's input for ratings."""
    return _input(AnnotatorsInput(ratings=ratings, split=split), resampling)


def _input(data: AnnotatorsInput, resampling: Resampling | None) -> StudyInput:
    """A study's input without anything else."""
    return StudyInput(
        items=(),
        outcomes={},
        calls=(),
        verdicts=(),
        ships=None,
        passes=1,
        orders=("ab",),
        missing="disagree",
        decoding="sampled",
        earlier={},
        resampling=resampling,
        annotators=data,
    )


# Start, end, type.
Span = tuple[int, int, str]
Marked = Mapping[str, Sequence[Span] | None]


def labelled(
    rows: Sequence[Marked],
    *,
    names: Sequence[str],
    units: Sequence[int] | None = None,
    strata: Sequence[str | None] | None = None,
    coarse: Mapping[str, str] | None = None,
    untyped: Sequence[str] = (),
) -> Labelled:
    """Rows of spans, a set of them for each labelling, None or absent for not given."""

    def marks(row: Marked, name: str, match: Match) -> set[tuple[object, ...]]:
        spans = row.get(name) or ()
        if match == "relaxed":
            return {(a, b) for a, b, _ in spans}
        merge = coarse or {}
        return {(a, b, merge.get(t, t) if match == "coarse" else t) for a, b, t in spans}

    matches: list[Match] = ["strict", "relaxed", *(["coarse"] if coarse is not None else [])]  # type: ignore[list-item]
    shared = {
        match: np.array(
            [
                [[len(marks(r, a, match) & marks(r, b, match)) for b in names] for a in names]
                for r in rows
            ],
            dtype=np.int64,
        ).reshape(len(rows), len(names), len(names))
        for match in matches
    }
    unit = np.array(units if units is not None else range(len(rows)), dtype=np.intp)
    every = np.ones(len(rows), dtype=np.bool_)
    first = np.array([list(unit).index(u) == at for at, u in enumerate(unit)], dtype=np.bool_)
    return Labelled(
        form="spans",
        names=tuple(names),
        items=tuple(f"i{u}" for u in unit),
        unit=unit,
        strata=tuple(strata) if strata is not None else (None,) * len(rows),
        given=np.array([[r.get(n) is not None for n in names] for r in rows], dtype=np.bool_),
        shared=shared,
        typed=tuple(n not in untyped for n in names),
        kept={"keep_all": every, "first": first, "drop": every, "merge_equal": every},
        confusions=_confusions(rows, names, coarse or {}),
    )


def _confusions(
    rows: Sequence[Marked], names: Sequence[str], coarse: Mapping[str, str]
) -> Confusions:
    """Types that differ at the same place, from sets."""
    types = sorted({t for r in rows for n in names for *_, t in (r.get(n) or ())})
    found = []
    for at, row in enumerate(rows):
        for a, b in combinations(range(len(names)), 2):
            one, two = set(row.get(names[a]) or ()), set(row.get(names[b]) or ())
            found += [
                (at, a, b, types.index(x[2]), types.index(y[2]))
                for x in sorted(one - two)
                for y in sorted(two - one)
                if x[:2] == y[:2]
            ]
    table = np.array(found, dtype=np.intp).reshape(-1, 5)
    hidden = [
        coarse.get(types[x], types[x]) == coarse.get(types[y], types[y]) for *_, x, y in found
    ]
    at_row, first, second, one_type, other_type = table.T
    flags = np.array(hidden, dtype=np.bool_)
    return Confusions(at_row, first, second, one_type, other_type, tuple(types), flags)


def marked(
    data: Labelled,
    *,
    pools: Mapping[str, tuple[str, ...]] | None = None,
    resampling: Resampling | None = RESAMPLING,
    duplicates: str = "keep_all",
) -> StudyInput:
    """The study's input for spans; one pool `all` of every labelling where none is given."""
    found = AnnotatorsInput(
        labelled=data,
        pools=pools or {"all": data.names},
        duplicates="first" if duplicates == "first" else "keep_all",
    )
    return _input(found, resampling)


def get(data: StudyInput, name: str, **params: object) -> Metric:
    """One metric of the study."""
    ref = MetricRef.of(name, **params)
    return annotators.compute(data, [ref])[ref]


def value(data: StudyInput, name: str, **params: object) -> float:
    """The value of a metric that has one."""
    found = get(data, name, **params)
    assert found.value is not None, (found.undefined, found.note)
    return found.value
