"""`--json`: whatever goes wrong is told on standard output in one form, beside the message."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import NoReturn

import pytest

from prereg_judge.cli import show as show_module
from prereg_judge.cli.common import os_problem
from prereg_judge.flow import running
from prereg_judge.workspace import Workspace
from support import Done, locked, make_workspace, new, prereg

KEYS = {"what", "file", "line", "where", "found", "remedy"}


def _told(done: Done) -> str:
    """The one problem, having checked the form around it."""
    assert (done.code, done.json["exit_code"]) == (2, 2)
    (problem,) = done.json["problems"]
    assert set(problem) == KEYS
    assert done.err
    return " ".join(str(v) for v in problem.values() if v is not None)


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("score", "--json"), "Missing argument"),
        (("score", "x", "--json", "--frobnicate"), "--frobnicate"),
        (("score", "x", "--json", "--run", "many"), "--run"),
        (("new", "x", "--json", "--n-ctx", "many"), "--n-ctx"),
        (("frobnicate", "--json"), "frobnicate"),
        (("sentinel", "check", "--json"), "Missing argument"),
        (("show", "none", "--json"), "no registration"),
    ],
)
def test_a_wrong_command_line(args: tuple[str, ...], words: str, tmp_path: Path) -> None:
    """What the command line's own reader refuses is JSON as well."""
    assert words in _told(prereg(*args, root=make_workspace(tmp_path / "w")))


def test_what_the_system_refuses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error of the operating system names its file and a remedy."""
    root = make_workspace(tmp_path / "w")
    assert new(root, "x").code == 0

    def refuse(*_: object) -> None:
        file = str(root / "registrations/x.lock.json")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), file)

    monkeypatch.setattr(show_module, "standing", refuse)
    told = _told(prereg("show", "x", "--json", root=root))
    assert f"No space left on device {root}/registrations/x.lock.json make room" in told


@pytest.mark.parametrize(
    ("name", "shown"),
    [(".ledger.lock", "ledger.jsonl"), ("score.json", "score.json"), ("a.csv", "a.csv")],
)
def test_a_helping_file_goes_by_the_name_of_the_file_it_helps(name: str, shown: str) -> None:
    """The file that locks the ledger is not the user's; `chain` sees to the one beside a file."""
    problem = os_problem(PermissionError(errno.EACCES, "Permission denied", f"w/{name}"))
    assert (problem.file, problem.what) == (f"w/{shown}", "Permission denied")
    assert "permissions" in (problem.remedy or "")


def test_new_on_a_full_disk_names_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full disk names no file, so the verb does."""
    root = make_workspace(tmp_path / "w")

    def full(_fd: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    assert f"{root}/registrations/x.yaml" in _told(new(root, "x", "--json"))


def test_giving_up_a_run_is_json(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`run --abandon REASON --json` says which run is given up, and nothing else."""
    root = make_workspace(tmp_path / "w")
    locked(root, "x")

    def interrupted(*_: object) -> NoReturn:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        running.run_registration(Workspace(root), "x", make_backend=interrupted)
    refused = prereg("run", "x", "--abandon", "wrong \x1b[31mmodel", "--json", root=root)
    assert (refused.code, refused.json["problems"][0]["what"]) == (2, "--abandon holds U+001B")
    done = prereg("run", "x", "--abandon", "wrong model", "--json", root=root)
    assert done.code == 0
    assert done.json == {"id": "x", "run": 1, "status": "aborted",
                         "reason": "wrong model", "folder": "runs/x/1"}  # fmt: skip
    assert prereg("show", "x", "--json", root=root).json["runs"][0]["state"] == "aborted"
