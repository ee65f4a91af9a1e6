"""The draft of a study of pairs or tables: it loads as it is, or says what is missing."""

from __future__ import annotations

import dataclasses
import re
import unicodedata
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prereg_judge.errors import InputError
from prereg_judge.registration.draft import DraftValues, refusals, render
from prereg_judge.registration.draft_claims import as_expression, examples
from prereg_judge.registration.expressions import parse_band
from prereg_judge.registration.load import placeholder_in, read_registration
from prereg_judge.registration.schema import Registration
from prereg_judge.registration.schema_forms import TableRegistration
from prereg_judge.study.kinds import STUDIES
from prereg_judge.study.metric import MetricRef
from prereg_judge.words import SET_ROLES

RESAMPLING = {"resamples": 2000, "seed": 7, "by_stratum": False}
POOLS = ({"name": "expert", "match": "expert_*"}, {"name": "crowd", "match": ["a", "b_?"]})
VOTES: dict[str, Any] = {
    "votes": "v.csv", "layout": "mt-bench", "pools": POOLS, "key": "stored", "split": "tie",
}  # fmt: skip
VERDICTS: dict[str, Any] = {
    "verdicts": {"name": "q", "file": "v.jsonl"},
    "verdict_columns": {"item": ["id", "turn"], "models": ["one", "two"], "ab": "x", "ba": "y"},
    "says": "slots",
    "words": {"A": "a", "B": "b", "T": "tie"},
}
COMMON: dict[str, Any] = {
    "id": "x", "title": "Is it so?", "seen": "nothing", "resampling": RESAMPLING
}  # fmt: skip
CALLS: dict[str, Any] = {
    "judge": "judge/a.yaml", "real": "r.jsonl", "gguf": "m.gguf", "n_ctx": 512, "n_gpu_layers": 0,
    "passes": 2, "prefix": "whole", "decoding": {"mode": "greedy"}, "max_tokens": 9,
    "hang": {"call_timeout_s": 9, "retries": 0}, "missing": "disagree",
}  # fmt: skip
RUNS = ({"name": "q", "run": "old/1", "pass": 2},)
# Filled in but for a claim.
FULL: dict[str, DraftValues] = {
    "pairwise": DraftValues(study="pairwise", **COMMON, **CALLS),
    "pairwise, votes": DraftValues(study="pairwise", **COMMON, **CALLS, **VOTES),
    "pairwise, verdicts": DraftValues(study="pairwise", **COMMON, **VERDICTS),
    "pools": DraftValues(study="pools", **COMMON, **VOTES),
    "judge-pools": DraftValues(study="judge-pools", **COMMON, **VOTES, judge_runs=RUNS,
                               resolve="first"),
    "judge-pools, verdicts": DraftValues(study="judge-pools", **COMMON, **VOTES, **VERDICTS,
                                         resolve="average"),
    "leaderboard": DraftValues(study="leaderboard", **COMMON, **VOTES),
}  # fmt: skip


def claimed(values: DraftValues) -> DraftValues:
    """With the study's own example as its band."""
    return dataclasses.replace(values, bands=(values.examples["bands"],))


def load(values: DraftValues) -> Registration:
    """What the draft is read back as."""
    return read_registration(render(values).encode(), shown="d.yaml").model


@pytest.mark.parametrize("name", FULL)
def test_what_is_filled_in_loads_in_its_own_form(name: str) -> None:
    """With a claim nothing is refused; only a study that calls a judge has keys of calls."""
    values = claimed(FULL[name])
    assert refusals(values) == []
    model = load(values)
    assert isinstance(model, TableRegistration) is not values.calls
    assert model.calls is values.calls
    keys = set(re.findall(r"(?m)^([a-z_]+):", render(values)))
    assert ({"judge", "items", "model", "protocol", "missing"} <= keys) is values.calls
    assert ("annotations" in keys) is (values.votes is not None)
    assert ("judges" in keys) is (bool(values.judge_runs) or values.verdicts is not None)


@pytest.mark.parametrize(
    ("study", "more", "places"),
    [
        ("pools", {}, ["annotations.file", "annotations.layout", "annotations.pools",
                       "annotations.key", "annotations.split"]),
        ("leaderboard", {"layout": "long"},
         ["annotations.file", "annotations.columns", "annotations.pools", "annotations.key",
          "annotations.split"]),
        ("judge-pools", {"layout": "multipref"},
         ["annotations.file", "annotations.preference", "annotations.pools", "annotations.key",
          "annotations.split", "judges", "resolve"]),
        ("judge-pools", {**VOTES, "resolve": "first", "verdicts": VERDICTS["verdicts"]},
         ["judges[0].item", "judges[0].ab", "judges[0].says", "judges[0].words"]),
        ("pairwise", {"verdicts": VERDICTS["verdicts"]},
         ["judges[0].item", "judges[0].ab", "judges[0].says", "judges[0].words"]),
        ("pairwise", {**CALLS, "split": "tie"},
         ["annotations.file", "annotations.layout", "annotations.pools", "annotations.key"]),
    ],
)  # fmt: skip
def test_every_gap_is_a_placeholder_that_is_refused(
    study: str, more: dict[str, Any], places: list[str]
) -> None:
    """What a study of tables needs and is not known is named by its place, and nothing else is."""
    values = claimed(DraftValues(study=study, **more))
    problems = refusals(values)
    common = ["id", "title", "resampling", "exposure.seen"]
    assert {p.where for p in problems} == {*common, *places}
    assert all("placeholder TODO" in p.what for p in problems)


@pytest.mark.parametrize("name", FULL)
def test_the_commented_examples_are_right(name: str) -> None:
    """Uncommenting every optional part gives a registration that loads, and metrics that exist."""
    text = re.sub(r"(?m)^( *)# ((?:[a-z_]+:|  - |    [a-z_]+: ).*)$", r"\1\2", render(FULL[name]))
    text = re.sub(r"(?m)^bands: .*TODO.*\n", "", text)
    model = read_registration(text.encode(), shown="d.yaml").model
    assert all([model.bands, model.predictions, model.refuters, model.decisions, model.notes])
    assert bool(model.stop) is model.calls
    assert model.primary == model.bands[0].id
    assert model.sample_size is not None
    assert model.sample_size.width == 0.2
    if model.study == "leaderboard":
        assert model.assumed is not None
    if model.study == "pairwise":
        assert model.resolve == "agree_or_tie"
        assert (model.annotations is not None) is model.calls


def _tests(claim: Any) -> list[dict[str, Any]]:
    """Every mapping in a claim that names a metric."""
    if isinstance(claim, list):
        return [test for inner in claim for test in _tests(inner)]
    if not isinstance(claim, dict):
        return []
    own = [claim] if "metric" in claim else []
    return own + [test for inner in claim.values() for test in _tests(inner)]


@pytest.mark.parametrize("study", STUDIES)
def test_the_examples_name_metrics_with_their_parameters(study: str) -> None:
    """Each metric of an example exists, has what it needs and takes what it is given."""
    specs = STUDIES[study].catalogue(SET_ROLES).specs
    shown = examples(study, role="real", judge="q")
    found = [test for claim in shown.values() for test in _tests(claim)]
    assert len(found) >= 4
    for test in found:
        spec = specs[MetricRef(test["metric"]).base.name]
        limits = {"id", "metric", "expected", "between", "at_least", "at_most", "lt", "gt", "ge"}
        params = set(test) - limits
        assert set(spec.required) <= params <= {*spec.required, *spec.optional}


@pytest.mark.parametrize("study", STUDIES)
def test_an_example_band_can_be_typed(study: str) -> None:
    """The short form that messages show is read back as the band of the file."""
    band = examples(study, role="real", judge="my judge 2.5")["bands"]
    read = parse_band(f"{band['id']}:: {as_expression(band)}")
    assert {**read, "expected": band["expected"]} == band


def test_both_orders_are_the_draft_of_pairs_alone() -> None:
    """Pairs are shown both ways round unless it is said; other items as they are."""
    assert load(claimed(FULL["pairwise"])).protocol.orders == ("ab", "ba")
    one = dataclasses.replace(claimed(FULL["pairwise"]), orders=("ab",))
    assert load(one).protocol.orders == ("ab",)
    alone = DraftValues(**{**COMMON, "resampling": None}, **CALLS)
    assert load(claimed(alone)).protocol.orders == ("ab",)


@pytest.mark.parametrize(
    ("values", "where"),
    [
        ({"study": "pools", **VOTES, "resolve": "first"}, "resolve"),
        ({"study": "pools", **VOTES, "judge_runs": RUNS}, "judges"),
        ({"study": "pools", **VOTES, "assumed": {"span": 0.2, "shift_sd": 0.1}}, "assumed"),
        ({"study": "self-agreement", **CALLS}, "resampling"),
        ({"study": "self-agreement", **CALLS, "resampling": None, **VOTES}, "annotations"),
        ({"study": "pairwise", **VERDICTS, **VOTES}, "annotations"),
        ({"study": "pairwise", "judge_runs": RUNS}, "judges"),
        ({"study": "leaderboard", **VOTES,
          "stop": ({"id": "s", "when": {"metric": "calls.hangs", "ge": 1}},)}, "stop"),
    ],
)  # fmt: skip
def test_what_a_study_does_not_take_is_not_dropped(values: dict[str, Any], where: str) -> None:
    """A value that has no place in the study is written, so that the loader refuses it."""
    problems = refusals(claimed(DraftValues(**{**COMMON, **values})))
    assert where in [p.where for p in problems]


_TEXT = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12).filter(
    lambda s: any(map(str.isalnum, s)) and placeholder_in(s) is None
)
_NFC = _TEXT.map(lambda s: unicodedata.normalize("NFC", s)).filter(
    lambda s: placeholder_in(s) is None
)
_SEED = st.integers(0, 2**53 - 1)
_SIDES = st.sampled_from(["a", "b", "tie"])
_WORDS = st.dictionaries(_NFC, _SIDES, min_size=2, max_size=5).filter(
    lambda words: {"a", "b"} <= set(words.values())
)
_POOL_NAMES = st.lists(_NFC, min_size=2, max_size=2, unique=True).filter(
    lambda names: "neither" not in names
)
_PATTERNS = _NFC | st.lists(_NFC, min_size=1, max_size=3)
_COLUMNS = st.fixed_dictionaries(
    {"item": _TEXT, "annotator": _TEXT, "label": _TEXT, "gap": _TEXT},
    optional={"pool": _TEXT, "stratum": _TEXT},
)
_FILE_OF_VERDICTS = st.fixed_dictionaries(
    {
        "verdicts": st.fixed_dictionaries({"name": st.just("file"), "file": _TEXT}),
        "verdict_columns": st.fixed_dictionaries(
            {"item": st.lists(_TEXT, min_size=1, max_size=2),
             "models": st.lists(_TEXT, min_size=2, max_size=2), "ab": _TEXT, "ba": _TEXT,
             "stratum": _TEXT},
        ),
        "says": st.sampled_from(["slots", "answers"]),
        "words": _WORDS,
    }
)  # fmt: skip
_VOTED = st.fixed_dictionaries(
    {
        "votes": _TEXT,
        "layout": st.just("long"),
        "columns": _COLUMNS,
        "labels": _WORDS,
        "pools": st.builds(
            lambda names, one, two: [{"name": n, "match": m}
                                     for n, m in zip(names, (one, two), strict=True)],
            _POOL_NAMES, _PATTERNS, _PATTERNS,
        ),
        "key": st.sampled_from(["stored", "unordered"]),
        "split": st.sampled_from(["tie", "exclude"]),
        "gap": st.sampled_from([None, "column", "credit"]),
        "sample": st.none() | st.fixed_dictionaries({"items": st.integers(1, 999), "seed": _SEED}),
    }
)  # fmt: skip


@settings(max_examples=80, deadline=None)
@given(
    _VOTED,
    st.none() | _FILE_OF_VERDICTS,
    st.integers(100, 100_000),
    _SEED,
    st.booleans(),
)
def test_a_draft_of_tables_loads_as_the_values_it_was_made_of(
    voted: dict[str, Any],
    judged: dict[str, Any] | None,
    resamples: int,
    seed: int,
    by_stratum: bool,
) -> None:
    """Whatever the names, columns and words, the written file gives them back."""
    resampling = {"resamples": resamples, "seed": seed, "by_stratum": by_stratum}
    told = {**COMMON, **voted, **(judged or {}), "resampling": resampling}
    if judged:
        told |= {"judge_runs": RUNS, "resolve": "agree_or_tie"}
    model = load(claimed(DraftValues(study="judge-pools" if judged else "pools", **told)))
    data = model.model_dump(by_alias=True, exclude_none=True)
    keys = ("layout", "columns", "labels", "pools", "key", "split", "gap", "sample")
    wanted = {"file": voted["votes"], **{k: voted[k] for k in keys if voted[k] is not None}}
    for pool in wanted["pools"]:
        pool["match"] = [pool["match"]] if isinstance(pool["match"], str) else pool["match"]
    assert _plain(data["annotations"]) == _plain(wanted)
    assert data["resampling"] == resampling
    if judged:
        file = {**judged["verdicts"], **judged["verdict_columns"]}
        wanted_judges = [*RUNS, {**file, "says": judged["says"], "words": judged["words"]}]
        assert _plain(data["judges"]) == _plain(wanted_judges)


def _plain(value: Any) -> Any:
    """Lists for tuples and text in NFC, as files are compared."""
    if isinstance(value, str):
        return unicodedata.normalize("NFC", value)
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    return {_plain(k): _plain(v) for k, v in value.items()} if isinstance(value, dict) else value


def test_an_unreadable_study_is_refused_by_its_place() -> None:
    """A study that there is none of is one problem at `study`, and no crash."""
    values = claimed(DraftValues(**{**COMMON, "resampling": None}, **CALLS))
    with pytest.raises(InputError) as caught:
        load(dataclasses.replace(values, study="pool"))
    assert [p.where for p in caught.value.problems] == ["study"]
