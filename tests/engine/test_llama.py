"""A model's file: facts, damage, tokens, and the constraints that it can be put under."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import llama_cpp as lib
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.small_model import (
    BEGINNING,
    PATH,
    YES_NO,
    call,
    damaged,
    model,
    spec,
    tensors,
    vocabulary,
)
from prereg_judge.engine.inspect import inspecting, system_info
from prereg_judge.engine.llama import Model, compile_constraint
from prereg_judge.engine.protocol import (
    Answer,
    Constraint,
    Failure,
    ModelSpec,
    Reply,
    SessionSettings,
)
from prereg_judge.engine.supervisor import Limits, LlamaBackend
from prereg_judge.errors import EngineError
from prereg_judge.shaping import Decoding

# llguidance still calls it by its old name; both libraries are pinned.
pytestmark = pytest.mark.filterwarnings("ignore:llama_token_get_attr is deprecated")

# --- The file -----------------------------------------------------------------------------------


def test_facts_of_the_small_model() -> None:
    """The facts are those that the model's publisher states."""
    with inspecting(str(PATH)) as inspector:
        facts = inspector.facts()
    assert facts.path == str(PATH)
    assert facts.architecture == "llama"
    assert facts.n_params == 134_515_008
    assert facts.n_ctx_train == 8192
    assert facts.n_vocab == 49_152
    assert facts.quantisation == "Q4_1"
    assert facts.chat_template is not None
    assert "<|im_start|>" in facts.chat_template
    assert (facts.bos, facts.eos, facts.bos_id) == ("<|im_start|>", "<|im_end|>", 1)
    assert {"<|im_start|>", "<|im_end|>", "<|endoftext|>"} <= set(facts.control_texts)
    assert (facts.sliding_window, facts.recurrent) == (0, False)
    assert facts.metadata["llama.block_count"] == "30"
    assert 0.9 < facts.n_bytes / PATH.stat().st_size <= 1


def test_facts_do_not_depend_on_loading_the_weights() -> None:
    """Reading the metadata alone tells the same as loading everything."""
    assert vocabulary().facts() == model().facts()


def _half(data: bytes) -> bytes:
    return data[: len(data) // 2]


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        ("half.gguf", _half),
        ("one-byte-short.gguf", lambda data: data[:-1]),
        ("header-only.gguf", lambda data: data[:1000]),
        ("text.gguf", lambda _: b"This is a text, not a model.\n" * 99),
        ("empty.gguf", lambda _: b""),
        ("magic.gguf", lambda data: b"FUGG" + data[4:]),
        ("many-tensors.gguf", lambda data: data[:8] + b"\xff" * 8 + data[16:]),
        ("many-keys.gguf", lambda data: data[:16] + b"\xff" * 8 + data[24:]),
        ("long-key.gguf", lambda data: data[:24] + b"\xff" * 8 + data[32:]),
    ],
)
def test_a_file_that_is_no_whole_model_is_refused(
    tmp_path: Path, name: str, damage: Callable[[bytes], bytes]
) -> None:
    """Truncated, empty, foreign or damaged files are an error that names the file."""
    path = tmp_path / name
    path.write_bytes(damage(PATH.read_bytes()))
    try:
        with pytest.raises(EngineError) as caught, inspecting(str(path)):
            pass
    finally:
        path.unlink()
    assert [p.file for p in caught.value.problems] == [str(path)]


@pytest.mark.parametrize("name", [".", "missing.gguf"])
def test_a_path_that_is_no_file_is_refused(tmp_path: Path, name: str) -> None:
    """A folder, or a path where nothing lies, is an error that names it."""
    with pytest.raises(EngineError, match="cannot load"), inspecting(str(tmp_path / name)):
        pass


@pytest.mark.skipif(lib.llama_supports_gpu_offload(), reason="this build has GPU support")
def test_layers_cannot_be_offloaded_by_a_build_that_cannot() -> None:
    """A CPU-only build refuses to pretend that it runs on a GPU."""
    with pytest.raises(EngineError, match="no GPU support"):
        Model(ModelSpec(str(PATH), n_ctx=256, n_gpu_layers=-1), beat=lambda: None)


def test_system_info_tells_the_build() -> None:
    """A worker reports the library's version and the build flags."""
    info = system_info()
    assert info["llama_cpp_python"] == lib.__version__
    assert "CPU" in info["build"]
    assert info["gpu_offload"] in (True, False)


@pytest.fixture
def file(tmp_path: Path) -> Iterator[Path]:
    """Where a damaged copy may lie; it is removed afterwards, for it is large."""
    path = tmp_path / "damaged.gguf"
    yield path
    path.unlink(missing_ok=True)


def attempts_with(path: Path, *, n: int = 1) -> list[Reply | Failure]:
    """Attempts at a call with a model file, each as a run would make it."""
    backend = LlamaBackend(
        spec(path),
        SessionSettings(YES_NO, Decoding("seeded"), 16),
        limits=Limits(60, None, 60),
        log=path.with_suffix(".log"),
    )
    try:
        answers = backend.stream(iter([call("cat")] * n))
        return [a.result for a in answers if isinstance(a, Answer)]
    finally:
        backend.close()


@pytest.mark.model
@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_weights_that_are_not_numbers_are_refused_at_loading(file: Path, value: float) -> None:
    """NaN or infinity in a norm's weights is found by the check of the tensors."""
    damaged(file, "blk.3.attn_norm.weight", struct.pack("<f", value))
    with pytest.raises(EngineError, match="cannot load"):
        attempts_with(file)


@pytest.mark.model
def test_flipped_bytes_in_a_quantised_tensor_are_refused_at_loading(file: Path) -> None:
    """Scales of all ones bits are not numbers, which the check of the tensors finds."""
    data = PATH.read_bytes()[: 1 << 24]
    tensor = "blk.5.ffn_up.weight"
    assert tensors(data)[tensor].kind != 0
    damaged(file, tensor, b"\xff" * 4096)
    with pytest.raises(EngineError, match="cannot load"):
        attempts_with(file)


@pytest.mark.model
def test_logits_that_are_not_finite_never_become_a_verdict(file: Path) -> None:
    """Finite weights that overflow give no reply but a crash, each time they are tried."""
    damaged(file, "output_norm.weight", struct.pack("<f", 3e38) * 576)
    results = attempts_with(file, n=2)
    assert [(type(r), r.reason) for r in results if isinstance(r, Failure)] == [
        (Failure, "crash")
    ] * 2
    assert all("not finite" in r.detail for r in results if isinstance(r, Failure))


# --- Tokens -------------------------------------------------------------------------------------


# Bytes that this vocabulary has no token for; llama.cpp leaves them out without a word. So it
# does with the private planes from U+40000 on.
LOST = "\x04\x06\x13\x14\x16\x1d"


@settings(max_examples=100, deadline=None)
@given(
    st.text(
        st.characters(exclude_characters=LOST, exclude_categories=["Cs"], max_codepoint=0x3FFFF),
        max_size=60,
    )
)
def test_tokens_give_the_text_back(text: str) -> None:
    """Any text of bytes that the vocabulary has is the same after tokenizing and joining."""
    assert _joined(vocabulary().tokenize(text)) == text


_LL: list[Any] = []


def _joined(tokens: list[int]) -> str:
    if not _LL:
        _LL.append(vocabulary().ll_tokenizer())
    return str(_LL[0].decode_bytes(tokens).decode("utf-8"))


def test_control_tokens_are_read_and_none_is_added() -> None:
    """The template's markup becomes single tokens, and no BOS is put before it."""
    assert vocabulary().tokenize("<|im_start|>user\n")[0] == 1
    assert vocabulary().tokenize("<|im_end|>") == [2]
    assert len(vocabulary().tokenize("user")) == 1
    assert vocabulary().tokenize("") == []


def test_an_inspector_counts_like_the_model() -> None:
    """The throwaway process gives the token ids that the model's own process gives."""
    texts = [BEGINNING, "", "é 日本 \x00 \n", "word " * 20_000]
    with inspecting(str(PATH)) as inspector:
        assert inspector.tokenize(texts) == [vocabulary().tokenize(t) for t in texts]


# --- Constraints --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "array", "uniqueItems": True, "items": {"type": "string"}},
        {"if": {"type": "string"}, "then": {"minLength": 2}},
        {"not": {"type": "string"}},
        {"type": "array", "contains": {"type": "string"}},
        {"type": "object", "dependentRequired": {"a": ["b"]}},
        {"type": "object", "propertyNames": {"maxLength": 3}},
        {"type": "string", "format": "no-such-format"},
        {"oneOf": [{"type": "string"}, {"enum": ["a"]}]},
        {"$ref": "https://example.invalid/schema"},
        {"enum": []},
        {"type": "strng"},
        {"type": "object", "properties": {"a": {"not": {}}}, "required": ["a"]},
    ],
)
def test_what_the_grammar_cannot_express_is_refused(schema: dict[str, Any]) -> None:
    """A schema that could not be enforced as written is an error, not a weaker constraint."""
    with pytest.raises(EngineError, match="cannot be made into a grammar"):
        compile_constraint(Constraint(schema, ",", ":"))


def test_an_inspector_compiles_and_refuses_alike() -> None:
    """The throwaway process gives the same grammar and the same refusal, and lives on."""
    with inspecting(str(PATH)) as inspector:
        with pytest.raises(EngineError, match="cannot be made into a grammar"):
            inspector.compile(Constraint({"not": {}}, ",", ":"))
        assert inspector.compile(YES_NO) == compile_constraint(YES_NO)
