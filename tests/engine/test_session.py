"""What a trial depends on: its own tokens, cuts, seed and group, and nothing that came before."""

from __future__ import annotations

import functools
import json
from collections.abc import Sequence

import pytest

from engine.small_model import (
    BARE,
    GREEDY,
    answer,
    call,
    long_call,
    numbers,
    session,
    shared,
    vocabulary,
)
from prereg_judge.engine.chat import TemplateSettings, render_prompt
from prereg_judge.engine.llama import Model
from prereg_judge.engine.protocol import (
    Call,
    Constraint,
    ModelSpec,
    Reply,
    SessionSettings,
    Thinking,
)
from prereg_judge.engine.session import Session
from prereg_judge.engine.tree import shared_cuts
from prereg_judge.errors import EngineError
from prereg_judge.items import load_items
from prereg_judge.judge import load_judge
from prereg_judge.shaping import Decoding
from support import REPOSITORY, model_path

pytestmark = [
    pytest.mark.model,
    pytest.mark.filterwarnings("ignore:llama_token_get_attr is deprecated"),
]


def in_groups(one: Session, calls: Sequence[Call]) -> list[Reply]:
    """Answer calls in groups as large as the session takes."""
    n = one.sequences.n
    return [reply for i in range(0, len(calls), n) for reply in one.run(calls[i : i + n])]


# --- Alone --------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_batch", [512, 32])
def test_a_trial_does_not_depend_on_what_was_called_before(n_batch: int) -> None:
    """In every order, again, after clearing and in a fresh session the numbers are the same."""
    about = long_call if n_batch == 512 else call  # either is longer than the batch of 32
    calls = [about("cat"), about("a table", seed=2), about("cats", seed=3)]
    fresh = {c.key: numbers(answer(session(n_batch=n_batch), c)) for c in calls[:2]}
    one = session(n_batch=n_batch)
    for i in (2, 0, 1, 2, 1, 0, 2, 2, 0):  # every call after every other, and after itself
        found = numbers(answer(one, calls[i]))
        assert fresh.setdefault(calls[i].key, found) == found
    one.clear()
    assert numbers(answer(one, calls[1])) == fresh[calls[1].key]


def test_a_trial_does_not_depend_on_how_others_were_cut() -> None:
    """A beginning that another call decoded in other steps is not taken over."""
    n = long_call("cat").cuts[0]
    ways: list[tuple[int, ...]] = [(), (n,), (35, n)]
    calls = [long_call("cat", cuts=cuts) for cuts in ways]
    fresh = [numbers(answer(session(BARE), c)) for c in calls[1:]]
    one = session(BARE)
    answer(one, calls[0])
    for i in (1, 2, 1):
        assert numbers(answer(one, calls[i])) == fresh[i - 1]


def test_what_is_reused_is_what_the_cuts_say() -> None:
    """Memory is reused up to the last cut before which the tokens agree, never beyond."""
    n, one = shared(), session()
    table = call("table", cuts=(10, n))
    other = Call("other", (*table.tokens[:10], 5, *table.tokens[11:]), (10, n), 1)
    foreign = Call(
        "foreign", tuple(vocabulary().tokenize("<|im_end|>Hello there, is it?")), (4,), 1
    )
    steps = [
        (table, 0),
        (call("cat", cuts=(10, n)), n),
        (call("cat", cuts=(10, n)), n),
        (other, 10),
        (table, 10),
        (foreign, 0),
        (table, 0),
        (call("cat", cuts=()), 0),
        (call("cat", cuts=()), 0),
        (call("cat", cuts=(n,)), 0),
        (call("cat", cuts=(n,)), n),
    ]
    for c, reused in steps:
        reply = answer(one, c)
        assert (reply.n_reused, reply.n_prompt) == (reused, len(c.tokens))
    one.clear()
    assert answer(one, call("cat", cuts=(n,))).n_reused == 0


def test_a_seed_decides_and_greedy_needs_none() -> None:
    """Equal seeds give equal replies, different seeds both verdicts; greedy is constant."""
    one = session(BARE)
    replies = {seed: answer(one, call("milk", seed=seed)).text for seed in range(30)}
    assert set(replies.values()) == {'"YES"', '"NO"'}
    assert all(answer(one, call("milk", seed=s)).text == replies[s] for s in (3, 0, 29))
    greedy = session(BARE, decoding=GREEDY)
    assert len({numbers(answer(greedy, call("cat", seed=None))) for _ in range(3)}) == 1


# --- In groups ----------------------------------------------------------------------------------


def pairs(*texts: str) -> list[Call]:
    """Two calls for each text, which share more than all calls do: a tree of two levels."""
    found = []
    for at, text in enumerate(texts):
        both = [call(f"{text}, said {who}, and nobody else", seed=at) for who in ("Ann", "Bob")]
        tokens = [c.tokens for c in both]
        (cuts, _) = shared_cuts(tokens, least=1)
        found += [Call(f"{text}/{i}", t, (shared(), *cuts), at) for i, t in enumerate(tokens)]
    assert all(len(c.cuts) == 2 for c in found)
    return found


@pytest.mark.parametrize("labels", [(), ("YES", "NO")])
@pytest.mark.parametrize("parallel", [1, 2, 3, 4])
def test_a_group_does_not_depend_on_the_groups_before(
    parallel: int, labels: tuple[str, ...]
) -> None:
    """First, after others, after clearing and after a resume in the middle: the same numbers."""
    calls = pairs("a red cat", "the table", "some cats")

    def made() -> Session:
        return session(parallel=parallel, labels=labels)

    whole = [numbers(r) for r in in_groups(made(), calls)]
    for start in range(parallel, len(calls), parallel):
        resumed = [numbers(r) for r in in_groups(made(), calls[start:])]
        assert resumed == whole[start:]
    again = made()
    in_groups(again, list(reversed(calls)))
    assert [numbers(r) for r in in_groups(again, calls)] == whole
    answer(again, calls[1])  # leaves one sequence with more than the others
    assert [numbers(r) for r in in_groups(again, calls)] == whole
    again.clear()
    assert [numbers(r) for r in in_groups(again, calls)] == whole


def test_a_shared_beginning_is_decoded_once_in_a_group() -> None:
    """The tokens read by a group are those of its tree: each distinct beginning once."""
    calls = pairs("a red cat", "the table")
    replies = session(parallel=4).run(calls)
    read = sum(r.n_prompt - r.n_reused for r in replies)
    distinct = {c.tokens[: i + 1] for c in calls for i in range(c.cuts[-1])}
    assert read == len(distinct) + sum(len(c.tokens) - c.cuts[-1] for c in calls)


def test_more_calls_than_sequences_are_an_error() -> None:
    """A group that does not fit is a mistake of the caller and no fault of the model."""
    with pytest.raises(ValueError, match="2 calls for 1"):
        session().run([call("cat"), call("table")])


def test_thinking_before_a_choice_is_refused() -> None:
    """Closed replies leave no room for thinking, so a session that asks for both is refused."""
    with pytest.raises(EngineError, match="no room for thinking"):
        session(labels=("YES", "NO"), thinking=Thinking("<think>", "</think>", 9))


# --- The shipped set ----------------------------------------------------------------------------

N_ROWS = 12
SAMPLED = Decoding("sampled", temperature=3.0)  # warm, or nearly every row would get one verdict


def shipped(*, whole: bool = False) -> tuple[Model, Constraint, list[Call]]:
    """The first rows of each kind of the shipped sentinels, as a run would call them."""
    judge = load_judge(REPOSITORY / "judge/keep-drop.yaml", shown="judge")
    path = REPOSITORY / "sentinels/customer-service-72.jsonl"
    items = load_items(path, role="sentinel", shown="items").items[:: 72 // N_ROWS]
    spec = ModelSpec(str(model_path()), n_ctx=512, n_gpu_layers=0, n_threads=1)
    loaded = Model(spec, beat=lambda: None)
    facts = loaded.facts()
    prompts = [
        tuple(
            loaded.tokenize(render_prompt(facts, judge.messages(item), settings=TemplateSettings()))
        )
        for item in items
    ]
    cuts = [()] * len(items) if whole else shared_cuts(prompts)
    calls = [
        Call(i.id, p, c, n) for n, (i, p, c) in enumerate(zip(items, prompts, cuts, strict=True))
    ]
    return loaded, Constraint(judge.spec.output, ",", ":"), calls


@functools.cache
def replies_to_shipped(path: str, parallel: int, *, whole: bool = False) -> list[Reply]:
    """Replies to the shipped rows through one path; made once, for reading takes its time."""
    loaded, constraint, calls = shipped(whole=whole)
    calls = calls[::3] if whole else calls
    texts = {v: json.dumps({"verdict": v}, separators=(",", ":")) for v in ("KEEP", "DROP")}
    settings = SessionSettings(
        constraint,
        SAMPLED,
        16,
        "choice" if path == "choice" else "generate",
        parallel,
        None,
        texts if path == "choice" else {},
    )
    one = Session(loaded, settings)
    replies = in_groups(one, calls)
    one.close()
    return replies


def largest_difference(first: Sequence[Reply], second: Sequence[Reply]) -> float:
    """Of any verdict's probability."""
    return max(
        abs(p - (b.probabilities or {})[v])
        for a, b in zip(first, second, strict=True)
        for v, p in (a.probabilities or {}).items()
    )


def test_choosing_in_parallel_is_choosing_alone() -> None:
    """On the shipped rows and a CPU, verdicts and probabilities of 4 at once equal those of 1."""
    alone, together = (replies_to_shipped("choice", n) for n in (1, 4))
    assert {r.text for r in alone} == {'{"verdict":"KEEP"}', '{"verdict":"DROP"}'}
    assert largest_difference(alone, together) == 0
    assert [numbers(r) for r in together] == [numbers(r) for r in alone]


def test_writing_in_parallel_is_writing_alone() -> None:
    """On the shipped rows and a CPU, texts of 4 at once equal those of 1."""
    alone, together = (replies_to_shipped("generate", n) for n in (1, 4))
    assert len({r.text for r in alone}) == 2
    assert [numbers(r) for r in together] == [numbers(r) for r in alone]


def test_a_shared_beginning_moves_no_more_than_the_last_digits() -> None:
    """On every third of these rows, probabilities with and without reuse are nearly the same."""
    rows = slice(None, None, 3)
    reused = replies_to_shipped("choice", 1)[rows]
    whole = replies_to_shipped("choice", 1, whole=True)
    assert [r.n_reused for r in whole] == [0] * len(reused)
    assert min(r.n_reused for r in reused[1:]) > 200
    difference = largest_difference(reused, whole)
    differing = sum(a.text != b.text for a, b in zip(reused, whole, strict=True))
    print(f"shared against whole: {differing} of {len(whole)} differ, by at most {difference:.2g}")
    assert difference < 0.05
    assert differing <= 1
