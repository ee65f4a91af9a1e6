"""`prereg rehearse`: how a registration comes out under stated assumptions, before any call."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from prereg_judge.cli.common import Id, Json, print_json, say, workspace
from prereg_judge.flow.assumptions import KEYS
from prereg_judge.flow.rehearsing import rehearse as play
from prereg_judge.report.rehearsal import as_json, render
from prereg_judge.report.terminal import console

_KEYS = ", ".join(KEYS)
Assume = Annotated[
    list[str] | None,
    typer.Option(
        "--assume",
        metavar="KEY=VALUE",
        help=f"What is assumed of the judge; repeat it, or put commas between. Keys: {_KEYS}; "
        "sentinel.KEY or real.KEY for one set's rows. `agreement` must be stated.",
    ),
]
Against = Annotated[
    list[str] | None,
    typer.Option(
        "--against",
        metavar="KEY=VALUE",
        help="A second scenario beside the first: the same, but for these keys.",
    ),
]


def rehearse(
    ident: Id,
    assume: Assume = None,
    against: Against = None,
    times: Annotated[int, typer.Option("--times", help="How many rehearsals.")] = 200,
    seed: Annotated[int, typer.Option("--seed", help="Same seed, same rehearsals.")] = 1,
    json_out: Json = False,
) -> None:
    """Play a registration, draft or locked, many times on a simulated judge.

    Says how often each claim comes out how if the assumptions are true. Reads the judge and the
    items, not the model; makes no call, writes nothing into the workspace, and exposes no data:
    a rehearsal is never a run.
    """
    err = console(stderr=True)
    with Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        console=err,
        transient=True,
        disable=not err.is_terminal,
    ) as progress:
        task = progress.add_task("rehearsing", total=times * (2 if against else 1))
        rehearsal = play(
            workspace(),
            ident,
            assume=assume or [],
            against=against or [],
            times=times,
            seed=seed,
            progress=lambda done: progress.update(task, completed=done),
        )
    if json_out:
        print_json(as_json(rehearsal))
        return
    console().print(render(rehearsal))
    say("Simulated: this says what the claims would do if the assumptions were true, no more.")
