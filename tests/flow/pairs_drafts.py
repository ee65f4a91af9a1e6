"""For tests of rehearsals: drafts of a study of pairs, and a judge played without the tool."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from prereg_judge.study.outcomes import PairScale
from prereg_judge.words import Order
from study.pairs_made import FIVE, FORCED, THREE
from support import write_items

SCALES = {"forced": FORCED, "three": THREE, "five": FIVE}
ORDERS: tuple[Order, Order] = ("ab", "ba")
REVERSAL = {"id": "reversal", "metric": "real.order.reversal.count", "pass": 1, "at_least": 1}


def _judge(ident: str, scale: PairScale) -> dict[str, Any]:
    names = list(scale.sides)
    schema = {"verdict": {"type": "string", "enum": names}}
    return {
        "judge": 1,
        "id": ident,
        "title": "Which answer is better?",
        "verdicts": names,
        "pair": {"answers": ["a", "b"], "sides": dict(scale.sides)},
        "verdict_field": "verdict",
        "fields": ["a", "b"],
        "rules": [],
        "system": 'Say which answer is better. Reply with JSON: {"verdict":"..."}.',
        "prompt": "A: {{ a }} B: {{ b }}",
        "system_role": "keep",
        "json_style": "compact",
        "output": {
            "type": "object",
            "properties": schema,
            "required": ["verdict"],
            "additionalProperties": False,
        },
    }


def labels(scale: PairScale, n: int) -> list[str]:
    """Labels of n items: every verdict of a scale in turn."""
    names = list(scale.sides)
    return [names[i % len(names)] for i in range(n)]


def pairs_workspace(root: Path, *, n: int) -> Path:
    """A workspace with three judges of pairs, and n labelled items for each."""
    (root / "registrations").mkdir(parents=True)
    (root / "judge").mkdir()
    for name, scale in SCALES.items():
        text = json.dumps(_judge(name, scale))
        (root / f"judge/{name}.yaml").write_text(text, encoding="utf-8")
        write_items(
            root / f"data/{name}.jsonl",
            [
                {"id": f"r{i}", "label": label, "a": f"This is answer {i}.", "b": f"That is {i}."}
                for i, label in enumerate(labels(scale, n))
            ],
        )
    return root


def write_draft(
    root: Path,
    ident: str = "x",
    *,
    scale: str = "five",
    predictions: Sequence[Mapping[str, Any]] = (),
    refuters: Sequence[Mapping[str, Any]] = (),
    protocol: Mapping[str, Any] | None = None,
    **keys: Any,
) -> None:
    """Write a draft of a study of pairs in both orders and two passes, unless told otherwise."""
    settings = {
        "passes": 2,
        "orders": ["ab", "ba"],
        "path": "generate",
        "prefix": "shared",
        "decoding": {"mode": "sampled", "temperature": 1, "top_k": 0, "top_p": 1, "min_p": 0},
        "max_tokens": 16,
        "parallel": 1,
        "hang": {"call_timeout_s": 60, "retries": 1},
        **(protocol or {}),
    }
    claims = list(predictions) or [REVERSAL]
    told = {
        "prereg": 1,
        "id": ident,
        "title": "Does the better answer stay better?",
        "study": "pairwise",
        "judge": f"judge/{scale}.yaml",
        "items": {"real": f"data/{scale}.jsonl"},
        "model": {"gguf": "models/not-here.gguf", "n_ctx": 512, "n_gpu_layers": 0},
        "protocol": settings,
        "missing": "disagree",
        "resampling": {"resamples": 200, "seed": 3, "by_stratum": False},
        "predictions": claims,
        "refuters": list(refuters),
        "primary": claims[0]["id"],
        "exposure": {"seen": "nothing"},
        **keys,
    }
    # By way of JSON, so that nothing is written once and referred to, which is refused.
    text = yaml.safe_dump(json.loads(json.dumps(told)), sort_keys=False)
    (root / f"registrations/{ident}.yaml").write_text(text, encoding="utf-8")


def spread_of(agreement: float, n: int) -> float:
    """The chance of the leading verdict, from p**2 + (1 - p)**2 / (n - 1) = agreement."""
    return (1 + math.sqrt((n - 1) * (n * agreement - 1))) / n


def by_brute_force(
    scale: PairScale, *, agreement: float, position: float, n: int, seed: int
) -> tuple[tuple[float, float], tuple[float, float]]:
    """Bias and excess of n items judged call by call, each with its standard error.

    The judge here thinks in answers and places and knows no chances of verdicts: a call is either
    taken by the place, or follows the row, or strays to any other verdict.
    """
    rng = np.random.default_rng(seed)
    sides = list(scale.sides.values())
    top, strongest = spread_of(agreement, len(sides)), max(sides)
    moved, extra = [], []
    for _ in range(n):
        better = sides[int(rng.integers(len(sides)))]  # of answer a
        found: dict[str, list[int]] = {}
        for order in ORDERS:
            facing = 1 if order == "ab" else -1
            for _ in range(2):
                if rng.random() < abs(position):
                    shown = (abs(better) or strongest) * (1 if position > 0 else -1)
                elif rng.random() < top:
                    shown = better * facing
                else:
                    others = [s for s in sides if s != better * facing]
                    shown = others[int(rng.integers(len(others)))]
                found.setdefault(order, []).append(int(np.sign(shown)) * facing)
        one, other = found["ab"], found["ba"]
        moved.append((one[0] - other[0]) / 4)
        swap = np.mean([a != b for a in one for b in other])
        extra.append(swap - np.mean([one[0] != one[1], other[0] != other[1]]))

    def told(values: list[float]) -> tuple[float, float]:
        return float(np.mean(values)), float(np.std(values, ddof=1)) / math.sqrt(n)

    return told(moved), told([float(x) for x in extra])
