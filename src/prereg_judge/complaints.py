"""Turns pydantic's complaints about a YAML file into problems that a person can mend.

Knows the JSON Schema of the file's form (for the names of keys and what they are for) and the
file's lines; decides nothing about what is valid.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic_core import ErrorDetails

from prereg_judge.errors import Problem
from prereg_judge.strict_yaml import Document, YamlPath, path_text
from prereg_judge.wording import named_character, visible

_TYPES = {
    "int_type": "a whole number",
    "float_type": "a number",
    "string_type": "text",
    "bool_type": "true or false",
    "tuple_type": "a list",
    "list_type": "a list",
    "dict_type": "a mapping of keys to values",
    "model_type": "a mapping of keys to values",
    "model_attributes_type": "a mapping of keys to values",
}
_BOUNDS = {
    "greater_than_equal": ("ge", "at least"),
    "greater_than": ("gt", "above"),
    "less_than_equal": ("le", "at most"),
    "less_than": ("lt", "below"),
}
_SLUG_RULE = "use small letters, digits and hyphens, 64 at most, a letter or digit first"


@dataclass(frozen=True)
class Shape:
    """The form of a file, as the JSON Schema of its pydantic model."""

    schema: Mapping[str, Any]

    def allowed_keys(self, path: YamlPath) -> list[str]:
        """Names of the keys that the mapping at `path` may have."""
        return list(dict.fromkeys(k for n in self._nodes(path) for k in n.get("properties", {})))

    def describe(self, path: YamlPath) -> str | None:
        """What the schema says the entry at `path` is for, without the full stop."""
        for node in self._nodes(path):
            text = node.get("description")
            if text:
                return str(text).rstrip(".")
        return None

    def choices(self, path: YamlPath) -> list[str]:
        """The words that the entry at `path` may be; empty where it is not one of a list."""
        found = [w for n in self._nodes(path) for w in (*n.get("enum", ()), n.get("const"))]
        return list(dict.fromkeys(word for word in found if isinstance(word, str)))

    def _nodes(self, path: YamlPath) -> list[Mapping[str, Any]]:
        """Every schema that the entry at `path` may have to satisfy."""
        nodes = self._open(self.schema)
        for part in path:
            inner = (
                [n["items"] for n in nodes if "items" in n]
                if isinstance(part, int)
                else [n["properties"][part] for n in nodes if part in n.get("properties", {})]
            )
            nodes = [found for node in inner for found in self._open(node)]
        return nodes

    def _open(self, node: Mapping[str, Any]) -> list[Mapping[str, Any]]:
        """The node itself and whatever its references and alternatives lead to."""
        found = [node]
        if "$ref" in node:
            found += self._open(self.schema["$defs"][node["$ref"].rpartition("/")[2]])
        for word in ("anyOf", "oneOf", "allOf"):
            for choice in node.get(word, []):
                found += self._open(choice)
        return found


def form_problems(
    errors: Iterable[ErrorDetails], document: Document, file: str, *, shape: Shape
) -> list[Problem]:
    """One problem for each place that pydantic complains about, in the order of the file.

    Parameters
    ----------
    errors
        `ValidationError.errors()`.
    document
        The file that was validated.
    file
        Its name as errors show it.
    shape
        The form that it should have.
    """
    places: dict[YamlPath, list[ErrorDetails]] = {}
    for error in errors:
        places.setdefault(_place(error, document.data), []).append(error)
    problems = []
    for path, here in places.items():
        what, found, remedy = _worded(path, here, document.data, shape)
        if found is not None and path in document.typed:
            found = shown_as_typed(document.typed[path])
        line = document.line_of(path)
        problems.append(Problem(what, file, line, path_text(path) or None, found, remedy))
    return sorted(problems, key=lambda p: p.line or 0)


def shown(value: Any) -> str:
    """A value as an error message shows it, cut at 60 characters; nothing in it is invisible."""
    return shown_as_typed(json.dumps(value, ensure_ascii=False, default=str))


def shown_as_typed(text: str) -> str:
    """Text as an error message shows it without quotes around it, cut at 60 characters."""
    text = visible(text)
    return text if len(text) <= 60 else f"{text[:57]}..."


def foreign_character(text: str) -> str | None:
    """The first character in `text` beyond ASCII, by number and name: it may look like another."""
    match = re.search("[^\x00-\x7f]", text)
    return None if match is None else named_character(match.group())


def _place(error: ErrorDetails, data: Any) -> YamlPath:
    """The YAML path of an error: pydantic's location without the names of union members."""
    path: list[str | int] = []
    loc = error["loc"]
    for at, part in enumerate(loc):
        inside = (isinstance(data, dict) and part in data) or (
            isinstance(data, list) and isinstance(part, int) and part < len(data)
        )
        if inside:
            path.append(part)
            data = data[part]
        elif at == len(loc) - 1 and error["type"] == "missing" and isinstance(part, str):
            path.append(part)
    if error["type"] == "prereg":
        path += error.get("ctx", {}).get("at", [])
    if error["type"] == "union_tag_not_found" and isinstance(data, dict):
        path.append("mode")
    return tuple(path)


def _worded(
    path: YamlPath, errors: list[ErrorDetails], data: Any, shape: Shape
) -> tuple[str, str | None, str | None]:
    """What is wrong, what was found and what would do, for the errors at one place."""
    error = errors[0]
    kind, context = error["type"], error.get("ctx", {})
    value = error["input"]
    if len(errors) > 1 and all(e["type"] in _TYPES for e in errors):
        return f"must be {' or '.join(_TYPES[e['type']] for e in errors)}", shown(value), None
    if kind == "prereg":
        hidden = isinstance(value, dict) or context.get("secret", False)
        found = None if hidden else shown(value)
        return str(context["what"]), found, str(context["remedy"])
    two_limits = path[-1:] == ("between",)
    # A list that is too short lacks an entry, a mapping that is lacks the key itself.
    if two_limits and kind in ("missing", "too_long", "tuple_type") and _stands(data, path):
        return "must be two limits", shown(_at(data, path)), "write [lower, upper]"
    if kind in ("missing", "union_tag_not_found"):
        modes = shape.choices(path) if kind == "union_tag_not_found" else []
        use = f"one of {', '.join(modes)}" if modes else shape.describe(path)
        entry = f"{path[-1]}: [lower, upper]" if two_limits else f"{path[-1]}:"
        return f"`{path[-1]}` is missing", None, f"add `{entry}`" + (f" ({use})" if use else "")
    if kind == "extra_forbidden":
        return _unknown_key(path, data, shape)
    if kind in _TYPES:
        return f"must be {_TYPES[kind]}", shown(value), _type_remedy(kind, value)
    if kind in _BOUNDS:
        name, words = _BOUNDS[kind]
        return f"must be {words} {context[name]}", shown(value), shape.describe(path)
    if kind == "literal_error":
        return f"must be {context['expected']}", shown(value), shape.describe(path)
    if kind == "union_tag_invalid":
        tags = context["expected_tags"]
        return f"the mode must be one of {tags}", shown(context["tag"]), None
    if kind == "string_pattern_mismatch":
        foreign = foreign_character(value)
        what = "is not a short name" + (f": it holds {foreign}" if foreign else "")
        return what, shown(value), _SLUG_RULE
    if kind == "too_short" and not value:
        return "is an empty list", None, "give at least one entry, or remove the key"
    if kind == "too_short":
        return f"needs at least {context['min_length']} entries", shown(value), shape.describe(path)
    return error["msg"], shown(value), shape.describe(path)


def _unknown_key(path: YamlPath, data: Any, shape: Shape) -> tuple[str, None, str]:
    parent, key = path[:-1], str(path[-1])
    names = shape.allowed_keys(parent)
    if key in names:  # a key of another form of the same mapping
        if parent == ("protocol", "decoding"):
            mode = _at(data, parent).get("mode")
            return f"`{key}` does not belong to `mode: {mode}`", None, "remove it"
        return f"`{key}` cannot stand here with the keys beside it", None, "remove it"
    near = difflib.get_close_matches(key, names, n=3, cutoff=0.6)
    foreign = foreign_character(key)
    what = f"unknown key `{visible(key)}`" + (f", which holds {foreign}" if foreign else "")
    if near:
        return what, None, f"did you mean {' or '.join(near)}?"
    return what, None, f"known here: {', '.join(names)}"


def _type_remedy(kind: str, value: Any) -> str | None:
    if value is None:
        return "give a value, or remove the key"
    if kind == "string_type" and isinstance(value, bool | int | float):
        return "put quotes around it"
    if kind in ("int_type", "float_type") and isinstance(value, str):
        return "write a number, without quotes"
    if kind == "int_type" and isinstance(value, float) and value.is_integer():
        return f"write {int(value)}"
    return None


def _stands(data: Any, path: YamlPath) -> bool:
    """Whether the file has an entry at `path`, whose parent it has."""
    parent = _at(data, path[:-1])
    return isinstance(parent, dict) and path[-1] in parent


def _at(data: Any, path: YamlPath) -> Any:
    for part in path:
        data = data[part]
    return data
