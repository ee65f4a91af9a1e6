"""A run's record as the plain view that studies take."""

from __future__ import annotations

from collections.abc import Sequence

from prereg_judge.flow.prepare import Inputs
from prereg_judge.flow.settings import arms_in_words, decoding_of
from prereg_judge.record.attempt import AttemptLine
from prereg_judge.record.run import Record
from prereg_judge.study.outcomes import CallView, Choice, ItemView, Outcome, StudyInput, TrialKey
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
    outcomes = {trial_of(name): _outcome(made) for name, made in record.by_trial.items()}
    return StudyInput(
        items=tuple(
            ItemView(s.role, i.id, inputs.judge.content(i), i.label, i.kind, i.stratum)
            for s in inputs.sets
            for i in s.items
        ),
        outcomes=outcomes,
        calls=tuple(call_view(line) for line in record.attempts),
        verdicts=tuple(inputs.judge.spec.verdicts),
        ships=inputs.judge.spec.ships,
        passes=model.protocol.passes,
        orders=model.protocol.orders,
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
    )


def _outcome(made: Sequence[AttemptLine]) -> Outcome:
    return Outcome(made[-1].verdict, made[-1].unscored, len(made))
