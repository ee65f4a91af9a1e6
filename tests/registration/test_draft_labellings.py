"""The draft of a study of labellings or of annotators: it loads, or says what is missing."""

from __future__ import annotations

import dataclasses
import re
import unicodedata
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prereg_judge.errors import UsageError
from prereg_judge.registration.draft import DraftValues, refusals, render
from prereg_judge.registration.load import placeholder_in, read_registration
from prereg_judge.registration.schema_forms import TableRegistration
from prereg_judge.registration.settings_labellings import (
    parse_adjudication,
    parse_labelling_file,
    parse_merge,
    parse_names,
    parse_scale_values,
)

FILE = parse_labelling_file("s.jsonl,item=id,A=l.A,B=l.B,gold=gold,C=l.C")
POOLS = ({"name": "near", "match": ["A", "gold"]}, {"name": "far", "match": ["B", "C"]})
COMMON: dict[str, Any] = {
    "id": "x", "title": "Is it so?", "seen": "nothing",
    "resampling": {"resamples": 2000, "seed": 7, "by_stratum": True},
}  # fmt: skip
SWAP: dict[str, Any] = {
    "labellings": (FILE,), "form": "spans", "outputs": ("A", "B"), "references": ("gold", "C"),
    "match": "relaxed", "duplicates": "keep_all",
}  # fmt: skip
VOTES: dict[str, Any] = {
    "votes": "v.csv", "layout": "long", "pools": ({"name": "all", "match": "*"},),
    "columns": {"item": "i", "annotator": "who", "label": "l"}, "key": "stored", "split": "exclude",
}  # fmt: skip
# Filled in but for a claim.
FULL: dict[str, DraftValues] = {
    "swap": DraftValues(study="reference-swap", **COMMON, **SWAP),
    "votes": DraftValues(study="annotators", **COMMON, **VOTES),
    "spans": DraftValues(study="annotators", **COMMON, labellings=(FILE,), form="spans",
                         pools=POOLS, duplicates="first"),
    "labels": DraftValues(study="annotators", **COMMON, labellings=(FILE,), form="labels",
                          pools=POOLS),
}  # fmt: skip


def claimed(values: DraftValues) -> DraftValues:
    """With the study's own example as its band."""
    return dataclasses.replace(values, bands=(values.examples["bands"],))


def load(values: DraftValues) -> TableRegistration:
    """What the draft is read back as."""
    model = read_registration(render(values).encode(), shown="d.yaml").model
    assert isinstance(model, TableRegistration)
    return model


@pytest.mark.parametrize("name", FULL)
def test_what_is_filled_in_loads_and_calls_nothing(name: str) -> None:
    """With a claim nothing is refused, and votes or labellings stand in the file, not both."""
    values = claimed(FULL[name])
    assert refusals(values) == []
    model = load(values)
    assert not model.calls
    assert (model.annotations is None) is (name != "votes")
    assert (model.labellings is None) is (name == "votes")


@pytest.mark.parametrize("name", FULL)
def test_the_commented_examples_are_right(name: str) -> None:
    """Uncommenting every optional part gives a registration that loads, with a map and, where they
    are for the study, a family, a scale and an adjudicator's file.
    """
    text = re.sub(r"(?m)^( *)# ((?:[a-z_]+:|  - |    [a-z_]+: ).*)$", r"\1\2", render(FULL[name]))
    text = re.sub(r"(?m)^bands: .*TODO.*\n", "", text)
    model = read_registration(text.encode(), shown="d.yaml").model
    assert isinstance(model, TableRegistration)
    assert all([model.bands, model.predictions, model.refuters, model.decisions, model.merge])
    assert (model.family is not None) is (name == "swap")
    assert (model.scale is not None) is (model.adjudication is not None)
    assert (model.scale is not None) is (name in ("votes", "labels"))
    assert model.sample_size is not None
    assert model.sample_size.width == 0.2


@pytest.mark.parametrize(
    ("study", "more", "places"),
    [
        ("reference-swap", {}, ["form", "files", "match", "duplicates", "outputs", "references"]),
        ("reference-swap", {"labellings": (FILE,), "outputs": ("A", "B")},
         ["form", "match", "duplicates", "references"]),
        ("annotators", {"labellings": (FILE,)}, ["form", "pools", "duplicates"]),
        ("annotators", {"labellings": (FILE,), "form": "labels"}, ["pools"]),
    ],
)  # fmt: skip
def test_every_gap_is_a_placeholder_that_is_refused(
    study: str, more: dict[str, Any], places: list[str]
) -> None:
    """What is needed and not known is named by its place, and nothing else is."""
    problems = refusals(claimed(DraftValues(study=study, **more)))
    common = ["id", "title", "resampling", "exposure.seen"]
    assert {p.where for p in problems} == {*common, *(f"labellings.{p}" for p in places)}
    assert all("placeholder TODO" in p.what for p in problems)


def test_annotators_without_a_source_are_told_of_both() -> None:
    """The gaps are those of a table of votes, and a comment shows labellings in its place."""
    text = render(claimed(DraftValues(study="annotators", **COMMON)))
    problems = refusals(claimed(DraftValues(study="annotators", **COMMON)))
    assert {p.where for p in problems} == {
        f"annotations.{key}" for key in ("file", "layout", "pools", "key", "split")
    }
    assert "# In place of annotations there may be labellings: {form: labels" in text


@pytest.mark.parametrize(
    ("values", "where", "words"),
    [
        ({"outputs": ("A", "D")}, "labellings.outputs", "`D` is no labelling"),
        ({"outputs": ("A",)}, "labellings.outputs", "needs two outputs"),
        ({"outputs": ("A", "B"), "references": ("B", "C")}, "labellings.references", "`B` is an"),
        ({"match": "coarse"}, "labellings.match", "coarse types are those of a map"),
        ({"family": ({"metric": "f1"},)}, "family[0].metric", "is no test"),
        ({"merge": {"a": "b", "b": "c"}}, "merge", "maps `a` to `b`"),
    ],
)
def test_what_is_at_odds_is_said_while_the_rest_is_missing(
    values: dict[str, Any], where: str, words: str
) -> None:
    """Names and choices are held against each other although nothing else is known."""
    told = DraftValues(id="x", study="reference-swap", labellings=(FILE,), **values)
    found = [p for p in refusals(told) if "placeholder" not in p.what]
    assert [p.where for p in found] == [where]
    assert words in found[0].what


@pytest.mark.parametrize(
    ("values", "where"),
    [
        ({"study": "pools", **COMMON, **VOTES, **SWAP, "pools": POOLS}, "labellings"),
        ({"study": "annotators", **COMMON, **VOTES, "labellings": (FILE,), "form": "labels"},
         "labellings"),
        ({"study": "annotators", **COMMON, **SWAP, "pools": POOLS}, "labellings.outputs"),
        ({"study": "annotators", **COMMON, **VOTES, "family": ({"metric": "delta"},)}, "family"),
        ({"study": "reference-swap", **COMMON, **SWAP, "scale_order": ("a", "b")}, "scale"),
        ({"study": "reference-swap", **COMMON, **SWAP, "split": "tie"}, "annotations.file"),
        ({"study": "annotators", **COMMON, **VOTES, "scale_order": ("a", "b"),
          "scale_values": {"a": 1, "b": 2}}, "scale"),
        ({"study": "annotators", **COMMON, **VOTES, "gap": "credit"}, "annotations.gap"),
    ],
)  # fmt: skip
def test_what_a_study_does_not_take_is_not_dropped(values: dict[str, Any], where: str) -> None:
    """A value that has no place in the study is written, so that the loader refuses it."""
    problems = refusals(claimed(DraftValues(**values)))
    assert where in [p.where for p in problems]


def test_the_short_form_of_a_file_says_what_stands_where() -> None:
    """The format follows from the ending or is said; a quoted key is a labelling's name."""
    assert parse_labelling_file('a/b.CSV,item=id,same=text,"item"=x.y,"a,b"="c=d"') == {
        "file": "a/b.CSV", "format": "rows", "item": "id", "same": "text",
        "labellings": {"item": "x.y", "a,b": "c=d"},
    }  # fmt: skip
    assert parse_labelling_file("b.txt,format=conll,tags=iob2,C=3") == {
        "file": "b.txt", "format": "conll", "tags": "iob2", "labellings": {"C": 3},
    }  # fmt: skip
    assert parse_labelling_file("ann,format=brat,D=alice,E=.") == {
        "file": "ann", "format": "brat", "labellings": {"D": "alice", "E": "."},
    }  # fmt: skip


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("s.txt,A=b", "the file's ending does not say its format"),
        ("s.csv,A=b", "the format rows also needs item="),
        ("s.conll,A=3", "the format conll also needs tags="),
        ("s.csv,item=id", "names no labelling"),
        ("s.csv,item=id,A=b,A=c", "expected each once, not at position 19"),
        ("s.csv,item=id,A", "expected `=` at the end"),
        (",item=id", "expected a name, in quotes where it holds a mark, at position 1"),
    ],
)
def test_a_short_form_that_cannot_be_read_is_pointed_at(text: str, words: str) -> None:
    """The option, where reading failed, and a right example."""
    with pytest.raises(UsageError) as caught:
        parse_labelling_file(text)
    (problem,) = caught.value.problems
    assert words in problem.what
    assert problem.where == "--labellings"
    assert "for example --labellings '" in (problem.remedy or "")


def test_maps_scales_and_adjudication_have_short_forms() -> None:
    """Each as its mapping; the empty type can be merged; nothing is given twice or left out."""
    assert parse_merge(['Insult=abuse,""=none', '"a=b"=abuse']) == {
        "Insult": "abuse", "": "none", "a=b": "abuse"
    }  # fmt: skip
    assert parse_scale_values(["low=1", "mid=2.5,high=-4"]) == {"low": 1, "mid": 2.5, "high": -4}
    assert parse_names('A, "B,C"', option="--outputs") == ("A", "B,C")
    told = parse_adjudication("s.csv,label=l,item=i")
    assert told == {"file": "s.csv", "label": "l", "item": "i"}
    for wrong in (lambda: parse_merge(["a=b,a=c"]), lambda: parse_scale_values(["a=1", "a=2"]),
                  lambda: parse_scale_values(["a=x"]), lambda: parse_names("A,,B", option="-"),
                  lambda: parse_adjudication("s.csv,item=i")):  # fmt: skip
        with pytest.raises(UsageError):
            wrong()


_NFC = (
    st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=10)
    .map(lambda s: unicodedata.normalize("NFC", s))
    .filter(lambda s: any(map(str.isalnum, s)) and placeholder_in(s) is None)
)
_NAMES = st.lists(_NFC, min_size=4, max_size=6, unique=True)


def test_a_labelling_may_have_the_name_of_a_key() -> None:
    """What stands under a name that is the registrant's own may be of any letters."""
    file = {"file": "s.csv", "format": "rows", "item": "i",
            "labellings": {"metric": "größe", "B": "b", "gold": "g", "C": "c"}}  # fmt: skip
    told = {**COMMON, **SWAP, "labellings": (file,), "outputs": ["metric", "B"],
            "references": ["gold", "C"], "family": ({"metric": "interaction"},)}  # fmt: skip
    model = load(claimed(DraftValues(study="reference-swap", **told)))
    assert model.model_dump(exclude_none=True)["labellings"]["files"] == (file,)


@settings(max_examples=60, deadline=None)
@given(
    _NAMES, st.lists(_NFC, min_size=8, max_size=8, unique=True), st.sampled_from(["first", "drop"])
)
def test_a_draft_loads_as_the_values_it_was_made_of(
    names: list[str], texts: list[str], duplicates: str
) -> None:
    """Whatever labellings, columns and types are called, the written file gives them back."""
    file = {"file": "s.csv", "format": "rows", "item": texts[0], "stratum": texts[1],
            "labellings": dict(zip(names, texts[2:], strict=False))}  # fmt: skip
    merge = {texts[2]: texts[3], texts[4]: texts[3]}
    told = {**COMMON, **SWAP, "labellings": (file,), "merge": merge, "duplicates": duplicates,
            "outputs": names[:2], "references": names[2:],
            "family": ({"metric": "delta", "output": names[0]},)}  # fmt: skip
    model = load(claimed(DraftValues(study="reference-swap", **told)))
    data = model.model_dump(exclude_none=True)
    assert data["merge"] == merge
    assert data["labellings"]["files"] == (file,)
    assert data["labellings"]["outputs"] == tuple(names[:2])
    assert data["labellings"]["references"] == tuple(names[2:])
    assert data["labellings"]["duplicates"] == duplicates
    assert data["family"] == ({"metric": "delta", "output": names[0]},)
