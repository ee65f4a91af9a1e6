"""Whether a reference is neutral: how often it equals one output exactly, and another.

And what the map of fine types to coarse ones hides between an output and a reference.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from prereg_judge.stats.resample import ratio
from prereg_judge.stats.sparse import sparse_limits
from prereg_judge.study.counted import LEVEL, counted, is_rate, undefined_metric
from prereg_judge.study.metric import Interval, Metric, MetricRef, MetricSpec
from prereg_judge.study.outcomes import Resampling
from prereg_judge.study.swap_scores import Scores
from prereg_judge.study.swap_sums import Estimate, Floats, Look
from prereg_judge.study.swap_tests import Difference
from prereg_judge.study.table_metrics import bootstrapped

ONE_SIGN = "each item has one sign, that of the sum over its rows"


def exact_metric(
    scores: Scores,
    ref: MetricRef,
    spec: MetricSpec,
    *,
    look: Look,
    output: str,
    reference: str,
    note: str | None,
) -> Metric:
    """`exact.count` or `exact.rate`: Wilson over rows, over items where some have several."""
    about = scores.about(output)
    trouble = scores.trouble(look, about, (output, reference))
    n = scores.n(look, about)
    if trouble is not None:
        return undefined_metric(ref, spec, reason=trouble[0], note=trouble[1], n=n)
    share, k = scores.exact(look, about, output, reference)
    if not scores.repeated(look, about):
        return counted(ref, spec, k=k, n=n, note=note)
    same = scores.sums.equal(look.match, output, reference).astype(np.int64)
    values = scores.of_items(look, about, same)
    return _share_of(ref, spec, k=k, n=n, share=share, values=values,
                     resampling=scores.sums.resampling, notes=(note,))  # fmt: skip


def _share_of(
    ref: MetricRef,
    spec: MetricSpec,
    *,
    k: int,
    n: int,
    share: Estimate,
    values: Floats,
    resampling: Resampling | None,
    notes: Sequence[str | None],
) -> Metric:
    """A share of what items have several of, or the count with limits that are n times those."""
    found = bootstrapped(
        ref,
        spec,
        value=share.value,
        draws=share.draws,
        resampling=resampling,
        n=n,
        k=k,
        notes=notes,
        least=sparse_limits(values, within=(0.0, 1.0), level=LEVEL),
    )
    if is_rate(ref.name):
        return found
    i = found.interval
    times = None if i is None else Interval(i.low * n, i.high * n, i.level, f"{i.method}, times n")
    return Metric(ref, float(k), spec.unit, spec.summary, k=k, n=n, interval=times, note=found.note)


def skew_metric(
    scores: Scores, ref: MetricRef, spec: MetricSpec, *, test: Difference, note: str | None
) -> Metric:
    """`skew`, with its interval over items; what is undefined is known to the caller."""
    look, about = test.look, scores.about(test.output, test.other)
    one, two = (
        scores.sums.equal(look.match, name, test.reference).astype(np.int64)
        for name in (test.output, test.other)
    )
    found = scores.skew(look, test.output, test.other, test.reference)
    plus, minus = scores.uneven(look, test.output, test.other, test.reference)
    uneven = f"equal to {test.output} alone on {plus} rows, to {test.other} alone on {minus}"
    return bootstrapped(
        ref,
        spec,
        value=found.value,
        draws=found.draws,
        resampling=scores.sums.resampling,
        n=scores.n(look, about),
        notes=[uneven, note],
        least=sparse_limits(
            scores.of_items(look, about, one - two), within=(-1.0, 1.0), level=LEVEL
        ),
    )


class Hidden:
    """Confusions of types between outputs and references, and which of them the map hides."""

    def __init__(self, scores: Scores) -> None:
        self.scores = scores
        self._found: dict[tuple[str, str], tuple[Estimate, Estimate, Floats]] = {}

    def entries(self, look: Look, output: str, reference: str) -> NDArray[np.intp]:
        """Positions of their confusions on rows that count, in `Labelled.confusions`."""
        sums = self.scores.sums
        found = sums.labelled.confusions
        first, second = sorted((sums.at(output), sums.at(reference)))
        rows = sums.rows(look, ())
        return np.flatnonzero((found.first == first) & (found.second == second) & rows[found.row])

    def _sums(self, look: Look, output: str, reference: str) -> tuple[Estimate, Estimate, Floats]:
        """Hidden confusions and all of them, and the share that is hidden on each item."""
        if not self._found:
            swap = self.scores.swap
            pairs = [(x, y) for x in swap.outputs for y in swap.references]
            columns = [c for x, y in pairs for c in self._columns(look, x, y)]
            totals = self.scores.sums.resampled(columns)
            for at, pair in enumerate(pairs):
                hidden, every = columns[2 * at : 2 * at + 2]
                share = hidden[every > 0] / every[every > 0]
                self._found[pair] = totals[2 * at], totals[2 * at + 1], share
        return self._found[output, reference]

    def _columns(self, look: Look, output: str, reference: str) -> tuple[Floats, Floats]:
        labelled = self.scores.sums.labelled
        at = self.entries(look, output, reference)
        units = labelled.unit[labelled.confusions.row[at]]
        size = self.scores.sums.units
        weights = labelled.confusions.hidden[at].astype(np.float64)
        hidden = np.bincount(units, weights=weights, minlength=size).astype(np.float64)
        return hidden, np.bincount(units, minlength=size).astype(np.float64)

    def metric(
        self, ref: MetricRef, spec: MetricSpec, *, look: Look, output: str, reference: str
    ) -> Metric:
        """`merge.hidden.count` or `merge.hidden.rate`."""
        hidden, every, values = self._sums(look, output, reference)
        n, k = int(every.value), int(hidden.value)
        if not n:
            what = "no two marks at the same place have different types"
            return undefined_metric(ref, spec, reason="empty_denominator", note=what, n=0)
        draws = None
        if hidden.draws is not None and every.draws is not None:
            draws = ratio(hidden.draws, every.draws)
        return _share_of(
            ref,
            spec,
            k=k,
            n=n,
            share=Estimate(k / n, draws),
            values=values,
            resampling=self.scores.sums.resampling,
            notes=[f"confusions on {len(values)} items"],
        )
