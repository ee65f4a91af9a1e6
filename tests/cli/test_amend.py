"""Amendments: a dated, reasoned, linked new version; no run that began before is judged by it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import jsonschema
import pytest

from cli.amending import (
    LEDGER,
    LOCK1,
    LOCK2,
    V1,
    V2,
    WHY,
    again,
    all_agree,
    amend,
    amend_to,
    events,
    failed,
    invalid,
    replace,
)
from prereg_judge.canon import sha256_bytes
from support import JUDGE, REPOSITORY, locked, make_workspace, new, prereg, run_scripted, stop_after


@pytest.fixture(scope="module")
def run_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A registration `x` with a band of 1 to 3, run and scored: FAIL."""
    return failed(tmp_path_factory.mktemp("run") / "w")


@pytest.fixture
def root(run_once: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    return Path(shutil.copytree(run_once, tmp_path / "w"))


@pytest.fixture(scope="module")
def amended_once(run_once: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same with a second version of a band of 1 to 4, made after the run."""
    root = Path(shutil.copytree(run_once, tmp_path_factory.mktemp("amended") / "w"))
    amend_to(root, "[1, 4]")
    return root


@pytest.fixture
def amended(amended_once: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    return Path(shutil.copytree(amended_once, tmp_path / "w"))


# --- Two steps ----------------------------------------------------------------------------------


def test_an_amendment_takes_the_same_command_twice(root: Path) -> None:
    """First a copy to be edited, which changes nothing; then the lock, linked to the one before."""
    before, ledger = (root / LOCK1).read_bytes(), (root / LEDGER).read_bytes()
    first = amend(root)
    assert (first.code, first.out) == (0, "")
    assert f"Wrote {V2}" in first.err
    assert (root / V2).read_bytes() == (root / V1).read_bytes()
    assert (root / LEDGER).read_bytes() == ledger
    assert prereg("score", "x", root=root).code == 1
    replace(root / V2, "[1, 3]", "[1, 4]")
    second = amend(root, "--json")
    assert (second.code, second.json["version"], second.json["lock"]) == (0, 2, LOCK2)
    assert (root / LOCK1).read_bytes() == before
    raw = (root / LOCK2).read_bytes()
    lock = json.loads(raw)
    assert lock["amends"] == {"version": 1, "lock": sha256_bytes(before), "reason": WHY}
    assert (lock["version"], lock["registration"]["name"]) == (2, V2)
    event = events(root)[-1]
    assert (event["event"], event["version"], event["reason"]) == ("amended", 2, WHY)
    assert (event["previous"], event["lock"]) == (sha256_bytes(before), sha256_bytes(raw))
    assert event["exposure"] == "full"  # of the run before it


def test_json_of_the_first_step_says_that_nothing_is_locked(root: Path) -> None:
    """A program that reads it finds the file to be edited."""
    assert amend(root, "--json").json == {"id": "x", "file": V2, "locked": False}


def test_what_show_and_status_say_of_versions(amended: Path) -> None:
    """The version in force, the reason and date of each, and which run belongs to which."""
    told = prereg("show", "x", "--json", root=amended).json
    assert [(v["version"], v["reason"]) for v in told["versions"]] == [(1, None), (2, WHY)]
    assert (told["state"], told["lock"]["file"]) == ("locked", LOCK2)
    assert told["registration"] == (amended / V2).read_text(encoding="utf-8")
    assert [(r["run"], r["version"], r["verdict"]) for r in told["runs"]] == [(1, 1, "FAIL")]
    assert f"an amendment of {told['versions'][1]['locked_at']}: {WHY}" in " ".join(
        prereg("show", "x", root=amended).out.split()
    )
    assert "version 2" in " ".join(prereg("status", root=amended).out.split())
    assert [one["id"] for one in prereg("status", "--json", root=amended).json] == ["x"]


# --- Which version decides ----------------------------------------------------------------------


def test_a_run_is_scored_against_the_version_in_force_at_its_start(amended: Path) -> None:
    """FAIL by the version that it began under; the later one is shown beside it and decides not."""
    done = prereg("score", "x", root=amended)
    assert done.code == 1
    told = " ".join(done.out.split())
    assert "Verdict: FAIL" in told
    locked_at = json.loads((amended / LOCK2).read_bytes())["locked_at"]
    assert f"POST HOC: version 2, locked {locked_at}, after this run began ({WHY})" in told
    assert f"({WHY}) would give PASS; it does not decide." in told
    score = prereg("score", "x", "--json", root=amended)
    assert (score.code, score.json["verdict"], score.json["exit_code"]) == (1, "FAIL", 1)
    assert score.json["provenance"]["version"] == 1
    (later,) = score.json["post_hoc"]
    assert (later["version"], later["verdict"], later["reason"]) == (2, "PASS", WHY)
    assert [c["outcome"] for c in later["claims"]] == ["inside"]
    assert [c["outcome"] for c in score.json["claims"]] == ["missed high"]
    schema = REPOSITORY / "src/prereg_judge/report/score.schema.json"
    jsonschema.validate(score.json, json.loads(schema.read_text(encoding="utf-8")))


def test_a_new_run_goes_under_the_new_version(amended: Path) -> None:
    """Only with --again, counted; its verdict names the amendment and that of the run before."""
    refused = prereg("run", "x", root=amended)
    assert refused.code == 2
    assert "run 1 of 'x' is finished" in refused.err
    assert again(amended) == 2
    done = prereg("score", "x", root=amended)
    assert done.code == 0
    told = " ".join(done.out.split())
    assert "Verdict: PASS (run 2 of 2; run 1 FAIL)" in told
    assert "Version 2 was in force, an amendment of" in told
    assert WHY in told
    assert "POST HOC" not in told
    assert "the ledger knew run 1 of 'x'" in told
    assert prereg("score", "x", "--json", root=amended).json["provenance"]["version"] == 2
    assert prereg("score", "x", "--run", "1", root=amended).code == 1
    runs = prereg("show", "x", "--json", root=amended).json["runs"]
    assert [(r["version"], r["verdict"]) for r in runs] == [(1, "FAIL"), (2, "PASS")]


def test_an_unfinished_run_goes_on_under_the_version_that_it_began_with(tmp_path: Path) -> None:
    """An amendment in the middle of a run does not move its bar."""
    root = make_workspace(tmp_path / "w")
    locked(root, "x")
    stop_after(root, "x", 3, all_agree)
    done = amend_to(root, "[1, 4]")
    assert "the ledger knows: run 1 of 'x'" in done.out
    finished = run_scripted(root, "x", all_agree)
    assert (finished.number, finished.status) == (1, "complete")
    score = prereg("score", "x", "--json", root=root)
    assert (score.code, score.json["provenance"]["version"]) == (1, 1)
    assert [p["verdict"] for p in score.json["post_hoc"]] == ["PASS"]
    copy = (root / "runs/x/1/registration.yaml").read_bytes()
    assert copy == (root / V1).read_bytes()


def test_a_version_that_asks_something_else_is_not_applied(root: Path) -> None:
    """Another prompt was not put to the model: that version has no verdict on the old run."""
    assert amend(root).code == 0
    (root / "judge/other.yaml").write_text(JUDGE.replace("animal", "plant"), encoding="utf-8")
    replace(root / V2, "judge/yes-no.yaml", "judge/other.yaml")
    assert amend(root).code == 0
    score = prereg("score", "x", "--json", root=root)
    assert score.code == 1
    (later,) = score.json["post_hoc"]
    assert (later["verdict"], later["claims"]) == (None, [])
    assert "asks for something else: another judge, another prompts" in later["not_applied"]
    assert "is not applied" in " ".join(prereg("score", "x", root=root).out.split())


def test_a_second_amendment(amended: Path) -> None:
    """Version 3 follows version 2; the old run is shown both, and all three stay on disk."""
    amend_to(amended, "[0, 3]", version=3, reason="and again")
    lock = json.loads((amended / "registrations/x.v3.lock.json").read_bytes())
    assert lock["amends"]["lock"] == sha256_bytes((amended / LOCK2).read_bytes())
    assert lock["amends"]["version"] == 2
    score = prereg("score", "x", "--json", root=amended)
    assert score.code == 1
    assert [(p["version"], p["verdict"]) for p in score.json["post_hoc"]] == [
        (2, "PASS"),
        (3, "FAIL"),
    ]
    assert again(amended) == 2
    assert prereg("score", "x", root=amended).code == 1
    for file in (V1, V2, "registrations/x.v3.yaml"):
        assert (amended / file).is_file()


def test_of_an_amendment_too_a_primary_claim_is_asked(root: Path) -> None:
    """A second expectation needs a word on which one the question is about."""
    assert amend(root).code == 0
    replace(
        root / V2,
        "between: [1, 3]}",
        "between: [1, 3]}\n  - {id: more, metric: sentinel.agreement.rate, at_least: 0.1}",
    )
    replace(root / V2, "metric: sentinel.agreement.rate, at_least: 0.1",
            "metric: sentinel.agreement.rate, between: [0.1, 0.9]")  # fmt: skip
    done = amend(root)
    assert done.code == 2
    assert "primary: does not say which claim the question is about" in done.err
    assert not (root / LOCK2).exists()
    replace(root / V2, "# primary: agreement-count", "primary: more")
    assert amend(root).code == 0


# --- What is refused ----------------------------------------------------------------------------


def test_an_edit_in_place_is_refused_with_the_remedy(root: Path) -> None:
    """The locked text is restored and the edit moved to the new version's file, in words."""
    good = (root / V1).read_bytes()
    replace(root / V1, "[1, 3]", "[1, 4]")
    invalid(amend(root), f"{V1}: was edited in place", f"ove the edited text to {V2}")
    assert not (root / V2).exists()
    (root / V1).rename(root / V2)
    (root / V1).write_bytes(good)
    assert amend(root).code == 0
    assert (root / LOCK2).is_file()


def test_the_same_text_is_no_amendment(root: Path) -> None:
    """An unedited copy is refused, and can still be edited."""
    assert amend(root).code == 0
    done = amend(root)
    assert done.code == 2
    assert f"{V2}: is the same text as {V1}" in done.err
    assert not (root / LOCK2).exists()
    assert [e["event"] for e in events(root)].count("amended") == 0


@pytest.mark.parametrize("reason", ["", "  \n"])
def test_an_empty_reason_is_refused(root: Path, reason: str) -> None:
    """A reason of white space says nothing; no file is made."""
    done = amend(root, reason=reason)
    assert (done.code, "--reason needs a sentence" in done.err) == (2, True)
    assert not (root / V2).exists()


def test_without_a_reason_the_command_is_wrong(root: Path) -> None:
    """The option is not optional."""
    assert prereg("amend", "x", root=root).code == 2


def test_a_draft_is_not_amended(root: Path) -> None:
    """What is not locked is just edited."""
    assert new(root, "y").code == 0
    done = prereg("amend", "y", "--reason", WHY, root=root)
    assert done.code == 2
    assert "'y' is not locked" in done.err
    assert not (root / "registrations/y.v2.yaml").exists()


def test_a_wrong_new_version_changes_nothing(root: Path) -> None:
    """What a lock would refuse is refused here, with its file and line."""
    assert amend(root).code == 0
    replace(root / V2, "[1, 3]", "[0, 4]")  # the whole range: a band that cannot be missed
    before = (root / LEDGER).read_bytes()
    done = amend(root)
    assert done.code == 2
    assert V2 in done.err
    assert (root / LEDGER).read_bytes() == before
    assert not (root / LOCK2).exists()


def test_a_lock_is_still_made_once(amended: Path) -> None:
    """`lock` names `amend` for a change, whatever version is in force."""
    done = prereg("lock", "x", root=amended)
    assert (done.code, "prereg amend" in done.err) == (2, True)
