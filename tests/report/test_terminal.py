"""The summary reads without colour, and says which run it is of how many."""

from __future__ import annotations

import io

from rich.console import Console

from prereg_judge.registration.claims import Band, Claims, Test
from prereg_judge.report.files import RunLine
from prereg_judge.report.terminal import claims_table, history, verdict_text
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
