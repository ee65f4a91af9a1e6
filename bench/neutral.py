"""How often the study of exchanged references fires where nothing is to be found, and where it is.

Outputs A and B and references gold and C are independent labellings of the same truth, equally
good, so that every difference and every skew is 0: nothing should fire in 95% of simulations, and
95% of the intervals should hold 0. Then gold is a copy of A on some rows, which should be found.

    python bench/neutral.py                     1,000 simulations of each case, half an hour
    python bench/neutral.py --quick             100 of each

Every rate is printed with its 95% Wilson interval.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from prereg_judge.cli.common import say
from prereg_judge.labelled import Confusions, Labelled, MarkForm
from prereg_judge.stats.proportions import wilson_interval
from prereg_judge.study.metric import MetricRef
from prereg_judge.study.outcomes import Resampling, StudyInput, SwapInput
from prereg_judge.study.swap_computer import Computer
from prereg_judge.study.swap_words import skew_tests

ROOT = Path(__file__).parents[1]
NAMES = ("A", "B", "gold", "C")
PLACES, LABELS, STRATA, LEVEL = 8, 4, 3, 0.95
FAMILY = (
    MetricRef.of("delta", output="A"),
    MetricRef.of("delta", output="B"),
    MetricRef.of("margin", reference="gold"),
    MetricRef.of("margin", reference="C"),
    MetricRef.of("interaction"),
)
SKEWS = tuple(MetricRef.of("skew", reference=name) for name in ("gold", "C"))
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")

Marked = NDArray[np.bool_]


@dataclass(frozen=True)
class Case:
    """What is simulated.

    Attributes
    ----------
    name
        In words.
    form
        Spans, or one label an item.
    keep
        How often a labelling marks what is there; for labels, how often it is right.
    copied
        Share of rows on which gold is a copy of A.
    """

    name: str
    form: MarkForm
    keep: float
    copied: float = 0.0


CASES = (
    Case("neutral, spans that are often missed", "spans", 0.6),
    Case("neutral, spans that are seldom missed", "spans", 0.95),
    Case("neutral, labels", "labels", 0.8),
    Case("gold copies A on 5% of rows, spans", "spans", 0.6, 0.05),
    Case("gold copies A on 20% of rows, spans", "spans", 0.6, 0.2),
    Case("gold copies A on 90% of rows, spans", "spans", 0.6, 0.9),
    Case("gold copies A on 20% of rows, labels", "labels", 0.8, 0.2),
)


def marks(case: Case, n: int, generator: np.random.Generator) -> Marked:
    """Which place, or label, each labelling marks on each row, shape (n, 4, places)."""
    if case.form == "labels":
        truth = generator.integers(LABELS, size=(n, 1))
        right = generator.random((n, len(NAMES))) < case.keep
        other = (truth + generator.integers(1, LABELS, size=(n, len(NAMES)))) % LABELS
        said = np.where(right, truth, other)
        found: Marked = said[:, :, None] == np.arange(LABELS)
    else:
        # Items differ in how much there is to find, so that scores vary between items.
        there = generator.random((n, 1, PLACES)) < generator.beta(1, 4, size=(n, 1, 1))
        shape = (n, len(NAMES), PLACES)
        found = np.where(there, generator.random(shape) < case.keep, generator.random(shape) < 0.02)
    copied = generator.random(n) < case.copied
    found[copied, NAMES.index("gold")] = found[copied, NAMES.index("A")]
    return found


def labelled(case: Case, found: Marked) -> Labelled:
    """The same as counts."""
    n = len(found)
    counts = found.astype(np.int64)
    shared = np.einsum("nxp,nyp->nxy", counts, counts)
    none = np.zeros(0, dtype=np.intp)
    every = np.ones(n, dtype=np.bool_)
    return Labelled(
        form=case.form,
        names=NAMES,
        items=tuple(f"i{at}" for at in range(n)),
        unit=np.arange(n),
        strata=tuple(f"s{at % STRATA}" for at in range(n)),
        given=np.ones((n, len(NAMES)), dtype=np.bool_),
        shared={"strict": shared},
        typed=(True,) * len(NAMES),
        kept=dict.fromkeys(("keep_all", "first", "drop", "merge_equal"), every),
        confusions=Confusions(none, none, none, none, none, (), none.astype(np.bool_)),
    )


def computer(of: Labelled, *, resamples: int, seed: int) -> Computer:
    """The study of one simulated table."""
    swap = SwapInput(of, ("A", "B"), ("gold", "C"), "strict", "keep_all", FAMILY)
    return Computer(
        StudyInput(
            items=(), outcomes={}, calls=(), verdicts=(), ships=None, passes=1, orders=("ab",),
            missing="undefined", decoding="greedy", earlier={},
            resampling=Resampling(resamples, seed, by_stratum=True), swap=swap,
        )
    )  # fmt: skip


def events(study: Computer) -> Iterator[str]:
    """What happened in one simulation."""
    skewed = any(p <= 1 - LEVEL for p in skew_tests(study).values())
    if skewed:
        yield "a reference is said to be skewed"
    adjusted = [study(MetricRef(f"{ref.name}.p_holm", ref.params)).value for ref in FAMILY]
    if any(p is not None and p <= 1 - LEVEL for p in adjusted):
        yield "a test of the family, Holm"
    if study(MetricRef.of("reversals.clear.count")).value:
        yield "a reversal, strong reading"
    for ref in (*FAMILY, *SKEWS):
        interval = study(ref).interval
        if interval is None or interval.low <= 0 <= interval.high:
            yield f"the interval of {ref} holds 0"
    clean = study(MetricRef.of("delta", output="A", subset="decontaminated")).interval
    full = study(FAMILY[0]).interval
    if full is not None and full.low > 0:
        yield "the delta of A is positive"
    if clean is not None and clean.low > 0:
        yield "the decontaminated delta of A is positive"


def main() -> None:
    """Simulate and print; write JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--simulations", type=int, default=1_000)
    parser.add_argument("--items", type=int, default=300)
    parser.add_argument("--resamples", type=int, default=400)
    parser.add_argument("--seed", type=int, default=2024)
    parser.add_argument("--quick", action="store_true", help="100 simulations")
    parser.add_argument("--out", type=Path, default=ROOT / "bench/results/neutral.json")
    options = parser.parse_args()
    if any(os.environ.get(name) != "1" for name in THREADS):
        # The libraries read these when they are loaded: begin again with one thread.
        os.execve(
            sys.executable, [sys.executable, *sys.argv], os.environ | dict.fromkeys(THREADS, "1")
        )
    simulations = 100 if options.quick else options.simulations
    print(f"{options.items} items in {STRATA} strata, {options.resamples} resamples")
    results = []
    for number, case in enumerate(CASES):
        seen: Counter[str] = Counter()
        for key in np.random.SeedSequence((options.seed, number)).spawn(simulations):
            generator = np.random.default_rng(key)
            of = labelled(case, marks(case, options.items, generator))
            seed = int(generator.integers(2**31))
            seen.update(events(computer(of, resamples=options.resamples, seed=seed)))
        print(f"\n{case.name}: {simulations} simulations")
        for what, k in sorted(seen.items()):
            low, high = wilson_interval(k, simulations, level=LEVEL)
            print(f"  {what:52} {k / simulations:6.1%}  [{low:.1%}, {high:.1%}]")
            results.append({"case": case.name, "event": what, "k": k, "n": simulations,
                            "low": low, "high": high})  # fmt: skip
        for what in ("a reference is said to be skewed", "a test of the family, Holm"):
            if what not in seen:
                _, high = wilson_interval(0, simulations, level=LEVEL)
                print(f"  {what:52} {0:6.1%}  [0.0%, {high:.1%}]")
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")
    say(f"wrote {options.out}")


if __name__ == "__main__":
    main()
