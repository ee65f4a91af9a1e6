"""A judge that gives a bounded reason before its verdict: the shipped one, in groups; its caps."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from prereg_judge.engine.protocol import Finish
from prereg_judge.judge import load_judge
from prereg_judge.record.attempt import AttemptLine
from prereg_judge.record.run import read_record
from support import (
    REPOSITORY,
    locked,
    make_workspace,
    prereg,
    reply,
    run_scripted,
    write_items,
)

RUN = "runs/x/1"
JUDGE_FILE = "judge/keep-drop-reason.yaml"
SEEDED = "seeded,seed=7,temperature=0.8,top_k=40,top_p=0.95,min_p=0.05"


def workspace(root: Path, *, n: int = 4) -> Path:
    """A workspace with the shipped judge and `n` of the shipped sentinels, of all kinds."""
    make_workspace(root)
    shutil.copyfile(REPOSITORY / JUDGE_FILE, root / JUDGE_FILE)
    path = REPOSITORY / "sentinels/customer-service-72.jsonl"
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    write_items(root / "sentinels/small.jsonl", rows[:: 72 // n][:n])
    return root


def lock(root: Path, ident: str = "x", **changed: str | list[str] | None) -> None:
    """Lock a registration with the shipped judge in groups of four."""
    base: dict[str, str | list[str] | None] = {
        "judge": JUDGE_FILE,
        "parallel": "4",
        "max_tokens": "96",
        "decoding": SEEDED,
    }
    locked(root, ident, **{**base, **changed})


def attempts(root: Path, ident: str = "x") -> tuple[AttemptLine, ...]:
    """What the first run recorded."""
    folder = f"runs/{ident}/1"
    return read_record(root / folder, shown=folder).attempts


def test_the_shipped_judges_differ_in_the_reason_only() -> None:
    """Rules, examples, question and verdicts are those of keep-drop, so that a difference in
    verdicts is the reason's.
    """
    plain, reasoned = (
        load_judge(REPOSITORY / f"judge/{name}.yaml", shown=name).spec
        for name in ("keep-drop", "keep-drop-reason")
    )
    same = ("rules", "prompt", "fields", "verdicts", "ships", "verdict_field")
    assert all(getattr(plain, name) == getattr(reasoned, name) for name in same)
    assert list(reasoned.output["properties"]) == ["reason", "verdict"]
    assert plain.system.splitlines()[:-1] == reasoned.system.splitlines()[:-1]


@pytest.mark.model
def test_a_reason_before_the_verdict_in_groups(tmp_path: Path) -> None:
    """Four rows at a time: each reply has a reason and a verdict, or says that it reached its cap;
    the second pass, with the same seed, is the same to the last token.
    """
    root = workspace(tmp_path / "w")
    lock(root)
    done = prereg("run", "x", root=root)
    assert done.code == 0, done.err
    made = attempts(root)
    assert {a.batch for a in made} == {(0, 1, 2, 3), (4, 5, 6, 7)}
    for line in made:
        if line.unscored is None:
            told = json.loads(str(line.text))
            assert list(told) == ["reason", "verdict"]
            assert 1 <= len(told["reason"]) <= 120
            assert told["verdict"] == line.verdict
        else:
            assert line.unscored in ("cap", "runaway")
    assert sum(line.unscored is None for line in made) >= 4
    seen = {(a.trial[:-2], a.trial[-1]): (a.text, a.tokens, a.finish) for a in made}
    for row, pass_no in seen:
        assert seen[row, pass_no] == seen[row, "1"]
    assert len({line.text for line in made}) > 1
    assert prereg("score", "x", root=root).code in (0, 1)


@pytest.mark.model
def test_a_reason_that_reaches_the_cap(tmp_path: Path) -> None:
    """With no room for more than a word, reasons are cut off: those attempts have no verdict and
    say why, and a run of nothing else is INCONCLUSIVE.
    """
    root = workspace(tmp_path / "w", n=2)
    lock(root, max_tokens="12", parallel="2", band="sentinel.agreement.count=0..1")
    assert prereg("run", "x", root=root).code == 0
    for line in attempts(root):
        assert (line.verdict, line.unscored in ("cap", "runaway")) == (None, True)
        assert line.tokens is not None
        assert len(line.tokens) == 12
        assert str(line.text).startswith('{"reason":"')
    done = prereg("score", "x", "--json", root=root)
    assert (done.code, done.json["verdict"]) == (6, "INCONCLUSIVE")


@pytest.mark.parametrize("finish", ["cap", "runaway"])
def test_what_ended_a_reply_is_its_reason(finish: Finish, tmp_path: Path) -> None:
    """Both are counted by their own name; nothing is read from the torso, and nothing is PASS."""
    root = workspace(tmp_path / "w", n=4)
    lock(root, band="sentinel.agreement.count=1..3")
    torso = '{"reason":"it is is is is","verdict":"KEEP"}'  # would be a verdict, were it complete
    run_scripted(root, "x", lambda _key, _before: reply(torso, finish=finish))
    assert {(a.unscored, a.verdict) for a in attempts(root)} == {(finish, None)}
    done = prereg("score", "x", "--json", root=root)
    assert (done.code, done.json["verdict"]) == (6, "INCONCLUSIVE")
    (runaways,) = [m for m in done.json["metrics"] if m["metric"] == "calls.runaways"]
    assert runaways["k"] == (8 if finish == "runaway" else 0)
