"""Tests on pairs of answers to the same item.

Knows numbers only.
"""

from __future__ import annotations

import operator
from typing import SupportsIndex

from scipy.stats import binom


def _count(name: str, value: SupportsIndex) -> int:
    if isinstance(value, bool):
        raise ValueError(f"{name} must be a whole number, not {value!r}")
    try:
        count = operator.index(value)
    except TypeError:
        raise ValueError(f"{name} must be a whole number, not {value!r}") from None
    if count < 0:
        raise ValueError(f"{name} must not be negative, not {count}")
    return count


def exact_sign_test(plus: SupportsIndex, minus: SupportsIndex) -> float:
    """Exact two-sided sign test: do differences go one way more often than the other?

    Parameters
    ----------
    plus, minus
        Number of pairs that differ one way and the other way, whole, >= 0. Pairs that do not differ
        do not enter.

    Returns
    -------
    float
        The p-value in (0, 1]: the probability of a split at least as uneven when each pair goes
        either way with probability one half.

    Raises
    ------
    ValueError
        When a number is negative or not whole.

    Notes
    -----
    Degenerate case: without any differing pair it is 1: nothing speaks against chance. For two
    shares of the same items this is McNemar's test with the exact distribution.
    Source: McNemar (1947), doi:10.1007/BF02295996; Conover (1999), Practical Nonparametric
    Statistics, section 3.4.
    """
    plus, minus = _count("plus", plus), _count("minus", minus)
    if plus == minus:
        return 1.0
    # Under one half the distribution is symmetric: the two tails are equal.
    return min(1.0, 2.0 * float(binom.cdf(min(plus, minus), plus + minus, 0.5)))
