"""How often a percentile interval covers: samples from populations whose value is known.

Each population is drawn from many times at several numbers of items; the share of samples whose
interval holds the true value is the coverage, shown with its own Wilson interval. A sample without
an interval (`stats.resample.percentile_interval` gives none where all resamples agree) is counted
apart and neither covers nor misses. Then sparse items and small strata, through the studies
themselves, with what the resamples alone would have said; and the spread of shifts between pools
that do not differ. See docs/resampling.md.

    python bench/coverage.py                          2,000 samples each, 500 through studies
    python bench/coverage.py --only sparse shifts     some of the parts
    python bench/coverage.py --samples 200            a quick look
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from prereg_judge.cli.common import say
from prereg_judge.stats.proportions import wilson_interval
from prereg_judge.stats.ranking import kendall_tau_b
from prereg_judge.stats.resample import Resampler, percentile_interval, ratio
from prereg_judge.study import judge_pools, leaderboard, pairwise
from prereg_judge.study.metric import Interval, MetricRef
from prereg_judge.study.outcomes import (
    ItemView,
    Outcome,
    PairScale,
    Resampling,
    StudyInput,
    TableInput,
    TrialKey,
)
from prereg_judge.votes import MISSING, SIDES, SlotVerdicts, VoteCounts
from prereg_judge.words import Order

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


THREE = PairScale({"A": 1, "tie": 0, "B": -1})
NAMES = {side: name for name, side in THREE.sides.items()}
BOTH: tuple[Order, Order] = ("ab", "ba")
NOTHING = StudyInput(
    (), {}, (), tuple(THREE.sides), None, 1, BOTH, "disagree", "sampled", {}, pair=THREE
)


def verdicts(sides: Array, *, strata: int | None = None) -> StudyInput:
    """What a judge said of the answers, shape (n, orders, passes); strata of so many items."""
    items, outcomes = [], {}
    for i, orders in enumerate(sides.tolist()):
        stratum = None if strata is None else f"s{i // strata}"
        items.append(ItemView("real", f"p{i}", f"content-{i}", stratum=stratum))
        for order, passes in zip(BOTH, orders, strict=True):
            for number, side in enumerate(passes, start=1):
                outcomes[TrialKey("real", f"p{i}", order, number)] = Outcome(NAMES[side], None, 1)
    return replace(NOTHING, items=tuple(items), outcomes=outcomes, passes=sides.shape[2])


@dataclass(frozen=True)
class Few:
    """A mean over items, as a study gives it.

    `draw` gives from (generator, n) what the study is given, and the value of each item, whose
    mean is the metric.
    """

    name: str
    ref: MetricRef
    study: Any
    draw: Callable[[np.random.Generator, int], tuple[StudyInput, Array]]
    truth: float
    sizes: tuple[int, ...]
    strata: int | None = None


def sharp(generator: np.random.Generator, n: int) -> tuple[StudyInput, Array]:
    """One item in 100 is reversed, one in 10 is a coin toss at every verdict, the rest is firm."""
    kind = generator.choice(3, n, p=[0.89, 0.10, 0.01])[:, None, None]
    coins = generator.choice([1, -1], (n, 2, 2))
    turned = np.array([1, -1])[None, :, None]
    sides = np.where(kind == 1, coins, np.where(kind == 2, turned, np.ones((n, 2, 2), int)))
    same = sides[:, 0, :, None] == sides[:, 1, None, :]
    swap, repeat = 1 - same.mean(axis=(1, 2)), (sides[:, :, 0] != sides[:, :, 1]).mean(axis=1)
    return verdicts(sides), swap - repeat


def moving(first: float, away: float, *, strata: int | None = None) -> Any:
    """Judges whose verdicts move to the first slot, or away from it, on so many of all items."""

    def draw(generator: np.random.Generator, n: int) -> tuple[StudyInput, Array]:
        moved = generator.choice([1, -1, 0], n, p=[first, away, 1 - first - away])
        stays = generator.choice([1, -1, 0], n)
        sides = np.where(moved[:, None] == 0, stays[:, None], moved[:, None] * [1, -1])
        return verdicts(sides[:, :, None], strata=strata), moved / 2

    return draw


def leaning(generator: np.random.Generator, n: int) -> tuple[StudyInput, Array]:
    """The pools differ on one item in 20; there the judge is with one or the other, or neither."""
    both, one = generator.choice(3, n), generator.choice(4, n, p=[0.95, 0.03, 0.015, 0.005])
    judge = (both + np.array([0, 0, 1, 2])[one]) % 3
    other = (both + (one > 0)) % 3
    counts = np.eye(3, dtype=np.int64)[np.column_stack([both, other])]
    names = tuple(f"i{i}" for i in range(n))
    said = np.array([1, -1, 0])[judge]
    table = TableInput(
        {"stored": VoteCounts(names, ("one", "two"), SIDES, counts)},
        "stored",
        ("one", "two"),
        "tie",
        {"judge": {"stored": SlotVerdicts("judge", names, said, np.full(n, MISSING))}},
    )
    step = (both == judge).astype(int) - (other == judge)
    return replace(NOTHING, table=table, resolve="first"), step


BIAS = MetricRef.of("real.order.bias.difference", **{"pass": 1})
EXCESS = MetricRef.of("real.order.excess.difference")
LEAN = MetricRef.of("lean.difference", judge="judge")


def sparse() -> list[Few]:
    sizes = (20, 64, 200)
    return [
        Few("order.excess, a sharp judge", EXCESS, pairwise, sharp, 0.01, sizes),
        Few("order.bias, 90% unmoved", BIAS, pairwise, moving(0.06, 0.04), 0.01, sizes),
        Few("lean, pools differ on 5%", LEAN, judge_pools, leaning, 0.015, sizes),
    ]


def stratified() -> list[Few]:
    """Strata that say nothing of the items in them, so that only their size matters."""
    found = []
    for size in (2, 4, 8, 16):
        draw = moving(0.45, 0.30, strata=size)
        found.append(Few(f"order.bias, strata of {size}", BIAS, pairwise, draw, 0.075, (80,), size))
    return found


def sides_missed(intervals: list[tuple[float, float] | None], truth: float) -> dict[str, int]:
    """How many lie wholly below the truth, how many wholly above it, and how many are none."""
    given = [limits for limits in intervals if limits is not None]
    return {
        "none": len(intervals) - len(given),
        "below": sum(high < truth - 1e-12 for _, high in given),
        "above": sum(low > truth + 1e-12 for low, _ in given),
    }


def measure_few(few: Few, n: int, samples: int) -> dict[str, Any]:
    """Misses on each side, of the study's interval and of the resamples alone."""
    generator = np.random.default_rng([SEED, n])
    shown: list[tuple[float, float] | None] = []
    alone: list[tuple[float, float] | None] = []
    widened = 0
    for number in range(samples):
        data, values = few.draw(generator, n)
        data = replace(data, resampling=Resampling(RESAMPLES, number, few.strata is not None))
        metric = few.study.compute(data, [few.ref])[few.ref]
        assert abs(metric.value - values.mean()) < 1e-9
        interval: Interval | None = metric.interval
        shown.append(None if interval is None else (interval.low, interval.high))
        widened += interval is not None and "alike" in interval.method
        if few.strata is not None:
            continue  # drawing small strata is slow, and these items are not sparse
        means = Resampler(n, RESAMPLES, number).totals(values[:, None])[:, 0] / n
        found = percentile_interval(means, level=LEVEL)
        alone.append(None if found is None else (found.low, found.high))
    return {
        "population": few.name,
        "truth": few.truth,
        "n": n,
        "samples": samples,
        "widened": widened,
        "shown": sides_missed(shown, few.truth),
        "resamples_alone": sides_missed(alone, few.truth) if alone else None,
    }


def few_table(samples: int, *, of: Callable[[], list[Few]]) -> Iterator[dict[str, Any]]:
    """Every such population at its numbers of items, printed as they come."""
    for few in of():
        print(f"{few.name}: {few.truth:g}")
        for n in few.sizes:
            found = measure_few(few, n, samples)
            yield found
            for name in ("shown", "resamples_alone"):
                missed = found[name]
                if missed is None:
                    continue
                given = samples - missed["none"]
                below, above = (missed[side] / given for side in ("below", "above"))
                print(
                    f"  {n:5} items, {name:15}: below the truth {below:.3f}, above {above:.3f} of "
                    f"{given}; none {missed['none']}",
                    flush=True,
                )
            print(f"  {n:5} items, widened or all alike: {found['widened']} of {samples}")


def alike_pools(generator: np.random.Generator, n: int) -> StudyInput:
    """Two pools that vote from the same chances on six models' answers; none of them shifts."""
    rows = boards(generator, n, sources=(APART[0], APART[0])).reshape(n, 3, -1)
    match = rows[:, 0].argmax(axis=1)
    credit = rows[np.arange(n), 1:, match]
    label = np.where(credit == 1, 0, np.where(credit == 0, 1, 2))
    counts = VoteCounts(
        items=tuple(f"i{i}" for i in range(n)),
        pools=("one", "two"),
        labels=SIDES,
        counts=np.eye(3, dtype=np.int64)[label],
        models=tuple((f"m{a}", f"m{b}") for a, b in MATCHES[match]),
    )
    table = TableInput({"stored": counts}, "stored", ("one", "two"), "tie")
    return replace(NOTHING, table=table)


def shifts(samples: int) -> Iterator[dict[str, Any]]:
    """What is measured of shifts where there are none, printed as they come."""
    refs = [MetricRef.of(name) for name in ("shift.sd", "displacement.pairs")]
    print("six models, pools that do not differ: the truth is 0")
    for n in (250, 1_000, 4_000):
        generator = np.random.default_rng([SEED, n])
        found = [leaderboard.compute(alike_pools(generator, n), refs) for _ in range(samples)]
        means = {ref.name: float(np.mean([m[ref].value for m in found])) for ref in refs}
        yield {"population": "shifts, none", "n": n, "samples": samples, **means}
        told = ", ".join(f"{name} {value:.3f}" for name, value in means.items())
        print(f"  {n:5} items: mean {told} of {samples} samples", flush=True)


# Each with its part of the samples: a whole study is slower than an array.
PARTS: dict[str, tuple[Callable[[int], Iterator[dict[str, Any]]], int]] = {
    "covers": (table, 1),
    "sparse": (partial(few_table, of=sparse), 4),
    "strata": (partial(few_table, of=stratified), 4),
    "shifts": (shifts, 4),
}


def main() -> None:
    """Simulate, print and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--samples", type=int, default=2_000)
    parser.add_argument("--out", type=Path, default=ROOT / "bench/results/coverage.json")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS))
    options = parser.parse_args()
    parts = [PARTS[name] for name in options.only]
    rows = [row for part, share in parts for row in part(max(1, options.samples // share))]
    result = {"level": LEVEL, "resamples": RESAMPLES, "rows": rows}
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    say(f"wrote {options.out}")


if __name__ == "__main__":
    main()
