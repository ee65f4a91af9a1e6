"""From a record to claims' outcomes, the same for a score, a later version and a rehearsal."""

from __future__ import annotations

from dataclasses import replace

from prereg_judge.flow.earlier import metric_refs
from prereg_judge.flow.prepare import Inputs
from prereg_judge.flow.views import call_view, study_input
from prereg_judge.record.run import Record
from prereg_judge.study.metric import Metric, MetricRef
from prereg_judge.study.outcomes import StudyInput
from prereg_judge.study.rows import scored_trials
from prereg_judge.verdict import Verdict, evaluate, stop_state


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
        scored=_scored(data),
    )
    return verdict, claimed


def _scored(data: StudyInput) -> int:
    """Trials with a verdict; where nothing was called, the votes that were read."""
    if data.items or data.table is None:
        return scored_trials(data)
    return int(data.table.counts[data.table.key].counts.sum())
