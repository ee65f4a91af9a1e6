"""One exchange with a server: a request out, a status and a bounded body back, or a `WireError`.

Every exchange has a connection of its own. That costs next to nothing beside a model's answer,
and no late answer to an abandoned request can then be read as the answer to the next one.
Nothing is tried twice, redirects are not followed, and the API key goes nowhere but into the
request: not into errors, representations or what is recorded.
"""

from __future__ import annotations

import json
import os
import ssl
import urllib.parse
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from typing import Any

import httpx

from prereg_judge.addresses import is_loopback
from prereg_judge.engine.openai.loop import patiently
from prereg_judge.engine.openai.wire import Body, WireError
from prereg_judge.errors import EngineError, Problem

MOST_BYTES = 8 << 20
_HIDDEN = "[key]"
_A_KEY = 8  # characters; anything shorter may stand anywhere in a body


@dataclass(frozen=True)
class Response:
    """A status, the headers that matter, and the body up to `MOST_BYTES`."""

    status: int
    server: str | None
    body: Body
    cut: bool  # the body was longer


class Bearer(httpx.Auth):
    """The API key, sent as a bearer token; shows itself nowhere."""

    def __init__(self, variable: str | None) -> None:
        """Read the key from an environment variable; None = no key.

        Raises
        ------
        EngineError
            If the variable is not set, or what it holds cannot be a key.
        """
        self.__key = "" if variable is None else os.environ.get(variable, "")
        if variable is None:
            return
        if not self.__key or not self.__key.isascii() or not self.__key.isprintable():
            state = "holds no usable key" if self.__key else "is not set"
            raise EngineError(
                Problem(f"the environment variable {variable} {state}", remedy=f"set {variable}")
            )

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        """Add the header."""
        if self.__key:
            request.headers["Authorization"] = f"Bearer {self.__key}"
        yield request

    def redact(self, text: str) -> str:
        """`text` without the key: some servers repeat it in their errors."""
        for form in self._forms():
            text = text.replace(form, _HIDDEN)
        return text

    def redact_bytes(self, raw: bytes) -> bytes:
        """A body without the key, however it is written there; a key too short to be one stays."""
        for form in self._forms() if len(self.__key) >= _A_KEY else []:
            raw = raw.replace(form.encode(), _HIDDEN.encode())
        return raw

    def _forms(self) -> list[str]:
        """The key as it stands, in JSON and in an address; the longest first."""
        if not self.__key:
            return []
        quoted = json.dumps(self.__key)[1:-1]
        forms = {self.__key, quoted, quoted.replace("/", "\\/")}
        forms |= {urllib.parse.quote(self.__key, safe=safe) for safe in ("", "/")}
        return sorted(forms, key=len, reverse=True)


class Http:
    """Exchanges with the server at one base URL.

    The environment's proxies and certificates (`HTTPS_PROXY`, `SSL_CERT_FILE`) are used, except
    for this machine's own addresses, which no proxy could reach.
    """

    def __init__(self, base_url: str, bearer: Bearer) -> None:
        self._base_url, self._bearer = base_url, bearer
        self._trust_env = not is_loopback(base_url)
        # Made once, since reading the certificates takes longer than many an exchange; without
        # TLS none are read, and an empty context trusts nobody.
        self._ssl = (
            httpx.create_ssl_context(trust_env=self._trust_env)
            if httpx.URL(base_url).scheme == "https"
            else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        )

    async def exchange(
        self, method: str, path: str, *, limit_s: float, body: Mapping[str, Any] | None = None
    ) -> Response:
        """Send one request and read what comes back, within `limit_s` seconds in all.

        Raises
        ------
        WireError
            `hang` after the limit, `crash` where no connection can be made, `http` where it
            breaks or what comes is not HTTP.
        """
        try:
            return await patiently(self._exchange(method, path, body), limit_s)
        except TimeoutError as exc:
            raise WireError("hang", f"no answer within {limit_s:g} s", lost=True) from exc
        except httpx.ConnectError as exc:
            raise WireError("crash", self._said("cannot be reached", exc), lost=True) from exc
        except httpx.TransportError as exc:
            raise WireError("http", self._said("the exchange broke", exc), lost=True) from exc

    def _said(self, what: str, exc: Exception) -> str:
        return self._bearer.redact(f"{what}: {type(exc).__name__}: {exc}")[:400]

    async def _exchange(self, method: str, path: str, body: Mapping[str, Any] | None) -> Response:
        client = httpx.AsyncClient(
            verify=self._ssl,
            trust_env=self._trust_env,
            timeout=None,  # the limit is on the whole, in `exchange`
            follow_redirects=False,
            auth=self._bearer,
            limits=httpx.Limits(max_keepalive_connections=0),
            headers={
                "Accept-Encoding": "identity",
                "Connection": "close",
                "User-Agent": "prereg-judge",
            },
        )
        async with (
            client,
            client.stream(method, self._base_url + path, json=body) as response,
        ):
            raw = bytearray()
            async for chunk in response.aiter_raw():
                raw += chunk
                if len(raw) > MOST_BYTES:
                    break
            return Response(
                response.status_code,
                response.headers.get("server"),
                Body(self._bearer.redact_bytes(bytes(raw[:MOST_BYTES])), self._bearer.redact),
                len(raw) > MOST_BYTES,
            )
