"""Sentences that every study says beside its numbers, whatever it compares."""

from __future__ import annotations

from prereg_judge.study.masses import FORCED_BELOW, row_masses
from prereg_judge.study.outcomes import StudyInput
from prereg_judge.study.rows import copies, rows_of
from prereg_judge.words import SET_ROLES, SetRole


def common_words(data: StudyInput) -> list[str]:
    """What a reader must know of the rows and calls of a run before quoting a number.

    Parameters
    ----------
    data
        The run.

    Returns
    -------
    list of str
        Set by set: duplicates, missing verdicts, replies forced against the judge's will; then
        groups of calls that were lost. Empty when there is nothing to warn of.
    """
    said = [text for role in SET_ROLES for text in _of_set(data, role)]
    if lost := data.batches_lost:
        groups = "1 group" if lost == 1 else f"{lost} groups"
        said.append(
            f"{groups} of calls hung or crashed as a whole; the calls were made again one by one, "
            "with the same seeds, and no trial is charged with the loss."
        )
    return said


def _of_set(data: StudyInput, role: SetRole) -> list[str]:
    said = []
    rows = rows_of(data, role)
    sizes = copies(rows)
    if sizes and sizes[0] > 1:
        said.append(
            f"The {len(rows)} {role} rows are {len(sizes)} distinct ones (one is there "
            f"{sizes[0]} times); the intervals take every row as independent and are too "
            "narrow for that."
        )
    lacking = sum(v is None for r in rows for v in r.verdicts)
    if lacking:
        said.append(
            f"{lacking} of {len(rows) * data.passes} {role} trials have no verdict "
            f"(registered: missing = {data.missing})."
        )
    masses = row_masses(data, rows)
    if forced := sum(m < FORCED_BELOW for m in masses):
        said.append(
            f"On {forced} of {len(masses)} {role} rows the model gave less than "
            f"{FORCED_BELOW:g} of its probability to what the schema allows (the least: "
            f"{min(masses):.2g}): it was forced against its will there, and would rather have "
            "said something else."
        )
    return said
