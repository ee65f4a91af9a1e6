"""A judge's verdicts beside the labels of two pools, item by item; knows no metrics."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from prereg_judge.study.outcomes import Resolve
from prereg_judge.study.pools_view import View
from prereg_judge.votes import MISSING, SlotVerdicts


def resolved(verdicts: SlotVerdicts, *, rule: Resolve) -> NDArray[np.int64]:
    """One side for each item, from the verdicts of the two orders.

    Parameters
    ----------
    verdicts
        The judge's verdicts.
    rule
        `first`: what it said in the order ab. `agree_or_tie`: what it said in both orders, a tie
        where they differ. `average`: the sign of the mean on the judge's scale, so that a side and
        a tie give the side, and opposite sides of the same strength a tie.

    Returns
    -------
    array of int
        1 = answer a, -1 = answer b, 0 = tie, `MISSING` where an order that the rule looks at has
        no verdict; shape (n,).
    """
    ab, ba = verdicts.ab, verdicts.ba
    one, other = np.sign(ab), np.sign(ba)
    lacking = ab == MISSING
    if rule == "first":
        side = one
    else:
        lacking = lacking | (ba == MISSING)
        side = np.where(one == other, one, 0) if rule == "agree_or_tie" else np.sign(ab + ba)
    found: NDArray[np.int64] = np.where(lacking, MISSING, side)
    return found


@dataclass(frozen=True)
class Matches:
    """On which items a judge agrees with each pool.

    Attributes
    ----------
    rows
        Positions in the table of the items with a label of both pools and a verdict, shape (n,).
    with_pool
        Whether the judge gives the label of pool 1, and of pool 2, shape (n, 2).
    differ
        Whether the pools' labels differ, shape (n,).
    note
        How many items have no verdict or no label, as a clause; None without any.
    """

    rows: NDArray[np.intp]
    with_pool: NDArray[np.bool_]
    differ: NDArray[np.bool_]
    note: str | None


def matches_of(view: View, verdicts: SlotVerdicts, *, rule: Resolve) -> Matches:
    """The items that a judge and both pools speak of; the judge's verdicts are found by name.

    Parameters
    ----------
    view
        Sided votes.
    verdicts
        The judge's verdicts under the same key, in any order of the items.
    rule
        How its two orders become one verdict.

    Returns
    -------
    Matches
        Without rows where there is no such item.
    """
    place = {item: at for at, item in enumerate(verdicts.items)}
    at = [place.get(view.counts.items[row]) for row in view.used]
    sides = resolved(verdicts, rule=rule)
    said = np.array([MISSING if i is None else sides[i] for i in at], dtype=np.int64)
    given = said != MISSING
    lost = int((~given).sum())
    note = f"{lost} of {len(said)} items have no verdict of the judge" if lost else None
    pools = view.sides[given]
    return Matches(
        view.used[given],
        pools == said[given][:, None],
        pools[:, 0] != pools[:, 1],
        "; ".join(clause for clause in (view.left_out, note) if clause) or None,
    )
