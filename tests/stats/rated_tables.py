"""Tables of ratings that the tests of coefficients share."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Codes = NDArray[np.intp]


@st.composite
def counts_tables(draw: st.DrawFn, *, labels: tuple[int, int] = (1, 5)) -> Floats:
    """How often each of some labels was given to each of up to nine items."""
    width = draw(st.integers(*labels))
    row = st.lists(st.integers(0, 3), min_size=width, max_size=width)
    rows = draw(st.lists(row, max_size=9))
    return np.asarray(rows, dtype=np.float64).reshape(len(rows), width)


@st.composite
def code_pairs(draw: st.DrawFn) -> tuple[Codes, Codes, int]:
    """Labels of up to twelve items by two annotators, -1 for none; how many labels there are."""
    labels = draw(st.integers(1, 4))
    code = st.integers(-1, labels - 1)
    pairs = draw(st.lists(st.tuples(code, code), max_size=12))
    both = np.asarray(pairs, dtype=np.intp).reshape(len(pairs), 2)
    return both[:, 0], both[:, 1], labels


def random_ratings(
    rng: np.random.Generator, *, raters: int, items: int, labels: int, missing: float
) -> Floats:
    """Labels as numbers from 0, shape (raters, items), NaN where missing; half follow the item."""
    own = rng.integers(labels, size=(raters, items))
    found = np.where(rng.random((raters, items)) < 0.5, rng.integers(labels, size=items), own)
    return np.where(rng.random((raters, items)) < missing, np.nan, found.astype(np.float64))


def counts_of(ratings: Floats, labels: int) -> Floats:
    """The same ratings as counts, shape (items, labels)."""
    return np.stack([(ratings == label).sum(axis=0) for label in range(labels)], axis=1) * 1.0


def ratings_of(row: Floats) -> list[int]:
    """The labels of one item, one entry a rating."""
    return [label for label, count in enumerate(row) for _ in range(int(count))]


def expanded(table: list[list[int]]) -> tuple[Codes, Codes]:
    """The two annotators' labels behind a square table of counts."""
    cells = [(i, j) for i, row in enumerate(table) for j, k in enumerate(row) for _ in range(k)]
    both = np.asarray(cells, dtype=np.intp)
    return both[:, 0], both[:, 1]
