"""Measures contenders against each other and against the reading limit, in one run.

Everything takes turns, so that a machine whose speed drifts slows all of them; ratios are made
within a round and their medians are the figures to quote. The limit of a task is the time in
which this build, reading full batches, would read every token that has to be decoded: the tokens
of all prompts, each shared beginning once, and of each reply the tokens before the last one that
the schema leaves open (the loop and servers, which do not tell their tokens, are held against the
replies of `generate 1`). Reading speed is measured right before and right after each contender.
A written token counts as one that is read, though no engine can write so fast: where a reply
holds free text, the limit is far off. Nothing is recorded and no time is asserted.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

from prereg_judge.engine.chat import TemplateSettings, folded, render_prompt
from prereg_judge.engine.inspect import inspecting, system_info
from prereg_judge.engine.llama import usable_threads
from prereg_judge.engine.protocol import ModelFacts, ModelSpec
from prereg_judge.engine.tree import shared_cuts, shared_length
from prereg_judge.errors import EngineError, Problem, UsageError
from prereg_judge.flow.bench_child import Child
from prereg_judge.flow.bench_contenders import (
    DECODING,
    Contender,
    Loop,
    Ours,
    Row,
    Said,
    Task,
    Worker,
)
from prereg_judge.flow.environment import machine
from prereg_judge.flow.settings import DEFAULT_BATCH
from prereg_judge.items import Item
from prereg_judge.judge import Judge

PARALLEL = (1, 4, 8)
_REFERENCE = "generate 1"  # whose replies say how many written tokens have to be decoded
_ROOM = 8  # tokens of context that a contender may need beside prompt and reply


@dataclass(frozen=True)
class Wanted:
    """What is to be measured: a judge, its items in calling order, and the longest reply."""

    name: str
    judge: Judge
    items: tuple[Item, ...]
    max_tokens: int


@dataclass(frozen=True)
class BenchSettings:
    """How a bench is made.

    Attributes
    ----------
    rounds
        How often everything takes its turn, at least 1.
    n_gpu_layers, n_threads
        As a registration has them; None = all layers where the build can offload, and one thread
        a physical core.
    parallel
        Sequences of the engine, one contender each.
    """

    rounds: int
    n_gpu_layers: int | None = None
    n_threads: int | None = None
    parallel: tuple[int, ...] = PARALLEL


@dataclass
class Played:
    """What came of a contender in a task, round by round.

    `seconds` are seconds a trial; `reading` the tokens a second read around it; `said` what it
    said in the last round.
    """

    contender: str
    seconds: list[float] = field(default_factory=list)
    reading: list[float] = field(default_factory=list)
    said: list[Said] = field(default_factory=list)


MakeMore = Callable[[ModelSpec, Path], Sequence[Contender]]
Announce = Callable[[str], None]


def bench(
    model: Path,
    wanted: Sequence[Wanted],
    settings: BenchSettings,
    *,
    announce: Announce = lambda _: None,
    more: MakeMore = lambda _spec, _folder: (),
) -> dict[str, Any]:
    """Measure every task with the loop, the engine, and what `more` brings; JSON values.

    Raises
    ------
    UsageError
        If there is no row or no round.
    EngineError
        If the model cannot be loaded or used, or one of the engine's calls fails.
    """
    if settings.rounds < 1 or not all(w.items for w in wanted):
        raise UsageError(Problem("a bench needs at least one row and one round"))
    spec = _spec(model, settings)
    with inspecting(spec.path) as inspector:
        facts = inspector.facts()
        tasks = [_task(each, facts, inspector.tokenize) for each in wanted]
    longest = max(len(row.tokens) + t.max_tokens for t in tasks for row in t.rows) + _ROOM
    spec = replace(spec, n_ctx=-(-longest // 256) * 256)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory()))
        child = Child(spec)
        stack.callback(child.close)
        contenders = _contenders(spec, settings, child, folder, stack)
        for one in more(spec, folder):
            stack.callback(one.close)
            contenders.append(one)
        found = [_play(t, contenders, child, settings.rounds, announce) for t in tasks]
        told = [_told(t, f, child) for t, f in zip(tasks, found, strict=True)]
    return {
        "machine": machine(),
        "model": _model(facts, model),
        "settings": {
            **{k: v for k, v in asdict(spec).items() if k not in ("path", "weights")},
            "rounds": settings.rounds,
            "decoding": asdict(DECODING),
        },
        "tasks": told,
    }


def _spec(model: Path, settings: BenchSettings) -> ModelSpec:
    layers = settings.n_gpu_layers
    if layers is None:
        layers = -1 if system_info()["gpu_offload"] else 0
    threads = settings.n_threads or usable_threads()
    return ModelSpec(str(model), 0, layers, n_threads=threads, n_batch=DEFAULT_BATCH)


def _model(facts: ModelFacts, path: Path) -> dict[str, Any]:
    named = ("architecture", "description", "n_params", "n_bytes", "n_vocab")
    return {"file": path.name, **{name: getattr(facts, name) for name in named}}


def _task(
    wanted: Wanted, facts: ModelFacts, tokenize: Callable[[Sequence[str]], list[list[int]]]
) -> Task:
    """The prompts of a task; the system text is folded in where the model's template needs it."""
    messages = [wanted.judge.messages(item) for item in wanted.items]
    try:
        texts = [render_prompt(facts, m, settings=TemplateSettings()) for m in messages]
    except EngineError:
        messages = [folded(m) for m in messages]
        texts = [render_prompt(facts, m, settings=TemplateSettings()) for m in messages]
    prompts = [tuple(ids) for ids in tokenize(texts)]
    rows = tuple(
        Row(item.id, tuple(said), tokens, cuts, seed)
        for seed, (item, said, tokens, cuts) in enumerate(
            zip(wanted.items, messages, prompts, shared_cuts(prompts), strict=True), start=1
        )
    )
    return Task(wanted.name, wanted.judge, rows, wanted.max_tokens, distinct_tokens(prompts))


def distinct_tokens(prompts: Sequence[tuple[int, ...]]) -> int:
    """Tokens of all prompts, each beginning that several share counted once.

    Nodes of the tree of their prefixes: in sorted order a prompt adds what it does not share with
    the one before it.
    """
    ordered = sorted(prompts)
    return sum(map(len, ordered)) - sum(shared_length(a, b) for a, b in pairwise(ordered))


def _contenders(
    spec: ModelSpec, settings: BenchSettings, child: Child, folder: Path, stack: ExitStack
) -> list[Contender]:
    worker = Worker(spec, folder / "worker.log")
    stack.callback(worker.close)
    found: list[Contender] = [Loop(child)]
    for n in settings.parallel:
        found += [Ours(worker, "generate", n), Ours(worker, "choice", n)]
    for one in found:
        stack.callback(one.close)
    return found


def _play(
    task: Task, contenders: Sequence[Contender], child: Child, rounds: int, announce: Announce
) -> list[Played]:
    """Every round of a task; who begins moves on by one from round to round."""
    playing = [(one, Played(one.name)) for one in contenders if one.takes(task)]
    reading = {"op": "read", "tokens": list(task.rows[0].tokens)}
    for number in range(rounds):
        shift = number % len(playing)
        speed = float(child.ask(reading))
        for one, played in playing[shift:] + playing[:shift]:
            announce(f"{task.name}, round {number + 1} of {rounds}: {one.name}")
            one.prepare(task)
            started = perf_counter()
            played.said = one.play(task)
            played.seconds.append((perf_counter() - started) / len(task.rows))
            before, speed = speed, float(child.ask(reading))
            played.reading.append((before + speed) / 2)
    return [played for _, played in playing]


def _told(task: Task, found: Sequence[Played], child: Child) -> dict[str, Any]:
    """A task's results as JSON values."""
    by_name = {played.contender: played for played in found}
    reference = by_name.get(_REFERENCE) or next(p for p in found if p.said[0].tokens)
    item, key = task.judge.separators
    constraint = {
        "schema": dict(task.judge.spec.output),
        "item_separator": item,
        "key_separator": key,
    }

    def needed(played: Played) -> int:
        said = played.said if played.said[0].tokens else reference.said
        replies = [list(each.tokens) for each in said]
        return sum(child.ask({"op": "needed", "constraint": constraint, "replies": replies}))

    return {
        "task": task.name,
        "trials": len(task.rows),
        "max_tokens": task.max_tokens,
        "prompt_tokens": sum(len(row.tokens) for row in task.rows),
        "distinct_prompt_tokens": task.distinct,
        "reading_tokens_per_second": statistics.median(v for p in found for v in p.reading),
        "contenders": [_line(task, p, by_name["loop"], needed(p)) for p in found],
    }


def _line(task: Task, played: Played, loop: Played, needed: int) -> dict[str, Any]:
    n, seconds = len(task.rows), played.seconds
    best = [(task.distinct + needed) / speed / n for speed in played.reading]
    return {
        "contender": played.contender,
        "seconds_per_trial": statistics.median(seconds),
        "of_the_loop": _ratios([a / b for a, b in zip(loop.seconds, seconds, strict=True)]),
        "of_the_limit": _ratios([a / b for a, b in zip(best, seconds, strict=True)]),
        "rounds_s": seconds,
        "reading": played.reading,
        "prompt_tokens": sum(said.n_prompt for said in played.said),
        "written_tokens_per_trial": statistics.mean(said.n_written for said in played.said),
        "reply_tokens_to_decode": needed,
        "valid": sum(task.judge.parse(said.text).verdict is not None for said in played.said),
    }


def _ratios(found: Sequence[float]) -> dict[str, float]:
    """The median of the rounds' ratios, and their range."""
    return {"median": statistics.median(found), "lowest": min(found), "highest": max(found)}
