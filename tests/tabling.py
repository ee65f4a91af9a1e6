"""Registrations of tables for tests: votes and verdicts as files, and the commands over them."""

from __future__ import annotations

import csv
import json
import os
import shutil
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from study.pools_made import Votes
from support import GGUF, REPOSITORY, Done, prereg, write_items

VOTES = "data/votes.csv"
VERDICTS = "data/verdicts.csv"
WORDS = {"a": "a", "b": "b", "t": "tie"}
# Pool 1 first, as in `study.pools_made`.
ANNOTATIONS: dict[str, Any] = {
    "file": VOTES,
    "layout": "long",
    "columns": {
        "item": "item", "annotator": "who", "pool": "pool", "label": "label",
        "model_a": "first", "model_b": "second",
    },
    "labels": WORDS,
    "pools": [{"name": "crowd", "match": "crowd"}, {"name": "expert", "match": "expert"}],
    "key": "stored",
    "split": "tie",
}  # fmt: skip
JUDGE: dict[str, Any] = {
    "name": "j",
    "file": VERDICTS,
    "item": ["item"],
    "ab": "ab",
    "ba": "ba",
    "says": "answers",
    "words": WORDS,
}


def corpus(name: str) -> Path:
    """A file of the corpora; skips where they are not at hand."""
    given = os.environ.get("PREREG_CORPORA")
    path = (Path(given) if given else REPOSITORY.parent / "shared" / "data") / name
    if not path.is_file():
        pytest.skip(f"{name} is not here: set PREREG_CORPORA to the folder of the corpora")
    return path


def with_corpus(root: Path, name: str) -> str:
    """Copy a file of the corpora into a workspace; its name there."""
    path = root / "data" / Path(name).name
    path.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(corpus(name), path)
    return f"data/{path.name}"


def write_table(path: Path, header: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Write rows as CSV."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8", newline="") as stream:
        csv.writer(stream).writerows([header, *rows])


def write_votes(
    root: Path,
    items: Sequence[Votes],
    *,
    models: Sequence[tuple[str, str]] | None = None,
    file: str = VOTES,
    more: Mapping[str, Sequence[object]] | None = None,
) -> None:
    """Write one row a vote: the item's letters by the crowd, and those by the experts.

    `more` are further columns with a value an item. Every item is one of m1 and m2 unless models
    are given.
    """
    told = more or {}
    rows = [
        (f"i{at}", f"{pool}-{n}", pool, letter, *pair, *(told[name][at] for name in told))
        for at, (item, pair) in enumerate(
            zip(items, models or [("m1", "m2")] * len(items), strict=True)
        )
        for pool, letters in zip(("crowd", "expert"), item, strict=True)
        for n, letter in enumerate(letters)
    ]
    write_table(root / file, ("item", "who", "pool", "label", "first", "second", *told), rows)


def write_verdicts(root: Path, ab: str, ba: str | None = None, *, file: str = VERDICTS) -> None:
    """Write a judge's verdicts on the items i0, i1, ...: a letter each, `.` = none."""
    rows = [
        (f"i{at}", one.strip("."), other.strip("."))
        for at, (one, other) in enumerate(zip(ab, ab if ba is None else ba, strict=True))
    ]
    write_table(root / file, ("item", "ab", "ba"), rows)


def registration(ident: str, study: str, **keys: Any) -> dict[str, Any]:
    """A registration of tables with the usual keys; `keys` add to them, None leaves one out."""
    usual: dict[str, Any] = {
        "prereg": 1,
        "id": ident,
        "title": "What do the tables say?",
        "study": study,
        "resampling": {"resamples": 200, "seed": 5, "by_stratum": False},
        "exposure": {"seen": "the tables were made for a test"},
    }
    if study != "pairwise":
        usual["annotations"] = ANNOTATIONS
    if study in ("pairwise", "judge-pools"):
        usual["judges"] = [JUDGE]
    if study == "judge-pools":
        usual["resolve"] = "agree_or_tie"
    return {key: value for key, value in {**usual, **keys}.items() if value is not None}


def write_registration(root: Path, ident: str, study: str, **keys: Any) -> Path:
    """Write a registration's file."""
    path = root / f"registrations/{ident}.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    # By way of JSON, so that nothing is written once and referred to, which is refused.
    plain = json.loads(json.dumps(registration(ident, study, **keys)))
    text = yaml.safe_dump(plain, sort_keys=False)
    path.write_text(text, encoding="utf-8")
    return path


def lock_tables(root: Path, ident: str, study: str, **keys: Any) -> None:
    """Write and lock a registration."""
    write_registration(root, ident, study, **keys)
    done = prereg("lock", ident, root=root)
    assert done.code == 0, done


def scored(root: Path, ident: str, *args: str, code: int = 0) -> Any:
    """Run a locked registration and score it; the score as JSON."""
    done = prereg("run", ident, root=root)
    assert done.code == 0, done
    return score(root, ident, *args, code=code)


def score(root: Path, ident: str, *args: str, code: int = 0) -> Any:
    """Score a run; the score as JSON."""
    done = prereg("score", ident, "--json", *args, root=root)
    assert done.code == code, done
    assert "Traceback" not in done.err
    return done.json


def refused(root: Path, *fragments: str, ident: str = "x", command: str = "lock") -> Done:
    """`prereg lock` (or another) ends with 2 and says all this, with nothing locked."""
    done = prereg(command, ident, root=root)
    assert done.code == 2, done
    said = " ".join(done.err.split()).lower()  # what would do begins a sentence
    for fragment in fragments:
        assert fragment.lower() in said, (fragment, said)
    assert "Traceback" not in done.err
    assert not (root / f"registrations/{ident}.lock.json").exists()
    return done


def claim(found: Any, ident: str) -> Any:
    """One claim of a score."""
    return next(c for c in found["claims"] if c["id"] == ident)


def outcomes(found: Any) -> dict[str, str]:
    """How each claim of a score came out."""
    return {c["id"]: c["outcome"] for c in found["claims"]}


def metric(found: Any, name: str, **params: object) -> Any:
    """One metric of a score's full list."""
    wanted = {key.rstrip("_"): str(value) for key, value in params.items()}
    (one,) = (
        m
        for m in found["metrics"]
        if m["metric"] == name and {k: str(v) for k, v in m["params"].items()} == wanted
    )
    return one


def band(ident: str, name: str, between: Sequence[float], **params: object) -> dict[str, Any]:
    """A band on a metric."""
    told = {key.rstrip("_"): value for key, value in params.items()}
    return {"id": ident, "metric": name, **told, "between": list(between)}


def ratios(found: Any) -> dict[str, tuple[int, int]]:
    """Numerator and denominator of the metric of every claim."""
    return {c["id"]: (c["observed"][0]["k"], c["observed"][0]["n"]) for c in found["claims"]}


# --- Judges of pairs that are run -----------------------------------------------------------------

PAIR_JUDGE = """\
judge: 1
id: pairs
title: Which answer is better?
verdicts: [FIRST, SAME, SECOND]
pair:
  answers: [one, two]
  sides: {FIRST: 1, SAME: 0, SECOND: -1}
verdict_field: verdict
fields: [one, two]
rules: []
system: "Compare two answers. Reply with JSON only."
prompt: "First: {{ one }} Second: {{ two }} Which is better: FIRST, SAME or SECOND?"
system_role: keep
json_style: compact
output:
  type: object
  properties:
    verdict: {type: string, enum: [FIRST, SAME, SECOND]}
  required: [verdict]
  additionalProperties: false
"""


def write_pairs(
    root: Path,
    ident: str = "x",
    *,
    study: str = "pairwise",
    judge: str = PAIR_JUDGE,
    rows: Sequence[Mapping[str, Any]] | None = None,
    **keys: Any,
) -> None:
    """Write a registration that runs a judge on pairs, in both orders, and all that it needs."""
    (root / "judge").mkdir(parents=True, exist_ok=True)
    (root / "judge/pairs.yaml").write_text(judge, encoding="utf-8")
    usual = [{"id": f"i{n}", "one": f"short {n}", "two": f"a longer text {n}"} for n in range(3)]
    write_items(root / "data/pairs.jsonl", usual if rows is None else rows)
    protocol = {
        "passes": 1, "orders": ["ab", "ba"], "path": "generate", "prefix": "shared",
        "parallel": 1, "decoding": {"mode": "greedy"}, "max_tokens": 16,
        "hang": {"call_timeout_s": 60, "retries": 1},
    } | keys.pop("protocol", {})  # fmt: skip
    told: dict[str, Any] = {
        "judges": None,
        "judge": "judge/pairs.yaml",
        "items": {"real": "data/pairs.jsonl"},
        "model": {"gguf": GGUF, "n_ctx": 512, "n_gpu_layers": 0},
        "protocol": protocol,
        "missing": "disagree",
        "annotations": None,
        "bands": [band("c", "real.order.reversal.count", [0, 1], pass_=1)],
    }
    write_registration(root, ident, study, **{**told, **keys})
