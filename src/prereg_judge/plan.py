"""Registration and items to ordered trials (pure).

The order is a function of the registration and the item files alone: within a pass the item
sets one after the other (sentinels first), their rows in file order, the orders of a row next
to each other. Passes follow each other; nothing of one is carried into the next.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import overload

from prereg_judge.items import Item, ItemSet
from prereg_judge.words import Order, SetRole


@dataclass(frozen=True)
class Trial:
    """Item x order x pass; `index` is its place in the plan, counted from 0."""

    index: int
    set: SetRole
    item: Item
    order: Order
    pass_no: int

    @property
    def key(self) -> str:
        """The trial's name in records: `set/item/order/pass`."""
        return trial_key(self.set, self.item.id, self.order, self.pass_no)


def trial_key(role: str, item_id: str, order: str, pass_no: int) -> str:
    """Name of a trial in records; unambiguous because role, order and pass have no slash."""
    return f"{role}/{item_id}/{order}/{pass_no}"


class Plan(Sequence[Trial]):
    """Every trial once, in the order in which it is to be called; made when asked for.

    Parameters
    ----------
    sets
        The item sets.
    orders, passes
        As registered.
    """

    def __init__(self, sets: Sequence[ItemSet], *, orders: Sequence[Order], passes: int) -> None:
        ordered = sorted(sets, key=lambda s: s.role != "sentinel")
        self._rows = [(s.role, item) for s in ordered for item in s.items]
        self._orders, self.passes = tuple(orders), passes

    def find(self, key: str) -> Trial:
        """The trial of a name; `KeyError` if it is not planned."""
        role, rest = key.split("/", 1)
        item_id, order, pass_no = rest.rsplit("/", 2)
        row, place = self._place[role, item_id], self._orders.index(order)
        within = row * len(self._orders) + place
        return self[(int(pass_no) - 1) * self.n_in_pass + within]

    @cached_property
    def _place(self) -> dict[tuple[str, str], int]:
        return {(role, item.id): at for at, (role, item) in enumerate(self._rows)}

    @property
    def n_in_pass(self) -> int:
        """Trials of one pass."""
        return len(self._rows) * len(self._orders)

    def __len__(self) -> int:
        return self.n_in_pass * self.passes

    @overload
    def __getitem__(self, index: int) -> Trial: ...
    @overload
    def __getitem__(self, index: slice) -> list[Trial]: ...
    def __getitem__(self, index: int | slice) -> Trial | list[Trial]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        if not 0 <= index < len(self):
            raise IndexError(index)
        before, within = divmod(index, self.n_in_pass)
        row, order = divmod(within, len(self._orders))
        role, item = self._rows[row]
        return Trial(index, role, item, self._orders[order], before + 1)
