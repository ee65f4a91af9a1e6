"""Pydantic model of a registration's YAML, and what it means.

The shape of the file is here and nothing else: no file is read, no metric is looked up.
Nothing that can change a number has a default: a key that may be left out changes none.
"""

from __future__ import annotations

from datetime import date
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    model_validator,
)

from prereg_judge.canon import nfc
from prereg_judge.registration.schema_claims import (
    BandModel,
    DecisionModel,
    ListOf,
    PredictionModel,
    RefuterModel,
    Slug,
    StopModel,
    Strict,
    Text,
    wrong,
)
from prereg_judge.registration.schema_model import LocalModel, Model
from prereg_judge.registration.schema_protocol import Executor, Protocol
from prereg_judge.registration.schema_tables import (
    Annotations,
    AssumedModel,
    JudgeTable,
    PathText,
    ResamplingModel,
    refuse_unpaired,
)
from prereg_judge.study.outcomes import Resolve
from prereg_judge.words import ExposureLevel, Missing

STUDIES_OF_TABLES = ("pools", "judge-pools", "leaderboard")
STUDIES_OF_PAIRS = ("pairwise", *STUDIES_OF_TABLES)
# What people or models marked, or how they labelled: read from tables, and no pairs of answers.
STUDIES_OF_LABELLINGS = ("reference-swap", "annotators")
CLAIM_SECTIONS = ("bands", "predictions", "refuters", "stop", "decisions")


def _version_one(value: Any) -> Any:
    if type(value) is not int or value != 1:
        raise wrong("this version reads registrations of form 1 only", "write `prereg: 1`")
    return value


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


class Exposure(Strict):
    """What had been seen before this was written; the lock adds what the ledger knows."""

    seen: Annotated[Text, Field(description="What had already been run or seen of these inputs.")]
    level: Annotated[
        ExposureLevel | None,
        Field(
            description="How much had been seen, where it is more than the ledger knows: `none`; "
            "`partly` = the judge or the model, on other items; `items` = some of the items, by "
            "another judge or model; `full` = some of the items, by this judge and this model."
        ),
    ] = None


class SampleSize(Strict):
    """Why so many items and passes, and what was wanted of them."""

    why: Annotated[Text, Field(description="Why this number of items and passes, in words.")]
    width: Annotated[
        float | None,
        Field(
            gt=0,
            description="Wanted width of the interval of the primary claim's metric, in its own "
            "unit (rows for a count, 0 to 1 for a share); the lock says how many rows that takes.",
        ),
    ] = None
    power: Annotated[
        float | None,
        Field(
            gt=0,
            lt=1,
            description="Wanted chance that the primary claim holds if its `expected` is true; the "
            "lock says how many rows that takes.",
        ),
    ] = None


def _a_date(value: str) -> str:
    try:
        fits = date.fromisoformat(value).isoformat() == value
    except ValueError:
        fits = False
    if not fits:
        raise wrong("is not a date", 'write year, month, day, in quotes, as "2027-01-31"')
    return value


Due = Annotated[str, AfterValidator(_a_date)]


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
        Literal[
            "self-agreement",
            "path-fidelity",
            "pairwise",
            "pools",
            "judge-pools",
            "leaderboard",
            "reference-swap",
            "annotators",
        ],
        Field(description="The kind of study, which gives the metrics."),
    ]
    judge: Annotated[PathText, Field(description="Path of the judge file.")]
    items: Annotated[Items, Field(description="The item sets: sentinel, real or both.")]
    model: Annotated[Model, Field(description="The model file and the settings it is loaded with.")]
    protocol: Annotated[
        Protocol, Field(description="Passes, decoding, limits: how each trial is made.")
    ]
    executor: Annotated[
        Executor | None, Field(description="Who makes the calls; left out = one local process.")
    ] = None
    annotations: Annotated[
        Annotations | None,
        Field(description="Votes of annotators on the same items, in pools."),
    ] = None
    resolve: Annotated[
        Resolve | None,
        Field(
            description="How the verdicts on a pair's two orders become one: `agree_or_tie` = what "
            "both say, else a tie; `average` = the sign of their sum; `first` = that of `ab`."
        ),
    ] = None
    resampling: Annotated[
        ResamplingModel | None,
        Field(description="The bootstrap over items, for studies of pairs and of labellings."),
    ] = None
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
    primary: Annotated[
        Slug | None,
        Field(description="Id of the one band or prediction that the question is about."),
    ] = None
    sample_size: Annotated[
        SampleSize | None, Field(description="Why so many items and passes.")
    ] = None
    exposure: Annotated[Exposure, Field(description="What had been seen before.")]
    due: Annotated[
        Due | None,
        Field(description="Day (UTC) by whose end a result is due; `status` shows what is late."),
    ] = None
    notes: Annotated[
        str | None, Field(description="Anything else a reader should know; changes nothing.")
    ] = None

    @property
    def calls(self) -> bool:
        """Whether a judge is run; otherwise everything is read from tables."""
        return True

    @property
    def judges(self) -> tuple[JudgeTable, ...]:
        """The judges whose verdicts are there already."""
        return ()

    @property
    def assumed(self) -> AssumedModel | None:
        """Registered values for evenly spread boards."""
        return None

    @model_validator(mode="after")
    def _pairs_fit(self) -> Self:
        if self.study in (*STUDIES_OF_PAIRS, *STUDIES_OF_LABELLINGS):
            if self.resampling is None:
                what, remedy = "is missing", "add `resampling`: resamples, seed and by_stratum"
                raise wrong(f"`resampling` {what}", remedy)
            if self.annotations is not None and self.study in STUDIES_OF_PAIRS:
                refuse_unpaired(self.annotations)
            return self
        for name in ("annotations", "resolve", "resampling"):
            if getattr(self, name) is not None:
                studies = ", ".join(STUDIES_OF_PAIRS)
                remedy = f"leave it out; it is for {studies}"
                raise wrong(f"`{name}` is not for {self.study}", remedy, at=(name,))
        if "ba" in self.protocol.orders and self.study == "self-agreement":
            what, remedy = "the order `ba` is for pairs", "write `orders: [ab]`"
            raise wrong(what, remedy, at=("protocol", "orders"))
        return self

    @model_validator(mode="after")
    def _study_fits(self) -> Self:
        protocol, arms = self.protocol, self.protocol.arms
        if self.study != "path-fidelity":
            if arms is not None:
                raise wrong(
                    "`arms` belong to the study path-fidelity",
                    "leave them out",
                    at=("protocol", "arms"),
                )
            return self
        if arms is None or len(arms) != 2 or protocol.passes != 2:
            two = arms is not None and len(arms) == 2
            raise wrong(
                "path-fidelity compares two arms, one a pass",
                "give two `arms` and `passes: 2`",
                at=("protocol", "passes" if two else "arms") if arms else ("protocol",),
            )
        if protocol.decoding.mode == "sampled":
            raise wrong(
                "fresh draws differ whatever the path",
                "write `mode: seeded` or `mode: greedy`",
                at=("protocol", "decoding"),
            )
        if arms[0] == arms[1]:
            raise wrong(
                "the two arms are the same",
                "set something otherwise in one of them",
                at=("protocol", "arms"),
            )
        return self

    @model_validator(mode="after")
    def _backend_fits(self) -> Self:
        protocol = self.protocol
        if isinstance(self.model, LocalModel):
            return self
        if protocol.path == "choice" or any(a.path == "choice" for a in protocol.arms or ()):
            raise wrong(
                "a server gives no logits to choose by",
                "write `path: generate`",
                at=("protocol", "path"),
            )
        if protocol.thinking is not None:
            raise wrong(
                "a server's thinking is set there",
                "use `model.template_args`, or its own switch",
                at=("protocol", "thinking"),
            )
        if self.executor is not None:
            raise wrong(
                "servers are named by `base_urls`", "leave `executor` out", at=("executor",)
            )
        for arm in protocol.arms or ():
            if (arm.n_gpu_layers, arm.n_threads, arm.n_batch) != (None, None, None):
                raise wrong(
                    "a server loads its own model",
                    "compare prefix or parallel only",
                    at=("protocol", "arms"),
                )
        return self

    @model_validator(mode="after")
    def _primary_fits(self) -> Self:
        ids = self.expectations
        if self.primary is not None and self.primary not in ids:
            raise wrong(
                "is the id of no band or prediction",
                f"write one of {', '.join(ids)}" if ids else "register a band or a prediction",
                at=("primary",),
            )
        return self

    @property
    def expectations(self) -> tuple[str, ...]:
        """Ids of the bands and predictions, in the order of the file."""
        return (*(b.id for b in self.bands), *(p.id for p in self.predictions))

    @property
    def primary_claim(self) -> str | None:
        """The claim that the question is about: the one named, or the only one there is."""
        only = self.expectations[0] if len(self.expectations) == 1 else None
        return self.primary or only

    @model_validator(mode="after")
    def _ids_once(self) -> Self:
        ids = [c.id for section in CLAIM_SECTIONS for c in getattr(self, section)]
        again = sorted({i for i in ids if ids.count(i) > 1})
        if again:
            raise wrong(f"claim ids given twice: {', '.join(again)}", "give each claim its own id")
        return self


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
