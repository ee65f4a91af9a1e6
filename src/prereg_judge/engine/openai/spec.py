"""Which OpenAI-compatible servers are asked, and how; knows addresses, not connections."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from prereg_judge.addresses import http_address
from prereg_judge.errors import InputError, Problem

_SUBJECT = "the base URL"
_REMEDY = "write it like http://127.0.0.1:8080; a key belongs into the environment variable"


@dataclass(frozen=True)
class ServerSpec:
    """Which servers to ask and how; all of them serve the same model.

    Attributes
    ----------
    base_urls
        Where they are, with or without `/v1`; at least one, each once.
    model
        The model's name, as the servers list it.
    api_key_env
        The environment variable that holds the API key for all of them; None = none is sent.
    concurrency
        Calls in flight at each server, at least 1.
    cache_prompt
        `strict`: servers are told not to reuse any prompt (llama-server by `cache_prompt: false`,
        vLLM by a `cache_salt` used once; others cannot be told); `server`: as they are set up.
    call_timeout_s
        Limit of a call from beginning to end, the server's own queue included.
    ready_timeout_s
        Limit of becoming ready (loading the model), at the start and after a loss.
    template_args
        Switches for the chat template, sent as `chat_template_kwargs` (a thinking switch, say);
        servers that are not known to take them are refused where there are any.
    """

    base_urls: tuple[str, ...]
    model: str
    api_key_env: str | None
    concurrency: int
    cache_prompt: Literal["strict", "server"]
    call_timeout_s: float
    ready_timeout_s: float
    template_args: Mapping[str, bool | int | str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        urls = tuple(normal_url(url) for url in self.base_urls)
        object.__setattr__(self, "base_urls", urls)
        if not urls or len(set(urls)) < len(urls):
            what = "a base URL is named twice" if urls else "no base URL is named"
            raise InputError(Problem(what, where="base_urls"))
        if self.concurrency < 1:
            what = "fewer than one call at a time"
            raise InputError(Problem(what, where="concurrency", found=str(self.concurrency)))


def normal_url(url: str) -> str:
    """A base URL without a last slash and without `/v1`, which is added to each path.

    Raises
    ------
    InputError
        If it is not an HTTP address, or says more than an address (a password, a query).
    """
    parsed = http_address(url, subject=_SUBJECT, remedy=_REMEDY, where="base_urls")
    if parsed.query or parsed.fragment:
        what = f"{_SUBJECT} has a query or a fragment"
        raise InputError(Problem(what, where="base_urls", found=repr(url), remedy=_REMEDY))
    return str(parsed).rstrip("/").removesuffix("/v1").rstrip("/")
