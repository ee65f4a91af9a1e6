"""Study `path-fidelity` from flags to score: two engine settings compared, one a pass."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from prereg_judge.flow.running import run_registration
from prereg_judge.flow.settings import EngineSettings
from prereg_judge.record.run import read_record
from prereg_judge.workspace import Workspace
from support import Done, ScriptedBackend, locked, make_workspace, new, prereg, verdict_reply

RUN = "runs/x/1"
SEEDED = "seeded,seed=7,temperature=1,top_k=0,top_p=1,min_p=0"
FIDELITY: dict[str, str | list[str] | None] = {
    "study": "path-fidelity",
    "decoding": SEEDED,
    "arm": ["path=generate,prefix=whole", "path=choice,parallel=4"],
    "band": None,
    "predict": "agree:: sentinel.fidelity.rate.ci_low >= 0.4",
}


def fidelity(root: Path, **changed: str | list[str] | None) -> Done:
    """Lock a comparison `x` of six rows, run it with the real model, score it."""
    make_workspace(root, n=6)
    locked(root, "x", **{**FIDELITY, **changed})
    done = prereg("run", "x", root=root)
    assert done.code == 0, done.err
    return prereg("score", "x", "--json", root=root)


def metric(score: dict[str, Any], name: str) -> dict[str, Any]:
    """A metric of the summary that has no parameters."""
    (found,) = [m for m in score["metrics"] if m["metric"] == name and not m["params"]]
    return dict(found)


def run_scripted_arms(root: Path, script: Callable[[EngineSettings, str], str]) -> None:
    """Run `x` with answers that depend on the settings of the pass."""
    run_registration(
        Workspace(root),
        "x",
        make_backend=lambda _inputs, _model, settings, _log, _announce: ScriptedBackend(
            lambda key, _before: verdict_reply(script(settings, key))
        ),
    )


@pytest.mark.model
def test_generate_and_choice_on_the_same_rows(tmp_path: Path) -> None:
    """Both paths draw with one seed: the agreement has its Wilson interval, the arms their names,
    and each pass was made as its arm says.
    """
    root = tmp_path / "w"
    done = fidelity(root)
    assert done.code in (0, 1), done.err
    told = metric(done.json, "sentinel.fidelity.rate")
    assert told["n"] == 6
    assert told["interval"]["method"] == "wilson"
    assert done.json["arms"] == [
        "path generate, prefix whole, parallel 1",
        "path choice, prefix shared, parallel 4",
    ]
    for pass_no, words in enumerate(done.json["arms"], start=1):
        assert any(f"arm {pass_no} ({words})" in note for note in done.json["notes"])
    made = read_record(root / RUN, shown=RUN).attempts
    one, two = made[:6], made[6:]
    assert all(a.nodes is None and a.batch == (a.index,) and a.n_reused == 0 for a in one)
    assert all(a.nodes is not None for a in two)
    assert {a.batch for a in two} == {(6, 7, 8, 9), (10, 11)}
    assert {a.seed for a in made} == {7}
    differing = [a.trial for a, b in zip(one, two, strict=True) if a.verdict != b.verdict]
    assert told["k"] == 6 - len(differing)
    assert (done.code == 0) == (told["interval"]["low"] >= 0.4)


@pytest.mark.model
@pytest.mark.parametrize(
    "arms", [["n_batch=16", "n_batch=512"], ["n_threads=1", "n_threads=2,n_batch=64"]]
)
def test_settings_that_differ_in_loading_only(arms: list[str], tmp_path: Path) -> None:
    """The model is loaded once for each arm, and the arms say what is not alike."""
    root = tmp_path / "w"
    done = fidelity(root, arm=arms, path="choice", predict="sentinel.fidelity.rate.ci_low >= 0.2")
    assert done.code in (0, 1), done.err
    for said, arm in zip(done.json["arms"], arms, strict=True):
        for setting in arm.split(","):
            assert setting.replace("=", " ") in said
    assert metric(done.json, "sentinel.fidelity.count")["n"] == 6
    change = metric(done.json, "sentinel.probability_change.max")
    assert change["n"] == 6
    assert 0 <= change["value"] < 0.2


def choice_says_no_to_two(settings: EngineSettings, key: str) -> str:
    """Both arms say YES, but `choice` says NO to rows 1 and 4."""
    return "NO" if settings.path == "choice" and key.split("/")[1] in ("r01", "r04") else "YES"


def generate_for_both(**changed: str | list[str] | None) -> dict[str, Any]:
    """Arms that a script can stand in for: it gives no probabilities."""
    return {**FIDELITY, "arm": ["parallel=1", "parallel=4"], **changed}


def parallel_says_no_to_two(settings: EngineSettings, key: str) -> str:
    """Both arms say YES, but the one with four at a time says NO to rows 1 and 4."""
    return "NO" if settings.parallel == 4 and key.split("/")[1] in ("r01", "r04") else "YES"


def test_rows_that_differ_are_written_out(tmp_path: Path) -> None:
    """Counts, direction and both files of disagreements name the rows that the arms disagree on."""
    root = make_workspace(tmp_path / "w", n=6)
    locked(root, "x", **generate_for_both())
    run_scripted_arms(root, parallel_says_no_to_two)
    score = prereg("score", "x", "--json", root=root).json
    told = metric(score, "sentinel.fidelity.rate")
    assert (told["k"], told["n"]) == (4, 6)
    (flips,) = [
        m for m in score["metrics"]
        if m["metric"] == "sentinel.flips.count" and m["params"] == {"verdict": "YES", "to": "NO"}
    ]  # fmt: skip
    assert flips["k"] == 2
    lines = (root / RUN / "disagreements.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line)["item_id"] for line in lines] == ["r01", "r04"]
    table = csv.DictReader(
        io.StringIO((root / RUN / "disagreements.csv").read_text(encoding="utf-8-sig"))
    )
    assert [(row["item_id"], row["verdict_1"], row["verdict_2"]) for row in table] == [
        ("r01", "YES", "NO"),
        ("r04", "YES", "NO"),
    ]


@pytest.mark.parametrize(("at_least", "word", "code"), [(0.299, "PASS", 0), (0.301, "FAIL", 1)])
def test_a_prediction_on_the_lower_limit(
    at_least: float, word: str, code: int, tmp_path: Path
) -> None:
    """The bar is held against the lower Wilson limit (0.300 at 4 of 6), not the observed share."""
    root = make_workspace(tmp_path / "w", n=6)
    predict = f"sentinel.fidelity.rate.ci_low >= {at_least}"
    locked(root, "x", **generate_for_both(predict=predict))
    run_scripted_arms(root, parallel_says_no_to_two)
    done = prereg("score", "x", "--json", root=root)
    assert (done.json["verdict"], done.code) == (word, code)


def test_an_arm_is_part_of_what_is_checked(tmp_path: Path) -> None:
    """A record of `generate` in the arm that chooses is not believed."""
    root = make_workspace(tmp_path / "w", n=6)
    locked(root, "x", **FIDELITY)
    run_scripted_arms(root, choice_says_no_to_two)
    done = prereg("score", "x", root=root)
    assert done.code == 5
    assert "sentinel/r00/ab/2" in done.err
    assert "/ab/1" not in done.err
    assert "lacks what its verdict was drawn from" in done.err


def test_fresh_draws_cannot_show_what_a_path_does(tmp_path: Path) -> None:
    """`sampled` is refused for a comparison: fresh draws differ by themselves."""
    root = make_workspace(tmp_path / "w")
    sampled = "sampled,temperature=1,top_k=0,top_p=1,min_p=0"
    done = new(root, "x", **{**FIDELITY, "decoding": sampled})
    assert done.code == 2
    assert "fresh draws differ" in done.err
    assert not (root / "registrations/x.yaml").exists()
