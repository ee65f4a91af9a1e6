"""The part of a draft that is about labellings: files, outputs and references, maps, scales."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from prereg_judge.registration.draft_yaml import entry, flow, option, scalar

_FILES = (
    "[{file: data/spans.jsonl, format: rows, item: id, labellings: {A: labellings.A, "
    "B: labellings.B, gold: gold, C: labellings.C}}]"
)
_OF_ANNOTATORS = (
    "{form: labels, files: [{file: data/labels.csv, format: rows, item: id, labellings: "
    '{ann: ann, bob: bob}}], pools: [{name: all, match: "*"}]}'
)
_MERGE = "{Insult: abuse, Threat: abuse}"
_SCALE = "{order: [low, mid, high]}"
_ADJUDICATION = "{file: data/settled.csv, item: id, label: label}"
_WIDTH = 100


@dataclass(frozen=True)
class LabellingValues:
    """What is known of labellings of the same items; None or empty = not known.

    Attributes
    ----------
    labellings
        Entries of `labellings.files`, as `parse_labelling_file` gives them.
    form, outputs, references, match, duplicates
        The other keys under `labellings`.
    merge, family, adjudication
        As the keys of the file; optional.
    scale_order, scale_values
        The keys under `scale`; at most one of them.
    """

    labellings: Sequence[Mapping[str, Any]] = ()
    form: str | None = None
    outputs: Sequence[str] | None = None
    references: Sequence[str] | None = None
    match: str | None = None
    duplicates: str | None = None
    merge: Mapping[str, str] | None = None
    family: Sequence[Mapping[str, Any]] = ()
    scale_order: Sequence[str] | None = None
    scale_values: Mapping[str, float] | None = None
    adjudication: Mapping[str, str] | None = None

    @property
    def labelled(self) -> bool:
        """Whether anything is known of files of labellings."""
        told = (self.form, self.outputs, self.references, self.match, self.duplicates)
        return bool(self.labellings) or any(value is not None for value in told)

    @property
    def names(self) -> list[str]:
        """The labellings of all files, in their order."""
        return [str(name) for file in self.labellings for name in file["labellings"]]

    @property
    def output_name(self) -> str:
        """Name of the first output, or one that stands for it."""
        return str(self.outputs[0]) if self.outputs else "A"

    @property
    def spans(self) -> bool:
        """Whether marks are spans, as far as is known."""
        return self.labelled and self.form != "labels"


def needed_of_labellings(values: LabellingValues, study: str) -> list[str]:
    """Names of what is needed of labellings in such a study, in the order of asking."""
    names = ["labellings", "form"]
    if study == "reference-swap":
        return [*names, "outputs", "references", "match", "duplicates"]
    return [*names, "pools", *(("duplicates",) if values.form == "spans" else ())]


def labelling_keys(
    values: LabellingValues, study: str, *, pools: Sequence[Mapping[str, Any]] | None
) -> str:
    """The keys of a registration that are about labellings, each under its comment.

    Parameters
    ----------
    values
        What is known. What a study does not take is written where it is given, so that the loader
        says so.
    study
        The kind of study.
    pools
        Pools of labellings, for annotators.
    """
    swap, annotators = study == "reference-swap", study == "annotators"
    parts = []
    if swap or values.labelled:
        parts.append(_labellings(values, study, pools=pools))
    elif annotators:
        parts.append(f"# In place of annotations there may be labellings: {_OF_ANNOTATORS}\n")
    if swap or annotators or values.merge is not None:
        note = "Fine label -> coarse label: what the map hides is counted. The rest stay as is."
        parts.append(option("merge", values.merge, note, example=_MERGE))
    if swap or values.family:
        parts.append(_family(values))
    if (annotators and not values.spans) or values.scale_order or values.scale_values:
        parts.append(_scale(values))
    if (annotators and not values.spans) or values.adjudication is not None:
        note = "Labels that an adjudicator gave."
        parts.append(option("adjudication", values.adjudication, note, example=_ADJUDICATION))
    return "\n".join(parts)


def _labellings(
    values: LabellingValues, study: str, *, pools: Sequence[Mapping[str, Any]] | None
) -> str:
    swap = study == "reference-swap"

    def one(key: str, note: str, hint: str | None = None) -> str:
        return entry(key, getattr(values, key), note, indent=2, hint=hint)

    def some(key: str, note: str, *, wanted: bool) -> str:
        return one(key, note) if wanted or getattr(values, key) is not None else ""

    about = "what is scored, and what it is scored against" if swap else "by several annotators"
    text = f"# Labellings of the same items: {about}.\nlabellings:\n"
    text += one("form", "spans = places in a text, with types; labels = one label an item.")
    text += _files(values)
    note = "Two marks are the same: strict = place and type; relaxed = place; coarse = merged type."
    text += some("match", note, wanted=swap)
    note = "Rows of one item: keep_all, first, drop, or merge_equal = those that are alike."
    text += some("duplicates", note, wanted=swap or values.form != "labels")
    note = "Labellings that are scored; the first two are the pair that is meant."
    text += some("outputs", note, wanted=swap)
    note = "What they are scored against: the delivered reference, then its alternatives."
    text += some("references", note, wanted=swap)
    if study != "annotators":
        return text
    return text + pool_lines(pools, "Pools, by patterns of labellings' names.")


def pool_lines(pools: Sequence[Mapping[str, Any]] | None, note: str) -> str:
    """Pools as a list under their comment, two spaces in."""
    if not pools:
        hint = "write a list, as [{name: expert, match: expert_*}, {name: crowd, match: [a, b]}]"
        return entry("pools", None, note, indent=2, hint=hint)
    return f"  # {note}\n  pools:\n" + "".join(f"    - {flow(pool)}\n" for pool in pools)


def _files(values: LabellingValues) -> str:
    note = "Where each labelling stands: a column or dotted path (rows), a column's number (conll),"
    note = f"{note}\n  # or a sub-folder of .ann files (brat). Items are joined by name."
    if not values.labellings:
        return entry("files", None, note, indent=2, hint=f"write a list, as {_FILES}")
    return f"  # {note}\n  files:\n" + "".join(map(_file, values.labellings))


def _file(file: Mapping[str, Any]) -> str:
    """One file: in one line where it is short, else a key a line."""
    line = f"    - {flow(file)}\n"
    if len(line) <= _WIDTH:
        return line
    return "    - " + "\n      ".join(f"{scalar(k)}: {flow(v)}" for k, v in file.items()) + "\n"


def _family(values: LabellingValues) -> str:
    note = "The tests (delta, margin, interaction, skew) among which p is adjusted (Holm)."
    if not values.family:
        example = (
            f"[{{metric: delta, output: {flow(values.output_name)}}}, {{metric: interaction}}]"
        )
        return option("family", None, note, example=example)
    return f"# {note}\nfamily:\n" + "".join(f"  - {flow(test)}\n" for test in values.family)


def _scale(values: LabellingValues) -> str:
    told = {"order": values.scale_order, "values": values.scale_values}
    scale = {key: value for key, value in told.items() if value is not None}
    note = "For single labels: their order from the lowest, or a number for each under `values`."
    return option("scale", scale or None, note, example=_SCALE)


# Where what can be supposed stands in the file.
_PLACES = {
    "form": "labellings.form",
    "outputs": "labellings.outputs",
    "references": "labellings.references",
    "match": "labellings.match",
    "duplicates": "labellings.duplicates",
    "pools": "labellings.pools",
    "resampling": "resampling",
}


def supposed(values: LabellingValues, study: str, *, unknown: Sequence[str]) -> dict[str, Any]:
    """Stand-ins for what is not known yet, so that the rest can be held against each other.

    Parameters
    ----------
    values
        What is known, with at least one file of labellings.
    study
        The kind of study.
    unknown
        Names of values that are not known.

    Returns
    -------
    dict
        Name -> a value that would do as far as possible; where each stands: `place_of`.
    """
    of_labels = values.scale_order or values.scale_values or values.adjudication
    outputs = values.outputs or [n for n in values.names if n not in (values.references or ())][:2]
    found: dict[str, Any] = {
        "form": "labels" if of_labels and values.duplicates is None else "spans",
        "resampling": {"resamples": 2000, "seed": 1, "by_stratum": False},
    }
    if study == "reference-swap":
        found |= {
            "outputs": outputs,
            "references": [name for name in values.names if name not in outputs],
            "match": "strict",
            "duplicates": "keep_all",
        }
    elif study == "annotators":
        found["pools"] = [{"name": "all", "match": "*"}]
        if (values.form or found["form"]) == "spans":
            found["duplicates"] = "keep_all"
    return {name: value for name, value in found.items() if name in unknown}


def place_of(name: str) -> str:
    """Where a value that can be supposed stands in the file."""
    return _PLACES[name]
