"""The lock: what freezes a registration, by the content of everything that it stands on.

Says what a lock holds and compares it with files. Making one needs the engine (grammar, chat
template, prompts), so that is done in `flow.locking`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

from prereg_judge.canon import canonical_json, sha256_bytes, sha256_file, sha256_value
from prereg_judge.errors import IntegrityError, Problem

FORMAT = 1
PACKAGE = Path(__file__).parents[1]

InputRole = Literal["judge", "items.sentinel", "items.real", "model", "from_run"]


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
    of the trials.
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


@dataclass(frozen=True)
class Lock:
    """A lock as written to `registrations/ID.lock.json`."""

    id: str
    locked_at: str
    registration: LockedRegistration
    inputs: tuple[LockedInput, ...]
    derived: Derived
    tool: dict[str, str]
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
        lock = Lock(**data)
    except (ValueError, KeyError, TypeError) as exc:
        remedy = "restore the lock from git or a copy"
        raise IntegrityError(
            Problem("is not a lock: it was changed", shown, remedy=remedy)
        ) from exc
    if lock.prereg_lock != FORMAT:
        raise IntegrityError(Problem("was made by another version's form of lock", shown))
    return lock


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
        remedy = "restore the file; a change after the lock needs a registration of its own"
        if not path.is_file():
            problems.append(Problem("the locked file is missing", entry.name, remedy=remedy))
        elif path.stat().st_size != entry.n_bytes or sha256_file(path) != entry.sha256:
            problems.append(Problem("was changed after the lock", entry.name, remedy=remedy))
    return problems


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
