"""How the verdicts on a pair in its two orders become one, by a registered rule.

Knows numbers only: sides on a judge's scale, said of answer a and answer b.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from prereg_judge.study.outcomes import Resolve
from prereg_judge.study.pairs import BOTH
from prereg_judge.words import Order


def orders_of(rule: Resolve) -> tuple[Order, ...]:
    """The orders that a rule looks at."""
    return ("ab",) if rule == "first" else BOTH


def resolved(scale: NDArray[np.int64], rule: Resolve) -> NDArray[np.int64]:
    """One side an item, from the verdicts in the orders that the rule looks at.

    Parameters
    ----------
    scale
        Verdicts, shape (n, O) in the orders of `orders_of`: 1 or 2 = answer a is better, slightly
        or clearly; -1 or -2 = answer b; 0 = neither.
    rule
        `agree_or_tie`: what both orders prefer, else neither. `average`: the side on which the
        mean of the two verdicts on the scale lies, so that a side and a tie give the side, and
        opposite sides of the same strength neither. `first`: what order ab says.

    Returns
    -------
    array of int
        1 = answer a, -1 = answer b, 0 = neither, shape (n,).
    """
    if rule == "average":
        means: NDArray[np.int64] = np.sign(scale.sum(axis=1))
        return means
    sides = np.sign(scale)
    same = (sides == sides[:, :1]).all(axis=1)
    agreed: NDArray[np.int64] = np.where(same, sides[:, 0], 0)
    return agreed
