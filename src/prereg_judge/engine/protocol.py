"""Value types between the engine and those who use it, and the protocol every backend meets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from prereg_judge.choices import Node
from prereg_judge.shaping import Decoding

# `cap`: the token cap came first; `runaway`: it came while the reply repeated itself;
# `thinking_cap`: the thinking before the reply reached its own cap; `no_answer`: the model ended
# its turn while thinking.
Finish = Literal["complete", "cap", "runaway", "thinking_cap", "no_answer"]
FailureReason = Literal["hang", "crash", "http", "unreadable"]


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
class Constraint:
    """What a reply must look like: a JSON schema and the separators of its serialisation."""

    schema: Mapping[str, Any]
    item_separator: str
    key_separator: str


@dataclass(frozen=True)
class Thinking:
    """Free text before the reply: how it starts and ends, and its own cap in tokens."""

    start: str
    end: str
    max_tokens: int


@dataclass(frozen=True)
class SessionSettings:
    """How a session answers.

    Attributes
    ----------
    path
        `generate` writes the reply token by token; `choice` scores the closed alternatives.
    parallel
        Sequences, and so calls in a group.
    texts
        For `choice`: each verdict's whole reply.
    """

    constraint: Constraint
    decoding: Decoding
    max_tokens: int
    path: Literal["generate", "choice"] = "generate"
    parallel: int = 1
    thinking: Thinking | None = None
    texts: Mapping[str, str] = field(default_factory=dict)


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
    group
        Calls in succession with the same number are answered together, as the plan says; None =
        alone.
    messages
        The chat messages, for servers, which render their own template.
    """

    key: str
    tokens: tuple[int, ...]
    cuts: tuple[int, ...]
    seed: int | None
    group: int | None = None
    messages: tuple[Mapping[str, str], ...] = ()


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
        `complete`, or why it is not.
    n_prompt, n_reused, n_forced, n_sampled
        Prompt tokens; those of them already in memory; reply tokens that the schema left no
        choice about; reply tokens that were drawn.
    allowed_mass
        Probability (temperature 1) that the model gave to the tokens allowed at the first
        drawn position, before masking, in [0, 1]; None where nothing was drawn. Near zero, the
        judge was forced against its will.
    seconds
        Time in the worker.
    thought, n_thought
        Thinking before the reply, where the session has any, and its tokens.
    probabilities
        For `choice`: the probability with which each verdict was drawn; sums to 1.
    nodes
        For `choice`: what was compared, first position first.
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
    thought: str | None = None
    n_thought: int = 0
    probabilities: Mapping[str, float] | None = None
    nodes: tuple[Node, ...] = ()


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


@dataclass(frozen=True)
class Answer:
    """What came of a call, and the keys of the calls that were answered together with it."""

    call: Call
    result: Reply | Failure
    together: tuple[str, ...]


@dataclass(frozen=True)
class GroupLost:
    """A group that hung or crashed as a whole; its calls are made again one by one.

    None of them is charged with it: which was at fault shows when they are made alone, if then.
    """

    keys: tuple[str, ...]
    reason: FailureReason
    detail: str
    seconds: float


class Backend(Protocol):
    """Answers calls as they come, in the order and concurrency that suit it."""

    def start_pass(self) -> None:
        """Begin a pass from a cleared memory."""

    def stream(self, calls: Iterator[Call]) -> Iterator[Answer | GroupLost]:
        """Take calls as capacity allows and give back each with what came of it.

        Every call taken is given back exactly once. `calls` is asked again after each answer
        even if it had ended, so that it can bring a retry of what failed. Closing the iterator
        abandons what is in flight. A hang or a crash is a `Failure`, not an exception.
        """

    def close(self) -> None:
        """End the processes and connections behind it."""
