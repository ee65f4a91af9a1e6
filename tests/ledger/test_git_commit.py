"""Committing on lock: exactly the files, exactly their bytes, and nothing else of the user's."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from ledger.git_repos import LEDGER, LOCK, Repo, commit, isolate, lines, refused
from prereg_judge.ledger.git_commit import Committed, commit_files
from prereg_judge.ledger.git_index import NotCommitted


@pytest.fixture(autouse=True)
def _isolated(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    isolate(monkeypatch, tmp_path)


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    """A repository with one commit of other files, and a ledger and a lock not yet in it."""
    return Repo.to_lock(tmp_path / "repo")


def test_the_commit_has_exactly_these_files_and_says_so(repo: Repo) -> None:
    """One commit on HEAD with the files as they are on disk, its branch and paths told."""
    old = repo.head
    answer = commit(repo, message="Lock a\n\nWith ünïcode.")
    assert answer == Committed(repo.head, "main", (LEDGER, LOCK))
    assert repo.git("rev-parse", "HEAD^") == old
    assert repo.git("diff", "--name-only", old, "HEAD").split() == [LOCK, LEDGER]
    assert repo.content(LEDGER) == lines("one")
    assert repo.git("log", "-1", "--format=%B") == "Lock a\n\nWith ünïcode."
    assert repo.git("log", "-1", "--format=%gs", "-g") == "commit: Lock a"
    assert repo.status() == []
    assert repo.git("diff-files") == repo.git("fsck", "--no-dangling") == ""


def test_what_is_staged_and_changed_elsewhere_stays_so(repo: Repo) -> None:
    """Staged, unstaged, deleted and untracked work is neither committed nor unstaged."""
    repo.commit("more", {"gone.txt": b"1\n", "both.txt": b"1\n"})
    repo.write("code.py", b"staged\n")
    repo.write("both.txt", b"staged\n")
    repo.write("new.txt", b"staged\n")
    repo.git("add", "code.py", "both.txt", "new.txt")
    repo.write("both.txt", b"on disk\n")
    repo.write("notes.txt", b"on disk\n")
    repo.write("untracked.txt", b"x\n")
    repo.git("rm", "--quiet", "--cached", "gone.txt")
    before, staged = repo.status(), repo.git("diff", "--cached")
    assert isinstance(commit(repo), Committed)
    ours = {f"?? {LEDGER}", f"?? {LOCK}"}
    assert repo.status() == [line for line in before if line not in ours]
    assert repo.git("diff", "--cached") == staged
    assert repo.content("code.py") == b"1\n"


def test_another_staged_version_of_the_file_stays_staged(repo: Repo) -> None:
    """Where the user staged an older ledger, the commit has the one on disk, the index theirs."""
    repo.git("add", LEDGER, LOCK)
    repo.write(LEDGER, lines("one", "two"))
    assert isinstance(commit(repo), Committed)
    assert repo.content(LEDGER) == lines("one", "two")
    assert repo.git("cat-file", "blob", f":{LEDGER}") == "one"
    assert repo.status() == [f"MM {LEDGER}"]


def test_a_file_staged_as_deleted_stays_so(repo: Repo) -> None:
    """The user's staged deletion is theirs to undo, although the commit has the file."""
    commit(repo)
    repo.git("rm", "--quiet", "--cached", LEDGER)
    repo.write(LEDGER, lines("one", "two"))
    assert isinstance(commit(repo, LEDGER), Committed)
    assert repo.status() == [f"?? {LEDGER}", f"D  {LEDGER}"]


def test_a_file_of_which_only_the_intent_to_add_is_staged_is_clean_afterwards(repo: Repo) -> None:
    """`git add -N` stages no content, so there is nothing of the user's to keep."""
    repo.git("add", "-N", LEDGER)
    assert isinstance(commit(repo), Committed)
    assert repo.status() == []


def test_the_first_commit_of_a_repository(tmp_path: Path) -> None:
    """HEAD without a commit gets a root commit; what was staged for it is still only staged."""
    repo = Repo.new(tmp_path / "repo")
    repo.write(LEDGER, lines("one"))
    repo.write("code.py", b"1\n")
    repo.git("add", "code.py")
    answer = commit(repo, LEDGER)
    assert answer == Committed(repo.head, "main", (LEDGER,))
    assert repo.git("rev-list", "--count", "HEAD") == "1"
    assert repo.git("ls-tree", "-r", "--name-only", "HEAD") == LEDGER
    assert repo.status() == ["A  code.py"]


def test_a_detached_head_moves_and_no_branch_does(repo: Repo) -> None:
    """On a detached HEAD the commit is made there and no branch is named."""
    repo.git("checkout", "--quiet", "--detach")
    main = repo.git("rev-parse", "main")
    answer = commit(repo)
    assert answer == Committed(repo.head, None, (LEDGER, LOCK))
    assert repo.git("rev-parse", "main") == main != repo.head


def test_a_workspace_in_a_subfolder_with_odd_names(tmp_path: Path) -> None:
    """Spaces, stars, letters beyond ASCII and a link to the folder: the right paths are kept."""
    repo = Repo.new(tmp_path / "re po")
    names = ["wörk space/registrations/[a]*.yaml", "wörk space/registrations/b c.yaml"]
    files = [repo.write(name, name.encode()) for name in names]
    repo.write("wörk space/registrations/[a]x.yaml", b"another, which the pattern would match")
    (tmp_path / "link").symlink_to(repo.top / "wörk space")
    linked = tmp_path / "link" / "registrations" / "b c.yaml"
    answer = commit_files(tmp_path / "link", [files[0], linked], message="x")
    assert isinstance(answer, Committed)
    assert list(answer.files) == names
    listed = repo.git("ls-tree", "-r", "-z", "--name-only", "HEAD")
    assert sorted(listed.rstrip("\0").split("\0")) == sorted(names)
    assert repo.status() == ["?? wörk space/registrations/[a]x.yaml"]


def test_a_linked_work_tree_commits_on_its_own_branch(repo: Repo, tmp_path: Path) -> None:
    """In a linked work tree its own HEAD and index are used; the main ones do not move."""
    repo.git("worktree", "add", "--quiet", "-b", "side", str(tmp_path / "linked"))
    side, before = Repo(tmp_path / "linked"), (repo.head, repo.status())
    side.write(LEDGER, lines("side"))
    assert commit(side, LEDGER) == Committed(side.head, "side", (LEDGER,))
    assert side.status() == []
    assert (repo.head, repo.status()) == before


def test_a_submodule_commits_in_itself(repo: Repo, tmp_path: Path) -> None:
    """A workspace in a submodule is committed there; from outside, its files are refused."""
    inner = Repo.new(tmp_path / "inner")
    inner.commit("start", {"x": b"1"})
    allow = ("-c", "protocol.file.allow=always")
    repo.git(*allow, "submodule", "--quiet", "add", inner.top.as_uri(), "sub")
    sub = Repo(repo.top / "sub")
    sub.write(LEDGER, lines("sub"))
    assert "belongs to another repository" in refused(repo, "outside", f"sub/{LEDGER}")
    head = repo.head
    assert commit(sub, LEDGER) == Committed(
        sub.head, sub.git("branch", "--show-current"), (LEDGER,)
    )
    assert (repo.head, sub.status()) == (head, [])


def test_an_executable_stays_executable(repo: Repo) -> None:
    """The executable bit of the disk is committed, and that of HEAD where disks have none."""
    (repo.top / LOCK).chmod(0o755)
    assert isinstance(commit(repo), Committed)
    assert repo.git("ls-tree", "HEAD", LOCK).startswith("100755")
    repo.git("config", "core.fileMode", "false")
    repo.write(LOCK, b"[]\n").chmod(0o644)
    assert isinstance(commit(repo), Committed)
    assert repo.git("ls-tree", "HEAD", LOCK).startswith("100755")
    assert repo.status() == []


def test_line_ends_are_committed_as_they_are(repo: Repo) -> None:
    """With `core.autocrlf` a file with CRLF keeps it in the commit, and is clean."""
    repo.git("config", "core.autocrlf", "true")
    repo.write(LOCK, b"{}\r\n")
    assert isinstance(commit(repo), Committed)
    assert repo.content(LOCK) == b"{}\r\n"
    assert repo.status() == []


def test_a_filter_does_not_touch_the_bytes(repo: Repo) -> None:
    """A clean filter from `.gitattributes` would commit other bytes: it is not asked."""
    repo.commit("filter", {".gitattributes": b"*.json filter=upper\n"})
    repo.git("config", "filter.upper.clean", "tr a-z A-Z")
    repo.write(LOCK, b'{"a": 1}\n')
    assert isinstance(commit(repo), Committed)
    assert repo.content(LOCK) == b'{"a": 1}\n'
    assert repo.git("cat-file", "blob", f":{LOCK}") == '{"a": 1}'


def _signs_with_ssh(repo: Repo, key: Path) -> None:
    command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)]
    subprocess.run(command, check=True)
    repo.git("config", "gpg.format", "ssh")
    repo.git("config", "user.signingKey", str(key))
    repo.git("config", "commit.gpgSign", "true")


@pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="no ssh-keygen to sign with")
def test_commits_are_signed_where_the_user_wants_it(repo: Repo, tmp_path: Path) -> None:
    """`commit.gpgSign` is obeyed; where signing fails there is no commit, with git's words."""
    _signs_with_ssh(repo, tmp_path / "key")
    assert isinstance(commit(repo, LEDGER), Committed)
    assert "-----BEGIN SSH SIGNATURE-----" in repo.git("cat-file", "commit", "HEAD")
    (tmp_path / "key").unlink()
    assert "key" in refused(repo, "not_signed")


def test_no_hook_runs(repo: Repo) -> None:
    """Not one hook runs: neither those of a commit nor those of a moved reference."""
    names = (
        "pre-commit",
        "commit-msg",
        "post-commit",
        "reference-transaction",
        "post-index-change",
    )
    for name in names:
        repo.write(f".git/hooks/{name}", b"#!/bin/sh\ntouch ran\nexit 1\n").chmod(0o755)
    assert isinstance(commit(repo), Committed)
    assert not list(repo.top.rglob("ran"))
    assert repo.status() == []


def _moves_head(repo: Repo, tmp_path: Path, *, times: int) -> None:
    """Let signing a commit move HEAD, as another process could, that many times."""
    script = f"""#!/bin/sh
cd '{repo.top}'
echo >> '{tmp_path}/moves'
if [ $(wc -l < '{tmp_path}/moves') -le {times} ]; then
    new=$(echo other | git commit-tree HEAD^{{tree}} -p HEAD)
    git update-ref HEAD "$new"
fi
echo '[GNUPG:] SIG_CREATED ' >&2
echo '-----BEGIN PGP SIGNATURE-----'
"""
    signer = tmp_path / "signer"
    signer.write_text(script)
    signer.chmod(0o755)
    repo.git("config", "gpg.program", str(signer))
    repo.git("config", "commit.gpgSign", "true")


def test_a_head_that_moves_once_is_followed(repo: Repo, tmp_path: Path) -> None:
    """Where HEAD moved meanwhile the commit is made again, on top of what came in between."""
    _moves_head(repo, tmp_path, times=1)
    assert isinstance(commit(repo), Committed)
    assert repo.git("log", "--format=%s").splitlines() == ["Lock a", "other", "start"]
    assert repo.status() == []


def test_a_head_that_keeps_moving_is_left_alone(repo: Repo, tmp_path: Path) -> None:
    """After a second move nothing is committed, and the index is as it was."""
    _moves_head(repo, tmp_path, times=9)
    before = repo.status()
    answer = commit(repo)
    assert isinstance(answer, NotCommitted)
    assert answer.reason == "moved"
    assert repo.git("log", "--format=%s").splitlines() == ["other", "other", "start"]
    assert repo.status() == before
    assert not (repo.top / ".git" / "index.lock").exists()


def test_marks_on_a_file_are_kept(repo: Repo) -> None:
    """`skip-worktree` and `assume-unchanged` stay set on a file whose new bytes are committed."""
    commit(repo)
    repo.git("update-index", "--skip-worktree", LEDGER)
    repo.git("update-index", "--assume-unchanged", LOCK)
    repo.write(LEDGER, lines("one", "two"))
    repo.write(LOCK, b"[]\n")
    assert isinstance(commit(repo), Committed)
    assert repo.content(LEDGER) == lines("one", "two")
    assert repo.git("ls-files", "-v", LEDGER, LOCK).splitlines() == [f"h {LOCK}", f"S {LEDGER}"]
    assert repo.git("diff", "--cached") == ""


@pytest.mark.parametrize("sparse_index", ["--sparse-index", "--no-sparse-index"])
def test_a_sparse_checkout_stays_sparse_and_whole(
    repo: Repo, tmp_path: Path, sparse_index: str
) -> None:
    """Files that are left out of the work tree are in the commit still, and not on the disk."""
    repo.commit("more", {"big/a.bin": b"1", "big/deep/b.bin": b"2"})
    repo.git("sparse-checkout", "set", "--cone", sparse_index, "registrations")
    assert isinstance(commit(repo), Committed)
    names = {"big/a.bin", "big/deep/b.bin", "code.py", "notes.txt", LEDGER, LOCK}
    assert set(repo.git("ls-tree", "-r", "--name-only", "HEAD").split()) == names
    assert repo.status() == []
    assert not (repo.top / "big").exists()


def test_a_split_index_is_understood(repo: Repo) -> None:
    """With `core.splitIndex` the user's staged work is found and kept."""
    repo.git("update-index", "--split-index")
    repo.git("config", "core.splitIndex", "true")
    repo.write("code.py", b"staged\n")
    repo.git("add", "code.py")
    assert isinstance(commit(repo), Committed)
    assert repo.status() == ["M  code.py"]


def test_the_surroundings_do_not_redirect_it(
    repo: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Variables that git sets for a hook, or that would date the commit, have no effect."""
    other = Repo.new(tmp_path / "other")
    with monkeypatch.context() as inside:
        inside.setenv("GIT_DIR", str(other.top / ".git"))
        inside.setenv("GIT_INDEX_FILE", str(other.top / ".git" / "index"))
        inside.setenv("GIT_COMMITTER_DATE", "2001-01-01T00:00:00Z")
        inside.setenv("GIT_AUTHOR_DATE", "2001-01-01T00:00:00Z")
        answer = commit(repo)
    assert isinstance(answer, Committed)
    assert answer.commit == repo.head
    assert "2001" not in repo.git("log", "-1", "--format=%ci %ai")
    assert not (other.top / ".git" / "index").exists()
