"""Published figures of *Whose Gold?* on two pools of annotators and on the lean of judges."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from golden.mtbench import mtbench, with_gaps
from prereg_judge.registration.claims import Claims, Combined, Decision, Prediction, Test
from prereg_judge.study import judge_pools, leaderboard, pools
from prereg_judge.study.metric import MetricRef
from prereg_judge.study.outcomes import Resampling, StudyInput
from prereg_judge.study.pools_view import view_of
from prereg_judge.verdict import evaluate
from study.pools_made import Votes, get, made, ratio, votes


@pytest.mark.parametrize(
    ("key", "items", "opposite", "opposite_share", "changed", "changed_share"),
    [("stored", 246, 21, 0.085, 75, 0.305), ("unordered", 316, 22, 0.070, 81, 0.256)],
)
def test_convention_free_subset(
    key: str, items: int, opposite: int, opposite_share: float, changed: int, changed_share: float
) -> None:
    """*Whose Gold?*: of the convention-free items 21 of 246 have opposite winners and 75 another
    majority label; with the unordered key these are 22 and 81 of 316.
    """
    data = mtbench()
    free = {"key": key, "subset": "free"}
    assert ratio(pools, data, "items.count", **free)[0] == items
    assert ratio(pools, data, "opposite.count", **free) == (opposite, items)
    assert round(get(pools, data, "opposite.rate", **free).value or 0, 3) == opposite_share
    assert ratio(pools, data, "changed.count", **free) == (changed, items)
    assert round(get(pools, data, "changed.rate", **free).value or 0, 3) == changed_share


def test_items_of_both_pools() -> None:
    """*Whose Gold?*: both pools rated 292 items as stored, and 413 whichever way round."""
    data = mtbench()
    assert ratio(pools, data, "items.count") == (292, 2396)
    assert ratio(pools, data, "items.count", key="unordered") == (413, 1814)


def test_both_keys_are_said() -> None:
    """The sentence beside the numbers holds the published shares of both keys."""
    (words,) = pools.plain_words(mtbench())
    assert "opposite winners on 21 (8.5%), another majority label on 75 (30.5%)" in words
    assert "opposite winners on 22 (7.0%), another majority label on 81 (25.6%)" in words


@pytest.mark.parametrize(("pool", "k", "n"), [("expert", 503, 1428), ("author", 31, 99)])
def test_disagreement_inside_a_pool(pool: str, k: int, n: int) -> None:
    """*Whose Gold?*: expert-expert pairs differ in 35.2% of 1,428, author-author in 31.3% of 99."""
    found = get(pools, mtbench(), "disagreement.rate", pool=pool, key="unordered")
    assert (found.k, found.n) == (k, n)
    assert found.interval is not None
    assert found.interval.low < k / n < found.interval.high


def test_divergence_falls_with_the_gap() -> None:
    """The closer two models are in mean credit, the likelier the pools differ on them; thirds and r
    are those of numpy (computed here; not published).
    """
    data = mtbench()
    assert data.table is not None
    counts = with_gaps()
    table = replace(data.table, counts=counts)
    data = replace(data, table=table)
    thirds = [ratio(pools, data, "divergence.rate", tertile=t) for t in (1, 2, 3)]
    assert [sum(x[at] or 0 for x in thirds) for at in (0, 1)] == [100, 292]
    found = get(pools, data, "divergence.r")
    view = view_of(table, key="stored", subset="both")
    gaps = counts["stored"].gaps
    assert gaps is not None
    changed = view.pair[:, 0] != view.pair[:, 1]
    assert found.value == pytest.approx(np.corrcoef(gaps[view.used], changed)[0, 1])
    assert found.interval is not None
    assert found.interval.high < 0


@pytest.mark.parametrize("subset", ["both", "free"])
def test_the_boards_stand_alike(subset: str) -> None:
    """*Whose Gold?*: Kendall's tau over six models is 1.00 and no model is displaced."""
    data = mtbench()
    tau = get(leaderboard, data, "tau", subset=subset)
    assert tau.value == 1.0
    assert (tau.note or "").startswith("6 models")
    assert ratio(leaderboard, data, "displaced.count", subset=subset) == (0, 6)


def test_strengths_do_not_stand_alike() -> None:
    """By strength of Bradley and Terry two models change places on the same 246 items: tau depends
    on the score (computed here; not published).
    """
    data = mtbench()
    free = {"score": "bradley-terry", "subset": "free"}
    assert get(leaderboard, data, "tau", **free).value == pytest.approx(13 / 15)
    assert ratio(leaderboard, data, "displaced.count", **free) == (2, 6)


def test_the_kill_rule_needs_the_interval_too() -> None:
    """A tau of 1.00 alone does not kill: the interval of these 292 items reaches below 0.9."""
    data = mtbench(resamples=1000)
    parts = tuple(
        Test(MetricRef.of(name), low=0.9, low_open=True) for name in ("tau", "tau.ci_low")
    )
    claims = Claims(decisions=(Decision("kill", Combined("all", parts), "report the null"),))
    metrics = leaderboard.compute(data, [part.ref for part in parts])
    (outcome,) = evaluate(claims, metrics, stops_tripped={}, scored=292).outcomes
    assert outcome.outcome == "not taken"


def judged(
    *, expert: int, crowd: int, neither: int, items: int, resamples: int = 200
) -> StudyInput:
    """A judge that sides so often with each pool where they differ, and agrees with both else."""
    split = expert + crowd + neither
    table: list[Votes] = [("a", "b")] * split + [("a", "a")] * (items - split)
    said = "b" * expert + "a" * crowd + "t" * neither + "a" * (items - split)
    data = made(votes(table), judges={"j": (said, said)}, resampling=Resampling(resamples, 11))
    assert data.table is not None
    return replace(data, table=replace(data.table, pools=("expert", "crowd")))


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
) -> None:
    """*Whose Gold?*: expert minus crowd agreement of three judges, their sides on pool-split items
    and the crowd's share among the matched, from fixtures with these margins.
    """
    expert, crowd, neither, items = counts
    data = judged(expert=expert, crowd=crowd, neither=neither, items=items)

    def percent(name: str, **params: str) -> float:
        return round(100 * (get(judge_pools, data, name, judge="j", **params).value or 0), 1)

    assert percent("lean.difference") == lean
    sides = ("crowd", "expert", "neither")
    assert tuple(percent("split.rate", side=side) for side in sides) == shares
    assert percent("split.matched.rate", pool="crowd") == matched


def test_an_under_powered_run_does_not_clear_the_bar() -> None:
    """*Whose Gold?*: lean -3.2 pp [-7.3, +1.2] does not clear the replication bar; the decision is
    not taken, the prediction failed, and both stay in the record.
    """
    data = judged(expert=51, crowd=67, neither=20, items=500, resamples=2000)
    ref = MetricRef.of("lean.difference", judge="j")
    high = MetricRef.of("lean.difference.ci_high", judge="j")
    metrics = judge_pools.compute(data, [ref, high])
    found = metrics[ref]
    assert found.interval is not None
    assert round(100 * (found.value or 0), 1) == -3.2
    assert 100 * found.interval.low == pytest.approx(-7.3, abs=0.4)
    assert 100 * found.interval.high == pytest.approx(1.2, abs=0.4)
    below = Test(high, high=0.0, high_open=True)
    claims = Claims(
        predictions=(Prediction("replicated", below),),
        decisions=(Decision("bar", below, "call the lean replicated"),),
    )
    verdict = evaluate(claims, metrics, stops_tripped={}, scored=500)
    assert [o.outcome for o in verdict.outcomes] == ["failed", "not taken"]
    assert verdict.word == "FAIL"
