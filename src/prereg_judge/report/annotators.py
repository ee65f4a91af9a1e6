"""Tables of a study of annotators, for the terminal: readable at 80 columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

from rich.console import Group, RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from prereg_judge.report.numbers import explained, of_things
from prereg_judge.study.annotators import AnnotatorsView
from prereg_judge.study.metric import Metric

_MOST = 12  # pairs of annotators, and confusions, that are shown
_EVERYONE = "all annotators"


def annotators_parts(view: AnnotatorsView) -> list[RenderableType]:
    """Pools beside each other, every two annotators, fine beside coarse labels, confusions."""
    parts = []
    if len(view.pools) > 1:
        parts.append(_of_groups("Agreement within each pool", view.pools))
    parts += _pairs(view.pairs)
    if view.merged:
        title = "Agreement by fine labels, and by those of the map"
        parts.append(_of_groups(title, {name or _EVERYONE: m for name, m in view.merged.items()}))
    return [*parts, *_confusions(view)]


def _of_groups(title: str, groups: Mapping[str, Sequence[Metric]]) -> RenderableType:
    """A row for each group and measure, the group's name on its first."""
    table = Table()
    for name in ("annotators", "measure", "observed"):
        table.add_column(name, overflow="fold")
    for group, metrics in groups.items():
        for at, metric in enumerate(metrics):
            cells = ("" if at else group, _measure(metric, but=("pool",)), explained(metric))
            table.add_row(*map(escape, cells))
    return Group(Text(title, style="bold"), table)


def _measure(metric: Metric, *, but: tuple[str, ...]) -> str:
    """The metric's name with its parameters, without those that stand beside it."""
    told = ",".join(f"{k}={v}" for k, v in metric.ref.params if k not in but)
    return f"{metric.ref.name}[{told}]" if told else metric.ref.name


def _pairs(pairs: Sequence[Metric]) -> Iterator[RenderableType]:
    """Every two annotators, where they are few; how many are not shown."""
    if not pairs:
        return
    table = Table()
    for name in ("two annotators", "measure", "observed"):
        table.add_column(name, overflow="fold")
    for metric in islice(pairs, _MOST):
        told = dict(metric.ref.params)
        pair = f"{told.get('annotator')} and {told.get('other')}"
        cells = (pair, _measure(metric, but=("annotator", "other")), explained(metric))
        table.add_row(*map(escape, cells))
    parts: list[RenderableType] = [Text("Every two annotators", style="bold"), table]
    if len(pairs) > _MOST:
        rest = f"{len(pairs) - _MOST} more: with --all, or `annotators.pairs` in score.json."
        parts.append(Text(rest, style="dim"))
    yield Group(*parts)


def _confusions(view: AnnotatorsView) -> Iterator[RenderableType]:
    """Which labels were confused, the most frequent first."""
    if not view.confusions:
        return
    total = sum(c.pairs for c in view.confusions)
    hidden = sum(c.pairs for c in view.confusions if c.hidden)
    table = Table()
    names = ("one label", "another", "pairs", "share", *(("hidden",) if hidden else ()))
    for name in names:
        right = name in ("pairs", "share")
        table.add_column(name, justify="right" if right else "left", overflow="fold")
    for c in islice(view.confusions, _MOST):
        cells = [
            *(label or "(empty)" for label in c.labels),
            str(c.pairs),
            f"{c.pairs / total:.1%}",
        ]
        cells += [("yes" if c.hidden else "")] if hidden else []
        table.add_row(*map(escape, cells))
    title = f"Confusions: {of_things(total, 'pair')} of different labels of one item or place"
    title += f", {hidden} of them hidden by the map" if hidden else ""
    parts: list[RenderableType] = [Text(title, style="bold"), table]
    if len(view.confusions) > _MOST:
        rest = f"{len(view.confusions) - _MOST} more: `annotators.confusions` in score.json."
        parts.append(Text(rest, style="dim"))
    yield Group(*parts)
