"""What the claims are worth, as a table for a terminal.

Takes the plain rows of `flow.outlook`; computes nothing.
"""

from __future__ import annotations

from typing import Any

from rich.console import Group, RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from prereg_judge.report.numbers import figures
from prereg_judge.report.terminal import visible

ASSUMPTION = (
    "Chances are exact binomial: {units} independent of each other, each with the same chance. "
    "Where {units} differ in their chances and the mean stays, the count spreads less than this, "
    "because p(1 - p) summed over the {units} is largest where all are alike; {units} that go "
    "together, such as {alike}, spread it more."
)
# Filled in for claims on rows, for those on trials without a verdict, and where there are both.
_WORDS = {
    ("row",): {"units": "rows", "alike": "near copies"},
    ("trial",): {"units": "trials", "alike": "those of one row"},
    ("row", "trial"): {"units": "rows (or trials)", "alike": "near copies"},
}
VERDICTS = "Every trial is taken to have a verdict."
# Under a claim on trials without a verdict the sentence above would contradict it.
VERDICTS_BESIDE = (
    "Every trial is taken to have a verdict, but for claims on trials without one: these claims "
    "are taken each by itself."
)


def expectation_table(rows: list[dict[str, Any]]) -> RenderableType:
    """Each claim with n, what is expected, the chance of each outcome and the interval to come.

    Below it what the chances assume, the rows needed where the registration asks, and warnings.

    Parameters
    ----------
    rows
        As `flow.outlook` gives them; without a row the table is empty.
    """
    table = Table(title="What the claims are worth", title_justify="left", title_style="bold")
    table.add_column("claim", overflow="fold", max_width=18)
    table.add_column("registered", overflow="fold")
    for name, width in (("n", 8), ("expected", 10), ("chance of each outcome", 17)):
        table.add_column(name, overflow="fold", max_width=width)
    table.add_column("Wilson 95% interval there", overflow="fold", max_width=17)
    for row in rows:
        table.add_row(*map(escape, _cells(row)))
    parts: list[RenderableType] = [table]
    units = {row["unit"] for row in rows if row["chance"] is not None}
    if units:
        verdicts = (
            {"row": VERDICTS, "trial": ""}[min(units)] if len(units) == 1 else VERDICTS_BESIDE
        )
        assumed = ASSUMPTION.format(**_WORDS[tuple(sorted(units))])
        parts.append(Text(f"{assumed} {verdicts}".rstrip(), style="dim"))
    for row in rows:
        texts = row.get("sample_size", {}).get("texts", [])
        parts += [Text(visible(f"Sample size: {text}")) for text in texts]
    for row in rows:
        parts += [Text(visible(f"Warning: {row['id']}: {text}.")) for text in row["warnings"]]
    return Group(*parts)


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    """A row's texts; each outcome on a line of its own, so that metric names stay whole."""
    ident = f"{row['id']}\n(primary)" if row["primary"] else row["id"]
    n = "?" if row["n"] is None else str(row["n"])
    n += "\ntrials" if row["unit"] == "trial" else ""
    if row["can_count"] != row["n"]:
        n += f"\n({row['can_count']} can count)"
    chance = row["chance_text"]
    if row["chances"] is not None:
        chance = chance.replace(", ", "\n")
    interval = row["interval_text"].replace(" at ", "\nat ")
    if row["width"] is not None:
        interval += f"\n{figures(row['width'])} wide"
    return ident, row["registered"], n, row["expected_text"], chance, interval
