"""The part of a registration that is about tables: annotators' votes, verdicts made elsewhere.

The shape only. Nothing that can change a number has a default.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from prereg_judge.registration.schema_claims import ListOf, Name, Strict, wrong
from prereg_judge.votes import PairKey, SplitRule

_MAX_SEED = 2**53 - 1


def _path(value: str) -> str:
    if not value.strip():
        raise wrong("names no file", "write its path, from the workspace's folder on")
    return value


PathText = Annotated[str, AfterValidator(_path)]


def _one_or_more(value: Any) -> Any:
    return (
        (value,) if isinstance(value, str) else tuple(value) if isinstance(value, list) else value
    )


Patterns = Annotated[tuple[Name, ...], BeforeValidator(_one_or_more), Field(min_length=1)]


class Sample(Strict):
    """A part of the doubly rated items, drawn by a registered seed, stratum by stratum."""

    items: Annotated[int, Field(ge=1, description="How many items are drawn.")]
    seed: Annotated[int, Field(ge=0, le=_MAX_SEED, description="The seed, 0 to 2**53 - 1.")]


class Columns(Strict):
    """Which column of a long table holds what."""

    item: Annotated[Name, Field(description="The item's name.")]
    annotator: Annotated[Name, Field(description="Who gave the label.")]
    label: Annotated[Name, Field(description="The label.")]
    pool: Annotated[
        Name | None, Field(description="The annotator's pool; left out = told by the annotator.")
    ] = None
    stratum: Annotated[Name | None, Field(description="The item's stratum.")] = None
    gap: Annotated[Name | None, Field(description="The item's quality gap, a number from 0.")] = (
        None
    )
    model_a: Annotated[Name | None, Field(description="Who gave answer a.")] = None
    model_b: Annotated[Name | None, Field(description="Who gave answer b.")] = None

    @model_validator(mode="after")
    def _both_models(self) -> Self:
        if (self.model_a is None) != (self.model_b is None):
            raise wrong("names one model of two", "give both model_a and model_b, or neither")
        return self


class Pool(Strict):
    """A group of annotators."""

    name: Annotated[Name, Field(description="The pool's name in this registration.")]
    match: Annotated[
        Patterns,
        Field(
            description="Who is in it: a pattern with * and ?, or several, of the pool's column "
            "where there is one, else of annotators."
        ),
    ]


class Annotations(Strict):
    """A table of annotators' votes, and how it is read."""

    file: Annotated[PathText, Field(description="File of votes: .csv, .jsonl or .parquet.")]
    layout: Annotated[
        Literal["long", "mt-bench", "multipref"],
        Field(
            description="`long` = a row a vote, by `columns`; `mt-bench` and `multipref` = as "
            "those corpora are published."
        ),
    ]
    columns: Annotated[Columns | None, Field(description="For `long`: its columns.")] = None
    labels: Annotated[
        dict[Name, Literal["a", "b", "tie"]] | None,
        Field(
            description="For `long` tables of pairs: which word means a, b and tie; left out = "
            "labels as they stand."
        ),
    ] = None
    preference: Annotated[
        Literal["overall_pref", "helpful_pref", "truthful_pref", "harmless_pref"] | None,
        Field(description="For `multipref`: which of the preferences is read."),
    ] = None
    pools: Annotated[
        tuple[Pool, ...],
        ListOf,
        Field(
            min_length=1,
            description="The two pools, pool 1 first; for the study annotators one or more.",
        ),
    ]
    key: Annotated[
        PairKey,
        Field(
            description="Which votes are on the same pair: `stored` = the same answer a and b; "
            "`unordered` = whichever stands first."
        ),
    ]
    split: Annotated[
        SplitRule,
        Field(
            description="A pool whose most frequent labels have equally many votes: `tie` = it "
            "calls a tie; `exclude` = the item is left out."
        ),
    ]
    gap: Annotated[
        Literal["column", "credit"] | None,
        Field(
            description="The quality gap of a pair: the table's own column, or the distance of the "
            "two models' mean credits over all votes; left out = none."
        ),
    ] = None
    sample: Annotated[Sample | None, Field(description="A part of the items; left out = all.")] = (
        None
    )

    @model_validator(mode="after")
    def _layout_fits(self) -> Self:
        names = [pool.name for pool in self.pools]
        if len(set(names)) < len(names):
            which = "the two pools" if len(names) == 2 else "two pools"
            raise wrong(f"{which} have one name", "give each its own", at=("pools",))
        if "neither" in names:
            raise wrong("`neither` is a side of its own", "name the pool", at=("pools",))
        long = self.layout == "long"
        if long and self.columns is None:
            raise wrong("a long table needs its columns", "write `columns`", at=("layout",))
        for name, fits in (("columns", long), ("labels", long)):
            if getattr(self, name) is not None and not fits:
                raise wrong(f"the layout {self.layout} has its own", "leave it out", at=(name,))
        if (self.preference is not None) != (self.layout == "multipref"):
            raise wrong(
                "`preference` belongs to multipref",
                "write `preference: overall_pref` there, and leave it out elsewhere",
                at=("layout",),
            )
        if self.labels is not None and not {"a", "b"} <= set(self.labels.values()):
            raise wrong("no word means one of the answers", "map words to a and b", at=("labels",))
        if self.split == "tie" and long and self.labels is None:
            raise wrong(
                "labels as they stand have no tie to call",
                "write `split: exclude`, or map `labels` to a, b and tie",
                at=("split",),
            )
        if self.gap == "column" and (self.columns is None or self.columns.gap is None):
            raise wrong("no column holds the gap", "name it under `columns.gap`", at=("gap",))
        return self


def refuse_unpaired(told: Annotations) -> None:
    """Refuse other than two pools where one is compared with the other.

    Raises
    ------
    PydanticCustomError
        If there are fewer, or more.
    """
    if len(told.pools) != 2:
        what = f"compares two pools, and names {len(told.pools)}"
        raise wrong(what, "name two: pool 1 first", at=("annotations", "pools"))


class JudgeTable(Strict):
    """One judge whose verdicts are there already: a file of them, or an earlier run."""

    name: Annotated[Name, Field(description="The judge's name in this registration.")]
    run: Annotated[
        Name | None, Field(description="An earlier run of a pairwise registration: ID or ID/N.")
    ] = None
    pass_: Annotated[
        int | None, Field(alias="pass", ge=1, description="Which pass of that run, from 1.")
    ] = None
    file: Annotated[
        PathText | None, Field(description="File of verdicts, one row a pair: .csv, .jsonl, ...")
    ] = None
    item: Annotated[
        Annotated[tuple[Name, ...], ListOf, Field(min_length=1)] | None,
        Field(description="The columns that together name the item."),
    ] = None
    models: Annotated[
        Annotated[tuple[Name, ...], ListOf, Field(min_length=2, max_length=2)] | None,
        Field(description="The columns of the two models, if any."),
    ] = None
    ab: Annotated[Name | None, Field(description="Column of the verdict in the order ab.")] = None
    ba: Annotated[
        Name | None, Field(description="Column of the verdict in the order ba; left out = none.")
    ] = None
    stratum: Annotated[Name | None, Field(description="Column of the item's stratum.")] = None
    says: Annotated[
        Literal["slots", "answers"] | None,
        Field(
            description="What a verdict is said of: `slots` = the first or second answer shown; "
            "`answers` = answer a or b."
        ),
    ] = None
    words: Annotated[
        dict[Name, Literal["a", "b", "tie"]] | None,
        Field(description="Which word of the file means the first (a), the second (b), a tie."),
    ] = None

    @model_validator(mode="after")
    def _run_or_file(self) -> Self:
        if (self.run is None) == (self.file is None):
            raise wrong("needs one source of verdicts", "give either `run` or `file`")
        of_file = {n: getattr(self, n) for n in ("item", "ab", "says", "words")}
        if self.run is not None:
            more = [
                n for n in (*of_file, "models", "ba", "stratum") if getattr(self, n) is not None
            ]
            if more:
                raise wrong("a run needs no columns", "leave it out", at=(more[0],))
            if self.pass_ is None:
                raise wrong("does not say which pass", "write `pass: 1`")
        else:
            lacking = [n for n, value in of_file.items() if value is None]
            if lacking:
                raise wrong(f"a file needs {', '.join(lacking)}", "add what is missing")
            if self.pass_ is not None:
                raise wrong("a file has no passes", "leave it out", at=("pass",))
        return self


class ResamplingModel(Strict):
    """The bootstrap behind every interval that is not one of independent items."""

    resamples: Annotated[
        int, Field(ge=100, le=100_000, description="How often items are drawn anew: 100..100000.")
    ]
    seed: Annotated[int, Field(ge=0, le=_MAX_SEED, description="The seed, 0 to 2**53 - 1.")]
    by_stratum: Annotated[
        bool, Field(description="Whether each stratum keeps its number of items.")
    ]


class AssumedModel(Strict):
    """Registered values for boards of evenly spread models, in place of the measured ones."""

    span: Annotated[
        float, Field(gt=0, le=1, description="From the worst to the best mean credit, as a share.")
    ]
    shift_sd: Annotated[
        float, Field(gt=0, le=1, description="SD of a model's shift between pools, as a share.")
    ]
