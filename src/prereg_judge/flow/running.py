"""Running a locked registration: one numbered run, resumed where its record ends.

The run's number is in the ledger, synced, before the first call; every attempt is in the record
before the next one is made. A killed process loses at most the call in flight.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from prereg_judge import clock
from prereg_judge.canon import canonical_json, sha256_bytes
from prereg_judge.chain import write_synced
from prereg_judge.engine.protocol import Backend, Call, Reply
from prereg_judge.engine.supervisor import Limits, LlamaBackend, attempts
from prereg_judge.errors import IntegrityError, Problem, UsageError
from prereg_judge.flow.calls import attempt_line, decoding_of, seed_for
from prereg_judge.flow.environment import environment
from prereg_judge.flow.evidence import verify_open
from prereg_judge.flow.locking import (
    Locked,
    check_derived,
    known_registration,
    ledger_of,
    open_locked,
    read_lock,
)
from prereg_judge.flow.prepare import (
    Inputs,
    ModelInputs,
    load_timeout_s,
    model_spec,
    read_model,
)
from prereg_judge.flow.views import call_view
from prereg_judge.flow.watching import Finished, Watcher
from prereg_judge.ledger.book import RunEntry, run_entries
from prereg_judge.plan import Trial
from prereg_judge.record.run import (
    AttemptLine,
    AttemptWriter,
    PlanLine,
    PromptLine,
    Record,
    check_against_plan,
    lines_data,
    read_record,
    write_lines,
    write_manifest,
)
from prereg_judge.verdict import StopWatch
from prereg_judge.workspace import Workspace

MakeBackend = Callable[[Inputs, ModelInputs, Path, Callable[[str], None]], Backend]


def llama_backend(
    inputs: Inputs, model: ModelInputs, log: Path, announce: Callable[[str], None]
) -> Backend:
    """The engine that a registration asks for."""
    registered = inputs.model
    hang = registered.protocol.hang
    return LlamaBackend(
        model_spec(registered, model.files[0]),
        inputs.constraint,
        decoding=decoding_of(registered),
        max_tokens=registered.protocol.max_tokens,
        limits=Limits(hang.call_timeout_s, hang.heartbeat_s, load_timeout_s(registered)),
        log=log,
        announce=announce,
    )


def run_registration(
    workspace: Workspace,
    ident: str,
    *,
    again: bool = False,
    watcher: Watcher | None = None,
    make_backend: MakeBackend = llama_backend,
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
        locked = open_locked(workspace, ident, with_model=True, progress=watcher.hashed)
        entry = _choose(workspace, ident, run_entries(locked.events), again=again)
        model = read_model(locked.inputs)
        check_derived(locked, model)
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
        ledger.append("run_aborted", ident=ident, run=entries[-1].number, reason=reason)
        return entries[-1].number


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
        self.retries = self.registered.protocol.hang.retries
        self.watches = [(rule, StopWatch(rule)) for rule in self.inputs.claims.stops]

    def go(self, entry: RunEntry | None, make_backend: MakeBackend) -> Finished:
        """Start or resume, call every trial that is not done, and write the manifest."""
        number, folder, record = self._open(entry)
        shown = self.workspace.shown(folder)
        if record.manifest is not None:  # killed between the manifest and the ledger's event
            return self._finish(number, folder, record.manifest["status"])
        waiting = set(check_against_plan(record, retries=self.retries, shown=shown))
        total = self.locked.lock.derived.n_trials
        self.watcher.begin(number, total, total - len(waiting), entry is not None)
        writer = AttemptWriter(folder, header={"id": self.ident, "run": number})
        try:
            stopped = self._replay(record)
            if stopped is None and waiting:
                backend = make_backend(
                    self.inputs, self.model, folder / "worker.log", self.watcher.announce
                )
                try:
                    stopped = self._call_all(waiting, record, writer, backend)
                finally:
                    backend.close()
            if stopped is not None:
                writer.note("stopped", rule=stopped)
        finally:
            writer.close()
        status = "complete" if stopped is None else "stopped"
        record = read_record(folder, shown=shown)
        write_manifest(
            folder,
            {
                "id": self.ident,
                "run": number,
                "status": status,
                "stopped_by": stopped,
                "finished_at": clock.now(),
                "trials": total,
                "attempts": len(record.attempts),
                "attempts_head": record.head,
                "ledger_head": self.ledger.head,
            },
        )
        return self._finish(number, folder, status)

    def _open(self, entry: RunEntry | None) -> tuple[int, Path, Record]:
        if entry is not None:
            folder = self.workspace.run(self.ident, entry.number)
            shown = self.workspace.shown(folder)
            record = read_record(folder, shown=shown)
            problems = verify_open(self.locked, entry, record, shown=shown)
            prompts = folder / "prompts.jsonl"
            if not prompts.is_file() or prompts.read_bytes() != lines_data(self._prompts()):
                problems.append(
                    Problem("are not the prompts of the lock", f"{shown}/{prompts.name}")
                )
            if problems:
                raise IntegrityError(*problems)
            check_against_plan(record, retries=self.retries, shown=shown)
            self.ledger.append("run_resumed", ident=self.ident, run=entry.number, head=record.head)
            return entry.number, folder, record
        entries = run_entries(self.locked.events)
        number = entries[-1].number + 1 if entries else 1
        folder = self.workspace.run(self.ident, number)
        if (folder / "attempts.jsonl").exists():
            what = f"a record lies here that no ledger knows as run {number}"
            remedy = "move it out of the way; the ledger may have been cut"
            raise IntegrityError(Problem(what, self.workspace.shown(folder), remedy=remedy))
        plan = self._lay_out(folder)
        self.ledger.append(
            "run_started", ident=self.ident, run=number, lock=self.locked.lock_sha256, plan=plan
        )
        return number, folder, read_record(folder, shown=self.workspace.shown(folder))

    def _lay_out(self, folder: Path) -> str:
        """Write everything that is known before the first call; return the plan's hash."""
        write_synced(folder / "registration.yaml", self.inputs.loaded.raw)
        write_synced(folder / "lock.json", self.locked.lock_bytes)
        write_lines(folder / "prompts.jsonl", self._prompts())
        spec = model_spec(self.registered, self.model.files[0])
        written = self.registered.model.gguf
        data = canonical_json(environment(spec, self.model.facts, written=written)) + b"\n"
        write_synced(folder / "environment.json", data)
        return write_lines(
            folder / "plan.jsonl",
            (
                PlanLine(t.index, t.key, t.set, t.item.id, t.order, t.pass_no, self._prompt(t))
                for t in self.inputs.plan()
            ),
        )

    def _prompts(self) -> list[PromptLine]:
        distinct = {p.sha256: p for p in self.model.prompt_of.values()}.values()
        return [PromptLine(p.sha256, p.text, len(p.tokens), p.ids_sha256) for p in distinct]

    def _prompt(self, trial: Trial) -> str:
        return self.model.prompt_of[trial.set, trial.item.id, trial.order].sha256

    def _replay(self, record: Record) -> str | None:
        """Feed the attempts made so far to the stop rules; name the one that had tripped."""
        tripped = None
        for line in record.attempts:
            tripped = self._watch(line) or tripped
        return tripped

    def _watch(self, line: AttemptLine) -> str | None:
        view = call_view(line)
        states = {rule.id: watch.feed(view) for rule, watch in self.watches}
        return next((ident for ident, state in states.items() if state.tripped), None)

    def _call_all(
        self, waiting: set[str], record: Record, writer: AttemptWriter, backend: Backend
    ) -> str | None:
        """Call the trials that are not done, in plan order; the id of a tripped stop rule."""
        current_pass = 0
        for trial in self.inputs.plan():
            if trial.key not in waiting:
                continue
            if trial.pass_no != current_pass:
                backend.start_pass()
                current_pass = trial.pass_no
            made = len(record.by_trial.get(trial.key, []))
            stopped = self._call(trial, made, writer, backend)
            if stopped is not None:
                return stopped
        return None

    def _call(self, trial: Trial, made: int, writer: AttemptWriter, backend: Backend) -> str | None:
        prompt = self.model.prompt_of[trial.set, trial.item.id, trial.order]

        def make_call() -> Call:
            self.watcher.calling(trial.key)
            seed = seed_for(self.registered)
            return Call(trial.key, prompt.tokens, self.model.cuts, seed)

        left = self.retries - made
        tries = attempts(backend, make_call, retries=left)
        for call, result in tries:
            made += 1
            line = attempt_line(
                trial,
                made,
                call,
                result,
                prompt=prompt.sha256,
                judge=self.inputs.judge,
            )
            writer.attempt(line)
            done = isinstance(result, Reply) or made > self.retries
            self.watcher.attempted(line, done)
            stopped = self._watch(line)
            if stopped is not None:
                return stopped
        return None

    def _finish(self, number: int, folder: Path, status: str) -> Finished:
        manifest = (folder / "manifest.json").read_bytes()
        self.ledger.append(
            "run_finished",
            ident=self.ident,
            run=number,
            status=status,
            manifest=sha256_bytes(manifest),
        )
        record = read_record(folder, shown=self.workspace.shown(folder))
        assert record.manifest is not None
        return Finished(
            number,
            folder,
            status,
            record.manifest["stopped_by"],
            record.manifest["trials"],
            len(record.attempts),
        )
