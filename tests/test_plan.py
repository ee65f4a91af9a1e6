"""The plan: every trial once, in an order that the registration and the files alone decide."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from prereg_judge.flow.views import trial_of
from prereg_judge.items import Item, ItemSet
from prereg_judge.plan import Plan, trial_key
from prereg_judge.study.outcomes import TrialKey
from prereg_judge.words import Order, SetRole

IDS = st.lists(st.text(min_size=1, max_size=6), min_size=1, max_size=5, unique=True)
ORDERS: st.SearchStrategy[list[Order]] = st.sampled_from([["ab"], ["ab", "ba"], ["ba"]])


def item_set(role: SetRole, ids: list[str]) -> ItemSet:
    """A set of rows with these ids."""
    items = tuple(Item(i, {}, None, None, None, n) for n, i in enumerate(ids, start=1))
    return ItemSet(role, f"{role}.jsonl", "0" * 64, 0, items)


def test_the_order_by_example() -> None:
    """Pass by pass, sentinels first, rows in file order, the orders of a row side by side."""
    sets = [item_set("real", ["x"]), item_set("sentinel", ["b", "a"])]
    plan = list(Plan(sets, orders=["ab", "ba"], passes=2))
    assert [t.key for t in plan] == [
        f"{row}/{order}/{pass_no}"
        for pass_no in (1, 2)
        for row in ("sentinel/b", "sentinel/a", "real/x")
        for order in ("ab", "ba")
    ]
    assert [t.index for t in plan] == list(range(12))


@given(IDS, IDS, ORDERS, st.integers(1, 3), st.booleans())
def test_every_trial_once(
    sentinels: list[str], real: list[str], orders: list[Order], passes: int, turned: bool
) -> None:
    """Whatever the ids are, keys are distinct and the order of the sets given does not matter."""
    sets = [item_set("sentinel", sentinels), item_set("real", real)]
    plan = list(Plan(sets[::-1] if turned else sets, orders=orders, passes=passes))
    assert plan == list(Plan(sets, orders=orders, passes=passes))
    assert len(plan) == (len(sentinels) + len(real)) * len(orders) * passes
    assert len({t.key for t in plan}) == len(plan)
    per_pass = len(plan) // passes
    first = [(t.set, t.item.id, t.order) for t in plan[:per_pass]]
    for number in range(passes):
        part = plan[number * per_pass : (number + 1) * per_pass]
        assert {t.pass_no for t in part} == {number + 1}
        assert [(t.set, t.item.id, t.order) for t in part] == first


@given(st.text(), st.sampled_from(["ab", "ba"]), st.integers(1, 99))
def test_a_key_is_read_back(item_id: str, order: Order, pass_no: int) -> None:
    """Also with slashes in the id, a key says which trial it is."""
    for role in ("sentinel", "real"):
        key = TrialKey(role, item_id, order, pass_no)
        assert trial_of(trial_key(role, item_id, order, pass_no)) == key
        assert str(key) == trial_key(role, item_id, order, pass_no)
