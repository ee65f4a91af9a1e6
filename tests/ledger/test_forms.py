"""What an event can be: ids that name registrations, times that are times."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from prereg_judge.ledger.book import Ledger
from prereg_judge.ledger.forms import well_formed


def event(folder: Path, **changed: Any) -> dict[str, Any]:
    """An event as the ledger writes it, changed."""
    ledger = Ledger(folder / "ledger.jsonl", "ledger.jsonl")
    ledger.append("probe_started", ident="x")
    return {**ledger.events()[-1], **changed}


def test_an_event_as_it_is_written(tmp_path: Path) -> None:
    """Holds what it should, of a registration; a stamp is of none."""
    assert well_formed(event(tmp_path))
    assert well_formed(event(tmp_path, event="torn", id=""))


@pytest.mark.parametrize("ident", ["", "../../etc", "X", "a/b", "a.b", "x\n", "-x", "x" * 65])
def test_ids_that_no_registration_has(ident: str, tmp_path: Path) -> None:
    """Nothing that could name a file elsewhere."""
    assert not well_formed(event(tmp_path, id=ident))


@pytest.mark.parametrize(
    "at",
    [
        "",
        "\u202e",
        "2026-01-31",
        "2026-01-31T23:59:59Z",
        "2026-01-31T23:59:59.123+02:00",
        "2026-02-30T23:59:59.123Z",
        "2026-01-31T24:59:59.123Z",
        "2026-01-31T23:59:59.123Z\n",
        "\u0662026-01-31T23:59:59.123Z",
    ],
)
def test_times_that_are_none(at: str, tmp_path: Path) -> None:
    """Only what the clock writes, so that times can be compared as texts."""
    assert not well_formed(event(tmp_path, at=at))


def test_the_hash_of_no_line_is_no_line(tmp_path: Path) -> None:
    """A manifest that names it names nothing of this ledger."""
    ledger = Ledger(tmp_path / "ledger.jsonl", "ledger.jsonl")
    head = ledger.append("probe_started", ident="x")
    assert ledger.heads == {head}
