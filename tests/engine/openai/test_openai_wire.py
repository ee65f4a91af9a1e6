"""What is asked of a server beyond OpenAI's own fields, and how its answers are read."""

from __future__ import annotations

import json
import threading
from dataclasses import replace
from typing import Any

import pytest

from engine.openai.scripted_server import (
    SAMPLED,
    VERDICT,
    Body,
    Handler,
    backend,
    calls,
    changed,
    completion,
    failure,
    obedient,
    one,
    reply,
    results,
    right,
    serving,
)
from prereg_judge.engine.openai.wire import at_the_cap
from prereg_judge.engine.protocol import SessionSettings, Thinking
from prereg_judge.errors import EngineError

SETTINGS = SessionSettings(VERDICT, SAMPLED, max_tokens=16)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (replace(SETTINGS, path="choice", texts={"YES": "x"}), "logits.*path: generate"),
        (replace(SETTINGS, thinking=Thinking("<think>", "</think>", 99)), "chat_template_kwargs"),
    ],
)
def test_what_no_server_gives_is_refused(settings: SessionSettings, words: str) -> None:
    """`choice` and thinking between own marks are errors that say what to do instead."""
    with (
        serving() as server,
        pytest.raises(EngineError, match=words),
        backend(server, settings=settings),
    ):
        pass
    assert not server.asked


def test_the_arguments_of_the_template_are_sent() -> None:
    """Registered switches go into every request, the canary's too, and into the record."""
    arguments: dict[str, bool | int | str] = {"enable_thinking": False, "depth": 2}
    with serving() as server, backend(server, template_args=arguments) as made:
        reply(one(made))
        assert made.describe()["template_args"] == arguments
    (body,), (canary,) = server.bodies, server.canaries
    assert body["chat_template_kwargs"] == canary["chat_template_kwargs"] == arguments
    with serving() as server, backend(server) as made:
        reply(one(made))
    assert "chat_template_kwargs" not in server.bodies[0]


@pytest.mark.parametrize("owner", ["vllm", "library"])
def test_a_server_that_would_ignore_them_is_refused(owner: str) -> None:
    """A thinking switch that a server drops without a word is found before the first call."""
    with serving() as server, backend(server, template_args={"enable_thinking": False}) as made:
        del server.pages["/props"]
        server.pages["/v1/models"] = (200, {"data": [{"id": "small", "owned_by": owner}]})
        if owner == "vllm":
            reply(one(made))
            return
        with pytest.raises(EngineError, match=r"would ignore .* arguments: enable_thinking"):
            one(made)
    assert not server.bodies


@pytest.mark.parametrize(
    ("text", "finish"),
    [
        ("", "cap"),
        ("the end is near", "cap"),
        ("no no no no", "cap"),  # too short to tell from emphasis
        ("I say: it is so. it is so. it is so.", "cap"),
        ("I say: it is so. it is so. it is so. it is so.", "runaway"),
        ("{" + "\n" * 16, "runaway"),
        ("=" * 15, "cap"),
        ("x" + "ab" * 8, "runaway"),
        ("x" * 9 + ("y" * 127 + "z") * 4, "runaway"),
        (("y" * 128 + "z") * 4, "cap"),
    ],
)
def test_a_cut_reply_that_repeats_itself_is_a_runaway(text: str, finish: str) -> None:
    """Four copies of a stretch and sixteen characters at the end tell a loop from a long reply."""
    assert at_the_cap(text) == finish
    choice = {"message": {"content": text}, "finish_reason": "length"}
    with serving(lambda _: changed(choices=[choice])) as server, backend(server) as made:
        got = reply(one(made))
    assert (got.text, got.finish) == (text, finish)


@pytest.mark.parametrize("content", ["", None])
def test_thinking_without_a_reply_is_no_answer(content: str | None) -> None:
    """A model that ends its turn after thinking has given no answer; its tokens are apart."""
    choice = {
        "message": {"content": content, "reasoning_content": "Hm, hm."},
        "finish_reason": "stop",
    }
    usage = {
        "prompt_tokens": 9,
        "completion_tokens": 8,
        "completion_tokens_details": {"reasoning_tokens": 6},
    }
    action = changed(choices=[choice], usage=usage)
    with serving(lambda _: action) as server, backend(server) as made:
        got = reply(one(made))
    assert (got.text, got.finish, got.thought) == ("", "no_answer", "Hm, hm.")
    assert (got.n_prompt, got.n_sampled, got.n_thought) == (9, 2, 6)


@pytest.mark.parametrize(
    "usage",
    [
        {"prompt_tokens": -1, "completion_tokens": 7},
        {"prompt_tokens": 2**80, "completion_tokens": 7},
        {"prompt_tokens": 12.5, "completion_tokens": True},
        {
            "prompt_tokens": 5,
            "completion_tokens": 7,
            "prompt_tokens_details": {"cached_tokens": 6},
        },
        {
            "prompt_tokens": 5,
            "completion_tokens": 7,
            "completion_tokens_details": {"reasoning_tokens": 8},
        },
    ],
)
def test_counts_that_cannot_be_are_not_believed(usage: dict[str, Any]) -> None:
    """Negative, fractional, endless and contradictory counts are no counts; the reply stands."""
    said: list[str] = []
    with (
        serving(lambda _: changed(usage=usage)) as server,
        backend(server, announce=said.append) as made,
    ):
        got = reply(one(made))
    assert json.loads(got.text) == {"verdict": "YES"}
    assert got.n_prompt == 0 or got.n_sampled == 0
    assert any("impossibly" in text for text in said)


def test_more_tokens_than_were_allowed_are_reported() -> None:
    """A server that says it wrote more than `max_tokens` does not keep to it, or lies."""
    said: list[str] = []
    usage = {"prompt_tokens": 12, "completion_tokens": 17}
    with (
        serving(lambda n: changed(usage=usage) if n else right) as server,
        backend(server, announce=said.append) as made,
    ):
        reply(one(made))
        assert not any("more than were allowed" in text for text in said)
        reply(one(made))
    assert sum("counts 17 tokens in a reply: more than were allowed" in text for text in said) == 1


def test_an_answer_after_a_stall_is_not_taken_for_the_next() -> None:
    """What a server says to a request that was given up reaches nobody."""
    asked_again = threading.Event()

    def late(handler: Handler, body: Body) -> None:
        asked_again.wait(20)
        handler.send_json(200, completion(body, obedient(body)))

    def prompt(handler: Handler, body: Body) -> None:
        asked_again.set()
        right(handler, body)

    with (
        serving(lambda n: prompt if n else late) as server,
        backend(server, call_timeout_s=1.5) as made,
    ):
        got = results(made, calls(2))
    assert failure(got["0"]).reason == "hang"
    assert json.loads(reply(got["1"]).text) == {"verdict": "NO"}
