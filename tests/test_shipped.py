"""The shipped registration is locked, unchanged, and its shipped run gives the recorded verdict,
whichever version made them; the shipped judges are in order.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from prereg_judge.flow.running import run_registration
from prereg_judge.items import load_items
from prereg_judge.judge import check_items, load_judge
from prereg_judge.workspace import Workspace
from support import REPOSITORY, ScriptedBackend, prereg, verdict_reply

ID = "demo-self-agreement"


def copied(root: Path) -> Path:
    """A copy of the shipped folders."""
    for name in ("registrations", "runs", "judge", "sentinels", "data"):
        shutil.copytree(REPOSITORY / name, root / name)
    return root


@pytest.mark.parametrize(("ident", "n"), [(ID, 72), ("pairs-two-orders", 64)])
def test_the_shipped_run_scores_as_its_ledger_says(ident: str, n: int, tmp_path: Path) -> None:
    """A copy of the shipped folders verifies from bytes to the verdict that was noted."""
    copied(tmp_path)
    lines = (tmp_path / "registrations/ledger.jsonl").read_text(encoding="utf-8").splitlines()
    events = [e for e in map(json.loads, lines) if e.get("id") == ident]
    noted = [e for e in events if e["event"] == "scored" and e["run"] == 1]
    done = prereg("score", ident, "--run", "1", "--json", root=tmp_path)
    assert done.code != 5, done.err
    assert done.json["verdict"] == noted[-1]["verdict"]
    assert prereg("show", ident, "--json", root=tmp_path).json["state"] == "locked"
    assert done.json["claims"][0]["observed"][0]["n"] == n


def test_an_old_registration_is_run_again(tmp_path: Path) -> None:
    """Prompts, grammar, meaning and plan are hashed as they were at the lock, so a second run is
    let begin, is scored, and stands beside the first.
    """
    copied(tmp_path)
    backend = ScriptedBackend(lambda _key, _before: verdict_reply("DROP"))
    run = run_registration(Workspace(tmp_path), ID, again=True, make_backend=lambda *_: backend)
    assert (run.number, run.status, run.attempts) == (2, "complete", len(backend.asked))
    assert backend.passes == 2
    first = [call for call in backend.asked if call.key.endswith("/1")]
    old = (REPOSITORY / f"runs/{ID}/1/plan.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line)["trial"] for line in old][: len(first)] == [c.key for c in first]
    new = tmp_path / f"runs/{ID}/2"
    for name in ("plan.jsonl", "prompts.jsonl", "registration.yaml", "lock.json"):
        assert (new / name).read_bytes() == (REPOSITORY / f"runs/{ID}/1" / name).read_bytes()
    assert prereg("score", ID, "--run", "2", "--json", root=tmp_path).code in (0, 1, 3)
    told = prereg("show", ID, "--json", root=tmp_path).json
    assert [(one["run"], one["state"]) for one in told["runs"]] == [
        (1, "complete"),
        (2, "complete"),
    ]


@pytest.mark.parametrize("name", ["keep-drop", "keep-drop-reason"])
def test_the_shipped_judges_fit_the_shipped_items(name: str) -> None:
    """Each judge file loads, and has what it needs in every shipped row."""
    judge = load_judge(REPOSITORY / f"judge/{name}.yaml", shown=f"judge/{name}.yaml")
    assert judge.spec.id == name
    items = [
        load_items(REPOSITORY / "sentinels/customer-service-72.jsonl", role="sentinel", shown="s"),
        load_items(REPOSITORY / "data/customer-service-60.jsonl", role="real", shown="r"),
    ]
    assert check_items(judge, items) == []
