"""Any byte or line of a workspace that is changed, dropped, doubled or moved is found by
`prereg verify`, or listed here with the reason why it does not matter or cannot be told.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from cheats.workspaces import (
    GIVEN_UP,
    LEDGER,
    MODEL,
    TIP,
    Rich,
    changed,
    concerned,
    excused,
    files,
    interrupted,
    kinds_of,
    lines_changed,
    lock,
    one_byte,
    started,
    with_model,
)
from prereg_judge.canon import canonical_json, sha256_bytes
from prereg_judge.flow.evidence import RecordCheck
from prereg_judge.flow.verifying.findings import Asked, Findings
from prereg_judge.flow.verifying.verify import verify_workspace
from prereg_judge.registration.load import load_registration
from prereg_judge.registration.schema import meaning
from prereg_judge.workspace import Workspace
from support import prereg, rechained

RECORD = f"{GIVEN_UP}/attempts.jsonl"
FUZZ = settings(
    deadline=None,
    database=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


def told(rich: Rich, name: str, after: bytes | None) -> Findings:
    """What `verify` says while a file has other bytes, or is gone."""
    with changed(rich.root, {name: after}):
        return rich.verify(concerned(name))


def must_tell(rich: Rich, name: str, after: bytes) -> None:
    """A change is a violation, or one of those that `verify` says it cannot tell."""
    before = (rich.root / name).read_bytes()
    found = told(rich, name, after)
    if excused(name, before, after):
        about = "ledger" if name == LEDGER else "x run 2 of 3"
        assert any(f.about == about for f in [*found.part("not proved"), *found.part("violated")])
    else:
        assert found.has_violation(), (name, after)


def test_nothing_is_wrong_with_what_is_damaged_below(rich: Rich) -> None:
    """Whole, the workspace has no violation, its locks were seen by the authority before the
    runs, and with the model there its bytes are proved too; the command says the same.
    """
    assert not rich.verify().part("violated")
    found = rich.verify("x", "first", "gone", roots=rich.roots, require=["rfc3161"])
    assert not found.part("violated")
    with_model(rich.root)
    done = prereg("verify", "gone", "--json", root=rich.root)
    (rich.root / MODEL).unlink()
    assert done.code == 0, done
    assert any("the model is the locked one" in f["what"] for f in done.json["proved"])


def test_every_file_is_evidence_or_derived_or_idle(rich: Rich) -> None:
    """No file of a workspace is forgotten by the tests below: each is of exactly one kind."""
    every = files(rich.root)
    assert {name: len(kinds_of(name)) for name in every} == dict.fromkeys(every, 1)
    assert len(files(rich.root, "evidence")) > 50


def test_a_file_that_is_deleted(rich: Rich) -> None:
    """Every file of evidence is missed."""
    for name in files(rich.root, "evidence"):
        assert told(rich, name, None).has_violation(), name


def test_a_file_that_is_emptied(rich: Rich) -> None:
    """So is what a file held, of the derived ones too."""
    for name in files(rich.root, "evidence", "derived"):
        if concerned(name) != "x" or "x/3" in name:  # of its runs one is enough
            must_tell(rich, name, b"")


def test_idle_files_do_not_matter(rich: Rich) -> None:
    """What locks between processes and logs hold, or whether they are there, changes nothing."""
    before = [str(f) for f in rich.verify("x").found]
    idle = ["registrations/.ledger.lock", "runs/x/.lock"]
    log = rich.root / "runs/x/1/worker.log"
    log.write_text("a library's chatter", encoding="utf-8")
    assert set(idle) < {*files(rich.root, "idle"), ""}
    with changed(rich.root, dict.fromkeys(idle, b"something")):
        assert [str(f) for f in rich.verify("x").found] == before
    with changed(rich.root, dict.fromkeys(idle, None)):
        assert [str(f) for f in rich.verify("x").found] == before
    log.unlink()


# --- Lines and bytes, exhaustively where the file is small or the place is weak -----------------

SMALL = [
    LEDGER,
    TIP,
    "registrations/gone.withdrawn.json",
    "registrations/gone.lock.json",
    "sentinels/small.jsonl",
    "judge/yes-no.yaml",
    "runs/x/1/manifest.json",
    "runs/x/2/plan.jsonl",
    "runs/x/2/attempts.jsonl",
]


@pytest.mark.parametrize("name", SMALL)
def test_every_line(rich: Rich, name: str) -> None:
    """Each line dropped, doubled, swapped with the next or put in by one blank; the file cut
    before it.
    """
    before = (rich.root / name).read_bytes()
    cases = {after for after in lines_changed(before) if after != before}
    assert cases
    for after in cases:
        must_tell(rich, name, after)


def weak_bytes(raw: bytes, first: int) -> Iterator[bytes]:
    """Each byte from a place on: one bit turned, a different one from byte to byte; and some of
    them dropped.
    """
    for at in range(first, len(raw)):
        yield one_byte(raw, at, 1 << at % 8)
        if not at % 8:
            yield raw[:at] + raw[at + 1 :]


@pytest.mark.parametrize("name", [LEDGER, TIP, "registrations/gone.withdrawn.json"])
def test_every_byte_of_the_weak_places(rich: Rich, name: str) -> None:
    """The ledger's last line, which no later line vouches for; its tip; a tombstone."""
    before = (rich.root / name).read_bytes()
    first = before.rfind(b"\n", 0, -1) + 1
    for after in weak_bytes(before, first):
        assert told(rich, name, after).has_violation(), after[first:]


def test_every_truncation_of_the_ledgers_end(rich: Rich) -> None:
    """Wherever the last two lines are cut, the tip knows."""
    before = (rich.root / LEDGER).read_bytes()
    third = before[: before.rfind(b"\n", 0, before.rfind(b"\n", 0, -1))].rfind(b"\n")
    for end in range(third, len(before), 11):
        assert told(rich, LEDGER, before[:end]).has_violation()


# --- Anything else, by chance -------------------------------------------------------------------


@st.composite
def damaged(draw: st.DrawFn, raw: bytes) -> bytes:
    """A file with one thing changed."""
    at, to = draw(st.integers(0, len(raw) - 1)), draw(st.integers(0, len(raw) - 1))
    low, high = min(at, to), max(at, to)
    lines = raw.splitlines(keepends=True)
    row, other = draw(st.integers(0, len(lines) - 1)), draw(st.integers(0, len(lines) - 1))
    moved = list(lines)
    moved[row], moved[other] = moved[other], moved[row]
    byte = draw(st.binary(min_size=1, max_size=1))
    line = draw(st.sampled_from([b"\n", b"{}\n", b"# a comment\n", lines[other]]))
    after = draw(
        st.sampled_from(
            [
                one_byte(raw, at, 1 << draw(st.integers(0, 7))),
                raw[:at] + byte + raw[at + 1 :],
                raw[:at] + raw[at + 1 :],
                raw[:at] + byte + raw[at:],
                raw[: at + 1] + raw[at:],
                raw[:low] + raw[high : high + 1] + raw[low + 1 : high] + raw[low : low + 1]
                + raw[high + 1 :],
                raw[:at],
                raw + byte,
                byte + raw,
                b"".join(moved),
                b"".join([*lines[:row], line, *lines[row:]]),
                b"".join([*lines[:row], line, *lines[row + 1 :]]),
            ]
        )
    )  # fmt: skip
    assume(after != raw)
    return after


@settings(FUZZ, max_examples=200)
@given(data=st.data())
def test_one_change_anywhere(rich: Rich, data: st.DataObject) -> None:
    """A byte, a line, an end or a beginning of any file that counts, changed in any way."""
    name = data.draw(st.sampled_from(files(rich.root, "evidence", "derived")))
    raw = (rich.root / name).read_bytes()
    must_tell(rich, name, data.draw(damaged(raw)))


@settings(FUZZ, max_examples=40)
@given(data=st.data())
def test_two_files_swapped(rich: Rich, data: st.DataObject) -> None:
    """Two files of different content that change places."""
    every = files(rich.root, "evidence")
    one, other = data.draw(st.sampled_from(every)), data.draw(st.sampled_from(every))
    a, b = (rich.root / one).read_bytes(), (rich.root / other).read_bytes()
    # Its environment is all that two runs may exchange where one of them was given up.
    assume(a != b and {one, other} != {f"{GIVEN_UP}/environment.json", "runs/x/3/environment.json"})
    with changed(rich.root, {one: b, other: a}):
        assert rich.verify(concerned(one), concerned(other)).has_violation(), (one, other)


@pytest.mark.parametrize("name", [LEDGER, TIP, "runs/x/1/attempts.jsonl", "runs/first/1/lock.json"])
def test_the_command_says_so(rich: Rich, name: str) -> None:
    """`prereg verify --all` ends with 5 and names the file, with no traceback, at any byte."""
    raw = (rich.root / name).read_bytes()
    with changed(rich.root, {name: one_byte(raw, len(raw) // 2, 1)}):
        done = prereg("verify", "--all", root=rich.root)
    assert done.code == 5, done
    assert (LEDGER if name == TIP else name) in done.out
    assert "Traceback" not in done.err


# --- The chain made right again -----------------------------------------------------------------

Events = list[dict[str, Any]]
Edit = Callable[[Events], Events]
SEEN = 28  # the ledger's lines that a stamp of the authority covers, and the stamp's own line
# What nobody but the ledger itself could tell, of lines that no later stamp covers and no later
# run's record hangs on. Times are this machine's, and who stamped and when is in the stamp itself.
# A probe leaves no file. That another version of the tool scored is that version's word: its
# numbers are then not demanded, which `verify` says. Lines cut from the end would need the tip.
UNTOLD = {
    *((name, "at") for name in ("run_finished", "amended", "scored", "withdrawn", "stamped")),
    *(("stamped", key) for key in ("by", "time")),
    *(("probe_started", key) for key in ("at", "id", "inputs", "rows", "trials", None)),
    *(("probed", key) for key in ("at", "id", "legs", "trials", None)),
    ("scored", "tool_source"),
}


def other_value(value: Any) -> Any:
    """Another value of the same kind."""
    match value:
        case bool() | None:
            return "other"
        case int() | float():
            return value + 1
        case str() if len(value) == 24 and value.endswith("Z"):
            return value[:-2] + ("1Z" if value[-2] == "0" else "0Z")
        case str():
            return value[:-1] + ("0" if value[-1:] != "0" else "1")
        case list():
            return [*value, "more"]
        case _:
            return {**value, "more": "more"}


def made_right(rich: Rich, by: Callable[[Events], Events]) -> dict[str, bytes | None]:
    """The ledger changed as values, with every hash and its tip made right again."""
    ledger = rechained((rich.root / LEDGER).read_bytes(), by)
    whole = ledger.splitlines()
    tip = canonical_json({"head": sha256_bytes(whole[-1]), "lines": len(whole)}) + b"\n"
    return {LEDGER: ledger, TIP: tip}


def edits(events: Events) -> Iterator[tuple[int, str | None, Edit]]:
    """Each line, each of its keys: another value, one of another kind, or none; the line gone."""

    def with_line(at: int, *lines: dict[str, Any]) -> Edit:
        return lambda e: [*e[:at], *lines, *e[at + 1 :]]

    for at, event in enumerate(events):
        for key in [k for k in event if k != "prev"]:
            values: list[Any] = [other_value(event[key]), ["x"], {}, None, 7]
            for value in values:
                if value != event[key]:
                    yield at, key, with_line(at, {**event, key: value})
            yield at, key, with_line(at, {k: v for k, v in event.items() if k != key})
        yield at, None, with_line(at)


def test_a_ledger_line_edited_and_every_hash_made_right(rich: Rich) -> None:
    """The stamps tell of every line that they cover, in whatever way it was edited; of later
    lines everything is told but what is listed above. Nothing crashes on it.
    """
    events: Events = [json.loads(x) for x in (rich.root / LEDGER).read_bytes().splitlines()]
    assert events[SEEN - 1]["event"] == "stamped"
    untold = set()
    for n, (at, key, edit) in enumerate(edits(events)):
        if at + 1 < SEEN and n % 25:
            continue  # the stamps tell of any; some of the ways are enough
        with changed(rich.root, made_right(rich, edit)):
            found = rich.verify(*{str(events[at]["id"]) or "gone"})
        violated = [f for f in found.part("violated") if at + 1 >= SEEN or "stamps/" in f.what]
        if not violated:
            untold.add((events[at]["event"], key))
    assert untold == UNTOLD


def doubled(events: Events, at: int) -> Events:
    """A line twice."""
    return [*events[: at + 1], *events[at:]]


def swapped(events: Events, at: int) -> Events:
    """A line after the next."""
    return [*events[:at], *events[at + 1 : at + 2], events[at], *events[at + 2 :]]


def last(events: Events, at: int) -> Events:
    """A line at the end."""
    return [*events[:at], *events[at + 1 :], events[at]]


def test_ledger_lines_doubled_or_moved_and_every_hash_made_right(rich: Rich) -> None:
    """Doubled, swapped with the next or moved to the end, a line is told; but a probe, or a
    scoring that is doubled or moved among lines of other registrations, after the last run.
    """
    events: Events = [json.loads(x) for x in (rich.root / LEDGER).read_bytes().splitlines()]
    untold = set()
    for at, event in enumerate(events):
        for way in (doubled, swapped, last):
            if way(events, at) == events:
                continue
            with changed(rich.root, made_right(rich, lambda e, w=way, a=at: w(e, a))):  # type: ignore[misc]
                found = rich.verify(*{e["id"] for e in events[at : at + 2] if e["id"]} or {"gone"})
            if not found.has_violation():
                untold.add((at, event["event"], way))
    assert {name for _, name, _ in untold} <= {"scored", "probe_started", "probed"}
    assert min(at for at, *_ in untold) > max(
        at for at, e in enumerate(events) if e["event"] == "run_finished"
    )


def test_a_record_line_edited_and_its_chain_made_right(rich: Rich) -> None:
    """Of a finished run the manifest tells, whose hash is in the ledger. A run that was given up
    has none: there every verdict must still follow from its reply, every attempt be planned.
    """
    raw = (rich.root / RECORD).read_bytes()
    lines: Events = [json.loads(x) for x in raw.splitlines()]
    for number, (at, key, edit) in enumerate(edits(lines)):
        if at in (0, 1, len(lines) - 1) and not number % 7:
            found = told(rich, RECORD, rechained(raw, edit))
            must = key in ("verdict", "trial", "index", "prompt", "event", "attempt")
            assert found.has_violation() or not must, (at, key)
    finished = "runs/chosen/1/attempts.jsonl"
    raw = (rich.root / finished).read_bytes()
    for at, key, edit in edits([json.loads(x) for x in raw.splitlines()][-1:]):
        after = rechained(raw, lambda e, f=edit: [*e[:-1], *f(e[-1:])])  # type: ignore[misc]
        assert told(rich, finished, after).has_violation(), (at, key)


# --- Before the lock ----------------------------------------------------------------------------


@settings(FUZZ, max_examples=100)
@given(data=st.data())
def test_white_space_between_keys_does_not_matter_before_the_lock(
    rich: Rich, data: st.DataObject
) -> None:
    """Blank lines, comments and blanks at the ends of lines that end a value leave the meaning
    what it was; after the lock every one of them is a violation.
    """
    name = "registrations/gone.yaml"
    raw = (rich.root / name).read_bytes()
    lines = raw.splitlines(keepends=True)
    # Not inside a text that goes on over several lines.
    top = [n for n, line in enumerate(lines) if not line.startswith((b" ", b"-", b"#", b"\n"))]
    at = data.draw(st.sampled_from(top))
    put = data.draw(st.sampled_from([b"\n", b"\n\n", b"# a remark\n", b"  # indented\n", b" \n"]))
    after = b"".join([*lines[:at], put, *lines[at:]])
    with changed(rich.root, {name: after}):
        path = rich.root / name
        now = load_registration(path, shown=name)
        found = rich.verify("gone")
    then = load_registration(rich.root / name, shown=name)
    assert canonical_json(meaning(now.model)) == canonical_json(meaning(then.model))
    assert found.has_violation()


# --- An unfinished run --------------------------------------------------------------------------


def test_the_end_of_an_unfinished_run_is_not_proved(tmp_path_factory: Any) -> None:
    """Of a run that is not finished, attempts cut from its end are not missed, and `verify` says
    that they could be; what the ledger saw when it was resumed is.
    """
    root = started(tmp_path_factory.mktemp("unfinished") / "w")
    lock(root, "x")
    interrupted(root, "x", 3)
    interrupted(root, "x", 2)
    (root / MODEL).unlink()
    path = root / "runs/x/1/attempts.jsonl"
    raw = path.read_bytes()
    lines = raw.splitlines(keepends=True)
    resumed = next(n for n, line in enumerate(lines) if b'"session"' in line)
    assert 0 < resumed < len(lines) - 1
    for keep in range(len(lines) + 1):
        path.write_bytes(b"".join(lines[:keep]))
        found = verify_workspace(Workspace(root), ["x"], Asked())
        assert found.has_violation() == (keep < resumed), keep
        said = [f.what for f in found.part("not proved") if f.about == "x run 1 of 1"]
        assert keep < resumed or "could be changed or cut" in said[0]


# --- Not more than once -------------------------------------------------------------------------


def test_each_record_is_read_against_its_judge_once(
    rich: Rich, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A verification of several runs goes through each of their records once, though the score of
    every run names what is wrong with the others.
    """
    made = []
    before = RecordCheck.__init__

    def counted(self: RecordCheck, *args: Any) -> None:
        made.append(args[1].number)
        before(self, *args)

    monkeypatch.setattr(RecordCheck, "__init__", counted)
    assert not rich.verify("x").has_violation()
    assert sorted(made) == [1, 2, 3]


def test_a_damaged_run_is_named_in_the_scores_of_the_others(rich: Rich) -> None:
    """Where a run was changed, the scores of the others are not what they were by that alone:
    one violation, of that run.
    """
    name = "runs/x/1/attempts.jsonl"
    raw = (rich.root / name).read_bytes()
    found = told(rich, name, one_byte(raw, 100, 1))
    assert {f.about for f in found.part("violated")} == {"x run 1 of 3"}
