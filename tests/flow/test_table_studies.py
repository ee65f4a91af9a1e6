"""Studies of tables through the commands where there is little or nothing to say.

Whatever the votes are, the score has a value or a typed reason, a claim without a value is
undefined, and nothing passes on nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from study.pools_made import Votes
from support import prereg
from tabling import (
    ANNOTATIONS,
    JUDGE,
    band,
    claim,
    lock_tables,
    outcomes,
    score,
    scored,
    write_registration,
    write_table,
    write_verdicts,
    write_votes,
)

Pairs = Sequence[tuple[str, str]] | None


def told(**keys: Any) -> dict[str, Any]:
    """The usual annotations with some keys changed."""
    return {**ANNOTATIONS, **keys}


def checked(found: Any) -> dict[str, str]:
    """Every metric of a score has a value or a typed reason; the reasons, by name."""
    for each in found["metrics"]:
        assert (each["value"] is None) != (each["undefined"] is None), each
        interval = each["interval"]
        if interval is not None and "resampling shifts" not in (each["note"] or ""):
            assert interval["low"] - 1e-9 <= each["value"] <= interval["high"] + 1e-9, each
    return {m["metric"]: m["undefined"] for m in found["metrics"] if m["undefined"]}


TIES: list[Votes] = [("t", "tt"), ("tt", "t"), ("t", "t")]
SINGLE: list[Votes] = [("a", "b"), ("b", "b"), ("t", "a")]
EQUAL: list[Votes] = [("ab", "ab"), ("abt", "ba"), ("aabb", "tatb")]
ALWAYS: list[Votes] = [("a", "a"), ("aa", "a"), ("a", "aaa")]
ONE: list[Votes] = [("a", "b")]
SHAPES: dict[str, list[Votes]] = {
    "ties": TIES, "single": SINGLE, "equal": EQUAL, "always": ALWAYS, "one": ONE,
}  # fmt: skip
CLAIMS: dict[str, list[dict[str, Any]]] = {
    "pools": [
        band("opposite", "opposite.count", [0, 0]),
        band("rate", "changed.rate", [0.0, 0.5]),
        band("inside", "disagreement.rate", [0, 0.9], pool="crowd"),
        band("third", "divergence.rate", [0, 0.9], tertile=1),
        band("r", "divergence.r", [-0.9, 0.9]),
    ],
    "judge-pools": [
        band("lean", "lean.difference", [-0.5, 0.5], judge="j"),
        band("sign", "lean.sign_test.p", [0.01, 1], judge="j"),
        band("side", "split.rate", [0.1, 1], judge="j", side="neither"),
        band("matched", "split.matched.rate", [0.1, 1], judge="j"),
        band("reversal", "order.reversal.rate", [0, 0.5], judge="j"),
    ],
    "leaderboard": [
        band("tau", "tau", [0.5, 1]),
        band("strength", "tau", [0.5, 1], score="bradley-terry"),
        band("displaced", "displaced.count", [0, 1]),
        band("boot", "displacement.bootstrap", [0, 0.9]),
        band("joint", "displacement.joint", [0, 0.9]),
        band("even", "displacement.even_pairs", [0, 0.9], models=4),
        band("shift", "shift.sd", [0, 0.9]),
    ],
}


@pytest.mark.parametrize("split", ["tie", "exclude"])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("study", CLAIMS)
def test_little_to_say(study: str, shape: str, split: str, tmp_path: Path) -> None:
    """Ties alone, one vote an item, equal splits, one winner, one item: with either rule a claim
    with a value has an outcome, one without is undefined, and then the run is inconclusive.
    """
    votes = SHAPES[shape]
    write_votes(tmp_path, votes)
    write_verdicts(tmp_path, "abt"[: len(votes)], "abb"[: len(votes)])
    claims = CLAIMS[study]
    lock_tables(
        tmp_path,
        "x",
        study,
        annotations=told(split=split, gap="credit"),
        bands=claims,
        primary=claims[0]["id"],
    )
    assert prereg("run", "x", root=tmp_path).code == 0
    done = prereg("score", "x", "--json", root=tmp_path)
    assert done.code in (0, 1, 6), done
    found = done.json
    checked(found)
    came = outcomes(found)
    for each in found["claims"]:
        (observed,) = each["observed"]
        assert (each["outcome"] == "undefined") == (observed["value"] is None), each
        assert observed["undefined"] != "not_computed", each
    if "undefined" in came.values() and not {"missed low", "missed high"} & set(came.values()):
        assert (done.code, found["verdict"]) == (6, "INCONCLUSIVE"), came
    text = prereg("score", "x", root=tmp_path)
    assert text.code == done.code
    assert "Traceback" not in text.err


def test_everything_is_excluded(tmp_path: Path) -> None:
    """Where every pool is split on every item and such items are left out, nothing can be said: a
    claim that zero would meet is undefined, and the run is inconclusive.
    """
    write_votes(tmp_path, [("ab", "ab"), ("ab", "tb")])
    zero = [
        band("opposite", "opposite.count", [0, 0]),
        band("changed", "changed.count", [0, 0]),
    ]
    lock_tables(
        tmp_path, "x", "pools", annotations=told(split="exclude"), bands=zero, primary="opposite"
    )
    found = scored(tmp_path, "x", code=6)
    assert found["verdict"] == "INCONCLUSIVE"
    assert set(outcomes(found).values()) == {"undefined"}
    assert checked(found)["opposite.count"] in ("empty_denominator", "no_items", "nothing_scored")


def test_ties_alone_make_no_board(tmp_path: Path) -> None:
    """Two models that tie on every item have no order: tau is undefined and does not pass."""
    write_votes(tmp_path, TIES)
    lock_tables(tmp_path, "x", "leaderboard", bands=[band("tau", "tau", [0.5, 1])])
    found = scored(tmp_path, "x", code=6)
    assert claim(found, "tau")["observed"][0]["undefined"] == "all_tied"
    assert found["verdict"] == "INCONCLUSIVE"


def test_a_model_that_always_wins(tmp_path: Path) -> None:
    """Mean credit orders a model that never loses; strengths of Bradley and Terry do not exist."""
    models = [("w", "x"), ("w", "y"), ("x", "y"), ("y", "x")]
    write_votes(tmp_path, [("a", "a"), ("a", "a"), ("a", "a"), ("a", "a")], models=models)
    claims = [
        band("credit", "credit.mean", [0.99, 1], model="w", pool="crowd"),
        band("strength", "tau", [0.5, 1], score="bradley-terry"),
    ]
    lock_tables(tmp_path, "x", "leaderboard", bands=claims, primary="credit")
    found = scored(tmp_path, "x", code=6)
    assert outcomes(found) == {"credit": "inside", "strength": "undefined"}
    assert claim(found, "strength")["observed"][0]["undefined"] == "not_connected"


def test_two_models(tmp_path: Path) -> None:
    """Two models have one gap and a tau of 1 or -1."""
    write_votes(tmp_path, [("a", "b"), ("a", "b"), ("a", "b")])
    claims = [
        band("tau", "tau", [-1, -0.99]),
        band("gap", "gap.adjacent", [0.99, 1], place=1),
        band("displaced", "displaced.count", [2, 2]),
    ]
    lock_tables(tmp_path, "x", "leaderboard", bands=claims, primary="tau")
    found = scored(tmp_path, "x")
    assert set(outcomes(found).values()) == {"inside"}


def test_votes_without_models_make_no_board(tmp_path: Path) -> None:
    """A leaderboard of votes that name no models is refused at lock, or says why it is none."""
    write_votes(tmp_path, SINGLE)
    columns = {k: v for k, v in ANNOTATIONS["columns"].items() if not k.startswith("model")}
    write_registration(
        tmp_path,
        "x",
        "leaderboard",
        annotations=told(columns=columns),
        bands=[band("tau", "tau", [0.5, 1])],
    )
    done = prereg("lock", "x", root=tmp_path)
    assert done.code == 2, done
    assert "model_a" in done.err


def test_a_gap_by_credit_needs_models(tmp_path: Path) -> None:
    """`gap: credit` on votes that name no models, or no sides, is refused with a remedy."""
    write_votes(tmp_path, SINGLE)
    columns = {k: v for k, v in ANNOTATIONS["columns"].items() if not k.startswith("model")}
    claims = [band("r", "divergence.r", [-0.5, 0.5])]
    write_registration(
        tmp_path, "x", "pools", annotations=told(columns=columns, gap="credit"), bands=claims
    )
    done = prereg("lock", "x", root=tmp_path)
    assert done.code == 2, done
    assert "Traceback" not in done.err
    assert "annotations.gap" in done.err


def test_divergence_without_a_gap(tmp_path: Path) -> None:
    """A claim about quality gaps where none is registered is refused, or undefined for a reason."""
    write_votes(tmp_path, SINGLE)
    write_registration(tmp_path, "x", "pools", bands=[band("r", "divergence.r", [-0.5, 0.5])])
    done = prereg("lock", "x", root=tmp_path)
    if done.code == 0:
        found = scored(tmp_path, "x", code=6)
        assert claim(found, "r")["observed"][0]["undefined"] == "no_gap"
    else:
        assert done.code == 2
        assert "gap" in done.err


def test_labels_without_sides(tmp_path: Path) -> None:
    """Labels as they stand count as changed or not; who wins cannot be asked of them."""
    rows = [
        (f"i{at}", f"{pool}-{n}", pool, label)
        for at, item in enumerate([("KEEP", "DROP"), ("KEEP", "KEEP"), ("DROP", "DROP")])
        for pool, label in zip(("crowd", "expert"), item, strict=True)
        for n in range(2)
    ]
    write_table(tmp_path / "data/votes.csv", ("item", "who", "pool", "label"), rows)
    columns = {k: ANNOTATIONS["columns"][k] for k in ("item", "annotator", "pool", "label")}
    plain = {k: v for k, v in told(columns=columns, split="exclude").items() if k != "labels"}
    changed = band("changed", "changed.count", [1, 1])
    lock_tables(tmp_path, "x", "pools", annotations=plain, bands=[changed])
    assert outcomes(scored(tmp_path, "x", code=0)) == {"changed": "inside"}
    claims = [changed, band("opposite", "opposite.count", [0, 1])]
    write_registration(tmp_path, "z", "pools", annotations=plain, bands=claims, primary="changed")
    done = prereg("lock", "z", root=tmp_path)
    assert done.code == 2, done
    assert "needs votes that say which answer is better" in done.err


def test_a_table_of_pairs_without_a_verdict_in_it(tmp_path: Path) -> None:
    """Empty cells everywhere are no verdicts: zero reversals do not pass."""
    write_verdicts(tmp_path, "...", "...")
    claims = [band("reversal", "real.order.reversal.count", [0, 0], pass_=1)]
    lock_tables(tmp_path, "x", "pairwise", bands=claims)
    found = scored(tmp_path, "x", code=6)
    assert (found["verdict"], outcomes(found)) == ("INCONCLUSIVE", {"reversal": "undefined"})
    checked(found)


def test_ties_alone_in_a_table_of_pairs(tmp_path: Path) -> None:
    """A judge that always ties reverses nothing of all pairs, and of none that it decided."""
    write_verdicts(tmp_path, "ttt")
    claims = [
        band("all", "real.order.reversal.count", [0, 0], pass_=1),
        band("decided", "real.order.reversal_decided.rate", [0, 0.5], pass_=1),
        band("slot", "real.order.slot.rate", [0.1, 0.9], pass_=1),
    ]
    lock_tables(tmp_path, "x", "pairwise", bands=claims, primary="all")
    found = scored(tmp_path, "x", code=6)
    assert outcomes(found) == {"all": "inside", "decided": "undefined", "slot": "undefined"}
    for ident in ("decided", "slot"):
        assert claim(found, ident)["observed"][0]["undefined"] == "empty_denominator"


def test_ties_alone_never_pass(tmp_path: Path) -> None:
    """Claims that hold on ties alone leave the run INCONCLUSIVE: of a judge, and of votes."""
    write_verdicts(tmp_path, "ttt")
    claims = [band("all", "real.order.reversal.count", [0, 0], pass_=1)]
    lock_tables(tmp_path, "x", "pairwise", bands=claims)
    rows = [
        (f"i{at}", f"{pool}-{at}", pool, "tie") for at in range(5) for pool in ("crowd", "expert")
    ]
    write_table(tmp_path / "data/ties.csv", ("item", "who", "pool", "label"), rows)
    columns = {k: ANNOTATIONS["columns"][k] for k in ("item", "annotator", "pool", "label")}
    labels = {"a": "a", "b": "b", "tie": "tie"}
    ties = told(file="data/ties.csv", columns=columns, labels=labels)
    claims = [band("opposite", "opposite.rate", [0, 0.3])]
    lock_tables(tmp_path, "z", "pools", annotations=ties, bands=claims)
    for ident in ("x", "z"):
        found = scored(tmp_path, ident, code=6)
        assert set(outcomes(found).values()) == {"inside"}
        assert found["reasons"] == ["every verdict or vote is a tie, which decides nothing"]


def test_one_pair_and_half_of_one(tmp_path: Path) -> None:
    """A pair with one verdict of two is counted as missing, not as equal."""
    write_verdicts(tmp_path, "aa", "a.")
    claims = [band("consistent", "real.order.consistent.rate", [0.9, 1], pass_=1)]
    lock_tables(tmp_path, "x", "pairwise", bands=claims)
    found = scored(tmp_path, "x")
    observed = claim(found, "consistent")["observed"][0]
    assert (observed["k"], observed["n"]) == (1, 1)
    assert "1 of 2" in observed["note"]


def test_slots_and_answers_are_told_apart(tmp_path: Path) -> None:
    """The same letters said of slots are reversals, and said of answers are consistent."""
    write_verdicts(tmp_path, "aab", "aab")
    for says, reversals in (("slots", 3), ("answers", 0)):
        claims = [band("c", "real.order.reversal.count", [reversals, reversals], pass_=1)]
        lock_tables(tmp_path, says, "pairwise", judges=[{**JUDGE, "says": says}], bands=claims)
        assert scored(tmp_path, says)["verdict"] == "PASS"


def test_strata_of_a_table_of_pairs(tmp_path: Path) -> None:
    """The stratum's column makes groups that claims can name; an unknown one is refused."""
    rows = [(f"i{n}", "a", "b" if n < 3 else "a", "hard" if n < 3 else "easy") for n in range(6)]
    write_table(tmp_path / "data/verdicts.csv", ("item", "ab", "ba", "of"), rows)
    judges = [{**JUDGE, "stratum": "of"}]
    claims = [
        band(s, "real.order.reversal.count", [k, k], pass_=1, stratum=s)
        for s, k in (("hard", 3), ("easy", 0))
    ]
    lock_tables(tmp_path, "x", "pairwise", judges=judges, bands=claims, primary="hard")
    assert scored(tmp_path, "x")["verdict"] == "PASS"
    claims = [band("c", "real.order.reversal.count", [0, 1], pass_=1, stratum="hrad")]
    write_registration(tmp_path, "other", "pairwise", judges=judges, bands=claims)
    done = prereg("lock", "other", root=tmp_path)
    assert done.code == 2
    assert "id you mean hard" in done.err


def test_a_sample_is_the_same_every_time(tmp_path: Path) -> None:
    """A registered sample draws the same items at every score, and another seed others."""
    letters = "aabbtabtabab"
    votes: list[Votes] = [(x, y) for x in letters for y in letters]
    write_votes(tmp_path, votes)
    found = []
    for ident, seed in (("one", 1), ("two", 1), ("three", 2)):
        lock_tables(
            tmp_path,
            ident,
            "pools",
            annotations=told(sample={"items": 40, "seed": seed}),
            bands=[band("c", "items.count", [40, 40])],
        )
        found.append(scored(tmp_path, ident)["metrics"])
        assert score(tmp_path, ident)["metrics"] == found[-1]
    assert found[0] == found[1]
    assert found[0] != found[2]
