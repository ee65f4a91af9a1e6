"""The part of a registration that is about labellings: spans or labels, outputs and references.

The shape only; no file is read. Nothing that can change a number has a default.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from posixpath import normpath
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from prereg_judge.canon import nfc
from prereg_judge.labelled import Duplicates, Match
from prereg_judge.registration.schema_claims import (
    LIMIT_KEYS,
    PREDICTION_KEYS,
    ListOf,
    MetricParams,
    Name,
    Strict,
    wrong,
)
from prereg_judge.registration.schema_tables import PathText, Pool

# Tests whose p-values can be adjusted for each other.
FAMILY_METRICS = ("delta", "margin", "interaction", "skew")

# The keys of a file's entry that its format has.
_KEYS = {"rows": ("item", "stratum", "same"), "conll": ("tags",), "brat": ()}
_PLACES = {
    "rows": "a column, or a dotted path such as labellings.A",
    "conll": "the number of a column, from 1",
    "brat": 'a sub-folder of .ann files, or "." for the folder itself',
}

Place = Annotated[int, Field(ge=1)] | Name


class LabellingFile(Strict):
    """One file of labellings, or a folder of them, and how it is read."""

    file: Annotated[PathText, Field(description="The file; for `brat`, the folder.")]
    format: Annotated[
        Literal["rows", "conll", "brat"],
        Field(
            description="`rows` = .jsonl, .csv or .parquet; `conll` = a token a line, with columns "
            "of tags; `brat` = standoff files, .ann."
        ),
    ]
    item: Annotated[
        Name | None, Field(description="For `rows`: the column of the item's name.")
    ] = None
    stratum: Annotated[
        Name | None, Field(description="For `rows`: the column of the item's stratum.")
    ] = None
    same: Annotated[
        Name | None,
        Field(
            description="For `rows`: the column in which rows of one item are alike; left out = "
            "the item's name."
        ),
    ] = None
    tags: Annotated[
        Literal["iob1", "iob2", "bioes"] | None,
        Field(description="For `conll`: how tags say where a span begins and ends."),
    ] = None
    labellings: Annotated[
        dict[Name, Place],
        Field(
            min_length=1,
            description="Name of each labelling, and where it stands: a column or dotted path, "
            "the number of a column (`conll`), or a sub-folder (`brat`).",
        ),
    ]

    @model_validator(mode="after")
    def _format_fits(self) -> Self:
        own = _KEYS[self.format]
        for name in ("item", "stratum", "same", "tags"):
            if getattr(self, name) is not None and name not in own:
                raise wrong(f"`{name}` is not for the format {self.format}", "leave it out",
                            at=(name,))  # fmt: skip
        for name in ("item", "tags"):
            if name in own and getattr(self, name) is None:
                say = {"item": "the column of the item's name", "tags": "iob1, iob2 or bioes"}
                raise wrong(f"`{name}` is missing", f"add `{name}:` ({say[name]})")
        for name, place in self.labellings.items():
            if isinstance(place, int) != (self.format == "conll"):
                what = f"is no place in a file of the format {self.format}"
                remedy = f"write {_PLACES[self.format]}"
                raise wrong(what, remedy, at=("labellings", name))
        return self


def _distinct(names: tuple[str, ...]) -> tuple[str, ...]:
    again = _repeated(names)
    if again is not None:
        raise wrong(f"names `{again}` twice", "name each once")
    return names


Names = Annotated[tuple[Name, ...], ListOf, AfterValidator(_distinct)]


class Labellings(Strict):
    """Files that hold labellings of the same items, and what each labelling is."""

    form: Annotated[
        Literal["spans", "labels"],
        Field(description="`spans` = places in a text, with types; `labels` = one label an item."),
    ]
    files: Annotated[
        tuple[LabellingFile, ...], ListOf, Field(min_length=1, description="Where they stand.")
    ]
    match: Annotated[
        Match | None,
        Field(
            description="When two marks are the same: `strict` = place and type; `relaxed` = "
            "place; `coarse` = place and merged type."
        ),
    ] = None
    duplicates: Annotated[
        Duplicates | None,
        Field(
            description="Rows of one item: `keep_all` count; the `first` counts; `drop` = none "
            "does; `merge_equal` = rows that are alike count once."
        ),
    ] = None
    outputs: Annotated[
        Names | None,
        Field(description="Labellings that are scored; the first two are the pair that is meant."),
    ] = None
    references: Annotated[
        Names | None,
        Field(description="Labellings scored against: the delivered one, then its alternatives."),
    ] = None
    pools: Annotated[
        Annotated[tuple[Pool, ...], ListOf, Field(min_length=1)] | None,
        Field(description="For annotators: pools, by patterns of labellings' names."),
    ] = None

    @property
    def names(self) -> tuple[str, ...]:
        """The labellings, in the order of the file."""
        return tuple(name for file in self.files for name in file.labellings)

    @model_validator(mode="after")
    def _files_fit(self) -> Self:
        taken: set[str] = set()
        places: dict[tuple[str, str], str] = {}
        for at, file in enumerate(self.files):
            if self.form == "labels" and file.format != "rows":
                what = f"a file of the format {file.format} holds spans, not labels"
                raise wrong(what, "write `form: spans`", at=("files", at, "format"))
            for name, place in file.labellings.items():
                here = ("files", at, "labellings", name)
                if nfc(name) in taken:
                    what = f"the labelling `{name}` is given twice"
                    raise wrong(what, "give each its own name", at=here)
                taken.add(nfc(name))
                where = (normpath(file.file), str(place))
                if file.format == "brat":  # a folder and its sub-folder are one path
                    where = (normpath(f"{file.file}/{place}"), "")
                other = places.setdefault(where, name)
                if other != name:
                    what = f"stands where `{other}` stands: a copy says nothing of its own"
                    raise wrong(what, "name each place once", at=here)
        if self.form == "labels" and self.match == "relaxed":
            what = "of single labels, all stand at one place, so that any two would match"
            raise wrong(what, "write `match: strict`, or `coarse`", at=("match",))
        return self

    @model_validator(mode="after")
    def _pools_fit(self) -> Self:
        names = [pool.name for pool in self.pools or ()]
        if (again := _repeated(names)) is not None:
            raise wrong(f"two pools are called `{again}`", "give each its own name", at=("pools",))
        homes: dict[str, str] = {}
        for at, pool in enumerate(self.pools or ()):
            for pattern in pool.match:
                members = [n for n in self.names if fnmatchcase(nfc(n), nfc(pattern))]
                if not members:
                    what = f"the pattern `{pattern}` matches no labelling"
                    remedy = f"there are {', '.join(self.names)}; upper and lower case differ"
                    raise wrong(what, remedy, at=("pools", at, "match"))
                for name in members:
                    if homes.setdefault(name, pool.name) != pool.name:
                        what = f"`{name}` belongs to the pools {homes[name]} and {pool.name}"
                        remedy = "write patterns of which each labelling matches those of one pool"
                        raise wrong(what, remedy, at=("pools", at, "match"))
        outside = [name for name in self.names if name not in homes]
        if self.pools and outside:
            what = f"`{outside[0]}` belongs to no pool"
            raise wrong(what, "name it in one, or leave it out of the files", at=("pools",))
        return self

    def members(self) -> dict[str, tuple[str, ...]]:
        """The labellings of each pool, in the order of the file."""
        return {
            pool.name: tuple(
                n for n in self.names if any(fnmatchcase(nfc(n), nfc(p)) for p in pool.match)
            )
            for pool in self.pools or ()
        }


class FamilyMember(MetricParams):
    """One test of the registered family."""

    @model_validator(mode="before")
    @classmethod
    def _no_limits(cls, value: Any) -> Any:
        for key in dict.fromkeys((*LIMIT_KEYS, *PREDICTION_KEYS)):
            if isinstance(value, dict) and key in value:
                what = f"names a test, not a claim: `{key}` has no meaning here"
                raise wrong(what, "leave it out, and write it in a claim", at=(key,))
        return value

    @model_validator(mode="after")
    def _is_a_test(self) -> Self:
        if self.metric not in FAMILY_METRICS:
            what = "is no test whose p-value can be adjusted"
            raise wrong(what, f"write one of {', '.join(FAMILY_METRICS)}", at=("metric",))
        return self


class Scale(Strict):
    """What the order of labels means: their ranks, or a number for each."""

    order: Annotated[
        Annotated[Names, Field(min_length=2)] | None,
        Field(description="The labels from the lowest to the highest."),
    ] = None
    values: Annotated[
        Annotated[dict[Name, float], Field(min_length=2)] | None,
        Field(description="A number for each label."),
    ] = None

    @model_validator(mode="after")
    def _one(self) -> Self:
        if (self.order is None) == (self.values is None):
            what = "needs one of `order` and `values`"
            raise wrong(what, "list labels by rank, or give each a number")
        if self.values is not None and len(set(self.values.values())) < len(self.values):
            what = "two labels have one number"
            raise wrong(what, "give each its own", at=("values",))
        return self


class Adjudication(Strict):
    """A file of the labels that an adjudicator gave."""

    file: Annotated[PathText, Field(description="File of labels: .csv, .jsonl or .parquet.")]
    item: Annotated[Name, Field(description="The column of the item's name.")]
    label: Annotated[Name, Field(description="The column of the label.")]


def _one_step(merged: dict[str, str]) -> dict[str, str]:
    if all(fine == coarse for fine, coarse in merged.items()):
        raise wrong("changes no type", "map two types or more to one, or leave it out")
    for fine, coarse in merged.items():
        further = merged.get(coarse, coarse)
        if further != coarse:
            what = f"maps `{fine}` to `{coarse}`, and `{coarse}` to `{further}`"
            raise wrong(what, "write for each where it ends: nothing is mapped twice")
    return merged


Merge = Annotated[
    Annotated[dict[str, Name], Field(min_length=1), AfterValidator(_one_step)] | None,
    Field(description="Fine label -> coarse label; one that is not named stays as it is."),
]


def _each_once(members: tuple[FamilyMember, ...]) -> tuple[FamilyMember, ...]:
    said = [(m.metric, tuple(sorted(m.params().items()))) for m in members]
    if len(set(said)) < len(said):
        raise wrong("names a test twice", "name each once: the family's size changes every p")
    return members


Family = Annotated[
    Annotated[tuple[FamilyMember, ...], ListOf, Field(min_length=1), AfterValidator(_each_once)]
    | None,
    Field(description="The tests among which p-values are adjusted (Holm)."),
]


def _repeated(names: Iterable[str]) -> str | None:
    seen: set[str] = set()
    for name in names:
        if nfc(name) in seen:
            return name
        seen.add(nfc(name))
    return None


def refuse_unfit_swap(told: Labellings | None, merge: dict[str, str] | None) -> None:
    """What a study that exchanges references needs of its labellings.

    Raises
    ------
    PydanticCustomError
        For the first thing that does not fit.
    """
    if told is None:
        raise wrong("`labellings` is missing", "add `labellings`: files, outputs and references")
    if told.pools is not None:
        raise wrong("`pools` are for the study annotators", "leave them out",
                    at=("labellings", "pools"))  # fmt: skip
    for name, of in (("outputs", "what is scored"), ("references", "what it is scored against")):
        found = getattr(told, name)
        if found is None:
            raise wrong(f"`{name}` is missing", f"add `{name}:` ({of})", at=("labellings", name))
        if len(found) < 2:
            raise wrong(f"needs two {name} or more", "name another", at=("labellings", name))
        _refuse_unknown(found, told, name)
    both = [n for n in told.references or () if n in (told.outputs or ())]
    if both:
        what = f"`{both[0]}` is an output and a reference: against itself it is always right"
        raise wrong(what, "take it out of one of the two", at=("labellings", "references"))
    if told.match is None:
        what = "`match` is missing"
        raise wrong(what, "add `match:` strict, relaxed or coarse", at=("labellings", "match"))
    _refuse_no_policy(told)
    if told.match == "coarse" and merge is None:
        what = "coarse types are those of a map, and there is none"
        raise wrong(what, "add `merge:`, fine type to coarse type", at=("labellings", "match"))


def _refuse_unknown(found: Iterable[str], told: Labellings, key: str) -> None:
    unknown = [name for name in found if name not in told.names]
    if unknown:
        what = f"`{unknown[0]}` is no labelling of these files"
        raise wrong(what, f"there are {', '.join(told.names)}", at=("labellings", key))


def _refuse_no_policy(told: Labellings) -> None:
    if told.duplicates is None:
        what, remedy = "`duplicates` is missing", "add `duplicates:` keep_all, first, drop or "
        raise wrong(what, f"{remedy}merge_equal", at=("labellings", "duplicates"))


def refuse_unfit_annotators(told: Labellings | None, keys: Iterable[str]) -> None:
    """What a study of annotators needs where labellings stand for them; `keys` are also given.

    Raises
    ------
    PydanticCustomError
        For the first thing that does not fit.
    """
    if told is None:
        return
    for name in ("outputs", "references"):
        if getattr(told, name) is not None:
            what = f"`{name}` are for the study reference-swap"
            raise wrong(what, "leave them out: annotators are in `pools`", at=("labellings", name))
    if told.match is not None:
        what = "`match` is not for annotators: every `f1` names its own"
        raise wrong(what, "leave it out", at=("labellings", "match"))
    if told.form == "spans":
        _refuse_no_policy(told)
    elif told.duplicates is not None:
        what = "`duplicates` is not for single labels: nobody rates an item twice"
        raise wrong(what, "leave it out", at=("labellings", "duplicates"))
    if told.pools is None:
        what, at = "`pools` is missing", ("labellings", "pools")
        raise wrong(what, "add `pools:`, and which labellings are whose", at=at)
    if len(told.names) < 2:
        what, at = "one labelling agrees with nobody", ("labellings", "files")
        raise wrong(what, "name the labellings of two annotators or more", at=at)
    for key in _of_labels(told, keys):
        what = f"`{key}` is for single labels, and these are spans"
        raise wrong(what, "leave it out", at=(key,))


def _of_labels(told: Labellings, keys: Iterable[str]) -> Iterator[str]:
    return (k for k in keys if told.form == "spans" and k in ("scale", "adjudication"))
