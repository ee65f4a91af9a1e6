"""What is refused although each file by itself is in order: texts that the model would misread,
plans too long to be meant, one file in two parts.

Pure functions; `prepare` calls them with what it has read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from prereg_judge.canon import nfc
from prereg_judge.errors import Problem
from prereg_judge.items import Item, ItemSet
from prereg_judge.judge import Judge, Message
from prereg_judge.registration.load import Loaded
from prereg_judge.wording import capped
from prereg_judge.words import Order, SetRole

MOST_TRIALS = 10_000_000

Messages = Mapping[tuple[SetRole, str], Sequence[Message]]  # by set and item id
Rendered = Mapping[tuple[SetRole, str, Order], Sequence[Message]]  # by set, item id and order
_REMEDY = "write it differently: the model would take it for the chat template's own"


def plan_problems(loaded: Loaded, sets: Sequence[ItemSet]) -> list[Problem]:
    """A plan too long to be meant, one file as both sets."""
    problems = []

    model = loaded.model
    rows = sum(len(s.items) for s in sets)
    orders, passes = len(model.protocol.orders), model.protocol.passes
    trials = rows * orders * passes
    if trials > MOST_TRIALS:
        what = f"{rows} rows x {orders} order x {passes} passes are {trials} trials, "
        what += f"and {MOST_TRIALS} is the most"
        at, remedy = ("protocol", "passes"), "register fewer passes or rows"
        problems.append(loaded.problem(what, at, found=str(passes), remedy=remedy))
    if len({s.sha256 for s in sets}) < len(sets):
        what = "the sentinel and the real items are the same file, byte by byte"
        remedy = "name different rows, or leave one of the two out"
        found = ", ".join(s.file for s in sets)
        problems.append(loaded.problem(what, ("items", "real"), found=found, remedy=remedy))
    return problems


def judge_problems(loaded: Loaded, judge: Judge) -> list[Problem]:
    """A judge of pairs in a study of single items, or the other way round."""
    model, pair = loaded.model, judge.spec.pair
    if not model.calls:
        return []
    at: tuple[str, ...]
    if pair is None and model.study == "pairwise":
        what, at, found = "the judge does not compare two answers", ("judge",), model.judge
        remedy = "give its file a `pair` section"
    elif pair is None and "ba" in model.protocol.orders:
        what, at, found = "the order `ba` needs a judge of pairs", ("protocol", "orders"), "ba"
        remedy = "write `orders: [ab]`"
    elif pair is not None and model.study == "self-agreement":
        what, at, found = "a judge of pairs has a study of its own", ("study",), model.study
        remedy = "write `study: pairwise`"
    else:
        return []
    return [loaded.problem(what, at, found=found, remedy=remedy)]


def answers_unseen(judge: Judge, sets: Sequence[ItemSet], messages: Rendered) -> list[Problem]:
    """A template of pairs that does not show both answers whole, the first of them first.

    A judge that sees one answer, or the same whichever stands first, would agree with itself for
    nothing. White space does not count. Found at the first row that shows it.
    """
    pair = judge.spec.pair
    if pair is None:
        return []
    items = {(s.role, i.id): i for s in sets for i in s.items}
    for (role, item_id, order), said in messages.items():
        shown = judge.shown(items[role, item_id], order)
        first, second = (" ".join(str(shown[name]).split()) for name in pair.answers)
        text = " ".join(said[-1]["content"].split())
        what = None
        for name, answer in zip(pair.answers, (first, second), strict=True):
            if answer not in text:
                what = f"does not show the whole of `{name}` of row {item_id!r}"
        if what is None and text.find(first) >= text.rfind(second) and first != second:
            what = f"shows `{pair.answers[1]}` of row {item_id!r} before `{pair.answers[0]}`"
        if what is not None:
            remedy = "show each answer once, as it stands, the first of `pair.answers` first"
            return [judge.placed(Problem(what, where="prompt", remedy=remedy))]
    return []


def control_tokens(
    judge: Judge, sets: Sequence[ItemSet], messages: Messages, tokens: Sequence[str]
) -> list[Problem]:
    """Rows, or a judge's own texts, that would be read as the chat template's own markup.

    Looked for in each field and in each whole message: two fields side by side can make up a
    token that neither holds.
    """
    if not tokens:
        return []
    longest_first = sorted(tokens, key=len, reverse=True)
    pattern = re.compile("|".join(re.escape(text) for text in longest_first))

    def first(text: str) -> str | None:
        match = pattern.search(text)
        return None if match is None else match.group()

    own = {
        where: token
        for where, text in _own_texts(judge, messages)
        if (token := first(text)) is not None
    }
    what = "holds a control token of this model"
    problems = [
        judge.placed(Problem(what, where=where, found=repr(token), remedy=_REMEDY))
        for where, token in own.items()
    ]
    if problems:  # every row would show them again
        return problems
    for item_set in sets:
        for item in item_set.items:
            where, token = _in_row(judge, item, messages[item_set.role, item.id], first)
            if token is not None:
                held = "holds" if where else "makes up, with the texts that stand side by side,"
                what = f"row {item.id!r} {held} a control token of this model"
                found = repr(token)
                problems.append(Problem(what, item_set.file, item.line, where, found, _REMEDY))
    return capped(problems)


def _own_texts(judge: Judge, messages: Messages) -> list[tuple[str, str]]:
    """What the judge says itself, whatever the row: (top-level key, text)."""
    system = next((m[0]["content"] for m in messages.values()), "")
    texts = [("system", system), ("prompt", judge.spec.prompt)]
    texts += [("verdicts", verdict) for verdict in judge.spec.verdicts]
    for rule in judge.spec.rules:
        texts += [("rules", text) for text in (rule.id, rule.text)]
        texts += [("rules", t) for e in rule.examples for t in (e.text, e.verdict, e.why)]
    return texts


def _in_row(
    judge: Judge, item: Item, messages: Sequence[Message], first: Callable[[str], str | None]
) -> tuple[str | None, str | None]:
    """The field and the token that it holds; no field where only the message holds one."""
    for name in judge.spec.fields:
        token = first(str(item.fields[name]))
        if token is not None:
            return name, token
    whole = "\n\n".join(m["content"] for m in messages)  # as `system_role: fold` joins them
    return None, first(whole)


def lost_characters(
    judge: Judge, sets: Sequence[ItemSet], respell: Callable[[Sequence[str]], list[str]]
) -> list[Problem]:
    """Rows with characters that this model's vocabulary cannot write, and so would not see.

    `respell` gives texts back as the model can tell them apart.
    """
    names = judge.spec.fields
    used = {c for s in sets for i in s.items for n in names for c in str(i.fields[n])}
    rare = sorted(c for c in used if not c.isascii() or not c.isprintable())
    lost = {c for c, back in zip(rare, respell(rare), strict=True) if c not in nfc(back)}
    problems = [
        Problem(
            f"row {item.id!r} holds a character that this model cannot read",
            file=item_set.file,
            line=item.line,
            where=name,
            found=", ".join(f"U+{ord(c):04X}" for c in sorted(lost.intersection(text))),
            remedy="write it differently: the model would be shown the text without it",
        )
        for item_set in sets
        for item in item_set.items
        for name in names
        if lost.intersection(text := str(item.fields[name]))
    ]
    return capped(problems)
