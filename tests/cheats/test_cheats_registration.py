"""Cheats on the text of a registration: after the lock, with its times, with claims as traps."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from cheats.cheating import (
    BAND,
    CLOCK_ONLY,
    LEDGER,
    LOCK,
    REG,
    TIP,
    WIDER,
    edit,
    failed,
    in_git,
    locked_only,
    passes,
    refused,
    rewrite,
    score_says,
    scored_run,
    set_clock,
    verify,
)
from ledger.authority import time_stamping
from prereg_judge.canon import sha256_bytes
from support import Done, locked, make_workspace, new, prereg

# --- edit the registration, lock again ------------------------------------------------------------


def test_edit_the_registration_lock_again(tmp_path: Path) -> None:
    """Cheat: "edit the registration, lock again". Refused, nothing overwritten, `amend` named."""
    root = failed(tmp_path)
    edit(root / REG, BAND, WIDER)
    before = (root / LOCK).read_bytes(), (root / LEDGER).read_bytes(), (root / TIP).read_bytes()
    refused(root, "lock", "x", says=(REG, "edited since", "`prereg amend x`"))
    (root / LOCK).unlink()  # so that it looks as if it had never been locked
    refused(root, "lock", "x", says=("edited since", "`prereg amend x`"))
    (root / LOCK).write_bytes(before[0])
    assert before == tuple((root / name).read_bytes() for name in (LOCK, LEDGER, TIP))
    verify(root).caught(REG, "was changed after the lock", "`prereg amend`")


def test_edit_the_registration_lock_again_without_the_ledger(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cheat: "edit the registration, lock again", all traces deleted. The git history has them."""
    repo = in_git(tmp_path, monkeypatch)
    root = repo.top
    for name in (LOCK, LEDGER, TIP):
        (root / name).unlink()
    shutil.rmtree(root / "runs")
    edit(root / REG, BAND, WIDER)
    done = prereg("lock", "x", root=root)
    assert done.code == 0, done  # nothing in the folder knows better, and it is even committed
    assert "Committed" in done.err
    verify(root).caught("git: commit", "changes the ledger of its parent", "from line 1 on")


def test_an_amendment_leaves_the_old_version_as_it_was(tmp_path: Path) -> None:
    """Cheat: "edit the registration, lock again". The way that there is keeps all of the old."""
    root = failed(tmp_path)
    old = {name: (root / name).read_bytes() for name in (REG, LOCK)}
    ledger = (root / LEDGER).read_bytes()
    amend = ("amend", "x", "--reason", "the bar was wrong")
    assert prereg(*amend, root=root).code == 0
    edit(root / "registrations/x.v2.yaml", BAND, WIDER)
    assert prereg(*amend, root=root).code == 0
    assert old == {name: (root / name).read_bytes() for name in (REG, LOCK)}
    assert (root / LEDGER).read_bytes().startswith(ledger)
    lock = json.loads((root / "registrations/x.v2.lock.json").read_bytes())
    assert lock["amends"]["lock"] == sha256_bytes(old[LOCK])
    told = verify(root)
    told.clean()
    told.shown("x version 1: unchanged since the lock", "x.yaml")
    told.shown("x version 2: unchanged since the lock", "x.v2.yaml")
    edit(root / REG, BAND, WIDER)  # the old text is held on to all the same
    verify(root).caught(REG, "was changed after the lock")


# --- type an old `created_at` ---------------------------------------------------------------------


@pytest.mark.parametrize("key", ["created_at", "locked_at", "date"])
def test_type_an_old_created_at(key: str, tmp_path: Path) -> None:
    """Cheat: "type an old `created_at`". No key takes a time: refused with file and line."""
    root = make_workspace(tmp_path / "w")
    assert new(root, "x").code == 0
    text = (root / REG).read_text()
    (root / REG).write_text(text + f'{key}: "2019-03-01T09:00:00Z"\n')
    where = f"{REG}:{text.count(chr(10)) + 1}: {key}"
    refused(root, "lock", "x", code=2, says=(where,))
    assert not (root / LOCK).exists()


def _backdate_lock(root: Path) -> None:
    """Type another day into the lock, and give the ledger the lock's new hash."""
    at = json.loads((root / LOCK).read_bytes())["locked_at"]
    edit(root / LOCK, at, "2019-03-01T09:00:00.000Z")
    sha256 = sha256_bytes((root / LOCK).read_bytes())
    locking = "registered"
    rewrite(root, lambda e: [{**x, "lock": sha256} if x["event"] == locking else x for x in e])


def _backdate_event(root: Path) -> None:
    """Type the same day into the ledger's event, hashes and tip made right."""
    _backdate_lock(root)
    at = "2019-03-01T09:00:00.000Z"
    rewrite(root, lambda e: [{**e[0], "locked_at": at}, *e[1:]])


def _backdate_line(root: Path) -> None:
    """Do that, and type it into the ledger's own time as well."""
    _backdate_event(root)
    at = "2019-03-01T09:00:00.000Z"
    rewrite(root, lambda e: [{**e[0], "at": at}, *e[1:]])


def test_type_an_old_locked_at(tmp_path: Path) -> None:
    """Cheat: "type an old `created_at`", into the lock, then step by step wherever it is kept."""
    root = locked_only(tmp_path)
    good = (root / LOCK).read_bytes()
    at = json.loads(good)["locked_at"]
    edit(root / LOCK, at, "2019-03-01T09:00:00.000Z")
    verify(root).caught(LOCK, "differs from the lock that the ledger names")
    (root / LOCK).write_bytes(good)
    _backdate_lock(root)
    verify(root).caught(LOCK, "the ledger's event 'registered' does not say what its lock says")


def test_type_an_old_locked_at_everywhere(tmp_path: Path) -> None:
    """Cheat: "type an old `created_at`", all hashes made right. Of a lock that no run hangs on,
    `verify` says whose clock it is; a run's record and manifest name the line that is gone.
    """
    root = locked_only(tmp_path)
    _backdate_line(root)
    told = verify(root)
    told.clean()
    told.open("x: when it was locked (line 1)", CLOCK_ONLY, "`prereg stamp --tsa URL`")
    shutil.rmtree(root)
    root = failed(tmp_path)
    _backdate_line(root)
    told = verify(root)
    told.caught("its events contradict each other")  # the run was started under another lock


def test_type_an_old_time_of_the_line(tmp_path: Path) -> None:
    """Cheat: "type an old `created_at`", into lock and event but not into the line's own time."""
    root = locked_only(tmp_path)
    _backdate_event(root)
    verify(root).open("the lock says 2019-03-01T09:00:00.000Z")


def test_an_old_time_against_a_clone_and_a_token(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cheat: "type an old `created_at`", everything made right. A clone and a token know better."""
    repo = in_git(tmp_path, monkeypatch)
    root = repo.top
    with time_stamping(tmp_path / "tsa") as authority:
        assert prereg("stamp", "--tsa", authority.url, root=root).code == 0
    clone = repo.clone(tmp_path / "clone")
    _backdate_line(root)
    shutil.rmtree(root / ".git")
    told = verify(root, "--clone", str(clone.top))
    told.caught("is not for line", "the ledger was rewritten")
    shutil.rmtree(root / "registrations/stamps")
    verify(root, "--clone", str(clone.top)).caught(
        "the ledger as it is now differs from line 1", f"of clone {clone.top}"
    )


def test_set_the_clock_back_and_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Cheat: "type an old `created_at`", by way of the machine's clock. After an honest line it
    shows; alone it is this machine's word, which a token of today does not make older.
    """
    root = locked_only(tmp_path)
    set_clock(monkeypatch, "2019-03-01T09:00:00")
    locked(root, "y")
    told = verify(root, "y")
    told.open("the clock went back before line 2", "not in order")
    told.open("y: when it was locked (line 2)", CLOCK_ONLY)
    other = make_workspace(tmp_path / "other")
    locked(other, "x")
    scored_run(other, passes, code=0)
    with time_stamping(tmp_path / "tsa") as authority:
        assert prereg("stamp", "--tsa", authority.url, root=other).code == 0
    told = verify(other, "--ca", str(authority.root))
    told.clean()
    told.open("that its lock came before run 1: stamped at 20", "after it began")
    told = verify(other, "--ca", str(authority.root), "--require", "witness=rfc3161")
    told.caught("version 1 has no rfc3161 witness from before its first run")


# --- observed infinity, NaN threshold: at the lock ------------------------------------------------

MANY = {
    "band": "sentinel.agreement.count=1..3",
    "predict": "sentinel.flips.count <= 2",
    "refute": "sentinel.agreement.count < 1: too unstable",
    "stop": "calls.hangs >= 2 in 4 over 8",
}


@pytest.mark.parametrize(
    ("old", "bad"),
    [
        ("between: [1, 3]", "between: [.nan, 3]"),
        ("between: [1, 3]", "between: [1, .inf]"),
        ("between: [1, 3]", "between: [-.inf, 3]"),
        ("between: [1, 3]", "between: [1, 1e999]"),
        ("between: [1, 3]", "between: [1, NaN]"),
        ("between: [1, 3]", "between: [1, 3], expected: .nan"),
        ("at_most: 2", "at_most: .inf"),
        ("at_most: 2", "at_most: .nan"),
        ("lt: 1", "lt: .nan"),
        ("lt: 1", "lt: -.inf"),
        ("ge: 2", "ge: .NaN"),
        ("temperature: 1", "temperature: .inf"),
        ("call_timeout_s: 60", "call_timeout_s: .inf"),
    ],
)
def test_infinity_or_nan_threshold(old: str, bad: str, tmp_path: Path) -> None:
    """Cheat: "observed infinity, NaN threshold". Refused at the lock, with file and line."""
    root = make_workspace(tmp_path / "w")
    assert new(root, "x", **MANY).code == 0
    edit(root / REG, old, bad)
    number = next(n for n, a in enumerate((root / REG).read_text().split("\n"), 1) if bad in a)
    refused(root, "lock", "x", code=2, says=(f"{REG}:{number}: ",))
    assert not (root / LOCK).exists()
    assert not (root / LEDGER).exists()


# --- huge tolerance argument ----------------------------------------------------------------------


def _flags(**changed: str | list[str] | None) -> Callable[[Path], Done]:
    return lambda root: new(root, "x", "--lock", **changed)


def _tolerance(root: Path) -> Done:
    """Write a tolerance that no claim has."""
    assert new(root, "x").code == 0
    edit(root / REG, "between: [1, 3]", "between: [1, 3], tolerance: 1000000")
    return prereg("lock", "x", root=root)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (_flags(band="sentinel.agreement.count=0..4"), "cannot fail"),
        (_flags(band="sentinel.agreement.rate=-1000000..1000000"), "cannot fail"),
        (_flags(band=None, predict="sentinel.flips.count >= 0"), "cannot fail"),
        (
            _flags(refute="sentinel.agreement.count = 2: too good"),
            "fires only inside the band `agreement-count`",
        ),
        (_flags(refute="sentinel.agreement.count < 0: too bad"), "never fires"),
        (_flags(stop="calls.hangs >= 1000000"), "never trips"),
        (_flags(decide="sentinel.agreement.count > 99 => give up"), "never is taken"),
        (_tolerance, "tolerance"),
    ],
)
def test_huge_tolerance_argument(make: Callable[[Path], Done], says: str, tmp_path: Path) -> None:
    """Cheat: "huge tolerance argument". A claim that cannot come out otherwise is refused."""
    root = make_workspace(tmp_path / "w")
    done = make(root)
    assert done.code == 2, done
    assert says in done.err
    assert not (root / LOCK).exists()
    assert not (root / LEDGER).exists()


# --- leave the scaffold unfilled and lock it ------------------------------------------------------


@pytest.mark.parametrize(
    ("flag", "place"),
    [
        ("title", "title"),
        ("judge", "judge"),
        ("sentinel", "items.sentinel"),
        ("gguf", "model.gguf"),
        ("n_ctx", "model.n_ctx"),
        ("gpu_layers", "model.n_gpu_layers"),
        ("passes", "protocol.passes"),
        ("prefix", "protocol.prefix"),
        ("decoding", "protocol.decoding"),
        ("max_tokens", "protocol.max_tokens"),
        ("hang", "protocol.hang"),
        ("missing", "missing"),
        ("seen", "exposure.seen"),
    ],
)
def test_leave_the_scaffold_unfilled_and_lock_it(flag: str, place: str, tmp_path: Path) -> None:
    """Cheat: "leave the scaffold unfilled and lock it". Every single gap is refused by its line."""
    root = make_workspace(tmp_path / "w")
    assert new(root, "x", "--draft", **{flag: None}).code == 0
    refused(root, "lock", "x", code=2, says=(f"{REG}:", f": {place}"))
    assert not (root / LOCK).exists()


def test_leave_the_whole_scaffold_unfilled(tmp_path: Path) -> None:
    """Cheat: "leave the scaffold unfilled and lock it". Of a bare draft every gap is named."""
    root = make_workspace(tmp_path / "w")
    assert prereg("new", "x", "--draft", root=root).code == 0
    todo = (root / REG).read_text().count("TODO")
    done = prereg("lock", "x", root=root)
    assert done.code == 2
    assert done.err.count(f"{REG}:") >= todo > 10
    assert not (root / LOCK).exists()


@pytest.mark.parametrize("text", ["TODO", "tbd", "<the question>", "FIXME later", "   "])
def test_fill_the_scaffold_with_nothing(text: str, tmp_path: Path) -> None:
    """Cheat: "leave the scaffold unfilled and lock it", with other words for not filled in."""
    root = make_workspace(tmp_path / "w")
    assert new(root, "x").code == 0
    edit(root / REG, "Does it answer twice alike?", text)
    refused(root, "lock", "x", code=2, says=(f"{REG}:", ": title"))
    assert not (root / LOCK).exists()


# --- What registries ask and tools forget ---------------------------------------------------------


def test_do_not_say_which_outcome_is_primary(tmp_path: Path) -> None:
    """Forgotten elsewhere: "which outcome is primary". Of several claims one must be named."""
    root = make_workspace(tmp_path / "w")
    two = ["first:: sentinel.agreement.count=1..3", "second:: sentinel.flips.count=1..3"]
    assert new(root, "x", "--draft", band=two, primary="first").code == 0
    edit(root / REG, "primary: first\n", "")
    refused(root, "lock", "x", code=2, says=("does not say which claim", "first, second"))
    edit(root / REG, "prereg: 1\n", "prereg: 1\nprimary: third\n")
    refused(root, "lock", "x", code=2, says=("is the id of no band or prediction",))


def test_do_not_say_what_happens_to_missing_data(tmp_path: Path) -> None:
    """Forgotten elsewhere: "what happens to missing data". Without the rule there is no lock."""
    root = make_workspace(tmp_path / "w")
    assert new(root, "x").code == 0
    edit(root / REG, "missing: disagree\n", "")
    refused(root, "lock", "x", code=2, says=("missing",))


def test_what_was_known_and_why_so_many_stand_beside_the_verdict(tmp_path: Path) -> None:
    """Forgotten elsewhere: "what was already known and how; why this sample size"."""
    root = make_workspace(tmp_path / "w")
    why, seen = "all the rows that there are", "a pilot on four other rows"
    locked(root, "x", why_so_many=why, seen=seen)
    scored_run(root, passes, code=0)
    score_says(root, f"rows {why}", f"seen before {seen}", code=0)


def test_let_the_due_date_pass_in_silence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Forgotten elsewhere: "a date by which results are due, with a visible "no result""."""
    root = make_workspace(tmp_path / "w")
    locked(root, "x", due="2031-01-31")
    set_clock(monkeypatch, "2031-01-31T23:50:00")
    (line,) = prereg("status", "--json", root=root).json
    assert (line["due"], line["overdue"]) == ("2031-01-31", False)
    set_clock(monkeypatch, "2031-02-01T00:00:00")
    (line,) = prereg("status", "--json", root=root).json
    assert line["overdue"]
    assert "2031-01-31 OVERDUE" in " ".join(prereg("status", root=root).out.split())


def test_withdraw_without_a_trace(tmp_path: Path) -> None:
    """Forgotten elsewhere: "withdrawal that leaves a tombstone". It cannot be deleted unseen, no
    run can begin, and the failed run's verdict names it.
    """
    root = failed(tmp_path)
    reason = "it was not going well"
    assert prereg("withdraw", "x", "--reason", reason, root=root).code == 0
    stone = root / "registrations/x.withdrawn.json"
    assert json.loads(stone.read_bytes())["reason"] == reason
    verify(root).shown("it was withdrawn at", reason, "its tombstone")
    refused(root, "run", "x", "--again", code=2, says=("was withdrawn", reason))
    score_says(root, "The registration was withdrawn at", reason, "FAIL", code=1)
    stone.unlink()
    verify(root).caught("registrations/x.withdrawn.json", "the tombstone is missing or changed")
