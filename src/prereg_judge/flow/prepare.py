"""A registration with everything that it names but the model, checked against each other.

Used alike by `check`, `lock`, `run` and `score`. What the model makes of it is in `prompts`.
"""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TypeVar

from prereg_judge.errors import (
    InputError,
    IntegrityError,
    PreregError,
    Problem,
    UsageError,
    raise_all,
)
from prereg_judge.flow.earlier import earlier_runs
from prereg_judge.flow.guards import judge_problems, plan_problems
from prereg_judge.flow.judge_tables import own_judge
from prereg_judge.flow.labelling_files import brat_folders
from prereg_judge.flow.settings import decoding_of, every_setting
from prereg_judge.flow.tables import Tables, read_tables, table_facts
from prereg_judge.items import ItemSet, load_items
from prereg_judge.judge import Judge, check_items, load_judge, no_judge
from prereg_judge.ledger.book import Ledger
from prereg_judge.ledger.events import versions
from prereg_judge.plan import Plan
from prereg_judge.registration.advice import advice
from prereg_judge.registration.as_claims import ref_of
from prereg_judge.registration.claims import Claims
from prereg_judge.registration.labelling_refs import in_full
from prereg_judge.registration.lint import Facts, lint
from prereg_judge.registration.load import Loaded, load_registration
from prereg_judge.registration.refs import check_ref
from prereg_judge.registration.schema import Registration
from prereg_judge.registration.schema_forms import TableRegistration
from prereg_judge.registration.schema_model import LocalModel
from prereg_judge.strict_yaml import YamlPath
from prereg_judge.study.kinds import Study, study_of
from prereg_judge.study.metric import Catalogue, MetricRef
from prereg_judge.study.outcomes import EarlierRun
from prereg_judge.withheld import FILE as WITHHELD
from prereg_judge.withheld import load_withheld
from prereg_judge.wording import not_a_file
from prereg_judge.words import Order, SetRole
from prereg_judge.workspace import Workspace

T = TypeVar("T")

_FILE_KINDS = {
    "annotations": "the file of votes",
    "judges": "the file of verdicts",
    "labellings": "the file of labellings",
    "adjudication": "the file of the adjudicator's labels",
}
_MOST_FILES = 1_000  # names that a misspelled path is compared with


@dataclass(frozen=True)
class Inputs:
    """A registration and its inputs, without the model."""

    workspace: Workspace
    loaded: Loaded
    judge: Judge
    sets: tuple[ItemSet, ...]
    catalogue: Catalogue
    earlier: dict[str, EarlierRun]
    facts: Facts
    tables: Tables

    @property
    def model(self) -> Registration:
        """The registration's content."""
        return self.loaded.model

    @property
    def claims(self) -> Claims:
        """What it commits to."""
        return self.loaded.claims

    @cached_property
    def plan(self) -> Plan:
        """Its trials, in order."""
        protocol = self.model.protocol
        return Plan(self.called_sets, orders=protocol.orders, passes=protocol.passes)

    @property
    def called_sets(self) -> tuple[ItemSet, ...]:
        """The item sets that the judge is called on; none where verdicts are read from a table."""
        return self.sets if self.model.calls else ()

    @property
    def orders(self) -> tuple[Order, ...]:
        """The orders in which pairs were shown."""
        return self.tables.orders or self.model.protocol.orders

    @cached_property
    def advice(self) -> tuple[Problem, ...]:
        """What stands in no way of a lock and is most likely not meant, in the file's order."""
        loaded = self.loaded
        return advice(
            loaded.claims,
            catalogue=self.catalogue,
            facts=self.facts,
            file=loaded.shown,
            line_of=loaded.document.line_of,
        )

    @property
    def study(self) -> Study:
        """The kind of study that it registers."""
        return study_of(self.model.study)


def refuse_without_calls(inputs: Inputs, what: str, *, remedy: str) -> None:
    """Refuse a registration that runs no judge, for what has no sense without one.

    Raises
    ------
    UsageError
        With what it is, after "makes no call", and the remedy.
    """
    if not inputs.model.calls:
        raise UsageError(Problem(f"makes no call{what}", inputs.loaded.shown, remedy=remedy))


def read_inputs(workspace: Workspace, ident: str, *, version: int = 1) -> Inputs:
    """Read a version of a registration, its judge and its items, and check them together.

    Raises
    ------
    InputError
        With every problem found, each file's together.
    IntegrityError
        If the record of an earlier run that it names was changed.
    """
    path = workspace.known(ident) if version == 1 else workspace.registration(ident, version)
    loaded = load_registration(path, shown=workspace.shown(path))
    return complete(workspace, loaded, ident=ident, version=version)


def complete(workspace: Workspace, loaded: Loaded, *, ident: str, version: int = 1) -> Inputs:
    """`read_inputs` for a registration that has been read already."""
    model = loaded.model
    if model.id != ident:
        what = "the id inside differs from the file's name"
        raise InputError(loaded.problem(what, ("id",), found=repr(model.id)))
    problems: list[Problem] = []

    def collected(read: Callable[[], T]) -> T | None:
        try:
            return read()
        except IntegrityError:
            raise
        except PreregError as exc:
            problems.extend(exc.problems)
            return None

    judge = collected(lambda: _judge(workspace, loaded)) if model.calls else no_judge()
    named: list[tuple[SetRole, str | None]] = [
        ("sentinel", model.items.sentinel),
        ("real", model.items.real),
    ]
    found = [
        collected(lambda r=r, f=f: _item_set(workspace, loaded, f, role=r))  # type: ignore[misc]
        for r, f in named
        if f is not None
    ]
    events = Ledger(workspace.ledger, workspace.shown(workspace.ledger)).events(ident)
    pinned = len(versions(events)) >= version  # a version that is not locked yet is read anew
    earlier = collected(lambda: earlier_runs(workspace, loaded.claims, pinned=pinned))
    tables = collected(lambda: _tables(workspace, loaded, pinned=pinned))
    raise_all(problems)
    assert judge is not None
    assert earlier is not None
    assert tables is not None
    sets = (*(s for s in found if s is not None), *tables.sets)
    with_text = [s for s in sets if s.file not in workspace.withheld]
    raise_all([*plan_problems(loaded, sets), *judge_problems(loaded, judge)])
    if model.calls:
        raise_all(check_items(judge, with_text))
    study = study_of(model.study)
    votes = tables.table is not None
    catalogue = study.metrics([s.role for s in sets], votes=votes, calls=model.calls)
    facts = _facts(model, judge=judge, sets=sets, earlier=earlier)
    facts = replace(
        facts,
        orders=tables.orders or model.protocol.orders,
        resolve=model.resolve,
        verdicts=facts.verdicts or tuple(tables.scale.sides if tables.scale else ()),
        parameters=_parameters(study, model, tables),
        tables=table_facts(tables),
        labellings=tables.facts,
    )
    raise_all(_family_problems(loaded, catalogue, facts))
    raise_all(
        lint(
            loaded.claims,
            catalogue=catalogue,
            facts=facts,
            file=loaded.shown,
            line_of=loaded.document.line_of,
        )
    )
    raise_all(_rows_of_earlier(sets, earlier, loaded.shown))
    return Inputs(workspace, loaded, judge, sets, catalogue, earlier, facts, tables)


def _family_problems(loaded: Loaded, catalogue: Catalogue, facts: Facts) -> list[Problem]:
    """What is wrong with the tests of the registered family, each where it stands."""
    model = loaded.model
    family = model.family or () if isinstance(model, TableRegistration) else ()
    problems: list[Problem] = []
    seen: dict[MetricRef, int] = {}
    for at, member in enumerate(family):
        ref = ref_of(member)
        troubles = check_ref(ref, catalogue=catalogue, facts=facts)
        problems += [
            loaded.problem(t.what, ("family", at, t.key), remedy=t.remedy) for t in troubles
        ]
        assert facts.labellings is not None
        first = seen.setdefault(in_full(ref, facts.labellings), at)
        if first != at and not troubles:
            what = f"is the test `family[{first}]` again: what is left out there is named here"
            remedy = "name each once: the family's size changes every p"
            problems.append(loaded.problem(what, ("family", at), found=str(ref), remedy=remedy))
    return problems


def _parameters(study: Study, model: Registration, tables: Tables) -> dict[str, tuple[str, ...]]:
    """Known values of the parameters that are about tables."""
    read = tables.swap or tables.annotators
    if read is not None:
        return study.parameters(read)
    if tables.table is None:
        return {}
    known = study.parameters(tables.table)
    own = tuple(map(own_judge, range(1, model.protocol.passes + 1)))
    return {**known, "judge": own} if model.calls else known


def _tables(workspace: Workspace, loaded: Loaded, *, pinned: bool) -> Tables:
    """What is read from tables; a name of no file is refused where the registration gives it."""
    model = loaded.model
    if model.annotations is not None:
        file = model.annotations.file
        _refuse_absent(workspace, loaded, ("annotations", "file"), file=file)
    for at, judge in enumerate(model.judges):
        if judge.file is not None:
            _refuse_absent(workspace, loaded, ("judges", at, "file"), file=judge.file)
    if isinstance(model, TableRegistration):
        if model.adjudication is not None:
            file = model.adjudication.file
            _refuse_absent(workspace, loaded, ("adjudication", "file"), file=file)
        _refuse_absent_labellings(workspace, loaded, model)
    return read_tables(workspace, loaded, pinned=pinned)


def _refuse_absent_labellings(
    workspace: Workspace, loaded: Loaded, model: TableRegistration
) -> None:
    """As `_refuse_absent`, of files of labellings and of folders of them."""
    for at, told in enumerate(model.labellings.files if model.labellings else ()):
        here: YamlPath = ("labellings", "files", at)
        if told.format != "brat":
            _refuse_absent(workspace, loaded, (*here, "file"), file=told.file)
            continue
        places = [(told.file, (*here, "file"))]
        places += [(f, (*here, "labellings", n)) for n, f in brat_folders(told)]
        for folder, place in places:
            path = workspace.input(folder)
            if path.is_dir():
                continue
            why = "is a file, not a folder" if path.exists() else "does not exist"
            beside = [p for p in path.parent.glob("*/") if path.parent.is_dir()]
            names = [workspace.shown(p) for p in beside]
            near = difflib.get_close_matches(folder, names, n=3, cutoff=0.6)
            remedy = f"did you mean {' or '.join(near)}?" if near else "check the path"
            what = f"the folder of labellings {why}"
            raise InputError(loaded.problem(what, place, found=folder, remedy=remedy))


def _judge(workspace: Workspace, loaded: Loaded) -> Judge:
    file = loaded.model.judge
    _refuse_absent(workspace, loaded, ("judge",), file=file)
    return load_judge(workspace.input(file), shown=file)


def _item_set(workspace: Workspace, loaded: Loaded, file: str, *, role: SetRole) -> ItemSet:
    if file in workspace.withheld:
        return load_withheld(workspace.root / WITHHELD, role=role, shown=file)
    _refuse_absent(workspace, loaded, ("items", role), file=file)
    return load_items(workspace.input(file), role=role, shown=file)


def _refuse_absent(workspace: Workspace, loaded: Loaded, at: YamlPath, *, file: str) -> None:
    """Refuse a name of no file where the registration gives it, with the nearest that there is."""
    why = not_a_file(workspace.input(file))
    if why is None:
        return
    near = difflib.get_close_matches(file, _files_beside(workspace, file), n=3, cutoff=0.6)
    remedy = f"did you mean {' or '.join(near)}?" if near else "check the path"
    kind = _FILE_KINDS.get(str(at[0]), f"the {str(at[0]).removesuffix('s')} file")
    raise InputError(loaded.problem(f"{kind} {why}", at, found=file, remedy=remedy))


def _files_beside(workspace: Workspace, file: str) -> list[str]:
    """Files with the same ending, as a registration names them: where it looks, and near it."""
    root = workspace.root
    kept = (root / "registrations", root / "runs")
    beside = [p for p in root.glob("*/") if p not in kept and not p.name.startswith(".")]
    folders = dict.fromkeys([workspace.input(file).parent, root, *beside])
    names: list[str] = []
    for folder in folders:
        found: list[Path] = sorted(folder.glob("*")) if folder.is_dir() else []
        right = (p for p in found if p.suffix == Path(file).suffix and p.is_file())
        names += [workspace.shown(p) for p in right]
    return names[:_MOST_FILES]


def _facts(
    model: Registration, *, judge: Judge, sets: Sequence[ItemSet], earlier: dict[str, EarlierRun]
) -> Facts:
    settings = every_setting(model)
    return Facts(
        verdicts=tuple(judge.spec.verdicts),
        table={s.role: dict(Counter((i.kind, i.stratum, i.label) for i in s.items)) for s in sets},
        passes=model.protocol.passes,
        from_runs={name: run.passes for name, run in earlier.items()},
        given=dict(_given(sets, earlier)),
        missing=model.missing,
        ships=judge.spec.ships,
        trials=model.protocol.passes
        * len(model.protocol.orders)
        * (sum(len(s.items) for s in sets) if model.calls else 0),
        retries=model.protocol.hang.retries,
        stops=bool(model.stop),
        paths=tuple(s.path for s in settings),
        decoding=decoding_of(model),
        server=not isinstance(model.model, LocalModel),
        thinking=model.protocol.thinking is not None,
        parallel=max(s.parallel for s in settings),
    )


def _given(
    sets: Sequence[ItemSet], earlier: dict[str, EarlierRun]
) -> Counter[tuple[str, int, SetRole, str]]:
    """How often each earlier run gave each verdict to rows of each set."""
    rows = {(s.role, i.id) for s in sets for i in s.items}
    return Counter(
        (name, number, role, verdict)
        for name, run in earlier.items()
        for (role, item_id, number), verdict in run.verdicts.items()
        if verdict is not None and (role, item_id) in rows
    )


def _rows_of_earlier(
    sets: Sequence[ItemSet], earlier: dict[str, EarlierRun], shown: str
) -> list[Problem]:
    """A comparison pairs rows by id, which is sound only when the item file is the same."""
    problems = []
    for name, run in earlier.items():
        for item_set in sets:
            before = run.items.get(item_set.role)
            if before is not None and before != item_set.sha256:
                what = f"the earlier run {name!r} judged other rows than those of {item_set.file}"
                remedy = "compare runs over the same, unchanged item file"
                found = f"SHA-256 {before[:12]} then, {item_set.sha256[:12]} now"
                problems.append(Problem(what, shown, where="from_run", found=found, remedy=remedy))
    return problems
