"""Values of the protocol to and from the JSON that parent and worker exchange."""

from __future__ import annotations

from typing import Any

from prereg_judge.choices import node_of
from prereg_judge.engine.protocol import Call, Constraint, Reply, SessionSettings, Thinking
from prereg_judge.shaping import Decoding


def settings_from(values: dict[str, Any]) -> SessionSettings:
    """Session settings out of their `asdict`."""
    thinking = values["thinking"]
    return SessionSettings(
        **{
            **values,
            "constraint": Constraint(**values["constraint"]),
            "decoding": Decoding(**values["decoding"]),
            "thinking": Thinking(**thinking) if thinking else None,
        }
    )


def call_values(call: Call) -> dict[str, Any]:
    """What a worker needs of a call."""
    return {"key": call.key, "tokens": call.tokens, "cuts": call.cuts, "seed": call.seed}


def call_from(values: dict[str, Any]) -> Call:
    """A call out of `call_values`."""
    tokens, cuts = tuple(values["tokens"]), tuple(values["cuts"])
    return Call(values["key"], tokens, cuts, values["seed"])


def reply_from(values: dict[str, Any]) -> Reply:
    """A reply out of its `asdict`."""
    nodes = tuple(node_of(node) for node in values["nodes"])
    return Reply(**{**values, "tokens": tuple(values["tokens"]), "nodes": nodes})
