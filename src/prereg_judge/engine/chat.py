"""Messages to prompt text, by the chat template that the model brings.

The template is rendered here, in a sandbox, instead of by a client that would silently put
another one in its place. What could make a prompt change by itself (today's date) must be set.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from functools import lru_cache
from typing import Any, NoReturn

import jinja2
from jinja2.ext import loopcontrols

from prereg_judge.engine.protocol import ModelFacts
from prereg_judge.errors import EngineError, Problem
from prereg_judge.sandbox import Sandbox, time_limit


class _TemplateRefusesError(Exception):
    """Raised by a template that calls `raise_exception`."""


@dataclass(frozen=True)
class TemplateSettings:
    """What the registration and the judge file say about rendering.

    Attributes
    ----------
    fold_system
        Put the system text at the head of the first user turn.
    date
        The date that `strftime_now` tells; None = a template that asks for it is refused.
    arguments
        Further template variables, such as `enable_thinking`.
    """

    fold_system: bool = False
    date: date | None = None
    arguments: Mapping[str, Any] = field(default_factory=dict)


def render_prompt(
    facts: ModelFacts, messages: Sequence[Mapping[str, str]], *, settings: TemplateSettings
) -> str:
    """Render chat messages into the text of a prompt, ready for the reply.

    Raises
    ------
    EngineError
        If the model has no chat template, its template refuses the messages (for instance no
        system role), or it prints the date and none was registered.
    """
    if facts.chat_template is None:
        raise EngineError(
            Problem(
                "the model has no chat template",
                file=facts.path,
                remedy="use an instruction-tuned GGUF; a base model cannot take the judge's "
                "messages",
            )
        )
    if settings.fold_system:
        messages = folded(messages)
    try:
        template = _template(facts.chat_template, facts.path, settings.date)
        with time_limit():
            return template.render(
                messages=list(messages),
                add_generation_prompt=True,
                bos_token=facts.bos,
                eos_token=facts.eos,
                **settings.arguments,
            )
    except _TemplateRefusesError as exc:
        remedy = "set `system_role: fold` in the judge file if the model takes no system role"
        what = f"the model's chat template refuses the judge's messages: {exc}"
        raise EngineError(Problem(what, file=facts.path, remedy=remedy)) from exc
    except EngineError:
        raise
    except Exception as exc:  # the template is foreign code: it can fail in any way
        what = f"the model's chat template cannot be rendered: {str(exc) or type(exc).__name__}"
        raise EngineError(Problem(what, file=facts.path)) from exc


@lru_cache(maxsize=4)
def _template(text: str, file: str, day: date | None) -> jinja2.Template:
    """A model's template, compiled once: that takes far longer than to render a prompt."""

    def strftime_now(pattern: str) -> str:
        if day is None:
            remedy = "set `model.template_date` in the registration"
            what = "the model's chat template prints today's date, so prompts would change daily"
            raise EngineError(Problem(what, file=file, remedy=remedy))
        return day.strftime(pattern)

    def raise_exception(message: str) -> NoReturn:
        raise _TemplateRefusesError(message)

    env = Sandbox(trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols])
    env.filters["tojson"] = _tojson  # jinja's own escapes for HTML
    env.globals["strftime_now"] = strftime_now
    env.globals["raise_exception"] = raise_exception
    return env.from_string(text)


def _tojson(value: Any, indent: int | None = None) -> str:
    return json.dumps(value, ensure_ascii=False, indent=indent)


def folded(messages: Sequence[Mapping[str, str]]) -> list[dict[str, str]]:
    """Messages with the system text put at the head of the first user turn."""
    system = "\n\n".join(m["content"] for m in messages if m["role"] == "system")
    rest = [dict(m) for m in messages if m["role"] != "system"]
    if system and rest:
        rest[0]["content"] = f"{system}\n\n{rest[0]['content']}"
    return rest
