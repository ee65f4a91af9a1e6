"""Cheats with amendments: the bar moved after the run, openly or into the past."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from cheats.cheating import (
    BAND,
    LEDGER,
    RUN,
    WIDER,
    Lines,
    edit,
    failed,
    refused,
    rewrite,
    score_says,
    verify,
)
from support import prereg


def amend_wider(root: Path) -> None:
    """Amend `x` to a band that takes what was observed."""
    amend = ("amend", "x", "--reason", "the bar was wrong")
    assert prereg(*amend, root=root).code == 0
    edit(root / "registrations/x.v2.yaml", BAND, WIDER)
    done = prereg(*amend, root=root)
    assert done.code == 0, done
    assert "Exposure: full" in done.out
    assert "scored FAIL" in " ".join(done.out.split())


def test_amend_after_the_run(tmp_path: Path) -> None:
    """Cheat: "amend after the run". The version in force decides, with its exit code; the later
    one is shown beside, post hoc.
    """
    root = failed(tmp_path)
    amend_wider(root)
    score_says(
        root,
        "POST HOC: version 2, locked ",
        "after this run began (the bar was wrong) would give PASS; it does not decide.",
        "Verdict: FAIL",
        code=1,
    )
    score = prereg("score", "x", "--json", root=root).json
    assert (score["verdict"], score["exit_code"]) == ("FAIL", 1)
    verify(root).clean()


def test_amend_after_the_run_and_put_the_amendment_before(tmp_path: Path) -> None:
    """Cheat: "amend after the run", the events put in another order with all hashes made right.
    The run was started under the lock of its time, and its record says so too.
    """
    root = failed(tmp_path)
    amend_wider(root)

    def first(lines: Lines) -> Lines:
        (amended,) = [e for e in lines if e["event"] == "amended"]
        rest = [e for e in lines if e["event"] != "amended"]
        return [rest[0], amended, *rest[1:]]

    rewrite(root, first)
    verify(root).caught("its events contradict each other", "a lock that was not in force")
    lock = json.loads((root / LEDGER).read_bytes().splitlines()[1])["lock"]
    started = "run_started"
    rewrite(root, lambda e: [{**x, "lock": lock} if x["event"] == started else x for x in e])
    refused(root, "score", "x", says=(f"{RUN}/registration.yaml", f"{RUN}/lock.json"))
    for name, copy in (("x.v2.yaml", "registration.yaml"), ("x.v2.lock.json", "lock.json")):
        shutil.copyfile(root / "registrations" / name, root / RUN / copy)
    told = verify(root)
    assert told.code == 5
    refused(root, "score", "x", says=(RUN,))
