"""Whether servers are still what they said they were when a run began."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from prereg_judge.errors import EngineError, Problem

# What makes a server that comes back another judge.
_FIXED = (
    *("version", "build_info", "model_file", "n_ctx", "n_params", "chat_template_sha256"),
    *("answered_as", "sampling_defaults"),
)


def server_changes(
    before: Mapping[str, Any] | None, now: Mapping[str, Any], *, file: str | None = None
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
            problems.append(Problem("a server that the run did not begin with", file, found=url))
            continue
        for name in _FIXED:
            if was.get(name) != server.get(name):
                what = f"{url} is not what it was when the run began: {name}"
                found = f"{was.get(name)!r} then, {server.get(name)!r} now"
                remedy = "start it as it was, or give the run up and begin another"
                problems.append(Problem(what, file, found=found, remedy=remedy))
    return problems


def refuse_other_servers(before: Mapping[str, Any] | None, now: Mapping[str, Any]) -> None:
    """Refuse servers that are not what they were when the run began.

    Raises
    ------
    EngineError
        Naming what differs.
    """
    problems = server_changes(before, now)
    if problems:
        raise EngineError(*problems)
