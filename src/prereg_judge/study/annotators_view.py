"""Study `annotators`: the tables that a report shows beside its list of metrics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from prereg_judge.labelled import Confusions
from prereg_judge.study.annotators_computer import Computer
from prereg_judge.study.annotators_groups import Group, RatingGroups
from prereg_judge.study.metric import Metric, MetricRef

# With more annotators than this, pairs of them are not listed: they grow with the square.
MOST_ANNOTATORS = 8

_PER_POOL = ("agreement.rate", "kappa.fleiss", "ac1")


@dataclass(frozen=True)
class Confusion:
    """How often two labels were given to the same item, or place, by two annotators.

    Attributes
    ----------
    labels
        The two, in the order of the table's labels.
    pairs
        Pairs of ratings, one of each label.
    hidden
        Whether the map of fine labels to coarse ones makes them alike.
    """

    labels: tuple[str, str]
    pairs: int
    hidden: bool


@dataclass(frozen=True)
class AnnotatorsView:
    """What a report lays out as tables.

    Attributes
    ----------
    confusions
        The labels that were confused, the most frequent first; those nobody confused are left out.
    pairs
        Cohen's kappa of every two annotators (for spans: F1), where they are few; else empty.
    pools
        Agreement of each pool, under the name of the pool.
    merged
        Agreement and kappa under fine and under coarse labels, by group: the pool's name, or None
        for all annotators; empty without a map.
    """

    confusions: tuple[Confusion, ...]
    pairs: tuple[Metric, ...]
    pools: Mapping[str, tuple[Metric, ...]]
    merged: Mapping[str | None, tuple[Metric, ...]]


def pair_refs(computer: Computer) -> list[MetricRef]:
    """References to the agreement of every two annotators; none where they are many."""
    names = computer.values["annotator"]
    if len(names) > MOST_ANNOTATORS:
        return []
    pairs = list(combinations(names, 2))
    if computer.spans is None:
        return [MetricRef.of("kappa.cohen", annotator=a, other=b) for a, b in pairs]
    return [
        MetricRef.of("f1.pair", annotator=a, other=b, match=match)
        for match in computer.values["match"]
        for a, b in pairs
    ]


def merged_refs(computer: Computer, pool: str | None) -> list[MetricRef]:
    """References to agreement under fine and coarse labels, side by side."""
    if "coarse" not in computer.values["labels"]:
        return []
    return [
        MetricRef.of(name, pool=pool, labels=labels)
        for name in ("agreement.rate", "kappa.fleiss")
        for labels in ("fine", "coarse")
    ]


def view_of(computer: Computer) -> AnnotatorsView:
    """The tables of one computer's annotators."""
    pools = computer.values["pool"]
    of_pools: dict[str, list[MetricRef]] = {}
    of_merged: dict[str | None, list[MetricRef]] = {}
    if computer.spans is not None:
        for pool in pools:
            of_pools[pool] = [
                MetricRef.of("f1", pool=pool, match=m) for m in computer.values["match"]
            ]
    else:
        for pool in pools:
            of_pools[pool] = [MetricRef.of(name, pool=pool) for name in _PER_POOL]
            of_pools[pool].append(MetricRef.of("alpha", pool=pool, level="nominal"))
        for group in (None, *(pools if len(pools) > 1 else ())):
            if refs := merged_refs(computer, group):
                of_merged[group] = refs
    pairs = pair_refs(computer)
    refs = [*pairs, *(ref for some in (*of_pools.values(), *of_merged.values()) for ref in some)]
    found = computer.all(refs)
    return AnnotatorsView(
        confusions=confusions_of(computer),
        pairs=tuple(found[ref] for ref in pairs),
        pools={name: tuple(found[ref] for ref in some) for name, some in of_pools.items()},
        merged={name: tuple(found[ref] for ref in some) for name, some in of_merged.items()},
    )


def confusions_of(computer: Computer) -> tuple[Confusion, ...]:
    """The labels, or types of spans at the same place, that annotators confused."""
    if computer.groups is not None:
        return label_confusions(computer.groups, Group())
    assert computer.spans is not None
    labelled = computer.spans.labelled
    among = [labelled.names.index(name) for name in computer.spans.annotators]
    return _type_confusions(labelled.confusions, among, rows=computer.spans.kept)


def label_confusions(groups: RatingGroups, group: Group) -> tuple[Confusion, ...]:
    """How often each two labels were given to the same item by two annotators of a group."""
    counts = groups.counts(group)
    labels = groups.labels(coarse=group.coarse)
    together = counts.T @ counts
    coarse = groups.ratings.coarse if not group.coarse else None
    found = [
        Confusion(
            (labels[a], labels[b]),
            int(together[a, b]),
            coarse is not None and coarse[a] == coarse[b],
        )
        for a, b in combinations(range(len(labels)), 2)
        if together[a, b]
    ]
    return tuple(sorted(found, key=lambda c: (-c.pairs, c.labels)))


def _type_confusions(
    confusions: Confusions, among: list[int], *, rows: NDArray[np.bool_]
) -> tuple[Confusion, ...]:
    """The same for types of spans, over all pairs of some labellings, on rows that count."""
    kept = rows[confusions.row]
    kept = kept & np.isin(confusions.first, among) & np.isin(confusions.second, among)
    tally: Counter[tuple[int, int]] = Counter()
    hidden: dict[tuple[int, int], bool] = {}
    for at in np.flatnonzero(kept):
        one, two = int(confusions.first_type[at]), int(confusions.second_type[at])
        key = (min(one, two), max(one, two))
        tally[key] += 1
        hidden[key] = bool(confusions.hidden[at])
    found = [
        Confusion((confusions.types[a], confusions.types[b]), pairs, hidden[a, b])
        for (a, b), pairs in tally.items()
    ]
    return tuple(sorted(found, key=lambda c: (-c.pairs, c.labels)))
