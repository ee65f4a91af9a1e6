"""Tables of votes: three file formats, three layouts, and what cannot answer the question."""

from __future__ import annotations

import csv
import io
import json
from collections import Counter
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from prereg_judge.annotation_form import TableForm
from prereg_judge.annotations import AnnotationTable, load_annotations
from prereg_judge.errors import InputError

Rows = list[dict[str, Any]]
POOLS = {"crowd": ("w*",), "expert": ("x*",)}
COLUMNS = {"item": "pair", "annotator": "who", "label": "vote"}
WORDS = {"A": "a", "B": "b", "=": "tie"}
LONG = TableForm("long", POOLS, COLUMNS, WORDS)
MT_BENCH = TableForm("mt-bench", {"author": ("author_*",), "expert": ("expert_*",)})
MULTIPREF = TableForm(
    "multipref", {"crowd": ("normal",), "expert": ("expert",)}, verdict="overall_pref"
)


def load(
    folder: Path, rows: Rows, form: TableForm = LONG, ending: str = "jsonl"
) -> AnnotationTable:
    """The table of a file with these rows."""
    path = folder / f"votes.{ending}"
    if ending == "jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    elif ending == "csv":
        stream = io.StringIO(newline="")
        writer = csv.DictWriter(stream, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
        path.write_text(stream.getvalue(), encoding="utf-8")
    else:
        pl.DataFrame(rows).write_parquet(path)
    return load_annotations(path, form=form, shown=path.name)


def refusal(folder: Path, rows: Rows, form: TableForm = LONG) -> str:
    """What is said of a table that is refused; it names the file."""
    with pytest.raises(InputError) as caught:
        load(folder, rows, form)
    assert all(problem.file == "votes.jsonl" for problem in caught.value.problems)
    return str(caught.value)


def vote(
    pair: object = "p1", who: object = "w1", given: object = "A", **more: Any
) -> dict[str, Any]:
    """A row of the long form."""
    return {"pair": pair, "who": who, "vote": given, **more}


TWO = [vote(), vote(who="x1", given="=")]


def annotation(evaluator: str | None, given: str | None, **more: Any) -> dict[str, Any]:
    """An annotation as MultiPref has it, without the fields that are not read."""
    return {"evaluator": evaluator, "overall_pref": given, "helpful_pref": "Tie", **more}


def comparison(ident: str, normal: Rows | None, expert: Rows | None) -> dict[str, Any]:
    """A row as MultiPref has it."""
    return {
        "comparison_id": ident,
        "prompt_id": "prompt-1",
        "text": "Why is the sky blue?",
        "source": "a source",
        "model_a": "tulu",
        "model_b": "llama",
        "completion_a": "Because.",
        "completion_b": "It is not.",
        "normal_worker_annotations": normal,
        "expert_worker_annotations": expert,
    }


def judgment(judge: object, winner: str, **changed: Any) -> dict[str, Any]:
    """A row as MT-Bench's human judgments have it."""
    row = {"question_id": 81, "model_a": "gpt-4", "model_b": "alpaca", "winner": winner}
    return {**row, "judge": judge, "turn": 2, **changed}


@pytest.mark.parametrize("ending", ["jsonl", "csv", "parquet"])
def test_the_long_form_in_three_formats(tmp_path: Path, ending: str) -> None:
    """The same rows are the same votes: labels translated, numbers as names, pools by column."""
    columns = {**COLUMNS, "pool": "group", "stratum": "topic", "gap": "apart"}
    form = TableForm("long", {"crowd": ("mturk", "prolific*"), "expert": ("phd",)}, columns, WORDS)
    rows = [
        vote(7, "ann", "A", group="mturk", topic="code", apart=0.5),
        vote(7, "bob", "=", group="phd", topic="code", apart=0.5),
        vote(8, "eve", "B", group="prolific-2", topic="", apart=2),
        vote(8, "joe", "B", group="passer-by", topic="", apart=2),
    ]
    table = load(tmp_path, rows, form, ending)
    assert [(v.item, v.annotator, v.pool, v.label, v.stratum, v.gap) for v in table.votes] == [
        ("7", "ann", "crowd", "a", "code", 0.5),
        ("7", "bob", "expert", "tie", "code", 0.5),
        ("8", "eve", "crowd", "b", None, 2.0),
    ]
    assert table.labels == ("a", "b", "tie")
    assert table.left_out == {"annotator of no pool": 1}


def test_labels_that_are_no_sides(tmp_path: Path) -> None:
    """Without label words and models the labels are counted as they stand, in sorted order."""
    rows = [vote(given="spam"), vote(who="x1", given="ham"), vote(who="other", given="eggs")]
    table = load(tmp_path, rows, TableForm("long", POOLS, COLUMNS))
    assert [v.label for v in table.votes] == ["spam", "ham"]
    assert table.labels == ("ham", "spam")


@pytest.mark.parametrize("ending", ["jsonl", "csv", "parquet"])
def test_mt_bench(tmp_path: Path, ending: str) -> None:
    """An item is a question and a turn with its two models; every kind of tie is a tie."""
    rows = [
        judgment("author_2", "model_a"),
        judgment("expert_17", "tie (inconsistent)"),
        judgment("expert_3", "tie (bothbad)"),
        judgment("expert_4", "tie", turn=1),
        judgment("expert_5", "model_b"),
        judgment("gpt-4", "model_b"),
    ]
    table = load(tmp_path, rows, MT_BENCH, ending)
    assert [(v.item, v.left, v.right, v.pool, v.label) for v in table.votes] == [
        ("81/2", "gpt-4", "alpaca", "author", "a"),
        ("81/2", "gpt-4", "alpaca", "expert", "tie"),
        ("81/2", "gpt-4", "alpaca", "expert", "tie"),
        ("81/1", "gpt-4", "alpaca", "expert", "tie"),
        ("81/2", "gpt-4", "alpaca", "expert", "b"),
    ]
    assert table.left_out == {"annotator of no pool": 1}


def test_mt_bench_with_conversations(tmp_path: Path) -> None:
    """Columns that the layout does not read may hold anything."""
    talk = [{"role": "user", "content": "Hello"}]
    rows = [judgment(j, "tie", conversation_a=talk) for j in ("author_1", "expert_1")]
    assert len(load(tmp_path, rows, MT_BENCH, "parquet").votes) == 2


@pytest.mark.parametrize("ending", ["jsonl", "parquet"])
def test_multipref(tmp_path: Path, ending: str) -> None:
    """The two lists are the pools, five grades are three sides, open preferences are counted."""
    first = comparison(
        "c1",
        [annotation("1", "A-is-clearly-better"), annotation("2", "A-is-slightly-better")],
        [annotation("1", "Tie"), annotation("9", None)],
    )
    second = comparison(
        "c2",
        [annotation("1", "B-is-slightly-better")],
        [annotation("9", "B-is-clearly-better")],
    )
    table = load(tmp_path, [first, second], MULTIPREF, ending)
    assert [(v.item, v.left, v.right, v.annotator, v.pool, v.label) for v in table.votes] == [
        ("c1", "tulu", "llama", "normal/1", "crowd", "a"),
        ("c1", "tulu", "llama", "normal/2", "crowd", "a"),
        ("c1", "tulu", "llama", "expert/1", "expert", "tie"),
        ("c2", "tulu", "llama", "normal/1", "crowd", "b"),
        ("c2", "tulu", "llama", "expert/9", "expert", "b"),
    ]
    assert table.left_out == {"no overall_pref given": 1}


def test_another_preference_of_multipref(tmp_path: Path) -> None:
    """The registered preference is the one that is read."""
    rows = [comparison("c1", [annotation("1", "Tie", helpful_pref="B-is-clearly-better")], None)]
    rows.append(comparison("c2", [annotation("1", "Tie")], [annotation("2", "Tie")]))
    form = TableForm("multipref", MULTIPREF.pools, verdict="helpful_pref")
    assert Counter(v.label for v in load(tmp_path, rows, form).votes) == {"b": 1, "tie": 2}


def test_multipref_as_csv(tmp_path: Path) -> None:
    """Lists that were written into cells as text are not guessed at."""
    path = tmp_path / "votes.csv"
    header = ",".join(comparison("c1", [], []))
    path.write_text(f'{header}\nc1,p,t,s,x,y,a,b,"[{{}}]",[]\n', encoding="utf-8")
    with pytest.raises(InputError, match=r"must be a list of annotations .*CSV cannot hold lists"):
        load_annotations(path, form=MULTIPREF, shown="votes.csv")


def test_ratings_without_annotators(tmp_path: Path) -> None:
    """Aggregated ratings, as in HelpSteer2, are refused with the reason, in any way of asking."""
    rows = [{"prompt": "Hello", "response": "Hi", "helpfulness": 4, "verbosity": 2}]
    columns = {"item": "prompt", "label": "helpfulness"}
    for form in (
        TableForm("long", POOLS, columns),
        TableForm("long", POOLS, {**columns, "annotator": "annotator_id"}),
    ):
        assert "aggregated ratings, such as HelpSteer2's, cannot tell pools apart" in refusal(
            tmp_path, rows, form
        )
    without = [{k: v for k, v in judgment("x", "tie").items() if k != "judge"}]
    said = refusal(tmp_path, without, MT_BENCH)
    assert "no column 'judge', which would say who gave each vote" in said
    assert "aggregated" in said


def test_no_item_rated_by_two_pools(tmp_path: Path) -> None:
    """As in PRISM, where each person rates their own conversations: refused, with the counts."""
    rows = [vote("p1", "w1"), vote("p2", "w1"), vote("p3", "x1"), vote("p4", "w2")]
    said = refusal(tmp_path, rows)
    assert "no item is rated by two pools" in said
    assert "crowd rated 3 items, expert rated 1 items; none is shared" in said


def test_unknown_columns(tmp_path: Path) -> None:
    """Columns that no row has are told once each, with what was probably meant."""
    columns = {"item": "pairs", "annotator": "who", "label": "answer"}
    said = refusal(tmp_path, TWO, TableForm("long", POOLS, columns, WORDS)).splitlines()
    assert said == [
        "votes.jsonl: there is no column 'pairs'. Did you mean pair?",
        "votes.jsonl: there is no column 'answer'. Use one of: pair, who, vote",
    ]


@pytest.mark.parametrize(
    ("row", "said"),
    [
        (vote(pair=None), "pair: is missing"),
        (vote(who=" "), "who: is missing (found ' ')"),
        (vote(given=None), "vote: is missing"),
        (vote(given=True), "vote: must be text or a whole number (found True)"),
        (vote(pair=1.5), "pair: must be text or a whole number (found 1.5)"),
        (vote(who="a\u0007"), "who: holds the control character U+0007"),
        (vote(who="w1\u200b"), "who: holds the invisible character U+200B (ZERO WIDTH SPACE)"),
        (vote(who="w\u200d1"), "who: holds the invisible character U+200D (ZERO WIDTH JOINER)"),
        (vote(pair=" p1"), "pair: has white space around it (found ' p1')"),
        (vote(pair="p1\u3000"), "pair: has white space around it"),
        ("A", "the row is not an object (found 'A')"),
    ],
)
def test_cells_that_are_refused(tmp_path: Path, row: Any, said: str) -> None:
    """Each with its line and column; a vote is never made up or dropped."""
    assert f"votes.jsonl:3: {said}" in refusal(tmp_path, [*TWO, row])


@pytest.mark.parametrize("column", ["group", "topic", "m1", "m2"])
def test_every_name_is_looked_at(tmp_path: Path, column: str) -> None:
    """Pools, strata and models as well as items and annotators: no two that look alike."""
    columns = {**COLUMNS, "pool": "group", "stratum": "topic", "model_a": "m1", "model_b": "m2"}
    form = TableForm("long", {"crowd": ("g1",), "expert": ("g2",)}, columns, WORDS)
    rows = [vote(who=g, group=g, topic="t", m1="x", m2="y") for g in ("g1", "g2")]
    assert len(load(tmp_path, rows, form).votes) == 2
    for added, says in (("\u200b", "holds the invisible character U+200B"), (" ", "has white sp")):
        rows[1] = {**rows[0], "who": "g2", column: f"{rows[0][column]}{added}"}
        assert f"votes.jsonl:2: {column}: {says}" in refusal(tmp_path, rows, form)


def test_names_in_scripts_that_join_letters(tmp_path: Path) -> None:
    """A joiner between Persian letters, or in an emoji, is part of the name and is kept."""
    names = ("w\u0645\u06cc\u200c\u0631", "x\u2764\ufe0f")
    table = load(tmp_path, [vote(who=name) for name in names])
    assert tuple(v.annotator for v in table.votes) == names


def test_white_space_in_labels(tmp_path: Path) -> None:
    """A registered word may have it; of labels counted as they stand, `spam ` would be another."""
    rows = [vote(given="A "), vote(who="x1", given="B")]
    form = TableForm("long", POOLS, COLUMNS, {"A ": "a", "B": "b"})
    assert [v.label for v in load(tmp_path, rows, form).votes] == ["a", "b"]
    said = refusal(tmp_path, rows, TableForm("long", POOLS, COLUMNS))
    assert "votes.jsonl:1: vote: has white space around it (found 'A ')" in said


@pytest.mark.parametrize("gap", [1.1e100, "1e300", 10**200])
def test_gaps_too_large_to_reckon_with(tmp_path: Path, gap: object) -> None:
    """A gap whose square could overflow is refused; the largest one below is kept."""
    form = TableForm("long", POOLS, {**COLUMNS, "gap": "gap"}, WORDS)
    said = refusal(tmp_path, [{**row, "gap": gap} for row in TWO], form)
    assert "votes.jsonl:1: gap: is too large to reckon with" in said
    kept = load(tmp_path, [{**row, "gap": 1e100} for row in TWO], form)
    assert [v.gap for v in kept.votes] == [1e100, 1e100]


@pytest.mark.parametrize("gap", [-0.1, "-1", "NaN", "inf", "far", "1_0", True, [1], 10**400])
def test_gaps_that_are_refused(tmp_path: Path, gap: object) -> None:
    """A gap is a finite number, 0 or above."""
    form = TableForm("long", POOLS, {**COLUMNS, "gap": "gap"}, WORDS)
    said = refusal(tmp_path, [{**row, "gap": gap} for row in TWO], form)
    assert "votes.jsonl:1: gap: must be a number, 0 or above" in said


def test_gap_and_stratum_are_those_of_the_item(tmp_path: Path) -> None:
    """Votes on the same two answers cannot have different gaps or strata, whichever way round."""
    columns = {**COLUMNS, "gap": "gap", "stratum": "topic", "model_a": "m1", "model_b": "m2"}
    form = TableForm("long", POOLS, columns, WORDS)
    rows = [
        vote(gap=0.5, topic="code", m1="x", m2="y"),
        vote(gap=0.4, topic="", m1="y", m2="x", who="x1"),
    ]
    said = refusal(tmp_path, rows, form)
    assert "votes.jsonl:2: gap: the item 'p1' has 0.5 on line 1 (found 0.4)" in said
    assert "votes.jsonl:2: stratum: the item 'p1' has 'code' on line 1 (found None)" in said
    missing = refusal(tmp_path, [vote(topic="a", m1="x", m2="y", gap=None)], form)
    assert "gap: is missing" in missing
    odd = refusal(tmp_path, [vote(topic="a,b", m1="x", m2="y", gap=1)], form)
    assert "topic: cannot be named in a metric (found 'a,b')" in odd


def test_unknown_labels(tmp_path: Path) -> None:
    """Labels that the form does not name are listed with their counts and what is known."""
    rows = [*TWO, vote("p2", given="a"), vote("p3", given="a"), vote("p4", given="both")]
    said = refusal(tmp_path, rows)
    assert said.startswith("votes.jsonl:3: vote: labels without a known meaning")
    assert "(found 'a' in 2, 'both' in 1 votes). Known are A = a, B = b, = = tie;" in said
    other = refusal(tmp_path, [judgment("author_1", "neither")], MT_BENCH)
    assert "winner: labels without a known meaning (found 'neither' in 1 votes)" in other
    assert "`labels`" not in other


def test_pairs_without_label_words(tmp_path: Path) -> None:
    """With models and no label words only a, b and tie say which answer is better."""
    form = TableForm("long", POOLS, {**COLUMNS, "model_a": "m1", "model_b": "m2"})
    rows = [vote(given="a", m1="x", m2="y"), vote(who="x1", given="b", m1="x", m2="y")]
    assert [v.label for v in load(tmp_path, rows, form).votes] == ["a", "b"]
    said = refusal(tmp_path, [*rows, vote("p2", given="left", m1="x", m2="y")], form)
    assert "labels without a known meaning (found 'left' in 1 votes)" in said


def test_a_model_against_itself(tmp_path: Path) -> None:
    """A pair needs two models."""
    said = refusal(tmp_path, [judgment("author_1", "tie", model_b="gpt-4")], MT_BENCH)
    assert "votes.jsonl:1: model_b: the same model as in 'model_a' (found 'gpt-4')" in said


def test_annotations_of_multipref_that_are_refused(tmp_path: Path) -> None:
    """The place inside the list is named."""
    rows = [comparison("c1", [annotation(None, "Tie"), annotation("2", "A")], None)]
    assert "votes.jsonl:1: normal_worker_annotations[0].evaluator: is missing" in refusal(
        tmp_path, rows, MULTIPREF
    )
    rows = [comparison("c1", [annotation("1", "Tie"), annotation("2", "A")], None)]
    said = refusal(tmp_path, rows, MULTIPREF)
    assert "normal_worker_annotations[1].overall_pref: labels without a known meaning" in said
    rows = [{**rows[0], "expert_worker_annotations": ["x"]}]
    assert "expert_worker_annotations[0]: the annotation is not an object" in refusal(
        tmp_path, rows, MULTIPREF
    )


@pytest.mark.parametrize(
    ("form", "said"),
    [
        (TableForm("long", {"one": ("*",)}, COLUMNS), "pools: needs two pools"),
        (TableForm("long", {"one": ("*",), "two": ()}, COLUMNS), "pools.two: has no pattern"),
        (TableForm("long", POOLS, {**COLUMNS, "gaps": "g"}), "columns.gaps: no such role of a"),
        (TableForm("long", POOLS, {**COLUMNS, "gaps": "g"}), "Did you mean gap?"),
        (TableForm("long", POOLS, {**COLUMNS, "label": "pair"}), "one column cannot have two"),
        (TableForm("long", POOLS, {"annotator": "who"}), "Name the column that holds the label"),
        (TableForm("long", POOLS, {**COLUMNS, "model_a": "m"}), "one model of a pair is named"),
        (TableForm("long", POOLS, COLUMNS, {"A": "a", "B": "b", "=": "="}), "labels.=: is no side"),
        (TableForm("long", POOLS, COLUMNS, {"A": "a"}), "no word means a, or none means b"),
        (TableForm("long", POOLS, COLUMNS, verdict="overall_pref"), "verdict: is for the layout"),
        (TableForm("mt-bench", POOLS, COLUMNS), "columns: the layout mt-bench says itself"),
        (TableForm("mt-bench", POOLS, labels=WORDS), "labels: the layout mt-bench says itself"),
        (TableForm("multipref", POOLS), "verdict: say which preference is the vote"),
    ],
)
def test_forms_that_are_refused(tmp_path: Path, form: TableForm, said: str) -> None:
    """What a form leaves out or says twice is told by its field, before the file is looked at."""
    assert said in refusal(tmp_path, TWO, form)


def test_files_without_votes(tmp_path: Path) -> None:
    """No file, no rows, unreadable rows and another ending are refused in the table's own words."""
    path = tmp_path / "none.csv"
    with pytest.raises(InputError, match="the annotator table does not exist"):
        load_annotations(path, form=LONG, shown="none.csv")
    path.write_text("pair,who,vote\n", encoding="utf-8")
    with pytest.raises(InputError, match="the annotator table holds no votes"):
        load_annotations(path, form=LONG, shown="none.csv")
    path.write_text("pair,who,vote\np1,w1\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"none\.csv:2: 2 cells under 3 column names"):
        load_annotations(path, form=LONG, shown="none.csv")
    other = path.rename(tmp_path / "none.xlsx")
    with pytest.raises(InputError, match="unknown kind of annotator table"):
        load_annotations(other, form=LONG, shown="none.xlsx")


def test_an_empty_cell_of_csv_is_missing(tmp_path: Path) -> None:
    """An empty label in CSV is no label, not a column that is not there."""
    path = tmp_path / "votes.csv"
    path.write_text("pair,who,label\np1,w1,\n", encoding="utf-8")
    form = TableForm("long", POOLS, {**COLUMNS, "label": "label"}, WORDS)
    with pytest.raises(InputError, match=r"votes\.csv:2: label: is missing"):
        load_annotations(path, form=form, shown="votes.csv")


def test_names_are_compared_in_one_form_of_unicode(tmp_path: Path) -> None:
    """An accent written as two characters is the same name, in columns, labels and patterns."""
    columns = {**COLUMNS, "annotator": "qu\u00e9"}
    form = TableForm(
        "long", {"one": ("\u00e9*",), "two": ("x",)}, columns, {"\u00e9": "a", "B": "b"}
    )
    rows = [
        {"pair": "p", "que\u0301": "e\u03011", "vote": "e\u0301"},
        {"pair": "p", "que\u0301": "x", "vote": "B"},
    ]
    table = load(tmp_path, rows, form)
    assert [(v.annotator, v.pool, v.label) for v in table.votes] == [
        ("\u00e91", "one", "a"),
        ("x", "two", "b"),
    ]
