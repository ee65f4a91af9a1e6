"""The `{set}.*` metrics: their catalogue, and how a question is counted over rows.

The one place that knows what a missing verdict does, and when there is nothing to count.
"""

from __future__ import annotations

from collections.abc import Sequence

from prereg_judge.study.counted import counted, undefined_metric
from prereg_judge.study.metric import Metric, MetricRef, MetricSpec, Undefined
from prereg_judge.study.outcomes import StudyInput
from prereg_judge.study.row_questions import QUESTIONS, Question, Refusal
from prereg_judge.study.rows import GROUPING, Row, copies
from prereg_judge.words import Missing

# Stem -> (summary, required, optional) ; each stem has a `.count` and a `.rate`.
_COUNTED: dict[str, tuple[str, tuple[str, ...], tuple[str, ...]]] = {
    "agreement": ("Rows with the same verdict in every pass, of all rows.", (), ()),
    "fidelity": (
        "Rows with the same verdict in both arms, of all rows. With `verdict`: only rows with "
        "that verdict in arm 1, numerator and denominator.",
        (),
        ("verdict",),
    ),
    "flips": (
        "Rows whose verdict in some later pass is not that of the first, of all rows. With "
        "`verdict`: only rows with that first verdict, numerator and denominator. With `to`: "
        "changed to that verdict.",
        (),
        ("verdict", "to"),
    ),
    "verdict": ("Rows given `verdict` in `pass`, of all rows.", ("verdict", "pass"), ()),
    "wrong": (
        "Rows whose verdict in `pass` is not the known label, of all labelled rows. With "
        "`verdict`: wrong with that verdict.",
        ("pass",),
        ("verdict",),
    ),
    "wrong_ships": (
        "Rows given the verdict that ships in `pass` against their known label, of all labelled "
        "rows.",
        ("pass",),
        (),
    ),
    "wrong_repeated": (
        "Rows with the same wrong verdict in every pass, of all labelled rows: the errors that a "
        "second pass cannot find.",
        (),
        (),
    ),
    "wrong_found": (
        "Rows whose given verdicts differ, so that at least one is wrong, of all labelled rows: "
        "the errors that a second pass shows. A hang is no error.",
        (),
        (),
    ),
    "ships.any": ("Rows that ship in at least one pass, of all rows.", (), ()),
    "ships.all": ("Rows that ship in every pass, of all rows.", (), ()),
    "ships.some": ("Rows that ship in at least one pass but not in all, of all rows.", (), ()),
    "ships.none": ("Rows that ship in no pass, of all rows.", (), ()),
    "flips_from": (
        "Rows to which the earlier run gave `verdict` and at least one pass here did not, of the "
        "rows to which the earlier run gave it.",
        ("from_run", "verdict"),
        ("from_pass",),
    ),
    "flips_from_every": (
        "Rows to which the earlier run gave `verdict` and no pass here did, of the rows to which "
        "the earlier run gave it.",
        ("from_run", "verdict"),
        ("from_pass",),
    ),
    "stays_from": (
        "Rows to which the earlier run gave `verdict` and so did every pass here, of the rows to "
        "which the earlier run gave it.",
        ("from_run", "verdict"),
        ("from_pass",),
    ),
}


def _specs() -> tuple[MetricSpec, ...]:
    specs = []
    for stem, (summary, required, optional) in _COUNTED.items():
        options = (*optional, *GROUPING)
        count = MetricSpec(
            f"{{set}}.{stem}.count", summary, "rows", required, options, (0.0, "items")
        )
        rate = MetricSpec(f"{{set}}.{stem}.rate", summary, "share", required, options, (0.0, 1.0))
        specs += [count, rate]
    missing = "Trials without a verdict, unscored or never run, of all planned trials of the set."
    return (
        *specs,
        MetricSpec("{set}.missing.count", missing, "trials", optional=GROUPING),
        MetricSpec("{set}.missing.rate", missing, "share", (), GROUPING, (0.0, 1.0)),
        MetricSpec(
            "{set}.distinct.count",
            "Rows that differ in what the judge sees, by hash of their content.",
            "rows",
            optional=GROUPING,
            domain=(1.0, "items"),
        ),
        MetricSpec(
            "{set}.duplicates.max",
            "Largest number of rows with the same content; 1 when all are distinct.",
            "rows",
            optional=GROUPING,
            domain=(1.0, "items"),
        ),
    )


# With `{set}` still open.
ROW_SPECS: tuple[MetricSpec, ...] = _specs()


def both(stem: str, **params: object) -> tuple[MetricRef, MetricRef]:
    """The count and the share of one stem, with the same parameters."""
    return MetricRef.of(f"{stem}.count", **params), MetricRef.of(f"{stem}.rate", **params)


def row_metric(data: StudyInput, ref: MetricRef, spec: MetricSpec, rows: Sequence[Row]) -> Metric:
    """One metric of `ROW_SPECS`.

    Parameters
    ----------
    data
        The run.
    ref
        A reference without `.ci_low` or `.ci_high`, with parameters that `spec` allows.
    spec
        Its line in the catalogue.
    rows
        The rows that it is about, at least one.

    Returns
    -------
    Metric
        Its note says how many trials had no verdict. Undefined, in this order of precedence:
        `not_computed` (values of parameters, or an earlier run, that do not fit), `single_pass`,
        `no_labels`, `nothing_scored` (some pass that the metric uses has no verdict at all, or
        no row of the denominator has one in the passes that decide), `missing_verdict`,
        `empty_denominator`.

    Notes
    -----
    `missing.*`, `distinct.count` and `duplicates.max` do not speak of verdicts: they have a
    value even where nothing is scored. It is `verdict` that never passes such a run.
    """
    tail = ref.name.partition(".")[2]
    if tail.startswith("missing."):
        verdicts = [v for r in rows for v in r.verdicts]
        return counted(ref, spec, k=verdicts.count(None), n=len(verdicts))
    if tail in ("distinct.count", "duplicates.max"):
        return _distinct(ref, spec, rows)
    question = QUESTIONS[tail.rpartition(".")[0]](data, dict(ref.params))
    if isinstance(question, Refusal):
        return undefined_metric(ref, spec, reason=question.reason, note=question.note)
    return _count(ref, spec, rows, question=question, missing=data.missing)


def _distinct(ref: MetricRef, spec: MetricSpec, rows: Sequence[Row]) -> Metric:
    sizes = copies(rows)
    value = len(sizes) if ref.name.endswith(".count") else sizes[0]
    most = f", one {sizes[0]} times" if sizes[0] > 1 else ""
    note = f"{len(rows)} rows are {len(sizes)} distinct{most}"
    return Metric(ref, float(value), spec.unit, spec.summary, k=value, n=len(rows), note=note)


def _count(
    ref: MetricRef,
    spec: MetricSpec,
    rows: Sequence[Row],
    *,
    question: Question,
    missing: Missing,
) -> Metric:
    """Apply a question to rows, of which there is at least one, under a rule for the missing."""
    notes: list[str] = []

    def undefined(reason: Undefined, *more: str) -> Metric:
        note = "; ".join([*more, *notes]) or None
        return undefined_metric(ref, spec, reason=reason, note=note, n=len(rows))

    if question.labelled:
        labelled = [r for r in rows if r.item.label is not None]
        if not labelled:
            return undefined("no_labels", "no row has a known label")
        if len(labelled) < len(rows):
            notes.append(f"{len(rows) - len(labelled)} of {len(rows)} rows have no known label")
        rows = labelled
    notes += _missing_notes(rows, question, missing=missing)
    for number in question.uses:
        if all(r.at(number) is None for r in rows):
            return undefined("nothing_scored", f"no row has a verdict in pass {number}")
    if missing == "undefined" and (_gaps(rows, question) or _earlier_gaps(rows, question)):
        return undefined("missing_verdict")
    rows_before = rows = [r for r in rows if question.within(r)]
    if missing == "exclude":
        rows = [r for r in rows if all(r.at(p) is not None for p in question.uses)]
    rows = [r for r in rows if question.eligible(r)]
    if not rows:
        return undefined("empty_denominator", "no row to count")
    deciding = question.uses[1:] if question.by_first else question.uses
    if all(r.at(p) is None for r in rows for p in deciding):
        return undefined("nothing_scored", f"none of these {len(rows)} rows has a verdict")
    k = sum(map(question.hit, rows))
    lacking = [r for r in rows if any(r.at(p) is None for p in question.uses)]
    if lacking:
        hits = sum(map(question.hit, lacking))
        notes.append(f"{hits} of the {k} counted and {len(lacking) - hits} of the others lack one")
    if missing == "exclude" and ref.name.endswith(".count") and _gaps(rows_before, question):
        notes.append("limits on a count were registered for all rows")
    return counted(ref, spec, k=k, n=len(rows), note="; ".join(notes) or None)


def _gaps(rows: Sequence[Row], question: Question) -> int:
    """Trials without a verdict among the rows and passes that a metric looks at."""
    return sum(r.at(p) is None for r in rows if question.within(r) for p in question.uses)


def _earlier_gaps(rows: Sequence[Row], question: Question) -> int:
    """Rows that the earlier run judged without giving a verdict; they may belong in n."""
    if question.earlier is None:
        return 0
    run, number = question.earlier
    keys = ((r.item.set, r.item.id, number) for r in rows)
    return sum(key in run.verdicts and run.verdicts[key] is None for key in keys)


def _missing_notes(rows: Sequence[Row], question: Question, *, missing: Missing) -> list[str]:
    """What a reader should know about the trials without a verdict."""
    notes = []
    seen = [r for r in rows if question.within(r)]
    if gaps := _gaps(rows, question):
        said = f"{gaps} of {len(seen) * len(question.uses)} trials have no verdict"
        if missing == "disagree":
            said += f"; {question.reads_missing}"
        elif missing == "exclude":
            out = sum(any(r.at(p) is None for p in question.uses) for r in seen)
            said += f"; {out} of {len(seen)} rows left out"
        notes.append(said)
    first = sum(r.at(1) is None for r in seen) if question.by_first else 0
    if first and missing == "disagree":
        notes.append(f"{first} rows without a first verdict are in no denominator")
    if question.earlier is not None and (before := _earlier_gaps(rows, question)):
        notes.append(f"{before} rows have no verdict in {question.earlier[0].name}")
    return notes
