"""Rehearsals of a judge of pairs: a planted position is found again, and none where there is none.

Each figure is compared with a second computation: a closed form, or a judge that is played by
brute force, call by call, without the tool.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import binomtest

from flow.pairs_drafts import (
    ORDERS,
    SCALES,
    by_brute_force,
    labels,
    pairs_workspace,
    spread_of,
    write_draft,
)
from flow.rehearsals import TINY, metrics, outcomes, played, totals
from prereg_judge.errors import UsageError
from prereg_judge.flow.assumptions import read_assumptions
from prereg_judge.flow.prepare import read_inputs
from prereg_judge.flow.redraw import attempt_fault, reply_fault
from prereg_judge.flow.rehearsing import Stage, entropy_of, rehearse
from prereg_judge.flow.settings import decoding_of
from prereg_judge.record.run import read_record
from prereg_judge.report.rehearsal import Scenario, as_json, warnings
from prereg_judge.workspace import Workspace
from study.pairs_made import FIVE, THREE
from support import prereg
from tabling import JUDGE, VERDICTS, band, write_registration, write_table, write_votes

N = 40
BIAS = "real.order.bias.difference[pass=1]"
EXCESS = "real.order.excess.difference"
FINER = "real.order.excess.difference[scale=verdict]"


def least(ident: str, metric: str, limit: float, **params: Any) -> dict[str, Any]:
    """A prediction that a metric is at least something."""
    named = {key.rstrip("_"): value for key, value in params.items()}
    return {"id": ident, "metric": metric, **named, "at_least": limit}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Drafts alike but for the scale, each with every measure of order among its claims."""
    root = pairs_workspace(tmp_path_factory.mktemp("pairs") / "w", n=N)
    of_order = "real.order"
    for scale in SCALES:
        write_draft(
            root,
            scale,
            scale=scale,
            predictions=[
                least("bias", f"{of_order}.bias.difference", -0.4, pass_=1),
                least("excess", f"{of_order}.excess.difference", -0.45),
                least("finer", f"{of_order}.excess.difference", -0.45, scale="verdict"),
                least("repeat", f"{of_order}.repeat.rate", 0.01),
                least("swap", f"{of_order}.swap.rate", 0.01),
                least("low", f"{of_order}.excess.difference.ci_low", -0.45),
                least("high", f"{of_order}.excess.difference.ci_high", -0.45),
                least("reversal", f"{of_order}.reversal.count", 1, pass_=1),
                least("exact", f"{of_order}.exact.count", 1, pass_=1),
                least("slot", f"{of_order}.slot.rate", 0.1, pass_=1),
                least("wrong", "real.wrong.count", 1, order="ba", pass_=1),
            ],
            refuters=[
                {
                    "id": "biased",
                    "when": {"metric": f"{of_order}.bias.p", "pass": 1, "lt": 0.05},
                    "means": "verdicts move with the place",
                },
            ],
        )
    return root


# --- Rehearsals ---------------------------------------------------------------------------------


def mean_of(scenario: Scenario, name: str) -> tuple[float, float]:
    """Mean of a metric over the plays, and its standard error."""
    values = np.array([m.value for m in metrics(scenario, name)], dtype=float)
    return float(values.mean()), float(values.std(ddof=1)) / math.sqrt(len(values))


@pytest.mark.parametrize(
    ("scale", "position"), [("forced", 0.4), ("three", -0.3), ("five", 0.4), ("five", -0.3)]
)
def test_a_planted_position_is_recovered(root: Path, scale: str, position: float) -> None:
    """Over the plays the bias is about q / 2 and the excess about q^2, on either scale."""
    times = 30
    scenario = played(root, f"agreement=0.75,position={position}", ident=scale, times=times)
    brute = by_brute_force(SCALES[scale], agreement=0.75, position=position, n=times * N, seed=23)
    expected = {BIAS: position / 2, EXCESS: position**2}
    for (name, value), (_, other) in zip(expected.items(), brute, strict=True):
        found, error = mean_of(scenario, name)
        assert abs(found - value) < 4.5 * error, name
        # Plays vary as brute force does: no row and no order moves with another.
        assert 0.7 < error / other < 1.4, name
    found, error = mean_of(scenario, FINER)
    assert abs(found - position**2) < 4.5 * error
    assert any(f"order.bias.difference {position / 2:g}" in note for note in scenario.notes)
    assert any(f"difference {position**2:g}." in note for note in scenario.notes)


@pytest.mark.parametrize("scale", SCALES)
def test_without_a_position_nothing_fires(root: Path, scale: str) -> None:
    """A noisy judge that looks only at answers has reversals, and neither bias nor excess."""
    times = 40
    scenario = played(root, "agreement=0.6,accuracy=0.7", ident=scale, times=times)
    fired = outcomes(scenario, "biased")["fired"]
    assert binomtest(fired, times, 0.05, alternative="greater").pvalue > TINY
    lows, highs = (metrics(scenario, f"{EXCESS}.ci_{end}") for end in ("low", "high"))
    held = sum(
        low.value is not None and high.value is not None and low.value <= 0 <= high.value
        for low, high in zip(lows, highs, strict=True)
    )
    assert binomtest(held, times, 0.95, alternative="less").pvalue > TINY
    for name in (BIAS, EXCESS, FINER):
        found, error = mean_of(scenario, name)
        assert abs(found) < 4.5 * error, name
    assert totals(metrics(scenario, "real.order.reversal.count[pass=1]"))[0] > 0
    assert any("order.bias.difference 0; order.excess" in note for note in scenario.notes)


def test_a_strong_position_is_noticed_every_time(root: Path) -> None:
    """What a null leaves silent fires in every play of a judge half drawn to a place."""
    scenario = played(root, "agreement=0.8,position=0.5", ident="five", times=20)
    assert outcomes(scenario, "biased") == {"fired": 20, "silent": 0}


@pytest.mark.parametrize("scale", SCALES)
def test_a_sure_judge_says_the_same_of_the_answers_in_both_orders(root: Path, scale: str) -> None:
    """A row leads with one verdict on its answers, whatever the order, and so does its label."""
    scenario = played(root, "agreement=1", ident=scale, times=5)
    assert totals(metrics(scenario, "real.order.exact.count[pass=1]")) == (5 * N, 5 * N)
    assert totals(metrics(scenario, "real.order.reversal.count[pass=1]")) == (0, 5 * N)
    assert {m.value for m in metrics(scenario, EXCESS)} == {0.0}
    right = played(root, "agreement=1,accuracy=1", ident=scale, times=2)
    assert totals(metrics(right, "real.wrong.count[order=ba,pass=1]")) == (0, 2 * N)


@pytest.mark.parametrize(("position", "share"), [(1, 1.0), (-1, 0.0)])
def test_a_judge_that_sees_only_the_place(root: Path, position: int, share: float) -> None:
    """At position 1 or -1 every verdict is for one place, so that every item is reversed."""
    scenario = played(root, f"agreement=0.5,position={position}", ident="five", times=3)
    assert totals(metrics(scenario, "real.order.reversal.count[pass=1]")) == (3 * N, 3 * N)
    assert {m.value for m in metrics(scenario, "real.order.slot.rate[pass=1]")} == {share}
    assert {m.value for m in metrics(scenario, BIAS)} == {position / 2}
    assert {m.value for m in metrics(scenario, EXCESS)} == {1.0}


def test_a_place_is_preferred_as_strongly_as_the_row_leads(tmp_path: Path) -> None:
    """Slight rows give slight verdicts, clear ones clear ones, and ties the strongest there are."""
    root = pairs_workspace(tmp_path / "w", n=20)
    for order in ORDERS:
        claims = [
            least(f"v{i}", "real.verdict.count", 1, verdict=v, order=order, pass_=1)
            for i, v in enumerate(FIVE.sides)
        ]
        write_draft(root, order, scale="five", predictions=claims)
        scenario = played(root, "agreement=1,accuracy=1,position=-1", ident=order)
        given = {
            v: metrics(scenario, f"real.verdict.count[order={order},pass=1,verdict={v}]")[0].k
            for v in FIVE.sides
        }
        # Said of the answers: the second place is answer b in the order ab and answer a in ba.
        clear, slight = ("BB", "B") if order == "ab" else ("AA", "A")
        assert labels(FIVE, 20).count("tie") == 4
        assert given == dict.fromkeys(FIVE.sides, 0) | {clear: 4 * 3, slight: 4 * 2}


def test_a_lean_is_said_of_the_answers_as_shown(root: Path) -> None:
    """A judge that always says A says so of the first place, in both orders."""
    scenario = played(root, "agreement=0.8,lean=A:1", ident="three", times=2)
    assert {m.value for m in metrics(scenario, "real.order.slot.rate[pass=1]")} == {1.0}
    assert totals(metrics(scenario, "real.order.reversal.count[pass=1]")) == (2 * N, 2 * N)


def test_passes_repeat_what_was_said_in_the_same_order(root: Path) -> None:
    """With `repeat` 1 there is no repeat noise, so that all of the swap counts as excess."""
    scenario = played(root, "agreement=0.6,repeat=1", ident="three", times=10)
    assert {m.value for m in metrics(scenario, "real.order.repeat.rate")} == {0.0}
    swap, excess = (
        [m.value for m in metrics(scenario, name)] for name in ("real.order.swap.rate", EXCESS)
    )
    assert swap == excess
    # Passes in different orders do not repeat each other: they differ as two draws do.
    found, error = mean_of(scenario, "real.order.swap.rate")
    assert abs(found - 0.4) < 4.5 * error
    assert any("hide repeat noise" in note for note in scenario.notes)


def test_agreement_is_that_of_the_full_scale(root: Path) -> None:
    """A note says how often the same answer is preferred, which brute force finds as well."""
    note = next(
        n
        for n in played(root, "agreement=0.7", ident="five").notes
        if n.startswith("`agreement` is that of the full scale")
    )
    p = spread_of(0.7, 5)
    rest = (1 - p) / 4
    clear = (p + rest) ** 2 + rest**2 + (2 * rest) ** 2
    tie = p**2 + 2 * (2 * rest) ** 2
    assert f"{min(clear, tie):.4g} to {max(clear, tie):.4g}" in note
    three = played(root, "agreement=0.7", ident="three").notes
    assert not any("full scale" in n for n in three)


@pytest.mark.parametrize("path", ["generate", "choice"])
def test_a_simulated_record_of_pairs_is_one_that_the_engine_could_have_made(
    path: Any, tmp_path: Path
) -> None:
    """Every verdict follows from its seed, in both orders, which hold the same row as mirrors."""
    root = pairs_workspace(tmp_path / "w", n=10)
    write_draft(root, protocol={"path": path})
    inputs = read_inputs(Workspace(root), "x")
    stated = {"agreement": "0.8", "position": "-0.3", "repeat": "0.5", "hang": "0.1"}
    folder = tmp_path / "record"
    folder.mkdir()
    Stage(inputs).play(read_assumptions(stated, inputs), entropy_of(1, 1), folder)
    made = read_record(folder, shown="made").attempts
    assert {line.trial.split("/")[2] for line in made} == set(ORDERS)
    for line in made:
        registered, verdicts = decoding_of(inputs.model), inputs.judge.spec.verdicts
        assert not attempt_fault(line, path=path, decoding=registered, seed=None, verdicts=verdicts)
        assert not reply_fault(line, served=False, thinks=False, parallel=1, n_trials=40)


@pytest.mark.parametrize(("position", "reversed_"), [(0.2, 0), (0.6, 30)])
def test_greedy_decoding_takes_the_likeliest(
    tmp_path: Path, position: float, reversed_: int
) -> None:
    """Below half a position changes no greedy verdict, above it every one; a note says so."""
    root = pairs_workspace(tmp_path / "w", n=30)
    write_draft(
        root,
        scale="forced",
        protocol={"decoding": {"mode": "greedy"}},
        predictions=[least("reversal", "real.order.reversal.count", 1, pass_=1)],
    )
    scenario = played(root, f"agreement=0.9,position={position}")
    found = metrics(scenario, "real.order.reversal.count[pass=1]")
    assert [m.k for m in found] == [reversed_]
    assert any("likeliest verdict, so a position does not show" in n for n in scenario.notes)
    assert not any(n.startswith("Expected of") for n in scenario.notes)


def test_one_order_can_be_rehearsed_too(tmp_path: Path) -> None:
    """In one order a position moves verdicts to its place, where nothing compares the orders."""
    root = pairs_workspace(tmp_path / "w", n=30)
    write_draft(
        root,
        scale="forced",
        protocol={"orders": ["ab"]},
        predictions=[least("slot", "real.order.slot.rate", 0.1, pass_=1, order="ab")],
    )
    scenario = played(root, "agreement=1,accuracy=1,position=0.4", times=40)
    found, error = mean_of(scenario, "real.order.slot.rate[order=ab,pass=1]")
    assert abs(found - (0.4 + 0.6 * 0.5)) < 4.5 * error  # half of the labels are for the first
    assert not any(n.startswith("Expected of") for n in scenario.notes)


# --- Votes --------------------------------------------------------------------------------------


def test_simulated_verdicts_are_held_against_the_real_votes(tmp_path: Path) -> None:
    """A judge that is right on all items agrees with each pool as often as its labels do."""
    root = pairs_workspace(tmp_path / "w", n=20)
    sides = [THREE.sides[label] for label in labels(THREE, 20)]
    crowd = ["a" if side > 0 else "b" if side < 0 else "tie" for side in sides]
    expert = [vote if i % 2 else "a" for i, vote in enumerate(crowd)]
    write_table(
        root / "data/votes.csv",
        ("item", "who", "pool", "label"),
        [
            (f"r{i}", f"{pool}-1", pool, vote)
            for pool, votes in (("crowd", crowd), ("expert", expert))
            for i, vote in enumerate(votes)
        ],
    )
    matched = sum(one == other for one, other in zip(crowd, expert, strict=True))
    write_draft(
        root,
        scale="three",
        resolve="agree_or_tie",
        annotations={
            "file": "data/votes.csv",
            "layout": "long",
            "columns": {"item": "item", "annotator": "who", "pool": "pool", "label": "label"},
            "labels": {"a": "a", "b": "b", "tie": "tie"},
            "pools": [{"name": "crowd", "match": "crowd"}, {"name": "expert", "match": "expert"}],
            "key": "stored",
            "split": "tie",
        },
        predictions=[
            least("lean", "lean.difference", -0.5, judge="pass-1"),
            least("agree", "agreement.count", 1, judge="pass-2", pool="expert"),
            least("length", "real.length.follow.rate", 0.1, pass_=1),
        ],
    )
    scenario = played(root, "agreement=1,accuracy=1", times=2)
    assert 0 < matched < 20
    lean = metrics(scenario, "lean.difference[judge=pass-1]")
    assert [m.value for m in lean] == pytest.approx([1 - matched / 20] * 2)
    agree = metrics(scenario, "agreement.count[judge=pass-2,pool=expert]")
    assert [(m.k, m.n) for m in agree] == [(matched, 20)] * 2
    said = " ".join(scenario.notes)
    assert "lean.difference[judge=pass-1] holds simulated verdicts against the registered" in said
    assert "real.length.follow.rate[pass=1]: the simulated judge does not see how long" in said
    # A judge that is drawn to a place is resolved to ties, and so leans less to either pool.
    placed = played(root, "agreement=1,accuracy=1,position=1")
    (found,) = metrics(placed, "agreement.count[judge=pass-2,pool=expert]")
    assert found.k == expert.count("tie")


# --- Registrations without a judge to play ------------------------------------------------------


def test_where_nothing_is_called_there_is_nothing_to_rehearse(tmp_path: Path) -> None:
    """Each study of tables is refused with what to do instead, whatever is assumed, with exit 2."""
    root = tmp_path / "w"
    items = [("aab", "ab"), ("bbb", "bb"), ("att", "at"), ("aaa", "ba")]
    write_votes(root, items, models=[("m1", "m2"), ("m2", "m3"), ("m1", "m3"), ("m1", "m2")])
    header = ("item", "first", "second", "ab", "ba")
    write_table(
        root / VERDICTS, header, [("i0", "m1", "m2", "a", "b"), ("i1", "m2", "m3", "b", "b")]
    )
    judge = {**JUDGE, "models": ["first", "second"]}
    claims = {
        "pools": band("one", "changed.count", (0, 3)),
        "judge-pools": band("one", "lean.difference", (-0.9, 0.9), judge="j"),
        "leaderboard": band("one", "tau", (-0.9, 0.9)),
        "pairwise": band("one", "real.order.reversal.count", (0, 1), pass_=1),
    }
    for study, claimed in claims.items():
        more = {"judges": [judge]} if study in ("pairwise", "judge-pools") else {}
        write_registration(root, study, study, bands=[claimed], primary="one", **more)
        read_inputs(Workspace(root), study)  # it is in order otherwise
        for assume in ([], ["--assume", "agreement=0.8,position=0.1"], ["--assume", "speed=1"]):
            done = prereg("rehearse", study, *assume, root=root)
            assert done.code == 2, (study, done)
            said = " ".join(done.err.split())
            assert "there is no judge to simulate" in said
            assert f"prereg check {study}" in said
            assert not done.out
    with pytest.raises(UsageError, match="no judge to simulate"):
        rehearse(Workspace(root), "pools", assume=["agreement=0.8"], times=1, seed=1)


def test_a_rehearsal_of_pairs_as_json(root: Path) -> None:
    """What was assumed, expected and not stated stands in the JSON form; the seed replays it."""
    workspace = Workspace(root)
    found = [
        as_json(rehearse(workspace, "five", assume=["agreement=0.8"], against=["position=0.5"],
                         times=3, seed=4))
        for _ in range(2)
    ]  # fmt: skip
    assert found[0] == found[1]
    first, second = found[0]["scenarios"]
    assert "position (0)" in first["not_stated"]
    assert second["assumed"] == {"agreement": "0.8", "position": "0.5"}
    assert any(n.startswith("Position: with chance 0.5 a call prefers the answer shown first")
               for n in second["notes"])  # fmt: skip
    assert not any("osition" in n for n in first["notes"])
    assert not [w for w in warnings(played(root, "agreement=0.8", ident="five")) if "undef" in w]
