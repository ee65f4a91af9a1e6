"""The summary reads without colour, and says which run it is of how many."""

from __future__ import annotations

import io
from contextlib import redirect_stdout

from rich.console import Console
from rich.table import Table
from rich.text import Text

from prereg_judge.registration.claims import Band, Claims, Refuter, Test
from prereg_judge.report.files import RunLine
from prereg_judge.report.terminal import claims_table, console, history, verdict_text, visible
from prereg_judge.study.metric import Interval, Metric, MetricRef
from prereg_judge.verdict import evaluate


def _text(shown: object) -> str:
    stream = io.StringIO()
    Console(file=stream, width=120, color_system=None).print(shown)
    return stream.getvalue()


def _run(number: int, ended: str, *, resumed: int = 0, missing: bool = False) -> RunLine:
    return RunLine(number, ended, "2026-01-01T00:00:00.000Z", resumed, missing)


def test_history_counts_every_run_and_how_it_ended() -> None:
    """A failed, an abandoned and a deleted run stay beside the verdict."""
    runs = [
        _run(1, "FAIL"),
        _run(2, "aborted"),
        _run(3, "PASS", resumed=2),
        _run(4, "x", missing=True),
    ]
    assert history(3, runs) == (
        "run 3 of 4, resumed 2 times; run 1 FAIL; run 2 aborted; run 4 x (folder gone)"
    )


def test_a_missed_band_reads_without_colour() -> None:
    """Claim, registered, observed, outcome word, verdict word and reason are all in the text."""
    ref = MetricRef("sentinel.agreement.count")
    metric = Metric(
        ref, 52, "rows", "m", k=52, n=72, interval=Interval(43.9, 58.5, 0.95, "wilson, times n")
    )
    claims = Claims(bands=(Band("agree", Test(ref, 58, 68)),))
    verdict = evaluate(claims, {ref: metric}, stops_tripped={}, scored=144)
    table = _text(claims_table(verdict.outcomes))
    for part in ("agree", "in 58..68", "52 of 72", "missed low", "limit lies inside"):
        assert part in table
    last = _text(verdict_text(verdict, 1, [_run(1, "FAIL")]))
    assert "Verdict: FAIL" in last
    assert "band agree: missed low" in last


def test_a_fired_refuter_says_beside_the_verdict_what_it_means() -> None:
    """Its condition and meaning follow the word; a refuter that is silent is not named."""
    ref = MetricRef("sentinel.agreement.count")
    metric = Metric(ref, 72, "rows", "m", k=72, n=72)
    refuters = (
        Refuter("same", Test(ref, 72, 72), "the wire is deterministic"),
        Refuter("odd", Test(ref, 71, 71), "nearly"),
    )
    verdict = evaluate(Claims(refuters=refuters), {ref: metric}, stops_tripped={}, scored=144)
    last = _text(verdict_text(verdict, 1, [_run(1, "REFUTED")]))
    assert f"because refuter same: fired ({refuters[0].when}: the wire is deterministic)" in last
    assert "nearly" not in last


def test_control_characters_are_written_out() -> None:
    """ESC, other C0, C1 and half characters become visible text; tab and line feed stay."""
    text = "a\x1b[31m\x07\r\x9b\x7f\udcff\tb\nü"
    assert visible(text) == "a\\x1b[31m\\x07\\r\\x9b\\x7f\\udcff\tb\nü"


def test_a_console_obeys_no_text_that_it_prints() -> None:
    """In a sentence, in a table and in styled text nothing reaches the terminal raw."""
    stream = io.StringIO()
    with redirect_stdout(stream):
        out = console()
        table = Table("name")
        table.add_row("cell \x1b]0;x\x07")
        for shown in ("plain \x1b[2J :cat:", table, Text("styled \x9b2J")):
            out.print(shown, markup=False)
    told = stream.getvalue()
    assert not set(told) & {"\x1b", "\x9b", "\x07"}
    for words in ("plain \\x1b[2J :cat:", "cell \\x1b]0;x\\x07", "styled \\x9b2J"):
        assert words in told
    assert len({len(line) for line in told.splitlines()[1:-1]}) == 1  # the table keeps its form
