"""Shaping and drawing: invariants, and agreement with a plain implementation in loops."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats

from prereg_judge.shaping import Decoding, allowed_mass, draw, pick, shape, softmax

Floats = NDArray[np.float64]

finite = st.floats(-40, 40, width=32)
maybe = st.one_of(finite, finite, finite, st.just(-math.inf))


@st.composite
def scores(draw_: st.DrawFn, element: st.SearchStrategy[float] = maybe) -> Floats:
    """1 to 30 logits of which at least one is finite."""
    values = draw_(st.lists(element, min_size=1, max_size=30))
    assume(any(math.isfinite(v) for v in values))
    return np.array(values)


settings = st.builds(
    Decoding,
    mode=st.sampled_from(["sampled", "seeded"]),
    temperature=st.floats(0.01, 100),
    top_k=st.integers(0, 40),
    top_p=st.floats(0.01, 1),
    min_p=st.floats(0, 1),
)


def plain(logits: Floats, decoding: Decoding) -> list[float]:
    """`shape` again, from its description, one token at a time."""
    order = sorted(range(len(logits)), key=lambda i: (-logits[i], i))
    total = math.fsum(math.exp(x - logits[order[0]]) for x in logits)
    chance = {i: math.exp(logits[i] - logits[order[0]]) / total for i in order}
    kept = order[: decoding.top_k] if decoding.top_k else list(order)
    if decoding.top_p < 1:
        mass, reached, smallest = math.fsum(chance[i] for i in kept), 0.0, []
        for i in kept:
            smallest.append(i)
            reached += chance[i] / mass
            assume(abs(reached - decoding.top_p) > 1e-9)  # the last digit would decide
            if reached >= decoding.top_p:
                break
        kept = smallest
    bar = decoding.min_p * chance[order[0]]
    assume(all(abs(chance[i] - bar) > 1e-12 or i == order[0] for i in kept))
    kept = [i for i in kept if chance[i] >= bar or i == order[0]]
    weight = {i: math.exp((logits[i] - logits[order[0]]) / decoding.temperature) for i in kept}
    return [weight.get(i, 0.0) / math.fsum(weight.values()) for i in range(len(logits))]


@given(scores(), settings)
@example(np.array([1.0, 1.0, 1.0]), Decoding("sampled", top_k=2))
@example(np.array([0.0, math.log(2), 0.0]), Decoding("sampled", top_p=0.6, temperature=2.0))
def test_shape_follows_its_description(logits: Floats, decoding: Decoding) -> None:
    """Top-k, top-p, min-p and temperature give what a plain implementation gives."""
    np.testing.assert_allclose(
        shape(logits, decoding), plain(logits, decoding), rtol=1e-9, atol=1e-15
    )


@given(scores(), settings)
def test_shape_is_a_distribution_that_keeps_the_best(logits: Floats, decoding: Decoding) -> None:
    """Probabilities sum to 1, none is negative, and the most probable token is never dropped."""
    chances = shape(logits, decoding)
    assert chances.sum() == pytest.approx(1)
    assert (chances >= 0).all()
    assert chances[int(logits.argmax())] == chances.max() > 0
    assert not chances[np.isneginf(logits)].any()


@pytest.mark.parametrize(
    ("dropping", "kept"),
    [
        ({"top_k": 1}, [1]),
        ({"top_k": 2}, [1, 3]),
        ({"top_p": 1e-9}, [1]),
        ({"top_p": 0.5}, [1]),
        ({"top_p": 0.51}, [1, 3]),
        ({"top_p": 0.81}, [1, 2, 3]),
        ({"min_p": 1.0}, [1]),
        ({"min_p": 0.55}, [1, 3]),
        ({"top_k": 2, "top_p": 0.62}, [1]),  # top-p counts what top-k left: 0.5 / 0.8 = 0.625
        ({"min_p": 0.5, "temperature": 50.0}, [1, 3]),  # min-p looks at temperature 1
        ({}, [0, 1, 2, 3]),
    ],
)
def test_truncation_by_hand(dropping: dict[str, Any], kept: list[int]) -> None:
    """Each truncation keeps the tokens counted out by hand for chances .05, .5, .15, .3."""
    logits = np.log(np.array([0.05, 0.5, 0.15, 0.3]))
    chances = shape(logits, Decoding("sampled", **dropping))
    assert np.flatnonzero(chances).tolist() == kept


@given(scores())
def test_greedy_takes_the_first_of_the_largest(logits: Floats) -> None:
    """Greedy puts everything on the argmax, the smallest id among equals."""
    chances = shape(logits, Decoding("greedy", temperature=5.0, top_k=3))
    best = [i for i, x in enumerate(logits) if x == max(logits)][0]  # noqa: RUF015
    assert np.flatnonzero(chances).tolist() == [best]
    assert draw(chances, np.random.default_rng(1)) == best


@given(scores(), st.sampled_from([1e-3, 1e-9, 1e-300, 5e-324]))
def test_a_cold_temperature_is_greedy(logits: Floats, temperature: float) -> None:
    """As the temperature goes to 0, the mass goes to the largest logits, without a NaN."""
    gap = logits.max() - logits[logits < logits.max()].max(initial=-math.inf)
    assume(gap > 50 * temperature)
    chances = shape(logits, Decoding("sampled", temperature=temperature))
    assert chances[logits == logits.max()].sum() == pytest.approx(1)


@given(scores(finite))
def test_a_hot_temperature_is_uniform(logits: Floats) -> None:
    """As the temperature grows, every token that was kept becomes equally probable."""
    chances = shape(logits, Decoding("sampled", temperature=1e300))
    np.testing.assert_allclose(chances, 1 / len(logits))


@given(scores(), settings, st.integers(-64, 64))
def test_a_shift_of_the_logits_changes_nothing(
    logits: Floats, decoding: Decoding, shift: int
) -> None:
    """Probabilities do not move when the same number is added to every logit."""
    plain(logits, decoding)  # leaves out cases in which the last digit decides
    assume(len(set(logits + shift)) == len(set(logits)))  # nor may the sum round two into one
    np.testing.assert_allclose(
        shape(logits + shift, decoding), shape(logits, decoding), rtol=1e-8, atol=1e-12
    )


@given(scores(), settings)
def test_the_order_of_distinct_logits_does_not_matter(logits: Floats, decoding: Decoding) -> None:
    """Reversing the tokens reverses the probabilities, where no two are equal."""
    assume(len(set(logits)) == len(logits))
    plain(logits, decoding)
    np.testing.assert_allclose(
        shape(logits[::-1], decoding)[::-1], shape(logits, decoding), rtol=1e-9, atol=1e-15
    )


@given(st.floats(-700, 700), st.integers(1, 30))
def test_softmax_does_not_overflow(top: float, n: int) -> None:
    """Large logits of either sign give a distribution."""
    assert softmax(np.linspace(top, top * 50, n)).sum() == pytest.approx(1)


@given(st.lists(st.sampled_from([0.0, 0.0, 0.1, 1.0, 1e-300]), min_size=1, max_size=20), st.data())
def test_a_draw_lies_where_there_is_probability(values: list[float], data: st.DataObject) -> None:
    """Tokens with probability 0 are never drawn, at either end of the unit interval."""
    assume(any(values))
    chances = np.array(values) / sum(values)
    edge = st.sampled_from([0.0, math.nextafter(1, 0), 0.5])

    class Fixed(np.random.Generator):
        def random(self, *_: Any, **__: Any) -> Any:
            return data.draw(edge)

    for rng in (np.random.default_rng(data.draw(st.integers(0, 99))), Fixed(np.random.PCG64(0))):
        assert chances[draw(chances, rng)] > 0


def test_draws_follow_the_probabilities() -> None:
    """20,000 draws with a fixed seed fit the probabilities (chi-squared, p > 0.001)."""
    logits = np.array([0.3, -1.0, 2.0, -math.inf, 0.0, 1.2])
    chances = shape(logits, Decoding("sampled", temperature=1.3))
    rng = np.random.default_rng(20_000)
    seen = Counter(draw(chances, rng) for _ in range(20_000))
    support = np.flatnonzero(chances)
    assert set(seen) == set(support.tolist())
    counts = [seen[i] for i in support.tolist()]
    assert stats.chisquare(counts, 20_000 * chances[support]).pvalue > 0.001


def test_a_seed_fixes_the_draws() -> None:
    """The same seed gives the same draws, another seed others."""
    chances = np.full(1000, 0.001)
    one, again, other = (
        [draw(chances, rng) for _ in range(5)] for rng in map(np.random.default_rng, (7, 7, 8))
    )
    assert one == again != other


@given(scores(), st.data())
def test_allowed_mass_is_a_share_of_the_whole(logits: Floats, data: st.DataObject) -> None:
    """It is the sum of the softmax over the allowed tokens: 1 for all of them, additive."""
    single = logits.astype(np.float32)
    ids = data.draw(st.lists(st.integers(0, len(logits) - 1), min_size=1, unique=True))
    allowed = np.array(sorted(ids))
    rest = np.setdiff1d(np.arange(len(logits)), allowed)
    mass = allowed_mass(single, allowed)
    expected = math.fsum(softmax(single.astype(np.float64))[allowed])
    assert mass == pytest.approx(expected, rel=1e-9, abs=1e-300)
    assert mass + allowed_mass(single, rest) == pytest.approx(1)
    assert allowed_mass(single, np.arange(len(logits))) == 1


many = st.builds(
    lambda seed, n, spread, step: (
        np.round(np.random.default_rng(seed).normal(0, spread, n) / step) * step
    ),
    st.integers(0, 10**6),
    st.integers(400, 3000),
    st.sampled_from([0.01, 1.0, 4.0, 20.0]),
    st.sampled_from([1e-9, 0.5, 3.0]),  # coarse steps make many equal logits
)


def ordered(logits: Floats, decoding: Decoding) -> list[int]:
    """The kept tokens again, by ordering all of them."""
    order = np.argsort(-logits, kind="stable")
    weights = np.exp(logits - logits.max())
    k = decoding.top_k or len(order)
    mass = weights.sum() if k >= len(order) else np.cumsum(weights[order])[k - 1]
    reached = np.cumsum(weights[order])
    kept = []
    for rank, token in enumerate(order.tolist()):
        outside = rank > 0 and decoding.top_p < 1 and reached[rank - 1] >= decoding.top_p * mass
        if rank >= k or outside:
            break
        if weights[token] >= decoding.min_p:
            kept.append(token)
    return sorted(kept)


@given(many, settings, st.sampled_from([0, 1, 40, 600, 10**6]))
def test_ordering_a_part_keeps_what_ordering_all_keeps(
    logits: Floats, decoding: Decoding, top_k: int
) -> None:
    """Among thousands of tokens, with ties, exactly the same ones are kept."""
    decoding = Decoding(
        "sampled", decoding.temperature, top_k, decoding.top_p, decoding.min_p * 0.1
    )
    assume(decoding.temperature > 1)  # colder, and kept tokens can get a chance of exactly 0
    assert np.flatnonzero(shape(logits, decoding)).tolist() == ordered(logits, decoding)


@given(st.one_of(many, scores()), settings, st.integers(0, 2**32))
def test_picking_is_drawing_from_the_shape(logits: Floats, decoding: Decoding, seed: int) -> None:
    """The short way to a token gives the token that the long way gives, for every seed."""
    one, other = np.random.default_rng(seed), np.random.default_rng(seed)
    for _ in range(5):
        assert pick(logits, decoding, one) == draw(shape(logits, decoding), other)
