"""Groups, retries, stop rules and resumes: the real supervisor and record, a scripted process."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from flow.runs import (
    RUN,
    Fake,
    Keys,
    KilledError,
    LostAfter,
    accounted,
    key,
    no,
    notes,
    reasons,
    record_of,
    registered,
    run,
    scored,
)
from prereg_judge.engine.protocol import Failure
from prereg_judge.errors import EngineError
from prereg_judge.flow.collecting import PassFeed
from prereg_judge.flow.watching import Watcher
from support import prereg, verdict_reply, without_last_event

HANG = Failure("hang", "made up", 1.0)
CRASH = Failure("crash", "made up", 1.0)
OFF = verdict_reply("MAYBE")


@pytest.fixture(scope="module")
def once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A registration `x` of six rows in two passes, in groups of four, with two retries."""
    return registered(tmp_path_factory.mktemp("flow") / "w", n=6, hang="60s,retries=2")


@pytest.fixture
def root(once: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    return Path(shutil.copytree(once, tmp_path / "w"))


def group(rows: range, pass_no: int = 1) -> Keys:
    """Names of trials."""
    return tuple(key(row, pass_no) for row in rows)


PLANNED = [group(range(4)), group(range(4, 6)), group(range(4), 2), group(range(4, 6), 2)]


# --- Groups and retries -------------------------------------------------------------------------


def test_groups_are_the_plans(root: Path) -> None:
    """Calls are made together as their places in the pass say, and no group spans two passes."""
    fake = Fake(no)
    run(root, fake)
    assert fake.groups == PLANNED
    record = accounted(root)
    assert [a.batch for a in record.attempts[:6]] == [(0, 1, 2, 3)] * 4 + [(4, 5)] * 2
    assert [a.batch for a in record.attempts[6:]] == [(6, 7, 8, 9)] * 4 + [(10, 11)] * 2


@pytest.mark.parametrize(
    ("script", "retries", "expected"),
    [
        (["YES"], 2, [None]),
        ([HANG, "YES"], 2, ["hang", None]),
        ([HANG, CRASH, "YES"], 2, ["hang", "crash", None]),
        ([HANG, CRASH, HANG, "YES"], 2, ["hang", "crash", "hang"]),
        ([CRASH, "YES"], 0, ["crash"]),
        (["YES"], 0, [None]),
        (["not JSON at all", "YES"], 2, ["unreadable"]),
    ],
)
def test_a_call_is_tried_until_a_reply_comes(
    script: list[Failure | str], retries: int, expected: list[str | None], tmp_path: Path
) -> None:
    """At most one try and the registered retries; any reply, readable or not, ends it.

    Each try is recorded before the next begins, with a seed of its own.
    """
    root = registered(tmp_path / "w", n=2, parallel=1, hang=f"60s,retries={retries}")
    recorded: list[int] = []

    def answer(trial: str, before: int) -> str | Failure:
        if trial != key(1):
            return no(trial, before)
        recorded.append(len(record_of(root).by_trial.get(key(1), [])))
        told = script[before]
        return verdict_reply("YES") if told == "YES" else told

    run(root, Fake(answer))
    made = accounted(root, retries=retries).by_trial[key(1)]
    assert [a.unscored for a in made] == expected
    assert recorded == list(range(len(expected)))
    assert len({a.seed for a in made}) == len(expected)


def test_an_error_of_the_engine_is_not_tried_again(root: Path) -> None:
    """When the engine refuses, no call is made again, and the run can go on later."""
    asked = []

    def refuse(trial: str, before: int) -> str:
        asked.append(trial)
        raise EngineError("no worker")

    with pytest.raises(EngineError):
        run(root, Fake(refuse))
    assert asked == [key(0)]
    run(root, Fake(no))
    assert reasons(accounted(root)) == {}


@pytest.mark.parametrize("failure", [HANG, CRASH], ids=["hang", "crash"])
def test_only_the_trial_at_fault_is_charged(failure: Failure, root: Path) -> None:
    """A lost group is made again one by one; the others have one attempt, made alone."""
    fake = Fake(lambda trial, before: failure if trial == key(2) else no(trial, before))
    run(root, fake)
    alone = [(key(row),) for row in (0, 1, 2, 3, 2, 2)]
    assert fake.groups == [PLANNED[0], *alone, *PLANNED[1:]]
    assert fake.started == 5  # one to begin with, and one after each of the four losses
    record = accounted(root, retries=2)
    assert reasons(record) == {key(2): [failure.reason] * 3}
    assert {a.batch for a in record.attempts[:6]} == {(0,), (1,), (2,), (3,)}
    (note,) = notes(record, "batch_lost")
    told = {name: note[name] for name in ("batch", "reason", "detail")}
    assert told == {"batch": [0, 1, 2, 3], "reason": failure.reason, "detail": "made up"}


def test_a_group_whose_members_all_answer_alone_charges_nobody(root: Path) -> None:
    """Where none fails alone, all are scored at the first attempt and the loss is a note."""
    fake = Fake(lambda trial, before: HANG if trial == key(1) and not before else no(trial, before))
    run(root, fake)
    record = accounted(root)
    assert reasons(record) == {}
    assert [a.attempt for a in record.attempts] == [1] * 12
    assert [note["batch"] for note in notes(record, "batch_lost")] == [[0, 1, 2, 3]]


def test_seeds_are_kept_when_a_group_is_made_again(root: Path) -> None:
    """Being made again alone is no new draw: the recorded seeds are those of the group."""
    fake = Fake(
        lambda trial, before: CRASH if trial == key(3) and before < 2 else no(trial, before)
    )
    run(root, fake)
    together, *alone = fake.seeds[:6]
    assert [[seed] for seed in together] == alone[:4]
    assert alone[4] != alone[3]  # a retry is a new draw
    first = [a for a in accounted(root, retries=2).attempts if a.attempt == 1][:4]
    assert [a.seed for a in first] == together


# --- Stop rules ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def stopping_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A registration that the second reply off the list stops."""
    root = tmp_path_factory.mktemp("stop") / "w"
    return registered(root, n=6, stop="calls.off_menu >= 2 in 12 over 12")


@pytest.fixture
def stopping(stopping_once: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    return Path(shutil.copytree(stopping_once, tmp_path / "w"))


def _off(*rows: int) -> Fake:
    off = {key(row) for row in rows}
    return Fake(lambda trial, before: OFF if trial in off else no(trial, before))


def test_a_rule_that_trips_within_a_group_ends_the_run(stopping: Path) -> None:
    """What was under way is recorded too, nothing else is called, and it scores as STOPPED."""
    fake = _off(0, 1)
    done = run(stopping, fake)
    assert (done.status, done.stopped_by, done.attempts) == ("stopped", "calls-off-menu", 4)
    assert fake.groups == PLANNED[:1]
    assert scored(stopping).code == 4
    assert [a.trial for a in record_of(stopping).attempts] == list(PLANNED[0])


def test_a_rule_that_trips_in_a_lost_group_ends_the_run(stopping: Path) -> None:
    """The members of a lost group are given back one by one; a failed one is not tried again."""
    off, lost = {key(0), key(1)}, key(2)
    fake = Fake(lambda t, before: CRASH if t == lost else OFF if t in off else no(t, before))
    done = run(stopping, fake)
    assert (done.status, done.attempts) == ("stopped", 4)
    assert fake.groups == [PLANNED[0], *((trial,) for trial in PLANNED[0])]
    assert scored(stopping).code == 4


def test_a_run_killed_after_its_rule_tripped_calls_nothing_more(stopping: Path) -> None:
    """Resumed, it ends as stopped, though members of the group are not recorded."""
    run(stopping, _off(0, 1))
    path = stopping / RUN / "attempts.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:3]))  # the header and two attempts
    (stopping / RUN / "manifest.json").unlink()
    without_last_event(stopping)
    done = run(stopping, Fake(lambda *_: pytest.fail("a call was made")))
    assert (done.status, done.attempts) == ("stopped", 2)
    assert scored(stopping).code == 4


@pytest.mark.parametrize(
    ("parallel", "after", "valid"), [(1, 0, True), (1, 1, False), (4, 3, True), (4, 4, False)]
)
def test_calls_after_the_trip_that_cannot_have_been_under_way_are_found(
    parallel: int, after: int, valid: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A record goes on for as many calls as can be under way when its rule trips, no further."""
    rule = "calls.off_menu >= 1 in 12 over 12"
    root = registered(tmp_path / "w", n=6, parallel=parallel, stop=rule)
    monkeypatch.setattr(PassFeed, "stop", lambda _: None)  # the pass is called to its end
    done = run(root, _off(5 - after))
    assert (done.status, done.attempts) == ("stopped", 6)
    told = prereg("score", "x", "--json", root=root)
    assert told.code == (4 if valid else 5), told
    assert valid or "no registered stop rule ended the run where it ends" in told.err


# --- Resumes ------------------------------------------------------------------------------------


def _lost_after(root: Path, attempts: int, fake: Fake) -> None:
    with pytest.raises(KilledError):
        run(root, fake, watcher=LostAfter(attempts))


@pytest.mark.parametrize("attempts", [1, 2, 3, 5, 9, 11])
def test_a_run_resumed_within_a_group_calls_the_rest_of_it(attempts: int, root: Path) -> None:
    """The members that are not recorded are called together, and the record says with whom."""
    _lost_after(root, attempts, Fake(no))
    fake = Fake(no)
    run(root, fake)
    recorded = {trial for one in PLANNED for trial in one} - {t for g in fake.groups for t in g}
    assert len(recorded) == attempts
    rest = [tuple(t for t in one if t not in recorded) for one in PLANNED]
    assert fake.groups == [one for one in rest if one]
    record = accounted(root)
    assert [a.attempt for a in record.attempts] == [1] * 12
    again = fake.groups[0]
    assert {a.batch for a in record.attempts if a.trial in again} == {
        tuple(a.index for a in record.attempts if a.trial in again)
    }


def test_a_run_resumed_many_times_is_whole(root: Path) -> None:
    """Losing the process after every single attempt loses nothing and makes nothing twice."""
    for _ in range(12):
        _lost_after(root, 1, Fake(no))
    run(root, Fake(lambda *_: pytest.fail("a call was made")))
    record = accounted(root)
    assert [a.attempt for a in record.attempts] == [1] * 12
    assert len(notes(record, "session")) == 12


def test_retries_go_on_where_a_killed_session_left_them(root: Path) -> None:
    """A trial that failed before the kill is tried alone, as often as is left to it."""

    def crash(trial: str, before: int) -> str | Failure:
        return CRASH if trial == key(1) else no(trial, before)

    _lost_after(root, 2, Fake(crash))  # r00, and the first attempt of r01
    fake = Fake(crash)
    run(root, fake)
    assert fake.groups == [(key(1),), (key(1),), (key(2), key(3)), *PLANNED[1:]]
    record = accounted(root, retries=2)
    assert reasons(record) == {key(1): ["crash"] * 3}


def test_a_group_that_was_lost_before_a_kill_is_tried_together_again(root: Path) -> None:
    """A loss charges nobody, so nothing of it is left but the note."""

    class Lost(Watcher):
        def announce(self, text: str) -> None:
            if "in a batch of 4 calls" in text:
                raise KilledError

    with pytest.raises(KilledError):
        run(root, Fake(lambda *_: HANG), watcher=Lost())
    fake = Fake(no)
    run(root, fake)
    assert fake.groups == PLANNED
    record = accounted(root)
    assert len(notes(record, "batch_lost")) == 1
    assert [a.attempt for a in record.attempts] == [1] * 12


def test_a_retry_does_not_break_up_the_next_group(root: Path) -> None:
    """A call read ahead to see where a group ends keeps its own group, also after a retry."""
    _lost_after(root, 2, Fake(no))  # r02 and r03 are left of the first group
    fake = Fake(lambda trial, before: HANG if trial == key(3) and before < 2 else no(trial, before))
    run(root, fake)
    rest = (key(2), key(3))
    assert fake.groups == [rest, (key(2),), (key(3),), (key(3),), *PLANNED[1:]]
    assert reasons(accounted(root, retries=2)) == {key(3): ["hang", None]}
