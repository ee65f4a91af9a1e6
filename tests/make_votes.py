"""Invents the votes in `sentinels/requests-votes.csv`, from the shipped pairs and a fixed seed.

A test makes the file again and compares the bytes, which proves that nobody gave these votes.
Run it to write the file anew after a pair was changed.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

SENTINELS = Path(__file__).parents[1] / "sentinels"
PAIRS = SENTINELS / "requests-pairs-64.jsonl"
VOTES = SENTINELS / "requests-votes.csv"
SEED = 20_240_229
# A vote that follows the label of a slightly better answer is a tie one time in four.
TIE_IF_SLIGHT = 0.25
_MARKDOWN = re.compile(r"(?m)^#+ |^[-*] |\*\*|`")


@dataclass(frozen=True)
class Pool:
    """How the invented annotators of a pool vote.

    Attributes
    ----------
    name
        The pool's name.
    annotators
        How many there are.
    per_item
        How many of them vote on each item.
    label, length, markdown
        Chance that a vote follows the item's label, the longer answer, or the answer with more
        signs of format; the rest of the votes is drawn from a, b and tie, each equally often. A
        vote that would follow length or format, where the answers do not differ in it, follows
        the label.
    """

    name: str
    annotators: int
    per_item: int
    label: float
    length: float
    markdown: float


POOLS = (
    Pool("crowd", annotators=5, per_item=3, label=0.50, length=0.22, markdown=0.13),
    Pool("expert", annotators=3, per_item=2, label=0.84, length=0.05, markdown=0.03),
)


def signs_of_format(text: str) -> int:
    """Headings, list entries, marks of bold type and of code in a text."""
    return len(_MARKDOWN.findall(text))


def votes(pairs: Sequence[Mapping[str, str]]) -> Iterator[tuple[str, str, str, str]]:
    """Item, annotator, pool and label of every vote, item by item.

    Uses nothing of `random` but `random()` and `seed`, whose numbers Python promises to keep.
    """
    draw = random.Random(SEED).random
    for at, pair in enumerate(pairs):
        for pool in POOLS:
            # All teams in turn, so that everybody votes about equally often.
            teams = list(combinations(range(1, pool.annotators + 1), pool.per_item))
            for who in teams[at % len(teams)]:
                yield pair["id"], f"invented-{pool.name}-{who}", pool.name, _vote(pair, pool, draw)


def _vote(pair: Mapping[str, str], pool: Pool, draw: Callable[[], float]) -> str:
    """One vote; it takes two draws, whichever way it goes."""
    what, then = draw(), draw()
    a, b = pair["answer_a"], pair["answer_b"]
    longer = _side(len(a) - len(b))
    formatted = _side(signs_of_format(a) - signs_of_format(b))
    if what < pool.length and longer != "tie":
        return longer
    if pool.length <= what < pool.length + pool.markdown and formatted != "tie":
        return formatted
    if what < pool.length + pool.markdown + pool.label:
        slight = pair["label"].endswith("slightly")
        return "tie" if slight and then < TIE_IF_SLIGHT else _labelled(pair["label"])
    return ("a", "b", "tie")[int(3 * then)]


def _side(difference: int) -> str:
    return "a" if difference > 0 else "b" if difference < 0 else "tie"


def _labelled(verdict: str) -> str:
    return "tie" if verdict == "TIE" else verdict[0].lower()


def read_pairs() -> list[dict[str, str]]:
    """The shipped pairs, as they stand in their file."""
    return [json.loads(line) for line in PAIRS.read_text(encoding="utf-8").splitlines()]


def csv_text() -> str:
    """The whole file of votes."""
    rows = [("item", "annotator", "pool", "label"), *votes(read_pairs())]
    return "".join(",".join(row) + "\n" for row in rows)


if __name__ == "__main__":
    VOTES.write_bytes(csv_text().encode())
