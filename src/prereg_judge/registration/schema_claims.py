"""Pydantic models of the claims in a registration's YAML: bands, predictions, refuters, ...

Knows the shape of the file only; whether a metric exists is `lint`'s question.
"""

from __future__ import annotations

from typing import Annotated, Any, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    Tag,
    model_validator,
)
from pydantic_core import PydanticCustomError

from prereg_judge.strict_yaml import YamlPath
from prereg_judge.study.table_metrics import MOST_MODELS

SLUG = r"^[a-z0-9][a-z0-9-]{0,63}$"
LIMIT_KEYS = ("lt", "le", "gt", "ge", "eq", "between")
PREDICTION_KEYS = ("at_least", "at_most", "between")


class Strict(BaseModel):
    """Base of every model here: unknown keys refused, no coercion, frozen."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, strict=True, allow_inf_nan=False, validate_default=True
    )


def wrong(
    what: str, remedy: str, *, at: YamlPath = (), secret: bool = False
) -> PydanticCustomError:
    """An error whose text is ours and that carries its remedy.

    `at` is the entry below this one that it is about; `secret` keeps the value found there out of
    the message.
    """
    # The braces of a template are pydantic's own; what is said here is said literally.
    context = {"what": what, "remedy": remedy, "at": list(at), "secret": secret}
    return PydanticCustomError("prereg", "{what}", context)


def _as_tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _ascending(limits: tuple[float, float]) -> tuple[float, float]:
    if limits[0] > limits[1]:
        raise wrong("the limits are reversed", "write the smaller limit first")
    return limits


def _filled(text: str) -> str:
    if not text.strip():
        raise wrong("is empty", "write a sentence")
    return text


def _named(text: str) -> str:
    if not text.strip():
        raise wrong("is empty", "write the name, or remove the key")
    return text


ListOf = BeforeValidator(_as_tuple)
Text = Annotated[str, AfterValidator(_filled)]
Name = Annotated[str, AfterValidator(_named)]
Slug = Annotated[str, Field(pattern=SLUG)]
Limits = Annotated[tuple[float, float], ListOf, AfterValidator(_ascending)]


class MetricParams(Strict):
    """A metric's name and its parameters, as keys of the mapping that uses the metric."""

    metric: Annotated[Name, Field(description="Name of the metric, as `prereg metrics` lists it.")]
    kind: Annotated[
        Name | None, Field(description="Count only the items of this kind.")
    ] = None  # fmt: skip
    stratum: Annotated[Name | None, Field(description="Count only the items of this stratum.")] = (
        None
    )
    verdict: Annotated[Name | None, Field(description="The verdict that the metric is about.")] = (
        None
    )
    to: Annotated[Name | None, Field(description="The verdict that it changed to.")] = None
    pass_: Annotated[
        int | None, Field(alias="pass", ge=1, description="Count only this pass, from 1.")
    ] = None
    from_run: Annotated[
        Name | None, Field(description="Id of the earlier run that this one is compared with.")
    ] = None
    from_pass: Annotated[
        int | None, Field(ge=1, description="Which pass of the earlier run, from 1.")
    ] = None
    reason: Annotated[
        Name | None, Field(description="Count only calls without a verdict for this reason.")
    ] = None
    temperature: Annotated[
        float | None, Field(gt=0, description="Expect it at this temperature, not the registered.")
    ] = None

    order: Annotated[Name | None, Field(description="Only this order of a pair: ab or ba.")] = None
    scale: Annotated[
        Name | None, Field(description="What is compared: `side` = which answer, `verdict` = all.")
    ] = None
    pool: Annotated[Name | None, Field(description="The pool of annotators it is about.")] = None
    judge: Annotated[Name | None, Field(description="The judge it is about.")] = None
    side: Annotated[
        Name | None, Field(description="Whose side is taken: a pool's, or neither.")
    ] = None
    subset: Annotated[
        Name | None,
        Field(
            description="Rows: `both` = of both pools, `free` = convention-free; `all` = every "
            "row, `decontaminated` = without those on which gold repeats an output."
        ),
    ] = None
    key: Annotated[
        Name | None, Field(description="Keyed `stored` or `unordered`, not as registered.")
    ] = None
    model: Annotated[Name | None, Field(description="The model it is about.")] = None
    score: Annotated[
        Name | None, Field(description="How models are scored: credit or bradley-terry.")
    ] = None
    place: Annotated[
        int | None, Field(ge=1, description="Between this place of the board and the next.")
    ] = None
    models: Annotated[
        int | None, Field(ge=2, le=MOST_MODELS, description="Number of evenly spread models.")
    ] = None
    tertile: Annotated[
        int | None, Field(ge=1, le=3, description="Third of the quality gap, 1 = the smallest.")
    ] = None
    output: Annotated[Name | None, Field(description="The labelling that is scored.")] = None
    other: Annotated[
        Name | None, Field(description="What it is compared with: an output, annotator or pool.")
    ] = None
    reference: Annotated[
        Name | None, Field(description="The labelling that is scored against.")
    ] = None
    match: Annotated[
        Name | None, Field(description="How marks match: strict, relaxed or coarse.")
    ] = None
    duplicates: Annotated[
        Name | None, Field(description="Rows of one item: keep_all, first, drop or merge_equal.")
    ] = None
    annotator: Annotated[Name | None, Field(description="The annotator it is about.")] = None
    label: Annotated[Name | None, Field(description="The label it is about.")] = None
    labels: Annotated[
        Name | None, Field(description="`fine` = labels as given; `coarse` = as the map merges.")
    ] = None
    level: Annotated[
        Name | None, Field(description="What differences mean: nominal, ordinal or interval.")
    ] = None
    weights: Annotated[
        Name | None, Field(description="Weights of disagreements: linear or quadratic.")
    ] = None
    policy: Annotated[
        Name | None,
        Field(description="How labels are resolved: majority, adjudicated or unanimous."),
    ] = None

    def params(self) -> dict[str, str | int | float]:
        """The parameters that are given, by the name they have in the file; 1.0 reads as 1."""
        names = set(MetricParams.model_fields) - {"metric"}
        given = self.model_dump(include=names, by_alias=True, exclude_none=True)
        heat = self.temperature
        return {**given, "temperature": int(heat)} if heat and heat.is_integer() else given


def _exactly_one(model: BaseModel, names: tuple[str, ...]) -> None:
    given = [n for n in names if getattr(model, n) is not None]
    if len(given) != 1:
        what = f"has both {' and '.join(given)}" if given else "has no limit"
        raise wrong(what, f"give exactly one of {', '.join(names)}")


class TestModel(MetricParams):
    """A metric compared with one limit, or with two."""

    __test__ = False

    lt: Annotated[float | None, Field(description="True below this value.")] = None
    le: Annotated[float | None, Field(description="True at or below this value.")] = None
    gt: Annotated[float | None, Field(description="True above this value.")] = None
    ge: Annotated[float | None, Field(description="True at or above this value.")] = None
    eq: Annotated[float | None, Field(description="True at exactly this value.")] = None
    between: Annotated[
        Limits | None, Field(description="True from the first value to the second, both included.")
    ] = None

    @model_validator(mode="after")
    def _one_limit(self) -> Self:
        _exactly_one(self, LIMIT_KEYS)
        return self


class AllModel(Strict):
    """True when every one of the conditions is true."""

    all: Annotated[
        tuple[ConditionModel, ...],
        ListOf,
        Field(min_length=1, description="Conditions of which every one must be true."),
    ]


class AnyModel(Strict):
    """True when at least one of the conditions is true."""

    any: Annotated[
        tuple[ConditionModel, ...],
        ListOf,
        Field(min_length=1, description="Conditions of which at least one must be true."),
    ]


def _which(value: Any) -> str:
    if isinstance(value, AllModel) or (isinstance(value, dict) and "all" in value):
        return "all"
    if isinstance(value, AnyModel) or (isinstance(value, dict) and "any" in value):
        return "any"
    return "test"


ConditionModel = Annotated[
    Annotated[TestModel, Tag("test")]
    | Annotated[AllModel, Tag("all")]
    | Annotated[AnyModel, Tag("any")],
    Discriminator(_which),
]

AllModel.model_rebuild()
AnyModel.model_rebuild()

ClaimId = Annotated[
    Slug, Field(description="Short name of the claim: small letters, digits, hyphens; unique.")
]
Expected = Annotated[
    float | None,
    Field(description="Your own best guess of the value; used to say how likely a pass is."),
]


class BandModel(MetricParams):
    """An interval in which a metric is registered to lie."""

    id: ClaimId
    between: Annotated[
        Limits, Field(description="Lower and upper limit, both included, the smaller first.")
    ]
    expected: Expected = None


class PredictionModel(MetricParams):
    """An expectation about a metric, one-sided or two-sided."""

    id: ClaimId
    at_least: Annotated[
        float | None, Field(description="The prediction holds at or above this value.")
    ] = None
    at_most: Annotated[
        float | None, Field(description="The prediction holds at or below this value.")
    ] = None
    between: Annotated[
        Limits | None, Field(description="It holds from the first value to the second.")
    ] = None
    expected: Expected = None

    @model_validator(mode="after")
    def _one_limit(self) -> Self:
        _exactly_one(self, PREDICTION_KEYS)
        return self


class RefuterModel(Strict):
    """A condition that refutes the account if it is true."""

    id: ClaimId
    when: Annotated[ConditionModel, Field(description="The condition that refutes the account.")]
    means: Annotated[Text, Field(description="What it would show, in a sentence.")]


class StopModel(Strict):
    """A condition on counts of calls that ends collection."""

    id: ClaimId
    when: Annotated[TestModel, Field(description="One comparison of a metric that is live.")]
    in_every: Annotated[
        int | None, Field(ge=1, description="Length of the window, in successive calls.")
    ] = None
    over_first: Annotated[
        int | None, Field(ge=1, description="Windows are looked at among this many first calls.")
    ] = None

    @model_validator(mode="after")
    def _window(self) -> Self:
        if (self.in_every is None) != (self.over_first is None):
            raise wrong("has half a window", "give both in_every and over_first, or neither")
        if self.in_every and self.over_first and self.in_every > self.over_first:
            raise wrong("the window is longer than what it slides over", "make over_first larger")
        return self


class DecisionModel(Strict):
    """A registered "if X then do Y"."""

    id: ClaimId
    when: Annotated[ConditionModel, Field(description="The condition.")]
    then: Annotated[Text, Field(description="What will be done if it is true, in a sentence.")]
