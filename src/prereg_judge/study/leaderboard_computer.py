"""Computes the metrics of the study `leaderboard`, resampling each view of the table once."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from prereg_judge.stats.displacement import (
    any_swap_if_independent,
    any_swap_jointly,
    evenly_spread,
)
from prereg_judge.stats.proportions import wilson_interval
from prereg_judge.stats.resample import MOST_UNDEFINED
from prereg_judge.study.counted import LEVEL, not_computed, undefined_metric
from prereg_judge.study.leaderboard_boards import (
    SCORES,
    Field,
    Floats,
    Score,
    Statistic,
    any_even_pair,
    any_pair,
    displaced_of,
    field_of,
    gap_of,
    reversed_of,
    span,
    swap_of,
    tau_of,
)
from prereg_judge.study.leaderboard_specs import SPECS
from prereg_judge.study.metric import (
    Interval,
    Metric,
    MetricRef,
    MetricSpec,
    Undefined,
)
from prereg_judge.study.outcomes import StudyInput, TableInput
from prereg_judge.study.pools_view import Views
from prereg_judge.study.table_metrics import (
    bootstrapped,
    joined,
    method_words,
    table_metric,
    view_parameters,
)

_BY_NAME = {spec.name: spec for spec in SPECS}


def parameters(table: TableInput) -> dict[str, tuple[str, ...]]:
    """The values that each parameter can have for a table, except `models` (`MOST_MODELS`)."""
    pairs = table.counts[table.key].models or ()
    models = tuple(sorted({name for pair in pairs for name in pair}))
    return {
        **view_parameters(table),
        "pool": table.pools,
        "score": SCORES,
        "model": models,
        "place": tuple(str(place) for place in range(1, len(models))),
    }


@dataclass(frozen=True)
class Lacking:
    """Why there is no board, or no scores on it: the reason, more of it in words, and n."""

    reason: Undefined
    note: str | None = None
    n: int | None = None


def _lacking(ref: MetricRef, spec: MetricSpec, why: Lacking) -> Metric:
    return undefined_metric(ref, spec, reason=why.reason, note=why.note, n=why.n)


class BoardComputer:
    """Computes metrics of one table, resampling each view once.

    Parameters
    ----------
    data
        Its table and its bootstrap; nothing else is looked at.
    """

    def __init__(self, data: StudyInput) -> None:
        assert data.table is not None
        self.table = data.table
        self.resampling = data.resampling
        self.views = Views(data.table)
        self._values = parameters(data.table)
        self._fields: dict[tuple[str, str], Field | None] = {}

    def __call__(self, ref: MetricRef) -> Metric:
        """One metric, with a value or a typed reason for having none."""
        return table_metric(ref, specs=_BY_NAME, values=self._values, make=self._make)

    def _make(self, ref: MetricRef, spec: MetricSpec, params: Mapping[str, str]) -> Metric:
        if spec.name.startswith("displacement.even_") and self.table.assumed is not None:
            return self._assumed(ref, spec, models=int(params["models"]))
        field = self.field(params)
        if isinstance(field, Lacking):
            return _lacking(ref, spec, field)
        return self._measured(ref, spec, params, field=field)

    def field(self, params: Mapping[str, str]) -> Field | Lacking:
        """The boards of a view, or why there are none."""
        view = self.views(params)
        if not view.counts.sided:
            return Lacking("no_sides")
        if view.counts.models is None:
            return Lacking("too_few_models", "the table names no models")
        name = (view.key, view.subset)
        if name not in self._fields:
            self._fields[name] = field_of(view, resampling=self.resampling)
        found = self._fields[name]
        if found is None:
            note = joined("no item with a label of both pools", view.left_out)
            return Lacking("no_items", note, 0)
        if len(found.models) < 2:
            return Lacking("too_few_models", f"only {found.models[0]} is on the board")
        return found

    def size(self) -> int:
        """Models on the board of all items under the registered key; 0 without a board."""
        field = self.field({})
        return 0 if isinstance(field, Lacking) else len(field.models)

    def _measured(
        self, ref: MetricRef, spec: MetricSpec, params: Mapping[str, str], *, field: Field
    ) -> Metric:
        left_out = self.views(params).left_out
        stem, _, tail = spec.name.partition(".")
        if spec.name in ("tau", "displaced.count"):
            return self._ranking(ref, spec, params, field=field)
        if spec.name == "displacement.bootstrap":
            return self._resampled(ref, spec, params, field=field)
        if tail in ("joint", "even_joint"):
            scores = field.data.credit[0, 0]
            if tail == "even_joint":
                scores = evenly_spread(float(span(field.data)[0]), models=int(params["models"]))
            sd = float(field.data.shift_sd[0])
            return self._simulated(ref, spec, scores, shift_sd=sd, notes=[_still(sd), left_out])
        if "model" in params:
            return self._of_model(ref, spec, params, field=field)
        if "place" in params:
            return self._of_place(ref, spec, params, field=field)
        if stem == "reversed":
            order = field.order(0)
            return self._plain(ref, spec, reversed_of(order), field=field, n=len(order) - 1)
        statistic: Statistic = {
            "sd": lambda b: b.shift_sd,
            "difference_sd": lambda b: math.sqrt(2) * b.shift_sd,
            "pairs": any_pair,
            "even_pairs": any_even_pair(int(params.get("models", 2))),
        }[tail]
        notes = [
            _still(float(field.data.shift_sd[0])) if stem == "displacement" else None,
            left_out,
        ]
        return self._noisy(ref, spec, statistic, field=field, notes=notes)

    def _noisy(
        self,
        ref: MetricRef,
        spec: MetricSpec,
        statistic: Statistic,
        *,
        field: Field,
        notes: Sequence[str | None],
    ) -> Metric:
        """A statistic of the spread of shifts, without an interval.

        The spread holds the noise of both boards, which resampling adds a second time: with pools
        that do not differ at all, no percentile interval would hold its true value of 0.
        """
        noise = None
        if field.drawn is not None:
            shift = field.drawn.shift[~np.isnan(field.drawn.shift).any(axis=1)]
            if len(shift) > 1:
                moves = (shift - shift.mean(axis=1, keepdims=True)).var(axis=0, ddof=1)
                alone = math.sqrt(float(moves.mean()))
                noise = f"an SD of {alone:.4g} comes of the items' chance alone"
        why = "no interval: it holds the noise of both boards"
        note = joined(why, noise, *notes)
        value = float(statistic(field.data)[0])
        return Metric(ref, value, spec.unit, spec.summary, n=field.items, note=note)

    def _plain(
        self,
        ref: MetricRef,
        spec: MetricSpec,
        statistic: Statistic,
        *,
        field: Field,
        n: int | None = None,
        notes: Sequence[str | None] = (),
        same: str | None = None,
        least: tuple[float, float] | None = None,
    ) -> Metric:
        """A statistic of the boards with its bootstrap; n is the number of items unless given."""
        value = float(statistic(field.data)[0])
        whole = spec.unit in ("models", "pairs")
        return bootstrapped(
            ref,
            spec,
            value=value,
            draws=None if field.drawn is None else statistic(field.drawn),
            resampling=self.resampling,
            n=field.items if n is None else n,
            k=int(value) if whole else None,
            notes=[f"on {field.items} items" if whole else None, *notes],
            same=same,
            least=least,
        )

    def _ranking(
        self, ref: MetricRef, spec: MetricSpec, params: Mapping[str, str], *, field: Field
    ) -> Metric:
        score = _score(params)
        why = self._unranked(field, score)
        if why is not None:
            return _lacking(ref, spec, why)
        left_out = self.views(params).left_out
        if spec.name == "displaced.count":
            n = len(field.models)
            statistic = displaced_of(score)
            return self._plain(ref, spec, statistic, field=field, n=n, notes=[left_out])
        statistic = tau_of(score)
        value = float(statistic(field.data)[0])
        if np.isnan(value):
            tied = [
                pool
                for pool, board in zip(self.table.pools, field.data.scores(score)[0], strict=True)
                if np.ptp(board) == 0
            ]
            note = f"every model has the same score under {' and '.join(tied)}"
            return _lacking(ref, spec, Lacking("all_tied", joined(note, left_out), field.items))
        same = "the two boards had the same order" if value == 1 else None
        notes = [f"{len(field.models)} models", left_out]
        return self._plain(ref, spec, statistic, field=field, notes=notes, same=same)

    def _unranked(self, field: Field, score: Score) -> Lacking | None:
        """Why a board has no such scores; None where both have."""
        lost = np.isnan(field.data.scores(score)[0]).any(axis=1)
        if not lost.any():
            return None
        pools = [pool for pool, no in zip(self.table.pools, lost, strict=True) if no]
        note = f"under {' and '.join(pools)} some models never win against, or meet, the others"
        return Lacking("not_connected", note, field.items)

    def _resampled(
        self, ref: MetricRef, spec: MetricSpec, params: Mapping[str, str], *, field: Field
    ) -> Metric:
        if field.drawn is None or self.resampling is None:
            return not_computed(ref, note="no bootstrap is registered")
        score = _score(params)
        why = self._unranked(field, score)
        if why is not None:
            return _lacking(ref, spec, why)
        moved = displaced_of(score)(field.drawn)
        lost = int(np.isnan(moved).sum())
        k, n = int((moved > 0).sum()), len(moved) - lost
        note = joined(
            f"{field.items} items, {method_words(self.resampling)}",
            f"undefined in {lost} of {len(moved)} resamples" if lost else None,
            self.views(params).left_out,
        )
        if lost > MOST_UNDEFINED * len(moved):
            return _lacking(ref, spec, Lacking("too_few_resamples", note, n))
        low, high = wilson_interval(k, n, level=LEVEL)
        interval = Interval(low, high, LEVEL, f"wilson, error of {n} resamples alone")
        return Metric(ref, k / n, spec.unit, spec.summary, k=k, n=n, interval=interval, note=note)

    def _simulated(
        self,
        ref: MetricRef,
        spec: MetricSpec,
        scores: Floats,
        *,
        shift_sd: float,
        notes: Sequence[str | None] = (),
    ) -> Metric:
        """A joint simulation; as many boards as there are registered resamples, from their seed."""
        if self.resampling is None:
            return not_computed(ref, note="no bootstrap is registered, which gives seed and number")
        number, seed = self.resampling.resamples, self.resampling.seed
        found = any_swap_jointly(scores, shift_sd=shift_sd, simulations=number, seed=seed)
        interval = Interval(
            found.low, found.high, LEVEL, f"wilson, error of {number} simulations alone"
        )
        note = joined(f"shift SD {shift_sd:.4g}, {number} simulations, seed {seed}", *notes)
        k = round(found.probability * number)
        return Metric(
            ref,
            found.probability,
            spec.unit,
            spec.summary,
            k=k,
            n=number,
            interval=interval,
            note=note,
        )

    def _of_model(
        self, ref: MetricRef, spec: MetricSpec, params: Mapping[str, str], *, field: Field
    ) -> Metric:
        left_out = self.views(params).left_out
        name = params["model"]
        if name not in field.models:
            note = joined(f"{name} is not on the board", left_out)
            return _lacking(ref, spec, Lacking("no_items", note, 0))
        at = field.models.index(name)
        n = int(field.data.met[0, at])
        if spec.name == "shift.mean":
            notes = [left_out]
            return self._plain(ref, spec, lambda b: b.shift[:, at], field=field, n=n, notes=notes)
        pool = self.table.pools.index(params["pool"])
        credit = float(field.data.credit[0, pool, at])
        every = wilson_interval(round(credit * n), n, level=LEVEL) if credit in (0, 1) else None
        return self._plain(
            ref,
            spec,
            lambda b: b.credit[:, pool, at],
            field=field,
            n=n,
            notes=[left_out],
            least=every,
        )

    def _of_place(
        self, ref: MetricRef, spec: MetricSpec, params: Mapping[str, str], *, field: Field
    ) -> Metric:
        place, left_out = int(params["place"]), self.views(params).left_out
        if place >= len(field.models):
            note = joined(f"the board has {len(field.models)} models", left_out)
            return _lacking(ref, spec, Lacking("too_few_models", note, field.items))
        pool = self.table.pools.index(params.get("pool", self.table.pools[0]))
        above, below = field.order(pool)[place - 1 : place + 1]
        names = f"{field.models[above]} above {field.models[below]}"
        if spec.name == "gap.adjacent":
            statistic = gap_of(above, below, pool=pool)
            return self._plain(ref, spec, statistic, field=field, notes=[names, left_out])
        notes = [names, _still(float(field.data.shift_sd[0])), left_out]
        return self._noisy(ref, spec, swap_of(above, below), field=field, notes=notes)

    def _assumed(self, ref: MetricRef, spec: MetricSpec, *, models: int) -> Metric:
        """An evenly spread board of registered span and shift SD: nothing is measured."""
        assert self.table.assumed is not None
        whole, sd = self.table.assumed.span, self.table.assumed.shift_sd
        note = f"registered span {whole:g} and shift SD {sd:g}, nothing measured"
        scores = evenly_spread(whole, models=models)
        if spec.name == "displacement.even_joint":
            return self._simulated(ref, spec, scores, shift_sd=sd, notes=[note])
        gaps = [whole / (models - 1)] * (models - 1)
        value = any_swap_if_independent(gaps, sd=math.sqrt(2) * sd)
        return Metric(ref, value, spec.unit, spec.summary, note=f"{note}, so there is no interval")


def _score(params: Mapping[str, str]) -> Score:
    return next((s for s in SCORES if s == params.get("score")), SCORES[0])


def _still(sd: float) -> str | None:
    return "no shift between the pools was seen, so nothing can move" if sd == 0 else None
