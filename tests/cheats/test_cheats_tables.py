"""Cheats on studies of tables: votes, verdicts, locks and runs that were meddled with.

Nothing is called, so what can be cheated with is the files, and when they were looked at.
"""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cheats.cheating import edit, events, refused, verify
from cheats.test_fuzz_bundle import archived, listed, members
from support import prereg
from tabling import (
    ANNOTATIONS,
    JUDGE,
    VERDICTS,
    VOTES,
    band,
    lock_tables,
    score,
    scored,
    write_registration,
    write_verdicts,
    write_votes,
)

ITEMS = [("aa", "a"), ("ab", "b"), ("b", "b"), ("b", "a"), ("b", "a"), ("a", "t")]
REG = "registrations/x.yaml"
LOCK = "registrations/x.lock.json"
CHANGED = band("changed", "changed.count", [3, 4])
LEAN = band("lean", "lean.difference", [-0.5, 0.75], judge="j")
REVERSAL = band("reversal", "real.order.reversal.count", [1, 2], pass_=1)
Study = tuple[str, dict[str, Any], str]
STUDIES: dict[str, Study] = {
    "pools": ("pools", CHANGED, VOTES),
    "judge-pools": ("judge-pools", LEAN, VERDICTS),
    "leaderboard": ("leaderboard", band("tau", "tau", [-1, 0.5]), VOTES),
    "pairwise": ("pairwise", REVERSAL, VERDICTS),
}


def files(root: Path) -> None:
    """Votes by two pools on six items, and a judge's verdicts on them."""
    write_votes(root, ITEMS)
    write_verdicts(root, "aabbta", "abbbta")


def locked(root: Path, study: str, ident: str = "x", **keys: Any) -> Path:
    """A workspace in which `x` is locked."""
    kind, claim, _ = STUDIES[study]
    files(root)
    lock_tables(root, ident, kind, **{"bands": [claim], **keys})
    return root


def ran(root: Path, study: str) -> Path:
    """As `locked`, with one run, scored."""
    scored(locked(root, study), "x")
    return root


def exposure(root: Path, ident: str) -> Any:
    """What a lock says had been seen."""
    lock = json.loads((root / f"registrations/{ident}.lock.json").read_bytes())
    return lock["exposure"]


# --- Nothing is wrong -----------------------------------------------------------------------------


@pytest.mark.parametrize("study", STUDIES)
def test_an_honest_study(study: str, tmp_path: Path) -> None:
    """Locked, run and scored, it verifies, and says what is true of a study without calls."""
    root = ran(tmp_path / "w", study)
    told = verify(root)
    told.clean()
    told.shown("unchanged since the lock", STUDIES[study][2])
    told.shown("run 1 of 1", "the same verdict and every number as scored")


@pytest.mark.parametrize("study", ["pools", "pairwise"])
def test_nothing_is_said_of_a_model_where_there_is_none(study: str, tmp_path: Path) -> None:
    """No weights answered, no server was asked and no reply was recorded: none is spoken of."""
    told = verify(ran(tmp_path / "w", study))
    for sentence in (*told.proved, *told.not_proved):
        words = ("weights", "served", "server", "grammar", "replies", "this model")
        assert [word for word in words if word in sentence] == [], sentence


# --- Files that are changed -----------------------------------------------------------------------


@pytest.mark.parametrize("study", STUDIES)
def test_a_table_changed_between_lock_and_run(study: str, tmp_path: Path) -> None:
    """One letter in the votes or verdicts after the lock: neither run nor verified."""
    root = locked(tmp_path / "w", study)
    file = STUDIES[study][2]
    edit(root / file, ",a", ",b")
    refused(root, "run", "x", says=(file,))
    verify(root).caught(file)


@pytest.mark.parametrize("study", STUDIES)
def test_a_table_changed_between_run_and_score(study: str, tmp_path: Path) -> None:
    """The same after the run: no score is made of it."""
    root = locked(tmp_path / "w", study)
    assert prereg("run", "x", root=root).code == 0
    file = STUDIES[study][2]
    edit(root / file, ",a", ",b")
    refused(root, "score", "x", says=(file,))
    verify(root).caught(file)
    shutil.copyfile(root / file, root / "data/kept.csv")
    (root / file).unlink()
    refused(root, "score", "x", says=(file,))


def test_votes_changed_where_the_verdicts_are_judged(tmp_path: Path) -> None:
    """A study of judges stands on both files: the votes are held as well as the verdicts."""
    root = ran(tmp_path / "w", "judge-pools")
    edit(root / VOTES, ",a", ",b")
    refused(root, "score", "x", says=(VOTES,))
    verify(root).caught(VOTES)


@pytest.mark.parametrize("study", STUDIES)
def test_a_registration_edited_after_the_lock(study: str, tmp_path: Path) -> None:
    """Another seed, another rule or another band is a change, whatever it does to the numbers."""
    root = ran(tmp_path / "w", study)
    edit(root / REG, "seed: 5", "seed: 6")
    refused(root, "score", "x", says=("x.yaml",))
    verify(root).caught("x.yaml")


def test_another_key_after_the_lock(tmp_path: Path) -> None:
    """The key of pairs moves the answer, so it cannot be chosen after the fact."""
    root = ran(tmp_path / "w", "pools")
    edit(root / REG, "key: stored", "key: unordered")
    refused(root, "score", "x", says=("x.yaml",))
    verify(root).caught("x.yaml")


# --- Runs -----------------------------------------------------------------------------------------


def test_a_run_that_was_deleted(tmp_path: Path) -> None:
    """The ledger knows of it: it is found, and a further run is the second."""
    root = ran(tmp_path / "w", "pools")
    shutil.rmtree(root / "runs/x/1")
    verify(root).caught("run 1")
    done = prereg("score", "x", root=root)
    assert done.code == 5, done


def test_a_second_run_is_counted(tmp_path: Path) -> None:
    """Running again changes no number, and is counted all the same."""
    root = ran(tmp_path / "w", "pools")
    first = score(root, "x")
    assert prereg("run", "x", root=root).code != 0
    assert prereg("run", "x", "--again", root=root).code == 0
    second = score(root, "x")
    assert [run["number"] for run in second["runs"]] == [1, 2]
    assert second["metrics"] == first["metrics"]
    assert events(root).count("run_started") == 2
    verify(root).clean()


def test_verdict_lines_put_into_the_record_of_a_table(tmp_path: Path) -> None:
    """A score written by hand is found, and made again from the tables."""
    root = ran(tmp_path / "w", "pools")
    path = root / "runs/x/1/score.json"
    value = json.loads(path.read_bytes())
    value["metrics"][0]["value"] = 99.0
    path.write_text(json.dumps(value), encoding="utf-8")
    verify(root).caught("score.json")
    score(root, "x")
    verify(root).clean()


def test_killed_while_it_ran(tmp_path: Path) -> None:
    """`prereg run` killed as its folder, its event or its manifest appears, and then run again,
    ends complete: one run, and all of it verifies.
    """
    root = locked(tmp_path / "w", "pools")
    command = [sys.executable, "-m", "prereg_judge.cli.main", "--root", str(root), "run", "x"]
    moments: list[Callable[[], bool]] = [
        (root / "runs/x/1").exists,
        lambda: "run_started" in events(root),
        (root / "runs/x/1/manifest.json").exists,
    ]
    for come in moments:
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while not come() and process.poll() is None:
            time.sleep(0.0005)
        process.send_signal(signal.SIGKILL)
        process.wait()
    if "run_finished" not in events(root):
        done = prereg("run", "x", root=root)
        assert done.code == 0, done
    assert events(root).count("run_started") == 1
    assert score(root, "x")["verdict"] == "PASS"
    verify(root).clean()


# --- Registering after looking --------------------------------------------------------------------


@pytest.mark.parametrize("study", STUDIES)
def test_the_same_tables_again(study: str, tmp_path: Path) -> None:
    """A second registration over tables that were read is locked as fully exposed."""
    root = ran(tmp_path / "w", study)
    assert exposure(root, "x")["level"] == "none"
    locked(root, study, "again")
    told = exposure(root, "again")
    assert told["level"] == "full"
    assert [(k["id"], k["what"]) for k in told["known"]] == [("x", "run 1")]
    verify(root, "again").clean()


def test_a_part_of_the_votes_in_another_file(tmp_path: Path) -> None:
    """Fewer items, in another order and another file, have been read all the same."""
    root = ran(tmp_path / "w", "pools")
    lines = (root / VOTES).read_text("utf-8").splitlines(keepends=True)
    part = [line for line in lines[1:] if not line.startswith(("i0", "i1"))]
    (root / "data/part.csv").write_text(lines[0] + "".join(reversed(part)), encoding="utf-8")
    told = {**ANNOTATIONS, "file": "data/part.csv"}
    lock_tables(root, "part", "leaderboard", annotations=told, bands=[STUDIES["leaderboard"][1]])
    assert exposure(root, "part")["level"] == "full"
    assert exposure(root, "part")["known"][0]["rows"]


def test_a_vote_less_on_every_item(tmp_path: Path) -> None:
    """Leaving one annotator out does not make votes that were read into others."""
    root = ran(tmp_path / "w", "pools")
    lines = (root / VOTES).read_text("utf-8").splitlines(keepends=True)
    part = [line for line in lines if "crowd-0" not in line or line.startswith(("i2", "i3", "i4"))]
    more = [f"i{n},expert-9,expert,a,m1,m2\n" for n in range(6)]
    (root / "data/part.csv").write_text("".join([*part, *more]), encoding="utf-8")
    told = {**ANNOTATIONS, "file": "data/part.csv"}
    lock_tables(root, "part", "pools", annotations=told, bands=[CHANGED])
    assert exposure(root, "part")["level"] == "full"


def test_a_part_whose_items_have_plainer_names(tmp_path: Path) -> None:
    """Without the one item that has two pairs of models, the others need no models in their names:
    their votes have been read all the same.
    """
    root = tmp_path / "w"
    files(root)
    with (root / VOTES).open("a", encoding="utf-8") as stream:
        stream.write("i5,crowd-8,crowd,a,m1,m3\ni5,expert-8,expert,a,m1,m3\n")
    lock_tables(root, "x", "pools", bands=[CHANGED])
    scored(root, "x")
    lines = (root / VOTES).read_text("utf-8").splitlines(keepends=True)
    part = [line for line in lines if not line.startswith("i5")]
    (root / "data/part.csv").write_text("".join(part), encoding="utf-8")
    told = {**ANNOTATIONS, "file": "data/part.csv"}
    lock_tables(root, "part", "pools", annotations=told, bands=[CHANGED])
    assert exposure(root, "part")["level"] == "full"


def test_other_votes_are_not_exposed(tmp_path: Path) -> None:
    """Votes on other items had not been read, and neither had other verdicts."""
    root = ran(tmp_path / "w", "pools")
    write_votes(root, [("bb", "ab"), ("ba", "tt"), ("bt", "bb")], file="data/other.csv")
    text = (root / "data/other.csv").read_text("utf-8").replace("\ni", "\nother-")
    (root / "data/other.csv").write_text(text, encoding="utf-8")
    told = {**ANNOTATIONS, "file": "data/other.csv"}
    lock_tables(
        root, "other", "pools", annotations=told, bands=[band("c", "changed.count", [0, 1])]
    )
    assert exposure(root, "other")["level"] == "none"


def test_other_verdicts_are_not_exposed(tmp_path: Path) -> None:
    """A file of verdicts on other pairs is no part of one that was read."""
    root = ran(tmp_path / "w", "pairwise")
    text = (root / VERDICTS).read_text("utf-8").replace("\ni", "\nother-")
    (root / "data/other.csv").write_text(text, encoding="utf-8")
    judges = [{**JUDGE, "file": "data/other.csv"}]
    lock_tables(root, "other", "pairwise", judges=judges, bands=[REVERSAL])
    assert exposure(root, "other")["level"] == "none"


def test_a_part_of_the_verdicts_in_another_file(tmp_path: Path) -> None:
    """Some of the verdicts that were read, in another file, are fully exposed."""
    root = ran(tmp_path / "w", "pairwise")
    lines = (root / VERDICTS).read_text("utf-8").splitlines(keepends=True)
    (root / "data/part.csv").write_text("".join(lines[:4]), encoding="utf-8")
    judges = [{**JUDGE, "file": "data/part.csv"}]
    lock_tables(root, "part", "pairwise", judges=judges, bands=[REVERSAL])
    assert exposure(root, "part")["level"] == "full"
    assert exposure(root, "part")["known"][0]["rows"] == 6  # three pairs in two orders


def test_exposure_cannot_be_stated_away(tmp_path: Path) -> None:
    """A registration that says `none` of tables that were read is refused."""
    root = ran(tmp_path / "w", "pools")
    stated = {"seen": "nothing", "level": "none"}
    write_registration(root, "again", "pools", bands=[CHANGED], exposure=stated)
    refused(root, "lock", "again", code=2, says=("exposure.level", "says less than what is known"))


def test_an_amendment_after_the_result(tmp_path: Path) -> None:
    """A band widened after the run is a version of its own, fully exposed; run 1 keeps its word."""
    root = locked(tmp_path / "w", "pools", bands=[band("changed", "changed.count", [0, 1])])
    assert scored(root, "x", code=1)["verdict"] == "FAIL"
    command = ("amend", "x", "--reason", "the bar was wrong")
    assert prereg(*command, root=root).code == 0
    edit(root / "registrations/x.v2.yaml", "- 1\n", "- 5\n")
    done = prereg(*command, root=root)
    assert done.code == 0, done
    lock = json.loads((root / "registrations/x.v2.lock.json").read_bytes())
    assert lock["exposure"]["level"] == "full"
    found = score(root, "x", "--run", "1", code=1)
    assert found["verdict"] == "FAIL"
    assert prereg("run", "x", "--again", root=root).code == 0
    second = score(root, "x")
    assert [run["ended"] for run in second["runs"]] == ["FAIL", "PASS"]
    verify(root).clean()


def test_an_amendment_that_reads_otherwise(tmp_path: Path) -> None:
    """Another key of the same votes is another question: no verdict post hoc on the old run."""
    root = locked(tmp_path / "w", "pools", bands=[band("changed", "changed.count", [0, 1])])
    scored(root, "x", code=1)
    command = ("amend", "x", "--reason", "the key was wrong")
    assert prereg(*command, root=root).code == 0
    edit(root / "registrations/x.v2.yaml", "key: stored", "key: unordered")
    done = prereg(*command, root=root)
    assert done.code == 0, done
    (later,) = score(root, "x", "--run", "1", code=1)["post_hoc"]
    assert later["verdict"] is None
    assert "another annotations" in later["not_applied"]


# --- Bundles --------------------------------------------------------------------------------------


@pytest.mark.parametrize("flags", [(), ("--withhold-items",)])
@pytest.mark.parametrize("study", STUDIES)
def test_a_bundle_verifies_elsewhere(study: str, flags: tuple[str, ...], tmp_path: Path) -> None:
    """Moved to another folder, a bundle verifies and holds the tables, which scoring needs."""
    root = ran(tmp_path / "w", study)
    archive = tmp_path / "b.zip"
    assert prereg("bundle", "x", "--out", str(archive), *flags, root=root).code == 0
    shutil.move(root, tmp_path / "away")
    (tmp_path / "empty").mkdir()
    done = prereg("verify", str(archive), root=tmp_path / "empty")
    assert done.code == 0, done
    assert "the same verdict and every number as scored" in done.out
    with zipfile.ZipFile(archive) as opened:
        assert STUDIES[study][2] in opened.namelist()
        opened.extractall(tmp_path / "again")
    assert score(tmp_path / "again", "x")["verdict"] == "PASS"


@pytest.mark.parametrize("study", STUDIES)
def test_a_bundle_with_one_vote_changed(study: str, tmp_path: Path) -> None:
    """One letter of a table in a bundle is found; also where the listing was made to fit it, for
    the lock knows the table.
    """
    root, file = ran(tmp_path / "w", study), STUDIES[study][2]
    archive, forged = tmp_path / "b.zip", tmp_path / "f.zip"
    assert prereg("bundle", "x", "--out", str(archive), root=root).code == 0
    held = members(archive)
    assert b",a" in held[file]
    changed = {**held, file: held[file].replace(b",a", b",b", 1)}
    for each, says in ((changed, "not those that were listed"), (listed(changed), file)):
        forged.write_bytes(archived(each))
        done = prereg("verify", str(forged), root=root)
        assert done.code == 5, done
        assert says in done.out


def test_a_bundle_of_a_changed_table_is_not_made(tmp_path: Path) -> None:
    """What was locked and is no longer there cannot be bundled."""
    root = ran(tmp_path / "w", "judge-pools")
    edit(root / VERDICTS, ",a", ",b")
    refused(root, "bundle", "x", "--out", str(tmp_path / "b.zip"), says=(VERDICTS,))
    assert not (tmp_path / "b.zip").exists()
