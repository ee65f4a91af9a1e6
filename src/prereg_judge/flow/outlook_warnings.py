"""What a registrant should hear of a claim before it is locked: plain sentences with numbers."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

from prereg_judge.registration.claims import Condition, Test
from prereg_judge.report.numbers import chance as shown_chance
from prereg_judge.report.numbers import figures, of_things, plain
from prereg_judge.stats.chances import Floats
from prereg_judge.study.metric import MetricRef

# A band that no true value fills with this chance misses one run in five at best: as often as a
# study planned with the usual power of 80% fails to find what is there.
ENOUGH_INSIDE = 0.8
# From here on, and below 1 minus this, a result tells nearly nothing that was not said before.
NEARLY_CERTAIN = 0.99
# A refuter that fires more often than the usual 5% of false alarms though the account is true.
FALSE_ALARM = 0.05
# A claim that holds at this share of the counts that can occur names nearly no risk.
NEARLY_ALL = 0.95


def warnings_of(
    row: dict[str, Any],
    condition: Condition,
    *,
    values: Callable[[MetricRef], Floats],
    at: float | None,
    chance_at: Callable[[MetricRef, float], float],
) -> list[str]:
    """Warnings about one claim.

    Parameters
    ----------
    row
        The claim's numbers: `kind`, `n`, `chance`, `best_inside`, `expected_text`.
    condition
        What is registered.
    values
        What a metric is at each count that can occur.
    at
        The expected chance of a row; None where nothing is expected.
    chance_at
        The chance of a row at which a metric is expected to have a value.

    Returns
    -------
    list of str
        Sentences; empty where there is nothing to say. Decisions get none: one that is nearly
        certain, or never taken, is what a kill rule is for.
    """
    if row["kind"] == "refuter":
        return list(_of_refuter(row))
    if row["kind"] == "decision" or not isinstance(condition, Test):
        return []
    return [
        *_too_narrow(row),
        *_settled(row),
        *_coin_toss(row, condition, at=at, chance_at=chance_at),
        *_nearly_all(row, condition, values(condition.ref)),
    ]


def _of_refuter(row: dict[str, Any]) -> Iterator[str]:
    if row["chance"] is not None and row["chance"] >= FALSE_ALARM:
        sure = row["chances"]["silent"] == 0.0
        how = (
            "is certain to fire"
            if sure
            else f"fires with a chance of {shown_chance(row['chance'], beside=FALSE_ALARM)}"
        )
        yield (
            f"{how} though the expected value "
            f"({row['expected_text']}) is true; it should stay below {FALSE_ALARM:g}"
        )


def _too_narrow(row: dict[str, Any]) -> Iterator[str]:
    best = row["best_inside"]
    if best is not None and best["chance"] < ENOUGH_INSIDE:
        yield (
            f"narrower than sampling noise alone: no true value lands inside with a chance of "
            f"{ENOUGH_INSIDE:g}; the best chance is "
            f"{shown_chance(best['chance'], beside=ENOUGH_INSIDE)}, "
            f"at a true value of {figures(best['at'])} of {best['of']}"
        )


def _settled(row: dict[str, Any]) -> Iterator[str]:
    chance = row["chance"]
    word = "inside" if row["kind"] == "band" else "held"
    given = f"if the expected value ({row['expected_text']}) is true"
    if chance is None:
        return
    if chance >= NEARLY_CERTAIN:
        missed = math.fsum(c for w, c in row["chances"].items() if w != word)
        if missed == 0.0:
            yield (
                f"certain {given}: no other outcome than {word} can occur, "
                "so that it says nothing beyond the expectation"
            )
            return
        yield (
            f"nearly certain {given}: any other outcome than {word} has a chance of "
            f"{shown_chance(missed)}, so that it says little beyond the expectation"
        )
    elif chance == 0.0:
        yield f"impossible {given}: {word} cannot occur"
    elif chance <= 1.0 - NEARLY_CERTAIN:
        yield f"nearly impossible {given}: {word} has a chance of {shown_chance(chance)}"


def _coin_toss(
    row: dict[str, Any],
    test: Test,
    *,
    at: float | None,
    chance_at: Callable[[MetricRef, float], float],
) -> Iterator[str]:
    # Where the expectation is 0 or 1 there is no toss: the count is certain.
    if at is None or not 0.0 < at < 1.0:
        return
    for limit in test.limits:
        if math.isclose(chance_at(test.ref, limit), at, rel_tol=1e-9):
            yield (
                f"its limit {plain(limit)} is what is expected, so that chance alone decides on "
                f"which side of it a result falls (chance to hold {shown_chance(row['chance'])})"
            )


def _nearly_all(row: dict[str, Any], test: Test, values: Floats) -> Iterator[str]:
    held = sum(test.holds(float(v)) for v in values)
    if held >= NEARLY_ALL * len(values):
        yield (
            f"holds at {held} of the {len(values)} counts that can occur of "
            f"{of_things(row['n'], row['unit'])}, whatever is expected"
        )
