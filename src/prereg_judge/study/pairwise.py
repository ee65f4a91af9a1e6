"""Study `pairwise`: does the better answer stay better when the two change places?

Turns outcomes into named metrics: what a swap of the orders does (`order_metrics`), also beyond
repeat noise (`excess_metrics`); whether the verdict follows length or format (`control_metrics`);
what the two orders come to together (`resolved_metrics`); and the metrics of rows that compare
passes, where a row is an item in one order with its verdicts said of the answers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

from prereg_judge.shaping import Decoding
from prereg_judge.study import self_agreement
from prereg_judge.study.calls import call_refs
from prereg_judge.study.computer import Computer, RowMetric, catalogue_of
from prereg_judge.study.control_metrics import CONTROL_SPECS, control_metric, control_traits
from prereg_judge.study.counted import not_computed
from prereg_judge.study.excess_metrics import EXCESS_SPECS, excess_metric
from prereg_judge.study.expected import AgreementCurve
from prereg_judge.study.judge_pools import LEAN_SPECS, LeanComputer, lean_refs
from prereg_judge.study.masses import MASS_SPECS, mass_metric
from prereg_judge.study.metric import Catalogue, Metric, MetricRef, MetricSpec
from prereg_judge.study.order_metrics import (
    ORDER_SPECS,
    SWAP_QUESTIONS,
    bias_metric,
    slot_metric,
    swap_metric,
)
from prereg_judge.study.outcomes import StudyInput
from prereg_judge.study.pairs import BOTH, swap_tables
from prereg_judge.study.resolved_metrics import RESOLVED_SPECS, resolved_metric
from prereg_judge.study.row_metrics import ROW_SPECS, both, row_metric
from prereg_judge.study.rows import GROUPING, Row
from prereg_judge.study.sentences import common_words
from prereg_judge.votes import SIDES
from prereg_judge.words import SetRole

__all__ = [
    "SPECS",
    "STUDY",
    "catalogue",
    "compute",
    "curves",
    "plain_words",
    "protocol_words",
    "summary",
    "swap_tables",
]

STUDY = "pairwise"

# Questions of rows, which are asked in one order: an item's two rows are not independent, so that
# no interval of shares would hold over both.
_IN_ORDER = ("agreement", "flips", "verdict", "wrong", "wrong_repeated", "wrong_found")
_OF_MASS = ("allowed_mass", "forced")
# Questions of items, whatever the order; and of all trials.
_OF_ITEMS = ("distinct", "duplicates")
_OF_TRIALS = ("missing",)


def _row_specs() -> Iterator[MetricSpec]:
    for spec in ROW_SPECS:
        stem = spec.name.removeprefix("{set}.").rpartition(".")[0]
        if stem in _IN_ORDER:
            yield replace(spec, required=("order", *spec.required))
        elif stem in (*_OF_ITEMS, *_OF_TRIALS):
            yield spec


def _mass_specs() -> Iterator[MetricSpec]:
    for spec in MASS_SPECS:
        yield replace(spec, required=("order", *spec.required))


def _in_order(data: StudyInput, ref: MetricRef, spec: MetricSpec, rows: Sequence[Row]) -> Metric:
    """A question of the rows of one order."""
    order = dict(ref.params)["order"]
    asked = [row for row in rows if row.order == order]
    if not asked:
        return not_computed(ref, note=f"pairs were shown in {' and '.join(data.orders)} only")
    of_mass = ref.name.split(".")[1] in _OF_MASS
    return (mass_metric if of_mass else row_metric)(data, ref, spec, asked)


def _of_items(data: StudyInput, ref: MetricRef, spec: MetricSpec, rows: Sequence[Row]) -> Metric:
    """A question that every order answers alike."""
    return row_metric(data, ref, spec, [row for row in rows if row.order == data.orders[0]])


SPECS = (
    *_row_specs(),
    *_mass_specs(),
    *ORDER_SPECS,
    *EXCESS_SPECS,
    *CONTROL_SPECS,
    *RESOLVED_SPECS,
)

# By the part of a metric's name between the set and the last word.
MAKERS: dict[str, RowMetric] = {
    **dict.fromkeys((*_IN_ORDER, *_OF_MASS), _in_order),
    **dict.fromkeys(_OF_ITEMS, _of_items),
    **{f"order.{name}": swap_metric for name in SWAP_QUESTIONS},
    "order.slot": slot_metric,
    "order.bias": bias_metric,
    "order.swap": excess_metric,
    "order.repeat": excess_metric,
    "order.excess": excess_metric,
    "length": control_metric,
    "length.follow": control_metric,
    "markdown": control_metric,
    "markdown.follow": control_metric,
    "resolved.verdict": resolved_metric,
    "resolved.wrong": resolved_metric,
}


def catalogue(roles: Sequence[SetRole]) -> Catalogue:
    """Every metric that may be registered for a run with these item sets.

    Parameters
    ----------
    roles
        The roles of the item sets in the run; repetitions do no harm.

    Returns
    -------
    Catalogue
        `{set}` filled in for each role, and the `calls.*` metrics; with no role only those.
    """
    return catalogue_of(STUDY, SPECS, roles=roles)


def _computer(data: StudyInput) -> Computer:
    return Computer(data, specs=SPECS, makers=MAKERS)


def compute(data: StudyInput, refs: Iterable[MetricRef]) -> dict[MetricRef, Metric]:
    """The metrics that were registered.

    Parameters
    ----------
    data
        The run.
    refs
        References with their parameters; `.ci_low` and `.ci_high` give a limit of the metric's
        interval.

    Returns
    -------
    dict
        One entry for every reference, in the order given; undefined with a typed reason where
        there is no value, never absent.
    """
    computer, of_votes = _computer(data), _of_votes(data)
    return {ref: (of_votes(ref) if _is_of_votes(ref) else computer(ref)) for ref in refs}


def _of_votes(data: StudyInput) -> Callable[[MetricRef], Metric]:
    """Who computes the metrics that compare the run with the pools of a table of votes."""
    if data.table is None:
        return lambda ref: not_computed(ref, note="no table of votes is registered")
    return LeanComputer(data)


def _is_of_votes(ref: MetricRef) -> bool:
    return any(ref.base.name == spec.name for spec in LEAN_SPECS)


def summary(data: StudyInput) -> tuple[Metric, ...]:
    """The full list that a report shows, whatever was registered.

    Parameters
    ----------
    data
        The run.

    Returns
    -------
    tuple of Metric
        Set by set: what the swap does pass by pass, also by kind and stratum; the excess over
        repeat noise where there are two passes; controls of the traits in which some answers
        differ; resolved verdicts where a rule is registered; then agreement between passes,
        verdicts and errors of the rows; then the calls.
    """
    computer = _computer(data)
    refs: list[MetricRef] = []
    for role, rows in computer.rows.items():
        if rows:
            refs += _set_refs(data, role, rows)
    lean: tuple[Metric, ...] = ()
    if data.table is not None:
        of_votes = _of_votes(data)
        lean = tuple(of_votes(ref) for ref in lean_refs(data.table))
    own = tuple(computer(ref) for ref in dict.fromkeys(refs))
    of_calls = call_refs(data) if data.calls else ()
    return (*own, *lean, *(computer(ref) for ref in of_calls))


def _set_refs(data: StudyInput, role: SetRole, rows: Sequence[Row]) -> Iterator[MetricRef]:
    passes = range(1, data.passes + 1)
    yield from both(f"{role}.missing")
    yield from _swap_refs(data, role, grouping={})
    for pass_no in passes:
        for order in data.orders:
            yield MetricRef.of(f"{role}.order.slot.rate", pass_=pass_no, order=order)
    for name in GROUPING:
        for value in dict.fromkeys(getattr(r.item, name) for r in rows):
            if value is not None:
                yield from _swap_refs(data, role, grouping={name: value})
    for trait, differs in control_traits([r.item for r in rows]).items():
        for pass_no in passes if differs else ():
            for metric in ("follow.rate", "follow.difference", "slope"):
                yield MetricRef.of(f"{role}.{trait}.{metric}", pass_=pass_no)
    labelled = any(r.item.label is not None for r in rows)
    for pass_no in passes if data.resolve is not None else ():
        for side in SIDES:
            yield from both(f"{role}.resolved.verdict", verdict=side, pass_=pass_no)
        if labelled:
            yield from both(f"{role}.resolved.wrong", pass_=pass_no)
    yield from _row_refs(data, role, labelled=labelled)


def _swap_refs(data: StudyInput, role: SetRole, *, grouping: dict[str, str]) -> Iterator[MetricRef]:
    """What the swap does, over all items or those of a kind or stratum."""
    stem = f"{role}.order"
    if not set(BOTH) <= set(data.orders):
        if not grouping:  # said once, with its reason
            yield MetricRef.of(f"{stem}.reversal.rate", pass_=1)
        return
    for pass_no in range(1, data.passes + 1):
        for name in SWAP_QUESTIONS:
            yield from both(f"{stem}.{name}", pass_=pass_no, **grouping)
        for name in ("slot.rate", "bias.difference", "bias.p"):
            yield MetricRef.of(f"{stem}.{name}", pass_=pass_no, **grouping)
    if data.passes > 1:
        for name in ("swap.rate", "repeat.rate", "excess.difference"):
            yield MetricRef.of(f"{stem}.{name}", **grouping)


def _row_refs(data: StudyInput, role: SetRole, *, labelled: bool) -> Iterator[MetricRef]:
    """The metrics of rows, each an item in one order."""
    yield MetricRef.of(f"{role}.distinct.count")
    yield MetricRef.of(f"{role}.duplicates.max")
    for order in data.orders:
        if data.masses:
            yield MetricRef.of(f"{role}.allowed_mass.min", order=order)
            yield MetricRef.of(f"{role}.allowed_mass.median", order=order)
            yield from both(f"{role}.forced", order=order)
        if data.passes > 1:
            yield from both(f"{role}.agreement", order=order)
            yield from both(f"{role}.flips", order=order)
        for pass_no in range(1, data.passes + 1):
            for verdict in data.verdicts:
                yield from both(f"{role}.verdict", verdict=verdict, pass_=pass_no, order=order)
            if labelled:
                yield from both(f"{role}.wrong", pass_=pass_no, order=order)
        if labelled and data.passes > 1:
            yield from both(f"{role}.wrong_repeated", order=order)
            yield from both(f"{role}.wrong_found", order=order)


def curves(data: StudyInput) -> tuple[AgreementCurve, ...]:
    """None: what is asked here is what the order does, not the temperature."""
    del data
    return ()


def protocol_words(*, decoding: Decoding, passes: int) -> list[str]:
    """What a protocol cannot show, as sentences; known before the run and said after it too."""
    said = self_agreement.protocol_words(decoding=decoding, passes=passes)
    if passes < 2:
        said.append(
            "Without a second pass the judge's own repeat noise is not known, so a reversal may "
            "come of the order or of chance."
        )
    elif decoding.mode != "sampled" or decoding.top_k == 1:
        said.append(
            "Repeat noise within an order is 0 by construction here, so the excess of order "
            "reversal over it (`order.excess`) is all of the disagreement between the orders: it "
            "says nothing of what fresh draws would do."
        )
    said.append("A verdict that is the same in both orders need not be right.")
    return said


def plain_words(data: StudyInput) -> list[str]:
    """What a reader must know before quoting a number of this study, as sentences.

    Parameters
    ----------
    data
        The run.

    Returns
    -------
    list of str
        What the protocol cannot show, what the unit of each interval is, then what every study
        says.
    """
    said = protocol_words(decoding=data.drawing, passes=data.passes)
    if not set(BOTH) <= set(data.orders):
        said.append(
            "The judge was asked in one order, so what the order does to its verdicts is not "
            "observed, and a preference for a slot cannot be told from one for an answer."
        )
    return [*said, *common_words(data)]
