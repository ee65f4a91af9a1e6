"""What several verbs share: the workspace option, JSON output, progress while hashing."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn

from prereg_judge.errors import Problem, UsageError
from prereg_judge.report.terminal import console
from prereg_judge.wording import control_character, hidden_character
from prereg_judge.workspace import Workspace

Id = Annotated[str, typer.Argument(metavar="ID", help="The registration's id.")]
Reason = Annotated[
    str, typer.Option("--reason", metavar="TEXT", help="Why, in a sentence; it stays on record.")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON on standard output.")]


@dataclass
class _State:
    root: Path | None = None


state = _State()


def workspace() -> Workspace:
    """The workspace of --root, or the nearest one at or above the current folder."""
    return Workspace.find(state.root)


def reason_given(reason: str, *, option: str = "--reason") -> str:
    """The reason, or `UsageError` where it says nothing."""
    if not reason.strip():
        what = f"{option} needs a sentence as its reason"
        raise UsageError(Problem(what, remedy="say why in a few words"))
    odd = control_character(reason) or hidden_character(reason)
    if odd is not None or len(reason.strip().splitlines()) > 1:
        what = f"{option} holds {odd or 'a line break'}"
        raise UsageError(Problem(what, remedy="write one line of visible characters"))
    return reason.strip()


def print_json(value: Any) -> None:
    """Print JSON, and nothing else, on standard output."""
    text = json.dumps(value, indent=2, ensure_ascii=False)
    # Half characters (a file name that is not UTF-8) can only be written as escapes.
    typer.echo(text.encode("utf-8", "backslashreplace").decode("utf-8"))


_SAFE = "what was recorded before this is safe"
_REMEDIES = {
    errno.ENOSPC: f"make room on the disk and run the same command again; {_SAFE}",
    errno.EDQUOT: f"make room within the quota and run the same command again; {_SAFE}",
    errno.EROFS: "make it writable, or work in a copy",
    errno.EACCES: "check the permissions of the file and of its folder",
    errno.EPERM: "check the permissions of the file and of its folder",
    errno.ENOENT: "check the path",
    errno.ENOTDIR: "check the path: a part of it is not a folder",
    errno.EISDIR: "this is a folder; name a file",
    errno.ENAMETOOLONG: "use a shorter name",
}


def os_problem(exc: OSError) -> Problem:
    """What the operating system refused, as a problem that names the user's file."""
    file = None
    if exc.filename is not None:
        path = Path(os.fsdecode(exc.filename))
        # Locked in the ledger's place.
        file = str(path.with_name("ledger.jsonl") if path.name == ".ledger.lock" else path)
    remedy = _REMEDIES.get(exc.errno or 0, _SAFE)
    return Problem(exc.strerror or str(exc), file=file, remedy=remedy)


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
