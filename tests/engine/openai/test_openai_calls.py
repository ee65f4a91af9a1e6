"""Calls to OpenAI-compatible servers that answer, lie, stall and drop, and what becomes of them."""

from __future__ import annotations

import asyncio
import itertools
import json
import random
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from engine.openai.scripted_server import (
    VERDICT,
    Action,
    Body,
    Handler,
    backend,
    call,
    calls,
    changed,
    drip,
    drop,
    failure,
    garbled,
    hang_up,
    huge,
    never_close,
    one,
    raw,
    reply,
    results,
    right,
    says,
    serving,
    stall,
    status,
    threads,
)
from prereg_judge.engine.openai import loop as openai_loop
from prereg_judge.engine.protocol import Call, Failure, Reply
from prereg_judge.shaping import Decoding


def test_a_reply_carries_text_and_counts() -> None:
    """The text is what the server wrote, the counts are its own, and the rest is unknown."""
    with serving() as server, backend(server) as made:
        got = reply(one(made, call(text="NO")))
    assert (got.text, got.tokens, got.finish) == ('{"verdict": "NO"}', (), "complete")
    assert (got.n_prompt, got.n_reused, got.n_forced, got.n_sampled) == (12, 5, 0, 7)
    assert got.allowed_mass is None
    assert got.seconds >= 0


def test_the_request_says_all_that_was_registered() -> None:
    """Messages, schema, seed and every step of the decoding are sent; prompts are not reused."""
    with serving() as server, backend(server) as made:
        one(made, call(seed=2**31 - 1 + 5))
    (body,) = server.bodies
    assert body["response_format"] == {
        "type": "json_schema",
        "json_schema": {"name": "reply", "strict": True, "schema": VERDICT.schema},
    }
    expected = {
        "model": "small",
        "messages": [{"role": "user", "content": "YES"}],
        "seed": 5,  # 31 bits: llama-server reads no more
        "temperature": 0.7,
        "top_k": 40,
        "top_p": 0.9,
        "min_p": 0.05,
        "max_tokens": 16,
        "stream": False,
        "cache_prompt": False,
        "repetition_penalty": 1.0,
    }
    assert {name: body[name] for name in expected} == expected


def test_greedy_and_reuse_as_the_server_has_it() -> None:
    """Greedy is temperature 0 without a seed; `server` leaves the prompt cache alone."""
    with (
        serving() as server,
        backend(server, decoding=Decoding("greedy"), cache_prompt="server") as made,
    ):
        one(made, call(seed=None))
    (body,) = server.bodies
    assert body["temperature"] == 0
    assert not {"seed", "cache_prompt", "cache_salt"} & set(body)


def test_every_request_has_a_user_of_its_own() -> None:
    """No two requests share the word by which a mix-up could be told."""
    with serving() as server, backend(server) as made:
        results(made, calls(5))
    assert len({body["user"] for body in server.bodies + server.canaries}) == 6


@pytest.mark.parametrize(
    ("action", "reason", "detail"),
    [
        (stall, "hang", "no answer within 1.5 s"),
        (drip, "hang", "no answer within 1.5 s"),
        (never_close, "hang", "no answer within 1.5 s"),
        (drop, "http", "RemoteProtocolError"),
        (hang_up, "http", "exchange broke"),
        (garbled, "http", "RemoteProtocolError"),
        (status(500, "it " + "b" * 300), "http", "status 500: 'it " + "b" * 197 + "'"),
        (status(503, "loading"), "http", "status 503: 'loading'"),
        (status(429, "slow down"), "http", "status 429: 'slow down'"),
        (status(401, "who?"), "http", "status 401: 'who?'"),
        (status(307, Location="/elsewhere"), "http", "status 307"),
        (huge, "unreadable", "longer than 8388608 bytes"),
        (raw(b""), "unreadable", "not JSON: ''"),
        (raw(b"<html>"), "unreadable", "not JSON: '<html>'"),
        (raw(b"[" * 100_000), "unreadable", "not JSON"),
        (raw(b"[]"), "unreadable", "not a JSON object"),
        (raw(b"{}"), "unreadable", "not one choice"),
        (changed(choices=[]), "unreadable", "not one choice"),
        (changed(choices=[{"finish_reason": "stop"}]), "unreadable", "no message"),
        (says(None), "unreadable", "no text"),
        (says("\ud83d"), "unreadable", "not valid Unicode"),
        (
            changed(
                choices=[{"message": {"content": None, "refusal": "No."}, "finish_reason": "stop"}]
            ),
            "unreadable",
            "the server says 'No.'",
        ),
        (
            changed(choices=[{"message": {"content": "x"}, "finish_reason": "content_filter"}]),
            "unreadable",
            "content_filter",
        ),
        (changed(user="someone-else"), "http", "another request"),
        (changed(model="large"), "http", "from the model 'large', and 'small' at first"),
    ],
)
def test_what_goes_wrong_is_a_failure(action: Action, reason: str, detail: str) -> None:
    """Each way of failing has its reason, and the next call is answered all the same."""
    limit_s = 1.5 if reason == "hang" else 20
    with (
        serving(lambda n: right if n else action) as server,
        backend(server, call_timeout_s=limit_s) as made,
    ):
        got = results(made, calls(2))
    assert failure(got["0"]).reason == reason
    assert detail in failure(got["0"]).detail
    assert reply(got["1"]).text == '{"verdict": "NO"}'
    assert "/elsewhere" not in server.asked


def test_a_reply_that_breaks_the_schema_is_still_the_reply() -> None:
    """What disobeys the schema is handed on as it is, for the caller to refuse."""
    scripts = [says('{"verdict": "MAYBE"}'), says("I'd say yes."), says("")]
    with serving(lambda n: scripts[n]) as server, backend(server) as made:
        got = results(made, calls(3))
    assert [reply(got[str(i)]).text for i in range(3)] == [
        '{"verdict": "MAYBE"}',
        "I'd say yes.",
        "",
    ]


@pytest.mark.parametrize("content", ['{"verdict": "Y', None])
def test_a_capped_reply(content: str | None) -> None:
    """`finish_reason: length` is a reply that was cut, even before its first character."""
    choice = {
        "message": {"content": content, "reasoning_content": "Hm."},
        "finish_reason": "length",
    }
    with serving(lambda _: changed(choices=[choice])) as server, backend(server) as made:
        got = reply(one(made))
    assert (got.text, got.finish, got.thought) == (content or "", "cap", "Hm.")


def test_counts_from_llama_server_or_none() -> None:
    """Without `usage`, llama-server's timings count; without either, it is said so once."""
    timings = {"cache_n": 3, "prompt_n": 4, "predicted_n": 5}
    scripts = [changed(usage=None, timings=timings), changed(usage=None), changed(usage="many")]
    said: list[str] = []
    with (
        serving(lambda n: scripts[n]) as server,
        backend(server, announce=said.append) as made,
    ):
        got = [reply(r) for r in results(made, calls(3)).values()]
    counts = [(g.n_prompt, g.n_reused, g.n_sampled) for g in got]
    assert counts == [(7, 3, 5), (0, 0, 0), (0, 0, 0)]
    assert sum("does not count tokens" in text for text in said) == 1
    assert sum("reuses prompts" in text for text in said) == 1


def test_an_answer_given_before_comes_from_a_cache() -> None:
    """The same long `id` twice is a cached answer; Ollama's short numbers may repeat."""
    long, short = "chatcmpl-" + "0" * 32, "chatcmpl-17"
    scripts = [changed(id=i) for i in (long, long, short, short)]
    with serving(lambda n: scripts[n]) as server, backend(server) as made:
        got = list(results(made, calls(4)).values())
    assert [isinstance(g, Reply) for g in got] == [True, False, True, True]
    assert "by a cache" in failure(got[1]).detail


def test_each_server_is_asked_a_bounded_number_at_a_time() -> None:
    """Both servers are filled up to the limit and never beyond it."""

    def together(handler: Handler, body: Body) -> None:
        server = handler.server
        with server.counting:  # wait for company, so that the limit is reached
            server.counting.notify_all()
            server.counting.wait_for(lambda: server.most_in_flight >= 3, timeout=20)
        right(handler, body)

    with (
        serving(lambda _: together) as one_server,
        serving(lambda _: together) as other,
        backend(one_server, other, concurrency=3) as made,
    ):
        got = results(made, calls(40))
    assert len(got) == 40
    assert one_server.most_in_flight == other.most_in_flight == 3
    assert len(one_server.bodies) + len(other.bodies) == 40


def test_calls_are_taken_only_as_slots_free_up() -> None:
    """With two slots, the third call is taken only when the consumer comes back for more."""
    taken: list[str] = []

    def counted() -> Iterator[Call]:
        for each in calls(6):
            taken.append(each.key)
            yield each

    with serving() as server, backend(server, concurrency=2) as made:
        stream = made.stream(counted())
        assert not taken
        for n_given in range(1, 6):
            next(stream)
            assert len(taken) == min(n_given + 1, 6)
        assert len(list(stream)) == 1


def test_closing_early_hangs_up_and_leaves_no_thread() -> None:
    """What is in flight is abandoned at once, and the servers notice."""
    with (
        serving(lambda n: stall if n else right) as server,
        backend(server, concurrency=3, call_timeout_s=500) as made,
    ):
        stream = made.stream(iter(calls(9)))
        next(stream)
        assert threads()
        server.wait_for(3)  # one answered and two that stall
        made.close()
        assert not threads()
        assert list(stream) == []
        assert all(server.hung_up.acquire(timeout=20) for _ in range(2))
        assert made.describe()["servers"]  # it can be used again


def test_an_interrupted_consumer_leaves_no_thread() -> None:
    """Ctrl-C while calls are taken ends the thread; the exception is the caller's."""

    def interrupted() -> Iterator[Call]:
        yield call("a")
        raise KeyboardInterrupt

    with serving(lambda _: stall) as server, backend(server, concurrency=2) as made:
        with pytest.raises(KeyboardInterrupt):
            list(made.stream(interrupted()))
        assert not threads()


def test_one_stream_at_a_time() -> None:
    """A second stream beside an open one is a bug of the caller."""
    with serving() as server, backend(server) as made:
        stream = made.stream(iter(calls(2)))
        next(stream)
        with pytest.raises(RuntimeError, match="still open"):
            made.stream(iter(()))
        list(stream)
        assert len(results(made, calls(2))) == 2


def test_a_bug_of_the_caller_is_raised() -> None:
    """A call without messages, or without a seed where tokens are drawn, is no failure."""
    with serving() as server, backend(server) as made:
        with pytest.raises(ValueError, match="no messages"):
            one(made, Call("a", (1, 2), (), 7))
        with pytest.raises(ValueError, match="no seed"):
            one(made, call(seed=None))


def test_a_retry_may_be_brought_after_the_calls_had_ended() -> None:
    """An iterator that ends and then has more is asked again after each result."""

    class Retrying:
        def __init__(self) -> None:
            self.waiting = calls(3)

        def __iter__(self) -> Iterator[Call]:
            return self

        def __next__(self) -> Call:
            if not self.waiting:
                raise StopIteration
            return self.waiting.pop(0)

    with (
        serving(lambda n: status(500) if n < 2 else right) as server,
        backend(server, concurrency=3) as made,
    ):
        source, given = Retrying(), []
        for answer in made.stream(source):
            given.append(answer.result)
            if isinstance(answer.result, Failure):
                source.waiting.append(answer.call)
    assert [isinstance(g, Failure) for g in given].count(True) == 2
    assert len(given) == len(server.bodies) == 5


@pytest.mark.parametrize("seed", range(3))
def test_every_call_comes_back_once_whatever_happens(seed: int) -> None:
    """Of 200 calls to two unreliable servers each is given back once, with its own reply."""
    rng = random.Random(seed)
    actions = [right] * 6 + [drop, hang_up, garbled, status(500), raw(b"{"), says("prose")]
    plan = [rng.choice(actions) for _ in range(200)]
    plan[50] = plan[120] = stall

    def script(n: int) -> Action:
        return plan[n]

    with (
        serving(script) as one_server,
        serving(script) as other,
        backend(one_server, other, concurrency=4, call_timeout_s=2) as made,
    ):
        got = results(made, calls(200))
    assert set(got) == {str(i) for i in range(200)}
    for key, result in got.items():
        if isinstance(result, Reply) and result.text != "prose":
            assert json.loads(result.text) == {"verdict": ("YES", "NO")[int(key) % 2]}
    assert len(one_server.bodies) + len(other.bodies) == 200
    assert max(one_server.most_in_flight, other.most_in_flight) <= 4


def test_time_in_which_this_process_was_stopped_is_not_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A clock that leaps by hours between two looks is no reason to give an answer up."""
    hours = itertools.count(step=3600)
    monkeypatch.setattr(openai_loop, "time", SimpleNamespace(monotonic=lambda: next(hours)))

    async def answer() -> str:
        await asyncio.sleep(0.5)
        return "here"

    assert asyncio.run(openai_loop.patiently(answer(), 60)) == "here"
    with pytest.raises(TimeoutError):
        asyncio.run(openai_loop.patiently(asyncio.sleep(600), 2))
