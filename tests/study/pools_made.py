"""Made-up tables of votes for the studies of pools."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from prereg_judge.study.metric import Metric, MetricRef
from prereg_judge.study.outcomes import Assumed, Resampling, Resolve, StudyInput, TableInput
from prereg_judge.votes import (
    MISSING,
    SIDES,
    PairKey,
    SlotVerdicts,
    SplitRule,
    VoteCounts,
)

POOLS = ("crowd", "expert")
AB = ("m1", "m2")
RESAMPLING = Resampling(200, 7)

# Votes of one pool on an item, a letter each: a, b or t(ie); of the two pools, crowd first.
Votes = tuple[str, str]


def votes(
    items: Sequence[Votes],
    *,
    models: Sequence[tuple[str, str]] | None = None,
    gaps: Sequence[float] | None = None,
    strata: Sequence[str | None] = (),
) -> VoteCounts:
    """A table of pairs; every item is one of m1 and m2 unless models are given."""
    counts = [[[pool.count(side[0]) for side in SIDES] for pool in item] for item in items]
    return VoteCounts(
        items=tuple(f"i{at}" for at in range(len(items))),
        pools=POOLS,
        labels=SIDES,
        counts=np.array(counts, dtype=np.int64).reshape(len(items), 2, 3),
        models=tuple(models) if models is not None else (AB,) * len(items),
        strata=tuple(strata),
        gaps=None if gaps is None else np.array(gaps, dtype=np.float64),
    )


# Model a, model b, votes of pool 1 and of pool 2.
Game = tuple[str, str, str, str]

GAMES: list[Game] = [
    ("x", "y", "a", "a"),
    ("x", "y", "a", "b"),
    ("y", "x", "b", "b"),
    ("y", "z", "a", "t"),
    ("z", "y", "b", "b"),
    ("x", "z", "a", "a"),
    ("x", "z", "t", "a"),
    ("z", "x", "a", "b"),
]


def board_votes(games: Sequence[Game]) -> VoteCounts:
    """A table with one item a game."""
    items: list[Votes] = [(one, two) for *_, one, two in games]
    return votes(items, models=[(a, b) for a, b, *_ in games])


def study_input(
    table: TableInput, *, resampling: Resampling | None = None, resolve: Resolve | None = None
) -> StudyInput:
    """What a study of tables gets: no items, no calls."""
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
        resolve=resolve,
        resampling=resampling,
        table=table,
    )


def made(
    counts: VoteCounts,
    *,
    other: VoteCounts | None = None,
    split: SplitRule = "tie",
    resampling: Resampling | None = RESAMPLING,
    judges: dict[str, tuple[str, str]] | None = None,
    resolve: Resolve | None = "agree_or_tie",
    assumed: Assumed | None = None,
) -> StudyInput:
    """A study's input under the key `stored`; judges by their verdicts in ab and ba, `.` = none."""
    both: dict[PairKey, VoteCounts] = {"stored": counts, "unordered": other or counts}
    slots = {
        name: {
            key: SlotVerdicts(name, table.items, sides_of(ab), sides_of(ba))
            for key, table in both.items()
            if len(table.items) == len(ab)
        }
        for name, (ab, ba) in (judges or {}).items()
    }
    pools = (counts.pools[0], counts.pools[1])
    table = TableInput(both, "stored", pools, split, slots, assumed)
    return study_input(table, resampling=resampling, resolve=resolve)


def sides_of(letters: str) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Sides of verdicts written as letters: a, b, t(ie), `.` for none."""
    side = {"a": 1, "b": -1, "t": 0, ".": MISSING}
    return np.array([side[x] for x in letters], dtype=np.int64)


def get(study: Any, data: StudyInput, name: str, **params: object) -> Metric:
    """One metric of a study."""
    ref = MetricRef.of(name, **params)
    found: Metric = study.compute(data, [ref])[ref]
    return found


def ratio(
    study: Any, data: StudyInput, name: str, **params: object
) -> tuple[int | None, int | None]:
    """Numerator and denominator of a metric that has a value."""
    found = get(study, data, name, **params)
    assert found.undefined is None, found.undefined
    return found.k, found.n


# Parts of second implementations, in plain loops.


def winner(pool: str) -> str:
    """A pool's majority label, `t` for an equal split."""
    top = max(pool.count(x) for x in "abt")
    named = [x for x in "abt" if pool.count(x) == top]
    return named[0] if len(named) == 1 else "t"


def limits(values: Sequence[float]) -> tuple[float, float] | None:
    """Percentile limits over the defined values, as the studies give them."""
    defined = [x for x in values if x == x]
    if len(defined) < 0.95 * len(values) or max(defined) == min(defined):
        return None
    low, high = np.quantile(defined, [0.025, 0.975])
    return float(low), float(high)


def check_interval(found: Metric, expected: tuple[float, float] | None) -> None:
    """The interval of a metric is the expected one, or a Wilson one where that collapses."""
    if expected is not None and "noise of both boards" in (found.note or ""):
        assert found.interval is None  # resampling would add the noise a second time
    elif expected is not None:
        assert found.interval is not None
        if "widened" in found.interval.method:
            assert found.interval.low <= expected[0] + 1e-9
            assert found.interval.high >= expected[1] - 1e-9
            return
        assert (found.interval.low, found.interval.high) == pytest.approx(expected, abs=1e-9)
    elif found.interval is not None:
        assert found.interval.method.startswith("wilson on")
