"""Published figures of two judges on 1,200 pairs each in both orders (*Whose Gold?*, order swap).

The verdicts are slot letters, as shown to the judge; a full reversal is the same letter twice.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path

import pytest

from prereg_judge.study import pairwise
from prereg_judge.study.outcomes import StudyInput
from study.pairs_made import THREE, get, make, ratio

_CORPORA = os.environ.get("PREREG_CORPORA", Path(__file__).parents[3] / "shared/data")
DATA = Path(_CORPORA) / "order_swap"
Cell = tuple[str, str]

# Published for qwen2.5-7b: said in order ab, said in order ba.
SMALL: dict[Cell, int] = {
    ("A", "A"): 630, ("tie", "A"): 163, ("A", "tie"): 129, ("B", "A"): 104, ("A", "B"): 85,
    ("tie", "tie"): 60, ("B", "B"): 18, ("tie", "B"): 6, ("B", "tie"): 5,
}  # fmt: skip


def _margins() -> StudyInput:
    """Pairs with the published table, whose verdicts need not be at hand."""
    return make([([ab], [ba]) for (ab, ba), n in SMALL.items() for _ in range(n)], pair=THREE)


def _records(judge: str) -> list[dict[str, str]]:
    path = DATA / f"{judge}.jsonl"
    if not path.is_file():
        pytest.skip("the published verdicts are not here: set PREREG_CORPORA")
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def _run(records: list[dict[str, str]]) -> StudyInput:
    """The records as a run of one pass; the category is the stratum."""
    return make(
        [([r["slot_ab"]], [r["slot_ba"]]) for r in records],
        pair=THREE,
        strata=[r["category"] for r in records],
    )


def _check_small(data: StudyInput) -> None:
    """Every figure that is published for qwen2.5-7b, and what follows from them."""
    whole = pairwise.swap_tables(data, "real", 1)[0]
    assert {cell: whole.count(*cell) for cell in SMALL} == SMALL
    assert whole.n == 1200
    assert ratio(data, "order.reversal", pass_=1) == (648, 1200)
    assert ratio(data, "order.consistent", pass_=1) == (249, 1200)
    assert ratio(data, "order.exact", pass_=1) == (249, 1200)
    assert ratio(data, "order.tie_unstable", pass_=1) == (303, 1200)
    assert ratio(data, "order.reversal_decided", pass_=1) == (648, 837)
    slot = get(data, "order.slot.rate", pass_=1)
    # A first: 2 x 630, 163 + 129 beside a tie, 104 + 85 beside a B.
    assert (slot.k, slot.n) == (1741, 1741 + 104 + 85 + 2 * 18 + 6 + 5)
    bias = get(data, "order.bias.difference", pass_=1)
    assert bias.value == pytest.approx((630 - 18) / 1200 / 2 + (163 + 129 - 6 - 5) / 1200 / 4)
    p = get(data, "order.bias.p", pass_=1)
    assert (p.k, p.n) == (630 + 163 + 129, 648 + 303)
    assert p.value is not None
    assert p.value < 1e-100


def test_the_published_table_of_the_small_judge() -> None:
    """From its margins: (A,A) and (B,B) are 648 reversals of 1,200, 249 are consistent."""
    _check_small(_margins())


def test_the_verdicts_of_the_small_judge() -> None:
    """The same from its verdicts, with narrow intervals that hold the values."""
    data = _run(_records("qwen2.5-7b"))
    _check_small(data)
    for name in ("slot.rate", "bias.difference"):
        found = get(data, f"order.{name}", pass_=1)
        assert found.value is not None
        assert found.interval is not None
        assert found.interval.low < found.value < found.interval.high
        assert found.interval.high - found.interval.low < 0.05


def test_the_verdicts_of_the_large_judge_against_plain_counting() -> None:
    """Every figure of qwen2.5-14b, whole and by category, as a loop over its records finds it."""
    records = _records("qwen2.5-14b")
    data = _run(records)
    tables = {table.stratum: table for table in pairwise.swap_tables(data, "real", 1)}
    categories = dict.fromkeys(r["category"] for r in records)
    assert list(tables) == [None, *categories]
    for category, table in tables.items():
        chosen = [r for r in records if category in (None, r["category"])]
        cells = Counter((r["slot_ab"], r["slot_ba"]) for r in chosen)
        assert sum(table.count(*cell) for cell in cells) == table.n == len(chosen)
        assert all(table.count(*cell) == n for cell, n in cells.items())
        n = len(chosen)
        same = cells["A", "A"] + cells["B", "B"]
        turned = cells["A", "B"] + cells["B", "A"]
        expected = {
            "reversal": (same, n),
            "reversal_decided": (same, same + turned),
            "consistent": (turned + cells["tie", "tie"], n),
            "tie_unstable": (n - same - turned - cells["tie", "tie"], n),
        }
        found = {name: ratio(data, f"order.{name}", pass_=1, stratum=category) for name in expected}
        assert found == expected
        letters = Counter(r[slot] for r in chosen for slot in ("slot_ab", "slot_ba"))
        slot = get(data, "order.slot.rate", pass_=1, stratum=category)
        assert (slot.k, slot.n) == (letters["A"], letters["A"] + letters["B"])
    assert ratio(data, "order.reversal", pass_=1) == (426 + 41, 1200)
