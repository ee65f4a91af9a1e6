"""Exposure: what had been run of a registration's inputs by a moment, computed from the ledger.

Two uses share something when its content is the same: a judge's bytes or what shapes its prompt, a
model's bytes (of a served one, its name), and rows by what the judge sees of them, whatever file
they stand in. What was never put into this workspace's ledger is not known here.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import groupby, takewhile
from typing import Any

from prereg_judge.canon import canonical_json, sha256_file, sha256_value
from prereg_judge.errors import IntegrityError
from prereg_judge.flow.prepare import Inputs
from prereg_judge.flow.table_hashes import (
    ROW_DIGITS,
    label_hashes,
    labelling_hashes,
    verdict_hashes,
    vote_hashes,
)
from prereg_judge.items import Item
from prereg_judge.judge import Judge
from prereg_judge.ledger.book import Ledger
from prereg_judge.ledger.events import Event
from prereg_judge.registration.lock import Lock, LockedExposure, Seen, is_rows, parse_lock
from prereg_judge.registration.schema import STUDIES_OF_LABELLINGS
from prereg_judge.registration.schema_model import LocalModel
from prereg_judge.wording import without_hidden
from prereg_judge.words import EXPOSURE_LEVELS, ExposureLevel
from prereg_judge.workspace import Workspace

_WORD = re.compile(r"\w+")
# Stands among what is shared where nobody can tell whether rows are: it counts as if they were.
UNTOLD = "rows untold"


@dataclass(frozen=True)
class Identity:
    """What a registration uses, by content.

    Attributes
    ----------
    judge, prompt
        Hash of the judge file's bytes, and of what shapes the prompt in it.
    model
        Hashes of the model's files in the order of its shards, or `served:NAME`.
    items, files
        For each item set, one hash over its rows' hashes, and the hash of its file's bytes.
    """

    judge: str
    prompt: str
    model: tuple[str, ...]
    items: Mapping[str, str]
    files: Mapping[str, str]

    def values(self) -> dict[str, object]:
        """As the ledger holds it."""
        return {**asdict(self), "model": list(self.model)}


def row_hashes(inputs: Inputs) -> dict[str, tuple[str, ...]]:
    """For each item set, short hashes of what the judge sees of each row, sorted."""
    hashes = {
        f"items.{s.role}": tuple(sorted(row_hash(inputs.judge, item) for item in s.items))
        for s in inputs.called_sets
    }
    if inputs.tables.votes is not None:
        hashes["annotations"] = vote_hashes(inputs.tables.votes)
    if inputs.tables.verdicts:
        hashes["verdicts"] = verdict_hashes(inputs.tables.verdicts)
    if inputs.tables.labellings is not None:
        hashes["labellings"] = labelling_hashes(inputs.tables.labellings)
    if inputs.tables.adjudicated is not None:
        hashes["adjudication"] = label_hashes(inputs.tables.adjudicated.labels)
    return hashes


def row_hash(judge: Judge, item: Item) -> str:
    """Short hash of the values that a judge sees of a row.

    What counts are the words in it, in any order: names and order of fields, white space, letter
    case, punctuation and invisible characters do not. A changed word makes another row.
    """
    values = (item.fields[name] for name in judge.spec.fields)
    text = " ".join(v if isinstance(v, str) else canonical_json(v).decode() for v in values)
    plain = unicodedata.normalize("NFKC", text).casefold()
    return sha256_value("row-words", sorted(_WORD.findall(without_hidden(plain))))[:ROW_DIGITS]


def identity_of(
    inputs: Inputs, rows: Mapping[str, Sequence[str]], *, model: Sequence[str]
) -> Identity:
    """What a registration uses.

    `rows` are the hashes of its rows by item set; `model` its files', empty for a served one.
    """
    named = inputs.model.model
    served = () if isinstance(named, LocalModel) else (f"served:{named.model}",)
    items = {role: sha256_value("item-rows", list(r)) for role, r in rows.items()}
    files = {f"items.{s.role}": s.sha256 for s in inputs.called_sets}
    if inputs.tables.votes is not None:
        files["annotations"] = inputs.tables.votes.sha256
    if inputs.tables.verdicts:
        files["verdicts"] = inputs.tables.verdicts[0].sha256  # of several the lock names each
    if inputs.tables.labellings is not None:
        files["labellings"] = inputs.tables.labellings.files[0].sha256  # as of verdicts
    if inputs.tables.adjudicated is not None:
        files["adjudication"] = inputs.tables.adjudicated.file.sha256
    return Identity(
        inputs.judge.sha256, inputs.judge.prompt_sha256, (*model, *served), items, files
    )


def identity_in_lock(inputs: Inputs, lock: Lock) -> tuple[Identity, Mapping[str, Sequence[str]]]:
    """What a locked registration uses, and its rows' hashes.

    The rows' hashes are made again; those in the lock stand where the rows are withheld.
    """
    rows: Mapping[str, Sequence[str]] = lock.rows
    if not inputs.workspace.withheld:
        rows = row_hashes(inputs)
    hashes = [e.sha256 for e in lock.inputs if e.role == "model"]
    return identity_of(inputs, rows, model=hashes), rows


def known_uses(
    workspace: Workspace,
    before: Iterable[Event],
    mine: Identity,
    rows: Mapping[str, Sequence[str]],
) -> tuple[Seen, ...]:
    """The runs and probes among events that used something of the same.

    Parameters
    ----------
    before
        The events that count, oldest first: all of the ledger's, up to the moment.
    mine, rows
        What is registered: its identity, and the hashes of its rows by item set.

    Returns
    -------
    One entry a run or probe that shares at least the judge, the model or a row. A run whose lock
    is no longer there, or of an older form, is compared by the hashes in the ledger, so that rows
    in common are seen only where the whole set is the same; otherwise it counts as if there were.
    """
    locks: dict[str, _Known] = {}
    found: dict[tuple[str, str], Seen] = {}
    words: dict[tuple[str, str], list[str]] = {}
    for event in before:
        name, ident = event["event"], str(event.get("id"))
        if name in ("registered", "amended"):
            locks[event["lock"]] = _known(workspace, event)
        elif name == "run_started":
            use = locks.get(event["lock"])
            key = (ident, f"run {event['run']}")
            if use is not None and (seen := _shared(use, mine, rows, key, event["at"])):
                found[key] = seen
        elif name == "probe_started":
            key = (ident, f"probe at {event['at']}")
            if seen := _shared(_probed(event), mine, rows, key, event["at"]):
                found[key] = seen
        elif name == "scored":
            words.setdefault((ident, f"run {event['run']}"), []).append(event["verdict"])
    return tuple(
        Seen(**{**vars(seen), "verdicts": tuple(words.get(key, ()))}) for key, seen in found.items()
    )


def exposure_at_lock(
    workspace: Workspace, inputs: Inputs, lock: Lock, lock_sha256: str
) -> LockedExposure:
    """What had been seen when a lock was made, computed anew from the ledger as it is now.

    Where the lock of an earlier run is gone since, what this lock says of it stands; also that it
    says nothing (`untold_since`).
    """
    known = _known_before(workspace, inputs, lock, lock_sha256)
    told = lock.exposure
    if told is None:  # a lock of the first form
        every = tuple(known.values())
        return LockedExposure(inputs.model.exposure.seen, _level_here(inputs, every), every)
    # The ledger goes before the lock, but for what only the lock can still tell.
    kept = {(s.id, s.what): s for s in told.known}
    for key, seen in known.items():
        then = kept.get(key)
        if then is None and _says_nothing(seen):
            continue
        if then is not None and _tells_more(then, seen):
            kept[key] = replace(then, at=seen.at, verdicts=seen.verdicts)
        else:
            kept[key] = seen
    every = tuple(kept.values())
    return LockedExposure(told.stated, highest([told.level, _level_here(inputs, every)]), every)


def untold_since(
    workspace: Workspace, inputs: Inputs, lock: Lock, lock_sha256: str
) -> tuple[Seen, ...]:
    """Uses before a lock that it does not name, and of which nothing can be told any more.

    When it was made, their locks said that they had nothing in common; a bundle does not hold them.
    """
    told = {(s.id, s.what) for s in lock.exposure.known} if lock.exposure else set()
    known = _known_before(workspace, inputs, lock, lock_sha256)
    return tuple(s for key, s in known.items() if key not in told and _says_nothing(s))


def _says_nothing(seen: Seen) -> bool:
    return seen.same == (UNTOLD,)


def _known_before(
    workspace: Workspace, inputs: Inputs, lock: Lock, lock_sha256: str
) -> dict[tuple[str, str], Seen]:
    """The uses that the ledger, as it is now, knows of before a lock."""
    before = takewhile(
        lambda e: e.get("lock") != lock_sha256 or e["event"] == "run_started",
        ledger_events(workspace),
    )
    identity, rows = identity_in_lock(inputs, lock)
    return {(s.id, s.what): s for s in known_uses(workspace, list(before), identity, rows)}


def _level_here(inputs: Inputs, known: Iterable[Seen]) -> ExposureLevel:
    return level_of(known, calls=inputs.model.calls)


def _tells_more(then: Seen, now: Seen) -> bool:
    """Whether the lock could still compare rows that can no longer be compared."""
    lost = UNTOLD in now.same and UNTOLD not in then.same
    return lost or (now.rows is None and then.rows is not None)


def ledger_events(workspace: Workspace) -> list[Event]:
    """Every event of the workspace's ledger."""
    return Ledger(workspace.ledger, workspace.shown(workspace.ledger)).events()


def level_of(known: Iterable[Seen], *, calls: bool = True) -> ExposureLevel:
    """How much the ledger's entries amount to.

    Without `calls` there is no judge and no model: who has read the rows has seen everything.
    """
    levels = [_level(seen.same) for seen in known]
    return highest("full" if level == "items" and not calls else level for level in levels)


def highest(levels: Iterable[ExposureLevel]) -> ExposureLevel:
    """The highest of some levels; `none` of nothing."""
    return max(levels, key=EXPOSURE_LEVELS.index, default="none")


def exposure_words(exposure: LockedExposure) -> list[str]:
    """What the ledger knew at the lock, in a sentence an entry; empty where it knew nothing."""
    return [_sentence(seen) for seen in exposure.known]


LEVEL_WORDS: dict[ExposureLevel, str] = {
    "none": "nothing of these items, this judge or this model had been run",
    "partly": "the judge or the model had been run, on other items",
    "items": "some of these items had been run, by another judge or model, or nobody can tell",
    "full": "some of these items had been run by this judge and this model, or nobody can tell",
}


def level_words(inputs: Inputs, level: ExposureLevel) -> str:
    """What a level means: of items, judge and model, or of tables where nothing is called."""
    if inputs.model.calls:
        return LEVEL_WORDS[level]
    if level == "none":
        return "nothing of these tables had been read"
    what = "labels or spans" if inputs.model.study in STUDIES_OF_LABELLINGS else "votes or verdicts"
    return f"some of these {what} had been read, or nobody can tell"


def _sentence(seen: Seen) -> str:
    parts: list[str] = [part for part in ("judge", "model") if part in seen.same]
    sets = [part for part in seen.same if is_rows(part)]
    if sets:
        rows = "rows" if seen.rows is None else f"{seen.rows} of these rows"
        parts.append(f"{rows} ({', '.join(s.removeprefix('items.') for s in sets)})")
    if UNTOLD in seen.same:
        parts.append("rows, perhaps: its lock is gone or of an older form, and it counts as if")
    words = [word for word, _ in groupby(seen.verdicts)]  # scored again with the same outcome
    scored = f"; scored {', then '.join(words)}" if words else ""
    shared = " and ".join(parts) if len(parts) < 3 else f"{parts[0]}, {parts[1]} and {parts[2]}"
    when = "" if seen.what.startswith("probe") else f" began {seen.at}"
    return f"{seen.what} of {seen.id!r}{when}: same {shared}{scored}"


@dataclass(frozen=True)
class _Known:
    """An earlier use by content; `rows` is None where only the whole sets' hashes are known.

    Empty texts are what an older ledger did not say.
    """

    judge: str
    prompt: str
    model: tuple[str, ...]
    items: frozenset[str]
    rows: frozenset[str] | None


def _known(workspace: Workspace, event: Event) -> _Known:
    told = event.get("inputs") or {}
    lock = _lock_of(workspace, event)
    if lock is None:
        return _Known(
            str(told.get("judge", "")),
            str(told.get("prompt", "")),
            tuple(told.get("model", ())),
            _sets(told),
            None,
        )
    by_role: dict[str, list[str]] = {
        role: [e.sha256 for e in lock.inputs if e.role == role] for role in ("judge", "model")
    }
    files = frozenset(e.sha256 for e in lock.inputs if is_rows(e.role))
    rows = frozenset(row for each in lock.rows.values() for row in each)
    return _Known(
        next(iter(by_role["judge"]), ""),
        lock.derived.prompt_template,
        tuple(by_role["model"]) or tuple(told.get("model", ())),
        files | _sets(told),
        rows or None,
    )


def _sets(told: Mapping[str, Any]) -> frozenset[str]:
    return frozenset([*told.get("items", {}).values(), *told.get("files", {}).values()])


def _lock_of(workspace: Workspace, event: Event) -> Lock | None:
    """The lock that an event names, or the copy that a run made of it; None where both are gone."""
    places = [workspace.lock(event["id"], int(event.get("version", 1)))]
    places += sorted(workspace.runs(event["id"]).glob("*/lock.json"))
    for path in places:
        if path.is_file() and sha256_file(path) == event["lock"]:
            try:
                return parse_lock(path.read_bytes(), shown=workspace.shown(path))
            except IntegrityError:
                return None
    return None


def _probed(event: Event) -> _Known:
    told = event.get("inputs") or {}
    if not told:  # an older form
        return _Known(str(event.get("judge", "")), "", (), frozenset(event.get("items", ())), None)
    return _Known(
        told["judge"],
        told["prompt"],
        tuple(told["model"]),
        frozenset(),  # a part of its sets: by row
        frozenset(event["rows"]),
    )


def _shared(
    use: _Known,
    mine: Identity,
    rows: Mapping[str, Sequence[str]],
    key: tuple[str, str],
    at: str,
) -> Seen | None:
    same: list[str] = []
    if (use.judge and use.judge == mine.judge) or (use.prompt and use.prompt == mine.prompt):
        same.append("judge")
    if use.model and use.model == mine.model:
        same.append("model")
    n_rows: int | None = None
    for role, own in rows.items():
        common = 0 if use.rows is None else sum(row in use.rows for row in own)
        if common or not use.items.isdisjoint({mine.items[role], mine.files[role]}):
            same.append(role)
        if common:
            n_rows = (n_rows or 0) + common
    if use.rows is None and not any(map(is_rows, same)):
        same.append(UNTOLD)
    ident, what = key
    return Seen(ident, what, at, tuple(same), n_rows) if same else None


def _level(same: Sequence[str]) -> ExposureLevel:
    if not any(is_rows(part) or part == UNTOLD for part in same):
        return "partly" if same else "none"
    return "full" if {"judge", "model"} <= set(same) else "items"
