"""Where prompts are cut: only at shared beginnings that are worth it, by the plan alone."""

from __future__ import annotations

from itertools import takewhile

from hypothesis import given
from hypothesis import strategies as st

from prereg_judge.engine.tree import LEAST_SAVED, shared_cuts, shared_length

token = st.integers(0, 2)
prompt = st.lists(token, min_size=1, max_size=12).map(tuple)


@given(prompt, prompt)
def test_shared_length_is_that_of_the_common_prefix(a: tuple[int, ...], b: tuple[int, ...]) -> None:
    """It is the number of tokens before the first that differs."""
    same = takewhile(lambda pair: pair[0] == pair[1], zip(a, b, strict=False))
    assert shared_length(a, b) == len(list(same))


@given(st.lists(prompt, max_size=10), st.integers(1, 20))
def test_cuts_are_shared_by_neighbours_and_below_the_length(
    prompts: list[tuple[int, ...]], least: int
) -> None:
    """Every cut ascends, lies inside its prompt, and is that of a neighbour that shares it."""
    cuts = shared_cuts(prompts, least=least)
    assert len(cuts) == len(prompts)
    for i, mine in enumerate(cuts):
        assert list(mine) == sorted(set(mine))
        assert all(0 < cut < len(prompts[i]) for cut in mine)
        for cut in mine:
            beside = [j for j in (i - 1, i + 1) if 0 <= j < len(prompts)]
            assert any(cut in cuts[j] and prompts[j][:cut] == prompts[i][:cut] for j in beside)


@given(st.lists(prompt, min_size=1, max_size=10))
def test_with_no_least_every_distinct_beginning_is_read_once(
    prompts: list[tuple[int, ...]],
) -> None:
    """Walking prompts in order reads each node of their tree once, and each last token."""
    ordered = sorted((*p, 9) for p in prompts)  # none is the beginning of another, as templates end
    cuts = shared_cuts(ordered, least=1)
    read = 0
    held: tuple[int, ...] = ()
    before: tuple[int, ...] = ()
    for tokens, mine in zip(ordered, cuts, strict=True):
        usable = [c for c in mine if held[:c] == tokens[:c] and c in before]
        read += len(tokens) - max(usable, default=0)
        held, before = tokens, mine
    nodes = {p[: i + 1] for p in ordered for i in range(len(p) - 1)}
    assert read == len(nodes) + len(ordered)


def test_a_question_read_in_both_orders_is_a_node_of_its_own() -> None:
    """Guideline, then question, are the cuts of a pair; a short question is not worth one."""
    guide, long, short = [1] * 100, [2] * LEAST_SAVED, [3] * (LEAST_SAVED - 1)
    prompts = [[*guide, *q, order, 9] for q in (long, short) for order in (5, 6)]
    assert shared_cuts(prompts) == [(100, 124), (100, 124), (100,), (100,)]


def test_nothing_shared_is_nothing_cut() -> None:
    """No prompts, one prompt and foreign prompts have no cuts."""
    assert shared_cuts([]) == []
    assert shared_cuts([[1, 2, 3]]) == [()]
    assert shared_cuts([[1] * 50, [2] * 50]) == [(), ()]
