"""The human votes of MT-Bench as the studies of tables get them."""

from __future__ import annotations

import os
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from prereg_judge.annotation_form import TableForm
from prereg_judge.annotations import load_annotations
from prereg_judge.study.outcomes import Assumed, Resampling, StudyInput, TableInput
from prereg_judge.tallies import credit_gaps, tally
from prereg_judge.votes import PAIR_KEYS, PairKey, VoteCounts
from study.pools_made import study_input

POOLS = ("expert", "author")


@cache
def counts() -> dict[PairKey, VoteCounts]:
    """The votes under both keys; skips where the corpus is not at hand."""
    corpora = os.environ.get("PREREG_CORPORA")
    folder = Path(corpora) if corpora else Path(__file__).parents[3] / "shared" / "data"
    path = folder / "mtbench" / "human.jsonl"
    if not path.is_file():
        pytest.skip("the human votes of MT-Bench are not here: set PREREG_CORPORA")
    form = TableForm(layout="mt-bench", pools={p: (f"{p}_*",) for p in POOLS})
    table = load_annotations(path, form=form, shown="human.jsonl")
    return {key: tally(table, key=key, pools=POOLS) for key in PAIR_KEYS}


def mtbench(*, resamples: int = 200, assumed: Assumed | None = None) -> StudyInput:
    """The votes as a study gets them, under the stored key."""
    table = TableInput(counts(), "stored", POOLS, "tie", assumed=assumed)
    return study_input(table, resampling=Resampling(resamples, 5))


def with_gaps() -> dict[PairKey, VoteCounts]:
    """The votes with the distance of the two models' mean credit as gap of each item."""
    return {key: replace(votes, gaps=credit_gaps(votes)) for key, votes in counts().items()}
