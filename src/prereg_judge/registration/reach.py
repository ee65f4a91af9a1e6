"""What a metric can come to, given what is known of the inputs before the run.

For counts and shares that means every (k, n) where these are few enough to list: the value and
the limits of its interval follow from them. Elsewhere a range that holds them all. A run that no
stop rule ends makes every planned trial, and only hangs and crashes are tried again.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from prereg_judge.registration.domains import Domain
from prereg_judge.registration.labelling_refs import most_of_labellings
from prereg_judge.registration.refs import (
    NEEDS_LABELS,
    Facts,
    check_ref,
    role_of,
    rows_counted,
    stem_of,
)
from prereg_judge.registration.table_refs import is_share_of_items, most_of
from prereg_judge.stats.proportions import wilson_interval
from prereg_judge.study.calls import count_reason
from prereg_judge.study.counted import LEVEL, is_rate
from prereg_judge.study.metric import Catalogue, MetricRef, MetricSpec
from prereg_judge.words import INFRASTRUCTURE, Unscored

# Metrics whose n is every row that is asked about.
_EVERY_ROW = {
    "agreement", "fidelity", "flips", "verdict",
    "ships.any", "ships.all", "ships.some", "ships.none",
    "order.reversal", "order.consistent", "order.exact", "order.tie_unstable", "resolved.verdict",
}  # fmt: skip
# Counts of items whose n is open before the run.
_OPEN = {"order.reversal_decided"}
_OF_CALLS = "calls."
# Of these, `verdict` says which rows are counted at all, by their first verdict.
_BY_FIRST = {"flips", "fidelity"}
# What the model gave, not counts of rows.
_MEASURED = {"expected_agreement", "allowed_mass", "probability_change"}
_FROM_EARLIER = {"flips_from", "flips_from_every", "stays_from"}
# No call of this version ends so.
_NEVER: frozenset[Unscored] = frozenset({"too_long", "refused"})
# How a reply that is written token by token can fail; one that is chosen is complete and on the
# list.
_WRITTEN: frozenset[Unscored] = frozenset({"cap", "runaway", "unreadable", "off_menu"})
_MOST_LISTED = 5_000
# Units that are counted, where the metric itself is no limit of an interval.
_WHOLE = ("items", "rows", "models", "pairs", "votes", "margins")

Pair = tuple[int, int]  # k out of n


def domain_of(ref: MetricRef, *, catalogue: Catalogue, facts: Facts) -> Domain | None:
    """The values that a metric can take, None where the reference does not stand up."""
    if check_ref(ref, catalogue=catalogue, facts=facts):
        return None
    stem, name = stem_of(ref), ref.base.name
    if name.startswith("calls.seconds."):
        below = name == "calls.seconds.mean" and ref.name.endswith(".ci_low")  # a t interval
        return Domain(-math.inf if below else 0.0, math.inf, whole=False)
    if name.startswith(_OF_CALLS):
        return _calls_domain(ref, facts)
    if _by_catalogue(ref, stem):
        return _stated_domain(ref, catalogue.specs[name], facts)
    if stem in _MEASURED:
        return _measured(ref, stem, facts)
    pairs = _row_pairs(ref.base, facts)
    if pairs is not None:
        return Domain.listed(value_at(ref, k, n) for k, n in pairs)
    most = rows_counted(ref, facts) * (_trials_a_row(facts) if stem == "missing" else 1)
    return _range(ref, least_n=1, most_n=most, most_k=most - _never_hit(ref.base, facts))


def _by_catalogue(ref: MetricRef, stem: str) -> bool:
    """Whether a metric is no count of rows, so that only its catalogue says what it can be."""
    if role_of(ref) is None:
        return True
    head = stem.partition(".")[0] if "." in stem else ref.base.name.split(".")[1]
    counted = stem in _EVERY_ROW or stem in NEEDS_LABELS or stem in _OPEN
    return head in ("order", "length", "markdown", "resolved") and not counted


def _trials_a_row(facts: Facts) -> int:
    return facts.passes * len(facts.orders)


def _stated_domain(ref: MetricRef, spec: MetricSpec, facts: Facts) -> Domain:
    """The range of the catalogue; an interval by resampling lies in it too."""
    most = most_of(spec.unit, facts.tables)
    if facts.labellings is not None:
        most = most_of_labellings(ref, spec.unit, facts.labellings)
    if role_of(ref) is None and is_share_of_items(ref) and facts.tables is not None:
        items = facts.tables.items
        return _range(ref, least_n=1, most_n=items, most_k=items)
    low, high = spec.domain
    top = high if isinstance(high, float | int) else math.inf
    if most is not None and not isinstance(high, float | int):
        top = most
    if stem_of(ref) == "order.excess":
        low = -1.0 / facts.passes  # see `study.excess_metrics`
    if ref != ref.base and low == 0 and spec.name == "gap.adjacent":
        low = -1.0  # the two models may stand the other way round in a resample
    whole = ref == ref.base and spec.unit in _WHOLE
    return Domain(low, top, whole=whole)


def value_at(ref: MetricRef, k: int, n: int) -> float:
    """What a count, a share or a limit of its interval is at `k` of `n`; as the studies say it."""
    scale = 1 if is_rate(ref.base.name) else n
    if ref == ref.base:
        return k * scale / n if scale == 1 else float(k)
    side = 0 if ref.name.endswith(".ci_low") else 1
    return wilson_interval(k, n, level=LEVEL)[side] * scale


def known_n(ref: MetricRef, facts: Facts) -> int | None:
    """How many rows a metric counts over, where that is known before the run; else None."""
    role, stem, params = role_of(ref), stem_of(ref), dict(ref.params)
    if role is None:
        return None
    if stem == "missing":
        return rows_counted(ref, facts) * _trials_a_row(facts)
    if facts.missing == "exclude":
        return None
    grouped = "kind" in params or "stratum" in params
    if stem in _FROM_EARLIER:
        return None if grouped else facts.given_earlier(role, params)
    fixed = stem in _EVERY_ROW and not (stem in _BY_FIRST and "verdict" in params)
    return rows_counted(ref, facts) if fixed or stem in NEEDS_LABELS else None


def known_count(ref: MetricRef, facts: Facts) -> tuple[MetricRef, Sequence[int], int] | None:
    """The count that a metric is a function of, every k it can be, and n; None where n is open.

    Shares and limits of an interval belong to the same count, so that what is registered of one
    is seen to bind the others.
    """
    n = known_n(ref, facts)
    if n is None or not 0 < n <= _MOST_LISTED:
        return None
    name = ref.base.name.removesuffix(".rate").removesuffix(".count") + ".count"
    return MetricRef(name, ref.params), range(n - _never_hit(ref.base, facts) + 1), n


def _row_pairs(ref: MetricRef, facts: Facts) -> list[Pair] | None:
    """Every (k, n) of a metric of rows; None where they are too many to list."""
    known = known_count(ref, facts)
    if known is not None:
        return [(k, known[2]) for k in known[1]]
    n = rows_counted(ref, facts)
    role = role_of(ref)
    if role is not None and stem_of(ref) in _FROM_EARLIER:
        given = facts.given_earlier(role, dict(ref.params))
        n = min(n, given) if given is not None else n
    if n * (n + 3) / 2 > _MOST_LISTED or n == 0:
        return None
    most = n - _never_hit(ref, facts)
    return [(k, m) for m in range(1, n + 1) for k in range(min(m, most) + 1)]


def _never_hit(ref: MetricRef, facts: Facts) -> int:
    """Labelled rows that cannot be counted: the verdict asked for is their own label."""
    role, stem = role_of(ref), stem_of(ref)
    verdict = facts.ships if stem == "wrong_ships" else dict(ref.params).get("verdict")
    if role is None or verdict is None or stem not in ("wrong", "wrong_ships"):
        return 0
    params = dict(ref.params)
    return facts.rows(role, kind=params.get("kind"), stratum=params.get("stratum"), label=verdict)


def _range(ref: MetricRef, *, least_n: int, most_n: int, most_k: int) -> Domain:
    """The range of a count, a share or a limit where n is between two numbers."""
    rate = is_rate(ref.base.name)
    if ref == ref.base:
        return Domain(0.0, 1.0, whole=False) if rate else Domain(0.0, most_k, whole=True)
    # A lower limit is largest, and an upper one smallest, where n is extreme.
    if ref.name.endswith(".ci_low"):
        return Domain(0.0, value_at(ref, most_n, most_n), whole=False)
    return Domain(value_at(ref, 0, most_n if rate else least_n), 1.0 if rate else most_n, False)


def _measured(ref: MetricRef, stem: str, facts: Facts) -> Domain:
    """What a metric of probabilities can be.

    The expected agreement of P draws over V verdicts is least where all are equally likely:
    V ** (1 - P) of the rows. That holds of passes that read alike, as those of one run do.
    """
    side = ref.name.removeprefix(ref.base.name)
    if stem != "expected_agreement":
        wide = stem == "probability_change" and side  # Student's t goes beyond 0 and 1
        low = -math.inf if wide and side == ".ci_low" else 0.0
        high = math.inf if wide and side == ".ci_high" else 1.0
        return Domain(low, high, whole=False)
    least = float(len(facts.verdicts)) ** (1 - max(facts.passes, 2))
    rows = rows_counted(ref, facts)
    if is_rate(ref.base.name):
        return Domain(0.0 if side == ".ci_low" else least, 1.0, whole=False)
    # Rows without a verdict are left out, unless then nothing has a value.
    fewest = rows if facts.missing == "undefined" else 1
    low = {"": fewest * least, ".ci_low": 0.0, ".ci_high": math.ceil(fewest * least)}[side]
    return Domain(low, rows, whole=bool(side))


def _calls_domain(ref: MetricRef, facts: Facts) -> Domain:
    """What a metric of calls can be."""
    trials, retries = facts.trials, facts.retries
    most = trials * (retries + 1)
    least = 1 if facts.stops else trials
    match ref.base.name:
        case "calls.count":
            return Domain(least, most, whole=True)
        case "calls.batches_lost":
            # A resumed run makes a lost group again, so that it can be lost again.
            return Domain(0, 0 if facts.parallel == 1 else math.inf, whole=True)
        case "calls.attempts_per_trial":
            return Domain.listed(float(n) for n in range(1, retries + 2))
        case "calls.unscored_trials":
            return Domain.listed(value_at(ref, k, trials) for k in range(trials + 1))
    top = most_counted(ref.base, facts)
    sizes = range(least, most + 1)
    if len(sizes) * (top + 1) <= _MOST_LISTED:
        pairs = [(k, n) for n in sizes for k in _counted_calls(ref.base, n, facts)]
        return Domain.listed(value_at(ref, k, n) for k, n in pairs)
    return _range(ref, least_n=least, most_n=most, most_k=top)


def most_counted(ref: MetricRef, facts: Facts) -> int:
    """Largest number of calls that a `calls.*` count can count in a run."""
    trials, retries = facts.trials, facts.retries
    if ref.name == "calls.retries":
        return trials * retries
    reason = count_reason(ref)
    if _never(reason, facts):
        return 0
    return trials if reason is not None and reason not in INFRASTRUCTURE else trials * (retries + 1)


def _never(reason: str | None, facts: Facts) -> bool:
    """Whether no call of the run can end for a reason."""
    return (
        reason in _NEVER
        or (reason == "http" and not facts.server)
        or (reason == "thinking_cap" and not facts.thinking)
        or (reason in _WRITTEN and facts.chooses)
    )


def _counted_calls(ref: MetricRef, n: int, facts: Facts) -> Iterator[int]:
    """Every k that a count of calls can be when `n` calls were made."""
    trials, retries = facts.trials, facts.retries
    top = min(n, most_counted(ref, facts))
    again = n - trials  # calls beyond the first of their trial, in a run that went to its end
    if facts.stops:
        yield from range(min(top, n - 1 if ref.name == "calls.retries" else n) + 1)
        return
    lost = again // retries if retries else trials  # most trials that failed to the last attempt
    reason = count_reason(ref)
    if ref.name == "calls.retries":
        yield again
    elif ref.base.name.removesuffix(".rate") == "calls.unscored" and reason is None:
        yield from range(again, n + 1)
    elif reason in INFRASTRUCTURE:
        yield from range(min(top, again + lost) + 1)
    else:
        yield from range(top + 1)
