"""Published figures through the commands: locked as bands, run, and scored."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support import prereg
from tabling import (
    ANNOTATIONS,
    band,
    claim,
    lock_tables,
    outcomes,
    ratios,
    scored,
    with_corpus,
    write_verdicts,
    write_votes,
)

MT_BENCH = "mtbench/human.jsonl"
POOLS = [{"name": "expert", "match": "expert_*"}, {"name": "author", "match": "author_*"}]
RESAMPLING = {"resamples": 1000, "seed": 5, "by_stratum": False}


def votes(root: Path, **keys: Any) -> dict[str, Any]:
    """MT-Bench's human votes, as a registration names them."""
    told = {"layout": "mt-bench", "pools": POOLS, "key": "stored", "split": "tie"}
    return {"file": with_corpus(root, MT_BENCH), **told, **keys}


def both_keys() -> list[dict[str, Any]]:
    """The published counts under both keys, each as a band that only it meets."""
    found: list[dict[str, Any]] = []
    counts = {"stored": (292, 246, 21, 75), "unordered": (413, 316, 22, 81)}
    for key, (shared, free, opposite, changed) in counts.items():
        at: dict[str, Any] = {"key": key, "subset": "free"}
        found += [
            band(f"shared-{key}", "items.count", [shared, shared], key=key),
            band(f"free-{key}", "items.count", [free, free], **at),
            band(f"opposite-{key}", "opposite.count", [opposite, opposite], **at),
            band(f"changed-{key}", "changed.count", [changed, changed], **at),
        ]
    shares = {"stored": (0.085, 0.305), "unordered": (0.070, 0.256)}
    for key, of in shares.items():
        for name, share in zip(("opposite", "changed"), of, strict=True):
            limits = [share - 5e-4, share + 5e-4]
            ident = f"{name}-rate-{key}"
            found.append(band(ident, f"{name}.rate", limits, key=key, subset="free"))
    return found


@pytest.mark.parametrize("key", ["stored", "unordered"])
def test_two_pools_under_both_keys(key: str, tmp_path: Path) -> None:
    """*Whose Gold?*: 21 of 246 and 75 of 246, or 22 and 81 of 316; whichever key is registered, a
    claim that names its own key gets that key's figure.
    """
    claims = both_keys()
    told = votes(tmp_path, key=key)
    lock_tables(tmp_path, "x", "pools", annotations=told, bands=claims, primary="opposite-stored")
    found = scored(tmp_path, "x")
    assert found["verdict"] == "PASS"
    assert set(outcomes(found).values()) == {"inside"}
    assert len(found["claims"]) == len(claims)
    seen = ratios(found)
    assert seen["opposite-stored"] == (21, 246)
    assert seen["changed-stored"] == (75, 246)
    assert seen["opposite-unordered"] == (22, 316)
    assert seen["changed-unordered"] == (81, 316)


def test_a_registered_figure_that_is_of_the_other_key_fails(tmp_path: Path) -> None:
    """22 opposite winners, the figure of the unordered key, misses under the stored one: the key
    moves the answer.
    """
    claims = [band("opposite", "opposite.count", [22, 22], subset="free")]
    lock_tables(tmp_path, "x", "pools", annotations=votes(tmp_path), bands=claims)
    found = scored(tmp_path, "x", code=1)
    assert (found["verdict"], outcomes(found)) == ("FAIL", {"opposite": "missed low"})


def test_disagreement_inside_each_pool(tmp_path: Path) -> None:
    """*Whose Gold?*: two experts differ in 35.2% of 1,428 pairs of votes, two authors in 31.3% of
    99.
    """
    claims = [
        band(pool, "disagreement.rate", [share - 5e-4, share + 5e-4], pool=pool, key="unordered")
        for pool, share in (("expert", 0.352), ("author", 0.313))
    ]
    told = votes(tmp_path)
    lock_tables(tmp_path, "x", "pools", annotations=told, bands=claims, primary="expert")
    found = scored(tmp_path, "x")
    assert ratios(found) == {"expert": (503, 1428), "author": (31, 99)}


def even_claims() -> list[dict[str, Any]]:
    """The published chances on boards of evenly spread models, on the two routes."""
    found = []
    for models, pairs, joint in ((6, 0.28, 0.29), (10, 0.86, 0.92), (20, 0.9997, 1.0)):
        width = 5e-3 if pairs < 0.99 else 5e-5
        found += [
            band(
                f"pairs-{models}",
                "displacement.even_pairs",
                [pairs - width, min(pairs + width, 0.99999)],
                models=models,
            ),
            band(
                f"joint-{models}",
                "displacement.even_joint",
                [joint - 0.015, min(joint + 0.015, 1.0)],
                models=models,
            ),
        ]
    return found


def test_the_board_and_evenly_spread_ones(tmp_path: Path) -> None:
    """*Whose Gold?*: tau over six models is 1.00 and none is displaced; K models spread evenly
    over 20.1 pp change their order with 0.28, 0.86, 0.9997 (independent pairs, difference SD of
    2.64 pp) and about 0.29, 0.92, 1.00 (jointly, shifts of 1.87 pp).
    """
    lock_tables(
        tmp_path,
        "x",
        "leaderboard",
        annotations=votes(tmp_path),
        resampling={**RESAMPLING, "resamples": 5000},
        assumed={"span": 0.201, "shift_sd": 0.0187},
        bands=[
            band("tau", "tau", [0.999, 1.0], subset="free"),
            band("displaced", "displaced.count", [0, 0], subset="free"),
            *even_claims(),
        ],
        decisions=[
            {
                "id": "kill",
                "when": {
                    "all": [
                        {"metric": "tau", "gt": 0.9},
                        {"metric": "tau.ci_low", "gt": 0.9},
                    ]
                },
                "then": "report the null",
            }
        ],
        primary="tau",
    )
    found = scored(tmp_path, "x")
    assert found["verdict"] == "PASS", outcomes(found)
    assert outcomes(found).pop("kill") == "not taken"
    assert claim(found, "tau")["observed"][0]["value"] == 1.0
    assert ratios(found)["displaced"] == (0, 6)
    pairs, joint = claim(found, "pairs-10"), claim(found, "joint-10")
    assert pairs["observed"][0]["value"] < joint["observed"][0]["value"]


SWAPS = {
    "name": "qwen",
    "item": ["question_id"],
    "models": ["model_a", "model_b"],
    "ab": "slot_ab",
    "ba": "slot_ba",
    "stratum": "category",
    "says": "slots",
    "words": {"A": "a", "B": "b", "tie": "tie"},
}


def test_order_swap_of_a_file_of_verdicts(tmp_path: Path) -> None:
    """*Whose Gold?*, qwen2.5-7b on 1,200 pairs in both orders: 648 full reversals, 249 consistent,
    303 ties in one order only.
    """
    file = with_corpus(tmp_path, "order_swap/qwen2.5-7b.jsonl")
    counts = {"reversal": 648, "consistent": 249, "exact": 249, "tie_unstable": 303}
    lock_tables(
        tmp_path,
        "x",
        "pairwise",
        judges=[{**SWAPS, "file": file}],
        bands=[
            band(name.replace("_", "-"), f"real.order.{name}.count", [k, k], pass_=1)
            for name, k in counts.items()
        ],
        predictions=[
            {
                "id": "first-place",
                "metric": "real.order.slot.rate.ci_low",
                "pass": 1,
                "at_least": 0.5,
            }
        ],
        primary="reversal",
    )
    found = scored(tmp_path, "x")
    assert found["verdict"] == "PASS", found["claims"]
    seen = ratios(found)
    assert {seen[name.replace("_", "-")] for name in counts} == {(k, 1200) for k in counts.values()}


def lean_files(root: Path, *, expert: int, crowd: int, neither: int, items: int) -> None:
    """Votes and verdicts of a judge that sides so often with each pool where they differ."""
    split = expert + crowd + neither
    write_votes(root, [("a", "b")] * split + [("a", "a")] * (items - split))
    write_verdicts(root, "b" * expert + "a" * crowd + "t" * neither + "a" * (items - split))


EXPERT_FIRST = [{"name": "expert", "match": "expert"}, {"name": "crowd", "match": "crowd"}]


def lean_claims(lean: float, shares: tuple[float, float, float], matched: float) -> Any:
    """Figures in per cent to one digit, each as a band that only such a figure meets."""

    def near(percent: float) -> list[float]:
        return [(percent - 0.05) / 100, (percent + 0.05) / 100]

    sides = zip(("crowd", "expert", "neither"), shares, strict=True)
    return [
        band("lean", "lean.difference", near(lean), judge="j"),
        *(band(f"side-{s}", "split.rate", near(x), judge="j", side=s) for s, x in sides),
        band("matched", "split.matched.rate", near(matched), judge="j", pool="crowd"),
    ]


@pytest.mark.parametrize(
    ("counts", "lean", "shares", "matched"),
    [
        ((50, 68, 29, 259), -6.9, (46.3, 34.0, 19.7), 57.6),
        ((91, 113, 74, 420), -5.2, (40.6, 32.7, 26.6), 55.4),
        ((138, 164, 113, 694), -3.7, (39.5, 33.3, 27.2), 54.3),
    ],
)
def test_lean_of_judges(
    counts: tuple[int, int, int, int],
    lean: float,
    shares: tuple[float, float, float],
    matched: float,
    tmp_path: Path,
) -> None:
    """*Whose Gold?*: expert minus crowd agreement, sides on pool-split items and the crowd's share
    among the matched, of three judges, from files with these margins.
    """
    expert, crowd, neither, items = counts
    lean_files(tmp_path, expert=expert, crowd=crowd, neither=neither, items=items)
    lock_judges(tmp_path, bands=lean_claims(lean, shares, matched), primary="lean")
    found = scored(tmp_path, "x")
    assert found["verdict"] == "PASS", found["claims"]


def lock_judges(root: Path, **keys: Any) -> None:
    """Lock `x`, a study of judges in which the experts are pool 1."""
    told = {**ANNOTATIONS, "pools": EXPERT_FIRST}
    lock_tables(root, "x", "judge-pools", annotations=told, resampling=RESAMPLING, **keys)


def test_the_replication_bar_is_not_cleared(tmp_path: Path) -> None:
    """*Whose Gold?*: the lean of -3.2 pp [-7.3, +1.2] leaves the bar's decision untaken, fails the
    prediction, and both stay in the score and in the report.
    """
    lean_files(tmp_path, expert=51, crowd=67, neither=20, items=500)
    below = {"metric": "lean.difference.ci_high", "judge": "j"}
    lock_judges(
        tmp_path,
        predictions=[{"id": "replicated", **below, "at_most": 0}],
        decisions=[{"id": "bar", "when": {**below, "lt": 0}, "then": "call the lean replicated"}],
    )
    found = scored(tmp_path, "x", code=1)
    assert found["verdict"] == "FAIL"
    assert outcomes(found) == {"replicated": "failed", "bar": "not taken"}
    high = claim(found, "bar")["observed"][0]["value"]
    assert 100 * high == pytest.approx(1.2, abs=0.4)
    printed = prereg("score", "x", root=tmp_path).out
    assert "not taken" in printed


def test_a_bar_that_is_cleared_is_taken(tmp_path: Path) -> None:
    """The same decision on the same margins over five times as many items is taken."""
    lean_files(tmp_path, expert=255, crowd=335, neither=100, items=2500)
    below = {"metric": "lean.difference.ci_high", "judge": "j"}
    lock_judges(
        tmp_path,
        predictions=[{"id": "replicated", **below, "at_most": 0}],
        decisions=[{"id": "bar", "when": {**below, "lt": 0}, "then": "call the lean replicated"}],
    )
    found = scored(tmp_path, "x")
    assert outcomes(found) == {"replicated": "held", "bar": "taken"}
