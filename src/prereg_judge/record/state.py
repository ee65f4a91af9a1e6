"""Where a run stands, in a few bytes a trial: what a run needs of its record, read line by line.

The full record is for scoring. A run of a million trials goes on from this.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

import numpy as np

from prereg_judge.chain import GENESIS, iter_chain
from prereg_judge.errors import IntegrityError, Problem
from prereg_judge.plan import Plan, Trial
from prereg_judge.record.attempt import AttemptLine
from prereg_judge.record.run import attempt_of
from prereg_judge.words import INFRASTRUCTURE


class RunState:
    """Attempts made of every trial of a plan, and whether it needs no further one.

    Parameters
    ----------
    plan
        The run's trials.
    retries
        How often a trial may be tried again.
    """

    def __init__(self, plan: Plan, *, retries: int) -> None:
        self.plan, self.retries = plan, retries
        self.made = np.zeros(len(plan), dtype=np.uint16)
        self.done = np.zeros(len(plan), dtype=bool)
        self.n_attempts = 0
        self.head = GENESIS
        self.last_at = ""  # of the last line that has a time

    @property
    def n_done(self) -> int:
        """Trials that need no further attempt."""
        return int(self.done.sum())

    def take(self, line: AttemptLine, *, prompt: str) -> str | None:
        """Count an attempt; what is wrong with it, in words, None where nothing is.

        `prompt` is the hash of the prompt that was planned for `line.trial`.
        """
        if self.done[line.index]:
            return "a trial was tried again after it ended"
        if line.prompt != prompt:
            return "an attempt's prompt is not the planned one"
        if line.attempt != self.made[line.index] + 1:
            return "attempts are missing or doubled"
        if (line.verdict is None) == (line.unscored is None):
            return "an attempt has both or no outcome"
        self.made[line.index] += 1
        self.n_attempts += 1
        self.done[line.index] = (
            line.unscored not in INFRASTRUCTURE or self.made[line.index] > self.retries
        )
        return None


def read_state(
    folder: Path,
    state: RunState,
    *,
    shown: str,
    prompt_of: Callable[[Trial], str],
    on_attempt: Callable[[AttemptLine], None] = lambda _: None,
    on_note: Callable[[dict[str, Any]], None] = lambda _: None,
    heads: Collection[str] = (),
) -> None:
    """Bring a state to where a run's record ends, checking chain and plan on the way.

    Parameters
    ----------
    on_attempt, on_note
        Told each line in the order of the record.
    heads
        Hashes of lines that must be in the record; that of no line asks for none.

    Raises
    ------
    IntegrityError
        If the chain is broken, an attempt does not fit the plan, or a line of `heads` is gone.
    """
    file = f"{shown}/attempts.jsonl"
    missing = set(heads) - {GENESIS}  # of a record that held no line yet

    def bad(what: str, number: int, found: str | None = None) -> IntegrityError:
        return IntegrityError(Problem(what, file, number, found=found, remedy="restore it"))

    for number, link in enumerate(iter_chain(folder / "attempts.jsonl", shown=file), 1):
        if isinstance(link, bytes):  # a torn last line, which the writer puts aside
            break
        line, head = link
        state.head = head
        state.last_at = str(line.get("at", state.last_at))
        missing.discard(head)
        if line.get("event") != "attempt":
            on_note(line)
            continue
        attempt = attempt_of(line, number=number, shown=shown)
        planned = 0 <= attempt.index < len(state.plan)
        trial = state.plan[attempt.index] if planned else None
        if trial is None or trial.key != attempt.trial:
            raise bad("an attempt belongs to no planned trial", number, attempt.trial)
        wrong = state.take(attempt, prompt=prompt_of(trial))
        if wrong is not None:
            raise bad(wrong, number, attempt.trial)
        on_attempt(attempt)
    if missing:
        what = "attempts that the ledger knows of are gone: the record was cut or replaced"
        raise IntegrityError(Problem(what, file, remedy="restore it"))
