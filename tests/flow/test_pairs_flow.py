"""Runs of judges of pairs: as a study of their own, and as judges that sides are asked of.

The scripted runs say what a known judge says; one run is of the real small model.
"""

from __future__ import annotations

import json
import shutil
import zipfile
from pathlib import Path
from typing import Any

import pytest

from cheats.cheating import edit, verify
from cheats.test_fuzz_bundle import archived, listed, members
from prereg_judge.flow.running import run_registration
from prereg_judge.workspace import Workspace
from support import ScriptedBackend, prereg, run_scripted, verdict_reply
from tabling import (
    ANNOTATIONS,
    band,
    claim,
    lock_tables,
    metric,
    ratios,
    refused,
    score,
    scored,
    write_pairs,
    write_registration,
    write_table,
    write_votes,
)

# Said of the answers in the two orders: one reversal, and a tie in one order twice.
AB, BA = "aabbtaab", "aababaat"
WORDS = {"a": "FIRST", "b": "SECOND", "t": "SAME"}
TURNED = {"a": "SECOND", "b": "FIRST", "t": "SAME"}
CROWD, EXPERT = "aabbtbbb", "bbbbaaab"
# Pairs as they are stored, every other one the other way round.
MODELS = [("m1", "m2"), ("m2", "m1")] * 4
LEAN = "lean.difference"


def says(key: str, _before: int) -> str:
    """The reply of the known judge: what it says of the answers, in the words of the slots."""
    _, item, order, _ = key.split("/")
    at = int(item.removeprefix("i"))
    return verdict_reply(WORDS[AB[at]] if order == "ab" else TURNED[BA[at]])


def rows() -> list[dict[str, Any]]:
    """Eight pairs; the second answer is longer, and some have markdown."""
    return [
        {"id": f"i{n}", "one": f"short {n}", "two": f"- a **marmalade** text {n}"} for n in range(8)
    ]


def votes(root: Path) -> dict[str, Any]:
    """Votes of two pools on the pairs, under the key `unordered`."""
    write_votes(root, list(zip(CROWD, EXPERT, strict=True)), models=MODELS)
    return {**ANNOTATIONS, "key": "unordered"}


@pytest.fixture(scope="module")
def ran_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A scored pairwise run of the known judge, with votes on the same pairs."""
    root = tmp_path_factory.mktemp("pairs") / "w"
    write_pairs(
        root,
        "pairs",
        rows=rows(),
        annotations=votes(root),
        resolve="agree_or_tie",
        bands=[
            band("reversal", "real.order.reversal.count", [1, 1], pass_=1),
            band("lean", LEAN, [-0.9, 0.9], judge="pass-1"),
        ],
        primary="reversal",
    )
    done = prereg("lock", "pairs", root=root)
    assert done.code == 0, done
    run_scripted(root, "pairs", says)
    score(root, "pairs")
    return root


@pytest.fixture
def root(ran_once: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    return Path(shutil.copytree(ran_once, tmp_path / "w"))


def expected(ab: str = AB, ba: str = BA) -> float:
    """The lean by a plain loop: agreement with the crowd minus with the experts."""
    resolved = [x if x == y else "t" for x, y in zip(ab, ba, strict=True)]
    crowd = sum(x == y for x, y in zip(resolved, CROWD, strict=True))
    expert = sum(x == y for x, y in zip(resolved, EXPERT, strict=True))
    return (crowd - expert) / len(ab)


def test_a_run_with_votes_has_its_lean(root: Path) -> None:
    """Pairs stored the other way round turn votes and verdicts alike: under both keys the lean is
    that of a plain loop over the answers.
    """
    found = score(root, "pairs")
    assert ratios(found)["reversal"] == (1, 8)
    assert expected() != 0
    observed = claim(found, "lean")["observed"][0]
    assert observed["value"] == pytest.approx(expected())
    lock_both(root, "both", [{"name": "earlier", "run": "pairs", "pass": 1}])
    found = scored(root, "both")
    for key in ("stored", "unordered"):
        assert claim(found, key)["observed"][0]["value"] == pytest.approx(expected())


def lock_both(root: Path, ident: str, judges: list[dict[str, Any]]) -> None:
    """Lock a study of judges that claims the lean of the first one under both keys."""
    lock_tables(
        root,
        ident,
        "judge-pools",
        annotations={**ANNOTATIONS, "key": "unordered"},
        judges=judges,
        bands=[
            band(key, LEAN, [-0.9, 0.9], judge=judges[0]["name"], key=key)
            for key in ("stored", "unordered")
        ],
        primary="unordered",
    )


def test_an_earlier_run_as_a_judge(root: Path) -> None:
    """The lean of an earlier run is the one that the run itself had, with interval and counts."""
    own = claim(score(root, "pairs"), "lean")["observed"][0]
    lock_both(root, "both", [{"name": "earlier", "run": "pairs/1", "pass": 1}])
    found = scored(root, "both")
    other = claim(found, "unordered")["observed"][0]
    kept = ("value", "k", "n", "interval", "method", "note")
    assert {name: other[name] for name in kept} == {name: own[name] for name in kept}
    reversal = metric(found, "order.reversal.count", judge="earlier")
    assert (reversal["k"], reversal["n"]) == (1, 8)
    verify(root, "both").clean()


@pytest.mark.parametrize("stored", ["as the votes", "the other way round", "by name"])
def test_a_file_of_the_same_verdicts(stored: str, root: Path) -> None:
    """A table of what the run said gives the same lean, whichever way round it stores its pairs:
    an exchanged pair turns the verdict.
    """
    turn = {"a": "b", "b": "a", "t": "t"}
    lines = []
    for at, (pair, ab, ba) in enumerate(zip(MODELS, AB, BA, strict=True)):
        exchanged = stored == "the other way round" or (stored == "by name" and pair[0] > pair[1])
        one, other = reversed(pair) if exchanged else pair
        told = (turn[ab], turn[ba]) if exchanged else (ab, ba)
        lines.append((f"i{at}", one, other, *told))
    write_table(root / "data/said.csv", ("item", "first", "second", "ab", "ba"), lines)
    judge = {
        "name": "file", "file": "data/said.csv", "item": ["item"], "models": ["first", "second"],
        "ab": "ab", "ba": "ba", "says": "answers", "words": {"a": "a", "b": "b", "t": "tie"},
    }  # fmt: skip
    lock_both(root, "both", [judge, {"name": "earlier", "run": "pairs", "pass": 1}])
    found = scored(root, "both")
    for key in ("stored", "unordered"):
        assert claim(found, key)["observed"][0]["value"] == pytest.approx(expected())
    file, run = (metric(found, LEAN, judge=name) for name in ("file", "earlier"))
    assert file["interval"] == run["interval"]


def test_verdicts_without_models_on_a_pair_stored_both_ways(root: Path) -> None:
    """Where an item's name is one pair in two orders, a run that names no models cannot say which:
    it is refused.
    """
    with (root / "data/votes.csv").open("a", encoding="utf-8") as stream:
        stream.write("i0,crowd-9,crowd,b,m2,m1\n")
    write_registration(
        root,
        "both",
        "judge-pools",
        judges=[{"name": "earlier", "run": "pairs", "pass": 1}],
        bands=[band("c", LEAN, [-0.9, 0.9], judge="earlier")],
    )
    refused(root, "judges[0]", "names no models", "data/votes.csv", ident="both")


@pytest.mark.parametrize(
    ("judge", "says"),
    [
        ({"run": "pairs", "pass": 2}, ("judges[0].pass", "no such pass", "write 1 to 1")),
        ({"run": "pairs/2", "pass": 1}, ("is not a finished run", "pairs/1")),
        ({"run": "pair", "pass": 1}, ("is not a finished run", "'pair'")),
        ({"run": "tables", "pass": 1}, ("judges[0].run", "is not the run of a judge of pairs")),
    ],
)  # fmt: skip
def test_runs_that_are_no_judges(judge: dict[str, Any], says: tuple[str, ...], root: Path) -> None:
    """A pass, run or study that is not there is refused with its place and what there is."""
    lock_tables(root, "tables", "pools", bands=[band("c", "changed.count", [0, 4])])
    assert prereg("run", "tables", root=root).code == 0
    claims = [band("c", LEAN, [-0.9, 0.9], judge="j")]
    judges = [{"name": "j", **judge}]
    write_registration(root, "x", "judge-pools", judges=judges, bands=claims)
    refused(root, "registrations/x.yaml:", *says)


def test_a_judge_file_changed_since_its_run(root: Path) -> None:
    """What the verdicts of a run mean is told by its judge file: a changed one is refused, before
    the lock and after it.
    """
    judges = [{"name": "earlier", "run": "pairs", "pass": 1}]
    lock_both(root, "before", judges)
    edit(
        root / "judge/pairs.yaml", "FIRST: 1, SAME: 0, SECOND: -1", "FIRST: -1, SAME: 0, SECOND: 1"
    )
    done = prereg("run", "before", root=root)
    assert done.code == 5, done
    assert "judge/pairs.yaml" in done.err
    write_registration(
        root,
        "after",
        "judge-pools",
        judges=judges,
        bands=[band("c", LEAN, [0, 1], judge="earlier")],
    )
    done = prereg("lock", "after", root=root)
    assert done.code == 5, done
    assert "judge/pairs.yaml: was changed after that run was locked" in done.err


def test_a_record_changed_since(root: Path) -> None:
    """The verdicts of an earlier run are locked: a changed record is refused."""
    lock_both(root, "both", [{"name": "earlier", "run": "pairs", "pass": 1}])
    edit(root / "runs/pairs/1/attempts.jsonl", "FIRST", "SAME!")
    done = prereg("run", "both", root=root)
    assert done.code == 5, done
    assert "runs/pairs/1" in done.err


def test_a_bundle_holds_the_run_that_is_judged(root: Path, tmp_path: Path) -> None:
    """The bundle of a study of judges has the earlier run in it, and verifies elsewhere."""
    lock_both(root, "both", [{"name": "earlier", "run": "pairs", "pass": 1}])
    scored(root, "both")
    for name, *flags in (("a.zip",), ("b.zip", "--withhold-items")):
        archive = tmp_path / name
        done = prereg("bundle", "both", "--out", str(archive), *flags, root=root)
        assert done.code == 0, done
        with zipfile.ZipFile(archive) as opened:
            assert "runs/pairs/1/attempts.jsonl" in opened.namelist()
        done = prereg("verify", str(archive), root=tmp_path)
        assert done.code == 0, done.out


def test_a_second_run_of_the_judge_changes_nothing(root: Path) -> None:
    """A run named without a number stays the one that was there at the lock."""
    lock_both(root, "both", [{"name": "earlier", "run": "pairs", "pass": 1}])
    backend = ScriptedBackend(lambda *_: verdict_reply("SAME"))
    run_registration(Workspace(root), "pairs", again=True, make_backend=lambda *_: backend)
    found = scored(root, "both")
    assert claim(found, "unordered")["observed"][0]["value"] == pytest.approx(expected())
    verify(root, "both").clean()


# --- The real model -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def real_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three short pairs judged by the small model in both orders and two passes, scored."""
    root = tmp_path_factory.mktemp("real") / "w"
    drawn = {"mode": "sampled", "temperature": 1.0, "top_k": 0, "top_p": 1.0, "min_p": 0.0}
    write_pairs(
        root,
        rows=rows()[:3],
        protocol={"passes": 2, "path": "choice", "decoding": drawn},
        bands=[
            band("reversal", "real.order.reversal.count", [0, 2], pass_=1),
            band("excess", "real.order.excess.difference", [-0.9, 0.9]),
            band("length", "real.length.follow.rate", [0.1, 1], pass_=1),
        ],
        primary="reversal",
    )
    done = prereg("lock", "x", root=root)
    assert done.code == 0, done
    done = prereg("run", "x", root=root)
    assert done.code == 0, done
    assert prereg("score", "x", root=root).code in (0, 1, 6)
    return root


@pytest.mark.model
def test_a_real_run_in_both_orders(real_once: Path) -> None:
    """Each pair has four calls, its two orders next to each other in a pass, and it verifies."""
    lines = (real_once / "runs/x/1/plan.jsonl").read_text("utf-8").splitlines()
    told = [json.loads(line) for line in lines]
    trials = [line["trial"] for line in told if "trial" in line]
    assert trials == [f"real/i{n}/{o}/{p}" for p in (1, 2) for n in range(3) for o in ("ab", "ba")]
    attempts = (real_once / "runs/x/1/attempts.jsonl").read_text("utf-8").splitlines()
    made = [a for a in map(json.loads, attempts) if a["event"] == "attempt"]
    assert sorted(a["trial"] for a in made) == sorted(trials)
    assert {a["verdict"] for a in made} <= {"FIRST", "SAME", "SECOND"}
    verify(real_once).clean()


@pytest.mark.model
def test_a_bundle_without_the_answers_scores_the_same(real_once: Path, tmp_path: Path) -> None:
    """Without their text, lengths and markdown of the answers are kept: every metric is the same,
    those of length and markdown too, and no answer stands in the bundle.
    """
    archive = tmp_path / "b.zip"
    command = ("bundle", "x", "--out", str(archive), "--withhold-items")
    assert prereg(*command, root=real_once).code == 0
    assert b"marmalade" not in archive.read_bytes()
    assert prereg("verify", str(archive), root=tmp_path).code == 0
    before = json.loads((real_once / "runs/x/1/score.json").read_bytes())
    with zipfile.ZipFile(archive) as opened:
        held = json.loads(opened.read("withheld.json"))
        kept = json.loads(opened.read("runs/x/1/score.json"))
    assert kept["metrics"] == before["metrics"]
    names = {m["metric"] for m in before["metrics"]}
    assert any("length" in name for name in names)
    assert any("markdown" in name for name in names)
    row = held["data/pairs.jsonl"]["rows"][0]
    assert row[-2:] == [[7, 0], [len("- a **marmalade** text 0"), 2]]


@pytest.mark.model
def test_lengths_that_were_changed_in_a_bundle(real_once: Path, tmp_path: Path) -> None:
    """What a withheld answer looks like is vouched for by the lock: another length is found."""
    archive = tmp_path / "b.zip"
    command = ("bundle", "x", "--out", str(archive), "--withhold-items")
    assert prereg(*command, root=real_once).code == 0
    held = members(archive)
    assert b"[7,0]" in held["withheld.json"]
    changed = listed({**held, "withheld.json": held["withheld.json"].replace(b"[7,0]", b"[70,0]")})
    archive.write_bytes(archived(changed))
    done = prereg("verify", str(archive), root=tmp_path)
    assert done.code == 5, done
