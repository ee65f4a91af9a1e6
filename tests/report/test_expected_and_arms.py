"""The curve of expected agreement and two arms, on the terminal and in score.json."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from typing import Any

import jsonschema
import pytest
from rich.console import Console

from prereg_judge.canon import canonical_json
from prereg_judge.registration.claims import Claims
from prereg_judge.report.files import Result, RunLine, score_json
from prereg_judge.report.numbers import observed
from prereg_judge.report.standard import standard_metrics
from prereg_judge.report.terminal import curve_table, render
from prereg_judge.shaping import Decoding
from prereg_judge.study.kinds import study_of
from prereg_judge.study.outcomes import StudyInput
from prereg_judge.study.rows import transitions
from prereg_judge.verdict import evaluate
from study.made import D, K, choosing, get, make, tree
from support import REPOSITORY

LIKELY, FAIR = tree(0.9, 0.1), tree(0.5, 0.5)
ARMS = ("path generate", "path choice")
_HASH = "0" * 64
PROVENANCE = {
    **dict.fromkeys(("registration_sha256", "lock_sha256", "attempts_head", "ledger_head"), _HASH),
    "locked_at": "2026-01-01T00:00:00.000Z",
    "version": 1,
    "ledger_head_at_end_of_run": None,
    "tool": {"version": "1", "source_sha256": _HASH},
}


def text_of(shown: Any) -> str:
    """What a terminal of 118 columns shows."""
    stream = io.StringIO()
    Console(file=stream, width=118, color_system=None).print(shown)
    return stream.getvalue()


def result_of(data: StudyInput, name: str) -> Result:
    """A result of a run of which nothing was registered."""
    study = study_of(name)
    return Result(
        id="x",
        title="T",
        study=name,
        run=1,
        runs=(RunLine(1, "PASS", "2026-01-01T00:00:00.000Z", 0, False),),
        facts={},
        verdict=evaluate(Claims(), {}, stops_tripped={}, scored=4),
        summary=study.summary(data),
        tables=transitions(data, "sentinel"),
        notes=tuple(study.plain_words(data)),
        disagreements=(),
        provenance=PROVENANCE,
        arms=data.arms,
        curves=study.curves(data),
    )


CHOSEN = choosing(
    make([[D, D], [D, K]]), [[LIKELY, LIKELY], [FAIR, FAIR]], shaping=Decoding("sampled", 0.75)
)
COMPARED = replace(make([[D, D], [D, K]], decoding="seeded"), arms=ARMS)


def test_the_curve_is_a_table_with_its_limits_below() -> None:
    """All 21 temperatures with share and range, the registered one marked, and what stays out."""
    shown = text_of(curve_table(study_of("self-agreement").curves(CHOSEN)[0]))
    assert "sentinel: expected agreement of 2 independent draws by temperature (n = 2" in shown
    assert "0.75 *" in shown
    assert shown.count("*") == 2  # in the title and at the registered temperature
    assert shown.count(" [0, 1]") + shown.count(" [0.5, 1]") == 21
    assert "Truncation as registered" in shown
    assert "left out so" not in shown


def test_what_was_not_followed_is_told_with_its_size() -> None:
    """A token that leads nowhere holds a tenth; at 2.0 it would hold more, which is said."""
    lost = tree(0.6, 0.3, 0.1, leads=[D, K, None])
    data = choosing(make([[D, D]]), [[lost, lost]])
    shown = text_of(curve_table(study_of("self-agreement").curves(data)[0]))
    share = 0.1**0.5 / (0.6**0.5 + 0.3**0.5 + 0.1**0.5)
    assert f"At most {share:.2g} of a row's probability is left out so." in " ".join(shown.split())


def test_observed_and_expected_stand_beside_each_other() -> None:
    """The two shares are neighbours in the summary, and the sentence compares their counts."""
    found = [str(m.ref) for m in standard_metrics(result_of(CHOSEN, "self-agreement"))]
    at = found.index("sentinel.agreement.rate")
    assert found[at + 1] == "sentinel.expected_agreement.rate"
    shown = " ".join(text_of(render(result_of(CHOSEN, "self-agreement"))).split())
    assert "The expected count lies inside the interval of the observed one." in shown
    line = observed(get(CHOSEN, "sentinel.expected_agreement.rate"))
    assert line.endswith("(n = 2) [0, 1] 95% Poisson-binomial range of the observed")


def test_arms_are_not_called_passes() -> None:
    """The table of two arms says arm, that of two passes says pass; no agreement is shown."""
    shown = text_of(render(result_of(COMPARED, "path-fidelity"), everything=True))
    assert "sentinel: arm 1 (down) against arm 2 (across)" in shown
    assert "pass 1 (down)" not in shown
    assert ".agreement." not in shown
    assert "1/2 = 0.5" in shown
    plain = text_of(render(result_of(CHOSEN, "self-agreement")))
    assert "sentinel: pass 1 (down) against pass 2 (across)" in plain


@pytest.mark.parametrize(
    ("data", "name"), [(CHOSEN, "self-agreement"), (COMPARED, "path-fidelity")]
)
def test_the_score_follows_its_schema(data: StudyInput, name: str) -> None:
    """Curve and arms are in score.json as the schema says, and canonical JSON takes them."""
    value = score_json(result_of(data, name))
    path = REPOSITORY / "src/prereg_judge/report/score.schema.json"
    read = json.loads(canonical_json(value))
    jsonschema.validate(read, json.loads(path.read_text(encoding="utf-8")))
    assert read["arms"] == list(data.arms)
    if name == "path-fidelity":
        assert read["expected_agreement"] == []
        return
    (curve,) = read["expected_agreement"]
    marked = [p for p in curve["points"] if p["registered"]]
    assert [(p["temperature"], p["n"]) for p in marked] == [(0.75, 2)]
    assert marked[0]["rate"] == get(data, "sentinel.expected_agreement.rate").value
    assert "Tokens that truncation cut" in curve["limits"]
