"""What tests of planning numbers share: registrations read from files, and the table as printed."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path
from typing import Any

from rich.console import Console

from prereg_judge.flow.outlook import outlook
from prereg_judge.flow.prepare import Inputs, read_inputs
from prereg_judge.report.outlook import expectation_table
from prereg_judge.workspace import Workspace

REPOSITORY = Path(__file__).parents[2]
DEMO = (REPOSITORY / "registrations/demo-self-agreement.yaml").read_text(encoding="utf-8")
AGREE = "metric: sentinel.agreement.count"
RATE = "metric: sentinel.agreement.rate"


def inputs_of(
    root: Path, claims: str, *, rows: int = 72, keep: int = 0, missing: str = "disagree"
) -> Inputs:
    """The demo registration with other claims, over `rows` rows of which `keep` are KEEP."""
    for folder in ("registrations", "judge", "sentinels"):
        (root / folder).mkdir(parents=True)
    judge = (REPOSITORY / "judge/keep-drop.yaml").read_bytes()
    (root / "judge/keep-drop.yaml").write_bytes(judge)
    items = [
        {"id": f"r{i}", "label": "KEEP" if i < keep else "DROP", "kind": "ab"[i % 2],
         "question": "q", "original": "o", "rewrite": f"rewritten {i}"}
        for i in range(rows)
    ]  # fmt: skip
    text = "".join(json.dumps(item) + "\n" for item in items)
    (root / "sentinels/customer-service-72.jsonl").write_text(text, encoding="utf-8")
    head = DEMO[: DEMO.index("# Intervals in which metrics")]
    head = head.replace("missing: disagree", f"missing: {missing}")
    ids = re.findall(r"id: ([a-z-]+)", claims)
    primary = "" if "primary:" in claims else f"primary: {ids[0]}\n"
    body = f"{head}\n{claims}\n{primary}exposure: {{seen: nothing}}\n"
    (root / "registrations/demo-self-agreement.yaml").write_text(body, encoding="utf-8")
    return read_inputs(Workspace(root), "demo-self-agreement")


def rows_of(root: Path, claims: str, **more: Any) -> dict[str, dict[str, Any]]:
    """The outlook's rows by claim."""
    return {row["id"]: row for row in outlook(inputs_of(root, claims, **more))}


def printed(rows: list[dict[str, Any]], *, width: int = 118) -> str:
    """The table as a terminal of this width shows it."""
    out = io.StringIO()
    Console(file=out, width=width, highlight=False, emoji=False).print(expectation_table(rows))
    return out.getvalue()


def flat(text: str) -> str:
    """Without line ends, as a sentence is read."""
    return " ".join(text.split())


MANY = f"""
bands:
  - {{id: agree, {AGREE}, between: [58, 68], expected: 63}}
  - {{id: share, {RATE}, between: [0.85, 0.95]}}
  - {{id: lower, {RATE}.ci_low, between: [0.7, 0.85]}}
predictions:
  - {{id: least, {AGREE}, at_least: 60}}
  - {{id: upper, {AGREE}.ci_high, at_most: 70}}
refuters:
  - {{id: unstable, when: {{{AGREE}, lt: 50}}, means: too unstable}}
  - id: odd
    when:
      any:
        - {{{AGREE}, eq: 72}}
        - {{all: [{{{RATE}, lt: 0.8}}, {{{RATE}.ci_high, gt: 0.85}}]}}
    means: odd
decisions:
  - id: use
    when: {{all: [{{{RATE}.ci_low, gt: 0.75}}, {{{AGREE}, between: [60, 71]}}]}}
    then: use it
"""

SIZE = "sample_size: {why: all there are, width: %s, power: %s}"
