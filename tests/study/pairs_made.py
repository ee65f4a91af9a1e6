"""Small runs of a judge of pairs, written as what it said, and short ways to ask for a metric."""

from __future__ import annotations

from collections.abc import Sequence

from prereg_judge.shape import Shape
from prereg_judge.study import pairwise
from prereg_judge.study.metric import Metric, MetricRef
from prereg_judge.study.outcomes import (
    CallView,
    ItemView,
    Outcome,
    PairScale,
    Resampling,
    Resolve,
    StudyInput,
    TrialKey,
)
from prereg_judge.words import DecodingMode, Missing, Order

# From "the first answer shown is clearly better" to "the second is".
FIVE = PairScale({"AA": 2, "A": 1, "tie": 0, "B": -1, "BB": -2})
THREE = PairScale({"A": 1, "tie": 0, "B": -1})
FORCED = PairScale({"A": 1, "B": -1})
BOOTSTRAP = Resampling(resamples=400, seed=5)

# What was said in order ab and in order ba, in each pass; None is a trial that hung.
Said = tuple[Sequence[str | None], Sequence[str | None]]


def once(*cells: tuple[str | None, str | None]) -> list[Said]:
    """Items of a single pass, each as (said in ab, said in ba)."""
    return [([ab], [ba]) for ab, ba in cells]


def make(
    said: Sequence[Said],
    *,
    pair: PairScale | None = FIVE,
    orders: tuple[Order, ...] = ("ab", "ba"),
    labels: Sequence[str | None] | None = None,
    strata: Sequence[str | None] | None = None,
    shapes: Sequence[tuple[Shape, Shape] | None] | None = None,
    missing: Missing = "disagree",
    resolve: Resolve | None = None,
    resampling: Resampling | None = BOOTSTRAP,
    decoding: DecodingMode = "sampled",
) -> StudyInput:
    """Real items p0, p1, ... in these orders; verdicts are mapped as a run maps them."""
    scale = pair or THREE
    items = tuple(
        ItemView(
            "real",
            f"p{i}",
            f"content-{i}",
            label=labels[i] if labels else None,
            stratum=strata[i] if strata else None,
            shapes=shapes[i] if shapes else None,
        )
        for i in range(len(said))
    )
    outcomes = {}
    for i, both in enumerate(said):
        for order, passes in zip(("ab", "ba"), both, strict=True):
            for p, word in enumerate(passes if order in orders else (), start=1):
                key = TrialKey("real", f"p{i}", "ab" if order == "ab" else "ba", p)
                mapped = None if word is None else scale.mapped(word, key.order)
                outcomes[key] = Outcome(mapped, None if word else "hang", 1)
    calls = tuple(CallView(key, 1, o.unscored, 1.0) for key, o in outcomes.items())
    return StudyInput(
        items,
        outcomes,
        calls,
        tuple(scale.sides),
        None,
        max((len(both[0]) for both in said), default=1),
        orders,
        missing,
        decoding,
        {},
        pair=pair,
        resolve=resolve,
        resampling=resampling,
    )


def get(data: StudyInput, name: str, **params: object) -> Metric:
    """One metric of the real items, by its name without the set."""
    ref = MetricRef.of(f"real.{name}", **params)
    return pairwise.compute(data, [ref])[ref]


def ratio(data: StudyInput, name: str, **params: object) -> tuple[int | None, int | None]:
    """k and n of a count; its rate must say the same."""
    count, rate = get(data, f"{name}.count", **params), get(data, f"{name}.rate", **params)
    assert count.undefined is None, count
    assert (count.k, count.n, rate.undefined) == (rate.k, rate.n, None)
    assert count.value == count.k
    return count.k, count.n


def why(data: StudyInput, name: str, **params: object) -> str | None:
    """The reason of a metric that must have no value."""
    found = get(data, name, **params)
    assert found.value is None
    return found.undefined
