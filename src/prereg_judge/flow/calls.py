"""Between registration and engine: the seed of a call, the record of an attempt."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import replace

from prereg_judge.engine.protocol import Call, Failure, Reply
from prereg_judge.judge import Judge, Parsed, read_reply
from prereg_judge.plan import Trial
from prereg_judge.record.attempt import AttemptLine
from prereg_judge.registration.schema import Registration
from prereg_judge.registration.schema_protocol import Seeded

_SEED_BITS = 53  # the largest integers that JSON numbers hold exactly


def seed_for(registered: Registration) -> int | None:
    """The seed of the next attempt: fresh entropy, the registered seed, or none (greedy)."""
    decoding = registered.protocol.decoding
    if decoding.mode == "greedy":
        return None
    return decoding.seed if isinstance(decoding, Seeded) else secrets.randbits(_SEED_BITS)


def attempt_line(
    trial: Trial,
    number: int,
    call: Call,
    result: Reply | Failure,
    *,
    prompt: str,
    judge: Judge,
    batch: tuple[int, ...],
) -> AttemptLine:
    """The record of one attempt: what came, and the verdict or the reason for having none.

    `batch` are the plan's places of the calls that were answered together.
    """
    if isinstance(result, Failure):
        read = Parsed(None, result.reason, result.detail)
    else:
        read = read_reply(judge, text=result.text, finish=result.finish)
    line = AttemptLine(
        index=trial.index,
        trial=trial.key,
        attempt=number,
        prompt=prompt,
        seed=call.seed,
        verdict=read.verdict,
        unscored=read.unscored,
        detail=read.detail,
        text=None,
        seconds=round(result.seconds, 6),
        at="",  # the writer dates it
        batch=batch,
    )
    if isinstance(result, Failure):
        return line
    return replace(
        line,
        text=result.text,
        tokens=result.tokens,
        finish=result.finish,
        n_prompt=result.n_prompt,
        n_reused=result.n_reused,
        n_forced=result.n_forced,
        n_sampled=result.n_sampled,
        allowed_mass=result.allowed_mass,
        thought=result.thought,
        n_thought=None if result.thought is None else result.n_thought,
        probabilities=_pairs(result.probabilities),
        nodes=result.nodes or None,
    )


def _pairs(probabilities: Mapping[str, float] | None) -> tuple[tuple[str, float], ...] | None:
    """In the order in which JSON objects are written, so that reading gives the same."""
    return None if probabilities is None else tuple(sorted(probabilities.items()))
