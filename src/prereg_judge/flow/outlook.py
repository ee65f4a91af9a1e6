"""What a registration's claims are worth before any call: chances and widths.

Under the registrant's own expectation (`expected`), a count of n rows is taken as binomial: rows
independent, all with the same chance. Where none is stated nothing is assumed; the middle of the
band is used for the width only.
"""

from __future__ import annotations

import math
from typing import Any

from prereg_judge.flow.prepare import Inputs
from prereg_judge.registration.claims import Band, Prediction, Test
from prereg_judge.registration.reach import known_n
from prereg_judge.stats.proportions import binomial_chance_within, wilson_interval
from prereg_judge.study.self_agreement import LEVEL


def outlook(inputs: Inputs) -> list[dict[str, Any]]:
    """One row a band or prediction, with JSON values and the texts shown to a person."""
    claims: list[Band | Prediction] = [*inputs.claims.bands, *inputs.claims.predictions]
    return [_row(inputs, claim) for claim in claims]


def _row(inputs: Inputs, claim: Band | Prediction) -> dict[str, Any]:
    ref, test = claim.test.ref, claim.test
    known = known_n(ref, inputs.facts) if ref == ref.base else None
    row: dict[str, Any] = {"id": claim.id, "registered": str(test), "n": known}
    row |= {"expected": claim.expected, "chance": None, "interval": None, "interval_text": "-"}
    n = known
    if n is None:
        row["chance_text"] = "n is known after the run only"
        return row
    scale = n if ref.name.endswith(".rate") else 1
    if claim.expected is not None:
        row["chance"] = chance(test, n=n, expected=claim.expected * scale / n, scale=scale)
        row["chance_text"] = f"{row['chance']:.3f} if {claim.expected:g} is true (binomial)"
    else:
        row["chance_text"] = "no expectation stated (`expected`)"
    at = claim.expected if claim.expected is not None else _middle(test)
    if at is not None and 0 <= at * scale <= n:
        k = round(at * scale)
        low, high = wilson_interval(k, n, level=LEVEL)
        unit = 1 if scale == n else n
        row["interval"] = [low * unit, high * unit]
        row["interval_text"] = f"[{low * unit:.3g}, {high * unit:.3g}] at {k}/{n}"
    return row


def chance(test: Test, *, n: int, expected: float, scale: int) -> float:
    """P(the test holds) when the count is Binomial(n, `expected`), `expected` in [0, 1].

    `scale` is n where the test speaks of a share, 1 where it speaks of a count.
    """
    held = [k for k in range(n + 1) if test.holds(k / n if scale == n else k)]
    if not held:
        return 0.0
    return binomial_chance_within(n, expected, low=held[0], high=held[-1])


def _middle(test: Test) -> float | None:
    if math.isfinite(test.low) and math.isfinite(test.high):
        return (test.low + test.high) / 2
    return None
