"""Study `annotators`: which metrics a report lists, and no more than a reader can take in."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations

from prereg_judge.study.annotators_computer import Computer
from prereg_judge.study.annotators_groups import Group
from prereg_judge.study.annotators_specs import POLICIES
from prereg_judge.study.annotators_view import MOST_ANNOTATORS, merged_refs, pair_refs
from prereg_judge.study.metric import MetricRef

# The most metrics of a report; what is about strata is cut first.
MOST = 150
MOST_POOLS = 4
MOST_LABELS = 8

_of = MetricRef.of


@dataclass(frozen=True)
class Listed:
    """References of a report.

    Attributes
    ----------
    refs
        In the order in which they are shown.
    left_out
        What is not listed since there is too much of it, as clauses.
    """

    refs: tuple[MetricRef, ...]
    left_out: tuple[str, ...]


def listed(computer: Computer) -> Listed:
    """What a report of one computer's annotators lists."""
    cut = []
    names, pools = computer.values["annotator"], computer.values["pool"]
    if len(names) > MOST_ANNOTATORS:
        cut.append(f"pairs of the {len(names)} annotators, and each of them against the others")
    shown: list[str | None] = [None]
    if len(pools) > 1:
        shown += pools[:MOST_POOLS]
        if len(pools) > MOST_POOLS:
            cut.append(f"{len(pools) - MOST_POOLS} of {len(pools)} pools")
    make = _ratings if computer.spans is None else _spans
    before, after = make(computer, shown)
    if computer.groups is not None:
        labels = len(computer.groups.labels())
        if labels > MOST_LABELS:
            cut.append(f"{labels - MOST_LABELS} of {labels} labels, those given least often")
    strata: list[MetricRef] = []
    lost = 0
    for stratum in computer.values["stratum"]:
        for pool in shown:
            refs = list(_stratum(computer, pool, stratum))
            if len(before) + len(strata) + len(refs) + len(after) > MOST:
                lost += 1
            else:
                strata += refs
    if lost:
        cut.append(f"{lost} of {len(shown) * len(computer.values['stratum'])} groups in strata")
    # Fine labels are there twice where coarse ones stand beside them.
    every = dict.fromkeys((*before, *strata, *after))
    return Listed(tuple(every), tuple(cut))


def _stratum(computer: Computer, pool: str | None, stratum: str) -> Iterator[MetricRef]:
    """What is said of one group in one stratum."""
    yield _of("items.count", pool=pool, stratum=stratum)
    if computer.spans is not None:
        for match in computer.values["match"]:
            yield _of("f1", match=match, pool=pool, stratum=stratum)
        return
    for name in ("agreement.rate", "kappa.fleiss", "ac1"):
        yield _of(name, pool=pool, stratum=stratum)
    yield _of("alpha", level="nominal", pool=pool, stratum=stratum)
    yield _of("resolved.rate", policy="unanimous", pool=pool, stratum=stratum)


def _spans(computer: Computer, shown: list[str | None]) -> tuple[list[MetricRef], list[MetricRef]]:
    """Before the strata: each pool. After them: pairs of annotators."""
    before = []
    for pool in shown:
        before += [_of("items.count", pool=pool), _of("ratings.count", pool=pool)]
        before += [_of("f1", match=match, pool=pool) for match in computer.values["match"]]
    return before, pair_refs(computer)


def _ratings(
    computer: Computer, shown: list[str | None]
) -> tuple[list[MetricRef], list[MetricRef]]:
    """Before the strata: each pool. After them: pairs, labels, policies, distributions, map."""
    groups = computer.groups
    assert groups is not None
    before = []
    plain = (
        "items.count", "ratings.count", "agreement.rate",
        "kappa.fleiss", "kappa.fleiss.observed", "kappa.fleiss.expected", "ac1",
    )  # fmt: skip
    levels = ["nominal"]
    levels += ["ordinal"] if groups.ranks is not None else []
    levels += ["interval"] if groups.ratings.values is not None else []
    for pool in shown:
        before += [_of(name, pool=pool) for name in plain]
        before += [_of("alpha", level=level, pool=pool) for level in levels]
    after = pair_refs(computer)
    if groups.ranks is not None and len(computer.values["annotator"]) <= MOST_ANNOTATORS // 2:
        after += [
            _of("kappa.weighted", annotator=a, other=b, weights="quadratic")
            for a, b in combinations(computer.values["annotator"], 2)
        ]
    after += _labels(computer)
    after += _resolved(computer)
    after += _soft(computer, shown)
    for pool in shown:
        after += merged_refs(computer, pool)
        if groups.ratings.coarse is not None:
            after += [
                _of(f"merge.{name}", pool=pool) for name in ("gain", "hidden.count", "hidden.rate")
            ]
    return before, after


def _labels(computer: Computer) -> Iterator[MetricRef]:
    """The part of each label in disagreements, and what exclusion does to it."""
    groups = computer.groups
    assert groups is not None
    total = groups.counts(Group()).sum(axis=0)
    often = sorted(range(len(total)), key=lambda at: (-total[at], at))[:MOST_LABELS]
    names = [groups.labels()[at] for at in sorted(often)]
    for name in ("disagreement.share", "disagreement.excess", "selection.shift"):
        for label in names:
            yield _of(name, label=label)
    yield _of("selection.distance")


def _resolved(computer: Computer) -> Iterator[MetricRef]:
    """How many items each policy gives a label."""
    groups = computer.groups
    assert groups is not None
    adjudicated = groups.ratings.adjudicated is not None
    for policy in POLICIES:
        if policy != "adjudicated" or adjudicated:
            yield _of("resolved.count", policy=policy)
            yield _of("resolved.rate", policy=policy)
    if adjudicated:
        yield _of("adjudication.overturned.count")
        yield _of("adjudication.overturned.rate")


def _soft(computer: Computer, shown: list[str | None]) -> Iterator[MetricRef]:
    """Distributions of labels, and distances between them."""
    for pool in shown:
        yield _of("soft.entropy", pool=pool)
    for one, two in combinations([pool for pool in shown if pool is not None], 2):
        yield _of("soft.distance", pool=one, other=two)
    if len(computer.values["annotator"]) <= MOST_ANNOTATORS:
        for name in computer.values["annotator"]:
            yield _of("soft.loss", annotator=name)
