"""Which of a study's numbers the summary shows without being asked for all.

Knows the names of metrics, not what they mean: what follows from another line, what is zero by rule
and what stands in a table of its own is left to `--all`.
"""

from __future__ import annotations

from collections.abc import Mapping

from prereg_judge.report.files import Result
from prereg_judge.study.metric import Metric

_SHOWN_BY_GROUP = {"agreement.rate", "expected_agreement.rate", "fidelity.rate"}
_SHOWN_CALLS = {"calls.count", "calls.seconds.median", "calls.hangs", "calls.crashes"}
_SHOWN_CALLS |= {"calls.runaways", "calls.caps", "calls.thinking_caps", "calls.unscored"}
_SHOWN_CALLS |= {"calls.batches_lost"}
_DULL_AT_ZERO = {"calls.caps", "calls.thinking_caps", "calls.batches_lost"}

# Of the metrics of a pair's rows in one order: verdicts and changes stand in the tables of passes,
# and a preference for a slot in one order alone mixes with which answers are better.
_SHOWN_IN_ORDER = {"agreement.rate", "wrong.rate"}
# Of a board: a model's or a place's line is shown for all doubly rated items only.
_OF_BOARD = {"credit.mean", "shift.mean", "gap.adjacent", "swap.probability"}
_OTHER_SUBSET = "free"
# Of labellings: what stands in the tables of scores, differences and neutrality, and what is about
# another look than the registered one.
_OF_REFERENCES = {"f1", "delta", "margin", "interaction", "skew", "exact", "band"}
_OTHER_LOOKS = {"match", "duplicates"}
# What a kappa is made of stands beside it.
_OF_KAPPA = (".observed", ".expected")
_FOLLOWS = {"shift.difference_sd"}


def standard_metrics(result: Result) -> list[Metric]:
    """The numbers that the summary shows without being asked for all.

    A count is left out beside its share (which shows k of n); so is what is zero by rule, what
    follows from another line and what a table of its own shows.
    """
    shares = {(m.ref.name, m.ref.params) for m in result.summary if m.unit == "share"}
    found = [m for m in result.summary if _is_standard(m, shares)]
    if result.swap is not None:
        return [m for m in found if not _of_references(m)]
    if result.annotators is not None:
        shown = {m.ref for m in result.annotators.pairs}
        if len(result.annotators.pools) > 1:
            shown |= {m.ref for some in result.annotators.pools.values() for m in some}
        shown |= {m.ref for some in result.annotators.merged.values() for m in some}
        return [m for m in found if m.ref not in shown and not m.ref.name.endswith(_OF_KAPPA)]
    return found


def _of_references(metric: Metric) -> bool:
    """Whether it stands in a table of references, or is about another look."""
    head, params = metric.ref.name.partition(".")[0], dict(metric.ref.params)
    if head in _OF_REFERENCES or not _OTHER_LOOKS.isdisjoint(params):
        return True
    return "subset" in params and head != "items"


def _is_standard(metric: Metric, shares: set[tuple[str, tuple[tuple[str, str], ...]]]) -> bool:
    name, params = metric.ref.name, dict(metric.ref.params)
    role, _, measure = name.partition(".")
    if metric.undefined in ("no_labels", "no_items", "empty_denominator"):
        return False
    if role == "calls":
        dull = name in _DULL_AT_ZERO and not metric.value
        return name in _SHOWN_CALLS and not dull
    if "kind" in params:
        return measure in _SHOWN_BY_GROUP
    if name.endswith(".count") and (f"{name[:-6]}.rate", metric.ref.params) in shares:
        return False
    follows = "stratum" in params or "to" in params or measure == "ships.any.rate"
    dull = measure in ("missing.rate", "duplicates.max") and metric.value in (0, 1)
    return not (follows or dull or _of_pairs_or_votes(name, params))


def _of_pairs_or_votes(name: str, params: Mapping[str, str]) -> bool:
    """Whether it is a number of pairs or of votes that is left to `--all`."""
    role, _, measure = name.partition(".")
    if role in ("sentinel", "real") and "order" in params:
        return measure not in _SHOWN_IN_ORDER
    if name.startswith("order."):  # beside the lean, in the table of judges
        return True
    return name in _FOLLOWS or (name in _OF_BOARD and params.get("subset") == _OTHER_SUBSET)
