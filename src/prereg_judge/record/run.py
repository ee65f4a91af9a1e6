"""A run's folder: what is in it, how attempts are written, and how it is read back.

    registration.yaml   the locked bytes
    lock.json           the lock's bytes
    plan.jsonl          one line a trial: its place, its name, its prompt's hash
    prompts.jsonl       each distinct prompt once, by hash
    environment.json    versions, build, machine, model facts
    attempts.jsonl      one chained, synced line an attempt (see `chain`)
    manifest.json       written last; without it the run is incomplete

Everything else in the folder is derived and never read back.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from prereg_judge import clock
from prereg_judge.canon import canonical_json, sha256_file
from prereg_judge.chain import ChainWriter, read_chain, write_synced
from prereg_judge.choices import node_of
from prereg_judge.errors import IntegrityError, Problem
from prereg_judge.record.attempt import AttemptLine, wrong_fields
from prereg_judge.words import INFRASTRUCTURE

FORMAT = 1
HASHED = (
    "registration.yaml",
    "lock.json",
    "plan.jsonl",
    "prompts.jsonl",
    "environment.json",
    "attempts.jsonl",
)
_MANIFEST_KEYS = {"id", "run", "status", "stopped_by", "trials", "attempts_head", "ledger_head"}


@dataclass(frozen=True)
class PlanLine:
    """One trial of the plan as stored."""

    index: int
    trial: str
    set: str
    item: str
    order: str
    pass_no: int
    prompt: str


@dataclass(frozen=True)
class PromptLine:
    """One distinct prompt: its hash, its text, its length and the hash of its token ids."""

    sha256: str
    text: str
    n_tokens: int
    ids_sha256: str


@dataclass(frozen=True)
class Record:
    """A run as read: attempts in the order in which they were made, and the notes between.

    `head` is the hash of the last line; `heads` the hashes of all lines, and of none.
    """

    folder: Path
    head: str
    heads: frozenset[str]
    attempts: tuple[AttemptLine, ...]
    notes: tuple[dict[str, Any], ...] = ()
    manifest: dict[str, Any] | None = None
    by_trial: dict[str, list[AttemptLine]] = field(default_factory=dict)

    def is_done(self, trial: str, *, retries: int) -> bool:
        """Whether a trial needs no further attempt."""
        made = self.by_trial.get(trial, [])
        if not made:
            return False
        return made[-1].unscored not in INFRASTRUCTURE or len(made) > retries


def line_data(line: Any) -> bytes:
    """A dataclass line as canonical JSON, with its newline."""
    return canonical_json(asdict(line)) + b"\n"


def write_lines(path: Path, lines: Iterable[Any]) -> str:
    """Write dataclass lines as canonical JSON Lines, synced; return the hash of the bytes.

    Holds one line at a time.
    """
    return write_synced(path, (line_data(line) for line in lines))


def read_plan(folder: Path, *, shown: str) -> Iterator[PlanLine]:
    """Yield a run's planned trials in order.

    Raises
    ------
    IntegrityError
        If the file is missing or is not a plan.
    """
    file = f"{shown}/plan.jsonl"
    try:
        with (folder / "plan.jsonl").open("rb") as stream:
            for line in stream:
                yield PlanLine(**json.loads(line))
    except FileNotFoundError as exc:
        raise IntegrityError(Problem("the file is missing from the run", file)) from exc
    except (ValueError, TypeError, RecursionError) as exc:
        raise IntegrityError(Problem("is not a plan: it was changed", file)) from exc


class AttemptWriter:
    """The one writer of a run's attempts.

    Times never go back within a record: where the machine's clock does, a note says so and the
    last time is repeated until the clock has passed it. The order of lines is the chain's.
    """

    def __init__(self, folder: Path, *, header: dict[str, Any], not_before: str = "") -> None:
        """Open the run's attempts; a new file begins with `header`, a resumed one says so.

        `not_before` is the latest time known of the run so far.
        """
        path = folder / "attempts.jsonl"
        fresh = not path.exists() or path.stat().st_size == 0
        self._last, self._warned = not_before, False
        self._chain = ChainWriter(path, stamp={"at": max(clock.now(), not_before)})
        name = "run" if fresh else "session"
        self.note(name, format=FORMAT, **header)

    def attempt(self, line: AttemptLine) -> AttemptLine:
        """Record one attempt, dated now; it is on disk when this returns. What was recorded."""
        line = replace(line, at=self.now())
        self._chain.append({"event": "attempt", **attempt_values(line)})
        return line

    def note(self, event: str, **values: Any) -> None:
        """Record something that is not an attempt."""
        self._chain.append({"event": event, "at": self.now(), **values})

    def now(self) -> str:
        """The time, or the latest in the record where the clock was set back; a note says so."""
        now = clock.now()
        if now >= self._last:
            self._last, self._warned = now, False
        elif not self._warned:
            self._warned = True
            self._chain.append({"event": "clock_back", "at": self._last, "clock": now})
        return self._last

    @property
    def head(self) -> str:
        """Hash of the last line."""
        return self._chain.head

    def close(self) -> None:
        """Close the file."""
        self._chain.close()


_OPTIONAL = ("seed", "verdict", "unscored", "detail", "text")


def attempt_values(line: AttemptLine) -> dict[str, Any]:
    """An attempt as the JSON object that is recorded; what it lacks is left out."""
    values = {k: v for k, v in asdict(line).items() if v is not None}
    if line.probabilities is not None:
        values["probabilities"] = dict(line.probabilities)
    return values


def read_record(folder: Path, *, shown: str, absent: Collection[str] = ()) -> Record:
    """Read a run's attempts and manifest, checking the chain and the manifest's hashes.

    `absent` names files that may be missing, as in a bundle that withholds the prompts.

    Raises
    ------
    IntegrityError
        If a line was edited, dropped or moved, or a file differs from the manifest.
    """
    chain = read_chain(folder / "attempts.jsonl", shown=f"{shown}/attempts.jsonl")
    attempts, notes, by_trial = [], [], {}  # type: ignore[var-annotated]
    for number, line in enumerate(chain.lines, start=1):
        if line.get("event") != "attempt":
            notes.append(line)
            continue
        attempt = attempt_of(line, number=number, shown=shown)
        attempts.append(attempt)
        by_trial.setdefault(attempt.trial, []).append(attempt)
    manifest = read_manifest(folder, shown=shown, absent=absent)
    if manifest is not None and chain.torn:
        what = "bytes were added after the run was finished"
        raise IntegrityError(Problem(what, file=f"{shown}/attempts.jsonl"))
    heads = frozenset(chain.heads)
    return Record(folder, chain.head, heads, tuple(attempts), tuple(notes), manifest, by_trial)


def attempt_of(line: dict[str, Any], *, number: int, shown: str) -> AttemptLine:
    """The attempt that a line of the record holds.

    Raises
    ------
    IntegrityError
        If it is not one as this tool writes it.
    """
    values = {k: v for k, v in line.items() if k not in ("event", "prev")}
    values.update({name: None for name in _OPTIONAL if name not in values})
    try:
        for name in ("tokens", "batch"):
            if name in values:
                values[name] = tuple(values[name])
        if "probabilities" in values:
            values["probabilities"] = tuple(values["probabilities"].items())
        if "nodes" in values:
            values["nodes"] = tuple(node_of(node) for node in values["nodes"])
        attempt = AttemptLine(**values)
        wrong = wrong_fields(attempt)
    except (TypeError, AttributeError, KeyError) as exc:
        what = "is not an attempt as this tool writes it: the line was edited"
        raise IntegrityError(Problem(what, f"{shown}/attempts.jsonl", number)) from exc
    if wrong:
        what = "is not an attempt as this tool writes it: the line was edited"
        file, found = f"{shown}/attempts.jsonl", f"{attempt.trial}: {', '.join(wrong)}"
        raise IntegrityError(Problem(what, file, number, found=found))
    return attempt


def read_manifest(
    folder: Path, *, shown: str, absent: Collection[str] = ()
) -> dict[str, Any] | None:
    """A run's manifest after comparing every file's hash; None where there is none.

    Raises
    ------
    IntegrityError
        If it is no manifest, or a file is missing or differs from it.
    """
    path = folder / "manifest.json"
    if not path.exists():
        return None
    try:
        manifest: dict[str, Any] = json.loads(path.read_bytes())
        listed = dict(manifest["files"])
        if _MANIFEST_KEYS - manifest.keys():
            raise KeyError("status")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as exc:
        problem = Problem("is not a manifest: it was changed", file=f"{shown}/manifest.json")
        raise IntegrityError(problem) from exc
    problems = []
    for name in HASHED:
        file = folder / name
        if not file.exists() and name in absent:
            continue
        if not file.is_file():
            problems.append(Problem("the file is missing from the run", file=f"{shown}/{name}"))
        elif sha256_file(file) != listed.get(name):
            problems.append(
                Problem("differs from the run's manifest: it was changed", file=f"{shown}/{name}")
            )
    if problems:
        raise IntegrityError(*problems)
    return manifest


def write_manifest(folder: Path, values: dict[str, Any]) -> str:
    """Write the manifest, which ends a run; return its hash."""
    files = {name: sha256_file(folder / name) for name in HASHED}
    data = canonical_json({"format": FORMAT, **values, "files": files}) + b"\n"
    return write_synced(folder / "manifest.json", data)


def check_against_plan(record: Record, *, retries: int, shown: str) -> list[str]:
    """Check attempts against the plan; return the names of trials that are not done.

    Raises
    ------
    IntegrityError
        If an attempt belongs to no trial, carries another prompt than planned, is out of order,
        or follows one that already ended its trial.
    """
    file = f"{shown}/attempts.jsonl"
    plan = {line.trial: line for line in read_plan(record.folder, shown=shown)}
    problems = []
    for trial, made in record.by_trial.items():
        planned = plan.get(trial)
        if planned is None:
            problems.append(Problem("an attempt belongs to no planned trial", file, found=trial))
        elif any(a.prompt != planned.prompt or a.index != planned.index for a in made):
            problems.append(
                Problem("an attempt's prompt is not the planned one", file, found=trial)
            )
        elif [a.attempt for a in made] != list(range(1, len(made) + 1)):
            problems.append(Problem("attempts are missing or doubled", file, found=trial))
        elif len(made) > retries + 1 or any(a.unscored not in INFRASTRUCTURE for a in made[:-1]):
            problems.append(Problem("a trial was tried again after it ended", file, found=trial))
        elif any((a.verdict is None) == (a.unscored is None) for a in made):
            problems.append(Problem("an attempt has both or no outcome", file, found=trial))
    if problems:
        raise IntegrityError(*problems)
    return [trial for trial in plan if not record.is_done(trial, retries=retries)]
