"""The small real model, ready for tests: sessions in this process, damaged copies of its file."""

from __future__ import annotations

import functools
import json
import struct
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prereg_judge.engine.llama import Model
from prereg_judge.engine.protocol import (
    Call,
    Constraint,
    ModelSpec,
    Reply,
    SessionSettings,
    Thinking,
)
from prereg_judge.engine.session import Session
from prereg_judge.shaping import Decoding
from support import model_path

PATH = model_path()
FREE = Decoding("seeded")
GREEDY = Decoding("greedy")
BEGINNING = (
    "<|im_start|>system\nYou label texts. Say whether the text is about an animal, and reply "
    "with one of the two words YES and NO only.<|im_end|>\n<|im_start|>user\n"
)


def closed(**properties: Any) -> Constraint:
    """A closed object with these properties, all required, in compact JSON."""
    schema = {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }
    return Constraint(schema, ",", ":")


VERDICT = {"type": "string", "enum": ["YES", "NO"]}
YES_NO = closed(verdict=VERDICT)
BARE = Constraint(VERDICT, ",", ":")  # only a quote is forced before the verdict: quick


def spec(path: Path = PATH, *, n_ctx: int = 512, n_batch: int = 512) -> ModelSpec:
    """How the small model is loaded here: with one thread, for threads that wait for each other
    become very slow where tests share the machine.
    """
    return ModelSpec(str(path), n_ctx=n_ctx, n_gpu_layers=0, n_threads=1, n_batch=n_batch)


@functools.cache
def model(n_batch: int = 512) -> Model:
    """The model in this process, loaded once."""
    return Model(spec(n_batch=n_batch), beat=lambda: None)


@functools.cache
def vocabulary() -> Model:
    """The model's vocabulary and metadata in this process, without weights."""
    return Model(ModelSpec(str(PATH), n_ctx=0, n_gpu_layers=0, weights=False), beat=lambda: None)


def session(
    constraint: Constraint = YES_NO,
    *,
    decoding: Decoding = FREE,
    max_tokens: int = 16,
    n_batch: int = 512,
    parallel: int = 1,
    labels: Sequence[str] = (),
    thinking: Thinking | None = None,
) -> Session:
    """A fresh session, whose context is freed when nothing refers to it any more.

    With `labels`, it chooses among them (`constraint` allows the same); else it generates.
    """
    settings = SessionSettings(
        constraint,
        decoding,
        max_tokens,
        "choice" if labels else "generate",
        parallel,
        thinking,
        {label: whole_reply(constraint, label) for label in labels},
    )
    one = Session(model(n_batch), settings)
    weakref.finalize(one, one.sequences.close).atexit = False
    return one


def whole_reply(constraint: Constraint, label: str) -> str:
    """The reply that says `label`, under a constraint that leaves nothing else open."""
    value = {"verdict": label} if "properties" in constraint.schema else label
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def among(*labels: str) -> Constraint:
    """A bare string out of these: only a quote is forced before it."""
    return Constraint({"type": "string", "enum": list(labels)}, ",", ":")


def answer(one: Session, call: Call) -> Reply:
    """The reply to one call that is made alone."""
    (reply,) = one.run([call])
    return reply


def call(text: str, *, seed: int | None = 1, cuts: tuple[int, ...] | None = None) -> Call:
    """A call about `text`, cut where the shared beginning ends unless told otherwise."""
    return Call(text, prompt(text), (shared(),) if cuts is None else cuts, seed)


def long_call(text: str, *, seed: int | None = 1, cuts: tuple[int, ...] | None = None) -> Call:
    """A call with a long shared beginning, cut where that ends unless told otherwise."""
    n = len(vocabulary().tokenize(BEGINNING + FILLER))
    return Call(text, prompt(FILLER + text), (n,) if cuts is None else cuts, seed)


def numbers(reply: Reply) -> tuple[Any, ...]:
    """What must be equal to the last bit when a trial is repeated."""
    return (
        reply.text,
        reply.tokens,
        reply.finish,
        reply.n_sampled,
        reply.allowed_mass,
        reply.thought,
        reply.nodes,
    )


def prompt(text: str) -> tuple[int, ...]:
    """Token ids of a prompt about `text`; all of them share a beginning."""
    rendered = f"{BEGINNING}{text}: YES or NO?<|im_end|>\n<|im_start|>assistant\n"
    return tuple(vocabulary().tokenize(rendered))


def shared() -> int:
    """Number of tokens that all prompts share."""
    return len(vocabulary().tokenize(BEGINNING))


# Beyond 256 tokens in memory, the steps in which a prompt is read move the last digits (seen on
# CPUs); shorter prompts could not show that a beginning was taken over wrongly.
FILLER = "Nothing but an animal counts: " + "not a table, not a river, " * 27


@dataclass(frozen=True)
class Tensor:
    """Where a tensor lies in a GGUF file: its first byte, its elements, its type (0 = f32)."""

    offset: int
    n_elements: int
    kind: int


_SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
_STRING, _ARRAY = 8, 9


class GgufReader:
    """Reads the head of a GGUF file, value by value."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def number(self, code: str) -> int:
        size = struct.calcsize(code)
        (value,) = struct.unpack_from("<" + code, self.data, self.at)
        self.at += size
        return int(value)

    def string(self) -> str:
        size = self.number("Q")
        self.at += size
        return self.data[self.at - size : self.at].decode()

    def value(self, kind: int) -> int | None:
        if kind == _STRING:
            self.string()
            return None
        if kind == _ARRAY:
            inner, n = self.number("I"), self.number("Q")
            for _ in range(n):
                self.value(inner)
            return None
        self.at += _SIZES[kind]
        return self.data[self.at - _SIZES[kind]]


def tensors(data: bytes) -> dict[str, Tensor]:
    """The tensors of a GGUF file (version 3, alignment 32), by name."""
    reader = GgufReader(data)
    assert reader.number("I") == int.from_bytes(b"GGUF", "little")
    assert reader.number("I") == 3
    n_tensors, n_keys = reader.number("Q"), reader.number("Q")
    for _ in range(n_keys):
        key = reader.string()
        value = reader.value(reader.number("I"))
        assert key != "general.alignment" or value == 32
    found = {}
    for _ in range(n_tensors):
        name, n = reader.string(), 1
        for _ in range(reader.number("I")):
            n *= reader.number("Q")
        kind = reader.number("I")
        found[name] = (reader.number("Q"), n, kind)
    base = -(-reader.at // 32) * 32
    return {name: Tensor(base + at, n, kind) for name, (at, n, kind) in found.items()}


def damaged(path: Path, tensor: str, filling: bytes) -> Path:
    """Write a copy of the model in which one tensor's first bytes are `filling`."""
    data = bytearray(PATH.read_bytes())
    at = tensors(bytes(data[: 1 << 24]))[tensor].offset
    data[at : at + len(filling)] = filling
    path.write_bytes(data)
    return path
