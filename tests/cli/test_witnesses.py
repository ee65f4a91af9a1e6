"""Witnesses through the commands: commits on lock, time-stamps, what `verify` makes of them."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from ledger.authority import Authority, time_stamping
from ledger.git_repos import Repo, isolate
from prereg_judge.canon import sha256_bytes
from prereg_judge.flow.locked import ledger_of
from prereg_judge.ledger.rfc3161 import request_token
from prereg_judge.workspace import Workspace
from support import locked, make_workspace, new, prereg, run_scripted, verdict_reply

NO = verdict_reply("NO")


@pytest.fixture
def repo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Repo:
    """A workspace that is a repository without commits, whatever git's own settings are here."""
    isolate(monkeypatch, tmp_path)
    return Repo.new(make_workspace(tmp_path / "w"))


@pytest.fixture
def ran(repo: Repo) -> Repo:
    """The same with a registration x that is locked, which committed it, and that has a run."""
    locked(repo.top, "x")
    run_scripted(repo.top, "x", lambda *_: NO)
    return repo


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Authority]:
    """A good authority on loopback."""
    with time_stamping(tmp_path_factory.mktemp("authority")) as running:
        yield running


def test_lock_commits_its_own_files_and_nothing_else(repo: Repo) -> None:
    """What the user has staged stays staged and uncommitted; the four files are committed."""
    root = repo.top
    repo.write("notes.txt", b"mine\n")
    repo.git("add", "notes.txt")
    done = new(root, "x", "--lock")
    assert done.code == 0, done.err
    assert "Committed" in done.err
    names = set(repo.git("show", "--name-only", "--format=", "HEAD").split())
    files = ("x.yaml", "x.lock.json", "ledger.jsonl", "ledger.tip")
    assert names == {f"registrations/{name}" for name in files}
    assert "A  notes.txt" in repo.git("status", "--short")
    found = prereg("verify", "x", "--json", "--require", "witness=git", root=root)
    assert found.code == 0, found.out
    assert found.json["witnessed"]["git"] == [["x", 1]]
    clock = [f for f in found.json["not_proved"] if "their makers' own clocks" in f["what"]]
    assert clock, "git proves an order, and no time"


def test_a_lock_that_is_not_committed_says_so(repo: Repo) -> None:
    """With --no-commit nothing is committed, and `verify` cannot prove the order."""
    root = repo.top
    assert new(root, "x").code == 0
    assert prereg("lock", "x", "--no-commit", root=root).code == 0
    assert repo.git("rev-list", "--all").split() == []
    done = prereg("verify", "x", "--require", "witness=git", root=root)
    assert done.code == 5
    assert "its lock is in no commit" in done.out
    assert "has no git witness from before its first run" in done.out


def test_outside_of_git_a_lock_says_why_it_is_not_committed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No repository is no error: the lock holds, the message says it."""
    isolate(monkeypatch, tmp_path)
    root = make_workspace(tmp_path / "w")
    done = new(root, "x", "--lock")
    assert done.code == 0
    assert "Not committed" in done.err
    assert "No witness but this machine" in done.err


def test_a_stamp_between_lock_and_run_proves_that_the_bands_came_first(
    tmp_path: Path, authority: Authority
) -> None:
    """`lock --stamp`, run, score: under the authority's root the order is proved, and required."""
    root = make_workspace(tmp_path / "w")
    assert new(root, "x").code == 0
    done = prereg("lock", "x", "--stamp", authority.url, "--json", root=root)
    assert done.code == 0, done.err
    assert done.json["witnesses"]["stamp"]["by"] == authority.url
    run_scripted(root, "x", lambda *_: NO)
    ca = ("--ca", str(authority.root))
    found = prereg("verify", "x", *ca, "--require", "witness=rfc3161", "--json", root=root)
    assert found.code == 0, found.out
    said = [f["what"] for f in found.json["proved"] if f["about"] == "x"]
    assert any("before any line of run 1's record was written" in what for what in said)
    # Without the root a token proves nothing.
    bare = prereg("verify", "x", "--require", "witness=rfc3161", root=root)
    assert bare.code == 5
    assert "name the authority's root with --ca" in bare.out.lower().replace("\n", " ") or (
        "Name the authority's root with --ca" in bare.out
    )


def test_a_stamp_after_the_run_proves_no_order(tmp_path: Path, authority: Authority) -> None:
    """A token that covers the run as well says only that both existed by then."""
    root = make_workspace(tmp_path / "w")
    locked(root, "x")
    run_scripted(root, "x", lambda *_: NO)
    assert prereg("stamp", "--tsa", authority.url, root=root).code == 0
    ca = ("--ca", str(authority.root))
    done = prereg("verify", "x", *ca, root=root)
    assert done.code == 0, done.out
    assert "that its lock came before run 1: stamped at" in done.out
    assert prereg("verify", "x", *ca, "--require", "witness=rfc3161", root=root).code == 5


def test_a_stamp_that_the_ledger_names_after_the_run_proves_no_order(
    tmp_path: Path, authority: Authority
) -> None:
    """A token for the lock's own line, had early and noted late: the record does not hang on it, so
    that it could have been written first.
    """
    root = make_workspace(tmp_path / "w")
    locked(root, "x")
    workspace = Workspace(root)
    head = ledger_of(workspace).head
    raw = request_token(authority.url, head, timeout_s=30)
    run_scripted(root, "x", lambda *_: NO)
    path = workspace.stamps / "000001-001-rfc3161.tsr"
    path.parent.mkdir()
    path.write_bytes(raw)
    values = {"kind": "rfc3161", "of": head, "line": 1, "file": path.name, "by": "", "time": None}
    ledger_of(workspace).append("stamped", ident="", sha256=sha256_bytes(raw), **values)
    ca = ("--ca", str(authority.root))
    done = prereg("verify", "x", *ca, root=root)
    assert done.code == 0, done.out
    assert "lines 1 to 1 existed at" in done.out
    assert "that its lock came before run 1: stamped at" in done.out
    assert prereg("verify", "x", *ca, "--require", "witness=rfc3161", root=root).code == 5


def test_another_root_trusts_nobody(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, authority: Authority
) -> None:
    """A token under a root that was not named is a violation, and is not kept if asked at once."""
    with time_stamping(tmp_path_factory.mktemp("other")) as other:
        root = make_workspace(tmp_path / "w")
        locked(root, "x")
        ca = ("--ca", str(other.root))
        refused = prereg("stamp", "--tsa", authority.url, *ca, root=root)
        assert refused.code == 5
        assert not (root / "registrations/stamps").exists()
        assert prereg("stamp", "--tsa", authority.url, root=root).code == 0
        assert prereg("verify", "x", *ca, root=root).code == 5
        both = (*ca, "--ca", str(authority.root))
        assert prereg("verify", "x", *both, root=root).code == 0


def test_an_authority_that_fails_costs_no_lock(tmp_path: Path) -> None:
    """The lock stands where the stamp could not be had, and the message says what to do."""
    root = make_workspace(tmp_path / "w")
    assert new(root, "x").code == 0
    done = prereg("lock", "x", "--stamp", "http://127.0.0.1:9/", root=root)
    assert done.code == 2  # what follows in a script must not go on
    assert "NOT stamped" in done.err
    assert "prereg stamp --tsa http://127.0.0.1:9/" in done.err
    assert prereg("show", "x", "--json", root=root).json["state"] == "locked"


def test_a_stamp_that_is_gone_or_new_is_found(tmp_path: Path, authority: Authority) -> None:
    """The ledger names every stamp by its bytes; one more or one less is a violation."""
    root = make_workspace(tmp_path / "w")
    locked(root, "x")
    assert prereg("stamp", "--tsa", authority.url, root=root).code == 0
    (file,) = (root / "registrations/stamps").iterdir()
    raw = file.read_bytes()
    file.unlink()
    assert "a stamp that the ledger names is gone" in prereg("verify", "x", root=root).out
    file.write_bytes(raw)
    file.with_name("000001-009-rfc3161.tsr").write_bytes(raw)
    done = prereg("verify", "x", root=root)
    assert done.code == 5
    assert "a stamp that the ledger does not name" in done.out


def test_stamping_needs_a_name_and_a_ledger(tmp_path: Path) -> None:
    """Nobody named, and nothing to stamp: one message each."""
    root = make_workspace(tmp_path / "w")
    done = prereg("stamp", root=root)
    assert (done.code, "give --tsa URL" in done.err.lower() or "Give --tsa URL" in done.err) == (
        2,
        True,
    )
    empty = prereg("stamp", "--tsa", "http://127.0.0.1:9/", root=root)
    assert empty.code == 2
    assert "nothing is locked yet, so there is no ledger to stamp" in empty.err


def test_an_empty_ledger_is_not_committed(repo: Repo) -> None:
    """`stamp --git` before any lock makes no empty commit: it says what comes first."""
    root = repo.top
    done = prereg("stamp", "--git", root=root)
    assert done.code == 2
    assert "nothing is locked yet, so there is no ledger to commit. First: `prereg lock ID`" in (
        done.err
    )
    assert repo.git("rev-list", "--all").split() == []


def test_what_a_clone_would_lack_is_said_and_enough(repo: Repo, tmp_path: Path) -> None:
    """`lock` and `stamp --git` name judge, items and runs that git does not hold; with them
    committed nothing is named any more and a clone verifies, which it does not before.
    """
    root = repo.top
    assert new(root, "x").code == 0
    lock = prereg("lock", "x", root=root)
    inputs = "judge/yes-no.yaml, sentinels/small.jsonl"
    assert f"a clone cannot be verified without: {inputs}\n" in lock.err
    run_scripted(root, "x", lambda *_: NO)
    assert prereg("score", "x", root=root).code == 1
    told = prereg("stamp", "--git", "--json", root=root)
    assert told.json["not_in_git"] == [*inputs.split(", "), "runs/x/"]
    assert f"without: {inputs}, runs/x/\n" in told.err
    half = repo.clone(tmp_path / "half").top
    (one,) = prereg("status", "--json", root=half).json
    assert one["state"] == "files missing"
    assert prereg("verify", "x", root=half).code == 5
    repo.git("add", "--", *told.json["not_in_git"])
    repo.git("commit", "--quiet", "--message", "the rest")
    again = prereg("stamp", "--git", "--json", root=root)
    assert again.json["not_in_git"] == []
    assert "Not in git" not in again.err
    done = prereg("verify", "x", root=repo.clone(tmp_path / "whole").top)
    assert done.code == 0, done.out


def test_a_clone_lacks_earlier_runs_as_well(ran: Repo) -> None:
    """A lock that is compared with another registration's run names that run's folder too."""
    root = ran.top
    predict = "sentinel.flips_from.count[from_run=x/1,from_pass=1,verdict=NO] >= 1"
    assert new(root, "y", predict=predict, band=None).code == 0
    done = prereg("lock", "y", root=root)
    assert done.code == 0, done.err
    assert "without: judge/yes-no.yaml, sentinels/small.jsonl, runs/x/\n" in done.err


def test_verify_wants_to_know_what(tmp_path: Path) -> None:
    """No id, an unknown id, an unknown witness, a bundle that is not there: exit code 2."""
    root = make_workspace(tmp_path / "w")
    locked(root, "x")
    assert prereg("verify", root=root).code == 2
    assert "both a name and --all" in prereg("verify", "x", "--all", root=root).err
    gone = prereg("verify", "x", "--clone", str(tmp_path / "nowhere"), root=root)
    assert (gone.code, "--clone" in gone.err) == (2, True)
    assert "All of them: `prereg status`" in prereg("verify", "y", root=root).err
    done = prereg("verify", "x", "--require", "witness=notary", root=root)
    assert done.code == 2
    assert "rfc3161" in done.err
    assert prereg("verify", "gone.prereg.zip", root=root).code == 2


def test_amendments_and_withdrawals_are_committed_and_verified(ran: Repo) -> None:
    """Each version is a commit of its own; a withdrawal is proved by its tombstone."""
    repo, root = ran, ran.top
    assert prereg("amend", "x", "--reason", "wider", root=root).code == 0
    second = root / "registrations/x.v2.yaml"
    text = second.read_text(encoding="utf-8").replace("between: [1, 3]", "between: [1, 2]")
    second.write_text(text, encoding="utf-8")
    done = prereg("amend", "x", "--reason", "narrower", root=root)
    assert done.code == 0, done.err
    assert len(repo.git("rev-list", "HEAD").split()) == 2
    assert prereg("withdraw", "x", "--reason", "no use", root=root).code == 0
    assert "registrations/x.withdrawn.json" in repo.git("show", "--name-only", "--format=", "HEAD")
    found = prereg("verify", "x", "--json", root=root)
    assert found.code == 0, found.out
    said = json.dumps(found.json["proved"])
    assert "x version 2" in said
    assert "it was withdrawn at" in said


def test_lines_that_no_commit_holds_are_named(ran: Repo) -> None:
    """Runs and scores after the last commit could be cut; `stamp --git` commits the ledger."""
    repo, root = ran, ran.top
    prereg("score", "x", root=root)
    done = prereg("verify", "x", root=root)
    assert done.code == 0
    assert "that lines 2 to 4 stay: no commit and no trusted stamp holds them" in done.out
    assert prereg("stamp", "--git", root=root).code == 0
    assert len(repo.git("rev-list", "HEAD").split()) == 2
    assert "stay: no commit" not in prereg("verify", "x", root=root).out


def test_verifying_runs_no_command_of_a_repository_s_settings(repo: Repo, tmp_path: Path) -> None:
    """A folder of somebody else's making may name commands to fetch objects with: none is run."""
    root = repo.top
    locked(root, "x")
    trap = tmp_path / "trapped"
    for name, value in {
        "core.repositoryformatversion": "1",
        "extensions.partialClone": "origin",
        "remote.origin.promisor": "true",
        "remote.origin.url": "/nowhere",
        "remote.origin.uploadpack": f"touch {trap};false",
        "core.fsmonitor": f"touch {trap}",
    }.items():
        repo.git("config", name, value)
    (root / ".git/refs/heads/zz").write_text("1" * 40 + "\n", encoding="utf-8")
    done = prereg("verify", "x", root=root)
    assert not trap.exists()
    assert done.code == 5  # a history that cannot be read is no innocent thing
    assert "the git repository here cannot be read" in done.out


def test_a_reason_cannot_write_lines_of_ours(tmp_path: Path) -> None:
    """Line breaks and turned text in a reason are refused, and shown as escapes where forged."""
    root = make_workspace(tmp_path / "w")
    locked(root, "x")
    for reason in ("done\n  - x: locked long ago", "\u202edone"):
        assert prereg("withdraw", "x", "--reason", reason, root=root).code == 2
    assert prereg("show", "x", "--json", root=root).json["withdrawn"] is None


def test_pipes_in_the_place_of_files_are_violations(tmp_path: Path) -> None:
    """What is no file is not waited for."""
    root = make_workspace(tmp_path / "w")
    locked(root, "x")
    for name in ("ledger.jsonl", "ledger.tip"):
        path = root / "registrations" / name
        raw = path.read_bytes()
        path.unlink()
        os.mkfifo(path)
        done = prereg("verify", "x", root=root)
        assert (done.code, "is not a file" in done.out) == (5, True)
        path.unlink()
        path.write_bytes(raw)
    (root / "registrations/stamps").mkdir()
    os.mkfifo(root / "registrations/stamps/000001-001-rfc3161.tsr")
    assert prereg("verify", "x", root=root).code == 5
