"""Chat templates: what is rendered, what is refused, and with which advice."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from functools import cache

import pytest

from engine.small_model import PATH
from prereg_judge.engine.chat import TemplateSettings, render_prompt
from prereg_judge.engine.inspect import inspecting
from prereg_judge.engine.protocol import ModelFacts
from prereg_judge.errors import EngineError

SYSTEM = {"role": "system", "content": "Label it."}
USER = {"role": "user", "content": "A cat."}
NO_SYSTEM = (
    "{{ bos_token }}{% if messages[0]['role'] == 'system' %}"
    "{{ raise_exception('System role not supported') }}{% endif %}"
    "{% for m in messages %}<{{ m['role'] }}>{{ m['content'] }}{{ eos_token }}{% endfor %}"
    "{% if add_generation_prompt %}<model>{% endif %}"
)


@cache
def real() -> ModelFacts:
    """The small model's facts."""
    with inspecting(str(PATH)) as inspector:
        return inspector.facts()


def facts(template: str | None) -> ModelFacts:
    """Facts of a made-up model with this chat template."""
    return ModelFacts(
        path="made-up.gguf",
        architecture="llama",
        description="llama 1B Q4_0",
        n_params=1,
        n_bytes=1,
        n_ctx_train=1024,
        n_vocab=10,
        chat_template=template,
        bos="<s>",
        eos="</s>",
        add_bos=True,
        bos_id=1,
        sliding_window=0,
        recurrent=False,
        control_texts=("<s>", "</s>"),
    )


def render(template: str | None, settings: TemplateSettings | None = None) -> str:
    """Render a system and a user message with this template."""
    return render_prompt(facts(template), [SYSTEM, USER], settings=settings or TemplateSettings())


def refused(template: str | None, settings: TemplateSettings | None = None) -> str:
    """The message with which rendering is refused; it names the model's file."""
    with pytest.raises(EngineError) as caught:
        render(template, settings)
    (problem,) = caught.value.problems
    assert problem.file == "made-up.gguf"
    return str(problem)


def test_the_real_template_gives_the_real_prompt() -> None:
    """The small model's own template renders both messages and opens the reply."""
    expected = (
        "<|im_start|>system\nLabel it.<|im_end|>\n"
        "<|im_start|>user\nA cat.<|im_end|>\n"
        "<|im_start|>assistant\n"
    )
    assert render_prompt(real(), [SYSTEM, USER], settings=TemplateSettings()) == expected


def test_the_real_template_adds_its_own_system_text_only_without_one() -> None:
    """With the system text folded away, the template's own appears: the prompt shows it."""
    text = render_prompt(real(), [SYSTEM, USER], settings=TemplateSettings(fold_system=True))
    assert "You are a helpful AI assistant named SmolLM" in text
    assert "<|im_start|>user\nLabel it.\n\nA cat.<|im_end|>" in text


@pytest.mark.parametrize(
    "content", ["{{ 7 * 7 }}", "<b> & 'so' \"on\"", "{% raw %}", "é 日本 \n\t."]
)
def test_the_text_of_a_message_is_left_alone(content: str) -> None:
    """A message's content is neither executed as a template nor escaped."""
    message = {"role": "user", "content": content}
    text = render_prompt(real(), [SYSTEM, message], settings=TemplateSettings())
    assert f"<|im_start|>user\n{content}<|im_end|>\n" in text


def test_a_model_without_template_is_refused() -> None:
    """No other template is put in its place."""
    assert "no chat template" in refused(None)
    assert "instruction-tuned" in refused(None)


def test_a_template_without_system_role_is_refused_with_advice_that_works() -> None:
    """The refusal repeats the template's words and advises `fold`, and folding then renders."""
    words = refused(NO_SYSTEM)
    assert "System role not supported" in words
    assert "system_role: fold" in words
    folded = render(NO_SYSTEM, TemplateSettings(fold_system=True))
    assert folded == "<s><user>Label it.\n\nA cat.</s><model>"


def test_folding_leaves_the_messages_as_they_were() -> None:
    """The caller's messages are not changed by folding."""
    messages = [dict(SYSTEM), dict(USER)]
    render_prompt(facts(NO_SYSTEM), messages, settings=TemplateSettings(fold_system=True))
    assert messages == [SYSTEM, USER]


def test_todays_date_is_refused_and_a_registered_date_is_told() -> None:
    """A template that asks for the date is refused, unless a date was registered."""
    template = "{{ strftime_now('%d %b %Y') }} {{ messages[1].content }}"
    assert "template_date" in refused(template)
    dated = TemplateSettings(date=date(2024, 7, 26))
    assert render(template, dated) == "26 Jul 2024 A cat."


def test_a_template_that_asks_whether_there_is_a_date_function_works() -> None:
    """Templates that test for `strftime_now` without calling it need no date."""
    template = "{% if strftime_now is defined %}yes{% endif %}"
    assert render(template) == "yes"


@pytest.mark.parametrize(
    "template",
    [
        "{{ ''.__class__.__mro__ }}",
        "{{ ''.__class__.__mro__[1].__subclasses__() }}",
        "{{ messages.__class__.__base__.__subclasses__() }}",
        "{{ raise_exception.__globals__ }}{{ raise_exception.__globals__['jinja2'] }}",
        "{{ strftime_now.__closure__[0].cell_contents }}",
        "{{ ''['__class__']['__mro__'] }}",
        "{{ (''|attr('__class__')).mro() }}",
        "{{ '{0.__class__.__mro__}'.format('') }}",
        "{{ cycler.__init__.__globals__.os.popen('id').read() }}",
        "{{ self.__init__.__globals__['x'] }}",
        "{% set x = messages.append(messages[0]) %}",
        "{% set x = messages[0].update(content='changed') %}",
        "{% for i in range(10000000) %}x{% endfor %}",
    ],
)
def test_a_template_cannot_reach_out_of_the_sandbox(template: str) -> None:
    """Escapes through attributes, changes of the messages and endless ranges are refused."""
    assert "cannot be rendered" in refused(template)


@pytest.mark.parametrize(
    "template",
    [
        "{% for m in messages %}",
        "{{ messages | no_such_filter }}",
        "{% include 'other' %}",
        "{{ messages[0].content + 1 }}",
        "{{ 1 / 0 }}",
        "{{ messages[0]['content']['deep'].er }}",
        "{{ 'a'.encode('no-such-codec') }}",
        "{% generation %}x{% endgeneration %}",
    ],
)
def test_a_broken_template_is_an_error_of_the_model_not_of_the_tool(template: str) -> None:
    """Whatever fails inside a template is reported with the model's file."""
    assert "cannot be rendered" in refused(template)


def test_loop_controls_are_understood() -> None:
    """`break` and `continue`, which published templates use, work."""
    template = "{% for m in messages %}{{ m.role }}{% break %}{% endfor %}"
    assert render(template) == "system"


def test_settings_reach_the_template() -> None:
    """`template_args` such as a thinking switch are visible, and undefined without."""
    template = (
        "{% if enable_thinking is defined and enable_thinking is false %}"
        "<think></think>{% else %}<think>{% endif %}{{ effort }}"
    )
    off = TemplateSettings(arguments={"enable_thinking": False, "effort": "low"})
    assert render(template, off) == "<think></think>low"
    assert render(template) == "<think>"


@pytest.mark.parametrize("name", ["messages", "add_generation_prompt", "bos_token", "eos_token"])
def test_settings_cannot_replace_what_the_tool_hands_over(name: str) -> None:
    """A template argument named like one of the tool's own is refused, naming it."""
    assert name in refused("x", TemplateSettings(arguments={name: "other"}))


def test_block_tags_leave_no_white_space() -> None:
    """Line ends after block tags and blanks before them are trimmed, as templates expect."""
    template = (
        "{% for m in messages %}\n    {% if true %}\n{{ m.role }}\n    {% endif %}\n{% endfor %}"
    )
    assert render(template) == "system\nuser\n"


def test_facts_are_what_the_template_sees() -> None:
    """The texts of the beginning and end tokens are the model's own."""
    other = replace(facts("{{ bos_token }}|{{ eos_token }}"), bos="[B]", eos="[E]")
    assert render_prompt(other, [USER], settings=TemplateSettings()) == "[B]|[E]"
