"""The part of a draft that is about pairs and tables: votes, judges, resolving, resampling."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from prereg_judge.errors import Problem
from prereg_judge.registration.draft_labellings import (
    LabellingValues,
    labelling_keys,
    needed_of_labellings,
    pool_lines,
)
from prereg_judge.registration.draft_yaml import entry, flow, option, scalar
from prereg_judge.registration.schema import (
    STUDIES_OF_LABELLINGS,
    STUDIES_OF_PAIRS,
    STUDIES_OF_TABLES,
)

_LONG_COLUMNS = "{item: item, annotator: annotator, pool: pool, label: label}"
_LABELS = "{a: a, b: b, tie: tie}"
_SAMPLE = "{items: 200, seed: 7}"
_RESAMPLING = "{resamples: 2000, seed: 20261130, by_stratum: false}"
_ASSUMED = "{span: 0.201, shift_sd: 0.0187}"
_VOTES = (
    f"{{file: data/votes.csv, layout: long, columns: {_LONG_COLUMNS}, labels: {_LABELS}, "
    "pools: [{name: expert, match: expert}, {name: crowd, match: crowd}], key: unordered, "
    "split: exclude}"
)
_RESAMPLED = (*STUDIES_OF_PAIRS, *STUDIES_OF_LABELLINGS)
_VERDICT_GAPS = {
    "item": "TODO: write the columns that together name the item, as [question_id, turn]",
    "ab": "TODO: write the column of the verdict in the order ab",
    "says": "TODO: write slots (the first or second answer shown) or answers (a or b)",
    "words": "TODO: write which word means the first, the second, a tie, as {A: a, B: b, T: tie}",
}


@dataclass(frozen=True)
class TableValues(LabellingValues):
    """What is known of votes, verdicts and labellings that are there; None or empty = not known.

    Attributes
    ----------
    orders
        Orders of presentation; None = both for pairs that are judged, else `ab` alone.
    resolve, resampling
        As the keys of the file; `resampling` is a mapping, as `parse_resampling` gives it.
    votes, layout, columns, labels, preference, pools, key, split, gap, sample
        The keys under `annotations`, `votes` for its `file`; as the functions of `settings_text`
        give them. With files of labellings, `pools` stands under `labellings`.
    judge_runs
        Entries of `judges` that are earlier runs, as `parse_judge_run` gives them.
    verdicts, verdict_columns, says, words
        One more entry of `judges`, which is a file of verdicts: its name and file, its columns,
        what a verdict is said of, and what its words mean.
    assumed
        Registered values for evenly spread boards; optional.
    """

    orders: Sequence[str] | None = None
    resolve: str | None = None
    resampling: Mapping[str, Any] | None = None
    votes: str | None = None
    layout: str | None = None
    columns: Mapping[str, str] | None = None
    labels: Mapping[str, str] | None = None
    preference: str | None = None
    pools: Sequence[Mapping[str, Any]] | None = None
    key: str | None = None
    split: str | None = None
    gap: str | None = None
    sample: Mapping[str, Any] | None = None
    judge_runs: Sequence[Mapping[str, Any]] = ()
    verdicts: Mapping[str, str] | None = None
    verdict_columns: Mapping[str, Any] | None = None
    says: str | None = None
    words: Mapping[str, str] | None = None
    assumed: Mapping[str, Any] | None = None

    @property
    def voted(self) -> bool:
        """Whether anything is known of a table of votes."""
        told = (self.votes, self.layout, self.columns, self.labels, self.preference)
        more = (self.key, self.split, self.gap, self.sample)
        pools = None if self.labelled else self.pools
        return any(value is not None for value in (*told, *more, pools))

    @property
    def judged(self) -> bool:
        """Whether a judge is named whose verdicts are there already."""
        return bool(self.judge_runs) or self.verdicts is not None

    @property
    def judge_name(self) -> str:
        """Name of the first judge, or one that stands for it."""
        first = self.judge_runs[0] if self.judge_runs else self.verdicts
        return str(first["name"]) if first else "my-judge"


def calls(values: TableValues, study: str) -> bool:
    """Whether the draft is one of calls; otherwise everything is read from tables."""
    if study in (*STUDIES_OF_TABLES, *STUDIES_OF_LABELLINGS):
        return False
    return study != "pairwise" or not values.judged


def unpaired(values: TableValues, study: str) -> Iterator[Problem]:
    """Pools that are not two, where one is compared with the other.

    The loader says so once everything else is there, which is late for who is asked.
    """
    if study in STUDIES_OF_PAIRS and values.pools and len(values.pools) != 2:
        what = f"compares two pools, and names {len(values.pools)}"
        yield Problem(what, where="annotations.pools", remedy="name two: pool 1 first")


def needed(values: TableValues, study: str) -> list[str]:
    """Names of what is needed of these values in such a study, in the order of asking."""
    names: list[str] = []
    voting = study in STUDIES_OF_TABLES or (study == "pairwise" and values.voted)
    if study == "reference-swap" or (study == "annotators" and values.labelled):
        names += needed_of_labellings(values, study)
    elif voting or study == "annotators":
        names += ["votes", "layout"]
        names += {"long": ["columns"], "multipref": ["preference"]}.get(values.layout or "", [])
        names += ["pools", "key", "split"]
    if study == "judge-pools" and not values.judged:
        names.append("judge_runs")
    if values.verdicts is not None:
        names += ["verdict_columns", "says", "words"]
    if study == "judge-pools":
        names.append("resolve")
    if study in _RESAMPLED:
        names.append("resampling")
    return names


def orders_of(values: TableValues, study: str) -> list[str]:
    """The orders that are registered: those given, else both for pairs and `ab` for others."""
    if values.orders is not None:
        return list(values.orders)
    return ["ab", "ba"] if study == "pairwise" else ["ab"]


def tables(values: TableValues, study: str) -> str:
    """The keys of a registration that are about tables, for a study that has any or is told of any.

    What a study does not take is written where it is given, so that the loader says so.
    """
    parts = [_annotations(values, study), labelling_keys(values, study, pools=values.pools)]
    parts += [_judges(values, study), _resolve(values, study)]
    if study in _RESAMPLED or values.resampling is not None:
        note = "Intervals: items are drawn anew so often, from this seed; by_stratum keeps sizes."
        hint = f"write a mapping, as {_RESAMPLING}"
        parts.append(entry("resampling", values.resampling, note, hint=hint))
    if study == "leaderboard" or values.assumed is not None:
        note = "For evenly spread boards: span and shift SD, as shares; left out = measured."
        parts.append(option("assumed", values.assumed, note, example=_ASSUMED))
    return "\n".join(filter(None, parts))


def _resolve(values: TableValues, study: str) -> str:
    note = "How two orders become one verdict: agree_or_tie, average or first."
    if study == "judge-pools":
        return entry("resolve", values.resolve, note)
    if study == "pairwise" or values.resolve is not None:
        return option("resolve", values.resolve, note, example="agree_or_tie")
    return ""


def _annotations(values: TableValues, study: str) -> str:
    about = "Votes of annotators on the same items, in two pools."
    agreeing = study == "annotators"
    if agreeing:
        about = "Votes of annotators on the same items, in one pool or more."
    if study not in STUDIES_OF_TABLES and not values.voted and (not agreeing or values.labelled):
        if study != "pairwise" or not calls(values, study):
            return ""
        return option("annotations", None, f"{about} They add the judge's lean.", example=_VOTES)
    layout = values.layout

    def one(key: str, note: str, hint: str | None = None) -> str:
        return entry(key, getattr(values, key), note, indent=2, hint=hint)

    def may(key: str, note: str, example: str) -> str:
        if agreeing and key in ("gap", "sample") and getattr(values, key) is None:
            return ""
        return option(key, getattr(values, key), note, indent=2, example=example)

    text = f"# {about}\nannotations:\n"
    text += entry("file", values.votes, "The file of votes: .csv, .jsonl or .parquet.", indent=2)
    text += one("layout", "long = a row a vote, by `columns`; mt-bench, multipref = as published.")
    if layout == "long":
        text += one("columns", "Its columns; also stratum, gap, model_a and model_b.",
                    f"write a mapping, as {_LONG_COLUMNS}")  # fmt: skip
        note = "Pairs: which word means a, b, tie; left out = labels as they stand."
        if not agreeing or values.labels is not None:
            text += may("labels", note, _LABELS)
    elif layout is None or values.columns is not None or values.labels is not None:
        text += may("columns", "For the layout long: its columns.", _LONG_COLUMNS)
        text += may("labels", "For the layout long: which word means a, b, tie.", _LABELS)
    if layout == "multipref":
        text += one("preference", "Which is read: overall_pref, helpful_pref, truthful_pref, ...")
    elif layout is None or values.preference is not None:
        text += may("preference", "For the layout multipref: which is read.", "overall_pref")
    text += _pools(values, study)
    text += one("key", "Same pair: stored = the same answers a and b; unordered = either way.")
    text += one("split", "A pool that is split evenly: tie = it calls a tie; exclude = left out.")
    gap = "Quality gap: column = the table's own; credit = distance of the models' mean credits."
    text += may("gap", gap, "credit")
    return text + may("sample", "A part of the doubly rated items; left out = all.", _SAMPLE)


def _pools(values: TableValues, study: str) -> str:
    which = "The pools" if study == "annotators" else "The two pools, pool 1 first"
    note = f"{which}; patterns of the pool's column, else of annotators."
    return pool_lines(values.pools, note)


def _judges(values: TableValues, study: str) -> str:
    note = "Judges whose verdicts are there already: earlier runs, or files of verdicts."
    if not values.judged:
        if study != "judge-pools":
            return ""
        return entry("judges", None, note, hint="write a list, as [{name: x, run: ID/1, pass: 1}]")
    text = f"# {note}\njudges:\n"
    text += "".join(f"  - {flow(judge)}\n" for judge in values.judge_runs)
    if values.verdicts is not None:
        told = {**values.verdicts, **(values.verdict_columns or {})}
        told |= {k: v for k in ("says", "words") if (v := getattr(values, k)) is not None}
        judge = {**told, **{k: gap for k, gap in _VERDICT_GAPS.items() if k not in told}}
        text += "  - " + "\n    ".join(f"{scalar(k)}: {flow(v)}" for k, v in judge.items()) + "\n"
    return text
