"""Runs put together by hand, with every chain made whole again, do not get a verdict."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from prereg_judge.canon import canonical_json, sha256_bytes
from prereg_judge.flow.running import run_registration
from prereg_judge.workspace import Workspace
from support import (
    ScriptedBackend,
    locked,
    make_workspace,
    new,
    prereg,
    rechained,
    run_scripted,
    stop_after,
    verdict_reply,
    with_tip,
)

Lines = list[dict[str, Any]]


def _script(key: str, _before: int) -> str:
    return verdict_reply("YES" if "r01" in key and key.endswith("2") else "NO")


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two registrations alike; the first has two finished runs, the second is only locked."""
    root = make_workspace(tmp_path_factory.mktemp("forged") / "w")
    locked(root, "one")
    locked(root, "two")
    run_scripted(root, "one", _script)
    prereg("score", "one", root=root)
    assert prereg("score", "one", root=root).code == 0
    return root


@pytest.fixture
def root(base: Path, tmp_path: Path) -> Path:
    """A copy to be tampered with."""
    return Path(shutil.copytree(base, tmp_path / "w"))


def rechain(path: Path, change: Callable[[Lines], Lines]) -> None:
    """Change a chain's lines and make its hashes fit again, of the ledger its tip too."""
    path.write_bytes(rechained(path.read_bytes(), change))
    if path.name == "ledger.jsonl":
        with_tip(path.parents[1])


def leave_open(root: Path, *, after: int) -> None:
    """Start run 1 of `two` and interrupt it after so many recorded attempts."""
    stop_after(root, "two", after, _script)


def _refused(root: Path, ident: str, *words: str) -> None:
    done = prereg("score", ident, "--json", root=root)
    assert done.code == 5, done.out + done.err
    assert done.json["verdict"] == "INVALID"
    for word in words:
        assert word in done.err


def test_a_record_copied_from_another_registration_is_found(root: Path) -> None:
    """The header of the attempts names the run that they were made for."""
    leave_open(root, after=0)
    shutil.copy(root / "runs/one/1/attempts.jsonl", root / "runs/two/1/attempts.jsonl")
    done = prereg("run", "two", root=root)
    assert done.code == 5
    assert "belongs to another run" in done.err


def test_a_second_lock_appended_to_the_ledger_is_found(root: Path) -> None:
    """Edit, lock elsewhere, and append the event: a registration is locked once."""
    ledger = root / "registrations/ledger.jsonl"

    def again(lines: Lines) -> Lines:
        first = next(e for e in lines if e["event"] == "registered" and e["id"] == "one")
        return [*lines, {**first, "lock": "0" * 64}]

    rechain(ledger, again)
    _refused(root, "one", "a second time")


def test_a_run_taken_out_of_the_ledger_is_found(root: Path) -> None:
    """Run numbers have no gap, so the run that failed cannot be made not to have been."""
    backend = ScriptedBackend(_script)
    run_registration(Workspace(root), "one", again=True, make_backend=lambda *_: backend)
    rechain(
        root / "registrations/ledger.jsonl",
        lambda lines: [e for e in lines if not (e["id"] == "one" and e.get("run") == 1)],
    )
    _refused(root, "one", "does not fit")


def test_a_second_ending_of_a_run_is_found(root: Path) -> None:
    """A finished run cannot be finished once more with another manifest."""

    def finish(lines: Lines) -> Lines:
        (end,) = [e for e in lines if e["event"] == "run_finished"]
        return [*lines, {**end, "manifest": "0" * 64}]

    rechain(root / "registrations/ledger.jsonl", finish)
    _refused(root, "one", "run_finished of run 1 does not fit")


def test_the_tail_of_the_ledger_carries_the_run(root: Path) -> None:
    """An earlier line dated anew, the ledger has other lines than record and manifest name."""
    rechain(
        root / "registrations/ledger.jsonl",
        lambda lines: [
            {**e, "at": "2001-01-01T00:00:00.000Z"} if e["event"] == "registered" else e
            for e in lines
        ],
    )
    _refused(root, "one", "no longer holds the line", "belongs to another run")


def standing(root: Path, ident: str) -> dict[str, Any]:
    """A registration's line of `status`."""
    found: list[dict[str, Any]] = prereg("status", "--json", root=root).json
    return next(one for one in found if one["id"] == ident)


def again(root: Path, script: Callable[[str, int], str]) -> None:
    """One more run of `one`, scored."""
    backend = ScriptedBackend(script)
    run_registration(Workspace(root), "one", again=True, make_backend=lambda *_: backend)
    prereg("score", "one", root=root)


def test_a_folder_that_no_ledger_knows_is_refused(root: Path) -> None:
    """A run folder beside the counted ones is no run, and stands in the way of a verdict."""
    shutil.copytree(root / "runs/one/1", root / "runs/one/7")
    _refused(root, "one", "runs/one/7", "does not know")
    assert "runs/one/7" in standing(root, "one")["problems"][0]
    (root / "runs/one/7").rename(root / "elsewhere")
    (root / "runs/one/notes").mkdir()
    assert prereg("score", "one", root=root).code == 0


def test_a_failed_run_cut_off_the_end_of_the_ledger_is_found(root: Path) -> None:
    """The run before it passed; the folder that was left behind says that there was another."""
    again(root, lambda key, _: verdict_reply("NO" if key.endswith("1") else "YES"))
    assert prereg("score", "one", root=root).code == 1
    rechain(root / "registrations/ledger.jsonl", lambda lines: lines[:-3])
    _refused(root, "one", "runs/one/2", "ledger was cut")
    assert standing(root, "one")["problems"]


def test_a_registration_without_its_file_stays_known(root: Path) -> None:
    """What was locked does not go away with its YAML, and its id is not free again."""
    (root / "registrations/one.yaml").unlink()
    assert standing(root, "one")["state"] == "registration missing"
    for verb in ("score", "run", "lock"):
        done = prereg(verb, "one", root=root)
        assert done.code == 5, (verb, done)
        assert "registrations/one.yaml: the registration is gone" in done.err
    assert "registration missing" in prereg("status", root=root).out
    assert new(root, "one").code == 5
    assert not (root / "registrations/one.yaml").exists()


def test_a_run_that_no_longer_stands_is_no_pass_in_any_list(root: Path) -> None:
    """Without its manifest, or exchanged for another run, a run is INVALID everywhere."""
    again(root, _script)
    assert [r["verdict"] for r in standing(root, "one")["runs"]] == ["PASS", "PASS"]
    manifest = root / "runs/one/2/manifest.json"
    data = manifest.read_bytes()
    manifest.unlink()
    assert [r["verdict"] for r in standing(root, "one")["runs"]] == ["PASS", "INVALID"]
    manifest.write_bytes(data)
    for old, other in (("1", "x"), ("2", "1"), ("x", "2")):
        (root / "runs/one" / old).rename(root / "runs/one" / other)
    assert [r["verdict"] for r in standing(root, "one")["runs"]] == ["INVALID", "INVALID"]


def test_a_verdict_does_not_vouch_for_an_earlier_run_that_was_changed(root: Path) -> None:
    """Beside the verdict of run 2 stands that run 1 is not what it was."""
    again(root, _script)
    path = root / "runs/one/1/attempts.jsonl"
    path.write_bytes(path.read_bytes().replace(b"YES", b"NOO", 1))
    told = " ".join(prereg("score", "one", root=root).out.split())
    assert "run 2 of 2; run 1 INVALID (was PASS)" in told
    assert "Run 1 was changed since it ended" in told


def test_one_bad_entry_does_not_hide_the_others(root: Path) -> None:
    """A folder or a dangling link named like a registration is a line of `status`."""
    (root / "registrations/folder.yaml").mkdir()
    (root / "registrations/dangling.yaml").symlink_to("nowhere")
    assert standing(root, "one")["state"] == "locked"
    for name in ("folder", "dangling"):
        assert standing(root, name)["problems"]


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"text": None, "tokens": None, "finish": None}, "no reply behind it"),
        ({"seed": None}, "seed does not fit"),
        ({"at": "2001-01-01T00:00:00.000Z"}, "before its run began"),
    ],
)
def test_an_attempt_that_no_run_makes_is_found(
    root: Path, change: dict[str, Any], word: str
) -> None:
    """In an open run the chain can be made whole; what an attempt must have is looked at."""
    leave_open(root, after=4)

    def forge(lines: Lines) -> Lines:
        lines[2] = {k: v for k, v in {**lines[2], **change}.items() if v is not None}
        return lines

    rechain(root / "runs/two/1/attempts.jsonl", forge)
    done = prereg("run", "two", root=root)
    assert done.code == 5
    assert word in done.err


def test_a_forged_stop_is_found(root: Path) -> None:
    """A manifest that says `stopped` needs a registered rule that trips at the last attempt."""
    leave_open(root, after=4)
    folder = root / "runs/two/1"
    manifest = json.loads((root / "runs/one/1/manifest.json").read_bytes())
    attempts = (folder / "attempts.jsonl").read_bytes()
    manifest.update(id="two", status="stopped", stopped_by="nothing", attempts=4)
    manifest["attempts_head"] = sha256_bytes(attempts.splitlines()[-1])
    manifest["files"] = {n: sha256_bytes((folder / n).read_bytes()) for n in manifest["files"]}
    (folder / "manifest.json").write_bytes(canonical_json(manifest) + b"\n")
    assert prereg("run", "two", root=root).code in (0, 5)
    _refused(root, "two", "no registered stop rule")
