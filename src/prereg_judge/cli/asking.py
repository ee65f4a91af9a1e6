"""What a new registration needs: what is missing is asked for, what does not fit is named by flag.

Knows neither how a registration is written nor what is valid; both are `registration`.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from typing import Any

import typer

from prereg_judge.cli.common import say
from prereg_judge.cli.new_values import CALLING, VALUES
from prereg_judge.errors import Problem, UsageError
from prereg_judge.registration.draft import DraftValues, refusals
from prereg_judge.registration.draft_claims import as_expression
from prereg_judge.registration.draft_tables import needed
from prereg_judge.study.kinds import STUDIES

# Not needed: of a file where a model is served, and the other way round.
_OF_A_FILE: tuple[str, ...] = ("gguf", "n_ctx", "n_gpu_layers")
_OF_SERVERS: tuple[str, ...] = ("served_model", "api_key_env")
_OF_A_CALL = (
    "title", "judge", *_OF_A_FILE, "served_model", "passes", "prefix", "decoding", "max_tokens",
    "hang", "missing", "seen",
)  # fmt: skip
_OF_VERDICTS = ("verdict_columns", "says", "words")


def refuse_unfit(values: DraftValues, *, given: Collection[str]) -> None:
    """Refuse flags that would have no effect: who gives one expects something of it.

    Parameters
    ----------
    values
        What is known.
    given
        Names of values that were given although they are what would be written anyway.

    Raises
    ------
    UsageError
        With each such flag, and what would do.
    """
    problems = list(_unfit(values, given))
    if problems:
        raise UsageError(*problems)


def _unfit(values: DraftValues, given: Collection[str]) -> Iterator[Problem]:
    nothing = DraftValues()
    stated = [n for n in VALUES if n in given or getattr(values, n) != getattr(nothing, n)]
    for name in stated if values.study in STUDIES else ():
        flag, studies = VALUES[name].flag, VALUES[name].studies
        if studies is not None and values.study not in studies:
            others = "a study that calls a judge" if studies is CALLING else ", ".join(studies)
            remedy = f"leave it out, or give another --study than {values.study}"
            yield Problem(f"is for {others}", where=flag, remedy=remedy)
        elif studies is CALLING and not values.calls:
            remedy = "leave one of the two out"
            yield Problem("is for calls, and --verdicts is given", where=flag, remedy=remedy)
    if values.study == "pairwise" and values.verdicts and values.voted:
        remedy = "give --study judge-pools"
        what = "votes and a file of verdicts are another study"
        yield Problem(what, where="--verdicts", remedy=remedy)
    if values.study == "annotators" and values.labelled and values.voted:
        remedy = "give one of the two: a table of votes, or files of labellings"
        yield Problem("labellings are given, and votes too", where="--labellings", remedy=remedy)
    if values.verdicts is None:
        what, remedy = "is about a file of verdicts", "give --verdicts NAME=FILE with it"
        for name in stated:
            if name in _OF_VERDICTS:
                yield Problem(what, where=VALUES[name].flag, remedy=remedy)
    if not values.calls:
        return
    unused, what, remedy = _OF_SERVERS, "is for a served model", "give --base-url with it"
    if values.base_urls:
        unused, what = _OF_A_FILE, "is for a file, and --base-url is given"
        remedy = "leave one of the two out"
    for name in stated:
        if name in unused:
            yield Problem(what, where=VALUES[name].flag, remedy=remedy)


def completed(values: DraftValues, *, ident: str) -> DraftValues:
    """The values with what is missing, as a person answers at the terminal.

    Raises
    ------
    UsageError
        Where nobody can be asked, with every flag that is missing; or where what was given would
        be refused.
    """
    if values.study not in STUDIES:  # what is missing depends on it
        refuse(p for p in refusals(values) if p.where == "study")
    _refuse_missing_arms(values)
    lacking, no_claim = _lacking(values), not values.expected
    if not (lacking or no_claim):
        return values
    if sys.stdin.isatty():
        # What was given comes first: after a dozen answers is no time to hear of it.
        asked = {place for name in lacking for place in _places(name, values)}
        asked |= {"bands"} if no_claim else set()
        refuse(p for p in refusals(values) if p.where not in asked)
        return _ask(values)
    told = [f"missing: {_flag(name, values)}" for name in lacking]
    if no_claim:
        told.append(f'missing: --band "{_example_band(values)}"  # Or --predict')
    say(f"Give these flags, or write a file to fill in: prereg new {ident} --draft")
    raise UsageError(*told)


def refuse(problems: Iterable[Problem]) -> None:
    """Raise `UsageError` where there are problems, each by its flag where it has one."""
    told = [_by_flag(problem) for problem in problems]
    if told:
        say("Nothing was written; with --draft it is, to be mended by hand:")
        raise UsageError(*told)


def _lacking(values: DraftValues) -> list[str]:
    """What is needed and not known, in the order of asking."""
    wanted = {*needed(values, values.study), "title", "seen"}
    if values.calls:
        wanted |= set(_OF_A_CALL)
        wanted -= set(_OF_A_FILE if values.base_urls else _OF_SERVERS)
    unknown: tuple[Any, ...] = (None, ())  # 0 layers are known, and a blank text is refused
    lacking = [n for n in VALUES if n in wanted and getattr(values, n) in unknown]
    if values.calls and values.sentinel is None and values.real is None:
        lacking.insert(0, "sentinel")
    if values.primary is None and len(values.expected) > 1:
        lacking.append("primary")
    return lacking


def _refuse_missing_arms(values: DraftValues) -> None:
    if values.study == "path-fidelity" and len(values.arms) != 2:
        what = "path-fidelity compares two settings"
        remedy = "give --arm twice, for example --arm path=generate --arm path=choice"
        raise UsageError(Problem(what, where="--arm", found=str(len(values.arms)), remedy=remedy))


def _flag(name: str, values: DraftValues) -> str:
    """A flag that is lacking: with an example and what it is, or with what there is to choose."""
    if name == "sentinel":
        return "--sentinel sentinels/items.jsonl  # Item file; or --real"
    if name == "primary":
        return f"--primary (one of {_ids(values)})"
    if name == "judge_runs":
        return "--judge-run qwen=my-pairs/1:1  # NAME=ID/N:PASS; or --verdicts NAME=FILE"
    if name == "votes" and _undecided(values):
        return "--votes data/votes.csv  # File of votes; or --labellings, --form and --pool"
    value = VALUES[name]
    assert value.question is not None  # what can lack can be asked for
    meaning = re.sub(r" \(e\.g\..*", "", value.question)
    return f"{value.flag} {value.example}  # {meaning}"


def _undecided(values: DraftValues) -> bool:
    """Whether annotators may have voted, or may have labelled: neither is known."""
    return values.study == "annotators" and not (values.votes or values.labelled)


def _ids(values: DraftValues) -> str:
    """Ids of the bands and predictions, in the order of the file."""
    return ", ".join(str(claim["id"]) for claim in values.expected)


def _example_band(values: DraftValues) -> str:
    return as_expression(values.examples["bands"])


# Flags that give a part of what stands in one place: that is named too.
_OF_PARTS = (
    "--base-url", "--api-key-env", "--arm", "--band", "--predict", "--refute", "--stop", "--decide",
    "--column", "--label", "--pool", "--judge-run", "--labellings", "--merge", "--family",
    "--value",
)  # fmt: skip
_OF_A_JUDGE = re.compile(r"judges\[\d+\](?:\.(\w+))?")


def _by_flag(problem: Problem) -> Problem:
    """A problem named by the flag that gave what it is about."""
    where = problem.where or ""
    judge = _OF_A_JUDGE.match(where)
    if judge is not None:
        own, flag = f"judges[#].{judge.group(1)}", "--judge-run or --verdicts"
        if judge.group(1) in ("run", "pass"):
            flag = VALUES["judge_runs"].flag
        flag = next((v.flag for v in VALUES.values() if own in v.places), flag)
        return replace(problem, where=f"{flag} ({where})")
    within = [(p, v.flag) for v in VALUES.values() for p in v.places if _is_in(where, p)]
    if not within:
        return problem
    place, flag = max(within, key=lambda found: len(found[0]))
    alone = place == where and flag not in _OF_PARTS
    return replace(problem, where=flag if alone else f"{flag} ({where})")


def _ask(values: DraftValues) -> DraftValues:
    """Ask for one thing after another: what is needed can depend on an answer."""
    while lacking := _lacking(values):
        name = lacking[0]
        if name == "sentinel":
            values = _ask_one(values, name, default="")
            if not values.sentinel:
                values = _ask_one(values, "real")
        elif name == "votes" and _undecided(values):
            values = _ask_one(values, name, default="")
            if values.votes is None:
                values = _ask_one(values, "labellings")
        elif name == "judge_runs":
            values = _ask_one(values, name, default="")
            if not values.judge_runs:
                values = _ask_one(replace(values, judge_runs=()), "verdicts")
        else:
            values = _ask_one(values, name)
    return values if values.expected else _ask_one(values, "bands")


def _question(name: str, values: DraftValues) -> str:
    question = VALUES[name].question or name
    if name == "primary":
        return f"{question} ({_ids(values)})"
    if name == "votes" and _undecided(values):
        return f"{question} (empty for files of labellings)"
    return question.format(_example_band(values)) if name == "bands" else question


def _ask_one(values: DraftValues, name: str, *, default: str | None = None) -> DraftValues:
    """Ask until the answer is one that the loader takes; a typo costs no other answer."""
    value, question = VALUES[name], _question(name, values)
    while True:
        kind = int if value.parse is int else str
        answer = typer.prompt(question, type=kind, default=default, show_default=False, err=True)
        if answer == default:
            nothing: dict[str, Any] = {name: None}
            return replace(values, **nothing)
        problems: Iterable[Problem]
        try:
            answered = replace(values, **{name: value.parse(answer)})
        except UsageError as exc:
            problems = exc.problems
        else:
            places = _places(name, answered)
            found = refusals(answered)
            problems = [p for p in found if any(_is_in(p.where, place) for place in places)]
            if not problems:
                return answered
        for problem in problems:
            say(f"  {_by_flag(problem)}")


# What several values give a part of.
_WHOLE = ("annotations", "labellings", "scale")


def _places(name: str, values: DraftValues) -> tuple[str, ...]:
    """Where a value stands in the file, and nothing that other values give."""
    places = tuple(place for place in VALUES[name].places if place not in _WHOLE)
    return tuple(place.replace("#", str(len(values.judge_runs))) for place in places)


def _is_in(where: str | None, place: str) -> bool:
    """Whether a place in the file is this one or inside it."""
    return where is not None and (where == place or where.startswith((f"{place}.", f"{place}[")))
