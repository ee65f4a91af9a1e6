"""`prereg init`: a workspace with the folders, a sample judge, a sentinel set and a real set."""

from __future__ import annotations

import importlib.resources
import shlex
import shutil
from pathlib import Path
from typing import Annotated

import typer

from prereg_judge.cli.common import say

SHIPPED = (
    "judge/keep-drop.yaml",
    "sentinels/customer-service-72.jsonl",
    "data/customer-service-60.jsonl",
    "judge/keep-drop-reason.yaml",
    "judge/pairwise-five-point.yaml",
    "sentinels/requests-pairs-64.jsonl",
    "sentinels/requests-votes.csv",
    "sentinels/requests-spans.jsonl",
)
IGNORED = ".lock\n.ledger.lock\nworker.log\n"
FOLDERS = ("registrations", "runs", "judge", "sentinels")


def shipped(name: str) -> Path:
    """A shipped example: inside the installed package, or in the source tree."""
    inside = Path(str(importlib.resources.files("prereg_judge"))) / "examples" / name
    return inside if inside.is_file() else Path(__file__).parents[3] / name


def init(
    folder: Annotated[
        Path, typer.Argument(metavar="[DIR]", help="Where; created if it is not there.")
    ] = Path(),
) -> None:
    """Make a workspace: registrations/, runs/, judge/, sentinels/, and examples to start from.

    Nothing that exists is overwritten. There is no configuration file.
    """
    for name in FOLDERS:
        (folder / name).mkdir(parents=True, exist_ok=True)
    for name in SHIPPED:
        target = folder / name
        if target.exists():
            say(f"kept     {target} (it was there)")
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(shipped(name), target)
        say(f"wrote    {target}")
    ignore = folder / ".gitignore"
    if not ignore.exists():
        ignore.write_text(IGNORED, encoding="utf-8")
    here = folder.resolve() == Path.cwd()
    go = "" if here else f"cd {shlex.quote(str(folder))} && "
    say(
        f"\nNext: {go}prereg new my-check --judge {SHIPPED[0]} --sentinel {SHIPPED[1]} "
        "--gguf MODEL.gguf"
    )
