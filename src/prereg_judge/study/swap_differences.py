"""Differences of scores as metrics: with interval, p-value, and reversals of margins."""

from __future__ import annotations

import numpy as np

from prereg_judge.study.counted import undefined_metric
from prereg_judge.study.metric import Metric, MetricRef, MetricSpec
from prereg_judge.study.swap_neutral import ONE_SIGN, skew_metric
from prereg_judge.study.swap_scores import Scores
from prereg_judge.study.swap_specs import BY_NAME
from prereg_judge.study.swap_sums import Look
from prereg_judge.study.swap_tests import Difference, PValues, Reversal
from prereg_judge.study.table_metrics import bootstrapped, joined

# With fewer rows than this p-values from resamples are too small, and nothing is concluded.
FEW_ROWS = 30


def left_out(scores: Scores) -> str | None:
    """A clause on rows that lack an output or a reference; None where none does."""
    complete = scores.sums.complete
    lost = int((~complete).sum())
    if not lost:
        return None
    return f"{lost} of {len(complete)} rows left out: an output or a reference is not given"


def difference_metric(values: PValues, test: Difference, ref: MetricRef | None = None) -> Metric:
    """`delta`, `margin`, `interaction` or `skew`, with its interval."""
    scores = values.scores
    ref = ref or test.ref(values.swap)
    spec = BY_NAME[test.name]
    about = scores.about(*test.outputs)
    n = scores.n(test.look, about)
    trouble = values.trouble(test)
    note = left_out(scores)
    if trouble is not None:
        return undefined_metric(ref, spec, reason=trouble[0], note=joined(trouble[1], note), n=n)
    if test.name == "skew":
        return skew_metric(scores, ref, spec, test=test, note=note)
    found = values.estimate(test)
    return bootstrapped(
        ref,
        spec,
        value=found.value,
        draws=found.draws,
        resampling=scores.sums.resampling,
        n=n,
        notes=[note],
        least=scores.least(test.look, about, test.terms(scores.delivered)),
    )


def p_metric(values: PValues, ref: MetricRef, spec: MetricSpec, test: Difference) -> Metric:
    """A p-value, its own or Holm's."""
    scores = values.scores
    about = scores.about(*test.outputs)
    # The exact test is of items, whatever number of rows they have.
    n = scores.items(test.look, about) if test.name == "skew" else scores.n(test.look, about)
    found = values.adjusted(test) if ref.name.endswith(".p_holm") else values.p(test)
    note = found.note
    if found.value is None:
        assert found.undefined is not None
        return undefined_metric(ref, spec, reason=found.undefined, note=note, n=n)
    if test.name == "skew" and scores.repeated(test.look, about):
        note = joined(note, ONE_SIGN)
    return Metric(ref, found.value, spec.unit, spec.summary, n=n, note=note)


def reversal_words(one: Reversal, scores: Scores) -> str:
    """Which reading a reversal allows, and what stands in the way of the strong one."""
    first, second = (e.value for e in one.estimates)
    a, b = one.first.output, one.first.other
    left, right = one.first.reference, one.second.reference
    said = f"{a} - {b} is {first:+.4f} under {left} and {second:+.4f} under {right}"
    _, _, by_holm = one.ps
    how = "Holm over the family" if by_holm else "not adjusted"
    if one.clear:
        n = scores.n(one.first.look, scores.about(a, b))
        few = f", on {n} rows, where such p-values come out too small" if n < FEW_ROWS else ""
        return f"{said}: strong reading, both significant at 0.05 ({how}{few})"
    weak = " and ".join(f"under {name}" for name in one.weak_legs)
    return f"{said}: weaker reading, not significant {weak} at 0.05 ({how})"


def reversals_metric(
    values: PValues, ref: MetricRef, spec: MetricSpec, *, look: Look, reference: str | None
) -> Metric:
    """`reversals.count` and `reversals.clear.count`."""
    scores = values.scores
    alternatives = scores.swap.references[1:] if reference is None else (reference,)
    every = list(values.reversals(look, alternatives))
    defined = [one for one in every if one.trouble is None]
    if not defined:
        assert every[0].trouble is not None
        reason, note = every[0].trouble
        return undefined_metric(ref, spec, reason=reason, note=note, n=0)
    found = [one for one in defined if one.reversed]
    lost = len(every) - len(defined)
    notes = [reversal_words(one, scores) for one in found]
    notes += [f"undefined for {lost} of {len(every)} pairs"] if lost else []
    n = len(defined)
    if ref.name == "reversals.clear.count":
        k = sum(one.clear for one in found)
        what = "significance is said of all rows, so there is no interval"
        return Metric(ref, float(k), spec.unit, spec.summary, k=k, n=n, note=joined(*notes, what))
    draws = None
    if scores.sums.resampler is not None:
        draws = np.zeros(scores.sums.resampler.resamples)
        for one in defined:
            first, second = (e.draws for e in one.estimates)
            assert first is not None
            assert second is not None
            product = first * second
            draws += np.where(np.isnan(product), np.nan, product < 0)
    return bootstrapped(
        ref,
        spec,
        value=float(len(found)),
        k=len(found),
        n=n,
        draws=draws,
        resampling=scores.sums.resampling,
        notes=notes,
    )
