"""Checks of one metric reference that is about labellings or ratings: what their form rules out.

Knows what the labellings are called, whether their marks have types, and how many rows there are;
not what they say.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from math import comb
from typing import Literal

from prereg_judge.labelled import Duplicates, MarkForm, Match
from prereg_judge.study.metric import MetricRef, Unit

# Of two labellings; the first of two outputs and the second where none is named.
_OF_PAIRS = ("margin", "interaction", "skew")
# Metrics of an alternative reference: against the delivered one they are nothing by definition.
_OF_ALTERNATIVES = ("delta", "interaction", "reversals")
# Values of a test beside its own, by the end of its name.
_P_VALUES = (".p", ".p_holm")
# Of annotators: what is made of pairs of spans; all else but the counts is made of ratings.
_OF_SPANS = ("f1", "f1.pair")
_OF_BOTH = ("items.count", "ratings.count")

# What is wrong with a reference: the key it is under, what, and what would do.
Wrong = tuple[str, str, str]


@dataclass(frozen=True)
class LabellingFacts:
    """What is known of labellings or ratings before a run.

    Attributes
    ----------
    study
        What is asked of them.
    form
        Spans, or single labels; ratings are single labels.
    items, ratings
        Most items, or rows, that can be counted, and how many ratings there are.
    untyped
        Labellings whose marks have no types.
    outputs, references, match, duplicates
        As registered, where references are exchanged.
    merged
        Whether a map of fine labels to coarse ones is registered.
    family
        The registered tests, each with every parameter that is left out filled in (`in_full`).
    annotators, pools
        Names of the annotators; of each pool the labellings, where annotators are these.
    ordered, valued, adjudicated
        Whether labels have an order, labels have numbers, and an adjudicator's file is there.
    """

    study: Literal["reference-swap", "annotators"]
    form: MarkForm
    items: int
    ratings: int = 0
    untyped: frozenset[str] = frozenset()
    outputs: tuple[str, ...] = ()
    references: tuple[str, ...] = ()
    match: Match = "strict"
    duplicates: Duplicates = "keep_all"
    merged: bool = False
    family: frozenset[MetricRef] = frozenset()
    annotators: tuple[str, ...] = ()
    pools: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    ordered: bool = False
    valued: bool = False
    adjudicated: bool = False


def tested_by(ref: MetricRef) -> MetricRef:
    """The test that a p-value is of; of another metric, the metric itself."""
    name = ref.base.name
    for end in _P_VALUES:
        name = name.removesuffix(end)
    return MetricRef(name, ref.params)


def in_full(ref: MetricRef, facts: LabellingFacts) -> MetricRef:
    """A test with what stands where a parameter is left out, so that two of one test are equal."""
    params = dict(ref.params)
    usual: dict[str, str] = {
        "match": facts.match,
        "duplicates": facts.duplicates,
        "subset": "all",
    }
    if ref.name in ("delta", "interaction"):
        usual["reference"] = facts.references[1]
    if ref.name in _OF_PAIRS:
        usual["output"] = facts.outputs[0]
        usual["other"] = facts.outputs[1]
    return MetricRef.of(ref.name, **{**usual, **params})


def labelling_troubles(ref: MetricRef, facts: LabellingFacts) -> Iterator[Wrong]:
    """What is wrong with a reference, as (key, what, remedy)."""
    if facts.study == "annotators":
        yield from _of_annotators(ref, facts)
        return
    name = ref.base.name
    test, told = tested_by(ref), dict(ref.params)
    if name.split(".")[0] in _OF_ALTERNATIVES and told.get("reference") == facts.references[0]:
        what = f"`{facts.references[0]}` is the delivered reference: it does not differ from itself"
        yield "reference", what, f"name an alternative: {', '.join(facts.references[1:])}"
    params = dict(in_full(test, facts).params)
    if test.name in _OF_PAIRS and params.get("output") == params.get("other"):
        key = "other" if "other" in told else "output"
        yield key, f"compares `{params['output']}` with itself", "name two outputs"
    repeats = name.startswith(("exact.", "skew")) and params.get("reference") == facts.references[0]
    if repeats and params.get("subset") == "decontaminated":
        what = f"rows on which `{facts.references[0]}` equals an output are left out: this is 0"
        yield "subset", what, "leave `subset` out, or name an alternative reference"
    if name.startswith("merge.") and not facts.merged:
        yield "metric", f"`{name}` is about a map, and there is none", "add `merge:`"
    yield from _types(ref, facts)
    if name.endswith(".p_holm") and in_full(test, facts) not in facts.family:
        what = f"`{test}` is not in the registered family, so that nothing is adjusted for it"
        yield "metric", what, "add it under `family`, or register its `.p`"


def _types(ref: MetricRef, facts: LabellingFacts) -> Iterator[Wrong]:
    """Whether marks have the types by which they are to match."""
    name, told = ref.base.name, dict(ref.params)
    match = "strict" if name.startswith("merge.") else told.get("match", facts.match)
    if match == "relaxed":
        return
    without = [n for n in _matched(ref, facts) if n in facts.untyped]
    if without:
        key = "match" if "match" in told else "metric"
        remedy = "leave the claim out" if name.startswith("merge.") else "write `match: relaxed`"
        yield key, f"the marks of `{without[0]}` have no types", remedy


def _matched(ref: MetricRef, facts: LabellingFacts) -> list[str]:
    """The labellings whose marks a metric compares."""
    head = ref.base.name.split(".")[0]
    params = dict(in_full(tested_by(ref), facts).params)
    named = [params[key] for key in ("output", "other", "reference") if key in params]
    if head in ("delta", "interaction"):
        named.append(facts.references[0])
    elif head in ("reversals", "band"):
        named += [*facts.outputs, *facts.references]
    if params.get("subset") == "decontaminated":
        about = [params[key] for key in ("output", "other") if key in params]
        named += [facts.references[0], *(about or facts.outputs)]
    return named


def _of_annotators(ref: MetricRef, facts: LabellingFacts) -> Iterator[Wrong]:
    name, told = ref.base.name, dict(ref.params)
    spans = facts.form == "spans"
    if name in _OF_SPANS and not spans:
        yield "metric", f"`{name}` is for spans, and these are single labels", "use kappa or alpha"
        return
    if spans and name not in (*_OF_SPANS, *_OF_BOTH):
        what = f"`{name}` is for single labels, and these are spans"
        yield "metric", what, "use `f1` or `f1.pair`: by chance spans hardly ever agree"
        return
    if name.startswith("merge.") and not facts.merged:
        yield "metric", f"`{name}` is about a map, and there is none", "add `merge:`"
    ordinal = name == "kappa.weighted" or told.get("level") == "ordinal"
    if ordinal and not facts.ordered:
        key = "level" if "level" in told else "metric"
        yield key, "needs the order of the labels, and none is registered", "add `scale:`"
    if told.get("level") == "interval" and not facts.valued:
        yield "level", "needs a number for each label", "add `scale:` with `values:`"
    adjudicated = name.startswith("adjudication.") or told.get("policy") == "adjudicated"
    if adjudicated and not facts.adjudicated:
        key = "policy" if "policy" in told else "metric"
        yield key, "needs an adjudicator's labels, and there are none", "add `adjudication:`"
    yield from _two_of_them(name, told, facts)
    named = [told[key] for key in ("annotator", "other") if key in told]
    among = named or facts.pools.get(told.get("pool", ""), facts.annotators)
    without = [n for n in among if n in facts.untyped]
    if told.get("match", "relaxed") != "relaxed" and without:
        yield "match", f"the marks of `{without[0]}` have no types", "write `match: relaxed`"


def _two_of_them(name: str, told: Mapping[str, str], facts: LabellingFacts) -> Iterator[Wrong]:
    """Whether what is compared is two of a kind, and not one twice."""
    first = "pool" if name == "soft.distance" else "annotator"
    other = told.get("other")
    if other is None:
        return
    if told.get(first) == other:
        yield "other", f"compares `{other}` with itself", f"name two {first}s"
    known = facts.pools if first == "pool" else facts.annotators
    if other not in known:
        yield "other", f"`{other}` is not a known {first}", f"known: {', '.join(known)}"


def settled_by_labellings(ref: MetricRef, facts: LabellingFacts) -> str | None:
    """What settles a metric whatever the labellings say; None where they can change it."""
    if ref.base.name == "ratings.count":
        return "how many ratings there are settles it, whatever they say"
    if ref.base.name != "items.count":
        return None
    if facts.study == "annotators":
        return "which items have two ratings settles it, whatever they say"
    if dict(ref.params).get("subset", "all") != "all":
        return None
    return "which rows carry every output and reference settles it, whatever they say"


def most_of_labellings(ref: MetricRef, unit: Unit, facts: LabellingFacts) -> float | None:
    """The largest value that a count can have; None where it is not known before the run."""
    name = ref.base.name
    pairs = comb(len(facts.outputs), 2)
    if name.startswith("reversals."):
        return pairs * (1 if "reference" in dict(ref.params) else len(facts.references) - 1)
    if name == "band.margins.count":
        return pairs * len(facts.references)
    return {"items": facts.items, "rows": facts.items, "votes": facts.ratings}.get(unit)
