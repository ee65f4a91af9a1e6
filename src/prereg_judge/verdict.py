"""Metrics + claims -> the outcome of every claim, and one word for the run.

Pure: knows neither files nor records. When a stop rule trips is said by `stopping`, whose names
are given here too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from prereg_judge.registration.claims import (
    Band,
    Claims,
    Condition,
    Decision,
    Prediction,
    Refuter,
    StopRule,
    Test,
    tests_in,
)
from prereg_judge.stopping import StopState, StopWatch, stop_state
from prereg_judge.study.metric import Metric, MetricRef, Undefined

__all__ = [
    "CLOSE",
    "EXIT_CODES",
    "ClaimKind",
    "ClaimOutcome",
    "OutcomeWord",
    "StopState",
    "StopWatch",
    "Verdict",
    "VerdictWord",
    "evaluate",
    "stop_state",
    "truth",
]

ClaimKind = Literal["band", "prediction", "refuter", "stop", "decision"]
BandWord = Literal["inside", "missed low", "missed high"]
PredictionWord = Literal["held", "failed"]
RefuterWord = Literal["fired", "silent"]
StopWord = Literal["tripped", "not tripped"]
DecisionWord = Literal["taken", "not taken"]
OutcomeWord = (
    BandWord | PredictionWord | RefuterWord | StopWord | DecisionWord | Literal["undefined"]
)
VerdictWord = Literal["PASS", "FAIL", "REFUTED", "STOPPED", "INVALID", "INCONCLUSIVE"]

EXIT_CODES: dict[VerdictWord, int] = {
    "PASS": 0,
    "FAIL": 1,
    "REFUTED": 3,
    "STOPPED": 4,
    "INVALID": 5,
    "INCONCLUSIVE": 6,
}
CLOSE = "a registered limit lies inside the observed interval"


@dataclass(frozen=True)
class ClaimOutcome:
    """What became of one claim.

    Attributes
    ----------
    id, kind
        Which claim.
    registered
        What was registered, as text.
    outcome
        One of the words that its kind has, or `undefined`.
    metrics
        The metrics it speaks of, left to right; a missing one is `not_computed`. Empty for a
        stop rule, which counts calls in windows of its own.
    reason
        Why it is undefined: the reason of the first metric without a value; None where it is
        not.
    close
        Whether a registered limit lies inside the interval of its metric, so that the interval
        holds values of either outcome. The outcome stands all the same.
    note
        What a reader should know beside the outcome.
    """

    id: str
    kind: ClaimKind
    registered: str
    outcome: OutcomeWord
    metrics: tuple[Metric, ...] = ()
    reason: Undefined | None = None
    close: bool = False
    note: str | None = None


@dataclass(frozen=True)
class Verdict:
    """The outcome of a run.

    Attributes
    ----------
    word
        What the command ends with.
    statistical
        The word that the claims alone give; it differs from `word` only beside INVALID.
    outcomes
        Every claim's outcome: bands, predictions, refuters, stop rules, decisions.
    reasons
        What made the word, one clause each; empty for PASS.
    invalid
        Integrity problems, as the caller gave them.
    """

    word: VerdictWord
    statistical: VerdictWord
    outcomes: tuple[ClaimOutcome, ...]
    reasons: tuple[str, ...]
    invalid: tuple[str, ...] = ()

    @property
    def exit_code(self) -> int:
        """The command's exit code for this word."""
        return EXIT_CODES[self.word]


Metrics = Mapping[MetricRef, Metric]


def _metric(metrics: Metrics, ref: MetricRef) -> Metric:
    absent = Metric(ref, None, "items", "not computed", undefined="not_computed")
    return metrics.get(ref, absent)


def truth(condition: Condition, metrics: Metrics) -> bool | None:
    """Whether a condition is true, in Kleene's strong three-valued logic.

    Parameters
    ----------
    condition
        A comparison, or several combined.
    metrics
        The metrics by reference; an absent one counts as undefined.

    Returns
    -------
    bool or None
        None when it cannot be said: an undefined part leaves `all` false where another part is
        false, and `any` true where another part is true; otherwise the whole is undefined.

    Notes
    -----
    Source: Kleene (1938), doi:10.2307/2267778. `all` of nothing is true and `any` of nothing is
    false; the linter refuses both.
    """
    if isinstance(condition, Test):
        value = _metric(metrics, condition.ref).value
        return None if value is None else condition.holds(value)
    parts = [truth(part, metrics) for part in condition.parts]
    decisive = condition.how == "any"
    if decisive in parts:
        return decisive
    return None if None in parts else not decisive


def _undecided(test: Test, low: float, high: float) -> bool:
    """Whether an interval holds both values for which a test is true and values for which not."""
    all_true = test.holds(low) and test.holds(high)  # the true values form an interval
    bottom, top = max(low, test.low), min(high, test.high)
    some_true = bottom < top or (bottom == top and test.holds(bottom))
    return some_true and not all_true


def _close_limits(condition: Condition, metrics: Metrics) -> list[str]:
    found = []
    for test in tests_in(condition):
        seen = _metric(metrics, test.ref).interval
        if seen is not None and seen.of_value and _undecided(test, seen.low, seen.high):
            limits = " and ".join(f"{x:.15g}" for x in test.limits if seen.low <= x <= seen.high)
            found.append(f"{limits} in {seen.low:.4g}..{seen.high:.4g}")
    return found


def _outcome(
    claim: Band | Prediction | Refuter | Decision,
    metrics: Metrics,
    *,
    kind: ClaimKind,
    registered: str,
    words: tuple[OutcomeWord, OutcomeWord],
) -> ClaimOutcome:
    """The outcome of a claim that is true (first word), false (second) or undefined."""
    condition = claim.test if isinstance(claim, Band | Prediction) else claim.when
    named = tuple(dict.fromkeys(_metric(metrics, t.ref) for t in tests_in(condition)))
    true = truth(condition, metrics)
    lacking = [m for m in named if m.undefined is not None]
    close = _close_limits(condition, metrics) if true is not None else []
    notes = [f"{CLOSE}: {'; '.join(close)}"] if close else []
    notes += [f"{m.ref} is undefined: {m.note or m.undefined}" for m in lacking]
    notes += list(dict.fromkeys(m.note for m in named if m.undefined is None and m.note))
    return ClaimOutcome(
        claim.id,
        kind,
        registered,
        "undefined" if true is None else words[0] if true else words[1],
        named,
        reason=lacking[0].undefined if true is None and lacking else None,
        close=bool(close),
        note="; ".join(notes) or None,
    )


def _band(band: Band, metrics: Metrics) -> ClaimOutcome:
    value = _metric(metrics, band.test.ref).value
    test = band.test
    below = value is not None and (value < test.low or (test.low_open and value == test.low))
    words: tuple[OutcomeWord, OutcomeWord] = ("inside", "missed low" if below else "missed high")
    return _outcome(band, metrics, kind="band", registered=str(test), words=words)


def _stop(rule: StopRule, state: StopState | None) -> ClaimOutcome:
    registered = str(rule.when)
    if rule.in_every is not None:
        registered += f" in any {rule.in_every} calls in succession"
    if rule.over_first is not None:
        registered += f" over the first {rule.over_first} calls"
    word: OutcomeWord
    reason: Undefined | None = None
    if state is None:
        word, reason, note = "undefined", "not_computed", "the rule was not watched"
    elif state.tripped is None:
        word, reason, note = "undefined", "empty_denominator", "no call was made"
    elif state.tripped:
        word, note = "tripped", f"at call {state.at_call}: {state.k} of the last {state.n} calls"
    else:
        word, note = "not tripped", f"in {state.seen} calls"
    return ClaimOutcome(rule.id, "stop", registered, word, reason=reason, note=note)


def _outcomes(
    claims: Claims, metrics: Metrics, *, stops_tripped: Mapping[str, StopState]
) -> tuple[ClaimOutcome, ...]:
    found = [_band(band, metrics) for band in claims.bands]
    for prediction in claims.predictions:
        found.append(
            _outcome(
                prediction,
                metrics,
                kind="prediction",
                registered=str(prediction.test),
                words=("held", "failed"),
            )
        )
    for refuter in claims.refuters:
        text = f"{refuter.when}: {refuter.means}"
        found.append(
            _outcome(refuter, metrics, kind="refuter", registered=text, words=("fired", "silent"))
        )
    found += [_stop(rule, stops_tripped.get(rule.id)) for rule in claims.stops]
    for decision in claims.decisions:
        text = f"if {decision.when} then {decision.then}"
        found.append(
            _outcome(
                decision, metrics, kind="decision", registered=text, words=("taken", "not taken")
            )
        )
    return tuple(found)


# Why there is no PASS on nothing.
NOTHING_SCORED = "no trial has a verdict"

_WORST_FIRST: tuple[tuple[VerdictWord, frozenset[OutcomeWord]], ...] = (
    ("STOPPED", frozenset({"tripped"})),
    ("REFUTED", frozenset({"fired"})),
    ("FAIL", frozenset({"missed low", "missed high", "failed"})),
    ("INCONCLUSIVE", frozenset({"undefined"})),
)


def _word(
    outcomes: Sequence[ClaimOutcome], scored: int, nothing: str
) -> tuple[VerdictWord, list[str]]:
    counting = [o for o in outcomes if o.kind != "decision"]
    empty = []
    if not any(o.kind in ("band", "prediction") for o in counting):
        empty.append("there is no band or prediction to pass")
    if scored == 0:
        empty.append(nothing)
    for word, outcome_words in _WORST_FIRST:
        reasons = [_reason(o) for o in counting if o.outcome in outcome_words]
        if word == "INCONCLUSIVE":
            reasons += empty
        if reasons:
            return word, reasons
    return "PASS", []


def _reason(outcome: ClaimOutcome) -> str:
    """A claim with its outcome; a refuter says nothing without what it was registered to mean."""
    meant = f" ({outcome.registered})" if outcome.outcome == "fired" else ""
    return f"{outcome.kind} {outcome.id}: {outcome.outcome}{meant}"


def evaluate(
    claims: Claims,
    metrics: Metrics,
    *,
    stops_tripped: Mapping[str, StopState],
    scored: int,
    nothing: str = NOTHING_SCORED,
    invalid: Sequence[str] = (),
) -> Verdict:
    """The outcome of every claim and the word for the run.

    Parameters
    ----------
    claims
        What was registered.
    metrics
        The study's metrics by reference; an absent one counts as undefined, `not_computed`.
    stops_tripped
        The state of each stop rule by its id; an absent one is undefined.
    scored
        How many trials have a verdict, over all item sets. With 0 there is no PASS, whatever
        was registered: claims about calls alone, or about duplicates, can hold on nothing.
    nothing
        What is said where `scored` is 0.
    invalid
        Integrity problems; with any, the word is INVALID and the claims' word stands beside it.

    Returns
    -------
    Verdict
        In order of precedence: INVALID; STOPPED, a stop rule tripped; REFUTED, a refuter fired;
        FAIL, a band missed or a prediction failed; INCONCLUSIVE, a band, prediction, refuter or
        stop rule is undefined, there is no band or prediction, or nothing was scored; PASS.
        Decisions never change it.

    Raises
    ------
    ValueError
        When scored is negative.
    """
    if scored < 0:
        raise ValueError(f"scored must not be negative, not {scored}")
    outcomes = _outcomes(claims, metrics, stops_tripped=stops_tripped)
    statistical, reasons = _word(outcomes, scored, nothing)
    word: VerdictWord = "INVALID" if invalid else statistical
    return Verdict(word, statistical, outcomes, (*invalid, *reasons), tuple(invalid))


def with_doubts(verdict: Verdict, others: Mapping[str, Verdict]) -> Verdict:
    """Say beside each claim where its outcome rests on how missing verdicts are read.

    Parameters
    ----------
    verdict
        As registered.
    others
        The same claims under other readings, by a clause that completes "if the trials without a
        verdict ...".

    Returns
    -------
    Verdict
        The same words and outcomes, with a note for every claim that comes out otherwise under
        another reading. The registered reading decides.
    """
    outcomes = []
    for at, outcome in enumerate(verdict.outcomes):
        differing = [
            f"it would be {other.outcomes[at].outcome!r} if the trials without a verdict {how}"
            for how, other in others.items()
            if other.outcomes[at].outcome != outcome.outcome
        ]
        note = "; ".join([*([outcome.note] if outcome.note else []), *differing])
        outcomes.append(replace(outcome, note=note or None))
    return replace(verdict, outcomes=tuple(outcomes))
