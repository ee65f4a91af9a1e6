"""What tests of runs share: registrations with groups, workers that are meddled with, records."""

from __future__ import annotations

import os
import re
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from prereg_judge.engine.client import WorkerClient, WorkerDiedError, WorkerSilentError
from prereg_judge.engine.protocol import Failure
from prereg_judge.engine.supervisor import Client, Limits, LlamaBackend
from prereg_judge.flow.backends import Announce, MakeBackend, limits_of
from prereg_judge.flow.prepare import Inputs
from prereg_judge.flow.prompts import ModelInputs
from prereg_judge.flow.running import run_registration
from prereg_judge.flow.settings import EngineSettings, model_spec, session_settings
from prereg_judge.flow.watching import Finished, Watcher
from prereg_judge.record.attempt import AttemptLine
from prereg_judge.record.run import Record, read_plan, read_record
from prereg_judge.registration.schema_model import LocalModel
from prereg_judge.words import INFRASTRUCTURE
from prereg_judge.workspace import Workspace
from support import (
    Done,
    make_workspace,
    new,
    prereg,
    reply,
    small_items,
    verdict_reply,
    write_items,
)

RUN = "runs/x/1"
# Long enough that a call of the small model is still under way when a signal comes.
TEXT = "a table by the river under a bridge, with a poem on it, " * 3


def registered(
    root: Path, *, n: int = 4, parallel: int = 4, **changed: str | list[str] | None
) -> Path:
    """A workspace with a locked registration `x` of `n` rows and two passes, in groups."""
    make_workspace(root)
    rows = [{**row, "text": f"{TEXT}{row['text']}"} for row in small_items(n)]
    write_items(root / "sentinels/small.jsonl", rows)
    return lock_in_groups(root, parallel=parallel, **changed)


def lock_in_groups(root: Path, *, parallel: int, **changed: str | list[str] | None) -> Path:
    """Write and lock a registration `x` with groups of this size and one thread."""
    done = new(root, "x", **changed)
    assert done.code == 0, done
    path = root / "registrations/x.yaml"
    text = path.read_text(encoding="utf-8")
    text, n_parallel = re.subn(r"(?m)^  parallel: .*$", f"  parallel: {parallel}", text)
    text, n_layers = re.subn(r"(?m)^  n_gpu_layers: 0$", r"\g<0>\n  n_threads: 1", text)
    assert (n_parallel, n_layers) == (1, 1)
    path.write_text(text, encoding="utf-8")
    done = prereg("lock", "x", root=root)
    assert done.code == 0, done
    return root


def making(connect: Callable[[Path], Client], *, limits: Limits | None = None) -> MakeBackend:
    """How a run makes its engine, with processes that `connect` starts, given their log."""

    def make(
        inputs: Inputs, model: ModelInputs, settings: EngineSettings, log: Path, announce: Announce
    ) -> LlamaBackend:
        local = inputs.model.model
        assert isinstance(local, LocalModel)
        return LlamaBackend(
            model_spec(local, model.files[0], settings),
            session_settings(inputs.model, inputs.judge, settings),
            limits=limits or limits_of(inputs.model),
            log=log,
            announce=announce,
            connect=lambda: connect(log),
        )

    return make


def run(
    root: Path, connect: Callable[[Path], Client], *, watcher: Watcher | None = None
) -> Finished:
    """Run `x`, or resume it."""
    return run_registration(Workspace(root), "x", watcher=watcher, make_backend=making(connect))


class KilledError(BaseException):
    """The process is gone."""


class LostAfter(Watcher):
    """Loses the process itself when so many attempts of this session are recorded."""

    def __init__(self, attempts: int) -> None:
        self.left = attempts

    def attempted(self, line: AttemptLine, finished: bool) -> None:
        """See `Watcher`."""
        del line, finished
        self.left -= 1
        if not self.left:
            raise KilledError


Keys = tuple[str, ...]


class Meddled(WorkerClient):
    """A real worker to which something is done while it answers certain calls.

    Parameters
    ----------
    meddle
        Given the keys of a group that is about to be asked: None, or what to do to the process
        with this id once the model is at work on them.
    """

    def __init__(self, log: Path, meddle: Callable[[Keys], Callable[[int], object] | None]) -> None:
        super().__init__(log=log)
        self._meddle = meddle

    def ask(self, message: dict[str, Any], **limits: Any) -> Any:
        """See `WorkerClient`."""
        keys = tuple(call["key"] for call in message.get("calls", ()))
        act = self._meddle(keys) if keys else None
        if act is None:
            return super().ask(message, **limits)
        over = threading.Event()
        thread = threading.Thread(target=self._act, args=(act, self._beats(), over))
        thread.start()
        try:
            return super().ask(message, **limits)
        finally:
            over.set()
            thread.join()

    def _act(self, act: Callable[[int], object], before: int, over: threading.Event) -> None:
        while self._beats() == before and not over.is_set():
            time.sleep(0.0005)
        act(self.pid)


def send(number: signal.Signals) -> Callable[[int], None]:
    """Sending a signal to a process."""
    return lambda pid: os.kill(pid, number)


Script = Callable[[str, int], str | Failure]


class FakeProcess:
    """A client without a process: answers each call from a function of (key, times asked).

    A `Failure` in a group makes the whole group hang or crash, as it would a real worker.
    """

    name = "fake"
    alive = True

    def __init__(self, fake: Fake) -> None:
        self._fake = fake

    def ask(
        self, message: dict[str, Any], *, timeout_s: float, heartbeat_s: float | None = None
    ) -> Any:
        """Answer as a worker does."""
        del timeout_s, heartbeat_s
        calls = message.get("calls")
        if calls is None:
            return None
        keys = tuple(call["key"] for call in calls)
        self._fake.groups.append(keys)
        self._fake.seeds.append([call["seed"] for call in calls])
        answers = [self._fake.script(key, self._fake.times[key]) for key in keys]
        self._fake.times.update(keys)
        for answer in answers:
            if isinstance(answer, Failure):
                error = WorkerSilentError if answer.reason == "hang" else WorkerDiedError
                raise error(answer.detail)
        return [asdict(reply(text)) for text in answers if isinstance(text, str)]

    def kill(self) -> None:
        """End."""


class Fake:
    """Starts `FakeProcess`es and keeps what they were asked, group by group."""

    def __init__(self, script: Script) -> None:
        self.script, self.times = script, Counter[str]()
        self.groups: list[Keys] = []
        self.seeds: list[list[int]] = []
        self.started = 0

    def __call__(self, _log: Path) -> Client:
        self.started += 1
        return FakeProcess(self)


def no(_key: str, _before: int) -> str:
    """The reply that says NO."""
    return verdict_reply("NO")


def key(row: int, pass_no: int = 1) -> str:
    """Name of a trial."""
    return f"sentinel/r{row:02d}/ab/{pass_no}"


def record_of(root: Path) -> Record:
    """The run's record, its chain and its manifest checked."""
    return read_record(root / RUN, shown=RUN)


def notes(record: Record, event: str) -> list[dict[str, Any]]:
    """The record's notes of one kind."""
    return [note for note in record.notes if note["event"] == event]


def reasons(record: Record) -> dict[str, list[str | None]]:
    """Of every trial that was not answered at once: how its attempts ended, verdict = None."""
    tried: dict[str, list[str | None]] = {
        trial: [a.unscored for a in made] for trial, made in record.by_trial.items()
    }
    return {trial: made for trial, made in tried.items() if made != [None]}


def accounted(root: Path, *, retries: int = 1) -> Record:
    """The complete record: every planned trial ended once, and scoring has no objection."""
    record = record_of(root)
    assert record.manifest is not None
    assert record.manifest["status"] == "complete"
    planned = [line.trial for line in read_plan(root / RUN, shown=RUN)]
    assert sorted(record.by_trial) == sorted(planned)
    for made in record.by_trial.values():
        assert [a.attempt for a in made] == list(range(1, len(made) + 1))
        assert all(a.unscored in INFRASTRUCTURE for a in made[:-1])
        assert made[-1].unscored not in INFRASTRUCTURE or len(made) == retries + 1
    scored(root)
    return record


def scored(root: Path) -> Done:
    """`prereg score`, which must find nothing wrong with the run."""
    done = prereg("score", "x", "--json", root=root)
    assert done.code in (0, 1, 3, 4, 6), done
    assert done.json["provenance"]["attempts_head"] == record_of(root).head
    return done
