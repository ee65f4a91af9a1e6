"""One OpenAI-compatible server: whether it can be trusted with calls, and the calls themselves.

A server is looked at before its first call, at each pass, and after every doubt (a hang, a lost
connection, a restart): it must be ready, offer the model, obey a schema, and be what it was.

What can be told of an answer that belongs to another request: the server repeats a `user` that
is not this request's; it gives an `id` (if long enough to be unique) that an earlier answer had,
as a cache does; it names another model than before. A server that mixes up prompts and says
none of these cannot be told from one that does not.
"""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import tenacity

from prereg_judge.engine.openai.facts import changed, find_model, gather_facts, offered_models
from prereg_judge.engine.openai.http import MOST_BYTES, Bearer, Http, Response
from prereg_judge.engine.openai.spec import ServerSpec
from prereg_judge.engine.openai.wire import (
    Answer,
    RequestSettings,
    WireError,
    read_answer,
    request_body,
)
from prereg_judge.engine.protocol import Call, Constraint, Failure, Reply
from prereg_judge.errors import EngineError, Problem

_PROBE_S = 10.0
_UNIQUE_ID = 24  # Ollama numbers its answers at random below 1000
_CANARY_TOKENS = 128
_UNAVAILABLE = {502, 503, 504}


class _NotReadyError(Exception):
    """The server may yet become ready."""


class Server:
    """The server at one base URL.

    Attributes
    ----------
    base_url
        Where it is.
    doubtful
        Something happened after which it must be looked at before it is asked again.
    """

    def __init__(
        self,
        base_url: str,
        settings: RequestSettings,
        *,
        bearer: Bearer,
        spec: ServerSpec,
        announce: Callable[[str], None],
    ) -> None:
        self.base_url, self.doubtful = base_url, True
        self._settings, self._bearer, self._announce = settings, bearer, announce
        self._call_s, self._ready_s = spec.call_timeout_s, spec.ready_timeout_s
        self._concurrency = spec.concurrency
        self._http = Http(base_url, bearer)
        self._facts: dict[str, Any] | None = None
        self._model: str | None = None
        self._seen: set[str] = set()
        self._told: set[str] = set()

    @property
    def facts(self) -> dict[str, Any] | None:
        """What the server says of itself; None before the first `check`."""
        return self._facts

    async def answer(self, call: Call) -> Reply | Failure:
        """Make one call once."""
        started = time.perf_counter()
        try:
            answer = await self._ask(call, self._settings, limit_s=self._call_s)
            self._accept(answer)
        except WireError as exc:
            self.doubtful = self.doubtful or exc.lost
            return Failure(exc.reason, exc.detail, time.perf_counter() - started)
        return answer.reply

    async def check(self) -> None:
        """Wait until the server is ready, and see that it does as it is told.

        Raises
        ------
        EngineError
            If it is not ready in time, refuses, does not offer the model, answers without
            applying the schema, or is no longer what it was.
        """
        retrying = tenacity.AsyncRetrying(
            retry=tenacity.retry_if_exception_type(_NotReadyError),
            stop=tenacity.stop_after_delay(self._ready_s),
            wait=tenacity.wait_exponential(multiplier=0.1, max=2),
            reraise=True,
        )
        try:
            look: tuple[Answer, dict[str, Any]] = await retrying(self._look)
        except _NotReadyError as exc:
            raise self._error(
                f"is not ready after {self._ready_s:g} s: {exc}",
                "see that it runs, or allow more time for loading",
            ) from exc
        answer, facts = look
        differences = changed(self._facts or facts, facts)
        if differences:
            raise self._error(
                f"is no longer what it was: {differences}", "start it as it was, or begin a new run"
            )
        if self._settings.template_args and not facts["takes_more_than_openai"]:
            raise self._error(
                "is not known to take chat_template_kwargs, and would ignore the template's "
                f"arguments: {', '.join(sorted(self._settings.template_args))}",
                "register none and set the server up so, or use llama-server or vLLM",
            )
        self._facts, self._model, self.doubtful = facts, answer.model, False
        self._remark(answer, canary=True)

    async def _look(self) -> tuple[Answer, dict[str, Any]]:
        await self._await_health()
        await self._require_model()
        answer, redact = await self._canary(), self._bearer.redact
        try:
            facts = await gather_facts(
                self._http, self._settings.model, limit_s=self._probe_s, redact=redact
            )
        except WireError as exc:
            raise _NotReadyError(exc.detail) from exc
        facts |= {
            "base_url": self.base_url,
            "answered_as": answer.model and redact(answer.model),
            "system_fingerprint": answer.fingerprint and redact(answer.fingerprint),
        }
        return answer, facts

    @property
    def _probe_s(self) -> float:
        return min(_PROBE_S, self._ready_s)

    async def _await_health(self) -> None:
        # llama-server's /v1/models answers while the model is still loading: it comes second.
        for path in ("/health", "/v1/models"):
            response = await self._probe(path)
            if response.status == 200:
                return
            if response.status in {401, 403}:
                raise self._refused(response)
            if response.status == 503:
                raise _NotReadyError("it is still loading (status 503)")
        raise _NotReadyError(f"it answers {path} with status {response.status}")

    async def _probe(self, path: str) -> Response:
        try:
            return await self._http.exchange("GET", path, limit_s=self._probe_s)
        except WireError as exc:
            raise _NotReadyError(exc.detail) from exc

    async def _require_model(self) -> None:
        response = await self._probe("/v1/models")
        offered, name = offered_models(response), self._settings.model
        if offered and find_model(offered, name) is None:
            # llama-server would answer to any name, with the one model that it has.
            raise self._error(
                f"does not offer the model {name!r}",
                f"it offers {', '.join(map(repr, sorted(offered)))}",
            )

    async def _canary(self) -> Answer:
        word = secrets.token_hex(8)
        schema = {
            "type": "object",
            "properties": {"canary": {"type": "string", "enum": [word]}},
            "required": ["canary"],
            "additionalProperties": False,
        }
        settings = replace(
            self._settings,
            constraint=Constraint(schema, ",", ":"),
            max_tokens=max(self._settings.max_tokens, _CANARY_TOKENS),
        )
        text = "Describe the sea in two sentences of plain prose. Do not write JSON."
        call = Call("canary", (), (), 0, messages=({"role": "user", "content": text},))
        try:
            answer = await self._ask(call, settings, limit_s=self._ready_s)
        except WireError as exc:
            if exc.lost:
                raise _NotReadyError(exc.detail) from exc
            raise self._error(
                f"does not answer a first request: {exc.detail}",
                "see what the server itself says; a key comes from the environment variable",
            ) from exc
        if not _says(answer.reply.text, {"canary": word}):
            raise self._disobedient(answer.reply)
        return answer

    async def _ask(self, call: Call, settings: RequestSettings, *, limit_s: float) -> Answer:
        user, started = secrets.token_hex(16), time.perf_counter()
        response = await self._http.exchange(
            "POST",
            "/v1/chat/completions",
            limit_s=limit_s,
            body=request_body(call, settings, user=user),
        )
        if response.status != 200:
            detail = f"status {response.status}: {response.body.shown}"
            raise WireError("http", detail, lost=response.status in _UNAVAILABLE)
        if response.cut:
            raise WireError("unreadable", f"the body is longer than {MOST_BYTES} bytes")
        return read_answer(response.body, user=user, seconds=time.perf_counter() - started)

    def _accept(self, answer: Answer) -> None:
        """Refuse what belongs to another request, as far as the answer shows it."""
        identity = answer.identity or ""
        if len(identity) >= _UNIQUE_ID:
            if identity in self._seen:
                raise WireError(
                    "http", f"the answer {identity[:80]!r} was given before: by a cache"
                )
            self._seen.add(identity)
        if answer.model != self._model:
            said = f"{self._shown(answer.model)}, and {self._shown(self._model)} at first"
            raise WireError("http", f"the answer says it is from the model {said}", lost=True)
        self._remark(answer)

    def _shown(self, name: str | None) -> str:
        return "(none)" if name is None else repr(self._bearer.redact(name)[:80])

    def _remark(self, answer: Answer, *, canary: bool = False) -> None:
        facts = self._facts or {}
        slots = facts.get("total_slots")
        if self._settings.strict and answer.reply.n_reused:
            self._tell("reuses prompts although it was told not to")
        if not answer.counted:
            self._tell("does not count tokens, or impossibly: they are recorded as 0")
        written = answer.reply.n_sampled + answer.reply.n_thought
        if written > max(self._settings.max_tokens, _CANARY_TOKENS if canary else 0):
            self._tell(f"counts {written} tokens in a reply: more than were allowed")
        if isinstance(slots, int) and slots < self._concurrency:
            self._tell(
                f"answers {slots} at a time and is asked {self._concurrency}: calls wait there, "
                "within their time limit"
            )
        decoding = self._settings.decoding
        if facts.get("takes_more_than_openai"):
            return
        if decoding.mode != "greedy":
            self._tell("is not known to take top_k and min_p: its own settings may apply")
        if self._settings.strict:
            self._tell("cannot be told not to reuse prompts, as far as is known")

    def _tell(self, what: str) -> None:
        if what not in self._told:
            self._told.add(what)
            self._announce(f"{self.base_url} {what}")

    def _error(self, what: str, remedy: str) -> EngineError:
        redact = self._bearer.redact
        return EngineError(Problem(f"{self.base_url} {redact(what)}", remedy=redact(remedy)))

    def _refused(self, response: Response) -> EngineError:
        return self._error(
            f"refuses: status {response.status}: {response.body.shown}",
            "name the environment variable that holds its API key",
        )

    def _disobedient(self, reply: Reply) -> EngineError:
        start = repr(self._bearer.redact(reply.text)[:80])
        if reply.finish != "complete":
            return self._error(
                f"did not come to the end of a one-word reply; it began {start}",
                "allow more tokens, or switch the model's thinking off on the server",
            )
        return self._error(
            f"answers without applying the schema: it was to write one word in JSON, and "
            f"wrote {start}",
            "use a server and a model for which it supports response_format json_schema",
        )


def _says(text: str, value: object) -> bool:
    try:
        return bool(json.loads(text) == value)
    except (ValueError, RecursionError):
        return False
