"""`prereg new` for pairs and tables: what flags become, what is asked, what is refused by flag."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cli.test_interactive import _at_a_terminal
from prereg_judge.registration.load import load_registration
from prereg_judge.registration.schema import Registration
from support import FLAGS, REPOSITORY, Done, make_workspace, new, prereg

Flags = dict[str, Any]

VOTES: Flags = {
    "title": "Whose gold?", "seen": "nothing", "resampling": "2000,seed=7",
    "votes": "sentinels/requests-votes.csv", "layout": "long",
    "column": ["item=item,annotator=annotator", "pool=pool", "label=label"],
    "label": ["a=a,b=b", "tie=tie"], "pool": ["expert=expert", "crowd=crowd"], "key": "unordered",
    "split": "exclude",
}  # fmt: skip
VERDICTS: Flags = {
    "verdicts": "qwen=data/v.jsonl", "says": "slots", "word": ["A=a,B=b", "tie=tie"],
    "verdict_columns": "item=id,models=one+two,ab=ab,ba=ba,stratum=kind",
}  # fmt: skip
POOLS: Flags = {**VOTES, "study": "pools", "band": "changed.rate=0.2..0.4"}
JUDGED: Flags = {
    **VOTES, **VERDICTS, "study": "judge-pools", "resolve": "agree_or_tie",
    "band": "lean.difference[judge=qwen]=0.02..0.1",
}  # fmt: skip
ALONE: Flags = {
    **VERDICTS, "study": "pairwise", "title": "Which place?", "seen": "nothing",
    "resampling": "2000,seed=7,by_stratum", "band": "real.order.reversal.rate[pass=1]=0.3..0.6",
}  # fmt: skip
BOARD: Flags = {**VOTES, "study": "leaderboard", "predict": "tau >= 0.6"}
# The usual flags of a judge that is called.
CALLED: Flags = {
    **{flag.removeprefix("--").replace("-", "_"): value for flag, value in FLAGS.items()},
    "sentinel": None, "real": "sentinels/requests-pairs-64.jsonl", "study": "pairwise",
    "judge": "judge/pairwise-five-point.yaml", "resampling": "2000,seed=7",
    "band": "real.order.reversal.rate[pass=1]=0.05..0.25",
}  # fmt: skip


def write(root: Path, flags: Flags, *more: str) -> Done:
    """`prereg new x` with exactly these flags."""
    args = []
    for name, value in flags.items():
        for one in value if isinstance(value, list) else [] if value is None else [value]:
            args += [f"--{name.replace('_', '-')}", one]
    return prereg("new", "x", *args, *more, root=root)


def with_votes(root: Path) -> Path:
    """A workspace that also has the shipped pairs, their judge and the invented votes."""
    make_workspace(root)
    for name in ("sentinels/requests-votes.csv", "sentinels/requests-pairs-64.jsonl",
                 "judge/pairwise-five-point.yaml"):  # fmt: skip
        (root / name).write_bytes((REPOSITORY / name).read_bytes())
    return root


def loaded(root: Path) -> Registration:
    """The registration that was written."""
    return load_registration(root / "registrations/x.yaml", shown="x.yaml").model


def test_votes_of_two_pools(tmp_path: Path) -> None:
    """Every flag about votes stands in the file, and what is written passes every check."""
    root = with_votes(tmp_path / "w")
    done = write(root, {**POOLS, "sample": "40,seed=3"})
    assert done.code == 0, done.err
    told = loaded(root).model_dump(by_alias=True, exclude_none=True)
    assert told["annotations"] == {
        "file": "sentinels/requests-votes.csv", "layout": "long",
        "columns": {"item": "item", "annotator": "annotator", "pool": "pool", "label": "label"},
        "labels": {"a": "a", "b": "b", "tie": "tie"},
        "pools": ({"name": "expert", "match": ("expert",)}, {"name": "crowd", "match": ("crowd",)}),
        "key": "unordered", "split": "exclude", "sample": {"items": 40, "seed": 3},
    }  # fmt: skip
    assert told["resampling"] == {"resamples": 2000, "seed": 7, "by_stratum": False}
    checked = prereg("check", "x", root=root)
    assert checked.code == 0, checked.err


def test_judges_beside_votes(tmp_path: Path) -> None:
    """Runs come first and the file of verdicts behind them, with its columns and words."""
    root = with_votes(tmp_path / "w")
    done = write(root, {**JUDGED, "judge_run": ["small=old:1", "large=old/2:3"]})
    assert done.code == 0, done.err
    model = loaded(root)
    assert (model.resolve, [j.name for j in model.judges]) == (
        "agree_or_tie", ["small", "large", "qwen"]
    )  # fmt: skip
    small, large, qwen = (j.model_dump(by_alias=True, exclude_none=True) for j in model.judges)
    assert small == {"name": "small", "run": "old", "pass": 1}
    assert large == {"name": "large", "run": "old/2", "pass": 3}
    assert qwen == {
        "name": "qwen", "file": "data/v.jsonl", "item": ("id",), "models": ("one", "two"),
        "ab": "ab", "ba": "ba", "stratum": "kind", "says": "slots",
        "words": {"A": "a", "B": "b", "tie": "tie"},
    }  # fmt: skip


def test_verdicts_alone_are_a_study_of_pairs(tmp_path: Path) -> None:
    """With --verdicts a pairwise study calls nothing and needs no flag of a model."""
    root = make_workspace(tmp_path / "w")
    done = write(root, ALONE)
    assert done.code == 0, done.err
    model = loaded(root)
    assert not model.calls
    assert model.resampling is not None
    assert model.resampling.by_stratum


def test_a_board_with_assumed_values(tmp_path: Path) -> None:
    """--assume stands in the file as two shares."""
    root = with_votes(tmp_path / "w")
    done = write(root, {**BOARD, "assume": "span=0.201,shift_sd=0.0187"})
    assert done.code == 0, done.err
    assumed = loaded(root).assumed
    assert assumed is not None
    assert (assumed.span, assumed.shift_sd) == (0.201, 0.0187)


def test_a_judge_of_pairs_is_asked_both_ways_round(tmp_path: Path) -> None:
    """A called pairwise study shows both orders unless --orders is given; votes may come too."""
    root = with_votes(tmp_path / "w")
    done = write(root, {**CALLED, "resolve": "first"})
    assert done.code == 0, done.err
    assert loaded(root).protocol.orders == ("ab", "ba")
    assert prereg("check", "x", root=root).code == 0
    (root / "registrations/x.yaml").unlink()
    votes = {k: v for k, v in VOTES.items() if k not in CALLED}
    done = write(root, {**CALLED, **votes, "orders": "ab"})
    assert done.code == 0, done.err
    assert loaded(root).protocol.orders == ("ab",)
    assert loaded(root).annotations is not None


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ({**POOLS, "key": "sorted"}, "--key: must be 'stored' or 'unordered'"),
        ({**POOLS, "split": "toss"}, "--split: must be 'tie' or 'exclude'"),
        ({**POOLS, "layout": "wide"}, "--layout: must be"),
        ({**POOLS, "gap": "wide"}, "--gap: must be 'column' or 'credit'"),
        ({**POOLS, "gap": "column"}, "--gap: no column holds the gap"),
        ({**POOLS, "label": None, "split": "tie"}, "--split: labels as they stand have no tie"),
        ({**POOLS, "label": "a=left"}, "--label (annotations.labels.a): must be"),
        ({**POOLS, "label": "a=a"}, "--label (annotations.labels): no word means one"),
        ({**POOLS, "column": "thing=item"}, "--column (annotations.columns"),
        ({**POOLS, "column": None}, "missing: --column item=item,annotator="),
        ({**POOLS, "pool": "expert=e_*"}, "--pool (annotations.pools)"),
        ({**POOLS, "pool": None}, 'missing: --pool "expert=expert_*" --pool "crowd=author_*"'),
        ({**POOLS, "pool": ["a=x", "a=y"]}, "--pool (annotations.pools): the two pools have one"),
        ({**POOLS, "sample": "0,seed=1"}, "--sample (annotations.sample.items): must be at least"),
        ({**POOLS, "sample": "40"}, "--sample: expected `,seed=`"),
        ({**POOLS, "votes": " "}, "--votes: names no file"),
        ({**POOLS, "layout": "multipref", "column": None, "label": None},
         "missing: --preference overall_pref"),
        ({**POOLS, "layout": "mt-bench"}, "--column (annotations.columns): the layout mt-bench"),
        ({**POOLS, "resampling": "10,seed=1"}, "--resampling (resampling.resamples): must be at"),
        ({**POOLS, "resampling": None}, "missing: --resampling 2000,seed=20261130"),
        ({**POOLS, "band": None}, 'missing: --band "changed.rate=0.2..0.4"'),
        ({**POOLS, "band": "changed.rat=0..1"}, "Did you mean changed.rate"),
        ({**POOLS, "stop": "calls.hangs >= 1"}, "--stop (stop)"),
        ({**POOLS, "judge": "judge/a.yaml"}, "--judge: is for a study that calls a judge"),
        ({**POOLS, "path": "generate"}, "--path: is for a study that calls a judge"),
        ({**POOLS, "parallel": "1"}, "--parallel: is for a study that calls a judge"),
        ({**POOLS, "missing": "exclude"}, "--missing: is for a study that calls a judge"),
        ({**POOLS, "orders": "ab"}, "--orders: is for a study that calls a judge"),
        ({**POOLS, "resolve": "first"}, "--resolve: is for pairwise, judge-pools"),
        ({**POOLS, "judge_run": "q=x:1"}, "--judge-run: is for judge-pools"),
        ({**POOLS, **VERDICTS}, "--verdicts: is for pairwise, judge-pools"),
        ({**POOLS, "assume": "span=1,shift_sd=1"}, "--assume: is for leaderboard"),
        ({**BOARD, "assume": "span=2,shift_sd=0.1"}, "--assume (assumed.span): must be at most 1"),
        ({**BOARD, "study": "leaderbord"}, "--study: must be"),
        ({**JUDGED, "resolve": None}, "missing: --resolve agree_or_tie"),
        ({**JUDGED, "resolve": "last"}, "--resolve: must be"),
        ({**JUDGED, "says": None}, "missing: --says slots"),
        ({**JUDGED, "says": "sides"}, "--says (judges[0].says): must be 'slots' or 'answers'"),
        ({**JUDGED, "judge_run": "q=x:1", "says": "sides"}, "--says (judges[1].says): must be"),
        ({**JUDGED, "word": "A=first"}, "--word (judges[0].words.A): must be"),
        ({**JUDGED, "verdict_columns": "item=id,models=one,ab=x"},
         "--verdict-columns (judges[0].models)"),
        ({**JUDGED, "verdicts": None}, "--says: is about a file of verdicts"),
        ({**JUDGED, "verdicts": ["a=x", "b=y"]}, "--verdicts: only one file of verdicts"),
        ({**JUDGED, "judge_run": "qwen=x:1"}, "--judge-run (judges): two judges have one name"),
        ({**JUDGED, "judge_run": "q=x:0"}, "--judge-run (judges[0].pass): must be at least 1"),
        ({**JUDGED, **dict.fromkeys(VERDICTS)}, "missing: --judge-run qwen=my-pairs/1:1"),
        ({**ALONE, "gguf": "m.gguf"}, "--gguf: is for calls, and --verdicts is given"),
        ({**ALONE, "judge_run": "q=x:1"}, "--judge-run: is for judge-pools"),
        ({**ALONE, **VOTES}, "--verdicts: votes and a file of verdicts are another study"),
        ({**CALLED, "orders": "ba,ab"}, "--orders: the orders stand the other way round"),
        ({**CALLED, "orders": "ab,bb"}, "--orders: is not a list of known orders"),
        ({**CALLED, "key": "stored"}, "missing: --votes data/votes.csv"),
        ({**CALLED, "band": None, "real": None},
         'missing: --band "sentinel.order.reversal.rate[pass=1]=0.05..0.25"'),
    ],
)  # fmt: skip
def test_a_wrong_value_is_named_by_its_flag(flags: Flags, words: str, tmp_path: Path) -> None:
    """Exit 2, the flag, what would do; and no file."""
    root = make_workspace(tmp_path / "w")
    done = write(root, flags)
    assert (done.code, done.out) == (2, "")
    assert words in " ".join(done.err.split())
    assert not (root / "registrations/x.yaml").exists()


@pytest.mark.parametrize("flag", [("votes", "v.csv"), ("resampling", "2000,seed=7"),
                                  ("resolve", "first"), ("judge_run", "q=x:1"),
                                  ("pool", "a=b"), ("verdicts", "q=v.csv")])  # fmt: skip
def test_a_study_of_rows_takes_no_flag_of_tables(flag: tuple[str, str], tmp_path: Path) -> None:
    """Given to self-agreement, such a flag is refused by itself, for what it is."""
    done = new(make_workspace(tmp_path / "w"), "x", **{flag[0]: flag[1]})
    assert done.code == 2
    [told] = [line for line in done.err.splitlines() if line.startswith("error: ")]
    assert f"--{flag[0].replace('_', '-')}: is for" in told
    assert "Leave it out, or give another --study than self-agreement" in " ".join(done.err.split())


def test_a_draft_leaves_what_is_missing_to_be_filled_in(tmp_path: Path) -> None:
    """--draft writes what is known; `check` then names every gap and nothing else."""
    root = make_workspace(tmp_path / "w")
    flags = {"study": "judge-pools", "votes": "v.csv", "verdicts": "qwen=v.jsonl"}
    assert write(root, flags, "--draft").code == 0
    done = prereg("check", "x", root=root)
    assert done.code == 2
    told = [line for line in done.err.splitlines() if "error: " in line]
    assert len(told) == done.err.count("placeholder TODO") == 13


def asked(root: Path, args: list[str], answers: list[str]) -> tuple[int, str]:
    """Exit code, and what a person at a terminal is shown, in one line."""
    code, shown = _at_a_terminal(root, args, answers)
    return code, " ".join(shown.split())


def test_a_person_is_asked_for_tables(tmp_path: Path) -> None:
    """What is asked depends on answers: columns for a long table, what words mean for a file."""
    root = with_votes(tmp_path / "w")
    answers = [
        "Whose side?",
        "sentinels/requests-votes.csv",
        *("wide", "long"),
        *("item=item,annotator=annotator", "item=item,annotator=annotator,pool=pool,label=label"),
        *("expert=expert", "expert=expert,crowd=crowd"),
        "unordered",
        *("tie", "exclude"),  # labels as they stand have no tie
        "",
        "qwen=data/v.jsonl",
        *("item=id", "item=id,ab=x,ba=y"),
        *("first", "slots"),
        "A=a,B=b,tie=tie",
        "average",
        *("2000", "2000,seed=20261130"),
        "nothing",
        *("lean=0..1", "lean.difference[judge=qwen]=0..0.5"),
    ]
    code, shown = asked(root, ["new", "x", "--study", "judge-pools"], answers)
    assert code == 0, shown
    assert "GGUF" not in shown
    assert "preference" not in shown
    assert "(e.g. lean.difference[judge=qwen]=0.02..0.1)" in shown
    model = loaded(root)
    assert model.annotations is not None
    assert [pool.name for pool in model.annotations.pools] == ["expert", "crowd"]
    [judge] = model.judges
    assert (judge.says, judge.ab, judge.ba, judge.models) == ("slots", "x", "y", None)


def test_what_was_given_wrongly_is_said_before_anything_is_asked(tmp_path: Path) -> None:
    """A wrong flag among those of a table ends at once, with nothing asked."""
    args = ["new", "x", "--study", "pools", "--pool", "a=b", "--key", "sorted"]
    code, shown = asked(make_workspace(tmp_path / "w"), args, [])
    assert code == 2
    assert "--key: must be" in shown
    assert "File of annotators" not in shown


def test_metrics_says_what_parameters_mean() -> None:
    """`prereg metrics` lists each study's metrics, those that need votes, and every parameter."""
    listed = prereg("metrics", "pairwise", "--json").json["pairwise"]
    votes = {m["metric"] for m in listed if m["needs_votes"]}
    assert "lean.difference" in votes
    assert "real.order.reversal.rate" not in votes
    shown = prereg("metrics", "leaderboard").out
    for name in ("displacement.joint", "score", "place", "Between this place of the board"):
        assert name in " ".join(shown.split())
    assert "SET is" not in shown
    assert "temperature" not in shown
