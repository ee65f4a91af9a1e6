"""Labellings joined over files and counted: against a count by hand, row by row."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations, product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from labelling_files import load, marks_of, refusal, span, write_rows
from prereg_judge.canon import sha256_bytes
from prereg_judge.errors import InputError
from prereg_judge.labelled import Labelled, Match
from prereg_judge.labellings.counting import count_marks
from prereg_judge.labellings.form import FileForm
from prereg_judge.labellings.marks import Mark
from prereg_judge.labellings.table import LabellingTable, labelled_of

Rows = list[dict[str, Any]]
TWO = FileForm("a.jsonl", "rows", {"A": "a", "B": "b"}, item="id")
THIRD = FileForm("b.jsonl", "rows", {"C": "c"}, item="name")


def of_rows(folder: Path, rows: list[dict[str, Any]], **changed: Any) -> LabellingTable:
    """The table of one file with these rows and labellings A and B."""
    write_rows(folder / "a.jsonl", rows)
    return load(folder, FileForm(**{**vars(TWO), **changed}))


def counts(table: LabellingTable, merge: dict[str, str] | None = None) -> Labelled:
    """The counts of all labellings."""
    return labelled_of(table, names=table.names, merge=merge)


def test_counts_of_a_small_table(tmp_path: Path) -> None:
    """Two rows counted by hand: strict, relaxed and coarse, marks given twice once."""
    rows = [
        {"id": 1, "a": [[0, 5, "x"], [0, 5, "x"], [7, 9, "y"]], "b": [[0, 5, "y"], [7, 9, "y"]]},
        {"id": 2, "a": [[0, 5, "z"]], "b": None},
    ]
    table = of_rows(tmp_path, rows)
    assert table.left_out == {"mark that its row gives twice": 1}
    found = counts(table, {"x": "xy", "y": "xy"})
    assert found.names == ("A", "B")
    assert found.items == ("1", "2")
    assert found.given.tolist() == [[True, True], [True, False]]
    assert found.shared["strict"].tolist() == [[[2, 1], [1, 2]], [[1, 0], [0, 0]]]
    assert found.shared["relaxed"].tolist() == [[[2, 2], [2, 2]], [[1, 0], [0, 0]]]
    assert found.shared["coarse"].tolist() == [[[2, 2], [2, 2]], [[1, 0], [0, 0]]]
    assert found.typed == (True, True)
    confused = found.confusions
    assert confused.types == ("x", "y", "z")
    assert [confused.row.tolist(), confused.first.tolist(), confused.second.tolist()] == [
        [0],
        [0],
        [1],
    ]
    assert [confused.first_type.tolist(), confused.second_type.tolist()] == [[0], [1]]
    assert confused.hidden.tolist() == [True]
    assert counts(table).matches == ("strict", "relaxed")
    assert counts(table).confusions.hidden.tolist() == [False]


def test_marks_without_types(tmp_path: Path) -> None:
    """A labelling without types shares places only, and is never a confusion; one without marks
    lacks no type."""
    rows = [{"id": 1, "a": [[0, 5, "x"]], "b": [[0, 5]], "c": []}]
    table = of_rows(tmp_path, rows, labellings={"A": "a", "B": "b", "C": "c"})
    found = counts(table, {"x": "y"})
    assert found.typed == (True, False, True)
    assert found.shared["strict"][0].tolist() == [[1, 0, 0], [0, 1, 0], [0, 0, 0]]
    assert found.shared["coarse"][0].tolist() == [[1, 0, 0], [0, 1, 0], [0, 0, 0]]
    assert found.shared["relaxed"][0].tolist() == [[1, 1, 0], [1, 1, 0], [0, 0, 0]]
    assert len(found.confusions.row) == 0


def test_several_types_at_one_place(tmp_path: Path) -> None:
    """Types that both have there are no confusion; the others are paired with each other."""
    rows = [
        {"id": 1, "a": [[0, 5, t] for t in "xyz"], "b": [[0, 5, t] for t in "zvw"]},
        {"id": 2, "a": [[0, 5, "x"]], "b": [[0, 5, "x"], [0, 5, "y"]]},
    ]
    found = counts(of_rows(tmp_path, rows), {"x": "w"})
    confused = found.confusions
    names = np.array(confused.types)
    pairs = zip(
        names[confused.first_type].tolist(),
        names[confused.second_type].tolist(),
        confused.hidden.tolist(),
        strict=True,
    )
    assert set(pairs) == {
        ("x", "v", False),
        ("x", "w", True),
        ("y", "v", False),
        ("y", "w", False),
    }
    assert confused.row.tolist() == [0, 0, 0, 0]
    assert found.shared["coarse"].tolist() == [[[3, 2], [2, 3]], [[1, 1], [1, 2]]]


def test_single_labels(tmp_path: Path) -> None:
    """A label is one mark of its row: shared where it is the same, a confusion where it is not."""
    rows = [{"id": 1, "a": "x", "b": "x"}, {"id": 2, "a": "x", "b": "y"}, {"id": 3, "a": "x"}]
    write_rows(tmp_path / "a.jsonl", rows)
    found = counts(load(tmp_path, TWO, form="labels"), {"x": "y"})
    assert found.form == "labels"
    assert found.shared["strict"][:, 0, 1].tolist() == [1, 0, 0]
    assert found.shared["strict"][:, 0, 0].tolist() == [1, 1, 1]
    assert found.shared["coarse"][:, 0, 1].tolist() == [1, 1, 0]
    assert found.given[:, 1].tolist() == [True, True, False]
    assert found.confusions.row.tolist() == [1]
    assert found.confusions.hidden.tolist() == [True]


SETS = st.frozensets(
    st.builds(
        Mark,
        st.sampled_from([((0, 1),), ((0, 2),), ((0, 1), (3, 4))]),
        st.sampled_from(["x", "y", "z", ""]),
    ),
    max_size=4,
)
ROWS = st.lists(st.tuples(*[st.one_of(st.none(), SETS)] * 3), min_size=1, max_size=6)


@given(rows=ROWS)
def test_counts_by_hand(rows: list[tuple[frozenset[Mark] | None, ...]]) -> None:
    """For any sets of marks, counts and confusions are those of sets compared one by one."""
    merge = {"x": "y", "z": "w"}
    found = count_marks(rows, merge=merge)
    keys: dict[Match, Callable[[Mark], object]] = {
        "strict": lambda m: m,
        "relaxed": lambda m: m.place,
        "coarse": lambda m: (m.place, merge.get(str(m.type), m.type)),
    }
    for match, key in keys.items():
        for at, row in enumerate(rows):
            for one, other in product(range(3), repeat=2):
                both = {key(m) for m in row[one] or ()} & {key(m) for m in row[other] or ()}
                assert found.shared[match][at, one, other] == len(both)
    expected = set()
    for at, row in enumerate(rows):
        for one, other in combinations(range(3), 2):
            first, second = row[one] or frozenset(), row[other] or frozenset()
            expected |= {
                (at, one, other, a.place, a.type, b.type)
                for a, b in product(first - second, second - first)
                if a.place == b.place
            }
    confused = found.confusions
    told = [
        (row, first, second, confused.types[a], confused.types[b])
        for row, first, second, a, b in zip(
            confused.row.tolist(),
            confused.first.tolist(),
            confused.second.tolist(),
            confused.first_type.tolist(),
            confused.second_type.tolist(),
            strict=True,
        )
    ]
    assert sorted(told) == sorted((*one[:3], *one[4:]) for one in expected)
    hidden = [merge.get(a, a) == merge.get(b, b) for *_, a, b in told]
    assert confused.hidden.tolist() == hidden


def test_rows_of_one_item(tmp_path: Path) -> None:
    """The four policies on copies: by text, a row given or not is a difference, types too."""
    one, other = [[0, 1, "x"]], [[0, 1, "y"]]
    rows = [
        {"id": 1, "t": "same", "a": one, "b": one},
        {"id": 2, "t": "alone", "a": one, "b": one},
        {"id": 3, "t": "same", "a": one, "b": [*one, *one]},
        {"id": 4, "t": "same", "a": one, "b": other},
        {"id": 5, "t": "two", "a": one, "b": []},
        {"id": 6, "t": "two", "a": one, "b": None},
    ]
    found = counts(of_rows(tmp_path, rows, same="t"))
    assert found.unit.tolist() == [0, 1, 0, 0, 2, 2]
    assert found.copies == 5
    kept = {policy: rows.tolist() for policy, rows in found.kept.items()}
    assert kept == {
        "keep_all": [True] * 6,
        "first": [True, True, False, False, True, False],
        "drop": [False, True, False, False, False, False],
        "merge_equal": [True, True, False, True, True, True],
    }
    only = labelled_of(of_rows(tmp_path, rows, same="t"), names=["A"], merge=None)
    assert only.kept["merge_equal"].tolist() == [True, True, False, False, True, False]


def test_rows_of_one_name(tmp_path: Path) -> None:
    """Without a column of what copies share, rows of one name are copies."""
    rows = [{"id": "p", "a": [], "b": []}, {"id": "q", "a": [], "b": []}] * 2
    table = of_rows(tmp_path, rows)
    assert [row.line for row in table.rows] == [1, 2, 3, 4]
    assert counts(table).unit.tolist() == [0, 1, 0, 1]


def test_what_copies_share_is_no_item(tmp_path: Path) -> None:
    """A text that reads as another item's name does not make a copy of it."""
    write_rows(tmp_path / "a.jsonl", [{"id": "p", "t": "q", "a": [], "b": []}])
    write_rows(tmp_path / "b.jsonl", [{"name": "p", "c": []}, {"name": "q", "c": []}])
    table = load(tmp_path, FileForm(**{**vars(TWO), "same": "t"}), THIRD)
    assert counts(table).unit.tolist() == [0, 1]


def test_files_are_joined_by_item(tmp_path: Path) -> None:
    """Rows, sentences and documents of one name are one row; what a file lacks is not given."""
    rows: Rows = [{"id": at, "s": "s1", "a": [[0, 1, "x"]], "b": []} for at in (2, 1)]
    write_rows(tmp_path / "a.jsonl", rows)
    (tmp_path / "c.conll").write_text("w B-x\n\nw O\n\nw B-y\n", encoding="utf-8")
    (tmp_path / "ann").mkdir()
    (tmp_path / "ann/1.ann").write_text("T1\tx 0 1\tw\n", encoding="utf-8")
    table = load(
        tmp_path,
        FileForm(**{**vars(TWO), "stratum": "s"}),
        FileForm("c.conll", "conll", {"C": 2}, tags="iob2"),
        FileForm("ann", "brat", {"D": "."}),
    )
    assert table.names == ("A", "B", "C", "D")
    assert [(row.item, row.stratum, row.line) for row in table.rows] == [
        ("2", "s1", 1),
        ("1", "s1", 2),
        ("3", None, 5),
    ]
    assert marks_of(table, "C") == {"2": set(), "1": {span(0, 1, "x")}, "3": {span(0, 1, "y")}}
    assert marks_of(table, "D") == {"2": None, "1": {span(0, 1, "x")}, "3": None}
    assert counts(table).given.tolist() == [
        [True, True, True, False],
        [True, True, True, True],
        [False, False, True, False],
    ]
    assert [file.shown for file in table.files] == ["a.jsonl", "c.conll", "ann/1.ann"]
    assert table.files[0].sha256 == sha256_bytes((tmp_path / "a.jsonl").read_bytes())
    assert table.types == ("x", "y")


def test_strata_that_differ(tmp_path: Path) -> None:
    """An item with two strata is refused, between rows and between files, with both lines."""
    rows: Rows = [{"id": "p", "s": s, "a": [], "b": []} for s in ("u", "v")]
    write_rows(tmp_path / "a.jsonl", rows)
    first = FileForm(**{**vars(TWO), "stratum": "s"})
    assert refusal(tmp_path, first) == [
        "a.jsonl:2: s: the item 'p' has 'u' on line 1 (found 'v'). "
        "Give all rows of an item the same stratum"
    ]
    write_rows(tmp_path / "a.jsonl", rows[:1])
    write_rows(tmp_path / "b.jsonl", [{"name": "p", "c": [], "g": None}, {"name": "q", "g": "u"}])
    said = refusal(tmp_path, first, FileForm(**{**vars(THIRD), "stratum": "g"}))
    assert said[0].startswith("b.jsonl:1: g: the item 'p' has 'u' on line 1 of a.jsonl (found None")


def test_copies_may_lie_in_two_strata(tmp_path: Path) -> None:
    """Rows of other names that share a text are copies, each in its own stratum."""
    rows: Rows = [{"id": s, "s": s, "t": "one", "a": [], "b": []} for s in ("u", "v")]
    found = counts(of_rows(tmp_path, rows, same="t", stratum="s"))
    assert found.unit.tolist() == [0, 0]
    assert found.strata == ("u", "v")


def test_joins_that_are_refused(tmp_path: Path) -> None:
    """Names that stand twice where files are joined, files that share no item, and rows of one
    name that share no text are refused."""
    write_rows(tmp_path / "a.jsonl", [{"id": "p", "a": [], "b": []}] * 2)
    write_rows(tmp_path / "b.jsonl", [{"name": "p", "c": []}])
    assert "a.jsonl:2: id: the item stands on line 1 already" in refusal(tmp_path, TWO, THIRD)[0]
    write_rows(tmp_path / "b.jsonl", [{"name": "r", "c": []}])
    write_rows(tmp_path / "a.jsonl", [{"id": "p", "a": [], "b": []}])
    assert refusal(tmp_path, TWO, THIRD) == [
        "a.jsonl: has no item in common with another file (found 'p' here, 'r' elsewhere). "
        "Items of different files are joined by name: write the same names"
    ]
    rows: Rows = [{"id": "p", "t": t, "a": [], "b": []} for t in ("one", "two")]
    write_rows(tmp_path / "a.jsonl", rows)
    said = refusal(tmp_path, FileForm(**{**vars(TWO), "same": "t"}))
    assert "a.jsonl:2: t: the item 'p' has 'one' on line 1 (found 'two')" in said[0]


@pytest.mark.parametrize(
    ("names", "merge", "expected"),
    [
        ([], None, "a.jsonl: no labelling is named. There are A, B"),
        (["A", "b"], None, "is no labelling of these files (found 'b'). Use one of: A, B"),
        (["A", "A"], None, "the labelling is named twice (found 'A')"),
        (["A"], {"Insult": "abuse", "Threet": "abuse"}, "Did you mean Threat?"),
        (["A"], {"Threet": "abuse"}, "merge.Threet: is no type in these files (found 'Threet')"),
        (["A"], {"Insult": "Threat", "Threat": "x"}, "leads to 'Threat', which leads to 'x'"),
    ],
)
def test_what_counts_are_refused(
    tmp_path: Path, names: list[str], merge: dict[str, str] | None, expected: str
) -> None:
    """Unknown labellings, keys of the map that are no type, and chains of it are refused."""
    rows = [{"id": 1, "a": [[0, 1, "Insult"]], "b": [[0, 1, "Threat"]]}]
    table = of_rows(tmp_path, rows)
    with pytest.raises(InputError) as caught:
        labelled_of(table, names=names, merge=merge)
    assert len(caught.value.problems) == 1
    assert expected in str(caught.value)


def test_maps_that_are_allowed(tmp_path: Path) -> None:
    """A type may stay itself by name, be merged into another that stays, and be any labelling's."""
    rows = [{"id": 1, "a": [[0, 1, "x"]], "b": [[0, 1, "e\u0301"]]}]
    table = of_rows(tmp_path, rows)
    for merge in ({"x": "\u00e9"}, {"x": "\u00e9", "\u00e9": "e\u0301"}):
        assert counts(table, merge).shared["coarse"].tolist() == [[[1, 1], [1, 1]]]
    alone = labelled_of(table, names=["A"], merge={"\u00e9": "x"})
    assert alone.shared["coarse"].tolist() == [[[1]]]


def test_a_map_without_types(tmp_path: Path) -> None:
    """Where no mark has a type there is nothing to merge, and a map is refused so."""
    table = of_rows(tmp_path, [{"id": 1, "a": [[0, 1]], "b": []}])
    with pytest.raises(InputError, match="There is no type to merge"):
        counts(table, {"x": "y"})
