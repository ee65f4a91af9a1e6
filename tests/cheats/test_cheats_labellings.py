"""What a cheater does with labellings, references and annotators' files, and what finds it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from cheats.cheating import edit, refused, verify
from labelling_work import (
    ADJUDICATED,
    AGREED,
    BRAT_FOLDER,
    CONLL_FILE,
    FORMATS,
    MARKS,
    NAMES,
    ROWS_FILE,
    SCALE,
    SETTLED,
    VOTES_FILE,
    Format,
    files_of,
    locked,
    swap_keys,
    vote_keys,
    write_annotators,
    write_labels,
    write_spans,
    write_swap,
)
from support import prereg
from tabling import band, claim, metric, scored

# A file of each format, and one span of it moved.
MOVED: dict[Format, tuple[str, str, str]] = {
    "rows": (ROWS_FILE, "[0, 5,", "[0, 8,"),
    "conll": (CONLL_FILE, "I-PER", "O"),
    "brat": (f"{BRAT_FOLDER}/A/i01.ann", "PER 0 5\tw0 w1", "PER 0 8\tw0 w1 w2"),
}


def swapped(root: Path, kind: Format = "rows", **keys: Any) -> Path:
    """A workspace whose registration `x` exchanges references, locked."""
    write_spans(root, kind)
    write_swap(root, kind=kind, **keys)
    return locked(root)


def exposure(root: Path, ident: str) -> Any:
    """What a lock says had been seen."""
    lock = json.loads((root / f"registrations/{ident}.lock.json").read_bytes())
    return lock["exposure"]


# --- Files that are changed -----------------------------------------------------------------------


@pytest.mark.parametrize("kind", FORMATS)
def test_a_span_moved_after_the_lock(kind: Format, tmp_path: Path) -> None:
    """One span moved in a file of any format: neither run nor verified."""
    root = swapped(tmp_path / "w", kind)
    file, before, after = MOVED[kind]
    edit(root / file, before, after)
    refused(root, "run", "x", says=(file,))
    verify(root).caught(file)


@pytest.mark.parametrize("kind", FORMATS)
def test_a_span_moved_after_the_run(kind: Format, tmp_path: Path) -> None:
    """The same after the run: no score is made of it."""
    root = swapped(tmp_path / "w", kind)
    scored(root, "x")
    file, before, after = MOVED[kind]
    edit(root / file, before, after)
    refused(root, "score", "x", says=(file,))
    verify(root).caught(file)


@pytest.mark.parametrize("text", ["T1\tPER 0 2\tw0\n", "", "no annotation\n"])
def test_a_file_added_to_a_locked_folder(text: str, tmp_path: Path) -> None:
    """A further document changes what is read, whatever it holds: it is found before it is read."""
    root = swapped(tmp_path / "w", "brat")
    scored(root, "x")
    added = f"{BRAT_FOLDER}/gold/i99.ann"
    (root / added).write_text(text, encoding="utf-8")
    refused(root, "score", "x", says=(added, "was added to a locked folder"))
    verify(root).caught(added, "was added to a locked folder")
    (root / added).unlink()
    verify(root).clean()


def test_a_text_added_beside_a_locked_document(tmp_path: Path) -> None:
    """A text beside a document says whether its offsets stand, so it cannot come later."""
    write_spans(tmp_path / "w", "brat")
    text = tmp_path / "w" / BRAT_FOLDER / "A/i01.txt"
    text.rename(tmp_path / "kept.txt")
    write_swap(tmp_path / "w", kind="brat")
    root = locked(tmp_path / "w")
    (tmp_path / "kept.txt").rename(text)
    refused(root, "run", "x", says=("A/i01.txt", "was added to a locked folder"))


def test_what_is_not_read_may_lie_in_the_folder(tmp_path: Path) -> None:
    """A file that no reader looks at is nobody's evidence."""
    root = swapped(tmp_path / "w", "brat")
    (root / BRAT_FOLDER / "annotation.conf").write_text("[entities]\n", encoding="utf-8")
    (root / BRAT_FOLDER / "A/notes.txt").write_text("to do\n", encoding="utf-8")
    scored(root, "x")
    verify(root).clean()


def test_a_file_taken_from_a_locked_folder(tmp_path: Path) -> None:
    """A document that is gone is missed by name."""
    root = swapped(tmp_path / "w", "brat")
    gone = f"{BRAT_FOLDER}/gold/i03.ann"
    (root / gone).unlink()
    refused(root, "run", "x", says=(gone, "the locked file is missing"))
    verify(root).caught(gone)


def test_output_and_reference_exchanged(tmp_path: Path) -> None:
    """Two folders that change places keep all bytes, and are other files all the same."""
    root = swapped(tmp_path / "w", "brat")
    scored(root, "x")
    folder = root / BRAT_FOLDER
    (folder / "B").rename(folder / "kept")
    (folder / "gold").rename(folder / "B")
    (folder / "kept").rename(folder / "gold")
    refused(root, "score", "x", says=(f"{BRAT_FOLDER}/B/i01.ann",))
    verify(root).caught(f"{BRAT_FOLDER}/gold/i01.ann")


def test_columns_exchanged_in_the_registration(tmp_path: Path) -> None:
    """What stands where is registered, so that a column cannot become another one."""
    root = swapped(tmp_path / "w")
    scored(root, "x")
    edit(root / "registrations/x.yaml", "gold: by.gold", "gold: by.A")
    refused(root, "score", "x", says=("x.yaml",))


@pytest.mark.parametrize("file", [VOTES_FILE, ADJUDICATED])
def test_ratings_changed_after_the_lock(file: str, tmp_path: Path) -> None:
    """A vote and the adjudicator's word are both held."""
    root = tmp_path / "w"
    write_labels(root)
    write_annotators(root, scale=SCALE, adjudication=SETTLED)
    scored(locked(root), "x")
    edit(root / file, ",low", ",mid")
    refused(root, "score", "x", says=(file,))
    verify(root).caught(file)


def test_a_bundle_with_one_span_moved(tmp_path: Path) -> None:
    """A file of a folder in a bundle is compared with the lock."""
    root = swapped(tmp_path / "w", "brat")
    scored(root, "x")
    file, before, after = MOVED["brat"]
    edit(root / file, before, after)
    refused(root, "bundle", "x", "--out", str(tmp_path / "b.zip"), says=(file,))


def test_a_bundle_beside_other_registrations(tmp_path: Path) -> None:
    """What another registration had read before this lock cannot be told from a bundle: that is
    said, and is no violation.
    """
    root = tmp_path / "w"
    write_labels(root)
    write_annotators(root, "other")
    scored(locked(root, "other"), "other")
    root = swapped(root)
    scored(root, "x")
    verify(root).clean()
    archive = tmp_path / "b.zip"
    assert prereg("bundle", "x", "--out", str(archive), root=root).code == 0
    (tmp_path / "empty").mkdir()
    done = prereg("verify", str(archive), root=tmp_path / "empty")
    assert done.code == 0, done
    said = " ".join(done.out.split())
    assert "whether run 1 of 'other' had used some of these rows: its lock is not here" in said
    assert "all uses in this ledger by then that can be told here" in said


# --- Registering after looking --------------------------------------------------------------------


def test_the_same_marks_in_another_file(tmp_path: Path) -> None:
    """Fewer rows, in another order, under other names of files and labellings: known as seen."""
    root = swapped(tmp_path / "w")
    scored(root, "x")
    assert exposure(root, "x")["level"] == "none"
    lines = (root / ROWS_FILE).read_text("utf-8").splitlines(keepends=True)
    (root / "data/part.jsonl").write_text("".join(reversed(lines[2:])), encoding="utf-8")
    (told,) = files_of("rows")
    places = {f"system-{name}": place for name, place in told["labellings"].items()}
    keys = swap_keys(
        files=[{**told, "file": "data/part.jsonl", "labellings": places}],
        outputs=["system-B", "system-A"],
        references=["system-C", "system-gold"],
    )
    claims = [band("delta", "delta", [-0.9, -0.01], output="system-A")]
    write_swap(root, "again", labellings=keys, bands=claims)
    locked(root, "again")
    told = exposure(root, "again")
    assert told["level"] == "full"
    assert [(k["id"], k["what"]) for k in told["known"]] == [("x", "run 1")]
    assert told["known"][0]["rows"]
    verify(root, "again").clean()


def test_annotators_of_what_was_scored(tmp_path: Path) -> None:
    """Labellings that were scored as outputs have been read, whatever is asked of them next."""
    root = tmp_path / "w"
    write_labels(root)
    write_annotators(root, scale=SCALE, adjudication=SETTLED)
    scored(locked(root), "x")
    shutil.copyfile(root / ADJUDICATED, root / "data/again.csv")
    lines = (root / VOTES_FILE).read_text("utf-8").splitlines(keepends=True)
    (root / "data/part.csv").write_text("".join([lines[0], *lines[:8:-1]]), encoding="utf-8")
    write_annotators(
        root,
        "again",
        annotations=vote_keys(file="data/part.csv"),
        adjudication={**SETTLED, "file": "data/again.csv"},
    )
    locked(root, "again")
    known = exposure(root, "again")["known"][0]
    assert exposure(root, "again")["level"] == "full"
    assert known["same"] == ["annotations", "adjudication"]
    verify(root, "again").clean()


def test_other_marks_are_not_exposed(tmp_path: Path) -> None:
    """Marks of other items had not been read."""
    root = swapped(tmp_path / "w")
    scored(root, "x")
    write_spans(root, "rows", {f"other-{item}": by for item, by in MARKS.items()})
    (root / ROWS_FILE).rename(root / "data/other.jsonl")
    write_spans(root, "rows")
    (told,) = files_of("rows")
    write_swap(root, "other", labellings=swap_keys(files=[{**told, "file": "data/other.jsonl"}]))
    locked(root, "other")
    assert exposure(root, "other")["level"] == "none"


def test_exposure_cannot_be_stated_away(tmp_path: Path) -> None:
    """A registration that says `none` of marks that were read is refused."""
    root = swapped(tmp_path / "w")
    scored(root, "x")
    write_swap(root, "again", exposure={"seen": "nothing", "level": "none"})
    refused(root, "lock", "again", code=2, says=("exposure.level", "says less than what is known"))


# --- References made of outputs -------------------------------------------------------------------


def test_a_reference_that_is_a_copy(tmp_path: Path) -> None:
    """A delivered reference copied from A is right on every row: it is found exact on all, the
    rows that are left without it are none, and what is claimed of them does not pass.
    """
    root = tmp_path / "w"
    write_spans(root, "rows", {item: {**by, "gold": by["A"]} for item, by in MARKS.items()})
    copied = band("delta", "delta", [0.1, 1], output="A")
    claims = [copied, band("clean", "delta", [-0.9, 0.9], output="A", subset="decontaminated")]
    write_swap(root, bands=claims, primary="delta")
    found = scored(locked(root), "x", code=6)
    assert found["verdict"] == "INCONCLUSIVE"
    assert claim(found, "clean")["observed"][0]["undefined"] == "no_items"
    exact = metric(found, "exact.rate", output="A", reference="gold")
    assert (exact["value"], exact["n"]) == (1.0, len(MARKS))


def test_one_column_as_output_and_reference(tmp_path: Path) -> None:
    """One place under two names is refused: it would agree with itself."""
    write_spans(tmp_path, "rows")
    (told,) = files_of("rows")
    places = {**{name: f"by.{name}" for name in NAMES}, "gold": "by.A"}
    write_swap(tmp_path, labellings=swap_keys(files=[{**told, "labellings": places}]))
    refused(tmp_path, "lock", "x", code=2, says=("stands where `A` stands",))


def test_votes_of_one_annotator_alone(tmp_path: Path) -> None:
    """A single annotator agrees with nobody, and nothing passes on that."""
    root = tmp_path / "w"
    write_labels(root)
    pools = [{"name": "one", "match": "A"}]
    write_annotators(root, annotations=vote_keys(pools=pools), bands=[AGREED])
    done = prereg("lock", "x", root=root)
    assert done.code == 0, done
    assert scored(root, "x", code=6)["verdict"] == "INCONCLUSIVE"
