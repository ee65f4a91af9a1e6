"""`prereg verify`: what is proved, by what; what is not, and how one could; what is violated."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.padding import Padding
from rich.text import Text

from prereg_judge.cli.common import Json, hashing, print_json, workspace
from prereg_judge.errors import IntegrityError, Problem, UsageError
from prereg_judge.flow.bundling import is_bundle, verify_bundle
from prereg_judge.flow.verifying.findings import Asked, Findings, Part
from prereg_judge.flow.verifying.verify import parse_required, verify_workspace
from prereg_judge.ledger.rfc3161 import read_roots
from prereg_judge.report.terminal import console, one_line

_PARTS: dict[Part, tuple[str, str]] = {
    "proved": ("PROVED", "bold green"),
    "not proved": ("NOT PROVED", "bold yellow"),
    "violated": ("VIOLATED", "bold red"),
}


def verify(
    what: Annotated[
        str | None, typer.Argument(metavar="[ID|BUNDLE]", help="A registration, or a bundle.")
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Every registration.")] = False,
    require: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[witness=]NAME",
            help="git, rfc3161 or opentimestamps must have seen each lock before its first run. "
            "Git: by the history that is here, or that of --clone.",
        ),
    ] = None,
    ca: Annotated[
        list[Path] | None,
        typer.Option("--ca", metavar="FILE", help="Root certificate of a trusted authority (PEM)."),
    ] = None,
    clone: Annotated[
        list[str] | None,
        typer.Option(
            "--clone",
            metavar="PATH",
            help="Another clone, or a bundle, score.json or manifest.json that somebody kept, to "
            "compare with.",
        ),
    ] = None,
    block_header: Annotated[
        list[str] | None,
        typer.Option(metavar="HEX", help="Header of a Bitcoin block that a stamp leads to."),
    ] = None,
    prompts: Annotated[
        bool,
        typer.Option(
            "--prompts/--no-prompts",
            help="Render and tokenize every prompt again with the model's vocabulary.",
        ),
    ] = True,
    json_out: Json = False,
) -> None:
    """Re-derive everything from bytes: locks, chain, records, scores, witnesses.

    Says in three parts what is proved and by what, what is not proved and how one could, and what
    is violated. Exit 0 only where nothing is violated, 5 otherwise. A bundle is checked by itself,
    without the workspace that it came from.
    """
    asked = Asked(
        require=[parse_required(text) for text in require or ()],
        roots=[root for path in ca or () for root in read_roots(path)],
        clones=clone or (),
        headers=block_header or (),
        render=prompts,
    )
    if (what is None) != everything:
        remedy = "name a registration or a bundle, or give --all"
        told = "both a name and --all are given" if everything else "nothing is named"
        raise UsageError(Problem(told, remedy=remedy))
    with hashing("hashing the model") as progress:
        if what is not None and is_bundle(what):
            found = verify_bundle(Path(what), asked, progress=progress)
        else:
            ids = None if what is None else [what]
            found = verify_workspace(workspace(), ids, asked, progress=progress)
    if json_out:
        print_json(_as_json(found))
    else:
        _show(found)
    raise typer.Exit(IntegrityError.exit_code if found.has_violation() else 0)


def _show(found: Findings) -> None:
    out = console()
    for part, (title, style) in _PARTS.items():
        entries = found.part(part)
        out.print(Text(f"{title} ({len(entries)})", style=style))
        # What it is all about first, the ledger and the archive after it.
        for entry in sorted(entries, key=lambda e: e.about in ("ledger", "bundle")):
            text = f"- {one_line(str(entry))}"
            if out.is_terminal:
                out.print(Padding(Text(text), (0, 0, 0, 2)))
            else:  # one finding a line, for who reads it with other tools
                out.print(Text(f"  {text}"), soft_wrap=True)
        out.print()
    word = "violated" if found.has_violation() else "nothing is violated"
    out.print(Text(f"Integrity: {word}", style="bold"))


def _as_json(found: Findings) -> dict[str, object]:
    parts = {part.replace(" ", "_"): [asdict(f) for f in found.part(part)] for part in _PARTS}
    witnessed = {name: sorted(map(list, pairs)) for name, pairs in found.witnessed.items()}
    return {**parts, "witnessed": witnessed, "ok": not found.has_violation()}
