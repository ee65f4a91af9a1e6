"""Study `annotators`: from references to metrics, looking at the ratings or spans once.

Knows which part of the study gives which metric, and nothing of what they mean.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache

from prereg_judge.labelled import MATCHES
from prereg_judge.study.annotators_coefficients import Coefficients
from prereg_judge.study.annotators_diagnosis import Disagreements
from prereg_judge.study.annotators_groups import Group, RatingGroups
from prereg_judge.study.annotators_resolving import Resolving
from prereg_judge.study.annotators_soft import Soft
from prereg_judge.study.annotators_spans import KNOWN, NO_SPANS, SpanGroups, Spans
from prereg_judge.study.annotators_specs import BY_NAME, LABELLINGS, LEVELS, POLICIES, WEIGHTS
from prereg_judge.study.annotators_sums import Drawing, Plan
from prereg_judge.study.counted import limit_of, not_computed, wrong_names
from prereg_judge.study.metric import Metric, MetricRef, MetricSpec
from prereg_judge.study.outcomes import AnnotatorsInput, StudyInput
from prereg_judge.study.strata import resampler_of
from prereg_judge.study.table_metrics import Asked, wrong_values


def parameters(data: AnnotatorsInput) -> dict[str, tuple[str, ...]]:
    """The values that each parameter can have for a table.

    Parameters
    ----------
    data
        Ratings or spans.

    Returns
    -------
    dict
        Known values by name of parameter. A parameter that says nothing of spans (or of ratings)
        has its general values, so that the metric itself can say why it is not given.
    """
    words: dict[str, tuple[str, ...]] = {
        "level": LEVELS,
        "weights": WEIGHTS,
        "policy": POLICIES,
        "labels": LABELLINGS,
    }
    if data.labelled is not None:
        groups = SpanGroups(data)
        return {
            **words,
            "pool": tuple(groups.pools),
            "stratum": groups.strata,
            "annotator": groups.annotators,
            "other": (*groups.annotators, *groups.pools),
            "match": data.labelled.matches,
        }
    ratings = data.ratings
    assert ratings is not None
    fine = RatingGroups(ratings)
    coarse = ratings.coarse is not None
    return {
        **words,
        "labels": LABELLINGS if coarse else LABELLINGS[:1],
        "pool": ratings.pools,
        "stratum": fine.strata,
        "annotator": ratings.annotators,
        "other": (*ratings.annotators, *ratings.pools),
        "label": tuple(dict.fromkeys((*fine.labels(), *fine.labels(coarse=True)))),
        "match": MATCHES,
    }


class Computer:
    """Computes metrics of one table of ratings or of spans.

    Parameters
    ----------
    data
        Its annotators and its bootstrap; nothing else is looked at.
    """

    def __init__(self, data: StudyInput) -> None:
        assert data.annotators is not None
        self.data = data.annotators
        self.resampling = data.resampling
        self.values = parameters(self.data)
        self.groups: RatingGroups | None = None
        self.spans: SpanGroups | None = None
        if self.data.ratings is not None:
            self.groups = groups = RatingGroups(self.data.ratings)
            self._coefficients = Coefficients(groups, self.resampling)
            self._disagreements = Disagreements(groups, self.resampling)
            self._resolving = Resolving(groups, split=self.data.split, resampling=self.resampling)
            self._soft = Soft(groups, self.resampling)
            strata = self.data.ratings.strata
        else:
            self.spans = SpanGroups(self.data)
            self._spans = Spans(self.spans, self.resampling)
            strata = self.spans.unit_strata
        self.drawing = Drawing(resampler_of(strata, self.resampling))

    def all(self, refs: Iterable[MetricRef]) -> dict[MetricRef, Metric]:
        """The metrics of references, in their order; everything is resampled in one go."""
        asked = list(refs)
        bases = dict.fromkeys(ref.base for ref in asked)
        found = self.drawing.finished({ref: self._plan(ref) for ref in bases})
        return {
            ref: found[ref] if ref == ref.base else limit_of(ref, found[ref.base]) for ref in asked
        }

    def one(self, name: str, **params: object) -> Metric:
        """One metric."""
        ref = MetricRef.of(name, **params)
        return self.all([ref])[ref]

    def _plan(self, ref: MetricRef) -> Plan:
        spec = BY_NAME.get(ref.name)
        if spec is None:
            return not_computed(ref, note="not in the catalogue")
        params = dict(ref.params)
        wrong = wrong_names(ref, spec) or wrong_values(params, self.values)
        if wrong is not None:
            return not_computed(ref, note=wrong)
        if self.spans is not None:
            return self._spans.plan(ref, spec, params)
        return self._of_ratings(ref, spec, params)

    def _of_ratings(self, ref: MetricRef, spec: MetricSpec, params: Mapping[str, str]) -> Plan:
        head = spec.name.partition(".")[0]
        if head == "f1":
            return not_computed(ref, note=NO_SPANS)
        if head in ("items", "ratings"):
            return self._counted(ref, spec, Group.of(params))
        if head == "disagreement":
            return self._disagreements.plan(ref, spec, params)
        if head in ("resolved", "selection", "adjudication"):
            return self._resolving.plan(ref, spec, params)
        if head == "soft":
            return self._soft.plan(ref, spec, params)
        return self._coefficients.plan(ref, spec, params)

    def _counted(self, ref: MetricRef, spec: MetricSpec, group: Group) -> Metric:
        """How much there is: known from the table."""
        assert self.groups is not None
        total = self.groups.counts(group).sum(axis=1)
        rated, several = int((total > 0).sum()), int((total > 1).sum())
        if spec.name == "ratings.count":
            value, k = int(total.sum()), None
        else:
            value, k = several, several
        return Metric(ref, float(value), spec.unit, spec.summary, k=k, n=rated, note=KNOWN)


def computer_of(data: StudyInput) -> Computer:
    """The computer of an input: the last one again where it is of the same ratings or spans."""
    return _computer(Asked(data.annotators, data.resampling, data))


@lru_cache(maxsize=1)
def _computer(asked: Asked) -> Computer:
    return Computer(asked.data)
