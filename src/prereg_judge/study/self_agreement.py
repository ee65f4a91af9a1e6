"""Study `self-agreement`: does the judge give the same answer twice, and is it right?

Turns outcomes into named metrics. What a row counts for is in `row_questions`, what a missing
verdict does in `row_metrics`, what a call counts for in `calls`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from prereg_judge.study.calls import CALL_SPECS, call_metric
from prereg_judge.study.counted import LEVEL, limit_of, not_computed
from prereg_judge.study.metric import Catalogue, Metric, MetricRef
from prereg_judge.study.outcomes import StudyInput
from prereg_judge.study.row_metrics import GROUPING, ROW_SPECS, row_metric
from prereg_judge.study.rows import (
    Disagreement,
    Row,
    TransitionTable,
    copies,
    disagreements,
    rows_of,
    scored_trials,
    transitions,
)
from prereg_judge.words import SET_ROLES, SetRole

__all__ = [
    "LEVEL",
    "STUDY",
    "Disagreement",
    "TransitionTable",
    "catalogue",
    "compute",
    "disagreements",
    "plain_words",
    "protocol_words",
    "scored_trials",
    "summary",
    "transitions",
]

STUDY = "self-agreement"


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
    names = {
        spec.name.replace("{set}", role): replace(spec, name=spec.name.replace("{set}", role))
        for role in roles
        for spec in ROW_SPECS
    }
    return Catalogue(STUDY, {**names, **CALL_SPECS})


class _Computer:
    """Computes metrics of one run, reading its rows once."""

    def __init__(self, data: StudyInput) -> None:
        self.data = data
        self.rows: dict[str, tuple[Row, ...]] = {r: rows_of(data, r) for r in SET_ROLES}

    def __call__(self, ref: MetricRef) -> Metric:
        if ref.base != ref:
            return limit_of(ref, self(ref.base))
        head = ref.name.partition(".")[0]
        if head == "calls":
            return call_metric(self.data, ref)
        if head in self.rows:
            return row_metric(self.data, ref, self.rows[head])
        return not_computed(ref, note="not in the catalogue")


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
    computer = _Computer(data)
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
        Set by set: agreement, flips and what ships, also by kind and stratum; flips by first
        verdict, and to which; verdicts and errors pass by pass (errors only where a row has a
        known label); the comparison with each earlier run; then the calls.
    """
    computer = _Computer(data)
    roles = [r for r in SET_ROLES if computer.rows[r]]
    refs = [ref for role in roles for ref in _set_refs(data, role, computer.rows[role])]
    for name, spec in CALL_SPECS.items():
        if not spec.optional:
            refs.append(MetricRef.of(name))
    refs += [MetricRef.of("calls.unscored"), MetricRef.of("calls.unscored.rate")]
    used = sorted({call.unscored for call in data.calls if call.unscored is not None})
    refs += [MetricRef.of("calls.unscored", reason=reason) for reason in used]
    return tuple(computer(ref) for ref in dict.fromkeys(refs))


def _both(stem: str, **params: object) -> tuple[MetricRef, MetricRef]:
    return MetricRef.of(f"{stem}.count", **params), MetricRef.of(f"{stem}.rate", **params)


def _set_refs(data: StudyInput, role: SetRole, rows: Sequence[Row]) -> Iterator[MetricRef]:
    labelled = any(r.item.label is not None for r in rows)
    for stem in ("agreement", "flips", "missing"):
        yield from _both(f"{role}.{stem}")
    yield MetricRef.of(f"{role}.distinct.count")
    yield MetricRef.of(f"{role}.duplicates.max")
    for how in ("any", "all", "some", "none"):
        yield from _both(f"{role}.ships.{how}")
    for grouping in GROUPING:
        values = dict.fromkeys(getattr(r.item, grouping) for r in rows)
        for value in values:
            if value is not None:
                for stem in ("agreement", "flips", "missing"):
                    yield from _both(f"{role}.{stem}", **{grouping: value})
    for verdict in data.verdicts:
        yield from _both(f"{role}.flips", verdict=verdict)
        for to in data.verdicts:
            if to != verdict:
                yield from _both(f"{role}.flips", verdict=verdict, to=to)
    for pass_no in range(1, data.passes + 1):
        for verdict in data.verdicts:
            yield from _both(f"{role}.verdict", verdict=verdict, pass_=pass_no)
        if labelled:
            yield from _both(f"{role}.wrong", pass_=pass_no)
            yield from _both(f"{role}.wrong_ships", pass_=pass_no)
    if labelled:
        yield from _both(f"{role}.wrong_repeated")
        yield from _both(f"{role}.wrong_found")
    for name, run in data.earlier.items():
        for number in range(1, run.passes + 1):
            from_pass = number if run.passes > 1 else None
            for verdict in data.verdicts:
                for stem in ("flips_from", "flips_from_every", "stays_from"):
                    yield from _both(
                        f"{role}.{stem}", from_run=name, verdict=verdict, from_pass=from_pass
                    )


def protocol_words(*, decoding: str, passes: int) -> list[str]:
    """What a protocol cannot show, as sentences; known before the run and said after it too."""
    why = {
        "seeded": "Every attempt is drawn with the registered seed",
        "greedy": "Every attempt takes the most likely token (greedy decoding)",
    }.get(decoding)
    if passes < 2:
        return ["There is one pass, so nothing is known about whether the answers repeat."]
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
    said = protocol_words(decoding=data.decoding, passes=data.passes)
    for role in SET_ROLES:
        rows = rows_of(data, role)
        sizes = copies(rows)
        if sizes and sizes[0] > 1:
            said.append(
                f"The {len(rows)} {role} rows are {len(sizes)} distinct ones (one is there "
                f"{sizes[0]} times); the intervals take every row as independent and are too "
                "narrow for that."
            )
        lacking = sum(v is None for r in rows for v in r.verdicts)
        if lacking:
            said.append(
                f"{lacking} of {len(rows) * data.passes} {role} trials have no verdict "
                f"(registered: missing = {data.missing})."
            )
    return said
