"""A run in which nothing was scored never passes, whatever was registered."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from prereg_judge.engine.protocol import Failure
from prereg_judge.flow import judging
from prereg_judge.flow.prepare import Inputs
from prereg_judge.flow.scoring import score_registration
from prereg_judge.flow.views import study_input
from prereg_judge.record.run import Record
from prereg_judge.study.outcomes import StudyInput
from prereg_judge.workspace import Workspace
from support import (
    Done,
    Scripted,
    locked,
    make_workspace,
    new,
    prereg,
    reply,
    run_scripted,
    small_items,
    verdict_reply,
    write_items,
)

MISSING = ("disagree", "exclude", "undefined")

# Bands that would hold on counts of nothing, each for 4 rows and 2 passes.
TEMPTING = {
    "agreement": "sentinel.agreement.count=0..1",
    "agreement-rate": "sentinel.agreement.rate=0..0.5",
    "flips": "sentinel.flips.count=0..1",
    "ships": "sentinel.ships.any.count=0..1",
    "none-ship": "sentinel.ships.none.count=3..4",
    "wrong": "sentinel.wrong.count[pass=1]=0..1",
    "verdict": "sentinel.verdict.count[verdict=YES,pass=2]=0..1",
    "missing": "sentinel.missing.count=5..8",
    "all-missing": "sentinel.missing.rate=0.9..1",
    "calls": "calls.count=9..16",
    "unscored": "calls.unscored=1..100",
    "unscored-rate": "calls.unscored.rate=0.9..1",
    "seconds": "calls.seconds.max=0..1000",
}

UNREADABLE = ("certainly, it is NO", '{"answer":"NO"}', '["NO"]', "", "NO", "[" * 100_000)
OFF_MENU = ("MAYBE", "no", " NO", "NO.", "")

# Every way in which no reply brings a verdict, by the reason that is recorded.
NOTHING: dict[str, Callable[[str, int], Scripted]] = {
    "hang": lambda *_: Failure("hang", "no answer within 60 s", 60.0),
    "crash": lambda *_: Failure("crash", "the worker ended (killed by SIGSEGV)", 0.1),
    "unreadable": lambda key, _: UNREADABLE[hash_of(key) % len(UNREADABLE)],
    "off_menu": lambda key, _: verdict_reply(OFF_MENU[hash_of(key) % len(OFF_MENU)]),
    "cap": lambda *_: reply(verdict_reply("NO"), finish="cap"),
    "runaway": lambda *_: reply(verdict_reply("NO"), finish="runaway"),
    "thinking_cap": lambda *_: reply(verdict_reply("NO"), finish="thinking_cap"),
}


def hash_of(key: str) -> int:
    """A number for a trial: its place in the plan."""
    _, item, _, pass_no = key.split("/")
    return int(item[1:]) + 4 * (int(pass_no) - 1)


@pytest.fixture(scope="module")
def tempted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace with a locked registration for each `missing`, holding the tempting bands."""
    root = make_workspace(tmp_path_factory.mktemp("tempted") / "w")
    bands = [f"{name}:: {band}" for name, band in TEMPTING.items()]
    for missing in MISSING:
        locked(root, missing, missing=missing, band=bands)
    return root


@pytest.fixture
def workspace(tempted: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    return Path(shutil.copytree(tempted, tmp_path / "w"))


def inconclusive(done: Done) -> None:
    """Exit code 6, and the reason in words."""
    assert done.code == 6, done
    assert "Verdict: INCONCLUSIVE" in done.out
    assert "no trial has a verdict" in done.out
    assert "PASS" not in done.out


@pytest.mark.parametrize("how", NOTHING)
def test_no_reply_with_a_verdict(how: str, workspace: Path) -> None:
    """Hangs, crashes and replies that cannot be read: never exit 0, with any `missing`."""
    for missing in MISSING:
        finished = run_scripted(workspace, missing, NOTHING[how])
        made = 16 if how in ("hang", "crash") else 8
        assert (finished.status, finished.attempts) == ("complete", made)
        done = prereg("score", missing, "--json", root=workspace)
        assert (done.code, done.json["verdict"]) in ((1, "FAIL"), (6, "INCONCLUSIVE"))
        numbers = {(m["metric"], *m["params"].values()): m["value"] for m in done.json["metrics"]}
        assert numbers["calls.unscored",] == numbers["calls.unscored", how] == made
        outcomes = {c["id"]: c["outcome"] for c in done.json["claims"]}
        for name in ("agreement", "agreement-rate", "flips", "ships", "none-ship", "wrong"):
            assert outcomes[name] == "undefined", name


@pytest.mark.parametrize("name", ["calls", "unscored-rate", "all-missing", "seconds"])
def test_one_band_that_holds_on_nothing(name: str, workspace: Path) -> None:
    """A band on calls alone is inside when all calls crashed; it is no PASS."""
    locked(workspace, name, band=TEMPTING[name])
    run_scripted(workspace, name, NOTHING["crash"])
    done = prereg("score", name, "--json", root=workspace)
    assert [c["outcome"] for c in done.json["claims"]] == ["inside"]
    assert (done.code, done.json["verdict"]) == (6, "INCONCLUSIVE")
    assert done.json["reasons"] == ["no trial has a verdict"]


@pytest.mark.parametrize("missing", MISSING)
def test_the_published_trap(missing: str, workspace: Path) -> None:
    """Agreement in 0..1 of 4 when every call hangs is INCONCLUSIVE in words and by exit code."""
    locked(workspace, "trap", missing=missing, band=TEMPTING["agreement"])
    run_scripted(workspace, "trap", NOTHING["hang"])
    inconclusive(prereg("score", "trap", root=workspace))


def test_one_row_of_four_is_not_nothing(workspace: Path) -> None:
    """With one row scored the claims speak again, and say how many trials have no verdict."""
    locked(workspace, "one", missing="disagree", band=TEMPTING["agreement"])
    run_scripted(
        workspace,
        "one",
        lambda key, _: verdict_reply("NO") if "r00" in key else "?",
    )
    done = prereg("score", "one", root=workspace)
    assert done.code == 0
    assert "6 of 8 sentinel trials have no verdict" in " ".join(done.out.split())


@pytest.mark.parametrize("missing", MISSING)
def test_one_set_without_a_verdict(missing: str, tmp_path: Path) -> None:
    """A band on real items is not met by nothing because the sentinels were scored."""
    root = make_workspace(tmp_path / "w")
    write_items(root / "data/real.jsonl", small_items(3, label=None))
    locked(root, "x", missing=missing, real="data/real.jsonl", band="real.flips.count=0..1")
    run_scripted(
        root, "x", lambda key, _: verdict_reply("NO") if key.startswith("sentinel") else "?"
    )
    done = prereg("score", "x", "--json", root=root)
    (claim,) = done.json["claims"]
    assert (done.code, claim["outcome"]) == (6, "undefined")


def test_no_row_to_count(tmp_path: Path) -> None:
    """A share of the rows first judged YES is undefined where no row was."""
    root = make_workspace(tmp_path / "w")
    locked(root, "x", band="sentinel.flips.rate[verdict=YES]=0..0.5")
    run_scripted(root, "x", lambda *_: verdict_reply("NO"))
    done = prereg("score", "x", "--json", root=root)
    (claim,) = done.json["claims"]
    assert (done.code, claim["outcome"], claim["reason"]) == (6, "undefined", "empty_denominator")


def test_an_empty_set_never_gets_as_far_as_a_run(tmp_path: Path) -> None:
    """A set of real items without a row is refused at lock."""
    root = make_workspace(tmp_path / "w")
    (root / "data").mkdir()
    (root / "data/real.jsonl").write_text("\n")
    new(root, "x", real="data/real.jsonl", band="real.agreement.count=0..1")
    done = prereg("lock", "x", root=root)
    assert done.code == 2
    assert "data/real.jsonl: the item file has no rows" in done.err


def test_no_rows_at_scoring(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the rows of a set were somehow none when scored, the claims on them are undefined."""
    locked(workspace, "rows", band=TEMPTING["flips"])
    run_scripted(workspace, "rows", lambda *_: verdict_reply("NO"))
    assert score_registration(Workspace(workspace), "rows").verdict.word == "PASS"

    def without_rows(inputs: Inputs, record: Record) -> StudyInput:
        return replace(study_input(inputs, record), items=(), outcomes={})

    monkeypatch.setattr(judging, "study_input", without_rows)
    verdict = score_registration(Workspace(workspace), "rows").verdict
    assert (verdict.word, verdict.exit_code) == ("INCONCLUSIVE", 6)
    assert [o.reason for o in verdict.outcomes] == ["no_items"]


@pytest.mark.model
def test_every_call_of_a_real_worker_hangs(tmp_path: Path) -> None:
    """With a time-out too short for the model each call is a hang, and nothing passes."""
    root = make_workspace(tmp_path / "w")
    # Long enough that no machine is done before the deadline is looked at.
    rows = [{"id": f"r{i}", "label": "NO", "text": "word " * 1500 + str(i)} for i in range(2)]
    write_items(root / "sentinels/small.jsonl", rows)
    locked(
        root,
        "x",
        n_ctx="2048",
        hang="0.001s,retries=0",
        missing="disagree",
        band="sentinel.agreement.count=0..1",
    )
    done = prereg("run", "x", "--json", root=root)
    assert (done.code, done.json["status"], done.json["attempts"]) == (0, "complete", 4)
    inconclusive(prereg("score", "x", root=root))
    score = prereg("score", "x", "--json", root=root).json
    (hangs,) = [m for m in score["metrics"] if m["metric"] == "calls.hangs"]
    assert (hangs["value"], hangs["n"]) == (4, 4)
