"""Cheats on the log itself: cut, rewritten, amended after the fact, witnessed by oneself."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from cheats.cheating import (
    CLOCK_ONLY,
    ELSEWHERE,
    INVENTED,
    LEDGER,
    RUN,
    drop,
    failed,
    fails,
    in_git,
    locked_only,
    passes,
    refused,
    rewrite,
    save,
    scored_run,
    set_clock,
    verify,
)
from ledger.authority import time_stamping
from ledger.git_repos import Repo
from support import locked, make_workspace, prereg, with_tip

# --- drop the last ledger lines -------------------------------------------------------------------


def test_drop_the_last_ledger_lines(tmp_path: Path) -> None:
    """Cheat: "drop the last ledger lines": lazily; with the tip; with the score as well. What is
    left of the run gives it away.
    """
    root = failed(tmp_path)
    lines = (root / LEDGER).read_bytes().splitlines(keepends=True)
    (root / LEDGER).write_bytes(b"".join(lines[:3]))
    verify(root).caught("lines are gone from its end: it holds 3, it held 4")
    with_tip(root)
    verify(root).caught(f"{RUN}/score.json", "a score lies here that the ledger does not know")
    (root / LEDGER).write_bytes(b"".join(lines[:2]))
    with_tip(root)
    verify(root).caught("it has its manifest, and the ledger does not tell that it ended")
    (root / LEDGER).write_bytes(b"".join(lines[:1]))
    with_tip(root)
    for args in (("verify", "x"), ("score", "x"), ("run", "x")):
        done = prereg(*args, root=root)
        assert done.code == 5, done
        assert RUN in done.out + done.err
        assert "the ledger" in done.out + done.err


def forget(root: Path) -> None:
    """Drop the run's lines, make hashes and tip right, and delete its folder."""
    drop(root, "run_started", "run_finished", "scored")
    shutil.rmtree(root / "runs/x")


def test_drop_the_last_ledger_lines_and_the_run(tmp_path: Path) -> None:
    """Cheat: "drop the last ledger lines", tip and folder too. Here nothing is left that knows,
    and `verify` says so; a score that somebody kept, and a bundle, do know.
    """
    root = failed(tmp_path)
    bundle, score = tmp_path / "x.prereg.zip", tmp_path / "kept.json"
    assert prereg("bundle", "x", "--out", str(bundle), root=root).code == 0
    shutil.copyfile(root / RUN / "score.json", score)
    told = verify(root, "--clone", str(bundle), "--clone", str(score))
    told.clean()
    told.shown(f"every ledger line that {bundle} names is here")
    told.shown(f"every ledger line that {score} names is here")
    forget(root)
    told = verify(root)
    told.clean()
    told.open("x: there is no run yet")
    told.open("any witness", ELSEWHERE)
    told.open(CLOCK_ONLY)
    for kept in (bundle, score):
        told = verify(root, "--clone", str(kept))
        told.caught(str(kept), "the ledger was cut or rewritten since")


def test_drop_the_last_ledger_lines_against_git(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cheat: "drop the last ledger lines", tip and folder too. A commit has them; with that commit
    taken off the branch, the reflog; with that gone, a tag or a clone.
    """
    repo = in_git(tmp_path, monkeypatch)
    clone = repo.clone(tmp_path / "clone")
    forget(repo.top)
    cut = "git: the ledger as it is now ends before line 2 of the version in commit"
    verify(repo.top).caught(cut, "known to branch main")
    repo.git("reset", "--quiet", "HEAD~1")  # the files stay
    verify(repo.top).caught(cut, "known to the reflog")
    repo.git("tag", "reviewed", "HEAD@{1}")
    repo.git("reflog", "expire", "--expire=now", "--all")
    repo.git("gc", "--quiet", "--prune=now")
    verify(repo.top).caught(cut, "known to tag reviewed")
    repo.git("tag", "-d", "reviewed")
    repo.git("gc", "--quiet", "--prune=now")
    told = verify(repo.top)
    told.clean()
    told.open("that this git history is the first", "`--clone PATH`")
    verify(repo.top, "--clone", str(clone.top)).caught(cut, f"of clone {clone.top}")


def test_drop_the_last_ledger_lines_against_a_token(tmp_path: Path) -> None:
    """Cheat: "drop the last ledger lines", tip and folder too. A token is for a line that is gone;
    without the token its own line in the ledger, or a copy of it, tells.
    """
    root = failed(tmp_path)
    with time_stamping(tmp_path / "tsa") as authority:
        assert prereg("stamp", "--tsa", authority.url, root=root).code == 0
    forget(root)
    told = verify(root)
    told.caught("000004-001-rfc3161.tsr", "is for a line that the ledger does not have")
    kept = (root / "registrations/stamps/000004-001-rfc3161.tsr").rename(tmp_path / "kept.tsr")
    verify(root).caught("a stamp that the ledger names is gone")
    drop(root, "stamped")
    verify(root).clean()
    shutil.copyfile(kept, root / "registrations/stamps/000004-001-rfc3161.tsr")
    verify(root).caught("a stamp that the ledger does not name", "the ledger was cut")


def test_drop_ledger_lines_before_another_run(tmp_path: Path) -> None:
    """Cheat: "drop the last ledger lines", of a failed run that another registration's run
    followed: that run's record and manifest hang on them.
    """
    root = failed(tmp_path)
    locked(root, "y")
    scored_run(root, passes, code=0, ident="y")
    rewrite(root, lambda lines: [e for e in lines if e["id"] != "x" or "run" not in e])
    shutil.rmtree(root / "runs/x")
    told = verify(root, "--all")
    told.caught("y run 1 of 1: runs/y/1/attempts.jsonl", "belongs to another run")
    told.caught("the ledger no longer holds the line that was its last when the run ended")


@pytest.mark.parametrize("kept", ["lock", "run", "both"])
def test_drop_the_last_ledger_lines_and_the_registration(kept: str, tmp_path: Path) -> None:
    """Cheat: "drop the last ledger lines", of another registration as a whole, tip and text too.
    Its lock, or its run, still lies there.
    """
    root = locked_only(tmp_path)
    locked(root, "y")
    scored_run(root, fails, code=1, ident="y")
    rewrite(root, lambda lines: [e for e in lines if e["id"] != "y"])
    (root / "registrations/y.yaml").unlink()
    if kept == "lock":
        shutil.rmtree(root / "runs/y")
    elif kept == "run":
        (root / "registrations/y.lock.json").unlink()
    for named in ("--all", "y"):
        told = verify(root, named)
        if kept != "run":
            told.caught("y: registrations/y.lock.json", "this lock stands in no ledger")
        if kept != "lock":
            told.caught("y: runs/y/1", "a run lies here that the ledger does not know")
    verify(root).clean()
    lost = next(r for r in prereg("status", "--json", root=root).json if r["id"] == "y")
    assert (lost["state"], bool(lost["problems"])) == ("registration missing", True)


# --- put lines into the ledger --------------------------------------------------------------------


@pytest.mark.parametrize("changed", [{"id": "../../etc"}, {"at": "\u202e"}, {"at": "yesterday"}])
def test_put_a_line_into_the_ledger(changed: dict[str, str], tmp_path: Path) -> None:
    """Cheat: a line whose id names a place outside, or whose time is none, hashes made right. The
    line is named, and every command that reads the ledger ends with 5.
    """
    root = locked_only(tmp_path)
    rewrite(root, lambda lines: [*lines, {**lines[0], **changed}])
    for named in ("x", "--all"):
        verify(root, named).caught("line 2 is no event that this tool writes")
    for args in (("status",), ("show", "x"), ("score", "x")):
        refused(root, *args, says=("registrations/ledger.jsonl:2",))


# --- rewrite the whole chain, backdated -----------------------------------------------------------


def backdated(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Everything made again by the real tool, on a machine whose clock says 2019: a wider band for
    the same replies, locked "before" them. FAIL has become PASS.
    """
    root = make_workspace(folder)
    with monkeypatch.context() as patch:
        set_clock(patch, "2019-03-01T09:00:00")
        locked(root, "x", band="sentinel.agreement.count=0..3")
        scored_run(root, fails, code=0)
    return root


def put_over(root: Path, other: Path) -> None:
    """Replace all of a workspace's registrations and runs by another's."""
    for name in ("registrations", "runs"):
        shutil.rmtree(root / name)
        shutil.copytree(other / name, root / name)


def test_rewrite_the_whole_chain_backdated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Cheat: "rewrite the whole chain, backdated". Without any witness there is nothing to find,
    and `verify` prints what is not proved; whoever kept a bundle, a score or a manifest finds it.
    """
    root = failed(tmp_path)
    bundle = tmp_path / "x.prereg.zip"
    assert prereg("bundle", "x", "--out", str(bundle), root=root).code == 0
    kept = [bundle]
    for name in ("score.json", "manifest.json"):
        kept.append(Path(shutil.copyfile(root / RUN / name, tmp_path / name)))
    put_over(root, backdated(tmp_path / "again", monkeypatch))
    told = verify(root)
    told.clean()
    told.open("x: when it was locked (line 1)", CLOCK_ONLY, "`prereg stamp --tsa URL`")
    told.open("any witness", ELSEWHERE)
    told.open("any witness", INVENTED)
    for witness in ("git", "rfc3161", "opentimestamps"):
        told = verify(root, "--require", f"witness={witness}")
        told.caught(f"version 1 has no {witness} witness from before its first run")
    for file in kept:
        verify(root, "--clone", str(file)).caught(str(file), "was cut or rewritten since")


def test_rewrite_the_whole_chain_in_git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Cheat: "rewrite the whole chain, backdated", and commit it on top, then on an orphan branch:
    the old commits, a tag on them and the reflog know another ledger.
    """
    repo = in_git(tmp_path, monkeypatch)
    other = backdated(tmp_path / "again", monkeypatch)
    put_over(repo.top, other)
    verify(repo.top).caught("git: the ledger as it is now differs from line 1")
    repo.git("tag", "reviewed")
    save(repo, "tidy up")
    told = verify(repo.top)
    told.caught("changes the ledger of its parent", "the bytes differ from line 1 on")
    repo.git("checkout", "--quiet", "--orphan", "clean")
    save(repo, "start")
    repo.git("branch", "-D", "main")
    verify(repo.top).caught("differs from line 1", "tag reviewed")
    repo.git("tag", "-d", "reviewed")
    verify(repo.top).caught("differs from line 1", "the reflog")


def test_rewrite_the_whole_chain_and_the_history(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cheat: "rewrite the whole chain, backdated", with a new repository whose commits are
    backdated too, and a remote-tracking ref that no remote has. By itself that is only not
    proved; a clone from before knows better.
    """
    old = in_git(tmp_path, monkeypatch)
    clone = old.clone(tmp_path / "clone")
    other = backdated(tmp_path / "again", monkeypatch)
    repo = Repo.new(other)
    for name in ("GIT_AUTHOR_DATE", "GIT_COMMITTER_DATE"):
        monkeypatch.setenv(name, "2019-03-01T09:00:00Z")
    whole = (other / LEDGER).read_bytes()
    (other / LEDGER).write_bytes(whole.splitlines(keepends=True)[0])
    repo.git("add", "registrations")
    repo.git("commit", "--quiet", "-m", "prereg: lock of x, version 1")
    (other / LEDGER).write_bytes(whole)
    save(repo, "run 1")
    repo.git("update-ref", "refs/remotes/origin/main", "HEAD")
    told = verify(other)
    told.clean()
    told.shown("its lock is in commit", "the committer's own clock", "by this repository's word")
    told.open("x: at what time it was locked: the commits' times are their makers' own clocks")
    told.open("that this git history is the first", "write it anew", "`--clone PATH`")
    told = verify(other, "--clone", str(clone.top))
    told.caught("the ledger as it is now differs from line 1", f"of clone {clone.top}")


def test_rewrite_the_whole_chain_against_a_token(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cheat: "rewrite the whole chain, backdated". The old token is for another ledger, and a new
    one is from after the run.
    """
    root = locked_only(tmp_path)
    with time_stamping(tmp_path / "tsa") as authority:
        stamp, ca = ("stamp", "--tsa", authority.url), ("--ca", str(authority.root))
        assert prereg(*stamp, root=root).code == 0
        scored_run(root, fails, code=1)
        told = verify(root, *ca, "--require", "witness=rfc3161")
        told.clean()
        told.shown("x: locked by 20", "before any line of run 1's record was written", "time-stamp")
        stamps = Path(shutil.copytree(root / "registrations/stamps", tmp_path / "stamps"))
        put_over(root, backdated(tmp_path / "again", monkeypatch))
        assert prereg(*stamp, root=root).code == 0
        told = verify(root, *ca, "--require", "witness=rfc3161")
        told.caught("version 1 has no rfc3161 witness from before its first run")
        told.open("that its lock came before run 1: stamped at 20", "after it began")
        for file in stamps.iterdir():
            shutil.copyfile(file, root / "registrations/stamps" / file.name)
        verify(root).caught("000001-001-rfc3161.tsr", "the ledger was rewritten")
