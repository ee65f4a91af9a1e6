"""The ledger under several processes, torn ends and a tip that lags or runs ahead."""

from __future__ import annotations

import json
import multiprocessing
from pathlib import Path

import pytest

from prereg_judge.canon import canonical_json
from prereg_judge.errors import IntegrityError
from prereg_judge.ledger.book import Ledger


def ledger_at(folder: Path) -> Ledger:
    """A ledger in a folder of its own."""
    return Ledger(folder / "registrations/ledger.jsonl", "registrations/ledger.jsonl")


def _append(folder: str, ident: str, n: int) -> None:
    ledger = ledger_at(Path(folder))
    for number in range(n):
        ledger.append("probe_started", ident=ident, number=number)


def test_processes_append_at_once_and_lose_nothing(tmp_path: Path) -> None:
    """Four processes, each for a registration of its own: every event once, one chain, one tip."""
    spawn = multiprocessing.get_context("spawn")
    workers = [spawn.Process(target=_append, args=(str(tmp_path), f"x{w}", 8)) for w in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(120)
        assert worker.exitcode == 0
    ledger = ledger_at(tmp_path)
    chain = ledger.chain()
    assert len(chain.lines) == 32
    for w in range(4):
        assert [e["number"] for e in ledger.events(f"x{w}")] == list(range(8))
    tip = ledger.tip()
    assert tip is not None
    assert (tip.lines, tip.head) == (32, chain.head)


def test_a_torn_end_counts_for_nothing_and_is_kept(tmp_path: Path) -> None:
    """Half a line is left out at reading; the next event keeps it in a line of its own."""
    ledger = ledger_at(tmp_path)
    ledger.append("probe_started", ident="x")
    with ledger.path.open("ab") as stream:
        stream.write(b'{"half')
    assert len(ledger.events("x")) == 1
    ledger.append("probed", ident="x")
    events = ledger.events()
    assert [e["event"] for e in events] == ["probe_started", "torn", "probed"]
    assert events[1]["text"] == '{"half'
    tip = ledger.tip()
    assert tip is not None
    assert tip.lines == 3


def test_a_tip_one_behind_is_what_a_kill_leaves(tmp_path: Path) -> None:
    """The line is written before the tip: killed between them, the next event goes on."""
    ledger = ledger_at(tmp_path)
    ledger.append("probe_started", ident="x")
    before = ledger.tip_path.read_bytes()
    ledger.append("probed", ident="x")
    ledger.tip_path.write_bytes(before)
    assert len(ledger.events()) == 2
    ledger.append("probe_started", ident="x")
    assert len(ledger.events()) == 3


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("a line dropped at the end", "lines are gone from its end"),
        ("the last line edited", "is not the line that was written here"),
        ("the tip edited", "is not a tip"),
        ("the tip for a line that is not there", "lines are gone from its end"),
    ],
)
def test_the_end_of_the_ledger_is_vouched_for_by_its_tip(
    tmp_path: Path, name: str, words: str
) -> None:
    """What the chain alone cannot tell, as nothing follows the last line."""
    ledger = ledger_at(tmp_path)
    ledger.append("probe_started", ident="x")
    ledger.append("probed", ident="x", n=1)
    raw = ledger.path.read_bytes().splitlines(keepends=True)
    tip = json.loads(ledger.tip_path.read_bytes())
    if name.startswith("a line"):
        ledger.path.write_bytes(raw[0])
    elif name.startswith("the last"):
        ledger.path.write_bytes(raw[0] + raw[1].replace(b'"n":1', b'"n":2'))
    elif name == "the tip edited":
        ledger.tip_path.write_bytes(json.dumps(tip).encode())
    else:
        ledger.tip_path.write_bytes(canonical_json({**tip, "lines": 3}) + b"\n")
    with pytest.raises(IntegrityError, match=words):
        ledger.events("x")
    with pytest.raises(IntegrityError):
        ledger.append("probed", ident="x")
