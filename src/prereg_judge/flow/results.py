"""From a scored run to what reports see, and onto disk."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from prereg_judge import __version__
from prereg_judge.canon import canonical_json, sha256_bytes
from prereg_judge.chain import write_synced
from prereg_judge.flow.exposure import exposure_words, level_words
from prereg_judge.flow.labelling_words import labelling_words
from prereg_judge.flow.locked import ledger_of
from prereg_judge.flow.scoring import Scored, remember
from prereg_judge.flow.settings import arms_in_words, engine_settings
from prereg_judge.ledger.events import RunEntry, Scoring, scorings
from prereg_judge.plan import trial_key
from prereg_judge.registration.lock import tool_source_sha256
from prereg_judge.registration.schema import Registration
from prereg_judge.registration.schema_model import LocalModel
from prereg_judge.report.files import (
    DisagreementLine,
    PostHocLine,
    Result,
    RunLine,
    VerdictLine,
    disagreements_csv,
    disagreements_jsonl,
    result_sha256,
    score_json,
    verdicts_csv,
)
from prereg_judge.report.numbers import of_things
from prereg_judge.study import annotators, leaderboard, reference_swap
from prereg_judge.study.judge_pools import side_by_side
from prereg_judge.study.outcomes import StudyInput
from prereg_judge.study.pairs import SwapTable, swap_tables
from prereg_judge.study.rows import Row, disagreements, rows_of, transitions, trial_of
from prereg_judge.tallies import tally, voted_twice
from prereg_judge.votes import PAIR_KEYS
from prereg_judge.workspace import Workspace


def result_of(workspace: Workspace, scored: Scored) -> Result:
    """What a report may see of a scored run, with the ledger's tip as its witness.

    A run that was scored before, with the same outcome in all, keeps the tip of that time, so that
    scoring it again gives the same bytes.
    """
    ledger = ledger_of(workspace)
    made = scorings(ledger.events(scored.locked.lock.id), scored.number)
    result = _result(scored)
    notes = (*result.notes, *_other_scorings(scored, made, result_sha256(result)))
    result = replace(result, notes=notes)
    if made:
        before = _at_tip(result, made[-1].before)
        if _sha256(before) == made[-1].score:
            return before
    return _at_tip(result, ledger.head)


def _sha256(result: Result) -> str:
    return sha256_bytes(canonical_json(score_json(result)))


def _at_tip(result: Result, head: str) -> Result:
    return replace(result, provenance={**result.provenance, "ledger_head": head})


def _other_scorings(scored: Scored, made: Sequence[Scoring], now: str) -> list[str]:
    """What other versions of this tool made of the same run, as the ledger tells it."""
    here, locking = tool_source_sha256(), scored.locked.lock.tool["source_sha256"]
    others = [s for s in made if s.tool != here]
    last = {s.tool: s for s in others}
    notes = []
    for tool, scoring in last.items():
        name = "an older version" if tool is None else f"source {tool[:12]}"
        name += ", which locked it," if tool == locking else ""
        same = (
            ""
            if scoring.result is None
            else (
                " with the same numbers"
                if scoring.result == now
                else " with OTHER numbers than now"
            )
        )
        notes.append(f"Scored by {name} at {scoring.at}: {scoring.verdict}{same}.")
    if here != locking and locking not in {s.tool for s in made}:
        notes.append(
            "The version that locked it has not scored this run, as far as the ledger says, so its "
            "result cannot be shown beside this one."
        )
    return notes


def _result(scored: Scored) -> Result:
    registered, data = scored.locked.inputs.model, scored.data
    roles = [s.role for s in scored.locked.inputs.sets]
    manifest = scored.record.manifest or {}
    return Result(
        id=registered.id,
        title=registered.title,
        study=registered.study,
        run=scored.number,
        runs=tuple(
            RunLine(
                r.number,
                _ended(scored, r),
                r.started_at,
                r.resumed,
                scored.faults.get(r.number) == "gone",
            )
            for r in scored.runs
        ),
        facts=_facts(scored),
        verdict=scored.verdict,
        summary=scored.summary,
        tables=tuple(t for role in roles for t in transitions(data, role)),
        notes=scored.notes,
        disagreements=_disagreements(scored),
        provenance={
            "registration_sha256": scored.locked.lock.registration.sha256,
            "lock_sha256": scored.locked.lock_sha256,
            "locked_at": scored.locked.lock.locked_at,
            "attempts_head": scored.record.head,
            "version": scored.locked.lock.version,
            "ledger_head_at_end_of_run": manifest.get("ledger_head"),
            "tool": {"version": __version__, "source_sha256": tool_source_sha256()},
        },
        arms=data.arms,
        curves=scored.locked.inputs.study.curves(data),
        primary=registered.primary_claim,
        post_hoc=tuple(
            PostHocLine(
                p.version.number, p.version.locked_at, p.version.reason or "", p.verdict, p.why_not
            )
            for p in scored.post_hoc
        ),
        rows=_rows(scored),
        swaps=_swaps(scored),
        sides=_sides(scored),
        judges=side_by_side(data) if data.table is not None else (),
        pools=data.table.pools if data.table is not None else (),
        board=leaderboard.board(data) if registered.study == leaderboard.STUDY else (),
        swap=reference_swap.view(data) if data.swap is not None else None,
        annotators=annotators.view(data) if data.annotators is not None else None,
    )


# Verdicts of a file name the answers; said of what was shown, the same words would mean slots.
_SLOTS = {"a": "first", "b": "second"}


def _as_shown(scored: Scored, verdict: str) -> str:
    """A verdict as a table of the two orders names it: as a judge that was called says it."""
    return verdict if scored.locked.inputs.model.calls else _SLOTS.get(verdict, verdict)


def _swaps(scored: Scored) -> tuple[SwapTable, ...]:
    """The two orders against each other, of every set and pass."""
    data = scored.data
    return tuple(
        replace(
            table,
            verdicts=tuple(None if v is None else _as_shown(scored, v) for v in table.verdicts),
        )
        for items in scored.locked.inputs.sets
        for number in range(1, data.passes + 1)
        for table in swap_tables(data, items.role, number)
    )


def _sides(scored: Scored) -> dict[str, int]:
    """What each verdict of these tables says of the answers as shown."""
    pair = scored.data.pair
    return {} if pair is None else {_as_shown(scored, v): side for v, side in pair.sides.items()}


def _ended(scored: Scored, entry: RunEntry) -> str:
    if entry.number == scored.number:
        return scored.verdict.word
    return entry.told(changed=scored.faults.get(entry.number) == "changed")


def _facts(scored: Scored) -> dict[str, str]:
    registered = scored.locked.inputs.model
    locked = {"registration": f"{registered.id}, locked {scored.locked.lock.locked_at}"}
    told = _call_facts(scored) if registered.calls else {}
    why = {"rows": size.why} if (size := registered.sample_size) else {}
    seen = {"seen before": registered.exposure.seen}
    return {**locked, **told, **_table_facts(scored), **seen, **_known(scored), **why}


def _table_facts(scored: Scored) -> dict[str, str]:
    """What was read from tables, and by which registered rules."""
    registered = scored.locked.inputs.model
    labelled = labelling_words(registered, scored.locked.inputs.tables)
    facts = labelled or _vote_facts(scored)
    for judge in registered.judges:
        source = judge.file or f"run {judge.run}, pass {judge.pass_}"
        facts[f"judge {judge.name}"] = source
    if registered.resolve is not None:
        facts["two orders"] = f"resolved by {registered.resolve}"
    if registered.resampling is not None:
        drawn = registered.resampling
        how = "each stratum by itself" if drawn.by_stratum else "all items together"
        times = f"{drawn.resamples} times, seed {drawn.seed}, {how}"
        facts["resampling"] = f"{times}; bootstrap intervals are percentile intervals"
    return facts


def _vote_facts(scored: Scored) -> dict[str, str]:
    """The votes that are compared: how many, what was left out, which are on the same item."""
    told, votes = scored.locked.inputs.model.annotations, scored.locked.inputs.tables.votes
    if told is None or votes is None:
        return {}
    pools = (told.pools[0].name, told.pools[1].name)
    left = "".join(f"; left out: {n} ({why})" for why, n in votes.left_out.items())
    counts = {key: tally(votes, key=key, pools=pools) for key in PAIR_KEYS}
    both = {key: int((c.by_pool > 0).all(axis=1).sum()) for key, c in counts.items()}
    rated = of_things(both[told.key], "item")
    if counts[told.key].models is not None:
        with_key = [f"{of_things(n, 'item')} with the key `{key}`" for key, n in both.items()]
        rated = ", ".join(with_key)
    facts = {
        "votes": f"{told.file} ({len(votes.votes)} votes of {' and '.join(pools)}{left})",
        "rated by both": rated,
        "key": f"{told.key}; equal votes: {told.split}",
    }
    if twice := voted_twice(votes, key=told.key, pools=pools):
        facts["voted twice"] = (
            f"{of_things(twice, 'vote')} by an annotator who had judged the same item, the other "
            "way round"
        )
    if told.sample is not None:
        facts["sample"] = f"{told.sample.items} doubly rated items, seed {told.sample.seed}"
    return facts


def _call_facts(scored: Scored) -> dict[str, str]:
    """Judge, items, model and protocol of a run."""
    registered = scored.locked.inputs.model
    protocol, decoding = registered.protocol, registered.protocol.decoding
    settings = decoding.model_dump(exclude={"mode"})
    drawn = ", ".join(f"{k} {v:g}" for k, v in settings.items())
    sets = [f"{s.role}: {s.file} ({len(s.items)} rows)" for s in scored.locked.inputs.sets]
    orders = f", orders {' and '.join(protocol.orders)}" if len(protocol.orders) > 1 else ""
    return {
        "judge": f"{registered.judge} ({scored.locked.inputs.judge.spec.title})",
        "items": "; ".join(sets),
        "model": _model(registered),
        "protocol": f"{protocol.passes} passes{orders}, "
        + _settings(registered)
        + _workers(registered),
        "decoding": decoding.mode + (f" ({drawn})" if drawn else ""),
        "without a verdict": f"missing: {registered.missing}",
    }


def _known(scored: Scored) -> dict[str, str]:
    """What the ledger adds to what was stated; nothing where it knew of nothing."""
    exposure = scored.exposure
    if exposure.level == "none":
        return {}
    known = exposure_words(exposure) or ["nothing"]
    return {
        "exposure": f"{exposure.level}: {level_words(scored.locked.inputs, exposure.level)}",
        "the ledger knew": "; ".join(known),
    }


def _workers(registered: Registration) -> str:
    executor = registered.executor
    return "" if executor is None else f"; executor {executor.kind}, {executor.workers} workers"


def _model(registered: Registration) -> str:
    model = registered.model
    if isinstance(model, LocalModel):
        return model.gguf
    return f"{model.model}, served by {', '.join(model.base_urls)} (its weights are not hashed)"


def _settings(registered: Registration) -> str:
    arms = arms_in_words(registered)
    if not arms:
        return engine_settings(registered, 1).words
    return "; ".join(f"pass {n}: {words}" for n, words in enumerate(arms, start=1))


def _disagreements(scored: Scored) -> tuple[DisagreementLine, ...]:
    items = {(s.role, i.id): i for s in scored.locked.inputs.sets for i in s.items}
    names = scored.locked.inputs.judge.spec.fields
    passes = range(1, scored.data.passes + 1)
    lines = []
    for row in disagreements(scored.data):
        keys = [trial_key(row.set, row.item_id, row.order, p) for p in passes]
        last = [made[-1] if (made := scored.record.by_trial.get(k)) else None for k in keys]
        item = items[row.set, row.item_id]
        lines.append(
            DisagreementLine(
                row,
                {name: item.fields.get(name) for name in names},
                tuple(a.text if a else None for a in last),
                tuple(a.unscored if a else None for a in last),
                tuple(a.verdict if a else None for a in last) if scored.data.pair else (),
            )
        )
    return tuple(lines)


def _rows(scored: Scored) -> tuple[VerdictLine, ...]:
    """Every row; a trial that has no outcome was never called, because the run was stopped."""
    data = scored.data

    def why(row: Row, pass_no: int) -> str | None:
        outcome = data.outcomes.get(trial_of(row, pass_no))
        return "not_called" if outcome is None else outcome.unscored

    return tuple(
        VerdictLine(row, tuple(why(row, n) for n in range(1, data.passes + 1)), _said(data, row))
        for s in scored.locked.inputs.sets
        for row in rows_of(data, s.role)
    )


def _said(data: StudyInput, row: Row) -> tuple[str | None, ...]:
    """What the judge said in each pass of the answers as shown; nothing where they are no pairs."""
    pair = data.pair
    if pair is None:
        return ()
    return tuple(None if v is None else pair.mapped(v, row.order) for v in row.verdicts)


def write_result(workspace: Workspace, scored: Scored, result: Result) -> dict[str, Path]:
    """Write score, verdicts and disagreements beside the record, and note it in the ledger."""
    folder = workspace.run(result.id, result.run)
    value: dict[str, Any] = score_json(result)
    remember(workspace, scored, score=_sha256(result), result=result_sha256(result))
    files = derived_files(result, passes=scored.data.passes)
    files["score.json"] = score_bytes(value)
    for name, data in files.items():
        write_synced(folder / name, data)
    return {name: folder / name for name in files}


def score_bytes(value: dict[str, Any]) -> bytes:
    """`score.json` as it is written."""
    return (json.dumps(value, indent=2, ensure_ascii=False) + "\n").encode()


def derived_files(result: Result, *, passes: int) -> dict[str, bytes]:
    """The verdicts and the disagreements as files, by name; none that can hold nothing.

    A study of votes has no rows; passes of one run cannot disagree where there is only one.
    """
    files = {}
    if result.rows:
        files["verdicts.csv"] = verdicts_csv(result.rows, passes=passes)
    if result.rows and passes > 1:
        files["disagreements.jsonl"] = disagreements_jsonl(result.disagreements)
        files["disagreements.csv"] = disagreements_csv(result.disagreements, passes=passes)
    return files
