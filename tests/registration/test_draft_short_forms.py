"""The short forms of pairs and tables on the command line: what each gives, what each refuses."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from prereg_judge.errors import UsageError
from prereg_judge.registration import settings_text as short
from prereg_judge.registration.expressions import parse_band, parse_decision
from prereg_judge.registration.schema_claims import BandModel, MetricParams

Parser = Callable[[Any], Any]

label: Parser = partial(short.parse_words, option="--label")

READ: list[tuple[Parser, Any, Any]] = [
    (short.parse_orders, "ab, ba", ("ab", "ba")),
    (short.parse_resampling, "2000,seed=7",
     {"resamples": 2000, "seed": 7, "by_stratum": False}),
    (short.parse_resampling, "500, seed = 0, by_stratum",
     {"resamples": 500, "seed": 0, "by_stratum": True}),
    (short.parse_sample, "200,seed=7", {"items": 200, "seed": 7}),
    (short.parse_assumed, "shift_sd=0.0187,span=.201", {"span": 0.201, "shift_sd": 0.0187}),
    (short.parse_columns, ["item=comparison", "label=my vote,annotator='a, b'"],
     {"item": "comparison", "label": "my vote", "annotator": "a, b"}),
    (label, ["A=a", "tie (both bad)=tie,\"B=2\"=b"], {"A": "a", "tie (both bad)": "tie",
                                                       "B=2": "b"}),
    (short.parse_pools, ["expert=expert_*", "the crowd=author_*|worker_?"],
     ({"name": "expert", "match": "expert_*"},
      {"name": "the crowd", "match": ["author_*", "worker_?"]})),
    (short.parse_pools, ["a=x,b='y|z'"],
     ({"name": "a", "match": "x"}, {"name": "b", "match": "y|z"})),
    (short.parse_judge_run, "qwen=my-pairs:1", {"name": "qwen", "run": "my-pairs", "pass": 1}),
    (short.parse_judge_run, "qwen 7b=my-pairs/3:12",
     {"name": "qwen 7b", "run": "my-pairs/3", "pass": 12}),
    (short.parse_verdicts, "qwen=a b=c.csv", {"name": "qwen", "file": "a b=c.csv"}),
    (short.parse_verdict_columns, "item=question_id,models=a+b,ab=x,ba=y,stratum=category",
     {"item": ["question_id"], "models": ["a", "b"], "ab": "x", "ba": "y",
      "stratum": "category"}),
    (short.parse_verdict_columns, "ab=x y,item=id+'a+b'", {"ab": "x y", "item": ["id", "a+b"]}),
]  # fmt: skip

REFUSED: list[tuple[Parser, Any, str]] = [
    (short.parse_resampling, "many", "--resampling: expected a number at position 1"),
    (short.parse_resampling, "2000", "expected `,seed=` and a whole number at the end"),
    (short.parse_resampling, "2000,seed=1.5", "expected a whole number"),
    (short.parse_resampling, "2000,seed=1,strata", "expected by_stratum, or nothing"),
    (short.parse_resampling, "2000,seed=1,by_stratum,x", "did not expect more"),
    (short.parse_sample, "200 seed=7", "--sample: expected `,seed=`"),
    (short.parse_sample, "200,seed=7,8", "did not expect more"),
    (short.parse_assumed, "span=0.2", "needs both span and shift_sd"),
    (short.parse_assumed, "span=0.2,span=0.3", "expected one of span, shift_sd, once"),
    (short.parse_assumed, "span=wide,shift_sd=1", "expected a number"),
    (short.parse_columns, ["comparison"], "--column: expected `=`"),
    (short.parse_columns, ["item=a", "item=b"], "expected a key, once, at position 1"),
    (short.parse_columns, ["item="], "expected a name"),
    (label, ["A"], "--label: expected `=` and a, b or tie at the end"),
    (label, ["A=a", "A=b"], "means two things at position 1"),
    (short.parse_pools, ["expert"], "--pool: expected `=` behind the name"),
    (short.parse_pools, ["=expert_*"], "expected a name"),
    (short.parse_pools, ["expert=expert_*|"], "expected a name"),
    (short.parse_judge_run, "my-pairs:1", "--judge-run: expected `=` behind the name"),
    (short.parse_judge_run, "qwen=my-pairs/1", "expected `:` and the pass at the end"),
    (short.parse_judge_run, "qwen=my-pairs/1:two", "expected a number"),
    (short.parse_judge_run, "qwen=:1", "expected the id of a registration"),
    (short.parse_verdicts, "v.csv", "--verdicts: expected `=` behind the name"),
    (short.parse_verdicts, "qwen= ", "expected a file"),
    (short.parse_verdict_columns, "item=id", "--verdict-columns: also needs ab at the end"),
    (short.parse_verdict_columns, "ba=x", "also needs item and ab"),
    (short.parse_verdict_columns, "item=id,ab=x+y", "did not expect more at position 13"),
    (short.parse_verdict_columns, "id=id,ab=x", "expected one of item, models, ab, ba, stratum"),
]


@pytest.mark.parametrize(("parser", "text", "value"), READ)
def test_each_form_gives_the_value_of_the_file(parser: Parser, text: Any, value: Any) -> None:
    """A short form becomes what the YAML holds, numbers keeping their type."""
    read = parser(text)
    assert read == value
    if isinstance(value, dict):  # 7 is not 7.0 here
        assert repr(sorted(read.items())) == repr(sorted(value.items()))


@pytest.mark.parametrize(("parser", "text", "words"), REFUSED)
def test_each_mistake_is_named_with_place_and_example(
    parser: Parser, text: Any, words: str
) -> None:
    """A wrong form is refused once, by its flag, with its text and a form that would do."""
    with pytest.raises(UsageError) as caught:
        parser(text)
    [problem] = caught.value.problems
    assert words in str(problem), str(problem)
    assert (text if isinstance(text, str) else text[-1]) in str(problem.found)
    assert "or example --" in str(problem)


def test_the_examples_in_messages_are_themselves_right() -> None:
    """What a message holds up as right can be typed as it stands."""
    of_many: list[Parser] = [short.parse_columns, label, short.parse_pools]
    of_one: list[Parser] = [
        short.parse_resampling, short.parse_sample, short.parse_assumed, short.parse_judge_run,
        short.parse_verdicts, short.parse_verdict_columns,
    ]  # fmt: skip
    for parser in of_many + of_one:
        with pytest.raises(UsageError) as caught:
            parser(["="] if parser in of_many else "=")
        example = str(caught.value).rpartition(" '")[2].removesuffix("'")
        assert parser([example] if parser in of_many else example)


_VALUES = {int: (2, "2"), float: (0.5, "0.5"), str: ("a b-1", "a b-1")}


@pytest.mark.parametrize("name", [n for n in MetricParams.model_fields if n != "metric"])
def test_every_parameter_of_a_metric_can_be_typed(name: str) -> None:
    """Each parameter that the file knows is read in brackets, as the type that the file takes."""
    field = MetricParams.model_fields[name]
    key = field.alias or name
    kind = next((k for k in (int, float) if k in getattr(field.annotation, "__args__", ())), str)
    value, text = _VALUES[kind]
    entry = parse_band(f"x.y[{key}={text}]=0..1")
    assert (entry[key], type(entry[key])) == (value, kind)
    assert BandModel.model_validate(entry).params() == {key: value}


@pytest.mark.parametrize("key", ["place", "models", "tertile", "pass", "from_pass"])
def test_a_number_among_parameters_must_be_whole(key: str) -> None:
    """A word where a whole number is due is refused where it stands."""
    with pytest.raises(UsageError, match=f"`{key}` must be a whole number"):
        parse_band(f"x[{key}=two]=0..1")


def test_a_decision_on_the_limit_of_a_metric_with_parameters() -> None:
    """The replication bar reads as the file has it."""
    read = parse_decision("lean.difference.ci_low[judge=gpt-4.1,key=stored] > 0 => replicated")
    when = {"metric": "lean.difference.ci_low", "judge": "gpt-4.1", "key": "stored", "gt": 0}
    assert read == {"id": "decide-1", "when": when, "then": "replicated"}
