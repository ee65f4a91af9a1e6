"""Judges whose verdicts are compared with votes: of a file, an earlier run, or the run itself.

Gives each judge's verdicts in the order of the voted items. Knows no metrics.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from prereg_judge.annotations import AnnotationTable, keyed_items
from prereg_judge.errors import InputError, IntegrityError, Problem
from prereg_judge.flow.earlier import read_earlier
from prereg_judge.judge import load_judge
from prereg_judge.registration.load import Loaded
from prereg_judge.registration.lock import parse_lock
from prereg_judge.registration.schema_tables import JudgeTable
from prereg_judge.strict_yaml import YamlPath
from prereg_judge.study.outcomes import EarlierRun, Outcome, PairScale, TableInput, TrialKey
from prereg_judge.verdict_tables import VerdictForm, VerdictRow
from prereg_judge.votes import (
    MISSING,
    PAIR_KEYS,
    SIDE_VALUES,
    PairKey,
    SlotVerdicts,
    VoteCounts,
)
from prereg_judge.words import Order
from prereg_judge.workspace import Workspace


@dataclass(frozen=True)
class Judged:
    """A judge's verdicts on a pair, as sides on its scale (`SlotVerdicts`), by the pair's name."""

    item: str
    left: str | None
    right: str | None
    ab: int | None
    ba: int | None


def verdict_form(judge: JudgeTable) -> VerdictForm:
    """How a registered file of verdicts is read."""
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


def rows_of_run(
    workspace: Workspace, loaded: Loaded, judge: JudgeTable, at: YamlPath, *, pinned: bool
) -> tuple[Judged, ...]:
    """The verdicts of a pass of an earlier run, mapped back to the answers."""
    assert judge.run is not None
    assert judge.pass_ is not None

    def wrong(what: str, key: str, found: object, remedy: str) -> InputError:
        return InputError(loaded.problem(what, (*at, key), found=str(found), remedy=remedy))

    try:
        run = read_earlier(workspace, judge.run, pinned=pinned)
    except InputError as exc:
        raise loaded.placed(exc, (*at, "run")) from exc
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
        Judged(item, None, None, said.get("ab"), said.get("ba")) for item, said in found.items()
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


def judged(row: VerdictRow) -> Judged:
    """A row of a file of verdicts, on a scale of three points."""
    ab, ba = (None if side is None else SIDE_VALUES[side] for side in (row.ab, row.ba))
    return Judged(row.item, row.left, row.right, ab, ba)


def matched(
    judge: str,
    rows: tuple[Judged, ...],
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


def _turned(side: int) -> int:
    return side if side == MISSING else -side


def own_verdicts(
    table: TableInput | None,
    votes: AnnotationTable | None,
    outcomes: Mapping[TrialKey, Outcome],
    *,
    pair: PairScale | None,
    passes: int,
) -> TableInput | None:
    """The votes, with the run's own verdicts on the real items as judges, one a pass.

    They are called `pass-1`, `pass-2` and so on. None where the registration reads no votes.
    """
    if table is None or votes is None or pair is None or table.judges:
        return table
    judges = {}
    for number in range(1, passes + 1):
        sides: dict[str, dict[Order, int]] = {}
        for key, outcome in outcomes.items():
            if key.set == "real" and key.pass_no == number and outcome.verdict is not None:
                sides.setdefault(key.item_id, {})[key.order] = pair.sides[outcome.verdict]
        rows = tuple(
            Judged(item, None, None, said.get("ab"), said.get("ba")) for item, said in sides.items()
        )
        name = own_judge(number)
        judges[name] = {k: matched(name, rows, votes, table.counts[k], k) for k in PAIR_KEYS}
    return replace(table, judges=judges)


def own_judge(pass_no: int) -> str:
    """What a pass of a run is called among the judges that are compared with pools."""
    return f"pass-{pass_no}"


def refuse_unnamed(
    loaded: Loaded, at: YamlPath, rows: tuple[Judged, ...], votes: AnnotationTable
) -> None:
    """Refuse verdicts that name no models where an item's name does not say which pair it is."""
    if votes.plain or all(row.left is not None for row in rows):
        return
    what = f"names no models, and {votes.file} has several pairs of models on one item"
    remedy = "name the columns of the two models under `models`"
    raise InputError(loaded.problem(what, at, remedy=remedy))


def refuse_none_in_common(loaded: Loaded, at: YamlPath, verdicts: SlotVerdicts, votes: str) -> None:
    """Refuse a judge that says nothing about any of the voted items."""
    if (verdicts.ab == MISSING).all() and (verdicts.ba == MISSING).all():
        what = f"has no verdict on any item of {votes}"
        remedy = "check the columns that name the item: both files must name it alike"
        found = repr(verdicts.name)
        raise InputError(loaded.problem(what, at, found=found, remedy=remedy))
