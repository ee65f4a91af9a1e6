"""The path `choice` from flags to score, and records of it that were meddled with."""

from __future__ import annotations

import json
import math
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from prereg_judge.canon import canonical_json, sha256_bytes
from prereg_judge.choices import node_of, redraw
from prereg_judge.record.attempt import AttemptLine
from prereg_judge.record.run import read_record
from prereg_judge.shaping import Decoding
from support import (
    JUDGE,
    REPOSITORY,
    locked,
    make_workspace,
    new,
    prereg,
    rechained,
    run_scripted,
    verdict_reply,
    with_tip,
)

Attempt = dict[str, Any]

RUN = "runs/x/1"
ATTEMPTS = f"{RUN}/attempts.jsonl"
SEEDED = "seeded,seed=7,temperature=1,top_k=0,top_p=1,min_p=0"
WITH_REASON = JUDGE.replace(
    "    verdict: {type", "    why: {type: string, maxLength: 20}\n    verdict: {type"
).replace("required: [verdict]", "required: [why, verdict]")


def ran(root: Path, **changed: str) -> Path:
    """A workspace whose registration `x` has one run of the real model, scored."""
    make_workspace(root, n=6)
    locked(root, "x", path="choice", parallel="4", **changed)
    done = prereg("run", "x", root=root)
    assert done.code == 0, done.err
    assert prereg("score", "x", root=root).code in (0, 1)
    return root


@pytest.fixture(scope="module")
def sampled_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run in which each attempt has a seed of its own."""
    return ran(tmp_path_factory.mktemp("sampled") / "w")


@pytest.fixture
def sampled(sampled_once: Path, tmp_path: Path) -> Path:
    """A copy of it to meddle with."""
    return Path(shutil.copytree(sampled_once, tmp_path / "w"))


@pytest.fixture(scope="module")
def generated_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run on the path `generate`, made by a script."""
    root = make_workspace(tmp_path_factory.mktemp("generated") / "w", n=6)
    locked(root, "x", parallel="4")
    run_scripted(root, "x", lambda key, _: verdict_reply("YES" if "r00" in key else "NO"))
    assert prereg("score", "x", root=root).code in (0, 1)
    return root


def attempts(root: Path) -> tuple[AttemptLine, ...]:
    """What the run recorded."""
    return read_record(root / RUN, shown=RUN).attempts


# --- From flags to score ------------------------------------------------------------------------


@pytest.mark.model
def test_a_choice_is_recorded_with_what_it_was_drawn_from(sampled_once: Path) -> None:
    """Each attempt has its verdicts' probabilities, the compared tokens and their mass."""
    made = attempts(sampled_once)
    assert len(made) == 12
    for line in made:
        chances = dict(line.probabilities or ())
        assert set(chances) == {"YES", "NO"}
        assert math.isclose(sum(chances.values()), 1.0)
        assert line.nodes is not None
        assert line.allowed_mass == line.nodes[0].mass
        assert 0 < line.nodes[0].mass < 1
        assert line.text == verdict_reply(str(line.verdict))
    assert len({line.seed for line in made}) == 12


@pytest.mark.model
def test_groups_are_as_the_plan_says(sampled_once: Path) -> None:
    """Six rows in groups of four: a group never reaches over the end of a pass."""
    batches = {line.index: line.batch for line in attempts(sampled_once)}
    groups = [(0, 1, 2, 3), (4, 5), (6, 7, 8, 9), (10, 11)]
    assert batches == {index: group for group in groups for index in group}


@pytest.mark.model
def test_the_agreement_to_be_expected_stands_beside_the_observed(sampled_once: Path) -> None:
    """It is the mean, over rows, of the chance that two draws say the same, by hand as by tool."""
    score = prereg("score", "x", "--json", root=sampled_once).json
    values = {m["metric"]: m for m in score["metrics"] if not m["params"]}
    by_row: dict[str, list[dict[str, float]]] = {}
    for line in attempts(sampled_once):
        by_row.setdefault(line.trial.rsplit("/", 1)[0], []).append(dict(line.probabilities or ()))
    chances = [sum(one[v] * two[v] for v in one) for one, two in by_row.values()]
    told = values["sentinel.expected_agreement.rate"]
    assert told["n"] == 6
    assert math.isclose(told["value"], sum(chances) / 6)
    assert told["interval"]["low"] <= told["value"] <= told["interval"]["high"]
    assert values["sentinel.agreement.rate"]["n"] == 6
    shown = prereg("score", "x", root=sampled_once).out
    rows = [re.split(r"\W+", line)[1:4] for line in shown.splitlines() if "greement.rate " in line]
    assert rows[:2] == [
        ["sentinel", "agreement", "rate"],
        ["sentinel", "expected_agreement", "rate"],
    ]


@pytest.mark.model
def test_the_score_has_the_published_form(sampled_once: Path) -> None:
    """score.json fits its schema, curve over temperatures included."""
    schema = json.loads(
        (REPOSITORY / "src/prereg_judge/report/score.schema.json").read_text(encoding="utf-8")
    )
    score = json.loads((sampled_once / RUN / "score.json").read_text(encoding="utf-8"))
    jsonschema.validate(score, schema)
    (curve,) = score["expected_agreement"]
    assert len(curve["points"]) >= 20


@pytest.mark.model
def test_seeded_choices_come_out_alike(tmp_path: Path) -> None:
    """With one registered seed both passes agree on every row, and the agreement that fresh
    draws would have is lower.
    """
    root = ran(tmp_path / "w", decoding=SEEDED)
    values = {
        m["metric"]: m["value"] for m in prereg("score", "x", "--json", root=root).json["metrics"]
        if not m["params"]
    }  # fmt: skip
    assert values["sentinel.agreement.rate"] == 1.0
    assert values["sentinel.expected_agreement.rate"] < 0.9
    refused(root, "seed is not the registered", change=another_verdict)


def test_a_judge_that_writes_more_cannot_choose(tmp_path: Path) -> None:
    """`choice` with a free text before the verdict is refused, where it stands and with a way
    out.
    """
    root = make_workspace(tmp_path / "w", judge=WITH_REASON)
    assert new(root, "x", path="choice").code == 0
    done = prereg("check", "x", root=root)
    assert done.code == 2
    assert re.search(r"registrations/x\.yaml:\d+: protocol\.path: ", done.err)
    for words in ("why, verdict", "the verdict and nothing else", "Write `path: generate`"):
        assert words in done.err
    assert new(root, "y", path="generate").code == 0
    assert prereg("check", "y", root=root).code == 0


# --- Meddled with, and every hash made right again ----------------------------------------------


def forge(root: Path, change: Callable[[Attempt], None], *, index: int = 0) -> str:
    """Change the attempt at a place of the plan; make record, manifest and ledger fit it again."""
    trial = ""

    def attempts_changed(lines: list[Attempt]) -> list[Attempt]:
        nonlocal trial
        (line,) = [v for v in lines if v.get("index") == index]
        before, trial = json.dumps(line), line["trial"]
        change(line)
        assert json.dumps(line) != before
        return lines

    path = root / ATTEMPTS
    path.write_bytes(rechained(path.read_bytes(), attempts_changed))
    last = path.read_bytes().splitlines(keepends=True)[-1]
    manifest = json.loads((root / RUN / "manifest.json").read_bytes())
    manifest["files"]["attempts.jsonl"] = sha256_bytes(path.read_bytes())
    manifest["attempts_head"] = sha256_bytes(last.rstrip(b"\n"))
    data = canonical_json(manifest) + b"\n"
    (root / RUN / "manifest.json").write_bytes(data)

    def ended(events: list[Attempt]) -> list[Attempt]:
        for event in events:
            if event["event"] == "run_finished":
                event["manifest"] = sha256_bytes(data)
        return events

    ledger = root / "registrations/ledger.jsonl"
    ledger.write_bytes(rechained(ledger.read_bytes(), ended))
    with_tip(root)
    return trial


def refused(root: Path, words: str, *, change: Callable[[Attempt], None], index: int = 0) -> None:
    """A run with this change has no verdict: 5, the trial, and these words."""
    trial = forge(root, change, index=index)
    done = prereg("score", "x", root=root)
    assert done.code == 5, done
    assert done.out == ""
    assert "INVALID" in done.err
    assert trial in done.err
    assert words in done.err


def turned(line: Attempt) -> None:
    """The other verdict, with the reply that says so."""
    line["verdict"] = "NO" if line["verdict"] == "YES" else "YES"
    line["text"] = verdict_reply(line["verdict"])


def another_verdict(line: Attempt) -> None:
    """A seed that draws the other verdict, and that verdict."""
    decoding = Decoding("sampled")
    nodes = [node_of(node) for node in line["nodes"]]
    turned(line)
    line["seed"] = next(s for s in range(1000) if redraw(nodes, decoding, s) == line["verdict"])


def shifted(line: Attempt) -> None:
    """A little probability moved from one verdict to the other."""
    chances = line["probabilities"]
    chances["YES"], chances["NO"] = chances["YES"] - 1e-6, chances["NO"] + 1e-6


def other_logit(line: Attempt) -> None:
    """One logit in the last place that shows."""
    line["nodes"][0]["logits"][0] += 0.001


def other_seed(line: Attempt) -> None:
    """A seed that does not draw the recorded verdict."""
    kept, kept_text = line["verdict"], line["text"]
    another_verdict(line)
    line["verdict"], line["text"] = kept, kept_text


def in_circles(line: Attempt) -> None:
    """A node that leads to itself."""
    line["nodes"][0]["leads"] = [0 for _ in line["nodes"][0]["leads"]]


def beyond_counting(line: Attempt) -> None:
    """Sixty nodes, each of which leads to the next in two ways."""
    node = {"text": "", "mass": line["allowed_mass"], "tokens": [1, 2], "logits": [1.0, 1.0]}
    line["nodes"] = [{**node, "leads": [at + 1, at + 1]} for at in range(60)]
    line["nodes"].append({**node, "leads": ["YES", "NO"]})


def very_deep(line: Attempt) -> None:
    """A chain of nodes that is deeper than any reply."""
    node = {"text": "", "mass": line["allowed_mass"], "tokens": [1], "logits": [1.0]}
    line["nodes"] = [{**node, "leads": [at + 1]} for at in range(20_000)]
    line["nodes"].append({**node, "tokens": [1, 2], "logits": [1.0, 1.0], "leads": ["YES", "NO"]})


def node_with(**values: Any) -> Callable[[Attempt], None]:
    """The first node with these values."""
    return lambda line: line["nodes"][0].update(values)


def line_with(**values: Any) -> Callable[[Attempt], None]:
    """The attempt with these values."""
    return lambda line: line.update(values)


UNREADABLE = "was edited"  # whether the line's form says so, or what it leads to
EDITED = "is not an attempt as this tool writes it"


# Values that no attempt has, each in a field of its own.
_KINDS: dict[str, tuple[Any, ...]] = {
    "text": (1, True, []),
    "at": (5, "now", "9999"),
    "seconds": ("a", -1, True, 1e308),
    "seed": (True, 0.5, -1, "abc"),
    "unscored": ("banana",),
    "finish": (1, "well"),
    "n_thought": (-3,),
    "n_sampled": ("x",),
    "batch": ("ab", [-1]),
    "tokens": (["a"],),
    "attempt": (0,),
    "detail": (3,),
}
OF_NO_KIND = [(name, value) for name, values in _KINDS.items() for value in values]


def reversed_leads(line: Attempt) -> None:
    """Every token says the other verdict; seed, logits and token ids stay."""
    other = {"YES": "NO", "NO": "YES"}
    node, chances = line["nodes"][0], line["probabilities"]
    node["leads"] = [other.get(lead, lead) for lead in node["leads"]]
    chances["YES"], chances["NO"] = chances["NO"], chances["YES"]
    turned(line)


def other_tokens(line: Attempt) -> None:
    """The reply's tokens are not those that were drawn."""
    line["tokens"] = [1 for _ in line["tokens"]]


def without_a_reply(line: Attempt) -> None:
    """An inconvenient verdict made into a reply that could not be read."""
    for name in ("verdict", "text", "tokens", "finish", "nodes", "probabilities", "allowed_mass"):
        line.pop(name, None)
    line.update(unscored="unreadable", detail="not JSON")


@pytest.mark.model
@pytest.mark.parametrize(
    ("change", "words"),
    [
        (shifted, "do not follow from the recorded logits"),
        (line_with(probabilities={"YES": 1.0}), "do not follow from the recorded logits"),
        (line_with(probabilities={"YES": "1", "NO": "0"}), UNREADABLE),
        (other_logit, "do not follow from the recorded logits"),
        (other_seed, "is not what the recorded seed draws"),
        (turned, "is not what the recorded seed draws"),
        (line_with(verdict="MAYBE"), "is not what the recorded seed draws"),
        (line_with(allowed_mass=0.9), "is not that of the compared tokens"),
        (line_with(allowed_mass=7.0), EDITED),
        (line_with(allowed_mass="much"), EDITED),
        (node_with(mass=0.9), "is not that of the compared tokens"),
        (node_with(leads=["YES"]), UNREADABLE),
        (node_with(leads=["YES", "NO", "MAYBE"], logits=[1.0] * 3), UNREADABLE),
        (node_with(leads=[None] * 3), UNREADABLE),
        (node_with(logits=["a", "b", "c"]), UNREADABLE),
        (lambda line: line.pop("nodes"), "lacks what its verdict was drawn from"),
        (lambda line: line.pop("probabilities"), "lacks what its verdict was drawn from"),
        (line_with(nodes=[]), UNREADABLE),
        (in_circles, UNREADABLE),
        (beyond_counting, UNREADABLE),
        (very_deep, UNREADABLE),
        (reversed_leads, "settles another verdict here"),
        (other_tokens, "are not those that the recorded seed draws"),
        (without_a_reply, "does not explain"),
        (lambda line: line.pop("seed"), "the seed does not fit the decoding"),
        (lambda line: line.pop("text"), "a verdict has no reply behind it"),
    ],
)
def test_a_forged_choice_is_found(
    change: Callable[[Attempt], None], words: str, sampled: Path
) -> None:
    """Verdict, seed, logits, probabilities and mass follow from each other, whoever rehashes."""
    refused(sampled, words, change=change, index=5)


@pytest.mark.model
def test_the_forger_alone_leaves_no_trace(sampled: Path) -> None:
    """What is changed and means nothing is not found: the refusals are not of the rehashing."""
    forge(sampled, line_with(seconds=0.25))
    assert prereg("score", "x", root=sampled).code in (0, 1)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            line_with(
                nodes=[{"text": "", "mass": 0.5, "tokens": [1], "logits": [1.0], "leads": ["NO"]}]
            ),
            "on the path `generate`",
        ),
        (line_with(nodes=[], probabilities={"YES": 0.5, "NO": 0.5}), EDITED),
        (without_a_reply, "does not explain"),
        *[(line_with(**{name: value}), EDITED) for name, value in OF_NO_KIND],
        (line_with(batch=[99]), "with others than it can have been"),
        (line_with(batch=[0, 1, 2, 3, 4]), "with others than it can have been"),
        (line_with(thought="hm", n_thought=1), "no thinking is registered"),
        (line_with(probabilities={"YES": 0.5, "NO": 0.5}), "on the path `generate`"),
        (line_with(allowed_mass=1.5), EDITED),
        (turned, ""),
    ],
)
def test_a_generated_reply_was_not_chosen(
    change: Callable[[Attempt], None], words: str, generated_once: Path, tmp_path: Path
) -> None:
    """A record of `generate` holds no probabilities to compute an expected agreement from; of
    the verdict itself it cannot be said what the model would have written.
    """
    root = Path(shutil.copytree(generated_once, tmp_path / "w"))
    if words:
        refused(root, words, change=change)
        return
    forge(root, change)
    assert prereg("score", "x", root=root).code in (0, 1)
