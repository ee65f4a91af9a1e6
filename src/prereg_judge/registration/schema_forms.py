"""The two forms of a registration: one that calls a judge, and one that reads tables alone.

Which of them a file is to have follows from its study; their JSON Schema together is here too.
"""

from __future__ import annotations

from typing import Annotated, Any, Self

from pydantic import BeforeValidator, Field, TypeAdapter, model_validator
from pydantic.json_schema import SkipJsonSchema

from prereg_judge.registration.schema import (
    STUDIES_OF_LABELLINGS,
    STUDIES_OF_TABLES,
    Items,
    Registration,
)
from prereg_judge.registration.schema_claims import ListOf, wrong
from prereg_judge.registration.schema_labellings import (
    Adjudication,
    Family,
    Labellings,
    Merge,
    Scale,
    refuse_unfit_annotators,
    refuse_unfit_swap,
)
from prereg_judge.registration.schema_model import NO_MODEL, Model
from prereg_judge.registration.schema_protocol import NO_PROTOCOL, Executor, Protocol
from prereg_judge.registration.schema_tables import AssumedModel, JudgeTable, PathText
from prereg_judge.words import Missing


def _no_calls(_value: Any) -> Any:
    raise wrong("nothing is called here: everything is read from tables", "leave it out")


# Marks what a registration without calls lacks: refused where it is given, absent from its schema
# and from its meaning.
_Absent = (
    BeforeValidator(_no_calls),
    Field(exclude=True, validate_default=False, description="Not here: nothing is called."),
)


# Keys of the studies of labellings, and those that each of them has.
_OF_LABELLINGS = ("labellings", "merge", "family", "scale", "adjudication")
_KEYS = {
    "reference-swap": ("labellings", "merge", "family"),
    "annotators": ("labellings", "merge", "scale", "adjudication"),
}


class TableRegistration(Registration):
    """A registration that runs no judge: votes and verdicts are read from tables.

    What is about calls has a value that stands for nothing, so that whoever counts trials or
    passes finds none and one.
    """

    judge: SkipJsonSchema[Annotated[PathText, *_Absent]] = ""
    items: SkipJsonSchema[Annotated[Items, *_Absent]] = Items.model_construct()
    model: SkipJsonSchema[Annotated[Model, *_Absent]] = NO_MODEL
    protocol: SkipJsonSchema[Annotated[Protocol, *_Absent]] = NO_PROTOCOL
    missing: SkipJsonSchema[Annotated[Missing, *_Absent]] = "exclude"
    executor: SkipJsonSchema[Annotated[Executor | None, *_Absent]] = None
    judge_tables: Annotated[
        tuple[JudgeTable, ...],
        ListOf,
        Field(alias="judges", description="Judges whose verdicts are there already."),
    ] = ()
    assumed_board: Annotated[
        AssumedModel | None,
        Field(alias="assumed", description="Values for evenly spread boards; left out = measured."),
    ] = None
    labellings: Annotated[
        Labellings | None, Field(description="Spans or labels of the same items, by several.")
    ] = None
    merge: Merge = None
    family: Family = None
    scale: Annotated[
        Scale | None, Field(description="What the order of labels means; left out = nothing.")
    ] = None
    adjudication: Annotated[
        Adjudication | None, Field(description="Labels that an adjudicator gave.")
    ] = None

    @property
    def calls(self) -> bool:
        """Nothing is called."""
        return False

    @property
    def judges(self) -> tuple[JudgeTable, ...]:
        """The judges whose verdicts are there already."""
        return self.judge_tables

    @property
    def assumed(self) -> AssumedModel | None:
        """Registered values for evenly spread boards."""
        return self.assumed_board

    @model_validator(mode="after")
    def _labellings_fit(self) -> Self:
        given = [name for name in _OF_LABELLINGS if getattr(self, name) is not None]
        for name in given:
            if name not in _KEYS.get(self.study, ()):
                raise wrong(f"`{name}` is not for {self.study}", "leave it out", at=(name,))
        if self.study == "reference-swap":
            if self.annotations is not None:
                what, remedy = "`annotations` is not for reference-swap", "write `labellings`"
                raise wrong(what, remedy, at=("annotations",))
            refuse_unfit_swap(self.labellings, self.merge)
        elif self.study == "annotators":
            self._annotators_fit(given)
        return self

    def _annotators_fit(self, given: list[str]) -> None:
        told = self.annotations
        if (told is None) == (self.labellings is None):
            what = "needs one of `annotations` and `labellings`"
            remedy = "give a table of votes, or files of labellings"
            raise wrong(what, remedy, at=("labellings",) if told is not None else ())
        refuse_unfit_annotators(self.labellings, given)
        for name in ("sample", "gap"):
            if told is not None and getattr(told, name) is not None:
                what = f"`{name}` is not for annotators"
                raise wrong(what, "leave it out", at=("annotations", name))

    @model_validator(mode="after")
    def _tables_fit(self) -> Self:
        votes = self.study not in ("pairwise", *STUDIES_OF_LABELLINGS)
        if votes and self.annotations is None:
            raise wrong("`annotations` is missing", "add `annotations`: the table of votes")
        judged = self.study in ("judge-pools", "pairwise")
        if judged and not self.judge_tables:
            raise wrong("`judges` is missing", "add `judges`: whose verdicts are compared")
        if not judged and self.judge_tables:
            raise wrong(f"`judges` are not for {self.study}", "leave them out", at=("judges",))
        if self.study == "pairwise" and (
            len(self.judge_tables) != 1 or self.judge_tables[0].file is None
        ):
            raise wrong("takes one file of verdicts", "give one, with `file`", at=("judges",))
        names = [judge.name for judge in self.judge_tables]
        if len(set(names)) < len(names):
            raise wrong("two judges have one name", "give each its own", at=("judges",))
        if judged and votes and self.resolve is None:
            raise wrong("`resolve` is missing", "add `resolve`: agree_or_tie, average or first")
        if not judged and self.resolve is not None:
            raise wrong(f"`resolve` is not for {self.study}", "leave it out", at=("resolve",))
        if self.study == "pairwise" and self.annotations is not None:
            what, remedy = "votes and a file of verdicts are", "write `study: judge-pools`"
            raise wrong(f"{what} the study judge-pools", remedy, at=("annotations",))
        if self.assumed_board is not None and self.study != "leaderboard":
            raise wrong("is for leaderboard", "leave it out", at=("assumed",))
        if self.stop:
            raise wrong("nothing is called that a rule could stop", "leave it out", at=("stop",))
        return self


def form_of(data: object) -> type[Registration]:
    """The form that a registration's YAML is to have: of calls, or of tables."""
    if not isinstance(data, dict):
        return Registration
    study = data.get("study")
    tables = study in (*STUDIES_OF_TABLES, *STUDIES_OF_LABELLINGS) or (
        study == "pairwise" and "judges" in data
    )
    return TableRegistration if tables else Registration


def registration_json_schema() -> dict[str, Any]:
    """The JSON Schema of a registration, with a description on every field."""
    either: TypeAdapter[Registration] = TypeAdapter(Registration | TableRegistration)
    schema = either.json_schema(by_alias=True)
    schema["title"] = "prereg registration"
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}
