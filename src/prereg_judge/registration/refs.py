"""Checks one metric reference: name, parameters and their values; says what it can be.

Knows the study's catalogue and the facts of the inputs, not the claims that use the metric.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field

from prereg_judge.registration.domains import Domain
from prereg_judge.stats.proportions import wilson_interval
from prereg_judge.study.counted import LEVEL
from prereg_judge.study.metric import Catalogue, MetricRef, MetricSpec
from prereg_judge.words import SET_ROLES, UNSCORED, Missing, SetRole

# The part of a name between the set and the last word, for what the catalogue does not say.
_NEEDS_TWO_PASSES = {"agreement", "flips", "ships.some", "wrong_found", "wrong_repeated"}
_NEEDS_LABELS = {"wrong", "wrong_ships", "wrong_found", "wrong_repeated"}
_CONTINUOUS = {"share", "seconds"}
# Settled by the item file and the judge file: a run can change nothing about them.
_KNOWN_BEFORE = {"distinct", "duplicates"}
# Metrics whose n is every row of the set (those below also need a label).
_EVERY_ROW = {"agreement", "flips", "verdict", "ships.any", "ships.all", "ships.some", "ships.none"}
_MOST_LISTED = 5_000


@dataclass(frozen=True)
class Facts:
    """What lint must know of a registration's inputs.

    Attributes
    ----------
    n_items
        Number of items of each set that the registration has.
    kinds, strata
        For each set, number of items of each kind and of each stratum.
    cells
        For each set, number of items of each (kind, stratum) together.
    labels
        For each set, number of items with each known label.
    verdicts
        The judge's closed list.
    passes
        Registered number of passes.
    from_runs
        Number of passes of each earlier run that can be compared with, by its name.
    missing
        How a trial without a verdict counts; with `exclude`, n is not known beforehand.
    ships
        The verdict that ships.
    trials, retries
        Planned trials, and how often one may be tried again; None = not known.
    """

    n_items: Mapping[SetRole, int]
    verdicts: Collection[str]
    passes: int
    kinds: Mapping[SetRole, Mapping[str, int]] = field(default_factory=dict)
    strata: Mapping[SetRole, Mapping[str, int]] = field(default_factory=dict)
    cells: Mapping[SetRole, Mapping[tuple[str, str], int]] = field(default_factory=dict)
    labels: Mapping[SetRole, Mapping[str, int]] = field(default_factory=dict)
    from_runs: Mapping[str, int] = field(default_factory=dict)
    missing: Missing = "disagree"
    ships: str | None = None
    trials: int | None = None
    retries: int = 0


@dataclass(frozen=True)
class Trouble:
    """What is wrong with a reference: the key it is under, what, and what would do."""

    key: str
    what: str
    remedy: str | None = None


def role_of(ref: MetricRef) -> SetRole | None:
    """The item set that a metric is about, None for one about calls."""
    first = ref.name.partition(".")[0]
    return next((r for r in SET_ROLES if r == first), None)


def stem_of(ref: MetricRef) -> str:
    """`sentinel.ships.some.count` -> `ships.some`; for a metric without a set, its whole name."""
    name = ref.base.name
    return name.partition(".")[2].rpartition(".")[0] if role_of(ref) else name


def check_ref(ref: MetricRef, *, catalogue: Catalogue, facts: Facts) -> list[Trouble]:
    """Everything that is wrong with a reference; empty when it can be computed."""
    role = role_of(ref)
    if role is not None and role not in facts.n_items:
        sets = ", ".join(facts.n_items)
        what = f"the registration has no item set `{role}`"
        return [Trouble("metric", what, f"add it under items, or use {sets}")]
    spec = catalogue.specs.get(ref.base.name)
    if spec is None:
        near = catalogue.nearest(ref.base.name)
        remedy = f"did you mean {' or '.join(near)}?" if near else "see `prereg metrics`"
        what = f"the study {catalogue.study} has no metric `{ref.base.name}`"
        return [Trouble("metric", what, remedy)]
    troubles = [*_names(ref, spec), *_needs(ref, facts)]
    for key, value in ref.params:
        if key in (*spec.required, *spec.optional):
            troubles += _value(key, value, ref, facts)
    return troubles


def domain_of(ref: MetricRef, *, catalogue: Catalogue, facts: Facts) -> Domain | None:
    """The values that a metric can take, None where the reference does not stand up."""
    if check_ref(ref, catalogue=catalogue, facts=facts):
        return None
    spec = catalogue.specs[ref.base.name]
    if (listed := _listed(ref, facts)) is not None:
        return listed
    if role_of(ref) is None and facts.trials is not None:
        return _calls_domain(ref, spec, facts)
    low, high = spec.domain
    if high is None:
        high = math.inf
    elif high == "items":
        high = float(_items_counted(ref, facts))
    whole = spec.unit not in _CONTINUOUS and ref == ref.base
    return Domain(float(low), float(high), whole)


def known_n(ref: MetricRef, facts: Facts) -> int | None:
    """How many rows a metric counts over, where that is known before the run; else None."""
    role, stem, params = role_of(ref), stem_of(ref), dict(ref.params)
    fixed = stem in _EVERY_ROW | _NEEDS_LABELS and not (stem == "flips" and "verdict" in params)
    partly = stem in _NEEDS_LABELS and ("kind" in params or "stratum" in params)
    if role is None or not fixed or partly or facts.missing == "exclude":
        return None
    return _items_counted(ref, facts)


def _listed(ref: MetricRef, facts: Facts) -> Domain | None:
    """Every value of a count or share whose n is known before the run; None for others.

    The limits of its interval are Wilson's for every possible count, so they are listed as well.
    """
    n = known_n(ref, facts)
    if n is None or not 0 < n <= _MOST_LISTED:
        return None
    most = n - _never_hit(ref, facts)
    scale = n if ref.base.name.endswith(".rate") else 1
    if ref == ref.base:
        return Domain.listed(k / scale for k in range(most + 1))
    side = 0 if ref.name.endswith(".ci_low") else 1
    limits = (wilson_interval(k, n, level=LEVEL)[side] for k in range(most + 1))
    return Domain.listed(limit if scale == n else limit * n for limit in limits)


def _never_hit(ref: MetricRef, facts: Facts) -> int:
    """Labelled rows that cannot be counted: the verdict asked for is their own label."""
    role, stem = role_of(ref), stem_of(ref)
    verdict = facts.ships if stem == "wrong_ships" else dict(ref.params).get("verdict")
    if role is None or verdict is None or stem not in ("wrong", "wrong_ships"):
        return 0
    return facts.labels.get(role, {}).get(verdict, 0)


def _calls_domain(ref: MetricRef, spec: MetricSpec, facts: Facts) -> Domain:
    """What a metric of calls can be, given how many trials and retries there are."""
    assert facts.trials is not None
    calls = facts.trials * (facts.retries + 1)
    name = ref.base.name
    high = {"trials": facts.trials, "attempts": facts.retries + 1, "calls": calls}.get(spec.unit)
    if name == "calls.retries":
        high = facts.trials * facts.retries
    low = 1.0 if name in ("calls.count", "calls.attempts_per_trial") else 0.0
    top = float(high) if high is not None else 1.0 if spec.unit == "share" else math.inf
    return Domain(low, top, spec.unit not in _CONTINUOUS and ref == ref.base)


def _items_counted(ref: MetricRef, facts: Facts) -> int:
    """Items of the set after `kind`, `stratum` and the need of a label: exact or a bound."""
    role = role_of(ref)
    if role is None:
        return sum(facts.n_items.values())
    params = dict(ref.params)
    sizes = [facts.n_items[role]]
    kind, stratum = params.get("kind"), params.get("stratum")
    if kind is not None:
        sizes.append(facts.kinds.get(role, {}).get(kind, 0))
    if stratum is not None:
        sizes.append(facts.strata.get(role, {}).get(stratum, 0))
    if kind is not None and stratum is not None and role in facts.cells:
        sizes.append(facts.cells[role].get((kind, stratum), 0))
    if stem_of(ref) in _NEEDS_LABELS:
        sizes.append(sum(facts.labels.get(role, {}).values()))
    return min(sizes)


def _names(ref: MetricRef, spec: MetricSpec) -> Iterator[Trouble]:
    given = dict(ref.params)
    for name in spec.required:
        if name not in given:
            yield Trouble("metric", f"`{spec.name}` needs `{name}`", f"add `{name}:` beside it")
    known = (*spec.required, *spec.optional)
    for name in given:
        if name not in known:
            takes = f"it takes {', '.join(known)}" if known else "it takes no parameter"
            yield Trouble(name, f"`{spec.name}` takes no `{name}`", takes)


def _needs(ref: MetricRef, facts: Facts) -> Iterator[Trouble]:
    role, stem = role_of(ref), stem_of(ref)
    if role is None:
        return
    params = dict(ref.params)
    if stem in _KNOWN_BEFORE:
        what = f"`{ref.name}` is settled by the item file, whatever the judge says"
        yield Trouble("metric", what, "register something that a run can change")
    if stem == "flips" and "to" in params and params.get("verdict") in (None, params["to"]):
        what = "`to` needs another first verdict beside it"
        yield Trouble("to", what, "add `verdict:`, the verdict that is changed")
    if stem in _NEEDS_TWO_PASSES and facts.passes < 2:
        what = f"`{ref.name}` compares passes and the protocol has one"
        yield Trouble("metric", what, "write `passes: 2` or more, or leave the claim out")
    if stem in _NEEDS_LABELS and not any(facts.labels.get(role, {}).values()):
        yield Trouble("metric", f"no item of `{role}` has a known label", "add labels to the set")


def _value(key: str, value: str, ref: MetricRef, facts: Facts) -> Iterator[Trouble]:
    """Whether a parameter's value is legal."""
    role = role_of(ref)
    match key:
        case "verdict" | "to":
            yield from _one_of(key, value, facts.verdicts, "one of the judge's verdicts")
        case "kind" if role is not None:
            yield from _one_of(key, value, facts.kinds.get(role, {}), f"a kind of item in `{role}`")
        case "stratum" if role is not None:
            known = facts.strata.get(role, {})
            yield from _one_of(key, value, known, f"a stratum of `{role}`")
            yield from _empty_cell(value, ref, facts)
        case "reason":
            yield from _one_of(key, value, UNSCORED, "a reason for having no verdict")
        case "pass":
            if not _within(value, facts.passes):
                passes = f"{facts.passes} pass" + ("es" if facts.passes > 1 else "")
                yield Trouble(key, f"pass {value}: the protocol has {passes}")
        case "from_run":
            yield from _one_of(key, value, facts.from_runs, "an earlier run that was handed in")
            yield from _which_pass(dict(ref.params).get("from_pass"), value, facts)


def _one_of(key: str, value: str, known: Collection[str], what: str) -> Iterator[Trouble]:
    if value in known:
        return
    near = difflib.get_close_matches(value, list(known), n=2, cutoff=0.6)
    if near:
        remedy = f"did you mean {' or '.join(near)}?"
    else:
        remedy = f"known: {', '.join(known)}" if known else "there is none"
    yield Trouble(key, f"`{value}` is not {what}", remedy)


def _empty_cell(stratum: str, ref: MetricRef, facts: Facts) -> Iterator[Trouble]:
    role, kind = role_of(ref), dict(ref.params).get("kind")
    if role is not None and role in facts.cells and kind in facts.kinds.get(role, {}):
        known = stratum in facts.strata.get(role, {})
        if known and not facts.cells[role].get((str(kind), stratum)):
            what = f"no item of `{role}` has kind `{kind}` and stratum `{stratum}`"
            yield Trouble("stratum", what)


def _which_pass(given: str | None, run: str, facts: Facts) -> Iterator[Trouble]:
    passes = facts.from_runs.get(run)
    if passes is None:
        return
    if given is None:
        if passes > 1:
            what = f"the earlier run `{run}` has {passes} passes"
            yield Trouble("from_run", what, f"say which with `from_pass`, 1 to {passes}")
    elif not _within(given, passes):
        word = "pass" if passes == 1 else "passes"
        yield Trouble("from_pass", f"pass {given}: the earlier run `{run}` has {passes} {word}")


def _within(value: str, most: int) -> bool:
    return value.isascii() and value.isdigit() and 1 <= int(value) <= most
