"""`prereg run`: make the calls of a locked registration, with progress; resumes by itself."""

from __future__ import annotations

import time
from typing import Annotated

import typer
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from prereg_judge.cli.common import Id, Json, print_json, reason_given, say, workspace
from prereg_judge.flow.running import abandon_run, run_registration
from prereg_judge.flow.watching import Finished, Watcher
from prereg_judge.record.attempt import AttemptLine
from prereg_judge.report.terminal import console

_PLAIN_EVERY_S = 15.0


class _Counts:
    """What may be watched during a run: no verdicts, so no agreement."""

    def __init__(self) -> None:
        self.hangs = self.unscored = self.attempts = self.trials = 0
        self.call_began: float | None = None
        self.began = time.monotonic()

    @property
    def rate(self) -> str:
        """Attempts a second since the start of this session."""
        spent = time.monotonic() - self.began
        return f"{self.attempts / spent:.2f}/s" if spent > 0 and self.attempts else "-/s"

    def text(self) -> str:
        """Counts and the age of the call in flight, in a few words."""
        age = 0.0 if self.call_began is None else time.monotonic() - self.call_began
        return f"{self.rate}  hangs {self.hangs}  unscored {self.unscored}  oldest call {age:.0f} s"


class _CountsColumn(ProgressColumn):
    def __init__(self, counts: _Counts) -> None:
        super().__init__()
        self.counts = counts

    def render(self, task: Task) -> Text:
        del task
        return Text(self.counts.text(), style="dim")


class _Shown(Watcher):
    """Shows a bar on a terminal, and a line now and then elsewhere."""

    def __init__(self) -> None:
        self.counts = _Counts()
        self.console = console(stderr=True)
        self.progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(compact=True),
            _CountsColumn(self.counts),
            console=self.console,
            disable=not self.console.is_terminal,
            refresh_per_second=4,
        )
        self.task = self.progress.add_task("hashing the model", total=None)
        self.total, self.last_line = 0, time.monotonic()

    def begin(self, run: int, total: int, done: int, resumed: bool) -> None:
        """See `Watcher`."""
        how = f"resumed at {done} of {total} trials" if resumed else f"{total} trials"
        self.announce(f"run {run}: {how}")
        self.total, self.counts.trials = total, done
        self.counts.began = time.monotonic()
        self.progress.update(
            self.task, description=f"run {run}", total=total, completed=done, refresh=True
        )

    def calling(self, trial: str) -> None:
        """See `Watcher`."""
        del trial
        self.counts.call_began = time.monotonic()

    def attempted(self, line: AttemptLine, finished: bool) -> None:
        """See `Watcher`."""
        counts = self.counts
        counts.call_began = None
        counts.attempts += 1
        counts.hangs += line.unscored == "hang"
        counts.unscored += line.unscored is not None
        if finished:
            counts.trials += 1
            self.progress.advance(self.task)
        due = time.monotonic() - self.last_line > _PLAIN_EVERY_S
        if due and not self.console.is_terminal:
            self.last_line = time.monotonic()
            self.announce(f"{counts.trials} of {self.total} trials  {counts.text()}")

    def announce(self, text: str) -> None:
        """See `Watcher`."""
        self.console.print(text, markup=False, soft_wrap=True)


def run(
    ident: Id,
    again: Annotated[
        bool,
        typer.Option(
            "--again",
            help="Start another run, counted, after a finished one. An unfinished run is resumed.",
        ),
    ] = False,
    abandon: Annotated[
        str | None,
        typer.Option(
            "--abandon",
            metavar="REASON",
            help="Give up the unfinished run instead of resuming it. It stays and is counted.",
        ),
    ] = None,
    json_out: Json = False,
) -> None:
    """Run a locked registration, or resume its unfinished run.

    Every attempt is on disk before the next one is made: after Ctrl-C, a crash or a power cut
    the same command goes on where the record ends. Verdicts are not shown while it runs.
    """
    ws = workspace()
    if abandon is not None:
        number = abandon_run(ws, ident, reason=reason_given(abandon, option="--abandon"))
        folder = ws.shown(ws.run(ident, number))
        if json_out:
            told = {"id": ident, "run": number, "status": "aborted", "reason": abandon}
            print_json({**told, "folder": folder})
        else:
            say(f"run {number} of {ident!r} is given up; it stays in {folder}")
        return
    shown = _Shown()
    try:
        with shown.progress:
            done = run_registration(ws, ident, again=again, watcher=shown)
    except KeyboardInterrupt:
        say(f"Interrupted; every finished attempt is recorded. Resume with: prereg run {ident}")
        raise
    _tell(done, ident, ws.shown(done.folder), json_out=json_out)


def _tell(done: Finished, ident: str, folder: str, *, json_out: bool) -> None:
    if json_out:
        print_json(
            {
                "id": ident,
                "run": done.number,
                "status": done.status,
                "stopped_by": done.stopped_by,
                "trials": done.trials,
                "attempts": done.attempts,
                "folder": folder,
            }
        )
        return
    how = f"stopped by rule {done.stopped_by!r}" if done.stopped_by else "complete"
    say(f"run {done.number} is {how}: {done.attempts} attempts in {folder}")
    say(f"Next: prereg score {ident}")
