"""The form of a judge file and everything that is refused about it, item rows aside.

Knows YAML, jinja2 and the part of JSON Schema that can be enforced; what a judge does with an
item or a reply is `judge`'s business.
"""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import Any, Literal

import jsonschema
from jinja2 import StrictUndefined, TemplateError, TemplateSyntaxError, meta
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from prereg_judge.complaints import Shape, form_problems, shown
from prereg_judge.errors import InputError, Problem, raise_all
from prereg_judge.sandbox import Sandbox
from prereg_judge.strict_yaml import Document, YamlPath, path_text
from prereg_judge.strict_yaml import load as load_yaml
from prereg_judge.wording import (
    capped,
    control_character,
    opening_placeholder,
    placeholder_in,
    quoted,
)

# What both the grammar and the validation of replies support. Anything else is refused, because
# a keyword that is silently dropped would constrain less than the judge file says.
_SCHEMA_KEYWORDS = frozenset(
    {"type", "properties", "required", "additionalProperties", "enum", "const", "items"}
    | {"minItems", "maxItems", "minLength", "maxLength", "title", "description"}
)
_ALWAYS_DEFINED = frozenset({"rules", "verdicts"})
# What an expression inside a template can raise beside jinja2's own errors.
TEMPLATE_FAULTS = (
    *(TypeError, ValueError, ArithmeticError, LookupError, AttributeError),
    *(RecursionError, MemoryError, SyntaxError),
)


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Example(_Strict):
    """An example under a rule: what was judged, the verdict, and why."""

    text: str = Field(description="What was judged.")
    verdict: str = Field(description="The verdict on it.")
    why: str = Field(description="Why, in a few words.")


class Rule(_Strict):
    """One rule of the guideline; a smaller `priority` wins where rules conflict."""

    id: str = Field(description="Short name of the rule.")
    priority: int = Field(description="A whole number; the smaller one wins in a conflict.")
    text: str = Field(description="The rule, in a sentence.")
    examples: list[Example] = Field(default_factory=list, description="Examples under the rule.")


class Pair(_Strict):
    """What makes a judge one of pairs: which fields are the answers, and what verdicts mean."""

    answers: list[str] = Field(
        min_length=2,
        max_length=2,
        description="The fields with the two answers; the order `ba` exchanges them.",
    )
    sides: dict[str, Literal[-2, -1, 0, 1, 2]] = Field(
        description="For each verdict: 2 or 1 = the first answer is better, clearly or slightly; "
        "0 = neither; -1 or -2 = the second."
    )


class JudgeFile(_Strict):
    """A judge file as written; see `judge/keep-drop.yaml` for a commented one."""

    judge: Literal[1] = Field(description="Form of this file: 1.")
    id: str = Field(
        pattern=r"^[a-z0-9][a-z0-9-]{0,63}$",
        description="Short name: small letters, digits and hyphens, at most 64.",
    )
    title: str = Field(description="The question, in a sentence.")
    verdicts: list[str] = Field(min_length=2, description="All the verdicts that it can give.")
    ships: str | None = Field(
        default=None,
        description="The verdict whose rows are used afterwards; a judge of pairs has none.",
    )
    pair: Pair | None = Field(
        default=None, description="For a judge that compares two answers: what they are."
    )
    verdict_field: str = Field(description="The reply's field that holds the verdict.")
    fields: list[str] = Field(min_length=1, description="The items' fields that `prompt` uses.")
    rules: list[Rule] = Field(default_factory=list, description="The guideline, in order.")
    system: str = Field(description="Template of the system message.")
    prompt: str = Field(description="Template of the user message.")
    system_role: Literal["keep", "fold"] = Field(
        description="`keep` = a system message; `fold` = put before the user's."
    )
    json_style: Literal["compact", "spaced"] = Field(
        description="Whether replies have spaces after commas and colons."
    )
    output: dict[str, Any] = Field(description="JSON Schema of the reply.")


def environment() -> Sandbox:
    """The jinja2 environment of a judge's templates."""
    return Sandbox(
        undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, autoescape=False
    )


def read_judge_file(raw: bytes, *, file: str) -> tuple[JudgeFile, Document]:
    """Check the bytes of a judge file; its content and where each entry of it stands.

    Raises
    ------
    InputError
        With every problem; see `judge.load_judge`.
    """
    document = load_yaml(raw, file=file)
    unfilled = _unfilled(document, file)
    try:
        spec = JudgeFile.model_validate(document.data)
    except ValidationError as exc:
        errors, shape = exc.errors(include_url=False), Shape(JudgeFile.model_json_schema())
        badly_formed = form_problems(errors, document, file, shape=shape)
        raise InputError(*capped([*unfilled, *badly_formed])) from exc
    problems = [*_verdict_problems(spec), *_pair_problems(spec)]
    problems += [*_template_problems(spec), *_schema_problems(spec)]
    raise_all(capped([*unfilled, *(placed(p, file, document) for p in problems)]))
    return spec, document


def placed(problem: Problem, file: str, document: Document) -> Problem:
    """The problem with the file and the line of the top-level key that it names."""
    top = (problem.where or "").split(".")[0].split("[")[0]
    return replace(problem, file=file, line=document.line_of((top,) if top else ()))


def _prose(data: Any) -> Iterator[tuple[YamlPath, str]]:
    """The sentences of a judge file; verdicts and examples may say TODO and mean it."""
    if not isinstance(data, dict):
        return
    for name in ("title", "system", "prompt"):
        yield (name,), data.get(name, "")
    rules = data.get("rules")
    for at, rule in enumerate(rules if isinstance(rules, list) else []):
        if isinstance(rule, dict):
            yield ("rules", at, "text"), rule.get("text", "")


def _unfilled(document: Document, file: str) -> list[Problem]:
    """Sentences that are still to be written, and a title that cannot be shown as it stands."""
    problems = []
    for path, text in _prose(document.data):
        if not isinstance(text, str):
            continue
        # A prompt may well hold <tags>; a title does not.
        mark = placeholder_in(text) if path == ("title",) else opening_placeholder(text)
        control = control_character(text) if path == ("title",) else None
        what = f"still holds the placeholder {mark}" if mark else None
        remedy = "write what you mean; do not begin with that word"
        if control is not None:
            what, remedy = f"holds the control character {control}", "write visible characters"
        elif path == ("title",) and not text.strip() and path in document.lines:
            what, remedy = "is empty", "write a sentence"
        if what is not None:
            line, where = document.line_of(path), path_text(path)
            problems.append(Problem(what, file, line, where, shown(text), remedy))
    return problems


def said(exc: Exception) -> str:
    """What went wrong in a template, with the line inside the text where that is known."""
    if isinstance(exc, TemplateSyntaxError):  # its str() is several lines, with a file's name
        return f"{(exc.message or 'it cannot be read').rstrip('.')}, on line {exc.lineno} of it"
    return str(exc) or type(exc).__name__


def _verdict_problems(spec: JudgeFile) -> list[Problem]:
    problems = []
    twice = [v for v, n in Counter(spec.verdicts).items() if n > 1]
    if twice or any(not v.strip() for v in spec.verdicts):
        what = "verdicts must be distinct and not empty"
        problems.append(Problem(what, where="verdicts", found=repr(spec.verdicts)))
    if spec.pair is not None and spec.ships is not None:
        what, remedy = "a judge of pairs has no verdict that ships", "leave `ships` out"
        problems.append(Problem(what, where="ships", found=repr(spec.ships), remedy=remedy))
    elif spec.pair is None and spec.ships is None:
        remedy = (
            "name the verdict whose rows are used; only a judge of pairs, with `pair`, has none"
        )
        problems.append(Problem("`ships` is missing", where="ships", remedy=remedy))
    elif spec.pair is None and spec.ships not in spec.verdicts:
        remedy = f"one of {', '.join(spec.verdicts)}"
        problems.append(
            Problem("is not a verdict", where="ships", found=quoted(spec.ships), remedy=remedy)
        )
    for rule in spec.rules:
        for example in rule.examples:
            if example.verdict not in spec.verdicts:
                what = f"an example of rule {rule.id!r} has a verdict that is not on the list"
                problems.append(Problem(what, where="rules", found=repr(example.verdict)))
    return problems


def _pair_problems(spec: JudgeFile) -> list[Problem]:
    """What does not fit between the two answers, the verdicts and what they mean."""
    pair = spec.pair
    if pair is None:
        return []
    problems = []
    for name in pair.answers:
        if name not in spec.fields:
            remedy = _nearest(name, spec.fields) + "list it under `fields`"
            problems.append(Problem("is not a field", where="pair", found=name, remedy=remedy))
    if pair.answers[0] == pair.answers[1]:
        what, remedy = "the two answers are one field", "name the two fields that are compared"
        problems.append(Problem(what, where="pair", found=pair.answers[0], remedy=remedy))
    without = [v for v in spec.verdicts if v not in pair.sides]
    unknown = [v for v in pair.sides if v not in spec.verdicts]
    for names, what in ((without, "verdicts have no side"), (unknown, "are no verdicts")):
        if names:
            remedy = "give every verdict one side, and nothing else"
            problems.append(Problem(what, where="pair", found=", ".join(names), remedy=remedy))
    sides = sorted(pair.sides.values())
    if sides != sorted(-side for side in sides) or len(set(sides)) < len(sides) or sides[-1:] < [1]:
        # Otherwise the order in which answers are shown would change what can be said of them.
        what = "the sides are not the same for both answers"
        remedy = "give one verdict for each of 1 and -1, of 2 and -2 or of all four, and at most "
        remedy += "one for 0"
        found = ", ".join(f"{v}: {side}" for v, side in pair.sides.items())
        problems.append(Problem(what, where="pair", found=found, remedy=remedy))
    return problems


def _template_problems(spec: JudgeFile) -> list[Problem]:
    twice = [name for name, n in Counter(spec.fields).items() if n > 1]
    problems = [
        Problem("a field is listed twice", where="fields", found=repr(name), remedy="list it once")
        for name in twice
    ]
    allowed = {"system": _ALWAYS_DEFINED, "prompt": _ALWAYS_DEFINED | set(spec.fields)}
    for name, source in (("system", spec.system), ("prompt", spec.prompt)):
        try:
            used = meta.find_undeclared_variables(environment().parse(source))
        except (TemplateError, *TEMPLATE_FAULTS) as exc:
            what, remedy = f"is not a jinja2 template: {said(exc)}", "mend the template"
            problems.append(Problem(what, where=name, remedy=remedy))
            continue
        for unknown in sorted(used - allowed[name]):
            remedy = _nearest(unknown, allowed[name])
            remedy += "list it under `fields`" if name == "prompt" else "use rules or verdicts"
            problems.append(
                Problem("uses a name it is not given", where=name, found=unknown, remedy=remedy)
            )
        if name == "prompt":
            for unused in sorted(set(spec.fields) - used):
                what = "a declared field does not appear in the prompt"
                problems.append(Problem(what, where="fields", found=unused, remedy="remove it"))
    return problems


def _nearest(unknown: str, known: Collection[str]) -> str:
    """The names that a misspelled one may be meant for, as a question; else empty."""
    near = difflib.get_close_matches(unknown, sorted(known), n=2, cutoff=0.6)
    return f"did you mean {' or '.join(near)}? Else " if near else ""


def _schema_problems(spec: JudgeFile) -> list[Problem]:
    schema, problems = spec.output, []

    def problem(what: str, remedy: str, found: object = None) -> None:
        shown = None if found is None else repr(found)
        problems.append(Problem(what, where="output", found=shown, remedy=remedy))

    try:
        jsonschema.Draft202012Validator.check_schema(schema)
    except jsonschema.SchemaError as exc:
        problem(f"is not a JSON schema: {exc.message}", "mend the schema")
        return problems
    for part, where in _parts(schema, "output"):
        for keyword in part:
            if keyword not in _SCHEMA_KEYWORDS:
                remedy = f"supported: {', '.join(sorted(_SCHEMA_KEYWORDS))}"
                problem(f"{where} uses a keyword that cannot be enforced", remedy, keyword)
        for what, remedy, found in _contradictions(part):
            problem(f"{where} {what}", remedy, found)
    if schema.get("type") != "object" or schema.get("additionalProperties") is not False:
        problem("must be a closed object", "set `type: object`, `additionalProperties: false`")
    properties = {n: p for n, p in schema.get("properties", {}).items() if isinstance(p, dict)}
    for name in schema.get("properties", {}).keys() - properties.keys():
        problem(f"the field {name!r} has no schema", "say what it is, as in {type: string}")
    if spec.verdict_field not in schema.get("required", []):
        problem("must require the verdict", f"add {spec.verdict_field!r} to `required`")
    verdicts = properties.get(spec.verdict_field, {}).get("enum")
    if verdicts is None or sorted(map(str, verdicts)) != sorted(spec.verdicts):
        remedy = f"give {spec.verdict_field!r} an `enum` of exactly the verdicts"
        problem("the verdict field's choices differ from `verdicts`", remedy, verdicts)
    if "const" in properties.get(spec.verdict_field, {}):
        fixed, remedy = properties[spec.verdict_field]["const"], "leave `const` out"
        problem("the verdict is settled by the schema, whatever the model says", remedy, fixed)
    for name, part in properties.items():
        if part.get("type") == "string" and "enum" not in part and "maxLength" not in part:
            problem(f"the text field {name!r} has no end", "give it a `maxLength`")
    return problems


def _parts(schema: Any, where: str) -> list[tuple[dict[str, Any], str]]:
    """A schema and every schema inside it, each with its place."""
    if not isinstance(schema, dict):
        return []
    found = [(schema, where)]
    for name, part in schema.get("properties", {}).items():
        found += _parts(part, f"{where}.properties.{name}")
    return found + _parts(schema.get("items"), f"{where}.items")


def _contradictions(part: dict[str, Any]) -> Iterator[tuple[str, str, object]]:
    """What no reply could fulfil, or only some of the choices: (what, remedy, found)."""
    beside = {k: v for k, v in part.items() if k in _SCHEMA_KEYWORDS - {"enum", "const"}}
    choices = [*part.get("enum", []), *([part["const"]] if "const" in part else [])]
    check = jsonschema.Draft202012Validator(beside)
    for choice in choices:
        if not check.is_valid(choice):
            kind = f"`type: {part['type']}`" if "type" in part else "the keywords beside it"
            yield f"has a choice that does not fit {kind}", "make the two agree", choice
    if "enum" in part and "const" in part and part["const"] not in part["enum"]:
        yield "has a `const` that is not in its `enum`", "give one of the two", part["const"]
    for low, high in (("minLength", "maxLength"), ("minItems", "maxItems")):
        if low in part and high in part and part[low] > part[high]:
            yield f"has a `{low}` above its `{high}`", "give the smaller number first", part[low]
    if part.get("additionalProperties") is False:
        for name in part.get("required", []):
            if name not in part.get("properties", {}):
                yield "requires a field that it does not have", "add it to `properties`", name
