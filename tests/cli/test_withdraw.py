"""Withdrawing: nothing is deleted, no run begins any more, and a tombstone says when and why."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from prereg_judge.canon import sha256_bytes
from prereg_judge.errors import UsageError
from support import (
    Done,
    locked,
    make_workspace,
    new,
    prereg,
    rechained,
    run_scripted,
    stop_after,
    verdict_reply,
    with_tip,
)

WHY = "the items turned out to be mislabelled"
LEDGER = "registrations/ledger.jsonl"
STONE = "registrations/x.withdrawn.json"


def no(_key: str, _before: int) -> str:
    """NO, whatever is asked."""
    return verdict_reply("NO")


@pytest.fixture(scope="module")
def locked_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A locked registration `x`."""
    root = make_workspace(tmp_path_factory.mktemp("withdraw") / "w")
    locked(root, "x")
    return root


@pytest.fixture
def root(locked_once: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    return Path(shutil.copytree(locked_once, tmp_path / "w"))


def withdraw(root: Path, *more: str, reason: str = WHY) -> Done:
    """`prereg withdraw x`."""
    return prereg("withdraw", "x", "--reason", reason, *more, root=root)


def events(root: Path) -> list[dict[str, Any]]:
    """The ledger's lines."""
    return [json.loads(line) for line in (root / LEDGER).read_bytes().splitlines()]


def test_a_tombstone_and_an_event_stay(root: Path) -> None:
    """Both say why and when; the ledger holds the tombstone's hash; nothing else is touched."""
    kept = {p: p.read_bytes() for p in root.rglob("*") if p.is_file() and "ledger" not in p.name}
    done = withdraw(root, "--json")
    assert (done.code, done.json) == (0, {"id": "x", "withdrawn": True, "tombstone": STONE})
    raw = (root / STONE).read_bytes()
    stone = json.loads(raw)
    registered, event = events(root)
    assert (event["event"], event["reason"]) == ("withdrawn", WHY)
    assert event["tombstone"] == sha256_bytes(raw)
    assert (stone["id"], stone["reason"], stone["lock"]) == ("x", WHY, registered["lock"])
    assert stone["withdrawn_at"] <= event["at"]
    assert all(path.read_bytes() == data for path, data in kept.items())
    assert not list((root / "registrations").glob("*.pending"))


def test_what_is_withdrawn_is_over(root: Path) -> None:
    """No run, no amendment, no second withdrawal, no second lock: each says when and why not."""
    assert withdraw(root).code == 0
    at = events(root)[-1]["at"]
    before = (root / LEDGER).read_bytes()
    for args in (("run", "x"), ("run", "x", "--again"), ("amend", "x", "--reason", "r"),
                 ("withdraw", "x", "--reason", "r")):  # fmt: skip
        done = prereg(*args, root=root)
        assert done.code == 2, (args, done)
        assert f"'x' was withdrawn at {at}: {WHY}" in done.err
        assert "register anew under another id" in done.err.lower()
    assert prereg("lock", "x", root=root).code == 2
    assert new(root, "x").code == 2
    assert (root / LEDGER).read_bytes() == before
    assert not (root / "registrations/x.v2.yaml").exists()
    assert not (root / "runs/x/1").exists()


def test_a_run_made_before_keeps_its_verdict_which_names_the_withdrawal(root: Path) -> None:
    """The exit code is the verdict's own; a reader is told that the registration was withdrawn."""
    run_scripted(root, "x", no)
    assert prereg("score", "x", root=root).code == 1
    assert withdraw(root).code == 0
    done = prereg("score", "x", root=root)
    assert done.code == 1
    assert [e["event"] for e in events(root)][3:] == ["scored", "withdrawn", "scored"]
    told = f"The registration was withdrawn at {events(root)[4]['at']}: {WHY}"
    assert told in " ".join(done.out.split())
    assert told in prereg("score", "x", "--json", root=root).json["notes"]
    assert prereg("verify", "x", root=root).code == 0


def test_while_a_run_is_open_nothing_is_withdrawn(root: Path) -> None:
    """It is finished or given up first, so that no call is made behind a tombstone."""
    stop_after(root, "x", 3, no)
    done = withdraw(root)
    assert done.code == 2
    assert "run 1 of 'x' is unfinished" in done.err
    assert "--abandon" in done.err
    assert not (root / STONE).exists()
    assert events(root)[-1]["event"] == "run_started"
    assert prereg("run", "x", "--abandon", "as told", root=root).code == 0
    assert withdraw(root).code == 0
    with pytest.raises(UsageError, match="withdrawn"):
        run_scripted(root, "x", no)


def test_show_and_status_say_that_it_is_withdrawn(root: Path) -> None:
    """Its state is a word of its own, with the reason; a draft beside it is one still."""
    assert new(root, "y").code == 0
    assert withdraw(root).code == 0
    one, two = prereg("status", "--json", root=root).json
    assert (one["id"], one["state"], one["withdrawn"], one["problems"]) == (
        "x",
        "withdrawn",
        WHY,
        [],
    )
    assert (two["id"], two["state"], two["withdrawn"]) == ("y", "draft", None)
    assert "withdrawn" in prereg("status", root=root).out
    shown = prereg("show", "x", root=root).out
    assert f"State: withdrawn at {one['withdrawn_at']} (locked at {one['locked_at']}): {WHY}" in (
        shown
    )


@pytest.mark.parametrize(
    ("ident", "reason", "words"),
    [
        ("x", " ", "--reason needs a sentence"),
        ("draft", WHY, "'draft' is not locked"),
        ("none", WHY, "no registration 'none'"),
    ],
)
def test_what_cannot_be_withdrawn(ident: str, reason: str, words: str, root: Path) -> None:
    """Without a reason, before its lock, or what is not there: a wrong use, and no event."""
    assert new(root, "draft").code == 0
    before = (root / LEDGER).read_bytes()
    done = prereg("withdraw", ident, "--reason", reason, root=root)
    assert (done.code, words in done.err) == (2, True), done
    assert (root / LEDGER).read_bytes() == before
    assert not list((root / "registrations").glob("*.withdrawn.json*"))


def test_a_tombstone_taken_away_changes_nothing(root: Path) -> None:
    """The ledger is the reference: without its stone the registration stays withdrawn."""
    assert withdraw(root).code == 0
    (root / STONE).unlink()
    assert prereg("run", "x", root=root).code == 2
    assert prereg("show", "x", "--json", root=root).json["state"] == "withdrawn"
    assert prereg("verify", "x", root=root).code == 5


def test_a_run_begun_after_a_withdrawal_is_found(root: Path) -> None:
    """In a ledger made whole again, the order of the events is impossible."""
    run_scripted(root, "x", no)
    assert withdraw(root).code == 0
    ledger = root / LEDGER
    raw = rechained(ledger.read_bytes(), lambda x: [x[0], x[-1], *x[1:-1]])
    ledger.write_bytes(raw)
    with_tip(root)
    done = prereg("score", "x", root=root)
    assert done.code == 5
    assert "run_started of run 1 does not fit what stands before it" in done.err
