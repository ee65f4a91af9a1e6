"""Value types between the engine and those who use it, and the protocol every backend meets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

Finish = Literal["complete", "cap"]
FailureReason = Literal["hang", "crash"]


@dataclass(frozen=True)
class ModelSpec:
    """Which model to load and how.

    Attributes
    ----------
    path
        The GGUF file (the first shard of a split model).
    n_ctx
        Context length in tokens.
    n_gpu_layers
        Layers to place on a GPU; -1 = all, 0 = none.
    n_threads
        CPU threads; None = one a physical core that this process may use.
    n_batch
        Most tokens in one decode call.
    weights
        False = read the metadata and the vocabulary only.
    """

    path: str
    n_ctx: int
    n_gpu_layers: int
    n_threads: int | None = None
    n_batch: int = 512
    weights: bool = True


@dataclass(frozen=True)
class Decoding:
    """How a token is drawn from the logits; see `sampling` for the order of the steps."""

    mode: Literal["sampled", "seeded", "greedy"]
    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0


@dataclass(frozen=True)
class Constraint:
    """What a reply must look like: a JSON schema and the separators of its serialisation."""

    schema: Mapping[str, Any]
    item_separator: str
    key_separator: str


@dataclass(frozen=True)
class Call:
    """One call to be made.

    Attributes
    ----------
    key
        The trial's name; opaque here.
    tokens
        The prompt's token ids.
    cuts
        Positions (0 < cut < len(tokens), ascending) at which the prompt is decoded in separate
        steps because the part before is shared with other prompts of the pass. They are given
        by the plan, so a trial's numbers do not depend on what was called before it.
    seed
        Seed of the draws; None for greedy decoding.
    """

    key: str
    tokens: tuple[int, ...]
    cuts: tuple[int, ...]
    seed: int | None


@dataclass(frozen=True)
class Reply:
    """What the model wrote.

    Attributes
    ----------
    text
        The reply as text.
    tokens
        Its token ids, forced ones included.
    finish
        `complete`, or `cap` where the token cap came first.
    n_prompt, n_reused, n_forced, n_sampled
        Prompt tokens; those of them already in memory; reply tokens that the schema left no
        choice about; reply tokens that were drawn.
    allowed_mass
        Probability (temperature 1) that the model gave to the tokens allowed at the first
        drawn position, before masking, in [0, 1]; None where nothing was drawn. Near zero, the
        judge was forced against its will.
    seconds
        Time in the worker.
    """

    text: str
    tokens: tuple[int, ...]
    finish: Finish
    n_prompt: int
    n_reused: int
    n_forced: int
    n_sampled: int
    allowed_mass: float | None
    seconds: float


@dataclass(frozen=True)
class Failure:
    """A call that brought no reply: the reason, what is known of it, and how long it took."""

    reason: FailureReason
    detail: str
    seconds: float


@dataclass(frozen=True)
class ModelFacts:
    """What a GGUF file says of itself, read by llama.cpp.

    `control_texts` are the texts of control tokens: an item that contains one could speak in
    the template's voice, so they are refused in items.
    """

    path: str
    architecture: str
    description: str
    n_params: int
    n_bytes: int
    n_ctx_train: int
    n_vocab: int
    chat_template: str | None
    bos: str
    eos: str
    add_bos: bool
    bos_id: int
    sliding_window: int
    recurrent: bool
    control_texts: tuple[str, ...]
    metadata: Mapping[str, str] = field(default_factory=dict)

    @property
    def quantisation(self) -> str:
        """The quantisation by its usual name, from llama.cpp's description of the file."""
        return self.description.split()[-1] if self.description else "unknown"


class Backend(Protocol):
    """Answers calls one after the other, whatever happens to the process that makes them."""

    def start_pass(self) -> None:
        """Begin a pass from a cleared memory."""

    def attempt(self, call: Call) -> Reply | Failure:
        """Make one call once; a hang or a crash is a `Failure`, not an exception."""

    def close(self) -> None:
        """End the processes behind it."""
