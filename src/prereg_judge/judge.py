"""Judge files: guideline, prompt template, output schema, verdicts, and which verdict ships.

Turns an item into chat messages and a reply's text into a verdict. Knows nothing of models:
how messages become a prompt is the engine's business.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import jsonschema
from jinja2 import StrictUndefined, Template, TemplateError, meta
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from prereg_judge.canon import sha256_bytes, sha256_value
from prereg_judge.errors import InputError, Problem, raise_all
from prereg_judge.items import Item, ItemSet
from prereg_judge.sandbox import Sandbox, time_limit
from prereg_judge.strict_yaml import load as load_yaml
from prereg_judge.words import Unscored

Message = dict[str, str]

# What both the grammar and the validation of replies support. Anything else is refused, because
# a keyword that is silently dropped would constrain less than the judge file says.
_SCHEMA_KEYWORDS = frozenset(
    {"type", "properties", "required", "additionalProperties", "enum", "const", "items"}
    | {"minItems", "maxItems", "minLength", "maxLength", "title", "description"}
)
_ALWAYS_DEFINED = frozenset({"rules", "verdicts"})
# What an expression inside a template can raise beside jinja2's own errors.
_TEMPLATE_FAULTS = (
    *(TypeError, ValueError, ArithmeticError, LookupError, AttributeError),
    *(RecursionError, MemoryError, SyntaxError),
)
_MAX_NUMBER = 2**53  # beyond it, canonical JSON cannot say which number it is


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Example(_Strict):
    """An example under a rule: what was judged, the verdict, and why."""

    text: str
    verdict: str
    why: str


class Rule(_Strict):
    """One rule of the guideline; a smaller `priority` wins where rules conflict."""

    id: str
    priority: int
    text: str
    examples: list[Example] = Field(default_factory=list)


class JudgeFile(_Strict):
    """A judge file as written; see `judge/keep-drop.yaml` for a commented one."""

    judge: Literal[1]
    id: str = Field(pattern=r"^[a-z0-9][a-z0-9-]{0,63}$")
    title: str
    verdicts: list[str] = Field(min_length=2)
    ships: str
    verdict_field: str
    fields: list[str] = Field(min_length=1)
    rules: list[Rule] = Field(default_factory=list)
    system: str
    prompt: str
    system_role: Literal["keep", "fold"]
    json_style: Literal["compact", "spaced"]
    output: dict[str, Any]


@dataclass(frozen=True)
class Parsed:
    """A reply read as a verdict, or the reason why it cannot be."""

    verdict: str | None
    unscored: Unscored | None = None
    detail: str | None = None


@dataclass(frozen=True)
class Judge:
    """A loaded judge: the file's model, its bytes' hash, and what it does."""

    file: str
    spec: JudgeFile
    sha256: str
    n_bytes: int

    @cached_property
    def _templates(self) -> tuple[Template, Template]:
        env = _environment()
        return env.from_string(self.spec.system), env.from_string(self.spec.prompt)

    @property
    def prompt_sha256(self) -> str:
        """Hash of what shapes the prompt: both templates, the rules and the verdict list."""
        shape = self.spec.model_dump(include={"system", "prompt", "rules", "verdicts", "fields"})
        return sha256_value("prompt-template", shape)

    @property
    def output_sha256(self) -> str:
        """Hash of the output schema as written, order of keys included (the grammar keeps it)."""
        return sha256_bytes(json.dumps(self.spec.output, ensure_ascii=False).encode())

    def messages(self, item: Item) -> list[Message]:
        """Render an item into a system and a user message.

        Raises
        ------
        InputError
            If a template needs a value that the row does not have.
        """
        fixed = {"rules": self.spec.rules, "verdicts": self.spec.verdicts}
        values = {name: item.fields[name] for name in self.spec.fields}
        try:
            system, prompt = self._templates
            with time_limit():
                return [
                    {"role": "system", "content": system.render(**fixed).strip()},
                    {"role": "user", "content": prompt.render(**fixed, **values).strip()},
                ]
        except (TemplateError, *_TEMPLATE_FAULTS) as exc:
            problem = Problem(
                f"the prompt cannot be rendered for row {item.id!r}: {exc}", file=self.file
            )
            raise InputError(problem) from exc

    def content(self, item: Item) -> str:
        """Hash of what the judge sees of an item: equal for rows that differ by id only."""
        return sha256_value("item-content", {n: item.fields[n] for n in self.spec.fields})

    def shortest_replies(self) -> list[str]:
        """The shortest reply for each verdict where the schema has no other required field.

        Returns an empty list where it has one: the length is then not known beforehand.
        """
        required = self.spec.output.get("required", [])
        if required != [self.spec.verdict_field]:
            return []
        separators = (",", ":") if self.spec.json_style == "compact" else (", ", ": ")
        return [
            json.dumps({self.spec.verdict_field: v}, ensure_ascii=False, separators=separators)
            for v in self.spec.verdicts
        ]

    def parse(self, text: str) -> Parsed:
        """Read a reply: its verdict, or `unreadable` or `off_menu` with what was wrong."""
        try:
            value = json.loads(text)
        except (ValueError, RecursionError) as exc:
            return Parsed(None, "unreadable", f"not JSON: {exc}")
        if not isinstance(value, dict) or self.spec.verdict_field not in value:
            return Parsed(None, "unreadable", f"no field {self.spec.verdict_field!r} in the reply")
        verdict = value[self.spec.verdict_field]
        if verdict not in self.spec.verdicts:
            return Parsed(None, "off_menu", f"{verdict!r} is not a verdict of this judge")
        try:
            jsonschema.validate(value, self.spec.output)
        except jsonschema.ValidationError as exc:
            return Parsed(None, "unreadable", f"does not follow the output schema: {exc.message}")
        return Parsed(str(verdict))


def _environment() -> Sandbox:
    return Sandbox(
        undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, autoescape=False
    )


def load_judge(path: Path, *, shown: str) -> Judge:
    """Read and check a judge file.

    Raises
    ------
    InputError
        With every problem: unknown or missing keys, a template that cannot be parsed or uses a
        name that is neither a declared field nor `rules`/`verdicts`, an output schema that is
        not closed or uses a keyword that cannot be enforced, verdicts that differ between the
        list, the schema and the examples.
    """
    if not path.is_file():
        raise InputError(
            Problem(
                "the judge file does not exist", shown, remedy="check `judge` in the registration"
            )
        )
    raw = path.read_bytes()
    document = load_yaml(raw, file=shown)
    try:
        spec = JudgeFile.model_validate(document.data)
    except ValidationError as exc:
        raise InputError(
            *(
                Problem(
                    error["msg"],
                    file=shown,
                    line=document.line_of(error["loc"]),
                    where=".".join(str(part) for part in error["loc"]),
                    found=None if error["type"] == "missing" else repr(error["input"])[:80],
                    remedy="see judge/keep-drop.yaml for a commented example",
                )
                for error in exc.errors()
            )
        ) from exc
    problems = [*_verdict_problems(spec), *_template_problems(spec), *_schema_problems(spec)]
    raise_all([_placed(p, shown, document) for p in problems])
    return Judge(shown, spec, sha256_bytes(raw), len(raw))


def _placed(problem: Problem, shown: str, document: Any) -> Problem:
    top = (problem.where or "").split(".")[0]
    line = document.line_of((top,))
    return Problem(problem.what, shown, line, problem.where, problem.found, problem.remedy)


def _verdict_problems(spec: JudgeFile) -> list[Problem]:
    problems = []
    twice = [v for v, n in Counter(spec.verdicts).items() if n > 1]
    if twice or any(not v.strip() for v in spec.verdicts):
        what = "verdicts must be distinct and not empty"
        problems.append(Problem(what, where="verdicts", found=repr(spec.verdicts)))
    if spec.ships not in spec.verdicts:
        remedy = f"one of {', '.join(spec.verdicts)}"
        problems.append(
            Problem("is not a verdict", where="ships", found=repr(spec.ships), remedy=remedy)
        )
    for rule in spec.rules:
        for example in rule.examples:
            if example.verdict not in spec.verdicts:
                what = f"an example of rule {rule.id!r} has a verdict that is not on the list"
                problems.append(Problem(what, where="rules", found=repr(example.verdict)))
    return problems


def _template_problems(spec: JudgeFile) -> list[Problem]:
    problems = []
    allowed = {"system": _ALWAYS_DEFINED, "prompt": _ALWAYS_DEFINED | set(spec.fields)}
    for name, source in (("system", spec.system), ("prompt", spec.prompt)):
        try:
            used = meta.find_undeclared_variables(_environment().parse(source))
        except (TemplateError, *_TEMPLATE_FAULTS) as exc:
            problems.append(Problem(f"is not a jinja2 template: {exc}", where=name))
            continue
        for unknown in sorted(used - allowed[name]):
            remedy = "list it under `fields`" if name == "prompt" else "use rules or verdicts"
            problems.append(
                Problem("uses a name it is not given", where=name, found=unknown, remedy=remedy)
            )
        if name == "prompt":
            for unused in sorted(set(spec.fields) - used):
                what = "a declared field does not appear in the prompt"
                problems.append(Problem(what, where="fields", found=unused, remedy="remove it"))
    return problems


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
    for keyword, where in _keywords(schema, "output"):
        if keyword not in _SCHEMA_KEYWORDS:
            remedy = f"supported: {', '.join(sorted(_SCHEMA_KEYWORDS))}"
            problem(f"{where} uses a keyword that cannot be enforced", remedy, keyword)
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
    for name, part in properties.items():
        if part.get("type") == "string" and "enum" not in part and "maxLength" not in part:
            problem(f"the text field {name!r} has no end", "give it a `maxLength`")
    return problems


def _keywords(schema: Any, where: str) -> list[tuple[str, str]]:
    """Every keyword used in a schema with the place of its use; names of properties are not."""
    if not isinstance(schema, dict):
        return []
    found = [(key, where) for key in schema]
    for name, part in schema.get("properties", {}).items():
        found += _keywords(part, f"{where}.properties.{name}")
    return found + _keywords(schema.get("items"), f"{where}.items")


def _unusable(value: Any) -> tuple[str, str] | None:
    """What is wrong with a field's value and what would do; None where it can be judged."""
    if isinstance(value, str):
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return "lacks a field that the prompt uses", "give the row this field as text or a number"
    if abs(value) < _MAX_NUMBER:  # also false for what is not a number
        return None
    remedy = "write it in quotes, as the text that the judge is to see"
    return "has a number that cannot be recorded exactly", remedy


def check_items(judge: Judge, sets: Sequence[ItemSet]) -> list[Problem]:
    """Problems between a judge and item sets: missing fields, labels that are not verdicts."""
    problems = []
    for item_set in sets:
        for item in item_set.items:
            for name in judge.spec.fields:
                value = item.fields.get(name)
                wrong = _unusable(value)
                if wrong is not None:
                    what, remedy = f"row {item.id!r} {wrong[0]}", wrong[1]
                    found = repr(value) if name in item.fields else "nothing"
                    problems.append(Problem(what, item_set.file, item.line, name, found, remedy))
            if item.label is not None and item.label not in judge.spec.verdicts:
                problems.append(
                    Problem(
                        f"row {item.id!r} has a label that is not a verdict of the judge",
                        file=item_set.file,
                        line=item.line,
                        where="label",
                        found=repr(item.label),
                        remedy=f"one of {', '.join(judge.spec.verdicts)}",
                    )
                )
    return problems


def read_reply(judge: Judge, *, text: str, finish: str) -> Parsed:
    """Read a reply with the way it ended: one that reached the token cap is a `runaway`."""
    if finish == "cap":
        return Parsed(None, "runaway", "the token cap came before the reply was complete")
    return judge.parse(text)
