"""`prereg verify` and `prereg bundle` as commands: what they take, print and end with."""

from __future__ import annotations

from pathlib import Path

import pytest

from support import locked, make_workspace, prereg


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace with a locked registration that was never run."""
    made = make_workspace(tmp_path_factory.mktemp("verified") / "w")
    locked(made, "x")
    return made


def test_three_parts_and_a_word(root: Path) -> None:
    """What is proved, not proved and violated stands under its title, and one word at the end."""
    done = prereg("verify", "x", root=root)
    assert done.code == 0, done
    titles = [done.out.index(t) for t in ("PROVED (", "NOT PROVED (", "VIOLATED (0)")]
    assert titles == sorted(titles)
    assert done.out.rstrip().endswith("Integrity: nothing is violated")
    assert "this machine's clock only" in done.out


@pytest.mark.parametrize(
    ("args", "said"), [([], "nothing is named"), (["x", "--all"], "both a name and --all")]
)
def test_it_must_be_said_what_is_verified(root: Path, args: list[str], said: str) -> None:
    """Neither one nor all, or both, is refused as usage."""
    done = prereg("verify", *args, root=root)
    assert done.code == 2
    assert said in done.err


def test_a_witness_that_nobody_knows(root: Path) -> None:
    """`--require` names the witnesses that there are."""
    done = prereg("verify", "x", "--require", "witness=aunt", root=root)
    assert done.code == 2
    assert "git, rfc3161, opentimestamps" in done.err


def test_absence_of_a_required_witness_is_a_violation(root: Path) -> None:
    """What was merely not proved ends with 5 where it was required."""
    done = prereg("verify", "x", "--require", "witness=rfc3161", "--json", root=root)
    assert done.code == 5
    assert [f["what"] for f in done.json["violated"]] == [
        "version 1 has no rfc3161 witness from before its first run"
    ]
    assert done.json["ok"] is False


def test_a_bundle_is_never_written_over(root: Path, tmp_path: Path) -> None:
    """The second bundle to the same place is refused, and the first stays as it was."""
    path = tmp_path / "b.zip"
    assert prereg("bundle", "x", "--out", str(path), root=root).code == 0
    before = path.read_bytes()
    done = prereg("bundle", "x", "--out", str(path), root=root)
    assert done.code == 2
    assert path.read_bytes() == before
    assert prereg("verify", str(path)).code == 0
