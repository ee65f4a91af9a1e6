"""Earlier runs that a registration compares itself with: found, checked, and read as verdicts."""

from __future__ import annotations

from prereg_judge.canon import sha256_file
from prereg_judge.errors import InputError, IntegrityError, Problem
from prereg_judge.ledger.book import Ledger
from prereg_judge.ledger.events import RunEntry, run_entries
from prereg_judge.record.run import read_plan, read_record
from prereg_judge.registration.claims import Claims, Condition, tests_in
from prereg_judge.registration.lock import parse_lock
from prereg_judge.registration.schema import Registration
from prereg_judge.study.metric import MetricRef
from prereg_judge.study.outcomes import EarlierRun
from prereg_judge.workspace import Workspace


def metric_refs(claims: Claims) -> list[MetricRef]:
    """Every metric that any claim names, in order, without repetition."""
    conditions: list[Condition] = [b.test for b in claims.bands]
    conditions += [p.test for p in claims.predictions]
    conditions += [r.when for r in claims.refuters]
    conditions += [s.when for s in claims.stops]
    conditions += [d.when for d in claims.decisions]
    return list(dict.fromkeys(t.ref for c in conditions for t in tests_in(c)))


def earlier_names(claims: Claims) -> list[str]:
    """The `from_run` names in use, such as `cs-single-pass` or `cs-single-pass/2`."""
    params = (dict(ref.params) for ref in metric_refs(claims))
    return list(dict.fromkeys(p["from_run"] for p in params if "from_run" in p))


def judge_runs(registered: Registration) -> list[str]:
    """The earlier runs whose judges' verdicts are compared with annotators', by name."""
    return list(dict.fromkeys(judge.run for judge in registered.judges if judge.run is not None))


def locate(workspace: Workspace, name: str, *, pinned: bool) -> tuple[str, int]:
    """The registration and run number that a `from_run` name means.

    A name without a number means the only finished run there is at the lock. Runs made later have
    higher numbers, so once locked (`pinned`) it goes on meaning the first.

    Raises
    ------
    InputError
        If there is no such finished run, or several and none is named.
    """
    ident, entry = _entry(workspace, name, pinned)
    return ident, entry.number


def _entry(workspace: Workspace, name: str, pinned: bool) -> tuple[str, RunEntry]:
    ident, _, number = name.partition("/")
    ledger = Ledger(workspace.ledger, workspace.shown(workspace.ledger))
    runs = [r for r in run_entries(ledger.events(ident)) if r.state in ("complete", "stopped")]
    wanted = [r for r in runs if not number or str(r.number) == number]
    if len(wanted) == 1 or (wanted and pinned):
        return ident, wanted[0]
    listed = ", ".join(f"{ident}/{r.number}" for r in runs) or "none"
    what = "is not a finished run" if not wanted else "has several finished runs"
    remedy = f"write ID/N; finished runs of {ident!r}: {listed}"
    raise InputError(Problem(what, where="from_run", found=repr(name), remedy=remedy))


def earlier_runs(workspace: Workspace, claims: Claims, *, pinned: bool) -> dict[str, EarlierRun]:
    """Read every earlier run that the claims name, by that name.

    Raises
    ------
    InputError
        If one does not exist or is not finished.
    IntegrityError
        If its record was changed.
    """
    return {name: read_earlier(workspace, name, pinned=pinned) for name in earlier_names(claims)}


def read_earlier(workspace: Workspace, name: str, *, pinned: bool) -> EarlierRun:
    """The verdicts of one earlier run; what it raises is what `earlier_runs` says."""
    ident, entry = _entry(workspace, name, pinned)
    folder = workspace.run(ident, entry.number)
    shown = workspace.shown(folder)
    absent = ("prompts.jsonl",) if workspace.withheld else ()
    record = read_record(folder, shown=shown, absent=absent)
    if any("simulated" in note for note in record.notes):
        what = "is the record of a rehearsal: its header says that it was simulated"
        raise IntegrityError(Problem(what, f"{shown}/attempts.jsonl"))
    manifest = folder / "manifest.json"
    if record.manifest is None or sha256_file(manifest) != entry.manifest:
        what = "the earlier run's manifest is not the one that the ledger names"
        remedy = "restore the run's folder"
        raise IntegrityError(Problem(what, f"{shown}/{manifest.name}", remedy=remedy))
    verdicts, by_order, passes = {}, {}, 0
    for line in read_plan(folder, shown=shown):
        made = record.by_trial.get(line.trial)
        role = "sentinel" if line.set == "sentinel" else "real"
        verdict = made[-1].verdict if made else None
        by_order[role, line.item, line.order, line.pass_no] = verdict
        if line.order == "ab":
            verdicts[role, line.item, line.pass_no] = verdict
        passes = max(passes, line.pass_no)
    lock = parse_lock((folder / "lock.json").read_bytes(), shown=f"{shown}/lock.json")
    items = {e.role.removeprefix("items."): e.sha256 for e in lock.inputs if "items" in e.role}
    return EarlierRun(name, passes, verdicts, items, by_order, (ident, entry.number))  # type: ignore[arg-type]
