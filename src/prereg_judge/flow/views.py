"""A run's record as the plain view that studies take."""

from __future__ import annotations

from collections.abc import Sequence

from prereg_judge.flow.judge_tables import own_verdicts
from prereg_judge.flow.prepare import Inputs
from prereg_judge.flow.settings import arms_in_words, decoding_of
from prereg_judge.record.attempt import AttemptLine
from prereg_judge.record.run import Record
from prereg_judge.study.outcomes import (
    CallView,
    Choice,
    ItemView,
    Outcome,
    PairScale,
    Resampling,
    StudyInput,
    TrialKey,
)
from prereg_judge.words import Order, SetRole


def trial_of(name: str) -> TrialKey:
    """The key that a trial's name in the record stands for."""
    role, rest = name.split("/", 1)
    item_id, order, pass_no = rest.rsplit("/", 2)
    set_role: SetRole = "sentinel" if role == "sentinel" else "real"
    set_order: Order = "ba" if order == "ba" else "ab"
    return TrialKey(set_role, item_id, set_order, int(pass_no))


def call_view(line: AttemptLine) -> CallView:
    """One attempt as studies and stop rules see it."""
    return CallView(trial_of(line.trial), line.attempt, line.unscored, line.seconds)


def study_input(inputs: Inputs, record: Record) -> StudyInput:
    """Everything that the study of a run may look at; trials not called have no outcome."""
    model = inputs.model
    pair = pair_scale(inputs)
    outcomes = {
        (key := trial_of(name)): _outcome(made, pair, key.order)
        for name, made in record.by_trial.items()
    }
    outcomes |= inputs.tables.outcomes
    return StudyInput(
        items=tuple(
            ItemView(
                s.role,
                i.id,
                inputs.judge.content(i),
                i.label,
                i.kind,
                i.stratum,
                shapes=inputs.judge.shapes(i) or None,
            )
            for s in inputs.sets
            for i in s.items
        ),
        outcomes=outcomes,
        calls=tuple(call_view(line) for line in record.attempts),
        verdicts=tuple(inputs.judge.spec.verdicts) or tuple(pair.sides if pair else ()),
        ships=inputs.judge.spec.ships,
        passes=model.protocol.passes,
        orders=inputs.orders,
        missing=model.missing,
        decoding=model.protocol.decoding.mode,
        earlier=inputs.earlier,
        choices={
            trial_of(line.trial): Choice(line.nodes, dict(line.probabilities))
            for made in record.by_trial.values()
            if (line := made[-1]).nodes is not None and line.probabilities is not None
        },
        masses={
            trial_of(line.trial): line.allowed_mass
            for made in record.by_trial.values()
            if (line := made[-1]).allowed_mass is not None
        },
        shaping=decoding_of(model),
        arms=arms_in_words(model),
        batches_lost=sum(note.get("event") == "batch_lost" for note in record.notes),
        pair=pair,
        resolve=model.resolve,
        resampling=(
            Resampling(drawn.resamples, drawn.seed, drawn.by_stratum)
            if (drawn := model.resampling)
            else None
        ),
        table=own_verdicts(
            inputs.tables.table,
            inputs.tables.votes,
            outcomes,
            pair=pair,
            passes=model.protocol.passes,
        ),
        swap=inputs.tables.swap,
        annotators=inputs.tables.annotators,
    )


def pair_scale(inputs: Inputs) -> PairScale | None:
    """What the verdicts of a judge of pairs mean; None where there is no such judge."""
    pair = inputs.judge.spec.pair
    if pair is not None:
        return PairScale(pair.sides)
    return inputs.tables.scale


def _outcome(made: Sequence[AttemptLine], pair: PairScale | None, order: Order) -> Outcome:
    last = made[-1]
    if pair is None or last.verdict is None:
        return Outcome(last.verdict, last.unscored, len(made))
    return Outcome(pair.mapped(last.verdict, order), None, len(made))
