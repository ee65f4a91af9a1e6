"""`executor: local` from registration to score: two workers, one record."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from pathlib import Path

import psutil
import pytest

from prereg_judge.flow.running import run_registration
from prereg_judge.flow.settings import STRETCH_GROUPS
from prereg_judge.flow.watching import Watcher
from prereg_judge.record.attempt import AttemptLine
from prereg_judge.record.run import read_record
from prereg_judge.workspace import Workspace
from support import make_workspace, new, prereg

SEEDED = "seeded,seed=7,temperature=1,top_k=0,top_p=1,min_p=0"


def lock(root: Path, ident: str, *, workers: int, **changed: str) -> None:
    """Lock a registration whose calls are made by so many workers, one thread each."""
    done = new(root, ident, **{"decoding": SEEDED, "parallel": "2", "max_tokens": "16", **changed})
    assert done.code == 0, done.err
    file = root / f"registrations/{ident}.yaml"
    text = file.read_text(encoding="utf-8")
    text = text.replace("  # n_threads: 8", "  n_threads: 1")
    if workers > 1:
        text = text.replace("# executor: ", "executor: ")
        text = text.replace(
            '{kind: local, workers: 2, devices: ["0", "1"]}', f"{{kind: local, workers: {workers}}}"
        )
    file.write_text(text, encoding="utf-8")
    assert ("\nexecutor:" in text, "\n  n_threads: 1" in text) == (workers > 1, True)
    done = prereg("lock", ident, root=root)
    assert done.code == 0, done.err


def attempts(root: Path, ident: str) -> list[AttemptLine]:
    """What the first run recorded, in the order of the plan."""
    folder = f"runs/{ident}/1"
    return sorted(read_record(root / folder, shown=folder).attempts, key=lambda a: a.index)


def workers() -> list[psutil.Process]:
    """The worker processes of this process."""
    found = []
    for child in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):  # it ended just now
            if any("prereg_judge.engine.worker" in part for part in child.cmdline()):
                found.append(child)
    return found


class Watching(Watcher):
    """Sees how many workers there are, and may do something at an attempt."""

    def __init__(self, *, kill_at: int | None = None) -> None:
        self.most, self.made, self.kill_at = 0, 0, kill_at
        self.said: list[str] = []

    def attempted(self, line: AttemptLine, finished: bool) -> None:
        """Count the workers; kill one at the attempt that was asked for."""
        del line, finished
        self.made += 1
        found = workers()
        self.most = max(self.most, len(found))
        if self.made == self.kill_at:
            os.kill(found[0].pid, signal.SIGKILL)

    def announce(self, text: str) -> None:
        """Keep what is said."""
        self.said.append(text)


@pytest.mark.model
@pytest.mark.parametrize(("path", "parallel"), [("generate", 2), ("choice", 1)])
def test_two_workers_say_what_one_says(path: str, parallel: int, tmp_path: Path) -> None:
    """With seeded decoding the record of two workers is complete, verifies, and holds the same
    replies, seeds, groups and probabilities as that of one.
    """
    n = parallel * STRETCH_GROUPS + 4  # more than one worker is handed at once
    root = make_workspace(tmp_path / "w", n=n)
    for ident, count in (("one", 1), ("two", 2)):
        lock(root, ident, workers=count, path=path, parallel=str(parallel))
    assert prereg("run", "one", root=root).code == 0
    watching = Watching()
    assert run_registration(Workspace(root), "two", watcher=watching).status == "complete"
    assert watching.most == 2
    one, two = attempts(root, "one"), attempts(root, "two")
    assert len(one) == len(two) == 2 * n
    for a, b in zip(one, two, strict=True):
        assert (a.trial, a.text, a.tokens, a.seed) == (b.trial, b.text, b.tokens, b.seed)
        assert (a.batch, a.probabilities, a.nodes) == (b.batch, b.probabilities, b.nodes)
    scores = [prereg("score", ident, "--json", root=root) for ident in ("one", "two")]
    assert scores[0].code == scores[1].code
    assert scores[0].code in (0, 1)
    values = [
        {str((m["metric"], m["params"])): m["value"] for m in s.json["metrics"]
         if "seconds" not in m["metric"]}
        for s in scores
    ]  # fmt: skip
    assert values[0] == values[1]


@pytest.mark.model
def test_a_worker_killed_midway(tmp_path: Path) -> None:
    """One of two workers is killed: nothing is lost or doubled, a crash is charged to no more
    than what it held, and the record verifies.
    """
    root = make_workspace(tmp_path / "w", n=20)
    lock(root, "x", workers=2)
    watching = Watching(kill_at=5)
    assert run_registration(Workspace(root), "x", watcher=watching).status == "complete"
    made = attempts(root, "x")
    answered = [a.trial for a in made if a.verdict is not None or a.unscored not in ("crash",)]
    assert sorted(answered) == sorted(
        f"sentinel/r{row:02d}/ab/{pass_no}" for row in range(20) for pass_no in (1, 2)
    )
    assert len([a for a in made if a.unscored == "crash"]) <= 2
    assert prereg("score", "x", root=root).code in (0, 1)
    assert not _left(10.0)


def _left(seconds: float) -> list[psutil.Process]:
    """Workers that are still there after so long at most."""
    end, pause = time.monotonic() + seconds, threading.Event()
    while (found := workers()) and time.monotonic() < end:
        pause.wait(0.05)
    return found
