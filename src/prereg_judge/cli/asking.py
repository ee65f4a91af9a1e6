"""What a new registration needs: its flags, what they are called in the file, how they are asked.

Knows neither how a registration is written nor what is valid; both are `registration`.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import typer

from prereg_judge.cli.common import say
from prereg_judge.errors import Problem, UsageError
from prereg_judge.registration import expressions
from prereg_judge.registration import settings_text as short
from prereg_judge.registration.draft import DraftValues, refusals
from prereg_judge.registration.draft_claims import as_expression
from prereg_judge.registration.draft_tables import needed
from prereg_judge.registration.schema import STUDIES_OF_PAIRS
from prereg_judge.study.kinds import STUDIES

SAMPLED = "sampled,temperature=0.8,top_k=40,top_p=0.95,min_p=0.05"


@dataclass(frozen=True)
class Value:
    """One value of `DraftValues`.

    Attributes
    ----------
    flag
        The option that gives it.
    places
        Where it stands in the file, by which the loader names it; `#` = the judge whose verdicts
        are a file.
    question
        How a person is asked for it; None = it is never asked for.
    example
        What may be written after the flag, as a shell takes it.
    parse
        How an answer is read, where it is no plain text.
    studies
        The studies that take it, where not all do.
    """

    flag: str
    places: tuple[str, ...]
    question: str | None = None
    example: str = ""
    parse: Callable[[str], Any] = str
    studies: Collection[str] | None = None


_CALLING = ("self-agreement", "path-fidelity", "pairwise")
_ENGINE: dict[str, Any] = {"studies": _CALLING}
_OF_VOTES: dict[str, Any] = {"studies": STUDIES_OF_PAIRS}
_VERDICT_PLACES = tuple(f"judges[#].{key}" for key in ("item", "models", "ab", "ba", "stratum"))
# In the order of asking.
VALUES: dict[str, Value] = {
    "sentinel": Value("--sentinel", ("items.sentinel",), "Sentinel item file (empty for none)",
                      **_ENGINE),
    "real": Value("--real", ("items.real",), "Real item file", **_ENGINE),
    "title": Value("--title", ("title",), "The question, in a sentence",
                   '"Does the judge answer twice alike?"'),
    "judge": Value("--judge", ("judge",), "Judge file", "judge/keep-drop.yaml", **_ENGINE),
    "gguf": Value("--gguf", ("model.gguf",), "GGUF model file", "models/judge.gguf", **_ENGINE),
    "n_ctx": Value("--n-ctx", ("model.n_ctx",), "Context length in tokens (prompt and reply)",
                   "4096", int, **_ENGINE),
    "n_gpu_layers": Value("--gpu-layers", ("model.n_gpu_layers",),
                          "Layers on the GPU (-1 all, 0 none)", "-1", int, **_ENGINE),
    "served_model": Value("--served-model", ("model.model",), "The model's name at the servers",
                          "qwen3-8b", **_ENGINE),
    "base_urls": Value("--base-url", ("model.base_urls",), **_ENGINE),
    "api_key_env": Value("--api-key-env", ("model.api_key_env",), **_ENGINE),
    "passes": Value("--passes", ("protocol.passes",), "Passes", "2", int, **_ENGINE),
    "orders": Value("--orders", ("protocol.orders",), **_ENGINE),
    "path": Value("--path", ("protocol.path",), **_ENGINE),
    "prefix": Value("--prefix", ("protocol.prefix",), "Prefix: shared (read once) or whole",
                    "shared", **_ENGINE),
    "decoding": Value("--decoding", ("protocol.decoding",),
                      f"Decoding (e.g. {SAMPLED}; off: top_k=0, top_p=1, min_p=0)", SAMPLED,
                      short.parse_decoding, **_ENGINE),
    "max_tokens": Value("--max-tokens", ("protocol.max_tokens",), "Longest reply in tokens", "64",
                        int, **_ENGINE),
    "parallel": Value("--parallel", ("protocol.parallel",), **_ENGINE),
    "hang": Value("--hang", ("protocol.hang",),
                  "Time-out of a call and retries (e.g. 120s,retries=1)", "120s,retries=1",
                  short.parse_hang, **_ENGINE),
    "arms": Value("--arm", ("protocol.arms",), **_ENGINE),
    "missing": Value("--missing", ("missing",),
                     "How a trial without a verdict counts (disagree, exclude, undefined)",
                     "disagree", **_ENGINE),
    "votes": Value("--votes", ("annotations.file", "annotations"), "File of annotators' votes",
                   "data/votes.csv", **_OF_VOTES),
    "layout": Value("--layout", ("annotations.layout",),
                    "Layout of the votes (long, mt-bench, multipref)", "mt-bench", **_OF_VOTES),
    "columns": Value("--column", ("annotations.columns",),
                     "Their columns (e.g. item=item,annotator=who,pool=pool,label=vote)",
                     "item=item,annotator=who,pool=pool,label=vote",
                     lambda text: short.parse_columns([text]), **_OF_VOTES),
    "labels": Value("--label", ("annotations.labels",), **_OF_VOTES),
    "preference": Value("--preference", ("annotations.preference",),
                        "Which preference is read (overall_pref, helpful_pref, ...)",
                        "overall_pref", **_OF_VOTES),
    "pools": Value("--pool", ("annotations.pools",),
                   "The two pools, pool 1 first (e.g. expert=expert_*,crowd=author_*)",
                   '"expert=expert_*" --pool "crowd=author_*"',
                   lambda text: short.parse_pools([text]), **_OF_VOTES),
    "key": Value("--key", ("annotations.key",), "Which votes are on one pair (stored, unordered)",
                 "unordered", **_OF_VOTES),
    "split": Value("--split", ("annotations.split",), "A pool that is split evenly (tie, exclude)",
                   "tie", **_OF_VOTES),
    "gap": Value("--gap", ("annotations.gap",), **_OF_VOTES),
    "sample": Value("--sample", ("annotations.sample",), **_OF_VOTES),
    "judge_runs": Value("--judge-run", ("judges",),
                        "A run of the judge (e.g. qwen=my-pairs/1:1; empty for a file of verdicts)",
                        "qwen=my-pairs/1:1", lambda text: (short.parse_judge_run(text),),
                        studies=("judge-pools",)),
    "verdicts": Value("--verdicts", ("judges[#].file", "judges[#].name"),
                      "The judge's name and file of verdicts (e.g. qwen=data/verdicts.jsonl)", "",
                      short.parse_verdicts, studies=("pairwise", "judge-pools")),
    "verdict_columns": Value("--verdict-columns", _VERDICT_PLACES,
                             "Columns of the verdicts (e.g. item=id,ab=slot_ab,ba=slot_ba)",
                             "item=id,ab=slot_ab,ba=slot_ba", short.parse_verdict_columns),
    "says": Value("--says", ("judges[#].says",),
                  "What a verdict is said of (slots = the answers as shown, answers = a and b)",
                  "slots"),
    "words": Value("--word", ("judges[#].words",), "What its words mean (e.g. A=a,B=b,tie=tie)",
                   "A=a,B=b,tie=tie", lambda text: short.parse_words([text], option="--word")),
    "resolve": Value("--resolve", ("resolve",),
                     "How two orders become one verdict (agree_or_tie, average, first)",
                     "agree_or_tie", studies=("pairwise", "judge-pools")),
    "resampling": Value("--resampling", ("resampling",),
                        "Resampling behind the intervals (e.g. 2000,seed=20261130[,by_stratum])",
                        "2000,seed=20261130", short.parse_resampling, studies=STUDIES_OF_PAIRS),
    "assumed": Value("--assume", ("assumed",), studies=("leaderboard",)),
    "seen": Value("--seen", ("exposure.seen",),
                  "What had already been run or seen of these inputs",
                  '"one run of the same rows, last week"'),
    "primary": Value("--primary", ("primary",),
                     "Id of the band or prediction that the question is about"),
    "study": Value("--study", ("study",)),
    "due": Value("--due", ("due",)),
    "notes": Value("--notes", ("notes",)),
    "bands": Value("--band", ("bands",), "A band (e.g. {})", "",
                   lambda text: (expressions.parse_band(text),)),
    "predictions": Value("--predict", ("predictions",)),
    "refuters": Value("--refute", ("refuters",)),
    "stop": Value("--stop", ("stop",)),
    "decisions": Value("--decide", ("decisions",)),
}  # fmt: skip
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
            others = "a study that calls a judge" if studies is _CALLING else ", ".join(studies)
            remedy = f"leave it out, or give another --study than {values.study}"
            yield Problem(f"is for {others}", where=flag, remedy=remedy)
        elif studies is _CALLING and not values.calls:
            remedy = "leave one of the two out"
            yield Problem("is for calls, and --verdicts is given", where=flag, remedy=remedy)
    if values.study == "pairwise" and values.verdicts and values.voted:
        remedy = "give --study judge-pools"
        what = "votes and a file of verdicts are another study"
        yield Problem(what, where="--verdicts", remedy=remedy)
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
    value = VALUES[name]
    assert value.question is not None  # what can lack can be asked for
    meaning = re.sub(r" \(e\.g\..*", "", value.question)
    return f"{value.flag} {value.example}  # {meaning}"


def _ids(values: DraftValues) -> str:
    """Ids of the bands and predictions, in the order of the file."""
    return ", ".join(str(claim["id"]) for claim in values.expected)


def _example_band(values: DraftValues) -> str:
    return as_expression(values.examples["bands"])


# Flags that give a part of what stands in one place: that is named too.
_OF_PARTS = (
    "--base-url", "--api-key-env", "--arm", "--band", "--predict", "--refute", "--stop", "--decide",
    "--column", "--label", "--pool", "--judge-run",
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


def _places(name: str, values: DraftValues) -> tuple[str, ...]:
    """Where a value stands in the file, and nothing that other values give."""
    places = tuple(place for place in VALUES[name].places if place != "annotations")
    return tuple(place.replace("#", str(len(values.judge_runs))) for place in places)


def _is_in(where: str | None, place: str) -> bool:
    """Whether a place in the file is this one or inside it."""
    return where is not None and (where == place or where.startswith((f"{place}.", f"{place}[")))
