"""A machine whose clock is set back while a run goes on."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from flow.runs import (
    Fake,
    KilledError,
    LostAfter,
    accounted,
    no,
    notes,
    record_of,
    registered,
    run,
)
from prereg_judge import clock
from prereg_judge.record.run import Record

BEGIN = datetime(2030, 6, 1, 12, tzinfo=UTC)


class _Clock:
    """A clock that a test sets; each look at it takes a second."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.at = BEGIN
        monkeypatch.setattr(clock, "now", self.now)

    def now(self) -> str:
        self.at += timedelta(seconds=1)
        return self.at.isoformat(timespec="milliseconds").replace("+00:00", "Z")

    def back(self, hours: float) -> None:
        self.at -= timedelta(hours=hours)


@pytest.fixture(scope="module")
def once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A registration `x` of six rows in two passes, in groups of four."""
    return registered(tmp_path_factory.mktemp("clock") / "w", n=6)


@pytest.fixture
def root(once: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    return Path(shutil.copytree(once, tmp_path / "w"))


def _times(record: Record) -> list[str]:
    """The times of the attempts, after which the manifest's."""
    assert record.manifest is not None
    return [*(a.at for a in record.attempts), record.manifest["finished_at"]]


@pytest.mark.parametrize(
    ("changes", "times_back"), [({5: 24}, 1), ({5: 24, 7: -25}, 1), ({5: 24, 7: -25, 11: 24}, 2)]
)
def test_a_clock_set_back_during_a_run(
    changes: dict[int, float], times_back: int, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Times never go back, each setting is noted once, and the run verifies and scores."""
    wall = _Clock(monkeypatch)
    asked: list[str] = []

    def script(trial: str, before: int) -> str:
        asked.append(trial)
        wall.back(changes.get(len(asked), 0))
        return no(trial, before)

    run(root, Fake(script))
    record = accounted(root)
    times = _times(record)
    assert times == sorted(times)
    back = notes(record, "clock_back")
    assert len(back) == times_back
    for note in back:
        assert note["clock"] < note["at"]
    stood = [a.at for a in record.attempts[4:6]]
    assert set(stood) == {record.attempts[3].at} == {back[0]["at"]}


def test_a_clock_set_back_between_two_sessions(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A resumed run goes on from the last time of the record, and is not refused for it."""
    wall = _Clock(monkeypatch)
    with pytest.raises(KilledError):
        run(root, Fake(no), watcher=LostAfter(5))
    last = record_of(root).attempts[-1].at
    wall.back(48)  # before the run was started
    run(root, Fake(no))
    record = accounted(root)
    times = _times(record)
    assert times == sorted(times)
    (note,) = notes(record, "clock_back")
    assert note["at"] == last
    (session,) = notes(record, "session")
    assert session["at"] == last
