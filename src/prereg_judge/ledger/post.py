"""One exchange with a witness over HTTP: bytes out, a status and a bounded body back.

Knows nothing of time-stamps. Nothing is tried twice and redirects are not followed. The
environment's proxies and certificates are used, except for this machine's own addresses.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from dataclasses import dataclass

import httpx

from prereg_judge.addresses import http_address, is_loopback
from prereg_judge.errors import InputError, Problem


@dataclass(frozen=True)
class Reply:
    """A status, the kind of content as the server names it ("" = not named), and the body."""

    status: int
    kind: str
    body: bytes


def exchange(
    method: str,
    url: str,
    *,
    headers: Mapping[str, str],
    timeout_s: float,
    most_bytes: int,
    body: bytes | None = None,
) -> Reply:
    """Send one request and read the whole answer within about `timeout_s` seconds.

    Raises
    ------
    InputError
        If the address is none, nothing listens there, the answer does not come in time or
        breaks off, or it is longer than `most_bytes`.
    """
    deadline = time.monotonic() + timeout_s
    client = httpx.Client(
        trust_env=not is_loopback(checked_url(url)),
        timeout=timeout_s,
        follow_redirects=False,
        headers={"Accept-Encoding": "identity", "User-Agent": "prereg-judge", **headers},
    )
    try:
        with client, client.stream(method, url, content=body) as response:
            raw = bytearray()
            for chunk in response.iter_raw():
                raw += chunk
                if len(raw) > most_bytes:
                    raise refused(url, f"sent more than {most_bytes} bytes")
                # The client's own limit is on each read; one byte at a time would get by it.
                if time.monotonic() > deadline:
                    raise refused(url, f"did not finish its answer within {timeout_s:g} s")
            kind = response.headers.get("content-type", "")
            return Reply(response.status_code, kind, bytes(raw))
    except httpx.TimeoutException as exc:
        raise refused(url, f"did not answer within {timeout_s:g} s") from exc
    except (httpx.TransportError, OSError) as exc:
        raise refused(url, f"cannot be reached: {exc or type(exc).__name__}") from exc


def checked_url(url: str) -> str:
    """`url`, if it is an HTTP address without a user name or password in it.

    Raises
    ------
    InputError
        If it is not.
    """
    http_address(url, subject="it", remedy="write it like https://tsa.example.org/tsr")
    return url


def refused(url: str, what: str, *, remedy: str = "try again later, or ask another") -> InputError:
    """The error of a witness that could not be had: what the server at `url` did."""
    return InputError(Problem(f"the server {what}", found=repr(url), remedy=remedy))


def digest_bytes(digest: str) -> bytes:
    """The 32 bytes of a SHA-256.

    Raises
    ------
    InputError
        If it is not 64 lower-case hex digits.
    """
    if not re.fullmatch("[0-9a-f]{64}", digest):
        raise InputError(Problem("is not a SHA-256 (64 lower-case hex digits)", found=repr(digest)))
    return bytes.fromhex(digest)
