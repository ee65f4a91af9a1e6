"""The shipped pairs are balanced and their figures true; the shipped judge of pairs fits them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from datetime import datetime, timedelta
from decimal import Decimal
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest

from engine.small_model import vocabulary
from make_votes import PAIRS, read_pairs, signs_of_format
from prereg_judge.engine.chat import TemplateSettings, render_prompt
from prereg_judge.items import ItemSet, load_items
from prereg_judge.judge import Judge, check_items, load_judge
from prereg_judge.words import Order

REPOSITORY = Path(__file__).parents[1]
DOCS = REPOSITORY / "docs/pairs.md"
ORDERS: tuple[Order, ...] = ("ab", "ba")
VERDICTS = ["A-clearly", "A-slightly", "TIE", "B-slightly", "B-clearly"]
COLUMNS = ["id", "label", "kind", "stratum", "request", "answer_a", "answer_b"]
Pair = dict[str, str]
ROWS = read_pairs()
BY_ID = {row["id"]: row for row in ROWS}
DECIDED = [row for row in ROWS if row["label"] != "TIE"]
TIES = [row for row in ROWS if row["label"] == "TIE"]


def better(row: Pair) -> str:
    """The better answer of a pair that is no tie."""
    return row["answer_a"] if row["label"][0] == "A" else row["answer_b"]


def worse(row: Pair) -> str:
    """The worse answer of a pair that is no tie."""
    return row["answer_b"] if row["label"][0] == "A" else row["answer_a"]


def answers(row: Pair) -> tuple[str, str]:
    """Both answers, as stored."""
    return row["answer_a"], row["answer_b"]


def sentences(text: str) -> list[str]:
    """Sentences, or entries of a list; `a.m.` ends none."""
    return re.split(r"(?<=[.!?])(?<!\.m\.)\s+|\n+", text)


def code(text: str) -> list[str]:
    """What stands between code marks."""
    return re.findall(r"`([^`]+)`", text)


# --- the set -----------------------------------------------------------------------------------


def test_the_set_has_the_kinds_and_strata_that_the_docs_count() -> None:
    """64 rows whose kinds, strata and labels are those of the page about them."""
    assert len(ROWS) == len(BY_ID) == 64
    text = DOCS.read_text(encoding="utf-8")
    for name, n in Counter(row["kind"] for row in ROWS).items():
        assert f"| `{name}` | {n} |" in text
    for name, n in Counter(row["stratum"] for row in ROWS).items():
        assert re.search(rf"`{name}` \({n}\b", text)
    assert set(VERDICTS) == {row["label"] for row in ROWS}
    for row in ROWS:
        assert list(row) == COLUMNS


def test_no_pair_is_there_twice() -> None:
    """Requests and pairs of answers are distinct, whichever way round and whatever the case."""
    assert len({row["request"].casefold() for row in ROWS}) == 64
    assert len({frozenset(a.casefold() for a in answers(row)) for row in ROWS}) == 64
    assert all(row["answer_a"].casefold() != row["answer_b"].casefold() for row in ROWS)


def test_answers_are_short_and_clean() -> None:
    """An answer has one to six sentences and no white space around it."""
    for row in ROWS:
        for text in (row["request"], *answers(row)):
            assert text == text.strip()
            assert 1 <= len(sentences(text)) <= 6


def test_neither_place_is_better() -> None:
    """a and b win equally often, by the same distance, in every kind; within one by stratum."""
    labels = Counter(row["label"] for row in ROWS)
    assert labels["A-clearly"] == labels["B-clearly"] == 17
    assert labels["A-slightly"] == labels["B-slightly"] == 7
    by_kind = Counter((row["kind"], row["label"][0]) for row in DECIDED)
    by_stratum = Counter((row["stratum"], row["label"][0]) for row in DECIDED)
    assert all(by_kind[kind, "A"] == by_kind[kind, "B"] for kind, _ in by_kind)
    assert all(abs(by_stratum[name, "A"] - by_stratum[name, "B"]) <= 1 for name, _ in by_stratum)


def test_length_says_nothing() -> None:
    """The longer answer is the better one in half of the pairs, for both places alike; of the
    ties, each place has the longer one in half.
    """
    won = Counter((row["label"][0], len(better(row)) > len(worse(row))) for row in DECIDED)
    assert set(won.values()) == {12}
    assert Counter(len(row["answer_a"]) > len(row["answer_b"]) for row in TIES) == {
        True: 8,
        False: 8,
    }
    assert all(len(row["answer_a"]) != len(row["answer_b"]) for row in ROWS)


def test_format_says_nothing() -> None:
    """Signs of format stand with the better answer as often as with the worse one; where they are
    all that differs, with each place as often, and with the longer answer as often.
    """
    more = [signs_of_format(better(row)) - signs_of_format(worse(row)) for row in DECIDED]
    assert (sum(d > 0 for d in more), sum(d < 0 for d in more)) == (4, 4)
    marked = [row for row in ROWS if row["kind"] == "markdown-vs-plain"]
    in_a = [signs_of_format(row["answer_a"]) > 0 for row in marked]
    assert [signs_of_format(row["answer_b"]) > 0 for row in marked] == [not a for a in in_a]
    longer = [len(row["answer_a"]) > len(row["answer_b"]) for row in marked]
    assert sum(in_a) == sum(a == b for a, b in zip(in_a, longer, strict=True)) == 4


def test_kinds_are_what_they_say() -> None:
    """Ties by kind, and which answer is longer where the kind says so."""
    for row in ROWS:
        assert (row["label"] == "TIE") == (row["kind"] in ("equal-paraphrase", "markdown-vs-plain"))
        if row["kind"] == "complete-vs-partial":
            assert len(better(row)) > len(worse(row))
        if row["kind"] == "short-vs-long":
            assert len(better(row)) < len(worse(row))


# --- what is said in the answers ---------------------------------------------------------------


def second_youngest() -> str:
    """Who is second youngest in every order of four ages that the request allows."""
    orders = permutations(("Anna", "Ben", "Carla", "Dev"))  # from oldest to youngest
    allowed = [o for o in orders if o.index("Anna") < o.index("Ben") < o.index("Carla")]
    (name,) = {o[-2] for o in allowed if o.index("Dev") > o.index("Carla")}
    return name


def after(start: str, **passed: int) -> str:
    """The time of day so much later."""
    return (datetime.strptime(start, "%H:%M") + timedelta(**passed)).strftime("%H:%M")


PRICE = Decimal("7.50") / 3
# What the arithmetic pairs must say, computed: the answers that are right say all of it, an answer
# that is wrong does not say the first.
FIGURES: dict[str, list[str]] = {
    "correct-01": [f"${80 - 80 * 25 // 100}"],
    "correct-02": [after("9:40", hours=2, minutes=35), after("9:40", hours=2)],
    "correct-03": [f"{PRICE * 5:.2f} euros"],
    "correct-04": [f"{18 / 270 * 100:.1f} litres"],
    "correct-05": [f"${Decimal(96) * Decimal('1.15') / 5:.2f}"],
    "correct-06": [second_youngest()],
    "complete-08": [f"{7 * 24 * 60:,} minutes", f"{7 * 24} hours"],
    "short-01": [f" {60 * 15 // 100}"],
    "short-02": [f"{50 - 3 * 12} euros left"],
    "equal-05": [str(12 * 15)],
    "markdown-08": [str(7 * n) for n in range(1, 6)],
}


def test_every_sum_is_right_or_meant_to_be_wrong() -> None:
    """The figures of all arithmetic pairs, computed again, stand where the label says."""
    assert set(FIGURES) == {row["id"] for row in ROWS if row["stratum"] == "arithmetic"}
    for ident, figures in FIGURES.items():
        row = BY_ID[ident]
        right = [better(row)] if row["kind"] == "correct-vs-wrong" else answers(row)
        for text in right:
            assert all(figure in text for figure in figures), ident
        if row["kind"] == "correct-vs-wrong":
            assert figures[0] not in worse(row), ident
    left = f"still have {50 - 4 * 12} euros"
    assert "still have" in worse(BY_ID["short-02"])
    assert left not in worse(BY_ID["short-02"])


def test_guests_are_counted_right_and_wrong() -> None:
    """The guests of all tables in the request add up to the better answer's number only."""
    row = BY_ID["correct-16"]
    guests = f"{sum(map(int, re.findall(r'([0-9]+) guests', row['request'])))} guests"
    assert guests in better(row)
    assert guests not in worse(row)


XS = [3, 1, 2, 5, 4]
# Names for the code in an answer, and what it must give.
CODE: dict[str, tuple[dict[str, Any], Any]] = {
    "correct-11": ({"xs": XS}, [2, 5, 4]),
    "correct-13": ({"n": 8}, True),
}


@pytest.mark.parametrize("ident", CODE)
def test_code_does_what_the_label_says(ident: str) -> None:
    """The better answer's code gives what was asked for, and the worse one's something else."""
    names, expected = CODE[ident]
    (good,), (bad,) = code(better(BY_ID[ident])), code(worse(BY_ID[ident]))
    assert eval(good, dict(names)) == expected
    assert eval(bad, dict(names)) != expected


def test_code_without_import_runs_without() -> None:
    """The better answer adds up as it stands; the worse one needs what the request forbids."""
    row = BY_ID["constraint-12"]
    assert eval(code(better(row))[0], {"xs": XS}) == 15
    with pytest.raises(NameError, match="math"):
        eval(code(worse(row))[0], {"xs": XS})


def test_what_the_requests_ask_of_code_is_answered_right() -> None:
    """The size of a set and a text repeated are what Python makes of the code in the request."""
    size, repeated = BY_ID["correct-12"], BY_ID["short-06"]
    (asked,) = re.findall(r"len\(.*\)", size["request"])
    assert f"{eval(asked)}" in better(size)
    assert f"{eval(asked)}" not in worse(size)
    (asked,) = re.findall(r"print\((.*)\)", repeated["request"])
    assert all(f"shows {eval(asked)}." in text for text in answers(repeated))


def test_what_is_said_about_code_is_so() -> None:
    """A text is not changed by `upper` and a list is by `sort`; the types named cannot be."""
    names = {"s": "ab"}
    for answer in answers(BY_ID["short-07"]):
        assert eval(code(answer)[0], names) == "AB"
    assert names["s"] == "ab"
    assert "changes s itself" in worse(BY_ID["short-07"])
    for answer in answers(BY_ID["equal-06"]):
        xs = list(XS)
        assert eval(code(answer)[0], {"xs": xs}) is None
        assert xs == [5, 4, 3, 2, 1]
    for answer in answers(BY_ID["markdown-06"]):
        named = re.findall(r"\b(?:int|str|tuple|list|dict|set)\b", answer)
        assert len(named) == 3
        assert all(eval(name).__hash__ is not None for name in named)


VERBS = ("Keep", "Go")
# What each limit that can be checked asks of an answer.
LIMITS: dict[str, Callable[[str], bool]] = {
    "constraint-01": lambda text: len(text.split()) == 5,
    "constraint-02": lambda text: "e" not in text.casefold(),
    "constraint-03": lambda text: text.endswith("?") and len(sentences(text)) == 1,
    "constraint-04": lambda text: (
        (found := re.findall("blue|green|red|yellow", text.casefold())) == sorted(found)
    ),
    "constraint-05": lambda text: len(sentences(text)) <= 2,
    "constraint-07": lambda text: all(s.lstrip("- ").startswith(VERBS) for s in sentences(text)),
    "constraint-08": lambda text: len(text.split()) < 20,
    "constraint-10": lambda text: text == "kim@example.org",
    "constraint-11": lambda text: text.split("; ") == ["Oslo", "Rome", "Siena"],
    "constraint-12": lambda text: not text.startswith("Import"),
}


def test_limits_are_kept_and_broken_as_labelled() -> None:
    """Of every pair whose label turns on a limit, the better answer keeps it and the worse one
    does not; the two that miss a manner only are labelled slightly.
    """
    clear = [row for row in DECIDED if row["kind"] == "follows-constraint"]
    assert {r["id"] for r in clear if r["label"].endswith("clearly")} == set(LIMITS)
    for ident, kept in LIMITS.items():
        assert kept(better(BY_ID[ident])), ident
        assert not kept(worse(BY_ID[ident])), ident


def test_what_is_read_out_of_a_text_stands_in_it() -> None:
    """Dates, names and numbers of right answers are in the request; the wrong number is not."""
    assert "due on 17 May" in BY_ID["correct-14"]["request"]
    assert "Omar brings drinks" in BY_ID["correct-15"]["request"]
    request, wrong = BY_ID["short-08"]["request"], worse(BY_ID["short-08"])
    assert better(BY_ID["short-08"]) in request
    assert re.findall(r"555-\d+", wrong) != re.findall(r"555-\d+", request)
    agenda = [re.findall(r"(\d+) minutes", text) for text in answers(BY_ID["markdown-04"])]
    assert [sum(map(int, minutes)) for minutes in agenda] == [30, 30]


# --- the judge ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def judge() -> Judge:
    """The shipped judge of pairs."""
    return load_judge(REPOSITORY / "judge/pairwise-five-point.yaml", shown="pairwise")


@pytest.fixture(scope="module")
def item_set() -> ItemSet:
    """The shipped pairs as an item set."""
    return load_items(PAIRS, role="sentinel", shown="pairs")


def test_the_judge_fits_the_pairs(judge: Judge, item_set: ItemSet) -> None:
    """The file loads, has what it needs in every row, and its scale goes from A to B."""
    assert check_items(judge, [item_set]) == []
    assert judge.spec.id == "pairwise-five-point"
    assert judge.spec.verdicts == judge.spec.output["properties"]["verdict"]["enum"] == VERDICTS
    assert judge.spec.pair is not None
    assert [judge.spec.pair.sides[v] for v in VERDICTS] == [2, 1, 0, -1, -2]
    assert judge.closed_replies() is not None


def test_the_guideline_leans_to_neither_place(judge: Judge) -> None:
    """Its examples let A and B win equally often by each distance; each rule but the last has one
    of each, and the last has ties only.
    """
    *deciding, last = judge.spec.rules
    for rule in deciding:
        assert sorted(e.verdict[0] for e in rule.examples) == ["A", "B"]
    assert {e.verdict for e in last.examples} == {"TIE"}
    counts = Counter(e.verdict for rule in judge.spec.rules for e in rule.examples)
    assert counts["A-clearly"] == counts["B-clearly"]
    assert counts["A-slightly"] == counts["B-slightly"]
    assert [rule.priority for rule in judge.spec.rules] == [1, 2, 3, 4, 5]


def test_no_example_gives_a_pair_away(judge: Judge, item_set: ItemSet) -> None:
    """No quotation in the guideline is a request of the set."""
    quoted = {
        text.casefold()
        for rule in judge.spec.rules
        for example in rule.examples
        for text in re.findall(r'"([^"]*)"', example.text)
    }
    assert not quoted & {str(item.fields["request"]).casefold() for item in item_set.items}


def test_the_order_exchanges_the_answers_only(judge: Judge, item_set: ItemSet) -> None:
    """In `ba` the same prompt shows each answer in the other's place."""
    for item in item_set.items:
        (system, ab), (same, ba) = judge.messages(item), judge.messages(item, order="ba")
        a, b = (f"Answer {place}: {{}}" for place in "AB")
        first, second = str(item.fields["answer_a"]), str(item.fields["answer_b"])
        assert system == same
        lines = f"{a.format(first)}\n{b.format(second)}"
        assert lines in ab["content"]
        assert (
            ab["content"].replace(lines, f"{a.format(second)}\n{b.format(first)}")
            == (ba["content"])
        )


def test_the_prompts_are_as_short_as_the_docs_say(judge: Judge, item_set: ItemSet) -> None:
    """In tokens of the small model, the guideline has fewer than 700 and every prompt, in both
    orders and with room for the reply, fits a context of 1,024.
    """
    facts, settings = vocabulary().facts(), TemplateSettings()
    system = judge.messages(item_set.items[0])[0]["content"]
    assert 0 < len(vocabulary().tokenize(system)) < 700
    for item in item_set.items:
        for order in ORDERS:
            text = render_prompt(facts, judge.messages(item, order=order), settings=settings)
            assert len(vocabulary().tokenize(text)) + 64 <= 1024
