"""Rehearsals: every path and study, what a reader is told, and that none can become a run."""

from __future__ import annotations

import io
import json
import math
import shutil
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from flow.rehearsals import draft, metrics, outcomes, played, rare, totals
from prereg_judge.canon import canonical_json, sha256_bytes, sha256_file
from prereg_judge.errors import UsageError
from prereg_judge.flow.assumptions import read_assumptions
from prereg_judge.flow.prepare import read_inputs
from prereg_judge.flow.redraw import attempt_fault, reply_fault
from prereg_judge.flow.rehearsing import Stage, entropy_of, rehearse
from prereg_judge.flow.settings import decoding_of
from prereg_judge.record.run import read_plan, read_record
from prereg_judge.report.rehearsal import (
    Rehearsal,
    Spread,
    as_json,
    not_told_apart,
    render,
    spreads,
    verdict_shares,
    warnings,
)
from prereg_judge.stats.location import mean_interval
from prereg_judge.stats.proportions import wilson_interval
from prereg_judge.workspace import Workspace
from support import (
    JUDGE,
    locked,
    make_workspace,
    new,
    prereg,
    rechained,
    run_scripted,
    verdict_reply,
)

SEEDED = "seeded,seed=7,temperature=1,top_k=0,top_p=1,min_p=0"
Lines = list[dict[str, Any]]


# --- Paths, arms, earlier runs ------------------------------------------------------------------


@pytest.mark.parametrize(
    "decoding",
    ["sampled,temperature=0.8,top_k=40,top_p=0.95,min_p=0.05", SEEDED, "greedy"],
    ids=["sampled", "seeded", "greedy"],
)
@pytest.mark.parametrize("path", ["generate", "choice"])
def test_a_simulated_record_is_one_that_the_engine_could_have_made(
    path: Any, decoding: str, tmp_path: Path
) -> None:
    """Every recorded verdict follows from its seed and its compared tokens, hangs among them."""
    root = draft(tmp_path / "w", path=path, decoding=decoding)
    inputs = read_inputs(Workspace(root), "x")
    assumed = read_assumptions({"agreement": "0.8", "hang": "0.1", "crash": "0.1"}, inputs)
    folder = tmp_path / "record"
    folder.mkdir()
    Stage(inputs).play(assumed, entropy_of(1, 1), folder)
    made = read_record(folder, shown="made").attempts
    assert len(made) > 40
    for line in made:
        verdicts, seed = inputs.judge.spec.verdicts, 7 if "seeded" in decoding else None
        registered = decoding_of(inputs.model)
        assert not attempt_fault(line, path=path, decoding=registered, seed=seed, verdicts=verdicts)
        assert not reply_fault(line, served=False, thinks=False, parallel=1, n_trials=40)
    by_row: dict[str, set[str]] = {}
    for line in made:
        if line.verdict is not None:
            by_row.setdefault(line.trial.rpartition("/")[0], set()).add(line.verdict)
    assert (max(map(len, by_row.values())) > 1) == ("sampled" in decoding)


def test_expected_agreement_is_the_stated_one(tmp_path: Path) -> None:
    """On the path `choice` the closed form gives exactly what was planted, in every play."""
    root = draft(
        tmp_path / "w",
        path="choice",
        band="closed:: sentinel.expected_agreement.rate=0.7..0.9",
        predict="seen:: sentinel.agreement.count >= 5",
    )
    scenario = played(root, "agreement=0.8", times=30)
    found = metrics(scenario, "sentinel.expected_agreement.rate")
    assert [m.value for m in found] == pytest.approx([0.8] * 30, abs=1e-9)
    assert not rare(*totals(metrics(scenario, "sentinel.agreement.count")), 0.8)


def test_two_arms_agree_as_stated(tmp_path: Path) -> None:
    """In a comparison of two settings the stated agreement is that of the arms."""
    root = draft(
        tmp_path / "w",
        study="path-fidelity",
        decoding=SEEDED,
        arm=["path=generate,prefix=whole", "path=choice,parallel=4"],
        band=None,
        predict="alike:: sentinel.fidelity.rate.ci_low >= 0.5",
    )
    scenario = played(root, "agreement=0.8,accuracy=0.5", times=60)
    found = metrics(scenario, "sentinel.fidelity.rate.ci_low")
    assert not rare(*totals(found), 0.8)
    assert 0 < outcomes(scenario, "alike")["held"] < 60


def test_a_real_earlier_run_is_compared_with(tmp_path: Path) -> None:
    """A judge that always says NO flips exactly the rows to which the earlier run gave YES."""
    root = make_workspace(tmp_path / "w", n=6)
    locked(root, "one", passes="1", band="sentinel.verdict.count[verdict=YES,pass=1]=1..3")
    run_scripted(
        root, "one", lambda key, _: verdict_reply("YES" if "r01" in key or "r04" in key else "NO")
    )
    flips = "sentinel.flips_from.count[from_run=one,verdict=YES]"
    done = new(root, "x", predict=f"flips:: {flips} >= 1")
    assert done.code == 0, done.err
    scenario = played(root, "agreement=1,accuracy=1", times=3)
    assert {(m.k, m.n) for m in metrics(scenario, flips)} == {(2, 2)}
    assert any("compares with the real run one" in note for note in scenario.notes)


@pytest.mark.parametrize(
    "fields",
    [
        "    why: {type: string, minLength: 3, maxLength: 20}\n",
        "    why: {type: array, items: {type: integer}, minItems: 1, maxItems: 2}\n",
        "    why: {type: boolean}\n",
    ],
)
def test_a_reply_is_invented_for_a_judge_that_reasons(fields: str, tmp_path: Path) -> None:
    """A reply with more than the verdict has a short value for the rest, and is read as meant."""
    judge = JUDGE.replace("    verdict: {type", f"{fields}    verdict: {{type")
    judge = judge.replace("required: [verdict]", "required: [why, verdict]")
    root = make_workspace(tmp_path / "w", judge=judge)
    assert new(root, "x", max_tokens="64").code == 0
    scenario = played(root, "agreement=0.8", times=3)
    assert {p.calls for p in scenario.plays} == {8}
    assert {m.n for m in metrics(scenario, "sentinel.agreement.count")} == {4}


def test_choice_needs_a_closed_reply(tmp_path: Path) -> None:
    """What `check` refuses of the path `choice` is not played either."""
    judge = JUDGE.replace(
        "    verdict: {type", "    why: {type: string, maxLength: 20}\n    verdict: {type"
    ).replace("required: [verdict]", "required: [why, verdict]")
    root = make_workspace(tmp_path / "w", judge=judge)
    new(root, "x")
    path = root / "registrations/x.yaml"
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace("path: generate", "path: choice"), encoding="utf-8")
    with pytest.raises(UsageError, match="holds the verdict and nothing else"):
        played(root, "agreement=0.8")


# --- What a reader is told ----------------------------------------------------------------------


def test_what_is_not_simulated_is_said(tmp_path: Path) -> None:
    """Claims on durations and on reasons that no simulated call has come with a note."""
    root = draft(
        tmp_path / "w",
        predict=["slow:: calls.seconds.median <= 5", "caps:: calls.caps <= 3"],
        decoding=SEEDED,
    )
    notes = "\n".join(played(root, "agreement=0.8").notes)
    assert "calls.seconds.median is not simulated" in notes
    assert "calls.caps is not simulated: no simulated call ends as cap" in notes
    assert "a later pass repeats the first" in notes


def test_warnings_name_claims_that_tell_nothing(tmp_path: Path) -> None:
    """A claim with one outcome throughout, and what was undefined, are named with counts."""
    root = draft(tmp_path / "w", missing="undefined", hang="60s,retries=0")
    scenario = played(root, "agreement=1,hang=1", times=5)
    assert {s.word: s.k for s in verdict_shares(scenario)}["INCONCLUSIVE"] == 5
    said = "\n".join(warnings(scenario))
    assert "came out 'undefined' in all 5 plays" in said
    assert "INCONCLUSIVE in 5 of 5 plays: band" in said
    assert "was undefined in 5 of 5 plays: nothing_scored" in said
    (spread,) = spreads(scenario)
    assert (spread.values, spread.mean, spread.interval, spread.quantiles) == ((), None, None, ())


def test_two_scenarios_side_by_side(tmp_path: Path) -> None:
    """`against` changes the keys that it names alone, and says what does not tell the two apart."""
    root = draft(
        tmp_path / "w",
        band="agree:: sentinel.agreement.count=18..20",
        predict="calls:: calls.count <= 60",
    )
    found = rehearse(
        Workspace(root), "x", assume=["agreement=0.95,hang=0.01"], against=["agreement=0.55"],
        times=25, seed=1,
    )  # fmt: skip
    one, other = found.scenarios
    assert one.stated == {"agreement": "0.95", "hang": "0.01"}
    assert other.stated == {"agreement": "0.55", "hang": "0.01"}
    assert outcomes(one, "agree")["inside"] > 15
    assert outcomes(other, "agree")["inside"] < 10
    (said,) = not_told_apart(one, other)
    assert said.startswith("prediction calls does not tell the two apart")


def test_limits_of_a_t_interval_have_no_bounds(tmp_path: Path) -> None:
    """Limits of a mean change of probability go below 0 and above 1, and so do their means."""
    whole = "prefix=whole,parallel=1"
    root = make_workspace(tmp_path / "w", n=4)
    done = new(
        root,
        "x",
        study="path-fidelity",
        decoding=SEEDED,
        arm=[f"path=choice,{whole}", "path=choice,prefix=shared,parallel=8"],
        band="f:: sentinel.fidelity.count=2..3",
        predict=[
            "ph:: sentinel.probability_change.mean.ci_high <= 0.9",
            "pc:: sentinel.probability_change.mean.ci_low >= -0.5",
        ],
    )
    assert done.code == 0, done.err
    found = {
        s.ref.name.rpartition(".")[2]: s
        for s in spreads(played(root, "agreement=0.8", times=60, seed=2))
    }
    assert found["ci_high"].within[1] == math.inf
    assert found["ci_low"].within[0] == -math.inf
    for side in ("ci_low", "ci_high"):
        free = mean_interval(found[side].values, level=0.95)
        assert found[side].interval == free
    assert min(found["ci_low"].values) < 0
    assert max(found["ci_high"].values) > 1


def test_a_mean_is_clipped_at_what_was_planned(tmp_path: Path) -> None:
    """Where rows drop out, the planned rows are the bound, not what the plays at hand had left."""
    root = draft(
        tmp_path / "w",
        n=10,
        missing="exclude",
        hang="60s,retries=0",
        band="c:: sentinel.agreement.count=1..9",
    )
    scenario = played(root, "agreement=1,hang=0.3", times=12)
    (spread,) = spreads(scenario)
    assert spread.within == (0.0, 10.0)
    assert max(m.n or 0 for m in metrics(scenario, "sentinel.agreement.count")) < 10
    pair = Spread(spread.ref, (5.0, 6.0), 2, {}, spread.within)
    assert pair.interval == (0.0, 10.0)


@pytest.mark.parametrize("path", ["generate", "choice"])
def test_greedy_follows_the_lead_where_all_is_alike(path: str, tmp_path: Path) -> None:
    """With agreement at its least, rows that all lead rightly are right, and wrong if wrongly."""
    root = draft(
        tmp_path / "w", path=path, decoding="greedy", band="sentinel.wrong.count[pass=1]=0..4"
    )
    for accuracy, wrong in ((1, 0), (0, 20)):
        scenario = played(root, f"agreement=0.5,accuracy={accuracy}", times=2)
        found = metrics(scenario, "sentinel.wrong.count[pass=1]")
        assert {m.value for m in found} == {float(wrong)}


def test_one_play_is_no_plural(tmp_path: Path) -> None:
    """A single rehearsal of the only trial reads so."""
    root = draft(tmp_path / "w", n=1, passes="1", band="calls.count=1..1")
    found = rehearse(Workspace(root), "x", assume=["agreement=0.8,hang=1"], times=1, seed=1)
    out = io.StringIO()
    Console(file=out, width=160).print(render(found))
    assert "x: 1 rehearsal of 1 trial (simulated" in out.getvalue()
    said = " ".join(warnings(found.scenarios[0]))
    assert "in the only play: it" in said
    assert "1 plays" not in said


def test_each_metric_has_the_range_that_it_can_have(tmp_path: Path) -> None:
    """Counts go to what is planned, limits to what they are at most, durations have no end."""
    root = draft(
        tmp_path / "w",
        band="agree:: sentinel.agreement.count=8..19",
        predict=[
            "rate:: sentinel.agreement.rate.ci_low >= 0.3", "slow:: calls.seconds.median <= 5",
            "hung:: calls.hangs <= 3", "mean:: calls.seconds.mean.ci_low <= 5",
        ],
    )  # fmt: skip
    scenario = played(root, "agreement=0.8", times=3)
    within = {spread.ref.name: spread.within for spread in spreads(scenario)}
    assert within == {
        "sentinel.agreement.count": (0.0, 20.0),
        "sentinel.agreement.rate.ci_low": (0.0, wilson_interval(20, 20, level=0.95)[0]),
        "calls.seconds.median": (0.0, math.inf),
        "calls.hangs": (0.0, 80.0),  # each of 40 trials can be tried twice
        "calls.seconds.mean.ci_low": (-math.inf, math.inf),
    }


# --- Replay, and nothing left behind ------------------------------------------------------------


def values(found: Rehearsal) -> str:
    """Everything that a rehearsal tells, as text."""
    return json.dumps(as_json(found))


def test_the_same_seed_is_the_same_rehearsal(tmp_path: Path) -> None:
    """Twice alike with a seed, otherwise with another; a play alone is what it is among others."""
    root = draft(tmp_path / "w")
    assume = ["agreement=0.7,hang=0.05,repeat=0.1"]
    ws = Workspace(root)
    first = rehearse(ws, "x", assume=assume, times=6, seed=3)
    assert values(first) == values(rehearse(ws, "x", assume=assume, times=6, seed=3))
    assert values(first) != values(rehearse(ws, "x", assume=assume, times=6, seed=4))
    inputs = read_inputs(ws, "x")
    assumed = read_assumptions(first.scenarios[0].stated, inputs)
    assert Stage(inputs).play(assumed, entropy_of(3, 5)) == first.scenarios[0].plays[4]


def files(root: Path) -> dict[str, str]:
    """Every file of a workspace with its hash."""
    return {str(p): sha256_file(p) for p in root.rglob("*") if p.is_file()}


def test_a_rehearsal_leaves_nothing_behind(tmp_path: Path) -> None:
    """Neither a draft's nor a locked registration's workspace changes in a single byte."""
    root = draft(tmp_path / "draft")
    before = files(root)
    played(root, "agreement=0.8", times=2)
    assert files(root) == before
    assert not (root / "runs").exists()
    root = make_workspace(tmp_path / "locked")
    locked(root, "x")
    before = files(root)
    played(root, "agreement=0.8", times=2)
    assert files(root) == before


def forged(root: Path, record: Path, *, marked: bool) -> None:
    """Put a simulated record in the place of run 1 of `x`, everything else made to fit."""
    folder = root / "runs/x/1"
    prompts = {line.trial: line.prompt for line in read_plan(folder, shown="x")}
    began = json.loads((folder / "attempts.jsonl").read_bytes().splitlines()[0])

    def fits(lines: Lines) -> Lines:
        header = {k: v for k, v in lines[0].items() if marked or k != "simulated"}
        rest = [{**line, "prompt": prompts[line["trial"]]} for line in lines[1:]]
        return [{**header, "run": 1, "at": began["at"], "ledger": began["ledger"]}, *rest]

    attempts = rechained(record.read_bytes(), fits)
    (folder / "attempts.jsonl").write_bytes(attempts)
    manifest = json.loads((folder / "manifest.json").read_bytes())
    manifest["attempts"] = len(attempts.splitlines()) - 1
    manifest["attempts_head"] = sha256_bytes(attempts.splitlines()[-1])
    manifest["files"]["attempts.jsonl"] = sha256_bytes(attempts)
    data = canonical_json(manifest) + b"\n"
    (folder / "manifest.json").write_bytes(data)
    ledger = root / "registrations/ledger.jsonl"

    def ended(lines: Lines) -> Lines:
        (end,) = [e for e in lines if e["event"] == "run_finished"]
        end["manifest"] = sha256_bytes(data)
        return lines

    raw = rechained(ledger.read_bytes(), ended)
    ledger.write_bytes(raw)
    lines = raw.splitlines()
    tip = {"head": sha256_bytes(lines[-1]), "lines": len(lines)}
    ledger.with_name("ledger.tip").write_bytes(canonical_json(tip) + b"\n")


def test_a_simulated_record_is_never_scored(tmp_path: Path) -> None:
    """Copied into a run with everything else forged, it is refused for its mark, and for nothing
    else: without the mark it would pass for a run.
    """
    root = make_workspace(tmp_path / "w")
    locked(root, "x")
    run_scripted(root, "x", lambda _key, _before: verdict_reply("NO"))
    inputs = read_inputs(Workspace(root), "x")
    folder = tmp_path / "record"
    folder.mkdir()
    assumed = read_assumptions({"agreement": "0.6"}, inputs)
    Stage(inputs).play(assumed, entropy_of(1, 1), folder)
    for marked in (True, False):
        copy = Path(shutil.copytree(root, tmp_path / f"marked-{marked}"))
        forged(copy, folder / "attempts.jsonl", marked=marked)
        done = prereg("score", "x", "--json", root=copy)
        if marked:
            assert done.code == 5
            assert done.json["verdict"] == "INVALID"
            (problem,) = done.json["problems"]
            assert "is the record of a rehearsal" in problem["what"]
        else:
            assert done.json["verdict"] in ("PASS", "FAIL"), done.err
