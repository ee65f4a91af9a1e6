"""What is said, and not refused, of limits out of reach and of refuters inside a band."""

from __future__ import annotations

import dataclasses

import pytest

from prereg_judge.registration.advice import advice
from prereg_judge.registration.refs import Facts
from registration.test_lint import BAND, COUNT, FACTS, RATE, around, claims_of, found


def said(facts: Facts = FACTS, /, **sections: str | list[str]) -> list[str]:
    """What is said of claims that lint has nothing against; 72 sentinels and two passes."""
    claims = claims_of(**sections)
    assert found(claims, facts) == []
    return [str(problem) for problem in advice(claims, **around(facts))]


@pytest.mark.parametrize(
    ("section", "claim", "words"),
    [
        ("bands", f"{COUNT}=9..140", "140 is above the most that can occur (72): this is "
         "`at least 9`"),
        ("bands", f"{COUNT}=-3..14", "-3 is below the least that can occur (0): this is "
         "`at most 14`"),
        ("bands", f"{RATE}=0.5..1.5", "1.5 is above the most that can occur (1)"),
        ("predictions", f"{COUNT}=9..73", "73 is above the most that can occur (72)"),
        ("bands", f"{COUNT}[kind=synonym]=2..7", "7 is above the most that can occur (6)"),
    ],
)  # fmt: skip
def test_a_limit_that_no_result_reaches_is_named(section: str, claim: str, words: str) -> None:
    """A two-sided claim that is one-sided in effect is told as what it is, with its place."""
    [text] = said(**{section: claim})
    assert text.startswith(f"r.yaml:13: {section}[0].between: ")
    assert words in text


@pytest.mark.parametrize(
    "claim", [f"{COUNT}=9..72", f"{COUNT}=0..14", f"{RATE}=0.5..1", "calls.seconds.mean=0..9"]
)
def test_limits_within_reach_need_no_word(claim: str) -> None:
    """The first and the last value that can occur are limits like any other."""
    assert said(bands=claim) == []


@pytest.mark.parametrize(
    ("refuter", "where"),
    [
        (f"{COUNT} < 60: m", "58..59"),
        (f"{COUNT} <= 58: m", "58"),
        (f"{COUNT} > 66: m", "67..68"),
        (f"{COUNT} < 50 or {COUNT} > 67: m", "68"),
        (f"{COUNT} > 60 and {COUNT} > 66: m", "67..68"),
    ],
)
def test_a_refuter_that_takes_a_part_of_a_band_is_named(refuter: str, where: str) -> None:
    """It says at which values a result would be inside the band and refuted."""
    [text] = said(bands=BAND, refuters=refuter)
    assert text == (
        f"r.yaml:13: refuters[0].when: fires at {where}, inside the band `agreement-count`: "
        "such a result is REFUTED"
    )


def test_values_that_cannot_be_listed_are_told_by_the_limits() -> None:
    """Of seconds, which are not counted, the overlap is the range between the limits."""
    name = "calls.seconds.mean"
    [text] = said(bands=f"{name}=1..5", refuters=f"{name} > 4.5: m")
    assert "fires at 4.5..5, inside the band" in text


@pytest.mark.parametrize(
    "sections",
    [
        {"bands": BAND, "refuters": f"{COUNT} < 58: m"},
        {"bands": BAND, "refuters": f"{COUNT} = 72: m"},
        {"bands": BAND, "refuters": f"{COUNT} < 60 and calls.hangs > 3: m"},
        {"predictions": f"{COUNT} >= 58", "refuters": f"{COUNT} = 72: m"},
    ],
)
def test_refuters_beside_what_is_expected_need_no_word(
    sections: dict[str, str | list[str]],
) -> None:
    """Apart from the band, under a further condition, or above a one-sided prediction."""
    assert said(dataclasses.replace(FACTS, retries=1), **sections) == []
