"""Tables of annotators' votes: read by their form, and keyed by item.

Knows which votes are on the same item. How rows are laid out is known to `annotation_layouts`,
who belongs to which pool to `annotation_pools`; votes are counted by `tallies`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from pathlib import Path

from prereg_judge.annotation_form import Layout, TableForm, form_problems
from prereg_judge.annotation_layouts import read_votes
from prereg_judge.annotation_pools import Vote, pooled
from prereg_judge.canon import sha256_bytes
from prereg_judge.errors import InputError, Problem, raise_all
from prereg_judge.row_files import read_file, read_rows
from prereg_judge.votes import SIDES, PairKey

_KIND = "annotator table"


@dataclass(frozen=True)
class AnnotationTable:
    """The votes of a file that belong to a pool, in the file's order.

    Attributes
    ----------
    file, sha256, n_bytes
        Name as messages give it, and identity of the bytes.
    layout
        How the file is laid out.
    pools
        Names of the pools in the registered order.
    labels
        `SIDES` for votes on pairs; else the labels that occur, sorted.
    votes
        No annotator has two on the same stored item; stratum and gap are the same in all votes
        on the same two answers.
    left_out
        Reason -> how many votes of the file are not used.
    """

    file: str
    sha256: str
    n_bytes: int
    layout: Layout
    pools: tuple[str, ...]
    labels: tuple[str, ...]
    votes: tuple[Vote, ...]
    left_out: Mapping[str, int]

    @cached_property
    def plain(self) -> bool:
        """Whether an item's own name is enough to tell stored items apart."""
        if self.layout == "mt-bench":
            return False
        pairs = {(vote.item, vote.left, vote.right) for vote in self.votes}
        return len(pairs) == len({vote.item for vote in self.votes})

    def stored_name(self, vote: Vote) -> str:
        """The name of the stored item that a vote is on."""
        if self.plain or vote.left is None or vote.right is None:
            return vote.item
        return pair_name(vote.item, (vote.left, vote.right))


@dataclass(frozen=True)
class KeyedItem:
    """A stored item under a key.

    Attributes
    ----------
    name
        Its name in `VoteCounts.items`.
    models
        Who gave answer a and answer b there; None where the items are no pairs of models'.
    exchanged
        Whether answer a of the stored item is answer b there.
    """

    name: str
    models: tuple[str, str] | None
    exchanged: bool


def load_annotations(
    path: Path, *, form: TableForm, shown: str, compared: bool = True
) -> AnnotationTable:
    """Read a table of votes from JSONL, CSV or Parquet, by the file's ending.

    Parameters
    ----------
    path
        The file.
    form
        How it is laid out and who belongs to which pool.
    shown
        The file's name as messages should give it.
    compared
        Whether pools are compared with each other, so that there are two or more, and some have
        an item in common.

    Raises
    ------
    InputError
        For a form, rows or pools with problems (see `form_problems`, `read_votes`, `pooled`), a
        file without votes, and compared pools that have no item in common.
    """
    found = form_problems(form, compared=compared)
    raise_all([replace(problem, file=shown) for problem in found])
    raw = read_file(path, kind=_KIND, shown=shown)
    rows = read_rows(raw, suffix=path.suffix, kind=_KIND, shown=shown)
    reading = read_votes(rows, form=form, shown=shown)
    if not reading.votes:
        remedy = "a table needs a row for each vote"
        raise InputError(Problem(f"the {_KIND} holds no votes", file=shown, remedy=remedy))
    votes = pooled(reading.votes, pools=form.pools, shown=shown)
    left_out = dict(reading.left_out)
    outside = len(reading.votes) - len(votes)
    if outside:
        left_out["annotator of no pool"] = outside
    labels = SIDES if form.paired else tuple(sorted({vote.label for vote in votes}))
    table = AnnotationTable(
        shown, sha256_bytes(raw), len(raw), form.layout, tuple(form.pools), labels, votes, left_out
    )
    if compared:
        _refuse_disjoint(table)
    return table


def _refuse_disjoint(table: AnnotationTable) -> None:
    # Whatever is shared as stored is shared the other way round too.
    if not any(_shared(table, "unordered", two) for two in combinations(table.pools, 2)):
        raise InputError(_nothing_shared(table, "unordered", table.pools))


def refuse_unshared(table: AnnotationTable, *, key: PairKey, pools: tuple[str, str]) -> None:
    """Refuse two pools that have no item in common under a key.

    Raises
    ------
    InputError
        Saying how many items each rated, and under which other key they share some.
    """
    if not _shared(table, key, pools):
        raise InputError(_nothing_shared(table, key, pools))


def _shared(table: AnnotationTable, key: PairKey, pools: Sequence[str]) -> int:
    rated = _rated(table, key)
    return len(set.intersection(*(rated[pool] for pool in pools)))


def _rated(table: AnnotationTable, key: PairKey) -> dict[str, set[str]]:
    """Names of the items that each pool rated."""
    keyed = keyed_items(table, key=key)
    rated: dict[str, set[str]] = {pool: set() for pool in table.pools}
    for vote in table.votes:
        rated[vote.pool].add(keyed[table.stored_name(vote)].name)
    return rated


def _nothing_shared(table: AnnotationTable, key: PairKey, pools: Sequence[str]) -> Problem:
    rated = _rated(table, key)
    found = ", ".join(f"{pool} rated {len(rated[pool])} items" for pool in pools)
    remedy = "pools are compared on the items that both rated: use a table that has some"
    if len(pools) == 2 and key == "stored" and (n := _shared(table, "unordered", pools)):
        remedy = f"under the key `unordered`, {n} {'is' if n == 1 else 'are'} shared"
    what = "no item is rated by two pools"
    return Problem(what, file=table.file, found=f"{found}; none is shared", remedy=remedy)


def keyed_items(table: AnnotationTable, *, key: PairKey) -> dict[str, KeyedItem]:
    """Every stored item of a table, and what it is under a key.

    A stored item has its name in the file where no item of the file has more than one stored pair
    of models; else, and always in MT-Bench's layout, it is `item|model a|model b`, with a
    backslash before each `|` and backslash of the parts. Under `unordered` the models of a pair
    stand in the order of their names, so that two stored items can be one.

    Returns
    -------
    dict
        Name of the stored item -> what it is under the key, in order of first appearance.
    """
    keyed: dict[str, KeyedItem] = {}
    for vote in table.votes:
        stored = table.stored_name(vote)
        if stored in keyed:
            continue
        if vote.left is None or vote.right is None:
            keyed[stored] = KeyedItem(stored, None, exchanged=False)
            continue
        exchanged = key == "unordered" and vote.left > vote.right
        models = (vote.right, vote.left) if exchanged else (vote.left, vote.right)
        name = vote.item if table.plain else pair_name(vote.item, models)
        keyed[stored] = KeyedItem(name, models, exchanged)
    return keyed


def pair_name(item: str, models: tuple[str, str]) -> str:
    """The name of an item with its models: `item|model a|model b`, no two pairs alike."""
    return "|".join(part.replace("\\", "\\\\").replace("|", "\\|") for part in (item, *models))
