"""The short forms of claims: what each gives, and what each refuses and says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prereg_judge.errors import UsageError
from prereg_judge.registration.expressions import (
    parse_band,
    parse_decision,
    parse_prediction,
    parse_refuter,
    parse_stop,
)
from prereg_judge.registration.settings_text import parse_decoding, parse_hang

Parser = Callable[[str], dict[str, Any]]

READ: list[tuple[Parser, str, dict[str, Any]]] = [
    (parse_band, "sentinel.agreement.count=58..68",
     {"id": "agreement-count", "metric": "sentinel.agreement.count", "between": [58, 68]}),
    (parse_band, " sentinel.agreement.rate[kind=numeral] in 0.6..9e-1 ",
     {"id": "agreement-rate", "metric": "sentinel.agreement.rate", "kind": "numeral",
      "between": [0.6, 0.9]}),
    (parse_band, "mine:: a.b[pass=2,kind=\"x, ]y\"]=-1..+2",
     {"id": "mine", "metric": "a.b", "pass": 2, "kind": "x, ]y", "between": [-1, 2]}),
    (parse_prediction, "real.flips_from.count[from_run=x,verdict=KEEP] >= 8",
     {"id": "flips-from-count", "metric": "real.flips_from.count", "from_run": "x",
      "verdict": "KEEP", "at_least": 8}),
    (parse_prediction, "a<=.5", {"id": "a", "metric": "a", "at_most": 0.5}),
    (parse_prediction, "a=1..2", {"id": "a", "metric": "a", "between": [1, 2]}),
    (parse_refuter, "a.b < 50: too unstable: stop",
     {"id": "refute-1", "when": {"metric": "a.b", "lt": 50}, "means": "too unstable: stop"}),
    (parse_refuter, "a == 1 and b[kind='x: y'] in 1..2 and c=3..4: m",
     {"id": "refute-1", "when": {"all": [{"metric": "a", "eq": 1},
                                         {"metric": "b", "kind": "x: y", "between": [1, 2]},
                                         {"metric": "c", "between": [3, 4]}]}, "means": "m"}),
    (parse_refuter, "r:: a <= 1 or b >= 2: m",
     {"id": "r", "when": {"any": [{"metric": "a", "le": 1}, {"metric": "b", "ge": 2}]},
      "means": "m"}),
    (parse_stop, "calls.hangs >= 1 in 20 over 40",
     {"id": "calls-hangs", "when": {"metric": "calls.hangs", "ge": 1}, "in_every": 20,
      "over_first": 40}),
    (parse_stop, "calls.hangs in 1..5 in 20 over 40",
     {"id": "calls-hangs", "when": {"metric": "calls.hangs", "between": [1, 5]}, "in_every": 20,
      "over_first": 40}),
    (parse_stop, "calls.hangs > 3",
     {"id": "calls-hangs", "when": {"metric": "calls.hangs", "gt": 3}}),
    (parse_decision, "tau > 0.9 and tau.ci_low > 0.9 => report: the null",
     {"id": "decide-1", "when": {"all": [{"metric": "tau", "gt": 0.9},
                                         {"metric": "tau.ci_low", "gt": 0.9}]},
      "then": "report: the null"}),
    (parse_decision, "x = 5=>go",
     {"id": "decide-1", "when": {"metric": "x", "eq": 5}, "then": "go"}),
    (parse_decoding, "greedy", {"mode": "greedy"}),
    (parse_decoding, "sampled, temperature=0.8,top_k=40,top_p=0.95,min_p=0.05",
     {"mode": "sampled", "temperature": 0.8, "top_k": 40, "top_p": 0.95, "min_p": 0.05}),
    (parse_decoding, "seeded,seed=7,temperature=1,top_k=0,top_p=1,min_p=0",
     {"mode": "seeded", "seed": 7, "temperature": 1, "top_k": 0, "top_p": 1, "min_p": 0}),
    (parse_hang, "120s,retries=1", {"call_timeout_s": 120, "retries": 1}),
    (parse_hang, "2m,heartbeat=30s,retries=0",
     {"call_timeout_s": 120, "heartbeat_s": 30, "retries": 0}),
    (parse_hang, "1.5,retries=1", {"call_timeout_s": 1.5, "retries": 1}),
]  # fmt: skip

REFUSED: list[tuple[Parser, str, str]] = [
    (parse_band, "", "--band: expected the name of a metric at the end"),
    (parse_band, "a.b", "expected `=` or `in` and two limits at the end"),
    (parse_band, "a.b=68", "expected `..` and the upper limit"),
    (parse_band, "a.b=68..58", "Write the smaller limit first"),
    (parse_band, "a.b=0...5", "expected `..` and the upper limit at position 6"),
    (parse_band, "a.b=1..nan", "expected a number at position 8"),
    (parse_band, "a.b=1..0x5", "expected a number"),
    (parse_band, "a.b=1..1e99", "2**53 or more"),
    (parse_band, "a.b=1..2 or so", "did not expect more at position 10, `or so`"),
    (parse_band, "a.b[kind=x=1..2", "expected `,` or `]`"),
    (parse_band, "a.b[kind=]=1..2", "expected one of kind, stratum"),
    (parse_band, "a.b[kind=x,kind=y]=1..2", "once and with a value, at position 12"),
    (parse_band, "a.b[id=x]=1..2", "expected one of kind, stratum"),
    (parse_band, "a.b[pass=two]=1..2", "`pass` must be a whole number"),
    (parse_prediction, "a > 8", "Write >=; for example --predict"),
    (parse_prediction, "a = 8", "expected `..` and the upper limit at the end"),
    (parse_prediction, "a", "expected >=, <= or =LO..HI at the end"),
    (parse_refuter, "a < 50", "`:` and what it means at the end"),
    (parse_refuter, "a < 50: ", "expected what it means"),
    (parse_refuter, "a < 50 and b > 1 or c > 2: m", "cannot be mixed at position 17"),
    (parse_refuter, "a <> 50: m", "expected a number at position 4"),
    (parse_stop, "a >= 1 in 20", "expected `over`"),
    (parse_stop, "a >= 1 in 0 over 40", "expected a number of calls"),
    (parse_stop, "a >= 1 in 2.5 over 40", "expected a whole number"),
    (parse_decision, "a > 1", "`=>` and what is done at the end"),
    (parse_decoding, "warm", "expected sampled, seeded or greedy"),
    (parse_decoding, "greedy,seed=1", "greedy takes no settings"),
    (parse_decoding, "sampled,seed=1", "sampled takes each of temperature"),
    (parse_decoding, "sampled,temperature=0.8", "sampled also needs top_k, top_p, min_p"),
    (parse_decoding, "sampled,temperature=0.8", "Top_k=0, top_p=1 and min_p=0 are off"),
    (parse_hang, "120s", "also needs retries=N"),
    (parse_hang, "120h,retries=1", "expected seconds"),
    (parse_hang, "1:30,retries=1", "did not expect more"),
    (parse_hang, "0s,retries=1", "above 0"),
    (parse_hang, "9s,retries=1,retries=2", "each once"),
    (parse_hang, "9s,retries=1.5", "expected a whole number"),
]  # fmt: skip


@pytest.mark.parametrize(("parser", "text", "entry"), READ)
def test_each_form_gives_the_entry_of_the_file(
    parser: Parser, text: str, entry: dict[str, Any]
) -> None:
    """A short form becomes the mapping that the YAML holds, numbers keeping their type."""
    read = parser(text)
    assert read == entry
    assert repr(sorted(read.items())) == repr(sorted(entry.items()))


@pytest.mark.parametrize(("parser", "text", "words"), REFUSED)
def test_each_mistake_is_named_with_place_and_example(
    parser: Parser, text: str, words: str
) -> None:
    """A wrong form is refused once, with its text and a form that would do."""
    with pytest.raises(UsageError) as caught:
        parser(text)
    [problem] = caught.value.problems
    assert words in str(problem), str(problem)
    assert f"'{text}'" in str(problem)
    assert "or example --" in str(problem)
    assert problem.where is not None


def test_the_examples_in_messages_are_themselves_right() -> None:
    """What a message holds up as right can be typed as it stands."""
    for parser in (parse_band, parse_prediction, parse_refuter, parse_stop, parse_decision,
                   parse_decoding, parse_hang):  # fmt: skip
        with pytest.raises(UsageError) as caught:
            parser("!")
        example = str(caught.value).rpartition(" '")[2].removesuffix("'")
        assert parser(example)


def test_the_option_is_named_as_the_caller_calls_it() -> None:
    """Messages use the caller's name for the option."""
    with pytest.raises(UsageError, match=r"^--expect: "):
        parse_band("x", option="--expect")


def test_generated_ids_do_not_repeat() -> None:
    """A second claim on a metric gets a number; a long name is cut to a legal id."""
    first = parse_band("sentinel.agreement.count=1..2")["id"]
    second = parse_band("real.agreement.count=1..2", taken=[first])["id"]
    assert [first, second] == ["agreement-count", "agreement-count-2"]
    assert len(parse_band("a" * 99 + "=1..2")["id"]) <= 64


def test_a_generated_id_says_what_kind_of_claim_it_is() -> None:
    """A refuter on a band's metric is not called like one more band; each has its number."""
    text, taken = "real.agreement.count<1", ["agreement-count", "refute-1", "decide-1"]
    assert parse_refuter(f"{text}: m", taken=taken)["id"] == "refute-2"
    assert parse_decision(f"{text} => m", taken=taken)["id"] == "decide-2"


_NUMBERS = st.integers(1 - 2**53, 2**53 - 1) | st.floats(-1e15, 1e15).filter(
    lambda x: "e" not in repr(x)
)


@given(_NUMBERS, _NUMBERS, st.sampled_from(["=", " in ", " = "]))
def test_limits_are_read_exactly(one: float, other: float, sign: str) -> None:
    """Any two numbers in order come back as they were written."""
    low, high = sorted([one, other])
    assert parse_band(f"a.b{sign}{low!r}..{high!r}")["between"] == [low, high]


def test_a_limit_may_stand_behind_the_brackets() -> None:
    """`METRIC[kind=x].ci_low` and `METRIC.ci_low[kind=x]` mean the same."""
    behind = parse_refuter("sentinel.flips.rate[kind=a].ci_low > 0.5: unstable")
    before = parse_refuter("sentinel.flips.rate.ci_low[kind=a] > 0.5: unstable")
    assert behind == before
    assert behind["when"]["metric"] == "sentinel.flips.rate.ci_low"
