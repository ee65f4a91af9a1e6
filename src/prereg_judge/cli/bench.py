"""`prereg bench`: how fast this machine judges with a model, the usual way and this way."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from prereg_judge.cli.common import Json, print_json, say
from prereg_judge.cli.init import SHIPPED, shipped
from prereg_judge.errors import Problem, UsageError
from prereg_judge.flow import benching
from prereg_judge.flow.benching import BenchSettings, Wanted
from prereg_judge.items import load_items
from prereg_judge.judge import load_judge
from prereg_judge.report.terminal import console
from prereg_judge.workspace import Workspace, model_files

_MAX_TOKENS = 48  # llama.cpp's own grammar writes line ends and spaces between


def bench(
    gguf: Annotated[str, typer.Argument(metavar="GGUF", help="The model file.")],
    rows: Annotated[int, typer.Option("--rows", help="Sentinels that are judged.")] = 8,
    rounds: Annotated[
        int, typer.Option("--rounds", help="How often all take their turn; 3 or more to be sure.")
    ] = 3,
    gpu_layers: Annotated[
        int | None,
        typer.Option(
            "--gpu-layers",
            min=-1,
            help="Layers put on the GPU; -1 = all, 0 = none. Default: all where the build can.",
        ),
    ] = None,
    threads: Annotated[
        int | None, typer.Option("--threads", min=1, help="CPU threads. Default: one a core.")
    ] = None,
    json_out: Json = False,
) -> None:
    """Time the shipped judge on the shipped sentinels with a model of yours.

    The high-level llama-cpp-python loop and this tool's engine take turns, `generate` and
    `choice`, one trial at a time and several. Needs no workspace; nothing is recorded, and no
    verdict is shown.
    """
    model = model_files(Workspace(Path.cwd()), gguf)[0]
    settings = BenchSettings(rounds, gpu_layers, threads)
    found = benching.bench(model, [sentinels(rows)], settings, announce=say)
    if json_out:
        print_json(found)
        return
    show(found)


def sentinels(rows: int) -> Wanted:
    """The shipped judge with the first `rows` of the shipped sentinels."""
    if rows < 1:
        raise UsageError(Problem("a bench needs at least one row", found=str(rows)))
    judge, items = SHIPPED[0], SHIPPED[1]
    read = load_items(shipped(items), role="sentinel", shown=items).items
    chosen = tuple(read[:rows])
    return Wanted("keep-drop", load_judge(shipped(judge), shown=judge), chosen, _MAX_TOKENS)


def show(found: dict[str, Any]) -> None:
    """Print what was measured: the machine, the model, and a table for each task."""
    out = console()
    told, model, settings = found["machine"], found["model"], found["settings"]
    gpus = "; ".join(" ".join(g.values()) for g in told["gpus"]) or "no GPU seen"
    lines = (
        f"{model['file']}: {model['description']}",
        f"{told['cpu']['name']}, {settings['n_threads']} threads; {gpus}; "
        f"{settings['n_gpu_layers']} layers on a GPU",
        f"llama-cpp-python {told['llama_cpp']['llama_cpp_python']}: {told['llama_cpp']['build']}",
    )
    for line in lines:
        out.print(escape(line), soft_wrap=True)
    for task in found["tasks"]:
        out.print(_table(task, settings["rounds"]))
    say(
        "Medians of the rounds, with their range. Times the loop: how many trials in the time in "
        "which the loop does one. Of the limit: 1.00 = every token that must be decoded is "
        "decoded once, at the speed of a full batch read right before and after."
    )


def _table(task: dict[str, Any], rounds: int) -> Table:
    speed = f"{task['reading_tokens_per_second']:.0f}/s"
    title = (
        f"{task['task']}: {task['trials']} trials, {rounds} rounds, "
        f"{task['distinct_prompt_tokens']} distinct prompt tokens, read at {speed}"
    )
    table = Table(title=title, title_justify="left", title_style="bold")
    table.add_column("contender")
    for name in ("s a trial", "times the loop", "of the limit", "written", "valid"):
        table.add_column(name, justify="right", overflow="fold")
    for line in task["contenders"]:
        table.add_row(
            escape(line["contender"]),
            f"{line['seconds_per_trial']:.3f}",
            _range(line["of_the_loop"]),
            _range(line["of_the_limit"]),
            f"{line['written_tokens_per_trial']:.1f}",
            f"{line['valid']} of {task['trials']}",
        )
    return table


def _range(ratio: dict[str, float]) -> str:
    return f"{ratio['median']:.2f} ({ratio['lowest']:.2f} to {ratio['highest']:.2f})"
