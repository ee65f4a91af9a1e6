"""Studies of labellings and of annotators through the commands, with files of each format.

What is locked is what is read; a claim that cannot fail, or names what is not there, is refused;
nothing passes on nothing.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from labelling_work import (
    ADJUDICATED,
    AGREED,
    DELTA,
    F1,
    FORMATS,
    LABELS_FILE,
    MARKS,
    NAMES,
    ROWS_FILE,
    SCALE,
    SETTLED,
    VOTES_FILE,
    Format,
    files_of,
    label_keys,
    lock_of,
    locked,
    span_keys,
    swap_keys,
    vote_keys,
    write_annotators,
    write_labels,
    write_spans,
    write_swap,
)
from support import prereg
from tabling import band, claim, outcomes, refused, score, scored

VOTED: dict[str, Any] = {"scale": SCALE, "adjudication": SETTLED}


def valued(found: Any) -> None:
    """Every metric of a score has a value or a typed reason, and none is left uncomputed but a
    p-value of resamples that are all alike.
    """
    for each in found["metrics"]:
        assert (each["value"] is None) != (each["undefined"] is None), each
        alike = "give the same value" in (each["note"] or "")
        assert alike or each["undefined"] != "not_computed", each


def through(root: Path, *, code: int = 0) -> Any:
    """Lock, run, score, verify and bundle `x`; verify the bundle elsewhere; the score."""
    found = scored(locked(root), "x", code=code)
    valued(found)
    assert prereg("verify", "x", root=root).code == 0
    archive = root.parent / "b.zip"
    assert prereg("bundle", "x", "--out", str(archive), root=root).code == 0
    empty = root.parent / "empty"
    empty.mkdir()
    told = prereg("verify", str(archive), root=empty)
    assert told.code == 0, told
    assert "the same verdict and every number as scored" in told.out
    shutil.unpack_archive(archive, root.parent / "again", "zip")
    assert score(root.parent / "again", "x", code=code)["metrics"] == found["metrics"]
    return found


# --- The whole way --------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", FORMATS)
def test_exchanged_references(kind: Format, tmp_path: Path) -> None:
    """From each format of file: the delivered reference favours A, every file is in the lock, and a
    bundle verifies and scores alike elsewhere.
    """
    root = tmp_path / "w"
    write_spans(root, kind)
    family = [{"metric": "delta", "output": "A"}, {"metric": "interaction"}]
    claims = [DELTA, band("holm", "delta.p_holm", [0, 0.5], output="A")]
    write_swap(root, kind=kind, family=family, bands=claims, primary="delta")
    found = through(root)
    assert claim(found, "delta")["observed"][0]["value"] == pytest.approx(7 / 11)
    roles = [e["role"] for e in lock_of(root)["inputs"]]
    files = {"rows": 1, "conll": 1, "brat": 2 * len(MARKS) * len(NAMES)}
    assert roles == ["labellings"] * files[kind]


@pytest.mark.parametrize("kind", FORMATS)
def test_annotators_of_spans(kind: Format, tmp_path: Path) -> None:
    """Pairwise F1 over all annotators and within a pool, from each format of file."""
    root = tmp_path / "w"
    write_spans(root, kind)
    claims = [F1, band("near", "f1", [0.5, 0.99], match="strict", pool="near")]
    write_annotators(root, labellings=span_keys(kind), bands=claims, primary="f1")
    found = through(root)
    assert set(outcomes(found).values()) == {"inside"}


@pytest.mark.parametrize("source", ["votes", "labels"])
def test_annotators_of_labels(source: str, tmp_path: Path) -> None:
    """A table of votes and files of labels give the same agreement, with scale and adjudicator."""
    root = tmp_path / "w"
    write_labels(root)
    keys: dict[str, Any] = {} if source == "votes" else {"labellings": label_keys()}
    claims = [
        AGREED,
        band("kappa", "kappa.weighted", [-0.5, 0.99], annotator="A", other="B", weights="linear"),
        band("alpha", "alpha", [0, 0.99], level="interval"),
        band("settled", "resolved.count", [2, 7], policy="adjudicated"),
    ]
    write_annotators(root, bands=claims, primary="agreed", merge={"mid": "low"}, **VOTED, **keys)
    found = through(root)
    assert claim(found, "agreed")["observed"][0]["value"] == pytest.approx(28 / 48)
    roles = [(e["role"], e["name"]) for e in lock_of(root)["inputs"]]
    table = ("annotations", VOTES_FILE) if source == "votes" else ("labellings", LABELS_FILE)
    assert roles == [table, ("adjudication", ADJUDICATED)]


def test_labels_as_outputs_and_references(tmp_path: Path) -> None:
    """A single label is one mark of its item: F1 is the share of labels that are alike."""
    root = tmp_path / "w"
    write_labels(root)
    keys = label_keys(outputs=["A", "B"], references=["gold", "C"], match="strict",
                      duplicates="keep_all")  # fmt: skip
    claims = [band("f1", "f1", [0.5, 0.99], output="A", reference="gold")]
    write_swap(root, labellings=keys, bands=claims)
    assert claim(through(root), "f1")["observed"][0]["value"] == 7 / 8


def test_files_of_several_formats(tmp_path: Path) -> None:
    """Labellings of one item may stand in different files, joined by the item's name."""
    root = tmp_path / "w"
    for kind in FORMATS:
        write_spans(root, kind)
    rows, conll, _ = (files_of(kind)[0] for kind in FORMATS)
    rows["labellings"] = {name: f"by.{name}" for name in ("A", "B", "gold")}
    conll["labellings"] = {"C": 5}
    # Offsets of words and of characters never match, so the alternative is at 0.
    write_swap(root, labellings=swap_keys(files=[rows, conll]), bands=[DELTA])
    found = scored(locked(root), "x")
    assert {e["name"] for e in lock_of(root)["inputs"]} == {rows["file"], conll["file"]}
    assert claim(found, "delta")["outcome"] == "inside"


def test_an_amendment(tmp_path: Path) -> None:
    """Another band is shown post hoc; other references are another question."""
    root = tmp_path / "w"
    write_spans(root, "rows")
    write_swap(root, bands=[band("delta", "delta", [-0.9, 0.1], output="A")])
    assert scored(locked(root), "x", code=1)["verdict"] == "FAIL"
    command = ("amend", "x", "--reason", "the bar was wrong")
    path = root / "registrations/x.v2.yaml"
    assert prereg(*command, root=root).code == 0
    path.write_text(path.read_text("utf-8").replace("- 0.1\n", "- 0.9\n", 1), encoding="utf-8")
    done = prereg(*command, root=root)
    assert done.code == 0, done
    path = root / "registrations/x.v3.yaml"
    assert prereg(*command, root=root).code == 0
    path.write_text(path.read_text("utf-8").replace("match: relaxed", "match: strict"), "utf-8")
    assert prereg(*command, root=root).code == 0
    second, third = score(root, "x", "--run", "1", code=1)["post_hoc"]
    assert second["verdict"] == "PASS"
    assert third["verdict"] is None
    assert "another labellings" in third["not_applied"]


# --- Nothing passes on nothing --------------------------------------------------------------------


@pytest.mark.parametrize("study", ["swap", "annotators"])
def test_nothing_is_marked(study: str, tmp_path: Path) -> None:
    """Where no labelling marks anything, all agree exactly, and nothing passes."""
    write_spans(tmp_path, "rows", {item: {n: [] for n in NAMES} for item in MARKS})
    if study == "swap":
        exact = band("exact", "exact.rate", [0.5, 1], output="A", reference="gold")
        write_swap(tmp_path, bands=[exact])
    else:
        write_annotators(tmp_path, labellings=span_keys(), bands=[F1])
    found = scored(locked(tmp_path), "x", code=6)
    assert found["verdict"] == "INCONCLUSIVE"


def test_nobody_rates_what_another_rates(tmp_path: Path) -> None:
    """Without an item of two ratings there is no agreement: the run is inconclusive."""
    write_labels(tmp_path)
    text = (tmp_path / VOTES_FILE).read_text("utf-8").splitlines()
    kept = [text[0], *(line for at, line in enumerate(text[1:]) if at % 4 == at // 4 % 4)]
    (tmp_path / VOTES_FILE).write_text("\n".join(kept) + "\n", encoding="utf-8")
    claims = [band("r", "resolved.rate", [0.5, 1], policy="majority")]
    write_annotators(tmp_path, bands=claims)
    assert scored(locked(tmp_path), "x", code=6)["verdict"] == "INCONCLUSIVE"


def test_no_row_carries_them_all(tmp_path: Path) -> None:
    """Outputs and references that never stand on one row are refused, with how many there are."""
    write_spans(tmp_path, "rows")
    path = tmp_path / ROWS_FILE
    rows = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    for at, row in enumerate(rows):
        del row["by"]["AC"[at % 2]]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    write_swap(tmp_path)
    refused(tmp_path, "no row carries every output and reference", "A on 6 of 12", "C on 6 of 12")


# --- Claims that say nothing ----------------------------------------------------------------------

SWAP_CLAIMS: list[tuple[dict[str, Any], tuple[str, ...]]] = [
    (band("c", "delta", [0, 1], output="a"), ("`a` is not a known output", "known: A, B")),
    (band("c", "delta", [0, 1], output="gold"), ("`gold` is not a known output",)),
    (band("c", "f1", [0, 0.5], output="A", reference="D"), ("`D` is not a known reference",)),
    (band("c", "delta", [0, 1], output="A", reference="gold"),
     ("`gold` is the delivered reference", "name an alternative: C")),
    (band("c", "delta", [0, 1], output="A", stratum="evn"), ("`evn` is not", "even")),
    (band("c", "delta", [0, 1], output="A", match="exact"), ("`exact` is not a known match",)),
    (band("c", "delta", [0, 1], output="A", match="coarse"), ("`coarse` is not a known match",)),
    (band("c", "delta", [0, 1], output="A", duplicates="last"), ("`last` is not",)),
    (band("c", "margin", [0, 1], reference="gold", output="A", other="A"),
     ("compares `A` with itself",)),
    (band("c", "delta.p_holm", [0, 0.05], output="A"),
     ("`delta[output=A]` is not in the registered family", "add it under `family`")),
    (band("c", "delta", [-1, 1], output="A"), ("cannot fail",)),
    (band("c", "band.margins.count", [0, 2]), ("cannot fail", "always 0 to 2")),
    (band("c", "reversals.count", [0, 1]), ("cannot fail", "always 0 to 1")),
    (band("c", "delta.p.ci_low", [0, 0.5], output="A"), ("`delta.p` has no interval",)),
    (band("c", "merge.gain", [0, 0.5], output="A", reference="gold"), ("add `merge:`",)),
    (band("c", "delta", [0, 1]), ("`delta` needs `output`",)),
    (band("c", "skew", [-0.1, 0.1], reference="gold", subset="decontaminated"),
     ("rows on which `gold` equals an output are left out",)),
    (band("c", "exact.count", [0, 1], output="A", reference="gold", subset="decontaminated"),
     ("rows on which `gold` equals an output are left out",)),
    (band("c", "deltas", [0, 1]), ("did you mean delta",)),
]  # fmt: skip


@pytest.mark.parametrize(("told", "says"), SWAP_CLAIMS)
def test_a_claim_that_says_nothing_of_references(
    told: dict[str, Any], says: tuple[str, ...], tmp_path: Path
) -> None:
    """A typo, a test outside the family, a claim that cannot fail: each is refused at the lock."""
    write_spans(tmp_path, "rows")
    write_swap(tmp_path, bands=[told])
    refused(tmp_path, *says)


ANNOTATOR_CLAIMS: list[tuple[dict[str, Any], tuple[str, ...]]] = [
    (band("c", "agreement.rate", [0, 0.9], pool="al"), ("`al` is not a known pool", "all")),
    (band("c", "agreement.rate", [0, 0.9], stratum="sx"), ("`sx` is not a known stratum",)),
    (band("c", "agreement.rate", [0, 0.9], labels="coarse"), ("`coarse` is not",)),
    (band("c", "kappa.cohen", [0, 0.9], annotator="A", other="E"), ("`E` is not",)),
    (band("c", "kappa.cohen", [0, 0.9], annotator="A", other="A"), ("compares `A` with itself",)),
    (band("c", "kappa.cohen", [0, 0.9], annotator="A", other="all"),
     ("`all` is not a known annotator",)),
    (band("c", "kappa.weighted", [0, 0.9], annotator="A", other="B", weights="linear"),
     ("needs the order of the labels", "add `scale:`")),
    (band("c", "alpha", [0, 0.9], level="interval"), ("needs a number for each label",)),
    (band("c", "resolved.count", [0, 3], policy="adjudicated"), ("add `adjudication:`",)),
    (band("c", "disagreement.share", [0, 0.9], label="lo"), ("`lo` is not a known label", "low")),
    (band("c", "merge.gain", [0, 0.9]), ("add `merge:`",)),
    (band("c", "f1", [0, 0.9], match="strict"), ("`f1` is for spans",)),
    (band("c", "agreement.rate", [0, 1]), ("cannot fail",)),
    (band("c", "ratings.count.ci_low", [0, 9]), ("`ratings.count` has no interval",)),
]  # fmt: skip


@pytest.mark.parametrize(("told", "says"), ANNOTATOR_CLAIMS)
def test_a_claim_that_says_nothing_of_annotators(
    told: dict[str, Any], says: tuple[str, ...], tmp_path: Path
) -> None:
    """A typo, or what needs a scale, a map or an adjudicator that is not there, is refused."""
    write_labels(tmp_path)
    write_annotators(tmp_path, bands=[told])
    refused(tmp_path, *says)


def test_a_coefficient_of_spans(tmp_path: Path) -> None:
    """Kappa of free spans is refused, with what to use instead."""
    write_spans(tmp_path, "rows")
    claims = [band("c", "kappa.fleiss", [0, 0.9])]
    write_annotators(tmp_path, labellings=span_keys(), bands=claims)
    refused(tmp_path, "`kappa.fleiss` is for single labels, and these are spans", "use `f1`")


def test_marks_without_types(tmp_path: Path) -> None:
    """Strict matching of marks that have no types is refused at the lock, and relaxed is not."""
    write_spans(tmp_path, "rows")
    path = tmp_path / ROWS_FILE
    rows = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    for row in rows:
        row["by"]["gold"] = [span[:2] for span in row["by"]["gold"]]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    write_swap(tmp_path, labellings=swap_keys(match="strict"))
    refused(tmp_path, "the marks of `gold` have no types", "write `match: relaxed`")
    write_swap(tmp_path, bands=[band("c", "f1", [0, 0.9], output="A", reference="gold",
                                     match="strict")])  # fmt: skip
    refused(tmp_path, "the marks of `gold` have no types")
    write_swap(tmp_path, bands=[band("c", "f1", [0, 0.9], output="A", reference="C",
                                     match="strict")])  # fmt: skip
    locked(tmp_path)


@pytest.mark.parametrize(
    ("family", "says"),
    [
        ([{"metric": "delta", "output": "D"}], ("family[0].output", "`D` is not a known output")),
        ([{"metric": "delta"}], ("family[0].metric", "`delta` needs `output`")),
        ([{"metric": "delta", "output": "A"}, {"metric": "delta", "output": "A", "reference": "C"}],
         ("family[1]", "is the test `family[0]` again")),
    ],
)  # fmt: skip
def test_a_family_of_tests(
    family: list[dict[str, Any]], says: tuple[str, ...], tmp_path: Path
) -> None:
    """A test that is not there, or that is named twice in other words, is refused."""
    write_spans(tmp_path, "rows")
    write_swap(tmp_path, family=family)
    refused(tmp_path, *says)


def test_what_the_tables_settle_is_said(tmp_path: Path) -> None:
    """How many rows are scored is known before the lock, and `check` says so."""
    write_spans(tmp_path, "rows")
    write_swap(tmp_path, bands=[DELTA, band("rows", "items.count", [10, 11])], primary="delta")
    done = prereg("check", "x", root=tmp_path)
    assert "which rows carry every output and reference settles it" in " ".join(done.err.split())


# --- Files ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "change", "says"),
    [
        ("rows", ("file", "data/span.jsonl"), ("the file of labellings does not exist",
                                               "did you mean data/spans.jsonl?")),
        ("conll", ("file", "data/spans.con"), ("the file of labellings does not exist",)),
        ("brat", ("file", "an"), ("the folder of labellings does not exist", "did you mean ann?")),
        ("brat", ("labellings", {"A": "A", "B": "B", "gold": "golden", "C": "C"}),
         ("labellings.files[0].labellings.gold", "does not exist", "did you mean ann/gold?")),
        ("brat", ("labellings", {"A": "A", "B": "B", "gold": "../ann/gold", "C": "C"}),
         ("leads out of the folder",)),
        ("rows", ("item", "name"), ("no row has 'name'",)),
    ],
)  # fmt: skip
def test_a_file_that_is_not_there(
    kind: Format, change: tuple[str, Any], says: tuple[str, ...], tmp_path: Path
) -> None:
    """A misspelled file, folder, sub-folder or column is refused where it is named."""
    write_spans(tmp_path, kind)
    (told,) = files_of(kind)
    write_swap(tmp_path, labellings=swap_keys(files=[{**told, change[0]: change[1]}]))
    refused(tmp_path, *says)


def test_an_adjudicator_who_is_not_there(tmp_path: Path) -> None:
    """So is the adjudicator's file."""
    write_labels(tmp_path)
    write_annotators(tmp_path, adjudication={**SETTLED, "file": "data/settle.csv"})
    refused(
        tmp_path,
        "the file of the adjudicator's labels does not exist",
        "did you mean data/settled.csv",
    )


def test_two_pools_that_share_nothing(tmp_path: Path) -> None:
    """Pools of annotators are not compared with each other, so they need no item in common."""
    write_labels(tmp_path)
    path = tmp_path / VOTES_FILE
    lines = path.read_text("utf-8").splitlines()
    kept = [n for n in lines[1:] if (n.split(",")[2] in "AB") == (n < "i4")]
    path.write_text("\n".join([lines[0], *kept]) + "\n", encoding="utf-8")
    pools = [{"name": "one", "match": ["A", "B"]}, {"name": "two", "match": ["gold", "C"]}]
    write_annotators(tmp_path, annotations=vote_keys(pools=pools), bands=[AGREED])
    assert scored(locked(tmp_path), "x")["verdict"] == "PASS"
