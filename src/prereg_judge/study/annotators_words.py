"""Study `annotators`: what a reader must know before quoting a number, as sentences."""

from __future__ import annotations

from collections.abc import Sequence

from prereg_judge.study.annotators_coefficients import FEW_DIFFERING
from prereg_judge.study.annotators_computer import Computer
from prereg_judge.study.annotators_diagnosis import (
    Diagnosis,
    Standing,
    diagnosis_of,
)
from prereg_judge.study.annotators_groups import Group, unanimous
from prereg_judge.study.annotators_resolving import Shift, shifts_of
from prereg_judge.study.annotators_spans import NO_CHANCE
from prereg_judge.study.annotators_summary import listed
from prereg_judge.study.annotators_view import (
    Confusion,
    confusions_of,
    label_confusions,
    merged_refs,
)
from prereg_judge.study.metric import MetricRef

# Where chance alone agrees this often, kappa says little of how often annotators agree.
PREVALENT = 0.8
# Below what the convention of Landis and Koch calls substantial.
LOW_KAPPA = 0.6
PARADOX = ("kappa.fleiss", "kappa.fleiss.observed", "kappa.fleiss.expected", "ac1")
# The most labels, or confusions, that a sentence names.
MOST_NAMED = 3


def words_of(computer: Computer) -> list[str]:
    """All sentences on one computer's annotators."""
    said = _spans(computer) if computer.spans is not None else _ratings(computer)
    if cut := listed(computer).left_out:
        said.append(f"Not listed, to keep the list readable: {'; '.join(cut)}.")
    return said


def _spans(computer: Computer) -> list[str]:
    assert computer.spans is not None
    said = [f"{NO_CHANCE[0].upper()}{NO_CHANCE[1:]}."]
    found = confusions_of(computer)
    if found:
        total = sum(c.pairs for c in found)
        hidden = sum(c.pairs for c in found if c.hidden)
        many = "1 pair" if total == 1 else f"{total} pairs"
        text = f"Annotators gave {many} of marks at the same place different types; the "
        text += f"most frequent confusions: {_confused(found, total)}."
        if hidden:
            text += f" The map of types hides {hidden} of them ({hidden / total:.1%})."
        said.append(text)
    if copies := computer.spans.labelled.copies:
        said.append(
            f"{copies} rows are rows of an item that has another row; they are resampled together."
        )
    return said


def _ratings(computer: Computer) -> list[str]:
    groups = computer.groups
    assert groups is not None
    total = groups.counts(Group()).sum(axis=1)
    if not (total > 1).any():
        return ["No item has ratings of two annotators, so nothing shows how far they agree."]
    said = []
    if lone := int((total == 1).sum()):
        said.append(
            f"{lone} of {int((total > 0).sum())} items have one rating: nobody could contradict "
            "it, and it says nothing of agreement."
        )
    pools = computer.values["pool"]
    shown: list[str | None] = [None, *(pools if len(pools) > 1 else ())]
    computer.all(_needed(computer, shown))
    for pool in shown:
        said += [text for text in (_diagnosed(computer, pool), _paradox(computer, pool)) if text]
    said += [text for text in (_selection(computer), *_merged(computer, shown)) if text]
    return said


def _needed(computer: Computer, shown: Sequence[str | None]) -> list[MetricRef]:
    """What the sentences are made of, so that it is resampled in one go."""
    assert computer.groups is not None
    labels = computer.groups.labels()
    refs = [MetricRef.of("selection.shift", label=label) for label in labels]
    for pool in shown:
        refs += [MetricRef.of(name, pool=pool) for name in (*PARADOX, "merge.hidden.rate")]
        # Any label stands for all of them: they are made of the same sums.
        refs.append(MetricRef.of("disagreement.excess", label=labels[0], pool=pool))
        refs += merged_refs(computer, pool)
    return refs


def _who(pool: str | None) -> str:
    return "all annotators" if pool is None else f"the pool `{pool}`"


def _confused(found: Sequence[Confusion], total: int) -> str:
    return ", ".join(
        f"`{c.labels[0]}` and `{c.labels[1]}` ({c.pairs}, {c.pairs / total:.1%})"
        for c in found[:MOST_NAMED]
    )


def _diagnosed(computer: Computer, pool: str | None) -> str | None:
    """Whether disagreement sits in a category, with what it is confused with."""
    assert computer.groups is not None
    group = Group(pool)
    found = diagnosis_of(group, groups=computer.groups, drawing=computer.drawing)
    if found is None:
        return None
    if found.used == 2:
        every = f"Every one of the {found.differing} disagreements"
        one = "The one disagreement" if found.differing == 1 else every
        return (
            f"{one} of {_who(pool)} is between the same two labels, so there is no telling whether "
            "it sits in one of them."
        )
    pairs = label_confusions(computer.groups, group)
    tail = f" The most frequent confusions: {_confused(pairs, found.differing)}."
    return f"{_sitting(found, pool)}{tail}"


def _sitting(found: Diagnosis, pool: str | None) -> str:
    out = found.sits_in
    of = f"the {found.differing} pairs of ratings that differ"
    if found.differing == 1:
        of = "the one pair of ratings that differs"
    if out:
        names = " and ".join(f"`{s.label}`" for s in out)
        parts = "; ".join(_standing(s, found) for s in out)
        return f"Disagreement of {_who(pool)} sits in {names}: of {of}, {parts}."
    top = found.standings[0]
    if top.low is None or top.high is None:
        return (
            f"Whether disagreement of {_who(pool)} sits in one label is not tested: without a "
            f"resampled interval nothing tells it from chance. Of {of}, {_standing(top, found)}."
        )
    if found.items < FEW_DIFFERING:
        hold = "1 item holds" if found.items == 1 else f"{found.items} items hold"
        return (
            f"Too few to tell whether disagreement of {_who(pool)} sits in one label: {hold} one, "
            f"and it takes {FEW_DIFFERING}."
        )
    text = (
        f"Disagreement of {_who(pool)} is spread, as far as these data show: no label stands out. "
        f"The one with the most over its frequency: of {of}, {_standing(top, found)}"
    )
    if top.low > 0:
        text += (
            "; that is more than its frequency would give, yet not clearly more than half of the "
            f"disagreements and than an even part in them (2 of {found.used} labels, "
            f"{2 / found.used:.1%})"
        )
    return f"{text}."


def _standing(s: Standing, found: Diagnosis) -> str:
    limits = ""
    if s.low is not None and s.high is not None:
        limits = (
            f", {s.low * 100:+.1f} to {s.high * 100:+.1f} with allowance for {found.used} labels "
            "looked at"
        )
    return (
        f"{s.involved} ({s.share:.1%}) involve `{s.label}`, {s.excess * 100:+.1f} points against "
        f"what the labels' frequencies would give{limits}"
    )


def _paradox(computer: Computer, pool: str | None) -> str | None:
    """Kappa is low although annotators agree, since one label is frequent."""
    refs = [MetricRef.of(name, pool=pool) for name in PARADOX]
    metrics = computer.all(refs)
    kappa, observed, expected, ac1 = (metrics[ref].value for ref in refs)
    if observed is None or expected is None or observed < PREVALENT or expected < PREVALENT:
        return None
    assert computer.groups is not None
    total = computer.groups.counts(Group(pool)).sum(axis=0)
    label = computer.groups.labels()[int(total.argmax())]
    why = (
        f"`{label}` has {total.max() / total.sum():.1%} of the ratings, so that chance alone would "
        f"agree on {expected:.1%}"
    )
    if kappa is None:
        return f"Kappa of {_who(pool)} is undefined: {why}."
    if kappa >= LOW_KAPPA:
        return None
    other = f" Gwet's AC1, which takes chance otherwise, is {ac1:.2f}." if ac1 is not None else ""
    return (
        f"Kappa of {_who(pool)} is {kappa:.2f} although, on the mean over items, "
        f"{observed:.1%} of the pairs of ratings agree: {why} (the paradox of Feinstein "
        "and Cicchetti 1990, doi:10.1016/0895-4356(90)90158-L). Read kappa with P_o and P_e beside "
        f"it.{other}"
    )


def _selection(computer: Computer) -> str | None:
    """What leaving out disputed items does to the labels, where resampling shows that it does."""
    groups = computer.groups
    assert groups is not None
    counts = groups.counts(Group())
    rated, left = int((counts.sum(axis=1) > 0).sum()), int((unanimous(counts) >= 0).sum())
    if left == rated:
        return None
    drawn = shifts_of(groups, computer.drawing)
    head = (
        f"Leaving out the items on which annotators differ leaves {left} of {rated} "
        f"({left / rated:.1%})"
    )
    if not drawn:
        return f"{head}; whether that selects is not tested, since no shift has an interval."
    if rated - left < FEW_DIFFERING:
        out = "1 item is" if rated - left == 1 else f"{rated - left} items are"
        return (
            f"{head}; too few to tell whether that selects: {out} left out, and it takes "
            f"{FEW_DIFFERING}."
        )
    shifts = [s for s in drawn if _clear(s)]
    n = len(groups.labels())
    if not shifts:
        return (
            f"{head}; with allowance for {n} labels looked at, no shift of a label's share is "
            "clear of 0."
        )
    shifts.sort(key=lambda s: -abs(s.value))
    parts = [
        f"the share of `{s.label}` is {s.value * 100:+.2f} points from that among all items "
        f"({s.low * 100:+.2f} to {s.high * 100:+.2f})"
        for s in shifts[:MOST_NAMED]
    ]
    return (
        f"{head}, and selects: {'; '.join(parts)}, with allowance for {n} labels looked at. What "
        "is left does not stand for all items."
    )


def _clear(shift: Shift) -> bool:
    """Whether the limits leave out 0 as they are written, in hundredths of a point."""
    return round(shift.low * 100, 2) > 0 or round(shift.high * 100, 2) < 0


def _merged(computer: Computer, shown: Sequence[str | None]) -> list[str]:
    """What the map of labels does, with kappa beside agreement."""
    assert computer.groups is not None
    if computer.groups.ratings.coarse is None:
        return []
    said = []
    for pool in shown:
        hidden = computer.one("merge.hidden.rate", pool=pool)
        if hidden.value is None:
            continue
        text = (
            f"The map to coarse labels hides {hidden.k} of {hidden.n} pairs of ratings of "
            f"{_who(pool)} that differ ({hidden.value:.1%})"
        )
        said.append(f"{text}{_kappas(computer, pool)}.")
    return said


def _kappas(computer: Computer, pool: str | None) -> str:
    """Agreement and kappa under fine and coarse labels, as the end of a sentence."""
    refs = merged_refs(computer, pool)
    found = computer.all(refs)
    rate_fine, rate_coarse, fine, coarse = (found[ref].value for ref in refs)
    if rate_fine is None or rate_coarse is None:
        return ""
    text = f": agreement goes from {rate_fine:.1%} to {rate_coarse:.1%}"
    if fine is None or coarse is None:
        return f"{text}, and kappa is undefined under {'fine' if fine is None else 'coarse'} labels"
    text = f"{text}, kappa from {fine:.3f} to {coarse:.3f}"
    if rate_coarse > rate_fine and coarse < fine:
        text = (
            f"{text}; kappa goes down although agreement goes up, since with fewer labels chance "
            "agrees more often"
        )
    return text
