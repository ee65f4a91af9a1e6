"""The shipped votes are made by a script, say so, and differ by pool as the page on them says."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from make_votes import POOLS, SEED, VOTES, csv_text, read_pairs

DOCS = (Path(__file__).parents[1] / "docs/pairs.md").read_text(encoding="utf-8")
Row = dict[str, str]
PAIRS = {row["id"]: row for row in read_pairs()}


def vote_rows() -> list[Row]:
    """The rows of the file of votes."""
    with VOTES.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def labelled(pair: Row) -> str:
    """The vote that says what the label says."""
    return "tie" if pair["label"] == "TIE" else pair["label"][0].lower()


def longer(pair: Row) -> str:
    """The vote for the longer answer."""
    return "a" if len(pair["answer_a"]) > len(pair["answer_b"]) else "b"


def majorities(pool: str) -> dict[str, str | None]:
    """Each pair's most frequent label in a pool; None where two are equally frequent."""
    found: dict[str, str | None] = {}
    for ident in PAIRS:
        votes = (r["label"] for r in vote_rows() if (r["item"], r["pool"]) == (ident, pool))
        (first, n), *others = Counter(votes).most_common()
        found[ident] = first if not others or n > others[0][1] else None
    return found


def test_the_votes_are_made_by_the_script() -> None:
    """The script gives the file byte for byte, so that no vote in it is a person's."""
    assert VOTES.read_bytes() == csv_text().encode()


def test_the_votes_say_that_they_are_invented() -> None:
    """Every annotator's name says so, and the page about them in its first sentence, with the seed
    and the tendencies that the script has.
    """
    assert all(row["annotator"].startswith("invented-") for row in vote_rows())
    first = DOCS.split("\n\n")[1]
    assert first.startswith("The votes in `sentinels/requests-votes.csv` are invented:")
    assert str(SEED) in DOCS
    for pool in POOLS:
        followed = [pool.label, pool.length, pool.markdown]
        shares = [f"{share:.0%}" for share in (*followed, 1 - sum(followed))]
        cells = [pool.name, str(pool.annotators), str(pool.per_item), *shares]
        assert f"| {' | '.join(cells)} |" in DOCS


def test_each_pool_votes_on_each_pair() -> None:
    """Three of five and two of three vote on every item, nobody twice, all about equally often."""
    rows = vote_rows()
    assert list(rows[0]) == ["item", "annotator", "pool", "label"]
    assert {row["item"] for row in rows} == set(PAIRS)
    assert {row["label"] for row in rows} == {"a", "b", "tie"}
    assert len({(row["item"], row["annotator"]) for row in rows}) == len(rows) == 64 * 5
    for pool in POOLS:
        mine = [row for row in rows if row["pool"] == pool.name]
        assert set(Counter(row["item"] for row in mine).values()) == {pool.per_item}
        load = Counter(row["annotator"] for row in mine)
        assert len(load) == pool.annotators
        assert max(load.values()) - min(load.values()) <= 3


def test_the_pools_differ_as_the_page_says() -> None:
    """Agreement of two imagined judges with both majorities, for both rules of splits."""
    judges: dict[str, Callable[[Row], str]] = {"the label": labelled, "the longer answer": longer}
    for name, judge in judges.items():
        cells = []
        for split in ("tie", None):
            for pool in POOLS:
                majority = {i: label or split for i, label in majorities(pool.name).items()}
                counted = {i: label for i, label in majority.items() if label is not None}
                hits = sum(label == judge(PAIRS[i]) for i, label in counted.items())
                cells.append(f"{hits}/{len(counted)}")
        assert f"| {name} | {' | '.join(cells)} |" in DOCS
