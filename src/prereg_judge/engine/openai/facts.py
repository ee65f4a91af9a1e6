"""What an OpenAI-compatible server says of itself, reduced to what a record should hold.

No secrets, and of paths the last part only. Whatever a server does not say is None.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping
from typing import Any

from prereg_judge.engine.openai.http import Http, Response
from prereg_judge.engine.openai.wire import WireError

_PATH = re.compile(r"/|~|[A-Za-z]:[/\\]|file:", re.IGNORECASE)  # how a file's path begins
# A server that comes back with another of these is another judge.
_FIXED = ("version", "build_info", "model_file", "n_ctx", "chat_template_sha256", "answered_as")
# Two servers that differ in one of these do not share a model or a prompt.
_SHARED = ("n_params", "chat_template_sha256")


async def gather_facts(
    http: Http, model: str, *, limit_s: float, redact: Callable[[str], str]
) -> dict[str, Any]:
    """Ask a server for what it says of itself; that it knows no such address is no error.

    Returns
    -------
    dict
        JSON values: the model's entry in `/v1/models` and its `n_params`; llama-server's
        `build_info`, `model_file`, `n_ctx`, `total_slots`, `chat_template_sha256` and
        `sampling_defaults`; the `version` of vLLM or Ollama; the `Server` header.

    Raises
    ------
    WireError
        If the server cannot be reached.
    """

    async def get(path: str) -> Mapping[str, Any]:
        return _json_object(await http.exchange("GET", path, limit_s=limit_s))

    listing = await http.exchange("GET", "/v1/models", limit_s=limit_s)
    entry = dict(find_model(offered_models(listing), model) or {})
    props = await get("/props")
    generation = _object(props.get("default_generation_settings"))
    template = props.get("chat_template")
    version = await get("/version") or await get("/api/version")
    entry.pop("created", None)
    facts = {
        "server_header": listing.server,
        "model_entry": entry or None,
        "n_params": _object(entry.get("meta")).get("n_params"),
        "version": version.get("version"),
        "build_info": props.get("build_info"),
        "model_file": props.get("model_path"),
        "n_ctx": generation.get("n_ctx", entry.get("max_model_len")),
        "total_slots": props.get("total_slots"),
        "chat_template_sha256": (
            hashlib.sha256(template.encode("utf-8", "surrogatepass")).hexdigest()
            if isinstance(template, str)
            else None
        ),
        "sampling_defaults": generation.get("params"),
        # By name: these two take top_k, min_p and chat_template_kwargs, others are not known to.
        "takes_more_than_openai": "build_info" in props or entry.get("owned_by") == "vllm",
    }
    return {name: _tidy(value, redact) for name, value in facts.items()}


def offered_models(response: Response) -> dict[str, Mapping[str, Any]]:
    """The entries of `/v1/models` by name, aliases included; empty where it is not a list."""
    data = _json_object(response).get("data")
    found: dict[str, Mapping[str, Any]] = {}
    for entry in data if isinstance(data, list) else []:
        aliases = _object(entry).get("aliases")
        for name in [_object(entry).get("id"), *(aliases if isinstance(aliases, list) else [])]:
            if isinstance(name, str):
                found[name] = entry
    return found


def find_model(offered: Mapping[str, Mapping[str, Any]], name: str) -> Mapping[str, Any] | None:
    """The entry of a model; Ollama's `:latest` goes without saying."""
    return offered.get(name, offered.get(f"{name}:latest"))


def changed(before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    """What differs of a server's nature, in words; empty where nothing does."""
    return _differences(before, after, _FIXED)


def unlike(one: Mapping[str, Any], other: Mapping[str, Any]) -> str:
    """What tells the judges of two servers apart, in words; empty where nothing does.

    A name or a file is no such thing: the same model may go by two names.
    """
    known = [f for f in _SHARED if one.get(f) is not None and other.get(f) is not None]
    return _differences(one, other, tuple(known))


def _differences(one: Mapping[str, Any], other: Mapping[str, Any], names: tuple[str, ...]) -> str:
    parts = [
        f"{name} was {one.get(name)!r} and is {other.get(name)!r}"
        for name in names
        if one.get(name) != other.get(name)
    ]
    return "; ".join(parts)


def _json_object(response: Response) -> Mapping[str, Any]:
    try:
        return _object(response.body.json() if response.status == 200 else None)
    except WireError:
        return {}


def _object(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _tidy(value: Any, redact: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        text = redact(value.encode("utf-8", "replace").decode())
        return re.split(r"[/\\]", text)[-1] if _PATH.match(text) else text
    if isinstance(value, dict):
        return {str(_tidy(k, redact)): _tidy(v, redact) for k, v in value.items()}
    if isinstance(value, list):
        return [_tidy(v, redact) for v in value]
    return value
