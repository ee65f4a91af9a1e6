"""Checks one metric reference: name, parameters and their values.

Knows the study's catalogue and the facts of the inputs, not the claims that use the metric.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

from prereg_judge.registration.labelling_refs import LabellingFacts, labelling_troubles
from prereg_judge.registration.table_refs import TableFacts, table_troubles
from prereg_judge.shaping import Decoding
from prereg_judge.study.expected import temperature_of
from prereg_judge.study.judge_pools import LEAN_SPECS
from prereg_judge.study.metric import Catalogue, MetricRef, MetricSpec
from prereg_judge.votes import SIDES
from prereg_judge.words import SET_ROLES, UNSCORED, Missing, Order, SetRole

# The part of a name between the set and the last word, for what the catalogue does not say.
_NEEDS_TWO_PASSES = {
    "agreement", "fidelity", "flips", "ships.some", "wrong_found", "wrong_repeated",
    "probability_change",
}  # fmt: skip
# Made of the probabilities of verdicts, or of what the model gave to the allowed tokens.
_NEEDS_CHOICE = {"expected_agreement", "probability_change"}
_NEEDS_MASS = {"allowed_mass", "forced"}
NEEDS_LABELS = {"wrong", "wrong_ships", "wrong_found", "wrong_repeated", "resolved.wrong"}
# Compare the two orders of a pair, or resolve them; and those of them that need a second pass.
_NEEDS_BOTH_ORDERS = ("order.", "resolved.")
_NEEDS_REPEATS = {"order.repeat", "order.excess"}
# Settled by the item file and the judge file: a run can change nothing about them.
_KNOWN_BEFORE = {"distinct", "duplicates"}
# Metrics without an interval.
_NO_INTERVAL = {
    "calls.count", "calls.attempts_per_trial", "calls.batches_lost", "calls.seconds.max",
    "allowed_mass.min", "probability_change.max", "order.bias.p", "items.count",
    "lean.sign_test.p", "shift.sd", "shift.difference_sd", "swap.probability",
    "displacement.pairs", "displacement.even_pairs", "ratings.count", "reversals.count",
    "reversals.clear.count", "band.width", "band.margins.count",
}  # fmt: skip
_P_VALUES = (".p", ".p_holm")
# Compare a trait of the answers with what known labels prefer.
_LABELLED_MEASURES = {"length.follow.difference", "markdown.follow.difference"}

_SAMPLED = Decoding("sampled")

# Kind, stratum and known label of a row; None where it has none.
Cell = tuple[str | None, str | None, str | None]
# Earlier run, its pass, set and verdict.
Given = tuple[str, int, SetRole, str]


@dataclass(frozen=True)
class Facts:
    """What lint must know of a registration's inputs.

    Attributes
    ----------
    table
        For each item set of the registration, number of items of each kind, stratum and label.
    verdicts
        The judge's closed list.
    passes
        Registered number of passes.
    trials, retries
        Planned trials, and how often one may be tried again.
    stops
        Whether a stop rule may end the run before its last trial.
    from_runs
        Number of passes of each earlier run that can be compared with, by its name.
    given
        How often each earlier run gave each verdict; None = not looked up.
    missing
        How a trial without a verdict counts; with `exclude`, n is not known beforehand.
    ships
        The verdict that ships.
    paths
        How verdicts are read (`generate`, `choice`): one entry where every pass is read alike,
        else one for each arm.
    decoding
        The registered decoding.
    server
        Whether a server answers, which gives no probabilities and can answer with an error.
    thinking
        Whether the judge thinks before its reply, with a cap of its own.
    parallel
        Most calls at once, over all arms; None = not known.
    orders
        The orders in which each item is shown.
    resolve
        The rule by which the verdicts of two orders become one, where one is registered.
    tables
        What is known of tables of votes, where there are any.
    labellings
        What is known of labellings or ratings, for the studies of these.
    parameters
        Known values of the parameters that are about tables, by the parameter's name.
    """

    table: Mapping[SetRole, Mapping[Cell, int]]
    verdicts: Collection[str]
    passes: int
    trials: int
    retries: int
    stops: bool = False
    from_runs: Mapping[str, int] = field(default_factory=dict)
    given: Mapping[Given, int] | None = None
    missing: Missing = "disagree"
    ships: str | None = None
    paths: tuple[str, ...] = ("generate",)
    decoding: Decoding = _SAMPLED
    server: bool = False
    thinking: bool = False
    parallel: int | None = None
    orders: tuple[Order, ...] = ("ab",)
    resolve: str | None = None
    tables: TableFacts | None = None
    labellings: LabellingFacts | None = None
    parameters: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def chooses(self) -> bool:
        """Whether every verdict is chosen among closed replies."""
        return set(self.paths) == {"choice"}

    @property
    def certain(self) -> bool:
        """Whether decoding leaves a single token, so that nothing is left to chance."""
        return self.decoding.mode == "greedy" or self.decoding.top_k == 1

    def groups(self, role: SetRole, name: Literal["kind", "stratum", "label"]) -> list[str]:
        """The kinds, strata or labels that items of a set have."""
        at = ("kind", "stratum", "label").index(name)
        return list(dict.fromkeys(g for cell in self.table[role] if (g := cell[at]) is not None))

    def rows(
        self,
        role: SetRole,
        *,
        kind: str | None = None,
        stratum: str | None = None,
        label: str | None = None,
        labelled: bool = False,
    ) -> int:
        """Number of items that are of this kind, stratum and label, each where it is given."""
        return sum(
            n
            for (k, s, has), n in self.table[role].items()
            if (kind is None or k == kind)
            and (stratum is None or s == stratum)
            and (label is None or has == label)
            and (has is not None or not labelled)
        )

    def given_earlier(self, role: SetRole, params: Mapping[str, str]) -> int | None:
        """Rows to which an earlier run gave a verdict; None where that was not looked up."""
        if self.given is None:
            return None
        number = int(params.get("from_pass", "1"))
        return self.given.get((params["from_run"], number, role, params["verdict"]), 0)


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
    if role is not None and role not in facts.table:
        sets = ", ".join(facts.table)
        what = f"the registration has no item set `{role}`"
        return [Trouble("metric", what, f"add it under items, or use {sets}")]
    spec = catalogue.specs.get(ref.base.name)
    if spec is None:
        return [no_metric(ref.base.name, catalogue)]
    troubles = [*_names(ref, spec), *_needs(ref, facts)]
    for key, value in ref.params:
        if key in (*spec.required, *spec.optional):
            troubles += _value(key, value, ref, facts)
    return troubles


def no_metric(name: str, catalogue: Catalogue) -> Trouble:
    """That a study has no metric of this name, and the names most like it."""
    if name in {spec.name for spec in LEAN_SPECS} and catalogue.study == "pairwise":
        what = f"`{name}` compares the judge with pools of annotators, and no votes are registered"
        return Trouble("metric", what, "add `annotations:`, the table of votes")
    near = catalogue.nearest(name)
    remedy = f"did you mean {' or '.join(near)}?" if near else "see `prereg metrics`"
    return Trouble("metric", f"the study {catalogue.study} has no metric `{name}`", remedy)


def rows_counted(ref: MetricRef, facts: Facts) -> int:
    """Rows of the set after `kind`, `stratum` and the need of a label: 0 where there is none."""
    role, params = role_of(ref), dict(ref.params)
    if role is None:
        return sum(facts.rows(each) for each in facts.table)
    return facts.rows(
        role,
        kind=params.get("kind"),
        stratum=params.get("stratum"),
        labelled=stem_of(ref) in NEEDS_LABELS,
    )


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
    measure = ref.base.name.partition(".")[2] if role else ref.base.name
    if ref != ref.base and (measure in _NO_INTERVAL or measure.endswith(_P_VALUES)):
        yield Trouble("metric", f"`{ref.base.name}` has no interval", "leave `.ci_low/high` out")
    if role is None:
        for what, remedy in table_troubles(ref, facts.tables) if facts.tables else ():
            yield Trouble("metric", what, remedy)
        for key, what, remedy in (
            labelling_troubles(ref, facts.labellings) if facts.labellings else ()
        ):
            yield Trouble(key, what, remedy)
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
    yield from _orders(ref, stem, facts)
    labelled = stem in NEEDS_LABELS or measure in _LABELLED_MEASURES
    if labelled and not facts.rows(role, **_grouping(params), labelled=True):
        yield Trouble("metric", f"no such item of `{role}` has a known label", "add labels")
    yield from _probabilities(ref, stem, facts)


def _grouping(params: Mapping[str, str]) -> dict[str, str | None]:
    return {name: params.get(name) for name in ("kind", "stratum")}


def _orders(ref: MetricRef, stem: str, facts: Facts) -> Iterator[Trouble]:
    """Whether the run shows pairs in the orders, and often enough, for a metric that needs it."""
    if stem in _NEEDS_REPEATS and facts.passes < 2:
        what = f"`{ref.name}` needs two passes: the judge's own noise is seen when it repeats"
        yield Trouble("metric", what, "write `passes: 2` or more, or leave the claim out")
    if stem.startswith("resolved.") and facts.resolve is None:
        what = f"`{ref.name}` needs the rule by which two orders become one verdict"
        yield Trouble("metric", what, "add `resolve:`, one of agree_or_tie, average and first")
    one_is_enough = stem == "order.slot" or (
        stem.startswith("resolved.") and facts.resolve == "first"
    )
    needs_both = stem.startswith(_NEEDS_BOTH_ORDERS) and stem != "order.repeat"
    if needs_both and not one_is_enough and len(facts.orders) < 2:
        what = f"`{ref.name}` compares the two orders, and the pairs are shown in one"
        yield Trouble("metric", what, "write `orders: [ab, ba]`, or leave the claim out")


def _probabilities(ref: MetricRef, stem: str, facts: Facts) -> Iterator[Trouble]:
    """Whether the run gives the probabilities that a metric is made of."""
    if stem in _NEEDS_MASS and facts.server:
        what = f"`{ref.name}` needs the model's probabilities, which a server does not give"
        yield Trouble("metric", what, "run the model in process, or leave the claim out")
    if stem not in _NEEDS_CHOICE:
        return
    if not facts.chooses:
        where = "in both arms" if len(facts.paths) > 1 else "in the protocol"
        what = f"`{ref.name}` needs the probability of every verdict, which `generate` lacks"
        yield Trouble("metric", what, f"write `path: choice` {where}, or leave the claim out")
    elif stem == "expected_agreement" and _nothing_drawn(ref, facts):
        what = f"`{ref.name}` is 1 by definition where a single token is left to draw from"
        yield Trouble("metric", what, "name a `temperature`, or draw in the protocol")


def _nothing_drawn(ref: MetricRef, facts: Facts) -> bool:
    """Whether every verdict is certain: another temperature lifts greedy decoding, not top_k 1."""
    return facts.certain and (
        facts.decoding.mode != "greedy" or "temperature" not in dict(ref.params)
    )


def _value(key: str, value: str, ref: MetricRef, facts: Facts) -> Iterator[Trouble]:
    """Whether a parameter's value is legal."""
    role = role_of(ref)
    match key:
        case _ if key in facts.parameters:
            yield from _one_of(key, value, facts.parameters[key], f"a known {key}")
        case "verdict" if stem_of(ref) == "resolved.verdict":
            yield from _one_of(key, value, SIDES, "a side")
        case "order":
            yield from _one_of(key, value, facts.orders, "an order of this run")
        case "scale":
            yield from _one_of(key, value, ("side", "verdict"), "a scale")
        case "verdict" | "to":
            yield from _one_of(key, value, facts.verdicts, "one of the judge's verdicts")
        case "kind" if role is not None:
            known = facts.groups(role, "kind")
            yield from _one_of(key, value, known, f"a kind of item in `{role}`")
        case "stratum" if role is not None:
            known = facts.groups(role, "stratum")
            yield from _one_of(key, value, known, f"a stratum of `{role}`")
            yield from _empty_cell(value, ref, facts)
        case "reason":
            yield from _one_of(key, value, UNSCORED, "a reason for having no verdict")
        case "temperature" if temperature_of(value) is None:
            yield Trouble(key, f"`{value}` is no temperature", "write a number above 0")
        case "pass":
            if not _within(value, facts.passes):
                passes = f"{facts.passes} pass" + ("es" if facts.passes > 1 else "")
                yield Trouble(key, f"pass {value}: the protocol has {passes}")
        case "from_run":
            yield from _one_of(key, value, facts.from_runs, "an earlier run that was handed in")
            yield from _which_pass(dict(ref.params).get("from_pass"), value, facts)
            yield from _never_given(ref, value, facts)


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
    if role is None or kind is None or not facts.rows(role, kind=kind):
        return
    if facts.rows(role, stratum=stratum) and not facts.rows(role, kind=kind, stratum=stratum):
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


def _never_given(ref: MetricRef, run: str, facts: Facts) -> Iterator[Trouble]:
    role, params = role_of(ref), dict(ref.params)
    number, passes = params.get("from_pass", "1"), facts.from_runs.get(run, 0)
    if role is None or params.get("verdict") not in facts.verdicts or not _within(number, passes):
        return
    if facts.given_earlier(role, params) == 0:
        what = f"the earlier run `{run}` gave no item of `{role}` the verdict {params['verdict']}"
        yield Trouble("verdict", what)


def _within(value: str, most: int) -> bool:
    return value.isascii() and value.isdigit() and 1 <= int(value) <= most
