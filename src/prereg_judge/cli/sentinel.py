"""`prereg sentinel check`: confirm known answers by rule, with no model call."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from prereg_judge.cli.common import Json, print_json
from prereg_judge.items import load_items
from prereg_judge.report.terminal import console
from prereg_judge.sentinels import check_rows

app = typer.Typer(no_args_is_help=True, help="Sentinel sets: rows whose answer is known.")


@app.callback()
def group() -> None:
    """Sentinel sets: rows whose answer is known."""


@app.command()
def check(
    file: Annotated[Path, typer.Argument(help="The sentinel set (.jsonl, .csv, .parquet).")],
    original: Annotated[str, typer.Option(help="Field with the text before the edit.")] = (
        "original"
    ),
    rewrite: Annotated[str, typer.Option(help="Field with the text after it.")] = "rewrite",
    json_out: Json = False,
) -> None:
    """Check by rule that each row's edit changes nothing, with the reason where it cannot say so.

    No model is called. Exit 0 if every row is confirmed, 1 if not.
    """
    items = load_items(file, role="sentinel", shown=str(file)).items
    rows: list[Mapping[str, object]] = [{"id": i.id, "kind": i.kind, **i.fields} for i in items]
    places = [(str(file), i.line) for i in items]
    report = check_rows(rows, original=original, rewrite=rewrite, places=places)
    if json_out:
        print_json(
            {
                "file": str(file),
                "rows": len(report.rows),
                "confirmed": sum(r.confirmation.confirmed for r in report.rows),
                "distinct": report.distinct,
                "kinds": {k.kind: {"rows": k.rows, "confirmed": k.confirmed} for k in report.kinds},
                "unconfirmed": [
                    {"id": r.id, "rule": r.confirmation.rule, "reason": r.confirmation.reason}
                    for r in report.unconfirmed
                ],
            }
        )
    else:
        out = console()
        table = Table()
        for name in ("kind", "rows", "confirmed by rule"):
            table.add_column(name)
        for k in report.kinds:
            table.add_row(escape(k.kind or "(none)"), str(k.rows), str(k.confirmed))
        out.print(table)
        for r in report.unconfirmed:
            rule = r.confirmation.rule
            by = "" if rule == "none" else f" by {rule}"
            why = f"{r.id}: not confirmed{by}: {r.confirmation.reason}"
            out.print(escape(why), soft_wrap=True)
        out.print(f"{len(report.rows)} rows, {report.distinct} distinct by content")
    raise typer.Exit(0 if report.all_confirmed else 1)
