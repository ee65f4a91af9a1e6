"""What a registration reads from tables: annotators' votes, and verdicts made elsewhere.

Reads and checks the files, and gives them as the plain values that studies take.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from prereg_judge.annotation_form import TableForm
from prereg_judge.annotations import (
    AnnotationTable,
    keyed_items,
    load_annotations,
    refuse_unshared,
)
from prereg_judge.canon import sha256_value
from prereg_judge.errors import InputError, IntegrityError, Problem
from prereg_judge.flow.earlier import read_earlier
from prereg_judge.items import Item, ItemSet
from prereg_judge.judge import load_judge
from prereg_judge.registration.load import Loaded
from prereg_judge.registration.lock import parse_lock
from prereg_judge.registration.schema_tables import Annotations, JudgeTable
from prereg_judge.registration.table_refs import TableFacts
from prereg_judge.strict_yaml import YamlPath, path_text
from prereg_judge.study.outcomes import (
    Assumed,
    EarlierRun,
    Outcome,
    PairScale,
    TableInput,
    TrialKey,
)
from prereg_judge.tallies import credit_gaps, sample_items, tally
from prereg_judge.verdict_tables import Side, VerdictForm, VerdictRow, VerdictTable, load_verdicts
from prereg_judge.votes import MISSING, PAIR_KEYS, SIDES, PairKey, SlotVerdicts, VoteCounts
from prereg_judge.words import Order
from prereg_judge.workspace import Workspace

# What verdicts on slots are called where a table has words of its own.
SLOT_SCALE = PairScale({"a": 1, "tie": 0, "b": -1})
_SIDE: dict[Side, int] = {"a": 1, "b": -1, "tie": 0}
_TABLE_ORDERS: tuple[Order, ...] = ("ab", "ba")


@dataclass(frozen=True)
class _Judged:
    """A judge's verdicts on a pair, as sides on its scale (`SlotVerdicts`), by the pair's name."""

    item: str
    left: str | None
    right: str | None
    ab: int | None
    ba: int | None


@dataclass(frozen=True)
class Tables:
    """Everything that a registration reads from tables; empty for one that reads none.

    Attributes
    ----------
    files
        Role and name of each file, as the lock holds them.
    votes, verdicts
        The annotators' table, and the files of verdicts, as they were read.
    table
        What the studies see of votes and judges.
    sets, outcomes, scale
        For a study of pairs whose verdicts are a file: its items, verdicts and what they mean.
    """

    files: tuple[tuple[Any, str], ...] = ()
    votes: AnnotationTable | None = None
    verdicts: tuple[VerdictTable, ...] = ()
    table: TableInput | None = None
    sets: tuple[ItemSet, ...] = ()
    outcomes: Mapping[TrialKey, Outcome] = field(default_factory=dict)
    scale: PairScale | None = None
    orders: tuple[Order, ...] = ()


def read_tables(workspace: Workspace, loaded: Loaded, *, pinned: bool) -> Tables:
    """Read every table that a registration names.

    Parameters
    ----------
    pinned
        Whether the registration is locked, so that a run named without a number stays the same.

    Raises
    ------
    InputError
        If a file cannot be read as registered, or cannot answer the question: no item rated by two
        pools, no annotator named, no item in common with a judge.
    IntegrityError
        If the record of an earlier run that it names was changed.
    """
    model = loaded.model
    if model.study == "pairwise" and not model.calls:
        return _verdicts_alone(workspace, loaded)
    if model.annotations is None:
        return Tables()
    told = model.annotations
    votes = load_annotations(workspace.input(told.file), form=_form(told), shown=told.file)
    one, other = (pool.name for pool in told.pools)
    refuse_unshared(votes, key=told.key, pools=(one, other))
    _refuse_unsided(loaded, votes)
    counts = {key: _counts(loaded, votes, key) for key in PAIR_KEYS}
    files: list[tuple[Any, str]] = [("annotations", told.file)]
    judges: dict[str, dict[PairKey, SlotVerdicts]] = {}
    read: dict[str, VerdictTable] = {}
    for at, judge in enumerate(model.judges):
        if judge.file is not None:
            files.append(("verdicts", judge.file))
            found = load_verdicts(
                workspace.input(judge.file), form=_verdict_form(judge), shown=judge.file
            )
            read.setdefault(judge.file, found)
            rows = tuple(map(_judged, found.rows))
        else:
            rows = _rows_of_run(workspace, loaded, judge, ("judges", at), pinned=pinned)
        _refuse_unnamed(loaded, ("judges", at), rows, votes)
        judges[judge.name] = {
            key: _matched(judge.name, rows, votes, counts[key], key) for key in PAIR_KEYS
        }
        _refuse_none_in_common(loaded, ("judges", at), judges[judge.name][told.key], told.file)
    assumed = Assumed(model.assumed.span, model.assumed.shift_sd) if model.assumed else None
    table = TableInput(counts, told.key, (one, other), told.split, judges, assumed)
    return Tables(tuple(dict.fromkeys(files)), votes, tuple(read.values()), table)


def _judged(row: VerdictRow) -> _Judged:
    ab, ba = (None if side is None else _SIDE[side] for side in (row.ab, row.ba))
    return _Judged(row.item, row.left, row.right, ab, ba)


def table_facts(tables: Tables) -> TableFacts | None:
    """What a claim may suppose of tables; None where no votes are read."""
    table = tables.table
    if table is None:
        return None
    every = table.counts.values()
    models = {name for counts in every for pair in counts.models or () for name in pair}
    registered = table.counts[table.key]
    own = frozenset(
        name
        for name, judge in table.judges.items()
        if not (judge[table.key].ab == MISSING).all() and not (judge[table.key].ba == MISSING).all()
    )
    return TableFacts(
        items=max(int((counts.by_pool > 0).all(axis=1).sum()) for counts in every),
        models=len(models),
        sided=registered.sided,
        gaps=registered.gaps is not None,
        both_orders=own if table.judges else None,
        assumed=table.assumed is not None,
    )


def own_verdicts(
    tables: Tables,
    outcomes: Mapping[TrialKey, Outcome],
    *,
    pair: PairScale | None,
    passes: int,
) -> TableInput | None:
    """The votes, with the run's own verdicts on the real items as judges, one a pass.

    They are called `pass-1`, `pass-2` and so on. None where the registration reads no votes.
    """
    table, votes = tables.table, tables.votes
    if table is None or votes is None or pair is None or table.judges:
        return table
    judges = {}
    for number in range(1, passes + 1):
        sides: dict[str, dict[Order, int]] = {}
        for key, outcome in outcomes.items():
            if key.set == "real" and key.pass_no == number and outcome.verdict is not None:
                sides.setdefault(key.item_id, {})[key.order] = pair.sides[outcome.verdict]
        rows = tuple(
            _Judged(item, None, None, said.get("ab"), said.get("ba"))
            for item, said in sides.items()
        )
        name = own_judge(number)
        judges[name] = {k: _matched(name, rows, votes, table.counts[k], k) for k in PAIR_KEYS}
    return replace(table, judges=judges)


def own_judge(pass_no: int) -> str:
    """What a pass of a run is called among the judges that are compared with pools."""
    return f"pass-{pass_no}"


def _refuse_unsided(loaded: Loaded, votes: AnnotationTable) -> None:
    """Refuse votes that do not say which answer, or which model's, is better where that is asked.

    Raises
    ------
    InputError
        Naming what needs it.
    """
    model, told = loaded.model, loaded.model.annotations
    assert told is not None
    boards = {"study": "leaderboard"} if model.study == "leaderboard" else {}
    boards |= {"annotations.gap": "credit"} if told.gap == "credit" else {}
    sided = votes.labels == SIDES
    if boards and not (sided and all(vote.left is not None for vote in votes.votes)):
        (where, found), *_ = boards.items()
        what = "needs votes that say which of two models' answers is better"
        remedy = "name `model_a` and `model_b` under `annotations.columns`, and map `labels`"
    elif not sided and model.study in ("judge-pools", "pairwise"):
        where, found = "study", model.study
        what = "compares verdicts on pairs with votes that do not say which answer is better"
        remedy = "map `annotations.labels` to a, b and tie"
    else:
        return
    line = loaded.document.line_of(tuple(where.split(".")))
    raise InputError(Problem(what, loaded.shown, line, where, found, remedy))


def _form(told: Annotations) -> TableForm:
    columns = told.columns.model_dump(exclude_none=True) if told.columns else {}
    pools = {pool.name: pool.match for pool in told.pools}
    return TableForm(told.layout, pools, columns, told.labels, told.preference)


def _counts(loaded: Loaded, votes: AnnotationTable, key: PairKey) -> VoteCounts:
    """The votes under a key; a registered sample is drawn of the registered key's items.

    Under the other key, which is there for comparison, all of its items are drawn where it has
    fewer.
    """
    told = loaded.model.annotations
    assert told is not None
    one, other = (pool.name for pool in told.pools)
    counts = tally(votes, key=key, pools=(one, other))
    if told.gap == "credit":
        counts = replace(counts, gaps=credit_gaps(counts))
    elif told.gap is None:
        counts = replace(counts, gaps=None)
    if told.sample is None:
        return counts
    wanted = told.sample.items
    if key != told.key:
        wanted = min(wanted, int((counts.by_pool > 0).all(axis=1).sum()))
    try:
        return sample_items(counts, n=wanted, seed=told.sample.seed) if wanted else counts
    except InputError as exc:
        at = ("annotations", "sample", "items")
        line = loaded.document.line_of(at)
        raise InputError(
            *(replace(p, file=loaded.shown, line=line, where=path_text(at)) for p in exc.problems)
        ) from exc


def _verdict_form(judge: JudgeTable) -> VerdictForm:
    assert judge.item is not None
    assert judge.ab is not None
    assert judge.words is not None
    return VerdictForm(
        item=judge.item,
        models=(judge.models[0], judge.models[1]) if judge.models else None,
        ab=judge.ab,
        ba=judge.ba,
        stratum=judge.stratum,
        slots=judge.says == "slots",
        words=judge.words,
    )


def _verdicts_alone(workspace: Workspace, loaded: Loaded) -> Tables:
    """A study of pairs whose verdicts are a file."""
    judge = loaded.model.judges[0]
    assert judge.file is not None
    table = load_verdicts(workspace.input(judge.file), form=_verdict_form(judge), shown=judge.file)
    items = tuple(
        Item(
            row.name, {}, None, None, row.stratum, row.line, content=sha256_value("pair", row.name)
        )
        for row in table.rows
    )
    outcomes = {
        TrialKey("real", row.name, order, 1): Outcome(
            side, None, 1, said=SLOT_SCALE.mapped(side, order)
        )
        for row in table.rows
        for order, side in zip(_TABLE_ORDERS, (row.ab, row.ba), strict=True)
        if side is not None
    }
    return Tables(
        (("verdicts", judge.file),),
        verdicts=(table,),
        sets=(ItemSet("real", judge.file, table.sha256, table.n_bytes, items),),
        outcomes=outcomes,
        scale=SLOT_SCALE,
        orders=_TABLE_ORDERS if judge.ba is not None else ("ab",),
    )


def _rows_of_run(
    workspace: Workspace, loaded: Loaded, judge: JudgeTable, at: YamlPath, *, pinned: bool
) -> tuple[_Judged, ...]:
    """The verdicts of a pass of an earlier run, mapped back to the answers."""
    assert judge.run is not None
    assert judge.pass_ is not None

    def wrong(what: str, key: str, found: object, remedy: str) -> InputError:
        path = (*at, key)
        line = loaded.document.line_of(path)
        return InputError(Problem(what, loaded.shown, line, path_text(path), str(found), remedy))

    try:
        run = read_earlier(workspace, judge.run, pinned=pinned)
    except InputError as exc:
        path = (*at, "run")
        line = loaded.document.line_of(path)
        raise InputError(
            *(replace(p, file=loaded.shown, line=line, where=path_text(path)) for p in exc.problems)
        ) from exc
    scale = _scale_of_run(workspace, run)
    if scale is None:
        what = "is not the run of a judge of pairs"
        raise wrong(what, "run", judge.run, "name a run of a study of pairs")
    if judge.pass_ > run.passes:
        raise wrong("the run has no such pass", "pass", judge.pass_, f"write 1 to {run.passes}")
    found: dict[str, dict[Order, int | None]] = {}
    for (role, item, order, number), verdict in run.by_order.items():
        if role == "real" and number == judge.pass_:
            side = None if verdict is None else scale.sides[scale.mapped(verdict, order)]
            found.setdefault(item, {})[order] = side
    if not found:
        what = "judged no items under `items.real`"
        raise wrong(what, "run", judge.run, "name a run whose real items are those of the votes")
    return tuple(
        _Judged(item, None, None, said.get("ab"), said.get("ba")) for item, said in found.items()
    )


def _scale_of_run(workspace: Workspace, run: EarlierRun) -> PairScale | None:
    """What the verdicts of an earlier run mean, by the judge file that it was locked with."""
    assert run.place is not None
    folder = workspace.run(*run.place)
    lock = parse_lock((folder / "lock.json").read_bytes(), shown=workspace.shown(folder))
    entry = next((e for e in lock.inputs if e.role == "judge"), None)
    if entry is None:
        return None
    judge = load_judge(workspace.input(entry.name), shown=entry.name)
    if judge.sha256 != entry.sha256:
        what, remedy = "was changed after that run was locked", "restore the file"
        raise IntegrityError(Problem(what, entry.name, remedy=remedy))
    return PairScale(judge.spec.pair.sides) if judge.spec.pair is not None else None


def _matched(
    judge: str,
    rows: tuple[_Judged, ...],
    votes: AnnotationTable,
    counts: VoteCounts,
    key: PairKey,
) -> SlotVerdicts:
    """A judge's verdicts in the order of the voted items, keyed and turned as these are.

    The orders stay those in which the judge was asked; only what an answer is called may change.
    Two stored items can be one under a key: a verdict that names no models is on each of them.
    """
    keyed = keyed_items(votes, key=key)
    homes = {votes.stored_name(vote): vote for vote in votes.votes}
    said = {(row.item, frozenset((row.left, row.right))): row for row in rows}
    found: dict[str, tuple[int, int]] = {}
    for stored, vote in homes.items():
        row = said.get((vote.item, frozenset((vote.left, vote.right))))
        if row is None:
            row = said.get((vote.item, frozenset((None,))))
        home = keyed[stored]
        if row is None or home.name in found:
            continue
        turned = home.exchanged != (row.left is not None and row.left != vote.left)
        ab, ba = (MISSING if side is None else side for side in (row.ab, row.ba))
        found[home.name] = (_turned(ab), _turned(ba)) if turned else (ab, ba)
    sides = [found.get(item, (MISSING, MISSING)) for item in counts.items]
    columns = np.array(sides, dtype=np.int64).reshape(len(sides), 2)
    return SlotVerdicts(judge, counts.items, columns[:, 0], columns[:, 1])


def _refuse_unnamed(
    loaded: Loaded, at: YamlPath, rows: tuple[_Judged, ...], votes: AnnotationTable
) -> None:
    """Refuse verdicts that name no models where an item's name does not say which pair it is."""
    if votes.plain or all(row.left is not None for row in rows):
        return
    what = f"names no models, and {votes.file} has several pairs of models on one item"
    remedy = "name the columns of the two models under `models`"
    line = loaded.document.line_of(at)
    raise InputError(Problem(what, loaded.shown, line, path_text(at), remedy=remedy))


def _turned(side: int) -> int:
    return side if side == MISSING else -side


def _refuse_none_in_common(
    loaded: Loaded, at: YamlPath, verdicts: SlotVerdicts, votes: str
) -> None:
    """Refuse a judge that says nothing about any of the voted items."""
    if (verdicts.ab == MISSING).all() and (verdicts.ba == MISSING).all():
        what = f"has no verdict on any item of {votes}"
        remedy = "check the columns that name the item: both files must name it alike"
        line = loaded.document.line_of(at)
        raise InputError(
            Problem(what, loaded.shown, line, path_text(at), repr(verdicts.name), remedy)
        )
