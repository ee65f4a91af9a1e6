"""The agreement to be expected of independent draws, in closed form, for the path `choice`.

Where every verdict's probability is recorded, how often passes agree need not be estimated from
a few of them: the chance that a row's passes all say the same is the sum, over the verdicts, of
the product of the passes' own probabilities of it. With two passes that read alike that is the
sum of squared probabilities. Other temperatures follow from the recorded logits.

Limit: what was never followed stays out. A token that leaves several verdicts open was followed
only where it could be reached with a probability of at least one in a million at the registered
decoding, and never where truncation had cut it; at other temperatures its share is missing and
the rest is divided by its sum. How large that share is at most is said as `unfollowed`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from prereg_judge.choices import Node, paths
from prereg_judge.shaping import Decoding, shape
from prereg_judge.stats.heterogeneous import central_range
from prereg_judge.study.counted import LEVEL, is_rate, not_computed, undefined_metric
from prereg_judge.study.metric import OF_OBSERVATIONS, Interval, Metric, MetricRef, MetricSpec
from prereg_judge.study.outcomes import StudyInput
from prereg_judge.study.rows import GROUPING, Row, rows_of, trial_of
from prereg_judge.words import SET_ROLES, SetRole

METHOD = f"Poisson-binomial {OF_OBSERVATIONS}"
# Temperatures of the curve; the registered one is added.
GRID = tuple(round(0.1 * i, 1) for i in range(1, 21))
LIMITS = (
    "Truncation as registered. Tokens that truncation cut at the registered decoding stay out; so "
    "do those that leave several verdicts open and were reached less than once in a million there."
)
_NOTABLE = 1e-6  # an unfollowed share below this is that of the registered decoding itself

_ABOUT = (
    "with the same verdict in every pass that are to be expected of independent draws from the "
    "recorded probabilities (a run of one pass: in two draws), at the registered decoding or at "
    "another `temperature` with the same truncation. Rows without a probability in some pass are "
    "left out. Its interval is where 95% of the observed results fall, given these rows; it says "
    "nothing of other items."
)
_OPTIONS = ("temperature", *GROUPING)
EXPECTED_SPECS = (
    MetricSpec(
        "{set}.expected_agreement.count", f"Number of rows {_ABOUT}", "rows", (), _OPTIONS,
        (0.0, "items"),
    ),
    MetricSpec(
        "{set}.expected_agreement.rate", f"Share of rows {_ABOUT}", "share", (), _OPTIONS,
        (0.0, 1.0),
    ),
)  # fmt: skip


def chance_of_agreement(passes: Sequence[dict[str, float]]) -> float:
    """The chance that one draw from each pass gives the same verdict in all.

    Parameters
    ----------
    passes
        Each pass's probability of every verdict; each sums to 1; at least one pass.

    Returns
    -------
    float
        In [0, 1]; at least V ** (1 - P) for P passes that are alike over V verdicts.

    Notes
    -----
    Degenerate cases: a verdict that is certain in every pass gives 1; a single pass gives 1, as
    it agrees with itself. Source: for two alike, the sum of squared probabilities: Simpson (1949),
    Measurement of diversity, doi:10.1038/163688a0; its complement is Gini's index.
    """
    verdicts = passes[0]
    return min(1.0, math.fsum(math.prod(p.get(v, 0.0) for p in passes) for v in verdicts))


@dataclass(frozen=True)
class Expectation:
    """What is to be expected of the rows of a set.

    Attributes
    ----------
    rows
        The rows that have a probability in every pass.
    chances
        Of each of them, the chance that its passes agree, in [0, 1].
    unfollowed
        Largest probability, over rows and passes, that lies on tokens that were not followed.
    """

    rows: tuple[Row, ...]
    chances: tuple[float, ...]
    unfollowed: float

    @property
    def count(self) -> float:
        """The number of agreeing rows that is to be expected."""
        return math.fsum(self.chances)


def expectation(
    data: StudyInput, rows: Sequence[Row], *, temperature: float | None = None
) -> Expectation:
    """The agreement to be expected of rows.

    Parameters
    ----------
    data
        The run. With a single pass, two draws from its probabilities are taken.
    rows
        Any rows of it.
    temperature
        Above 0; None = the registered decoding. Greedy decoding has no truncation, so another
        temperature is that of the model's whole distribution.

    Returns
    -------
    Expectation
        Without the rows that lack a probability in some pass; empty where all do.
    """
    decoding = _decoding(data, temperature)
    kept, chances, unfollowed = [], [], 0.0
    for row in rows:
        found = _of_passes(data, row, decoding)
        if found is None:
            continue
        passes = [p for p, _ in found]
        kept.append(row)
        chances.append(chance_of_agreement(passes if len(passes) > 1 else passes * 2))
        unfollowed = max(unfollowed, *(lost for _, lost in found))
    return Expectation(tuple(kept), tuple(chances), unfollowed)


def _decoding(data: StudyInput, temperature: float | None) -> Decoding | None:
    """What to draw with; None = as registered, whose probabilities are recorded."""
    registered = registered_temperature(data)
    if temperature is None or temperature == registered:
        return None
    if data.shaping is None or registered is None:
        return Decoding("sampled", temperature)
    return replace(data.shaping, mode="sampled", temperature=temperature)


def registered_temperature(data: StudyInput) -> float | None:
    """The registered temperature; None where nothing is drawn."""
    if data.shaping is None or data.shaping.mode == "greedy":
        return None
    return data.shaping.temperature


def _of_passes(
    data: StudyInput, row: Row, decoding: Decoding | None
) -> list[tuple[dict[str, float], float]] | None:
    """Every pass's probabilities of a row and the share not followed; None where one lacks."""
    found: list[tuple[dict[str, float], float]] = []
    before: tuple[Node, ...] = ()
    for number in range(1, data.passes + 1):
        choice = data.choices.get(trial_of(row, number))
        if choice is None:
            return None
        if decoding is None:
            found.append((dict(choice.probabilities), 0.0))
        elif found and choice.nodes == before:  # passes that read alike, which is the rule
            found.append(found[-1])
        elif (drawn := _drawn(choice.nodes, decoding)) is not None:
            before = choice.nodes
            found.append(drawn)
        else:
            return None
    return found


def _drawn(nodes: tuple[Node, ...], decoding: Decoding) -> tuple[dict[str, float], float] | None:
    """Probabilities of the verdicts and the share not followed; None where none is reached."""
    ways = paths(nodes, decoding) if nodes else []
    if not ways:
        return None
    shaped = [shape(np.array(node.logits, dtype=np.float64), decoding) for node in nodes]
    followed = math.fsum(math.prod(float(shaped[i][o]) for i, o in way.steps) for way in ways)
    chances: dict[str, float] = {}
    for way in ways:
        chances[way.verdict] = chances.get(way.verdict, 0.0) + way.probability
    return chances, max(0.0, 1.0 - followed)


def temperature_of(text: str) -> float | None:
    """A temperature given as text; None where it is no finite number above 0."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) and value > 0 else None


def expected_metric(
    data: StudyInput, ref: MetricRef, spec: MetricSpec, rows: Sequence[Row]
) -> Metric:
    """`expected_agreement.count` or `.rate` over rows, of which there is at least one.

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
        n = rows with a probability in every pass. The value is exact given these rows; its
        interval is the central range of the observed count at `LEVEL` (`central_range`), for a
        share divided by n. Undefined: `not_computed` (temperature), `no_probabilities` (the run
        did not choose among closed verdicts), `nothing_scored` (some pass has no verdict at all),
        `empty_denominator` (no row has one in every pass), `missing_verdict` (rows were left out
        and the registration says `missing: undefined`; its other rules speak of counts of rows
        and do not apply to a closed form).
    """
    text = dict(ref.params).get("temperature")
    temperature = None if text is None else temperature_of(text)
    if text is not None and temperature is None:
        return not_computed(ref, note=f"temperature {text} is no number above 0")
    found = expectation(data, rows, temperature=temperature)
    n, left_out = len(found.rows), len(rows) - len(found.rows)
    notes = _notes(data, ref, found, temperature=temperature, n_rows=len(rows))
    said = "; ".join(notes) or None
    if not n:
        return _undefined(data, ref, spec, rows)
    if left_out and data.missing == "undefined":
        return undefined_metric(ref, spec, reason="missing_verdict", note=said, n=len(rows))
    low, high = central_range(found.chances, level=LEVEL)
    value, limits = found.count, (float(low), float(high))
    if is_rate(ref.name):
        value, limits = value / n, (low / n, high / n)
    interval = Interval(*limits, LEVEL, METHOD)
    return Metric(ref, value, spec.unit, spec.summary, n=n, interval=interval, note=said)


def _undefined(data: StudyInput, ref: MetricRef, spec: MetricSpec, rows: Sequence[Row]) -> Metric:
    """Why nothing is to be expected of rows of which none is complete."""
    numbers = range(1, data.passes + 1)
    scored = any(v is not None for r in rows for v in r.verdicts)
    if scored and not any(trial_of(r, p) in data.choices for r in rows for p in numbers):
        note = "no probabilities of verdicts are recorded; the path `choice` records them"
        return undefined_metric(ref, spec, reason="no_probabilities", note=note, n=len(rows))
    for number in numbers:
        if not any(trial_of(r, number) in data.choices for r in rows):
            note = f"no row has a verdict in pass {number}"
            return undefined_metric(ref, spec, reason="nothing_scored", note=note, n=len(rows))
    note = "no row has a probability in every pass"
    return undefined_metric(ref, spec, reason="empty_denominator", note=note, n=len(rows))


def _notes(
    data: StudyInput,
    ref: MetricRef,
    found: Expectation,
    *,
    temperature: float | None,
    n_rows: int,
) -> list[str]:
    """What a reader should know beside the number."""
    notes = []
    if left_out := n_rows - len(found.rows):
        notes.append(f"{left_out} of {n_rows} rows lack a probability in some pass; left out")
        if not is_rate(ref.name):
            notes.append("limits on a count were registered for all rows")
    if data.passes < 2:
        notes.append("one pass: of two draws from its probabilities")
    elif data.decoding == "seeded":
        notes.append("of independent draws; the passes of this run draw alike")
    if temperature is not None and found.unfollowed > _NOTABLE:
        share = f"{found.unfollowed:.2g}"
        notes.append(f"up to {share} of a row's probability there is on tokens not followed")
    return notes


@dataclass(frozen=True)
class CurvePoint:
    """The agreement to be expected at one temperature.

    Attributes
    ----------
    temperature
        Above 0.
    registered
        Whether it is the registered one.
    rate, low, high
        Expected share of agreeing rows and the range of the observed one at `LEVEL`, in [0, 1].
    n
        Rows with a probability in every pass.
    unfollowed
        Largest probability of a row that lies on tokens that were not followed.
    """

    temperature: float
    registered: bool
    rate: float
    low: float
    high: float
    n: int
    unfollowed: float


@dataclass(frozen=True)
class AgreementCurve:
    """The agreement to be expected of an item set over temperatures.

    Attributes
    ----------
    set
        The item set.
    draws
        How many draws must agree: the passes, at least two.
    n_rows
        Rows of the set, those left out included.
    level
        Level of the ranges.
    points
        By temperature, ascending.
    limits
        What the curve cannot show, for readers.
    """

    set: SetRole
    draws: int
    n_rows: int
    level: float
    points: tuple[CurvePoint, ...]
    limits: str = LIMITS


def curves(data: StudyInput) -> tuple[AgreementCurve, ...]:
    """The expected agreement of every item set at `GRID` and at the registered temperature.

    Parameters
    ----------
    data
        The run.

    Returns
    -------
    tuple of AgreementCurve
        None for a set without a row that has a probability in every pass. A curve need not fall
        with the temperature: where several tokens spell one verdict, more heat can make it the
        likelier one.
    """
    registered = registered_temperature(data)
    temperatures = sorted({*GRID, *([registered] if registered is not None else [])})
    made = []
    for role in SET_ROLES:
        rows = rows_of(data, role)
        points = []
        for temperature in temperatures:
            found = expectation(data, rows, temperature=temperature)
            if n := len(found.rows):
                low, high = central_range(found.chances, level=LEVEL)
                points.append(
                    CurvePoint(
                        temperature,
                        temperature == registered,
                        found.count / n,
                        low / n,
                        high / n,
                        n,
                        found.unfollowed,
                    )
                )
        if points:
            draws = max(data.passes, 2)
            made.append(AgreementCurve(role, draws, len(rows), LEVEL, tuple(points)))
    return tuple(made)
