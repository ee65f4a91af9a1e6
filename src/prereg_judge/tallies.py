"""Votes of a table as counts; quality gaps made of them; samples of the items.

Knows how votes on the same item add up; does not know files, nor what the counts mean.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from prereg_judge.annotation_pools import Vote
from prereg_judge.annotations import AnnotationTable, KeyedItem, keyed_items
from prereg_judge.errors import InputError, Problem
from prereg_judge.stats.tertiles import tertiles
from prereg_judge.votes import OTHER_SIDE, PairKey, VoteCounts


def tally(table: AnnotationTable, *, key: PairKey, pools: tuple[str, str]) -> VoteCounts:
    """Count the votes of two pools by item and label.

    Parameters
    ----------
    table
        The votes.
    key
        `stored`: pairs stored the other way round are other items. `unordered`: they are the same
        item; votes on pairs whose first model's name comes second are exchanged. An annotator who
        judged a pair both ways round then has two votes on it (`voted_twice` counts them).
        Without models, both keys give the same.
    pools
        Names of two of the table's pools, in the order of the counts.

    Returns
    -------
    VoteCounts
        Of every item with a vote of either pool, in order of first appearance.
    """
    keyed = keyed_items(table, key=key)
    rows: dict[str, tuple[int, KeyedItem, Vote]] = {}
    cells: list[tuple[int, int, int]] = []
    columns = {label: at for at, label in enumerate(table.labels)}
    for vote in table.votes:
        if vote.pool not in pools:
            continue
        item = keyed[table.stored_name(vote)]
        row, *_ = rows.setdefault(item.name, (len(rows), item, vote))
        label = OTHER_SIDE[vote.label] if item.exchanged else vote.label
        cells.append((row, pools.index(vote.pool), columns[label]))
    counts = np.zeros((len(rows), len(pools), len(columns)), dtype=np.int64)
    np.add.at(counts, tuple(np.array(cells, dtype=np.intp).reshape(-1, 3).T), 1)
    models = tuple(item.models for _, item, _ in rows.values() if item.models is not None)
    gaps = [vote.gap for *_, vote in rows.values() if vote.gap is not None]
    return VoteCounts(
        items=tuple(rows),
        pools=pools,
        labels=table.labels,
        counts=counts,
        models=models or None,
        strata=tuple(vote.stratum for *_, vote in rows.values()),
        gaps=np.array(gaps, dtype=np.float64) if gaps else None,
    )


def voted_twice(table: AnnotationTable, *, key: PairKey, pools: tuple[str, str]) -> int:
    """How many votes of two pools are an annotator's second on the same item, under a key.

    None under `stored`; under `unordered` those on a pair already judged the other way round.
    """
    keyed = keyed_items(table, key=key)
    votes = [
        (vote.annotator, keyed[table.stored_name(vote)].name)
        for vote in table.votes
        if vote.pool in pools
    ]
    return len(votes) - len(set(votes))


def credit_gaps(counts: VoteCounts) -> NDArray[np.float64]:
    """How far apart the two models of each item are in mean credit over all votes.

    A vote gives 1 to the better answer's model and 0 to the other, a tie one half to each. The
    mean is over a model's votes from both pools, so the counts should be those of the whole
    table, before any sampling.

    Parameters
    ----------
    counts
        Votes on pairs of models.

    Returns
    -------
    Array of shape (n,), in [0, 1].

    Raises
    ------
    ValueError
        For items without models, or labels without sides.
    """
    if counts.models is None or not counts.sided:
        raise ValueError("mean credit needs votes on pairs of models")
    names = sorted({name for pair in counts.models for name in pair})
    at = {name: number for number, name in enumerate(names)}
    pairs = np.array([[at[a], at[b]] for a, b in counts.models], dtype=np.intp).reshape(-1, 2)
    a, b, tie = counts.counts.sum(axis=1).T.astype(np.float64)
    votes = a + b + tie
    credit, total = np.zeros(len(names)), np.zeros(len(names))
    for side, won in enumerate((a, b)):
        np.add.at(credit, pairs[:, side], won + tie / 2)
        np.add.at(total, pairs[:, side], votes)
    mean = credit / total  # every named model has an item, and every item a vote
    gaps: NDArray[np.float64] = np.abs(mean[pairs[:, 0]] - mean[pairs[:, 1]])
    return gaps


def sample_items(counts: VoteCounts, *, n: int, seed: int) -> VoteCounts:
    """A stratified random sample of the items that every pool rated.

    Each stratum gets its share of `n`, rounded by the largest remainder (Hamilton's method; equal
    remainders go to the stratum whose name comes first). Strata are those of the items; where no
    item has one, the tertiles of the gaps; where there are none either, all items are one. The
    sample depends on the items' names and not on their order.

    Parameters
    ----------
    counts
        Votes of the pools.
    n
        Items to draw, at least 1.
    seed
        Registered seed of the draw (PCG64).

    Returns
    -------
    VoteCounts
        The items drawn, in the order of `counts`.

    Raises
    ------
    InputError
        Where fewer than `n` items are rated by every pool, or `n` is below 1.
    """
    shared = np.flatnonzero((counts.by_pool > 0).all(axis=1))
    if not 1 <= n <= len(shared):
        what = f"{len(shared)} items are rated by every pool, so {n} cannot be sampled"
        raise InputError(Problem(what, remedy="sample at least 1 of them and not more than all"))
    rng = np.random.Generator(np.random.PCG64(seed))
    groups: dict[str, list[int]] = {}
    for row, name in zip(shared, _sampling_strata(counts, shared), strict=True):
        groups.setdefault(name, []).append(int(row))
    names = sorted(groups)
    drawn: list[int] = []
    for name, share in zip(names, _shares([len(groups[g]) for g in names], n), strict=True):
        members = sorted(groups[name], key=lambda row: counts.items[row])
        drawn += [members[at] for at in rng.choice(len(members), size=share, replace=False)]
    return _only(counts, np.array(sorted(drawn), dtype=np.intp))


def _sampling_strata(counts: VoteCounts, rows: NDArray[np.intp]) -> list[str]:
    if any(counts.strata):
        return [counts.strata[row] or "" for row in rows]
    if counts.gaps is None:
        return [""] * len(rows)
    return [str(third) for third in tertiles(counts.gaps[rows])]


def _shares(sizes: Sequence[int], n: int) -> list[int]:
    """`n` in proportion to `sizes`, in whole numbers; exact, with no rounding of fractions."""
    total = sum(sizes)
    shares = [n * size // total for size in sizes]
    by_remainder = sorted(range(len(sizes)), key=lambda at: -(n * sizes[at] % total))
    for at in by_remainder[: n - sum(shares)]:
        shares[at] += 1
    return shares


def _only(counts: VoteCounts, rows: NDArray[np.intp]) -> VoteCounts:
    return replace(
        counts,
        items=tuple(counts.items[row] for row in rows),
        counts=counts.counts[rows],
        models=None if counts.models is None else tuple(counts.models[row] for row in rows),
        strata=tuple(counts.strata[row] for row in rows) if counts.strata else (),
        gaps=None if counts.gaps is None else counts.gaps[rows],
    )
