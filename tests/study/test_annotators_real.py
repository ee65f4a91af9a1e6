"""The study `annotators` on real ratings and spans, read by the package's own readers."""

from __future__ import annotations

import json
import os
from itertools import combinations
from pathlib import Path

import pytest

from prereg_judge.annotation_form import TableForm
from prereg_judge.annotations import load_annotations
from prereg_judge.labellings.form import FileForm, LabellingForm
from prereg_judge.labellings.table import labelled_of, load_labellings
from prereg_judge.rating_tables import ratings_of
from prereg_judge.study import annotators
from prereg_judge.study.annotators_summary import MOST
from prereg_judge.study.outcomes import Resampling, StudyInput
from study.annotators_made import asked, get, marked, value

NAMES = ("A", "B", "C")


def corpus(name: str) -> Path:
    """A file of the corpora; skips where it is not at hand."""
    given = os.environ.get("PREREG_CORPORA")
    folder = Path(given) if given else Path(__file__).parents[3] / "shared" / "data"
    path = folder / name
    if not path.is_file():
        pytest.skip(f"no {name} here: set PREREG_CORPORA")
    return path


@pytest.fixture(scope="module")
def mtbench() -> StudyInput:
    """The human votes of MT-Bench under the unordered key, as ratings."""
    form = TableForm("mt-bench", {pool: (f"{pool}_*",) for pool in ("expert", "author")})
    table = load_annotations(corpus("mtbench/human.jsonl"), form=form, shown="human.jsonl")
    ratings = ratings_of(table, key="unordered", scale=None, merge=None, adjudicated=None)
    return asked(ratings, resampling=Resampling(200, 5))


@pytest.mark.parametrize(("pool", "k", "n"), [("expert", 503, 1428), ("author", 31, 98)])
def test_pairs_of_votes_of_a_pool(mtbench: StudyInput, pool: str, k: int, n: int) -> None:
    """*Whose Gold?*: expert-expert pairs differ in 35.2% of 1,428, author-author in 31.3% of 99.

    One of the 99 is an author's second vote on a pair that was stored both ways round, which agrees
    with the first; a rating counts once here, so 98 are left.
    """
    found = get(mtbench, "agreement.rate", pool=pool)
    assert (found.k, found.n) == (n - k, n)
    assert found.interval is not None
    assert found.interval.low < 1 - k / n < found.interval.high


def test_one_author_voted_twice_on_a_pair() -> None:
    """The pair that the published 99 has and the study has not is the same author's, alike."""
    votes: dict[tuple[object, ...], list[str]] = {}
    for line in corpus("mtbench/human.jsonl").read_text(encoding="utf-8").splitlines():
        vote = json.loads(line)
        models = (vote["model_a"], vote["model_b"])
        key = (vote["judge"], vote["question_id"], vote["turn"], *sorted(models))
        # The model that won, or tie.
        votes.setdefault(key, []).append(str(vote.get(vote["winner"], vote["winner"])))
    twice = {key: given for key, given in votes.items() if len(given) > 1}
    of_authors = [given for key, given in twice.items() if str(key[0]).startswith("author")]
    assert len(of_authors) == len(twice) == 1
    assert of_authors[0][0] == of_authors[0][1]


def test_a_report_of_sixty_five_annotators(mtbench: StudyInput) -> None:
    """The list stays short, no pair of annotators is in it, and the sentences say so."""
    found = annotators.summary(mtbench)
    assert 0 < len(found) <= MOST
    assert not any("annotator" in dict(m.ref.params) for m in found)
    said = " ".join(annotators.plain_words(mtbench))
    assert "pairs of the 65 annotators" in said
    for pool in ("expert", "author"):
        assert f"the pool `{pool}`" in said


@pytest.fixture(scope="module")
def spans() -> StudyInput:
    """Three annotators' spans of toxic comments."""
    path = corpus("spans/toxic_spans.jsonl")
    places = {name: f"labellings.{name}" for name in NAMES}
    file = FileForm(path.name, "rows", places, item="id", stratum="stratum")
    table = load_labellings(LabellingForm("spans", (file,)), path_of=lambda _: path)
    labelled = labelled_of(table, names=NAMES, merge=None)
    return marked(labelled, resampling=Resampling(200, 5))


@pytest.mark.parametrize("match", ["strict", "relaxed"])
def test_three_annotators_of_spans(spans: StudyInput, match: str) -> None:
    """F1 of every pair and of all together are those of sets of spans read from the file."""
    rows = [
        json.loads(line)["labellings"]
        for line in corpus("spans/toxic_spans.jsonl").read_text(encoding="utf-8").splitlines()
    ]
    width = 3 if match == "strict" else 2
    sums = {}
    for one, two in combinations(NAMES, 2):
        shared = sizes = 0
        for row in rows:
            if row.get(one) is None or row.get(two) is None:
                continue
            a, b = ({tuple(span[:width]) for span in row[name]} for name in (one, two))
            shared, sizes = shared + len(a & b), sizes + len(a) + len(b)
        sums[one, two] = (shared, sizes)
        found = get(spans, "f1.pair", annotator=one, other=two, match=match)
        assert found.value == pytest.approx(2 * shared / sizes, abs=1e-12)
        assert found.interval is not None
        assert found.interval.low < 2 * shared / sizes < found.interval.high
    every = [sum(x) for x in zip(*sums.values(), strict=True)]
    assert value(spans, "f1", match=match) == pytest.approx(2 * every[0] / every[1], abs=1e-12)


def test_confused_types_of_real_spans(spans: StudyInput) -> None:
    """The sentences name the types that are confused most, and why nothing is corrected."""
    said = annotators.plain_words(spans)
    assert "true negatives" in said[0]
    confusions = annotators.view(spans).confusions
    assert confusions[0].pairs >= confusions[-1].pairs > 0
    assert f"`{confusions[0].labels[0]}` and `{confusions[0].labels[1]}`" in said[1]
    assert {m.ref.name for m in annotators.summary(spans)} == {
        "items.count", "ratings.count", "f1", "f1.pair",
    }  # fmt: skip
