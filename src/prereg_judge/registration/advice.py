"""What a registration may say and most likely does not mean: limits that no result can reach,
refuters that fire inside what is expected.

Nothing here is refused; `lint` does that, and is to find nothing before this is asked. Reads no
file.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from itertools import product

from prereg_judge.errors import Problem
from prereg_judge.registration.claims import Band, Claims, Prediction, Test, tests_in
from prereg_judge.registration.domains import Domain, values_where
from prereg_judge.registration.labelling_refs import settled_by_labellings
from prereg_judge.registration.lint import alternatives, expectations
from prereg_judge.registration.reach import domain_of
from prereg_judge.registration.refs import Facts
from prereg_judge.registration.table_refs import settled_by
from prereg_judge.strict_yaml import YamlPath, path_text
from prereg_judge.study.metric import Catalogue

Expectation = tuple[YamlPath, Band | Prediction]
Said = tuple[YamlPath, str]


def advice(
    claims: Claims,
    *,
    catalogue: Catalogue,
    facts: Facts,
    file: str,
    line_of: Callable[[YamlPath], int | None],
) -> tuple[Problem, ...]:
    """Every such place in a registration's claims, in the order of the file.

    Parameters
    ----------
    claims, catalogue, facts, file, line_of
        As for `lint.lint`.

    Returns
    -------
    tuple of Problem
        Empty where there is nothing to say.
    """
    said = [
        *_out_of_reach(claims, catalogue, facts),
        *_overlapping(claims, catalogue, facts),
        *_settled(claims, facts),
    ]
    found = [Problem(what, file, line_of(path), path_text(path)) for path, what in said]
    return tuple(sorted(found, key=lambda p: p.line or 0))


def _two_sided(claims: Claims) -> Iterator[Expectation]:
    """Bands, and predictions with two limits; a one-sided one may well have a refuter inside."""
    for path, claim in expectations(claims):
        if math.isfinite(claim.test.low) and math.isfinite(claim.test.high):
            yield path, claim


def _out_of_reach(claims: Claims, catalogue: Catalogue, facts: Facts) -> Iterator[Said]:
    """Limits beyond what can occur: the claim is one-sided then, and does not look it."""
    for path, claim in _two_sided(claims):
        test = claim.test
        domain = domain_of(test.ref, catalogue=catalogue, facts=facts)
        if domain is None:
            continue
        low, high = test.low, test.high
        if high > domain.high:
            what = f"{high:.15g} is above the most that can occur ({domain.high:g}): "
            yield (*path, "between"), f"{what}this is `at least {low:.15g}`"
        elif low < domain.low:
            what = f"{low:.15g} is below the least that can occur ({domain.low:g}): "
            yield (*path, "between"), f"{what}this is `at most {high:.15g}`"


def _settled(claims: Claims, facts: Facts) -> Iterator[Said]:
    """Expectations about tables that nothing in them can change, or that prove little."""
    for path, claim in expectations(claims):
        why = None
        if facts.tables is not None:
            why = settled_by(claim.test.ref, facts.tables)
        elif facts.labellings is not None:
            why = settled_by_labellings(claim.test.ref, facts.labellings)
        if why is not None:
            yield (*path, "metric"), f"{claim.test.ref}: {why}"


def _overlapping(claims: Claims, catalogue: Catalogue, facts: Facts) -> Iterator[Said]:
    """Refuters that leave only a part of a band: a result can be inside it and refuted."""
    pairs = product(enumerate(claims.refuters), _two_sided(claims))
    for (at, refuter), (section, claim) in pairs:
        domain = domain_of(claim.test.ref, catalogue=catalogue, facts=facts)
        for part in alternatives(refuter.when):
            tests = (claim.test, *tests_in(part))
            if domain is None or any(t.ref != claim.test.ref for t in tests):
                continue
            holds, fires = values_where(claim.test, part, domain)
            if holds & fires:
                word = "band" if section[0] == "bands" else "prediction"
                where = _span(holds & fires, tests, domain)
                what = f"fires at {where}, inside the {word} `{claim.id}`: such a result is REFUTED"
                yield ("refuters", at, "when"), what


def _span(both: set[float], tests: tuple[Test, ...], domain: Domain) -> str:
    """The values at which all of these tests hold, of which `both` are samples."""
    low, high = min(both), max(both)
    if domain.values is None and not domain.whole:  # samples lie between the limits, not on them
        low = max(domain.low, *(t.low for t in tests))
        high = min(domain.high, *(t.high for t in tests))
    return f"{low:.6g}" if low == high else f"{low:.6g}..{high:.6g}"
