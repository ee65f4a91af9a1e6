"""How the console command starts: what ends it early, and what it refuses to read."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from support import make_workspace, prereg


def _pressed_while_loading(module: str, *, first: str = "") -> subprocess.CompletedProcess[str]:
    """Start the command, and press Ctrl-C at the moment when a module is looked for."""
    code = f"""
import os, signal, sys

class Press:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            os.kill(os.getpid(), signal.SIGINT)

{first}
sys.meta_path.insert(0, Press())
sys.argv = ["prereg", "--version"]
from prereg_judge.cli.entry import main
main()
"""
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False
    )


@pytest.mark.parametrize("module", ["polars", "scipy.stats", "typer", "prereg_judge.cli.new"])
def test_an_interruption_while_loading_is_quiet(module: str) -> None:
    """Ctrl-C before the command has begun ends with 130 and prints nothing."""
    done = _pressed_while_loading(module)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


def test_an_ignored_interruption_stays_ignored() -> None:
    """Where the caller had SIGINT ignored (a job in the background), it does nothing."""
    first = "signal.signal(signal.SIGINT, signal.SIG_IGN)"
    done = _pressed_while_loading("prereg_judge.cli.new", first=first)
    assert (done.returncode, done.stderr) == (0, "")
    assert "prereg-judge" in done.stdout


def test_the_command_hears_interrupts_again_after_its_imports(tmp_path: Path) -> None:
    """A handler that a library put in place of Python's is replaced; an ignored one is kept."""
    before = signal.getsignal(signal.SIGINT)
    try:
        for found, left in ((lambda *_: None, signal.default_int_handler),
                            (signal.SIG_IGN, signal.SIG_IGN)):  # fmt: skip
            signal.signal(signal.SIGINT, found)
            prereg("status", root=make_workspace(tmp_path / left.__class__.__name__))
            assert signal.getsignal(signal.SIGINT) is left
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize(
    "args",
    [("show", "\udcff"), ("new", "x", "--title", "half \udcff"), ("\udcff",)],
)
def test_an_argument_that_is_not_utf8_is_refused(args: tuple[str, ...], tmp_path: Path) -> None:
    """Such an argument is named in a form that can be printed, on both outputs."""
    root = make_workspace(tmp_path / "w")
    done = prereg(*args, "--json", root=root)
    assert done.code == 2
    assert "this argument is not UTF-8" in done.err
    assert "\\udcff" in done.json["problems"][0]["found"]


def test_the_bytes_of_an_argument_arrive_so() -> None:
    """A real command line with a stray byte ends with 2 and no traceback."""
    command = [*map(os.fsencode, (sys.executable, "-m", "prereg_judge.cli.entry", "show")),
               b"\xff", b"--json"]  # fmt: skip
    done = subprocess.run(command, capture_output=True, timeout=120, check=False)
    assert done.returncode == 2
    assert b"Traceback" not in done.stderr
    assert json.loads(done.stdout)["exit_code"] == 2
