"""Which servers are trusted with calls, what is recorded of them, and what never is."""

from __future__ import annotations

import hashlib
import json
import logging
import threading
import urllib.parse

import pytest

from engine.openai.scripted_server import (
    Action,
    Body,
    Handler,
    backend,
    calls,
    changed,
    failure,
    hang_up,
    one,
    raw,
    reply,
    results,
    right,
    says,
    serving,
    status,
    stop,
)
from prereg_judge.engine.protocol import Failure
from prereg_judge.errors import EngineError, InputError

SECRET = "sk-" + "very-secret-" * 4


@pytest.mark.parametrize(
    ("canary", "words"),
    [
        (says("The sea is wide and blue."), "answers without applying the schema"),
        (says('{"canary": "guess"}'), "answers without applying the schema"),
        (
            changed(choices=[{"message": {"content": "<think>"}, "finish_reason": "length"}]),
            "did not come to the end",
        ),
        (status(401, "no key"), "status 401: 'no key'"),
        (raw(b"nonsense"), "not JSON"),
    ],
)
def test_a_server_that_fails_the_first_request_is_refused(canary: Action, words: str) -> None:
    """No call is made to a server that answers without applying the schema, or not at all."""
    with serving() as server, backend(server) as made:
        server.canary = canary
        with pytest.raises(EngineError, match=words):
            one(made)
    assert not server.bodies


def test_the_canary_asks_for_something_new_each_time() -> None:
    """A server cannot obey from memory: the only allowed word is drawn anew."""
    with serving() as server, backend(server) as made:
        made.start_pass()
        made.start_pass()
    words = {
        body["response_format"]["json_schema"]["schema"]["properties"]["canary"]["enum"][0]
        for body in server.canaries
    }
    assert len(words) == 2


def test_a_server_that_loads_is_waited_for() -> None:
    """Nothing is asked until /health says 200, though /v1/models already answers."""
    with serving() as server, backend(server) as made:
        server.pages["/health"] = [(503, {})] * 3 + [(200, {})]
        reply(one(made))
    assert server.asked[:4] == ["/health"] * 4
    assert "/v1/chat/completions" not in server.asked[:4]


def test_a_server_without_health_is_asked_for_its_models() -> None:
    """404 on /health is no reason to wait."""
    with serving() as server, backend(server) as made:
        del server.pages["/health"]
        reply(one(made))
    assert server.asked[:2] == ["/health", "/v1/models"]


@pytest.mark.parametrize(
    ("page", "words"),
    [((503, {}), "not ready after 0.5 s: it is still loading"), ((403, "no"), "status 403")],
)
def test_a_server_that_does_not_become_ready(page: tuple[int, object], words: str) -> None:
    """One that loads for ever, or refuses, is an error with the reason and a remedy."""
    with serving() as server, backend(server, ready_timeout_s=0.5) as made:
        server.pages["/health"] = page
        with pytest.raises(EngineError, match=words) as caught:
            made.start_pass()
    assert caught.value.problems[0].remedy


def test_a_model_that_is_not_offered() -> None:
    """llama-server answers to any model's name, so the name must be on its list."""
    with serving() as server, backend(server, model="smal") as made:
        with pytest.raises(EngineError, match=r"does not offer the model 'smal'\. It offers"):
            made.start_pass()
        server.pages["/v1/models"] = (200, {"data": [{"id": "x", "aliases": ["smal"]}]})
        made.start_pass()
        server.pages["/v1/models"] = (200, {"data": [{"id": "smal:latest"}]})
        made.start_pass()


def test_a_server_that_dies_stops_the_run() -> None:
    """Refused connections are a `crash`; then the server is waited for, and no call is spent."""
    with serving() as server, backend(server, ready_timeout_s=0.5) as made:
        stream, given = made.stream(iter(calls(9))), []
        given.append(next(stream))
        stop(server)
        with pytest.raises(EngineError, match=r"is not ready after 0\.5 s: cannot be reached"):
            given.extend(stream)
    assert [failure(a.result).reason for a in given[1:]] == ["crash"]
    assert [a.call.key for a in given] == ["0", "1"]


def test_one_of_two_servers_dies() -> None:
    """The other one carries on, and it is said."""
    said: list[str] = []
    with (
        serving() as dying,
        serving() as other,
        backend(dying, other, ready_timeout_s=0.5, announce=said.append) as made,
    ):
        stream = made.stream(iter(calls(30)))
        given = [next(stream)]
        stop(dying)
        given.extend(stream)
    assert len({a.call.key for a in given}) == len(given) == 30
    assert sum(isinstance(a.result, Failure) for a in given) <= 1
    assert any("not asked any more" in text for text in said) or len(dying.bodies) <= 1


def test_the_last_call_fails_and_nothing_is_waited_for() -> None:
    """After the last call a dead server is nobody's concern any more."""

    def leave(handler: Handler, body: Body) -> None:
        handler.server.pages["/health"] = (503, {})
        hang_up(handler, body)

    with serving(lambda _: leave) as server, backend(server, ready_timeout_s=10_000) as made:
        failure(one(made))


def test_a_server_that_comes_back_as_another_is_refused() -> None:
    """After a lost connection the same build, file, context and template must be there."""

    def swap(handler: Handler, body: Body) -> None:
        props = handler.server.pages["/props"][1]
        handler.server.pages["/props"] = (200, {**props, "chat_template": "{{ other }}"})
        hang_up(handler, body)

    with (
        serving(lambda n: right if n else swap) as server,
        backend(server) as made,
        pytest.raises(EngineError, match=r"no longer what it was: chat_template_sha256"),
    ):
        results(made, calls(3))
    assert len(server.bodies) == 1


def test_servers_must_share_the_model_and_the_template() -> None:
    """Two servers whose models differ are two judges."""
    with serving() as server, serving() as other, backend(server, other) as made:
        other.pages["/v1/models"] = (200, {"data": [{"id": "small", "meta": {"n_params": 9}}]})
        with pytest.raises(EngineError, match=r"not the same judge.*n_params was 135 and is 9"):
            made.start_pass()


def test_each_failing_server_is_named() -> None:
    """One error says what is wrong with every server."""
    with serving() as server, serving() as other, backend(server, other) as made:
        server.canary = other.canary = says("prose")
        with pytest.raises(EngineError) as caught:
            made.start_pass()
    assert len(caught.value.problems) == 2


def test_what_a_server_says_of_itself() -> None:
    """The record holds the build, the model's file without its folder, and the template's hash."""
    with serving() as server, backend(server) as made:
        said = made.describe()
    (facts,) = said["servers"]
    assert facts["build_info"] == "b1-abc"
    assert facts["model_file"] == "small.gguf"
    assert facts["n_ctx"] == 512
    assert facts["chat_template_sha256"] == hashlib.sha256(b"{{ messages }}").hexdigest()
    assert facts["answered_as"] == "small"
    assert facts["model_entry"]["id"] == "small"
    assert facts["server_header"].startswith("BaseHTTP")
    assert json.loads(json.dumps(said)) == said
    assert "/home" not in json.dumps(said)


def test_what_cannot_be_relied_on_is_said() -> None:
    """Fewer slots than calls, and what a server may not know of what is asked, are announced."""
    said: list[str] = []
    with serving() as server, backend(server, concurrency=9, announce=said.append) as made:
        made.start_pass()
        del server.pages["/props"]
    with serving() as server, backend(server, announce=said.append) as made:
        del server.pages["/props"]
        made.start_pass()
    assert "answers 8 at a time and is asked 9" in said[1]
    assert any("not known to take top_k and min_p" in text for text in said)
    assert sum("cannot be told not to reuse prompts" in text for text in said) == 1


def test_the_key_is_sent_and_shown_nowhere(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A server that repeats the key in all that it says does not bring it into a record."""
    monkeypatch.setenv("PREREG_TEST_KEY", SECRET)
    caplog.set_level(logging.DEBUG)
    received: list[str | None] = []
    said: list[str] = []

    def telling(handler: Handler, body: Body) -> None:
        received.append(handler.headers["Authorization"])
        handler.send_raw(500, b"x" * 180 + f"{handler.headers['Authorization']}".encode())

    tells = says(None, id=SECRET)
    scripts: list[Action] = [telling, raw(b"y" * 190 + SECRET.encode()), changed(model=SECRET)]
    with (
        serving(lambda n: scripts[n] if n < 3 else tells) as server,
        backend(server, api_key_env="PREREG_TEST_KEY", announce=said.append) as made,
    ):
        server.pages["/props"] = (200, {"build_info": SECRET, "chat_template": SECRET})
        server.pages["/v1/models"] = (
            200,
            {"data": [{"id": "small", SECRET: [f"Bearer {SECRET}"], "root": f"/m/{SECRET}"}]},
        )
        got = results(made, calls(4))
        shown = [repr(made), repr(vars(made)), json.dumps(made.describe()), *said]
        for server_object in made._servers:
            shown += [repr(server_object), repr(vars(server_object))]
        server.canary = telling
        with pytest.raises(EngineError) as caught:
            made.start_pass()
        server.canary = says(f"prose {SECRET}")
        with pytest.raises(EngineError) as again:
            made.start_pass()
    assert received[0] == f"Bearer {SECRET}"
    shown += [failure(r).detail for r in got.values()]
    shown += [str(caught.value), str(again.value), caplog.text]
    for text in shown:
        assert "very-secret" not in text
        assert "sk-" not in text


def test_the_key_is_found_however_it_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also as a reply's own text, escaped in JSON or in an address, it goes into no record."""
    key = 'sk-a/b"c+very-secret'
    monkeypatch.setenv("PREREG_TEST_KEY", key)
    escaped = json.dumps(key)[1:-1]
    forms = [key, escaped.replace("/", "\\/"), urllib.parse.quote(key, safe="")]
    scripts = [*(raw(f"{'y' * 20}{form}".encode()) for form in forms), says(key)]
    with (
        serving(lambda n: scripts[n]) as server,
        backend(server, api_key_env="PREREG_TEST_KEY") as made,
    ):
        got = results(made, calls(4))
    assert "very-secret" not in repr(got)
    assert "[key]" in repr(got)


@pytest.mark.parametrize("value", [None, "", SECRET + "\n", SECRET + "é"])
def test_a_key_that_is_none(monkeypatch: pytest.MonkeyPatch, value: str | None) -> None:
    """A variable that is not set, or holds no key, is an error that names it and not its value."""
    if value is None:
        monkeypatch.delenv("PREREG_TEST_KEY", raising=False)
    else:
        monkeypatch.setenv("PREREG_TEST_KEY", value)
    with (
        pytest.raises(EngineError, match="PREREG_TEST_KEY") as caught,
        backend("http://127.0.0.1:1", api_key_env="PREREG_TEST_KEY"),
    ):
        pass
    assert "secret" not in str(caught.value)


def test_a_proxy_is_not_asked_for_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """A proxy in the environment does not stand between this machine and itself."""
    with serving() as server, serving() as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy.url)
        monkeypatch.setenv("http_proxy", proxy.url)
        with backend(server) as made:
            reply(one(made))
        with (
            backend("http://judge.invalid", ready_timeout_s=0.5) as made,
            pytest.raises(EngineError),
        ):
            made.start_pass()
    assert not proxy.bodies
    assert proxy.asked  # but for others it is


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("ftp://127.0.0.1", "not an HTTP address"),
        ("127.0.0.1:8080", "not an"),
        ("http://", "not an HTTP address"),
        ("http://127.0.0.1:70000", "not an"),
        ("http://me:hunter2@127.0.0.1", "password"),
        ("http://127.0.0.1/?key=1", "query"),
    ],
)
def test_a_base_url_is_an_address_and_no_more(url: str, words: str) -> None:
    """What is no HTTP address, or holds a password, is refused; the password is not shown."""
    with pytest.raises(InputError, match=words) as caught, backend(url):
        pass
    assert "hunter2" not in str(caught.value)


def test_base_urls_may_end_in_v1_and_are_named_once() -> None:
    """`/v1` and a last slash make no difference, so they hide no server that is named twice."""
    with serving() as server:
        with backend(f"{server.url}/v1/") as made:
            reply(one(made))
        with pytest.raises(InputError, match="named twice"), backend(server, f"{server.url}/v1"):
            pass
    with pytest.raises(InputError, match="no base URL"), backend():
        pass
    with pytest.raises(InputError, match="fewer than one"), backend(server, concurrency=0):
        pass


def test_a_server_that_starts_late_is_waited_for() -> None:
    """A connection that is refused at first is no error while there is time."""
    with serving() as gone:
        port = gone.server_address[1]
    started = threading.Event()

    def start_late() -> None:
        started.wait(20)
        with serving(port=port):
            checked.wait(20)

    checked = threading.Event()
    server = threading.Thread(target=start_late)
    server.start()
    with backend(f"http://127.0.0.1:{port}") as made:
        threading.Timer(0.3, started.set).start()
        made.start_pass()
        checked.set()
        server.join()
