"""What had been seen before a lock, by content: whatever files are called, whatever is said."""

from __future__ import annotations

import csv
import json
import re
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from prereg_judge.flow.exposure import (
    UNTOLD,
    exposure_at_lock,
    identity_of,
    known_uses,
    ledger_events,
    level_of,
    row_hashes,
)
from prereg_judge.flow.locked import open_locked
from prereg_judge.flow.prepare import read_inputs
from prereg_judge.flow.probing import probe
from prereg_judge.flow.running import run_registration
from prereg_judge.flow.table_hashes import ROW_DIGITS
from prereg_judge.hashing import FileHashes
from prereg_judge.registration.lock import Seen
from prereg_judge.workspace import Workspace
from support import (
    JUDGE,
    Done,
    ScriptedBackend,
    locked,
    make_workspace,
    model_path,
    new,
    prereg,
    rechained,
    run_scripted,
    small_items,
    verdict_reply,
    with_tip,
    write_items,
)

ROWS = small_items(6)
OTHERS = [{**row, "text": f"{row['text']} and a dog"} for row in ROWS]
OTHER_PROMPT = JUDGE.replace("animal", "plant")
OTHER_MODEL = "0" * 64
Item = dict[str, Any]


def no(_key: str, _before: int) -> str:
    """NO, whatever is asked."""
    return verdict_reply("NO")


@pytest.fixture(scope="module")
def run_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace of six rows whose registration `x` was locked, run and scored."""
    root = make_workspace(tmp_path_factory.mktemp("exposure") / "w", n=6)
    locked(root, "x")
    run_scripted(root, "x", no)
    assert prereg("score", "x", root=root).code == 1
    return root


@pytest.fixture
def root(run_once: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    return Path(shutil.copytree(run_once, tmp_path / "w"))


def known(root: Path, ident: str, *, other_model: bool = False) -> tuple[Seen, ...]:
    """What the ledger knows of a registration's inputs now, its lock or none."""
    workspace = Workspace(root)
    inputs = read_inputs(workspace, ident)
    model = OTHER_MODEL if other_model else FileHashes().sha256(model_path())
    rows = row_hashes(inputs)
    mine = identity_of(inputs, rows, model=[model])
    return known_uses(workspace, ledger_events(workspace), mine, rows)


def lock_json(root: Path, ident: str, *, version: int = 1) -> dict[str, Any]:
    """A lock file's content."""
    path = Workspace(root).lock(ident, version)
    value: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return value


def with_level(root: Path, level: str, *, file: str = "y.yaml") -> None:
    """State an exposure level in a draft made by `new`."""
    path = root / "registrations" / file
    text = path.read_text(encoding="utf-8")
    changed = re.sub(r"(?m)^  (# )?level: \w+$", f"  level: {level}", text)
    assert changed != text
    path.write_text(changed, encoding="utf-8")


# --- By content ---------------------------------------------------------------------------------


def jsonl(*rows: Item) -> Callable[[Path], str]:
    """These rows, as JSON Lines."""

    def write(root: Path) -> str:
        write_items(root / "sentinels/mine.jsonl", rows)
        return "sentinels/mine.jsonl"

    return write


def reworded(inside: str, after: str) -> Callable[[Path], str]:
    """The rows with something put into the first word, and something at the end."""
    return jsonl(*({**r, "text": r["text"][:2] + inside + r["text"][2:] + after} for r in ROWS))


def spaced(root: Path) -> str:
    """The rows with other white space between them, other line ends, ids and labels."""
    lines = [json.dumps({**r, "id": f"n{r['id']}", "label": "YES"}, indent=None,
                        separators=(" ,  ", " : ")) for r in ROWS]  # fmt: skip
    (root / "sentinels/mine.jsonl").write_text("\r\n".join(lines) + "\r\n", newline="")
    return "sentinels/mine.jsonl"


def as_csv(root: Path) -> str:
    """The rows as a table, from last to first."""
    with (root / "sentinels/mine.csv").open("w", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, ["text", "label", "id"], extrasaction="ignore")
        writer.writeheader()
        writer.writerows(reversed(ROWS))
    return "sentinels/mine.csv"


@dataclass(frozen=True)
class Case:
    """What is registered after `x` was run, and what the ledger must then know."""

    name: str
    level: str
    same: tuple[str, ...]
    rows: int | None
    items: Callable[[Path], str] = lambda _: "sentinels/small.jsonl"
    judge: str = JUDGE
    other_model: bool = False
    role: str = "sentinel"


JUDGE_MODEL = ("judge", "model")
ALL = (*JUDGE_MODEL, "items.sentinel")
CASES = [
    Case("the same files", "full", ALL, 6),
    Case("another order of the rows", "full", ALL, 6, jsonl(*ROWS[::-1])),
    Case("other white space, ids and labels", "full", ALL, 6, spaced),
    Case("invisible characters", "full", ALL, 6, reworded("\u200b", "\u00ad")),
    Case("marks that show nothing", "full", ALL, 6, reworded("\ufe0f", "\u034f")),
    Case("blanks that are letters", "full", ALL, 6, reworded("\u3164", "\u2800")),
    Case("a full stop at the end", "full", ALL, 6, reworded("", ".")),
    Case("letter case and wide letters", "full", ALL, 6, jsonl(
        *({**r, "text": r["text"].upper().replace("A", "\uff21")} for r in ROWS))),
    Case("another order of the words", "full", ALL, 6, jsonl(
        *({**r, "text": " ".join(reversed(r["text"].split()))} for r in ROWS))),
    Case("a word more", "partly", JUDGE_MODEL, None, reworded("", " so")),
    Case("a table", "full", ALL, 6, as_csv),
    Case("as real items", "full", (*JUDGE_MODEL, "items.real"), 6, role="real"),
    Case("some of the rows", "full", ALL, 2, jsonl(*ROWS[1:3])),
    Case("some of the rows among others", "full", ALL, 1, jsonl(*OTHERS[:3], ROWS[4])),
    Case("other rows", "partly", JUDGE_MODEL, None, jsonl(*OTHERS)),
    Case("a comment in the judge file", "full", ALL, 6, judge=f"# Edited.\n{JUDGE}"),
    Case("another title of the judge", "full", ALL, 6, judge=JUDGE.replace("so?", "true?")),
    Case("another prompt", "items", ("model", "items.sentinel"), 6, judge=OTHER_PROMPT),
    Case("another prompt, other rows", "partly", ("model",), None, jsonl(*OTHERS),
         judge=OTHER_PROMPT),
    Case("another model", "items", ("judge", "items.sentinel"), 6, other_model=True),
    Case("another model, other rows", "partly", ("judge",), None, jsonl(*OTHERS),
         other_model=True),
    Case("another model and prompt", "items", ("items.sentinel",), 6, judge=OTHER_PROMPT,
         other_model=True),
    Case("another model, some rows", "items", ("judge", "items.sentinel"), 3, jsonl(*ROWS[:3]),
         other_model=True),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name.replace(" ", "-"))
def test_what_a_run_had_used_is_known_by_content(case: Case, root: Path) -> None:
    """What the new registration shares with the run before is found, however it is written."""
    items = case.items(root)
    (root / "judge/mine.yaml").write_text(case.judge, encoding="utf-8")
    files = {"sentinel": None, "real": None, case.role: items}
    band = f"{case.role}.agreement.count=0..1"
    assert new(root, "y", judge="judge/mine.yaml", band=band, **files).code == 0
    (seen,) = known(root, "y", other_model=case.other_model)
    assert (seen.id, seen.what, seen.verdicts) == ("x", "run 1", ("FAIL",))
    assert (seen.same, seen.rows, level_of([seen])) == (case.same, case.rows, case.level)


def test_nothing_in_common_is_no_exposure(root: Path) -> None:
    """Other rows for another judge and another model: the ledger knows of nothing."""
    items = jsonl(*OTHERS)(root)
    (root / "judge/mine.yaml").write_text(OTHER_PROMPT, encoding="utf-8")
    assert new(root, "y", judge="judge/mine.yaml", sentinel=items).code == 0
    assert known(root, "y", other_model=True) == ()
    assert level_of(()) == "none"


def test_a_lock_alone_exposes_nothing(tmp_path: Path) -> None:
    """What was only locked was not looked at; from the start of its run on it counts."""
    root = make_workspace(tmp_path / "w")
    locked(root, "x")
    assert new(root, "y").code == 0
    assert known(root, "y") == ()
    with pytest.raises(KeyboardInterrupt):
        run_scripted(root, "x", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt()))
    (seen,) = known(root, "y")
    assert (seen.what, seen.rows, seen.verdicts) == ("run 1", 4, ())


def test_every_run_is_an_entry_with_its_verdicts(root: Path) -> None:
    """A second run is told beside the first, each with the words that it was scored with."""
    backend = ScriptedBackend(no)
    run_registration(Workspace(root), "x", again=True, make_backend=lambda *_: backend)
    assert new(root, "y").code == 0
    assert [(s.what, s.verdicts) for s in known(root, "y")] == [("run 1", ("FAIL",)), ("run 2", ())]


def test_a_probe_exposes_the_rows_that_it_asked(root: Path) -> None:
    """Probed rows count one by one, by any judge file that asks the same."""
    items = jsonl(*OTHERS)(root)
    assert new(root, "p", sentinel=items).code == 0
    probe(Workspace(root), "p", rows=2, make_backend=lambda *_: ScriptedBackend(no))
    (told,) = [e for e in ledger_events(Workspace(root)) if e["event"] == "probe_started"]
    assert {len(row) for row in told["rows"]} == {ROW_DIGITS}
    write_items(root / "sentinels/late.jsonl", OTHERS[1:])
    assert new(root, "y", sentinel="sentinels/late.jsonl").code == 0
    run, probed = known(root, "y")
    assert (run.what, run.same) == ("run 1", JUDGE_MODEL)
    assert (probed.id, probed.what) == ("p", f"probe at {told['at']}")
    assert (probed.same, probed.rows) == (ALL, 1)
    write_items(root / "sentinels/later.jsonl", OTHERS[2:])
    assert new(root, "z", sentinel="sentinels/later.jsonl").code == 0
    assert [s.same for s in known(root, "z")] == [JUDGE_MODEL, JUDGE_MODEL]


def test_a_run_whose_lock_is_gone_is_known_by_its_own_copy(root: Path) -> None:
    """The run holds the lock's bytes too, and the ledger their hash: rows are still told apart."""
    (root / "registrations/x.lock.json").unlink()
    write_items(root / "sentinels/part.jsonl", ROWS[:5])
    assert new(root, "z", sentinel="sentinels/part.jsonl").code == 0
    (seen,) = known(root, "z")
    assert (seen.same, seen.rows) == (ALL, 5)


@pytest.mark.parametrize("gone", ["x.lock.json", "x.lock.json and x.yaml"])
def test_a_run_whose_lock_is_gone_everywhere_counts_as_if_it_shared_rows(
    gone: str, root: Path
) -> None:
    """By the ledger's own hashes the same set is known; of a part of it nobody can tell any more,
    and that is no way to lower exposure.
    """
    for name in gone.split(" and "):
        (root / "registrations" / name).unlink()
    shutil.rmtree(root / "runs/x")
    assert new(root, "y", sentinel=jsonl(*ROWS[::-1])(root)).code == 0
    (seen,) = known(root, "y")
    assert (seen.id, seen.same, seen.rows, level_of([seen])) == ("x", ALL, None, "full")
    write_items(root / "sentinels/part.jsonl", ROWS[:5])
    assert new(root, "z", sentinel="sentinels/part.jsonl").code == 0
    (seen,) = known(root, "z")
    assert (seen.same, seen.rows) == ((*JUDGE_MODEL, UNTOLD), None)
    assert level_of([seen]) == "full"


def test_a_lock_that_was_changed_is_not_believed(root: Path) -> None:
    """Rows taken out of an earlier lock hide nothing: the ledger names another lock."""
    path = root / "registrations/x.lock.json"
    lock = json.loads(path.read_text(encoding="utf-8"))
    lock["rows"] = {"items.sentinel": ["0" * ROW_DIGITS]}
    path.write_text(json.dumps(lock, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    assert new(root, "y").code == 0
    (seen,) = known(root, "y")
    assert (seen.same, level_of([seen])) == (ALL, "full")


# --- At the lock --------------------------------------------------------------------------------


def test_a_lock_tells_and_holds_what_the_ledger_knew(root: Path) -> None:
    """Printed at the lock, in its JSON, in the lock's file, in the ledger, and beside the score."""
    assert new(root, "y", seen="nothing, I say").code == 0
    told = prereg("lock", "y", root=root)
    assert told.code == 0, told.err
    assert "Exposure: full (some of these items had been run by this judge" in told.out
    sentence = "same judge, model and 6 of these rows (sentinel); scored FAIL"
    assert f"the ledger knows: run 1 of 'x' began {run_began(root)}: {sentence}" in told.out
    exposure = lock_json(root, "y")["exposure"]
    assert (exposure["stated"], exposure["level"]) == ("nothing, I say", "full")
    assert [(k["id"], k["what"], k["rows"]) for k in exposure["known"]] == [("x", "run 1", 6)]
    event = ledger_events(Workspace(root))[-1]
    assert (event["event"], event["seen"], event["exposure"]) == (
        "registered",
        "nothing, I say",
        "full",
    )
    run_scripted(root, "y", no)
    facts = prereg("score", "y", "--json", root=root).json["facts"]
    assert facts["seen before"] == "nothing, I say"
    assert facts["exposure"].startswith("full: ")
    assert sentence in facts["the ledger knew"]
    assert "'y'" not in facts["the ledger knew"]  # its own run came after its lock
    shown = " ".join(prereg("score", "y", root=root).out.split())
    assert sentence in shown
    first = prereg("score", "x", "--json", root=root).json["facts"]
    assert not first.keys() & {"exposure", "the ledger knew"}


def run_began(root: Path) -> str:
    """When run 1 of `x` began, by the ledger."""
    (at,) = [
        e["at"]
        for e in ledger_events(Workspace(root))
        if (e["event"], e["id"]) == ("run_started", "x")
    ]
    return str(at)


@pytest.mark.parametrize("level", ["none", "partly", "items"])
def test_less_than_the_ledger_knows_is_refused(level: str, root: Path) -> None:
    """The line is named and what to write; nothing is locked; and what is right then locks."""
    assert new(root, "y").code == 0
    with_level(root, level)
    before = (root / "registrations/ledger.jsonl").read_bytes()
    done = prereg("lock", "y", root=root)
    assert done.code == 2, done
    lines = (root / "registrations/y.yaml").read_text(encoding="utf-8").splitlines()
    at = lines.index(f"  level: {level}") + 1
    assert f"registrations/y.yaml:{at}: exposure.level: says less than what is known" in done.err
    assert "'full'" in done.err
    assert "rite `level: full`, or leave it out; it can be raised, never lowered" in done.err
    assert (root / "registrations/ledger.jsonl").read_bytes() == before
    assert not (root / "registrations/y.lock.json").exists()
    with_level(root, "full")
    assert prereg("lock", "y", root=root).code == 0


def test_more_than_the_ledger_knows_is_kept(tmp_path: Path) -> None:
    """What was seen outside of this workspace is the registrant's to say, and stays."""
    root = make_workspace(tmp_path / "w")
    assert new(root, "y", seen="a table in a paper").code == 0
    with_level(root, "items")
    told = prereg("lock", "y", root=root)
    assert "Exposure: items (some of these items had been run, by another" in told.out
    assert lock_json(root, "y")["exposure"] == {
        "stated": "a table in a paper",
        "level": "items",
        "known": [],
    }
    run_scripted(root, "y", no)
    facts = prereg("score", "y", "--json", root=root).json["facts"]
    assert facts["exposure"].startswith("items: ")
    assert facts["the ledger knew"] == "nothing"


def amended(root: Path, ident: str, change: Callable[[Path], None]) -> Done:
    """Both steps of an amendment, with a change between them."""
    assert prereg("amend", ident, "--reason", "a second thought", root=root).code == 0
    change(root / f"registrations/{ident}.v2.yaml")
    return prereg("amend", ident, "--reason", "a second thought", root=root)


def edited(old: str, new_: str) -> Callable[[Path], None]:
    """Replace a text that must be there."""

    def change(path: Path) -> None:
        text = path.read_text(encoding="utf-8")
        assert old in text
        path.write_text(text.replace(old, new_), encoding="utf-8")

    return change


@pytest.mark.parametrize("level", ["none", "partly", "items", None, "full"])
def test_an_amendment_does_not_unsee(level: str | None, tmp_path: Path) -> None:
    """What the version before said stays known: less is refused, and left out it is the same."""
    root = make_workspace(tmp_path / "w")
    assert new(root, "y", seen="all of it").code == 0
    with_level(root, "full")
    assert prereg("lock", "y", root=root).code == 0
    stated = f"level: {level}" if level else "# level: none"

    def change(path: Path) -> None:
        edited("  level: full", f"  {stated}")(path)
        edited("seen: all of it", "seen: nothing")(path)

    done = amended(root, "y", change)
    if level in ("none", "partly", "items"):
        assert done.code == 2
        assert "or the version before, says 'full'" in done.err
        assert not (root / "registrations/y.v2.lock.json").exists()
        return
    assert done.code == 0, done.err
    exposure = lock_json(root, "y", version=2)["exposure"]
    assert (exposure["stated"], exposure["level"]) == ("nothing", "full")


def test_an_amendment_after_a_run_has_seen_it(root: Path) -> None:
    """The registration's own run under the first version is exposure of the second, not of it."""
    assert lock_json(root, "x")["exposure"]["level"] == "none"
    done = amended(root, "x", edited("[1, 3]", "[1, 4]"))
    assert done.code == 0, done.err
    assert "the ledger knows: run 1 of 'x'" in done.out
    exposure = lock_json(root, "x", version=2)["exposure"]
    assert (exposure["level"], exposure["known"][0]["verdicts"]) == ("full", ["FAIL"])


def test_what_a_lock_knew_stays_known_when_the_other_lock_goes(root: Path) -> None:
    """The rows in common stay counted beside the score, by the lock that counted them."""
    assert new(root, "y").code == 0
    assert prereg("lock", "y", root=root).code == 0
    run_scripted(root, "y", no)
    (root / "registrations/x.lock.json").unlink()
    facts = prereg("score", "y", "--json", root=root).json["facts"]
    assert "6 of these rows (sentinel)" in facts["the ledger knew"]


def test_an_event_that_is_put_before_a_lock_adds_to_what_it_knew(root: Path) -> None:
    """What the ledger holds before a lock's event counts at scoring, whatever the lock says."""
    assert new(root, "y", sentinel=jsonl(*OTHERS)(root)).code == 0
    assert prereg("lock", "y", root=root).code == 0
    run_scripted(root, "y", no)
    ledger = root / "registrations/ledger.jsonl"

    def moved(lines: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """The probe that came last, put first."""
        return [lines[-1], *lines[:-1]]

    probe(Workspace(root), "y", rows=2, make_backend=lambda *_: ScriptedBackend(no))
    assert lock_json(root, "y")["exposure"]["level"] == "partly"
    raw = rechained(ledger.read_bytes(), lambda x: moved([e for e in x if e["event"] != "probed"]))
    ledger.write_bytes(raw)
    with_tip(root)
    done = prereg("score", "y", root=root)  # the run's own record names another ledger
    assert done.code == 5
    locked_y = open_locked(Workspace(root), "y", with_model=False)
    found = exposure_at_lock(Workspace(root), locked_y.inputs, locked_y.lock, locked_y.lock_sha256)
    assert (found.level, [s.id for s in found.known]) == ("full", ["x", "y"])
