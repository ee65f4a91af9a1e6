"""`prereg probe`: how much this machine changes by itself."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from prereg_judge.cli.common import Id, Json, print_json, say, workspace
from prereg_judge.flow import probing
from prereg_judge.flow.probing import LEVEL, Leg
from prereg_judge.report.terminal import console


def probe(
    ident: Id,
    rows: Annotated[
        int, typer.Option("--rows", help="How many calls of the first pass each round makes.")
    ] = 48,
    json_out: Json = False,
) -> None:
    """Make the same calls in several ways and count the verdicts that change.

    Strict against fast settings, repeat against repeat, one order of the calls against another,
    one worker against several, and `generate` against `choice`, where the registration and the
    judge allow them; every trial with the same seed each time. No verdict is shown. The ledger
    notes that these inputs were run.
    """
    probed = probing.probe(workspace(), ident, rows=rows, announce=say)
    if json_out:
        print_json({"id": ident, "level": LEVEL, **asdict(probed)})
        return
    table = Table(
        title=f"{probed.trials} calls a round, {probed.decoding}",
        title_justify="left",
        title_style="bold",
    )
    for name in ("changed between the rounds", "verdicts changed", "share, 95% Wilson"):
        table.add_column(name, overflow="fold")
    table.add_column("largest change of a probability", overflow="fold")
    for leg in probed.legs:
        table.add_row(*map(escape, _cells(leg)))
    out = console()
    out.print(table)
    for leg in probed.legs:
        if leg.differing:
            out.print(escape(f"{leg.name}: {', '.join(leg.differing)}"), soft_wrap=True)
    say("A verdict that changes here changes without the judge or the item having changed.")


def _cells(leg: Leg) -> tuple[str, str, str, str]:
    what = f"{leg.name}\n{leg.first}\n{leg.second}"
    lacking = f", {leg.lacking} without a verdict" if leg.lacking else ""
    share = "no trial has both" if leg.low is None else f"{leg.low:.3f} to {leg.high:.3f}"
    largest = "not known for generate" if leg.largest is None else f"{leg.largest:.2g}"
    return what, f"{leg.changed} of {leg.n}{lacking}", share, largest
