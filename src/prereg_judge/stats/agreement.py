"""Agreement of ratings: raw, Cohen's kappa, weighted kappa, Fleiss' kappa, Gwet's AC1.

Each is two functions: what an item adds to some sums, and the coefficient of such sums. Sums can be
resampled (`resample.Resampler.totals`), so thousands of coefficients cost one product of matrices.
Knows arrays only.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isqrt

import numpy as np
from numpy.typing import ArrayLike, NDArray

from prereg_judge.stats.resample import ratio

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Coefficient:
    """A coefficient of agreement that is corrected for chance, and the two numbers it is made of.

    Attributes
    ----------
    value
        (observed - expected) / (1 - expected), shape (...); NaN where expected is 1, and where one
        of the two is NaN.
    observed
        Observed agreement P_o, shape (...), 0 to 1; NaN where there is no pair of ratings.
    expected
        Agreement P_e expected by chance, shape (...), 0 to 1; NaN where there is no rating.
    """

    value: Floats
    observed: Floats
    expected: Floats


def label_counts(counts: ArrayLike) -> Floats:
    """How often each label was given to each item, checked.

    Parameters
    ----------
    counts
        Counts, shape (n, L), n >= 0, L >= 1, whole and not negative.

    Returns
    -------
    ndarray
        The same numbers as floats.

    Raises
    ------
    ValueError
        When the shape is another, or a count is negative or not whole.
    """
    found = np.asarray(counts, dtype=np.float64)
    if found.ndim != 2 or found.shape[1] == 0:
        raise ValueError(f"counts must have the shape (n, L) with L >= 1, not {found.shape}")
    if not (np.isfinite(found).all() and (found >= 0).all() and (found == np.floor(found)).all()):
        raise ValueError("counts must be whole numbers and not negative")
    return found


def summed(sums: ArrayLike, *, least: int) -> Floats:
    """Sums as floats, shape (..., m) with m >= least; ValueError when there are fewer."""
    found = np.asarray(sums, dtype=np.float64)
    if found.ndim == 0 or found.shape[-1] < least:
        raise ValueError(f"sums must have the shape (..., m) with m >= {least}, not {found.shape}")
    return found


def pair_sums(counts: ArrayLike) -> Floats:
    """What each item adds to the pairs of ratings that agree, and to all pairs.

    Parameters
    ----------
    counts
        How often each label was given to each item, shape (n, L).

    Returns
    -------
    ndarray
        Shape (n, 2): pairs of ratings of the item with the same label, pairs of ratings of the
        item. Whole numbers, so that sums of them are exact. Both are 0 for fewer than two ratings.

    Raises
    ------
    ValueError
        When the counts are no counts.
    """
    found = label_counts(counts)
    total = found.sum(axis=1)
    alike = (found * (found - 1.0)).sum(axis=1) / 2.0
    return np.column_stack([alike, total * (total - 1.0) / 2.0])


def agreement_of(sums: ArrayLike) -> Floats:
    """Share of pairs of ratings of the same item that agree, not corrected for chance.

    Parameters
    ----------
    sums
        Sums of the columns of `pair_sums`, shape (..., 2).

    Returns
    -------
    ndarray
        The shares, shape (...), 0 to 1; NaN where there is no pair.

    Raises
    ------
    ValueError
        When there are fewer than two sums.

    Notes
    -----
    Every pair weighs the same, so an item with many ratings weighs more than one with two. The P_o
    of Fleiss' kappa and AC1 weighs every item the same; the two are equal when all items have
    equally many ratings.
    """
    found = summed(sums, least=2)
    return ratio(found[..., 0], found[..., 1])


def share_sums(counts: ArrayLike) -> Floats:
    """What each item adds to the sums that Fleiss' kappa and AC1 are made of.

    Parameters
    ----------
    counts
        How often each label was given to each item, shape (n, L).

    Returns
    -------
    ndarray
        Shape (n, 3 + L): share of the item's pairs of ratings that agree (0 for fewer than two
        ratings), 1 for two or more ratings, 1 for one or more, share of each label among the
        item's ratings (0 for none).

    Raises
    ------
    ValueError
        When the counts are no counts.

    Notes
    -----
    Exact where items have one, two, four, eight ... ratings for the labels, and two for the
    agreement; thirds and the like are rounded.
    """
    found = label_counts(counts)
    total = found.sum(axis=1)
    alike = (found * (found - 1.0)).sum(axis=1)
    columns = np.zeros((len(found), 3 + found.shape[1]))
    paired, rated = total >= 2, total >= 1
    np.divide(alike, total * (total - 1.0), out=columns[:, 0], where=paired)
    columns[:, 1] = paired
    columns[:, 2] = rated
    np.divide(found, total[:, None], out=columns[:, 3:], where=rated[:, None])
    return columns


def _corrected(observed: Floats, expected: Floats) -> Coefficient:
    return Coefficient(ratio(observed - expected, 1.0 - expected), observed, expected)


def _other_share(part: Floats, whole: Floats) -> Floats:
    """One minus a ratio, always as an array."""
    return np.asarray(1.0 - ratio(part, whole))


def fleiss_of(sums: ArrayLike) -> Coefficient:
    """Fleiss' kappa: agreement beyond that of annotators who label by the labels' frequencies.

    Parameters
    ----------
    sums
        Sums of the columns of `share_sums`, shape (..., 3 + L).

    Returns
    -------
    Coefficient
        P_o is the mean share of agreeing pairs over items with two or more ratings; P_e the sum of
        the squared label shares, each the mean share over items with one or more.

    Raises
    ------
    ValueError
        When there are fewer than four sums.

    Notes
    -----
    Degenerate cases: all ratings one label give P_e = 1 and no value; no item with two ratings
    gives no P_o. At most 1. At least -1 as long as every item has two ratings or none; items with a
    single rating move P_e and not P_o, and the value can then fall far below -1.
    Source: Fleiss (1971), doi:10.1037/h0031619; with missing ratings as in Gwet (2014), Handbook of
    Inter-Rater Reliability, 4th edition.
    """
    found = summed(sums, least=4)
    shares = ratio(found[..., 3:], found[..., 2:3])
    expected = np.asarray((shares**2).sum(axis=-1))
    return _corrected(ratio(found[..., 0], found[..., 1]), expected)


def ac1_of(sums: ArrayLike) -> Coefficient:
    """Gwet's AC1: kappa with a chance agreement that is small where one label is frequent.

    Parameters
    ----------
    sums
        Sums of the columns of `share_sums`, shape (..., 3 + L). L is the number of labels that
        could be given, used or not: the value depends on it.

    Returns
    -------
    Coefficient
        P_o as in `fleiss_of`; P_e is the sum of share (1 - share) over the labels, through L - 1.

    Raises
    ------
    ValueError
        When there are fewer than four sums.

    Notes
    -----
    Degenerate cases: L = 1 gives no P_e and no value; all ratings one of several labels give
    P_e = 0 and the value 1, where the kappas have none. P_e is at most 1 / L, so the value lies
    in [-1, 1].
    Source: Gwet (2008), doi:10.1348/000711006X126600; with missing ratings as in Gwet (2014),
    Handbook of Inter-Rater Reliability, 4th edition.
    """
    found = summed(sums, least=4)
    labels = found.shape[-1] - 3
    shares = ratio(found[..., 3:], found[..., 2:3])
    expected = ratio((shares * (1.0 - shares)).sum(axis=-1), labels - 1.0)
    return _corrected(ratio(found[..., 0], found[..., 1]), expected)


def cohen_sums(first: ArrayLike, second: ArrayLike, *, labels: int) -> Floats:
    """What each item adds to the table of the labels of two annotators.

    Parameters
    ----------
    first, second
        Label of each item by either annotator as its position, 0 .. labels - 1, or -1 where it is
        missing; shape (n,) each.
    labels
        Number of labels L, >= 1.

    Returns
    -------
    ndarray
        Shape (n, L * L): 1 at first * L + second, else 0; all 0 where either is missing. Sums are
        the table of Cohen's kappa row by row, and exact.

    Raises
    ------
    ValueError
        When shapes differ, a code is outside its range or not whole, or labels < 1.

    Notes
    -----
    Costs 8 n L^2 bytes, and as many operations in every resample.
    """
    if labels < 1:
        raise ValueError(f"labels must be at least 1, not {labels}")
    codes = [np.asarray(given) for given in (first, second)]
    if codes[0].ndim != 1 or codes[0].shape != codes[1].shape:
        raise ValueError(f"codes must be of one shape (n,), not {codes[0].shape}, {codes[1].shape}")
    # An empty list is an array of floats.
    whole = [np.issubdtype(given.dtype, np.integer) or not len(given) for given in codes]
    if not all(whole) or any(((given < -1) | (given >= labels)).any() for given in codes):
        raise ValueError(f"codes must be whole numbers from -1 to {labels - 1}")
    one, two = (given.astype(np.intp) for given in codes)
    columns = np.zeros((len(one), labels * labels))
    rows = np.flatnonzero((one >= 0) & (two >= 0))
    columns[rows, one[rows] * labels + two[rows]] = 1.0
    return columns


def _tables(sums: ArrayLike) -> Floats:
    found = summed(sums, least=1)
    labels = isqrt(found.shape[-1])
    if labels * labels != found.shape[-1]:
        raise ValueError(f"sums must be a table of L * L counts, not of {found.shape[-1]}")
    return found.reshape(*found.shape[:-1], labels, labels)


def cohen_of(sums: ArrayLike) -> Coefficient:
    """Cohen's kappa of two annotators, each with label frequencies of their own.

    Parameters
    ----------
    sums
        Sums of the columns of `cohen_sums`, shape (..., L * L).

    Returns
    -------
    Coefficient
        P_o is the share of items with equal labels; P_e the sum over the labels of the product of
        the two annotators' shares.

    Raises
    ------
    ValueError
        When the sums are not L * L.

    Notes
    -----
    Calculated from whole numbers, with one division: equal tables give equal values. The value lies
    in [-1, 1] and does not depend on which annotator is first.
    Degenerate cases: both use one and the same label, P_e = 1 and no value; no item that both
    labelled, nothing.
    Source: Cohen (1960), doi:10.1177/001316446002000104.
    """
    tables = _tables(sums)
    n = tables.sum(axis=(-2, -1))
    alike = np.trace(tables, axis1=-2, axis2=-1)
    chance = (tables.sum(axis=-1) * tables.sum(axis=-2)).sum(axis=-1)
    value = ratio(n * alike - chance, n * n - chance)
    return Coefficient(value, ratio(alike, n), ratio(chance, n * n))


def weighted_of(sums: ArrayLike, *, weights: ArrayLike) -> Coefficient:
    """Cohen's weighted kappa: labels that lie far apart disagree more.

    Parameters
    ----------
    sums
        Sums of the columns of `cohen_sums`, shape (..., L * L).
    weights
        How much a pair of labels disagrees, shape (L, L), finite, >= 0, 0 on the diagonal. Only
        their proportions matter.

    Returns
    -------
    Coefficient
        One minus the mean weight over items, through the mean weight expected from the two
        annotators' shares. P_o and P_e are one minus these means, each through the largest weight.

    Raises
    ------
    ValueError
        When the sums are not L * L, or the weights are not as said.

    Notes
    -----
    Exact up to one division for weights that are whole numbers, as those of `linear_weights` and
    `quadratic_weights`; with either of these the value lies in [-1, 1].
    Degenerate cases: where no disagreement is expected (both use one and the same label, or L = 1)
    there is no value; without items nothing.
    Source: Cohen (1968), doi:10.1037/h0026256.
    """
    tables = _tables(sums)
    given = np.asarray(weights, dtype=np.float64)
    if given.shape != tables.shape[-2:]:
        raise ValueError(f"weights must have the shape {tables.shape[-2:]}, not {given.shape}")
    if not np.isfinite(given).all() or (given < 0).any() or np.diagonal(given).any():
        raise ValueError("weights must be finite, not negative, and 0 on the diagonal")
    n = tables.sum(axis=(-2, -1))
    apart = (tables * given).sum(axis=(-2, -1))
    products = tables.sum(axis=-1)[..., :, None] * tables.sum(axis=-2)[..., None, :]
    chance = (products * given).sum(axis=(-2, -1))
    # Weights of 0 alone leave nothing to disagree on: P_o and P_e are 1.
    most = float(given.max()) or 1.0
    return Coefficient(
        _other_share(n * apart, chance),
        _other_share(apart, n * most),
        _other_share(chance, n * n * most),
    )


def _steps(labels: int) -> Floats:
    if labels < 1:
        raise ValueError(f"labels must be at least 1, not {labels}")
    places = np.arange(labels, dtype=np.float64)
    return np.abs(places[:, None] - places[None, :])


def linear_weights(labels: int) -> Floats:
    """Disagreement of two labels in an order: the number of steps between them, shape (L, L).

    Source: Cicchetti and Allison (1971), American Journal of EEG Technology 11, 101-109.
    """
    return _steps(labels)


def quadratic_weights(labels: int) -> Floats:
    """Disagreement of two labels in an order: their number of steps squared, shape (L, L).

    Source: Fleiss and Cohen (1973), doi:10.1177/001316447303300309.
    """
    return _steps(labels) ** 2
