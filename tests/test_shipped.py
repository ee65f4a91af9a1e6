"""The shipped registration is locked, unchanged, and its shipped run gives the recorded verdict."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from support import REPOSITORY, prereg

ID = "demo-self-agreement"


def test_the_shipped_run_scores_as_its_ledger_says(tmp_path: Path) -> None:
    """A copy of the shipped folders verifies from bytes to the verdict that was noted."""
    for name in ("registrations", "runs", "judge", "sentinels", "data"):
        shutil.copytree(REPOSITORY / name, tmp_path / name)
    lines = (tmp_path / "registrations/ledger.jsonl").read_text(encoding="utf-8").splitlines()
    noted = [e for e in map(json.loads, lines) if e["event"] == "scored" and e["run"] == 1]
    done = prereg("score", ID, "--run", "1", "--json", root=tmp_path)
    assert done.code != 5, done.err
    assert done.json["verdict"] == noted[-1]["verdict"]
    assert prereg("show", ID, "--json", root=tmp_path).json["state"] == "locked"
    assert done.json["claims"][0]["observed"][0]["n"] == 72
