"""Where prompts share a beginning that is worth decoding once (pure).

The prompts of a pass, in the order in which they are called, form a tree of token prefixes. A
node is worth a step of its own when decoding it once saves more than the step costs. The result
is a function of the prompts and their order alone, so every pass, restart and resume decodes a
prompt in the same steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

Tokens = Sequence[int]

# Tokens that a node must save, over all prompts below it, to be worth a decode call of its own.
# A call costs about as much as two dozen tokens on two CPU cores (bench/run.py), and more on
# hardware that reads faster.
LEAST_SAVED = 24


def shared_length(first: Tokens, second: Tokens) -> int:
    """Number of tokens at the beginning that two prompts have in common."""
    n = min(len(first), len(second))
    if first[:n] == second[:n]:
        return n
    low, high = 0, n  # first[:low] is shared, first[:high] is not
    while high - low > 1:
        middle = (low + high) // 2
        if first[low:middle] == second[low:middle]:
            low = middle
        else:
            high = middle
    return low


def shared_cuts(prompts: Sequence[Tokens], *, least: int = LEAST_SAVED) -> list[tuple[int, ...]]:
    """For every prompt, the ascending positions at which a shared beginning ends.

    Parameters
    ----------
    prompts
        Token ids, in calling order; each has at least one token. All of one sequence type.
    least
        Tokens that a node must save.

    Returns
    -------
    One tuple a prompt. Each cut is below the prompt's length, so that at least one token is
    decoded for every prompt. Empty tuples where nothing is shared.

    Notes
    -----
    Neighbours' common lengths define nested ranges (the intervals of an LCP array, as in
    Abouelhoda, Kurtz and Ohlebusch 2004, doi:10.1016/S1570-8667(03)00065-0). Only prompts that are
    neighbours in a range share it, because what comes between would have overwritten it.
    """
    cuts: list[list[int]] = [[] for _ in prompts]
    common = [0, *(shared_length(a, b) for a, b in pairwise(prompts))]
    waiting = [(0, len(prompts), 0)]
    while waiting:
        start, stop, base = waiting.pop()
        if stop - start < 2:
            continue
        inner = common[start + 1 : stop]
        lowest = min(inner)
        depth = min(lowest, *(len(prompts[i]) - 1 for i in range(start, stop)))
        if (depth - base) * (stop - start - 1) >= least:
            for i in range(start, stop):
                cuts[i].append(depth)
            base = depth
        edges = [start, *(start + 1 + i for i, n in enumerate(inner) if n == lowest), stop]
        waiting += [(a, b, base) for a, b in pairwise(edges)]
    return [tuple(c) for c in cuts]
