"""Judge files: guideline, prompt template, output schema, verdicts, and which verdict ships.

Turns an item into chat messages and a reply's text into a verdict. Knows nothing of models:
how messages become a prompt is the engine's business.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from jinja2 import Template, TemplateError
from jsonschema.exceptions import best_match
from jsonschema.validators import validator_for

from prereg_judge.canon import sha256_bytes, sha256_value
from prereg_judge.errors import InputError, Problem
from prereg_judge.items import Item, ItemSet
from prereg_judge.judge_file import (
    TEMPLATE_FAULTS,
    JudgeFile,
    environment,
    placed,
    read_judge_file,
    said,
)
from prereg_judge.sandbox import time_limit
from prereg_judge.shape import Shape, shape_of
from prereg_judge.strict_yaml import Document
from prereg_judge.wording import capped, not_a_file, quoted
from prereg_judge.words import Order, Unscored

Message = dict[str, str]

_MAX_NUMBER = 2**53  # beyond it, canonical JSON cannot say which number it is


@dataclass(frozen=True)
class Parsed:
    """A reply read as a verdict, or the reason why it cannot be."""

    verdict: str | None
    unscored: Unscored | None = None
    detail: str | None = None


@dataclass(frozen=True)
class Judge:
    """A loaded judge: the file's model, its bytes' hash, its lines, and what it does."""

    file: str
    spec: JudgeFile
    sha256: str
    n_bytes: int
    document: Document = field(repr=False, compare=False)

    def placed(self, problem: Problem) -> Problem:
        """The problem with this file and the line of the top-level key that it names."""
        return placed(problem, self.file, self.document)

    @cached_property
    def _templates(self) -> tuple[Template, Template]:
        env = environment()
        return env.from_string(self.spec.system), env.from_string(self.spec.prompt)

    @cached_property
    def _validator(self) -> Any:
        """Made once: to check the schema itself takes far longer than to check a reply."""
        return validator_for(self.spec.output)(self.spec.output)

    @property
    def prompt_sha256(self) -> str:
        """Hash of what shapes the prompt: both templates, the rules and the verdict list."""
        if not self.spec.verdicts:  # there is no judge
            return ""
        shape = self.spec.model_dump(include={"system", "prompt", "rules", "verdicts", "fields"})
        if self.spec.pair is not None:  # which fields are exchanged, and what verdicts then mean
            shape["pair"] = self.spec.pair.model_dump()
        return sha256_value("prompt-template", shape)

    @property
    def output_sha256(self) -> str:
        """Hash of the output schema as written, order of keys included (the grammar keeps it)."""
        return sha256_bytes(json.dumps(self.spec.output, ensure_ascii=False).encode())

    def shown(self, item: Item, order: Order) -> dict[str, Any]:
        """The fields' values as the prompt gets them: `ba` exchanges the two answers of a pair."""
        values = {name: item.fields[name] for name in self.spec.fields}
        if order == "ba" and self.spec.pair is not None:
            first, second = self.spec.pair.answers
            values[first], values[second] = values[second], values[first]
        return values

    def messages(self, item: Item, *, order: Order = "ab") -> list[Message]:
        """Render an item into a system and a user message; `ba` shows the second answer first.

        Raises
        ------
        InputError
            If a template needs a value that the row does not have.
        """
        fixed = {"rules": self.spec.rules, "verdicts": self.spec.verdicts}
        values = self.shown(item, order)
        try:
            system, prompt = self._templates
            with time_limit():
                return [
                    {"role": "system", "content": system.render(**fixed).strip()},
                    {"role": "user", "content": prompt.render(**fixed, **values).strip()},
                ]
        except (TemplateError, *TEMPLATE_FAULTS) as exc:
            what = f"the prompt cannot be rendered for row {item.id!r}: {said(exc)}"
            remedy = "mend the template, or what the row gives it"
            raise InputError(self.placed(Problem(what, where="prompt", remedy=remedy))) from exc

    def content(self, item: Item) -> str:
        """Hash of what the judge sees of an item: equal for rows that differ by id only."""
        if item.content is not None:
            return item.content
        return sha256_value("item-content", {n: item.fields[n] for n in self.spec.fields})

    def shapes(self, item: Item) -> tuple[Shape, Shape] | tuple[()]:
        """What the two answers of a pair look like; empty where the judge is not one of pairs."""
        if self.spec.pair is None:
            return ()
        if item.shapes is not None:
            return item.shapes
        one, other = (str(item.fields.get(name, "")) for name in self.spec.pair.answers)
        return shape_of(one), shape_of(other)

    @property
    def separators(self) -> tuple[str, str]:
        """What stands between items, and after a key, in a reply."""
        return (",", ":") if self.spec.json_style == "compact" else (", ", ": ")

    def closed_replies(self) -> dict[str, str] | None:
        """Each verdict's whole reply; None where the schema leaves anything else open."""
        if list(self.spec.output.get("properties", {})) != [self.spec.verdict_field]:
            return None
        return {v: self._reply({self.spec.verdict_field: v}) for v in self.spec.verdicts}

    def shortest_replies(self) -> list[str]:
        """A shortest reply for each verdict: texts as short as the schema lets them be.

        Returns an empty list where the schema requires a list or an object beside the verdict.
        """
        schema = self.spec.output
        required = [n for n in schema.get("properties", {}) if n in schema.get("required", [])]
        parts = {n: _shortest(schema["properties"][n]) for n in required}
        parts[self.spec.verdict_field] = ""
        if None in parts.values():
            return []
        return [self._reply({**parts, self.spec.verdict_field: v}) for v in self.spec.verdicts]

    def _reply(self, value: dict[str, Any]) -> str:
        return json.dumps(value, ensure_ascii=False, separators=self.separators)

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
        wrong = best_match(self._validator.iter_errors(value))
        if wrong is not None:
            what = f"does not follow the output schema: {wrong.message}"
            return Parsed(None, "unreadable", what)
        return Parsed(str(verdict))


def _shortest(schema: Mapping[str, Any]) -> Any:
    """A short value that a field's schema allows; None for a list or an object."""
    if "const" in schema:
        return schema["const"]
    if "enum" in schema:
        return min(schema["enum"], key=lambda choice: len(json.dumps(choice)))
    match schema.get("type"):
        case "string":
            return "x" * int(schema.get("minLength", 0))
        case "integer" | "number":
            return 0
        case "boolean":
            return True
    return None


def no_judge() -> Judge:
    """What stands for the judge of a registration that runs none."""
    spec = JudgeFile.model_construct(
        judge=1,
        id="",
        title="",
        verdicts=[],
        ships=None,
        pair=None,
        verdict_field="",
        fields=[],
        rules=[],
        system="",
        prompt="",
        system_role="keep",
        json_style="compact",
        output={},
    )
    return Judge("", spec, "", 0, Document(None))


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
    missing = not_a_file(path)
    if missing is not None:
        what, remedy = f"the judge file {missing}", "check `judge` in the registration"
        raise InputError(Problem(what, shown, remedy=remedy))
    raw = path.read_bytes()
    spec, document = read_judge_file(raw, file=shown)
    return Judge(shown, spec, sha256_bytes(raw), len(raw), document)


def _unusable(fields: Mapping[str, Any], name: str) -> tuple[str, str] | None:
    """What is wrong with a field's value and what would do; None where it can be judged."""
    value = fields.get(name)
    if isinstance(value, str):
        return None
    if value is None:
        return "lacks a field that the prompt uses", "give the row this field as text or a number"
    if isinstance(value, bool) or not isinstance(value, int | float):
        return "has a field that is neither text nor a number", "write it as the judge is to see it"
    if abs(value) < _MAX_NUMBER:  # also false for what is not a number
        return None
    remedy = "write it in quotes, as the text that the judge is to see"
    return "has a number that cannot be recorded exactly", remedy


def check_items(judge: Judge, sets: Sequence[ItemSet]) -> list[Problem]:
    """Problems between a judge and item sets: missing fields, labels that are not verdicts.

    At most 20 of each set are listed.
    """
    return [p for item_set in sets for p in capped(_row_problems(judge, item_set))]


def _row_problems(judge: Judge, item_set: ItemSet) -> list[Problem]:
    problems = []
    for item in item_set.items:
        shown = [item.fields.get(name) for name in judge.spec.fields]
        if all(isinstance(value, str) and not value.strip() for value in shown):
            # One blank field may be meant: an empty answer is an answer.
            what, names = f"row {item.id!r} has nothing to judge", ", ".join(judge.spec.fields)
            remedy = "write what the judge is to see, or leave the row out"
            problems.append(
                Problem(what, item_set.file, item.line, names, quoted(shown[0]), remedy)
            )
        for name in judge.spec.fields:
            wrong = _unusable(item.fields, name)
            if wrong is not None:
                what, remedy = f"row {item.id!r} {wrong[0]}", wrong[1]
                found = quoted(item.fields[name]) if name in item.fields else "nothing"
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


# What a reply that is not complete counts as, and what to say of it.
_UNFINISHED: dict[str, tuple[Unscored, str]] = {
    "cap": ("cap", "the token cap came before the reply was complete"),
    "runaway": ("runaway", "the reply repeated itself until the token cap came"),
    "thinking_cap": ("thinking_cap", "the thinking reached its own token cap"),
    "no_answer": ("unreadable", "the model ended its turn before it replied"),
}


def read_reply(judge: Judge, *, text: str, finish: str) -> Parsed:
    """Read a reply with the way it ended: one that is not complete has no verdict."""
    if finish in _UNFINISHED:
        unscored, detail = _UNFINISHED[finish]
        return Parsed(None, unscored, detail)
    return judge.parse(text)
