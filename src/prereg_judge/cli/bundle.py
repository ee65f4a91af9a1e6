"""`prereg bundle`: one archive from which a reviewer can verify a registration elsewhere."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from prereg_judge.cli.common import Id, Json, print_json, say, workspace
from prereg_judge.flow.bundling import make_bundle


def bundle(
    ident: Id,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Where to. Default: ID.prereg.zip here.")
    ] = None,
    withhold_items: Annotated[
        bool,
        typer.Option(
            "--withhold-items", help="Leave the items' text out; ids, labels and hashes stay."
        ),
    ] = False,
    json_out: Json = False,
) -> None:
    """Pack a locked registration with its versions, runs, judge, items, ledger and stamps.

    `prereg verify FILE` checks it anywhere, without this workspace and without the model, which is
    never packed. Replies stay in it, and a reply may quote an item.
    """
    ws = workspace()
    path = out or Path.cwd() / f"{ident}.prereg.zip"
    made = make_bundle(ws, ident, path, withhold=withhold_items)
    if json_out:
        print_json({**asdict(made), "path": str(made.path)})
        return
    say(f"{made.n_files} files of {', '.join(made.ids)} in {made.path}")
    if made.withheld:
        say(f"Withheld: the text of {', '.join(made.withheld)}")
    say(f"SHA-256 {made.sha256}")
    say(f"Anywhere: prereg verify {made.path.name}")
