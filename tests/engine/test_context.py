"""Sequences in memory: what is kept, copied and cleared, and that faults leave nothing behind."""

from __future__ import annotations

from typing import Any

import llama_cpp as lib
import numpy as np
import pytest

from engine.small_model import among, answer, call, model, numbers, session, shared
from prereg_judge.engine.context import Feed, Sequences
from prereg_judge.engine.llama import DecodeFaultError
from prereg_judge.engine.protocol import Call
from prereg_judge.errors import EngineError
from prereg_judge.shaping import softmax

pytestmark = [
    pytest.mark.model,
    pytest.mark.filterwarnings("ignore:llama_token_get_attr is deprecated"),
]


def sequences(n: int = 1, *, n_batch: int = 512) -> Sequences:
    """Sequences of the small model."""
    return Sequences(model(n_batch), n)


def test_a_kept_beginning_gives_the_same_logits_as_a_fresh_one() -> None:
    """Dropping the end and decoding another one is, to the last bit, decoding it at first."""
    one, tokens = sequences(), call("cat").tokens
    one.decode([Feed(0, tokens[:30])])
    fresh = one.decode([Feed(0, tokens[30:], want=True)])[0]
    assert one.keep(0, 30) == 30
    one.decode([Feed(0, tokens[5:25], want=True)])
    assert one.keep(0, 30) == 30
    again = one.decode([Feed(0, tokens[30:], want=True)])[0]
    assert (again == fresh).all()
    assert one.held[0] == list(tokens)
    one.close()


def test_a_copy_is_what_was_copied_and_its_own_afterwards() -> None:
    """A copied sequence gives the same logits, and does not see what its source reads later."""
    one, tokens = sequences(3), call("cat").tokens
    one.decode([Feed(0, tokens[:30])])
    assert one.copy(0, 2)
    one.decode([Feed(0, tokens[3:20])])
    copied = one.decode([Feed(2, tokens[30:], want=True)])[2]
    one.clear()
    one.decode([Feed(1, tokens[:30])])
    assert (one.decode([Feed(1, tokens[30:], want=True)])[1] == copied).all()
    assert one.held == [[], list(tokens), []]
    one.close()


@pytest.mark.parametrize("n_batch", [7, 32])
def test_a_long_stretch_is_read_in_pieces(n_batch: int) -> None:
    """Stretches longer than a batch give nearly the same logits, however many share the call."""
    tokens = call("a dog, a cow, a horse, a cat and a goat in one big field").tokens
    assert len(tokens) > 2 * 32
    whole = sequences()
    expected = whole.decode([Feed(0, tokens, want=True)])[0]
    cut = sequences(3, n_batch=n_batch)
    found = cut.decode([Feed(i, tokens, want=True) for i in range(3)])
    for i in range(3):
        difference = softmax(found[i].astype(float)) - softmax(expected.astype(float))
        assert np.abs(difference).max() < 0.05
        assert (found[i] == found[0]).all()
    whole.close()
    cut.close()


def test_only_what_was_decoded_in_the_same_steps_is_reusable() -> None:
    """A beginning counts up to the last cut at which both tokens and steps agree."""
    one, tokens = sequences(2), call("cat").tokens
    for start, stop in ((0, 10), (10, 30), (30, 40)):
        one.decode([Feed(0, tokens[start:stop])])
    other = (*tokens[:20], 5, *tokens[21:])
    assert one.reusable(0, tokens, (10, 30, 40)) == 40
    assert one.reusable(0, tokens, (10, 30)) == 30
    assert one.reusable(0, tokens, (10, 31)) == 10
    assert one.reusable(0, tokens, (30,)) == 0
    assert one.reusable(0, other, (10, 30)) == 10
    assert one.reusable(0, tokens, ()) == 0
    assert one.reusable(1, tokens, (10, 30)) == 0
    one.close()


def group(*texts: str) -> list[Call]:
    """Calls with one seed each, cut after ten tokens and where the shared beginning ends."""
    return [call(t, seed=i, cuts=(10, shared())) for i, t in enumerate(texts)]


def refuse_parts(patch: pytest.MonkeyPatch) -> None:
    """Let llama.cpp answer as it does for recurrent models: a part cannot be dropped."""
    real = lib.llama_memory_seq_rm

    def removed(memory: Any, sequence: int, first: int, last: int) -> bool:
        return first <= 0 and bool(real(memory, sequence, first, last))

    patch.setattr(lib, "llama_memory_seq_rm", removed)


def forget_starts(patch: pytest.MonkeyPatch) -> None:
    """Let llama.cpp answer as it does when a sliding window has forgotten the start."""
    patch.setattr(lib, "llama_memory_seq_pos_min", lambda *_: 3)


def be_recurrent(patch: pytest.MonkeyPatch) -> None:
    """Let llama.cpp say that the model is recurrent."""
    patch.setattr(lib, "llama_model_is_recurrent", lambda _: True)


@pytest.mark.parametrize("limit", [refuse_parts, forget_starts, be_recurrent])
@pytest.mark.parametrize("parallel", [1, 2])
def test_models_that_cannot_go_back_read_every_prompt_whole(
    monkeypatch: pytest.MonkeyPatch, limit: Any, parallel: int
) -> None:
    """Replies are those of a memory that never reused anything, and none says it did."""
    calls = group("cat", "table", "cats", "cat")
    fresh = [numbers(answer(session(), c)) for c in calls]
    limit(monkeypatch)
    one = session(parallel=parallel)
    replies = [r for i in range(0, 4, parallel) for r in one.run(calls[i : i + parallel])]
    assert [numbers(r) for r in replies] == fresh
    if limit is not refuse_parts:  # whole copies within a group are sound there
        assert [r.n_reused for r in replies] == [0] * 4


def test_choosing_reads_again_where_a_part_cannot_be_dropped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Labels that share a beginning have nearly the same probabilities when read anew."""
    labels = ("A_MUCH", "A_LITTLE", "B")
    plain = answer(session(among(*labels), labels=labels), call("cat")).probabilities
    be_recurrent(monkeypatch)
    again = answer(session(among(*labels), labels=labels), call("cat")).probabilities
    assert plain
    assert again == pytest.approx(plain, abs=0.02)


@pytest.mark.parametrize("code", [1, 2, -1, -3])
@pytest.mark.parametrize("at", [1, 2, 3])
def test_a_failed_decode_leaves_nothing_behind(
    monkeypatch: pytest.MonkeyPatch, code: int, at: int
) -> None:
    """After a decode that failed with a part in memory, the next group is answered as if new."""
    calls = group("cat", "table")
    expected = [numbers(r) for r in session(parallel=2).run(calls)]
    one, done = session(parallel=2), []
    real = lib.llama_decode

    def decode(ctx: Any, batch: Any) -> int:
        done.append(real(ctx, batch))  # the batch does get into memory
        return code if len(done) == at else int(done[-1])

    with monkeypatch.context() as patch:
        patch.setattr(lib, "llama_decode", decode)
        with pytest.raises(DecodeFaultError, match=f"returned {code}"):
            one.run(calls)
    assert len(done) == at
    assert one.sequences.held == [[], []]
    assert lib.llama_memory_seq_pos_max(one.sequences._memory, 0) == -1
    replies = one.run(calls)
    assert [numbers(r) for r in replies] == expected
    assert replies[0].n_reused == 0


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_a_single_bad_logit_is_found(monkeypatch: pytest.MonkeyPatch, value: float) -> None:
    """One NaN or +inf among the logits is a fault; so is -inf on every allowed token."""
    one = session()
    logits = np.zeros(one.sequences.model.n_vocab, dtype=np.float32)
    if value == float("-inf"):
        logits[10:] = value  # the tokens that may come next have larger ids
    else:
        logits[7] = value
    with monkeypatch.context() as patch:
        patch.setattr(np.ctypeslib, "as_array", lambda *_: logits)
        with pytest.raises(DecodeFaultError):
            answer(one, call("cat"))
    assert one.sequences.held == [[]]
    assert answer(one, call("cat")).text in {'{"verdict":"YES"}', '{"verdict":"NO"}'}


def test_too_little_memory_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """A context that llama.cpp cannot make is an error that names the file."""
    monkeypatch.setattr(lib, "llama_init_from_model", lambda *_: None)
    with pytest.raises(EngineError, match="cannot make a context"):
        sequences()
