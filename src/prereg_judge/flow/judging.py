"""From a record to claims' outcomes, the same for a score, a later version and a rehearsal."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from prereg_judge.flow.earlier import metric_refs
from prereg_judge.flow.labelling_tables import complete_rows
from prereg_judge.flow.prepare import Inputs
from prereg_judge.flow.views import call_view, study_input
from prereg_judge.labelled import Duplicates, Labelled
from prereg_judge.ratings import Ratings
from prereg_judge.record.run import Record
from prereg_judge.study.metric import Metric, MetricRef
from prereg_judge.study.outcomes import StudyInput
from prereg_judge.study.rows import scored_trials
from prereg_judge.verdict import NOTHING_SCORED, Verdict, evaluate, stop_state
from prereg_judge.votes import MISSING


def not_called(inputs: Inputs, record: Record) -> int:
    """How many planned trials were never called: more than 0 in a stopped run."""
    return len(inputs.plan) - len(record.by_trial)


def data_of(inputs: Inputs, record: Record) -> StudyInput:
    """What the study sees of a run; what was never called is no disagreement but undefined."""
    data = study_input(inputs, record)
    return replace(data, missing="undefined") if not_called(inputs, record) else data


def judged(
    inputs: Inputs, data: StudyInput, record: Record
) -> tuple[Verdict, dict[MetricRef, Metric]]:
    """The verdict of these inputs' claims on a record's data, and the metrics that they name."""
    claims = inputs.claims
    claimed = inputs.study.compute(data, metric_refs(claims))
    calls = [call_view(line) for line in record.attempts]
    verdict = evaluate(
        claims,
        claimed,
        stops_tripped={rule.id: stop_state(rule, calls) for rule in claims.stops},
        scored=(scored := _scored(data)),
        nothing=_nothing(data) if not scored else NOTHING_SCORED,
    )
    return verdict, claimed


_NOTHING_DECIDED = "every verdict or vote is a tie, which decides nothing"


def _nothing(data: StudyInput) -> str:
    """Why nothing counts, in words."""
    if data.swap is not None:
        return "no row that carries every output and reference has a mark"
    if data.annotators is not None:
        spans = data.annotators.labelled is not None
        return f"no item has {'spans' if spans else 'ratings'} of two annotators"
    said = any(o.verdict is not None for o in data.outcomes.values()) or data.table is not None
    return _NOTHING_DECIDED if said else NOTHING_SCORED


def _marked(labelled: Labelled, policy: Duplicates, *, among: NDArray[np.bool_]) -> int:
    """Rows of these that count; 0 where no labelling marks anything on any of them."""
    used = labelled.kept[policy] & among
    sizes = np.einsum("nll->nl", labelled.shared["relaxed"])
    return int(used.sum()) if sizes[used].any() else 0


def _rated(ratings: Ratings) -> int:
    """Ratings of items that have two or more."""
    counts = np.bincount(ratings.item, minlength=len(ratings.items))
    return int(counts[counts > 1].sum())


def _scored(data: StudyInput) -> int:
    """Trials with a verdict; where nothing was called, the votes, ratings or rows that were read.

    Where every verdict on pairs, or every vote, is a tie, nothing is decided, and none counts; nor
    does a row where nothing is marked on any.
    """
    if data.swap is not None:
        swap = data.swap
        return _marked(swap.labelled, swap.duplicates, among=complete_rows(swap))
    if data.annotators is not None:
        told = data.annotators
        if told.labelled is not None:
            several = told.labelled.given.sum(axis=1) > 1
            return _marked(told.labelled, told.duplicates, among=several)
        return _rated(told.ratings) if told.ratings is not None else 0
    if data.pair is not None and data.items:
        given = [o.verdict for o in data.outcomes.values() if o.verdict is not None]
        return 0 if all(data.pair.side(verdict) == 0 for verdict in given) else scored_trials(data)
    if data.items or data.table is None:
        return scored_trials(data)
    counts = data.table.counts[data.table.key]
    judged = [v[data.table.key] for v in data.table.judges.values()]
    silent = [bool(np.isin(said, (0, MISSING)).all()) for v in judged for said in (v.ab, v.ba)]
    ties = counts.sided and not counts.counts[:, :, :2].any()
    return 0 if ties or (silent and all(silent)) else int(counts.counts.sum())
