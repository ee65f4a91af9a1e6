"""Study `reference-swap` against a second implementation that counts sets, row by row."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from pathlib import Path

import pytest

from prereg_judge.labelled import DUPLICATES
from prereg_judge.study.metric import MetricRef
from prereg_judge.study.outcomes import Resampling
from prereg_judge.study.reference_swap import compute
from prereg_judge.study.swap_computer import Computer
from prereg_judge.study.swap_sums import SUBSETS, Estimate, Look
from prereg_judge.study.swap_tests import Difference
from study.swap_brute import Asked, Brute, Number, drawn_items, holm_of, p_of, sign_test_of
from study.swap_made import Marks, Row, labelled, one, random_rows, study

REPOSITORY = Path(__file__).parents[2]

MERGE = {"x": "xy", "y": "xy"}
RESAMPLING = Resampling(40, 11, by_stratum=True)
Found = tuple[Number, list[Number]]


def same(estimate: Estimate, brute: Found, *, where: object) -> None:
    """The same value, and the same value in every resample, to the last digit."""
    value, resampled = brute
    assert (None if math.isnan(estimate.value) else estimate.value) == value, where
    assert estimate.draws is not None
    draws = [None if math.isnan(v) else v for v in estimate.draws.tolist()]
    assert draws == resampled, where


class Both:
    """The study and its second implementation, on the same rows and the same draws."""

    def __init__(
        self,
        rows: Sequence[Row],
        *,
        names: Sequence[str],
        outputs: Sequence[str],
        references: Sequence[str],
        merge: dict[str, str] | None,
    ) -> None:
        data = study(
            labelled(rows, names=names, merge=merge),
            outputs=outputs,
            references=references,
            resampling=RESAMPLING,
        )
        self.computer = Computer(data)
        self.brute = Brute(rows, names, outputs, references, merge)
        assert self.computer.scores.sums.resampler is not None
        self.draws = drawn_items(self.computer.scores.sums.resampler)

    def check(self, look: Look) -> int:
        """Compare every statistic on some rows; returns how many were compared."""
        scores, brute, match = self.computer.scores, self.brute, look.match
        asked = Asked(match, look.duplicates, look.subset, look.stratum)
        outputs, references = tuple(brute.outputs), tuple(brute.references)
        a, b = outputs[0], outputs[1]
        count = 0

        def compare(
            found: Estimate, about: Sequence[str], by: Callable[..., Number], *params: str
        ) -> None:
            nonlocal count
            count += 1
            told = brute.everywhere(asked, about, lambda rows: by(rows, match, *params), self.draws)
            same(found, told, where=(look, by.__name__, params))

        for o, r in product(outputs, references):
            compare(scores.f1(look, outputs, o, r), outputs, brute.f1, o, r)
            share, k = scores.exact(look, outputs, o, r)
            compare(share, outputs, brute.exact, o, r)
            assert k == sum(
                brute.marks(x, o, match) == brute.marks(x, r, match)
                for x in brute.counting(asked, outputs)
            )
        for o, r in product(outputs, references[1:]):
            compare(scores.delta(look, o, r), outputs, brute.delta, o, r)
        for r in references:
            compare(scores.margin(look, a, b, r), (a, b), brute.margin, a, b, r)
            compare(scores.skew(look, a, b, r), (a, b), brute.skew, a, b, r)
        for r in references[1:]:
            compare(scores.interaction(look, a, b, r), (a, b), brute.interaction, a, b, r)
        for o in outputs:
            spread = scores.spread(look, o)
            if not spread.left_out and not math.isnan(spread.value):
                assert spread.value == brute.spread(brute.counting(asked, outputs), match, o)
                count += 1
        for r in references:
            signs = brute.signs(brute.counting(asked, (a, b)), match, a, b, r)
            assert scores.signs(look, a, b, r) == (signs.count(1), signs.count(-1)), (look, r)
            p = self.computer.values.p(Difference("skew", look, a, b, r))
            if p.value is not None:
                assert p.value == pytest.approx(sign_test_of(signs), rel=1e-9), (look, r)
        return count


@pytest.mark.parametrize("seed", [1, 2])
def test_every_statistic_and_every_resample_is_the_same_by_brute_force(seed: int) -> None:
    """Every match, policy, subset and stratum: F1, differences, exact shares, spreads, as sets."""
    names = ("A", "B", "D", "gold", "C", "other")
    rows = random_rows(
        70, seed=seed, strata=("s", "t", None), copies=0.3, missing=0.05, names=names
    )
    both = Both(rows, names=names, outputs=("A", "B", "D"), references=("gold", "C"), merge=MERGE)
    compared = 0
    for match, policy, subset, stratum in product(
        ("strict", "relaxed", "coarse"), DUPLICATES, SUBSETS, (None, "s")
    ):
        compared += both.check(Look(match, policy, subset, stratum))  # type: ignore[arg-type]
    assert compared > 1000


def corpus_rows(most: int) -> Iterator[Row]:
    """Rows of the real spans; skips where there are none."""
    told = os.environ.get("PREREG_CORPORA")
    folder = Path(told) if told else REPOSITORY.parent / "shared/data"
    path = folder / "spans/toxic_spans.jsonl"
    if not path.is_file():
        pytest.skip("needs spans/toxic_spans.jsonl below PREREG_CORPORA")
    for line in path.read_text(encoding="utf-8").splitlines()[:most]:
        told_row = json.loads(line)
        marks: dict[str, Marks | None] = {
            name: frozenset((s, e, kind) for s, e, kind in told_row["labellings"][name])
            for name in "ABC"
        }
        marks["gold"] = frozenset((s, e, None) for s, e in told_row["gold"])
        yield Row(told_row["id"], marks, told_row["stratum"])


def test_on_real_spans_every_resample_is_the_same_by_brute_force() -> None:
    """On rows of the real corpus too, pooled and in a stratum, with and without shared rows."""
    rows = list(corpus_rows(300))
    both = Both(rows, names=("A", "B", "gold", "C"), outputs=("A", "B"),
                references=("gold", "C"), merge=None)  # fmt: skip
    for subset, stratum in product(SUBSETS, (None, "train")):
        assert both.check(Look("relaxed", "keep_all", subset, stratum)) > 10
    strict = Both(rows, names=("A", "B", "C"), outputs=("A", "B"), references=("C", "C"),
                  merge=None)  # fmt: skip
    assert strict.check(Look("strict", "keep_all")) > 10


def test_p_values_reversals_and_gains_are_those_of_the_resamples() -> None:
    """p-values, Holm, reversals, what a map adds: each from the resamples by brute force."""
    rows = random_rows(60, seed=5, strata=("s", "t"), copies=0.2)
    family = [
        MetricRef.of("delta", output="A"),
        MetricRef.of("delta", output="B", match="relaxed"),
        MetricRef.of("margin", reference="gold"),
        MetricRef.of("interaction"),
    ]
    data = study(labelled(rows, merge=MERGE), family=family, resampling=RESAMPLING)
    brute = Brute(rows, ("A", "B", "gold", "C"), ("A", "B"), ("gold", "C"), MERGE)
    computer = Computer(data)
    assert computer.scores.sums.resampler is not None
    draws = drawn_items(computer.scores.sums.resampler)
    asked = Asked()
    by: list[Callable[[Sequence[Row]], Number]] = [
        lambda x: brute.delta(x, "relaxed", "A", "C"),
        lambda x: brute.delta(x, "relaxed", "B", "C"),
        lambda x: brute.margin(x, "relaxed", "A", "B", "gold"),
        lambda x: brute.interaction(x, "relaxed", "A", "B", "C"),
    ]
    ps = [p_of(brute.everywhere(asked, (), statistic, draws)[1]) for statistic in by]
    found = compute(data, [MetricRef(f"{ref.name}.p", ref.params) for ref in family])
    assert [m.value for m in found.values()] == ps
    adjusted = compute(data, [MetricRef(f"{ref.name}.p_holm", ref.params) for ref in family])
    assert [m.value for m in adjusted.values()] == pytest.approx(holm_of(ps), abs=1e-12)
    value, resampled = brute.everywhere(asked, (), lambda x: brute.reversals(x, "relaxed"), draws)
    reversals = one(data, "reversals.count")
    assert reversals.value == value
    assert 0 < sum(v or 0 for v in resampled) < len(resampled)
    assert reversals.interval is not None
    assert (reversals.interval.low, reversals.interval.high) == (0, 1)
    gain, _ = brute.everywhere(asked, (), lambda x: brute.gain(x, "A", "gold"), draws)
    assert one(data, "merge.gain", output="A", reference="gold").value == gain
