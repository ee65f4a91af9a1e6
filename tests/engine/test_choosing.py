"""The path `choice`: the probabilities of verdicts are those of writing, token by token."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import asdict

import numpy as np
import pytest
from scipy import stats

from engine.small_model import (
    FREE,
    GREEDY,
    YES_NO,
    among,
    answer,
    call,
    closed,
    numbers,
    session,
    vocabulary,
)
from prereg_judge.choices import redraw, verdict_probabilities
from prereg_judge.engine.context import Feed, Logits
from prereg_judge.engine.protocol import Call, Constraint
from prereg_judge.engine.session import Session
from prereg_judge.engine.wire import reply_from
from prereg_judge.engine.writing import scores
from prereg_judge.shaping import Decoding, shape

pytestmark = [
    pytest.mark.model,
    pytest.mark.filterwarnings("ignore:llama_token_get_attr is deprecated"),
]

SETTINGS = [
    Decoding("sampled"),
    Decoding("sampled", temperature=2.5, top_k=4),
    Decoding("sampled", temperature=0.7, top_p=0.9, min_p=0.02),
]
FIVE = ("A_MUCH", "A_LITTLE", "SAME", "B_LITTLE", "B_MUCH")
NESTED = ("A", "AB", "ABC", "B")
TEXT = "milk"


class Walker:
    """`generate` taken apart: its own steps, with every token that can be drawn in turn."""

    def __init__(self, constraint: Constraint, decoding: Decoding) -> None:
        self.session = session(constraint, decoding=decoding)
        self.writer, self.sequences = self.session._writer, self.session.sequences
        self.call = call(TEXT)
        self.chances: Counter[str] = Counter()
        writing = self.writer.begin(self.call, 0)
        tokens = [*self.call.tokens, *writing.pending]
        self.sequences.decode([Feed(0, tokens[: self.call.cuts[0]])])
        logits = self.sequences.decode([Feed(0, tokens[self.call.cuts[0] :], want=True)])[0]
        self.follow(writing.matcher, writing.reply, logits, 1.0)

    def follow(self, matcher: object, reply: list[int], logits: Logits, chance: float) -> None:
        """Add what can come after a reply so far, with its probability."""
        allowed = self.writer.allowed(matcher)
        depth = len(self.sequences.held[0])
        chances = shape(scores(logits, allowed), self.writer.settings.decoding)
        for token, p in zip(allowed.tolist(), chances.tolist(), strict=True):
            if p * chance < 1e-9:
                continue
            after = matcher.deep_copy()  # type: ignore[attr-defined]
            self.writer.consume(after, [token])
            forced = self.writer.forced(after)
            whole = [*reply, token, *forced]
            if after.is_stopped():
                self.chances[self.writer.text(whole)] += p * chance
                continue
            found = self.sequences.decode([Feed(0, [token, *forced], want=True)])[0]
            self.follow(after, whole, found, p * chance)
            assert self.sequences.keep(0, depth) == depth


@pytest.mark.parametrize("decoding", SETTINGS)
@pytest.mark.parametrize("labels", [FIVE, NESTED])
def test_probabilities_are_those_of_writing(labels: tuple[str, ...], decoding: Decoding) -> None:
    """Adding up every way in which writing can end gives the probability of each verdict."""
    constraint = among(*labels)
    walker = Walker(constraint, decoding)
    one = session(constraint, decoding=decoding, labels=labels)
    reply = answer(one, walker.call)
    assert sum(walker.chances.values()) == pytest.approx(1, abs=1e-6)
    assert reply.probabilities
    assert sum(reply.probabilities.values()) == pytest.approx(1, abs=1e-12)
    for label, p in reply.probabilities.items():
        assert p == pytest.approx(walker.chances[json.dumps(label)], abs=1e-5)
    assert len([p for p in reply.probabilities.values() if p > 0.01]) > 1  # else it shows little


def draws_of(one: Session, labels: tuple[str, ...], c: Call) -> list[int]:
    """How often each label comes out of 2,000 seeds, the prompt being read once.

    Everything but reading the prompt again is what a session does: `begin`, `step`, `choose`.
    """
    counts: Counter[str] = Counter()
    decoding = one.settings.decoding
    first = one._writer.begin(c, 0)
    logits = one._read([first])[0]
    depth = len(one.sequences.held[0])
    seen: dict[tuple[int, ...], Logits] = {}
    offset = 1_000_000 if one.settings.path == "choice" else 0  # no seed is used on both paths
    for seed in range(offset, offset + 2_000):
        w = one._writer.begin(Call(c.key, c.tokens, c.cuts, seed), 0)
        w.pending = []
        if one.settings.path == "choice":
            if not first.nodes:
                one._chooser.choose(w, logits)
                first.nodes = w.nodes
            counts[redraw(first.nodes, decoding, seed)] += 1
            continue
        after = logits
        while w.finish is None:
            one._writer.step(w, after)
            if w.finish is None:
                key = tuple(w.reply)
                if key not in seen:  # the same tokens after the same prompt: the same logits
                    one.sequences.keep(0, depth)
                    tokens = w.reply[len(first.reply) :]
                    seen[key] = one.sequences.decode([Feed(0, tokens, want=True)])[0]
                after = seen[key]
        counts[json.loads(one._writer.text(w.reply))] += 1
    assert set(counts) <= set(labels)
    return [counts[label] for label in labels]


@pytest.mark.parametrize("decoding", SETTINGS)
def test_draws_of_both_paths_do_not_differ(decoding: Decoding) -> None:
    """2,000 draws of one prompt by each path: no difference by chi-squared (p > 0.001)."""
    constraint, c = among(*FIVE), call(TEXT)
    written = draws_of(session(constraint, decoding=decoding), FIVE, c)
    one = session(constraint, decoding=decoding, labels=FIVE)
    chosen = draws_of(one, FIVE, c)
    table = np.array([written, chosen])
    table = table[:, table.sum(axis=0) > 0]
    assert table.shape[1] > 1
    assert stats.chi2_contingency(table).pvalue > 1e-3
    one.clear()
    reply = answer(one, c)
    assert reply.probabilities
    expected = np.array([reply.probabilities[v] for v in FIVE])
    assert all(n == 0 for n, p in zip(chosen, expected, strict=True) if p == 0)
    few = expected > 0
    assert stats.chisquare(np.array(written)[few], 2_000 * expected[few]).pvalue > 1e-3
    # What 2,000 written verdicts agree on, pair by pair, is what the closed form says.
    agreement = float(sum(n * (n - 1) for n in written)) / (2_000 * 1_999)
    error = 2 * np.sqrt(max((expected**3).sum() - (expected**2).sum() ** 2, 1e-12) / 2_000)
    assert agreement == pytest.approx((expected**2).sum(), abs=4 * error + 1e-3)


@pytest.mark.parametrize("decoding", [*SETTINGS, GREEDY])
@pytest.mark.parametrize("constraint", [YES_NO, among("YES", "NO")])
def test_the_record_of_a_choice_draws_it_again(constraint: Constraint, decoding: Decoding) -> None:
    """Nodes that went through JSON, with settings and seed, give the verdict and the numbers."""
    one = session(constraint, decoding=decoding, labels=("YES", "NO"))
    for seed in (None,) if decoding is GREEDY else range(8):
        reply = answer(one, call(TEXT, seed=seed))
        wire = json.loads(json.dumps(asdict(reply)))
        back = reply_from(wire)
        assert back == reply
        value = json.loads(reply.text)
        verdict = value["verdict"] if isinstance(value, dict) else value
        assert redraw(back.nodes, decoding, seed) == verdict
        assert verdict_probabilities(back.nodes, decoding, ("YES", "NO")) == reply.probabilities
        assert reply.allowed_mass == reply.nodes[0].mass
        assert reply.n_forced + reply.n_sampled == len(reply.tokens)


def test_one_read_is_all_where_the_first_token_settles_the_verdict() -> None:
    """Alternatives that differ in their first token cost no decode beyond the prompt's."""
    one = session(labels=("YES", "NO"))
    reply = answer(one, call("cat"))
    assert len(reply.nodes) == 1
    assert one.sequences._edges[0][-1] == len(one.sequences.held[0])
    assert len(one.sequences.held[0]) < len(call("cat").tokens) + len(reply.tokens)


NASTY = (
    'a"b',
    "\\",
    "a\nb",
    "é 日本",
    "😀",
    "😁",
    "</s>",
    "<|im_end|>",
    "{}",
    " KEEP",
    "KEEP",
    "KEEPER",
)


def test_every_verdict_can_be_chosen_whatever_is_in_it() -> None:
    """Quotes, newlines, split characters and markup come back as they were written."""
    constraint = closed(verdict={"type": "string", "enum": list(NASTY)})
    hot = Decoding("sampled", temperature=1e6)
    one, seen = session(constraint, decoding=hot, labels=NASTY), set()
    for seed in range(12):
        reply = answer(one, call("cat", seed=seed))
        assert reply.finish == "complete"
        assert vocabulary().spell(reply.tokens) == reply.text
        verdict = json.loads(reply.text)["verdict"]
        assert verdict in NASTY
        assert reply.probabilities
        assert reply.probabilities[verdict] > 0
        seen.add(verdict)
    assert len(seen) > 3


def test_choosing_does_not_disturb_the_next_call() -> None:
    """Walking below shared beginnings leaves memory as it would be without."""
    one = session(among(*FIVE), labels=FIVE)
    fresh = numbers(answer(session(among(*FIVE), labels=FIVE), call("table")))
    answer(one, call("cat"))
    reply = answer(one, call("table"))
    assert reply.n_reused > 0
    assert numbers(reply) == fresh


def test_free_decoding_is_the_plain_softmax() -> None:
    """Without truncation at temperature 1, a root's shares are the softmax of its logits."""
    reply = answer(session(among("YES", "NO"), decoding=FREE, labels=("YES", "NO")), call(TEXT))
    (node,) = reply.nodes
    weights = np.exp(np.array(node.logits) - max(node.logits))
    yes = sum(w for w, lead in zip(weights, node.leads, strict=True) if lead == "YES")
    assert reply.probabilities
    assert reply.probabilities["YES"] == pytest.approx(yes / weights.sum())
