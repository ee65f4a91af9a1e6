"""An HTTP server on real sockets that answers as a test tells it to, and backends over it."""

from __future__ import annotations

import itertools
import json
import secrets
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from prereg_judge.engine.openai import OpenAIBackend, ServerSpec
from prereg_judge.engine.protocol import Call, Constraint, Failure, Reply, SessionSettings
from prereg_judge.shaping import Decoding

Body = dict[str, Any]


class Handler(BaseHTTPRequestHandler):
    """One request; `server` is the `Scripted` one."""

    server: Scripted
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Keep quiet."""

    def do_GET(self) -> None:
        """Answer from `pages`; a list is used up to its last entry."""
        self.server.asked.append(self.path)
        page = self.server.pages.get(self.path, (404, {"error": "no such page"}))
        if isinstance(page, list):
            page = page.pop(0) if len(page) > 1 else page[0]
        self.send_json(*page)

    def do_POST(self) -> None:
        """Answer a completion as the script says."""
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.asked.append(self.path)
        self.close_connection = True
        if "canary" in body["response_format"]["json_schema"]["schema"]["properties"]:
            self.server.canaries.append(body)
            self.server.canary(self, body)
            return
        with self.server.counting:
            number = next(self.server.numbers)
            self.server.bodies.append(body)
            self.server.in_flight += 1
            self.server.most_in_flight = max(self.server.most_in_flight, self.server.in_flight)
            self.server.counting.notify_all()
        try:
            self.server.script(number)(self, body)
        except OSError:
            pass  # the client has gone
        finally:
            with self.server.counting:
                self.server.in_flight -= 1

    def send_json(self, status: int, value: object) -> None:
        """Send a whole answer."""
        self.send_raw(status, json.dumps(value).encode())

    def send_raw(self, status: int, raw: bytes, **headers: str) -> None:
        """Send bytes with their length."""
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)


Action = Callable[[Handler, Body], None]


class Scripted(ThreadingHTTPServer):
    """The server.

    Attributes
    ----------
    script
        The action for the n-th completion (from 0), canaries apart.
    canary
        The action for canaries.
    pages
        What is said to GET, by path: a status and a JSON value, or a list of them.
    """

    daemon_threads = True

    def __init__(self, script: Callable[[int], Action], *, port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), Handler)
        self.script = script
        self.canary: Action = right
        self.pages: dict[str, Any] = {
            "/health": (200, {"status": "ok"}),
            "/v1/models": (200, {"data": [{"id": "small", "meta": {"n_params": 135}}]}),
            "/props": (
                200,
                {
                    "build_info": "b1-abc",
                    "model_path": "/home/someone/models/small.gguf",
                    "chat_template": "{{ messages }}",
                    "total_slots": 8,
                    "default_generation_settings": {"n_ctx": 512, "params": {"top_k": 40}},
                },
            ),
        }
        self.asked: list[str] = []
        self.bodies: list[Body] = []
        self.canaries: list[Body] = []
        self.numbers = itertools.count()
        self.counting = threading.Condition()
        self.in_flight = self.most_in_flight = 0
        self.hung_up = threading.Semaphore(0)

    @property
    def url(self) -> str:
        """Its base URL."""
        return f"http://127.0.0.1:{self.server_address[1]}"

    def wait_for(self, requests: int) -> None:
        """Wait until so many completions have been asked for."""
        with self.counting:
            assert self.counting.wait_for(lambda: len(self.bodies) >= requests, timeout=20)


@contextmanager
def serving(script: Callable[[int], Action] | None = None, *, port: int = 0) -> Iterator[Scripted]:
    """A running server, by default one that answers right; `stop` may end it early."""
    server = Scripted(script or (lambda _: right), port=port)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), name="scripted")
    thread.start()
    try:
        yield server
    finally:
        stop(server)
        thread.join()


def stop(server: Scripted) -> None:
    """Stop listening: who connects from now on is refused."""
    server.shutdown()
    server.server_close()


def completion(body: Body, text: str | None, **changes: Any) -> Body:
    """A right answer with this text; `changes` replace its fields, None removes one."""
    choice = {"message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
    answer = {
        "id": f"chatcmpl-{secrets.token_hex(16)}",
        "model": "small",
        "user": body["user"],
        "choices": [choice],
        "usage": {
            "prompt_tokens": 12,
            "completion_tokens": 7,
            "prompt_tokens_details": {"cached_tokens": 5},
        },
        **changes,
    }
    return {name: value for name, value in answer.items() if value is not None}


def obedient(body: Body) -> str:
    """A reply that obeys the schema: the last user message where it is allowed."""
    schema = body["response_format"]["json_schema"]["schema"]
    said = body["messages"][-1]["content"]
    return json.dumps(
        {
            name: said if said in one["enum"] else one["enum"][0]
            for name, one in schema["properties"].items()
        }
    )


def right(handler: Handler, body: Body) -> None:
    """Obey."""
    handler.send_json(200, completion(body, obedient(body)))


def says(text: str | None, **changes: Any) -> Action:
    """Answer with this text whatever is asked."""
    return lambda handler, body: handler.send_json(200, completion(body, text, **changes))


def changed(**changes: Any) -> Action:
    """Obey, with other fields beside the reply."""
    return lambda handler, body: handler.send_json(200, completion(body, obedient(body), **changes))


def status(code: int, text: str = "", **headers: str) -> Action:
    """Answer with a status."""
    return lambda handler, _: handler.send_raw(code, text.encode(), **headers)


def raw(data: bytes) -> Action:
    """Answer with status 200 and these bytes."""
    return lambda handler, _: handler.send_raw(200, data)


def stall(handler: Handler, _: Body) -> None:
    """Say nothing until the client hangs up."""
    handler.connection.settimeout(30)
    handler.connection.recv(1)
    handler.server.hung_up.release()


def drip(handler: Handler, body: Body) -> None:
    """Send an answer without an end, a little at a time."""
    handler.send_response(200)
    handler.end_headers()
    handler.connection.settimeout(0.05)
    while True:
        handler.wfile.write(b" ")
        handler.wfile.flush()
        try:
            handler.connection.recv(1)
        except TimeoutError:
            continue
        return


def never_close(handler: Handler, body: Body) -> None:
    """Send a whole answer without saying how long it is, and keep the connection open."""
    handler.send_response(200)
    handler.end_headers()
    handler.wfile.write(json.dumps(completion(body, obedient(body))).encode())
    stall(handler, body)


def drop(handler: Handler, _: Body) -> None:
    """Announce more than is sent, and hang up."""
    handler.send_response(200)
    handler.send_header("Content-Length", "1000")
    handler.end_headers()
    handler.wfile.write(b'{"choices": [{"mess')


def hang_up(handler: Handler, _: Body) -> None:
    """Hang up without a word."""
    handler.connection.close()


def garbled(handler: Handler, _: Body) -> None:
    """Send chunks that are none."""
    handler.send_response(200)
    handler.send_header("Transfer-Encoding", "chunked")
    handler.end_headers()
    handler.wfile.write(b"zz\r\nnot a chunk\r\n")


def huge(handler: Handler, _: Body) -> None:
    """Send a body that is far too long."""
    handler.send_response(200)
    handler.send_header("Content-Length", str(64 << 20))
    handler.end_headers()
    for _i in range(64):
        handler.wfile.write(b" " * (1 << 20))


VERDICT = Constraint(
    {
        "type": "object",
        "properties": {"verdict": {"type": "string", "enum": ["YES", "NO"]}},
        "required": ["verdict"],
        "additionalProperties": False,
    },
    ",",
    ":",
)
SAMPLED = Decoding("sampled", temperature=0.7, top_k=40, top_p=0.9, min_p=0.05)


@contextmanager
def backend(
    *servers: Scripted | str,
    decoding: Decoding = SAMPLED,
    settings: SessionSettings | None = None,
    announce: Callable[[str], None] = lambda _: None,
    **changes: Any,
) -> Iterator[OpenAIBackend]:
    """A backend over these servers, closed at the end; no thread of it may be left."""
    spec = ServerSpec(
        base_urls=tuple(s if isinstance(s, str) else s.url for s in servers),
        model="small",
        api_key_env=None,
        concurrency=1,
        cache_prompt="strict",
        call_timeout_s=20,
        ready_timeout_s=20,
    )
    made = OpenAIBackend(
        replace(spec, **changes),
        settings or SessionSettings(VERDICT, decoding, max_tokens=16),
        announce=announce,
    )
    try:
        yield made
    finally:
        made.close()
        assert not threads()


def threads() -> list[str]:
    """The backend's threads that run."""
    return [t.name for t in threading.enumerate() if t.name.startswith("prereg")]


def call(key: str = "a", text: str = "YES", seed: int | None = 7) -> Call:
    """A call whose reply is to be `text`."""
    return Call(key, (), (), seed, messages=({"role": "user", "content": text},))


def calls(n: int) -> list[Call]:
    """Calls `0` to `n - 1`, to be answered YES and NO in turn."""
    return [call(str(i), ("YES", "NO")[i % 2]) for i in range(n)]


def results(made: OpenAIBackend, asked: Iterable[Call]) -> dict[str, Reply | Failure]:
    """What came of each call, by its key; each must be given back once."""
    given = list(made.stream(iter(asked)))
    assert max(Counter(a.call.key for a in given).values(), default=1) == 1
    assert all(a.together == (a.call.key,) for a in given)
    return {a.call.key: a.result for a in given}


def one(made: OpenAIBackend, asked: Call | None = None) -> Reply | Failure:
    """What came of a single call."""
    (result,) = results(made, [asked or call()]).values()
    return result


def failure(result: Reply | Failure) -> Failure:
    """The result, which must be a failure."""
    assert isinstance(result, Failure)
    return result


def reply(result: Reply | Failure) -> Reply:
    """The result, which must be a reply."""
    assert isinstance(result, Reply), result
    return result
