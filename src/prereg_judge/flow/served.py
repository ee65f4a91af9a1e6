"""What servers say of themselves, and whether they still are what they said they were."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from prereg_judge.errors import EngineError, Problem
from prereg_judge.flow.backends import described, limits_of, served_backend
from prereg_judge.flow.prepare import Inputs
from prereg_judge.flow.settings import engine_settings
from prereg_judge.registration.schema_model import ServedModel

ASK_TIMEOUT_S = 10.0  # bounds waiting at a lock, which holds without an answer too

# What makes a server that comes back another judge.
_FIXED = (
    *("version", "build_info", "model_file", "n_ctx", "n_params", "chat_template_sha256"),
    *("answered_as", "sampling_defaults"),
)


def ask_servers(inputs: Inputs) -> dict[str, Any] | None:
    """What the registered servers say of themselves now.

    None for a model in files, and where a server does not answer: a lock then says less.
    """
    served = inputs.model.model
    if not isinstance(served, ServedModel):
        return None
    limit = min(ASK_TIMEOUT_S, limits_of(inputs.model).load_timeout_s)
    settings = engine_settings(inputs.model, 1)
    try:
        backend = served_backend(inputs, served, settings, lambda _: None, ready_timeout_s=limit)
    except EngineError:
        return None
    try:
        return described(backend)
    except EngineError:
        return None
    finally:
        backend.close()


def server_changes(
    before: Mapping[str, Any] | None,
    now: Mapping[str, Any],
    *,
    since: str = "run began",
    file: str | None = None,
) -> list[Problem]:
    """What servers say differently than at first; empty where there is no first, or nothing.

    Both are as `OpenAIBackend.describe` gives them.
    """
    if before is None:
        return []
    then = {s.get("base_url"): s for s in before["servers"]}
    problems = []
    for server in now["servers"]:
        url = server.get("base_url")
        was = then.get(url)
        if was is None:
            what = f"a server that was not there when the {since}"
            problems.append(Problem(what, file, found=url))
            continue
        for name in _FIXED:
            if was.get(name) != server.get(name):
                what = f"{url} is not what it was when the {since}: {name}"
                found = f"{was.get(name)!r} then, {server.get(name)!r} now"
                remedy = "start it as it was, or give the run up and begin another"
                problems.append(Problem(what, file, found=found, remedy=remedy))
    return problems


def refuse_other_servers(
    before: Mapping[str, Any] | None, now: Mapping[str, Any], *, since: str = "run began"
) -> None:
    """Refuse servers that are not what they were before; `since` says when that was.

    Raises
    ------
    EngineError
        Naming what differs.
    """
    problems = server_changes(before, now, since=since)
    if problems:
        raise EngineError(*problems)
