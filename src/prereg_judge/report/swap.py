"""Tables of a study that exchanges references, for the terminal: readable at 80 columns.

What all cells of a table share (n, level and method of the interval) is said above it, once; a cell
that differs says its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

from rich.console import Group, RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from prereg_judge.report.numbers import explained, number, observed, of_things, signed
from prereg_judge.report.swap_rows import (
    DECONTAMINATED,
    LOOKS,
    DifferenceRow,
    differences,
    neutrality,
)
from prereg_judge.study.metric import Metric
from prereg_judge.study.reference_swap import SwapView

_ABREAST = 3  # references beside each other in a table
_MOST = 12  # confusions that are shown

# What all cells of a table share: n, and the level and method of their intervals.
_Common = tuple[int | None, float, str]


def swap_parts(view: SwapView, summary: Sequence[Metric]) -> list[RenderableType]:
    """All tables, in the order in which the question is asked: score, margin, neutrality, band."""
    parts = list(_score_tables(view))
    title = "What exchanging the reference does: delivered minus alternative, and margins"
    parts += _difference_table(differences(summary), title)
    title = "The same without rows on which the delivered reference equals an output"
    parts += _difference_table(differences(summary, subset=DECONTAMINATED), title)
    parts += [*_neutrality_table(summary), *_band(view, summary)]
    return [*parts, *_confusions(view), *_policies(view)]


def _common(metrics: Sequence[Metric]) -> _Common | None:
    """What every metric with an interval has in common; None where they differ."""
    found = {(m.n, m.interval.level, m.interval.method) for m in metrics if m.interval is not None}
    return found.pop() if len(found) == 1 else None


def _said(common: _Common) -> str:
    """`n = 159; 95% bootstrap`, with which a title ends."""
    n, level, method = common
    return f"n = {n}; {level:.0%} {method.partition(',')[0]}"


def _short(metric: Metric, common: _Common | None) -> str:
    """A value with its limits; all about it where it is not as the title says."""
    i = metric.interval
    if metric.value is None or i is None or common != (metric.n, i.level, i.method):
        return explained(metric)
    return f"{number(metric.value)}\n[{number(i.low)}, {number(i.high)}]"


def _score_tables(view: SwapView) -> Iterator[RenderableType]:
    """F1 of outputs (down) under references (across), so many references at a time."""
    common = _common([metric for row in view.scores for metric in row])
    tail = "" if common is None else f" ({_said(common)})"
    head = f"F1 of each output under each reference, match {view.match}{tail}"
    for start in range(0, len(view.references), _ABREAST):
        table = Table()
        table.add_column("output", overflow="fold")
        for at, name in enumerate(view.references[start : start + _ABREAST], start=start):
            told = f"{name} (delivered)" if at == 0 and name != "delivered" else name
            table.add_column(escape(told), overflow="fold")
        for output, row in zip(view.outputs, view.scores, strict=True):
            cells = (_short(metric, common) for metric in row[start : start + _ABREAST])
            table.add_row(escape(output), *map(escape, cells))
        title = head if start == 0 else "Further references"
        yield Group(Text(title, style="bold"), table)


def _difference_table(rows: Sequence[DifferenceRow], title: str) -> list[RenderableType]:
    """Differences with their p-values; nothing where there is none."""
    if not rows:
        return []
    holm = any(row.p_holm is not None for row in rows)
    table = Table()
    for name in ("difference", "observed", "p", *(("p, Holm",) if holm else ())):
        table.add_column(name, overflow="fold")
    for row in rows:
        cells = [_named(row.difference), explained(row.difference), _p(row.p)]
        cells += [_p(row.p_holm)] if holm else []
        table.add_row(*map(escape, cells))
    legend = "p: two-sided, from the same resamples, not adjusted."
    if holm:
        legend += " Holm: adjusted over the registered family; - : not in it."
    return [Group(Text(title, style="bold"), table, Text(legend, style="dim"))]


def _named(metric: Metric) -> str:
    """A difference in words: which outputs, under or between which references."""
    told = dict(metric.ref.params)
    pair = f"{told.get('output')} - {told.get('other')}"
    if metric.ref.name == "delta":
        return f"delta of {told.get('output')}, to {told.get('reference')}"
    if metric.ref.name == "margin":
        return f"margin {pair}, under {told.get('reference')}"
    return f"interaction {pair}, to {told.get('reference')}"


def _p(metric: Metric | None) -> str:
    """A p-value in a row that has its n; why there is none otherwise."""
    if metric is None:
        return "-"
    return observed(metric) if metric.value is None else number(metric.value)


def _neutrality_table(summary: Sequence[Metric]) -> list[RenderableType]:
    """How often each reference equals each of two outputs; the exact test of the difference."""
    rows = list(neutrality(summary))
    if not rows:
        return []
    table = Table()
    for name in ("reference", "equals exactly", "difference", "p"):
        table.add_column(name, overflow="fold")
    for row in rows:
        pairs = zip(row.outputs, row.equal, strict=True)
        equal = "\n".join(f"{name}: {explained(metric)}" for name, metric in pairs)
        told = _p(row.skew.p)
        told += "" if row.skew.p_holm is None else f"\n{_p(row.skew.p_holm)} by Holm"
        cells = (row.reference, equal, explained(row.skew.difference), told)
        table.add_row(*map(escape, cells))
    title = "Neutrality: rows on which a reference equals an output exactly"
    legend = (
        "p: exact paired test of the items that equal one output alone, not adjusted unless it "
    )
    legend += "says so (Holm over the registered family; the notes adjust over all tests of skew)."
    return [Group(Text(title, style="bold"), table, Text(legend, style="dim"))]


def _band(view: SwapView, summary: Sequence[Metric]) -> list[RenderableType]:
    """How wide the band is, and from each output alone; the margins no larger than it."""
    found = [m for m in summary if m.ref.name == "band.width" and not _looks(m)]
    if not found:
        return []
    whole, *alone = sorted(found, key=lambda m: bool(m.ref.params))
    text = Text("Reference-sensitivity band: ", style="bold")
    text.append(explained(whole), style="not bold")
    for metric in alone:
        name = dict(metric.ref.params).get("output")
        text.append(f"\n  from {name} alone: {observed(metric)}", style="not bold")
    if view.band.width is None:
        return [text]
    if not view.inside:
        text.append(f"\nNone of {of_things(view.margins, 'margin')} is so small.", style="not bold")
        return [text]
    table = Table()
    for name in ("margin no larger than the band", "under", "F1"):
        table.add_column(name, overflow="fold")
    for margin in view.inside:
        pair = f"{margin.output} - {margin.other}"
        table.add_row(escape(pair), escape(margin.reference), signed(margin.value))
    legend = f"{len(view.inside)} of {of_things(view.margins, 'margin')}; "
    legend += "n and interval of each: in the table of differences. This is no test."
    return [Group(text, table, Text(legend, style="dim"))]


def _looks(metric: Metric) -> bool:
    return not dict(metric.ref.params).keys().isdisjoint(LOOKS)


def _confusions(view: SwapView) -> list[RenderableType]:
    """Types that differ at the same place, those first that the map hides."""
    if not view.confusions:
        return []
    ordered = sorted(view.confusions, key=lambda c: (not c.hidden, -c.count))
    mapped = bool(view.hidden)
    table = Table()
    names = ("output says", "reference says", "marks", *(("hidden",) if mapped else ()))
    for name in names:
        table.add_column(name, justify="right" if name == "marks" else "left", overflow="fold")
    for c in islice(ordered, _MOST):
        cells = [
            f"{c.output}: {c.output_type or '(empty)'}",
            f"{c.reference}: {c.reference_type or '(empty)'}",
            str(c.count),
            *((("yes" if c.hidden else ""),) if mapped else ()),
        ]
        table.add_row(*map(escape, cells))
    total = sum(c.count for c in ordered)
    hidden = sum(c.count for c in view.hidden)
    title = f"Types that differ at the same place: {of_things(total, 'pair')} of marks"
    title += f", {hidden} of them hidden by the map" if mapped else ""
    parts: list[RenderableType] = [Text(title, style="bold"), table]
    if len(ordered) > _MOST:
        rest = f"{len(ordered) - _MOST} more rows: `reference_swap.confusions` in score.json."
        parts.append(Text(rest, style="dim"))
    return [Group(*parts)]


def _policies(view: SwapView) -> list[RenderableType]:
    """Deltas and margins under each policy on copies, where there are copies."""
    if not view.policies:
        return []
    every = [m for under in view.policies for m in (*under.deltas, *under.margins)]
    table = Table()
    table.add_column("difference", overflow="fold")
    for under in view.policies:
        mark = " *" if under.policy == view.duplicates else ""
        table.add_column(f"{under.policy}{mark}\n{under.rows} rows", overflow="fold")
    lines = zip(*((*under.deltas, *under.margins) for under in view.policies), strict=True)
    for line in lines:
        table.add_row(escape(_named(line[0])), *(escape(_limits(m)) for m in line))
    levels = {m.interval.level for m in every if m.interval is not None}
    methods = {m.interval.method.partition(",")[0] for m in every if m.interval is not None}
    title = "The same under each policy on rows of one item (* registered"
    title += "".join(f"; {level:.0%}" for level in sorted(levels))
    title += f" {' or '.join(sorted(methods))})" if methods else ")"
    return [Group(Text(title, style="bold"), table)]


def _limits(metric: Metric) -> str:
    """A difference with its limits; n is in the heading of its column."""
    i = metric.interval
    if metric.value is None or i is None:
        return explained(metric)
    return f"{signed(metric.value)}\n{signed(i.low)} to\n{signed(i.high)}"
