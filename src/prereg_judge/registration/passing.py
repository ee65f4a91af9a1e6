"""Whether any result at all can pass a set of claims (pure).

Shares and limits of intervals are taken together with the count that they are made of; metrics
that are not made of one count are taken as free of each other, so the answer may be yes where the
study's own logic excludes it, and is never no where a result can pass.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping

from prereg_judge.registration.claims import Claims, Test, tests_in
from prereg_judge.registration.domains import Domain, answer
from prereg_judge.registration.reach import known_count, value_at
from prereg_judge.registration.refs import Facts
from prereg_judge.study.metric import MetricRef

_MOST_COMBINATIONS = 50_000

Values = dict[MetricRef, float]


def can_pass(claims: Claims, domain_of: Callable[[MetricRef], Domain | None], facts: Facts) -> bool:
    """Whether every band and prediction can hold while no refuter fires.

    Parameters
    ----------
    claims
        Claims whose references all stand up.
    domain_of
        What each metric can be.
    facts
        For what counts metrics are made of.

    Returns
    -------
    bool
        True also where trying every combination would take too long.
    """
    expected = [b.test for b in claims.bands] + [p.test for p in claims.predictions]
    firing = [t for r in claims.refuters for t in tests_in(r.when)]
    groups: dict[MetricRef, list[MetricRef]] = {}
    for ref in dict.fromkeys(t.ref for t in (*expected, *firing)):
        known = known_count(ref, facts)
        groups.setdefault(known[0] if known else ref, []).append(ref)
    choices: list[list[Values]] = []
    for refs in groups.values():
        tests = [t for t in (*expected, *firing) if t.ref in refs]
        possible = [
            values
            for values in _values(refs, tests, domain_of, facts)
            if all(t.holds(values[t.ref]) for t in expected if t.ref in refs)
        ]
        if not possible:
            return False
        choices.append(_telling(possible, [t for t in firing if t.ref in refs]))
    if math.prod(len(c) for c in choices) > _MOST_COMBINATIONS:
        return True
    return any(
        not any(answer(r.when, _joined(parts)) for r in claims.refuters)
        for parts in itertools.product(*choices)
    )


def _values(
    refs: list[MetricRef],
    tests: list[Test],
    domain_of: Callable[[MetricRef], Domain | None],
    facts: Facts,
) -> list[Values]:
    """What metrics that are made of one count can be together."""
    known = known_count(refs[0], facts)
    if known is not None:
        _, counts, n = known
        return [{ref: value_at(ref, k, n) for ref in refs} for k in counts]
    domain = domain_of(refs[0])
    return [{refs[0]: x} for x in domain.samples(tuple(tests))] if domain is not None else []


def _telling(possible: list[Values], tests: list[Test]) -> list[Values]:
    """One of those that give the same answers to every test."""
    found: dict[tuple[bool, ...], Values] = {}
    for values in possible:
        found.setdefault(tuple(t.holds(values[t.ref]) for t in tests), values)
    return list(found.values())


def _joined(parts: tuple[Values, ...]) -> Mapping[MetricRef, float]:
    return {ref: x for values in parts for ref, x in values.items()}
