"""What is told about a run while it goes on and when it ends."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from prereg_judge.record.attempt import AttemptLine


class Watcher:
    """Told what happens during a run; the command line shows it. The default shows nothing.

    Agreement and verdicts are not told: nobody should watch the number they registered.
    """

    def begin(self, run: int, total: int, done: int, resumed: bool) -> None:
        """A run begins, or goes on with `done` of `total` trials recorded."""

    def calling(self, trial: str) -> None:
        """An attempt is about to be made."""

    def attempted(self, line: AttemptLine, finished: bool) -> None:
        """An attempt was recorded; `finished` says whether its trial is done."""

    def announce(self, text: str) -> None:
        """Something worth a line happened."""

    def hashed(self, n_bytes: int) -> None:
        """So many more bytes of the model were hashed."""


@dataclass(frozen=True)
class Finished:
    """How a run ended."""

    number: int
    folder: Path
    status: str
    stopped_by: str | None
    trials: int
    attempts: int
