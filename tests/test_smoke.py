"""The shared test tools themselves work: lock, scripted run, score, through the command."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from support import locked, make_workspace, prereg, run_scripted, verdict_reply


def test_a_scripted_run_is_scored_by_the_command(tmp_path: Path) -> None:
    """Two passes that agree on every row miss a band that ends below n."""
    root = make_workspace(tmp_path / "w")
    locked(root, "smoke")
    run_scripted(root, "smoke", lambda _key, _before: verdict_reply("NO"))
    done = prereg("score", "smoke", "--json", root=root)
    assert (done.code, done.json["verdict"]) == (1, "FAIL")
    assert done.json["claims"][0]["outcome"] == "missed high"


@pytest.mark.skipif("PYTEST_XDIST_WORKER" not in os.environ, reason="not one of several workers")
def test_the_tests_of_a_file_stay_together(request: pytest.FixtureRequest) -> None:
    """With several workers a group is really one; else every worker makes every fixture anew."""
    assert request.node.nodeid.endswith("@test_smoke.py")
