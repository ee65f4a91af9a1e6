"""Registrations of labellings and annotators for tests: the same marks as files of each format."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from support import prereg
from tabling import band, write_registration, write_table

Format = Literal["rows", "conll", "brat"]
FORMATS: tuple[Format, ...] = ("rows", "conll", "brat")
Span = tuple[int, int, str]

NAMES = ("A", "B", "gold", "C")
WORDS = 8  # of each text
ROWS_FILE, CONLL_FILE, BRAT_FOLDER = "data/spans.jsonl", "data/spans.conll", "ann"
LABELS_FILE, VOTES_FILE, ADJUDICATED = "data/labels.csv", "data/votes.csv", "data/settled.csv"

# Gold is A's on most items and C is B's, so that the delivered reference favours A.
_A: list[Span] = [(0, 2, "PER"), (3, 4, "LOC")]
_B: list[Span] = [(0, 1, "PER"), (5, 6, "ORG")]


def _item(at: int) -> dict[str, list[Span]]:
    gold: list[Span] = _A if at % 4 else [(1, 2, "PER"), (5, 6, "LOC")]
    alternative: list[Span] = _B if at % 3 else [(0, 2, "PER"), (5, 6, "LOC")]
    return {"A": _A if at % 6 else [], "B": _B, "gold": gold, "C": alternative}


MARKS: dict[str, dict[str, list[Span]]] = {f"i{at:02d}": _item(at) for at in range(1, 13)}
Marks = Mapping[str, Mapping[str, list[Span]]]


def write_spans(root: Path, kind: Format, marks: Marks = MARKS) -> None:
    """Write marks, by words, as files of a format; of brat and rows in offsets of characters."""
    if kind == "rows":
        rows = [
            {"id": item, "part": "even" if at % 2 else "odd", "by": _offsets(by)}
            for at, (item, by) in enumerate(marks.items(), start=1)
        ]
        text = "".join(json.dumps(row) + "\n" for row in rows)
        _write(root / ROWS_FILE, text)
    elif kind == "conll":
        sentences = (_sentence(item, by) for item, by in marks.items())
        _write(root / CONLL_FILE, "\n".join(sentences))
    else:
        for item, by in marks.items():
            for name, spans in by.items():
                _write(root / BRAT_FOLDER / name / f"{item}.ann", _standoff(spans))
                _write(root / BRAT_FOLDER / name / f"{item}.txt", _text())


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def _text() -> str:
    return " ".join(f"w{at}" for at in range(WORDS))


def _offsets(by: Mapping[str, list[Span]]) -> dict[str, list[list[object]]]:
    return {
        name: [[3 * start, 3 * end - 1, kind] for start, end, kind in spans]
        for name, spans in by.items()
    }


def _sentence(item: str, by: Mapping[str, list[Span]]) -> str:
    lines = [f"# id = {item}"]
    for at in range(WORDS):
        tags = ["O"] * len(NAMES)
        for column, name in enumerate(NAMES):
            for start, end, kind in by[name]:
                if start <= at < end:
                    tags[column] = f"{'B' if at == start else 'I'}-{kind}"
        lines.append("\t".join([f"w{at}", *tags]))
    return "\n".join(lines) + "\n"


def _standoff(spans: list[Span]) -> str:
    lines = []
    for number, (start, end, kind) in enumerate(spans, start=1):
        said = _text()[3 * start : 3 * end - 1]
        lines.append(f"T{number}\t{kind} {3 * start} {3 * end - 1}\t{said}\n")
    return "".join(lines)


def files_of(kind: Format) -> list[dict[str, Any]]:
    """How a registration names the files of a format."""
    if kind == "rows":
        places = {name: f"by.{name}" for name in NAMES}
        return [{"file": ROWS_FILE, "format": "rows", "item": "id", "stratum": "part",
                 "labellings": places}]  # fmt: skip
    if kind == "conll":
        columns = {name: at for at, name in enumerate(NAMES, start=2)}
        return [{"file": CONLL_FILE, "format": "conll", "tags": "iob2", "labellings": columns}]
    return [{"file": BRAT_FOLDER, "format": "brat", "labellings": {n: n for n in NAMES}}]


def swap_keys(kind: Format = "rows", **keys: Any) -> dict[str, Any]:
    """`labellings` of a study that exchanges references."""
    usual: dict[str, Any] = {
        "form": "spans",
        "files": files_of(kind),
        "match": "relaxed",
        "duplicates": "keep_all",
        "outputs": ["A", "B"],
        "references": ["gold", "C"],
    }
    return {key: value for key, value in {**usual, **keys}.items() if value is not None}


def span_keys(kind: Format = "rows", **keys: Any) -> dict[str, Any]:
    """`labellings` of a study of annotators who mark spans."""
    pools = [{"name": "near", "match": ["A", "gold"]}, {"name": "far", "match": ["B", "C"]}]
    return swap_keys(kind, **{"match": None, "outputs": None, "references": None, "pools": pools,
                              **keys})  # fmt: skip


LABELS = {
    "A": "low low mid high high mid low mid",
    "B": "low mid mid high mid mid low low",
    "gold": "low low mid high high mid mid mid",
    "C": "low mid mid mid high low low low",
}


def write_labels(root: Path) -> None:
    """Write one label an item by each of four, as rows; as votes; and the adjudicator's."""
    said = {name: labels.split() for name, labels in LABELS.items()}
    rows = [(f"i{at}", "st" if at % 2 else "tr", *(said[n][at] for n in NAMES)) for at in range(8)]
    write_table(root / LABELS_FILE, ("item", "part", *NAMES), rows)
    votes = [
        (item, part, name, label)
        for item, part, *labels in rows
        for name, label in zip(NAMES, labels, strict=True)
    ]
    write_table(root / VOTES_FILE, ("item", "part", "who", "label"), votes)
    write_table(root / ADJUDICATED, ("item", "label"), [("i1", "low"), ("i4", "high")])


def label_keys(**keys: Any) -> dict[str, Any]:
    """`labellings` of the form labels: for annotators, unless outputs are named."""
    files = [{"file": LABELS_FILE, "format": "rows", "item": "item", "stratum": "part",
              "labellings": {name: name for name in NAMES}}]  # fmt: skip
    usual: dict[str, Any] = {"form": "labels", "files": files}
    if "outputs" not in keys:
        usual["pools"] = [{"name": "all", "match": "*"}]
    return {**usual, **keys}


def vote_keys(**keys: Any) -> dict[str, Any]:
    """`annotations` of a study of annotators: one pool."""
    return {
        "file": VOTES_FILE,
        "layout": "long",
        "columns": {"item": "item", "annotator": "who", "label": "label", "stratum": "part"},
        "pools": [{"name": "all", "match": "*"}],
        "key": "stored",
        "split": "exclude",
        **keys,
    }


SCALE = {"values": {"low": 1, "mid": 2, "high": 4}}
SETTLED = {"file": ADJUDICATED, "item": "item", "label": "label"}
DELTA = band("delta", "delta", [0.1, 0.9], output="A")
AGREED = band("agreed", "agreement.rate", [0.3, 0.9])
F1 = band("f1", "f1", [0.2, 0.9], match="relaxed")


def write_swap(root: Path, ident: str = "x", *, kind: Format = "rows", **keys: Any) -> None:
    """Write a registration that exchanges references, with a band on the delta of A."""
    told = {"labellings": swap_keys(kind), "bands": [DELTA], "annotations": None, **keys}
    write_registration(root, ident, "reference-swap", **told)


def write_annotators(root: Path, ident: str = "x", **keys: Any) -> None:
    """Write a registration of annotators; `labellings`, else the votes."""
    told: dict[str, Any] = {"bands": [AGREED], "annotations": vote_keys(), **keys}
    if "labellings" in keys:
        told["annotations"] = None
    write_registration(root, ident, "annotators", **told)


def locked(root: Path, ident: str = "x") -> Path:
    """Lock a registration that was written; the workspace."""
    done = prereg("lock", ident, root=root)
    assert done.code == 0, done
    return root


def lock_of(root: Path, ident: str = "x") -> Any:
    """The lock of a registration."""
    return json.loads((root / f"registrations/{ident}.lock.json").read_bytes())
