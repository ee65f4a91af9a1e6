"""What several verbs share: the workspace option, JSON output, progress while hashing."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn

from prereg_judge.report.terminal import console
from prereg_judge.workspace import Workspace

Id = Annotated[str, typer.Argument(metavar="ID", help="The registration's id.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON on standard output.")]


@dataclass
class _State:
    root: Path | None = None


state = _State()


def workspace() -> Workspace:
    """The workspace of --root, or the nearest one at or above the current folder."""
    return Workspace.find(state.root)


def print_json(value: Any) -> None:
    """Print JSON, and nothing else, on standard output."""
    typer.echo(json.dumps(value, indent=2, ensure_ascii=False))


def say(text: str) -> None:
    """A message for the person, on standard error."""
    console(stderr=True).print(text, markup=False, soft_wrap=True)


@contextmanager
def hashing(label: str) -> Iterator[Callable[[int], None]]:
    """Show how many bytes have been hashed, when that takes a while and a terminal watches."""
    err = console(stderr=True)
    with Progress(
        TextColumn("{task.description}"),
        BarColumn(pulse_style="dim"),
        DownloadColumn(),
        console=err,
        transient=True,
        disable=not err.is_terminal,
    ) as progress:
        task = progress.add_task(label, total=None)
        yield lambda n: progress.advance(task, n)
