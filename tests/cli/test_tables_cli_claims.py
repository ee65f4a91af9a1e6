"""Keys and claims that do not fit a study of tables: what `prereg lock` says of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tabling import (
    ANNOTATIONS,
    JUDGE,
    band,
    refused,
    write_registration,
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


def judge(**keys: Any) -> dict[str, Any]:
    """The usual judge with some keys changed, or left out where None."""
    return {k: v for k, v in {**JUDGE, **keys}.items() if v is not None}


def register(root: Path, study: str, **keys: Any) -> None:
    """Write `x` with a band that its study has, unless claims are given."""
    write_registration(root, "x", study, **{"bands": [BANDS[study]], **keys})


# --- Keys that a study needs, or has no use for ---------------------------------------------------


@pytest.mark.parametrize(
    ("study", "changed", "says"),
    [
        ("pools", {"judges": [JUDGE]}, ("judges", "`judges` are not for pools", "leave them out")),
        ("leaderboard", {"judges": [JUDGE]}, ("judges", "`judges` are not for leaderboard")),
        ("judge-pools", {"judges": None}, ("`judges` is missing", "add `judges`")),
        ("judge-pools", {"judges": []}, ("`judges` is missing", "add `judges`")),
        (
            "judge-pools",
            {"judges": [JUDGE, JUDGE]},
            ("judges", "two judges have one name", "give each its own"),
        ),
        (
            "judge-pools",
            {"resolve": None},
            ("`resolve` is missing", "agree_or_tie, average or first"),
        ),
        ("judge-pools", {"resolve": "majority"}, ("resolve", "majority", "agree_or_tie")),
        ("pools", {"resolve": "first"}, ("resolve", "`resolve` is not for pools", "leave it out")),
        ("pools", {"annotations": None}, ("`annotations` is missing", "the table of votes")),
        ("leaderboard", {"annotations": None}, ("`annotations` is missing",)),
        ("judge-pools", {"annotations": None}, ("`annotations` is missing",)),
        ("pairwise", {"annotations": ANNOTATIONS}, ("annotations", "study judge-pools")),
        (
            "pairwise",
            {"judges": [JUDGE, {**JUDGE, "name": "k"}]},
            ("judges", "takes one file of verdicts"),
        ),
        (
            "pairwise",
            {"judges": [{"name": "j", "run": "r", "pass": 1}]},
            ("judges", "takes one file of verdicts", "give one, with `file`"),
        ),
        (
            "pools",
            {"resampling": None},
            ("`resampling` is missing", "resamples, seed and by_stratum"),
        ),
        ("pairwise", {"resampling": None}, ("`resampling` is missing",)),
        (
            "leaderboard",
            {"resampling": {"resamples": 10, "seed": 1, "by_stratum": False}},
            ("resampling.resamples", "10", "100"),
        ),
        (
            "pools",
            {"assumed": {"span": 0.2, "shift_sd": 0.02}},
            ("assumed", "is for leaderboard", "leave it out"),
        ),
        ("leaderboard", {"assumed": {"span": 2, "shift_sd": 0.02}}, ("assumed.span", "2", "1")),
        (
            "pools",
            {"judge": "judge/yes-no.yaml"},
            ("judge", "nothing is called here", "leave it out"),
        ),
        (
            "pools",
            {"items": {"real": "data/x.jsonl"}},
            ("items", "nothing is called here", "leave it out"),
        ),
        (
            "leaderboard",
            {"model": {"gguf": "m.gguf"}},
            ("model", "nothing is called here", "leave it out"),
        ),
        (
            "judge-pools",
            {"protocol": {"passes": 2}},
            ("protocol", "nothing is called here", "leave it out"),
        ),
        ("pairwise", {"missing": "exclude"}, ("missing", "nothing is called here", "leave it out")),
        (
            "pools",
            {"executor": {"kind": "local"}},
            ("executor", "nothing is called here", "leave it out"),
        ),
        (
            "pools",
            {"stop": [{"id": "s", "when": {"metric": "calls.hangs.count", "ge": 1}}]},
            ("stop", "nothing is called that a rule could stop"),
        ),
        ("pools", {"judge_tables": []}, ("judge_tables",)),
        ("leaderboard", {"assumed_board": {"span": 0.2, "shift_sd": 0.02}}, ("assumed_board",)),
    ],
)
def test_keys_that_do_not_fit_the_study(
    study: str, changed: dict[str, Any], says: tuple[str, ...], tmp_path: Path
) -> None:
    """A key that the study needs, or that is about calls, is named with what to do about it."""
    files(tmp_path)
    register(tmp_path, study, **changed)
    refused(tmp_path, f"{REG}:", *says)


# --- Claims ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("study", "name", "params", "says"),
    [
        (
            "pools",
            "disagreement.rate",
            {"pool": "experts"},
            ("`experts` is not a known pool", "did you mean expert?"),
        ),
        (
            "pools",
            "changed.rate",
            {"subset": "fre"},
            ("`fre` is not a known subset", "did you mean free?"),
        ),
        (
            "pools",
            "changed.rate",
            {"key": "unorderd"},
            ("`unorderd` is not a known key", "did you mean unordered?"),
        ),
        ("pools", "divergence.rate", {"tertile": 4}, ("bands[0].tertile", "must be at most 3")),
        (
            "pools",
            "changd.rate",
            {},
            ("the study pools has no metric `changd.rate`", "did you mean changed.rate"),
        ),
        ("pools", "disagreement.rate", {}, ("`disagreement.rate` needs `pool`", "add `pool:`")),
        ("pools", "items.count", {"pool": "crowd"}, ("takes no `pool`",)),
        (
            "judge-pools",
            "lean.difference",
            {"judge": "k"},
            ("`k` is not a known judge", "known: j"),
        ),
        (
            "judge-pools",
            "split.rate",
            {"judge": "j", "side": "nobody"},
            ("`nobody` is not a known side", "neither"),
        ),
        (
            "judge-pools",
            "split.matched.rate",
            {"judge": "j", "pool": "crwd"},
            ("`crwd` is not a known pool", "did you mean crowd?"),
        ),
        ("leaderboard", "shift.mean", {"model": "m3"}, ("`m3` is not a known model", "m1")),
        ("leaderboard", "gap.adjacent", {"place": 2}, ("`2` is not a known place", "1")),
        ("leaderboard", "gap.adjacent", {"place": 0}, ("place", "0")),
        ("leaderboard", "displacement.even_pairs", {"models": 1}, ("models", "1", "2")),
        (
            "leaderboard",
            "displacement.even_pairs",
            {"models": 1_001},
            ("bands[0].models", "must be at most 1000", "found 1001"),
        ),
        ("leaderboard", "tau", {"score": "elo"}, ("`elo` is not a known score", "bradley-terry")),
        ("pairwise", "real.order.reversal.rate", {"pass": 2}, ("pass 2: the protocol has 1 pass",)),
        ("pairwise", "sentinel.order.reversal.rate", {"pass": 1}, ("no item set `sentinel`",)),
        ("pairwise", "real.order.excess.difference", {}, ("needs two passes", "passes: 2")),
        (
            "pairwise",
            "lean.difference",
            {"judge": "pass-1"},
            ("`lean.difference` compares the judge with pools", "annotations"),
        ),
        ("pairwise", "calls.hangs.count", {}, ("calls.hangs.count",)),
    ],
)
def test_claims_about_what_is_not_there(
    study: str, name: str, params: dict[str, Any], says: tuple[str, ...], tmp_path: Path
) -> None:
    """Pools, judges, models, places and metrics that the tables do not have are refused at lock,
    with what was probably meant.
    """
    files(tmp_path)
    register(tmp_path, study, bands=[band("c", name, [0.1, 0.2], **params)])
    refused(tmp_path, f"{REG}:", *says)


def test_orders_of_a_table_with_one_order(tmp_path: Path) -> None:
    """A table without verdicts in the order `ba` cannot be asked for reversals."""
    files(tmp_path)
    register(tmp_path, "pairwise", judges=[judge(ba=None)])
    refused(tmp_path, f"{REG}:", "compares the two orders, and the pairs are shown in one")


def test_resolved_verdicts_without_a_rule(tmp_path: Path) -> None:
    """A metric of resolved verdicts needs the rule that resolves them."""
    files(tmp_path)
    claim = band("c", "real.resolved.verdict.rate", [0.1, 0.2], pass_=1, verdict="a")
    register(tmp_path, "pairwise", bands=[claim])
    refused(tmp_path, f"{REG}:", "needs the rule by which two orders become one", "add `resolve:`")
