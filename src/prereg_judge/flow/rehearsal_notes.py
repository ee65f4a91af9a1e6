"""What a reader must know of a rehearsed scenario, as sentences.

Says what the assumptions come to for this registration, which registered metrics are not
simulated, and which are held against something real. Plays nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from prereg_judge.flow.assumptions import Assumptions, RowAssumptions
from prereg_judge.flow.earlier import metric_refs
from prereg_judge.flow.prepare import Inputs
from prereg_judge.flow.views import pair_scale
from prereg_judge.study.calls import count_reason
from prereg_judge.study.judge_pools import LEAN_SPECS
from prereg_judge.study.metric import MetricRef
from prereg_judge.study.outcomes import PairScale
from prereg_judge.words import Order, SetRole

Span = tuple[float, float]
Floats = NDArray[np.float64]

_SIMULATED_REASONS = frozenset({None, "hang", "crash", "unreadable"})
_NOT_SIMULATED = {
    "allowed_mass": "the simulated judge gives everything to what the schema allows",
    "forced": "the simulated judge gives everything to what the schema allows",
    "probability_change": "each simulated arm is sure of its verdict",
    "calls.batches_lost": "simulated calls are answered one by one",
    "calls.seconds": "a simulated call takes no time, and a hang the registered time limit",
}
# Decodings under which chances do not show as stated.
_NO_CHANCE: Mapping[str, str] = {
    "seeded": "One registered seed serves all rows, and those that lead alike come out alike",
    "greedy": "Greedy decoding always takes the likeliest verdict",
}
_OF_VOTES = frozenset(s.name for s in LEAN_SPECS if not s.name.startswith("order."))
_TRAITS = {"length": "how long answers are", "markdown": "the format of answers"}


def notes_on(inputs: Inputs, assumed: Assumptions) -> list[str]:
    """What a reader must know of a scenario.

    Parameters
    ----------
    inputs
        The registration; it makes calls.
    assumed
        The scenario.

    Returns
    -------
    list of str
        Sentences; none where there is nothing to say.
    """
    pair = pair_scale(inputs)
    said = list(_of_mixtures(inputs, assumed))
    if pair is not None:
        said += _of_pairs(inputs, assumed, pair)
    protocol = inputs.model.protocol
    if protocol.arms:
        said.append("The stated agreement is taken as that of the two arms.")
    elif protocol.decoding.mode != "sampled":
        said.append(
            f"Under `{protocol.decoding.mode}` decoding a later pass repeats the first, whatever "
            "agreement is stated; only hangs and crashes differ."
        )
    return [*said, *_of_metrics(inputs)]


def _of_mixtures(inputs: Inputs, assumed: Assumptions) -> Iterator[str]:
    """How often two draws agree where the stated agreement is not all that is assumed."""
    for role, row in assumed.rows.items():
        pulled = row.pull is not None and row.pull.position != 0
        stated = [*(["lean"] if row.lean else []), *(["position"] if pulled else [])]
        if stated:
            alike = row.alike(inputs.judge.spec.verdicts)
            yield (
                f"With the {' and the '.join(stated)}, two independent draws on a {role} row agree "
                f"with chance {_span(alike)}."
            )


def _of_pairs(inputs: Inputs, assumed: Assumptions, pair: PairScale) -> Iterator[str]:
    """What the assumptions come to for a judge of pairs."""
    verdicts, protocol = inputs.judge.spec.verdicts, inputs.model.protocol
    pull = next((row.pull for row in assumed.rows.values() if row.pull), None)
    if pull is not None and pull.position:
        yield (
            f"Position: with chance {abs(pull.position):g} a call prefers the answer shown "
            f"{'first' if pull.position > 0 else 'second'}, whatever the answers are; as strongly "
            "as the row's leading verdict prefers one, and most strongly where that is a tie."
        )
        if protocol.decoding.mode in _NO_CHANCE:
            yield f"{_NO_CHANCE[protocol.decoding.mode]}, so a position does not show as stated."
    compared = len(protocol.orders) > 1 and not protocol.arms
    for role, row in assumed.rows.items():
        if _coarser(pair):
            alike = _alike_sides(row, verdicts, pair)
            yield (
                "`agreement` is that of the full scale; the same answer is preferred, or neither, "
                f"by two independent draws on a {role} row with chance {_span(alike)}."
            )
        if compared and protocol.decoding.mode == "sampled":
            yield from _expected(role, row, inputs, pair)


def _expected(role: SetRole, row: RowAssumptions, inputs: Inputs, pair: PairScale) -> Iterator[str]:
    """What order is expected to do in the long run."""
    bias, excess = order_effects(row, inputs.judge.spec.verdicts, pair)
    said = f"Expected of {role} rows, where every call brings a verdict: "
    said += f"order.bias.difference {_span(bias)}"
    if inputs.model.protocol.passes < 2:
        yield f"{said}."
        return
    yield f"{said}; order.excess.difference {_span(excess)}."
    if row.repeat:
        yield (
            f"The expected order.excess.difference of {role} rows takes passes to be independent. "
            "Passes that repeat each other hide repeat noise, so that it comes out higher."
        )


def order_effects(
    row: RowAssumptions, verdicts: Sequence[str], pair: PairScale
) -> tuple[Span, Span]:
    """What the assumptions make of the two measures of order, on one row.

    Parameters
    ----------
    row
        What is assumed of rows.
    verdicts
        The judge's list, V names.
    pair
        What they mean.

    Returns
    -------
    tuple of two pairs of float
        Least and largest value, over the V leading verdicts, of the expected
        `order.bias.difference` (in [-1/2, 1/2]) and `order.excess.difference` (in [0, 1]).

    Notes
    -----
    With c the credit of answer a (1, 1/2 for a tie, 0) the bias is (E_ab c - E_ba c) / 2; with p
    and q the chances of each preferred answer in the two orders, the excess is |p - q|^2 / 2. A
    position alone makes half of it and its square, whatever the row: the rest of a call's chances
    says the same of the answers in both orders and cancels. A lean to a tie makes nothing.
    """
    orders: tuple[Order, Order] = ("ab", "ba")
    ab, ba = (_of_answers(row, verdicts, pair, order) for order in orders)
    credit = np.array([0.0, 0.5, 1.0])  # of answer a, by side -1, 0, 1
    bias, excess = (ab - ba) @ credit / 2, ((ab - ba) ** 2).sum(axis=1) / 2
    return (float(bias.min()), float(bias.max())), (float(excess.min()), float(excess.max()))


def _of_answers(
    row: RowAssumptions, verdicts: Sequence[str], pair: PairScale, order: Order
) -> Floats:
    """Chances that answer b, neither, answer a is preferred; shape (V, 3), by leading verdict."""
    found = np.zeros((len(verdicts), 3))
    for at, leading in enumerate(verdicts):
        shown = verdicts.index(pair.mapped(leading, order))
        for verdict, chance in zip(verdicts, row.chances(shown, verdicts), strict=True):
            found[at, pair.side(pair.mapped(verdict, order)) + 1] += chance
    return found


def _alike_sides(row: RowAssumptions, verdicts: Sequence[str], pair: PairScale) -> Span:
    """Least and largest chance that two draws in one order prefer the same answer, or neither."""
    each = (_of_answers(row, verdicts, pair, "ab") ** 2).sum(axis=1)
    return float(each.min()), float(each.max())


def _coarser(pair: PairScale) -> bool:
    """Whether several verdicts prefer the same answer."""
    return len({pair.side(v) for v in pair.sides}) < len(pair.sides)


def _span(span: Span) -> str:
    """One number, or two where the leading verdict of a row makes a difference."""
    low, high = (f"{round(value, 9) + 0.0:.4g}" for value in span)
    return low if low == high else f"{low} to {high}, by the row's leading verdict"


def _of_metrics(inputs: Inputs) -> Iterator[str]:
    """Registered metrics that the simulated judge does not make, or not alone."""
    for ref in metric_refs(inputs.claims):
        why = _not_simulated(ref)
        if why is not None:
            yield f"{ref} is not simulated: {why}."
        run = dict(ref.params).get("from_run")
        if run is not None:
            yield (
                f"{ref} compares with the real run {run}; the simulated judge knows nothing of "
                "it and answers as stated."
            )
        if ref.base.name in _OF_VOTES:
            yield (
                f"{ref} holds simulated verdicts against the registered votes, which are real; "
                "the simulated judge knows nothing of them and answers as stated."
            )
        trait = _TRAITS.get("".join(ref.base.name.split(".")[1:2]))
        if trait is not None:
            yield (
                f"{ref}: the simulated judge does not see {trait}, and follows it only as far as "
                "the verdicts that lead do."
            )


def _not_simulated(ref: MetricRef) -> str | None:
    """Why a metric comes out by this tool's invention alone; None where it does not."""
    name = ref.base.name
    for part, why in _NOT_SIMULATED.items():
        if name.startswith(part) or part in name.split(".")[1:2]:
            return why
    if name.startswith("calls.") and count_reason(ref) not in _SIMULATED_REASONS:
        return f"no simulated call ends as {count_reason(ref)}"
    return None
