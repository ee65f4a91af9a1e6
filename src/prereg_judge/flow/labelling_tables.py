"""What a registration reads of labellings and ratings: spans, labels, votes, an adjudicator's file.

Reads and checks the files, and gives them as the plain values that the two studies take.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from prereg_judge.annotation_form import TableForm
from prereg_judge.annotations import AnnotationTable, load_annotations
from prereg_judge.canon import nfc
from prereg_judge.errors import InputError, raise_all
from prereg_judge.labelled import Duplicates, Labelled
from prereg_judge.labellings.adjudication import load_adjudicated
from prereg_judge.labellings.form import FileForm, LabellingForm, labelling_form_problems
from prereg_judge.labellings.marks import ReadFile
from prereg_judge.labellings.table import LabellingTable, labelled_of, load_labellings
from prereg_judge.rating_tables import (
    Scale,
    ratings_of,
    ratings_of_labellings,
)
from prereg_judge.registration.as_claims import ref_of
from prereg_judge.registration.labelling_refs import LabellingFacts, in_full
from prereg_judge.registration.load import Loaded
from prereg_judge.registration.schema import Registration
from prereg_judge.registration.schema_forms import TableRegistration
from prereg_judge.registration.schema_labellings import Labellings
from prereg_judge.registration.schema_tables import Annotations
from prereg_judge.study.outcomes import AnnotatorsInput, SwapInput
from prereg_judge.workspace import Workspace


@dataclass(frozen=True)
class AdjudicatedLabels:
    """The labels that an adjudicator gave, by item, and the file that they stand in."""

    file: ReadFile
    labels: Mapping[str, str]


@dataclass(frozen=True)
class LabellingTables:
    """Everything that a study of labellings or of annotators reads.

    Attributes
    ----------
    files
        Role and name of each file, as the lock holds them.
    votes, labellings, adjudicated
        The tables as they were read: one of the first two, and the adjudicator's labels.
    swap, annotators
        What the study sees: one of the two.
    """

    files: tuple[tuple[Any, str], ...]
    votes: AnnotationTable | None = None
    labellings: LabellingTable | None = None
    adjudicated: AdjudicatedLabels | None = None
    swap: SwapInput | None = None
    annotators: AnnotatorsInput | None = None


def table_form(told: Annotations) -> TableForm:
    """How a registered table of votes is read."""
    columns = told.columns.model_dump(exclude_none=True) if told.columns else {}
    pools = {pool.name: pool.match for pool in told.pools}
    return TableForm(told.layout, pools, columns, told.labels, told.preference)


def read_labellings(workspace: Workspace, loaded: Loaded) -> LabellingTables:
    """Read every table that a registration of labellings or of annotators names.

    Raises
    ------
    InputError
        If a file cannot be read as registered, or no row carries every output and reference.
    """
    model = loaded.model
    assert isinstance(model, TableRegistration)
    if model.labellings is None:
        return _votes(workspace, model)
    told = model.labellings
    form = _form(told)
    raise_all(
        [
            replace(p, file=loaded.shown, where=f"labellings.{p.where}")
            for p in labelling_form_problems(form)
        ]
    )
    table = load_labellings(form, path_of=workspace.input)
    files = tuple(dict.fromkeys(("labellings", file.shown) for file in table.files))
    if model.study == "reference-swap":
        swap = _swap(loaded, model, table)
        return LabellingTables(files, labellings=table, swap=swap)
    return _annotators(workspace, loaded, model, table, files)


def _form(told: Labellings) -> LabellingForm:
    return LabellingForm(
        told.form,
        tuple(
            FileForm(f.file, f.format, f.labellings, f.item, f.stratum, f.same, f.tags)
            for f in told.files
        ),
    )


def _policy(told: Labellings) -> Duplicates:
    assert told.duplicates is not None  # by the form: of single labels, rows are no copies
    return told.duplicates


def _labelled(loaded: Loaded, table: LabellingTable, merge: Mapping[str, str] | None) -> Labelled:
    try:
        return labelled_of(table, names=table.names, merge=merge)
    except InputError as exc:
        raise loaded.placed(exc, ("merge",)) if merge else exc from exc


def _swap(loaded: Loaded, model: TableRegistration, table: LabellingTable) -> SwapInput:
    told = model.labellings
    assert told is not None
    assert told.outputs is not None
    assert told.references is not None
    assert told.match is not None
    outputs, references = (tuple(map(nfc, names)) for names in (told.outputs, told.references))
    labelled = _labelled(loaded, table, model.merge)
    family = tuple(map(ref_of, model.family or ()))
    swap = SwapInput(labelled, outputs, references, told.match, _policy(told), family)
    if not complete_rows(swap).any():
        numbers = labelled.given.sum(axis=0).tolist()
        used = (*outputs, *references)
        counts = [(n, k) for n, k in zip(labelled.names, numbers, strict=True) if n in used]
        rows = len(labelled.items)
        found = ", ".join(f"{name} on {n} of {rows}" for name, n in counts)
        what = "no row carries every output and reference"
        remedy = "check the names of the items in each file, or leave out what is not there"
        raise InputError(loaded.problem(what, ("labellings",), found=found, remedy=remedy))
    return swap


def complete_rows(swap: SwapInput) -> NDArray[np.bool_]:
    """Rows on which every output and every reference is given, shape (n,)."""
    at = [swap.labelled.names.index(name) for name in (*swap.outputs, *swap.references)]
    return np.asarray(swap.labelled.given[:, at].all(axis=1), dtype=np.bool_)


def _votes(workspace: Workspace, model: TableRegistration) -> LabellingTables:
    """Annotators whose votes are a table."""
    told = model.annotations
    assert told is not None
    table = load_annotations(
        workspace.input(told.file), form=table_form(told), shown=told.file, compared=False
    )
    adjudicated = _adjudication(workspace, model, words=table_form(told).words)
    ratings = ratings_of(
        table,
        key=told.key,
        scale=_scale(model),
        merge=model.merge,
        adjudicated=adjudicated.labels if adjudicated else None,
    )
    return LabellingTables(
        (("annotations", told.file), *_adjudication_file(model)),
        votes=table,
        adjudicated=adjudicated,
        annotators=AnnotatorsInput(ratings=ratings, split=told.split),
    )


def _annotators(
    workspace: Workspace,
    loaded: Loaded,
    model: TableRegistration,
    table: LabellingTable,
    files: tuple[tuple[Any, str], ...],
) -> LabellingTables:
    """Annotators of whom each is a labelling: of spans, or of one label an item."""
    told = model.labellings
    assert told is not None
    pools = {nfc(pool): tuple(map(nfc, names)) for pool, names in told.members().items()}
    if told.form == "spans":
        labelled = _labelled(loaded, table, model.merge)
        data = AnnotatorsInput(labelled=labelled, pools=pools, duplicates=_policy(told))
        return LabellingTables(files, labellings=table, annotators=data)
    adjudicated = _adjudication(workspace, model)
    ratings = ratings_of_labellings(
        table,
        pools=pools,
        scale=_scale(model),
        merge=model.merge,
        adjudicated=adjudicated.labels if adjudicated else None,
    )
    return LabellingTables(
        (*files, *_adjudication_file(model)),
        labellings=table,
        adjudicated=adjudicated,
        annotators=AnnotatorsInput(ratings=ratings),
    )


def _scale(model: TableRegistration) -> Scale | None:
    return Scale(model.scale.order, model.scale.values) if model.scale is not None else None


def _adjudication_file(model: TableRegistration) -> tuple[tuple[Any, str], ...]:
    return (("adjudication", model.adjudication.file),) if model.adjudication else ()


def _adjudication(
    workspace: Workspace, model: TableRegistration, *, words: Mapping[str, str] | None = None
) -> AdjudicatedLabels | None:
    """The adjudicator's labels; `words` are what the words of a table of pairs mean."""
    told = model.adjudication
    if told is None:
        return None
    path = workspace.input(told.file)
    labels = load_adjudicated(path, item=told.item, label=told.label, shown=told.file, words=words)
    return AdjudicatedLabels(ReadFile.of(told.file, path.read_bytes()), labels)


def labelling_facts(model: Registration, tables: LabellingTables) -> LabellingFacts:
    """What a claim may suppose of labellings or ratings."""
    merged = isinstance(model, TableRegistration) and model.merge is not None
    if tables.swap is not None:
        swap = tables.swap
        labelled = swap.labelled
        facts = LabellingFacts(
            study="reference-swap",
            form=labelled.form,
            items=int(complete_rows(swap).sum()),
            untyped=_untyped(labelled),
            outputs=swap.outputs,
            references=swap.references,
            match=swap.match,
            duplicates=swap.duplicates,
            merged=merged,
        )
        return replace(facts, family=frozenset(in_full(ref, facts) for ref in swap.family))
    told = tables.annotators
    assert told is not None
    if told.labelled is not None:
        return LabellingFacts(
            study="annotators",
            form="spans",
            items=len(told.labelled.items),
            ratings=int(told.labelled.given.sum()),
            untyped=_untyped(told.labelled),
            merged=merged,
            annotators=told.labelled.names,
            pools=told.pools,
        )
    ratings = told.ratings
    assert ratings is not None
    return LabellingFacts(
        study="annotators",
        form="labels",
        items=len(ratings.items),
        ratings=len(ratings.item),
        merged=merged,
        annotators=ratings.annotators,
        pools=dict.fromkeys(ratings.pools, ()),
        ordered=ratings.ordered,
        valued=ratings.values is not None,
        adjudicated=ratings.adjudicated is not None,
    )


def _untyped(labelled: Labelled) -> frozenset[str]:
    return frozenset(
        n for n, typed in zip(labelled.names, labelled.typed, strict=True) if not typed
    )
