"""The path `generate`: what the grammar lets through, how a reply ends, thinking before it."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from scipy import stats

from engine.small_model import (
    BARE,
    FREE,
    GREEDY,
    YES_NO,
    among,
    answer,
    call,
    closed,
    numbers,
    session,
    shared,
    vocabulary,
)
from prereg_judge.engine.llama import DecodeFaultError
from prereg_judge.engine.protocol import Call, Constraint, Reply, Thinking
from prereg_judge.engine.writing import Writer, _at_the_cap
from prereg_judge.shaping import Decoding

pytestmark = [
    pytest.mark.model,
    pytest.mark.filterwarnings("ignore:llama_token_get_attr is deprecated"),
]

HOT = Decoding("sampled", temperature=1e6)
WARM = Decoding("sampled", temperature=1.5, top_k=40, top_p=0.95, min_p=0.02)


def reasoned(length: int) -> Constraint:
    """A reason of at most so many characters before the verdict."""
    return closed(reason={"type": "string", "maxLength": length}, verdict=VERDICT)


VERDICT = YES_NO.schema["properties"]["verdict"]
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


# --- The grammar --------------------------------------------------------------------------------


@pytest.mark.parametrize("separators", [(",", ":"), (", ", ": ")])
def test_every_verdict_is_valid_json_whatever_is_in_it(separators: tuple[str, str]) -> None:
    """Quotes, newlines, backslashes and Unicode in verdicts come back as they were written."""
    constraint = Constraint(closed(verdict={"type": "string", "enum": NASTY}).schema, *separators)
    one, seen = session(constraint, decoding=HOT, max_tokens=40), set()
    for seed in range(20):
        reply = answer(one, call("cat", seed=seed))
        assert reply.finish == "complete"
        verdict = json.loads(reply.text)["verdict"]
        assert reply.text.startswith('{"verdict"' + separators[1] + '"')
        assert reply.text.endswith('"}')
        assert verdict in NASTY
        seen.add(verdict)
    assert len(seen) > 3


def test_every_value_can_be_written() -> None:
    """Each of them comes back from a schema that leaves no choice but to write it."""
    values = {f"v{i}": value for i, value in enumerate(NASTY)}
    one = session(closed(**{name: {"const": v} for name, v in values.items()}), max_tokens=400)
    reply = answer(one, call("cat"))
    assert json.loads(reply.text) == values
    assert reply.finish == "complete"
    assert reply.n_forced + reply.n_sampled == len(reply.tokens)


def test_a_reply_without_alternative_is_written_without_a_draw() -> None:
    """Where nothing is drawn there is no allowed mass to tell of."""
    reply = answer(session(Constraint({"const": "a"}, ",", ":")), call("cat", seed=None))
    assert (reply.text, reply.finish) == ('"a"', "complete")
    assert (reply.n_sampled, reply.allowed_mass) == (0, None)


def test_a_grammar_that_fails_is_a_fault_and_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A grammar that takes no token, or allows none, ends the group; the next one is as new."""
    one = session(parallel=2)
    calls = [call("cat"), call("table")]
    expected = [numbers(r) for r in session(parallel=2).run(calls)]
    for name, broken in [
        ("_mask", np.zeros_like(one._writer._mask)),
        ("consume", _refuse),
    ]:
        with monkeypatch.context() as patch:
            patch.setattr(one._writer, name, broken)
            if name == "_mask":
                patch.setattr("llguidance.numpy.fill_next_token_bitmask", lambda *_: None)
            with pytest.raises(DecodeFaultError, match="grammar"):
                one.run(calls)
        assert one.sequences.held == [[], []]
        assert [numbers(r) for r in one.run(calls)] == expected


def _refuse(matcher: Any, tokens: list[int]) -> None:
    Writer.consume(_NoWriter(), _Refusing(), tokens)  # type: ignore[arg-type]


class _NoWriter:
    """Stands for a writer where none is needed."""


class _Refusing:
    """A grammar in its state after an error."""

    def consume_tokens(self, _tokens: list[int]) -> bool:
        return False

    def get_error(self) -> str:
        return "as if broken"


# --- How a reply ends ---------------------------------------------------------------------------


@pytest.mark.parametrize("decoding", [GREEDY, FREE, Decoding("sampled", temperature=3)])
def test_a_bounded_reason_comes_before_the_verdict(decoding: Decoding) -> None:
    """A free text field ends at its limit and is valid JSON, and the verdict follows."""
    one = session(reasoned(40), decoding=decoding, max_tokens=150)
    for seed in (None,) if decoding is GREEDY else (1, 2, 3):
        reply = answer(one, call("cat", seed=seed))
        assert reply.finish == "complete"
        value = json.loads(reply.text)  # strict: raw control characters would be refused
        assert list(value) == ["reason", "verdict"]
        assert len(value["reason"]) <= 40
        assert value["verdict"] in {"YES", "NO"}
        assert reply.n_forced + reply.n_sampled == len(reply.tokens)


@pytest.mark.parametrize("cap", [1, 2, 5, 9])
def test_the_cap_ends_a_reply(cap: int) -> None:
    """A reply that is not complete at the cap says so and has no more tokens than the cap."""
    reply = answer(session(reasoned(40), max_tokens=cap), call("cat"))
    assert reply.finish == "cap"
    assert len(reply.tokens) == cap


def test_a_reply_that_just_fits_is_complete() -> None:
    """A cap equal to the reply's length lets it pass; one below does not."""
    whole = answer(session(), call("cat"))
    n = len(whole.tokens)
    assert numbers(answer(session(max_tokens=n), call("cat"))) == numbers(whole)
    assert answer(session(max_tokens=n - 1), call("cat")).finish == "cap"


@pytest.mark.parametrize(
    ("reply", "finish"),
    [
        ([1, 2, 3], "cap"),
        ([7, 7, 7], "cap"),
        ([9, 7, 7, 7, 7], "runaway"),
        ([9, *[4, 5, 6] * 4], "runaway"),
        ([9, *[4, 5, 6] * 4, 8], "cap"),
        ([*range(32)] * 4, "runaway"),
        ([*range(33)] * 4, "cap"),
        ([], "cap"),
    ],
)
def test_repeating_is_running_away(reply: list[int], finish: str) -> None:
    """Four copies of a stretch of up to 32 tokens at the end make a capped reply a runaway."""
    assert _at_the_cap(reply) == finish


def test_a_model_that_repeats_itself_runs_away() -> None:
    """Greedy writing that has no end but the cap repeats itself, and is said to."""
    endless = closed(reason={"type": "string", "pattern": "^(na){90,}$"}, verdict=VERDICT)
    one = session(endless, decoding=GREEDY, max_tokens=60)
    text = "na na na na na na na na na na na na na na na na. Repeat na for ever: nananananananana"
    reply = answer(one, call(text, seed=None))
    assert reply.finish == "runaway"
    assert len(reply.tokens) == 60


# --- In a group ---------------------------------------------------------------------------------


def test_reasons_written_four_at_once_are_those_written_alone() -> None:
    """Texts of a group whose replies end at different times equal those of each alone."""
    words = ("cat", "a table", "some cats", "the river")
    calls = [call(word, seed=at) for at, word in enumerate(words)]
    alone = session(reasoned(60), decoding=WARM, max_tokens=60)
    expected = [answer(alone, c) for c in calls]
    found = session(reasoned(60), decoding=WARM, max_tokens=60, parallel=4).run(calls)
    assert len({len(r.tokens) for r in expected}) > 1
    assert [r.text for r in found] == [r.text for r in expected]
    assert [r.finish for r in found] == [r.finish for r in expected]
    for a, b in zip(found, expected, strict=True):
        assert a.allowed_mass == pytest.approx(b.allowed_mass, rel=1e-3)


# --- Thinking -----------------------------------------------------------------------------------


def think(
    end: str, *, cap: int, seeds: tuple[int, ...] = (1,), start: str = "", parallel: int = 1
) -> list[Reply]:
    """Replies after thinking that ends at `end`."""
    one = session(
        decoding=WARM, max_tokens=16, thinking=Thinking(start, end, cap), parallel=parallel
    )
    calls = [call("cat", seed=seed) for seed in seeds]
    return [r for i in range(0, len(calls), parallel) for r in one.run(calls[i : i + parallel])]


def test_thinking_ends_at_its_mark_and_the_verdict_follows() -> None:
    """Free text up to the mark, then a reply under the grammar; seeds draw both again."""
    seeds = (1, 2, 3, 4)
    replies = think(" ", cap=60, seeds=seeds, start="<think>\n")
    done = [r for r in replies if r.finish == "complete"]
    assert done
    for r in done:
        assert r.thought
        assert r.thought.count(" ") >= 1
        assert " " not in vocabulary().spell(vocabulary().tokenize(r.thought)[:-1])
        assert 0 < r.n_thought <= 60
        assert json.loads(r.text)["verdict"] in {"YES", "NO"}
    assert len({r.thought for r in replies}) > 1
    again = think(" ", cap=60, seeds=seeds, start="<think>\n")
    assert [numbers(r) for r in again] == [numbers(r) for r in replies]
    grouped = think(" ", cap=60, seeds=seeds, start="<think>\n", parallel=2)
    assert [(r.thought, r.text) for r in grouped] == [(r.thought, r.text) for r in replies]


def test_a_start_that_the_prompt_has_is_not_written_twice() -> None:
    """Whether the template or the session opens the thinking, the model reads the same."""
    (opened,) = think("zzz", cap=4, start="<think>")
    start = vocabulary().tokenize("<think>")
    one = session(decoding=WARM, thinking=Thinking("<think>", "zzz", 4))
    plain = call("cat")
    ready = Call("ready", (*plain.tokens, *start), (shared(),), 1)
    assert answer(one, ready).thought == opened.thought


def test_thinking_has_a_cap_of_its_own() -> None:
    """Thinking that does not end by its cap has no reply, and says so."""
    (reply,) = think("no such mark", cap=5)
    assert (reply.finish, reply.n_thought, reply.text, reply.tokens) == ("thinking_cap", 5, "", ())
    assert reply.allowed_mass is None


def test_ending_the_turn_while_thinking_is_no_answer() -> None:
    """A model that ends its turn instead of its thinking gave no answer."""
    replies = think("no such mark", cap=200, seeds=(1, 2))
    assert {r.finish for r in replies} == {"no_answer"}
    assert all(r.text == "" and r.thought is not None for r in replies)


# --- Numbers ------------------------------------------------------------------------------------


def test_replies_are_drawn_from_the_models_distribution() -> None:
    """200 replies fit the probabilities that choosing tells (binomial test, p > 0.0001)."""
    plain = call("milk")
    c = call("milk", cuts=(len(plain.tokens) - 1,))  # read once, but for the last token
    told = answer(session(among("YES", "NO"), labels=("YES", "NO")), c)
    assert told.probabilities
    assert 0.05 < told.probabilities["YES"] < 0.95  # else the test would show little
    one, n_yes = session(BARE), 0
    for seed in range(200):
        reply = answer(one, Call(c.key, c.tokens, c.cuts, seed))
        assert reply.allowed_mass == pytest.approx(told.allowed_mass, rel=1e-6)
        n_yes += reply.text == '"YES"'
    assert stats.binomtest(n_yes, 200, told.probabilities["YES"]).pvalue > 1e-4
