"""`prereg probe`: what a machine changes by itself is counted, no verdict is shown, and the
registration can go on as if nothing had been.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from prereg_judge.engine.protocol import Call, Failure, Reply
from prereg_judge.flow.probing import Leg, Probed, probe
from prereg_judge.flow.settings import EngineSettings
from prereg_judge.stats.proportions import wilson_interval
from prereg_judge.workspace import Workspace
from support import (
    Scripted,
    ScriptedBackend,
    locked,
    make_workspace,
    new,
    prereg,
    run_scripted,
    verdict_reply,
)

LEGS = [
    "strict against fast",
    "repeat against repeat",
    "order of the calls",
    "generate against choice",
]
STRICT, FAST, AGAIN, BACKWARDS, CHOICE = range(5)  # the rounds, in the order in which they are made


def events(root: Path, name: str) -> list[dict[str, Any]]:
    """Events of the ledger that have this name."""
    lines = (root / "registrations/ledger.jsonl").read_text(encoding="utf-8").splitlines()
    return [e for e in map(json.loads, lines) if e["event"] == name]


class Rounds:
    """Backends that answer from a function of (round, trial), the rounds counted from 0."""

    def __init__(self, script: Callable[[int, str], Scripted]) -> None:
        self.script = script
        self.made: list[tuple[EngineSettings, ScriptedBackend]] = []
        self.workers: list[int] = []

    def __call__(self, *args: Any) -> ScriptedBackend:
        """As `flow.backends.make_backend`."""
        number = len(self.made)
        backend = ScriptedBackend(lambda key, _before: self.script(number, key))
        self.made.append((args[2], backend))
        executor = args[0].model.executor
        self.workers.append(1 if executor is None else executor.workers)
        return backend

    def calls(self, number: int) -> list[Call]:
        """What was asked in a round."""
        return self.made[number][1].asked


def probed(root: Path, script: Callable[[int, str], Scripted], *, rows: int = 6) -> Probed:
    """Probe `x` with scripted rounds."""
    return probe(Workspace(root), "x", rows=rows, make_backend=Rounds(script))


def registered(root: Path, **changed: str) -> Path:
    """A workspace with an unlocked registration `x` of six rows."""
    make_workspace(root, n=6)
    done = new(root, "x", **{"parallel": "4", **changed})
    assert done.code == 0, done.err
    return root


def no(_round: int, _key: str) -> str:
    """NO, whatever is asked."""
    return verdict_reply("NO")


def legs(found: Probed) -> dict[str, Leg]:
    """The legs by name."""
    return {leg.name: leg for leg in found.legs}


# --- With the real model ------------------------------------------------------------------------


@pytest.mark.model
def test_a_probe_of_this_machine(tmp_path: Path) -> None:
    """Every leg has its counts and interval, for the rows asked for; no verdict is shown; the
    ledger keeps what was found; and the registration can still be locked, run and scored.
    """
    root = registered(tmp_path / "w", path="choice")
    done = prereg("probe", "x", "--rows", "3", "--json", root=root)
    assert done.code == 0, done.err
    assert [leg["name"] for leg in done.json["legs"]] == LEGS
    for leg in done.json["legs"]:
        assert (leg["n"], leg["lacking"]) == (3, 0)
        assert 0 <= leg["low"] <= leg["changed"] / 3 <= leg["high"] <= 1
        assert len(leg["differing"]) == leg["changed"]
    largest = [leg["largest"] for leg in done.json["legs"]]
    assert all(0 <= one < 0.2 for one in largest[:3])
    assert largest[3] is None
    assert done.json["trials"] == 3
    assert not re.search(r"\b(?:YES|NO)\b", done.out + done.err)
    (event,) = events(root, "probed")
    assert [leg["name"] for leg in event["legs"]] == LEGS
    assert not (root / "runs").exists()
    assert prereg("show", "x", "--json", root=root).json["state"] == "draft"
    assert prereg("lock", "x", root=root).code == 0
    assert prereg("run", "x", root=root).code == 0
    assert prereg("score", "x", root=root).code in (0, 1)


# --- With a script ------------------------------------------------------------------------------


def test_changes_are_counted(tmp_path: Path) -> None:
    """Two trials change from strict to fast, one from one repeat to the next, three with the
    order, and one with the path: the legs say so, each with its Wilson interval.
    """
    changed = {FAST: ("r00", "r01"), AGAIN: ("r00",), BACKWARDS: ("r02", "r03", "r04")}

    def script(number: int, key: str) -> str:
        told = changed[FAST] if number == CHOICE else changed.get(number, ())
        says_yes = key.split("/")[1] in told or (number == CHOICE and "r05" in key)
        return verdict_reply("YES" if says_yes else "NO")

    root = registered(tmp_path / "w")
    found = legs(probed(root, script))
    assert {name: leg.changed for name, leg in found.items()} == dict(
        zip(LEGS, (2, 1, 5, 1), strict=True)
    )
    assert found["strict against fast"].differing == ("sentinel/r00/ab/1", "sentinel/r01/ab/1")
    for leg in found.values():
        assert (leg.n, leg.lacking, leg.largest) == (6, 0, None)
        assert (leg.low, leg.high) == wilson_interval(leg.changed, 6, level=0.95)
    (event,) = events(root, "probed")
    assert [leg["changed"] for leg in event["legs"]] == [2, 1, 5, 1]


def test_probabilities_are_compared(tmp_path: Path) -> None:
    """The largest change of a verdict's probability is told, over all trials of a leg."""

    def script(number: int, key: str) -> Reply:
        p = 0.5 + (0.125 if "r03" in key else 0.0625) * (number == FAST)
        return Reply(
            verdict_reply("NO"), (1,), "complete", 1, 0, 0, 1, 0.5, 0.1,
            probabilities={"NO": p, "YES": 1 - p},
        )  # fmt: skip

    found = legs(probed(registered(tmp_path / "w"), script))
    assert found["strict against fast"].largest == 0.125
    assert found["order of the calls"].largest == 0.125
    assert found["strict against fast"].changed == 0


def test_a_call_that_fails_is_lacking(tmp_path: Path) -> None:
    """A trial that hung or was not readable in one of two rounds is no change and no agreement."""

    def script(number: int, key: str) -> Scripted:
        if number == FAST and "r00" in key:
            return Failure("hang", "no answer within 60 s", 60.0)
        return "not JSON" if number == STRICT and "r01" in key else verdict_reply("NO")

    found = legs(probed(registered(tmp_path / "w"), script))
    assert [(leg.n, leg.lacking, leg.changed) for leg in found.values()] == [
        (4, 2, 0),
        (5, 1, 0),
        (5, 1, 0),
        (5, 1, 0),
    ]


def test_nothing_answered_is_no_agreement(tmp_path: Path) -> None:
    """Where every call fails there is no share and no interval."""
    found = probed(registered(tmp_path / "w"), lambda *_: Failure("crash", "gone", 0.1))
    assert all((leg.n, leg.lacking, leg.low, leg.high) == (0, 6, None, None) for leg in found.legs)


def test_what_each_round_asks(tmp_path: Path) -> None:
    """The rounds are what their words say, with one seed a trial; the calls of the second pass
    are never made.
    """
    rounds = Rounds(no)
    root = registered(tmp_path / "w")
    found = probe(Workspace(root), "x", rows=100, make_backend=rounds)
    settings = [made[0] for made in rounds.made]
    assert [(s.path, s.prefix, s.parallel) for s in settings] == [
        ("generate", "whole", 1),
        ("generate", "shared", 4),
        ("generate", "shared", 4),
        ("generate", "shared", 4),
        ("choice", "shared", 4),
    ]
    keys = [f"sentinel/r0{row}/ab/1" for row in range(6)]
    asked = [[call.key for call in rounds.calls(number)] for number in range(5)]
    assert asked == [keys, keys, keys, keys[::-1], keys]
    assert [call.group for call in rounds.calls(STRICT)] == [0, 1, 2, 3, 4, 5]
    assert [call.group for call in rounds.calls(FAST)] == [0, 0, 0, 0, 1, 1]
    assert all(not call.cuts for call in rounds.calls(STRICT))
    assert all(call.cuts for call in rounds.calls(FAST))
    seeds = [{call.key: call.seed for call in rounds.calls(number)} for number in range(5)]
    assert all(of == seeds[0] for of in seeds)
    assert len(set(seeds[0].values())) == 6
    assert all(backend.closed for _, backend in rounds.made)
    assert found.trials == 6


def test_the_strict_wire_is_held_against_a_fast_one(tmp_path: Path) -> None:
    """Where the registration is the strict wire itself, another is tried for comparison."""
    root = registered(tmp_path / "w", parallel="1", prefix="whole")
    first = probed(root, no).legs[0]
    assert first.first == "path generate, prefix whole, parallel 1"
    assert first.second == "path generate, prefix shared, parallel 4"


def test_one_worker_is_held_against_several(tmp_path: Path) -> None:
    """Where several workers are registered, one more round is made by one, with the same
    settings; what it answers otherwise is counted.
    """
    root = registered(tmp_path / "w")
    file = root / "registrations/x.yaml"
    text = file.read_text(encoding="utf-8")
    lines = ["executor: {kind: local, workers: 3}" if line.startswith("# executor: ") else line
             for line in text.splitlines()]  # fmt: skip
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    rounds = Rounds(lambda n, key: verdict_reply("YES" if n == 4 and "r02" in key else "NO"))
    found = probe(Workspace(root), "x", rows=6, make_backend=rounds)
    assert rounds.workers == [3, 3, 3, 3, 1, 3]
    leg = legs(found)["one worker against several"]
    assert leg.first == "path generate, prefix shared, parallel 4, one worker"
    assert leg.second == "path generate, prefix shared, parallel 4"
    assert (leg.changed, leg.differing) == (1, ("sentinel/r02/ab/1",))


def test_a_locked_registration_between_its_runs(tmp_path: Path) -> None:
    """A probe before, between and after runs changes nothing of them; each is in the ledger."""
    root = make_workspace(tmp_path / "w", n=4)
    locked(root, "x")
    probed(root, no, rows=2)
    run_scripted(root, "x", lambda key, _: verdict_reply("YES" if "r00/ab/1" in key else "NO"))
    probed(root, no, rows=4)
    assert prereg("score", "x", root=root).code == 0
    probed(root, no, rows=1)
    assert prereg("score", "x", root=root).code == 0
    assert [event["trials"] for event in events(root, "probed")] == [2, 4, 1]
    shown = prereg("show", "x", "--json", root=root).json
    assert (shown["state"], shown["problems"]) == ("locked", [])
    assert [(run["state"], run["done"]) for run in shown["runs"]] == [("complete", 8)]
    assert prereg("status", root=root).code == 0


def test_a_probe_before_the_lock_is_part_of_what_was_seen(tmp_path: Path) -> None:
    """Lock and score say that these inputs were probed first, whatever the exposure says and under
    whatever id; a probe after the lock is not counted for it.
    """
    root = registered(tmp_path / "w")
    probed(root, no)
    for ident in ("y", "z"):
        assert new(root, ident, seen="nothing").code == 0
    told = prereg("lock", "y", root=root)
    known = "of 'x': same judge, model and 6 of these rows (sentinel)"
    assert (told.code, told.out.count("the ledger knows: probe at")) == (0, 1)
    assert "Exposure: full" in told.out
    assert known in told.out
    run_scripted(root, "y", lambda *_: verdict_reply("NO"))
    probe(Workspace(root), "y", rows=2, make_backend=Rounds(no))
    scored = prereg("score", "y", "--json", root=root).json["facts"]
    assert scored["seen before"] == "nothing"
    assert scored["exposure"].startswith("full: ")
    assert scored["the ledger knew"].count("probe at") == 1
    assert known in scored["the ledger knew"]
    told = prereg("lock", "z", root=root)
    assert told.out.count("the ledger knows: probe at") == 2
    assert "of 'y': same judge, model and 2 of these rows (sentinel)" in told.out
    (first, second) = events(root, "probe_started")
    assert (len(first["rows"]), len(second["rows"])) == (6, 2)
    assert set(second["rows"]) < set(first["rows"])
    assert first["inputs"] == second["inputs"]


@pytest.mark.parametrize("is_locked", [False, True])
def test_an_interrupted_probe_is_known_of(is_locked: bool, tmp_path: Path) -> None:
    """Stopped in a round, it ends its engine; the ledger knows, and a whole one can follow."""
    root = registered(tmp_path / "w")
    if is_locked:
        assert prereg("lock", "x", root=root).code == 0

    def script(number: int, key: str) -> str:
        if number == FAST and "r03" in key:
            raise KeyboardInterrupt
        return verdict_reply("NO")

    rounds = Rounds(script)
    with pytest.raises(KeyboardInterrupt):
        probe(Workspace(root), "x", rows=6, make_backend=rounds)
    assert (len(events(root, "probe_started")), events(root, "probed")) == (1, [])
    assert [backend.closed for _, backend in rounds.made] == [True, True]
    probed(root, no)
    assert (len(events(root, "probe_started")), len(events(root, "probed"))) == (2, 1)
    assert prereg("lock", "x", root=root).code == (2 if is_locked else 0)


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("x", "--rows", "0"), "at least one row"),
        (("y",), "no registration"),
    ],
)
def test_a_probe_of_nothing_is_refused(args: tuple[str, ...], words: str, tmp_path: Path) -> None:
    """No rows, or no such registration: a wrong use, and nothing in the ledger."""
    root = registered(tmp_path / "w")
    done = prereg("probe", *args, root=root)
    assert done.code == 2
    assert words in done.err
    assert not (root / "registrations/ledger.jsonl").exists()
