"""Judge files: what is refused, what becomes of an item, and what is made of a reply."""

from __future__ import annotations

import json
import os
import tempfile
from datetime import date
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from prereg_judge.errors import InputError, Problem
from prereg_judge.items import Item, ItemSet
from prereg_judge.judge import Judge, check_items, load_judge, read_reply
from support import JUDGE, REPOSITORY

GOOD: dict[str, Any] = yaml.safe_load(JUDGE)
VERDICT = {"type": "string", "enum": ["YES", "NO"]}
TEXT = st.text(st.characters(exclude_categories=["Cs"]))


def judge(text: str | None = None, **changed: Any) -> Judge:
    """The yes/no judge, with top-level keys changed; None leaves a key out."""
    if text is None:
        data = {k: v for k, v in {**GOOD, **changed}.items() if v is not None}
        text = yaml.safe_dump(data, sort_keys=False)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "j.yaml"
        path.write_text(text, encoding="utf-8")
        return load_judge(path, shown="j.yaml")


def problems(text: str | None = None, **changed: Any) -> tuple[Problem, ...]:
    """Everything that such a judge is refused for."""
    with pytest.raises(InputError) as caught:
        judge(text, **changed)
    assert all(p.file == "j.yaml" for p in caught.value.problems)
    return caught.value.problems


def output(verdict: Any = VERDICT, **more: Any) -> dict[str, Any]:
    """The output schema with another verdict field and further keys or properties."""
    properties = {"verdict": verdict, **more.pop("properties", {})}
    schema = {**GOOD["output"], "properties": properties, **more}
    return {k: v for k, v in schema.items() if v is not None}


def item(**fields: Any) -> Item:
    """A row."""
    return Item("a", fields, None, None, None, 1)


def items(*rows: Item) -> ItemSet:
    """A set of rows."""
    return ItemSet("sentinel", "s.jsonl", "0" * 64, 1, rows)


def test_the_good_one() -> None:
    """What the cases start from is a judge."""
    made = judge()
    assert made.spec.verdicts == ["YES", "NO"]
    assert (len(made.sha256), made.n_bytes > 100) == (64, True)


def test_the_shipped_one() -> None:
    """The judge file that ships with the package is one, and renders its own sentinels."""
    made = load_judge(REPOSITORY / "judge/keep-drop.yaml", shown="judge/keep-drop.yaml")
    system, user = made.messages(item(question="Q?", original="O.", rewrite="R."))
    assert "1. A fact, step, limit" in system["content"]
    assert user["content"].startswith("Question: Q?\nOriginal: O.\nRewrite: R.\n")


@pytest.mark.parametrize("name", [k for k in GOOD if k != "rules"])
def test_no_key_may_be_left_out(name: str) -> None:
    """Each key of the file is needed, except an empty list of rules."""
    (problem,) = problems(**{name: None})
    assert (problem.where, problem.found) == (name, None)
    assert judge(rules=None).spec.rules == []


@pytest.mark.parametrize(
    ("changed", "where", "what"),
    [
        ({"judge": 2}, "judge", "1"),
        ({"judge": "1"}, "judge", "1"),
        ({"id": "Yes No"}, "id", "is not a short name"),
        ({"temperature": 1}, "temperature", "unknown key `temperature`"),
        ({"system_role": "drop"}, "system_role", "keep"),
        ({"json_style": "pretty"}, "json_style", "compact"),
        ({"titel": "x"}, "titel", "Did you mean title"),
        ({"verdicts": ["YES"]}, "verdicts", "at least 2"),
        ({"verdicts": ["YES", 1]}, "verdicts[1]", "must be text"),
        ({"verdicts": ["YES", "NO", "NO"]}, "verdicts", "distinct"),
        ({"verdicts": ["YES", " "]}, "verdicts", "not empty"),
        ({"ships": "MAYBE"}, "ships", "not a verdict"),
        ({"fields": []}, "fields", "at least one"),
        ({"fields": ["text", "text"]}, "fields", "listed twice"),
        ({"fields": ["text", "other"]}, "fields", "does not appear in the prompt"),
        ({"prompt": "{{ text }} {{ other }}"}, "prompt", "a name it is not given"),
        ({"prompt": "{{ txt }}", "fields": ["text"]}, "prompt", "Did you mean text? Else list it"),
        ({"system": "{{ text }}"}, "system", "a name it is not given"),
        ({"prompt": "{{ text"}, "prompt", "not a jinja2 template"),
        ({"prompt": "a\n{{ text | nosuch }}"}, "prompt", "named 'nosuch', on line 2 of it"),
        ({"title": " "}, "title", "is empty"),
        ({"title": "a\x1bb"}, "title", "control character U+001B"),
        ({"title": "a\x9bb"}, "title", "control character U+009B"),
        ({"title": "TODO"}, "title", "placeholder TODO"),
        ({"title": "todo"}, "title", "placeholder todo"),
        ({"title": "Is <this> so?"}, "title", "placeholder <this>"),
        ({"system": "Tbd: say it"}, "system", "placeholder Tbd"),
        ({"prompt": "XXX {{ text }}"}, "prompt", "placeholder XXX"),
        (
            {"rules": [{"id": "r", "priority": 1, "text": "fixme"}]},
            "rules[0].text",
            "placeholder fixme",
        ),
        ({"output": output({"type": "integer", "enum": ["YES", "NO"]})}, "output",
         "output.properties.verdict has a choice that does not fit `type: integer`"),
        ({"output": output({**VERDICT, "const": "MAYBE"})}, "output", "not in its `enum`"),
        ({"output": output({**VERDICT, "const": "DROP"})}, "output", "settled by the schema"),
        ({"output": output({**VERDICT, "maxLength": 2})}, "output", "does not fit"),
        ({"output": output(properties={"why": {"type": "string", "minLength": 9, "maxLength": 3}})},
         "output", "`minLength` above its `maxLength`"),
        ({"output": output(required=["verdict", "why"])}, "output", "does not have"),
        ({"prompt": "{% include 'x' %}{{ text }}{% endif %}"}, "prompt", "not a jinja2 template"),
        ({"output": {"type": 7}}, "output", "not a JSON schema"),
        ({"output": output(type="array")}, "output", "closed object"),
        ({"output": output(additionalProperties=True)}, "output", "closed object"),
        ({"output": output(additionalProperties=None)}, "output", "closed object"),
        ({"output": output(required=[])}, "output", "must require the verdict"),
        ({"output": output({"type": "string"})}, "output", "choices differ"),
        ({"output": output({"enum": ["YES"]})}, "output", "choices differ"),
        ({"output": output({"enum": ["YES", "NO", "MAYBE"]})}, "output", "choices differ"),
        ({"output": output(verdict=True)}, "output", "'verdict' has no schema"),
        ({"output": output(properties={"x": False})}, "output", "'x' has no schema"),
        ({"output": output(properties={"why": {"type": "string"}})}, "output", "has no end"),
        ({"output": output({**VERDICT, "pattern": "a"})}, "output", "cannot be enforced"),
        ({"output": output(oneOf=[])}, "output", ""),
        ({"output": output(patternProperties={})}, "output", "cannot be enforced"),
        (
            {"output": output(properties={"count": {"type": "integer", "minimum": 3}})},
            "output",
            "output.properties.count uses a keyword that cannot be enforced",
        ),
        (
            {"output": output(properties={"count": {"type": "array", "items": {"not": {}}}})},
            "output",
            "output.properties.count.items uses a keyword that cannot be enforced",
        ),
        ({"output": output({"$ref": "#/x"})}, "output", "cannot be enforced"),
        (
            {"rules": [{"id": "r", "priority": 1, "text": "t", "examples": [
                {"text": "t", "verdict": "MAYBE", "why": "w"}]}]},
            "rules",
            "'r' has a verdict that is not on the list",
        ),
        ({"rules": [{"id": "r", "text": "t"}]}, "rules[0].priority", "is missing"),
        ({"rules": [{"id": "r", "priority": 1.5, "text": "t"}]}, "rules[0].priority", "whole"),
    ],
)  # fmt: skip
def test_judges_that_are_refused(changed: dict[str, Any], where: str, what: str) -> None:
    """Each mistake is told with the place in the file where it stands."""
    found = problems(**changed)
    assert where in [p.where for p in found]
    assert what in " ".join(map(str, found))
    assert all(p.line is not None for p in found)


def test_everything_wrong_is_told_at_once() -> None:
    """Verdicts, templates and schema are all looked at before the file is refused."""
    found = problems(ships="MAYBE", prompt="{{ other }}", output=output(required=[]))
    assert {p.where for p in found} == {"ships", "prompt", "fields", "output"}


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("", "is empty"),
        ("- a", "a mapping of keys to values"),
        (JUDGE + "title: again\n", "given twice"),
        (JUDGE.replace('["YES", "NO"]\nships', "[YES, NO]\nships"), "ambiguous"),
        (JUDGE.replace("fields: [text]", "fields: &f [text]"), "anchors"),
    ],
)
def test_files_that_are_refused(text: str, what: str) -> None:
    """The strict reader stands before the judge: no guess about NO, no key twice."""
    assert what in " ".join(map(str, problems(text)))


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    """A missing file is told by the name in the registration."""
    with pytest.raises(InputError, match=r"^judge/x\.yaml: the judge file does not exist"):
        load_judge(tmp_path / "x.yaml", shown="judge/x.yaml")


@pytest.mark.parametrize("kind", ["folder", "pipe"])
def test_what_is_there_and_is_no_file(tmp_path: Path, kind: str) -> None:
    """A folder or a pipe is not said to be missing, and a pipe is not waited for."""
    path = tmp_path / "j.yaml"
    path.mkdir() if kind == "folder" else os.mkfifo(path)
    with pytest.raises(InputError, match=r"not a (regular )?file"):
        load_judge(path, shown="j.yaml")


def test_words_that_only_look_like_placeholders() -> None:
    """A prompt may hold tags and speak of TODO notes; a system message may be empty."""
    assert judge(
        prompt="<text>{{ text }}</text> Is this a TODO?", system="", title="Todoist or not"
    )


def test_many_problems_are_cut_at_twenty() -> None:
    """A long list of mistakes ends with how many more there are."""
    rules = [{"id": "r", "priority": "x", "text": "t"} for _ in range(50)]
    found = problems(rules=rules)
    assert (len(found), "30 more" in found[20].what) == (21, True)


def test_messages() -> None:
    """A row becomes a system and a user message, without space around them, unescaped."""
    system, user = judge().messages(item(text="<b> & 'x'"))
    assert system["role"] == "system"
    assert system["content"].endswith('Reply with JSON: {"verdict":"..."}.')
    assert user == {"role": "user", "content": "<b> & 'x': YES or NO?"}


def test_templates_see_rules_and_verdicts_only() -> None:
    """The lists are given to both templates; what is in a row's text is never a template."""
    made = judge(system="{{ verdicts | join('/') }} {{ rules | length }}", prompt=" {{ text }} ")
    system, user = made.messages(item(text="{{ verdicts }}"))
    assert (system["content"], user["content"]) == ("YES/NO 0", "{{ verdicts }}")


@pytest.mark.parametrize(
    "prompt",
    [
        "{{ text.nothing }}",
        "{{ text + 1 }}",
        "{{ 1 // 0 }}{{ text }}",
        "{{ text | nofilter }}",
        "{{ text.__class__.__mro__ }}",
        "{% for i in range(10**9) %}{{ text }}{% endfor %}",
        "{{ text[7] }}",
        "{{ '%d' | format(text) }}",
    ],
)
def test_a_prompt_that_cannot_be_rendered(prompt: str) -> None:
    """Whatever goes wrong inside a template is the judge file's problem, and says for which row."""
    with pytest.raises(InputError, match=r"j\.yaml"):
        judge(prompt=prompt).messages(item(text="t"))


def test_identity() -> None:
    """What the judge sees decides: rows by their used fields, judges by what shapes the prompt."""
    made = judge()
    assert made.content(item(text="a", more="b")) == made.content(item(text="a"))
    assert made.content(item(text="a")) != made.content(item(text="b"))
    assert made.content(item(text="1")) != made.content(item(text=1))
    assert judge(title="Another").prompt_sha256 == made.prompt_sha256
    assert judge(prompt="{{ text }}?").prompt_sha256 != made.prompt_sha256
    wide = output(properties={"count": {"type": "integer"}})
    turned = {**wide, "properties": dict(reversed(wide["properties"].items()))}
    assert judge(output=wide).output_sha256 != judge(output=turned).output_sha256


def test_shortest_replies() -> None:
    """Known unless a list or an object is required beside the verdict."""
    assert judge().shortest_replies() == ['{"verdict":"YES"}', '{"verdict":"NO"}']
    spaced = judge(json_style="spaced").shortest_replies()
    assert spaced == ['{"verdict": "YES"}', '{"verdict": "NO"}']
    more = output(properties={"count": {"type": "integer"}}, required=["verdict", "count"])
    assert judge(output=more).shortest_replies()[0] == '{"verdict":"YES","count":0}'
    reason = output(
        properties={
            "reason": {"type": "string", "minLength": 3, "maxLength": 9},
            "sure": {"enum": ["certainly", "no"]},
        },
        required=["reason", "sure", "verdict"],
    )
    assert len(judge(output=reason).shortest_replies()[1]) == len(
        '{"verdict":"NO","reason":"xxx","sure":"no"}'
    )
    for one in (judge(), judge(output=more), judge(output=reason)):
        for reply in one.shortest_replies():
            assert one.parse(reply).verdict is not None
    listed = output(
        properties={"tags": {"type": "array", "items": {"type": "string"}, "maxItems": 2}},
        required=["tags", "verdict"],
    )
    assert judge(output=listed).shortest_replies() == []


@pytest.mark.parametrize(
    ("text", "verdict", "unscored"),
    [
        ('{"verdict":"YES"}', "YES", None),
        (' {"verdict" : "NO"} \n', "NO", None),
        ('{"verdict":"yes"}', None, "off_menu"),
        ('{"verdict":"YES "}', None, "off_menu"),
        ('{"verdict":""}', None, "off_menu"),
        ('{"verdict":null}', None, "off_menu"),
        ('{"verdict":true}', None, "off_menu"),
        ('{"verdict":["YES"]}', None, "off_menu"),
        ('{"verdict":{"YES":1}}', None, "off_menu"),
        ('{"answer":"YES"}', None, "unreadable"),
        ('{"Verdict":"YES"}', None, "unreadable"),
        ('{"verdict":"YES","why":"because"}', None, "unreadable"),
        ('["verdict"]', None, "unreadable"),
        ('"YES"', None, "unreadable"),
        ("YES", None, "unreadable"),
        ("", None, "unreadable"),
        ("null", None, "unreadable"),
        ('{"verdict":"YES"', None, "unreadable"),
        ('{"verdict":"YES"} and more', None, "unreadable"),
        ('```json\n{"verdict":"YES"}\n```', None, "unreadable"),
        ("[" * 100_000, None, "unreadable"),
    ],
)
def test_replies(text: str, verdict: str | None, unscored: str | None) -> None:
    """A verdict is taken only as it stands on the list; everything else has a typed reason."""
    read = read_reply(judge(), text=text, finish="complete")
    assert (read.verdict, read.unscored) == (verdict, unscored)
    assert (read.detail is None) == (verdict is not None)


@pytest.mark.parametrize(
    ("finish", "unscored"),
    [
        ("cap", "cap"),
        ("runaway", "runaway"),
        ("thinking_cap", "thinking_cap"),
        ("no_answer", "unreadable"),
    ],
)
def test_a_reply_that_is_not_complete_has_no_verdict(finish: str, unscored: str) -> None:
    """Also when what came so far could be read."""
    read = read_reply(judge(), text='{"verdict":"YES"}', finish=finish)
    assert (read.verdict, read.unscored) == (None, unscored)
    assert read.detail


MADE = judge()


@given(TEXT | st.sampled_from(["YES", "NO"]).map(lambda v: json.dumps({"verdict": v})))
def test_exactly_one_of_verdict_and_reason(text: str) -> None:
    """No reply breaks the reader; a verdict comes only from what the schema allows."""
    read = MADE.parse(text)
    assert (read.verdict is None) == (read.unscored is not None)
    if read.verdict is not None:
        jsonschema.validate(json.loads(text), MADE.spec.output)
        assert json.loads(text) == {"verdict": read.verdict}


@pytest.mark.parametrize("value", ["text", 0, 3, -1.5, 2**53 - 1, -(2**53) + 1])
def test_values_that_can_be_judged(value: Any) -> None:
    """Text and numbers that a record can hold exactly."""
    assert check_items(judge(), [items(item(text=value))]) == []
    assert len(judge().content(item(text=value))) == 64


@pytest.mark.parametrize(
    ("fields", "found", "what"),
    [
        ({}, "nothing", "lacks a field"),
        ({"text": None}, "None", "lacks a field"),
        ({"text": ""}, "''", "nothing to judge"),
        ({"text": " \n"}, "' \\n'", "nothing to judge"),
        ({"text": True}, "True", "neither text nor a number"),
        ({"text": ["a"]}, "['a']", "neither text nor a number"),
        ({"text": {"a": 1}}, "{'a': 1}", "neither text nor a number"),
        ({"text": date(2026, 2, 3)}, "datetime.date(2026, 2, 3)", "neither text nor a number"),
        ({"text": float("nan")}, "nan", "cannot be recorded exactly"),
        ({"text": float("inf")}, "inf", "cannot be recorded exactly"),
        ({"text": 2**53}, str(2**53), "cannot be recorded exactly"),
        ({"text": -1e300}, "-1e+300", "cannot be recorded exactly"),
    ],
)
def test_values_that_cannot_be_judged(fields: dict[str, Any], found: str, what: str) -> None:
    """What has no one text, or no canonical form, is refused before any call."""
    (problem,) = check_items(judge(), [items(item(**fields))])
    assert (problem.file, problem.line, problem.where) == ("s.jsonl", 1, "text")
    assert problem.found == found
    assert what in problem.what


def test_one_blank_field_beside_another_is_an_answer() -> None:
    """An empty rewrite can be judged; a row that is blank throughout cannot."""
    two = judge(fields=["text", "more"], prompt="{{ text }} {{ more }}")
    assert check_items(two, [items(item(text="a", more=""))]) == []
    (problem,) = check_items(two, [items(item(text="", more=" "))])
    assert (problem.where, "nothing to judge" in problem.what) == ("text, more", True)


def test_rows_that_cannot_be_judged_are_cut_at_twenty() -> None:
    """A column left out of a long file is not a message a row."""
    found = check_items(judge(), [items(*[item()] * 200)])
    assert (len(found), "180 more" in found[20].what) == (21, True)


def test_labels_are_verdicts() -> None:
    """A known answer that the judge cannot give would count as an error for ever."""
    rows = [Item(str(n), {"text": "t"}, v, None, None, n) for n, v in enumerate(["YES", "yes"], 1)]
    (problem,) = check_items(judge(), [items(*rows)])
    assert (problem.line, problem.where, problem.found) == (2, "label", "'yes'")
