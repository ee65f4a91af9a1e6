"""`prereg new` at a real terminal asks for what is missing, and only for that; Ctrl-C ends it."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
import time
from pathlib import Path

import pytest

from prereg_judge.registration.load import load_registration
from support import FLAGS, GGUF, make_workspace, prereg

# Makes standard input the terminal that Ctrl-C comes from, then runs the command.
_OWN_TERMINAL = (
    "import fcntl, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); "
    "from prereg_judge.cli.{} import main; main()"
)


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


def test_a_typo_is_asked_again_and_costs_no_other_answer(tmp_path: Path) -> None:
    """An answer that cannot be read or would be refused is asked for again, with the reason."""
    root = make_workspace(tmp_path / "w")
    given = ["--gguf", GGUF, "--n-ctx", "1024", "--gpu-layers", "0", "--max-tokens", "16",
             "--judge", "judge/yes-no.yaml", "--sentinel", "sentinels/small.jsonl",
             "--title", "Twice alike?", "--seen", "nothing"]  # fmt: skip
    answers = [
        *("two", "-3", "2"),
        *("foo", "shared"),
        *("nonsense", str(FLAGS["--decoding"])),
        *("soon", "60s,retries=1"),
        *("maybe", "disagree"),
        *("sentinel.agreement.count", "sentinel.agreement.count=1..3"),
    ]
    code, shown = _at_a_terminal(root, ["new", "asked", *given], answers)
    assert code == 0, shown
    told = " ".join(shown.split())
    for words in ("valid integer", "--passes: must be at least 1", "'shared' or 'whole'",
                  "sampled, seeded or greedy", "120s", "'exclude' or 'undefined'",
                  "expected `=` or `in`"):  # fmt: skip
        assert words in told, f"{words!r} is not in: {told}"
    assert prereg("check", "asked", root=root).code == 0


def test_a_bad_flag_is_refused_before_anything_is_asked(tmp_path: Path) -> None:
    """What was given on the command line is checked first, so that no answer is lost to it."""
    root = make_workspace(tmp_path / "w")
    code, shown = _at_a_terminal(root, ["new", "asked", "--missing", "maybe"], [])
    assert code == 2
    assert "--missing: must be" in " ".join(shown.split())
    assert "Sentinel item file" not in shown


def _press(key: bytes, terminal: int, process: subprocess.Popen[bytes]) -> int | None:
    """Press a key until the command ends: one pressed just before it waits may be lost."""
    for _ in range(6):
        time.sleep(0.3)
        os.write(terminal, key)
        try:
            return process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            continue
    process.kill()
    return None


@pytest.mark.parametrize("module", ["entry", "main"])
@pytest.mark.parametrize("key", [b"\x03", b"\x04"], ids=["Ctrl-C", "Ctrl-D"])
def test_a_prompt_can_be_left(key: bytes, module: str, tmp_path: Path) -> None:
    """Ctrl-C and Ctrl-D at a prompt end with 130 and one line, and nothing is written."""
    root = make_workspace(tmp_path / "w")
    ours, theirs = pty.openpty()
    code = _OWN_TERMINAL.format(module)
    command = [sys.executable, "-c", code, "--root", str(root), "new", "left"]
    with subprocess.Popen(
        command, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True
    ) as process:
        os.close(theirs)
        shown = b""
        while b"Sentinel item file (empty for none): " not in shown:
            shown += os.read(ours, 4096)  # an error where the command ends before it asks
        before = len(shown)
        assert _press(key, ours, process) == 130
        while True:
            try:
                shown += os.read(ours, 4096)
            except OSError:
                break
    os.close(ours)
    lines = shown[before:].decode().replace("^C", "").split("\r\n")
    assert [line for line in lines if line] == ["Interrupted; nothing was written."]
    assert not (root / "registrations/left.yaml").exists()
