"""Published tables of ratings with the coefficients that were printed for them."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from prereg_judge.stats.agreement import (
    Coefficient,
    ac1_of,
    agreement_of,
    cohen_of,
    cohen_sums,
    fleiss_of,
    linear_weights,
    pair_sums,
    quadratic_weights,
    share_sums,
    weighted_of,
)
from prereg_judge.stats.alpha import (
    interval_alpha_of,
    interval_alpha_sums,
    nominal_alpha_of,
    nominal_alpha_sums,
    ordinal_alpha_of,
    ordinal_alpha_sums,
)
from prereg_judge.stats.landis_koch import landis_koch
from stats.rated_tables import expanded

Table = list[list[int]]

# Krippendorff (2011), Computing Krippendorff's Alpha-Reliability, example C: an item a word, an
# observer a place, `.` for none. Gwet (2014) uses the same table.
TWELVE = "11.1 2232 3333 3333 2222 1234 4444 1121 2222 .555 ..11 ..3."

# Six psychiatrists sort 30 patients: Fleiss (1971), doi:10.1037/h0031619, table 1. Depression,
# personality disorder, schizophrenia, neurosis, other; the ratings of a patient a word.
THIRTY = (
    "444444 222555 233335 555555 222444 113333 333355 113334 114444 555555 "
    "144444 124444 222333 144444 224445 333335 111455 111112 224444 133555 "
    "555555 244444 224555 114444 144445 222224 111155 224444 133333 555555"
)

# Two judges, 200 patients: Cohen (1968), doi:10.1037/h0026256, table 1.
COHEN_1968 = [[88, 10, 2], [14, 40, 6], [18, 10, 12]]


def counts(items: str, labels: str) -> NDArray[np.float64]:
    """How often each label was given to each item, a word an item."""
    rows = [[item.count(label) for label in labels] for item in items.split()]
    return np.asarray(rows, dtype=np.float64)


def cohen(table: Table) -> Coefficient:
    """Cohen's kappa of a table of counts, by way of the two annotators' labels."""
    return cohen_of(cohen_sums(*expanded(table), labels=len(table)).sum(axis=0))


def weighted(table: Table, weights: NDArray[np.float64] | Table) -> float:
    """Weighted kappa of a table of counts."""
    sums = cohen_sums(*expanded(table), labels=len(table)).sum(axis=0)
    return float(weighted_of(sums, weights=weights).value)


def nominal(found: NDArray[np.float64]) -> float:
    """Nominal alpha of counts."""
    return float(nominal_alpha_of(nominal_alpha_sums(found).sum(axis=0)))


def test_krippendorffs_four_observers() -> None:
    """Krippendorff (2011), example C and its other metrics: nominal 0.743, ordinal 0.815, interval
    0.849. The first two are also in the documentation of the package krippendorff.
    """
    found = counts(TWELVE, "12345")
    assert round(nominal(found), 3) == 0.743
    assert round(float(ordinal_alpha_of(ordinal_alpha_sums(found).sum(axis=0))), 3) == 0.815
    sums = interval_alpha_sums(found, values=[1, 2, 3, 4, 5]).sum(axis=0)
    assert round(float(interval_alpha_of(sums)), 3) == 0.849


@pytest.mark.parametrize(
    ("one", "two", "labels", "alpha"),
    [("0100000010", "1110010000", "01", 0.095), ("aabbdcccedda", "babbbccceddd", "abcde", 0.692)],
)
def test_krippendorffs_two_observers(one: str, two: str, labels: str, alpha: float) -> None:
    """Krippendorff (2011), examples A and B: two observers, two and five labels."""
    items = " ".join(a + b for a, b in zip(one, two, strict=True))
    assert round(nominal(counts(items, labels)), 3) == alpha


def test_three_coders_with_most_ratings_missing() -> None:
    """Wikipedia, Krippendorff's alpha: three coders, 15 units of which 12 have a pair: nominal
    0.691, interval 0.811; to six places in the documentation of the package krippendorff.
    """
    coders = [".....34121133.3", "1.213343.......", "..21344.21133.4"]
    found = counts(" ".join("".join(unit) for unit in zip(*coders, strict=True)), "1234")
    assert round(nominal(found), 6) == 0.691358
    sums = interval_alpha_sums(found, values=[1, 2, 3, 4]).sum(axis=0)
    assert round(float(interval_alpha_of(sums)), 6) == 0.810845


def test_gwets_twelve_subjects() -> None:
    """Overview of the R package irrCAC (data cac.raw4raters, of Gwet 2014, 4th edition, p. 120):
    P_o 0.8181818; AC1 0.77544 with P_e 0.1903212; Fleiss 0.76117 with P_e 0.2387153; alpha 0.74342.
    """
    found = counts(TWELVE, "12345")
    sums = share_sums(found).sum(axis=0)
    ac1, fleiss = ac1_of(sums), fleiss_of(sums)
    assert round(float(ac1.observed), 7) == round(float(fleiss.observed), 7) == 0.8181818
    assert (round(float(ac1.value), 5), round(float(ac1.expected), 7)) == (0.77544, 0.1903212)
    assert (round(float(fleiss.value), 5), round(float(fleiss.expected), 7)) == (0.76117, 0.2387153)
    assert round(nominal(found), 5) == 0.74342


def test_gwets_six_raters() -> None:
    """Overview of irrCAC (data distrib.6raters, the first 15 patients of Fleiss 1971): P_o
    0.5511111; AC1 0.4448007, P_e 0.1914815; Fleiss 0.4139265, P_e 0.2340741; alpha 0.4204384.
    """
    found = counts(THIRTY, "12345")[:15]
    sums = share_sums(found).sum(axis=0)
    ac1, fleiss = ac1_of(sums), fleiss_of(sums)
    assert round(float(ac1.observed), 7) == 0.5511111
    assert (round(float(ac1.value), 7), round(float(ac1.expected), 7)) == (0.4448007, 0.1914815)
    assert (round(float(fleiss.value), 7), round(float(fleiss.expected), 7)) == (
        0.4139265,
        0.2340741,
    )
    assert round(nominal(found), 7) == 0.4204384


def test_gwets_abstractors() -> None:
    """Overview of irrCAC (data cont3x3abstractors): Cohen 0.7964094, Scott's pi 0.7962397, which is
    Fleiss' kappa of two annotators, AC1 0.8493305, alpha 0.7972585, agreement 0.89.
    """
    table = [[13, 0, 0], [0, 20, 7], [0, 4, 56]]
    one, two = expanded(table)
    found = np.eye(3)[one] + np.eye(3)[two]
    sums = share_sums(found).sum(axis=0)
    assert round(float(cohen(table).value), 7) == 0.7964094
    assert round(float(fleiss_of(sums).value), 7) == 0.7962397
    assert round(float(ac1_of(sums).value), 7) == 0.8493305
    assert round(nominal(found), 7) == 0.7972585
    assert float(agreement_of(pair_sums(found).sum(axis=0))) == 0.89


def test_fleiss_psychiatrists() -> None:
    """Fleiss (1971): kappa 0.430 for 30 patients; 0.4302445 by kappam.fleiss of the R package irr,
    as quoted in the tests of statsmodels.
    """
    found = fleiss_of(share_sums(counts(THIRTY, "12345")).sum(axis=0))
    assert round(float(found.value), 7) == 0.4302445


def test_fleiss_fourteen_raters() -> None:
    """Wikipedia, Fleiss' kappa, worked example of 14 raters and ten subjects: kappa 0.210 from P_o
    0.378 and P_e 0.213; the shares of agreeing pairs of the subjects are printed as well.
    """
    rows = (
        "0 0 0 0 14, 0 2 6 4 2, 0 0 3 5 6, 0 3 9 2 0, 2 2 8 1 1, "
        "7 7 0 0 0, 3 2 6 3 0, 2 5 3 2 2, 6 5 2 1 0, 0 2 2 3 7"
    )
    columns = share_sums([[int(count) for count in row.split()] for row in rows.split(",")])
    found = fleiss_of(columns.sum(axis=0))
    assert [round(float(share), 3) for share in columns[:, 0]] == [
        *(1.0, 0.253, 0.308, 0.44, 0.33),
        *(0.462, 0.242, 0.176, 0.286, 0.286),
    ]
    assert (round(float(found.observed), 3), round(float(found.expected), 3)) == (0.378, 0.213)
    assert round(float(found.value), 3) == 0.210


@pytest.mark.parametrize(
    ("table", "observed", "expected", "kappa"),
    [
        ([[20, 5], [10, 15]], 0.7, 0.5, 0.4),
        ([[45, 15], [25, 15]], 0.6, 0.54, 0.1304),
        ([[25, 35], [5, 35]], 0.6, 0.46, 0.2593),
    ],
)
def test_cohens_kappa_of_the_encyclopedia(
    table: Table, observed: float, expected: float, kappa: float
) -> None:
    """Wikipedia, Cohen's kappa: the worked example, and two tables of equal agreement."""
    found = cohen(table)
    assert (float(found.observed), float(found.expected)) == (observed, expected)
    assert round(float(found.value), 4) == kappa


@pytest.mark.parametrize(
    ("table", "kappa", "ac1"),
    [([[40, 9], [6, 45]], 0.70, 0.70), ([[80, 10], [5, 5]], 0.32, 0.81)],
)
def test_the_paradox_of_one_sided_labels(table: Table, kappa: float, ac1: float) -> None:
    """Feinstein and Cicchetti (1990), doi:10.1016/0895-4356(90)90158-L: agreement is 0.85 in both
    tables, kappa 0.70 and 0.32. AC1 was calculated for this test by hand, and hardly moves.
    """
    one, two = expanded(table)
    found = cohen(table)
    assert float(found.observed) == 0.85
    assert round(float(found.value), 2) == kappa
    sums = share_sums(np.eye(2)[one] + np.eye(2)[two]).sum(axis=0)
    assert round(float(ac1_of(sums).value), 2) == ac1


@pytest.mark.parametrize(
    ("weights", "kappa"),
    [
        ([[0, 1, 1], [1, 0, 1], [1, 1, 0]], 0.492),
        ([[0, 1, 3], [1, 0, 6], [3, 6, 0]], 0.348),
        ([[0, 6, 3], [6, 0, 1], [3, 1, 0]], 0.574),
        ([[0, 1, 2], [1, 0, 2], [4, 6, 0]], 0.353),
    ],
)
def test_cohens_weighted_kappa(weights: Table, kappa: float) -> None:
    """Cohen (1968): the kappa of his table, weighted as in it, with two weights interchanged, and
    with unequal weights either way. Table and values as quoted in the R package DMAR.
    """
    assert round(weighted(COHEN_1968, weights), 3) == kappa


def test_weighted_kappa_of_sas() -> None:
    """Output of SAS that the tests of statsmodels quote: simple 0.4842, linearly weighted 0.4701;
    one annotator never used the first label.
    """
    table = [[0, 4, 1], [0, 8, 0], [0, 1, 5]]
    assert round(float(cohen(table).value), 4) == 0.4842
    assert round(weighted(table, linear_weights(3)), 4) == 0.4701


def test_weighted_kappa_of_irr() -> None:
    """R package irr, kappa2 on raters 2 and 3 of its data anxiety, as quoted in the tests of
    statsmodels: -0.006289308, linear 0.1459075, quadratic 0.2520325. Five labels were used.
    """
    table = [[0, 0, 1, 0, 0], [4, 0, 1, 0, 0], [2, 3, 3, 0, 0], [0, 2, 0, 1, 1], [1, 0, 0, 1, 0]]
    assert round(float(cohen(table).value), 9) == -0.006289308
    assert round(weighted(table, linear_weights(5)), 7) == 0.1459075
    assert round(weighted(table, quadratic_weights(5)), 7) == 0.2520325


def test_the_guides_example() -> None:
    """*Benchmark Design*, step 3: P_o 0.80 and P_e 0.60 x 0.55 + 0.40 x 0.45 = 0.51 give kappa
    0.59, by convention moderate. The table is the only one of 200 items with these shares.
    """
    found = cohen([[95, 25], [15, 65]])
    assert float(found.observed) == 0.80
    assert float(found.expected) == 0.51
    assert round(float(found.value), 2) == 0.59
    assert landis_koch(float(found.value)) == "moderate"


@pytest.mark.parametrize(
    ("low", "high", "word"),
    [
        (-1.00, -0.01, "poor"),
        (0.00, 0.20, "slight"),
        (0.21, 0.40, "fair"),
        (0.41, 0.60, "moderate"),
        (0.61, 0.80, "substantial"),
        (0.81, 1.00, "almost perfect"),
    ],
)
def test_words_of_landis_and_koch(low: float, high: float, word: str) -> None:
    """Landis and Koch (1977), doi:10.2307/2529310, p. 165: both limits of every row."""
    assert landis_koch(low) == landis_koch(high) == word
