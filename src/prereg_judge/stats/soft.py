"""Labels kept as distributions: how spread one is, and how far apart two are.

Logarithms are to base 2. Knows arrays only.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]

# How far a distribution's sum may be from 1.
_SUM = 1e-9


def _distributions(name: str, p: ArrayLike) -> tuple[Floats, NDArray[np.bool_]]:
    """Distributions with 0 in place of those that are none, shape (..., L); which are none."""
    found = np.asarray(p, dtype=np.float64)
    if found.ndim == 0 or found.shape[-1] == 0:
        raise ValueError(f"{name} must have the shape (..., L) with L >= 1, not {found.shape}")
    none = np.asarray(np.isnan(found).any(axis=-1) | ~found.any(axis=-1))
    found = np.where(none[..., None], 0.0, found)
    if (found < 0).any() or (np.abs(found.sum(axis=-1) - 1.0) > _SUM)[~none].any():
        raise ValueError(f"{name} must be shares that are not negative and add up to 1")
    return found, none


def _pair(p: ArrayLike, q: ArrayLike) -> tuple[Floats, Floats, NDArray[np.bool_]]:
    """Two arrays of distributions in their common shape; where either is none."""
    one, none = _distributions("p", p)
    two, neither = _distributions("q", q)
    if one.shape[-1] != two.shape[-1]:
        raise ValueError(f"p and q differ in labels: {one.shape[-1]} and {two.shape[-1]}")
    one, two = np.broadcast_arrays(one, two)
    return one, two, none | neither


def shannon_entropy(p: ArrayLike) -> Floats:
    """Entropy of distributions of labels, in bits.

    Parameters
    ----------
    p
        Shares of the labels, shape (..., L), >= 0, each adding up to 1.

    Returns
    -------
    ndarray
        Entropies, shape (...), 0 (one label) to log2 L (all equal). NaN for a row of zeros or with
        NaN: an item without a rating has no distribution.

    Raises
    ------
    ValueError
        When the shape is another, a share is negative, or a sum is off 1 by more than 1e-9.

    Notes
    -----
    Exact where shares are powers of two. From few ratings it is biased downwards.
    Source: Shannon (1948), doi:10.1002/j.1538-7305.1948.tb01338.x.
    """
    found, none = _distributions("p", p)
    logs = np.zeros(found.shape)
    np.log2(found, out=logs, where=found > 0)
    # Adding 0 turns -0 into 0.
    return np.asarray(np.where(none, np.nan, 0.0 - (found * logs).sum(axis=-1)))


def _apart(p: Floats, both: Floats) -> Floats:
    """Relative entropy in bits of p to the mixture that is half of `both`, a sum it is part of."""
    logs = np.zeros(p.shape)
    quotient = np.ones(p.shape)
    # Twice p through the sum: half of the smallest number would be 0.
    np.divide(2.0 * p, both, out=quotient, where=p > 0)
    np.log2(quotient, out=logs)
    return np.asarray((p * logs).sum(axis=-1))


def jensen_shannon_distance(p: ArrayLike, q: ArrayLike) -> Floats:
    """Jensen-Shannon distance of distributions of labels: a metric, 0 to 1.

    Parameters
    ----------
    p, q
        Shares of the labels, shapes (..., L) that broadcast, >= 0, each adding up to 1.

    Returns
    -------
    ndarray
        Distances, shape (...): the root of the divergence to base 2, 0 for equal distributions and
        1 for those without a common label. NaN where either is a row of zeros or holds NaN.

    Raises
    ------
    ValueError
        When shapes do not fit, a share is negative, or a sum is off 1 by more than 1e-9.

    Notes
    -----
    Distances below about 1e-8 are rounding: the root magnifies the last digits of a divergence.
    Source: Lin (1991), doi:10.1109/18.61115; that the root is a metric, Endres and Schindelin
    (2003), doi:10.1109/TIT.2003.813506.
    """
    one, two, none = _pair(p, q)
    both = one + two
    divergence = (_apart(one, both) + _apart(two, both)) / 2.0
    return np.asarray(np.where(none, np.nan, np.sqrt(np.clip(divergence, 0.0, 1.0))))


def total_variation(p: ArrayLike, q: ArrayLike) -> Floats:
    """Total variation distance of distributions of labels: the share that would have to move.

    Parameters
    ----------
    p, q
        Shares of the labels, shapes (..., L) that broadcast, >= 0, each adding up to 1.

    Returns
    -------
    ndarray
        Half the sum of absolute differences, shape (...), 0 to 1. NaN where either is a row of
        zeros or holds NaN.

    Raises
    ------
    ValueError
        When shapes do not fit, a share is negative, or a sum is off 1 by more than 1e-9.

    Notes
    -----
    Source: Levin and Peres (2017), Markov Chains and Mixing Times, 2nd edition, section 4.1.
    """
    one, two, none = _pair(p, q)
    half = np.abs(one - two).sum(axis=-1) / 2.0
    return np.asarray(np.where(none, np.nan, np.minimum(half, 1.0)))
