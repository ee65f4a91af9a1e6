"""What a registration's claims are worth before any call: chances, widths, rows needed, warnings.

Under the registrant's own expectation (`expected`) a count of n rows is taken as binomial: rows
independent, all with the same chance. Where none is stated nothing is assumed; the middle of a
band is then used for the width only.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from prereg_judge.flow.outlook_size import sample_size, size_warnings
from prereg_judge.flow.outlook_warnings import warnings_of
from prereg_judge.flow.prepare import Inputs
from prereg_judge.registration.claims import (
    Band,
    Condition,
    Decision,
    Prediction,
    Refuter,
    Test,
    tests_in,
)
from prereg_judge.registration.domains import answer
from prereg_judge.registration.reach import domain_of, known_n
from prereg_judge.report.numbers import chance as shown_chance
from prereg_judge.report.numbers import figures, plain
from prereg_judge.stats.chances import (
    BestInside,
    Floats,
    best_inside,
    binomial_pmf,
    nearest_count,
    outcome_chances,
    share_with_limit,
    wilson_limits,
)
from prereg_judge.stats.proportions import wilson_interval
from prereg_judge.study.counted import LEVEL, is_rate
from prereg_judge.study.metric import MetricRef

Claim = Band | Prediction | Refuter | Decision
Kind = Literal["band", "prediction", "refuter", "decision"]

_WORDS: dict[Kind, tuple[str, ...]] = {
    "band": ("inside", "missed low", "missed high"),
    "prediction": ("held", "failed"),
    "refuter": ("fired", "silent"),
    "decision": ("taken", "not taken"),
}
CHANCE_METHOD = "exact binomial, every count enumerated"
Reason = Literal[
    "no count",  # of rows, or n is open until the run
    "different counts",
    "never called",
    "cannot occur",
    "no expectation",
    "different expectations",
]


@dataclass(frozen=True)
class WhyNot:
    """Why a claim has no chance: the reason, and its sentence."""

    reason: Reason
    text: str


_NEVER_CALLED = WhyNot(
    "never called",
    "not computed: a stop rule can end the run, and trials that are never called count as missing",
)


_FROM_TABLE = WhyNot("no count", "no chance: the table settles it")


@dataclass(frozen=True)
class Count:
    """The count that metrics are made of.

    Attributes
    ----------
    ref
        The count as a metric.
    n
        Rows that it is counted over, or trials for those without a verdict.
    most
        Rows of these that can be counted at all: a row whose known label is the verdict asked
        for can never be a wrong one.
    """

    ref: MetricRef
    n: int
    most: int

    @property
    def unit(self) -> str:
        """What one of the n is: a row, or a trial."""
        return "trial" if self.ref.name.split(".")[1:2] == ["missing"] else "row"

    def values(self, ref: MetricRef) -> Floats:
        """What a metric of this count is when 0, 1, ..., `most` rows count; as it is scored."""
        counts = np.arange(self.most + 1)
        scale = 1 if is_rate(ref.base.name) else self.n
        if ref != ref.base:
            side = 0 if ref.name.endswith(".ci_low") else 1
            return wilson_limits(counts, self.n, level=LEVEL)[side] * scale
        return counts / self.n if scale == 1 else counts.astype(np.float64)

    def chance_at(self, ref: MetricRef, value: float) -> float:
        """Common chance of the rows that can be counted at which a metric is expected here.

        A limit of an interval is expected where the observed share is that which has this limit.
        """
        share = value if is_rate(ref.base.name) else value / self.n
        if ref != ref.base:
            side: Literal["low", "high"] = "low" if ref.name.endswith(".ci_low") else "high"
            within = min(1.0, max(0.0, share))
            share = share_with_limit(within, self.n, side=side, level=LEVEL)
        return share * (self.n / self.most)


@dataclass(frozen=True)
class Expected:
    """What is expected of a count: in the words of which claim, and as a chance of each row."""

    claim: str
    ref: MetricRef
    value: float
    chance: float


def outlook(inputs: Inputs) -> list[dict[str, Any]]:
    """One row a band, prediction, refuter and decision, with JSON values and texts to be shown.

    Returns
    -------
    list of dict
        `id`, `kind`, `primary` (whether it is that claim), `registered`, `n` and what one of
        them is (`unit`), `can_count` (rows that can be counted at all), `expected` and
        `expected_from` (the claim that states it), `chances` by outcome word and `chance` of the
        first of them, `share` of the rows that is expected (else the middle of a band) and the
        `interval` at the count nearest to it with its `width`, `best_inside` of a two-sided
        claim, `why_not` where there is no chance with its `reason` (`Reason`), `warnings`; texts
        end in `_text`. What there is has its `chance_method`, its `interval_method` and the
        interval's `level`. The primary claim's row has `sample_size` where the registration asks
        for one. What is not known is None.
    """
    claims = inputs.claims
    counts = {ref: found for ref in _refs(inputs) if (found := _count_of(ref, inputs))}
    expectations: tuple[Band | Prediction, ...] = (*claims.bands, *claims.predictions)
    stated = [
        Expected(c.id, c.test.ref, c.expected, chance)
        for c in expectations
        if c.expected is not None and (count := counts.get(c.test.ref)) is not None
        if 0.0 <= (chance := count.chance_at(c.test.ref, c.expected)) <= 1.0 + 1e-12
    ]
    every: tuple[Claim, ...] = (*expectations, *claims.refuters, *claims.decisions)
    stops = inputs.facts.stops
    rows = [_row(claim, counts, stated, stops=stops) for claim in every]
    if not inputs.model.calls:
        rows = [row | _none(_FROM_TABLE) if row["reason"] == "no count" else row for row in rows]
    wanted = inputs.model.sample_size
    asked = wanted is not None and (wanted.width is not None or wanted.power is not None)
    for row, claim in zip(rows, every, strict=True):
        row["primary"] = row["id"] == inputs.model.primary_claim
        if asked and row["primary"] and isinstance(claim, Band | Prediction):
            assert wanted is not None
            row["sample_size"] = sample_size(row, claim.test, wanted)
            row["warnings"] += size_warnings(row, claim.test, wanted)
    return rows


def chances_of(condition: Condition, count: Count, p: float) -> tuple[float, float]:
    """Chances that a condition is true and that it is false, each row counting with chance `p`.

    Every metric in the condition must be made of `count`, whose values are enumerated. Both are
    summed up, so that the smaller one keeps its digits.
    """
    values = {t.ref: count.values(t.ref) for t in tests_in(condition)}
    true = np.array(
        [
            answer(condition, {ref: float(at[k]) for ref, at in values.items()})
            for k in range(count.most + 1)
        ]
    )
    pmf = binomial_pmf(count.most, p)
    return min(1.0, float(pmf[true].sum())), min(1.0, float(pmf[~true].sum()))


def _refs(inputs: Inputs) -> list[MetricRef]:
    claims = inputs.claims
    expectations: tuple[Band | Prediction, ...] = (*claims.bands, *claims.predictions)
    conditions: tuple[Refuter | Decision, ...] = (*claims.refuters, *claims.decisions)
    named = [c.test.ref for c in expectations]
    named += [t.ref for c in conditions for t in tests_in(c.when)]
    return list(dict.fromkeys(named))


def _count_of(ref: MetricRef, inputs: Inputs) -> Count | None:
    """The count that a metric is made of; None where n is open, or nothing can be counted."""
    n = known_n(ref, inputs.facts)
    if not n:
        return None
    name = ref.base.name.removesuffix(".rate").removesuffix(".count") + ".count"
    counted = MetricRef(name, ref.params)
    domain = domain_of(counted, catalogue=inputs.catalogue, facts=inputs.facts)
    most = n if domain is None else int(domain.high)
    return Count(counted, n, most) if most else None


def _row(
    claim: Claim, counts: dict[MetricRef, Count], stated: list[Expected], *, stops: bool
) -> dict[str, Any]:
    kind = _kind(claim)
    condition = claim.test if isinstance(claim, Band | Prediction) else claim.when
    row: dict[str, Any] = {"id": claim.id, "kind": kind, "registered": str(condition)}
    row |= dict.fromkeys(("n", "can_count", "expected", "expected_from", "chance", "chances"))
    row["unit"] = "row"
    row |= dict.fromkeys(("share", "interval", "width", "best_inside", "why_not", "reason"))
    row |= dict.fromkeys(("chance_method", "interval_method", "level"))
    row |= {"expected_text": "-", "interval_text": "-", "warnings": []}
    if isinstance(claim, Band | Prediction) and claim.expected is not None:
        row |= {"expected": claim.expected, "expected_from": claim.id}
        row["expected_text"] = plain(claim.expected)
    count = _one_count(condition, counts)
    if isinstance(count, WhyNot):
        return row | _none(count)
    row |= {"n": count.n, "unit": count.unit, "can_count": count.most}
    if stops and count.unit == "trial":
        return row | _none(_NEVER_CALLED)
    expected = _expected(claim, condition, count, stated)
    if isinstance(expected, Expected):
        if row["expected"] is None:
            row |= _borrowed(expected, tests_in(condition)[0].ref, count)
        chances = _chances(kind, condition, count, expected.chance)
        row |= {"chances": chances, "chance": chances[_WORDS[kind][0]]}
        row |= {"chance_text": chances_text(chances), "chance_method": CHANCE_METHOD}
    else:
        row |= _none(expected)
    row |= _interval(condition, count, expected if isinstance(expected, Expected) else None)
    if isinstance(claim, Band | Prediction):
        row |= _best(claim.test, count, row["chance_text"] if row["chances"] is None else None)
    at = expected.chance if isinstance(expected, Expected) else None
    row["warnings"] = warnings_of(
        row, condition, values=count.values, at=at, chance_at=count.chance_at
    )
    return row


def _none(why: WhyNot) -> dict[str, Any]:
    return {"why_not": why.text, "reason": why.reason, "chance_text": why.text}


def _kind(claim: Claim) -> Kind:
    match claim:
        case Band():
            return "band"
        case Prediction():
            return "prediction"
        case Refuter():
            return "refuter"
        case _:
            return "decision"


def _one_count(condition: Condition, counts: dict[MetricRef, Count]) -> Count | WhyNot:
    """The one count that a condition is about; or why there is none, in words."""
    refs = list(dict.fromkeys(t.ref for t in tests_in(condition)))
    for ref in refs:
        if ref not in counts:
            what = f"not computed: {ref} is no count of rows whose n is known beforehand"
            return WhyNot("no count", what)
    different = list(dict.fromkeys(str(counts[ref].ref) for ref in refs))
    if len(different) > 1:
        return WhyNot(
            "different counts",
            f"not computed: {' and '.join(different)} are different counts, and how they go "
            "together is not known",
        )
    return counts[refs[0]]


def _expected(
    claim: Claim, condition: Condition, count: Count, stated: list[Expected]
) -> Expected | WhyNot:
    """The expectation of a claim's count, the claim's own before another's; or why none."""
    own = [e for e in stated if e.claim == claim.id]
    if own:
        return own[0]
    if isinstance(claim, Band | Prediction) and claim.expected is not None:
        return WhyNot("cannot occur", "not computed: the expected value cannot occur")
    alike = [e for e in stated if _is_of(e.ref, count)]
    if not alike:
        return WhyNot("no expectation", "no expectation stated (`expected`)")
    if any(not math.isclose(e.chance, alike[0].chance, rel_tol=1e-9) for e in alike):
        what = f"not computed: {', '.join(e.claim for e in alike)} expect different values"
        return WhyNot("different expectations", what)
    refs = {t.ref for t in tests_in(condition)}
    return next((e for e in alike if e.ref in refs), alike[0])  # named; all say the same


def _is_of(ref: MetricRef, count: Count) -> bool:
    name = ref.base.name.removesuffix(".rate").removesuffix(".count") + ".count"
    return MetricRef(name, ref.params) == count.ref


def _borrowed(expected: Expected, ref: MetricRef, count: Count) -> dict[str, Any]:
    """Another claim's expectation, on the scale of this claim's count or share."""
    value = expected.value
    if expected.ref != ref:
        rows = expected.chance * count.most
        value = rows / count.n if is_rate(ref.base.name) else rows
    return {
        "expected": value,
        "expected_from": expected.claim,
        "expected_text": f"{figures(value, 4)}, says {expected.claim}",
    }


def _chances(kind: Kind, condition: Condition, count: Count, p: float) -> dict[str, float]:
    p = min(1.0, p)
    if kind == "band" and isinstance(condition, Test):
        test = condition
        found = outcome_chances(
            count.values(test.ref),
            p,
            low=test.low,
            high=test.high,
            low_open=test.low_open,
            high_open=test.high_open,
        )
        return {"inside": found.inside, "missed low": found.below, "missed high": found.above}
    return dict(zip(_WORDS[kind], chances_of(condition, count, p), strict=True))


def _interval(condition: Condition, count: Count, expected: Expected | None) -> dict[str, Any]:
    """The interval that would be seen at the expected count; else at the middle of a band."""
    test = tests_in(condition)[0]
    if expected is not None:
        share = expected.chance
    elif isinstance(condition, Test) and math.isfinite(test.low) and math.isfinite(test.high):
        share = count.chance_at(test.ref, (test.low + test.high) / 2)
    else:
        return {}
    if not 0.0 <= share <= 1.0 + 1e-12:
        return {}
    k = int(nearest_count(min(1.0, share), count.most))
    unit = 1 if is_rate(test.ref.base.name) else count.n
    low, high = (x * unit for x in wilson_interval(k, count.n, level=LEVEL))
    text = f"[{figures(low)}, {figures(high)}] at {k}/{count.n}"
    seen = min(1.0, share * (count.most / count.n))
    row: dict[str, Any] = {"share": seen, "interval": [low, high]}
    method = "wilson" if unit == 1 else "wilson, times n"
    row |= {"interval_method": method, "level": LEVEL}
    return row | {"width": high - low, "interval_text": text}


def _best(test: Test, count: Count, chance_text: str | None) -> dict[str, Any]:
    """The largest chance of a two-sided claim over all true values; nothing for a one-sided one."""
    held = [k for k, value in enumerate(count.values(test.ref)) if test.holds(float(value))]
    if not held or held[0] == 0 or held[-1] == count.most:
        return {}
    found: BestInside = best_inside(count.most, low=held[0], high=held[-1])
    if found.p is None:
        return {}
    at = found.p * count.most
    row: dict[str, Any] = {"best_inside": {"chance": found.chance, "at": at, "of": count.n}}
    if chance_text is not None:
        row["chance_text"] = (
            f"{chance_text}; at best {shown_chance(found.chance)} (at {figures(at)}/{count.n})"
        )
    return row


def chances_text(chances: dict[str, float]) -> str:
    """Each outcome with its chance; none is rounded to 0 or 1 where another can happen."""
    certain = sum(chance > 0.0 for chance in chances.values()) == 1
    return ", ".join(f"{w} {shown_chance(c, certain=certain)}" for w, c in chances.items())
