"""Models with random weights and the small model's vocabulary, for kinds that it is not: a
recurrent one, and one with a sliding window. What they write means nothing.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from engine.small_model import PATH, GgufReader

N_EMBD, N_VOCAB = 32, 49_152
Shapes = Mapping[str, tuple[int, ...]]
Values = Mapping[str, int | float | str]


def mamba(path: Path) -> Path:
    """A recurrent model: two layers of a state-space model."""
    inner, state, rank = 2 * N_EMBD, 4, 2
    values = {
        "ssm.conv_kernel": 4,
        "ssm.inner_size": inner,
        "ssm.state_size": state,
        "ssm.time_step_rank": rank,
        "feed_forward_length": 0,
        "attention.head_count": 0,
    }
    shapes: dict[str, tuple[int, ...]] = {}
    for i in range(2):
        shapes |= {
            f"blk.{i}.attn_norm.weight": (N_EMBD,),
            f"blk.{i}.ssm_in.weight": (N_EMBD, 2 * inner),
            f"blk.{i}.ssm_conv1d.weight": (4, inner),
            f"blk.{i}.ssm_conv1d.bias": (inner,),
            f"blk.{i}.ssm_x.weight": (inner, rank + 2 * state),
            f"blk.{i}.ssm_dt.weight": (rank, inner),
            f"blk.{i}.ssm_dt.bias": (inner,),
            f"blk.{i}.ssm_a": (state, inner),
            f"blk.{i}.ssm_d": (inner,),
            f"blk.{i}.ssm_out.weight": (inner, N_EMBD),
        }
    return _write(path, "mamba", values, shapes)


def windowed(path: Path) -> Path:
    """A model of which five layers in six see no further back than sixteen tokens."""
    values = {
        "feed_forward_length": 64,
        "attention.head_count": 2,
        "attention.head_count_kv": 1,
        "attention.key_length": 16,
        "attention.value_length": 16,
        "attention.sliding_window": 16,
    }
    shapes: dict[str, tuple[int, ...]] = {}
    for i in range(6):
        shapes |= {
            f"blk.{i}.attn_norm.weight": (N_EMBD,),
            f"blk.{i}.attn_q.weight": (N_EMBD, 32),
            f"blk.{i}.attn_k.weight": (N_EMBD, 16),
            f"blk.{i}.attn_v.weight": (N_EMBD, 16),
            f"blk.{i}.attn_output.weight": (32, N_EMBD),
            f"blk.{i}.post_attention_norm.weight": (N_EMBD,),
            f"blk.{i}.attn_k_norm.weight": (16,),
            f"blk.{i}.attn_q_norm.weight": (16,),
            f"blk.{i}.ffn_norm.weight": (N_EMBD,),
            f"blk.{i}.ffn_gate.weight": (N_EMBD, 64),
            f"blk.{i}.ffn_up.weight": (N_EMBD, 64),
            f"blk.{i}.ffn_down.weight": (64, N_EMBD),
            f"blk.{i}.post_ffw_norm.weight": (N_EMBD,),
        }
    return _write(path, "gemma3", values, shapes)


def _write(path: Path, architecture: str, values: Values, shapes: Shapes) -> Path:
    layers = 1 + max(int(name.split(".")[1]) for name in shapes)
    common = {
        "context_length": 512,
        "embedding_length": N_EMBD,
        "block_count": layers,
        "attention.layer_norm_rms_epsilon": 1e-5,
    }
    own: dict[str, int | float | str] = {"general.architecture": architecture}
    own |= {f"{architecture}.{key}": value for key, value in {**common, **values}.items()}
    pairs = [_pair(key, value) for key, value in own.items()] + _vocabulary()
    shapes = {"token_embd.weight": (N_EMBD, N_VOCAB), "output_norm.weight": (N_EMBD,), **shapes}
    rng, infos, data = np.random.default_rng(0), b"", b""
    for name, shape in shapes.items():
        infos += _text(name) + struct.pack("<I", len(shape))
        infos += struct.pack(f"<{len(shape)}QIQ", *shape, 0, len(data))
        weights = rng.normal(1 if "norm" in name else 0, 0.3, shape[::-1]).astype(np.float32)
        if name.endswith("ssm_a"):
            weights = -np.abs(weights)  # a state that decays
        data += weights.tobytes() + bytes(-weights.nbytes % 32)
    head = b"GGUF" + struct.pack("<IQQ", 3, len(shapes), len(pairs)) + b"".join(pairs) + infos
    path.write_bytes(head + bytes(-len(head) % 32) + data)
    return path


def _text(text: str) -> bytes:
    return struct.pack("<Q", len(text)) + text.encode()


def _pair(key: str, value: float | str) -> bytes:
    if isinstance(value, str):
        return _text(key) + struct.pack("<I", 8) + _text(value)
    if isinstance(value, int):
        return _text(key) + struct.pack("<II", 4, value)
    return _text(key) + struct.pack("<If", 6, value)


def _vocabulary() -> list[bytes]:
    """The small model's metadata about tokens, byte for byte."""
    reader = GgufReader(PATH.read_bytes()[: 1 << 24])
    reader.at = 16
    found = []
    for _ in range(reader.number("Q")):
        start = reader.at
        key = reader.string()
        reader.value(reader.number("I"))
        if key.startswith("tokenizer."):
            found.append(reader.data[start : reader.at])
    return found
