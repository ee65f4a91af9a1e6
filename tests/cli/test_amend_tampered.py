"""Whatever is done to a version of a registration, its lock or its event is found."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from cli.amending import (
    LEDGER,
    LOCK1,
    LOCK2,
    V1,
    V2,
    WHY,
    Lines,
    amend_to,
    failed,
    invalid,
    relink,
    replace,
)
from support import prereg


@pytest.fixture(scope="module")
def amended_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run under version 1 that failed, and a version 2 made after it."""
    root = failed(tmp_path_factory.mktemp("amended") / "w")
    amend_to(root, "[1, 4]")
    return root


@pytest.fixture
def amended(amended_once: Path, tmp_path: Path) -> Path:
    """A copy of it to tamper with."""
    return Path(shutil.copytree(amended_once, tmp_path / "w"))


def _copy(file: str, to: str) -> Callable[[Path], None]:
    def tamper(root: Path) -> None:
        shutil.copyfile(root / file, root / to)

    return tamper


def _edit(file: str, old: str, new_: str) -> Callable[[Path], None]:
    return lambda root: replace(root / file, old, new_)


def _delete(file: str) -> Callable[[Path], None]:
    return lambda root: (root / file).unlink()


def _swap_locks(root: Path) -> None:
    one, two = (root / LOCK1).read_bytes(), (root / LOCK2).read_bytes()
    (root / LOCK1).write_bytes(two)
    (root / LOCK2).write_bytes(one)


def _swap_texts(root: Path) -> None:
    one, two = (root / V1).read_bytes(), (root / V2).read_bytes()
    (root / V1).write_bytes(two)
    (root / V2).write_bytes(one)


FOUND: dict[str, tuple[Callable[[Path], None], str]] = {
    "the new lock edited": (_edit(LOCK2, WHY, "no reason"), LOCK2),
    "the new lock's number edited": (_edit(LOCK2, '"version": 2', '"version": 3'), LOCK2),
    "the new lock deleted": (_delete(LOCK2), LOCK2),
    "the old lock deleted": (_delete(LOCK1), LOCK1),
    "the new lock in the place of the old": (
        _copy(LOCK2, LOCK1),
        LOCK1,
    ),
    "the old lock in the place of the new": (
        _copy(LOCK1, LOCK2),
        LOCK2,
    ),
    "the locks exchanged": (_swap_locks, ".lock.json: differs from the lock that the ledger names"),
    "the texts exchanged": (_swap_texts, V1),
    "the new text edited": (_edit(V2, "[1, 4]", "[1, 3]"), V2),
    "the new text deleted": (_delete(V2), V2),
    "the old text edited": (_edit(V1, "[1, 3]", "[1, 4]"), V1),
    "a lock of a version that nobody made": (
        _copy(LOCK2, "registrations/x.v3.lock.json"),
        "registrations/x.v3.lock.json",
    ),
}


@pytest.mark.parametrize("name", FOUND)
def test_whatever_was_done_to_a_version_is_found(name: str, amended: Path) -> None:
    """No run, no score and no further amendment while either version is not what was locked."""
    tamper, file = FOUND[name]
    tamper(amended)
    before = (amended / LEDGER).read_bytes()
    invalid(prereg("score", "x", root=amended), file)
    invalid(prereg("run", "x", "--again", root=amended), file)
    shown = prereg("show", "x", "--json", root=amended).json
    state = "files missing" if "deleted" in name else "changed since the lock"
    assert shown["state"] == state
    assert any(file in problem for problem in shown["problems"])
    assert (amended / LEDGER).read_bytes() == before


def _without_amendment(lines: Lines) -> Lines:
    return [e for e in lines if e["event"] != "amended"]


def _before_the_run(lines: Lines) -> Lines:
    """The amendment put before the run, which then names another lock."""
    (late,) = [e for e in lines if e["event"] == "amended"]
    first, *rest = _without_amendment(lines)
    return [first, late, *rest]


def _under_the_new(lines: Lines) -> Lines:
    """The same, and the run made to have begun under the new version."""
    moved = _before_the_run(lines)
    lock = moved[1]["lock"]
    return [{**e, "lock": lock} if e["event"] == "run_started" else e for e in moved]


RELINKED: dict[str, tuple[Callable[[Lines], Lines], str]] = {
    "dropped": (_without_amendment, f"{LOCK2}: this lock stands in no ledger"),
    "moved before the run": (_before_the_run, "under a lock that was not in force"),
    "moved before the run, which is put under it": (_under_the_new, "runs/x/1"),
    "linked to another": (
        lambda x: [{**e, "previous": "0" * 64} if "previous" in e else e for e in x],
        "does not follow from the version before",
    ),
    "another lock": (
        lambda x: [{**e, "lock": "0" * 64} if "previous" in e else e for e in x],
        LOCK2,
    ),
    "doubled": (lambda x: [*x, x[-1]], "does not follow from the version before"),
}


@pytest.mark.parametrize("name", RELINKED)
def test_an_amendment_changed_in_a_ledger_made_whole_is_found(name: str, amended: Path) -> None:
    """Locks, runs and the order of events hold the amendment where it was, chain or not."""
    change, words = RELINKED[name]
    relink(amended, change)
    invalid(prereg("score", "x", root=amended), words)


@pytest.mark.parametrize(
    "change", [{"reason": "a better one"}, {"locked_at": "2001-01-01T00:00:00.000Z"},
               {"registration": "0" * 64}, {"exposure": "none"}],
    ids=lambda c: next(iter(c)),
)  # fmt: skip
def test_an_amendment_reworded_in_a_ledger_made_whole_is_found(
    change: dict[str, str], amended: Path
) -> None:
    """What the event says beside the lock's hash is held against the lock, whoever reads it."""
    assert prereg("verify", "x", root=amended).code == 0
    relink(amended, lambda x: [{**e, **change} if "previous" in e else e for e in x])
    done = prereg("verify", "x", root=amended)
    assert done.code == 5
    told = " ".join(done.out.split())
    assert "x.v2.lock.json: the ledger's event 'amended' does not say what its lock says" in told
    assert prereg("score", "x", root=amended).code == 5
