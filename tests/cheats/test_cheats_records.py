"""Cheats on what was observed: better numbers, no numbers, other runs, another reference."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from cheats.cheating import (
    ATTEMPTS,
    BAND,
    ELSEWHERE,
    INVENTED,
    LEDGER,
    LOCK,
    REG,
    RUN,
    WIDER,
    Lines,
    drop,
    edit,
    failed,
    in_git,
    locked_only,
    passes,
    refused,
    rewrite,
    rewrite_attempts,
    run_again,
    score_says,
    scored_run,
    verify,
    vouch,
)
from ledger.authority import time_stamping
from prereg_judge.canon import sha256_bytes
from prereg_judge.engine.protocol import Failure
from support import (
    Scripted,
    locked,
    make_workspace,
    prereg,
    rechained,
    run_scripted,
    verdict_reply,
)

# --- type a good observed number ------------------------------------------------------------------


def test_type_a_good_observed_number_into_the_score(tmp_path: Path) -> None:
    """Cheat: "type a good observed number", into `score.json`. It is never read: found, and
    written anew.
    """
    root = failed(tmp_path)
    path = root / RUN / "score.json"
    good = path.read_bytes()
    edit(path, '"verdict": "FAIL"', '"verdict": "PASS"')
    verify(root).caught(f"{RUN}/score.json", "is not the score that the ledger names")
    score_says(root, "Verdict: FAIL", code=1)
    assert path.read_bytes() == good
    edit(path, '"verdict": "FAIL"', '"verdict": "PASS"')
    sha256 = sha256_bytes(path.read_bytes())
    rewrite(root, lambda e: [*e[:-1], {**e[-1], "verdict": "PASS", "score": sha256}])
    verify(root).caught("computed again it is FAIL, and PASS is on record")


@pytest.mark.parametrize("name", ["disagreements.jsonl", "disagreements.csv", "verdicts.csv"])
def test_type_a_good_observed_number_into_the_disagreements(name: str, tmp_path: Path) -> None:
    """Cheat: "type a good observed number": take a disagreement out of the list."""
    root = failed(tmp_path)
    path = root / RUN / name
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines[:-1]))
    verify(root).caught(f"{RUN}/{name}", "does not follow from the record")


def test_type_a_good_observed_number_into_the_manifest(tmp_path: Path) -> None:
    """Cheat: "type a good observed number", into the manifest: the ledger has its hash."""
    root = failed(tmp_path)
    edit(root / RUN / "manifest.json", '"attempts":8', '"attempts":7')
    refused(root, "score", "x", says=(f"{RUN}/manifest.json",))
    verify(root).caught(f"{RUN}/manifest.json", "is not what the lock and the ledger say")


def good_verdicts(lines: Lines) -> Lines:
    """Every verdict of the first pass but one is made what the second pass said."""
    return [{**v, "verdict": "NO"} if v.get("verdict") and v["index"] else v for v in lines]


def good_replies(lines: Lines) -> Lines:
    """The same, with the replies that would have given it."""
    text = verdict_reply("NO")
    return [{**v, "text": text} if v.get("verdict") == "NO" else v for v in good_verdicts(lines)]


def test_type_a_good_verdict_into_the_record(tmp_path: Path) -> None:
    """Cheat: "type a good observed number", into the record, with chain, manifest and ledger made
    right: every verdict is read again from its reply.
    """
    root = failed(tmp_path)
    good = (root / ATTEMPTS).read_bytes()
    edit(root / ATTEMPTS, '"verdict":"YES"', '"verdict":"NO"')
    verify(root).caught(ATTEMPTS, "a line was edited, dropped or moved")
    (root / ATTEMPTS).write_bytes(rechained(good, good_verdicts))
    verify(root).caught(ATTEMPTS, "differs from the run's manifest")
    (root / ATTEMPTS).write_bytes(good)
    rewrite_attempts(root, good_verdicts)
    refused(root, "score", "x", says=(ATTEMPTS, "not what the judge makes of the recorded reply"))
    verify(root).caught(ATTEMPTS, "not what the judge makes of the recorded reply")


def test_type_good_replies_into_the_record(tmp_path: Path) -> None:
    """Cheat: "type a good observed number": the replies too. The scoring on record was another;
    with that taken out and done again, only a witness is left, and `verify` says what is open.
    """
    root = failed(tmp_path)
    rewrite_attempts(root, good_replies)
    verify(root).caught("computed again it is PASS, and FAIL is on record with other numbers")
    drop(root, "scored")
    verify(root).caught(f"{RUN}/score.json", "a score lies here that the ledger does not know")
    score_says(root, "Verdict: PASS", code=0)
    told = verify(root)
    told.clean()
    told.open("any witness", INVENTED, "whoever has the files can write a record that fits")


def test_type_good_replies_against_git_and_a_token(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cheat: "type a good observed number", with all made right. Git and a token saw the run."""
    repo = in_git(tmp_path, monkeypatch)
    root = repo.top
    with time_stamping(tmp_path / "tsa") as authority:
        assert prereg("stamp", "--tsa", authority.url, "--no-commit", root=root).code == 0
    rewrite_attempts(root, good_replies)
    drop(root, "scored")
    assert prereg("score", "x", root=root).code == 0
    told = verify(root, "--ca", str(authority.root))
    told.caught("git: the ledger as it is now differs from line 3 of the version in commit")
    told.caught("registrations/stamps/000004-001-rfc3161.tsr", "another digest")


# --- observed infinity, NaN threshold: in the record ----------------------------------------------


def odd_number(raw: bytes, old: str, new: str) -> bytes:
    """Put a number that is none into an attempt, and make the chain right by hand: no library
    writes such a line.
    """
    lines = raw.split(b"\n")[:-1]
    at = next(n for n, line in enumerate(lines) if old.encode() in line)
    lines[at] = lines[at].replace(old.encode(), new.encode(), 1)
    for n in range(at + 1, len(lines)):
        head = json.loads(lines[n])["prev"].encode()
        lines[n] = lines[n].replace(head, sha256_bytes(lines[n - 1]).encode())
    return b"".join(line + b"\n" for line in lines)


@pytest.mark.parametrize(("field", "old"), [("seconds", "0.01"), ("allowed_mass", "0.5")])
def test_observed_infinity(field: str, old: str, tmp_path: Path) -> None:
    """Cheat: "observed infinity, NaN threshold", with chain, manifest and ledger made right."""
    root = failed(tmp_path)
    path = root / ATTEMPTS
    good = path.read_bytes()
    for bad in ("NaN", "Infinity", "-Infinity", "1e999", "-1", '"inf"'):
        path.write_bytes(odd_number(good, f'"{field}":{old}', f'"{field}":{bad}'))
        vouch(root)
        refused(root, "score", "x", says=(f"{ATTEMPTS}:2",))
    verify(root).caught(f"{ATTEMPTS}:2")


@pytest.mark.model
def test_observed_infinity_of_a_choice(tmp_path: Path) -> None:
    """Cheat: "observed infinity, NaN threshold", in the real model's own choices."""
    root = make_workspace(tmp_path / "w", n=2)
    locked(root, "x", path="choice", band="sentinel.agreement.count=1..1")
    done = prereg("run", "x", root=root)
    assert done.code == 0, done
    assert prereg("score", "x", root=root).code in (0, 1)
    path = root / ATTEMPTS
    good = path.read_bytes()
    line = json.loads(good.splitlines()[1])
    probability, logit = line["probabilities"]["YES"], line["nodes"][0]["logits"][0]
    for bad in ("NaN", "Infinity", "-1e999"):
        for key, old in (('"YES":', probability), ('"logits":[', logit)):
            changed = odd_number(good, f"{key}{json.dumps(old)}", f"{key}{bad}")
            path.write_bytes(changed)
            vouch(root)
            refused(root, "score", "x", says=(f"{ATTEMPTS}:2",))


def hangs(_key: str, _before: int) -> Scripted:
    """No answer, ever."""
    return Failure("hang", "no answer", 60.0)


def test_observed_nothing(tmp_path: Path) -> None:
    """Cheat: "observed infinity, NaN threshold": a share of no rows. It is undefined, no pass, and
    no file holds a NaN.
    """
    root = make_workspace(tmp_path / "w")
    locked(root, "x", missing="exclude", band="sentinel.agreement.rate=0..0.9")
    run_scripted(root, "x", hangs)
    score_says(root, "Verdict: INCONCLUSIVE", "undefined", code=6)

    def none(name: str) -> None:
        raise AssertionError(name)

    score = json.loads((root / RUN / "score.json").read_bytes(), parse_constant=none)
    (claim,) = score["claims"]
    assert claim["outcome"] == "undefined"
    assert claim["observed"][0]["value"] is None


# --- delete a failed run, run again ---------------------------------------------------------------


def test_delete_a_failed_run_run_again(tmp_path: Path) -> None:
    """Cheat: "delete a failed run, run again". It stays counted and its verdict is still told."""
    root = failed(tmp_path)
    shutil.rmtree(root / "runs/x")
    refused(root, "score", "x", says=(RUN, "the run's folder is gone"))
    refused(root, "run", "x", code=2, says=("run 1 of 'x' is finished", "counted"))
    run_again(root, passes)
    score_says(root, "run 2 of 2; run 1 FAIL (folder gone)", "The folder of run 1 is gone", code=0)
    verify(root).caught("x run 1 of 2", "counts this run (FAIL), and its folder is gone")
    (line,) = prereg("status", "--json", root=root).json
    assert [(r["verdict"], r["missing"]) for r in line["runs"]] == [
        ("INVALID", True),
        ("PASS", False),
    ]


def test_delete_a_failed_run_and_put_another_there(tmp_path: Path) -> None:
    """Cheat: "delete a failed run, run again", the good run copied to the failed one's number."""
    root = failed(tmp_path)
    run_again(root, passes)
    assert prereg("score", "x", root=root).code == 0
    shutil.rmtree(root / RUN)
    shutil.copytree(root / "runs/x/2", root / RUN)
    told = verify(root)
    told.caught("x run 1 of 2", f"{RUN}/manifest.json", "is not what the lock and the ledger say")
    score_says(root, "run 2 of 2; run 1 INVALID (was FAIL)", code=0)


def test_delete_a_failed_run_and_its_events(tmp_path: Path) -> None:
    """Cheat: "delete a failed run, run again", its events taken out of the ledger. The good run's
    number, record and manifest all know of the line before it.
    """
    root = failed(tmp_path)
    run_again(root, passes)
    assert prereg("score", "x", root=root).code == 0
    shutil.rmtree(root / RUN)
    rewrite(root, lambda lines: [e for e in lines if e.get("run") != 1])
    verify(root).caught("its events contradict each other", "run 2")
    (root / "runs/x/2").rename(root / RUN)
    rewrite(root, lambda lines: [{**e, "run": 1} if e.get("run") == 2 else e for e in lines])
    verify(root).caught(ATTEMPTS, "belongs to another run")
    refused(root, "score", "x", says=(ATTEMPTS, "belongs to another run"))


def test_run_in_copies_until_one_passes(tmp_path: Path) -> None:
    """Cheat: "delete a failed run, run again", in copies of the workspace of which the good one is
    kept. No file can know; `verify` says that it is not proved.
    """
    root = locked_only(tmp_path)
    copy = Path(shutil.copytree(root, tmp_path / "copy"))
    scored_run(copy, lambda key, _: verdict_reply("YES" if key[-1] == "1" else "NO"), code=1)
    scored_run(root, passes, code=0)
    told = verify(root)
    told.clean()
    told.open("any witness", ELSEWHERE, "only what went through this ledger is known")


# --- draw again until it passes -------------------------------------------------------------------


class _KilledError(BaseException):
    """The process is gone."""


def killed_after(root: Path, calls: int) -> None:
    """Run `x`, or resume it, and lose the process in the call after so many."""
    made: list[str] = []

    def script(key: str, before: int) -> Scripted:
        if len(made) == calls:
            raise _KilledError
        made.append(key)
        return passes(key, before)

    with pytest.raises(_KilledError):
        run_scripted(root, "x", script)


def cut(root: Path, attempts: int) -> None:
    """Cut run 1's record behind its first line and so many attempts."""
    lines = (root / ATTEMPTS).read_bytes().splitlines(keepends=True)
    (root / ATTEMPTS).write_bytes(b"".join(lines[: 1 + attempts]))


def test_kill_a_run_cut_its_record_and_draw_again(tmp_path: Path) -> None:
    """Cheat: an unlucky run is killed, its attempts are cut and made anew, twice. All hashes fit;
    `verify` says at how many attempts it was resumed, and that it was so at the same place twice.
    """
    root = locked_only(tmp_path)
    for _ in range(2):
        killed_after(root, 6)
        cut(root, 1)
    resumed = "that no attempt was cut and made anew: it was resumed at"
    assert not any(resumed in sentence for sentence in verify(root).not_proved)
    scored_run(root, passes, code=0)
    told = verify(root)
    told.clean()
    told.open(f"x run 1 of 1: {resumed} 1, 1 of 8", "once at the very place", "nothing is left")


def test_a_resume_is_told_of_an_unfinished_run_too(tmp_path: Path) -> None:
    """Cheat: as above, and the run is left open, or given up. One resume is at no place twice, and
    one after which nothing was made can have hidden nothing.
    """
    root = locked_only(tmp_path)
    for calls in (5, 2):
        killed_after(root, calls)
    resumed = "it was resumed at 5 of 7 attempts"
    told = verify(root)
    told.open(resumed)
    assert not any("the very place" in sentence for sentence in told.not_proved)
    killed_after(root, 0)
    verify(root).open(resumed)
    assert prereg("run", "x", "--abandon", "tired of it", root=root).code == 0
    verify(root).open(resumed)


# --- hand the checker the file it is checked against ----------------------------------------------


def _widen(root: Path, text: str, lock: str) -> None:
    """Edit a registration to the wider band, and a lock so that it fits."""
    edit(root / text, BAND, WIDER)
    raw = (root / text).read_bytes()
    value = json.loads((root / lock).read_bytes())
    value["registration"] |= {"sha256": sha256_bytes(raw), "n_bytes": len(raw)}
    (root / lock).write_text(json.dumps(value, indent=2, sort_keys=True) + "\n")


def _copies_only(root: Path) -> None:
    """The run's own copies."""
    _widen(root, f"{RUN}/registration.yaml", f"{RUN}/lock.json")
    vouch(root)


def _all_files(root: Path) -> None:
    """The copies and what they are copies of."""
    _widen(root, REG, LOCK)
    _copies_only(root)


def _ledger_too(root: Path) -> None:
    """All these files, and what the ledger says of them, hashes made right."""
    _all_files(root)
    told = {
        "lock": sha256_bytes((root / LOCK).read_bytes()),
        "registration": sha256_bytes((root / REG).read_bytes()),
    }
    lines = [json.loads(line) for line in (root / LEDGER).read_bytes().splitlines()]
    old = {k: lines[0][k] for k in told}

    def by(events_: Lines) -> Lines:
        return [{k: told[k] if v == old.get(k) else v for k, v in e.items()} for e in events_]

    rewrite(root, by)


@pytest.mark.parametrize(
    ("make", "file", "what"),
    [
        (_copies_only, f"{RUN}/registration.yaml", "is not what the lock and the ledger say"),
        (_all_files, LOCK, "differs from the lock that the ledger names"),
        (_ledger_too, "x: meaning", "not what the lock says"),
    ],
)
def test_hand_the_checker_the_file_it_is_checked_against(
    make: Callable[[Path], None], file: str, what: str, tmp_path: Path
) -> None:
    """Cheat: "hand the checker the file it is checked against". The ledger is the reference for
    the lock, the lock for the rest; and the record hangs on the ledger's line.
    """
    root = failed(tmp_path)
    make(root)
    refused(root, "score", "x")
    told = verify(root)
    told.caught(file, what)
    if make is _ledger_too:
        told.caught(ATTEMPTS, "belongs to another run: its header says so")
