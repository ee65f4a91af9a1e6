"""What a heading says of labellings and ratings that were read: which, how many, by which rules."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from prereg_judge.flow.labelling_tables import complete_rows
from prereg_judge.flow.tables import Tables
from prereg_judge.labelled import Labelled
from prereg_judge.registration.as_claims import ref_of
from prereg_judge.registration.schema import STUDIES_OF_LABELLINGS, Registration
from prereg_judge.registration.schema_forms import TableRegistration
from prereg_judge.report.numbers import of_things, plain
from prereg_judge.study.outcomes import SwapInput
from prereg_judge.wording import listed


def labelling_words(model: Registration, tables: Tables) -> dict[str, str]:
    """Named facts of a study of labellings or of annotators; none of another study.

    Parameters
    ----------
    model
        The registration.
    tables
        What was read by it.
    """
    if not isinstance(model, TableRegistration) or model.study not in STUDIES_OF_LABELLINGS:
        return {}
    facts = _read(model, tables)
    if tables.swap is not None:
        facts |= _of_swap(model, tables.swap)
    else:
        facts |= _of_annotators(model, tables)
    if model.merge is not None:
        facts["map"] = ", ".join(f"{fine or '(empty)'} → {c}" for fine, c in model.merge.items())
    return facts


def _read(model: TableRegistration, tables: Tables) -> dict[str, str]:
    """The files, and what of them is not used."""
    if tables.labellings is not None and model.labellings is not None:
        table = tables.labellings
        files = ", ".join(f"{file.file} ({file.format})" for file in model.labellings.files)
        of = f"{of_things(len(table.rows), 'row')} of {table.form}"
        return {"labellings": f"{files}; {of} by {', '.join(table.names)}{_left(table.left_out)}"}
    if tables.votes is not None and model.annotations is not None:
        votes, told = tables.votes, model.annotations
        text = f"{told.file} ({len(votes.votes)} votes{_left(votes.left_out)})"
        return {"votes": text, "key": f"{told.key}; equal votes: {told.split}"}
    return {}


def _left(left_out: Mapping[str, int]) -> str:
    return "".join(f"; left out: {n} ({why})" for why, n in left_out.items())


def _of_swap(model: TableRegistration, swap: SwapInput) -> dict[str, str]:
    """What is scored against what, on which rows, by which rules."""
    labelled, every = swap.labelled, len(swap.labelled.items)
    used = int(np.count_nonzero(complete_rows(swap)))
    lost = "" if used == every else "; on the others an output or a reference is not given"
    first, *others = swap.references
    first += "" if first == "delivered" else " (delivered)"
    facts = {
        "scored": f"{used} of {every} rows{lost}",
        "outputs": ", ".join(swap.outputs),
        "references": f"{first}, {', '.join(others)}",
        "match": swap.match,
        "duplicates": f"{swap.duplicates}; {_copies(labelled)}",
    }
    if swap.family:
        tests = ", ".join(str(ref_of(member)) for member in model.family or ())
        facts["family"] = f"{of_things(len(swap.family), 'test')} (Holm): {tests}"
    return facts


def _copies(labelled: Labelled) -> str:
    if not labelled.copies:
        return "no copies"
    items = of_things(len(np.unique(labelled.unit)), "item")
    return f"{labelled.copies} rows are copies; {items} are resampled, each with all of its rows"


def _of_annotators(model: TableRegistration, tables: Tables) -> dict[str, str]:
    """Who rated or marked what, and what is known of the labels."""
    told = tables.annotators
    assert told is not None
    facts = {}
    if told.labelled is not None:
        pools = "; ".join(f"{pool}: {', '.join(names)}" for pool, names in told.pools.items())
        facts["pools"] = pools
        facts["duplicates"] = f"{told.duplicates}; {_copies(told.labelled)}"
    elif told.ratings is not None:
        ratings = told.ratings
        by = of_things(len(ratings.annotators), "annotator")
        of = f"{of_things(len(ratings.item), 'rating')} of {of_things(len(ratings.items), 'item')}"
        facts["ratings"] = f"{of} by {by}, in {of_things(len(ratings.pools), 'pool')}"
        given = len(tables.votes.votes) if tables.votes is not None else len(ratings.item)
        if twice := given - len(ratings.item):
            facts["voted twice"] = (
                f"{of_things(twice, 'vote')} by an annotator who had judged the same item, the "
                "other way round: the first counts"
            )
    if model.scale is not None:
        values = model.scale.values
        facts["scale"] = (
            ", ".join(f"{label} = {plain(number)}" for label, number in values.items())
            if values is not None
            else " < ".join(model.scale.order or ())
        )
    if model.adjudication is not None and tables.adjudicated is not None:
        n = of_things(len(tables.adjudicated.labels), "label")
        facts["adjudication"] = f"{model.adjudication.file} ({n}{_new_labels(tables)})"
    return facts


def _new_labels(tables: Tables) -> str:
    """The adjudicator's labels that no annotator gave, which may be slips of the pen."""
    told = tables.annotators
    if told is None or told.ratings is None or told.ratings.adjudicated is None:
        return ""
    ratings = told.ratings
    by_hand = set(np.unique(told.ratings.adjudicated).tolist()) - {-1}
    new = sorted(ratings.labels[at] for at in by_hand - set(np.unique(ratings.label).tolist()))
    return f"; given by no annotator: {listed(new, most=5)}" if new else ""
