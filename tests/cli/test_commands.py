"""The verbs that look and write, through the command: init, new, check, show, status and others."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from prereg_judge.registration.load import load_registration
from support import (
    GGUF,
    REPOSITORY,
    locked,
    make_workspace,
    new,
    prereg,
    run_scripted,
    verdict_reply,
)

VERBS = ["init", "new", "check", "lock", "run", "score", "show", "status", "metrics", "model",
         "doctor", "sentinel"]  # fmt: skip


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace with one draft and one scored registration."""
    root = make_workspace(tmp_path_factory.mktemp("finished") / "w")
    locked(root, "scored")
    run_scripted(root, "scored", lambda key, _n: verdict_reply("YES" if "r01" in key else "NO"))
    prereg("score", "scored", root=root)
    assert new(root, "plan-b").code == 0
    return root


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_explains_itself(verb: str) -> None:
    """`--help` of each verb says what it does and exits 0."""
    done = prereg(verb, "--help")
    assert done.code == 0
    assert "Usage" in done.out
    assert len(done.out.splitlines()) > 5


def test_init_makes_a_workspace_and_overwrites_nothing(tmp_path: Path) -> None:
    """The folders and examples appear; a second call keeps what was changed."""
    folder = tmp_path / "study"
    assert prereg("init", str(folder)).code == 0
    for name in ("registrations", "runs", "judge", "sentinels"):
        assert (folder / name).is_dir()
    judge = folder / "judge/keep-drop.yaml"
    assert judge.read_bytes() == (REPOSITORY / "judge/keep-drop.yaml").read_bytes()
    judge.write_text("mine", encoding="utf-8")
    assert prereg("init", str(folder)).code == 0
    assert judge.read_text(encoding="utf-8") == "mine"


def test_init_says_where_to_go_only_from_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next step has a `cd`, quoted, for another folder and none for the current one."""
    assert "Next: cd 'my study' && prereg new" in _in(tmp_path, monkeypatch, "my study")
    for here in ((), (".",), (str(tmp_path),)):
        assert "Next: prereg new" in _in(tmp_path, monkeypatch, *here)


def _in(folder: Path, monkeypatch: pytest.MonkeyPatch, *args: str) -> str:
    monkeypatch.chdir(folder)
    return prereg("init", *args).err


def test_a_workspace_made_by_init_can_be_locked_at_once(tmp_path: Path) -> None:
    """The shipped judge, sentinels and pairs pass every check together."""
    folder = tmp_path / "study"
    prereg("init", str(folder))
    done = new(
        folder, "first", "--lock", judge="judge/keep-drop.yaml",
        sentinel="sentinels/customer-service-72.jsonl", real="data/customer-service-60.jsonl",
        n_ctx="2048", band="sentinel.agreement.count=58..68",
    )  # fmt: skip
    assert done.code == 0, done.err
    assert "264 trials" in done.out


def test_without_a_workspace_the_remedy_is_named(tmp_path: Path) -> None:
    """A verb outside any workspace says how to make one and exits 2."""
    done = prereg("status", root=tmp_path)
    assert done.code == 2
    assert "prereg init" in done.err


def test_new_writes_every_claim_it_was_given(tmp_path: Path) -> None:
    """Claims typed as expressions arrive in the file as typed, with ids that differ."""
    root = make_workspace(tmp_path / "w")
    done = new(
        root, "full", predict=["few:: sentinel.flips.count <= 2"],
        refute=["sentinel.agreement.count = 4: all the same", "calls.crashes > 3: broken"],
        stop=["calls.hangs >= 1 in 2 over 4"], decide=["sentinel.flips.count > 2 => stop here"],
    )  # fmt: skip
    assert done.code == 0, done.err
    model = load_registration(root / "registrations/full.yaml", shown="full.yaml").model
    assert [b.between for b in model.bands] == [(1, 3)]
    assert (model.predictions[0].id, model.predictions[0].at_most) == ("few", 2)
    assert [r.means for r in model.refuters] == ["all the same", "broken"]
    assert (model.stop[0].in_every, model.stop[0].over_first) == (2, 4)
    assert model.decisions[0].then == "stop here"


@pytest.mark.parametrize(
    ("flag", "text", "words"),
    [
        ("missing", "maybe", "--missing: must be 'disagree', 'exclude' or 'undefined'"),
        ("prefix", "foo", "--prefix: must be 'shared' or 'whole'"),
        ("passes", "-3", "--passes: must be at least 1"),
        ("study", "foo", "--study: must be 'self-agreement'"),
        ("title", "", "--title: is empty"),
        ("gpu_layers", "-2", "--gpu-layers: must be at least -1"),
        ("seen", "TODO", "--seen: still holds the placeholder"),
    ],
)
def test_new_writes_nothing_that_could_never_be_locked(
    flag: str, text: str, words: str, tmp_path: Path
) -> None:
    """A value that the loader refuses is refused by its flag; a draft may hold it."""
    root = make_workspace(tmp_path / "w")
    done = new(root, "x", "--json", **{flag: text})
    assert (done.code, done.json["exit_code"]) == (2, 2)
    assert words in done.err
    assert "Nothing was written" in done.err
    assert not (root / "registrations/x.yaml").exists()
    assert new(root, "x", "--draft", **{flag: text}).code == 0
    assert prereg("check", "x", root=root).code == 2


def test_a_draft_is_to_be_filled_in_before_it_is_checked(tmp_path: Path) -> None:
    """What is said after `--draft` is not that it can be locked now."""
    done = new(make_workspace(tmp_path / "w"), "x", "--draft", title=None)
    assert "Fill in every TODO, then: prereg check x" in done.err
    assert "prereg lock" not in done.err


def test_new_never_overwrites(tmp_path: Path) -> None:
    """An id that is taken is refused and its file stays as it was."""
    root = make_workspace(tmp_path / "w")
    path = root / "registrations/taken.yaml"
    path.write_text("mine", encoding="utf-8")
    assert new(root, "taken").code == 2
    assert path.read_text(encoding="utf-8") == "mine"


def test_a_draft_is_refused_until_it_is_filled_in(tmp_path: Path) -> None:
    """`--draft` leaves TODO where something is missing, and the lock names every such place."""
    root = make_workspace(tmp_path / "w")
    assert new(root, "half", "--draft", title=None, gguf=None).code == 0
    done = prereg("lock", "half", root=root)
    assert done.code == 2
    assert "title" in done.err
    assert "model.gguf" in done.err
    assert not (root / "registrations/half.lock.json").exists()


def test_check_tells_the_chance_to_pass_and_writes_nothing(finished: Path) -> None:
    """`check` reports size and outlook of a draft and leaves the folder as it was."""
    before = sorted(finished.rglob("*"))
    done = prereg("check", "plan-b", "--json", root=finished)
    assert done.code == 0
    assert (done.json["trials"], done.json["outlook"][0]["n"]) == (8, 4)
    assert sorted(finished.rglob("*")) == before


def test_status_and_show_agree_about_a_scored_run(finished: Path) -> None:
    """Both name the state, the run and its verdict."""
    rows = {row["id"]: row for row in prereg("status", "--json", root=finished).json}
    assert rows["plan-b"]["state"] == "draft"
    assert rows["scored"]["runs"][0]["verdict"] == "FAIL"
    shown = prereg("show", "scored", "--json", root=finished).json
    assert shown["runs"] == rows["scored"]["runs"]
    assert "prereg: 1" in shown["registration"]


def test_show_prints_the_registration_as_written(tmp_path: Path) -> None:
    """Neither long lines nor other line ends are changed, nor what looks like markup."""
    root = make_workspace(tmp_path / "w")
    path = locked(root, "wide", notes="[bold]long[/] " * 40)
    raw = path.read_bytes() + b"# with another line end\r\n"
    path.write_bytes(raw)
    assert prereg("show", "wide", root=root).out.startswith(raw.decode())
    assert prereg("show", "wide", "--json", root=root).json["registration"] == raw.decode()


def test_show_lists_the_hashes_of_the_lock(finished: Path) -> None:
    """Each locked file, and the lock itself, has role and SHA-256 there; a draft has none."""
    lock = finished / "registrations/scored.lock.json"
    told = prereg("show", "scored", "--json", root=finished).json["lock"]
    assert told["file"] == "registrations/scored.lock.json"
    assert told["sha256"] == hashlib.sha256(lock.read_bytes()).hexdigest()
    assert [f["role"] for f in told["files"]] == ["registration", "judge", "items.sentinel",
                                                  "model"]  # fmt: skip
    judge = hashlib.sha256((finished / "judge/yes-no.yaml").read_bytes()).hexdigest()
    assert told["files"][1] == {"role": "judge", "file": "judge/yes-no.yaml", "sha256": judge}
    shown = prereg("show", "scored", root=finished).out
    for entry in [{**told, "role": "lock"}, *told["files"]]:
        assert " ".join((entry["sha256"], entry["role"], entry["file"])) in " ".join(shown.split())
    assert prereg("show", "plan-b", "--json", root=finished).json["lock"] is None
    assert "SHA-256" not in prereg("show", "plan-b", root=finished).out


def test_show_says_what_changed_since_the_lock(tmp_path: Path) -> None:
    """An edited registration is shown as changed, with the file named; nothing is raised."""
    root = make_workspace(tmp_path / "w")
    path = locked(root, "edited")
    path.write_text(path.read_text(encoding="utf-8") + "# more\n", encoding="utf-8")
    shown = prereg("show", "edited", "--json", root=root).json
    assert shown["state"] == "changed since the lock"
    assert "registrations/edited.yaml" in shown["problems"][0]


def test_metrics_lists_what_may_be_registered() -> None:
    """Every listed metric has a summary; an unknown study is refused with the known ones."""
    listed = prereg("metrics", "self-agreement", "--json").json["self-agreement"]
    assert {"sentinel.agreement.count", "calls.hangs"} <= {m["metric"] for m in listed}
    assert all(m["summary"] for m in listed)
    done = prereg("metrics", "nonsense")
    assert done.code == 2
    assert "self-agreement" in done.err


def test_model_describes_the_small_model() -> None:
    """Architecture, parameters, quantisation, context, vocabulary, template and hash are told."""
    told = prereg("model", GGUF, "--json").json
    assert (told["architecture"], told["quantisation"]) == ("llama", "Q4_1")
    assert (told["parameters"], told["vocabulary"], told["context"]) == (134515008, 49152, 8192)
    assert told["chat_template"].startswith("{% for message in messages %}")
    assert told["fits_memory"].startswith("yes")
    assert [len(digest) for digest in told["sha256"].values()] == [64]


def test_doctor_reports_the_build() -> None:
    """The pinned library, its build and the machine's memory are told; it always exits 0."""
    done = prereg("doctor", "--json")
    assert done.code == 0
    assert done.json["llama_cpp"]["llama_cpp_python"] == "0.3.36"
    assert done.json["memory"]["total"] > 0


def test_sentinel_check_confirms_the_shipped_set_and_names_a_planted_row(tmp_path: Path) -> None:
    """All 72 are confirmed; with one changed number the row and the reason are printed."""
    shipped = REPOSITORY / "sentinels/customer-service-72.jsonl"
    done = prereg("sentinel", "check", str(shipped), "--json")
    assert (done.code, done.json["confirmed"], done.json["distinct"]) == (0, 72, 72)
    row = {"id": "planted", "kind": "numeral", "original": "It takes 3 days.",
           "rewrite": "It takes four days."}  # fmt: skip
    path = tmp_path / "planted.jsonl"
    path.write_text(json.dumps(row) + "\n", encoding="utf-8")
    done = prereg("sentinel", "check", str(path))
    assert done.code == 1
    assert "planted" in done.out


def test_disagreements_hold_every_changed_row_with_both_replies(finished: Path) -> None:
    """A row that flips between passes is written out with the item and both raw replies."""
    root = finished
    locked(root, "flips")
    run_scripted(
        root, "flips",
        lambda key, _n: verdict_reply("YES" if key == "sentinel/r02/ab/2" else "NO"),
    )  # fmt: skip
    prereg("score", "flips", root=root)
    lines = (root / "runs/flips/1/disagreements.jsonl").read_text(encoding="utf-8").splitlines()
    (line,) = [json.loads(one) for one in lines]
    assert (line["item_id"], line["verdicts"]) == ("r02", ["NO", "YES"])
    assert line["replies"] == [verdict_reply("NO"), verdict_reply("YES")]
    assert "text" in line["fields"]
    table = (root / "runs/flips/1/disagreements.csv").read_text(encoding="utf-8-sig")
    assert table.splitlines()[0].startswith("set,item_id,order,kind")
    assert len(table.splitlines()) == 2
