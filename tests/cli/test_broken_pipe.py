"""A reader that goes away does not turn a verdict into another."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from support import locked, make_workspace, run_scripted, verdict_reply


def test_a_closed_pipe_is_no_verdict(tmp_path: Path) -> None:
    """`prereg score x | head -0` gives neither PASS nor FAIL to who asks for the exit code."""
    root = make_workspace(tmp_path / "w", n=40)
    locked(root, "x", band="sentinel.agreement.count=1..39")
    run_scripted(root, "x", lambda key, _: verdict_reply("YES" if key.endswith("2") else "NO"))
    command = [sys.executable, "-m", "prereg_judge.cli.main", "--root", str(root), "score", "x"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdout is not None
        process.stdout.close()
        assert process.wait(timeout=60) == 141
