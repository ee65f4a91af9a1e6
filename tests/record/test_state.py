"""Where a run stands: what must be in its record, and a record that holds nothing yet."""

from __future__ import annotations

from pathlib import Path

import pytest

from prereg_judge.chain import GENESIS
from prereg_judge.errors import IntegrityError
from prereg_judge.flow import running
from prereg_judge.items import load_items
from prereg_judge.plan import Plan
from prereg_judge.record.state import RunState, read_state
from support import (
    locked,
    make_workspace,
    prereg,
    run_scripted,
    small_items,
    verdict_reply,
    write_items,
)


class _KilledError(BaseException):
    """The process is gone."""


def state_of(folder: Path) -> RunState:
    """The state of a run of one row that has made nothing."""
    write_items(folder / "items.jsonl", small_items(1))
    items = load_items(folder / "items.jsonl", role="sentinel", shown="items.jsonl")
    return RunState(Plan((items,), orders=("ab",), passes=1), retries=0)


@pytest.mark.parametrize("raw", [None, b"", b'{"at":"2026-01-01T00:'])
def test_a_record_without_a_line_lacks_nothing(raw: bytes | None, tmp_path: Path) -> None:
    """The hash of no line, which a resume before the first notes, asks for none; another does."""
    if raw is not None:
        (tmp_path / "attempts.jsonl").write_bytes(raw)
    state = state_of(tmp_path)
    read_state(tmp_path, state, shown="r", prompt_of=lambda _: "", heads=[GENESIS, GENESIS])
    assert (state.head, state.n_attempts) == (GENESIS, 0)
    with pytest.raises(IntegrityError, match="attempts that the ledger knows of are gone"):
        read_state(tmp_path, state, shown="r", prompt_of=lambda _: "", heads=[GENESIS, "a" * 64])


@pytest.mark.parametrize("torn", [False, True])
def test_killed_before_the_records_first_line_again_and_again(
    torn: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that was lost between the ledger's line and the record's first, also while it was
    resumed, goes on and is whole.
    """
    root = make_workspace(tmp_path / "w")
    locked(root, "x")
    record = root / "runs/x/1/attempts.jsonl"

    def killed(*_: object, **__: object) -> None:
        if torn:
            record.write_bytes(b'{"at":"2026-01-01T00:')
        raise _KilledError

    def no(_key: str, _before: int) -> str:
        return verdict_reply("NO")

    with monkeypatch.context() as patch:
        patch.setattr(running, "AttemptWriter", killed)
        for _ in range(3):
            with pytest.raises(_KilledError):
                run_scripted(root, "x", no)
    done = run_scripted(root, "x", no)
    assert (done.number, done.status, done.attempts) == (1, "complete", 8)
    assert prereg("score", "x", root=root).code == 1
    assert prereg("verify", "x", "--no-prompts", root=root).code == 0
