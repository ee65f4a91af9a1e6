"""`prereg score`: a run against its registration, claim by claim; the exit code is the verdict."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from prereg_judge.cli.common import Id, Json, os_problem, print_json, say, workspace
from prereg_judge.flow.results import result_of, write_result
from prereg_judge.flow.scoring import score_registration
from prereg_judge.report.files import score_json
from prereg_judge.report.terminal import console, render

RunNumber = Annotated[
    int | None, typer.Option("--run", metavar="N", help="Which run. Default: the latest.")
]


def score(
    ident: Id,
    run: RunNumber = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Show every number, strata and rates included.")
    ] = False,
    json_out: Json = False,
) -> None:
    """Score a run against what was locked; the verdict sets the exit code.

    0 PASS, 1 FAIL, 2 bad input, 3 REFUTED, 4 STOPPED, 5 INVALID, 6 INCONCLUSIVE. Writes
    score.json, verdicts.csv (every row, every pass) and the disagreements of passes beside the
    record (of votes, score.json alone); where they cannot be written, the verdict is shown all the
    same. A pass means that what was registered
    came out, not that the judge is good.
    """
    ws = workspace()
    scored = score_registration(ws, ident, run=run)
    result = result_of(ws, scored)
    files: dict[str, Path] = {}
    unwritten = None
    try:
        files = write_result(ws, scored, result)
    except OSError as exc:
        unwritten = os_problem(exc)
    if json_out:
        print_json(score_json(result))
    else:
        console().print(render(result, everything=everything))
    if unwritten:
        file = ws.shown(Path(unwritten.file or ws.run(result.id, result.run)))
        problem = replace(unwritten, what=f"could not be written: {unwritten.what}", file=file)
        say(f"Warning: {problem}")
    elif not json_out:
        say("Next: prereg verify " + ident)
        say("Files: " + ", ".join(ws.shown(path) for path in files.values()))
    raise typer.Exit(result.verdict.exit_code)
