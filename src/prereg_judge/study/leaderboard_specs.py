"""The catalogue of the study `leaderboard`: what its metrics are, in words."""

from __future__ import annotations

import math

from prereg_judge.study.metric import MetricSpec, Unit

_VIEW = ("key", "subset")
_SHIFTS = "taking the models' shifts as normal and independent"


def _spec(
    name: str,
    what: str,
    unit: Unit,
    *,
    required: tuple[str, ...] = (),
    optional: tuple[str, ...] = (),
    domain: tuple[float, float | None] = (0.0, 1.0),
) -> MetricSpec:
    return MetricSpec(name, what, unit, required, (*optional, *_VIEW), domain)


SPECS = (
    _spec(
        "credit.mean",
        "mean credit of a model under a pool",
        "share",
        required=("model", "pool"),
    ),
    _spec(
        "tau",
        "Kendall's tau-b between the boards of the two pools, over the same items",
        "correlation",
        optional=("score",),
        domain=(-1.0, 1.0),
    ),
    _spec(
        "displaced.count",
        "models whose place differs between the two boards (ties share the best place)",
        "models",
        optional=("score",),
        domain=(0.0, None),
    ),
    _spec(
        "reversed.count",
        "pairs of neighbours on pool 1's board that stand the other way round on pool 2's",
        "pairs",
        domain=(0.0, None),
    ),
    _spec(
        "gap.adjacent",
        "mean credit of the model at a place minus that of the next, on pool 1's board unless "
        "another is named (the same two models in every resample)",
        "share",
        required=("place",),
        optional=("pool",),
        domain=(0.0, 1.0),
    ),
    _spec(
        "shift.mean",
        "mean credit of a model under pool 2 minus under pool 1",
        "share",
        required=("model",),
        domain=(-1.0, 1.0),
    ),
    _spec(
        "shift.sd",
        "standard deviation of the models' shifts about their mean (n - 1); it holds the noise of "
        "both boards too",
        "share",
        domain=(0.0, math.sqrt(2)),
    ),
    _spec(
        "shift.difference_sd",
        "standard deviation of the difference of two models' shifts, taking shifts as independent: "
        "sqrt(2) times shift.sd",
        "share",
        domain=(0.0, 2.0),
    ),
    _spec(
        "swap.probability",
        "probability that the models at a place of pool 1's board and the next change places, "
        f"{_SHIFTS}",
        "probability",
        required=("place",),
        domain=(0.0, 0.5),
    ),
    _spec(
        "displacement.bootstrap",
        "share of resamples in which at least one model's place differs between the two boards",
        "probability",
        optional=("score",),
    ),
    _spec(
        "displacement.pairs",
        "probability that some neighbours on pool 1's board change places, on its own gaps, "
        f"multiplying pairs as if independent and {_SHIFTS}",
        "probability",
    ),
    _spec(
        "displacement.joint",
        "probability that pool 1's board changes its order, on its own gaps, by joint simulation "
        f"{_SHIFTS}",
        "probability",
    ),
    _spec(
        "displacement.even_pairs",
        "displacement.pairs for so many models spread evenly over the span of the board",
        "probability",
        required=("models",),
    ),
    _spec(
        "displacement.even_joint",
        "displacement.joint for so many models spread evenly over the span of the board",
        "probability",
        required=("models",),
    ),
)
