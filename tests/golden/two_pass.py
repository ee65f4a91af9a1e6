"""The two-pass fixture: plain verdicts with the margins published in *Measuring an automated
annotator*, made row by row without chance.

Sentinel 72 = 48 punctuation + 18 numeral + 6 synonym; no row carries signal, so every known
label is DROP and every KEEP is wrong. The published text gives margins only; how flips are
spread over the kinds beyond agreement by kind is this fixture's choice.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from prereg_judge.study.outcomes import (
    CallView,
    EarlierRun,
    ItemView,
    Outcome,
    StudyInput,
    TrialKey,
)
from prereg_judge.words import DecodingMode, Missing, SetRole

KEEP, DROP = "KEEP", "DROP"
VERDICTS = (DROP, KEEP)


class FixtureRow(NamedTuple):
    """One item with its verdict in either pass of the unseeded run."""

    set: SetRole
    id: str
    kind: str | None
    label: str | None
    content: str
    first: str
    second: str


# (kind, first pass, second pass, rows).
_SENTINEL: tuple[tuple[str, str, str, int], ...] = (
    ("punctuation", KEEP, KEEP, 4),
    ("punctuation", KEEP, DROP, 9),
    ("punctuation", DROP, KEEP, 7),
    ("punctuation", DROP, DROP, 28),
    ("numeral", KEEP, KEEP, 1),
    ("numeral", KEEP, DROP, 2),
    ("numeral", DROP, KEEP, 1),
    ("numeral", DROP, DROP, 14),
    ("synonym", DROP, KEEP, 1),
    ("synonym", DROP, DROP, 5),
)
_REAL: tuple[tuple[str, str, int], ...] = (
    (KEEP, KEEP, 46),
    (KEEP, DROP, 8),
    (DROP, KEEP, 14),
    (DROP, DROP, 120),
)


def sentinel_rows() -> list[FixtureRow]:
    """The 72 sentinel rows: 16 KEEP first, of which 11 change; 56 DROP first, 9 change."""
    rows: list[FixtureRow] = []
    for kind, first, second, count in _SENTINEL:
        for _ in range(count):
            number = len(rows) + 1
            rows.append(
                FixtureRow(
                    "sentinel", f"s{number:02}", kind, DROP, f"sentinel-{number}", first, second
                )
            )
    return rows


def real_rows() -> list[FixtureRow]:
    """The 188 real rows: 14 go from DROP to KEEP and 8 from KEEP to DROP; no known label."""
    rows: list[FixtureRow] = []
    for first, second, count in _REAL:
        for _ in range(count):
            number = len(rows) + 1
            rows.append(
                FixtureRow("real", f"r{number:03}", None, None, f"real-{number}", first, second)
            )
    return rows


def _chosen(rows: Iterable[FixtureRow], counts: Mapping[tuple[str, str], int]) -> set[str]:
    """The first `counts[first, second]` rows of each pair of verdicts."""
    left = dict(counts)
    chosen = set()
    for row in rows:
        pair = (row.first, row.second)
        if left.get(pair, 0) > 0:
            left[pair] -= 1
            chosen.add(row.id)
    assert not any(left.values())
    return chosen


def earlier_verdicts() -> dict[str, str]:
    """The earlier single pass: 19 KEEP, of which 3 are kept in both passes and 12 in neither."""
    kept = _chosen(
        sentinel_rows(), {(KEEP, KEEP): 3, (KEEP, DROP): 2, (DROP, KEEP): 2, (DROP, DROP): 12}
    )
    return {row.id: KEEP if row.id in kept else DROP for row in sentinel_rows()}


def seeded_verdicts() -> dict[str, str]:
    """Either pass of the seeded pair: 8 wrong keeps, 3 of them among the 25 ever kept unseeded.

    Five are rows that both unseeded passes dropped; the five rows that both kept are dropped.
    """
    kept = _chosen(sentinel_rows(), {(KEEP, DROP): 2, (DROP, KEEP): 1, (DROP, DROP): 5})
    return {row.id: KEEP if row.id in kept else DROP for row in sentinel_rows()}


def seeded_rows() -> list[FixtureRow]:
    """The sentinel rows with the seeded pair's verdicts, the same in both passes."""
    said = seeded_verdicts()
    return [row._replace(first=said[row.id], second=said[row.id]) for row in sentinel_rows()]


def earlier_run(name: str, verdicts: Mapping[str, str]) -> EarlierRun:
    """A single-pass run of the sentinel rows, as a point of comparison."""
    return EarlierRun(name, 1, {("sentinel", item, 1): said for item, said in verdicts.items()})


def study_input(
    rows: Sequence[FixtureRow],
    *,
    decoding: DecodingMode = "sampled",
    missing: Missing = "disagree",
    earlier: Sequence[EarlierRun] = (),
) -> StudyInput:
    """The rows as a study sees them: one call of one second for every trial."""
    keys = {
        TrialKey(row.set, row.id, "ab", number): verdict
        for number in (1, 2)
        for row in rows
        for verdict in [row.first if number == 1 else row.second]
    }
    return StudyInput(
        items=tuple(ItemView(r.set, r.id, r.content, r.label, r.kind) for r in rows),
        outcomes={key: Outcome(verdict, None, 1) for key, verdict in keys.items()},
        calls=tuple(CallView(key, 1, None, 1.0) for key in keys),
        verdicts=VERDICTS,
        ships=KEEP,
        passes=2,
        orders=("ab",),
        missing=missing,
        decoding=decoding,
        earlier={run.name: run for run in earlier},
    )
