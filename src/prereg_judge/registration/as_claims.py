"""The claims of a registration's YAML as plain values, which is all that scoring sees of them."""

from __future__ import annotations

import math

from prereg_judge.registration.claims import (
    Band,
    Claims,
    Combined,
    Condition,
    Decision,
    Prediction,
    Refuter,
    StopRule,
    Test,
)
from prereg_judge.registration.schema import Registration
from prereg_judge.registration.schema_claims import (
    AllModel,
    AnyModel,
    MetricParams,
    PredictionModel,
    TestModel,
)
from prereg_judge.study.metric import MetricRef


def to_claims(model: Registration) -> Claims:
    """The registration's claims as plain values, in the order of the file."""
    return Claims(
        bands=tuple(Band(b.id, Test(ref_of(b), *b.between), b.expected) for b in model.bands),
        predictions=tuple(
            Prediction(p.id, _prediction_test(p), p.expected) for p in model.predictions
        ),
        refuters=tuple(Refuter(r.id, _condition(r.when), r.means) for r in model.refuters),
        stops=tuple(StopRule(s.id, _test(s.when), s.in_every, s.over_first) for s in model.stop),
        decisions=tuple(Decision(d.id, _condition(d.when), d.then) for d in model.decisions),
    )


def ref_of(model: MetricParams) -> MetricRef:
    """The metric that a mapping names, with its parameters."""
    return MetricRef.of(model.metric, **model.params())


def _prediction_test(model: PredictionModel) -> Test:
    if model.between is not None:
        return Test(ref_of(model), *model.between)
    low = -math.inf if model.at_least is None else model.at_least
    high = math.inf if model.at_most is None else model.at_most
    return Test(ref_of(model), low, high)


def _test(model: TestModel) -> Test:
    ref = ref_of(model)
    if model.between is not None:
        return Test(ref, *model.between)
    if model.eq is not None:
        return Test(ref, model.eq, model.eq)
    if model.lt is not None:
        return Test(ref, high=model.lt, high_open=True)
    if model.le is not None:
        return Test(ref, high=model.le)
    if model.gt is not None:
        return Test(ref, low=model.gt, low_open=True)
    assert model.ge is not None  # one of the six, by `_one_limit`
    return Test(ref, low=model.ge)


def _condition(model: TestModel | AllModel | AnyModel) -> Condition:
    if isinstance(model, AllModel):
        return Combined("all", tuple(_condition(m) for m in model.all))
    if isinstance(model, AnyModel):
        return Combined("any", tuple(_condition(m) for m in model.any))
    return _test(model)
