"""What outputs and references share, summed over rows and over the rows of every resample.

Which rows count under a choice of duplicates, subset and stratum, and the sums that F1 and exact
agreement are made of. Everything comes from one bootstrap over items; knows no metrics.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from prereg_judge.labelled import DUPLICATES, Duplicates, Match
from prereg_judge.stats.resample import Resampler
from prereg_judge.study.outcomes import Resampling, SwapInput
from prereg_judge.study.strata import resampler_of

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]

# All rows, or those on which the delivered reference equals none of the outputs in question.
Subset = Literal["all", "decontaminated"]
SUBSETS: tuple[Subset, ...] = get_args(Subset)

# Scores and shares lie in [0, 1]: what is below this between two of them is rounding.
_NO_DIFFERENCE = 1e-12

# Most columns that are summed in one go; more would take memory and save little time.
_MOST_COLUMNS = 400

# What is summed: ("rows",), ("size", x, among), ("shared", x, y, among) or ("exact", x, y). `among`
# names a further labelling that must be given on the row; empty for none.
Key = tuple[str, ...]
# What one column is: rows, the outputs that `decontaminated` is about, what is summed, a stratum.
_Sum = tuple["Look", tuple[str, ...], Key, str | None]


@dataclass(frozen=True)
class Look:
    """How marks match and which rows are looked at; `stratum` None for all strata together."""

    match: Match
    duplicates: Duplicates
    subset: Subset = "all"
    stratum: str | None = None


@dataclass(frozen=True, eq=False)
class Estimate:
    """A statistic over all rows, NaN where undefined, and in each resample, shape (R,).

    `draws` is None where no bootstrap is registered.
    """

    value: float
    draws: Floats | None

    def __sub__(self, other: Estimate) -> Estimate:
        """The difference, resample by resample; exactly 0 where it is but rounding."""
        value = float(_settled(np.float64(self.value - other.value)))
        if self.draws is None or other.draws is None:
            return Estimate(value, None)
        return Estimate(value, _settled(self.draws - other.draws))


class Sums:
    """Sums over the rows of labelled items, each batch of them resampled once.

    Parameters
    ----------
    swap
        Outputs and references.
    resampling
        The registered bootstrap; None for none.

    Notes
    -----
    Items are drawn anew with all their rows, whatever policy, subset or stratum is looked at: a
    row that does not count adds zero. All sums are whole numbers, so that they are exact.
    """

    def __init__(self, swap: SwapInput, resampling: Resampling | None) -> None:
        self.swap = swap
        self.labelled = swap.labelled
        self.resampling = resampling
        names = self.labelled.names
        self._at = {name: number for number, name in enumerate(names)}
        self.registered = (*swap.outputs, *swap.references)
        given = self.labelled.given
        # Rows on which every output and every reference is given: no other row ever counts.
        self.complete: Mask = np.asarray(
            given[:, [self._at[name] for name in self.registered]].all(axis=1), dtype=np.bool_
        )
        self._found: dict[tuple[Look, tuple[str, ...], Key], Estimate] = {}
        self._rows: dict[tuple[Look, tuple[str, ...]], Mask] = {}

    def at(self, name: str) -> int:
        """Number of a labelling."""
        return self._at[name]

    @cached_property
    def strata(self) -> tuple[str, ...]:
        """Names of the strata that rows have, sorted."""
        return tuple(sorted({s for s in self.labelled.strata if s is not None}))

    @cached_property
    def _groups(self) -> dict[str | None, Mask]:
        """Rows of each stratum, and under None those without one, where there are any."""
        column = np.array(self.labelled.strata, dtype=object)
        groups: dict[str | None, Mask] = {s: column == s for s in self.strata}
        without = np.array([s is None for s in self.labelled.strata], dtype=np.bool_)
        return {**groups, None: without} if without.any() or not groups else groups

    @cached_property
    def units(self) -> int:
        """How many items there are."""
        return int(self.labelled.unit.max(initial=-1)) + 1

    @cached_property
    def resampler(self) -> Resampler | None:
        """The bootstrap over items; None where none is registered or there is no item.

        With `by_stratum` an item belongs to the stratum of its first row; items without a stratum
        are one more.
        """
        first = np.unique(self.labelled.unit, return_index=True)[1]
        return resampler_of([self.labelled.strata[row] for row in first], self.resampling)

    @cached_property
    def alike(self) -> dict[Duplicates, Duplicates]:
        """For each policy the first one that keeps the same rows."""
        kept = {p: (self.labelled.kept[p] & self.complete).tobytes() for p in DUPLICATES}
        return {p: next(q for q in DUPLICATES if kept[q] == kept[p]) for p in DUPLICATES}

    def equal(self, match: Match, one: str, other: str) -> Mask:
        """Rows on which two labellings have the same marks, shape (n,); no marks are the same."""
        shared = self.labelled.shared[match]
        x, y = self._at[one], self._at[other]
        both = shared[:, x, y]
        found: Mask = (both == shared[:, x, x]) & (both == shared[:, y, y])
        return found

    def typed(self, match: Match, *names: str) -> bool:
        """Whether labellings can be matched in this way."""
        return match == "relaxed" or all(self.labelled.typed[self._at[name]] for name in names)

    def rows(self, look: Look, about: tuple[str, ...]) -> Mask:
        """The rows that count, shape (n,).

        Parameters
        ----------
        look
            Which rows.
        about
            For the subset `decontaminated`: a row counts where the delivered reference equals none
            of these outputs.
        """
        about = about if look.subset == "decontaminated" else ()
        if (look, about) not in self._rows:
            self._rows[look, about] = self._counting(look, about)
        return self._rows[look, about]

    def _counting(self, look: Look, about: tuple[str, ...]) -> Mask:
        rows: Mask = self.complete & self.labelled.kept[look.duplicates]
        if look.subset == "decontaminated":
            for output in about:
                rows = rows & ~self.equal(look.match, output, self.swap.references[0])
        return rows if look.stratum is None else rows & self._group(look.stratum)

    def _group(self, stratum: str) -> Mask:
        empty = np.zeros(len(self.labelled.items), dtype=np.bool_)
        return self._groups.get(stratum, empty)

    def among(self, name: str) -> str:
        """The labelling itself where it is not on every row that counts otherwise, or nothing."""
        given = self.labelled.given[:, self._at[name]]
        return "" if bool(given[self.complete].all()) else name

    def __call__(self, look: Look, about: tuple[str, ...], key: Key) -> Estimate:
        """A sum over the rows that count, and the same sum in each resample."""
        look = Look(look.match, self.alike[look.duplicates], look.subset, look.stratum)
        about = about if look.subset == "decontaminated" else ()
        if look.stratum is not None and look.stratum not in self._groups:
            return self._nothing()
        if (look, about, key) not in self._found:
            self._fill(look.duplicates, look.subset)
        return self._found[look, about, key]

    def _nothing(self) -> Estimate:
        """The sum of no row."""
        draws = None if self.resampler is None else np.zeros(self.resampler.resamples)
        return Estimate(0.0, draws)

    def _fill(self, duplicates: Duplicates, subset: Subset) -> None:
        """Sum everything that a policy and a subset are asked for, and the strata together."""
        wanted: list[_Sum] = []
        columns: list[Floats] = []
        for look, about in self._looks(duplicates, subset):
            rows = self.rows(look, about)
            for key in self._keys(look.match, about):
                of_rows = self._of_rows(look.match, key) * rows
                for stratum, group in self._groups.items():
                    wanted.append((look, about, key, stratum))
                    columns.append(self.by_unit(of_rows * group))
                if len(columns) >= _MOST_COLUMNS:
                    self._keep(wanted, columns)
                    wanted, columns = [], []
        self._keep(wanted, columns)

    def _keep(self, wanted: list[_Sum], columns: list[Floats]) -> None:
        """Resample columns; each adds to its stratum and to all strata together."""
        for (look, about, key, stratum), part in zip(wanted, self.resampled(columns), strict=True):
            if stratum is not None:
                place = Look(look.match, look.duplicates, look.subset, stratum)
                self._found[place, about, key] = part
            whole = self._found.get((look, about, key))
            self._found[look, about, key] = part if whole is None else _plus(whole, part)

    def _looks(
        self, duplicates: Duplicates, subset: Subset
    ) -> Iterator[tuple[Look, tuple[str, ...]]]:
        outputs = self.swap.outputs
        for match in self.labelled.matches:
            look = Look(match, duplicates, subset)
            if subset == "all":
                yield look, ()
                continue
            # Rows without types on one side cannot be told to be equal by type.
            for about in dict.fromkeys((outputs, *combinations(outputs, 2))):
                if self.typed(match, *about, self.swap.references[0]):
                    yield look, about

    def _keys(self, match: Match, about: tuple[str, ...]) -> list[Key]:
        outputs = about or self.swap.outputs
        keys: list[Key] = [("rows",)]
        for x in outputs:
            # Only of an output alone is more than the references asked: its spread.
            for y in self.labelled.names if outputs == self.swap.outputs else self.swap.references:
                if x == y or not self.typed(match, x, y):
                    continue
                among = self.among(y)
                keys += [("shared", *sorted((x, y)), among), ("size", x, among), ("size", y, among)]
                if y in self.swap.references:
                    keys.append(("exact", x, y))
        return list(dict.fromkeys(keys))

    def _of_rows(self, match: Match, key: Key) -> Floats:
        """What each row adds to a sum, shape (n,)."""
        kind, *names = key
        if kind == "rows":
            return np.ones(len(self.labelled.items))
        if kind == "exact":
            return self.equal(match, *names).astype(np.float64)
        *which, among = names
        x, y = self._at[which[0]], self._at[which[-1]]
        counts = self.labelled.shared[match][:, x, y].astype(np.float64)
        return counts * self.labelled.given[:, self._at[among]] if among else counts

    def by_unit(self, of_rows: Floats) -> Floats:
        """Sums of a column over the rows of each item, shape (u,)."""
        sums = np.bincount(self.labelled.unit, weights=of_rows, minlength=self.units)
        return sums.astype(np.float64, copy=False)

    def resampled(self, columns: list[Floats]) -> list[Estimate]:
        """Sums of columns over items, shape (u,) each, over all and in each resample."""
        values = [float(column.sum()) for column in columns]
        if self.resampler is None or not columns:
            return [Estimate(value, None) for value in values]
        totals = self.resampler.totals(np.column_stack(columns))
        draws = np.ascontiguousarray(totals.T)
        return [Estimate(value, line) for value, line in zip(values, draws, strict=True)]


def _settled(differences: Floats | np.float64) -> Floats:
    """Differences without their rounding: a sign, a tail and an interval would be made of it."""
    return np.where(np.abs(differences) < _NO_DIFFERENCE, 0.0, differences)


def _plus(one: Estimate, other: Estimate) -> Estimate:
    if one.draws is None or other.draws is None:
        return Estimate(one.value + other.value, None)
    return Estimate(one.value + other.value, one.draws + other.draws)
