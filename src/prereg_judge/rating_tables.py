"""Ratings made of annotators' tables and of labellings with one label an item.

Knows which votes are on the same item, and what the registered scale, map and adjudication say of
the labels; does not know what is counted.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from prereg_judge.annotation_form import near
from prereg_judge.annotations import AnnotationTable, KeyedItem, keyed_items
from prereg_judge.canon import nfc
from prereg_judge.errors import InputError, Problem, raise_all
from prereg_judge.labellings.adjudication import load_adjudicated as load_adjudicated
from prereg_judge.labellings.merging import checked_merge
from prereg_judge.labellings.table import LabellingTable
from prereg_judge.ratings import Ratings
from prereg_judge.votes import OTHER_SIDE, SIDES, PairKey
from prereg_judge.wording import capped, listed, quoted


@dataclass(frozen=True)
class Scale:
    """What the registration says of the order of labels; one of the two is given.

    Attributes
    ----------
    order
        The labels from the lowest to the highest, each once; they have no numbers.
    values
        The finite number of each label, no two alike.
    """

    order: tuple[str, ...] | None = None
    values: Mapping[str, float] | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """The labels from the lowest to the highest."""
        if self.values is None:
            return tuple(nfc(name) for name in self.order or ())
        values = self.values
        return tuple(nfc(name) for name in sorted(values, key=lambda name: values[name]))


@dataclass(frozen=True, eq=False)
class _Votes:
    """Votes on items as numbers, one entry each, and what names the numbers.

    `homes` has the pool of each annotator; `lines` the line on which each label that occurs
    stands first, for messages.
    """

    file: str
    items: tuple[str, ...]
    strata: tuple[str | None, ...]
    annotators: tuple[str, ...]
    pools: tuple[str, ...]
    homes: NDArray[np.intp]
    labels: tuple[str, ...]
    lines: Mapping[str, int | None]
    item: NDArray[np.intp]
    annotator: NDArray[np.intp]
    label: NDArray[np.intp]


def ratings_of(
    table: AnnotationTable,
    *,
    key: PairKey,
    scale: Scale | None,
    merge: Mapping[str, str] | None,
    adjudicated: Mapping[str, str] | None,
) -> Ratings:
    """The votes of a table as ratings.

    Parameters
    ----------
    table
        The votes, of one pool or several.
    key
        As in `tallies.tally`: under `unordered` votes on exchanged pairs are turned. Of an
        annotator who judged a pair both ways round the first vote counts (`tallies.voted_twice`
        says how many others there are).
    scale
        The order of the labels; it names every label that occurs and may name more. None: the
        labels are sorted and their order means nothing.
    merge
        Fine label -> coarse label; one that is not named stays as it is.
    adjudicated
        Name of an item, as stored or under the key -> the adjudicator's label. Labels that no
        annotator gave become labels; items that nobody rated are left out (`not_rated` counts
        them).

    Returns
    -------
    Ratings
        Annotators are sorted by name. Votes on pairs have the labels `a`, `b` and `tie`, whether
        they occur or not.

    Raises
    ------
    InputError
        For a scale, map or adjudication that does not fit the labels and items.
    """
    keyed = keyed_items(table, key=key)
    votes = _votes_of(table, keyed)
    told = None
    if adjudicated is not None:
        named = {name: (name, False) for name in votes.items}
        named.update((stored, (of.name, of.exchanged)) for stored, of in keyed.items())
        sided = table.labels == SIDES
        told = _adjudications(adjudicated, named, file=table.file, sided=sided)
    return _ratings(votes, scale=scale, merge=merge, told=told)


def _votes_of(table: AnnotationTable, keyed: Mapping[str, KeyedItem]) -> _Votes:
    who = {name: at for at, name in enumerate(sorted({vote.annotator for vote in table.votes}))}
    pool_at = {name: at for at, name in enumerate(table.pools)}
    label_at = {label: at for at, label in enumerate(table.labels)}
    items: dict[str, int] = {}
    strata: list[str | None] = []
    homes = [0] * len(who)
    lines: dict[str, int | None] = {}
    item, annotator, given = list[int](), list[int](), list[int]()
    for vote in table.votes:
        of = keyed[table.stored_name(vote)]
        row = items.setdefault(of.name, len(items))
        if row == len(strata):
            strata.append(vote.stratum)
        label = OTHER_SIDE[vote.label] if of.exchanged else vote.label
        lines.setdefault(label, vote.line)
        item.append(row)
        annotator.append(who[vote.annotator])
        given.append(label_at[label])
        homes[annotator[-1]] = pool_at[vote.pool]
    return _Votes(
        file=table.file,
        items=tuple(items),
        strata=tuple(strata),
        annotators=tuple(who),
        pools=table.pools,
        homes=np.array(homes, dtype=np.intp),
        labels=table.labels,
        lines=lines,
        item=np.array(item, dtype=np.intp),
        annotator=np.array(annotator, dtype=np.intp),
        label=np.array(given, dtype=np.intp),
    )


def ratings_of_labellings(
    table: LabellingTable,
    *,
    pools: Mapping[str, Sequence[str]],
    scale: Scale | None,
    merge: Mapping[str, str] | None,
    adjudicated: Mapping[str, str] | None,
) -> Ratings:
    """Labellings with one label an item as ratings, each labelling an annotator.

    Parameters
    ----------
    table
        Labellings of the form `labels`.
    pools
        Name of each pool -> names of its labellings. Labellings of no pool are left out.
    scale, merge, adjudicated
        As in `ratings_of`.

    Returns
    -------
    Ratings
        Annotators are in the table's order; items that no annotator rated are left out.

    Raises
    ------
    InputError
        For spans; pools that name no labelling, or one that is another's too; items that stand in
        two rows; and for a scale, map or adjudication that does not fit.
    """
    homes = _homes(table, pools)
    _refuse_copies(table)
    votes = _votes_of_labellings(table, pools, homes)
    told = None
    if adjudicated is not None:
        named = {name: (name, False) for name in votes.items}
        told = _adjudications(adjudicated, named, file=table.shown, sided=False)
    return _ratings(votes, scale=scale, merge=merge, told=told)


def _votes_of_labellings(
    table: LabellingTable, pools: Iterable[str], homes: Mapping[str, str]
) -> _Votes:
    names = [name for name in table.names if name in homes]
    pool_at = {pool: at for at, pool in enumerate(pools)}
    label_at: dict[str, int] = {}
    items: list[str] = []
    strata: list[str | None] = []
    lines: dict[str, int | None] = {}
    cells: list[tuple[int, int, int]] = []
    for row in table.rows:
        before = len(cells)
        for who, name in enumerate(names):
            for mark in row.marks[name] or ():
                label = str(mark.type)
                lines.setdefault(label, row.line)
                cells.append((len(items), who, label_at.setdefault(label, len(label_at))))
        if len(cells) > before:
            items.append(row.item)
            strata.append(row.stratum)
    item, annotator, given = np.array(cells, dtype=np.intp).reshape(-1, 3).T
    return _Votes(
        file=table.shown,
        items=tuple(items),
        strata=tuple(strata),
        annotators=tuple(names),
        pools=tuple(pool_at),
        homes=np.array([pool_at[homes[name]] for name in names], dtype=np.intp),
        labels=tuple(label_at),
        lines=lines,
        item=item,
        annotator=annotator,
        label=given,
    )


def not_rated(
    adjudicated: Mapping[str, str], ratings: Ratings, *, stored: Iterable[str] = ()
) -> int:
    """How many adjudicated items nobody rated; `stored` are other names that items go by."""
    return len(set(adjudicated).difference(ratings.items, stored))


def _homes(table: LabellingTable, pools: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """The pool of each labelling that is in one."""
    problems: list[Problem] = []
    if table.form != "labels":
        remedy = "use labellings of the form labels, or measures for spans"
        what = "these labellings are spans, which are no ratings of their item"
        problems.append(Problem(what, table.shown, remedy=remedy))
    homes: dict[str, str] = {}
    for pool, members in pools.items():
        where = f"pools.{pool}"
        if not members:
            remedy = "name its labellings"
            problems.append(Problem("has no labelling", table.shown, where=where, remedy=remedy))
        for name in map(nfc, members):
            home = homes.setdefault(name, pool)
            what, remedy = f"belongs to the pool {home} too", "an annotator has one pool"
            if name not in table.names:
                what, remedy = "is no labelling of these files", near(name, table.names)
            elif home == pool:
                continue
            problems.append(Problem(what, table.shown, None, where, quoted(name), remedy))
    if not pools:
        remedy = "name a pool and its labellings"
        problems.append(Problem("there is no pool", table.shown, where="pools", remedy=remedy))
    raise_all(capped(problems))
    return homes


def _refuse_copies(table: LabellingTable) -> None:
    first: dict[str, int | None] = {}
    problems = []
    for row in table.rows:
        if row.item in first:
            what = f"the item stands on line {first[row.item]} already"
            remedy = "keep one row an item: nobody rates an item twice"
            found = quoted(row.item)
            problems.append(Problem(what, table.shown, row.line, found=found, remedy=remedy))
        first.setdefault(row.item, row.line)
    raise_all(capped(problems))


def _adjudications(
    adjudicated: Mapping[str, str],
    named: Mapping[str, tuple[str, bool]],
    *,
    file: str,
    sided: bool,
) -> dict[str, str]:
    """The adjudicator's label of each item by its name in the ratings, turned where it is."""
    told: dict[str, str] = {}
    sources: dict[str, str] = {}
    problems: list[Problem] = []
    for item, label in adjudicated.items():
        if item not in named:
            continue
        name, exchanged = named[item]
        if sided and label not in SIDES:
            remedy = f"write {', '.join(SIDES)}: the label says which answer is better"
            what = "the adjudicator's label is no side of a pair"
            where = f"adjudication of {item}"
            problems.append(Problem(what, file, None, where, quoted(label), remedy))
            continue
        label = OTHER_SIDE[label] if exchanged else label
        if told.setdefault(name, label) != label:
            what = f"is adjudicated another way as {sources[name]!r}, the same pair"
            remedy = "give both the same better answer, or leave one out"
            where = f"adjudication of {item}"
            problems.append(Problem(what, file, None, where, quoted(adjudicated[item]), remedy))
        sources.setdefault(name, item)
    if not told and not problems:
        what = "no adjudicated item is among the items that were rated"
        found = f"{len(adjudicated)} adjudicated, such as {quoted(next(iter(adjudicated), ''))}"
        remedy = f"name items as the table does, such as {quoted(next(iter(named), ''))}"
        problems.append(Problem(what, file, None, "adjudication", found, remedy))
    raise_all(capped(problems))
    return told


def _ratings(
    votes: _Votes,
    *,
    scale: Scale | None,
    merge: Mapping[str, str] | None,
    told: Mapping[str, str] | None,
) -> Ratings:
    """Ratings of votes; of several of one annotator on an item, the first counts."""
    code = votes.item * max(len(votes.annotators), 1) + votes.annotator
    first = np.sort(np.unique(code, return_index=True)[1])
    own = set(votes.labels) if scale is None else set(votes.lines)
    found = own | set((told or {}).values())
    labels = tuple(sorted(found))
    if scale is not None:
        _refuse_unfit_scale(scale, labels, votes)
        labels = scale.names
    at = {label: number for number, label in enumerate(labels)}
    position = np.array([at.get(label, -1) for label in votes.labels], dtype=np.intp)
    coarse = None
    if merge is not None:
        mapped = checked_merge(merge, labels, of="label", file=votes.file)
        coarse = tuple(mapped.get(label, label) for label in labels)
    values = None
    if scale is not None and scale.values is not None:
        values = np.array(sorted(scale.values.values()), dtype=np.float64)
    adjudicated = None
    if told is not None:
        codes = [at[told[name]] if name in told else -1 for name in votes.items]
        adjudicated = np.array(codes, dtype=np.intp)
    return Ratings(
        items=votes.items,
        strata=votes.strata,
        annotators=votes.annotators,
        pools=votes.pools,
        labels=labels,
        item=votes.item[first],
        annotator=votes.annotator[first],
        pool=votes.homes[votes.annotator[first]],
        label=position[votes.label[first]],
        ordered=scale is not None,
        values=values,
        coarse=coarse,
        adjudicated=adjudicated,
    )


def _refuse_unfit_scale(scale: Scale, labels: Sequence[str], votes: _Votes) -> None:
    """Refuse a scale that is none, or that leaves out a label that occurs."""
    problems: list[Problem] = []
    where = "scale.order" if scale.values is None else "scale.values"
    if (scale.order is None) == (scale.values is None):
        remedy = "list the labels in `order`, or give each a number in `values`"
        what = "needs one of order and values"
        raise InputError(Problem(what, votes.file, None, "scale", None, remedy))
    names = scale.names
    for name in (name for name, n in Counter(names).items() if n > 1):
        remedy = "a label has one place"
        problems.append(Problem("stands twice", votes.file, None, where, quoted(name), remedy))
    numbers = {} if scale.values is None else scale.values
    taken: dict[float, str] = {}
    for name, number in numbers.items():
        what, remedy = "is no finite number", "give each label a finite number"
        if math.isfinite(number):
            what = f"is the number of {taken.get(number)!r} too"
            remedy = "give each label a number of its own; labels that mean the same are merged"
        if not math.isfinite(number) or number in taken:
            here = f"{where}.{name}"
            problems.append(Problem(what, votes.file, None, here, quoted(number), remedy))
        taken.setdefault(number, name)
    missing = [label for label in labels if label not in names]
    if missing:
        line = votes.lines.get(missing[0])
        what = "labels that occur have no place in the scale"
        found = listed([quoted(label) for label in missing])
        remedy = f"name every label; the scale has {listed(names)}"
        problems.append(Problem(what, votes.file, line, where, found, remedy))
    raise_all(capped(problems))
