"""Study `self-agreement`: does the judge give the same answer twice, and is it right?

Turns outcomes into named metrics. What a row counts for is in `row_questions`, what a missing
verdict does in `row_metrics`, what a call counts for in `calls`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from prereg_judge.shaping import Decoding
from prereg_judge.stats.heterogeneous import central_range
from prereg_judge.stats.proportions import wilson_interval
from prereg_judge.study.calls import call_refs
from prereg_judge.study.computer import Computer, RowMetric, catalogue_of
from prereg_judge.study.counted import LEVEL
from prereg_judge.study.expected import EXPECTED_SPECS, curves, expectation, expected_metric
from prereg_judge.study.masses import MASS_SPECS, mass_metric
from prereg_judge.study.metric import Catalogue, Metric, MetricRef
from prereg_judge.study.outcomes import StudyInput
from prereg_judge.study.row_metrics import ROW_SPECS, both
from prereg_judge.study.rows import (
    GROUPING,
    Disagreement,
    Row,
    TransitionTable,
    disagreements,
    rows_of,
    scored_trials,
    transitions,
)
from prereg_judge.study.sentences import common_words
from prereg_judge.words import SET_ROLES, SetRole

__all__ = [
    "LEVEL",
    "SPECS",
    "STUDY",
    "Disagreement",
    "TransitionTable",
    "catalogue",
    "compute",
    "curves",
    "disagreements",
    "plain_words",
    "protocol_words",
    "scored_trials",
    "summary",
    "transitions",
]

STUDY = "self-agreement"

# Below it a token that is half as likely as another is drawn less than once in a thousand times:
# 2 ** (-1 / 0.1) = 1 / 1024.
COLD = 0.1

SPECS = (
    *(s for s in ROW_SPECS if not s.name.startswith("{set}.fidelity.")),
    *EXPECTED_SPECS,
    *MASS_SPECS,
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
        "expected_agreement": expected_metric,
        "allowed_mass": mass_metric,
        "forced": mass_metric,
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
        Set by set: agreement (observed, and expected where probabilities are recorded), flips
        and what ships, also by kind and stratum; flips by first
        verdict, and to which; verdicts and errors pass by pass (errors only where a row has a
        known label); the comparison with each earlier run; then the calls.
    """
    computer = _computer(data)
    refs: list[MetricRef] = []
    for role, rows in computer.rows.items():
        if rows:
            refs += _set_refs(data, role, rows)
    refs += call_refs(data)
    return tuple(computer(ref) for ref in dict.fromkeys(refs))


def _set_refs(data: StudyInput, role: SetRole, rows: Sequence[Row]) -> Iterator[MetricRef]:
    labelled = any(r.item.label is not None for r in rows)
    agreeing = ("agreement", "expected_agreement") if data.choices else ("agreement",)
    stems = (*agreeing, "flips", "missing")
    for stem in stems:
        yield from both(f"{role}.{stem}")
    yield MetricRef.of(f"{role}.distinct.count")
    yield MetricRef.of(f"{role}.duplicates.max")
    for how in ("any", "all", "some", "none"):
        yield from both(f"{role}.ships.{how}")
    for grouping in GROUPING:
        values = dict.fromkeys(getattr(r.item, grouping) for r in rows)
        for value in values:
            if value is not None:
                for stem in stems:
                    yield from both(f"{role}.{stem}", **{grouping: value})
    if data.masses:
        yield MetricRef.of(f"{role}.allowed_mass.min")
        yield MetricRef.of(f"{role}.allowed_mass.median")
        yield from both(f"{role}.forced")
    for verdict in data.verdicts:
        yield from both(f"{role}.flips", verdict=verdict)
        for to in data.verdicts:
            if to != verdict:
                yield from both(f"{role}.flips", verdict=verdict, to=to)
    for pass_no in range(1, data.passes + 1):
        for verdict in data.verdicts:
            yield from both(f"{role}.verdict", verdict=verdict, pass_=pass_no)
        if labelled:
            yield from both(f"{role}.wrong", pass_=pass_no)
            yield from both(f"{role}.wrong_ships", pass_=pass_no)
    if labelled:
        yield from both(f"{role}.wrong_repeated")
        yield from both(f"{role}.wrong_found")
    for name, run in data.earlier.items():
        for number in range(1, run.passes + 1):
            from_pass = number if run.passes > 1 else None
            for verdict in data.verdicts:
                for stem in ("flips_from", "flips_from_every", "stays_from"):
                    yield from both(
                        f"{role}.{stem}", from_run=name, verdict=verdict, from_pass=from_pass
                    )


def protocol_words(*, decoding: Decoding, passes: int) -> list[str]:
    """What a protocol cannot show, as sentences; known before the run and said after it too."""
    why = {
        "seeded": "Every attempt is drawn with the registered seed",
        "greedy": "Every attempt takes the most likely token (greedy decoding)",
    }.get(decoding.mode)
    if passes < 2:
        return ["There is one pass, so whether the answers repeat is not observed."]
    if why is None and decoding.top_k == 1:
        why = "Every attempt takes the most likely token (`top_k: 1` leaves no other)"
    if why is None and decoding.temperature < COLD:
        return [
            f"At temperature {decoding.temperature:g} almost every draw is the most likely token, "
            "so a second pass can hardly find errors here, because it repeats them."
        ]
    if why is None:
        return []
    return [
        f"{why}, so a second pass cannot find errors here, because it repeats them: "
        "a wrong verdict comes back the same.",
        "Agreement between these passes shows that the run can be repeated, "
        "not that the judge is sure of its answers.",
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
        Empty when there is nothing to warn of.
    """
    said = protocol_words(decoding=data.drawing, passes=data.passes)
    expected = (_expected_words(data, role) for role in SET_ROLES)
    return [*said, *(text for text in expected if text is not None), *common_words(data)]


def _expected_words(data: StudyInput, role: SetRole) -> str | None:
    """Observed agreement beside the expected one, over the rows that have both; None where
    nothing is drawn or no row has a probability in every pass.
    """
    found = expectation(data, rows_of(data, role))
    n = len(found.rows)
    if not n or data.decoding == "greedy":
        return None
    low, high = central_range(found.chances, level=LEVEL)
    expected = f"{found.count:.1f} of {n} {role} rows"
    independent = "independent draws from the recorded probabilities"
    if data.passes < 2:
        return (
            f"In two {independent} {expected} are expected to agree "
            f"({LEVEL:.0%} of the time {low} to {high})."
        )
    observed = sum(row.same for row in found.rows)
    if data.decoding == "seeded":
        return (
            f"In {data.passes} {independent} {expected} would be expected to agree "
            f"({LEVEL:.0%} of the time {low} to {high}). {observed} do here, but these passes draw "
            "alike, so the two are not to be compared."
        )
    left, right = (x * n for x in wilson_interval(observed, n, level=LEVEL))
    where = "inside" if left <= found.count <= right else "outside"
    text = (
        f"In {data.passes} {independent} {expected} are expected to agree ({LEVEL:.0%} of the time "
        f"{low} to {high}); observed are {observed} [{left:.1f}, {right:.1f}] {LEVEL:.0%} Wilson. "
        f"The expected count lies {where} the interval of the observed one."
    )
    if where == "outside":
        text += " Independent draws seldom lie so far off."
    return text
