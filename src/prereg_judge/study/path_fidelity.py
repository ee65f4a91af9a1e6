"""Study `path-fidelity`: do two engine settings (the arms) give the same verdicts?

Pass 1 is arm 1 and pass 2 is arm 2; everything else about a call is the same in both. What a row
counts for is in `row_questions`, what a missing verdict does in `row_metrics`, what a call counts
for in `calls`.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator, Sequence

from prereg_judge.choices import verdict_probabilities
from prereg_judge.shaping import Decoding
from prereg_judge.stats.location import mean_interval
from prereg_judge.study.calls import call_refs
from prereg_judge.study.computer import Computer, RowMetric, catalogue_of
from prereg_judge.study.counted import LEVEL, undefined_metric
from prereg_judge.study.expected import AgreementCurve
from prereg_judge.study.masses import MASS_SPECS, mass_metric
from prereg_judge.study.metric import Catalogue, Interval, Metric, MetricRef, MetricSpec, Undefined
from prereg_judge.study.outcomes import Choice, StudyInput
from prereg_judge.study.row_metrics import ROW_SPECS, both
from prereg_judge.study.rows import GROUPING, Row, trial_of
from prereg_judge.study.sentences import common_words
from prereg_judge.words import SetRole

STUDY = "path-fidelity"

_CHANGE = (
    "over verdicts, of the absolute difference between the two arms' probabilities of being drawn, "
    "for two arms that choose; under greedy decoding, of the model's own probabilities"
)
CHANGE_SPECS = (
    MetricSpec(
        "{set}.probability_change.max", f"Largest, over rows and {_CHANGE}.", "probability", (),
        GROUPING, (0.0, 1.0),
    ),
    MetricSpec(
        "{set}.probability_change.mean", f"Mean over rows of the largest, {_CHANGE}.",
        "probability", (), GROUPING, (0.0, 1.0),
    ),
)  # fmt: skip
_STEMS = ("fidelity", "flips", "verdict", "missing")
SPECS = (
    *(s for s in ROW_SPECS if s.name.removeprefix("{set}.").rpartition(".")[0] in _STEMS),
    *MASS_SPECS,
    *CHANGE_SPECS,
)


def catalogue(roles: Sequence[SetRole]) -> Catalogue:
    """Every metric that may be registered for a run with these item sets.

    Parameters
    ----------
    roles
        The roles of the item sets in the run; repetitions do no harm.

    Returns
    -------
    Catalogue
        `{set}` filled in for each role, and the `calls.*` metrics; with no role only those.
    """
    return catalogue_of(STUDY, SPECS, roles=roles)


def _computer(data: StudyInput) -> Computer:
    makers: dict[str, RowMetric] = {
        "allowed_mass": mass_metric,
        "forced": mass_metric,
        "probability_change": change_metric,
    }
    return Computer(data, specs=SPECS, makers=makers)


def compute(data: StudyInput, refs: Iterable[MetricRef]) -> dict[MetricRef, Metric]:
    """The metrics that were registered.

    Parameters
    ----------
    data
        The run.
    refs
        References with their parameters; `.ci_low` and `.ci_high` give a limit of the metric's
        interval at `LEVEL`.

    Returns
    -------
    dict
        One entry for every reference, in the order given; undefined with a typed reason where
        there is no value, never absent.
    """
    computer = _computer(data)
    return {ref: computer(ref) for ref in refs}


def summary(data: StudyInput) -> tuple[Metric, ...]:
    """The full list that a report shows, whatever was registered.

    Parameters
    ----------
    data
        The run.

    Returns
    -------
    tuple of Metric
        Set by set: fidelity, also by kind, stratum and verdict of arm 1; which way verdicts
        differ; verdicts arm by arm; changes of probability where both arms choose; masses where
        they are recorded; then the calls.
    """
    computer = _computer(data)
    refs: list[MetricRef] = []
    for role, rows in computer.rows.items():
        if rows:
            refs += _set_refs(data, role, rows)
    refs += call_refs(data)
    return tuple(computer(ref) for ref in dict.fromkeys(refs))


def _set_refs(data: StudyInput, role: SetRole, rows: Sequence[Row]) -> Iterator[MetricRef]:
    yield from both(f"{role}.fidelity")
    yield from both(f"{role}.missing")
    for grouping in GROUPING:
        for value in dict.fromkeys(getattr(r.item, grouping) for r in rows):
            if value is not None:
                yield from both(f"{role}.fidelity", **{grouping: value})
    for verdict in data.verdicts:
        yield from both(f"{role}.fidelity", verdict=verdict)
        for to in data.verdicts:
            if to != verdict:
                yield from both(f"{role}.flips", verdict=verdict, to=to)
    for pass_no in range(1, data.passes + 1):
        for verdict in data.verdicts:
            yield from both(f"{role}.verdict", verdict=verdict, pass_=pass_no)
    if data.choices:
        yield MetricRef.of(f"{role}.probability_change.max")
        yield MetricRef.of(f"{role}.probability_change.mean")
    if data.masses:
        yield MetricRef.of(f"{role}.allowed_mass.min")
        yield MetricRef.of(f"{role}.allowed_mass.median")
        yield from both(f"{role}.forced")


def change_metric(
    data: StudyInput, ref: MetricRef, spec: MetricSpec, rows: Sequence[Row]
) -> Metric:
    """`probability_change.max` or `.mean` over rows, of which there is at least one.

    Parameters
    ----------
    data
        The run.
    ref, spec
        The metric and its line in the catalogue.
    rows
        The rows that it is about.

    Returns
    -------
    Metric
        In [0, 1]; n = rows with probabilities in both arms, the others are left out, which the
        note says. The mean has Student's t interval, or none where all rows change alike; the
        maximum has none. Undefined: `single_pass`; `nothing_scored` when no trial has a verdict;
        `no_probabilities` when some arm recorded none (it did not choose); `empty_denominator`
        when no row has them in both arms; `missing_verdict` when a row lacks them and the
        registration says `missing: undefined`.
    """

    def undefined(reason: Undefined, note: str) -> Metric:
        return undefined_metric(ref, spec, reason=reason, note=note, n=len(rows))

    if data.passes < 2:
        return undefined("single_pass", "the run has one arm; nothing to compare it with")
    if not any(v is not None for r in rows for v in r.verdicts):
        return undefined("nothing_scored", f"none of these {len(rows)} rows has a verdict")
    pairs = [(data.choices.get(trial_of(r, 1)), data.choices.get(trial_of(r, 2))) for r in rows]
    if not all(map(any, zip(*pairs, strict=True))):
        return undefined("no_probabilities", "not both arms recorded probabilities of verdicts")
    changes = [_change(data, one, two) for one, two in pairs if one and two]
    n, left_out = len(changes), len(rows) - len(changes)
    if not n:
        return undefined("empty_denominator", "no row has probabilities in both arms")
    said = f"{left_out} of {len(rows)} rows lack a probability in some arm; left out"
    if left_out and data.missing == "undefined":
        return undefined("missing_verdict", said)
    note = said if left_out else None
    if ref.name.endswith(".max"):
        return Metric(ref, max(changes), spec.unit, spec.summary, n=n, note=note)
    limits = mean_interval(changes, level=LEVEL)
    interval = Interval(*limits, LEVEL, "t") if limits else None
    value = statistics.fmean(changes)
    return Metric(ref, value, spec.unit, spec.summary, n=n, interval=interval, note=note)


def _change(data: StudyInput, one: Choice, two: Choice) -> float:
    """Largest absolute difference over verdicts; with greedy decoding every draw is certain, so
    the model's own probabilities are compared.
    """
    if data.decoding == "greedy":
        own = Decoding("sampled", 1.0)
        first, second = (verdict_probabilities(c.nodes, own, data.verdicts) for c in (one, two))
    else:
        first, second = dict(one.probabilities), dict(two.probabilities)
    return min(1.0, max(abs(first.get(v, 0.0) - second.get(v, 0.0)) for v in data.verdicts))


def curves(data: StudyInput) -> tuple[AgreementCurve, ...]:
    """None: two arms are no two draws from one judge."""
    del data
    return ()


def protocol_words(*, decoding: Decoding, passes: int) -> list[str]:
    """What a protocol cannot show, as sentences; known before the run and said after it too."""
    del passes  # two, one for each arm
    how = {
        "seeded": "Both arms draw with the registered seed: where they compare the same tokens "
        "they draw alike, so a difference comes of the settings. `choice` draws once for a "
        "verdict and `generate` once for a token, so a verdict that is several tokens long can "
        "also differ by that.",
        "greedy": "Both arms take the most likely token (greedy decoding), so a difference comes "
        "of the settings.",
    }.get(decoding.mode)
    return [
        *([how] if how is not None else []),
        "Agreement of two arms is not self-agreement: it does not show that the judge would "
        "repeat its answers in fresh draws, nor that either arm is right. It is about these "
        "items on this machine.",
    ]


def plain_words(data: StudyInput) -> list[str]:
    """What a reader must know before quoting a number of this study, as sentences.

    Parameters
    ----------
    data
        The run.

    Returns
    -------
    list of str
        What the arms are, what their agreement is not, then what every study says.
    """
    said = []
    if len(data.arms) == 2:
        said.append(f"Pass 1 is arm 1 ({data.arms[0]}); pass 2 is arm 2 ({data.arms[1]}).")
    said += protocol_words(decoding=data.drawing, passes=data.passes)
    return [*said, *common_words(data)]
