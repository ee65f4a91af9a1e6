"""Running a locked registration: one numbered run, resumed where its record ends.

The run's number is in the ledger, synced, before the first call; every attempt is in the record
before the next call or group is made. A killed process loses at most the calls in flight.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from prereg_judge.canon import canonical_json, sha256_file
from prereg_judge.chain import read_chain, write_synced
from prereg_judge.engine.protocol import Backend
from prereg_judge.errors import IntegrityError, Problem, UsageError
from prereg_judge.flow.backends import MakeBackend, described, make_backend
from prereg_judge.flow.collecting import Collector, StartBackend
from prereg_judge.flow.environment import environment
from prereg_judge.flow.evidence import (
    RecordCheck,
    copy_problems,
    noted_heads,
    raise_integrity,
    start_line,
)
from prereg_judge.flow.locked import (
    Locked,
    check_derived,
    known_registration,
    ledger_of,
    open_locked,
    read_lock,
)
from prereg_judge.flow.locking import refuse_withdrawn
from prereg_judge.flow.prompts import ModelInputs, read_model, safe_words
from prereg_judge.flow.served import refuse_other_servers
from prereg_judge.flow.settings import EngineSettings
from prereg_judge.flow.views import call_view
from prereg_judge.flow.watching import Finished, Watcher
from prereg_judge.ledger.events import Event, RunEntry, run_entries, versions
from prereg_judge.plan import Trial
from prereg_judge.record.attempt import AttemptLine
from prereg_judge.record.run import (
    AttemptWriter,
    PlanLine,
    PromptLine,
    line_data,
    read_manifest,
    write_lines,
    write_manifest,
)
from prereg_judge.record.state import RunState, read_state
from prereg_judge.stopping import StopWatch
from prereg_judge.workspace import Workspace


def run_registration(
    workspace: Workspace,
    ident: str,
    *,
    again: bool = False,
    watcher: Watcher | None = None,
    make_backend: MakeBackend = make_backend,
) -> Finished:
    """Start a run, or resume the one that is unfinished.

    Parameters
    ----------
    again
        Start a further run although a finished one exists. It is counted.
    watcher
        Told about progress.
    make_backend
        Makes the engine.

    Raises
    ------
    UsageError
        If the registration is not locked, a finished run exists and `again` is not set, or
        another process is running it.
    IntegrityError
        If anything differs from the lock or the unfinished run's record was changed.
    EngineError
        If the model cannot be loaded. The run stays unfinished and can be resumed.
    """
    watcher = watcher or Watcher()
    known_registration(workspace, ident)
    read_lock(workspace, ident, ledger_of(workspace).events(ident))
    with _alone(workspace, ident):
        events = ledger_of(workspace).events(ident)
        refuse_withdrawn(ident, events)
        entries = run_entries(events)
        # An unfinished run goes on under the version that was in force when it began.
        open_under = entries[-1].version if entries and entries[-1].state == "open" else None
        locked = open_locked(
            workspace, ident, with_model=True, version=open_under, progress=watcher.hashed
        )
        entry = _choose(workspace, ident, entries, again=again)
        model = read_model(locked.inputs)
        check_derived(locked, model)
        hashes = [e.sha256 for e in locked.lock.inputs if e.role == "model"]
        paths = map(str, model.files)
        model = replace(model, hashes=dict(zip(paths, hashes, strict=True)))
        return _Run(workspace, locked, model, watcher).go(entry, make_backend)


@contextmanager
def _alone(workspace: Workspace, ident: str) -> Iterator[None]:
    folder = workspace.runs(ident)
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with FileLock(folder / ".lock", timeout=0):
            yield
    except Timeout as exc:
        what = f"another process is running {ident!r}"
        raise UsageError(Problem(what, remedy="wait for it, or stop it with Ctrl-C")) from exc


def _choose(
    workspace: Workspace, ident: str, entries: list[RunEntry], *, again: bool
) -> RunEntry | None:
    """The unfinished run to resume, or None for a new one."""
    latest = entries[-1] if entries else None
    if latest is None or latest.state == "aborted":
        return None
    if latest.state == "open":
        folder = workspace.run(ident, latest.number)
        if folder.is_dir():
            return latest
        what = f"run {latest.number} was started and its folder is gone"
        remedy = (
            f"restore it, or give it up with `prereg run {ident} --abandon REASON`: it stays "
            "counted"
        )
        raise IntegrityError(Problem(what, workspace.shown(folder), remedy=remedy))
    if again:
        return None
    what = f"run {latest.number} of {ident!r} is finished"
    remedy = (
        f"see `prereg score {ident}`, or start another, counted run with `prereg run {ident} "
        "--again`"
    )
    raise UsageError(Problem(what, remedy=remedy))


def abandon_run(workspace: Workspace, ident: str, *, reason: str) -> int:
    """Give up the unfinished run; it stays, is counted, and its number is returned.

    Raises
    ------
    UsageError
        If there is no unfinished run.
    """
    known_registration(workspace, ident)
    with _alone(workspace, ident):
        ledger = ledger_of(workspace)
        entries = run_entries(ledger.events(ident))
        if not entries or entries[-1].state != "open":
            raise UsageError(Problem(f"{ident!r} has no unfinished run to give up"))
        number = entries[-1].number
        record = workspace.run(ident, number) / "attempts.jsonl"
        told = {"run": number, "reason": reason}
        # What was recorded by then is vouched for like a finished run's record; a damaged one can
        # be given up too.
        with suppress(IntegrityError):
            told["head"] = read_chain(record).head
        ledger.append("run_aborted", ident=ident, **told)
        return number


class _Run:
    """One run in progress."""

    def __init__(
        self, workspace: Workspace, locked: Locked, model: ModelInputs, watcher: Watcher
    ) -> None:
        self.workspace, self.locked, self.model, self.watcher = workspace, locked, model, watcher
        self.inputs = locked.inputs
        self.registered = locked.inputs.model
        self.ident = self.registered.id
        self.ledger = ledger_of(workspace)
        retries = self.registered.protocol.hang.retries
        self.state = RunState(self.inputs.plan, retries=retries)
        self.watches = [StopWatch(rule) for rule in self.inputs.claims.stops]
        self.served: dict[str, Any] | None = None  # what servers said when the run began

    def go(self, entry: RunEntry | None, make_backend: MakeBackend) -> Finished:
        """Start or resume, call every trial that is not done, and write the manifest."""
        number, folder = self._begin() if entry is None else self._resume(entry)
        manifest = read_manifest(folder, shown=self.workspace.shown(folder))
        if manifest is not None:  # killed between the manifest and the ledger's event
            return self._finish(number, folder, manifest)
        state, total = self.state, len(self.state.plan)
        self.watcher.begin(number, total, state.n_done, entry is not None)
        for text in safe_words(self.inputs, self.model.facts):
            self.watcher.announce(text)
        started = next(
            e["at"]
            for e in self.ledger.events(self.ident)
            if e["event"] == "run_started" and e["run"] == number
        )
        writer = AttemptWriter(
            folder,
            header={"id": self.ident, "run": number, "ledger": self._start_line(number)},
            not_before=max(started, state.last_at),
        )
        try:
            stopped = self._tripped()
            if stopped is None and state.n_done < total:
                collector = Collector(
                    self.inputs,
                    self.model,
                    state,
                    writer=writer,
                    watcher=self.watcher,
                    watches=self.watches,
                )
                stopped = collector.collect(self._starter(make_backend, folder, writer))
            if stopped is not None:
                writer.note("stopped", rule=stopped)
            finished_at = writer.now()
            head = writer.head
        finally:
            writer.close()
        manifest = {
            "id": self.ident,
            "run": number,
            "status": "complete" if stopped is None else "stopped",
            "stopped_by": stopped,
            "finished_at": finished_at,
            "trials": total,
            "attempts": state.n_attempts,
            "attempts_head": head,
            "ledger_head": self.ledger.head,
        }
        write_manifest(folder, manifest)
        return self._finish(number, folder, manifest)

    def _start_line(self, number: int) -> str:
        """Hash of the ledger's line that began the run: every line of the record hangs on it."""
        return start_line(self.ledger.chain(), self.ident, number)

    def _starter(
        self, make_backend: MakeBackend, folder: Path, writer: AttemptWriter
    ) -> StartBackend:
        def start(settings: EngineSettings) -> Backend:
            backend = make_backend(
                self.inputs, self.model, settings, folder / "worker.log", self.watcher.announce
            )
            try:
                served = described(backend)
                if served is not None:
                    refuse_other_servers(
                        self.locked.lock.served, served, since="registration was locked"
                    )
                    refuse_other_servers(self.served, served)
                    self.served = self.served or served
                    writer.note("served", **served)
            except BaseException:
                backend.close()
                raise
            return backend

        return start

    def _tripped(self) -> str | None:
        """The stop rule that had tripped before this session."""
        states = [watch.state for watch in self.watches]
        return next((s.rule.id for s in states if s.at_call is not None), None)

    def _resume(self, entry: RunEntry) -> tuple[int, Path]:
        folder = self.workspace.run(self.ident, entry.number)
        shown = self.workspace.shown(folder)
        raise_integrity(copy_problems(self.locked, entry, folder, shown))
        check = RecordCheck(self.locked, entry, shown)

        def on_attempt(line: AttemptLine) -> None:
            check.attempt(line)
            for watch in self.watches:
                watch.feed(call_view(line))

        def on_note(note: dict[str, Any]) -> None:
            check.note(note)
            if note.get("event") == "served" and not check.problems:
                self.served = self.served or note

        read_state(
            folder,
            self.state,
            shown=shown,
            prompt_of=self._prompt,
            on_attempt=on_attempt,
            on_note=on_note,
            heads=noted_heads(self.locked, entry),
        )
        problems = check.problems
        prompts = folder / "prompts.jsonl"
        if not prompts.is_file() or sha256_file(prompts) != self._prompts_sha256():
            problems.append(Problem("are not the prompts of the lock", f"{shown}/{prompts.name}"))
        raise_integrity(problems)
        self.ledger.append("run_resumed", ident=self.ident, run=entry.number, head=self.state.head)
        return entry.number, folder

    def _begin(self) -> tuple[int, Path]:
        entries = run_entries(self.locked.events)
        number = entries[-1].number + 1 if entries else 1
        folder = self.workspace.run(self.ident, number)
        if (folder / "attempts.jsonl").exists():
            what = f"a record lies here that no ledger knows as run {number}"
            remedy = "move it out of the way; the ledger may have been cut"
            raise IntegrityError(Problem(what, self.workspace.shown(folder), remedy=remedy))
        files = self._lay_out(folder)
        started = {"run": number, "lock": self.locked.lock_sha256, **files}

        def in_force(events: list[Event]) -> dict[str, Any]:
            mine = [e for e in events if e.get("id") == self.ident]
            refuse_withdrawn(self.ident, mine)
            if versions(mine)[-1].lock != self.locked.lock_sha256:
                what = f"{self.ident!r} was amended by another process meanwhile"
                raise UsageError(Problem(what, remedy="run the same command again"))
            return started

        self.ledger.append_after(in_force, "run_started", ident=self.ident)
        return number, folder

    def _lay_out(self, folder: Path) -> dict[str, str]:
        """Write everything that is known before the first call; return the files' hashes."""
        write_synced(folder / "registration.yaml", self.inputs.loaded.raw)
        write_synced(folder / "lock.json", self.locked.lock_bytes)
        data = canonical_json(environment(self.inputs, self.model)) + b"\n"
        plan = (
            PlanLine(t.index, t.key, t.set, t.item.id, t.order, t.pass_no, self._prompt(t))
            for t in self.inputs.plan
        )
        return {
            "prompts": write_lines(folder / "prompts.jsonl", self._prompts()),
            "environment": write_synced(folder / "environment.json", data),
            "plan": write_lines(folder / "plan.jsonl", plan),
        }

    def _prompts(self) -> Iterator[PromptLine]:
        distinct = {p.sha256: p for p in self.model.prompt_of.values()}.values()
        return (PromptLine(p.sha256, p.text, len(p.tokens), p.ids_sha256) for p in distinct)

    def _prompts_sha256(self) -> str:
        digest = hashlib.sha256()
        for line in self._prompts():
            digest.update(line_data(line))
        return digest.hexdigest()

    def _prompt(self, trial: Trial) -> str:
        return self.model.prompt(trial).sha256

    def _finish(self, number: int, folder: Path, manifest: dict[str, Any]) -> Finished:
        self.ledger.append(
            "run_finished",
            ident=self.ident,
            run=number,
            status=manifest["status"],
            manifest=sha256_file(folder / "manifest.json"),
        )
        return Finished(
            number,
            folder,
            manifest["status"],
            manifest["stopped_by"],
            manifest["trials"],
            manifest["attempts"],
        )
