"""Reading a ledger's history from git: every version, who knows it, and what cannot be read."""

from __future__ import annotations

from pathlib import Path

import pytest

from ledger.git_repos import LEDGER, Repo, faults, history, isolate, kinds, lines
from prereg_judge.canon import sha256_bytes
from prereg_judge.ledger.git_examine import examine, first_commit_with
from prereg_judge.ledger.git_history import history_of
from prereg_judge.ledger.git_versions import Knower, LedgerHistory, NoHistory


@pytest.fixture(autouse=True)
def _isolated(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    isolate(monkeypatch, tmp_path)


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    """A repository in which three commits append a line each, with other commits between."""
    return Repo.of_three(tmp_path / "repo")


def test_a_linear_history_has_no_fault(repo: Repo) -> None:
    """Every version is found with the commit that brought it, and nothing speaks against it."""
    found = history(repo)
    assert found.head == repo.head
    assert len(found.commits) == 5
    assert {v.data for v in found.versions.values()} == {
        lines("one"),
        lines("one", "two"),
        lines("one", "two", "three"),
    }
    two = repo.git("rev-parse", f"HEAD~2:{LEDGER}")
    assert [c.id for c in found.holders(two, first=True)] == [repo.git("rev-parse", "HEAD~2")]
    assert len(found.holders(two)) == 2
    assert found.knowers(repo.head) == (Knower("refs/heads/main"),)
    assert [c.time for c in found.commits.values()] == [
        int(t) for t in repo.git("log", "--reverse", "--format=%ct").split()
    ]
    assert faults(repo) == ()
    repo.write(LEDGER, lines("one", "two", "three", "not yet committed"))
    assert faults(repo) == ()
    assert not found.shallow


def test_the_stash_is_no_witness(repo: Repo) -> None:
    """A stashed ledger, staged or not, was never claimed to be the ledger."""
    repo.write(LEDGER, lines("one", "2"))
    repo.git("add", LEDGER)
    repo.write(LEDGER, lines("one", "zwei"))
    repo.git("stash", "--quiet")
    repo.git("stash", "apply", "--quiet")
    repo.git("stash", "--quiet")
    assert len(history(repo).commits) == 5
    assert faults(repo) == ()


def test_a_bundle_file_is_a_clone_too(
    repo: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file of `git bundle`, given relative to the current folder, is read like a clone."""
    repo.git("bundle", "create", str(tmp_path / "kept.bundle"), "main")
    repo.write(LEDGER, lines("one"))
    repo.commit("cut", {LEDGER: lines("one")}, options=["--amend"])
    monkeypatch.chdir(tmp_path)
    found = [fault for fault in faults(repo, "kept.bundle") if fault.kind == "current_cut"]
    assert Knower("refs/heads/main", "kept.bundle") in found[0].known_by


def test_without_a_repository_here_clones_still_speak(repo: Repo, tmp_path: Path) -> None:
    """Where `.git` was taken away, a clone is read under the ledger's path in the workspace."""
    clone = repo.clone(tmp_path / "clone")
    (repo.top / ".git").rename(tmp_path / "away")
    nothing = history_of(repo.top, repo.top / LEDGER)
    assert isinstance(nothing, NoHistory)
    assert nothing.reason == "not_a_repository"
    repo.write(LEDGER, lines("one"))
    found = history(repo, clone.top)
    assert [s.problem is None for s in found.sources] == [False, True]
    assert kinds(examine(found, lines("one"))) == ["current_cut"]


def test_a_clone_that_cannot_be_read_is_told(repo: Repo, tmp_path: Path) -> None:
    """A path or URL where nothing is does not hide what else was read."""
    found = history(repo, tmp_path, (tmp_path / "none").as_uri())
    problems = [source.problem.reason for source in found.sources if source.problem]
    assert problems == ["not_a_repository", "failed"]
    assert len(found.versions) == 3


def test_a_damaged_clone_leaves_nothing_behind(repo: Repo, tmp_path: Path) -> None:
    """A clone in which git stops half-way is told as unread; what it had given is left out."""
    clone = Repo(tmp_path / "clone")
    repo.clone(clone.top)
    clone.ledger("one", "two", "three", "sound")
    clone.ledger("one", "two", "three", "sound", "damaged")
    blob = clone.git("rev-parse", f"HEAD:{LEDGER}")
    target = clone.top / ".git" / "objects" / blob[:2] / blob[2:]
    target.chmod(0o644)
    target.write_bytes(target.read_bytes()[:-4] + b"sums")  # the compressed data's own check
    found = history(repo, clone.top)
    [problem] = [source.problem for source in found.sources if source.problem]
    assert "git stopped" in problem.detail
    assert len(found.versions) == 3
    assert faults(repo, clone.top) == ()


def test_a_shallow_history_says_so(repo: Repo, tmp_path: Path) -> None:
    """A shallow clone lacks older versions and says it; a full one beside it fills them in."""
    shallow = repo.clone(tmp_path / "shallow", "--depth=2")
    found = history(shallow)
    assert found.shallow
    assert len(found.commits) == 2
    assert faults(shallow) == ()
    both = history(shallow, repo.top)
    assert both.shallow
    assert both.of_head == frozenset(repo.git("rev-list", "HEAD").split())


def test_replaced_and_grafted_commits_are_seen_as_they_are(repo: Repo) -> None:
    """A replace ref or a graft that shows another history is not believed."""
    changed = repo.ledger("one", "2")
    tree = repo.git("rev-parse", "HEAD~1^{tree}")
    nicer = repo.git("commit-tree", tree, "-p", "HEAD~1", "-m", "nicer")
    repo.git("replace", changed, nicer)
    repo.write(".git/info/grafts", f"{changed}\n".encode())
    found = faults(repo)
    assert kinds(found) == ["not_a_prefix", "current_differs"]
    assert found[0].commit == changed


def test_a_forged_object_is_found(repo: Repo) -> None:
    """Other bytes under a version's id, or none, are a fault: git itself reads them silently."""
    blob = repo.git("rev-parse", f"HEAD~2:{LEDGER}")
    other = repo.git("hash-object", "-w", "--stdin", stdin=lines("one", "2"))
    objects = repo.top / ".git" / "objects"
    target = objects / blob[:2] / blob[2:]
    forged = (objects / other[:2] / other[2:]).read_bytes()
    target.chmod(0o644)
    target.write_bytes(forged)
    [fault] = faults(repo)
    assert (fault.kind, fault.severity) == ("unreadable", "fault")
    assert repo.git("rev-parse", "HEAD~2")[:12] in fault.sentence
    target.unlink()
    assert kinds(faults(repo)) == ["unreadable"]


@pytest.mark.parametrize("name", ["HEAD~2", "HEAD~2^{tree}", "HEAD~2:registrations"])
def test_a_forged_commit_or_folder_is_found(repo: Repo, name: str) -> None:
    """A commit or folder whose bytes are another's leaves no history to believe."""
    ident = repo.git("rev-parse", name)
    other = repo.git("rev-parse", name.replace("2", "3"))
    objects = repo.top / ".git" / "objects"
    target = objects / ident[:2] / ident[2:]
    target.chmod(0o644)
    target.write_bytes((objects / other[:2] / other[2:]).read_bytes())
    found = history_of(repo.top, repo.top / LEDGER)
    assert isinstance(found, NoHistory)
    assert "missing from the repository or damaged; run `git fsck`" in found.detail


def test_an_empty_repository_and_one_without_a_ledger(tmp_path: Path) -> None:
    """No commits, or none with a ledger, are a history that says nothing."""
    repo = Repo.new(tmp_path / "repo")
    repo.write(LEDGER, lines("one"))
    found = history(repo)
    assert (found.head, dict(found.commits), dict(found.versions)) == (None, {}, {})
    assert faults(repo) == ()
    repo.commit("start", {"code.py": b"1\n"})
    assert len(history(repo).commits) == 1
    assert faults(repo) == ()
    assert first_commit_with(history(repo), sha256_bytes(b"one")) is None


def test_what_git_cannot_be_asked(
    repo: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A bare repository, a foreign one, a missing or damaged one are answers with a reason."""

    def reason(top: Path) -> str:
        found = history_of(top, top / LEDGER)
        assert isinstance(found, NoHistory)
        return found.reason

    assert reason(Repo.new(tmp_path / "bare.git", "--bare").top) == "bare"
    assert reason(repo.top / ".git") == "not_a_repository"
    commit = repo.git("rev-parse", "HEAD~1")
    damaged = repo.top / ".git" / "objects" / commit[:2] / commit[2:]
    damaged.rename(tmp_path / "kept")
    assert reason(repo.top) == "failed"
    monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")
    assert reason(repo.top) == "not_trusted"
    monkeypatch.setenv("PATH", str(tmp_path))
    assert reason(repo.top) == "no_git"


def test_a_ledger_in_a_subfolder_with_an_odd_name(tmp_path: Path) -> None:
    """The path is that of the repository, also through a link and in a linked work tree."""
    repo = Repo.new(tmp_path / "repo")
    name = f"wörk *space/{LEDGER}"
    repo.commit("a", {name: lines("one")})
    repo.commit("b", {name: lines("uno")})
    (tmp_path / "link").symlink_to(repo.top / "wörk *space")
    repo.git("worktree", "add", "--quiet", "--detach", str(tmp_path / "linked"), "HEAD~1")
    for root in (repo.top / "wörk *space", tmp_path / "link", tmp_path / "linked" / "wörk *space"):
        found = history_of(root, root / LEDGER)
        assert isinstance(found, LedgerHistory)
        assert found.path == name
        assert kinds(examine(found, lines("uno"))) == ["not_a_prefix", "current_differs"]


def test_a_repository_with_the_longer_hash(tmp_path: Path) -> None:
    """A repository of SHA-256 objects is read like any other."""
    repo = Repo.new(tmp_path / "repo", "--object-format=sha256")
    repo.ledger("one")
    repo.ledger("uno")
    assert kinds(faults(repo)) == ["not_a_prefix", "current_differs"]


def test_refs_to_anything_but_commits_are_passed_over(repo: Repo) -> None:
    """Tags on a blob or a tree, tags on tags and dangling references do no harm."""
    repo.git("tag", "blob", f"HEAD:{LEDGER}")
    repo.git("tag", "tree", "HEAD^{tree}")
    repo.git("tag", "-a", "-m", "x", "once", "HEAD~1")
    repo.git("tag", "-a", "-m", "x", "twice", "once")
    repo.git("symbolic-ref", "refs/heads/dangling", "refs/heads/none")
    before = repo.git("rev-parse", "HEAD~1")
    refs = ("refs/heads/main", "refs/tags/once", "refs/tags/twice")
    assert history(repo).knowers(before) == tuple(Knower(ref) for ref in refs)


def test_a_long_history_takes_a_fixed_number_of_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ten commits and a thousand are read with the same number of git commands."""

    def commands(count: int) -> int:
        versions = [b"line\n" * n for n in range(1, count + 1)]
        repo = Repo.imported(tmp_path / f"of-{count}", versions)
        log = tmp_path / f"trace-{count}"
        with monkeypatch.context() as traced:
            traced.setenv("GIT_TRACE2_EVENT", str(log))
            assert len(history(repo).versions) == count
        return log.read_text().count('"event":"start"')

    assert commands(10) == commands(1000) > 0
