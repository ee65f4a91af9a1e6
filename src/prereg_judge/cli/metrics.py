"""`prereg metrics`: what may be registered about a study."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from prereg_judge.cli.common import Json, print_json
from prereg_judge.errors import Problem, UsageError
from prereg_judge.report.terminal import console
from prereg_judge.study.kinds import STUDIES
from prereg_judge.words import SET_ROLES


def metrics(
    study: Annotated[
        str | None, typer.Argument(metavar="[STUDY]", help="A study. Default: list all of them.")
    ] = None,
    json_out: Json = False,
) -> None:
    """List the metrics that bands, predictions, refuters and stop rules may name.

    Parameters go in brackets on the command line, METRIC[kind=numeral], and as keys beside
    `metric:` in YAML. Add .ci_low or .ci_high for the limits of a metric's interval.
    """
    if study is not None and study not in STUDIES:
        remedy = f"studies: {', '.join(STUDIES)}"
        raise UsageError(Problem("no such study", found=repr(study), remedy=remedy))
    chosen = [study] if study else list(STUDIES)
    found = {name: STUDIES[name].catalogue(SET_ROLES).specs for name in chosen}
    if json_out:
        print_json(
            {
                name: [
                    {
                        "metric": s.name,
                        "summary": s.summary,
                        "unit": s.unit,
                        "required": list(s.required),
                        "optional": list(s.optional),
                        "live": s.live,
                    }
                    for s in specs.values()
                ]
                for name, specs in found.items()
            }
        )
        return
    for name, specs in found.items():
        table = Table(title=f"Study {name}", title_justify="left", title_style="bold")
        for column in ("metric", "parameters (* must be given)", "unit", "what it is"):
            table.add_column(column, overflow="fold")
        for spec in specs.values():
            if spec.name.startswith("real."):
                continue  # the same as for the sentinels
            params = ", ".join([f"{p}*" for p in spec.required] + list(spec.optional))
            shown = spec.name.replace("sentinel.", "SET.")
            table.add_row(escape(shown), escape(params), spec.unit, escape(spec.summary))
        console().print(table)
    console().print("SET is `sentinel` or `real`.")
