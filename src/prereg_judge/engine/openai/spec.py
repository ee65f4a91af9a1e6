"""Which OpenAI-compatible servers are asked, and how; knows addresses, not connections."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import httpx

from prereg_judge.errors import InputError, Problem


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
    try:
        parsed = httpx.URL(url)
    except (httpx.InvalidURL, TypeError) as exc:
        raise InputError(_bad_url(url, "is not an address")) from exc
    if parsed.userinfo:
        # Not shown: it may hold a password.
        raise InputError(_bad_url("...@...", "holds a user name or password"))
    if parsed.scheme not in {"http", "https"} or not parsed.host or (parsed.port or 0) > 65535:
        raise InputError(_bad_url(url, "is not an HTTP address"))
    if parsed.query or parsed.fragment:
        raise InputError(_bad_url(url, "has a query or a fragment"))
    return str(parsed).rstrip("/").removesuffix("/v1").rstrip("/")


def _bad_url(url: str, what: str) -> Problem:
    return Problem(
        f"the base URL {what}",
        where="base_urls",
        found=repr(url),
        remedy="write it like http://127.0.0.1:8080; a key belongs into the environment variable",
    )


def is_loopback(url: str) -> bool:
    """Whether the address is this machine's own, by its name or number."""
    host = httpx.URL(url).host
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
