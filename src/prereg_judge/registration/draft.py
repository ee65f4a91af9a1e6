"""Writes the commented YAML of a new registration, from the values that are known so far.

What is not known becomes a placeholder that the loader refuses, so that a draft cannot be locked
by oversight. Text is quoted wherever a reader of YAML could take it for something else.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

from prereg_judge.errors import InputError, Problem
from prereg_judge.registration.draft_claims import SECTIONS, examples, section
from prereg_judge.registration.draft_labellings import place_of, supposed
from prereg_judge.registration.draft_tables import (
    TableValues,
    calls,
    orders_of,
    tables,
    unpaired,
)
from prereg_judge.registration.draft_yaml import entry, flow, option
from prereg_judge.registration.load import read_registration
from prereg_judge.registration.refs import no_metric
from prereg_judge.registration.schema import STUDIES_OF_LABELLINGS
from prereg_judge.strict_yaml import YamlPath, path_text
from prereg_judge.study.kinds import STUDIES
from prereg_judge.study.metric import MetricRef
from prereg_judge.words import SET_ROLES

_INTRO = """\
# A registration: what is expected, and what would prove it wrong, written before {}.
# Lines that begin with # are comments. Nothing here has a hidden default.
"""

_UP_TO_ONE = ("share", "probability", "correlation", "F1", "coefficient", "distance")
_ORDERS = "Orders of presentation; ba needs a pairwise judge."
_SWITCH = "{enable_thinking: false}"
_THINKING = "{start: <think>, end: </think>, max_tokens: 512}"
_SAMPLED = "{mode: sampled, temperature: 0.8, top_k: 40, top_p: 0.95, min_p: 0.05}"
_EXECUTOR = '{kind: local, workers: 2, devices: ["0", "1"]}'


@dataclass(frozen=True)
class DraftValues(TableValues):
    """What is known of a registration; None = to be filled in by hand, or left out if optional.

    A study that reads everything from tables has no place for judge, item sets, model, protocol
    and what is missing: they are not written then.

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

    @property
    def calls(self) -> bool:
        """Whether a judge is run; otherwise everything is read from tables."""
        return calls(self, self.study)

    @property
    def expected(self) -> list[Mapping[str, Any]]:
        """The bands and predictions, in the order of the file."""
        return [*self.bands, *self.predictions]

    @property
    def examples(self) -> dict[str, dict[str, Any]]:
        """A claim of each section that this study could register."""
        real = self.study == "pairwise" and (self.real is not None or not self.calls)
        role = "real" if real else "sentinel"
        shown = examples(
            self.study,
            role=role,
            judge=self.judge_name,
            output=self.output_name,
            spans=self.spans,
        )
        if not self.calls:
            shown.pop("stop", None)
        return shown


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
    shown = values.examples
    claims = [
        section(
            name,
            getattr(values, name),
            example=shown.get(name),
            needed=name == "bands" and not values.expected,
        )
        for name in SECTIONS
    ]
    intro = _INTRO.format("any call" if values.calls else "tables are looked at")
    head, made = _head(values), []
    if values.calls:
        head, made = head + _inputs(values), [_model(values), _protocol(values)]
    parts = [intro, head, *made, tables(values, values.study), *claims, _tail(values)]
    return "\n".join(filter(None, parts))


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
    problems = [*_unknown_metrics(values), *_refused(values)]
    known = {problem.where for problem in problems}
    more = [*unpaired(values, values.study), *_at_odds(values)]
    return problems + [problem for problem in more if problem.where not in known]


def _refused(values: DraftValues) -> list[Problem]:
    """What the loader refuses."""
    try:
        read_registration(render(values).encode(), shown="")
    except InputError as exc:
        return [replace(problem, file=None, line=None) for problem in exc.problems]
    return []


def _at_odds(values: DraftValues) -> Iterator[Problem]:
    """What is at odds among labellings although something else is not known yet.

    The loader holds names, outputs and references against each other once nothing is missing.
    """
    if not values.labellings:
        return
    nothing: tuple[Any, ...] = (None, ())
    unknown = [f.name for f in fields(values) if getattr(values, f.name) in nothing]
    given = supposed(values, values.study, unknown=unknown)
    more: dict[str, Any] = {} if values.expected else {"bands": (values.examples["bands"],)}
    places = tuple(map(place_of, given)) + tuple(more)
    for problem in _refused(replace(values, **given, **more)):
        where = problem.where or ""
        if where and not where.startswith(places) and "placeholder" not in problem.what:
            yield problem


def _unknown_metrics(values: DraftValues) -> Iterator[Problem]:
    """Metrics of claims that the study has for no item set."""
    if values.study not in STUDIES:  # which the loader refuses
        return
    catalogue = STUDIES[values.study].metrics(SET_ROLES, votes=values.voted)
    for claims in SECTIONS:
        for path, name in _metrics(getattr(values, claims), (claims,)):
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


def _head(values: DraftValues) -> str:
    text = "# Form of this file.\nprereg: 1\n"
    text += entry("id", values.id, "Short name: small letters, digits and hyphens.")
    text += entry("title", values.title, "The question, in a sentence.")
    note = "The kind of study; `prereg metrics` lists its metrics."
    return text + entry("study", values.study, note)


def _inputs(values: DraftValues) -> str:
    text = entry("judge", values.judge, "The judge file: guideline, prompt, schema, verdicts.")
    text += "\n# The item sets; each a JSONL, CSV or Parquet file. At least one.\nitems:\n"
    sentinel = "Items with known answers and no signal."
    if values.sentinel is None and values.real is None:
        text += entry("sentinel", None, sentinel, indent=2, hint="path of the file")
    else:
        text += option(
            "sentinel", values.sentinel, sentinel, indent=2, example="sentinels/items.jsonl"
        )
    return text + option(
        "real", values.real, "The real items.", indent=2, example="data/items.jsonl"
    )


def _model(values: DraftValues) -> str:
    def one(key: str, note: str, hint: str | None = None) -> str:
        return entry(key, getattr(values, key), note, indent=2, hint=hint)

    def may(key: str, note: str, example: str) -> str:
        return option(key, getattr(values, key), note, indent=2, example=example)

    if values.base_urls:
        return (
            "# The model, served: it cannot be hashed; what the servers say of it is recorded.\n"
            "model:\n  backend: openai\n"
            + one("base_urls", "Where the servers are; all serve the same model.")
            + entry("model", values.served_model, "Its name, as the servers list it.", indent=2)
            + may("api_key_env", "Environment variable that holds the API key.", "JUDGE_KEY")
            + may("load_timeout_s", "Seconds that becoming ready may take.", "300")
            + may("template_args", "Further settings of the template.", _SWITCH)
        )
    return (
        "# The model; its file is hashed at lock.\nmodel:\n"
        + one("gguf", "Path of the GGUF file, or package:NAME/FILE.gguf.")
        + one("n_ctx", "Context length in tokens, at least 256.")
        + one("n_gpu_layers", "Layers put on the GPU; -1 = all, 0 = none.")
        + may("n_threads", "CPU threads; left out: chosen at run and recorded.", "8")
        + may("n_batch", "Most tokens decoded in one call of the library.", "512")
        + may("load_timeout_s", "Seconds after which loading counts as failed.", "300")
        + may("template_date", "Date that the chat template is told.", '"2026-01-31"')
        + may("template_args", "Further settings of the template.", _SWITCH)
    )


def _protocol(values: DraftValues) -> str:
    def one(key: str, note: str, hint: str | None = None) -> str:
        return entry(key, getattr(values, key), note, indent=2, hint=hint)

    return (
        "# How every item is put to the judge.\nprotocol:\n"
        + one("passes", "How many times the whole plan is run; 2 shows self-agreement.")
        + entry("orders", orders_of(values, values.study), _ORDERS, indent=2)
        + one("path", "generate = a grammar masks every token; choice = one verdict is drawn.")
        + one("prefix", "shared = a common beginning is read once; whole = every time.")
        + one(
            "decoding",
            "sampled = fresh entropy for every attempt; seeded = one seed; greedy = no draw. "
            "Off: top_k 0, top_p 1, min_p 0.",
            f"write a mapping, as {_SAMPLED}",
        )
        + one("max_tokens", "Longest reply in tokens.")
        + one("parallel", "Calls at once; 1 = the strict wire.")
        + one(
            "hang",
            "When a call counts as hung, and how often a failed call is made again.",
            "write a mapping, as {call_timeout_s: 120, retries: 1}",
        )
        + option("thinking", None, "Thinking before the reply.", indent=2, example=_THINKING)
        + _arms(values)
        + "\n"
        + option("executor", None, "Several workers, or a Ray cluster.", example=_EXECUTOR)
        + "\n# A trial without a verdict: disagree = counts as a disagreement; exclude = its row\n"
        + entry(
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


def _tail(values: DraftValues) -> str:
    text = _primary(values) + "\n"
    why = None if values.why_so_many is None else {"why": values.why_so_many}
    text += option(
        "sample_size",
        why,
        f"Why so many {'rows and passes' if values.calls else 'items'}; `width`, `power`: what was "
        "wanted of the primary claim. "
        "The width is in the metric's unit: rows for .count, a share for .rate.",
        example=f"{{why: {_all_of(values)}, width: {_width(values)}}}",
    )
    text += "\n# What had been seen before this was written; the lock adds what the ledger knows.\n"
    text += "exposure:\n" + entry(
        "seen", values.seen, "In words: earlier runs, tables, anything.", indent=2
    )
    text += option(
        "level",
        None,
        "none, partly, items, full: where it is more than the ledger knows; it is never less.",
        indent=2,
        example="full",
    )
    due = "The day (UTC) by whose end a result is due; `prereg status` shows what is late."
    text += "\n" + option("due", values.due, due, example='"2027-01-31"')
    notes = "Anything else a reader should know; changes nothing."
    return text + "\n" + option("notes", values.notes, notes, example="why these items")


def _all_of(values: DraftValues) -> str:
    if not values.calls and values.study != "pairwise":
        labelled = values.study in STUDIES_OF_LABELLINGS
        return f"all the items that {'there are' if labelled else 'both pools rated'}"
    return f"all the {'pairs' if values.study == 'pairwise' else 'sentinels'} that there are"


def _width(values: DraftValues) -> str:
    """An example of a wanted width that fits the primary claim's metric."""
    expected = values.expected or [values.examples["bands"]]
    named = [c for c in expected if c["id"] == values.primary] or expected
    metric = MetricRef(str(named[0].get("metric"))).base.name
    study = STUDIES.get(values.study)
    spec = study.metrics(SET_ROLES, votes=True).specs.get(metric) if study else None
    return "0.2" if spec is not None and spec.unit in _UP_TO_ONE else "10"


def _primary(values: DraftValues) -> str:
    note = "The one band or prediction that the question is about."
    ids = [str(c["id"]) for c in values.expected]
    if values.primary is None and len(ids) > 1:
        return entry("primary", None, note, hint=f"one of {', '.join(ids)}")
    example = ids[0] if ids else values.examples["bands"]["id"]
    return option("primary", values.primary, note, example=flow(example))
