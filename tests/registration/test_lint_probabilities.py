"""Lint of metrics made of probabilities and of two arms: what cannot fail, and what needs `choice`.

Ranges are checked against runs made on purpose to be extreme.
"""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from prereg_judge.errors import UsageError
from prereg_judge.registration.as_claims import to_claims
from prereg_judge.registration.claims import Claims
from prereg_judge.registration.expressions import parse_band, parse_prediction
from prereg_judge.registration.lint import lint
from prereg_judge.registration.reach import domain_of, known_n
from prereg_judge.registration.refs import Facts, check_ref
from prereg_judge.registration.schema import Registration
from prereg_judge.shaping import Decoding
from prereg_judge.study.kinds import STUDIES, study_of
from prereg_judge.study.metric import MetricRef
from registration.test_lint import BASE, line_of
from study.made import D, K, choosing, make, tree

SAMPLED = Decoding("sampled", 0.8)
CHOICE = Facts(
    {"sentinel": {("a", "x", "DROP"): 60, ("b", "x", None): 12}},
    verdicts=("KEEP", "DROP"),
    passes=2,
    trials=144,
    retries=1,
    ships="KEEP",
    paths=("choice",),
    decoding=SAMPLED,
    parallel=4,
)
GENERATE = replace(CHOICE, paths=("generate",))
ARMS = replace(CHOICE, paths=("choice", "choice"), decoding=Decoding("seeded", 0.8))
MIXED = replace(ARMS, paths=("generate", "choice"))
COUNT, RATE = "sentinel.expected_agreement.count", "sentinel.expected_agreement.rate"


def claims_of(text: str) -> Claims:
    """A band or a prediction from its short form."""
    section, parse = (
        ("bands", parse_band)
        if "=" in text.split("]")[-1] and ".." in text
        else (
            "predictions",
            parse_prediction,
        )
    )
    return to_claims(Registration.model_validate({**BASE, section: [parse(text)]}))


def found(text: str, facts: Facts, study: str = "self-agreement") -> list[str]:
    """Every problem, as text."""
    problems = lint(
        claims_of(text),
        catalogue=study_of(study).catalogue(list(facts.table)),
        facts=facts,
        file="r.yaml",
        line_of=line_of,
    )
    return [str(p) for p in problems]


# What is refused, words of the reason, its neighbour that is not; facts; study.
RULES: list[tuple[str, str, str, Facts, str]] = [
    (f"{RATE} >= 0.5", "cannot fail", f"{RATE} >= 0.51", CHOICE, "self-agreement"),
    (f"{RATE} <= 0.49", "can never hold", f"{RATE} <= 0.5", CHOICE, "self-agreement"),
    (f"{RATE}[temperature=2] >= 0.5", "cannot fail", f"{RATE}[temperature=2] >= 0.6", CHOICE,
     "self-agreement"),
    (f"{RATE} >= 0.25", "cannot fail", f"{RATE} >= 0.26", replace(CHOICE, passes=3),
     "self-agreement"),
    (f"{RATE} >= 0.5", "cannot fail", f"{RATE} >= 0.51", replace(CHOICE, passes=1),
     "self-agreement"),
    (f"{RATE} >= 0.2", "cannot fail", f"{RATE} >= 0.21",
     replace(CHOICE, verdicts=("A", "B", "C", "D", "E")), "self-agreement"),
    (f"{COUNT}=0.5..72", "cannot fail", f"{COUNT}=0.6..72", CHOICE, "self-agreement"),
    (f"{COUNT}=36..72", "cannot fail", f"{COUNT}=36.5..72",
     replace(CHOICE, missing="undefined"), "self-agreement"),
    (f"{COUNT}[kind=b] <= 12", "cannot fail", f"{COUNT}[kind=b] <= 11.9", CHOICE,
     "self-agreement"),
    (f"{COUNT}.ci_high >= 1", "cannot fail", f"{COUNT}.ci_high >= 2", CHOICE, "self-agreement"),
    (f"{RATE}.ci_low >= 0", "cannot fail", f"{RATE}.ci_low >= 0.01", CHOICE, "self-agreement"),
    (f"{RATE}[temperature=0.7] >= 0.9", "needs the probability of every verdict",
     "sentinel.agreement.rate >= 0.9", GENERATE, "self-agreement"),
    (f"{RATE} >= 0.9", "is 1 by definition", f"{RATE}[temperature=1] >= 0.9",
     replace(CHOICE, decoding=Decoding("greedy")), "self-agreement"),
    (f"{RATE}[temperature=1] >= 0.9", "is 1 by definition", "sentinel.agreement.rate >= 0.9",
     replace(CHOICE, decoding=Decoding("sampled", 1.0, top_k=1)), "self-agreement"),
    ("sentinel.agreement.count[temperature=1] >= 60", "takes no `temperature`",
     "sentinel.agreement.count >= 60", CHOICE, "self-agreement"),
    ("sentinel.allowed_mass.min >= 0", "cannot fail", "sentinel.allowed_mass.min >= 0.01",
     GENERATE, "self-agreement"),
    ("sentinel.allowed_mass.median.ci_high <= 1", "cannot fail",
     "sentinel.allowed_mass.median.ci_high <= 0.99", GENERATE, "self-agreement"),
    ("sentinel.allowed_mass.min.ci_low >= 0.5", "has no interval",
     "sentinel.allowed_mass.median.ci_low >= 0.5", GENERATE, "self-agreement"),
    ("sentinel.allowed_mass.median >= 0.5", "a server does not give",
     "sentinel.missing.count <= 5", replace(GENERATE, server=True), "self-agreement"),
    ("sentinel.forced.count <= 72", "cannot fail", "sentinel.forced.count <= 71", GENERATE,
     "self-agreement"),
    ("sentinel.forced.rate <= 0.5", "a server does not give", "sentinel.flips.rate <= 0.5",
     replace(GENERATE, server=True), "self-agreement"),
    ("sentinel.fidelity.count <= 72", "cannot fail", "sentinel.fidelity.count <= 71", MIXED,
     "path-fidelity"),
    ("sentinel.fidelity.rate=0.51..0.513", "can never hold", "sentinel.fidelity.rate=0.51..0.52",
     MIXED, "path-fidelity"),
    ("sentinel.fidelity.rate[verdict=KEPT] >= 0.9", "did you mean KEEP",
     "sentinel.fidelity.rate[verdict=KEEP] >= 0.9", MIXED, "path-fidelity"),
    ("sentinel.fidelity.count[kind=b] <= 12", "cannot fail",
     "sentinel.fidelity.count[kind=b,verdict=KEEP] <= 11", MIXED, "path-fidelity"),
    ("sentinel.agreement.count >= 60", "has no metric", "sentinel.fidelity.count >= 60", MIXED,
     "path-fidelity"),
    ("sentinel.fidelity.count >= 60", "has no metric", "sentinel.agreement.count >= 60", CHOICE,
     "self-agreement"),
    ("sentinel.probability_change.max <= 0.1", "in both arms", "sentinel.fidelity.rate >= 0.9",
     MIXED, "path-fidelity"),
    ("sentinel.probability_change.max <= 1", "cannot fail",
     "sentinel.probability_change.max <= 0.1", ARMS, "path-fidelity"),
    ("sentinel.probability_change.max.ci_high <= 0.1", "has no interval",
     "sentinel.probability_change.mean.ci_high <= 1", ARMS, "path-fidelity"),
    ("calls.batches_lost <= 0", "cannot fail", "calls.hangs <= 0", replace(CHOICE, parallel=1),
     "self-agreement"),
    ("calls.batches_lost >= 0", "cannot fail", "calls.batches_lost <= 0", CHOICE,
     "self-agreement"),
    ("calls.batches_lost.ci_high <= 3", "has no interval", "calls.batches_lost <= 300", CHOICE,
     "self-agreement"),
    ("calls.caps <= 0", "cannot fail", "calls.hangs <= 0", CHOICE, "self-agreement"),
    ("calls.unscored[reason=off_menu] <= 0", "cannot fail", "calls.unscored[reason=crash] <= 0",
     CHOICE, "self-agreement"),
    ("calls.thinking_caps <= 0", "cannot fail", "calls.caps <= 0", GENERATE, "self-agreement"),
    ("calls.unscored[reason=http] <= 0", "cannot fail", "calls.unreadable <= 0", GENERATE,
     "self-agreement"),
]  # fmt: skip


@pytest.mark.parametrize(("bad", "words", "good", "facts", "study"), RULES)
def test_each_is_refused_and_its_neighbour_is_not(
    bad: str, words: str, good: str, facts: Facts, study: str
) -> None:
    """A claim that cannot fail, cannot hold or cannot be asked is refused with the reason."""
    problems = found(bad, facts, study)
    assert len(problems) == 1, problems
    assert words.lower() in problems[0].lower()
    assert found(good, facts, study) == []


def test_a_server_and_thinking_open_their_reasons() -> None:
    """Errors of a server and the cap of thinking can be claimed where they can occur."""
    assert found("calls.unscored[reason=http] <= 0", replace(GENERATE, server=True)) == []
    assert found("calls.thinking_caps <= 0", replace(GENERATE, thinking=True)) == []
    assert found("calls.caps <= 0", MIXED, "path-fidelity") == []


def test_the_number_of_rows_of_a_fidelity_is_known() -> None:
    """All rows, and of a verdict of arm 1 none before the run."""
    assert known_n(MetricRef.of("sentinel.fidelity.rate"), MIXED) == 72
    assert known_n(MetricRef.of("sentinel.fidelity.rate", kind="b"), MIXED) == 12
    assert known_n(MetricRef.of("sentinel.fidelity.rate", verdict="KEEP"), MIXED) is None
    assert known_n(MetricRef.of(RATE), CHOICE) is None


EXTREMES = [tree(0.5, 0.5), tree(0.7, 0.3), tree(0.9, 0.1), tree(1 - 1e-16, 1e-16)]
SMALL = replace(
    CHOICE, table={"sentinel": {(None, "half-0", None): 2, (None, "half-1", None): 1}}, trials=6
)


@pytest.mark.parametrize("side", ["", ".ci_low", ".ci_high"])
@pytest.mark.parametrize("name", [COUNT, RATE])
@pytest.mark.parametrize("missing", ["disagree", "undefined"])
def test_every_result_of_small_runs_lies_in_the_range(side: str, name: str, missing: str) -> None:
    """Three rows, each from certain to even or lost: all values are in the range, of which the
    largest is reached, and the least where it is no limit of an interval.
    """
    facts = replace(SMALL, missing=missing)  # type: ignore[arg-type]
    ref = MetricRef(name + side)
    domain = domain_of(
        ref, catalogue=study_of("self-agreement").catalogue(["sentinel"]), facts=facts
    )
    assert domain is not None
    seen = []
    for trees in itertools.product([*EXTREMES, None], repeat=3):
        rows = [[D, D] if t else [D, None] for t in trees]
        data = choosing(make(rows, missing=facts.missing), [[t, t if t else None] for t in trees])
        value = study_of("self-agreement").compute(data, [ref])[ref].value
        if value is not None:
            seen.append(value)
            assert domain.low - 1e-12 <= value <= domain.high + 1e-12
            assert not domain.whole or value == int(value)
    assert max(seen) == domain.high
    if not side:
        assert min(seen) == pytest.approx(domain.low)


def test_every_small_fidelity_is_in_its_listed_values() -> None:
    """For all tables of three rows the values are exactly those listed, limits included."""
    for tail in ("count", "rate", "rate.ci_low", "count.ci_high"):
        ref = MetricRef(f"sentinel.fidelity.{tail}")
        facts = replace(SMALL, paths=("generate", "choice"))
        catalogue = study_of("path-fidelity").catalogue(["sentinel"])
        domain = domain_of(ref, catalogue=catalogue, facts=facts)
        assert domain is not None
        cells = list(itertools.product([K, D], repeat=2))
        seen = set()
        for rows in itertools.product(cells, repeat=3):
            value = STUDIES["path-fidelity"].compute(make(rows), [ref])[ref].value
            seen.add(value)
        assert seen == set(domain.values or ())


def test_a_temperature_reads_alike_however_it_is_written() -> None:
    """1, 1.0 and 1e0 are one metric; 0.7 keeps its digits; 0 and words are refused when read."""
    refs = {
        claims_of(f"{RATE}[temperature={text}] >= 0.9").predictions[0].test.ref
        for text in ("1", "1.0", "1e0")
    }
    assert refs == {MetricRef.of(RATE, temperature=1)}
    seven = claims_of(f"{RATE}[temperature=0.7] >= 0.9").predictions[0].test.ref
    assert str(seven) == f"{RATE}[temperature=0.7]"
    with pytest.raises(ValueError, match="greater than 0"):
        claims_of(f"{RATE}[temperature=0] >= 0.9")
    with pytest.raises(UsageError, match="must be a number"):
        claims_of(f"{RATE}[temperature=warm] >= 0.9")
    catalogue = study_of("self-agreement").catalogue(["sentinel"])
    [trouble] = check_ref(MetricRef.of(RATE, temperature="nan"), catalogue=catalogue, facts=CHOICE)
    assert (trouble.key, trouble.what) == ("temperature", "`nan` is no temperature")
