"""Cheats on what stands behind a registration: data, scorer, judge, model, what had been seen."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import prereg_judge
from cheats.cheating import (
    DATA,
    ELSEWHERE,
    LOCK,
    REG,
    edit,
    failed,
    fails,
    locked_only,
    passed,
    passes,
    refused,
    rewrite,
    score_says,
    scored_run,
    verify,
)
from engine.openai.scripted_server import serving
from prereg_judge.canon import sha256_bytes
from prereg_judge.registration.lock import tool_source_sha256
from support import Done, locked, make_workspace, model_path, new, prereg, small_items, write_items

PACKAGE = Path(prereg_judge.__file__).parent

# --- edit metric code or data after lock ----------------------------------------------------------


def test_edit_data_after_lock(tmp_path: Path) -> None:
    """Cheat: "edit metric code or data after lock". A text, a label, a kind, an empty line."""
    root = failed(tmp_path)
    good = (root / DATA).read_bytes()
    for old, new_ in (("table 0", "tables"), ('"NO"', '"YES"'), ('"b"', '"a"'), ("\n", "\n\n")):
        edit(root / DATA, old, new_)
        for args in (("score", "x"), ("run", "x", "--again")):
            refused(root, *args, says=(DATA, "was changed after the lock"))
        verify(root).caught(DATA, "was changed after the lock")
        (root / DATA).write_bytes(good)
    score_says(root, "Verdict: FAIL", code=1)


def test_edit_data_after_lock_and_back(tmp_path: Path) -> None:
    """Cheat: "edit metric code or data after lock", for the run only. No run is made so."""
    root = locked_only(tmp_path)
    good = (root / DATA).read_bytes()
    edit(root / DATA, "table 0", "cat 0")
    refused(root, "run", "x", says=(DATA, "was changed after the lock"))
    (root / DATA).write_bytes(good)
    verify(root).open("there is no run yet")


def other_tool(folder: Path, *, lies: bool = False) -> Path:
    """Copy the installed tool and edit its scorer: every row counts as agreeing but one.

    If it `lies`, it also gives itself the hash of the source that it was copied from.
    """
    copy = folder / "prereg_judge"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    edit(
        copy / "study/row_questions.py", "lambda row: row.same,", 'lambda row: "0" in row.item.id,'
    )
    edit(
        copy / "study/row_questions.py",
        '"0" in row',
        'not row.item.id.endswith("00") or "z" in row',
    )
    if lies:
        line = 'return sha256_value("tool-source", listing)'
        edit(copy / "registration/lock.py", line, f"return {tool_source_sha256()!r}")
    return folder


def by(tool: Path, root: Path, *args: str) -> Done:
    """Run the command from another copy of the tool, in a process of its own."""
    code = "from prereg_judge.cli.main import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code, "--root", str(root), *args],
        env={**os.environ, "PYTHONPATH": str(tool), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    return Done(done.returncode, done.stdout, done.stderr)


def test_edit_metric_code_after_lock(tmp_path: Path) -> None:
    """Cheat: "edit metric code or data after lock". Which version locked and which scored stands
    beside the verdict, with both results, whoever scores last.
    """
    root = failed(tmp_path)
    here = tool_source_sha256()[:12]
    tool = other_tool(tmp_path / "tool")
    done = by(tool, root, "score", "x", "--json")
    assert (done.code, done.json["verdict"]) == (0, "PASS"), done
    theirs = done.json["provenance"]["tool"]["source_sha256"][:12]
    assert theirs != here
    notes = " ".join(done.json["notes"])
    assert f"Scored by another version of this tool (source {theirs}) than locked it" in notes
    assert f"Scored by source {here}, which locked it, at " in notes
    assert ": FAIL with OTHER numbers than now." in notes
    verify(root).open("FAIL by this version", f"source {theirs} scored PASS", "not the same")
    score_says(
        root, f"Scored by source {theirs} at ", ": PASS with OTHER numbers than now.", code=1
    )


def test_edit_metric_code_that_lies_about_itself(tmp_path: Path) -> None:
    """Cheat: "edit metric code or data after lock", and give it the honest version's hash. The
    honest version computes it again.
    """
    root = failed(tmp_path)
    tool = other_tool(tmp_path / "tool", lies=True)
    done = by(tool, root, "score", "x", "--json")
    assert (done.code, done.json["verdict"]) == (0, "PASS"), done
    assert "version of this tool" not in " ".join(done.json["notes"])
    verify(root).caught("computed again it is FAIL, and PASS is on record with other numbers")


@pytest.mark.model
def test_edit_metric_code_before_the_run(tmp_path: Path) -> None:
    """Cheat: "edit metric code or data after lock". A run made by the edited version says so."""
    root = locked_only(tmp_path)
    tool = other_tool(tmp_path / "tool")
    done = by(tool, root, "run", "x")
    assert done.code == 0, done
    done = prereg("score", "x", root=root)
    assert done.code in (0, 1), done
    told = " ".join(done.out.split())
    assert "The run was made by another version of this tool (source " in told
    assert f"than locked it (source {tool_source_sha256()[:12]})" in told
    verify(root).clean()


# --- edit the judge prompt, swap the model behind the same name -----------------------------------


def test_edit_the_judge_prompt(tmp_path: Path) -> None:
    """Cheat: "edit the judge prompt", at the same path. Found by its content, at run and score."""
    root = passed(tmp_path)
    edit(root / "judge/yes-no.yaml", "about an animal", "about NO animal")
    for args in (("score", "x"), ("run", "x", "--again")):
        refused(root, *args, says=("judge/yes-no.yaml", "was changed after the lock"))
    verify(root).caught("judge/yes-no.yaml", "was changed after the lock")


def test_swap_the_model_behind_the_same_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cheat: "swap the model behind the same name". One byte flipped in place, the time of
    modification set back; the file's hash was remembered from the lock.
    """
    monkeypatch.setenv("PREREG_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("prereg_judge.hashing.SETTLED_NS", 0)  # also of a file made just now
    root = make_workspace(tmp_path / "w")
    model = root / "models/m.gguf"
    model.parent.mkdir()
    shutil.copyfile(model_path(), model)
    locked(root, "x", gguf="models/m.gguf")
    assert any((tmp_path / "cache").iterdir())
    before = model.stat()
    with model.open("r+b") as stream:
        stream.seek(-1000, os.SEEK_END)
        (byte,) = stream.read(1)
        stream.seek(-1, os.SEEK_CUR)
        stream.write(bytes([byte ^ 1]))
    os.utime(model, ns=(before.st_atime_ns, before.st_mtime_ns))
    after = model.stat()
    same = (before.st_size, before.st_mtime_ns, before.st_ino)
    assert (after.st_size, after.st_mtime_ns, after.st_ino) == same
    refused(root, "run", "x", says=("models/m.gguf", "bytes differ from those that were locked"))
    verify(root).caught("models/m.gguf", "bytes differ from those that were locked")


def served(root: Path, url: str) -> None:
    """Lock `x`, whose model is served."""
    make_workspace(root)
    done = new(
        root, "x", "--lock", gguf=None, n_ctx=None, gpu_layers=None, base_url=[url],
        served_model="small", decoding="seeded,seed=7,temperature=1,top_k=0,top_p=1,min_p=0",
        hang="20s,retries=1",
    )  # fmt: skip
    assert done.code == 0, done
    assert "a served model cannot be hashed" in done.err
    assert "which is weaker" in done.err


def test_swap_a_served_model_behind_the_same_name(tmp_path: Path) -> None:
    """Cheat: "swap the model behind the same name", at a server that says another file than at the
    lock: no call is made.
    """
    root = tmp_path / "w"
    with serving() as server:
        served(root, server.url)
        server.pages["/props"][1]["model_path"] = "/models/better.gguf"
        done = prereg("run", "x", root=root)
        assert done.code not in (0, 1)
        assert "is not what it was when the registration was locked" in done.err
        assert "model_file (found 'small.gguf' then, 'better.gguf' now)" in done.err
        assert server.bodies == []


def test_swap_a_served_model_that_says_nothing_of_it(tmp_path: Path) -> None:
    """Cheat: "swap the model behind the same name", at a server that says what it said before.
    That cannot be found, and `verify` says so.
    """
    root = tmp_path / "w"
    with serving() as server:
        served(root, server.url)
        assert prereg("run", "x", root=root).code == 0
    told = verify(root)
    told.clean()
    told.open("x: which weights answered: the model is served", "that is weaker than bytes")
    done = prereg("score", "x", root=root)
    assert "its weights are not hashed" in " ".join(done.out.split())


# --- claim "nothing seen" after having seen -------------------------------------------------------


def as_csv(root: Path) -> str:
    """The same items in a file of another kind, in another order."""
    rows = small_items(4)[::-1]
    lines = [",".join(rows[0]), *(",".join(map(str, row.values())) for row in rows)]
    (root / "sentinels/other.csv").write_text("\n".join(lines) + "\n")
    return "sentinels/other.csv"


def test_claim_nothing_seen_after_having_seen(tmp_path: Path) -> None:
    """Cheat: "claim "nothing seen" after having seen". The lock knows better, in any file: the
    same, a part of it, with other ids and further rows, as CSV and turned round.
    """
    root = failed(tmp_path)
    same = small_items(4)
    others = [{**row, "id": f"new-{row['id']}"} for row in same]
    files = {"part": same[:3], "more": [*others, *small_items(6)[4:]]}
    names = {"same": DATA, "csv": as_csv(root)}
    for ident, rows in files.items():
        names[ident] = f"sentinels/{ident}.jsonl"
        write_items(root / names[ident], rows)
    for ident, name in names.items():
        done = new(root, ident, "--lock", sentinel=name, seen="nothing")
        assert done.code == 0, done
        told = " ".join(done.out.split())
        assert "Exposure: full (some of these items had been run by this judge and this" in told
        n_rows = 3 if ident == "part" else 4
        assert f"same judge, model and {n_rows} of these rows (sentinel); scored FAIL" in told
        lock = json.loads((root / f"registrations/{ident}.lock.json").read_bytes())
        assert (lock["exposure"]["stated"], lock["exposure"]["level"]) == ("nothing", "full")


def test_claim_nothing_seen_in_the_score(tmp_path: Path) -> None:
    """Cheat: "claim "nothing seen" after having seen". It stands beside the verdict."""
    root = failed(tmp_path)
    locked(root, "y", seen="nothing")
    scored_run(root, passes, code=0, ident="y")
    said = " ".join(prereg("score", "y", root=root).out.split())
    assert "seen before nothing" in said
    assert "exposure full: some of these items had been run by this judge" in said
    assert "the ledger knew run 1 of 'x' began" in said
    verify(root, "y").shown("exposure 'full'", "computed again from the ledger")


def test_claim_level_none_after_having_seen(tmp_path: Path) -> None:
    """Cheat: "claim "nothing seen" after having seen". It can be raised, never lowered."""
    root = failed(tmp_path)
    assert new(root, "y", seen="nothing").code == 0
    file = root / "registrations/y.yaml"
    edit(file, "  # level: full", "  level: none")
    where = "registrations/y.yaml:"
    refused(
        root, "lock", "y", code=2, says=(where, "exposure.level", "rite `level: full`, or leave")
    )
    edit(file, "  level: none", "  level: full")
    assert prereg("lock", "y", root=root).code == 0


def test_lower_the_exposure_in_the_lock(tmp_path: Path) -> None:
    """Cheat: "claim "nothing seen" after having seen", typed into lock and ledger afterwards."""
    root = failed(tmp_path)
    locked(root, "y", seen="nothing")
    path = root / "registrations/y.lock.json"
    lock = json.loads(path.read_bytes())
    lock["exposure"] |= {"level": "none", "known": []}
    path.write_text(json.dumps(lock, indent=2, sort_keys=True) + "\n")
    told = {"lock": sha256_bytes(path.read_bytes()), "exposure": "none"}
    rewrite(root, lambda e: [*e[:-1], {**e[-1], **told}])
    verify(root, "y").caught("more had been seen by the lock than the lock says")


def test_delete_what_was_seen(tmp_path: Path) -> None:
    """Cheat: "claim "nothing seen" after having seen", the old registration deleted with its lock
    and its runs. The ledger has the hashes, and `verify` misses the files.
    """
    root = failed(tmp_path)
    for name in (REG, LOCK):
        (root / name).unlink()
    shutil.rmtree(root / "runs/x")
    done = new(root, "y", "--lock", seen="nothing")
    assert "Exposure: full" in done.out
    assert "run 1 of 'x'" in " ".join(done.out.split())
    told = verify(root, "--all")
    told.caught("the lock is missing")
    told.caught("x run 1 of 1: runs/x/1: the ledger counts this run (FAIL), and its folder is gone")


def test_look_at_it_in_a_copy(tmp_path: Path) -> None:
    """Cheat: "claim "nothing seen" after having seen", in another folder. Nothing here can know
    that, and `verify` says that it does not.
    """
    failed(tmp_path)  # elsewhere
    root = make_workspace(tmp_path / "here")
    locked(root, "x", seen="nothing")
    told = verify(root)
    told.clean()
    told.shown("exposure 'none'", "all uses in this ledger by then")
    told.open("any witness", ELSEWHERE, "only what went through this ledger is known")


def test_register_it_twice_and_show_the_one_that_passes(tmp_path: Path) -> None:
    """Cheat: "claim "nothing seen" after having seen": several bands, each locked before any run,
    and only the good one shown. Beside it stands what else was tried on the same.
    """
    root = locked_only(tmp_path)
    locked(root, "y", band="sentinel.agreement.count=0..3")
    scored_run(root, fails, code=1)
    scored_run(root, fails, code=0, ident="y")
    told = verify(root, "y")
    told.clean()
    told.shown("exposure 'none'")
    told.open("that it is the only one of its kind", "run 1 of 'x'", "4 of these rows", "FAIL")


def test_delete_the_lock_and_take_a_part(tmp_path: Path) -> None:
    """Cheat: "claim "nothing seen" after having seen": a part of the items, and the old lock, which
    knew them row by row, deleted with the run's copy of it. It counts as if the rows were shared.
    """
    root = failed(tmp_path)
    for name in (REG, LOCK):
        (root / name).unlink()
    shutil.rmtree(root / "runs/x")
    write_items(root / "sentinels/part.jsonl", small_items(3))
    done = new(root, "y", "--lock", sentinel="sentinels/part.jsonl", seen="nothing")
    assert "Exposure: full" in done.out
    assert "run 1 of 'x'" in " ".join(done.out.split())
    told = verify(root, "y")
    told.open("run 1 of 'x'", "its lock is not here")
    verify(root, "--all").caught("the lock is missing")


# --- put something else in the registration's place -----------------------------------------------


@pytest.mark.parametrize("kind", ["device", "pipe"])
def test_put_a_device_or_a_pipe_in_the_registrations_place(kind: str, tmp_path: Path) -> None:
    """Cheat: a command that reads it would read, or wait, for ever. None does, and each says so."""
    root = failed(tmp_path)
    for name in (REG, "registrations/draft.yaml", LOCK):
        (root / name).unlink(missing_ok=True)
        if kind == "device":
            (root / name).symlink_to("/dev/null")
        else:
            os.mkfifo(root / name)
    said = "is not a regular file"
    for verb in ("score", "run", "lock"):
        refused(root, verb, "x", says=(REG, said))
        refused(root, verb, "draft", code=2, says=("registrations/draft.yaml", said))
    for ident in ("x", "draft"):
        told = prereg("show", ident, "--json", root=root)
        assert (told.code, told.json["registration"], told.json["lock"]) == (0, None, None)
        assert any(said in problem for problem in told.json["problems"])
    assert prereg("status", root=root).code == 0
    verify(root).caught("the lock is missing")
