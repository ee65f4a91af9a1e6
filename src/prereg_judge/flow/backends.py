"""The engine that a registration asks for: one process, several, a Ray cluster, or servers."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import cycle, islice
from pathlib import Path
from typing import Any

from prereg_judge.engine.client import WorkerClient
from prereg_judge.engine.fanout import FanOut
from prereg_judge.engine.protocol import Backend
from prereg_judge.engine.supervisor import Client, Limits, LlamaBackend
from prereg_judge.flow.prepare import Inputs
from prereg_judge.flow.prompts import ModelInputs
from prereg_judge.flow.settings import (
    STRETCH_GROUPS,
    EngineSettings,
    model_spec,
    session_settings,
)
from prereg_judge.registration.schema import Registration
from prereg_judge.registration.schema_model import LocalModel, ServedModel
from prereg_judge.registration.schema_protocol import Executor

Announce = Callable[[str], None]
MakeBackend = Callable[[Inputs, ModelInputs, EngineSettings, Path, Announce], Backend]

LOAD_TIMEOUT_S = 600.0  # bounds waiting; changes no number


def make_backend(
    inputs: Inputs, model: ModelInputs, settings: EngineSettings, log: Path, announce: Announce
) -> Backend:
    """The engine for the passes that have these settings.

    Raises
    ------
    EngineError
        If what it needs is not there: Ray, an API key.
    """
    registered = inputs.model
    if isinstance(registered.model, ServedModel):
        return served_backend(inputs, registered.model, settings, announce)
    executor = registered.executor
    if executor is None:
        return _lane(inputs, registered.model, model, settings, log, announce, connect=None)
    lanes = [
        _lane(
            inputs,
            registered.model,
            model,
            settings,
            log.with_name(f"{log.stem}-{number}{log.suffix}"),
            announce,
            connect=connect,
        )
        for number, connect in enumerate(_connections(executor, model, log), start=1)
    ]
    return FanOut(lanes, stretch=_stretch(inputs, settings, executor.workers), announce=announce)


def _stretch(inputs: Inputs, settings: EngineSettings, workers: int) -> int:
    """Calls handed to a worker at once: whole groups, and several turns for every worker."""
    groups = -(-inputs.plan.n_in_pass // settings.parallel)
    return settings.parallel * max(1, min(STRETCH_GROUPS, groups // (4 * workers)))


def limits_of(registered: Registration) -> Limits:
    """The registered time limits."""
    hang = registered.protocol.hang
    load = registered.model.load_timeout_s or LOAD_TIMEOUT_S
    return Limits(hang.call_timeout_s, hang.heartbeat_s, load)


def _lane(
    inputs: Inputs,
    local: LocalModel,
    model: ModelInputs,
    settings: EngineSettings,
    log: Path,
    announce: Announce,
    *,
    connect: Callable[[], Client] | None,
) -> LlamaBackend:
    return LlamaBackend(
        model_spec(local, model.files[0], settings),
        session_settings(inputs.model, inputs.judge, settings),
        limits=limits_of(inputs.model),
        log=log,
        announce=announce,
        connect=connect,
    )


def _connections(executor: Executor, model: ModelInputs, log: Path) -> list[Callable[[], Client]]:
    """For each worker, how it is started."""
    if executor.kind == "ray":
        from prereg_judge.engine.ray_client import RayClient

        gpus, cpus = executor.gpus_per_worker or 0.0, executor.cpus_per_worker or 1.0
        start = partial(RayClient, n_gpus=gpus, n_cpus=cpus, sha256=model.hashes)
        return [start] * executor.workers
    logs = [log.with_name(f"{log.stem}-{n}{log.suffix}") for n in range(1, executor.workers + 1)]
    devices = list(islice(cycle(executor.devices or ("",)), executor.workers))
    return [
        partial(
            WorkerClient, log=own, environment={"CUDA_VISIBLE_DEVICES": device} if device else {}
        )
        for own, device in zip(logs, devices, strict=True)
    ]


def served_backend(
    inputs: Inputs,
    served: ServedModel,
    settings: EngineSettings,
    announce: Announce,
    *,
    ready_timeout_s: float | None = None,
) -> Backend:
    """The engine that asks servers; `ready_timeout_s` is how long they may take, or the registered.

    Raises
    ------
    EngineError
        If the API key that is registered is not set.
    """
    from prereg_judge.engine.openai import OpenAIBackend, ServerSpec

    limits = limits_of(inputs.model)
    spec = ServerSpec(
        base_urls=served.base_urls,
        model=served.model,
        api_key_env=served.api_key_env,
        concurrency=settings.parallel,
        cache_prompt="strict" if settings.prefix == "whole" else "server",
        call_timeout_s=limits.call_timeout_s,
        ready_timeout_s=ready_timeout_s or limits.load_timeout_s,
        template_args=served.template_args or {},
    )
    return OpenAIBackend(
        spec, session_settings(inputs.model, inputs.judge, settings), announce=announce
    )


def described(backend: Backend) -> dict[str, Any] | None:
    """What servers say of themselves; None for an engine that holds its own model."""
    describe = getattr(backend, "describe", None)
    return None if describe is None else dict(describe())
