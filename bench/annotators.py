"""What the study of annotators costs, and whether its intervals and its diagnosis hold.

Speed: 100,000 items with three ratings each by 30 annotators in two pools, five labels, four
strata, a scale and a map; 2,000 resamples; the whole report with its sentences and tables. Seconds
are those of the processor. Coverage: how often the 95% interval of each coefficient holds the value
of the population that items are drawn from. Diagnosis: how often disagreement is said to sit in a
label where slips go anywhere, and where one label is not told apart.

    python bench/annotators.py               all of it, some minutes
    python bench/annotators.py --quick       a tenth of the items and of the simulations
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from prereg_judge.cli.common import say
from prereg_judge.ratings import Ratings
from prereg_judge.study import annotators
from prereg_judge.study.annotators_computer import Computer
from prereg_judge.study.annotators_diagnosis import diagnosis_of
from prereg_judge.study.annotators_groups import Group
from prereg_judge.study.metric import MetricRef
from prereg_judge.study.outcomes import AnnotatorsInput, Resampling, StudyInput

SEED = 2024
LABELS = tuple("abcde")
SHARES = {
    "even": np.full(5, 0.2),
    "uneven": np.array([0.5, 0.2, 0.15, 0.1, 0.05]),
}
# How often a rating is another than the true label.
SLIP = 0.2
# Items of the population that stands for all there are.
POPULATION = 400_000

Ints = NDArray[np.int64]


def slipped(generator: np.random.Generator, true: Ints, *, kind: str, shares: Any) -> Ints:
    """A rating of each item: `uniform` and `frequency` slips go anywhere, `one` from and to c."""
    hit = generator.random(len(true)) < SLIP
    if kind == "frequency":
        other = generator.choice(5, size=len(true), p=shares)
    elif kind == "uniform":
        other = generator.integers(5, size=len(true))
    else:
        other = np.where(true == 2, generator.integers(5, size=len(true)), 2)
    return np.where(hit, other, true)


def sample(generator: np.random.Generator, n: int, *, kind: str, shares: Any) -> Ints:
    """Three ratings of each of n items, shape (n, 3)."""
    true = generator.choice(5, size=n, p=shares)
    return np.column_stack([slipped(generator, true, kind=kind, shares=shares) for _ in range(3)])


def ratings_of(codes: Ints, *, people: int = 3, strata: int = 1) -> Ratings:
    """Ratings in two pools, by three of so many annotators an item."""
    n = len(codes)
    item = np.repeat(np.arange(n), 3)
    annotator = (item * 3 + np.tile(np.arange(3), n)) % people
    return Ratings(
        items=tuple(f"i{at}" for at in range(n)),
        strata=tuple(f"s{at % strata}" for at in range(n)),
        annotators=tuple(f"n{at:02d}" for at in range(people)),
        pools=("crowd", "expert"),
        labels=LABELS,
        item=item,
        annotator=annotator,
        pool=(annotator >= people // 2).astype(np.intp),
        label=codes.ravel().astype(np.intp),
        ordered=True,
        values=np.arange(5.0),
        coarse=("a", "b", "low", "low", "low"),
    )


def study(ratings: Ratings, *, resamples: int, seed: int) -> StudyInput:
    """What the study gets."""
    return StudyInput(
        items=(), outcomes={}, calls=(), verdicts=(), ships=None, passes=1, orders=("ab",),
        missing="disagree", decoding="sampled", earlier={},
        resampling=Resampling(resamples, seed, by_stratum=True),
        annotators=AnnotatorsInput(ratings=ratings),
    )  # fmt: skip


def speed(items: int, resamples: int) -> dict[str, Any]:
    """Seconds of the whole report and the peak memory."""
    codes = sample(np.random.default_rng(SEED), items, kind="uniform", shares=SHARES["uneven"])
    data = study(ratings_of(codes, people=30, strata=4), resamples=resamples, seed=SEED)
    times = {}
    listed = 0
    for name, what in (
        ("summary", annotators.summary),
        ("plain_words", annotators.plain_words),
        ("view", annotators.view),
    ):
        start = time.process_time()
        found = what(data)
        times[name] = round(time.process_time() - start, 2)
        listed = len(found) if name == "summary" else listed  # type: ignore[arg-type]
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {
        "items": items, "ratings": 3 * items, "resamples": resamples, "metrics": listed,
        "seconds": times, "peak_megabytes": round(peak / 1024),
    }  # fmt: skip


COVERED = [
    MetricRef.of(name, **params)
    for name, params in (
        ("agreement.rate", {}), ("kappa.cohen", {"annotator": "n00", "other": "n01"}),
        ("kappa.weighted", {"annotator": "n00", "other": "n01", "weights": "quadratic"}),
        ("kappa.fleiss", {}), ("ac1", {}), ("alpha", {"level": "nominal"}),
        ("alpha", {"level": "ordinal"}), ("alpha", {"level": "interval"}),
        ("disagreement.share", {"label": "c"}), ("disagreement.excess", {"label": "c"}),
        ("selection.shift", {"label": "c"}), ("selection.distance", {}), ("soft.entropy", {}),
        ("soft.loss", {"annotator": "n00"}), ("merge.gain", {}), ("merge.hidden.rate", {}),
    )
]  # fmt: skip


def coverage(simulations: int, *, n: int, shares: str) -> dict[str, Any]:
    """Share of simulations whose interval holds the population's value; without interval = not."""
    generator = np.random.default_rng(SEED)
    every = sample(generator, POPULATION, kind="uniform", shares=SHARES[shares])
    whole = study(ratings_of(every), resamples=1, seed=1)
    computer = Computer(StudyInput(**{**whole.__dict__, "resampling": None}))
    truth = {ref: m.value for ref, m in computer.all(COVERED).items()}
    held = dict.fromkeys(COVERED, 0)
    for number in range(simulations):
        codes = sample(generator, n, kind="uniform", shares=SHARES[shares])
        data = study(ratings_of(codes), resamples=1000, seed=number)
        for ref, metric in annotators.compute(data, COVERED).items():
            true, interval = truth[ref], metric.interval
            assert true is not None
            held[ref] += interval is not None and interval.low <= true <= interval.high
    return {
        "items": n, "labels": shares, "simulations": simulations,
        "covered": {str(ref): round(k / simulations, 3) for ref, k in held.items()},
    }  # fmt: skip


def diagnoses(simulations: int) -> Iterator[dict[str, Any]]:
    """How often a label is named, by kind of slip, frequencies of labels and number of items."""
    generator = np.random.default_rng(SEED)
    for kind in ("uniform", "frequency", "one"):
        for shares, p in SHARES.items():
            for n in (100, 400):
                named, right = 0, 0
                for number in range(simulations):
                    codes = sample(generator, n, kind=kind, shares=p)
                    data = study(ratings_of(codes), resamples=1000, seed=number)
                    computer = Computer(data)
                    assert computer.groups is not None
                    found = diagnosis_of(Group(), groups=computer.groups, drawing=computer.drawing)
                    labels = [s.label for s in found.sits_in] if found is not None else []
                    named += bool(labels)
                    right += labels == ["c"]
                yield {
                    "slips": kind, "labels": shares, "items": n, "simulations": simulations,
                    "sits_in": round(named / simulations, 3),
                    "sits_in_c_alone": round(right / simulations, 3),
                }  # fmt: skip


def main() -> None:
    """Print one JSON object a line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--quick", action="store_true", help="a tenth of it")
    quick = parser.parse_args().quick
    items, simulations = (10_000, 40) if quick else (100_000, 400)
    say("the whole report")
    print(json.dumps({"speed": speed(items, 2000)}))
    say("coverage of the intervals")
    for shares in SHARES:
        for n in (50, 200):
            print(json.dumps({"coverage": coverage(simulations, n=n, shares=shares)}))
            sys.stdout.flush()
    say("where disagreement is said to sit")
    for found in diagnoses(simulations):
        print(json.dumps({"diagnosis": found}))


if __name__ == "__main__":
    main()
