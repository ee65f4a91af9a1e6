"""HTTP addresses that a user names: what is wrong with one, and whether it is this machine."""

from __future__ import annotations

import ipaddress

import httpx

from prereg_judge.errors import InputError, Problem


def http_address(url: str, *, subject: str, remedy: str, where: str | None = None) -> httpx.URL:
    """An HTTP address in parts, if it is one without a user name or password in it.

    Parameters
    ----------
    subject, remedy, where
        For the message: what the address is ("the base URL"), what would do, and the field.

    Raises
    ------
    InputError
        If it is not.
    """

    def wrong(what: str, found: str) -> InputError:
        return InputError(Problem(f"{subject} {what}", where=where, found=found, remedy=remedy))

    try:
        parsed = httpx.URL(url)
    except (httpx.InvalidURL, TypeError) as exc:
        raise wrong("is not an address", repr(url)) from exc
    if parsed.userinfo:
        # Not shown: it may hold a password.
        raise wrong("holds a user name or password", "'...@...'")
    if parsed.scheme not in {"http", "https"} or not parsed.host or (parsed.port or 0) > 65535:
        raise wrong("is not an HTTP address", repr(url))
    return parsed


def is_loopback(url: str) -> bool:
    """Whether the address is this machine's own, by its name or number."""
    host = httpx.URL(url).host
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
