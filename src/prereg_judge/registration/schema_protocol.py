"""The part of a registration that says how calls are made: passes, decoding, limits, arms.

The shape only. Nothing that can change a number has a default.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, WithJsonSchema, model_validator

from prereg_judge.registration.schema_claims import ListOf, Strict, Text, wrong
from prereg_judge.words import Order

_MAX_SEED = 2**53 - 1


def _orders(value: Any) -> Any:
    remedy = "write `orders: [ab]`, or `[ab, ba]` for pairs"
    if not isinstance(value, list | tuple) or not value:
        raise wrong("must be a list of orders", remedy)
    if any(order not in ("ab", "ba") for order in value):
        raise wrong("is not a list of known orders", remedy)
    if len(set(value)) < len(value):
        raise wrong("names an order twice", remedy)
    if tuple(value) == ("ba", "ab"):  # results would not depend on it; plans and locks would
        raise wrong("the orders stand the other way round", "write `orders: [ab, ba]`")
    return tuple(value)


class _Draws(Strict):
    temperature: Annotated[float, Field(gt=0, description="Temperature, above 0.")]
    top_k: Annotated[int, Field(ge=0, description="Keep the k likeliest tokens; 0 = off.")]
    top_p: Annotated[
        float, Field(gt=0, le=1, description="Keep the likeliest tokens up to this mass; 1 = off.")
    ]
    min_p: Annotated[
        float,
        Field(ge=0, lt=1, description="Drop tokens below this share of the likeliest; 0 = off."),
    ]


class Sampled(_Draws):
    """Draws with fresh entropy for every attempt; the drawn seed is recorded."""

    mode: Annotated[Literal["sampled"], Field(description="Fresh entropy for every attempt.")]


class Seeded(_Draws):
    """Draws from the registered seed for every attempt."""

    mode: Annotated[Literal["seeded"], Field(description="One seed for every attempt.")]
    seed: Annotated[int, Field(ge=0, le=_MAX_SEED, description="The seed, 0 to 2**53 - 1.")]


class Greedy(Strict):
    """Takes the likeliest token each time; draws nothing."""

    mode: Annotated[Literal["greedy"], Field(description="The likeliest token each time.")]


Decoding = Annotated[Sampled | Seeded | Greedy, Field(discriminator="mode")]


class Hang(Strict):
    """When a call counts as hung, and how often an infrastructure failure is tried again."""

    call_timeout_s: Annotated[
        float,
        Field(ge=0.001, description="Seconds after which a call counts as hung, from 0.001."),
    ]
    retries: Annotated[
        int, Field(ge=0, le=100, description="How many times a failed call is made again: 0..100.")
    ]
    heartbeat_s: Annotated[
        float | None,
        Field(gt=0, description="Seconds without a sign of life after which a call is hung."),
    ] = None

    @model_validator(mode="after")
    def _shorter(self) -> Self:
        if self.heartbeat_s is not None and self.heartbeat_s >= self.call_timeout_s:
            raise wrong("heartbeat_s is not below call_timeout_s", "make heartbeat_s smaller")
        return self


class Thinking(Strict):
    """Free text before the reply, which the grammar does not bind."""

    start: Annotated[str, Field(description="What opens it; empty = the prompt has opened it.")]
    end: Annotated[Text, Field(description="What ends it, as in </think>.")]
    max_tokens: Annotated[int, Field(ge=1, description="Its own cap, in tokens.")]


ReadPath = Annotated[
    Literal["generate", "choice"],
    Field(
        description="How the verdict is read: `generate` = a grammar masks every token; `choice` "
        "= the closed verdicts are scored and one is drawn."
    ),
]
Prefix = Annotated[
    Literal["shared", "whole"],
    Field(description="`shared` = a common beginning is read once; `whole` = every time."),
]
Parallel = Annotated[
    int,
    Field(ge=1, le=256, description="Calls at once; 1 = the strict wire. At each server."),
]


class Arm(Strict):
    """One of two engine settings that are compared; what is left out is as the protocol says."""

    path: Annotated[ReadPath | None, Field(description="How the verdict is read.")] = None
    prefix: Annotated[Prefix | None, Field(description="Whether beginnings are shared.")] = None
    parallel: Annotated[Parallel | None, Field(description="Calls at once.")] = None
    n_gpu_layers: Annotated[
        int | None,
        Field(ge=-1, le=100_000, description="Layers put on the GPU; -1 = all, 0 = none."),
    ] = None
    n_threads: Annotated[int | None, Field(ge=1, le=1024, description="CPU threads.")] = None
    n_batch: Annotated[
        int | None,
        Field(ge=1, le=65_536, description="Most tokens decoded in one call of the library."),
    ] = None


class Protocol(Strict):
    """How every item is put to the judge."""

    passes: Annotated[
        int, Field(ge=1, le=10_000, description="How many times the whole plan is run: 1..10000.")
    ]
    orders: Annotated[
        tuple[Order, ...],
        BeforeValidator(_orders),
        WithJsonSchema({"enum": [["ab"], ["ba"], ["ab", "ba"]]}),
        Field(
            description="Orders of presentation, next to each other in a pass; `ba` shows the "
            "second answer of a pair first and needs a judge of pairs."
        ),
    ]
    path: ReadPath
    prefix: Prefix
    decoding: Annotated[Decoding, Field(description="How tokens are chosen.")]
    max_tokens: Annotated[int, Field(ge=1, description="Longest reply in tokens.")]
    parallel: Parallel
    hang: Annotated[Hang, Field(description="What is done about calls that hang.")]
    thinking: Annotated[
        Thinking | None,
        Field(description="Thinking before the reply, for `generate`; left out = none."),
    ] = None
    arms: Annotated[
        tuple[Arm, ...] | None,
        ListOf,
        Field(description="For path-fidelity: what is set otherwise in each pass."),
    ] = None

    @model_validator(mode="after")
    def _path_fits(self) -> Self:
        paths = {self.path, *(arm.path for arm in self.arms or () if arm.path is not None)}
        if self.thinking is not None and "choice" in paths:
            raise wrong(
                "`choice` writes nothing before the verdict", "write `path: generate`", at=("path",)
            )
        return self


class Executor(Strict):
    """Who makes the calls; changes no setting of a call."""

    kind: Annotated[
        Literal["local", "ray"],
        Field(description="`local` = processes on this machine; `ray` = actors of a Ray cluster."),
    ]
    workers: Annotated[int, Field(ge=1, le=1024, description="How many hold the model at once.")]
    devices: Annotated[
        tuple[Text, ...] | None,
        ListOf,
        Field(description="For `local`: CUDA_VISIBLE_DEVICES of each worker, in turn."),
    ] = None
    gpus_per_worker: Annotated[
        float | None, Field(ge=0, description="For `ray`: GPUs that an actor asks for.")
    ] = None
    cpus_per_worker: Annotated[
        float | None, Field(gt=0, description="For `ray`: CPUs that an actor asks for.")
    ] = None

    @model_validator(mode="after")
    def _kind_fits(self) -> Self:
        if self.kind == "local" and (self.gpus_per_worker, self.cpus_per_worker) != (None, None):
            raise wrong("gpus_per_worker and cpus_per_worker are for Ray", "write `kind: ray`")
        if self.kind == "ray" and self.devices is not None:
            raise wrong("Ray places its actors itself", "leave `devices` out")
        return self


# Where nothing is called: one pass of no trials.
NO_PROTOCOL = Protocol.model_construct(
    passes=1,
    orders=("ab",),
    path="generate",
    prefix="whole",
    decoding=Greedy(mode="greedy"),
    max_tokens=1,
    parallel=1,
    hang=Hang(call_timeout_s=1.0, retries=0),
    thinking=None,
    arms=None,
)
