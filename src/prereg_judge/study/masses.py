"""How willingly the judge answered: the probability that it gave to what the schema allows.

A grammar, or a choice among closed replies, makes the model say one of the allowed things
whatever it would have said. The mass on them before masking, at the first position where anything
was drawn, tells how far it was made to.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from prereg_judge.stats.location import median_interval
from prereg_judge.study.counted import LEVEL, counted, undefined_metric
from prereg_judge.study.metric import Interval, Metric, MetricRef, MetricSpec
from prereg_judge.study.outcomes import StudyInput
from prereg_judge.study.rows import GROUPING, Row, trial_of

# Below this the model would rather have said something that the schema forbids.
FORCED_BELOW = 0.5

_MASS = (
    "probability that the model gave to what the schema allows, before masking, at the first "
    "position where anything was drawn; of each row the smallest over its passes"
)
_FORCED = (
    f"Rows of which some pass had a mass below {FORCED_BELOW:g} on what the schema allows (forced "
    "against its will), of all rows with a reply."
)
MASS_SPECS = (
    MetricSpec(
        "{set}.allowed_mass.min", f"Smallest {_MASS}.", "probability", (), GROUPING, (0.0, 1.0)
    ),
    MetricSpec(
        "{set}.allowed_mass.median", f"Median over rows of the {_MASS}.", "probability", (),
        GROUPING, (0.0, 1.0),
    ),
    MetricSpec("{set}.forced.count", _FORCED, "rows", (), GROUPING, (0.0, "items")),
    MetricSpec("{set}.forced.rate", _FORCED, "share", (), GROUPING, (0.0, 1.0)),
)  # fmt: skip


def row_masses(data: StudyInput, rows: Sequence[Row]) -> list[float]:
    """The mass of each row that has one in some pass: the smallest over its passes, in [0, 1].

    Passes read the same prompt, so they say nothing new: counted one by one they would make
    intervals too narrow.
    """
    keys = ([trial_of(r, p) for p in range(1, data.passes + 1)] for r in rows)
    found = ([data.masses[k] for k in of_row if k in data.masses] for of_row in keys)
    return [min(masses) for masses in found if masses]


def mass_metric(data: StudyInput, ref: MetricRef, spec: MetricSpec, rows: Sequence[Row]) -> Metric:
    """`allowed_mass.min`, `allowed_mass.median`, `forced.count` or `forced.rate`.

    Parameters
    ----------
    data
        The run.
    ref, spec
        The metric and its line in the catalogue.
    rows
        The rows that it is about, at least one.

    Returns
    -------
    Metric
        n = rows with a mass; the others are left out, which the note says, whatever the
        registered `missing`: no verdict is spoken of. The median has the interval of order
        statistics (none below six rows), counts and shares Wilson's, a minimum none. Undefined:
        `nothing_scored` when no trial has a verdict, else `no_probabilities` (a server gives
        none).
    """
    masses = row_masses(data, rows)
    n, left_out = len(masses), len(rows) - len(masses)
    if not n:
        if not any(v is not None for r in rows for v in r.verdicts):
            note = f"none of these {len(rows)} rows has a verdict"
            return undefined_metric(ref, spec, reason="nothing_scored", note=note, n=len(rows))
        note = "no probabilities of tokens are recorded"
        return undefined_metric(ref, spec, reason="no_probabilities", note=note, n=len(rows))
    said = f"{left_out} of {len(rows)} rows have no mass; left out" if left_out else None
    match ref.name.partition(".")[2]:
        case "allowed_mass.min":
            return Metric(ref, min(masses), spec.unit, spec.summary, n=n, note=said)
        case "allowed_mass.median":
            limits = median_interval(masses, level=LEVEL)
            interval = Interval(*limits, LEVEL, "order statistics") if limits else None
            value = statistics.median(masses)
            return Metric(ref, value, spec.unit, spec.summary, n=n, interval=interval, note=said)
    return counted(ref, spec, k=sum(m < FORCED_BELOW for m in masses), n=n, note=said)
