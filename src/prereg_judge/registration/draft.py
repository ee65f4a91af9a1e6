"""Writes the commented YAML of a new registration, from the values that are known so far.

What is not known becomes a placeholder that the loader refuses, so that a draft cannot be locked
by oversight. Text is quoted wherever a reader of YAML could take it for something else.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from prereg_judge.errors import InputError, Problem
from prereg_judge.registration.load import read_registration
from prereg_judge.registration.refs import no_metric
from prereg_judge.strict_yaml import YamlPath, path_text, plain_is_text
from prereg_judge.study.counted import is_rate
from prereg_judge.study.kinds import STUDIES
from prereg_judge.study.metric import MetricRef
from prereg_judge.words import SET_ROLES

_PLAIN = re.compile(r"[A-Za-z](?:[A-Za-z0-9 ._/-]*[A-Za-z0-9._/-])?")
# What a JSON string may hold as it is and YAML may not, or not for every reader.
_ESCAPED = re.compile("[\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff\ufffe\uffff]")

_INTRO = """\
# A registration: what is expected, and what would prove it wrong, written before any call.
# Lines that begin with # are comments. Nothing here has a hidden default.
"""

_SWITCH = "{enable_thinking: false}"
_THINKING = "{start: <think>, end: </think>, max_tokens: 512}"
_SAMPLED = "{mode: sampled, temperature: 0.8, top_k: 40, top_p: 0.95, min_p: 0.05}"
_EXECUTOR = '{kind: local, workers: 2, devices: ["0", "1"]}'

_BAND_NOTE = "Intervals in which metrics must lie, limits included; outside is FAIL. `expected`,"
_BAND_NOTE += " your own guess, is optional: the lock then says how likely a pass is."
_PREDICTION_NOTE = "Expectations: exactly one of at_least, at_most, between; `failed` is FAIL."
_NO_CLAIM = "TODO: write at least one band, as below, or remove this line and write a prediction"
_REFUTER_NOTE = "Conditions (lt le gt ge eq between; all, any) that refute the account if true."
_STOP_NOTE = "Conditions on counts of calls that end collection; in_every: a window of calls."
_DECISION_NOTE = "What will be done, decided now: if the condition is true, then this."

# Section -> (comment, an example for when it is empty).
_CLAIMS: dict[str, tuple[str, str]] = {
    "bands": (
        _BAND_NOTE,
        "  - {id: agree, metric: sentinel.agreement.count, between: [58, 68], expected: 63}\n",
    ),
    "predictions": (
        _PREDICTION_NOTE,
        "  - {id: few-flips, metric: sentinel.flips.count, at_most: 14}\n",
    ),
    "refuters": (
        _REFUTER_NOTE,
        "  - id: unstable\n"
        "    when: {metric: sentinel.agreement.count, lt: 50}\n"
        "    means: too unstable to floor anything\n",
    ),
    "stop": (
        _STOP_NOTE,
        "  - {id: hangs, when: {metric: calls.hangs, ge: 1}, in_every: 20, over_first: 40}\n",
    ),
    "decisions": (
        _DECISION_NOTE,
        "  - id: give-up\n"
        "    when: {metric: sentinel.agreement.count, lt: 50}\n"
        "    then: report it and stop\n",
    ),
}


@dataclass(frozen=True)
class DraftValues:
    """What is known of a registration; None = to be filled in by hand, or left out if optional.

    Attributes
    ----------
    id, title, study, judge, sentinel, real
        As the keys of the file; at least one of `sentinel` and `real` is to be given.
    gguf, n_ctx, n_gpu_layers, n_threads, n_batch, load_timeout_s, template_date, template_args
        The keys under `model`; the last five are optional.
    base_urls, served_model, api_key_env
        The keys under `model` for a served one; with any base URL, those of a file are not used.
    passes, path, prefix, decoding, max_tokens, parallel, hang
        Keys under `protocol`; `decoding` and `hang` are mappings, as `parse_decoding` and
        `parse_hang` give them.
    arms
        The two settings that path-fidelity compares, as `parse_arm` gives them.
    missing
        What a trial without a verdict does to the metrics.
    bands, predictions, refuters, stop, decisions
        Claims as mappings, as the functions of `expressions` give them.
    seen
        What had been seen before.
    primary, due, why_so_many
        The claim that the question is about, needed where there are several; the day by which a
        result is due, and why so many rows and passes, optional.
    notes
        Anything else; optional.
    """

    id: str | None = None
    title: str | None = None
    study: str = "self-agreement"
    judge: str | None = None
    sentinel: str | None = None
    real: str | None = None
    gguf: str | None = None
    n_ctx: int | None = None
    n_gpu_layers: int | None = None
    n_threads: int | None = None
    n_batch: int | None = None
    load_timeout_s: float | None = None
    template_date: str | None = None
    template_args: Mapping[str, bool | int | str] | None = None
    base_urls: Sequence[str] = ()
    served_model: str | None = None
    api_key_env: str | None = None
    passes: int | None = None
    path: str = "generate"
    prefix: str | None = None
    decoding: Mapping[str, Any] | None = None
    max_tokens: int | None = None
    parallel: int = 1
    arms: Sequence[Mapping[str, Any]] = ()
    hang: Mapping[str, Any] | None = None
    missing: str | None = None
    bands: Sequence[Mapping[str, Any]] = field(default_factory=tuple)
    predictions: Sequence[Mapping[str, Any]] = field(default_factory=tuple)
    refuters: Sequence[Mapping[str, Any]] = field(default_factory=tuple)
    stop: Sequence[Mapping[str, Any]] = field(default_factory=tuple)
    decisions: Sequence[Mapping[str, Any]] = field(default_factory=tuple)
    seen: str | None = None
    primary: str | None = None
    due: str | None = None
    why_so_many: str | None = None
    notes: str | None = None


def render(values: DraftValues) -> str:
    """The YAML of a registration, every key explained by a comment.

    Parameters
    ----------
    values
        What is known.

    Returns
    -------
    str
        A file that loads to these values, unless one that is needed is None: then it holds
        `TODO` in its place and the loader refuses it.
    """
    none = not (values.bands or values.predictions)
    claims = [
        _claims(name, getattr(values, name), needed=none and name == "bands") for name in _CLAIMS
    ]
    parts = [_INTRO, _head(values), _model(values), _protocol(values), *claims, _tail(values)]
    return "\n".join(parts)


def refusals(values: DraftValues) -> list[Problem]:
    """What would be refused of the file that `render` makes, with no file or line.

    That is what the loader refuses, and metrics that the study does not have.

    Parameters
    ----------
    values
        What is known. What is needed and None is among the refusals, as a placeholder.

    Returns
    -------
    list of Problem
        Empty where the file would load. `where` is the place in the file, as `protocol.passes`.
    """
    problems = list(_unknown_metrics(values))
    try:
        read_registration(render(values).encode(), shown="")
    except InputError as exc:
        problems += [replace(problem, file=None, line=None) for problem in exc.problems]
    return problems


def _unknown_metrics(values: DraftValues) -> Iterator[Problem]:
    """Metrics of claims that the study has for no item set."""
    if values.study not in STUDIES:  # which the loader refuses
        return
    catalogue = STUDIES[values.study].catalogue(SET_ROLES)
    for section in _CLAIMS:
        for path, name in _metrics(getattr(values, section), (section,)):
            if MetricRef(name).base.name not in catalogue.specs:
                trouble = no_metric(MetricRef(name).base.name, catalogue)
                yield Problem(trouble.what, where=path_text(path), remedy=trouble.remedy)


def _metrics(value: Any, path: YamlPath) -> Iterator[tuple[YamlPath, str]]:
    """Every metric that claims name, with its place in the file."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            if key == "metric":
                yield (*path, key), str(inner)
            else:
                yield from _metrics(inner, (*path, key))
    elif isinstance(value, list | tuple):
        for at, inner in enumerate(value):
            yield from _metrics(inner, (*path, at))


def scalar(value: object) -> str:
    """A text, number, truth value or null as YAML that is read back as the very same."""
    if isinstance(value, str):
        if _PLAIN.fullmatch(value) and plain_is_text(value):
            return value
        quoted = json.dumps(value, ensure_ascii=False)
        return _ESCAPED.sub(lambda m: f"\\u{ord(m.group()):04x}", quoted)
    return json.dumps(value)


def flow(value: Any) -> str:
    """A value in one line: `{id: agree, between: [58, 68]}`."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{scalar(k)}: {flow(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(flow, value)) + "]"
    return scalar(value)


def _entry(key: str, value: Any, note: str, *, indent: int = 0, hint: str | None = None) -> str:
    """A key under its comment; where the value is None, a placeholder that says what to write."""
    text = flow(f"TODO: {hint or note}" if value is None else value)
    pad = " " * indent
    return f"{pad}# {note}\n{pad}{key}: {text}\n"


def _option(key: str, value: Any, note: str, *, indent: int = 0, example: str) -> str:
    """A key that may be left out: as a comment where it has no value."""
    pad = " " * indent
    if value is None:
        return f"{pad}# Optional. {note}\n{pad}# {key}: {example}\n"
    return f"{pad}# {note}\n{pad}{key}: {flow(value)}\n"


def _head(values: DraftValues) -> str:
    text = "# Form of this file.\nprereg: 1\n"
    text += _entry("id", values.id, "Short name: small letters, digits and hyphens.")
    text += _entry("title", values.title, "The question, in a sentence.")
    text += _entry("study", values.study, "The kind of study; `prereg metrics` lists its metrics.")
    text += _entry("judge", values.judge, "The judge file: guideline, prompt, schema, verdicts.")
    text += "\n# The item sets; each a JSONL, CSV or Parquet file. At least one.\nitems:\n"
    sentinel = "Items with known answers and no signal."
    if values.sentinel is None and values.real is None:
        text += _entry("sentinel", None, sentinel, indent=2, hint="path of the file")
    else:
        text += _option(
            "sentinel", values.sentinel, sentinel, indent=2, example="sentinels/items.jsonl"
        )
    return text + _option(
        "real", values.real, "The real items.", indent=2, example="data/items.jsonl"
    )


def _model(values: DraftValues) -> str:
    def entry(key: str, note: str, hint: str | None = None) -> str:
        return _entry(key, getattr(values, key), note, indent=2, hint=hint)

    def option(key: str, note: str, example: str) -> str:
        return _option(key, getattr(values, key), note, indent=2, example=example)

    if values.base_urls:
        return (
            "# The model, served: it cannot be hashed; what the servers say of it is recorded.\n"
            "model:\n  backend: openai\n"
            + entry("base_urls", "Where the servers are; all serve the same model.")
            + _entry("model", values.served_model, "Its name, as the servers list it.", indent=2)
            + option("api_key_env", "Environment variable that holds the API key.", "JUDGE_KEY")
            + option("load_timeout_s", "Seconds that becoming ready may take.", "300")
            + option("template_args", "Further settings of the template.", _SWITCH)
        )
    return (
        "# The model; its file is hashed at lock.\nmodel:\n"
        + entry("gguf", "Path of the GGUF file, or package:NAME/FILE.gguf.")
        + entry("n_ctx", "Context length in tokens, at least 256.")
        + entry("n_gpu_layers", "Layers put on the GPU; -1 = all, 0 = none.")
        + option("n_threads", "CPU threads; left out: chosen at run and recorded.", "8")
        + option("n_batch", "Most tokens decoded in one call of the library.", "512")
        + option("load_timeout_s", "Seconds after which loading counts as failed.", "300")
        + option("template_date", "Date that the chat template is told.", '"2026-01-31"')
        + option("template_args", "Further settings of the template.", _SWITCH)
    )


def _protocol(values: DraftValues) -> str:
    def entry(key: str, note: str, hint: str | None = None) -> str:
        return _entry(key, getattr(values, key), note, indent=2, hint=hint)

    return (
        "# How every item is put to the judge.\nprotocol:\n"
        + entry("passes", "How many times the whole plan is run; 2 shows self-agreement.")
        + "  # Orders of presentation; ba needs a pairwise judge.\n  orders: [ab]\n"
        + entry("path", "generate = a grammar masks every token; choice = one verdict is drawn.")
        + entry("prefix", "shared = a common beginning is read once; whole = every time.")
        + entry(
            "decoding",
            "sampled = fresh entropy for every attempt; seeded = one seed; greedy = no draw. "
            "Off: top_k 0, top_p 1, min_p 0.",
            f"write a mapping, as {_SAMPLED}",
        )
        + entry("max_tokens", "Longest reply in tokens.")
        + entry("parallel", "Calls at once; 1 = the strict wire.")
        + entry(
            "hang",
            "When a call counts as hung, and how often a failed call is made again.",
            "write a mapping, as {call_timeout_s: 120, retries: 1}",
        )
        + _option("thinking", None, "Thinking before the reply.", indent=2, example=_THINKING)
        + _arms(values)
        + "\n"
        + _option("executor", None, "Several workers, or a Ray cluster.", example=_EXECUTOR)
        + "\n# A trial without a verdict: disagree = counts as a disagreement; exclude = its row\n"
        + _entry(
            "missing",
            values.missing,
            "is left out; undefined = the metric has no value.",
            hint="write disagree, exclude or undefined",
        )
    )


def _arms(values: DraftValues) -> str:
    if values.study != "path-fidelity" and not values.arms:
        return ""
    note = "  # The settings of each pass; what is left out is as above.\n"
    gap = {"path": "TODO: generate or choice"}
    arms = (*values.arms, *[gap] * (2 - len(values.arms)))
    return f"{note}  arms:\n" + "".join(f"    - {flow(arm)}\n" for arm in arms)


def _claims(name: str, claims: Sequence[Mapping[str, Any]], *, needed: bool) -> str:
    note, example = _CLAIMS[name]
    if not claims:
        lines = [f"# {name}:", *(f"# {line}" for line in example.splitlines())]
        gap = f"{name}: {flow(_NO_CLAIM)}\n" if needed else ""
        return f"# {'' if needed else 'Optional. '}{note}\n{gap}" + "\n".join(lines) + "\n"
    return f"# {note}\n{name}:\n" + "".join(map(_claim, claims))


def _claim(claim: Mapping[str, Any]) -> str:
    """One claim: in one line where it is short and holds no sentence, else a key a line."""
    line = f"  - {flow(claim)}\n"
    if len(line) <= 100 and not claim.keys() & {"means", "then"}:
        return line
    keys = [f"{scalar(k)}: {flow(v)}" for k, v in claim.items()]
    return "  - " + "\n    ".join(keys) + "\n"


def _tail(values: DraftValues) -> str:
    text = _primary(values) + "\n"
    why = None if values.why_so_many is None else {"why": values.why_so_many}
    text += _option(
        "sample_size",
        why,
        "Why so many rows and passes; `width`, `power`: what was wanted of the primary claim. "
        "The width is in the metric's unit: rows for .count, a share for .rate.",
        example=f"{{why: all the sentinels that there are, width: {_width(values)}}}",
    )
    text += "\n# What had been seen before this was written; the lock adds what the ledger knows.\n"
    text += "exposure:\n" + _entry(
        "seen", values.seen, "In words: earlier runs, tables, anything.", indent=2
    )
    text += _option(
        "level",
        None,
        "none, partly, items, full: where it is more than the ledger knows; it is never less.",
        indent=2,
        example="full",
    )
    due = "The day (UTC) by whose end a result is due; `prereg status` shows what is late."
    text += "\n" + _option("due", values.due, due, example='"2027-01-31"')
    notes = "Anything else a reader should know; changes nothing."
    return text + "\n" + _option("notes", values.notes, notes, example="why these items")


def _width(values: DraftValues) -> str:
    """An example of a wanted width that fits the primary claim's metric."""
    expected = [*values.bands, *values.predictions]
    named = [c for c in expected if c["id"] == values.primary] or expected
    metric = MetricRef(str(named[0].get("metric")) if named else "")
    return "0.2" if is_rate(metric.base.name) else "10"


def _primary(values: DraftValues) -> str:
    note = "The one band or prediction that the question is about."
    expected = [c["id"] for c in (*values.bands, *values.predictions)]
    if values.primary is None and len(expected) > 1:
        return _entry("primary", None, note, hint=f"one of {', '.join(expected)}")
    return _option("primary", values.primary, note, example="agree")
