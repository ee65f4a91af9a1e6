"""A day by which a result is due, and a list that shows what is late."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from support import (
    locked,
    make_workspace,
    new,
    prereg,
    run_scripted,
    stop_after,
    verdict_reply,
)

TODAY = datetime.now(UTC).date()
YESTERDAY = str(TODAY - timedelta(days=1))
LATER = str(TODAY + timedelta(days=2))  # not tomorrow: the tests may run over midnight


def no(_key: str, _before: int) -> str:
    """NO, whatever is asked."""
    return verdict_reply("NO")


@pytest.fixture(scope="module")
def late_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A locked registration `x` that was due yesterday."""
    root = make_workspace(tmp_path_factory.mktemp("due") / "w")
    locked(root, "x", due=YESTERDAY)
    return root


@pytest.fixture
def late(late_once: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    return Path(shutil.copytree(late_once, tmp_path / "w"))


def standing(root: Path, ident: str = "x") -> dict[str, Any]:
    """A registration's line of `status`."""
    (one,) = [s for s in prereg("status", "--json", root=root).json if s["id"] == ident]
    return dict(one)


def test_without_a_result_it_is_overdue_after_its_day(late: Path) -> None:
    """`status` and `show` say so in words and in JSON; nothing is refused for it."""
    assert (standing(late)["due"], standing(late)["overdue"]) == (YESTERDAY, True)
    told = " ".join(prereg("status", root=late).out.split())
    assert "OVERDUE" in told
    assert f"Due by the end of {YESTERDAY} OVERDUE" in prereg("show", "x", root=late).out
    assert standing(late)["state"] == "locked"


def test_only_a_scored_run_is_a_result(late: Path) -> None:
    """An unfinished run and one that was not scored leave it overdue; a verdict does not."""
    stop_after(late, "x", 3, no)
    assert standing(late)["overdue"]
    run_scripted(late, "x", no)
    assert standing(late)["overdue"]
    assert prereg("score", "x", root=late).code == 1  # a FAIL is a result
    assert (standing(late)["overdue"], standing(late)["due"]) == (False, YESTERDAY)
    assert "OVERDUE" not in prereg("status", root=late).out
    assert "OVERDUE" not in prereg("show", "x", root=late).out


def test_a_run_given_up_is_no_result(late: Path) -> None:
    """Giving up does not make a registration any less late."""
    stop_after(late, "x", 3, no)
    assert prereg("run", "x", "--abandon", "no time", root=late).code == 0
    assert standing(late)["overdue"]


def test_what_is_withdrawn_is_not_late(late: Path) -> None:
    """Its tombstone is the answer."""
    assert prereg("withdraw", "x", "--reason", "no time", root=late).code == 0
    assert (standing(late)["state"], standing(late)["overdue"]) == ("withdrawn", False)


def test_before_its_day_nothing_is_late(tmp_path: Path) -> None:
    """A day to come is shown as it is; without one there is a dash."""
    root = make_workspace(tmp_path / "w")
    assert new(root, "x", due=LATER).code == 0
    assert new(root, "y").code == 0
    assert (standing(root)["due"], standing(root)["overdue"]) == (LATER, False)
    assert (standing(root, "y")["due"], standing(root, "y")["overdue"]) == (None, False)
    told = prereg("status", root=root).out
    assert LATER in told
    assert "OVERDUE" not in told


def test_an_amendment_can_move_the_day_in_sight_of_all(late: Path) -> None:
    """A day that had passed when it was moved stays late, and both days are named."""
    assert prereg("amend", "x", "--reason", "the machine broke", root=late).code == 0
    path = late / "registrations/x.v2.yaml"
    text = path.read_text(encoding="utf-8")
    assert YESTERDAY in text
    path.write_text(text.replace(YESTERDAY, LATER), encoding="utf-8")
    assert standing(late)["overdue"]  # not locked yet
    assert prereg("amend", "x", "--reason", "the machine broke", root=late).code == 0
    assert (standing(late)["due"], standing(late)["overdue"]) == (LATER, True)
    moved = f"{LATER} OVERDUE (was {YESTERDAY}, moved after it had passed)"
    assert moved in " ".join(prereg("show", "x", root=late).out.split())
    assert YESTERDAY in (late / "registrations/x.yaml").read_text(encoding="utf-8")


BAD = ['"2027-02-30"', '"31.01.2027"', '"2027-1-3"', '"20270131"', '"2027-W04-7"', '"soon"',
       "2027-01-31", '"2027-01-31T00:00:00Z"', "20270131"]  # fmt: skip


@pytest.mark.parametrize("text", BAD)
def test_a_bad_date_is_refused_with_file_and_line(text: str, tmp_path: Path) -> None:
    """A day that is none, in another form, or not in quotes, is no due date: no lock."""
    root = make_workspace(tmp_path / "w")
    assert new(root, "x", due=LATER).code == 0
    path = root / "registrations/x.yaml"
    written = path.read_text(encoding="utf-8")
    assert f'due: "{LATER}"' in written
    changed = written.replace(f'due: "{LATER}"', f"due: {text}")
    path.write_text(changed, encoding="utf-8")
    line = changed.splitlines().index(f"due: {text}") + 1
    done = prereg("lock", "x", root=root)
    assert done.code == 2, done
    assert f"registrations/x.yaml:{line}: due" in done.err
    assert not (root / "registrations/x.lock.json").exists()


def test_a_bad_date_given_as_a_flag_is_refused_by_its_name(tmp_path: Path) -> None:
    """`prereg new --due` writes no file that the loader would refuse."""
    root = make_workspace(tmp_path / "w")
    done = new(root, "x", due="tomorrow")
    assert done.code == 2
    assert "--due: is not a date" in done.err
    assert not (root / "registrations/x.yaml").exists()
