"""`prereg rehearse` from the command line: tables, JSON, two scenarios, refusals."""

from __future__ import annotations

from pathlib import Path

import pytest

from prereg_judge.stats.proportions import wilson_interval
from support import Done, make_workspace, new, prereg


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace with a draft `x` of eight rows."""
    root = make_workspace(tmp_path_factory.mktemp("rehearse") / "w", n=8)
    done = new(
        root,
        "x",
        band="agree:: sentinel.agreement.count=4..7",
        refute="same:: sentinel.agreement.count = 8: it repeats itself",
        stop="hangs:: calls.hangs >= 2 in 5 over 16",
    )
    assert done.code == 0, done.err
    return root


def rehearse(root: Path, *args: str) -> Done:
    """`prereg rehearse x`, thirty times."""
    return prereg("rehearse", "x", "--times", "30", *args, root=root)


def test_the_table_says_how_often_each_claim_came_out_how(root: Path) -> None:
    """Every claim with every outcome, counts of N and intervals; what was not stated; exit 0."""
    done = rehearse(root, "--assume", "agreement=0.8,hang=0.02")
    assert done.code == 0, done.err
    told = " ".join(done.out.split())
    for words in (
        "30 rehearsals of 16 trials (simulated, seed 1)",
        "Assumed: agreement = 0.8, hang = 0.02",
        "Not stated: accuracy",
        "missed low",
        "tripped",
        "fired",
        "/30 = ",
        "95% Wilson",
        "PASS",
        "30 of 30",
    ):
        assert words in told
    assert "Simulated" in done.err


def test_json_has_every_number_with_its_n_and_interval(root: Path) -> None:
    """Counts of a claim's outcomes sum to N, and each share has the Wilson interval of k of n."""
    done = rehearse(root, "--assume", "agreement=0.8", "--assume", "hang=0.05", "--json")
    assert done.code == 0, done.err
    told = done.json
    assert (told["simulated"], told["times"], told["seed"]) == (True, 30, 1)
    (scenario,) = told["scenarios"]
    assert scenario["assumed"] == {"agreement": "0.8", "hang": "0.05"}
    assert {c["kind"] for c in scenario["claims"]} == {"band", "refuter", "stop"}
    for shares in [scenario["verdicts"], *(c["outcomes"] for c in scenario["claims"])]:
        assert sum(s["k"] for s in shares) == 30
        for share in shares:
            assert share["interval"] == list(wilson_interval(share["k"], 30, level=0.95))
            assert share["method"] == "wilson"
    (agreement,) = [m for m in scenario["metrics"] if m["metric"] == "sentinel.agreement.count"]
    assert agreement["defined"] + sum(agreement["undefined"].values()) == agreement["n"] == 30
    assert agreement["mean_interval"][0] < agreement["mean"] < agreement["mean_interval"][1]
    assert all(v == int(v) for v in agreement["quantiles"].values())


def test_two_scenarios_stand_side_by_side(root: Path) -> None:
    """`--against` adds a second column and says which claims do not tell the two apart."""
    args = ("--assume", "agreement=0.8", "--against", "agreement=1")
    done = rehearse(root, *args)
    assert done.code == 0, done.err
    told = " ".join(done.out.split())
    assert "A: Assumed: agreement = 0.8" in told
    assert "B: Assumed: agreement = 1" in told
    assert "stop hangs does not tell the two apart" in told
    assert "band agree does not tell" not in told
    as_json = rehearse(root, *args, "--json").json
    assert len(as_json["scenarios"]) == 2
    assert len(as_json["not_told_apart"]) == 1


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ([], ["agreement of the sentinel rows is not stated", "--assume agreement=0.8"]),
        (["--assume", "agreement=0.2"], ["from 0.5 to 1"]),
        (["--assume", "agreement=0.8", "--against", "nothing=1"], ["--against", "'nothing'"]),
        (["--assume", "agreement=0.8", "--times", "0"], ["--times 0"]),
        (["--assume", "agreement=0.8", "--seed", "-1"], ["--seed -1"]),
    ],
)
def test_what_cannot_be_rehearsed(root: Path, args: list[str], words: list[str]) -> None:
    """What does not fit is refused with what would do; exit 2, and the same as JSON."""
    done = rehearse(root, *args)
    assert done.code == 2
    for word in words:
        assert word in done.err
    assert rehearse(root, *args, "--json").json["exit_code"] == 2


def test_a_registration_with_problems_is_not_played(root: Path) -> None:
    """Claims that `check` refuses are refused here, in the same words."""
    path = root / "registrations/other.yaml"
    text = (root / "registrations/x.yaml").read_text(encoding="utf-8")
    path.write_text(
        text.replace("id: x\n", "id: other\n").replace(
            "sentinel.agreement.count", "sentinel.agrement"
        ),
        encoding="utf-8",
    )
    done = prereg("rehearse", "other", "--assume", "agreement=0.8", root=root)
    assert done.code == 2
    assert "sentinel.agrement" in done.err
    path.unlink()
