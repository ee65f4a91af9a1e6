"""Made-up labellings for study `reference-swap`, built from plain sets of marks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from prereg_judge.labelled import Confusions, Duplicates, Labelled, MarkForm, Match
from prereg_judge.study.metric import Metric, MetricRef
from prereg_judge.study.outcomes import Resampling, StudyInput, SwapInput
from prereg_judge.study.reference_swap import compute

# A mark: where it begins, where it ends, and its type where it has one.
Mark = tuple[int, int, str | None]
Marks = frozenset[Mark]

NAMES = ("A", "B", "gold", "C")
OUTPUTS = ("A", "B")
REFERENCES = ("gold", "C")
RESAMPLING = Resampling(200, 7)


@dataclass(frozen=True)
class Row:
    """A row: the item that it is a row of, its stratum, and the marks of each labelling."""

    item: str
    marks: Mapping[str, Marks | None]
    stratum: str | None = None


def keyed(mark: Mark, match: Match, merge: Mapping[str, str] | None) -> object:
    """What two marks must have in common to be the same."""
    start, end, kind = mark
    if match == "relaxed":
        return start, end
    if match == "strict":
        return mark
    assert merge is not None
    return start, end, None if kind is None else merge.get(kind, kind)


def said(row: Row, name: str, match: Match, merge: Mapping[str, str] | None) -> set[object]:
    """The different marks of a labelling on a row; none where it is not given."""
    return {keyed(mark, match, merge) for mark in row.marks.get(name) or ()}


def labelled(
    rows: Sequence[Row],
    *,
    names: Sequence[str] = NAMES,
    form: MarkForm = "spans",
    merge: Mapping[str, str] | None = None,
) -> Labelled:
    """The counts of rows, one row and one pair of labellings at a time."""
    matches: tuple[Match, ...] = ("strict", "relaxed")
    if merge is not None:
        matches = (*matches, "coarse")
    shared = {
        match: np.array(
            [
                [
                    [len(said(r, x, match, merge) & said(r, y, match, merge)) for y in names]
                    for x in names
                ]
                for r in rows
            ],
            dtype=np.int64,
        ).reshape(len(rows), len(names), len(names))
        for match in matches
    }
    numbers: dict[str, int] = {}
    unit = [numbers.setdefault(row.item, len(numbers)) for row in rows]
    given = [[row.marks.get(name) is not None for name in names] for row in rows]
    bare = [any(m[2] is None for r in rows for m in r.marks.get(x) or ()) for x in names]
    return Labelled(
        form=form,
        names=tuple(names),
        items=tuple(row.item for row in rows),
        unit=np.array(unit, dtype=np.intp),
        strata=tuple(row.stratum for row in rows),
        given=np.array(given, dtype=np.bool_).reshape(len(rows), len(names)),
        shared=shared,
        typed=tuple(not b for b in bare),
        kept=kept_of(rows, names),
        confusions=confusions_of(rows, names, merge),
    )


def kept_of(rows: Sequence[Row], names: Sequence[str]) -> dict[Duplicates, NDArray[np.bool_]]:
    """The rows that count under each policy, found by comparing each row with those before."""
    items = [row.item for row in rows]
    alike = [tuple(row.marks.get(name) for name in names) for row in rows]
    kept: dict[Duplicates, list[bool]] = {
        "keep_all": [True] * len(rows),
        "first": [item not in items[:at] for at, item in enumerate(items)],
        "drop": [items.count(item) == 1 for item in items],
        "merge_equal": [
            all(items[b] != items[at] or alike[b] != alike[at] for b in range(at))
            for at in range(len(rows))
        ],
    }
    return {policy: np.array(told, dtype=np.bool_) for policy, told in kept.items()}


def confusions_of(
    rows: Sequence[Row], names: Sequence[str], merge: Mapping[str, str] | None
) -> Confusions:
    """Types that differ at the same place."""
    kinds = {m[2] for row in rows for of in row.marks.values() for m in of or ()}
    types = sorted(kind for kind in kinds if kind is not None)
    found: list[tuple[int, int, int, int, int, bool]] = []
    for at, row in enumerate(rows):
        for x, y in combinations(range(len(names)), 2):
            mine, theirs = (row.marks.get(names[k]) or frozenset() for k in (x, y))
            for one in sorted(mine - theirs, key=str):
                for two in sorted(theirs - mine, key=str):
                    if one[:2] != two[:2] or one[2] is None or two[2] is None:
                        continue
                    hidden = merge is not None and (
                        merge.get(one[2], one[2]) == merge.get(two[2], two[2])
                    )
                    found.append((at, x, y, types.index(one[2]), types.index(two[2]), hidden))
    columns = np.array([f[:5] for f in found], dtype=np.intp).reshape(-1, 5).T
    hidden_of = np.array([f[5] for f in found], dtype=np.bool_)
    row_of, first, second, first_type, second_type = columns
    return Confusions(row_of, first, second, first_type, second_type, tuple(types), hidden_of)


def study(
    of: Labelled,
    *,
    outputs: Sequence[str] = OUTPUTS,
    references: Sequence[str] = REFERENCES,
    match: Match = "relaxed",
    duplicates: Duplicates = "keep_all",
    family: Iterable[MetricRef] = (),
    resampling: Resampling | None = RESAMPLING,
) -> StudyInput:
    """What the study is given."""
    swap = SwapInput(of, tuple(outputs), tuple(references), match, duplicates, tuple(family))
    return StudyInput(
        items=(),
        outcomes={},
        calls=(),
        verdicts=(),
        ships=None,
        passes=1,
        orders=("ab",),
        missing="undefined",
        decoding="greedy",
        earlier={},
        resampling=resampling,
        swap=swap,
    )


def one(data: StudyInput, name: str, **params: object) -> Metric:
    """One metric of a study."""
    ref = MetricRef.of(name, **params)
    return compute(data, [ref])[ref]


def random_rows(
    n: int,
    *,
    seed: int,
    strata: Sequence[str | None] = (None,),
    copies: float = 0.0,
    types: Sequence[str | None] = ("x", "y", "z"),
    missing: float = 0.0,
    names: Sequence[str] = NAMES,
) -> list[Row]:
    """Rows of up to three marks at six places; some repeat the item of the row before."""
    generator = np.random.default_rng(seed)
    rows: list[Row] = []
    for at in range(n):
        marks: dict[str, Marks | None] = {}
        for name in names:
            if generator.random() < missing:
                marks[name] = None
                continue
            starts = generator.integers(6, size=generator.integers(4)).tolist()
            marks[name] = frozenset(
                (s, s + 2, types[int(generator.integers(len(types)))]) for s in starts
            )
        stratum = strata[int(generator.integers(len(strata)))]
        item = f"i{at}"
        if rows and generator.random() < copies:
            item, stratum = rows[-1].item, rows[-1].stratum
            marks = dict(rows[-1].marks) if generator.random() < 0.5 else marks
        rows.append(Row(item, marks, stratum))
    return rows


def noisy(truth: Marks, generator: np.random.Generator, *, keep: float = 0.7) -> Marks:
    """A labelling of its own: each true mark with some probability, and now and then another."""
    kept = [mark for mark in sorted(truth, key=str) if generator.random() < keep]
    if generator.random() < 0.3:
        start = int(generator.integers(20, 40))
        kept.append((start, start + 3, "x"))
    return frozenset(kept)


def planted(n: int, *, seed: int, copied: float = 0.0, strata: int = 1) -> list[Row]:
    """Four equally good labellings of the same truth; gold is a copy of A on a share of rows."""
    generator = np.random.default_rng(seed)
    rows = []
    for at in range(n):
        starts = generator.choice(6, size=int(generator.integers(1, 4)), replace=False).tolist()
        truth = frozenset((3 * s, 3 * s + 2, "x") for s in starts)
        marks: dict[str, Marks | None] = {name: noisy(truth, generator) for name in NAMES}
        if generator.random() < copied:
            marks["gold"] = marks["A"]
        rows.append(Row(f"i{at}", marks, f"s{at % strata}"))
    return rows


def spans(*starts: int, kind: str | None = "x") -> Marks:
    """Marks of two characters at these places."""
    return frozenset((s, s + 2, kind) for s in starts)


def row(item: str, a: Marks | None, b: Marks | None, gold: Marks | None, c: Marks | None,
        stratum: str | None = None) -> Row:  # fmt: skip
    """A row of the usual four labellings."""
    return Row(item, {"A": a, "B": b, "gold": gold, "C": c}, stratum)
