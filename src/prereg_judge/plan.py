"""Registration and items to ordered trials (pure).

The order is a function of the registration and the item files alone: within a pass the item
sets one after the other (sentinels first), their rows in file order, the orders of a row next
to each other. Passes follow each other; nothing of one is carried into the next.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

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


def make_plan(sets: Sequence[ItemSet], *, orders: Sequence[Order], passes: int) -> Iterator[Trial]:
    """Yield every trial once, in the order in which it is to be called."""
    index = 0
    for pass_no in range(1, passes + 1):
        for item_set in sorted(sets, key=lambda s: s.role != "sentinel"):
            for item in item_set.items:
                for order in orders:
                    yield Trial(index, item_set.role, item, order, pass_no)
                    index += 1
