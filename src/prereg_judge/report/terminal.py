"""A result as text for a terminal: claims, the study's numbers, the verdict.

Every outcome reads without colour; colour only repeats it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from typing import Any

from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.markup import escape
from rich.padding import Padding
from rich.segment import Segment
from rich.table import Column, Table
from rich.text import Text

from prereg_judge.report.annotators import annotators_parts
from prereg_judge.report.files import PostHocLine, Result, RunLine
from prereg_judge.report.numbers import explained, number, observed
from prereg_judge.report.pairs import board_table, judges_table, swap_parts
from prereg_judge.report.standard import standard_metrics
from prereg_judge.report.swap import swap_parts as reference_parts
from prereg_judge.study.expected import AgreementCurve
from prereg_judge.study.metric import Metric
from prereg_judge.study.rows import TransitionTable
from prereg_judge.verdict import ClaimOutcome, Verdict
from prereg_judge.wording import visible as made_visible

# C0 (but tab and line feed), DEL, C1, and half characters, which no encoding can write.
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
_GOOD = {"inside", "held", "silent", "not tripped", "PASS"}
_BAD = {"missed low", "missed high", "failed", "fired", "tripped"}
_BAD |= {"FAIL", "REFUTED", "STOPPED", "INVALID"}


def visible(text: str) -> str:
    """Text with its control characters written out, as `\\x1b`: a terminal obeys none of them."""
    return _CONTROL.sub(lambda m: ascii(m.group())[1:-1], text)


def one_line(text: str) -> str:
    """Text of others as part of a line of ours: it can neither end the line nor turn it around."""
    return made_visible(text.replace("\n", "\\n").replace("\t", "\\t"))


def outcome_text(word: str) -> Text:
    """An outcome word, coloured by what it means."""
    style = "bold green" if word in _GOOD else "bold red" if word in _BAD else "bold yellow"
    return Text(word, style=style)


def claims_table(
    outcomes: Sequence[ClaimOutcome], *, primary: str | None = None, title: str = "Claims"
) -> Table:
    """Claim by claim: what was registered, what was observed, the outcome; the primary marked."""
    table = Table(title=title, title_justify="left", title_style="bold", show_lines=True)
    table.add_column("claim", overflow="fold")
    table.add_column("registered", ratio=2, overflow="fold")
    table.add_column("observed", ratio=2, overflow="fold")
    table.add_column("outcome", overflow="fold")
    for outcome in outcomes:
        seen = "\n".join(observed(m) for m in outcome.metrics)
        if outcome.note and not (outcome.outcome == "undefined" and outcome.metrics):
            seen += ("\n" if seen else "") + outcome.note
        marked = outcome.id == primary and len(outcomes) > 1
        table.add_row(
            f"{outcome.kind}\n{escape(outcome.id)}" + ("\nprimary" if marked else ""),
            escape(outcome.registered),
            escape(seen),
            outcome_text(outcome.outcome),
        )
    return table


def metrics_table(metrics: Sequence[Metric], *, left_out: int = 0) -> Table:
    """A list of metrics with their numbers, n, intervals and methods; how many are not shown."""
    table = Table(title="Numbers", title_justify="left", title_style="bold")
    if left_out:
        table.caption, table.caption_justify = f"{left_out} more with --all", "left"
    table.add_column("metric", overflow="fold")
    table.add_column("observed", overflow="fold")
    for metric in metrics:
        table.add_row(escape(str(metric.ref)), escape(explained(metric)))
    return table


def transition_table(shown: TransitionTable, *, arms: Sequence[str] = ()) -> RenderableType:
    """First-pass verdicts (rows) against those of a later pass (columns); with `arms`, of arms."""
    names = ["(no verdict)" if v is None else v for v in shown.verdicts]
    table = Table()
    table.add_column(f"n = {shown.n}", overflow="fold")
    for name in names:
        table.add_column(escape(name), justify="right", overflow="fold")
    for name, row in zip(names, shown.counts, strict=True):
        table.add_row(escape(name), *map(str, row))
    word = "arm" if arms else "pass"
    of = shown.set if shown.order is None else f"{shown.set}, order {shown.order}"
    title = f"{of}: {word} {shown.first} (down) against {word} {shown.later} (across)"
    if shown.order is not None:
        title += ", as said of answers a and b"
    return Group(Text(title, style="bold"), table)


_ABREAST = 3  # temperatures beside each other in a row of the table


def curve_table(curve: AgreementCurve) -> RenderableType:
    """Expected agreement by temperature, the registered one marked; what it cannot show below."""
    table = Table()
    for _ in range(_ABREAST):
        table.add_column("temperature", justify="right", overflow="fold")
        table.add_column("expected share and range", overflow="fold")
    cells = [
        (
            f"{p.temperature:g}" + (" *" if p.registered else ""),
            f"{number(p.rate)} [{number(p.low)}, {number(p.high)}]"
            + (f" n = {p.n}" if p.n < curve.n_rows else ""),
        )
        for p in curve.points
    ]
    depth = -(-len(cells) // _ABREAST)
    for at in range(depth):
        row = cells[at::depth]
        table.add_row(*(text for cell in row for text in cell))
    title = (
        f"{curve.set}: expected agreement of {curve.draws} independent draws by temperature "
        f"(n = {curve.n_rows}; range: at least {curve.level:.0%} of "
        f"what would be observed; * registered)"
    )
    lost = max(p.unfollowed for p in curve.points)
    share = f" At most {lost:.2g} of a row's probability is left out so." if lost > 1e-6 else ""
    return Group(Text(title, style="bold"), table, Text(curve.limits + share, style="dim"))


def history(run: int, runs: Sequence[RunLine]) -> str:
    """Which run this is of how many, and how the others ended."""
    text = f"run {run} of {len(runs)}"
    others = [
        f"run {r.number} {r.ended}" + (" (folder gone)" if r.missing else "")
        for r in runs
        if r.number != run
    ]
    this = next(r for r in runs if r.number == run)
    if this.resumed:
        times = "once" if this.resumed == 1 else f"{this.resumed} times"
        text += f", resumed {times}"
    return "; ".join([text, *others])


def verdict_line(verdict: Verdict, run: int, runs: Sequence[RunLine]) -> Text:
    """The word, and which run it is of."""
    return Text("Verdict: ") + outcome_text(verdict.word) + Text(f"  ({history(run, runs)})")


def verdict_text(verdict: Verdict, run: int, runs: Sequence[RunLine]) -> Text:
    """What ends a summary: the word, which run, and why."""
    text = verdict_line(verdict, run, runs)
    for reason in verdict.reasons:
        text += Text("\n  because " + one_line(reason))
    return text


def post_hoc_parts(line: PostHocLine) -> list[RenderableType]:
    """A version locked after the run began: its claims, and the word that it would give."""
    head = f"POST HOC: version {line.version}, locked {line.locked_at}, after this run began"
    head += f" ({line.reason})"
    if line.verdict is None:
        return [Text(one_line(f"{head} is not applied: {line.why_not}"), style="dim")]
    word = Text(one_line(f"{head} would give ")) + Text(line.verdict.word, style="bold")
    return [
        word + Text("; it does not decide."),
        claims_table(line.verdict.outcomes, title=f"Claims of version {line.version}, post hoc"),
    ]


def render(result: Result, *, everything: bool = False) -> RenderableType:
    """The whole summary; the verdict stands above the numbers too, its reasons at the end only."""
    heading = Table.grid("name", Column(overflow="fold"), padding=(0, 2))
    for name, value in result.facts.items():
        heading.add_row(Text(name, style="dim"), escape(value))
    metrics = result.summary if everything else standard_metrics(result)
    parts: list[RenderableType] = [
        Text(visible(result.title), style="bold"),
        verdict_line(result.verdict, result.run, result.runs),
        Padding(heading, (0, 0, 1, 0)),
        metrics_table(metrics, left_out=len(result.summary) - len(metrics)),
        *((board_table(result.board, pools=result.pools),) if result.board else ()),
        *((judges_table(result.judges, pools=result.pools),) if result.judges else ()),
        *swap_parts(result.swaps, sides=result.sides),
        *(reference_parts(result.swap, result.summary) if result.swap else ()),
        *(annotators_parts(result.annotators) if result.annotators else ()),
        *(transition_table(t, arms=result.arms) for t in result.tables),
        *(curve_table(c) for c in result.curves),
        claims_table(result.verdict.outcomes, primary=result.primary),
        *(part for line in result.post_hoc for part in post_hoc_parts(line)),
        *(Text(f"Note: {one_line(note)}") for note in result.notes),
        verdict_text(result.verdict, result.run, result.runs),
    ]
    return Group(*parts)


class _Console(Console):
    """A console that writes control characters out, wherever the text came from."""

    def render_str(self, text: str, *args: Any, **kwargs: Any) -> Text:
        """See `Console`; before anything is measured, so that tables keep their form."""
        return super().render_str(visible(text), *args, **kwargs)

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """See `Console`; what came as `Text` went past `render_str`."""
        for segment in super().render(renderable, options):
            if segment.control:  # the console's own: cursor movements of a progress bar
                yield segment
            else:
                yield Segment(visible(segment.text), segment.style)


def console(*, stderr: bool = False) -> Console:
    """A console that stays readable when it is not a terminal and obeys no text it prints."""
    made = _Console(stderr=stderr, highlight=False, emoji=False)
    if made.is_terminal or "COLUMNS" in os.environ:
        return made
    return _Console(stderr=stderr, highlight=False, emoji=False, width=max(made.width, 118))
