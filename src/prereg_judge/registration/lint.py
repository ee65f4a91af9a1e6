"""Checks a registration's claims against the study's metrics and the facts of its inputs.

Refuses what names no metric, what cannot fail, what cannot happen and what contradicts itself.
Reads no file: what it must know of the inputs is handed in as `Facts`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from itertools import combinations

from prereg_judge.errors import Problem
from prereg_judge.registration.claims import (
    Band,
    Claims,
    Combined,
    Condition,
    Prediction,
    Test,
    tests_in,
)
from prereg_judge.registration.domains import Domain, possible_answers, values_where
from prereg_judge.registration.passing import can_pass
from prereg_judge.registration.reach import domain_of, most_counted
from prereg_judge.registration.refs import Facts, check_ref
from prereg_judge.registration.windows import Calls, can_stay_silent, can_trip
from prereg_judge.strict_yaml import YamlPath, path_text
from prereg_judge.study.metric import Catalogue, MetricRef

__all__ = ["Facts", "alternatives", "expectations", "lint"]

_UNDECIDED = (True, False)


def lint(
    claims: Claims,
    *,
    catalogue: Catalogue,
    facts: Facts,
    file: str,
    line_of: Callable[[YamlPath], int | None],
) -> list[Problem]:
    """Every reason to refuse a registration's claims, in the order of the file.

    Parameters
    ----------
    claims
        What the registration commits to.
    catalogue
        The study's metrics, for the item sets that the registration has.
    facts
        What is known of the inputs.
    file, line_of
        For messages: the file's name, and the line of a YAML path (`Document.line_of`).

    Returns
    -------
    list of Problem
        Empty when nothing stands in the way of locking.
    """
    return _Linter(claims, catalogue=catalogue, facts=facts, file=file, line_of=line_of).run()


class _Linter:
    """Holds what every rule needs; each rule notes problems at a YAML path."""

    def __init__(
        self,
        claims: Claims,
        *,
        catalogue: Catalogue,
        facts: Facts,
        file: str,
        line_of: Callable[[YamlPath], int | None],
    ) -> None:
        self.claims = claims
        self.catalogue = catalogue
        self.facts = facts
        self.file = file
        self.line_of = line_of
        self.problems: list[Problem] = []

    def run(self) -> list[Problem]:
        if not (self.claims.bands or self.claims.predictions):
            self._add((), "commits to nothing", remedy="add a band or a prediction")
        for path, condition in _conditions(self.claims):
            self._references(path, condition)
        for path, claim in expectations(self.claims):
            self._can_fail(path, claim)
        for at, refuter in enumerate(self.claims.refuters):
            self._not_settled(("refuters", at), refuter.when, "refuter", "fires")
            self._refuter_apart(at, refuter.when)
        for at, decision in enumerate(self.claims.decisions):
            self._not_settled(("decisions", at), decision.when, "decision", "is taken")
        for at in range(len(self.claims.stops)):
            self._stop(at)
        self._compatible()
        if not self.problems:
            self._passable()
        return sorted(self.problems, key=lambda p: p.line or 0)

    def _add(self, path: YamlPath, what: str, *, found: str | None = None,
             remedy: str | None = None) -> None:  # fmt: skip
        where = path_text(path) or None
        self.problems.append(Problem(what, self.file, self.line_of(path), where, found, remedy))

    def _domain(self, ref: MetricRef) -> Domain | None:
        return domain_of(ref, catalogue=self.catalogue, facts=self.facts)

    def _references(self, path: YamlPath, condition: Condition) -> None:
        """Names, parameters and limits of every comparison in a claim."""
        for inner, test in _tests(condition):
            place = (*path, *inner)
            for trouble in check_ref(test.ref, catalogue=self.catalogue, facts=self.facts):
                self._add((*place, trouble.key), trouble.what, remedy=trouble.remedy)
            limits = (test.low, test.high)
            if any(map(math.isnan, limits)) or test.low == math.inf or test.high == -math.inf:
                self._add(place, "a limit is not a finite number", found=str(test))
            elif not test.limits:
                self._add(place, "has no limit", found=str(test))
            elif test.low > test.high:
                remedy = "write the smaller limit first"
                self._add(place, "the limits are reversed", found=str(test), remedy=remedy)

    def _answers(self, condition: Condition) -> set[bool]:
        """The answers that a condition can have; both where one of its metrics is refused."""
        refs = {t.ref for t in tests_in(condition)}
        domains = {ref: d for ref in refs if (d := self._domain(ref)) is not None}
        if len(domains) < len(refs) or not all(_sound(t) for t in tests_in(condition)):
            return set(_UNDECIDED)
        return possible_answers(condition, domains)

    def _can_fail(self, path: YamlPath, claim: Band | Prediction) -> None:
        word = "band" if isinstance(claim, Band) else "prediction"
        answers = self._answers(claim.test)
        domain = self._domain(claim.test.ref)
        if answers == {True}:
            what = f"this {word} cannot fail: `{claim.test.ref}` is always {domain}"
            self._add(path, what, found=str(claim.test), remedy="narrow it until a result can miss")
        elif answers == {False}:
            what = f"this {word} can never hold: `{claim.test.ref}` is always {domain}"
            near = domain.near(claim.test) if domain is not None else ""
            remedy = f"the nearest that it can be: {near}" if near else "mend the limits"
            self._add(path, what, found=str(claim.test), remedy=remedy)
        if claim.expected is None or domain is None:
            return
        if not domain.low <= claim.expected <= domain.high:
            what = f"expects a value that cannot occur: `{claim.test.ref}` is always {domain}"
            self._add((*path, "expected"), what, found=f"{claim.expected:g}")

    def _not_settled(self, path: YamlPath, condition: Condition, word: str, verb: str) -> None:
        answers = self._answers(condition)
        if len(answers) == 1:
            when = "always" if answers == {True} else "never"
            ranges = "; ".join(
                f"`{ref}` is always {self._domain(ref)}"
                for ref in dict.fromkeys(t.ref for t in tests_in(condition))
            )
            what = f"this {word} {when} {verb}, whatever the result: {ranges}"
            self._add((*path, "when"), what, found=str(condition))

    def _refuter_apart(self, at: int, when: Condition) -> None:
        """A refuter must leave the band on its metric a value that is inside and not refuted."""
        path: YamlPath = ("refuters", at, "when")
        for _, claim in expectations(self.claims):
            for part in alternatives(when):
                pair = self._true_sets(claim.test, part)
                if pair is None:
                    continue
                holds, fires = pair
                if holds <= fires:
                    what = f"fires wherever `{claim.id}` holds: the two cannot both stand"
                elif isinstance(claim, Band) and fires <= holds:
                    what = f"fires only inside the band `{claim.id}`: a result would be inside it "
                    what += "and refuted"
                else:
                    continue
                remedy = "a refuter names values outside what is expected"
                self._add(path, what, found=f"{part}, {claim.test}", remedy=remedy)

    def _true_sets(self, one: Test, other: Condition) -> tuple[set[float], set[float]] | None:
        """Where each of two conditions on one metric is true; None where that says nothing."""
        domain = self._domain(one.ref)
        tests = (one, *tests_in(other))
        if domain is None or any(t.ref != one.ref or not _sound(t) for t in tests):
            return None
        first, second = values_where(one, other, domain)
        return (first, second) if first and second else None

    def _stop(self, at: int) -> None:
        path: YamlPath = ("stop", at, "when")
        rule = self.claims.stops[at]
        ref = rule.when.ref
        domain = self._domain(ref)
        if domain is None or not _sound(rule.when):
            return
        if ref != ref.base or not self.catalogue.specs[ref.name].live:
            live = [n for n, s in self.catalogue.specs.items() if s.live]
            what = f"`{ref}` is not known while the run goes on"
            self._add((*path, "metric"), what, remedy=f"use one of {', '.join(live)}")
            return
        calls = self._calls(ref)
        word = "never" if not can_trip(rule, calls) else "always"
        if word == "always" and can_stay_silent(rule, calls):
            return
        between = f"{calls.least} to {calls.most}" if calls.least < calls.most else calls.most
        what = f"this stop rule {word} trips: a run that it does not end makes {between} calls"
        if rule.in_every is not None:
            what += f", and it looks at windows of {rule.in_every}"
        self._add(path, what, found=str(rule.when))

    def _calls(self, ref: MetricRef) -> Calls:
        """What a stop rule may meet in a run."""
        trials = self.facts.trials
        every = ref.name == "calls.count"
        counted = None if every else most_counted(ref, self.facts)
        return Calls(trials, trials * (self.facts.retries + 1), counted)

    def _passable(self) -> None:
        """Some result must meet every band and prediction and leave every refuter silent."""
        if can_pass(self.claims, self._domain, self.facts):
            return
        place = "refuters" if self.claims.refuters else "bands"
        what = "no result can pass: wherever every band and prediction holds, a refuter fires"
        if not self.claims.refuters:
            what = "no result can pass: the bands and predictions cannot all hold at once"
        self._add((place,), what, remedy="mend the claims that stand against each other")

    def _compatible(self) -> None:
        """Two expectations of one metric must leave a value at which both hold."""
        for (_, one), (path, other) in combinations(expectations(self.claims), 2):
            pair = self._true_sets(one.test, other.test) if one.test.ref == other.test.ref else None
            if pair is not None and not pair[0] & pair[1]:
                what = f"contradicts `{one.id}`: no value of `{one.test.ref}` satisfies both"
                self._add(path, what, found=f"{one.test}, {other.test}", remedy="keep one")


def _sound(test: Test) -> bool:
    return bool(test.limits) and test.low <= test.high


def _tests(condition: Condition) -> Iterator[tuple[YamlPath, Test]]:
    """Every comparison with its YAML path below the condition."""
    if isinstance(condition, Test):
        yield (), condition
        return
    for at, part in enumerate(condition.parts):
        for path, test in _tests(part):
            yield (condition.how, at, *path), test


def expectations(claims: Claims) -> Iterator[tuple[YamlPath, Band | Prediction]]:
    """Every band and prediction with its YAML path, in the order of the file."""
    for at, band in enumerate(claims.bands):
        yield ("bands", at), band
    for at, prediction in enumerate(claims.predictions):
        yield ("predictions", at), prediction


def alternatives(condition: Condition) -> tuple[Condition, ...]:
    """The conditions of which one is enough."""
    if isinstance(condition, Combined) and condition.how == "any":
        return tuple(a for part in condition.parts for a in alternatives(part))
    return (condition,)


def _conditions(claims: Claims) -> Iterator[tuple[YamlPath, Condition]]:
    """Every condition of every claim with its YAML path."""
    for path, claim in expectations(claims):
        yield path, claim.test
    for at, refuter in enumerate(claims.refuters):
        yield ("refuters", at, "when"), refuter.when
    for at, stop in enumerate(claims.stops):
        yield ("stop", at, "when"), stop.when
    for at, decision in enumerate(claims.decisions):
        yield ("decisions", at, "when"), decision.when
