"""`verdicts.csv`: every row and every pass, derived, for whoever counts with other tools."""

from __future__ import annotations

import csv
import io
import zipfile
from pathlib import Path

from prereg_judge.engine.protocol import Failure
from support import locked, make_workspace, prereg, run_scripted, verdict_reply

FILE = "runs/x/1/verdicts.csv"


def script(key: str, _before: int) -> str | Failure:
    """NO, but YES to r01 in the second pass, and no verdict for r02 in the first."""
    if key == "sentinel/r02/ab/1":
        return verdict_reply("MAYBE")
    return verdict_reply("YES" if key == "sentinel/r01/ab/2" else "NO")


def rows(raw: bytes) -> list[dict[str, str]]:
    """The file's rows by column."""
    return list(csv.DictReader(io.StringIO(raw.decode("utf-8-sig"))))


def scored(root: Path) -> Path:
    """A run of four rows, scored."""
    make_workspace(root)
    locked(root, "x")
    run_scripted(root, "x", script)
    done = prereg("score", "x", root=root)
    assert FILE in done.err
    return root


def test_every_row_is_there_with_each_verdict_or_why_there_is_none(tmp_path: Path) -> None:
    """Also rows that agree, which the disagreements leave out; item fields are not in it."""
    raw = (scored(tmp_path / "w") / FILE).read_bytes()
    names = ["set", "id", "order", "kind", "stratum", "label"]
    names += ["verdict_1", "verdict_2", "unscored_1", "unscored_2"]
    found = rows(raw)
    assert list(found[0]) == names
    assert [list(row.values()) for row in found] == [
        ["sentinel", "r00", "ab", "a", "", "NO", "NO", "NO", "", ""],
        ["sentinel", "r01", "ab", "b", "", "NO", "NO", "YES", "", ""],
        ["sentinel", "r02", "ab", "a", "", "NO", "", "NO", "off_menu", ""],
        ["sentinel", "r03", "ab", "b", "", "NO", "NO", "NO", "", ""],
    ]


def test_a_trial_that_was_never_called_says_so(tmp_path: Path) -> None:
    """After a stop rule the rest is `not_called`, which no reply can be."""
    root = make_workspace(tmp_path / "w")
    locked(root, "x", stop="calls.unscored >= 1 in 2 over 2")
    run_scripted(root, "x", lambda *_: verdict_reply("MAYBE"))
    assert prereg("score", "x", root=root).code == 4
    why = [row[f"unscored_{n}"] for n in (1, 2) for row in rows((root / FILE).read_bytes())]
    assert why[0] == "off_menu"
    assert set(why[2:]) == {"not_called"}


def test_it_follows_from_the_record_and_is_never_read(tmp_path: Path) -> None:
    """An edited one is found by `verify`, makes no difference to `score`, and is written anew."""
    root = scored(tmp_path / "w")
    path = root / FILE
    before = path.read_bytes()
    word = prereg("score", "x", "--json", root=root).json["verdict"]
    path.write_bytes(before.replace(b"YES", b"NO"))
    found = prereg("verify", "x", root=root)
    assert found.code == 5
    assert f"{FILE}: does not follow from the record" in found.out
    assert prereg("score", "x", "--json", root=root).json["verdict"] == word
    assert path.read_bytes() == before
    path.unlink()
    assert prereg("verify", "x", root=root).code == 0


def test_a_bundle_holds_it_also_without_the_items_text(tmp_path: Path) -> None:
    """It has ids, labels and verdicts, and no text; both kinds of bundle verify with it."""
    root = scored(tmp_path / "w")
    for name, *flags in (("a.zip",), ("b.zip", "--withhold-items")):
        archive = tmp_path / name
        assert prereg("bundle", "x", "--out", str(archive), *flags, root=root).code == 0
        with zipfile.ZipFile(archive) as opened:
            assert opened.read(FILE) == (root / FILE).read_bytes()
        done = prereg("verify", str(archive), root=root)
        assert done.code == 0, done.out
