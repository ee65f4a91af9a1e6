"""Scores of outputs under references, their differences, and how often both are the same.

Each is a value over all rows with its values in the same resamples, so that differences are taken
resample by resample. Knows no names of metrics.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from prereg_judge.stats.f1 import f1
from prereg_judge.stats.resample import ratio
from prereg_judge.stats.sparse import sparse_limits
from prereg_judge.study.counted import LEVEL
from prereg_judge.study.metric import Undefined
from prereg_judge.study.outcomes import Resampling, SwapInput
from prereg_judge.study.swap_sums import Estimate, Floats, Look, Sums

# An output's F1 under a reference, and the sign with which it enters.
Term = tuple[int, str, str]


@dataclass(frozen=True, eq=False)
class Spread:
    """How far an output's F1 goes over all other labellings.

    Attributes
    ----------
    value
        Largest minus smallest, over all rows; NaN with fewer than two F1.
    scores
        Labelling -> F1 over all rows, the highest first.
    left_out
        Labellings without an F1, each with why.
    """

    value: float
    scores: dict[str, float]
    left_out: tuple[str, ...]


class Scores:
    """Scores of one study, all from the same resamples.

    Parameters
    ----------
    swap
        Outputs and references.
    resampling
        The registered bootstrap; None for none.
    """

    def __init__(self, swap: SwapInput, resampling: Resampling | None) -> None:
        self.swap = swap
        self.sums = Sums(swap, resampling)
        self._f1: dict[tuple[Look, tuple[str, ...], str, str], Estimate] = {}

    @property
    def delivered(self) -> str:
        """The reference that outputs were scored against."""
        return self.swap.references[0]

    def about(self, *outputs: str) -> tuple[str, ...]:
        """The outputs that `decontaminated` is about: a pair, or for one output all of them."""
        if len(outputs) == 2:
            return tuple(name for name in self.swap.outputs if name in outputs)
        return self.swap.outputs

    def n(self, look: Look, about: tuple[str, ...]) -> int:
        """How many rows count."""
        return int(self.sums.rows(look, about).sum())

    def trouble(
        self, look: Look, about: tuple[str, ...], names: Sequence[str]
    ) -> tuple[Undefined, str] | None:
        """Why nothing can be said of these labellings on these rows; None where something can."""
        needed = list(dict.fromkeys(names))
        if look.subset == "decontaminated":
            needed = list(dict.fromkeys([*needed, *about, self.delivered]))
        bare = [name for name in needed if not self.sums.typed(look.match, name)]
        if bare:
            return "no_types", f"the marks of {' and '.join(bare)} have no types"
        if not self.n(look, about):
            return "no_items", "no row counts here"
        return None

    def f1(self, look: Look, about: tuple[str, ...], output: str, reference: str) -> Estimate:
        """Micro-F1 of an output: twice the shared marks through the marks of both."""
        key = look, about, output, reference
        if key not in self._f1:
            self._f1[key] = self._f1_of(look, about, output, reference)
        return self._f1[key]

    def _f1_of(self, look: Look, about: tuple[str, ...], output: str, reference: str) -> Estimate:
        among = self.sums.among(reference)
        x, y = sorted((output, reference))
        shared = self.sums(look, about, ("shared", x, y, among))
        mine = self.sums(look, about, ("size", output, among))
        theirs = self.sums(look, about, ("size", reference, among))
        value = float(f1(shared.value, mine.value, theirs.value))
        if shared.draws is None or mine.draws is None or theirs.draws is None:
            return Estimate(value, None)
        return Estimate(value, f1(shared.draws, mine.draws, theirs.draws))

    def delta(self, look: Look, output: str, alternative: str) -> Estimate:
        """F1 under the delivered reference minus F1 under an alternative."""
        about = self.about(output)
        one = self.f1(look, about, output, self.delivered)
        return one - self.f1(look, about, output, alternative)

    def margin(self, look: Look, output: str, other: str, reference: str) -> Estimate:
        """F1 of an output minus that of another, under one reference."""
        about = self.about(output, other)
        return self.f1(look, about, output, reference) - self.f1(look, about, other, reference)

    def interaction(self, look: Look, output: str, other: str, alternative: str) -> Estimate:
        """The margin under the delivered reference minus that under an alternative."""
        one = self.margin(look, output, other, self.delivered)
        return one - self.margin(look, output, other, alternative)

    def exact(
        self, look: Look, about: tuple[str, ...], output: str, reference: str
    ) -> tuple[Estimate, int]:
        """Share of rows on which output and reference have the same marks, and how many rows."""
        found = self.sums(look, about, ("exact", output, reference))
        rows = self.sums(look, about, ("rows",))
        value = float(ratio(found.value, rows.value))
        if found.draws is None or rows.draws is None:
            return Estimate(value, None), int(found.value)
        return Estimate(value, ratio(found.draws, rows.draws)), int(found.value)

    def skew(self, look: Look, output: str, other: str, reference: str) -> Estimate:
        """The share for an output minus that for another."""
        about = self.about(output, other)
        one, _ = self.exact(look, about, output, reference)
        return one - self.exact(look, about, other, reference)[0]

    def spread(self, look: Look, output: str) -> Spread:
        """Largest minus smallest F1 of an output over all other labellings."""
        about = self.about(output)
        scores: dict[str, float] = {}
        left_out: list[str] = []
        for name in self.sums.labelled.names:
            if name == output:
                continue
            if not self.sums.typed(look.match, name):
                left_out.append(f"{name} (no types)")
                continue
            found = self.f1(look, about, output, name)
            if np.isnan(found.value):
                left_out.append(f"{name} (no marks of either)")
                continue
            scores[name] = found.value
        ordered = dict(sorted(scores.items(), key=lambda pair: -pair[1]))
        if len(scores) < 2:
            return Spread(float("nan"), ordered, tuple(left_out))
        value = max(scores.values()) - min(scores.values())
        return Spread(value, ordered, tuple(left_out))

    def repeated(self, look: Look, about: tuple[str, ...]) -> bool:
        """Whether an item has several rows that count."""
        units = self.sums.labelled.unit[self.sums.rows(look, about)]
        return bool(np.bincount(units, minlength=1).max() > 1)

    def of_items(self, look: Look, about: tuple[str, ...], of_rows: NDArray[np.int64]) -> Floats:
        """Mean of a column over the rows of each item that has a row that counts."""
        rows = self.sums.rows(look, about)
        units = self.sums.labelled.unit[rows]
        sizes = np.bincount(units, minlength=self.sums.units)
        sums = np.bincount(units, weights=of_rows[rows], minlength=self.sums.units)
        return sums[sizes > 0] / sizes[sizes > 0]

    def least(
        self, look: Look, about: tuple[str, ...], terms: Sequence[Term]
    ) -> tuple[float, float] | None:
        """Limits that an interval is not inside of, where F1 is a mean over items.

        So it is of single labels: an item adds 1 or 0. Of spans it is not, and there are none.
        """
        labelled = self.sums.labelled
        if labelled.form != "labels":
            return None
        shared = labelled.shared[look.match]
        of_rows = np.zeros(len(labelled.items), dtype=np.int64)
        for sign, output, reference in terms:
            of_rows += sign * shared[:, self.sums.at(output), self.sums.at(reference)]
        within = tuple(float(sum(s for s, *_ in terms if s == sign)) for sign in (-1, 1))
        values = self.of_items(look, about, of_rows)
        return sparse_limits(values, within=(within[0], within[1]), level=LEVEL)

    def gain_least(
        self, fine: Look, coarse: Look, output: str, reference: str
    ) -> tuple[float, float] | None:
        """The same for what the map adds to F1: of single labels, to an item 1 or 0."""
        labelled = self.sums.labelled
        if labelled.form != "labels":
            return None
        x, y = self.sums.at(output), self.sums.at(reference)
        added = labelled.shared[coarse.match][:, x, y] - labelled.shared[fine.match][:, x, y]
        return sparse_limits(self.of_items(fine, (), added), within=(0.0, 1.0), level=LEVEL)

    def uneven(self, look: Look, output: str, other: str, reference: str) -> tuple[int, int]:
        """Rows on which a reference equals the first output alone, and the second alone."""
        rows = self.sums.rows(look, self.about(output, other))
        one = self.sums.equal(look.match, output, reference) & rows
        two = self.sums.equal(look.match, other, reference) & rows
        return int((one & ~two).sum()), int((two & ~one).sum())

    def signs(self, look: Look, output: str, other: str, reference: str) -> tuple[int, int]:
        """Items whose rows equal the first output more often, and the second.

        Rows of one item are not independent: each item has one sign, that of the sum over its rows
        that count. Without copies these are the rows of `uneven`.
        """
        rows = self.sums.rows(look, self.about(output, other))
        one, two = (
            self.sums.equal(look.match, name, reference).astype(np.float64)
            for name in (output, other)
        )
        of_items = self.sums.by_unit((one - two) * rows)
        return int((of_items > 0).sum()), int((of_items < 0).sum())

    def items(self, look: Look, about: tuple[str, ...]) -> int:
        """How many items have a row that counts."""
        return len(np.unique(self.sums.labelled.unit[self.sums.rows(look, about)]))
