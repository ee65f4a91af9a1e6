"""Votes and verdicts of tables by content, so that exposure knows them in whatever file they stand.

A vote or verdict is the same where it says the same, however the file's names are written.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache

from prereg_judge.annotation_pools import Vote
from prereg_judge.annotations import AnnotationTable
from prereg_judge.canon import sha256_value
from prereg_judge.labellings.table import LabellingTable
from prereg_judge.verdict_tables import VerdictRow, VerdictTable
from prereg_judge.votes import OTHER_SIDE
from prereg_judge.wording import without_hidden

ROW_DIGITS = 16  # of a row's hash: two of 20,000 rows meet by chance about once in 10^11 sets

_OTHER_ORDER = {"ab": "ba", "ba": "ab"}


def vote_hashes(table: AnnotationTable) -> tuple[str, ...]:
    """Short hashes of the votes that a registration reads, sorted.

    One a vote, so that a table with a vote more or less on an item shares the others; whichever of
    two models' answers stands first, and however the names are written (`_plain`).
    """
    return tuple(sorted(sha256_value("vote", _plain_vote(v))[:ROW_DIGITS] for v in table.votes))


def _plain_vote(vote: Vote) -> list[str | None]:
    models, exchanged = _plain_models(vote.left, vote.right)
    label = OTHER_SIDE.get(vote.label, vote.label) if exchanged else vote.label
    return [_plain(vote.item), *models, _plain(vote.annotator), _plain(label)]


def verdict_hashes(tables: Sequence[VerdictTable]) -> tuple[str, ...]:
    """Short hashes of the verdicts that a registration reads, sorted.

    One a verdict, so that a table of one order shares the verdicts of that order; whichever of two
    models is called a, and however the names are written (`_plain`).
    """
    rows = (row for table in tables for row in table.rows)
    plain = (verdict for row in rows for verdict in _plain_verdicts(row))
    return tuple(sorted(sha256_value("verdict", v)[:ROW_DIGITS] for v in plain))


def _plain_verdicts(row: VerdictRow) -> Iterator[list[str | None]]:
    models, exchanged = _plain_models(row.left, row.right)
    for order, side in (("ab", row.ab), ("ba", row.ba)):
        if side is None:
            continue
        if exchanged:  # who is called a now was shown second where b was shown first
            yield [_plain(row.item), *models, _OTHER_ORDER[order], OTHER_SIDE[side]]
        else:
            yield [_plain(row.item), *models, order, side]


def _plain_models(left: str | None, right: str | None) -> tuple[list[str | None], bool]:
    """Two models in the order of their plain names, and whether they were exchanged for it."""
    if left is None or right is None:
        return [None, None], False
    one, other = sorted((left, right), key=lambda name: (_plain(name), name))
    return [_plain(one), _plain(other)], one != left


def labelling_hashes(table: LabellingTable) -> tuple[str, ...]:
    """Short hashes of what labellings say of items, sorted.

    One for each item and labelling, of the item's name and its marks: what the labelling is called
    and in which file it stands does not matter. A sentence without a name goes by its words: its
    number would be that of a sentence of any other file. That an item has no marks says too little
    to know it by, so it counts only where no labelling marks anything.
    """
    said = [
        [
            _plain(row.words or row.item),
            sorted([list(map(list, m.place)), _typed(m.type)] for m in marks),
        ]
        for row in table.rows
        for marks in row.marks.values()
        if marks is not None
    ]
    marked = [each for each in said if each[1]]
    return tuple(sorted(sha256_value("labelling", each)[:ROW_DIGITS] for each in marked or said))


def label_hashes(labels: Mapping[str, str]) -> tuple[str, ...]:
    """Short hashes of the labels of items, by the items' names, sorted."""
    said = ([_plain(item), [[[], _typed(label)]]] for item, label in labels.items())
    return tuple(sorted(sha256_value("labelling", each)[:ROW_DIGITS] for each in said))


def _typed(name: str | None) -> str:
    """A type as text; none is another than the empty one."""
    return "" if name is None else f"={_plain(name)}"


@lru_cache(maxsize=4096)
def _plain(name: str) -> str:
    """A name without what can be changed unseen: letter case, white space, forms of characters."""
    folded = unicodedata.normalize("NFKC", name).casefold()
    return " ".join(without_hidden(folded).split())
