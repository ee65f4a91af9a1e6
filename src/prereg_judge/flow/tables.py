"""What a registration reads from tables: annotators' votes, and verdicts made elsewhere.

Reads and checks the files, and gives them as the plain values that studies take.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from prereg_judge.annotations import (
    AnnotationTable,
    load_annotations,
    refuse_unshared,
)
from prereg_judge.canon import sha256_value
from prereg_judge.errors import InputError
from prereg_judge.flow.judge_tables import (
    judged,
    matched,
    refuse_none_in_common,
    refuse_unnamed,
    rows_of_run,
    verdict_form,
)
from prereg_judge.flow.labelling_tables import (
    AdjudicatedLabels,
    labelling_facts,
    read_labellings,
    table_form,
)
from prereg_judge.items import Item, ItemSet
from prereg_judge.labellings.table import LabellingTable
from prereg_judge.registration.labelling_refs import LabellingFacts
from prereg_judge.registration.load import Loaded
from prereg_judge.registration.schema import STUDIES_OF_LABELLINGS
from prereg_judge.registration.table_refs import TableFacts
from prereg_judge.strict_yaml import YamlPath
from prereg_judge.study.outcomes import (
    AnnotatorsInput,
    Assumed,
    Outcome,
    PairScale,
    SwapInput,
    TableInput,
    TrialKey,
)
from prereg_judge.tallies import credit_gaps, sample_items, tally
from prereg_judge.verdict_tables import VerdictTable, load_verdicts
from prereg_judge.votes import MISSING, PAIR_KEYS, SIDES, PairKey, SlotVerdicts, VoteCounts
from prereg_judge.words import Order
from prereg_judge.workspace import Workspace

# What verdicts on slots are called where a table has words of its own.
SLOT_SCALE = PairScale({"a": 1, "tie": 0, "b": -1})
_TABLE_ORDERS: tuple[Order, ...] = ("ab", "ba")


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
    sets, outcomes, scale, orders
        For a study of pairs whose verdicts are a file: its items, verdicts, what they mean and the
        orders that it has.
    labellings, adjudicated
        Labellings, and an adjudicator's labels, as they were read.
    swap, annotators, facts
        For a study of labellings or of annotators: what it sees, and what a claim may suppose.
    """

    files: tuple[tuple[Any, str], ...] = ()
    votes: AnnotationTable | None = None
    verdicts: tuple[VerdictTable, ...] = ()
    table: TableInput | None = None
    sets: tuple[ItemSet, ...] = ()
    outcomes: Mapping[TrialKey, Outcome] = field(default_factory=dict)
    scale: PairScale | None = None
    orders: tuple[Order, ...] = ()
    labellings: LabellingTable | None = None
    adjudicated: AdjudicatedLabels | None = None
    swap: SwapInput | None = None
    annotators: AnnotatorsInput | None = None
    facts: LabellingFacts | None = None


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
    if model.study in STUDIES_OF_LABELLINGS:
        return _of_labellings(workspace, loaded)
    if model.annotations is None:
        return Tables()
    told = model.annotations
    votes = load_annotations(workspace.input(told.file), form=table_form(told), shown=told.file)
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
                workspace.input(judge.file), form=verdict_form(judge), shown=judge.file
            )
            read.setdefault(judge.file, found)
            rows = tuple(map(judged, found.rows))
        else:
            rows = rows_of_run(workspace, loaded, judge, ("judges", at), pinned=pinned)
        refuse_unnamed(loaded, ("judges", at), rows, votes)
        judges[judge.name] = {
            key: matched(judge.name, rows, votes, counts[key], key) for key in PAIR_KEYS
        }
        refuse_none_in_common(loaded, ("judges", at), judges[judge.name][told.key], told.file)
    assumed = Assumed(model.assumed.span, model.assumed.shift_sd) if model.assumed else None
    table = TableInput(counts, told.key, (one, other), told.split, judges, assumed)
    return Tables(tuple(dict.fromkeys(files)), votes, tuple(read.values()), table)


def _of_labellings(workspace: Workspace, loaded: Loaded) -> Tables:
    """A study of labellings or of annotators."""
    read = read_labellings(workspace, loaded)
    return Tables(
        read.files,
        votes=read.votes,
        labellings=read.labellings,
        adjudicated=read.adjudicated,
        swap=read.swap,
        annotators=read.annotators,
        facts=labelling_facts(loaded.model, read),
    )


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


def _refuse_unsided(loaded: Loaded, votes: AnnotationTable) -> None:
    """Refuse votes that do not say which answer, or which model's, is better where that is asked.

    Raises
    ------
    InputError
        Naming what needs it.
    """
    model, told = loaded.model, loaded.model.annotations
    assert told is not None
    sided = votes.labels == SIDES
    board, credit = model.study == "leaderboard", told.gap == "credit"
    at: YamlPath = ("study",)
    found: str = model.study
    if (board or credit) and not (sided and all(v.left is not None for v in votes.votes)):
        if not board:
            at, found = ("annotations", "gap"), "credit"
        what = "needs votes that say which of two models' answers is better"
        remedy = "name `model_a` and `model_b` under `annotations.columns`, and map `labels`"
    elif not sided and model.study in ("judge-pools", "pairwise"):
        what = "compares verdicts on pairs with votes that do not say which answer is better"
        remedy = "map `annotations.labels` to a, b and tie"
    else:
        return
    raise InputError(loaded.problem(what, at, found=found, remedy=remedy))


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
        raise loaded.placed(exc, ("annotations", "sample", "items")) from exc


def _verdicts_alone(workspace: Workspace, loaded: Loaded) -> Tables:
    """A study of pairs whose verdicts are a file."""
    judge = loaded.model.judges[0]
    assert judge.file is not None
    table = load_verdicts(workspace.input(judge.file), form=verdict_form(judge), shown=judge.file)
    items = tuple(
        Item(
            row.name, {}, None, None, row.stratum, row.line, content=sha256_value("pair", row.name)
        )
        for row in table.rows
    )
    outcomes = {
        TrialKey("real", row.name, order, 1): Outcome(side, None, 1)
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
