"""How often a percentile interval covers: samples from populations whose value is known.

Each population is drawn from many times at several numbers of items; the share of samples whose
interval holds the true value is the coverage, shown with its own Wilson interval. A sample without
an interval (`stats.resample.percentile_interval` gives none where all resamples agree) is counted
apart and neither covers nor misses. See docs/resampling.md.

    python bench/coverage.py                 2,000 samples each (minutes)
    python bench/coverage.py --samples 200   a quick look
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from prereg_judge.cli.common import say
from prereg_judge.stats.proportions import wilson_interval
from prereg_judge.stats.ranking import kendall_tau_b
from prereg_judge.stats.resample import Resampler, percentile_interval, ratio

ROOT = Path(__file__).parents[1]
LEVEL, RESAMPLES, SEED = 0.95, 1_000, 7
SIZES = (20, 50, 100, 300, 1_000)

Array = NDArray[Any]
Draw = Callable[[np.random.Generator, int], Array]


@dataclass(frozen=True)
class Population:
    """What is drawn, what is computed, and what is true."""

    name: str
    draw: Draw  # (generator, n) to rows of sums, shape (n, m)
    value: Callable[[Array], Array]  # sums (R, m) to values (R,)
    truth: float
    smallest: int = 0


# Both judges right, only the first, only the second, neither.
SHARES = np.array([0.50, 0.17, 0.10, 0.23])


def paired_shares(generator: np.random.Generator, n: int) -> Array:
    """Two judges on the same items: who is right."""
    which = generator.choice(4, n, p=SHARES)
    return np.column_stack([which <= 1, (which == 0) | (which == 2), np.ones(n)]).astype(float)


# Pairs of votes on an item, and how often an item has so many.
PAIRS, OFTEN = np.array([1, 3, 6, 10]), np.array([0.5, 0.3, 0.15, 0.05])
# Items differ in how contested they are: Beta(1.2, 2.2), whose mean is the truth.
CONTESTED = (1.2, 2.2)


def disagreement(generator: np.random.Generator, n: int) -> Array:
    """Pairs of votes that differ, of the pairs on each item."""
    pairs = generator.choice(PAIRS, n, p=OFTEN)
    return np.column_stack([generator.binomial(pairs, generator.beta(*CONTESTED, n)), pairs])


MATCHES = np.array(list(combinations(range(6), 2)))
APART = (np.array([1.2, 0.7, 0.3, -0.2, -0.7, -1.3]), np.array([1.2, 0.3, 0.7, -0.2, -0.7, -1.3]))
CLOSE = (np.array([0.5, 0.4, 0.3, 0.2, 0.1, 0.0]), np.array([0.5, 0.3, 0.4, 0.2, 0.0, 0.1]))
WIDE = (APART[0], 0.8 * APART[0])
TIES = 0.2


def wins(strengths: Array) -> Array:
    """Probability that the first wins, of each pair of models; the rest but for ties is losses."""
    found: Array = (1 - TIES) / (1 + np.exp(-(strengths[MATCHES] @ [1, -1])))
    return found


def boards(generator: np.random.Generator, n: int, *, sources: tuple[Array, Array]) -> Array:
    """Items are pairs of models; two label sources say who wins. Shape (n, 3 x pairs)."""
    match = generator.integers(len(MATCHES), size=n)
    rows = np.zeros((n, 3, len(MATCHES)))
    rows[np.arange(n), 0, match] = 1.0
    for at, strengths in enumerate(sources, start=1):
        draw, win = generator.random(n), wins(strengths)[match]
        credit = np.where(draw < win, 1.0, np.where(draw < win + TIES, 0.5, 0.0))
        rows[np.arange(n), at, match] = credit
    return rows.reshape(n, -1)


def tau(sums: Array) -> Array:
    """Tau between the boards of mean credit that the two sources give."""
    met, *won = np.moveaxis(sums.reshape(len(sums), 3, len(MATCHES)), 1, 0)
    first, second = (np.eye(6)[MATCHES[:, end]] for end in (0, 1))
    credit = [ratio(w @ first + (met - w) @ second, met @ (first + second)) for w in won]
    return kendall_tau_b(*credit)


def board_population(name: str, sources: tuple[Array, Array]) -> Population:
    means = [np.ones(len(MATCHES)), *(wins(s) + TIES / 2 for s in sources)]
    truth = float(tau(np.concatenate(means)[None])[0])

    def draw(generator: np.random.Generator, n: int) -> Array:
        return boards(generator, n, sources=sources)

    return Population(name, draw, tau, truth, smallest=50)


def populations() -> list[Population]:
    return [
        Population(
            "difference of paired shares",
            paired_shares,
            lambda sums: (sums[:, 0] - sums[:, 1]) / sums[:, 2],
            float(SHARES[1] - SHARES[2]),
        ),
        Population(
            "pair disagreement",
            disagreement,
            lambda sums: ratio(sums[:, 0], sums[:, 1]),
            CONTESTED[0] / sum(CONTESTED),
        ),
        board_population("tau, models apart, one pair reversed", APART),
        board_population("tau, models apart, same order", WIDE),
        board_population("tau, models close, two pairs reversed", CLOSE),
    ]


def measure(population: Population, n: int, samples: int) -> dict[str, Any]:
    """Coverage of one population at one number of items."""
    generator = np.random.default_rng([SEED, n])
    covered = none = outside = 0
    widths = []
    for number in range(samples):
        rows = population.draw(generator, n)
        drawn = population.value(Resampler(n, RESAMPLES, number).totals(rows))
        found = percentile_interval(drawn, level=LEVEL)
        if found is None:
            none += 1
            continue
        # Limits of a discrete statistic are exact; the tolerance is for their last digit.
        covered += found.low - 1e-12 <= population.truth <= found.high + 1e-12
        estimate = float(population.value(rows.sum(axis=0)[None])[0])
        outside += not found.low <= estimate <= found.high
        widths.append(found.high - found.low)
    given = samples - none
    low, high = wilson_interval(covered, given, level=0.95) if given else (None, None)
    return {
        "population": population.name,
        "truth": population.truth,
        "n": n,
        "samples": samples,
        "no_interval": none,
        "covered": covered,
        "coverage": covered / given if given else None,
        "wilson": [low, high],
        "estimate_outside": outside,
        "median_width": float(np.median(widths)) if widths else None,
    }


def table(samples: int) -> Iterator[dict[str, Any]]:
    """Every population at every number of items, printed as they come."""
    for population in populations():
        print(f"{population.name}: {population.truth:.3f}")
        for n in SIZES:
            if n < population.smallest:
                continue
            found = measure(population, n, samples)
            yield found
            if found["coverage"] is None:
                print(f"  {n:5} items: no interval in any of {samples} samples")
                continue
            low, high = found["wilson"]
            given, width = samples - found["no_interval"], found["median_width"]
            print(
                f"  {n:5} items: {found['coverage']:.3f} [{low:.3f}, {high:.3f}] of {given} "
                f"intervals, median width {width:.3f}; none {found['no_interval']}, "
                f"estimate outside {found['estimate_outside']}",
                flush=True,
            )


def main() -> None:
    """Simulate, print and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--samples", type=int, default=2_000)
    parser.add_argument("--out", type=Path, default=ROOT / "bench/results/coverage.json")
    options = parser.parse_args()
    rows = list(table(options.samples))
    result = {"level": LEVEL, "resamples": RESAMPLES, "rows": rows}
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    say(f"wrote {options.out}")


if __name__ == "__main__":
    main()
