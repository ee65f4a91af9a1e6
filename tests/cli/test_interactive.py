"""`prereg new` at a real terminal asks for what is missing, and only for that."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

from prereg_judge.registration.load import load_registration
from support import FLAGS, GGUF, make_workspace, prereg


def _at_a_terminal(root: Path, args: list[str], answers: list[str]) -> tuple[int, str]:
    """Run the command on a pseudo-terminal with these lines typed; exit code and what was shown."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "prereg_judge.cli.main", "--root", str(root), *args]
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs) as process:
        os.close(theirs)
        os.write(ours, "".join(f"{a}\n" for a in answers).encode())
        shown = b""
        while True:
            try:
                piece = os.read(ours, 4096)
            except OSError:  # the other side is closed: Linux says so with an error
                break
            if not piece:
                break
            shown += piece
        code = process.wait()
    os.close(ours)
    return code, shown.decode("utf-8", "replace")


def test_a_person_is_asked_for_what_is_missing(tmp_path: Path) -> None:
    """Answers typed at the prompts make a registration that passes every check."""
    root = make_workspace(tmp_path / "w")
    given = ["--gguf", GGUF, "--n-ctx", "1024", "--gpu-layers", "0", "--passes", "2",
             "--prefix", "shared", "--max-tokens", "16", "--missing", "disagree"]  # fmt: skip
    answers = [
        "sentinels/small.jsonl",
        "Does it answer twice alike?",
        "judge/yes-no.yaml",
        str(FLAGS["--decoding"]),
        "60s,retries=1",
        "nothing",
        "sentinel.agreement.count=1..3",
    ]
    code, shown = _at_a_terminal(root, ["new", "asked", *given], answers)
    assert code == 0, shown
    assert "Sentinel item file" in shown
    assert "Context length" not in shown
    model = load_registration(root / "registrations/asked.yaml", shown="asked.yaml").model
    assert (model.title, model.exposure.seen) == ("Does it answer twice alike?", "nothing")
    assert prereg("check", "asked", root=root).code == 0
