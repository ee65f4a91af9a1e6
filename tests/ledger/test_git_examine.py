"""Git as a witness of the ledger: what its history proves, and who still knows better."""

from __future__ import annotations

import tempfile
from itertools import accumulate
from pathlib import Path

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from ledger.git_repos import LEDGER, Repo, faults, history, isolate, kinds, lines
from prereg_judge.canon import sha256_bytes
from prereg_judge.ledger.git_examine import examine, first_commit_with, held_before, pushed
from prereg_judge.ledger.git_versions import Knower


@pytest.fixture(autouse=True)
def _isolated(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    isolate(monkeypatch, tmp_path)


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    """A repository in which three commits append a line each, with other commits between."""
    return Repo.of_three(tmp_path / "repo")


def line_hash(word: str) -> str:
    """The hash by which a line is asked for."""
    return sha256_bytes(word.encode())


def test_an_edited_middle_line(repo: Repo) -> None:
    """A commit that changes a line is named with the line, and so is who knew it otherwise."""
    changed = repo.ledger("one", "2", "three")
    found = faults(repo)
    assert kinds(found) == ["not_a_prefix", "current_differs"]
    assert [fault.line for fault in found] == [2, 2]
    assert found[0].commit == changed
    assert found[0].known_by == (Knower("refs/heads/main"),)
    assert changed[:12] in found[0].sentence
    assert "branch main" in found[0].sentence
    assert "line 2" in found[0].sentence
    assert repo.git("rev-parse", "HEAD~")[:12] in found[1].sentence


def test_dropped_last_lines(repo: Repo) -> None:
    """Dropping lines is found on the disk, and as a commit; from which line on is told."""
    repo.write(LEDGER, lines("one"))
    [cut] = faults(repo)
    assert (cut.kind, cut.line, cut.severity) == ("current_cut", 2, "fault")
    assert "branch main" in cut.sentence
    repo.ledger("one")
    found = faults(repo)
    assert kinds(found) == ["not_a_prefix", "current_cut"]
    assert "drops" in found[0].sentence
    repo.ledger("one", "two", "three")
    assert kinds(faults(repo)) == ["not_a_prefix"]


def test_a_deleted_ledger(repo: Repo) -> None:
    """A commit without the ledger, after one with it, is a fault for good."""
    repo.git("rm", "--quiet", LEDGER)
    repo.commit("gone", {})
    gone = repo.head
    repo.ledger("one", "two", "three")
    [fault] = faults(repo)
    assert (fault.kind, fault.commit) == ("deleted", gone)
    (repo.top / LEDGER).unlink()
    (repo.top / "registrations").rmdir()
    missing = examine(history(repo), b"")
    assert kinds(missing) == ["deleted", "current_cut"]


def test_a_merge_of_branches_that_both_appended(repo: Repo) -> None:
    """Neither side's lines can follow the other's: a fault that says what to do."""
    repo.git("checkout", "--quiet", "-b", "side")
    repo.ledger("one", "two", "three", "side")
    repo.git("checkout", "--quiet", "main")
    repo.ledger("one", "two", "three", "main")
    repo.git("merge", "--quiet", "--strategy=ours", "-m", "merge", "side")
    found = faults(repo)
    assert kinds(found) == ["not_a_prefix", "current_differs"]
    assert found[0].commit == repo.head
    assert found[0].line == 4
    assert "merges branches that both appended" in found[0].sentence
    assert "lock and run there again" in found[0].sentence


def test_a_merge_of_a_branch_that_only_one_side_appended_to(repo: Repo) -> None:
    """Where one side appended and the other did not, the merge extends both."""
    repo.git("checkout", "--quiet", "-b", "side", "HEAD~2")
    repo.commit("side", {"other.py": b"1\n"})
    repo.git("merge", "--quiet", "-m", "merge", "main")
    assert faults(repo) == ()


def test_an_unmerged_branch_that_appended(repo: Repo) -> None:
    """A branch that went its own way contradicts the ledger here, and is named."""
    repo.git("checkout", "--quiet", "-b", "side", "HEAD~1")
    repo.ledger("one", "two", "other")
    repo.git("checkout", "--quiet", "main")
    [fault] = faults(repo)
    assert (fault.kind, fault.line) == ("current_differs", 3)
    assert fault.known_by == (Knower("refs/heads/side"),)


def test_a_branch_that_carries_the_ledger_along_is_no_matter(repo: Repo) -> None:
    """Code on another branch, and a branch ahead of HEAD, give neither fault nor note."""
    repo.git("checkout", "--quiet", "-b", "side", "HEAD~1")
    repo.commit("side", {"other.py": b"1\n"})
    repo.git("checkout", "--quiet", "main")
    repo.git("checkout", "--quiet", "-b", "ahead")
    repo.commit("ahead", {"other.py": b"1\n"})
    repo.git("checkout", "--quiet", "main")
    assert faults(repo) == ()


def test_a_squash_that_a_tag_knows_better(repo: Repo) -> None:
    """History squashed into one commit is noted, with the tag that has it as it was."""
    repo.git("tag", "-a", "-m", "v1", "v1")
    old = repo.head
    repo.git("reset", "--quiet", "--soft", "HEAD~3")
    repo.commit("squashed", {})
    repo.git("reflog", "expire", "--expire=now", "--all")
    [note] = faults(repo)
    assert (note.kind, note.severity, note.commit) == ("rewritten", "note", old)
    assert note.known_by == (Knower("refs/tags/v1"),)
    assert "tag v1" in note.sentence
    assert "and 1 before it" in note.sentence


def test_an_amended_commit_is_found_through_the_reflog(repo: Repo) -> None:
    """What `commit --amend` replaced is still in the reflog: the lines are compared with it."""
    old = repo.head
    repo.write(LEDGER, lines("one", "two", "3"))
    repo.git("add", LEDGER)
    repo.git("commit", "--quiet", "--amend", "-m", "amended")
    [fault] = faults(repo)
    assert (fault.kind, fault.line, fault.commit) == ("current_differs", 3, old)
    assert fault.known_by == (Knower(None),)
    assert "the reflog" in fault.sentence
    repo.git("reflog", "expire", "--expire=now", "--all")
    assert faults(repo) == ()


def test_an_amended_message_is_a_note(repo: Repo) -> None:
    """A commit that was replaced by one with the same ledger contradicts nothing."""
    repo.git("commit", "--quiet", "--amend", "-m", "another message")
    [note] = faults(repo)
    assert (note.kind, note.severity) == ("rewritten", "note")


def test_a_forced_push_that_a_clone_remembers(repo: Repo, tmp_path: Path) -> None:
    """Where the remote was overwritten, a clone made before still has the commits, by path."""
    remote = Repo(tmp_path / "remote.git")
    repo.clone(remote.top, "--bare")
    repo.git("remote", "add", "origin", remote.top.as_uri())
    other = remote.clone(tmp_path / "other")
    known = repo.head
    repo.git("reset", "--quiet", "--hard", "HEAD~1")
    repo.ledger("one", "two", "drei")
    repo.git("push", "--quiet", "--force", "origin", "main")
    repo.git("reflog", "expire", "--expire=now", "--all")
    assert faults(repo, remote.top) == ()
    [fault] = faults(repo, remote.top, other.top)
    assert (fault.kind, fault.line, fault.commit) == ("current_differs", 3, known)
    assert Knower("refs/heads/main", str(other.top)) in fault.known_by
    assert f"branch main of clone {other.top}" in fault.sentence
    other.git("fetch", "--quiet")
    other.git("reset", "--quiet", "--hard", "origin/main")
    [fault] = faults(repo, other.top)
    assert fault.known_by == (Knower(None, str(other.top)),)
    assert "the reflog of clone" in fault.sentence


def test_a_whole_chain_rewritten_and_backdated(
    repo: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A new history under old dates looks right by itself; a clone at a URL knows another."""
    clone = repo.clone(tmp_path / "clone")
    (repo.top / ".git").rename(tmp_path / "old")
    forged = Repo.new(repo.top)
    with monkeypatch.context() as then:
        then.setenv("GIT_COMMITTER_DATE", "2001-01-01T00:00:00Z")
        then.setenv("GIT_AUTHOR_DATE", "2001-01-01T00:00:00Z")
        forged.ledger("eins")
        forged.ledger("eins", "zwei")
    assert faults(forged) == ()
    before = sorted(path for path in (forged.top / ".git").rglob("*"))
    [fault] = faults(forged, clone.top.as_uri())
    assert (fault.kind, fault.line) == ("current_differs", 1)
    assert Knower("refs/heads/main", clone.top.as_uri()) in fault.known_by
    assert {knower.clone for knower in fault.known_by} == {clone.top.as_uri()}
    assert sorted(path for path in (forged.top / ".git").rglob("*")) == before


def test_the_first_commit_with_a_line(repo: Repo) -> None:
    """The commit that brought a line is found by the line's hash, not one that kept it."""
    found = history(repo)
    first = first_commit_with(found, line_hash("two"))
    assert first is not None
    assert first.id == repo.git("rev-parse", "HEAD~2")
    assert first_commit_with(found, line_hash("four")) is None
    repo.write(LEDGER, lines("one", "two", "three") + b"torn")
    repo.git("commit", "--quiet", "-a", "-m", "torn")
    assert first_commit_with(history(repo), line_hash("torn")) is None


def test_git_orders_two_lines_or_does_not(repo: Repo) -> None:
    """A line is before another if a commit has the one and none so far had the other."""
    repo.ledger("one", "two", "three", "four", "five")
    found = history(repo)
    one = held_before(found, line_hash("one"), line_hash("three"))
    assert one is not None
    assert one.id == repo.git("rev-parse", "HEAD~4")
    assert held_before(found, line_hash("three"), line_hash("one")) is None
    assert held_before(found, line_hash("four"), line_hash("five")) is None
    assert held_before(found, line_hash("none"), line_hash("one")) is None
    assert held_before(found, line_hash("five"), line_hash("not yet")) is not None
    repo.ledger("one", "two", "three", "four")  # the later line taken out again: no order
    assert held_before(history(repo), line_hash("four"), line_hash("five")) is None


def test_only_the_history_of_head_orders(repo: Repo) -> None:
    """A commit on another branch, made up afterwards, does not order the lines here."""
    repo.git("checkout", "--quiet", "-b", "side")
    repo.ledger("one", "two", "three", "four")
    repo.git("checkout", "--quiet", "main")
    repo.ledger("one", "two", "three", "four", "five")
    assert held_before(history(repo), line_hash("four"), line_hash("five")) is None


def test_what_was_pushed_by_what_the_refs_here_say(repo: Repo, tmp_path: Path) -> None:
    """The remote-tracking refs that contain a commit are named; a clone's own do not count."""
    remote = Repo(tmp_path / "remote.git")
    repo.clone(remote.top, "--bare")
    repo.git("remote", "add", "origin", remote.top.as_uri())
    repo.git("push", "--quiet", "origin", "HEAD~1:main", "--force")
    repo.git("fetch", "--quiet")
    other = remote.clone(tmp_path / "other")
    found = history(repo, other.top)
    assert pushed(found, repo.git("rev-parse", "HEAD~1")) == ("refs/remotes/origin/main",)
    assert pushed(found, repo.head) == ()
    assert pushed(found, "0" * 40) == ()


WORDS = st.lists(st.text("ab", max_size=2), min_size=1, max_size=3)


ONCE = (Phase.explicit, Phase.reuse, Phase.generate)  # every example starts git many times


@settings(max_examples=12, deadline=None, phases=ONCE)
@given(st.lists(WORDS, min_size=2, max_size=5), st.data())
def test_any_edit_of_any_version_is_found(parts: list[list[str]], data: st.DataObject) -> None:
    """Random append-only histories have no fault; one changed byte in one version makes one."""
    versions = list(accumulate(lines(*words) for words in parts))
    current = versions[-1]
    with tempfile.TemporaryDirectory() as folder:
        good = history(Repo.imported(Path(folder) / "good", versions))
        assert examine(good, current) == ()
        at = data.draw(st.integers(0, len(versions) - 1))
        byte = data.draw(st.integers(0, len(versions[at]) - 1))
        edited = bytearray(versions[at])
        edited[byte] ^= 1 + data.draw(st.integers(0, 254))
        versions[at] = bytes(edited)
        found = examine(history(Repo.imported(Path(folder) / "bad", versions)), current)
        assert "current_differs" in kinds(found)
        assert ("not_a_prefix" in kinds(found)) == (
            at < len(versions) - 1 or byte < len(versions[at - 1])
        )
        assert {fault.line for fault in found} == {current[:byte].count(b"\n") + 1}
