"""`prereg metrics`: what may be registered about a study."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from prereg_judge.cli.common import Json, print_json
from prereg_judge.errors import Problem, UsageError
from prereg_judge.registration.schema_claims import MetricParams
from prereg_judge.report.terminal import console
from prereg_judge.study.kinds import STUDIES
from prereg_judge.study.metric import MetricSpec
from prereg_judge.words import SET_ROLES

Specs = Mapping[str, MetricSpec]


def metrics(
    study: Annotated[
        str | None, typer.Argument(metavar="[STUDY]", help="A study. Default: list all of them.")
    ] = None,
    grep: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Only those whose name or meaning has TEXT.")
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
    found = {name: STUDIES[name].metrics(SET_ROLES, votes=True).specs for name in chosen}
    if grep is not None:
        found = _having(found, grep)
    of_votes = {name: {s.name for s in STUDIES[name].vote_specs} for name in chosen}
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
                        "needs_votes": s.name in of_votes[name],
                    }
                    for s in specs.values()
                ]
                for name, specs in found.items()
            }
        )
        return
    for name, specs in found.items():
        console().print(_table(name, list(specs.values()), of_votes[name]))
        if of_votes[name] & specs.keys():
            console().print(
                f"{_VOTES}: needs a table of votes, `annotations` in the registration.",
                markup=False,
            )
    used = {p for specs in found.values() for s in specs.values() for p in _parameters_of(s)}
    console().print(_legend(used))
    if any(s.name.startswith("real.") for specs in found.values() for s in specs.values()):
        console().print("SET is `sentinel` or `real`.")


_VOTES = "(votes)"


def _having(found: Mapping[str, Specs], text: str) -> dict[str, Specs]:
    """The metrics that have a text in their name or meaning, whatever the case."""
    wanted = text.casefold()
    kept = {
        study: {n: s for n, s in specs.items() if wanted in f"{n} {s.summary}".casefold()}
        for study, specs in found.items()
    }
    if not any(kept.values()):
        what, remedy = "no metric has this text", "leave it out, to see them all"
        raise UsageError(Problem(what, where="--grep", found=repr(text), remedy=remedy))
    return {study: specs for study, specs in kept.items() if specs}


def _parameters_of(spec: MetricSpec) -> tuple[str, ...]:
    """Every parameter that a metric takes, those first that must be given."""
    return (*spec.required, *spec.optional)


def _table(study: str, specs: Sequence[MetricSpec], of_votes: Collection[str]) -> Table:
    """A study's metrics, a line each; those of the real items are those of the sentinels."""
    table = Table(title=f"Study {study}", title_justify="left", title_style="bold")
    for column in ("metric", "parameters (* must be given)", "unit", "what it is"):
        table.add_column(column, overflow="fold")
    for spec in specs:
        if spec.name.startswith("real."):
            continue
        params = ", ".join([f"{p}*" for p in spec.required] + list(spec.optional))
        shown = spec.name.replace("sentinel.", "SET.")
        shown += f" {_VOTES}" if spec.name in of_votes else ""
        table.add_row(escape(shown), escape(params), spec.unit, escape(spec.summary))
    return table


def _legend(used: Collection[str]) -> Table:
    """What the parameters mean, in the words of the registration's form."""
    table = Table(title="Parameters", title_justify="left", title_style="bold")
    table.add_column("parameter")
    table.add_column("what it is", overflow="fold")
    for name, field in MetricParams.model_fields.items():
        known = field.alias or name
        if known in used:
            table.add_row(known, escape(field.description or ""))
    return table
