"""What tests of amendments share: a registration that failed, and its second version."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from prereg_judge.flow.running import run_registration
from prereg_judge.workspace import Workspace
from support import (
    Done,
    ScriptedBackend,
    locked,
    make_workspace,
    prereg,
    rechained,
    run_scripted,
    verdict_reply,
    with_tip,
)

WHY = "the band was typed wrongly"
LEDGER = "registrations/ledger.jsonl"
V1, V2 = "registrations/x.yaml", "registrations/x.v2.yaml"
LOCK1, LOCK2 = "registrations/x.lock.json", "registrations/x.v2.lock.json"
Lines = list[dict[str, Any]]


def all_agree(_key: str, _before: int) -> str:
    """NO to all: 4 of 4 rows agree. Version 1 is missed high, version 2 is passed."""
    return verdict_reply("NO")


def failed(root: Path) -> Path:
    """A registration `x` with a band of 1 to 3, run and scored: FAIL."""
    make_workspace(root)
    locked(root, "x")
    run_scripted(root, "x", all_agree)
    assert prereg("score", "x", root=root).code == 1
    return root


def amend(root: Path, *more: str, reason: str = WHY) -> Done:
    """`prereg amend x`."""
    return prereg("amend", "x", "--reason", reason, *more, root=root)


def replace(path: Path, old: str, new_: str) -> None:
    """Change a text that must be there."""
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new_), encoding="utf-8")


def amend_to(root: Path, band: str, *, version: int = 2, reason: str = WHY) -> Done:
    """Both steps, with another band in the new version."""
    assert amend(root, reason=reason).code == 0
    path = root / f"registrations/x.v{version}.yaml"
    text = path.read_text(encoding="utf-8")
    before = text[text.index("between: [") + len("between: ") :].split("]")[0] + "]"
    replace(path, before, band)
    done = amend(root, reason=reason)
    assert done.code == 0, done.err
    return done


def again(root: Path) -> int:
    """Another run; its number."""
    backend = ScriptedBackend(all_agree)
    done = run_registration(Workspace(root), "x", again=True, make_backend=lambda *_: backend)
    return done.number


def events(root: Path) -> Lines:
    """The ledger's lines."""
    return [json.loads(line) for line in (root / LEDGER).read_bytes().splitlines()]


def relink(root: Path, change: Callable[[Lines], Lines]) -> None:
    """Change the ledger's lines, make every hash right again, and the tip."""
    before = (root / LEDGER).read_bytes()
    after = rechained(before, change)
    assert after != before
    (root / LEDGER).write_bytes(after)
    with_tip(root)


def invalid(done: Done, *words: str) -> None:
    """Refused with 5, nothing on standard output, and these words."""
    assert done.code == 5, done
    assert done.out == ""
    for word in words:
        assert word in done.err
