"""Krippendorff's alpha at three levels of measurement, with missing ratings.

One minus the observed through the expected disagreement of pairs of ratings. Items with fewer than
two ratings have no pair and do not count at all. As in `agreement`: what an item adds to some sums,
and the coefficient of such sums. Knows arrays only.
"""

from __future__ import annotations

from math import isqrt

import numpy as np
from numpy.typing import ArrayLike, NDArray

from prereg_judge.stats.agreement import label_counts, summed
from prereg_judge.stats.resample import ratio

Floats = NDArray[np.float64]


def _pairable(counts: ArrayLike) -> tuple[Floats, Floats, Floats]:
    """Counts with 0 where an item has fewer than two ratings; ratings an item; these less one."""
    found = label_counts(counts)
    found = np.where(found.sum(axis=1, keepdims=True) >= 2, found, 0.0)
    total = found.sum(axis=1)
    return found, total, np.maximum(total - 1.0, 1.0)


def _alpha(n: Floats, observed: Floats, expected: Floats) -> Floats:
    """Alpha from n pairable ratings and sums of disagreement over ordered pairs."""
    return np.asarray(1.0 - ratio((n - 1.0) * observed, expected))


def nominal_alpha_sums(counts: ArrayLike) -> Floats:
    """What each item adds to the sums that nominal alpha is made of.

    Parameters
    ----------
    counts
        How often each label was given to each item, shape (n, L).

    Returns
    -------
    ndarray
        Shape (n, 1 + L): ordered pairs of ratings that differ, through the item's ratings less
        one; how often each label was given. All 0 for fewer than two ratings.

    Raises
    ------
    ValueError
        When the counts are no counts.

    Notes
    -----
    Sums are exact where items have two, three, five, nine ... ratings; else the first is rounded.
    """
    found, total, others = _pairable(counts)
    apart = (total * total - (found * found).sum(axis=1)) / others
    return np.column_stack([apart, found])


def nominal_alpha_of(sums: ArrayLike) -> Floats:
    """Krippendorff's alpha of labels without an order.

    Parameters
    ----------
    sums
        Sums of the columns of `nominal_alpha_sums`, shape (..., 1 + L).

    Returns
    -------
    ndarray
        Alpha, shape (...), in [-1, 1]; 1 exactly where no pair differs. NaN where all ratings that
        have a partner are one label (or L = 1), and where none has.

    Raises
    ------
    ValueError
        When there are fewer than two sums.

    Notes
    -----
    Source: Krippendorff (2004), Content Analysis, 2nd edition, section 11.3; Hayes and
    Krippendorff (2007), doi:10.1080/19312450709336664.
    """
    found = summed(sums, least=2)
    each = found[..., 1:]
    n = each.sum(axis=-1)
    return _alpha(n, found[..., 0], n * n - (each * each).sum(axis=-1))


def ordinal_alpha_sums(counts: ArrayLike) -> Floats:
    """What each item adds to the sums that ordinal alpha is made of.

    Parameters
    ----------
    counts
        How often each label was given to each item, shape (n, L), labels in their order.

    Returns
    -------
    ndarray
        Shape (n, L + L (L - 1) / 2): how often each label was given; then, for each two labels
        c < k row by row, pairs of a rating c with a rating k, through the item's ratings less one.
        All 0 for fewer than two ratings.

    Raises
    ------
    ValueError
        When the counts are no counts.

    Notes
    -----
    How far labels lie apart depends on how often those between them are given, in every resample
    anew. So the whole matrix of coincidences is resampled: about 4 n L^2 bytes, and as many
    operations a resample; half of it is enough, since it is symmetric. Sums are exact where items
    have two, three, five, nine ... ratings.
    """
    found, _, others = _pairable(counts)
    labels = found.shape[1]
    columns = np.empty((len(found), labels * (labels + 1) // 2))
    columns[:, :labels] = found
    done = labels
    for label in range(labels - 1):
        later = found[:, label + 1 :]
        columns[:, done : done + later.shape[1]] = found[:, [label]] * later / others[:, None]
        done += later.shape[1]
    return columns


def ordinal_alpha_of(sums: ArrayLike) -> Floats:
    """Krippendorff's alpha of labels in an order.

    Parameters
    ----------
    sums
        Sums of the columns of `ordinal_alpha_sums`, shape (..., L (L + 1) / 2).

    Returns
    -------
    ndarray
        Alpha, shape (...), in [-1, 1]; 1 exactly where no pair differs. NaN where all ratings that
        have a partner are one label (or L = 1), and where none has.

    Raises
    ------
    ValueError
        When there is no sum, or their number fits no number of labels.

    Notes
    -----
    Two labels disagree by the square of the ratings from one to the other, the two themselves
    counted half: the squared difference of their mean ranks. A label that nobody gives changes
    nothing.
    Source: Krippendorff (2004), Content Analysis, 2nd edition, section 11.3; Hayes and
    Krippendorff (2007), doi:10.1080/19312450709336664.
    """
    found = summed(sums, least=1)
    labels = (isqrt(8 * found.shape[-1] + 1) - 1) // 2
    if labels * (labels + 1) // 2 != found.shape[-1]:
        raise ValueError(f"sums must be L (L + 1) / 2 for some L, not {found.shape[-1]}")
    each, pairs = found[..., :labels], found[..., labels:]
    n = each.sum(axis=-1)
    # Mean ranks, less the mean of all ranks: halves, so exact.
    ranks = np.cumsum(each, axis=-1) - each / 2.0 - n[..., None] / 2.0
    one, two = np.triu_indices(labels, k=1)
    observed = 2.0 * (pairs * (ranks[..., one] - ranks[..., two]) ** 2).sum(axis=-1)
    return _alpha(n, observed, 2.0 * n * (each * ranks**2).sum(axis=-1))


def _within_one(values: Floats) -> Floats:
    """Values through the power of two that makes the largest of them at most 1 in size."""
    return np.asarray(np.ldexp(values, -int(np.frexp(np.abs(values).max())[1])))


def _scaled(values: Floats, found: Floats) -> Floats:
    """Values about the one that is nearest to the mean rating, at most 1 in size.

    Alpha does not depend on shift and scale. A power of two as the scale, and one of the values as
    the origin, keep whole numbers exact.
    """
    small = _within_one(values)
    each = found.sum(axis=0)
    middle = float(each @ small / each.sum()) if each.any() else 0.0
    return _within_one(small - small[np.abs(small - middle).argmin()])


def interval_alpha_sums(counts: ArrayLike, *, values: ArrayLike) -> Floats:
    """What each item adds to the sums that interval alpha is made of.

    Parameters
    ----------
    counts
        How often each label was given to each item, shape (n, L).
    values
        Number of each label, shape (L,), any unit, finite. Labels may share a number.

    Returns
    -------
    ndarray
        Shape (n, 1 + 2 K) for K different numbers: squared differences over ordered pairs of
        ratings, through the item's ratings less one; how often each number was given; sum of the
        ratings with each number, shifted and scaled. All 0 for fewer than two ratings.

    Raises
    ------
    ValueError
        When the counts are no counts, or the values are not one finite number a label.

    Notes
    -----
    Sums for each number, in place of first and second moments over all, cost 2 K columns and
    lose no digits where a resample lies to one side. Sums of whole numbers that are less than some
    millions apart are exact for items with two, three, five ... ratings; else they are rounded.
    """
    found, _, others = _pairable(counts)
    given = np.asarray(values, dtype=np.float64)
    if given.shape != (found.shape[1],) or not np.isfinite(given).all():
        raise ValueError(f"values must be {found.shape[1]} finite numbers, one a label")
    distinct, place = np.unique(given, return_inverse=True)
    merged = found @ np.eye(len(distinct))[place]
    scaled = _scaled(distinct, merged)
    apart = np.zeros(len(merged))
    for number, its in zip(scaled, merged.T, strict=True):
        # Pairs of equal numbers add exactly 0, so that unanimous items do.
        apart += its * (merged @ (scaled - number) ** 2)
    return np.column_stack([apart / others, merged, merged * scaled])


def interval_alpha_of(sums: ArrayLike) -> Floats:
    """Krippendorff's alpha of labels that are numbers.

    Parameters
    ----------
    sums
        Sums of the columns of `interval_alpha_sums`, shape (..., 1 + 2 K).

    Returns
    -------
    ndarray
        Alpha, shape (...), in [-1, 1]; 1 exactly where no pair differs. NaN where all ratings that
        have a partner are one number, and where none has.

    Raises
    ------
    ValueError
        When there are fewer than three sums, or an even number of them.

    Notes
    -----
    Two labels disagree by their squared difference; neither shift nor scale of the values matters.
    Source: Krippendorff (2004), Content Analysis, 2nd edition, section 11.3; Hayes and
    Krippendorff (2007), doi:10.1080/19312450709336664.
    """
    found = summed(sums, least=3)
    if found.shape[-1] % 2 == 0:
        raise ValueError(f"sums must be 1 + 2 K, not {found.shape[-1]}")
    numbers = found.shape[-1] // 2
    each, totals = found[..., 1 : 1 + numbers], found[..., 1 + numbers :]
    n = each.sum(axis=-1)
    # The value of a number that was not given does not matter: it weighs 0.
    distance = (
        ratio(totals, np.maximum(each, 1.0))
        - ratio(totals.sum(axis=-1), np.maximum(n, 1.0))[..., None]
    )
    return _alpha(n, found[..., 0], 2.0 * n * (each * distance**2).sum(axis=-1))
