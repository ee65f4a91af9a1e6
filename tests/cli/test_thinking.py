"""Models that think before they reply: switches that must be set, prompts that are left in the
middle of thinking, and thinking with a cap of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from engine.test_chat import facts
from prereg_judge.engine.chat import TemplateSettings, render_prompt
from prereg_judge.errors import Problem
from prereg_judge.flow.prepare import Inputs, read_inputs
from prereg_judge.flow.prompts import thinking_problems
from prereg_judge.record.run import read_record
from prereg_judge.workspace import Workspace
from support import make_workspace, new, prereg, reply, run_scripted, verdict_reply

TURNS = "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}\n{% endfor %}<|assistant|>\n"
# As Qwen3 does it: thinking is on unless it is switched off, and then it is closed at once.
CLOSES = (
    TURNS + "{%- if enable_thinking is defined and enable_thinking is false %}"
    "{{- '<think>\\n\\n</think>\\n\\n' }}{%- endif %}"
)
# As Qwen3's thinking-only kin and DeepSeek-R1 do it: always opened, with no switch.
OPENS = TURNS + "{{- '<think>\\n' }}"
# As DeepSeek-V3.1 does it: closed unless it is switched on, and then opened.
SWITCHED_ON = (
    "{% if not thinking is defined %}{% set thinking = false %}{% endif %}"
    + TURNS
    + "{{- '<think>' if thinking else '</think>' }}"
)
# As gpt-oss does it: an effort, with a default.
EFFORT = (
    "{%- if reasoning_effort is not defined %}{%- set reasoning_effort = 'medium' %}{%- endif %}"
    "<|system|>Reasoning: {{ reasoning_effort }}\n" + TURNS
)
# Names that only look like a switch: attributes, texts, a namespace.
NO_SWITCH = (
    "{%- set ns = namespace(thinking=false) %}{% for m in messages %}"
    "{% if m.thinking is defined or ns.thinking %}{{ 'no thinking here, enable_thinking' }}"
    "{% endif %}<|{{ m.role }}|>{{ m.content }}{% endfor %}No thinking aloud.<|assistant|>"
)
SAID = {"role": "user", "content": "A cat?"}
THINKING = '{start: "<think>", end: "</think>", max_tokens: 16}'
OPENED = THINKING.replace('"<think>"', '""')


def write(root: Path, *, thinking: str | None = None, arguments: str | None = None) -> Path:
    """A workspace with a registration `x`, with thinking or arguments of the template."""
    make_workspace(root, n=2)
    done = new(root, "x")
    assert done.code == 0, done.err
    file = root / "registrations/x.yaml"
    text = file.read_text(encoding="utf-8")
    for key, value in (("thinking", thinking), ("template_args", arguments)):
        if value is not None:
            lines = text.splitlines(keepends=True)
            (at,) = [n for n, line in enumerate(lines) if line.startswith(f"  # {key}: ")]
            text = "".join([*lines[:at], f"  {key}: {value}\n", *lines[at + 1 :]])
    file.write_text(text, encoding="utf-8")
    return root


def problems(
    root: Path, template: str, *, thinking: str | None = None, arguments: str | None = None
) -> list[Problem]:
    """What is said of a model with this template under a registration."""
    inputs: Inputs = read_inputs(
        Workspace(write(root, thinking=thinking, arguments=arguments)), "x"
    )
    model = replace(facts(template), control_texts=())
    given: Mapping[str, Any] = inputs.model.model.template_args or {}
    text = render_prompt(model, [SAID], settings=TemplateSettings(arguments=given))
    return thinking_problems(inputs, model, text)


@pytest.mark.parametrize(
    ("template", "name"),
    [(CLOSES, "enable_thinking"), (SWITCHED_ON, "thinking"), (EFFORT, "reasoning_effort")],
)
def test_a_switch_is_to_be_set(template: str, name: str, tmp_path: Path) -> None:
    """A template with a thinking switch is refused until the registration sets it, whatever its
    default.
    """
    (problem,) = problems(tmp_path / "w", template)
    assert (problem.where, problem.file) == ("model.template_args", "registrations/x.yaml")
    assert f"`{name}`" in problem.what
    assert f"template_args: {{{name}: " in str(problem.remedy)


@pytest.mark.parametrize(
    ("template", "arguments", "thinking"),
    [
        (CLOSES, "{enable_thinking: false}", None),
        (CLOSES, "{enable_thinking: true}", THINKING),
        (SWITCHED_ON, "{thinking: false}", None),
        (SWITCHED_ON, "{thinking: true}", OPENED),
        (OPENS, None, OPENED),
        (EFFORT, "{reasoning_effort: low}", THINKING),
        (NO_SWITCH, None, None),
        (TURNS, None, THINKING),
        (TURNS, "{enable_thinking: false}", None),
    ],
)
def test_what_is_registered_of_thinking_fits(
    template: str, arguments: str | None, thinking: str | None, tmp_path: Path
) -> None:
    """Off and closed, or on with a cap of its own: nothing is said."""
    assert problems(tmp_path / "w", template, thinking=thinking, arguments=arguments) == []


@pytest.mark.parametrize(
    ("template", "arguments", "words"),
    [
        (OPENS, None, "in the middle of thinking"),
        (SWITCHED_ON, "{thinking: true}", "is switched on"),
        (CLOSES, "{enable_thinking: true}", "is switched on"),
        (CLOSES, "{enable_thinking: null}", ""),
    ],
)
def test_thinking_that_is_not_registered(
    template: str, arguments: str | None, words: str, tmp_path: Path
) -> None:
    """A prompt that begins to think, or a model that is told to, cannot be made to reply in JSON
    at once.
    """
    if not words:
        done = prereg("check", "x", root=write(tmp_path / "w", arguments=arguments))
        assert done.code == 2
        assert "template_args" in done.err
        return
    (problem,) = problems(tmp_path / "w", template, arguments=arguments)
    assert words in problem.what
    assert "protocol.thinking" in f"{problem.where} {problem.remedy}"


@pytest.mark.parametrize(
    ("template", "arguments"),
    [(CLOSES, "{enable_thinking: false}"), (SWITCHED_ON, "{thinking: false}")],
)
def test_thinking_that_the_template_has_ended(
    template: str, arguments: str, tmp_path: Path
) -> None:
    """Registered thinking after a prompt that has closed it already would be a second one."""
    (problem,) = problems(tmp_path / "w", template, arguments=arguments, thinking=THINKING)
    assert problem.where == "protocol.thinking"
    assert "has ended it already" in problem.what


@pytest.mark.parametrize(
    ("template", "arguments"), [(OPENS, None), (SWITCHED_ON, "{thinking: true}")]
)
def test_thinking_that_the_template_has_opened(
    template: str, arguments: str | None, tmp_path: Path
) -> None:
    """A start that the prompt ends in already, be it with a line end after it, would be written
    twice.
    """
    (problem,) = problems(tmp_path / "w", template, arguments=arguments, thinking=THINKING)
    assert problem.where == "protocol.thinking.start"
    assert "opened twice" in problem.what


@pytest.mark.model
def test_thinking_that_reaches_its_cap(tmp_path: Path) -> None:
    """A model that does not end its thinking: attempts end as `thinking_cap`, or as no answer where
    it ends its turn; what was thought is recorded; and the verdict is INCONCLUSIVE, never PASS.
    """
    # An end that the model does not come upon by itself, as it does now and then upon </think>.
    never = THINKING.replace("</think>", "[[thinking is over]]")
    root = write(tmp_path / "w", thinking=never)
    assert prereg("lock", "x", root=root).code == 0
    done = prereg("run", "x", root=root)
    assert done.code == 0, done.err
    made = read_record(root / "runs/x/1", shown="runs/x/1").attempts
    assert len(made) == 4
    ends = {"thinking_cap": "thinking_cap", "no_answer": "unreadable"}
    for line in made:
        assert (line.verdict, line.unscored) == (None, ends[str(line.finish)])
        assert line.thought is not None
        assert line.n_thought is not None
        if line.finish == "thinking_cap":
            assert line.n_thought == 16
    assert any(line.unscored == "thinking_cap" for line in made)
    done = prereg("score", "x", "--json", root=root)
    assert (done.code, done.json["verdict"]) == (6, "INCONCLUSIVE")


def test_a_thought_is_no_reply(tmp_path: Path) -> None:
    """The verdict is read from what comes after the thinking, whatever the thinking says."""
    root = write(tmp_path / "w", thinking=THINKING)
    assert prereg("lock", "x", root=root).code == 0
    thought = replace(reply(verdict_reply("NO")), thought=verdict_reply("YES"), n_thought=7)
    run_scripted(root, "x", lambda _key, _before: thought)
    made = read_record(root / "runs/x/1", shown="runs/x/1").attempts
    assert {(a.verdict, a.thought, a.n_thought) for a in made} == {("NO", verdict_reply("YES"), 7)}
    assert prereg("score", "x", root=root).code in (0, 1)


def test_thinking_and_choice_exclude_each_other(tmp_path: Path) -> None:
    """`choice` writes nothing before the verdict: refused with its place and a way out."""
    root = write(tmp_path / "w", thinking=THINKING)
    file = root / "registrations/x.yaml"
    text = file.read_text(encoding="utf-8")
    file.write_text(text.replace("  path: generate", "  path: choice"), encoding="utf-8")
    done = prereg("check", "x", root=root)
    assert done.code == 2
    assert "protocol.path" in done.err
    assert "rite `path: generate`" in done.err


def test_room_for_thinking_is_counted(tmp_path: Path) -> None:
    """A context that has no room for the thinking is refused before the first call."""
    root = write(tmp_path / "w", thinking=THINKING.replace("16", "1000"))
    done = prereg("check", "x", root=root)
    assert done.code == 2
    assert "does not fit" in done.err
