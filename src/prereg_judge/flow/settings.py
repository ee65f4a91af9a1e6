"""What the engine is told of a registration, pass by pass (pure).

One pass differs from another only in a study that compares two arms; everything else about a
call is the same throughout.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from prereg_judge.engine.protocol import Constraint, ModelSpec, SessionSettings, Thinking
from prereg_judge.judge import Judge
from prereg_judge.registration.schema import Registration
from prereg_judge.registration.schema_model import LocalModel, ServedModel
from prereg_judge.registration.schema_protocol import Seeded
from prereg_judge.shaping import Decoding

DEFAULT_BATCH = 512  # written into every lock and record as the resolved value


@dataclass(frozen=True)
class EngineSettings:
    """How the calls of a pass are made; the load settings are those of a local model.

    `n_threads` None = one a physical core that the process may use.
    """

    path: Literal["generate", "choice"]
    prefix: Literal["shared", "whole"]
    parallel: int
    n_gpu_layers: int
    n_threads: int | None
    n_batch: int

    @property
    def words(self) -> str:
        """How calls are made, for readers; how the model is loaded is left out."""
        return f"path {self.path}, prefix {self.prefix}, parallel {self.parallel}"

    def beside(self, other: EngineSettings) -> str:
        """`words`, and what of the loading is not as in `other`."""
        load = ("n_gpu_layers", "n_threads", "n_batch")
        differing = [n for n in load if getattr(self, n) != getattr(other, n)]
        more = [f"{n} {getattr(self, n) or 'as the machine has'}" for n in differing]
        return ", ".join([self.words, *more])


def engine_settings(registered: Registration, pass_no: int) -> EngineSettings:
    """The settings of a pass, counted from 1."""
    protocol, model = registered.protocol, registered.model
    local = model if isinstance(model, LocalModel) else None
    base = {
        "path": protocol.path,
        "prefix": protocol.prefix,
        "parallel": protocol.parallel,
        "n_gpu_layers": local.n_gpu_layers if local else 0,
        "n_threads": local.n_threads if local else None,
        "n_batch": (local.n_batch if local else None) or DEFAULT_BATCH,
    }
    arm = protocol.arms[pass_no - 1].model_dump(exclude_none=True) if protocol.arms else {}
    return EngineSettings(**{**base, **arm})


def arms_in_words(registered: Registration) -> tuple[str, ...]:
    """The two arms of a comparison for readers; empty where there is none."""
    if not registered.protocol.arms:
        return ()
    one, other = (engine_settings(registered, n) for n in (1, 2))
    return one.beside(other), other.beside(one)


def every_setting(registered: Registration) -> list[EngineSettings]:
    """The settings of all passes, each once, in the order in which they come."""
    passes = range(1, registered.protocol.passes + 1) if registered.protocol.arms else (1,)
    return list(dict.fromkeys(engine_settings(registered, n) for n in passes))


# Groups handed to a worker at once where there are several: neighbours share a beginning.
STRETCH_GROUPS = 8


def in_flight(registered: Registration) -> int:
    """Most calls that can be on their way at once, in any pass."""
    most = max(settings.parallel for settings in every_setting(registered))
    if isinstance(registered.model, ServedModel):
        return most * len(registered.model.base_urls)
    if registered.executor is None:
        return most
    # After a resume groups may be partial, so that a worker takes almost one group more.
    return most * (STRETCH_GROUPS + 2) * registered.executor.workers


def decoding_of(registered: Registration) -> Decoding:
    """The engine's decoding settings."""
    return Decoding(**registered.protocol.decoding.model_dump(exclude={"seed"}))


def registered_seed(registered: Registration) -> int | None:
    """The seed of every attempt; None where each draws its own, or none is drawn."""
    decoding = registered.protocol.decoding
    return decoding.seed if isinstance(decoding, Seeded) else None


def constraint_of(judge: Judge) -> Constraint:
    """What every reply of a judge must look like."""
    item, key = judge.separators
    return Constraint(judge.spec.output, item, key)


def session_settings(
    registered: Registration, judge: Judge, settings: EngineSettings
) -> SessionSettings:
    """What a session of the engine is told."""
    thinking = registered.protocol.thinking
    replies = judge.closed_replies()
    return SessionSettings(
        constraint=constraint_of(judge),
        decoding=decoding_of(registered),
        max_tokens=registered.protocol.max_tokens,
        path=settings.path,
        parallel=settings.parallel,
        thinking=Thinking(thinking.start, thinking.end, thinking.max_tokens) if thinking else None,
        texts=replies if settings.path == "choice" and replies is not None else {},
    )


def model_spec(model: LocalModel, path: Path, settings: EngineSettings) -> ModelSpec:
    """How the engine is to load a local model."""
    return ModelSpec(
        path=str(path),
        n_ctx=model.n_ctx,
        n_gpu_layers=settings.n_gpu_layers,
        n_threads=settings.n_threads,
        n_batch=settings.n_batch,
    )
