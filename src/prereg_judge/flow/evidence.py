"""What lock and ledger say of a run's files, compared with the files that are there.

Used before an unfinished run goes on and before a finished one is scored. The lock and the
ledger are the reference, never the run's own copies.
"""

from __future__ import annotations

from pathlib import Path

from prereg_judge.canon import sha256_file
from prereg_judge.errors import Problem
from prereg_judge.flow.locking import Locked
from prereg_judge.ledger.book import RunEntry
from prereg_judge.record.run import Record


def run_problems(locked: Locked, entry: RunEntry, record: Record, *, shown: str) -> list[Problem]:
    """What differs between a run and what lock and ledger say of it; empty when nothing does.

    The registration's copy, the lock's copy, the plan and (of a finished run) the manifest are
    compared by hash. Every head of the record that the ledger noted when the run was resumed
    must be in the record still: attempts made before cannot have been taken out.
    """
    started = next(e for e in locked.events if e["event"] == "run_started" and _is(entry, e))
    expected = {
        "registration.yaml": locked.lock.registration.sha256,
        "lock.json": started["lock"],
        "plan.jsonl": started["plan"],
    }
    if entry.manifest is not None:
        expected["manifest.json"] = entry.manifest
    problems = [
        Problem("is not what the lock and the ledger say", f"{shown}/{name}", remedy="restore it")
        for name, wanted in expected.items()
        if not _has(record.folder / name, wanted)
    ]
    if started["lock"] != locked.lock_sha256:
        problems.append(Problem("the run was started under another lock", shown))
    noted = [e["head"] for e in locked.events if e["event"] == "run_resumed" and _is(entry, e)]
    if not record.heads.issuperset(noted):
        what = "attempts that the ledger knows of are gone: the record was cut or replaced"
        problems.append(Problem(what, f"{shown}/attempts.jsonl", remedy="restore it"))
    problems += _record_problems(locked, entry, record, shown)
    return problems


def _record_problems(locked: Locked, entry: RunEntry, record: Record, shown: str) -> list[Problem]:
    """What in the attempts cannot have been written by this run."""
    file = f"{shown}/attempts.jsonl"
    problems = []
    headers = [n for n in record.notes if n.get("event") in ("run", "session")]
    here = (locked.lock.id, entry.number)
    if record.attempts and (
        not headers or any((n.get("id"), n.get("run")) != here for n in headers)
    ):
        problems.append(Problem("belongs to another run: its header says so", file))
    draws = locked.inputs.model.protocol.decoding.mode != "greedy"
    for line in record.attempts:
        replied = line.text is not None and line.tokens is not None and line.finish is not None
        if line.verdict is not None and not replied:
            problems.append(Problem("a verdict has no reply behind it", file, found=line.trial))
        elif (line.seed is not None) != draws:
            problems.append(Problem("the seed does not fit the decoding", file, found=line.trial))
        elif line.at < entry.started_at:
            problems.append(Problem("was made before its run began", file, found=line.trial))
    return problems[:20]


def _is(entry: RunEntry, event: dict[str, object]) -> bool:
    return event["run"] == entry.number


def _has(path: Path, sha256: str) -> bool:
    return path.is_file() and sha256_file(path) == sha256
