"""Computes the metrics of study `reference-swap`, each sum resampled once."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

import numpy as np

from prereg_judge.labelled import DUPLICATES
from prereg_judge.study.counted import not_computed, undefined_metric
from prereg_judge.study.metric import Metric, MetricRef, MetricSpec
from prereg_judge.study.outcomes import StudyInput, SwapInput
from prereg_judge.study.swap_band import band_metric
from prereg_judge.study.swap_differences import (
    difference_metric,
    left_out,
    p_metric,
    reversals_metric,
)
from prereg_judge.study.swap_neutral import Hidden, exact_metric
from prereg_judge.study.swap_scores import Scores
from prereg_judge.study.swap_specs import BY_NAME
from prereg_judge.study.swap_sums import SUBSETS, Look
from prereg_judge.study.swap_tests import TEST_NAMES, PValues, difference_of, look_of
from prereg_judge.study.table_metrics import Asked, bootstrapped, joined, table_metric

# Why a spread has no interval. Labellings with the same true F1 would have a spread of 0, which no
# resample falls below.
BIASED = "a range is biased upward, so a percentile interval would not hold a truth of 0"


def parameters(swap: SwapInput) -> dict[str, tuple[str, ...]]:
    """The values that each parameter can have."""
    strata = {name for name in swap.labelled.strata if name is not None}
    return {
        "output": swap.outputs,
        "other": swap.outputs,
        "reference": swap.references,
        "match": swap.labelled.matches,
        "duplicates": DUPLICATES,
        "subset": SUBSETS,
        "stratum": tuple(sorted(strata)),
    }


class Computer:
    """Computes metrics of one study.

    Parameters
    ----------
    data
        Its outputs and references and its bootstrap; nothing else is looked at.
    """

    def __init__(self, data: StudyInput) -> None:
        assert data.swap is not None
        self.swap = data.swap
        self.scores = Scores(data.swap, data.resampling)
        self.values = PValues(self.scores)
        self.hidden = Hidden(self.scores)
        self._values = parameters(data.swap)

    def __call__(self, ref: MetricRef) -> Metric:
        """One metric, with a value or a typed reason for having none."""
        return table_metric(ref, specs=BY_NAME, values=self._values, make=self._make)

    def _make(self, ref: MetricRef, spec: MetricSpec, params: Mapping[str, str]) -> Metric:
        wrong = self._wrong(ref, params)
        if wrong is not None:
            return not_computed(ref, note=wrong)
        look = look_of(self.swap, params)
        head, _, tail = ref.name.partition(".")
        if head in TEST_NAMES:
            test = difference_of(self.swap, MetricRef(head, ref.params))
            if tail:
                return p_metric(self.values, ref, spec, test)
            return difference_metric(self.values, test, ref)
        if head == "reversals":
            alternative = params.get("reference")
            return reversals_metric(self.values, ref, spec, look=look, reference=alternative)
        if head == "band":
            return band_metric(self.values, ref, spec, look=look, output=params.get("output"))
        if head == "items":
            return self._items(ref, spec, look)
        if head == "spread":
            return self._spread(ref, spec, look, params["output"])
        output, reference = params["output"], params["reference"]
        if head == "exact":
            note = left_out(self.scores)
            return exact_metric(self.scores, ref, spec, look=look, output=output,
                                reference=reference, note=note)  # fmt: skip
        if head == "merge":
            return self._merge(ref, spec, output, reference)
        return self._f1(ref, spec, look, output, reference)

    def _wrong(self, ref: MetricRef, params: Mapping[str, str]) -> str | None:
        """What makes a metric say nothing whatever the rows, as words."""
        head = ref.name.partition(".")[0]
        delivered = self.scores.delivered
        if head in ("delta", "interaction", "reversals") and params.get("reference") == delivered:
            return f"{delivered} is the delivered reference, not an alternative to it"
        if head in TEST_NAMES:
            test = difference_of(self.swap, MetricRef(head, ref.params))
            if test.output == test.other:
                return f"compares {test.output} with itself"
        return None

    def _items(self, ref: MetricRef, spec: MetricSpec, look: Look) -> Metric:
        about = self.swap.outputs
        needed = (*about, self.scores.delivered) if look.subset == "decontaminated" else ()
        if not self.scores.sums.typed(look.match, *needed):
            trouble = self.scores.trouble(look, about, needed)
            assert trouble is not None
            return undefined_metric(ref, spec, reason=trouble[0], note=trouble[1])
        k, n = self.scores.n(look, about), len(self.swap.labelled.items)
        complete = self.scores.sums.complete
        copies = int((complete & ~self.swap.labelled.kept[look.duplicates]).sum())
        note = joined(
            left_out(self.scores),
            f"{copies} left out as copies" if copies else None,
            "known from the labellings, so there is no interval",
        )
        return Metric(ref, float(k), spec.unit, spec.summary, k=k, n=n, note=note)

    def _f1(
        self, ref: MetricRef, spec: MetricSpec, look: Look, output: str, reference: str
    ) -> Metric:
        scores = self.scores
        about = scores.about(output)
        n, note = scores.n(look, about), left_out(scores)
        trouble = scores.trouble(look, about, (output, reference))
        if trouble is not None:
            why = joined(trouble[1], note)
            return undefined_metric(ref, spec, reason=trouble[0], note=why, n=n)
        found = scores.f1(look, about, output, reference)
        if np.isnan(found.value):
            why = joined("neither side has any mark", note)
            return undefined_metric(ref, spec, reason="empty_denominator", note=why, n=n)
        return bootstrapped(
            ref,
            spec,
            value=found.value,
            draws=found.draws,
            resampling=scores.sums.resampling,
            n=n,
            notes=[note],
            least=scores.least(look, about, ((1, output, reference),)),
        )

    def _spread(self, ref: MetricRef, spec: MetricSpec, look: Look, output: str) -> Metric:
        scores = self.scores
        n, note = scores.n(look, scores.about(output)), left_out(scores)
        trouble = scores.trouble(look, scores.about(output), (output,))
        if trouble is not None:
            return undefined_metric(ref, spec, reason=trouble[0], note=trouble[1], n=n)
        found = scores.spread(look, output)
        without = f"without {', '.join(found.left_out)}" if found.left_out else None
        if np.isnan(found.value):
            bare = sum("no types" in why for why in found.left_out)
            why = joined("fewer than two labellings to compare with", without, note)
            return undefined_metric(ref, spec, reason="no_types" if bare else "empty_denominator",
                                    note=why, n=n)  # fmt: skip
        over = ", ".join(f"{name} {value:.4f}" for name, value in found.scores.items())
        said = joined(f"over {over}", without, note, f"no interval: {BIASED}")
        return Metric(ref, found.value, spec.unit, spec.summary, n=n, note=said)

    def _merge(self, ref: MetricRef, spec: MetricSpec, output: str, reference: str) -> Metric:
        fine = Look("strict", self.swap.duplicates)
        coarse = Look("coarse", self.swap.duplicates)
        if "coarse" not in self.swap.labelled.shared:
            note = "no map of fine types to coarse ones is registered"
            return undefined_metric(ref, spec, reason="not_computed", note=note)
        scores = self.scores
        n = scores.n(fine, ())
        trouble = scores.trouble(fine, (), (output, reference))
        if trouble is not None:
            return undefined_metric(ref, spec, reason=trouble[0], note=trouble[1], n=n)
        if ref.name != "merge.gain":
            return self.hidden.metric(ref, spec, look=fine, output=output, reference=reference)
        before = scores.f1(fine, (), output, reference)
        after = scores.f1(coarse, (), output, reference)
        found = after - before
        if np.isnan(found.value):
            why = "neither side has any mark"
            return undefined_metric(ref, spec, reason="empty_denominator", note=why, n=n)
        return bootstrapped(
            ref,
            spec,
            value=found.value,
            draws=found.draws,
            resampling=scores.sums.resampling,
            n=n,
            notes=[f"{before.value:.4f} before, {after.value:.4f} after"],
            least=scores.gain_least(fine, coarse, output, reference),
        )


def computer_of(data: StudyInput) -> Computer:
    """The computer of an input: the last one again where it is of the same rows and choices."""
    return _computer(Asked(data.swap, data.resampling, data))


@lru_cache(maxsize=1)
def _computer(asked: Asked) -> Computer:
    return Computer(asked.data)
