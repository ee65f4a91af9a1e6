"""What is written to an OpenAI-compatible server, and what is made of its answer.

Pure: knows bodies and fields, not sockets. The fields beyond OpenAI's own:

- `top_k`, `min_p`: taken by llama-server and vLLM. Ollama drops them without a word; LM Studio
  takes `top_k` only. `facts` says which servers are known to take both.
- `samplers`, `repetition_penalty`, `presence_penalty`, `frequency_penalty`: set so that nothing
  beside the registered truncation and temperature shapes a draw. llama-server is told the order
  of `shaping`'s steps (truncation at temperature 1, then temperature), and so leaves out the
  rest of its chain; vLLM divides by the temperature *first*, so its top-p and min-p differ where
  the temperature is not 1.
- `chat_template_kwargs`: the registered switches of the chat template, where there are any
  (llama-server and vLLM).
- `cache_prompt: false` (llama-server) and `cache_salt` (vLLM), where no prompt may be reused.
- `user`: a word used once. A server that repeats it must repeat this one.

Separators are the server's own: `Constraint`'s cannot be asked for.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from prereg_judge.engine.protocol import Call, Constraint, FailureReason, Finish, Reply
from prereg_judge.shaping import Decoding

# llama-server reads 32 bits and takes the largest number (and -1) to mean "any"; some servers
# read them with a sign.
_SEEDS = 2**31 - 1
_SHOWN = 200
_LOOKED_AT = 1 << 16
# A reply that ends in so many copies of a stretch, of so many characters together, is a runaway;
# the stretch is about as long as the 32 tokens of the engine's own rule.
_REPEATS = 4
_LEAST_REPEATED = 16
_LONGEST_STRETCH = 128


class WireError(Exception):
    """No reply came of a request.

    Attributes
    ----------
    reason, detail
        As in `Failure`.
    lost
        The server itself is in doubt: it is looked at before it is asked again.
    """

    def __init__(self, reason: FailureReason, detail: str, *, lost: bool = False) -> None:
        super().__init__(detail)
        self.reason, self.detail, self.lost = reason, detail, lost


@dataclass(frozen=True)
class RequestSettings:
    """What all requests share; `strict` = the server is told not to reuse any prompt."""

    model: str
    constraint: Constraint
    decoding: Decoding
    max_tokens: int
    strict: bool
    template_args: Mapping[str, bool | int | str]


@dataclass(frozen=True)
class Answer:
    """A reply, and what the server said of it: its `id`, and the model that it names."""

    reply: Reply
    identity: str | None
    model: str | None
    fingerprint: str | None
    counted: bool  # whether the server reported token counts


def wire_seed(seed: int) -> int:
    """The seed that is sent for `seed`: itself below 2^31 - 1, else its remainder."""
    return seed % _SEEDS


def request_body(call: Call, settings: RequestSettings, *, user: str) -> dict[str, Any]:
    """The body of a chat completion.

    Raises
    ------
    ValueError
        If the call has no messages, or no seed where tokens are drawn.
    """
    decoding = settings.decoding
    greedy = decoding.mode == "greedy"
    if not call.messages:
        raise ValueError(f"the call {call.key!r} has no messages: a server renders them itself")
    if not greedy and call.seed is None:
        raise ValueError(f"the call {call.key!r} has no seed, and the decoding draws")
    schema = {"name": "reply", "strict": True, "schema": dict(settings.constraint.schema)}
    body: dict[str, Any] = {
        "model": settings.model,
        "messages": [dict(m) for m in call.messages],
        "response_format": {"type": "json_schema", "json_schema": schema},
        "max_tokens": settings.max_tokens,
        "stream": False,
        "user": user,
        "temperature": 0.0 if greedy else decoding.temperature,
        "top_p": decoding.top_p,
        "top_k": decoding.top_k,
        "min_p": decoding.min_p,
        "samplers": ["top_k", "top_p", "min_p", "temperature"],
        "repetition_penalty": 1.0,
        "presence_penalty": 0.0,
        "frequency_penalty": 0.0,
    }
    if call.seed is not None and not greedy:
        body["seed"] = wire_seed(call.seed)
    if settings.strict:
        body |= {"cache_prompt": False, "cache_salt": user}
    if settings.template_args:
        body["chat_template_kwargs"] = dict(settings.template_args)
    return body


@dataclass(frozen=True)
class Body:
    """A body, and how to quote it: `redact` takes out what must not be repeated."""

    raw: bytes
    redact: Callable[[str], str]

    def json(self) -> Any:
        """The JSON in it.

        Raises
        ------
        WireError
            `unreadable`, where it holds none.
        """
        try:
            return json.loads(self.raw)
        except (ValueError, RecursionError) as exc:
            raise WireError("unreadable", f"the body is not JSON: {self.shown}") from exc

    @property
    def shown(self) -> str:
        """Its first characters, for people."""
        return self.quote(self.raw[:_LOOKED_AT].decode("utf-8", "replace"))

    def quote(self, text: str) -> str:
        """The first characters of a text out of it, for people."""
        # Shortened last, lest half of a secret is left.
        return repr(self.redact(text)[:_SHOWN])


def read_answer(body: Body, *, user: str, seconds: float) -> Answer:
    """Read the body of a chat completion that came with status 200.

    The text of the reply is left as it is: whether it obeys the schema is for the caller to say.

    Raises
    ------
    WireError
        `unreadable` where there is no reply in it; `http` where it belongs to another request.
    """
    said = body.json()
    if not isinstance(said, dict):
        raise WireError("unreadable", f"the body is not a JSON object: {body.shown}")
    echoed = said.get("user")
    if isinstance(echoed, str) and echoed != user:
        raise WireError("http", "the answer names another request: it was meant for someone else")
    choices = said.get("choices")
    if not isinstance(choices, list) or len(choices) != 1 or not isinstance(choices[0], dict):
        raise WireError("unreadable", f"the body has not one choice: {body.shown}")
    message = _object(choices[0], "message")
    if not message:
        raise WireError("unreadable", f"the choice has no message: {body.shown}")
    text, finish = _reply(message, choices[0].get("finish_reason"), body)
    counts = _counts(said)
    reply = Reply(
        text=text,
        tokens=(),
        finish=finish,
        n_prompt=counts.prompt or 0,
        n_reused=counts.reused or 0,
        n_forced=0,
        n_sampled=(counts.written or 0) - counts.thought,
        allowed_mass=None,
        seconds=seconds,
        thought=_thought(message),
        n_thought=counts.thought,
    )
    return Answer(
        reply,
        identity=_string(said, "id"),
        model=_string(said, "model"),
        fingerprint=_string(said, "system_fingerprint"),
        counted=counts.prompt is not None and counts.written is not None,
    )


def _reply(message: Mapping[str, Any], word: object, body: Body) -> tuple[str, Finish]:
    """The text, and how it ended; thinking may have left no room or no wish for any."""
    if word not in {"stop", "length"}:
        raise WireError("unreadable", f"the reply ended for the reason {body.quote(str(word))}")
    content, refusal = message.get("content"), message.get("refusal")
    if content is None and not isinstance(refusal, str) and (word == "length" or _thought(message)):
        content = ""
    if not isinstance(content, str):
        why = f": the server says {body.quote(refusal)}" if isinstance(refusal, str) else ""
        raise WireError("unreadable", f"the reply has no text{why}")
    if not _is_unicode(content):
        raise WireError("unreadable", "the reply is not valid Unicode")
    if word == "length":
        return content, at_the_cap(content)
    return content, "complete" if content or not _thought(message) else "no_answer"


def at_the_cap(text: str) -> Finish:
    """`runaway` where a reply that was cut ends in copies of one stretch, else `cap`."""
    for size in range(1, _LONGEST_STRETCH + 1):
        copies = max(_REPEATS, -(-_LEAST_REPEATED // size))
        if len(text) >= size * copies and text.endswith(text[-size:] * copies):
            return "runaway"
    return "cap"


def _thought(message: Mapping[str, Any]) -> str | None:
    for name in ("reasoning_content", "reasoning"):  # llama-server; newer vLLM and Ollama
        thought = _string(message, name)
        if thought is not None:
            return thought
    return None


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:  # half of a surrogate pair, which no record could hold
        return False
    return True


def _string(body: Mapping[str, Any], name: str) -> str | None:
    value = body.get(name)
    return value if isinstance(value, str) and value and _is_unicode(value) else None


@dataclass(frozen=True)
class _Counts:
    """Tokens of the prompt, those of them reused, and tokens written, those of a thought included.

    None where the server does not say, or says what cannot be.
    """

    prompt: int | None
    reused: int | None
    written: int | None
    thought: int


def _counts(body: Mapping[str, Any]) -> _Counts:
    """What the server counted; llama-server's own timings come second."""
    usage, timings = _object(body, "usage"), _object(body, "timings")
    reused = _count(_object(usage, "prompt_tokens_details"), "cached_tokens")
    if reused is None:
        reused = _count(timings, "cache_n")
    prompt, written = _count(usage, "prompt_tokens"), _count(usage, "completion_tokens")
    read = _count(timings, "prompt_n")
    if prompt is None and read is not None:
        prompt = read + (reused or 0)
    if written is None:
        written = _count(timings, "predicted_n")
    thought = _count(_object(usage, "completion_tokens_details"), "reasoning_tokens") or 0
    if (reused or 0) > (prompt or 0) or thought > (written or 0):
        return _Counts(None, None, None, 0)
    return _Counts(prompt, reused, written, thought)


def _object(body: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = body.get(name)
    return value if isinstance(value, dict) else {}


def _count(body: Mapping[str, Any], name: str) -> int | None:
    value = body.get(name)
    return value if type(value) is int and 0 <= value < 2**53 else None
