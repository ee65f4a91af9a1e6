"""What a registration may say of labellings, outputs, references and annotators, and what not.

Each refusal is one problem that names the entry, what is wrong with it and what would do.
"""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from prereg_judge.errors import InputError, Problem
from prereg_judge.registration.load import read_registration
from prereg_judge.registration.schema import meaning
from prereg_judge.registration.schema_forms import (
    TableRegistration,
    registration_json_schema,
)

SCHEMA = Path(__file__).parents[2] / "src/prereg_judge/registration/registration.schema.json"

USUAL: dict[str, Any] = {
    "prereg": 1,
    "id": "x",
    "title": "What does the reference make of it?",
    "resampling": {"resamples": 200, "seed": 5, "by_stratum": False},
    "exposure": {"seen": "the tables were made for a test"},
}
ROWS = {
    "file": "s.jsonl", "format": "rows", "item": "id",
    "labellings": {"A": "by.A", "B": "by.B", "gold": "gold", "C": "by.C"},
}  # fmt: skip
CONLL = {"file": "s.conll", "format": "conll", "tags": "iob2", "labellings": {"D": 3}}
BRAT = {"file": "ann", "format": "brat", "labellings": {"E": "eve", "F": "."}}
SWAP = {
    "form": "spans", "files": [ROWS], "match": "relaxed", "duplicates": "keep_all",
    "outputs": ["A", "B"], "references": ["gold", "C"],
}  # fmt: skip
SPANS = {
    "form": "spans", "files": [ROWS], "duplicates": "keep_all",
    "pools": [{"name": "all", "match": "*"}],
}  # fmt: skip
VOTES = {
    "file": "v.csv", "layout": "long", "key": "stored", "split": "exclude",
    "columns": {"item": "item", "annotator": "who", "label": "label"},
    "pools": [{"name": "crowd", "match": "c*"}],
}  # fmt: skip
SCALE = {"order": ["low", "high"]}
Path_ = tuple[str | int, ...]


def changed(value: Any, at: Path_, new: Any) -> Any:
    """A copy with the entry at a path changed, added, or left out where `new` is None."""
    found = copy.deepcopy(value)
    inner = found
    for part in at[:-1]:
        inner = inner[part]
    if new is None:
        del inner[at[-1]]
    else:
        inner[at[-1]] = new
    return found


def text_of(value: dict[str, Any]) -> bytes:
    """A registration as YAML, nothing written once and referred to."""
    return yaml.safe_dump(json.loads(json.dumps(value)), sort_keys=False).encode()


def read(study: str, **keys: Any) -> TableRegistration:
    """A registration of this study with these keys beside the usual ones."""
    loaded = read_registration(text_of({**USUAL, "study": study, **keys}), shown="x.yaml")
    assert isinstance(loaded.model, TableRegistration)
    return loaded.model


def refused(study: str, **keys: Any) -> Problem:
    """The one problem of such a registration."""
    with pytest.raises(InputError) as caught:
        read(study, **keys)
    (problem,) = caught.value.problems
    assert problem.line is not None
    assert problem.remedy
    return problem


def test_outputs_and_references() -> None:
    """Every part of a registration of exchanged references is read as it is written."""
    family = [{"metric": "delta", "output": "A"}, {"metric": "interaction", "reference": "C"}]
    files = [ROWS, CONLL, BRAT]
    model = read(
        "reference-swap",
        labellings={**SWAP, "files": files, "match": "coarse"},
        merge={"insult": "abuse", "": "other"},
        family=family,
    )
    told = model.labellings
    assert told is not None
    assert told.names == ("A", "B", "gold", "C", "D", "E", "F")
    assert (told.outputs, told.references) == (("A", "B"), ("gold", "C"))
    assert [m.params() for m in model.family or ()] == [{"output": "A"}, {"reference": "C"}]
    assert not model.calls


def test_annotators_as_votes_or_as_labellings() -> None:
    """One pool is enough; labellings are annotators, and patterns say whose they are."""
    votes = read("annotators", annotations=VOTES, scale=SCALE,
                 adjudication={"file": "a.csv", "item": "i", "label": "l"})  # fmt: skip
    assert votes.annotations is not None
    assert [pool.name for pool in votes.annotations.pools] == ["crowd"]
    pools = [{"name": "one", "match": ["A", "B"]}, {"name": "two", "match": ["g*", "C"]}]
    model = read("annotators", labellings={**SPANS, "pools": pools})
    assert model.labellings is not None
    assert model.labellings.members() == {"one": ("A", "B"), "two": ("gold", "C")}


def test_three_pools_of_annotators() -> None:
    """Agreement within pools needs no partner, so there may be any number of them."""
    pools = [{"name": n, "match": f"{n}*"} for n in ("a", "b", "c")]
    model = read("annotators", annotations={**VOTES, "pools": pools})
    assert model.annotations is not None
    assert len(model.annotations.pools) == 3


def test_single_labels_on_a_scale() -> None:
    """Labels have a scale by order or by numbers, whole or not."""
    labels = {**SPANS, "form": "labels", "duplicates": None}
    model = read("annotators", labellings=labels, scale={"values": {"low": 1, "high": 2.5}})
    assert model.scale is not None
    assert model.scale.values == {"low": 1, "high": 2.5}


SWAP_FAULTS: list[tuple[Path_, Any, str, str]] = [
    (("labellings", "form"), "tokens", "labellings.form", "must be 'spans' or 'labels'"),
    (("labellings", "match"), None, "labellings.match", "`match` is missing"),
    (("labellings", "match"), "exact", "labellings.match", "must be 'strict', 'relaxed' or"),
    (("labellings", "match"), "coarse", "labellings.match", "coarse types are those of a map"),
    (("labellings", "duplicates"), None, "labellings.duplicates", "`duplicates` is missing"),
    (("labellings", "outputs"), None, "labellings.outputs", "`outputs` is missing"),
    (("labellings", "outputs"), ["A"], "labellings.outputs", "needs two outputs or more"),
    (("labellings", "outputs"), ["A", "A"], "labellings.outputs", "names `A` twice"),
    (("labellings", "outputs"), ["A", "b"], "labellings.outputs", "`b` is no labelling"),
    (("labellings", "references"), None, "labellings.references", "`references` is missing"),
    (("labellings", "references"), ["gold"], "labellings.references", "needs two references"),
    (("labellings", "references"), ["gold", "A"], "labellings.references",
     "`A` is an output and a reference"),
    (("labellings", "pools"), [{"name": "p", "match": "*"}], "labellings.pools",
     "`pools` are for the study annotators"),
    (("labellings", "files"), [], "labellings.files", "is an empty list"),
    (("labellings", "files", 0, "format"), "xml", "labellings.files[0].format", "must be 'rows',"),
    (("labellings", "files", 0, "item"), None, "labellings.files[0]", "`item` is missing"),
    (("labellings", "files", 0, "tags"), "iob2", "labellings.files[0].tags",
     "`tags` is not for the format rows"),
    (("labellings", "files", 0, "labellings", "A"), 3, "labellings.files[0].labellings.A",
     "is no place in a file of the format rows"),
    (("labellings", "files", 0, "labellings", "A"), "by.B", "labellings.files[0].labellings.B",
     "stands where `A` stands"),
    (("merge",), {"PER": "PER"}, "merge", "changes no type"),
    (("labellings", "files", 0, "labelling"), {"A": "a"}, "labellings.files[0].labelling",
     "unknown key `labelling`"),
    (("labellings", "files"), [ROWS, {**CONLL, "labellings": {"A": 2}}],
     "labellings.files[1].labellings.A", "the labelling `A` is given twice"),
    (("labellings", "files"), [ROWS, {**CONLL, "labellings": {"D": "2"}}],
     "labellings.files[1].labellings.D", "is no place in a file of the format conll"),
    (("labellings", "files"), [ROWS, {**CONLL, "item": "id"}], "labellings.files[1].item",
     "`item` is not for the format conll"),
    (("labellings", "files"), [ROWS, {k: v for k, v in CONLL.items() if k != "tags"}],
     "labellings.files[1]", "`tags` is missing"),
    (("labellings", "files"), [ROWS, {**BRAT, "stratum": "s"}], "labellings.files[1].stratum",
     "`stratum` is not for the format brat"),
    (("labellings", "form"), "labels", "labellings.match", "all stand at one place"),
    (("resampling",), None, "", "`resampling` is missing"),
    (("labellings",), None, "", "`labellings` is missing"),
    (("annotations",), VOTES, "annotations", "`annotations` is not for reference-swap"),
    (("scale",), SCALE, "scale", "`scale` is not for reference-swap"),
    (("judge",), "j.yaml", "judge", "nothing is called here"),
    (("merge",), {}, "merge", ""),
    (("merge",), {"a": "b", "b": "c"}, "merge", "maps `a` to `b`, and `b` to `c`"),
    (("family",), [], "family", "is an empty list"),
    (("family",), [{"metric": "f1", "output": "A"}], "family[0].metric", "is no test"),
    (("family",), [{"metric": "delta", "output": "A", "at_least": 0}], "family[0].at_least",
     "names a test, not a claim"),
    (("family",), [{"metric": "interaction"}, {"metric": "interaction"}], "family",
     "names a test twice"),
]  # fmt: skip


@pytest.mark.parametrize(("at", "new", "where", "what"), SWAP_FAULTS)
def test_a_fault_in_exchanged_references(at: Path_, new: Any, where: str, what: str) -> None:
    """One thing wrong is one problem, at its place."""
    keys = changed({"labellings": SWAP, "resampling": USUAL["resampling"]}, at, new)
    usual = {k: v for k, v in USUAL.items() if k != "resampling"}
    with pytest.raises(InputError) as caught:
        read_registration(text_of({**usual, "study": "reference-swap", **keys}), shown="x.yaml")
    (problem,) = caught.value.problems
    assert (problem.where or "").startswith(where)
    assert what in problem.what


@pytest.mark.parametrize(
    ("keys", "where", "what"),
    [
        ({}, None, "needs one of `annotations` and `labellings`"),
        ({"annotations": VOTES, "labellings": SPANS}, "labellings", "needs one of"),
        ({"labellings": {k: v for k, v in SPANS.items() if k != "pools"}},
         "labellings.pools", "`pools` is missing"),
        ({"labellings": {**SPANS, "outputs": ["A", "B"]}}, "labellings.outputs",
         "`outputs` are for the study reference-swap"),
        ({"labellings": {**SPANS, "references": ["A", "B"]}}, "labellings.references",
         "`references` are for the study reference-swap"),
        ({"labellings": {**SPANS, "match": "strict"}}, "labellings.match",
         "`match` is not for annotators"),
        ({"labellings": {**SPANS, "form": "labels"}}, "labellings.duplicates",
         "`duplicates` is not for single labels"),
        ({"labellings": SPANS, "scale": SCALE}, "scale", "`scale` is for single labels"),
        ({"labellings": SPANS, "adjudication": {"file": "a.csv", "item": "i", "label": "l"}},
         "adjudication", "`adjudication` is for single labels"),
        ({"labellings": SPANS, "family": [{"metric": "interaction"}]}, "family",
         "`family` is not for annotators"),
        ({"labellings": changed(SPANS, ("pools",), [{"name": "p", "match": "a*"}])},
         "labellings.pools[0].match", "the pattern `a*` matches no labelling"),
        ({"labellings": changed(SPANS, ("pools",), [{"name": "p", "match": ["A", "B"]}])},
         "labellings.pools", "`gold` belongs to no pool"),
        ({"labellings": changed(SPANS, ("pools",), [
            {"name": "p", "match": "*"}, {"name": "q", "match": "B"}])},
         "labellings.pools[1].match", "`B` belongs to the pools p and q"),
        ({"labellings": changed(SPANS, ("pools",), [
            {"name": "p", "match": "A"}, {"name": "p", "match": ["B", "C", "gold"]}])},
         "labellings.pools", "two pools are called `p`"),
        ({"labellings": changed(SPANS, ("files", 0, "labellings"), {"A": "a"})},
         "labellings.files", "one labelling agrees with nobody"),
        ({"annotations": {**VOTES, "sample": {"items": 3, "seed": 1}}}, "annotations.sample",
         "`sample` is not for annotators"),
        ({"annotations": {**VOTES, "gap": "credit"}}, "annotations.gap",
         "`gap` is not for annotators"),
        ({"annotations": {**VOTES, "pools": []}}, "annotations.pools", "is an empty list"),
        ({"annotations": VOTES, "scale": {}}, "scale", "needs one of `order` and `values`"),
        ({"annotations": VOTES, "scale": {"order": ["a", "b"], "values": {"a": 1, "b": 2}}},
         "scale", "needs one of `order` and `values`"),
        ({"annotations": VOTES, "scale": {"order": ["a", "a"]}}, "scale.order", "names `a` twice"),
        ({"annotations": VOTES, "scale": {"values": {"a": 1, "b": 1}}}, "scale.values",
         "two labels have one number"),
        ({"annotations": VOTES, "judges": [{"name": "j", "run": "r", "pass": 1}]}, "judges",
         "`judges` are not for annotators"),
    ],
)  # fmt: skip
def test_a_fault_in_a_study_of_annotators(
    keys: dict[str, Any], where: str | None, what: str
) -> None:
    """One thing wrong is one problem, at its place, with what would do."""
    problem = refused("annotators", **keys)
    assert problem.where == where
    assert what in problem.what


@pytest.mark.parametrize("study", ["pools", "judge-pools", "leaderboard"])
def test_other_studies_compare_two_pools(study: str) -> None:
    """One pool, or three, is refused where one pool is compared with the other."""
    judges = [{"name": "j", "run": "r", "pass": 1}] if study == "judge-pools" else None
    more = {"judges": judges, "resolve": "average"} if judges else {}
    for n in (1, 3):
        pools = [{"name": f"p{at}", "match": f"{at}*"} for at in range(n)]
        problem = refused(study, annotations={**VOTES, "pools": pools}, **more)
        assert (problem.where, problem.what) == (
            "annotations.pools", f"compares two pools, and names {n}",
        )  # fmt: skip


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("labellings", SWAP), ("merge", {"a": "b"}), ("family", [{"metric": "interaction"}]),
        ("scale", SCALE), ("adjudication", {"file": "a.csv", "item": "i", "label": "l"}),
    ],
)  # fmt: skip
def test_other_studies_have_no_labellings(key: str, value: Any) -> None:
    """A key of these studies is refused in a registration of another."""
    pools = [{"name": n, "match": n} for n in "ab"]
    problem = refused("pools", annotations={**VOTES, "pools": pools}, **{key: value})
    assert (problem.where, problem.what) == (key, f"`{key}` is not for pools")


def test_what_the_new_keys_mean() -> None:
    """Each of them is in the hashed meaning, and what is left out is not."""
    bare = meaning(read("reference-swap", labellings=SWAP))
    assert set(bare) == {*USUAL, "study", "labellings", "bands", "predictions", "refuters",
                         "stop", "decisions", "judges"}  # fmt: skip
    more = read("reference-swap", labellings=SWAP, merge={"a": "b"})
    assert meaning(more) == {**bare, "merge": {"a": "b"}}


def test_the_shipped_json_schema_is_that_of_the_models() -> None:
    """Editors complete what the tool reads."""
    text = json.dumps(registration_json_schema(), indent=2, ensure_ascii=False) + "\n"
    assert SCHEMA.read_text(encoding="utf-8") == text
