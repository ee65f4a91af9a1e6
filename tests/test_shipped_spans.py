"""The shipped spans are made by a script, stand where they say, and differ as the script says."""

from __future__ import annotations

import json
from typing import Any

from make_spans import (
    ANNOTATORS,
    COPY_EVERY,
    CORRECT_EVERY,
    INTENTS,
    MARKERS,
    PARTS,
    ROWS,
    SEED,
    SPANS,
    jsonl_text,
)
from support import REPOSITORY

DOCS = (REPOSITORY / "docs/reference-swap.md").read_text(encoding="utf-8")
Row = dict[str, Any]


def span_rows() -> list[Row]:
    """The rows of the file."""
    return [json.loads(line) for line in SPANS.read_text(encoding="utf-8").splitlines()]


def test_the_spans_are_made_by_the_script() -> None:
    """The script gives the file byte for byte, so that no mark in it is a person's."""
    assert SPANS.read_bytes() == jsonl_text().encode()


def test_the_page_says_that_they_are_invented() -> None:
    """The page that uses them says so, with the seed."""
    assert "`sentinels/requests-spans.jsonl`" in DOCS
    assert "invented" in DOCS
    assert str(SEED) in DOCS


def test_every_mark_stands_in_its_text() -> None:
    """Offsets lie inside the text, types are of the closed list, and what is marked is a part of it
    or the rest of one that was cut.
    """
    rows = span_rows()
    assert len(rows) == ROWS
    assert len({row["id"] for row in rows}) == ROWS
    for row in rows:
        assert set(row["spans"]) == {*MARKERS, "delivered"}
        assert set(row["intents"]) == set(ANNOTATORS)
        assert set(row["intents"].values()) <= set(INTENTS)
        for start, end, kind in (span for spans in row["spans"].values() for span in spans):
            words = row["text"][start:end]
            assert kind in PARTS
            assert any(words in part for parts in PARTS.values() for part in parts)


def test_the_delivered_reference_is_made_of_one_output() -> None:
    """It equals output-a wherever it was not corrected, and some texts come twice."""
    rows = span_rows()
    for at, row in enumerate(rows):
        if at % CORRECT_EVERY != CORRECT_EVERY - 1:
            assert row["spans"]["delivered"] == row["spans"]["output-a"]
    texts = [row["text"] for row in rows]
    assert all(texts[at] == texts[at - 1] for at in range(COPY_EVERY - 1, ROWS, COPY_EVERY))
