"""A result as files: `score.json`, verdicts, disagreements; derived and always rebuildable."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from prereg_judge.canon import sha256_value
from prereg_judge.report.labelling_json import annotators_json, swap_json
from prereg_judge.report.metric_json import metric_json as metric_json  # it is looked for here
from prereg_judge.study.annotators import AnnotatorsView
from prereg_judge.study.expected import METHOD, AgreementCurve
from prereg_judge.study.judge_pools import JudgeRow
from prereg_judge.study.leaderboard import BoardRow
from prereg_judge.study.metric import Metric
from prereg_judge.study.pairs import SwapTable
from prereg_judge.study.reference_swap import SwapView
from prereg_judge.study.rows import Disagreement, Row, TransitionTable
from prereg_judge.verdict import ClaimOutcome, Verdict

SCORE_FORMAT = 1


@dataclass(frozen=True)
class RunLine:
    """One run of the registration, as a reader should see it beside the verdict."""

    number: int
    ended: str
    started_at: str
    resumed: int
    missing: bool


@dataclass(frozen=True)
class Result:
    """All that a report may see: no raw records, no registration models.

    Attributes
    ----------
    id, title, study
        Which registration.
    run, runs
        The run scored, and every run there is.
    facts
        Named values for the heading (judge, model, protocol, ...).
    verdict, summary, tables, notes
        The outcome, the study's full list of metrics, transition tables, sentences.
    disagreements
        Rows whose passes differ, each with its replies and item fields.
    rows
        Every row with its verdict in each pass.
    provenance
        Hashes: lock, record head, manifest, ledger head, tool.
    arms
        Where two settings are compared: each in words, in the order of the passes.
    curves
        The agreement to be expected over temperatures, where the run gives it.
    primary
        Id of the claim that the question is about.
    post_hoc
        What later versions of the registration make of the run; none decides.
    swaps
        Of pairs: the two orders against each other, by set, pass and stratum.
    sides
        Of pairs: what each verdict in `swaps` says of the answers as shown; see
        `PairScale.sides`.
    judges
        Where there are votes: each judge's order effect beside its lean.
    pools
        The two pools that a lean or a board is between, pool 1 first.
    board
        Of models: the board of pool 1 beside that of pool 2, in the order of pool 1.
    swap
        Where references are exchanged: outputs under references.
    annotators
        Where the agreement of annotators is asked: pools, pairs and confusions.
    """

    id: str
    title: str
    study: str
    run: int
    runs: tuple[RunLine, ...]
    facts: Mapping[str, str]
    verdict: Verdict
    summary: tuple[Metric, ...]
    tables: tuple[TransitionTable, ...]
    notes: tuple[str, ...]
    disagreements: tuple[DisagreementLine, ...]
    provenance: Mapping[str, Any]
    arms: tuple[str, ...] = ()
    curves: tuple[AgreementCurve, ...] = ()
    primary: str | None = None
    post_hoc: tuple[PostHocLine, ...] = ()
    rows: tuple[VerdictLine, ...] = ()
    swaps: tuple[SwapTable, ...] = ()
    sides: Mapping[str, int] = field(default_factory=dict)
    judges: tuple[JudgeRow, ...] = ()
    pools: tuple[str, ...] = ()
    board: tuple[BoardRow, ...] = ()
    swap: SwapView | None = None
    annotators: AnnotatorsView | None = None


@dataclass(frozen=True)
class VerdictLine:
    """A row with its verdict in each pass, and why there is none; `not_called`: the run ended.

    `said` is what the judge said of the answers as shown, of pairs only; their `row` has what that
    means for answer a and answer b.
    """

    row: Row
    unscored: tuple[str | None, ...]
    said: tuple[str | None, ...] = ()


@dataclass(frozen=True)
class PostHocLine:
    """A version of the registration that was locked after the run began, applied to it.

    `verdict` is None, and `why_not` says why, where it cannot be.
    """

    version: int
    locked_at: str
    reason: str
    verdict: Verdict | None
    why_not: str | None


@dataclass(frozen=True)
class DisagreementLine:
    """A changed row with what the judge saw and both raw replies; `said` as in `VerdictLine`."""

    row: Disagreement
    fields: Mapping[str, Any]
    replies: tuple[str | None, ...]
    unscored: tuple[str | None, ...]
    said: tuple[str | None, ...] = ()


def _claim_json(outcome: ClaimOutcome) -> dict[str, Any]:
    return {
        "id": outcome.id,
        "kind": outcome.kind,
        "registered": outcome.registered,
        "outcome": outcome.outcome,
        "observed": [metric_json(m) for m in outcome.metrics],
        "reason": outcome.reason,
        "limit_inside_interval": outcome.close,
        "note": outcome.note,
    }


def _post_hoc_json(line: PostHocLine) -> dict[str, Any]:
    verdict = line.verdict
    return {
        "version": line.version,
        "locked_at": line.locked_at,
        "reason": line.reason,
        "verdict": None if verdict is None else verdict.word,
        "claims": [] if verdict is None else [_claim_json(o) for o in verdict.outcomes],
        "not_applied": line.why_not,
    }


def _curve_json(curve: AgreementCurve) -> dict[str, Any]:
    return {**asdict(curve), "method": METHOD, "points": [asdict(p) for p in curve.points]}


def _swap_json(table: SwapTable, sides: Mapping[str, int]) -> dict[str, Any]:
    return {
        "set": table.set,
        "pass": table.pass_no,
        "stratum": table.stratum,
        "verdicts": list(table.verdicts),
        "sides": [None if v is None else sides.get(v) for v in table.verdicts],
        "counts": [list(row) for row in table.counts],
    }


def _judge_json(row: JudgeRow) -> dict[str, Any]:
    return {
        "judge": row.judge,
        "order_reversal": metric_json(row.reversal),
        "lean": metric_json(row.lean),
    }


def _board_json(row: BoardRow) -> dict[str, Any]:
    return {
        "place": row.place,
        "model": row.model,
        "credit": [metric_json(metric) for metric in row.credit],
        "other_place": row.other_place,
        "shift": metric_json(row.shift),
    }


def score_json(result: Result) -> dict[str, Any]:
    """The machine-readable result; form `prereg_score: 1`, schema in `score.schema.json`."""
    verdict = result.verdict
    return {
        "prereg_score": SCORE_FORMAT,
        "id": result.id,
        "title": result.title,
        "study": result.study,
        "run": result.run,
        "runs": [asdict(line) for line in result.runs],
        "verdict": verdict.word,
        "exit_code": verdict.exit_code,
        "reasons": list(verdict.reasons),
        "primary": result.primary,
        "claims": [_claim_json(outcome) for outcome in verdict.outcomes],
        "metrics": [metric_json(metric) for metric in result.summary],
        "transitions": [
            {
                "set": table.set,
                "order": table.order,
                "first_pass": table.first,
                "later_pass": table.later,
                "verdicts": list(table.verdicts),
                "counts": [list(row) for row in table.counts],
            }
            for table in result.tables
        ],
        "swap_tables": [_swap_json(table, result.sides) for table in result.swaps],
        "pools": list(result.pools),
        "judges": [_judge_json(row) for row in result.judges],
        "board": [_board_json(row) for row in result.board],
        "reference_swap": None if result.swap is None else swap_json(result.swap, result.summary),
        "annotators": None if result.annotators is None else annotators_json(result.annotators),
        "arms": list(result.arms),
        "expected_agreement": [_curve_json(curve) for curve in result.curves],
        "facts": dict(result.facts),
        "notes": list(result.notes),
        "post_hoc": [_post_hoc_json(line) for line in result.post_hoc],
        "provenance": dict(result.provenance),
    }


_CORE = (
    *("id", "study", "run", "verdict", "reasons", "claims", "metrics", "transitions", "arms"),
    "expected_agreement",
)
_OF_SOME = ("swap_tables", "pools", "judges", "board", "reference_swap", "annotators")


def result_sha256(result: Result) -> str:
    """Hash of the numbers and outcomes of a result, without what stands around them.

    Numbers are taken to ten digits: libraries of another version may differ in the last ones. What
    only some studies have is left out where there is none, so that the same numbers keep their
    hash over versions that did not know of them.
    """
    value = score_json(result)
    core = {name: value[name] for name in _CORE}
    core |= {name: value[name] for name in _OF_SOME if value[name]}
    for table in core["transitions"]:
        if table["order"] is None:
            del table["order"]
    return sha256_value("result", _rounded(core))


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.10g}")
    if isinstance(value, dict):
        return {k: _rounded(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_rounded(v) for v in value]
    return value


def disagreement_json(line: DisagreementLine) -> dict[str, Any]:
    """One disagreement as JSON values."""
    said = {"said": list(line.said)} if line.said else {}
    return {
        **asdict(line.row),
        **said,
        "fields": dict(line.fields),
        "replies": list(line.replies),
        "unscored": list(line.unscored),
    }


def disagreements_jsonl(lines: Sequence[DisagreementLine]) -> bytes:
    """Every changed row, one JSON object a line."""
    return "".join(
        json.dumps(disagreement_json(line), ensure_ascii=False) + "\n" for line in lines
    ).encode()


def verdicts_csv(lines: Sequence[VerdictLine], *, passes: int) -> bytes:
    """Every row with all its verdicts as CSV, for tools that count for themselves.

    UTF-8 with a mark, as the disagreements; without the items' text and the replies. Of pairs,
    `verdict_1` is about answer a and answer b, and `said_1` about the answers as shown.
    """
    numbers = range(1, passes + 1)
    said = any(line.said for line in lines)
    header = ["set", "id", "order", "kind", "stratum", "label"]
    rows = [
        [
            *(line.row.item.set, line.row.item.id, line.row.order),
            *(line.row.item.kind, line.row.item.stratum, line.row.item.label),
            *line.row.verdicts,
            *line.said,
            *line.unscored,
        ]
        for line in lines
    ]
    kinds = ("verdict", *(("said",) if said else ()), "unscored")
    return _csv([[*header, *(f"{kind}_{n}" for kind in kinds for n in numbers)], *rows])


def _csv(rows: Sequence[Sequence[Any]]) -> bytes:
    """Rows of cells, None as an empty one; with a mark, so that spreadsheets read it as UTF-8."""
    stream = io.StringIO()
    csv.writer(stream).writerows([["" if c is None else c for c in row] for row in rows])
    return stream.getvalue().encode("utf-8-sig")


def disagreements_csv(lines: Sequence[DisagreementLine], *, passes: int) -> bytes:
    """The same rows as CSV."""
    fields = list(dict.fromkeys(name for line in lines for name in line.fields))
    header = ["set", "item_id", "order", "kind", "stratum", "label"]
    numbers = range(1, passes + 1)
    said = ("said",) if any(line.said for line in lines) else ()
    kinds = ("verdict", *said, "unscored", "reply")
    names = [f"{kind}_{n}" for kind in kinds for n in numbers]
    rows: list[list[Any]] = [[*header, *names, *fields]]
    for line in lines:
        row = asdict(line.row)
        rows.append(
            [
                *(row[name] for name in header),
                *line.row.verdicts,
                *line.said,
                *line.unscored,
                *line.replies,
                *(line.fields.get(name) for name in fields),
            ]
        )
    return _csv(rows)
