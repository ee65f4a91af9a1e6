"""Sums over items that metrics are made of, resampled together.

A metric says which columns it needs and what to make of their sums; then all columns are drawn in
as few passes as memory allows, since drawing items costs as much as adding them up. Knows no
annotators.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from prereg_judge.stats.resample import Resampler
from prereg_judge.study.counted import undefined_metric
from prereg_judge.study.metric import Metric, MetricRef, MetricSpec, Undefined
from prereg_judge.study.outcomes import Resampling
from prereg_judge.study.table_metrics import bootstrapped

Floats = NDArray[np.float64]

# Largest array of columns that is drawn at a time, in bytes.
COLUMN_BYTES = 128_000_000


@dataclass(frozen=True)
class Sums:
    """Sums of a block's columns.

    Attributes
    ----------
    all
        Over all items, shape (m,).
    draws
        Over the items of each resample, shape (R, m); None where nothing is resampled.
    """

    all: Floats
    draws: Floats | None


@dataclass(frozen=True)
class Block:
    """Columns that several metrics are made of.

    Attributes
    ----------
    key
        What they are; blocks with the same key are the same.
    columns
        Makes what each item adds to each of m sums, shape (n, m); 0 for an item that does not
        count.
    """

    key: tuple[str | bool | None, ...]
    columns: Callable[[], NDArray[np.float64] | NDArray[np.int64]]


@dataclass(frozen=True)
class Later:
    """A metric whose sums are still to be made, and how it is made of them."""

    block: Block
    finish: Callable[[Sums], Metric]


Plan = Metric | Later


@dataclass
class Drawing:
    """Makes the sums of blocks, each once.

    Attributes
    ----------
    resampler
        The draws that all blocks share; None where nothing is resampled.
    """

    resampler: Resampler | None
    _made: dict[tuple[str | bool | None, ...], Sums] = field(default_factory=dict)

    def finished(self, plans: Mapping[MetricRef, Plan]) -> dict[MetricRef, Metric]:
        """The metrics of plans, in their order; all columns that are missing are drawn first."""
        self.make(plan.block for plan in plans.values() if isinstance(plan, Later))
        return {
            ref: plan.finish(self._made[plan.block.key]) if isinstance(plan, Later) else plan
            for ref, plan in plans.items()
        }

    def sums(self, block: Block) -> Sums:
        """The sums of one block."""
        self.make([block])
        return self._made[block.key]

    def make(self, blocks: Iterable[Block]) -> None:
        """Make the sums of blocks that are not made yet."""
        waiting = {block.key: block for block in blocks if block.key not in self._made}
        held: dict[tuple[str | bool | None, ...], Floats] = {}
        for key, block in waiting.items():
            held[key] = np.asarray(block.columns(), dtype=np.float64)
            if sum(columns.nbytes for columns in held.values()) > COLUMN_BYTES:
                self._draw(held)
                held = {}
        if held:
            self._draw(held)

    def _draw(self, held: Mapping[tuple[str | bool | None, ...], Floats]) -> None:
        """Draw the columns of several blocks in one pass."""
        draws = None
        if self.resampler is not None:
            draws = self.resampler.totals(np.concatenate(list(held.values()), axis=1))
        start = 0
        for key, columns in held.items():
            end = start + columns.shape[1]
            part = None if draws is None else draws[:, start:end]
            self._made[key] = Sums(columns.sum(axis=0), part)
            start = end


def estimated(
    ref: MetricRef,
    spec: MetricSpec,
    sums: Sums,
    *,
    of: Callable[[Floats], Floats],
    resampling: Resampling | None,
    n: int,
    reason: Undefined,
    why: str,
    k: int | None = None,
    notes: Sequence[str | None] = (),
    same: str | None = None,
    least: tuple[float, float] | None = None,
) -> Metric:
    """A metric of sums, with the percentile interval of the same statistic in the resamples.

    Parameters
    ----------
    ref, spec
        What the metric is, and its line in the catalogue.
    sums
        What it is made of.
    of
        The statistic of sums, shape (..., m) to (...), NaN where it is undefined.
    resampling
        The registered bootstrap.
    n, k, notes, same, least
        As in `table_metrics.bootstrapped`.
    reason, why
        What it means that the statistic is undefined for all items.
    """
    value = float(of(sums.all))
    if np.isnan(value):
        return undefined_metric(ref, spec, reason=reason, note=why, n=n)
    return bootstrapped(
        ref,
        spec,
        value=value,
        k=k,
        n=n,
        draws=None if sums.draws is None else of(sums.draws),
        resampling=resampling,
        notes=notes,
        same=same,
        least=least,
    )
