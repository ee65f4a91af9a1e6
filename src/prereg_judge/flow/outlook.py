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
from prereg_judge.stats.proportions import binomial_chance_within, wilson_interval
from prereg_judge.study.metric import MetricRef
from prereg_judge.study.self_agreement import LEVEL

_EVERY_ROW = ("agreement", "ships.any", "ships.all", "ships.some", "ships.none", "verdict")


def outlook(inputs: Inputs) -> list[dict[str, Any]]:
    """One row a band or prediction, with JSON values and the texts shown to a person."""
    claims: list[Band | Prediction] = [*inputs.claims.bands, *inputs.claims.predictions]
    return [_row(inputs, claim) for claim in claims]


def _row(inputs: Inputs, claim: Band | Prediction) -> dict[str, Any]:
    ref, test = claim.test.ref, claim.test
    row: dict[str, Any] = {"id": claim.id, "registered": str(test), "n": _rows(inputs, ref)}
    row |= {"expected": claim.expected, "chance": None, "interval": None, "interval_text": "-"}
    n = row["n"]
    if n is None:
        row["chance_text"] = "not computed for this metric"
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


def _rows(inputs: Inputs, ref: MetricRef) -> int | None:
    """How many rows the metric counts over, where that is known before the run.

    With `missing: exclude` it is the most there can be.
    """
    role, _, rest = ref.name.partition(".")
    params = dict(ref.params)
    if not any(rest in (f"{stem}.count", f"{stem}.rate") for stem in _EVERY_ROW):
        return None
    for item_set in inputs.sets:
        if item_set.role == role:
            return len(inputs.model.protocol.orders) * sum(
                1
                for item in item_set.items
                if params.get("kind", item.kind) == item.kind
                and params.get("stratum", item.stratum) == item.stratum
            )
    return None
