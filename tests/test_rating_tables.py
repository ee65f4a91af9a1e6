"""Ratings from tables of votes and from single labels: keys, scales, maps and adjudication."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from labelling_files import load, write_rows
from prereg_judge.annotation_form import TableForm
from prereg_judge.annotation_pools import Vote
from prereg_judge.annotations import AnnotationTable, keyed_items, load_annotations
from prereg_judge.errors import InputError
from prereg_judge.labellings.form import FileForm
from prereg_judge.labellings.table import LabellingTable
from prereg_judge.rating_tables import (
    Scale,
    load_adjudicated,
    not_rated,
    ratings_of,
    ratings_of_labellings,
)
from prereg_judge.ratings import Ratings
from prereg_judge.tallies import tally, voted_twice

POOLS = {"crowd": ("w*",), "expert": ("x*",)}
COLUMNS = {"item": "pair", "annotator": "who", "label": "vote"}
MODELS = {**COLUMNS, "model_a": "m1", "model_b": "m2"}


def table_of(
    folder: Path, votes: list[tuple[Any, ...]], columns: dict[str, str]
) -> AnnotationTable:
    """The table of a file with a row for each vote, its cells in the order of the columns."""
    path = folder / "votes.csv"
    lines = [",".join(columns.values()), *(",".join(map(str, vote)) for vote in votes)]
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return load_annotations(path, form=TableForm("long", POOLS, columns), shown=path.name)


def made(
    table: AnnotationTable,
    *,
    key: Any = "stored",
    scale: Scale | None = None,
    merge: dict[str, str] | None = None,
    adjudicated: dict[str, str] | None = None,
) -> Ratings:
    """The ratings of a table; what is not said is not registered."""
    return ratings_of(table, key=key, scale=scale, merge=merge, adjudicated=adjudicated)


def named(ratings: Ratings) -> list[tuple[str, str, str, str]]:
    """Item, annotator, pool and label of each rating."""
    return [
        (ratings.items[i], ratings.annotators[a], ratings.pools[p], ratings.labels[c])
        for i, a, p, c in zip(
            ratings.item, ratings.annotator, ratings.pool, ratings.label, strict=True
        )
    ]


WORDS = [
    ("i1", "w2", "mid"),
    ("i1", "x1", "low"),
    ("i2", "w1", "high"),
    ("i2", "w2", "low"),
    ("i2", "x1", "low"),
]


def test_votes_as_ratings(tmp_path: Path) -> None:
    """Items keep the file's order, annotators and labels are sorted, each vote is a rating."""
    columns = {**COLUMNS, "stratum": "topic"}
    table = table_of(tmp_path, [(*vote, "t" + vote[0]) for vote in WORDS], columns)
    found = made(table)
    assert found.items == ("i1", "i2")
    assert found.strata == ("ti1", "ti2")
    assert found.annotators == ("w1", "w2", "x1")
    assert found.pools == ("crowd", "expert")
    assert found.labels == ("high", "low", "mid")
    assert named(found) == [
        ("i1", "w2", "crowd", "mid"),
        ("i1", "x1", "expert", "low"),
        ("i2", "w1", "crowd", "high"),
        ("i2", "w2", "crowd", "low"),
        ("i2", "x1", "expert", "low"),
    ]
    assert not found.ordered
    assert (found.values, found.coarse, found.adjudicated) == (None, None, None)


def test_a_scale_of_order(tmp_path: Path) -> None:
    """Labels stand in the registered order, also those that do not occur."""
    table = table_of(tmp_path, WORDS, COLUMNS)
    found = made(table, scale=Scale(order=("none", "low", "mid", "high")))
    assert found.labels == ("none", "low", "mid", "high")
    assert found.ordered
    assert found.values is None
    assert named(found) == named(made(table))


def test_a_scale_of_values(tmp_path: Path) -> None:
    """Labels stand by their numbers, and each number beside its label."""
    table = table_of(tmp_path, WORDS, COLUMNS)
    found = made(table, scale=Scale(values={"high": 4, "low": -1.5, "mid": 0}))
    assert found.labels == ("low", "mid", "high")
    assert found.ordered
    assert found.values is not None
    assert found.values.tolist() == [-1.5, 0, 4]
    assert named(found) == named(made(table))


@pytest.mark.parametrize(
    ("scale", "expected"),
    [
        (Scale(order=("low", "high")), "votes.csv:2: scale.order: labels that occur have no place"),
        (Scale(values={"low": 1}), "(found 'high', 'mid'). Name every label; the scale has low"),
        (Scale(order=("low", "mid", "low", "high")), "scale.order: stands twice (found 'low')"),
        (Scale(values={"low": 1, "mid": 1, "high": 2}), "scale.values.mid: is the number of 'low'"),
        (Scale(values={"low": 1, "mid": math.nan, "high": 2}), "mid: is no finite number"),
        (Scale(), "scale: needs one of order and values"),
        (Scale(order=("low",), values={"low": 1}), "scale: needs one of order and values"),
    ],
)
def test_scales_that_are_refused(tmp_path: Path, scale: Scale, expected: str) -> None:
    """A scale names each label that occurs once, each with a number of its own."""
    with pytest.raises(InputError) as caught:
        made(table_of(tmp_path, WORDS, COLUMNS), scale=scale)
    assert len(caught.value.problems) == 1
    assert expected in str(caught.value)


def test_a_map(tmp_path: Path) -> None:
    """Each label has its coarse one, or itself; a key that is no label is refused."""
    table = table_of(tmp_path, WORDS, COLUMNS)
    assert made(table, merge={"mid": "some", "high": "some"}).coarse == ("some", "low", "some")
    with pytest.raises(InputError, match=r"merge\.hihg: is no label .* Did you mean high\?"):
        made(table, merge={"hihg": "some"})
    with pytest.raises(InputError, match="leads to 'mid', which leads to 'low'"):
        made(table, merge={"high": "mid", "mid": "low"})


def test_adjudication(tmp_path: Path) -> None:
    """Each item has the adjudicator's label or none; one that nobody gave is a label too."""
    table = table_of(tmp_path, WORDS, COLUMNS)
    told = {"i2": "extreme", "i9": "low", "i8": "unheard"}
    found = made(table, adjudicated=told)
    assert found.labels == ("extreme", "high", "low", "mid")
    assert found.adjudicated is not None
    assert found.adjudicated.tolist() == [-1, 0]
    assert not_rated(told, found) == 2
    assert made(table, adjudicated={"i1": "low"}, merge={"mid": "x"}).coarse == (
        "high",
        "low",
        "x",
    )
    order = ("extreme", "low", "mid", "high")
    assert made(table, adjudicated=told, scale=Scale(order)).labels == order
    with pytest.raises(InputError, match=r"no place in the scale \(found 'extreme'\)"):
        made(table, adjudicated=told, scale=Scale(order[1:]))
    with pytest.raises(InputError, match="no adjudicated item is among the items"):
        made(table, adjudicated={"I1": "low"})


PAIRS = [
    ("q", "w1", "a", "m", "n"),
    ("q", "x1", "b", "n", "m"),
    ("q", "w1", "a", "n", "m"),
    ("r", "w2", "tie", "n", "m"),
    ("r", "x1", "b", "n", "m"),
]


def test_pairs_stored_both_ways_round(tmp_path: Path) -> None:
    """Under `unordered` exchanged votes are turned; the first vote of an annotator counts."""
    table = table_of(tmp_path, PAIRS, MODELS)
    stored = made(table)
    assert stored.labels == ("a", "b", "tie")
    assert stored.items == ("q|m|n", "q|n|m", "r|n|m")
    assert len(stored.item) == 5
    found = made(table, key="unordered")
    assert named(found) == [
        ("q|m|n", "w1", "crowd", "a"),
        ("q|m|n", "x1", "expert", "a"),
        ("r|m|n", "w2", "crowd", "tie"),
        ("r|m|n", "x1", "expert", "a"),
    ]
    assert voted_twice(table, key="unordered", pools=("crowd", "expert")) == 1


def test_adjudicated_pairs(tmp_path: Path) -> None:
    """An adjudicator's label of an exchanged pair is turned with it; two must not contradict."""
    table = table_of(tmp_path, PAIRS, MODELS)
    stored = list(keyed_items(table, key="unordered"))
    told = {"q|n|m": "a", "r|m|n": "b", "s": "a"}
    found = made(table, key="unordered", adjudicated=told)
    assert found.adjudicated is not None
    assert [found.labels[code] for code in found.adjudicated] == ["b", "b"]
    assert not_rated(told, found, stored=stored) == 1
    same = made(table, key="unordered", adjudicated={"q|n|m": "a", "q|m|n": "b"})
    assert same.adjudicated is not None
    assert same.adjudicated.tolist() == [1, -1]
    with pytest.raises(InputError, match=r"is adjudicated another way as 'q\|n\|m', the same pair"):
        made(table, key="unordered", adjudicated={"q|n|m": "a", "q|m|n": "a"})
    for key in ("stored", "unordered"):
        with pytest.raises(InputError, match="label is no side of a pair"):
            made(table, key=key, adjudicated={"q|m|n": "left"})


def test_pairs_with_a_scale(tmp_path: Path) -> None:
    """A scale orders the sides; one that does not occur need not be named."""
    table = table_of(tmp_path, PAIRS[:3], MODELS)
    assert made(table, scale=Scale(order=("b", "a"))).labels == ("b", "a")
    with pytest.raises(InputError, match="no place in the scale"):
        made(table, scale=Scale(order=("a", "tie")))


VOTES = st.dictionaries(
    st.tuples(st.sampled_from("qr"), st.sampled_from(["w1", "w2", "x1"]), st.booleans()),
    st.sampled_from(["a", "b", "tie"]),
    min_size=1,
)


@given(votes=VOTES)
def test_ratings_are_the_counts(votes: dict[tuple[str, str, bool], str]) -> None:
    """Without second votes ratings add up to what tallies count, under either key."""
    lines = enumerate(votes.items(), start=2)
    kept = {(item, who): (turned, label, line) for line, ((item, who, turned), label) in lines}
    table = AnnotationTable(
        file="votes.csv",
        sha256="",
        n_bytes=0,
        layout="long",
        pools=("crowd", "expert"),
        labels=("a", "b", "tie"),
        votes=tuple(
            Vote(item, *(("n", "m") if turned else ("m", "n")), who,
                 "crowd" if who[0] == "w" else "expert", label, None, None, line)
            for (item, who), (turned, label, line) in kept.items()
        ),
        left_out={},
    )  # fmt: skip
    for key in ("stored", "unordered"):
        found = ratings_of(table, key=key, scale=None, merge=None, adjudicated=None)
        counted = tally(table, key=key, pools=("crowd", "expert"))
        assert found.items == counted.items
        summed = np.zeros(counted.counts.shape, dtype=int)
        np.add.at(summed, (found.item, found.pool, found.label), 1)
        assert summed.tolist() == counted.counts.tolist()


LABELS = FileForm("a.jsonl", "rows", {"A": "a", "B": "b", "C": "c"}, item="id", stratum="s")


def labels_of(folder: Path, rows: list[dict[str, Any]]) -> LabellingTable:
    """The table of three labellings with one label an item."""
    write_rows(folder / "a.jsonl", rows)
    return load(folder, LABELS, form="labels")


def rated(table: LabellingTable, pools: dict[str, tuple[str, ...]], **more: Any) -> Ratings:
    """The ratings of labellings; what is not said is not registered."""
    unsaid: dict[str, Any] = {"scale": None, "merge": None, "adjudicated": None}
    return ratings_of_labellings(table, pools=pools, **{**unsaid, **more})


SINGLE: list[dict[str, Any]] = [
    {"id": 1, "s": "u", "a": "z", "b": "x", "c": "rare"},
    {"id": 2, "s": None, "a": None, "b": None, "c": "rare"},
    {"id": 3, "s": "v", "a": "x", "b": None, "c": "x"},
]


def test_single_labels_as_ratings(tmp_path: Path) -> None:
    """Each labelling of a pool is an annotator; what only others labelled is left out."""
    found = rated(labels_of(tmp_path, SINGLE), {"two": ("B",), "one": ("A",)})
    assert found.items == ("1", "3")
    assert found.strata == ("u", "v")
    assert found.annotators == ("A", "B")
    assert found.pools == ("two", "one")
    assert found.labels == ("x", "z")
    assert named(found) == [
        ("1", "A", "one", "z"),
        ("1", "B", "two", "x"),
        ("3", "A", "one", "x"),
    ]


def test_single_labels_with_all_that_is_registered(tmp_path: Path) -> None:
    """Scale, map and adjudication mean what they mean for votes."""
    found = rated(
        labels_of(tmp_path, SINGLE),
        {"all": ("A", "B", "C")},
        scale=Scale(values={"z": 1, "x": 2, "rare": 3}),
        merge={"rare": "x"},
        adjudicated={"3": "z", "7": "x"},
    )
    assert found.items == ("1", "2", "3")
    assert found.labels == ("z", "x", "rare")
    assert found.coarse == ("z", "x", "x")
    assert found.adjudicated is not None
    assert found.adjudicated.tolist() == [-1, -1, 0]
    assert Counter(label for *_, label in named(found)) == {"rare": 2, "x": 3, "z": 1}


@pytest.mark.parametrize(
    ("pools", "expected"),
    [
        ({}, "pools: there is no pool"),
        ({"one": ()}, "pools.one: has no labelling"),
        ({"one": ("D",)}, "pools.one: is no labelling of these files (found 'D')"),
        ({"one": ("A",), "two": ("A",)}, "pools.two: belongs to the pool one too (found 'A')"),
    ],
)
def test_pools_that_are_refused(
    tmp_path: Path, pools: dict[str, tuple[str, ...]], expected: str
) -> None:
    """A pool names labellings of the files, and each labelling is in one pool."""
    with pytest.raises(InputError) as caught:
        rated(labels_of(tmp_path, SINGLE), pools)
    assert len(caught.value.problems) == 1
    assert expected in str(caught.value)


def test_labellings_that_are_no_ratings(tmp_path: Path) -> None:
    """Spans, and items that stand in two rows, are refused."""
    with pytest.raises(InputError, match=r"a\.jsonl:4: the item stands on line 1 already"):
        rated(labels_of(tmp_path, [*SINGLE, SINGLE[0]]), {"one": ("A",)})
    write_rows(tmp_path / "a.jsonl", [{"id": 1, "s": "u", "a": [], "b": [], "c": []}])
    with pytest.raises(InputError, match="these labellings are spans"):
        rated(load(tmp_path, LABELS), {"one": ("A",)})


def adjudicated(folder: Path, text: str, **more: Any) -> dict[str, str]:
    """The labels of an adjudication file with this text."""
    (folder / "adj.csv").write_text(text, encoding="utf-8")
    return load_adjudicated(folder / "adj.csv", item="id", label="said", shown="adj.csv", **more)


def test_adjudication_files(tmp_path: Path) -> None:
    """Labels as they stand, or by the words of the table, from either format."""
    assert adjudicated(tmp_path, "id,said\n7,x\ni2,y\n") == {"7": "x", "i2": "y"}
    words = {"e\u0301": "a", "B": "b", "=": "tie"}
    assert adjudicated(tmp_path, "id,said\n1,\u00e9\n2,=\n", words=words) == {"1": "a", "2": "tie"}
    path = tmp_path / "adj.jsonl"
    write_rows(path, [{"who": 3, "label": 4}])
    assert load_adjudicated(path, item="who", label="label", shown="adj.jsonl") == {"3": "4"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("id,said\n1,x\n2,x\n1,x\n", "adj.csv:4: id: stands on line 2 already (found '1')"),
        ("id,said\n1,\n", "adj.csv:2: said: is missing"),
        ("id,said\n ,x\n", "adj.csv:2: id: is missing"),
        ("id,said\n1,x \n", "adj.csv:2: said: has white space around it"),
        ("id,saids\n1,x\n", "adj.csv: there is no column 'said'. Did you mean saids"),
        ("id,said\n", "adj.csv: the adjudication file holds no labels"),
        ("id,said\n1\n", "adj.csv:2: 1 cells under 2 column names"),
    ],
)
def test_adjudication_files_that_are_refused(tmp_path: Path, text: str, expected: str) -> None:
    """An item with two labels, missing cells and columns, and empty files are told by line."""
    with pytest.raises(InputError) as caught:
        adjudicated(tmp_path, text)
    assert len(caught.value.problems) == 1
    assert expected in str(caught.value)


def test_words_without_a_meaning(tmp_path: Path) -> None:
    """With the table's words another word is refused, with those that are known."""
    with pytest.raises(InputError, match=r"adj\.csv:2: said: has no known meaning \(found 'x'\)"):
        adjudicated(tmp_path, "id,said\n1,x\n", words={"A": "a", "B": "b"})
    with pytest.raises(InputError, match="the adjudication file does not exist"):
        load_adjudicated(tmp_path / "none.csv", item="id", label="said", shown="none.csv")
