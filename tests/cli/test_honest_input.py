"""What the model would be shown is what the item says, or the item is refused."""

from __future__ import annotations

from pathlib import Path

from support import make_workspace, new, prereg, small_items, write_items


def test_a_character_that_the_vocabulary_lacks_is_refused(tmp_path: Path) -> None:
    """llama.cpp drops such a character without a word; the row and the code point are named."""
    root = make_workspace(tmp_path / "w")
    rows = small_items(3)
    rows[1]["text"] = f"a table {chr(0x50005)} here"
    write_items(root / "sentinels/small.jsonl", rows)
    assert new(root, "lost").code == 0
    done = prereg("check", "lost", root=root)
    assert done.code == 2
    assert "U+50005" in done.err
    assert "small.jsonl:2" in done.err


def test_ordinary_text_of_many_scripts_is_accepted(tmp_path: Path) -> None:
    """Letters, accents, emoji and line ends are read as they are."""
    root = make_workspace(tmp_path / "w")
    rows = small_items(2)
    rows[0]["text"] = "Tisch\ttable\nстол 机 \N{DOG FACE} é"
    write_items(root / "sentinels/small.jsonl", rows)
    assert new(root, "kept", band="sentinel.agreement.count=1..1").code == 0
    done = prereg("check", "kept", root=root)
    assert done.code == 0, done.err
