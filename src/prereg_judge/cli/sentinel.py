"""`prereg sentinel check`: confirm known answers by rule, with no model call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from prereg_judge.cli.common import Json, print_json
from prereg_judge.errors import InputError, Problem
from prereg_judge.items import Item, load_items
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
    _refuse_without_edits(items, (original, rewrite), file=str(file))
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


def _refuse_without_edits(items: Sequence[Item], names: tuple[str, str], *, file: str) -> None:
    """Refuse a file of which no row has a field that is asked for: once, not for each row."""
    absent = [name for name in names if not any(name in item.fields for item in items)]
    if absent:
        fields = list(dict.fromkeys(name for item in items for name in item.fields))
        what = f"no row has the field {' or '.join(map(repr, absent))}"
        remedy = "rules can only check rows that hold a text before and after an edit: "
        remedy += (
            f"name these fields with --original and --rewrite; the rows have {', '.join(fields)}"
        )
        raise InputError(Problem(what, file, remedy=remedy))
