"""What the cheats share: real workspaces, the tools of a cheater, and what `verify` tells.

A workspace is made once a session, by the real command, and copied for every test.
"""

from __future__ import annotations

import itertools
import json
import os
import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from ledger.git_repos import Repo
from prereg_judge import clock
from prereg_judge.canon import canonical_json, sha256_bytes
from prereg_judge.flow.running import run_registration
from prereg_judge.workspace import Workspace
from support import (
    Scripted,
    ScriptedBackend,
    locked,
    make_workspace,
    prereg,
    rechained,
    run_scripted,
    verdict_reply,
    with_tip,
)

LEDGER = "registrations/ledger.jsonl"
TIP = "registrations/ledger.tip"
REG = "registrations/x.yaml"
LOCK = "registrations/x.lock.json"
RUN = "runs/x/1"
ATTEMPTS = f"{RUN}/attempts.jsonl"
DATA = "sentinels/small.jsonl"
BAND = "[1, 3]"  # of the 4 rows whose passes may agree, as it is registered
WIDER = "[0, 3]"
CLOCK_ONLY = "the time is this machine's clock only"
ELSEWHERE = "that nothing was run elsewhere before the lock, and that these runs are all there were"
INVENTED = "that the recorded replies came from this model on this machine"

Lines = list[dict[str, Any]]
Change = Callable[[Lines], Lines]
Script = Callable[[str, int], Scripted]


def passes(key: str, _before: int) -> str:
    """Three of four rows agree: the band holds."""
    return verdict_reply("YES" if key == "sentinel/r00/ab/1" else "NO")


def fails(key: str, _before: int) -> str:
    """No row agrees: the band is missed."""
    return verdict_reply("YES" if key.endswith("/1") else "NO")


# --- Workspaces -----------------------------------------------------------------------------------


def locked_only(tmp_path: Path) -> Path:
    """A workspace whose registration `x` is locked and not run yet."""
    return _copy(tmp_path, "locked", _lock)


def failed(tmp_path: Path) -> Path:
    """A workspace whose registration `x` has one run, scored: FAIL."""
    return _copy(tmp_path, "failed", _fail)


def passed(tmp_path: Path) -> Path:
    """A workspace whose registration `x` has one run, scored: PASS."""
    return _copy(tmp_path, "passed", _pass)


def in_git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Repo:
    """As `failed`, in a git repository: the lock is committed, and then the failed run."""
    quiet_git(monkeypatch)
    return Repo(_copy(tmp_path, "git", _fail_in_git))


def quiet_git(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep this machine's git settings away, and give a fixed identity."""
    for name in [name for name in os.environ if name.startswith("GIT_")]:
        monkeypatch.delenv(name)
    for name in ("GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM"):
        monkeypatch.setenv(name, os.devnull)
    for role in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{role}_NAME", "A. Person")
        monkeypatch.setenv(f"GIT_{role}_EMAIL", "person@example.org")


def _copy(tmp_path: Path, name: str, make: Callable[[Path], None]) -> Path:
    template = tmp_path.parent / "cheats-templates" / name
    if not template.exists():
        half = template.with_name(f"{name}.half")
        shutil.rmtree(half, ignore_errors=True)
        make(half)
        half.rename(template)
    return Path(shutil.copytree(template, tmp_path / "w"))


def _lock(root: Path) -> None:
    make_workspace(root)
    locked(root, "x")


def _fail(root: Path) -> None:
    _lock(root)
    scored_run(root, fails, code=1)


def _pass(root: Path) -> None:
    _lock(root)
    scored_run(root, passes, code=0)


def _fail_in_git(root: Path) -> None:
    Repo.new(root)
    _fail(root)
    save(Repo(root), "run 1")


def save(repo: Repo, message: str) -> str:
    """`git add --all && git commit`."""
    repo.git("add", "--all")
    repo.git("commit", "--quiet", "--allow-empty", "-m", message)
    return repo.head


def scored_run(root: Path, script: Script, *, code: int, ident: str = "x") -> None:
    """Run and score."""
    run_scripted(root, ident, script)
    done = prereg("score", ident, root=root)
    assert done.code == code, done


def run_again(root: Path, script: Script) -> None:
    """A further, counted run of `x`."""
    backend = ScriptedBackend(script)
    run_registration(Workspace(root), "x", again=True, make_backend=lambda *_: backend)


def set_clock(monkeypatch: pytest.MonkeyPatch, start: str) -> None:
    """Set this machine's clock; each look at it takes a second."""
    seconds = itertools.count()
    begin = datetime.fromisoformat(start).replace(tzinfo=UTC)

    def now() -> str:
        at = begin + timedelta(seconds=next(seconds))
        return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")

    monkeypatch.setattr(clock, "now", now)


# --- What a cheater does --------------------------------------------------------------------------


def edit(path: Path, old: str, new: str) -> None:
    """Change some text in an editor; it must be there."""
    text = path.read_text(encoding="utf-8")
    assert old in text, (path, old)
    path.write_text(text.replace(old, new, 1), encoding="utf-8")


def rewrite(root: Path, change: Change) -> None:
    """Change the ledger's events, and make every hash and the tip right again."""
    ledger = root / LEDGER
    ledger.write_bytes(rechained(ledger.read_bytes(), change))
    with_tip(root)


def rewrite_attempts(root: Path, change: Change) -> None:
    """Change run 1's record, and make every hash right that depends on it."""
    path = root / ATTEMPTS
    path.write_bytes(rechained(path.read_bytes(), change))
    vouch(root)


def vouch(root: Path) -> None:
    """Make run 1's manifest fit its files as they are, the ledger the manifest, the tip all."""
    path = root / RUN / "manifest.json"
    manifest = json.loads(path.read_bytes())
    for name in manifest["files"]:
        manifest["files"][name] = sha256_bytes((path.parent / name).read_bytes())
    last = (root / ATTEMPTS).read_bytes().splitlines()[-1]
    manifest["attempts_head"] = sha256_bytes(last)
    path.write_bytes(canonical_json(manifest) + b"\n")
    sha256 = sha256_bytes(path.read_bytes())
    ends = "run_finished"
    rewrite(root, lambda e: [{**x, "manifest": sha256} if x["event"] == ends else x for x in e])


def drop(root: Path, *names: str) -> None:
    """Take events out of the ledger, hashes and tip made right again."""
    rewrite(root, lambda events: [e for e in events if e["event"] not in names])


def events(root: Path) -> list[str]:
    """The names of the ledger's events, in order."""
    return [json.loads(line)["event"] for line in (root / LEDGER).read_bytes().splitlines()]


# --- What the user is told ------------------------------------------------------------------------


@dataclass(frozen=True)
class Told:
    """What `prereg verify` says, in its three parts, a sentence each."""

    code: int
    proved: tuple[str, ...]
    not_proved: tuple[str, ...]
    violated: tuple[str, ...]

    def caught(self, *fragments: str) -> None:
        """It ended with 5, and one violation says all this."""
        assert self.code == 5, self
        assert _any(self.violated, fragments), (fragments, self.violated)

    def open(self, *fragments: str) -> None:
        """One sentence under NOT PROVED says all this."""
        assert _any(self.not_proved, fragments), (fragments, self.not_proved)

    def shown(self, *fragments: str) -> None:
        """One sentence under PROVED says all this."""
        assert _any(self.proved, fragments), (fragments, self.proved)

    def clean(self) -> None:
        """Nothing is violated, and it ended with 0."""
        assert (self.code, self.violated) == (0, ()), self


def verify(root: Path, *args: str) -> Told:
    """Run `prereg verify`, of `x` unless something else is named, and read what it prints."""
    named = args if (args and not args[0].startswith("--")) or "--all" in args else ("x", *args)
    done = prereg("verify", *named, root=root)
    parts = re.split(r"^(?:PROVED|NOT PROVED|VIOLATED) \(\d+\)$", done.out, flags=re.MULTILINE)
    assert len(parts) == 4, done
    proved, not_proved, violated = (tuple(_sentences(part)) for part in parts[1:])
    word = "violated" if done.code == 5 else "nothing is violated"
    assert f"Integrity: {word}" in done.out
    return Told(done.code, proved, not_proved, violated)


def _sentences(part: str) -> Iterator[str]:
    for line in part.splitlines():
        if line.startswith("  - "):
            yield line.removeprefix("  - ")


def _any(sentences: tuple[str, ...], fragments: tuple[str, ...]) -> bool:
    return any(all(f in sentence for f in fragments) for sentence in sentences)


def refused(root: Path, *args: str, code: int = 5, says: tuple[str, ...] = ()) -> None:
    """The command ends with this code, prints no result, and says all this."""
    done = prereg(*args, root=root)
    assert done.code == code, done
    for fragment in says:
        assert fragment in done.err, (fragment, done.err)
    assert "PASS" not in done.out


def score_says(root: Path, *fragments: str, code: int, args: tuple[str, ...] = ()) -> None:
    """`prereg score x` ends with this code and prints all this, wherever its lines break."""
    done = prereg("score", "x", *args, root=root)
    assert done.code == code, done
    text = " ".join(done.out.split())
    for fragment in fragments:
        assert fragment in text, (fragment, text)
