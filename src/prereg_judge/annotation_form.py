"""What a registration says of a table of annotators' votes: layout, columns, label words, pools.

Knows the columns and words of the public layouts; reads no file.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, get_args

from prereg_judge.canon import nfc
from prereg_judge.errors import Problem
from prereg_judge.votes import SIDES
from prereg_judge.wording import (
    control_character,
    hidden_character,
    listed,
    named_character,
    quoted,
    without_hidden,
)

Layout = Literal["long", "mt-bench", "multipref"]
# The preferences that each annotation of MultiPref has.
Preference = Literal["overall_pref", "helpful_pref", "truthful_pref", "harmless_pref"]

REQUIRED = ("item", "annotator", "label")
OPTIONAL = ("pool", "stratum", "gap", "model_a", "model_b")

MT_BENCH_COLUMNS = ("question_id", "model_a", "model_b", "winner", "judge", "turn")
MT_BENCH_LABELS = {
    "model_a": "a",
    "model_b": "b",
    "tie": "tie",
    "tie (inconsistent)": "tie",
    "tie (bothbad)": "tie",
}
MULTIPREF_LISTS = {"normal": "normal_worker_annotations", "expert": "expert_worker_annotations"}
MULTIPREF_COLUMNS = ("comparison_id", "model_a", "model_b", *MULTIPREF_LISTS.values())
MULTIPREF_LABELS = {
    "A-is-clearly-better": "a",
    "A-is-slightly-better": "a",
    "Tie": "tie",
    "B-is-slightly-better": "b",
    "B-is-clearly-better": "b",
}
FIXED_LABELS: Mapping[str, Mapping[str, str]] = {
    "mt-bench": MT_BENCH_LABELS,
    "multipref": MULTIPREF_LABELS,
}
AGGREGATED = (
    "use a table with a row for each annotator's vote: aggregated ratings, such as HelpSteer2's, "
    "cannot tell pools apart"
)


@dataclass(frozen=True)
class TableForm:
    """What a registration says of a table of votes.

    Attributes
    ----------
    layout
        `long` (a row for each vote, columns as named), or a public layout.
    pools
        Name of each pool -> patterns (`*`, `?`, `[...]`; case counts), one of which the value of
        the pool column matches, or the annotator's name where there is no such column. The order
        of the keys is the order of the pools.
    columns
        For `long`: role (`REQUIRED`, `OPTIONAL`) -> name of the file's column.
    labels
        For `long` with votes on pairs: the file's word -> `a`, `b` or `tie`. None: the labels
        are counted as they stand.
    verdict
        For `multipref`: which of its preferences is the vote.
    """

    layout: Layout
    pools: Mapping[str, Sequence[str]]
    columns: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] | None = None
    verdict: Preference | None = None

    @property
    def paired(self) -> bool:
        """Whether the votes say which of two answers is better."""
        return self.layout != "long" or self.labels is not None or "model_a" in self.columns

    @property
    def words(self) -> Mapping[str, str] | None:
        """What the file's labels mean; None where they are counted as they stand."""
        if self.layout != "long":
            return FIXED_LABELS[self.layout]
        if self.labels is not None:
            return {nfc(word): side for word, side in self.labels.items()}
        return {side: side for side in SIDES} if self.paired else None


def form_problems(form: TableForm, *, compared: bool = True) -> list[Problem]:
    """What is wrong with a form, whatever the file holds; each problem names the form's field.

    `compared`: whether pools are compared with each other, which takes two.
    """
    problems = _long_problems(form) if form.layout == "long" else _public_problems(form)
    least = 2 if compared else 1
    if len(form.pools) < least:
        count = ("one pool", "two pools")[least - 1]
        remedy = f"name at least {count} and what their annotators are called"
        problems.append(Problem(f"needs {count}", where="pools", remedy=remedy))
    for pool, patterns in form.pools.items():
        if not patterns or not all(patterns):
            remedy = "give a pattern, such as `expert_*`"
            problems.append(Problem("has no pattern", where=f"pools.{pool}", remedy=remedy))
    return problems


def _long_problems(form: TableForm) -> list[Problem]:
    roles = (*REQUIRED, *OPTIONAL)
    problems = [
        Problem("no such role of a column", where=f"columns.{role}", remedy=near(role, roles))
        for role in form.columns
        if role not in roles
    ]
    remedies = {"annotator": AGGREGATED}
    for role in REQUIRED:
        if role not in form.columns:
            remedy = remedies.get(role, f"name the column that holds the {role}")
            what = f"no column is named that says the {role} of each vote"
            problems.append(Problem(what, where=f"columns.{role}", remedy=remedy))
    if ("model_a" in form.columns) != ("model_b" in form.columns):
        remedy = "name both columns of models, or neither"
        problems.append(Problem("one model of a pair is named", where="columns", remedy=remedy))
    own = [form.columns[role] for role in (*REQUIRED, "model_a", "model_b") if role in form.columns]
    twice = sorted({name for name in own if own.count(name) > 1})
    if twice:
        what = "one column cannot have two of the roles item, annotator, label and models"
        problems.append(Problem(what, where="columns", found=quoted(twice[0])))
    if form.verdict is not None:
        remedy = "leave it out; `columns.label` names the column of the vote"
        problems.append(Problem("is for the layout multipref", where="verdict", remedy=remedy))
    return problems + _label_problems(form.labels)


def _label_problems(labels: Mapping[str, str] | None) -> list[Problem]:
    if labels is None:
        return []
    remedy = "write what each word of the file means: a, b or tie"
    problems = [
        Problem("is no side of a pair", where=f"labels.{word}", found=quoted(side), remedy=remedy)
        for word, side in labels.items()
        if side not in SIDES
    ]
    if not {"a", "b"} <= set(labels.values()):
        problems.append(Problem("no word means a, or none means b", where="labels", remedy=remedy))
    return problems


def _public_problems(form: TableForm) -> list[Problem]:
    problems = []
    given = {"columns": bool(form.columns), "labels": form.labels is not None}
    given["verdict"] = form.verdict is not None and form.layout != "multipref"
    for name, stated in given.items():
        if stated:
            what = f"the layout {form.layout} says itself what stands where"
            problems.append(Problem(what, where=name, remedy="leave it out, or use layout long"))
    preferences = get_args(Preference)
    if form.layout == "multipref" and form.verdict not in preferences:
        remedy = f"use {', '.join(preferences[:-1])} or {preferences[-1]}"
        what = "say which preference is the vote"
        problems.append(Problem(what, where="verdict", found=quoted(form.verdict), remedy=remedy))
    return problems


def near(name: str, known: Iterable[str]) -> str:
    """A remedy for a name that is none of those known: the nearest of them, or all."""
    names = list(known)
    found = difflib.get_close_matches(name, names, n=2, cutoff=0.6)
    return f"did you mean {' or '.join(found)}?" if found else f"use one of: {listed(names)}"


def name_fault(name: str) -> tuple[str, str] | None:
    """What is wrong with a name in a table, and what would do; None where nothing is.

    Two names that look alike would be counted as two items, annotators or models.
    """
    control = control_character(name)
    if control is not None:
        remedy = "write names and labels in visible characters: messages and results show them"
        return f"holds the control character {control}", remedy
    hidden = hidden_character(name) or _joining(name)
    if hidden is not None:
        remedy = "take it away: nobody can see that the name is not the one without it"
        return f"holds the invisible character {hidden}", remedy
    if name != name.strip():
        remedy = "take it away: with it the name is not the one without it"
        return "has white space around it", remedy
    return None


def _joining(name: str) -> str | None:
    """A character that only other scripts need, in a name that is otherwise ASCII."""
    seen = without_hidden(name)
    if not seen.isascii():
        return None
    return next((named_character(c) for c in name if not without_hidden(c)), None)
