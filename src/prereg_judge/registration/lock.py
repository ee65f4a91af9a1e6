"""The lock: what freezes a registration, by the content of everything that it stands on.

Says what a lock holds and compares it with files. Making one needs the engine (grammar, chat
template, prompts), so that is done in `flow.locking`.
"""

from __future__ import annotations

import importlib.metadata
import json
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

from prereg_judge import __version__
from prereg_judge.canon import canonical_json, sha256_bytes, sha256_file, sha256_value
from prereg_judge.errors import IntegrityError, Problem
from prereg_judge.words import ExposureLevel

FORMAT = 2
_READ = (1, 2)  # the first had neither rows, labels, exposure nor versions
FILE_MISSING = "the locked file is missing"
PACKAGE = Path(__file__).parents[1]

InputRole = Literal[
    "judge",
    "items.sentinel",
    "items.real",
    "model",
    "from_run",
    "annotations",
    "verdicts",
    "labellings",
    "adjudication",
]
# Inputs that are tables: whatever is read of them stands in every bundle.
TABLE_ROLES = ("annotations", "verdicts", "labellings", "adjudication")


def is_rows(role: str) -> bool:
    """Whether an input holds rows, votes, verdicts or labels: what exposure is about."""
    return role.startswith("items.") or role in TABLE_ROLES


@dataclass(frozen=True)
class LockedInput:
    """One input file: its role, its name in the registration, and its content's hash.

    A split model has one entry a shard; `name` is then the shard's own name.
    """

    role: InputRole
    name: str
    sha256: str
    n_bytes: int


@dataclass(frozen=True)
class Derived:
    """Hashes of what the inputs are turned into before the first call.

    `prompts` covers the text and the token ids of every prompt in plan order; `plan` the order
    of the trials; `labels` what scoring needs of the items beside the replies: their ids, kinds,
    strata and labels. Empty where a lock of the first form did not say.
    """

    meaning: str
    prompt_template: str
    output_schema: str
    grammar: str
    chat_template: str
    prompts: str
    plan: str
    n_trials: int
    longest_prompt: int
    labels: str = ""


@dataclass(frozen=True)
class Amends:
    """What an amendment follows: the version before it, the hash of that one's lock, and why."""

    version: int
    lock: str
    reason: str


@dataclass(frozen=True)
class Seen:
    """One earlier use of the same inputs that the ledger knows of.

    Attributes
    ----------
    id, what, at
        Which registration; `run 2` or `probe`; when, by the ledger.
    same
        What it shared: `judge`, `model`, and item sets such as `items.sentinel`.
    rows
        How many rows of this registration it had judged; None where that can no longer be told.
    verdicts
        The words of its scorings by then, in order.
    """

    id: str
    what: str
    at: str
    same: tuple[str, ...]
    rows: int | None
    verdicts: tuple[str, ...] = ()


@dataclass(frozen=True)
class LockedExposure:
    """What had been seen at the moment of locking: in the registrant's words, and by the ledger.

    `level` is the higher of what was stated and what the ledger knows.
    """

    stated: str
    level: ExposureLevel
    known: tuple[Seen, ...]


@dataclass(frozen=True)
class Lock:
    """A lock as written to `registrations/ID.lock.json`, or `ID.vN.lock.json` for an amendment.

    Attributes
    ----------
    rows
        For each item set, short hashes of what the judge sees of each row, sorted.
    served
        What servers said of themselves; None for a model in files, and where none answered.
    """

    id: str
    locked_at: str
    registration: LockedRegistration
    inputs: tuple[LockedInput, ...]
    derived: Derived
    tool: dict[str, str]
    version: int = 1
    amends: Amends | None = None
    exposure: LockedExposure | None = None
    rows: dict[str, tuple[str, ...]] = field(default_factory=dict)
    served: dict[str, Any] | None = None
    prereg_lock: int = FORMAT

    def to_bytes(self) -> bytes:
        """The lock file's bytes: readable JSON with a fixed order of keys."""
        canonical_json(asdict(self))  # refuses what JSON cannot hold
        return (json.dumps(asdict(self), indent=2, sort_keys=True) + "\n").encode()


@dataclass(frozen=True)
class LockedRegistration:
    """The registration's own file, by bytes."""

    name: str
    sha256: str
    n_bytes: int


def parse_lock(raw: bytes, *, shown: str) -> Lock:
    """Read a lock's bytes.

    Raises
    ------
    IntegrityError
        If they are not a lock of this form.
    """
    try:
        data: dict[str, Any] = json.loads(raw)
        data["registration"] = LockedRegistration(**data["registration"])
        data["inputs"] = tuple(LockedInput(**entry) for entry in data["inputs"])
        data["derived"] = Derived(**data["derived"])
        if data.get("amends"):
            data["amends"] = Amends(**data["amends"])
        if data.get("exposure"):
            data["exposure"] = _exposure(data["exposure"])
        data["rows"] = {role: tuple(rows) for role, rows in data.get("rows", {}).items()}
        lock = Lock(**data)
    except (ValueError, KeyError, TypeError, AttributeError) as exc:
        remedy = "restore the lock from git or a copy"
        raise IntegrityError(
            Problem("is not a lock: it was changed", shown, remedy=remedy)
        ) from exc
    if lock.prereg_lock not in _READ:
        raise IntegrityError(Problem("was made by another version's form of lock", shown))
    return lock


def _exposure(data: dict[str, Any]) -> LockedExposure:
    known = tuple(
        Seen(**{**seen, "same": tuple(seen["same"]), "verdicts": tuple(seen["verdicts"])})
        for seen in data["known"]
    )
    return LockedExposure(data["stated"], data["level"], known)


def changed(
    entries: Iterable[LockedInput | LockedRegistration],
    find: Callable[[LockedInput | LockedRegistration], Path],
) -> list[Problem]:
    """Compare files with a lock; one problem for each that is missing or differs.

    `find` gives the path of an entry; an error that it raises is not caught.
    """
    problems = []
    for entry in entries:
        path = find(entry)
        remedy = "restore the file; a change after the lock is an amendment, `prereg amend`"
        if not path.is_file():
            problems.append(Problem(FILE_MISSING, entry.name, remedy=remedy))
        elif path.stat().st_size != entry.n_bytes or sha256_file(path) != entry.sha256:
            problems.append(Problem("was changed after the lock", entry.name, remedy=remedy))
    return problems


# What renders prompts and counts their tokens.
_RENDERING = ("jinja2", "llama-cpp-python", "llguidance")


def tool_here() -> dict[str, str]:
    """This version of the tool, its source's hash, and the libraries that make prompts."""
    libraries = {name: importlib.metadata.version(name) for name in _RENDERING}
    return {"version": __version__, "source_sha256": tool_source_sha256(), **libraries}


@lru_cache(maxsize=1)
def tool_source_sha256() -> str:
    """Hash of this package's installed source: names and bytes of its files."""
    files = sorted(
        p for p in PACKAGE.rglob("*") if p.is_file() and p.suffix in {".py", ".json", ".jinja"}
    )
    listing = [
        [str(p.relative_to(PACKAGE).as_posix()), sha256_bytes(p.read_bytes())]
        for p in files
        if "examples" not in p.relative_to(PACKAGE).parts
    ]
    return sha256_value("tool-source", listing)
