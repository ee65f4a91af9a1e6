"""`prereg bench` with the small model: who plays, and whether tokens are counted right.

No time is looked at: what a bench measures differs from machine to machine.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from engine.small_model import PATH, YES_NO, vocabulary
from prereg_judge.cli.bench import sentinels, show
from prereg_judge.engine.chat import TemplateSettings, render_prompt
from prereg_judge.flow.bench_child import needed
from prereg_judge.flow.benching import distinct_tokens
from support import GGUF, Done, prereg

pytestmark = [
    pytest.mark.model,
    pytest.mark.filterwarnings("ignore:llama_token_get_attr is deprecated"),
]

ROWS = 2
OURS = [f"{path} {n}" for n in (1, 4, 8) for path in ("generate", "choice")]


@pytest.fixture(scope="module")
def done() -> Done:
    """One small bench, outside of any workspace."""
    return prereg(
        "bench", GGUF, "--rows", str(ROWS), "--rounds", "1", "--gpu-layers", "0", "--json"
    )


def task(done: Done) -> Any:
    """The one task of the command's JSON."""
    (found,) = done.json["tasks"]
    return found


def prompts() -> list[tuple[int, ...]]:
    """The prompts that the bench must have made, token by token."""
    wanted, model = sentinels(ROWS), vocabulary()
    rendered = [
        render_prompt(model.facts(), wanted.judge.messages(item), settings=TemplateSettings())
        for item in wanted.items
    ]
    return [tuple(model.tokenize(text)) for text in rendered]


def test_every_contender_plays_every_round(done: Done) -> None:
    """The loop and the engine on both paths, one trial at a time and several, are all timed."""
    assert done.code == 0, done.err
    lines = task(done)["contenders"]
    assert [line["contender"] for line in lines] == ["loop", *OURS]
    assert [len(line["rounds_s"]) for line in lines] == [1] * 7
    assert all(line["of_the_limit"]["median"] > 0 for line in lines)


def test_every_reply_is_read_as_a_verdict(done: Done) -> None:
    """A contender that gave no valid reply would show."""
    assert [line["valid"] for line in task(done)["contenders"]] == [ROWS] * 7


def test_all_contenders_read_the_same_prompts(done: Done) -> None:
    """The loop renders its own prompts, and they are as long as ours."""
    total = sum(map(len, prompts()))
    assert task(done)["prompt_tokens"] == total
    assert {line["prompt_tokens"] for line in task(done)["contenders"]} == {total}


def test_a_shared_beginning_is_counted_once(done: Done) -> None:
    """The limit counts every distinct prefix of the prompts, and no prefix twice."""
    prefixes = {p[:n] for p in prompts() for n in range(1, len(p) + 1)}
    assert task(done)["distinct_prompt_tokens"] == len(prefixes)
    assert len(prefixes) < task(done)["prompt_tokens"]


def test_distinct_tokens_do_not_depend_on_the_order() -> None:
    """Prompts that share a beginning need not be neighbours, and an equal prompt adds nothing."""
    made = [(1, 2, 3), (9,), (1, 2, 4, 5), (1, 2), (9,), (1, 2, 3)]
    assert distinct_tokens(made) == len({p[:n] for p in made for n in range(1, len(p) + 1)})


def test_only_what_comes_before_the_last_open_token_has_to_be_decoded() -> None:
    """Of a closed reply that is the forced beginning, whichever verdict follows."""
    beginning = vocabulary().tokenize('{"verdict":"')
    replies = [vocabulary().tokenize(f'{{"verdict":"{v}"}}') for v in ("YES", "NO")]
    assert needed(str(PATH), YES_NO, replies) == [len(beginning)] * 2


def test_the_table_shows_machine_model_and_ratios(
    done: Done, capsys: pytest.CaptureFixture[str]
) -> None:
    """What is quoted stands beside what it was measured on."""
    show(json.loads(done.out))
    out = capsys.readouterr().out
    assert "SmolLM2" in out
    assert "llama-cpp-python 0.3.36" in out
    assert "1.00 (1.00 to 1.00)" in out  # the loop against itself


def test_without_a_row_there_is_nothing_to_measure(tmp_path: Path) -> None:
    """A bench of no rows is a usage error, said before any model is loaded."""
    done = prereg("bench", GGUF, "--rows", "0")
    assert done.code == 2
    assert "at least one row" in done.err
    assert prereg("bench", str(tmp_path / "no.gguf")).code == 2
