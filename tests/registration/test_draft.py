"""The draft that a person starts from: it loads as it is, or says what is missing."""

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
from prereg_judge.registration.load import placeholder_in, read_registration
from prereg_judge.registration.schema import Registration
from prereg_judge.strict_yaml import load
from prereg_judge.wording import control_character, hidden_character

FULL = DraftValues(
    id="x", title="Is it so?", judge="judge/a.yaml", sentinel="s.jsonl", gguf="m.gguf",
    n_ctx=512, n_gpu_layers=0, passes=2, prefix="whole", decoding={"mode": "greedy"},
    max_tokens=9, hang={"call_timeout_s": 9, "retries": 0}, missing="disagree", seen="nothing",
    bands=({"id": "b", "metric": "sentinel.agreement.count", "between": [1, 2]},),
)  # fmt: skip
# Filled in but for a claim.
UNCLAIMED = dataclasses.replace(FULL, bands=())

ODD = [
    "NO", "y", "null", "1:30", "042", "1e5", "12e4567", "2026-01-31", "a: b", "a #b", "# a", "- a",
    "a, b", "{a}", "[a]", "*a", "&a", "!a", "'a'", '"a"', "a\\b", "a\nb", "a\tb", " a ", "a:", "%a",
    "@a", "`a`", "\u00e9", "e\u0301", "\U0001f600", "\u2028", "\u202e", "\x85", "\x7f",
    "\ufeff", "\x00", "<<", "=", "...", "---", "~", "a  b", "true", ".nan", "?", "? a", "|", ">",
]  # fmt: skip


@pytest.mark.parametrize("text", ODD)
def test_odd_text_comes_back_as_it_went_in(text: str) -> None:
    """Text that YAML would take for something else is quoted, wherever it stands."""
    bands = [{"id": "b", "metric": "m", "kind": f"{text}x", "between": [1, 2]}]
    values = dataclasses.replace(FULL, seen=f"x{text}", notes=text, real=f"{text}.",
                                 bands=bands, template_args={"k": text})  # fmt: skip
    model = read_registration(render(values).encode(), shown="d.yaml").model
    nfc = unicodedata.normalize("NFC", text)
    assert (model.exposure.seen, model.notes, model.items.real) == (f"x{nfc}", nfc, f"{nfc}.")
    assert (model.bands[0].kind, model.model.template_args) == (f"{nfc}x", {"k": nfc})


def test_an_empty_draft_is_yaml_whose_every_gap_is_named() -> None:
    """Without values the draft is readable, and the loader names each gap by its line."""
    text = render(DraftValues())
    assert load(text, file="d").data["prereg"] == 1
    with pytest.raises(InputError) as caught:
        read_registration(text.encode(), shown="d.yaml")
    assert all("placeholder TODO" in p.what for p in caught.value.problems)
    lines = text.splitlines()
    gaps = [n for n, line in enumerate(lines, 1) if "TODO" in line]
    assert [p.line for p in caught.value.problems] == gaps
    assert len(gaps) == 15


@pytest.mark.parametrize("gap", [f.name for f in dataclasses.fields(FULL)
                                 if getattr(FULL, f.name) is not None
                                 and getattr(DraftValues(), f.name) is None])  # fmt: skip
def test_one_missing_value_is_one_problem(gap: str) -> None:
    """Leaving out any one needed value is refused as exactly that."""
    changes: dict[str, Any] = {gap: None}
    holed = dataclasses.replace(FULL, **changes)
    with pytest.raises(InputError) as caught:
        read_registration(render(holed).encode(), shown="d")
    [problem] = caught.value.problems
    assert (problem.where or "").rpartition(".")[2] == gap


def test_of_several_expectations_one_must_be_primary() -> None:
    """Two bands, or a band and a prediction, leave a gap that names them; one band leaves none."""
    band = {"id": "b", "metric": "m", "between": [1, 2]}
    other = {"id": "p", "metric": "m", "at_least": 1}
    for claims in (
        {"bands": [band, {**band, "id": "p"}]},
        {"bands": [band], "predictions": [other]},  # with one of them, nothing is to choose
    ):
        values = dataclasses.replace(FULL, **claims)
        with pytest.raises(InputError) as caught:
            read_registration(render(values).encode(), shown="d")
        [problem] = caught.value.problems
        assert problem.where == "primary"
        assert "one of b, p" in (problem.found or "")
        chosen = dataclasses.replace(values, primary="p")
        assert read_registration(render(chosen).encode(), shown="d").model.primary == "p"
    alone = read_registration(render(dataclasses.replace(FULL, bands=[band])).encode(), shown="d")
    assert (alone.model.primary, alone.model.primary_claim) == (None, "b")


def test_a_draft_without_a_claim_asks_for_one() -> None:
    """A band or a prediction is needed: its place is a gap like any other; with one it is none."""
    [problem] = refusals(UNCLAIMED)
    assert problem.where == "bands"
    assert "at least one band" in (problem.found or "")
    prediction = {"id": "p", "metric": "sentinel.agreement.count", "at_least": 1}
    assert refusals(dataclasses.replace(UNCLAIMED, predictions=(prediction,))) == []


def test_the_gap_of_decoding_shows_draws_and_what_is_off() -> None:
    """The form to copy is not greedy decoding, which would hide what a study looks for."""
    text = render(dataclasses.replace(FULL, decoding=None))
    [gap] = [line for line in text.splitlines() if "TODO" in line]
    assert "{mode: sampled, temperature: 0.8, top_k: 40, top_p: 0.95, min_p: 0.05}" in gap
    assert "Off: top_k 0, top_p 1, min_p 0." in text


def test_the_example_of_a_width_is_in_the_unit_of_the_primary_claim() -> None:
    """Rows beside a count, a share beside a rate."""
    assert ", width: 10}" in render(FULL)
    share = {"id": "r", "metric": "sentinel.agreement.rate", "between": [0.5, 0.9]}
    both = dataclasses.replace(FULL, bands=(*FULL.bands, share), primary="r")
    assert ", width: 0.2}" in render(both)
    assert "rows for .count, a share for .rate" in render(FULL)


def test_a_metric_that_the_study_lacks_is_refused_wherever_it_stands() -> None:
    """A typo in a band, or deep in a condition, is named with its place and what may be meant."""
    typo = {"id": "b", "metric": "sentinel.agreement.cnt", "between": [1, 2]}
    [problem] = refusals(dataclasses.replace(FULL, bands=(typo,)))
    assert (problem.where, problem.file) == ("bands[0].metric", None)
    assert "did you mean sentinel.agreement.count" in (problem.remedy or "")
    parts = [{"metric": "calls.hangs", "ge": 1}, {"metric": "calls.hungs", "ge": 1}]
    refuter = {"id": "r", "when": {"any": parts}, "means": "it hung"}
    [problem] = refusals(dataclasses.replace(FULL, refuters=(refuter,)))
    assert problem.where == "refuters[0].when.any[1].metric"
    limit = {**FULL.bands[0], "metric": "real.agreement.count.ci_low"}
    assert refusals(dataclasses.replace(FULL, bands=(limit,))) == []


def test_every_key_stands_under_a_comment() -> None:
    """Each key at the top, and each under model and protocol, is explained by the line above."""
    lines = render(FULL).splitlines()
    keys = [n for n, line in enumerate(lines) if re.match(r"(?:  )?[a-z_]+:", line)]
    assert len(keys) > 20
    assert [lines[n] for n in keys if not lines[n - 1].lstrip().startswith("# ")] == []


def test_the_commented_examples_are_right() -> None:
    """Uncommenting every optional part gives a registration that loads."""
    text = re.sub(r"(?m)^( *)# ((?:[a-z_]+:|  - |    [a-z]+: ).*)$", r"\1\2", render(UNCLAIMED))
    text = re.sub(r"(?m)^bands: .*TODO.*\n", "", text)
    text = text.replace("\nOptional", "\n# Optional")
    model = read_registration(text.encode(), shown="d.yaml").model
    assert all([model.bands, model.predictions, model.refuters, model.stop, model.decisions])
    assert model.notes == "why these items"
    assert (model.primary, model.due) == ("agree", "2027-01-31")
    assert model.sample_size is not None
    assert (model.sample_size.why, model.sample_size.width) == (
        "all the sentinels that there are",
        10,
    )
    assert model.exposure.level == "full"
    assert model.model.template_args == {"enable_thinking": False}


_WORDS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)
# Marks alone say nothing, which is refused where a sentence is due.
_TEXT = _WORDS.filter(lambda s: any(map(str.isalnum, s)) and placeholder_in(s) is None)
_METRIC = st.text(st.characters(codec="ascii"), min_size=1, max_size=20).filter(
    lambda s: s.strip() and placeholder_in(s) is None
)
_NUMBER = st.integers(-1000, 1000) | st.floats(-1e6, 1e6, allow_subnormal=False)
_PARAMS = st.fixed_dictionaries(
    {"metric": _METRIC}, optional={"kind": _TEXT, "verdict": _TEXT, "pass": st.integers(1, 9)}
)
_TEST = st.builds(
    lambda m, op, x: {**m, op: x}, _PARAMS, st.sampled_from(["lt", "le", "gt", "ge", "eq"]), _NUMBER
)
_WHEN = st.recursive(
    _TEST,
    lambda inner: st.builds(
        lambda how, parts: {how: parts},
        st.sampled_from(["all", "any"]),
        st.lists(inner, min_size=1, max_size=3),
    ),
    max_leaves=4,
)
_BAND = st.builds(lambda m, a, b: {**m, "between": sorted([a, b])}, _PARAMS, _NUMBER, _NUMBER)
_SAMPLED = {"temperature": st.floats(0.01, 5), "top_k": st.integers(0, 99),
            "top_p": st.floats(0.01, 1),
            "min_p": st.floats(0, 0.99, allow_subnormal=False)}  # fmt: skip


def _numbered(claims: st.SearchStrategy[dict[str, Any]], name: str) -> st.SearchStrategy[Any]:
    return st.lists(claims, max_size=2).map(
        lambda found: [{"id": f"{name}-{n}", **claim} for n, claim in enumerate(found)]
    )


_VALUES = st.builds(
    DraftValues,
    id=st.from_regex(r"[a-z0-9][a-z0-9-]{0,63}", fullmatch=True).filter(
        lambda s: placeholder_in(s) is None
    ),
    title=_TEXT.filter(lambda s: (control_character(s) or hidden_character(s)) is None),
    judge=_TEXT,
    sentinel=_TEXT,
    real=st.none() | _TEXT,
    gguf=_TEXT.filter(lambda s: not s.startswith("package:")),
    n_ctx=st.integers(256, 2**40),
    n_gpu_layers=st.integers(-1, 99),
    n_threads=st.none() | st.integers(1, 99),
    load_timeout_s=st.none() | st.floats(0.1, 1e6),
    template_date=st.none() | st.dates().map(str),
    template_args=st.none()
    | st.dictionaries(_TEXT.map(lambda s: unicodedata.normalize("NFC", s)),
                      st.booleans() | st.integers(-9, 9) | _TEXT, max_size=2),
    passes=st.integers(1, 9),
    prefix=st.sampled_from(["shared", "whole"]),
    decoding=st.just({"mode": "greedy"})
    | st.fixed_dictionaries({"mode": st.just("sampled"), **_SAMPLED})
    | st.fixed_dictionaries(
        {"mode": st.just("seeded"), "seed": st.integers(0, 2**53 - 1), **_SAMPLED}
    ),
    max_tokens=st.integers(1, 999),
    hang=st.just({"call_timeout_s": 9.5, "retries": 1, "heartbeat_s": 3}),
    missing=st.sampled_from(["disagree", "exclude", "undefined"]),
    bands=_numbered(_BAND, "band"),
    predictions=_numbered(_PARAMS.map(lambda m: {**m, "at_least": 1}), "prediction"),
    refuters=_numbered(st.fixed_dictionaries({"when": _WHEN, "means": _TEXT}), "refuter"),
    stop=_numbered(
        st.fixed_dictionaries(
            {"when": _TEST, "in_every": st.integers(1, 9), "over_first": st.integers(9, 99)}
        ),
        "stop",
    ),
    decisions=_numbered(st.fixed_dictionaries({"when": _WHEN, "then": _TEXT}), "decision"),
    seen=_TEXT,
    due=st.none() | st.dates().map(str),
    why_so_many=st.none() | _TEXT,
    notes=st.none() | _TEXT,
)  # fmt: skip


def _with_primary(v: DraftValues, data: st.DataObject) -> DraftValues:
    """A claim marked as primary: any where there are several, with one also none.

    Without any claim the draft has a gap: it gets a band.
    """
    if not (v.bands or v.predictions):
        v = dataclasses.replace(v, bands=FULL.bands)
    ids = [c["id"] for c in (*v.bands, *v.predictions)]
    none = [None] if len(ids) < 2 else []
    return dataclasses.replace(v, primary=data.draw(st.sampled_from([*ids, *none])))


def _expected(v: DraftValues) -> dict[str, Any]:
    """The data that the values stand for."""
    model = ("gguf", "n_ctx", "n_gpu_layers", "n_threads", "n_batch", "load_timeout_s",
             "template_date", "template_args")  # fmt: skip
    top = ("id", "title", "study", "judge", "missing", "notes", "primary", "due")
    claims = ("bands", "predictions", "refuters", "stop", "decisions")
    data: dict[str, Any] = {
        "prereg": 1,
        **{k: getattr(v, k) for k in (*top, *claims)},
        "items": {"sentinel": v.sentinel, "real": v.real},
        "model": {k: getattr(v, k) for k in model},
        "protocol": {"passes": v.passes, "orders": ["ab"], "path": v.path, "prefix": v.prefix,
                     "decoding": v.decoding, "max_tokens": v.max_tokens, "parallel": 1,
                     "hang": v.hang},
        "exposure": {"seen": v.seen},
        "sample_size": None if v.why_so_many is None else {"why": v.why_so_many},
    }  # fmt: skip
    return data


def _nfc(value: Any) -> Any:
    if isinstance(value, str):
        return unicodedata.normalize("NFC", value)
    if isinstance(value, list | tuple):
        return [_nfc(x) for x in value]
    return {_nfc(k): _nfc(x) for k, x in value.items()} if isinstance(value, dict) else value


@settings(max_examples=150, deadline=None)
@given(_VALUES, st.data())
def test_a_draft_loads_as_the_values_it_was_made_of(
    values: DraftValues, data: st.DataObject
) -> None:
    """Whatever the values, the written file gives the same model as the values themselves."""
    values = _with_primary(values, data)
    loaded = read_registration(render(values).encode(), shown="d.yaml")
    assert loaded.model == Registration.model_validate(_nfc(_expected(values)))
