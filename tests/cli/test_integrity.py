"""Whatever was changed after the lock or after the call is refused with 5, naming the file."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from prereg_judge.canon import canonical_json, sha256_bytes
from prereg_judge.errors import IntegrityError
from prereg_judge.flow.running import run_registration
from prereg_judge.flow.scoring import score_registration
from prereg_judge.ledger.book import Ledger
from prereg_judge.record.run import read_record, write_manifest
from prereg_judge.workspace import Workspace
from support import (
    Done,
    ScriptedBackend,
    locked,
    make_workspace,
    model_path,
    new,
    prereg,
    rechained,
    run_scripted,
    stop_after,
    verdict_reply,
    with_tip,
)

RUN = "runs/x/1"
ATTEMPTS = f"{RUN}/attempts.jsonl"
MANIFEST = f"{RUN}/manifest.json"
PLAN = f"{RUN}/plan.jsonl"
PROMPTS = f"{RUN}/prompts.jsonl"
LEDGER = "registrations/ledger.jsonl"
TIP = "registrations/ledger.tip"
REG = "registrations/x.yaml"
LOCK = "registrations/x.lock.json"
DATA = "sentinels/small.jsonl"
JUDGE_FILE = "judge/yes-no.yaml"
T = TypeVar("T")
Tamper = Callable[[Path], None]


def says_no_but_once(key: str, _before: int) -> str:
    """NO to all, but YES to one row in its first pass: 3 of 4 rows agree, and the band holds."""
    return verdict_reply("YES" if key == "sentinel/r00/ab/1" else "NO")


@pytest.fixture(scope="module")
def finished_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A registration `x` with one finished and scored run, and `y`, locked beside it."""
    root = make_workspace(tmp_path_factory.mktemp("finished") / "w")
    locked(root, "x")
    run_scripted(root, "x", says_no_but_once)
    locked(root, "y")
    assert prereg("score", "x", root=root).code == 0
    return root


@pytest.fixture
def finished(finished_once: Path, tmp_path: Path) -> Path:
    """A copy of it to tamper with."""
    return Path(shutil.copytree(finished_once, tmp_path / "w"))


@pytest.fixture(scope="module")
def unfinished_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A registration `x` whose run was killed in its sixth call, resumed, and killed again."""
    root = make_workspace(tmp_path_factory.mktemp("unfinished") / "w")
    locked(root, "x")
    stop_after(root, "x", 3, says_no_but_once)
    stop_after(root, "x", 2, says_no_but_once)
    return root


@pytest.fixture
def unfinished(unfinished_once: Path, tmp_path: Path) -> Path:
    """A copy of it to tamper with."""
    return Path(shutil.copytree(unfinished_once, tmp_path / "u"))


def invalid(done: Done, *fragments: str) -> None:
    """The command ended with 5 and nothing on standard output, naming every fragment."""
    assert done.code == 5, done
    assert done.out == ""
    assert "Traceback" not in done.err
    assert "INVALID" in done.err
    for fragment in fragments:
        assert fragment in done.err


def change(file: str, by: Callable[[bytes], bytes]) -> Tamper:
    """Replace a file's content by a function of it."""

    def tamper(root: Path) -> None:
        before = (root / file).read_bytes()
        after = by(before)
        assert after != before
        (root / file).write_bytes(after)

    return tamper


def append(file: str, data: bytes = b"\n") -> Tamper:
    """Add bytes at the end of a file."""
    return change(file, lambda raw: raw + data)


def edit(file: str, old: bytes, new_: bytes, *, nth: int = 1) -> Tamper:
    """Change the nth occurrence of some bytes, which must be there."""

    def by(raw: bytes) -> bytes:
        parts = raw.split(old)
        assert len(parts) > nth, (file, old)
        return old.join(parts[:nth]) + new_ + old.join(parts[nth:])

    return change(file, by)


def delete(file: str) -> Tamper:
    """Delete a file."""
    return lambda root: (root / file).unlink()


def lines(file: str, by: Callable[[list[bytes]], list[bytes]]) -> Tamper:
    """Change the list of a file's lines."""
    return change(file, lambda raw: b"".join(a + b"\n" for a in by(raw.splitlines())))


def rechain(file: str, by: Callable[[list[dict[str, Any]]], list[dict[str, Any]]]) -> Tamper:
    """Change a chain's lines as values and make every hash right again."""
    return change(file, lambda raw: rechained(raw, by))


def turned(values: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The one YES is made a NO, reply and verdict."""
    (line,) = [v for v in values if v.get("verdict") == "YES"]
    line |= {"verdict": "NO", "text": verdict_reply("NO")}
    return values


def with_manifest(tamper: Tamper) -> Tamper:
    """Tamper, and write a manifest that says the files are right."""

    def both(root: Path) -> None:
        tamper(root)
        manifest = json.loads((root / RUN / "manifest.json").read_bytes())
        for name in manifest["files"]:
            manifest["files"][name] = sha256_bytes((root / RUN / name).read_bytes())
        (root / RUN / "manifest.json").write_bytes(canonical_json(manifest) + b"\n")

    return both


def swapped(at: int) -> Callable[[list[T]], list[T]]:
    """Exchange the lines `at` and `at + 1`."""
    return lambda x: [*x[:at], x[at + 1], x[at], *x[at + 2 :]]


def without(at: int) -> Callable[[list[T]], list[T]]:
    """Leave a line out."""
    return lambda x: [*x[:at], *x[at + 1 :]]


def doubled(at: int) -> Callable[[list[T]], list[T]]:
    """Have a line twice."""
    return lambda x: [*x[: at + 1], *x[at:]]


def last(**values: Any) -> Callable[[list[dict[str, Any]]], list[dict[str, Any]]]:
    """Give the last line these values."""
    return lambda x: [*x[:-1], {**x[-1], **values}]


def other_lock(root: Path) -> None:
    """Put the lock of `y` in the place of that of `x`."""
    shutil.copyfile(root / "registrations/y.lock.json", root / LOCK)


@dataclass(frozen=True)
class Cheat:
    """What is done, and the file that must be named."""

    name: str
    file: str
    tamper: Tamper


# Found by every verb that reads the lock: `run` and `score` alike.
LOCKED = [
    Cheat("edit the bar", REG, edit(REG, b"[1, 3]", b"[1, 2]")),
    Cheat("add a comment", REG, append(REG, b"# late\n")),
    Cheat("other line ends", REG, lines(REG, lambda x: [a + b"\r" for a in x])),
    Cheat("edit the data", DATA, edit(DATA, b"NO", b"YES")),
    Cheat("add to the data", DATA, append(DATA)),
    Cheat("delete the data", DATA, delete(DATA)),
    Cheat("edit the judge prompt", JUDGE_FILE, edit(JUDGE_FILE, b"animal", b"Animal")),
    Cheat("add to the judge", JUDGE_FILE, append(JUDGE_FILE)),
    Cheat("edit the lock", LOCK, edit(LOCK, b'"n_trials": 8', b'"n_trials": 9')),
    Cheat("add to the lock", LOCK, append(LOCK)),
    Cheat("delete the lock", LOCK, delete(LOCK)),
    Cheat("empty the lock", LOCK, change(LOCK, lambda _: b"")),
    Cheat("another registration's lock", LOCK, other_lock),
    Cheat("edit the first event", f"{LEDGER}:2", edit(LEDGER, b'"seen":"n', b'"seen":"N')),
    Cheat("edit an event", f"{LEDGER}:3", edit(LEDGER, b'"run":1', b'"run":2')),
    Cheat("an event in another form", f"{LEDGER}:2", edit(LEDGER, b'"run":1', b'"run": 1')),
    Cheat("drop the first event", f"{LEDGER}:1", lines(LEDGER, without(0))),
    Cheat("drop an event", f"{LEDGER}:2", lines(LEDGER, without(1))),
    Cheat("swap events", f"{LEDGER}:2", lines(LEDGER, swapped(1))),
    Cheat("double an event", f"{LEDGER}:3", lines(LEDGER, doubled(1))),
    Cheat("double the last event", f"{LEDGER}:6", lines(LEDGER, doubled(4))),
    Cheat("a number that is none", f"{LEDGER}:2", edit(LEDGER, b'"run":1', b'"run":%d' % 2**60)),
    Cheat("a line that is not JSON", f"{LEDGER}:2", edit(LEDGER, b'{"at"', b'{"at', nth=2)),
    Cheat("a line that is not text", f"{LEDGER}:1", edit(LEDGER, b"nothing", b"n\xffthing")),
    Cheat("half a character", f"{LEDGER}:1", edit(LEDGER, b"nothing", b"\\ud800")),
    Cheat("half a character in a key", f"{LEDGER}:1", edit(LEDGER, b'"seen"', b'"\\ud800"')),
    Cheat("cut the ledger before the lock", LOCK, lines(LEDGER, lambda x: x[:0])),
    Cheat("delete the ledger", LOCK, delete(LEDGER)),
]

COPIES = ("registration.yaml", "lock.json", "plan.jsonl", "prompts.jsonl")

# Found in the record of a finished run by `score`.
RECORD = [
    Cheat("edit a verdict", ATTEMPTS, edit(ATTEMPTS, b'"YES"', b'"NO"')),
    Cheat("edit the last verdict", ATTEMPTS, edit(ATTEMPTS, b't":"NO"', b't":"YES"', nth=7)),
    Cheat("another key in the last line", ATTEMPTS, edit(ATTEMPTS, b'"text"', b'"texu"', nth=8)),
    Cheat("edit a verdict and rehash", ATTEMPTS, rechain(ATTEMPTS, turned)),
    Cheat("the same with a manifest", MANIFEST, with_manifest(rechain(ATTEMPTS, turned))),
    Cheat("a field more, rehashed", ATTEMPTS, rechain(ATTEMPTS, last(extra=1))),
    Cheat("a list for a name, rehashed", ATTEMPTS, rechain(ATTEMPTS, last(trial=[]))),
    Cheat("a number for a list, rehashed", ATTEMPTS, rechain(ATTEMPTS, last(tokens=1))),
    Cheat("drop an attempt", ATTEMPTS, lines(ATTEMPTS, without(3))),
    Cheat("drop an attempt and rehash", ATTEMPTS, rechain(ATTEMPTS, without(3))),
    Cheat("double an attempt", ATTEMPTS, lines(ATTEMPTS, doubled(3))),
    Cheat("double an attempt and rehash", ATTEMPTS, rechain(ATTEMPTS, doubled(3))),
    Cheat("swap attempts", ATTEMPTS, lines(ATTEMPTS, swapped(2))),
    Cheat("swap attempts and rehash", ATTEMPTS, rechain(ATTEMPTS, swapped(2))),
    Cheat("cut the last attempt", ATTEMPTS, lines(ATTEMPTS, lambda x: x[:-1])),
    Cheat("cut half of the last attempt", ATTEMPTS, change(ATTEMPTS, lambda raw: raw[:-200])),
    Cheat("cut the last line end", ATTEMPTS, change(ATTEMPTS, lambda raw: raw[:-1])),
    Cheat("add half a line", ATTEMPTS, append(ATTEMPTS, b'{"at')),
    Cheat("empty the attempts", ATTEMPTS, change(ATTEMPTS, lambda _: b"")),
    Cheat("delete the attempts", ATTEMPTS, delete(ATTEMPTS)),
    Cheat("delete the manifest", MANIFEST, delete(MANIFEST)),
    Cheat("edit the manifest", MANIFEST, edit(MANIFEST, b'"trials":8', b'"trials":9')),
    Cheat("add to the manifest", MANIFEST, append(MANIFEST)),
    Cheat("empty the manifest", MANIFEST, change(MANIFEST, lambda _: b"")),
    Cheat("a manifest of another form", MANIFEST, change(MANIFEST, lambda _: b"[]")),
    Cheat("edit the plan", PLAN, edit(PLAN, b'"index":3', b'"index":2')),
    Cheat("edit a prompt", PROMPTS, edit(PROMPTS, b"table", b"Table")),
    Cheat("edit the copy", f"{RUN}/{COPIES[0]}", edit(f"{RUN}/{COPIES[0]}", b"[1, 3]", b"[1, 2]")),
    *(
        Cheat(f"{how} {name}", f"{RUN}/{name}", act(f"{RUN}/{name}"))
        for name in (*COPIES, "environment.json")
        for how, act in (("add to", append), ("delete", delete))
    ),
    *(
        Cheat(
            f"{name} with a manifest",
            PLAN if "plan" in name else MANIFEST,
            with_manifest(append(f"{RUN}/{name}")),
        )
        for name in (*COPIES, "environment.json")
    ),
]

# Found in the record of an unfinished run by `run`, before another call is made.
UNFINISHED = [
    Cheat("edit a verdict", ATTEMPTS, edit(ATTEMPTS, b'"YES"', b'"NO"')),
    Cheat("drop an attempt", ATTEMPTS, lines(ATTEMPTS, without(2))),
    Cheat("double an attempt", ATTEMPTS, lines(ATTEMPTS, doubled(2))),
    Cheat("swap attempts", ATTEMPTS, lines(ATTEMPTS, swapped(1))),
    Cheat("double the last and rehash", ATTEMPTS, rechain(ATTEMPTS, doubled(6))),
    Cheat("another prompt, rehashed", ATTEMPTS, rechain(ATTEMPTS, last(prompt="0" * 64))),
    Cheat("another place, rehashed", ATTEMPTS, rechain(ATTEMPTS, last(index=0))),
    Cheat("another number, rehashed", ATTEMPTS, rechain(ATTEMPTS, last(attempt=2))),
    Cheat("no outcome, rehashed", ATTEMPTS, rechain(ATTEMPTS, last(verdict=None))),
    Cheat("unplanned, rehashed", ATTEMPTS, rechain(ATTEMPTS, last(trial="real/r00/ab/1"))),
    Cheat("cut what the ledger knows", ATTEMPTS, lines(ATTEMPTS, lambda x: x[:2])),
    Cheat("rewrite what the ledger knows", ATTEMPTS, rechain(ATTEMPTS, turned)),
    Cheat("delete the attempts", ATTEMPTS, delete(ATTEMPTS)),
    Cheat("drop a trial of the plan", PLAN, lines(PLAN, without(7))),
    Cheat("a plan that is not JSON", PLAN, append(PLAN, b"{")),
    *(
        Cheat(f"{how} {name}", f"{RUN}/{name}", act(f"{RUN}/{name}"))
        for name in COPIES
        for how, act in (("add to", append), ("delete", delete))
    ),
]


def named(cheat: Cheat) -> str:
    """The cheat's name, for the test's id."""
    return cheat.name.replace(" ", "-")


@pytest.mark.parametrize("cheat", LOCKED, ids=named)
def test_what_was_locked_is_what_counts(cheat: Cheat, finished: Path) -> None:
    """One byte changed in anything that a lock stands on: no run, no score.

    The tip is made to fit whatever was done to the ledger: what else finds it is shown here.
    """
    cheat.tamper(finished)
    with_tip(finished)
    ledger = finished / LEDGER
    before = ledger.read_bytes() if ledger.exists() else None
    invalid(prereg("score", "x", root=finished), cheat.file)
    invalid(prereg("run", "x", "--again", root=finished), cheat.file)
    assert (ledger.read_bytes() if ledger.exists() else None) == before
    assert not (finished / "runs/x/2").exists()


@pytest.mark.parametrize("cheat", RECORD, ids=named)
def test_the_record_of_a_finished_run(cheat: Cheat, finished: Path) -> None:
    """One byte changed in what was recorded: no score, and the ledger hears of none."""
    cheat.tamper(finished)
    before = (finished / LEDGER).read_bytes()
    invalid(prereg("score", "x", root=finished), cheat.file)
    assert (finished / LEDGER).read_bytes() == before
    (run,) = prereg("show", "x", "--json", root=finished).json["runs"]
    assert run["state"] == "complete"


@pytest.mark.parametrize("cheat", UNFINISHED, ids=named)
def test_the_record_of_an_unfinished_run(cheat: Cheat, unfinished: Path) -> None:
    """A run is not resumed on a record that was changed; nothing is written then."""
    cheat.tamper(unfinished)
    before = (unfinished / LEDGER).read_bytes()
    backend = ScriptedBackend(says_no_but_once)
    with pytest.raises(IntegrityError) as caught:
        run_registration(Workspace(unfinished), "x", make_backend=lambda *_: backend)
    assert cheat.file in str(caught.value)
    assert backend.asked == []
    assert (unfinished / LEDGER).read_bytes() == before
    assert prereg("score", "x", root=unfinished).code == 5


def test_the_same_workspaces_unchanged_are_fine(finished: Path, unfinished: Path) -> None:
    """Without a cheat the finished run is scored again and the unfinished one goes on."""
    assert prereg("score", "x", root=finished).code == 0
    backend = ScriptedBackend(says_no_but_once)
    run_registration(Workspace(unfinished), "x", make_backend=lambda *_: backend)
    assert len(backend.asked) == 3
    assert prereg("score", "x", root=unfinished).code == 0


@pytest.fixture(scope="module")
def attempts(finished_once: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, bytes]:
    """A copy of the finished workspace and its attempts as they should be."""
    root = Path(shutil.copytree(finished_once, tmp_path_factory.mktemp("flip") / "w"))
    return root, (root / ATTEMPTS).read_bytes()


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_any_byte_of_the_attempts(attempts: tuple[Path, bytes], data: st.DataObject) -> None:
    """Any single byte changed in the attempts of a finished run makes it INVALID."""
    root, good = attempts
    at = data.draw(st.integers(0, len(good) - 1))
    by = data.draw(st.integers(1, 255))
    (root / ATTEMPTS).write_bytes(good[:at] + bytes([good[at] ^ by]) + good[at + 1 :])
    with pytest.raises(IntegrityError):
        score_registration(Workspace(root), "x")


@given(st.data())
@settings(max_examples=600, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_any_bytes_of_the_attempts_by_the_reader(
    attempts: tuple[Path, bytes], data: st.DataObject
) -> None:
    """Bytes changed, cut out or put in anywhere are found by the reader of records alone."""
    root, good = attempts
    at = data.draw(st.integers(0, len(good)))
    gone = data.draw(st.integers(0, 3))
    bad = good[:at] + data.draw(st.binary(max_size=3)) + good[at + gone :]
    if bad == good:
        return
    (root / ATTEMPTS).write_bytes(bad)
    with pytest.raises(IntegrityError, match=ATTEMPTS):
        read_record(root / RUN, shown=RUN)


def test_edit_the_registration_and_lock_again(finished: Path) -> None:
    """A lock over an edit is refused; the edited text does not get its own lock."""
    edit("registrations/x.yaml", b"[1, 3]", b"[1, 2]")(finished)
    before = (finished / "registrations/x.lock.json").read_bytes()
    invalid(prereg("lock", "x", root=finished), REG, "edited since", "prereg amend x")
    assert (finished / "registrations/x.lock.json").read_bytes() == before
    shown = prereg("show", "x", "--json", root=finished).json
    assert shown["state"] == "changed since the lock"
    assert any("registrations/x.yaml" in problem for problem in shown["problems"])


def test_lock_again_unchanged(finished: Path) -> None:
    """A second lock of the same text is refused as a wrong use, and says when it was locked."""
    done = prereg("lock", "x", root=finished)
    assert done.code == 2
    assert "'x' was locked at" in done.err


@pytest.mark.parametrize("edited", [False, True])
def test_delete_the_lock_and_lock_again(finished: Path, edited: bool) -> None:
    """The ledger remembers a lock whose file is gone."""
    delete("registrations/x.lock.json")(finished)
    if edited:
        edit("registrations/x.yaml", b"[1, 3]", b"[1, 2]")(finished)
    done = prereg("lock", "x", root=finished)
    assert (done.code, "edited since" in done.err) == (5, edited)
    assert not (finished / "registrations/x.lock.json").exists()


@pytest.mark.parametrize("ledger", ["cut", "deleted"])
def test_cut_the_ledger_and_lock_an_edit(finished: Path, ledger: str) -> None:
    """A lock that no ledger knows is not written over: it is the witness of the cut."""
    if ledger == "cut":
        lines(LEDGER, lambda x: x[:0])(finished)
    else:
        delete(LEDGER)(finished)
    with_tip(finished)
    edit("registrations/x.yaml", b"[1, 3]", b"[1, 2]")(finished)
    before = (finished / "registrations/x.lock.json").read_bytes()
    invalid(prereg("lock", "x", root=finished), "registrations/x.lock.json", "no ledger")
    assert (finished / "registrations/x.lock.json").read_bytes() == before
    shown = prereg("show", "x", "--json", root=finished).json
    assert shown["state"] == "changed since the lock"
    assert any("no ledger" in problem for problem in shown["problems"])


def test_a_run_that_the_ledger_does_not_know(finished: Path) -> None:
    """With the events of a run cut off, its record is in the way of a new run number 1."""
    lines(LEDGER, lambda x: x[:1])(finished)
    with_tip(finished)
    invalid(prereg("run", "x", root=finished), RUN, "no ledger knows")
    invalid(prereg("score", "x", root=finished), RUN, "the ledger does not know")
    assert (finished / ATTEMPTS).exists()


def test_drop_the_end_of_the_ledger(finished: Path) -> None:
    """Without its last events a run counts as unfinished, and is not scored."""
    lines(LEDGER, lambda x: x[:2])(finished)
    with_tip(finished)
    invalid(prereg("score", "x", root=finished), "incomplete", RUN)


# Of the ledger alone, its tip left as it was: the words are the tip's own.
LAZY = [
    Cheat("cut", "lines are gone from its end: it holds 3, it held 5",
          lines(LEDGER, lambda x: x[:3])),
    Cheat("empty", "lines are gone from its end: it holds 0, it held 5",
          lines(LEDGER, lambda x: x[:0])),
    Cheat("delete", "lines are gone from its end: it holds 0, it held 5", delete(LEDGER)),
    Cheat("rewrite", f"{LEDGER}:5: is not the line that was written here",
          rechain(LEDGER, lambda x: [{**x[0], "seen": "much"}, *x[1:]])),
    Cheat("rewrite and go on", f"{LEDGER}:5: is not the line that was written here",
          rechain(LEDGER, lambda x: [{**x[0], "seen": "much"}, *x[1:], x[-1]])),
    Cheat("another verdict at the end", f"{LEDGER}:5: is not the line that was written here",
          rechain(LEDGER, last(verdict="FAIL"))),
    Cheat("edit the tip", f"{TIP}: is not a tip", append(TIP)),
    Cheat("empty the tip", f"{TIP}: is not a tip", change(TIP, lambda _: b"")),
    Cheat("a tip of no line", f"{TIP}: is not a tip", edit(TIP, b'"lines":5', b'"lines":0')),
    Cheat("a tip ahead", "it holds 5, it held 6", edit(TIP, b'"lines":5', b'"lines":6')),
]  # fmt: skip


@pytest.mark.parametrize("cheat", LAZY, ids=named)
def test_the_tip_tells_who_changes_the_ledger_alone(cheat: Cheat, finished: Path) -> None:
    """Whatever end the ledger is given, the tip beside it says at once that it had another."""
    cheat.tamper(finished)
    ledger = finished / LEDGER
    before = ledger.read_bytes() if ledger.exists() else None
    for args in (("score", "x"), ("score", "y"), ("run", "x", "--again"), ("lock", "y")):
        invalid(prereg(*args, root=finished), cheat.file)
    assert (ledger.read_bytes() if ledger.exists() else None) == before


def test_the_wrong_model_behind_the_same_name(tmp_path: Path) -> None:
    """One byte of the weights changed: no run; with the byte restored the run is made."""
    root = make_workspace(tmp_path / "w")
    (root / "models").mkdir()
    model = root / "models/m.gguf"
    shutil.copyfile(model_path(), model)
    locked(root, "x", gguf="models/m.gguf")
    size = model.stat().st_size
    with model.open("r+b") as stream:
        stream.seek(size - 1000)
        (byte,) = stream.read(1)
        stream.seek(size - 1000)
        stream.write(bytes([byte ^ 1]))
    invalid(prereg("run", "x", root=root), "models/m.gguf", "bytes differ")
    assert not (root / RUN).exists()
    with model.open("r+b") as stream:
        stream.seek(size - 1000)
        stream.write(bytes([byte]))
    run_scripted(root, "x", says_no_but_once)
    model.unlink()
    assert prereg("score", "x", root=root).code == 0
    assert prereg("run", "x", "--again", root=root).code == 2


def says_yes_first(key: str, _before: int) -> str:
    """All rows change from YES to NO: no row agrees, and the band is missed."""
    return verdict_reply("YES" if key.endswith("/1") else "NO")


@pytest.mark.parametrize("gone", ["runs/x/1", "runs/x", "runs"])
def test_delete_a_failed_run_and_run_again(tmp_path: Path, finished_once: Path, gone: str) -> None:
    """The number of the run that was deleted is not given again, and its verdict is still told."""
    root = Path(shutil.copytree(finished_once, tmp_path / "w"))
    run_scripted(root, "y", says_yes_first)
    assert prereg("score", "y", root=root).code == 1
    shutil.rmtree(root / gone.replace("x", "y"))
    invalid(prereg("score", "y", root=root), "runs/y/1", "gone")
    done = prereg("run", "y", root=root)
    assert done.code == 2
    assert "run 1 of 'y' is finished" in done.err
    backend = ScriptedBackend(says_no_but_once)
    finished = run_registration(Workspace(root), "y", again=True, make_backend=lambda *_: backend)
    assert finished.number == 2
    told = prereg("score", "y", root=root)
    assert told.code == 0
    assert "run 2 of 2; run 1 FAIL (folder gone)" in " ".join(told.out.split())
    again = prereg("score", "y", "--json", root=root).json
    assert [(r["number"], r["ended"], r["missing"]) for r in again["runs"]] == [
        (1, "FAIL", True),
        (2, "PASS", False),
    ]
    assert any("folder of run 1 is gone" in note for note in again["notes"])
    invalid(prereg("score", "y", "--run", "1", root=root), "runs/y/1", "gone")


def test_delete_an_unfinished_run(unfinished: Path) -> None:
    """An unfinished run without its folder has to be given up in words; it stays counted."""
    shutil.rmtree(unfinished / "runs/x/1")
    invalid(prereg("run", "x", root=unfinished), "runs/x/1", "--abandon")
    invalid(prereg("score", "x", root=unfinished), "runs/x/1", "gone")
    assert prereg("run", "x", "--abandon", "disk lost", root=unfinished).code == 0
    assert run_scripted(unfinished, "x", says_no_but_once).number == 2
    told = prereg("score", "x", root=unfinished)
    assert "run 2 of 2; run 1 aborted (folder gone)" in " ".join(told.out.split())


def test_type_a_good_verdict_beside_the_reply(tmp_path: Path, finished_once: Path) -> None:
    """Edited before anything vouched for it, a verdict is read anew from the reply at resume."""
    root = Path(shutil.copytree(finished_once, tmp_path / "w"))
    stop_after(root, "y", 3, says_no_but_once)
    file = "runs/y/1/attempts.jsonl"
    rechain(file, lambda x: [{**v, "verdict": "NO"} if "verdict" in v else v for v in x])(root)
    invalid(prereg("run", "y", root=root), file, "sentinel/r00/ab/1", "makes of the recorded")


def test_call_a_half_run_complete(unfinished: Path) -> None:
    """A manifest and an event that call a run complete do not make it so."""
    values = {
        "id": "x", "run": 1, "status": "complete", "stopped_by": None, "trials": {},
        "attempts_head": None, "ledger_head": None,
    }  # fmt: skip
    sha256 = write_manifest(unfinished / RUN, values)
    Ledger(unfinished / LEDGER, LEDGER).append(
        "run_finished", ident="x", run=1, status="complete", manifest=sha256
    )
    invalid(prereg("score", "x", root=unfinished), RUN, "3 trials are not done")


def test_put_a_better_run_in_the_place_of_another(finished: Path) -> None:
    """A run's folder copied over another's is found by the ledger's hash of the manifest."""
    backend = ScriptedBackend(says_yes_first)
    run_registration(Workspace(finished), "x", again=True, make_backend=lambda *_: backend)
    assert prereg("score", "x", root=finished).code == 1
    shutil.rmtree(finished / "runs/x/2")
    shutil.copytree(finished / "runs/x/1", finished / "runs/x/2")
    invalid(prereg("score", "x", root=finished), "runs/x/2/manifest.json")


def test_a_forged_score_is_not_read(finished: Path) -> None:
    """`score` goes by the record; what lies in score.json is written anew."""
    score = finished / RUN / "score.json"
    good = score.read_bytes()
    score.write_bytes(good.replace(b'"PASS"', b'"FAIL"'))
    assert prereg("score", "x", root=finished).code == 0
    assert score.read_bytes() == good


def test_hand_the_checker_the_file_it_is_checked_against(finished: Path) -> None:
    """Registration, lock and the run's copies edited alike: the ledger's hash is the reference."""
    for file in ("registrations/x.yaml", f"{RUN}/registration.yaml"):
        edit(file, b"[1, 3]", b"[1, 2]")(finished)
    raw = (finished / "registrations/x.yaml").read_bytes()
    lock = json.loads((finished / "registrations/x.lock.json").read_bytes())
    lock["registration"] |= {"sha256": sha256_bytes(raw), "n_bytes": len(raw)}
    for file in ("registrations/x.lock.json", f"{RUN}/lock.json"):
        (finished / file).write_text(json.dumps(lock, indent=2, sort_keys=True) + "\n")
    with_manifest(lambda _root: None)(finished)
    for verb in ("run", "score"):
        invalid(prereg(verb, "x", root=finished), "registrations/x.lock.json")


def test_an_earlier_run_that_was_tampered_with(finished: Path) -> None:
    """A comparison locks the earlier run in: its record is checked at lock, at run, at score."""
    predict = "sentinel.flips_from.count[from_run=x/1,from_pass=1,verdict=NO] >= 1"
    locked(finished, "z", predict=predict)
    run_scripted(finished, "z", says_yes_first)
    assert prereg("score", "z", root=finished).code in (0, 1)
    good = (finished / ATTEMPTS).read_bytes()
    with_manifest(rechain(ATTEMPTS, turned))(finished)
    for args in (("score", "z"), ("run", "z", "--again")):
        invalid(prereg(*args, root=finished), "x/1")
    assert new(finished, "late", predict=predict).code == 0
    invalid(prereg("lock", "late", root=finished), f"{RUN}/manifest.json", "ledger")
    (finished / ATTEMPTS).write_bytes(good)
    shutil.rmtree(finished / RUN)
    invalid(prereg("score", "z", root=finished), "x/1", "missing")
