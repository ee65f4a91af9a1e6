"""What `prereg lock` refuses of tables: shapes that cannot answer, words that mean nothing.

Each refusal ends with 2, locks nothing, and names the file, the field, what was found and what
would do.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support import prereg, write_items
from tabling import (
    ANNOTATIONS,
    JUDGE,
    VERDICTS,
    VOTES,
    band,
    refused,
    write_registration,
    write_table,
    write_verdicts,
    write_votes,
)

ITEMS = [("aa", "a"), ("ab", "b"), ("b", "bt")]
REG = "registrations/x.yaml"
CHANGED = band("c", "changed.count", [0, 1])
LEAN = band("c", "lean.difference", [-0.1, 0.1], judge="j")
TAU = band("c", "tau", [0.5, 1])
REVERSAL = band("c", "real.order.reversal.count", [0, 1], pass_=1)
BANDS = {"pools": CHANGED, "judge-pools": LEAN, "leaderboard": TAU, "pairwise": REVERSAL}


def files(root: Path) -> Path:
    """Votes by two pools on three items, and a judge's verdicts on them."""
    write_votes(root, ITEMS)
    write_verdicts(root, "aab", "abb")
    return root


def told(**keys: Any) -> dict[str, Any]:
    """The usual annotations with some keys changed, or left out where None."""
    return {k: v for k, v in {**ANNOTATIONS, **keys}.items() if v is not None}


def judge(**keys: Any) -> dict[str, Any]:
    """The usual judge with some keys changed, or left out where None."""
    return {k: v for k, v in {**JUDGE, **keys}.items() if v is not None}


def register(root: Path, study: str, **keys: Any) -> None:
    """Write `x` with a band that its study has, unless claims are given."""
    write_registration(root, "x", study, **{"bands": [BANDS[study]], **keys})


def columns(**roles: str) -> dict[str, str]:
    """Columns of a long table."""
    return {"item": "item", "annotator": "who", "label": "label", **roles}


# --- Tables that cannot answer the question -------------------------------------------------------


def test_people_who_rate_conversations_of_their_own(tmp_path: Path) -> None:
    """As in PRISM: no item is rated by two pools; the message counts what each pool rated."""
    rows = [(f"conversation-{n}", f"{p}-{n}", p, "a") for n in range(3) for p in ("uk", "us")]
    rows = [(f"{item}-{pool}", who, pool, label) for item, who, pool, label in rows]
    write_table(tmp_path / VOTES, ("item", "who", "pool", "label"), rows)
    pools = [{"name": p, "match": p} for p in ("uk", "us")]
    register(
        tmp_path,
        "pools",
        annotations=told(columns=columns(pool="pool"), labels={"a": "a", "b": "b"}, pools=pools),
    )
    refused(
        tmp_path,
        f"{VOTES}: no item is rated by two pools",
        "uk rated 3 items, us rated 3 items; none is shared",
        "use a table that has some",
    )


def test_ratings_without_an_annotator(tmp_path: Path) -> None:
    """As in HelpSteer2: no column says who voted, whether it is named or not."""
    rows = [{"prompt": f"p{n}", "response": "r", "helpfulness": n % 5} for n in range(3)]
    write_items(tmp_path / "data/steer.jsonl", rows)
    named = {"item": "prompt", "annotator": "annotator", "label": "helpfulness"}
    table = told(file="data/steer.jsonl", columns=named, labels=None, split="exclude")
    register(tmp_path, "pools", annotations=table)
    refused(
        tmp_path,
        "data/steer.jsonl: there is no column 'annotator', which would say who gave each vote",
        "HelpSteer2",
        "cannot tell pools apart",
    )
    del named["annotator"]
    register(tmp_path, "pools", annotations={**table, "columns": named})
    refused(tmp_path, f"{REG}:", "annotations.columns", "annotator")


def test_pairs_that_are_shared_under_the_other_key_only(tmp_path: Path) -> None:
    """Pools that share pairs stored the other way round are told which key would do."""
    rows = [
        *(("i", f"crowd-{n}", "crowd", "a", "m1", "m2") for n in range(2)),
        ("i", "expert-0", "expert", "b", "m2", "m1"),
    ]
    write_table(tmp_path / VOTES, ("item", "who", "pool", "label", "first", "second"), rows)
    register(tmp_path, "pools")
    refused(tmp_path, "no item is rated by two pools", "under the key `unordered`, 1 is shared")


# --- Votes ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        (
            {"pools": [{"name": "crowd", "match": "crowd"}, {"name": "expert", "match": "Expert"}]},
            (
                f"{VOTES}: pools.expert: the pattern matches no annotator",
                "'Expert'",
                "crowd",
                "upper and lower case differ",
            ),
        ),
        (
            {"pools": [{"name": "crowd", "match": "*"}, {"name": "expert", "match": "expert"}]},
            (f"{VOTES}:", "belongs to the pools crowd and expert", "matches those of one pool"),
        ),
        (
            {"labels": {"a": "a", "b": "b"}},
            (f"{VOTES}:", "label", "'t'", "a, b"),
        ),
        (
            {"columns": {**ANNOTATIONS["columns"], "label": "lable"}},
            (f"{VOTES}: there is no column 'lable'", "did you mean label?"),
        ),
        (
            {"pools": [{"name": "crowd", "match": "crowd"}]},
            (f"{REG}:", "annotations.pools", "2"),
        ),
        (
            {"pools": [{"name": "crowd", "match": "crowd"}, {"name": "crowd", "match": "expert"}]},
            (f"{REG}:", "annotations.pools", "the two pools have one name", "give each its own"),
        ),
        (
            {"file": "data/vote.csv"},
            (
                f"{REG}:",
                "annotations.file",
                "the file of votes does not exist",
                "data/vote.csv",
                f"did you mean {VOTES}",
            ),
        ),
        ({"key": "sorted"}, (f"{REG}:", "annotations.key", "stored", "unordered")),
        ({"key": None}, (f"{REG}:", "annotations.key", "missing")),
        ({"split": None}, (f"{REG}:", "annotations.split", "missing")),
        (
            {"layout": "mt-bench"},
            (f"{REG}:", "annotations.columns", "the layout mt-bench has its own", "leave it out"),
        ),
        (
            {"sample": {"items": 9, "seed": 1}},
            (
                f"{REG}:",
                "annotations.sample.items",
                "3 items are rated by every pool, so 9 cannot be sampled",
            ),
        ),
        (
            {"gap": "column"},
            (f"{REG}:", "annotations.gap", "no column holds the gap", "columns.gap"),
        ),
    ],
)
def test_annotations_that_are_wrong(
    changed: dict[str, Any], says: tuple[str, ...], tmp_path: Path
) -> None:
    """Pools, words, columns, keys and files that are wrong are named, with what would do."""
    files(tmp_path)
    register(tmp_path, "pools", annotations=told(**changed))
    refused(tmp_path, *says)


def test_a_vote_twice_and_a_model_against_itself(tmp_path: Path) -> None:
    """Every wrong row of the votes is named with its line, all at once."""
    rows = [
        ("i0", "crowd-0", "crowd", "a", "m1", "m2"),
        ("i0", "crowd-0", "crowd", "b", "m1", "m2"),
        ("i0", "expert-0", "expert", "b", "m1", "m2"),
        ("i1", "expert-0", "expert", "b", "m1", "m1"),
    ]
    write_table(tmp_path / VOTES, ("item", "who", "pool", "label", "first", "second"), rows)
    register(tmp_path, "pools")
    refused(tmp_path, f"{VOTES}:5:", "m1")
    write_table(tmp_path / VOTES, ("item", "who", "pool", "label", "first", "second"), rows[:3])
    refused(tmp_path, f"{VOTES}:3:", "has voted on the item 'i0' before, on line 2", "'crowd-0'")


# --- Judges ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        (
            {"run": "pairs/1"},
            (f"{REG}:", "judges[0]", "needs one source of verdicts", "give either `run` or `file`"),
        ),
        ({"file": None}, (f"{REG}:", "judges[0]", "needs one source of verdicts")),
        ({"pass": 1}, (f"{REG}:", "judges[0].pass", "a file has no passes", "leave it out")),
        ({"words": None}, (f"{REG}:", "judges[0]", "a file needs words")),
        ({"item": None, "says": None}, (f"{REG}:", "a file needs item, says")),
        ({"item": []}, (f"{REG}:", "judges[0].item")),
        ({"models": ["first"]}, (f"{REG}:", "judges[0].models")),
        (
            {"words": {"a": "a", "b": "b"}},
            (
                f"{VERDICTS}:",
                "is no word that means a side",
                "'t'",
                "known words: a, b",
                "add it to `words`",
            ),
        ),
        ({"ab": "ba_", "ba": "ba"}, (f"{VERDICTS}: there is no column 'ba_'", "did you mean ba?")),
        ({"item": ["itme"]}, (f"{VERDICTS}: there is no column 'itme'", "did you mean item?")),
        (
            {"file": "data/verdict.csv"},
            (f"{REG}:", "judges[0].file", "does not exist", f"did you mean {VERDICTS}"),
        ),
    ],
)
@pytest.mark.parametrize("study", ["judge-pools", "pairwise"])
def test_a_judge_that_is_wrong(
    study: str, changed: dict[str, Any], says: tuple[str, ...], tmp_path: Path
) -> None:
    """Sources, columns and words of a judge are checked alike wherever one is compared."""
    files(tmp_path)
    write_verdicts(tmp_path, "aat", "abb")
    register(tmp_path, study, judges=[judge(**changed)])
    refused(tmp_path, *says)


def test_a_run_with_columns_or_without_a_pass(tmp_path: Path) -> None:
    """A run has passes and no columns: each lack, and each surplus, is said."""
    files(tmp_path)
    register(tmp_path, "judge-pools", judges=[{"name": "j", "run": "pairs"}])
    refused(tmp_path, f"{REG}:", "judges[0]", "does not say which pass", "write `pass: 1`")
    run = {"name": "j", "run": "pairs", "pass": 1}
    register(tmp_path, "judge-pools", judges=[{**run, "ab": "ab"}])
    refused(tmp_path, f"{REG}:", "judges[0].ab", "a run needs no columns", "leave it out")
    register(tmp_path, "judge-pools", judges=[{**run, "pass": 0}])
    refused(tmp_path, f"{REG}:", "judges[0].pass")
    register(tmp_path, "judge-pools", judges=[run])
    refused(tmp_path, f"{REG}:", "judges[0].run", "is not a finished run", "'pairs'")


def test_no_item_in_common(tmp_path: Path) -> None:
    """A judge that says nothing about any of the voted items is refused, with its name."""
    files(tmp_path)
    write_table(tmp_path / VERDICTS, ("item", "ab", "ba"), [("other", "a", "a")])
    register(tmp_path, "judge-pools")
    refused(
        tmp_path,
        f"{REG}:",
        "judges[0]",
        f"has no verdict on any item of {VOTES}",
        "'j'",
        "both files must name it alike",
    )


def test_no_verdict_on_an_item_that_both_pools_rated(tmp_path: Path) -> None:
    """Verdicts on items of one pool alone lock, for some could have been on others; the score says
    that nothing could be counted.
    """
    write_votes(tmp_path, [("a", "b"), ("a", "")])
    write_verdicts(tmp_path, ".a")
    register(tmp_path, "judge-pools")
    assert prereg("lock", "x", root=tmp_path).code == 0
    assert prereg("run", "x", root=tmp_path).code == 0
    done = prereg("score", "x", "--json", root=tmp_path)
    assert (done.code, done.json["verdict"]) == (6, "INCONCLUSIVE")


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        (
            [("i0", "m1", "m2", "a"), ("i0", "m1", "m2", "b")],
            (f"{VERDICTS}:3:", "the pair stands before, on line 2", "'i0'", "keep one row"),
        ),
        (
            [("i0", "m1", "m2", "a"), ("i0", "m2", "m1", "b")],
            (f"{VERDICTS}:3:", "the pair stands before, on line 2"),
        ),
        (
            [("i0", "m1", "m1", "a")],
            (
                f"{VERDICTS}:2:",
                "one model stands on both sides",
                "second",
                "'m1'",
                "needs the answers of two models",
            ),
        ),
        ([("i0", "", "m2", "a")], (f"{VERDICTS}:2:", "first", "is missing")),
        ([], (f"{VERDICTS}:", "has no rows", "a row for each pair")),
    ],
)
@pytest.mark.parametrize("study", ["judge-pools", "pairwise"])
def test_rows_of_verdicts_that_are_wrong(
    study: str, rows: list[tuple[str, ...]], says: tuple[str, ...], tmp_path: Path
) -> None:
    """A pair twice, either way round; one model on both sides; no model; no row."""
    files(tmp_path)
    write_table(tmp_path / VERDICTS, ("item", "first", "second", "ab"), rows)
    named = judge(models=["first", "second"], ba=None)
    register(
        tmp_path,
        study,
        judges=[named],
        bands=[band("c", "real.order.slot.rate", [0.1, 0.9], pass_=1)]
        if study == "pairwise"
        else [LEAN],
    )
    refused(tmp_path, *says)


def test_errors_as_json(tmp_path: Path) -> None:
    """With --json a refusal is data on standard output: file, line, field, what and remedy."""
    files(tmp_path)
    register(tmp_path, "pools", annotations=told(labels={"a": "a", "b": "b"}))
    done = prereg("lock", "x", "--json", root=tmp_path)
    assert done.code == 2
    (problem,) = done.json["problems"] if "problems" in done.json else done.json["errors"]
    assert problem["file"] == VOTES


@pytest.mark.parametrize("command", ["probe", "rehearse"])
def test_commands_about_calls(command: str, tmp_path: Path) -> None:
    """What probes, times or plays calls is refused where none is made, and leaves no event."""
    files(tmp_path)
    register(tmp_path, "pools")
    refused(tmp_path, f"{REG}", "makes no call", command=command)
    assert not (tmp_path / "registrations/ledger.jsonl").exists()
