"""Published figures of *Measuring an automated annotator*, from files to `score.json`.

The same fixture as in `test_two_pass`, but written as item files and records and scored by the
command: registration, lock, three runs, claims. Only the model's replies are scripted; prompts,
grammar and vocabulary are those of the small model.
"""

from __future__ import annotations

import csv
import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from golden import two_pass
from golden.two_pass import DROP, KEEP, FixtureRow
from support import REPOSITORY, Done, locked, prereg, run_scripted, verdict_reply, write_items

SENTINELS = "sentinels/sentinel-72.jsonl"
REAL = "data/real-188.jsonl"
DETERMINISTIC = "deterministic:: sentinel.agreement.count = 72: the wire is deterministic"
UNSTABLE = "unstable:: sentinel.agreement.count < 50: too unstable to floor anything"
FLIPS = "flips:: sentinel.flips_from.count[from_run=single,verdict=KEEP] >= 8"
HANGS = "hangs:: calls.hangs >= 1 in 20 over 40"
COMMON: dict[str, str | list[str] | None] = {
    "judge": "judge/keep-drop.yaml",
    "sentinel": SENTINELS,
    "n_ctx": "2048",
}


def item_of(row: FixtureRow) -> dict[str, Any]:
    """A fixture's row as a line of an item file for the shipped judge."""
    item = {
        "id": row.id,
        "label": row.label,
        "kind": row.kind,
        "question": "When will it arrive?",
        "original": f"Parcel {row.content} arrives tomorrow.",
        "rewrite": f"Parcel {row.content} arrives tomorrow",
    }
    return {name: value for name, value in item.items() if value is not None}


def replies(rows: Sequence[FixtureRow]) -> Callable[[str, int], str]:
    """A script that gives each row its verdict in each pass."""
    said = {}
    for row in rows:
        said[f"{row.set}/{row.id}/ab/1"] = row.first
        said[f"{row.set}/{row.id}/ab/2"] = row.second
    return lambda key, _before: verdict_reply(said[key])


def as_rows(verdicts: Mapping[str, str]) -> list[FixtureRow]:
    """The sentinel rows with one verdict in either pass."""
    rows = two_pass.sentinel_rows()
    return [row._replace(first=verdicts[row.id], second=verdicts[row.id]) for row in rows]


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace with the runs `single` (one pass), `seeded` and `unseeded` (two passes)."""
    root = tmp_path_factory.mktemp("two-pass")
    (root / "registrations").mkdir()
    (root / "judge").mkdir()
    shutil.copyfile(REPOSITORY / "judge/keep-drop.yaml", root / "judge/keep-drop.yaml")
    write_items(root / SENTINELS, map(item_of, two_pass.sentinel_rows()))
    write_items(root / REAL, map(item_of, two_pass.real_rows()))

    kept = "sentinel.verdict.count[verdict=KEEP,pass=1] <= 30"
    locked(root, "single", **COMMON, passes="1", band=None, predict=kept)
    run_scripted(root, "single", replies(as_rows(two_pass.earlier_verdicts())))

    band = "agree:: sentinel.agreement.count=58..68"
    claims: dict[str, str | list[str] | None] = {
        "band": band,
        "refute": [DETERMINISTIC, UNSTABLE],
        "predict": FLIPS,
        "stop": HANGS,
    }
    decoding = "seeded,seed=42,temperature=0.8,top_k=40,top_p=0.95,min_p=0.05"
    locked(root, "seeded", **COMMON, **claims, decoding=decoding)
    run_scripted(root, "seeded", replies(two_pass.seeded_rows()))

    # Decisions name the seeded run, so that it is compared with; they change no verdict.
    seeded = "sentinel.flips_from_every.count[from_run=seeded,from_pass=1,verdict=KEEP] >= 5"
    locked(
        root,
        "unseeded",
        **COMMON,
        **claims,
        real=REAL,
        decide=f"apart:: {seeded} => do not use the seeded run",
    )
    rows = [*two_pass.sentinel_rows(), *two_pass.real_rows()]
    run_scripted(root, "unseeded", replies(rows))
    return root


@pytest.fixture(scope="module")
def unseeded(workspace: Path) -> Done:
    """The unseeded pair as scored by the command."""
    return prereg("score", "unseeded", "--json", root=workspace)


@pytest.fixture(scope="module")
def seeded(workspace: Path) -> Done:
    """The seeded pair as scored by the command."""
    return prereg("score", "seeded", "--json", root=workspace)


def number(score: Any, name: str, **params: str) -> tuple[int, int]:
    """Numerator and denominator of a metric in the list of `score.json`."""
    (found,) = [m for m in score["metrics"] if m["metric"] == name and m["params"] == params]
    assert found["undefined"] is None
    assert found["value"] in (found["k"], found["k"] / found["n"])
    return found["k"], found["n"]


def outcomes(score: Any) -> dict[str, str]:
    """Every claim's outcome."""
    return {claim["id"]: claim["outcome"] for claim in score["claims"]}


def test_the_unseeded_pair_fails(unseeded: Done) -> None:
    """The band 58..68 is missed low by 52, both refuters are silent, "at least 8" held: FAIL."""
    assert unseeded.code == 1
    score = unseeded.json
    assert (score["verdict"], score["exit_code"]) == ("FAIL", 1)
    assert score["reasons"] == ["band agree: missed low"]
    assert outcomes(score) == {
        "agree": "missed low",
        "flips": "held",
        "deterministic": "silent",
        "unstable": "silent",
        "hangs": "not tripped",
        "apart": "taken",
    }
    (agree,) = [c for c in score["claims"] if c["id"] == "agree"]
    assert agree["limit_inside_interval"]
    (observed,) = agree["observed"]
    assert (observed["value"], observed["n"]) == (52, 72)


def test_agreement_and_its_kinds(unseeded: Done) -> None:
    """52 of 72 sentinels agree (0.6095 to 0.8124): 32/48, 15/18 and 5/6 by kind."""
    score = unseeded.json
    assert number(score, "sentinel.agreement.count") == (52, 72)
    kinds = {"punctuation": (32, 48), "numeral": (15, 18), "synonym": (5, 6)}
    for kind, expected in kinds.items():
        assert number(score, "sentinel.agreement.rate", kind=kind) == expected
    (rate,) = [
        m for m in score["metrics"] if m["metric"] == "sentinel.agreement.rate" and not m["params"]
    ]
    interval = rate["interval"]
    assert (round(interval["low"], 4), round(interval["high"], 4)) == (0.6095, 0.8124)
    assert (interval["level"], interval["method"]) == (0.95, "wilson")


def test_passes_of_the_sentinels(unseeded: Done) -> None:
    """16 KEEP and 56 DROP at first, of which 11 and 9 change; the second pass keeps 14."""
    score = unseeded.json
    assert number(score, "sentinel.verdict.count", verdict=KEEP, **{"pass": "1"}) == (16, 72)
    assert number(score, "sentinel.verdict.count", verdict=DROP, **{"pass": "1"}) == (56, 72)
    assert number(score, "sentinel.verdict.count", verdict=KEEP, **{"pass": "2"}) == (14, 72)
    assert number(score, "sentinel.flips.count", verdict=KEEP) == (11, 16)
    assert number(score, "sentinel.flips.count", verdict=DROP) == (9, 56)


def test_rows_kept_by_the_earlier_single_pass(unseeded: Done) -> None:
    """Of the 19 rows of that record 16 are not kept at least once, 12 never, 3 always."""
    old = {"from_run": "single", "verdict": KEEP}
    score = unseeded.json
    assert number(score, "sentinel.flips_from.count", **old) == (16, 19)
    assert number(score, "sentinel.flips_from_every.count", **old) == (12, 19)
    assert number(score, "sentinel.stays_from.count", **old) == (3, 19)


def test_real_rows(unseeded: Done) -> None:
    """Of 188 real rows 22 change: 14 from DROP to KEEP and 8 from KEEP to DROP."""
    score = unseeded.json
    assert number(score, "real.flips.count") == (22, 188)
    assert number(score, "real.agreement.count") == (166, 188)
    assert number(score, "real.flips.count", verdict=DROP, to=KEEP)[0] == 14
    assert number(score, "real.flips.count", verdict=KEEP, to=DROP)[0] == 8
    (table,) = [t for t in score["transitions"] if t["set"] == "real"]
    at = {v: i for i, v in enumerate(table["verdicts"])}
    assert table["counts"][at[DROP]][at[KEEP]] == 14
    assert table["counts"][at[KEEP]][at[DROP]] == 8


def test_files(workspace: Path, unseeded: Done) -> None:
    """score.json holds what was printed; the changed rows are 20 sentinels and 22 real ones."""
    folder = workspace / "runs/unseeded/1"
    assert json.loads((folder / "score.json").read_bytes()) == unseeded.json
    lines = [json.loads(x) for x in (folder / "disagreements.jsonl").read_bytes().splitlines()]
    assert [sum(x["set"] == name for x in lines) for name in ("sentinel", "real")] == [20, 22]
    with (folder / "disagreements.csv").open(encoding="utf-8-sig", newline="") as stream:
        table = list(csv.DictReader(stream))
    assert [row["item_id"] for row in table] == [x["item_id"] for x in lines]
    for row, line in zip(table, lines, strict=True):
        assert row["verdict_1"] != row["verdict_2"]
        assert [row["reply_1"], row["reply_2"]] == line["replies"]
        assert [verdict_reply(row[f"verdict_{n}"]) for n in (1, 2)] == line["replies"]


def test_the_terminal_says_the_same(workspace: Path) -> None:
    """The summary for a person holds the figures, the outcome words and the verdict."""
    done = prereg("score", "unseeded", root=workspace)
    assert done.code == 1
    told = " ".join(done.out.split())
    for figure in ("52/72 = ", "52 of 72 [", "32/48 = ", "16 of 19 [", "22/188 = "):
        assert figure in told, figure
    for word in ("missed low", "held", "silent", "not tripped", "taken"):
        assert word in told, word
    assert "Verdict: FAIL (run 1 of 1)" in told


def test_the_seeded_pair_is_refuted(seeded: Done) -> None:
    """72 of 72 agree and the refuter fires: REFUTED, with the note on what a repeat can show."""
    assert seeded.code == 3
    score = seeded.json
    fired = "sentinel.agreement.count = 72: the wire is deterministic"
    assert score["verdict"] == "REFUTED"
    assert score["reasons"] == [f"refuter deterministic: fired ({fired})"]
    assert number(score, "sentinel.agreement.count") == (72, 72)
    assert outcomes(score)["agree"] == "missed high"
    assert outcomes(score)["unstable"] == "silent"
    assert any("a second pass cannot find errors" in note for note in score["notes"])


def test_the_seeded_pair_repeats_its_errors(seeded: Done) -> None:
    """8 wrong keeps of 72 in each pass, the same 8, and none that the second pass shows."""
    score = seeded.json
    for pass_no in ("1", "2"):
        assert number(score, "sentinel.wrong_ships.count", **{"pass": pass_no}) == (8, 72)
    assert number(score, "sentinel.wrong_repeated.count") == (8, 72)
    assert number(score, "sentinel.wrong_found.count") == (0, 72)


def test_seeded_against_unseeded(unseeded: Done) -> None:
    """On 10 rows the seeded verdict matches neither unseeded pass: 5 kept and 5 dropped."""
    score = unseeded.json
    kept, dropped = (
        number(
            score,
            "sentinel.flips_from_every.count",
            from_run="seeded",
            from_pass="1",
            verdict=verdict,
        )
        for verdict in (KEEP, DROP)
    )
    assert (kept, dropped) == ((5, 8), (5, 64))
    assert number(score, "sentinel.ships.any.count") == (25, 72)
    assert number(score, "sentinel.ships.some.count") == (20, 72)


def test_the_earlier_run_is_locked_in(workspace: Path) -> None:
    """The lock names both earlier runs by the hash of their manifests."""
    lock = json.loads((workspace / "registrations/unseeded.lock.json").read_bytes())
    names = [entry["name"] for entry in lock["inputs"] if entry["role"] == "from_run"]
    assert names == ["single/1", "seeded/1"]
