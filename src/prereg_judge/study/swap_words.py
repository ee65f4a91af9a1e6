"""What a reader must know before quoting a number of study `reference-swap`, as sentences."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

from prereg_judge.labelled import DUPLICATES, Duplicates
from prereg_judge.stats.paired import exact_sign_test
from prereg_judge.stats.significance import holm
from prereg_judge.study.metric import Metric, MetricRef
from prereg_judge.study.outcomes import SwapInput
from prereg_judge.study.swap_band import Band, Inside, band_of, margins_inside
from prereg_judge.study.swap_computer import BIASED, Computer
from prereg_judge.study.swap_differences import (
    FEW_ROWS,
    difference_metric,
    left_out,
    reversal_words,
)
from prereg_judge.study.swap_neutral import ONE_SIGN
from prereg_judge.study.swap_sums import Look
from prereg_judge.study.swap_tests import SIGNIFICANT, Difference, P, Reversal, significant

# A sentence names no more tests than this.
MOST_NAMED = 4


def plain_words_of(computer: Computer) -> list[str]:
    """Neutrality, the decontaminated scores, reversals, the band, duplicates and the spread."""
    lost = left_out(computer.scores)
    return [
        *([f"{lost[0].upper()}{lost[1:]}."] if lost else []),
        *alike_words(computer.swap),
        *skew_words(computer),
        *decontaminated_words(computer),
        *reversals_words(computer),
        *band_words(computer),
        *duplicates_words(computer),
        *spread_words(computer),
    ]


def alike_words(swap: SwapInput) -> list[str]:
    """Which labellings are copies of each other, by place, and by type where both have types."""
    labelled, said = swap.labelled, []
    for (at, one), (to, other) in combinations(enumerate(labelled.names), 2):
        typed = labelled.typed[at] and labelled.typed[to]
        shared = labelled.shared["strict" if typed else "relaxed"]
        both = labelled.given[:, at] & labelled.given[:, to]
        sizes = shared[both, at, at]
        same = (shared[both, at, to] == sizes).all() and (shared[both, to, to] == sizes).all()
        if sizes.any() and same:
            said.append(
                f"{one} and {other} are the same on all {int(both.sum())} rows that have both: "
                "whatever compares them is settled by that."
            )
    return said


def _look(computer: Computer) -> Look:
    return Look(computer.swap.match, computer.swap.duplicates)


def _p_text(p: float) -> str:
    return "p < 0.0001" if p < 0.0001 else f"p = {p:.4f}"


def _with_interval(metric: Metric) -> str:
    """A difference with its interval, or with why there is none."""
    if metric.value is None:
        return f"undefined ({metric.note or metric.undefined})"
    if metric.interval is None:
        return f"{metric.value:+.4f} (no interval)"
    i = metric.interval
    return f"{metric.value:+.4f} [{i.low:+.4f}, {i.high:+.4f}]"


def skew_tests(computer: Computer) -> dict[Difference, float]:
    """Every test of neutrality, with its p-value adjusted by Holm over all of them.

    Each reference, each pair of outputs, all rows and each stratum of several; as registered
    otherwise. What has no rows is not tested.
    """
    look, swap = _look(computer), computer.swap
    strata = computer.scores.sums.strata
    places = [look, *(Look(look.match, look.duplicates, "all", s) for s in strata)]
    if len(strata) == 1 and None not in swap.labelled.strata:
        places = [look]
    every = [
        Difference("skew", place, one, two, reference)
        for reference in swap.references
        for one, two in combinations(swap.outputs, 2)
        for place in places
    ]
    raw = {test: p.value for test in every if (p := computer.values.p(test)).value is not None}
    if not raw:
        return {}
    adjusted = holm([p for p in raw.values() if p is not None])
    return dict(zip(raw, map(float, adjusted), strict=True))


def skew_words(computer: Computer) -> list[str]:
    """A sentence for each reference that is not neutral between two outputs; or that none is."""
    tests = skew_tests(computer)
    if not tests:
        return []
    said = []
    for test, p in tests.items():
        if p > SIGNIFICANT:
            continue
        about = computer.scores.about(*test.outputs)
        n = computer.scores.n(test.look, about)
        shares = [
            computer.scores.exact(test.look, about, name, test.reference)[1] / n
            for name in test.outputs
        ]
        where = f"In stratum {test.look.stratum} the" if test.look.stratum is not None else "The"
        repeated = computer.scores.repeated(test.look, about)
        rows, copies = ("rows", f"; {ONE_SIGN}") if repeated else ("items", "")
        said.append(
            f"{where} reference {test.reference} equals {test.output} on {shares[0]:.1%} of {n} "
            f"{rows} and {test.other} on {shares[1]:.1%}: it is not neutral between them "
            f"(difference {_with_interval(difference_metric(computer.values, test))}; exact "
            f"paired test, Holm over {len(tests)} tests, {_p_text(p)}{copies})."
        )
    if said:
        better = (
            "A reference equals a better output more often too: whether it was made from one of "
            "them this test cannot tell, but another reference that is not skewed alike can."
        )
        return [*said, better]
    tested = f"{len(tests)} exact paired test{'s' if len(tests) > 1 else ''}"
    return [
        f"No reference equals one output significantly more often than another ({tested}, Holm; "
        f"smallest {_p_text(min(tests.values()))}). That is no proof that they are neutral.",
        *blind_words(computer, list(tests)),
    ]


def blind_words(computer: Computer, tests: list[Difference]) -> list[str]:
    """Which tests of neutrality no split of their items could have made significant.

    At best every test has all of its uneven items on one side; Holm leaves no p lower than then.
    """
    uneven = [sum(computer.values.signs(test)) for test in tests]
    best = holm([exact_sign_test(number, 0) for number in uneven])
    blind = [at for at, p in enumerate(best) if p > SIGNIFICANT]
    if not blind:
        return []
    named = []
    for at in blind[:MOST_NAMED]:
        place = tests[at].look.stratum
        where = f" in stratum {place}" if place is not None else ""
        pair = f"{tests[at].output} and {tests[at].other}"
        named.append(f"{tests[at].reference} with {pair}{where} ({uneven[at]} uneven)")
    more = f"; and {len(blind) - MOST_NAMED} more" if len(blind) > MOST_NAMED else ""
    return [
        f"Of these tests {len(blind)} of {len(tests)} could not have found it: with so few items "
        "that equal one output more often than the other, no split of them reaches p = "
        f"{SIGNIFICANT}: {'; '.join(named)}{more}."
    ]


def decontaminated_words(computer: Computer) -> list[str]:
    """What is left without the rows that the delivered reference shares with an output."""
    look, swap = _look(computer), computer.swap
    scores, delivered = computer.scores, computer.scores.delivered
    clean = Look(look.match, look.duplicates, "decontaminated")
    if not scores.sums.typed(look.match, delivered, *swap.outputs):
        return []
    n, full = scores.n(clean, swap.outputs), scores.n(look, swap.outputs)
    names = " or ".join(swap.outputs)
    left = f"{n} of {full} rows are left"
    head = f"Without the rows on which {delivered} equals {names}, {left}"
    if not n:
        return [f"{head}: nothing can be said without them."]
    every = [
        Difference("delta", clean, output, "", alternative)
        for output in swap.outputs
        for alternative in swap.references[1:]
    ]
    every.append(Difference("margin", clean, swap.outputs[0], swap.outputs[1], delivered))
    parts, unclear = [], []
    for test in every:
        found = difference_metric(computer.values, test)
        name = _name(test)
        size = ""
        if len(swap.outputs) > 2 and test.name == "margin":
            size = f" (on {found.n} rows)"
        parts.append(f"{name} {_with_interval(found)}{size}")
        whole = Difference(test.name, look, test.output, test.other, test.reference)
        if _inconclusive(found, difference_metric(computer.values, whole)):
            unclear.append(name)
    said = [
        f"{head}: {'; '.join(parts)}. Every row on which {delivered} equals an output is gone, so "
        f"scores under {delivered} come out too low here: a delta that stays above 0 does not rest "
        "on such rows, one that does not may still be real."
    ]
    if n < FEW_ROWS:
        said.append(f"These are too few to conclude from: fewer than {FEW_ROWS} rows.")
    elif unclear:
        said.append(
            f"These are too few to conclude from for {', '.join(unclear)}: the interval "
            "holds both 0 and the value of all rows, or there is none."
        )
    return said


def _inconclusive(found: Metric, whole: Metric) -> bool:
    if found.interval is None or whole.value is None:
        return True
    i = found.interval
    return i.low <= 0 <= i.high and i.low <= whole.value <= i.high


def _name(test: Difference) -> str:
    if test.name == "delta":
        return f"the delta of {test.output} to {test.reference}"
    pair = f"{test.output} - {test.other}"
    if test.name == "margin":
        return f"the margin {pair} under {test.reference}"
    return f"the interaction {pair} with {test.reference}"


def reversals_words(computer: Computer) -> list[str]:
    """A sentence for each pair of outputs that changes places; or that none does."""
    swap = computer.swap
    every = list(computer.values.reversals(_look(computer), swap.references[1:]))
    found = [one for one in every if one.reversed]
    if found:
        return [
            f"The order of two outputs turns: {reversal_words(one, computer.scores)}."
            for one in found
        ]
    if all(one.trouble is not None for one in every):
        return []
    return ["No two outputs change places when the reference is exchanged."]


def band_words(computer: Computer) -> list[str]:
    """The largest delta, how far its interval reaches, and which margins are no larger."""
    look, swap = _look(computer), computer.swap
    band = band_of(computer.values, look, swap.outputs)
    if band.largest is None:
        return []
    largest = _largest_words(computer, band)
    if band.width is None:
        return [f"{largest}; it has no interval, so there is no band."]
    alone = []
    for output in swap.outputs:
        width = band_of(computer.values, look, (output,)).width
        alone.append(f"{output} {'undefined' if width is None else f'{width:.4f}'}")
    inside, count = margins_inside(computer.values, look, band.width)
    said = [
        f"{largest}; its 95% interval reaches to {band.width:.4f}: the band (from each output "
        f"alone: {', '.join(alone)}). The band is descriptive and selected: the delta was picked "
        "because it is the largest, so its interval is too narrow."
    ]
    if inside:
        which = "; ".join(
            f"{m.output} - {m.other} under {m.reference} {_margin(computer, m)}" for m in inside
        )
        said.append(
            f"No larger than the band are {len(inside)} of {count} margins: {which}. That is no "
            "test of these margins."
        )
    elif count:
        said.append(f"Of {count} margins all are larger than the band.")
    return said


def _largest_words(computer: Computer, band: Band) -> str:
    """The largest delta that was observed: how large, of which output, to which alternative."""
    assert band.largest is not None
    value = computer.values.estimate(band.largest).value
    output, alternative = band.largest.output, band.largest.reference
    which = f"{output} scored under {computer.scores.delivered} and under {alternative}"
    if value == 0:
        observed = (
            f"{band.among} observed, the first is" if band.among > 1 else "the one observed is"
        )
        return f"No delta is other than 0 ({observed} {which})"
    among = f", in absolute value the largest of {band.among}" if band.among > 1 else ""
    turned = ", here without its sign" if value < 0 else ""
    return f"The largest delta observed is {value:+.4f} ({which}{among}{turned})"


def _margin(computer: Computer, inside: Inside) -> str:
    test = Difference("margin", _look(computer), inside.output, inside.other, inside.reference)
    return _with_interval(difference_metric(computer.values, test))


def duplicates_words(computer: Computer) -> list[str]:
    """Which conclusions depend on what becomes of copies; or that none does."""
    swap = computer.swap
    copies = swap.labelled.copies
    if not copies:
        return ["No rows are copies of the same item, so all policies on duplicates are the same."]
    said = []
    for test in _concluded(computer):
        ends = {policy: _conclusion(computer, test, policy) for policy in DUPLICATES}
        if len({end for end, _ in ends.values()}) > 1:
            parts = ", ".join(f"{policy} {text}" for policy, (_, text) in ends.items())
            said.append(f"What becomes of copies decides on {_name(test)}: {parts}.")
    said += list(_turning(computer))
    if said:
        return said
    return [
        f"{copies} rows are copies: sign and significance of every delta, margin and interaction, "
        "and every reversal, are the same under all four policies."
    ]


def _concluded(computer: Computer) -> Iterator[Difference]:
    swap, look = computer.swap, _look(computer)
    for output in swap.outputs:
        for name in swap.references[1:]:
            yield Difference("delta", look, output, "", name)
    for one, two in combinations(swap.outputs, 2):
        for name in swap.references:
            yield Difference("margin", look, one, two, name)
        for name in swap.references[1:]:
            yield Difference("interaction", look, one, two, name)


def _conclusion(
    computer: Computer, test: Difference, policy: Duplicates
) -> tuple[tuple[object, ...], str]:
    """Sign and significance under a policy, by the p-value without adjustment, and as words."""
    look = Look(test.look.match, policy)
    here = Difference(test.name, look, test.output, test.other, test.reference)
    trouble = computer.values.trouble(here)
    if trouble is not None:
        return (trouble[0],), "undefined"
    value, p = computer.values.estimate(here).value, computer.values.p(here)
    sign = (value > 0) - (value < 0)
    return (sign, significant(p)), f"{value:+.4f} ({_p_or_none(p)})"


def _p_or_none(p: P) -> str:
    return "no p" if p.value is None else _p_text(p.value)


def _turning(computer: Computer) -> Iterator[str]:
    """Reversals that are there, or clear, under some policies only."""
    swap = computer.swap
    match = swap.match
    by_policy = {
        policy: list(computer.values.reversals(Look(match, policy), swap.references[1:]))
        for policy in DUPLICATES
    }
    for at, one in enumerate(by_policy[swap.duplicates]):
        ends = {p: _reading(found[at]) for p, found in by_policy.items()}
        if len(set(ends.values())) > 1:
            pair = f"{one.first.output} and {one.first.other} under {one.second.reference}"
            parts = ", ".join(f"{policy} {end}" for policy, end in ends.items())
            yield f"What becomes of copies decides whether {pair} change places: {parts}."


def _reading(one: Reversal) -> str:
    if not one.reversed:
        return "no reversal"
    return "reversal, strong reading" if one.clear else "reversal, weaker reading"


def spread_words(computer: Computer) -> list[str]:
    """How far each output's score goes over all other labellings."""
    said = []
    look = _look(computer)
    for output in computer.swap.outputs:
        about = computer.scores.about(output)
        if computer.scores.trouble(look, about, (output,)) is not None:
            continue
        found = computer.scores.spread(look, output)
        if len(found.scores) < 2:
            continue
        names = list(found.scores)
        high, low = names[0], names[-1]
        metric = computer(MetricRef.of("spread", output=output))
        said.append(
            f"Over {len(names)} labellings the F1 of {output} goes from "
            f"{found.scores[low]:.4f} ({low}) to {found.scores[high]:.4f} ({high}): a spread of "
            f"{found.value:.4f} on {metric.n} rows."
        )
    if said:
        said.append(f"A spread has no interval: {BIASED}.")
    return said
