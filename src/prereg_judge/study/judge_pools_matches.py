"""A judge's verdicts beside the labels of two pools, item by item; knows no metrics."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from prereg_judge.study.outcomes import Resolve
from prereg_judge.study.pools_view import View
from prereg_judge.study.resolving import orders_of, resolved
from prereg_judge.votes import MISSING, SlotVerdicts


def resolved_side(verdicts: SlotVerdicts, *, rule: Resolve) -> NDArray[np.int64]:
    """One side for each item, by `resolving.resolved`; `MISSING` where an order lacks its verdict.

    Shape (n,); only the orders that the rule looks at are needed.
    """
    both = {"ab": verdicts.ab, "ba": verdicts.ba}
    scale = np.column_stack([both[order] for order in orders_of(rule)])
    lacking = (scale == MISSING).any(axis=1)
    found: NDArray[np.int64] = np.where(lacking, MISSING, resolved(scale, rule))
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
    sides = resolved_side(verdicts, rule=rule)
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
