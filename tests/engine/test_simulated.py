"""The simulated backend: what it answers follows from what was stated, and from nothing else."""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest

from prereg_judge.choices import redrawn, verdict_probabilities
from prereg_judge.engine.protocol import Answer, Backend, Call, Failure, Reply
from prereg_judge.engine.simulated import (
    NOT_JSON,
    Faults,
    SimulatedBackend,
    Situation,
    drawn_as_stated,
    invented_node,
    leading_chance,
)
from prereg_judge.shaping import Decoding
from support import verdict_reply

VERDICTS = ("A", "B", "C")
CHANCES = (0.7, 0.2, 0.1)
SAMPLED = Decoding("sampled", temperature=0.7)
SEEDED = Decoding("seeded", temperature=0.7)
GREEDY = Decoding("greedy")
TINY = 1e-6  # with a fixed seed a test either passes always or never


def entropy(key: str, attempt: int) -> np.random.Generator:
    """Chance that depends on key and attempt alone."""
    return np.random.default_rng([11, attempt, *key.encode()])


def backend(
    *,
    decoding: Decoding = SAMPLED,
    choosing: bool = False,
    faults: Faults | None = None,
    chances: Mapping[str, Sequence[float]] | Sequence[float] = CHANCES,
    repeat: float = 0.0,
) -> SimulatedBackend:
    """A backend for keys `ROW/PASS`; `chances` may differ by pass."""

    def situation(key: str) -> Situation:
        row, number = key.split("/")
        own = chances[number] if isinstance(chances, Mapping) else chances
        return Situation(row, number == "1", tuple(own), repeat)

    return SimulatedBackend(
        situation,
        replies={v: verdict_reply(v) for v in VERDICTS},
        choosing=choosing,
        decoding=decoding,
        faults=faults or Faults(),
        entropy=entropy,
    )


def asked(of: Backend, keys: Sequence[str], *, seed: int | None = None) -> dict[str, Answer]:
    """The answers to one call of each key, in this order."""
    calls = (Call(key, (), (), seed) for key in keys)
    answers = [a for a in of.stream(iter(calls)) if isinstance(a, Answer)]
    assert [a.call.key for a in answers] == list(keys)
    return {a.call.key: a for a in answers}


def text(answer: Answer) -> str:
    """The text of a reply."""
    assert isinstance(answer.result, Reply)
    return answer.result.text


def keys(n: int, number: int = 1) -> list[str]:
    """Keys of `n` rows in a pass."""
    return [f"r{i}/{number}" for i in range(n)]


@given(st.integers(2, 12), st.floats(0, 1))
def test_leading_chance_gives_the_agreement(n: int, place: float) -> None:
    """The leading chance, with the rest shared equally, squares and sums to the agreement."""
    agreement = min(1.0, 1 / n + place * (1 - 1 / n))
    p = leading_chance(agreement, n)
    assert p >= (1 - p) / (n - 1) - 1e-9
    assert math.isclose(p * p + (1 - p) ** 2 / (n - 1), agreement, abs_tol=1e-9)


@pytest.mark.parametrize(("n", "agreement"), [(2, 0.49), (4, 0.24), (3, 1.01), (1, 1.0)])
def test_an_agreement_that_no_row_has(n: int, agreement: float) -> None:
    """Less than chance, more than certain, or with one verdict only: refused."""
    with pytest.raises(ValueError, match="agrees with chance"):
        leading_chance(agreement, n)


@pytest.mark.parametrize("decoding", [SAMPLED, SEEDED, Decoding("sampled", 1.9)])
def test_invented_tokens_give_the_chances_back(decoding: Decoding) -> None:
    """At any temperature the recorded logits lead to the stated chances; no chance, no token."""
    for chances in (CHANCES, (0.0, 1.0, 0.0), (0.5, 0.0, 0.5)):
        node = invented_node(chances, VERDICTS, decoding)
        found = verdict_probabilities([node], decoding, VERDICTS)
        assert list(found.values()) == pytest.approx(chances, abs=1e-12)
        assert len(node.tokens) == sum(p > 0 for p in chances)


@pytest.mark.parametrize(
    ("decoding", "fits"),
    [
        (Decoding("sampled", 1.0, top_p=0.65), False),
        (Decoding("sampled", 1.0, top_k=2), False),
        (Decoding("sampled", 1.0, min_p=0.2), False),
        (Decoding("sampled", 1.0, top_p=0.95), True),
        (Decoding("sampled", 1.0, min_p=0.1), True),
        (GREEDY, True),
    ],
)
def test_truncation_that_cuts_a_verdict_off_is_seen(decoding: Decoding, fits: bool) -> None:
    """Chances of 0.7, 0.2 and 0.1 survive only where truncation drops none of them."""
    assert drawn_as_stated(CHANCES, decoding) is fits


@pytest.mark.parametrize(
    ("decoding", "seed"), [(SAMPLED, None), (SEEDED, 5), (GREEDY, None)], ids=str
)
def test_a_chosen_reply_follows_from_what_it_carries(decoding: Decoding, seed: int | None) -> None:
    """Drawn again from its nodes with its call's seed, each reply has the same verdict."""
    answers = asked(backend(decoding=decoding, choosing=True), keys(40), seed=seed)
    for answer in answers.values():
        assert isinstance(answer.result, Reply)
        again = redrawn(answer.result.nodes, decoding, answer.call.seed)
        assert answer.result.text == verdict_reply(again.verdict)
        assert (answer.call.seed is None) == (decoding.mode == "greedy")
    if decoding.mode == "sampled":
        assert len({a.call.seed for a in answers.values()}) == 40
        assert len({text(a) for a in answers.values()}) == 3


def test_both_paths_say_the_same() -> None:
    """With the same entropy the paths `generate` and `choice` give the same verdicts."""
    one, other = (asked(backend(choosing=choosing), keys(60)) for choosing in (False, True))
    assert [text(a) for a in one.values()] == [text(a) for a in other.values()]
    assert len({text(a) for a in one.values()}) == 3


def test_answers_do_not_depend_on_their_order() -> None:
    """Asked backwards, every trial gets the answer that it gets forwards, failures included."""
    faults = Faults(hang=0.2, crash=0.1, unreadable=0.1)
    forwards = asked(backend(faults=faults), keys(80))
    backwards = asked(backend(faults=faults), keys(80)[::-1])
    assert forwards == {key: backwards[key] for key in forwards}
    assert len({type(a.result) for a in forwards.values()}) == 2


@pytest.mark.parametrize("mode", ["seeded", "greedy"])
def test_a_second_pass_repeats_the_first_where_decoding_does(
    mode: Literal["seeded", "greedy"],
) -> None:
    """The same prompt and seed bring the same reply, an unreadable one included."""
    made = backend(decoding=Decoding(mode, 1.0), faults=Faults(unreadable=0.3))
    seed = 3 if mode == "seeded" else None
    first, second = (asked(made, keys(60, number), seed=seed) for number in (1, 2))
    assert [text(a) for a in first.values()] == [text(a) for a in second.values()]
    assert 0 < sum(text(a) == NOT_JSON for a in first.values()) < 60


@pytest.mark.parametrize("choosing", [False, True])
@pytest.mark.parametrize("leading", [0, 1, 2])
def test_greedy_decoding_takes_the_leading_of_equals(choosing: bool, leading: int) -> None:
    """Among verdicts that are equally likely the leading one; a likelier one goes before it."""
    for chances, said in (
        ((1 / 3, 1 / 3, 1 / 3), leading),
        ((0.2, 0.4, 0.4), max(1, leading)),
        ((0.2, 0.3, 0.5), 2),
    ):
        simulated = SimulatedBackend(
            lambda key, chances=chances: Situation(key, True, chances, leading=leading),  # type: ignore[misc]
            replies={v: verdict_reply(v) for v in VERDICTS},
            choosing=choosing,
            decoding=GREEDY,
            faults=Faults(),
            entropy=entropy,
        )
        reply = asked(simulated, ["r/1"])["r/1"].result
        assert isinstance(reply, Reply)
        assert reply.text == verdict_reply(VERDICTS[said])
        if choosing:
            assert list(reply.nodes[0].tokens) == sorted(reply.nodes[0].tokens)
            assert redrawn(reply.nodes, GREEDY, None).verdict == VERDICTS[said]


@pytest.mark.parametrize("choosing", [False, True])
def test_what_leads_does_not_move_a_draw(choosing: bool) -> None:
    """Where a seed draws, rows with the same chances come out alike, whatever leads on them."""

    def answers(leading: int | None) -> list[str]:
        simulated = SimulatedBackend(
            lambda key: Situation(key, True, (0.4, 0.3, 0.3), leading=leading),
            replies={v: verdict_reply(v) for v in VERDICTS},
            choosing=choosing,
            decoding=SEEDED,
            faults=Faults(),
            entropy=entropy,
        )
        return [text(asked(simulated, ["r/1"], seed=seed)["r/1"]) for seed in range(30)]

    assert answers(None) == answers(0) == answers(1) == answers(2)
    assert len(set(answers(None))) == 3


def test_sampled_passes_are_independent() -> None:
    """Two passes agree as often as the sum of squared chances says."""
    made = backend()
    first, second = (list(asked(made, keys(4000, number)).values()) for number in (1, 2))
    same = sum(text(a) == text(b) for a, b in zip(first, second, strict=True))
    assert binomtest(same, 4000, sum(p * p for p in CHANCES)).pvalue > TINY


def test_failures_come_as_often_as_stated() -> None:
    """Hangs, crashes and unreadable replies are each as frequent as their chance per call."""
    faults = Faults(hang=0.1, crash=0.05, unreadable=0.2, hang_s=60.0)
    answers = asked(backend(faults=faults), keys(4000)).values()
    seen = Counter(
        str(a.result.reason) if isinstance(a.result, Failure) else a.result.text for a in answers
    )
    for reason, chance in (("hang", 0.1), ("crash", 0.05), (NOT_JSON, 0.2)):
        assert binomtest(seen[reason], 4000, chance).pvalue > TINY, reason
    hung = [
        a.result for a in answers if isinstance(a.result, Failure) and a.result.reason == "hang"
    ]
    assert {f.seconds for f in hung} == {60.0}


def test_a_retry_is_a_new_draw_and_asked_for_after_the_end() -> None:
    """What is fed after a failure is answered, and another attempt can end otherwise."""
    waiting = deque(Call(key, (), (), None) for key in keys(60))

    class Feed:
        def __iter__(self) -> Iterator[Call]:
            return self

        def __next__(self) -> Call:
            if not waiting:
                raise StopIteration
            return waiting.popleft()

    ended: dict[str, list[bool]] = {}
    for answer in backend(faults=Faults(hang=0.5)).stream(Feed()):
        assert isinstance(answer, Answer)
        hung = isinstance(answer.result, Failure)
        ended.setdefault(answer.call.key, []).append(hung)
        if hung:
            waiting.append(answer.call)
    assert len(ended) == 60
    assert all(not tries[-1] for tries in ended.values())
    assert max(map(len, ended.values())) > 2


@pytest.mark.parametrize("choosing", [False, True])
def test_a_later_pass_can_repeat_the_first(choosing: bool) -> None:
    """With `repeat` 1 every verdict comes back, from a seed of its own that does draw it."""
    made = backend(repeat=1.0, choosing=choosing)
    first, second = (asked(made, keys(60, number)) for number in (1, 2))
    pairs = list(zip(first.values(), second.values(), strict=True))
    assert all(text(a) == text(b) for a, b in pairs)
    assert len({text(a) for a in first.values()}) == 3
    assert all(a.call.seed != b.call.seed for a, b in pairs)
    if choosing:
        for answer in second.values():
            assert isinstance(answer.result, Reply)
            again = redrawn(answer.result.nodes, SAMPLED, answer.call.seed)
            assert answer.result.text == verdict_reply(again.verdict)


def test_nothing_is_repeated_where_nothing_was_said() -> None:
    """A first pass that only hung leaves later passes to their own draws."""
    made = backend(repeat=1.0, faults=Faults(hang=1.0))
    assert all(isinstance(a.result, Failure) for a in asked(made, keys(5)).values())
    alone = asked(backend(repeat=1.0), keys(60, 2))
    assert len({text(a) for a in alone.values()}) == 3


def test_a_repetition_that_cannot_be_drawn_is_a_bug() -> None:
    """Chances that change between passes do not go with `repeat`: no endless search."""
    made = backend(repeat=1.0, chances={"1": (1.0, 0.0, 0.0), "2": (0.0, 1.0, 0.0)})
    asked(made, ["r/1"])
    with pytest.raises(ValueError, match="chances changed"):
        asked(made, ["r/2"])
