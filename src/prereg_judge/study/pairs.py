"""Items that are pairs, with their verdicts in every order and pass as numbers.

What every metric of the study `pairwise` looks at, and what a missing verdict does to it; also
the table of verdicts in one order against those in the other. Knows nothing of metrics' meaning.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from prereg_judge.study.outcomes import ItemView, PairScale, StudyInput
from prereg_judge.study.row_questions import Refusal
from prereg_judge.study.rows import Row, rows_of
from prereg_judge.words import Order, SetRole

BOTH: tuple[Order, Order] = ("ab", "ba")


@dataclass(frozen=True)
class Pairs:
    """n items with their verdicts in some orders and passes.

    Attributes
    ----------
    items
        The items, shape (n,).
    orders
        The orders, shape (O,).
    given
        Whether there is a verdict, shape (n, O, P).
    scale
        What it says of the answers, shape (n, O, P): 2 or 1 = answer a is better, clearly or
        slightly; -1 or -2 = answer b; 0 = neither, and 0 where there is no verdict.
    notes
        What a reader should know of verdicts that are missing.
    """

    items: tuple[ItemView, ...]
    orders: tuple[Order, ...]
    given: NDArray[np.bool_]
    scale: NDArray[np.int64]
    notes: tuple[str, ...] = ()

    @property
    def sides(self) -> NDArray[np.int64]:
        """1 = answer a is better, -1 = answer b, 0 = neither or no verdict; shape (n, O, P)."""
        signs: NDArray[np.int64] = np.sign(self.scale)
        return signs

    @property
    def slots(self) -> NDArray[np.int64]:
        """The same said of the answers as shown: 1 = the first is better, -1 = the second."""
        turned = np.array([1 if order == "ab" else -1 for order in self.orders], dtype=np.int64)
        return self.sides * turned[None, :, None]

    @property
    def complete(self) -> NDArray[np.bool_]:
        """Whether every verdict is there, shape (n,)."""
        return np.asarray(self.given.all(axis=(1, 2)), dtype=np.bool_)

    def only(self, kept: NDArray[np.bool_], *notes: str) -> Pairs:
        """The items for which `kept`, shape (n,), is true, with notes added."""
        items = tuple(item for item, stays in zip(self.items, kept, strict=True) if stays)
        every = (*self.notes, *notes)
        return Pairs(items, self.orders, self.given[kept], self.scale[kept], every)


def pass_of(text: str, passes: int) -> int | Refusal:
    """The number of a pass that a parameter names; a refusal where there is no such pass."""
    if text.isascii() and text.isdigit() and 1 <= int(text) <= passes:
        return int(text)
    return Refusal("not_computed", f"pass {text} is not one of 1..{passes}")


def pairs_of(
    data: StudyInput, rows: Sequence[Row], *, orders: Sequence[Order], passes: Sequence[int]
) -> Pairs | Refusal:
    """The items of rows, with what the judge said of them in these orders and passes.

    Parameters
    ----------
    data
        The run.
    rows
        Any rows of one set; the items come in the order in which they are first met.
    orders, passes
        Which verdicts, at least one each; passes are counted from 1.

    Returns
    -------
    Pairs or Refusal
        With no item where there is no row. `no_sides`: the verdicts are not said of two answers.
        `one_order`: the judge was not asked in one of the orders.

    Raises
    ------
    ValueError
        When a verdict is not on the scale.
    """
    if data.pair is None:
        return Refusal("no_sides", "the verdicts of this judge do not say which answer is better")
    if absent := [order for order in orders if order not in data.orders]:
        return Refusal("one_order", f"the judge was not asked in the order {absent[0]}")
    items = {row.item.id: row.item for row in rows}
    index = {item_id: i for i, item_id in enumerate(items)}
    given = np.zeros((len(items), len(orders), len(passes)), dtype=np.bool_)
    scale = np.zeros(given.shape, dtype=np.int64)
    for row in rows:
        if row.order not in orders:
            continue
        at = index[row.item.id], orders.index(row.order)
        for p, pass_no in enumerate(passes):
            verdict = row.at(pass_no)
            if verdict is not None:
                given[*at, p] = True
                scale[*at, p] = _on_scale(data.pair, verdict)
    return Pairs(tuple(items.values()), tuple(orders), given, scale)


def _on_scale(pair: PairScale, verdict: str) -> int:
    if verdict not in pair.sides:
        raise ValueError(f"a verdict that is not on the scale: {verdict}")
    return pair.sides[verdict]


def usable(
    data: StudyInput, pairs: Pairs | Refusal, *, reads_missing: str, partial: bool = False
) -> Pairs | Refusal:
    """The items that a metric may look at, by the registered rule for missing verdicts.

    Parameters
    ----------
    data
        The run.
    pairs
        The items; a refusal is handed on.
    reads_missing
        What `missing: disagree` makes of a trial without a verdict, for the reader.
    partial
        Whether an item says something even where some of its verdicts are missing.

    Returns
    -------
    Pairs or Refusal
        `disagree` leaves every item in, and it is for the metric to do as `reads_missing` says;
        `exclude` takes out those that lack a verdict. Refused, in this order: `nothing_scored`
        (some order and pass has no verdict at all or, unless `partial`, no item has all of its
        verdicts), `missing_verdict`.
    """
    if isinstance(pairs, Refusal):
        return pairs
    n, cells = len(pairs.items), pairs.given[0].size if pairs.items else 0
    gaps = n * cells - int(pairs.given.sum())
    said = f"{gaps} of {n * cells} trials have no verdict"
    if not pairs.given.any(axis=0).all():
        return Refusal("nothing_scored", f"{said}; some order has none in a pass")
    if not partial and not pairs.complete.any():
        return Refusal("nothing_scored", f"{said}; no item has a verdict in every order and pass")
    if not gaps:
        return pairs
    if data.missing == "undefined":
        return Refusal("missing_verdict", said)
    if data.missing == "disagree":
        return pairs.only(np.ones(n, dtype=np.bool_), f"{said}; {reads_missing}")
    out = n - int(pairs.complete.sum())
    return pairs.only(pairs.complete, f"{said}; {out} of {n} items left out")


@dataclass(frozen=True)
class SwapTable:
    """Verdicts in order ab against those in order ba, as the judge said them.

    Both are said of the answers as shown, so that a judge that looks only at the answers fills
    the diagonal from one corner to the opposite one, and one that looks only at the slot fills
    the cells in which both verdicts are the same.

    Attributes
    ----------
    set, pass_no
        The item set and the pass.
    stratum
        The stratum of its items; None = every item of the set.
    verdicts
        The names of both the rows (ab) and the columns (ba): the judge's list, then None for "no
        verdict".
    counts
        `counts[i][j]` = items with `verdicts[i]` in order ab and `verdicts[j]` in order ba.
    """

    set: SetRole
    pass_no: int
    stratum: str | None
    verdicts: tuple[str | None, ...]
    counts: tuple[tuple[int, ...], ...]

    @property
    def n(self) -> int:
        """How many items the table holds."""
        return sum(map(sum, self.counts))

    def count(self, first: str | None, second: str | None) -> int:
        """Items with these verdicts in ab and in ba (None = no verdict)."""
        return self.counts[self.verdicts.index(first)][self.verdicts.index(second)]


def swap_tables(data: StudyInput, role: SetRole, pass_no: int) -> tuple[SwapTable, ...]:
    """The full cross-tabulation of the two orders in a pass, of a set and of each of its strata.

    Parameters
    ----------
    data
        The run.
    role
        The item set.
    pass_no
        The pass, 1 to `data.passes`.

    Returns
    -------
    tuple of SwapTable
        First every item of the set, then each stratum that some item has, as first met. Empty
        when the judge was asked in one order, when its verdicts are not said of two answers, and
        when the set has no item.
    """
    said = _said(data, rows_of(data, role), pass_no)
    if not said:
        return ()
    strata = dict.fromkeys(item.stratum for item, _ in said if item.stratum is not None)
    tables = [_table(data, role, pass_no, None, [cell for _, cell in said])]
    for stratum in strata:
        cells = [cell for item, cell in said if item.stratum == stratum]
        tables.append(_table(data, role, pass_no, stratum, cells))
    return tuple(tables)


Cell = tuple[str | None, str | None]


def _said(data: StudyInput, rows: Sequence[Row], pass_no: int) -> list[tuple[ItemView, Cell]]:
    """Of each item the verdicts in ab and ba, as the judge said them; none where one is missing.

    Turning a mapped verdict round once more gives what was said: the scale is symmetric.
    """
    pair = data.pair
    if pair is None or not all(order in data.orders for order in BOTH):
        return []
    found: dict[str, dict[Order, str | None]] = {}
    for row in rows:
        verdict = row.at(pass_no)
        said = None if verdict is None else pair.mapped(verdict, row.order)
        found.setdefault(row.item.id, {})[row.order] = said
    items = {row.item.id: row.item for row in rows}
    return [(item, (found[i]["ab"], found[i]["ba"])) for i, item in items.items()]


def _table(
    data: StudyInput, role: SetRole, pass_no: int, stratum: str | None, cells: Sequence[Cell]
) -> SwapTable:
    names: tuple[str | None, ...] = (*data.verdicts, None)
    counted = Counter(cells)
    counts = tuple(tuple(counted[one, other] for other in names) for one in names)
    return SwapTable(role, pass_no, stratum, names, counts)
