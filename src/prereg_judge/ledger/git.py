"""How git is asked: one place that starts the `git` command and finds a repository.

Plumbing only, no shell, the C locale, a deadline on every call. No git, an old git or no
repository are ordinary answers (`Unusable`). Variables that would point git at another
repository or index, or that set a commit's date, are taken out of the environment; hooks never
run; replace refs, grafts and the commit-graph file, which can make history look other than it
is, are not believed. Knows nothing of ledgers.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Literal

MINIMUM = (2, 25)
TIMEOUT_S = 120.0

UnusableReason = Literal[
    "no_git", "too_old", "not_a_repository", "not_trusted", "timeout", "failed"
]

# What `git rev-parse --local-env-vars` lists, but for configuration, and what sets dates.
_NOT_PASSED_ON = frozenset(
    {
        "GIT_ALTERNATE_OBJECT_DIRECTORIES",
        "GIT_AUTHOR_DATE",
        "GIT_COMMITTER_DATE",
        "GIT_COMMON_DIR",
        "GIT_CONFIG",
        "GIT_DIR",
        "GIT_GLOB_PATHSPECS",
        "GIT_ICASE_PATHSPECS",
        "GIT_IMPLICIT_WORK_TREE",
        "GIT_INDEX_FILE",
        "GIT_INTERNAL_SUPER_PREFIX",
        "GIT_LITERAL_PATHSPECS",
        "GIT_NAMESPACE",
        "GIT_NOGLOB_PATHSPECS",
        "GIT_OBJECT_DIRECTORY",
        "GIT_PREFIX",
        "GIT_QUARANTINE_PATH",
        "GIT_REPLACE_REF_BASE",
        "GIT_SHALLOW_FILE",
        "GIT_TRACE",
        "GIT_WORK_TREE",
        "LANGUAGE",
    }
)
_ALWAYS = (
    "--no-replace-objects",
    "--no-pager",
    *("-c", f"core.hooksPath={os.devnull}"),
    *("-c", "core.commitGraph=false"),
    *("-c", "core.fsmonitor=false"),  # which may name a command
    *("-c", "advice.graftFileDeprecated=false"),
)


@dataclass(frozen=True)
class Unusable:
    """Why git cannot be asked about a folder, with git's own words or the remedy in `detail`."""

    reason: UnusableReason
    detail: str


@dataclass(frozen=True)
class Answer:
    """What one call gave: exit code, stdout, stderr as text; `timed_out` if it was killed."""

    code: int
    out: bytes
    err: str
    timed_out: bool = False

    @property
    def ok(self) -> bool:
        """Whether git exited with 0."""
        return self.code == 0

    @property
    def text(self) -> str:
        """Stdout as text (a path in it keeps its bytes), without the newline that git adds."""
        return os.fsdecode(self.out).removesuffix("\n")


@dataclass(frozen=True)
class Git:
    """Asks git about the repository that `folder` lies in."""

    folder: Path

    def run(
        self,
        *args: str,
        stdin: bytes = b"",
        index: Path | None = None,
        writes: bool = False,
        interactive: bool = False,
        fetches: bool = False,
        timeout_s: float = TIMEOUT_S,
    ) -> Answer:
        """Run one git command to its end and return what it gave; never raises for git's sake.

        `index` is used in place of the repository's own index. `writes` lets git take locks
        that reading does not need. Git has no terminal, so that nothing it starts waits for a
        person, unless `interactive`: signing may ask for a passphrase. Only with `fetches` does it
        reach for other repositories: in one of somebody else's making, settings may say that
        objects are to be had by running a command. A command that cannot be
        started or is not done in `timeout_s` seconds gives a code other than 0.
        """
        environment = _environment(index=index, writes=writes, fetches=fetches)
        try:
            process = subprocess.Popen(
                self._command(args),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=environment,
                start_new_session=not interactive,
            )
        except OSError as exc:
            return Answer(127, b"", f"git cannot be started: {exc.strerror}")
        with process:
            try:
                out, err = process.communicate(stdin, timeout=timeout_s)
            except subprocess.TimeoutExpired:
                _kill(process, group=not interactive)
                words = f"git {args[0]} had no answer after {timeout_s:g} s"
                return Answer(124, b"", words, timed_out=True)
            except BaseException:
                _kill(process, group=not interactive)
                raise
        return Answer(process.returncode, out, err.decode("utf-8", "replace").strip())

    @contextmanager
    def reading(
        self, *args: str, stdin: bytes, timeout_s: float = 5 * TIMEOUT_S
    ) -> Iterator[IO[bytes]]:
        """Run one git command and yield its stdout as a stream, for what may not fit in memory.

        The command is killed when the block is left or the time is over; a stream that ends
        early is for the caller to notice.
        """
        with tempfile.TemporaryFile() as asked:
            asked.write(stdin)
            asked.seek(0)
            process = subprocess.Popen(
                self._command(args),
                stdin=asked,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=_environment(index=None, writes=False, fetches=False),
                start_new_session=True,
            )
        deadline = threading.Timer(timeout_s, _kill, [process], {"group": True})
        deadline.daemon = True
        deadline.start()
        try:
            assert process.stdout is not None
            yield process.stdout
        finally:
            deadline.cancel()
            _kill(process, group=True)
            if process.stdout is not None:
                process.stdout.close()
            process.wait()

    def _command(self, args: tuple[str, ...]) -> list[str]:
        return ["git", "-C", str(self.folder), *_ALWAYS, *args]


@dataclass(frozen=True)
class Repository:
    """A repository as found.

    Attributes
    ----------
    git
        Asks it, from the top of its work tree or, where it is bare, from its own folder.
    folder
        Its folder (`.git`); of a linked work tree, the folder that holds that tree's index.
    top
        Top of the work tree, without symbolic links; None for a bare repository.
    """

    git: Git
    folder: Path
    top: Path | None


def open_repository(folder: Path) -> Repository | Unusable:
    """Find the repository that `folder` lies in; a folder inside `.git` has none."""
    old = _version_fault()
    if old is not None:
        return old
    git = Git(folder)
    kind = git.run("rev-parse", "--is-bare-repository", "--is-inside-work-tree")
    if not kind.ok:
        return _unusable(kind)
    bare, inside = kind.text.splitlines()
    where = git.run("rev-parse", "--absolute-git-dir")
    if not where.ok:
        return _unusable(where)
    own = Path(where.text)
    if inside != "true":
        if bare == "true":
            return Repository(Git(own), own, None)
        return Unusable("not_a_repository", f"{folder} is inside a repository's own folder")
    top = git.run("rev-parse", "--show-toplevel")
    if not top.ok:
        return _unusable(top)
    found = Path(top.text).resolve()
    return Repository(Git(found), own, found)


def _version_fault() -> Unusable | None:
    answer = Git(Path.cwd()).run("version")
    if answer.code == 127:
        return Unusable("no_git", f"{answer.err}; install git")
    found = re.search(r"(\d+)\.(\d+)", answer.text)
    if not answer.ok or found is None:
        return Unusable("no_git", f"`git version` does not say a version: {answer.err}")
    if (int(found[1]), int(found[2])) < MINIMUM:
        wanted = ".".join(str(n) for n in MINIMUM)
        return Unusable("too_old", f"{answer.text} is installed; {wanted} or later is needed")
    return None


def _unusable(answer: Answer) -> Unusable:
    if answer.timed_out:
        return Unusable("timeout", answer.err)
    if "dubious ownership" in answer.err or "unsafe repository" in answer.err:
        return Unusable("not_trusted", answer.err)
    if "not a git repository" in answer.err or "cannot change to" in answer.err:
        return Unusable("not_a_repository", answer.err)
    return Unusable("failed", answer.err)


def _environment(*, index: Path | None, writes: bool, fetches: bool) -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if k not in _NOT_PASSED_ON}
    kept |= {"LC_ALL": "C", "GIT_TERMINAL_PROMPT": "0", "GIT_GRAFT_FILE": os.devnull}
    if not fetches:
        kept |= {"GIT_ALLOW_PROTOCOL": "none", "GIT_NO_LAZY_FETCH": "1"}
    if not writes:
        kept["GIT_OPTIONAL_LOCKS"] = "0"
    if index is not None:
        kept["GIT_INDEX_FILE"] = str(index)
    return kept


def _kill(process: subprocess.Popen[bytes], *, group: bool) -> None:
    """Kill git and, where it leads a group, what it started: that would keep the pipes open."""
    with suppress(ProcessLookupError, PermissionError):
        if group:
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
