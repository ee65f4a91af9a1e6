"""The engine over llama.cpp: facts, damaged files, constraints, and what a trial depends on."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import llama_cpp as lib
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from engine.small_model import (
    BARE,
    BEGINNING,
    FILLER,
    GREEDY,
    PATH,
    YES_NO,
    closed,
    damaged,
    model,
    prompt,
    session,
    shared,
    spec,
    tensors,
    vocabulary,
)
from prereg_judge.engine.inspect import inspecting, system_info
from prereg_judge.engine.llama import DecodeFaultError, Model, Session, compile_constraint
from prereg_judge.engine.protocol import Call, Constraint, Decoding, Failure, ModelSpec, Reply
from prereg_judge.engine.supervisor import Limits, LlamaBackend
from prereg_judge.errors import EngineError

# llguidance still calls it by its old name; both libraries are pinned.
pytestmark = pytest.mark.filterwarnings("ignore:llama_token_get_attr is deprecated")

HOT = Decoding("sampled", temperature=1e6)


def call(text: str, *, seed: int | None = 1, cuts: tuple[int, ...] | None = None) -> Call:
    """A call about `text`, cut where the shared beginning ends unless told otherwise."""
    return Call(text, prompt(text), (shared(),) if cuts is None else cuts, seed)


def long_call(text: str, *, seed: int = 1, cuts: tuple[int, ...] | None = None) -> Call:
    """A call with a long shared beginning, cut where that ends unless told otherwise."""
    n = len(vocabulary().tokenize(BEGINNING + FILLER))
    return Call(text, prompt(FILLER + text), (n,) if cuts is None else cuts, seed)


def numbers(reply: Reply) -> tuple[Any, ...]:
    """What must be equal to the last bit when a trial is repeated."""
    return reply.text, reply.tokens, reply.finish, reply.n_sampled, reply.allowed_mass


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
        YES_NO,
        decoding=Decoding("seeded"),
        max_tokens=16,
        limits=Limits(60, None, 60),
        log=path.with_suffix(".log"),
    )
    try:
        return [backend.attempt(call("cat")) for _ in range(n)]
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


@pytest.mark.model
@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_a_single_bad_logit_is_found(monkeypatch: pytest.MonkeyPatch, value: float) -> None:
    """One NaN or +inf among the logits is a fault; so is -inf on every allowed token."""
    one = session()
    logits = np.zeros(one.model.n_vocab, dtype=np.float32)
    if value == float("-inf"):
        logits[10:] = value  # the tokens that may come next have larger ids
    else:
        logits[7] = value
    monkeypatch.setattr(np.ctypeslib, "as_array", lambda *_: logits)
    with pytest.raises(DecodeFaultError):
        one.call(call("cat"))
    assert one._held == []
    monkeypatch.undo()
    assert json.loads(one.call(call("cat")).text)["verdict"] in {"YES", "NO"}


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


NASTY = [
    'a"b',
    '"',
    "\\",
    "a\\nb",
    "a\nb",
    "\t",
    "\x01",
    "é 日本",
    "\u2028",
    "😀",
    "</s>",
    "{}",
    " KEEP",
    "KEEP",
    "KEEPER",
]


@pytest.mark.model
@pytest.mark.parametrize("separators", [(",", ":"), (", ", ": ")])
def test_every_verdict_is_valid_json_whatever_is_in_it(separators: tuple[str, str]) -> None:
    """Quotes, newlines, backslashes and Unicode in verdicts come back as they were written."""
    constraint = Constraint(closed(verdict={"type": "string", "enum": NASTY}).schema, *separators)
    one, seen = session(constraint, decoding=HOT, max_tokens=40), set()
    for seed in range(20):
        reply = one.call(call("cat", seed=seed))
        assert reply.finish == "complete"
        verdict = json.loads(reply.text)["verdict"]
        assert reply.text.startswith('{"verdict"' + separators[1] + '"')
        assert reply.text.endswith('"}')
        assert verdict in NASTY
        seen.add(verdict)
    assert len(seen) > 3


@pytest.mark.model
def test_every_value_can_be_written() -> None:
    """Each of them comes back from a schema that leaves no choice but to write it."""
    values = {f"v{i}": value for i, value in enumerate(NASTY)}
    one = session(closed(**{name: {"const": v} for name, v in values.items()}), max_tokens=400)
    reply = one.call(call("cat"))
    assert json.loads(reply.text) == values
    assert reply.finish == "complete"
    assert reply.n_forced + reply.n_sampled == len(reply.tokens)


@pytest.mark.model
def test_a_reply_without_alternative_is_written_without_a_draw() -> None:
    """Where nothing is drawn there is no allowed mass to tell of."""
    reply = session(Constraint({"const": "a"}, ",", ":")).call(call("cat", seed=None))
    assert (reply.text, reply.finish) == ('"a"', "complete")
    assert (reply.n_sampled, reply.allowed_mass) == (0, None)


REASONED = closed(
    reason={"type": "string", "maxLength": 40}, verdict=YES_NO.schema["properties"]["verdict"]
)


@pytest.mark.model
@pytest.mark.parametrize(
    "decoding", [GREEDY, Decoding("sampled"), Decoding("sampled", temperature=3)]
)
def test_a_bounded_reason_comes_before_the_verdict(decoding: Decoding) -> None:
    """A free text field ends at its limit and is valid JSON, and the verdict follows."""
    one = session(REASONED, decoding=decoding, max_tokens=150)
    for seed in (None,) if decoding is GREEDY else (1, 2, 3):
        reply = one.call(call("cat", seed=seed))
        assert reply.finish == "complete"
        value = json.loads(reply.text)  # strict: raw control characters would be refused
        assert list(value) == ["reason", "verdict"]
        assert len(value["reason"]) <= 40
        assert value["verdict"] in {"YES", "NO"}
        assert reply.n_forced + reply.n_sampled == len(reply.tokens)


@pytest.mark.model
@pytest.mark.parametrize("cap", [1, 2, 5, 9])
def test_the_cap_ends_a_reply(cap: int) -> None:
    """A reply that is not complete at the cap says so and has no more tokens than the cap."""
    reply = session(REASONED, max_tokens=cap).call(call("cat"))
    assert reply.finish == "cap"
    assert len(reply.tokens) == cap


@pytest.mark.model
def test_a_reply_that_just_fits_is_complete() -> None:
    """A cap equal to the reply's length lets it pass; one below does not."""
    whole = session().call(call("cat"))
    n = len(whole.tokens)
    assert numbers(session(max_tokens=n).call(call("cat"))) == numbers(whole)
    assert session(max_tokens=n - 1).call(call("cat")).finish == "cap"


# --- What a trial depends on --------------------------------------------------------------------


@pytest.mark.model
@pytest.mark.parametrize("n_batch", [512, 32])
def test_a_trial_does_not_depend_on_what_was_called_before(n_batch: int) -> None:
    """In every order, again, after clearing and in a fresh session the numbers are the same."""
    about = long_call if n_batch == 512 else call  # either is longer than the batch of 32
    calls = [about("cat"), about("a table", seed=2), about("cats", seed=3)]
    fresh = {c.key: numbers(session(n_batch=n_batch).call(c)) for c in calls[:2]}
    one = session(n_batch=n_batch)
    for i in (2, 0, 1, 2, 1, 0, 2, 2, 0):  # every call after every other, and after itself
        found = numbers(one.call(calls[i]))
        assert fresh.setdefault(calls[i].key, found) == found
    one.clear()
    assert numbers(one.call(calls[1])) == fresh[calls[1].key]


@pytest.mark.model
def test_a_trial_does_not_depend_on_how_others_were_cut() -> None:
    """A beginning that another call decoded in other steps is not taken over."""
    n = long_call("cat").cuts[0]
    ways: list[tuple[int, ...]] = [(), (n,), (35, n)]
    calls = [long_call("cat", cuts=cuts) for cuts in ways]
    fresh = [numbers(session(BARE).call(c)) for c in calls[1:]]
    one = session(BARE)
    one.call(calls[0])
    for i in (1, 2, 1):
        assert numbers(one.call(calls[i])) == fresh[i - 1]


@pytest.mark.model
def test_what_is_reused_is_what_the_cuts_say() -> None:
    """Memory is reused up to the last cut before which the tokens agree, never beyond."""
    n, one = shared(), session()
    table = call("table", cuts=(10, n))
    other = Call("other", (*table.tokens[:10], 5, *table.tokens[11:]), (10, n), 1)
    foreign = Call(
        "foreign", tuple(vocabulary().tokenize("<|im_end|>Hello there, is it?")), (4,), 1
    )
    steps = [
        (table, 0),
        (call("cat", cuts=(10, n)), n),
        (call("cat", cuts=(10, n)), n),
        (other, 10),
        (table, 10),
        (foreign, 0),
        (table, 0),
        (call("cat", cuts=()), 0),
        (call("cat", cuts=()), 0),
        (call("cat", cuts=(n,)), 0),
        (call("cat", cuts=(n,)), n),
    ]
    for c, reused in steps:
        reply = one.call(c)
        assert (reply.n_reused, reply.n_prompt) == (reused, len(c.tokens))
    one.clear()
    assert one.call(call("cat", cuts=(n,))).n_reused == 0


@pytest.mark.model
def test_the_strict_wire_reuses_nothing() -> None:
    """Without cuts every prompt is read whole, and replies are valid."""
    one = session()
    for text in ("cat", "cat", "table"):
        reply = one.call(call(text, cuts=()))
        assert reply.n_reused == 0
        assert json.loads(reply.text)["verdict"] in {"YES", "NO"}


@pytest.mark.model
def test_a_seed_decides_and_greedy_needs_none() -> None:
    """Equal seeds give equal replies, different seeds both verdicts; greedy is constant."""
    one = session(BARE)
    replies = {seed: one.call(call("milk", seed=seed)).text for seed in range(30)}
    assert set(replies.values()) == {'"YES"', '"NO"'}
    assert all(one.call(call("milk", seed=s)).text == replies[s] for s in (3, 0, 29))
    greedy = session(BARE, decoding=GREEDY)
    assert len({numbers(greedy.call(call("cat", seed=None))) for _ in range(3)}) == 1


# --- Numbers ------------------------------------------------------------------------------------


def _piece(token: int) -> bytes:
    buffer = lib.ctypes.create_string_buffer(256)
    n = lib.llama_token_to_piece(vocabulary()._vocab, token, buffer, len(buffer), 0, False)
    return bytes(buffer.raw[: max(n, 0)])


def first_tokens() -> dict[str, list[int]]:
    """For each verdict, the tokens with which the rest of its reply can begin."""
    pieces = [_piece(t) for t in range(vocabulary().n_vocab)]
    return {
        verdict: [t for t, p in enumerate(pieces) if p and f'{verdict}"'.encode().startswith(p)]
        for verdict in ("YES", "NO")
    }


def chances(one: Session, c: Call) -> tuple[dict[str, float], float]:
    """Probability of each verdict, and the mass on both, from the raw logits after a quote."""
    one.clear()
    (quote,) = vocabulary().tokenize('"')
    start = 0
    for edge in (*c.cuts, len(c.tokens) + 1):
        one._decode([*c.tokens, quote][start:edge])
        start = edge
    logits = one._logits().astype(np.float64)
    one.clear()
    weights = np.exp(logits - logits.max())
    mass = {v: float(weights[ids].sum() / weights.sum()) for v, ids in first_tokens().items()}
    whole = sum(mass.values())
    return {v: m / whole for v, m in mass.items()}, whole


@pytest.mark.model
def test_replies_are_drawn_from_the_models_distribution() -> None:
    """600 replies fit the softmax over the two verdicts (binomial test, p > 0.0001)."""
    one, base = session(BARE), call("milk")
    base = call("milk", cuts=(len(base.tokens) - 1,))
    expected, mass = chances(one, base)
    assert 0.05 < expected["YES"] < 0.95  # else the test would show little
    n_yes = 0
    for seed in range(600):
        reply = one.call(Call(base.key, base.tokens, base.cuts, seed))
        assert reply.allowed_mass == pytest.approx(mass, rel=1e-6)
        n_yes += reply.text == '"YES"'
    assert stats.binomtest(n_yes, 600, expected["YES"]).pvalue > 1e-4


@pytest.mark.model
def test_a_long_prompt_is_read_in_pieces() -> None:
    """Prompts longer than a batch give nearly the same verdict probabilities, and no crash."""
    c = call("a dog, a cow, a horse, a cat and a goat in one big field", cuts=())
    assert len(c.tokens) > 2 * 32
    found = {n: chances(session(BARE, n_batch=n), c)[0]["YES"] for n in (512, 32, 7)}
    assert found[32] == pytest.approx(found[512], abs=0.05)
    assert found[7] == pytest.approx(found[512], abs=0.05)
    for n in (512, 32, 7):
        reply = session(n_batch=n).call(c)
        assert json.loads(reply.text)["verdict"] in {"YES", "NO"}
