"""*Same Output, Different Gold*: the whole study on real spans, through the commands, recounted.

The rows are the Toxic Spans corpus of SemEval 2021 task 5 (Pavlopoulos et al. 2021,
doi:10.18653/v1/2021.semeval-1.6): three crowd labellings each, and the delivered gold, whose spans
have no types. What the commands print is compared with a count in plain Python of the raw file, on
lists of rows that are drawn here by the rule that `stats.resample` states.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tabling import band, corpus, lock_tables, metric, scored, with_corpus

SPANS = "spans/toxic_spans.jsonl"
RESAMPLES, SEED = 200, 20_261_201
OUTPUTS, REFERENCES = ("A", "B"), ("gold", "C")
PAIR, TO_C = {"output": "A", "other": "B"}, {"reference": "C"}
Params = Mapping[str, str]
Statistic = Callable[[Sequence[int]], float]
FAMILY: list[dict[str, Any]] = [
    {"metric": "delta", "output": "A"},
    {"metric": "delta", "output": "B"},
    {"metric": "margin", "reference": "gold"},
    {"metric": "interaction"},
]


@dataclass
class Recount:
    """The raw rows, counted without any part of the study.

    Attributes
    ----------
    typed
        Whether the type of a mark counts.
    rows
        The rows that are looked at, as positions in the file.
    """

    typed: bool
    rows: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        lines = corpus(SPANS).read_text(encoding="utf-8").splitlines()
        self.raw = [json.loads(line) for line in lines]
        self.rows = list(range(len(self.raw)))
        width = 3 if self.typed else 2
        self.sets = [
            {
                name: {tuple(mark[:width]) for mark in marks}
                for name, marks in {**row["labellings"], "gold": row["gold"]}.items()
            }
            for row in self.raw
        ]
        self._counts: dict[tuple[str, str], list[int]] = {}

    def count(self, one: str, other: str) -> list[int]:
        """Marks that two labellings share, row by row."""
        if (one, other) not in self._counts:
            self._counts[one, other] = [len(sets[one] & sets[other]) for sets in self.sets]
        return self._counts[one, other]

    def f1(self, rows: Sequence[int], output: str, reference: str) -> float:
        """Micro-F1 over a list of rows, some of them several times."""
        shared, mine, theirs = (
            sum(map(self.count(*pair).__getitem__, rows))
            for pair in ((output, reference), (output, output), (reference, reference))
        )
        return 2 * shared / (mine + theirs)

    def margin(self, rows: Sequence[int], reference: str) -> float:
        """F1 of A minus F1 of B."""
        return self.f1(rows, "A", reference) - self.f1(rows, "B", reference)

    def delta(self, rows: Sequence[int], output: str) -> float:
        """F1 under the delivered gold minus F1 under C."""
        return self.f1(rows, output, "gold") - self.f1(rows, output, "C")

    def interaction(self, rows: Sequence[int]) -> float:
        """The margin under gold minus the margin under C."""
        return self.margin(rows, "gold") - self.margin(rows, "C")

    def drawn(self) -> list[list[int]]:
        """Rows of every resample: each stratum keeps its size and has a generator of its own."""
        strata: dict[str, list[int]] = {}
        for at, row in enumerate(self.raw):
            strata.setdefault(row["stratum"], []).append(at)
        keys = np.random.SeedSequence(SEED).spawn(len(strata))
        generators = [np.random.Generator(np.random.PCG64(key)) for key in keys]
        found: list[list[int]] = []
        for _ in range(RESAMPLES):
            rows: list[int] = []
            for members, generator in zip(strata.values(), generators, strict=True):
                picked = generator.integers(len(members), size=len(members), dtype=np.int32)
                rows += [members[at] for at in picked.tolist()]
            found.append(rows)
        return found


def keys(root: Path, **more: Any) -> dict[str, Any]:
    """What a registration of the corpus says."""
    places = {name: f"labellings.{name}" for name in "ABC"} | {"gold": "gold"}
    file = {
        "file": with_corpus(root, SPANS), "format": "rows", "item": "id", "stratum": "stratum",
        "labellings": places,
    }  # fmt: skip
    labellings = {
        "form": "spans", "files": [file], "match": "relaxed", "duplicates": "keep_all",
        "outputs": list(OUTPUTS), "references": list(REFERENCES), **more,
    }  # fmt: skip
    return {
        "annotations": None,
        "labellings": labellings,
        "family": FAMILY,
        "resampling": {"resamples": RESAMPLES, "seed": SEED, "by_stratum": True},
    }


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The score of the corpus, by registration, through the commands."""
    root = tmp_path_factory.mktemp("corpus")
    claims = [band("a", "delta", [0.15, 0.2], output="A")]
    lock_tables(root, "x", "reference-swap", bands=claims, **keys(root))
    return scored(root, "x")


@pytest.fixture(scope="module")
def recount() -> Recount:
    """The raw file, by place alone."""
    return Recount(typed=False)


def test_points_and_resamples_are_those_of_the_recount(found: Any, recount: Recount) -> None:
    """F1, deltas, margins and the interaction: the same numbers and the same limits, to the last
    digit, from sums in one product and from lists of rows.
    """
    drawn = recount.drawn()
    statistics: list[tuple[str, Params, Statistic]] = [
        ("interaction", {**PAIR, **TO_C}, recount.interaction)
    ]
    for reference in REFERENCES:
        under = {"reference": reference}
        margin = partial(recount.margin, reference=reference)
        statistics.append(("margin", {**PAIR, **under}, margin))
        for output in OUTPUTS:
            f1 = partial(recount.f1, output=output, reference=reference)
            statistics.append(("f1", {"output": output, **under}, f1))
    for output in OUTPUTS:
        delta = partial(recount.delta, output=output)
        statistics.append(("delta", {"output": output, **TO_C}, delta))
    for name, params, statistic in statistics:
        said = metric(found, name, **params)
        draws = np.array([statistic(rows) for rows in drawn])
        assert said["value"] == statistic(recount.rows), (name, params)
        limits = np.quantile(draws, [0.025, 0.975]).tolist()
        # 1 - 0.95 is no exact number either: the ranks differ in the last digit, not the draws.
        assert [said["interval"]["low"], said["interval"]["high"]] == pytest.approx(
            limits, rel=1e-12
        )
        assert said["n"] == len(recount.rows) == 10_530


def test_strata_are_counted_by_themselves(found: Any, recount: Recount) -> None:
    """Micro-F1 of a stratum is that of its rows, and pooled is no mean of the strata."""
    strata = {row["stratum"] for row in recount.raw}
    assert strata == {"train", "test", "trial"}
    values = []
    for stratum in strata:
        rows = [at for at, row in enumerate(recount.raw) if row["stratum"] == stratum]
        said = metric(found, "delta", output="A", **TO_C, stratum=stratum)
        assert said["value"] == recount.delta(rows, "A")
        values.append(said["value"])
    pooled = metric(found, "delta", output="A", **TO_C)["value"]
    assert min(values) < pooled < max(values)
    assert pooled != pytest.approx(sum(values) / 3, abs=1e-4)


def test_exact_matches_and_decontamination(found: Any, recount: Recount) -> None:
    """Rows on which a reference repeats an output, and what is left without those of gold."""
    equal = {
        (output, reference): [sets[output] == sets[reference] for sets in recount.sets]
        for output in OUTPUTS
        for reference in REFERENCES
    }
    for (output, reference), hits in equal.items():
        said = metric(found, "exact.rate", output=output, reference=reference)
        assert said["k"] == sum(hits)
    for reference in REFERENCES:
        a, b = (equal[output, reference] for output in OUTPUTS)
        said = metric(found, "skew", **PAIR, reference=reference)
        assert said["value"] == pytest.approx((sum(a) - sum(b)) / len(a), abs=1e-15)
    left = [at for at in recount.rows if not (equal["A", "gold"][at] or equal["B", "gold"][at])]
    assert metric(found, "items.count", subset="decontaminated")["k"] == len(left)
    said = metric(found, "delta", output="A", **TO_C, subset="decontaminated")
    assert said["value"] == recount.delta(left, "A")


def test_band_spread_and_family(found: Any, recount: Recount) -> None:
    """The band is the upper limit of the largest delta; the spread covers every other labelling;
    p-values are adjusted over the four registered tests.
    """
    deltas = {output: metric(found, "delta", output=output, **TO_C) for output in OUTPUTS}
    largest = max(deltas.values(), key=lambda delta: abs(delta["value"]))
    assert metric(found, "band.width")["value"] == largest["interval"]["high"]
    for output, delta in deltas.items():
        alone = metric(found, "band.width", output=output)
        assert alone["value"] == delta["interval"]["high"]
        others = [name for name in ("A", "B", "C", "gold") if name != output]
        scores = [recount.f1(recount.rows, output, name) for name in others]
        assert metric(found, "spread", output=output)["value"] == max(scores) - min(scores)
    raw = metric(found, "delta.p", output="A", **TO_C)["value"]
    assert raw == pytest.approx(2 / (RESAMPLES + 1))  # none of the resamples is on the other side
    assert metric(found, "delta.p_holm", output="A", **TO_C)["value"] == pytest.approx(4 * raw)


def test_by_type_the_gold_says_nothing(tmp_path: Path) -> None:
    """Strict matches need types, which gold has not; among the three crowd labellings they are as
    recounted.
    """
    told = keys(tmp_path, outputs=["A", "B"], references=["C", "gold"])
    claims = [band("a", "f1", [0.2, 0.4], output="A", reference="C", match="strict")]
    lock_tables(tmp_path, "x", "reference-swap", bands=claims, **told)
    found = scored(tmp_path, "x")
    recount = Recount(typed=True)
    for output in OUTPUTS:
        said = metric(found, "f1", output=output, reference="C", match="strict")
        assert said["value"] == recount.f1(recount.rows, output, "C")
