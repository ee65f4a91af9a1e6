"""What tests of rehearsals share: drafts without a model, plays, counts held against chances.

Chance is seeded, so each test passes always or never; `TINY` is how rare a result must be to
speak against the line from plan to verdict.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from scipy.stats import binomtest

from prereg_judge.flow.rehearsing import rehearse
from prereg_judge.report.rehearsal import Scenario, claim_shares
from prereg_judge.study.metric import Metric
from prereg_judge.workspace import Workspace
from support import GGUF, make_workspace, new, small_items, write_items

TINY = 1e-6
Changes = str | list[str] | None


def played(
    root: Path, *assume: str, ident: str = "x", times: int = 1, seed: int = 1, **more: Any
) -> Scenario:
    """The plays of one scenario."""
    found = rehearse(Workspace(root), ident, assume=assume, times=times, seed=seed, **more)
    return found.scenarios[0]


def draft(root: Path, *, n: int = 20, n_real: int = 0, **changed: Changes) -> Path:
    """A workspace with a draft `x`, whose model is not there."""
    make_workspace(root, n=n)
    if n_real:
        write_items(root / "data/real.jsonl", small_items(n_real, label=None))
        changed["real"] = "data/real.jsonl"
    done = new(root, "x", **changed)
    assert done.code == 0, done.err
    path = root / "registrations/x.yaml"
    text = path.read_text(encoding="utf-8")
    assert GGUF in text
    path.write_text(text.replace(GGUF, "models/not-here.gguf"), encoding="utf-8")
    return root


def outcomes(scenario: Scenario, ident: str) -> dict[str, int]:
    """How often a claim came out how."""
    (found,) = [c for c in claim_shares(scenario) if c.claim.id == ident]
    return {s.word: s.k for s in found.shares}


def metrics(scenario: Scenario, name: str) -> list[Metric]:
    """A registered metric of every play."""
    return [m for p in scenario.plays for ref, m in p.claimed.items() if str(ref) == name]


def rare(k: int, n: int, chance: float) -> bool:
    """Whether a count of n independent trials is too far off to be luck."""
    return bool(binomtest(k, n, chance).pvalue < TINY)


def totals(found: Sequence[Metric]) -> tuple[int, int]:
    """Numerators and denominators of a metric, summed over plays."""
    assert all(m.k is not None and m.n is not None for m in found)
    return sum(m.k or 0 for m in found), sum(m.n or 0 for m in found)
