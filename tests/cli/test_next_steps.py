"""What a person is told to do next, and of what is in order and most likely not meant."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from support import FLAGS, locked, make_workspace, new, prereg, write_items

TODAY = datetime.now(UTC).date()


def test_each_verb_names_the_next(tmp_path: Path) -> None:
    """`new` leads to `check`, which leads to `lock`, or to `amend` where a version was begun."""
    root = make_workspace(tmp_path / "w")
    done = new(root, "x")
    assert done.err.endswith("Next: prereg check x\n")
    assert prereg("check", "x", root=root).err.endswith("Next: prereg lock x\n")
    assert prereg("lock", "x", root=root).code == 0
    assert "Next:" not in prereg("check", "x", root=root).err
    assert prereg("amend", "x", "--reason", "a typo", root=root).code == 0
    assert prereg("check", "x", root=root).err.endswith('Next: prereg amend x --reason "..."\n')


def test_what_was_withdrawn_leads_nowhere(tmp_path: Path) -> None:
    """A check of it says so, with the reason, and names no next step."""
    root = make_workspace(tmp_path / "w")
    locked(root, "x")
    assert prereg("withdraw", "x", "--reason", "no time", root=root).code == 0
    done = prereg("check", "x", root=root)
    assert "x was withdrawn and can be neither locked nor run: no time" in done.err
    assert "Next:" not in done.err


def test_check_says_what_is_most_likely_not_meant(tmp_path: Path) -> None:
    """A limit out of reach, a refuter inside the band and a day gone by are told, not refused."""
    root = make_workspace(tmp_path / "w")
    day = (TODAY - timedelta(days=1)).isoformat()
    refuter = "sentinel.agreement.count < 2: too unstable"
    assert new(root, "x", band="sentinel.agreement.count=1..30", refute=refuter, due=day).code == 0
    done = prereg("check", "x", root=root)
    assert done.code == 0
    for words in (
        "bands[0].between: 30 is above the most that can occur (4): this is `at least 1`",
        "refuters[0].when: fires at 1, inside the band `agreement-count`",
        f"the day by which a result is due, {day}, has passed already",
    ):
        assert words in done.err
    assert new(root, "y", due=(TODAY + timedelta(days=9)).isoformat()).code == 0
    assert "Warning" not in prereg("check", "y", root=root).err


def test_new_refuses_a_metric_that_there_is_not(tmp_path: Path) -> None:
    """A typo in a claim is named by its flag, and nothing is written."""
    root = make_workspace(tmp_path / "w")
    done = new(root, "x", band="sentinel.agreement.cnt=1..3")
    assert done.code == 2
    assert "--band (bands[0].metric): the study self-agreement has no metric" in done.err
    assert "Did you mean sentinel.agreement.count" in done.err
    assert not (root / "registrations/x.yaml").exists()


def test_a_lacking_primary_claim_is_named_with_those_there_are(tmp_path: Path) -> None:
    """Ids that nobody typed are listed, so that one of them can be."""
    root = make_workspace(tmp_path / "w")
    done = new(root, "x", predict="sentinel.wrong.count <= 3", primary=None)
    assert done.code == 2
    assert "missing: --primary (one of agreement-count, wrong-count)" in done.err


def test_new_says_which_settings_of_decoding_are_off(tmp_path: Path) -> None:
    """Who leaves some out hears by what value they are switched off."""
    root = make_workspace(tmp_path / "w")
    done = new(root, "x", decoding="sampled,temperature=1")
    assert done.code == 2
    assert "Top_k=0, top_p=1 and min_p=0 are off" in done.err


def test_a_file_without_edits_is_refused_in_one_line(tmp_path: Path) -> None:
    """`sentinel check` of rows that hold no edit says once what it needs."""
    write_items(tmp_path / "s.jsonl", [{"id": f"r{n}", "text": "a"} for n in range(5)])
    done = prereg("sentinel", "check", str(tmp_path / "s.jsonl"))
    assert done.code == 2
    [line] = done.err.splitlines()
    assert "no row has the field 'original' or 'rewrite'" in line
    assert line.endswith("the rows have text")


def test_one_row_without_its_edit_is_named_by_its_line(tmp_path: Path) -> None:
    """Where other rows have the fields, it is the row that is wrong."""
    whole = {"original": "a", "rewrite": "b", "kind": "synonym"}
    write_items(tmp_path / "s.jsonl", [{"id": "r0", **whole}, {"id": "r1", "original": "a"}])
    done = prereg("sentinel", "check", str(tmp_path / "s.jsonl"))
    assert done.code == 2
    assert "s.jsonl:2: r1: field 'rewrite' holds no text" in done.err


@pytest.mark.parametrize("written", ["git", "witness=git"])
def test_a_witness_may_be_required_by_its_bare_name(written: str, tmp_path: Path) -> None:
    """`--require git` means what `--require witness=git` means."""
    root = make_workspace(tmp_path / "w")
    locked(root, "x")
    done = prereg("verify", "x", "--require", written, "--json", root=root)
    assert done.code == 5  # no git repository: it is not witnessed
    [told] = done.json["violated"]
    assert told["what"] == "version 1 has no git witness from before its first run"


def test_a_bare_name_that_is_no_witness_is_refused(tmp_path: Path) -> None:
    """What cannot be required is named with what can."""
    root = make_workspace(tmp_path / "w")
    locked(root, "x", band=FLAGS["--band"])
    done = prereg("verify", "x", "--require", "aunt", root=root)
    assert done.code == 2
    assert "one of git, rfc3161, opentimestamps" in done.err
